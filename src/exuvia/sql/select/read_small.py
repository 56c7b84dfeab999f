"""SELECT from rows that are computed: none at all (SELECT 1), or a table of information_schema.

    rows -> WHERE -> ORDER BY -> select list -> DISTINCT -> LIMIT          or one row of aggregates

There is no key to read by, and never many rows, so each step is a list.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from sqlglot import exp

from exuvia.sql import expressions
from exuvia.sql.access.filtering import limit_of
from exuvia.sql.access.single_table import tree_of
from exuvia.sql.access.sorting import comparer
from exuvia.sql.expressions import Visible
from exuvia.sql.result import Result, Row
from exuvia.sql.select.read import (
    Accumulators,
    OutputItem,
    clause_value,
    distinct,
    is_simple,
    is_supported,
    items_of,
    named_item,
    projection,
)
from exuvia.sql.statement.context import Context, VirtualTable
from exuvia.sql.statement.plan import Plan


def plan(node: exp.Select, context: Context) -> "SmallRows | None":
    """The plan, or None where a stored table or more than one is named."""
    if not is_simple(node):
        return None
    if node.args.get("from_") is None and node.args.get("from") is None:
        return _planned(node, [], lambda: [[]], context)
    tree = tree_of(node)
    virtual = None if tree is None else context.virtual(tree.db, tree.name)
    if tree is None or virtual is None:
        return None
    return _planned(node, [_visible(tree, virtual)], virtual.rows, context)


def _visible(tree: exp.Table, virtual: VirtualTable) -> Visible:
    alias = tree.alias or tree.name
    columns = virtual.columns
    return Visible(alias, virtual.database, columns, columns, origin=virtual.name)


def _planned(
    node: exp.Select,
    visible: list[Visible],
    rows: Callable[[], Iterable[Row]],
    context: Context,
) -> "SmallRows | None":
    items = items_of(node, visible, context)
    if items is None or not all(is_supported(item.aggregate) for item in items):
        return None
    return SmallRows(node, visible, rows, items, context)


class SmallRows(Plan):
    """See the module."""

    def __init__(
        self,
        node: exp.Select,
        visible: list[Visible],
        rows: Callable[[], Iterable[Row]],
        items: Sequence[OutputItem],
        context: Context,
    ) -> None:
        self.columns = [item.column for item in items]
        self._rows = rows
        self._items = items
        where = node.args.get("where")
        self._keeps = expressions.condition(where.this, visible, context) if where else None
        self._order = _order(node, items, visible, context)
        self._distinct = node.args.get("distinct") is not None
        self._limit = limit_of(clause_value(node, "limit"), clause_value(node, "offset"))

    def run(self, context: Context) -> Result:
        found = [list(row) for row in self._rows()]
        if self._keeps is not None:
            found = [row for row in found if self._keeps(row, context)]
        for compiled, descending in reversed(self._order):
            key = comparer(compiled.type)
            call = compiled.call
            found.sort(key=lambda row: key(call(row, context)), reverse=descending)
        if self._items[0].aggregate is not None:
            found = Accumulators(self._items).rows(((b"", row) for row in found), context)
        else:
            project = projection(self._items)
            found = [project(row, context) for row in found]
        if self._distinct:
            found = distinct(found, self.columns)
        if self._limit is not None:
            found = list(islice(found, *self._limit.bounds(context)))
        return Result(self.columns, found)


def _order(
    node: exp.Select, items: Sequence[OutputItem], visible: list[Visible], context: Context
) -> list[tuple[expressions.Compiled, bool]]:
    order = node.args.get("order")
    found = []
    for each in order.expressions if order is not None else ():
        tree = each.this if isinstance(each, exp.Ordered) else each
        item = named_item(tree, items)
        compiled = expressions.compiled(
            tree if item is None else item.tree, visible, context, "order clause"
        )
        found.append((compiled, bool(isinstance(each, exp.Ordered) and each.args.get("desc"))))
    return found
