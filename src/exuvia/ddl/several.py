"""One ALTER TABLE of several changes: all of them become public in one version, or none.

    towards the edge   each part in its order up to the last state it can turn back from; a reorg is
                       run and verified there, and noted, so that it is not run again
    over the edge      every part takes its edge step in ONE transaction and ONE version
    behind it          what the parts have left to do, one after another

          part 1   none > delete only > write only > write reorganization |
          part 2                                                     none |  > public
          part 3                                                   public |  > write only ... > none
                                                                         edge

The edge of an action that can be undone is the last step of its path, of any other one the first.
Failure or cancel before the edge: parts that began walk back by their undo, the last one first;
the others are cancelled. Behind the edge nothing turns back.

The parts' refusals are judged before anything moves, each on the table as
it is, with the columns of the parts before it: nobody else changes the table meanwhile.
"""

from exuvia.base.errors import Broken, Refused
from exuvia.catalog.model import evolve
from exuvia.ddl.action import Action, Step
from exuvia.ddl.actions import action_of
from exuvia.ddl.codes import ActionCode, JobState
from exuvia.ddl.job import Job, SubJob, failed
from exuvia.ddl.parts import all_of, info_of, of, part, with_part
from exuvia.ddl.stepping import (
    Taken,
    archive,
    is_last,
    reorg_order,
    stamped,
    take,
    wait,
    with_result,
)
from exuvia.ddl.world import Decision, Event, ReorgOrder, Wait, World

_OVER = frozenset({JobState.ROLLBACK_DONE, JobState.CANCELLED})


def walking(job: Job) -> Job | None:
    """The part whose turn it is; None when all stand at the edge. A job of one change is itself."""
    if not of(job):
        return job
    at = _next(job)
    return None if at is None else part(job, at)


# -- forward ---------------------------------------------------------------------------------------


def forward(job: Job, world: World) -> Decision:
    """The next step of a job of several changes."""
    if not job.begun:
        error = _refusal(job, world)
        if error is not None:
            return turn_back(job, world, error)
        job = evolve(job, real_start_ts=world.now)
    at = _next(job)
    if at is None:
        return _cross(job, world)
    return _walk(job, world, at)


def _refusal(job: Job, world: World) -> Refused | None:
    for each in all_of(job):
        action = action_of(each)
        for refusal in action.refuses:
            error = refusal(each, world)
            if error is not None:
                return error
        if each.type == ActionCode.ADD_COLUMN:
            for step in action.path:
                taken = take(each, world, action, step)
                each, world = taken.job, taken.after
    return None


def _next(job: Job) -> int | None:
    """Number of the part that is to move by itself; None when all stand at the edge."""
    behind = not info_of(job).revertible
    for at, sub in enumerate(of(job)):
        done = sub.state == JobState.DONE if behind else _stands_at_edge(part(job, at), sub)
        if not done:
            return at
    return None


def _edge(action: Action) -> Step:
    return action.path[-1] if action.undo else action.path[0]


def _stands_at_edge(walked: Job, sub: SubJob) -> bool:
    action = action_of(walked)
    edge = _edge(action)
    stands = _step(walked, action) is edge
    return stands and (edge.after is None or sub.exuvia_filled)


def _step(walked: Job, action: Action) -> Step:
    if not walked.begun:
        return action.path[0]
    return action.step_from(walked.schema_state, walked.exuvia_tail)


def _begun(walked: Job, action: Action, now: int) -> Job:
    if walked.begun:
        return walked
    return evolve(walked, schema_state=action.path[0].source, real_start_ts=now)


def _walk(job: Job, world: World, at: int) -> Decision:
    """One part takes a step, or waits for its reorg, or is found ready for the edge."""
    action = action_of(part(job, at))
    step = _step(part(job, at), action)
    walked = _begun(part(job, at), action, world.now)
    verdict = step.after(walked, world) if step.after else None
    if isinstance(verdict, Refused):
        return turn_back(job, world, verdict)
    if isinstance(verdict, Wait):
        shown = evolve(walked, row_count=world.rows, exuvia_note=world.note)
        noted = evolve(with_part(job, at, shown), exuvia_note=world.note)
        return wait(noted, world, verdict)
    if info_of(job).revertible and step is _edge(action):
        return _note_filled(job, world, at, walked)
    state = JobState.DONE if is_last(action, step) else JobState.RUNNING
    taken = take(evolve(walked, state=state), world, action, step)
    job = evolve(with_part(job, at, taken.job), state=_state_after(job, at, state))
    return _moved(job, world, [(at, taken)], reorg_order(walked, taken.job))


