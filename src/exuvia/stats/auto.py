"""Automatic analysis: runs the most urgent jobs of the queue, on the owner.

    no longer owner, or another term    running analyses are cancelled and their results ignored
    an analysis has ended               success: removed from the queue; failure: retried
    it runs too long                    tidb_max_auto_analyze_time: cancelled and retried
    outside the window                  no analysis begins; the queue continues
    a slot is free                      the top job, unless its table is dropped or has just failed

A job becomes orders for the analyzer: partitions in batches, only the new indexes if rows did not
change. The orders of a job run one after another in a thread from `spawn`.

The window of the day for new analyses is "HH:MM +ZZZZ" to "HH:MM +ZZZZ".
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from exuvia.base.daily_window import is_open
from exuvia.base.errors import Deposed
from exuvia.catalog import meta as catalog
from exuvia.catalog.sysvar import variables
from exuvia.cluster.owner import Campaign
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.stats import meta
from exuvia.stats.analyze_jobs import AnalyzeOrder, Gone, PhysicalName, has_just_failed
from exuvia.stats.priority import AnalysisJob
from exuvia.stats.queue import Queue

# -- auto ------------------------------------------------------------------------------------------

TICK_S = 1.0
BUSY_S = 0.05  # while an analysis runs; one of a small table takes no longer
MOST_LOOKED_AT = 32  # jobs refused in one step before it yields

_log = logging.getLogger(__name__)

Spawn = Callable[[Callable[[], None]], None]


class Analyst(Protocol):
    """Runs one analysis to its end in the calling thread; stats/analyze.py implements it."""

    def analyze(self, order: AnalyzeOrder, stopped: Callable[[], bool]) -> None:
        """Raises Stopped, Gone, or the error of the analysis."""


class AutoAnalyzeSettings(NamedTuple):
    """The settings of automatic analysis. `is_open`: an analysis may begin now."""

    is_open: bool
    concurrency: int
    batch: int
    most_s: float


class _Task:
    """A running job. `error` is set before `has_ended`."""

    def __init__(self, job: AnalysisJob, orders: list[AnalyzeOrder], began: float) -> None:
        self.job, self.orders, self.began = job, orders, began
        self.stop = threading.Event()
        self.has_ended = threading.Event()
        self.error: Exception | None = None

    def work(self, analyst: Analyst) -> None:
        """Run the orders; called in a thread of its own."""
        try:
            for order in self.orders:
                analyst.analyze(order, self.stop.is_set)
        except Exception as error:  # any failed job is retried later
            self.error = error
        finally:
            self.has_ended.set()


class Runner:
    """Starts and ends analyses. `wall_s`: seconds since 1970, for the window and past failures."""

    channel = meta.CHANNEL

    def __init__(
        self,
        store: Store,
        campaign: Campaign,
        queue: Queue,
        analyst: Analyst,
        spawn: Spawn,
        wall_s: Callable[[], float],
    ) -> None:
        self._store = store
        self._campaign = campaign
        self._queue = queue
        self._analyst = analyst
        self._spawn = spawn
        self._wall_s = wall_s
        self._term = 0
        self._tasks: list[_Task] = []
        self._orphans: list[_Task] = []

    def step(self, now: float) -> float:
        """Handle ended, overdue and new analyses, as in the module's table; returns the seconds
        until the next step."""
        term = self._campaign.term if self._campaign.is_owner else 0
        if term != self._term:
            self._abandon()
            self._term = term
        self._orphans = [orphan for orphan in self._orphans if not orphan.has_ended.is_set()]
        if not term:
            return TICK_S
        self._collect()
        settings = self.settings()
        for task in self._tasks:
            if settings.most_s and now - task.began >= settings.most_s:
                task.stop.set()
        if settings.is_open:
            self._fill(now, settings)
        return BUSY_S if self._tasks else TICK_S

    @property
    def running(self) -> int:
        """Analyses under way, those of a lost ownership included."""
        return len(self._tasks) + len(self._orphans)

    # -- what runs ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Cancel all analyses, at the end of the process."""
        self._abandon()

    def _abandon(self) -> None:
        for task in self._tasks:
            task.stop.set()
        self._orphans += self._tasks
        self._tasks = []

    def _collect(self) -> None:
        for task in [ended for ended in self._tasks if ended.has_ended.is_set()]:
            self._tasks.remove(task)
            if task.error is not None:
                about = {"table": task.job.table_id, "reason": str(task.error)}
                _log.warning("an automatic analysis failed", extra=about)
            if isinstance(task.error, Deposed):
                self._campaign.deposed()
            if isinstance(task.error, Gone):
                self._queue.give_up(task.job)
            else:
                self._queue.ended(task.job, well=task.error is None)

    def settings(self) -> AutoAnalyzeSettings:
        """The current values of the variables."""
        with self._store.read() as txn:
            start = variables.get_global(txn, "tidb_auto_analyze_start_time")
            end = variables.get_global(txn, "tidb_auto_analyze_end_time")
            return AutoAnalyzeSettings(
                is_open=is_open(start, end, self._wall_s()),
                concurrency=variables.read_int(txn, "tidb_auto_analyze_concurrency"),
                batch=variables.read_int(txn, "tidb_auto_analyze_partition_batch_size"),
                most_s=variables.read_int(txn, "tidb_max_auto_analyze_time"),
            )

    # -- what begins -------------------------------------------------------------------------------

    def _fill(self, now: float, settings: AutoAnalyzeSettings) -> None:
        for _ in range(MOST_LOOKED_AT):
            if self.running >= settings.concurrency:
                return
            job = self._queue.pop()
            if job is None:
                return
            if not self._may_run(job):
                self._queue.give_up(job)
                continue
            task = _Task(job, list(orders(job, settings.batch)), now)
            self._tasks.append(task)
            self._spawn(lambda task=task: task.work(self._analyst))  # type: ignore[misc]

    def _may_run(self, job: AnalysisJob) -> bool:
        """Whether the job's table and partitions exist and none of them has just failed."""
        with self._store.read() as txn:
            places = places_of(txn, job)
            return places is not None and not has_just_failed(txn, places, self._wall_s())


