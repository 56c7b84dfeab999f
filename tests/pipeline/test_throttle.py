"""How a reorg holds back for clients: the size of its batches, its seats, its priority, its cores.

batches     bounded by the variable, grown after success, shrunk after trouble, short while
            clients commit
seats       while clients commit, half of the cores compute for a reorg; other tasks wait
priority    a kernel steps back for clients; what it writes does not
cores       beside clients on half of the processors, alone on all
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from exuvia.base.errors import Deposed
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import BulkResult, Packet, WriteKind
from exuvia.pipeline import throttle
from exuvia.pipeline.task import order_for
from exuvia.pipeline.throttle import (
    NICE,
    Batch,
    BatchSize,
    Courtesy,
    Processors,
    UnhurriedStore,
    can_idle,
    step_back,
)
from support.tables import abc, planned


def test_a_batch_never_holds_more_than_the_bound() -> None:
    pace = BatchSize(256)
    for _ in range(20):
        pace.succeeded(pace.rows, 0.001, busy=False)
        assert pace.rows == 256


def test_a_changed_bound_is_obeyed_by_the_next_batch_in_both_directions() -> None:
    pace = BatchSize(2048)
    pace.bounded(32)
    assert pace.rows == 32
    pace.bounded(2048)
    assert pace.rows == 2048


def test_one_early_conflict_does_not_make_a_fill_crawl_for_ever() -> None:
    pace = BatchSize(1024)
    for _ in range(30):
        pace.refused()
    assert pace.rows == 1
    for _ in range(40):
        pace.succeeded(pace.rows, 0.001, busy=False)
    assert pace.rows == 1024


def test_a_slow_batch_makes_the_next_one_smaller() -> None:
    pace = BatchSize(10240)
    pace.succeeded(10240, 1.0, busy=False)
    assert pace.rows <= 5120


def test_while_clients_commit_batches_are_short_and_rests_longer_than_they_took() -> None:
    pace = BatchSize(10240)
    for _ in range(20):
        batch = pace.succeeded(pace.rows, pace.rows * 2e-6, busy=True)
        assert batch.rest_s > batch.seconds
    assert pace.rows * 2e-6 < 0.005
    assert pace.succeeded(pace.rows, 0.001, busy=False).rest_s == 0.0


# -- seats of tasks --------------------------------------------------------------------------------

JOB, EPOCH = 9, 1


class Hall:
    """A store with clients, two tasks, and a clock moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(throttle, "SEATS", 1)
        self.now, self.store = 0.0, MemoryStore()
        self.put(keys.meta("reorg", JOB), keys.number(EPOCH))
        order = order_for(planned(abc()), (), JOB, EPOCH)
        self.one, self.two = (Courtesy(self.store, order, lambda: self.now) for _ in range(2))

    def put(self, key: bytes, payload: bytes) -> None:
        txn = self.store.begin()
        txn.write(WriteKind.PUT, key, payload)
        txn.commit()

    def clients_commit(self, times: int) -> None:
        for n in range(times):
            self.put(b"zz", keys.number(n))
        self.now += 0.2


def test_only_one_computes_while_clients_commit(monkeypatch):
    hall = Hall(monkeypatch)
    assert hall.one.may_go_on() and hall.two.may_go_on()
    hall.clients_commit(20)
    assert hall.one.may_go_on()
    assert not hall.two.may_go_on()
    hall.one.release()
    assert hall.two.may_go_on()
    hall.clients_commit(0)  # quiet again: nobody needs a seat
    assert hall.one.may_go_on() and hall.two.may_go_on()


def test_a_scan_rests_longer_than_it_took_while_clients_commit(monkeypatch):
    hall = Hall(monkeypatch)
    hall.one.may_go_on()
    hall.now += 0.1
    assert hall.one.rest_s(Batch(1000, 0.1)) == 0.0
    hall.clients_commit(20)
    hall.one.may_go_on()
    hall.now += 0.1
    assert hall.one.rest_s(Batch(1000, 0.1)) == pytest.approx(0.15)
    assert hall.one.rest_s(Batch(1000, 0.1, 0.02)) == 0.02  # a write knows better


def test_who_waits_for_a_seat_sees_that_the_reorg_was_left(monkeypatch):
    hall = Hall(monkeypatch)
    hall.clients_commit(20)
    assert hall.one.may_go_on()
    hall.put(keys.meta("reorg", JOB), keys.number(EPOCH + 1))
    with pytest.raises(Deposed):
        hall.two.may_go_on()


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


def test_writes_keep_their_priority_when_the_kernel_steps_back() -> None:
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


# -- half of the processors ------------------------------------------------------------------------

MS = 1_000_000


def elsewhere(work: Callable[[], None]) -> None:
    """Run on a thread of its own, whose processors are its own, too."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_half_of_the_processors_is_one_at_least() -> None:
    assert throttle.half_of((0, 1, 2, 3)) == (2, 3)
    assert throttle.half_of((0, 1, 2)) == (2,)
    assert throttle.half_of((5,)) == (5,)
    assert throttle.half_of(()) == ()


def test_a_thread_makes_room_for_clients_and_takes_all_when_they_have_gone() -> None:
    mine, seen = throttle.allowed(), []

    def work() -> None:
        place = Processors(mine)
        for there_are_some in (True, False, True):
            place.beside_clients(there_are_some)
            seen.append(throttle.allowed())

    elsewhere(work)
    assert seen == [throttle.half_of(mine), mine, throttle.half_of(mine)]
    assert throttle.allowed() == mine, "other threads stay where they are"


def test_who_was_told_no_processors_stays_where_it_was_put(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[object] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda *asked: moves.append(asked))
    Processors().beside_clients(True)
    throttle.move_to(())
    assert moves == []


def test_processors_that_are_gone_are_no_error() -> None:
    elsewhere(lambda: throttle.move_to((1 << 14,)))


def test_beside_clients_a_thread_gives_way_unless_they_leave_it_next_to_nothing() -> None:
    mine, seen = throttle.allowed(), []
    times = iter([(100, 100), (10 * MS, 300 * MS), (200 * MS, 320 * MS), (210 * MS, 330 * MS)])

    def work() -> None:
        place = Processors(mine, lambda: next(times))
        for there_are_some in (True, True, True, True, False):
            place.beside_clients(there_are_some)
            seen.append(os.sched_getscheduler(0))

    elsewhere(work)
    gave_way, took_turns = os.SCHED_IDLE, os.SCHED_OTHER
    if not can_idle():
        gave_way = took_turns
    assert seen == [gave_way, took_turns, gave_way, gave_way, took_turns]
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_where_the_system_does_not_say_what_a_thread_got_it_never_idles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(throttle, "SCHEDULE", tmp_path / "none")
    mine, seen = throttle.allowed(), []

    def work() -> None:
        Processors(mine).beside_clients(True)
        seen.append(os.sched_getscheduler(0))

    elsewhere(work)
    assert seen == [os.SCHED_OTHER]


def test_the_next_task_of_a_worker_is_not_left_where_clients_had_put_the_last_one() -> None:
    mine, seen = throttle.allowed(), []

    def work() -> None:
        Processors(mine).beside_clients(True)
        Processors(mine).beside_clients(False)
        seen.append((os.sched_getscheduler(0), throttle.allowed()))

    elsewhere(work)
    assert seen == [(os.SCHED_OTHER, mine)]


def test_the_system_says_how_long_a_thread_computed_and_waited() -> None:
    began = throttle.ran_and_waited_ns()
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    ended = throttle.ran_and_waited_ns()
    assert ended[0] > began[0]
    assert ended[1] >= began[1]
