"""Snapshots with a maximum age.

LMDB keeps every page that a reader may still need, so one forgotten reader lets the file grow
without bound. A snapshot therefore ends when it was not used for `idle_s`, or is older than
`query_s`; its next use raises Unavailable. While a statement uses it (`in_use`) it is not idle,
even during SLEEP, a long sort or the wait for a row lock. `query_s` still applies then. It may end
while another thread reads: every access to LMDB is made under the snapshot's lock. Cursors live
only inside one access, and a scan continues from its last key.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial, wraps
from itertools import chain, islice
from typing import Any, TypeVar, cast

import lmdb

from exuvia.base.errors import Broken, Unavailable
from exuvia.kv.lmdb.leaves import Damaged, DataFile, Metas, Outline, Tree, tree_of
from exuvia.kv.lmdb.native import Reading, damaged, translate
from exuvia.kv.packet import InOrder, Piece, RawRun, Span, StampedValues

FIRST_KEY = b"\x01"
FIRST_ROWS, MOST_ROWS = 8, 2048
FEW_KEYS = 256
"""Up to this number, a cursor is faster than reading whole pages."""

Pairs = list[tuple[bytes, bytes]]
_Method = TypeVar("_Method", bound=Callable[..., Any])
_Answer = TypeVar("_Answer")


def _reading(method: _Method) -> _Method:
    """Translates LMDB's errors."""

    @wraps(method)
    def read(self: "LmdbSnapshot", *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except lmdb.Error as error:
            raise translate(error, self.path) from error

    return cast(_Method, read)


class LmdbSnapshot(StampedValues, InOrder):
    """The engine's Snapshot, see kv/packet.py."""

    __slots__ = (
        "__weakref__",
        "_born_s",
        "_forget",
        "_forked",
        "_in_use",
        "_lock",
        "_touched",
        "_transaction",
        "_tree",
        "_used_s",
        "_why",
        "metas",
        "number",
        "order",
        "path",
        "sequence",
    )

    def __init__(
        self,
        transaction: Reading,
        sequence: int,
        forget: Callable[[int], None],
        path: str,
        pages: tuple[DataFile, Metas] | None = None,
    ) -> None:
        self.path = path
        self.metas = pages
        self._tree: Tree | None = None
        self._transaction: Reading | None = transaction
        self.sequence = self.order = sequence
        self.number = -1
        self._forget = forget
        self._forked = False
        self._lock = threading.Lock()
        self._touched = True
        self._in_use = False
        self._born_s = self._used_s = -1.0
        self._why = "the snapshot is closed"

    def _live(self) -> Reading:
        """The transaction. To be called with the lock held."""
        if self._transaction is None:
            require_same_process(self._forked)
            raise Unavailable(self._why)
        self._touched = True
        return self._transaction

    def get(self, key: bytes) -> bytes | None:
        """The raw value, or None."""
        try:
            with self._lock:
                return self._live().get(key)
        except lmdb.Error as error:
            raise translate(error, self.path) from error

    @_reading
    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """The raw values of the keys that exist."""
        with self._lock, self._live().cursor() as cursor:
            return dict(cursor.getmulti(keys))

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Raw pairs in key order."""
        return chain.from_iterable(self._runs(span, reverse))

    def _runs(self, span: Span, reverse: bool) -> Iterator[Pairs]:
        """As `scan`, in runs that double in size, so that few pairs are read needlessly."""
        step = self._last if reverse else self._first
        low, high = max(span.start, FIRST_KEY), span.end
        size = FIRST_ROWS
        while low < high:
            pairs = step(low, high, size)
            yield pairs
            if len(pairs) < size:
                return
            if reverse:
                high = pairs[-1][0]
            else:
                low = pairs[-1][0] + b"\0"
            size = min(2 * size, MOST_ROWS)

    @_reading
    def first(self, span: Span, count: int) -> list[bytes]:
        """Raw values of the first `count` keys, by one cursor, in runs that double in size."""
        with self._lock, self._live().cursor() as cursor:
            if not cursor.set_range(max(span.start, FIRST_KEY)):
                return []
            pairs, rest, size = Pairs(), cursor.iternext(), FIRST_ROWS
            while len(pairs) < count:
                run = list(islice(rest, min(size, count - len(pairs))))
                pairs += run
                if len(run) < size or run[-1][0] >= span.end:
                    break
                size *= 2
        if pairs and pairs[-1][0] >= span.end:
            del pairs[bisect_left(pairs, (span.end,)) :]
        return [raw for _, raw in pairs]

    @_reading
    def _first(self, low: bytes, high: bytes, count: int) -> Pairs:
        """The first `count` pairs with low <= key < high."""
        with self._lock, self._live().cursor() as cursor:
            if not cursor.set_range(low):
                return []
            pairs = list(islice(cursor.iternext(), count))
        if pairs[-1][0] >= high:
            del pairs[bisect_left(pairs, (high,)) :]
        return pairs

    @_reading
    def _last(self, low: bytes, high: bytes, count: int) -> Pairs:
        """The last `count` pairs with low <= key < high, backwards."""
        with self._lock, self._live().cursor() as cursor:
            has_key = cursor.prev() if cursor.set_range(high) else cursor.last()
            if not has_key:
                return []
            pairs = list(islice(cursor.iterprev(), count))
        if pairs[-1][0] < low:
            pairs.reverse()
            pairs = pairs[bisect_left(pairs, (low,)) :]
            pairs.reverse()
        return pairs

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Lists of raw keys and values; the keys and values are the only objects per row."""
        low = max(span.start, FIRST_KEY)
        while low < span.end:
            keys, values = self._chunk(low, span.end, rows)
            if keys:
                yield keys, values
            if len(keys) < rows:
                return
            low = keys[-1] + b"\0"

    @_reading
    def _chunk(self, low: bytes, high: bytes, rows: int) -> tuple[list[bytes], list[bytes]]:
        with self._lock, self._live().cursor() as cursor:
            if not cursor.set_range(low):
                return [], []
            keys = list(islice(cursor.iternext(keys=True, values=False), rows))
            if keys[-1] >= high:
                del keys[bisect_left(keys, high) :]
            cursor.set_range(low)
            values = list(islice(cursor.iternext(keys=False, values=True), len(keys)))
        return keys, values

    def pieces(self, span: Span) -> Iterator[Piece]:
        """Whole pages, see leaves.py; by cursors if pages cannot be read."""
        low = max(span.start, FIRST_KEY)
        keys, values = self._chunk(low, span.end, FEW_KEYS) if low < span.end else ([], [])
        if len(keys) < FEW_KEYS:
            if keys:
                yield partial(iter, [RawRun.of(keys, values)])
            return
        tree = self.tree()
        if tree is None:
            yield from super().pieces(span)
            return
        for piece in self._judged(tree.pieces(span, self._alive)):
            yield partial(self._runs_of, piece)

    def _runs_of(self, piece: Piece) -> Iterator[RawRun]:
        return self._judged(piece())

    def count(self, span: Span, most: int = -1) -> int:
        """The number of keys; exact up to `most`."""
        few = len(self.keys(span, FEW_KEYS))
        if few < FEW_KEYS:
            return few
        tree = self.tree()
        if tree is None:
            return super().count(span, most)
        (total,) = self._judged(tree.count(span, most, self._alive))
        return total

    def outline(self, span: Span) -> Outline | None:
        """See leaves.py; None if whole pages cannot be read, or there are too many."""
        tree = self.tree()
        outlines = () if tree is None else self._judged(tree.outline(span, self._alive))
        return next(iter(outlines), None)

    def tree(self) -> Tree | None:
        """The reader of whole pages, or None if they cannot be read."""
        if self._tree is None and self.metas is not None:
            with self._lock:
                commit = self._live().id()
            file, metas = self.metas
            self._tree, self.metas = tree_of(file, metas, commit), None
        return self._tree

    def _alive(self) -> None:
        with self._lock:
            self._live()

    def _judged(self, reads: Iterator[_Answer]) -> Iterator[_Answer]:
        """The same reads. A page that does not match is damage, unless the reader has ended."""
        try:
            yield from reads
        except Damaged as error:
            self._alive()
            raise Broken(damaged(self.path, str(error))) from error

    @_reading
    def keys(self, span: Span, limit: int) -> list[bytes]:
        """The first `limit` keys of the span."""
        with self._lock, self._live().cursor() as cursor:
            if not cursor.set_range(max(span.start, FIRST_KEY)):
                return []
            keys = list(islice(cursor.iternext(keys=True, values=False), limit))
        if keys[-1] >= span.end:
            del keys[bisect_left(keys, span.end) :]
        return keys

    def last_key(self, span: Span) -> bytes | None:
        """The last key of the span."""
        pairs = self._last(max(span.start, FIRST_KEY), span.end, 1)
        return pairs[0][0] if pairs else None

    @_reading
    def beside(self, key: bytes) -> tuple[bytes, bytes]:
        """The last key before and the first at or after `key`; both must exist."""
        with self._lock, self._live().cursor() as cursor:
            cursor.set_range(key)
            after = cursor.key()
            cursor.prev()
            return cursor.key(), after

    def close(self) -> None:
        """Release the reader."""
        self.end("the snapshot is closed")
        self._forget(self.number)

    def require_open(self) -> None:
        with self._lock:
            self._live()

    def in_use(self, running: bool) -> None:
        self._in_use = running
        self._touched = True

    def end(self, why: str) -> None:
        """Release the reader; later uses raise this reason."""
        with self._lock:
            if self._transaction is not None:
                self._transaction.abort()
                self._transaction, self._why = None, why

    def age(self, now: float, idle_s: float, query_s: float) -> bool:
        """End it if it is too old. Called by the caretaker. Returns whether it has ended."""
        if self._born_s < 0:
            self._born_s = now
        if self._touched or self._in_use:
            self._touched, self._used_s = False, now
        if now - self._born_s > query_s:
            self.end(f"the snapshot was open longer than {query_s:g} s")
        elif now - self._used_s > idle_s:
            self.end(f"the snapshot was not used for {idle_s:g} s")
        return self._transaction is None

    def transaction_number(self) -> int | None:
        """LMDB's number of the commit that it sees; None once it has ended."""
        with self._lock:
            return None if self._transaction is None else self._transaction.id()

    def orphan(self) -> None:
        """Forget the parent's reader in a forked child, without touching it. Use raises Broken."""
        self._lock = threading.Lock()
        self._transaction = None  # py-lmdb does not release a reader of another process
        self._forked = True


def require_same_process(forked: bool) -> None:
    """Raises Broken in a child of the process that opened the store."""
    if forked:
        raise Broken("a store is opened once per process and never across fork: open it again here")
