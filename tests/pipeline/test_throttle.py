"""The limits of a reorg's speed while clients are active.

batches     bounded by the variable, grow after success, shrink after trouble, short while
            clients commit
share       falls while latency is above the limit, rises again, never below the minimum
rests       the rest of the time
priority    a kernel lowers its priority for clients; its writes do not
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from exuvia.base.clock import SystemClock
from exuvia.base.errors import Deposed
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.sysvar import variables
from exuvia.cluster.member import Member
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import BulkResult, Packet, WriteKind
from exuvia.pipeline import throttle
from exuvia.pipeline.settings import ALONE_S, TimeShare, shares_of
from exuvia.pipeline.task import order_for
from exuvia.pipeline.throttle import (
    EVERY_S,
    LEAST_SAMPLES,
    NICE,
    Aim,
    BatchSize,
    Durations,
    IdleScheduling,
    Latency,
    LatencyReports,
    ShareController,
    TaskPace,
    UnhurriedStore,
    can_step_back,
    decide_share,
    p99_of,
    step_back,
    step_back_process,
)
from support.tables import abc, planned

JOB, EPOCH = 9, 1
AIM = Aim(1.3, 0.0, 0.25)


def test_a_batch_never_exceeds_the_bound() -> None:
    pace = BatchSize(256, near=True)
    for _ in range(20):
        pace.succeeded(pace.rows, 0.001, ALONE_S)
        assert pace.rows == 256


def test_a_changed_bound_applies_to_the_next_batch_in_both_directions() -> None:
    pace = BatchSize(2048, near=True)
    pace.bounded(32)
    assert pace.rows == 32
    pace.bounded(2048)
    assert pace.rows == 2048


def test_one_early_conflict_does_not_slow_a_fill_down_permanently() -> None:
    pace = BatchSize(1024, near=True)
    for _ in range(30):
        pace.refused()
    assert pace.rows == 1
    for _ in range(40):
        pace.succeeded(pace.rows, 0.001, ALONE_S)
    assert pace.rows == 1024


def test_one_early_conflict_does_not_keep_a_chains_batches_small() -> None:
    """A chain whose last batch has the remaining rows."""
    pace, rows = BatchSize(256, near=True), 10_000
    for _ in range(3):
        pace.refused()
    for _ in range(8):
        number = -(-rows // pace.rows)
        pace.chained(rows, number, 0.01, ALONE_S)
    assert pace.rows == 256


def test_a_slow_batch_makes_the_next_one_smaller() -> None:
    pace = BatchSize(10240, near=True)
    pace.succeeded(10240, 1.0, ALONE_S)
    assert pace.rows <= 5120


def test_slow_transactions_leave_a_batch_its_least_rows() -> None:
    pace = BatchSize(5000, near=True, least=250)
    for _ in range(20):
        pace.succeeded(pace.rows, 1.0, 0.004)
    assert pace.rows == 250
    pace.bounded(100)
    assert pace.rows == 100
    pace.refused()
    assert pace.rows == 50


def test_network_latency_makes_no_batch_smaller() -> None:
    pace = BatchSize(10240, 1024, near=False)
    for _ in range(10):
        pace.succeeded(pace.rows, 0.4, 0.004)
    assert pace.rows == 10240
    pace.refused()
    assert pace.rows == 5120


def test_a_batch_stays_within_its_time_limit() -> None:
    pace = BatchSize(10240, near=True)
    for _ in range(20):
        pace.succeeded(pace.rows, pace.rows * 2e-6, 0.004)
    assert pace.rows * 2e-6 < 0.005


# -- what clients wait -----------------------------------------------------------------------------


def test_p99_has_a_precision_of_a_twentieth() -> None:
    durations = Durations()
    for _ in range(985):
        durations.observe(0.001)
    for _ in range(15):
        durations.observe(0.1)
    p99_s, samples = p99_of([durations.take()])
    assert samples == 1000
    assert 0.1 <= p99_s <= 0.1 * 1.06
    assert p99_of([durations.take()])[1] == 0, "what was taken is not counted twice"


def test_the_shortest_and_the_longest_statements_are_counted() -> None:
    durations = Durations()
    for seconds in (0.0, 1e-9, 1e6):
        durations.observe(seconds)
    assert p99_of([durations.take()])[1] == 3


class Beside:
    """A store with a front, the driver of a job, and a clock moved by hand."""

    def __init__(self) -> None:
        self.now, self.store, self.durations = 0.0, MemoryStore(), Durations()
        bootstrap(self.store)
        self.member = Member.join(self.store, SystemClock(), "front")
        self.reports = LatencyReports(self.store, self.member, self.durations)
        self.controller = self.driver(JOB)

    def driver(self, job_id: int) -> ShareController:
        self.store.transact(lambda txn: txn.put(keys.meta("reorg", job_id), keys.number(EPOCH)))
        return ShareController(self.store, order_for(planned(abc()), (), job_id, EPOCH))

    def clients(
        self,
        waited_s: float,
        looks: int,
        *drivers: ShareController,
        reads: bool = False,
        number: int = 500,
    ) -> None:
        """Adds statements of this duration to some half seconds. `number`: statements in each."""
        for _ in range(looks):
            for _ in range(number):
                self.durations.observe(waited_s)
            for each in drivers:
                each.step(self.now, reads)
            self.reports.step(self.now)
            self.now += EVERY_S

    def says(self, job_id: int = JOB) -> TimeShare:
        with self.store.read() as txn:
            return dict(shares_of(txn))[keys.meta("share", job_id)]


def test_a_reorg_without_clients_has_a_share_of_one() -> None:
    beside = Beside()
    for _ in range(5):
        beside.controller.step(beside.now)
        beside.reports.step(beside.now)
        beside.now += EVERY_S
    assert (beside.says().share, beside.says().batch_s, beside.says().reason) == (1.0, 0.25, "")


def test_the_share_falls_to_its_minimum_while_clients_wait_too_long_and_rises_again() -> None:
    beside = Beside()
    beside.clients(0.004, 130)
    beside.clients(0.004, 4, beside.controller)
    assert beside.says().share == 1.0, "they wait no longer than before"
    assert beside.says().batch_s < 0.25, "batches are short beside clients"
    beside.clients(0.02, 30, beside.controller)
    assert beside.says().share == 0.25
    assert "its least (exuvia_ddl_min_share)" in beside.says().reason
    beside.clients(0.004, 40, beside.controller)
    assert beside.says().share == 1.0
    assert "allowed, share 100%" in beside.says().reason


@pytest.mark.parametrize(
    ("name", "value", "share"),
    [("exuvia_ddl_min_share", "0.5", 0.5), ("exuvia_ddl_p99_factor", "90", 1.0)],
)
def test_the_minimum_share_and_the_factor_are_variables(
    name: str, value: str, share: float
) -> None:
    beside = Beside()
    beside.store.transact(lambda txn: variables.set_global(txn, name, value))
    beside.clients(0.004, 130)
    beside.clients(0.02, 30, beside.controller)
    assert beside.says().share == share


def test_a_driver_knows_of_clients_before_it_writes() -> None:
    """The driver wakes the fronts, and looks often until they can have answered: the first writes
    kept the writer for 15 ms."""
    beside = Beside()
    beside.clients(0.004, 120)
    woken = beside.store.counter(LatencyReports.channel)
    beside.controller.step(beside.now)
    assert beside.says().batch_s == ALONE_S
    assert beside.store.counter(LatencyReports.channel) == woken + 1
    beside.reports.step(beside.now)
    looks = []
    for _ in range(20):
        beside.now += 0.05
        beside.controller.step(beside.now)
        looks.append(beside.says().number)
    assert beside.says().batch_s < ALONE_S
    assert looks[:4] == [2, 3, 4, 4]
    assert looks[-1] == 5, "then twice a second"
    assert beside.store.counter(LatencyReports.channel) == woken + 1


def test_latency_from_before_the_job_does_not_lower_its_share() -> None:
    """The share of a job that followed another one was lowered by the latency of the other."""
    beside = Beside()
    beside.clients(0.004, 120)
    beside.clients(0.1, 1)
    beside.clients(0.004, 8, beside.controller)
    assert beside.says().share == 1.0
    another = beside.driver(JOB + 1)
    beside.clients(0.1, 10, beside.controller)
    beside.clients(0.004, 3, another)
    assert beside.says(JOB).share < 1.0 == 2 * beside.says(JOB + 1).share


def test_the_wait_for_schema_versions_does_not_lower_the_share() -> None:
    """The versions precede the fill: their cost is in the half second in which requests began."""
    beside = Beside()
    beside.clients(0.004, 120)
    beside.controller.step(beside.now)
    beside.clients(0.1, 1)
    beside.clients(0.004, 8, beside.controller)
    assert beside.says().share == 1.0


def test_latency_caused_by_writes_does_not_lower_the_share_of_reads() -> None:
    """A comparison took twice as long as needed, because of the earlier fill's latency."""
    beside = Beside()
    beside.clients(0.004, 120)
    beside.clients(0.1, 20, beside.controller)
    assert beside.says().share == 0.25
    beside.clients(0.004, 1, beside.controller, reads=True)
    assert (beside.says().share, beside.says().batch_s) == (1.0, 0.003)
    beside.clients(0.004, 20, beside.controller, reads=True)
    assert beside.says().share == 1.0
    beside.clients(0.1, 1, beside.controller)
    assert beside.says().share == 0.25, "nor is it forgotten meanwhile"
    beside.clients(0.1, 8, beside.controller)
    assert beside.says().share == 0.25


