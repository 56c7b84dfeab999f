"""What clients should not send: each is refused with MySQL's own code, and the session goes on."""

import pytest

from exuvia.base.errors import Refused
from exuvia.sql.session.session import Session
from support.world import error, rows, run


@pytest.mark.parametrize(
    ("text", "code", "state"),
    [
        ("", 1065, "42000"),
        ("   ;  ", 1065, "42000"),
        ("SELEC 1", 1064, "42000"),
        ("SELECT", 1064, "42000"),
        ("SELECT 'open", 1064, "42000"),
        ("SELECT \x00", 1064, "42000"),
        ("INSERT INTO", 1064, "42000"),
        ("CREATE TABLE t", 1113, "42000"),
        ("SELECT * FROM", 1064, "42000"),
        ("SELECT * FROM nope", 1146, "42S02"),
        ("SELECT * FROM nope.nope", 1146, "42S02"),
        ("SELECT nope", 1054, "42S22"),
        ("SELECT NOPE(1)", 1305, "42000"),
        ("SELECT SUM(1) FROM b WHERE SUM(1) > 0", 1111, "HY000"),
        ("INSERT INTO b VALUES (1, 2, 3)", 1136, "21S01"),
        ("INSERT INTO b VALUES (99999999999, 'x')", 1264, "22003"),
        ("INSERT INTO b VALUES (1, 'xxxxxxxxxxx')", 1406, "22001"),
        ("INSERT INTO b (id, id) VALUES (1, 1)", 1110, "42000"),
        ("INSERT INTO mysql.user VALUES (1)", 1142, "42000"),
        ("UPDATE mysql.tidb_ddl_job SET processing = 1", 1142, "42000"),
        ("DROP TABLE " + "x" * 65, 1059, "42000"),
        ("CREATE TABLE " + "x" * 65 + " (a int)", 1059, "42000"),
        ("CREATE DATABASE " + "x" * 65, 1059, "42000"),
        ("ALTER TABLE b ADD COLUMN " + "x" * 65 + " int", 1059, "42000"),
        ("CREATE INDEX " + "x" * 65 + " ON b (id)", 1059, "42000"),
        ("SELECT * FROM b LIMIT 'x'", 1064, "42000"),
        ("USE `no such`", 1049, "42000"),
        ("KILL 99", 1094, "HY000"),
        ("EXECUTE nothing", 1243, "HY000"),
        ("GRANT ALL ON *.* TO x", 1410, "42000"),
        ("LOAD DATA INFILE 'x' INTO TABLE b", 1290, "HY000"),
        ("SELECT ?", 1064, "42000"),
        ("ROLLBACK TO nowhere", 1305, "42000"),
    ],
)
def test_refused(session: Session, text: str, code: int, state: str) -> None:
    run(session, "CREATE TABLE b (id int PRIMARY KEY, v varchar(10))")
    run(session, "INSERT INTO b VALUES (1, 'kept')")
    assert error(session, text) == (code, state)
    assert rows(session, "SELECT * FROM b") == [[1, "kept"]]


def test_no_database_selected(session: Session) -> None:
    session.database = ""
    for text in ("SELECT * FROM t", "CREATE TABLE t (a int)", "SHOW TABLES", "DROP TABLE t"):
        assert error(session, text)[0] in (1046, 1051), text


def test_a_statement_of_many_megabytes(session: Session) -> None:
    run(session, "CREATE TABLE big (id int PRIMARY KEY, v longtext)")
    text = "x" * (16 << 20)
    assert error(session, f"INSERT INTO big VALUES (1, '{text}')")[0] == 8025
    part = text[: 5 << 20]
    run(session, f"INSERT INTO big VALUES (1, '{part}')")
    assert rows(session, "SELECT LENGTH(v) FROM big WHERE id = 1") == [[len(part)]]
    values = ", ".join(f"({n}, 'v{n}')" for n in range(2, 20_000))
    assert run(session, f"INSERT INTO big VALUES {values}").affected == 19_998


def test_a_failed_statement_of_many_rows_leaves_nothing(session: Session) -> None:
    run(session, "CREATE TABLE f (id int PRIMARY KEY)")
    values = ", ".join(f"({n % 500})" for n in range(501))
    assert error(session, f"INSERT INTO f VALUES {values}") == (1062, "23000")
    assert rows(session, "SELECT COUNT(*) FROM f") == [[0]]


