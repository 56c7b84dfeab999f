"""An expression that is NULL in every row has no type, and may stand wherever one that has may."""

import random
from collections.abc import Iterator

import pytest

from exuvia.base.errors import Refused
from exuvia.sql.session.session import Session
from support.world import World

OF_GROUPS = (
    *("MAX(NULL)", "MIN(NULL)", "SUM(NULL)", "AVG(NULL)", "ANY_VALUE(NULL)", "BIT_OR(NULL)"),
    *("GROUP_CONCAT(NULL)", "(SELECT NULL)"),
)
COLUMNS = ("id", "c", "d", "e", "f", "j", "b", "u", "y")
USES = (
    *("{0} < {1}", "{0} = {1}", "{0} <=> {1}", "{0} IN ({1}, {0})", "{0} BETWEEN {1} AND {0}"),
    *("{1} LIKE {0}", "{0} AND {1}", "{1} IS NULL", "CASE {0} WHEN {1} THEN 1 END", "NOT {1}"),
    *("COALESCE({1}, {0})", "GREATEST({0}, {1})", "NULLIF({0}, {1})", "{0} + {1}", "{0} XOR {1}"),
    *("CONCAT({0}, {1})", "IF({1}, {0}, {1})"),
)
CHOSEN = 150


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with World() as world:
        made = world.session()
        made.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(20), d DOUBLE, e DECIMAL(10, 2), "
            "f DATETIME, j JSON, b BLOB, u BIGINT UNSIGNED, y ENUM('a', 'b'))"
        )
        made.execute("INSERT INTO t VALUES (1, 'a', 1, 1, '2020-01-01', '1', 'x', 1, 'a')")
        yield made


def texts() -> list[str]:
    found = []
    for column in COLUMNS:
        for use in USES:
            for null in OF_GROUPS:
                what = use.format(column, null)
                found.append(f"SELECT {what} FROM t GROUP BY {column}")
                found.append(f"SELECT {column} FROM t GROUP BY {column}, 'A' HAVING {what}")
            found.append(f"SELECT {use.format(column, 'MAX(NULL) OVER ()')} FROM t")
            what = use.format(column, "x.z")
            found.append(f"SELECT {what} FROM t, (SELECT NULL z UNION SELECT NULL) x")
            found.append(f"SELECT 1 FROM t JOIN (SELECT NULL z) x ON {what}")
    return found


def all_refused(session: Session, statements: list[str]) -> dict[str, str]:
    refused = {}
    for text in statements:
        try:
            session.execute(text)
        except Refused as error:
            refused[text] = error.message
    return refused


def test_some_uses(session: Session) -> None:
    assert all_refused(session, random.Random(1).sample(texts(), CHOSEN)) == {}


@pytest.mark.long
def test_all_uses(session: Session) -> None:
    found = texts()
    assert len(found) > 2500
    assert all_refused(session, found) == {}


def test_what_is_compared_with_it_is_null(session: Session) -> None:
    session.execute("INSERT INTO t (id, c) VALUES (2, 'b'), (3, NULL)")
    having = "SELECT c FROM t GROUP BY c HAVING {} ORDER BY c"
    assert session.execute(having.format("c < MAX(NULL)")).rows == []
    assert session.execute(having.format("NOT (c < MAX(NULL))")).rows == []
    assert session.execute(having.format("(c < MAX(NULL)) IS NULL")).rows == [[None], ["a"], ["b"]]
    assert session.execute(having.format("c <=> MAX(NULL)")).rows == [[None]]
    session.execute("DELETE FROM t WHERE id > 1")
