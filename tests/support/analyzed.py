"""A store with tables, and the auto-analyze queue of its owner, on a clock that tests move."""

from collections.abc import Callable

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
from exuvia.events.schema_change import SchemaChange
from exuvia.stats import meta
from exuvia.stats.cache import StatsCache
from exuvia.stats.meta import Delta, Meta
from exuvia.stats.queue import Queue
from support.small_tables import abc
from support.stores import bootstrapped

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
        return [job.key for job in self.queue.shown().waiting]
