"""Packets: their framing in the byte stream, and the payloads that are not rows.

(source: MySQL client/server protocol, "MySQL Packets")

    [u24 length, little-endian][u8 sequence][payload]
    a payload of 2**24 - 1 bytes or more continues in the next packet; sequences count in a command

    greeting --> login --> OK | error        handshake, see authentication.py
    OK           counts, status, warnings    EOF   the same without counts, between columns and rows
    error        code, SQLSTATE, text        column   name, origin, type, length, flags

Received packets are not trusted. The sequence and the length are checked once the four bytes are
there, so garbage costs no memory and ends the connection at once. Fields are read within the bounds
of the payload: a text without its end, or a length beyond the packet, is a malformed login.

`explain` maps every error to the one that a client gets:

    Refused        its own code, SQLSTATE and text
    SchemaChanged  8028, retryable          Conflict   1213 / 40001, retryable
    Deposed        8027: this node was fenced and is joining again
    Unavailable    8022 with the reason     Broken     1105, and the log
    OutOfSpace     1021 or 1114             StorageFailed  1026
    OutcomeUnknown 1180 with SQLSTATE 08007 (transaction resolution unknown): the one class 08 and
                   40 that clients' retry rules do not retry
    anything else  1105, and the log with its traceback: one statement must not end the others

The text of an error may quote rows and passwords. So the log has the places of the traceback and
the types of errors, but no texts. Each place is logged in full once, and later only counted.
"""

import logging
import secrets
from collections import Counter
from collections.abc import Iterator
from enum import IntFlag
from struct import Struct
from traceback import format_tb
from typing import NamedTuple

from exuvia.base.errors import (
    Broken,
    Conflict,
    Deposed,
    ExuviaError,
    OutcomeUnknown,
    OutOfSpace,
    Refused,
    SchemaChanged,
    StorageFailed,
    Unavailable,
)
from exuvia.base.mysql_errors import (
    ErrErrorDuringCommit,
    ErrErrorOnWrite,
    ErrHandshake,
    ErrInfoSchemaChanged,
    ErrInfoSchemaExpired,
    ErrInvalidCharacterString,
    ErrLockDeadlock,
    ErrMalformedPacket,
    ErrNetPacketTooLarge,
    ErrStackOverrunNeedMore,
    ErrTxnRetryable,
    ErrUnknown,
)
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog.convert.charset_codecs import CODECS
from exuvia.sql.parse.secrets import without_secrets
from exuvia.sql.privileges.accounts import Account
from exuvia.sql.privileges.passwords import NATIVE
from exuvia.sql.result import OutputColumn

_log = logging.getLogger(__name__)


class Capability(IntFlag):
    """The capabilities of client and server (source: MySQL protocol, "Capabilities Flags")."""

    LONG_PASSWORD = 1 << 0
    FOUND_ROWS = 1 << 1
    LONG_FLAG = 1 << 2
    CONNECT_WITH_DB = 1 << 3
    COMPRESS = 1 << 5
    LOCAL_FILES = 1 << 7
    IGNORE_SPACE = 1 << 8
    PROTOCOL_41 = 1 << 9
    INTERACTIVE = 1 << 10
    SSL = 1 << 11
    TRANSACTIONS = 1 << 13
    SECURE_CONNECTION = 1 << 15
    MULTI_STATEMENTS = 1 << 16
    MULTI_RESULTS = 1 << 17
    PS_MULTI_RESULTS = 1 << 18
    PLUGIN_AUTH = 1 << 19
    CONNECT_ATTRS = 1 << 20
    PLUGIN_AUTH_LENENC_CLIENT_DATA = 1 << 21
    HANDLES_EXPIRED_PASSWORDS = 1 << 22
    DEPRECATE_EOF = 1 << 24


