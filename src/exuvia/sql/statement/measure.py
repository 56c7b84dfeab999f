"""What the steps of one statement do, counted and timed: for EXPLAIN ANALYZE.

    watch.rows(step, rows)       the rows, counted; the time they take is the step's
    watch.within(step)           a block whose time is the step's
    watch.reading(txn, reads)    the transaction, its reads of rows and of entries being steps

A step's time is its own: while it asks another step, the other one's clock runs instead. What is
not watched knows nothing of it: who watches puts watched parts into a plan that nobody else has.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.packet import Span, is_live
from exuvia.kv.transaction import Transaction

Item = TypeVar("Item")
_END: Final = object()
_ROW = b"r"
_KIND = slice(HANDLE_AT - 1, HANDLE_AT)


class MeasuredStep:
    """`rows` that came of it, None where nobody counted; `loops`: how often it was asked; `own_s`
    its own seconds."""

    def __init__(self) -> None:
        self.rows: int | None = None
        self.loops = 0
        self.own_s = 0.0

    def count(self, rows: int) -> None:
        """So many more."""
        self.rows = rows + (self.rows or 0)


class Reads(NamedTuple):
    """The steps of one table's reads: of rows, of index entries, and of the entries of one range,
    by its start."""

    rows: MeasuredStep | None = None
    entries: MeasuredStep | None = None
    ranges: Mapping[bytes, MeasuredStep] = {}

    def of(self, key: bytes) -> MeasuredStep | None:
        """Whose the read of a key is, or of what begins there."""
        found = self.ranges.get(key)
        if found is not None:
            return found
        return self.rows if key[_KIND] == _ROW else self.entries


class Watch:
    """Of one statement, in the thread that runs it. `now` gives seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._inside: list[MeasuredStep] = []
        self._since = 0.0

    def rows(self, step: MeasuredStep, found: Iterable[Item]) -> Iterator[Item]:
        step.count(0)
        remaining = iter(found)
        while True:
            with self.within(step):
                item = next(remaining, _END)
            if item is _END:
                return
            step.count(1)
            yield item  # type: ignore[misc]

    @contextmanager
    def within(self, step: MeasuredStep) -> Iterator[None]:
        self._switch()
        self._inside.append(step)
        step.loops += 1
        try:
            yield
        finally:
            self._switch()
            self._inside.pop()

    def _switch(self) -> None:
        at = self._now()
        if self._inside:
            self._inside[-1].own_s += at - self._since
        self._since = at

    def reading(self, txn: Transaction, reads: Reads) -> Transaction:
        return _WatchedTransaction(txn, self, reads)


class _WatchedTransaction(Transaction):
    """The same transaction: what it has read and written is one state."""

    __slots__ = ("_reads", "_watch")

    def __init__(self, txn: Transaction, watch: Watch, reads: Reads) -> None:
        self.__dict__ = txn.__dict__
        self._watch = watch
        self._reads = reads

    def get(self, key: bytes) -> bytes | None:
        step = self._reads.of(key)
        if step is None:
            return super().get(key)
        with self._watch.within(step):
            found = super().get(key)
        step.count(found is not None)
        return found

    def scan(
        self, span: Span, limit: int | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        step = self._reads.of(span.start)
        found = super().scan(span, limit, reverse)
        if step is None:
            return found
        if span.start[_KIND] != _ROW:  # an entry that is not live is no row
            found = (pair for pair in found if is_live(pair[1]))
        return self._watch.rows(step, found)

    def decoded(
        self, span: Span, cut: int, decode: Callable[[bytes], Item], reverse: bool = False
    ) -> Iterator[tuple[bytes, Item]]:
        return ((key[cut:], decode(each)) for key, each in self.scan(span, reverse=reverse))
