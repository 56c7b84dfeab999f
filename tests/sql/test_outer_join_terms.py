"""A term of WHERE narrows the reading of a table below an outer join only if it is false of a
missing row. Otherwise rows that the term leaves out would look like missing ones."""

from collections.abc import Iterator

import pytest

from exuvia.sql.session.session import Session
from support.world import World, rows

TERMS = (  # of a table `a` whose row may be missing
    *("a.c IS NULL", "a.c <=> NULL", "NOT a.c IS NOT NULL", "a.c IN ('x') OR a.c IS NULL"),
    *("a.c = 'x'", "a.c <=> 'x'", "a.c IS NOT NULL", "a.e BETWEEN 1 AND 9", "a.id IS NULL"),
    *("IFNULL(a.e, 7) = 7", "IFNULL(a.e, 7) IN (5, 7)", "a.g = 7", "a.p IS NULL", "a.p = 1"),
    *("a._tidb_rowid IS NULL", "a._tidb_rowid = 1", "1 MEMBER OF (a.j)"),
    *("JSON_CONTAINS(a.j, '[1]')", "c IS NULL", "IFNULL(e, 7) = 7"),
)
JOINS = (
    *("a RIGHT JOIN b ON a.id = b.id", "a RIGHT JOIN b ON TRUE", "a RIGHT JOIN b ON a.id > 8"),
    *("b LEFT JOIN a ON a.id = b.id", "(a) RIGHT JOIN b ON a.id = b.id"),
    *("a JOIN b y ON a.id = y.id RIGHT JOIN b ON a.id = b.id", "a NATURAL RIGHT JOIN b"),
    *("b LEFT JOIN (a JOIN b y ON a.id = y.id) ON a.id = b.id", "b x JOIN a RIGHT JOIN b ON TRUE"),
    *("a JOIN b ON a.id = b.id", "b, a", "a RIGHT JOIN b USING (id)"),
)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with World() as world:
        session = world.session()
        session.execute("SET GLOBAL exuvia_compatibility = 'mysql'")
        session = world.session()
        session.execute(
            "CREATE TABLE a (id INT, c VARCHAR(9), e INT, g INT AS (IFNULL(e, 7)) VIRTUAL, p INT,"
            " j JSON, KEY (c), KEY (e), KEY (g), KEY i ((IFNULL(e, 7))), KEY (id),"
            " KEY m ((CAST(j AS UNSIGNED ARRAY)))) PARTITION BY HASH (p) PARTITIONS 3"
        )
        session.execute(
            "INSERT INTO a (id, c, e, p, j) VALUES (1, 'x', NULL, 1, '[1]'),"
            " (2, 'y', 5, 2, '[2]'), (3, 'x', 6, 1, NULL), (4, NULL, 7, NULL, '[1, 2]')"
        )
        session.execute("CREATE TABLE b (id INT PRIMARY KEY, z INT)")
        session.execute("INSERT INTO b VALUES (1, 5), (2, 6), (3, 7), (4, 8), (9, 9)")
        yield session


@pytest.mark.parametrize("term", TERMS)
def test_a_term_keeps_the_rows_that_the_condition_keeps(session: Session, term: str) -> None:
    for join in JOINS:
        query = f"SELECT a._tidb_rowid, b.id FROM {join}"
        # in a derived table the condition reaches no scan
        shown = term.replace("a._tidb_rowid", "r").replace("a.", "")
        expected = rows(
            session,
            "SELECT r, bid FROM (SELECT a._tidb_rowid r, a.id, a.c, a.e, a.g, a.p, a.j, b.id bid"
            f" FROM {join}) d WHERE {shown} ORDER BY r, bid",
        )
        found = rows(session, f"{query} WHERE {term} ORDER BY 1, 2")
        assert found == expected, query


def test_the_rows_of_an_anti_join(session: Session) -> None:
    for join in ("a RIGHT JOIN b ON a.id = b.id", "b LEFT JOIN a ON a.id = b.id"):
        assert rows(session, f"SELECT b.id FROM {join} WHERE a.c IS NULL ORDER BY 1") == [[4], [9]]
        found = rows(session, f"SELECT b.id FROM {join} WHERE IFNULL(a.e, 7) = 7 ORDER BY 1")
        assert found == [[1], [4], [9]]
