"""A transaction: one snapshot, buffered writes read through, one packet at the end. The same on
every engine.

Writes are kept in order per key, because a judged entry (kv/packet.py) may be released and claimed
again in one transaction; a read folds them over the snapshot, exactly as the commit will fold them
over what it finds.

A scan sees the transaction as it was when the scan was asked for: what is written meanwhile
changes nothing of it.

`lock` says of a key that nobody else may hold it between now and the commit, present or absent,
written by this transaction or not. The lock itself is somebody else's matter (cluster/row_locks.py)
and may be lost; the commit finds out, because who held a key leaves a trace where it commits:

    held by               leaves                           is refused if since it held the key
    a write               the row's (entry's) new version  the key changed, or has a mark
    lock, present row     the row as it stands, anew       the key changed, or has a mark
    lock, nothing there   a mark "x"                       the key changed, or has a mark
    shared lock           a mark "s"                       the key changed, or has a mark "x"

A shared lock that becomes exclusive is refused for marks "x" since it was shared, and for marks "s"
since it is exclusive: others shared the key with it before.

One that `unread` has begun takes its snapshot with its first read. Until then it holds nothing of
the store: an engine may have few snapshots, and clients begin more than they read.

`read_from` lends it another snapshot for one statement (a current read): what that statement
writes expects the keys as they stand there, what it has written before is read through as ever.

Own writes made over a newer snapshot than the one that is read now (`is_mixed`) no longer fit its
keys one by one: an own row may have an entry that nobody wrote here (its value is as another
transaction left it), and the old snapshot an entry of what that row was. Keys of rows stay true;
whoever reads index entries asks `base_of` and `own_later` (catalog/reader.py).

What is written below a prefix that is `private` is read through and undone as all else, and is in
no packet: nobody else can meet it, so it is neither required nor locked, and it is gone when the
transaction ends, however that is.

Three ways to have one of a store, which every engine inherits (`TransactionalStore`):

    with store.read() as txn:   a look at one snapshot; it ends with the block, whatever happens
    store.transact(work)        work(txn), then its commit; all of it again on a new snapshot where
                                others committed first (Conflict)
    txn = store.begin()         ended by its holder, over many calls: a client's transaction

One rule says how often and how fast: ATTEMPTS times, each after a wait at random, below
FIRST_BACK_OFF_S at first, twice as long each time, at most LONGEST_BACK_OFF_S (`back_off`); no
snapshot is held meanwhile. Then the last Conflict is raised. Every other error is raised at once:
Deposed, Refused, Unavailable, and OutcomeUnknown, after which nobody may do the work again without
a look whether it was done."""

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
from exuvia.kv.keys import MOVED, SHARE, UPDATE, is_revision, lock_header, lock_mark
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
    """Both in key order, or both reversed; where both have a key, the own write counts, and None
    there means that nothing stands."""
    position = 0
    for key, payload in committed:
        hidden = False
        while position < len(own):
            own_key, own_payload = own[position]
            if own_key < key if reverse else own_key > key:
                break
            position += 1
            hidden = own_key == key
            if own_payload is not None:
                yield own_key, own_payload
        if not hidden:
            yield key, payload
    for own_key, own_payload in own[position:]:
        if own_payload is not None:
            yield own_key, own_payload


# -- transaction -----------------------------------------------------------------------------------


class Lock(NamedTuple):
    """A lock of a key: since which snapshot, and the row it found there to be written anew.

    `alone_since`: since which snapshot it is exclusive, where it was shared before."""

    exclusive: bool
    since: View
    payload: bytes | None
    alone_since: View | None = None


Expected = tuple[int, int]
"""A point in what a transaction requires, and in its locks that became stronger."""


class Private:
    """Of a prefix that is this transaction's alone: a table's name, how many bytes of keys and
    payloads were written there, and how many may be."""

    __slots__ = ("bytes", "name", "room")

    def __init__(self, name: str, room: int) -> None:
        self.name = name
        self.room = room
        self.bytes = 0


