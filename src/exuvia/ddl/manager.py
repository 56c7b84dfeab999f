"""The owner's job manager: reads who joined the queue, gives jobs to workers, steps the workers.

    "job" counter moved | a local notice | a tick   ->  read the queue's new rows  ->  ready set
    ready set, a free worker of that pool           ->  the worker walks the job
    "ack" counter moved                             ->  every worker that waits looks again

Two pools: steps are short, so one lock serves all workers, whichever loop comes (ddl/owner.py); two
steps at once would conflict at the version anyway. A reorg job's steps are walked likewise; only
its reorg has a loop, and so a thread, of its own. Memory holds nothing but what
`queue.unfinished` can say again: at a take-over all is built anew.
"""

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from exuvia.base.errors import Conflict, Deposed
from exuvia.catalog.sysvar import variables
from exuvia.cluster.owner import Campaign
from exuvia.ddl import admin, queue, two_queues
from exuvia.ddl.codes import JobState
from exuvia.ddl.job import Job
from exuvia.ddl.queue_status_writer import QueueStatusWriter
from exuvia.ddl.ready import Policy, ReadySet
from exuvia.ddl.step_batcher import StepBatcher
from exuvia.ddl.two_queues import TwoQueues
from exuvia.ddl.worker import IDLE_S, HistoryListener, JobWorker, WorkerContext
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

TICK_S = 1.0
PAUSED_S = 30.0  # a paused job is looked at when an operator says so, or after so long
MOST_TOLD = 100


class Pools(NamedTuple):
    """How many jobs may walk at once; from variables unless given."""

    general: int = 10
    reorg: int = 2


MOST = Pools(64, 8)


