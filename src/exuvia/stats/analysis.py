"""From what was read of a table's rows to the statistics of its columns and indexes.

Summary (pipeline/summary.py)  --sorted sample-->  TopN, buckets (stats/histogram.py)
                               --sketch-------->  different values
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog import vector
from exuvia.catalog.columns import Array, Columns
from exuvia.catalog.keyform import NULL
from exuvia.catalog.model import ColumnInfo, IndexInfo
from exuvia.catalog.state import SchemaState
from exuvia.catalog.table import Table
from exuvia.pipeline.summary import Part, PartSummary, Summary, encoded, parts_of
from exuvia.stats import bounds
from exuvia.stats.histogram import Built, build
from exuvia.stats.records import Bucket, Statistics

_LONG = frozenset({TypeCode.JSON, TypeCode.MEDIUM_BLOB, TypeCode.LONG_BLOB})
SKETCH_WORDS = 2048


class Subject(NamedTuple):
    """What of a table is analyzed: columns, then indexes; `parts` in that order."""

    columns: tuple[ColumnInfo, ...]
    indexes: tuple[IndexInfo, ...]
    parts: tuple[Part, ...]
    skipped: tuple[ColumnInfo, ...] = ()

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
    found.sample.cut()
    order = sorted(range(len(found.sample.keys)), key=found.sample.keys.__getitem__)
    keys = [found.sample.keys[n] for n in order]
    raws = [found.sample.raws[n] for n in order]
    wanted = sorted({position for part in subject.parts for position in part.positions})
    columns = vector.decode(table, keys, raws, wanted)
    ids = [(False, each.id) for each in subject.columns]
    ids += [(True, each.id) for each in subject.indexes]
    made: dict[Part, Statistics] = {}  # an index of one column has what the column has
    for part, summary in zip(subject.parts, found.parts, strict=True):
        if part not in made:
            made[part] = _of_part(found.rows, part, summary, columns, most_top, most)
    return [
        made[part]._replace(table_id=physical_id, is_index=is_index, hist_id=hist_id)
        for (is_index, hist_id), part in zip(ids, subject.parts, strict=True)
    ]


def _of_part(
    rows: int, part: Part, summary: PartSummary, columns: Columns, most_top: int, most: int
) -> Statistics:
    keys: list[bytes] = encoded(part, columns).to_pylist() if columns.rows else []
    alone = len(part.positions) == 1
    there = [n for n, key in enumerate(keys) if not alone or key[:1] != NULL]
    order = sorted(there, key=keys.__getitem__)
    stored = rows - summary.nulls
    distinct = min(summary.distinct.count, stored)
    built = build([keys[n] for n in order], stored, distinct, most_top, most)
    texts = _texts(part, columns, built, order)
    return Statistics(
        table_id=0,
        is_index=False,
        hist_id=0,
        distinct=distinct,
        nulls=summary.nulls,
        size=summary.bytes,
        correlation=_correlation(order) if alone else 0.0,
        sketch=summary.distinct.smallest[:SKETCH_WORDS].tobytes(),
        top=tuple((texts[common.at], common.rows) for common in built.top),
        buckets=tuple(
            Bucket(each.rows, each.repeats, texts[each.lower], texts[each.upper], each.distinct)
            for each in built.buckets
        ),
    )


def _texts(part: Part, columns: Columns, built: Built, order: list[int]) -> dict[int, bytes]:
    """The values that are told, by their places among the sorted ones."""
    places = {common.at for common in built.top}
    places |= {place for each in built.buckets for place in (each.lower, each.upper)}
    told = sorted(places)
    if not told:
        return {}
    rows = np.array([order[place] for place in told], dtype=np.int64)
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
        return [bounds.dump(value, fields[0]) for value in lists[0]]
    return [bounds.dump_many(row, fields) for row in zip(*lists, strict=True)]


def _correlation(order: list[int]) -> float:
    """Of the values' order with that of the rows, which `order` lists by value."""
    if len(order) < 2:
        return 1.0 if order else 0.0
    places: Array = np.array(order, dtype=np.float64)
    if (np.diff(places) > 0).all():
        return 1.0
    return float(np.corrcoef(np.arange(len(order)), places)[0, 1])
