"""Payloads that a server writes and reads outside of rows (source: MySQL client/server protocol).

    greeting --> login --> OK | error        handshake, see authentication.py
    OK           counts, status, warnings    EOF   the same without counts, between columns and rows
    error        code, SQLSTATE, text        column   name, origin, type, length, flags

The greeting, the login and COM_CHANGE_USER are built and parsed by mysql-mimic, which knows their
many optional parts; what is sent per statement is ours (docs/decisions/004-wire.md).
"""

import secrets
import struct
from struct import Struct
from typing import NamedTuple

from mysql_mimic import packets as mimic
from mysql_mimic.charset import CharacterSet, Collation
from mysql_mimic.types import Capabilities, ServerStatus

from exuvia.base.mysql_errors import ErrHandshake, ErrMalformedPacket
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.sql.privileges.accounts import Account
from exuvia.sql.privileges.passwords import NATIVE
from exuvia.sql.result import OutputColumn

CAPABILITIES = (
    Capabilities.CLIENT_LONG_PASSWORD
    | Capabilities.CLIENT_FOUND_ROWS
    | Capabilities.CLIENT_LONG_FLAG
    | Capabilities.CLIENT_CONNECT_WITH_DB
    | Capabilities.CLIENT_COMPRESS
    | Capabilities.CLIENT_LOCAL_FILES
    | Capabilities.CLIENT_IGNORE_SPACE
    | Capabilities.CLIENT_PROTOCOL_41
    | Capabilities.CLIENT_INTERACTIVE
    | Capabilities.CLIENT_TRANSACTIONS
    | Capabilities.CLIENT_SECURE_CONNECTION
    | Capabilities.CLIENT_MULTI_STATEMENTS
    | Capabilities.CLIENT_MULTI_RESULTS
    | Capabilities.CLIENT_PS_MULTI_RESULTS
    | Capabilities.CLIENT_PLUGIN_AUTH
    | Capabilities.CLIENT_CONNECT_ATTRS
    | Capabilities.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capabilities.CLIENT_DEPRECATE_EOF
)
IN_TRANSACTION = int(ServerStatus.SERVER_STATUS_IN_TRANS)
AUTOCOMMIT = int(ServerStatus.SERVER_STATUS_AUTOCOMMIT)
COMPRESSES = int(Capabilities.CLIENT_COMPRESS)
SENDS_FILES = int(Capabilities.CLIENT_LOCAL_FILES)
FOUND_ROWS = int(Capabilities.CLIENT_FOUND_ROWS)
INTERACTIVE = int(Capabilities.CLIENT_INTERACTIVE)
SEVERAL_STATEMENTS = int(Capabilities.CLIENT_MULTI_STATEMENTS)
ENDS_WITH_OK = int(Capabilities.CLIENT_DEPRECATE_EOF)
MORE_RESULTS = int(ServerStatus.SERVER_MORE_RESULTS_EXISTS)

UTF8MB4 = 45
BINARY = 63
_COLLATION_AT = 8
_U16 = Struct("<H")
_STATUS = Struct("<HH")
_COLUMN = Struct("<BHIBHBH")
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
    """What a client says of itself. `codec` is Python's name of its character set."""

    user: str
    database: str
    codec: str
    capabilities: int
    proof: bytes = b""
    plugin: str = ""
    account: Account | None = None
    secure: bool = False  # the connection is encrypted
    attributes: tuple[tuple[str, str], ...] = ()  # what the client's program says of itself


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
    """20 bytes that a client proves its password with."""
    return bytes(secrets.choice(range(33, 127)) for _ in range(20))


def greeting(version: str, connection_id: int, nonce: bytes, tls: bool = False) -> bytes:
    """The first packet of a connection."""
    offered = Capabilities.CLIENT_SSL if tls else Capabilities(0)
    packet: bytes = mimic.make_handshake_v10(
        capabilities=CAPABILITIES | offered,
        server_charset=CharacterSet.utf8mb4,
        server_version=version,
        connection_id=connection_id,
        auth_data=nonce + b"\0",
        status_flags=ServerStatus.SERVER_STATUS_AUTOCOMMIT,
        auth_plugin_name=NATIVE,
    )
    return packet


