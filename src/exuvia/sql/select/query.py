"""Queries of every form, WITH and UNION included: from sqlglot's tree to ours (tree.py).

    bind_query      WITH, then a block, a UNION or VALUES
    bind_block      FROM, WHERE, select list, GROUP BY, HAVING, windows, DISTINCT, ORDER BY, LIMIT

UNION, EXCEPT, INTERSECT and VALUES: several queries, one list of columns. The columns are named by
the first query, their types hold those of all.

WITH: common table expressions, bound in their order.

    WITH x AS (SELECT ..) ..                 its columns are in sight of what follows
    WITH RECURSIVE x AS (a UNION [ALL] b)    a, the seed, gives the types; b sees the rows of the
                                             round before. LIMIT ends the rounds

A WITH inside a common table expression is moved in front of it: every name is unique.
"""

from collections.abc import Sequence

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrAggregateOrderForUnion,
    ErrBadField,
    ErrNotSupportedYet,
    ErrViewWrongList,
    ErrWrongNumberOfColumnsInSelect,
    ErrWrongValueCountOnRow,
)
from exuvia.base.types import INTEGER_BITS, Family, FieldType
from exuvia.catalog.decimals import whole
from exuvia.sql import types, walks
from exuvia.sql.bind.aggregates import has_aggregate
from exuvia.sql.bind.bind import bind
from exuvia.sql.bind.cast import cast
from exuvia.sql.bind.operators import branches
from exuvia.sql.bind.scope import all_stored, local
from exuvia.sql.expr import COERCIBLE, IMPLICIT, Column, Expr
from exuvia.sql.result import OutputColumn
from exuvia.sql.select.block import bind_block
from exuvia.sql.select.tree import (
    Build,
    Commons,
    CommonTable,
    Converted,
    Frame,
    OrderedQuery,
    PlaceKey,
    QueryTree,
    Recursion,
    RowValues,
    SetOperation,
    SetStep,
    With,
    limit_of,
)

_IN_STEP = "ORDER BY / LIMIT / SELECT DISTINCT in recursive query block of Common Table Expression"


# -- UNION, EXCEPT, INTERSECT, VALUES --------------------------------------------------------------


def _set_operation(
    tree: exp.SetOperation, build: Build, parent: Frame | None, commons: Commons
) -> QueryTree:
    """left UNION [ALL] right, EXCEPT, INTERSECT."""
    if _sorts_by_expressions(tree):
        return bind_query(_as_derived(tree), build, parent, commons)
    trees, steps = _flattened(tree)
    parts = [bind_query(part, build, parent, commons) for part in trees]
    if len({len(part.columns) for part in parts}) != 1:
        raise ErrWrongNumberOfColumnsInSelect()
    columns, converted = _merged(parts, build)
    return SetOperation(
        columns=columns,
        levels=[IMPLICIT] * len(columns),
        parts=parts,
        steps=[SetStep(step.key.upper(), bool(step.args.get("distinct", True))) for step in steps],
        converted=converted,
        order=_order(tree, columns),
        limit=limit_of(tree, build.binding),
    )


def _sorts_by_expressions(tree: exp.Expression) -> bool:
    """Whether a key of ORDER BY is no column and no place. Raises 3028."""
    order = tree.args.get("order")
    keys = [] if order is None else [key.this for key in order.expressions]
    for number, key in enumerate(keys, 1):
        if has_aggregate(key):
            raise ErrAggregateOrderForUnion(number)
    return not all(isinstance(key, exp.Column | exp.Literal) for key in keys)


def _as_derived(tree: exp.Expression) -> exp.Select:
    """a UNION b ORDER BY c + 1 LIMIT 2 as SELECT * FROM (a UNION b) ORDER BY c + 1 LIMIT 2."""
    inner = walks.copy(tree)
    clauses = {name: inner.args.pop(name, None) for name in ("order", "limit", "offset")}
    alias = exp.TableAlias(this=exp.to_identifier("union", quoted=True))
    outer = exp.Select(expressions=[exp.Star()])
    outer.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    for name, clause in clauses.items():
        outer.set(name, clause)
    return outer


def _flattened(tree: exp.SetOperation) -> tuple[list[exp.Expression], list[exp.SetOperation]]:
    """The parts of a UNION b UNION c, whose types merge all at once, and the operations between
    them."""
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


