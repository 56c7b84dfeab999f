"""How values print as MySQL prints them, and what they are as numbers.

An expression as 1690 shows it: columns in full, operators as functions inside others.

a - 1            (shop.t.a - 1)
(a + b) * 2      (plus(shop.t.a, shop.t.b) * 2)
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog import temporal
from exuvia.catalog.convert.values import to_text
from exuvia.sql.env import Env
from exuvia.sql.expr import Call, Cast, Column, Constant, Expr, Outer, Parameter, VariableRef, chain
from exuvia.sql.types import family_of, fraction_digits

Caster = Callable[[Value, Env], Value]


DIGITS = Context(prec=120, rounding=ROUND_HALF_UP)


def round_to(value: Decimal, scale: int) -> Decimal:
    """The value with exactly that many digits behind the point, halves away from zero."""
    found = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, DIGITS)
    return found or found.copy_abs()


def text_of(kind: FieldType) -> Callable[[Value], str]:
    """The function that prints values of a type as MySQL does."""
    if kind.Tp == TypeCode.NEWDECIMAL and kind.Decimal >= 0:
        scale = kind.Decimal
        return lambda value: format(round_to(value, scale), "f")
    family = family_of(kind)
    if family in (Family.INT, Family.UINT) and kind.Tp in range(10) and not kind.Flag & 64:
        return str
    if family in (Family.STRING, Family.JSON):
        return lambda value: value
    if family is Family.BYTES:
        return lambda value: value.decode("utf-8", "replace")
    return lambda value: to_text(value, kind)


def plain_number(source: FieldType) -> Callable[[Value], Value]:
    """int or Decimal of a value that is a number or a moment."""
    family = family_of(source)
    if family is Family.DATE:
        return temporal.date_number
    digits = fraction_digits(source)
    if family is Family.DATETIME:
        if digits:
            return lambda v: temporal.datetime_number(v) + Decimal(v & 0xFFFFF).scaleb(-6)
        return temporal.datetime_number
    if family is Family.TIME:
        if digits:
            return _time_with_fraction
        return temporal.time_number
    return lambda value: value


def _time_with_fraction(micros: int) -> Decimal:
    fraction = Decimal(abs(micros) % 1_000_000).scaleb(-6)
    whole = Decimal(temporal.time_number(abs(micros)))
    return -(whole + fraction) if micros < 0 else whole + fraction


# -- shown -----------------------------------------------------------------------------------------

_NAMES = {
    "+": "plus",
    "-": "minus",
    "*": "mul",
    "/": "div",
    "%": "mod",
    "negative": "unaryminus",
    "extract": "extract",
}


def operation(call: Call, sign: str, values: Sequence[object] = ()) -> str:
    """`(left sign right)` of an operator's call, `-(operand)` of one with a single operand.

    `values` are the operands', for those that are parameters."""
    parts = [shown(part) for part in call.arguments]
    for n, value in enumerate(values[: len(parts)]):
        if isinstance(call.arguments[n], Parameter):
            parts[n] = str(value)
    return f"{sign}({parts[0]})" if len(parts) == 1 else f"({parts[0]} {sign} {parts[1]})"


def shown(expr: Expr) -> str:
    """The text of an operand."""
    if isinstance(expr, Column | Outer):
        return expr.full or expr.name
    if isinstance(expr, Constant):
        return "NULL" if expr.value is None else _text(expr)
    if isinstance(expr, Cast):
        return shown(expr.argument)
    if isinstance(expr, VariableRef):
        return f"@{expr.name}"
    if isinstance(expr, Parameter):
        return "?"
    calls = chain(expr)
    if calls:
        text = shown(calls[-1].arguments[0])
        for call in reversed(calls):
            text = f"{_NAMES.get(call.function, call.function)}({text}, {shown(call.arguments[1])})"
        return text
    if isinstance(expr, Call):
        name = _NAMES.get(expr.function, expr.function)
        return f"{name}({', '.join(shown(part) for part in expr.arguments)})"
    return type(expr).__name__.lower()


def _text(constant: Constant) -> str:
    found = text_of(constant.type)(constant.value)
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else found
