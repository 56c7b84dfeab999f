"""Decides the next step of a job. No other module looks at its state.

    queueing, running   refused at its first step   -> cancelled, into history
                        a condition is missing      -> a wait with its reason
                        a step                      -> one state further; the last one: done
                        the reorg failed            -> rollingback, by a step of the opposite action
    cancelling          nothing changed             -> cancelled, into history
                        the action can be undone    -> rollingback, by the same steps
                        it cannot                   -> running
    rollingback         a step back                 -> one state back; the last one: rollback done
    pausing             its reorg is fenced         -> paused
    to be held          it has come to that point   -> paused, until an operator completes it
    done, rollback done, cancelled                  -> every node has the last version: into history

Every job is walked as a job of sub-jobs; a job with a single change is its own only sub-job
(ddl/multi_schema_change.py). All of them become public in one version, or none:

    up to the non-revertible point   each sub-job in turn, up to the last state it can return from.
                                     Sub-jobs of one action without conditions take their steps
                                     together, each in one version: 200 ADD COLUMN need three. If
                                     there are several, a finished reorg is stored, so that it does
                                     not run again
    across it                        all take the step across in ONE transaction and ONE version
    post-commit phase                the remaining steps of the sub-jobs, as before the point. If
                                     rows move (rekey.py), a DROP has all its steps here, because
                                     writers of the old rows need the dropped element

        sub-job 1   none > delete only > write only > write reorganization |
        sub-job 2                                                     none |  > public
        sub-job 3                                                   public |  > write only > ...
                                                           non-revertible point

The step across the point is the last one of an action's path if it can be undone, else the first.
Failure or cancel before the point: begun sub-jobs walk back by their undo, the last one first; the
others are cancelled. In the post-commit phase nothing goes back.

Refusals are checked before anything moves, each on the current table with the columns of the
sub-jobs before it. No other job changes the table in the meantime. Sub-jobs that join a begun job
of a group (ddl/groups.py) are checked on the table without the job's own changes.

The step that makes a change visible must not affect a rule that the job has not validated
(catalog/rules.py). Every action that announces new columns to writers validates CHECKs. Actions
with `judges` validate foreign keys. Otherwise the job ends with 1412, and the statement is built
again.

A job may be held before it starts or before it is public. Then its backfill is verified and its
reorg is left (no late task can write). Writers keep the element complete by their duties, and the
job needs no worker. Tombstones stay, so its reorg may run again: it does if its verification has
become too old.

A job with a window does not start outside it.

Pure: same job, same snapshot, same decision. Nothing here reads a store or a clock.
"""

from itertools import chain
from typing import ClassVar, NamedTuple

from exuvia.base.daily_window import opens_at
from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import ErrCancelledDDLJob, ErrTableDefChanged
from exuvia.base.waits import HELD, NOT_UNDONE, RESUME, WINDOW
from exuvia.catalog.codec.row_codec import with_layout
from exuvia.catalog.model import evolve
from exuvia.catalog.rules import CHECK, TouchedRule, coming_checks, rules_touched
from exuvia.catalog.sysvar import variables
from exuvia.ddl.action import Action, Step
from exuvia.ddl.actions import GUARDS, action_of, kind_of
from exuvia.ddl.decision import Decision, StepWait
from exuvia.ddl.effects import (
    Archive,
    Effect,
    JobEvent,
    Notify,
    OrderReorg,
    Publish,
    ReorgOrder,
    difference,
)
from exuvia.ddl.job import (
    BEFORE_START,
    Job,
    JobState,
    failed,
    timestamp,
    timestamp_text,
    wall_s,
)
from exuvia.ddl.multi_schema_change import (
    drops_of_replaced_indexes,
    fill_is_noted,
    is_several,
    stored,
    sub_job,
    sub_jobs,
    unnoted,
    with_sub_job,
    with_sub_jobs,
)
from exuvia.ddl.seen import has_changed
from exuvia.ddl.snapshot import CatalogSnapshot, Fact, FactReader, ReadSet

_ROLLED_BACK = "DDL job rollback, error msg: "
_TURNED_BACK = frozenset({JobState.ROLLBACK_DONE, JobState.CANCELLED})
_ENDED = _TURNED_BACK | {JobState.DONE}


