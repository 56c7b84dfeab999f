"""A front and an owner on one memory store, stepped by one thread on a clock that moves when told.

    cluster = SmallCluster()
    job = cluster.run(requests.add_index(...))      until it is in history
    cluster.step()                                  one round of every loop
    cluster.crash_owner()                           what it held in memory is gone; a new one comes

`PlainReorg` fills by the pipeline's rules in short: one row a step, put if absent, unique entries
judged singly. The pipeline's own kernels have tests of their own.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeVar

from exuvia.base.clock import ManualClock
from exuvia.base.mysql_errors import ErrDupEntry
from exuvia.catalog import reader
from exuvia.catalog.codec.key_codec import index_entries
from exuvia.catalog.infoschema import Loader, Schemas
from exuvia.catalog.model import DatabaseInfo, IndexInfo
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.cluster.versions import Acknowledger, MetadataLocks
from exuvia.ddl import queue
from exuvia.ddl.gc_worker import GcWorker
from exuvia.ddl.job import Job
from exuvia.ddl.manager import TICK_S, Ddl, Pools
from exuvia.ddl.submit import Submitter
from exuvia.ddl.worker import ReorgFactory
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, TOMBSTONE, Equal
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.reorg import Done, Duplicates, Progress, Running
from support.tables import EVALUATOR, bootstrapped


class PlainReorg:
    """A reorg that reads when it is first stepped and then writes one row a step."""

    def __init__(
        self, store: Store, job_id: int, epoch: int, table: Table, index_ids: list[int]
    ) -> None:
        self._store = store
        self._require = Equal(keys.meta("reorg", job_id), keys.number(epoch))
        self._table = table
        self._indexes = [i for i in table.info.indexes if i.id in index_ids]
        self._life = self._live()
        self._found: list[str] = []
        self.stopped = False

    @classmethod
    def factory(cls, store: Store) -> ReorgFactory:
        """As node/ wires one."""
        return lambda job_id, epoch, table, work: cls(
            store, job_id, epoch, table, list(work.phases[0].index_ids)
        )

    def step(self, now: float) -> Progress:
        return next(self._life)

    def stop(self) -> None:
        self.stopped = True

    def _live(self) -> Iterator[Progress]:
        txn = self._store.begin()
        rows = list(reader.scan(txn, self._table))
        txn.rollback()
        for done, (handle, row) in enumerate(rows):
            yield Running(done, 1.0, None, "fill", "")
            for index in self._indexes:
                self._put(index, handle, row)
        if self._found:
            yield Duplicates(self._found, ErrDupEntry.with_text(self._found[0]))
        yield Done(len(rows))

    def _put(self, index: IndexInfo, handle: bytes, row: list[object]) -> None:
        for key, unique in index_entries(self._table, index, row, handle):
            payload = LIVE + handle if unique else LIVE
            result = self._store.bulk([key], payload, [self._require], report=True)
            for _, held in result.present:
                if unique and held != payload:
                    self._judge(index, key, payload, handle, row)

    def _judge(
        self, index: IndexInfo, key: bytes, payload: bytes, handle: bytes, row: list[object]
    ) -> None:
        txn = self._store.begin()
        held, now = txn.get(key), reader.get(txn, self._table, handle)
        found = () if now is None else index_entries(self._table, index, now, handle)
        same = any(each == key for each, _ in found)
        txn.rollback()
        if not same or held == payload:
            return
        if held is None or held == TOMBSTONE:
            self._store.bulk([key], payload, [self._require], overwrite=True)
        else:
            values = "-".join(str(row[part.offset]) for part in index.idx_cols)
            where = f"{self._table.info.name.O}.{index.idx_name.O}"
            self._found.append(f"Duplicate entry '{values}' for key '{where}'")


T = TypeVar("T")
FROM_VARIABLES = None


class Front:
    """A member that acknowledges; one that is `mute` only beats, as fronts of older builds may."""

    def __init__(self, store: Store, clock: ManualClock, name: str) -> None:
        self.member = Member.join(store, clock, "front", name, lease_s=1.0, identity=lambda: name)
        self.schemas = Schemas(store, evaluator=EVALUATOR)
        self.locks = MetadataLocks(clock)
        self.loader = Loader(self.schemas, self.member.loaded)
        self.acknowledger = Acknowledger(store, self.member, self.locks)
        self.mute = False

    def step(self, now: float) -> None:
        if self.mute:
            self.member.step(now)
        else:
            self.loader.step(now)
            self.acknowledger.step(now)


class Owner:
    """A back: campaign and the owner's loops."""

    def __init__(
        self,
        store: Store,
        clock: ManualClock,
        name: str,
        reorgs: ReorgFactory,
        pools: Pools | None,
        tick_s: float,
    ) -> None:
        self.member = Member.join(store, clock, "back", name, lease_s=1.0, identity=lambda: name)
        self.campaign = Campaign(store, self.member)
        self.ddl = Ddl(
            store,
            Schemas(store, evaluator=EVALUATOR),
            self.member,
            self.campaign,
            clock,
            reorgs,
            pools,
            tick_s,
        )
        self._loops = self.ddl.loops()

    def step(self, now: float) -> None:
        self.member.step(now)
        self.campaign.step(now)
        for loop in self._loops:
            loop.step(now)

    def take_gc(self) -> GcWorker:
        """The worker of deferred deletion, which the caller steps from now on."""
        self._loops.remove(self.ddl.gc)
        return self.ddl.gc