# TLS is offered where there is a certificate
CAPABILITIES = sum(flag for flag in Capability if flag is not Capability.SSL)
COMPRESSES = int(Capability.COMPRESS)
SENDS_FILES = int(Capability.LOCAL_FILES)
FOUND_ROWS = int(Capability.FOUND_ROWS)
INTERACTIVE = int(Capability.INTERACTIVE)
HANDLES_EXPIRED = int(Capability.HANDLES_EXPIRED_PASSWORDS)
SEVERAL_STATEMENTS = int(Capability.MULTI_STATEMENTS)
ENDS_WITH_OK = int(Capability.DEPRECATE_EOF)

# status flags
IN_TRANSACTION = 0x0001
AUTOCOMMIT = 0x0002
MORE_RESULTS = 0x0008

UTF8MB4 = 45
BINARY = 63
# Python's codec of a character set, and the ids of its collations (source: MySQL manual, "Supported
# Character Sets and Collations"). All other ids are read as UTF-8. They include those of other
# servers (MariaDB's uca1400), binary, UTF-16 and UCS-2, which clients may not use.
_CODECS: dict[str, tuple[str, tuple[int, ...]]] = {
    "ascii": ("ascii", (11, 65)),
    "big5": ("big5", (1, 84)),
    "cp1250": (CODECS["cp1250"], (26, 34, 44, 66, 99)),
    "cp1251": (CODECS["cp1251"], (14, 23, 50, 51, 52)),
    "cp1256": (CODECS["cp1256"], (57, 67)),
    "cp1257": (CODECS["cp1257"], (29, 58, 59)),
    "cp850": (CODECS["cp850"], (4, 80)),
    "cp852": (CODECS["cp852"], (40, 81)),
    "cp866": (CODECS["cp866"], (36, 68)),
    "cp932": ("cp932", (95, 96)),
    "euckr": ("euc_kr", (19, 85)),
    "gb18030": ("gb18030", (248, 249, 250)),
    "gb2312": ("gb2312", (24, 86)),
    "gbk": ("gbk", (28, 87)),
    "greek": (CODECS["greek"], (25, 70)),
    "hebrew": (CODECS["hebrew"], (16, 71)),
    "koi8r": (CODECS["koi8r"], (7, 74)),
    "koi8u": (CODECS["koi8u"], (22, 75)),
    "latin1": ("latin1", (5, 8, 15, 31, 47, 48, 49, 94)),
    "latin2": (CODECS["latin2"], (2, 9, 21, 27, 77)),
    "latin5": (CODECS["latin5"], (30, 78)),
    "latin7": (CODECS["latin7"], (20, 41, 42, 79)),
    "macce": (CODECS["macce"], (38, 43)),
    "macroman": (CODECS["macroman"], (39, 53)),
    "sjis": ("shift_jis", (13, 88)),
    "tis620": ("tis-620", (18, 89)),
    "ujis": ("euc_jp", (12, 91)),
}
_CODEC_OF_COLLATION = {n: codec for codec, collations in _CODECS.values() for n in collations}
_UTF8 = "utf8"
_DEFAULT_COLLATION = 255  # in the greeting; clients send their own
_U16 = Struct("<H")
_STATUS = Struct("<HH")
_COLUMN = Struct("<BHIBHBH")
_GREETED = Struct("<HBHHB10x")
LENGTH_BYTES = {0xFC: 2, 0xFD: 3, 0xFE: 8}  # the first byte of a length: bytes that follow
_SENT_AS = {
    TypeCode.VARCHAR: TypeCode.VAR_STRING,
    TypeCode.TINY_BLOB: TypeCode.BLOB,
    TypeCode.MEDIUM_BLOB: TypeCode.BLOB,
    TypeCode.LONG_BLOB: TypeCode.BLOB,
    TypeCode.ENUM: TypeCode.STRING,
    TypeCode.SET: TypeCode.STRING,
}
_BLOBS = {TypeCode.BLOB, TypeCode.TINY_BLOB, TypeCode.MEDIUM_BLOB, TypeCode.LONG_BLOB}
_FLAGS_SENT = 0x7FFF
_ANY_SCALE = 31


