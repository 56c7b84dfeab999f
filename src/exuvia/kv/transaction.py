"""A transaction:

one snapshot, buffered writes read through, one packet at the end. The same on every engine.

Writes are kept in order per key, because a judged entry (kv/entry.py) may be released and claimed
again in one transaction; a read folds them over the snapshot, exactly as the commit will fold
them over what it finds.

A scan sees the transaction as it was when the scan was asked for: what is written meanwhile
changes nothing of it.

`read_from` lends it another snapshot for one statement (a current read): what that statement
writes expects the keys as they stand there, what it has written before is read through as ever.

Own writes made over a newer snapshot than the one that is read now (`is_mixed`) no longer fit its
keys one by one: an own row may have an entry that nobody wrote here (its value is as another
transaction left it), and the old snapshot an entry of what that row was. Keys of rows stay true;
whoever reads index entries asks `base_of` and `own_later` (catalog/reader.py)."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import islice

from exuvia.base.errors import Conflict
from exuvia.kv.entry import JUDGED, VALIDATED, Kind, judge
from exuvia.kv.merge import merged
from exuvia.kv.packet import (
    SEQUENCE_BYTES,
    AtMost,
    Committer,
    Equal,
    Packet,
    Requirement,
    Snapshot,
    Span,
    Unchanged,
    Write,
    sequence_of,
)
from exuvia.kv.validate import require_short

Own = list[tuple[bytes, bytes | None]]
FEW = 64


class Transaction:
    """Not thread-safe. `sequence` is the snapshot's. Ends with `commit` or `rollback`."""

    def __init__(self, store: Committer, snapshot: Snapshot) -> None:
        self.store = store
        self.snapshot = snapshot
        self.sequence = snapshot.sequence
        self._writes: list[Write] = []
        self._before: list[tuple[bool, bytes | None]] = []
        self._overlay: dict[bytes, bytes | None] = {}
        self._sorted: list[bytes] = []
        self._unsorted: list[bytes] = []
        self._requirements: dict[tuple[type, bytes], Requirement] = {}
        self._shared: set[bytes] = set()
        self._channels: list[str] = []
        self._newest = snapshot.sequence
        self._later: dict[bytes, None] = {}
        self.undone = 0
        self.views: dict[object, object] = {}  # of catalog/reader.py: it keeps them up itself

    # -- reading ---------------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """Payload at key, own writes first; None when absent."""
        if key in self._overlay:
            return self._overlay[key]
        raw = self.snapshot.get(key)
        return None if raw is None else raw[SEQUENCE_BYTES:]

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """`get` for each key, in the order given; one call to the engine."""
        overlay = self._overlay
        if not overlay:
            found = self.snapshot.get_many(keys)
        else:
            found = self.snapshot.get_many([key for key in keys if key not in overlay])
        return [
            overlay[key] if key in overlay else (raw and raw[SEQUENCE_BYTES:])
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

    def _committed(self, span: Span, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        for key, raw in self.snapshot.scan(span, reverse):
            yield key, raw[SEQUENCE_BYTES:]

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
        return self.snapshot.sequence < self._newest and bool(self._overlay)

    def is_own(self, key: bytes) -> bool:
        """Whether the transaction wrote the key."""
        return key in self._overlay

    def base_of(self, key: bytes) -> int:
        """The sequence of what an own row was written over; 0: there was none."""
        found = self._requirements.get((Unchanged, key))
        return found.sequence if isinstance(found, Unchanged) else 0

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
        self.write(Kind.PUT, key, payload)

    def insert(self, key: bytes, payload: bytes) -> None:
        """As put, for a key that is absent.

        Conflict where it is not; look with `get` first for a 1062."""
        if self.get(key) is not None:
            raise Conflict("insert over an existing key", key)
        self.write(Kind.PUT, key, payload)

    def delete(self, key: bytes) -> None:
        """Remove; refused at commit if the key changed since the snapshot."""
        self.write(Kind.DELETE, key, b"")

    def write(self, kind: int, key: bytes, payload: bytes) -> None:
        """Any write of kv/entry.py's table.

        Raises Duplicate where a CLAIM meets another row's entry already here, Refused 1071 for a
        key too long."""
        require_short(key)
        if kind in VALIDATED:
            self._expect(key, "lost update")
        after = judge(kind, key, payload, self.get(key) if kind in JUDGED else None)
        known = key in self._overlay
        if not known:
            self._unsorted.append(key)
        self._before.append((known, self._overlay.get(key)))
        self._overlay[key] = after
        self._writes.append(Write(kind, key, payload))

    def require(self, key: bytes, shared: bool = False) -> None:
        """The key must not have changed when this commits, present or absent:

        no write skew through it. `shared`: many may require it at a time, see `shared_since`."""
        if shared and (Unchanged, key) not in self._requirements:
            self._shared.add(key)
        self._expect(key, "write skew")

    def _expect(self, key: bytes, anomaly: str) -> None:
        if (Unchanged, key) not in self._requirements:
            raw = self.snapshot.get(key)
            sequence = 0 if raw is None else sequence_of(raw)
            self._requirements[Unchanged, key] = Unchanged(key, sequence, anomaly)
            if sequence > self.sequence:
                self._later[key] = None
            if self.snapshot.sequence > self._newest:
                self._newest = self.snapshot.sequence

    def require_equal(self, key: bytes, payload: bytes) -> None:
        """The key must hold exactly this when this commits, else Deposed: an epoch."""
        self._requirements[Equal, key] = Equal(key, payload)

    def require_at_most(self, key: bytes, limit: int) -> None:
        """The key must hold a number <= limit when this commits, else SchemaChanged: a revision.

        The least limit wins."""
        known = self._requirements.get((AtMost, key))
        if known is None or (isinstance(known, AtMost) and limit < known.limit):
            self._requirements[AtMost, key] = AtMost(key, limit)

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
        return former

    def expecting(self) -> int:
        """How much is required so far: a point for `touched_since` and `forget_expected`."""
        return len(self._requirements)

    def touched_since(self, mark: int, expecting: int) -> list[bytes]:
        """Keys that became this transaction's own since then: rows written or required, unique
        entries claimed or let go. Entries of plain indexes belong to their rows."""
        shared = self._shared
        keys = [w.key for w in self._writes[mark:] if w.kind in JUDGED or w.key in shared]
        newest = islice(reversed(self._requirements), len(self._requirements) - expecting)
        keys += [key for kind, key in newest if kind is Unchanged and key not in shared]
        return keys

    def shared_since(self, expecting: int) -> list[bytes]:
        """Keys required since then that others may require too: nobody may write them."""
        if not self._shared:
            return []
        newest = islice(reversed(self._requirements), len(self._requirements) - expecting)
        return [key for kind, key in newest if kind is Unchanged and key in self._shared]

    def forget_expected(self, expecting: int) -> None:
        """Forget what was required after that point, for writes and reads that are undone."""
        while len(self._requirements) > expecting:
            key = self._requirements.popitem()[0][1]
            self._shared.discard(key)
            self._later.pop(key, None)

    def back_to(self, mark: int) -> None:
        """Forget the writes made after the mark.

        Requirements stay: they can only make the commit stricter.

        Reads nothing, so it works even when the snapshot has ended; costs what it forgets."""
        forgotten = set()
        while len(self._writes) > mark:
            key = self._writes.pop().key
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
        return bool(self._writes)

    def packet(self) -> Packet:
        """The transaction as data."""
        return Packet(self._writes, list(self._requirements.values()), self._channels)

    def commit(self) -> int:
        """Validate and apply everything; its sequence (the snapshot's when nothing was written)."""
        try:
            if not self._writes and not self._channels:
                return self.sequence
            return self.store.commit(self.packet())
        finally:
            self.rollback()

    def rollback(self) -> None:
        """Give the snapshot back; nothing was written. Twice is harmless."""
        self.snapshot.close()
