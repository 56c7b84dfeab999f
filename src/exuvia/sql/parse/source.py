"""Where a query was read: MySQL names its unnamed columns by their text."""

from sqlglot import exp

from exuvia.sql.parse.tokens import Source


def remember_source(tree: exp.Expression, source: Source) -> None:
    """Where a query was read, at its root and at the SELECT that names its columns."""
    tree.meta["source"] = source
    first = tree
    while isinstance(first, exp.SetOperation | exp.Subquery | exp.Paren):
        first = first.this
    if first is not tree and not first.args.get("with_"):
        first.meta["source"] = source