class Login(NamedTuple):
    """The fields of a client's login packet. `codec` is Python's name of its character set."""

    user: str
    database: str
    codec: str
    capabilities: int
    proof: bytes = b""
    plugin: str = ""
    account: Account | None = None
    secure: bool = False  # the connection is encrypted
    attributes: tuple[tuple[str, str], ...] = ()  # connection attributes of the client's program
    must_change_password: bool = False  # before anything else


def length(size: int) -> bytes:
    if size < 251:
        return bytes((size,))
    if size < 1 << 16:
        return b"\xfc" + size.to_bytes(2, "little")
    if size < 1 << 24:
        return b"\xfd" + size.to_bytes(3, "little")
    return b"\xfe" + size.to_bytes(8, "little")


def text(value: bytes) -> bytes:
    return length(len(value)) + value


def new_nonce() -> bytes:
    """20 random bytes: the challenge of the authentication."""
    return bytes(secrets.choice(range(33, 127)) for _ in range(20))


def greeting(version: str, connection_id: int, nonce: bytes, tls: bool = False) -> bytes:
    """The first packet of a connection."""
    offered = CAPABILITIES | (Capability.SSL if tls else 0)
    low, high = offered & 0xFFFF, offered >> 16
    challenge = nonce + b"\0"
    return b"".join(
        (
            b"\x0a" + version.encode() + b"\0" + connection_id.to_bytes(4, "little"),
            challenge[:8] + b"\0",
            _GREETED.pack(low, _DEFAULT_COLLATION, AUTOCOMMIT, high, len(challenge)),
            challenge[8:],
            NATIVE.encode() + b"\0",
        )
    )


class _Fields:
    """Reads the fields of a payload in order. Raises ValueError beyond its end."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._payload)

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._payload):
            raise ValueError("a field ends beyond its packet")
        field, self._at = self._payload[self._at : end], end
        return field

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def sized(self) -> bytes:
        """The bytes of a length-encoded text, as `text` writes it."""
        size = self.number(1)
        return self.take(self.number(LENGTH_BYTES[size]) if size in LENGTH_BYTES else size)

    def ended(self) -> bytes:
        """The bytes up to the next NUL."""
        field = self.take(self._payload.index(0, self._at) - self._at)
        self._at += 1
        return field


def read_login(payload: bytes) -> Login:
    """Decode the client's answer to the greeting. Raises 1043 if it is malformed."""
    fields = _Fields(payload)
    try:
        capabilities = fields.number(4) & CAPABILITIES
        fields.take(4)  # the largest packet it takes
        codec = _CODEC_OF_COLLATION.get(fields.number(1), _UTF8)
        fields.take(23)
        user = fields.ended().decode(codec)
        if capabilities & Capability.PLUGIN_AUTH_LENENC_CLIENT_DATA:
            proof = fields.sized()
        else:
            proof = _proof(fields, capabilities)
        is_named = capabilities & Capability.CONNECT_WITH_DB
        database = fields.ended().decode(codec) if is_named else ""
        login = Login(user, database, codec, capabilities, proof)
        return _with_plugin(login, fields)
    except ValueError as error:
        raise ErrHandshake() from error


def read_change_user(payload: bytes, before: Login) -> Login:
    """Decode COM_CHANGE_USER. Raises 1835 if it is malformed."""
    fields = _Fields(payload)
    try:
        user = fields.ended().decode()
        proof = _proof(fields, before.capabilities)
        login = before._replace(
            user=user, database=fields.ended().decode(), proof=proof, account=None
        )
        if not fields.is_over:
            login = login._replace(codec=_CODEC_OF_COLLATION.get(fields.number(2), _UTF8))
        return _with_plugin(login, fields)
    except ValueError as error:
        raise ErrMalformedPacket() from error


def _proof(fields: _Fields, capabilities: int) -> bytes:
    if capabilities & Capability.SECURE_CONNECTION:
        return fields.take(fields.number(1))
    return fields.ended()


