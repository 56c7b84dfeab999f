"""Windows and subqueries: what is more than one row, and no group (bind/aggregates.py)."""

from typing import Any

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrNotSupportedYet,
    ErrOperandColumns,
    ErrUnknown,
    ErrWindowInvalidWindowFuncUse,
    ErrWrongParamcountToNativeFct,
)
from exuvia.base.types import FieldType
from exuvia.sql import types
from exuvia.sql.bind import aggregates as bind_aggregates
from exuvia.sql.bind import cast as casts
from exuvia.sql.bind.aggregates import AGGREGATES, aggregate, bound_aggregate
from exuvia.sql.bind.scope import Scope
from exuvia.sql.expr import COERCIBLE, Expr, Subquery, Windowed

RANKINGS: dict[str, tuple[int, int]] = {
    "row_number": (0, 0),
    "rank": (0, 0),
    "dense_rank": (0, 0),
    "percent_rank": (0, 0),
    "cume_dist": (0, 0),
    "ntile": (1, 1),
    "lag": (1, 3),
    "lead": (1, 3),
    "first_value": (1, 1),
    "last_value": (1, 1),
    "nth_value": (2, 2),
}


# -- windows ---------------------------------------------------------------------------------------


def _window(tree: exp.Window, scope: Scope) -> Expr:
    call = tree.this
    name = call.name.lower() if isinstance(call, exp.Anonymous) else call.key
    if scope.windows is None:
        raise ErrWindowInvalidWindowFuncUse(name)
    over = _definition(tree, scope)
    order = over.args.get("order")
    keys = tuple(
        (scope.bind(key.this), bool(key.args.get("desc")))
        for key in (order.expressions if order else ())
    )
    partition = tuple(scope.bind(each) for each in over.args.get("partition_by") or ())
    function, arguments, kind, distinct = _window_call(name, call, scope)
    return Windowed(
        type=kind,
        coercibility=COERCIBLE,
        function=function,
        arguments=arguments,
        partition=partition,
        order=keys,
        frame=_frame(over.args.get("spec")),
        distinct=distinct,
    )


def _definition(tree: exp.Window, scope: Scope) -> exp.Expression:
    alias = tree.args.get("alias")
    if alias is None:
        return tree
    named = (scope.windows or {}).get(alias.name.lower())
    if named is None:
        raise ErrUnknown(f"Window name '{alias.name}' is not defined.")
    return named


def _window_call(
    name: str, call: exp.Expression, scope: Scope
) -> tuple[str, tuple[Expr, ...], FieldType, bool]:
    if name in AGGREGATES:
        found = bound_aggregate(name, call.expressions, scope, within_window=True)
        return found.function, found.arguments, found.type, found.distinct
    if name not in RANKINGS:
        raise ErrNotSupportedYet(f"{name} OVER")
    least, most = RANKINGS[name]
    given = [scope.bind(each) for each in call.expressions]
    if not least <= len(given) <= most:
        raise ErrWrongParamcountToNativeFct(name)
    if name in ("percent_rank", "cume_dist"):
        return name, (), types.DOUBLE, False
    if name in ("row_number", "rank", "dense_rank", "ntile"):
        return name, tuple(given), types.integer(21, name == "ntile"), False
    kind = evolve(given[0].type, Flag=given[0].type.Flag & ~1)
    if len(given) == 3:
        given[2] = casts.cast(given[2], kind)
    return name, tuple(given), kind, False


def _frame(spec: exp.Expression | None) -> str:
    """The frame as SQL that DuckDB reads too; only constants stand in it."""
    if spec is None:
        return ""
    kind = str(spec.args.get("kind") or "ROWS").upper()
    if kind not in ("ROWS", "RANGE"):
        raise ErrNotSupportedYet(f"window frame {kind}")
    start = _bound(spec.args.get("start"), spec.args.get("start_side"))
    end = _bound(spec.args.get("end"), spec.args.get("end_side"))
    return f"{kind} BETWEEN {start} AND {end}" if end else f"{kind} {start}"


def _bound(value: object, side: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"{value} {side or ''}".strip()
    if isinstance(value, exp.Literal) and not value.is_string:
        return f"{value.name} {side or ''}".strip()
    raise ErrNotSupportedYet("window frame of expressions")


# -- subqueries ------------------------------------------------------------------------------------


def _scalar(tree: exp.Expression, scope: Scope) -> Expr:
    inner = tree.this if isinstance(tree, exp.Subquery) else tree
    planned = _planned(inner, scope)
    if len(planned.columns) != 1:
        raise ErrOperandColumns(1)
    kind = planned.columns[0].type
    return Subquery(
        type=evolve(kind, Flag=kind.Flag & ~(1 | 2 | 4 | 8 | 512)),
        coercibility=COERCIBLE,
        kind="scalar",
        query=planned,
    )


def _exists(tree: exp.Exists, scope: Scope) -> Expr:
    inner = tree.this
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    return Subquery(type=types.BOOLEAN, kind="exists", query=_planned(inner, scope))


def _planned(inner: exp.Expression, scope: Scope) -> Any:
    if scope.query is None:
        raise ErrNotSupportedYet("subquery here")
    return scope.query(inner, scope)


BINDERS: dict[type, Any] = {
    **bind_aggregates.BINDERS,
    exp.Window: _window,
    exp.Subquery: _scalar,
    exp.Select: _scalar,
    exp.Union: _scalar,
    exp.Exists: _exists,
}
__all__ = ["AGGREGATES", "BINDERS", "RANKINGS", "aggregate"]
