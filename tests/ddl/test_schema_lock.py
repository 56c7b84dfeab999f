"""EXUVIA_SCHEMA_LOCKED: a table refuses every change of its schema until the lock is taken off."""

import pytest

from support.world import World, error, rows, run

LOCK = "ALTER TABLE t EXUVIA_SCHEMA_LOCKED = ON"
UNLOCK = "ALTER TABLE t EXUVIA_SCHEMA_LOCKED = OFF"
CHANGES = (
    "ALTER TABLE t ADD COLUMN c INT",
    "ALTER TABLE t ADD INDEX (a), ADD COLUMN c INT",
    "ALTER TABLE t MODIFY a BIGINT",
    "ALTER TABLE t COMMENT = 'said'",
    "CREATE INDEX i ON t (a)",
    "RENAME TABLE t TO v",
    "TRUNCATE TABLE t",
    "DROP TABLE t",
    "DROP TABLE u, t",
    "ALTER TABLE u ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES t (id)",
    "CREATE TABLE v (a INT, FOREIGN KEY (a) REFERENCES t (id))",
    "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t",
)


@pytest.fixture
def session():
    with World() as world:
        one = world.session()
        run(one, "CREATE DATABASE d")
        run(one, "USE d")
        run(one, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        run(one, "CREATE TABLE u (id INT PRIMARY KEY, a INT)")
        cut = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100))"
        run(one, f"CREATE TABLE p (id INT PRIMARY KEY, a INT) {cut}")
        yield one


def shown(session):
    return rows(session, "SHOW CREATE TABLE t")[0][1]


def test_every_change_of_a_locked_table_is_refused_and_rows_are_written_on(session):
    run(session, LOCK)
    before = shown(session)
    for change in CHANGES:
        code, said = error(session, change)[:2]
        assert code == 8200, (change, said)
        if change == "DROP TABLE u, t":
            run(session, "CREATE TABLE IF NOT EXISTS u (id INT PRIMARY KEY, a INT)")
    assert shown(session) == before and "EXUVIA_SCHEMA_LOCKED=ON" in before
    run(session, "INSERT INTO t VALUES (1, 2)")
    assert rows(session, "SELECT a FROM t") == [[2]]


def test_once_the_lock_is_off_changes_are_taken_again(session):
    run(session, LOCK)
    run(session, LOCK)
    run(session, UNLOCK)
    run(session, "ALTER TABLE t ADD COLUMN c INT")
    assert "LOCKED" not in shown(session)


def test_other_servers_read_the_lock_as_a_comment(session):
    run(session, "ALTER TABLE t /*T! EXUVIA_SCHEMA_LOCKED = ON */")
    assert error(session, "ALTER TABLE t ADD COLUMN c INT")[0] == 8200


def test_a_copy_of_a_locked_table_is_not_locked(session):
    run(session, LOCK)
    run(session, "CREATE TABLE v LIKE t")
    run(session, "ALTER TABLE v ADD COLUMN c INT")


def test_what_the_option_does_not_mean_is_refused(session):
    assert error(session, "ALTER TABLE t EXUVIA_SCHEMA_LOCKED = maybe")[0] == 1231
    assert error(session, f"{LOCK}, ADD COLUMN c INT")[0] == 8200
    assert error(session, "CREATE TABLE v (a INT) EXUVIA_SCHEMA_LOCKED = ON")[0] == 8200
