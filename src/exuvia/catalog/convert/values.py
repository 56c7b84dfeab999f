"""Assignment in MySQL's strict mode: a value of one type becomes a value of another, or the
statement is refused.

    target        from numbers                  from text                            refused with
    integers      rounded, within the range     numeric prefix must be all of it     1264 1265 1366
    DECIMAL       rounded to the scale          likewise                             1264 1265 1366
    FLOAT         nearest                       likewise                             1264 1265 1366
    text, bytes   MySQL's text                  within the length                    1406, 1366
    dates, times  YYYYMMDD..., hhmmss           catalog/temporal.py                  1292
    ENUM, SET     index, bits                   names under the collation            1265
    YEAR          1901..2155, 1..99, 0          likewise                             1264 1366
    BIT           within its width              its bytes                            1406
    JSON          the number                    parsed and normalised                3140

NULL into NOT NULL is 1048. Source: MySQL manual, "Data Types", "Server SQL Modes". The errors carry
placeholders; `named` puts the column and the number of the row in.

Where no strict mode holds (`narrowed`), the value becomes the nearest, else the type's zero:

    number out of range    the bound           text too long    cut
    text with rubbish      the leading number  no such element  0 of the ENUM or SET
    no moment, no JSON     the type's zero     NULL             the type's zero
"""

from collections.abc import Callable
from decimal import Decimal

from exuvia.base.errors import Refused
from exuvia.base.types import INTEGER_BITS, TEXT_BLOBS, Family, FieldType, TypeCode, Value
from exuvia.catalog import decimals
from exuvia.catalog.convert import to_numeric, to_string, to_temporal
from exuvia.catalog.convert.mode import COLUMN, LENIENT, ROW, STRICT, Mode, is_null
from exuvia.catalog.convert.to_string import to_bytes, to_text
from exuvia.catalog.model import ColumnInfo

Assigner = Callable[[Value, FieldType, FieldType, Mode], Value]

_BY_TYPE: dict[int, Assigner] = {
    TypeCode.ENUM: to_string.to_enum,
    TypeCode.SET: to_string.to_set,
    TypeCode.BIT: to_numeric.to_bit,
    TypeCode.YEAR: to_temporal.to_year,
}
_BY_FAMILY: dict[Family, Assigner] = {
    Family.INT: to_numeric.to_integer,
    Family.UINT: to_numeric.to_integer,
    Family.DECIMAL: to_numeric.to_decimal,
    Family.FLOAT: to_numeric.to_float,
    Family.STRING: to_string.to_string,
    Family.BYTES: to_string.to_binary,
    Family.JSON: to_string.to_json,
    Family.DATE: to_temporal.to_date,
    Family.DATETIME: to_temporal.to_datetime,
    Family.TIME: to_temporal.to_time,
}


def assigner_of(target: FieldType) -> Assigner:
    """The function (value, its type, target, mode) that assigns to a type; for values that are not
    NULL."""
    return _BY_TYPE.get(target.Tp) or _BY_FAMILY[target.family]


def convert(value: Value, source: FieldType, target: FieldType, mode: Mode = STRICT) -> Value:
    """The value as a column of `target` holds it. Raises Refused, see the module."""
    if value is None:
        return is_null() if target.not_null else None
    return assigner_of(target)(value, source, target, mode)


__all__ = [
    "LENIENT",
    "STRICT",
    "Mode",
    "convert",
    "default_of",
    "from_text",
    "hidden_value_of",
    "named",
    "origin_default_of",
    "to_bytes",
    "to_text",
    "zero_of",
]


_TEXT = FieldType(Tp=TypeCode.VAR_STRING, Charset="utf8mb4", Collate="utf8mb4_bin")


def from_text(text: str, field: FieldType, mode: Mode = STRICT) -> Value:
    """The value a text has once assigned to the type. Raises Refused as `convert` does."""
    return convert(text, _TEXT, field, mode)


def named(error: Refused, column: str, row: int) -> Refused:
    """The error of an assignment with the column's name and the number of the row (from 1) in its
    text."""
    text = error.message.replace(COLUMN, column).replace(ROW, str(row))
    return Refused(error.code, error.state, text)


# -- defaults --------------------------------------------------------------------------------------


def default_of(column: ColumnInfo) -> Value:
    """The constant default, None where there is none or it is an expression (also
    CURRENT_TIMESTAMP)."""
    if column.default_is_expr or is_current_timestamp(column):
        return None
    return _constant(column.default, column.default_bit, column.type)


