"""Dates compared with numbers, STR_TO_DATE by weeks, TIMEs at their bounds, 1365 of a SELECT.

The answers are MySQL 8's. TiDB has the same, except where a test says otherwise."""

from collections.abc import Iterator

import pytest

from exuvia.sql.session.session import Session
from support.answers import answer
from support.world import World

DATES = {
    # a number that is no date has its place among the dates as numbers
    "d > 5": "1,2,3",
    "d >= 5.5": "1,2,3",
    "5e0 < d": "1,2,3",
    "d > TRUE": "1,2,3",
    "d > -1": "1,2,3",
    "d < -1": None,
    "d < 5": None,
    "d <> 5": "1,2,3",
    "d = 5": None,
    "d <=> 5": None,
    "d IN (5, 20240101)": "1",
    "d NOT IN (5, 20240101)": "2,3",
    "d BETWEEN 5 AND 20240101": "1,2",
    # one that is a date is that date
    "d = 20240101": "1",
    "d = 240101": "1",
    "d > 20240101": "3",
    "d >= 20240101000000": "1,3",
    "d = 0": None,
}
OF_DAYS = {  # among the numbers YYYYMMDD
    "d > 20240132": "3",
    "d < 20240132": "1,2",
    "d > 20231399": "1,3",
    "d > 20240001": "1,3",
    "d > 99999999": None,
    "d < 20240132000000": "1,2,3",
    "d >= 20371232": None,
    "d <= 20371232": "1,2,3",
}
OF_MOMENTS = {  # among the numbers YYYYMMDDhhmmss
    "d > 20240132": "1,2,3",
    "d > 99999999": "1,2,3",
    "d > 20240101000099": "3",
    "d > 20231231235999": "1,3",
    "d > 20240132000000": "3",
}
EXPRESSIONS = {  # of no column: as a number
    "DATE(d) > 5": "1,2,3",
    "DATE(d) > 20240101": "3",
    "DATE(d) = 240101": None,
    "TIMESTAMP(d) > 20990101": "1,2,3",
    "TIMESTAMP(d) = 20240101000000": "1",
    "CASE d WHEN 5 THEN 0 WHEN 20240101 THEN 1 END": "1",
}
VALUES = {
    "STR_TO_DATE('200442 Monday', '%X%V %W')": "2004-10-18",
    "STR_TO_DATE('200442 Monday', '%x%v %W')": "2004-10-11",
    "STR_TO_DATE('2004 42 Mon', '%Y %U %a')": "2004-10-18",
    "STR_TO_DATE('2004 42 1', '%Y %u %w')": "2004-10-11",
    "STR_TO_DATE('2004 42 0', '%Y %u %w')": "2004-10-17",
    "STR_TO_DATE('2004 42 0', '%X %V %w')": "2004-10-17",
    "STR_TO_DATE('2004 00 Sun', '%Y %U %a')": "2003-12-28",
    "STR_TO_DATE('2026 1 Thursday', '%x %v %W')": "2026-01-01",
    "STR_TO_DATE('2026 53 Saturday', '%X %V %W')": "2027-01-09",
    "STR_TO_DATE('2004 42 Monday 10:11', '%X %V %W %H:%i')": "2004-10-18 10:11:00",
    "STR_TO_DATE('04 42 Monday', '%y %U %W')": "2004-10-18",
    "STR_TO_DATE('Mon 2024-01-02', '%a %Y-%m-%d')": "2024-01-02",
    "STR_TO_DATE('abc2024;;01-02', '%@%Y%.%m-%d')": "2024-01-02",
    "STR_TO_DATE('12.2024-01-02', '%#%.%Y-%m-%d')": "2024-01-02",
    # a week without its kind of year, without a day, or out of range
    "STR_TO_DATE('2004 42 Mon', '%X %v %a')": None,
    "STR_TO_DATE('2004 42 Mon', '%X %U %a')": None,
    "STR_TO_DATE('2004 42 Mon', '%Y %V %a')": None,
    "STR_TO_DATE('200442', '%X%V')": None,
    "STR_TO_DATE('2004 54 Mon', '%Y %U %a')": None,
    "STR_TO_DATE('2004 0 Sun', '%x %v %W')": None,
    "STR_TO_DATE('2004 42 7', '%X %V %w')": None,
    "STR_TO_DATE('Sunday 3', '%W %U')": None,
}
VALUES |= {  # a moment has the digits of a decimal; a date cannot be added
    "TIME(1.5)": "00:00:01.5",
    "TIMESTAMP(20240101101112.25)": "2024-01-01 10:11:12.25",
    "ADDTIME('10:00:00', TIMESTAMP'2024-01-01 10:00:00')": None,
    "SUBTIME('10:00:00', '2024-01-01 10:00:00')": None,
    "ADDTIME(TIME'10:00:00', '2024-01-01 10:00:00')": None,
    "ADDTIME(TIMESTAMP'2024-01-01 10:00:00', '01:00:00.5')": "2024-01-01 11:00:00.5",
    "ADDTIME('10:00:00', '1 01:00:00')": "35:00:00",
}
LIMITED = {  # the TIME, and its text in 1292
    "ADDTIME('838:00:00', '10:00:00')": ("838:59:59", "848:00:00"),
    "SUBTIME('-838:00:00', '10:00:00.5')": ("-838:59:59", "-848:00:00.500000"),
    "ADDTIME(TIME'838:00:00', 100000)": ("838:59:59", "848:00:00"),
    "SUBTIME(c, '10:00:00')": ("-838:59:59", "-848:00:00"),
    "TIMEDIFF('838:00:00', '-10:00:00')": ("838:59:59", "848:00:00"),
    "TIMEDIFF('2024-03-01 00:00:00', '2023-10-10 00:00:00')": ("838:59:59", "3432:00:00"),
    "MAKETIME(900, 1, 1)": ("838:59:59", "900:01:01"),
    "MAKETIME(-900, 1, 1)": ("-838:59:59", "-900:01:01"),
    "SEC_TO_TIME(100000000)": ("838:59:59", "100000000"),
    "SEC_TO_TIME(-1e9)": ("-838:59:59.000000", "-1000000000"),
    "CAST('839:00:00' AS TIME)": ("838:59:59", "839:00:00"),
    "CAST('-838:59:59.5' AS TIME(1))": ("-838:59:59.0", "-838:59:59.5"),
    "HOUR('900:00:00')": ("838", "900:00:00"),
    "TIME_TO_SEC('838:59:59.5000')": ("3020399", "838:59:59.5000"),
}
CALLS = {  # INTERVAL with several arguments is a function; a name after it is an alias
    "INTERVAL(id, 2, 3) q": "0,1,2",
    "INTERVAL (id, 2, (3)) day": "0,1,2",
    "INTERVAL(id, 2, 3) + 1 q": "1,2,3",
    "1 + INTERVAL(id, 2, 3) q": "1,2,3",
    "INTERVAL(INTERVAL(id, 2, 3), 1, 2) q": "0,1,2",
    "DATE'2024-01-01' + INTERVAL INTERVAL(id, 2, 3) DAY q": "2024-01-01,2024-01-02,2024-01-03",
    "DATE'2024-01-01' + INTERVAL (GREATEST(id, 2)) DAY q": "2024-01-03,2024-01-03,2024-01-04",
}


