"""A value keeps its type on every route: the same value, stored in the same bytes.

routes    VALUES, SELECT with names and with *, through DuckDB, by a user variable, as a
          parameter of EXECUTE and of the protocol, CREATE TABLE ... SELECT, UPDATE, a dump
zones     a stored TIMESTAMP is UTC. What a query yields is of the session's zone; the type
          that the client is shown says TIMESTAMP
"""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from exuvia.base.types import TypeCode
from exuvia.catalog.convert.values import to_text
from exuvia.catalog.temporal import MOST_TIME
from exuvia.kv.packet import Span
from exuvia.server.packets import described
from exuvia.sql import types
from exuvia.sql.parse.literals import TypedValue
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from support.world import World, error, rows, run

# -- every type by every route ---------------------------------------------------------------------

VALUES = {
    "INT": ["-5", "0"],
    "BIGINT UNSIGNED": ["18446744073709551615", "7"],
    "TINYINT": ["-128"],
    "DECIMAL(10,3)": ["1.5", "-0.001"],
    "DECIMAL(38,10)": ["1234567890123456789012345678.0123456789"],
    "FLOAT": ["0.1", "-3e10"],
    "DOUBLE": ["0.1", "1e300"],
    "DATE": ["'2024-02-29'"],
    "DATETIME": ["'2024-02-29 10:11:12'"],
    "DATETIME(6)": ["'2024-02-29 10:11:12.123456'"],
    "TIMESTAMP": ["'2024-02-29 10:11:12'", "'2024-07-01 00:00:00'"],
    "TIMESTAMP(3)": ["'2024-02-29 10:11:12.123'"],
    "TIME": ["'-10:11:12'"],
    "TIME(6)": ["'101:11:12.123456'"],
    "YEAR": ["2024"],
    "BIT(10)": ["b'1100000001'"],
    "CHAR(5)": ["'ab'"],
    "CHAR(5) CHARSET binary": ["'ab'"],
    "VARCHAR(30)": ["'a b '", "'Straße'"],
    "VARCHAR(30) CHARSET ascii": ["'ab'"],
    "BINARY(4)": ["x'4100'"],
    "VARBINARY(30)": ["x'00ff27'"],
    "TEXT": ["'long'"],
    "BLOB": ["x'ff00'"],
    "ENUM('x','yy')": ["'yy'"],
    "SET('p','q')": ["'p,q'", "''"],
    "JSON": ['\'{"b": [1, 2.5, null], "a": "x"}\'', "'\"t\"'"],
}
ZONES = ["+00:00", "+05:30", "America/New_York"]


def _stored(world: World, session: Session, name: str) -> list[bytes]:
    """What the store holds of a table's rows, without the commit's stamp."""
    with world.store.read() as txn:
        table = world.services.schemas.table(txn, session.database, name)
        prefix = table.row_prefix
        return [raw for _, raw in txn.scan(Span(prefix, prefix + b"\xff"))]


def _execute(session: Session, text: str) -> None:
    run(session, f"PREPARE p FROM '{text}'")
    run(session, "EXECUTE p USING @v")


def _by_protocol(session: Session, literal: str) -> None:
    """As drivers bind: a date as its text, bytes as bytes."""
    (given,) = rows(session, "SELECT x FROM s")
    kind = run(session, "SELECT x FROM s").columns[0].type
    value: Any = given[0]
    if (
        kind.Tp in (TypeCode.BIT, TypeCode.ENUM, TypeCode.SET)
        or not isinstance(value, int | float | bytes)
        or kind.family.name in ("DATE", "DATETIME", "TIME")
    ):
        value = to_text(value, kind)
    prepared = session.prepare("INSERT INTO t VALUES (1, ?)")
    session.execute_prepared(prepared, [value.encode("latin-1") if literal[0] == "b" else value])


ROUTES: dict[str, Callable[[Session, str], object]] = {
    "named": lambda s, literal: run(s, "INSERT INTO t SELECT id, x FROM s"),
    "star": lambda s, literal: run(s, "INSERT INTO t SELECT * FROM s"),
    "table star": lambda s, literal: run(s, "INSERT INTO t SELECT s.* FROM s"),
    "replace": lambda s, literal: run(s, "REPLACE INTO t SELECT * FROM s"),
    "distinct": lambda s, literal: run(s, "INSERT INTO t SELECT DISTINCT * FROM s"),
    "sorted": lambda s, literal: run(s, "INSERT INTO t SELECT * FROM s ORDER BY x LIMIT 3"),
    "update": lambda s, literal: (
        run(s, "INSERT INTO t VALUES (1, NULL)"),
        run(s, "UPDATE t JOIN s USING (id) SET t.x = s.x"),
    ),
    "subquery": lambda s, literal: (
        run(s, "INSERT INTO t VALUES (1, NULL)"),
        run(s, "UPDATE t SET x = (SELECT x FROM s)"),
    ),
    "on duplicate": lambda s, literal: (
        run(s, "INSERT INTO t VALUES (1, NULL)"),
        run(s, "INSERT INTO t SELECT * FROM s ON DUPLICATE KEY UPDATE x = VALUES(x)"),
    ),
    "read on duplicate": lambda s, literal: (
        run(s, "INSERT INTO t VALUES (1, NULL)"),
        run(s, "INSERT INTO t SELECT 1, NULL FROM s ON DUPLICATE KEY UPDATE t.x = s.x"),
    ),
    "derived": lambda s, literal: run(s, "INSERT INTO t SELECT * FROM (SELECT * FROM s) d"),
    "cte": lambda s, literal: run(s, "INSERT INTO t WITH c AS (SELECT * FROM s) SELECT * FROM c"),
    "union": lambda s, literal: run(s, "INSERT INTO t SELECT * FROM s UNION ALL SELECT * FROM n"),
    "join": lambda s, literal: run(s, "INSERT INTO t SELECT a.* FROM s a JOIN s b USING (id)"),
    "outer join": lambda s, literal: run(
        s, "INSERT INTO t SELECT 1, b.x FROM (SELECT 1 AS id) a LEFT JOIN s b USING (id)"
    ),
    "aggregate": lambda s, literal: run(s, "INSERT INTO t SELECT 1, MAX(x) FROM s GROUP BY id"),
    "window": lambda s, literal: run(
        s, "INSERT INTO t SELECT id, FIRST_VALUE(x) OVER (ORDER BY id) FROM s"
    ),
    "choice": lambda s, literal: run(s, "INSERT INTO t SELECT 1, COALESCE(NULL, x) FROM s"),
    "view": lambda s, literal: run(s, "INSERT INTO t SELECT * FROM v"),
    "variable": lambda s, literal: (
        run(s, "SELECT x INTO @v FROM s"),
        run(s, "INSERT INTO t VALUES (1, @v)"),
    ),
    "set variable": lambda s, literal: (
        run(s, "SET @v = (SELECT x FROM s)"),
        run(s, "INSERT INTO t SELECT 1, @v"),
    ),
    "execute": lambda s, literal: (
        run(s, "SELECT x INTO @v FROM s"),
        _execute(s, "INSERT INTO t VALUES (1, ?)"),
    ),
    "execute update": lambda s, literal: (
        run(s, "INSERT INTO t VALUES (1, NULL)"),
        run(s, "SELECT x INTO @v FROM s"),
        _execute(s, "UPDATE t SET x = ?"),
    ),
    "protocol": _by_protocol,
}
_NO_ORDER = ("JSON", "BIT(10)", "ENUM('x','yy')", "SET('p','q')")


