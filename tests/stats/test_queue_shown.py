"""The queue in SQL and on the status port, from any node."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from exuvia.base.clock import SystemClock
from exuvia.base.errors import Unavailable
from exuvia.cluster.questions import Asking
from exuvia.kv import keys
from exuvia.server.http import application
from exuvia.server.metrics import Metrics
from exuvia.stats import meta
from exuvia.stats.meta import Delta
from exuvia.stats.priority import Indicators, parts
from exuvia.stats.queue import STATUS, QueueStatus, ask, duration, page
from support.node_processes import until
from support.world import World, rows, run

COLUMNS = (
    "table_schema, table_name, state, change_percent, table_size, age_seconds, change_score,"
    " size_score, age_score, event_score, score"
)
QUEUE = f"SELECT {COLUMNS} FROM information_schema.auto_analyze_queue"


@pytest.fixture(scope="module")
def world():
    with World() as one:
        yield one


def table_id(session, name: str) -> int:
    ids = rows(
        session,
        "SELECT tidb_table_id FROM information_schema.tables"
        f" WHERE table_schema = 'test' AND table_name = '{name}'",
    )
    return ids[0][0]


def test_every_score_with_its_parts_from_any_node(world):
    session = world.session()
    run(session, "SET GLOBAL tidb_auto_analyze_concurrency = 0")
    run(session, "CREATE TABLE t (a INT, b INT, c INT)")
    number = table_id(session, "t")
    txn = world.store.begin()
    meta.add(txn, {number: Delta(5000, 5000)})
    txn.commit()
    run(session, "SET GLOBAL tidb_auto_analyze_ratio = 0.4")  # rebuilt at once
    other = World(world.store, owns=False)
    try:
        lines = until(lambda: rows(other.session(), QUEUE))
        ((schema, name, state, change, size, age, *scores, total),) = lines
        assert (schema, name, state) == ("test", "t", "waiting")
        assert (change, size, age) == (100.0, 15000.0, 1800.0)
        assert scores == pytest.approx(list(parts(Indicators(change, size, age))))
        assert total == pytest.approx(sum(scores))
    finally:
        other.close()
    answer = page(ask(asking(world)))
    (job,) = answer["current_jobs"]
    assert job["table_id"] == number and job["type"] == "analyzeTable"
    assert job["indicators"] == {
        "change_percentage": "100.00%",
        "table_size": "15000.00",
        "last_analysis_duration": "30m0s",
    }
    assert (answer["must_retry_tables"], answer["exuvia_total"]) == ([], 1)
    run(session, "DROP TABLE t")
    until(lambda: rows(session, QUEUE) == [])


def asking(world) -> Asking:
    return Asking(world.store, world.member, SystemClock())


def test_no_requests_remain_nor_keys_of_an_older_program(world):
    ask(asking(world))
    with world.store.read() as txn:
        assert list(txn.scan(keys.span_of(STATUS.prefix()))) == []
        assert list(txn.scan(keys.span_of(keys.meta("queue")))) == []


def test_two_concurrent_requests_are_answered(world):
    with ThreadPoolExecutor(4) as people:
        answers = list(people.map(ask, [asking(world)] * 8))
    assert all(answer.ready for answer in answers)


def test_a_reader_without_an_owner_gets_an_error():
    with World(owns=False) as front:
        began = time.monotonic()
        with pytest.raises(Unavailable, match=r"the owner of stats has not answered in 0\.2 s"):
            ask(asking(front), patience_s=0.2)
        assert 0.1 < time.monotonic() - began < 3
        outcome = run(front.session(), QUEUE)
        assert outcome.rows == []
        assert [note.message for note in outcome.warnings] == [
            "the owner of stats has not answered in 3 s"
        ]
    with pytest.raises(Unavailable, match="not initialized"):
        page(QueueStatus(at_s=0.0))


def test_the_status_port_returns_the_queue_or_503():
    class Status:
        error: Exception | None = None

        def priority_queue(self):
            if self.error is not None:
                raise self.error
            return {"current_jobs": []}

    status = Status()
    app = application(status, Metrics())
    answer = next(route for route in app.routes if route.path == "/stats/priority-queue").endpoint
    assert (answer(None).status_code, answer(None).body) == (200, b'{"current_jobs":[]}')
    status.error = Unavailable("priority queue not initialized")
    assert answer(None).status_code == 503 and b"not initialized" in answer(None).body


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.6, "1m0s"), (1800, "30m0s"), (90061, "25h1m1s")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text
