"""Builds the statistics of columns and indexes from a table's rows.

    Summary (pipeline/kernels/summary.py)  --sorted sample-->  TopN, buckets
                                           --sketch-------->   number of distinct values

Statistics of a partitioned table are merged from those of its partitions if only some of them were
analyzed:

    common values    added up
    buckets          each becomes points: its rows at its bounds
    distinct values  the smallest hashes stored by any partition

All points together are a weighted sample, from which TopN and buckets are built as from any other.

TopN and an equal-depth histogram from a sorted sample:

    values, sorted    a a a a b c c d e e f g g g ...          runs of equal ones
    TopN              a: 4, g: 3                               common values
    buckets           [b .. d] [e .. f] ...                    the rest, equal numbers of rows

A value is common if its share of the sample exceeds the largest share expected by chance among all
average values. The limit is sqrt(2 ln n) standard deviations, at least two, without replacement.
(PostgreSQL's ANALYZE requires two.) If all values fit into the TopN, it has all of them and there
are no buckets. If no two values are equal, the TopN is empty. Counts are scaled from the sample to
the table. A value is in one bucket only.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog.codec.key_batch import keys_of, sortable
from exuvia.catalog.codec.key_encoder import NUMBERS, VALUES_BYTES, KeyForm
from exuvia.catalog.columns import Array, Columns
from exuvia.catalog.model import ColumnInfo, IndexInfo, SchemaState
from exuvia.catalog.table import Table
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.kernels.entries import positions, repeats, take
from exuvia.pipeline.kernels.summary import (
    Distinct,
    Part,
    PartSummary,
    Sample,
    Summary,
    encoded,
    parts_of,
    positions_of,
)
from exuvia.stats import records
from exuvia.stats.records import Statistics, StoredBucket


class CommonValue(NamedTuple):
    """A common value: its position in the sorted sample, and its rows."""

    at: int
    rows: int


class Bucket(NamedTuple):
    """Values from position `lower` to `upper` of the sample: `rows` rows, `repeats` of them the
    upper value, `distinct` values in the sample."""

    lower: int
    upper: int
    rows: int
    repeats: int
    distinct: int


class Built(NamedTuple):
    """The distribution of a column or index."""

    top: list[CommonValue]
    buckets: list[Bucket]


class Runs(NamedTuple):
    """Runs of equal values in a sorted sample. `at`: first positions; `rows`: lengths.

    Shape (n,), int64."""

    at: Array
    rows: Array

    def take(self, chosen: Array) -> "Runs":
        """The runs at these positions, or of this mask."""
        return Runs(self.at[chosen], self.rows[chosen])


def runs_of(begins: Array) -> Runs:
    """The runs of a sample; `begins`: whether a value differs from the one before. Shape (n,)."""
    at = np.flatnonzero(begins)
    return Runs(at, np.diff(at, append=len(begins)))


def begins_of(keys: Sequence[bytes]) -> Array:
    """Whether each of the sorted keys differs from the one before. Shape (n,), bool."""
    return np.array([True, *(a != b for a, b in pairwise(keys))][: len(keys)], dtype=bool)


def build(begins: Array, rows: int, distinct: int, most_top: int, most: int) -> Built:
    """The distribution of `rows` values from a sorted sample of them, both without NULLs.

    `begins`: see runs_of. `distinct`: number of distinct values among the rows. At most `most_top`
    common values and `most` buckets."""
    sampled = len(begins)
    if not sampled:
        return Built([], [])
    runs = runs_of(begins)
    factor = rows / sampled
    top = _common(runs, sampled, rows, distinct, most_top)
    is_rest = np.ones(len(runs.at), dtype=bool)
    is_rest[top] = False
    common = [
        CommonValue(at, round(number * factor))
        for at, number in zip(runs.at[top].tolist(), runs.rows[top].tolist(), strict=True)
    ]
    return Built(common, _buckets(runs.take(is_rest), factor, most))


def _common(runs: Runs, sampled: int, rows: int, distinct: int, most_top: int) -> Array:
    """Positions of the runs of common values, in order."""
    number = len(runs.at)
    if sampled == number:
        return np.zeros(0, np.int64)  # all differ
    if max(distinct, number) <= most_top:
        return np.arange(number)
    repeated = np.flatnonzero(runs.rows > 1)
    candidates = repeated[np.argsort(-runs.rows[repeated], kind="stable")][:most_top]
    counts = runs.rows[candidates].tolist()
    covered = sum(counts)
    while counts:
        last = counts[-1]
        others = max(1, distinct - len(counts))
        share = max(0.0, 1 - covered / sampled) / others
        deviations = max(2.0, sqrt(2 * log(others)))
        if last > share * sampled + deviations * _deviation(share, sampled, rows) + 0.5:
            break
        covered -= last
        counts.pop()
    return np.sort(candidates[: len(counts)])


def _deviation(share: float, sampled: int, rows: int) -> float:
    """Standard deviation of the sampled rows of a value with that share: hypergeometric."""
    if rows < 2:
        return 0.0
    having = rows * share
    variance = sampled * having * (rows - having) * (rows - sampled)
    return sqrt(max(0.0, variance / (float(rows) * rows * (rows - 1))))


def _buckets(runs: Runs, factor: float, most: int) -> list[Bucket]:
    """Buckets of consecutive runs, at least one run each.

    Each gets an even share of the remaining rows, so large early buckets do not make the last one
    too large."""
    ends = np.append(0, np.cumsum(runs.rows))  # rows before each run, and in all
    buckets: list[Bucket] = []
    first = assigned = 0
    while first < len(runs.at):
        depth = int(ends[-1] - ends[first]) / (most - len(buckets))
        full = int(np.searchsorted(ends, ends[first] + depth + 1, side="right")) - 1
        next_ = max(first + 1, full)
        total = round(int(ends[next_]) * factor)
        bounds = int(runs.at[first]), int(runs.at[next_ - 1])
        repeats = round(int(runs.rows[next_ - 1]) * factor)
        buckets.append(Bucket(*bounds, total - assigned, repeats, next_ - first))
        first, assigned = next_, total
    return buckets


# -- analysis --------------------------------------------------------------------------------------

_LONG = frozenset({TypeCode.JSON, TypeCode.MEDIUM_BLOB, TypeCode.LONG_BLOB})
SKETCH_WORDS = 2048
_NOTHING = np.zeros(0, np.int64), np.zeros(0, bool)


class Subject(NamedTuple):
    """The analyzed columns and indexes; `parts` has the columns, then the indexes."""

    columns: tuple[ColumnInfo, ...]
    indexes: tuple[IndexInfo, ...]
    parts: tuple[Part, ...]
    skipped: tuple[ColumnInfo, ...] = ()

    @property
    def looked_at(self) -> list[Part]:
        """Each part once: an index of one column has the part of the column."""
        return list(dict.fromkeys(self.parts))

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of the columns."""
        return tuple(part.positions[0] for part in self.parts[: len(self.columns)])


