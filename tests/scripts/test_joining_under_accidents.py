"""A second change of a table joins the job of a group's first one, wherever that stands, under any
accident at every step, with writes at each round.

After every round clients see the table as it was before both, or as it is after both.
"""

import pytest

from exuvia.ddl import admin, groups
from exuvia.ddl.job import JobState
from support.script_actions import JOINING
from support.scripts import Play, Script, check

STANDS = 6
"""Places where the first change may stand: in the queue, its states, held."""
MOST_STEPS = 13


class JoiningPlay(Play):
    """The second statement is asked for in place `joins`: 0 in the queue, 1 behind a step; the
    group is completed when the accident, at step `script.at`, is over."""

    def __init__(self, script, joins):
        super().__init__(script, joins)
        self.joins, self.joined, self.asked = joins, False, False
        self.seen = [self.shown()]
        step = self.cluster.step

        def watched(rounds=1):
            step(rounds)
            now = self.shown()
            if now not in self.seen:
                self.seen.append(now)
            self.go_on()

        self.cluster.step = watched
        if not joins:
            self.go_on()  # nobody has looked at the first one yet

    def shown(self):
        """What clients see: columns with their types, and indexes."""
        info = self.cluster.table("t").info
        columns = [(each.name.L, each.type.Tp) for each in info.public_columns]
        public = sorted(each.idx_name.L for each in info.indexes if each.state == 5)
        return columns, public

    def submit(self, job):
        txn = self.cluster.store.begin()
        groups.create(txn, "g", "root@%")
        txn.commit()
        return self.cluster.submitter.submit_to_group(job, "g").id

    def go_on(self):
        job = self.cluster.job(self.job_id)
        if job.in_history or job.state in (JobState.CANCELLING, JobState.ROLLINGBACK):
            return
        if not self.joined and (self.taken >= self.joins - 1 or job.exuvia_held):
            self.joined = True
            self.stood = job.exuvia_held, job.state, job.schema_state
            more = JOINING[self.script.label].then(self.cluster)
            whole = self.cluster.submitter.submit_to_group(more, "g")
            assert whole.id == self.job_id and not whole.exuvia_held
            if job.exuvia_filled:
                assert whole.multi_schema_info.sub_jobs[0].exuvia_filled, "it need not fill again"
        elif self.joined and not self.asked and (self.struck or job.exuvia_held):
            self.asked = True
            txn = self.cluster.store.begin()
            groups.ask_to_complete(txn, "g")
            txn.commit()

    def _pause_and_resume(self):
        if not self.cluster.job(self.job_id).exuvia_held:  # 8262: it is paused already
            super()._pause_and_resume()

    def _cancel(self):
        admin.command_now(self.cluster.store, "cancel", [self.job_id])


def cases():
    for label in JOINING:
        for joins in range(STANDS):
            yield Script(label, "run", 0), joins
            for at in range(joins, MOST_STEPS):
                yield Script(label, "crash", at), joins
            for accident in ("depose", "pause", "undo"):
                for at in range(joins, MOST_STEPS, 3):
                    yield Script(label, accident, at), joins


CASES = list(cases())


def short_or_long(n, case):
    """The short run takes a seventh of them: no two labels the same places."""
    marks = () if n % 7 == 0 else pytest.mark.long
    return pytest.param(*case, marks=marks, id=f"{case[0]}-joins-{case[1]}")


@pytest.mark.parametrize(("script", "joins"), [short_or_long(*each) for each in enumerate(CASES)])
def test_joining_under_an_accident(script, joins):
    play = JoiningPlay(script, joins)
    job = play.run()
    assert job.in_history, job.describe()
    if job.state != JobState.SYNCED:
        assert script.accident == "undo" and len(play.seen) == 1, (job.describe(), play.seen)
    else:
        assert play.joined and len(play.seen) == 2, play.seen
    check(play, job)


def test_it_joins_wherever_the_first_one_may_stand():
    stood = set()
    for joins in range(STANDS):
        play = JoiningPlay(Script("joining, index and column", "run", 0), joins)
        assert play.run().state == JobState.SYNCED
        stood.add(play.stood)
    assert {held for held, _, _ in stood} == {False, True}
    assert {state for held, _, state in stood if not held} == {0, 1, 2, 3}, stood
    assert len(CASES) > 900
