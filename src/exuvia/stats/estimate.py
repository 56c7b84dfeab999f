"""Estimates the rows in a range of a key from the statistics of its index or column.

    rows in [low, high)  =  common values in it
                         +  buckets wholly in it
                         +  a share of the buckets it cuts, even between their bounds

A single value that is neither common nor a bucket's upper bound has the average number of rows.
Counts are scaled from the time of the analysis to the current row count. Ranges are those of a
scan: the table's key bytes without prefix.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from exuvia.catalog.codec import key_codec
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction
from exuvia.stats import meta, records
from exuvia.stats.records import Statistics

_DIGITS = 8
_BEYOND = b"\xff" * 64


class Distribution:
    """The distribution of one key. `lower`, `upper`, `rows`, `repeats` have one element a bucket,
    in order."""

    def __init__(self, statistics: Statistics, encode: Any) -> None:
        tops = sorted((encode(value), rows) for value, rows in statistics.top)
        self._tops = [key for key, _ in tops]
        self._top_rows = [0, *accumulate(rows for _, rows in tops)]
        self._lower = [encode(bucket.lower) for bucket in statistics.buckets]
        self._upper = [encode(bucket.upper) for bucket in statistics.buckets]
        self._rows = [bucket.rows for bucket in statistics.buckets]
        self._repeats = [bucket.repeats for bucket in statistics.buckets]
        rest = sum(self._rows)
        self.total = self._top_rows[-1] + rest
        self.counted = self.total + statistics.nulls
        self._average = rest / max(1, statistics.distinct - len(tops))

    def rows_in(self, low: bytes, high: bytes) -> float:
        """Rows with low <= key < high."""
        first, last = bisect_left(self._tops, low), bisect_left(self._tops, high)
        rows = float(self._top_rows[last] - self._top_rows[first])
        if low.strip(b"\xff") and high == keys.after(low):
            return rows or self._single(low)
        at = bisect_left(self._upper, low)
        while at < len(self._upper) and self._lower[at] < high:
            rows += self._rows[at] * _share(self._lower[at], self._upper[at], low, high)
            at += 1
        return rows

    def _single(self, key: bytes) -> float:
        """Rows with this key, or with this prefix."""
        end = keys.after(key)
        at = bisect_left(self._upper, key)
        if at == len(self._upper) or self._lower[at] >= end:
            return 0.0
        if self._upper[at] == key:
            return float(self._repeats[at])
        rows = 0.0
        while at < len(self._upper) and self._lower[at] < end:
            if key <= self._lower[at] and self._upper[at] < end:
                rows += self._rows[at]
            at += 1
        return max(rows, self._average)


def _share(lower: bytes, upper: bytes, low: bytes, high: bytes) -> float:
    """The share of a bucket in a range, assuming that its keys are even between its bounds."""
    if low <= lower and upper < high:
        return 1.0
    common = 0
    while common < min(len(lower), len(upper)) and lower[common] == upper[common]:
        common += 1
    first, last = _number(lower, common), _number(upper, common) + 1
    begin = first if low <= lower else max(first, _number(low, common))
    end = last if upper < high else min(last, _number(high, common))
    return max(0.0, (end - begin) / (last - first))


def _number(key: bytes, skip: int) -> int:
    return int.from_bytes(key[skip : skip + _DIGITS].ljust(_DIGITS, b"\0"), "big")


def rows_in(
    txn: Transaction, table: Table, index: IndexInfo, spans: Sequence[Span]
) -> float | None:
    """Estimated rows in ranges of an index or of the clustered key; None if it was never
    analyzed."""
    table_id = meta.whole_id(table)
    meta_row = meta.get(txn, table_id)
    if meta_row is None or meta_row.analyzed_count is None:
        return None
    stats = distribution(txn, table, index, table_id, meta_row.histograms_version or 0)
    if stats is None or not stats.total:
        return 0.0 if stats is not None else None
    prefix = table.row_prefix if index.exuvia_clustered else table.form(index).prefix
    rows = sum(stats.rows_in(*_without(prefix, span)) for span in spans)
    return rows * meta_row.rows / max(1, stats.counted)


def _without(prefix: bytes, span: Span) -> tuple[bytes, bytes]:
    """The span's bounds without the prefix; an end after all keys of the prefix becomes _BEYOND."""
    skip = len(prefix)
    return span.start[skip:], span.end[skip:] if span.end.startswith(prefix) else _BEYOND


def distribution(
    txn: Transaction, table: Table, index: IndexInfo, table_id: int, version: int
) -> Distribution | None:
    """The distribution of an index, read once for each version of the statistics and cached with
    the table."""
    cached = table.caches.setdefault("distributions", {})
    entry = cached.get(index.id)
    if entry is not None and entry[0] == version:
        return entry[1]  # type: ignore[no-any-return]
    by_handle = index.exuvia_clustered and table.info.pk_is_handle
    place = (0, table.info.cols[table.handle_positions[0]].id) if by_handle else (1, index.id)
    statistics = records.read(txn, table_id, *place)
    built = Distribution(statistics[0], _encoder(table, index, by_handle)) if statistics else None
    cached[index.id] = version, built
    return built


def _encoder(table: Table, index: IndexInfo, by_handle: bool) -> Any:
    if by_handle:
        field = table.info.cols[table.handle_positions[0]].type
        return lambda raw: key_codec.handle_from(table, (records.load(raw, field),))
    if index.exuvia_clustered:
        fields = [table.info.cols[position].type for position in table.handle_positions]
        form: Any = table.handle_form
    else:
        fields, form = table.form(index).types, table.form(index).keys
    if len(fields) == 1:
        return lambda raw: form.encode([records.load(raw, fields[0])])
    return lambda raw: form.encode(records.load_many(raw, fields))
