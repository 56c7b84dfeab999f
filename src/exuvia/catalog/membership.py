"""Whether stored values are members of their columns' types, for many rows at once.

    integers, YEAR, BIT, ENUM, SET    within the type's range; 0 is the ENUM of no element
    DECIMAL                           no more digits than the precision, no sign where UNSIGNED
    FLOAT, DOUBLE                     finite; a FLOAT is one of 4 bytes
    text                              no longer than the column, UTF-8, within its charset; a CHAR
                                      does not end in a blank
    BINARY(n)                         exactly n bytes; other bytes no more than the column holds
    dates and times                   parts within their ranges, digits of a second as declared;
                                      zero parts and days up to 31 are allowed
    JSON                              a document
    NULL                              not where the column is NOT NULL

Values that a non-strict sql_mode stores are members too.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exuvia.base.decoding import json_decoder
from exuvia.base.types import INTEGER_BITS, TEXT_BLOBS, Family, FieldType, TypeCode
from exuvia.catalog import decimals, jsontext
from exuvia.catalog.columns import Array, Vector
from exuvia.catalog.convert.values import (
    FIRST_TIMESTAMP,
    LAST_TIMESTAMP,
    NARROW_CHARSETS,
    TEXT_BYTES,
    beyond,
    bounds_of,
)
from exuvia.catalog.temporal import MOST_TIME

_documents = json_decoder(list[Any])

Look = Callable[[Vector, FieldType], Array]
"""Returns a mask that is True for values outside the type. Its values for NULLs are ignored."""


def outsiders(vector: Vector, field: FieldType) -> Array:
    """Positions of the values that the type does not have, in order."""
    wrong = _LOOKS[field.family](vector, field)
    if vector.nulls is not None:
        wrong = vector.nulls | wrong if field.not_null else wrong & ~vector.nulls
    return np.flatnonzero(wrong)


def _none(vector: Vector) -> Array:
    return np.zeros(len(vector.values), dtype=bool)


# -- numbers ---------------------------------------------------------------------------------------


def _integers(vector: Vector, field: FieldType) -> Array:
    code = TypeCode(field.Tp)
    if code == TypeCode.LONGLONG:
        return _none(vector)
    if code == TypeCode.YEAR:
        year = vector.values
        return np.asarray((year != 0) & ((year < 1901) | (year > 2155)))
    if code in INTEGER_BITS:
        least, most = bounds_of(field)
    else:
        bits = len(field.Elems or ()) if code == TypeCode.SET else max(1, field.Flen)
        least, most = 0, len(field.Elems or ()) if code == TypeCode.ENUM else (1 << bits) - 1
    wrong = vector.values > most
    return np.asarray(wrong | (vector.values < least) if least else wrong)


def _decimals(vector: Vector, field: FieldType) -> Array:
    most = 10 ** decimals.precision_of(field) - 1
    least = 0 if field.unsigned else -most
    width = decimals.width_of(field)
    if width == 8:
        return np.asarray((vector.values > most) | (vector.values < least))
    words = np.frombuffer(vector.values.tobytes(), dtype="<i8").reshape(-1, width // 8)
    sign = words[:, -1] >> 63
    # higher words than the greatest number's contain the sign only
    used = -(-most.bit_length() // 64)
    edge = most >> 64 * (used - 1)
    top = words[:, used - 1].view("<u8") ^ sign.view("<u8")
    doubtful = (top >= np.uint64(edge)) | ((sign < 0) & field.unsigned)
    for word in range(used, width // 8):
        doubtful |= words[:, word] != sign
    wrong = _none(vector)
    raw = vector.values.tobytes()
    for n in np.flatnonzero(doubtful):
        number = int.from_bytes(raw[n * width : (n + 1) * width], "little", signed=True)
        wrong[n] = not least <= number <= most
    return wrong


def _floats(vector: Vector, field: FieldType) -> Array:
    numbers = vector.values
    wrong = ~np.isfinite(numbers)
    if field.unsigned:
        wrong |= numbers < 0
    if field.Tp == TypeCode.FLOAT:
        with np.errstate(over="ignore"):
            wrong |= numbers.astype("<f4").astype("<f8") != numbers
    return np.asarray(wrong)


# -- text and bytes --------------------------------------------------------------------------------


def _most(field: FieldType) -> int:
    return TEXT_BYTES[TypeCode(field.Tp)] if field.Tp in TEXT_BLOBS else field.Flen


def _over(lengths: pa.Array, most: int) -> Array:
    return np.asarray(pc.fill_null(pc.greater(lengths, most), False))


def _texts(vector: Vector, field: FieldType) -> Array:
    texts = vector.values
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return np.array([not _is_text(raw) for raw in texts.cast(pa.binary()).to_pylist()])
    most = _most(field)
    lengths = pc.binary_length(texts)
    wrong = _over(lengths, most) if most >= 0 else _none(vector)
    if wrong.any() and field.Tp not in TEXT_BLOBS:  # characters are fewer than bytes
        wrong = _over(pc.utf8_length(texts), most)
    if field.Tp == TypeCode.STRING:
        wrong |= np.asarray(pc.fill_null(pc.ends_with(texts, " "), False))
    if field.Charset in NARROW_CHARSETS:
        plain = np.asarray(pc.fill_null(pc.string_is_ascii(texts), True))
        for n in np.flatnonzero(~plain):
            wrong[n] |= bool(beyond(field.Charset, texts[n].as_py()))
    return wrong


def _is_text(raw: bytes | None) -> bool:
    try:
        return raw is None or raw.decode() is not None
    except UnicodeDecodeError:
        return False


def _bytes(vector: Vector, field: FieldType) -> Array:
    lengths, most = pc.binary_length(vector.values), _most(field)
    if field.Tp == TypeCode.STRING:
        return np.asarray(pc.fill_null(pc.not_equal(lengths, most), False))
    return _over(lengths, most) if most >= 0 else _none(vector)


def _json(vector: Vector, field: FieldType) -> Array:
    texts = [text for text in vector.values.to_pylist() if text is not None]
    try:
        if len(_documents.decode(f"[{','.join(texts)}]")) == len(texts):
            return _none(vector)
    except msgspec.DecodeError:
        pass  # one document is invalid, or unsupported by this reader
    return np.array([not _is_document(text) for text in vector.values.to_pylist()], dtype=bool)


def _is_document(text: str | None) -> bool:
    try:
        if text is not None:
            jsontext.read(text)
    except ValueError:
        return False
    return True


# -- dates and times -------------------------------------------------------------------------------


def _days(day: Array) -> Array:
    return np.asarray((day >> 9 > 9999) | (day < 0) | (day >> 5 & 15 > 12))


def _dates(vector: Vector, field: FieldType) -> Array:
    return _days(vector.values)


def _fractions(micro: Array, field: FieldType) -> Array:
    unit = 10 ** (6 - max(0, field.Decimal))
    return np.asarray(micro % unit != 0) if unit > 1 else np.zeros(len(micro), dtype=bool)


def _moments(vector: Vector, field: FieldType) -> Array:
    packed = vector.values
    micro = packed & 0xFFFFF
    wrong = _days(packed >> 37) | (packed >> 32 & 31 > 23) | (packed >> 26 & 63 > 59)
    wrong |= (packed >> 20 & 63 > 59) | (micro > 999_999) | _fractions(micro, field)
    if field.Tp == TypeCode.TIMESTAMP:
        wrong |= (packed != 0) & ((packed < FIRST_TIMESTAMP) | (packed > LAST_TIMESTAMP))
    return np.asarray(wrong)


def _times(vector: Vector, field: FieldType) -> Array:
    size = np.abs(vector.values)
    return np.asarray((size > MOST_TIME) | _fractions(size, field))


_LOOKS: dict[Family, Look] = {
    Family.INT: _integers,
    Family.UINT: _integers,
    Family.DECIMAL: _decimals,
    Family.FLOAT: _floats,
    Family.STRING: _texts,
    Family.BYTES: _bytes,
    Family.DATE: _dates,
    Family.DATETIME: _moments,
    Family.TIME: _times,
    Family.JSON: _json,
}