def subject_of(table: Table, column_ids: Sequence[int] = ()) -> Subject:
    """All public indexes, the requested columns (all by default), and the columns of the
    indexes."""
    info = table.info
    indexes = tuple(
        index_info for index_info in info.indexes if index_info.state == SchemaState.PUBLIC
    )
    keyed = {part.exuvia_column for index in indexes for part in index.idx_cols}
    keyed |= {info.cols[position].id for position in table.handle_positions}
    chosen: list[int] = []
    skipped: list[ColumnInfo] = []
    for position, column in enumerate(info.cols):
        if column.state != SchemaState.PUBLIC:
            continue
        if is_skipped(column.type):
            skipped.append(column)
        elif not column_ids or column.id in column_ids or column.id in keyed:
            chosen.append(position)
    parts = parts_of(table, chosen, [index.id for index in indexes])
    columns = tuple(info.cols[position] for position in chosen)
    return Subject(columns, indexes, tuple(parts), tuple(skipped))


def is_skipped(field: FieldType) -> bool:
    """Whether tidb_analyze_skip_column_types skips the type by default.

    Its default is JSON, BLOB, and the medium and long blob and text types."""
    is_blob = field.Tp == TypeCode.BLOB and field.family == Family.BYTES
    return field.Tp in _LONG or is_blob


