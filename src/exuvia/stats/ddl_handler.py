"""The notifier's handler "stats meta": statistics follow the definitions of tables.

    create table, add partition    a row in stats_meta for each physical table, and for the whole
    add column                     what rows hold in it that were there before: one value, or NULL
    drop column                    its statistics go
    truncate table                 the new ids get rows, the old ones go, behind the end of UNDO
    undo truncate table            the old ids have the rows of both, the others go
    drop table, drop schema        all of it goes, after a while: RECOVER TABLE may bring it back
    truncate, drop partition       likewise; the whole has fewer rows, as many more were modified
    reorganize partition           new partitions get rows, old ones go; the whole stays
    exchange partition             statistics follow the ids; the whole has the difference
    partition by                   new partitions get rows, old ones go; the whole stays
    remove partitioning            the whole's statistics are those of where its rows lie now
    add index                      statistics of its fill, if there are any, are told of by now
    change primary key             statistics go with the rows, which lie elsewhere
    modify column                  nothing

What goes is kept for RETAINED_S after its event, then removed with a later one's, unless rows of
its table lie under that id again. Effects are in the store alone, by the given transaction: exactly
once.

Statistics of indexes that a fill made, written before anybody sees the indexes.

    fill's Summary --stats/analysis.py--> mysql.stats_histograms, buckets, top_n
                                          stats_meta: the index is among the analyzed ones
                                          m/indexstats/{table}{index}: the finishing event says so

The queue then has no reason to analyze the table (stats/queue.py). The write requires the
reorg's epoch, as every write of a fill does. A locked table's statistics stand still. If the job is
rolled back later its index never is: what stands under its id is read by nobody, and goes with the
table.
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


class Following:
    """The handler."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        partitions = self._partitions
        self._by_kind: dict[Kind, Callable[[Transaction, SchemaChange], None]] = {
            Kind.CREATE_TABLE: lambda txn, change: _come(txn, _ids(change.get_create_table())),
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
        """Do what a change asks for."""
        handler = self._by_kind.get(change.kind)
        if handler is not None:
            handler(txn, change)

    def _drop_table(self, txn: Transaction, change: SchemaChange) -> None:
        table = change.get_drop_table()
        self._go(txn, table.id, _ids(table))

    def _truncate(self, txn: Transaction, change: SchemaChange) -> None:
        found = change.get_truncate_table()
        self._go(txn, found.dropped.id, _ids(found.dropped), found.kept_until_s)
        _come(txn, _ids(found.table))

    def _undo_truncate(self, txn: Transaction, change: SchemaChange) -> None:
        found = change.get_partitions(Kind.UNDO_TRUNCATE_TABLE)
        came, gone = [part.id for part in found.added], [part.id for part in found.dropped]
        before = sum(known.rows for known in _metas(txn, came))
        since = {known.table_id: known.rows for known in _metas(txn, gone)}
        _come(txn, came)
        for back, place in zip(came, gone, strict=True):
            _shift(txn, back, since.get(place, 0), since.get(place, 0))
        if found.table.partition is not None:
            _shift(txn, found.table.statistics_id, before, before)
        self._go(txn, found.table.id, gone)

    def _drop_schema(self, txn: Transaction, change: SchemaChange) -> None:
        for table in change.get_drop_schema().tables:
            stand_elsewhere = any(not part.name for part in table.partitions)
            own = [] if stand_elsewhere else [table.id]  # another table's partition may lie there
            self._go(txn, table.id, [*own, *(part.id for part in table.partitions)])

    def _partitions(self, txn: Transaction, change: SchemaChange) -> None:
        found = change.get_partitions(change.kind)
        _come(txn, [part.id for part in found.added])
        gone = [part.id for part in found.dropped]
        if change.kind != Kind.REORGANIZE_PARTITION:
            rows = sum(known.rows for known in _metas(txn, gone))
            _shift(txn, found.table.statistics_id, -rows, rows)
        self._go(txn, found.table.id, gone)

    def _repartition(self, txn: Transaction, change: SchemaChange) -> None:
        found = change.get_repartition(change.kind)
        new, old = found.table.statistics_id, [part.id for part in found.dropped]
        was = new
        if found.table.partition is None:
            was = found.old_table_id
        else:
            _come(txn, [part.id for part in found.added])
        whole = meta.get(txn, was)
        if whole is not None and new != was:
            version = meta.draw_version(txn)
            meta.put(txn, whole._replace(version=version, table_id=new))
            records.remove(txn, new)  # it may have stood there before
            moved = [each._replace(table_id=new) for each in records.read(txn, was)]
            records.write(txn, moved, version)
            _hold_still(txn, was, new, Delta(0, 0), version)
            old.append(was)
        _stay(txn, [new])
        self._go(txn, found.table.id, {*old} - {new})

    def _rekey(self, txn: Transaction, change: SchemaChange) -> None:
        found = change.get_repartition(change.kind)
        for old, came in zip(found.dropped, found.added, strict=True):
            _follow(txn, old.id, came.id)
        self._go(txn, found.table.id, [each.id for each in found.dropped])

    # -- what is gone ------------------------------------------------------------------------------

    def _go(
        self, txn: Transaction, table_id: int, ids: Iterable[int], kept_until_s: int = 0
    ) -> None:
        """Rows of a table no longer lie under these ids, but may again until then."""
        now_s = self._clock.wall_ns() // _NS
        for each in ids:
            txn.put(keys.meta(_GONE, max(now_s, kept_until_s), each), keys.number(table_id))
        prefix = keys.meta(_GONE)
        due = keys.meta(_GONE, max(0, now_s - RETAINED_S))
        old = keys.span_of(prefix)._replace(end=due)
        for key, raw in list(islice(txn.scan(old), MOST_REMOVED)):
            txn.delete(key)
            _forget(txn, keys.read_number(key[-8:]), keys.read_number(raw or None))


def _forget(txn: Transaction, physical_id: int, table_id: int) -> None:
    """Remove all that is known of an id, unless the table's rows lie there (again)."""
    table = catalog.get_table(txn, table_id)
    if table is not None and physical_id in _ids(table):
        return
    records.remove(txn, physical_id)
    meta.unlock(txn, physical_id)
    meta.delete(txn, physical_id)


def _stay(txn: Transaction, ids: Iterable[int]) -> None:
    """Ids that went belong to a table again: a recovered one, or one that took them over."""
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
    found = (meta.get(txn, each) for each in ids)
    return [known for known in found if known is not None]


def rows_came(store: Store, table: Table, rows: int) -> None:
    """An import has put so many rows where the table will have them."""

    def put(txn: Transaction) -> None:
        version = meta.draw_version(txn)
        meta.put(txn, Meta(version, table.physical_id, modified=rows, rows=rows))

    store.transact(put)


def _come(txn: Transaction, ids: Iterable[int]) -> None:
    ids = list(ids)
    new = [each for each in ids if meta.get(txn, each) is None]
    if len(new) < len(ids):
        _stay(txn, ids)
    if new:
        meta.add(txn, {each: Delta(0, 0) for each in new})


def _shift(txn: Transaction, table_id: int, rows: int, modified: int) -> None:
    if modified:
        meta.add(txn, {table_id: Delta(rows, modified)})


def _follow(txn: Transaction, was: int, new: int) -> None:
    """What is known of the rows under one id is known of them under the other."""
    _stay(txn, [new])
    before, since = meta.get(txn, was), meta.get(txn, new)
    if before is not None:
        version = meta.draw_version(txn)
        written = Delta(since.rows, since.modified) if since is not None else Delta(0, 0)
        if _hold_still(txn, was, new, written, version):
            written = Delta(0, 0)
        both = before._replace(
            version=version,
            table_id=new,
            rows=max(0, before.rows + written.rows),
            modified=before.modified + written.modified,
        )
        meta.put(txn, both)
        moved = [each._replace(table_id=new) for each in records.read(txn, was)]
        records.write(txn, moved, version)


def _hold_still(txn: Transaction, was: int, new: int, written: Delta, version: int) -> bool:
    """Move a lock of statistics to the new id, with the counts of rows written under both."""
    held = meta.unlock(txn, was)
    if held is None:
        return False
    meta.lock(txn, [new])
    rows, modified = held.rows + written.rows, held.modified + written.modified
    return meta.add_to_lock(txn, new, rows, modified, version)


def _exchange(txn: Transaction, change: SchemaChange) -> None:
    found = change.get_exchange_partition()
    (came,) = _metas(txn, [found.partition.id]) or [Meta(0, 0)]
    left_id = found.plain.statistics_id
    _stay(txn, [found.partition.id, left_id])
    (left,) = _metas(txn, [left_id]) or [Meta(0, 0)]
    _shift(txn, found.table.statistics_id, came.rows - left.rows, came.rows + left.rows)


# -- columns ---------------------------------------------------------------------------------------


def _add_indexes(txn: Transaction, change: SchemaChange) -> None:
    found = change.get_add_index()
    if found.analyzed:
        for index in found.indexes:
            txn.delete(keys.index_statistics(found.table.id, index.id))


def _drop_columns(txn: Transaction, change: SchemaChange) -> None:
    found = change.get_columns(Kind.DROP_COLUMN)
    for table_id in _ids(found.table):
        for column in found.columns:
            records.remove(txn, table_id, 0, column.id)


def _add_columns(txn: Transaction, change: SchemaChange) -> None:
    found = change.get_columns(Kind.ADD_COLUMN)
    metas = [known for known in _metas(txn, _ids(found.table)) if known.rows]
    columns = [each for each in found.columns if not is_skipped(each.type)]
    if not metas or not columns:
        return
    found_in = [_one_value(known, column) for known in metas for column in columns]
    records.write(txn, found_in, meta.draw_version(txn))  # at once: handles go by the version


def _one_value(known: Meta, column: ColumnInfo) -> Statistics:
    """What older rows hold in a column that came: the same, all of them."""
    place = known.table_id, False, column.id
    value = None if column.generated_expr_string else origin_default_of(column)
    if value is None:
        return Statistics(*place, distinct=0, nulls=known.rows, is_analyzed=False)
    raw = records.dump(value, column.type)
    bucket = StoredBucket(known.rows, known.rows, raw, raw)
    return Statistics(*place, distinct=1, buckets=(bucket,), is_analyzed=False)


# -- new index -------------------------------------------------------------------------------------


class NewIndexes:
    """Who is given what fills found; see pipeline/kernels/summary.py."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, order: TaskOrder, table: Table, found: Summary) -> None:
        """Write it. Raises Deposed when the reorg was left; gives way to whoever writes too."""
        indexes = tuple(each for each in table.info.indexes if each.id in order.index_ids)
        parts = tuple(parts_of(table, (), [each.id for each in indexes]))
        place = meta.whole_id(table)
        made = statistics_of(found, table, Subject((), indexes, parts), place, TOP_N, BUCKETS)
        is_whole = place == meta.whole_id(order.logical)

        def write(txn: Transaction) -> None:
            for fence in order.fences:
                txn.require_equal(*fence)
            if meta.get_lock(txn, place) is None:
                version = meta.draw_version(txn)
                known = meta.get(txn, place) or Meta(version, place, rows=found.rows)
                ids = known.index_ids | {each.hist_id for each in made}
                named = ",".join(map(str, sorted(ids)))
                changed = known._replace(
                    version=version, histograms_version=version, analyzed_indexes=named
                )
                meta.put(txn, changed)
                records.write(txn, made, version)
                txn.notify(meta.CHANNEL)
                if is_whole:
                    for index_id in order.index_ids:
                        txn.put(keys.index_statistics(order.info.id, index_id), b"")

        with suppress(Conflict):
            self._store.transact(write)
