"""Everyday expressions and clauses have MySQL's answer, in tidb and in mysql mode.

Each was once answered otherwise. Answers of other expressions are recorded from a peer in
tests/expressions."""

from collections.abc import Iterator

import pytest

from exuvia.sql.session.session import Session
from support.answers import answer
from support.world import World

SIGNS = {  # a sign after an exponent and its digits begins another term
    "SELECT 1e5-1": ["99999"],
    "SELECT 1e5+0.5": ["100000.5"],
    "SELECT 2e3+id, .5e1-id, 1e1+1e2-1e-1 FROM t WHERE id = 2": ["2002", "3", "109.9"],
    "SELECT 1e5--1, '1e5-1', 1e2-'1' FROM t WHERE id > 1e1-5-2 LIMIT 1": ["100001", "1e5-1", "99"],
}
YEARS = {  # a constant beside a YEAR column is the year that the column would store
    "SELECT GROUP_CONCAT(y ORDER BY y) FROM {} WHERE y = '24'": ["2024"],
    "SELECT GROUP_CONCAT(y ORDER BY y) FROM {} WHERE y = 24.0": ["2024"],
    "SELECT GROUP_CONCAT(y ORDER BY y) FROM {} WHERE y > '70'": ["1999,2000,2024"],
    "SELECT GROUP_CONCAT(y ORDER BY y) FROM {} WHERE '24.0' <= y": ["2024"],
    "SELECT GROUP_CONCAT(y ORDER BY y) FROM {} WHERE y IN ('99', 24)": ["1999,2024"],
    "SELECT GROUP_CONCAT(y ORDER BY y) FROM {} WHERE y BETWEEN '99' AND '0'": ["1999,2000"],
    "SELECT GROUP_CONCAT(y ORDER BY y) FROM {} WHERE y = '000'": ["2000"],
    "SELECT GROUP_CONCAT(y ORDER BY y) FROM {} WHERE y = '0000'": ["0000"],
    "SELECT GROUP_CONCAT(y ORDER BY y) FROM {} WHERE y = 0": ["0000"],
    "SELECT GROUP_CONCAT(y ORDER BY y) FROM {} WHERE y = '2024'": ["2024"],
}
NUMBERS = {
    "SELECT FORMAT(9223372036854775807, 2)": ["9,223,372,036,854,775,807.00"],
    "SELECT FORMAT(9007199254740993, 0)": ["9,007,199,254,740,993"],
    "SELECT FORMAT(18446744073709551615, 0)": ["18,446,744,073,709,551,615"],
    "SELECT FORMAT('12345678901234567890.5', 1)": ["12,345,678,901,234,567,000.0"],
    "SELECT FORMAT(1e22, 0), FORMAT(0.125, 2), FORMAT(-0.4, 0)": [
        "10,000,000,000,000,000,000,000",
        "0.13",
        "0",
    ],
    "SELECT FORMAT(1234567.891, 2, 'de_DE'), FORMAT(-1234567, 0, 'en_IN')": [
        *("1.234.567,89", "-12,34,567"),
    ],
    "SELECT FORMAT(1234.5, 1, 'FR_fr'), FORMAT(123, 0, 'ru_RU'), FORMAT(1e6, 1, 'de_CH')": [
        *("1234,5", "123", "1'000'000.0"),
    ],
    "SELECT FORMAT(1234.5, 1, NULL), FORMAT(1234.5, 1, 'xx'), FORMAT(1234.5, NULL)": [
        *("1,234.5", "1,234.5", None),
    ],
    "SELECT INTERVAL(3, 1, NULL, 5), INTERVAL(3, NULL, NULL, 5)": ["2", "2"],
    "SELECT INTERVAL(6, 1, NULL, 5), INTERVAL(0, NULL, 1), INTERVAL(2, 1, 2, 3)": ["3", "1", "2"],
    "SELECT MID('abcdef', 3), MID('abcdef', -2), MID('abcdef', 2, 2)": ["cdef", "ef", "bc"],
}
MOMENTS = {  # a number is read by its digits, not as the text that it is printed as
    "SELECT CAST(1e20 AS TIME), CAST(3.4e10 AS TIME), CAST(-1e-100 AS TIME)": [
        *(None, None, "00:00:00"),
    ],
    "SELECT CAST(34000000000.0 AS TIME), CAST(8386000.5 AS TIME)": [None, None],
    "SELECT CAST(8385959.5 AS TIME), CAST(20240101101112.5 AS TIME(1)), CAST(-101.5 AS TIME(1))": [
        *("838:59:59", "10:11:12.5", "-00:01:01.5"),
    ],
    "SELECT TIME(1e-7), SECOND(3.4e1), HOUR(1.01112e5)": ["00:00:00.000000", "34", "10"],
    "SELECT DATE_ADD(10101, INTERVAL 1 DAY), ADDDATE(10101, 1)": ["2001-01-02", "2001-01-02"],
    "SELECT DATE_ADD(127, INTERVAL 1 DAY), DATE_SUB(101, INTERVAL 1 DAY)": [
        *("2000-01-28", "1999-12-31"),
    ],
    "SELECT n + INTERVAL 1 DAY, n + INTERVAL 1 HOUR FROM t WHERE id = 3": [
        *("2001-01-02", "2001-01-01 01:00:00"),
    ],
    "SELECT DATE_ADD(2.0240101e7, INTERVAL 1 DAY), DATE_ADD(20240131101112.5, INTERVAL 1 DAY)": [
        *("2024-01-02", "2024-02-01 10:11:12.500000"),
    ],
    "SELECT DATE_ADD(100, INTERVAL 1 DAY), DATE_ADD('10101', INTERVAL 1 DAY)": [None, "2010-10-02"],
    "SELECT FROM_DAYS(1), FROM_DAYS(365), FROM_DAYS(366), FROM_DAYS(3652425)": [
        *("0000-00-00", "0000-00-00", "0001-01-01", "0000-00-00"),
    ],
    "SELECT UNIX_TIMESTAMP('3001-01-18 23:59:59'), UNIX_TIMESTAMP('3001-01-19')": [
        *("32536771199", "0"),
    ],
    "SELECT UNIX_TIMESTAMP('9999-12-31 23:59:59.5'), UNIX_TIMESTAMP('1969-12-31 23:59:58.5')": [
        *("0.0", "0.0"),
    ],
}
GROUPS = {
    "SELECT GROUP_CONCAT(n ORDER BY 1) FROM t": ["-3,10,10101"],
    "SELECT GROUP_CONCAT(n, '-', id ORDER BY 3 DESC SEPARATOR ' ') FROM t": ["10101-3 10-2 -3-1"],
    "SELECT GROUP_CONCAT(DISTINCT g ORDER BY 1 DESC) FROM t": ["2,1"],
    # a quotient has more digits than it shows, in an aggregate too
    "SELECT SUM(n/3), SUM(n/3)*100, ROUND(SUM(n/3)*100, 2) FROM q": [
        "1.6667",
        "166.6667",
        "166.67",
    ],
    "SELECT SUM(n/3) FROM q JOIN (SELECT 1) x": ["1.6667"],
    "SELECT AVG(n)*3, AVG(n)*100, ROUND(AVG(n), 6), MAX(n/7)*7 FROM q WHERE id > 1": [
        *("4.0000", "133.3333", "1.333333", "2.0000"),
    ],
    "SELECT AVG(n) OVER ()*3, SUM(n/3) OVER ()*3 FROM q WHERE id > 1 LIMIT 1": ["4.0000", "4.0000"],
    "SELECT SUM(n/3), AVG(n)*3 FROM q WHERE id < 4 GROUP BY n": ["1.0000", "3.0000"],
    "SELECT 1 FROM q WHERE id > 1 HAVING AVG(n) > 1.3333 AND AVG(n) < 1.3334": ["1"],
    "SELECT SUM(d/3)*3, AVG(d)*7, SUM(b/7)*7 FROM q": [
        "6.650000",
        "15.516667",
        "9223372036854775807.0000",
    ],
}
SUMS = {  # WITH ROLLUP: each sum follows its rows, NULL is the first group
    "SELECT g, COUNT(*) FROM t GROUP BY g WITH ROLLUP": [
        *([None, "1"], ["1", "1"], ["2", "2"], [None, "4"]),
    ],
    "SELECT g, id, COUNT(*) FROM t GROUP BY g, id WITH ROLLUP": [
        *([None, "4", "1"], [None, None, "1"], ["1", "1", "1"], ["1", None, "1"]),
        *(["2", "2", "1"], ["2", "3", "1"], ["2", None, "2"], [None, None, "4"]),
    ],
    "SELECT IFNULL(g, 'none') k, SUM(n) FROM t GROUP BY g WITH ROLLUP LIMIT 3": [
        *(["none", None], ["1", "-3"], ["2", "10111"]),
    ],
    "SELECT COUNT(*) FROM t WHERE id > 1 GROUP BY g WITH ROLLUP HAVING COUNT(*) > 1": [
        *(["2"], ["3"]),
    ],
    "SELECT g, COUNT(*) FROM t GROUP BY g WITH ROLLUP ORDER BY COUNT(*) DESC, g": [
        *([None, "4"], ["2", "2"], [None, "1"], ["1", "1"]),
    ],
}
NESTED = {  # the key of a case-insensitive text is part of DuckDB's query more than once
    "SELECT id FROM x WHERE c = (SELECT MAX(c) FROM x)": [["3"]],
    "SELECT id FROM x WHERE c < (SELECT MAX(c) FROM x y WHERE y.id < 3) ORDER BY id": [["1"]],
    "SELECT id, c > (SELECT MIN(c) FROM x) FROM x ORDER BY id": [
        ["1", "0"],
        ["2", "1"],
        ["3", "1"],
    ],
    "SELECT id FROM x WHERE c IN ((SELECT MAX(c) FROM x), 'q')": [["3"]],
    "SELECT id FROM x WHERE c BETWEEN 'a' AND (SELECT c FROM x WHERE id = 2) ORDER BY id": [
        *(["1"], ["2"]),
    ],
    "SELECT id FROM x ORDER BY (SELECT MAX(y.c) FROM x y WHERE y.id <> x.id), id": [
        *(["3"], ["1"], ["2"]),
    ],
    "SELECT (SELECT MAX(c) FROM x) m FROM x GROUP BY m": [["C"]],
    "SELECT MAX(c) FROM x HAVING MAX(c) <= (SELECT MAX(c) FROM x)": [["C"]],
    "SELECT id FROM x WHERE (c, id) = (SELECT MAX(c), MAX(id) FROM x)": [["3"]],
}


