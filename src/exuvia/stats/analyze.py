"""ANALYZE: what one analysis is asked to do, and doing it to the end.

    Order ---> Analyzer.analyze(order, stopped)        in the calling thread, on the stats owner
                 mysql.analyze_jobs    a row a physical table: pending, running, finished, failed
                 stats/reading.py      its rows, here or on Spark
                 stats/analysis.py     TopN, histogram, different values, of each column and index
                 mysql.stats_*         one transaction a physical table, under the owner's term
                 partitioned           then the whole table's, merged from its partitions

`stopped()` is asked at every batch of rows; Stopped is raised then, and the rows say failed.

What happens to the table meanwhile stays in modify_count: an analysis takes away what was there
when it began. Indexes are never analyzed alone: the rows are read anyway (as version 2 of TiDB's
statistics does).
"""

from collections.abc import Callable, Sequence

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict, ExuviaError
from exuvia.base.types import packed_moment
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.table import Table
from exuvia.cluster.owner import Campaign
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.summary import Summary
from exuvia.stats import analysis_log, locked, merging, meta, records
from exuvia.stats.analysis import Subject, statistics_of, subject_of
from exuvia.stats.analysis_log import FAILED, FINISHED, RUNNING, Logged
from exuvia.stats.meta import Meta
from exuvia.stats.orders import Gone, Order
from exuvia.stats.reading import Reading
from exuvia.stats.records import Statistics

TOLD_EVERY_S = 0.5
TRIES = 100


def _never() -> bool:
    return False