def _note_filled(job: Job, world: World, at: int, walked: Job) -> Decision:
    """Its reorg has ended and is left: whatever of it still runs is refused from now on."""
    note = world.note if world.filled else ""
    ready = evolve(walked, state=JobState.RUNNING, row_count=world.rows, exuvia_note=note)
    job = evolve(with_part(job, at, ready, exuvia_filled=True), state=JobState.RUNNING)
    job = evolve(job, exuvia_wait="", exuvia_note="")
    return Decision(job=job, before=world, after=world, keeps=True, reorg=ReorgOrder.LEAVE)


def _state_after(job: Job, at: int, state: JobState) -> JobState:
    """Done when the last part that was not has become so."""
    others = [sub.state for n, sub in enumerate(of(job)) if n != at]
    done = state == JobState.DONE and all(other == JobState.DONE for other in others)
    return JobState.DONE if done else JobState.RUNNING


def _cross(job: Job, world: World) -> Decision:
    """Every part over its edge, each on the world the one before it left."""
    steps: list[tuple[int, Taken]] = []
    reached = world
    for at in range(len(of(job))):
        action = action_of(part(job, at))
        step = _edge(action)
        state = JobState.DONE if is_last(action, step) else JobState.RUNNING
        walked = evolve(_begun(part(job, at), action, world.now), state=state)
        taken = take(walked, reached, action, step)
        job, reached = with_part(job, at, taken.job, revertible=False), taken.after
        steps.append((at, taken))
    done = all(sub.state == JobState.DONE for sub in of(job))
    info = evolve(info_of(job), revertible=False)
    state = JobState.DONE if done else JobState.RUNNING
    orders = [reorg_order(taken.placed, taken.job) for _, taken in steps]
    order = ReorgOrder.START if ReorgOrder.START in orders else ReorgOrder.NONE
    return _moved(evolve(job, multi_schema_info=info, state=state), world, steps, order)


def _moved(job: Job, world: World, steps: list[tuple[int, Taken]], order: ReorgOrder) -> Decision:
    """The steps of some parts as one transaction."""
    after = stamped(steps[-1][1].after, world)
    job = evolve(job, exuvia_wait="", exuvia_note="", dependency_id=0)
    tells: list[tuple[int, Event]] = [
        (at, event) for at, taken in steps for event in taken.events(after)
    ]
    return Decision(
        job=with_result(job, world, after) if job.state == JobState.DONE else job,
        before=world,
        after=after,
        moves=True,
        ranges=tuple(each for _, taken in steps for each in taken.ranges),
        tells=tuple(tells),
        reorg=order,
        takes=tuple(each for _, taken in steps for each in taken.takes),
        silent=all(taken.step.silent for _, taken in steps),
    )


# -- back ------------------------------------------------------------------------------------------


def turn_back(job: Job, world: World, error: Refused) -> Decision:
    """The error is the job's end, unless the edge is behind it."""
    if not info_of(job).revertible:
        going_on = evolve(failed(job, error), state=JobState.RUNNING)
        return wait(going_on, world, Wait(error.message))
    return back(evolve(failed(job, error), state=JobState.ROLLINGBACK), world)


def back(job: Job, world: World) -> Decision:
    """The last part that has changed anything goes one state back."""
    at = None
    for n, sub in enumerate(of(job)):
        if _has_changed(part(job, n), sub):
            at = n
        elif sub.state not in _OVER:
            job = with_part(job, n, evolve(part(job, n), state=JobState.CANCELLED))
    if at is None:
        return archive(evolve(job, state=JobState.CANCELLED), world)
    return _back(job, world, at)


def _has_changed(walked: Job, sub: SubJob) -> bool:
    begun = walked.begun and sub.state not in _OVER
    return begun and walked.schema_state != action_of(walked).path[0].source


def _back(job: Job, world: World, at: int) -> Decision:
    walked = part(job, at)
    undo = action_of(walked).undo
    if undo is None:
        raise Broken(f"{walked.action_text} of job {job.id} moved before the edge")
    step = undo.step_from(walked.schema_state)
    ends = step is undo.path[-1]
    state = JobState.ROLLBACK_DONE if ends else JobState.ROLLINGBACK
    taken = take(evolve(walked, state=state), world, undo, step)
    job = with_part(job, at, taken.job)
    over = all(sub.state in _OVER for sub in of(job))
    job = evolve(job, state=JobState.ROLLBACK_DONE if over else JobState.ROLLINGBACK)
    return _moved(job, world, [(at, taken)], reorg_order(walked, taken.job))
