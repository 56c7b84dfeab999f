"""The store in one process's memory, for tests of laws, for the simulator and for all other tests.

A key's versions are kept in a tuple, newest last, while a snapshot may need them. Readers therefore
need no lock, and a fork copies no values. Keys are in one sorted list. A commit is atomic under one
lock. All data are lost with the process.
"""

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from exuvia.base.errors import Unavailable
from exuvia.kv import keys as k
from exuvia.kv.chain import resolved
from exuvia.kv.change_log import placed
from exuvia.kv.lock_table import TABLE_BYTES, Alone, LockTable
from exuvia.kv.packet import (
    STAMP_BYTES,
    Bulk,
    BulkResult,
    InOrder,
    Packet,
    Requirement,
    SnapshotUse,
    Span,
    StampedValues,
)
from exuvia.kv.transaction import TransactionalStore
from exuvia.kv.validate import check, is_current, require_short, settle

Versions = tuple[tuple[int, bytes | None], ...]


class MemorySnapshot(StampedValues, InOrder):
    """A view at one sequence."""

    def __init__(self, store: "MemoryStore", sequence: int) -> None:
        self._store = store
        self.sequence = self.order = sequence
        self.is_open = True

    def get(self, key: bytes) -> bytes | None:
        """The raw value, or None."""
        return self._store.value_at(key, self.sequence)

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """The raw values of the keys that exist."""
        raws = {}
        for key in keys:
            raw = self._store.value_at(key, self.sequence)
            if raw is not None:
                raws[key] = raw
        return raws

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Raw pairs in key order."""
        for key in self._store.keys_in(span, reverse):
            raw = self._store.value_at(key, self.sequence)
            if raw is not None:
                yield key, raw

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Raw keys and values, `rows` at a time."""
        pairs = list(self.scan(span))
        for start in range(0, len(pairs), rows):
            part = pairs[start : start + rows]
            yield [key for key, _ in part], [raw for _, raw in part]

    def in_use(self, running: bool) -> None:
        """Does nothing: it has no maximum age."""

    def close(self) -> None:
        """Release the versions that only this view needed."""
        self._store.forget(self)


class _Presence:
    def __init__(self, store: "MemoryStore", name: str) -> None:
        self._store = store
        self._name = name

    def release(self) -> None:
        self._store.end_presence(self._name)


