"""Operators' commands on unfinished jobs: they change rows here, and the owner acts on them.

    cancel   queueing, running, paused -> cancelling      8225 finished, 8226 not revertible, 8224
    pause    queueing, running -> pausing                 8262 twice, 8260 not revertible
    resume   paused -> queueing                           8261 by another operator, or not paused
    hold     the job will wait before it is public        1105 too late
    complete held -> queueing, or cancels the hold        1105 not held
             waits for its window -> starts now
    alter    a reorg's threads, rows and bytes, from its next batch on

All jobs of one statement are changed by one transaction; each has its own result. `m/admin` lists
the jobs that the owner must look at now. It includes queued jobs, which may be cancelled or paused
before their turn.
"""

from collections.abc import Callable, Iterable

from exuvia.base.errors import Conflict, Refused, Unavailable
from exuvia.base.mysql_errors import (
    ErrCancelFinishedDDLJob,
    ErrCannotCancelDDLJob,
    ErrCannotPauseDDLJob,
    ErrCannotResumeDDLJob,
    ErrDDLJobNotFound,
    ErrPausedDDLJob,
    ErrUnknown,
)
from exuvia.base.waits import RESOURCE
from exuvia.catalog.model import STATE_TEXT, evolve
from exuvia.cluster.owner import OwnerWatch
from exuvia.ddl import queue
from exuvia.ddl.actions import is_reorg, kind_of
from exuvia.ddl.job import BEFORE_PUBLIC, JOB_STATE_TEXT, Job, JobState
from exuvia.ddl.state_machine import is_revertible
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.settings import Own, write_own

NOBODY, END_USER, SYSTEM = 0, 1, 2
_OPERATORS = ("None", "EndUser", "System")
_WAITING = (JobState.NONE, JobState.QUEUEING)


def cancelled(job: Job, by: int) -> Job | Refused:
    """The job after a cancel, or the error."""
    if job.state in (JobState.DONE, JobState.SYNCED):
        return ErrCancelFinishedDDLJob(job.id)
    if job.state in (JobState.CANCELLED, JobState.ROLLINGBACK, JobState.ROLLBACK_DONE):
        return job
    if not is_revertible(job):
        return ErrCannotCancelDDLJob(job.id)
    return evolve(job, state=JobState.CANCELLING, admin_operator=by, exuvia_held=False)


def paused(job: Job, by: int) -> Job | Refused:
    """The job after a pause, or the error."""
    if job.state in (JobState.PAUSING, JobState.PAUSED):
        return ErrPausedDDLJob(job.id)
    if job.state in _WAITING or (job.state == JobState.RUNNING and is_revertible(job)):
        return evolve(job, state=JobState.PAUSING, admin_operator=by)
    state, schema = JOB_STATE_TEXT[job.state], STATE_TEXT[job.schema_state]
    return ErrCannotPauseDDLJob(job.id, f"state [{state}] or schema state [{schema}]")


def resumed(job: Job, by: int) -> Job | Refused:
    """The job after a resume, or the error."""
    if job.exuvia_held:
        return ErrCannotResumeDDLJob(job.id, "it is held: ADMIN COMPLETE DDL JOBS completes it")
    if job.state != JobState.PAUSED:
        state, schema = JOB_STATE_TEXT[job.state], STATE_TEXT[job.schema_state]
        reason = f"job has not been paused, job state:{state}, schema state:{schema}"
        return ErrCannotResumeDDLJob(job.id, reason)
    if job.admin_operator != by:
        paused_by, resumed_by = _OPERATORS[job.admin_operator], _OPERATORS[by]
        reason = f"job has been paused by [{paused_by}], should not resumed by [{resumed_by}]"
        return ErrCannotResumeDDLJob(job.id, reason)
    return evolve(job, state=JobState.QUEUEING, admin_operator=NOBODY, exuvia_wait="")


def held(job: Job, by: int) -> Job | Refused:
    """The job after a hold, or the error."""
    may = job.state in (*_WAITING, JobState.RUNNING, JobState.PAUSING, JobState.PAUSED)
    if not may or not is_revertible(job):
        return ErrUnknown(f"ddl job {job.id} cannot be held: it is past its non-revertible point")
    return job if job.exuvia_hold else evolve(job, exuvia_hold=BEFORE_PUBLIC)


def completed(job: Job, by: int) -> Job | Refused:
    """The job after ADMIN COMPLETE, or the error."""
    if job.exuvia_group:
        return ErrUnknown(
            f"ddl job {job.id} is one of a group: ADMIN COMPLETE DDL GROUP {job.exuvia_group}"
        )
    if not job.exuvia_hold:
        if job.exuvia_window and not job.begun:
            return evolve(job, exuvia_window="", exuvia_wait="")
        return ErrUnknown(f"ddl job {job.id} is not held")
    job = evolve(job, exuvia_hold="")
    if job.exuvia_held:
        job = evolve(job, state=JobState.QUEUEING, exuvia_held=False, exuvia_wait="")
    return job


