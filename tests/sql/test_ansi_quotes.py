"""ANSI_QUOTES: what is in double quotes is a name, wherever a text comes in."""

import pytest

from support.world import World, error, rows, run


@pytest.fixture(scope="module")
def world():
    with World() as found:
        yield found


@pytest.fixture
def session(world):
    found = world.session()
    run(found, "DROP DATABASE IF EXISTS d")
    run(found, "CREATE DATABASE d")
    run(found, "USE d")
    run(found, "SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')")
    return found


def test_names(session):
    run(session, 'CREATE TABLE "t 1" ("a" INT, "b""c" INT, "d`e" TEXT, CHECK ("a" > 0))')
    run(session, 'INSERT INTO "t 1" ("a", "b""c", "d`e") VALUES (1, 2, \'x"y\')')
    assert rows(session, 'SELECT "a", "b""c", "d`e" FROM "d"."t 1" AS "s" WHERE "s"."a" = 1') == [
        [1, 2, 'x"y']
    ]
    assert error(session, 'SELECT "none"') == (1054, "42S22")
    assert rows(session, "SELECT 'a', '\"a\"'") == [["a", '"a"']]
    run(session, "SET sql_mode = DEFAULT")
    assert rows(session, 'SELECT "a", `b"c` FROM `t 1`') == [["a", 2]]
    assert "CHECK ((`a` > 0))" in rows(session, "SHOW CREATE TABLE `t 1`")[0][1]


def test_comments(session):
    run(session, "CREATE TABLE t (a INT)")
    run(session, 'INSERT INTO t VALUES (3) -- "no\n')
    assert rows(session, 'SELECT /* "none */ /*! "a" */ FROM t # "') == [[3]]


def test_a_statement_that_runs_often_is_not_taken_for_one_with_texts(session):
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9))")
    run(session, "INSERT INTO t VALUES (1, 'b', 'x'), (2, 'y', 'y')")
    for _ in range(3):
        assert rows(session, "SELECT id FROM t WHERE a = 'b'") == [[1]]
        assert session.course('SELECT id FROM t WHERE a = "b"') is not None
        assert rows(session, 'SELECT id FROM t WHERE a = "b"') == [[2]]


def test_prepared_statements(session):
    run(session, "CREATE TABLE t (a INT)")
    run(session, "INSERT INTO t VALUES (7)")
    run(session, 'PREPARE s FROM \'SELECT "a" FROM "t" WHERE "a" > ?\'')
    run(session, "SET @n = 5")
    assert rows(session, "EXECUTE s USING @n") == [[7]]
    assert session.execute_prepared(session.prepare('SELECT "a" FROM t'), ()).rows == [[7]]
    assert rows(session, 'SELECT "a" FROM t WHERE a = ?', [7]) == [[7]]


def created(session, what, column=1):
    return rows(session, f"SHOW CREATE {what}")[0][column]


def test_names_are_shown_in_double_quotes(session):
    run(session, 'CREATE TABLE p (i INT PRIMARY KEY, KEY "k""1" (i))')
    run(
        session,
        'CREATE TABLE t (i INT, "a""b" VARCHAR(9), g INT AS (i + 1), CONSTRAINT f FOREIGN KEY (i)'
        " REFERENCES p (i), CONSTRAINT c CHECK (i > 0), KEY x ((i + 1), i))",
    )
    text = created(session, "TABLE t")
    assert text.startswith('CREATE TABLE "t" (\n  "i" int DEFAULT NULL,\n  "a""b" varchar(9)')
    for part in (
        '"g" int GENERATED ALWAYS AS (`i` + 1) VIRTUAL',
        'KEY "x" ((`i` + 1),"i")',
        'CONSTRAINT "f" FOREIGN KEY ("i") REFERENCES "p" ("i")',
        'CONSTRAINT "c" CHECK ((`i` > 0))',
    ):
        assert part in text
    shown = created(session, "TABLE p")
    assert 'PRIMARY KEY ("i") /*T' in shown
    assert 'KEY "k""1" ("i")' in shown
    assert created(session, "DATABASE d").startswith('CREATE DATABASE "d" ')
    run(session, "CREATE VIEW v AS SELECT i FROM t")
    assert ' VIEW "v" ("i") AS SELECT `' in created(session, "VIEW v")
    assert 'DEFINER="' in created(session, "TABLE v")
    run(session, "CREATE SEQUENCE s")
    assert created(session, "SEQUENCE s").startswith('CREATE SEQUENCE "s" ')
    assert '"TABLE_NAME" varchar' in created(session, "TABLE information_schema.tables")
    run(session, "DROP TABLE t")
    run(session, text)
    assert created(session, "TABLE t").partition("CHECK")[0] == text.partition("CHECK")[0]


def test_partitions_are_shown_in_double_quotes(session):
    run(session, "CREATE TABLE t (a INT) PARTITION BY LIST COLUMNS (a) (PARTITION p VALUES IN (1))")
    assert 'LIST COLUMNS("a")\n(PARTITION "p" VALUES IN (1))' in created(session, "TABLE t")


def test_statements_of_schemas_have_backquotes_all_the_same(session):
    run(session, "CREATE TABLE t (a INT)")
    said = rows(session, "EXPLAIN APPLY 'CREATE TABLE d.t (a INT, b INT)'")
    assert "`b`" in str(said)