def places_of(txn: Transaction, job: AnalysisJob) -> frozenset[PhysicalName] | None:
    """The names of the physical tables to analyze; None if one was dropped."""
    table = catalog.get_table(txn, job.table_id)
    database = None if table is None else catalog.get_database(txn, table.exuvia_db)
    if table is None or database is None:
        return None
    partition_ids = job.partitions or ((job.partition,) if job.partition else ())
    if not partition_ids:
        return frozenset({PhysicalName(database.db_name.O, table.name.O)})
    cut = table.partition.definitions if table.partition is not None else ()
    names = {partition.id: partition.name.O for partition in cut}
    if not names.keys() >= set(partition_ids):
        return None
    return frozenset(
        PhysicalName(database.db_name.O, table.name.O, names[partition])
        for partition in partition_ids
    )


def orders(job: AnalysisJob, batch: int) -> Iterator[AnalyzeOrder]:
    """The analyzer's orders of a job, in sequence."""

    def order(partitions: tuple[int, ...] = (), indexes: tuple[int, ...] = ()) -> AnalyzeOrder:
        return AnalyzeOrder(
            table_id=job.table_id, partitions=partitions, indexes=indexes, automatic=True
        )

    if not job.partitions:
        only = (job.partition,) if job.partition else ()
        yield order(only, () if job.change else job.indexes)
    elif job.change:
        for part in _batches(job.partitions, batch):
            yield order(part)
    else:
        for index, partitions in sorted(_by_index(job).items()):
            for part in _batches(partitions, batch):
                yield order(part, (index,))


def _batches(ids: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    for first in range(0, len(ids), size):
        yield tuple(ids[first : first + size])


def _by_index(job: AnalysisJob) -> dict[int, list[int]]:
    partitions_of: dict[int, list[int]] = {}
    for partition, indexes in job.missing:
        for index in indexes:
            partitions_of.setdefault(index, []).append(partition)
    return partitions_of
