"""All operators by name, and functions whose evaluation depends on a collation, a unit or types.

LIKE and REGEXP are in evaluate/match.py.

Logic is three-valued; texts are compared by the keys of their collation:

    AND     0 if either is 0, else NULL if either is NULL, else 1          (OR, XOR accordingly)
    = < ..  NULL if either is NULL
    <=>     never NULL

Arithmetic and bits:

    + - *   integers: 1690 beyond 64 bits; decimals: exact, 1690 beyond 81 digits before the point;
            doubles: 1690 if infinite
    / DIV % NULL for a zero divisor, with 1365; a decimal quotient has whole words of nine digits
    & | ^   on 64 unsigned bits

moment + INTERVAL amount unit:

    DATE, DATETIME or TIME    the same family; NULL and 1441 outside the calendar
    a text or a number        a text: only the date if it was a date and the unit is days or more;
                              a fraction only if it is not zero
"""

import math
import operator
import re
from collections.abc import Callable
from decimal import ROUND_05UP, ROUND_DOWN, Decimal
from functools import partial

from exuvia.base.interruption import check
from exuvia.base.memory import size_of
from exuvia.base.mysql_errors import (
    ErrDataOutOfRange,
    ErrDatetimeFunctionOverflow,
)
from exuvia.base.types import Family, Value
from exuvia.catalog import temporal
from exuvia.catalog.collation import collation, weights
from exuvia.catalog.decimals import WIDE, unscaled
from exuvia.catalog.temporal import shift_zone
from exuvia.sql.env import Compiled, Env, Maker, Row
from exuvia.sql.evaluate import match as evaluate_match
from exuvia.sql.evaluate.cast import (
    DIGITS,
    LEAST_CLOCK,
    LEAST_INT,
    MOST_INT,
    MOST_UINT,
    exact_from_text,
    moment_from_text,
    moment_of,
    moment_or_time,
    moment_reader,
    operation,
    split_number,
    text_of,
)
from exuvia.sql.expr import Call, Expr
from exuvia.sql.functions import json_functions
from exuvia.sql.functions import moment as moments
from exuvia.sql.functions.dates import limited_time
from exuvia.sql.functions.text import find_text
from exuvia.sql.types import (
    DIVISION_DIGITS,
    NUMERIC,
    TEMPORAL,
    family_of,
    fraction_digits,
    precision_of,
)

_MOST_WHOLE = 81  # digits before the point: nine words of nine digits


# -- arithmetic and bits ---------------------------------------------------------------------------


def _in_range(
    run: Callable[[Value, Value], Value], call: Call, sign: str
) -> Callable[[Value, Value], Value]:
    family = family_of(call.type)
    if family is Family.FLOAT:

        def double(a: Value, b: Value) -> float:
            try:
                quotient = run(a, b)
            except OverflowError:
                quotient = math.inf
            if not math.isfinite(quotient):
                raise ErrDataOutOfRange("DOUBLE", operation(call, sign, (a, b)))
            return float(quotient)

        return double
    if family is Family.DECIMAL:

        def exact(a: Value, b: Value) -> Value:
            quotient = run(a, b)
            if quotient.adjusted() >= _MOST_WHOLE:
                raise ErrDataOutOfRange("DECIMAL", operation(call, sign, (a, b)))
            return quotient

        return exact
    unsigned = family is Family.UINT
    least, most = (0, MOST_UINT) if unsigned else (LEAST_INT, MOST_INT)
    what = "BIGINT UNSIGNED" if unsigned else "BIGINT"

    def whole(a: Value, b: Value) -> int:
        quotient = run(a, b)
        if quotient < least or quotient > most:
            raise ErrDataOutOfRange(what, operation(call, sign, (a, b)))
        return int(quotient)

    return whole


def _product(left: Decimal, right: Decimal) -> Decimal:
    """The product; a zero has no sign."""
    product = DIGITS.multiply(left, right)
    return product or abs(product)


def _arithmetic(sign: str) -> Maker:
    plain = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
    exact = {"+": DIGITS.add, "-": DIGITS.subtract, "*": _product}[sign]

    def make(call: Call, arguments: list[Compiled]) -> Compiled:
        run = exact if family_of(call.type) is Family.DECIMAL else plain
        return binary(_in_range(run, call, sign), arguments)

    return make


