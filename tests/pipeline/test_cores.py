"""Beside clients a reorg computes on half of the processors, alone on all."""

import os
import threading
from collections.abc import Callable

import pytest

from exuvia.pipeline import cores
from exuvia.pipeline.cores import Place


def elsewhere(work: Callable[[], None]) -> None:
    """Run on a thread of its own, whose processors are its own, too."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_half_of_the_processors_is_one_at_least() -> None:
    assert cores.half_of((0, 1, 2, 3)) == (2, 3)
    assert cores.half_of((0, 1, 2)) == (2,)
    assert cores.half_of((5,)) == (5,)
    assert cores.half_of(()) == ()


def test_a_thread_makes_room_for_clients_and_takes_all_when_they_have_gone() -> None:
    mine, seen = cores.allowed(), []

    def work() -> None:
        place = Place(mine)
        for there_are_some in (True, False, True):
            place.beside_clients(there_are_some)
            seen.append(cores.allowed())

    elsewhere(work)
    assert seen == [cores.half_of(mine), mine, cores.half_of(mine)]
    assert cores.allowed() == mine, "other threads stay where they are"


def test_who_was_told_no_processors_stays_where_it_was_put(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[object] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda *asked: moves.append(asked))
    Place().beside_clients(True)
    cores.move_to(())
    assert moves == []


def test_processors_that_are_gone_are_no_error() -> None:
    elsewhere(lambda: cores.move_to((1 << 14,)))