@pytest.mark.parametrize("kind", VALUES)
def test_the_same_bytes_by_every_route(world: World, session: Session, kind: str) -> None:
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, x {kind} NULL)")
    run(session, "CREATE TABLE s LIKE t")
    run(session, "CREATE TABLE n LIKE t")
    run(session, "CREATE VIEW v AS SELECT * FROM s")
    for number, literal in enumerate(VALUES[kind]):
        for zone in ZONES if kind.startswith("TIMESTAMP") else ZONES[number % 2 : number % 2 + 1]:
            run(session, f"SET time_zone = '{zone}'")
            run(session, "DELETE FROM s")
            run(session, f"INSERT INTO s VALUES (1, {literal})")
            expected = _stored(world, session, "s")
            assert len(expected) == 1
            for route, put in ROUTES.items():
                if route == "aggregate" and kind in _NO_ORDER:
                    continue  # MAX of an ENUM is a text, of JSON by its own order
                run(session, "DELETE FROM t")
                put(session, literal)
                assert _stored(world, session, "t") == expected, (kind, literal, zone, route)
            run(session, "ADMIN CHECK TABLE s, t EXTENDED")
            run(session, "CREATE TABLE made AS SELECT * FROM s")
            same = "SELECT made.x = s.x, made.x <=> s.x FROM made JOIN s USING (id)"
            assert rows(session, same) == [[1, 1]], (kind, literal, zone)
            run(session, "DROP TABLE made")


@pytest.mark.parametrize("zone", ZONES)
def test_a_dump_of_a_timestamp_is_read_back(
    world: World, session: Session, zone: str, tmp_path: Path
) -> None:
    session.services = replace(session.services, secure_file_priv=str(tmp_path))
    run(session, f"SET time_zone = '{zone}'")
    run(session, "CREATE TABLE t (ts TIMESTAMP(2) NULL, d DATETIME(2))")
    run(session, "INSERT INTO t VALUES ('2024-07-01 10:00:00.25', '2024-07-01 10:00:00.25')")
    run(session, f"SELECT * FROM t INTO OUTFILE '{tmp_path}/dump'")
    run(session, "CREATE TABLE z LIKE t")
    run(session, f"LOAD DATA INFILE '{tmp_path}/dump' INTO TABLE z")
    assert _stored(world, session, "z") == _stored(world, session, "t")


@pytest.mark.parametrize("ends", ["", " FIELDS TERMINATED BY ',' ENCLOSED BY '\"'"])
def test_a_dump_of_bits_is_read_back(
    world: World, session: Session, ends: str, tmp_path: Path
) -> None:
    """A BIT is written as its bytes, which need not be characters of the file's character set."""
    session.services = replace(session.services, secure_file_priv=str(tmp_path))
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, b BIT(9), c BIT(64))")
    run(session, "INSERT INTO t VALUES (1, 255, 18446744073709551615), (2, 1, 0), (3, NULL, 97)")
    run(session, f"SELECT * FROM t INTO OUTFILE '{tmp_path}/dump'{ends}")
    run(session, "CREATE TABLE z LIKE t")
    run(session, f"LOAD DATA INFILE '{tmp_path}/dump' INTO TABLE z{ends}")
    assert _stored(world, session, "z") == _stored(world, session, "t")


# -- TIMESTAMP and zones ---------------------------------------------------------------------------


def test_a_default_that_the_clocks_skip_is_refused(session: Session) -> None:
    """In no mode, as in MySQL: the rows before the column would have another moment than an INSERT
    stores."""
    run(session, "SET time_zone = 'Europe/Berlin', sql_mode = ''")
    run(session, "CREATE TABLE t (i INT PRIMARY KEY, d DATETIME DEFAULT '2024-03-31 02:30:00')")
    kind = "TIMESTAMP NULL DEFAULT '2024-03-31 02:30:00'"
    for text in (
        f"CREATE TABLE u (c {kind})",
        f"ALTER TABLE t ADD COLUMN c {kind}",
        f"ALTER TABLE t MODIFY d {kind}",
    ):
        assert error(session, text)[0] == 1067, text
    run(session, f"ALTER TABLE t ADD COLUMN c {kind.replace('02:30', '03:30')}")


@pytest.mark.parametrize("made", ["TABLE", "TEMPORARY TABLE"])
def test_a_written_default_is_of_the_zone_that_wrote_it(session: Session, made: str) -> None:
    run(session, "SET time_zone = 'Europe/Berlin'")
    column = "ts TIMESTAMP NULL DEFAULT '2024-01-01 10:00:00'"
    run(session, f"CREATE {made} t ({column}, i INT)")
    run(session, f"CREATE {made} s ({column}) SELECT 1 AS i")
    run(session, "INSERT INTO t (i) VALUES (1)")
    for name in "ts":
        assert rows(session, f"SELECT CAST(ts AS CHAR) FROM {name}") == [["2024-01-01 10:00:00"]]


def test_what_a_client_and_a_definition_are_told_of_a_timestamp(session: Session) -> None:
    """TIMESTAMP in every zone, of a column, what is picked from it and what derives from it."""
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP(3) NOT NULL)")
    run(session, "CREATE VIEW v AS SELECT ts FROM t")
    queries = [
        *("ts FROM t", "* FROM t", "t.* FROM t", "MAX(ts) FROM t", "ts FROM v"),
        "DISTINCT ts FROM t",
        *("ts FROM t UNION SELECT ts FROM t", "ts FROM (SELECT ts FROM t) d"),
        "(SELECT ts FROM t) AS x",
        *("LAG(ts) OVER () FROM t", "b.ts FROM t a LEFT JOIN t b USING (id)"),
    ]
    for query in queries:
        told = []
        for zone in ZONES:
            run(session, f"SET time_zone = '{zone}'")
            column = run(session, f"SELECT {query}").columns[-1]
            told.append((column.definition_type, column.origin, column.table))
        assert told[0][0].Tp == TypeCode.TIMESTAMP, query
        assert [each[0].Decimal for each in told] == [3, 3, 3], query
        assert {(each[0].Tp, *each[1:]) for each in told} == {(TypeCode.TIMESTAMP, *told[0][1:])}
        run(session, f"CREATE TABLE made AS SELECT {query}")
        assert "timestamp(3)" in rows(session, "SHOW CREATE TABLE made")[0][1], query
        run(session, "DROP TABLE made")