def _with_plugin(login: Login, fields: _Fields) -> Login:
    """The login with the optional fields at the end of both packets: the plugin and the
    attributes."""
    plugin, attributes = "", []
    if login.capabilities & Capability.PLUGIN_AUTH and not fields.is_over:
        plugin = fields.ended().decode(login.codec)
    if login.capabilities & Capability.CONNECT_ATTRS and not fields.is_over:
        pairs = _Fields(fields.sized())
        while not pairs.is_over:
            name = pairs.sized().decode(login.codec)
            attributes.append((name, pairs.sized().decode(login.codec)))
    return login._replace(plugin=plugin or NATIVE, attributes=tuple(attributes))


def codec_of(character_set: str) -> str:
    """Python's codec for a MySQL character set; UTF-8 for an unknown one and for binary."""
    return _CODECS.get(character_set.lower(), (_UTF8, ()))[0]


def ok(
    affected: int, last_insert_id: int, status: int, warnings: int, info: str = "", head: int = 0
) -> bytes:
    """An OK packet; with `head` 0xFE the end of rows if CLIENT_DEPRECATE_EOF was agreed."""
    counts = length(affected) + length(last_insert_id) + _STATUS.pack(status, min(warnings, 65535))
    return bytes((head,)) + counts + (text(info.encode("utf8", "replace")) if info else b"")


def eof(status: int, warnings: int) -> bytes:
    """An EOF packet, for clients without CLIENT_DEPRECATE_EOF."""
    return b"\xfe" + _U16.pack(min(warnings, 65535)) + _U16.pack(status)


def error(code: int, state: str, message: str) -> bytes:
    """An ERR packet. MySQL cuts its texts at 512 bytes; ours may be longer (a list of
    duplicates)."""
    return b"\xff" + _U16.pack(code) + b"#" + state.encode() + message.encode("utf8", "replace")


def explain(error: BaseException) -> Refused:
    """The error with MySQL's code that is sent to the client for any error."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, ExuviaError):
        match error:
            case SchemaChanged():
                return ErrInfoSchemaChanged()
            case Conflict():
                return ErrLockDeadlock()
            case Deposed():
                return ErrInfoSchemaExpired()
            case OutOfSpace():
                return Refused(error.code, "HY000", str(error))
            case StorageFailed():
                return ErrErrorOnWrite.with_text(str(error))
            case OutcomeUnknown():
                return ErrErrorDuringCommit.with_text(str(error))
            case Unavailable():
                return ErrTxnRetryable(f"{error}")
            case Broken():
                reason = without_secrets(str(error), MOST_SHOWN)
                _log.error("a promise of this program does not hold", extra={"reason": reason})
                _log_failure(error)
                return ErrUnknown(f"{error}")
            case _:
                return ErrUnknown(f"{error}")
    if isinstance(error, RecursionError):
        return ErrStackOverrunNeedMore()
    if isinstance(error, UnicodeEncodeError):
        return ErrInvalidCharacterString("utf8mb4", ascii(error.object[error.start : error.end]))
    if isinstance(error, MemoryError):
        return ErrUnknown("the statement needs more memory than there is")
    _log_failure(error)
    return ErrUnknown(f"internal error: {type(error).__name__}: {error}")


MOST_PLACES, MOST_SHOWN = 1000, 512
_failures = Counter[str]()  # by place


def _log_failure(error: BaseException) -> None:
    """Log an unexpected error: its traceback without texts once per place, then only a count."""
    chain = list[BaseException]()
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    kind = type(error).__name__
    place = "".join(format_tb(error.__traceback__)[-1:]).strip()
    counted = place if place in _failures or len(_failures) < MOST_PLACES else "elsewhere"
    _failures[counted] += 1
    about: dict[str, object] = {"error": kind, "so_far": _failures[counted], "place": place}
    if _failures[counted] == 1:
        parts = [
            f"{type(link).__name__}\n{''.join(format_tb(link.__traceback__))}" for link in chain
        ]
        about["traceback"] = "then\n".join(reversed(parts))
    _log.error("a statement failed inside", extra=about)


class Described(NamedTuple):
    """The description of a column's type for the client; `length` in bytes."""

    code: int
    length: int
    flags: int
    scale: int


