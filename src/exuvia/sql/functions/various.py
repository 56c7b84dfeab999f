"""Addresses, UUIDs, flags, compression, functions of TiDB (manual, "Miscellaneous Functions").

BENCHMARK does not repeat the expression, since its time here is not that of MySQL.

UUIDs and their parts (manual, "Miscellaneous Functions"; RFC 9562).
"""

import hashlib
import ipaddress
import itertools
import time
import uuid
import zlib
from collections.abc import Callable
from decimal import Decimal

from exuvia.base.interruption import PIECE, check, in_pieces
from exuvia.base.long_text import joined, mapped
from exuvia.base.mysql_errors import ErrDataOutOfRange, ErrWrongValueForType
from exuvia.base.types import Value, pack_date, pack_datetime
from exuvia.catalog.decimals import whole
from exuvia.sql import types
from exuvia.sql.functions.table import Function, TypeRule, always

_UUID = always(types.text(36))
_GREGORIAN = 0x01B21DD213814000  # 100 ns from 1582-10-15 to 1970-01-01
_shorts = itertools.count(uuid.uuid4().int >> 96 << 24)


def read_uuid(text: str) -> uuid.UUID | None:
    """A UUID in any of its three forms; None for other texts."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _parsed_uuid(text: str, function: str) -> uuid.UUID:
    parsed = read_uuid(text)
    if parsed is None:
        raise ErrWrongValueForType("string", text, function)
    return parsed


def _version(text: str) -> int | None:
    return _parsed_uuid(text, "uuid_version").version or 0


def _uuid_moment(text: str) -> Decimal | None:
    """The time in a UUID of version 1, 6 or 7, in seconds since 1970."""
    parsed = _parsed_uuid(text, "uuid_timestamp")
    number = parsed.int
    version = number >> 76 & 15
    if version == 7:
        return Decimal(number >> 80).scaleb(-3)
    if version == 1:
        ticks = parsed.time
    elif version == 6:
        ticks = number >> 80 << 12 | number >> 64 & 0xFFF
    else:
        return None
    return Decimal((ticks - _GREGORIAN) // 10).scaleb(-6)


def _seventh() -> str:
    """A UUID of version 7: milliseconds, then random bits."""
    milli = time.time_ns() // 1_000_000
    free = uuid.uuid4().int & ((1 << 80) - 1)
    number = milli << 80 | free
    number = number & ~(0xF << 76) | 7 << 76
    return str(uuid.UUID(int=number & ~(3 << 62) | 2 << 62))


def _fresh(type_rule: TypeRule, run: Callable[..., Value]) -> Function:
    return Function(0, 0, "", type_rule, run, volatile=True)


UUIDS = {
    "uuid_short": _fresh(always(types.UNSIGNED), lambda: next(_shorts)),
    "uuid_timestamp": Function(1, 1, "s", always(types.decimal(18, 6)), _uuid_moment),
    "uuid_v4": _fresh(_UUID, lambda: str(uuid.uuid4())),
    "uuid_v7": _fresh(_UUID, _seventh),
    "uuid_version": Function(1, 1, "s", always(types.integer(10)), _version),
}


# -- various ---------------------------------------------------------------------------------------

_FLAG = always(types.BOOLEAN)
_BIG = always(types.BIGINT)
_TEXT = always(types.text(255))
_BLOB = always(types.blob(65535))
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _aton(text: str) -> int | None:
    """INET_ATON: a.b.c.d, and the shorter forms a, a.d, a.b.d."""
    parts = text.split(".")
    if not 1 <= len(parts) <= 4 or not all(p.isdigit() and whole(p) < 256 for p in parts):
        return None
    numbers = [int(part) for part in parts]
    numbers[-1:-1] = [0] * (4 - len(numbers))
    return int.from_bytes(bytes(numbers), "big")


def _ntoa(value: int) -> str | None:
    return str(ipaddress.IPv4Address(value)) if 0 <= value < 1 << 32 else None


def _aton6(text: str) -> bytes | None:
    address = _address(text)
    return None if address is None else address.packed


def _ntoa6(raw: bytes) -> str | None:
    if len(raw) not in (4, 16):
        return None
    address = ipaddress.ip_address(raw)
    mapped = getattr(address, "ipv4_mapped", None)
    return f"::ffff:{mapped}" if mapped else str(address)


def _is_version(version: int) -> Callable[[str], int]:
    def judge(text: str | None) -> int:
        address = None if text is None else _address(text)
        return int(address is not None and address.version == version)

    return judge


def _is_mapped(raw: bytes) -> int:
    return int(len(raw) == 16 and raw[:12] == bytes(10) + b"\xff\xff")


def _is_compatible(raw: bytes) -> int:
    return int(len(raw) == 16 and raw[:12] == bytes(12) and int.from_bytes(raw[12:], "big") > 1)


def _to_binary(text: str, swap: int = 0) -> bytes | None:
    parsed = read_uuid(text)
    if parsed is None:
        return None
    raw = parsed.bytes
    return raw[6:8] + raw[4:6] + raw[:4] + raw[8:] if swap else raw


def _from_binary(raw: bytes, swap: int = 0) -> str | None:
    if len(raw) != 16:
        return None
    return str(uuid.UUID(bytes=raw[4:8] + raw[2:4] + raw[:2] + raw[8:] if swap else raw))


def _make_set(bits: int | None, *parts: str | None) -> str | None:
    if bits is None:
        return None
    return joined(",", [p for n, p in enumerate(parts) if p is not None and bits >> n & 1])


def _export_set(bits: int, on: str, off: str, joint: str = ",", count: int = 64) -> str:
    size = count if 0 <= count <= 64 else 64
    return joined(joint, [on if bits >> n & 1 else off for n in range(size)])


def _compress(raw: bytes) -> bytes:
    if not raw:
        return b""
    deflate = zlib.compressobj()
    pieces = in_pieces(raw, deflate.compress)
    return joined(b"", [len(raw).to_bytes(4, "little"), *pieces, deflate.flush()])


def _uncompress(raw: bytes) -> bytes | None:
    if not raw:
        return b""
    size = int.from_bytes(raw[:4], "little")
    inflate, pieces, total, rest = zlib.decompressobj(), list[bytes](), 0, memoryview(raw)[4:]
    try:
        while rest and total <= size and not inflate.eof:
            check()
            pieces.append(inflate.decompress(inflate.unconsumed_tail + rest[:PIECE], PIECE))
            rest, total = rest[PIECE:], total + len(pieces[-1])
            while inflate.unconsumed_tail and total <= size:
                check()
                pieces.append(inflate.decompress(inflate.unconsumed_tail, PIECE))
                total += len(pieces[-1])
    except zlib.error:
        return None
    return joined(b"", pieces) if total == size else None


def _bytes_text(value: float) -> str:
    """FORMAT_BYTES."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    step = 0
    while abs(value) >= 1024 and step < len(units) - 1:
        value, step = value / 1024, step + 1
    return f"{int(value)} {units[0]}" if not step else f"{value:.2f} {units[step]}"


