"""Leaves of expressions over rows: columns, and nested queries with what they are compared with.

(SELECT ..)            scalar: more than one row is 1242
EXISTS (..)
a IN (SELECT ..)       by the key of the winning collation, NULLs as in SQL
(a, b) IN (SELECT ..)  as EXISTS, and a second one for what is unknown; a WHERE alone, which
                       cannot tell NULL from false, does without
a > ANY / ALL (..)
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from exuvia.base.mysql_errors import ErrInvalidGroupFuncUse, ErrNotSupportedYet
from exuvia.sql.bind.compare import comparable
from exuvia.sql.duck import engine as duck
from exuvia.sql.expr import MEMBER, SEMI, Column, Expr, Outer, Subquery, Windowed

if TYPE_CHECKING:
    from exuvia.sql.select.build import Frame

_QUANTIFIED = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def nested_leaf(frame: "Frame") -> Callable[[Expr], str]:
    """The SQL of a leaf of this frame."""

    def leaf(expr: Expr) -> str:
        if isinstance(expr, Column | Outer):
            return frame.column(expr)
        if isinstance(expr, Subquery):
            return subquery(expr, frame, leaf)
        if isinstance(expr, Windowed):
            from exuvia.sql.duck.groups import windowed

            return windowed(expr, frame.renderer(leaf))
        raise ErrInvalidGroupFuncUse()

    return leaf


def subquery(expr: Subquery, frame: "Frame", leaf: Callable[[Expr], str]) -> str:
    """SQL of a nested query."""
    planned = expr.query
    if expr.operator == MEMBER or (expr.kind == "in" and len(expr.operands) > 1):
        _read_again(planned.sql, frame)
    if expr.kind == "scalar":
        return f"CAST((SELECT o0 FROM ({planned.sql}) q) AS {duck.type_of(expr.type)})"
    if expr.kind == "exists":
        return f"EXISTS ({planned.sql})"
    pairs = [_pair(operand, n, expr, frame, leaf) for n, operand in enumerate(expr.operands)]
    if len(pairs) > 1:
        same = " AND ".join(f"{left} = {right}" for left, right in pairs)
        found = f"EXISTS (SELECT 1 FROM ({planned.sql}) q WHERE {same})"
        if expr.kind == SEMI:
            return found
        unknown = f"EXISTS (SELECT 1 FROM ({planned.sql}) q WHERE ({same}) IS NULL)"
        return f"CASE WHEN {found} THEN TRUE WHEN {unknown} THEN NULL ELSE FALSE END"
    left, right = pairs[0]
    inner = f"SELECT {right} FROM ({planned.sql}) q"
    if expr.kind in ("in", SEMI):
        return f"({left} IN ({inner}))"
    sign = _QUANTIFIED.get(expr.operator)
    if sign is None:
        raise ErrNotSupportedYet(f"{expr.operator} {expr.kind.upper()}")
    return f"({left} {sign} {expr.kind.upper()} ({inner}))"


def _read_again(sql: str, frame: "Frame") -> None:
    """The query stands in the statement more than once."""
    for scan in frame.build.scans:
        if scan.name in sql:
            scan.is_repeated = True


def _pair(
    operand: Expr, place: int, expr: Subquery, frame: "Frame", leaf: Callable[[Expr], str]
) -> tuple[str, str]:
    """The SQL of an operand and of the nested query's column, in the domain where they compare."""
    planned = expr.query
    column = planned.columns[place]
    inner = Column(type=column.type, coercibility=planned.levels[place], position=place)
    (left, right), collate = comparable((operand, inner), expr.operator)

    def of_query(part: Expr) -> str:
        if isinstance(part, Column):
            return f"q.o{part.position}"
        return leaf(part)

    outside, inside = frame.renderer(leaf), frame.renderer(of_query)
    if duck.is_wide([left.type, right.type]):
        return duck.wide_key(outside.value(left)), duck.wide_key(inside.value(right))
    return outside.key(left, collate), inside.key(right, collate)
