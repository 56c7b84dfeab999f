"""Everything an owner runs for schema changes, put together; `node/` and the simulator drive it.

    loops()    JobManager "job" · AckLoop "ack" · FillLoop "reorg" (a reorg worker)
               Campaign for "gc" · Gc "history"

Each has `channel` and `step(now)` and does nothing while this process is not the owner. Deferred
deletion has an ownership of its own: who walks jobs need not be who empties ranges.

Besides `JobManager`, which is woken by "job":

AckLoop    "ack"     a front has answered: whoever waits for fronts looks again
FillLoop   "reorg"   a reorg worker has something to fill: a thread of its own, since it lasts
"""

from exuvia.base.clock import Clock, Loop
from exuvia.catalog.infoschema import Schemas
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.cluster.versions import Waiter
from exuvia.ddl.gc_worker import ROLE, GcWorker
from exuvia.ddl.manager import TICK_S, JobManager, Pools
from exuvia.ddl.worker import (
    IDLE_S,
    HistoryListener,
    JobWorker,
    ReorgFactory,
    ReorgRunner,
    Unforeseen,
    WorkerContext,
    raise_it,
)
from exuvia.kv.store import Store


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
        self._held: ReorgRunner | None = None

    def step(self, now: float) -> float:
        """A while of the reorg; the job's next step once it has ended."""
        reorg = self._worker.reorg
        if self._held is not None and self._held is not reorg:
            self._held.step(now)  # the job went on without it: it lets everything go
            self._held = None
            return 0.0
        self._held = reorg
        if reorg is None:
            return IDLE_S
        if reorg.ended:
            return self._manager.step_workers(now) if self._worker.due <= now else IDLE_S
        delay = reorg.step(now)
        if reorg.ended:
            self._worker.due = 0.0
        return delay


# -- owner -----------------------------------------------------------------------------------------


class Ddl:
    """The owner's side. `reorg_factory(job_id, epoch, table, plan)` gives pipeline reorgs,
    `unforeseen(job_id, error)` says an error loudly that only a fault of this program can raise."""

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
    ) -> None:
        waiter = Waiter(store, campaign.guard)

        def parts(ends: HistoryListener) -> WorkerContext:
            shared = (store, schemas, campaign, waiter, clock, member.id, reorg_factory)
            return WorkerContext(*shared, ends, unforeseen)

        self.manager = JobManager(store, campaign, parts, pools, tick_s)
        self.gc_campaign = Campaign(store, member, ROLE)
        self.gc = GcWorker(store, self.gc_campaign, clock)

    def nudge(self) -> None:
        """A session of this very process submitted a job: no need to wait for the channel."""
        self.manager.nudge()

    def loops(self) -> list[Loop]:
        """All of them, each to be stepped by one thread."""
        fills = [FillLoop(self.manager, worker) for worker in self.manager.workers[True]]
        return [self.manager, AckLoop(self.manager), *fills, self.gc_campaign, self.gc]
