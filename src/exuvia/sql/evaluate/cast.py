"""Casts inside expressions, which are lenient and give warnings. Assignments to columns are in
catalog/convert/values.py.

    to      from strings               from numbers                      from dates and times
    INT     leading integer, 1292      decimals: halves away from 0;     YYYYMMDD[hhmmss]
                                       doubles: to even; 64 bits
    FLOAT   leading number, 1292       unchanged                         the number
    text    unchanged                  MySQL's text                      MySQL's text
    DATE..  as MySQL reads it, or      YYYYMMDD[hhmmss]                  truncated or extended; TIME
            NULL and 1292                                                uses the current date

`caster` decides once by the two types. It returns the function that converts each value, or None if
no conversion is needed.

Error 1690 contains the expression, with full names of columns; inner operators are functions:

    a - 1            (shop.t.a - 1)
    (a + b) * 2      (plus(shop.t.a, shop.t.b) * 2)
"""

import math
import re
import sys
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, NamedTuple

from exuvia.base.long_text import decoded, encoded, joined, mapped, part_of, repeated
from exuvia.base.memory import LONG
from exuvia.base.mysql_errors import ErrDataOutOfRange, ErrTruncatedWrongValue
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog import temporal
from exuvia.catalog.convert.charset_codecs import CODECS
from exuvia.catalog.convert.values import to_text
from exuvia.catalog.decimals import parsed, unscaled
from exuvia.sql.env import Env
from exuvia.sql.expr import Call, Cast, Column, Constant, Expr, Outer, Parameter, VariableRef, chain
from exuvia.sql.functions import json_functions, moment
from exuvia.sql.types import NUMERIC, datetime, family_of, fraction_digits, is_text_like, time

Caster = Callable[[Value, Env], Value]


DIGITS = Context(prec=120, rounding=ROUND_HALF_UP)
LEAST_CLOCK = 101_000_000  # the least number that is a date with a time, 000101000000


def round_to(value: Decimal, scale: int) -> Decimal:
    """The value with exactly `scale` digits after the point, halves away from zero."""
    rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, DIGITS)
    return rounded or rounded.copy_abs()


def text_of(kind: FieldType) -> Callable[[Value], str]:
    """Returns the function that prints values of a type as MySQL does."""
    if kind.Tp == TypeCode.NEWDECIMAL and kind.Decimal >= 0:
        scale = kind.Decimal
        return lambda value: format(round_to(value, scale), "f")
    family = family_of(kind)
    if family in (Family.INT, Family.UINT) and kind.Tp in range(10) and not kind.Flag & 64:
        return str
    if family in (Family.STRING, Family.JSON):
        return lambda value: value
    if family is Family.BYTES:
        return lambda value: decoded(value, "utf-8", "replace")
    return lambda value: to_text(value, kind)


def plain_number(source: FieldType) -> Callable[[Value], Value]:
    """Returns the function from a number or a moment to int or Decimal."""
    family = family_of(source)
    if family is Family.DATE:
        return temporal.date_number
    digits = fraction_digits(source)
    if family is Family.DATETIME:
        if digits:
            return lambda v: temporal.datetime_number(v) + Decimal(v & 0xFFFFF).scaleb(-6)
        return temporal.datetime_number
    if family is Family.TIME:
        if digits:
            return _time_with_fraction
        return temporal.time_number
    return lambda value: value


def _time_with_fraction(micros: int) -> Decimal:
    fraction = Decimal(abs(micros) % 1_000_000).scaleb(-6)
    whole = Decimal(temporal.time_number(abs(micros)))
    return -(whole + fraction) if micros < 0 else whole + fraction


# -- an expression in an error ---------------------------------------------------------------------

_NAMES = {
    "+": "plus",
    "-": "minus",
    "*": "mul",
    "/": "div",
    "%": "mod",
    "negative": "unaryminus",
    "extract": "extract",
}


