"""Queries of every form, WITH and UNION included: from tree to DuckDB SQL.

    plan_query      WITH, then a block, a UNION or VALUES
    plan_block      FROM, WHERE, select list, GROUP BY, HAVING, windows, DISTINCT, ORDER BY, LIMIT

A block (select/block.py) becomes two levels, so that DISTINCT and ORDER BY see finished columns:

    SELECT o0, o1 FROM (
        SELECT <item> AS o0, <item> AS o1, <key> AS s0 FROM .. WHERE .. GROUP BY .. HAVING ..
    ) ORDER BY s0 NULLS FIRST LIMIT n

In a grouped block a column that is not aggregated stands for the group's one value:
any_value(column).

UNION, EXCEPT, INTERSECT and VALUES: several queries, one list of columns. The columns are named by
the first query, their types hold those of all. DISTINCT goes by the collation's key.

WITH: common table expressions, planned in their order.

    WITH x AS (SELECT ..) ..                 its columns are in sight of what follows
    WITH RECURSIVE x AS (a UNION [ALL] b)    a, the seed, gives the types; b sees the rows of the
                                             round before. LIMIT ends the rounds

A WITH inside a common table expression goes in front of it: every name is its own.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrNotSupportedYet,
    ErrViewWrongList,
    ErrWrongNumberOfColumnsInSelect,
    ErrWrongValueCountOnRow,
)
from exuvia.base.types import INTEGER_BITS, Family, FieldType
from exuvia.catalog.decimals import whole
from exuvia.sql import types, walks
from exuvia.sql.bind.bind import bind
from exuvia.sql.bind.cast import cast
from exuvia.sql.bind.operators import branches
from exuvia.sql.bind.scope import all_stored, local
from exuvia.sql.duck import engine as duck
from exuvia.sql.expr import COERCIBLE, IMPLICIT, Column, Expr
from exuvia.sql.result import OutputColumn
from exuvia.sql.select.block import plan_block
from exuvia.sql.select.build import (
    Build,
    CommonTable,
    Frame,
    Planned,
    distinct_rows,
    limit_clause,
    limits,
)

Commons = dict[str, CommonTable]
_IN_STEP = "ORDER BY / LIMIT / SELECT DISTINCT in recursive query block of Common Table Expression"


# -- UNION, EXCEPT, INTERSECT, VALUES --------------------------------------------------------------


def plan_union(
    tree: exp.SetOperation,
    build: Build,
    parent: Frame | None,
    commons: Commons,
) -> Planned:
    """left UNION [ALL] right, EXCEPT, INTERSECT."""
    trees, steps = _flattened(tree)
    parts = [plan_query(each, build, parent, commons) for each in trees]
    if len({len(part.columns) for part in parts}) != 1:
        raise ErrWrongNumberOfColumnsInSelect()
    columns, queries = _merged(parts, build)
    # the operations from the left to the right. Of a run of UNIONs the last one that is
    # DISTINCT makes what stands before it distinct, whatever those before it were
    run, distinct = [queries[0]], 0
    for step, query in zip(steps, queries[1:], strict=True):
        if isinstance(step, exp.Union):
            run.append(query)
            distinct = len(run) if step.args.get("distinct", True) else distinct
            continue
        word = "NOT EXISTS" if isinstance(step, exp.Except) else "EXISTS"
        left = _united(run, distinct, columns)
        every = not step.args.get("distinct", True)
        run, distinct = [_matched(word, left, query, columns, every)], 0
    sql = _united(run, distinct, columns)
    found = Planned(sql, columns, [IMPLICIT] * len(columns))
    order, limit = tree.args.get("order"), limit_clause(tree, build)
    if order is None and not limit:
        return found
    keys = ordered_by_column(order, found)
    return found._replace(sql=f"SELECT * FROM ({sql}) q{keys}{limit}")


def _flattened(tree: exp.SetOperation) -> tuple[list[exp.Expression], list[exp.SetOperation]]:
    """a UNION b UNION c:

    the parts, whose types merge all at once, and the operations between them."""
    parts: list[exp.Expression] = [tree.expression]
    steps = [tree]
    inner = tree.this
    while isinstance(inner, exp.SetOperation) and not any(
        inner.args.get(key) for key in ("order", "limit", "offset", "with_", "with")
    ):
        parts.append(inner.expression)
        steps.append(inner)
        inner = inner.this
    return [inner, *reversed(parts)], list(reversed(steps))


def _united(run: list[str], distinct: int, columns: Sequence[OutputColumn]) -> str:
    """The rows of all; those of the first `distinct` ones each once."""
    if not distinct:
        return _all_rows(run)
    return _all_rows([distinct_rows(_all_rows(run[:distinct]), columns), *run[distinct:]])


def _all_rows(run: Sequence[str]) -> str:
    """UNION ALL by halves: DuckDB takes a chain of it for nesting."""
    if len(run) == 1:
        return run[0]
    half = len(run) // 2
    left, right = _all_rows(run[:half]), _all_rows(run[half:])
    return f"SELECT * FROM ({left}) a UNION ALL SELECT * FROM ({right}) b"


def _matched(word: str, left: str, right: str, columns: Sequence[OutputColumn], every: bool) -> str:
    """The left rows that do, or do not, stand on the right too, by key; NULL is like NULL.

    `every` (ALL): the second of two equal rows needs a second one on the right."""
    names = ", ".join(f"o{n}" for n in range(len(columns)))
    terms = [
        f"{duck.key_of(f'a.o{n}', column.type)} IS NOT DISTINCT FROM "
        f"{duck.key_of(f'b.o{n}', column.type)}"
        for n, column in enumerate(columns)
    ]
    if every:
        keys = ", ".join(duck.key_of(f"o{n}", column.type) for n, column in enumerate(columns))
        number = f"row_number() OVER (PARTITION BY {keys}) AS nth"
        left, right = (f"SELECT {names}, {number} FROM ({each}) q" for each in (left, right))
        terms.append("a.nth = b.nth")
    else:
        left = distinct_rows(left, columns)
    found = f"SELECT 1 FROM ({right}) b WHERE {' AND '.join(terms)}"
    return f"SELECT {names} FROM ({left}) a WHERE {word} ({found})"


def _merged(parts: Sequence[Planned], build: Build) -> tuple[list[OutputColumn], list[str]]:
    frame, zone = Frame(build, None, {}), build.context.zone
    items: list[list[str]] = [[] for _ in parts]
    columns = []
    for n in range(len(parts[0].columns)):
        given = [
            local(Column(type=part.columns[n].type, coercibility=part.levels[n], position=n), zone)
            for part in parts
        ]
        given, _ = all_stored(given)
        converted, kind, _ = branches(given, "UNION")
        kind = _result_type(kind, [each.type for each in given])
        columns.append(parts[0].columns[n]._replace(type=kind))
        for place, expr in enumerate(converted):
            renderer = frame.renderer(_column_leaf)
            sql = renderer.value(expr)
            items[place].append(f"CAST({sql} AS {duck.type_of(kind)}) AS o{n}")
    return columns, [
        f"SELECT {', '.join(items[place])} FROM ({part.sql}) u" for place, part in enumerate(parts)
    ]


def _column_leaf(expr: Expr) -> str:
    if not isinstance(expr, Column):
        raise ErrNotSupportedYet("UNION")
    return f"u.o{expr.position}"


def _result_type(kind: FieldType, kinds: Sequence[FieldType]) -> FieldType:
    if types.family_of(kind) in (Family.STRING, Family.BYTES) and kind.Flen >= 0:
        width = max(types.width_of(each) for each in kinds)
        return evolve(kind, Flen=width)
    return kind


def ordered_by_column(order: exp.Order | None, planned: Planned) -> str:
    """ORDER BY of a union: names or places of its columns."""
    if order is None:
        return ""
    keys = []
    for key in order.expressions:
        place = _place(key.this, planned)
        shown = duck.order_key_of(f"o{place}", planned.columns[place].type)
        keys.append(f"{shown} {'DESC NULLS LAST' if key.args.get('desc') else 'ASC NULLS FIRST'}")
    return " ORDER BY " + ", ".join(keys)


def _place(tree: exp.Expression, planned: Planned) -> int:
    if isinstance(tree, exp.Literal) and tree.name.isdigit():
        if not 1 <= whole(tree.name) <= len(planned.columns):
            raise ErrBadField(tree.name, "order clause")
        return whole(tree.name) - 1
    if isinstance(tree, exp.Column):
        for n, column in enumerate(planned.columns):
            if column.name.lower() == tree.name.lower():
                return n
        raise ErrBadField(tree.name, "order clause")
    raise ErrNotSupportedYet("ORDER BY an expression of a UNION")


def plan_values(tree: exp.Values, build: Build, parent: Frame | None, commons: Commons) -> Planned:
    """VALUES ROW(1, 2), ROW(3, 4): columns column_0, column_1, ..."""
    frame = Frame(build, parent, commons)
    scope = frame.scope()
    rows = []
    for row in tree.expressions:
        parts = row.expressions if isinstance(row, exp.Tuple) else [row]
        if len(parts) == 1 and isinstance(parts[0], exp.Anonymous):
            parts = parts[0].expressions
        rows.append([bind(part, scope) for part in parts])
    if len({len(row) for row in rows}) != 1:
        raise ErrWrongValueCountOnRow(2)
    columns, queries = [], [[] for _ in rows]  # type: ignore[var-annotated]
    for n in range(len(rows[0])):
        converted, kind, _ = branches([row[n] for row in rows], "VALUES")
        columns.append(OutputColumn(f"column_{n}", kind))
        for place, expr in enumerate(converted):
            value = frame.renderer().value(expr)
            queries[place].append(f"CAST({value} AS {duck.type_of(kind)}) AS o{n}")
    sql = " UNION ALL ".join(f"SELECT {', '.join(parts)}" for parts in queries)
    order, limit = tree.args.get("order"), limit_clause(tree, build)
    found = Planned(sql, columns, [COERCIBLE] * len(columns))
    if order is None and not limit:
        return found
    keys = ordered_by_column(order, found)
    return found._replace(sql=f"SELECT * FROM ({sql}) q{keys}{limit}")


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
    bare = walks.copy(tree)
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
        return CommonTable(name, _titled(planned, titles), planned.merges)

    def _recursive(
        self, inner: exp.Expression, own: str, name: str, titles: list[str], commons: Commons
    ) -> CommonTable:
        """The first part gives the types; the second sees them under the CTE's own name."""
        if not isinstance(inner, exp.Union):
            raise ErrNotSupportedYet("recursive CTE without UNION")
        _check_step(inner.expression)
        build = self.build
        seed = plan_query(inner.this, build, self.parent, commons)
        zone = build.context.zone  # the values of a round are of any kind: none are stored ones
        columns = [
            each._replace(type=_grown(local(Column(type=each.type, position=0), zone).type))
            for each in _titled(seed, titles)
        ]
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
            shown = local(column, self.build.context.zone)
            kind = local(Column(type=wanted.type, position=n), self.build.context.zone).type
            same = shown.family in (None, types.family_of(kind))
            value: Expr = shown if same else cast(shown, kind)
            sql = frame.renderer(_leaf).value(value)
            items.append(f"CAST({sql} AS {duck.type_of(kind)}) AS o{n}")
        return ", ".join(items)


