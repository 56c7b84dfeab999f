"""MySQL's text of a value: what the wire sends, what messages show, what a number or date is as a
string."""

from struct import Struct
from typing import Any

from msgspec.structs import replace as evolve

from exuvia.base.types import Family, FieldType, Flag, TypeCode
from exuvia.catalog import decimals, jsontext, temporal

Value = Any
_SINGLE = Struct("<f")
_NOT_FIXED = 31  # MySQL's "no number of decimals"


def to_text(value: Value, field: FieldType) -> str:
    """MySQL's text of a value that is not NULL. Bytes that are not UTF-8 are shown escaped; a BIT
    as its characters."""
    family = field.family
    if family in (Family.INT, Family.UINT):
        return _integer_text(value, field)
    if family == Family.DECIMAL:
        scale = (
            decimals.scale_of(field) if field.Decimal >= 0 else max(0, -value.as_tuple().exponent)
        )
        return f"{decimals.rounded(value, scale):f}"
    if family == Family.FLOAT:
        return _float_text(value, field)
    if family == Family.DATE:
        return temporal.format_date(value)
    if family == Family.DATETIME:
        return temporal.format_datetime(value, max(0, field.Decimal))
    if family == Family.TIME:
        return temporal.format_time(value, max(0, field.Decimal))
    if family == Family.BYTES:
        return bytes(value).decode("utf-8", "backslashreplace")
    return str(value)


def _integer_text(value: int, field: FieldType) -> str:
    if field.Tp == TypeCode.ENUM:
        elements = field.Elems or ()
        return elements[value - 1] if 0 < value <= len(elements) else ""
    if field.Tp == TypeCode.SET:
        return ",".join(e for n, e in enumerate(field.Elems or ()) if value >> n & 1)
    if field.Tp == TypeCode.BIT:
        return to_bytes(value, field).decode("latin-1")
    if field.Tp == TypeCode.YEAR:
        return f"{value:04d}"
    if field.Flag & Flag.ZEROFILL and field.Flen > 0:
        return str(value).zfill(field.Flen)
    return str(value)


def _float_text(value: float, field: FieldType) -> str:
    if 0 <= field.Decimal < _NOT_FIXED:
        return f"{value:.{field.Decimal}f}"
    if field.Tp == TypeCode.FLOAT:
        return jsontext.double_text(value, _digits(value))
    return jsontext.double_text(value)


def _digits(value: float) -> int:
    """As many as a FLOAT needs to be read back; as in TiDB, with an exponent six."""
    if 1e-15 <= abs(value) < 1e15:
        for digits in (6, 7, 8):
            if _SINGLE.unpack(_SINGLE.pack(float(f"{value:.{digits}g}")))[0] == value:
                return digits
        return 9
    return 6


def unfilled(field: FieldType) -> FieldType:
    """The type of a FLOAT(m, d) or DOUBLE(m, d) whose text has no zeros to fill up its places."""
    if field.Tp in (TypeCode.FLOAT, TypeCode.DOUBLE) and 0 <= field.Decimal < _NOT_FIXED:
        return evolve(field, Decimal=_NOT_FIXED)
    return field


def to_bytes(value: Value, field: FieldType) -> bytes:
    """A value that is not NULL as the text protocol sends it."""
    if field.Tp == TypeCode.BIT:
        return int(value).to_bytes(max(1, (field.Flen + 7) // 8), "big")
    if isinstance(value, bytes):
        return value
    return to_text(value, field).encode("utf-8", "surrogatepass")