def operation(call: Call, sign: str, values: Sequence[object] = ()) -> str:
    """`(left sign right)` for a call of an operator, `-(operand)` for a single operand.

    `values` are the values of operands that are parameters."""
    parts = [shown(part) for part in call.arguments]
    for n, value in enumerate(values[: len(parts)]):
        if isinstance(call.arguments[n], Parameter):
            parts[n] = str(value)
    return f"{sign}({parts[0]})" if len(parts) == 1 else f"({parts[0]} {sign} {parts[1]})"


def shown(expr: Expr) -> str:
    """The text of an operand in error 1690."""
    if isinstance(expr, Column | Outer):
        return expr.full or expr.name
    if isinstance(expr, Constant):
        return "NULL" if expr.value is None else _text(expr)
    if isinstance(expr, Cast):
        return shown(expr.argument)
    if isinstance(expr, VariableRef):
        return f"@{expr.name}"
    if isinstance(expr, Parameter):
        return "?"
    calls = chain(expr)
    if calls:
        text = shown(calls[-1].arguments[0])
        for call in reversed(calls):
            text = f"{_NAMES.get(call.function, call.function)}({text}, {shown(call.arguments[1])})"
        return text
    if isinstance(expr, Call):
        name = _NAMES.get(expr.function, expr.function)
        return f"{name}({', '.join(shown(part) for part in expr.arguments)})"
    return type(expr).__name__.lower()


def _text(constant: Constant) -> str:
    text = text_of(constant.type)(constant.value)
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


# -- dates and times -------------------------------------------------------------------------------


def to_moment(source: FieldType, target: FieldType, hexadecimal: bool) -> Caster | None:
    """Cast to DATETIME."""
    digits = fraction_digits(target)
    family = family_of(source)
    if family is Family.DATETIME:
        if digits >= fraction_digits(source):
            return None
        return lambda value, env: temporal.round_datetime(value, digits)
    if family is Family.DATE:
        return lambda value, env: value << 37
    if family is Family.TIME:
        return lambda value, env: _today_at(temporal.round_time(value, digits), env)
    read = moment_reader(source, "datetime")

    def convert(value: Value, env: Env) -> int | None:
        packed = read(value, env)
        return None if packed is None else temporal.round_datetime(packed, digits)

    return convert


def moment_of(source: FieldType) -> Callable[[Value, Env], int | None]:
    """Returns the converter to a packed DATETIME; NULL and 1292 for other values."""
    caster = to_moment(source, datetime(6), False)
    return caster or (lambda value, env: value)


def _today_at(micros: int, env: Env) -> int | None:
    today = moment.day_number(env.now >> 37)
    return moment.of_microseconds(today * moment.DAY_US + micros)


def split_number(number: Value) -> tuple[int, int]:
    """The integer part of a number, and its fraction in millionths."""
    if isinstance(number, int):
        return number, 0
    exact = DIGITS.create_decimal(repr(number) if isinstance(number, float) else number)
    base = int(exact)
    return base, int(((exact - base) * 1_000_000).to_integral_value(ROUND_HALF_UP))


def moment_reader(source: FieldType, what: str) -> Callable[[Value, Env], int | None]:
    """Returns the reader of texts or numbers as packed DATETIMEs; NULL and 1292 if invalid."""
    if is_text_like(source) or family_of(source) is Family.JSON:
        text = text_of(source)
        return lambda value, env: moment_from_text(text(value).strip('"'), env, what)
    plain = plain_number(source)

    def read(value: Value, env: Env) -> int | None:
        number = plain(value)
        base, micro = split_number(number)
        micro *= base >= LEAST_CLOCK  # digits after a date without a time are ignored
        packed = moment.moment_of_number(base, micro)
        if packed is None and env.takes_any_day:
            packed = moment.moment_of_number(base, micro, any_day=True)
        if packed is None:
            env.incorrect(what, number)
        return packed

    return read


