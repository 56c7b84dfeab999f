"""Rows drawn evenly from a table: each row draws a lot, those with the smallest lots are kept.

    row    0    1    2    3    4 ...        lots are even between 0 and 1
    lot   .71  .02  .93  .08  .44           limit .1: rows 1 and 3 are kept

The limit is set beforehand from how many rows there are about, so what a task brings back is not
much more than what is kept in the end. Lots are drawn from a seed that follows from the span, so a
span that is read twice gives the same rows. Two samples merge into a sample of both, whatever their
sizes: the smallest lots of all. Only the columns that are looked at are kept; at most BYTES of
them, which makes the sample of a table with long values a smaller one.

How many different values: a sketch that keeps the smallest of their hashes.

    values --hash--> 64-bit words, even all over        the k smallest different ones are kept
    n <= k different ones       exactly n               (as far as 64-bit words differ)
    more                        (k - 1) / the k-th smallest as a share of all words

The standard error is 1 / sqrt(k - 2): 0.55 % for 32,768. Two sketches merge into the sketch of
both, in any order, so spans and partitions are read apart. Once the sketch is full almost every
value is turned away by one comparison, which a vector does in a nanosecond.

Source: Bar-Yossef et al., "Counting distinct elements in a data stream" (2002); Beyer et al., "On
synopses for distinct-value estimation under multiset operations" (2007).
"""

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np

from exuvia.base.types import FieldType
from exuvia.catalog.columns import Array, Packed, Vector, joined, packed, unpacked
from exuvia.kv.packet import Span

ROWS = 100_000
BYTES = 64 << 20
_SLACK = 1.25  # how many more are drawn, since the rows are counted only about


def limit_of(most: int, rows: int) -> float:
    """The limit of lots that makes a sample of at most `most` of about `rows` rows."""
    return min(1.0, _SLACK * most / max(1, rows))


PackedSample = tuple[float, int, bytes, bytes, list[Packed]]


class Sample:
    """See the module. `lots` and `places` (which of the rows it was) belong to `values`, a vector
    for each column that is looked at; none before the first rows."""

    def __init__(self, most: int, span: Span, limit: float = 1.0) -> None:
        self._most = most
        self._random = np.random.default_rng(crc32(span.start))
        self._limit = limit
        self._rows = 0
        self._pieces: list[_Piece] = []
        self._kept = self._bytes = 0

    def add(self, values: list[Vector], rows: int) -> None:
        """A chunk of rows, in the order of the table."""
        lots: Array = self._random.random(rows)
        self._take(_Piece(lots, np.arange(rows), values), rows)

    def merge(self, other: "Sample") -> None:
        """Take in the sample of the rows that follow."""
        self._tighten(other._limit)
        self._take(other._piece(), other._rows)

    def _take(self, piece: "_Piece", rows: int) -> None:
        """Some of the next `rows` rows, which have drawn their lots."""
        kept = np.flatnonzero(piece.lots < self._limit)
        if len(kept):
            few = piece.take(kept)
            self._pieces.append(few._replace(places=few.places + self._rows))
            self._kept += len(kept)
            self._bytes += few.bytes
        self._rows += rows
        if self._kept > 2 * self._most or self._bytes > 2 * BYTES:
            self.cut()

    def cut(self) -> None:
        """Keep no more than may be kept."""
        lots = self.lots
        kept = min(self._most, len(lots))
        if self._bytes > BYTES:
            kept = min(kept, max(1, len(lots) * BYTES // self._bytes))
        if kept < len(lots):
            self._tighten(float(np.partition(lots, kept)[kept]))

    def _tighten(self, limit: float) -> None:
        """Lower the limit, for good."""
        if limit >= self._limit:
            return
        self._limit = limit
        whole = self._piece()
        few = whole.take(np.flatnonzero(whole.lots < limit))
        self._pieces = [few]
        self._kept, self._bytes = len(few.lots), few.bytes

    def _piece(self) -> "_Piece":
        """All that is kept, in one piece."""
        if len(self._pieces) != 1:
            self._pieces = [_joined(self._pieces)] if self._pieces else [_NOTHING]
        return self._pieces[0]

    @property
    def lots(self) -> Array:
        """What the rows drew. Shape (n,)."""
        return self._piece().lots

    @property
    def places(self) -> Array:
        """Which of the rows they were. Shape (n,), int64."""
        return self._piece().places

    @property
    def values(self) -> list[Vector]:
        return self._piece().values

    # -- the way from a worker ---------------------------------------------------------------------

    def packed(self) -> PackedSample:
        self.cut()
        whole = self._piece()
        values = [packed(each) for each in whole.values]
        return self._limit, self._rows, whole.lots.tobytes(), whole.places.tobytes(), values

    def unpack(self, sample: PackedSample, fields: Sequence[FieldType]) -> None:
        """Inverse of `packed`, into an empty sample."""
        self._limit, rows, lots, places, raws = sample
        values = [unpacked(raw, field) for raw, field in zip(raws, fields, strict=False)]
        self._take(_Piece(np.frombuffer(lots), np.frombuffer(places, np.int64), values), rows)


class _Piece(NamedTuple):
    """Some sampled rows."""

    lots: Array
    places: Array
    values: list[Vector]

    def take(self, kept: Array) -> "_Piece":
        """Those at these places among them."""
        return _Piece(self.lots[kept], self.places[kept], [each.take(kept) for each in self.values])

    @property
    def bytes(self) -> int:
        """About how many its values take."""
        return sum(int(each.values.nbytes) for each in self.values)


_NOTHING = _Piece(np.zeros(0), np.zeros(0, np.int64), [])


def _joined(pieces: list[_Piece]) -> _Piece:
    pieces = [each for each in pieces if len(each.lots)] or [_NOTHING]
    lots = np.concatenate([each.lots for each in pieces])
    places = np.concatenate([each.places for each in pieces])
    values = [joined(each) for each in zip(*(each.values for each in pieces), strict=True)]
    return _Piece(lots, places, values)


# -- distinct --------------------------------------------------------------------------------------

KEPT = 32_768
_ALL = float(1 << 64)


class Distinct:
    """See the module. `smallest`: sorted, different words. Shape (at most kept,), uint64."""

    def __init__(self, kept: int = KEPT, smallest: Array | None = None) -> None:
        self._kept = kept
        self._smallest: Array = np.zeros(0, np.uint64) if smallest is None else smallest
        self._waiting: list[Array] = []
        self._number_waiting = 0
        self._compact()

    def add(self, words: Array) -> None:
        """Take hashes in. Shape (n,), uint64."""
        if self._limit is not None:
            words = words[words < self._limit]
        if len(words):
            self._waiting.append(words)
            self._number_waiting += len(words)
            if self._number_waiting > 2 * self._kept:
                self._compact()

    def merge(self, other: "Distinct") -> None:
        """Take another sketch in."""
        self.add(other.smallest)

    def _compact(self) -> None:
        if self._waiting:
            words = np.sort(np.concatenate([self._smallest, *self._waiting]))
            is_new = np.append(True, words[1:] != words[:-1])
            self._smallest = words[is_new][: self._kept]
            self._waiting, self._number_waiting = [], 0
        full = len(self._smallest) == self._kept
        self._limit = self._smallest[-1] if full else None

    @property
    def smallest(self) -> Array:
        if self._waiting:
            self._compact()
        return self._smallest

    @property
    def count(self) -> int:
        """How many different values were taken in, about."""
        words = self.smallest
        if len(words) < self._kept:
            return len(words)
        return round((self._kept - 1) * _ALL / float(words[-1]))
