"""What stands between SELECT and its items, DISTINCT with ORDER BY, SET NAMES binary, DROP PREPARE:
what applications write. Answers are MySQL's; of exuvia_compatibility = 'tidb' TiDB's.
"""

import pytest

from support.world import error, rows, run


@pytest.fixture
def table(session):
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(9), d DATE)")
    run(
        session,
        "INSERT INTO t VALUES (1, 1, 9, 'x', '2024-01-01'), (2, 2, 5, 'y', '2024-01-02'),"
        " (3, 1, 4, 'X', NULL), (4, 3, NULL, 'z', '2024-01-02'), (5, 2, 7, 'y', '2024-01-03')",
    )
    return session


def in_mysql_mode(session):
    run(session, "SET exuvia_compatibility = 'mysql'")


# -- SQL_CALC_FOUND_ROWS ---------------------------------------------------------------------------

COUNTED = [  # query, its rows, FOUND_ROWS()
    ("SELECT SQL_CALC_FOUND_ROWS id FROM t ORDER BY id LIMIT 2", [[1], [2]], 5),
    ("SELECT SQL_CALC_FOUND_ROWS id FROM t ORDER BY id LIMIT 2 OFFSET 4", [[5]], 5),
    ("SELECT SQL_CALC_FOUND_ROWS id FROM t ORDER BY id LIMIT 1, 2", [[2], [3]], 5),
    ("SELECT SQL_CALC_FOUND_ROWS id FROM t WHERE id > 3 LIMIT 0", [], 2),
    ("SELECT DISTINCT SQL_CALC_FOUND_ROWS a FROM t ORDER BY a LIMIT 1", [[1]], 3),
    ("SELECT SQL_CALC_FOUND_ROWS DISTINCT a FROM t ORDER BY a LIMIT 1", [[1]], 3),
    ("SELECT SQL_CALC_FOUND_ROWS a, COUNT(*) FROM t GROUP BY a ORDER BY a LIMIT 1", [[1, 2]], 3),
    ("SELECT SQL_CALC_FOUND_ROWS x.id FROM t x JOIN t y USING (a) ORDER BY 1 LIMIT 1", [[1]], 9),
    ("SELECT SQL_CALC_FOUND_ROWS id FROM t UNION ALL SELECT id FROM t LIMIT 1", [[1]], 10),
    ("SELECT SQL_CALC_FOUND_ROWS id FROM t WHERE id = 1", [[1]], 1),
    ("SELECT SQL_NO_CACHE SQL_CALC_FOUND_ROWS id FROM t ORDER BY id LIMIT 1", [[1]], 5),
    ("SELECT id FROM t ORDER BY id LIMIT 2", [[1], [2]], 2),
]


@pytest.mark.parametrize(("text", "page", "count"), COUNTED)
def test_the_full_count(table, text, page, count):
    in_mysql_mode(table)
    for _ in range(2):
        assert rows(table, text) == page
        run(table, "SHOW WARNINGS")  # as drivers do by themselves
        assert rows(table, "SELECT FOUND_ROWS()") == [[count]]
    assert table.execute_prepared(table.prepare(text), ()).rows == page
    assert rows(table, "SELECT FOUND_ROWS()") == [[count]]
    if "LIMIT 2 OFFSET 4" in text:
        parameters = text.replace("LIMIT 2 OFFSET 4", "LIMIT ? OFFSET ?")
        assert rows(table, parameters, [2, 4]) == page
        assert rows(table, "SELECT FOUND_ROWS()") == [[count]]


def test_tidb_does_not_count(table):
    text = COUNTED[0][0]
    assert error(table, text)[0] == 1235
    run(table, "SET tidb_enable_noop_functions = ON")
    assert rows(table, text) == [[1], [2]]
    assert rows(table, "SELECT FOUND_ROWS()") == [[2]]


# -- the other words -------------------------------------------------------------------------------

OPTIONS = (
    *("STRAIGHT_JOIN", "HIGH_PRIORITY", "SQL_SMALL_RESULT", "SQL_BIG_RESULT", "SQL_BUFFER_RESULT"),
    *("SQL_NO_CACHE", "SQL_CACHE"),
)


@pytest.mark.parametrize("option", OPTIONS)
def test_words_that_change_no_answer(table, option):
    answer = table.execute(f"SELECT {option} a FROM t WHERE id = 1")
    assert answer.rows == [[1]] and answer.columns[0].name == "a"
    for order in (f"{option} DISTINCT", f"DISTINCT {option}", f"ALL {option} SQL_NO_CACHE"):
        assert sorted(rows(table, f"SELECT {order} a FROM t WHERE id < 3")) == [[1], [2]]
    joined = f"SELECT {option} COUNT(*) FROM t x, t y WHERE x.id = (SELECT {option} 1) AND y.id < 3"
    assert rows(table, joined) == [[2]]
    assert rows(
        table, f"SELECT {option} x.id FROM t x STRAIGHT_JOIN t y ON x.id = y.id AND y.id=3"
    ) == [[3]]
    run(table, f"CREATE TABLE n AS SELECT {option} a + 1 FROM t WHERE id = 1")
    assert rows(table, "SELECT `a + 1` FROM n") == [[2]]


# -- DISTINCT and ORDER BY -------------------------------------------------------------------------

