"""Mathematical functions (manual, "Mathematical Functions")."""

import math
import random
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from zlib import crc32

from msgspec.structs import replace as evolve

from exuvia.base.mysql_errors import ErrDataOutOfRange
from exuvia.base.types import Family, FieldType, Value
from exuvia.sql import types
from exuvia.sql.env import Env
from exuvia.sql.expr import Constant, Expr
from exuvia.sql.functions.table import Function, always

_DIGITS = Context(prec=120, rounding=ROUND_HALF_UP)


def _same_number(arguments: Sequence[Expr]) -> FieldType:
    return types.numeric_form(arguments[0].type)


def _whole_of(arguments: Sequence[Expr]) -> FieldType:
    kind = types.numeric_form(arguments[0].type)
    if types.family_of(kind) is Family.DECIMAL:
        digits = kind.Flen - max(0, kind.Decimal) + 1
        return types.integer(20) if digits <= 18 else types.decimal(digits, 0)
    return kind if types.family_of(kind) in types.WHOLE else types.DOUBLE


def _rounded_type(arguments: Sequence[Expr]) -> FieldType:
    kind = types.numeric_form(arguments[0].type)
    family = types.family_of(kind)
    places = arguments[1] if len(arguments) > 1 else None
    if family is not Family.DECIMAL:
        return types.DOUBLE if family is Family.FLOAT else kind
    scale = max(0, kind.Decimal)
    if places is None:
        places_kept = 0
    elif isinstance(places, Constant) and isinstance(places.value, int):
        places_kept = places.value
    else:
        return kind
    places_kept = max(0, min(places_kept, types.MOST_SCALE))
    return types.decimal(kind.Flen - scale + places_kept + 1, places_kept)


def _round(value: Value, places: int = 0) -> Value:
    if isinstance(value, Decimal):
        return _quantize(value, places, ROUND_HALF_UP)
    if isinstance(value, int):
        if places >= 0:
            return value
        if places < -30:
            return 0
        unit = 10**-places
        whole = (abs(value) + unit // 2) // unit * unit
        return -whole if value < 0 else whole
    places = max(-400, min(places, 400))
    power = 10.0 ** abs(places) if abs(places) <= 308 else math.inf
    if places < 0:
        return 0.0 if math.isinf(power) else _rint(value / power) * power
    scaled = value * power
    return _rint(scaled) / power if math.isfinite(scaled) else value


def _rint(value: float) -> float:
    return float(round(value)) if abs(value) < 2**52 else value


def _quantize(value: Decimal, places: int, how: str) -> Decimal:
    exponent = value.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) else 0
    places = max(-70, min(places, scale))
    rounded = value.quantize(Decimal(1).scaleb(-places), how, _DIGITS)
    if not rounded:
        rounded = rounded.copy_abs()
    return rounded.quantize(Decimal(1), context=_DIGITS) if places < 0 else rounded


def _truncate(value: Value, places: int) -> Value:
    if isinstance(value, Decimal):
        return _quantize(value, places, ROUND_DOWN)
    if isinstance(value, int):
        if places >= 0:
            return value
        unit = 10 ** min(-places, 30)
        return abs(value) // unit * unit * (-1 if value < 0 else 1)
    power = 10.0 ** abs(max(-300, min(places, 300)))
    scaled = value / power if places < 0 else value * power
    if not math.isfinite(scaled):
        return value
    cut = float(math.trunc(scaled))
    return cut * power if places < 0 else cut / power


def _ceiling(value: Value) -> Value:
    if isinstance(value, Decimal):
        return int(value.to_integral_value(ROUND_CEILING))
    return value if isinstance(value, int) else float(math.ceil(value))


def _floor(value: Value) -> Value:
    if isinstance(value, Decimal):
        return int(value.to_integral_value(ROUND_FLOOR))
    return value if isinstance(value, int) else float(math.floor(value))


