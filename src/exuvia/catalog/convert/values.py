"""Assignment in MySQL's strict mode: a value of one type is converted to another type, or the
statement is refused.

    target        from numbers                  from text                            refused with
    integers      rounded, within the range     numeric prefix must be all of it     1264 1265 1366
    DECIMAL       rounded to the scale          the same                             1264 1265 1366
    FLOAT         nearest                       the same                             1264 1265 1366
    text, bytes   MySQL's text                  within the length                    1406, 1366
    dates, times  YYYYMMDD..., hhmmss           catalog/temporal.py                  1292
    ENUM, SET     index, bits                   names under the collation            1265
    YEAR          1901..2155, 1..99, 0          the same                             1264 1366
    BIT           within its width              its bytes                            1406
    JSON          the number                    parsed and normalised                3140

NULL into NOT NULL is 1048. Source: MySQL manual, "Data Types", "Server SQL Modes". The errors have
placeholders, which `named` replaces by the column and the number of the row.

Without strict mode (`narrowed`), the value becomes the nearest, else the type's zero:

    number out of range    the bound           text too long    cut
    text with rubbish      the leading number  no such element  0 of the ENUM or SET
    no time, no JSON       the type's zero     NULL             the type's zero
    character of another charset    a question mark

To numbers: text may have blanks around the number. Text without a number is 1366, other text after
the number is 1265. DECIMAL and text are rounded with halves away from zero, FLOAT to an integer to
even (C's rint).

From JSON, to numbers: a number unchanged, true 1, false 0, a string as text; null, arrays and
objects are 1366. To dates and times: a string as text, others by their text. To text: its text.

To text:  CHAR        trailing spaces are dropped      VARCHAR     only those beyond the length
          BINARY(n)   filled up with zero bytes        TEXT, BLOB  the length is one of bytes

To dates and times: TIMESTAMP is stored in UTC. Assigning to it converts from the session's zone,
assigning from it converts back. Fractions are rounded to the target's digits; a DATE takes the day
after rounding.
"""

import json
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from datetime import tzinfo
from decimal import Decimal
from typing import NamedTuple, NoReturn

from msgspec.structs import replace as evolve

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadNull,
    ErrDataTooLong,
    ErrInvalidJSONText,
    ErrJSONDocumentTooDeep,
    ErrTruncatedWrongValue,
    ErrTruncatedWrongValueForField,
    ErrWarnDataOutOfRange,
    WarnDataTruncated,
)
from exuvia.base.types import (
    INTEGER_BITS,
    TEXT_BLOBS,
    Family,
    FieldType,
    Flag,
    TypeCode,
    Value,
    pack_date,
    pack_datetime,
)
from exuvia.catalog import decimals, jsontext, temporal
from exuvia.catalog.collation import collation
from exuvia.catalog.convert.charset_codecs import CODECS, LATIN1, NARROW_CODECS
from exuvia.catalog.decimals import whole
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.temporal import shift_zone

NO_DOCUMENT = "The document root must not be followed by other values."
EMPTY_DOCUMENT = "The document is empty"
COLUMN, ROW = "\x00column\x00", "\x00row\x00"


class Mode(NamedTuple):
    """The strictness of an assignment, and its clock.

    `zero_dates`: 0000-00-00 is a date. `zero_parts`: so are dates whose month or day is zero; None:
    as `zero_dates`. `any_day`: every month has 31 days (ALLOW_INVALID_DATES). `zone`: the session's
    (None: UTC); TIMESTAMPs are stored in UTC. `today`: a packed date, for a TIME that becomes a
    DATETIME."""

    zero_dates: bool = False
    any_day: bool = False
    zone: tzinfo | None = None
    today: int = 0
    zero_parts: bool | None = None

    @property
    def takes_zero_parts(self) -> bool:
        """Whether 2024-00-10 and 2024-05-00 are dates."""
        return self.zero_dates if self.zero_parts is None else self.zero_parts


def zero_date_modes(sql_mode: str) -> tuple[bool, bool | None]:
    """The `zero_dates` and `zero_parts` of Mode under a sql_mode."""
    dates, parts = "NO_ZERO_DATE" not in sql_mode, "NO_ZERO_IN_DATE" not in sql_mode
    return dates, None if parts == dates else parts


STRICT = Mode()
LENIENT = Mode(zero_dates=True)
JUDGED = Mode(zero_dates=True, any_day=True)
"""For texts of values that were accepted before, in an unknown mode."""


