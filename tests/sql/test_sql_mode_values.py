"""The modes and settings that change values: NO_UNSIGNED_SUBTRACTION, REAL_AS_FLOAT, NO_ZERO_DATE,
NO_ZERO_IN_DATE, ERROR_FOR_DIVISION_BY_ZERO, NO_ENGINE_SUBSTITUTION, div_precision_increment and
default_collation_for_utf8mb4. Answers are MySQL's; a division by zero in a query is TiDB's warning.

Each by text, by a kept plan on both sides of the change, prepared, and by DuckDB (GROUP BY).
"""

from decimal import Decimal

import pytest

from exuvia.catalog.sysvar.definition import MODES
from exuvia.sql.evaluate.cast import text_of
from support.world import error, rows, run


@pytest.fixture
def table(session):
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, u INT UNSIGNED, d DECIMAL(8,2))")
    run(session, "INSERT INTO t VALUES (1, 1, 2, 10), (2, 5, 1, 1)")
    return session


def mode(session, name):
    run(session, f"SET sql_mode = '{name}'" if name != "DEFAULT" else "SET sql_mode = DEFAULT")


def ways(session, expression):
    """The expression's value in row 1, by each way to it."""
    answers = [
        run(session, f"SELECT {expression} FROM t WHERE id = 1"),
        run(session, f"SELECT {expression} FROM t WHERE id = ?", [1]),
        run(session, f"SELECT MAX({expression}) FROM t GROUP BY id ORDER BY id LIMIT 1"),
        run(session, f"SELECT {expression} FROM t JOIN (SELECT 1 AS one) x ON id = one"),
    ]
    found = [text_of(each.columns[0].type)(each.rows[0][0]) for each in answers]
    assert found.count(found[0]) == len(found), found
    return found[0]


def test_subtraction(table):
    for _ in range(2):
        mode(table, "DEFAULT")
        assert error(table, "SELECT u - 3 FROM t WHERE id = 1")[0] == 1690
        assert error(table, "SELECT MAX(u - 3) FROM t GROUP BY id")[0] == 1690
        mode(table, "NO_UNSIGNED_SUBTRACTION")
        assert ways(table, "u - 3") == "-1"
        assert ways(table, "a - u") == "-1"
        assert ways(table, "CAST(0 AS UNSIGNED) - 1") == "-1"
        assert error(table, "SELECT 18446744073709551615 - 1")[0] == 1690
        assert rows(table, "SELECT id FROM t WHERE u - 2 = -1") == [[2]]


def test_a_stored_subtraction_keeps_its_meaning(table):
    mode(table, "NO_UNSIGNED_SUBTRACTION")
    run(table, "CREATE TABLE g (u INT UNSIGNED, s BIGINT AS (u - 3), KEY (s))")
    assert error(table, "INSERT INTO g (u) VALUES (1)")[0] == 1690
    run(table, "INSERT INTO g (u) VALUES (5)")
    run(table, "CREATE TABLE c (u INT UNSIGNED, CHECK (u - 3 < 10))")
    assert error(table, "INSERT INTO c VALUES (1)")[0] == 1690
    assert rows(table, "SELECT u - 3, s FROM g WHERE u - 3 = 2") == [[2, 2]]


def test_an_index_on_a_quotient_serves_only_its_own_scale(session):
    run(session, "CREATE TABLE q (a INT, b INT, INDEX e ((a / b)))")
    run(session, "INSERT INTO q VALUES (1, 3)")
    for digits, found in ((4, []), (6, [[1]]), (4, [])):
        run(session, f"SET div_precision_increment = {digits}")
        assert rows(session, "SELECT a FROM q WHERE CAST(a / b AS CHAR) = '0.333333'") == found


