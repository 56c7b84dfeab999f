"""A parent that is to go is judged when the job begins: a child may have come since the statement.

A: DROP TABLE p    looked, the job is built
B: CREATE TABLE c ... REFERENCES p
A: the job is asked for                         3730, and nothing is gone
"""

import pytest

from exuvia.base.errors import Refused
from exuvia.ddl.job import Job
from exuvia.sql.session import schema_change
from support.world import error, rows, run

CHILD = (
    "CREATE TABLE {}c (id int PRIMARY KEY, p int, CONSTRAINT k FOREIGN KEY (p) REFERENCES {}p (id))"
)
REFUSALS = {
    "DROP TABLE p": (
        3730,
        "Cannot drop table 'p' referenced by a foreign key constraint 'k' on table 'c'.",
    ),
    "TRUNCATE TABLE p": (
        1701,
        "Cannot truncate a table referenced in a foreign key constraint (`two`.`c` CONSTRAINT `k`)",
    ),
    "DROP DATABASE one": (
        3730,
        "Cannot drop table 'p' referenced by a foreign key constraint 'k' on table 'c'.",
    ),
}


@pytest.fixture
def late(session, another, monkeypatch):
    """What the other session does after a statement has looked and before its job is there."""
    then: list[str] = []

    def submit(asking, job: Job, ask=schema_change.submit) -> Job:
        while then:
            run(another, then.pop(0))
        return ask(asking, job)

    monkeypatch.setattr(schema_change, "submit", submit)
    for name in ("one", "two"):
        run(session, f"CREATE DATABASE {name}")
    run(session, "USE one")
    run(another, "USE one")
    run(session, "CREATE TABLE p (id int PRIMARY KEY)")
    run(session, "INSERT INTO p VALUES (1)")
    yield then
    run(session, "SET foreign_key_checks = OFF")
    for name in ("one", "two"):
        run(session, f"DROP DATABASE IF EXISTS {name}")


@pytest.mark.parametrize("text", REFUSALS)
def test_a_child_that_came_in_between_holds_its_parent(session, late, text):
    late.append(CHILD.format("two.", "one."))
    with pytest.raises(Refused) as refused:
        session.execute(text)
    assert (refused.value.code, refused.value.message) == REFUSALS[text]
    assert rows(session, "SELECT * FROM one.p") == [[1]]
    run(session, "INSERT INTO two.c VALUES (1, 1)")
    assert error(session, "INSERT INTO two.c VALUES (2, 2)") == (1452, "23000")


@pytest.mark.parametrize("text", REFUSALS)
def test_without_foreign_key_checks_nobody_asks(session, late, text):
    late.append(CHILD.format("two.", "one."))
    run(session, "SET foreign_key_checks = OFF")
    run(session, text)


def test_what_goes_with_it_holds_nobody(session, late):
    run(session, CHILD.format("", ""))
    run(session, "DROP TABLE p, c")
    run(session, "CREATE TABLE p (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES p (id))")
    run(session, "TRUNCATE TABLE p")
    run(session, CHILD.format("", ""))
    assert error(session, "DROP TABLE p") == (3730, "HY000")
    run(session, "DROP DATABASE one")


def test_a_key_that_went_in_between_holds_nobody(session, late):
    run(session, CHILD.format("", ""))
    late.append("ALTER TABLE c DROP FOREIGN KEY k")
    assert error(session, "DROP TABLE p") == (3730, "HY000"), "the statement looks first"
    run(session, late.pop())
    run(session, "DROP TABLE p")
