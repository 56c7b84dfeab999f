"""What passes between a transaction and its engine: spans, snapshots, requirements, writes. Plain
data.

What a write means when it meets the store: the one place where laws 5 and 6 are decided.

    kind      effect at commit     PUT       the payload stands    (a lost update, refused, if the
key changed since the snapshot)     DELETE    the key is gone       (likewise)     PLACE     entry
of a plain index: it stands (its row is validated instead, here and below)     REMOVE    ... it is
gone     ENTOMB    ... a tombstone stands, whether or not an entry stood there (blind tombstone)
CLAIM     entry of a unique index: Duplicate where another row's live entry stands     RELEASE   ...
gone, if it is this row's; another row's entry stays     BURY      ... a tombstone, if it is this
row's or nothing stands; another row's entry stays

An index entry's payload is `LIVE + handle` (the handle is empty in a plain index, whose key ends
in it) or `TOMBSTONE`. For CLAIM, RELEASE and BURY a write's payload is `LIVE + handle`.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from exuvia.base.errors import Duplicate

LIVE = b"\x00"
TOMBSTONE = b"\x01"


class WriteKind:
    """See the table above. Plain integers: they are compared and hashed for every key of a commit,
    and members of an IntEnum take ten times as long for it."""

    PUT: Final = 0
    PLACE: Final = 1
    DELETE: Final = 2
    REMOVE: Final = 3
    ENTOMB: Final = 4
    CLAIM: Final = 5
    RELEASE: Final = 6
    BURY: Final = 7


VALIDATED = frozenset({WriteKind.PUT, WriteKind.DELETE})
JUDGED = frozenset(
    {WriteKind.CLAIM, WriteKind.RELEASE, WriteKind.BURY}
)  # their effect depends on what stands there


def is_live(payload: bytes | None) -> bool:
    """True for a live index entry, False for a tombstone or nothing."""
    return payload is not None and payload[:1] == LIVE


def judge(kind: int, key: bytes, payload: bytes, held: bytes | None) -> bytes | None:
    """The payload that stands at `key` after the write, given the one held now.

    Raises Duplicate."""
    if kind <= WriteKind.PLACE:
        return payload
    if kind <= WriteKind.REMOVE:
        return None
    if kind == WriteKind.ENTOMB:
        return TOMBSTONE
    mine = held is None or held == payload
    if kind == WriteKind.CLAIM:
        if not mine and is_live(held):
            raise Duplicate(key, held[1:] if held else b"")
        return payload
    if not mine:
        return held
    return None if kind == WriteKind.RELEASE else TOMBSTONE


# -- packet ----------------------------------------------------------------------------------------

STAMP_BYTES = 8
LONGEST_KEY = 1978
"""Bytes a key may have on every engine (LMDB's bound with pages of 4 KiB)."""


def stamp_of(raw: bytes) -> int:
    """The stamp of the commit that a stored value begins with."""
    return int.from_bytes(raw[:STAMP_BYTES], "little")


class Span(NamedTuple):
    """Keys k with start <= k < end."""

    start: bytes
    end: bytes


class Unchanged(NamedTuple):
    """The key's value still has this stamp (0: absent), as the snapshot saw it.

    Broken: Conflict(anomaly)."""

    key: bytes
    stamp: int
    anomaly: str


class Equal(NamedTuple):
    """The key's payload is exactly this when committing: an epoch. Broken: Deposed."""

    key: bytes
    payload: bytes


class AtMost(NamedTuple):
    """The key holds a u64 (see keys.number) and it is <= limit: a revision fence.

    Broken or absent: SchemaChanged."""

    key: bytes
    limit: int


class Standing(NamedTuple):
    """`Unchanged` for many keys that are all there; `stamps`: theirs as the values begin with them,
    8 bytes each. While the store's last commit is that of `as_of` (0: not known) nobody has changed
    them since they were read, and an engine whose commits follow one another need not look. Nor
    while all commits since then name the same `among`: a key where such an engine keeps since when
    that is so. Bulks that name it leave alone what others of them require.

    Broken: Conflict(anomaly)."""

    keys: Sequence[bytes]
    stamps: bytes
    anomaly: str
    as_of: int = 0
    among: bytes = b""

    @property
    def key(self) -> bytes:
        """The first of them."""
        return self.keys[0]


class AllAbsent(NamedTuple):
    """None of these keys is there. An engine that commits side by side promises that to bulks that
    put them all and require the rows that they put them for: two of one key have its row in common.

    Broken: Conflict(anomaly)."""

    keys: Sequence[bytes]
    anomaly: str

    @property
    def key(self) -> bytes:
        """The first of them."""
        return self.keys[0]


class View(Protocol):
    """Which commits a snapshot sees. Hashable; outlives the snapshot."""

    @property
    def horizon(self) -> int:
        """It sees every commit whose stamp is not greater."""

    @property
    def position(self) -> str:
        """The view as text; the store that it is of reads it."""

    def saw(self, stamp: int) -> bool:
        """Whether it sees the commit of this stamp."""


class UpTo(int):
    """The view of an engine whose stamps are in the order of its commits: up to one of them."""

    @property
    def horizon(self) -> int:
        return self

    @property
    def position(self) -> str:
        return str(int(self))

    def saw(self, stamp: int) -> bool:
        return stamp <= self


class HeldKeys(NamedTuple):
    """Keys that a transaction held since the snapshot of that view: written, or locked.

    `modes`: marks of which locks of others would have stood in its way."""

    since: View
    modes: tuple[bytes, ...]
    keys: Sequence[bytes]


class Unlocked(NamedTuple):
    """No transaction that locked one of these keys has committed since they were held; all are of
    the table of this header.

    Broken: Conflict. Source: decision 039."""

    header: bytes
    groups: Sequence[HeldKeys]

    @property
    def key(self) -> bytes:
        """The first of them."""
        return self.groups[0].keys[0]


Requirement = Unchanged | Equal | AtMost | Standing | AllAbsent | Unlocked


class Write(NamedTuple):
    """One buffered write; `kind` is one of kv/packet.py's Kind."""

    kind: int
    key: bytes
    payload: bytes


class Packet(NamedTuple):
    """A transaction ready to be validated and applied: plain data, so any thread may do it."""

    writes: Sequence[Write]
    requirements: Sequence[Requirement]
    channels: Sequence[str]
    free: Sequence[bytes] = ()
    """Keys that no other transaction may have locked, where a server keeps locks: RowLocked."""
    log: Sequence[tuple[bytes, bytes]] = ()
    """(prefix, record) of each row of a table with a change log that it changes:
    kv/change_log.py."""


class Bulk(NamedTuple):
    """The arguments of Store.bulk."""

    keys: Sequence[bytes]
    payloads: Sequence[bytes] | bytes
    requirements: Sequence[Requirement] = ()
    puts: Sequence[tuple[bytes, bytes]] = ()
    report: bool = False
    overwrite: bool = False


class BulkResult(NamedTuple):
    """What a bulk put-if-absent met:

    how many keys it `placed`, and, only if asked for, those `present`.

    `present` holds (position in keys, payload that stands there). A key that is twice in the list
    is present the second time, with the payload that the first has placed."""

    stamp: int
    placed: int
    present: list[tuple[int, bytes]]


Places = NDArray[np.int64]


class Padded:
    """Keys of several lengths as one array: `matrix`, uint8, with zeros behind each."""

    __slots__ = ("lengths", "matrix")
    _WASTE = 32  # bytes a key
    _FEW = 8  # columns that are cleared one by one
    _NARROW = 512  # bytes of a key that is cleared by a mask

    def __init__(self, matrix: NDArray[np.uint8], lengths: Places) -> None:
        self.matrix = matrix
        self.lengths = lengths

    @classmethod
    def is_wise(cls, lengths: Places) -> bool:
        """Whether so long keys are worth their zeros."""
        zeros = int(lengths.max()) * len(lengths) - (size := int(lengths.sum()))
        return zeros <= max(size, cls._WASTE * len(lengths))

    @classmethod
    def gathered(cls, data: NDArray[np.uint8], at: Places, lengths: Places) -> "Padded":
        """What stands at some places of `data`, not all of it empty."""
        width, least = int(lengths.max()), int(lengths.min())
        if len(data) < width:
            data = np.concatenate([data, np.zeros(width, np.uint8)])
        beyond = np.flatnonzero(at > len(data) - width)
        matrix = windows_of(data, width)[np.minimum(at, len(data) - width) if len(beyond) else at]
        matrix = matrix.view(np.uint8).reshape(-1, width)
        for row in beyond.tolist():
            cell = data[at[row] : at[row] + width]
            matrix[row, : len(cell)] = cell
        if width - least <= cls._FEW:
            for column in range(least, width):
                matrix[:, column] *= lengths > column
        elif width <= cls._NARROW:
            whole = matrix.reshape(-1)
            whole &= _masks(width)[lengths].view(np.uint8)
        else:
            matrix *= np.arange(width) < lengths[:, None]
        return cls(matrix, lengths)

    @classmethod
    def if_wise(cls, data: NDArray[np.uint8], at: Places, lengths: Places) -> "Padded | None":
        """As above, or None if all texts are empty, or if most of the array would be padding."""
        if not lengths.any() or not cls.is_wise(lengths):
            return None
        return cls.gathered(data, at, lengths)

    @property
    def width(self) -> int:
        """The length of all of them, 0 where they differ."""
        least = int(self.lengths.min())
        return least if least == int(self.lengths.max()) else 0

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, part: "slice | Places") -> "Padded":
        some = self.matrix[part] if isinstance(part, slice) else self.matrix.take(part, axis=0)
        return Padded(some, self.lengths[part])

    def tolist(self) -> list[bytes]:
        """The keys."""
        rows, width = self.matrix.shape
        whole = np.ascontiguousarray(self.matrix).view(f"V{width}").reshape(rows).tolist()
        shorter = np.flatnonzero(self.lengths < width)
        if 2 * len(shorter) > rows:
            return [key[:length] for key, length in zip(whole, self.lengths.tolist(), strict=True)]
        for row, length in zip(shorter.tolist(), self.lengths[shorter].tolist(), strict=True):
            whole[row] = whole[row][:length]
        return list(whole)


