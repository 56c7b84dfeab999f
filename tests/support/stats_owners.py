"""Owners of the statistics on one memory store, on a clock that tests move.

news = News()
news.finish(7)                job 7 ends: its event is in the outbox, as finished jobs put them
news.run()                    the owner's notifier, until it has nothing to do
news.replace_owner()          the process is gone; another one, with new memory, takes over

place = Place()               a store with tables, and the auto-analyze queue of its owner
heap()                        of `Element`s: the greatest rank leaves first, of equal ones the
                              least key
"""

from collections.abc import Callable
from typing import NamedTuple

from exuvia.base.clock import ManualClock
from exuvia.catalog import meta as catalog
from exuvia.catalog.model import (
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.system_tables import TEST_ID
from exuvia.catalog.sysvar import variables
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.events import notifier, schema_change
from exuvia.events.notifier import Handler, Notifier
from exuvia.events.schema_change import SchemaChange
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import WriteKind
from exuvia.kv.transaction import Transaction
from exuvia.stats import meta
from exuvia.stats.cache import StatsCache
from exuvia.stats.meta import Delta, Meta
from exuvia.stats.queue import Heap, Queue
from support.tables import abc, bootstrapped

MOST_STEPS = 100_000


class Ledger:
    """A handler whose effect is in the store: one key an event, written by insert, so that a
    second time would be an error; and a list of what it was called with."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.called: list[tuple[int, int]] = []
        self.refuses: Callable[[SchemaChange], Exception | None] = lambda change: None

    def __call__(self, txn: Transaction, change: SchemaChange) -> None:
        self.called.append(change.origin)
        refusal = self.refuses(change)
        if refusal is not None:
            raise refusal
        job_id, part = change.origin
        txn.write(WriteKind.CLAIM, self.key(job_id, part), b"\1" + keys.u64(job_id))

    def key(self, job_id: int, part: int) -> bytes:
        return f"zz/{self.name}/".encode() + keys.i64(job_id) + keys.i64(part)

    def effects(self, store: MemoryStore) -> list[tuple[int, int]]:
        prefix = f"zz/{self.name}/".encode()
        txn = store.begin()
        found = [key[len(prefix) :] for key, _ in txn.scan(keys.span_of(prefix))]
        txn.rollback()
        return [(keys.read_i64(each[:8]), keys.read_i64(each[8:])) for each in found]


class News:
    def __init__(self, *handlers: tuple[int, str, Handler], store: MemoryStore | None = None):
        self.store = bootstrapped(store)
        self.clock = ManualClock()
        self.handlers = list(handlers)
        self._owners = 0
        self.start()

    def start(self) -> None:
        self._owners += 1
        name = f"back-{self._owners}"
        self.member = Member.join(
            self.store, self.clock, "back", name, lease_s=1.0, identity=lambda: name
        )
        self.campaign = Campaign(self.store, self.member, "stats")
        self.notifier = Notifier(self.store, self.campaign)
        for handler in self.handlers:
            self.notifier.register(*handler)

    def finish(self, job_id: int, *parts: SchemaChange) -> None:
        """The transaction of a job's last step. Without parts: CREATE TABLE."""
        txn = self.store.begin()
        if parts:
            for part, change in enumerate(parts):
                notifier.put(txn, job_id, part, change)
        else:
            notifier.put(
                txn, job_id, notifier.WHOLE_JOB, schema_change.create_table(abc(f"t{job_id}"))
            )
        txn.commit()

    def step(self) -> float:
        now = self.clock.monotonic()
        self.member.step(now)
        self.campaign.step(now)
        return self.notifier.step(now)

    def run(self, seconds: float = 30.0) -> None:
        """Step until so much time has gone by with nothing to do in between."""
        until = self.clock.monotonic() + seconds
        for _ in range(MOST_STEPS):
            self.clock.advance(min(self.step(), 0.2))
            if self.clock.monotonic() > until:
                return
        raise AssertionError("the notifier does not come to rest")

    def replace_owner(self) -> None:
        self.start()
        for _ in range(40):  # silence lasts a lease
            self.campaign.step(self.clock.monotonic())
            self.clock.advance(0.1)

    def pending(self) -> list[tuple[int, int]]:
        txn = self.store.begin()
        found = [event.place for event in notifier.pending(txn)]
        txn.rollback()
        return found


# -- the auto-analyze queue ------------------------------------------------------------------------

DAY = 86_400


class Place:
    """`term` says whose the queue is."""

    def __init__(self, term: Callable[[], int] = lambda: 1) -> None:
        self.term = term
        self.store, self.clock = bootstrapped(), ManualClock()
        self.cache = StatsCache(self.store)
        self.queue = self.new_queue()

    def new_queue(self) -> Queue:
        return Queue(self.store, self.cache, lambda: self.clock.wall_ns() / 1e9, self.term)

    @property
    def wall(self) -> float:
        return self.clock.wall_ns() / 1e9

    def table(self, table_id: int, partitions: tuple[int, ...] = (), **more) -> TableInfo:
        info = evolve(abc(f"t{table_id}"), id=table_id, exuvia_db=TEST_ID, **more)
        if partitions:
            cut = tuple(PartitionDefinition(id=n, name=name(f"p{n}")) for n in partitions)
            info = evolve(
                info, partition=PartitionInfo(type=PartitionType.HASH, expr="a", definitions=cut)
            )
        self.put(info)
        return info

    def put(self, info: TableInfo) -> None:
        txn = self.store.begin()
        catalog.put_table(txn, info)
        txn.commit()

    def drop(self, info: TableInfo) -> None:
        txn = self.store.begin()
        catalog.drop_table(txn, info)
        txn.commit()

    def rows(self, table_id: int, rows: int, modified: int) -> None:
        txn = self.store.begin()
        meta.add(txn, {table_id: Delta(rows, modified)})
        txn.commit()

    def analyzed(self, table_id: int, rows: int, ago_s: float = 0, indexes: str = "") -> None:
        txn = self.store.begin()
        version = meta.draw_version(txn)
        when = int(self.wall - ago_s)
        meta.put(txn, Meta(version, table_id, 0, rows, 0, None, rows, when, indexes))
        txn.commit()

    def tell(self, change: SchemaChange) -> None:
        txn = self.store.begin()
        self.queue.handle(txn, change)
        txn.rollback()

    def set(self, variable: str, value: str) -> None:
        txn = self.store.begin()
        variables.set_global(txn, variable, value)
        txn.commit()

    def go(self, seconds: float = 4.0) -> None:
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            self.cache.step(self.clock.monotonic())
            for _ in range(20):
                if self.queue.step(self.clock.monotonic()):
                    break
            self.clock.advance(1.0)

    def keys(self) -> list[int]:
        return [job.key for job in self.queue.snapshot().waiting]


# -- elements of a heap ----------------------------------------------------------------------------


class Element(NamedTuple):
    minus_rank: float
    key: int


def of(key: int, rank: float) -> Element:
    return Element(-rank, key)


def heap() -> Heap[int, Element]:
    return Heap(lambda element: element.key)
