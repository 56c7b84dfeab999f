"""ANALYZE asked on one node and done on another, whatever happens to the one that does it."""

from threading import Thread
from time import monotonic

from exuvia.base.errors import Refused
from exuvia.stats import analysis_log, requests
from exuvia.stats.analysis_log import FAILED, FINISHED, RUNNING, Logged
from support.world import World, rows


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
        deadline = monotonic() + 10
        while store.begin().get(requests.key_of(1)) is None:
            assert monotonic() < deadline
        with World(store):
            asked.join(20)
            assert not asked.is_alive()
        found = rows(front.session(), "SHOW STATS_META WHERE table_name = 't'")
        assert [row[4:6] for row in found] == [[0, 2]]
        states = {row[0]: row[1] for row in _jobs(front)}
        assert states[number] == FAILED
        assert sorted(states.values()) == [FINISHED, FAILED]


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
        deadline = monotonic() + 10
        while store.begin().get(requests.key_of(1)) is None:
            assert monotonic() < deadline
        s.interrupt()
        while not (found := requests.get(store.begin(), 1)) or not found.stop:
            assert monotonic() < deadline
        with World(store):
            asked.join(20)
        assert refused == [1317]
        assert store.begin().get(requests.key_of(1)) is None
