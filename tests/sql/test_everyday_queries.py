"""Subqueries, groups, and collations of values have MySQL's answer, in tidb and mysql mode."""

from collections.abc import Iterator

import pytest

from exuvia.sql.session.session import Session
from support.answers import answer
from support.world import World

VALUES = {
    # a query of one expression is that expression: a quotient keeps its digits
    "SELECT (SELECT 1/3) * 3, (SELECT (SELECT 1/3)) * 3": ["1.0000", "1.0000"],
    "SELECT (SELECT n/3) * 3 FROM q WHERE id = 1": ["1.0000"],
    "SELECT (SELECT 1 WHERE 0), (SELECT 'a' AS x), (SELECT NULL)": [None, "a", None],
    "SELECT GROUP_CONCAT(id ORDER BY id) FROM q WHERE id > (SELECT n + 1)": ["3,4"],
    "SELECT SUM((SELECT n)) FROM q": ["5"],
    # a query in parentheses, and a UNION of such, after EXISTS, ANY and ALL
    "SELECT EXISTS ((SELECT 1 FROM q WHERE id > 9)), EXISTS ((SELECT 1) UNION (SELECT 2))": [
        *("0", "1"),
    ],
    "SELECT NOT EXISTS (((SELECT 1 WHERE 0) UNION SELECT 1 WHERE 0)), EXISTS (VALUES ROW(1))": [
        *("1", "1"),
    ],
    "SELECT 4 > ALL ((SELECT n FROM q) UNION SELECT 3), 9 = ANY ((SELECT id FROM q))": ["1", "0"],
    "SELECT EXISTS (TABLE q), 1 = SOME ((SELECT n FROM q) INTERSECT (SELECT 1))": ["1", "1"],
    # RAND() and UUID() make a subquery another one for each row, but not a table of FROM
    "SELECT COUNT(DISTINCT r) FROM (SELECT (SELECT RAND()) r FROM q) z": ["4"],
    "SELECT COUNT(DISTINCT r) FROM (SELECT (SELECT UUID()) r FROM q) z": ["4"],
    "SELECT COUNT(DISTINCT r) FROM (SELECT (SELECT RAND() FROM q LIMIT 1) r FROM q) z": ["4"],
    "SELECT COUNT(DISTINCT r) FROM (SELECT (SELECT MAX(RAND()) FROM q) r FROM q) z": ["4"],
    "SELECT COUNT(DISTINCT r) FROM (SELECT (SELECT RAND() UNION SELECT 2 LIMIT 1) r FROM q) z": [
        "4"
    ],
    "SELECT COUNT(DISTINCT r) FROM (SELECT x.r FROM q JOIN (SELECT RAND() r) x) z": ["1"],
    # an ENUM and a SET have the collation of their column, also as arguments
    "SELECT COLLATION(e), CHARSET(e), COLLATION(s), COLLATION(b) FROM k": [
        *("utf8mb4_general_ci", "utf8mb4", "latin1_bin", "binary"),
    ],
    "SELECT COLLATION(j), CHARSET(j), COLLATION(1), COLLATION(NOW()) FROM k": [
        *("utf8mb4_bin", "utf8mb4", "binary", "binary"),
    ],
    "SELECT COLLATION(CONCAT(e)), COLLATION(MAX(e)), COLLATION(GROUP_CONCAT(e)) FROM k": [
        "utf8mb4_general_ci"
    ]
    * 3,
    "SELECT CONCAT(e) = 'A', CONCAT(e, 'x') = 'AX', LEFT(e, 1) = 'A', COALESCE(e) = 'A' FROM k": [
        "1"
    ]
    * 4,
    "SELECT MAX(e) = 'A', GROUP_CONCAT(e) = 'A', GROUP_CONCAT(b) = 'A', MIN(s) = 'X' FROM k": [
        *("1", "1", "0", "0"),
    ],
    # the value of a subquery and of a window is compared like the column that it comes from
    "SELECT (SELECT c FROM k) = 'A', (SELECT MAX(c) FROM k) = 'A', (SELECT e FROM k) = 'A'": [
        *("1", "1", "1"),
    ],
    "SELECT (SELECT c, 1 FROM k) = ('A', 1), (SELECT 'a' FROM k) = 'A'": ["1", "0"],
    "SELECT COERCIBILITY((SELECT c FROM k)), COERCIBILITY((SELECT 'a' FROM k))": ["2", "4"],
    "SELECT FIRST_VALUE(c) OVER () = 'A', MAX(c) OVER () = 'A', LAG(e, 0) OVER () = 'A' FROM k": [
        *("1", "1", "1"),
    ],
    "SELECT LEAD(c, 1, 'a') OVER () = 'A', COERCIBILITY(RANK() OVER (ORDER BY c)) FROM k": [
        *("1", "5"),
    ],
}


