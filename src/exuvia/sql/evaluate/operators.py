"""All operators by name, and those that go by a collation, a unit or the types of their arguments.

logic, comparison, CASE    evaluate/logic.py        LIKE, REGEXP    evaluate/match.py
arithmetic, bits           evaluate/arithmetic.py

moment + INTERVAL amount unit.

of a DATE, DATETIME or TIME    the same family; NULL and 1441 outside the calendar
of a text or a number          a text: the date alone where it was one and the unit is of days,
                               the fraction only where there is one
"""

import re
from collections.abc import Callable

from exuvia.base.interruption import check
from exuvia.base.mysql_errors import ErrDatetimeFunctionOverflow
from exuvia.base.types import Family, Value
from exuvia.catalog import temporal
from exuvia.catalog.collation import collation, weights
from exuvia.catalog.temporal import shift_zone
from exuvia.sql.env import Compiled, Env, Maker, Row
from exuvia.sql.evaluate import arithmetic as evaluate_arithmetic
from exuvia.sql.evaluate import logic as evaluate_logic
from exuvia.sql.evaluate import match as evaluate_match
from exuvia.sql.evaluate.arithmetic import binary
from exuvia.sql.evaluate.cast import moment_from_text
from exuvia.sql.evaluate.logic import comparison
from exuvia.sql.expr import Call
from exuvia.sql.functions import interval, json_functions
from exuvia.sql.functions.text import find_text
from exuvia.sql.types import family_of

_OVERFLOW = ErrDatetimeFunctionOverflow("datetime")


def _noted(run: Callable[[Value, Value], Value], arguments: list[Compiled]) -> Compiled:
    """The function of both values; what it cannot give is noted."""
    moment, size = arguments

    def move(row: Row, env: Env) -> Value:
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

    def run(row: Row, env: Env) -> str | None:
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


MOVES = {"date_add": _move, "date_add_text": _move_text}


# -- operators -------------------------------------------------------------------------------------

# -- by collation, by unit -------------------------------------------------------------------------


def _locate(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: part, text, start."""
    collate = call.extra[0]

    def run(row: Row, env: Env) -> int | None:
        part, text, start = (argument(row, env) for argument in arguments)
        if part is None or text is None or start is None:
            return None
        return find_text(text, part, start, collate)

    return run


def _field(call: Call, arguments: list[Compiled]) -> Compiled:
    needle, *items = arguments
    equals = [comparison("=")(call, [needle, item]) for item in items]
    return lambda row, env: next((n for n, same in enumerate(equals, 1) if same(row, env)), 0)


def _find_in_set(call: Call, arguments: list[Compiled]) -> Compiled:
    fold = collation(call.extra[0]).fold if call.arguments[0].family is Family.STRING else None
    key = fold or (lambda value: value)  # unlike =, trailing spaces count

    def run(needle: Value, joined: Value) -> int:
        comma = "," if isinstance(joined, str) else b","
        wanted, at, n = key(needle), 0, 0
        while joined and at <= len(joined):
            end = joined.find(comma, at)
            end = len(joined) if end < 0 else end
            n += 1
            if key(joined[at:end]) == wanted:
                return n
            at = end + 1
            if not n % 1024:
                check()
        return 0

    return binary(run, arguments)


def _difference(call: Call, arguments: list[Compiled]) -> Compiled:
    unit = call.extra[0]
    return binary(lambda a, b: interval.difference(a, b, unit), arguments)


def _extract(call: Call, arguments: list[Compiled]) -> Compiled:
    unit, inner = call.extra[0], arguments[0]

    def run(row: Row, env: Env) -> int | None:
        value = inner(row, env)
        return None if value is None else interval.extract(value, unit)

    return run


def _extract_clock(call: Call, arguments: list[Compiled]) -> Compiled:
    unit, inner = call.extra[0], arguments[0]

    def run(row: Row, env: Env) -> int | None:
        value = inner(row, env)
        return None if value is None else interval.extract_clock(value, unit)

    return run


def _at_zone(call: Call, arguments: list[Compiled]) -> Compiled:
    zone, inner = call.extra[0], arguments[0]

    def run(row: Row, env: Env) -> int | None:
        value = inner(row, env)
        return None if value is None else shift_zone(value, None, zone)

    return run


def _built(run: Callable[..., str]) -> Maker:
    def make(call: Call, arguments: list[Compiled]) -> Compiled:
        kinds = [argument.type for argument in call.arguments]
        return lambda row, env: run([each(row, env) for each in arguments], kinds)

    return make


def _json_change(call: Call, arguments: list[Compiled]) -> Compiled:
    kinds = [argument.type for argument in call.arguments[1:]]
    name = call.function

    def run(row: Row, env: Env) -> str | None:
        document, *pairs = [each(row, env) for each in arguments]
        if document is None or None in pairs[::2]:
            return None
        return json_functions.changed(name, document, pairs, kinds)

    return run


def _collated(call: Call, arguments: list[Compiled]) -> Compiled:
    return arguments[0]


def _weights(call: Call, arguments: list[Compiled]) -> Compiled:
    """WEIGHT_STRING; of texts held to so many characters where `extra` has a size."""
    name, size = call.extra
    inner = arguments[0]

    def run(row: Row, env: Env) -> bytes | None:
        text = inner(row, env)
        if text is None:
            return None
        return weights(text if size is None else text[:size].ljust(size), name)

    return run


def _whole_year(call: Call, arguments: list[Compiled]) -> Compiled:
    """1..69 is 2001..2069, 70..99 is 1970..1999; any other number is itself."""
    inner = arguments[0]

    def run(row: Row, env: Env) -> int | None:
        year = inner(row, env)
        if year is None or not 0 < year < 100:
            return None if year is None else int(year)
        return int(year) + (2000 if year < 70 else 1900)

    return run


def _bits_of(call: Call, arguments: list[Compiled]) -> Compiled:
    """Bytes as the number that their bits are, the last eight of them."""
    inner = arguments[0]

    def run(row: Row, env: Env) -> int | None:
        value = inner(row, env)
        return None if value is None else int.from_bytes(value[-8:], "big")

    return run


OPERATORS: dict[str, Maker] = {
    "bits_of": _bits_of,
    "whole_year": _whole_year,
    **evaluate_logic.OPERATORS,
    **evaluate_arithmetic.OPERATORS,
    **evaluate_match.OPERATORS,
    **MOVES,
    "locate": _locate,
    "field": _field,
    "find_in_set": _find_in_set,
    "timestampdiff": _difference,
    "extract": _extract,
    "extract_time": _extract_clock,
    "json_object": _built(json_functions.build_object),
    "json_array": _built(json_functions.build_array),
    "json_array_append": _json_change,
    "json_array_insert": _json_change,
    "json_set": _json_change,
    "json_insert": _json_change,
    "json_replace": _json_change,
    "at_zone": _at_zone,
    "collate": _collated,
    "weight_string": _weights,
}
