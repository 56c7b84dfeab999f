"""Results as packets: text rows, binary rows, and the packets around them.

    no columns     OK
    columns        [count][column definitions][EOF?][rows][EOF | OK]     EOF? only for old clients

    family                text protocol            binary protocol
    INT, UINT             decimal digits           as wide as the type: 1, 2, 4 or 8 bytes
    FLOAT                 shortest text            4 or 8 bytes
    DATE, DATETIME, TIME  MySQL's text             length, then fields; no zero parts at the end
    all others            MySQL's text             the same text, length-encoded

Chunks of about 64 KB are sent as they are ready, so a large result never exists twice in memory. A
row with a value of more than LARGE bytes is encoded CHUNK_BYTES at a time, never on the protocol
thread.

Most rows have no NULL. For these `_straight` compiles a function from the result's columns. It
encodes texts in place, and adjacent numbers in one `struct` call. All other rows are encoded cell
by cell (`_text_row`, `_binary_row`); these functions define the correct result.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from struct import Struct
from types import CodeType
from typing import Any, NamedTuple

from exuvia.base.errors import WouldWait
from exuvia.base.interruption import serves_clients
from exuvia.base.long_text import encoded_size
from exuvia.base.types import (
    INTEGER_BITS,
    STRINGS,
    Family,
    FieldType,
    Flag,
    TypeCode,
    Value,
    unpack_date,
    unpack_datetime,
)
from exuvia.catalog.convert import values
from exuvia.catalog.convert.values import unfilled
from exuvia.server import packets
from exuvia.server.packets import Outgoing, Pieces
from exuvia.sql.result import OutputColumn, PlanColumns, Result, Row, text_type

PARAMETER = OutputColumn("?", text_type(255))
CHUNK_BYTES = 1 << 16
LARGE = 1 << 20
Encoder = Callable[[Any], bytes]
RowEncoder = Callable[[Row], bytes]
_LENGTHS = [packets.length(size) for size in range(251)]
_FIXED = {8: Struct("<b"), 16: Struct("<h"), 24: Struct("<i"), 32: Struct("<i"), 64: Struct("<q")}
_FIXED_UNSIGNED = {
    8: Struct("<B"), 16: Struct("<H"), 24: Struct("<I"), 32: Struct("<I"), 64: Struct("<Q"),
}  # fmt: skip
_FLOAT = Struct("<f")
_DOUBLE = Struct("<d")
_DATE = Struct("<BHBB")
_SECONDS = Struct("<BHBBBBB")
_MICROS = Struct("<BHBBBBBI")
_TIME = Struct("<BBIBBB")
_TIME_MICROS = Struct("<BBIBBBI")


class Agreed(NamedTuple):
    """The settings that client and server agreed on. `codec`: for texts sent to the client."""

    ends_with_ok: bool
    codec: str


# -- text protocol ---------------------------------------------------------------------------------


def text_encoder(kind: FieldType, codec: str = "utf8") -> Encoder:
    """The function that encodes a value in the text protocol, without its length."""
    code = TypeCode(kind.Tp)
    if code in INTEGER_BITS and not kind.Flag & Flag.ZEROFILL:
        return b"%d".__mod__
    if code == TypeCode.NULL:
        return lambda value: str(value).encode()
    if code == TypeCode.BIT:
        width = max(1, (kind.Flen + 7) // 8)
        return lambda value: int(value).to_bytes(width, "big")
    if kind.family is Family.BYTES:
        return lambda value: value if type(value) is bytes else bytes(value)
    if kind.family is Family.STRING or kind.family is Family.JSON:
        return lambda value: value.encode(codec, "replace")
    return lambda value: values.to_text(value, kind).encode(codec, "replace")


def _text_row(row: Row, encoders: Sequence[Encoder]) -> bytes:
    parts = []
    for value, encode in zip(row, encoders, strict=True):
        if value is None:
            parts.append(b"\xfb")
            continue
        encoded = encode(value)
        size = len(encoded)
        parts.append(_LENGTHS[size] if size < 251 else packets.length(size))
        parts.append(encoded)
    return b"".join(parts)


# -- binary protocol -------------------------------------------------------------------------------


def binary_encoder(kind: FieldType, codec: str = "utf8") -> Encoder:
    """The function that encodes a value in the binary protocol, with its length."""
    code = TypeCode(kind.Tp)
    if code == TypeCode.YEAR:
        return _FIXED_UNSIGNED[16].pack
    if code in INTEGER_BITS:
        return (_FIXED_UNSIGNED if kind.unsigned else _FIXED)[INTEGER_BITS[code]].pack
    if code == TypeCode.FLOAT:
        return _FLOAT.pack
    if code == TypeCode.DOUBLE:
        return _DOUBLE.pack
    if code == TypeCode.DATE:
        return _binary_date
    if code in (TypeCode.DATETIME, TypeCode.TIMESTAMP):
        return _binary_datetime
    if code == TypeCode.TIME:
        return _binary_time
    if code in STRINGS and kind.family is Family.STRING:
        return partial(_binary_string, codec)
    encode = text_encoder(kind, codec)
    return lambda value: packets.text(encode(value))


def _binary_string(codec: str, value: str) -> bytes:
    """Same result as packets.text, without its two calls, because most cells are such strings."""
    encoded = value.encode(codec, "replace")
    size = len(encoded)
    return _LENGTHS[size] + encoded if size < 251 else packets.text(encoded)


def _binary_date(packed: int) -> bytes:
    return _DATE.pack(4, *unpack_date(packed)) if packed else b"\0"


def _binary_datetime(packed: int) -> bytes:
    date, hour, minute, second, micro = unpack_datetime(packed)
    parts = unpack_date(date)
    if micro:
        return _MICROS.pack(11, *parts, hour, minute, second, micro)
    if hour or minute or second:
        return _SECONDS.pack(7, *parts, hour, minute, second)
    return _DATE.pack(4, *parts) if date else b"\0"


def _binary_time(microseconds: int) -> bytes:
    if not microseconds:
        return b"\0"
    seconds, micro = divmod(abs(microseconds), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    parts = (int(microseconds < 0), days, hour, minute, second)
    return _TIME_MICROS.pack(12, *parts, micro) if micro else _TIME.pack(8, *parts)


def _binary_row(row: Row, encoders: Sequence[Encoder]) -> bytes:
    if None not in row:
        cells = [encode(value) for value, encode in zip(row, encoders, strict=True)]
        return bytes(1 + (len(encoders) + 9) // 8) + b"".join(cells)
    nulls = bytearray((len(encoders) + 9) // 8)
    parts = [b"\0", b""]
    for position, (value, encode) in enumerate(zip(row, encoders, strict=True), 2):
        if value is None:
            nulls[position >> 3] |= 1 << (position & 7)
        else:
            parts.append(encode(value))
    parts[1] = bytes(nulls)
    return b"".join(parts)


# -- rows without a NULL ---------------------------------------------------------------------------

MOST_STRAIGHT, MANY_ROWS = 64, 32
"""The most columns and the fewest rows for which a compiled function is worth its cost."""


def row_encoder(
    columns: Sequence[OutputColumn], codec: str, binary: bool, many: bool = True
) -> RowEncoder:
    """The function that encodes a row of these columns. `many`: compiling one is worth its cost."""
    kinds = [shown_type(column) for column in columns]
    make = binary_encoder if binary else text_encoder
    encoders = [make(kind, codec) for kind in kinds]
    other = partial(_binary_row if binary else _text_row, encoders=encoders)
    if not many or not 0 < len(columns) <= MOST_STRAIGHT:
        return other
    return _straight(kinds, encoders, codec, binary, other)


def _straight(
    kinds: Sequence[FieldType],
    encoders: Sequence[Encoder],
    codec: str,
    binary: bool,
    other: RowEncoder,
) -> RowEncoder:
    """Compile the encoder of rows without NULL. `other` encodes all other rows."""
    namespace: dict[str, Any] = {"other": other, "lengths": _LENGTHS, "sized": packets.text}
    cells: list[str] = []
    texts: list[str] = []
    form, numbers = "", list[str]()

    def end_numbers() -> None:
        nonlocal form, numbers
        if numbers:
            namespace[f"p{len(cells)}"] = Struct(f"<{form}").pack
            cells.append(f"p{len(cells)}({', '.join(numbers)})")
            form, numbers = "", []

    for n, (kind, encode) in enumerate(zip(kinds, encoders, strict=True)):
        pack = getattr(encode, "__self__", None)
        if binary and isinstance(pack, Struct):
            form, numbers = form + pack.format[1:], [*numbers, f"v{n}"]
            continue
        end_numbers()
        if TypeCode(kind.Tp) in STRINGS and kind.family is Family.STRING and codec == "utf8":
            texts.append(f"  v{n} = v{n}.encode()")
        elif binary:
            namespace[f"e{n}"] = encode
            cells.append(f"e{n}(v{n})")
            continue
        else:
            namespace[f"e{n}"] = encode
            texts.append(f"  v{n} = e{n}(v{n})")
        cells.append(f"(lengths[len(v{n})] + v{n} if len(v{n}) < 251 else sized(v{n}))")
    end_numbers()
    namespace["head"] = bytes(1 + (len(kinds) + 9) // 8)
    if binary:
        cells.insert(0, "head")
    joined = " + ".join(cells) if len(cells) <= FEW_CELLS else f"b''.join(({', '.join(cells)}))"
    lines = ["def encode(row):", " if None in row: return other(row)"]
    lines.append(f" {', '.join(f'v{n}' for n in range(len(kinds)))}, = row")
    if texts:  # a lone surrogate has no UTF-8: `other` replaces it
        lines += [" try:", *texts, " except UnicodeEncodeError: return other(row)"]
    exec(_code("\n".join([*lines, f" return {joined}"])), namespace)  # noqa: S102 - see _code
    encode_row: RowEncoder = namespace["encode"]
    return encode_row


FEW_CELLS = 3  # up to this number of cells a sum is faster than a join


@lru_cache(512)
def _code(source: str) -> CodeType:
    """Compile the source; results of one form share it. The source contains no user input."""
    return compile(source, "<answer>", "exec")


# -- whole answers ---------------------------------------------------------------------------------


def answer(
    result: Result, outgoing: Outgoing, agreed: Agreed, status: int, binary: bool = False
) -> Iterator[bytearray]:
    """The packets of a result, in chunks; `outgoing` continues the sequence."""
    warnings = result.warning_count
    if not result.columns:
        outgoing.add(packets.ok(result.affected, result.shown_id, status, warnings, result.info))
        return iter((outgoing.take(),))
    columns = result.columns
    what = outgoing.sequence, status, agreed
    if isinstance(columns, PlanColumns):
        beginning = columns.kept.get(what)
        if beginning is None:
            beginning = columns.kept[what] = _beginning(columns, *what)
    else:
        beginning = _beginning(columns, *what)
    outgoing.add_framed(*beginning)
    payloads = _payloads(result, agreed.codec, binary)
    if outgoing.fill(payloads, CHUNK_BYTES):
        if serves_clients() and _is_large(result.rows):
            raise WouldWait
        return _chunks(payloads, outgoing, agreed, status, warnings)
    end(outgoing, agreed, status, warnings)
    return iter((outgoing.take(),))


def _beginning(
    columns: Sequence[OutputColumn], sequence: int, status: int, agreed: Agreed
) -> tuple[bytes, int]:
    """The framed packets before the rows, and the sequence after them."""
    framed = Outgoing(sequence)
    definitions(columns, framed)
    if not agreed.ends_with_ok:
        framed.add(packets.eof(status, 0))
    return bytes(framed.take()), framed.sequence


def _is_large(rows: Sequence[Row]) -> bool:
    """Whether the texts of the rows have more than LARGE bytes together."""
    texts = [len(value) for row in rows for value in row if isinstance(value, str | bytes)]
    return sum(texts) > LARGE


Payload = bytes | Pieces


def _payloads(result: Result, codec: str, binary: bool) -> Iterator[Payload]:
    """The rows' packets. The encoder is cached with a plan's columns."""
    columns, rows = result.columns, result.rows
    if isinstance(columns, PlanColumns):
        encode = columns.kept.get((codec, binary))
        if encode is None:
            encode = columns.kept[codec, binary] = payload_encoder(columns, codec, binary)
        return map(encode, rows)
    return map(payload_encoder(columns, codec, binary, len(rows) >= MANY_ROWS), rows)


def payload_encoder(
    columns: Sequence[OutputColumn], codec: str, binary: bool, many: bool = True
) -> Callable[[Row], Payload]:
    """Like `row_encoder`, but a row with a large value is encoded in pieces."""
    encode = row_encoder(columns, codec, binary, many)
    kinds = [shown_type(column) for column in columns]
    longs = [n for n, kind in enumerate(kinds) if _is_text(kind) and _is_wide(kind)]
    if not longs:
        return encode

    def run(row: Row) -> Payload:
        for n in longs:
            value = row[n]
            if value is not None and len(value) > LARGE:
                return Pieces(*_pieces(row, kinds, codec, binary))
        return encode(row)

    return run


_WIDE = 255  # characters: the width of results of unknown width


def _is_text(kind: FieldType) -> bool:
    """Whether its values are texts, bytes or documents. The type of a bare NULL has no family."""
    return kind.Tp in STRINGS or kind.Tp == TypeCode.JSON


def _is_wide(kind: FieldType) -> bool:
    return not 0 <= kind.Flen <= _WIDE


def _pieces(
    row: Row, kinds: Sequence[FieldType], codec: str, binary: bool
) -> tuple[int, Iterator[bytes | memoryview]]:
    """The size of a row's packet, and the packet in pieces."""
    parts: list[tuple[bytes, Value]] = []  # bytes, and a long value after them
    size = 0
    if binary:
        nulls = bytearray((len(kinds) + 9) // 8)
        for position, value in enumerate(row, 2):
            nulls[position >> 3] |= (value is None) << (position & 7)
        parts.append((b"\0" + nulls, None))
    for value, kind in zip(row, kinds, strict=True):
        if value is None:
            parts.append((b"" if binary else b"\xfb", None))
        elif binary and not _is_text(kind):
            parts.append((binary_encoder(kind, codec)(value), None))
        elif isinstance(value, str | bytes) and len(value) > CHUNK_BYTES:
            is_text = isinstance(value, str)
            length = encoded_size(str(value), codec, "replace") if is_text else len(value)
            parts.append((packets.length(length), value))
            size += length
        else:
            parts.append((packets.text(text_encoder(kind, codec)(value)), None))
    return size + sum([len(head) for head, _ in parts]), _encoded_parts(parts, codec)


def _encoded_parts(parts: list[tuple[bytes, Value]], codec: str) -> Iterator[bytes | memoryview]:
    for head, value in parts:
        yield head
        if isinstance(value, bytes):
            yield memoryview(value)
        elif value is not None:
            for start in range(0, len(value), CHUNK_BYTES):
                yield value[start : start + CHUNK_BYTES].encode(codec, "replace")


def _chunks(
    payloads: Iterator[Payload], outgoing: Outgoing, agreed: Agreed, status: int, warnings: int
) -> Iterator[bytearray]:
    """The filled chunk, and the rest of a result that needs several chunks."""
    yield outgoing.take()
    while outgoing.fill(payloads, CHUNK_BYTES):
        yield outgoing.take()
    end(outgoing, agreed, status, warnings)
    yield outgoing.take()


def definitions(columns: Sequence[OutputColumn], outgoing: Outgoing) -> None:
    """Add the count of columns and their definitions."""
    outgoing.add(packets.length(len(columns)))
    for column in columns:
        outgoing.add(packets.column(column))


def end(outgoing: Outgoing, agreed: Agreed, status: int, warnings: int = 0) -> None:
    """Add the packet that ends rows or definitions, as agreed."""
    if agreed.ends_with_ok:
        outgoing.add(packets.ok(0, 0, status, warnings, head=0xFE))
    else:
        outgoing.add(packets.eof(status, warnings))


def shown_type(column: OutputColumn) -> FieldType:
    """The type that is sent. As in TiDB, a stored FLOAT(m, d) has no trailing zeros, a computed one
    has."""
    return unfilled(column.type) if column.origin else column.type


def rows(result: Result, outgoing: Outgoing, codec: str, binary: bool) -> Iterator[bytearray]:
    """The rows' packets without definitions and end; yields full chunks only."""
    payloads = _payloads(result, codec, binary)
    while outgoing.fill(payloads, CHUNK_BYTES):
        yield outgoing.take()
