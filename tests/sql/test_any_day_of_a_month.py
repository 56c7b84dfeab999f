"""ALLOW_INVALID_DATES: a column's DEFAULT may be the 31st of any month, and is read by whoever
comes later."""

import pytest

from exuvia.sql.schema import change
from support.world import World, error, rows, run

AS_TEXT = "SELECT CAST(d AS CHAR) FROM t ORDER BY a"


@pytest.fixture
def session():
    with World() as world:
        found = world.session()
        for text in ("CREATE DATABASE d", "USE d", "SET sql_mode = 'ALLOW_INVALID_DATES'"):
            run(found, text)
        yield found


def test_of_new_rows(session):
    run(session, "CREATE TABLE t (a INT, d DATE NOT NULL DEFAULT '2020-02-31')")
    run(session, "INSERT INTO t (a) VALUES (1)")
    run(session, "SET sql_mode = DEFAULT")
    run(session, "INSERT INTO t VALUES (2, DEFAULT)")
    assert rows(session, AS_TEXT) == [["2020-02-31"]] * 2
    run(session, "ANALYZE TABLE t ALL COLUMNS")
    assert rows(session, "SELECT a FROM t WHERE d > '2020-02-28' ORDER BY a") == [[1], [2]]
    assert rows(session, "SHOW STATS_TOPN WHERE Column_name = 'd'")[0][5] == "2020-02-31"
    assert "DEFAULT '2020-02-31'" in rows(session, "SHOW CREATE TABLE t")[0][1]
    assert error(session, "CREATE TABLE u (d DATE DEFAULT '2020-02-31')")[0] == 1067


@pytest.mark.parametrize("key", ["", ", KEY (d)"])
def test_of_what_is_compared(session, key):
    """By text, by a kept plan, prepared, by DuckDB; in the default mode there is no such date."""
    run(session, f"CREATE TABLE t (a INT, d DATE{key})")
    run(session, "INSERT INTO t VALUES (1, '2020-02-31'), (2, '2020-02-29')")
    run(session, "PREPARE p FROM 'SELECT a FROM t WHERE d = ?'")
    run(session, "SET @d = '2020-02-31'")
    for _ in range(2):
        run(session, "SET sql_mode = 'ALLOW_INVALID_DATES'")
        for text in ("'2020-02-31'", "DATE'2020-02-31'", "CAST('2020-02-31' AS DATE)", "20200231"):
            assert rows(session, f"SELECT a FROM t WHERE d = {text}") == [[1]], text
            grouped = f"SELECT MAX(a) FROM t WHERE d >= {text} GROUP BY d"
            assert rows(session, grouped) == [[1]], text
        assert rows(session, "EXECUTE p USING @d") == [[1]]
        run(session, "SET sql_mode = DEFAULT")
        assert rows(session, "SELECT a FROM t WHERE d = '2020-02-31'") == []
        assert rows(session, "EXECUTE p USING @d") == []
        assert error(session, "SELECT DATE'2020-02-31'")[0] == 1292
    assert error(session, "SELECT CAST('2020-02-32' AS DATE) = DATE'2020-02-32'")[0] == 1292


def test_of_older_rows(session):
    run(session, "CREATE TABLE t (a INT)")
    run(session, "INSERT INTO t VALUES (1)")
    run(session, "ALTER TABLE t ADD COLUMN d DATETIME NOT NULL DEFAULT '2020-02-30 10:00:00'")
    run(session, "SET sql_mode = DEFAULT")
    run(session, "ALTER TABLE t ADD INDEX i (d)")
    assert rows(session, AS_TEXT) == [["2020-02-30 10:00:00"]]
    run(session, "ADMIN CHECK TABLE t")


def test_no_month_has_a_thirty_second(session):
    assert error(session, "CREATE TABLE t (d DATE DEFAULT '2020-02-32')")[0] == 1067


def test_not_while_a_node_serves_that_would_not_read_it(session, monkeypatch):
    monkeypatch.setattr(change, "before_0_5", lambda txn: ["older"])
    assert error(session, "CREATE TABLE t (d DATE DEFAULT '2020-02-31')")[0] == 1067


BY_RANGE = "PARTITION BY RANGE COLUMNS (d) (PARTITION p0 VALUES LESS THAN ('2020-02-31'))"
BY_LIST = "PARTITION BY LIST COLUMNS (d) (PARTITION p0 VALUES IN ('2020-02-31'))"


def test_of_a_bound(session):
    run(session, f"CREATE TABLE t (a INT, d DATE) {BY_RANGE}")
    run(session, "ALTER TABLE t ADD PARTITION (PARTITION p1 VALUES LESS THAN ('2020-04-31'))")
    run(session, "INSERT INTO t VALUES (1, '2020-02-30'), (2, '2020-02-31')")
    run(session, "SET sql_mode = DEFAULT")
    run(session, "INSERT INTO t VALUES (3, '2020-03-01')")
    parts = [
        rows(session, f"SELECT a FROM t PARTITION ({each}) ORDER BY a") for each in ["p0", "p1"]
    ]
    assert parts == [[[1]], [[2], [3]]]
    assert rows(session, "SELECT a FROM t WHERE d > '2020-02-29' ORDER BY a") == [[1], [2], [3]]
    assert rows(session, "SELECT a FROM t WHERE d > '2020-03-01'") == []
    assert "LESS THAN ('2020-02-31')" in rows(session, "SHOW CREATE TABLE t")[0][1]
    assert error(session, f"CREATE TABLE u (d DATE) {BY_RANGE}")[0] == 1654
    run(session, "ALTER TABLE t REMOVE PARTITIONING")
    assert rows(session, AS_TEXT) == [["2020-02-30"], ["2020-02-31"], ["2020-03-01"]]


def test_of_a_value_in_a_list(session):
    run(session, f"CREATE TABLE t (a INT, d DATETIME) {BY_LIST}")
    run(session, "INSERT INTO t VALUES (1, '2020-02-31')")
    assert error(session, "INSERT INTO t VALUES (1, '2020-02-30')")[0] == 1526


def test_of_a_zero_day(session):
    run(session, "CREATE TABLE t (a INT, d DATE)")
    cut = "PARTITION BY RANGE COLUMNS (d) (PARTITION p0 VALUES LESS THAN ('2020-02-00'))"
    run(session, f"ALTER TABLE t {cut}")
    run(session, "SET sql_mode = DEFAULT")
    assert error(session, f"ALTER TABLE t {cut}")[0] == 1654


@pytest.mark.parametrize("cut", [BY_RANGE, BY_LIST])
def test_no_bound_that_a_node_would_not_read(session, monkeypatch, cut):
    monkeypatch.setattr(change, "before_0_5", lambda txn: ["older"])
    assert error(session, f"CREATE TABLE t (d DATE) {cut}")[0] == 1654
