"""A transaction: one snapshot, buffered writes and one packet at the end, on every engine.

Writes are kept in order per key, because a judged entry (kv/packet.py) may be released and claimed
again in one transaction. A read applies them to the snapshot exactly as the commit will apply them
to the current state. A scan shows the transaction at the time of the call; later writes do not
change it.

`lock` requires that no other transaction locks the key from now to the commit, whether the key is
present and whether this transaction writes it. The lock itself is kept in cluster/row_locks.py and
may be lost. The commit still detects conflicts, because every holder of a key leaves a trace when
it commits:

    held by               leaves                           is refused if since it held the key
    a write               the row's (entry's) new version  the key changed, or has a mark
    lock, present row     the same row, written again      the key changed, or has a mark
    lock, nothing there   a mark "x"                       the key changed, or has a mark
    shared lock           a mark "s"                       the key changed, or has a mark "x"

For a shared lock that becomes exclusive, marks "x" count since it was shared. Marks "s" count since
it is exclusive, because others shared the key before.

A transaction begun by `unread` takes its snapshot at its first read. Until then it needs nothing
from the store: engines may have few snapshots, and clients begin more transactions than they read.

`read_from` replaces the snapshot for one statement (a current read). Writes of that statement
expect the keys as in that snapshot; earlier own writes are still visible.

Own writes made over a newer snapshot than the present one (`is_mixed`) may contradict it. An own
row may have an index entry that another transaction wrote, and the old snapshot may have an entry
of the row's former value. Keys of rows stay correct. Readers of index entries use `base_of` and
`own_later` (catalog/reader.py).

Writes below a `private` prefix are visible to the transaction and can be undone, but they are in no
packet. Other transactions cannot see them, so they are neither required nor locked. They end with
the transaction.

Three ways to get a transaction, which every engine inherits (`TransactionalStore`):

    with store.read() as txn:   reads one snapshot; it always ends with the block
    store.transact(work)        work(txn), then its commit; repeated on a new snapshot if others
                                committed first (Conflict)
    txn = store.begin()         ended by its holder, over many calls: a client's transaction

`transact` makes up to ATTEMPTS attempts. Before each repetition it waits for a random time below a
limit, without a snapshot. The limit is FIRST_BACK_OFF_S at first and doubles up to
LONGEST_BACK_OFF_S (`back_off`). Then the last Conflict is raised. All other errors are raised at
once: Deposed, Refused, Unavailable, and OutcomeUnknown. After OutcomeUnknown the caller has to
check whether the work was done before it repeats it.
"""

import threading
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, islice, repeat
from operator import itemgetter
from random import SystemRandom
from typing import NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from exuvia.base.errors import Broken, Conflict, Refused, StoreMoved, Unavailable
from exuvia.base.mysql_errors import ErrEntryTooLarge, ErrRecordFileFull
from exuvia.kv.change_log import record
from exuvia.kv.keys import MOVED, SHARE, UPDATE, is_revision, lock_header, lock_mark, row_prefix
from exuvia.kv.lock_server import LockServer
from exuvia.kv.packet import (
    JUDGED,
    LIVE,
    LONGEST_KEY,
    STAMP_BYTES,
    VALIDATED,
    AtMost,
    Committer,
    Equal,
    HeldKeys,
    Packet,
    Piece,
    RawRun,
    Requirement,
    Snapshot,
    SnapshotUse,
    Span,
    Unchanged,
    Unlocked,
    UpTo,
    View,
    Write,
    WriteKind,
    is_live,
    judge,
    stamp_of,
)
from exuvia.kv.validate import require_short

Pair = tuple[bytes, bytes]


def merged(
    committed: Iterable[Pair], own: Sequence[tuple[bytes, bytes | None]], reverse: bool
) -> Iterator[Pair]:
    """Merges committed pairs and own writes, both in key order or both reversed.

    An own write replaces the committed pair of its key; None removes it."""
    position = 0
    for key, payload in committed:
        is_overwritten = False
        while position < len(own):
            own_key, own_payload = own[position]
            if own_key < key if reverse else own_key > key:
                break
            position += 1
            is_overwritten = own_key == key
            if own_payload is not None:
                yield own_key, own_payload
        if not is_overwritten:
            yield key, payload
    for own_key, own_payload in own[position:]:
        if own_payload is not None:
            yield own_key, own_payload


# -- transaction -----------------------------------------------------------------------------------


class Lock(NamedTuple):
    """A lock of a key: the snapshot since which it is held, and the row there, to write again.

    `alone_since`: the snapshot since which it is exclusive, if it was shared before."""

    exclusive: bool
    since: View
    payload: bytes | None
    alone_since: View | None = None


Expected = tuple[int, int]
"""A position in the requirements of a transaction, and in its locks that became exclusive."""