@pytest.fixture(scope="module", params=["tidb", "mysql"])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with World() as world:
        session = world.session()
        session.execute(f"SET GLOBAL exuvia_compatibility = '{request.param}'")
        session = world.session()
        columns = "(id INT PRIMARY KEY, d {kind}, c TIME)"
        for name, kind, rest in (
            ("days", "DATE", ""),
            ("indexed", "DATE, KEY (d)", ""),
            ("moments", "DATETIME(3), KEY (d)", ""),
            ("stamps", "TIMESTAMP NULL", ""),
            ("parted", "DATE", "PARTITION BY RANGE COLUMNS (d) (PARTITION a VALUES LESS THAN"),
        ):
            text = columns.format(kind=kind)
            if rest:
                text = text.replace("id INT PRIMARY KEY", "id INT")
                rest += " ('2020-01-01'), PARTITION b VALUES LESS THAN MAXVALUE)"
            session.execute(f"CREATE TABLE {name} {text} {rest}")
            session.execute(
                f"INSERT INTO {name} VALUES (1, '2024-01-01', '-838:00:00'),"
                " (2, '2001-02-03', NULL), (3, '2037-12-31', NULL), (4, NULL, NULL)"
            )
        yield session


def value_of(session: Session, query: str) -> str | None:
    found = answer(session, query)
    assert "rows" in found, (query, found)
    ((value,),) = found["rows"]
    value_as_text: str | None = value
    return value_as_text


@pytest.mark.parametrize("condition", [*DATES, *OF_DAYS])
def test_dates_and_numbers(session: Session, condition: str) -> None:
    check(session, ("days", "indexed", "parted"), condition, (DATES | OF_DAYS)[condition])


@pytest.mark.parametrize("condition", [*DATES, *OF_MOMENTS])
def test_moments_and_numbers(session: Session, condition: str) -> None:
    check(session, ("moments", "stamps"), condition, (DATES | OF_MOMENTS)[condition])


def check(session: Session, tables: tuple[str, ...], condition: str, expected: str | None) -> None:
    for table in tables:
        for source in (table, f"{table} JOIN (SELECT 1) x", f"(SELECT * FROM {table}) x"):
            query = f"SELECT GROUP_CONCAT(id ORDER BY id) FROM {source} WHERE {condition}"
            for _ in range(2):  # planned, and by the plan that was kept
                assert value_of(session, query) == expected, query


def test_timestamps_and_numbers_in_another_zone(session: Session) -> None:
    session.execute("SET time_zone = '+03:00'")
    check(session, ("stamps",), "d = 20240101030000", "1")
    check(session, ("stamps",), "d = 20240101", None)
    check(session, ("stamps",), "d > 5", "1,2,3")
    session.execute("SET time_zone = '+00:00'")


@pytest.mark.parametrize("condition", EXPRESSIONS)
def test_expressions_and_numbers(session: Session, condition: str) -> None:
    table = "moments" if condition.startswith("DATE") else "days"
    check(session, (table,), condition, EXPRESSIONS[condition])


