"""Beside clients a reorg computes on half of the processors, alone on all."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from exuvia.pipeline import throttle
from exuvia.pipeline.throttle import Processors, can_idle

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
