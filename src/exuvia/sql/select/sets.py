"""UNION, EXCEPT, INTERSECT and VALUES: several queries, one list of columns.

The columns are named by the first query, their types hold those of all. DISTINCT goes by the
collation's key."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrNotSupportedYet,
    ErrWrongNumberOfColumnsInSelect,
    ErrWrongValueCountOnRow,
)
from exuvia.base.types import Family, FieldType
from exuvia.catalog.decimals import whole
from exuvia.sql import types
from exuvia.sql.bind.bind import bind
from exuvia.sql.bind.choice import branches
from exuvia.sql.duck import engine as duck
from exuvia.sql.expr import COERCIBLE, IMPLICIT, Column, Expr
from exuvia.sql.result import OutputColumn
from exuvia.sql.select.build import Build, CommonTable, Frame, Planned, limit_clause

Planner = Callable[[Any, Build, Frame | None, dict[str, CommonTable]], Planned]


def plan_union(
    tree: exp.SetOperation,
    build: Build,
    parent: Frame | None,
    commons: dict[str, CommonTable],
    plan_query: Planner,
) -> Planned:
    """left UNION [ALL] right, EXCEPT, INTERSECT."""
    trees, steps = _flattened(tree)
    parts = [plan_query(each, build, parent, commons) for each in trees]
    if len({len(part.columns) for part in parts}) != 1:
        raise ErrWrongNumberOfColumnsInSelect()
    columns, queries = _merged(parts, build)
    sql = _chained(steps, queries, columns)
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


def _chained(
    steps: Sequence[exp.SetOperation], queries: Sequence[str], columns: Sequence[OutputColumn]
) -> str:
    """The operations from the left to the right. Of a run of UNIONs the last one that is DISTINCT
    makes what stands before it distinct, whatever those before it were."""
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
    return _united(run, distinct, columns)


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


def distinct_rows(sql: str, columns: Sequence[OutputColumn]) -> str:
    """The query's rows, each once, by key."""
    keys = [duck.key_of(f"o{n}", column.type) for n, column in enumerate(columns)]
    names = ", ".join(f"o{n}" for n in range(len(columns)))
    if keys == [f"o{n}" for n in range(len(columns))]:
        return f"SELECT DISTINCT {names} FROM ({sql}) q"
    return f"SELECT DISTINCT ON ({', '.join(keys)}) {names} FROM ({sql}) q"


def _merged(parts: Sequence[Planned], build: Build) -> tuple[list[OutputColumn], list[str]]:
    frame = Frame(build, None, {})
    items: list[list[str]] = [[] for _ in parts]
    columns = []
    for n in range(len(parts[0].columns)):
        given: list[Expr] = [
            Column(type=part.columns[n].type, coercibility=part.levels[n], position=n)
            for part in parts
        ]
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
        shown = duck.key_of(f"o{place}", planned.columns[place].type)
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


def plan_values(
    tree: exp.Values, build: Build, parent: Frame | None, commons: dict[str, CommonTable]
) -> Planned:
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
