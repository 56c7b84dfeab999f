"""What a job does next: the one place that looks at its state.

    queueing, running   refused at its first step   -> cancelled, into history
                        something is missing        -> a wait that says what
                        a step                      -> one state further; the last one: done
                        the reorg failed            -> rollingback, by a step of the opposite action
    cancelling          nothing changed             -> cancelled, into history
                        the action can be undone    -> rollingback, likewise
                        it cannot                   -> running
    rollingback         a step back                 -> one state back; the last one: rollback done
    pausing             its reorg is fenced         -> paused
    done, rollback done, cancelled                  -> every node has the last version: into history

A job of several changes is walked by ddl/several.py; the states are the same.

Pure: same job, same world, same decision. Nothing here reads a store or a clock.
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrCancelledDDLJob
from exuvia.catalog.model import evolve
from exuvia.ddl import parts, several
from exuvia.ddl.action import Action, Step
from exuvia.ddl.actions import action_of
from exuvia.ddl.codes import JobState
from exuvia.ddl.job import Job, failed
from exuvia.ddl.stepping import archive, is_last, reorg_order, stamped, take, wait, with_result
from exuvia.ddl.world import Decision, ReorgOrder, Wait, World

_ROLLED_BACK = "DDL job rollback, error msg: "


def decide(job: Job, world: World) -> Decision:
    """The next step of a job in this world. Raises Broken where no step can exist."""
    match job.state:
        case JobState.NONE | JobState.QUEUEING | JobState.RUNNING:
            return several.forward(job, world) if parts.of(job) else _forward(job, world)
        case JobState.ROLLINGBACK:
            return several.back(job, world) if parts.of(job) else _back(job, world)
        case JobState.CANCELLING:
            return give_up(job, world, reason_to_end(job))
        case JobState.PAUSING:
            return _pause(job, world)
        case JobState.PAUSED:
            return Decision(job=job, before=world, after=world, parks=True)
        case JobState.DONE:
            return archive(evolve(job, state=JobState.SYNCED), world)
        case JobState.ROLLBACK_DONE | JobState.CANCELLED | JobState.SYNCED:
            return archive(job, world)


def reason_to_end(job: Job) -> Refused:
    """What a job ends with that a person, or too many errors, turn back: its first error."""
    if job.err is None:
        return ErrCancelledDDLJob()
    return job.err.raised(_ROLLED_BACK)


def give_up(job: Job, world: World, error: Refused) -> Decision:
    """The step that follows when an error has come too often, or a person or the data says no."""
    turn = several.turn_back if parts.of(job) else _turn_back
    return turn(job, world, error)


def _forward(job: Job, world: World) -> Decision:
    action = action_of(job)
    if not job.begun:
        for refusal in action.refuses:
            error = refusal(job, world)
            if error is not None:
                return _turn_back(job, world, error)
        job = evolve(job, schema_state=action.path[0].source, real_start_ts=world.now)
    step = action.step_from(job.schema_state, job.exuvia_tail)
    verdict = step.after(job, world) if step.after else None
    if isinstance(verdict, Refused):
        return _turn_back(job, world, verdict)
    if isinstance(verdict, Wait):
        return wait(evolve(job, row_count=world.rows, exuvia_note=world.note), world, verdict)
    state = JobState.DONE if is_last(action, step) else JobState.RUNNING
    return _take(evolve(job, state=state), world, action, step)


def _back(job: Job, world: World) -> Decision:
    undo = action_of(job).undo
    if undo is None:
        return wait(job, world, Wait(f"{job.action_text} cannot be undone"))
    step = undo.step_from(job.schema_state)
    last = step is undo.path[-1]
    state = JobState.ROLLBACK_DONE if last else JobState.ROLLINGBACK
    return _take(evolve(job, state=state), world, undo, step)


def _turn_back(job: Job, world: World, error: Refused) -> Decision:
    """The error is the job's end: at once when nothing changed, else by the opposite action."""
    action = action_of(job)
    if not job.begun or job.schema_state == action.path[0].source:
        return archive(evolve(failed(job, error), state=JobState.CANCELLED), world)
    if action.undo is None or job.exuvia_tail:
        going_on = evolve(failed(job, error), state=JobState.RUNNING)
        return wait(going_on, world, Wait(error.message))
    return _back(evolve(failed(job, error), state=JobState.ROLLINGBACK), world)


def _take(job: Job, world: World, action: Action, step: Step) -> Decision:
    """One step of an action from where the job stands."""
    taken = take(job, world, action, step)
    after = stamped(taken.after, world)
    moved = evolve(taken.job, exuvia_wait="", dependency_id=0)
    return Decision(
        job=with_result(moved, world, after) if job.state == JobState.DONE else moved,
        before=world,
        after=after,
        moves=True,
        ranges=taken.ranges,
        event=taken.events(after) or None,
        recalls=taken.recalls,
        reorg=reorg_order(job, moved),
        takes=taken.takes,
        silent=step.silent,
    )


def _pause(job: Job, world: World) -> Decision:
    """It keeps its place; what it fills may go on no more."""
    walking = several.walking(job)
    fills = walking is not None and action_of(walking).waits_in(
        walking.schema_state, walking.exuvia_tail
    )
    return Decision(
        job=evolve(job, state=JobState.PAUSED, exuvia_wait="waiting: ADMIN RESUME DDL JOBS"),
        before=world,
        after=world,
        parks=True,
        reorg=ReorgOrder.LEAVE if fills else ReorgOrder.NONE,
    )