class Private:
    """A private prefix: its table's name, the bytes written there, and their limit `room`."""

    __slots__ = ("bytes", "name", "room")

    def __init__(self, name: str, room: int) -> None:
        self.name = name
        self.room = room
        self.bytes = 0


class Unread:
    """Represents the snapshot of a transaction that has not read; the first read takes it."""

    __slots__ = ("_running", "_snapshot", "_take", "owner")

    def __init__(self, take: Callable[[], Snapshot]) -> None:
        self._take: Callable[[], Snapshot] | None = take
        self.owner: Transaction | None = None
        self._snapshot: Snapshot | None = None
        self._running = False

    def take(self) -> Snapshot:
        """Take the snapshot, also for the transaction. Raises Unavailable, 1637 as the store."""
        if self._snapshot is None:
            if self._take is None:
                raise Unavailable("the snapshot is closed")
            snapshot = self._snapshot = self._take()
            if self._running:
                snapshot.in_use(True)
            if self.owner is not None:
                self.owner.adopt(self, snapshot)
            return snapshot
        return self._snapshot

    @property
    def sequence(self) -> int:
        """The snapshot's; 0 before it is taken."""
        return 0 if self._snapshot is None else self._snapshot.sequence

    @property
    def order(self) -> int:
        """The snapshot's; 0 before it is taken."""
        return 0 if self._snapshot is None else self._snapshot.order

    @property
    def skip(self) -> int:
        return self.take().skip

    @property
    def view(self) -> View:
        return self.take().view

    def saw(self, stamp: int) -> bool:
        """False for every write before the snapshot is taken."""
        return stamp == 0 or (self._snapshot is not None and self._snapshot.saw(stamp))

    def stamps(self, raws: Sequence[bytes] | RawRun) -> NDArray[np.uint64]:
        return self.take().stamps(raws)

    def ahead(self, keys: Sequence[bytes]) -> None:
        self.take().ahead(keys)

    def get(self, key: bytes) -> bytes | None:
        return self.take().get(key)

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        return self.take().get_many(keys)

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self.take().scan(span, reverse)

    def first(self, span: Span, count: int) -> list[bytes]:
        return self.take().first(span, count)

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        return self.take().chunks(span, rows)

    def pieces(self, span: Span) -> Iterator[Piece]:
        return self.take().pieces(span)

    def count(self, span: Span, most: int = -1) -> int:
        return self.take().count(span, most)

    def require_open(self) -> None:
        self.take().require_open()

    def in_use(self, running: bool) -> None:
        """Sets it on the snapshot, or remembers it for the snapshot."""
        self._running = running
        if self._snapshot is not None:
            self._snapshot.in_use(running)

    def close(self) -> None:
        """Close the snapshot; without one, none can be taken later."""
        self._take = self.owner = None
        if self._snapshot is not None:
            self._snapshot.close()


FEW = 64
UNBOUNDED = 1 << 62
BEGINNING: "Expected" = (0, 0)
ATTEMPTS = 64
"""Attempts of a transaction that meets conflicts; they take at most 1.5 seconds."""
ONCE = 1
"""For a loop's step: its next step is the next attempt."""
FIRST_BACK_OFF_S = 0.0002
LONGEST_BACK_OFF_S = 0.05
Answer = TypeVar("Answer")
Work = Callable[["Transaction"], Answer]
KIND_AT = 9  # "r" in the key of a row, "i" in that of an index entry
LOCKABLE = (b"r", b"i")
BOTH = (UPDATE, SHARE)
_NOTHING: tuple[bool, bytes | None] = (False, None)
_payload: Callable[[bytes], bytes] = itemgetter(slice(STAMP_BYTES, None))
_new_write: Callable[[Iterable[object]], Write] = partial(tuple.__new__, Write)
_new_unchanged: Callable[[Iterable[object]], Unchanged] = partial(tuple.__new__, Unchanged)
HOLDING = frozenset({*VALIDATED, WriteKind.CLAIM})
"""Writes that conflict with locks of other transactions on their key."""


def _unbounded(size: int, writes: int) -> int:
    """The `grown` of a transaction without a limit."""
    return UNBOUNDED