def test_another_zone_changes_no_variable(session: Session) -> None:
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NULL)")
    run(session, "INSERT INTO t VALUES (1, '2024-07-01 10:00:00')")
    for zone in ZONES:
        run(session, f"SET time_zone = '{zone}'")
        ((seen,),) = rows(session, "SELECT CAST(ts AS CHAR) FROM t")
        run(session, "SELECT ts INTO @a FROM t")
        run(session, "SET @b = (SELECT ts FROM t)")
        run(session, "SELECT @c := ts FROM t")
        run(session, "SET time_zone = '-07:00'")
        for name in "abc":
            assert rows(session, f"SELECT CAST(@{name} AS CHAR)") == [[seen]], (zone, name)


def test_default_of_a_timestamp_is_of_the_zone(session: Session) -> None:
    run(session, "SET time_zone = '+05:30'")
    run(session, "CREATE TABLE t (id INT, ts TIMESTAMP NULL DEFAULT '2024-01-01 10:00:00')")
    run(session, "INSERT INTO t VALUES (1, DEFAULT)")
    found = "SELECT CAST(DEFAULT(ts) AS CHAR), DEFAULT(ts) = ts FROM t"
    assert rows(session, found) == [["2024-01-01 10:00:00", 1]]
    run(session, "INSERT INTO t VALUES (2, DEFAULT(ts))")
    run(session, "UPDATE t SET ts = DEFAULT(ts) WHERE id = 1")
    assert rows(session, "SELECT COUNT(*) FROM t WHERE ts = '2024-01-01 10:00:00'") == [[2]]


# -- variables as parameters -----------------------------------------------------------------------

TYPED = {
    "DATE'2024-02-29'": "DATE",
    "TIMESTAMP'2024-02-29 10:11:12'": "DATETIME",
    "TIMESTAMP'2024-02-29 10:11:12.123456'": "DATETIME(6)",
    "TIME'-10:11:12'": "TIME",
    "TIME'10:11:12.5'": "TIME(1)",
    "CAST('[1, 2]' AS JSON)": "JSON",
    "CAST(5 AS UNSIGNED)": "BIGINT UNSIGNED",
    "CAST(1.50 AS DECIMAL(10,2))": "DECIMAL(10,2)",
    "x'4142'": "VARBINARY(10)",
    "0.1e0": "DOUBLE",
    "'text'": "VARCHAR(10)",
    "NULL": "INT",
}
COLUMNS = [
    "BIGINT",
    "DOUBLE",
    "DECIMAL(30,6)",
    "VARCHAR(60)",
    "VARBINARY(60)",
    "JSON",
    "DATETIME(6)",
]


@pytest.mark.parametrize("literal", TYPED)
def test_a_parameter_has_the_type_of_its_variable(session: Session, literal: str) -> None:
    """What a column of any type takes of the expression it takes of EXECUTE's parameter: stored
    alike, or refused alike."""
    run(session, f"SET @v = {literal}")
    for kind in [*COLUMNS, TYPED[literal]]:
        run(session, "DROP TABLE IF EXISTS t")
        run(session, f"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, x {kind})")
        run(session, "PREPARE p FROM 'INSERT INTO t (x) VALUES (?)'")
        # a hexadecimal literal is a number only where it is written
        direct = f"INSERT INTO t (x) SELECT CONCAT({literal}) " if literal[0] == "x" else None
        code = None
        try:
            run(session, direct or f"INSERT INTO t (x) SELECT {literal}")
        except Exception as refusal:
            code = refusal.code  # type: ignore[attr-defined]
        if code is not None:
            assert error(session, "EXECUTE p USING @v")[0] == code, kind
            continue
        run(session, "EXECUTE p USING @v")
        run(session, "EXECUTE p USING @v")
        (first, *others) = rows(session, "SELECT x FROM t ORDER BY id")
        assert others == [first, first], kind
        if literal == "NULL":
            continue
        run(session, "PREPARE q FROM 'SELECT COUNT(*) FROM t WHERE x = ?'")
        run(session, "PREPARE r FROM 'SELECT COUNT(*) FROM t WHERE x IN (?, ?)'")
        for indexed in (False, True):
            if indexed and kind != "JSON":
                run(session, "ALTER TABLE t ADD INDEX (x)")
            (expected,) = rows(session, "SELECT COUNT(*) FROM t WHERE x = @v")
            assert rows(session, "EXECUTE q USING @v") == [expected], (kind, indexed)
            assert rows(session, "EXECUTE r USING @v, @v") == [expected], (kind, indexed)
            if kind == TYPED[literal]:
                assert expected == [3]


def test_a_date_that_a_driver_binds_is_no_text(session: Session) -> None:
    moment = run(session, "SELECT TIMESTAMP'2024-01-01 10:11:12', TIME'10:11:12'").rows[0]
    given = [TypedValue(moment[0], types.datetime()), TypedValue(moment[1], types.time())]

    def bound(text: str) -> list[object]:
        found = session.execute_prepared(session.prepare(text), given[: text.count("?")])
        return [encode(found, n) for n in range(len(found.columns))]

    def encode(found: Result, n: int) -> object:
        value, kind = found.rows[0][n], found.columns[n].type
        return to_text(value, kind) if kind.family.name == "DATETIME" else value

    assert bound("SELECT CAST(? AS DECIMAL(20)), ? + 1") == [20240101101112, 101113]
    assert bound("SELECT ? + INTERVAL 1 DAY") == ["2024-01-02 10:11:12"]
    assert bound("SELECT ? IN ('2024-01-01T10:11:12', 'x'), CAST(? AS CHAR)") == [1, "10:11:12"]
    run(session, "CREATE TABLE bound (v VARCHAR(30), b BIGINT, e ENUM('2024-01-01 10:11:12'))")
    insert = session.prepare("INSERT INTO bound VALUES (?, ?, ?)")
    session.execute_prepared(insert, [given[0]] * 3)
    expected = ["2024-01-01 10:11:12", 20240101101112, "2024-01-01 10:11:12"]
    assert rows(session, "SELECT v, b, CONCAT(e) FROM bound") == [expected]
    find = session.prepare("SELECT COUNT(*) FROM bound WHERE v = ? AND FIELD(?, v)")
    assert session.execute_prepared(find, [given[0]] * 2).rows == [[1]]


def test_an_unsigned_variable_is_an_unsigned_parameter(session: Session) -> None:
    run(session, "SET @v = CAST(5 AS UNSIGNED)")
    run(session, "PREPARE p FROM 'SELECT ? - 6'")
    assert error(session, "EXECUTE p USING @v") == (1690, "22003")


def test_a_range_of_dates_by_execute(session: Session) -> None:
    run(session, "CREATE TABLE t (d DATE PRIMARY KEY, ts TIMESTAMP, KEY (ts))")
    run(session, "SET time_zone = '-03:00'")
    for day in range(1, 10):
        run(session, f"INSERT INTO t VALUES ('2024-01-0{day}', '2024-01-0{day} 23:00:00')")
    run(session, "SET @a = DATE'2024-01-03', @b = TIMESTAMP'2024-01-05 23:00:00'")
    for column, expected in (("d", 3), ("ts", 3)):
        run(session, f"PREPARE p FROM 'SELECT COUNT(*) FROM t WHERE {column} BETWEEN ? AND ?'")
        assert rows(session, "EXECUTE p USING @a, @b") == [[expected]]
        assert rows(session, "EXECUTE p USING @a, @b") == [[expected]]