class MemoryStore(TransactionalStore):
    """A Store in memory."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._versions: dict[bytes, Versions] = {}
        self._keys: list[bytes] = []
        self._sequence = 0
        self._open: dict[int, int] = {}  # sequence -> views of it
        self._presences: set[str] = set()
        self._table: LockTable | None = None

    def fork(self) -> "MemoryStore":
        """An independent store that begins with the commits of this one, without its presences."""
        with self._lock:
            copy = MemoryStore()
            copy._versions = self._versions.copy()
            copy._keys = list(self._keys)
            copy._sequence = self._sequence
            return copy

    @property
    def sequence(self) -> int:
        """The sequence of the last commit."""
        return self._sequence

    # -- reading ---------------------------------------------------------------------------------

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> MemorySnapshot:
        """A view of all commits."""
        with self._lock:
            self._open[self._sequence] = self._open.get(self._sequence, 0) + 1
            return MemorySnapshot(self, self._sequence)

    def limit_snapshots(self, idle_s: float, query_s: float) -> None:
        """Does nothing: a forgotten view only keeps versions, and ends with the process."""

    def forget(self, view: MemorySnapshot) -> None:
        """To be called when a view is closed."""
        with self._lock:
            if view.is_open:
                view.is_open = False
                self._open[view.sequence] -= 1
                if not self._open[view.sequence]:
                    del self._open[view.sequence]

    def value_at(self, key: bytes, sequence: int) -> bytes | None:
        """The raw value of a key at a sequence."""
        versions = self._versions.get(key)
        if versions is None:
            return None
        at, raw = versions[-1]
        if at <= sequence:
            return raw
        for at, raw in reversed(versions):
            if at <= sequence:
                return raw
        return None

    def keys_in(self, span: Span, reverse: bool) -> list[bytes]:
        """All keys of the span that have versions, in order."""
        with self._lock:
            keys = self._keys[
                bisect_left(self._keys, span.start) : bisect_left(self._keys, span.end)
            ]
        return keys[::-1] if reverse else keys

    # -- writing ---------------------------------------------------------------------------------

    def commit(self, packet: Packet) -> int:
        with self._lock:
            after = settle(packet, self._now)
            after.update(placed(packet.log, self._sequence + 1))
            return self._apply(after, packet.channels)

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]:
        """Commit one after another under one lock."""
        sequences: list[int] = []
        with self._lock:
            for packet in packets:
                sequences.append(self.commit(resolved(packet, sequences)))
        return sequences

    def _now(self, key: bytes) -> bytes | None:
        versions = self._versions.get(key)
        return versions[-1][1] if versions else None

    def _apply(self, after: dict[bytes, bytes | None], channels: Sequence[str]) -> int:
        self._sequence += 1
        stamp = self._sequence.to_bytes(STAMP_BYTES, "little")
        oldest = min(self._open, default=self._sequence)
        for channel in channels:
            key = k.meta("channel", channel)
            raw = self._now(key)
            after[key] = k.number(k.read_number(raw and raw[STAMP_BYTES:]) + 1)
        for key, payload in after.items():
            self._set(key, None if payload is None else stamp + payload, oldest)
        self._changed.notify_all()
        return self._sequence

    def _set(self, key: bytes, raw: bytes | None, oldest: int) -> None:
        versions = self._versions.get(key)
        if versions is None:
            if raw is None:
                return
            insort(self._keys, key)
            self._versions[key] = ((self._sequence, raw),)
            return
        versions_kept = (*versions, (self._sequence, raw))
        while len(versions_kept) > 1 and versions_kept[1][0] <= oldest:
            versions_kept = versions_kept[1:]
        if len(versions_kept) == 1 and raw is None:
            del self._versions[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            self._versions[key] = versions_kept

    def bulk(
        self,
        keys: Sequence[bytes],
        payloads: Sequence[bytes] | bytes,
        requirements: Sequence[Requirement] = (),
        puts: Sequence[tuple[bytes, bytes]] = (),
        report: bool = False,
        overwrite: bool = False,
    ) -> BulkResult:
        with self._lock:
            for requirement in requirements:
                if not is_current(requirement, self._sequence):
                    check(requirement, self._now)
            after: dict[bytes, bytes] = {}
            present: list[tuple[int, bytes]] = []
            for n, key in enumerate(keys):
                require_short(key)
                raw = self._now(key)
                if not overwrite and (raw is not None or key in after):
                    present.append((n, after[key] if raw is None else raw[STAMP_BYTES:]))
                else:
                    after[key] = payloads if isinstance(payloads, bytes) else payloads[n]
            sequence = self._apply({**after, **dict(puts)}, ())
            return BulkResult(sequence, len(keys) - len(present), present if report else [])

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        """Runs only the first: without a disk there is no wait to share."""
        return [self.bulk(*next(iter(batches)))]

    # -- waking and presence ---------------------------------------------------------------------

    def counter(self, channel: str) -> int:
        """The channel's counter now."""
        with self._lock:
            raw = self._now(k.meta("channel", channel))
        return k.read_number(raw and raw[STAMP_BYTES:])

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        """Wait for the counter to pass `after`."""
        with self._changed:
            self._changed.wait_for(lambda: self.counter(channel) > after, timeout_s)
            return self.counter(channel)

    def hold(self, name: str) -> _Presence:
        with self._lock:
            if name in self._presences:
                raise Unavailable(f"{name} is held by a living process")
            self._presences.add(name)
        return _Presence(self, name)

    def measures(self) -> dict[str, float]:
        return {}

    def held(self, name: str) -> bool:
        """Whether the presence is taken."""
        return name in self._presences

    def lock_table(self) -> LockTable:
        """One table for all users of this store."""
        with self._lock:
            if self._table is None:
                self._table = LockTable(bytearray(TABLE_BYTES), Alone(), self._payload)
            return self._table

    def _payload(self, key: bytes) -> bytes | None:
        with self._lock:
            raw = self._now(key)
        return raw and raw[STAMP_BYTES:]

    def end_presence(self, name: str) -> None:
        """End a presence; the simulator also calls this when it crashes a node."""
        self._presences.discard(name)

    # -- spans -----------------------------------------------------------------------------------

    def count(self, span: Span) -> int:
        """Keys in the span."""
        return sum(1 for key in self.keys_in(span, False) if self._now(key) is not None)

    def split(self, span: Span, parts: int) -> list[Span]:
        """Adjacent spans of about equal size."""
        live = [key for key in self.keys_in(span, False) if self._now(key) is not None]
        size = max(1, -(-len(live) // max(1, parts)))
        bounds = [span.start, *live[size::size], span.end]
        return [Span(a, b) for a, b in pairwise(bounds) if a < b]

    def close(self) -> None:
        """Does nothing."""
