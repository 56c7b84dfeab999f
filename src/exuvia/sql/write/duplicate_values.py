"""VALUES(column) in ON DUPLICATE KEY UPDATE: what the row would have had, as a second table.

c = c + VALUES(c)               c = t.c + `new row`.c ... AS n ... c = c + n.c        the same,
under the name given
"""

from collections.abc import Sequence, Set

from sqlglot import exp

from exuvia.base.mysql_errors import ErrBadField
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.text import is_default

NEW_ROW = "\x01new row"
Pairs = tuple[tuple[exp.Column, Tree], ...]


def with_new_row(
    pairs: Sequence[tuple[exp.Column, Tree]], table: str, alias: str | None, known: Set[str]
) -> tuple[Pairs, str]:
    """The assignments with every column named by its row, and the name of the new row.

    A column without a table is that of the row that is there; `known` are the table's columns, in
    lower case. Raises 1054."""
    name = alias or NEW_ROW

    def replaced(node: exp.Expression) -> exp.Expression:
        column = _values_of(node)
        if column is not None:
            if column.name.lower() not in known:
                raise ErrBadField(column.name, "field list")
            return _of(column, name)
        if isinstance(node, exp.Column) and not node.table and not is_default(node):
            return _of(node, table) if node.name.lower() in known else node
        return node

    return tuple((target, tree.copy().transform(replaced)) for target, tree in pairs), name


def _of(column: exp.Column, table: str) -> exp.Column:
    return exp.Column(this=column.this.copy(), table=exp.to_identifier(table, quoted=True))


def _values_of(node: exp.Expression) -> exp.Column | None:
    """The column of VALUES(column), None for any other tree."""
    if (isinstance(node, exp.Anonymous) and str(node.this).upper() == "VALUES") or isinstance(
        node, exp.Values
    ):
        arguments = node.expressions
    else:
        return None
    if len(arguments) != 1:
        return None
    inner = arguments[0]
    while isinstance(inner, exp.Paren | exp.Tuple):
        inner = inner.this if isinstance(inner, exp.Paren) else inner.expressions[0]
    if isinstance(inner, exp.Identifier):
        return exp.Column(this=inner)
    return inner if isinstance(inner, exp.Column) else None
