"""What mysql.stats_meta must hold: rows and changed rows, worked out beside the program.

Written from what people are told of each kind of change, not from the handler: it is given each
event once, at the commit where its flag appears. Effects that are not idempotent (partitions that
go, an exchange) show an event that was taken twice, or never.

Of ids whose tables are gone nothing is said: their rows are removed some time later.
"""

from collections.abc import Iterable, Iterator, Mapping

from exuvia.catalog.model import TableInfo
from exuvia.catalog.reader import scan
from exuvia.events.schema_change import Kind, SchemaChange
from exuvia.kv.transaction import Transaction
from exuvia.stats import meta
from exuvia.stats.meta import Delta, Meta
from exuvia.stats.queue import Queue


def whole_of(table: TableInfo) -> int:
    """The id that the statistics of a whole table stand under."""
    return table.id if table.partition is not None else table.physical_ids[0]


def ids_of(table: TableInfo) -> list[int]:
    """All ids that statistics of a table stand under."""
    return list(dict.fromkeys([whole_of(table), *table.physical_ids]))


class Told:
    """An event as its publisher meant it. `whole`: where the statistics of its table stood, and
    where they are to stand."""

    def __init__(self, change: SchemaChange, whole: tuple[int, int] = (0, 0)) -> None:
        self.change = change
        self.whole = whole


class RowCountModel:
    """See the module. `rows`: id -> (rows, changed rows)."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, int]] = {}
        self.gone: set[int] = set()

    def add(self, deltas: Mapping[int, Delta]) -> None:
        for each, delta in deltas.items():
            rows, modified = self.rows.get(each, (0, 0))
            self.rows[each] = max(0, rows + delta.rows), modified + delta.modified

    def analyzed(self, each: int, rows: int) -> None:
        """A table was counted."""
        self.rows[each] = rows, 0

    def take(self, told: Told) -> None:
        """An event was handled."""
        change = told.change
        match change.kind:
            case Kind.CREATE_TABLE:
                self._come(ids_of(change.get_create_table()))
            case Kind.TRUNCATE_TABLE:
                self._come(ids_of(change.get_truncate_table().table))
                self._go(ids_of(change.get_truncate_table().dropped))
            case Kind.DROP_TABLE:
                self._go(ids_of(change.get_drop_table()))
            case Kind.DROP_SCHEMA:
                for table in change.get_drop_schema().tables:
                    self._go([part.id for part in table.partitions] or [table.id])
                    self._go([table.id] if all(part.name for part in table.partitions) else [])
            case Kind.EXCHANGE_PARTITION:
                self._exchange(change)
            case Kind.PARTITION_BY | Kind.REMOVE_PARTITIONING:
                self._repartition(told)
            case Kind.ADD_PARTITION | Kind.DROP_PARTITION as kind:
                self._partitions(change, kind)
            case Kind.TRUNCATE_PARTITION | Kind.REORGANIZE_PARTITION as kind:
                self._partitions(change, kind)

    def _come(self, ids: Iterable[int]) -> None:
        for each in ids:
            self.rows.setdefault(each, (0, 0))
            self.gone.discard(each)

    def _go(self, ids: Iterable[int]) -> None:
        self.gone.update(ids)

    def _partitions(self, change: SchemaChange, kind: Kind) -> None:
        found = change.get_partitions(kind)
        self._come(part.id for part in found.added)
        if kind != Kind.REORGANIZE_PARTITION:
            lost = sum(self.rows.get(part.id, (0, 0))[0] for part in found.dropped)
            self._shift(found.table.id, -lost, lost)
        self._go(part.id for part in found.dropped)

    def _exchange(self, change: SchemaChange) -> None:
        found = change.get_exchange_partition()
        (left_id,) = found.plain.physical_ids
        came, left = (self.rows.get(n, (0, 0))[0] for n in (found.partition.id, left_id))
        self.gone -= {found.partition.id, left_id}
        self._shift(found.table.id, came - left, came + left)

    def _repartition(self, told: Told) -> None:
        found = told.change.get_repartition(told.change.kind)
        old, new = told.whole
        if found.table.partition is not None:
            self._come(part.id for part in found.added)
        self._go(part.id for part in found.dropped)
        if old in self.rows and old != new:
            self.rows[new] = self.rows[old]
            self._go([old])
        self.gone.discard(new)

    def _shift(self, whole: int, rows: int, modified: int) -> None:
        if modified:
            self.add({whole: Delta(rows, modified)})

    def differing(self, metas: Iterable[Meta]) -> list[str]:
        """Where the store says something else."""
        held = {each.table_id: (each.rows, each.modified) for each in metas}
        ids = (held.keys() | self.rows.keys()) - self.gone
        return [
            f"{each}: {held.get(each)}, expected {self.rows.get(each)}"
            for each in sorted(ids)
            if held.get(each) != self.rows.get(each)
        ]


def metas_of(txn: Transaction) -> Iterator[Meta]:
    """Every row of mysql.stats_meta."""
    for _, row in scan(txn, meta.table_of(txn)):
        yield Meta._make([*row[:8], row[8] or ""])


def jobs_of(queue: Queue) -> dict[int, tuple[object, ...]]:
    """What a queue holds, without ages."""
    return {
        job.key: (job.table_id, job.change, job.size, sorted(job.partitions), job.indexes)
        for job in queue.shown().waiting
    }