def decide(job: Job, snapshot: CatalogSnapshot) -> Decision:
    """The next step of a job in this snapshot. Raises Broken if no step can exist."""
    match job.state:
        case JobState.NONE | JobState.QUEUEING | JobState.RUNNING:
            return _forward(job, snapshot)
        case JobState.ROLLINGBACK:
            return _back(job, snapshot)
        case JobState.CANCELLING:
            return give_up(job, snapshot, reason_to_end(job))
        case JobState.PAUSING:
            return _pause(job, snapshot)
        case JobState.PAUSED:
            return Decision(job=job, before=snapshot, parks=True)
        case JobState.DONE:
            return _into_history(evolve(job, state=JobState.SYNCED), snapshot)
        case JobState.ROLLBACK_DONE | JobState.CANCELLED | JobState.SYNCED:
            return _into_history(job, snapshot)


def reason_to_end(job: Job) -> Refused:
    """The final error of a job that is rolled back by an operator or by too many errors.

    It contains the job's first error, if there was one.
    """
    if job.err is None:
        return ErrCancelledDDLJob()
    return job.err.raised(_ROLLED_BACK)


def is_revertible(job: Job) -> bool:
    """Whether a cancel is still possible: nothing has changed, or all of it can be undone."""
    if job.multi_schema_info is not None:
        return job.multi_schema_info.revertible
    action = action_of(job)
    if not job.begun or (job.schema_state == action.path[0].source and not job.exuvia_tail):
        return True
    return action.undo is not None and not job.exuvia_tail


def walking(job: Job) -> Job | None:
    """The sub-job whose turn it is; None when all of several are at the non-revertible point."""
    if not is_several(job):
        return job
    at = _next(job)
    return None if at is None else sub_job(job, at)


# -- forward ---------------------------------------------------------------------------------------


def _forward(job: Job, snapshot: CatalogSnapshot) -> Decision:
    submitted = job
    if not job.begun:
        instead = _instead_of_beginning(job, snapshot)
        if instead is not None:
            return instead
        if is_several(job):
            job = evolve(job, real_start_ts=snapshot.now)
        else:
            job = _with_begin(job, action_of(job), snapshot.now)
    if _is_stale(job, snapshot):
        fresh = evolve(unnoted(job), exuvia_verified=0, state=JobState.RUNNING)
        again = (OrderReorg(ReorgOrder.AGAIN),)
        return Decision(job=fresh, before=snapshot, effects=again, keeps=True)
    at = _next(job)
    if at is None:
        return _at_point(job, submitted, snapshot)
    # One sub-job takes a step, waits for its reorg, or is ready for the point
    sub = sub_job(job, at)
    action = action_of(sub)
    step = _step_of(sub, action)
    sub = _with_begin(sub, action, snapshot.now)
    waits = step.after is not None and not fill_is_noted(job, at)
    verdict = None
    if step.after is not None and waits:
        verdict = snapshot.reorg.failure or step.after(sub, snapshot)
    if isinstance(verdict, Refused):
        return give_up(job, snapshot, verdict)
    if isinstance(verdict, StepWait):
        in_progress = evolve(sub, row_count=snapshot.reorg.rows, exuvia_note=snapshot.reorg.note)
        waiting_job = evolve(with_sub_job(job, at, in_progress), exuvia_note=snapshot.reorg.note)
        return _wait(waiting_job, snapshot, verdict)
    if is_revertible(job) and step is _step_across(action):
        if is_several(job):
            return _note_filled(job, snapshot, at, sub)
        if job.exuvia_hold:
            return _hold(sub, snapshot, left=waits)
    moving = [(at, sub), *_in_step(job, at, action)]
    outcomes = _apply_steps(moving, _state_after(action, step), snapshot, action, step)
    subs, reached = [moving_sub for _, moving_sub in moving], outcomes[-1][1].after
    if is_revertible(job) and _unvalidated_rules(subs, snapshot, reached):
        return give_up(job, snapshot, ErrTableDefChanged())
    job = with_sub_jobs(job, {number: outcome.job for number, outcome in outcomes})
    order = reorg_order(sub, outcomes[0][1].job)
    return _moved(_running_or_done(job), snapshot, outcomes, order)


