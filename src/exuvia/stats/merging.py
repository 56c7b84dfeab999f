"""A partitioned table's statistics from those of its partitions, where not all were read anew.

    common values    added up
    buckets          each becomes points: its rows at its bounds
    different ones   the smallest hashes of all that the partitions kept

All points together are a weighted sample, of which TopN and buckets are built as of any other.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from exuvia.base.types import FieldType
from exuvia.catalog.codec.key_encoder import VALUES_BYTES, KeyForm
from exuvia.catalog.table import Table
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.distinct import Distinct
from exuvia.pipeline.summary import Part
from exuvia.stats import bounds, records
from exuvia.stats.analysis import SKETCH_WORDS, Subject
from exuvia.stats.histogram import begins_of, build
from exuvia.stats.records import Bucket, Statistics

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
            table_id=table.info.id, is_index=place[0], hist_id=place[1]
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
    distinct = Distinct(SKETCH_WORDS)
    for each in found:
        distinct.add(np.frombuffer(each.sketch, np.uint64))
    share = max(1.0, rows / POINTS)
    keys: list[bytes] = []
    values: list[bytes] = []
    for key, value in points:
        copies = max(1, round(weights[value] / share))
        keys += [key] * copies
        values += [value] * copies
    most_top = most_top if any(each.top for each in found) else 0  # bounds are no common values
    built = build(begins_of(keys), rows, min(rows, distinct.count), most_top, most)
    return Statistics(
        table_id=0,
        is_index=False,
        hist_id=0,
        distinct=min(rows, distinct.count),
        nulls=sum(each.nulls for each in found),
        size=sum(each.size for each in found),
        sketch=distinct.smallest.tobytes(),
        top=tuple((values[common.at], common.rows) for common in built.top),
        buckets=tuple(
            Bucket(each.rows, each.repeats, values[each.lower], values[each.upper], each.distinct)
            for each in built.buckets
        ),
    )


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
        return [bounds.load(raw, fields[0])]
    return bounds.load_many(raw, fields)
