"""What mysql.analyze_jobs tells of a table's past analyses: whether it has just failed.

    failed less than twice the average of its last five successes ago     just failed
    failed less than half an hour ago, and never succeeded                just failed
    anything else                                                         may run

The newest MOST_READ rows are looked at, newest first: what is older says nothing of today.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from exuvia.base.types import unpack_date, unpack_datetime
from exuvia.catalog import reader
from exuvia.catalog.system_rows import planned
from exuvia.kv.transaction import Transaction

TABLE = "analyze_jobs"
MOST_READ = 10_000
SUCCESSES = 5
NEVER_SUCCEEDED_S = 1800.0
FINISHED, FAILED = 3, 4  # of the enumeration `state`


class Place(NamedTuple):
    """How a row names a physical table."""

    database: str
    table: str
    partition: str = ""


class _Attempt(NamedTuple):
    """One ended analysis; seconds since 1970, and how long it took."""

    failed: bool
    began_s: float
    took_s: float


def has_just_failed(txn: Transaction, places: frozenset[Place], wall_s: float) -> bool:
    """Whether an analysis of one of those physical tables failed too short a time ago."""
    newest: dict[Place, list[_Attempt]] = {}
    for place, attempt in _attempts(txn, places):
        newest.setdefault(place, []).append(attempt)
    return any(_just_failed(attempts, wall_s) for attempts in newest.values())


def _just_failed(attempts: list[_Attempt], wall_s: float) -> bool:
    """`attempts`: newest first."""
    failed = next((each for each in attempts if each.failed), None)
    if failed is None:
        return False
    took = [each.took_s for each in attempts if not each.failed][:SUCCESSES]
    pause_s = 2 * sum(took) / len(took) if took else NEVER_SUCCEEDED_S
    return wall_s - failed.began_s < pause_s


def _attempts(txn: Transaction, places: frozenset[Place]) -> Iterator[tuple[Place, _Attempt]]:
    table = planned(txn, TABLE)
    names = ("table_schema", "table_name", "partition_name", "state", "start_time", "end_time")
    at = [table.position(name) for name in names]
    for _, row in islice(reader.scan(txn, table, reverse=True), MOST_READ):
        database, name, partition, state, began, ended = (row[n] for n in at)
        place = Place(database, name, partition)
        if place in places and state in (FINISHED, FAILED) and began is not None:
            began_s = _seconds(began)
            took_s = max(0.0, _seconds(ended) - began_s) if ended is not None else 0.0
            yield place, _Attempt(state == FAILED, began_s, took_s)


def _seconds(packed: int) -> float:
    """A packed TIMESTAMP in UTC as seconds since 1970."""
    date, hour, minute, second, micro = unpack_datetime(packed)
    return datetime(*unpack_date(date), hour, minute, second, micro, UTC).timestamp()
