"""Statements with thousands of terms, and texts made to keep the parser busy.

A chain (a OR b OR ..., a + b - ..., IN lists, UNIONs) is no nesting, however long; true nesting has
a bound and a clear error. Nothing is read in time that doubles with each level: the parser holds
the interpreter's lock, so such a text would stop a whole front.
"""

import time

import pytest

from exuvia.base.errors import Refused
from exuvia.sql import planner
from exuvia.sql.parse.text import parse
from exuvia.sql.session.session import Session
from support.few import one_in
from support.world import error, rows, run

MANY = 1200  # more than the interpreter's depth
NESTED = 20  # levels; in exponential time minutes
SOON_S = 5.0


@pytest.fixture(autouse=True)
def three_rows(session: Session) -> None:
    run(session, "CREATE TABLE t (id int PRIMARY KEY, a int, b varchar(9), KEY (a))")
    run(session, "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 5000, 'z')")


def repeated(between: str, term: str) -> str:
    return between.join(term.format(n=n) for n in range(MANY))


OR = repeated(" OR ", "a = {n}")
PLUS = repeated("+", "a")
QUERIES = {
    "or": (f"SELECT id FROM t WHERE {OR}", [[1], [2]]),
    "and": (f"SELECT id FROM t WHERE {repeated(' AND ', 'a <> {n}')}", [[3]]),
    "both": (f"SELECT id FROM t WHERE {repeated(' OR ', '(a = {n} AND id < 2)')}", [[1]]),
    "xor": (f"SELECT {repeated(' XOR ', '1')}", [[0]]),
    "in": (f"SELECT id FROM t WHERE a IN ({repeated(', ', '{n}')})", [[1], [2]]),
    "in rows": (f"SELECT id FROM t WHERE (a, id) IN ({repeated(', ', '({n}, {n})')})", [[1], [2]]),
    "plus": (f"SELECT {PLUS} FROM t", [[MANY], [2 * MANY], [5000 * MANY]]),
    "minus": (f"SELECT {repeated('-', '1')}", [[2 - MANY]]),
    "concat": (f"SELECT LENGTH(CONCAT({repeated(', ', 'b')})) FROM t", [[MANY]] * 3),
    "case": (f"SELECT CASE a {repeated(' ', 'WHEN {n} THEN {n}')} END FROM t", [[1], [2], [None]]),
    "join": (f"SELECT x.id FROM t x JOIN t y ON x.id = y.id WHERE {OR.replace('a', 'x.a')}", None),
    "group": (f"SELECT b, SUM({PLUS}) FROM t GROUP BY b ORDER BY b LIMIT 1", [["x", MANY]]),
    "having": (f"SELECT a FROM t GROUP BY a HAVING {OR} ORDER BY a", [[1], [2]]),
    "having a sum": (f"SELECT a FROM t HAVING {PLUS} > {MANY} ORDER BY a", [[2], [5000]]),
    "join on a sum": (
        f"SELECT x.id FROM t x JOIN t y ON {PLUS.replace('a', 'x.a')} = y.a * {MANY}",
        [[1], [2], [3]],
    ),
    "grouped by a sum": (
        f"SELECT COUNT(*), {PLUS} FROM t GROUP BY {PLUS} HAVING {PLUS} = {MANY}",
        [[1, MANY]],
    ),
    "union": (" UNION ALL ".join(["SELECT 1"] * 600), [[1]] * 600),
    "distinct union": (
        " UNION ".join(f"SELECT {n % 7}" for n in range(MANY)),
        [[n] for n in range(7)],
    ),
    "mixed union": (
        "SELECT 1 UNION ALL SELECT 1 UNION SELECT 2 UNION ALL SELECT 2 UNION ALL SELECT 3",
        [[1], [2], [2], [3]],
    ),
    "unions and exceptions": (
        "SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 2 UNION ALL SELECT 1 UNION ALL SELECT 1",
        [[1], [1], [1]],
    ),
}


@pytest.mark.parametrize("kind", one_in(3, QUERIES))
def test_thousands_of_terms_are_no_nesting(session: Session, kind: str) -> None:
    text, expected = QUERIES[kind]
    found = rows(session, text)
    wanted = [[1], [2]] if expected is None else expected
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert rows(session, f"EXPLAIN {text}")
    lines = rows(session, f"EXPLAIN ANALYZE {text}")
    assert lines[0][2] == str(len(found))