def moment_from_text(text: str, env: Env, what: str = "datetime") -> int | None:
    """A text as a packed DATETIME; NULL and 1292 if it is not a valid moment."""
    reading = moment.read_moment(text, env.zone)
    if reading is None and env.takes_any_day:
        reading = moment.read_moment(text, env.zone, any_day=True)
    if reading is None or not text.strip():
        env.incorrect(what, text)
        return None
    if reading[1]:
        env.warn(ErrTruncatedWrongValue, what, text)
    return reading[0]


def to_date(source: FieldType, target: FieldType, hexadecimal: bool) -> Caster | None:
    """Cast to DATE."""
    family = family_of(source)
    if family is Family.DATE:
        return None
    if family is Family.DATETIME:
        return lambda value, env: value >> 37
    if family is Family.TIME:
        return lambda value, env: _day(_today_at(value, env))
    read = moment_reader(source, "datetime")
    return lambda value, env: _day(read(value, env))


def _day(value: int | None) -> int | None:
    return None if value is None else value >> 37


def to_time(source: FieldType, target: FieldType, hexadecimal: bool) -> Caster | None:
    """Cast to TIME."""
    digits = fraction_digits(target)
    family = family_of(source)
    if family is Family.TIME:
        if digits >= fraction_digits(source):
            return None
        return lambda value, env: temporal.round_time(value, digits)
    if family is Family.DATE:
        return lambda value, env: 0
    if family is Family.DATETIME:
        return lambda value, env: temporal.round_time(temporal.time_of(value), digits)
    text = _unquoted if family is Family.JSON else text_of(source)
    is_number = family in NUMERIC and not is_text_like(source)

    def convert(value: Value, env: Env) -> int | None:
        value_text = text(value)
        if is_number:
            reading = moment.time_of_number(*split_number(value))
        else:
            reading = moment.read_time(value_text)
        if reading is None or reading[1]:
            env.warn(ErrTruncatedWrongValue, "time", value_text)
        return None if reading is None else temporal.round_time(reading[0], digits)

    return convert


class MomentOrTime(NamedTuple):
    """A DATETIME in microseconds since day 0, or a TIME in microseconds."""

    has_date: bool
    micros: int


def moment_or_time(source: FieldType) -> Callable[[Value, Env], MomentOrTime | None]:
    """Returns the reader of a date, a time or their texts; NULL and 1292 for other texts."""
    family = family_of(source)
    if family is Family.TIME:
        return lambda value, env: MomentOrTime(False, value)
    if family is Family.DATETIME:
        return lambda value, env: MomentOrTime(True, moment.microseconds(value))
    text = text_of(source)
    as_time = to_time(source, time(6), False)
    assert as_time is not None, source

    def read(value: Value, env: Env) -> MomentOrTime | None:
        if _has_date(text(value)):
            packed = moment_from_text(text(value), env)
            return None if packed is None else MomentOrTime(True, moment.microseconds(packed))
        micros = as_time(value, env)
        return None if micros is None else MomentOrTime(False, micros)

    return read


def _has_date(text: str) -> bool:
    """Whether a text that may be a DATETIME or a TIME is read as a DATETIME."""
    body = text.strip()
    if "-" in body[1:] or (len(body) >= 12 and body[:12].isdigit()):
        return True
    return temporal.split_time(body) is None and temporal.may_be_moment(body)


def _unquoted(document: Value) -> str:
    return str(document).strip('"')


# -- any two types ---------------------------------------------------------------------------------

MOST_INT, LEAST_INT, MOST_UINT = (1 << 63) - 1, -(1 << 63), (1 << 64) - 1

_INTEGER = re.compile(r"\s*([+-]?\d+)\s*")
_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*")


def caster(source: FieldType, target: FieldType, hexadecimal: bool = False) -> Caster | None:
    """Returns the conversion between two types; None if values do not change."""
    family = family_of(target)
    if family is None or source.Tp == TypeCode.NULL:
        return None
    return _MAKERS[family](source, target, hexadecimal)


# -- numbers ---------------------------------------------------------------------------------------


