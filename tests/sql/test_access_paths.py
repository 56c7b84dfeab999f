"""Whatever path is taken, the rows are those of reading everything."""

import itertools
import random

import pytest

from exuvia.catalog.collation import collation
from exuvia.sql.matching import like_matcher
from exuvia.sql.session.session import Session
from support.world import World, error, rows, run

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


DISJUNCTIONS = (
    ("id = 1 OR id = 5", "Batch_Point_Get", "handle:[1 5]"),
    ("id = -1 OR 5 = id OR id IN (7, 9)", "Batch_Point_Get", "handle:[-1 5 7 9]"),
    ("id < 2 OR id > 90 OR id = 50", "TableRangeScan", "[-inf,2), [50,50], (90,+inf]"),
    ("NOT id < 90", "TableRangeScan", "[90,+inf]"),
    ("a = 1 OR a = 3", "IndexRangeScan", "[1,1], [3,3]"),
    ("a = 1 AND (b = 2 OR b = 4)", "IndexRangeScan", "[1 2,1 2], [1 4,1 4]"),
    ("a = 1 AND (b = 2 OR b > 4)", "IndexRangeScan", "[1 2,1 2], (1 4,1 +inf]"),
    ("(a = 1 AND b > 4) OR (a = 3 AND b = 2)", "IndexRangeScan", "(1 4,1 +inf], [3 2,3 2]"),
    ("(a, b) IN ((1, 1), (2, 2))", "IndexRangeScan", "[1 1,1 1], [2 2,2 2]"),
    ("a IS NULL OR a = 2", "IndexRangeScan", "[NULL,NULL], [2,2]"),
    ("t LIKE 'ab%'", "IndexRangeScan", '["ab","ac")'),
    ("t LIKE 'a_b' OR t = 'z'", "IndexRangeScan", '["a","b"), ["z","z"]'),
    ("a > 1 OR a < 0", "TableFullScan", ""),
    ("a = 1 OR b = 2", "TableFullScan", ""),
    ("a = 1 OR t = 'z'", "IndexMerge", "type: union"),
    ("id = 7 OR t LIKE 'z%' AND a = 2 OR (t, b) = ('x', 3)", "IndexMerge", "type: union"),
    ("t LIKE '%ab'", "TableFullScan", ""),
    ("t LIKE '_b%'", "TableFullScan", ""),
    ("t NOT LIKE 'ab%'", "TableFullScan", ""),
    ("NOT (t LIKE 'ab%')", "TableFullScan", ""),
)


@pytest.mark.parametrize(("where", "name", "shown"), DISJUNCTIONS)
def test_disjunctions_negations_and_patterns_have_ranges(
    session: Session, where: str, name: str, shown: str
) -> None:
    columns = "id INT PRIMARY KEY, a INT, b INT, t VARCHAR(9), KEY ab (a, b), KEY kt (t)"
    run(session, f"CREATE TABLE o ({columns})")
    lines = [str(line) for line in rows(session, f"EXPLAIN SELECT * FROM o WHERE {where}")]
    read = [line for line in lines if name in line][-1]
    assert shown in read
    plan = rows(session, f"EXPLAIN DELETE FROM o WHERE {where}")
    assert any(name in str(line) for line in plan)


TEXTS = (
    "a",
    "a\t",
    "A",
    "ab",
    "ab ",
    "Ab",
    "a b",
    " a",
    "",
    "ä",
    "ä1",
    "b",
    "a%",
    "a_",
    "%a",
    "ß",
    "ss",
)


def condition_at_random(draw: random.Random, depth: int = 0) -> str:
    kind = draw.randrange(9 if depth < 3 else 6)
    column = draw.choice("ab")
    if kind == 0:
        return f"{column} {draw.choice(['=', '<', '>=', '<=>', '>', '!='])} {draw.randint(-1, 4)}"
    if kind == 1:
        return f"{column} IN ({draw.randint(0, 3)}, {draw.choice(['2', 'NULL', '-1'])})"
    if kind == 2:
        return f"{draw.choice('tu')} = {draw.choice(TEXTS)!r}"
    if kind == 3:
        negation = draw.choice(["", "", "NOT "])
        pattern = draw.choice(TEXTS) + draw.choice(["%", "", "_", "%b", r"\\%", r"\\_%"])
        return f"{draw.choice('tuv')} {negation}LIKE {pattern!r}".replace("\\\\\\\\", "\\\\")
    if kind == 4:
        return f"{column} IS {draw.choice(['', 'NOT '])}NULL"
    if kind == 5:
        return f"(a, b) IN (({draw.randint(0, 3)}, 1), (2, {draw.randint(0, 3)}))"
    if kind == 6:
        return f"NOT ({condition_at_random(draw, depth + 1)})"
    parts = [condition_at_random(draw, depth + 1) for _ in range(draw.randint(2, 3))]
    return f"({(' OR ' if kind == 7 else ' AND ').join(parts)})"