def _password(raw: bytes) -> str:
    if not raw:
        return ""
    return "*" + hashlib.sha1(hashlib.sha1(raw).digest()).hexdigest().upper()


def _translate(text: str, signs: str, instead: str) -> str:
    table: dict[int, str | None] = {}
    for n, sign in enumerate(signs):
        table.setdefault(ord(sign), instead[n] if n < len(instead) else None)
    return mapped(text, lambda piece: piece.translate(table))


def _moment(stamp: int) -> int | None:
    """TIDB_PARSE_TSO: the wall time of a timestamp in UTC, packed."""
    if stamp <= 0:
        return None
    seconds, milli = divmod(stamp >> 18, 1000)
    days, second = divmod(seconds, 86400)
    from datetime import date, timedelta

    calendar_day = date(1970, 1, 1) + timedelta(days=days)
    at = calendar_day.year, calendar_day.month, calendar_day.day
    return pack_datetime(
        pack_date(*at), second // 3600, second // 60 % 60, second % 60, milli * 1000
    )


_NANO_UNITS = ((86_400e9, "d"), (3_600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "us"))


def _nano_text(value: float) -> str:
    """FORMAT_NANO_TIME."""
    for size, unit in _NANO_UNITS:
        if abs(value) >= size:
            return (
                f"{value / size:.2f} {unit}"
                if abs(value / size) < 1e5
                else f"{value / size:.2e} {unit}"
            )
    return f"{value:.0f} ns"


