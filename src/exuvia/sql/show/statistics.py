"""SHOW STATS_META, STATS_HISTOGRAMS, STATS_BUCKETS, STATS_TOPN, STATS_HEALTHY, STATS_LOCKED, and
ANALYZE STATUS: what is known of tables, in TiDB's columns.

A partitioned table stands there as a whole, its Partition_name `global`, and by its partitions.
Update_time is that of the last analysis: row counts have a version and no time.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from exuvia.base.types import FieldType, TypeCode, packed_moment
from exuvia.catalog.model import TableInfo
from exuvia.catalog.temporal import shift_zone
from exuvia.sql.information_schema.statistics import ANALYZE_STATUS_COLUMNS, analyze_status
from exuvia.sql.information_schema.tables import all_tables
from exuvia.sql.nodes.session import Show
from exuvia.sql.result import Result, Row
from exuvia.sql.show.listing import columns_of, listing
from exuvia.sql.statement.context import Context
from exuvia.stats import locked, meta, records
from exuvia.stats.meta import Meta
from exuvia.stats.records import Statistics

_PLACE = "Db_name Table_name Partition_name"


class StatisticsSubject(NamedTuple):
    """Something that may have statistics: a table, a partition, or a partitioned table whole."""

    database: str
    table: TableInfo
    partition: str
    physical_id: int

    @property
    def head(self) -> Row:
        """The first three columns."""
        return [self.database, self.table.name.O, self.partition]


def places(context: Context) -> Iterator[StatisticsSubject]:
    """All of them, by name."""
    for database, table in all_tables(context):
        if not table.is_stored:
            continue
        name, partition = database.db_name.O, table.partition
        if partition is None:
            yield StatisticsSubject(name, table, "", table.physical_ids[0])
            continue
        yield StatisticsSubject(name, table, "global", table.id)
        for each in partition.definitions:
            yield StatisticsSubject(name, table, each.name.O, each.id)


def _known(context: Context) -> Iterator[tuple[StatisticsSubject, Meta]]:
    for place in places(context):
        known = meta.get(context.txn, place.physical_id)
        if known is not None:
            yield place, known


def _moment(context: Context, seconds: int | None) -> int | None:
    if seconds is None:
        return None
    return shift_zone(packed_moment(seconds * 1_000_000_000), None, context.zone)


def _meta(context: Context) -> Iterable[Row]:
    for place, known in _known(context):
        when = _moment(context, known.analyzed_at)
        yield [*place.head, when, known.modified, known.rows, when]


def _healthy(context: Context) -> Iterable[Row]:
    for place, known in _known(context):
        yield [*place.head, health(known)]


def health(known: Meta) -> int:
    """How fresh an analysis is, 0 to 100; 0 for a table never analyzed."""
    if known.analyzed_count is None:
        return 0
    if not known.modified:
        return 100
    if known.modified >= known.analyzed_count:
        return 0
    return int((1 - known.modified / known.analyzed_count) * 100)


def _locked(context: Context) -> Iterable[Row]:
    ids = locked.all_of(context.txn)
    for place in places(context):
        if place.physical_id in ids:
            yield [*place.head, "locked"]


# -- columns and indexes ---------------------------------------------------------------------------


def _found(context: Context, whole: bool) -> Iterator[tuple[StatisticsSubject, Statistics, Row]]:
    """Place, statistics, and the columns that say whose they are."""
    reads = records.read if whole else records.heads
    for place in places(context):
        for each in reads(context.txn, place.physical_id):
            name = _name(place.table, each)
            if name is not None:
                yield place, each, [*place.head, name, int(each.is_index)]


def _name(table: TableInfo, found: Statistics) -> str | None:
    """None for what has gone since."""
    if found.is_index:
        indexes = (each.idx_name.O for each in table.indexes if each.id == found.hist_id)
        return next(indexes, None)
    return next((each.name.O for each in table.cols if each.id == found.hist_id), None)


def _histograms(context: Context) -> Iterable[Row]:
    for place, found, head in _found(context, whole=False):
        known = meta.get(context.txn, place.physical_id)
        if not found.is_analyzed or known is None:
            continue
        rows = known.analyzed_count or known.rows
        size = 0.0 if not rows or found.is_index else round(found.size / rows, 2)
        when = _moment(context, known.analyzed_at)
        line = [*head, when, found.distinct, found.nulls, f"{size:g}", f"{found.correlation:g}"]
        yield [*line, "allLoaded", 0, 0, 0, 0]


def _buckets(context: Context) -> Iterable[Row]:
    for place, found, head in _found(context, whole=True):
        several = _parts(place.table, found) > 1
        total = 0
        for number, bucket in enumerate(found.buckets):
            total += bucket.rows
            lower, upper = (_shown(place, found, v, several) for v in (bucket.lower, bucket.upper))
            yield [*head, number, total, bucket.repeats, lower, upper, 0]


def _top_n(context: Context) -> Iterable[Row]:
    for place, found, head in _found(context, whole=True):
        several = _parts(place.table, found) > 1
        for value, rows in found.top:
            yield [*head, _shown(place, found, value, several), rows]


def _parts(table: TableInfo, found: Statistics) -> int:
    if not found.is_index:
        return 1
    (index,) = (each for each in table.indexes if each.id == found.hist_id)
    return len(index.idx_cols)


def _shown(place: StatisticsSubject, found: Statistics, value: bytes, several: bool) -> str:
    if several:
        return records.shown(value, is_index=True)
    field = _field(place.table, found)
    if field is not None and field.Tp == TypeCode.BIT:
        return str(int.from_bytes(value, "big"))
    return records.shown(value, is_index=False)


def _field(table: TableInfo, found: Statistics) -> FieldType | None:
    if found.is_index:
        return None
    return next((each.type for each in table.cols if each.id == found.hist_id), None)


# -- SHOW ------------------------------------------------------------------------------------------


def _shower(
    columns: str, rows: Callable[[Context], Iterable[Row]]
) -> Callable[[Context, Show], Result]:
    def shower(context: Context, node: Show) -> Result:
        return listing(context, columns_of(columns), rows(context), node.like, node.where)

    return shower


_OF = f"{_PLACE} Column_name Is_index#"
KINDS: dict[str, Callable[[Context, Show], Result]] = {
    "stats_meta": _shower(
        f"{_PLACE} Update_time@ Modify_count# Row_count# Last_analyze_time@", _meta
    ),
    "stats_healthy": _shower(f"{_PLACE} Healthy#", _healthy),
    "stats_locked": _shower(f"{_PLACE} Status", _locked),
    "stats_histograms": _shower(
        f"{_OF} Update_time@ Distinct_count# Null_count# Avg_col_size Correlation Load_status"
        " Total_mem_usage# Hist_mem_usage# Topn_mem_usage# Cms_mem_usage#",
        _histograms,
    ),
    "stats_buckets": _shower(
        f"{_OF} Bucket_id# Count# Repeats# Lower_Bound:65535 Upper_Bound:65535 Ndv#", _buckets
    ),
    "stats_topn": _shower(f"{_OF} Value:65535 Count#", _top_n),
    "stats_extended": _shower(
        f"{_PLACE} Stats_name Column_names Stats_type Stats_val Last_update_version#",
        lambda context: (),
    ),
    "analyze status": _shower(ANALYZE_STATUS_COLUMNS, analyze_status),
}