def binary(run: Callable[[Value, Value], Value], arguments: list[Compiled]) -> Compiled:
    """A closure of two operands; NULL if either is NULL."""
    left, right = arguments

    def apply(row: Row, env: Env) -> Value:
        a = left(row, env)
        if a is None:
            return None
        b = right(row, env)
        return None if b is None else run(a, b)

    return apply


_WORD = 9  # digits in one word of MySQL's decimals
_MOST_PLACES = 9 * _WORD


def _words(digits: int) -> int:
    return -(-digits // _WORD) * _WORD


def divide(left: Decimal, right: Decimal, digits: int = DIVISION_DIGITS) -> Decimal:
    """MySQL's decimal quotient: truncated to whole words of nine digits, with `digits` or more.

    As in MySQL, it has at most nine words, of which its whole digits take theirs first."""
    a, b = left.as_tuple().exponent, right.as_tuple().exponent
    s1 = -a if isinstance(a, int) and a < 0 else 0
    s2 = -b if isinstance(b, int) and b < 0 else 0
    w1, w2 = _words(s1), _words(s2)
    more = max(0, digits - (w1 - s1 + w2 - s2))
    scale = _words(w1 + w2 + more)
    quotient = DIGITS.divide(left, right)
    whole = max(0, quotient.adjusted() + 1)
    places = max(0, min(scale, _MOST_PLACES - _words(whole)))
    quotient = quotient.quantize(Decimal(1).scaleb(-places), ROUND_DOWN, WIDE)
    return quotient or abs(quotient)  # zero has no sign


def _division(call: Call, arguments: list[Compiled]) -> Compiled:
    quotient = partial(divide, digits=call.extra[0]) if call.extra else divide
    run = _in_range(operator.truediv if call.type.Tp == 5 else quotient, call, "/")
    return _unless_zero(run, arguments)


def _unless_zero(run: Callable[[Value, Value], Value], arguments: list[Compiled]) -> Compiled:
    left, right = arguments

    def apply(row: Row, env: Env) -> Value:
        a, b = left(row, env), right(row, env)
        if a is None or b is None:
            return None
        if b == 0:
            env.divided_by_zero()
            return None
        return run(a, b)

    return apply


def _whole_quotient(a: Value, b: Value) -> int:
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    left, right = DIGITS.create_decimal(a), DIGITS.create_decimal(b)
    return int(DIGITS.divide(left, right).to_integral_value(ROUND_DOWN))


def _integer_division(call: Call, arguments: list[Compiled]) -> Compiled:
    return _unless_zero(_in_range(_whole_quotient, call, "DIV"), arguments)


def _remainder(a: Value, b: Value) -> Value:
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b)
    if isinstance(a, int) and isinstance(b, int):
        remainder = abs(a) % abs(b)
        return -remainder if a < 0 else remainder
    return WIDE.remainder(WIDE.create_decimal(a), WIDE.create_decimal(b))


def _modulo(call: Call, arguments: list[Compiled]) -> Compiled:
    return _unless_zero(_remainder, arguments)


def _negative(call: Call, arguments: list[Compiled]) -> Compiled:
    inner = arguments[0]
    run = _in_range(lambda a, b: DIGITS.minus(a) if isinstance(a, Decimal) else -a, call, "-")

    def apply(row: Row, env: Env) -> Value:
        value = inner(row, env)
        return None if value is None else run(value, 0)

    return apply


def _bits(run: Callable[[int, int], int]) -> Maker:
    return lambda call, arguments: binary(lambda a, b: run(a, b) & MOST_UINT, arguments)


def _shift_left(a: int, b: int) -> int:
    return a << b if 0 <= b < 64 else 0


def _shift_right(a: int, b: int) -> int:
    return (a & MOST_UINT) >> b if 0 <= b < 64 else 0


def _inverted(call: Call, arguments: list[Compiled]) -> Compiled:
    inner = arguments[0]

    def run(row: Row, env: Env) -> int | None:
        value = inner(row, env)
        return None if value is None else ~value & MOST_UINT

    return run


ARITHMETIC: dict[str, Maker] = {
    **{sign: _arithmetic(sign) for sign in "+-*"},
    "/": _division,
    "div": _integer_division,
    "%": _modulo,
    "negative": _negative,
    "|": _bits(operator.or_),
    "&": _bits(operator.and_),
    "^": _bits(operator.xor),
    "<<": _bits(_shift_left),
    ">>": _bits(_shift_right),
    "~": _inverted,
}


# -- logic -----------------------------------------------------------------------------------------