def _in_step(job: Job, at: int, action: Action) -> list[tuple[int, Job]]:
    """The other sub-jobs of that action in the state of sub-job `at`: they move with it.

    Excludes actions with conditions or reorgs, and sub-jobs that use an element of another one."""
    if not is_several(job) or any(part.after for part in (*action.path, *action.post_commit)):
        return []
    first = sub_job(job, at)
    changed, used = _elements(first)
    others = []
    for number, sub in enumerate(sub_jobs(job)):
        if number == at or action_of(sub) is not action or _place(sub) != _place(first):
            continue
        own, needed = _elements(sub)
        if not own & used and not needed & changed:
            changed, used = changed | own, used | needed
            others.append((number, sub))
    return others


def _place(sub: Job) -> tuple[object, ...]:
    return sub.begun, sub.state in _ENDED, sub.schema_state, sub.exuvia_tail


def _elements(sub: Job) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """(noun, name) of the elements that a sub-job changes, and of those that it uses."""
    of = kind_of(sub).uses
    uses = list(of(sub)) if of is not None else []
    needed = {(use.noun, use.name) for use in uses if use.verb in ("use", "need")}
    return {(use.noun, use.name) for use in uses} - needed, needed


def _apply_steps(
    moving: list[tuple[int, Job]],
    state: JobState,
    snapshot: CatalogSnapshot,
    action: Action,
    step: Step,
) -> list[tuple[int, "StepOutcome"]]:
    """The same step of several sub-jobs, each on the snapshot after the one before it."""
    outcomes: list[tuple[int, StepOutcome]] = []
    reached = snapshot
    for number, sub in moving:
        begun_sub = evolve(_with_begin(sub, action, snapshot.now), state=state)
        outcome = _apply_step(begun_sub, reached, action, step)
        reached = outcome.after
        outcomes.append((number, outcome))
    return outcomes


def _at_point(job: Job, submitted: Job, snapshot: CatalogSnapshot) -> Decision:
    """All sub-jobs are at the non-revertible point: the job crosses it or is held."""
    if job.exuvia_hold:
        return _hold(job if submitted.begun else submitted, snapshot)
    return _cross(job, snapshot)


def _instead_of_beginning(job: Job, snapshot: CatalogSnapshot) -> Decision | None:
    """The decision for a job that is held, whose window is closed, or that is refused."""
    if job.exuvia_hold == BEFORE_START:
        return _hold(job, snapshot)
    if job.exuvia_window:
        opens_s = opens_at(job.exuvia_window, wall_s(snapshot.now))
        if opens_s > wall_s(snapshot.now):
            return _wait_for_window(job, snapshot, opens_s)
    error = refusal(job, snapshot)
    return None if error is None else give_up(job, snapshot, error)


