"""Query blocks, UNION, WITH: from tree to DuckDB SQL.

    plan_query      WITH, then a block, a UNION or VALUES
    plan_block      FROM, WHERE, select list, GROUP BY, HAVING, windows, DISTINCT, ORDER BY, LIMIT

A block becomes two levels, so that DISTINCT and ORDER BY see finished columns:

    SELECT o0, o1 FROM (
        SELECT <item> AS o0, <item> AS o1, <key> AS s0 FROM .. WHERE .. GROUP BY .. HAVING ..
    ) ORDER BY s0 NULLS FIRST LIMIT n

In a grouped block a column that is not aggregated stands for the group's one value:
any_value(column)."""

from sqlglot import exp

from exuvia.base.mysql_errors import ErrNotSupportedYet
from exuvia.sql.select.block import plan_block
from exuvia.sql.select.build import Build, CommonTable, Frame, Planned
from exuvia.sql.select.commons import plan_with
from exuvia.sql.select.limit import limit_clause
from exuvia.sql.select.sets import ordered_by_column, plan_union, plan_values

Commons = dict[str, CommonTable]


def plan_query(
    tree: exp.Expression, build: Build, parent: Frame | None, commons: Commons
) -> Planned:
    """A query of any form."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    with_ = tree.args.get("with_") or tree.args.get("with")
    if with_ is not None:
        return plan_with(tree, with_, build, parent, commons, plan_query)
    if isinstance(tree, exp.Subquery):
        return _wrapped(tree, build, parent, commons)
    if isinstance(tree, exp.SetOperation):
        return plan_union(tree, build, parent, commons, plan_query)
    if isinstance(tree, exp.Values):
        return plan_values(tree, build, parent, commons)
    if isinstance(tree, exp.Select):
        return plan_block(tree, build, parent, commons)
    raise ErrNotSupportedYet(tree.key.upper())


def _wrapped(tree: exp.Subquery, build: Build, parent: Frame | None, commons: Commons) -> Planned:
    """(SELECT ..) ORDER BY .. LIMIT .."""
    inner = plan_query(tree.this, build, parent, commons)
    order, limit = tree.args.get("order"), limit_clause(tree, build)
    if order is None and not limit:
        return inner
    keys = ordered_by_column(order, inner)
    return inner._replace(sql=f"SELECT * FROM ({inner.sql}) q{keys}{limit}")