def test_writes_prepared_statements_and_explain_take_them_too(session: Session) -> None:
    assert run(session, f"UPDATE t SET b = 'w' WHERE {OR}").affected == 2
    markers = f"SELECT id FROM t WHERE {repeated(' OR ', 'a = ?')}"
    assert rows(session, markers, list(range(MANY))) == [[1], [2]]
    assert rows(session, f"EXPLAIN SELECT id FROM t WHERE {OR}")
    assert run(session, f"DELETE FROM t WHERE {repeated(' AND ', 'a <> {n}')}").affected == 1


def test_views_checks_and_generated_columns_take_them_too(session: Session) -> None:
    run(session, f"CREATE VIEW v AS SELECT id FROM t WHERE {OR}")
    assert rows(session, "SELECT id FROM v ORDER BY id") == [[1], [2]]
    [[_, text, *_]] = rows(session, "SHOW CREATE VIEW v")
    assert text.count(" or ") + text.count(" OR ") == MANY - 1
    run(session, f"CREATE TABLE c (a int, s int AS ({PLUS}), CHECK ({OR}))")
    run(session, "INSERT INTO c (a) VALUES (3)")
    assert rows(session, "SELECT s FROM c") == [[3 * MANY]]
    assert error(session, "INSERT INTO c (a) VALUES (-3)") == (3819, "HY000")
    shown = rows(session, "SHOW CREATE TABLE c")[0][1]
    run(session, shown.replace("`c`", "`d`", 1).replace("c_chk", "d_chk"))
    run(session, f"CREATE TABLE p (a int) PARTITION BY HASH ({PLUS}) PARTITIONS 2")
    run(session, "INSERT INTO p VALUES (1), (3)")
    assert rows(session, "SELECT a FROM p PARTITION (p0) ORDER BY a") == [[1], [3]]
    assert rows(session, "SELECT a FROM p WHERE a = 3") == [[3]]


def test_a_long_sum_beyond_its_type_is_1690(session: Session) -> None:
    biggest = f"SELECT {repeated('+', 'a * 2000000000000')} FROM t"
    assert error(session, biggest) == (1690, "22003")


def test_what_stands_left_is_computed_first_and_ends_early(session: Session) -> None:
    run(session, "SET @n = 0")
    counted = repeated(" AND ", "(@n := @n + 1) <> 7")
    assert rows(session, f"SELECT {counted}") == [[0]]
    assert rows(session, "SELECT @n") == [[7]]


NESTINGS = {
    "joins": "SELECT 1 FROM t" + " JOIN t" * NESTED,
    "straight joins": "SELECT 1 FROM t" + " STRAIGHT_JOIN t" * NESTED,
    "outer joins": "SELECT 1 FROM t" + " JOIN t LEFT JOIN t ON 1" * NESTED,
    "outer joins without ON": "SELECT 1 FROM t" + " LEFT JOIN t" * NESTED,
    "derived tables": "SELECT 1 FROM t" + " JOIN (SELECT 1) x" * NESTED,
    **{
        name: f"SELECT {f'{name}(' * NESTED}1{')' * NESTED}"
        for name in ("YEAR", "DATE", "CHAR", "BINARY", "TIMESTAMP", "BIT", "INT", "UUID")
    },
    "unions": " UNION ALL ".join(["SELECT 1"] * MANY),
    "bits": "SELECT " + "|".join(["1"] * MANY),
}


@pytest.mark.parametrize("kind", list(NESTINGS))
def test_no_text_takes_the_parser_long(kind: str) -> None:
    started = time.process_time()
    try:
        parse(NESTINGS[kind])
    except Refused as refusal:
        assert refusal.code == 1064
    assert time.process_time() - started < SOON_S


def test_a_join_without_on_is_a_cross_join(session: Session) -> None:
    run(session, "CREATE TABLE u (id int PRIMARY KEY)")
    run(session, "INSERT INTO u VALUES (1), (2)")
    for joins, count in (
        ("t JOIN u", 6),
        ("t JOIN u JOIN u w ON w.id = u.id", 6),
        ("t JOIN u JOIN u w ON w.id = u.id ON t.id = u.id", 2),
        ("t STRAIGHT_JOIN u", 6),
        ("t STRAIGHT_JOIN u ON t.id = u.id", 2),
        ("t JOIN u LEFT JOIN u w ON w.id = t.id", 6),
        ("t INNER JOIN (u JOIN u w)", 12),
        ("t JOIN u USING (id) JOIN u w", 4),
        ("t NATURAL JOIN u JOIN u w", 4),
        ("t JOIN u, u w JOIN u z ON w.id = z.id", 12),
    ):
        assert rows(session, f"SELECT COUNT(*) FROM {joins}") == [[count]], joins
    for joins in ("t LEFT JOIN u", "(t LEFT JOIN u) JOIN u w ON 1", "t RIGHT JOIN u, u w"):
        assert error(session, f"SELECT COUNT(*) FROM {joins}") == (1064, "42000"), joins
    run(session, "CREATE TABLE w (id int PRIMARY KEY, n int)")
    joined = "INSERT INTO w SELECT u.id, 1 FROM u JOIN t ON DUPLICATE KEY UPDATE n = n + 1"
    assert run(session, joined).affected == 2 + 2 * 2 * 2