def _absolute(value: Value) -> Value:
    if isinstance(value, int) and value == -(1 << 63):
        raise ErrDataOutOfRange("BIGINT", f"abs({value})")
    return value.copy_abs() if isinstance(value, Decimal) else abs(value)


def _interval(*values: float | None) -> int:
    """INTERVAL(n, a, b, ..): the number of ascending numbers before the first one above n.

    -1 for NULL. A NULL among the numbers counts, but is never above n."""
    number, *marks = values
    if number is None:
        return -1
    above = (place for place, mark in enumerate(marks) if mark is not None and mark > number)
    return next(above, len(marks))


_QUARTER = (7.85398125648498535156e-1, 3.77489470793079817668e-8, 2.69515142907905952645e-15)
_TAN_ABOVE = (-1.30936939181383734205e4, 1.15351664838587416140e6, -1.79565251976484877988e7)
_TAN_BELOW = (
    1.36812963470692954678e4,
    -1.32089234440210967447e6,
    2.50083801823357915839e7,
    -5.38695755929454629881e7,
)


def _tangent(value: float) -> float:
    """TAN by Cephes' approximation, whose last digit differs from the C library's."""
    size = abs(value)
    if not size < 1 << 29:
        return math.tan(value)
    octant = int(size * (4 / math.pi))
    octant += octant & 1
    rest = ((size - octant * _QUARTER[0]) - octant * _QUARTER[1]) - octant * _QUARTER[2]
    square, tangent = rest * rest, rest
    if square > 1e-14:
        above = (_TAN_ABOVE[0] * square + _TAN_ABOVE[1]) * square + _TAN_ABOVE[2]
        below = square + _TAN_BELOW[0]
        for factor in _TAN_BELOW[1:]:
            below = below * square + factor
        tangent = rest + rest * (square * above / below)
    if octant & 2:
        tangent = -1 / tangent
    return -tangent if value < 0 else tangent


def _cotangent(value: float) -> float:
    slope = _tangent(value)
    return types.finite(1 / slope if slope else math.inf, f"cot({value:g})")


def _degrees(value: float) -> float:
    return types.finite(math.degrees(value), f"degrees({value:g})")


def _radians(value: float) -> float:
    angle = value * math.pi / 180
    return value * (math.pi / 180) if math.isinf(angle) else angle


def _power(base: float, exponent: float) -> float | None:
    try:
        power = base**exponent
    except ZeroDivisionError:
        raise ErrDataOutOfRange("DOUBLE", f"pow({base:g}, {exponent:g})") from None
    except OverflowError:
        raise ErrDataOutOfRange("DOUBLE", f"pow({base:g}, {exponent:g})") from None
    if isinstance(power, complex):
        raise ErrDataOutOfRange("DOUBLE", f"pow({base:g},{exponent:g})")
    return types.finite(float(power), f"pow({base:g},{exponent:g})")


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        raise ErrDataOutOfRange("DOUBLE", f"exp({value:g})") from None


def _logarithm(value: float, other: float | None = None) -> float | None:
    if other is not None:
        if value <= 0 or value == 1 or other <= 0:
            return None
        return math.log(other) / math.log(value)
    return math.log(value) if value > 0 else None


def _in_domain(function: Callable[..., Value]) -> Value:
    def run(value: float) -> float | None:
        try:
            return float(function(value))
        except ValueError:
            return None

    return run


def _sign(value: Value) -> int:
    return int(value > 0) - int(value < 0)


def _random(env: Env, seed: int | None = None) -> float:
    key = ("rand", seed)
    if key not in env.memory:
        env.memory[key] = _seeded(seed) if seed is not None else random.SystemRandom()
    return float(env.memory[key].random())


class _Seeded:
    """MySQL's generator, so that RAND(seed) returns MySQL's numbers (password.cc, my_rnd)."""

    __slots__ = ("one", "two")

    def __init__(self, one: int, two: int) -> None:
        self.one = one % 0x3FFFFFFF
        self.two = two % 0x3FFFFFFF

    def random(self) -> float:
        self.one = (self.one * 3 + self.two) % 0x3FFFFFFF
        self.two = (self.one + self.two + 33) % 0x3FFFFFFF
        return self.one / 0x3FFFFFFF


