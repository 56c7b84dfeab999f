"""What statistics need of some rows: the kernel of ANALYZE.

    a span's rows --chunks--> Summary      rows; of each part nulls, bytes, a sketch of
                                           different values; a sample of whole rows
    Summary + Summary = Summary of both    spans of a table, partitions of a table

A part is a column, or an index of several columns (or of the beginning of one): what its key would
be. Values are hashed as their collation compares them. Nothing is written, so nothing is fenced.
"""

import threading
from collections.abc import Generator, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exuvia.base.types import Family, FieldType
from exuvia.catalog.codec import row_batch
from exuvia.catalog.codec.key_batch import join_rows, part_bytes, sortable
from exuvia.catalog.codec.key_encoder import NUMBERS
from exuvia.catalog.collation import collation
from exuvia.catalog.columns import Array, Columns, Vector
from exuvia.catalog.table import Table
from exuvia.kv.packet import Snapshot, Span
from exuvia.kv.store import Store
from exuvia.pipeline.entries import CHUNK_ROWS, fresh_snapshot
from exuvia.pipeline.sampling import Distinct, PackedSample, Sample
from exuvia.pipeline.task import Outcome, Task
from exuvia.pipeline.throttle import Batch

Steps = Generator[Batch, None, Outcome]

_FIRST_ROWS = 100
_MOST_ROWS = 32_768
_CHUNK_BYTES = 16 << 20


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
        found = cls(0, samples, span)
        found.rows = rows
        found.parts = [
            PartSummary(nulls, size, Distinct(smallest=np.frombuffer(words, np.uint64)))
            for nulls, size, words in parts
        ]
        found.sample.unpack(sample, fields)
        return found


_Encoded = tuple[int, list[tuple[int, int, bytes]], PackedSample]


def positions_of(parts: Iterable[Part]) -> list[int]:
    """Of the columns that the parts are made of, in order."""
    return sorted({position for part in parts for position in part.positions})


def types_of(table: Table, parts: Iterable[Part]) -> list[FieldType]:
    """The types of these columns."""
    return [table.info.cols[position].type for position in positions_of(parts)]


def parts_of(table: Table, columns: Sequence[int], index_ids: Iterable[int]) -> list[Part]:
    """The columns at these positions, then the indexes."""
    found = [Part((position,), (-1,)) for position in columns]
    for index_id in index_ids:
        (index,) = (each for each in table.info.indexes if each.id == index_id)
        positions = (
            table.handle_positions if index.exuvia_clustered else table.form(index).positions
        )
        found.append(Part(tuple(positions), tuple(part.length for part in index.idx_cols)))
    return found


def summarize(store: Store, task: Task) -> Steps:
    """The kernel: `result` is the span's Summary, encoded."""
    table = task.order.table
    parts = list(dict.fromkeys(parts_of(table, task.positions, task.order.index_ids)))
    found = Summary(len(parts), task.samples, task.span, task.limit)
    wanted = positions_of(parts)
    snapshot = fresh_snapshot(store, table)
    try:
        for _, raws in snapshot.chunks(task.span, _chunk_rows(snapshot, task.span)):
            add_chunk(found, parts, row_batch.decode(table, [], raws, wanted))
            yield Batch(len(raws), 0.0)
    finally:
        snapshot.close()
    return Outcome(ordinal=task.ordinal, rows=found.rows, result=found.encode())


def _chunk_rows(snapshot: Snapshot, span: Span) -> int:
    """How many rows to look at together: what is done once a chunk should not count."""
    sizes = [len(raw) for _, raw in islice(snapshot.scan(span), _FIRST_ROWS)]
    average = sum(sizes) / max(1, len(sizes))
    return int(max(CHUNK_ROWS / 10, min(_MOST_ROWS, _CHUNK_BYTES / max(1.0, average))))


def add_chunk(found: Summary, parts: Sequence[Part], columns: Columns) -> None:
    """Look at a chunk of rows, of which there are the columns of all parts."""
    found.rows += columns.rows
    for part, summary in zip(parts, found.parts, strict=True):
        words = _words(part, columns)
        nulls = columns.column(part.positions[0]).nulls if len(part.positions) == 1 else None
        summary.nulls += 0 if nulls is None else int(nulls.sum())
        summary.bytes += sum(_bytes(columns.column(position)) for position in part.positions)
        summary.distinct.add(words if nulls is None else words[~nulls])
    found.sample.add([columns.column(n) for n in positions_of(parts)], columns.rows)


def _bytes(values: Vector) -> int:
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
        values = columns.column(position)
        more = _one(values, length)
        if values.nulls is not None and len(part.positions) > 1:
            more = np.where(values.nulls, np.uint64(0), more)
        words = more if words is None else _mixed(words * np.uint64(3) + more)
    assert words is not None
    return words


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
    return _texts(_compared(values, field, length))


def _compared(values: Vector, field: FieldType, length: int) -> pa.Array:
    """Texts so that those that are equal have equal bytes."""
    if length >= 0:
        return part_bytes(values, length)
    found = collation(field.Collate) if field.family == Family.STRING else None
    if found is None or found.fold is None:
        texts = values.values
        return pc.utf8_rtrim(texts, " ") if found is not None and found.pads else texts
    return part_bytes(values, length)


def _texts(texts: pa.Array) -> Array:
    """DuckDB's hash of each text: it is the same in every process."""
    words: Array = (
        _duck().from_arrow(pa.table({"c": texts})).project("hash(c) AS h").fetchnumpy()["h"]
    )
    return _mixed(np.asarray(words, dtype=np.uint64))


def _duck() -> Any:
    import duckdb  # brings much: only for who analyzes texts

    connection = getattr(_own, "connection", None)
    if connection is None:
        connection = _own.connection = duckdb.connect()
        connection.execute("SET threads = 1")
    return connection


_own = threading.local()


def _mixed(words: Array) -> Array:
    """Splitmix64's last step: every bit of a word moves every bit of its hash."""
    words = words.astype(np.uint64, copy=False)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = words ^ (words >> np.uint64(31))
    return mixed
