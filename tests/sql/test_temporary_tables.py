"""Temporary tables are one session's: others see nothing of them, nor of what hides behind them."""

from exuvia.sql.session.session import Session
from support.world import World, error, rows, run


def test_only_their_session_sees_them(session: Session, another: Session) -> None:
    run(session, "CREATE TABLE t (id INT PRIMARY KEY)")
    run(session, "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, a INT)")
    run(session, "INSERT INTO t VALUES (1, 1)")
    run(another, "INSERT INTO t VALUES (7)")
    assert rows(another, "SELECT * FROM t") == [[7]]
    run(another, "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, b INT)")
    run(another, "INSERT INTO t VALUES (1, 2)")
    assert rows(session, "SELECT * FROM t WHERE id = 1") == [[1, 1]]
    assert rows(another, "SELECT * FROM t WHERE id = 1") == [[1, 2]]


def test_no_job_and_no_version(world: World, session: Session) -> None:
    before = rows(session, "ADMIN SHOW DDL JOBS 1")
    run(session, "CREATE TEMPORARY TABLE t (id INT)")
    run(session, "INSERT INTO t VALUES (1)")
    run(session, "DROP TABLE t")
    assert rows(session, "ADMIN SHOW DDL JOBS 1") == before
    assert session.services is world.services


def test_they_end_with_their_session(world: World, session: Session) -> None:
    first = world.session(session.database)
    run(first, "CREATE TEMPORARY TABLE t (id INT)")
    first.close()
    assert error(world.session(session.database), "SELECT * FROM t") == (1146, "42S02")


def test_a_plan_is_of_the_table_in_front(session: Session) -> None:
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    run(session, "INSERT INTO t VALUES (1, 1)")
    prepared = session.prepare("SELECT a FROM t WHERE id = ?")
    assert session.execute_prepared(prepared, [1]).rows == [[1]]
    run(session, "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, a INT)")
    run(session, "INSERT INTO t VALUES (1, 2)")
    assert session.execute_prepared(prepared, [1]).rows == [[2]]
    run(session, "DROP TEMPORARY TABLE t")
    assert session.execute_prepared(prepared, [1]).rows == [[1]]


def test_a_commit_that_is_refused_leaves_both_sides(session: Session, another: Session) -> None:
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    run(session, "INSERT INTO t VALUES (1, 1)")
    run(session, "CREATE TEMPORARY TABLE w (a INT)")
    run(session, "BEGIN OPTIMISTIC")
    run(session, "INSERT INTO w VALUES (1)")
    run(session, "UPDATE t SET a = 2")
    run(another, "UPDATE t SET a = 3")
    assert error(session, "COMMIT") == (1213, "40001")
    assert rows(session, "SELECT * FROM w") == []
    assert rows(session, "SELECT a FROM t") == [[3]]
