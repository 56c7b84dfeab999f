"""information_schema: indexes, and constraints by today's names. Columns as in TiDB 8.5."""

from collections.abc import Iterable, Iterator

from exuvia.catalog.model import RULE_TEXT, FkInfo, TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.sql.access.choose import shown_indexes
from exuvia.sql.information_schema.tables import all_tables
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context
from exuvia.sql.type_text import expression_of
from exuvia.sql.write.foreign_keys import index_over, names_of, parent_table, ref_ids


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
    yield from key_usage(context)


def _table_constraints(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        schema = database.db_name.O
        for index in shown_indexes(table):
            if index.is_unique:
                kind = "PRIMARY KEY" if index.is_primary else "UNIQUE"
                yield ["def", schema, index.idx_name.O, schema, table.name.O, kind]
    yield from _constraint_rows(context)


def shown_keys(context: Context, table: TableInfo) -> Iterator[FkInfo]:
    """The public foreign keys, by today's names."""
    if not table.foreign_keys:
        return
    child = context.table_of_id(table.id)
    for key in table.foreign_keys:
        if key.state == SchemaState.PUBLIC and child is not None:
            yield names_of(key, child, parent_table(context, key))


def key_usage(context: Context) -> Iterable[Row]:
    """KEY_COLUMN_USAGE of foreign keys."""
    for database, table in all_tables(context):
        schema = database.db_name.O
        for key in shown_keys(context, table):
            pairs = zip(key.cols, key.ref_cols, strict=True)
            for n, (own, theirs) in enumerate(pairs, 1):
                row: Row = ["def", schema, key.fk_name.O, "def", schema, table.name.O, own.O, n, n]
                yield [*row, key.ref_schema.O, key.ref_table.O, theirs.O]


def _constraint_rows(context: Context) -> Iterable[Row]:
    """TABLE_CONSTRAINTS of foreign keys and checks."""
    for database, table in all_tables(context):
        schema = database.db_name.O
        for key in shown_keys(context, table):
            yield ["def", schema, key.fk_name.O, schema, table.name.O, "FOREIGN KEY"]
        for each in table.checks:
            if each.state == SchemaState.PUBLIC:
                title = each.constraint_name.O
                yield ["def", schema, title, schema, table.name.O, "CHECK"]


def referential_constraints(context: Context) -> Iterable[Row]:
    """REFERENTIAL_CONSTRAINTS."""
    for database, table in all_tables(context):
        schema = database.db_name.O
        for key in shown_keys(context, table):
            head: Row = ["def", schema, key.fk_name.O, "def", key.ref_schema.O]
            rules = [RULE_TEXT.get(rule, "NO ACTION") for rule in (key.on_update, key.on_delete)]
            unique = _unique_name(context, key)
            yield [*head, unique, "NONE", *rules, table.name.O, key.ref_table.O]


def _unique_name(context: Context, key: FkInfo) -> str:
    """The index of the parent that serves the key."""
    parent = parent_table(context, key)
    if parent is None:
        return "PRIMARY"
    index = index_over(parent.info, ref_ids(key, parent))
    return index.idx_name.O if index is not None else "PRIMARY"


def check_constraints(context: Context) -> Iterable[Row]:
    """CHECK_CONSTRAINTS."""
    for database, table in all_tables(context):
        for each in table.checks:
            if each.state == SchemaState.PUBLIC:
                clause_text = f"({each.expr_string})"
                yield ["def", database.db_name.O, each.constraint_name.O, clause_text]


def tidb_check_constraints(context: Context) -> Iterable[Row]:
    """TIDB_CHECK_CONSTRAINTS: with the table's name and id."""
    for database, table in all_tables(context):
        for each in table.checks:
            if each.state == SchemaState.PUBLIC:
                row: Row = ["def", database.db_name.O, each.constraint_name.O]
                yield [*row, f"({each.expr_string})", table.name.O, table.id]


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
        referential_constraints,
    ),
    (
        "CHECK_CONSTRAINTS",
        "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME CHECK_CLAUSE:65535",
        check_constraints,
    ),
    (
        "TIDB_CHECK_CONSTRAINTS",
        "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME CHECK_CLAUSE:65535 TABLE_NAME"
        " TABLE_ID#",
        tidb_check_constraints,
    ),
)
