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