def number_from_text(text: str, env: Env, what: str = "DOUBLE") -> float:
    """The number at the beginning of a text; 1292 if more follows. Blanks alone are 0."""
    number = float(_digits_of(text, env, what))
    if number in (math.inf, -math.inf):
        env.warn(ErrTruncatedWrongValue, what, text)
        return math.copysign(sys.float_info.max, number)
    return number


def exact_from_text(text: str, env: Env) -> Decimal:
    """As `number_from_text`, with all digits."""
    return parsed(_digits_of(text, env, "DOUBLE"))


def _digits_of(text: str, env: Env, what: str) -> str:
    match = _NUMBER.match(text)
    if match is None and not text.strip():
        return "0"
    if match is None or match.end() != len(text):
        env.warn(ErrTruncatedWrongValue, what, text)
    return "0" if match is None else match[1]


def _to_double(source: FieldType, target: FieldType, hexadecimal: bool) -> Caster | None:
    family = family_of(source)
    if family is Family.FLOAT:
        return None
    if hexadecimal:
        return lambda value, env: float(int.from_bytes(value[-8:], "big"))
    if is_text_like(source):
        if source.Tp in (TypeCode.ENUM, TypeCode.SET):
            return lambda value, env: float(value)
        text = text_of(source)
        return lambda value, env: number_from_text(text(value), env)
    if family is Family.JSON:
        return lambda value, env: json_functions.number(value, env)
    plain = plain_number(source)
    return lambda value, env: float(plain(value))


def whole(number: Value) -> int:
    """A number rounded to an integer as in MySQL: decimals away from zero, doubles to even."""
    if isinstance(number, float):
        if number != number or abs(number) > 1e30:
            return int(1e30) if number > 0 else -int(1e30)
        return round(number)
    if isinstance(number, Decimal):
        return int(number.to_integral_value(ROUND_HALF_UP))
    return int(number)


def hold(number: int, unsigned: bool, env: Env, what: str = "DECIMAL") -> int:
    """An integer limited to 64 bits; negative ones wrap if unsigned, as in CAST.

    `what`: the type in 1292."""
    if unsigned:
        if number < 0:
            return max(number, LEAST_INT) & MOST_UINT
        if number > MOST_UINT:
            env.warn(ErrTruncatedWrongValue, what, number)
        return min(number, MOST_UINT)
    if LEAST_INT <= number <= MOST_INT:
        return number
    if number > MOST_INT and number <= MOST_UINT:
        return number - (1 << 64)
    env.warn(ErrTruncatedWrongValue, "DECIMAL", number)
    return MOST_INT if number > 0 else LEAST_INT


def _to_integer(source: FieldType, target: FieldType, hexadecimal: bool) -> Caster | None:
    unsigned = target.unsigned or family_of(target) is Family.UINT
    family = family_of(source)
    if hexadecimal:
        return lambda value, env: hold(_of_bytes(value, env), unsigned, env)
    if source.Tp in (TypeCode.ENUM, TypeCode.SET, TypeCode.BIT, TypeCode.YEAR):
        return None
    if family in (Family.INT, Family.UINT):
        if (family is Family.UINT) == unsigned:
            return None
        return lambda value, env: hold(value, unsigned, env)
    if is_text_like(source):
        text = text_of(source)
        return lambda value, env: _integer_from_text(text(value), unsigned, env)
    if family is Family.JSON:
        return lambda value, env: _integer_from_json(value, unsigned, env)
    if family is Family.FLOAT:
        return lambda value, env: _integer_from_double(value, unsigned, env)
    if family is Family.TIME:
        return lambda value, env: hold(
            temporal.time_number(temporal.round_time(value, 0)), unsigned, env
        )
    if family is Family.DATETIME:
        return lambda value, env: temporal.datetime_number(
            temporal.round_datetime(value, 0) or value
        )
    plain = plain_number(source)
    return lambda value, env: _integer_from_decimal(whole(plain(value)), unsigned, env)


