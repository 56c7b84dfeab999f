"""From what was read of a table's rows to the statistics of its columns and indexes.

Summary (pipeline/kernels/summary.py)  --sorted sample-->  TopN, buckets (stats/analysis.py)
                               --sketch-------->  different values

A partitioned table's statistics from those of its partitions, where not all were read anew.

    common values    added up
    buckets          each becomes points: its rows at its bounds
    different ones   the smallest hashes of all that the partitions kept

All points together are a weighted sample, of which TopN and buckets are built as of any other.

TopN and an equal-depth histogram from a sorted sample.

    values, sorted    a a a a b c c d e e f g g g ...          runs of equal ones
    TopN              a: 4, g: 3                               those that stand out
    buckets           [b .. d] [e .. f] ...                    the rest, about as many rows in each

A value stands out when its share in the sample is larger than chance would make the largest of so
many average ones: sqrt(2 ln n) standard deviations, at least two, without replacement (PostgreSQL's
ANALYZE asks for two). Where all values there are fit into the TopN, they are all in it and there
are no buckets; where no two are equal, none is.
Counts are of the table, not of the sample. A value is in one bucket only.
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
    """A value that stands out: where it is in the sorted sample, and its rows."""

    at: int
    rows: int


class Bucket(NamedTuple):
    """Values from the one at `lower` to the one at `upper`: `rows` rows, `repeats` of them the
    upper value, `distinct` values in the sample."""

    lower: int
    upper: int
    rows: int
    repeats: int
    distinct: int


class Built(NamedTuple):
    """A column's or index's distribution."""

    top: list[CommonValue]
    buckets: list[Bucket]


class Runs(NamedTuple):
    """Equal values of a sorted sample. `at`: where each begins; `rows`: how many there are.

    Shape (n,), int64."""

    at: Array
    rows: Array

    def take(self, chosen: Array) -> "Runs":
        """Some of them, by places or by a mask."""
        return Runs(self.at[chosen], self.rows[chosen])


def runs_of(begins: Array) -> Runs:
    """The runs of a sample; `begins`: whether a value differs from the one before. Shape (n,)."""
    at = np.flatnonzero(begins)
    return Runs(at, np.diff(at, append=len(begins)))


def begins_of(keys: Sequence[bytes]) -> Array:
    """Whether each of some sorted keys differs from the one before. Shape (n,), bool."""
    return np.array([True, *(a != b for a, b in pairwise(keys))][: len(keys)], dtype=bool)


def build(begins: Array, rows: int, distinct: int, most_top: int, most: int) -> Built:
    """The distribution of `rows` values of which there is a sorted sample, NULLs in neither.

    `begins`: see runs_of. `distinct`: different ones among the rows. At most `most_top` common
    values, `most` buckets."""
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
    """Places of the runs that stand out, in order."""
    number = len(runs.at)
    if sampled == number:
        return np.zeros(0, np.int64)  # all differ
    if max(distinct, number) <= most_top:
        return np.arange(number)
    often = np.flatnonzero(runs.rows > 1)
    found = often[np.argsort(-runs.rows[often], kind="stable")][:most_top]
    counts = runs.rows[found].tolist()
    taken = sum(counts)
    while counts:
        last = counts[-1]
        others = max(1, distinct - len(counts))
        share = max(0.0, 1 - taken / sampled) / others
        far = max(2.0, sqrt(2 * log(others)))
        if last > share * sampled + far * _deviation(share, sampled, rows) + 0.5:
            break
        taken -= last
        counts.pop()
    return np.sort(found[: len(counts)])


def _deviation(share: float, sampled: int, rows: int) -> float:
    """Of the number of rows with a value of that share in such a sample: hypergeometric."""
    if rows < 2:
        return 0.0
    having = rows * share
    variance = sampled * having * (rows - having) * (rows - sampled)
    return sqrt(max(0.0, variance / (float(rows) * rows * (rows - 1))))


def _buckets(runs: Runs, factor: float, most: int) -> list[Bucket]:
    """Runs in order, as many to a bucket as fit into an even share of the rows that are left, at
    least one; so what did not fit into the first ones is not all in the last."""
    ends = np.append(0, np.cumsum(runs.rows))  # rows before each run, and in all
    found: list[Bucket] = []
    first = told = 0
    while first < len(runs.at):
        depth = int(ends[-1] - ends[first]) / (most - len(found))
        full = int(np.searchsorted(ends, ends[first] + depth + 1, side="right")) - 1
        next_ = max(first + 1, full)
        total = round(int(ends[next_]) * factor)
        bounds = int(runs.at[first]), int(runs.at[next_ - 1])
        repeats = round(int(runs.rows[next_ - 1]) * factor)
        found.append(Bucket(*bounds, total - told, repeats, next_ - first))
        first, told = next_, total
    return found


# -- analysis --------------------------------------------------------------------------------------

_LONG = frozenset({TypeCode.JSON, TypeCode.MEDIUM_BLOB, TypeCode.LONG_BLOB})
SKETCH_WORDS = 2048
_NOTHING = np.zeros(0, np.int64), np.zeros(0, bool)


class Subject(NamedTuple):
    """What of a table is analyzed: columns, then indexes; `parts` in that order."""

    columns: tuple[ColumnInfo, ...]
    indexes: tuple[IndexInfo, ...]
    parts: tuple[Part, ...]
    skipped: tuple[ColumnInfo, ...] = ()

    @property
    def looked_at(self) -> list[Part]:
        """Each part once: an index of one column is like the column."""
        return list(dict.fromkeys(self.parts))

    @property
    def positions(self) -> tuple[int, ...]:
        """Those of the columns."""
        return tuple(part.positions[0] for part in self.parts[: len(self.columns)])


def subject_of(table: Table, column_ids: Sequence[int] = ()) -> Subject:
    """All public indexes, and the columns wanted (all by default) with those that indexes need."""
    info = table.info
    indexes = tuple(each for each in info.indexes if each.state == SchemaState.PUBLIC)
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
    """As tidb_analyze_skip_column_types is by default: json and blobs, and texts but TEXT."""
    is_blob = field.Tp == TypeCode.BLOB and field.family == Family.BYTES
    return field.Tp in _LONG or is_blob


def statistics_of(
    found: Summary, table: Table, subject: Subject, physical_id: int, most_top: int, most: int
) -> list[Statistics]:
    """One for each part. `physical_id`: whom they are of."""
    sample = found.sample
    sample.cut()
    columns = _columns(sample, table, subject)
    made = {
        part: _of_part(found.rows, part, summary, columns, columns.rows, most_top, most)
        for part, summary in zip(subject.looked_at, found.parts, strict=True)
    }
    ids = [(False, each.id) for each in subject.columns]
    ids += [(True, each.id) for each in subject.indexes]
    return [
        made[part]._replace(table_id=physical_id, is_index=is_index, hist_id=hist_id)
        for (is_index, hist_id), part in zip(ids, subject.parts, strict=True)
    ]


def _columns(sample: Sample, table: Table, subject: Subject) -> Columns:
    """The sampled rows in the order of the table."""
    order = np.argsort(sample.places)
    wanted = positions_of(subject.parts)
    values = dict(zip(wanted, sample.values, strict=False))
    infos = [table.info.cols[position] for position in wanted]
    return Columns(
        [info.type for info in infos],
        [info.name.O for info in infos],
        wanted,
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
        sketch=_kept(summary.distinct),
        top=tuple((texts[common.at], common.rows) for common in built.top),
        buckets=tuple(
            StoredBucket(
                each.rows, each.repeats, texts[each.lower], texts[each.upper], each.distinct
            )
            for each in built.buckets
        ),
    )


def _sorted(part: Part, columns: Columns) -> tuple[Array, Array]:
    """The rows in the order of the part's values, without those where its only one is NULL; and
    whether each has another value than the one before."""
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
    """The values that are told, by their places among the sorted ones."""
    places = {common.at for common in built.top}
    places |= {place for each in built.buckets for place in (each.lower, each.upper)}
    told = sorted(places)
    if not told:
        return {}
    rows = order[np.array(told)]
    fields: list[FieldType] = []
    lists = []
    for position, length in zip(part.positions, part.lengths, strict=True):
        values = columns.column(position)
        fields.append(values.field)
        end = None if length < 0 else length
        taken = values.take(rows).to_list()
        lists.append([v[:end] if isinstance(v, str | bytes) else v for v in taken])
    return dict(zip(told, _dumped(lists, fields), strict=True))


def _dumped(lists: list[list[object]], fields: list[FieldType]) -> list[bytes]:
    if len(lists) == 1:
        return [records.dump(value, fields[0]) for value in lists[0]]
    return [records.dump_many(row, fields) for row in zip(*lists, strict=True)]


def _correlation(order: Array) -> float:
    """Of the values' order with that of the rows, which `order` lists by value."""
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
    """One for each part that a partition has statistics of."""
    known: dict[tuple[bool, int], list[Statistics]] = {}
    for physical_id in physical_ids:
        for each in records.read(txn, physical_id):
            known.setdefault((each.is_index, each.hist_id), []).append(each)
    ids = [(False, each.id) for each in subject.columns]
    ids += [(True, each.id) for each in subject.indexes]
    return [
        _merge(known[place], part, table, most_top, most)._replace(
            table_id=table.info.statistics_id, is_index=place[0], hist_id=place[1]
        )
        for place, part in zip(ids, subject.parts, strict=True)
        if place in known
    ]


