"""The runner: when it starts a job, with which orders, and the handling of failed jobs."""

import threading
from collections.abc import Callable

import pytest

from exuvia.base.daily_window import is_open
from exuvia.base.errors import Refused
from exuvia.base.types import packed_moment
from exuvia.catalog import meta as catalog
from exuvia.catalog import writer
from exuvia.catalog.system_tables import planned
from exuvia.catalog.sysvar import definition as variables_of
from exuvia.catalog.sysvar import variables
from exuvia.stats.analyze_jobs import FAILED, FINISHED, AnalyzeOrder, Gone, Stopped
from exuvia.stats.auto import Runner, orders
from exuvia.stats.priority import NEVER, AnalysisJob
from support.stats_owners import Place


class Campaign:
    """A campaign whose ownership the test sets."""

    def __init__(self) -> None:
        self.term = 1

    @property
    def is_owner(self) -> bool:
        return self.term > 0

    def deposed(self) -> None:
        self.term = 0


class Analyst:
    """Records its orders; `acts` decides how each one ends."""

    def __init__(self) -> None:
        self.orders: list[AnalyzeOrder] = []
        self.acts: Callable[[AnalyzeOrder, Callable[[], bool]], None] = lambda order, stopped: None

    def analyze(self, order: AnalyzeOrder, stopped: Callable[[], bool]) -> None:
        self.orders.append(order)
        self.acts(order, stopped)