def statistics_of(
    table_summary: Summary,
    table: Table,
    subject: Subject,
    physical_id: int,
    most_top: int,
    most: int,
) -> list[Statistics]:
    """One for each part. `physical_id`: whom they are of."""
    sample = table_summary.sample
    sample.cut()
    columns = _columns(sample, table, subject)
    by_part = {
        part: _of_part(table_summary.rows, part, summary, columns, columns.rows, most_top, most)
        for part, summary in zip(subject.looked_at, table_summary.parts, strict=True)
    }
    ids = [(False, named.id) for named in subject.columns]
    ids += [(True, named.id) for named in subject.indexes]
    return [
        by_part[part]._replace(table_id=physical_id, is_index=is_index, hist_id=hist_id)
        for (is_index, hist_id), part in zip(ids, subject.parts, strict=True)
    ]


def _columns(sample: Sample, table: Table, subject: Subject) -> Columns:
    """The sampled rows, in the order of the table."""
    order = np.argsort(sample.places)
    column_positions = positions_of(subject.parts)
    values = dict(zip(column_positions, sample.values, strict=False))
    infos = [table.info.cols[position] for position in column_positions]
    return Columns(
        [info.type for info in infos],
        [info.name.O for info in infos],
        column_positions,
        [],
        lambda _, position: values[position].take(order),
        len(order),
    )


def _of_part(
    rows: int,
    part: Part,
    summary: PartSummary,
    columns: Columns,
    sampled: int,
    most_top: int,
    most: int,
) -> Statistics:
    alone = len(part.positions) == 1
    order, begins = _sorted(part, columns) if sampled else _NOTHING
    stored = rows - summary.nulls
    distinct = min(summary.distinct.count, stored)
    built = build(begins, stored, distinct, most_top, most)
    texts = _texts(part, columns, built, order)
    return Statistics(
        table_id=0,
        is_index=False,
        hist_id=0,
        distinct=distinct,
        nulls=summary.nulls,
        size=summary.bytes,
        correlation=_correlation(order) if alone else 0.0,
        sketch=_sketch_bytes(summary.distinct),
        top=tuple((texts[common.at], common.rows) for common in built.top),
        buckets=tuple(
            StoredBucket(
                bucket.rows,
                bucket.repeats,
                texts[bucket.lower],
                texts[bucket.upper],
                bucket.distinct,
            )
            for bucket in built.buckets
        ),
    )


def _sorted(part: Part, columns: Columns) -> tuple[Array, Array]:
    """Sorts the rows by the part's values, without those where a single column is NULL.

    Returns their positions, and whether each value differs from the one before."""
    alone = columns.column(part.positions[0]) if len(part.positions) == 1 else None
    order: Array
    if alone is not None and alone.field.family in NUMBERS:
        words = sortable(alone)
        order = np.argsort(words, kind="stable")
        order = order if alone.nulls is None else order[~alone.nulls[order]]
        words = words[order]
        return order, np.append(True, words[1:] != words[:-1])[: len(order)]
    keys = keys_of(encoded(part, columns))
    order = positions(keys)
    if alone is not None and alone.nulls is not None:
        order = order[~alone.nulls[order]]
    begins = np.ones(len(order), bool)
    begins[repeats(take(keys, order))] = False
    return order, begins


def _texts(part: Part, columns: Columns, built: Built, order: Array) -> dict[int, bytes]:
    """The values that the statistics contain, by their positions among the sorted ones."""
    places = {common.at for common in built.top}
    places |= {place for bucket in built.buckets for place in (bucket.lower, bucket.upper)}
    needed = sorted(places)
    if not needed:
        return {}
    rows = order[np.array(needed)]
    fields: list[FieldType] = []
    lists = []
    for position, length in zip(part.positions, part.lengths, strict=True):
        values = columns.column(position)
        fields.append(values.field)
        end = None if length < 0 else length
        sampled_values = values.take(rows).to_list()
        lists.append([v[:end] if isinstance(v, str | bytes) else v for v in sampled_values])
    return dict(zip(needed, _dumped(lists, fields), strict=True))


def _dumped(lists: list[list[object]], fields: list[FieldType]) -> list[bytes]:
    if len(lists) == 1:
        return [records.dump(value, fields[0]) for value in lists[0]]
    return [records.dump_many(row, fields) for row in zip(*lists, strict=True)]


def _correlation(order: Array) -> float:
    """The correlation of the values' order with that of the rows; `order` lists rows by value."""
    if len(order) < 2:
        return float(len(order))
    if (np.diff(order) > 0).all():
        return 1.0
    return float(np.corrcoef(np.arange(len(order)), order)[0, 1])


# -- merging ---------------------------------------------------------------------------------------

POINTS = 100_000


