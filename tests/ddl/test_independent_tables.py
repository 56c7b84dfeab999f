"""A schema change breaks no statement on another table: whoever wrote before it commits after it.

Also beside a change that takes its own table away from its writers; and nobody ever meets 8028.
"""

from itertools import product

import pytest

from support.few import one_in
from support.world import Later, World, error, rows, run

CHANGES = (
    "CREATE DATABASE d2",
    "ALTER DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "DROP DATABASE d",
    "CREATE TABLE n (a int PRIMARY KEY, FOREIGN KEY (a) REFERENCES t (a))",
    "CREATE TABLE n AS SELECT * FROM t",
    "DROP TABLE t",
    "TRUNCATE TABLE t",
    "RENAME TABLE t TO t2",
    "ALTER TABLE t COMMENT 'said'",
    "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "ALTER TABLE t ADD COLUMN d int NOT NULL DEFAULT 7, DROP COLUMN c",
    "ALTER TABLE t MODIFY b varchar(20)",
    "ALTER TABLE t MODIFY b int NOT NULL",
    "CREATE UNIQUE INDEX ub ON t (b)",
    "DROP INDEX ic ON t",
    "ALTER TABLE t ADD CONSTRAINT k CHECK (b > 0)",
    "ALTER TABLE c ADD CONSTRAINT k FOREIGN KEY (b) REFERENCES t (a)",
    "CREATE VIEW v AS SELECT a FROM t",
    "CREATE SEQUENCE s",
    "ALTER TABLE p ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))",
    "ALTER TABLE p TRUNCATE PARTITION p0",
    "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE x",
    "ALTER TABLE p REORGANIZE PARTITION p0 INTO (PARTITION q VALUES LESS THAN (10))",
    "ALTER TABLE p DROP PARTITION q",
    "ALTER TABLE p REMOVE PARTITIONING",
)


@pytest.fixture
def world():
    with World() as found:
        session = found.session()
        run(session, "SET GLOBAL tidb_enable_check_constraint = ON")
        run(session, "CREATE DATABASE d")
        run(session, "CREATE TABLE d.t (a int)")
        run(session, "CREATE TABLE t (a int PRIMARY KEY, b int, c int, KEY ic (c))")
        run(session, "CREATE TABLE c (a int PRIMARY KEY, b int, KEY (b))")
        run(session, "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
        parts = "PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20)"
        run(session, f"CREATE TABLE p (a int PRIMARY KEY) PARTITION BY RANGE (a) ({parts})")
        run(session, "CREATE TABLE x (a int PRIMARY KEY)")
        run(session, "CREATE TABLE mine (a int PRIMARY KEY, b int, UNIQUE KEY (b))")
        run(session, "INSERT INTO mine VALUES (1, 1), (2, 2), (3, 3)")
        yield found


@pytest.mark.parametrize(
    ("mode", "metadata_lock"), one_in(3, product(["PESSIMISTIC", "OPTIMISTIC"], ["ON", "OFF"]))
)
def test_who_writes_one_table_commits_whatever_changes_beside_it(world, mode, metadata_lock):
    """All the changes come between its first write and its commit, and none of them waits."""
    writing, changing = world.session(), world.session()
    run(changing, f"SET GLOBAL tidb_enable_metadata_lock = {metadata_lock}")
    for n, change in enumerate(CHANGES):
        run(writing, f"BEGIN {mode}")
        run(writing, f"INSERT INTO mine VALUES ({n + 10}, {n + 10})")
        run(writing, f"UPDATE mine SET b = -{n + 1} WHERE a = 1")
        assert not isinstance(Later(changing, change).answer(), int), change
        run(writing, f"INSERT INTO mine VALUES ({n + 1010}, {n + 1010})")
        run(writing, "COMMIT")
        rebuilt(changing)
    assert rows(writing, "SELECT COUNT(*) FROM mine WHERE a >= 10") == [[2 * len(CHANGES)]]
    run(changing, "ADMIN CHECK TABLE mine")


def rebuilt(session):
    """t as it was, for the next change."""
    for text in (
        "DROP TABLE IF EXISTS n, t2",
        "DROP TABLE IF EXISTS c",
        "DROP TABLE IF EXISTS t",
        "CREATE TABLE t (a int PRIMARY KEY, b int, c int, KEY ic (c))",
        "CREATE TABLE c (a int PRIMARY KEY, b int, KEY (b))",
        "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)",
    ):
        run(session, text)


def test_who_first_writes_the_changed_table_itself_is_told_8028(world):
    writing, changing = world.session(), world.session()
    run(writing, "BEGIN OPTIMISTIC")
    assert rows(writing, "SELECT COUNT(*) FROM t") == [[2]]
    run(changing, "ALTER TABLE t ADD COLUMN d int")
    assert error(writing, "INSERT INTO t (a) VALUES (9)") == (8028, "HY000")
    run(writing, "INSERT INTO mine VALUES (9, 9)")
    run(writing, "COMMIT")
    assert rows(writing, "SELECT COUNT(*) FROM mine") == [[4]]
