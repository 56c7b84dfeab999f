"""Sessions on a store that is far away: each look costs a round trip, so there are few."""

import time
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from exuvia.kv.store import open_store
from exuvia.sql.session.session import Session
from support.postgres import own_server, shared_server
from support.relay import Relay
from support.world import World, error, rows

ONE_WAY_S = 0.025
ROUND_TRIP_S = 2 * ONE_WAY_S


@pytest.fixture(scope="module")
def relay() -> Iterator[Relay]:
    relay = Relay(shared_server().port)
    yield relay
    relay.close()


@pytest.fixture(scope="module")
def session(relay: Relay) -> Iterator[Session]:
    """With t of ten rows, and what is read of them planned before."""
    url = urlsplit(shared_server().new_url())
    near = url._replace(netloc=f"postgres@127.0.0.1:{relay.port}").geturl()
    with closing(open_store(near)) as store, World(store) as world:
        session = world.session("test")
        rows(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY ia (a))")
        rows(session, f"INSERT INTO t VALUES {', '.join(f'({n}, {n})' for n in range(10))}")
        yield session


def trips(relay: Relay, session: Session, *statements: str) -> float:
    """Round trips of the quickest of some runs."""
    for statement in statements:
        rows(session, statement)
        rows(session, statement)
    taken_s = []
    relay.delay_s = ONE_WAY_S
    try:
        for _ in range(4):
            begun = time.monotonic()
            for statement in statements:
                rows(session, statement)
            taken_s.append(time.monotonic() - begun)
    finally:
        relay.delay_s = 0.0
    return min(taken_s) / ROUND_TRIP_S


@pytest.mark.parametrize(
    ("statement", "most"),
    [
        ("SELECT a FROM t WHERE id = 3", 1),
        ("SELECT a FROM t WHERE id BETWEEN 3 AND 5", 1),
        ("SELECT SUM(a) FROM t WHERE id BETWEEN 3 AND 5", 1),
        ("UPDATE t SET a = a + 1 WHERE id = 3", 4),
    ],
)
def test_round_trips_of_a_statement(
    relay: Relay, session: Session, statement: str, most: int
) -> None:
    assert trips(relay, session, statement) < most + 0.7


def test_no_client_s_commit_notifies() -> None:
    """NOTIFY takes a lock over the whole server: only schema changes and jobs are told."""
    with (
        own_server("shared_preload_libraries=pg_stat_statements") as server,
        closing(open_store(server.new_url())) as store,
        World(store) as world,
    ):
        server.ask("CREATE EXTENSION pg_stat_statements")
        session = world.session("test")
        rows(session, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT)")
        told = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%{}%'"
        for n in range(5):
            rows(session, f"INSERT INTO t (a) VALUES ({n})")
        notified, committed = (server.ask(told.format(x)) for x in ("pg_notify", "commit_packet"))
        for n in range(50):
            rows(session, f"INSERT INTO t (a) VALUES ({n})")
            rows(session, f"UPDATE t SET a = a + 1 WHERE id = {n + 1}")
        assert server.ask(told.format("commit_packet"))[0][0] >= committed[0][0] + 100
        assert server.ask(told.format("pg_notify"))[0][0] <= notified[0][0] + 10  # loops' own
        rows(session, "ALTER TABLE t ADD COLUMN b INT")
        assert server.ask(told.format("pg_notify"))[0][0] > notified[0][0]


def test_a_named_lock_that_finds_no_room_is_refused_and_not_given_twice() -> None:
    url = shared_server().new_url("connections=24")  # seven of them for locks
    with closing(open_store(url)) as store, World(store) as world:
        first, second, *others = sessions = [world.session("test") for _ in range(9)]
        get = "SELECT GET_LOCK('lock{}', 0)".format
        assert all(rows(each, get(n)) == [[1]] for n, each in enumerate(sessions[:7]))
        assert error(others[-1], get(8)) == (1206, "HY000")
        rows(first, "SELECT RELEASE_LOCK('lock0')")
        for each in sessions[7:]:  # who is refused keeps nothing
            assert rows(each, get(1)) == [[0]]
        assert rows(others[-1], get(8)) == [[1]]
        assert rows(first, "SELECT IS_USED_LOCK('lock1')") == [[second.connection_id]]
        for each in sessions:
            each.close()