def described(kind: FieldType) -> Described:
    """The description of a type, as sent in column definitions."""
    code = int(_SENT_AS.get(TypeCode(kind.Tp), kind.Tp))
    return Described(code, _length(kind), _flags(kind), _scale(kind))


def column(about: OutputColumn) -> bytes:
    """The packet with the definition of one column."""
    names = (about.database, about.table, about.origin_table, about.name, about.origin)
    kind = about.definition_type
    sent = int(_SENT_AS.get(TypeCode(kind.Tp), kind.Tp))
    fixed = _COLUMN.pack(12, _charset(kind), _length(kind), sent, _flags(kind), _scale(kind), 0)
    return text(b"def") + b"".join(text(name.encode("utf8", "replace")) for name in names) + fixed


def _charset(kind: FieldType) -> int:
    if kind.Tp in (TypeCode.JSON, TypeCode.ENUM, TypeCode.SET):
        return UTF8MB4
    return BINARY if kind.Charset == "binary" else UTF8MB4


def _length(kind: FieldType) -> int:
    """The maximum length in bytes. A DECIMAL's sign and point count, too."""
    wide = 4 if _charset(kind) == UTF8MB4 else 1
    if kind.Tp == TypeCode.NEWDECIMAL and kind.Flen >= 0:
        return kind.Flen + (kind.Decimal > 0) + (not kind.unsigned)
    if kind.Flen < 0:
        return _DISPLAY.get(kind.Tp, 255 * wide)
    return min(kind.Flen * wide, 0xFFFFFFFF)


_DISPLAY = {
    int(TypeCode.TINY): 4,
    int(TypeCode.SHORT): 6,
    int(TypeCode.INT24): 9,
    int(TypeCode.LONG): 11,
    int(TypeCode.LONGLONG): 20,
    int(TypeCode.YEAR): 4,
    int(TypeCode.FLOAT): 12,
    int(TypeCode.DOUBLE): 22,
    int(TypeCode.NEWDECIMAL): 11,
    int(TypeCode.DATE): 10,
    int(TypeCode.TIME): 10,
    int(TypeCode.DATETIME): 19,
    int(TypeCode.TIMESTAMP): 19,
    int(TypeCode.JSON): 0xFFFFFFFF,
    int(TypeCode.BLOB): 0xFFFF,
}


def _flags(kind: FieldType) -> int:
    flags = kind.Flag & _FLAGS_SENT
    if kind.Tp in _BLOBS or kind.Tp == TypeCode.JSON:
        flags |= Flag.BLOB
    if _charset(kind) == BINARY:
        flags |= Flag.BINARY
    if kind.Tp == TypeCode.ENUM:
        flags |= Flag.ENUM
    if kind.Tp == TypeCode.SET:
        flags |= Flag.SET
    return int(flags)


def _scale(kind: FieldType) -> int:
    if kind.Tp in (TypeCode.FLOAT, TypeCode.DOUBLE) and kind.Decimal < 0:
        return _ANY_SCALE
    return max(0, min(kind.Decimal, _ANY_SCALE))


# -- framing ---------------------------------------------------------------------------------------

CONTINUED = 0xFFFFFF
_HEADER = Struct("<I")


class Payload(NamedTuple):
    """A large payload in parts, as received. `command`: its first byte."""

    command: int
    parts: list[bytes]

    @property
    def size(self) -> int:
        """Bytes after the command."""
        return sum(map(len, self.parts))


LARGE_PAYLOAD = 1 << 16


