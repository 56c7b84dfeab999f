"""VALUES(column) in ON DUPLICATE KEY UPDATE: the value the row would have had, as a column of a second table.

    c = c + VALUES(c)               c = c + `new row`.c
    ... AS n ... c = c + n.c        the same, under the name given
"""

from collections.abc import Sequence

from sqlglot import exp

from exuvia.sql.nodes import Tree

NEW_ROW = "\x01new row"
Pairs = tuple[tuple[exp.Column, Tree], ...]


def with_new_row(
    pairs: Sequence[tuple[exp.Column, Tree]], alias: str | None
) -> tuple[Pairs, str]:
    """The assignments with VALUES(c) replaced, and the name under which the new row is visible."""
    name = alias or NEW_ROW

    def replaced(node: exp.Expression) -> exp.Expression:
        column = _values_of(node)
        if column is None:
            return node
        table = exp.to_identifier(name, quoted=True)
        return exp.Column(this=column.this.copy(), table=table)

    return tuple((target, tree.copy().transform(replaced)) for target, tree in pairs), name


def _values_of(node: exp.Expression) -> exp.Column | None:
    """The column of VALUES(column), None for any other tree."""
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "VALUES":
        arguments = node.expressions
    elif isinstance(node, exp.Values):
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