def test_a_statement_is_prepared_from_the_text_of_its_variable(session: Session) -> None:
    run(session, "SET @q = CAST('SELECT 7' AS BINARY)")
    run(session, "PREPARE p FROM @q")
    assert rows(session, "EXECUTE p") == [[7]]


def test_a_variable_holds_the_text_of_an_enum(session: Session) -> None:
    run(session, "CREATE TABLE t (e ENUM('9', '1'), s SET('a', 'b'), b BIT(8), y YEAR)")
    run(session, "INSERT INTO t VALUES ('9', 'a,b', 65, 2024)")
    run(session, "SELECT * INTO @e, @s, @b, @y FROM t")
    assert rows(session, "SELECT @e, @e + 1, @s, @b + 1, @y + 1") == [["9", 10.0, "a,b", 66, 2025]]
    run(
        session, "PREPARE p FROM 'SELECT COUNT(*) FROM t WHERE e = ? AND s = ? AND b = ? AND y = ?'"
    )
    assert rows(session, "EXECUTE p USING @e, @s, @b, @y") == [[1]]


# -- what a foreign key carries --------------------------------------------------------------------

CASCADES = [
    # parent, child, value, new value; None where the child takes it, else the refusal of a strict
    # mode. Where none holds, what is cut or rounded refers to nothing: 1452
    ("VARCHAR(20)", "VARCHAR(3)", "'ab'", "'abcdef'", 1406),
    ("VARCHAR(20)", "VARCHAR(3)", "'ab'", "'abc'", None),
    ("VARBINARY(8)", "VARBINARY(2)", "x'41'", "x'414243'", 1406),
    ("BINARY(2)", "BINARY(4)", "x'41'", "x'4142'", 1452),
    ("DECIMAL(10,3)", "DECIMAL(10,1)", "1.5", "2.5", None),
    ("DECIMAL(10,3)", "DECIMAL(10,1)", "1.5", "2.125", 1452),
    ("DECIMAL(10,3)", "DECIMAL(4,3)", "1.5", "1000.125", 1264),
    ("DATETIME(6)", "DATETIME", "'2024-01-01'", "'2024-01-02'", None),
    ("DATETIME(6)", "DATETIME", "'2024-01-01'", "'2024-01-01 00:00:00.25'", 1452),
    ("TIMESTAMP(3)", "TIMESTAMP", "'2024-01-01'", "'2024-01-02'", None),
    ("BIT(8)", "BIT(3)", "b'1'", "b'1111'", 1406),
    ("ENUM('a', 'b')", "ENUM('x', 'y')", "1", "2", None),
]


@pytest.mark.parametrize(("parent", "child", "old", "new", "expected"), CASCADES)
def test_a_cascade_stores_what_the_childs_column_holds(
    session: Session, parent: str, child: str, old: str, new: str, expected: int | None
) -> None:
    run(session, "SET time_zone = '+05:30'")
    run(session, f"CREATE TABLE p (a {parent} PRIMARY KEY)")
    key = "FOREIGN KEY (a) REFERENCES p (a) ON UPDATE CASCADE"
    run(session, f"CREATE TABLE c (a {child}, KEY (a), {key})")
    run(session, f"INSERT INTO p VALUES ({old})")
    if (parent, child) != ("BINARY(2)", "BINARY(4)"):
        run(session, f"INSERT INTO c VALUES ({old})")
    update = f"UPDATE p SET a = {new}"
    if expected is None:
        run(session, update)
        assert rows(session, "SELECT COUNT(*) FROM c") == [[1]]
    elif rows(session, "SELECT COUNT(*) FROM c") != [[0]]:
        assert error(session, update)[0] == expected
        run(session, "SET sql_mode = ''")
        assert error(session, update)[0] == 1452
        run(session, "SET sql_mode = DEFAULT")
    else:
        assert error(session, f"INSERT INTO c VALUES ({old})")[0] == expected
    assert rows(session, "SELECT COUNT(*) FROM p JOIN c ON p.a + 0 = c.a + 0") == [[1]] or expected
    run(session, "ADMIN CHECK TABLE p, c EXTENDED")


# -- defaults --------------------------------------------------------------------------------------

DEFAULTS = [
    *("BINARY(4) DEFAULT x'41'", "BINARY(4) NOT NULL DEFAULT x'41'", "BINARY(4) DEFAULT 'A'"),
    *("CHAR(4) CHARSET binary DEFAULT 'A'", "CHAR(4) CHARSET binary DEFAULT x'41'"),
    *("VARBINARY(4) DEFAULT x'41'", "BINARY(4) DEFAULT (x'41')", "CHAR(4) DEFAULT x'41'"),
    *("ENUM('b', 'a') DEFAULT 'a'", "SET('b', 'a') DEFAULT 'a,b'", "BIT(10) DEFAULT b'101'"),
    *("DECIMAL(10,2) DEFAULT 1.555", "YEAR DEFAULT 0", "YEAR DEFAULT '0'", "DATE DEFAULT 20240101"),
    *("DATETIME(1) DEFAULT '2024-01-01 10:00:00.66'", "TIME DEFAULT '10:00:00.6'"),
    *("TIMESTAMP(2) NULL DEFAULT '2024-01-01 10:00:00.666'", "FLOAT DEFAULT 0.1"),
]


@pytest.mark.parametrize("definition", DEFAULTS)
def test_a_default_is_stored_as_its_value_is(session: Session, definition: str) -> None:
    """Not given, by the word, by DEFAULT(x), by ADD COLUMN to old rows, and as the value itself."""
    run(session, "SET time_zone = '+05:30'")
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, x {definition}, KEY (x))")
    literal = definition.partition("DEFAULT ")[2]
    run(session, f"INSERT INTO t VALUES (1, {literal})")
    run(session, "INSERT INTO t (id) VALUES (2)")
    run(session, "INSERT INTO t VALUES (3, DEFAULT)")
    if "(x'" not in definition:
        run(session, "INSERT INTO t VALUES (4, DEFAULT(x))")
    assert len({repr(x) for (x,) in rows(session, "SELECT x FROM t")}) == 1
    (row,) = rows(session, "SELECT x, COUNT(*), COUNT(DISTINCT x) FROM t GROUP BY x")
    run(session, "CREATE TABLE old (id INT PRIMARY KEY)")
    run(session, "INSERT INTO old VALUES (1)")
    run(session, f"ALTER TABLE old ADD COLUMN x {definition}")
    run(session, "INSERT INTO old (id) VALUES (2)")
    run(session, "ALTER TABLE old ADD INDEX (x)")
    assert rows(session, "SELECT x FROM old") == [[row[0]], [row[0]]]
    assert rows(session, "SELECT COUNT(*) FROM old JOIN t USING (x)") == [[2 * row[1]]]
    run(session, "ADMIN CHECK TABLE t, old EXTENDED")


