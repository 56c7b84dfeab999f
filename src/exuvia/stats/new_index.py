"""Statistics of indexes that a fill made, written before anybody sees the indexes.

    fill's Summary --stats/analysis.py--> mysql.stats_histograms, buckets, top_n
                                          stats_meta: the index is among the analyzed ones
                                          m/indexstats/{table}{index}: the finishing event says so

The queue then has no reason to analyze the table (stats/queue.py). The write requires the
reorg's epoch, as every write of a fill does. A locked table's statistics stand still. If the job is
rolled back later its index never is: what stands under its id is read by nobody, and goes with the
table.
"""

from exuvia.base.errors import Conflict
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.summary import Summary, parts_of
from exuvia.pipeline.task import TaskOrder
from exuvia.stats import locked, meta, records
from exuvia.stats.analysis import Subject, statistics_of
from exuvia.stats.analyze_requests import BUCKETS, TOP_N
from exuvia.stats.meta import Meta
from exuvia.stats.records import Statistics

_TRIES = 20


class NewIndexes:
    """Who is given what fills found; see pipeline/gathering.py."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, order: TaskOrder, table: Table, found: Summary) -> None:
        """Write it. Raises Deposed when the reorg was left; gives way to whoever writes too."""
        indexes = tuple(each for each in table.info.indexes if each.id in order.index_ids)
        parts = tuple(parts_of(table, (), [each.id for each in indexes]))
        place = meta.whole_id(table)
        made = statistics_of(found, table, Subject((), indexes, parts), place, TOP_N, BUCKETS)
        is_whole = place == order.info.id or not order.logical.is_partitioned
        for _ in range(_TRIES):
            txn = self._store.begin()
            try:
                for fence in order.fences:
                    txn.require_equal(*fence)
                if locked.get(txn, place) is None:
                    _write(txn, place, made, found.rows)
                    if is_whole:
                        _say(txn, order)
                txn.commit()
                return
            except Conflict:
                continue
            finally:
                txn.rollback()


def _write(txn: Transaction, place: int, made: list[Statistics], rows: int) -> None:
    version = meta.draw_version(txn)
    known = meta.get(txn, place) or Meta(version, place, rows=rows)
    ids = known.index_ids | {each.hist_id for each in made}
    named = ",".join(map(str, sorted(ids)))
    changed = known._replace(version=version, histograms_version=version, analyzed_indexes=named)
    meta.put(txn, changed)
    records.write(txn, made, version)
    txn.notify(meta.CHANNEL)


def _say(txn: Transaction, order: TaskOrder) -> None:
    for index_id in order.index_ids:
        txn.put(keys.index_statistics(order.info.id, index_id), b"")
