"""Whatever path is taken, the rows are those of reading everything."""

import itertools

import pytest

from exuvia.sql.session.session import Session
from support.world import World, rows, run

CONSTANTS = (
    "1",
    "2.5",
    "'2'",
    "'b'",
    "'B '",
    "'2026-01-02'",
    "'2026-01-02 00:00:00'",
    "NULL",
    "-1",
)
COLUMNS = ("i", "u", "d", "f", "b", "g", "x", "dt", "da", "e")
TABLE = """CREATE TABLE {} (
    i int, u bigint unsigned, d decimal(6,2), f double, b varchar(9), g varchar(9)
    COLLATE utf8mb4_general_ci, x varbinary(9), dt datetime(3), da date, e enum('b','a'){})"""
KEYS = ", " + ", ".join(
    [
        *(f"KEY k{c} ({c})" for c in COLUMNS),
        "KEY kp (b(1))",
        "KEY three (i, g, d)",
        "KEY two (g, i)",
    ]
)
VALUES = (
    "(1, 1, 1.00, 1, 'b', 'B', 'b', '2026-01-02', '2026-01-02', 'b')",
    "(2, 2, 2.50, 2.5, 'B ', 'b ', 'B', '2026-01-02 00:00:00.5', '2026-01-03', 'a')",
    "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(-1, 18446744073709551615, -1.25, -0.0, 'ba', 'Bb', '', '2025-12-31', '2025-12-31', 'a')",
    "(1, 0, 2.50, 1e300, '', 'a', 'ab', '2026-02-01 10:00:00', '2026-02-01', NULL)",
)


@pytest.fixture
def twins(session: Session) -> Session:
    """`keyed` has an index on everything, `bare` has none."""
    for name, keys in (("keyed", KEYS), ("bare", "")):
        run(session, TABLE.format(name, keys))
        run(session, f"INSERT INTO {name} VALUES {', '.join(VALUES)}")
    return session


def same(session: Session, where: str) -> None:
    """Both tables answer alike, or refuse alike."""
    answers = []
    for name in ("keyed", "bare"):
        found = rows(session, f"SELECT * FROM {name} WHERE {where}")
        answers.append(sorted(map(str, found)))
    assert answers[0] == answers[1], where


def test_every_column_constant_and_comparison(twins: Session) -> None:
    count = 0
    for column, constant in itertools.product(COLUMNS, CONSTANTS):
        for operator in ("=", "<", ">="):
            same(twins, f"{column} {operator} {constant}")
            count += 1
    assert count == 270


@pytest.mark.parametrize(
    "where",
    [
        "i IN (1, 2, NULL)",
        "i BETWEEN 0 AND 1",
        "i = 1 AND g = 'B'",
        "i = 1 AND g >= 'a' AND d > 1",
        "i IN (1, 2) AND g IN ('a', 'b', 'B') AND d = 2.5",
        "g = 'b' AND i < 2",
        "b = 'b' OR i = 2",
        "b > 'b'",
        "b < 'ba' AND b >= 'B'",
        "NOT (i = 1)",
        "i > 1 AND i < 1",
        "1 < i",
        "(i = 1) AND (u = 0)",
        "x = 'B' AND i = 2",
    ],
)
def test_several_conditions(twins: Session, where: str) -> None:
    same(twins, where)


@pytest.mark.parametrize("column", ["i", "g", "d", "f", "dt", "e"])
def test_order_by_an_index_is_order_by_a_sort(twins: Session, column: str) -> None:
    for direction in ("", " DESC"):
        query = f"SELECT {column} FROM {{}} ORDER BY {column}{direction} LIMIT 4"
        keyed = rows(twins, query.format("keyed FORCE INDEX (k" + column + ")"))
        bare = rows(twins, query.format("bare"))
        if column != "g":
            assert keyed == bare
        else:
            assert [str(row).lower().rstrip() for row in keyed] == [
                str(row).lower().rstrip() for row in bare
            ] or len(keyed) == len(bare)


def test_a_transaction_reads_its_own_writes_through_every_path(
    world: World, session: Session
) -> None:
    run(session, "CREATE TABLE o (id int PRIMARY KEY, k int, u int, KEY kk (k), UNIQUE KEY uu (u))")
    run(session, "INSERT INTO o VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
    run(session, "BEGIN")
    run(session, "DELETE FROM o WHERE id = 1")
    run(session, "UPDATE o SET k = 9, u = 1 WHERE id = 2")
    run(session, "INSERT INTO o VALUES (4, 9, 4)")
    assert rows(session, "SELECT id FROM o WHERE id = 1") == []
    assert rows(session, "SELECT id FROM o WHERE u = 1") == [[2]]
    assert rows(session, "SELECT id FROM o WHERE u = 2") == []
    assert rows(session, "SELECT id FROM o WHERE k = 9") == [[2], [4]]
    assert rows(session, "SELECT id FROM o WHERE k < 4") == [[3]]
    assert rows(session, "SELECT id FROM o ORDER BY id DESC") == [[4], [3], [2]]
    run(session, "ROLLBACK")
    assert rows(session, "SELECT id FROM o WHERE k < 4") == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("id = -1", [-3, -2, 1]),
        ("id IN (-1, -2.0, -'9')", [-3, 1]),
        ("id IN (-1, -2.0)", [-3, 1]),
        ("id < -1", [-1, 1]),
        ("-2e0 >= id", [-1, 1]),
        ("id BETWEEN -(2) AND - -1", [-3]),
        ("d = -1.5 AND id > 0", [-3, -2, -1, 1]),
        ("d <=> -1.50", [-3, -2, 1]),
    ],
)
def test_a_cached_plan_uses_keys_for_negative_literals(
    session: Session, where: str, left: list[int]
) -> None:
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(5,2), KEY (d))")
    run(session, "SET sql_safe_updates = 1")
    for _ in range(2):  # planned, then found in the cache
        run(session, "REPLACE INTO t VALUES (-3, -3.5), (-2, -2.5), (-1, -1.5), (1, 1.5)")
        run(session, f"DELETE FROM t WHERE {where}")
        assert [row[0] for row in rows(session, "SELECT id FROM t")] == left