def test_a_default_longer_than_its_binary_column(session: Session) -> None:
    assert error(session, "CREATE TABLE t (x BINARY(2) DEFAULT x'414243')") == (1067, "42000")


# -- ids -------------------------------------------------------------------------------------------


def test_auto_increment_beside_auto_random(session: Session) -> None:
    columns = "id BIGINT AUTO_RANDOM PRIMARY KEY, n INT NOT NULL AUTO_INCREMENT, x INT, KEY (n)"
    run(session, f"CREATE TABLE t ({columns})")
    run(session, "INSERT INTO t (x) VALUES (1), (2)")
    run(session, "INSERT INTO t (n, x) VALUES (NULL, 3), (0, 4), (DEFAULT, 5)")
    run(session, "INSERT INTO t (n, x) VALUES (10, 6)")
    run(session, "INSERT INTO t (x) SELECT 7")
    run(session, "REPLACE INTO t (x) VALUES (8)")
    found = rows(session, "SELECT n FROM t ORDER BY x")
    assert found == [[1], [2], [3], [4], [5], [10], [11], [12]]
    assert rows(session, "SELECT COUNT(DISTINCT id) FROM t") == [[8]]


def test_a_second_auto_random_is_refused(session: Session) -> None:
    key = "id BIGINT AUTO_RANDOM PRIMARY KEY"
    for columns in (f"{key}, m BIGINT AUTO_RANDOM", f"m BIGINT AUTO_RANDOM, {key}"):
        assert error(session, f"CREATE TABLE t ({columns})") == (8216, "HY000")


# -- comparisons of several types ------------------------------------------------------------------


def test_both_ends_of_a_mixed_between_are_numbers(session: Session) -> None:
    parts = "PARTITION p VALUES LESS THAN ('2021'), PARTITION q VALUES LESS THAN (MAXVALUE)"
    run(session, f"CREATE TABLE t (a VARCHAR(20)) PARTITION BY RANGE COLUMNS (a) ({parts})")
    run(session, "CREATE TABLE k (a VARCHAR(20), KEY (a))")
    for table in "tk":
        values = "('2019'), ('2020-01-01'), ('3'), ('1e3'), ('3000')"
        run(session, f"INSERT INTO {table} VALUES {values}")
        for ends in ("0 AND '2020-01-01'", "'0' AND 2020", "0.5 AND '2020'"):
            query = f"SELECT COUNT(*) FROM {table} WHERE a BETWEEN {ends}"
            assert rows(session, query) == [[4]], ends
        query = f"SELECT a FROM {table} WHERE a BETWEEN '2' AND '2020-01-01' ORDER BY a"
        assert rows(session, query) == [["2019"], ["2020-01-01"]]


def test_last_partition_by_the_text_of_a_moment(session: Session) -> None:
    steps = "INTERVAL (1 MONTH) FIRST PARTITION LESS THAN ('2024-01-01')"
    cut = f"RANGE COLUMNS (d) {steps} LAST PARTITION LESS THAN ('2024-03-01')"
    run(session, f"CREATE TABLE t (d DATE) PARTITION BY {cut}")
    run(session, "ALTER TABLE t LAST PARTITION LESS THAN ('2024-05-01 00:00:00')")
    run(session, "ALTER TABLE t LAST PARTITION LESS THAN (DATE'2024-06-01')")
    assert (
        error(session, "ALTER TABLE t LAST PARTITION LESS THAN ('2024-07-01 10:00:00')")[0] == 8200
    )
    run(session, "ALTER TABLE t FIRST PARTITION LESS THAN ('2024-02-01 00:00:00')")
    names = "SELECT partition_name FROM information_schema.partitions WHERE table_name = 't'"
    found = [name for (name,) in rows(session, f"{names} AND table_schema = DATABASE()")]
    assert found == [f"P_LT_2024-0{month}-01" for month in range(2, 7)]
    run(session, "INSERT INTO t VALUES ('2024-05-15')")
    assert len(rows(session, "SELECT * FROM t WHERE d = '2024-05-15'")) == 1


@pytest.mark.parametrize("where", ["b = x'41000000'", "b > x'41'", "b IN (0x41, x'42000000')"])
def test_a_partial_index_on_bytes(session: Session, where: str) -> None:
    run(
        session, f"CREATE TABLE t (id INT PRIMARY KEY, b BINARY(4), n INT, KEY k (n) WHERE {where})"
    )
    run(session, "INSERT INTO t VALUES (1, 'A', 1), (2, 'B', 2), (3, NULL, 3), (4, 'A', 4)")
    query = f"SELECT id FROM t {{}} WHERE {where} AND n > 0 ORDER BY id"
    plain = rows(session, query.format("IGNORE INDEX (k)"))
    assert plain and rows(session, query.format("FORCE INDEX (k)")) == plain
    run(session, "ADMIN CHECK TABLE t")


def test_a_hexadecimal_literal_finds_its_key(session: Session) -> None:
    run(session, "CREATE TABLE t (u BINARY(2) PRIMARY KEY, s VARCHAR(5), n INT, KEY (s), KEY (n))")
    run(session, "INSERT INTO t VALUES (x'4142', 'A', 65), (x'41', 'B', 66)")
    assert "Point_Get" in str(rows(session, "EXPLAIN SELECT n FROM t WHERE u = x'4142'"))
    assert rows(session, "SELECT n FROM t WHERE u = x'4142'") == [[65]]
    assert rows(session, "SELECT n FROM t WHERE u = x'41'") == []
    assert rows(session, "SELECT n FROM t WHERE u BETWEEN x'41' AND 0x4141") == [[66]]
    assert rows(session, "SELECT n FROM t WHERE n = x'41' AND s = x'41'") == [[65]]


def test_member_of_compares_the_whole_element(session: Session) -> None:
    expected = {
        "9 MEMBER OF ('9')": 1,
        "'9' MEMBER OF ('9')": 0,
        "'9' MEMBER OF ('\"9\"')": 1,
        "17 MEMBER OF ('[23, \"abc\", 17]')": 1,
        "'abc' MEMBER OF ('[23, \"abc\", 17]')": 1,
        "CAST('[1]' AS JSON) MEMBER OF ('[[1, 2]]')": 0,
        "CAST('[1, 2]' AS JSON) MEMBER OF ('[[1, 2]]')": 1,
        "NULL MEMBER OF ('[null]')": None,
    }
    for expression, value in expected.items():
        assert rows(session, f"SELECT {expression}") == [[value]], expression


def test_the_default_of_lead_decides_its_type_too(session: Session) -> None:
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    run(session, "INSERT INTO t VALUES (1, 10), (2, 20)")
    query = "SELECT CAST(LEAD(a, 1, {}) OVER (ORDER BY id) AS CHAR) FROM t"
    assert rows(session, query.format("'x'")) == [["20"], ["x"]]
    assert rows(session, query.format("1.5")) == [["20.0"], ["1.5"]]
    assert rows(session, query.format("0")) == [["20"], ["0"]]


# -- lengths on the wire ---------------------------------------------------------------------------


