"""Texts compared with integers and decimals keep all digits, and so do negative literals."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from exuvia.sql.session.session import Session
from exuvia.sql.statement.plan_cache import PlanCache
from support.typed_judge import row_limit
from support.world import rows, run

IDS = (1234567890123456787, 1234567890123456788, 1234567890123456789)
UNSIGNED = (18446744073709551613, 18446744073709551614, 18446744073709551615)
DECIMALS = (
    "-12345678901234567890123456789012345.12346",
    "12345678901234567890123456789012345.12346",
    "12345678901234567890123456789012345.12347",
)
LONGEST = "12345678901234567890123456789012345.123456789012345678901234567892"

Ask = Callable[[Session, str, tuple[str, ...]], list[int]]


def by_text(session: Session, condition: str, texts: tuple[str, ...]) -> list[int]:
    for text in texts:
        condition = condition.replace("?", f"'{text}'", 1)
    return [row[0] for row in rows(session, f"SELECT n FROM t WHERE {condition}")]


def by_variables(session: Session, condition: str, texts: tuple[str, ...]) -> list[int]:
    for number, text in enumerate(texts):
        run(session, f"SET @v{number} = '{text}'")
        condition = condition.replace("?", f"@v{number}", 1)
    return [row[0] for row in rows(session, f"SELECT n FROM t WHERE {condition}")]


def by_execute(session: Session, condition: str, texts: tuple[str, ...]) -> list[int]:
    run(session, f"PREPARE s FROM 'SELECT n FROM t WHERE {condition}'")
    for number, text in enumerate(texts):
        run(session, f"SET @v{number} = '{text}'")
    using = ", ".join(f"@v{number}" for number in range(len(texts)))
    return [row[0] for row in rows(session, f"EXECUTE s USING {using}")]


def by_driver(session: Session, condition: str, texts: tuple[str, ...]) -> list[int]:
    prepared = session.prepare(f"SELECT n FROM t WHERE {condition}")
    found = session.execute_prepared(prepared, list(texts))
    return [row[0] for row in found.rows]


WAYS: tuple[Ask, ...] = (by_text, by_variables, by_execute, by_driver)
FIRST, SECOND, THIRD = "{0}", "{1}", "{2}"
CONDITIONS: tuple[tuple[str, tuple[str, ...], list[int]], ...] = (
    ("{c} = ?", (SECOND,), [1]),
    ("{c} = ?", (THIRD,), [2]),
    ("? = {c}", (SECOND,), [1]),
    ("{c} <=> ?", (SECOND,), [1]),
    ("{c} <> ?", (SECOND,), [0, 2]),
    ("{c} > ?", (SECOND,), [2]),
    ("{c} <= ?", (SECOND,), [0, 1]),
    ("{c} IN (?, ?)", (FIRST, THIRD), [0, 2]),
    ("{c} NOT IN (?, ?)", (FIRST, THIRD), [1]),
    ("{c} BETWEEN ? AND ?", (SECOND, THIRD), [1, 2]),
    ("{c} IN (5, ?)", (SECOND,), [1]),
    ("({c}, n) = (?, ?)", (SECOND, "1"), [1]),
    ("CASE {c} WHEN ? THEN 1 ELSE 0 END", (SECOND,), [1]),
    ("NULLIF({c}, ?) IS NULL", (SECOND,), [1]),
    ("{c} = ?", (" " + SECOND + " ",), [1]),
    ("{c} = ?", (SECOND + "x",), [1]),
    ("{c} = ?", (SECOND + "1" * 60,), []),
    ("{c} > ?", ("-1e300",), [0, 1, 2]),
    ("{c} < ?", ("1e300",), [0, 1, 2]),
)


@pytest.fixture
def client(session: Session) -> Session:
    """A session whose plans are its own."""
    session.services = replace(session.services, plans=PlanCache())
    run(session, "SET sql_mode = ''")
    return session


def filled(session: Session, column: str, values: tuple[object, ...]) -> None:
    run(session, f"CREATE TABLE t (n int, c {column})")
    for number, value in enumerate(values):
        run(session, f"INSERT INTO t VALUES ({number}, '{value}')")


@pytest.mark.parametrize(
    ("column", "values"),
    [
        *(("bigint", IDS), ("bigint PRIMARY KEY", IDS), ("bigint unsigned UNIQUE", UNSIGNED)),
        ("decimal(40,5), KEY (c)", DECIMALS),
    ],
)
def test_a_text_is_compared_with_all_its_digits(
    client: Session, column: str, values: tuple[object, ...]
) -> None:
    filled(client, column, values)
    for condition, written, numbers in CONDITIONS:
        texts = tuple(text.format(*values) for text in written)
        condition = condition.format(c="c")
        for way in WAYS:
            assert sorted(way(client, condition, texts)) == numbers, (condition, texts, way)
        if column == "bigint":
            with row_limit(0):  # DuckDB
                assert sorted(by_text(client, condition, texts)) == numbers, (condition, texts)


def test_digits_beyond_the_column_are_not_lost(client: Session) -> None:
    filled(client, "decimal(5,2)", ("1.00", "0.00", "-1.00"))
    for text in ("1.000000000000000000000000000000000000000001", "1e-50", "0.999", "-1.001"):
        assert by_text(client, "c = ?", (text,)) == [], text
        assert by_driver(client, "c = ?", (text,)) == [], text
    for text in ("1", " 1.0 ", "10e-1", "+1.000000000000000000000000000000000000000000"):
        assert by_text(client, "c = ?", (text,)) == [0], text
        assert by_driver(client, "c = ?", (text,)) == [0], text


def test_a_change_by_a_text_changes_one_row(client: Session) -> None:
    filled(client, "bigint", IDS)
    assert run(client, f"UPDATE t SET n = n + 10 WHERE c = '{IDS[1]}'").affected == 1
    assert run(client, f"DELETE FROM t WHERE c IN ('{IDS[0]}')").affected == 1
    assert rows(client, "SELECT n FROM t ORDER BY n") == [[2], [11]]


def test_the_longest_decimal_is_compared_with_all_its_digits(client: Session) -> None:
    filled(client, "decimal(65,30), KEY (c)", (LONGEST[:-1] + "1", LONGEST, "-" + LONGEST))
    for way in WAYS:
        assert way(client, "c = ?", (LONGEST,)) == [1]
        assert way(client, "c = ?", ("-" + LONGEST,)) == [2]


def test_texts_are_doubles_among_doubles_and_constants(client: Session) -> None:
    filled(client, "double", (5, 6, 1234567890123456788))
    assert by_text(client, "c = ?", (str(IDS[2]),)) == [2]
    assert rows(client, f"SELECT {IDS[0]} = '{IDS[1]}'") == [[1]]


def test_a_negative_decimal_keeps_all_its_digits(client: Session) -> None:
    filled(client, "decimal(40,5), b varbinary(9), KEY (c)", ())
    (negative, *_) = DECIMALS
    run(client, f"INSERT INTO t VALUES (0, {negative}, 'a'), (1, ({negative}), 'a')")
    # a dump's introducer: literals of this statement are no parameters
    run(client, f"INSERT INTO t VALUES (2, {negative}, _binary'a')")
    assert rows(client, "SELECT c FROM t") == [[Decimal(negative)]] * 3
    found = rows(client, f"SELECT n FROM t WHERE c IN ({negative}, -5) ORDER BY n")
    assert found == [[0], [1], [2]]
    joined = f"SELECT COUNT(*) FROM t WHERE c = {negative} AND n IN (SELECT n FROM t)"
    assert rows(client, joined) == [[3]]