def test_latency_during_reads_lowers_the_share_of_reads() -> None:
    beside = Beside()
    beside.clients(0.004, 120)
    beside.clients(0.004, 8, beside.controller)
    beside.clients(0.1, 20, beside.controller, reads=True)
    assert beside.says().share == 0.25
    beside.clients(0.004, 8, beside.controller)
    assert beside.says().share == 1.0


def test_a_phase_that_starts_reading_has_its_share_at_once() -> None:
    """Latency of the half second in which the phase changed counts for neither phase."""
    beside = Beside()
    beside.clients(0.004, 120)
    beside.clients(0.004, 8, beside.controller)
    beside.controller.step(beside.now - EVERY_S + 0.1, reads=True)
    assert beside.says().reads
    beside.clients(0.1, 1)
    beside.clients(0.004, 8, beside.controller, reads=True)
    assert beside.says().share == 1.0
    beside.clients(0.1, 1, beside.controller)
    beside.clients(0.004, 8, beside.controller)
    assert beside.says().share == 1.0


def test_the_share_also_falls_if_partitions_are_filled_and_compared_in_turn() -> None:
    beside = Beside()
    beside.clients(0.004, 120)
    for _ in range(20):  # less than a second each
        beside.clients(0.1, 1, beside.controller)
        beside.clients(0.1, 2, beside.controller, reads=True)
    assert beside.says().share < 1.0
    for _ in range(20):
        beside.clients(0.1, 2, beside.controller)
        beside.clients(0.1, 1, beside.controller, reads=True)
    beside.clients(0.1, 1, beside.controller)
    assert beside.says().share < 1.0