class Incoming:
    """Splits received bytes into payloads. `most_bytes` limits one payload.

    Bytes are split only when a payload is taken. A payload of LARGE_PAYLOAD or more is not joined
    here."""

    __slots__ = (
        "_at", "_buffer", "_expected", "_goes_on", "_missing", "_parts", "_size", "follows",
        "most_bytes",
    )  # fmt: skip

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._buffer: bytes | bytearray = b""
        self._at = 0  # the bytes before it are processed
        self._parts: list[bytes] = []  # parts of the unfinished payload
        self._size = 0  # announced by its packets that have begun
        self._missing = 0  # bytes missing of its present packet
        self._goes_on = False  # whether a packet follows the present one
        self._expected: int | None = None
        self.follows = False

    def expect(self, sequence: int) -> None:
        """Require this sequence of the next packet (an answer in the handshake)."""
        self._expected = sequence

    def follow(self, sequence: int) -> None:
        """Require ascending sequences from this one on (a file), until `end`."""
        self._expected, self.follows = sequence, True

    def end(self) -> None:
        self._expected, self.follows = None, False

    @property
    def waiting(self) -> int:
        """Number of bytes received and not taken, including those of an unfinished payload."""
        return len(self._buffer) - self._at + self._size - self._missing

    def put(self, data: bytes) -> None:
        """Add received bytes. Raises 1153, 1835 for earlier bytes."""
        if self._buffer:
            self._gather()
        buffer = self._buffer
        if not buffer:
            self._buffer = data
            return
        if isinstance(buffer, bytearray):
            del buffer[: self._at]
            buffer += data
        else:
            self._buffer = bytearray(memoryview(buffer)[self._at :])
            self._buffer += data
        self._at = 0

    def take(self) -> tuple[int, bytes | Payload] | None:
        """The next complete payload and the sequence of its last packet, or None. Raises 1153,
        1835."""
        header = self._gather()
        if self._size:
            if self._missing or self._goes_on:
                return None
            sequence = (self._expected or 0) - 1 & 255
            self._expected = self._expected if self.follows else None
            return sequence, self._whole()
        if header is None:
            return None
        length, sequence = header
        start = self._at + 4
        if len(self._buffer) < start + length:
            return None
        self._expected = sequence + 1 & 255 if self.follows else None
        return sequence, self._cut(start, start + length)

    def _gather(self) -> tuple[int, int] | None:
        """Process the received bytes of a large payload. Returns length and sequence of the next
        packet if a small payload begins with it. Raises 1153, 1835."""
        while True:
            if self._missing:
                self._collect()
            if self._missing or (self._size and not self._goes_on):
                return None
            if self._at + 4 > len(self._buffer):
                return None
            header = _HEADER.unpack_from(self._buffer, self._at)[0]
            length, sequence = header & CONTINUED, header >> 24
            if sequence != (self._expected or 0):
                raise ErrMalformedPacket()
            if self._size + length > self.most_bytes:
                raise ErrNetPacketTooLarge()
            if length < LARGE_PAYLOAD and not self._size:
                return length, sequence
            self._begin(length, sequence)

    def _cut(self, start: int, end: int) -> bytes:
        """Remove these bytes from the buffer and return them. Bytes before them are processed."""
        buffer = self._buffer
        part = buffer[start:end] if type(buffer) is bytes else bytes(memoryview(buffer)[start:end])
        if end == len(buffer):
            self._buffer, self._at = b"", 0
        else:
            self._at = end
        return part

    def _begin(self, length: int, sequence: int) -> None:
        """Begin a packet of a large payload."""
        self._at += 4
        self._size += length
        self._missing, self._goes_on = length, length == CONTINUED
        self._expected = sequence + 1 & 255

    def _collect(self) -> None:
        """Collect the received bytes of the present packet."""
        start = self._at
        end = min(start + self._missing, len(self._buffer))
        if end > start:
            self._missing -= end - start
            self._parts.append(self._cut(start, end))
        elif start == len(self._buffer):
            self._buffer, self._at = b"", 0

    def _whole(self) -> bytes | Payload:
        parts, size = self._parts, self._size
        self._parts, self._size, self._goes_on = [], 0, False
        if size < LARGE_PAYLOAD or self.follows:
            return b"".join(parts)
        command, parts[0] = parts[0][0], parts[0][1:]
        return Payload(command, parts)


