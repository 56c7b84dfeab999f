"""The notifier's handler "stats meta": adapts statistics to changes of table definitions.

    create table, add partition    a row in stats_meta for each physical table, and for the whole
    add column                     statistics of the column in old rows: one value, or NULL
    drop column                    removes its statistics
    truncate table                 adds rows for the new ids, removes the old after the UNDO period
    undo truncate table            old ids get the rows of both, the others are removed
    drop table, drop schema        removes all, after a while: RECOVER TABLE may need it
    truncate, drop partition       the same; the whole has fewer rows, counted as modified
    reorganize partition           adds new partitions, removes old ones; the whole is unchanged
    exchange partition             statistics follow the ids; the whole gets the difference
    partition by                   adds new partitions, removes old ones; the whole is unchanged
    remove partitioning            moves the whole's statistics to the new id of its rows
    add index                      removes the mark that the backfill wrote statistics
    change primary key             moves statistics to the new id of the rows
    modify column                  nothing

Statistics of former ids are removed at the first event more than RETAINED_S later, unless rows of
the table have the id again. Effects are in the store only, in the given transaction: exactly once.

Statistics of indexes from their backfill are written before the indexes become public:

    the backfill's Summary --stats/analysis.py--> mysql.stats_histograms, buckets, top_n
                                          stats_meta: the index is among the analyzed ones
                                          m/indexstats/{table}{index}: read by the finishing event

The queue then need not analyze the table (stats/queue.py). The write requires the reorg's epoch, as
every write of a backfill does. Locked statistics are not changed. If the job is rolled back, the
index id is never used: its statistics have no reader and are removed with the table.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict
from exuvia.catalog import meta as catalog
from exuvia.catalog.convert.values import origin_default_of
from exuvia.catalog.model import ColumnInfo, TableInfo
from exuvia.catalog.table import Table
from exuvia.events.schema_change import Kind, SchemaChange
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.kernels.summary import Summary, parts_of
from exuvia.pipeline.task import TaskOrder
from exuvia.stats import meta, records
from exuvia.stats.analysis import Subject, is_skipped, statistics_of
from exuvia.stats.analyze_jobs import BUCKETS, TOP_N
from exuvia.stats.meta import Delta, Meta
from exuvia.stats.records import Statistics, StoredBucket

RETAINED_S = 600
MOST_REMOVED = 20
_GONE = "statsgone"
_NS = 1_000_000_000


class StatsMetaHandler:
    """The notifier's handler "stats meta"."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        partitions = self._partitions
        self._by_kind: dict[Kind, Callable[[Transaction, SchemaChange], None]] = {
            Kind.CREATE_TABLE: lambda txn, change: _add_rows(txn, _ids(change.get_create_table())),
            Kind.TRUNCATE_TABLE: self._truncate,
            Kind.DROP_TABLE: self._drop_table,
            Kind.DROP_SCHEMA: self._drop_schema,
            Kind.ADD_COLUMN: _add_columns,
            Kind.ADD_INDEX: _add_indexes,
            Kind.DROP_COLUMN: _drop_columns,
            Kind.ADD_PARTITION: partitions,
            Kind.DROP_PARTITION: partitions,
            Kind.TRUNCATE_PARTITION: partitions,
            Kind.REORGANIZE_PARTITION: partitions,
            Kind.EXCHANGE_PARTITION: _exchange,
            Kind.PARTITION_BY: self._repartition,
            Kind.REMOVE_PARTITIONING: self._repartition,
            Kind.UNDO_TRUNCATE_TABLE: self._undo_truncate,
            Kind.CHANGE_PRIMARY_KEY: self._rekey,
        }

    def __call__(self, txn: Transaction, change: SchemaChange) -> None:
        """Adapt the statistics to the change."""
        handler = self._by_kind.get(change.kind)
        if handler is not None:
            handler(txn, change)

    def _drop_table(self, txn: Transaction, change: SchemaChange) -> None:
        table = change.get_drop_table()
        self._remove_later(txn, table.id, _ids(table))

    def _truncate(self, txn: Transaction, change: SchemaChange) -> None:
        truncated = change.get_truncate_table()
        self._remove_later(
            txn, truncated.dropped.id, _ids(truncated.dropped), truncated.kept_until_s
        )
        _add_rows(txn, _ids(truncated.table))

    def _undo_truncate(self, txn: Transaction, change: SchemaChange) -> None:
        restored = change.get_partitions(Kind.UNDO_TRUNCATE_TABLE)
        added_ids, dropped_ids = (
            [part.id for part in restored.added],
            [part.id for part in restored.dropped],
        )
        before = sum(meta_row.rows for meta_row in _metas(txn, added_ids))
        since = {meta_row.table_id: meta_row.rows for meta_row in _metas(txn, dropped_ids)}
        _add_rows(txn, added_ids)
        for back, place in zip(added_ids, dropped_ids, strict=True):
            _shift(txn, back, since.get(place, 0), since.get(place, 0))
        if restored.table.partition is not None:
            _shift(txn, restored.table.statistics_id, before, before)
        self._remove_later(txn, restored.table.id, dropped_ids)

    def _drop_schema(self, txn: Transaction, change: SchemaChange) -> None:
        for table in change.get_drop_schema().tables:
            stand_elsewhere = any(not part.name for part in table.partitions)
            # its rows may belong to another table's partition
            own = [] if stand_elsewhere else [table.id]
            self._remove_later(txn, table.id, [*own, *(part.id for part in table.partitions)])

    def _partitions(self, txn: Transaction, change: SchemaChange) -> None:
        changed = change.get_partitions(change.kind)
        _add_rows(txn, [part.id for part in changed.added])
        dropped_ids = [part.id for part in changed.dropped]
        if change.kind != Kind.REORGANIZE_PARTITION:
            rows = sum(meta_row.rows for meta_row in _metas(txn, dropped_ids))
            _shift(txn, changed.table.statistics_id, -rows, rows)
        self._remove_later(txn, changed.table.id, dropped_ids)

    def _repartition(self, txn: Transaction, change: SchemaChange) -> None:
        repartitioned = change.get_repartition(change.kind)
        new, old = repartitioned.table.statistics_id, [part.id for part in repartitioned.dropped]
        was = new
        if repartitioned.table.partition is None:
            was = repartitioned.old_table_id
        else:
            _add_rows(txn, [part.id for part in repartitioned.added])
        whole = meta.get(txn, was)
        if whole is not None and new != was:
            version = meta.draw_version(txn)
            meta.put(txn, whole._replace(version=version, table_id=new))
            records.remove(txn, new)  # it may have statistics from before
            moved = [stats._replace(table_id=new) for stats in records.read(txn, was)]
            records.write(txn, moved, version)
            _move_lock(txn, was, new, Delta(0, 0), version)
            old.append(was)
        _cancel_removal(txn, [new])
        self._remove_later(txn, repartitioned.table.id, {*old} - {new})

    def _rekey(self, txn: Transaction, change: SchemaChange) -> None:
        repartitioned = change.get_repartition(change.kind)
        for old, came in zip(repartitioned.dropped, repartitioned.added, strict=True):
            _move(txn, old.id, came.id)
        self._remove_later(
            txn, repartitioned.table.id, [partition.id for partition in repartitioned.dropped]
        )

    # -- what is gone ------------------------------------------------------------------------------

    def _remove_later(
        self, txn: Transaction, table_id: int, ids: Iterable[int], kept_until_s: int = 0
    ) -> None:
        """Schedule the removal of the statistics of former ids.

        Rows may return to these ids until `kept_until_s`."""
        now_s = self._clock.wall_ns() // _NS
        for physical_id in ids:
            txn.put(keys.meta(_GONE, max(now_s, kept_until_s), physical_id), keys.number(table_id))
        prefix = keys.meta(_GONE)
        due = keys.meta(_GONE, max(0, now_s - RETAINED_S))
        old = keys.span_of(prefix)._replace(end=due)
        for key, raw in list(islice(txn.scan(old), MOST_REMOVED)):
            txn.delete(key)
            _forget(txn, keys.read_number(key[-8:]), keys.read_number(raw or None))


