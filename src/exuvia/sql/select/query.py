"""Query blocks, UNION, WITH: from tree to DuckDB SQL.

    plan_query      WITH, then a block, a UNION or VALUES
    plan_block      FROM, WHERE, select list, GROUP BY, HAVING, windows, DISTINCT, ORDER BY, LIMIT

A block (select/block.py) becomes two levels, so that DISTINCT and ORDER BY see finished columns:

    SELECT o0, o1 FROM (
        SELECT <item> AS o0, <item> AS o1, <key> AS s0 FROM .. WHERE .. GROUP BY .. HAVING ..
    ) ORDER BY s0 NULLS FIRST LIMIT n

In a grouped block a column that is not aggregated stands for the group's one value:
any_value(column).

WITH: common table expressions, planned in their order.

    WITH x AS (SELECT ..) ..                 its columns are in sight of what follows
    WITH RECURSIVE x AS (a UNION [ALL] b)    a, the seed, gives the types; b sees the rows of the
                                             round before. LIMIT ends the rounds

A WITH inside a common table expression goes in front of it: every name is its own.
"""

from typing import Any

from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrNotSupportedYet,
    ErrViewWrongList,
    ErrWrongNumberOfColumnsInSelect,
)
from exuvia.sql import types
from exuvia.sql.bind.cast import cast
from exuvia.sql.duck import engine as duck
from exuvia.sql.expr import Column, Expr
from exuvia.sql.select.block import plan_block
from exuvia.sql.select.build import Build, CommonTable, Frame, Planned, limit_clause, limits
from exuvia.sql.select.sets import ordered_by_column, plan_union, plan_values

Commons = dict[str, CommonTable]
_IN_STEP = "ORDER BY / LIMIT / SELECT DISTINCT in recursive query block of Common Table Expression"


# -- WITH ------------------------------------------------------------------------------------------


def _plan_with(
    tree: exp.Expression,
    with_: exp.With,
    build: Build,
    parent: Frame | None,
    commons: Commons,
) -> Planned:
    """A query behind its WITH. Raises 1222, 1235, 1353."""
    clause = _Clause(build, parent)
    commons = clause.read(with_, dict(commons))
    body = plan_query(_bare(tree), build, parent, commons)
    word = "WITH RECURSIVE" if clause.recursive else "WITH"
    return body._replace(sql=f"{word} {', '.join(clause.parts)} SELECT * FROM ({body.sql}) q")


def _bare(tree: exp.Expression) -> exp.Expression:
    bare = tree.copy()
    bare.set("with_", None)
    bare.set("with", None)
    return bare


def _titled(planned: Planned, titles: list[str]) -> list[Any]:
    if titles and len(titles) != len(planned.columns):
        raise ErrViewWrongList()
    shown = titles or [column.name for column in planned.columns]
    return [
        column._replace(name=title) for column, title in zip(planned.columns, shown, strict=True)
    ]