class Unread:
    """The snapshot that a transaction has not taken yet; the first read takes it."""

    __slots__ = ("_running", "_take", "_taken", "owner")

    def __init__(self, take: Callable[[], Snapshot]) -> None:
        self._take: Callable[[], Snapshot] | None = take
        self.owner: Transaction | None = None
        self._taken: Snapshot | None = None
        self._running = False

    def take(self) -> Snapshot:
        """Take it, for the transaction too. Raises Unavailable, 1637 as the store does."""
        if self._taken is None:
            if self._take is None:
                raise Unavailable("the snapshot is closed")
            taken = self._taken = self._take()
            if self._running:
                taken.in_use(True)
            if self.owner is not None:
                self.owner.taken(self, taken)
            return taken
        return self._taken

    @property
    def sequence(self) -> int:
        """0 while it is not taken."""
        return 0 if self._taken is None else self._taken.sequence

    @property
    def order(self) -> int:
        """0 while it is not taken."""
        return 0 if self._taken is None else self._taken.order

    @property
    def skip(self) -> int:
        return self.take().skip

    @property
    def view(self) -> View:
        return self.take().view

    def saw(self, stamp: int) -> bool:
        """Not taken, it sees nothing that was written."""
        return stamp == 0 or (self._taken is not None and self._taken.saw(stamp))

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
        """As the snapshot, as soon as there is one."""
        self._running = running
        if self._taken is not None:
            self._taken.in_use(running)

    def close(self) -> None:
        """Give it back, or never take it."""
        self._take = self.owner = None
        if self._taken is not None:
            self._taken.close()


Own = list[tuple[bytes, bytes | None]]
FEW = 64
UNBOUNDED = 1 << 62
BEGINNING: "Expected" = (0, 0)
ATTEMPTS = 64
"""How often a transaction is tried that loses to others. A second and a half at most."""
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
"""Writes that hold their key against the locks of others."""


def _unbounded(size: int, writes: int) -> int:
    """More of a transaction may be written, whatever there is."""
    return UNBOUNDED


