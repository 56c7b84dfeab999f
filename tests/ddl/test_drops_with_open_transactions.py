"""What is being dropped is found by no client. Whoever has written it may finish and is waited for.

It goes on to read and write it under the name it had, as it does with a table that others rename.
"""

import pytest

from support.world import Later, World, error, rows, run

JOB = "SELECT schema_state, state FROM information_schema.ddl_jobs WHERE job_type LIKE 'drop %'"


@pytest.fixture
def world():
    with World() as found:
        session = found.session()
        run(session, "CREATE DATABASE d")
        run(session, "CREATE TABLE d.t (a int PRIMARY KEY)")
        run(session, "CREATE TABLE d.u (a int)")
        run(session, "INSERT INTO d.t VALUES (1)")
        yield found


@pytest.fixture(params=["PESSIMISTIC", "OPTIMISTIC"])
def holding(world, request):
    """A transaction that has written d.t."""
    session = world.session("d")
    run(session, f"BEGIN {request.param}")
    run(session, "INSERT INTO t VALUES (2)")
    return session


def finish(holding):
    """It writes on in every way, reads what it wrote, and commits."""
    run(holding, "INSERT INTO t VALUES (4), (5)")
    run(holding, "INSERT INTO t SELECT a + 2 FROM t WHERE a = 4")
    run(holding, "UPDATE t SET a = 7 WHERE a = 1")
    run(holding, "DELETE FROM t WHERE a IN (5, 7)")
    assert rows(holding, "SELECT a FROM t WHERE a > 1 ORDER BY a FOR UPDATE") == [[2], [4], [6]]
    assert rows(holding, "SELECT a FROM t ORDER BY a") == [[2], [4], [6]]
    run(holding, "COMMIT")


def until_hidden(world, name, code):
    """Once the first step is known here."""
    looking = world.session()
    seen = world.store.counter("version")
    for _ in range(200):
        if error_of(looking, f"SELECT * FROM {name}") == code:
            return looking
        world.store.wait("version", seen, 0.02)
    raise AssertionError("it is still found")


def error_of(session, text):
    answer = Later(session, text).answer()
    return answer if isinstance(answer, int) else 0


def test_a_database_goes_when_its_last_writer_has_ended(world, holding):
    dropping = Later(world.session(), "DROP DATABASE d")
    assert dropping.waits()
    looking = until_hidden(world, "d.t", 1146)
    for text, code in (
        ("USE d", 1049),
        ("INSERT INTO d.t VALUES (3)", 1146),
        ("CREATE TABLE d.n (a int)", 1049),
        ("DROP DATABASE d", 1008),
        ("CREATE DATABASE d", 1007),
    ):
        assert error(looking, text)[0] == code, text
    assert ["d"] not in rows(looking, "SHOW DATABASES")
    assert rows(looking, JOB) == [["write only", "running"]]
    finish(holding)
    assert dropping.rows() == []
    assert rows(looking, JOB) == [["none", "synced"]]
    run(looking, "CREATE DATABASE d")
    assert rows(looking, "SHOW TABLES FROM d") == []


def test_a_table_goes_when_its_last_writer_has_ended(world, holding):
    dropping = Later(world.session(), "DROP TABLE d.t")
    assert dropping.waits()
    looking = until_hidden(world, "d.t", 1146)
    for text, code in (
        ("INSERT INTO d.t VALUES (3)", 1146),
        ("ALTER TABLE d.t ADD COLUMN b int", 1146),
        ("DROP TABLE d.t", 1051),
    ):
        assert error(looking, text)[0] == code, text
    assert rows(looking, "SHOW TABLES FROM d") == [["u"]]
    assert rows(looking, JOB) == [["write only", "running"]]
    finish(holding)
    assert dropping.rows() == []
    run(looking, "CREATE TABLE d.t (b int)")


def test_a_table_that_was_renamed_is_written_on_under_its_old_name(world, holding):
    renaming = Later(world.session(), "RENAME TABLE d.t TO d.old, d.u TO d.t")
    looking = world.session()
    until_hidden(world, "d.u", 1146)
    finish(holding)
    assert renaming.rows() == []
    assert rows(looking, "SELECT a FROM d.old ORDER BY a") == [[2], [4], [6]]
    assert rows(looking, "SELECT a FROM d.t") == []
    assert error(looking, "SELECT * FROM d.u")[0] == 1146


def test_who_has_not_written_it_yet_does_not_begin_to(world):
    late = world.session("d")
    run(late, "BEGIN")
    run(late, "INSERT INTO u VALUES (1)")
    holding = world.session("d")
    run(holding, "BEGIN")
    run(holding, "INSERT INTO t VALUES (2)")
    dropping = Later(world.session(), "DROP TABLE d.t")
    until_hidden(world, "d.t", 1146)
    assert error(late, "INSERT INTO t VALUES (3)")[0] == 1146
    run(late, "COMMIT")
    run(holding, "ROLLBACK")
    assert dropping.rows() == []


def test_a_temporary_table_of_that_name_comes_first(world, holding):
    run(holding, "CREATE TEMPORARY TABLE t (a int)")
    run(holding, "INSERT INTO t VALUES (7)")
    assert rows(holding, "SELECT a FROM t") == [[7]]
    run(holding, "COMMIT")
    assert rows(world.session(), "SELECT a FROM d.t ORDER BY a") == [[1], [2]]
