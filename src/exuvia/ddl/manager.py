"""The owner's job manager: reads new jobs, gives jobs to workers, steps the workers.

    "job" counter moved | a local notice | a tick   ->  read the queue's new rows  ->  ready set
    ready set, a free worker of that pool           ->  the worker walks the job
    "ack" counter moved                             ->  every worker that waits looks again

There are two pools. Steps are short, so one lock serves all workers in whichever loop: two steps at
once would conflict at the version anyway. Steps of a reorg job are walked in the same way; only its
reorg has a loop, and so a thread, of its own. Memory only has what `queue.unfinished` can return
again: a new owner reads everything again.

`Ddl` is all that an owner runs for schema changes. `node/` and the simulator drive its loops, each
with a channel that wakes it and `step(now)`. Nothing is done while this process is not the owner:

    JobManager "job"     a job has joined the queue
    AckLoop    "ack"     a front has answered: workers that wait for fronts look again
    FillLoop   "reorg"   a reorg worker has a backfill to run: a thread of its own, since it lasts
    Inspector "inspect"  a table is to be inspected (ddl/inspection.py)
    Campaign, GcWorker "history"   deferred deletion has its own ownership: its owner need not be
                         the owner of schema changes
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import NamedTuple

from exuvia.base.clock import Clock, Loop
from exuvia.base.errors import Broken, Conflict, Deposed, ExuviaError, Unavailable
from exuvia.base.waits import OLDER_JOB, WORKER
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import evolve
from exuvia.catalog.sysvar import variables
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.cluster.versions import Waiter
from exuvia.ddl import admin, groups, queue, two_queues
from exuvia.ddl.actions import is_reorg
from exuvia.ddl.gc_worker import ROLE, GcWorker
from exuvia.ddl.inspection import Inspector
from exuvia.ddl.job import Job, JobState
from exuvia.ddl.ready import Policy, ReadySet
from exuvia.ddl.tracing import untraced
from exuvia.ddl.two_queues import TwoQueues
from exuvia.ddl.undo_windows import UndoWindows
from exuvia.ddl.worker import (
    IDLE_S,
    HistoryListener,
    JobWorker,
    ReorgFactory,
    ReorgRunner,
    StepTaken,
    Unforeseen,
    WorkerContext,
    raise_it,
)
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction

# -- reasons of waiting jobs (law 10) --------------------------------------------------------------
#
# Reasons of long waits are stored, a few in a transaction and a transaction now and then. So quick
# jobs cost nothing, and a hundred thousand waiting jobs do not delay the steps of others. The more
# jobs wait, the later each is looked at again.
#
#     waiting: job 12 (add index d.t)           an older unfinished job of its table or schema
#     waiting: reorg worker (2 of 2 busy)       it may run, but all workers are busy

AFTER_S = 1.0
AGAIN_S = 5.0
AGAIN_EACH_S = 0.001  # added for each job that waits
NOTES_A_STEP = 50
PACE_S = 0.05


class QueueStatusWriter:
    """Writes the reasons of waiting jobs. `busy(reorg)`: (busy workers, workers) of a pool."""

    def __init__(
        self,
        store: Store,
        campaign: Campaign,
        ready: Policy,
        busy: Callable[[bool], tuple[int, int]],
    ) -> None:
        self._store = store
        self._campaign = campaign
        self._ready = ready
        self._busy = busy
        self._due: list[tuple[float, int]] = []
        self._next = float("-inf")

    def add(self, job_id: int, now: float) -> None:
        """A job joined the queue."""
        heappush(self._due, (now + AFTER_S, job_id))

    def step(self, now: float) -> bool:
        """Write the reasons that are due. Returns whether there were any. Raises Deposed."""
        if now < self._next:
            return False
        self._next = now + PACE_S
        again = now + AGAIN_S + AGAIN_EACH_S * len(self._due)
        due: list[int] = []
        while self._due and self._due[0][0] <= now and len(due) < NOTES_A_STEP:
            _, job_id = heappop(self._due)
            if job_id in self._ready and not self._ready.is_running(job_id):
                due.append(job_id)
                heappush(self._due, (again, job_id))
        if due:
            self._write(due)
        return bool(due)

    def _write(self, due: list[int]) -> None:
        def note(txn: Transaction) -> None:
            self._campaign.guard(txn)
            for job_id in due:
                job = queue.get(txn, job_id)
                status = self._reason(job_id)
                if job is not None and status != (job.exuvia_wait, job.dependency_id):
                    reason, blocker = status
                    queue.update(txn, evolve(job, exuvia_wait=reason, dependency_id=blocker))

        with suppress(Conflict):  # a session changed one of them: they are due again soon
            self._store.transact(note, ONCE)

    def _reason(self, job_id: int) -> tuple[str, int]:
        """(reason to wait, id of the older job or 0)."""
        blocker = self._ready.blocker(job_id)
        if blocker:
            older = self._ready.job(blocker)
            place = f"{older.schema_name}.{older.table_name}".rstrip(".")
            return OLDER_JOB(blocker, older.action_text, place), blocker
        reorg = is_reorg(self._ready.job(job_id))
        busy, workers = self._busy(reorg)
        noun = "reorg worker" if reorg else "general worker"
        return WORKER(noun, busy, workers), 0


# -- steps of several jobs in one commit -----------------------------------------------------------
#
# Steps of independent jobs that are due at one moment are committed together (decision 030).
#
#     worker 1: prepare -> a decision  \
#     worker 2: prepare -> a decision   > applied in turn to one transaction -> one commit
#     worker 3: prepare -> waits       /  it is stepped alone, as usual
#
# Each step has its own decision, on a snapshot with the steps before it, its own version and its
# own row. All of the transaction is committed or nothing. Running jobs touch different tables, so
# their order is free. An unexpected error (a conflict with a session, an error of one job) undoes
# the whole transaction. Then each worker is stepped alone, so that a fault affects its own job
# only.


class StepBatcher:
    """Commits the steps of several jobs together; the manager's lock is held."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._singles_left = 0

    def step(self, workers: Sequence[JobWorker], now: float) -> bool:
        """Commit one transaction of all steps that are possible now.

        Returns whether there was one. Raises Deposed.
        """
        if len(workers) < 2 or self._singles_left:
            self._singles_left = max(self._singles_left - 1, 0)
            return False
        try:
            prepared = self._context.store.transact(
                lambda txn: self._prepare(txn, workers, now), ONCE
            )
        except Deposed:
            raise
        except Exception:  # stepping each alone shows which job it belongs to
            self._singles_left = len(workers)
            return False
        for worker, step in prepared:
            worker.committed(step, now)
        return bool(prepared)

    def _prepare(
        self, txn: Transaction, workers: Sequence[JobWorker], now: float
    ) -> list[tuple[JobWorker, StepTaken]]:
        """The workers that step, with their steps, which are in the transaction."""
        prepared: list[tuple[JobWorker, StepTaken]] = []
        for worker in workers:
            ended = sum(earlier.job.seq_num > 0 for _, earlier in prepared)
            step = worker.prepare(txn, now, ended)
            if step is not None:
                prepared.append((worker, step))
        if prepared:
            self._context.campaign.guard(txn)
        return prepared


