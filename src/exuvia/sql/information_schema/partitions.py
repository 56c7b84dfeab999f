"""information_schema.PARTITIONS, in TiDB's columns."""

from collections.abc import Iterable

from exuvia.catalog.model import (
    DatabaseInfo,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    TableInfo,
)
from exuvia.kv import keys
from exuvia.sql.information_schema.tables import all_tables
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context
from exuvia.sql.type_text import identifier


def description(each: PartitionDefinition) -> str | None:
    """PARTITION_DESCRIPTION: the bound, or the list of values."""
    if each.less_than:
        return ",".join(each.less_than)
    if each.in_values:
        return ",".join(_row(row) for row in each.in_values)
    return None


def _row(row: tuple[str, ...]) -> str:
    return row[0] if len(row) == 1 else f"({','.join(row)})"


def method(found: PartitionInfo) -> str:
    """PARTITION_METHOD."""
    by_columns = found.columns and found.type != PartitionType.KEY
    return f"{found.type.name} COLUMNS" if by_columns else found.type.name


def partition_rows(context: Context, database: DatabaseInfo, table: TableInfo) -> Iterable[Row]:
    """Rows of PARTITIONS: one for each partition, one for a table without."""
    found = table.partition
    names: Row = ["def", database.db_name.O, table.name.O]
    count = context.session.services.store.count
    tail: Row = [None] * 4
    if found is None:
        rows = sum(count(keys.span_of(keys.row_prefix(each))) for each in table.physical_ids)
        blank: Row = [None] * 9
        yield [*names, *blank, rows, 0, 0, 0, 0, 0, *tail, None, None, None, None, None]
        return
    expr = found.expr or ",".join(identifier(column.O) for column in found.columns)
    for n, each in enumerate(found.definitions):
        rows = count(keys.span_of(keys.row_prefix(each.id)))
        row: Row = [*names, each.name.O, None, n + 1, None, method(found), None, expr, None]
        row += [description(each), rows, 0, 0, 0, 0, 0, *tail, each.comment, None, None]
        yield [*row, each.id, None]


_COLUMNS = (
    "TABLE_CATALOG:512 TABLE_SCHEMA TABLE_NAME PARTITION_NAME SUBPARTITION_NAME"
    " PARTITION_ORDINAL_POSITION# SUBPARTITION_ORDINAL_POSITION# PARTITION_METHOD:18"
    " SUBPARTITION_METHOD:12 PARTITION_EXPRESSION:65535 SUBPARTITION_EXPRESSION:65535"
    " PARTITION_DESCRIPTION:65535 TABLE_ROWS# AVG_ROW_LENGTH# DATA_LENGTH# MAX_DATA_LENGTH#"
    " INDEX_LENGTH# DATA_FREE# CREATE_TIME@ UPDATE_TIME@ CHECK_TIME@ CHECKSUM#"
    " PARTITION_COMMENT:80 NODEGROUP:12 TABLESPACE_NAME TIDB_PARTITION_ID#"
    " TIDB_PLACEMENT_POLICY_NAME"
)


def _partitions(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        yield from partition_rows(context, database, table)


TABLES = (("PARTITIONS", _COLUMNS, _partitions),)
