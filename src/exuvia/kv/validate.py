"""The commit rule, shared by the engines that hold a write lock while they commit.

    settle     a small packet, completely under the lock, key by key

    arrange    a large packet, before the lock: merge, sort, check lengths; does not read the store
    validate   under the lock: checks the packet's requirements
    outcomes   under the lock: the effects of its judged writes

None of them changes the store, so a refused packet has written nothing. Both ways have the same
effect (tests/kv/test_validate.py); for a few keys sorting costs more than it saves. A large packet
is processed in strides, in key order. Engines read runs of neighbouring keys far faster than
scattered ones, and can report progress between strides.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple, cast

from exuvia.base.errors import Conflict, Deposed, SchemaChanged
from exuvia.base.mysql_errors import ErrTooLongKey
from exuvia.kv.keys import LOCK_FLOOR, lock_mark, read_number
from exuvia.kv.packet import (
    JUDGED,
    LONGEST_KEY,
    STAMP_BYTES,
    AllAbsent,
    AtMost,
    Equal,
    Packet,
    Requirement,
    Standing,
    Unchanged,
    Unlocked,
    Write,
    WriteKind,
    judge,
    stamp_of,
)

Reader = Callable[[bytes], bytes | None]
ManyReader = Callable[[Sequence[bytes]], dict[bytes, bytes]]
STRIDE = 1_000
"""Keys read, or written, in one call."""
FEW = 16
"""Up to this number, a read for each key is faster than one for all."""
SORTED_AT_ONCE = 50_000
"""Keys; takes 30 ms."""


def require_short(key: bytes) -> None:
    """Raises Refused 1071 for a key that is longer than engines allow."""
    if len(key) > LONGEST_KEY:
        raise ErrTooLongKey(len(key), LONGEST_KEY)


def check(requirement: Requirement, read: Reader, many: ManyReader | None = None) -> None:
    """Raise the error of a broken requirement.

    `read` returns the present raw value of a key, `many` those of many keys."""
    if isinstance(requirement, Equal):
        raw = read(requirement.key)
        if raw is None or raw[STAMP_BYTES:] != requirement.payload:
            raise Deposed(f"epoch at {requirement.key!r} is no longer ours")
    elif isinstance(requirement, AtMost):
        raw = read(requirement.key)
        if raw is None or read_number(raw[STAMP_BYTES:]) > requirement.limit:
            raise SchemaChanged(requirement.key)
    elif isinstance(requirement, Unlocked):
        _check_unlocked(requirement, read, many or partial(_one_by_one, read))
    elif isinstance(requirement, Standing):
        _check_standing(requirement, many or partial(_one_by_one, read))
    elif isinstance(requirement, AllAbsent):
        _check_absent(requirement, many or partial(_one_by_one, read))
    else:
        raw = read(requirement.key)
        if (0 if raw is None else stamp_of(raw)) != requirement.stamp:
            raise Conflict(requirement.anomaly, requirement.key)


def is_current(requirement: Requirement, sequence: int) -> bool:
    """Whether the requirement holds because nothing was committed since it was checked.

    See `Standing`."""
    return isinstance(requirement, Standing) and requirement.as_of >= sequence > 0


def _one_by_one(read: Reader, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    return {key: raw for key in keys if (raw := read(key)) is not None}


def _strides(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (keys[start : start + STRIDE] for start in range(0, len(keys), STRIDE))


def _check_standing(requirement: Standing, read_many: ManyReader) -> None:
    stamps, at = requirement.stamps, 0
    for part in _strides(requirement.keys):
        raws = read_many(part)
        if len(raws) == len(part):
            whole = at + len(part) * STAMP_BYTES
            if b"".join([raws[key][:STAMP_BYTES] for key in part]) == stamps[at:whole]:
                at = whole
                continue
        for key in part:
            raw, end = raws.get(key), at + STAMP_BYTES
            if raw is None or raw[:STAMP_BYTES] != stamps[at:end]:
                raise Conflict(requirement.anomaly, key)
            at = end


def _check_absent(requirement: AllAbsent, read_many: ManyReader) -> None:
    for part in _strides(requirement.keys):
        for key in read_many(part):
            raise Conflict(requirement.anomaly, key)


def _check_unlocked(requirement: Unlocked, read: Reader, read_many: ManyReader) -> None:
    """Without a new lock mark in the table, this needs one read."""
    header = read(requirement.header)
    if header is None:
        return
    last = stamp_of(header)
    late = [group for group in requirement.groups if not group.since.saw(last)]
    if not late:
        return
    raw = read(LOCK_FLOOR)
    floor = read_number(raw and raw[STAMP_BYTES:])
    for since, modes, keys in late:
        if since.horizon < floor:
            raise Conflict("lock marks removed", keys[0])
        for mode in modes:
            for part in _strides(keys):
                marks = {lock_mark(mode, key): key for key in part}
                for mark, raw in read_many(list(marks)).items():
                    if not since.saw(stamp_of(raw)):
                        raise Conflict("locked meanwhile", marks[mark])


class Arranged(NamedTuple):
    """A packet after all work that does not need the store: merged, sorted, lengths checked.

    expects, expected   keys that must be unchanged, and the first eight bytes of their values (b"":
                        absent), as in `unchanged`
    puts, payloads      keys to store and their payloads, if no claim is refused
    removed             keys to remove in any case
    claims, releases    keys of unique entries written once, with the payload of each: a claim is
                        also one of the puts, a release removes only this row's own entry
    judged              all other writes whose effect depends on the present entry, by key
    """

    fences: Sequence[Requirement]
    expects: list[bytes]
    expected: list[bytes]
    unchanged: list[Unchanged]
    puts: list[bytes]
    payloads: list[bytes]
    removed: list[bytes]
    claims: list[bytes]
    claimed: Mapping[bytes, bytes]
    releases: list[bytes]
    released: Mapping[bytes, bytes]
    judged: list[tuple[bytes, list[Write]]]
    channels: Sequence[str]
    log: Sequence[tuple[bytes, bytes]]

    @property
    def size(self) -> int:
        """Number of keys that it may write."""
        written = len(self.puts) + len(self.removed) + len(self.releases) + len(self.judged)
        return written + len(self.log)

    def runs(self) -> Iterator[Sequence[bytes]]:
        """All keys that the commit reads or writes, in runs, each in key order."""
        yield from (self.expects, self.puts, self.removed, self.releases)
        yield [key for key, _ in self.judged]


def arrange(packet: Packet) -> Arranged:
    """Prepares a packet; see Arranged. Raises Refused 1071 for a key that is too long."""
    fences: list[Requirement] = []
    unchanged: list[Unchanged] = []
    for requirement in packet.requirements:
        if isinstance(requirement, Unchanged):
            unchanged.append(requirement)
        else:
            fences.append(requirement)
    unchanged.sort(key=_KEY)
    plain: dict[bytes, bytes | None] = {}
    claimed: dict[bytes, bytes] = {}
    released: dict[bytes, bytes] = {}
    judged: dict[bytes, list[Write]] = {}
    removes = False
    for write in packet.writes:
        kind, key, payload = write
        if len(key) > LONGEST_KEY:
            require_short(key)
        if key in claimed:
            judged[key] = [Write(WriteKind.CLAIM, key, claimed.pop(key)), write]
        elif key in released:
            judged[key] = [Write(WriteKind.RELEASE, key, released.pop(key)), write]
        elif key in judged:
            judged[key].append(write)
        elif kind <= WriteKind.PLACE:
            plain[key] = payload
        elif kind not in JUDGED:
            plain[key] = None if kind == WriteKind.REMOVE else judge(kind, key, payload, None)
            removes = True
        elif key in plain:
            judged[key] = [_standing(key, plain.pop(key)), write]
        elif kind == WriteKind.CLAIM:
            claimed[key] = payload
        elif kind == WriteKind.RELEASE:
            released[key] = payload
        else:
            judged[key] = [write]
    removed = _in_order([k for k, payload in plain.items() if payload is None]) if removes else []
    for key in removed:
        del plain[key]
    plain.update(claimed)
    puts = _in_order(list(plain))
    return Arranged(
        fences,
        [u.key for u in unchanged],
        [(u.stamp.to_bytes(STAMP_BYTES, "little") if u.stamp else b"") for u in unchanged],
        unchanged,
        puts,
        cast(list[bytes], [plain[key] for key in puts]),
        removed,
        _in_order(list(claimed)),
        claimed,
        _in_order(list(released)),
        released,
        sorted(judged.items()),
        packet.channels,
        packet.log,
    )


_KEY = attrgetter("key")


def _in_order(keys: list[bytes]) -> list[bytes]:
    """Sorted, in parts first: a single call would block other threads while it sorts."""
    if len(keys) > SORTED_AT_ONCE:
        parts = range(0, len(keys), SORTED_AT_ONCE)
        keys = [key for at in parts for key in sorted(keys[at : at + SORTED_AT_ONCE])]
    keys.sort()
    return keys


def _standing(key: bytes, payload: bytes | None) -> Write:
    """The effect of the blind writes before the first judged write of a key."""
    return (
        Write(WriteKind.DELETE, key, b"") if payload is None else Write(WriteKind.PUT, key, payload)
    )


def validate(arranged: Arranged, read: Reader, read_many: ManyReader) -> None:
    """Raise the error of the first broken requirement: Deposed, SchemaChanged, Conflict."""
    for requirement in arranged.fences:
        check(requirement, read, read_many)
    for start in range(0, len(arranged.expects), STRIDE):
        keys = arranged.expects[start : start + STRIDE]
        expected = arranged.expected[start : start + STRIDE]
        raws = read_many(keys)
        if not raws and not any(expected):
            continue  # new rows, all absent as required
        if [raws[key][:STAMP_BYTES] if key in raws else b"" for key in keys] != expected:
            for broken, stamp in zip(arranged.unchanged[start:], expected, strict=False):
                if raws.get(broken.key, b"")[:STAMP_BYTES] != stamp:
                    raise Conflict(broken.anomaly, broken.key)


def outcomes(
    arranged: Arranged, read_many: ManyReader
) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
    """(pairs to put, keys to remove) by the judged writes and releases, given the present entries.

    A key at which another row's entry stays is in neither, so it keeps its stamp. Raises Duplicate,
    also for claims."""
    puts: list[tuple[bytes, bytes]] = []
    removed: list[bytes] = []
    for part in _strides(arranged.claims):
        for key, present in read_many(part).items():
            judge(WriteKind.CLAIM, key, arranged.claimed[key], present[STAMP_BYTES:])
    released = arranged.released
    for part in _strides(arranged.releases):
        raws = read_many(part)
        removed += [key for key, present in raws.items() if present[STAMP_BYTES:] == released[key]]
    for start in range(0, len(arranged.judged), STRIDE):
        several = arranged.judged[start : start + STRIDE]
        raws = read_many([key for key, _ in several])
        for key, writes in several:
            raw = raws.get(key)
            payload_now = None if raw is None else raw[STAMP_BYTES:]
            written = False
            for kind, _, payload in writes:
                after = judge(kind, key, payload, payload_now)
                written = written or after is not payload_now or kind not in JUDGED
                payload_now = after
            if not written:
                continue
            if payload_now is not None:
                puts.append((key, payload_now))
            else:
                removed.append(key)
    return puts, removed


def settle(
    packet: Packet, read: Reader, many: ManyReader | None = None
) -> dict[bytes, bytes | None]:
    """Payload (None: removed) per key after the packet, given the present values from `read`.

    A key at which another row's entry stays is not included, so it keeps its stamp. Raises Deposed
    or SchemaChanged before Conflict, then Duplicate, and Refused 1071 for a too long key."""
    lost: Unchanged | None = None
    for requirement in packet.requirements:
        if isinstance(requirement, Unchanged):
            raw = read(requirement.key)
            stamp = 0 if raw is None else int.from_bytes(raw[:STAMP_BYTES], "little")
            if stamp != requirement.stamp:
                lost = lost or requirement
        else:
            check(requirement, read, many)
    if lost is not None:
        raise Conflict(lost.anomaly, lost.key)
    after: dict[bytes, bytes | None] = {}
    for kind, key, payload in packet.writes:
        if len(key) > LONGEST_KEY:
            require_short(key)
        if kind <= WriteKind.PLACE:
            after[key] = payload
        elif kind not in JUDGED:
            after[key] = judge(kind, key, payload, None)
        elif key in after:
            after[key] = judge(kind, key, payload, after[key])
        else:
            raw = read(key)
            present = None if raw is None else raw[STAMP_BYTES:]
            payload_after = judge(kind, key, payload, present)
            if payload_after is not present:
                after[key] = payload_after
    return after
