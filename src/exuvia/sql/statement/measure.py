"""Counts and times the steps of one statement, for EXPLAIN ANALYZE.

    watch.rows(step, rows)       counts the rows; their time is the step's
    watch.within(step)           a block whose time is the step's
    watch.reading(txn, reads)    the transaction with its reads of rows and entries as steps

The time of a step excludes the steps that it calls. Code without a watch has no overhead: watched
parts are put only into a plan that is not shared.
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
    """A step: `rows` (None if not counted), `loops` (number of calls), `own_s` (own seconds)."""

    def __init__(self) -> None:
        self.rows: int | None = None
        self.loops = 0
        self.own_s = 0.0

    def count(self, rows: int) -> None:
        """Adds to the number of rows."""
        self.rows = rows + (self.rows or 0)


class Reads(NamedTuple):
    """The steps of one table's reads: of rows, of index entries, and of the entries in ranges.

    `ranges` is keyed by the start of a range."""

    rows: MeasuredStep | None = None
    entries: MeasuredStep | None = None
    ranges: Mapping[bytes, MeasuredStep] = {}

    def of(self, key: bytes) -> MeasuredStep | None:
        """The step of a read of this key, or of a range that begins there."""
        step = self.ranges.get(key)
        if step is not None:
            return step
        return self.rows if key[_KIND] == _ROW else self.entries


class Watch:
    """The running steps of one statement, in its thread. `now` returns seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._inside: list[MeasuredStep] = []
        self._since = 0.0

    def rows(self, step: MeasuredStep, items: Iterable[Item]) -> Iterator[Item]:
        step.count(0)
        remaining = iter(items)
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
    """A view of a transaction; both share their state of reads and writes."""

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
            payload = super().get(key)
        step.count(payload is not None)
        return payload

    def scan(
        self, span: Span, limit: int | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        step = self._reads.of(span.start)
        pairs = super().scan(span, limit, reverse)
        if step is None:
            return pairs
        if span.start[_KIND] != _ROW:  # an entry that is not live has no row
            pairs = (pair for pair in pairs if is_live(pair[1]))
        return self._watch.rows(step, pairs)

    def decoded(
        self, span: Span, cut: int, decode: Callable[[bytes], Item], reverse: bool = False
    ) -> Iterator[tuple[bytes, Item]]:
        return ((key[cut:], decode(payload)) for key, payload in self.scan(span, reverse=reverse))
