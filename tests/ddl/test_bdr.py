"""Schema changes by the cluster's role in bidirectional replication."""

from collections.abc import Iterator

import pytest

from exuvia.sql.session.session import Session
from support.world import World, error, rows, run

ALLOWED = """
CREATE DATABASE other
CREATE TABLE u (a INT)
CREATE VIEW v AS SELECT 1
DROP VIEW v
ALTER TABLE t ADD COLUMN c1 INT
ALTER TABLE t ADD COLUMN c2 INT NOT NULL DEFAULT 3 COMMENT 'x'
ALTER TABLE t ADD INDEX i (a)
ALTER TABLE t RENAME INDEX i TO j
ALTER TABLE t ALTER INDEX j INVISIBLE
ALTER TABLE t DROP INDEX j
ALTER TABLE t ALTER COLUMN a SET DEFAULT 7
ALTER TABLE t MODIFY COLUMN a INT DEFAULT 8
ALTER TABLE t COMMENT = 'said'
ALTER TABLE p ADD PARTITION (PARTITION p2 VALUES LESS THAN (20))
"""
REFUSED = """
DROP DATABASE test
DROP TABLE t
TRUNCATE TABLE t
RENAME TABLE t TO u
ALTER TABLE t DROP COLUMN a
ALTER TABLE t ADD COLUMN c3 INT NOT NULL
ALTER TABLE t ADD UNIQUE INDEX (a)
ALTER TABLE t MODIFY COLUMN a BIGINT DEFAULT 8
ALTER TABLE t MODIFY COLUMN a INT
ALTER TABLE t ADD COLUMN c4 INT, DROP COLUMN a
ALTER TABLE t AUTO_INCREMENT = 100
ALTER TABLE t ADD CHECK (a > 0)
ALTER TABLE p DROP PARTITION p0
CREATE SEQUENCE s
"""


@pytest.fixture
def session() -> Iterator[Session]:
    with World() as world:
        found = world.session()
        run(found, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT)")
        parts = "PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (10)"
        run(found, f"CREATE TABLE p (id INT PRIMARY KEY) PARTITION BY RANGE (id) ({parts})")
        yield found


def role(session: Session) -> str:
    ((found,),) = rows(session, "ADMIN SHOW BDR ROLE")
    return str(found)


def test_a_primary_takes_what_can_be_replicated(session: Session) -> None:
    assert role(session) == ""
    run(session, "ADMIN SET BDR ROLE PRIMARY")
    assert role(session) == "primary"
    for statement in REFUSED.strip().splitlines():
        assert error(session, statement) == (8263, "HY000"), statement
    for statement in ALLOWED.strip().splitlines():
        run(session, statement)


def test_a_secondary_takes_none_until_it_has_no_role(session: Session) -> None:
    run(session, "ADMIN SET BDR ROLE SECONDARY")
    for statement in (*ALLOWED.strip().splitlines()[:3], "DROP TABLE t"):
        assert error(session, statement) == (8263, "HY000"), statement
    run(session, "INSERT INTO t (a) VALUES (1)")
    run(session, "ADMIN UNSET BDR ROLE")
    assert role(session) == ""
    run(session, "DROP TABLE t")


def test_what_is_no_role(session: Session) -> None:
    for text in ("ADMIN SET BDR ROLE", "ADMIN SET BDR ROLE local_only", "ADMIN UNSET BDR"):
        assert error(session, text)[0] == 1064
