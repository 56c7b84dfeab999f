"""Prepared statements on the wire (source: MySQL protocol, COM_STMT_PREPARE, COM_STMT_EXECUTE).

    execute   [u32 id][u8 cursor][u32 1][null bits][u8 types follow][types...][values...]

The types of the parameters are sent with the first execution. Later ones may omit them, as
MariaDB's C library does, so they are stored with the statement.

    send long data   [u32 id][u16 parameter][bytes]          no answer

Long values are stored until the statement is executed, reset or closed. All long values of a
connection together have at most `max_allowed_packet` bytes. Invalid ones (unknown parameter, too
long) are reported by the next executions until the statement is reset, as in MySQL.

A client may request a cursor, to fetch the rows in parts (COM_STMT_FETCH):

    execute with a cursor    [count][definitions][end, "cursor exists"]          no rows yet
    fetch n                  [at most n rows][end, "cursor exists"]
                             [the last ones][end, "last row sent"]               fewer than n: done

The rows stay in this process until they are fetched, the statement is executed again, reset or
closed, or the connection ends.
"""

import struct
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from itertools import islice
from struct import Struct

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrMalformedPacket, ErrUnknown, ErrWrongArguments
from exuvia.base.types import TypeCode, Value, pack_date, pack_datetime
from exuvia.catalog.temporal import MOST_TIME, SECOND, is_date
from exuvia.server import results
from exuvia.server.packets import LENGTH_BYTES, Outgoing
from exuvia.server.results import Agreed
from exuvia.sql import types
from exuvia.sql.parse.literals import TypedValue
from exuvia.sql.result import Result
from exuvia.sql.statement.context import Ready

_OLD_DECIMAL = 0
_BLOBS = {TypeCode.TINY_BLOB, TypeCode.MEDIUM_BLOB, TypeCode.LONG_BLOB, TypeCode.BLOB, TypeCode.BIT}
_DECIMALS = {_OLD_DECIMAL, TypeCode.NEWDECIMAL}
_DATES = {TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP}
_INTEGERS = {
    TypeCode.TINY: (Struct("<b"), Struct("<B")),
    TypeCode.SHORT: (Struct("<h"), Struct("<H")),
    TypeCode.YEAR: (Struct("<h"), Struct("<H")),
    TypeCode.INT24: (Struct("<i"), Struct("<I")),
    TypeCode.LONG: (Struct("<i"), Struct("<I")),
    TypeCode.LONGLONG: (Struct("<q"), Struct("<Q")),
}
_FLOATS = {TypeCode.FLOAT: Struct("<f"), TypeCode.DOUBLE: Struct("<d")}
_HEAD = Struct("<IBI")
_TOO_LONG = (
    "Parameter of prepared statement which is set through mysql_send_long_data() is longer than "
    "'max_allowed_packet' bytes"
)
_CURSOR_AT, _READ_ONLY = 4, 1
_EXISTS, _LAST_ROW_SENT = 0x40, 0x80