def _forget(txn: Transaction, physical_id: int, table_id: int) -> None:
    """Remove all statistics of an id, unless the table's rows have it again."""
    table = catalog.get_table(txn, table_id)
    if table is not None and physical_id in _ids(table):
        return
    records.remove(txn, physical_id)
    meta.unlock(txn, physical_id)
    meta.delete(txn, physical_id)


def _cancel_removal(txn: Transaction, ids: Iterable[int]) -> None:
    """Cancel the removal of ids that a table has again: a recovered table, or a new owner of the
    ids."""
    there = set(ids)
    for key, _ in list(txn.scan(keys.span_of(keys.meta(_GONE)))):
        if keys.read_number(key[-8:]) in there:
            txn.delete(key)


def _ids(table: TableInfo) -> list[int]:
    """The ids of a table's statistics: one per partition, and one of the whole table."""
    if table.partition is None:
        return [*table.physical_ids] if table.is_in_store else []
    return [table.statistics_id, *table.physical_ids]


def _metas(txn: Transaction, ids: Iterable[int]) -> list[Meta]:
    metas = (meta.get(txn, table_id) for table_id in ids)
    return [meta_row for meta_row in metas if meta_row is not None]


def rows_came(store: Store, table: Table, rows: int) -> None:
    """An import will add `rows` rows to the table."""

    def put(txn: Transaction) -> None:
        version = meta.draw_version(txn)
        meta.put(txn, Meta(version, table.physical_id, modified=rows, rows=rows))

    store.transact(put)


def _add_rows(txn: Transaction, ids: Iterable[int]) -> None:
    ids = list(ids)
    new = [table_id for table_id in ids if meta.get(txn, table_id) is None]
    if len(new) < len(ids):
        _cancel_removal(txn, ids)
    if new:
        meta.add(txn, {table_id: Delta(0, 0) for table_id in new})


