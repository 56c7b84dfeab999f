"""TRUNCATE TABLE beside open transactions: who wrote is waited for, nobody's rows survive it.

It asks for ids of the partitions there are; others may come or go before it runs.
"""

import threading
from collections.abc import Iterator

import pytest

from exuvia.base.errors import ExuviaError, Refused
from exuvia.catalog.infoschema import Schemas
from exuvia.ddl import queue, requests
from exuvia.ddl.job import Job
from exuvia.sql.session.session import Session
from support.world import World, error, rows, run


@pytest.fixture
def session(world: World):
    made = world.session("")
    run(made, "CREATE DATABASE tt")
    run(made, "USE tt")
    run(made, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    run(made, "CREATE TABLE log (a INT)")
    yield made
    run(made, "DROP DATABASE tt")
    made.close()


def truncating(world: World):
    """A truncation under way in another session."""
    other, done = world.session("tt"), threading.Event()

    def truncate() -> None:
        run(other, "TRUNCATE TABLE t")
        done.set()

    threading.Thread(target=truncate).start()
    return done


def waits_for_writers(world: World) -> bool:
    txn = world.store.begin()
    try:
        return any("(revision" in job.exuvia_wait for job in queue.unfinished(txn))
    finally:
        txn.rollback()


def test_an_open_writer_commits_and_is_truncated_with_the_others(world, session) -> None:
    run(session, "BEGIN")
    run(session, "INSERT INTO t VALUES (1, 1)")
    run(session, "INSERT INTO log VALUES (1)")
    done = truncating(world)
    assert not done.wait(0.5)
    while not waits_for_writers(world):
        assert not done.wait(0.05)
    run(session, "COMMIT")
    assert done.wait(10)
    assert rows(session, "SELECT * FROM t") == []
    assert rows(session, "SELECT * FROM log") == [[1]]


def begun(world: World, mode: str, insert: str):
    """A transaction of another session that writes t first while it is truncated."""
    mine, done = world.session("tt"), threading.Event()
    failed: list[ExuviaError] = []

    def write() -> None:
        try:
            run(mine, f"BEGIN {mode}")
            run(mine, insert)
            run(mine, "COMMIT")
        except Refused as error:
            failed.append(error)
        done.set()

    threading.Thread(target=write).start()
    return done, failed


@pytest.mark.parametrize("mode", ["PESSIMISTIC", "OPTIMISTIC"])
def test_who_writes_first_in_between_waits_for_the_end(world, session, mode) -> None:
    """Before, it wrote the table that was about to go, and met 8028 at COMMIT."""
    run(session, "BEGIN")
    run(session, "INSERT INTO t VALUES (1, 1)")
    truncated = truncating(world)
    while not waits_for_writers(world):
        assert not truncated.wait(0.05)
    alone = world.session("tt")
    run(alone, "INSERT INTO t VALUES (2, 2)")  # alone: before the truncation, or again behind it
    written, failed = begun(world, mode, "INSERT INTO t VALUES (3, 3)")
    assert not written.wait(0.3)
    reader = world.session("tt")
    run(reader, "BEGIN")
    assert rows(reader, "SELECT * FROM log") == []
    assert error(reader, "INSERT INTO t VALUES (4, 4)") == (8028, "HY000")
    run(reader, "INSERT INTO log VALUES (4)")
    run(reader, "COMMIT")
    run(session, "COMMIT")
    assert truncated.wait(10) and written.wait(10)
    assert failed == []
    assert rows(session, "SELECT * FROM t") == [[3, 3]]
    assert rows(session, "SELECT * FROM log") == [[4]]


def test_it_waits_as_long_as_for_a_row(world, session) -> None:
    run(session, "BEGIN")
    run(session, "INSERT INTO t VALUES (1, 1)")
    truncated = truncating(world)
    while not waits_for_writers(world):
        assert not truncated.wait(0.05)
    other = world.session("tt")
    run(other, "SET innodb_lock_wait_timeout = 1")
    run(other, "BEGIN")
    assert error(other, "INSERT INTO t VALUES (3, 3)") == (1205, "HY000")
    run(session, "COMMIT")
    assert truncated.wait(10)
    run(other, "ROLLBACK")


def test_an_open_reader_keeps_its_snapshot_and_hinders_nobody(world, session) -> None:
    run(session, "INSERT INTO t VALUES (1, 1)")
    run(session, "BEGIN")
    assert rows(session, "SELECT * FROM t") == [[1, 1]]
    assert truncating(world).wait(10)
    assert rows(session, "SELECT * FROM t") == [[1, 1]]
    run(session, "COMMIT")
    assert rows(session, "SELECT * FROM t") == []


def test_no_row_of_a_busy_table_is_lost_and_said_to_be_there(world, session) -> None:
    """What a session committed and was not truncated is what the table holds."""
    ends = threading.Event()
    failed: list[ExuviaError] = []

    def write(first: int) -> None:
        mine, n = world.session("tt"), first
        while not ends.is_set():
            n += 2
            try:
                run(mine, f"INSERT INTO t VALUES ({n}, 0)")
            except Refused as error:
                failed.append(error)

    writers = [threading.Thread(target=write, args=(n,)) for n in (0, 1)]
    for each in writers:
        each.start()
    for _ in range(5):
        run(session, "TRUNCATE TABLE t")
        assert len(rows(session, "SHOW TABLES")) == 2
    ends.set()
    for each in writers:
        each.join(10)
    assert failed == []
    ids = [row[0] for row in rows(session, "SELECT id FROM t ORDER BY id")]
    for parity in (0, 1):
        own = [each for each in ids if each % 2 == parity]
        assert own == list(range(own[0], own[-1] + 1, 2)) if own else True


# -- beside changes of its partitions --------------------------------------------------------------

TWO = "PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20)"


@pytest.fixture
def world() -> Iterator[World]:
    with World() as made:
        yield made


def truncated_behind(world: World, session: Session, change: str) -> Job:
    """TRUNCATE as it was asked for before the change, and done behind it."""
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) ({TWO})")
    run(session, "INSERT INTO t VALUES (1), (11)")
    txn = world.store.begin()
    table = Schemas(world.store).table(txn, "test", "t")
    txn.rollback()
    asked = requests.truncate_table(table.database, table.info)
    run(session, change)
    return world.services.submitter.submit(asked, 20)


def test_a_partition_that_came_is_said_and_nothing_is_emptied(world: World) -> None:
    session = world.session()
    ended = truncated_behind(
        world, session, "ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))"
    )
    error = ended.error()
    assert error is not None and error.code == 8028
    assert rows(session, "SELECT id FROM t") == [[1], [11]]
    run(session, "TRUNCATE TABLE t")
    assert rows(session, "SELECT id FROM t") == []


def test_a_partition_that_went_leaves_its_id_over(world: World) -> None:
    session = world.session()
    ended = truncated_behind(world, session, "ALTER TABLE t DROP PARTITION p0")
    assert ended.error() is None
    assert rows(session, "SELECT id FROM t") == []
    run(session, "INSERT INTO t VALUES (11)")
    run(session, "ADMIN CHECK TABLE t")