def test_division(table):
    for digits, text in ((10, "0.3333333333"), (0, "0"), (4, "0.3333"), (30, "0." + "3" * 30)):
        run(table, f"SET div_precision_increment = {digits}")
        assert ways(table, "a / 3") == text
    run(table, "SET div_precision_increment = 6")
    assert ways(table, "d / 3") == "3.33333333"
    assert rows(table, "SELECT AVG(a), AVG(d) FROM t") == [[3, Decimal("5.5")]]
    average = "SELECT {} FROM t".format
    for text in ("AVG(a / 3)", "AVG(u)"):
        by_duck = rows(table, average(f"{text}, COUNT(DISTINCT a)"))[0][0]
        assert rows(table, average(text)) == [[by_duck]]
        assert -by_duck.as_tuple().exponent == (12 if "/" in text else 6)
    run(table, "CREATE TABLE m AS SELECT a / 3 AS q FROM t")
    assert "`q` decimal(16,6)" in rows(table, "SHOW CREATE TABLE m")[0][1]


def test_real_is_float_or_double(session):
    mode(session, "REAL_AS_FLOAT")
    run(session, "CREATE TABLE r (a REAL, `real` INT, c VARCHAR(9) DEFAULT 'real')")
    run(session, "ALTER TABLE r ADD COLUMN d REAL")
    mode(session, "DEFAULT")
    run(session, "ALTER TABLE r ADD COLUMN e REAL")
    shown = rows(session, "SHOW CREATE TABLE r")[0][1]
    for line in ("`a` float", "`real` int", "DEFAULT 'real'", "`d` float", "`e` double"):
        assert line in shown


DATES = [  # sql_mode, what is written, what is stored: None where it is 1292
    ("STRICT_TRANS_TABLES", "2020-00-10", "2020-00-10"),
    ("STRICT_TRANS_TABLES", "0000-00-00", "0000-00-00"),
    ("STRICT_TRANS_TABLES,NO_ZERO_IN_DATE", "2020-00-10", None),
    ("STRICT_TRANS_TABLES,NO_ZERO_IN_DATE", "2020-10-00", None),
    ("STRICT_TRANS_TABLES,NO_ZERO_IN_DATE", "0000-00-00", "0000-00-00"),
    ("STRICT_ALL_TABLES,NO_ZERO_DATE", "2020-00-10", "2020-00-10"),
    ("STRICT_ALL_TABLES,NO_ZERO_DATE", "0000-00-00", None),
    ("NO_ZERO_IN_DATE", "2020-00-10", "0000-00-00"),
    ("NO_ZERO_DATE", "2020-00-10", "2020-00-10"),
    ("NO_ZERO_DATE", "0000-00-00", "0000-00-00"),
    ("", "2020-00-10", "2020-00-10"),
]


@pytest.mark.parametrize(("name", "written", "stored"), DATES)
@pytest.mark.parametrize("kind", ["DATE", "DATETIME"])
def test_zero_dates_and_zeros_in_dates(session, name, written, stored, kind):
    run(session, f"CREATE TABLE z (id INT AUTO_INCREMENT PRIMARY KEY, a {kind})")
    mode(session, name)
    for text, values in (
        (f"INSERT INTO z (a) VALUES ('{written}')", None),
        ("INSERT INTO z (a) VALUES (?)", [written]),
        (f"INSERT INTO z (a) SELECT '{written}'", None),
    ):
        if stored is None:
            assert error(session, text, values)[0] == 1292
        else:
            run(session, text, values)
            at = rows(session, "SELECT LEFT(CONCAT(a), 10) FROM z ORDER BY id DESC LIMIT 1")
            assert at == [[stored]]
    if stored is None:
        assert error(session, f"CREATE TABLE zd (a {kind} DEFAULT '{written}')")[0] == 1067
    elif stored == written:
        run(session, f"CREATE TABLE zd (a {kind} DEFAULT '{written}')")


def test_division_by_zero_in_writes(table):
    run(table, "CREATE TABLE n (a INT)")
    for name, code, warnings in (
        ("STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO", 1365, None),
        ("STRICT_TRANS_TABLES", 0, []),
        ("ERROR_FOR_DIVISION_BY_ZERO", 0, [1365]),
        ("", 0, []),
    ):
        mode(table, name)
        for text in (
            "INSERT INTO n VALUES (1 / 0)",
            "INSERT INTO n SELECT a MOD 0 FROM t WHERE id = 1",
            "UPDATE t SET d = a DIV 0 WHERE id = 1",
        ):
            if code:
                assert error(table, text)[0] == code
            else:
                run(table, text)
                assert [note.code for note in table.warnings] == warnings
    assert rows(table, "SELECT DISTINCT a FROM n") == [[None]]


