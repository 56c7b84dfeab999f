"""ANALYZE: runs an analysis from its order to the stored statistics.

    Order ---> Analyzer.analyze(order, stopped)        in the calling thread, on the stats owner
                 mysql.analyze_jobs    a row a physical table: pending, running, finished, failed
                 reading               its rows, here or on Spark
                 stats/analysis.py     TopN, histogram, distinct values, of each column and index
                 mysql.stats_*         one transaction a physical table, under the owner's term
                 partitioned           then the whole table's, merged from its partitions

`stopped()` is called at every batch of rows; if it is true, Stopped is raised and the rows of
mysql.analyze_jobs become failed.

ANALYZE waits until the notifier's handler "stats meta" (stats/ddl_handler.py) has processed all
finished changes of the table. The handler adapts statistics from before the change, so it must not
apply to new ones.

Rows written during an analysis stay in modify_count: the analysis subtracts the count from its
start. Indexes are never analyzed alone, because the rows are read anyway (as in version 2 of TiDB's
statistics).

Reading a physical table for its statistics, in this process or as tasks on Spark:

    at most 25 * exuvia_pipeline_inline_rows rows, or no     this process, chunk by chunk
    Java; rows are not made Python objects
    more                                                     spans of SPAN_ROWS in waves

Two waves run at any time, so no core waits for the end of one. Summaries are merged in the order of
the rows. Stopped is raised at the next chunk, or within a tenth of a second while Spark reads.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.errors import Broken, Deposed, ExuviaError, Refused, Unavailable
from exuvia.base.types import FieldType, packed_moment
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.table import Table
from exuvia.cluster.owner import Campaign
from exuvia.events import notifier
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Answer, Transaction, Work
from exuvia.pipeline import task
from exuvia.pipeline.checkpoint import cut
from exuvia.pipeline.engine import AUTO, SPARK
from exuvia.pipeline.kernels.attempt import TaskAttempt
from exuvia.pipeline.kernels.summary import ROWS, Summary, limit_of, types_of
from exuvia.pipeline.reorg import ARRAY_ROWS
from exuvia.pipeline.settings import Fixed, PipelineSettings, Variables
from exuvia.pipeline.spark import Spark, SparkTasks
from exuvia.pipeline.task import DONE, Outcome, Task
from exuvia.pipeline.throttle import Batch
from exuvia.stats import analysis, analyze_jobs, meta, records
from exuvia.stats.analysis import Subject, statistics_of, subject_of
from exuvia.stats.analyze_jobs import FAILED, FINISHED, RUNNING, AnalyzeOrder, Gone, Logged, Stopped
from exuvia.stats.meta import Meta
from exuvia.stats.records import Statistics

SPAN_ROWS = 500_000
TASKS_EACH = 2  # tasks of a wave for each concurrent one
WAVES = 2
_LOOK_S = 0.1

Stop = Callable[[], bool]
Tell = Callable[[int], None]
Fields = Sequence[FieldType]  # the columns to analyze


class AnalyzeSettings:
    """Reads tables for their statistics."""

    def __init__(self, store: Store, spark: Spark | None, clock: Clock) -> None:
        self._store = store
        self._spark = spark
        self._clock = clock

    def read(
        self, table: Table, subject: Subject, samples: int, stopped: Stop, tell: Tell
    ) -> Summary:
        """The summary of a physical table; calls `tell` with the number of rows read. Raises
        Stopped."""
        dial = Variables(self._store, self._clock.monotonic)
        settings = dial.read()
        span = table.row_span()
        total = self._store.count(span)
        order = task.order_for(table, tuple(index.id for index in subject.indexes))
        most = samples or ROWS
        limit = limit_of(most, total)
        fields = types_of(table, subject.parts)
        summary = Summary(len(subject.looked_at), most, span, limit)
        spark = self._spark
        if spark is None or not self._is_for_spark(spark, settings, total):
            single_task = _task(order, subject, most, limit, span, 0)
            self._read_locally(single_task, summary, fields, stopped, tell)
            return summary
        spans = cut(self._store, [span], SPAN_ROWS, total, spark.at_once)
        tasks = [_task(order, subject, most, limit, part, n) for n, part in enumerate(spans)]
        self._read_on_spark(spark, tasks, summary, fields, stopped, tell)
        return summary

    def _is_for_spark(self, spark: Spark, settings: PipelineSettings, rows: int) -> bool:
        """Whether a table of this size is read on Spark. Raises Unavailable if the setting forces
        Spark and it cannot start."""
        limit = ARRAY_ROWS * settings.inline_rows
        if settings.engine == SPARK and (obstacle := spark.obstacle()) is not None:
            raise Unavailable(obstacle)
        if settings.engine != AUTO:
            return settings.engine == SPARK
        return rows > limit and spark.obstacle() is None

    def _read_locally(
        self, single_task: Task, summary: Summary, fields: Fields, stopped: Stop, tell: Tell
    ) -> None:
        attempt = TaskAttempt(self._store, single_task, Fixed(), self._clock.monotonic)
        rows = 0
        try:
            while isinstance(reached := attempt.advance(), Batch):
                rows += reached.rows
                tell(rows)
                if stopped():
                    raise Stopped
        finally:
            attempt.close()
        _merge(summary, fields, [single_task], [reached])

    def _read_on_spark(
        self,
        spark: Spark,
        tasks: list[Task],
        summary: Summary,
        fields: Fields,
        stopped: Stop,
        tell: Tell,
    ) -> None:
        wave_size = spark.at_once * TASKS_EACH
        pieces = [tasks[first : first + wave_size] for first in range(0, len(tasks), wave_size)]
        waves: deque[tuple[list[Task], SparkTasks]] = deque()
        try:
            while pieces or waves:
                while pieces and len(waves) < WAVES:
                    waves.append(_started(spark, pieces.pop(0)))
                few, wave = waves[0]
                while not wave.wait(_LOOK_S):
                    if stopped():
                        raise Stopped
                if wave.error is not None:
                    raise Unavailable(wave.error)
                waves.popleft()
                _merge(summary, fields, few, wave.outcomes)
                tell(summary.rows)
        finally:
            for _, wave in waves:
                wave.cancel()


def _started(spark: Spark, tasks: Sequence[Task]) -> tuple[list[Task], SparkTasks]:
    few = [msgspec.structs.replace(waiting, ordinal=n) for n, waiting in enumerate(tasks)]
    order = few[0].order
    about = f"ANALYZE TABLE {order.database.db_name.O}.{order.info.name.O}, stage summarize"
    encoded = [task.encode(waiting) for waiting in few]
    return few, spark.start(f"exuvia-analyze-{order.table_id}", encoded, about)


def _task(
    order: task.TaskOrder, subject: Subject, samples: int, limit: float, span: Span, number: int
) -> Task:
    return Task(
        kind="summarize",
        order=order,
        span=span,
        ordinal=number,
        positions=subject.positions,
        samples=samples,
        limit=limit,
    )


def _merge(
    summary: Summary, fields: Fields, tasks: Sequence[Task], outcomes: Sequence[Outcome]
) -> None:
    """Merge the outcomes into the summary. Raises the error of a failed task."""
    for outcome in sorted(outcomes, key=lambda done: done.ordinal):
        if outcome.kind == task.FAILED:
            raise Refused(outcome.code, outcome.state, outcome.text)
        if outcome.kind == task.DEPOSED:
            raise Deposed("a task of an analysis was deposed")
        if outcome.kind != DONE:
            raise Unavailable(outcome.text)
        finished = tasks[outcome.ordinal]
        if not isinstance(outcome.result, bytes):
            raise Broken("a task returned no summary")
        summary.merge(Summary.decode(outcome.result, finished.samples, finished.span, fields))


# -- analyze ---------------------------------------------------------------------------------------

TOLD_EVERY_S = 0.5
FOLLOWED_S = 10.0  # the notifier needs a tenth of a second, unless a handler fails
FOLLOWED_LOOK_S = 0.02


def _never() -> bool:
    return False


class Analyzer:
    """Runs analyses on the stats owner. Analyses of different tables may be concurrent."""

    def __init__(
        self, store: Store, schemas: Schemas, campaign: Campaign, clock: Clock, spark: Spark | None
    ) -> None:
        self._store = store
        self._schemas = schemas
        self._campaign = campaign
        self._clock = clock
        self._reading = AnalyzeSettings(store, spark, clock)

    def analyze(self, order: AnalyzeOrder, stopped: Callable[[], bool] = _never) -> None:
        """Run the whole order. Raises Stopped, Gone, Deposed, Unavailable, also recorded in the job
        rows."""
        table = self._table(order.table_id, stopped)
        chosen = list(table.parts)
        if order.partitions:
            chosen = [
                candidate for candidate in chosen if candidate.physical_id in order.partitions
            ]
            if len(chosen) < len(set(order.partitions)):
                raise Gone(f"a partition of table {table.info.name.O} was dropped")
        subject = subject_of(table, order.columns)
        numbers = self._begin(order, table, chosen, subject)
        try:
            read: dict[int, Summary] = {}
            for number, part in zip(numbers, chosen, strict=False):
                read[part.physical_id] = self._one(order, part, subject, number, stopped)
            if table.is_partitioned:
                self._whole(order, table, subject, numbers[-1], read, stopped)
        except Exception as error:  # any error ends the job rows
            self._failed(numbers, str(error) or "[executor:1317]Query execution was interrupted")
            raise

    def _table(self, table_id: int, stopped: Callable[[], bool]) -> Table:
        """The table, once its statistics match its definition, or after FOLLOWED_S. Raises Gone,
        Stopped."""
        deadline = self._clock.monotonic() + FOLLOWED_S
        while True:
            counter = self._store.counter(meta.CHANNEL)
            with self._store.read() as txn:
                table = self._schemas.table_by_id(txn, table_id)
                follows = not notifier.is_awaited(txn, notifier.STATS_META, table_id)
            if table is None:
                raise Gone(f"table {table_id} was dropped")
            if follows or self._clock.monotonic() >= deadline:
                return table
            if stopped():
                raise Stopped
            self._store.wait(meta.CHANNEL, counter, FOLLOWED_LOOK_S)

    # -- a physical table --------------------------------------------------------------------------

    def _one(
        self,
        order: AnalyzeOrder,
        table: Table,
        subject: Subject,
        number: int,
        stopped: Callable[[], bool],
    ) -> Summary:
        base = self._started(number, table.physical_id)
        logged_at = self._clock.monotonic()

        def tell(rows: int) -> None:
            nonlocal logged_at
            now = self._clock.monotonic()
            if now - logged_at >= TOLD_EVERY_S:
                logged_at = now
                self._log(number, rows=rows)

        summary = self._reading.read(table, subject, order.samples, stopped, tell)
        statistics = statistics_of(
            summary, table, subject, table.physical_id, order.top_n, order.buckets
        )
        self._write(number, table.physical_id, statistics, summary.rows, base, subject)
        return summary

    def _started(self, number: int, physical_id: int) -> Meta:
        """Mark the job row as running; returns the current counts."""
        self._log(number, state=RUNNING, started=packed_moment(self._clock.wall_ns()))
        with self._store.read() as txn:
            return meta.get(txn, physical_id) or Meta(0, physical_id)

    def _write(
        self,
        number: int,
        physical_id: int,
        statistics: Sequence[Statistics],
        rows: int,
        base: Meta,
        subject: Subject,
    ) -> None:
        """Write the statistics, and mark the job row as finished."""

        def write(txn: Transaction) -> None:
            version = meta.draw_version(txn)
            old = meta.get(txn, physical_id) or Meta(version, physical_id)
            ids = ",".join(str(index.id) for index in subject.indexes)
            wall_ns = self._clock.wall_ns()
            changed = Meta(
                version,
                physical_id,
                max(0, old.modified - base.modified),
                max(0, rows + old.rows - base.rows),
                txn.sequence,
                version,
                rows,
                wall_ns // 1_000_000_000,
                ids,
            )
            meta.put(txn, changed)
            records.write(txn, statistics, version)
            ended = packed_moment(wall_ns)
            fields = {"state": FINISHED, "ended": ended, "rows": rows}
            analyze_jobs.change(txn, number, wall_ns, **fields)
            txn.notify(meta.CHANNEL)

        self._commit(write)

    # -- a partitioned table as a whole ------------------------------------------------------------

    def _whole(
        self,
        order: AnalyzeOrder,
        table: Table,
        subject: Subject,
        number: int,
        read: dict[int, Summary],
        stopped: Callable[[], bool],
    ) -> None:
        """Merge the statistics of the present partitions into the table's. Raises Gone, Stopped."""
        ids = [part.physical_id for part in self._table(order.table_id, stopped).parts]
        if read.keys().isdisjoint(ids):
            raise Gone(f"the partitions of table {table.info.name.O} were dropped")
        place = meta.whole_id(table)
        base = self._started(number, place)
        if read.keys() == set(ids):
            whole = read[ids[0]]
            for partition_id in ids[1:]:
                whole.merge(read[partition_id])
            statistics = statistics_of(whole, table, subject, place, order.top_n, order.buckets)
            rows = whole.rows
        else:
            with self._store.read() as txn:
                statistics = analysis.merged(txn, table, subject, ids, order.top_n, order.buckets)
                metas = [meta.get(txn, partition_id) for partition_id in ids]
            rows = sum(partition_id.rows for partition_id in metas if partition_id is not None)
        self._write(number, place, statistics, rows, base, subject)

    # -- mysql.analyze_jobs ------------------------------------------------------------------------

    def _begin(
        self, order: AnalyzeOrder, table: Table, chosen: list[Table], subject: Subject
    ) -> list[int]:
        """Insert the job rows; returns their ids. Raises Gone if statistics are locked."""
        info = table.info
        names = {}
        if info.partition is not None:
            names = {definition.id: definition.name.O for definition in info.partition.definitions}
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

        def write(txn: Transaction) -> list[int]:
            if meta.get_lock(txn, meta.whole_id(table)) is not None:
                raise Gone(f"statistics of table {info.name.O} are locked; see UNLOCK STATS")
            return analyze_jobs.begin(txn, rows)

        return self._commit(write)

    def _log(self, number: int, **fields: object) -> None:
        self._commit(lambda txn: analyze_jobs.change(txn, number, self._clock.wall_ns(), **fields))

    def _failed(self, numbers: Sequence[int], reason: str) -> None:
        """Mark the job rows as failed, if possible: the next owner does it for a deposed one."""

        def write(txn: Transaction) -> None:
            wall_ns = self._clock.wall_ns()
            ended = packed_moment(wall_ns)
            for number in numbers:
                job = analyze_jobs.get(txn, number)
                if job is not None and job.state != FINISHED:
                    fields = {"state": FAILED, "ended": ended, "reason": reason}
                    analyze_jobs.change(txn, number, wall_ns, **fields)

        try:
            self._commit(write)
        except ExuviaError:
            return

    def _commit(self, write: Work[Answer]) -> Answer:
        """Run one transaction under the owner's term."""

        def guarded(txn: Transaction) -> Answer:
            self._campaign.guard(txn)
            return write(txn)

        return self._store.transact(guarded)


def job_info(order: AnalyzeOrder, subject: Subject) -> str:
    """The text of the analysis in SHOW ANALYZE STATUS."""
    names = ", ".join(column.name.O for column in subject.columns)
    columns = f"columns {names}" if order.columns or subject.skipped else "all columns"
    if order.columns:
        column_names = [c.name.O for c in subject.columns]
        columns = f"columns {', '.join(column_names)}"
    indexes = "all indexes, " if subject.indexes else ""
    head = "auto analyze table" if order.automatic else "analyze table"
    tail = f"{order.buckets} buckets, {order.top_n} topn"
    return f"{head} {indexes}{columns} with {tail}, {_sampled(order)}"


def _sampled(order: AnalyzeOrder) -> str:
    return f"{order.samples} samples" if order.samples else "1 samplerate"