class SmallCluster:
    """See the module."""

    def __init__(
        self,
        fronts: int = 1,
        pools: Pools | None = Pools(4, 2),  # noqa: B008 - a frozen value
        reorgs: Callable[[Store], ReorgFactory] = PlainReorg.factory,
        tick_s: float = TICK_S,
        store: MemoryStore | None = None,
    ) -> None:
        self.store = bootstrapped(store)
        self.clock = ManualClock()
        self.keep_dropped(0)
        self._names = count()
        self._pools = pools
        self._reorgs = reorgs
        self._tick_s = tick_s
        self.fronts = [self.add_front() for _ in range(fronts)]
        self.owner = self._new_owner()
        self.submitter = self.submitter_of(self.fronts[0] if self.fronts else self.owner)

    def keep_dropped(self, seconds: int) -> None:
        """How long dropped tables can be recovered."""
        txn = self.store.begin()
        variables.set_global(txn, "exuvia_drop_retention_s", seconds)
        txn.commit()

    def add_front(self) -> Front:
        return Front(self.store, self.clock, f"front{next(self._names)}")

    def submitter_of(self, node: Front | Owner) -> Submitter:
        return Submitter(
            self.store, Schemas(self.store, evaluator=EVALUATOR), node.member, self.clock
        )

    def another_owner(self) -> Owner:
        """A back that has not campaigned yet."""
        name = f"back{next(self._names)}"
        reorgs = self._reorgs(self.store)
        return Owner(self.store, self.clock, name, reorgs, self._pools, self._tick_s)

    def _new_owner(self) -> Owner:
        owner = self.another_owner()
        owner.campaign.step(self.clock.monotonic())
        return owner

    def crash_owner(self) -> None:
        """The process is gone; the store sees at once that its presence is free."""
        self.store.end_presence(f"member-{self.owner.member.id}")
        self.owner = self._new_owner()

    def step(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            self.clock.advance(0.01)
            now = self.clock.monotonic()
            for front in self.fronts:
                front.step(now)
            self.owner.step(now)

    # -- jobs --------------------------------------------------------------------------------------

    def submit(self, job: Job) -> int:
        return self.submitter.submit_nowait(job)

    def run(self, job: Job) -> Job:
        """Submit it and step until it is in history."""
        return self.finish(self.submit(job))

    def finish(self, job_id: int, rounds: int = 2000) -> Job:
        for _ in range(rounds):
            found = self.read(lambda txn: queue.finished(txn, job_id))
            if found is not None:
                return found
            self.step()
        job = self.read(lambda txn: queue.get(txn, job_id))
        raise AssertionError(
            f"job does not end: {job and job.describe()} {job and job.exuvia_wait}"
        )

    def job(self, job_id: int) -> Job:
        """Unfinished or finished."""
        found = self.read(lambda txn: queue.get(txn, job_id) or queue.finished(txn, job_id))
        assert found is not None
        return found

    # -- the catalog -------------------------------------------------------------------------------

    def read(self, look: Callable[[Transaction], T]) -> T:
        txn = self.store.begin()
        try:
            return look(txn)
        finally:
            txn.rollback()

    def database(self, name: str = "test") -> DatabaseInfo:
        return self.read(lambda txn: Schemas(self.store, evaluator=EVALUATOR).database(txn, name))

    def table(self, name: str, database: str = "test") -> Table:
        return self.read(
            lambda txn: Schemas(self.store, evaluator=EVALUATOR).table(txn, database, name)
        )
