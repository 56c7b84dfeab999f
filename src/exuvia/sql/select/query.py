"""Query blocks, UNION, WITH: from tree to DuckDB SQL.

    plan_query      WITH, then a block, a UNION or VALUES
    plan_block      FROM, WHERE, select list, GROUP BY, HAVING, windows, DISTINCT, ORDER BY, LIMIT

A block becomes two levels, so that DISTINCT and ORDER BY see finished columns:

    SELECT o0, o1 FROM (
        SELECT <item> AS o0, <item> AS o1, <key> AS s0 FROM .. WHERE .. GROUP BY .. HAVING ..
    ) ORDER BY s0 NULLS FIRST LIMIT n

In a grouped block a column that is not aggregated stands for the group's one value:
any_value(column)."""

from typing import Any

from sqlglot import exp

from exuvia.base.mysql import refuse
from exuvia.sql.duck import engine as duck
from exuvia.sql.select.block import plan_block
from exuvia.sql.select.build import Build, Common, Frame, Planned
from exuvia.sql.select.limit import limit_clause
from exuvia.sql.select.sets import ordered_by_column, plan_union, plan_values

Commons = dict[str, Common]


def plan_query(
    tree: exp.Expression, build: Build, parent: Frame | None, commons: Commons
) -> Planned:
    """A query of any form."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    with_ = tree.args.get("with_") or tree.args.get("with")
    if with_ is not None:
        return _with(tree, with_, build, parent, dict(commons))
    if isinstance(tree, exp.Subquery):
        return _wrapped(tree, build, parent, commons)
    if isinstance(tree, exp.SetOperation):
        return plan_union(tree, build, parent, commons, plan_query)
    if isinstance(tree, exp.Values):
        return plan_values(tree, build, parent, commons)
    if isinstance(tree, exp.Select):
        return plan_block(tree, build, parent, commons)
    raise refuse(1235, tree.key.upper())


def _wrapped(tree: exp.Subquery, build: Build, parent: Frame | None, commons: Commons) -> Planned:
    """(SELECT ..) ORDER BY .. LIMIT .."""
    inner = plan_query(tree.this, build, parent, commons)
    order, limit = tree.args.get("order"), limit_clause(tree, build)
    if order is None and not limit:
        return inner
    keys = ordered_by_column(order, inner)
    return inner._replace(sql=f"SELECT * FROM ({inner.sql}) q{keys}{limit}")


# -- WITH ------------------------------------------------------------------------------------------


def _with(
    tree: exp.Expression, with_: Any, build: Build, parent: Frame | None, commons: Commons
) -> Planned:
    parts = []
    recursive = bool(with_.args.get("recursive"))
    for each in with_.expressions:
        common, sql = _common(each, recursive, build, parent, commons)
        commons[each.alias.lower()] = common
        parts.append(sql)
    bare = tree.copy()
    bare.set("with_", None)
    bare.set("with", None)
    body = plan_query(bare, build, parent, commons)
    word = "WITH RECURSIVE" if recursive else "WITH"
    return body._replace(sql=f"{word} {', '.join(parts)} SELECT * FROM ({body.sql}) q")


def _common(
    tree: exp.CTE, recursive: bool, build: Build, parent: Frame | None, commons: Commons
) -> tuple[Common, str]:
    name = build.name()
    titles = [each.name for each in tree.args["alias"].args.get("columns") or ()]
    inner = tree.this
    own = tree.alias.lower()
    mentions = any(t.name.lower() == own and not t.db for t in inner.find_all(exp.Table))
    if recursive and mentions:
        return _recursive(inner, own, name, titles, build, parent, commons)
    planned = plan_query(inner, build, parent, commons)
    return Common(name, _titled(planned, titles)), f"{name} AS ({planned.sql})"


def _titled(planned: Planned, titles: list[str]) -> list[Any]:
    if titles and len(titles) != len(planned.columns):
        raise refuse(1222)
    shown = titles or [column.name for column in planned.columns]
    return [
        column._replace(name=title) for column, title in zip(planned.columns, shown, strict=True)
    ]


def _recursive(
    inner: exp.Expression,
    own: str,
    name: str,
    titles: list[str],
    build: Build,
    parent: Frame | None,
    commons: Commons,
) -> tuple[Common, str]:
    """The first part gives the types; the second sees them under the CTE's own name."""
    if not isinstance(inner, exp.Union):
        raise refuse(1235, "recursive CTE without UNION")
    seed = plan_query(inner.this, build, parent, commons)
    common = Common(name, _titled(seed, titles))
    before = len(build.scans)
    most = int(build.context.variable("cte_max_recursion_depth"))
    counted = f"{build.functions.counted(most)}(CAST(o0 IS NULL AS BIGINT)) = 1"
    before_step = Common(f"(SELECT * FROM {name} WHERE {counted})", common.columns)
    step = plan_query(inner.expression, build, parent, {**commons, own: before_step})
    for scan in build.scans[before:]:
        scan.is_repeated = True
    if len(step.columns) != len(seed.columns):
        raise refuse(1222)
    casts = ", ".join(
        f"CAST(o{n} AS {duck.type_of(column.type)}) AS o{n}"
        for n, column in enumerate(seed.columns)
    )
    word = "UNION" if inner.args.get("distinct") else "UNION ALL"
    first = f"SELECT {casts} FROM ({seed.sql}) a"
    return common, f"{name} AS ({first} {word} SELECT {casts} FROM ({step.sql}) b)"