def test_stored_expressions_divide_by_the_writers_mode(session):
    """A generated column and a CHECK know no session, but their division by zero is the writer's:
    an error where it asks for one, a warning, or nothing."""
    run(session, "CREATE TABLE g (a INT, b INT AS (10 / a) STORED)")
    run(session, "CREATE TABLE c (a INT, CHECK (10 / a > 1))")
    for name, codes in (
        ("STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO", None),
        ("ERROR_FOR_DIVISION_BY_ZERO", [1365]),
        ("STRICT_ALL_TABLES", []),
        ("", []),
    ):
        mode(session, name)
        for table_name in "gc":
            text = f"INSERT INTO {table_name} (a) VALUES (0)"
            if codes is None:
                assert error(session, text)[0] == 1365
            else:
                run(session, text)
                assert [note.code for note in session.warnings] == codes, (name, table_name)
    assert rows(session, "SELECT * FROM g") == [[0, None]] * 3


def test_a_strict_write_refuses_what_a_check_cannot_read(session):
    run(session, "CREATE TABLE c (a VARCHAR(9), CHECK (a > 0))")
    assert error(session, "INSERT INTO c VALUES ('1x')")[0] == 1292
    mode(session, "")
    run(session, "INSERT INTO c VALUES ('1x')")
    assert [note.code for note in session.warnings] == [1292]


ZEROS = [  # sql_mode, what 0000-00-00 and 2020-00-10 are for STR_TO_DATE, and 0000-00-00 for CAST
    ("", "0000-00-00", "2020-00-10", "0000-00-00"),
    ("NO_ZERO_DATE", None, "2020-00-10", None),
    ("NO_ZERO_IN_DATE", "0000-00-00", None, "0000-00-00"),
    ("NO_ZERO_DATE,NO_ZERO_IN_DATE", None, None, None),
]


@pytest.mark.parametrize(("name", "zero", "parts", "cast"), ZEROS, ids=[each[0] for each in ZEROS])
def test_zero_dates_in_queries(session, name, zero, parts, cast):
    run(session, "CREATE TABLE z (v VARCHAR(20))")
    run(session, "INSERT INTO z VALUES ('0000-00-00')")
    mode(session, name)
    read = "STR_TO_DATE({}, '%Y-%m-%d')".format
    for source in ("'0000-00-00'", "v"):
        texts = [f"CONCAT({read(source)})", f"CONCAT(CAST({source} AS DATE))"]
        texts += [f"LEFT(CAST({source} AS DATETIME), 10)", f"LEFT(CONVERT({source}, DATE), 10)"]
        for text in (f"SELECT {', '.join(texts)} FROM z", f"SELECT MAX({texts[1]}) FROM z"):
            found = rows(session, text)[0]
            assert found == ([zero, cast, cast, cast] if len(found) > 1 else [cast]), text
    assert rows(session, f"SELECT CONCAT({read(repr('2020-00-10'))})") == [[parts]]
    for text, taken in (("0000-00-00", zero), ("2020-00-10", parts)):
        for literal in (f"DATE'{text}'", f"TIMESTAMP'{text} 00:00:00'"):
            if taken is None:
                assert error(session, f"SELECT {literal}")[0] == 1292
            else:
                assert rows(session, f"SELECT LEFT({literal}, 10)") == [[text]]


@pytest.mark.parametrize(("name", "zero", "parts"), [each[:3] for each in ZEROS])
def test_zero_dates_in_changes_of_columns(session, name, zero, parts):
    for text, stored in (("0000-00-00", zero), ("2020-00-10", parts)):
        mode(session, "")
        run(session, "CREATE TABLE z (v VARCHAR(20))")
        run(session, f"INSERT INTO z VALUES ('{text}')")
        strict = f"{name},STRICT_ALL_TABLES" if name else "STRICT_ALL_TABLES"
        mode(session, strict)
        if stored is None:
            assert error(session, "ALTER TABLE z MODIFY v DATE")[0] == 1292
            mode(session, name)
        run(session, "ALTER TABLE z MODIFY v DATE")
        assert rows(session, "SELECT CONCAT(v) FROM z") == [[stored or "0000-00-00"]]
        run(session, "DROP TABLE z")


