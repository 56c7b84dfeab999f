"""Rows that sessions write are counted: at commit only, exactly, and where they lie.

session --ledger--> commit --> the front's deltas --flush--> mysql.stats_meta
"""

from collections.abc import Iterator

import pytest

from exuvia.sql.session.session import Session
from exuvia.stats import meta
from exuvia.stats.meta import Delta
from support.world import World, rows


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as opened:
        yield opened


def counts(world: World, table: str, partition: str = "") -> tuple[int, int]:
    """(rows, modified) of a table, after a flush."""
    world.deltas.flush()
    txn = world.store.begin()
    info = world.services.schemas.table(txn, "test", table).info
    physical = info.id
    if partition:
        assert info.partition is not None
        (physical,) = (d.id for d in info.partition.definitions if d.name.O == partition)
    row = meta.get(txn, physical)
    txn.rollback()
    return (0, 0) if row is None else (row.rows, row.modified)


def test_each_statement_counts_its_rows(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE a (id INT PRIMARY KEY, v INT)")
    rows(s, "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)")
    assert counts(world, "a") == (3, 3)
    rows(s, "UPDATE a SET v = v + 1 WHERE id > 1")
    assert counts(world, "a") == (3, 5)
    rows(s, "DELETE FROM a WHERE id = 3")
    assert counts(world, "a") == (2, 6)
    rows(s, "REPLACE INTO a VALUES (1, 5)")
    assert counts(world, "a") == (2, 8)
    rows(s, "INSERT IGNORE INTO a VALUES (1, 5), (7, 7)")
    assert counts(world, "a") == (3, 9)
    rows(s, "INSERT INTO a VALUES (1, 6) ON DUPLICATE KEY UPDATE v = 9")
    assert counts(world, "a") == (3, 10)


def test_rolled_back_rows_are_not_counted(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE b (id INT PRIMARY KEY, v INT)")
    for mode in ("PESSIMISTIC", "OPTIMISTIC"):
        rows(s, f"BEGIN {mode}")
        rows(s, "INSERT INTO b VALUES (1, 1)")
        rows(s, "SAVEPOINT x")
        rows(s, "INSERT INTO b VALUES (2, 1), (3, 1)")
        rows(s, "ROLLBACK TO x")
        with pytest.raises(Exception, match="Duplicate"):
            rows(s, "INSERT INTO b VALUES (4, 1), (1, 1)")
        assert counts(world, "b") == (0, 0)
        rows(s, "ROLLBACK")
        assert counts(world, "b") == (0, 0)
    rows(s, "BEGIN")
    rows(s, "INSERT INTO b VALUES (1, 1)")
    rows(s, "SAVEPOINT x")
    rows(s, "DELETE FROM b")
    rows(s, "ROLLBACK TO x")
    rows(s, "COMMIT")
    assert counts(world, "b") == (1, 1)


def test_counts_of_partitions_and_of_the_whole(world: World) -> None:
    s = world.session()
    rows(
        s,
        "CREATE TABLE p (id INT PRIMARY KEY) PARTITION BY RANGE (id)"
        " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
    )
    rows(s, "INSERT INTO p VALUES (1), (2), (11)")
    rows(s, "UPDATE p SET id = 12 WHERE id = 2")
    assert counts(world, "p", "p0") == (1, 3)
    assert counts(world, "p", "p1") == (2, 2)
    assert counts(world, "p") == (2 + 1, 5)


def test_rows_that_follow_their_parent_and_rows_of_a_query(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE parent (id INT PRIMARY KEY)")
    rows(
        s,
        "CREATE TABLE child (id INT PRIMARY KEY, up INT,"
        " FOREIGN KEY (up) REFERENCES parent (id) ON DELETE CASCADE)",
    )
    rows(s, "INSERT INTO parent VALUES (1), (2)")
    rows(s, "INSERT INTO child VALUES (1, 1), (2, 1), (3, 2)")
    rows(s, "DELETE FROM parent WHERE id = 1")
    assert counts(world, "child") == (1, 5)
    rows(s, "CREATE TABLE copied AS SELECT * FROM child")
    assert counts(world, "copied") == (1, 1)


def test_writes_to_a_locked_table_are_counted_in_its_lock(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE still (id INT PRIMARY KEY)")
    rows(s, "INSERT INTO still VALUES (1)")
    assert counts(world, "still") == (1, 1)
    txn = world.store.begin()
    table_id = world.services.schemas.table(txn, "test", "still").info.id
    meta.lock(txn, [table_id])
    txn.commit()
    rows(s, "INSERT INTO still VALUES (2), (3)")
    assert counts(world, "still") == (1, 1)
    txn = world.store.begin()
    waiting = meta.unlock(txn, table_id)
    assert waiting is not None
    meta.add(txn, {table_id: Delta(waiting.rows, waiting.modified)})
    txn.commit()
    assert counts(world, "still") == (3, 3)


def test_counts_are_exact_after_concurrent_sessions(world: World) -> None:
    from threading import Thread

    s = world.session()
    rows(s, "CREATE TABLE many (id INT PRIMARY KEY, v INT)")

    def work(session: Session, start: int) -> None:
        for n in range(start, start + 50):
            rows(session, f"INSERT INTO many VALUES ({n}, 0)")
            rows(session, f"UPDATE many SET v = 1 WHERE id = {n}")
            if n % 2:
                rows(session, f"DELETE FROM many WHERE id = {n}")

    workers = [Thread(target=work, args=(world.session(), 100 * k)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert counts(world, "many") == (100, 4 * (50 + 50 + 25))
    assert rows(s, "SELECT COUNT(*) FROM many") == [[100]]


def test_a_killed_front_loses_at_most_the_counts_since_its_last_flush(world: World) -> None:
    from exuvia.stats.meta import FLUSH_S, Deltas

    s = world.session()
    rows(s, "CREATE TABLE lost (id INT PRIMARY KEY)")
    txn = world.store.begin()
    table_id = world.services.schemas.table(txn, "test", "lost").info.id
    txn.rollback()
    front = Deltas(world.store, world.services.member)
    front.merge({table_id: Delta(5, 5)})
    assert front.step(0.0) <= FLUSH_S <= 3.0
    front.merge({table_id: Delta(2, 2)})
    del front  # killed
    assert counts(world, "lost") == (5, 5)
