"""CREATE TABLEs of several sessions that become one job (tidb_enable_fast_create_table)."""

import threading
from collections.abc import Callable, Iterator

import pytest

from exuvia.base.errors import Refused
from exuvia.sql.session.session import Session
from support.node_processes import until
from support.world import World, rows, run

NAMES = ("t0", "t1", "t2")


@pytest.fixture
def fresh() -> Iterator[World]:
    with World() as made:
        run(made.session(""), "SET GLOBAL tidb_enable_fast_create_table = ON")
        yield made


def together(world: World, meanwhile: Callable[[list[Session]], object]) -> list[int | None]:
    """The codes that sessions end with whose statements wait to be submitted at one moment, and
    `meanwhile` happens."""
    sessions = [world.session() for _ in NAMES]
    ends: dict[int, int | None] = {}

    def create(at: int) -> None:
        try:
            sessions[at].execute(f"CREATE TABLE {NAMES[at]} (a INT)")
            ends[at] = None
        except Refused as error:
            ends[at] = error.code

    submitter = world.services.submitter
    threads = [threading.Thread(target=create, args=(at,)) for at in range(len(NAMES))]
    with submitter.leading:
        for each in threads:
            each.start()
        until(lambda: submitter.queued == len(NAMES))
        meanwhile(sessions)
    for each in threads:
        each.join(30)
    return [ends[at] for at in range(len(NAMES))]


def test_a_name_that_is_taken_fails_its_own_statement_only(fresh: World) -> None:
    with World(fresh.store, owns=False) as other:
        session = other.session()
        ends = together(fresh, lambda _: run(session, "CREATE TABLE t1 (b INT)"))
    assert ends == [None, 1050, None]
    found = rows(fresh.session(), "SHOW TABLES")
    assert found == [["t0"], ["t1"], ["t2"]]


def test_a_kill_ends_its_own_statement_only(fresh: World) -> None:
    ends = together(fresh, lambda sessions: sessions[1].interrupt())
    assert ends == [None, 1317, None]
    assert [["t0"], ["t2"]] == [
        row for row in rows(fresh.session(), "SHOW TABLES") if row != ["t1"]
    ]