# -- the manager -----------------------------------------------------------------------------------

TICK_S = 1.0
PAUSED_S = 30.0  # a paused job is looked at when an operator changes it, or after this time
MOST_COMMANDS = 100


class Pools(NamedTuple):
    """The most jobs that are walked at once; from variables unless given."""

    general: int = 10
    reorg: int = 2


MOST = Pools(64, 8)


class JobManager:
    """Walks all unfinished jobs. `tick_s`: the longest time between looks at the queue. Unit: s."""

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
        self._spare_worker = JobWorker(parts)
        self._parts = parts
        self._batcher = StepBatcher(parts)
        self._windows = UndoWindows(store, campaign, parts.clock)
        self._forget()

    @property
    def is_owner(self) -> bool:
        """Whether this process owns the queue."""
        return self._campaign.is_owner

    @property
    def channel(self) -> str:
        """The owner is woken by new jobs, any other process by a new ownership."""
        return "job" if self.is_owner else Campaign.channel

    def _forget(self) -> None:
        self._begin(ReadySet())
        self._places = 0
        self._term = 0
        self._seen_job = -1
        self._seen_ack = -1
        self._looked_at = float("-inf")
        self._nudged = False

    def _begin(self, policy: Policy) -> None:
        """Start with this discipline and an empty memory."""
        self._ready = policy
        self._newest = 0
        self._completing: list[str] = []  # groups
        self._parked: dict[int, float] = {}  # jobs that need no worker until then
        self.status_writer = QueueStatusWriter(self._store, self._campaign, policy, self._busy)
        for worker in (*self._all_workers(), self._spare_worker):
            worker.assign(0)

    def _all_workers(self) -> list[JobWorker]:
        return [*self.workers[False], *self.workers[True]]

    def nudge(self) -> None:
        """A job was submitted in this process: look at the queue at the next step."""
        self._nudged = True

    # -- the loop woken by "job" -------------------------------------------------------------------

    def step(self, now: float) -> float:
        """Look at the queue if there is a reason to, otherwise step the worker that is due."""
        with self._lock:
            if not self._owns_queue():
                return IDLE_S
            try:
                if self._has_reason(now):
                    self._look(now)
                    self._dispatch()
                if self._windows.step(now):
                    self._nudged = True
                    return 0.0
                if self.status_writer.step(now):
                    return 0.0
                return min(self._step_worker(now), self._tick_s, IDLE_S)
            except Deposed:
                self._stop()
                return IDLE_S

    def _owns_queue(self) -> bool:
        """Whether this process owns the queue. A new term begins with an empty memory."""
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
        """Read new jobs, and which waiting jobs were changed by commands or groups."""
        self._looked_at = now
        with self._store.read() as txn:
            discipline = TwoQueues if two_queues.in_use(txn) else ReadySet
            if not isinstance(self._ready, discipline):
                self._begin(discipline())  # the setting was changed, or the store was migrated
            for job in queue.unfinished(txn, self._newest):
                self._ready.add(job)
                self._newest = job.id
                self.status_writer.add(job.id, now)
            self._give_back([job_id for job_id, due in self._parked.items() if due <= now])
            if self._fixed is None:
                self._limits = _limits(txn)
            changed = groups.jobs_changed(txn)
            commanded = admin.jobs_commanded(txn, MOST_COMMANDS)
            self._completing = groups.completing(txn)
        for changed_job in changed.values():
            if changed_job is not None and changed_job.id in self._ready:
                self._ready.change(changed_job)
        if changed or commanded:
            self._process_commands([*changed, *commanded], now)
            self._nudged = len(commanded) == MOST_COMMANDS
        for name in self._completing:
            self._complete(name)

    def _complete(self, name: str) -> None:
        """Complete a group if all its members are held. An error moves no member, and is stored."""
        try:
            crossed = self._store.transact(
                lambda txn: groups.complete(txn, name, self._parts), ONCE
            )
        except Deposed:
            raise
        except (Conflict, Unavailable):
            return  # at the next look
        except Exception as error:  # an error of one group must not stop the others
            failure = error
            with suppress(Conflict, Unavailable):
                self._store.transact(lambda txn: self._note_failure(txn, name, failure), ONCE)
            if not isinstance(error, ExuviaError) or isinstance(error, Broken):
                self._parts.unforeseen(0, error)
            return
        for worker in self._all_workers():
            if worker.job_id in crossed:
                worker.due = 0.0
        self._give_back(crossed)

    def _note_failure(self, txn: Transaction, name: str, failure: Exception) -> None:
        self._campaign.guard(txn)
        groups.give_up(txn, name, failure)

    def _give_back(self, jobs: Iterable[int]) -> None:
        """Workers may take these parked jobs again."""
        for job_id in jobs:
            if self._parked.pop(job_id, None) is not None:
                self._ready.give_back(job_id)

    def _process_commands(self, changed: list[int], now: float) -> None:
        """Process commands of operators and joined changes: the workers of these jobs look now.

        A job without a worker that needs no turn is stepped by the spare worker.
        """
        for worker in self._all_workers():
            if worker.job_id in changed:
                worker.due = 0.0

        def process(txn: Transaction) -> list[int]:
            self._campaign.guard(txn)
            admin.forget_commands(txn, changed)
            groups.forget_changes(txn, changed)
            return [job_id for job_id in changed if self._needs_no_turn(queue.get(txn, job_id))]

        try:
            without_turn = self._store.transact(process, ONCE)
        except Conflict:
            return  # changed again: processed at the next look
        self._give_back(changed)
        for reorg, workers in self.workers.items():
            for worker in workers:
                job_id = worker.job_id
                if job_id in changed and is_reorg(self._ready.job(job_id)) != reorg:
                    worker.assign(0)  # only workers of the other pool can run its reorg
                    self._ready.give_back(job_id)
        for job_id in without_turn:
            self._spare_worker.assign(job_id)
            self._spare_worker.step(now)
            self._spare_worker.assign(0)

    def _needs_no_turn(self, job: Job | None) -> bool:
        """Whether a waiting job may be paused, or an unbegun one cancelled, without a turn."""
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
        """The workers that may take a job now; a worker beyond the limit finishes its job."""
        limit = self._limits.reorg if reorg else self._limits.general
        return self.workers[reorg][: min(limit, self._ready.most_workers)]

    def _busy(self, reorg: bool) -> tuple[int, int]:
        """(workers of the pool with a job, workers of the pool)."""
        pool = self._pool(reorg)
        return sum(worker.job_id != 0 for worker in pool), len(pool)

    def place(self) -> int:
        """The number in history of the next job that ends under this owner; from 1 in each term."""
        return self._places + 1

    def ended(self, job_id: int, *, has_place: bool = True) -> None:
        """A worker's job is in history: the next job of its table may run."""
        self._places += has_place
        if job_id in self._ready:
            self._ready.remove(job_id)
        self._dispatch()

    # -- stepping workers --------------------------------------------------------------------------

    def step_workers(self, now: float) -> float:
        """Woken by "ack": workers that wait for fronts look again."""
        with self._lock:
            if not self._owns_queue():
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
        """One step of all workers that can step together, or of the one that is due longest.

        Returns seconds until the next step.
        """
        busy = [worker for worker in self._all_workers() if worker.job_id]
        if not busy:
            return IDLE_S
        if self._batcher.step([worker for worker in busy if worker.due <= now], now):
            return 0.0
        worker = min(busy, key=lambda busy_worker: busy_worker.due)
        if worker.due > now:
            return worker.due - now
        worker.step(now)
        if worker.parked:
            rests_s = min(worker.rests_s or PAUSED_S, PAUSED_S) if worker.rests else self._tick_s
            self._parked[worker.job_id] = now + rests_s
            worker.assign(0)
            self._dispatch()
            # it may have been the last held member of a group
            self._nudged |= bool(self._completing)
        return 0.0


