"""moment + INTERVAL amount unit.

of a DATE, DATETIME or TIME    the same family; NULL and 1441 outside the calendar
of a text or a number          a text: the date alone where it was one and the unit is of days,
                               the fraction only where there is one
"""

import re
from collections.abc import Callable
from typing import Any

from exuvia.base.mysql_errors import ErrDatetimeFunctionOverflow
from exuvia.base.types import Family
from exuvia.catalog import temporal
from exuvia.sql.evaluate.cast_moments import moment_from_text
from exuvia.sql.evaluate.env import Compiled, Row
from exuvia.sql.expr import Call
from exuvia.sql.functions import interval
from exuvia.sql.types import family_of

_OVERFLOW = ErrDatetimeFunctionOverflow("datetime")


def _noted(run: Callable[[Any, Any], Any], arguments: list[Compiled]) -> Compiled:
    """The function of both values; what it cannot give is noted."""
    moment, size = arguments

    def move(row: Row, env: Any) -> Any:
        first, second = moment(row, env), size(row, env)
        if first is None or second is None:
            return None
        found = run(first, second)
        if found is None:
            env.raise_or_note(_OVERFLOW)
        return found

    return move


def _move(call: Call, arguments: list[Compiled]) -> Compiled:
    unit, sign = call.extra
    if family_of(call.arguments[0].type) is Family.TIME:
        return _noted(lambda a, b: interval.add_to_time(a, b, unit, sign), arguments)
    if family_of(call.type) is Family.DATE:
        return _noted(lambda a, b: _date_of(interval.add(a << 37, b, unit, sign)), arguments)
    return _noted(lambda a, b: interval.add(a, b, unit, sign), arguments)


def _date_of(packed: int | None) -> int | None:
    return None if packed is None else packed >> 37


def _move_text(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: a moment as text, size. `extra`: unit, sign, whether the text is a number's."""
    unit, sign, is_number = call.extra
    moment, size = arguments
    of_days = unit not in interval.CLOCK_UNITS

    def run(row: Row, env: Any) -> str | None:
        text, amount = moment(row, env), size(row, env)
        if text is None or amount is None:
            return None
        packed = moment_from_text(text, env, is_number=is_number)
        if packed is None:
            return None
        found = interval.add(packed, amount, unit, sign)
        if found is None:
            env.raise_or_note(_OVERFLOW)
            return None
        if of_days and _is_day(text):
            return temporal.format_date(found >> 37)
        return temporal.format_datetime(found, 6 if found & 0xFFFFF else 0)

    return run


def _is_day(text: str) -> bool:
    groups = re.findall(r"\d+", text)
    return 1 < len(groups) <= 3 or (len(groups) == 1 and len(groups[0]) in (5, 6, 8))


OPERATORS = {"date_add": _move, "date_add_text": _move_text}