class _Clause:
    """One WITH being planned, and those inside. `parts`: the SQL of each expression."""

    def __init__(self, build: Build, parent: Frame | None) -> None:
        self.build = build
        self.parent = parent
        self.parts: list[str] = []
        self.recursive = False

    def read(self, with_: exp.With, commons: Commons) -> Commons:
        """The names in sight behind the clause."""
        recursive = bool(with_.args.get("recursive"))
        self.recursive = self.recursive or recursive
        for each in with_.expressions:
            commons[each.alias.lower()] = self._common(each, recursive, commons)
        return commons

    def _common(self, tree: exp.CTE, recursive: bool, commons: Commons) -> CommonTable:
        name, own = self.build.name(), tree.alias.lower()
        titles = [each.name for each in tree.args["alias"].args.get("columns") or ()]
        inner = tree.this
        while isinstance(inner, exp.Paren):
            inner = inner.this
        with_ = inner.args.get("with_") or inner.args.get("with")
        hidden = with_ is not None and own in {e.alias.lower() for e in with_.expressions}
        if recursive and not hidden and _mentions(inner, own):
            if with_ is not None:
                commons = self.read(with_, dict(commons))
                inner = _bare(inner)
            return self._recursive(inner, own, name, titles, commons)
        planned = plan_query(inner, self.build, self.parent, commons)
        self.parts.append(f"{name} AS ({planned.sql})")
        return CommonTable(name, _titled(planned, titles))

    def _recursive(
        self, inner: exp.Expression, own: str, name: str, titles: list[str], commons: Commons
    ) -> CommonTable:
        """The first part gives the types; the second sees them under the CTE's own name."""
        if not isinstance(inner, exp.Union):
            raise ErrNotSupportedYet("recursive CTE without UNION")
        _check_step(inner.expression)
        build = self.build
        seed = plan_query(inner.this, build, self.parent, commons)
        columns = _titled(seed, titles)
        before = len(build.scans)
        most = int(build.context.variable("cte_max_recursion_depth"))
        counted = build.functions.counted(most, _rows_wanted(inner, build), len(columns))
        rows = f"(SELECT * FROM {name} WHERE {counted}(CAST(o0 IS NULL AS BIGINT)) = 1)"
        step = plan_query(
            inner.expression, build, self.parent, {**commons, own: CommonTable(rows, columns)}
        )
        for scan in build.scans[before:]:
            scan.is_repeated = True
        if len(step.columns) != len(seed.columns):
            raise ErrWrongNumberOfColumnsInSelect()
        word = "UNION" if inner.args.get("distinct") else "UNION ALL"
        parts = (f"SELECT {self._cast(part, seed)} FROM ({part.sql}) u" for part in (seed, step))
        self.parts.append(f"{name} AS ({f' {word} '.join(parts)})")
        limit = limit_clause(inner, build)
        return CommonTable(f"(SELECT * FROM {name}{limit})" if limit else name, columns)

    def _cast(self, part: Planned, seed: Planned) -> str:
        """The columns of a part in the seed's types."""
        frame = Frame(self.build, None, {})
        items = []
        for n, (given, wanted) in enumerate(zip(part.columns, seed.columns, strict=True)):
            column = Column(type=given.type, coercibility=part.levels[n], position=n)
            same = column.family in (None, types.family_of(wanted.type))
            value: Expr = column if same else cast(column, wanted.type)
            sql = frame.renderer(_leaf).value(value)
            items.append(f"CAST({sql} AS {duck.type_of(wanted.type)}) AS o{n}")
        return ", ".join(items)


def _leaf(expr: Expr) -> str:
    if not isinstance(expr, Column):
        raise ErrNotSupportedYet("recursive CTE")
    return f"u.o{expr.position}"


def _mentions(inner: exp.Expression, own: str) -> bool:
    return any(each.name.lower() == own and not each.db for each in inner.find_all(exp.Table))


def _check_step(tree: exp.Expression) -> None:
    """Raises 1235 for what would need all rounds at once."""
    parts = ("order", "limit", "offset", "distinct")
    while isinstance(tree, exp.Subquery | exp.Paren):
        if any(tree.args.get(part) for part in parts):
            raise ErrNotSupportedYet(_IN_STEP)
        tree = tree.this
    if isinstance(tree, exp.Select) and any(tree.args.get(part) for part in parts):
        raise ErrNotSupportedYet(_IN_STEP)


def _rows_wanted(tree: exp.Expression, build: Build) -> int | None:
    """How many rows LIMIT and OFFSET ask for; None for all."""
    most, skip = limits(tree, build.context)
    return None if most is None else most + skip


# -- any query -------------------------------------------------------------------------------------


def plan_query(
    tree: exp.Expression, build: Build, parent: Frame | None, commons: Commons
) -> Planned:
    """A query of any form."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    with_ = tree.args.get("with_") or tree.args.get("with")
    if with_ is not None:
        return _plan_with(tree, with_, build, parent, commons)
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