def _limits(txn: Transaction) -> Pools:
    """The sizes of the pools from the variables, limited by the number of workers."""
    general = variables.read_int(txn, "exuvia_ddl_general_workers")
    reorg = variables.read_int(txn, "exuvia_ddl_reorg_workers")
    return Pools(min(general, MOST.general), min(reorg, MOST.reorg))


# -- its loops -------------------------------------------------------------------------------------


class AckLoop:
    """Steps workers when a front has answered."""

    def __init__(self, manager: JobManager) -> None:
        self._manager = manager

    @property
    def channel(self) -> str:
        """Only the owner is woken by answers."""
        return JobWorker.channel if self._manager.is_owner else Campaign.channel

    def step(self, now: float) -> float:
        """One step of one worker. Returns seconds until the next."""
        return self._manager.step_workers(now)


class FillLoop:
    """Runs the reorg of one reorg worker; the job's own steps stay under the manager's lock."""

    channel = "reorg"

    def __init__(self, manager: JobManager, worker: JobWorker) -> None:
        self._manager = manager
        self._worker = worker
        self._current: ReorgRunner | None = None

    def step(self, now: float) -> float:
        """Run a part of the reorg, and the job's next step once it has ended."""
        reorg = self._worker.reorg
        if self._current is not None and self._current is not reorg:
            self._current.step(now)  # the job continued without it: this step releases everything
            self._current = None
            return 0.0
        self._current = reorg
        if reorg is None:
            return IDLE_S
        if reorg.ended:
            return self._manager.step_workers(now) if self._worker.due <= now else IDLE_S
        delay = reorg.step(now)
        if reorg.ended:
            self._worker.due = 0.0
        return delay