def _integer_from_decimal(number: int, unsigned: bool, env: Env) -> int:
    """A DECIMAL beyond BIGINT becomes the bound; it does not wrap as an integer or a text does."""
    if not unsigned and number > MOST_INT:
        env.warn(ErrTruncatedWrongValue, "DECIMAL", number)
        return MOST_INT
    return hold(number, unsigned, env)


def _of_bytes(value: bytes, env: Env) -> int:
    """A hexadecimal literal as a number; all bits set if it has more than eight bytes."""
    number = int.from_bytes(value, "big")
    if number > MOST_UINT:
        env.warn(ErrTruncatedWrongValue, "BINARY", value.hex())
    return min(number, MOST_UINT)


def _integer_from_double(value: float, unsigned: bool, env: Env) -> int:
    number = whole(value)
    most = MOST_UINT if unsigned else MOST_INT
    if number > most or (not unsigned and number < LEAST_INT):
        env.raise_or_note(ErrDataOutOfRange.with_text(f"constant {value!r} overflows bigint"))
        return most if number > 0 else LEAST_INT
    return hold(number, unsigned, env)


def _integer_from_json(text: str, unsigned: bool, env: Env) -> int:
    document = json_functions.load(text)
    if isinstance(document, bool | int) and document <= MOST_UINT:
        return hold(int(document), unsigned, env)
    if isinstance(document, str):
        return _integer_from_text(document, unsigned, env)
    return _integer_from_double(json_functions.number(text, env), unsigned, env)


def _integer_from_text(text: str, unsigned: bool, env: Env) -> int:
    match = _INTEGER.match(text)
    if match is None or match.end() != len(text):
        env.warn(ErrTruncatedWrongValue, "INTEGER", text)
    number = 0
    if match is not None:
        digits = match[1].lstrip("+-0")[:40]  # beyond all types: later digits do not matter
        number = int(digits or 0)
        number = -number if match[1][0] == "-" else number
    if not unsigned and number > MOST_UINT:
        env.warn(ErrTruncatedWrongValue, "INTEGER", text)
        return -1
    return hold(number, unsigned, env, "INTEGER" if unsigned else "DECIMAL")


def _to_decimal(source: FieldType, target: FieldType, hexadecimal: bool) -> Caster | None:
    family = family_of(source)
    scale, precision = max(0, target.Decimal), target.Flen
    limit = Decimal(10) ** (precision - scale)
    most = unscaled(10**precision - 1, scale)
    if family in (Family.INT, Family.UINT) and scale == 0 and precision >= 20:
        return lambda value, env: Decimal(value)
    if family is Family.DECIMAL and source.Decimal == scale and source.Flen <= precision:
        return None
    read = _decimal_reader(source, hexadecimal)

    def convert(value: Value, env: Env) -> Decimal:
        number = read(value, env)
        if number.adjusted() < precision or not number:  # a larger number exceeds the limit below
            number = round_to(number, scale)
        if abs(number) >= limit:
            env.warn(ErrDataOutOfRange, "DECIMAL", f"({precision}, {scale})")
            return most.copy_sign(number)
        return number

    return convert


def _decimal_reader(source: FieldType, hexadecimal: bool) -> Callable[[Value, Env], Decimal]:
    family = family_of(source)
    if hexadecimal:
        return lambda value, env: Decimal(int.from_bytes(value[-8:], "big"))
    if family is Family.FLOAT:
        return lambda value, env: Decimal(repr(value))
    if is_text_like(source) and source.Tp not in (TypeCode.ENUM, TypeCode.SET):
        text = text_of(source)
        return lambda value, env: _decimal_from_text(text(value), env)
    if family is Family.JSON:
        return lambda value, env: Decimal(repr(json_functions.number(value, env)))
    plain = plain_number(source)
    return lambda value, env: DIGITS.create_decimal(plain(value))


