"""Calls OVER a window: the window's definition, its frame, and the type of the result.

window            allowed                                                       else
w AS (v ...)      ORDER BY if v has none, a frame; no PARTITION BY             3581, 3583
                  v has no frame                                               3582
ROWS n            a whole number that is not negative; no INTERVAL             3586, 3596
RANGE n           one ORDER BY, of a number                                    3587, 3588
RANGE INTERVAL    one ORDER BY, of a date or a time                            3587, 3589

The frame of RANGE INTERVAL ends at the row's own date, moved by the interval: months and days are
those of the calendar. Amounts are checked when the query is rendered, since those of parameters are
not known before.
"""

from collections.abc import Sequence

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrNotSupportedYet,
    ErrWindowCircularityInWindowGraph,
    ErrWindowDuplicateName,
    ErrWindowFrameEndIllegal,
    ErrWindowFrameIllegal,
    ErrWindowFrameStartIllegal,
    ErrWindowIllegalOrderBy,
    ErrWindowInvalidWindowFuncUse,
    ErrWindowNoChildPartitioning,
    ErrWindowNoInheritFrame,
    ErrWindowNoRedefineOrderBy,
    ErrWindowNoSuchWindow,
    ErrWindowRangeBoundNotConstant,
    ErrWindowRangeFrameNumericType,
    ErrWindowRangeFrameOrderType,
    ErrWindowRangeFrameTemporalType,
    ErrWindowRowsIntervalUse,
    ErrWrongParamcountToNativeFct,
)
from exuvia.base.types import Family, TypeCode
from exuvia.sql import types
from exuvia.sql.bind import cast as casts
from exuvia.sql.bind.aggregates import AGGREGATES, bound_aggregate
from exuvia.sql.bind.operators import branches, moved
from exuvia.sql.bind.scope import Binder, Scope, all_stored, local, stored
from exuvia.sql.expr import NUMERIC, Expr, FrameBound, Windowed, WindowFrame, is_constant
from exuvia.sql.parse.syntax_error import Misplaced

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
_UNNAMED = "<unnamed window>"


def _window(tree: exp.Window, scope: Scope) -> Expr:
    call = tree.this.this if isinstance(tree.this, exp.RespectNulls) else tree.this
    name = call.name.lower() if isinstance(call, exp.Anonymous) else call.key
    if scope.windows is None:
        raise ErrWindowInvalidWindowFuncUse(name)
    over = _specified(tree, scope)
    order = over.args.get("order")
    keys = tuple(
        (_key(key.this, over, scope), bool(key.args.get("desc")))
        for key in (order.expressions if order else ())
    )
    if over.args.get("spec") is None:  # bounds of a frame are in the session's zone
        keys = tuple((stored(key), descending) for key, descending in keys)
    parts = over.args.get("partition_by") or ()
    partition = tuple(stored(_key(key, over, scope)) for key in parts)
    zone = scope.zone
    if name in AGGREGATES:
        bound_call = bound_aggregate(name, call.expressions, scope, within_window=True)
        name, arguments, distinct = bound_call.function, bound_call.arguments, bound_call.distinct
        kind, level = bound_call.type, bound_call.coercibility
    elif name not in RANKINGS:
        raise ErrNotSupportedYet(f"{name} OVER")
    else:
        least, most = RANKINGS[name]
        function_arguments = [scope.bind(argument) for argument in call.expressions]
        if not least <= len(function_arguments) <= most:
            raise ErrWrongParamcountToNativeFct(name)
        distinct, level = False, NUMERIC
        if name in ("percent_rank", "cume_dist"):
            kind, function_arguments = types.DOUBLE, []
        elif name in ("row_number", "rank", "dense_rank", "ntile"):
            kind = types.integer(21, name == "ntile")
        else:
            picked, zone = all_stored(function_arguments[::2])
            function_arguments[::2] = picked
            kind = evolve(function_arguments[0].type, Flag=function_arguments[0].type.Flag & ~1)
            level = function_arguments[0].coercibility
            if len(function_arguments) == 3:
                (function_arguments[0], function_arguments[2]), kind, level = branches(
                    (function_arguments[0], function_arguments[2]), name
                )
        arguments = tuple(function_arguments)
    windowed = Windowed(
        type=kind,
        coercibility=level,
        function=name,
        arguments=arguments,
        partition=partition,
        order=keys,
        frame=_frame(over, keys, scope),
        distinct=distinct,
    )
    return local(windowed, zone)


def _key(tree: exp.Expression, over: exp.Expression, scope: Scope) -> Expr:
    if isinstance(tree, exp.Literal) and not tree.is_string and tree.name.isdigit():
        raise ErrWindowIllegalOrderBy(_name(over))
    return scope.bind(tree)


# -- which window ----------------------------------------------------------------------------------


def named_windows(tree: exp.Select) -> dict[str, exp.Expression]:
    """The windows of WINDOW by lower-case name. Raises 3579, 3580 and 3591 as in MySQL."""
    windows: dict[str, exp.Expression] = {}
    for window in tree.args.get("windows") or ():
        if window.name.lower() in windows:
            raise ErrWindowDuplicateName(window.name)
        windows[window.name.lower()] = window
    for window in windows.values():
        visited = {window.name.lower()}
        while (alias := window.args.get("alias")) is not None:
            if alias.name.lower() not in windows:
                raise ErrWindowNoSuchWindow(alias.name)
            if alias.name.lower() in visited:
                raise ErrWindowCircularityInWindowGraph()
            visited.add(alias.name.lower())
            window = windows[alias.name.lower()]
    return windows