# -- all that an owner runs ------------------------------------------------------------------------


class Ddl:
    """The owner's side of schema changes.

    `reorg_factory(job_id, epoch, table, plan)` makes pipeline reorgs. `unforeseen(job_id, error)`
    reports an error that only a fault of this program can raise.
    """

    def __init__(
        self,
        store: Store,
        schemas: Schemas,
        member: Member,
        campaign: Campaign,
        clock: Clock,
        reorg_factory: ReorgFactory,
        pools: Pools | None = None,
        tick_s: float = TICK_S,
        unforeseen: Unforeseen = raise_it,
        trace: Callable[[Job], None] = untraced,
    ) -> None:
        waiter = Waiter(store, campaign.guard)

        def parts(ends: HistoryListener) -> WorkerContext:
            shared = (store, schemas, campaign, waiter, clock, member.id, reorg_factory)
            return WorkerContext(*shared, ends, unforeseen, trace)

        self.manager = JobManager(store, campaign, parts, pools, tick_s)
        self.gc_campaign = Campaign(store, member, ROLE)
        self.gc = GcWorker(store, self.gc_campaign, clock)
        self.inspector = Inspector(store, schemas, campaign, clock, reorg_factory)

    def nudge(self) -> None:
        """A session of this process submitted a job: no need to wait for the channel."""
        self.manager.nudge()

    def loops(self) -> list[Loop]:
        """All loops, each to be stepped by one thread."""
        fills = [FillLoop(self.manager, worker) for worker in self.manager.workers[True]]
        cleaners = (self.gc_campaign, self.gc)
        return [self.manager, AckLoop(self.manager), *fills, self.inspector, *cleaners]
