"""A worker walks one job from its first step to history. Only here a step is committed.

    read the job row, again, in the step's snapshot
      every front has the last version?   no -> store who lags and why, look again on an
                                          acknowledgement; at most for the job's wait timeout
      decide(job, snapshot)               a wait -> store the reason; a reorg is to run -> `reorg`
      also the next step, if no front has to answer (ddl/runs.py)
      guard: owner's term, member's epoch    another owner exists -> Deposed: stop at once (law 2)
      apply, commit                       Conflict -> the same step again
                                          no room, or the disk fails -> stored; waits, not counted
                                          another error -> counted, shown, backed off, finally
                                                           rolled back, if that is still possible
                                          an unforeseen one -> reported; this job waits, parked

A new owner's worker begins in the same way: it waits for the version last announced before it steps
(law 4). `step` does at most one transaction. `reorg` runs in a loop of its own (manager.py), so
that a cancel is seen in the meantime. Late writes of a reorg that was left are refused by its
epoch.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from exuvia.base.clock import Clock, Then
from exuvia.base.errors import (
    Broken,
    Conflict,
    Deposed,
    ExuviaError,
    OutcomeUnknown,
    OutOfSpace,
    Refused,
    StorageFailed,
    Unavailable,
)
from exuvia.base.mysql_errors import ErrDupEntry, ErrLockWaitTimeout, ErrUnknown
from exuvia.base.waits import BROKEN, ENDING, PAST_RETURN, RESOURCE
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import evolve
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.cluster import versions
from exuvia.cluster.owner import Campaign
from exuvia.ddl import queue
from exuvia.ddl.apply import announce_reads, apply, read_snapshot, take_epoch
from exuvia.ddl.decision import Decision
from exuvia.ddl.job import Job, JobState, failed, timestamp
from exuvia.ddl.runs import may_follow
from exuvia.ddl.snapshot import CatalogSnapshot, ReorgState
from exuvia.ddl.state_machine import decide, give_up, is_revertible, reason_to_end
from exuvia.ddl.tracing import untraced
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction, Work
from exuvia.pipeline.reorg import Done, Duplicates, Failed, Progress, Reorg, Running, Waiting

_log = logging.getLogger(__name__)

# As its worker sees it: run by one thread, read by another.
#
#     Running      rows and a note to show       Waiting, Unavailable   also the reason to wait
#     Done         filled and verified           Conflict       again
#     Duplicates   1062, all of them, capped     Deposed        its epoch moved on: see the step
#     Failed       the error that ends the job   any other      reported; it ends the job

AGAIN_S = 1.0


def raise_it(job_id: int, error: Exception) -> None:
    """Raise an unforeseen error outside a node: tests must see it."""
    raise error


class RunningReorg(Protocol):
    """The pipeline's part of a job."""

    def step(self, now: float) -> Progress:
        """Run for a while. Raises Deposed."""

    def stop(self) -> None:
        """Release everything, tasks too."""


class ReorgFactory(Protocol):
    """Makes a worker's reorg: wired by node/, or by a test."""

    def __call__(self, job_id: int, epoch: int, table: Table, work: Reorg) -> RunningReorg:
        """The reorg of a job at that epoch."""


