"""Assignment to integers, BIT, DECIMAL, FLOAT and DOUBLE.

from exuvia.base.types import Value
from text    blanks, a number, blanks. No number at all: 1366. Something behind it: 1265.
rounding     DECIMAL and text halves away from zero; FLOAT to an integer halves to even (C's rint)
"""

import re
import struct
from decimal import Decimal

from exuvia.base.types import INTEGER_BITS, Family, FieldType, TypeCode, Value
from exuvia.catalog import decimals, temporal
from exuvia.catalog.convert.mode import Mode, incorrect, out_of_range, too_long, truncated

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*")
_WORDS = {  # of a type in 1366, as TiDB says them
    TypeCode.TINY: "tinyint",
    TypeCode.SHORT: "smallint",
    TypeCode.INT24: "mediumint",
    TypeCode.LONG: "int",
    TypeCode.LONGLONG: "bigint",
    TypeCode.FLOAT: "float",
    TypeCode.DOUBLE: "double",
}
_SINGLE = struct.Struct("<f")


def bounds_of(field: FieldType) -> tuple[int, int]:
    """Least and most value of an integer type."""
    bits = INTEGER_BITS[TypeCode(field.Tp)]
    return (0, (1 << bits) - 1) if field.unsigned else (-1 << bits - 1, (1 << bits - 1) - 1)


def number_of(value: Value, source: FieldType, kind: str) -> Value:
    """The value as int, Decimal or float. `kind` is the target's word in 1366."""
    family = source.family
    if family == Family.DATE:
        return temporal.date_number(value)
    if family == Family.DATETIME:
        micro = value & 0xFFFFF
        return (
            _with_fraction(temporal.datetime_number(value), micro)
            if micro
            else temporal.datetime_number(value)
        )
    if family == Family.TIME:
        micro = abs(value) % temporal.SECOND
        number = temporal.time_number(value)
        return _with_fraction(number, -micro if value < 0 else micro) if micro else number
    if family == Family.BYTES:
        return parse_number(value.decode("latin-1"), kind)
    if family in (Family.STRING, Family.JSON):
        return parse_number(value, kind)
    return value


def _with_fraction(number: int, micro: int) -> Decimal:
    return Decimal(number) + Decimal(micro).scaleb(-6)


def parse_number(text: str, kind: str) -> Decimal:
    """The number a text is, all of it. Refused 1366, 1265 (of a DECIMAL always 1366)."""
    number, is_all = leading_number(text, kind)
    if not is_all and kind == "decimal":
        incorrect(kind, text)
    return number if is_all else truncated()


def leading_number(text: str, kind: str) -> tuple[Decimal, bool]:
    """The number a text begins with, and whether it is all of it. Refused 1366."""
    found = _NUMBER.match(text)
    if found is None:
        incorrect(kind, text)
    return decimals.parsed(found[1]), found.end() == len(text)


def to_integer(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """An integer type; the range is looked at first. Refused 1264, 1265, 1366."""
    number: Value
    if source.family == Family.STRING:
        number, is_all = leading_number(value, _WORDS[TypeCode(target.Tp)])
    else:
        number, is_all = number_of(value, source, _WORDS[TypeCode(target.Tp)]), True
    if isinstance(number, float):
        number = round(number) if abs(number) < 1e20 else out_of_range()
    elif isinstance(number, Decimal):
        number = _whole(number)
    least, most = bounds_of(target)
    if not least <= number <= most:
        out_of_range()
    return int(number) if is_all else truncated()


def _whole(number: Decimal) -> int:
    if number.adjusted() > decimals.MOST_DIGITS:
        out_of_range()
    return int(decimals.rounded(number, 0))


def to_bit(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """BIT(n): numbers as they are, text as its bytes. Refused 1406."""
    if source.family == Family.STRING:
        value = value.encode()
    if isinstance(value, bytes):
        number = int.from_bytes(value, "big")
    else:
        number = number_of(value, source, "bit")
        number = int(number) if isinstance(number, float) else _whole(Decimal(number))
        if not -1 << 63 <= number < 1 << 64:
            out_of_range()
        number &= (1 << 64) - 1
    if not 0 <= number < 1 << max(1, target.Flen):
        too_long()
    return int(number)


def to_decimal(value: Value, source: FieldType, target: FieldType, mode: Mode) -> Decimal:
    """DECIMAL(p, s). Refused 1264, 1265, 1366."""
    number = number_of(value, source, "decimal")
    if isinstance(number, float):
        number = Decimal(repr(number)) if abs(number) < 1e70 else out_of_range()
    number = Decimal(number)
    if number.adjusted() > decimals.MOST_DIGITS:
        out_of_range()
    scale = decimals.scale_of(target)
    number = decimals.rounded(number, scale)
    if number.adjusted() >= decimals.precision_of(target) - scale and number:
        out_of_range()
    if number.is_signed():
        if not number:
            return number.copy_abs()
        if target.unsigned:
            out_of_range()
    return number


def to_float(value: Value, source: FieldType, target: FieldType, mode: Mode) -> float:
    """FLOAT, DOUBLE, with (M, D) or without. Refused 1264, 1265, 1366."""
    try:
        number = float(number_of(value, source, _WORDS[TypeCode(target.Tp)]))
    except OverflowError:
        out_of_range()
    if number in (float("inf"), float("-inf")) or number != number:
        out_of_range()
    if target.unsigned and number < 0:
        out_of_range()
    if 0 <= target.Decimal < 31 and target.Flen > 0:
        unit = 10.0**target.Decimal
        if abs(number) < 1 << 53:  # beyond, a double has no fraction
            number = round(number * unit) / unit
        if abs(number) >= 10 ** (target.Flen - target.Decimal):
            out_of_range()
    if target.Tp == TypeCode.FLOAT:
        return single(number)
    return number


def single(number: float) -> float:
    """The nearest 4-byte float. Refused 1264."""
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(number))[0])
    except OverflowError:
        out_of_range()