def _grown(kind: FieldType) -> FieldType:
    """The type of a recursive CTE's column, from its seed. Integers get the greatest length."""
    if types.family_of(kind) not in types.WHOLE or kind.Tp not in INTEGER_BITS:
        return kind
    return types.UNSIGNED if kind.unsigned else types.BIGINT


def _leaf(expr: Expr) -> str:
    if not isinstance(expr, Column):
        raise ErrNotSupportedYet("recursive CTE")
    return f"u.o{expr.position}"


def _mentions(inner: exp.Expression, own: str) -> bool:
    return any(
        table.name.lower() == own and not table.db for table in walks.find_all(inner, exp.Table)
    )


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
        # (SELECT ..) ORDER BY .. LIMIT ..
        inner = plan_query(tree.this, build, parent, commons)
        order, limit = tree.args.get("order"), limit_clause(tree, build)
        if order is None and not limit:
            return inner
        keys = ordered_by_column(order, inner)
        return inner._replace(sql=f"SELECT * FROM ({inner.sql}) q{keys}{limit}")
    if isinstance(tree, exp.SetOperation):
        return plan_union(tree, build, parent, commons)
    if isinstance(tree, exp.Values):
        return plan_values(tree, build, parent, commons)
    if isinstance(tree, exp.Select):
        return plan_block(tree, build, parent, commons)
    raise ErrNotSupportedYet(tree.key.upper())