class Transaction:
    """A transaction. Not thread-safe. `sequence` is the snapshot's. Ends by commit or rollback."""

    def __init__(self, store: Committer, snapshot: Snapshot) -> None:
        self.store = store
        self.snapshot = snapshot
        self._writes: list[Write] = []
        self._before: list[tuple[bool, bytes | None]] = []
        self._overlay: dict[bytes, bytes | None] = {}
        self._sorted: list[bytes] = []
        self._unsorted: list[bytes] = []
        self._requirements: dict[tuple[type, bytes], Requirement] = {}
        self._shared: set[bytes] = set()  # required, but not locked
        self._sharing: set[bytes] = set()  # locked, shared
        self._raised: list[tuple[bytes, set[bytes]]] = []  # became stronger; the set it was in
        self._fenced: tuple[tuple[bytes, int], ...] = ()
        self._channels: list[str] = []
        self.size = 0
        """Bytes of all keys and payloads written."""
        self._most_entry = self._known_room = UNBOUNDED
        self._grown: Callable[[int, int], int] = _unbounded
        self._first = snapshot
        self._newest = -1  # order of the newest snapshot over which it wrote or required
        self._later: dict[bytes, None] = {}
        self._ahead: set[bytes] = set()  # by the first KIND_AT bytes of a key
        self.undone = 0
        self.views: dict[object, object] = {}  # maintained by catalog/reader.py
        self.seen_at: dict[object, int] = {}
        """The `order` of the snapshot at a caller's last look, by the caller's key.

        For look-ups that are needed once for each commit that becomes visible."""
        self._read: tuple[Snapshot, bytes, bytes | None] = snapshot, b"", None
        self._locked: dict[bytes, Lock] = {}
        self._logged: dict[bytes, tuple[bytes, bytes | None]] = {}  # prefix, former payload
        self._private: dict[bytes, Private] = {}  # by the first KIND_AT bytes of a key
        self._spans: list[tuple[int, Snapshot]] = [(0, snapshot)]  # position in _writes
        self.free: Sequence[bytes] = ()
        """Keys that other sessions must not have locked at commit; see Packet."""
        self.locks = True
        """Whether `lock` leaves a trace. A statement alone reads one snapshot and needs none."""

    @classmethod
    def unread(cls, store: Committer, take: Callable[[], Snapshot]) -> "Transaction":
        """A transaction that calls `take` for its snapshot at its first read, or at `open`."""
        later = Unread(take)
        later.owner = txn = cls(store, later)
        return txn

    @property
    def sequence(self) -> int:
        """The sequence of its own snapshot; 0 without one."""
        return self._first.sequence

    @property
    def is_unread(self) -> bool:
        """Whether it has no snapshot yet."""
        return isinstance(self.snapshot, Unread)

    def open(self) -> None:
        """Take the snapshot now if that was not done. Raises Unavailable, 1637."""
        if isinstance(self.snapshot, Unread):
            self.snapshot.take()
        self.snapshot.require_open()

    def adopt(self, former: Unread, snapshot: Snapshot) -> None:
        """Use the snapshot that `former` has taken."""
        if self.snapshot is former:
            self.snapshot = snapshot
        self._first = snapshot
        self._spans[0] = (0, snapshot)

    # -- reading ---------------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """Payload at key, own writes first; None when absent."""
        if key in self._overlay:
            return self._overlay[key]
        raw = self.snapshot.get(key)
        self._read = self.snapshot, key, raw  # usually a write to the same key follows
        return None if raw is None else raw[STAMP_BYTES:]

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The payloads of all keys, in this order, in one call to the engine."""
        overlay = self._overlay
        if not overlay:
            raws = self.snapshot.get_many(keys)
        else:
            raws = self.snapshot.get_many([key for key in keys if key not in overlay])
        return [
            overlay[key] if key in overlay else (raw and raw[STAMP_BYTES:])
            for key, raw in ((key, raws.get(key)) for key in keys)
        ]

    def scan(
        self, span: Span, limit: int | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """(key, payload) in key order, own writes merged in, at most `limit` of them."""
        own = list(self.own_writes(span)) if self._overlay else []
        pairs = self._committed(span, reverse)
        if own:
            pairs = merged(pairs, own[::-1] if reverse else own, reverse)
        return pairs if limit is None else islice(pairs, limit)

    def decoded(
        self, span: Span, cut: int, decode: Callable[[bytes], Answer], reverse: bool = False
    ) -> Iterator[tuple[bytes, Answer]]:
        """As `scan`, but with keys cut at `cut` and with decoded payloads."""
        if self._overlay and any(True for _ in self.own_writes(span)):
            return ((key[cut:], decode(own)) for key, own in self.scan(span, reverse=reverse))
        pairs = self.snapshot.scan(span, reverse)
        return ((key[cut:], decode(raw[STAMP_BYTES:])) for key, raw in pairs)

    def few(self, span: Span, most: int) -> Iterable[bytes] | None:
        """The payloads of the span in key order, in one call to the engine.

        None if there are more than `most`, or own writes: the caller then uses `scan`."""
        if self._overlay and any(True for _ in self.own_writes(span)):
            return None
        raws = self.snapshot.first(span, most + 1)
        return None if len(raws) > most else map(_payload, raws)

    def _committed(self, span: Span, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        for key, raw in self.snapshot.scan(span, reverse):
            yield key, raw[STAMP_BYTES:]

    def own_writes(self, span: Span) -> Iterator[tuple[bytes, bytes | None]]:
        """(key, payload or None if removed) of the own writes in the span, in key order."""
        self._sort()
        first = bisect_left(self._sorted, span.start)
        for key in self._sorted[first : bisect_left(self._sorted, span.end)]:
            yield key, self._overlay[key]

    def _sort(self) -> None:
        """Sort the keys written since the last call into `_sorted`."""
        if len(self._unsorted) <= FEW:
            for key in self._unsorted:
                insort(self._sorted, key)
        else:
            self._sorted += self._unsorted
            self._sorted.sort()
        self._unsorted.clear()

    # -- own writes over a newer snapshot ----------------------------------------------------------

    @property
    def is_mixed(self) -> bool:
        """Whether it wrote over a newer snapshot than the present one."""
        return bool(self._overlay) and self.snapshot.order < self._newest

    def is_own(self, key: bytes) -> bool:
        """Whether the transaction wrote the key."""
        return key in self._overlay

    def base_of(self, key: bytes) -> int:
        """The stamp of the version that an own row replaces; 0 for a new row."""
        expected = self._requirements.get((Unchanged, key))
        return expected.stamp if isinstance(expected, Unchanged) else 0

    def write_ahead(self, physical_ids: Iterable[int]) -> None:
        """Count rows of these tables as later ones from now on.

        They are written under a later definition than that of the first snapshot. Writers may not
        maintain all of its indexes any more."""
        self._ahead.update(row_prefix(physical_id)[:KIND_AT] for physical_id in physical_ids)

    def own_later(self, prefix: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        """(key, payload or None if removed) of own later rows below the prefix.

        The version that such a row replaces is newer than the first snapshot, or the row was
        written ahead (`write_ahead`)."""
        overlay = self._overlay
        for key in self._later:
            if key.startswith(prefix) and key in overlay:
                yield key, overlay[key]

    def is_later(self, key: bytes) -> bool:
        """Whether `own_later` returns the key, if it is an own row."""
        return key in self._later

    def written_since(self, mark: int) -> list[bytes]:
        """Keys written since the mark, in order; a key may be repeated."""
        return [write.key for write in self._writes[mark:]]

    # -- writing ---------------------------------------------------------------------------------

    def put(self, key: bytes, payload: bytes) -> None:
        """Write; refused at commit if the key changed since the snapshot."""
        self.write(WriteKind.PUT, key, payload)

    def insert(self, key: bytes, payload: bytes) -> None:
        """As `put`, for a key that is absent.

        Conflict if it is present; callers that need a 1062 use `get` first."""
        if self.get(key) is not None:
            raise Conflict("insert over an existing key", key)
        self.write(WriteKind.PUT, key, payload)

    def delete(self, key: bytes) -> None:
        """Remove; refused at commit if the key changed since the snapshot."""
        self.write(WriteKind.DELETE, key, b"")

    def private(self, table_prefix: bytes, name: str, room: int) -> None:
        """Make the keys below a table's prefix private to this transaction; see the module's text.

        `room`: bytes that may be written there; beyond that 1114 with the name."""
        existing = self._private.get(table_prefix)
        if existing is None:
            self._private[table_prefix] = Private(name, room)
        else:
            existing.room = room

    def is_private(self, key: bytes) -> bool:
        """Whether the key is private to this transaction."""
        return bool(self._private) and key[:KIND_AT] in self._private

    def write(self, kind: int, key: bytes, payload: bytes) -> None:
        """Any kind of write listed in kv/packet.py.

        Raises Duplicate if a CLAIM already meets the entry of another row here. Raises Refused 1071
        for a key too long, 1114 (see `private`), and errors of the limits (see `limit`)."""
        if len(key) > LONGEST_KEY:
            require_short(key)
        size = len(key) + len(payload)
        if size > self._most_entry:
            raise ErrEntryTooLarge(self._most_entry, size)
        if self.size + size > self._known_room:
            self._known_room = self._grown(self.size + size, len(self._writes))
        if self._private and (private := self._private.get(key[:KIND_AT])) is not None:
            if payload and private.bytes + size > private.room:
                raise ErrRecordFileFull(private.name)
        else:
            private = None
            if kind in VALIDATED:
                self._expect(key, "lost update")
                if self._ahead and key[:KIND_AT] in self._ahead:
                    self._later[key] = None
        if kind <= WriteKind.PLACE:
            after: bytes | None = payload
        else:
            after = judge(kind, key, payload, self.get(key) if kind in JUDGED else None)
        overlay = self._overlay
        if key in overlay:
            self._before.append((True, overlay[key]))
        else:
            self._before.append(_NOTHING)
            self._unsorted.append(key)
        overlay[key] = after
        self._writes.append(_new_write((kind, key, payload)))
        self.size += size
        if private is not None:
            private.bytes += size

    def log(self, prefix: bytes, key: bytes) -> None:
        """Announce a write to a row: if the commit changes it, it records the former payload.

        See kv/change_log.py. Raises Conflict if the row changed since it was read."""
        if key in self._logged:
            return
        snapshot, last, raw = self._read
        if last != key or snapshot is not self.snapshot:
            raw = self.snapshot.get(key)
            self._read = self.snapshot, key, raw
        expected = self._requirements.get((Unchanged, key))
        stamp = 0 if raw is None else stamp_of(raw)
        if isinstance(expected, Unchanged) and expected.stamp != stamp:
            raise Conflict("lost update", key)
        self._logged[key] = prefix, raw and raw[STAMP_BYTES:]

    def put_new(
        self,
        rows: Sequence[bytes],
        payloads: Sequence[bytes],
        places: list[bytes],
        log: bytes = b"",
    ) -> bool:
        """PUT each row and PLACE each (live) entry, all at once, for absent rows.

        Returns False, without any write, if a row exists, a key was written or required before, or
        a limit might be exceeded. The caller then writes one by one. All keys are distinct. `log`:
        the prefix of `log`."""
        if self._overlay and not self._overlay.keys().isdisjoint(chain(rows, places)):
            return False
        if self.is_private(rows[0]) or rows[0][:KIND_AT] in self._ahead:
            return False
        required = list(zip(repeat(Unchanged), rows))
        if not self._requirements.keys().isdisjoint(required):
            return False
        key_bytes = sum(map(len, rows)) + sum(map(len, places))
        size = key_bytes + sum(map(len, payloads)) + len(places)
        longest = max(map(len, chain(rows, places)))
        most = max(max(map(len, rows)) + max(map(len, payloads)), longest + 1)
        if longest > LONGEST_KEY or most > self._most_entry or self._has_one_of(rows):
            return False
        if self.size + size > self._known_room:
            try:
                next_room = self._grown(
                    self.size + size, len(self._writes) + len(rows) + len(places)
                )
            except Refused:
                return False
            self._known_room = next_room
        unchanged = map(_new_unchanged, zip(rows, repeat(0), repeat("lost update")))
        self._requirements.update(zip(required, unchanged, strict=True))
        if self.snapshot.order > self._newest:
            self._newest = self.snapshot.order
        self._writes += map(_new_write, zip(repeat(WriteKind.PLACE), places, repeat(LIVE)))
        self._writes += map(_new_write, zip(repeat(WriteKind.PUT), rows, payloads))
        self._before += [_NOTHING] * (len(places) + len(rows))
        self._unsorted += places
        self._unsorted += rows
        self._overlay.update(dict.fromkeys(places, LIVE))
        self._overlay.update(zip(rows, payloads, strict=True))
        if log:
            self._logged.update(dict.fromkeys(rows, (log, None)))
        self.size += size
        return True

    def remove_all(self, keys: list[bytes]) -> None:
        """REMOVE all keys at once. They are distinct and not longer than LONGEST_KEY.

        Raises errors of the limits."""
        if self._private:
            for key in keys:
                self.write(WriteKind.REMOVE, key, b"")
            return
        size = sum(map(len, keys))
        if self.size + size > self._known_room:
            self._known_room = self._grown(self.size + size, len(self._writes) + len(keys))
        overlay = self._overlay
        if not overlay or overlay.keys().isdisjoint(keys):
            self._before += [_NOTHING] * len(keys)
            self._unsorted += keys
        else:
            self._before += [(key in overlay, overlay.get(key)) for key in keys]
            self._unsorted += [key for key in keys if key not in overlay]
        self._writes += map(_new_write, zip(repeat(WriteKind.REMOVE), keys, repeat(b"")))
        overlay.update(dict.fromkeys(keys))
        self.size += size

    def _has_one_of(self, keys: Sequence[bytes]) -> bool:
        """Whether the snapshot has one of the keys. New ids follow all others: one scan."""
        low, high = min(keys), max(keys)
        if next(iter(self.snapshot.scan(Span(low, high + b"\0"))), None) is None:
            return False
        return bool(self.snapshot.get_many(list(keys)))

    def limit(self, entry_bytes: int, room: int, grown: Callable[[int, int], int]) -> None:
        """Set limits: a larger entry raises 8025; beyond `room` bytes `grown(bytes, writes)` is
        called. It raises, or returns the next `room`."""
        self._most_entry, self._known_room, self._grown = entry_bytes, room, grown

    def require(self, key: bytes, shared: bool = False) -> None:
        """Refuse the commit if the key, present or absent, has changed: prevents write skew.

        `shared`: other transactions may require it at the same time, see `shared_since`."""
        if shared and (Unchanged, key) not in self._requirements:
            self._shared.add(key)
        self._expect(key, "write skew")

    def lock(self, key: bytes, exclusive: bool = True) -> None:
        """Refuse the commit if another transaction locks the key between this snapshot and then.

        The key is that of a row, present or absent, or of a unique index entry. A lock that is not
        `exclusive` can be shared."""
        if self.is_private(key):
            return
        self._raise(key, exclusive)
        self._expect(key, "write skew")
        previous = self._locked.get(key)
        if not self.locks or (previous is not None and previous.exclusive >= exclusive):
            return
        raw = self.snapshot.get(key) if exclusive else None
        payload = None if raw is None else raw[STAMP_BYTES:]
        now = self.snapshot.view
        since = now if previous is None else previous.since
        self._locked[key] = Lock(exclusive, since, payload, None if previous is None else now)

    def _raise(self, key: bytes, exclusive: bool) -> None:
        """Record the former strength of a lock that becomes stronger."""
        before = next((s for s in (self._shared, self._sharing) if key in s), None)
        if before is None:
            if not exclusive and (Unchanged, key) not in self._requirements:
                self._sharing.add(key)
        elif exclusive or before is self._shared:
            before.remove(key)
            self._raised.append((key, before))
            if not exclusive:
                self._sharing.add(key)

    def _expect(self, key: bytes, anomaly: str) -> None:
        required = Unchanged, key
        if required not in self._requirements:
            snapshot, last, raw = self._read
            if last != key or snapshot is not self.snapshot:
                raw = self.snapshot.get(key)
            stamp = 0 if raw is None else stamp_of(raw)
            self._requirements[required] = _new_unchanged((key, stamp, anomaly))
            if self.snapshot is not self._first:
                if not self._first.saw(stamp):
                    self._later[key] = None
                if self.snapshot.order > self._newest:
                    self._newest = self.snapshot.order

    def require_equal(self, key: bytes, payload: bytes) -> None:
        """Raise Deposed at commit unless the key has this payload: an epoch."""
        self._requirements[Equal, key] = Equal(key, payload)

    def require_this(self, requirement: Equal) -> None:
        """As `require_equal`, with a requirement that many transactions share."""
        self._requirements[Equal, requirement.key] = requirement

    def require_at_most(self, key: bytes, limit: int) -> None:
        """Raise SchemaChanged at commit unless the key has a number <= limit: a revision.

        The lowest limit counts."""
        previous = self._requirements.get((AtMost, key))
        if previous is None or (isinstance(previous, AtMost) and limit < previous.limit):
            self._requirements[AtMost, key] = AtMost(key, limit)

    def fence(self, fences: tuple[tuple[bytes, int], ...]) -> None:
        """Call `require_at_most` for each fence, once per tuple of fences."""
        if self._fenced is not fences:
            for key, limit in fences:
                self.require_at_most(key, limit)
            self._fenced = fences

    def notify(self, channel: str) -> None:
        """Wake the waiters of the channel after the commit."""
        if channel not in self._channels:
            self._channels.append(channel)

    # -- savepoints and the end ------------------------------------------------------------------

    def mark(self) -> int:
        """A position for `back_to` (savepoint, statement atomicity)."""
        return len(self._writes)

    def read_from(self, snapshot: Snapshot) -> Snapshot:
        """Read from another snapshot from now on. Returns the former one."""
        former, self.snapshot = self.snapshot, snapshot
        spans, position = self._spans, len(self._writes)
        while spans and spans[-1][0] >= position:
            spans.pop()
        spans.append((position, snapshot))
        return former

    def keep_view(self) -> None:
        """Make the present snapshot the transaction's own.

        Allowed if it has read and written only through this one."""
        self._first = self.snapshot
        self._newest = -1
        self._later.clear()
        self._ahead.clear()
        self.undone += 1

    def expecting(self) -> Expected:
        """The position in the requirements, for `touched_since` and `forget_expected`."""
        return len(self._requirements), len(self._raised)

    def touched_since(self, mark: int, expecting: Expected) -> list[bytes]:
        """Keys that the transaction wrote, required or locked since then.

        These are rows, and unique entries claimed or released. Entries of plain indexes belong to
        their rows."""
        shared, sharing = self._shared, self._sharing
        newest = islice(reversed(self._requirements), len(self._requirements) - expecting[0])
        if not shared and not sharing:
            keys = [key for kind, key, _ in self._writes[mark:] if kind in JUDGED]
            keys += [key for kind, key in newest if kind is Unchanged]
        else:
            weak = shared | sharing
            keys = [w.key for w in self._writes[mark:] if w.kind in JUDGED or w.key in weak]
            keys += [key for kind, key in newest if kind is Unchanged and key not in weak]
        if len(self._raised) > expecting[1]:
            keys += [key for key, _ in self._raised[expecting[1] :] if key not in sharing]
        return [key for key in keys if not self.is_private(key)] if self._private else keys

    @property
    def shares(self) -> bool:
        """Whether it requires or locks keys that others may require or lock, too."""
        return bool(self._shared or self._sharing)

    def shared_since(self, expecting: Expected) -> list[bytes]:
        """Keys that were required as shared since then: other transactions must not write them."""
        return self._weak_since(self._shared, expecting)

    def sharing_since(self, expecting: Expected) -> list[bytes]:
        """Keys that were locked as shared since then."""
        return self._weak_since(self._sharing, expecting)

    def _weak_since(self, weak: set[bytes], expecting: Expected) -> list[bytes]:
        if not weak:
            return []
        newest = islice(reversed(self._requirements), len(self._requirements) - expecting[0])
        keys = [key for kind, key in newest if kind is Unchanged and key in weak]
        return keys + [key for key, _ in self._raised[expecting[1] :] if key in weak]

    def has_changed(self, keys: Sequence[bytes], view: Snapshot) -> bool:
        """Whether one of these keys is no longer as this transaction requires it."""
        raws = view.get_many(list(keys))
        for key in keys:
            expected, raw = self._requirements.get((Unchanged, key)), raws.get(key)
            stamp = 0 if raw is None else stamp_of(raw)
            if isinstance(expected, Unchanged) and expected.stamp != stamp:
                return True
        return False

    def forget_expected(self, expecting: Expected) -> None:
        """Forget the requirements after that position, for writes and reads that are undone."""
        self._fenced = ()
        while len(self._raised) > expecting[1]:
            key, before = self._raised.pop()
            self._sharing.discard(key)
            before.add(key)
            lock = self._locked.get(key)
            if lock is not None and before is self._sharing:
                self._locked[key] = Lock(False, lock.since, None)
            elif lock is not None:
                del self._locked[key]  # it was only required, not locked
        while len(self._requirements) > expecting[0]:
            key = self._requirements.popitem()[0][1]
            self._shared.discard(key)
            self._sharing.discard(key)
            self._later.pop(key, None)
            self._locked.pop(key, None)
            self._logged.pop(key, None)

    def forget_limits(self, expecting: Expected) -> None:
        """Forget the revisions required after that position.

        For tables whose later writes are all undone. Locked keys stay required."""
        self._fenced = ()
        newest = islice(reversed(self._requirements), len(self._requirements) - expecting[0])
        for required in [r for r in newest if r[0] is AtMost and is_revision(r[1])]:
            del self._requirements[required]

    def back_to(self, mark: int, keep_locks: bool = False) -> None:
        """Undo the writes after the mark.

        Requirements stay: they can only make the commit stricter. `keep_locks`: keys written after
        the mark stay locked. Reads nothing, so it works even after the snapshot has ended. The
        cost depends on the number of undone writes."""
        if keep_locks:
            for since, write in self._holding_writes(mark):
                if write.key not in self._locked:
                    self._locked[write.key] = Lock(True, since, None)
        forgotten = set()
        while len(self._writes) > mark:
            _, key, written = self._writes.pop()
            self.size -= len(key) + len(written)
            if self._private and (private := self._private.get(key[:KIND_AT])) is not None:
                private.bytes -= len(key) + len(written)
            had_value, payload = self._before.pop()
            if had_value:
                self._overlay[key] = payload
            else:
                del self._overlay[key]
                forgotten.add(key)
        self.undone += 1
        if forgotten:
            self._sorted = [key for key in self._sorted if key not in forgotten]
            self._unsorted = [key for key in self._unsorted if key not in forgotten]

    @property
    def has_writes(self) -> bool:
        """Whether a commit would change the store."""
        return bool(self._locked or self._committed_writes())

    @property
    def write_count(self) -> int:
        """How many keys a commit would write or validate as locked."""
        return len(self._writes) + len(self._locked)

    def _committed_writes(self) -> list[Write]:
        """All writes that are not private."""
        private = self._private
        if not private:
            return self._writes
        return [write for write in self._writes if write.key[:KIND_AT] not in private]

    def packet(self) -> Packet:
        """The transaction as data for the engine."""
        requirements = [*self._requirements.values(), *self._unlocked()]
        writes = self._committed_writes()
        writes = [*writes, *self._traces()] if self._locked else writes
        log = list(self._records()) if self._logged else ()
        return Packet(writes, requirements, self._channels, self.free, log)

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        overlay = self._overlay
        for key, (prefix, before) in self._logged.items():
            if key in overlay and overlay[key] != before:
                yield prefix, record(key, before)

    def _holding_writes(self, mark: int = 0) -> Iterator[tuple[View, Write]]:
        """Rows written and unique entries claimed since the mark, and by which snapshot."""
        ends = [begin for begin, _ in self._spans[1:]] + [len(self._writes)]
        for (begin, since), end in zip(self._spans, ends, strict=True):
            for write in self._writes[max(begin, mark) : end]:
                if (
                    write.kind in HOLDING
                    and write.key[:1] == b"t"
                    and write.key[KIND_AT : KIND_AT + 1] in LOCKABLE
                    and not self.is_private(write.key)
                ):
                    yield since.view, write

    def _unlocked(self) -> list[Requirement]:
        """Requires, by table, that no other transaction has locked the held keys."""
        tables: dict[bytes, dict[tuple[View, tuple[bytes, ...]], list[bytes]]] = {}
        writes, end = self._writes, len(self._writes)
        held_keys: dict[tuple[bytes, View], list[bytes]] = {}
        for begin, snapshot in reversed(self._spans):
            since = None
            for kind, key, _ in writes[begin:end]:
                if kind in HOLDING and key[:1] == b"t" and key[KIND_AT : KIND_AT + 1] in LOCKABLE:
                    if since is None:
                        since = snapshot.view
                    held_keys.setdefault((key[:KIND_AT], since), []).append(key)
            end = begin
        for (table, since), keys in held_keys.items():
            if table in self._private:
                continue
            tables.setdefault(lock_header(keys[0]), {})[since, BOTH] = keys
        for key, lock in self._locked.items():
            groups = tables.setdefault(lock_header(key), {})
            modes = BOTH if lock.exclusive and not lock.alone_since else (UPDATE,)
            groups.setdefault((lock.since, modes), []).append(key)
            if lock.alone_since:
                groups.setdefault((lock.alone_since, (SHARE,)), []).append(key)
        return [
            Unlocked(header, [HeldKeys(*how, keys) for how, keys in groups.items()])
            for header, groups in tables.items()
        ]

    def _traces(self) -> Iterator[Write]:
        """The writes by which locks become visible to others, for keys that are not written."""
        headers = set()
        for key, (exclusive, _, payload, _) in self._locked.items():
            if key in self._overlay:
                if payload is not None or self._overlay[key] is not None:
                    continue
            elif payload is not None:
                if key[KIND_AT : KIND_AT + 1] == b"r":
                    yield Write(WriteKind.PUT, key, payload)
                    continue
                if is_live(payload):
                    continue  # the entry of a row that is locked, too
            yield Write(WriteKind.PLACE, lock_mark(UPDATE if exclusive else SHARE, key), b"")
            headers.add(lock_header(key))
        for header in headers:
            yield Write(WriteKind.PLACE, header, b"")

    def commit(self) -> int:
        """Validate and apply everything. Returns its sequence; without writes the snapshot's."""
        try:
            if not self._channels and not self.has_writes:
                return self.sequence
            return self.store.commit(self.packet())
        finally:
            self.rollback()

    def rollback(self) -> None:
        """Close the snapshot and discard all writes. A second call is harmless."""
        self.snapshot.close()