class LongData:
    """Number of bytes of long values that a connection has sent and not executed."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


def wants_cursor(payload: bytes) -> bool:
    """Whether COM_STMT_EXECUTE requests a cursor."""
    return len(payload) > _CURSOR_AT and bool(payload[_CURSOR_AT] & _READ_ONLY)


class ServerCursor:
    """The rows of a result that are not fetched yet."""

    def __init__(self, result: Result) -> None:
        self._columns = result.columns
        self._rows = iter(result.rows)

    def open(self, outgoing: Outgoing, agreed: Agreed, status: int) -> Iterator[bytearray]:
        """The answer to COM_STMT_EXECUTE."""
        results.definitions(self._columns, outgoing)
        results.end(outgoing, agreed, status | _EXISTS)
        yield outgoing.take()

    def fetch(
        self, count: int, outgoing: Outgoing, agreed: Agreed, status: int
    ) -> Iterator[bytearray]:
        part = Result(self._columns, list(islice(self._rows, count)))
        yield from results.rows(part, outgoing, agreed.codec, binary=True)
        flag = _EXISTS if len(part.rows) == count else _LAST_ROW_SENT
        results.end(outgoing, agreed, status | flag)
        yield outgoing.take()


class Statement:
    """A prepared statement of a connection, with the types and long values that the client sent."""

    __slots__ = (
        "cursor",
        "integers",
        "long_data",
        "parameters",
        "prepared",
        "refused",
        "stored",
        "types",
    )

    def __init__(self, prepared: Ready, parameters: int, stored: LongData) -> None:
        self.prepared = prepared
        self.parameters = parameters
        self.stored = stored
        self.types: list[tuple[int, bool]] = []
        # the types of integer parameters, the format that reads all
        self.integers: tuple[bytes, Struct | None] = b"", None
        self.long_data: dict[int, bytearray] = {}
        self.refused: Refused | None = None
        self.cursor: ServerCursor | None = None

    def append(self, position: int, data: bytes, most_bytes: int) -> None:
        """Add a part of a long value. `most_bytes` is the limit for the connection."""
        if self.refused is not None:
            return
        if position >= self.parameters:
            self.refused = ErrWrongArguments("mysqld_stmt_send_long_data")
        elif self.stored.bytes + len(data) > most_bytes:
            self.refused = ErrUnknown(_TOO_LONG)
        else:
            self.stored.bytes += len(data)
            self.long_data.setdefault(position, bytearray()).extend(data)
            return
        self.forget_long_data()

    def forget_long_data(self) -> None:
        """Delete the long values that were sent."""
        self.stored.bytes -= sum(map(len, self.long_data.values()))
        self.long_data.clear()

    def clear(self) -> None:
        """COM_STMT_RESET: delete long values and close the cursor."""
        self.forget_long_data()
        self.refused = None
        self.cursor = None

    def read(self, payload: bytes, codec: str) -> list[Value]:
        """The parameter values of an execution; dates and times are TypedValues.

        Raises 1835 for a malformed packet, 1210 and 1105 for errors of COM_STMT_SEND_LONG_DATA."""
        if self.refused is not None:
            raise Refused(self.refused.code, self.refused.state, self.refused.message)
        try:
            return _values(self, payload, codec)
        except (struct.error, IndexError, ValueError, InvalidOperation) as error:
            raise ErrMalformedPacket() from error
        finally:
            self.forget_long_data()


def id_of(payload: bytes) -> int:
    """The id of the statement in a command. Raises 1835."""
    if len(payload) < 4:
        raise ErrMalformedPacket()
    return int.from_bytes(payload[:4], "little")


def _values(statement: Statement, payload: bytes, codec: str) -> list[Value]:
    count = statement.parameters
    at = _HEAD.size
    if not count:
        return []
    nulls = payload[at : at + (count + 7) // 8]
    at += len(nulls)
    types_follow = payload[at]
    at += 1
    if types_follow:
        pairs = payload[at : at + 2 * count]
        at += 2 * count
        if pairs != statement.integers[0] or not pairs:
            statement.types = [(pairs[2 * n], bool(pairs[2 * n + 1] & 0x80)) for n in range(count)]
            statement.integers = pairs, _integers(statement.types)
    if len(statement.types) != count:
        raise ErrMalformedPacket()
    form = statement.integers[1]
    if form is not None and not statement.long_data and not any(nulls):
        return list(form.unpack_from(payload, at))
    parameters: list[Value] = []
    for position, (code, unsigned) in enumerate(statement.types):
        if position in statement.long_data:
            parameters.append(_string(code, bytes(statement.long_data[position]), codec))
        elif nulls[position >> 3] >> (position & 7) & 1:
            parameters.append(None)
        else:
            value, at = _value(payload, at, code, unsigned, codec)
            parameters.append(value)
    return parameters


def _integers(types: list[tuple[int, bool]]) -> Struct | None:
    """The format that reads all parameters at once if all are integers, or None."""
    forms = [_INTEGERS.get(code) for code, _ in types]  # type: ignore[call-overload]
    if None in forms:
        return None
    pairs = zip(forms, types, strict=True)
    return Struct("<" + "".join([form[unsigned].format[1:] for form, (_, unsigned) in pairs]))


def _value(payload: bytes, at: int, code: int, unsigned: bool, codec: str) -> tuple[Value, int]:
    integer = _INTEGERS.get(code)  # type: ignore[call-overload]
    if integer is not None:
        form = integer[unsigned]
        return form.unpack_from(payload, at)[0], at + form.size
    real = _FLOATS.get(code)  # type: ignore[call-overload]
    if real is not None:
        return real.unpack_from(payload, at)[0], at + real.size
    if code == TypeCode.NULL:
        return None, at
    if code in _DATES or code == TypeCode.TIME:
        end = at + 1 + payload[at]
        if end > len(payload):
            raise ErrMalformedPacket()
        fields = payload[at + 1 : end]
        return (_time(fields) if code == TypeCode.TIME else _date(fields, code)), end
    size = payload[at]
    at += 1
    wide = LENGTH_BYTES.get(size)
    if wide is not None:
        size = int.from_bytes(payload[at : at + wide], "little")
        at += wide
    if at + size > len(payload):
        raise ErrMalformedPacket()
    return _string(code, payload[at : at + size], codec), at + size


def _string(code: int, data: bytes, codec: str) -> Value:
    if code in _BLOBS:
        return data
    if code in _DECIMALS:
        return Decimal(data.decode("ascii"))
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return data  # some drivers send bytes as a string: a text column refuses them (1366)


def _date(fields: bytes, code: int) -> Value:
    """A date or timestamp in the session's zone, from 0, 4, 7 or 11 bytes.

    A date that does not exist becomes MySQL's text of it, which columns refuse (1292)."""
    year, month, day = int.from_bytes(fields[:2], "little"), *(fields[2:4] or b"\0\0")
    hour, minute, second = fields[4:7] or b"\0\0\0"
    micro = int.from_bytes(fields[7:11], "little")
    text = f"{year:04d}-{month:02d}-{day:02d}"
    is_real = is_date(year, month, day, zero_allowed=True)
    if code == TypeCode.DATE:
        return TypedValue(pack_date(year, month, day), types.DATE) if is_real else text
    if is_real and hour < 24 and minute < 60 and second < 60 and micro < SECOND:
        packed = pack_datetime(pack_date(year, month, day), hour, minute, second, micro)
        return TypedValue(packed, types.datetime(6 if micro else 0))
    text += f" {hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{micro:06d}" if micro else text


def _time(fields: bytes) -> Value:
    """A time, from 0, 8 or 12 bytes. Out of TIME's range it becomes MySQL's text of it."""
    days = int.from_bytes(fields[1:5], "little")
    hour, minute, second = fields[5:8] or b"\0\0\0"
    micro = int.from_bytes(fields[8:12], "little")
    length = ((days * 24 + hour) * 3600 + minute * 60 + second) * SECOND + micro
    if minute < 60 and second < 60 and micro < SECOND and length <= MOST_TIME:
        is_negative = bool(fields) and bool(fields[0])
        return TypedValue(-length if is_negative else length, types.time(6 if micro else 0))
    text = f"{'-' if fields[0] else ''}{days * 24 + hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{micro:06d}" if micro else text
