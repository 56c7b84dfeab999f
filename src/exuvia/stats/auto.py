"""Automatic analysis: takes the most urgent jobs of the queue and has them done, on the owner.

    no longer owner, or another term    what runs is told to stop; its ends are nobody's concern
    an analysis has ended               well: the queue forgets it; badly: it must be retried
    it runs too long                    tidb_max_auto_analyze_time: told to stop, must be retried
    outside the window                  nothing begins; the queue lives on
    a slot is free                      the top job, if its table is there and has not just failed

A job becomes orders for the analyzer: partitions in batches, indexes alone where rows did not
change. All orders of a job run one after the other in a thread of its own; `spawn` gives it one.

When it may begin something: a window of the day, "HH:MM +ZZZZ" to "HH:MM +ZZZZ".
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
BUSY_S = 0.05  # while something runs: small tables take no longer
MOST_LOOKED_AT = 32  # jobs refused in one step before it yields

_log = logging.getLogger(__name__)

Spawn = Callable[[Callable[[], None]], None]


class Analyst(Protocol):
    """Does one analysis to its end in the calling thread; stats/analyze.py."""

    def analyze(self, order: AnalyzeOrder, stopped: Callable[[], bool]) -> None:
        """Raises Stopped, Gone, or why it failed."""


class AutoAnalyzeSettings(NamedTuple):
    """What people set. `is_open`: something may begin now."""

    is_open: bool
    concurrency: int
    batch: int
    most_s: float


class _Task:
    """A job under way. `error` is set before `has_ended`."""

    def __init__(self, job: AnalysisJob, orders: list[AnalyzeOrder], began: float) -> None:
        self.job, self.orders, self.began = job, orders, began
        self.stop = threading.Event()
        self.has_ended = threading.Event()
        self.error: Exception | None = None

    def work(self, analyst: Analyst) -> None:
        """In a thread of its own."""
        try:
            for order in self.orders:
                analyst.analyze(order, self.stop.is_set)
        except Exception as error:  # whatever made it fail, it is to be tried again later
            self.error = error
        finally:
            self.has_ended.set()


class Runner:
    """See the module. `wall_s`: seconds since 1970, for the window and past failures."""

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
        """See the table in the module; seconds until the next."""
        term = self._campaign.term if self._campaign.is_owner else 0
        if term != self._term:
            self._abandon()
            self._term = term
        self._orphans = [each for each in self._orphans if not each.has_ended.is_set()]
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
        """The process ends: so does what runs."""
        self._abandon()

    def _abandon(self) -> None:
        for task in self._tasks:
            task.stop.set()
        self._orphans += self._tasks
        self._tasks = []

    def _collect(self) -> None:
        for task in [each for each in self._tasks if each.has_ended.is_set()]:
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
        """The present values of the variables."""
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
        """Its table and partitions are there, and none of them has just failed."""
        with self._store.read() as txn:
            places = places_of(txn, job)
            return places is not None and not has_just_failed(txn, places, self._wall_s())


def places_of(txn: Transaction, job: AnalysisJob) -> frozenset[PhysicalName] | None:
    """What the job analyzes, by names; None where some of it is gone."""
    table = catalog.get_table(txn, job.table_id)
    database = None if table is None else catalog.get_database(txn, table.exuvia_db)
    if table is None or database is None:
        return None
    wanted = job.partitions or ((job.partition,) if job.partition else ())
    if not wanted:
        return frozenset({PhysicalName(database.db_name.O, table.name.O)})
    cut = table.partition.definitions if table.partition is not None else ()
    names = {each.id: each.name.O for each in cut}
    if not names.keys() >= set(wanted):
        return None
    return frozenset(PhysicalName(database.db_name.O, table.name.O, names[each]) for each in wanted)


def orders(job: AnalysisJob, batch: int) -> Iterator[AnalyzeOrder]:
    """What the analyzer is asked for, in turn."""

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
    found: dict[int, list[int]] = {}
    for partition, indexes in job.missing:
        for index in indexes:
            found.setdefault(index, []).append(partition)
    return found
