"""How large a transaction may become: 8004, 8025, 8175 (limits of TiDB), and what is left then."""

from collections.abc import Iterator

import pytest

from exuvia.sql.session.session import Session
from support.world import World, error, rows, run


@pytest.fixture
def session(world: World) -> Iterator[Session]:
    """A session with a table of ten rows `n`, and an empty one `t`."""
    found = world.session("")
    run(found, "CREATE DATABASE sized")
    run(found, "USE sized")
    run(found, "CREATE TABLE n (a INT)")
    run(found, "INSERT INTO n VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)")
    run(found, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b LONGTEXT, KEY (a))")
    yield found
    run(found, "SET GLOBAL exuvia_txn_total_size_limit = DEFAULT")
    run(found, "DROP DATABASE sized")
    found.close()


def filled(size: int) -> str:
    return f"INSERT INTO t (a, b) SELECT x.a, REPEAT('b', {size}) FROM n x, n y"


def test_the_limits_are_tidbs(session: Session) -> None:
    assert rows(session, "SELECT @@exuvia_txn_total_size_limit") == [[100 << 20]]
    assert rows(session, "SELECT @@tidb_txn_entry_size_limit") == [[0]]
    assert error(session, "SET exuvia_txn_total_size_limit = 1 << 30")[0] in (1064, 1229)


@pytest.mark.parametrize("transaction", [False, True])
def test_a_transaction_too_large_is_8004(session: Session, transaction: bool) -> None:
    """The statement is undone, an open transaction goes on with what it had."""
    run(session, f"SET GLOBAL exuvia_txn_total_size_limit = {2 << 20}")
    if transaction:
        run(session, "BEGIN")
        run(session, filled(10_000))
    assert error(session, filled(30_000)) == (8004, "HY000")
    if transaction:
        run(session, filled(5_000))
        assert error(session, filled(10_000)) == (8004, "HY000")
        run(session, "COMMIT")
    expected = 200 if transaction else 0
    assert rows(session, "SELECT COUNT(*) FROM t") == [[expected]]
    run(session, "ADMIN CHECK TABLE t")


def test_many_small_statements_count_too(session: Session) -> None:
    run(session, f"SET GLOBAL exuvia_txn_total_size_limit = {1 << 20}")
    run(session, "BEGIN")
    codes = []
    for _ in range(20):
        try:
            run(session, filled(1_000))
        except Exception as refused:
            codes.append(getattr(refused, "code", refused))
    assert set(codes) == {8004} and 8 < len(codes) < 12
    run(session, "ROLLBACK")


def test_an_entry_too_large_is_8025(session: Session) -> None:
    insert = "INSERT INTO t (b) VALUES (REPEAT('b', {}))"
    assert error(session, insert.format(6 << 20)) == (8025, "HY000")
    run(session, insert.format((6 << 20) - 200))
    run(session, f"SET tidb_txn_entry_size_limit = {8 << 20}")
    run(session, insert.format(7 << 20))
    assert error(session, insert.format(8 << 20)) == (8025, "HY000")
    run(session, "SET tidb_txn_entry_size_limit = 10000")
    assert error(session, insert.format(10_000)) == (8025, "HY000")
    assert rows(session, "SELECT COUNT(*) FROM t") == [[2]]


def test_buffered_writes_count_for_the_memory_quota(session: Session) -> None:
    run(session, "SET tidb_mem_quota_query = 5000000")
    run(session, "BEGIN")
    done = 0
    while True:
        try:
            run(session, filled(2_000))
            done += 1
        except Exception as refused:
            assert getattr(refused, "code", refused) == 8175
            break
    assert 10 < done < 26
    assert rows(session, "SELECT COUNT(*) FROM t") == [[100 * done]]
    run(session, "SET tidb_mem_quota_query = DEFAULT")
    run(session, filled(2_000))
    run(session, "COMMIT")
    assert rows(session, "SELECT COUNT(*) FROM t") == [[100 * done + 100]]
