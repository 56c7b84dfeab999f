"""Casts to DATE, DATETIME and TIME: as MySQL reads them, NULL and 1292 for what is none."""

from collections.abc import Callable
from decimal import ROUND_HALF_UP

from exuvia.base.mysql_errors import ErrTruncatedWrongValue
from exuvia.base.types import Family, FieldType
from exuvia.catalog import temporal
from exuvia.sql.evaluate.env import Env
from exuvia.sql.evaluate.texts import DIGITS, Caster, Value, plain_number, text_of
from exuvia.sql.functions import moment
from exuvia.sql.types import family_of, fraction_digits, is_text_like


def to_moment(source: FieldType, target: FieldType, hexadecimal: bool) -> Caster | None:
    """To DATETIME."""
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
    read = _moment_reader(source, "datetime")

    def convert(value: Value, env: Env) -> int | None:
        found = read(value, env)
        return None if found is None else temporal.round_datetime(found, digits)

    return convert


def _today_at(micros: int, env: Env) -> int | None:
    today = moment.day_number(env.now >> 37)
    return moment.of_microseconds(today * moment.DAY_US + micros)


def _moment_reader(source: FieldType, what: str) -> Callable[[Value, Env], int | None]:
    if is_text_like(source) or family_of(source) is Family.JSON:
        text = text_of(source)
        return lambda value, env: moment_from_text(text(value).strip('"'), env, what)
    plain = plain_number(source)

    def read(value: Value, env: Env) -> int | None:
        number = plain(value)
        if isinstance(number, int):
            found = moment.moment_of_number(number)
        else:
            exact = DIGITS.create_decimal(repr(number) if isinstance(number, float) else number)
            base = int(exact)
            micro = int(((exact - base) * 1_000_000).to_integral_value(ROUND_HALF_UP))
            micro *= len(str(base)) > 8  # what follows a date alone is nothing
            found = moment.moment_of_number(base, micro)
        if found is None:
            env.incorrect(what, number)
        return found

    return read


def moment_from_text(
    text: str, env: Env, what: str = "datetime", is_number: bool = False
) -> int | None:
    """A text as packed DATETIME; NULL and 1292 where it is none."""
    found = moment.read_moment(text, env.zone, is_number)
    if found is None or not text.strip():
        env.incorrect(what, text)
        return None
    if found[1]:
        env.warn(ErrTruncatedWrongValue, what, text)
    return found[0]


def to_date(source: FieldType, target: FieldType, hexadecimal: bool) -> Caster | None:
    """To DATE."""
    family = family_of(source)
    if family is Family.DATE:
        return None
    if family is Family.DATETIME:
        return lambda value, env: value >> 37
    if family is Family.TIME:
        return lambda value, env: _day(_today_at(value, env))
    read = _moment_reader(source, "datetime")
    return lambda value, env: _day(read(value, env))


def _day(value: int | None) -> int | None:
    return None if value is None else value >> 37


def to_time(source: FieldType, target: FieldType, hexadecimal: bool) -> Caster | None:
    """To TIME."""
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
    text = text_of(source)
    whole = family in (Family.INT, Family.UINT) and not is_text_like(source)

    def convert(value: Value, env: Env) -> int | None:
        shown = text(value)
        found = moment.time_of_number(value) if whole else moment.read_time(shown)
        if found is None or found[1]:
            env.warn(ErrTruncatedWrongValue, "time", shown)
        return None if found is None else temporal.round_time(found[0], digits)

    return convert
