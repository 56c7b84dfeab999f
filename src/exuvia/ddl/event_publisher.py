"""What a finished step publishes: a job's plain Event as the SchemaChange that subscribers get."""

from collections.abc import Iterator
from itertools import islice

import msgspec

from exuvia.base.errors import Broken
from exuvia.catalog import meta as catalog
from exuvia.catalog.model import PartitionDefinition, TableInfo
from exuvia.ddl.decision import JobEvent
from exuvia.events import schema_change
from exuvia.events.schema_change import DroppedTable, Kind, Partition, SchemaChange
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

DATABASE_CAME_BACK = "flashback schema"
MOST_TOLD = 10_000
_OF_COLUMNS = (Kind.ADD_COLUMN, Kind.MODIFY_COLUMN, Kind.DROP_COLUMN)
_OF_PARTITIONS = (
    Kind.ADD_PARTITION,
    Kind.DROP_PARTITION,
    Kind.TRUNCATE_PARTITION,
    Kind.REORGANIZE_PARTITION,
)


class _Name(msgspec.Struct):
    O: str  # noqa: E741 - the seed's field name


class _Part(msgspec.Struct):
    id: int
    name: _Name


class _Cut(msgspec.Struct):
    definitions: tuple[_Part, ...] = ()


class _Mini(msgspec.Struct):
    """As little of a table's JSON as tells what it was: a database may have very many."""

    id: int
    name: _Name
    partition: _Cut | None = None
    exuvia_physical: int = 0


_decoder = msgspec.json.Decoder(_Mini)


def changes_of(txn: Transaction, event: JobEvent) -> list[SchemaChange]:
    """As `change_of`; a database that is brought back is told as the tables that come with it, as
    TiDB's events have no kind of their own for it: of very many, the first MOST_TOLD."""
    if event.type != DATABASE_CAME_BACK:
        return [change_of(txn, event)]
    if event.database is None:
        raise Broken("a database came back, and nobody says which")
    tables = islice(catalog.list_tables(txn, event.database.id), MOST_TOLD)
    return [schema_change.create_table(each) for each in tables if each.is_stored]


def change_of(txn: Transaction, event: JobEvent) -> SchemaChange:
    """The change that the event is about. `txn`: the step's own, for the tables of a database that
    goes: their infos still stand there. Raises Broken when a part of it is missing."""
    kind = Kind(event.type)
    if kind == Kind.DROP_SCHEMA:
        if event.database is None:
            raise Broken("a database was dropped, and nobody says which")
        return schema_change.drop_schema(event.database, _tables_of(txn, event.elements))
    if kind == Kind.DROP_TABLE:
        return schema_change.drop_table(_there(event, event.table))
    table = _there(event, event.table)
    if kind in _OF_COLUMNS:
        holder = _there(event, event.dropped) if kind == Kind.DROP_COLUMN else table
        changed = [column for column in holder.cols if column.id in event.elements]
        return schema_change.columns(kind, table, changed)
    if kind == Kind.ADD_INDEX:
        added = [index for index in table.indexes if index.id in event.elements]
        marks = [keys.index_statistics(table.id, index.id) for index in added]
        return schema_change.add_index(
            table, added, all(raw is not None for raw in txn.get_many(marks))
        )
    if kind in _OF_PARTITIONS:
        return schema_change.partitions(kind, table, _refs(event.added), _refs(event.removed))
    return _of_whole_tables(kind, table, event)


def _of_whole_tables(kind: Kind, table: TableInfo, event: JobEvent) -> SchemaChange:
    if kind == Kind.CREATE_TABLE:
        return schema_change.create_table(table)
    if kind == Kind.TRUNCATE_TABLE:
        return schema_change.truncate_table(table, _there(event, event.dropped))
    if kind == Kind.EXCHANGE_PARTITION:
        (partition,) = _refs(event.added)
        return schema_change.exchange_partition(table, partition, _there(event, event.dropped))
    (old_id,) = event.elements
    return schema_change.repartition(kind, table, old_id, _refs(event.added), _refs(event.removed))


def _tables_of(txn: Transaction, ids: tuple[int, ...]) -> Iterator[DroppedTable]:
    for raw in txn.get_many([keys.meta("table", each) for each in ids]):
        if raw is not None:
            table = _decoder.decode(raw)
            cut = table.partition.definitions if table.partition is not None else ()
            parts = tuple(Partition(each.id, each.name.O) for each in cut)
            if table.exuvia_physical and not parts:
                parts = (Partition(table.exuvia_physical, ""),)
            yield DroppedTable(table.id, table.name.O, parts)


def _there(event: JobEvent, table: TableInfo | None) -> TableInfo:
    if table is None:
        raise Broken(f"an event of kind '{event.type}' lacks a table")
    return table


def _refs(definitions: tuple[PartitionDefinition, ...]) -> list[Partition]:
    return [Partition(each.id, each.name.O) for each in definitions]
