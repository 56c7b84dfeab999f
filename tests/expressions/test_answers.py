"""Both evaluators give MariaDB's answers, but for the differences that are listed with their
reasons.

An expression is asked twice over every row of a small table: by `evaluate`, row by row, and inside
a SELECT, where DuckDB computes what it computes as MySQL does. Questions that answer without error
share SELECTs of a few columns."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exuvia.sql.session.session import Session
from support.answers import answer_of, by_query, by_row, make_tables, recorded
from support.world import World

sys.path.insert(0, str(Path(__file__).parent))
import differences

ROWS = 7
TOGETHER = 16
LEAST_EXPRESSIONS = 690
LEAST_SELECTS = 105


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """A session with the tables of the recording."""
    with World() as world:
        found = world.session()
        make_tables(found)
        yield found


def close(left: Any, right: Any) -> bool:
    """Equal; texts of doubles up to their last digits, which depend on the order of summing."""
    if left == right:
        return True
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(close, left, right))
    if not (isinstance(left, str) and isinstance(right, str)):
        return False
    digits = max(len(left.lstrip("-0.")), len(right.lstrip("-0.")))
    if digits < 15 or not ("." in left or "e" in left):
        return False
    try:
        return abs(float(left) - float(right)) <= 1e-14 * abs(float(left))
    except ValueError:
        return False


def expected_of(expression: str, answer: Any) -> Any:
    """MariaDB's answer, or ours where it is known to differ."""
    known = differences.EXPRESSIONS.get(expression)
    return answer if known is None else [[text] for text in known[1]]


def test_the_recording_is_whole() -> None:
    """As many questions as we promise, and every known difference is one of them and really
    differs."""
    expressions, selects = recorded("expressions"), recorded("selects")
    assert len(expressions) >= LEAST_EXPRESSIONS
    assert len(selects) >= LEAST_SELECTS
    for expression in differences.EXPRESSIONS:
        assert expected_of(expression, None) != expressions[expression]
    for query, (_, answer) in differences.SELECTS.items():
        assert answer != selects[query]


def test_evaluated_row_by_row(session: Session) -> None:
    """evaluate.compile_expression over stored rows."""
    wrong = []
    for expression, answer in recorded("expressions").items():
        found = answer_of(session, by_row(expression))
        if not close(found, expected_of(expression, answer)):
            wrong.append((expression, answer, found))
    assert not wrong


def test_computed_in_a_select(session: Session) -> None:
    """The same expressions in the select list of a query that DuckDB runs."""
    answers = {e: expected_of(e, a) for e, a in recorded("expressions").items()}
    refused = [e for e, a in answers.items() if isinstance(a, dict)]
    answered = [e for e in answers if e not in refused]
    wrong = []
    for start in range(0, len(answered), TOGETHER):
        part = answered[start : start + TOGETHER]
        query = f"SELECT {', '.join(part)} FROM v ORDER BY id"
        found = answer_of(session, by_query(query))
        columns = [found] * len(part) if isinstance(found, dict) else zip(*found, strict=True)
        for expression, column in zip(part, columns, strict=True):
            if not close([[text] for text in column], answers[expression]):
                wrong.append((expression, answers[expression], column))
    for expression in refused:
        found = answer_of(session, by_query(f"SELECT {expression} FROM v ORDER BY id"))
        if found != answers[expression]:
            wrong.append((expression, answers[expression], found))
    assert not wrong


def test_selects(session: Session) -> None:
    """Joins, groups, windows, subqueries, unions, common tables, and their errors."""
    wrong = []
    for query, answer in recorded("selects").items():
        known = differences.SELECTS.get(query)
        wanted = answer if known is None else known[1]
        found = answer_of(session, by_query(query))
        if not close(found, wanted):
            wrong.append((query, wanted, found))
    assert not wrong