def _and(call: Call, arguments: list[Compiled]) -> Compiled:
    left, right = arguments

    def run(row: Row, env: Env) -> int | None:
        a = left(row, env)
        if a is not None and not a:
            return 0
        b = right(row, env)
        if b is not None and not b:
            return 0
        return None if a is None or b is None else 1

    return run


def _or(call: Call, arguments: list[Compiled]) -> Compiled:
    left, right = arguments

    def run(row: Row, env: Env) -> int | None:
        a = left(row, env)
        if a:
            return 1
        b = right(row, env)
        if b:
            return 1
        return None if a is None or b is None else 0

    return run


def _xor(call: Call, arguments: list[Compiled]) -> Compiled:
    left, right = arguments

    def run(row: Row, env: Env) -> int | None:
        a, b = left(row, env), right(row, env)
        return None if a is None or b is None else int(bool(a) != bool(b))

    return run


def _not(call: Call, arguments: list[Compiled]) -> Compiled:
    inner = arguments[0]

    def run(row: Row, env: Env) -> int | None:
        value = inner(row, env)
        return None if value is None else int(not value)

    return run


def _is_null(call: Call, arguments: list[Compiled]) -> Compiled:
    inner = arguments[0]
    return lambda row, env: int(inner(row, env) is None)


def _is_true(call: Call, arguments: list[Compiled]) -> Compiled:
    inner = arguments[0]
    return lambda row, env: int(bool(inner(row, env)))


def _is_false(call: Call, arguments: list[Compiled]) -> Compiled:
    inner = arguments[0]

    def run(row: Row, env: Env) -> int:
        value = inner(row, env)
        return int(value is not None and not value)

    return run


_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def key_of(argument: Expr, collate: str) -> Callable[[Value], Value] | None:
    """Returns the function that computes a comparable key; None if values are compared directly."""
    family = argument.family
    if family is Family.STRING:
        rules = collation(collate)
        return None if rules.fold is None and not rules.pads else rules.sort_key
    return json_functions.key if family is Family.JSON else None


def comparison(name: str) -> Maker:
    """The maker of =, <, ..., which compares values or keys."""
    compare = _COMPARE[name]

    def make(call: Call, arguments: list[Compiled]) -> Compiled:
        left, right = arguments
        key = key_of(call.arguments[0], call.extra[0])

        def plain(row: Row, env: Env) -> int | None:
            a = left(row, env)
            if a is None:
                return None
            b = right(row, env)
            return None if b is None else int(compare(a, b))

        def by_key(row: Row, env: Env) -> int | None:
            a = left(row, env)
            if a is None:
                return None
            b = right(row, env)
            if b is None:
                return None
            return int(compare(key(a), key(b)))  # type: ignore[misc]

        return plain if key is None else by_key

    return make


def _null_safe(call: Call, arguments: list[Compiled]) -> Compiled:
    left, right = arguments
    key = key_of(call.arguments[0], call.extra[0]) or (lambda value: value)

    def run(row: Row, env: Env) -> int:
        a, b = left(row, env), right(row, env)
        if a is None or b is None:
            return int(a is b)
        return int(key(a) == key(b))

    return run


_EXACT = frozenset((Family.INT, Family.UINT, Family.DECIMAL))  # equal numbers have one hash


def _in(call: Call, arguments: list[Compiled]) -> Compiled:
    needle, *items = arguments
    key = key_of(call.arguments[0], call.extra[0]) or (lambda value: value)
    comparisons = [comparison("=")(call, [needle, item]) for item in items]
    families = {argument.family for argument in call.arguments}
    same = len(families) == 1 or families <= _EXACT

    def by_set(row: Row, env: Env) -> int | None:
        value = needle(row, env)
        if value is None:
            return None
        cached = env.memory.get(comparisons[0])
        if cached is None:
            values = [item(row, env) for item in items]
            keys = {key(value_of_item) for value_of_item in values if value_of_item is not None}
            cached = keys, None in values
            env.remember(comparisons[0], cached, sum(map(size_of, keys)))
        return 1 if key(value) in cached[0] else None if cached[1] else 0

    def one_by_one(row: Row, env: Env) -> int | None:
        unknown = False
        for comparison in comparisons:
            answer = comparison(row, env)
            if answer:
                return 1
            unknown = unknown or answer is None
        return None if unknown else 0

    return by_set if call.extra[1] and same else one_by_one


