"""information_schema: analyses that ran (ANALYZE_STATUS) and that wait (AUTO_ANALYZE_QUEUE).

    SCORE = CHANGE_SCORE + SIZE_SCORE + AGE_SCORE + EVENT_SCORE          stats/analysis_jobs.py

The queue lives on the stats owner; it is asked for (cluster/questions.py), so a query waits for its
answer, a few milliseconds; an owner that does not answer is a warning, and no rows. A job that is
to be retried has no score until it is queued again.
"""

from collections.abc import Iterable, Iterator

from exuvia.base.errors import Unavailable
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.catalog import meta
from exuvia.catalog.model import TableInfo
from exuvia.catalog.temporal import shift_zone
from exuvia.cluster.questions import Asking
from exuvia.sql.information_schema.tables import all_tables, row_count
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context
from exuvia.stats import analysis_log, queue
from exuvia.stats.analysis_jobs import AnalysisJob, parts

COLUMNS = (
    "TABLE_SCHEMA TABLE_NAME PARTITION_NAME TABLE_ID# STATE CHANGE_PERCENT% TABLE_SIZE%"
    " AGE_SECONDS% CHANGE_SCORE% SIZE_SCORE% AGE_SCORE% EVENT_SCORE% SCORE% PARTITIONS#"
    " NEW_INDEXES#"
)
_UNSCORED = 10


def rows(context: Context) -> Iterable[Row]:
    """Running jobs, waiting ones by their score, and those to be retried."""
    session = context.session
    asking = Asking(session.services.store, session.services.member, session.services.clock)
    try:
        answer = queue.ask(asking, session.check_interrupt)
    except Unavailable as error:
        context.note(ErrUnknown.code, str(error))
        return
    names = _Names(context)
    for state, jobs in (("running", answer.running), ("waiting", answer.waiting)):
        for job in jobs:
            yield [
                *names.of(job.table_id, job.key, job.partition),
                state,
                *_scored(job, answer.at_s),
            ]
    for key, table_id in answer.must_retry.items():
        yield [*names.of(table_id, key, key), "must retry", *[None] * _UNSCORED]


def _scored(job: AnalysisJob, at_s: float) -> Iterator[object]:
    indicators = job.indicators(at_s)
    found = parts(indicators, job.has_new_index)
    yield from indicators
    yield from found
    yield found.total
    yield len(job.partitions)
    yield len(job.indexes) + sum(len(indexes) for _, indexes in job.missing)


class _Names:
    """Names by ids, each table read once."""

    def __init__(self, context: Context) -> None:
        self._txn = context.txn
        self._databases: dict[int, str | None] = {}

    def of(self, table_id: int, key: int, partition: int) -> Row:
        """Schema, table, partition and the physical id; NULLs for what is gone."""
        table = meta.get_table(self._txn, table_id)
        if table is None:
            return [None, None, None, key]
        return [self._database(table.exuvia_db), table.name.O, _partition(table, partition), key]

    def _database(self, database_id: int) -> str | None:
        if database_id not in self._databases:
            found = meta.get_database(self._txn, database_id)
            self._databases[database_id] = None if found is None else found.db_name.O
        return self._databases[database_id]


def _partition(table: TableInfo, key: int) -> str | None:
    cut = table.partition.definitions if table.partition is not None else ()
    return next((each.name.O for each in cut if each.id == key), None)


ANALYZE_STATUS_COLUMNS = (
    "Table_schema Table_name Partition_name Job_info:65535 Processed_rows# Start_time@ End_time@"
    " State Fail_reason:65535 Instance:512 Process_ID# Remaining_seconds Progress"
    " Estimated_total_rows#"
)


def analyze_status(context: Context) -> Iterable[Row]:
    """Analyses, the latest first: information_schema.analyze_status."""
    zone = context.zone
    for each in analysis_log.newest(context.txn):
        started, ended = (
            None if moment is None else shift_zone(moment, None, zone) & _WHOLE_SECONDS
            for moment in (each.started, each.ended)
        )
        line = [each.schema, each.table, each.partition, each.info, each.rows, started, ended]
        line += [analysis_log.STATES[each.state], each.reason, each.instance, each.process_id]
        yield [*line, *_progress(context, each)]


_WHOLE_SECONDS = ~((1 << 20) - 1)  # a packed moment without its microseconds


def _progress(context: Context, each: analysis_log.Logged) -> Row:
    """Seconds that remain, share done, and rows there are, while it runs."""
    if each.state != analysis_log.RUNNING or each.started is None or not each.rows:
        return [None, None, None]
    tables = (
        table
        for database, table in all_tables(context)
        if (database.db_name.O, table.name.O) == (each.schema, each.table)
    )
    table = next(tables, None)
    if table is None:
        return [None, None, None]
    total = max(row_count(context, table), each.rows)
    passed = seconds_between(each.started, context.utc_now)
    remaining = int(passed * (total - each.rows) / each.rows)
    return [str(remaining), f"{each.rows / total:.4f}", total]


def seconds_between(earlier: int, later: int) -> float:
    """Between two packed moments of the same day or neighbours."""

    def seconds(packed: int) -> float:
        clock = (packed >> 32 & 31) * 3600 + (packed >> 26 & 63) * 60 + (packed >> 20 & 63)
        return clock + (packed & 0xFFFFF) / 1e6

    return (seconds(later) - seconds(earlier)) % 86400


_ANALYSES = (("ANALYZE_STATUS", ANALYZE_STATUS_COLUMNS.upper(), analyze_status),)

TABLES = (("AUTO_ANALYZE_QUEUE", COLUMNS, rows), *_ANALYSES)