def _shift(txn: Transaction, table_id: int, rows: int, modified: int) -> None:
    if modified:
        meta.add(txn, {table_id: Delta(rows, modified)})


def _move(txn: Transaction, was: int, new: int) -> None:
    """Move the statistics of one id to another, adding the rows written under the new one."""
    _cancel_removal(txn, [new])
    before, since = meta.get(txn, was), meta.get(txn, new)
    if before is not None:
        version = meta.draw_version(txn)
        written = Delta(since.rows, since.modified) if since is not None else Delta(0, 0)
        if _move_lock(txn, was, new, written, version):
            written = Delta(0, 0)
        both = before._replace(
            version=version,
            table_id=new,
            rows=max(0, before.rows + written.rows),
            modified=before.modified + written.modified,
        )
        meta.put(txn, both)
        moved = [stats._replace(table_id=new) for stats in records.read(txn, was)]
        records.write(txn, moved, version)


def _move_lock(txn: Transaction, was: int, new: int, written: Delta, version: int) -> bool:
    """Move a lock of statistics to the new id, with the counts of rows written under both."""
    lock = meta.unlock(txn, was)
    if lock is None:
        return False
    meta.lock(txn, [new])
    rows, modified = lock.rows + written.rows, lock.modified + written.modified
    return meta.add_to_lock(txn, new, rows, modified, version)


def _exchange(txn: Transaction, change: SchemaChange) -> None:
    exchange = change.get_exchange_partition()
    (came,) = _metas(txn, [exchange.partition.id]) or [Meta(0, 0)]
    leaving_id = exchange.plain.statistics_id
    _cancel_removal(txn, [exchange.partition.id, leaving_id])
    (leaving,) = _metas(txn, [leaving_id]) or [Meta(0, 0)]
    _shift(txn, exchange.table.statistics_id, came.rows - leaving.rows, came.rows + leaving.rows)


# -- columns ---------------------------------------------------------------------------------------


def _add_indexes(txn: Transaction, change: SchemaChange) -> None:
    added = change.get_add_index()
    if added.analyzed:
        for index in added.indexes:
            txn.delete(keys.index_statistics(added.table.id, index.id))


def _drop_columns(txn: Transaction, change: SchemaChange) -> None:
    dropped = change.get_columns(Kind.DROP_COLUMN)
    for table_id in _ids(dropped.table):
        for column in dropped.columns:
            records.remove(txn, table_id, 0, column.id)


def _add_columns(txn: Transaction, change: SchemaChange) -> None:
    added = change.get_columns(Kind.ADD_COLUMN)
    metas = [meta_row for meta_row in _metas(txn, _ids(added.table)) if meta_row.rows]
    columns = [column_info for column_info in added.columns if not is_skipped(column_info.type)]
    if not metas or not columns:
        return
    statistics = [_one_value(meta_row, column) for meta_row in metas for column in columns]
    records.write(
        txn, statistics, meta.draw_version(txn)
    )  # in one call: handles depend on the version


def _one_value(meta_row: Meta, column: ColumnInfo) -> Statistics:
    """The statistics of an added column in older rows, which all have the same value."""
    place = meta_row.table_id, False, column.id
    value = None if column.generated_expr_string else origin_default_of(column)
    if value is None:
        return Statistics(*place, distinct=0, nulls=meta_row.rows, is_analyzed=False)
    raw = records.dump(value, column.type)
    bucket = StoredBucket(meta_row.rows, meta_row.rows, raw, raw)
    return Statistics(*place, distinct=1, buckets=(bucket,), is_analyzed=False)


# -- new index -------------------------------------------------------------------------------------


class NewIndexes:
    """Receives the summaries of backfills; see pipeline/kernels/summary.py."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, order: TaskOrder, table: Table, summary: Summary) -> None:
        """Write the statistics of new indexes. Raises Deposed if the reorg ended; skips on a
        conflict."""
        indexes = tuple(
            public_index
            for public_index in table.info.indexes
            if public_index.id in order.index_ids
        )
        parts = tuple(parts_of(table, (), [public_index.id for public_index in indexes]))
        place = meta.whole_id(table)
        statistics = statistics_of(
            summary, table, Subject((), indexes, parts), place, TOP_N, BUCKETS
        )
        is_whole = place == meta.whole_id(order.logical)

        def write(txn: Transaction) -> None:
            for fence in order.fences:
                txn.require_equal(*fence)
            if meta.get_lock(txn, place) is None:
                version = meta.draw_version(txn)
                old = meta.get(txn, place) or Meta(version, place, rows=summary.rows)
                ids = old.index_ids | {stats.hist_id for stats in statistics}
                named = ",".join(map(str, sorted(ids)))
                changed = old._replace(
                    version=version, histograms_version=version, analyzed_indexes=named
                )
                meta.put(txn, changed)
                records.write(txn, statistics, version)
                txn.notify(meta.CHANNEL)
                if is_whole:
                    for index_id in order.index_ids:
                        txn.put(keys.index_statistics(order.info.id, index_id), b"")

        with suppress(Conflict):
            self._store.transact(write)