class Pieces:
    """A long payload that is produced in pieces during framing. `size` in bytes."""

    __slots__ = ("parts", "size")

    def __init__(self, size: int, parts: Iterator[bytes | memoryview]) -> None:
        self.size = size
        self.parts = parts

    def __len__(self) -> int:
        """The least length of a payload that is framed in pieces."""
        return CONTINUED


class Outgoing:
    """Collects the framed packets of an answer."""

    __slots__ = ("_buffer", "_missing", "_part", "_rest", "_room", "sequence")

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self._buffer = bytearray()
        self._rest: Iterator[bytes | memoryview] | None = None  # rest of an unfinished payload
        self._part = memoryview(b"")
        self._missing = 0  # bytes of the payload beyond the present packet
        self._room = 0  # ... and missing bytes of the present packet

    def add(self, payload: bytes) -> None:
        size = len(payload)
        if size < CONTINUED:
            self._buffer += _HEADER.pack(size | self.sequence << 24)
            self._buffer += payload
            self.sequence = self.sequence + 1 & 255
            return
        for start in range(0, size + 1, CONTINUED):
            part = payload[start : start + CONTINUED]
            self._buffer += _HEADER.pack(len(part) | self.sequence << 24)
            self._buffer += part
            self.sequence = self.sequence + 1 & 255

    def fill(self, payloads: Iterator[bytes | Pieces], most_bytes: int) -> bool:
        """Add payloads until there are `most_bytes`. Returns whether there are. One call for many
        rows."""
        if self._rest is not None and self._is_filled(most_bytes):
            return True
        buffer, sequence, pack = self._buffer, self.sequence, _HEADER.pack
        for payload in payloads:
            size = len(payload)
            if size < CONTINUED:
                buffer += pack(size | sequence << 24)
                buffer += payload  # type: ignore[arg-type]  # len(Pieces) is CONTINUED
                sequence = sequence + 1 & 255
            else:
                self.sequence = sequence
                if isinstance(payload, Pieces):
                    self._rest, self._missing = payload.parts, payload.size
                    self._begin_packet()
                    if self._is_filled(most_bytes):
                        return True
                else:
                    self.add(payload)
                sequence = self.sequence
            if len(buffer) >= most_bytes:
                self.sequence = sequence
                return True
        self.sequence = sequence
        return False

    def _begin_packet(self) -> None:
        """Write the header of the payload's next packet."""
        self._room = min(CONTINUED, self._missing)
        self._missing -= self._room
        if self._room < CONTINUED:
            self._missing = -1  # this is the last packet
        self._buffer += _HEADER.pack(self._room | self.sequence << 24)
        self.sequence = self.sequence + 1 & 255

    def _is_filled(self, most_bytes: int) -> bool:
        """Frame more of the unfinished payload. Returns False if it ends before `most_bytes`."""
        buffer, parts = self._buffer, self._rest
        assert parts is not None
        while True:
            while not self._room:
                if self._missing < 0:
                    self._rest = None
                    return False
                self._begin_packet()
            if len(buffer) >= most_bytes:
                return True
            if not self._part:
                self._part = memoryview(next(parts))
            size = min(self._room, most_bytes)
            buffer += self._part[:size]
            size = min(size, len(self._part))
            self._part, self._room = self._part[size:], self._room - size

    def add_framed(self, frames: bytes, sequence: int) -> None:
        """Add framed packets that start at `self.sequence`; `sequence` is the next one after
        them."""
        self._buffer += frames
        self.sequence = sequence

    def __len__(self) -> int:
        return len(self._buffer)

    def take(self) -> bytearray:
        """The bytes framed since the last call."""
        framed, self._buffer = self._buffer, bytearray()
        return framed