def test_lengths_that_clients_compute_from(session: Session) -> None:
    """As MySQL 8 sends them to a client of utf8mb4. A driver computes DECIMAL(p, s) from them."""
    expected = {
        "DECIMAL(10,2)": (12, 2),
        "DECIMAL(10,2) UNSIGNED": (11, 2),
        "DECIMAL(10)": (11, 0),
        "DECIMAL(10) UNSIGNED": (10, 0),
        "INT": (11, 0),
        "INT UNSIGNED": (10, 0),
        "BIGINT": (20, 0),
        "YEAR": (4, 0),
        "BIT(9)": (9, 0),
        "DATE": (10, 0),
        "DATETIME": (19, 0),
        "DATETIME(3)": (23, 3),
        "TIMESTAMP(6)": (26, 6),
        "TIME(6)": (17, 6),
        "FLOAT": (12, 31),
        "DOUBLE": (22, 31),
        "VARCHAR(10)": (40, 0),
        "CHAR(3)": (12, 0),
        "VARBINARY(5)": (5, 0),
        "ENUM('a','bcd')": (12, 0),
        "SET('a','bcd')": (20, 0),
        "TINYTEXT": (1_020, 0),
        "TEXT": (262_140, 0),
        "BLOB": (65_535, 0),
    }
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(expected))
    run(session, f"CREATE TABLE t ({columns})")
    for zone in ZONES:
        run(session, f"SET time_zone = '{zone}'")
        told = [described(c.definition_type) for c in run(session, "SELECT * FROM t").columns]
        found = [(each.length, each.scale) for each in told]
        assert dict(zip(expected, found, strict=True)) == expected
    column = run(session, "SELECT c0 + 1, c0 * c0 FROM t").columns
    assert [described(each.type).length for each in column] == [13, 22]


# -- hours that the clocks skip --------------------------------------------------------------------


def test_a_skipped_hour_is_the_next_valid_moment(session: Session) -> None:
    """Strict: 1292. Else the moment at which the clocks are put forward, with a warning."""
    run(session, "SET time_zone = 'America/New_York'")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP(3) NULL)")
    run(session, "CREATE TABLE d (id INT, x DATETIME)")
    run(session, "INSERT INTO d VALUES (6, '2024-03-10 02:30:00')")
    assert error(session, "INSERT INTO t VALUES (1, '2024-03-10 02:30:00')") == (1292, "22007")
    run(session, "INSERT IGNORE INTO t VALUES (1, '2024-03-10 02:30:00.5')")
    run(session, "SET sql_mode = ''")
    for put in (
        "INSERT INTO t VALUES (2, '2024-03-10 02:00:00')",
        "INSERT INTO t VALUES (3, '2024-03-10 02:59:59.999')",
        "INSERT INTO t VALUES (4, 20240310023000)",
        "INSERT INTO t VALUES (5, '2024-03-10 01:59:59.999')",
        "UPDATE t SET ts = '2024-03-10 02:10:00' WHERE id = 2",
        "INSERT INTO t SELECT * FROM d",
    ):
        run(session, put)
        warned = [note.code for note in session.warnings]
        assert warned == ([] if "01:59" in put else [1292]), put
    moments = "SELECT id FROM t WHERE ts = '2024-03-10 03:00:00' ORDER BY id"
    assert rows(session, moments) == [[1], [2], [3], [4], [6]]
    run(session, "ALTER TABLE d MODIFY x TIMESTAMP NULL")
    assert rows(session, "SELECT x = '2024-03-10 03:00:00' FROM d") == [[1]]
    unix = "SELECT UNIX_TIMESTAMP('2024-03-10 02:30:00'), UNIX_TIMESTAMP('2024-03-10 03:00:00')"
    assert rows(session, unix) == [[1_710_054_000, 1_710_054_000]]


def test_a_value_that_is_narrowed_is_one_of_its_column(session: Session) -> None:
    run(session, "SET sql_mode = ''")
    run(session, "CREATE TABLE t (id INT, f FLOAT, c CHAR(3), b BINARY(4) NOT NULL)")
    run(session, "INSERT INTO t VALUES (1, '1.1abc', 'ab  xyz', 'A'), (1, 1.1, 'ab', 'A')")
    assert rows(session, "SELECT COUNT(DISTINCT f), COUNT(DISTINCT c) FROM t") == [[1, 1]]
    run(session, "INSERT INTO t (id) VALUES (3)")
    assert rows(session, "SELECT HEX(b) FROM t WHERE id = 3") == [["00000000"]]


def test_a_round_of_a_cte_has_more_digits_than_its_seed(session: Session) -> None:
    rounds = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 500)"
    found = rows(session, f"{rounds} SELECT MAX(n * 0.5), MIN(-n * 0.25) FROM r")
    assert [str(each) for each in found[0]] == ["250.0", "-125.00"]


def test_rows_of_values_may_say_row(session: Session) -> None:
    run(session, "CREATE TABLE said (a INT PRIMARY KEY, b INT DEFAULT 5)")
    run(session, "INSERT INTO said VALUES ROW(1, 2), ROW(3, DEFAULT)")
    on_duplicate = "ON DUPLICATE KEY UPDATE b = n.b * 100"
    run(session, f"INSERT INTO said (b, a) VALUES ROW(7, 1), ROW(6 + 1, 4) AS n {on_duplicate}")
    assert rows(session, "SELECT * FROM said") == [[1, 700], [3, 5], [4, 7]]
    for mixed in ("ROW(8, 1), (9, 1)", "(8, 1), ROW(9, 1)"):
        assert error(session, f"INSERT INTO said VALUES {mixed}")[0] == 1064


