"""Keys of one session in its own memory, in addition to the shared store.

    t{table >= LOCAL_IDS}...   the session's: invisible to others, they end with the session
    any other key              the store's

A transaction reads and writes both. The commit first validates the session's part, then commits to
the store, then applies the session's part. It is refused or done as a whole, because no other
session writes the session's keys. Writes to a session's table that was dropped meanwhile are
discarded.
"""

from collections.abc import Callable, Iterator

from exuvia.base.mysql_errors import ErrRecordFileFull
from exuvia.kv import keys as k
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import Packet, Piece, Snapshot, SnapshotUse, Span, View
from exuvia.kv.store import ForwardingStore, Store
from exuvia.kv.transaction import Transaction
from exuvia.kv.validate import settle

LOCAL_IDS = 1 << 62
_FIRST = b"t" + k.u64(LOCAL_IDS)


def is_local(key: bytes) -> bool:
    """Whether the key belongs to a session's memory."""
    return key >= _FIRST


class LocalSnapshot:
    """A view of both stores. `sequence` is that of the shared one."""

    def __init__(self, shared: Snapshot, local: Snapshot) -> None:
        self.saw, self.ahead = shared.saw, shared.ahead
        self.skip, self.stamps = shared.skip, shared.stamps
        assert self.skip == local.skip, "both lay their values out alike"
        self._shared = shared
        self._local = local

    @property
    def sequence(self) -> int:
        return self._shared.sequence

    @property
    def order(self) -> int:
        return self._shared.order

    @property
    def view(self) -> View:
        return self._shared.view

    def _of(self, key: bytes) -> Snapshot:
        return self._local if key >= _FIRST else self._shared

    def get(self, key: bytes) -> bytes | None:
        """The raw value, or None."""
        return self._of(key).get(key)

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """The raw values of the keys that exist."""
        mine = [key for key in keys if key >= _FIRST]
        if not mine:
            return self._shared.get_many(keys)
        theirs = [key for key in keys if key < _FIRST]
        return {**self._shared.get_many(theirs), **self._local.get_many(mine)}

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Raw pairs in key order; a span must lie in one of the stores."""
        return self._of(span.start).scan(span, reverse)

    def first(self, span: Span, count: int) -> list[bytes]:
        return self._of(span.start).first(span, count)

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Raw keys and values, `rows` at a time."""
        return self._of(span.start).chunks(span, rows)

    def pieces(self, span: Span) -> Iterator[Piece]:
        """As `chunks`, in pieces."""
        return self._of(span.start).pieces(span)

    def count(self, span: Span, most: int = -1) -> int:
        """The number of keys in the span."""
        return self._of(span.start).count(span, most)

    def require_open(self) -> None:
        self._shared.require_open()

    def in_use(self, running: bool) -> None:
        self._shared.in_use(running)

    def close(self) -> None:
        self._shared.close()
        self._local.close()


class LocalStore(ForwardingStore):
    """A Store for one session: its memory for local keys, the shared store for all others.

    `room`: the limit of a table's bytes. `name`: a table's name, None after it was dropped."""

    def __init__(
        self, shared: Store, room: Callable[[], int], name: Callable[[int], str | None]
    ) -> None:
        super().__init__(shared)
        self.memory = MemoryStore()
        self._room = room
        self._name = name
        self._bytes: dict[int, int] = {}

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> LocalSnapshot:
        """A fresh view of both."""
        return self.over(self.shared.snapshot(use))

    def over(self, shared: Snapshot) -> LocalSnapshot:
        """The present local keys, together with an open snapshot of the shared store."""
        return LocalSnapshot(shared, self.memory.snapshot())

    def commit(self, packet: Packet) -> int:
        """Commit to both stores. Raises errors of the shared store, and 1114 for a full table."""
        mine = [w for w in packet.writes if is_local(w.key) and self._name(_table(w.key))]
        theirs = [w for w in packet.writes if not is_local(w.key)]
        ours = [r for r in packet.requirements if is_local(r.key)]
        local = Packet(mine, ours if mine else (), ())
        sizes = self._sizes(local) if mine else self._bytes
        sequence = 0
        if theirs or packet.channels:
            needed = [r for r in packet.requirements if not is_local(r.key)]
            sequence = self.shared.commit(packet._replace(writes=theirs, requirements=needed))
        if mine:
            self.memory.commit(local)
            self._bytes = sizes
        return sequence

    def _sizes(self, packet: Packet) -> dict[int, int]:
        """Bytes of each table after the packet. Raises 1114, Conflict, Duplicate."""
        view = self.memory.snapshot()
        try:
            after = settle(packet, view.get)
            sizes = dict(self._bytes)
            for key, payload in after.items():
                before = view.get(key)
                change = 0 if payload is None else len(key) + len(payload) + 8
                change -= 0 if before is None else len(key) + len(before)
                sizes[_table(key)] = sizes.get(_table(key), 0) + change
        finally:
            view.close()
        room = self._room()
        for table, size in sizes.items():
            if size > room and size > self._bytes.get(table, 0):
                raise ErrRecordFileFull(self._name(table))
        return sizes

    def drop(self, table: int) -> None:
        """Remove all rows of a table."""

        def empty(txn: Transaction) -> None:
            for key, _ in list(txn.scan(k.table_span(table))):
                txn.delete(key)

        self.memory.transact(empty)
        self._bytes.pop(table, None)

    # -- the store's own -------------------------------------------------------------------------

    def count(self, span: Span) -> int:
        """Keys in the span."""
        return (self.memory if is_local(span.start) else self.shared).count(span)

    def split(self, span: Span, parts: int) -> list[Span]:
        """Adjacent spans of about equal size."""
        return (self.memory if is_local(span.start) else self.shared).split(span, parts)

    def close(self) -> None:
        """Does nothing: the shared store belongs to the caller."""


def _table(key: bytes) -> int:
    return int.from_bytes(key[1:9], "big")