NUMBERS_ANYWHERE = (
    "SELECT {}",
    "SELECT -{}, '{}' + 0, {}.5 * 2, 0.{}",
    "SELECT CAST('{}' AS SIGNED), CAST({} AS DECIMAL(65)), CAST(1 AS DECIMAL({}))",
    "SELECT NOW() + INTERVAL '{}' DAY, NOW() + INTERVAL {} YEAR",
    "SELECT NOW() + INTERVAL '{}:{}' DAY_HOUR, NOW() + INTERVAL '{}-1' YEAR_MONTH",
    "SELECT TIMESTAMPADD(SECOND, '{}', NOW()), MAKEDATE({}, 1), SEC_TO_TIME({})",
    "SELECT INET_ATON('{}'), INET_ATON('1.{}'), CONV('{}', 10, 16), CHAR({})",
    "SELECT SUBSTRING('abc', {}), ROUND({}, -9), 1 % {}, {} DIV 2, 1 << {}, {} & 1",
    "SELECT JSON_EXTRACT('[1]', '$[{}]')",
    "SELECT JSON_EXTRACT('[1]', '$[last-{}]')",
    "SELECT JSON_SET('[1]', '$[0]', {})",
    "SELECT CAST('{}' AS JSON)",
    "SELECT CAST('[1e{}]' AS JSON)",
    "SELECT * FROM n WHERE id = {}",
    "SELECT * FROM n WHERE id > '{}' OR e = {} OR s = {} OR d < {}",
    "SELECT * FROM n ORDER BY {}",
    "SELECT * FROM n LIMIT {}",
    "SELECT 1 UNION SELECT 2 ORDER BY {}",
    "INSERT INTO n (id) VALUES ({})",
    "INSERT INTO n (e) VALUES ('{}')",
    "INSERT INTO n (s) VALUES ('{}')",
    "INSERT INTO n (b) VALUES ({})",
    "SELECT /*+ MAX_EXECUTION_TIME({}) */ 1",
    "SET max_execution_time = {}",
    "SET max_execution_time = '{}'",
    "SET sql_mode = '{}'",
    "SET @n = {}",
    "KILL {}",
    "SHOW WARNINGS LIMIT {}",
    "ADMIN CANCEL DDL JOBS {}",
    "ADMIN SHOW DDL JOBS {}",
    "BATCH ON id LIMIT {} DELETE FROM n WHERE id = 7",
    "CREATE TABLE m (a VARCHAR({}))",
    "CREATE TABLE m (a INT DEFAULT {})",
    "CREATE TABLE m (a BIT(8) DEFAULT {})",
    "CREATE TABLE m (a INT) PARTITION BY HASH (a) PARTITIONS {}",
    "CREATE TABLE m (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN ({}))",
    *(f"CREATE TABLE m (a INT) {option} = {{}}" for option in ("AUTO_INCREMENT", "MAX_ROWS")),
    *(f"ALTER TABLE n {option} = {{}}" for option in ("AUTO_INCREMENT", "AUTO_ID_CACHE")),
    "ALTER TABLE n SHARD_ROW_ID_BITS = {}",
    "CREATE SEQUENCE m START WITH {}",
    "CREATE SEQUENCE m INCREMENT BY -{}",
)


@pytest.mark.parametrize("text", NUMBERS_ANYWHERE)
@pytest.mark.parametrize("digits", [23, 5000])
def test_a_number_of_many_digits_is_cut_or_refused(
    session: Session, text: str, digits: int
) -> None:
    run(
        session,
        "CREATE TABLE n (id INT PRIMARY KEY, e ENUM('a'), s SET('b'), b BIT(8), d DECIMAL(65, 2))",
    )
    try:
        run(session, text.replace("{}", "9" * digits))
    except Refused as refusal:
        assert refusal.code != 1105 or "internal error" not in refusal.message
    assert rows(session, "SELECT COUNT(*) FROM n") == [[0]]


@pytest.mark.parametrize("rest", ["", " WHERE a = 1", " JOIN n USING (a)", " ORDER BY (SELECT 1)"])
def test_stars_name_as_many_columns_as_a_prepared_statement(session: Session, rest: str) -> None:
    """A statement of 8 KB could name a million and take gigabytes."""
    columns = ", ".join(f"c{n} INT" for n in range(1000))
    run(session, f"CREATE TABLE w (a INT PRIMARY KEY, {columns})")
    run(session, "CREATE TABLE n (a INT PRIMARY KEY)")
    assert error(session, f"SELECT {', '.join(['w.*'] * 66)} FROM w{rest}") == (1117, "HY000")
    assert rows(session, f"SELECT 1, w.*, w.* FROM w{rest}") == []