@pytest.mark.parametrize("collate", ["utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci"])
def test_conditions_at_random(session: Session, collate: str) -> None:
    """By keys, without keys, in a partitioned table; the second time by a cached plan."""
    draw = random.Random(collate)
    columns = "a INT, b INT, t VARCHAR(5), u CHAR(5), v TEXT"
    keys = "KEY ab (a, b), KEY ba (b, a), KEY kt (t), KEY ku (u), KEY kv (v(1)), KEY tu (a, t, b)"
    bounds = ", ".join(f"PARTITION p{n} VALUES LESS THAN ('{t}')" for n, t in enumerate("ab"))
    tables = {
        "bare": f"(id INT PRIMARY KEY, {columns}) COLLATE {collate}",
        "keyed": f"(id INT PRIMARY KEY, {columns}, {keys}) COLLATE {collate}",
        "cut": f"(id INT PRIMARY KEY, {columns}, {keys}) COLLATE {collate} "
        "PARTITION BY HASH (id) PARTITIONS 3",
        "ranged": f"(id INT, {columns}, {keys}) COLLATE {collate} PARTITION BY RANGE COLUMNS (t) "
        f"({bounds}, PARTITION pm VALUES LESS THAN (MAXVALUE))",
    }
    for name, definition in tables.items():
        run(session, f"CREATE TABLE {name} {definition}")
    for number in range(60):
        texts = ", ".join(repr(draw.choice(TEXTS)) for _ in range(3))
        numbers = ", ".join(draw.choice(["NULL", "0", "1", "2", "3"]) for _ in range(2))
        for name in tables:
            run(session, f"INSERT INTO {name} VALUES ({number}, {numbers}, {texts})")
    run(session, "ANALYZE TABLE cut")
    found, changed = 0, "a = 1"
    for _ in range(150):
        where = condition_at_random(draw)
        expected = sorted(rows(session, f"SELECT id FROM bare WHERE {where}"))
        found += len(expected)
        for name in ("keyed", "cut", "ranged"):
            assert sorted(rows(session, f"SELECT id FROM {name} WHERE {where}")) == expected, where
            run(session, "BEGIN")
            run(session, f"DELETE FROM {name} WHERE {where}")
            left = rows(session, f"SELECT COUNT(*) FROM {name}")
            assert left == [[60 - len(expected)]], where
            run(session, "ROLLBACK")
        after = []
        for name in tables:
            run(session, "BEGIN")
            run(session, f"UPDATE {name} SET a = b, b = 1, t = u, u = v WHERE {changed}")
            after.append(sorted(rows(session, f"SELECT id FROM {name} WHERE {where}")))
            run(session, "ROLLBACK")
        assert all(each == after[0] for each in after), (changed, where)
        changed = where
    assert found > 1000


def test_a_pattern_does_not_exclude_partitions_by_order(session: Session) -> None:
    """'a\\t' begins with a and sorts before it, since it is compared as 'a   '."""
    parts = "PARTITION BY LIST COLUMNS (t) (PARTITION p VALUES IN ('a\t'), PARTITION q DEFAULT)"
    run(session, f"CREATE TABLE o (id INT, t VARCHAR(9), KEY kt (t)) {parts}")
    run(session, "INSERT INTO o VALUES (1, 'a\t'), (2, 'ab')")
    assert rows(session, "SELECT id FROM o WHERE t LIKE 'a%' ORDER BY id") == [[1], [2]]


def test_a_pattern_with_and_without_a_prefix_have_plans_of_their_own(session: Session) -> None:
    run(session, "CREATE TABLE o (id INT PRIMARY KEY, t VARCHAR(9), KEY kt (t))")
    run(session, "INSERT INTO o VALUES (1, 'ab'), (2, 'b'), (3, 'cab')")
    for pattern, expected in (("a%", [1]), ("%ab", [1, 3]), ("b%", [2]), ("%b", [1, 2, 3])):
        found = rows(session, f"SELECT id FROM o WHERE t LIKE '{pattern}' ORDER BY id")
        assert [number for (number,) in found] == expected
        for text in (f"'{pattern}'", "NULL", "'_b'"):
            run(session, f"SET @p = {text}")
            run(session, "PREPARE s FROM 'SELECT id FROM o WHERE t LIKE ? ORDER BY id'")
            found = rows(session, "EXECUTE s USING @p")
            wanted = {"NULL": [], "'_b'": [1]}.get(text, expected)
            assert [number for (number,) in found] == wanted, text


@pytest.mark.parametrize(
    "name",
    [
        *("utf8mb4_bin", "utf8mb4_0900_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci"),
        *("utf8mb4_unicode_520_ci", "utf8mb4_0900_ai_ci", "latin1_swedish_ci", "gbk_bin"),
        *("latin1_general_ci", "latin2_general_ci", "gb18030_bin"),
    ],
)
def test_keys_of_texts_that_begin_alike_begin_alike(name: str) -> None:
    rules, draw = collation(name), random.Random(name)
    signs = "aAbBäÄßsSéeœæ ıiİI.-_%0½1ﬁf\u0301\u00a0\u3000\u1100\u1161각한zZñ€😀\x01\t"
    assert rules.keeps_prefixes and not collation("utf8mb4_0900_as_cs").keeps_prefixes
    alike = {sign: [one for one in signs if like_matcher(sign, "", name)(one)] for sign in signs}
    del alike["%"], alike["_"]
    for _ in range(3000):
        prefix = "".join(draw.choices([*alike], k=draw.randint(1, 3))).rstrip(" ")
        text = "".join(draw.choice(alike[sign]) for sign in prefix)
        text += "".join(draw.choices(signs, k=draw.randint(0, 3)))
        assert like_matcher(f"{prefix}%", "", name)(text)
        assert rules.sort_key(text).startswith(rules.sort_key(prefix)[:-2]), (prefix, text)


def test_the_handles_of_several_keys_are_claimed(session: Session) -> None:
    run(session, "CREATE TABLE o (id INT PRIMARY KEY, a INT, b INT, KEY ka (a), KEY kb (b))")
    values = ", ".join(f"({number}, 1, 2)" for number in range(5000))
    run(session, f"INSERT INTO o VALUES {values}")
    run(session, "SET tidb_mem_quota_query = 500000")
    query = "SELECT id FROM o WHERE a = {} OR b = {}"
    assert error(session, query.format(1, 2)) == (8175, "HY000")
    assert rows(session, query.format(7, 8)) == []
