"""Rows drawn evenly from a table: each row draws a lot, those with the smallest lots are kept.

    row    0    1    2    3    4 ...        lots are even between 0 and 1
    lot   .71  .02  .93  .08  .44           limit .1: rows 1 and 3 are kept

The limit is set beforehand from how many rows there are about, so what a task brings back is not
much more than what is kept in the end. Lots are drawn from a seed that follows from the span, so a
span that is read twice gives the same rows. Two samples merge into a sample of both, whatever their
sizes: the smallest lots of all. Rows are kept as the store holds them; at most BYTES of them, which
makes the sample of a table with long rows a smaller one.
"""

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from exuvia.catalog.columns import Array
from exuvia.kv.packet import Span

ROWS = 100_000
BYTES = 64 << 20
_SLACK = 1.25  # how many more are drawn, since the rows are counted only about


def limit_of(most: int, rows: int) -> float:
    """The limit of lots that makes a sample of at most `most` of about `rows` rows."""
    return min(1.0, _SLACK * most / max(1, rows))


class Sample:
    """See the module. `lots` and `places` (which of the rows it was) belong to `raws`."""

    def __init__(self, most: int, span: Span, limit: float = 1.0) -> None:
        self._most = most
        self._random = np.random.default_rng(crc32(span.start))
        self._limit = limit
        self._rows = 0
        self._bytes = 0
        self.lots: Array = np.zeros(0)
        self.places: Array = np.zeros(0, np.int64)
        self.raws: list[bytes] = []

    def add(self, raws: list[bytes]) -> None:
        """A chunk of rows, in the order of the table."""
        lots: Array = self._random.random(len(raws))
        self.take(lots, np.arange(len(raws)), raws, len(raws))

    def merge(self, other: "Sample") -> None:
        """Take in the sample of the rows that follow."""
        self._tighten(other._limit)
        self.take(other.lots, other.places, other.raws, other._rows)

    def take(self, lots: Array, places: Array, raws: Sequence[bytes], rows: int) -> None:
        """Some of the next `rows` rows, which have drawn their lots."""
        kept = np.flatnonzero(lots < self._limit)
        more = [raws[n] for n in kept.tolist()]
        self.lots = np.append(self.lots, lots[kept])
        self.places = np.append(self.places, places[kept] + self._rows)
        self.raws += more
        self._rows += rows
        self._bytes += sum(map(len, more))
        if len(self.raws) > 2 * self._most or self._bytes > 2 * BYTES:
            self.cut()

    def cut(self) -> None:
        """Keep no more than may be kept."""
        order = np.argsort(self.lots)
        sizes = np.cumsum(np.fromiter(map(len, self.raws), np.int64, len(self.raws))[order])
        kept = min(self._most, int(np.searchsorted(sizes, BYTES, side="right")))
        if kept < len(order):
            self._tighten(float(self.lots[order[kept]]))

    def _tighten(self, limit: float) -> None:
        """Lower the limit, for good."""
        if limit >= self._limit:
            return
        self._limit = limit
        kept = np.flatnonzero(self.lots < limit)
        self.lots, self.places = self.lots[kept], self.places[kept]
        self.raws = [self.raws[n] for n in kept.tolist()]
        self._bytes = sum(map(len, self.raws))

    # -- the way from a worker ---------------------------------------------------------------------

    def packed(self) -> tuple[float, int, bytes, bytes, list[bytes]]:
        """As plain data, cut."""
        self.cut()
        return self._limit, self._rows, self.lots.tobytes(), self.places.tobytes(), self.raws

    def unpack(self, packed: tuple[float, int, bytes, bytes, list[bytes]]) -> None:
        """Inverse of `packed`, into an empty sample."""
        self._limit, rows, lots, places, raws = packed
        self.take(np.frombuffer(lots), np.frombuffer(places, np.int64), raws, rows)
