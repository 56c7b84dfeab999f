"""Constants of a WHERE as bounds of a key: exact, or not used at all.

    column      constant                      bound
    INT, UINT   whole number, '12'            the number
    DECIMAL     number, '1.5'                 the number
    FLOAT       number, '1.5'                 the number
    STRING      text                          the text (its collation is the column's)
    BYTES       text, bytes                   the bytes
    DATE ...    text of a date and time       packed, to the microsecond
    any         NULL                          NOTHING: no comparison with NULL is true
    any         anything else                 INEXACT: the condition is left to the evaluator

A bound never leaves out a row the condition would keep; the condition itself is evaluated again
wherever the bound says less than it.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from exuvia.base.errors import Refused
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.convert import values
from exuvia.catalog.decimals import whole


class _Mark:
    """A bound that is no value."""


INEXACT: Final = _Mark()
NOTHING: Final = _Mark()

_WHOLE = re.compile(r"[+-]?\d{1,15}").fullmatch
_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d{1,15})?").fullmatch
_MOMENT = FieldType(Tp=TypeCode.DATETIME, Flen=26, Decimal=6)
_TIME = FieldType(Tp=TypeCode.TIME, Flen=17, Decimal=6)
_DAY_BITS = 37


Bounder = Callable[[Value], Value]
Maker = Callable[[Value, FieldType], Value]


def bounder(kind: FieldType, equality: bool) -> Bounder:
    """How a value becomes a bound on a column of that type: the bound, or NOTHING, or INEXACT."""
    if kind.Tp in (TypeCode.ENUM, TypeCode.SET, TypeCode.YEAR, TypeCode.BIT):
        make: Maker = _named if equality else _inexact
    else:
        make = _BOUNDS.get(kind.family, _inexact)
    if make is _integer:
        return _integer_bounder(kind)
    return lambda value: NOTHING if value is None else make(value, kind)


def _integer_bounder(kind: FieldType) -> Bounder:
    least, most = (0, (1 << 64) - 1) if kind.unsigned else (-(1 << 63), (1 << 63) - 1)

    def bound(value: Value) -> Value:
        if type(value) is int and least <= value <= most:
            return value
        return NOTHING if value is None else _integer(value, kind)

    return bound


def _inexact(value: Value, kind: FieldType) -> Value:
    return INEXACT


def _integer(value: Value, kind: FieldType) -> Value:
    number: int | None = _whole(value)
    least: int = 0 if kind.unsigned else -(1 << 63)
    beyond: int = 1 << 64 if kind.unsigned else 1 << 63
    return number if number is not None and least <= number < beyond else INEXACT


def _whole(value: object) -> int | None:
    """The whole number a value is, without doubt."""
    if isinstance(value, str):
        return whole(value) if _WHOLE(value) else None
    if isinstance(value, Decimal | float):
        return int(value) if abs(float(value)) < 1 << 53 and value == int(value) else None
    return value if isinstance(value, int) else None


def _decimal(value: Value, kind: FieldType) -> Value:
    if isinstance(value, str):
        return Decimal(value) if _NUMBER(value) else INEXACT
    return Decimal(value) if isinstance(value, int | Decimal) else INEXACT


def _float(value: Value, kind: FieldType) -> Value:
    if isinstance(value, str):
        return float(value) if _NUMBER(value) else INEXACT
    return float(value) if isinstance(value, int | float | Decimal) else INEXACT


def _string(value: Value, kind: FieldType) -> Value:
    return value if isinstance(value, str) else INEXACT


def _bytes(value: Value, kind: FieldType) -> Value:
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else INEXACT


def _moment(value: Value, kind: FieldType) -> Value:
    if not isinstance(value, str):
        return INEXACT
    try:
        packed = values.from_text(value, _TIME if kind.Tp == TypeCode.TIME else _MOMENT)
    except Refused:
        return INEXACT
    if kind.Tp != TypeCode.DATE:
        return packed
    return INEXACT if packed & ((1 << _DAY_BITS) - 1) else packed >> _DAY_BITS


def _named(value: Value, kind: FieldType) -> Value:
    """ENUM by its word; the others only by number."""
    if isinstance(value, int) and kind.Tp != TypeCode.YEAR:
        return value if 0 <= value < 1 << 64 else INEXACT
    if kind.Tp != TypeCode.ENUM or not isinstance(value, str):
        return INEXACT
    found = [n for n, word in enumerate(kind.Elems or ()) if word == value]
    return found[0] + 1 if found else INEXACT


_BOUNDS: dict[Family, Callable[[Value, FieldType], Value]] = {
    Family.INT: _integer,
    Family.UINT: _integer,
    Family.DECIMAL: _decimal,
    Family.FLOAT: _float,
    Family.STRING: _string,
    Family.BYTES: _bytes,
    Family.DATE: _moment,
    Family.DATETIME: _moment,
    Family.TIME: _moment,
}
