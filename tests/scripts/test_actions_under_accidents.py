"""Every action x {run, undo, crash, deposed owner, pause} at each step, with writes at every round.

At the end of each: rows equal the model of what committed, public indexes are exact, what was
dropped or undone is gone from the store, and the job is in history as its accident calls for. A job
that can be turned back is paused within a few rounds, and ends as if nothing had been; one that
cannot answers 8260 and goes on.
"""

import pytest

from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.job import JobState
from support.few import one_in
from support.scripts import (
    ASKED,
    ROWS,
    Play,
    Script,
    check,
    edge_of,
    expected,
    is_undoable,
    scripts,
    steps_of,
)

CASES = scripts()


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("script", one_in(9, CASES), ids=str)
def test_an_action_under_an_accident(script, seed):
    play = Play(script, seed)
    job = play.run()
    assert job.state in expected(script), job.describe()
    check(play, job)
    assert play.traffic.committed + play.traffic.refused > ROWS


def test_every_action_every_accident_and_every_step_is_there():
    assert {label.split(",")[0] for label in ASKED} == {a.label for a in ACTIONS.values()}
    wanted = sum(1 + 3 * (steps_of(label) + 1) for label in ASKED)
    assert len(CASES) == len(set(CASES)) == wanted
    assert wanted > 800 and len(PAUSED) > 150
    print(f"{len(CASES)} scripts")


def test_both_ends_of_a_unique_build_are_reached():
    """Else the scripts prove nothing about one of them."""
    script = next(each for each in CASES if each.label == "add index, unique")
    ends = [Play(script, seed).run().state for seed in range(60)]
    assert {JobState.SYNCED, JobState.ROLLBACK_DONE} <= set(ends)


# -- pauses ----------------------------------------------------------------------------------------

UNIQUE = (
    "add index, unique",
    "add index, two",
    "add index, global unique",
    "exuvia undo, rows that meet",
)
PAUSED = [Script(label, "pause", at) for label in ASKED for at in range(steps_of(label))]


@pytest.mark.parametrize("script", one_in(5, PAUSED, first=1), ids=str)
def test_an_action_is_paused_and_resumed(script):
    play = Play(script, 0)
    job = play.run()
    ends = (
        {JobState.SYNCED, JobState.ROLLBACK_DONE} if script.label in UNIQUE else {JobState.SYNCED}
    )
    assert job.state in ends, job.describe()
    turns = script.at == 0 or (is_undoable(script.label) and script.at < edge_of(script.label))
    if script.label != "exchange partition" or script.at != edge_of(script.label) - 1:
        assert play.paused == (1 if turns else 0)  # that step only waits, and here for nobody
    check(play, job)


# -- holds -----------------------------------------------------------------------------------------

HELD = [Script(label, "hold", at) for label in ASKED for at in range(steps_of(label))]
LONG = [Script(label, "hold long", 0) for label in ASKED if is_undoable(label)]


@pytest.mark.parametrize("script", one_in(5, [*HELD, *LONG], first=2), ids=str)
def test_an_action_is_held_and_completed(script):
    """Before what it changes is public, for longer than its verification counts, too."""
    play = Play(script, 0)
    job = play.run()
    if script.label in (*UNIQUE, "add index, expression") and job.err is not None:
        assert job.err.code == 1062  # writes made a duplicate before anybody judged it
    else:
        assert job.state == JobState.SYNCED, job.describe()
    turns = script.at == 0 or (is_undoable(script.label) and script.at < edge_of(script.label))
    if job.state == JobState.SYNCED and script.at != edge_of(script.label) - 1:
        assert play.held == (1 if turns else 0)
    check(play, job)
