"""The commit rule, shared by the engines that hold a write lock while they commit.

`settle` looks at what stands now and returns what shall stand, or raises; it changes nothing
itself."""

from collections.abc import Callable

from exuvia.base.errors import Conflict, Deposed, SchemaChanged
from exuvia.base.mysql import refuse
from exuvia.kv.entry import JUDGED, judge
from exuvia.kv.keys import LOCK_FLOOR, lock_mark, read_number
from exuvia.kv.packet import (
    LONGEST_KEY,
    SEQUENCE_BYTES,
    AtMost,
    Equal,
    Packet,
    Requirement,
    Standing,
    Unchanged,
    Unlocked,
    sequence_of,
)

Reader = Callable[[bytes], bytes | None]


def require_short(key: bytes) -> None:
    """Raises Refused 1071 for a key that is longer than the engines take."""
    if len(key) > LONGEST_KEY:
        raise refuse(1071, len(key), LONGEST_KEY)


def check(requirement: Requirement, read: Reader) -> None:
    """Raise what a broken requirement deserves. `read` gives raw values as they stand now."""
    if isinstance(requirement, Standing):
        _check_standing(requirement, read)
        return
    if isinstance(requirement, Unlocked):
        _check_unlocked(requirement, read)
        return
    raw = read(requirement.key)
    match requirement:
        case Unchanged(key, sequence, anomaly):
            if (0 if raw is None else sequence_of(raw)) != sequence:
                raise Conflict(anomaly, key)
        case Equal(key, payload):
            if raw is None or raw[SEQUENCE_BYTES:] != payload:
                raise Deposed(f"epoch at {key!r} is no longer ours")
        case AtMost(key, limit):
            if raw is None or read_number(raw[SEQUENCE_BYTES:]) > limit:
                raise SchemaChanged(key)


def _check_standing(requirement: Standing, read: Reader) -> None:
    stamps, at = requirement.stamps, 0
    for key in requirement.keys:
        raw, end = read(key), at + SEQUENCE_BYTES
        if raw is None or raw[:SEQUENCE_BYTES] != stamps[at:end]:
            raise Conflict(requirement.anomaly, key)
        at = end


def _check_unlocked(requirement: Unlocked, read: Reader) -> None:
    """Where nobody has left a mark in the table since, one look is all."""
    header = read(requirement.header)
    if header is None:
        return
    last = sequence_of(header)
    late = [group for group in requirement.groups if group.since < last]
    if not late:
        return
    raw = read(LOCK_FLOOR)
    floor = read_number(raw and raw[SEQUENCE_BYTES:])
    for since, modes, keys in late:
        for key in keys:
            if since < floor:
                raise Conflict("lock marks removed", key)
            for mode in modes:
                mark = read(lock_mark(mode, key))
                if mark is not None and sequence_of(mark) > since:
                    raise Conflict("locked meanwhile", key)


def settle(packet: Packet, read: Reader) -> dict[bytes, bytes | None]:
    """Payload (None = gone) per key after the packet, given what `read` finds now.

    A key whose judged write left another row's entry alone is not in it: what is not written
    keeps its sequence. Raises Conflict, SchemaChanged, Deposed, Duplicate, and Refused 1071 for a
    key that is too long."""
    for requirement in packet.requirements:
        check(requirement, read)
    after: dict[bytes, bytes | None] = {}
    for kind, key, payload in packet.writes:
        if kind not in JUDGED:
            require_short(key)
            after[key] = judge(kind, key, payload, None)
            continue
        if key in after:
            after[key] = judge(kind, key, payload, after[key])
            continue
        require_short(key)
        raw = read(key)
        held = None if raw is None else raw[SEQUENCE_BYTES:]
        left = judge(kind, key, payload, held)
        if left is not held:
            after[key] = left
    return after