class Transaction:
    """Not thread-safe. `sequence` is the snapshot's. Ends with `commit` or `rollback`."""

    def __init__(self, store: Committer, snapshot: Snapshot) -> None:
        self.store = store
        self.snapshot = snapshot
        self._writes: list[Write] = []
        self._before: list[tuple[bool, bytes | None]] = []
        self._overlay: dict[bytes, bytes | None] = {}
        self._sorted: list[bytes] = []
        self._unsorted: list[bytes] = []
        self._requirements: dict[tuple[type, bytes], Requirement] = {}
        self._shared: set[bytes] = set()  # required, and taken by nobody
        self._sharing: set[bytes] = set()  # locked, and others may too
        self._raised: list[tuple[bytes, set[bytes]]] = []  # stronger than it was: where it stood
        self._fenced: tuple[tuple[bytes, int], ...] = ()
        self._channels: list[str] = []
        self.size = 0
        """Bytes of all keys and payloads written."""
        self._most_entry = self._known_room = UNBOUNDED
        self._grown: Callable[[int, int], int] = _unbounded
        self._first = snapshot
        self._newest = -1  # of later ones, that something was written or required over
        self._later: dict[bytes, None] = {}
        self.undone = 0
        self.views: dict[object, object] = {}  # of catalog/reader.py: it keeps them up itself
        self.seen_at: dict[object, int] = {}
        """Of whoever looks something up once for each commit that is read: at which `order`."""
        self._read: tuple[Snapshot, bytes, bytes | None] = snapshot, b"", None
        self._locked: dict[bytes, Lock] = {}
        self._logged: dict[bytes, tuple[bytes, bytes | None]] = {}  # prefix, what stood there
        self._private: dict[bytes, Private] = {}  # by the first KIND_AT bytes of a key
        self._spans: list[tuple[int, Snapshot]] = [(0, snapshot)]  # position in _writes
        self.free: Sequence[bytes] = ()
        """Keys that nobody else may have locked when it commits; see Packet."""
        self.locks = True
        """Whether `lock` leaves a trace: a statement alone reads one snapshot and needs none."""

    @classmethod
    def unread(cls, store: Committer, take: Callable[[], Snapshot]) -> "Transaction":
        """One that has only begun: `take` is called when it first reads, or by `open`."""
        later = Unread(take)
        later.owner = begun = cls(store, later)
        return begun

    @property
    def sequence(self) -> int:
        """Its own snapshot's; 0 while there is none."""
        return self._first.sequence

    @property
    def is_unread(self) -> bool:
        """Whether it has no snapshot yet."""
        return isinstance(self.snapshot, Unread)

    def open(self) -> None:
        """Take the snapshot now, if it has none yet. Raises Unavailable, 1637."""
        if isinstance(self.snapshot, Unread):
            self.snapshot.take()
        self.snapshot.require_open()

    def taken(self, former: Unread, snapshot: Snapshot) -> None:
        """The snapshot was taken."""
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
        self._read = self.snapshot, key, raw  # the next look is mostly of a write to the same key
        return None if raw is None else raw[STAMP_BYTES:]

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """`get` for each key, in the order given; one call to the engine."""
        overlay = self._overlay
        if not overlay:
            found = self.snapshot.get_many(keys)
        else:
            found = self.snapshot.get_many([key for key in keys if key not in overlay])
        return [
            overlay[key] if key in overlay else (raw and raw[STAMP_BYTES:])
            for key, raw in ((key, found.get(key)) for key in keys)
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
        """As `scan`: each key from `cut` on, with what is decoded of its payload."""
        if self._overlay and any(True for _ in self.own_writes(span)):
            return ((key[cut:], decode(each)) for key, each in self.scan(span, reverse=reverse))
        found = self.snapshot.scan(span, reverse)
        return ((key[cut:], decode(raw[STAMP_BYTES:])) for key, raw in found)

    def few(self, span: Span, most: int) -> Iterable[bytes] | None:
        """The payloads of the span in key order. None where there are more than `most`, or own
        writes: for `scan` to say."""
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
        """Bring the keys written since the last time in."""
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
        """Whether something was written over a newer snapshot than the one that is read now."""
        return bool(self._overlay) and self.snapshot.order < self._newest

    def is_own(self, key: bytes) -> bool:
        """Whether the transaction wrote the key."""
        return key in self._overlay

    def base_of(self, key: bytes) -> int:
        """The stamp of what an own row was written over; 0: there was none."""
        found = self._requirements.get((Unchanged, key))
        return found.stamp if isinstance(found, Unchanged) else 0

    def own_later(self, prefix: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        """(key, payload or None if removed) of own rows below the prefix that were written over
        what the first snapshot does not have."""
        overlay = self._overlay
        for key in self._later:
            if key.startswith(prefix) and key in overlay:
                yield key, overlay[key]

    def is_later(self, key: bytes) -> bool:
        """Whether `own_later` has it, if it is an own row."""
        return key in self._later

    def written_since(self, mark: int) -> list[bytes]:
        """Keys written since then, in order, maybe more than once."""
        return [each.key for each in self._writes[mark:]]

    # -- writing ---------------------------------------------------------------------------------

    def put(self, key: bytes, payload: bytes) -> None:
        """Write; refused at commit if the key changed since the snapshot."""
        self.write(WriteKind.PUT, key, payload)

    def insert(self, key: bytes, payload: bytes) -> None:
        """As put, for a key that is absent.

        Conflict where it is not; look with `get` first for a 1062."""
        if self.get(key) is not None:
            raise Conflict("insert over an existing key", key)
        self.write(WriteKind.PUT, key, payload)

    def delete(self, key: bytes) -> None:
        """Remove; refused at commit if the key changed since the snapshot."""
        self.write(WriteKind.DELETE, key, b"")

    def private(self, table_prefix: bytes, name: str, room: int) -> None:
        """From now on what is below a table's prefix is this transaction's alone: see the module.
        `room`: how many bytes may be written there; then 1114, with the name."""
        known = self._private.get(table_prefix)
        if known is None:
            self._private[table_prefix] = Private(name, room)
        else:
            known.room = room

    def is_private(self, key: bytes) -> bool:
        """Whether the key is this transaction's alone."""
        return bool(self._private) and key[:KIND_AT] in self._private

    def write(self, kind: int, key: bytes, payload: bytes) -> None:
        """Any write of kv/packet.py's table.

        Raises Duplicate where a CLAIM meets another row's entry already here, Refused 1071 for a
        key too long, 1114 (see `private`), and what `limit` says."""
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
        """The row is written next: if the commit changes it, it leaves a record of what stood there
        (kv/change_log.py). Raises Conflict where that is no longer what it has read."""
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
        """PUT of each row and PLACE of each (live) entry, all at once, where nothing stands at the
        rows' keys and this transaction has neither written nor required one of the keys. False,
        and nothing is written, where that is not so or a limit might say something: then they are
        to be written one by one. All keys are distinct. `log`: as the prefix of `log`."""
        if self._overlay and not self._overlay.keys().isdisjoint(chain(rows, places)):
            return False
        if self.is_private(rows[0]):
            return False
        required = list(zip(repeat(Unchanged), rows))
        if not self._requirements.keys().isdisjoint(required):
            return False
        key_bytes = sum(map(len, rows)) + sum(map(len, places))
        size = key_bytes + sum(map(len, payloads)) + len(places)
        longest = max(map(len, chain(rows, places)))
        most = max(max(map(len, rows)) + max(map(len, payloads)), longest + 1)
        if longest > LONGEST_KEY or most > self._most_entry or self._stands_one_of(rows):
            return False
        if self.size + size > self._known_room:
            try:
                known = self._grown(self.size + size, len(self._writes) + len(rows) + len(places))
            except Refused:
                return False
            self._known_room = known
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
        """REMOVE of each, all at once; they are distinct, and as long as keys of the store are.
        Raises what `limit` says."""
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

    def _stands_one_of(self, keys: Sequence[bytes]) -> bool:
        """Whether the snapshot has one of the keys. New ids lie behind all others: one look."""
        low, high = min(keys), max(keys)
        if next(iter(self.snapshot.scan(Span(low, high + b"\0"))), None) is None:
            return False
        return bool(self.snapshot.get_many(list(keys)))

    def limit(self, entry_bytes: int, room: int, grown: Callable[[int, int], int]) -> None:
        """From now on an entry larger than that is 8025, and `grown(bytes, writes)` is asked when
        more than `room` bytes are written: it raises, or says when to ask again."""
        self._most_entry, self._known_room, self._grown = entry_bytes, room, grown

    def require(self, key: bytes, shared: bool = False) -> None:
        """The key must not have changed when this commits, present or absent:

        no write skew through it. `shared`: many may require it at a time, see `shared_since`."""
        if shared and (Unchanged, key) not in self._requirements:
            self._shared.add(key)
        self._expect(key, "write skew")

    def lock(self, key: bytes, exclusive: bool = True) -> None:
        """Nobody else may hold the key from this snapshot to the commit: a row, there or not, or
        the entry of a unique index. One that is not `exclusive` lets others share it."""
        if self.is_private(key):
            return
        self._raise(key, exclusive)
        self._expect(key, "write skew")
        known = self._locked.get(key)
        if not self.locks or (known is not None and known.exclusive >= exclusive):
            return
        raw = self.snapshot.get(key) if exclusive else None
        payload = None if raw is None else raw[STAMP_BYTES:]
        now = self.snapshot.view
        since = now if known is None else known.since
        self._locked[key] = Lock(exclusive, since, payload, None if known is None else now)

    def _raise(self, key: bytes, exclusive: bool) -> None:
        """Note what the lock was before, where it becomes stronger."""
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
        """The key must hold exactly this when this commits, else Deposed: an epoch."""
        self._requirements[Equal, key] = Equal(key, payload)

    def require_this(self, requirement: Equal) -> None:
        """The same, of a requirement that is made once for many transactions."""
        self._requirements[Equal, requirement.key] = requirement

    def require_at_most(self, key: bytes, limit: int) -> None:
        """The key must hold a number <= limit when this commits, else SchemaChanged: a revision.

        The least limit wins."""
        known = self._requirements.get((AtMost, key))
        if known is None or (isinstance(known, AtMost) and limit < known.limit):
            self._requirements[AtMost, key] = AtMost(key, limit)

    def fence(self, fences: tuple[tuple[bytes, int], ...]) -> None:
        """`require_at_most` of each; once, for what asks again and again for the same."""
        if self._fenced is not fences:
            for key, limit in fences:
                self.require_at_most(key, limit)
            self._fenced = fences

    def notify(self, channel: str) -> None:
        """Wake those who wait on the channel once this has committed."""
        if channel not in self._channels:
            self._channels.append(channel)

    # -- savepoints and the end ------------------------------------------------------------------

    def mark(self) -> int:
        """A point to come back to with `back_to` (savepoint, statement atomicity)."""
        return len(self._writes)

    def read_from(self, snapshot: Snapshot) -> Snapshot:
        """Read from another snapshot from now on; gives back the one it read from."""
        former, self.snapshot = self.snapshot, snapshot
        spans, position = self._spans, len(self._writes)
        while spans and spans[-1][0] >= position:
            spans.pop()
        spans.append((position, snapshot))
        return former

    def keep_view(self) -> None:
        """The snapshot that is read now is the transaction's own from now on. For one that has read
        and written through no other."""
        self._first = self.snapshot
        self._newest = -1
        self._later.clear()
        self.undone += 1

    def expecting(self) -> Expected:
        """How much is required so far: a point for `touched_since` and `forget_expected`."""
        return len(self._requirements), len(self._raised)

    def touched_since(self, mark: int, expecting: Expected) -> list[bytes]:
        """Keys that became this transaction's own since then: rows written or required, unique
        entries claimed or let go. Entries of plain indexes belong to their rows."""
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
        """Whether it requires or locks anything that others may too."""
        return bool(self._shared or self._sharing)

    def shared_since(self, expecting: Expected) -> list[bytes]:
        """Keys required since then that others may require too: nobody may write them."""
        return self._weak_since(self._shared, expecting)

    def sharing_since(self, expecting: Expected) -> list[bytes]:
        """Keys locked since then that others may lock likewise."""
        return self._weak_since(self._sharing, expecting)

    def _weak_since(self, weak: set[bytes], expecting: Expected) -> list[bytes]:
        if not weak:
            return []
        newest = islice(reversed(self._requirements), len(self._requirements) - expecting[0])
        keys = [key for kind, key in newest if kind is Unchanged and key in weak]
        return keys + [key for key, _ in self._raised[expecting[1] :] if key in weak]

    def has_changed(self, keys: Sequence[bytes], view: Snapshot) -> bool:
        """Whether one of these is no longer as this transaction requires it."""
        found = view.get_many(list(keys))
        for key in keys:
            expected, raw = self._requirements.get((Unchanged, key)), found.get(key)
            stamp = 0 if raw is None else stamp_of(raw)
            if isinstance(expected, Unchanged) and expected.stamp != stamp:
                return True
        return False

    def forget_expected(self, expecting: Expected) -> None:
        """Forget what was required after that point, for writes and reads that are undone."""
        self._fenced = ()
        while len(self._raised) > expecting[1]:
            key, before = self._raised.pop()
            self._sharing.discard(key)
            before.add(key)
            known = self._locked.get(key)
            if known is not None and before is self._sharing:
                self._locked[key] = Lock(False, known.since, None)
            elif known is not None:
                del self._locked[key]  # it was only required
        while len(self._requirements) > expecting[0]:
            key = self._requirements.popitem()[0][1]
            self._shared.discard(key)
            self._sharing.discard(key)
            self._later.pop(key, None)
            self._locked.pop(key, None)
            self._logged.pop(key, None)

    def forget_limits(self, expecting: Expected) -> None:
        """Forget the revisions required after that point, for tables whose later writes are all
        undone. Locked keys stay required."""
        self._fenced = ()
        newest = islice(reversed(self._requirements), len(self._requirements) - expecting[0])
        for required in [each for each in newest if each[0] is AtMost and is_revision(each[1])]:
            del self._requirements[required]

    def back_to(self, mark: int, keep_locks: bool = False) -> None:
        """Forget the writes made after the mark.

        Requirements stay: they can only make the commit stricter. `keep_locks`: what was written
        stays locked.

        Reads nothing, so it works even when the snapshot has ended; costs what it forgets."""
        if keep_locks:
            for since, write in self._held(mark):
                if write.key not in self._locked:
                    self._locked[write.key] = Lock(True, since, None)
        forgotten = set()
        while len(self._writes) > mark:
            _, key, written = self._writes.pop()
            self.size -= len(key) + len(written)
            if self._private and (private := self._private.get(key[:KIND_AT])) is not None:
                private.bytes -= len(key) + len(written)
            known, payload = self._before.pop()
            if known:
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
        """Without those that are private."""
        private = self._private
        if not private:
            return self._writes
        return [write for write in self._writes if write.key[:KIND_AT] not in private]

    def packet(self) -> Packet:
        """The transaction as data."""
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

    def _held(self, mark: int = 0) -> Iterator[tuple[View, Write]]:
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
        """What was held was locked by nobody else meanwhile, by table."""
        tables: dict[bytes, dict[tuple[View, tuple[bytes, ...]], list[bytes]]] = {}
        writes, end = self._writes, len(self._writes)
        held: dict[tuple[bytes, View], list[bytes]] = {}
        for begin, snapshot in reversed(self._spans):
            since = None
            for kind, key, _ in writes[begin:end]:
                if kind in HOLDING and key[:1] == b"t" and key[KIND_AT : KIND_AT + 1] in LOCKABLE:
                    if since is None:
                        since = snapshot.view
                    held.setdefault((key[:KIND_AT], since), []).append(key)
            end = begin
        for (table, since), keys in held.items():
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
        """What locks leave behind where this commits, of keys that it does not write anyway."""
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
                    continue  # the entry of a row that is locked itself
            yield Write(WriteKind.PLACE, lock_mark(UPDATE if exclusive else SHARE, key), b"")
            headers.add(lock_header(key))
        for header in headers:
            yield Write(WriteKind.PLACE, header, b"")

    def commit(self) -> int:
        """Validate and apply everything; its sequence (the snapshot's when nothing was written)."""
        try:
            if not self._channels and not self.has_writes:
                return self.sequence
            return self.store.commit(self.packet())
        finally:
            self.rollback()

    def rollback(self) -> None:
        """Give the snapshot back; nothing was written. Twice is harmless."""
        self.snapshot.close()


class ManagedTransaction(Transaction):
    """One that `read` or `transact` ends. What is written in a `read` is read through, and lost."""

    def commit(self) -> NoReturn:
        raise Broken("a transaction of read() or transact() is not committed by its user")

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *_: object) -> None:
        self.rollback()


def require_here(txn: Transaction) -> None:
    """Raises StoreMoved where all of the store is in another one."""
    moved = txn.get(MOVED)
    if moved is not None:
        raise StoreMoved(moved.decode())


class Changes(NamedTuple):
    """What was written since a position, and the position to go on from."""

    pairs: list[Pair]
    position: str


class TransactionalStore(ABC):
    """What every store has from `snapshot` and `commit`: see the module."""

    @property
    def near(self) -> bool:
        return True

    def lock_server(self) -> LockServer | None:
        return None

    def free_bytes(self) -> int | None:
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
        known = self.view_at(after)
        with closing(self.snapshot()) as snapshot:
            found = [
                (key, raw[STAMP_BYTES:])
                for keys, raws in snapshot.chunks(span)
                for key, raw in zip(keys, raws, strict=True)
                if known is None or not known.saw(stamp_of(raw))
            ]
            return Changes(found, snapshot.view.position)

    def view_at(self, position: str) -> View | None:
        """The view that the position is the text of; None: before all commits."""
        return UpTo(position) if position else None

    def back_off(self, attempt: int) -> None:
        longest = FIRST_BACK_OFF_S * 2 ** min(attempt, 16)
        _never.wait(_chance.uniform(0, min(longest, LONGEST_BACK_OFF_S)))


_never = threading.Event()
_chance = SystemRandom()  # without a state: processes that fork do not wait in step
