"""The select list of a simple query: names, types and how to get each value from a row.

    *, t.*          every public column            a            a plain column, by position
    a + 1 AS b      an expression                  COUNT(*)     an aggregate (read_aggregates.py)

A column without alias is named by its own name, an expression by its text as written.
"""

from typing import NamedTuple

from sqlglot import exp

from exuvia.base.mysql_errors import ErrBadTable, ErrNoTablesUsed
from exuvia.catalog.model import ColumnInfo
from exuvia.sql import expressions
from exuvia.sql.bind.zones import is_shifted
from exuvia.sql.expr import Aggregate, Column, Outer, Subquery, Windowed, walk
from exuvia.sql.expressions import Compiled, Visible
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.parse.text import item_texts
from exuvia.sql.result import OutputColumn
from exuvia.sql.statement.context import Context


class Item(NamedTuple):
    """One output column. `position` is set for a plain column, `compiled` for other expressions,
    `aggregate` for COUNT, SUM, ..."""

    column: OutputColumn
    tree: Tree
    position: int | None = None
    compiled: Compiled | None = None
    aggregate: Aggregate | None = None


_NOT_SIMPLE = (Subquery, Windowed, Outer)


def items_of(node: exp.Select, visible: list[Visible], context: Context) -> list[Item] | None:
    """The items; None where one of them needs more than a row at a time. Raises 1054, 1064."""
    if not node.expressions:
        raise Misplaced("")
    texts = item_texts(node)
    found: list[Item] = []
    for n, tree in enumerate(node.expressions):
        text = texts[n] if len(texts) == len(node.expressions) else tree.sql("mysql")
        expanded = _star(tree, visible, context)
        if expanded is not None:
            found += expanded
            continue
        item = _item(tree, text, visible, context)
        if item is None:
            return None
        found.append(item)
    aggregates = sum(item.aggregate is not None for item in found)
    return found if aggregates in (0, len(found)) else None


def _star(tree: Tree, visible: list[Visible], context: Context) -> list[Item] | None:
    """The columns of * or t.*, None for anything else. Raises 1051, 1096."""
    if isinstance(tree, exp.Star):
        if not visible:
            raise ErrNoTablesUsed()
        wanted = visible
    elif isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
        wanted = [each for each in visible if each.alias.lower() == tree.table.lower()]
        if not wanted:
            raise ErrBadTable(tree.table)
    else:
        return None
    return [
        _starred(column, each, position, context)
        for each in wanted
        for position, column in enumerate(each.columns)
        if column in each.public
    ]


def _starred(column: ColumnInfo, each: Visible, position: int, context: Context) -> Item:
    context.check_column(column)
    tree = exp.column(column.name.O)
    if is_shifted(column.type, context.zone):
        bound = expressions.bound(exp.column(column.name.O, each.alias), [each], context)
        return Item(output_of(column, each), tree, compiled=expressions.compiled_bound(bound))
    return Item(output_of(column, each), tree, each.offset + position)


def output_of(column: ColumnInfo, table: Visible, name: str = "") -> OutputColumn:
    """What a client is told of a table's column."""
    return OutputColumn(
        name or column.name.O,
        column.type,
        table.alias,
        table.origin or table.alias,
        column.name.O,
        table.database,
    )


def _item(tree: Tree, text: str, visible: list[Visible], context: Context) -> Item | None:
    inner = tree.this if isinstance(tree, exp.Alias) else tree
    name = tree.alias if isinstance(tree, exp.Alias) else ""
    if inner.find(exp.Select, exp.Window):
        return None
    bound = expressions.bound(inner, visible, context, "field list", aggregates=True)
    if any(isinstance(node, _NOT_SIMPLE) for node in walk(bound)):
        return None
    if isinstance(bound, Column):
        return _plain(bound, inner, name, visible)
    literal = inner.expression if isinstance(inner, exp.Introducer) else inner
    if isinstance(literal, exp.Literal) and literal.is_string:
        text = literal.name
    column = OutputColumn(name or text, bound.type)
    if isinstance(bound, Aggregate):
        return Item(column, inner, aggregate=bound)
    if any(isinstance(node, Aggregate) for node in walk(bound)):
        return None
    return Item(column, inner, compiled=expressions.compiled_bound(bound))


def _plain(bound: Column, tree: Tree, name: str, visible: list[Visible]) -> Item:
    for each in visible:
        position = bound.position - each.offset
        if 0 <= position < len(each.columns):
            shown = name or (tree.name if isinstance(tree, exp.Column) else "")
            column = output_of(each.columns[position], each, shown)
            return Item(column, tree, bound.position)
    return Item(OutputColumn(name or bound.name, bound.type), tree, bound.position)
