"""Sets of key ranges: what of a reorg is finished, and what is missing.

    all     |---------------------------------------|
    done    |=======|       |=====|==|                   overlaps and neighbours merge
    missing         |-------|        |--------------|    cut into spans of about `rows` rows each

Only what is finished is stored; cuts are not. A restart takes the missing ranges and cuts those
anew, so a finished span is never cut again, and a table that grew or a build with another span
size needs no special case.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from exuvia.kv.packet import Span
from exuvia.kv.store import Store

LEAST_STAGGERED = 200_000
"""Rows that are worth more than one task, whatever a span may hold."""


class SpanSet:
    """A set of keys as disjoint spans in order. Adding twice, overlapping or late is harmless."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._spans: list[Span] = []
        for span in spans:
            self.add(span)

    def add(self, span: Span) -> None:
        """Take a span in, merging what it overlaps or touches."""
        if span.start >= span.end:
            return
        first = bisect_right(self._spans, span.start, key=lambda known: known.start)
        if first and self._spans[first - 1].end >= span.start:
            first -= 1
        last = first
        start, end = span
        while last < len(self._spans) and self._spans[last].start <= end:
            start, end = min(start, self._spans[last].start), max(end, self._spans[last].end)
            last += 1
        self._spans[first:last] = [Span(start, end)]

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def __contains__(self, span: Span) -> bool:
        at = bisect_right(self._spans, span.start, key=lambda known: known.start)
        return bool(at) and self._spans[at - 1].end >= span.end

    def missing(self, whole: Span) -> list[Span]:
        """The parts of `whole` that are not in the set, in order."""
        gaps, start = [], whole.start
        for known in self._spans:
            if known.end <= start:
                continue
            if known.start >= whole.end:
                break
            if known.start > start:
                gaps.append(Span(start, known.start))
            start = known.end
        if start < whole.end:
            gaps.append(Span(start, whole.end))
        return gaps


def cut(
    store: Store,
    spans: Sequence[Span],
    rows: int,
    total: int | None = None,
    at_once: int = 1,
    staggered: bool = False,
) -> list[Span]:
    """The same keys as adjoining spans of about `rows` rows each; an empty range stays one span.

    `total`: the rows of all of it, if known. Pieces come in multiples of `at_once`, the tasks that
    run side by side; or `staggered`, where there are enough rows.
    """
    pieces: list[Span] = []
    for span in spans:
        counted = store.count(span) if total is None or len(spans) > 1 else total
        if staggered and at_once > 1 and counted >= LEAST_STAGGERED:
            pieces.extend(_staggered(store, span, -(-counted * (2 * at_once - 1) // rows), at_once))
            continue
        parts = -(-counted // max(1, rows))
        if parts > 1:
            parts = -(-parts // at_once) * at_once
        pieces.extend(store.split(span, parts) if parts > 1 else [span])
    return pieces


def _staggered(store: Store, span: Span, units: int, at_once: int) -> list[Span]:
    """Spans of n, n + 1, ... 2n - 1 units for n tasks, then all of the largest: at least so many
    units, of which the largest span has about as many as were asked for.

    Tasks that read and then write, all alike, would all read and then all wait for the one writer;
    reading takes twice as long as writing.
    """
    largest = 2 * at_once - 1
    rising = sum(range(at_once, largest + 1))
    full = max(0, -(-(units - rising) // largest))
    sizes = [*range(at_once, largest + 1), *[largest] * full]
    pieces = store.split(span, sum(sizes))
    spans, at = [], 0
    for size in sizes:
        taken = pieces[at : at + size]
        if taken:
            spans.append(Span(taken[0].start, taken[-1].end))
        at += size
    return spans
