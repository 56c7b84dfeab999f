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