class JobManager:
    """See the module. `tick_s`: the longest time until the queue is looked at unasked. Unit: s."""

    channel = "job"

    def __init__(
        self,
        store: Store,
        campaign: Campaign,
        make_parts: Callable[[HistoryListener], WorkerContext],
        pools: Pools | None = None,
        tick_s: float = TICK_S,
    ) -> None:
        self._store = store
        self._campaign = campaign
        self._tick_s = tick_s
        self._fixed = pools
        self._limits = pools or Pools()
        self._lock = threading.RLock()
        parts = make_parts(self)
        most = pools or MOST
        self.workers = {
            False: [JobWorker(parts) for _ in range(most.general)],
            True: [JobWorker(parts) for _ in range(most.reorg)],
        }
        self._aside = JobWorker(parts)
        self._together = StepBatcher(parts)
        self._forget()

    def _forget(self) -> None:
        self._begin(ReadySet())
        self._places = 0
        self._term = 0
        self._seen_job = -1
        self._seen_ack = -1
        self._looked_at = float("-inf")
        self._nudged = False

    def _begin(self, policy: Policy) -> None:
        """Under that discipline, with nothing read yet."""
        self._ready = policy
        self._newest = 0
        self._parked: dict[int, float] = {}  # jobs that need no worker until then
        self._notes = QueueStatusWriter(self._store, self._campaign, policy, self._busy)
        for worker in (*self._all_workers(), self._aside):
            worker.assign(0)

    def _all_workers(self) -> list[JobWorker]:
        return [*self.workers[False], *self.workers[True]]

    def nudge(self) -> None:
        """A job was submitted in this process: look at the queue at the next step."""
        self._nudged = True

    # -- the loop woken by "job" -------------------------------------------------------------------

    def step(self, now: float) -> float:
        """Look at the queue when there is a reason to, else step the worker that is due."""
        with self._lock:
            if not self._is_mine():
                return IDLE_S
            try:
                if self._has_reason(now):
                    self._look(now)
                    self._dispatch()
                if self._notes.step(now):
                    return 0.0
                return min(self._step_worker(now), self._tick_s, IDLE_S)
            except Deposed:
                self._stop()
                return IDLE_S

    def _is_mine(self) -> bool:
        """Whether this process owns the queue; a new term begins with nothing in memory."""
        if not self._campaign.is_owner:
            if self._term:
                self._forget()
            return False
        if self._campaign.term != self._term:
            self._forget()
            self._term = self._campaign.term
        return True

    def _stop(self) -> None:
        self._campaign.deposed()
        self._forget()

    def _has_reason(self, now: float) -> bool:
        counter = self._store.counter(self.channel)
        reason = self._nudged or counter != self._seen_job or now - self._looked_at >= self._tick_s
        self._seen_job, self._nudged = counter, False
        return reason

    def _look(self, now: float) -> None:
        """Read what joined the queue since, and whether a paused job was resumed."""
        self._looked_at = now
        txn = self._store.begin()
        try:
            discipline = TwoQueues if two_queues.in_use(txn) else ReadySet
            if not isinstance(self._ready, discipline):
                self._begin(discipline())  # it was switched, or the store migrated
            for job in queue.unfinished(txn, self._newest):
                self._ready.add(job)
                self._newest = job.id
                self._notes.add(job.id, now)
            self._give_back([each for each, due in self._parked.items() if due <= now])
            if self._fixed is None:
                self._limits = _limits(txn)
            told = admin.jobs_commanded(txn, MOST_TOLD)
        finally:
            txn.rollback()
        if told:
            self._hear(told, now)
            self._nudged = len(told) == MOST_TOLD

    def _give_back(self, jobs: Iterable[int]) -> None:
        """Parked jobs may be taken by a worker again."""
        for job_id in jobs:
            if self._parked.pop(job_id, None) is not None:
                self._ready.give_back(job_id)

    def _hear(self, told: list[int], now: float) -> None:
        """An operator changed these: their workers look now, and so do those without one."""
        for worker in self._all_workers():
            if worker.job_id in told:
                worker.due = 0.0
        txn = self._store.begin()
        try:
            self._campaign.guard(txn)
            admin.forget_commands(txn, told)
            aside = [job_id for job_id in told if self._needs_no_turn(queue.get(txn, job_id))]
            txn.commit()
        except Conflict:
            return  # changed again: heard at the next look
        finally:
            txn.rollback()
        self._give_back(told)
        for job_id in aside:
            self._aside.assign(job_id)
            self._aside.step(now)
            self._aside.assign(0)

    def _needs_no_turn(self, job: Job | None) -> bool:
        """A job that waits may be paused, and one that has changed nothing cancelled, at once."""
        if job is None or job.id not in self._ready or self._ready.is_running(job.id):
            return False
        ends = job.state == JobState.CANCELLING and not job.begun
        return ends or job.state == JobState.PAUSING

    def _dispatch(self) -> None:
        """Every free worker takes the oldest job of its pool that may run."""
        for reorg in self.workers:
            for worker in self._pool(reorg):
                if worker.job_id:
                    continue
                job = self._ready.take(reorg)
                if job is None:
                    break
                worker.assign(job.id)

    def _pool(self, reorg: bool) -> list[JobWorker]:
        """The workers that may take a job now; one beyond the limit ends the job it has."""
        limit = self._limits.reorg if reorg else self._limits.general
        return self.workers[reorg][: min(limit, self._ready.most_workers)]

    def _busy(self, reorg: bool) -> tuple[int, int]:
        """(workers of the pool that have a job, workers)."""
        pool = self._pool(reorg)
        return sum(worker.job_id != 0 for worker in pool), len(pool)

    def place(self) -> int:
        """The number of the next job that enters history under this owner; from 1 at each term."""
        return self._places + 1

    def ended(self, job_id: int) -> None:
        """A worker's job is in history: its table's next job may run."""
        self._places += 1
        if job_id in self._ready:
            self._ready.remove(job_id)
        self._dispatch()

    # -- stepping workers --------------------------------------------------------------------------

    def step_workers(self, now: float) -> float:
        """Woken by "ack": whoever waits for fronts looks again."""
        with self._lock:
            if not self._is_mine():
                return IDLE_S
            counter = self._store.counter(JobWorker.channel)
            if counter != self._seen_ack:
                self._seen_ack = counter
                for worker in self._all_workers():
                    worker.due = 0.0
            try:
                return self._step_worker(now)
            except Deposed:
                self._stop()
                return IDLE_S

    def _step_worker(self, now: float) -> float:
        """One step of all that can step at once, or of who is due longest; seconds until more."""
        busy = [worker for worker in self._all_workers() if worker.job_id]
        if not busy:
            return IDLE_S
        if self._together.step([worker for worker in busy if worker.due <= now], now):
            return 0.0
        worker = min(busy, key=lambda each: each.due)
        if worker.due > now:
            return worker.due - now
        worker.step(now)
        if worker.parked:
            self._parked[worker.job_id] = now + (PAUSED_S if worker.rests else self._tick_s)
            worker.assign(0)
            self._dispatch()
        return 0.0


def _limits(txn: Transaction) -> Pools:
    """The pools as the variables have them, within what there are workers for."""
    general = variables.read_int(txn, "exuvia_ddl_general_workers")
    reorg = variables.read_int(txn, "exuvia_ddl_reorg_workers")
    return Pools(min(general, MOST.general), min(reorg, MOST.reorg))