def test_a_parameter_that_is_no_date(session: Session) -> None:
    session.execute("PREPARE p FROM 'SELECT GROUP_CONCAT(id ORDER BY id) FROM days WHERE d > ?'")
    for number, expected in ((5, "1,2,3"), (20240101, "3"), (20240132, "3"), ("NULL", None)):
        session.execute(f"SET @v = {number}")
        for _ in range(2):
            assert value_of(session, "EXECUTE p USING @v") == expected


def test_a_number_that_is_no_date_warns_once(session: Session) -> None:
    value_of(session, "SELECT GROUP_CONCAT(id ORDER BY id) FROM days WHERE d > 5")
    assert answer(session, "SHOW WARNINGS")["rows"] == [
        ["Warning", "1292", "Incorrect datetime value: '5'"]
    ]
    value_of(session, "SELECT COUNT(*) FROM days WHERE DATE(d) > 5 OR d > 20240231")
    assert not answer(session, "SHOW WARNINGS")["rows"]


def test_explain_shows_the_number(session: Session) -> None:
    found = answer(session, "EXPLAIN FORMAT = 'brief' SELECT * FROM days WHERE DATE(d) > -1")
    assert "-1" in str(found["rows"])


@pytest.mark.parametrize("expression", VALUES)
def test_values(session: Session, expression: str) -> None:
    assert value_of(session, f"SELECT {expression}") == VALUES[expression]


@pytest.mark.parametrize("expression", LIMITED)
def test_times_at_their_bounds(session: Session, expression: str) -> None:
    value, text = LIMITED[expression]
    assert value_of(session, f"SELECT {expression} FROM days WHERE id = 1") == value
    warning = f"Truncated incorrect time value: '{text}'"
    assert answer(session, "SHOW WARNINGS")["rows"] == [["Warning", "1292", warning]]


BEYOND = ("'838:59:59.5'", "'839:00:00'", "'34 22:59:59.9'", "8385959.5", "8390000")


@pytest.mark.parametrize("text", BEYOND)
@pytest.mark.parametrize("sign", ["", "-"])
def test_times_beyond_their_bounds_become_the_bound(session: Session, text: str, sign: str) -> None:
    """They became 00:00:00, and rows were compared with that."""
    text = text.replace("'", f"'{sign}", 1) if text.startswith("'") else sign + text
    old = value_of(session, "SELECT @@sql_mode")
    answer(session, "CREATE TABLE bounds (a TIME(1), b VARCHAR(20), KEY (a))")
    try:
        assert answer(session, f"INSERT INTO bounds (a) VALUES ({text})")["error"][0] == 1292
        session.execute("SET sql_mode = ''")
        answer(session, f"INSERT INTO bounds VALUES ({text}, {text}), ('0', NULL)")
        answer(session, "INSERT INTO bounds SELECT b, b FROM bounds WHERE b IS NOT NULL")
        bound = f"{sign}838:59:59.0"
        found = answer(session, "SELECT a FROM bounds")["rows"]
        assert sorted(found) == sorted([["00:00:00.0"], [bound], [bound]])
        if text.startswith("'"):
            for index in ("", "IGNORE INDEX (a)"):
                table = f"bounds {index} WHERE a"
                assert value_of(session, f"SELECT COUNT(*) FROM {table} = {text}") == "2"
                inside = "<" if sign == "" else ">"
                assert value_of(session, f"SELECT COUNT(*) FROM {table} {inside} {text}") == "1"
    finally:
        session.execute(f"SET sql_mode = '{old}'")
        answer(session, "DROP TABLE bounds")


@pytest.mark.parametrize("call", CALLS)
def test_interval_is_a_function(session: Session, call: str) -> None:
    found = answer(session, f"SELECT {call} FROM days WHERE id < 4 ORDER BY id")
    name = {"q": "q", "y": "day"}[call[-1]]
    assert found["columns"] == [name]
    assert ",".join(row[0] for row in found["rows"]) == CALLS[call]


def test_interval_of_one_argument_is_no_function(session: Session) -> None:
    assert answer(session, "SELECT INTERVAL(1)")["error"][0] == 1064


def test_division_by_zero_of_a_select(session: Session) -> None:
    """TiDB always warns, MySQL only with ERROR_FOR_DIVISION_BY_ZERO."""
    mode = value_of(session, "SELECT @@exuvia_compatibility")
    old = value_of(session, "SELECT @@sql_mode")
    for name, warns in (
        ("ERROR_FOR_DIVISION_BY_ZERO", True),
        ("STRICT_TRANS_TABLES", mode == "tidb"),
        ("", mode == "tidb"),
    ):
        session.execute(f"SET sql_mode = '{name}'")
        for expression in ("1 / 0", "id DIV 0", "id % 0", "MOD(id, 0)"):
            query = f"SELECT {expression} FROM days WHERE id = 1"
            for _ in range(2):
                assert value_of(session, query) is None
                codes = [note.code for note in session.warnings]
                assert codes == [1365] * warns, (name, expression)
    session.execute(f"SET sql_mode = '{old}'")
