"""Computed tables (information_schema): of those that are many rows only what a query is about."""

from collections.abc import Callable, Iterable

from sqlglot import exp

from exuvia.base.types import Value
from exuvia.catalog.autoid import LAST_ID
from exuvia.sql import expressions
from exuvia.sql.access.ranger import conjuncts_of
from exuvia.sql.expressions import Compiled
from exuvia.sql.nodes import Tree
from exuvia.sql.result import Row
from exuvia.sql.statement.context import ANY, About, Context, VirtualTable


def rows_asked(
    virtual: VirtualTable, alias: str, where: exp.Expression | None, context: Context
) -> Callable[[], Iterable[Row]]:
    """The rows of one table, given `TABLE_SCHEMA = ... AND TABLE_NAME = ...`, or of one job.

    Clients send such queries for each of thousands of tables. WHERE is evaluated on the rows, too,
    because it distinguishes upper and lower case. So either side of a join may be narrowed."""
    wanted = dict[str, Compiled]()
    for each in conjuncts_of(where) if where is not None and virtual.heeds else ():
        if not isinstance(each, exp.EQ):
            continue
        for column, value in ((each.this, each.expression), (each.expression, each.this)):
            if _is_of(column, alias, virtual.database) and _is_same_for_all(value):
                wanted[column.name.lower()] = expressions.compiled(value, [], context.binding)
    heeded = [(name, wanted[name]) for name in virtual.heeds if name in wanted]
    if not heeded:
        return virtual.rows

    def rows() -> Iterable[Row]:
        asked = {name: compiled.call([], context) for name, compiled in heeded}
        context.about = About(
            _name(asked.get("table_schema")),
            _name(asked.get("table_name")),
            _id(asked.get("job_id")),
        )
        try:
            return list(virtual.rows())
        finally:
            context.about = ANY

    return rows


def _is_of(tree: Tree, alias: str, database: str) -> bool:
    """Whether the expression is a column of that table, or a column without a table name."""
    if not isinstance(tree, exp.Column) or tree.table.lower() not in ("", alias.lower()):
        return False
    return not tree.db or tree.db.lower() == database.lower()


def _name(value: Value) -> str | None:
    return value.lower().rstrip(" ") if isinstance(value, str) else None


def _id(value: Value) -> int | None:
    """The value as an id, or None if the comparison would convert it."""
    return value if isinstance(value, int) and 0 <= value <= LAST_ID else None


def _is_same_for_all(tree: Tree) -> bool:
    """Whether the expression is constant and has no side effects."""
    if isinstance(tree, exp.Anonymous):
        return tree.name.upper() in ("DATABASE", "SCHEMA")
    return isinstance(tree, exp.Literal | exp.Placeholder)