def test_numbers_below_101_are_no_dates(session):
    run(session, "CREATE TABLE z (d DATETIME)")
    mode(session, "STRICT_ALL_TABLES")
    for number in ("1", "100", "1.5", "1e2"):
        assert error(session, f"INSERT INTO z VALUES ({number})")[0] == 1292
    mode(session, "")
    run(session, "INSERT INTO z VALUES (1), (100), (0), (101)")
    found = rows(session, "SELECT LEFT(d, 10) FROM z")
    assert sorted(found) == [["0000-00-00"]] * 3 + [["2000-01-01"]]


def test_no_timestamp_has_a_zero_in_its_date(session):
    run(session, "CREATE TABLE z (t TIMESTAMP NULL)")
    for zone in ("UTC", "+05:00"):
        run(session, f"SET time_zone = '{zone}'")
        mode(session, "STRICT_ALL_TABLES")
        assert error(session, "INSERT INTO z VALUES ('2020-00-10 10:00:00')")[0] == 1292
        mode(session, "")
        run(session, "INSERT INTO z VALUES ('2020-00-10 10:00:00'), ('2020-10-00')")
    assert rows(session, "SELECT COUNT(*) FROM z WHERE t = 0") == [[4]]


def test_engines(session):
    mode(session, "NO_ENGINE_SUBSTITUTION")
    assert error(session, "CREATE TABLE e (a INT) ENGINE = nosuch")[0] == 1286
    mode(session, "")
    run(session, "CREATE TABLE e (a INT) ENGINE = nosuch")
    assert [note.code for note in session.warnings] == [1286, 1266]
    run(session, "ALTER TABLE e ENGINE = nosuch")


def test_the_collation_of_utf8mb4(session):
    def collation(column="a"):
        text = f"SELECT COLLATION({column}) FROM c LIMIT 1"
        return rows(session, text)

    run(session, "SET default_collation_for_utf8mb4 = 'utf8mb4_general_ci'")
    run(session, "CREATE TABLE c (a VARCHAR(9), b VARCHAR(9) CHARACTER SET utf8mb4)")
    run(session, "INSERT INTO c VALUES ('x', 'x')")
    assert collation() == [["utf8mb4_bin"]]
    assert collation("b") == [["utf8mb4_general_ci"]]
    assert rows(session, "SELECT COLLATION(_utf8mb4'a')") == [["utf8mb4_general_ci"]]
    assert rows(session, "SELECT _utf8mb4'a' = _utf8mb4'A'") == [[1]]
    run(session, "ALTER TABLE c CONVERT TO CHARACTER SET utf8mb4")
    assert collation() == [["utf8mb4_general_ci"]]
    run(session, "CREATE DATABASE IF NOT EXISTS of_general CHARACTER SET utf8mb4")
    assert "utf8mb4_general_ci" in rows(session, "SHOW CREATE DATABASE of_general")[0][1]
    run(session, "DROP DATABASE of_general")
    run(session, "SET default_collation_for_utf8mb4 = DEFAULT")
    assert rows(session, "SELECT _utf8mb4'a' = _utf8mb4'A'") == [[0]]


@pytest.mark.parametrize("name", ["PAD_CHAR_TO_FULL_LENGTH", "TIME_TRUNCATE_FRACTIONAL"])
def test_modes_that_are_refused(session, name):
    before = rows(session, "SELECT @@sql_mode")
    for value in (f"'{name}'", f"'STRICT_TRANS_TABLES,{name}'", str(1 << MODES.index(name))):
        assert error(session, f"SET sql_mode = {value}")[0] == 1235
    assert rows(session, "SELECT @@sql_mode") == before
