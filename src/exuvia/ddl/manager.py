"""The owner's job manager: reads who joined the queue, gives jobs to workers, steps the workers.

    "job" counter moved | a local notice | a tick   ->  read the queue's new rows  ->  ready set
    ready set, a free worker of that pool           ->  the worker walks the job
    "ack" counter moved                             ->  every worker that waits looks again

Two pools: steps are short, so one lock serves all workers (`JobManager` when a job comes, `AckLoop`
when a front answers; two steps at once would conflict at the version anyway). A reorg job's steps
are walked likewise; only its filling has a loop, and so a thread, of its own (`FillLoop`). Memory
holds nothing but what `queue.unfinished` can say again: at a take-over all is built anew.
"""

import threading
from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

from exuvia.base.errors import Conflict, Deposed
from exuvia.catalog import variables
from exuvia.catalog.model import evolve
from exuvia.cluster.owner import Campaign
from exuvia.ddl import queue
from exuvia.ddl.filling import Filling
from exuvia.ddl.ready import ReadySet
from exuvia.ddl.worker import IDLE_S, Ends, JobWorker, Parts
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

TICK_S = 1.0
NOTE_AFTER_S = 1.0
NOTE_AGAIN_S = 5.0
NOTES_A_STEP = 50


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
        make_parts: Callable[[Ends], Parts],
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
        self._forget()

    def _forget(self) -> None:
        self._ready = ReadySet()
        self._newest = 0
        self._places = 0
        self._term = 0
        self._seen_job = -1
        self._seen_ack = -1
        self._looked_at = float("-inf")
        self._nudged = False
        self._parked: set[int] = set()
        self._to_note: list[tuple[float, int]] = []
        for worker in self._all_workers():
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
                if self._note_waits(now):
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
            for job in queue.unfinished(txn, self._newest):
                self._ready.add(job)
                self._newest = job.id
                heappush(self._to_note, (now + NOTE_AFTER_S, job.id))
            for job_id in list(self._parked):
                self._parked.discard(job_id)
                self._ready.give_back(job_id)
            if self._fixed is None:
                self._limits = _limits(txn)
        finally:
            txn.rollback()

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
        return self.workers[reorg][: self._limits.reorg if reorg else self._limits.general]

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
        """One step of the worker that is due longest; seconds until another is."""
        busy = [worker for worker in self._all_workers() if worker.job_id]
        if not busy:
            return IDLE_S
        worker = min(busy, key=lambda each: each.due)
        if worker.due > now:
            return worker.due - now
        worker.step(now)
        if worker.parked:
            self._parked.add(worker.job_id)
            worker.assign(0)
            self._dispatch()
        return 0.0

    # -- saying what a job waits for (law 10) ------------------------------------------------------

    def _note_waits(self, now: float) -> bool:
        """Write the reasons of jobs that wait for long; whether a transaction was made."""
        if not self._to_note or self._to_note[0][0] > now:
            return False
        txn = self._store.begin()
        try:
            self._campaign.guard(txn)
            for _ in range(NOTES_A_STEP):
                if not self._to_note or self._to_note[0][0] > now:
                    break
                _, job_id = heappop(self._to_note)
                self._note(txn, job_id, now)
            txn.commit()
        except Conflict:
            return True  # a session changed one of them: the next look tells again
        finally:
            txn.rollback()
        return True

    def _note(self, txn: Transaction, job_id: int, now: float) -> None:
        reason, blocker = self._reason(job_id)
        job = queue.get(txn, job_id) if reason else None
        if job is None:
            return
        heappush(self._to_note, (now + NOTE_AGAIN_S, job_id))
        if (reason, blocker) != (job.exuvia_wait, job.dependency_id):
            queue.update(txn, evolve(job, exuvia_wait=reason, dependency_id=blocker))

    def _reason(self, job_id: int) -> tuple[str, int]:
        """(what for, the older job or 0); ("", 0) for a job that does not wait for its turn."""
        if job_id not in self._ready or self._ready.is_running(job_id):
            return "", 0
        blocker = self._ready.blocker(job_id)
        if blocker:
            older = self._ready.job(blocker)
            place = f"{older.schema_name}.{older.table_name}".rstrip(".")
            return f"waiting: job {blocker} ({older.action_text} {place})", blocker
        reorg = queue.is_reorg(self._ready.job(job_id))
        pool = self._pool(reorg)
        busy = sum(worker.job_id != 0 for worker in pool)
        noun = "reorg worker" if reorg else "general worker"
        return f"waiting: {noun} ({busy} of {len(pool)} busy)", 0


def _limits(txn: Transaction) -> Pools:
    """The pools as the variables have them, within what there are workers for."""
    general = variables.read_int(txn, "exuvia_ddl_general_workers")
    reorg = variables.read_int(txn, "exuvia_ddl_reorg_workers")
    return Pools(min(general, MOST.general), min(reorg, MOST.reorg))


class AckLoop:
    """Steps workers when a front has answered."""

    channel = JobWorker.channel

    def __init__(self, manager: JobManager) -> None:
        self._manager = manager

    def step(self, now: float) -> float:
        """One step of one worker; seconds until the next."""
        return self._manager.step_workers(now)


class FillLoop:
    """Runs what one reorg worker has to fill; the job's own steps stay under the manager's lock."""

    channel = "reorg"

    def __init__(self, manager: JobManager, worker: JobWorker) -> None:
        self._manager = manager
        self._worker = worker
        self._held: Filling | None = None

    def step(self, now: float) -> float:
        """A while of the reorg; the job's next step once it has ended."""
        filling = self._worker.filling
        if self._held is not None and self._held is not filling:
            self._held.step(now)  # the job went on without it: it lets everything go
            self._held = None
            return 0.0
        self._held = filling
        if filling is None or filling.ended:
            return IDLE_S
        delay = filling.step(now)
        if not filling.ended:
            return delay
        self._worker.due = 0.0
        return self._manager.step_workers(now)