@lru_cache(16)
def _masks(width: int) -> NDArray[Any]:
    """Item n keeps n bytes of `width`."""
    rows = np.tri(width + 1, width, -1, dtype=np.uint8) * np.uint8(0xFF)
    masks: NDArray[Any] = rows.view(f"V{width}").reshape(width + 1)
    return masks


def windows_of(data: NDArray[np.uint8], width: int) -> NDArray[Any]:
    """Item n is the `width` bytes from data[n] on."""
    return np.ndarray((len(data) - width + 1,), f"V{width}", data.data, strides=(1,))


class RawRun:
    """Keys and raw values that stand somewhere in `data` (uint8, with PADDING more bytes at its
    end): key n at `key_at[n]`, as long as `key_lengths[n]`, its value at `at[n]`. Never changed."""

    PADDING = 16
    __slots__ = ("at", "data", "key_at", "key_lengths", "lengths")

    def __init__(
        self,
        data: NDArray[np.uint8],
        key_at: Places,
        key_lengths: Places,
        at: Places,
        lengths: Places,
    ) -> None:
        self.data = data
        self.key_at = key_at
        self.key_lengths = key_lengths
        self.at = at
        self.lengths = lengths

    @classmethod
    def of(cls, keys: Sequence[bytes], raws: Sequence[bytes]) -> "RawRun":
        """Those that a chunk gives."""
        both = np.fromiter(map(len, [*keys, *raws]), np.int64, 2 * len(keys))
        begins = np.cumsum(both) - both
        data = np.frombuffer(b"".join([*keys, *raws, bytes(cls.PADDING)]), np.uint8)
        n = len(keys)
        return cls(data, begins[:n], both[:n], begins[n:], both[n:])

    def __len__(self) -> int:
        return len(self.at)

    def take(self, which: Any) -> "RawRun":
        """Those at some positions: a slice, an array of places, or of truth."""
        return RawRun(
            self.data,
            self.key_at[which],
            self.key_lengths[which],
            self.at[which],
            self.lengths[which],
        )

    def keys(self) -> list[bytes]:
        """The keys."""
        return self._list(self.key_at, self.key_lengths)

    def raws(self) -> list[bytes]:
        """The raw values."""
        return self._list(self.at, self.lengths)

    def cut(self, at: Places, lengths: Places) -> "NDArray[Any] | list[bytes]":
        """What stands at some places: an array of V<n> where all have one length and that is not 0,
        else a list."""
        width = int(lengths[0]) if len(lengths) else 0
        if not width or not (lengths == width).all():
            return self._list(at, lengths)
        return self._cut(at, width)

    def starting(self, size: int) -> NDArray[Any]:
        """The first bytes of each value, which all have so many. Shape (n,), V<size>."""
        return self._cut(self.at, size)

    def padded(self, at: Places, lengths: Places) -> "NDArray[Any] | Padded | list[bytes]":
        """The same, where lengths differ as `Padded` if that is wise."""
        if len(at) and (lengths != lengths[0]).any() and Padded.is_wise(lengths):
            return Padded.gathered(self.data, at, lengths)
        return self.cut(at, lengths)

    def _cut(self, at: Places, width: int) -> NDArray[Any]:
        found: NDArray[Any] = windows_of(self.data, width)[at]
        return found

    def _list(self, at: Places, lengths: Places) -> list[bytes]:
        if not len(at):
            return []
        ends = at + lengths
        begin, end = int(at.min()), int(ends.max())
        if 2 * int(lengths.sum()) < end - begin:
            view = self.data.data
            return [bytes(view[a:b]) for a, b in zip(at.tolist(), ends.tolist(), strict=True)]
        part = self.data[begin:end].tobytes()  # slices of bytes are cheaper than bytes of slices
        pairs = zip((at - begin).tolist(), (ends - begin).tolist(), strict=True)
        return [part[a:b] for a, b in pairs]