ORDERED = [  # query, rows without ONLY_FULL_GROUP_BY, code with it (None: the same rows)
    ("SELECT DISTINCT a FROM t ORDER BY b", [[3], [1], [2]], 3065),
    ("SELECT DISTINCT a FROM t ORDER BY b DESC", [[1], [2], [3]], 3065),
    ("SELECT DISTINCT a FROM t ORDER BY b LIMIT 1, 1", [[1]], 3065),
    ("SELECT DISTINCT x.a FROM t x JOIN t y ON x.id = y.id ORDER BY y.b", [[3], [1], [2]], 3065),
    ("SELECT DISTINCT a FROM t ORDER BY a + b", [[3], [1], [2]], 3065),
    ("SELECT DISTINCT a FROM t ORDER BY a, b", [[1], [2], [3]], 3065),
    ("SELECT DISTINCT a FROM t GROUP BY id ORDER BY SUM(b)", [[3], [1], [2]], 3066),
    ("SELECT DISTINCT a FROM t ORDER BY -a", [[3], [2], [1]], None),
    ("SELECT DISTINCT a AS n FROM t ORDER BY n DESC", [[3], [2], [1]], None),
    ("SELECT DISTINCT a FROM t ORDER BY t.a DESC", [[3], [2], [1]], None),
    ("SELECT DISTINCT a, b FROM t WHERE id < 4 ORDER BY b", [[1, 4], [2, 5], [1, 9]], None),
]


@pytest.mark.parametrize(("text", "lenient", "code"), ORDERED)
@pytest.mark.parametrize("name", ["tidb", "mysql"])
def test_distinct_rows_in_another_order(table, text, lenient, code, name, monkeypatch):
    run(table, f"SET exuvia_compatibility = '{name}'")
    strict = rows(table, "SELECT @@sql_mode")[0][0]
    for most in (20_000, 0):  # by the row engine where it can, then by DuckDB
        monkeypatch.setattr("exuvia.sql.select.read.MOST_ROWS", most)
        run(table, "SET sql_mode = ''")
        assert rows(table, text) == lenient
        run(table, f"SET sql_mode = '{strict}'")
        if code is None:
            assert rows(table, text) == lenient
        else:
            assert error(table, text)[0] == code


# -- SET NAMES binary ------------------------------------------------------------------------------

BINARY = [
    ("SELECT id FROM t WHERE d = '2024-01-02' ORDER BY id", [[2], [4]]),
    ("SELECT id FROM t WHERE d BETWEEN '2024-01-02' AND '2024-01-03' ORDER BY id", [[2], [4], [5]]),
    ("SELECT id FROM t WHERE c IN ('x', 'z') ORDER BY id", [[1], [4]]),
    ("SELECT id FROM t WHERE c LIKE 'y%' ORDER BY id", [[2], [5]]),
    ("SELECT x.id FROM t x JOIN t y ON x.c = y.c AND y.c = 'z'", [[4]]),
    ("SELECT c, COUNT(*) FROM t GROUP BY c HAVING c = 'y'", [["y", 2]]),
    ("SELECT DATE_FORMAT(d, '%Y'), CONCAT(c, '-', a), d FROM t WHERE id = 1", None),
    (
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 't'"
        " AND table_schema = DATABASE()",
        [[1]],
    ),
    (
        "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE()"
        " AND column_name LIKE 'd%'",
        [["d"]],
    ),
]


@pytest.mark.parametrize(("text", "found"), BINARY)
def test_names_binary(table, text, found):
    expected = rows(table, text)
    run(table, "SET NAMES binary")
    assert rows(table, text) == expected
    assert found is None or expected == found
    run(table, f"PREPARE s FROM '{text.replace(chr(39), chr(39) * 2)}'")
    assert rows(table, "EXECUTE s") == expected


def test_writes_under_names_binary(table):
    run(table, "SET NAMES binary")
    run(table, "INSERT INTO t VALUES (7, 1, 1, 'é', '2024-02-03')")
    run(table, "UPDATE t SET c = CONCAT(c, 'à') WHERE c = 'é'")
    assert rows(table, "SELECT c, CAST(d AS CHAR) FROM t WHERE id = 7") == [["éà", "2024-02-03"]]
    assert rows(table, "SELECT id FROM t WHERE c = ? AND d = ?", ["éà", "2024-02-03"]) == [[7]]


# -- DROP PREPARE ----------------------------------------------------------------------------------


def test_drop_prepare(session):
    run(session, "PREPARE s FROM 'SELECT 1'")
    run(session, "DROP PREPARE s")
    assert error(session, "EXECUTE s")[0] == 1243
    assert error(session, "DROP PREPARE s")[0] == 1243


def test_items_beside_a_group_may_be_queries(table) -> None:
    best = "SELECT a, (SELECT MAX(x.b) FROM t x WHERE x.a = t.a) FROM t GROUP BY a ORDER BY a"
    assert rows(table, best) == [[1, 9], [2, 7], [3, None]]
    known = "SELECT a + 1, a + 1 IN (SELECT x.a FROM t x) FROM t GROUP BY a + 1 ORDER BY 1"
    assert rows(table, known) == [[2, 1], [3, 1], [4, 0]]
    assert rows(table, "SELECT DISTINCT a, (SELECT 1) FROM t ORDER BY a LIMIT 1") == [[1, 1]]