def _merged(
    parts: Sequence[QueryTree], build: Build
) -> tuple[list[OutputColumn], list[list[Converted]]]:
    """The columns of the result, and those of each part in their types."""
    zone = build.binding.zone
    converted: list[list[Converted]] = [[] for _ in parts]
    columns = []
    for n in range(len(parts[0].columns)):
        branch_columns = [
            local(Column(type=part.columns[n].type, coercibility=part.levels[n], position=n), zone)
            for part in parts
        ]
        branch_columns, _ = all_stored(branch_columns)
        merged, kind, _ = branches(branch_columns, "UNION")
        kind = _result_type(kind, [column.type for column in branch_columns])
        columns.append(parts[0].columns[n]._replace(type=kind))
        for part_columns, expr in zip(converted, merged, strict=True):
            part_columns.append((expr, kind))
    return columns, converted


def _result_type(kind: FieldType, kinds: Sequence[FieldType]) -> FieldType:
    if types.family_of(kind) in (Family.STRING, Family.BYTES) and kind.Flen >= 0:
        width = max(map(types.width_of, kinds))
        return evolve(kind, Flen=width)
    return kind


def _order(tree: exp.Expression, columns: Sequence[OutputColumn]) -> list[PlaceKey]:
    """ORDER BY of a union: names or places of its columns."""
    order = tree.args.get("order")
    return [
        (_place(key.this, columns), bool(key.args.get("desc")))
        for key in (order.expressions if order is not None else ())
    ]


def _place(tree: exp.Expression, columns: Sequence[OutputColumn]) -> int:
    if isinstance(tree, exp.Literal) and tree.name.isdigit():
        if not 1 <= whole(tree.name) <= len(columns):
            raise ErrBadField(tree.name, "order clause")
        return whole(tree.name) - 1
    if isinstance(tree, exp.Column):
        for n, column in enumerate(columns):
            if column.name.lower() == tree.name.lower():
                return n
    raise ErrBadField(tree.name, "order clause")


def _row_values(
    tree: exp.Values, build: Build, parent: Frame | None, commons: Commons
) -> QueryTree:
    """VALUES ROW(1, 2), ROW(3, 4): columns column_0, column_1, ..."""
    if _sorts_by_expressions(tree):
        return bind_query(_as_derived(tree), build, parent, commons)
    frame = Frame(build, parent, commons)
    scope = frame.scope()
    bound = []
    for row in tree.expressions:
        parts = row.expressions if isinstance(row, exp.Tuple) else [row]
        if len(parts) == 1 and isinstance(parts[0], exp.Anonymous):
            parts = parts[0].expressions
        bound.append([bind(part, scope) for part in parts])
    if len({len(row) for row in bound}) != 1:
        raise ErrWrongValueCountOnRow(2)
    columns, rows = [], [list[Expr]() for _ in bound]
    for n in range(len(bound[0])):
        converted, kind, _ = branches([row[n] for row in bound], "VALUES")
        columns.append(OutputColumn(f"column_{n}", kind))
        for row, expr in zip(rows, converted, strict=True):
            row.append(expr)
    return RowValues(
        columns=columns,
        levels=[COERCIBLE] * len(columns),
        frame=frame,
        rows=rows,
        order=_order(tree, columns),
        limit=limit_of(tree, build.binding),
    )


# -- WITH ------------------------------------------------------------------------------------------


def _with(
    tree: exp.Expression, clause: exp.With, build: Build, parent: Frame | None, commons: Commons
) -> QueryTree:
    """A query with its WITH. Raises 1222, 1235, 1353."""
    binder = _WithBinder(build, parent)
    commons = binder.read(clause, dict(commons))
    body = bind_query(_bare(tree), build, parent, commons)
    return With(
        columns=body.columns,
        levels=body.levels,
        merges=body.merges,
        tables=binder.tables,
        body=body,
        recursive=binder.recursive,
    )


def _bare(tree: exp.Expression) -> exp.Expression:
    bare = walks.copy(tree)
    bare.set("with_", None)
    bare.set("with", None)
    return bare


