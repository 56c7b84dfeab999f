"""Orders of analyses to the owner of statistics, and mysql.analyze_jobs, the record of analyses.

    pending --> running --> finished            the row count is updated while it runs
                       `--> failed, with reason    also when its owner ends

An AnalyzeOrder comes from the queue (stats/auto.py), or from ANALYZE TABLE on any node as a request
to the owner (cluster/questions.py). If the owner ends, the next one repeats the request. An
interrupted session withdraws it, and the analysis ends within moments. This module does not import
the analyzer (stats/analyze.py), so submitters need not load it.

Each physical table has a row. Ids are consecutive; the last MOST_KEPT are retained. The newest
MOST_READ decide whether a table's analysis has just failed:

    failed less than twice the average of its last five successes ago     just failed
    failed less than half an hour ago, and never succeeded                just failed
    anything else                                                         may run
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.mysql_errors import ErrQueryInterrupted, ErrUnknown
from exuvia.base.types import packed_moment, unpack_date, unpack_datetime
from exuvia.catalog import reader, writer
from exuvia.catalog.system_tables import planned
from exuvia.cluster.owner import Campaign
from exuvia.cluster.questions import OwnerAnswering, Stop, Topic
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

# -- orders ----------------------------------------------------------------------------------------

BUCKETS = 256
TOP_N = 100


class AnalyzeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One analysis. `partitions`: physical ids, () for all of them; `indexes`: ids, () for all.

    `columns` are ids, () for all but those of tidb_analyze_skip_column_types. `instance` and
    `process_id` are the submitter's, for SHOW ANALYZE STATUS."""

    table_id: int
    partitions: tuple[int, ...] = ()
    indexes: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    buckets: int = BUCKETS
    top_n: int = TOP_N
    samples: int = 0  # rows to sample; 0: chosen
    automatic: bool = False
    instance: str = ""
    process_id: int = 0


class Gone(Exception):
    """The table or one of its partitions was dropped."""


class Stopped(Exception):
    """The analysis was cancelled."""


class Analyzes(Protocol):
    """Runs analyses; stats/analyze.py implements it."""

    def analyze(self, order: AnalyzeOrder, stopped: Callable[[], bool]) -> None:
        """Run one analysis to its end. Raises Gone, Stopped."""


ANALYZE: Topic[AnalyzeOrder, None] = Topic("analyze", AnalyzeOrder, None, role="stats")


def answering(
    store: Store, campaign: Campaign, analyzer: Analyzes, clock: Clock
) -> OwnerAnswering[AnalyzeOrder, None]:
    """The owner's side of ANALYZE: one analysis at a time; other orders wait in the store."""

    def analyze(order: AnalyzeOrder, stop: Stop) -> None:
        try:
            analyzer.analyze(order, stop)
        except Stopped:
            raise ErrQueryInterrupted() from None
        except Gone as gone:
            raise ErrUnknown(str(gone)) from None

    def take_over(txn: Transaction) -> None:
        reason = "the node that ran it is no longer the owner of statistics"
        fail_the_unfinished(txn, clock.wall_ns(), reason)

    return OwnerAnswering(store, campaign, ANALYZE, analyze, clock, take_over)


# -- records ---------------------------------------------------------------------------------------

TABLE = "analyze_jobs"
MOST_KEPT = 10_000
PENDING, RUNNING, FINISHED, FAILED = 1, 2, 3, 4
STATES = ("", "pending", "running", "finished", "failed")


class Logged(NamedTuple):
    """A row of mysql.analyze_jobs. Times are packed, UTC; `state` is one of those above."""

    id: int
    update_time: int
    schema: str
    table: str
    partition: str
    info: str
    rows: int = 0
    started: int | None = None
    ended: int | None = None
    state: int = PENDING
    reason: str | None = None
    instance: str = ""
    process_id: int | None = None


def last_id(txn: Transaction) -> int:
    """The greatest id in the table, 0 if it is empty."""
    for key, _ in txn.scan(planned(txn, TABLE).row_span(), limit=1, reverse=True):
        return keys.read_number(key[keys.HANDLE_AT :])
    return 0


