"""The commit rule, shared by the engines that hold a write lock while they commit.

    settle     a small packet, all under the lock: key by key, as it comes

    arrange    a large one, before the lock: fold, sort, judge lengths; needs no look at the store
    validate   under it: what the packet requires still stands
    outcomes   under it: what its judged writes come to

None of them changes anything, so a packet that is refused has written nothing. Both ways come to
the same (tests/kv/test_validate.py); sorting a few keys costs more than it saves. A large packet is
looked up in strides, in key order: an engine reads a run of neighbours far faster than scattered
keys, and can tell between strides that it moves."""

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
"""Keys looked up, or written, in one go."""
FEW = 16
"""Keys below which a look for each is faster than one for all."""
SORTED_AT_ONCE = 50_000
"""Keys; 30 ms."""


def require_short(key: bytes) -> None:
    """Raises Refused 1071 for a key that is longer than the engines take."""
    if len(key) > LONGEST_KEY:
        raise ErrTooLongKey(len(key), LONGEST_KEY)


def check(requirement: Requirement, read: Reader, many: ManyReader | None = None) -> None:
    """Raise what a broken requirement deserves. `read` gives raw values as they stand now, `many`
    those of many keys."""
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
    """Whether it holds because nobody has committed after that one since it was seen to; see
    Standing."""
    return isinstance(requirement, Standing) and requirement.as_of >= sequence > 0


