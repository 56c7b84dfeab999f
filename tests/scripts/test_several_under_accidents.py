"""One ALTER TABLE of several changes under every accident at every step, with writes at each round.

After every round clients see the table as it was before the statement or as it is after it, and
nothing between (all parts in one version, or none).
"""

import pytest

from exuvia.catalog.model import SchemaState
from exuvia.ddl.job import JobState
from support.few import one_in
from support.script_actions import SEVERAL, WITH_MOVED_ROWS
from support.scripts import Play, Script, check

CASES = [
    Script(label, accident, at)
    for label, several in SEVERAL.items()
    for accident in ("run", "undo", "crash", "depose", "pause", "hold")
    for at in range(several.steps + 1 if accident != "run" else 1)
]


def expected(script):
    """States the job may end in."""
    several = SEVERAL[script.label]
    if script.accident != "undo" or script.at >= several.edge:
        ends = {JobState.SYNCED}
    else:
        ends = {JobState.ROLLBACK_DONE if script.at else JobState.CANCELLED}
    if script.label == "several, unique":
        ends |= {JobState.ROLLBACK_DONE}  # writes made a duplicate before anybody judged it
    return ends


def shown(info):
    """What clients see of a table."""
    public = [each for each in info.indexes if each.state == SchemaState.PUBLIC]
    indexes = [(each.idx_name.L, [part.name.L for part in each.idx_cols]) for each in public]
    checks = [each for each in info.checks if each.state == SchemaState.PUBLIC]
    columns = [(column.name.L, column.type.Tp) for column in info.public_columns]
    return columns, sorted(indexes), [(each.constraint_name.L, each.expr_string) for each in checks]


class Watched(Play):
    """Notes what clients see after each round."""

    def __init__(self, script, seed):
        super().__init__(script, seed)
        self.seen = []

    def run(self):
        step = self.cluster.step

        def watched(rounds=1):
            step(rounds)
            view = shown(self.cluster.table("t").info)
            if view not in self.seen:
                self.seen.append(view)

        self.seen.append(shown(self.before.info))
        self.cluster.step = watched
        return super().run()


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("script", one_in(7, CASES), ids=str)
def test_several_changes_under_an_accident(script, seed):
    play = Watched(script, seed)
    job = play.run()
    assert job.state in expected(script), job.describe()
    check(play, job)
    if script.label not in WITH_MOVED_ROWS:  # whose key is another one before all have crossed
        assert len(play.seen) == (2 if job.state == JobState.SYNCED else 1), play.seen


def test_every_step_is_there():
    assert len(CASES) == sum(1 + 5 * (several.steps + 1) for several in SEVERAL.values()) > 140
    for label, several in SEVERAL.items():
        play = Watched(Script(label, "run", 0), 0)
        if play.run().state == JobState.SYNCED:
            assert play.taken == several.steps, label