class Office(Place):
    """A place with a runner. Analyses begin when the test calls `work`."""

    def __init__(self) -> None:
        self.campaign = Campaign()
        super().__init__(lambda: self.campaign.term)
        self.analyst = Analyst()
        self.waiting: list[Callable[[], None]] = []
        self.runner = Runner(
            self.store, self.campaign, self.queue, self.analyst, self.waiting.append, self._wall
        )

    def _wall(self) -> float:
        return self.wall

    def tick(self, seconds: float = 0.0) -> None:
        if seconds:
            self.go(seconds)
        self.runner.step(self.clock.monotonic())

    def work(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()

    def analyzed_tables(self) -> list[int]:
        return [order.table_id for order in self.analyst.orders]

    def attempt(self, table_id: int, state: int, ago_s: float, took_s: float = 0.0) -> None:
        """A row of mysql.analyze_jobs."""
        began = int((self.wall - ago_s) * 1e9)
        txn = self.store.begin()
        table = planned(txn, "analyze_jobs")
        row = [None] * len(table.info.cols)
        self.number = getattr(self, "number", 0) + 1
        for name, value in {
            "id": self.number,
            "update_time": packed_moment(began),
            "table_schema": "test",
            "table_name": f"t{table_id}",
            "partition_name": "",
            "job_info": "auto analyze table",
            "processed_rows": 0,
            "start_time": packed_moment(began),
            "end_time": packed_moment(began + int(took_s * 1e9)),
            "state": state,
            "instance": "",
        }.items():
            row[table.position(name)] = value
        writer.insert(txn, table, row)
        txn.commit()


def urgent(*table_ids: int) -> Office:
    office = Office()
    for n, table_id in enumerate(table_ids):
        office.table(table_id)
        office.rows(table_id, 2000 * (n + 1), 2000)
    office.go()
    return office


def test_the_most_urgent_first_up_to_the_concurrency():
    office = urgent(100, 101, 102)
    office.tick()
    assert len(office.waiting) == 1 and office.runner.running == 1
    office.set("tidb_auto_analyze_concurrency", "2")
    office.tick()
    assert len(office.waiting) == 2
    office.work()
    office.tick()
    office.work()
    assert office.analyzed_tables() == [100, 101, 102]  # the smaller ones first
    assert all(order.automatic for order in office.analyst.orders)
    office.set("tidb_auto_analyze_concurrency", "0")
    office.rows(100, 9000, 9000)
    office.tick(10)
    assert office.waiting == [] and office.keys()


def test_settings_of_the_queue_and_of_batches():
    office = urgent(100)
    office.set("tidb_enable_auto_analyze_priority_queue", "OFF")
    office.tick(10)
    assert office.waiting == []
    office.set("tidb_enable_auto_analyze_priority_queue", "ON")
    office.set("tidb_auto_analyze_partition_batch_size", "7")
    office.tick(10)
    assert office.waiting != [] and office.runner.settings().batch == 7


def test_no_analysis_begins_outside_the_window():
    office = urgent(100)
    hour = int(office.wall // 3600 % 24)
    office.set("tidb_auto_analyze_start_time", f"{(hour + 2) % 24:02}:00 +0000")
    office.set("tidb_auto_analyze_end_time", f"{(hour + 3) % 24:02}:00 +0000")
    office.table(101)
    office.rows(101, 5000, 5000)
    office.tick(10)
    assert office.waiting == [] and sorted(office.keys()) == [100, 101]
    zone = f"{(hour + 7) % 24:02}:00 +0800"  # an hour ago in UTC
    office.set("tidb_auto_analyze_start_time", zone)
    office.tick()
    assert len(office.waiting) == 1


def test_the_window_is_between_times_of_the_day():
    variable = variables.find("tidb_auto_analyze_start_time")
    assert variables_of.check(variable, "8:30 +0200").text == "08:30 +0200"
    assert variables_of.check(variable, "08:30").text == "08:30 +0000"
    for bad in ("aa", "24:00", "8:60", "08:30 UTC", ""):
        with pytest.raises(Refused) as refused:
            variables_of.check(variable, bad)
        assert refused.value.code == 1231


@pytest.mark.parametrize(
    ("start", "end", "minute", "is_in"),
    [
        ("00:00 +0000", "23:59 +0000", 0, True),
        ("01:00 +0000", "02:00 +0000", 60, True),
        ("01:00 +0000", "02:00 +0000", 120, True),
        ("01:00 +0000", "02:00 +0000", 121, False),
        ("22:00 +0000", "06:00 +0000", 23 * 60, True),
        ("22:00 +0000", "06:00 +0000", 5 * 60, True),
        ("22:00 +0000", "06:00 +0000", 12 * 60, False),
        ("08:00 +0800", "09:00 +0800", 30, True),
        ("00:00 -0130", "01:00 -0130", 100, True),
    ],
)
def test_windows_over_midnight_and_zones(start, end, minute, is_in):
    assert is_open(start, end, 86_400 * 19_000 + minute * 60) is is_in


def test_failures_are_retried_except_of_a_dropped_table():
    office = urgent(100, 101)
    office.set("tidb_auto_analyze_concurrency", "2")
    office.tick()

    def acts(order, stopped):
        raise Gone if order.table_id == 101 else RuntimeError("no space")

    office.analyst.acts = acts
    office.work()
    office.tick()
    assert list(office.queue.snapshot().must_retry) == [100]
    assert office.queue.snapshot().running == []


def test_a_dropped_table_is_not_analyzed():
    office = urgent(100)
    txn = office.store.begin()
    info = catalog.get_table(txn, 100)
    txn.rollback()
    office.drop(info)
    office.tick()
    assert office.waiting == [] and office.queue.snapshot().running == []
    assert list(office.queue.snapshot().must_retry) == []


def test_a_job_that_just_failed_does_not_run():
    office = urgent(100)
    office.attempt(100, FINISHED, ago_s=5000, took_s=100)
    office.attempt(100, FINISHED, ago_s=4000, took_s=200)
    office.attempt(100, FAILED, ago_s=290)  # less than twice 150 s ago
    office.tick()
    assert office.waiting == []
    office.rows(100, 1, 1)
    office.tick(15)
    assert len(office.waiting) == 1


def test_a_table_never_analyzed_waits_half_an_hour_after_a_failure():
    office = urgent(100)
    office.attempt(100, FAILED, ago_s=1700)
    office.tick()
    assert office.waiting == []
    office.rows(100, 1, 1)
    office.tick(110)
    assert len(office.waiting) == 1


def test_an_overdue_analysis_is_cancelled_and_retried():
    office = urgent(100)
    office.set("tidb_max_auto_analyze_time", "60")
    office.tick()

    def acts(order, stopped):
        if stopped():
            raise Stopped

    office.analyst.acts = acts
    office.tick(61)
    office.work()
    office.tick()
    assert list(office.queue.snapshot().must_retry) == [100]


def test_an_owner_switch_in_the_middle_of_analyzing():
    """Running analyses are cancelled, their ends have no effect, and the next owner queues the
    table."""
    office = urgent(100, 101)
    office.tick()
    stopped: list[bool] = []
    started, go = threading.Event(), threading.Event()

    def acts(order, is_stopped):
        started.set()
        go.wait(10)
        stopped.append(is_stopped())
        raise Stopped

    office.analyst.acts = acts
    thread = threading.Thread(target=office.waiting.pop())
    thread.start()
    assert started.wait(10)
    office.campaign.term = 0
    office.tick(4)
    assert len(office.queue) == 0 and not office.queue.is_ready
    go.set()
    thread.join(10)
    assert stopped == [True]
    office.campaign.term = 2  # it comes back
    office.tick(4)
    assert list(office.queue.snapshot().must_retry) == []
    assert [job.key for job in office.queue.snapshot().running] == [100]
    assert office.keys() == [101] and office.runner.running == 1


def test_batches_of_partitions_and_new_indexes_only():
    def job(**more) -> AnalysisJob:
        fields = {"key": 7, "change": 60.0, **more}
        return AnalysisJob(table_id=7, size=1.0, analyzed_at=NEVER, minus_weight=-1.0, **fields)

    def requests(job: AnalysisJob) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        return [(order.partitions, order.indexes) for order in orders(job, 2)]

    assert requests(job()) == [((), ())]
    assert requests(job(change=0.0, indexes=(3, 4))) == [((), (3, 4))]
    assert requests(job(key=9, partition=9)) == [((9,), ())]
    assert requests(job(partitions=(1, 2, 3))) == [((1, 2), ()), ((3,), ())]
    missing = ((1, (5,)), (2, (5, 6)), (3, (5,)))
    by_index = requests(job(change=0.0, partitions=(1, 2, 3), missing=missing))
    assert by_index == [((1, 2), (5,)), ((3,), (5,)), ((2,), (6,))]
