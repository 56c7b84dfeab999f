"""What statistics need of some rows: the kernel of ANALYZE, and what a fill gathers meanwhile.

    a span's rows --chunks--> Summary      rows; of each part nulls, bytes, a sketch of
                                           different values; a sample of whole rows
    Summary + Summary = Summary of both    spans of a table, partitions of a table

A part is a column, or an index of several columns (or of the beginning of one): what its key would
be. Values are hashed as their collation compares them. Nothing is written, so nothing is fenced.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import NamedTuple
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
# Rows drawn evenly from a table: each row draws a lot, those with the smallest lots are kept.
#
#     row    0    1    2    3    4 ...        lots are even between 0 and 1
#     lot   .71  .02  .93  .08  .44           limit .1: rows 1 and 3 are kept
#
# The limit is set beforehand from how many rows there are about, so what a task brings back is not
# much more than what is kept in the end. Lots are drawn from a seed that follows from the span, so
# a span that is read twice gives the same rows. Two samples merge into a sample of both, whatever
# their sizes: the smallest lots of all. Only the columns that are looked at are kept; at most BYTES
# of them, which makes the sample of a table with long values a smaller one.

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

    def add(self, columns: Columns, positions: Sequence[int]) -> None:
        """A chunk of rows, in the order of the table, of which those columns are looked at."""
        lots: Array = self._random.random(columns.rows)
        kept = np.flatnonzero(lots < self._limit)
        values = [columns.take(position, kept) for position in positions] if len(kept) else []
        self._take(_Piece(lots[kept], kept, values), columns.rows)

    def merge(self, other: "Sample") -> None:
        """Take in the sample of the rows that follow."""
        self._tighten(other._limit)
        whole = other._piece()
        self._take(whole.take(np.flatnonzero(whole.lots < self._limit)), other._rows)

    def _take(self, few: "_Piece", rows: int) -> None:
        """The sampled ones of the next `rows` rows."""
        if len(few.lots):
            self._pieces.append(few._replace(places=few.places + self._rows))
            self._kept += len(few.lots)
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

    def take(self, kept: Array) -> "_Piece":
        """Those at these places among them."""
        return _Piece(
            self.lots[kept], self.places[kept], [column.take(kept) for column in self.values]
        )

    @property
    def bytes(self) -> int:
        """About how many its values take."""
        return sum(int(column.values.nbytes) for column in self.values)


_NOTHING = _Piece(np.zeros(0), np.zeros(0, np.int64), [])


def _joined(pieces: list[_Piece]) -> _Piece:
    pieces = [piece for piece in pieces if len(piece.lots)] or [_NOTHING]
    lots = np.concatenate([piece.lots for piece in pieces])
    places = np.concatenate([piece.places for piece in pieces])
    values = [joined(column) for column in zip(*(piece.values for piece in pieces), strict=True)]
    return _Piece(lots, places, values)


# -- how many different values ---------------------------------------------------------------------
#
# A sketch that keeps the smallest of their hashes.
#
#     values --hash--> 64-bit words, even all over        the k smallest different ones are kept
#     n <= k different ones       exactly n               (as far as 64-bit words differ)
#     more                        (k - 1) / the k-th smallest as a share of all words
#
# The standard error is 1 / sqrt(k - 2): 0.55 % for 32,768. Two sketches merge into the sketch of
# both, in any order, so spans and partitions are read apart. Once the sketch is full almost every
# value is turned away by one comparison, which a vector does in a nanosecond.
#
# Source: Bar-Yossef et al., "Counting distinct elements in a data stream" (2002); Beyer et al., "On
# synopses for distinct-value estimation under multiset operations" (2007).

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


# -- summaries -------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Columns whose values are looked at together; `lengths` are prefixes, -1 for all."""

    positions: tuple[int, ...]
    lengths: tuple[int, ...]


class PartSummary:
    """Of one part. `bytes`: of values that are not NULL."""

    def __init__(self, nulls: int = 0, size: int = 0, distinct: Distinct | None = None) -> None:
        self.nulls = nulls
        self.bytes = size
        self.distinct = distinct or Distinct()