def origin_default_of(column: ColumnInfo) -> Value:
    """What rows that were written before the column existed hold in it. Never an expression."""
    value = _constant(column.origin_default, column.origin_default_bit, column.type)
    return zero_of(column.type) if value is None and column.not_null else value


def hidden_value_of(column: ColumnInfo) -> Value:
    """What a new row holds in a column that clients do not write: its constant default, else its
    origin default."""
    value = default_of(column)
    return origin_default_of(column) if value is None else value


def is_current_timestamp(column: ColumnInfo) -> bool:
    """Whether the default is the statement's time."""
    default = column.default
    is_time = column.type.Tp in (TypeCode.TIMESTAMP, TypeCode.DATETIME)
    return is_time and isinstance(default, str) and default.upper().startswith("CURRENT_TIMESTAMP")


def _constant(default: Value, bits: str | None, field: FieldType) -> Value:
    if bits is not None:
        raw = bytes.fromhex(bits)
        if field.family == Family.UINT:
            return int.from_bytes(raw, "big")
        return raw if field.family == Family.BYTES else convert(raw.decode(), _TEXT, field, LENIENT)
    if default is None:
        return None
    return convert(_text_of(default), _TEXT, field, LENIENT)


def _text_of(default: Value) -> str:
    return str(int(default)) if isinstance(default, bool) else str(default)


def zero_of(field: FieldType) -> Value:
    """The value MySQL gives a NOT NULL column that nobody gave one: 0, '', the zero date, the first
    ENUM element."""
    family = field.family
    if family == Family.DECIMAL:
        return decimals.unscaled(0, decimals.scale_of(field))
    if family in (Family.STRING, Family.BYTES):
        return "" if family == Family.STRING else b""
    if family == Family.JSON:
        return "null"
    if family == Family.FLOAT:
        return 0.0
    return 1 if field.Tp == TypeCode.ENUM else 0


# -- where no strict mode holds -----------------------------------------------------------------

_MOST_SINGLE = 3.4028234663852886e38
_MOST_DOUBLE = 1.7976931348623157e308


def narrowed(value: Value, source: FieldType, target: FieldType) -> Value:
    """What is written where strict mode refuses: the nearest value, else the type's zero."""
    if value is None or source.Tp == TypeCode.NULL:
        return zero_of(target)
    if target.Tp in (TypeCode.ENUM, TypeCode.SET):
        return 0
    if target.Tp == TypeCode.BIT:
        return (1 << max(1, target.Flen)) - 1
    if target.Tp in INTEGER_BITS:
        least, most = to_numeric.bounds_of(target)
        return min(max(int(decimals.rounded(_number(value, source), 0)), least), most)
    if target.family in (Family.DECIMAL, Family.FLOAT):
        return _nearest(_number(value, source), target)
    if target.family in (Family.STRING, Family.BYTES) and target.Flen >= 0:
        whole = to_text(value, source) if not isinstance(value, str | bytes) else value
        if isinstance(whole, bytes) and target.family is Family.STRING:
            whole = whole.decode("utf-8", "replace")
        return _cut(whole, target)
    return zero_of(target)


def _cut(whole: str | bytes, target: FieldType) -> str | bytes:
    """As much as a column holds: characters, or bytes of a TEXT; no character is halved."""
    if target.Tp not in TEXT_BLOBS or isinstance(whole, bytes):
        return whole[: target.Flen]
    return whole.encode()[: target.Flen].decode(errors="ignore")


def _number(value: Value, source: FieldType) -> Decimal:
    """The number a value begins with; 0 where it is none."""
    text = value if isinstance(value, str) else to_text(value, source)
    text = text.decode("latin-1") if isinstance(text, bytes) else text
    try:
        return to_numeric.leading_number(text, "")[0]
    except Refused:
        return Decimal(0)


def _nearest(number: Decimal, target: FieldType) -> Value:
    scale = decimals.scale_of(target)
    if target.family == Family.DECIMAL:
        most = decimals.unscaled(10 ** decimals.precision_of(target) - 1, scale)
        number = decimals.rounded(number, scale)
    elif 0 <= target.Decimal < 31 and target.Flen > 0:
        most = Decimal(10**target.Flen - 1).scaleb(-target.Decimal)
    else:
        most = Decimal(_MOST_SINGLE if target.Tp == TypeCode.FLOAT else _MOST_DOUBLE)
    least = Decimal(0) if target.unsigned else -most
    number = min(max(number, least), most)
    return number if target.family == Family.DECIMAL else float(number)