def refusal(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """The error of the job's unbegun sub-jobs, or None.

    `snapshot` is the one without the changes of the begun ones (`without_begun`).
    """
    changed = has_changed(job, snapshot)
    if changed is not None:
        return changed
    subs = sub_jobs(job)
    for at, sub in enumerate(subs):
        action = action_of(sub)
        error = None if sub.begun else _refusal(sub, action, snapshot)
        if error is not None:
            return error
        if action.names_for_later and at + 1 < len(subs):
            sub, snapshot = evolve(sub, exuvia_elements=()), evolve(snapshot, supposed=True)
            for step in (*action.path, *action.post_commit):
                outcome = _apply_step(sub, snapshot, action, step)
                sub, snapshot = outcome.job, outcome.after
    return None


def _refusal(sub: Job, action: Action, snapshot: CatalogSnapshot) -> Refused | None:
    kind = kind_of(sub)
    guards = (guard.refuses(kind, sub, snapshot) for guard in GUARDS)
    own = (refuses(sub, snapshot) for refuses in action.refuses)
    return next((error for error in chain(guards, own) if error is not None), None)


def without_begun(job: Job, snapshot: CatalogSnapshot) -> CatalogSnapshot:
    """The snapshot after a cancel of the job: without the changes it has begun."""
    if not job.begun:
        return snapshot
    job = evolve(job, state=JobState.CANCELLING)
    while True:
        decision = decide(job, snapshot)
        if decision.archives:
            return decision.after
        if not decision.moves:
            raise Broken(f"job {job.id} cannot be undone: {decision.job.exuvia_wait}")
        job, snapshot = decision.job, next_in_memory(decision)


def next_in_memory(decision: Decision) -> CatalogSnapshot:
    """The snapshot of the next step if the decision is not applied to a store."""
    reorg = decision.after.reorg._replace(filled=False)
    return evolve(decision.after, reorg=reorg, supposed=True)


def _next(job: Job) -> int | None:
    """Number of the sub-job to move next; None when all are at the non-revertible point."""
    revertible = is_revertible(job)
    numbered = in_order_of_begin(job)
    if not revertible:  # their elements belong to the old rows, too, until these are left
        numbered.sort(key=lambda pair: not action_of(pair[1]).moves_rows)
    for at, sub in numbered:
        stays = _is_at_point(job, at, sub) if revertible else sub.state == JobState.DONE
        if not stays:
            return at
    return None


def in_order_of_begin(job: Job) -> list[tuple[int, Job]]:
    """The sub-jobs with their numbers, in the order in which they begin.

    One that moves rows to other handles is the last, because the moved rows have copies of the
    elements that the others have backfilled.
    """
    numbered = list(enumerate(sub_jobs(job)))
    return sorted(numbered, key=lambda pair: kind_of(pair[1]).moves_rows)


def _step_across(action: Action) -> Step:
    """The step of an action that crosses the non-revertible point."""
    return action.path[-1] if action.undo else action.path[0]


def _is_at_point(job: Job, at: int, sub: Job) -> bool:
    action = action_of(sub)
    across = _step_across(action)
    if _step_of(sub, action) is not across:
        return False
    return across.after is None or fill_is_noted(job, at)


def _step_of(sub: Job, action: Action) -> Step:
    if not sub.begun:
        return action.path[0]
    return action.step_from(sub.schema_state, sub.exuvia_tail)


def _with_begin(sub: Job, action: Action, now: int) -> Job:
    if sub.begun:
        return sub
    return evolve(sub, schema_state=action.path[0].source, real_start_ts=now)


def _state_after(action: Action, step: Step) -> JobState:
    is_last = step is (action.post_commit or action.path)[-1]
    return JobState.DONE if is_last else JobState.RUNNING


def _running_or_done(job: Job) -> Job:
    done = all(sub.state == JobState.DONE for sub in stored(job) or (job,))
    return evolve(job, state=JobState.DONE if done else JobState.RUNNING)


def _note_filled(job: Job, snapshot: CatalogSnapshot, at: int, sub: Job) -> Decision:
    """Store that the sub-job's reorg has ended, and leave it: its late tasks are refused."""
    reorg = snapshot.reorg
    note = reorg.note if reorg.filled else ""
    ready = evolve(sub, state=JobState.RUNNING, row_count=reorg.rows, exuvia_note=note)
    job = evolve(with_sub_job(job, at, ready, exuvia_filled=True), state=JobState.RUNNING)
    if job.exuvia_hold and reorg.filled:
        job = evolve(job, exuvia_verified=job.exuvia_verified or snapshot.now)
    job = evolve(job, exuvia_wait="", exuvia_note="")
    return Decision(job=job, before=snapshot, effects=_order(ReorgOrder.LEAVE), keeps=True)


def _order(order: ReorgOrder) -> tuple[Effect, ...]:
    return (OrderReorg(order),) if order != ReorgOrder.NONE else ()


def _hold(job: Job, snapshot: CatalogSnapshot, left: bool = False) -> Decision:
    """Hold the job until an operator completes it. `left`: its reorg has just ended."""
    reorg = snapshot.reorg
    held_job = evolve(
        job,
        state=JobState.PAUSED,
        exuvia_held=True,
        exuvia_wait=HELD(job.exuvia_hold, _completed_as(job)),
        exuvia_filled=job.exuvia_filled or left,
        exuvia_verified=snapshot.now if reorg.filled else job.exuvia_verified,
    )
    if left and reorg.filled:
        held_job = evolve(held_job, row_count=reorg.rows, exuvia_note=reorg.note)
    order = _order(ReorgOrder.LEAVE if left else ReorgOrder.NONE)
    return Decision(job=held_job, before=snapshot, effects=order, parks=True, keeps=True)


def _completed_as(job: Job) -> str:
    return f"GROUP {job.exuvia_group}" if job.exuvia_group else f"JOBS {job.id}"


def released(job: Job) -> Job:
    """A held job, ready to cross."""
    state = JobState.QUEUEING
    return evolve(job, state=state, exuvia_hold="", exuvia_held=False, exuvia_wait="")


def crosses_openly(job: Job) -> bool:
    """Whether clients see the change when it crosses the non-revertible point, not later."""
    actions = [action_of(sub) for sub in sub_jobs(job)]
    return not any(action.opens_later or _step_across(action).barrier for action in actions)


def _wait_for_window(job: Job, snapshot: CatalogSnapshot, opens_s: float) -> Decision:
    at = timestamp_text(timestamp(round(opens_s) * 1_000_000_000))[:16]
    waiting = evolve(job, exuvia_wait=WINDOW(job.exuvia_window, at))
    rests_s = opens_s - wall_s(snapshot.now)
    return Decision(job=waiting, before=snapshot, parks=True, rests_s=rests_s)


class VerifiedFor(Fact[int], frozen=True):
    """How old a verification may be, as a difference of timestamps; 0: any age."""

    assumed: ClassVar[int] = 0

    def read(self, source: FactReader) -> int:
        seconds = variables.read_int(source.txn, "exuvia_ddl_verify_max_age_s")
        return timestamp(seconds * 1_000_000_000)


def read_set(job: Job) -> ReadSet:
    """All that the job's next decision reads, by its actions and by guards."""
    parts = [reads(sub) for sub in sub_jobs(job) if (reads := action_of(sub).reads)]
    parts += [guard.reads(job) for guard in GUARDS if guard.reads]
    own = (VerifiedFor(),) if job.exuvia_verified else ()
    return ReadSet.union([*parts, ReadSet(facts=own)])


def _is_stale(job: Job, snapshot: CatalogSnapshot) -> bool:
    """Whether the job was held so long that its backfill must be verified again."""
    if job.exuvia_hold or not job.exuvia_verified:
        return False
    longest = snapshot.fact(VerifiedFor())
    if not longest or not any(action_of(sub).verification_expires for sub in sub_jobs(job)):
        return False
    return is_revertible(job) and snapshot.now - job.exuvia_verified > longest


def _cross(job: Job, snapshot: CatalogSnapshot) -> Decision:
    """Every sub-job crosses the non-revertible point, each on the snapshot after the one before it.

    A DROP INDEX drops the copy by which a MODIFY of the same statement has replaced the index.

    If rows move to other handles, changes that cannot fail begin once the old rows are left. A DROP
    INDEX whose name a new index gets crosses with the others.
    """
    steps: list[tuple[int, StepOutcome]] = []
    uncrossed, reached = job, snapshot
    moves_rows = any(action_of(sub).moves_rows for sub in sub_jobs(job))
    replacing = drops_of_replaced_indexes(sub_jobs(job)) if moves_rows else set()
    for at, sub in sorted(enumerate(sub_jobs(job)), key=_crossing_order):
        action = action_of(sub)
        if moves_rows and action.undo is None and at not in replacing:
            continue
        step = _step_across(action)
        begun_sub = evolve(_with_begin(sub, action, snapshot.now), state=_state_after(action, step))
        outcome = _apply_step(begun_sub, reached, action, step)
        job, reached = with_sub_job(job, at, outcome.job, revertible=False), outcome.after
        steps.append((at, outcome))
    if _unvalidated_rules(sub_jobs(job), snapshot, reached):
        return give_up(uncrossed, snapshot, ErrTableDefChanged())
    if job.multi_schema_info is not None:
        info = evolve(job.multi_schema_info, revertible=False)
        job = evolve(job, multi_schema_info=info)
    starts = any(reorg_order(t.placed, t.job) == ReorgOrder.START for _, t in steps)
    order = ReorgOrder.START if starts else ReorgOrder.NONE
    return _moved(_running_or_done(job), snapshot, steps, order)


def _crossing_order(numbered: tuple[int, Job]) -> int:
    """Readers switch to the moved rows first, because the others add their elements there."""
    action = action_of(numbered[1])
    if action.moves_rows:
        return 0
    return 1 if action.frees_name else 2 if action.crosses_before_others else 3


def _unvalidated_rules(
    subs: list[Job], before: CatalogSnapshot, after: CatalogSnapshot
) -> frozenset[TouchedRule]:
    """The rules of the job's table that a step affects and the job has not validated."""
    touched = rules_touched(before.table, after.table)
    if not touched or before.table is None:
        return touched
    table = before.table
    judged = {TouchedRule(CHECK, check.id) for check in coming_checks(table)}
    for sub in subs:
        judges = kind_of(sub).judges
        judged |= judges(sub, table) if judges is not None else frozenset()
    return touched - judged


# -- back ------------------------------------------------------------------------------------------


def give_up(job: Job, snapshot: CatalogSnapshot, error: Refused) -> Decision:
    """Roll the job back with the error, or let it continue after the non-revertible point.

    The reason is an operator, the data, or too many errors.
    """
    if not is_revertible(job):
        going_on = evolve(failed(job, error), state=JobState.RUNNING)
        return _wait(going_on, snapshot, StepWait(error.message))
    return _back(evolve(failed(job, error), state=JobState.ROLLINGBACK), snapshot)


def _back(job: Job, snapshot: CatalogSnapshot) -> Decision:
    """One state back for the sub-job that began last among those with changes."""
    at = None
    for n, sub in in_order_of_begin(job):
        if sub.state in _TURNED_BACK:
            continue
        if sub.begun and sub.schema_state != action_of(sub).path[0].source:
            at = n
        else:
            job = with_sub_job(job, n, evolve(sub, state=JobState.CANCELLED))
    if at is None:
        return _into_history(evolve(job, state=JobState.CANCELLED), snapshot)
    sub = sub_job(job, at)
    undo = action_of(sub).undo
    if undo is None:
        return _wait(job, snapshot, StepWait(NOT_UNDONE(sub.action_text)))
    step = undo.step_from(sub.schema_state)
    is_last = step is undo.path[-1]
    state = JobState.ROLLBACK_DONE if is_last else JobState.ROLLINGBACK
    # the speed and the estimate of its reorg are obsolete from here on
    moving = [(at, evolve(sub, exuvia_note="")), *_in_step(job, at, action_of(sub))]
    outcomes = _apply_steps(moving, state, snapshot, undo, step)
    job = with_sub_jobs(job, {number: outcome.job for number, outcome in outcomes})
    over = all(back_sub.state in _TURNED_BACK for back_sub in sub_jobs(job))
    job = evolve(job, state=JobState.ROLLBACK_DONE if over else JobState.ROLLINGBACK)
    return _moved(job, snapshot, outcomes, reorg_order(sub, outcomes[0][1].job))


# -- parts of a decision ---------------------------------------------------------------------------


class StepOutcome(NamedTuple):
    """A step taken. `placed` is the sub-job after the step's edit, for the step's callbacks."""

    step: Step
    placed: Job
    job: Job
    before: CatalogSnapshot
    after: CatalogSnapshot

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects of the step besides its edit."""
        return self.step.effects(self.placed, self.before)

    def events(self, after: CatalogSnapshot) -> tuple[JobEvent, ...]:
        """Events to publish if the job has ended successfully.

        `after` is the snapshot at the end of the transaction.
        """
        if self.step.event is None or self.placed.state != JobState.DONE:
            return ()
        events = self.step.event(self.placed, self.before, after)
        return events if isinstance(events, tuple) else (events,)


def _apply_step(sub: Job, snapshot: CatalogSnapshot, action: Action, step: Step) -> StepOutcome:
    """One step of an action from the sub-job's state; `sub.state` is its next state."""
    placed, edited = step.edit(sub, snapshot) if step.edit else (sub, snapshot)
    after = action.element.move(placed, edited, step.target)
    moved = evolve(placed, schema_state=step.target)
    if action.post_commit and step is action.path[-1]:
        # the reorg of a held job is stored as finished; the tail may have one of its own
        tail = action.post_commit[0].source
        moved = evolve(moved, schema_state=tail, exuvia_tail=True, exuvia_filled=False)
    if snapshot.reorg.filled:
        own_note = placed.exuvia_note if placed.exuvia_note != sub.exuvia_note else ""
        note = ", ".join(filter(None, (snapshot.reorg.note, own_note)))
        moved = evolve(moved, row_count=snapshot.reorg.rows, exuvia_note=note)
    return StepOutcome(step, placed, moved, snapshot, after)


def _moved(
    job: Job, snapshot: CatalogSnapshot, steps: list[tuple[int, StepOutcome]], order: ReorgOrder
) -> Decision:
    """The steps of some sub-jobs as one transaction."""
    after = steps[-1][1].after
    if after.table is not None and after.table != snapshot.table:
        table = evolve(after.table, update_timestamp=snapshot.now)
        if table.exuvia_layouts:  # views and sequences have no layouts
            table = with_layout(table)
        after = evolve(after, table=table)
    job = evolve(job, exuvia_wait="", dependency_id=0)
    if is_several(job):
        job = evolve(job, exuvia_note="")  # each sub-job has its own
    several = is_several(job)
    events = [
        Notify(event, at if several else None)
        for at, outcome in steps
        for event in outcome.events(after)
    ]
    effects = (
        *_order(order),
        *difference(snapshot, after),
        *(effect for _, outcome in steps for effect in outcome.effects),
        Publish(barrier=all(outcome.step.barrier for _, outcome in steps)),
        *events,
    )
    job = _with_result(job, snapshot, after) if job.state == JobState.DONE else job
    return Decision(job=job, before=snapshot, effects=effects)


def _with_result(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> Job:
    """An ended job with its result: the new elements, or the elements before a drop."""
    binlog = evolve(
        job.binlog,
        DBInfo=after.database or before.database,
        TableInfo=after.table or before.table,
        FinishedTS=after.now,
    )
    return evolve(job, binlog=binlog)


def reorg_order(sub: Job, moved: Job) -> ReorgOrder:
    """The command to a reorg when `sub` moves to `moved`."""
    action = action_of(sub)
    goes_on = moved.state in (JobState.RUNNING, JobState.DONE)
    if goes_on and action.waits_in(moved.schema_state, moved.exuvia_tail):
        return ReorgOrder.START
    was_in = action.waits_in(sub.schema_state, sub.exuvia_tail)
    return ReorgOrder.LEAVE if was_in else ReorgOrder.NONE


def _wait(job: Job, snapshot: CatalogSnapshot, verdict: StepWait) -> Decision:
    """Nothing moves, and the job has the reason; a reorg may run in the meantime."""
    waiting = evolve(job, exuvia_wait=verdict.reason)
    return Decision(job=waiting, before=snapshot, to_run=verdict.reorg)


def _pause(job: Job, snapshot: CatalogSnapshot) -> Decision:
    """The job stays in the queue; its reorg is stopped."""
    sub = walking(job)
    fills = sub is not None and action_of(sub).waits_in(sub.schema_state, sub.exuvia_tail)
    return Decision(
        job=evolve(job, state=JobState.PAUSED, exuvia_wait=RESUME()),
        before=snapshot,
        effects=_order(ReorgOrder.LEAVE if fills else ReorgOrder.NONE),
        parks=True,
    )


def _into_history(job: Job, snapshot: CatalogSnapshot) -> Decision:
    """The job goes to history in its state.

    A job that never began has done nothing. It gets no number that a follower would wait for,
    because its statement may be built again.
    """
    binlog = evolve(job.binlog, FinishedTS=snapshot.now)
    place = snapshot.place if job.begun else 0
    ended = evolve(job, binlog=binlog, exuvia_wait="", dependency_id=0, seq_num=place)
    return Decision(job=ended, before=snapshot, effects=(Archive(),))
