"""How values print as MySQL prints them, and what they are as numbers."""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog import temporal
from exuvia.catalog.convert.values import to_text
from exuvia.sql.evaluate.env import Env
from exuvia.sql.types import family_of, fraction_digits

Value = Any


Caster = Callable[[Value, Env], Value]


DIGITS = Context(prec=120, rounding=ROUND_HALF_UP)


def round_to(value: Decimal, scale: int) -> Decimal:
    """The value with exactly that many digits behind the point, halves away from zero."""
    found = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, DIGITS)
    return found if found else found.copy_abs()


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


def plain_number(source: FieldType) -> Callable[[Value], Any]:
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