def _name(window: exp.Expression) -> str:
    is_named = isinstance(window.this, exp.Identifier)
    return window.this.name if is_named else _UNNAMED


def _specified(window: exp.Expression, scope: Scope) -> exp.Expression:
    """The window combined with the named window it is based on."""
    alias = window.args.get("alias")
    if alias is None:
        return window
    assert scope.windows is not None
    if alias.name.lower() not in scope.windows:
        raise ErrWindowNoSuchWindow(alias.name)
    base = _specified(scope.windows[alias.name.lower()], scope)
    own = {part: window.args.get(part) for part in ("partition_by", "order", "spec")}
    if not any(own.values()):
        return base
    if own["partition_by"]:
        raise ErrWindowNoChildPartitioning()
    if base.args.get("spec"):
        raise ErrWindowNoInheritFrame(alias.name)
    if own["order"] and base.args.get("order"):
        raise ErrWindowNoRedefineOrderBy(_name(window), alias.name)
    return exp.Window(
        this=window.this,
        partition_by=base.args.get("partition_by"),
        order=own["order"] or base.args.get("order"),
        spec=own["spec"],
    )


# -- its frame -------------------------------------------------------------------------------------

_SIDES = ("UNBOUNDED PRECEDING", "PRECEDING", "CURRENT ROW", "FOLLOWING", "UNBOUNDED FOLLOWING")
_TEMPORAL = (Family.DATE, Family.DATETIME, Family.TIME)
_NUMERIC = (*types.WHOLE, Family.DECIMAL, Family.FLOAT)


def _frame(
    over: exp.Expression, keys: Sequence[tuple[Expr, bool]], scope: Scope
) -> WindowFrame | None:
    """The frame, with its bounds in order. Raises 3584, 3585, 3586."""
    spec, window = over.args.get("spec"), _name(over)
    if spec is None:
        return None
    kind = str(spec.args.get("kind") or "ROWS").upper()
    if kind not in ("ROWS", "RANGE"):
        raise ErrNotSupportedYet(f"window frame {kind}")
    if spec.args.get("exclude"):
        raise ErrNotSupportedYet("EXCLUDE")
    ends = [(spec.args.get(end), _side(spec, end)) for end in ("start", "end")]
    sides = [side for _, side in ends]
    if not spec.args.get("end"):
        if "FOLLOWING" in sides[0]:
            raise Misplaced("FOLLOWING")
        ends[1] = (None, "CURRENT ROW")
        sides[1] = "CURRENT ROW"
    if sides[0] == "UNBOUNDED FOLLOWING":
        raise ErrWindowFrameStartIllegal(window)
    if sides[1] == "UNBOUNDED PRECEDING":
        raise ErrWindowFrameEndIllegal(window)
    if _SIDES.index(sides[0]) > _SIDES.index(sides[1]):
        raise ErrWindowFrameIllegal(window)
    key: Expr | None = None
    if kind == "RANGE" and any(side in ("PRECEDING", "FOLLOWING") for side in sides):
        key = _measured(keys, window)
    descending = bool(keys) and keys[0][1]
    start, end = (_bound(value, side, key, descending, window, scope) for value, side in ends)
    return WindowFrame(kind, start, end, window, key)


def _side(spec: exp.Expression, end: str) -> str:
    value, side = spec.args.get(end), str(spec.args.get(f"{end}_side") or "").upper()
    return f"{value} {side}".strip().upper() if isinstance(value, str) else side


def _measured(keys: Sequence[tuple[Expr, bool]], window: str) -> Expr:
    """The value of the only ORDER BY key. A DATE becomes a DATETIME, for hours."""
    if len(keys) != 1 or keys[0][0].type.Tp == TypeCode.NULL:
        raise ErrWindowRangeFrameOrderType(window)
    key = keys[0][0]
    if key.family not in (*_NUMERIC, *_TEMPORAL):
        raise ErrWindowRangeFrameOrderType(window)
    return casts.to_datetime(key) if key.family is Family.DATE else key


def _bound(
    value: object, side: str, key: Expr | None, descending: bool, window: str, scope: Scope
) -> FrameBound:
    if not isinstance(value, exp.Expression):
        return FrameBound(side)
    if isinstance(value, exp.Interval):
        if key is None:
            raise ErrWindowRowsIntervalUse(window)
        if key.family not in _TEMPORAL:
            raise ErrWindowRangeFrameNumericType(window)
        amount = scope.bind(value.this)
        if not is_constant(amount):
            raise ErrWindowRangeBoundNotConstant(window)
        sign = -1 if (side == "PRECEDING") != descending else 1
        return FrameBound(side, amount, moved(key, value, sign, scope))
    if not isinstance(value, exp.Literal | exp.Placeholder) or value.is_string:
        raise Misplaced(value.sql(dialect="mysql"))
    if key is not None and key.family in _TEMPORAL:
        raise ErrWindowRangeFrameTemporalType(window)
    amount = scope.bind(value)
    if key is None and amount.family in (Family.DECIMAL, Family.FLOAT):
        raise ErrWindowFrameIllegal(window)
    return FrameBound(side, amount)


BINDERS: dict[type, Binder] = {exp.Window: _window}
