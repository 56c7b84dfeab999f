"""Frames of windows: rows of a RANGE are those that a loop over all rows finds.

frames     ROWS n, RANGE n, RANGE INTERVAL n unit, both ways, with NULL peers
windows    one may be made from another one of WINDOW
errors     3579 to 3592, 3596, as MySQL's manual has them
"""

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from exuvia.sql.session.session import Session
from support.world import error, rows, run

ROWS = [
    (1, date(2024, 1, 31), datetime(2024, 1, 31, 10, 0, 0, 500000), timedelta(hours=10), 0, "1.25"),
    (2, date(2024, 2, 29), datetime(2024, 2, 29, 10), timedelta(hours=-1), 1, "1.75"),
    (3, date(2024, 3, 31), datetime(2024, 1, 31, 10, 0, 1), timedelta(hours=9), 5, "-2.25"),
    (4, None, None, None, None, None),
    (5, date(2024, 1, 31), datetime(2024, 2, 1), timedelta(seconds=5), 5, "1.75"),
    (6, None, None, None, None, None),
    (7, date(2024, 2, 1), datetime(2023, 12, 31), timedelta(0), 2**32 - 1, "9999.99"),
]
COLUMNS = ("id", "d", "dt", "tm", "n", "m")
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, d DATE, dt DATETIME(6), tm TIME, n INT UNSIGNED, "
    "m DECIMAL(6,2), ts TIMESTAMP, f DOUBLE)"
)


def _literal(value: Any) -> str:
    if isinstance(value, timedelta):
        seconds = int(value.total_seconds())
        sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
        return f"'{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}'"
    return "NULL" if value is None else f"'{value}'"


@pytest.fixture
def filled(session: Session) -> Session:
    run(session, TABLE)
    listed = ", ".join(f"({', '.join(map(_literal, row))})" for row in ROWS)
    run(session, f"INSERT INTO t ({', '.join(COLUMNS)}) VALUES {listed}")
    run(session, "UPDATE t SET ts = dt, f = m")
    return session


