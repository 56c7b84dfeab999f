"""What an operator does to unfinished jobs: rows are changed here, their owner acts on them.

    cancel   queueing, running, paused -> cancelling      8225 finished, 8226 not revertible, 8224
    pause    queueing, running -> pausing                 8262 twice, 8260 not revertible
    resume   paused -> queueing                           8261 by another operator, or not paused
    hold     it is to wait before it is public            1105 too late for that
    complete held -> queueing, or it is not to be held    1105 nobody holds it
             it waits for its window -> it starts now
    alter    a reorg's threads, rows and bytes, from its next batch on

All jobs of one statement are changed by one transaction; each has an answer of its own. `m/admin`
tells the owner which jobs to look at now, also those that wait behind others: a job that has not
begun may be cancelled or paused before its turn.
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
    """The job as a cancel leaves it."""
    if job.state in (JobState.DONE, JobState.SYNCED):
        return ErrCancelFinishedDDLJob(job.id)
    if job.state in (JobState.CANCELLED, JobState.ROLLINGBACK, JobState.ROLLBACK_DONE):
        return job
    if not is_revertible(job):
        return ErrCannotCancelDDLJob(job.id)
    return evolve(job, state=JobState.CANCELLING, admin_operator=by, exuvia_held=False)


def paused(job: Job, by: int) -> Job | Refused:
    """The job as a pause leaves it."""
    if job.state in (JobState.PAUSING, JobState.PAUSED):
        return ErrPausedDDLJob(job.id)
    if job.state in _WAITING or (job.state == JobState.RUNNING and is_revertible(job)):
        return evolve(job, state=JobState.PAUSING, admin_operator=by)
    state, schema = JOB_STATE_TEXT[job.state], STATE_TEXT[job.schema_state]
    return ErrCannotPauseDDLJob(job.id, f"state [{state}] or schema state [{schema}]")


def resumed(job: Job, by: int) -> Job | Refused:
    """The job as a resume leaves it."""
    if job.exuvia_held:
        return ErrCannotResumeDDLJob(job.id, "it is held: ADMIN COMPLETE DDL JOBS completes it")
    if job.state != JobState.PAUSED:
        state, schema = JOB_STATE_TEXT[job.state], STATE_TEXT[job.schema_state]
        said = f"job has not been paused, job state:{state}, schema state:{schema}"
        return ErrCannotResumeDDLJob(job.id, said)
    if job.admin_operator != by:
        paused_by, resumed_by = _OPERATORS[job.admin_operator], _OPERATORS[by]
        said = f"job has been paused by [{paused_by}], should not resumed by [{resumed_by}]"
        return ErrCannotResumeDDLJob(job.id, said)
    return evolve(job, state=JobState.QUEUEING, admin_operator=NOBODY, exuvia_wait="")


def held(job: Job, by: int) -> Job | Refused:
    """The job as a hold leaves it."""
    may = job.state in (*_WAITING, JobState.RUNNING, JobState.PAUSING, JobState.PAUSED)
    if not may or not is_revertible(job):
        return ErrUnknown(f"ddl job {job.id} cannot be held: it is too far")
    return job if job.exuvia_hold else evolve(job, exuvia_hold=BEFORE_PUBLIC)


def completed(job: Job, by: int) -> Job | Refused:
    """The job as ADMIN COMPLETE leaves it."""
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
    """The queue by id. Where its owner does not look after it, that is what each job waits for."""
    jobs = queue.unfinished(txn)
    trouble = watch.trouble(txn, now) if jobs and watch is not None else ""
    return [_with_trouble(job, trouble) for job in jobs] if trouble else jobs


def reason_to_wait(txn: Transaction, watch: OwnerWatch | None, now: float, job_id: int) -> str:
    """What one job waits for, as `unfinished` shows it; "" if it does not wait or has ended."""
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
    """Change jobs in the caller's transaction; (id, why it was not done). No id: every job that is
    to be held, and is not one of a group."""
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
    """The same in a transaction of its own, with its member's epoch in it (law 2).

    Raises Deposed; Unavailable where the owner is always first."""
    wanted = tuple(ids)

    def work(txn: Transaction) -> list[tuple[int, Refused | None]]:
        guard(txn)
        return command(txn, kind, wanted, by)

    try:
        return store.transact(work)
    except Conflict:  # its owner wrote one of the rows, each time
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
    """Whether its reorg may be given settings."""
    return kind_of(job).alterable and is_reorg(job)


def alter(txn: Transaction, job_id: int, own: Own) -> None:
    """Give a job's reorg settings of its own. Raises 1105 where it has none, or has ended."""
    job = queue.get(txn, job_id)
    if job is None:
        raise ErrUnknown(f"ddl job {job_id} is not running")
    if not is_alterable(job):
        raise ErrUnknown(
            f"unsupported DDL operation: {job.action_text}. Supported DDL operations are: "
            "ADD INDEX, MODIFY COLUMN, and ALTER TABLE REORGANIZE PARTITION",
        )
    meta = dict(job.reorg_meta or {})
    given = {name: getattr(own, name) for name in own.__struct_fields__}
    meta.update({name: value for name, value in given.items() if value is not None})
    queue.update(txn, evolve(job, reorg_meta=meta, admin_operator=END_USER))
    write_own(txn, job_id, Own(**{name: meta.get(name) for name in given}))


# -- the owner's side ------------------------------------------------------------------------------


def jobs_commanded(txn: Transaction, most: int) -> list[int]:
    """Jobs that an operator changed since the owner looked."""
    prefix = keys.meta("admin")
    found = txn.scan(keys.span_of(prefix), limit=most)
    return [keys.read_number(key[len(prefix) :]) for key, _ in found]


def forget_commands(txn: Transaction, ids: Iterable[int]) -> None:
    """The owner has looked at them."""
    for job_id in ids:
        txn.delete(keys.meta("admin", job_id))
