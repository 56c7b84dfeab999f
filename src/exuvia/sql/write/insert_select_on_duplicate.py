"""INSERT .. SELECT .. ON DUPLICATE KEY UPDATE may read the query's tables, not only its columns.

    INSERT INTO a SELECT x FROM b ON DUPLICATE KEY UPDATE a.x = b.y
      -> SELECT x, b.y FROM b       what is read stands behind what is inserted

A name that both the table written and the query's FROM have is ambiguous (1052).
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrBadField, ErrNonUniq
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.model import name as named
from exuvia.sql.access.single_table import TableSource
from exuvia.sql.expressions import Visible
from exuvia.sql.nodes import Insert, Tree
from exuvia.sql.parse.text import is_default
from exuvia.sql.result import OutputColumn
from exuvia.sql.select import relational
from exuvia.sql.statement.context import Context

READ_ROW = "\x01read row"


class Selected(NamedTuple):
    """The statement with the longer query, and how many columns were added."""

    node: Insert
    more: int = 0


def with_selected(node: Insert, context: Context) -> Selected:
    """Add to the query what the assignments read of its tables. Raises 1052, 1054."""
    query = node.query
    while isinstance(query, exp.Subquery | exp.Paren):
        query = query.this
    if not node.on_duplicate or not isinstance(query, exp.Select) or query.args.get("distinct"):
        return Selected(node)
    table = context.table(node.table.db or "", node.table.name)
    target = TableSource(table, node.table.db or "", node.table.name, node.table.name, ())
    for assigned, _ in node.on_duplicate:
        target.position(assigned)
    reads = _Reads(query, target, node.row_alias, context)
    pairs = tuple((assigned, reads.rewritten(tree)) for assigned, tree in node.on_duplicate)
    if not reads.found:
        return Selected(node)
    longer = query.copy()
    longer.set("expressions", [*longer.expressions, *(reads.item(n) for n in range(reads.count))])
    return Selected(evolve(node, query=longer, on_duplicate=pairs), reads.count)


def visible_of(columns: Sequence[OutputColumn], offset: int) -> Visible:
    """What was read, as a table behind the rows."""
    found = tuple(
        ColumnInfo(id=n + 1, name=named(f"r{n}"), offset=n, type=column.type)
        for n, column in enumerate(columns)
    )
    return Visible(READ_ROW, "", found, found, offset)


class _Reads:
    """The columns of the query's FROM that assignments name."""

    def __init__(
        self, query: exp.Select, target: TableSource, alias: str | None, context: Context
    ) -> None:
        self._query = query
        self._target = target
        self._alias = (alias or "").lower()
        self._context = context
        self.found: list[exp.Column] = []

    @property
    def count(self) -> int:
        return len(self.found)

    def item(self, place: int) -> exp.Expression:
        """The added item of the select list."""
        return exp.Alias(this=self.found[place].copy(), alias=exp.to_identifier(f"\x01r{place}"))

    def rewritten(self, tree: Tree) -> Tree:
        """The value with every column of the query named by its place."""
        return tree.copy().transform(self._column)

    def _column(self, node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column) or is_default(node) or _is_nested(node):
            return node
        if node.table and node.table.lower() == self._alias:
            return node
        is_ours = self._target.resolve(node) is not None
        if is_ours and node.table:
            return node
        if not self._is_read(node):
            return node
        if is_ours:
            raise ErrNonUniq(node.name, "field list")
        if node not in self.found:
            self.found.append(node.copy())
        name = exp.to_identifier(f"r{self.found.index(node)}", quoted=True)
        return exp.Column(this=name, table=exp.to_identifier(READ_ROW, quoted=True))

    def _is_read(self, column: exp.Column) -> bool:
        """Whether the query's FROM has the column. Raises 1052."""
        keys = ("from_", "from", "joins", "with_", "with")
        parts = {key: part for key in keys if (part := self._query.args.get(key))}
        probe = exp.Select(expressions=[column.copy()])
        for key, part in parts.items():
            probe.set(key, [e.copy() for e in part] if isinstance(part, list) else part.copy())
        try:
            relational.plan(probe, self._context)
        except Refused as error:
            if error.code == ErrBadField.code:
                return False
            raise
        return True


def _is_nested(column: exp.Column) -> bool:
    """Whether it stands in VALUES(..) or in a query of its own."""
    parent = column.parent
    while parent is not None:
        if isinstance(parent, exp.Query | exp.Values):
            return True
        if isinstance(parent, exp.Anonymous) and str(parent.this).upper() in ("VALUES", "DEFAULT"):
            return True
        parent = parent.parent
    return False