class ManagedTransaction(Transaction):
    """A transaction that `read` or `transact` ends. Writes in a `read` are discarded."""

    def commit(self) -> NoReturn:
        raise Broken("a transaction of read() or transact() is not committed by its user")

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *_: object) -> None:
        self.rollback()


def require_here(txn: Transaction) -> None:
    """Raises StoreMoved if the whole store was moved to another one."""
    moved = txn.get(MOVED)
    if moved is not None:
        raise StoreMoved(moved.decode())


class Changes(NamedTuple):
    """Pairs written since a position, and the next position."""

    pairs: list[Pair]
    position: str


class TransactionalStore(ABC):
    """Implements transactions for a store with `snapshot` and `commit`; see the module's text."""

    @property
    def near(self) -> bool:
        return True

    def lock_server(self) -> LockServer | None:
        return None

    def free_bytes(self) -> int | None:
        return None

    @property
    def folder(self) -> str | None:
        return None

    @abstractmethod
    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> Snapshot: ...

    @abstractmethod
    def commit(self, packet: Packet) -> int: ...

    def begin(self) -> Transaction:
        return Transaction(self, self.snapshot())

    def read(self) -> ManagedTransaction:
        return ManagedTransaction(self, self.snapshot(SnapshotUse.LOOK))

    def transact(self, work: Work[Answer], attempts: int = ATTEMPTS) -> Answer:
        attempt = 0
        while True:
            txn = ManagedTransaction(self, self.snapshot(SnapshotUse.LOOK))
            try:
                answer = work(txn)
                Transaction.commit(txn)
                return answer
            except Conflict:
                attempt += 1
                if attempt >= attempts:
                    raise
            finally:
                txn.rollback()
            self.back_off(attempt - 1)

    def changes(self, span: Span, after: str = "") -> Changes:
        base = self.view_at(after)
        with closing(self.snapshot()) as snapshot:
            pairs = [
                (key, raw[STAMP_BYTES:])
                for keys, raws in snapshot.chunks(span)
                for key, raw in zip(keys, raws, strict=True)
                if base is None or not base.saw(stamp_of(raw))
            ]
            return Changes(pairs, snapshot.view.position)

    def view_at(self, position: str) -> View | None:
        """The view of a position's text; None for the position before all commits."""
        return UpTo(position) if position else None

    def back_off(self, attempt: int) -> None:
        longest = FIRST_BACK_OFF_S * 2 ** min(attempt, 16)
        _never.wait(_chance.uniform(0, min(longest, LONGEST_BACK_OFF_S)))


_never = threading.Event()
_chance = SystemRandom()  # without a state: forked processes must not wait in step
