"""Values of columns: their text, their defaults, and the names in their errors.

    to_text(value, type)         MySQL's text, as the wire shows it              (catalog/texts.py)
    from_text(text, type)        the value of a default or a literal, as assigned to the type
    convert(value, from, to)     assignment in strict mode                       (catalog/assign.py)
    default_of, origin_default_of, hidden_value_of

Errors of assignment carry placeholders; `named` puts the column and the row number in.
"""

from typing import Any

from exuvia.base.errors import Refused
from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog import decimals
from exuvia.catalog.assign import convert
from exuvia.catalog.assignment import COLUMN, LENIENT, ROW, STRICT, Mode
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.texts import to_bytes, to_text

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

Value = Any

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
