"""Assignment to text, bytes, ENUM, SET and JSON; the text of every value.

CHAR        trailing spaces are dropped      VARCHAR  only those beyond the length
BINARY(n)   filled up with zero bytes        TEXT, BLOB  the length is one of bytes

`to_text` is MySQL's text of a value: what the wire sends, what messages show, what a number or date
is as a string.
"""

import json
from struct import Struct
from typing import NoReturn

from msgspec.structs import replace as evolve

from exuvia.base.mysql_errors import ErrJSONDocumentTooDeep, ErrTruncatedWrongValueForField
from exuvia.base.types import TEXT_BLOBS, Family, FieldType, Flag, TypeCode, Value
from exuvia.catalog import decimals, jsontext, temporal
from exuvia.catalog.collation import collation
from exuvia.catalog.convert.mode import COLUMN, Mode, invalid_json, too_long, truncated
from exuvia.catalog.convert.to_numeric import number_of
from exuvia.catalog.decimals import whole
from exuvia.catalog.temporal import shift_zone

_TEXT_BYTES = {
    TypeCode.TINY_BLOB: 255,
    TypeCode.BLOB: 65_535,
    TypeCode.MEDIUM_BLOB: 16_777_215,
    TypeCode.LONG_BLOB: 4_294_967_295,
}
_MOMENTS = (Family.DATE, Family.DATETIME, Family.TIME)


def text_of(value: Value, source: FieldType, mode: Mode) -> str:
    """The value as text. Refused 1366 where bytes are not UTF-8."""
    if source.family in (Family.STRING, Family.JSON):
        return str(value)
    if source.family == Family.BYTES or source.Tp == TypeCode.BIT:
        raw = to_bytes(value, source)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            _not_text(raw[error.start : error.start + 6])
    if source.Tp == TypeCode.TIMESTAMP:
        value = shift_zone(value, None, mode.zone)
    return to_text(value, source)


def _not_text(raw: bytes) -> NoReturn:
    message = f"Incorrect string value '{shown_bytes(raw)}' for column '{COLUMN}'"
    raise ErrTruncatedWrongValueForField.with_text(message)


def _checked(text: str, charset: str) -> str:
    """The text, if its charset has all of its characters. Refused 1366."""
    if charset == "ascii" and not text.isascii():
        _not_text(next(each for each in text if not each.isascii()).encode())
    return text


def shown_bytes(raw: bytes) -> str:
    """Bytes in an error: what is printable as it is, all else in hexadecimal."""
    return "".join(chr(b) if 32 <= b < 127 else f"\\x{b:02X}" for b in raw)


def to_string(value: Value, source: FieldType, target: FieldType, mode: Mode) -> str:
    """CHAR, VARCHAR, TEXT. Refused 1366, 1406."""
    text = value if source.family == Family.STRING else text_of(value, source, mode)
    if target.Charset == "ascii":
        text = _checked(text, target.Charset)
    most = target.Flen
    if target.Tp in TEXT_BLOBS:
        most = _TEXT_BYTES[TypeCode(target.Tp)]
        if len(text) * 4 > most and len(text.encode()) > most:
            too_long()
        return text
    if target.Tp == TypeCode.STRING:
        text = text.rstrip(" ")
    if 0 <= most < len(text):
        if text[most:].strip():
            too_long()
        text = text[:most]
    return text


def to_binary(value: Value, source: FieldType, target: FieldType, mode: Mode) -> bytes:
    """BINARY, VARBINARY, BLOB. Refused 1406."""
    if isinstance(value, bytes):
        raw = value
    elif source.Tp == TypeCode.BIT:
        raw = to_bytes(value, source)
    else:
        raw = text_of(value, source, mode).encode("utf-8", "surrogatepass")
    most = _TEXT_BYTES.get(TypeCode(target.Tp), target.Flen)
    if 0 <= most < len(raw):
        too_long()
    if target.Tp == TypeCode.STRING and most > 0:
        return raw.ljust(most, b"\0")
    return raw


def to_enum(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """ENUM: a name under the collation, an index, or text that is an index. Refused 1265."""
    elements = target.Elems or ()
    if not _is_named(source):
        value = number_of(value, source, "integer")
        return int(value) if 1 <= value < len(elements) + 1 else truncated()
    text = text_of(value, source, mode)
    for at, element in enumerate(elements, 1):
        if _same(element, text, target):
            return at
    if text.isdecimal() and 0 < whole(text) <= len(elements):
        return whole(text)
    return truncated()


def to_set(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """SET: names separated by commas, bits, or text that is bits. Refused 1265."""
    elements = target.Elems or ()
    if not _is_named(source):
        value = number_of(value, source, "integer")
        return int(value) if 0 <= value < 1 << len(elements) else truncated()
    text = text_of(value, source, mode)
    bits = 0
    for part in text.split(",") if text else ():
        found = [n for n, element in enumerate(elements) if _same(element, part, target)]
        if not found:
            is_bits = text.isdecimal() and whole(text) < 1 << len(elements)
            return whole(text) if is_bits else truncated()
        bits |= 1 << found[0]
    return bits


def _is_named(source: FieldType) -> bool:
    """Whether the value is a name rather than a number."""
    return source.family in (Family.STRING, Family.BYTES) or source.Tp in (
        TypeCode.ENUM,
        TypeCode.SET,
    )


def _same(element: str, text: str, target: FieldType) -> bool:
    key = collation(target.Collate).sort_key
    return element == text or key(element) == key(text)


def to_json(value: Value, source: FieldType, target: FieldType, mode: Mode) -> str:
    """JSON, normalised. Numbers become JSON numbers, moments strings with six places of a second,
    everything else is parsed. Refused 3140."""
    if source.family == Family.JSON:
        return str(value)
    if source.family in (Family.INT, Family.UINT, Family.FLOAT) and not _is_named(source):
        return jsontext.write(value)
    if source.family in _MOMENTS:
        return jsontext.write(text_of(value, evolve(source, Decimal=6), mode))
    text = text_of(value, source, mode)
    try:
        return jsontext.normalise(text)
    except jsontext.TooDeep:
        raise ErrJSONDocumentTooDeep() from None
    except json.JSONDecodeError:
        invalid_json(text)


# -- the text of a value --

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