def fields_of(table: Table, part: Part) -> list[FieldType]:
    """The types of a part's columns."""
    return [table.info.cols[position].type for position in part.positions]


def _merge(
    found: list[Statistics], part: Part, table: Table, most_top: int, most: int
) -> Statistics:
    fields = fields_of(table, part)
    form = KeyForm([(f, n) for f, n in zip(fields, part.lengths, strict=True)], VALUES_BYTES)
    weights = _weights(found)
    points = sorted((form.whole(_values(value, fields)), value) for value in weights)
    rows = sum(weights.values())
    distinct, sketch = _different(found, fields)
    share = max(1.0, rows / POINTS)
    keys: list[bytes] = []
    values: list[bytes] = []
    for key, value in points:
        copies = max(1, round(weights[value] / share))
        keys += [key] * copies
        values += [value] * copies
    most_top = most_top if any(each.top for each in found) else 0  # bounds are no common values
    built = build(begins_of(keys), rows, min(rows, distinct), most_top, most)
    return Statistics(
        table_id=0,
        is_index=False,
        hist_id=0,
        distinct=min(rows, distinct),
        nulls=sum(each.nulls for each in found),
        size=sum(each.size for each in found),
        sketch=sketch,
        top=tuple((values[common.at], common.rows) for common in built.top),
        buckets=tuple(
            StoredBucket(
                each.rows, each.repeats, values[each.lower], values[each.upper], each.distinct
            )
            for each in built.buckets
        ),
    )


