"""Plain data between a transaction and its engine: spans, snapshots, requirements, writes.

`judge` decides what a write does at commit; it is the only place that decides laws 5 and 6:

    kind      effect at commit
    PUT       the payload is stored (refused as a lost update if the key changed since the snapshot)
    DELETE    the key is removed (refused in the same case)
    PLACE     entry of a plain index: stored (its row is validated instead, here and below)
    REMOVE    entry of a plain index: removed
    ENTOMB    entry of a plain index: a tombstone is stored, with or without an entry there
    CLAIM     entry of a unique index: stored; Duplicate if another row has a live entry there
    RELEASE   entry of a unique index: removed if it is this row's; another row's entry stays
    BURY      as RELEASE, but a tombstone is stored, also if there is no entry

An index entry's payload is `LIVE + handle` (the handle is empty in a plain index, whose key ends
with it) or `TOMBSTONE`. The payload of a CLAIM, RELEASE or BURY is `LIVE + handle`.
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
    """The kinds of writes, see the table above.

    Plain integers, because they are compared and hashed for every key of a commit; members of an
    IntEnum take ten times as long."""

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
)  # their effect depends on the present entry


def is_live(payload: bytes | None) -> bool:
    """True for a live index entry, False for a tombstone or nothing."""
    return payload is not None and payload[:1] == LIVE


def judge(kind: int, key: bytes, payload: bytes, current: bytes | None) -> bytes | None:
    """The payload at `key` after the write, given the present one (None: absent).

    Raises Duplicate."""
    if kind <= WriteKind.PLACE:
        return payload
    if kind <= WriteKind.REMOVE:
        return None
    if kind == WriteKind.ENTOMB:
        return TOMBSTONE
    mine = current is None or current == payload
    if kind == WriteKind.CLAIM:
        if not mine and is_live(current):
            raise Duplicate(key, current[1:] if current else b"")
        return payload
    if not mine:
        return current
    return None if kind == WriteKind.RELEASE else TOMBSTONE


# -- packet ----------------------------------------------------------------------------------------

STAMP_BYTES = 8
LONGEST_KEY = 1978
"""Bytes that a key may have on every engine (LMDB's limit with pages of 4 KiB)."""


def stamp_of(raw: bytes) -> int:
    """The stamp of the commit, with which a stored value begins."""
    return int.from_bytes(raw[:STAMP_BYTES], "little")


class Span(NamedTuple):
    """Keys k with start <= k < end."""

    start: bytes
    end: bytes


class Unchanged(NamedTuple):
    """The key's value still has the stamp that the snapshot had (0: absent).

    Otherwise: Conflict(anomaly)."""

    key: bytes
    stamp: int
    anomaly: str


class Equal(NamedTuple):
    """The key's payload is this one at commit: an epoch. Otherwise: Deposed."""

    key: bytes
    payload: bytes


class AtMost(NamedTuple):
    """The key has a u64 (see keys.number) that is <= limit: a revision fence.

    Otherwise, or if absent: SchemaChanged."""

    key: bytes
    limit: int


class Standing(NamedTuple):
    """As `Unchanged`, for many keys that are all present.

    `stamps`: the first 8 bytes of each value. `as_of`: the store's last commit when the keys were
    read (0: unknown). If it still is, engines with sequential commits need not check the keys. The
    same holds if all commits since then have the same `among`: such an engine
    records in that key since when this is so. Bulks with the same `among` do not write keys that
    others of them require.

    Otherwise: Conflict(anomaly)."""

    keys: Sequence[bytes]
    stamps: bytes
    anomaly: str
    as_of: int = 0
    among: bytes = b""

    @property
    def key(self) -> bytes:
        """The first of the keys."""
        return self.keys[0]


class AllAbsent(NamedTuple):
    """None of these keys is present.

    Engines with concurrent commits need not check it for bulks that put all these keys and require
    their rows. Two such bulks with a common key also have a row in common.

    Otherwise: Conflict(anomaly)."""

    keys: Sequence[bytes]
    anomaly: str

    @property
    def key(self) -> bytes:
        """The first of the keys."""
        return self.keys[0]


class View(Protocol):
    """The set of commits that a snapshot sees. Hashable; outlives the snapshot."""

    @property
    def horizon(self) -> int:
        """All commits with stamps up to this one are seen."""

    @property
    def position(self) -> str:
        """The view as text, to be read by the same store."""

    def saw(self, stamp: int) -> bool:
        """Whether it sees the commit of this stamp."""


class UpTo(int):
    """A view up to one commit, for engines whose stamps are in the order of their commits."""

    @property
    def horizon(self) -> int:
        return self

    @property
    def position(self) -> str:
        return str(int(self))

    def saw(self, stamp: int) -> bool:
        return stamp <= self


class HeldKeys(NamedTuple):
    """Keys that a transaction has held since the snapshot of that view: written, or locked.

    `modes`: the marks of other transactions' locks that conflict."""

    since: View
    modes: tuple[bytes, ...]
    keys: Sequence[bytes]


class Unlocked(NamedTuple):
    """No transaction that locked one of these keys has committed since they were held.

    All keys belong to the table of this header. Otherwise: Conflict. Source: decision 039."""

    header: bytes
    groups: Sequence[HeldKeys]

    @property
    def key(self) -> bytes:
        """The first of the keys."""
        return self.groups[0].keys[0]


Requirement = Unchanged | Equal | AtMost | Standing | AllAbsent | Unlocked


class Write(NamedTuple):
    """One buffered write; `kind` is one of WriteKind."""

    kind: int
    key: bytes
    payload: bytes


class Packet(NamedTuple):
    """A transaction ready for validation: plain data, so that any thread can commit it."""

    writes: Sequence[Write]
    requirements: Sequence[Requirement]
    channels: Sequence[str]
    free: Sequence[bytes] = ()
    """Keys that must not be locked by others, if a server keeps locks. Otherwise: RowLocked."""
    log: Sequence[tuple[bytes, bytes]] = ()
    """(prefix, record) of each row that it changes in a table with a change log.

    See kv/change_log.py."""


class Bulk(NamedTuple):
    """The arguments of Store.bulk."""

    keys: Sequence[bytes]
    payloads: Sequence[bytes] | bytes
    requirements: Sequence[Requirement] = ()
    puts: Sequence[tuple[bytes, bytes]] = ()
    report: bool = False
    overwrite: bool = False


class BulkResult(NamedTuple):
    """The result of a bulk put: the number of keys `placed`, and on request those `present`.

    `present`: (position in keys, present payload). A key that is twice in the list counts as
    present the second time, with the payload placed by the first.
    `written_s`: how long a chain held the store's only writer, without the wait for the disk. In
    its last result; 0.0 for an engine without such a writer. Unit: s."""

    stamp: int
    placed: int
    present: list[tuple[int, bytes]]
    written_s: float = 0.0


Places = NDArray[np.int64]


class Padded:
    """Keys of several lengths as one array: `matrix`, uint8, each padded with zeros."""

    __slots__ = ("lengths", "matrix")
    _WASTE = 32  # bytes a key
    _FEW = 8  # columns that are cleared one by one
    _NARROW = 512  # bytes of a key that is cleared by a mask

    def __init__(self, matrix: NDArray[np.uint8], lengths: Places) -> None:
        self.matrix = matrix
        self.lengths = lengths

    @classmethod
    def is_wise(cls, lengths: Places) -> bool:
        """Whether padding wastes little enough memory for keys of these lengths."""
        zeros = int(lengths.max()) * len(lengths) - (size := int(lengths.sum()))
        return zeros <= max(size, cls._WASTE * len(lengths))

    @classmethod
    def gathered(cls, data: NDArray[np.uint8], at: Places, lengths: Places) -> "Padded":
        """The bytes at these positions of `data`; not all of them are empty."""
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
        """As `gathered`, or None if all are empty or most of the array would be padding."""
        if not lengths.any() or not cls.is_wise(lengths):
            return None
        return cls.gathered(data, at, lengths)

    @property
    def width(self) -> int:
        """The common length of all keys, or 0."""
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
    """Element n keeps the first n bytes of `width`."""
    rows = np.tri(width + 1, width, -1, dtype=np.uint8) * np.uint8(0xFF)
    masks: NDArray[Any] = rows.view(f"V{width}").reshape(width + 1)
    return masks


def windows_of(data: NDArray[np.uint8], width: int) -> NDArray[Any]:
    """Element n is the `width` bytes from data[n] on."""
    return np.ndarray((len(data) - width + 1,), f"V{width}", data.data, strides=(1,))


class RawRun:
    """Keys and raw values at positions of `data`. Immutable.

    `data`: uint8, with PADDING more bytes at its end. Key n begins at `key_at[n]` and has
    `key_lengths[n]` bytes; its value begins at `at[n]` and has `lengths[n]` bytes."""

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
        """The run of a chunk's keys and values."""
        both = np.fromiter(map(len, [*keys, *raws]), np.int64, 2 * len(keys))
        begins = np.cumsum(both) - both
        data = np.frombuffer(b"".join([*keys, *raws, bytes(cls.PADDING)]), np.uint8)
        n = len(keys)
        return cls(data, begins[:n], both[:n], begins[n:], both[n:])

    def __len__(self) -> int:
        return len(self.at)

    def take(self, which: Any) -> "RawRun":
        """The pairs at some positions: a slice, an array of positions or of booleans."""
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
        """The bytes at these positions.

        An array of V<n> if all have one length that is not 0, else a list."""
        width = int(lengths[0]) if len(lengths) else 0
        if not width or not (lengths == width).all():
            return self._list(at, lengths)
        return self._cut(at, width)

    def starting(self, size: int) -> NDArray[Any]:
        """The first `size` bytes of each value; all values are that long. Shape (n,), V<size>."""
        return self._cut(self.at, size)

    def padded(self, at: Places, lengths: Places) -> "NDArray[Any] | Padded | list[bytes]":
        """As `cut`, but as `Padded` if lengths differ and padding wastes little memory."""
        if len(at) and (lengths != lengths[0]).any() and Padded.is_wise(lengths):
            return Padded.gathered(self.data, at, lengths)
        return self.cut(at, lengths)

    def _cut(self, at: Places, width: int) -> NDArray[Any]:
        cells: NDArray[Any] = windows_of(self.data, width)[at]
        return cells

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
    """The purpose of a snapshot. Engines with few snapshots reserve some for each purpose.

    A holder of one for a span may also take one for system work. A holder of one for system work
    takes no other."""

    SYSTEM = 0
    """For a loop or a short read."""
    CLIENT = 1
    """For a client, which may keep it open."""
    SPAN = 2
    """For reading a span of a table, which takes seconds."""
    LOOK = 3
    """For system work that reads at once; it may be taken at the first read."""
    ONCE = 4
    """For one read of a client, together with the keys that are announced before it.

    Reads of other keys afterwards may raise WouldWait."""


OF_CLIENTS = (SnapshotUse.CLIENT, SnapshotUse.ONCE)


class Snapshot(Protocol):
    """A consistent view. Not thread-safe. Raises Unavailable after its maximum age."""

    @property
    def sequence(self) -> int:
        """The base of numbers that must grow.

        Greater than that of every snapshot whose commits this one sees; two may be equal."""

    @property
    def order(self) -> int:
        """Among snapshots of one process: greater if it was taken later and sees more.

        Equal only if they see the same."""

    @property
    def view(self) -> View:
        """The commits that it sees."""

    def saw(self, stamp: int) -> bool:
        """Whether it sees the commit with this stamp."""

    @property
    def skip(self) -> int:
        """Length of the engine's part of each raw value; the payload follows. Only kv reads it."""

    def ahead(self, keys: Sequence[bytes]) -> None:
        """Announce keys that will be read soon.

        An engine on another host fetches them together with the next request."""

    def get(self, key: bytes) -> bytes | None:
        """The raw committed value, or None."""

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """The raw committed values of the keys that exist."""

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Raw (key, value) pairs in key order. The iterator may be abandoned."""

    def first(self, span: Span, count: int) -> list[bytes]:
        """The raw values of the first `count` keys of the span: the fast way to read a few."""

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """As `scan`, in lists of at most `rows` keys and values: the fast way to read many.

        Readers step over `skip` bytes of each value by stride."""

    def pieces(self, span: Span) -> Iterator["Piece"]:
        """The span as pieces in key order, of some thousand keys each.

        Each piece is read by a call, in any thread and order, which raises errors of reading. It
        returns one run, or several if values are long."""

    def count(self, span: Span, most: int = -1) -> int:
        """The number of keys in the span.

        If there are more than `most` (-1: no limit), returns some number above it."""

    def stamps(self, raws: "Sequence[bytes] | RawRun") -> NDArray[np.uint64]:
        """The stamps of the commits that wrote these raw values."""

    def require_open(self) -> None:
        """Raises Unavailable if it has ended."""

    def in_use(self, running: bool) -> None:
        """Record whether a statement uses it; a snapshot in use is not idle."""

    def close(self) -> None:
        """Release the snapshot. A second call is harmless."""


def _run_of(keys: Sequence[bytes], raws: Sequence[bytes]) -> Iterator[RawRun]:
    yield RawRun.of(keys, raws)


class Chunked(Protocol):
    """A source that can be read in chunks and in pairs."""

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Raw (key, value) pairs in key order."""

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Lists of at most `rows` keys and values."""


class InChunks:
    """Implements pieces, counts and first values for snapshots by their chunks."""

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
    """The layout of raw values in the engines here; a part of their snapshots.

    The stamp of the commit (u64, little-endian), then the payload."""

    __slots__ = ()
    skip = STAMP_BYTES

    def ahead(self, keys: Sequence[bytes]) -> None:
        """Does nothing: reads are cheap."""

    def require_open(self) -> None:
        """Does nothing: views end with their users."""

    def stamps(self, raws: Sequence[bytes] | RawRun) -> NDArray[np.uint64]:
        if isinstance(raws, RawRun):
            return raws.starting(STAMP_BYTES).view("<u8")
        return np.frombuffer(b"".join([raw[:STAMP_BYTES] for raw in raws]), "<u8")


class InOrder:
    """A part of snapshots of engines whose stamps are in the order of their commits."""

    __slots__ = ()
    sequence: int

    @property
    def view(self) -> View:
        return UpTo(self.sequence)

    def saw(self, stamp: int) -> bool:
        return stamp <= self.sequence


class Committer(Protocol):
    """The part of a store that a transaction needs."""

    def commit(self, packet: Packet) -> int: ...
