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

from exuvia.catalog.model import TableInfo
from exuvia.events.change import Kind, SchemaChange


def affected(change: SchemaChange) -> tuple[list[int], list[int]]:
    """(keys whose jobs go, ids of tables that are judged anew), see the table in the module."""
    match change.kind:
        case Kind.ADD_INDEX:
            added = change.get_add_index()
            return [], [] if added.analyzed else [added.table.id]
        case Kind.CREATE_TABLE:
            return [], [change.get_create_table().id]
        case Kind.ADD_COLUMN | Kind.MODIFY_COLUMN | Kind.DROP_COLUMN as kind:
            return [], [change.get_columns(kind).table.id]
        case Kind.ADD_PARTITION:
            return [], [change.get_partitions(Kind.ADD_PARTITION).table.id]
        case Kind.DROP_TABLE:
            return _keys(change.get_drop_table()), []
        case Kind.TRUNCATE_TABLE:
            return _keys(change.get_truncate_table().dropped), []
        case Kind.DROP_PARTITION | Kind.TRUNCATE_PARTITION | Kind.REORGANIZE_PARTITION as kind:
            cut = change.get_partitions(kind)
            return [cut.table.id, *(each.id for each in cut.dropped)], [cut.table.id]
        case Kind.EXCHANGE_PARTITION:
            swapped = change.get_exchange_partition()
            both = [swapped.table.id, swapped.partition.id, *_keys(swapped.plain)]
            return both, [swapped.table.id, swapped.plain.id]
        case Kind.PARTITION_BY | Kind.REMOVE_PARTITIONING as kind:
            new = change.get_repartition(kind)
            return [new.old_table_id, *(each.id for each in new.dropped)], [new.table.id]
        case Kind.DROP_SCHEMA:
            tables = change.get_drop_schema().tables
            return [n for t in tables for n in (t.id, *(part.id for part in t.partitions))], []
        case _:
            return [], []


def _keys(table: TableInfo) -> list[int]:
    return [table.id, *table.physical_ids]
