"""Logic, arithmetic, bits and intervals: types of operands and results.

Comparison is in bind/compare.py.
"""

from typing import Any

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql_errors import ErrNotSupportedYet
from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.sql import types
from exuvia.sql.bind import compare as bind_compare
from exuvia.sql.bind.cast import (
    cast,
    condition,
    fold,
    to_datetime,
    to_double,
    to_integer,
    to_number,
    to_text,
)
from exuvia.sql.bind.compare import boolean, joined
from exuvia.sql.bind.scope import Binder, Scope
from exuvia.sql.expr import COERCIBLE, Call, Constant, Expr
from exuvia.sql.parse.syntax_error import Misplaced

_ARITHMETIC: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
}
_BITS: dict[type, str] = {
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}
_LOGIC: dict[type, str] = {exp.And: "and", exp.Or: "or", exp.Xor: "xor"}


# -- logic -----------------------------------------------------------------------------------------


def _logic(tree: exp.Expression, scope: Scope) -> Expr:
    operands: list[Any] = list(tree.flatten(unnest=False))
    return joined(_LOGIC[type(tree)], [condition(scope.bind(each)) for each in operands])


def _not(tree: exp.Not, scope: Scope) -> Expr:
    return boolean("not", condition(scope.bind(tree.this)))


def _is(tree: exp.Is, scope: Scope) -> Expr:
    operand = scope.bind(tree.this)
    wanted = tree.expression
    if isinstance(wanted, exp.Null):
        return boolean("is null", operand)
    if isinstance(wanted, exp.Boolean):
        name = "is true" if wanted.this else "is false"
        return boolean(name, condition(operand))
    raise ErrNotSupportedYet("IS " + wanted.key.upper())


# -- arithmetic and bits ---------------------------------------------------------------------------


def arithmetic(sign: str, left: Expr, right: Expr) -> Expr:
    """left sign right, of numbers."""
    left, right = to_number(left), to_number(right)
    kind = types.arithmetic(sign.upper(), left.type, right.type)
    if kind.Tp == TypeCode.DOUBLE:
        left, right = to_double(left), to_double(right)
    elif kind.Tp == TypeCode.NEWDECIMAL:
        left, right = _exact(left), _exact(right)
    return fold(Call(type=kind, function=sign, arguments=(left, right)))


def _exact(expr: Expr) -> Expr:
    if expr.family is Family.DECIMAL:
        return expr
    return cast(expr, types.decimal(20, 0))


def _chain(step: Any, signs: dict[type, str]) -> Any:
    """The binder of a + b - c ...: without a level of Python's for each sign."""

    def bind(tree: exp.Binary, scope: Scope) -> Expr:
        nodes: list[Any] = [tree]
        while type(nodes[-1].this) in signs:
            nodes.append(nodes[-1].this)
        found: Expr = step(nodes[-1], None, scope)
        for node in reversed(nodes[:-1]):
            found = step(node, found, scope)
        return found

    return bind


def _arithmetic(tree: exp.Binary, bound: Expr | None, scope: Scope) -> Expr:
    """`bound` is what stands left, None where it is not bound yet."""
    sign = _ARITHMETIC[type(tree)]
    left, right = tree.this, tree.expression
    if isinstance(left, exp.Interval) and isinstance(right, exp.Interval):
        right = right if right.args.get("unit") else right.this  # the parser's: x is no interval
    if sign in "+-" and isinstance(right, exp.Interval):
        return moved(bound or scope.bind(left), right, -1 if sign == "-" else 1, scope)
    if sign == "+" and isinstance(left, exp.Interval):
        return moved(scope.bind(right), left, 1, scope)
    return arithmetic(sign, bound or scope.bind(left), scope.bind(right))


def _negative(tree: exp.Neg, scope: Scope) -> Expr:
    inner = tree.this
    if isinstance(inner, exp.Literal) and not inner.is_string and inner.name == str(1 << 63):
        return Constant(type=types.integer(19), value=-(1 << 63))
    operand = to_number(scope.bind(inner))
    if _overflows(operand):
        operand = cast(operand, types.decimal(20, 0))
    kind = operand.type if operand.family is not Family.UINT else types.BIGINT
    if kind.Tp == TypeCode.NULL or operand.family is Family.INT:
        kind = types.integer(operand.type.Flen)
    return fold(Call(type=kind, function="negative", arguments=(operand,)))


def _overflows(operand: Expr) -> bool:
    """Whether a constant integer has no negative among 64-bit integers."""
    if not (isinstance(operand, Constant) and isinstance(operand.value, int)):
        return False
    return not -(1 << 63) <= -operand.value < 1 << 63


def _bitwise(tree: exp.Binary, bound: Expr | None, scope: Scope) -> Expr:
    operands = (
        to_integer(bound or scope.bind(tree.this)),
        to_integer(scope.bind(tree.expression)),
    )
    return fold(Call(type=types.UNSIGNED, function=_BITS[type(tree)], arguments=operands))


def _inverted(tree: exp.BitwiseNot, scope: Scope) -> Expr:
    operand = to_integer(scope.bind(tree.this))
    return fold(Call(type=types.UNSIGNED, function="~", arguments=(operand,)))


def moved(moment: Expr, interval: exp.Interval, sign: int, scope: Scope) -> Expr:
    """moment + INTERVAL amount unit."""
    from exuvia.sql.functions.interval import CLOCK_UNITS, UNITS, digits_of

    unit = interval.args["unit"].name.upper() if interval.args.get("unit") else ""
    if unit not in UNITS or interval.this is None:
        raise Misplaced("INTERVAL")
    size = scope.bind(interval.this)
    digits = max(digits_of(unit), types.fraction_digits(moment.type))
    if unit == "SECOND" and size.family not in types.WHOLE:
        digits = 6
    kind: FieldType
    if moment.family is Family.TIME:
        kind = types.time(digits)
    elif moment.family is Family.DATE and unit not in CLOCK_UNITS:
        kind = types.DATE
    elif moment.family in types.TEMPORAL:
        moment, kind = to_datetime(moment), types.datetime(digits)
    else:
        number = not types.is_text_like(moment.type)
        parts, extra = (to_text(moment), size), (unit, sign, number)
        text = types.text(29, "utf8mb4", scope.collation)
        call = Call(type=text, function="date_add_text", arguments=parts, extra=extra)
        return fold(evolve(call, coercibility=COERCIBLE))
    call = Call(type=kind, function="date_add", arguments=(moment, size), extra=(unit, sign))
    return fold(call)


BINDERS: dict[type, Binder] = {
    **dict.fromkeys(_LOGIC, _logic),
    **bind_compare.BINDERS,
    **dict.fromkeys(_ARITHMETIC, _chain(_arithmetic, _ARITHMETIC)),
    **dict.fromkeys(_BITS, _chain(_bitwise, _BITS)),
    exp.Not: _not,
    exp.Is: _is,
    exp.Neg: _negative,
    exp.BitwiseNot: _inverted,
}
