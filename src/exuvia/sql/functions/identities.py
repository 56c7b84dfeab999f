"""UUIDs and what is read from them (manual, "Miscellaneous Functions"; RFC 9562)."""

import itertools
import time
import uuid
from decimal import Decimal
from typing import Any

from exuvia.base.mysql_errors import ErrWrongValueForType
from exuvia.sql import types
from exuvia.sql.functions.table import Function, always

_TEXT = always(types.text(36))
_GREGORIAN = 0x01B21DD213814000  # 100 ns from 1582-10-15 to 1970-01-01
_shorts = itertools.count(uuid.uuid4().int >> 96 << 24)


def read_uuid(text: str) -> uuid.UUID | None:
    """A UUID in any of its three forms."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _known(text: str, function: str) -> uuid.UUID:
    found = read_uuid(text)
    if found is None:
        raise ErrWrongValueForType("string", text, function)
    return found


def _version(text: str) -> int | None:
    return _known(text, "uuid_version").version or 0


def _moment(text: str) -> Decimal | None:
    """Seconds since 1970 that a UUID of version 1, 6 or 7 carries."""
    found = _known(text, "uuid_timestamp")
    number = found.int
    version = number >> 76 & 15
    if version == 7:
        return Decimal(number >> 80).scaleb(-3)
    if version == 1:
        ticks = found.time
    elif version == 6:
        ticks = number >> 80 << 12 | number >> 64 & 0xFFF
    else:
        return None
    return Decimal((ticks - _GREGORIAN) // 10).scaleb(-6)


def _seventh() -> str:
    """Version 7: milliseconds first, the rest random."""
    milli = time.time_ns() // 1_000_000
    free = uuid.uuid4().int & ((1 << 80) - 1)
    number = milli << 80 | free
    number = number & ~(0xF << 76) | 7 << 76
    return str(uuid.UUID(int=number & ~(3 << 62) | 2 << 62))


def _fresh(type_rule: Any, run: Any) -> Function:
    return Function(0, 0, "", type_rule, run, volatile=True)


FUNCTIONS = {
    "uuid_short": _fresh(always(types.UNSIGNED), lambda: next(_shorts)),
    "uuid_timestamp": Function(1, 1, "s", always(types.decimal(18, 6)), _moment),
    "uuid_v4": _fresh(_TEXT, lambda: str(uuid.uuid4())),
    "uuid_v7": _fresh(_TEXT, _seventh),
    "uuid_version": Function(1, 1, "s", always(types.integer(10)), _version),
}