def _seeded(seed: int) -> _Seeded:
    return _Seeded((seed * 0x10001 + 55555555) & 0xFFFFFFFF, (seed * 0x10000001) & 0xFFFFFFFF)


def _convert_base(text: str, source: int, target: int) -> str | None:
    if not (2 <= abs(source) <= 36 and 2 <= abs(target) <= 36):
        return None
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = text.strip().lower()
    negative = text.startswith("-")
    number = 0
    for sign in text.lstrip("+-"):
        place = digits.find(sign)
        if not 0 <= place < abs(source) or number >= 1 << 64:
            break
        number = number * abs(source) + place
    number = min(number, (1 << 64) - 1)
    number = -number if negative else number
    if target > 0:
        number &= (1 << 64) - 1
    digits_shown, rest = "", abs(number)
    while rest:
        rest, place = divmod(rest, abs(target))
        digits_shown = digits[place] + digits_shown
    return ("-" if number < 0 else "") + (digits_shown.upper() or "0")


def _bits(value: int) -> int:
    return (value & ((1 << 64) - 1)).bit_count()


FUNCTIONS = {
    "abs": Function(1, 1, "n", _same_number, _absolute),
    "acos": Function(1, 1, "f", always(types.DOUBLE), _in_domain(math.acos)),
    "asin": Function(1, 1, "f", always(types.DOUBLE), _in_domain(math.asin)),
    "atan": Function(1, 2, "f", always(types.DOUBLE), lambda y, x=1.0: math.atan2(y, x)),
    "atan2": Function(2, 2, "f", always(types.DOUBLE), math.atan2),
    "bit_count": Function(1, 1, "i", always(types.BIGINT), _bits),
    "ceil": Function(1, 1, "n", _whole_of, _ceiling),
    "ceiling": Function(1, 1, "n", _whole_of, _ceiling),
    "conv": Function(3, 3, "sii", always(types.text(64)), _convert_base),
    "cos": Function(1, 1, "f", always(types.DOUBLE), math.cos),
    "cot": Function(1, 1, "f", always(types.DOUBLE), _cotangent),
    "crc32": Function(1, 1, "b", always(types.UNSIGNED), crc32),
    "degrees": Function(1, 1, "f", always(types.DOUBLE), _degrees),
    "exp": Function(1, 1, "f", always(types.DOUBLE), _exponential),
    "floor": Function(1, 1, "n", _whole_of, _floor),
    "interval": Function(2, -1, "f", always(types.BIGINT), _interval, nulls=True),
    "ln": Function(1, 1, "f", always(types.DOUBLE), _logarithm),
    "log": Function(1, 2, "f", always(types.DOUBLE), _logarithm),
    "log10": Function(1, 1, "f", always(types.DOUBLE), _in_domain(math.log10)),
    "log2": Function(1, 1, "f", always(types.DOUBLE), _in_domain(math.log2)),
    "pi": Function(0, 0, "", always(evolve(types.DOUBLE, Decimal=6, Flen=8)), lambda: math.pi),
    "pow": Function(2, 2, "f", always(types.DOUBLE), _power),
    "power": Function(2, 2, "f", always(types.DOUBLE), _power),
    "radians": Function(1, 1, "f", always(types.DOUBLE), _radians),
    "rand": Function(0, 1, "i", always(types.DOUBLE), _random, env=True, volatile=True),
    "round": Function(1, 2, "ni", _rounded_type, _round),
    "sign": Function(1, 1, "n", always(types.BIGINT), _sign),
    "sin": Function(1, 1, "f", always(types.DOUBLE), math.sin),
    "sqrt": Function(1, 1, "f", always(types.DOUBLE), _in_domain(math.sqrt)),
    "tan": Function(1, 1, "f", always(types.DOUBLE), _tangent),
    "truncate": Function(2, 2, "ni", _rounded_type, _truncate),
}
