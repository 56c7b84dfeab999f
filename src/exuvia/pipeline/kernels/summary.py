"""Summaries of rows for statistics: the kernel of ANALYZE, and the sampling of a backfill.

    a span's rows --chunks--> Summary      rows; per part: nulls, bytes, a sketch of distinct
                                           values; a sample of whole rows
    Summary + Summary = Summary of both    spans of a table, partitions of a table

A part is a column, or an index of several columns or of a prefix: its values are the index's keys.
Values are hashed so that values equal in their collation have equal hashes. Nothing is written, so
nothing is fenced.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple, cast
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exuvia.base.decoding import msgpack_decoder
from exuvia.base.types import Family, FieldType
from exuvia.catalog.codec import row_batch
from exuvia.catalog.codec.key_batch import join_rows, part_bytes, sortable
from exuvia.catalog.codec.key_encoder import NUMBERS
from exuvia.catalog.collation import collation
from exuvia.catalog.columns import (
    Array,
    Columns,
    Packed,
    Vector,
    buffers_of,
    joined,
    packed,
    unpacked,
)
from exuvia.catalog.table import Table
from exuvia.kv.packet import Padded, Span
from exuvia.kv.store import Store
from exuvia.pipeline.checkpoint import SpanSet
from exuvia.pipeline.kernels.entries import fresh_snapshot, runs_of
from exuvia.pipeline.task import DONE, Outcome, Task, TaskOrder
from exuvia.pipeline.throttle import Batch, Steps
from exuvia.pipeline.verify.scan import hash_keys

# -- a sample of rows ------------------------------------------------------------------------------
#
# A uniform sample of a table's rows: each row draws a lot, and the smallest lots are sampled.
#
#     row    0    1    2    3    4 ...        lots are uniform between 0 and 1
#     lot   .71  .02  .93  .08  .44           limit .1: rows 1 and 3 are sampled
#
# The limit is set in advance from the approximate number of rows, so a task returns little more
# than the final sample. The random seed is derived from the span, so reading a span twice gives the
# same rows. Two samples merge into a sample of both, whatever their sizes: the smallest lots of
# all. Only the examined columns are retained, and at most BYTES of them, which makes the sample of
# a table with long values smaller.

ROWS = 100_000
BYTES = 64 << 20
_SLACK = 1.25  # oversampling, because the number of rows is approximate


def limit_of(most: int, rows: int) -> float:
    """Returns the limit of lots for a sample of at most `most` of about `rows` rows."""
    return min(1.0, _SLACK * most / max(1, rows))


PackedSample = tuple[float, int, bytes, bytes, list[Packed]]


class Sample:
    """A sample of rows. `lots` and `places` (the rows' numbers) are parallel to `values`, one
    vector per examined column; `values` is empty before the first rows."""

    def __init__(self, most: int, span: Span, limit: float = 1.0) -> None:
        self._most = most
        self._random = np.random.default_rng(crc32(span.start))
        self._limit = limit
        self._rows = 0
        self._pieces: list[_Piece] = []
        self._retained = self._bytes = 0

    def add(self, columns: Columns, positions: Sequence[int]) -> None:
        """Adds a chunk of rows in table order; `positions`: the examined columns."""
        lots: Array = self._random.random(columns.rows)
        sampled = np.flatnonzero(lots < self._limit)
        values = [columns.take(position, sampled) for position in positions] if len(sampled) else []
        self._take(_Piece(lots[sampled], sampled, values), columns.rows)

    def merge(self, other: "Sample") -> None:
        """Adds the sample of the following rows."""
        self._lower_limit(other._limit)
        whole = other._piece()
        self._take(whole.take(np.flatnonzero(whole.lots < self._limit)), other._rows)

    def _take(self, few: "_Piece", rows: int) -> None:
        """Adds the sampled rows of the next `rows` rows."""
        if len(few.lots):
            self._pieces.append(few._replace(places=few.places + self._rows))
            self._retained += len(few.lots)
            self._bytes += few.bytes
        self._rows += rows
        if self._retained > 2 * self._most or self._bytes > 2 * BYTES:
            self.cut()

    def cut(self) -> None:
        """Reduces the sample to its maximum size."""
        lots = self.lots
        size = min(self._most, len(lots))
        if self._bytes > BYTES:
            size = min(size, max(1, len(lots) * BYTES // self._bytes))
        if size < len(lots):
            self._lower_limit(float(np.partition(lots, size)[size]))

    def _lower_limit(self, limit: float) -> None:
        """Lowers the limit permanently."""
        if limit >= self._limit:
            return
        self._limit = limit
        whole = self._piece()
        few = whole.take(np.flatnonzero(whole.lots < limit))
        self._pieces = [few]
        self._retained, self._bytes = len(few.lots), few.bytes

    def _piece(self) -> "_Piece":
        """Returns the whole sample as one piece."""
        if len(self._pieces) != 1:
            self._pieces = [_joined(self._pieces)] if self._pieces else [_EMPTY]
        return self._pieces[0]

    @property
    def lots(self) -> Array:
        """The lots of the sampled rows. Shape (n,)."""
        return self._piece().lots

    @property
    def places(self) -> Array:
        """The numbers of the sampled rows. Shape (n,), int64."""
        return self._piece().places

    @property
    def values(self) -> list[Vector]:
        return self._piece().values

    # -- transfer from a worker --------------------------------------------------------------------

    def packed(self) -> PackedSample:
        self.cut()
        whole = self._piece()
        values = [packed(column) for column in whole.values]
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

    def take(self, at: Array) -> "_Piece":
        """Returns the rows at these positions."""
        return _Piece(self.lots[at], self.places[at], [column.take(at) for column in self.values])

    @property
    def bytes(self) -> int:
        """Approximate size of the values."""
        return sum(int(column.values.nbytes) for column in self.values)


_EMPTY = _Piece(np.zeros(0), np.zeros(0, np.int64), [])


def _joined(pieces: list[_Piece]) -> _Piece:
    pieces = [piece for piece in pieces if len(piece.lots)] or [_EMPTY]
    lots = np.concatenate([piece.lots for piece in pieces])
    places = np.concatenate([piece.places for piece in pieces])
    values = [joined(column) for column in zip(*(piece.values for piece in pieces), strict=True)]
    return _Piece(lots, places, values)


# -- number of distinct values ---------------------------------------------------------------------
#
# A sketch of the smallest hashes.
#
#     values --hash--> uniform 64-bit words           the k smallest distinct words are retained
#     n <= k distinct values      exactly n           (if no two hashes are equal)
#     more                        (k - 1) / the k-th smallest as a share of all words
#
# The standard error is 1 / sqrt(k - 2): 0.55 % for 32,768. Two sketches merge into the sketch of
# both, in any order, so spans and partitions are read separately. Once the sketch is full, almost
# every value is rejected by one comparison, which a vector does in a nanosecond.
#
# Source: Bar-Yossef et al., "Counting distinct elements in a data stream" (2002); Beyer et al., "On
# synopses for distinct-value estimation under multiset operations" (2007).

SKETCH_WORDS = 32_768
_ALL = float(1 << 64)


class Distinct:
    """A sketch of distinct values. `smallest`: sorted distinct words. Shape (at most `size`,),
    uint64."""

    def __init__(self, size: int = SKETCH_WORDS, smallest: Array | None = None) -> None:
        self._retained = size
        self._smallest: Array = np.zeros(0, np.uint64) if smallest is None else smallest
        self._waiting: list[Array] = []
        self._number_waiting = 0
        self._compact()

    def add(self, words: Array) -> None:
        """Adds hashes. Shape (n,), uint64."""
        if self._limit is not None:
            words = words[words < self._limit]
        if len(words):
            self._waiting.append(words)
            self._number_waiting += len(words)
            if self._number_waiting > 2 * self._retained:
                self._compact()

    def merge(self, other: "Distinct") -> None:
        """Adds another sketch."""
        self.add(other.smallest)

    def _compact(self) -> None:
        if self._waiting:
            words = np.sort(np.concatenate([self._smallest, *self._waiting]))
            is_new = np.append(True, words[1:] != words[:-1])
            self._smallest = words[is_new][: self._retained]
            self._waiting, self._number_waiting = [], 0
        full = len(self._smallest) == self._retained
        self._limit = self._smallest[-1] if full else None

    @property
    def smallest(self) -> Array:
        if self._waiting:
            self._compact()
        return self._smallest

    @property
    def count(self) -> int:
        """Approximate number of distinct values added."""
        words = self.smallest
        if len(words) < self._retained:
            return len(words)
        return round((self._retained - 1) * _ALL / float(words[-1]))


# -- summaries -------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Columns examined together; `lengths` are prefix lengths, -1 for whole values."""

    positions: tuple[int, ...]
    lengths: tuple[int, ...]


class PartSummary:
    """Summary of one part. `bytes`: size of the values that are not NULL."""

    def __init__(self, nulls: int = 0, size: int = 0, distinct: Distinct | None = None) -> None:
        self.nulls = nulls
        self.bytes = size
        self.distinct = distinct or Distinct()


class Summary:
    """Summary of some rows of a table."""

    def __init__(self, parts: int, samples: int, span: Span, limit: float = 1.0) -> None:
        self.rows = 0
        self.parts = [PartSummary() for _ in range(parts)]
        self.sample = Sample(samples, span, limit)

    def merge(self, other: "Summary") -> None:
        """Adds the summary of the following rows."""
        self.rows += other.rows
        for mine, theirs in zip(self.parts, other.parts, strict=True):
            mine.nulls += theirs.nulls
            mine.bytes += theirs.bytes
            mine.distinct.merge(theirs.distinct)
        self.sample.merge(other.sample)

    def encode(self) -> bytes:
        """Returns the encoding for the transfer from a worker."""
        parts = [(p.nulls, p.bytes, p.distinct.smallest.tobytes()) for p in self.parts]
        return msgspec.msgpack.encode((self.rows, parts, self.sample.packed()))

    @classmethod
    def decode(cls, raw: bytes, samples: int, span: Span, fields: Sequence[FieldType]) -> "Summary":
        """Inverse of `encode`. `fields`: the types of the columns at the parts' positions."""
        rows, parts, sample = _decode(raw)
        summary = cls(0, samples, span)
        summary.rows = rows
        summary.parts = [
            PartSummary(nulls, size, Distinct(smallest=np.frombuffer(words, np.uint64)))
            for nulls, size, words in parts
        ]
        summary.sample.unpack(sample, fields)
        return summary


_Encoded = tuple[int, list[tuple[int, int, bytes]], PackedSample]
_decode: Callable[[bytes], _Encoded] = msgpack_decoder(cast(Any, _Encoded)).decode


def positions_of(parts: Iterable[Part]) -> list[int]:
    """Returns the positions of the parts' columns, in order."""
    return sorted({position for part in parts for position in part.positions})


def types_of(table: Table, parts: Iterable[Part]) -> list[FieldType]:
    """Returns the types of the parts' columns."""
    return [table.info.cols[position].type for position in positions_of(parts)]


def parts_of(table: Table, columns: Sequence[int], index_ids: Iterable[int]) -> list[Part]:
    """Returns the parts of the columns at these positions, then of the indexes."""
    parts = [Part((position,), (-1,)) for position in columns]
    for index_id in index_ids:
        index = next(index for index in table.info.indexes if index.id == index_id)
        positions = (
            table.handle_positions if index.exuvia_clustered else table.form(index).positions
        )
        parts.append(Part(tuple(positions), tuple(part.length for part in index.idx_cols)))
    return parts


def summarize(store: Store, task: Task) -> Steps:
    """The kernel of ANALYZE: `result` is the span's encoded Summary."""
    table = task.order.table
    parts = list(dict.fromkeys(parts_of(table, task.positions, task.order.index_ids)))
    summary = Summary(len(parts), task.samples, task.span, task.limit)
    needed = positions_of(parts)
    with closing(fresh_snapshot(store, table)) as snapshot:
        for run in runs_of(snapshot, task.span):
            add_chunk(summary, parts, row_batch.decode(table, [], run, snapshot.skip, needed))
            yield Batch(len(run), 0.0)
    return Outcome(ordinal=task.ordinal, rows=summary.rows, result=summary.encode())


def add_chunk(whole: Summary, parts: Sequence[Part], columns: Columns) -> None:
    """Adds a chunk of rows that has the columns of all parts."""
    whole.rows += columns.rows
    for part, summary in zip(parts, whole.parts, strict=True):
        words = _words(part, columns)
        nulls = columns.nulls(part.positions[0]) if len(part.positions) == 1 else None
        summary.nulls += 0 if nulls is None else int(nulls.sum())
        summary.bytes += sum(_bytes(columns, position) for position in part.positions)
        summary.distinct.add(words if nulls is None else words[~nulls])
    whole.sample.add(columns, positions_of(parts))


def _bytes(columns: Columns, position: int) -> int:
    cells = columns.padded(position)
    if cells is not None:
        return int(cells.lengths.sum())
    values = columns.column(position)
    if isinstance(values.values, pa.Array):
        return int(pc.sum(pc.binary_length(values.values)).as_py() or 0)
    stored = len(values.values) - (0 if values.nulls is None else int(values.nulls.sum()))
    return stored * int(values.values.dtype.itemsize)


def encoded(part: Part, columns: Columns) -> pa.Array:
    """Returns the part's keys: bytes that sort like its values, NULL first. A binary array."""
    pieces = [
        part_bytes(columns.column(position), length)
        for position, length in zip(part.positions, part.lengths, strict=True)
    ]
    return pieces[0] if len(pieces) == 1 else join_rows(pieces)


# -- hashes ----------------------------------------------------------------------------------------


def _words(part: Part, columns: Columns) -> Array:
    """Returns a hash of each row's value, uniform over 64-bit words. Shape (n,), uint64."""
    words: Array | None = None
    for position, length in zip(part.positions, part.lengths, strict=True):
        cells, nulls = columns.padded(position), columns.nulls(position)
        if cells is not None and _equal_as_bytes(cells, columns.field(position), length):
            more = _mixed(hash_keys(cells))
        else:
            more = _column_words(columns.column(position), length)
        if nulls is not None and len(part.positions) > 1:
            more = np.where(nulls, np.uint64(0), more)
        words = more if words is None else _mixed(words * np.uint64(3) + more)
    assert words is not None
    return words


def _equal_as_bytes(texts: Padded, field: FieldType, length: int) -> bool:
    """Whether values are equal exactly if their bytes are; see `_comparable`."""
    rules = collation(field.Collate) if field.family == Family.STRING else None
    if length >= 0 or (rules is not None and rules.fold is not None):
        return False
    if rules is None or not rules.pads:
        return True
    last = texts.matrix[np.arange(len(texts)), texts.lengths - 1]  # zero for an empty text
    return not (last == ord(" ")).any()


def _column_words(values: Vector, length: int) -> Array:
    field = values.field
    if field.family in NUMBERS:
        return _mixed(sortable(values))
    if field.family == Family.DECIMAL:
        stored = np.ascontiguousarray(values.values).view(np.uint64).reshape(len(values.values), -1)
        words: Array = _mixed(stored[:, 0])
        for n in range(1, stored.shape[1]):
            words = _mixed(words + stored[:, n])
        return words
    return _mixed(hash_texts(_comparable(values, field, length)))


def hash_texts(texts: pa.Array) -> Array:
    """Returns a hash of each text's bytes, independent of the other texts. Shape (n,), uint64."""
    offsets, data = buffers_of(texts)
    at, lengths = offsets[:-1], np.diff(offsets)
    hashes = np.zeros(len(lengths), np.uint64)
    if len(lengths) and lengths[0] and (lengths == lengths[0]).all():
        return hash_keys(data.view(f"V{lengths[0]}"))
    # grouped by the bit length of their lengths, so padding at most doubles a text
    classes = np.frexp(lengths)[1]
    for size in np.unique(classes[lengths > 0]).tolist():
        which = np.flatnonzero(classes == size)
        hashes[which] = hash_keys(Padded.gathered(data, at[which], lengths[which]))
    return hashes


def _comparable(values: Vector, field: FieldType, length: int) -> pa.Array:
    """Returns texts such that equal values have equal bytes."""
    if length >= 0:
        return part_bytes(values, length)
    rules = collation(field.Collate) if field.family == Family.STRING else None
    if rules is None or rules.fold is None:
        texts = values.values
        return _trimmed(texts) if rules is not None and rules.pads else texts
    return part_bytes(values, length)


def _trimmed(texts: pa.Array) -> pa.Array:
    """Returns texts without trailing spaces."""
    offsets, data = buffers_of(texts)
    ends = offsets[1:][np.diff(offsets) > 0]
    return pc.utf8_rtrim(texts, " ") if (data[ends - 1] == ord(" ")).any() else texts


def _mixed(words: Array) -> Array:
    """Splitmix64's last step: each bit of a word affects every bit of its hash."""
    words = words.astype(np.uint64, copy=False)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = words ^ (words >> np.uint64(31))
    return mixed


# -- statistics from a backfill --------------------------------------------------------------------
#
# fill task -> its span's Summary -> Gathered   one Summary of the index's parts, if this driver
#                                               filled every span
#
# A new driver does not have the summaries of its predecessor's tasks. It gathers nothing for that
# part, and the index is analyzed later like any other.

LEAST_ROWS = 1000
"""The statistics of smaller tables cost more than they are worth."""

Keep = Callable[[TaskOrder, Table, Summary], None]
"""Stores the summary of a table's new indexes. The table is a partition, or a whole table."""


class Gathered:
    """Summaries of a backfill's tasks. `rows`: approximate rows of the table."""

    def __init__(self, order: TaskOrder, rows: int) -> None:
        self._parts = list(dict.fromkeys(parts_of(order.table, (), order.index_ids)))
        self._fields = types_of(order.table, self._parts)
        self._limit = limit_of(ROWS, rows)
        self._by_start: dict[bytes, tuple[Span, bytes]] = {}

    def asking(self, tasks: Sequence[Task]) -> list[Task]:
        """Returns the backfill's tasks with sampling enabled."""
        sampling = {"samples": ROWS, "limit": self._limit}
        return [msgspec.structs.replace(task, **sampling) for task in tasks]

    def take(self, tasks: Sequence[Task], outcomes: Sequence[Outcome]) -> None:
        """Adds the summaries of finished tasks."""
        for outcome in outcomes:
            if outcome.kind == DONE and isinstance(outcome.result, bytes):
                span = tasks[outcome.ordinal].span
                self._by_start[span.start] = span, outcome.result

    def whole(self, span: Span) -> Summary | None:
        """Returns the summary of all rows of the span, or None if some were not sampled."""
        if span not in SpanSet(covered for covered, _ in self._by_start.values()):
            return None
        summary = Summary(len(self._parts), ROWS, span, self._limit)
        for start in sorted(self._by_start):
            of_span, raw = self._by_start[start]
            summary.merge(Summary.decode(raw, ROWS, of_span, self._fields))
        return summary


class MergedSummary:
    """One summary of all partitions, if each partition has one."""

    def __init__(self) -> None:
        self._merged: Summary | None = None
        self._is_incomplete = False

    def take(self, summary: Summary | None) -> None:
        """Adds the next partition's summary."""
        if summary is None or self._merged is None:
            self._is_incomplete = self._is_incomplete or summary is None
            self._merged = summary
        else:
            self._merged.merge(summary)

    @property
    def summary(self) -> Summary | None:
        """The summary of all partitions, or None."""
        return None if self._is_incomplete else self._merged
