"""Emptying ranges in bounded transactions: what a drop left behind, and tombstones nobody needs
any more.

    Emptying     every key of a span goes, whatever it holds: nobody writes there any more (the
                 table or the index is gone, and its last writers were fenced)
    Purge        tombstones of a public index go, live entries stay, and so do keys that changed

Both are objects with a `step`: at most one transaction each, resumable at any key, harmless twice.
"""

from collections.abc import Sequence

from exuvia.base.errors import Conflict
from exuvia.kv import keys as k
from exuvia.kv.entry import TOMBSTONE, Kind
from exuvia.kv.packet import (
    SEQUENCE_BYTES,
    Packet,
    Requirement,
    Span,
    Unchanged,
    Write,
    sequence_of,
)
from exuvia.kv.store import Store

BATCH_KEYS = 2048


class Emptying:
    """Removes all keys of a span."""

    def __init__(self, store: Store, span: Span, requirements: Sequence[Requirement] = ()) -> None:
        self._store = store
        self._span = span
        self._requirements = list(requirements)
        self.removed = 0

    def step(self) -> bool:
        """One transaction.

        True when the span is empty. Raises what a broken requirement deserves."""
        keys = self._some()
        if keys:
            writes = [Write(Kind.REMOVE, key, b"") for key in keys]
            self._store.commit(Packet(writes, self._requirements, ()))
            self.removed += len(keys)
        return len(keys) < BATCH_KEYS

    def _some(self) -> list[bytes]:
        snapshot = self._store.snapshot()
        try:
            for keys, _ in snapshot.chunks(self._span, BATCH_KEYS):
                return keys
            return []
        finally:
            snapshot.close()


def empty(store: Store, span: Span, requirements: Sequence[Requirement] = ()) -> int:
    """Remove all keys of a span; how many there were. For callers with a thread of their own."""
    emptying = Emptying(store, span, requirements)
    while not emptying.step():
        pass
    return emptying.removed


class Purge:
    """Removes the tombstones of a span of index entries."""

    def __init__(self, store: Store, span: Span, requirements: Sequence[Requirement] = ()) -> None:
        self._store = store
        self._span = span
        self._requirements = list(requirements)
        self.removed = 0

    def step(self) -> bool:
        """Look at one chunk and remove its tombstones, in one transaction.

        True when the span is through."""
        found = self._chunk()
        if found is None:
            return True
        keys, raws = found
        dead = [
            (key, sequence_of(raw))
            for key, raw in zip(keys, raws, strict=True)
            if raw[SEQUENCE_BYTES:] == TOMBSTONE
        ]
        if dead:
            self._remove(dead)
        self._span = Span(keys[-1] + b"\0", self._span.end)
        return False

    def _chunk(self) -> tuple[list[bytes], list[bytes]] | None:
        snapshot = self._store.snapshot()
        try:
            return next(iter(snapshot.chunks(self._span, BATCH_KEYS)), None)
        finally:
            snapshot.close()

    def _remove(self, dead: list[tuple[bytes, int]]) -> None:
        writes = [Write(Kind.REMOVE, key, b"") for key, _ in dead]
        unchanged = [Unchanged(key, sequence, "purge of a live entry") for key, sequence in dead]
        try:
            self._store.commit(Packet(writes, [*self._requirements, *unchanged], ()))
            self.removed += len(dead)
        except Conflict:
            self._one_by_one(dead)

    def _one_by_one(self, dead: list[tuple[bytes, int]]) -> None:
        """A key was written meanwhile: it is left, the others go."""
        snapshot = self._store.snapshot()
        try:
            still = [
                pair for pair in dead if sequence_of(snapshot.get(pair[0]) or bytes(8)) == pair[1]
            ]
        finally:
            snapshot.close()
        if len(still) < len(dead) and still:
            self._remove(still)


def purge(
    store: Store, table_id: int, index_id: int, requirements: Sequence[Requirement] = ()
) -> int:
    """Remove an index's tombstones; how many there were. For callers that have a thread of their
    own."""
    work = Purge(store, k.span_of(k.index_prefix(table_id, index_id)), requirements)
    while not work.step():
        pass
    return work.removed