def test_while_one_job_writes_another_that_reads_is_not_judged() -> None:
    beside = Beside()
    other = beside.driver(JOB + 1)
    beside.clients(0.004, 120)
    for _ in range(20):
        other.step(beside.now, reads=True)
        beside.clients(0.1, 1, beside.controller)
    assert (beside.says().share, beside.says(JOB + 1).share) == (0.125, 0.5)


def test_fronts_and_drivers_of_earlier_releases_understand_each_other() -> None:
    said = msgspec.msgpack.encode((3, 0.5, 0.003, "why"))
    assert msgspec.msgpack.decode(said, type=TimeShare) == TimeShare(3, 0.5, 0.003, "why")
    told = msgspec.msgpack.encode((3, 0.1, 500, 0.05, 900, (b"j",)))
    assert msgspec.msgpack.decode(told, type=Latency) == Latency(3, 0.1, 500, 0.05, 900, (b"j",))


def test_writes_are_short_as_soon_as_clients_are_reported() -> None:
    beside = Beside()
    beside.clients(0.004, 120)
    beside.controller.step(beside.now)
    beside.reports.step(beside.now)
    beside.now += EVERY_S
    beside.controller.step(beside.now)
    assert beside.says() == TimeShare(2, 1.0, 0.003, ""), "nobody was heard since, but before"
    beside.clients(0.02, 30, beside.controller)
    assert (beside.says().share, beside.says().batch_s) == (0.25, 0.003)


def test_clients_that_have_left_before_a_job_do_not_shorten_its_transactions() -> None:
    """The minute before the first job is the baseline of later jobs too."""
    beside = Beside()
    beside.clients(0.004, 120)
    beside.clients(0.004, 1, number=0)
    for job in (JOB, JOB + 1, JOB + 2):  # back to back
        driver = beside.driver(job)
        for _ in range(6):
            beside.clients(0.004, 1, driver, number=1)  # a user who watches it
            assert beside.says(job).batch_s == ALONE_S