def merged(
    txn: Transaction,
    table: Table,
    subject: Subject,
    physical_ids: Sequence[int],
    most_top: int,
    most: int,
) -> list[Statistics]:
    """The merged statistics of each part for which a partition has statistics."""
    by_place: dict[tuple[bool, int], list[Statistics]] = {}
    for physical_id in physical_ids:
        for stats in records.read(txn, physical_id):
            by_place.setdefault((stats.is_index, stats.hist_id), []).append(stats)
    ids = [(False, stats.id) for stats in subject.columns]
    ids += [(True, stats.id) for stats in subject.indexes]
    return [
        _merge(by_place[place], part, table, most_top, most)._replace(
            table_id=table.info.statistics_id, is_index=place[0], hist_id=place[1]
        )
        for place, part in zip(ids, subject.parts, strict=True)
        if place in by_place
    ]


def fields_of(table: Table, part: Part) -> list[FieldType]:
    """The types of a part's columns."""
    return [table.info.cols[position].type for position in part.positions]


def _merge(
    partition_stats: list[Statistics], part: Part, table: Table, most_top: int, most: int
) -> Statistics:
    fields = fields_of(table, part)
    form = KeyForm([(f, n) for f, n in zip(fields, part.lengths, strict=True)], VALUES_BYTES)
    weights = _weights(partition_stats)
    points = sorted((form.whole(_values(value, fields)), value) for value in weights)
    rows = sum(weights.values())
    distinct, sketch = _distinct_of(partition_stats, fields)
    share = max(1.0, rows / POINTS)
    keys: list[bytes] = []
    values: list[bytes] = []
    for key, value in points:
        copies = max(1, round(weights[value] / share))
        keys += [key] * copies
        values += [value] * copies
    most_top = (
        most_top if any(stats.top for stats in partition_stats) else 0
    )  # bounds are not common values
    built = build(begins_of(keys), rows, min(rows, distinct), most_top, most)
    return Statistics(
        table_id=0,
        is_index=False,
        hist_id=0,
        distinct=min(rows, distinct),
        nulls=sum(stats.nulls for stats in partition_stats),
        size=sum(stats.size for stats in partition_stats),
        sketch=sketch,
        top=tuple((values[common.at], common.rows) for common in built.top),
        buckets=tuple(
            StoredBucket(
                stats.rows, stats.repeats, values[stats.lower], values[stats.upper], stats.distinct
            )
            for stats in built.buckets
        ),
    )


# A stored sketch of hashes ends in a marker word that is not a hash: texts are hashed as words
# (summary.py). Sketches without the marker are from versions that hashed texts in another way, so
# the same text would count twice; hashes of numbers are equal. Those versions count the marker as
# one more value.

_BY_WORDS = np.uint64((1 << 64) - 1)


def _sketch_bytes(distinct: Distinct) -> bytes:
    return np.append(distinct.smallest[:SKETCH_WORDS], _BY_WORDS).tobytes()


def _distinct_of(partition_stats: list[Statistics], fields: list[FieldType]) -> tuple[int, bytes]:
    """The number of distinct values of all partitions, and their sketch.

    If some partitions were analyzed by a version with another hash of texts, the larger of both
    numbers."""
    plain = all(field.family in (*NUMBERS, Family.DECIMAL) for field in fields)
    now, before = Distinct(SKETCH_WORDS), Distinct(SKETCH_WORDS)
    for stats in partition_stats:
        words = np.frombuffer(stats.sketch, np.uint64)
        by_words = words[-1:] == _BY_WORDS
        side = now if plain or by_words.any() else before
        side.add(words[:-1] if by_words.any() else words)
    if not now.count:
        return before.count, before.smallest.tobytes()
    return max(now.count, before.count), _sketch_bytes(now)


def _weights(partition_stats: list[Statistics]) -> Counter[bytes]:
    """The number of rows at each value in the statistics."""
    weights: Counter[bytes] = Counter()
    for stats in partition_stats:
        for value, rows in stats.top:
            weights[value] += rows
        for bucket in stats.buckets:
            rest = max(0, bucket.rows - bucket.repeats)
            weights[bucket.lower] += (rest + 1) // 2
            weights[bucket.upper] += bucket.repeats + rest // 2
    return weights


def _values(raw: bytes, fields: list[FieldType]) -> list[object]:
    if len(fields) == 1:
        return [records.load(raw, fields[0])]
    return records.load_many(raw, fields)
