"""Values of columns and indexes as mysql.stats_buckets and stats_top_n hold them.

    column    MySQL's text of the value; bytes as they are
    index     a JSON array of its parts' texts; bytes as hexadecimal digits; NULL as null

They are text so that people can read them, and so that a change of encoding changes nothing at
rest. Texts longer than LONGEST characters are cut: bounds need no more.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog.convert import values

Value = Any
LONGEST = 256


def dump(value: Value, field: FieldType) -> bytes:
    """One value of a column, not NULL."""
    if isinstance(value, str | bytes):
        value = value[:LONGEST]
    return values.to_bytes(value, field)


def load(raw: bytes, field: FieldType) -> Value:
    """Inverse of `dump`."""
    if field.family == Family.BYTES:
        return raw
    if field.Tp == TypeCode.BIT:
        return int.from_bytes(raw, "big")
    text = raw.decode("utf-8", "replace")
    if field.family in (Family.STRING, Family.JSON):
        return text
    return values.from_text(text, field, values.LENIENT)


def dump_many(row: Sequence[Value], fields: Sequence[FieldType]) -> bytes:
    """The values of an index's parts."""
    return msgspec.json.encode([_text(v, f) for v, f in zip(row, fields, strict=True)])


def _text(value: Value, field: FieldType) -> str | None:
    if value is None:
        return None
    raw = dump(value, field)
    is_bytes = field.family == Family.BYTES or field.Tp == TypeCode.BIT
    return raw.hex() if is_bytes else raw.decode("utf-8", "replace")


def load_many(raw: bytes, fields: Sequence[FieldType]) -> list[Value]:
    """Inverse of `dump_many`."""
    texts = msgspec.json.decode(raw, type=list[str | None])
    return [_value(text, field) for text, field in zip(texts, fields, strict=True)]


def _value(text: str | None, field: FieldType) -> Value:
    if text is None:
        return None
    is_bytes = field.family == Family.BYTES or field.Tp == TypeCode.BIT
    return load(bytes.fromhex(text) if is_bytes else text.encode(), field)


def shown(raw: bytes, is_index: bool) -> str:
    """As SHOW STATS_BUCKETS prints it: an index of several parts in parentheses."""
    if not is_index:
        return raw.decode("utf-8", "backslashreplace")
    texts = msgspec.json.decode(raw, type=list[str | None])
    shown_texts = ["NULL" if text is None else text for text in texts]
    return shown_texts[0] if len(texts) == 1 else f"({', '.join(shown_texts)})"
