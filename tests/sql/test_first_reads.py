"""When a transaction takes its snapshot, and how many of them the clients of a node may hold."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from exuvia.base.errors import Refused
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.packet import SnapshotUse
from exuvia.kv.store import open_store
from exuvia.sql.session.session import Session
from support.world import World, error, rows, run


def test_a_transaction_sees_what_was_committed_before_its_first_read(
    session: Session, another: Session
) -> None:
    run(session, "CREATE TABLE t (a INT PRIMARY KEY)")
    run(session, "BEGIN")
    run(another, "INSERT INTO t VALUES (1)")
    assert rows(session, "SELECT a FROM t") == [[1]]
    run(another, "INSERT INTO t VALUES (2)")
    assert rows(session, "SELECT a FROM t") == [[1]]
    run(session, "COMMIT")
    assert rows(session, "SELECT a FROM t") == [[1], [2]]


def test_with_consistent_snapshot_it_sees_what_stood_when_it_began(
    session: Session, another: Session
) -> None:
    run(session, "CREATE TABLE t (a INT PRIMARY KEY)")
    run(session, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    run(another, "INSERT INTO t VALUES (1)")
    assert rows(session, "SELECT a FROM t") == []


def test_a_first_read_may_be_a_write_or_a_read_of_temporary_tables(
    session: Session, another: Session
) -> None:
    run(session, "CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    run(session, "BEGIN")
    run(another, "INSERT INTO t VALUES (1, 1)")
    run(session, "UPDATE t SET b = 2")
    run(session, "COMMIT")
    assert rows(another, "SELECT * FROM t") == [[1, 2]]
    run(session, "BEGIN")
    run(session, "CREATE TEMPORARY TABLE own (a INT)")
    run(another, "INSERT INTO t VALUES (2, 2)")
    run(session, "INSERT INTO own SELECT a FROM t")
    assert rows(session, "SELECT a FROM own ORDER BY a") == [[1], [2]]
    run(another, "INSERT INTO t VALUES (3, 3)")
    assert rows(session, "SELECT count(*) FROM t") == [[2]]
    run(session, "COMMIT")


APART = (
    "SELECT 1",
    "SELECT get_lock('x', 1)",
    "SELECT count(*) FROM information_schema.tables",
    "SHOW TABLES",
    "SHOW CREATE TABLE kept",
    "DESCRIBE kept",
)
"""Statements that read no stored table."""


@pytest.mark.parametrize("how", ["BEGIN", "BEGIN OPTIMISTIC", "SET autocommit = 0"])
def test_what_reads_no_stored_table_leaves_no_snapshot_in_mysql_mode(
    session: Session, another: Session, how: str
) -> None:
    run(session, "SET exuvia_compatibility = 'mysql'")
    run(session, "CREATE TABLE kept (a INT)")
    for n, statement in enumerate(APART):
        run(session, "COMMIT")
        run(session, how)
        run(session, "SAVEPOINT first")
        run(session, statement)
        assert error(session, f"SELECT * FROM t{n}") == (1146, "42S02")
        run(another, f"CREATE TABLE t{n} (a INT PRIMARY KEY, b INT)")
        run(another, f"INSERT INTO t{n} VALUES (1, 1)")
        assert rows(session, f"SELECT a FROM t{n}") == [[1]], statement
        run(another, f"INSERT INTO t{n} VALUES (2, 2)")
        run(session, statement)
        assert rows(session, f"SELECT a FROM t{n}") == [[1]], statement  # the first read counts
        run(session, f"INSERT INTO t{n} VALUES (3, 3)")
        run(session, "ROLLBACK TO first")
        run(session, f"INSERT INTO t{n} VALUES (4, 4)")
        run(session, "COMMIT")
        assert rows(session, f"SELECT a FROM t{n}") == [[1], [2], [4]], statement


@pytest.mark.parametrize(
    ("mode", "how", "first", "seen"),
    [
        ("tidb", "BEGIN", "SELECT count(*) FROM information_schema.tables", 0),
        ("mysql", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "SHOW TABLES", 0),
        ("mysql", "START TRANSACTION READ ONLY", "SHOW TABLES", 1),
        ("mysql", "START TRANSACTION READ ONLY", "SELECT count(*) FROM t", 0),
        ("mysql", "BEGIN", "SELECT count(*) FROM v JOIN information_schema.engines", 0),
        ("mysql", "BEGIN", "SELECT (SELECT max(a) FROM t)", 0),
        ("mysql", "BEGIN", "SELECT a FROM t WHERE a = 7", 0),
    ],
)
def test_which_first_statement_fixes_the_snapshot(
    session: Session, another: Session, mode: str, how: str, first: str, seen: int
) -> None:
    run(session, "CREATE TABLE t (a INT PRIMARY KEY)")
    run(session, "CREATE VIEW v AS SELECT a FROM t")
    run(session, f"SET exuvia_compatibility = '{mode}'")
    for n in range(2):  # by a kept plan, too
        run(session, how)
        run(session, first)
        run(another, f"INSERT INTO t VALUES ({n})")
        assert rows(session, "SELECT count(*) FROM t") == [[n + seen]]
        run(session, "COMMIT")


def test_a_silent_client_that_only_began_keeps_nothing_and_its_transaction(
    session: Session,
) -> None:
    later = session.services.clock.monotonic() + 1000
    run(session, "BEGIN")
    assert not session.reap(later, 60.0)
    run(session, "CREATE TEMPORARY TABLE own (a INT)")
    rows(session, "SELECT * FROM own")
    assert session.reap(later, 60.0)


@pytest.fixture
def few(tmp_path: Path) -> Iterator[World]:
    """A node whose clients may hold 30 snapshots."""
    store = open_store(f"lmdb://{tmp_path}/store?readers=34&sync=0")  # LMDB makes 40 of them
    with World(store) as world:
        yield world
    store.close()


def test_clients_beyond_their_share_get_1637_and_the_node_goes_on(few: World) -> None:
    store = few.store
    assert isinstance(store, LmdbStore)
    assert store.caretaker.most_for_clients == 30
    run(few.session(), "CREATE TABLE t (a INT PRIMARY KEY)")
    sessions = [few.session() for _ in range(50)]
    for each in sessions:
        run(each, "BEGIN")
    assert not store.caretaker.client_views, "nobody has read"
    for each in sessions[:30]:
        assert rows(each, "SELECT * FROM t") == []
    for each in sessions[30:]:
        with pytest.raises(Refused) as refused:
            each.execute("SELECT * FROM t")
        assert (refused.value.code, refused.value.state) == (1637, "HY000")
        assert "the clients of this node hold the 30 snapshots that they may" in str(refused.value)
        assert each.current is not None, "its transaction can read later"
    other = few.session()
    assert error(other, "START TRANSACTION WITH CONSISTENT SNAPSHOT") == (1637, "HY000")
    assert other.current is None
    store.begin().rollback()
    store.counter("job")
    run(sessions[0], "ROLLBACK")
    assert rows(sessions[40], "SELECT * FROM t") == []
    for each in sessions[1:]:
        run(each, "COMMIT")
    run(other, "ALTER TABLE t ADD COLUMN b INT")
    run(other, "INSERT INTO t VALUES (1, 2)")


def test_a_transaction_that_begins_with_a_write_takes_one_snapshot_for_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is newest is its own then; the next write reads what is newest anew."""
    run(session, "CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    run(session, "INSERT INTO t VALUES (1, 1)")
    store = session.services.store
    taken: list[int] = []
    snapshot = store.snapshot

    def counted(use: SnapshotUse = SnapshotUse.SYSTEM) -> object:
        if use == SnapshotUse.CLIENT:
            taken.append(1)
        return snapshot(use)

    monkeypatch.setattr(store, "snapshot", counted)
    run(session, "BEGIN")
    run(session, "UPDATE t SET b = 2 WHERE a = 1")
    assert len(taken) == 1
    run(session, "UPDATE t SET b = 3 WHERE a = 1")
    assert len(taken) == 2
    run(session, "COMMIT")
    assert rows(session, "SELECT b FROM t") == [[3]]