@pytest.fixture(scope="module", params=["tidb", "mysql"])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with World() as world:
        session = world.session()
        session.execute(f"SET GLOBAL exuvia_compatibility = '{request.param}'")
        session = world.session()
        session.execute("CREATE TABLE t (id INT PRIMARY KEY, g INT, n INT)")
        session.execute(
            "INSERT INTO t VALUES (1, 1, -3), (2, 2, 10), (3, 2, 10101), (4, NULL, NULL)"
        )
        session.execute(
            "CREATE TABLE x (id INT PRIMARY KEY, c VARCHAR(9) COLLATE utf8mb4_general_ci)"
        )
        session.execute("CREATE TABLE q (id INT PRIMARY KEY, n INT, d DECIMAL(8,2), b BIGINT)")
        session.execute(
            "INSERT INTO q VALUES (1, 1, 1.1, 9223372036854775807), (2, 1, 2.25, 0),"
            " (3, 1, 3.3, 0), (4, 2, NULL, NULL)"
        )
        session.execute("INSERT INTO x VALUES (1, 'a'), (2, 'b'), (3, 'C')")
        session.execute(
            "CREATE TABLE w (id INT, c VARCHAR(9) COLLATE utf8mb4_general_ci, d DECIMAL(50, 2),"
            " y YEAR, e ENUM('a'), b VARBINARY(9), j JSON, t TIMESTAMP)"
        )
        session.execute("INSERT INTO w VALUES (1, 'a', 1, 2024, 'a', 'a', '1', '2024-01-01')")
        years = "VALUES (0), (2000), (2024), (1999), (NULL)"
        for definition in ("plain (y YEAR)", "indexed (y YEAR, KEY (y))", "parted (y YEAR)"):
            rest = " PARTITION BY HASH (y) PARTITIONS 4" if "parted" in definition else ""
            session.execute(f"CREATE TABLE {definition}{rest}")
            session.execute(f"INSERT INTO {definition.split()[0]} {years}")
        yield session