def _random_bytes(count: int) -> bytes:
    """RANDOM_BYTES: hashes of uuid4, the process's source of randomness."""
    if not 1 <= count <= 1024:
        raise ErrDataOutOfRange("length", "random_bytes")
    pieces = [hashlib.sha256(uuid.uuid4().bytes).digest() for _ in range(count // 32 + 1)]
    return b"".join(pieces)[:count]


def _sm3(raw: bytes) -> str | None:
    try:
        return hashlib.new("sm3", raw).hexdigest()
    except ValueError:  # OpenSSL was built without it
        return None


FUNCTIONS = {
    "benchmark": Function(2, 2, "ix", _BIG, lambda count, value: 0, nulls=True),
    "bin_to_uuid": Function(1, 2, "bi", always(types.text(36)), _from_binary),
    "compress": Function(1, 1, "b", _BLOB, _compress),
    "export_set": Function(3, 5, "isssi", always(types.text(65535)), _export_set),
    "format_bytes": Function(1, 1, "f", _TEXT, _bytes_text),
    "format_nano_time": Function(1, 1, "f", _TEXT, _nano_text),
    "inet6_aton": Function(1, 1, "s", always(types.blob(16)), _aton6),
    "inet6_ntoa": Function(1, 1, "b", always(types.text(39)), _ntoa6),
    "inet_aton": Function(1, 1, "s", always(types.UNSIGNED), _aton),
    "inet_ntoa": Function(1, 1, "i", always(types.text(15)), _ntoa),
    "is_ipv4": Function(1, 1, "s", _FLAG, _is_version(4), nulls=True),
    "is_ipv4_compat": Function(1, 1, "b", _FLAG, _is_compatible),
    "is_ipv4_mapped": Function(1, 1, "b", _FLAG, _is_mapped),
    "is_ipv6": Function(1, 1, "s", _FLAG, _is_version(6), nulls=True),
    "is_uuid": Function(1, 1, "s", _FLAG, lambda text: int(read_uuid(text) is not None)),
    "make_set": Function(2, -1, "is", always(types.text(65535)), _make_set, nulls=True),
    "password": Function(1, 1, "b", always(types.text(41)), _password),
    "load_file": Function(1, 1, "s", _BLOB, lambda name: None),
    "random_bytes": Function(1, 1, "i", _BLOB, _random_bytes, volatile=True),
    "sm3": Function(1, 1, "b", always(types.text(64)), _sm3),
    "tidb_is_ddl_owner": Function(0, 0, "", _FLAG, lambda: 1, volatile=True),
    "tidb_version": Function(0, 0, "", _TEXT, lambda env: str(env.variable("version")), env=True),
    "tidb_parse_tso": Function(1, 1, "i", always(types.datetime(6)), _moment),
    "tidb_parse_tso_logical": Function(1, 1, "i", _BIG, lambda stamp: stamp & (1 << 18) - 1),
    "translate": Function(3, 3, "s", always(types.text(65535)), _translate),
    "uncompress": Function(1, 1, "b", _BLOB, _uncompress),
    "uncompressed_length": Function(1, 1, "b", _BIG, lambda raw: int.from_bytes(raw[:4], "little")),
    "uuid_to_bin": Function(1, 2, "si", always(types.blob(16)), _to_binary),
}