class ReorgRunner:
    """Runs a reorg. Written by one thread only."""

    def __init__(self, reorg: RunningReorg, unforeseen: Callable[[Exception], None]) -> None:
        self._reorg = reorg
        self._unforeseen = unforeseen
        self._left = False
        self.rows = 0
        self.note = ""
        self.filled = False
        self.failure: Refused | None = None
        self.lost = False

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to run."""
        return self.filled or self.lost or self.failure is not None

    def leave(self) -> None:
        """The job continued without it: its thread releases everything."""
        self._left = True

    def step(self, now: float) -> float:
        """Run the reorg for a while. Returns seconds until its next step."""
        if self._left:
            self._reorg.stop()
            self.lost = True
            return 0.0
        try:
            return self._record_progress(self._reorg.step(now))
        except Conflict:
            return 0.0
        except Unavailable as error:
            self.note = RESOURCE(error)
            return AGAIN_S
        except Deposed:
            self.lost = True
            return 0.0
        except Exception as error:  # a fault in one job's reorg must not stop all others
            self._unforeseen(error)
            text = f"the reorganisation broke: {type(error).__name__}: {error}"
            self.failure = ErrUnknown(text)
            return 0.0

    def _record_progress(self, progress: Progress) -> float:
        match progress:
            case Running(rows, rows_per_s, eta_s, phase, note, wake_s):
                rate = f"{rows_per_s:.0f} rows/s" if rows_per_s else ""
                eta = "" if eta_s is None else f"{eta_s:.0f} s left"
                self.rows = rows
                self.note = ", ".join(filter(None, (phase, rate, eta, note)))
                return wake_s
            case Waiting(reason, rows, wake_s):
                self.rows, self.note = rows, RESOURCE(reason)
                return wake_s
            case Done(rows):
                self.rows, self.note, self.filled = rows, "", True
            case Duplicates(texts, error):
                others = "\n".join(text for text in texts if text != texts[0])
                self.failure = ErrDupEntry.with_text(error.message, others)
            case Failed(error):
                self.failure = error
        return 0.0


# -- the worker ------------------------------------------------------------------------------------

IDLE_S = 1.0
LAG_POLL_S = 0.05
FILL_POLL_S = 0.5
NOTE_EVERY_S = 0.5
LEAST_BACK_OFF_S = 0.05
MOST_BACK_OFF_S = 1.0
MOST_REASON = 500

Unforeseen = Callable[[int, Exception], None]


_FORWARD = (JobState.NONE, JobState.QUEUEING, JobState.RUNNING, JobState.DONE)


def _with_ended_transactions(txn: Transaction, job: Job) -> Job:
    """The job with the transactions that fronts have ended for it."""
    if not job.exuvia_wait_kills:
        return job
    ended = dict.fromkeys((*job.exuvia_ended, *versions.ended_for(txn, job.id)))
    return evolve(job, exuvia_ended=tuple(ended))


class StepTaken(NamedTuple):
    """The last decision that a worker put into a transaction, and the job after it.

    `awaits`: fronts have to answer.
    """

    last: Decision
    job: Job
    awaits: bool


class HistoryListener(Protocol):
    """Notified when a job enters history."""

    def place(self) -> int:
        """The number of the next job, in the order of entering."""

    def ended(self, job_id: int, *, has_place: bool = True) -> None: ...


class WorkerContext(NamedTuple):
    """The objects shared by all workers of an owner."""

    store: Store
    schemas: Schemas
    campaign: Campaign
    waiter: versions.Waiter
    clock: Clock
    owner: str
    reorg_factory: ReorgFactory
    ends: HistoryListener
    unforeseen: Unforeseen = raise_it
    trace: Callable[[Job], None] = untraced


class JobWorker:
    """One slot of a pool. `step` raises Deposed only; every other error is the job's."""

    channel = "ack"

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._lock = threading.RLock()
        self.reorg: ReorgRunner | None = None
        self.assign(0)

    def assign(self, job_id: int) -> None:
        """Take over a job with the state in its row; 0: no job."""
        with self._lock:
            self.job_id = job_id
            self.due = 0.0
            self.parked = self.rests = False  # parked: no worker is needed; rests: it is paused
            self.rests_s = 0.0  # the longest rest; 0: unknown
            self._leave_reorg()
            self._noted_at = float("-inf")
            self._lags_since: float | None = None
            self._lag_seen_at = float("-inf")
            self._conflicts = 0

    def step(self, now: float) -> float:
        """At most one transaction of the job. Returns seconds until the next."""
        with self._lock:
            if not self.job_id:
                return IDLE_S
            try:
                delay = self._attempt(now)
            except Exception as error:  # a fault of one job must not stop all others
                if isinstance(error, ExuviaError) and not isinstance(error, Broken):
                    raise
                delay = self._park(error)
            self.due = now + delay
            return delay

    def _attempt(self, now: float) -> float:
        try:
            delay = self._commit(partial(self._advance, now=now))
            self._conflicts = 0
            return delay
        except Conflict:
            self._conflicts += 1
            return min(0.001 * self._conflicts, LEAST_BACK_OFF_S)
        except (OutOfSpace, StorageFailed, OutcomeUnknown) as error:
            # No fault of the job: it continues in its state once the store can be written again.
            # Its row, and so ADMIN SHOW DDL JOBS, has the reason if there is room to write it. If
            # the store takes no commit at all, the loops that log their wait report it.
            if not self._may_note(now):
                return MOST_BACK_OFF_S
            reason = RESOURCE(error)[:MOST_REASON]
            with suppress(Conflict, Unavailable):
                self._context.store.transact(partial(self._note, reason=reason), ONCE)
            return MOST_BACK_OFF_S
        except (Refused, Unavailable) as error:
            return self._count_error(error, now)

    def _commit(self, work: Work[Then]) -> float:
        """One transaction, then the action that follows it."""
        before = self.reorg
        try:
            then = self._context.store.transact(work, ONCE)
        except ExuviaError:
            if self.reorg is not before:
                self._leave_reorg()  # the epoch it was opened with is not this owner's
            raise
        return then()

    def _advance(self, txn: Transaction, now: float) -> Then:
        job = queue.get(txn, self.job_id)
        if job is None:
            return self._end
        announce_reads(txn, job)
        if versions.lagging(txn, job.id):
            return partial(self._wait_for_fronts, job, now)
        self._lags_since = None
        decision = decide(_with_ended_transactions(txn, job), self._snapshot(txn, job))
        if decision.commits:
            return self._write(txn, decision, now)
        # Nothing moves: a reorg may have to run, and users must see the reason
        self.parked = self.rests = decision.parks
        self.rests_s = decision.rests_s
        if decision.to_run is not None and self.reorg is None:
            self._open_reorg(txn, job, decision.to_run)
        elif decision.job != job and (decision.parks or self._may_note(now)):
            self._write(txn, decision, now)
        return lambda: FILL_POLL_S

    def prepare(self, txn: Transaction, now: float, ended: int) -> StepTaken | None:
        """Put the job's next step into a transaction of several (ddl/manager.py).

        Returns None if the worker must be stepped alone. `ended`: number of jobs that have got
        numbers in history in this transaction.
        """
        with self._lock:
            job = queue.get(txn, self.job_id) if self.job_id else None
            if job is None:
                return None
            announce_reads(txn, job)
            if versions.lagging(txn, job.id):
                self.due = max(self.due, self._lag_seen_at + LAG_POLL_S)
                return None
            self._lags_since = None
            current = _with_ended_transactions(txn, job)
            decision = decide(current, self._snapshot(txn, job, ended))
            return self._put_steps(txn, decision, ended) if decision.commits else None

    def _put_steps(self, txn: Transaction, decision: Decision, ended: int = 0) -> StepTaken:
        """Put the step into the transaction, and the following ones that need no answer."""
        while True:
            next_job = apply(txn, decision, self._context.owner)
            job = None if decision.archives else queue.get(txn, self.job_id)
            if job is None or not versions.is_answered_ahead(txn, job.id):
                return StepTaken(decision, next_job, decision.moves and versions.has_fronts(txn))
            if not may_follow(job):
                return StepTaken(decision, next_job, awaits=False)
            following = decide(job, self._snapshot(txn, job, ended))
            if not following.commits:
                return StepTaken(decision, next_job, awaits=False)
            decision = following

    def committed(self, step: StepTaken, now: float) -> float:
        """After the commit of what `prepare` returned. Returns seconds until the next step.

        If fronts have to answer it, "ack" wakes this worker: an earlier look would be useless.
        """
        with self._lock:
            self._conflicts = 0
            self._leave_reorg()
            if step.last.archives:
                self._context.trace(step.job)
                return self._end(has_place=step.job.seq_num > 0)
            delay = LAG_POLL_S if step.awaits else 0.0
            self.due = now + delay
            return delay

    def _write(self, txn: Transaction, decision: Decision, now: float) -> Then:
        self._context.campaign.guard(txn)
        return partial(self.committed, self._put_steps(txn, decision), now)

    def _snapshot(self, txn: Transaction, job: Job, ended: int = 0) -> CatalogSnapshot:
        snapshot = read_snapshot(txn, job, timestamp(self._context.clock.wall_ns()))
        snapshot = evolve(snapshot, place=self._context.ends.place() + ended)
        reorg = self.reorg
        if reorg is None:
            return snapshot
        if reorg.lost:
            self._leave_reorg()
            return snapshot
        state = ReorgState(reorg.filled, reorg.failure, reorg.rows, reorg.note)
        return evolve(snapshot, reorg=state)

    def _leave_reorg(self) -> None:
        if self.reorg is not None:
            self.reorg.leave()
        self.reorg = None

    def _end(self, *, has_place: bool = True) -> float:
        ended = self.job_id
        self.assign(0)
        self._context.ends.ended(ended, has_place=has_place)
        return 0.0

    # -- waiting -----------------------------------------------------------------------------------

    def _open_reorg(self, txn: Transaction, job: Job, work: Reorg | None) -> None:
        """Begin a reorg under a new epoch: earlier reorgs of the job, on any node, are refused."""
        table = self._context.schemas.table_by_id(txn, job.table_id)
        if table is None or work is None:
            return
        self._context.campaign.guard(txn)
        epoch = take_epoch(txn, job.id)
        reorg = self._context.reorg_factory(job.id, epoch, table, work)
        self.reorg = ReorgRunner(reorg, partial(self._context.unforeseen, job.id))
        txn.notify("reorg")

    def _wait_for_fronts(self, job: Job, now: float) -> float:
        """Fence silent fronts, and show the reasons of the others in the job's row (law 10)."""
        self._lag_seen_at = now
        lags = self._context.waiter.lagging(job.id, now)
        if not lags:
            return 0.0
        if self._lags_since is None:
            self._lags_since = now
        reason = RESOURCE("; ".join(lag.reason for lag in lags))
        waited_s = now - self._lags_since
        if 0 < job.exuvia_wait_timeout_s <= waited_s:
            late = partial(self._act_late, reason=reason)
            reason += self._context.store.transact(late, ONCE)
        lasts = waited_s >= NOTE_EVERY_S
        if lasts and reason != job.exuvia_wait and self._may_note(now):
            self._context.store.transact(partial(self._note, reason=reason), ONCE)
        return LAG_POLL_S

    def _act_late(self, txn: Transaction, reason: str) -> str:
        """Act when a step has waited for the job's timeout. Returns the text to add to the reason.

        The blocking transactions are ended, or else the job is rolled back if that is still
        possible.
        """
        job = queue.get(txn, self.job_id)
        if job is None or not versions.lagging(txn, job.id):
            return ""
        limit = f"{job.exuvia_wait_timeout_s} s"
        if job.exuvia_wait_kills:
            what = f"{job.action_text} {job.schema_name}.{job.table_name}"
            why = f"schema change {job.id} ({what}) has waited {limit} for this transaction"
            if versions.end_blockers(txn, job.id, f"{why}, which is rolled back"):
                self._context.campaign.guard(txn)
            return ENDING(limit)
        if job.state not in _FORWARD:
            return ""  # its state shows that it is rolled back, or that it has almost ended
        if job.state == JobState.DONE or not is_revertible(job):
            return PAST_RETURN(limit)
        self._context.campaign.guard(txn)
        text = (
            f"Lock wait timeout exceeded; schema change {job.id} has waited {limit}, and is rolled"
        )
        error = ErrLockWaitTimeout.with_text(f"{text} back; {reason}"[:MOST_REASON])
        refused = failed(job, error)
        queue.update(txn, evolve(refused, state=JobState.CANCELLING, exuvia_overdue=True))
        txn.notify("history")
        return ""

    def _may_note(self, now: float) -> bool:
        if now - self._noted_at < NOTE_EVERY_S:
            return False
        self._noted_at = now
        return True

    def _note(self, txn: Transaction, reason: str) -> bool:
        """Show in the job's row why it waits. Returns whether the reason is new.

        The row is read again: an operator may have cancelled the job in the meantime.
        """
        job = queue.get(txn, self.job_id)
        if job is None or job.exuvia_wait == reason:
            return False
        self._context.campaign.guard(txn)
        queue.update(txn, evolve(job, exuvia_wait=reason))
        return True

    # -- errors ------------------------------------------------------------------------------------

    def _park(self, error: Exception) -> float:
        """Park the job. It is tried again now and then: a cancel or another owner may help."""
        reason = BROKEN(type(error).__name__, error)[:MOST_REASON]

        def note(txn: Transaction) -> None:
            if self._note(txn, reason):
                self._context.unforeseen(self.job_id, error)

        try:
            self._context.store.transact(note, ONCE)
        except Conflict:
            return LEAST_BACK_OFF_S
        self._leave_reorg()
        self.parked = True
        return MOST_BACK_OFF_S

    def _count_error(self, error: Refused | Unavailable, now: float) -> float:
        """Count an error of this job; beyond the limit the job is rolled back with it."""
        refused = error if isinstance(error, Refused) else ErrUnknown(str(error))

        def count(txn: Transaction) -> Then:
            job = queue.get(txn, self.job_id)
            if job is None:
                return lambda: 0.0
            first = job if job.err else failed(job, refused)
            job = evolve(first, err_count=job.err_count + 1)
            if job.err_count > variables.read_int(txn, "tidb_ddl_error_count_limit"):
                decision = give_up(job, self._snapshot(txn, job), reason_to_end(job))
                if decision.moves or decision.archives:
                    return self._write(txn, decision, now)
            self._context.campaign.guard(txn)
            queue.update(txn, job)
            if job.err_count.bit_count() == 1:  # 1, 2, 4, ...
                about = {"job": job.id, "errors": job.err_count, "error": refused.message}
                _log.warning("a job met an error and is tried again", extra=about)
            pause_s = min(LEAST_BACK_OFF_S * (1 << min(job.err_count, 10)), MOST_BACK_OFF_S)
            return lambda: pause_s

        try:
            return self._commit(count)
        except Conflict:
            return LEAST_BACK_OFF_S
