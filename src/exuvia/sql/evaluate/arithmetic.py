"""Arithmetic and bits.

+ - *   integers: 1690 beyond 64 bits; decimals exact, 1690 beyond 81 digits before the point;
        doubles: 1690 where infinite
/ DIV % NULL for a zero divisor, with 1365; a decimal quotient keeps whole words of nine digits
& | ^   on 64 unsigned bits
"""

import math
import operator
from collections.abc import Callable
from decimal import ROUND_DOWN, Decimal

from exuvia.base.mysql_errors import ErrDataOutOfRange, ErrDivisionByZero
from exuvia.base.types import Family, Value
from exuvia.sql.env import Compiled, Env, Maker, Row
from exuvia.sql.evaluate.cast import LEAST_INT, MOST_INT, MOST_UINT
from exuvia.sql.evaluate.texts import DIGITS, operation
from exuvia.sql.expr import Call
from exuvia.sql.types import family_of

_MOST_WHOLE = 81  # digits before the point: nine words of nine


def _held(
    run: Callable[[Value, Value], Value], call: Call, sign: str
) -> Callable[[Value, Value], Value]:
    family = family_of(call.type)
    if family is Family.FLOAT:

        def double(a: Value, b: Value) -> float:
            try:
                found = run(a, b)
            except OverflowError:
                found = math.inf
            if math.isinf(found) or math.isnan(found):
                raise ErrDataOutOfRange("DOUBLE", operation(call, sign, (a, b)))
            return float(found)

        return double
    if family is Family.DECIMAL:

        def exact(a: Value, b: Value) -> Value:
            found = run(a, b)
            if found.adjusted() >= _MOST_WHOLE:
                raise ErrDataOutOfRange("DECIMAL", operation(call, sign, (a, b)))
            return found

        return exact
    unsigned = family is Family.UINT
    least, most = (0, MOST_UINT) if unsigned else (LEAST_INT, MOST_INT)
    what = "BIGINT UNSIGNED" if unsigned else "BIGINT"

    def whole(a: Value, b: Value) -> int:
        found = run(a, b)
        if found < least or found > most:
            raise ErrDataOutOfRange(what, operation(call, sign, (a, b)))
        return int(found)

    return whole


def _arithmetic(sign: str) -> Maker:
    plain = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
    exact = {"+": DIGITS.add, "-": DIGITS.subtract, "*": DIGITS.multiply}[sign]

    def make(call: Call, arguments: list[Compiled]) -> Compiled:
        run = exact if family_of(call.type) is Family.DECIMAL else plain
        return binary(_held(run, call, sign), arguments)

    return make


def binary(run: Callable[[Value, Value], Value], arguments: list[Compiled]) -> Compiled:
    """A closure of two operands; NULL where either is."""
    left, right = arguments

    def apply(row: Row, env: Env) -> Value:
        a = left(row, env)
        if a is None:
            return None
        b = right(row, env)
        return None if b is None else run(a, b)

    return apply


_WORD = 9  # digits of one word of MySQL's decimals


def _words(digits: int) -> int:
    return -(-digits // _WORD) * _WORD


def divide(left: Decimal, right: Decimal) -> Decimal:
    """MySQL's decimal quotient: cut after whole words of nine digits, at least four digits more."""
    a, b = left.as_tuple().exponent, right.as_tuple().exponent
    s1 = -a if isinstance(a, int) and a < 0 else 0
    s2 = -b if isinstance(b, int) and b < 0 else 0
    w1, w2 = _words(s1), _words(s2)
    more = max(0, 4 - (w1 - s1 + w2 - s2))
    scale = _words(w1 + w2 + more)
    return DIGITS.divide(left, right).quantize(Decimal(1).scaleb(-scale), ROUND_DOWN, DIGITS)


def _division(call: Call, arguments: list[Compiled]) -> Compiled:
    run = _held(operator.truediv if call.type.Tp == 5 else divide, call, "/")
    return _unless_zero(run, arguments)


def _unless_zero(run: Callable[[Value, Value], Value], arguments: list[Compiled]) -> Compiled:
    left, right = arguments

    def apply(row: Row, env: Env) -> Value:
        a, b = left(row, env), right(row, env)
        if a is None or b is None:
            return None
        if b == 0:
            env.warn(ErrDivisionByZero)
            return None
        return run(a, b)

    return apply


def _whole_quotient(a: Value, b: Value) -> int:
    if isinstance(a, int) and isinstance(b, int):
        found = abs(a) // abs(b)
        return found if (a < 0) == (b < 0) else -found
    left, right = DIGITS.create_decimal(a), DIGITS.create_decimal(b)
    return int(DIGITS.divide(left, right).to_integral_value(ROUND_DOWN))


def _integer_division(call: Call, arguments: list[Compiled]) -> Compiled:
    return _unless_zero(_held(_whole_quotient, call, "DIV"), arguments)


def _remainder(a: Value, b: Value) -> Value:
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b)
    if isinstance(a, int) and isinstance(b, int):
        found = abs(a) % abs(b)
        return -found if a < 0 else found
    return DIGITS.remainder(DIGITS.create_decimal(a), DIGITS.create_decimal(b))


def _modulo(call: Call, arguments: list[Compiled]) -> Compiled:
    return _unless_zero(_remainder, arguments)


def _negative(call: Call, arguments: list[Compiled]) -> Compiled:
    inner = arguments[0]
    run = _held(lambda a, b: DIGITS.minus(a) if isinstance(a, Decimal) else -a, call, "-")

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


OPERATORS: dict[str, Maker] = {
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
