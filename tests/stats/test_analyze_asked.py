"""ANALYZE asked on one node and done on another, whatever happens to the one that does it."""

from collections.abc import Callable
from threading import Thread
from time import monotonic

import pytest

from exuvia.base.errors import Refused, Unavailable
from exuvia.cluster import questions
from exuvia.cluster.questions import Posted, posted
from exuvia.kv.store import Store
from exuvia.stats import analyze_jobs
from exuvia.stats.analyze import Analyzer
from exuvia.stats.analyze_jobs import ANALYZE, FAILED, FINISHED, RUNNING, Logged
from support.world import World, rows

PATIENCE_S = 60.0


def until(store: Store, channel: str, holds: Callable[[Posted | None], bool]) -> None:
    """Wait for the only question to be so: a look at a time, each of which gives its snapshot back,
    and sleep in between. Nobody else runs while a test looks in a loop."""
    deadline = monotonic() + PATIENCE_S
    while True:
        seen = store.counter(channel)
        with store.read() as txn:
            found = next(iter(posted(txn, ANALYZE).values()), None)
        if holds(found):
            return
        assert monotonic() < deadline
        store.wait(channel, seen, 0.05)


def test_the_next_owner_takes_up_what_was_asked() -> None:
    with World() as first:
        s = first.session()
        rows(s, "CREATE TABLE t (id INT PRIMARY KEY)")
        rows(s, "INSERT INTO t VALUES (1), (2)")
        store = first.store
    first.stats.campaign.resign()
    with World(store, owns=False) as front:
        txn = store.begin()
        left = Logged(0, 0, "test", "t", "", "analyze table", state=RUNNING)
        (number,) = analyze_jobs.begin(txn, [left])
        txn.commit()
        asked = Thread(target=rows, args=(front.session(), "ANALYZE TABLE t"))
        asked.start()
        until(store, ANALYZE.name, lambda request: request is not None)
        with World(store):
            asked.join(PATIENCE_S)
            assert not asked.is_alive()
        found = rows(front.session(), "SHOW STATS_META WHERE table_name = 't'")
        assert [row[4:6] for row in found] == [[0, 2]]
        states = {row[0]: row[1] for row in _jobs(front)}
        assert states[number] == FAILED
        assert sorted(states.values()) == [FINISHED, FAILED]


def test_a_fault_met_by_one_analysis_is_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        s = world.session()
        rows(s, "CREATE TABLE t (id INT PRIMARY KEY)")
        with monkeypatch.context() as planted:
            planted.setattr(Analyzer, "_one", lambda *_: 1 / 0)
            with pytest.raises(Refused, match="ZeroDivisionError"):
                rows(s, "ANALYZE TABLE t")
        rows(s, "ANALYZE TABLE t")
        assert [state for _, state in _jobs(world)] == [FAILED, FINISHED]


def _jobs(world: World) -> list[list[int]]:
    return rows(world.session(), "SELECT id, state FROM mysql.analyze_jobs ORDER BY id")


def test_an_interrupted_session_takes_its_request_back() -> None:
    with World() as first:
        rows(first.session(), "CREATE TABLE t (id INT PRIMARY KEY)")
        store = first.store
    first.stats.campaign.resign()
    with World(store, owns=False) as front:
        s = front.session()
        refused: list[int] = []

        def ask() -> None:
            try:
                rows(s, "ANALYZE TABLE t")
            except Refused as error:
                refused.append(error.code)

        asked = Thread(target=ask)
        asked.start()
        until(store, ANALYZE.name, lambda request: request is not None)
        s.interrupt()
        until(store, ANALYZE.name, lambda request: request is not None and request.stop)
        with World(store):
            asked.join(PATIENCE_S)
        assert refused == [1317]
        until(store, ANALYZE.name, lambda request: request is None)


def test_a_kill_ends_the_wait_for_an_owner_that_there_is_not() -> None:
    with World() as first:
        rows(first.session(), "CREATE TABLE t (id INT PRIMARY KEY)")
        store = first.store
    first.stats.campaign.resign()
    with World(store, owns=False) as front:
        s = front.session()

        def kill() -> None:
            until(store, ANALYZE.name, lambda request: request is not None)
            s.interrupt()

        killed = Thread(target=kill)
        killed.start()
        with pytest.raises(Refused) as caught:
            rows(s, "ANALYZE TABLE t")
        killed.join()
        assert caught.value.code == 1317
        until(store, ANALYZE.name, lambda request: request is None)


def test_nobody_who_could_do_it_is_said_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as first:
        rows(first.session(), "CREATE TABLE t (id INT PRIMARY KEY)")
        store = first.store
    first.stats.campaign.resign()
    monkeypatch.setattr(questions, "UNOWNED_S", 0.2)
    with World(store, owns=False) as front:
        with pytest.raises(Unavailable, match="no node owns stats"):
            rows(front.session(), "ANALYZE TABLE t")
        until(store, ANALYZE.name, lambda request: request is None)
