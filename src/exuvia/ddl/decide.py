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

Pure: same job, same world, same decision. Nothing here reads a store or a clock.
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql import refuse
from exuvia.catalog.model import evolve
from exuvia.catalog.state import SchemaState
from exuvia.ddl.action import Action, Step
from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.codes import JobState
from exuvia.ddl.job import Job, failed
from exuvia.ddl.world import Decision, ReorgOrder, Wait, World


def decide(job: Job, world: World) -> Decision:
    """The next step of a job in this world. Raises Broken where no step can exist."""
    match job.state:
        case JobState.NONE | JobState.QUEUEING | JobState.RUNNING:
            return _forward(job, world)
        case JobState.ROLLINGBACK:
            return _back(job, world)
        case JobState.CANCELLING:
            return _turn_back(job, world, refuse(8214))
        case JobState.PAUSING:
            return _pause(job, world)
        case JobState.PAUSED:
            return Decision(job=job, before=world, after=world, parks=True)
        case JobState.DONE:
            return _archive(evolve(job, state=JobState.SYNCED), world)
        case JobState.ROLLBACK_DONE | JobState.CANCELLED | JobState.SYNCED:
            return _archive(job, world)


def give_up(job: Job, world: World, error: Refused) -> Decision:
    """The step that follows when an error has come too often, or a person or the data says no."""
    return _turn_back(job, world, error)


def _forward(job: Job, world: World) -> Decision:
    action = ACTIONS[job.type]
    if not job.begun:
        for refusal in action.refuses:
            error = refusal(job, world)
            if error is not None:
                return _turn_back(job, world, error)
        job = evolve(job, schema_state=action.path[0].source, real_start_ts=world.now)
    step = action.step_from(job.schema_state)
    verdict = step.after(job, world) if step.after else None
    if isinstance(verdict, Refused):
        return _turn_back(job, world, verdict)
    if isinstance(verdict, Wait):
        order = ReorgOrder.RUN if verdict.reorg else ReorgOrder.NONE
        shown = evolve(job, row_count=world.rows, exuvia_note=world.note)
        return _wait(shown, world, verdict.reason, order)
    last = step is action.path[-1]
    return _take(
        evolve(job, state=JobState.DONE if last else JobState.RUNNING), world, action, step
    )


def _back(job: Job, world: World) -> Decision:
    undo = ACTIONS[job.type].undo
    if undo is None:
        return _wait(job, world, f"{job.action_text} cannot be undone")
    step = undo.step_from(job.schema_state)
    last = step is undo.path[-1]
    state = JobState.ROLLBACK_DONE if last else JobState.ROLLINGBACK
    return _take(evolve(job, state=state), world, undo, step)


def _turn_back(job: Job, world: World, error: Refused) -> Decision:
    """The error is the job's end: at once when nothing changed, else by the opposite action."""
    action = ACTIONS[job.type]
    if not job.begun or job.schema_state == action.path[0].source:
        return _archive(evolve(failed(job, error), state=JobState.CANCELLED), world)
    if action.undo is None:
        return _wait(evolve(failed(job, error), state=JobState.RUNNING), world, error.message)
    return _back(evolve(failed(job, error), state=JobState.ROLLINGBACK), world)


def _take(job: Job, world: World, action: Action, step: Step) -> Decision:
    """One step of an action from where the job stands."""
    left = job.schema_state
    placed_job, placed = step.edit(job, world) if step.edit else (job, world)
    after = _stamped(action.element.move(placed_job, placed, step.target), world)
    ends = placed_job.state == JobState.DONE
    moved = evolve(placed_job, schema_state=step.target, exuvia_wait="", dependency_id=0)
    if world.filled:
        moved = evolve(moved, row_count=world.rows, exuvia_note=world.note)
    if ends:
        moved = _with_result(moved, after)
    return Decision(
        job=moved,
        before=world,
        after=after,
        moves=True,
        ranges=step.leaves(placed_job, world) if step.leaves else (),
        event=step.event(placed_job, world, after) if step.event and ends else None,
        reorg=_reorg_order(job, left, step.target),
    )


def _stamped(after: World, before: World) -> World:
    if after.table is None or after.table == before.table:
        return after
    return evolve(after, table=evolve(after.table, update_timestamp=before.now))


def _with_result(job: Job, after: World) -> Job:
    binlog = evolve(job.binlog, DBInfo=after.database, TableInfo=after.table)
    return evolve(job, binlog=evolve(binlog, FinishedTS=after.now))


def _reorg_order(job: Job, left: SchemaState, target: SchemaState) -> ReorgOrder:
    if not ACTIONS[job.type].has_reorg:
        return ReorgOrder.NONE
    if target == SchemaState.WRITE_REORG:
        return ReorgOrder.START
    return ReorgOrder.LEAVE if left == SchemaState.WRITE_REORG else ReorgOrder.NONE


def _pause(job: Job, world: World) -> Decision:
    reorg = _reorg_order(job, job.schema_state, SchemaState.ABSENT)
    paused = evolve(job, state=JobState.PAUSED, exuvia_wait="waiting: ADMIN RESUME DDL JOBS")
    return Decision(job=paused, before=world, after=world, parks=True, reorg=reorg)


def _wait(job: Job, world: World, reason: str, reorg: ReorgOrder = ReorgOrder.NONE) -> Decision:
    waiting = evolve(job, exuvia_wait=reason)
    return Decision(job=waiting, before=world, after=world, reorg=reorg)


def _archive(job: Job, world: World) -> Decision:
    binlog = evolve(job.binlog, FinishedTS=world.now)
    ended = evolve(job, binlog=binlog, exuvia_wait="", dependency_id=0, seq_num=world.place)
    return Decision(job=ended, before=world, after=world, archive=True)