def _decimal_from_text(text: str, env: Env) -> Decimal:
    match = _NUMBER.match(text)
    if match is None or match.end() != len(text):
        env.warn(ErrTruncatedWrongValue, "DECIMAL", text)
    return Decimal(0) if match is None else DIGITS.plus(parsed(match[1]))


# -- text ------------------------------------------------------------------------------------------


def _to_string(source: FieldType, target: FieldType, hexadecimal: bool) -> Caster | None:
    limit = target.Flen if target.Tp == TypeCode.STRING and target.Flen >= 0 else -1
    codec = CODECS.get(target.Charset)
    named = source.Tp in (TypeCode.ENUM, TypeCode.SET)
    if codec and family_of(source) in (Family.STRING, Family.BYTES) and not named:
        return _to_charset(source, codec, limit)
    if family_of(source) in (Family.STRING, Family.JSON):
        if limit < 0:
            return None
        return lambda value, env: _cut(value, limit, "CHAR", env)
    text = text_of(source)
    if limit < 0:
        return lambda value, env: text(value)
    return lambda value, env: _cut(text(value), limit, "CHAR", env)


def _to_charset(source: FieldType, codec: str, limit: int) -> Caster:
    """Returns the cast to a text in another charset: bytes are its bytes; unknown ones become ?."""

    def convert(value: Value, env: Env) -> str:
        raw = value if isinstance(value, bytes) else encoded(value, codec, "replace")
        text = decoded(raw, codec, "replace")
        text = mapped(text, lambda piece: piece.replace("\ufffd", "?"))
        return text if limit < 0 else str(_cut(text, limit, "CHAR", env))

    return convert


def _cut(value: Value, limit: int, what: str, env: Env) -> Any:
    if len(value) <= limit:
        return value
    value_text = value if isinstance(value, str) else decoded(value, "utf-8", "replace")
    env.warn(ErrTruncatedWrongValue, f"{what}({limit})", value_text)
    return part_of(value, 0, limit)


def _filled(raw: bytes, limit: int, env: Env) -> bytes:
    """Bytes as BINARY(limit), padded with NUL."""
    if limit > max(LONG, len(raw)):
        env.tracker.claim(limit)
    cut = _cut(raw, limit, "BINARY", env)
    return joined(b"", [cut, repeated(b"\0", limit - len(cut))])


def _to_bytes(source: FieldType, target: FieldType, hexadecimal: bool) -> Caster | None:
    limit = target.Flen if target.Tp == TypeCode.STRING and target.Flen >= 0 else -1
    if family_of(source) is Family.BYTES:
        if limit < 0:
            return None
        return lambda value, env: _filled(value, limit, env)
    text, codec = text_of(source), CODECS.get(source.Charset)
    if source.Tp == TypeCode.BIT:
        return _bytes_in(text, "latin-1", limit)  # its text has a character per byte
    if codec is not None and is_text_like(source):
        return _bytes_in(text, codec, limit)
    if limit < 0:
        return lambda value, env: encoded(text(value), "utf-8", "surrogateescape")
    return lambda value, env: _filled(encoded(text(value)), limit, env)


def _bytes_in(text: Callable[[Value], str], codec: str, limit: int) -> Caster:
    def convert(value: Value, env: Env) -> bytes:
        raw = encoded(text(value), codec, "replace")
        return raw if limit < 0 else _filled(raw, limit, env)

    return convert


def _to_json(source: FieldType, target: FieldType, hexadecimal: bool) -> Caster | None:
    if family_of(source) is Family.JSON:
        return None
    return lambda value, env: json_functions.from_value(value, source)


_MAKERS: dict[Family, Callable[[FieldType, FieldType, bool], Caster | None]] = {
    Family.INT: _to_integer,
    Family.UINT: _to_integer,
    Family.DECIMAL: _to_decimal,
    Family.FLOAT: _to_double,
    Family.STRING: _to_string,
    Family.BYTES: _to_bytes,
    Family.DATE: to_date,
    Family.DATETIME: to_moment,
    Family.TIME: to_time,
    Family.JSON: _to_json,
}