# -- looking ---------------------------------------------------------------------------------------


def unfinished(txn: Transaction, watch: OwnerWatch | None, now: float) -> list[Job]:
    """Unfinished jobs by id. If the owner is not working, that is the reason each of them waits."""
    jobs = queue.unfinished(txn)
    trouble = watch.trouble(txn, now) if jobs and watch is not None else ""
    return [_with_trouble(job, trouble) for job in jobs] if trouble else jobs


def reason_to_wait(txn: Transaction, watch: OwnerWatch | None, now: float, job_id: int) -> str:
    """The reason one job waits, as `unfinished` shows it; "" if it does not wait or has ended."""
    job = queue.get(txn, job_id)
    if job is None:
        return ""
    trouble = watch.trouble(txn, now) if watch is not None else ""
    return (_with_trouble(job, trouble) if trouble else job).exuvia_wait


def _with_trouble(job: Job, trouble: str) -> Job:
    if job.state == JobState.PAUSED:
        return job
    return evolve(job, exuvia_wait=RESOURCE(trouble))


# -- acting ----------------------------------------------------------------------------------------

_COMMANDS = {
    "cancel": cancelled,
    "pause": paused,
    "resume": resumed,
    "hold": held,
    "complete": completed,
}


def command(
    txn: Transaction, kind: str, ids: Iterable[int], by: int = END_USER
) -> list[tuple[int, Refused | None]]:
    """Change jobs in the caller's transaction. Returns (job id, error or None) of each.

    Without ids: every job with a hold that is not in a group.
    """
    ids = tuple(ids) or [
        job.id for job in queue.unfinished(txn) if job.exuvia_hold and not job.exuvia_group
    ]
    return [(job_id, _one(txn, kind, job_id, by)) for job_id in ids]


def command_now(
    store: Store,
    kind: str,
    ids: Iterable[int],
    by: int = END_USER,
    guard: Callable[[Transaction], None] = lambda txn: None,
) -> list[tuple[int, Refused | None]]:
    """Like `command`, in its own transaction with the member's epoch (law 2).

    Raises Deposed; Unavailable if the owner commits first at every attempt.
    """
    job_ids = tuple(ids)

    def work(txn: Transaction) -> list[tuple[int, Refused | None]]:
        guard(txn)
        return command(txn, kind, job_ids, by)

    try:
        return store.transact(work)
    except Conflict:  # the owner wrote one of the rows at every attempt
        raise Unavailable("the jobs change too fast: try again") from None


def _one(txn: Transaction, kind: str, job_id: int, by: int) -> Refused | None:
    job = queue.get(txn, job_id)
    if job is None:
        return ErrDDLJobNotFound(job_id)
    changed = _COMMANDS[kind](job, by)
    if isinstance(changed, Refused):
        return changed
    if changed != job:
        queue.update(txn, changed)
        txn.put(keys.meta("admin", job_id), b"")
        txn.notify("job")
    return None


def is_alterable(job: Job) -> bool:
    """Whether settings can be set for the job's reorg."""
    return kind_of(job).alterable and is_reorg(job)


def alter(txn: Transaction, job_id: int, own: Own) -> None:
    """Set settings of one job's reorg. Raises 1105 if the job has no reorg or has ended."""
    job = queue.get(txn, job_id)
    if job is None:
        raise ErrUnknown(f"ddl job {job_id} is not running")
    if not is_alterable(job):
        raise ErrUnknown(
            f"unsupported DDL operation: {job.action_text}. Supported DDL operations are: "
            "ADD INDEX, MODIFY COLUMN, and ALTER TABLE REORGANIZE PARTITION",
        )
    meta = dict(job.reorg_meta or {})
    settings = {name: getattr(own, name) for name in own.__struct_fields__}
    meta.update({name: value for name, value in settings.items() if value is not None})
    queue.update(txn, evolve(job, reorg_meta=meta, admin_operator=END_USER))
    write_own(txn, job_id, Own(**{name: meta.get(name) for name in settings}))


# -- the owner's side ------------------------------------------------------------------------------


def jobs_commanded(txn: Transaction, most: int) -> list[int]:
    """Ids of jobs that an operator has changed since the owner looked."""
    prefix = keys.meta("admin")
    entries = txn.scan(keys.span_of(prefix), limit=most)
    return [keys.read_number(key[len(prefix) :]) for key, _ in entries]


def forget_commands(txn: Transaction, ids: Iterable[int]) -> None:
    """Remove the notes of jobs that the owner has looked at."""
    for job_id in ids:
        txn.delete(keys.meta("admin", job_id))