# What is kept of the hashes of different values ends in a word that is no hash: texts are hashed as
# words (summary.py). Sketches without it are of versions that hashed texts otherwise, so a text in
# one of either kind would count twice; of numbers they are alike. Those versions take the word for
# one more value.

_BY_WORDS = np.uint64((1 << 64) - 1)


def _kept(distinct: Distinct) -> bytes:
    return np.append(distinct.smallest[:SKETCH_WORDS], _BY_WORDS).tobytes()


def _different(found: list[Statistics], fields: list[FieldType]) -> tuple[int, bytes]:
    """How many different values the partitions have together, and the sketch that tells. Where
    some were analyzed by a version that hashed texts otherwise: as many as either kind has."""
    plain = all(field.family in (*NUMBERS, Family.DECIMAL) for field in fields)
    now, before = Distinct(SKETCH_WORDS), Distinct(SKETCH_WORDS)
    for each in found:
        words = np.frombuffer(each.sketch, np.uint64)
        by_words = words[-1:] == _BY_WORDS
        side = now if plain or by_words.any() else before
        side.add(words[:-1] if by_words.any() else words)
    if not now.count:
        return before.count, before.smallest.tobytes()
    return max(now.count, before.count), _kept(now)


def _weights(found: list[Statistics]) -> Counter[bytes]:
    """Rows at each value that is told."""
    weights: Counter[bytes] = Counter()
    for each in found:
        for value, rows in each.top:
            weights[value] += rows
        for bucket in each.buckets:
            rest = max(0, bucket.rows - bucket.repeats)
            weights[bucket.lower] += (rest + 1) // 2
            weights[bucket.upper] += bucket.repeats + rest // 2
    return weights


def _values(raw: bytes, fields: list[FieldType]) -> list[object]:
    if len(fields) == 1:
        return [records.load(raw, fields[0])]
    return records.load_many(raw, fields)