def _case(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: condition, value, condition, value, ..., else value."""
    pairs = list(zip(arguments[:-1:2], arguments[1:-1:2], strict=True))
    otherwise = arguments[-1]

    def run(row: Row, env: Env) -> Value:
        for condition, value in pairs:
            if condition(row, env):
                return value(row, env)
        return otherwise(row, env)

    return run


def _coalesce(call: Call, arguments: list[Compiled]) -> Compiled:
    def run(row: Row, env: Env) -> Value:
        for argument in arguments:
            value = argument(row, env)
            if value is not None:
                return value
        return None

    return run


def _null_if(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: the value, and the comparison for which it becomes NULL."""
    value, equal = arguments
    return lambda row, env: None if equal(row, env) else value(row, env)


def _extreme(sign: str) -> Maker:
    pick = max if sign == ">" else min

    def make(call: Call, arguments: list[Compiled]) -> Compiled:
        collate, *of_days = call.extra
        if of_days:
            return _extreme_of_dates(call, arguments, sign)
        key = key_of(call.arguments[0], collate) or (lambda value: value)

        def run(row: Row, env: Env) -> Value:
            values = [argument(row, env) for argument in arguments]
            return None if None in values else pick(values, key=key)

        return run

    return make


def _extreme_of_dates(call: Call, arguments: list[Compiled], sign: str) -> Compiled:
    """GREATEST or LEAST of dates with texts or numbers.

    A value that is not a date is less than all dates. If such a value wins, the arguments are
    compared as texts."""
    collate, of_days = call.extra
    kinds = [argument.type for argument in call.arguments]
    readers = [moment_of(kind) for kind in kinds]
    texts = [text_of(kind) for kind in kinds]
    digits = [fraction_digits(k) if family_of(k) in TEMPORAL else None for k in kinds]
    key = collation(collate).sort_key
    pick = max if sign == ">" else min

    def run(row: Row, env: Env) -> str | None:
        values = [argument(row, env) for argument in arguments]
        if None in values:
            return None
        moments_packed = [
            read(value, env) or 0 for read, value in zip(readers, values, strict=True)
        ]
        best = pick(moments_packed)
        if not best:
            printed = [text(value) for text, value in zip(texts, values, strict=True)]
            return pick(printed, key=key)
        if of_days:
            return temporal.format_date(best >> 37)
        winner = moments_packed.index(best)
        places = digits[winner]
        if places is None:
            places = _places_of(texts[winner](values[winner]), best)
        return temporal.format_datetime(best, places)

    return run


_FRACTION = re.compile(r":\d+\.(\d{0,6})")


def _places_of(text: str, packed: int) -> int:
    """The number of digits of a second in a text."""
    fraction = _FRACTION.search(text)
    return len(fraction[1]) if fraction else 6 * bool(packed & 0xFFFFF)


LOGIC: dict[str, Maker] = {
    "and": _and,
    "or": _or,
    "xor": _xor,
    "not": _not,
    "is null": _is_null,
    "is true": _is_true,
    "is false": _is_false,
    **{name: comparison(name) for name in _COMPARE},
    "<=>": _null_safe,
    "in": _in,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _null_if,
    "greatest": _extreme(">"),
    "least": _extreme("<"),
}


_OVERFLOW = ErrDatetimeFunctionOverflow("datetime")


# -- moment + INTERVAL amount unit -----------------------------------------------------------------


def _moved(run: Callable[[Value, Value], Value], arguments: list[Compiled]) -> Compiled:
    """A function of both values; a NULL result adds error or warning 1441."""
    moment, size = arguments

    def move(row: Row, env: Env) -> Value:
        first, second = moment(row, env), size(row, env)
        if first is None or second is None:
            return None
        moved = run(first, second)
        if moved is None:
            env.raise_or_note(_OVERFLOW)
        return moved

    return move


def _move(call: Call, arguments: list[Compiled]) -> Compiled:
    unit, sign = call.extra
    if family_of(call.arguments[0].type) is Family.TIME:
        return _moved(lambda a, b: moments.add_to_time(a, b, unit, sign), arguments)
    if family_of(call.type) is Family.DATE:
        return _moved(lambda a, b: _date_of(moments.add(a << 37, b, unit, sign)), arguments)
    return _moved(lambda a, b: moments.add(a, b, unit, sign), arguments)


def _date_of(packed: int | None) -> int | None:
    return None if packed is None else packed >> 37


def _move_text(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: a moment as text or number, amount. `extra`: unit, sign."""
    unit, sign = call.extra
    moment, size = arguments
    of_days = unit not in moments.CLOCK_UNITS
    read: Callable[[Value, Env], int | None] = moment_from_text
    is_day: Callable[[Value], bool] = _is_day
    if call.arguments[0].family in NUMERIC:
        read, is_day = moment_reader(call.arguments[0].type, "datetime"), _is_day_number

    def run(row: Row, env: Env) -> str | None:
        start, amount = moment(row, env), size(row, env)
        if start is None or amount is None:
            return None
        packed = read(start, env)
        if packed is None:
            return None
        moved = moments.add(packed, amount, unit, sign)
        if moved is None:
            env.raise_or_note(_OVERFLOW)
            return None
        if of_days and is_day(start):
            return temporal.format_date(moved >> 37)
        return temporal.format_datetime(moved, 6 if moved & 0xFFFFF else 0)

    return run


def _is_day_number(number: Value) -> bool:
    return int(number) < LEAST_CLOCK


def _is_day(text: str) -> bool:
    groups = re.findall(r"\d+", text)
    return 1 < len(groups) <= 3 or (len(groups) == 1 and len(groups[0]) in (5, 6, 8))


def _place_of_number(call: Call, arguments: list[Compiled]) -> Compiled:
    """The comparand of dates for a number. `extra`: whether dates without a time are compared, and
    whether the number is read as a date first: 240101 is 2024-01-01."""
    of_days, reads = call.extra
    inner = arguments[0]

    def run(row: Row, env: Env) -> int | None:
        number = inner(row, env)
        if number is None:
            return None
        base, micro = split_number(number)
        if reads:
            packed = moments.moment_of_number(base, micro * (base >= LEAST_CLOCK), any_day=True)
            if packed is not None:
                return packed
            env.incorrect("datetime", number)
        return moments.place_of_number(base, micro, of_days)

    return run


def _add_time_text(call: Call, arguments: list[Compiled]) -> Compiled:
    """ADDTIME and SUBTIME for a text. Arguments: the text, microseconds. `extra`: the sign."""
    (sign,) = call.extra
    moment, size = arguments
    read = moment_or_time(call.arguments[0].type)

    def run(row: Row, env: Env) -> str | None:
        text, amount = moment(row, env), size(row, env)
        reading = None if text is None or amount is None else read(text, env)
        if reading is None:
            return None
        total = reading.micros + sign * amount
        if reading.has_date:
            packed = moments.of_microseconds(total)
            if packed is not None:
                return temporal.format_datetime(packed, 6 if packed & 0xFFFFF else 0)
            env.raise_or_note(_OVERFLOW)
            return None
        total = limited_time(env, total)
        return temporal.format_time(total, 6 if total % 1_000_000 else 0)

    return run


def _micros_of_text(call: Call, arguments: list[Compiled]) -> Compiled:
    """The microseconds of a TIME in a text; NULL for a date."""
    inner, read = arguments[0], moment_or_time(call.arguments[0].type)

    def run(row: Row, env: Env) -> int | None:
        text = inner(row, env)
        reading = None if text is None else read(text, env)
        return None if reading is None or reading.has_date else reading.micros

    return run


def _add_time(call: Call, arguments: list[Compiled]) -> Compiled:
    """ADDTIME and SUBTIME for a TIME. Arguments: the TIME, microseconds. `extra`: the sign."""
    (sign,) = call.extra
    moment, size = arguments

    def run(row: Row, env: Env) -> int | None:
        micros, amount = moment(row, env), size(row, env)
        return (
            None if micros is None or amount is None else limited_time(env, micros + sign * amount)
        )

    return run


def _time_difference(call: Call, arguments: list[Compiled]) -> Compiled:
    left, right = arguments
    read_left, read_right = (moment_or_time(argument.type) for argument in call.arguments)
    digits = fraction_digits(call.type)

    def run(row: Row, env: Env) -> int | None:
        a, b = left(row, env), right(row, env)
        if a is None or b is None:
            return None
        first, second = read_left(a, env), read_right(b, env)
        if first is None or second is None or first.has_date != second.has_date:
            return None
        return temporal.round_time(limited_time(env, first.micros - second.micros), digits)

    return run


MOVES = {
    "add_time": _add_time,
    "add_time_text": _add_time_text,
    "date_add": _move,
    "date_add_text": _move_text,
    "micros_of_text": _micros_of_text,
    "place_of_number": _place_of_number,
    "timediff": _time_difference,
}


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
    key = fold or (lambda value: value)  # unlike in =, trailing spaces count

    def run(needle: Value, joined: Value) -> int:
        comma = "," if isinstance(joined, str) else b","
        needle_key, at, n = key(needle), 0, 0
        while joined and at <= len(joined):
            end = joined.find(comma, at)
            end = len(joined) if end < 0 else end
            n += 1
            if key(joined[at:end]) == needle_key:
                return n
            at = end + 1
            if not n % 1024:
                check()
        return 0

    return binary(run, arguments)


def _difference(call: Call, arguments: list[Compiled]) -> Compiled:
    unit = call.extra[0]
    return binary(lambda a, b: moments.difference(a, b, unit), arguments)


def _extract(call: Call, arguments: list[Compiled]) -> Compiled:
    unit, inner = call.extra[0], arguments[0]

    def run(row: Row, env: Env) -> int | None:
        value = inner(row, env)
        return None if value is None else moments.extract(value, unit)

    return run


def _extract_clock(call: Call, arguments: list[Compiled]) -> Compiled:
    unit, inner = call.extra[0], arguments[0]

    def run(row: Row, env: Env) -> int | None:
        value = inner(row, env)
        return None if value is None else moments.extract_clock(value, unit)

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
        return lambda row, env: run([argument(row, env) for argument in arguments], kinds)

    return make


def _json_change(call: Call, arguments: list[Compiled]) -> Compiled:
    kinds = [argument.type for argument in call.arguments[1:]]
    name = call.function

    def run(row: Row, env: Env) -> str | None:
        document, *pairs = [argument(row, env) for argument in arguments]
        if document is None or None in pairs[::2]:
            return None
        return json_functions.changed(name, document, pairs, kinds)

    return run


def _collated(call: Call, arguments: list[Compiled]) -> Compiled:
    return arguments[0]


def _weights(call: Call, arguments: list[Compiled]) -> Compiled:
    """WEIGHT_STRING; `extra` has the collation, and a size to which texts are cut or padded."""
    name, size = call.extra
    inner = arguments[0]

    def run(row: Row, env: Env) -> bytes | None:
        text = inner(row, env)
        if text is None:
            return None
        return weights(text if size is None else text[:size].ljust(size), name)

    return run


_FEW_ZEROS = re.compile(r"\s*0{1,3}\s*")


def _whole_year(call: Call, arguments: list[Compiled]) -> Compiled:
    """1..69 is 2001..2069, 70..99 is 1970..1999, a text of one to three zeros is 2000.

    Other numbers do not change. Arguments: the number, and the text it was written as."""
    inner, *texts = arguments

    def run(row: Row, env: Env) -> Value:
        number = inner(row, env)
        if number is None or number >= 100:
            return number
        year = number if isinstance(number, int) else math.floor(number + 0.5)
        if year == 0 and texts and _FEW_ZEROS.fullmatch(texts[0](row, env)):
            return 2000
        return year + (2000 if year < 70 else 1900) if 0 < year < 100 else number

    return run


def _bits_of(call: Call, arguments: list[Compiled]) -> Compiled:
    """The number in the last eight bytes of a value."""
    inner = arguments[0]

    def run(row: Row, env: Env) -> int | None:
        value = inner(row, env)
        return None if value is None else int.from_bytes(value[-8:], "big")

    return run


def _exact_number(call: Call, arguments: list[Compiled]) -> Compiled:
    """The number at the beginning of a text, exact up to the digits of the call's type.

    A number beyond the type is its bound. Digits beyond the scale are rounded away from a number
    that has fewer digits, so the result is not equal to it."""
    inner, text = arguments[0], text_of(call.arguments[0].type)
    precision, scale = precision_of(call.type)
    most = unscaled(10**precision - 1, scale)
    unit = Decimal(1).scaleb(-scale)

    def run(row: Row, env: Env) -> Decimal | None:
        value = inner(row, env)
        if value is None:
            return None
        number = exact_from_text(text(value), env)
        if number.copy_abs() >= most:
            return most.copy_sign(number)
        return number.quantize(unit, ROUND_05UP, WIDE)

    return run


OPERATORS: dict[str, Maker] = {
    "bits_of": _bits_of,
    "exact_number": _exact_number,
    "whole_year": _whole_year,
    **LOGIC,
    **ARITHMETIC,
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