def test_equal_hours_of_autumn_stay_two(session: Session) -> None:
    """A TIMESTAMP goes from table to table without passing through the local time, of which two
    moments have the same."""
    run(session, "SET time_zone = '+00:00'")
    run(session, "CREATE TABLE h (i INT PRIMARY KEY, t TIMESTAMP, u TIMESTAMP(3) NULL, KEY (t))")
    run(
        session,
        "INSERT INTO h (i, t) VALUES (1, '2024-10-27 00:30:00'), (2, '2024-10-27 01:30:00')",
    )
    run(session, "CREATE TABLE g (i INT PRIMARY KEY, t TIMESTAMP)")
    run(session, "CREATE VIEW v AS SELECT i, t FROM h")
    run(session, "SET time_zone = 'Europe/Berlin'")
    seconds = [[1, 1729989000], [2, 1729992600]]
    for query in COPIES:
        run(session, f"REPLACE INTO g {query}")
        assert rows(session, "SELECT i, UNIX_TIMESTAMP(t) FROM g ORDER BY i") == seconds, query
        run(session, f"CREATE TABLE c AS {query}")
        run(session, "SET time_zone = '+00:00'")
        copy = rows(session, "SELECT * FROM c ORDER BY 1")
        assert copy == rows(session, "SELECT i, t FROM h ORDER BY i"), query
        run(session, "SET time_zone = 'Europe/Berlin'")
        run(session, "DROP TABLE c")
    run(session, "UPDATE h SET u = t")
    assert rows(session, "SELECT i, UNIX_TIMESTAMP(u) FROM h ORDER BY i") == seconds
    run(session, "UPDATE g, h SET g.t = h.u WHERE g.i = 3 - h.i")
    run(session, "INSERT INTO g SELECT i, t FROM h ON DUPLICATE KEY UPDATE t = h.t")
    run(
        session,
        "INSERT INTO g VALUES (2, (SELECT t FROM h WHERE i = 2)) AS n"
        " ON DUPLICATE KEY UPDATE t = n.t",
    )
    assert rows(session, "SELECT i, UNIX_TIMESTAMP(t) FROM g ORDER BY i") == seconds
    assert rows(session, "SELECT COUNT(*) FROM h GROUP BY t") == [[1], [1]]
    assert rows(session, "SELECT COUNT(*) FROM h x JOIN h y ON x.t = y.t") == [[2]]
    assert rows(session, "SELECT COUNT(DISTINCT t), MAX(t) > MIN(t) FROM h") == [[2, 1]]
    assert rows(session, "SELECT i FROM h ORDER BY t DESC") == [[2], [1]]
    assert len(rows(session, "SELECT DISTINCT t FROM h")) == 2
    steps = "WITH RECURSIVE r AS (SELECT t FROM h WHERE i = 2 UNION ALL SELECT t + INTERVAL 1 HOUR"
    found = run(session, f"{steps} FROM r LIMIT 2) SELECT * FROM r")
    assert [to_text(row[0], found.columns[0].type)[11:] for row in found.rows] == [
        *("02:30:00", "03:30:00"),
    ]


COPIES = (
    *("SELECT i, t FROM h", "SELECT * FROM v"),
    *("SELECT DISTINCT i, t FROM h", "SELECT i, t FROM h ORDER BY t LIMIT 2"),
    "SELECT * FROM (SELECT i, t FROM h) d",
    "SELECT i, t FROM h UNION SELECT i, t FROM h",
    "WITH w AS (SELECT i, t FROM h) SELECT * FROM w",
    "SELECT x.i, y.t FROM h x LEFT JOIN h y USING (i)",
    "SELECT i, MAX(t) AS t FROM h GROUP BY i",
    "SELECT i, FIRST_VALUE(t) OVER (PARTITION BY i) AS t FROM h",
    "SELECT i, (SELECT t FROM h y WHERE y.i = x.i) AS t FROM h x",
    "SELECT i, COALESCE(u, t) AS t FROM h",
    "SELECT i, IF(i = 1, t, t) AS t FROM h",
    "SELECT i, CASE WHEN i THEN t END AS t FROM h",
    "SELECT i, GREATEST(t, COALESCE(u, t)) AS t FROM h",
    "SELECT i, t FROM h WHERE i = 1 UNION SELECT i, COALESCE(u, t) FROM h WHERE i = 2",
)


def test_texts_that_end_in_control_characters_sort_alike_in_both_engines(session: Session) -> None:
    """PAD SPACE: 'a' is beyond 'a' with a tab, and before 'a b'."""
    run(session, "CREATE TABLE p (i INT, a VARCHAR(9), b VARCHAR(9) COLLATE utf8mb4_general_ci)")
    run(session, "INSERT INTO p VALUES (1, 'a', 'a'), (2, 'a\\t', 'a\\t'), (3, 'a b', 'a b')")
    for name in "ab":
        for group in ("", f"GROUP BY i, {name}"):
            assert rows(session, f"SELECT i FROM p {group} ORDER BY {name}") == [[2], [1], [3]]
            found = rows(session, f"SELECT i FROM p WHERE {name} > x'6109' {group}")
            assert sorted(found) == [[1], [3]], (name, group)
        assert rows(session, f"SELECT MIN({name}) FROM p GROUP BY i > 0") == [["a\t"]]


def test_convert_tz_of_a_skipped_hour(session: Session) -> None:
    call = "CAST(CONVERT_TZ('2024-03-31 02:30:00{}', 'Europe/Berlin', '{}') AS CHAR)"
    query = f"SELECT {call.format('', 'UTC')}, {call.format('.5', 'Europe/Berlin')}"
    assert [text.rstrip("0.") for text in rows(session, query)[0]] == [
        *("2024-03-31 01:00:", "2024-03-31 03:00:00.5"),
    ]


def test_hexadecimal_literals_are_numbers_in_columns_of_numbers(session: Session) -> None:
    run(session, "CREATE TABLE x (i INT PRIMARY KEY, d DECIMAL(5,1), b VARBINARY(4))")
    run(session, "INSERT INTO x (b, i, d) SELECT x'41', 0xFF, b'11' AS n")
    run(session, "UPDATE x JOIN x y USING (i) SET x.d = 0x10, x.b = x'4142'")
    assert rows(session, "SELECT * FROM x") == [[255, Decimal("16.0"), b"AB"]]


NEAREST = [  # column, value, what is stored where no strict mode holds
    ("TINYINT", "DATE'2024-01-01'", 127),
    ("TINYINT", "TIME'-10:00:00'", -128),
    ("DECIMAL(5,2)", "TIMESTAMP'2024-01-01 10:00:00'", Decimal("999.99")),
    ("INT", "TIME'23:59:59.5'", 240000),
    ("BIGINT", "TIMESTAMP'2024-02-29 23:59:59.5'", 20240301000000),
    ("TIME", "TIMESTAMP'2024-01-01 23:59:59.5'", 24 * 3600 * 10**6),
    ("TIME", "'900:00:00'", MOST_TIME),
    ("TIME", "-9000000", -MOST_TIME),
    ("TIME", "'x'", 0),
    ("TIME", "9999", 0),
    ("SET('a','b','c')", "'a,x,c'", 5),
    ("SET('a','b','c')", "13", 5),
    ("SET('2024-01-01')", "DATE'2024-01-01'", 1),
    ("DATE", "10", 0),
]


@pytest.mark.parametrize(("column", "value", "expected"), NEAREST)
def test_the_nearest_value_is_stored_where_no_strict_mode_holds(
    session: Session, column: str, value: str, expected: object
) -> None:
    run(session, f"CREATE TABLE n (a {column})")
    run(session, "SET sql_mode = ''")
    run(session, f"INSERT INTO n VALUES ({value})")
    run(session, f"INSERT INTO n SELECT {value}")
    assert rows(session, "SELECT a FROM n") == [[expected]] * 2


