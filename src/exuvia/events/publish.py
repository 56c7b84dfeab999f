"""One constructor for each kind of schema change: what its publisher must say of it."""

from collections.abc import Iterable

from exuvia.catalog.model import ColumnInfo, DatabaseInfo, IndexInfo, TableInfo
from exuvia.events.at_rest import DroppedTable, Kind, Partition, Stored
from exuvia.events.change import SchemaChange


def create_table(table: TableInfo) -> SchemaChange:
    """A table came, under a new id or a recovered one."""
    return SchemaChange(Stored(type=Kind.CREATE_TABLE, table_info=table))


def truncate_table(table: TableInfo, dropped: TableInfo) -> SchemaChange:
    """A table lost its rows: it goes on under the new id of `table`."""
    return SchemaChange(Stored(type=Kind.TRUNCATE_TABLE, table_info=table, old_table_info=dropped))


def drop_table(dropped: TableInfo) -> SchemaChange:
    """A table went."""
    return SchemaChange(Stored(type=Kind.DROP_TABLE, old_table_info=dropped))


def columns(
    kind: Kind, table: TableInfo, changed: Iterable[ColumnInfo], analyzed: bool = False
) -> SchemaChange:
    """Columns came, changed or went: ADD_COLUMN, MODIFY_COLUMN, DROP_COLUMN."""
    return SchemaChange(
        Stored(type=kind, table_info=table, columns=tuple(changed), analyzed=analyzed)
    )


def add_index(
    table: TableInfo, indexes: Iterable[IndexInfo], analyzed: bool = False
) -> SchemaChange:
    """Indexes came, full; `analyzed`: their statistics were made with them."""
    return SchemaChange(
        Stored(type=Kind.ADD_INDEX, table_info=table, indexes=tuple(indexes), analyzed=analyzed)
    )


def partitions(
    kind: Kind,
    table: TableInfo,
    added: Iterable[Partition] = (),
    dropped: Iterable[Partition] = (),
) -> SchemaChange:
    """Partitions came or went: ADD_, DROP_, TRUNCATE_ or REORGANIZE_PARTITION."""
    stored = Stored(
        type=kind,
        table_info=table,
        added_partitions=tuple(added),
        dropped_partitions=tuple(dropped),
    )
    return SchemaChange(stored)


def exchange_partition(table: TableInfo, partition: Partition, plain: TableInfo) -> SchemaChange:
    """`partition` now has the rows of what was the table `plain`, which has the partition's."""
    stored = Stored(
        type=Kind.EXCHANGE_PARTITION,
        table_info=table,
        added_partitions=(partition,),
        old_table_info=plain,
    )
    return SchemaChange(stored)


def repartition(
    kind: Kind,
    table: TableInfo,
    old_table_id: int,
    added: Iterable[Partition] = (),
    dropped: Iterable[Partition] = (),
) -> SchemaChange:
    """A table got partitions (PARTITION_BY) or lost them (REMOVE_PARTITIONING), and a new id."""
    stored = Stored(
        type=kind,
        table_info=table,
        old_table_id=old_table_id,
        added_partitions=tuple(added),
        dropped_partitions=tuple(dropped),
    )
    return SchemaChange(stored)


def drop_schema(database: DatabaseInfo, tables: Iterable[DroppedTable]) -> SchemaChange:
    """A database went, with all its tables."""
    return SchemaChange(Stored(type=Kind.DROP_SCHEMA, database_info=database, tables=tuple(tables)))