def test_clients_that_leave_during_a_job_shorten_its_transactions_for_a_second_at_most() -> None:
    beside = Beside()
    beside.clients(0.004, 20)
    beside.clients(0.004, 4, beside.controller)
    assert beside.says().batch_s < ALONE_S
    beside.clients(0.004, 3, beside.controller, number=0)
    assert beside.says().batch_s == ALONE_S


@pytest.mark.parametrize("pause_s", [0.0, 0.01, 0.3])
def test_slow_clients_are_active_until_they_disconnect(
    pause_s: float,
) -> None:
    """40 transactions a second, which the job reduces to 16. The fronts are woken at any time of
    their looks."""
    beside = Beside()
    beside.clients(0.02, 10, number=20)
    beside.now += pause_s - EVERY_S
    beside.controller.step(beside.now)
    beside.reports.step(beside.now)
    beside.now += 0.05
    beside.controller.step(beside.now)
    assert beside.says().batch_s < ALONE_S
    for _ in range(40):
        beside.clients(0.05, 1, beside.controller, number=8)
        assert beside.says().batch_s < ALONE_S


def test_a_front_of_an_older_version_counts_as_one_with_clients() -> None:
    beside = Beside()
    beside.controller.step(beside.now)
    told = msgspec.msgpack.encode((1, 0.0, 0, 0.0, 0, (keys.meta("share", JOB),)))
    beside.store.transact(lambda txn: txn.put(keys.meta("latency", 77), told))
    beside.now += EVERY_S
    beside.controller.step(beside.now)
    assert beside.says().batch_s < ALONE_S


def test_the_baseline_is_the_minute_before_the_first_job_and_jobs_do_not_change_it() -> None:
    beside = Beside()
    beside.clients(0.004, 130)
    beside.clients(0.1, 400, beside.controller)
    assert beside.says().share == 0.25, "after three minutes what is slow is still slow"


def test_a_target_in_milliseconds_overrides_the_factor() -> None:
    beside = Beside()
    beside.store.transact(lambda txn: variables.set_global(txn, "exuvia_ddl_p99_target_ms", "50"))
    beside.clients(0.03, 30, beside.controller)
    assert beside.says().share == 1.0
    beside.clients(0.08, 30, beside.controller)
    assert beside.says().share == 0.25


def test_few_statements_do_not_lower_the_share() -> None:
    few = Latency(1, 9.0, LEAST_SAMPLES - 1, 0.001, 5000)
    assert decide_share(1.0, [few], AIM, 1) == (1.0, "")


def test_the_front_whose_clients_wait_longest_counts() -> None:
    calm, slow = Latency(1, 0.001, 900, 0.001, 9000), Latency(1, 0.01, 900, 0.005, 9000)
    share, reason = decide_share(1.0, [calm, slow, calm], AIM, 1)
    assert share == pytest.approx(0.65)
    assert reason == "clients' p99 10 ms of 6.5 allowed, share 65%"


def test_concurrent_jobs_divide_the_share_of_one() -> None:
    beside = Beside()
    other = beside.driver(JOB + 1)
    for _ in range(3):
        for each in (beside.controller, other):
            each.step(beside.now)
        beside.now += EVERY_S
    assert [beside.says(job).share for job in (JOB, JOB + 1)] == [0.5, 0.5]
    for _ in range(10):  # the other front, or its driver, has ended
        beside.controller.step(beside.now)
        beside.now += EVERY_S
    assert beside.says().share == 1.0


def test_a_front_that_has_ended_is_ignored() -> None:
    beside = Beside()
    beside.clients(0.004, 130)
    beside.clients(0.1, 30, beside.controller)
    for _ in range(10):
        beside.controller.step(beside.now)
        beside.now += EVERY_S
    assert beside.says().share == 1.0


def test_reports_for_an_earlier_job_are_ignored() -> None:
    """It became the minimum share of the next job's first seconds, whatever the latency."""
    beside = Beside()
    beside.clients(0.004, 130)
    beside.clients(0.1, 30, beside.controller)
    beside.store.transact(lambda txn: txn.delete(keys.meta("share", JOB)))  # the job has ended
    another = beside.driver(JOB + 1)
    another.step(beside.now)
    assert (beside.says(JOB + 1).share, beside.says(JOB + 1).reason) == (1.0, "")
    beside.clients(0.1, 3, another)
    assert beside.says(JOB + 1).share < 1.0