def _titled(query: QueryTree, titles: list[str]) -> list[OutputColumn]:
    if titles and len(titles) != len(query.columns):
        raise ErrViewWrongList()
    names = titles or [column.name for column in query.columns]
    return [column._replace(name=name) for column, name in zip(query.columns, names, strict=True)]


class _WithBinder:
    """Binds one WITH, and those inside it. `tables`: each after those that it names."""

    def __init__(self, build: Build, parent: Frame | None) -> None:
        self.build = build
        self.parent = parent
        self.tables: list[CommonTable] = []
        self.recursive = False

    def read(self, with_: exp.With, commons: Commons) -> Commons:
        """The names in sight after the clause."""
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
        query = bind_query(inner, self.build, self.parent, commons)
        table = CommonTable(name, _titled(query, titles), query.merges, query)
        self.tables.append(table)
        return table

    def _recursive(
        self, inner: exp.Expression, own: str, name: str, titles: list[str], commons: Commons
    ) -> CommonTable:
        """The first part gives the types; the second sees them under the CTE's own name."""
        if not isinstance(inner, exp.Union):
            raise ErrNotSupportedYet("recursive CTE without UNION")
        _check_step(inner.expression)
        build = self.build
        seed = bind_query(inner.this, build, self.parent, commons)
        zone = build.binding.zone  # the values of a round are of any kind: none are stored ones
        columns = [
            each._replace(type=_grown(local(Column(type=each.type, position=0), zone).type))
            for each in _titled(seed, titles)
        ]
        before = len(build.scans)
        limit = limit_of(inner, build.binding)
        recursion = Recursion(
            seed,
            int(build.binding.variable("cte_max_recursion_depth")),
            limit,
            bool(inner.args.get("distinct")),
        )
        round_ = CommonTable(name, columns, recursion=recursion, is_round=True)
        step = bind_query(inner.expression, build, self.parent, {**commons, own: round_})
        for scan in build.scans[before:]:
            scan.is_repeated = True
        if len(step.columns) != len(seed.columns):
            raise ErrWrongNumberOfColumnsInSelect()
        recursion.step = step
        recursion.converted = [self._in_types_of(part, seed) for part in (seed, step)]
        table = CommonTable(name, columns, recursion=recursion)
        self.tables.append(table)
        return table

    def _in_types_of(self, part: QueryTree, seed: QueryTree) -> list[Converted]:
        """The columns of a part in the seed's types."""
        zone = self.build.binding.zone
        converted = []
        for n, (own, target) in enumerate(zip(part.columns, seed.columns, strict=True)):
            column = Column(type=own.type, coercibility=part.levels[n], position=n)
            shown = local(column, zone)
            kind = local(Column(type=target.type, position=n), zone).type
            same = shown.family in (None, types.family_of(kind))
            converted.append((shown if same else cast(shown, kind), kind))
        return converted


def _grown(kind: FieldType) -> FieldType:
    """The type of a recursive CTE's column, from its seed. Integers get the greatest length."""
    if types.family_of(kind) not in types.WHOLE or kind.Tp not in INTEGER_BITS:
        return kind
    return types.UNSIGNED if kind.unsigned else types.BIGINT


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


# -- any query -------------------------------------------------------------------------------------


def bind_query(
    tree: exp.Expression, build: Build, parent: Frame | None, commons: Commons
) -> QueryTree:
    """A query of any form."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    with_ = tree.args.get("with_") or tree.args.get("with")
    if with_ is not None:
        return _with(tree, with_, build, parent, commons)
    if isinstance(tree, exp.Subquery):
        # (SELECT ..) ORDER BY .. LIMIT ..
        inner = bind_query(tree.this, build, parent, commons)
        order, limit = _order(tree, inner.columns), limit_of(tree, build.binding)
        if not order and not limit:
            return inner
        return OrderedQuery(
            columns=inner.columns, levels=inner.levels, inner=inner, order=order, limit=limit
        )
    if isinstance(tree, exp.SetOperation):
        return _set_operation(tree, build, parent, commons)
    if isinstance(tree, exp.Values):
        return _row_values(tree, build, parent, commons)
    if isinstance(tree, exp.Select):
        return bind_block(tree, build, parent, commons)
    raise ErrNotSupportedYet(tree.key.upper())
