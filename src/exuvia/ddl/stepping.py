"""One step of one action as plain data: what `decide` and `parts` make their decisions of.

    edit  ->  the element moves  ->  Taken(job, world, ranges, takes)

Several steps, each on the world the one before it left, are one transaction (ddl/parts.py).
"""

from typing import NamedTuple

from exuvia.catalog.model import evolve
from exuvia.ddl.action import Action, Step
from exuvia.ddl.actions import action_of
from exuvia.ddl.codes import JobState
from exuvia.ddl.job import Job
from exuvia.ddl.world import Decision, DeleteRange, Event, ReorgOrder, Wait, World


class Taken(NamedTuple):
    """A step taken. `placed` is the job after the step's edit: what its callbacks look at."""

    step: Step
    placed: Job
    job: Job
    before: World
    after: World

    @property
    def ranges(self) -> tuple[DeleteRange, ...]:
        """What the step leaves to be emptied."""
        return self.step.leaves(self.placed, self.before) if self.step.leaves else ()

    @property
    def takes(self) -> tuple[int, ...]:
        """Ids of tables it takes away from their writers."""
        return self.step.takes(self.placed, self.before) if self.step.takes else ()

    @property
    def recalls(self) -> int:
        """The ended job whose ranges it takes back from deletion, or 0."""
        return self.step.recalls(self.placed) if self.step.recalls else 0

    def events(self, after: World) -> tuple[Event, ...]:
        """What is told once the job has ended well, in the world its transaction leaves."""
        if self.step.event is None or self.placed.state != JobState.DONE:
            return ()
        told = self.step.event(self.placed, self.before, after)
        return told if isinstance(told, tuple) else (told,)


def take(job: Job, world: World, action: Action, step: Step) -> Taken:
    """One step of an action from where the job stands; `job.state` is the one it will have."""
    placed, edited = step.edit(job, world) if step.edit else (job, world)
    after = action.element.move(placed, edited, step.target)
    moved = evolve(placed, schema_state=step.target)
    if action.tail and step is action.path[-1]:
        moved = evolve(moved, schema_state=action.tail[0].source, exuvia_tail=True)
    if world.filled:
        moved = evolve(moved, row_count=world.rows, exuvia_note=world.note)
    return Taken(step, placed, moved, world, after)


def is_last(action: Action, step: Step) -> bool:
    """Whether nothing follows the step."""
    return step is (action.tail or action.path)[-1]


def stamped(after: World, before: World) -> World:
    """The table with the time of its change."""
    if after.table is None or after.table == before.table:
        return after
    return evolve(after, table=evolve(after.table, update_timestamp=before.now))


def with_result(job: Job, before: World, after: World) -> Job:
    """A job that has ended keeps what it made, or what was there before it dropped it."""
    binlog = evolve(
        job.binlog,
        DBInfo=after.database or before.database,
        TableInfo=after.table or before.table,
    )
    return evolve(job, binlog=evolve(binlog, FinishedTS=after.now))


def reorg_order(job: Job, moved: Job) -> ReorgOrder:
    """What the move from where `job` stands asks of a reorg that runs in a state."""
    action = action_of(job)
    goes_on = moved.state in (JobState.RUNNING, JobState.DONE)
    if goes_on and action.waits_in(moved.schema_state, moved.exuvia_tail):
        return ReorgOrder.START
    was_in = action.waits_in(job.schema_state, job.exuvia_tail)
    return ReorgOrder.LEAVE if was_in else ReorgOrder.NONE


def wait(job: Job, world: World, verdict: Wait) -> Decision:
    """Nothing moves, and the job says why; a plan says what is to run meanwhile."""
    waiting = evolve(job, exuvia_wait=verdict.reason)
    order = ReorgOrder.RUN if verdict.plan else ReorgOrder.NONE
    return Decision(job=waiting, before=world, after=world, reorg=order, plan=verdict.plan)


def archive(job: Job, world: World) -> Decision:
    """The job goes to history as it stands."""
    binlog = evolve(job.binlog, FinishedTS=world.now)
    ended = evolve(job, binlog=binlog, exuvia_wait="", dependency_id=0, seq_num=world.place)
    return Decision(job=ended, before=world, after=world, archive=True)