def test_fronts_stop_reporting_when_no_driver_requests_it() -> None:
    beside = Beside()
    beside.clients(0.004, 10, beside.controller)
    beside.clients(0.004, 8)
    before = beside.store.begin().sequence
    beside.clients(0.004, 8)
    assert beside.store.begin().sequence == before


def test_a_deposed_driver_writes_no_share() -> None:
    beside = Beside()
    beside.store.transact(lambda txn: txn.put(keys.meta("reorg", JOB), keys.number(EPOCH + 1)))
    with pytest.raises(Deposed):
        beside.controller.step(beside.now)


# -- rests -----------------------------------------------------------------------------------------


def test_a_task_rests_for_the_rest_of_the_time() -> None:
    now, waited = 0.0, 0.0
    pace = TaskPace(lambda: now, lambda: waited)
    pace.begin()
    now += 0.01
    assert pace.rest_s(1.0) == 0.0
    assert pace.rest_s(0.25) == pytest.approx(0.03)
    now, waited = now + 0.02, waited + 0.02  # clients kept it from the processor
    assert pace.rest_s(0.25) == pytest.approx(0.01)
    now, waited = now + 0.03, waited + 0.03
    assert pace.rest_s(0.25) == 0.0, "it has had less than its share already"


def test_without_schedstat_a_thread_counts_as_never_delayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(throttle, "SCHEDULE", tmp_path / "none")
    assert throttle.kept_waiting_s() == 0.0


# -- steps back for clients ------------------------------------------------------------------------


def nice() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


class Recording(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.nices: list[int] = []

    def bulk(self, *rest, **more) -> BulkResult:  # type: ignore[no-untyped-def]
        self.nices.append(nice())
        return super().bulk(*rest, **more)

    def commit(self, packet: Packet) -> int:
        self.nices.append(nice())
        return super().commit(packet)


def test_a_process_yields_with_all_its_threads() -> None:
    code = "import threading\nthreading.Thread(target=input).start()\nprint(1, flush=True)"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    step_back_process(child.pid)
    threads = list(map(int, os.listdir(f"/proc/{child.pid}/task")))
    assert len(threads) == 2
    assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {max(NICE, nice())}
    child.communicate(b"\n")


def test_writes_keep_their_priority_when_the_kernel_lowers_its_own() -> None:
    store, ordinary, seen = Recording(), nice(), []

    def kernel() -> None:
        unhurried = UnhurriedStore(store)
        step_back()
        seen.append(nice())
        unhurried.bulk([b"a"], b"1")
        txn = unhurried.begin()
        txn.write(WriteKind.PUT, b"b", b"2")
        txn.commit()

    thread = threading.Thread(target=kernel)
    thread.start()
    thread.join()
    assert seen == [max(NICE, ordinary)]
    assert store.nices == [ordinary, ordinary]
    assert store.begin().get(b"b") == b"2"


# -- the idle class --------------------------------------------------------------------------------

MS = 1_000_000


def elsewhere(work: Callable[[], None]) -> None:
    """Runs on a new thread, which has a scheduling class of its own."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_with_active_clients_a_thread_is_in_the_idle_class_unless_it_starves() -> None:
    seen: list[int] = []
    times = iter([(100, 100), (10 * MS, 300 * MS), (200 * MS, 320 * MS), (210 * MS, 330 * MS)])

    def work() -> None:
        scheduling = IdleScheduling(lambda: next(times))
        for there_are_some in (True, True, True, True, False):
            scheduling.update(there_are_some)
            seen.append(os.sched_getscheduler(0))

    elsewhere(work)
    gave_way, took_turns = os.SCHED_IDLE, os.SCHED_OTHER
    if not can_step_back():
        gave_way = took_turns
    assert seen == [gave_way, took_turns, gave_way, gave_way, took_turns]
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_the_next_task_of_a_worker_leaves_the_idle_class_of_the_last_one() -> None:
    seen: list[int] = []

    def work() -> None:
        IdleScheduling().update(True)
        IdleScheduling().update(False)
        seen.append(os.sched_getscheduler(0))

    elsewhere(work)
    assert seen == [os.SCHED_OTHER]


def test_the_system_reports_how_long_a_thread_ran_and_waited() -> None:
    began = throttle.ran_and_waited_ns()
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    ended = throttle.ran_and_waited_ns()
    assert ended[0] > began[0]
    assert ended[1] >= began[1]