class Summary:
    """Of some rows of a table."""

    def __init__(self, parts: int, samples: int, span: Span, limit: float = 1.0) -> None:
        self.rows = 0
        self.parts = [PartSummary() for _ in range(parts)]
        self.sample = Sample(samples, span, limit)

    def merge(self, other: "Summary") -> None:
        """Take in the summary of the rows that follow."""
        self.rows += other.rows
        for mine, theirs in zip(self.parts, other.parts, strict=True):
            mine.nulls += theirs.nulls
            mine.bytes += theirs.bytes
            mine.distinct.merge(theirs.distinct)
        self.sample.merge(other.sample)

    def encode(self) -> bytes:
        """For the way from a worker."""
        parts = [(p.nulls, p.bytes, p.distinct.smallest.tobytes()) for p in self.parts]
        return msgspec.msgpack.encode((self.rows, parts, self.sample.packed()))

    @classmethod
    def decode(cls, raw: bytes, samples: int, span: Span, fields: Sequence[FieldType]) -> "Summary":
        """Inverse of `encode`. `fields`: the types of the columns at the parts' positions."""
        rows, parts, sample = msgspec.msgpack.decode(raw, type=_Encoded)
        summary = cls(0, samples, span)
        summary.rows = rows
        summary.parts = [
            PartSummary(nulls, size, Distinct(smallest=np.frombuffer(words, np.uint64)))
            for nulls, size, words in parts
        ]
        summary.sample.unpack(sample, fields)
        return summary


_Encoded = tuple[int, list[tuple[int, int, bytes]], PackedSample]


def positions_of(parts: Iterable[Part]) -> list[int]:
    """Of the columns that the parts are made of, in order."""
    return sorted({position for part in parts for position in part.positions})


def types_of(table: Table, parts: Iterable[Part]) -> list[FieldType]:
    """The types of these columns."""
    return [table.info.cols[position].type for position in positions_of(parts)]


def parts_of(table: Table, columns: Sequence[int], index_ids: Iterable[int]) -> list[Part]:
    """The columns at these positions, then the indexes."""
    parts = [Part((position,), (-1,)) for position in columns]
    for index_id in index_ids:
        index = next(index for index in table.info.indexes if index.id == index_id)
        positions = (
            table.handle_positions if index.exuvia_clustered else table.form(index).positions
        )
        parts.append(Part(tuple(positions), tuple(part.length for part in index.idx_cols)))
    return parts


def summarize(store: Store, task: Task) -> Steps:
    """The kernel: `result` is the span's Summary, encoded."""
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
    """Look at a chunk of rows, of which there are the columns of all parts."""
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
    """The part's keys: bytes that sort as its values do, NULL first. A binary array."""
    pieces = [
        part_bytes(columns.column(position), length)
        for position, length in zip(part.positions, part.lengths, strict=True)
    ]
    return pieces[0] if len(pieces) == 1 else join_rows(pieces)


# -- hashes ----------------------------------------------------------------------------------------


def _words(part: Part, columns: Columns) -> Array:
    """A hash of each row's value, even over all 64-bit words. Shape (n,), uint64."""
    words: Array | None = None
    for position, length in zip(part.positions, part.lengths, strict=True):
        cells, nulls = columns.padded(position), columns.nulls(position)
        if cells is not None and _equal_as_bytes(cells, columns.field(position), length):
            more = _mixed(hash_keys(cells))
        else:
            more = _one(columns.column(position), length)
        if nulls is not None and len(part.positions) > 1:
            more = np.where(nulls, np.uint64(0), more)
        words = more if words is None else _mixed(words * np.uint64(3) + more)
    assert words is not None
    return words


def _equal_as_bytes(texts: Padded, field: FieldType, length: int) -> bool:
    """Whether values are equal if and only if their bytes are; see `_compared`."""
    rules = collation(field.Collate) if field.family == Family.STRING else None
    if length >= 0 or (rules is not None and rules.fold is not None):
        return False
    if rules is None or not rules.pads:
        return True
    last = texts.matrix[np.arange(len(texts)), texts.lengths - 1]  # of an empty one a zero
    return not (last == ord(" ")).any()


def _one(values: Vector, length: int) -> Array:
    field = values.field
    if field.family in NUMBERS:
        return _mixed(sortable(values))
    if field.family == Family.DECIMAL:
        stored = np.ascontiguousarray(values.values).view(np.uint64).reshape(len(values.values), -1)
        words: Array = _mixed(stored[:, 0])
        for n in range(1, stored.shape[1]):
            words = _mixed(words + stored[:, n])
        return words
    return _mixed(hash_texts(_compared(values, field, length)))


