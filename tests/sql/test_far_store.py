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
from support.world import World, rows

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
            rows(session, f"UPDATE t SET a = a + 1 WHERE id = {n}")
        assert server.ask(told.format("commit_packet"))[0][0] >= committed[0][0] + 100
        assert server.ask(told.format("pg_notify"))[0][0] <= notified[0][0] + 10  # loops' own
        rows(session, "ALTER TABLE t ADD COLUMN b INT")
        assert server.ask(told.format("pg_notify"))[0][0] > notified[0][0]
