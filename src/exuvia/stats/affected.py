"""Which schema change concerns which jobs of the auto-analyze queue.

add index                       its table is judged anew, unless its statistics are made
create table, add partition     judged anew: a recovered table has rows; it is noted whose
                                the partitions are
add, modify, drop column        judged anew: its size is another (TiDB waits for its rows)
drop, truncate table            jobs of the table and of its partitions go
drop, truncate, reorganize p.   jobs of the partitions that went; the table is judged anew
exchange partition              jobs of both sides; both are judged anew
partition by, remove p.         jobs under the old ids; the new one is judged anew
drop schema                     jobs of all its tables
"""

from typing import NamedTuple

from exuvia.catalog.model import TableInfo
from exuvia.events.change import Kind, SchemaChange


class Affected(NamedTuple):
    """Jobs by these keys go, if they are jobs of these tables: an exchanged partition has the id of
    a table that lives on. Then tables are judged anew."""

    keys: list[int]
    tables: frozenset[int]
    anew: list[int]


def affected(change: SchemaChange) -> Affected:
    """See the table in the module."""
    match change.kind:
        case Kind.ADD_INDEX:
            added = change.get_add_index()
            return _judged([] if added.analyzed else [added.table.id])
        case Kind.CREATE_TABLE:
            return _judged([change.get_create_table().id])
        case Kind.ADD_COLUMN | Kind.MODIFY_COLUMN | Kind.DROP_COLUMN as kind:
            return _judged([change.get_columns(kind).table.id])
        case Kind.ADD_PARTITION:
            return _judged([change.get_partitions(Kind.ADD_PARTITION).table.id])
        case Kind.DROP_TABLE:
            return _gone(change.get_drop_table())
        case Kind.TRUNCATE_TABLE:
            return _gone(change.get_truncate_table().dropped)
        case Kind.DROP_PARTITION | Kind.TRUNCATE_PARTITION | Kind.REORGANIZE_PARTITION as kind:
            cut = change.get_partitions(kind)
            keys = [cut.table.id, *(each.id for each in cut.dropped)]
            return Affected(keys, frozenset({cut.table.id}), [cut.table.id])
        case Kind.EXCHANGE_PARTITION:
            swapped = change.get_exchange_partition()
            both = [swapped.table.id, swapped.plain.id]
            keys = [*both, swapped.partition.id, *swapped.plain.physical_ids]
            return Affected(keys, frozenset(both), both)
        case Kind.PARTITION_BY | Kind.REMOVE_PARTITIONING as kind:
            new = change.get_repartition(kind)
            both = [new.old_table_id, new.table.id]
            keys = [new.old_table_id, *(each.id for each in new.dropped)]
            return Affected(keys, frozenset(both), [new.table.id])
        case Kind.DROP_SCHEMA:
            tables = change.get_drop_schema().tables
            keys = [n for t in tables for n in (t.id, *(part.id for part in t.partitions))]
            return Affected(keys, frozenset(table.id for table in tables), [])
        case _:
            return _judged([])


def _judged(table_ids: list[int]) -> Affected:
    return Affected([], frozenset(), table_ids)


def _gone(table: TableInfo) -> Affected:
    return Affected([table.id, *table.physical_ids], frozenset({table.id}), [])