def _months(number: int) -> Callable[[date], date]:
    def move(day: date) -> date:
        month = day.month - 1 + number
        year, month = day.year + month // 12, month % 12 + 1
        last = ((date(year + month // 12, month % 12 + 1, 1)) - timedelta(days=1)).day
        return day.replace(year=year, month=month, day=min(day.day, last))

    return move


def _by(amount: Any) -> Callable[[Any], Any]:
    return lambda value: value + amount


RANGES = [  # column, its two amounts as SQL, as functions to the lower and to the higher value
    ("d", "INTERVAL 1 MONTH", "INTERVAL 2 DAY", _months(-1), _by(timedelta(days=2))),
    ("d", "INTERVAL 31 DAY", "INTERVAL 0 DAY", _by(timedelta(days=-31)), _by(timedelta())),
    ("dt", "INTERVAL 1 MONTH", "INTERVAL 0.5 SECOND", _months(-1), _by(timedelta(seconds=0.5))),
    (
        "tm",
        "INTERVAL '59:59' MINUTE_SECOND",
        "INTERVAL 1 HOUR",
        _by(-timedelta(minutes=59, seconds=59)),
        _by(timedelta(hours=1)),
    ),
    ("n", "1", "4", _by(-1), _by(4)),
    ("n", "1.5", "1e1", _by(-1.5), _by(10)),
    ("m", "0.5", "0.500", _by(Decimal("-0.5")), _by(Decimal("0.5"))),
    ("m", "4", "18446744073709551615", _by(-4), _by(2**64 - 1)),
]


@pytest.mark.parametrize(("column", "low", "high", "down", "up"), RANGES)
def test_a_range_has_the_rows_that_a_loop_finds(
    filled: Session, column: str, low: str, high: str, down: Any, up: Any
) -> None:
    place = COLUMNS.index(column)

    def value(row: Any) -> Any:
        return Decimal(row[place]) if column == "m" and row[place] else row[place]

    for order, first, second in (("", low, high), ("DESC", high, low)):
        found = rows(
            filled,
            f"SELECT id, JSON_ARRAYAGG(id) OVER (ORDER BY {column} {order} RANGE BETWEEN "
            f"{first} PRECEDING AND {second} FOLLOWING) FROM t",
        )
        got = {row[0]: sorted(json.loads(str(row[1]))) for row in found}
        for row in ROWS:
            own = value(row)
            wanted = [
                other[0]
                for other in ROWS
                if (value(other) is None and own is None)
                or (None not in (own, value(other)) and down(own) <= value(other) <= up(own))
            ]
            assert got[row[0]] == wanted, (order, row)


def test_the_amounts_of_a_kept_statement_are_its_own(filled: Session) -> None:
    counted = "SELECT COUNT(*) OVER (ORDER BY d RANGE INTERVAL {} DAY PRECEDING) c FROM t WHERE n<9"
    for days, wanted in ((0, [2, 2, 1, 1]), (29, [2, 2, 3, 1]), (31, [2, 2, 3, 2])):
        assert [row[0] for row in rows(filled, counted.format(days))] == wanted
    run(filled, f"PREPARE p FROM '{counted.format('?')}'")
    run(filled, "PREPARE q FROM 'SELECT SUM(id) OVER (ORDER BY id ROWS ? PRECEDING) s FROM t'")
    for days, wanted in ((31, [2, 2, 3, 2]), (0, [2, 2, 1, 1])):
        run(filled, f"SET @days = {days}")
        assert [row[0] for row in rows(filled, "EXECUTE p USING @days")] == wanted
    run(filled, "SET @rows = 1")
    assert [row[0] for row in rows(filled, "EXECUTE q USING @rows")] == [1, 3, 5, 7, 9, 11, 13]
    run(filled, "SET @rows = -1, @none = NULL")
    for statement in ("p USING @rows", "q USING @rows", "p USING @none", "q USING @none"):
        assert error(filled, f"EXECUTE {statement}") == (3586, "HY000")


def test_a_range_of_a_timestamp_goes_by_the_sessions_clock(filled: Session) -> None:
    run(filled, "SET time_zone = 'America/New_York'")
    run(filled, "UPDATE t SET ts = NULL")
    run(filled, "UPDATE t SET ts = '2024-03-10 00:30:00' WHERE id = 1")
    run(filled, "UPDATE t SET ts = '2024-03-10 03:30:00' WHERE id = 2")  # an hour and a half later
    peers = "SELECT COUNT(*) OVER (ORDER BY ts RANGE INTERVAL {} HOUR PRECEDING) FROM t WHERE id<3"
    assert rows(filled, peers.format(2)) == [[1], [1]]
    assert rows(filled, peers.format(3)) == [[1], [2]]


def test_dates_that_no_interval_moves_have_no_bound(filled: Session) -> None:
    run(filled, "SET sql_mode = ''")
    run(filled, "INSERT INTO t (id, d) VALUES (8, '0000-00-00'), (9, '9999-12-31')")
    found = rows(
        filled,
        "SELECT id, COUNT(*) OVER (ORDER BY d RANGE BETWEEN CURRENT ROW AND INTERVAL 1 DAY "
        "FOLLOWING) FROM t WHERE d IS NOT NULL AND id > 6",
    )
    assert found == [[8, 3], [7, 1], [9, 1]]


def test_rankings_are_of_the_partition_whatever_its_frame(filled: Session) -> None:
    for call in ("RANK()", "LEAD(id)", "LAG(id, 2)", "NTILE(2)", "CUME_DIST()", "ROW_NUMBER()"):
        framed = f"SELECT id, {call} OVER (ORDER BY n, id ROWS 1 PRECEDING) FROM t"
        assert rows(filled, framed) == rows(filled, framed.replace(" ROWS 1 PRECEDING", ""))


def test_a_window_is_made_from_another(filled: Session) -> None:
    named = (
        "SELECT id, SUM(id) OVER (v ROWS 1 PRECEDING), FIRST_VALUE(id) RESPECT NULLS OVER V "
        "FROM t WHERE n > 0 WINDOW w AS (PARTITION BY n), v AS (w ORDER BY id) ORDER BY id"
    )
    assert rows(filled, named) == [[2, 2, 2], [3, 3, 3], [5, 8, 3], [7, 7, 7]]


WRONG_FRAMES = {
    "ORDER BY d RANGE 1 PRECEDING": 3588,
    "ORDER BY n RANGE INTERVAL 1 DAY PRECEDING": 3589,
    "ORDER BY n, id RANGE 1 PRECEDING": 3587,
    "RANGE 1 PRECEDING": 3587,
    "ORDER BY CONCAT(n) RANGE 1 PRECEDING": 3587,
    "ORDER BY NULL RANGE 1 PRECEDING": 3587,
    "ORDER BY d ROWS INTERVAL 1 DAY PRECEDING": 3596,
    "ORDER BY n ROWS 1.5 PRECEDING": 3586,
    "ORDER BY n ROWS -1 PRECEDING": 1064,
    "ORDER BY n ROWS @a PRECEDING": 1064,
    "ORDER BY n ROWS 1 FOLLOWING": 1064,
    "ORDER BY d RANGE INTERVAL -1 DAY PRECEDING": 3586,
    "ORDER BY d RANGE INTERVAL '-1:2' HOUR_MINUTE PRECEDING": 3586,
    "ORDER BY d RANGE INTERVAL NULL DAY PRECEDING": 3586,
    "ORDER BY d RANGE INTERVAL n DAY PRECEDING": 3590,
    "ORDER BY d RANGE INTERVAL 1 LIGHTYEAR PRECEDING": 1064,
    "ORDER BY n RANGE BETWEEN UNBOUNDED FOLLOWING AND CURRENT ROW": 3584,
    "ORDER BY n RANGE BETWEEN CURRENT ROW AND UNBOUNDED PRECEDING": 3585,
    "ORDER BY n ROWS BETWEEN 1 FOLLOWING AND CURRENT ROW": 3586,
    "ORDER BY n ROWS BETWEEN CURRENT ROW AND 1 PRECEDING": 3586,
    "ORDER BY n ROWS 1 PRECEDING EXCLUDE TIES": 1235,
    "ORDER BY n GROUPS 1 PRECEDING": 1235,
    "ORDER BY 1": 3592,
    "nowhere": 3579,
    "o PARTITION BY n": 3581,
    "f ORDER BY n": 3582,
    "o ORDER BY id": 3583,
}


@pytest.mark.parametrize("window", WRONG_FRAMES)
def test_a_wrong_window_is_refused(filled: Session, window: str) -> None:
    said = (
        f"SELECT SUM(id) OVER ({window}) FROM t WINDOW o AS (ORDER BY n), f AS (ROWS 1 PRECEDING)"
    )
    assert error(filled, said)[0] == WRONG_FRAMES[window]


@pytest.mark.parametrize(
    ("windows", "code"), [("w AS (v), v AS (w)", 3580), ("w AS (), W AS ()", 3591)]
)
def test_wrong_names_of_windows_are_refused(session: Session, windows: str, code: int) -> None:
    assert error(session, f"SELECT 1 WINDOW {windows}") == (code, "HY000")
