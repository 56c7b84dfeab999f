"""ANALYZE asked on one node and done on another, whatever happens to the one that does it."""

from collections.abc import Callable
from threading import Thread
from time import monotonic

import pytest

from exuvia.base.errors import Refused
from exuvia.kv.store import Store
from exuvia.stats import analysis_log, analyze_requests
from exuvia.stats.analysis_log import FAILED, FINISHED, RUNNING, Logged
from exuvia.stats.analyze import Analyzer
from exuvia.stats.analyze_requests import Request
from support.world import World, rows

PATIENCE_S = 60.0


def until(store: Store, channel: str, holds: Callable[[Request | None], bool]) -> None:
    """Wait for the first request to be so: a look at a time, each of which gives its snapshot back,
    and sleep in between. Nobody else runs while a test looks in a loop."""
    deadline = monotonic() + PATIENCE_S
    while True:
        seen = store.counter(channel)
        txn = store.begin()
        found = analyze_requests.get(txn, 1)
        txn.rollback()
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
        (number,) = analysis_log.begin(txn, [left])
        txn.commit()
        asked = Thread(target=rows, args=(front.session(), "ANALYZE TABLE t"))
        asked.start()
        until(store, analyze_requests.CHANNEL, lambda request: request is not None)
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
        until(store, analyze_requests.CHANNEL, lambda request: request is not None)
        s.interrupt()
        until(store, analyze_requests.CHANNEL, lambda request: request is not None and request.stop)
        with World(store):
            asked.join(PATIENCE_S)
        assert refused == [1317]
        until(store, analyze_requests.CHANNEL, lambda request: request is None)
