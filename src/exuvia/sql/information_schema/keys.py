"""information_schema: indexes and constraints. Columns as in TiDB 8.5."""

from collections.abc import Iterable, Iterator

from exuvia.base.types import Flag
from exuvia.catalog.model import IndexColumn, IndexInfo, TableInfo, name
from exuvia.catalog.state import SchemaState
from exuvia.sql.information_schema.tables import all_tables
from exuvia.sql.result import Row
from exuvia.sql.show import constraints
from exuvia.sql.show.type_text import expression_of
from exuvia.sql.statement.context import Context


def shown_indexes(table: TableInfo) -> Iterator[IndexInfo]:
    """Public indexes, before them the primary key that is only a handle."""
    primary = table.index("PRIMARY")
    if table.pk_is_handle and primary is None:
        column = next(c for c in table.cols if c.type.Flag & Flag.PRI_KEY)
        part = IndexColumn(name=column.name, offset=column.offset, exuvia_column=column.id)
        yield IndexInfo(
            id=0,
            idx_name=name("PRIMARY"),
            idx_cols=(part,),
            is_unique=True,
            is_primary=True,
            exuvia_clustered=True,
        )
    yield from (index for index in table.indexes if index.state == SchemaState.PUBLIC)


def _statistics(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        place = ["def", database.db_name.O, table.name.O]
        for index in shown_indexes(table):
            for n, part in enumerate(index.idx_cols):
                column = table.cols[part.offset]
                text = expression_of(table, part)
                yield [
                    *place,
                    0 if index.is_unique else 1,
                    database.db_name.O,
                    index.idx_name.O,
                    n + 1,
                    part.name.O if text is None else None,
                    "A",
                    0,
                    part.length if part.length > 0 else None,
                    None,
                    "" if column.not_null else "YES",
                    "BTREE",
                    "",
                    index.comment,
                    "NO" if index.is_invisible else "YES",
                    text,
                ]


def _tidb_indexes(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        for index in shown_indexes(table):
            kind = 0 if index.is_unique else 1
            for n, part in enumerate(index.idx_cols):
                row: Row = [database.db_name.O, table.name.O, kind, index.idx_name.O, n + 1]
                text = expression_of(table, part)
                row += [part.name.O if text is None else None]
                row += [part.length if part.length > 0 else None, index.comment, text, index.id]
                row += ["NO" if index.is_invisible else "YES"]
                yield [*row, "YES" if index.exuvia_clustered else "NO", 0]


def _key_column_usage(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        schema = database.db_name.O
        for index in shown_indexes(table):
            if not index.is_unique:
                continue
            for n, part in enumerate(index.idx_cols):
                if expression_of(table, part) is not None:
                    continue  # the hidden column behind it is nobody's
                row: Row = ["def", schema, index.idx_name.O, "def", schema, table.name.O]
                place = 1 if index.is_primary and table.pk_is_handle else None
                yield [*row, part.name.O, n + 1, place, None, None, None]
    yield from constraints.key_usage(context)


def _table_constraints(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        schema = database.db_name.O
        for index in shown_indexes(table):
            if index.is_unique:
                kind = "PRIMARY KEY" if index.is_primary else "UNIQUE"
                yield ["def", schema, index.idx_name.O, schema, table.name.O, kind]
    yield from constraints.table_constraints(context)


TABLES = (
    (
        "STATISTICS",
        "TABLE_CATALOG:512 TABLE_SCHEMA TABLE_NAME NON_UNIQUE# INDEX_SCHEMA INDEX_NAME"
        " SEQ_IN_INDEX# COLUMN_NAME COLLATION CARDINALITY# SUB_PART# PACKED NULLABLE INDEX_TYPE"
        " COMMENT INDEX_COMMENT:1024 IS_VISIBLE Expression",
        _statistics,
    ),
    (
        "TIDB_INDEXES",
        "TABLE_SCHEMA TABLE_NAME NON_UNIQUE# KEY_NAME SEQ_IN_INDEX# COLUMN_NAME SUB_PART#"
        " INDEX_COMMENT:2048 Expression INDEX_ID# IS_VISIBLE CLUSTERED IS_GLOBAL#",
        _tidb_indexes,
    ),
    (
        "KEY_COLUMN_USAGE",
        "CONSTRAINT_CATALOG:512 CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_CATALOG:512 TABLE_SCHEMA"
        " TABLE_NAME COLUMN_NAME ORDINAL_POSITION# POSITION_IN_UNIQUE_CONSTRAINT#"
        " REFERENCED_TABLE_SCHEMA REFERENCED_TABLE_NAME REFERENCED_COLUMN_NAME",
        _key_column_usage,
    ),
    (
        "TABLE_CONSTRAINTS",
        "CONSTRAINT_CATALOG:512 CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_SCHEMA TABLE_NAME"
        " CONSTRAINT_TYPE",
        _table_constraints,
    ),
    (
        "REFERENTIAL_CONSTRAINTS",
        "CONSTRAINT_CATALOG:512 CONSTRAINT_SCHEMA CONSTRAINT_NAME UNIQUE_CONSTRAINT_CATALOG:512"
        " UNIQUE_CONSTRAINT_SCHEMA UNIQUE_CONSTRAINT_NAME MATCH_OPTION UPDATE_RULE DELETE_RULE"
        " TABLE_NAME REFERENCED_TABLE_NAME",
        constraints.referential_constraints,
    ),
    (
        "CHECK_CONSTRAINTS",
        "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME CHECK_CLAUSE:65535",
        constraints.check_constraints,
    ),
    (
        "TIDB_CHECK_CONSTRAINTS",
        "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME CHECK_CLAUSE:65535 TABLE_NAME"
        " TABLE_ID#",
        constraints.tidb_check_constraints,
    ),
)