def begin(txn: Transaction, jobs: Sequence[Logged]) -> list[int]:
    """Insert rows and return the ids assigned to them."""
    table, first = planned(txn, TABLE), last_id(txn) + 1
    for number, job in enumerate(jobs, first):
        writer.insert(txn, table, list(job._replace(id=number)))
        stale = get(txn, number - MOST_KEPT) if number > MOST_KEPT else None
        if stale is not None:
            writer.delete(txn, table, keys.u64(stale.id), list(stale))
    return list(range(first, first + len(jobs)))


def get(txn: Transaction, number: int) -> Logged | None:
    row = reader.get(txn, planned(txn, TABLE), keys.u64(number))
    return None if row is None else Logged._make(row)


def change(txn: Transaction, number: int, wall_ns: int, **fields: object) -> None:
    """Change fields of a row, if it still exists."""
    old = get(txn, number)
    if old is None:
        return
    new = old._replace(update_time=packed_moment(wall_ns), **fields)  # type: ignore[arg-type]
    writer.update(txn, planned(txn, TABLE), keys.u64(number), list(old), list(new))


def newest(txn: Transaction, most: int = MOST_KEPT) -> Iterator[Logged]:
    """All rows, the latest first."""
    table = planned(txn, TABLE)
    for number, (_, row) in enumerate(reader.scan(txn, table, None, True)):
        if number == most:
            return
        yield Logged._make(row)


def fail_the_unfinished(txn: Transaction, wall_ns: int, reason: str) -> int:
    """Fail the rows of a former owner; returns their number."""
    unfinished = [job for job in newest(txn) if job.state in (PENDING, RUNNING)]
    for job in unfinished:
        moment = packed_moment(wall_ns)
        change(txn, job.id, wall_ns, state=FAILED, reason=reason, ended=moment)
    return len(unfinished)


# -- past ------------------------------------------------------------------------------------------

MOST_READ = 10_000
SUCCESSES = 5
NEVER_SUCCEEDED_S = 1800.0


class PhysicalName(NamedTuple):
    """The names of a physical table in a row."""

    database: str
    table: str
    partition: str = ""


class _Attempt(NamedTuple):
    """One ended analysis; seconds since 1970, and its duration."""

    failed: bool
    began_s: float
    took_s: float


def has_just_failed(txn: Transaction, places: frozenset[PhysicalName], wall_s: float) -> bool:
    """Whether an analysis of one of those physical tables has just failed."""
    newest: dict[PhysicalName, list[_Attempt]] = {}
    for place, attempt in _attempts(txn, places):
        newest.setdefault(place, []).append(attempt)
    return any(_just_failed(attempts, wall_s) for attempts in newest.values())


def _just_failed(attempts: list[_Attempt], wall_s: float) -> bool:
    """`attempts`: newest first."""
    failed = next((attempt for attempt in attempts if attempt.failed), None)
    if failed is None:
        return False
    took = [attempt.took_s for attempt in attempts if not attempt.failed][:SUCCESSES]
    pause_s = 2 * sum(took) / len(took) if took else NEVER_SUCCEEDED_S
    return wall_s - failed.began_s < pause_s


def _attempts(
    txn: Transaction, places: frozenset[PhysicalName]
) -> Iterator[tuple[PhysicalName, _Attempt]]:
    table = planned(txn, TABLE)
    names = ("table_schema", "table_name", "partition_name", "state", "start_time", "end_time")
    at = [table.position(name) for name in names]
    for _, row in islice(reader.scan(txn, table, reverse=True), MOST_READ):
        database, name, partition, state, began, ended = (row[n] for n in at)
        place = PhysicalName(database, name, partition)
        if place in places and state in (FINISHED, FAILED) and began is not None:
            began_s = _seconds(began)
            took_s = max(0.0, _seconds(ended) - began_s) if ended is not None else 0.0
            yield place, _Attempt(state == FAILED, began_s, took_s)


def _seconds(packed: int) -> float:
    """Seconds since 1970 of a packed TIMESTAMP in UTC."""
    date, hour, minute, second, micro = unpack_datetime(packed)
    return datetime(*unpack_date(date), hour, minute, second, micro, UTC).timestamp()
