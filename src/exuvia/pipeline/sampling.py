"""Rows drawn evenly from a table: each row draws a lot, those with the smallest lots are kept.

Lots are drawn from a seed that follows from the span, so a span that is read twice gives the same
rows. Two samples merge into a sample of both, whatever their sizes: the smallest lots of all. Rows
are kept as the store holds them; at most BYTES of them, which makes the sample of a table with long
rows a smaller one.
"""

from zlib import crc32

import numpy as np

from exuvia.catalog.columns import Array
from exuvia.kv.packet import Span

ROWS = 100_000
BYTES = 64 << 20


class Sample:
    """See the module. `lots` belong to `keys` and `raws`."""

    def __init__(self, most: int, span: Span) -> None:
        self._most = most
        self._random = np.random.default_rng(crc32(span.start))
        self._limit = 1.0
        self.lots: list[float] = []
        self.keys: list[bytes] = []
        self.raws: list[bytes] = []
        self._bytes = 0

    def add(self, keys: list[bytes], raws: list[bytes]) -> None:
        """A chunk of rows."""
        lots: Array = self._random.random(len(keys))
        self.take(lots.tolist(), keys, raws)

    def take(self, lots: list[float], keys: list[bytes], raws: list[bytes]) -> None:
        """Rows that have their lots."""
        if self._limit < 1.0:
            for n in np.flatnonzero(np.asarray(lots) < self._limit).tolist():
                self._keep(lots[n], keys[n], raws[n])
        else:
            self.lots += lots
            self.keys += keys
            self.raws += raws
            self._bytes += sum(map(len, raws))
        if len(self.lots) > 2 * self._most or self._bytes > 2 * BYTES:
            self.cut()

    def _keep(self, lot: float, key: bytes, raw: bytes) -> None:
        self.lots.append(lot)
        self.keys.append(key)
        self.raws.append(raw)
        self._bytes += len(raw)

    def cut(self) -> None:
        """Keep no more than may be kept."""
        order = np.argsort(np.array(self.lots))
        sizes = np.cumsum(np.fromiter(map(len, self.raws), np.int64, len(self.raws))[order])
        kept = min(self._most, int(np.searchsorted(sizes, BYTES, side="right")), len(order))
        if kept == len(order):
            return
        self._limit = self.lots[order[kept]]
        chosen = order[:kept].tolist()
        self.lots = [self.lots[n] for n in chosen]
        self.keys = [self.keys[n] for n in chosen]
        self.raws = [self.raws[n] for n in chosen]
        self._bytes = int(sizes[kept - 1]) if kept else 0

    def merge(self, other: "Sample") -> None:
        """Take another sample in."""
        if self._limit < other._limit:
            self.take(other.lots, other.keys, other.raws)
            return
        mine = self.lots, self.keys, self.raws
        self.lots, self.keys, self.raws = list(other.lots), list(other.keys), list(other.raws)
        self._bytes, self._limit = other._bytes, other._limit
        self.take(*mine)
