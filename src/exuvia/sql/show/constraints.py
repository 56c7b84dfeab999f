"""What is shown of CHECK and FOREIGN KEY: lines of SHOW CREATE TABLE, and information_schema.

Names of keys' tables and columns are today's (write/foreign_keys_sides.py).
"""

from collections.abc import Iterable, Iterator

from exuvia.catalog.constraint_info import RULE_TEXT, FkInfo
from exuvia.catalog.model import TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.sql.information_schema.tables import all_tables
from exuvia.sql.result import Row
from exuvia.sql.show.type_text import identifier
from exuvia.sql.statement.context import Context
from exuvia.sql.write.foreign_keys_lookup import index_over
from exuvia.sql.write.foreign_keys_sides import clause, names_of, parent_table, ref_ids

PUBLIC = SchemaState.PUBLIC


def shown_keys(context: Context, table: TableInfo) -> Iterator[FkInfo]:
    """The public foreign keys, by today's names."""
    if not table.foreign_keys:
        return
    child = context.table_of_id(table.id)
    for key in table.foreign_keys:
        if key.state == PUBLIC and child is not None:
            yield names_of(key, child, parent_table(context, key))


def constraint_lines(context: Context, table: TableInfo) -> list[str]:
    """Lines of SHOW CREATE TABLE, foreign keys first.

    TiDB does not indent CHECK and keeps the parentheses that were written; SQLAlchemy reads it
    only where it is indented as in MySQL. exuvia_compatibility says which."""
    lines = []
    own = context.table_of_id(table.id)
    home = own.database.db_name.O if own is not None else ""
    for key in shown_keys(context, table):
        mark = "" if key.version else " /* FOREIGN KEY INVALID */"
        lines.append(f"  {clause(key, home, ',')}{mark}")
    mysql = table.checks and context.session.variable("exuvia_compatibility") == "mysql"
    for each in table.checks:
        if each.state == PUBLIC:
            relaxed = "" if each.enforced else " /*!80016 NOT ENFORCED */"
            title = identifier(each.constraint_name.O)
            text = each.expr_string
            if mysql:
                wrapped = text if is_wrapped(text) else f"({text})"
                lines.append(f"  CONSTRAINT {title} CHECK ({wrapped}){relaxed}")
            else:
                lines.append(f"CONSTRAINT {title} CHECK (({text})){relaxed}")
    return lines


def is_wrapped(text: str) -> bool:
    """Whether one pair of parentheses is around all of it: a dump that is loaded and dumped again
    must not gain a pair each time."""
    depth, quote = 0, ""
    for n, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'`\"":
            quote = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
            if depth == 0:
                return n == len(text) - 1 and text[0] == "("
        if depth == 0 and not quote and n == 0:
            return False
    return False


# -- information_schema ----------------------------------------------------------------------------


def key_usage(context: Context) -> Iterable[Row]:
    """KEY_COLUMN_USAGE of foreign keys."""
    for database, table in all_tables(context):
        schema = database.db_name.O
        for key in shown_keys(context, table):
            pairs = zip(key.cols, key.ref_cols, strict=True)
            for n, (own, theirs) in enumerate(pairs, 1):
                row: Row = ["def", schema, key.fk_name.O, "def", schema, table.name.O, own.O, n, n]
                yield [*row, key.ref_schema.O, key.ref_table.O, theirs.O]


def table_constraints(context: Context) -> Iterable[Row]:
    """TABLE_CONSTRAINTS of foreign keys and checks."""
    for database, table in all_tables(context):
        schema = database.db_name.O
        for key in shown_keys(context, table):
            yield ["def", schema, key.fk_name.O, schema, table.name.O, "FOREIGN KEY"]
        for each in table.checks:
            if each.state == PUBLIC:
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
            if each.state == PUBLIC:
                clause_text = f"({each.expr_string})"
                yield ["def", database.db_name.O, each.constraint_name.O, clause_text]


def tidb_check_constraints(context: Context) -> Iterable[Row]:
    """TIDB_CHECK_CONSTRAINTS: with the table's name and id."""
    for database, table in all_tables(context):
        for each in table.checks:
            if each.state == PUBLIC:
                row: Row = ["def", database.db_name.O, each.constraint_name.O]
                yield [*row, f"({each.expr_string})", table.name.O, table.id]