def hash_texts(texts: pa.Array) -> Array:
    """A hash of each text's bytes, the same however wide the others are. Shape (n,), uint64."""
    offsets, data = buffers_of(texts)
    at, lengths = offsets[:-1], np.diff(offsets)
    hashes = np.zeros(len(lengths), np.uint64)
    if len(lengths) and lengths[0] and (lengths == lengths[0]).all():
        return hash_keys(data.view(f"V{lengths[0]}"))
    # by how many bits their lengths have: zeros behind the shorter ones are at most as many
    classes = np.frexp(lengths)[1]
    for size in np.unique(classes[lengths > 0]).tolist():
        which = np.flatnonzero(classes == size)
        hashes[which] = hash_keys(Padded.gathered(data, at[which], lengths[which]))
    return hashes


def _compared(values: Vector, field: FieldType, length: int) -> pa.Array:
    """Texts so that those that are equal have equal bytes."""
    if length >= 0:
        return part_bytes(values, length)
    rules = collation(field.Collate) if field.family == Family.STRING else None
    if rules is None or rules.fold is None:
        texts = values.values
        return _trimmed(texts) if rules is not None and rules.pads else texts
    return part_bytes(values, length)


def _trimmed(texts: pa.Array) -> pa.Array:
    """Without the spaces that they end in."""
    offsets, data = buffers_of(texts)
    ends = offsets[1:][np.diff(offsets) > 0]
    return pc.utf8_rtrim(texts, " ") if (data[ends - 1] == ord(" ")).any() else texts


def _mixed(words: Array) -> Array:
    """Splitmix64's last step: every bit of a word moves every bit of its hash."""
    words = words.astype(np.uint64, copy=False)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = words ^ (words >> np.uint64(31))
    return mixed


# -- while a fill has the rows in its hands --------------------------------------------------------
#
# fill task -> its span's Summary -> Gathered       one Summary of the index's parts, when every
# span
#                                                   was filled for this driver
#
# A driver that took over from another has not what that one's tasks found: nothing is made of a
# part, and the index is analyzed later like any other.

LEAST_ROWS = 1000
"""A smaller table's statistics would cost more than they tell."""

Keep = Callable[[TaskOrder, Table, Summary], None]
"""What is done with the summary of a table's new indexes; the table is a partition, or a whole."""


class Gathered:
    """See the module. `rows`: how many the table has, about."""

    def __init__(self, order: TaskOrder, rows: int) -> None:
        self._parts = list(dict.fromkeys(parts_of(order.table, (), order.index_ids)))
        self._fields = types_of(order.table, self._parts)
        self._limit = limit_of(ROWS, rows)
        self._by_start: dict[bytes, tuple[Span, bytes]] = {}

    def asking(self, tasks: Sequence[Task]) -> list[Task]:
        """The fill's tasks, which are to look at their rows too."""
        asked = {"samples": ROWS, "limit": self._limit}
        return [msgspec.structs.replace(task, **asked) for task in tasks]

    def take(self, tasks: Sequence[Task], outcomes: Sequence[Outcome]) -> None:
        """Take in what tasks found."""
        for outcome in outcomes:
            if outcome.kind == DONE and isinstance(outcome.result, bytes):
                span = tasks[outcome.ordinal].span
                self._by_start[span.start] = span, outcome.result

    def whole(self, span: Span) -> Summary | None:
        """Of all rows of the span, None where some were not looked at."""
        if span not in SpanSet(seen for seen, _ in self._by_start.values()):
            return None
        summary = Summary(len(self._parts), ROWS, span, self._limit)
        for start in sorted(self._by_start):
            of_span, raw = self._by_start[start]
            summary.merge(Summary.decode(raw, ROWS, of_span, self._fields))
        return summary


class MergedSummary:
    """Summaries of partitions as one, as long as each has one."""

    def __init__(self) -> None:
        self._found: Summary | None = None
        self._lacks = False

    def take(self, summary: Summary | None) -> None:
        """The next partition's."""
        if summary is None or self._found is None:
            self._lacks = self._lacks or summary is None
            self._found = summary
        else:
            self._found.merge(summary)

    @property
    def summary(self) -> Summary | None:
        """Of all of them."""
        return None if self._lacks else self._found