def out_of_range() -> NoReturn:
    raise ErrWarnDataOutOfRange(COLUMN, ROW)


def truncated() -> NoReturn:
    raise WarnDataTruncated(COLUMN, ROW)


def too_long() -> NoReturn:
    raise ErrDataTooLong(COLUMN, ROW)


def is_null() -> NoReturn:
    raise ErrBadNull(COLUMN)


def incorrect(kind: str, text: object) -> NoReturn:
    raise ErrTruncatedWrongValueForField(kind, text, COLUMN, ROW)


def incorrect_time(kind: str, text: object) -> NoReturn:
    """1292 with the text of an assignment."""
    message = f"Incorrect {kind} value: '{text}' for column '{COLUMN}' at row {ROW}"
    raise ErrTruncatedWrongValue.with_text(message)


def invalid_json(text: str) -> NoReturn:
    """3140 with TiDB's text, which has two reasons."""
    raise ErrInvalidJSONText(EMPTY_DOCUMENT if not text else NO_DOCUMENT)


# -- to numbers ------------------------------------------------------------------------------------

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*")
_WORDS = {  # TiDB's words for types in 1366
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
    """Least and greatest value of an integer type."""
    bits = INTEGER_BITS[TypeCode(field.Tp)]
    return (0, (1 << bits) - 1) if field.unsigned else (-1 << bits - 1, (1 << bits - 1) - 1)


def number_of(value: Value, source: FieldType, kind: str, mode: Mode) -> Value:
    """The value as int, Decimal or float. `kind` is the target's word in 1366."""
    family = source.family
    if family == Family.JSON:
        return _document_number(value, kind)
    if family == Family.DATE:
        return temporal.date_number(value)
    if family == Family.DATETIME:
        if source.Tp == TypeCode.TIMESTAMP:
            value = shift_zone(value, None, mode.zone)
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
    if family == Family.STRING:
        return parse_number(value, kind)
    return value


def _document_number(text: str, kind: str) -> Value:
    document = jsontext.read(text)
    if isinstance(document, str):
        return parse_number(document, kind)
    if not isinstance(document, bool | int | float):
        incorrect(kind, text)
    return int(document) if isinstance(document, bool) else document


def _with_fraction(number: int, micro: int) -> Decimal:
    return Decimal(number) + Decimal(micro).scaleb(-6)


def parse_number(text: str, kind: str) -> Decimal:
    """The number of a text that is a number only. Raises 1366, 1265 (for a DECIMAL always 1366)."""
    number, is_all = leading_number(text, kind)
    if not is_all and kind == "decimal":
        incorrect(kind, text)
    return number if is_all else truncated()


def leading_number(text: str, kind: str) -> tuple[Decimal, bool]:
    """The number at the beginning of a text, and whether it is the whole text. Raises 1366."""
    match = _NUMBER.match(text)
    if match is None:
        incorrect(kind, text)
    return decimals.parsed(match[1]), match.end() == len(text)


def to_integer(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """Assign to an integer type; checks the range first. Raises 1264, 1265, 1366."""
    number: Value
    if source.family == Family.STRING:
        number, is_all = leading_number(value, _WORDS[TypeCode(target.Tp)])
    else:
        value = _whole_seconds(value, source)
        number, is_all = number_of(value, source, _WORDS[TypeCode(target.Tp)], mode), True
    if isinstance(number, float):
        number = round(number) if abs(number) < 1e20 else out_of_range()
    elif isinstance(number, Decimal):
        number = _whole(number)
    least, most = bounds_of(target)
    if not least <= number <= most:
        out_of_range()
    return int(number) if is_all else truncated()


def _whole_seconds(value: Value, source: FieldType) -> Value:
    """A time rounded to whole seconds, so that its integer is a valid time: 23:59:59.5 is 240000.
    Other values unchanged."""
    if source.family == Family.TIME:
        return temporal.round_time(value, 0)
    if source.family == Family.DATETIME:
        return temporal.round_datetime(value, 0) or value
    return value


def _whole(number: Decimal) -> int:
    if number.adjusted() > decimals.MOST_DIGITS:
        out_of_range()
    return int(decimals.rounded(number, 0))


def to_bit(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """Assign to BIT(n): numbers unchanged, text as its bytes. Raises 1406."""
    if source.family == Family.STRING:
        value = value.encode()
    if isinstance(value, bytes):
        number = int.from_bytes(value, "big")
    else:
        number = number_of(value, source, "bit", mode)
        number = _whole(Decimal(number))
        if not -1 << 63 <= number < 1 << 64:
            out_of_range()
        number &= (1 << 64) - 1
    if not 0 <= number < 1 << max(1, target.Flen):
        too_long()
    return int(number)


def to_decimal(value: Value, source: FieldType, target: FieldType, mode: Mode) -> Decimal:
    """Assign to DECIMAL(p, s). Raises 1264, 1265, 1366."""
    number = number_of(value, source, "decimal", mode)
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
    """Assign to FLOAT or DOUBLE, with (M, D) or without. Raises 1264, 1265, 1366."""
    try:
        number = float(number_of(value, source, _WORDS[TypeCode(target.Tp)], mode))
    except OverflowError:
        out_of_range()
    if number in (float("inf"), float("-inf")) or number != number:
        out_of_range()
    if target.unsigned and number < 0:
        out_of_range()
    if 0 <= target.Decimal < 31 and target.Flen > 0:
        unit = 10.0**target.Decimal
        if abs(number) < 1 << 53:  # greater doubles have no fraction
            number = round(number * unit) / unit
        if abs(number) >= 10 ** (target.Flen - target.Decimal):
            out_of_range()
    if target.Tp == TypeCode.FLOAT:
        return single(number)
    return number


def single(number: float) -> float:
    """The nearest 4-byte float. Raises 1264."""
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(number))[0])
    except OverflowError:
        out_of_range()


# -- to text, bytes, ENUM, SET and JSON ------------------------------------------------------------

TEXT_BYTES = {
    TypeCode.TINY_BLOB: 255,
    TypeCode.BLOB: 65_535,
    TypeCode.MEDIUM_BLOB: 16_777_215,
    TypeCode.LONG_BLOB: 4_294_967_295,
}
_MOMENTS = (Family.DATE, Family.DATETIME, Family.TIME)
# charsets that lack characters, and those characters: utf8 has at most three bytes each
_BEYOND = {"ascii": re.compile(r"[^\x00-\x7f]"), "utf8": re.compile(r"[^\x00-\uffff]")}
NARROW_CHARSETS = frozenset((*_BEYOND, *NARROW_CODECS))


def has_all_of(charset: str, other: str) -> bool:
    """Whether the charset has every character of the other."""
    alike = other in (charset, "ascii") or (charset == "utf8" and other in NARROW_CODECS)
    return alike or charset not in NARROW_CHARSETS


def _with_marks(charset: str, text: str) -> str:
    """The text with a question mark for each character that the charset lacks."""
    codec = NARROW_CODECS.get(charset)
    if codec is not None:
        return text.encode(codec, "replace").decode(codec)
    return _BEYOND[charset].sub("?", text) if charset in _BEYOND else text


def beyond(charset: str, text: str) -> str:
    """The first character of a text that the charset lacks, or ""."""
    codec = NARROW_CODECS.get(charset)
    if codec is not None:
        try:
            text.encode(codec)
        except UnicodeEncodeError as error:
            return text[error.start]
        return ""
    match = _BEYOND[charset].search(text) if charset in _BEYOND else None
    return "" if match is None else match.group()


def text_of(value: Value, source: FieldType, mode: Mode) -> str:
    """The value as text. Raises 1366 if bytes are not UTF-8."""
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


def _text_in(target: FieldType, value: Value, source: FieldType, mode: Mode) -> str:
    codec = CODECS.get(target.Charset)
    if target.Charset == "latin1" and source.family == Family.BYTES:
        return of_latin1(bytes(value))
    if codec is None or source.family != Family.BYTES:
        return text_of(value, source, mode)
    try:
        return bytes(value).decode(codec)
    except UnicodeDecodeError as error:
        _not_text(value[error.start : error.start + 6])


_NO_TEXT = re.compile("[\udc80-\udcff]")  # invalid bytes, as surrogateescape decodes them


def _with_marks_of(raw: bytes, charset: str) -> str:
    """The decoded text, with a question mark for each invalid byte."""
    if charset == "latin1":
        return of_latin1(raw)
    codec = CODECS.get(charset)
    if codec is not None:
        return raw.decode(codec, "replace").replace("\ufffd", "?")
    return _NO_TEXT.sub("?", raw.decode("utf-8", "surrogateescape"))


def of_latin1(raw: bytes) -> str:
    """The text of bytes that are latin1.

    TiDB sends latin1 as UTF-8. Bytes that are not UTF-8 are MySQL's latin1, as in dumps of MySQL
    under SET NAMES binary."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode(LATIN1)


def _not_text(raw: bytes) -> NoReturn:
    message = f"Incorrect string value '{shown_bytes(raw)}' for column '{COLUMN}'"
    raise ErrTruncatedWrongValueForField.with_text(message)


def shown_bytes(raw: bytes) -> str:
    """Bytes in an error text: printable ones unchanged, others in hexadecimal."""
    return "".join(chr(b) if 32 <= b < 127 else f"\\x{b:02X}" for b in raw)


def to_string(value: Value, source: FieldType, target: FieldType, mode: Mode) -> str:
    """Assign to CHAR, VARCHAR or TEXT; bytes are those of the target's charset. Raises 1366,
    1406."""
    text = value if source.family == Family.STRING else _text_in(target, value, source, mode)
    if target.Charset in NARROW_CHARSETS and not text.isascii():
        lost = beyond(target.Charset, text)
        if lost:
            _not_text(lost.encode("utf-8", "surrogatepass"))
    most = target.Flen
    if target.Tp in TEXT_BLOBS:
        most = TEXT_BYTES[TypeCode(target.Tp)]
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
    """Assign to BINARY, VARBINARY or BLOB. Raises 1406."""
    if isinstance(value, bytes):
        raw = value
    elif source.Tp == TypeCode.BIT:
        raw = to_bytes(value, source)
    else:
        text = text_of(value, source, mode)
        codec = CODECS.get(source.Charset) if source.family == Family.STRING else None
        raw = text.encode(codec or "utf-8", "replace" if codec else "surrogatepass")
    most = TEXT_BYTES.get(TypeCode(target.Tp), target.Flen)
    if 0 <= most < len(raw):
        too_long()
    if target.Tp == TypeCode.STRING and most > 0:
        return raw.ljust(most, b"\0")
    return raw


def to_enum(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """Assign to ENUM: a name under the collation, an index, or text that is an index. Raises
    1265."""
    elements = target.Elems or ()
    if not _is_named(source):
        value = number_of(value, source, "integer", mode)
        return int(value) if 1 <= value < len(elements) + 1 else truncated()
    text = text_of(value, source, mode)
    at = _place(text, elements, target.Collate)
    if at is not None:
        return at + 1
    if text.isdecimal() and 0 < whole(text) <= len(elements):
        return whole(text)
    return truncated()


def to_set(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """Assign to SET: names separated by commas, bits, or text that is bits. Raises 1265."""
    elements = target.Elems or ()
    if not _is_named(source):
        value = number_of(value, source, "integer", mode)
        return int(value) if 0 <= value < 1 << len(elements) else truncated()
    text = text_of(value, source, mode)
    bits = 0
    for part in text.split(",") if text else ():
        at = _place(part, elements, target.Collate)
        if at is None:
            is_bits = text.isdecimal() and whole(text) < 1 << len(elements)
            return whole(text) if is_bits else truncated()
        bits |= 1 << at
    return bits


def _is_named(source: FieldType) -> bool:
    """Whether the value is a name rather than a number; dates and times are names, by their
    text."""
    texts = (Family.STRING, Family.BYTES, *_MOMENTS)
    return source.family in texts or source.Tp in (TypeCode.ENUM, TypeCode.SET)


_MOST_PLACES = 256
_places: dict[tuple[int, str], tuple[tuple[str, ...], dict[bytes, int]]] = {}
"""By the identity of a type's elements, which is cheaper than their hash, and its collation."""


def _place(text: str, elements: tuple[str, ...], collate: str) -> int | None:
    """The index of the first element equal to the text under the collation, or None."""
    key = collation(collate).sort_key
    cached_elements, places = _places.get((id(elements), collate), ((), {}))
    if cached_elements is not elements:
        places = {}
        for at, element in enumerate(elements):
            places.setdefault(key(element), at)
        if len(_places) >= _MOST_PLACES:
            _places.clear()
        _places[id(elements), collate] = elements, places
    return places.get(key(text))


def to_json(value: Value, source: FieldType, target: FieldType, mode: Mode) -> str:
    """Assign to JSON, normalised. Numbers become JSON numbers, date-times strings with six digits
    of a second, a BIT a string of its bytes; others are parsed. Raises 3140."""
    if source.family == Family.JSON:
        return str(value)
    if source.Tp == TypeCode.BIT:
        return jsontext.write(to_bytes(value, source).decode("utf-8", "replace"))
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


# -- the text of a value ---------------------------------------------------------------------------

_NOT_FIXED = 31  # MySQL's "no number of decimals"


def to_text(value: Value, field: FieldType) -> str:
    """MySQL's text of a value that is not NULL. Bytes that are not UTF-8 are escaped; a BIT is its
    characters."""
    family = field.family
    if family in (Family.INT, Family.UINT):
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
    if family == Family.DECIMAL:
        scale = (
            decimals.scale_of(field) if field.Decimal >= 0 else max(0, -value.as_tuple().exponent)
        )
        return f"{decimals.rounded(value, scale):f}"
    if family == Family.FLOAT:
        if 0 <= field.Decimal < _NOT_FIXED:
            return f"{value:.{field.Decimal}f}"
        if field.Tp == TypeCode.FLOAT:
            return jsontext.double_text(value, _float_digits(value))
        return jsontext.double_text(value)
    if family == Family.DATE:
        return temporal.format_date(value)
    if family == Family.DATETIME:
        return temporal.format_datetime(value, max(0, field.Decimal))
    if family == Family.TIME:
        return temporal.format_time(value, max(0, field.Decimal))
    if family == Family.BYTES:
        return bytes(value).decode("utf-8", "backslashreplace")
    return str(value)


def _float_digits(value: float) -> int:
    """The digits with which a FLOAT reads back; six if it has an exponent, as in TiDB."""
    return _single_digits(value) if 1e-15 <= abs(value) < 1e15 else 6


def _single_digits(value: float) -> int:
    """The digits with which a FLOAT reads back, at least six."""
    for digits in (6, 7, 8):
        if _SINGLE.unpack(_SINGLE.pack(float(f"{value:.{digits}g}")))[0] == value:
            return digits
    return 9


def unfilled(field: FieldType) -> FieldType:
    """The type without the padding zeros of FLOAT(m, d) and DOUBLE(m, d)."""
    if field.Tp in (TypeCode.FLOAT, TypeCode.DOUBLE) and 0 <= field.Decimal < _NOT_FIXED:
        return evolve(field, Decimal=_NOT_FIXED)
    return field


def to_bytes(value: Value, field: FieldType) -> bytes:
    """A value that is not NULL in the form of the text protocol."""
    if field.Tp == TypeCode.BIT:
        return int(value).to_bytes(max(1, (field.Flen + 7) // 8), "big")
    if isinstance(value, bytes):
        return value
    return to_text(value, field).encode("utf-8", "surrogatepass")


# -- to dates and times ----------------------------------------------------------------------------

_NUMERIC = (Family.INT, Family.UINT, Family.DECIMAL, Family.FLOAT)
FIRST_TIMESTAMP = pack_datetime(pack_date(1970, 1, 1), 0, 0, 1)
LAST_TIMESTAMP = pack_datetime(pack_date(2038, 1, 19), 3, 14, 7, 999_999)


def _digits_of_second(field: FieldType) -> int:
    return max(0, min(6, field.Decimal))


def _written(value: Value, source: FieldType) -> str:
    """A number or text as the input of a parser."""
    if source.Tp == TypeCode.FLOAT:
        return f"{Decimal(f'{value:.{_single_digits(value)}g}'):f}"
    if source.family == Family.FLOAT:
        return f"{Decimal(repr(value)):f}"
    if source.family == Family.BYTES:
        return str(value.decode("latin-1"))
    if source.family == Family.JSON:
        document = jsontext.read(value)
        return document if isinstance(document, str) else str(value)
    return to_text(value, source)


def _padded(text: str, source: FieldType) -> str:
    """A number as the text of a date: MySQL pads it with zeros on the left."""
    if source.family not in _NUMERIC:
        return text
    whole, point, fraction = text.partition(".")
    if len(whole) <= 6:
        width = 6
    elif len(whole) <= 8:
        width = 8
    else:
        width = 12 if len(whole) <= 12 else 14
    return whole.rjust(width, "0") + point + fraction


_LEAST_DATE = 101  # the least number that is a date, 2000-01-01, except 0


def _datetime(value: Value, source: FieldType, kind: str, digits: int, mode: Mode) -> int:
    """A packed DATETIME in the session's zone. Raises 1292."""
    family = source.family
    if family == Family.DATE:
        return int(value) << 37
    if family == Family.DATETIME:
        if source.Tp == TypeCode.TIMESTAMP:
            value = temporal.shift_zone(value, None, mode.zone)
        rounded = temporal.round_datetime(value, digits)
        return incorrect_time(kind, to_text(value, source)) if rounded is None else rounded
    if family == Family.TIME:
        moved = temporal.add_micro(mode.today << 37, value) if mode.today else None
        rounded = None if moved is None else temporal.round_datetime(moved, digits)
        return incorrect_time(kind, to_text(value, source)) if rounded is None else rounded
    text = _written(value, source)
    if family in _NUMERIC and value < _LEAST_DATE:
        packed: int | None = 0 if mode.zero_dates and not value else None
    else:
        padded = _padded(text, source)
        number = family in _NUMERIC
        zeros = mode.zero_dates or mode.takes_zero_parts  # `_refuse_zero` distinguishes them
        packed = temporal.parse_datetime(padded, digits, zeros, mode.zone, mode.any_day, number)
    return incorrect_time(kind, text) if packed is None else packed


def _refuse_zero(day: int, value: Value, source: FieldType, kind: str, mode: Mode) -> None:
    is_allowed = mode.takes_zero_parts if day else mode.zero_dates
    if not is_allowed and (not day & 31 or not day >> 5 & 15):
        incorrect_time(kind, to_text(value, source))


def to_date(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """Assign to DATE. Raises 1292."""
    if source.family == Family.DATE:
        day = int(value)
    else:
        day = _datetime(value, source, "date", 0, mode) >> 37
    _refuse_zero(day, value, source, "date", mode)
    return day


def to_datetime(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """Assign to DATETIME in its own time, or TIMESTAMP in UTC. Raises 1292."""
    digits = _digits_of_second(target)
    kind = "timestamp" if target.Tp == TypeCode.TIMESTAMP else "datetime"
    if source.Tp == target.Tp and source.family == Family.DATETIME:
        packed = temporal.round_datetime(value, digits)
        packed = incorrect_time(kind, to_text(value, source)) if packed is None else packed
    else:
        packed = _datetime(value, source, kind, digits, mode)
        if target.Tp == TypeCode.TIMESTAMP:
            if packed:  # a TIMESTAMP never has a zero in its date, in any mode
                _refuse_zero(packed >> 37, value, source, kind, STRICT)
            if mode.zone is not None and temporal.after_gap(packed, mode.zone) is not None:
                incorrect_time(kind, to_text(value, source))
            packed = temporal.shift_zone(packed, mode.zone, None)
    _refuse_zero(packed >> 37, value, source, kind, mode)
    in_range = FIRST_TIMESTAMP <= packed <= LAST_TIMESTAMP
    if target.Tp == TypeCode.TIMESTAMP and packed and not in_range:
        incorrect_time(kind, to_text(value, source))
    return packed


def to_time(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """Assign to TIME, in microseconds. Raises 1292."""
    digits = _digits_of_second(target)
    if source.family == Family.TIME:
        return temporal.round_time(value, digits)
    if source.family == Family.DATE:
        return 0
    if source.family == Family.DATETIME:
        if source.Tp == TypeCode.TIMESTAMP:
            value = temporal.shift_zone(value, None, mode.zone)
        return temporal.round_time(temporal.time_of(value), digits)
    text = _written(value, source)
    micro = temporal.parse_time(text, digits, is_number=source.family in _NUMERIC)
    return incorrect_time("time", text) if micro is None else micro


def to_year(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """Assign to YEAR: 1901 to 2155, 0, or one or two digits. Raises 1264, 1366."""
    if source.Tp == TypeCode.TIMESTAMP:
        value = shift_zone(value, None, mode.zone)
    if source.family in (Family.DATE, Family.DATETIME):
        year = value >> (9 if source.family == Family.DATE else 46)
        return _year(int(year))
    number = number_of(value, source, "year", mode)
    if not -1e6 < number < 1e6:
        out_of_range()
    number = int(number if isinstance(number, float) else decimals.rounded(Decimal(number), 0))
    if source.family in (Family.STRING, Family.BYTES) and len(value.strip()) < 4 and number == 0:
        return 2000
    if 0 < number < 100:
        number = temporal.full_year(number, 2)
    return _year(number)


def _year(year: int) -> int:
    if year and not 1901 <= year <= 2155:
        out_of_range()
    return year


# -- assignment ------------------------------------------------------------------------------------

Assigner = Callable[[Value, FieldType, FieldType, Mode], Value]

_BY_TYPE: dict[int, Assigner] = {
    TypeCode.ENUM: to_enum,
    TypeCode.SET: to_set,
    TypeCode.BIT: to_bit,
    TypeCode.YEAR: to_year,
}
_BY_FAMILY: dict[Family, Assigner] = {
    Family.INT: to_integer,
    Family.UINT: to_integer,
    Family.DECIMAL: to_decimal,
    Family.FLOAT: to_float,
    Family.STRING: to_string,
    Family.BYTES: to_binary,
    Family.JSON: to_json,
    Family.DATE: to_date,
    Family.DATETIME: to_datetime,
    Family.TIME: to_time,
}


def assigner_of(target: FieldType) -> Assigner:
    """The function (value, its type, target, mode) that assigns values other than NULL to a
    type."""
    return _BY_TYPE.get(target.Tp) or _BY_FAMILY[target.family]


def convert(value: Value, source: FieldType, target: FieldType, mode: Mode = STRICT) -> Value:
    """The value in the form of a column of `target`. Raises Refused, as in the module's text."""
    if value is None:
        return is_null() if target.not_null else None
    return assigner_of(target)(value, source, target, mode)


_TEXT = FieldType(Tp=TypeCode.VAR_STRING, Charset="utf8mb4", Collate="utf8mb4_bin")


def from_text(text: str, field: FieldType, mode: Mode = STRICT) -> Value:
    """The value of a text assigned to the type. Raises Refused as `convert` does."""
    return convert(text, _TEXT, field, mode)


def named(error: Refused, column: str, row: int) -> Refused:
    """The error of an assignment with the column's name and the number of the row (from 1) in its
    text."""
    text = error.message.replace(COLUMN, column).replace(ROW, str(row))
    return Refused(error.code, error.state, text)


# -- defaults --------------------------------------------------------------------------------------


def default_of(column: ColumnInfo) -> Value:
    """The constant default; None for an expression (also CURRENT_TIMESTAMP) or no default."""
    if column.default_is_expr or is_current_timestamp(column):
        return None
    value = _constant(column.default, column.default_bit, column.type)
    if isinstance(value, bytes) and column.type.Tp == TypeCode.STRING:
        return value.ljust(column.type.Flen, b"\0")  # x'41' is stored without padding
    return value


def origin_default_of(column: ColumnInfo) -> Value:
    """The value of the column in rows that are older than the column. Never an expression."""
    value = _constant(column.origin_default, column.origin_default_bit, column.type)
    return zero_of(column.type) if value is None and column.not_null else value


def hidden_value_of(column: ColumnInfo) -> Value:
    """The value for a new row in a column that clients do not write: its constant default, or its
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
        return raw if field.family == Family.BYTES else convert(raw.decode(), _TEXT, field, JUDGED)
    if default is None:
        return None
    return convert(_text_of(default), _TEXT, field, JUDGED)


def _text_of(default: Value) -> str:
    return str(int(default)) if isinstance(default, bool) else str(default)


def zero_of(field: FieldType) -> Value:
    """The implicit default of a NOT NULL column: 0, '', the zero date, the first ENUM element."""
    family = field.family
    if family == Family.DECIMAL:
        return decimals.unscaled(0, decimals.scale_of(field))
    if family in (Family.STRING, Family.BYTES):
        fixed = field.Flen if field.Tp == TypeCode.STRING else 0
        return "" if family == Family.STRING else bytes(max(fixed, 0))
    if family == Family.JSON:
        return "null"
    if family == Family.FLOAT:
        return 0.0
    return 1 if field.Tp == TypeCode.ENUM else 0


# -- where no strict mode holds --------------------------------------------------------------------

_MOST_SINGLE = 3.4028234663852886e38
_MOST_DOUBLE = 1.7976931348623157e308


def narrowed(value: Value, source: FieldType, target: FieldType, mode: Mode = LENIENT) -> Value:
    """The value that is stored when strict mode is off: the nearest value, or the type's zero.

    A time that daylight saving skips in the mode's zone becomes the next valid time."""
    if value is None or source.Tp == TypeCode.NULL:
        return zero_of(target)
    if target.Tp == TypeCode.ENUM:
        return 0
    if target.Tp == TypeCode.SET:
        return _known_elements(value, source, target, mode)
    if target.Tp == TypeCode.BIT:
        return (1 << max(1, target.Flen)) - 1
    if target.Tp in INTEGER_BITS:
        least, most = bounds_of(target)
        number = _number(_whole_seconds(value, source), source, mode)
        return min(max(int(decimals.rounded(number, 0)), least), most)
    if target.family in (Family.DECIMAL, Family.FLOAT):
        return _nearest(_number(value, source, mode), target)
    if target.family == Family.TIME:
        return _nearest_time(value, source)
    if target.family in (Family.STRING, Family.BYTES) and target.Flen >= 0:
        whole = to_text(value, source) if not isinstance(value, str | bytes) else value
        if isinstance(whole, bytes) and target.family is Family.STRING:
            whole = _with_marks_of(whole, target.Charset)
        elif isinstance(whole, str) and target.family is Family.BYTES:
            whole = whole.encode()
        if isinstance(whole, str) and target.family is Family.STRING:
            whole = _with_marks(target.Charset, whole)
        if isinstance(whole, str) and target.Tp == TypeCode.STRING:
            return whole[: target.Flen].rstrip(" ")
        if isinstance(whole, bytes) and target.Tp == TypeCode.STRING:
            return whole[: target.Flen].ljust(target.Flen, b"\0")
        # At most as long as the column: in characters, or bytes of a TEXT without splitting a
        # character
        if target.Tp not in TEXT_BLOBS or isinstance(whole, bytes):
            return whole[: target.Flen]
        return whole.encode()[: target.Flen].decode(errors="ignore")
    if target.Tp == TypeCode.TIMESTAMP and mode.zone is not None:
        with suppress(Refused):
            digits = _digits_of_second(target)
            local = _datetime(value, source, "timestamp", digits, mode._replace(zero_dates=True))
            moved = temporal.after_gap(local, mode.zone)
            if moved is not None and FIRST_TIMESTAMP <= moved <= LAST_TIMESTAMP:
                return moved
    return zero_of(target)


def _known_elements(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """The elements of a SET that a text names or a number has bits for, without the others."""
    elements = target.Elems or ()
    if not _is_named(source):
        return int(decimals.rounded(_number(value, source, mode), 0)) & (1 << len(elements)) - 1
    parts = text_of(value, source, mode).split(",")
    places = {_place(part, elements, target.Collate) for part in parts} - {None}
    return sum(1 << place for place in places if place is not None)


def _nearest_time(value: Value, source: FieldType) -> int:
    """838:59:59 or -838:59:59 for times beyond them, 0 for invalid times."""
    if source.family in _NUMERIC:
        is_beyond = abs(value) > temporal.time_number(temporal.MOST_TIME)
        return (temporal.MOST_TIME if value > 0 else -temporal.MOST_TIME) if is_beyond else 0
    split = temporal.split_time(_written(value, source))
    if split is None or split.cut:
        return 0
    return -temporal.MOST_TIME if split.negative else temporal.MOST_TIME


def _number(value: Value, source: FieldType, mode: Mode) -> Decimal:
    """The number at the beginning of a value, or 0. A date or time is a number."""
    if source.family in _MOMENTS:
        return Decimal(number_of(value, source, "", mode))
    if source.family == Family.JSON:
        document = jsontext.read(value)
        value = str(int(document) if isinstance(document, bool) else document)
    text = value if isinstance(value, str) else to_text(value, source)
    text = text.decode("latin-1") if isinstance(text, bytes) else text
    try:
        return leading_number(text, "")[0]
    except Refused:
        return Decimal(0)


def _nearest(number: Decimal, target: FieldType) -> Value:
    scale = decimals.scale_of(target)
    if target.family == Family.DECIMAL:
        most = decimals.unscaled(10 ** decimals.precision_of(target) - 1, scale)
        number = decimals.rounded(number, scale)
    elif 0 <= target.Decimal < 31 and target.Flen > 0:
        most = Decimal(10**target.Flen - 1).scaleb(-target.Decimal)
        number = decimals.rounded(number, target.Decimal)
    else:
        most = Decimal(_MOST_SINGLE if target.Tp == TypeCode.FLOAT else _MOST_DOUBLE)
    least = Decimal(0) if target.unsigned else -most
    number = min(max(number, least), most)
    if target.family == Family.DECIMAL:
        return number
    return single(float(number)) if target.Tp == TypeCode.FLOAT else float(number)