def test_dates_beside_texts_and_numbers_compare_as_dates(session: Session) -> None:
    """GREATEST and LEAST: the text of the winner with its own digits, as in TiDB; texts compare
    where no argument is a date. TIME compares as a text, as in both."""
    columns = "d DATE, n DATETIME, m DATETIME(3), t TIME, v VARCHAR(30)"
    run(session, f"CREATE TABLE g (i INT PRIMARY KEY, {columns})")
    moments = "'2024-03-31', '2024-03-31 10:11:12', '2024-03-31 10:11:12.5', '10:11:12'"
    run(session, f"INSERT INTO g VALUES (1, {moments}, NULL)")
    cases = {
        "'2024-5-1'": ("2024-05-01", "2024-05-01 00:00:00", "2024-03-31 10:11:12.500", "2024-5-1"),
        "'2024-05-01 01:02:03.50'": (
            *("2024-05-01", "2024-05-01 01:02:03.50", "2024-03-31 10:11:12.500"),
            "2024-05-01 01:02:03.50",
        ),
        "20240501": ("2024-05-01", "2024-05-01 00:00:00", "2024-03-31 10:11:12.500", "20240501"),
        "'a'": ("2024-03-31", "2024-03-31 10:11:12", "2024-03-31 10:11:12.500", "a"),
    }
    items = "GREATEST(d, {0}), GREATEST({0}, n), LEAST(m, {0}), GREATEST(t, {0})"
    for literal, expected in cases.items():
        run(session, f"SET @v = {literal}")
        run(session, f"UPDATE g SET v = {literal}")
        run(session, f"PREPARE p FROM 'SELECT {items.format('?')} FROM g'")
        for text in (literal, "@v", "v"):
            found = rows(session, f"SELECT {items.format(text)} FROM g")
            assert found == [list(expected)], (literal, text)
        assert rows(session, "EXECUTE p USING @v, @v, @v, @v") == [list(expected)], literal
    found = rows(session, "SELECT GREATEST(d, x'61'), GREATEST(n, NULL), LEAST(d, 'a') FROM g")
    assert found == [[b"2024-03-31", None, "2024-03-31"]]


def test_a_text_is_a_date_or_a_time_by_what_it_says(session: Session) -> None:
    """TIMEDIFF, ADDTIME and EXTRACT, whether the text is a literal, a variable or a column: a
    column of texts was a TIME to ADDTIME, no TIME to EXTRACT, and TIMEDIFF lost days of all."""
    run(session, "CREATE TABLE x (i INT, d DATETIME, e DATETIME(3), t TIME, v VARCHAR(30), w TEXT)")
    moments = "'2024-01-03 10:00:00', '2024-01-01 09:00:00.5', '1:0:0'"
    run(session, f"INSERT INTO x VALUES (1, {moments}, NULL, NULL)")
    cases: dict[tuple[str, str], tuple[str | None, ...]] = {
        ("2024-01-03 10:00:00", "2024-01-01 09:00:00"): (
            *("49:00:00", "2024-01-03 11:00:00", "2024-01-01 10:00:00.500000", "10"),
        ),
        ("10:11:12", "1:0:0"): ("09:11:12", "11:11:12", "02:00:00.500000", "10"),
        ("10:11:12", "2024-01-01 09:00:00"): (
            *(None, "11:11:12", "2024-01-01 10:00:00.500000", "10"),
        ),
    }
    items = "TIMEDIFF({0}, {1}), ADDTIME({0}, '1:0:0'), ADDTIME({1}, '1:0:0.5')"
    items += ", EXTRACT(HOUR FROM {0})"
    for (one, two), expected in cases.items():
        run(session, f"SET @v = '{one}', @w = '{two}'")
        run(session, f"UPDATE x SET v = '{one}', w = '{two}'")
        for texts in ((f"'{one}'", f"'{two}'"), ("@v", "@w"), ("v", "w")):
            for group in ("", " GROUP BY i, v, w"):
                found = run(session, f"SELECT {items.format(*texts)} FROM x{group}")
                printed = [
                    None
                    if value is None
                    else str(to_text(value, column.type)).replace(".000000", "")
                    for value, column in zip(found.rows[0], found.columns, strict=True)
                ]
                assert printed == list(expected), (texts, group)
    run(session, "UPDATE x SET v = '2024-01-01 00:00:00.25'")
    run(session, "SET @v = '2024-01-01 00:00:00.25'")
    for text in ("'2024-01-01 00:00:00.25'", "@v", "v", "20240101000000.25"):
        assert rows(session, f"SELECT UNIX_TIMESTAMP({text}) = 1704067200.25 FROM x") == [[1]], text
    items = "TIMEDIFF(d, e), TIMEDIFF(e, d), TIMEDIFF(d, t), TIMEDIFF(d, '2023-01-01 00:00:00')"
    found = run(session, f"SELECT {items}, ADDTIME(100000.5, t), SUBTIME(1e5, t) FROM x")
    printed = [
        v and str(to_text(v, c.type)) for v, c in zip(found.rows[0], found.columns, strict=True)
    ]
    assert printed[:4] == ["48:59:59.500", "-48:59:59.500", None, "838:59:59"]
    assert printed[4:] == ["11:00:00.500000", "09:00:00.000000"]


def test_what_is_merged_keeps_its_digits_and_bytes(session: Session) -> None:
    columns = "d DATETIME, d6 DATETIME(6), t TIME, t3 TIME(3), f FLOAT, n TINYINT, b BIT(8)"
    run(session, f"CREATE TABLE m (i INT PRIMARY KEY, {columns}, y VARBINARY(4), v VARCHAR(9))")
    moments = "'2024-01-01 10:00:00', '2024-01-01 10:00:00.5', '10:00:00', '10:00:00.5'"
    run(session, f"INSERT INTO m VALUES (1, {moments}, 0.1, 5, b'11111111', x'ff00', '10')")

    def answer(items: str) -> Result:
        return run(session, f"SELECT {items}")

    found = answer("GREATEST(d, d6), LEAST(t3, '11:00:00'), GREATEST(d, '2000-01-01') FROM m")
    printed = [to_text(v, c.type) for v, c in zip(found.rows[0], found.columns, strict=True)]
    assert printed == ["2024-01-01 10:00:00.500000", "10:00:00.500", "2024-01-01 10:00:00"]
    for items in ("f FROM m UNION SELECT f FROM m WHERE i", "COALESCE(f, n) FROM m"):
        assert answer(items).columns[0].type.Tp == TypeCode.FLOAT, items
    assert answer("i FROM m UNION SELECT v + 0 FROM m").columns[0].type.Tp == TypeCode.DOUBLE
    assert answer("-f FROM m").columns[0].type.Tp == TypeCode.DOUBLE
    found = answer("GROUP_CONCAT(y), GROUP_CONCAT(b, v SEPARATOR '-') FROM m")
    assert found.rows == [[b"\xff\0", b"\xff10"]]
    found = answer("CONCAT(b, v), IF(i, b, v), CONCAT(y, b), v IN (10, DATE'2024-01-01') FROM m")
    assert found.rows == [[b"\xff10", b"\xff", b"\xff\0\xff", 1]]


def test_values_is_a_statement(session: Session) -> None:
    found = run(session, "VALUES ROW(1, 'a'), ROW(2, NULL) ORDER BY column_0 DESC LIMIT 2")
    assert [column.name for column in found.columns] == ["column_0", "column_1"]
    assert [list(row) for row in found.rows] == [[2, None], [1, "a"]]
    assert error(session, "VALUES ROW(1), ROW(1, 2)")[0] == 1136
    for text in ("VALUES 1", "VALUES (1)", "VALUES ROW()", "VALUES"):
        assert error(session, text)[0] == 1064, text