def rows_of(session: Session, statement: str) -> list[list[str | None]]:
    found = answer(session, statement)
    assert "rows" in found, (statement, found)
    rows: list[list[str | None]] = found["rows"]
    return rows


@pytest.mark.parametrize("statement", [*SIGNS, *NUMBERS, *MOMENTS, *GROUPS])
def test_one_row(session: Session, statement: str) -> None:
    expected = (SIGNS | NUMBERS | MOMENTS | GROUPS)[statement]
    for _ in range(2):  # planned, and by the plan that was kept
        assert rows_of(session, statement) == [expected]


@pytest.mark.parametrize("column", ["c", "id", "d", "y", "e", "b", "j", "t"])
def test_an_untyped_null_of_a_subquery_compares_with_every_type(
    session: Session, column: str
) -> None:
    for condition, expected in (
        (f"{column} IN (SELECT NULL FROM t)", "0"),
        (f"{column} NOT IN (SELECT NULL FROM t WHERE id > 9)", "1"),
        (f"{column} > ALL (SELECT NULL FROM t WHERE id > 9)", "1"),
        (f"{column} = ANY (SELECT NULL FROM t)", "0"),
        (f"NULL IN (SELECT {column} FROM w)", "0"),
        (f"({column}, 1) NOT IN (SELECT NULL, 2 FROM t)", "1"),
    ):
        assert rows_of(session, f"SELECT COUNT(*) FROM w WHERE {condition}") == [[expected]]