def test_words_of_types_are_calls_and_types(session: Session) -> None:
    shown = "CAST(YEAR(DATE('2026-11-22')) AS CHAR(2)), CONVERT(1.256, DECIMAL(3,1)), CHAR(65)"
    assert [str(each) for each in rows(session, f"SELECT {shown}")[0]][:2] == ["20", "1.3"]
    assert rows(session, "SELECT CONVERT(CHAR(65, 66), CHAR(1)), LENGTH(BINARY('ab'))") == [
        ["A", 2]
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * MANY + "1" + ")" * MANY,
        "SELECT " + "NOT " * (10 * MANY) + "1",
        "SELECT " + "- " * (10 * MANY) + "1",
        "SELECT " + "CASE WHEN 1 THEN " * MANY + "1" + " END" * MANY,
        "SELECT " + "(1 AND (0 OR " * 190 + "1" + "))" * 190,
        "SELECT " + "=".join(["1"] * 5 * MANY),
        "SELECT 'a'" + " LIKE 'a'" * 5 * MANY,
    ],
)
def test_true_nesting_has_a_bound_and_a_clear_error(session: Session, text: str) -> None:
    assert error(session, text)[0] in (1064, 1436)
    assert rows(session, "SELECT 1") == [[1]]


LEVELS = {  # before, each level, within, behind each level, behind
    "CASE": ("SELECT ", "CASE WHEN 0 THEN 1 ELSE ", "1", " END", ""),
    "NOT": ("SELECT ", "NOT (", "1", ")", ""),
    "sign": ("SELECT ", "~ ", "1", "", ""),
    "call": ("SELECT ", "CONCAT(", "1", ", 1)", ""),
    "BETWEEN": ("SELECT ", "1 BETWEEN 0 AND ", "1", "", ""),
    "COLLATE": ("SELECT ", "", "'a'", " COLLATE utf8mb4_bin", ""),
    "IS": ("SELECT ", "", "1", " IS NULL", ""),
    "scalar subquery": ("SELECT ", "(SELECT ", "1", ")", ""),
    "EXISTS": ("SELECT ", "EXISTS (SELECT 1 FROM t WHERE ", "1", ")", ""),
    "IN": ("SELECT 1 FROM t WHERE ", "a IN (SELECT a FROM t WHERE ", "1", ")", ""),
    "derived table": ("SELECT * FROM ", "(SELECT * FROM ", "t", ") d", ""),
    "WITH": ("", "WITH q AS (", "SELECT 1", ") SELECT * FROM q", ""),
    "UNION": ("", "(SELECT 1 UNION ", "SELECT 1", ")", ""),
    "UPDATE": ("UPDATE t SET a = ", "ABS(", "a", ")", ""),
    "DELETE": ("DELETE FROM t WHERE 0 AND ", "NOT (", "a", ")", ""),
    "CHECK": ("CREATE TABLE made (a INT CHECK (", "ABS(", "a", ")", " > 0))"),
    "EXPLAIN": ("", "EXPLAIN ", "SELECT 1", "", ""),
    "SET": ("SET @a = ", "ABS(", "1", ")", ""),
}


@pytest.mark.parametrize("levels", [390, 16_000])
@pytest.mark.parametrize("name", LEVELS)
def test_every_nesting_ends_with_an_answer_or_an_error(
    session: Session, name: str, levels: int
) -> None:
    """1064 beyond what the parser reads, 1436 where the stack ends, 3170 of what is long too."""
    before, level, within, end, behind = LEVELS[name]
    try:
        session.execute(before + level * levels + within + end * levels + behind)
    except Refused as refused:
        assert refused.code in (1064, 1235, 1436, 3170), refused
    assert rows(session, "SELECT 1") == [[1]]


def test_whatever_else_nests_too_deep_is_1436(session: Session, monkeypatch) -> None:
    def too_deep(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(planner, "plan", too_deep)
    assert error(session, "EXPLAIN SELECT id FROM t WHERE b > a") == (1436, "HY000")
    monkeypatch.undo()
    assert rows(session, "SELECT 1") == [[1]]