@pytest.fixture(scope="module", params=["tidb", "mysql"])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with World() as world:
        session = world.session()
        session.execute(f"SET GLOBAL exuvia_compatibility = '{request.param}'")
        session.execute("CREATE DATABASE other")
        session = world.session()
        session.execute("SET collation_connection = 'utf8mb4_bin'")
        session.execute("CREATE TABLE q (id INT PRIMARY KEY, n INT)")
        session.execute("INSERT INTO q VALUES (1, 1), (2, 1), (3, 1), (4, 2)")
        session.execute("CREATE TABLE other.q (id INT, n INT)")
        session.execute("INSERT INTO other.q VALUES (1, 5), (1, 6)")
        session.execute(
            "CREATE TABLE k (c VARCHAR(9) COLLATE utf8mb4_general_ci, b ENUM('a') CHARSET binary,"
            " e ENUM('a') COLLATE utf8mb4_general_ci, s SET('x') CHARSET latin1 COLLATE latin1_bin,"
            " j JSON)"
        )
        session.execute("INSERT INTO k VALUES ('a', 'a', 'a', 'x', '1')")
        session.execute("CREATE TABLE u (s VARCHAR(9))")
        session.execute("INSERT INTO u VALUES ('1x'), ('2'), ('zz')")
        yield session


@pytest.mark.parametrize("query", VALUES)
def test_values(session: Session, query: str) -> None:
    for _ in range(2):  # planned, and by the plan that was kept
        found = answer(session, query)
        assert found.get("rows") == [VALUES[query]], found


def test_a_key_determines_the_columns_of_its_own_table(session: Session) -> None:
    """Of two tables with one name in two databases, and of a derived table with such a name."""
    both = "FROM q JOIN other.q"
    code = answer(session, f"SELECT other.q.n {both} GROUP BY other.q.id").get("error", [0])[0]
    assert code == 1055
    rows = answer(session, f"SELECT test.q.n {both} GROUP BY test.q.id ORDER BY 1")["rows"]
    assert rows == [["1"], ["1"], ["1"], ["2"]]
    derived = "(SELECT 1 id, 2 n UNION SELECT 1, 3) q"
    query = f"SELECT q.n, (SELECT MAX(id) FROM q) FROM {derived} GROUP BY q.id"
    assert answer(session, query).get("error", [0])[0] == 1055


@pytest.mark.parametrize("join", ["JOIN u ON q.id = u.s", "LEFT JOIN u ON u.s = q.id AND q.n"])
def test_a_join_warns_once_of_a_row(session: Session, join: str) -> None:
    found = answer(session, f"SELECT COUNT(u.s) FROM q {join}")
    assert found["rows"] == [["2"]]
    texts = [row[2] for row in answer(session, "SHOW WARNINGS")["rows"]]
    assert texts == [f"Truncated incorrect DOUBLE value: '{text}'" for text in ("1x", "zz")]


SORTED_UNIONS = {
    "SELECT id FROM q UNION SELECT 9 ORDER BY -id LIMIT 2": [["9"], ["4"]],
    "SELECT id, n FROM q UNION ALL SELECT 7, 0 ORDER BY n = 1, id DESC LIMIT 1, 2": [
        ["4", "2"],
        ["3", "1"],
    ],
    "(SELECT id x FROM q) EXCEPT (SELECT 1) ORDER BY x % 2, x": [["2"], ["4"], ["3"]],
    "SELECT id FROM q INTERSECT SELECT n FROM q ORDER BY id * (SELECT MIN(n) - 2 FROM q)": [
        ["2"],
        ["1"],
    ],
    "WITH c AS (SELECT n FROM q) SELECT n FROM c UNION SELECT NULL ORDER BY n IS NULL, n": [
        ["1"],
        ["2"],
        [None],
    ],
    "VALUES ROW(1, 'b'), ROW(2, 'a') ORDER BY CONCAT(column_1, column_0)": [
        ["2", "a"],
        ["1", "b"],
    ],
    "SELECT * FROM (SELECT id FROM q UNION SELECT 9 ORDER BY 0 - id LIMIT 1) z": [["9"]],
}


@pytest.mark.parametrize("query", SORTED_UNIONS)
def test_a_union_is_sorted_by_expressions(session: Session, query: str) -> None:
    for _ in range(2):
        assert answer(session, query).get("rows") == SORTED_UNIONS[query]
    for key, code in (("MAX(id)", 3028), ("id + nosuch", 1054), ("q.id + 1", 1054), ("9", 1054)):
        refused = answer(session, f"SELECT id FROM q UNION SELECT 1 ORDER BY {key}")
        assert refused.get("error", [0])[0] == code, key