@pytest.mark.parametrize("statement", YEARS)
def test_years(session: Session, statement: str) -> None:
    for table in ("plain", "indexed", "parted"):
        for _ in range(2):
            assert rows_of(session, statement.format(table)) == [YEARS[statement]], table


@pytest.mark.parametrize("statement", [*SUMS, *NESTED])
def test_rows_in_order(session: Session, statement: str) -> None:
    assert rows_of(session, statement) == (SUMS | NESTED)[statement]


def test_an_unknown_locale_is_a_warning(session: Session) -> None:
    rows_of(session, "SELECT FORMAT(1, 0, NULL), FORMAT(1, 0, 'xx')")
    assert rows_of(session, "SHOW WARNINGS") == [
        ["Warning", "1649", "Unknown locale: 'NULL'"],
        ["Warning", "1649", "Unknown locale: 'xx'"],
    ]


def test_sysdate_is_the_time_of_the_call(session: Session) -> None:
    """SET timestamp changes NOW() alone; tidb_sysdate_is_now makes both the same."""
    session.execute("SET timestamp = 86400, time_zone = '+00:00'")
    query = "SELECT NOW(), SYSDATE() > '2020-01-01', SYSDATE(3) > SYSDATE() - INTERVAL 1 MINUTE"
    assert rows_of(session, query) == [["1970-01-02 00:00:00", "1", "1"]]
    session.execute("SET tidb_sysdate_is_now = ON")
    assert rows_of(session, "SELECT SYSDATE() = NOW()") == [["1"]]


def test_a_decimal_zero_has_no_sign(session: Session) -> None:
    query = "SELECT 0/-1, 0*-1.5, -0.001/3, 1.5*-n, -n/7 FROM (SELECT 0 AS n) q"
    assert rows_of(session, query) == [["0.0000", "0.0", "-0.0003333", "0.0", "0.0000"]]