def _one_by_one(read: Reader, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    return {key: raw for key in keys if (raw := read(key)) is not None}


def _strides(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (keys[start : start + STRIDE] for start in range(0, len(keys), STRIDE))


def _check_standing(requirement: Standing, read_many: ManyReader) -> None:
    stamps, at = requirement.stamps, 0
    for part in _strides(requirement.keys):
        found = read_many(part)
        if len(found) == len(part):
            whole = at + len(part) * STAMP_BYTES
            if b"".join([found[key][:STAMP_BYTES] for key in part]) == stamps[at:whole]:
                at = whole
                continue
        for key in part:
            raw, end = found.get(key), at + STAMP_BYTES
            if raw is None or raw[:STAMP_BYTES] != stamps[at:end]:
                raise Conflict(requirement.anomaly, key)
            at = end


def _check_absent(requirement: AllAbsent, read_many: ManyReader) -> None:
    for part in _strides(requirement.keys):
        for key in read_many(part):
            raise Conflict(requirement.anomaly, key)


def _check_unlocked(requirement: Unlocked, read: Reader, read_many: ManyReader) -> None:
    """Where nobody has left a mark in the table since, one look is all."""
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
    """A packet with everything done that needs no look at the store: folded, in key order, judged
    for length.

    expects, expected   keys that must be unchanged, and the eight bytes that the value of each
                        begins with (b"": absent), as `unchanged` says
    puts, payloads      what stands at these keys afterwards, if no claim is refused
    gone                keys that are removed whatever stands there
    claims, releases    keys of unique entries written once, with the payload of each: a claim is
                        one of the puts too, a release removes its own entry and no other's
    judged              all other writes whose outcome depends on what stands there, by key
    """

    fences: Sequence[Requirement]
    expects: list[bytes]
    expected: list[bytes]
    unchanged: list[Unchanged]
    puts: list[bytes]
    payloads: list[bytes]
    gone: list[bytes]
    claims: list[bytes]
    claimed: Mapping[bytes, bytes]
    releases: list[bytes]
    released: Mapping[bytes, bytes]
    judged: list[tuple[bytes, list[Write]]]
    channels: Sequence[str]
    log: Sequence[tuple[bytes, bytes]]

    @property
    def size(self) -> int:
        """Keys that it may write."""
        written = len(self.puts) + len(self.gone) + len(self.releases) + len(self.judged)
        return written + len(self.log)

    def runs(self) -> Iterator[Sequence[bytes]]:
        """Every key that its commit looks at or writes, run by run, each in key order."""
        yield from (self.expects, self.puts, self.gone, self.releases)
        yield [key for key, _ in self.judged]


def arrange(packet: Packet) -> Arranged:
    """See Arranged. Raises Refused 1071 for a key that is too long."""
    fences: list[Requirement] = []
    unchanged: list[Unchanged] = []
    for each in packet.requirements:
        if isinstance(each, Unchanged):
            unchanged.append(each)
        else:
            fences.append(each)
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
    gone = _in_order([key for key, payload in plain.items() if payload is None]) if removes else []
    for key in gone:
        del plain[key]
    plain.update(claimed)
    puts = _in_order(list(plain))
    return Arranged(
        fences,
        [each.key for each in unchanged],
        [(each.stamp.to_bytes(STAMP_BYTES, "little") if each.stamp else b"") for each in unchanged],
        unchanged,
        puts,
        cast(list[bytes], [plain[key] for key in puts]),
        gone,
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
    """Sorted. In parts first: one call sorts without letting another thread run."""
    if len(keys) > SORTED_AT_ONCE:
        parts = range(0, len(keys), SORTED_AT_ONCE)
        keys = [key for at in parts for key in sorted(keys[at : at + SORTED_AT_ONCE])]
    keys.sort()
    return keys


def _standing(key: bytes, payload: bytes | None) -> Write:
    """What was written blindly before the first judged write of a key."""
    return (
        Write(WriteKind.DELETE, key, b"") if payload is None else Write(WriteKind.PUT, key, payload)
    )


def validate(arranged: Arranged, read: Reader, read_many: ManyReader) -> None:
    """Raise what the first broken requirement deserves: Deposed, SchemaChanged, Conflict."""
    for requirement in arranged.fences:
        check(requirement, read, read_many)
    for start in range(0, len(arranged.expects), STRIDE):
        keys = arranged.expects[start : start + STRIDE]
        expected = arranged.expected[start : start + STRIDE]
        found = read_many(keys)
        if not found and not any(expected):
            continue  # new rows, and none of them is there
        if [found[key][:STAMP_BYTES] if key in found else b"" for key in keys] != expected:
            for each, stamp in zip(arranged.unchanged[start:], expected, strict=False):
                if found.get(each.key, b"")[:STAMP_BYTES] != stamp:
                    raise Conflict(each.anomaly, each.key)


def outcomes(
    arranged: Arranged, read_many: ManyReader
) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
    """What the judged writes and releases put, and what they remove, given what stands there now.

    A key whose judged write left another row's entry alone is in neither: what is not written
    keeps its stamp. Raises Duplicate, of claims too."""
    puts: list[tuple[bytes, bytes]] = []
    gone: list[bytes] = []
    for part in _strides(arranged.claims):
        for key, there in read_many(part).items():
            judge(WriteKind.CLAIM, key, arranged.claimed[key], there[STAMP_BYTES:])
    released = arranged.released
    for part in _strides(arranged.releases):
        found = read_many(part)
        gone += [key for key, there in found.items() if there[STAMP_BYTES:] == released[key]]
    for start in range(0, len(arranged.judged), STRIDE):
        several = arranged.judged[start : start + STRIDE]
        found = read_many([key for key, _ in several])
        for key, writes in several:
            raw = found.get(key)
            left = None if raw is None else raw[STAMP_BYTES:]
            written = False
            for kind, _, payload in writes:
                after = judge(kind, key, payload, left)
                written = written or after is not left or kind not in JUDGED
                left = after
            if not written:
                continue
            if left is not None:
                puts.append((key, left))
            else:
                gone.append(key)
    return puts, gone


def settle(
    packet: Packet, read: Reader, many: ManyReader | None = None
) -> dict[bytes, bytes | None]:
    """Payload (None = gone) per key after the packet, given what `read` finds now.

    A key whose judged write left another row's entry alone is not in it: what is not written
    keeps its stamp. Raises Deposed or SchemaChanged rather than Conflict, Duplicate, and Refused
    1071 for a key that is too long."""
    lost: Unchanged | None = None
    for requirement in packet.requirements:
        if isinstance(requirement, Unchanged):
            raw = read(requirement.key)
            stands = 0 if raw is None else int.from_bytes(raw[:STAMP_BYTES], "little")
            if stands != requirement.stamp:
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
            held = None if raw is None else raw[STAMP_BYTES:]
            left = judge(kind, key, payload, held)
            if left is not held:
                after[key] = left
    return after
