"""ANALYZE submitted on one node and run on another, with failures of the node that runs it."""

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
    """Wait until the only posted request satisfies the condition.

    Each check ends its snapshot, and waits in between so that other threads can run."""
    deadline = monotonic() + PATIENCE_S
    while True:
        counter = store.counter(channel)
        with store.read() as txn:
            request = next(iter(posted(txn, ANALYZE).values()), None)
        if holds(request):
            return
        assert monotonic() < deadline
        store.wait(channel, counter, 0.05)


def test_the_next_owner_runs_pending_requests() -> None:
    with World() as first:
        s = first.session()
        rows(s, "CREATE TABLE t (id INT PRIMARY KEY)")
        rows(s, "INSERT INTO t VALUES (1), (2)")
        store = first.store
    first.stats.campaign.resign()
    with World(store, owns=False) as front:
        txn = store.begin()
        unfinished = Logged(0, 0, "test", "t", "", "analyze table", state=RUNNING)
        (number,) = analyze_jobs.begin(txn, [unfinished])
        txn.commit()
        client = Thread(target=rows, args=(front.session(), "ANALYZE TABLE t"))
        client.start()
        until(store, ANALYZE.name, lambda request: request is not None)
        with World(store):
            client.join(PATIENCE_S)
            assert not client.is_alive()
        counts = rows(front.session(), "SHOW STATS_META WHERE table_name = 't'")
        assert [row[4:6] for row in counts] == [[0, 2]]
        states = {row[0]: row[1] for row in _jobs(front)}
        assert states[number] == FAILED
        assert sorted(states.values()) == [FINISHED, FAILED]


def test_the_error_of_an_analysis_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_interrupted_session_withdraws_its_request() -> None:
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

        client = Thread(target=ask)
        client.start()
        until(store, ANALYZE.name, lambda request: request is not None)
        s.interrupt()
        until(store, ANALYZE.name, lambda request: request is not None and request.stop)
        with World(store):
            client.join(PATIENCE_S)
        assert refused == [1317]
        until(store, ANALYZE.name, lambda request: request is None)


def test_kill_ends_the_wait_for_a_missing_owner() -> None:
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


def test_analyze_without_any_possible_owner_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with World() as first:
        rows(first.session(), "CREATE TABLE t (id INT PRIMARY KEY)")
        store = first.store
    first.stats.campaign.resign()
    monkeypatch.setattr(questions, "UNOWNED_S", 0.2)
    with World(store, owns=False) as front:
        with pytest.raises(Unavailable, match="no node owns stats"):
            rows(front.session(), "ANALYZE TABLE t")
        until(store, ANALYZE.name, lambda request: request is None)