def test_a_chain_of_decimal_divisions_keeps_nine_words(session: Session) -> None:
    """81 digits, as in MySQL. The first quotient has four digits in one word of nine."""
    assert rows_of(session, "SELECT 1/3/3, 1/3/3/3") == [["0.11111111", "0.037037037000"]]
    for divisor, count in (("3", 60), ("7.1234567", 30), ("0.5", 150), ("0.000000001", 6)):
        quotient = rows_of(session, f"SELECT 12.5{f' / {divisor}' * count}")[0][0]
        assert quotient is not None
        exact = 12.5 / float(divisor) ** count
        assert float(quotient) == pytest.approx(exact, rel=1e-6, abs=1e-20), divisor
    chain = "1" + "/3" * 19
    assert rows_of(session, f"SELECT {'9' * 65} % ({chain}) < {chain}") == [["1"]]
    assert answer(session, f"SELECT 1{' / 0.000000001' * 12}") == {"error": [1690, "22003"]}


CHARACTERS = {  # the bytes of CHAR(.. USING ..) and of hexadecimal literals are in the charset
    "CHAR(201 USING latin1), CONVERT(x'C9' USING latin1), _latin1 x'C9'": ["É", "É", "É"],
    "CAST(x'E9' AS CHAR CHARACTER SET latin1), HEX(CHAR(201))": ["é", "C9"],
    "CHAR(0xC389, 65 USING utf8mb4), CHAR(0xC4E3 USING gbk)": ["ÉA", "你"],
    "CHAR(201 USING utf8mb4), CHAR(65, 201 USING utf8), CHAR(201 USING ascii)": [None, None, None],
    "CONVERT(x'61E4' USING utf8mb4), CAST(x'61E4' AS CHAR), CAST(b AS CHAR(5))": [None, None, None],
    "CAST(x'6162' AS CHAR(1)), CONVERT(b USING latin1), CONVERT(b USING gbk)": ["a", "aä", None],
}
WIDE_CHARACTERS = {
    "CHAR(201 USING utf16), CHAR(8364 USING ucs2), CHAR(128512 USING utf32)": ["É", "€", "😀"],
    "CHAR(0xD83DDE00 USING utf16), CHAR(0xD83D USING utf16)": ["😀", None],
    "CHAR(0x4100 USING utf16le), CHAR(65, 66 USING utf32)": ["A", "\u4142"],
}


def test_characters_are_of_the_charset_of_their_bytes(session: Session) -> None:
    mode = rows_of(session, "SELECT @@exuvia_compatibility")[0][0]
    for text, expected in CHARACTERS.items():
        given = "(SELECT CAST(x'61E4' AS BINARY) AS b) AS given"
        assert rows_of(session, f"SELECT {text} FROM {given}") == [expected], text
    assert answer(session, "SELECT CHAR(65 USING nosuch)") == {"error": [1115, "42000"]}
    for text, expected in WIDE_CHARACTERS.items():
        if mode == "mysql":
            assert rows_of(session, f"SELECT {text}") == [expected], text
        else:
            assert answer(session, f"SELECT {text}") == {"error": [1115, "42000"]}
    rows_of(session, "SELECT CHAR(65, 201 USING utf8mb4)")
    warning = ["Warning", "1300", "Invalid utf8mb4 character string: 'C9'"]
    assert rows_of(session, "SHOW WARNINGS") == [warning]
    answer(session, "SET sql_mode = ''")
    assert rows_of(session, "SELECT CHAR(65, 201 USING utf8mb4)") == [["A"]]
    assert rows_of(session, "SELECT CAST(x'61E4' AS CHAR)") == [["a"]]
    answer(session, "SET GLOBAL tidb_enable_check_constraint = 1")
    generated = "g VARCHAR(9) AS (CHAR(id USING latin1)) STORED"
    check = "CHECK (g <> CHAR(250 USING latin1))"
    answer(session, f"CREATE TABLE chars (id INT, {generated}, {check})")
    answer(session, "INSERT INTO chars (id) VALUES (201), (65)")
    assert rows_of(session, "SELECT g FROM chars") == [["É"], ["A"]]
    assert "char(`id` using latin1)" in str(rows_of(session, "SHOW CREATE TABLE chars"))
    assert answer(session, "INSERT INTO chars (id) VALUES (250)") == {"error": [3819, "HY000"]}
