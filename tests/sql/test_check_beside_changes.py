"""ADMIN CHECK TABLE while a schema change removes what it reads: no false 8223."""

from typing import Any

import pytest

from exuvia.sql.admin import maintenance
from exuvia.sql.session.session import Session
from support.world import World, error, run

CHANGES = (
    "ALTER TABLE t DROP INDEX i",
    "ALTER TABLE t DROP INDEX i; ALTER TABLE t ADD UNIQUE i (a)",
    "ALTER TABLE t MODIFY a BIGINT UNSIGNED",
    "ALTER TABLE t MODIFY a VARCHAR(10)",
    "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)",
    "ALTER TABLE t RENAME COLUMN a TO z",
    "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 3",
    "ALTER TABLE t DROP FOREIGN KEY k",
    "TRUNCATE TABLE t",
)
STATEMENTS = ("ADMIN CHECK TABLE t", "ADMIN CHECK TABLE t EXTENDED", "CHECK TABLE t")


def table(session: Session) -> None:
    run(session, "CREATE TABLE p (id INT PRIMARY KEY)")
    run(session, "INSERT INTO p VALUES (1), (2), (3)")
    run(
        session,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, KEY i (a),"
        " CONSTRAINT k FOREIGN KEY (a) REFERENCES p (id))",
    )
    run(session, "INSERT INTO t VALUES (10, 1), (20, 2)")


def change_after_the_definition_is_read(monkeypatch: Any, session: Session, *texts: str) -> None:
    """The statements run when a check has read the definition of its table, once."""
    read, left = maintenance.existing_table, list(texts)

    def read_and_change(*arguments: Any) -> Any:
        found = read(*arguments)
        while left:
            run(session, left.pop(0))
        return found

    monkeypatch.setattr(maintenance, "existing_table", read_and_change)


@pytest.mark.parametrize("fast", ["ON", "OFF"])
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_change_removes_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, change: str, statement: str, fast: str
) -> None:
    if any(word in change for word in ("PARTITION", "PRIMARY", "MODIFY")):
        change = f"ALTER TABLE t DROP FOREIGN KEY k; {change}"
    with World() as world:
        one, other = world.session(), world.session()
        table(one)
        run(one, f"SET tidb_enable_fast_table_check = {fast}")
        run(other, "SET foreign_key_checks = 0")
        after = ("INSERT INTO t VALUES (30, 3)", "DELETE FROM t WHERE id = 10")
        change_after_the_definition_is_read(monkeypatch, other, *change.split("; "), *after)
        assert [row[-1] for row in run(one, statement).rows] in ([], ["OK"])


def test_a_fault_in_the_new_definition_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        one, other = world.session(), world.session()
        table(one)
        run(other, "SET foreign_key_checks = 0")
        orphan = "INSERT INTO t VALUES (40, 4)"
        change_after_the_definition_is_read(
            monkeypatch, other, "ALTER TABLE t DROP INDEX i, ADD INDEX j (a)", orphan
        )
        assert error(one, "ADMIN CHECK TABLE t")[0] == 1452


def test_a_table_that_is_dropped_meanwhile_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        one, other = world.session(), world.session()
        table(one)
        texts = ("ALTER TABLE t DROP INDEX i", "DROP TABLE t")
        run(other, "ALTER TABLE t DROP FOREIGN KEY k")
        change_after_the_definition_is_read(
            monkeypatch, other, texts[0], "INSERT INTO t VALUES (30, 3)", texts[1]
        )
        assert error(one, "ADMIN CHECK INDEX t i")[0] == 1146