Piece = Callable[[], Iterator[RawRun]]


class SnapshotUse(IntEnum):
    """What a snapshot is for. Where they are few each use has some of its own; who has one of a
    span may take one of the system beside it, and who has one of the system takes no other."""

    SYSTEM = 0
    """Of a loop or a short look."""
    CLIENT = 1
    """It may be kept open by a client."""
    SPAN = 2
    """A span of a table is read by it, for seconds."""
    LOOK = 3
    """Of the system, and what it sees is asked for at once: it may be taken with its first read."""


class Snapshot(Protocol):
    """One consistent view. Not thread-safe; raises Unavailable once it outlived its allowed age."""

    @property
    def sequence(self) -> int:
        """A number to draw others from: greater than that of any snapshot of which a commit that
        this one sees was validated. Two may have the same one."""

    @property
    def order(self) -> int:
        """Of snapshots of one process: greater if it was taken later and sees more, and equal only
        if they see the same."""

    @property
    def view(self) -> View:
        """Which commits it sees."""

    def saw(self, stamp: int) -> bool:
        """Whether it sees the commit of this stamp."""

    @property
    def skip(self) -> int:
        """Bytes before the payload in each raw value: the engine's, which only kv interprets."""

    def ahead(self, keys: Sequence[bytes]) -> None:
        """These are asked for soon: an engine that is far asks for them with whatever comes next,
        in one round trip."""

    def get(self, key: bytes) -> bytes | None:
        """Raw committed value or None."""

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """Raw committed values of those of the keys that are there."""

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Raw (key, value) pairs in key order. Safe to abandon half way."""

    def first(self, span: Span, count: int) -> list[bytes]:
        """The raw values of the first `count` keys of the span: the fast way to read little."""

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """The same as lists of at most `rows` keys and values: the fast way to read much. Readers
        step over `skip` bytes of each value by stride."""

    def pieces(self, span: Span) -> Iterator["Piece"]:
        """The same as pieces in key order, of some thousand keys, each to be read by a call: in any
        thread, before or after others, and raising what a read raises. It gives one run, or several
        where values are long."""

    def count(self, span: Span, most: int = -1) -> int:
        """How many keys the span holds, exactly; where they are more than `most` (-1: any number),
        some number beyond it."""

    def stamps(self, raws: "Sequence[bytes] | RawRun") -> NDArray[np.uint64]:
        """The stamps of the commits that raw values are of."""

    def require_open(self) -> None:
        """Raises Unavailable once it has ended."""

    def in_use(self, running: bool) -> None:
        """A statement runs on it, or no longer: what a statement runs on is not idle."""

    def close(self) -> None:
        """Give the snapshot back. Twice is harmless."""


def _run_of(keys: Sequence[bytes], raws: Sequence[bytes]) -> Iterator[RawRun]:
    yield RawRun.of(keys, raws)


class Chunked(Protocol):
    """What can be read in chunks, and pair by pair."""

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Raw (key, value) pairs in key order."""

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Lists of at most `rows` keys and values."""


class InChunks:
    """Pieces, counts and first values for a snapshot that has nothing better than its chunks."""

    __slots__ = ()

    def first(self: "Chunked", span: Span, count: int) -> list[bytes]:
        return [raw for _, raw in islice(self.scan(span), count)]

    def pieces(self: "Chunked", span: Span) -> Iterator[Piece]:
        for keys, raws in self.chunks(span):
            yield partial(_run_of, keys, raws)

    def count(self: "Chunked", span: Span, most: int = -1) -> int:
        total = 0
        for keys, _ in self.chunks(span):
            total += len(keys)
            if 0 <= most < total:
                break
        return total


class StampedValues(InChunks):
    """How the engines here lay a raw value out: the stamp of its commit (u64, little-endian), then
    the payload. Part of their snapshots."""

    __slots__ = ()
    skip = STAMP_BYTES

    def ahead(self, keys: Sequence[bytes]) -> None:
        """Nothing, where a look is cheap."""

    def require_open(self) -> None:
        """Nothing, where views end with their users."""

    def stamps(self, raws: Sequence[bytes] | RawRun) -> NDArray[np.uint64]:
        if isinstance(raws, RawRun):
            return raws.starting(STAMP_BYTES).view("<u8")
        return np.frombuffer(b"".join([raw[:STAMP_BYTES] for raw in raws]), "<u8")


class InOrder:
    """Part of snapshots of engines whose stamps are in the order of their commits."""

    __slots__ = ()
    sequence: int

    @property
    def view(self) -> View:
        return UpTo(self.sequence)

    def saw(self, stamp: int) -> bool:
        return stamp <= self.sequence


class Committer(Protocol):
    """What a transaction needs of a store."""

    def commit(self, packet: Packet) -> int: ...