class Analyzer:
    """The stats owner's. Analyses of different tables may run side by side."""

    def __init__(
        self, store: Store, schemas: Schemas, campaign: Campaign, clock: Clock, spark: Spark | None
    ) -> None:
        self._store = store
        self._schemas = schemas
        self._campaign = campaign
        self._clock = clock
        self._reading = Reading(store, spark, clock)

    def analyze(self, order: Order, stopped: Callable[[], bool] = _never) -> None:
        """All of it. Raises Stopped, Gone, Deposed, Unavailable; the job rows say so too."""
        table, chosen = self._chosen(order)
        subject = subject_of(table, order.columns)
        numbers = self._begin(order, table, chosen, subject)
        try:
            read: dict[int, Summary] = {}
            for number, part in zip(numbers, chosen, strict=False):
                read[part.physical_id] = self._one(order, part, subject, number, stopped)
            if table.is_partitioned:
                self._whole(order, table, subject, numbers[-1], read)
        except Exception as error:  # whatever it was, its rows say that it has ended
            self._failed(numbers, str(error) or "[executor:1317]Query execution was interrupted")
            raise

    def _chosen(self, order: Order) -> tuple[Table, list[Table]]:
        """The table, and the physical ones to be read. Raises Gone."""
        txn = self._store.begin()
        try:
            table = self._schemas.table_by_id(txn, order.table_id)
        finally:
            txn.rollback()
        if table is None:
            raise Gone(f"table {order.table_id} is gone")
        parts = table.parts
        if order.partitions:
            parts = tuple(each for each in parts if each.physical_id in order.partitions)
            if len(parts) < len(set(order.partitions)):
                raise Gone(f"a partition of table {table.info.name.O} is gone")
        return table, list(parts)

    # -- a physical table --------------------------------------------------------------------------

    def _one(
        self,
        order: Order,
        table: Table,
        subject: Subject,
        number: int,
        stopped: Callable[[], bool],
    ) -> Summary:
        base = self._started(number, table.physical_id)
        told_at = self._clock.monotonic()

        def tell(rows: int) -> None:
            nonlocal told_at
            now = self._clock.monotonic()
            if now - told_at >= TOLD_EVERY_S:
                told_at = now
                self._log(number, rows=rows)

        found = self._reading.read(table, subject, order.samples, stopped, tell)
        statistics = statistics_of(
            found, table, subject, table.physical_id, order.top_n, order.buckets
        )
        self._write(number, table.physical_id, statistics, found.rows, base, subject)
        return found

    def _started(self, number: int, physical_id: int) -> Meta:
        """Say so; the counts as they are now."""
        self._log(number, state=RUNNING, started=packed_moment(self._clock.wall_ns()))
        txn = self._store.begin()
        try:
            return meta.get(txn, physical_id) or Meta(0, physical_id)
        finally:
            txn.rollback()

    def _write(
        self,
        number: int,
        physical_id: int,
        found: Sequence[Statistics],
        rows: int,
        base: Meta,
        subject: Subject,
    ) -> None:
        """The results, and that they are there."""

        def write(txn: Transaction) -> None:
            version = meta.draw_version(txn)
            known = meta.get(txn, physical_id) or Meta(version, physical_id)
            ids = ",".join(str(index.id) for index in subject.indexes)
            wall_ns = self._clock.wall_ns()
            changed = Meta(
                version,
                physical_id,
                max(0, known.modified - base.modified),
                max(0, rows + known.rows - base.rows),
                txn.sequence,
                version,
                rows,
                wall_ns // 1_000_000_000,
                ids,
            )
            meta.put(txn, changed)
            records.write(txn, found, version)
            ended = packed_moment(wall_ns)
            fields = {"state": FINISHED, "ended": ended, "rows": rows}
            analysis_log.change(txn, number, wall_ns, **fields)
            txn.notify(meta.CHANNEL)

        self._commit(write)

    # -- a partitioned table as a whole ------------------------------------------------------------

    def _whole(
        self,
        order: Order,
        table: Table,
        subject: Subject,
        number: int,
        read: dict[int, Summary],
    ) -> None:
        base = self._started(number, table.info.id)
        ids = [part.physical_id for part in table.parts]
        if len(read) == len(ids):
            found = read[ids[0]]
            for each in ids[1:]:
                found.merge(read[each])
            statistics = statistics_of(
                found, table, subject, table.info.id, order.top_n, order.buckets
            )
            rows = found.rows
        else:
            txn = self._store.begin()
            try:
                statistics = merging.merged(txn, table, subject, ids, order.top_n, order.buckets)
                metas = [meta.get(txn, each) for each in ids]
            finally:
                txn.rollback()
            rows = sum(each.rows for each in metas if each is not None)
        self._write(number, table.info.id, statistics, rows, base, subject)

    # -- mysql.analyze_jobs ------------------------------------------------------------------------

    def _begin(
        self, order: Order, table: Table, chosen: list[Table], subject: Subject
    ) -> list[int]:
        """Put the rows; their ids. Raises Gone where statistics are locked."""
        info = table.info
        names = {}
        if info.partition is not None:
            names = {each.id: each.name.O for each in info.partition.definitions}
        now = packed_moment(self._clock.wall_ns())
        about = {"instance": order.instance, "process_id": order.process_id or None}
        place = table.database.db_name.O, info.name.O
        text = job_info(order, subject)
        rows = [
            Logged(0, now, *place, names.get(part.physical_id, ""), text, **about)  # type: ignore[arg-type]
            for part in chosen
        ]
        if table.is_partitioned:
            whole = f"merge global stats for {place[0]}.{place[1]} columns"
            rows.append(Logged(0, now, *place, "global", whole, **about))  # type: ignore[arg-type]
        numbers: list[int] = []

        def write(txn: Transaction) -> None:
            if locked.get(txn, meta.whole_id(table)) is not None:
                raise Gone(f"statistics of table {info.name.O} are locked")
            numbers[:] = analysis_log.begin(txn, rows)

        self._commit(write)
        return numbers

    def _log(self, number: int, **fields: object) -> None:
        self._commit(lambda txn: analysis_log.change(txn, number, self._clock.wall_ns(), **fields))

    def _failed(self, numbers: Sequence[int], reason: str) -> None:
        """Best effort: who was deposed leaves it to the next owner."""

        def write(txn: Transaction) -> None:
            wall_ns = self._clock.wall_ns()
            ended = packed_moment(wall_ns)
            for number in numbers:
                known = analysis_log.get(txn, number)
                if known is not None and known.state != FINISHED:
                    fields = {"state": FAILED, "ended": ended, "reason": reason}
                    analysis_log.change(txn, number, wall_ns, **fields)

        try:
            self._commit(write)
        except ExuviaError:
            return

    def _commit(self, write: Callable[[Transaction], None]) -> None:
        """One transaction under the owner's term, again after a conflict."""
        for attempt in range(TRIES):
            txn = self._store.begin()
            try:
                self._campaign.guard(txn)
                write(txn)
                txn.commit()
                return
            except Conflict:
                if attempt == TRIES - 1:
                    raise
            finally:
                txn.rollback()


def job_info(order: Order, subject: Subject) -> str:
    """What is done, in the words of SHOW ANALYZE STATUS."""
    names = ", ".join(column.name.O for column in subject.columns)
    columns = f"columns {names}" if order.columns or subject.skipped else "all columns"
    if order.columns:
        wanted = [c.name.O for c in subject.columns]
        columns = f"columns {', '.join(wanted)}"
    indexes = "all indexes, " if subject.indexes else ""
    head = "auto analyze table" if order.automatic else "analyze table"
    tail = f"{order.buckets} buckets, {order.top_n} topn"
    return f"{head} {indexes}{columns} with {tail}, {_sampled(order)}"


def _sampled(order: Order) -> str:
    return f"{order.samples} samples" if order.samples else "1 samplerate"