def read_login(payload: bytes) -> Login:
    """The client's answer to the greeting. Raises 1043 for anything else."""
    try:
        login = mimic.parse_handshake_response(CAPABILITIES, _known_collation(payload))
    except (ValueError, LookupError, OverflowError, struct.error) as error:
        raise ErrHandshake() from error
    if isinstance(login, mimic.SSLRequest):
        raise ErrHandshake()
    codec = login.client_charset.codec
    capabilities = int(login.capabilities)
    proof, plugin = login.auth_response, login.client_plugin or NATIVE
    said = tuple((login.connect_attrs or {}).items())
    name, database = login.username, login.database or ""
    return Login(name, database, codec, capabilities, proof, plugin, attributes=said)


def _known_collation(payload: bytes) -> bytes:
    """Collations of other servers (MariaDB's uca1400) are taken for utf8mb4."""
    if len(payload) <= 32:
        raise ValueError("too short for a login")
    try:
        Collation(payload[_COLLATION_AT])
    except ValueError:
        return payload[:_COLLATION_AT] + bytes((UTF8MB4,)) + payload[_COLLATION_AT + 1 :]
    return payload


def read_change_user(payload: bytes, before: Login) -> Login:
    """COM_CHANGE_USER. Raises 1047 for a malformed one."""
    try:
        change = mimic.parse_com_change_user(
            Capabilities(before.capabilities), CharacterSet.utf8mb4, payload
        )
    except (ValueError, LookupError, OverflowError, struct.error) as error:
        raise ErrMalformedPacket() from error
    charset = change.client_charset
    codec = before.codec if charset is None else charset.codec
    return before._replace(
        user=change.username,
        database=change.database,
        codec=codec,
        proof=change.auth_response,
        plugin=change.client_plugin or NATIVE,
        account=None,
    )


def codec_of(character_set: str) -> str:
    """Python's codec for a MySQL character set; UTF-8 for one that is unknown or binary."""
    name = "utf8" if character_set.lower() in ("utf8mb3", "binary") else character_set.lower()
    return CharacterSet[name].codec if name in CharacterSet.__members__ else "utf8"


def ok(
    affected: int, last_insert_id: int, status: int, warnings: int, info: str = "", head: int = 0
) -> bytes:
    """OK; with `head` 0xFE it ends a result where CLIENT_DEPRECATE_EOF was agreed."""
    counts = length(affected) + length(last_insert_id) + _STATUS.pack(status, min(warnings, 65535))
    return bytes((head,)) + counts + (text(info.encode("utf8", "replace")) if info else b"")


def eof(status: int, warnings: int) -> bytes:
    """EOF, for clients that did not agree to do without."""
    return b"\xfe" + _U16.pack(min(warnings, 65535)) + _U16.pack(status)


def error(code: int, state: str, message: str) -> bytes:
    """ERR. MySQL cuts its texts at 512 bytes; ours may be longer (a list of duplicates)."""
    return b"\xff" + _U16.pack(code) + b"#" + state.encode() + message.encode("utf8", "replace")


def column(about: OutputColumn) -> bytes:
    """The definition of one column."""
    names = (about.database, about.table, about.origin_table, about.name, about.origin)
    kind = about.type
    sent = int(_SENT_AS.get(TypeCode(kind.Tp), kind.Tp))
    fixed = _COLUMN.pack(12, _charset(kind), _length(kind), sent, _flags(kind), _scale(kind), 0)
    return text(b"def") + b"".join(text(name.encode("utf8", "replace")) for name in names) + fixed


def _charset(kind: FieldType) -> int:
    if kind.Tp in (TypeCode.JSON, TypeCode.ENUM, TypeCode.SET):
        return UTF8MB4
    return BINARY if kind.Charset == "binary" else UTF8MB4


def _length(kind: FieldType) -> int:
    wide = 4 if _charset(kind) == UTF8MB4 else 1
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
