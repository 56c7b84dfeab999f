"""Date and time functions (manual, "Date and Time Functions"). Values are packed as base/types.py
says.

DuckDB's forms compute on the packed integers: a DATE is year << 9 | month << 5 | day, a DATETIME
has its date 37 bits further up, so parts are shifts and masks and no zero date is lost.

UNIX_TIMESTAMP, FROM_UNIXTIME: seconds since 1970 in UTC, moments in the session's zone.

CONVERT_TZ: a moment of one zone as another's clock shows it.

A zone is a name of the zone database (that of the Python installation, so it is always loaded), an
offset from -13:59 to +14:00, or SYSTEM; of a zone that is none of these the answer is NULL. Django
asks for this before it lets queries truncate dates.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, timedelta, timezone, tzinfo
from datetime import date as calendar_date
from decimal import Decimal
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from exuvia.base.mysql_errors import (
    ErrTooBigPrecision,
    ErrTruncatedWrongValue,
    ErrWrongArguments,
    ErrWrongValue,
)
from exuvia.base.types import FieldType, Value, pack_date, unpack_date, unpack_datetime
from exuvia.catalog import temporal
from exuvia.sql import types
from exuvia.sql.env import Env
from exuvia.sql.expr import Constant, Expr
from exuvia.sql.functions import date_format, moment
from exuvia.sql.functions.table import Function, TypeRule, always

_SMALL = always(types.integer(4))
_BIG = always(types.integer(20))


def _digits_given(position: int, rule: Callable[[int], FieldType]) -> TypeRule:
    """The type with as many fractional digits as a constant argument says."""

    def found(arguments: Sequence[Expr]) -> FieldType:
        if len(arguments) <= position:
            return rule(0)
        size = arguments[position]
        if isinstance(size, Constant) and isinstance(size.value, int) and size.value > 6:
            raise ErrTooBigPrecision(size.value, "now", 6)
        digits = size.value if isinstance(size, Constant) and isinstance(size.value, int) else 0
        return rule(max(0, min(digits, 6)))

    return found


def _fraction_of_first(rule: Callable[[int], FieldType]) -> TypeRule:
    return lambda arguments: rule(types.fraction_digits(arguments[0].type))


# -- now -------------------------------------------------------------------------------------------


def _now(env: Env, digits: int = 0) -> int:
    return _cut(env.now, _unit(digits))


def _unit(digits: int) -> int:
    """Microseconds of the last digit shown. Raises 1426, 1210 for what is no literal."""
    if digits > 6:
        raise ErrTooBigPrecision(digits, "now", 6)
    if digits < 0:
        raise ErrWrongArguments("now")
    return int(10 ** (6 - digits))


def _cut(now: int, unit: int) -> int:
    micro = now & 0xFFFFF
    return now - micro + micro // unit * unit


def _today(env: Env) -> int:
    return int(env.now >> 37)


def _time_now(env: Env, digits: int = 0) -> int:
    return temporal.time_of(_now(env, digits))


def _utc_now(env: Env, digits: int = 0) -> int:
    return _cut(env.utc_now, _unit(digits))


def _utc_today(env: Env) -> int:
    return int(env.utc_now >> 37)


def _utc_time(env: Env, digits: int = 0) -> int:
    return temporal.time_of(_utc_now(env, digits))


# -- parts -----------------------------------------------------------------------------------------


def _weekday(packed: int) -> int | None:
    if packed == 0 or packed & 31 == 0 or packed >> 5 & 15 == 0:
        return None
    return (moment.day_number(packed) + 5) % 7


def _day_of_week(packed: int) -> int | None:
    day = _weekday(packed)
    return None if day is None else (day + 1) % 7 + 1


def _day_of_year(packed: int) -> int | None:
    if _weekday(packed) is None:
        return None
    return moment.day_number(packed) - moment.day_number(pack_date(packed >> 9, 1, 1)) + 1


def _last_day(packed: int) -> int | None:
    year, month, _ = unpack_date(packed)
    return None if month == 0 else pack_date(year, month, temporal.days_in(year, month))


def _day_name(packed: int) -> str | None:
    day = _weekday(packed)
    return None if day is None else date_format.DAYS[day]


def _month_name(packed: int) -> str | None:
    month = packed >> 5 & 15
    return None if month == 0 else date_format.MONTHS[month - 1]


def _week(packed: int, mode: int = 0) -> int | None:
    return None if _weekday(packed) is None else date_format.week_of(packed, mode)[1]


def _year_week(packed: int, mode: int = 0) -> int | None:
    if _weekday(packed) is None:
        return None
    year, week = date_format.week_of(packed, mode | 2)
    return year * 100 + week


def _iso_week(packed: int) -> int | None:
    return _week(packed, 3)


# -- arithmetic ------------------------------------------------------------------------------------


def _make_date(year: int, day: int) -> int | None:
    if day <= 0 or not 0 <= year <= 9999:
        return None
    if year < 100:
        year += 2000 if year < 70 else 1900
    return moment.date_of_day(moment.day_number(pack_date(year, 1, 1)) + day - 1)


def _make_time(hour: int, minute: int, second: Any) -> int | None:
    if not 0 <= minute < 60 or not 0 <= second < 60:
        return None
    total: int = (abs(hour) * 3600 + minute * 60) * 1_000_000 + round(second * 1_000_000)
    total = min(total, temporal.MOST_TIME)
    return -total if hour < 0 else total


def _days_between(left: int, right: int) -> int | None:
    if _weekday(left) is None or _weekday(right) is None:
        return None
    return moment.day_number(left) - moment.day_number(right)


def _to_days(packed: int) -> int | None:
    return None if _weekday(packed) is None else moment.day_number(packed)


def _to_seconds(packed: int) -> int | None:
    if _weekday(packed >> 37) is None:
        return None
    return moment.microseconds(packed) // 1_000_000


_UINT = (1 << 64) - 1


def _period_months(period: int, name: str) -> int:
    """Months since year 0, which a period of 0 is. Raises 1210 for what is no YYMM or YYYYMM."""
    year, month = divmod(period, 100)
    if period < 0 or not 1 <= month <= 12:
        raise ErrWrongArguments(name)
    return _full_year(year) * 12 + month - 1


def _full_year(year: int) -> int:
    return year + (2000 if year < 70 else 1900) if year < 100 else year


def _period_add(period: int, months: int) -> int:
    """In 64 bits, as in TiDB and MySQL: what is beyond wraps around."""
    total = _period_months(period, "period_add") + months & _UINT
    found = (_full_year(total // 12) * 100 + total % 12 + 1 if total else 0) & _UINT
    return found - (found >> 63 << 64)


def _period_diff(left: int, right: int) -> int:
    return _period_months(left, "period_diff") - _period_months(right, "period_diff")


_LEADING_DIGITS = re.compile(r"[ \t]*(\+?\d+)")


def _year_of_text(env: Env, text: str) -> int | None:
    """CAST(text AS YEAR): '0' is 2000; NULL for what does not begin with a number of 64 bits."""
    found = _LEADING_DIGITS.match(text)
    digits = "" if found is None else found[1].lstrip("+0") or "0"
    if found is None or len(digits) > 20 or int(digits) > _UINT:
        env.warn(ErrWrongValue, "YEAR", text)
        return None
    if found.end() < len(text):
        env.warn(ErrTruncatedWrongValue, "YEAR", text)
    return _year_of_number(env, int(digits) or 2000)


def _year_of_number(env: Env, number: int) -> int | None:
    """CAST(number AS YEAR): one or two digits name 1970 to 2069; NULL outside of 1901 to 2155."""
    year = _full_year(number) if 0 < number < 100 else number
    if year and not 1901 <= year <= 2155:
        env.warn(ErrTruncatedWrongValue, "YEAR", year)
        return None
    return year


def _seconds_of_time(micros: int) -> int:
    seconds = abs(micros) // 1_000_000
    return -seconds if micros < 0 else seconds


def _time_of_seconds(seconds: Value) -> int:
    most = temporal.MOST_TIME
    micros: int = round(max(-most, min(seconds * 1_000_000, most)))
    return micros


def _time_difference(left: int, right: int) -> int:
    found = left - right
    return max(-temporal.MOST_TIME, min(found, temporal.MOST_TIME))


def _format(packed: int, form: str) -> str | None:
    return date_format.format_moment(packed, form)


def _time_format(micros: int, form: str) -> str | None:
    return date_format.format_time(micros, form)


def is_real(year: int, month: int, day: int) -> bool:
    """Whether the parts are a day of the calendar."""
    try:
        calendar_date(year, month, day)
    except ValueError:
        return False
    return True


def _micro(packed: int) -> int:
    return unpack_datetime(packed)[4]


_NOW = Function(0, 1, "i", _digits_given(0, types.datetime), _now, env=True)
_TODAY = Function(0, 0, "", always(types.DATE), _today, env=True)
_YEAR = always(types.integer(4, True))
_CLOCK = Function(0, 1, "i", _digits_given(0, types.time), _time_now, env=True)
_DAY = Function(1, 1, "D", _SMALL, lambda d: d & 31, "({0} & 31)")

FUNCTIONS = {
    "curdate": _TODAY,
    "current_date": _TODAY,
    "current_time": _CLOCK,
    "current_timestamp": _NOW,
    "curtime": _CLOCK,
    "date": Function(1, 1, "D", always(types.DATE), lambda d: d, "{0}"),
    "date_format": Function(2, 2, "ts", always(types.text(255)), _format),
    "datediff": Function(2, 2, "D", _BIG, _days_between),
    "day": _DAY,
    "dayname": Function(1, 1, "D", always(types.text(9)), _day_name),
    "dayofmonth": _DAY,
    "dayofweek": Function(1, 1, "D", _SMALL, _day_of_week),
    "dayofyear": Function(1, 1, "D", _SMALL, _day_of_year),
    "from_days": Function(1, 1, "i", always(types.DATE), moment.date_of_day),
    "hour": Function(1, 1, "m", _SMALL, lambda t: abs(t) // 3_600_000_000),
    "last_day": Function(1, 1, "D", always(types.DATE), _last_day),
    "localtime": _NOW,
    "localtimestamp": _NOW,
    "makedate": Function(2, 2, "i", always(types.DATE), _make_date),
    "maketime": Function(3, 3, "iin", lambda a: types.time(_scale(a[2])), _make_time),
    "microsecond": Function(1, 1, "m", _SMALL, lambda t: abs(t) % 1_000_000),
    "minute": Function(1, 1, "m", _SMALL, lambda t: abs(t) // 60_000_000 % 60),
    "month": Function(1, 1, "D", _SMALL, lambda d: d >> 5 & 15, "(({0} >> 5) & 15)"),
    "monthname": Function(1, 1, "D", always(types.text(9)), _month_name),
    "now": _NOW,
    "period_add": Function(2, 2, "i", _BIG, _period_add),
    "period_diff": Function(2, 2, "i", _BIG, _period_diff),
    "quarter": Function(1, 1, "D", _SMALL, lambda d: ((d >> 5 & 15) + 2) // 3),
    "sec_to_time": Function(1, 1, "n", lambda a: types.time(_scale(a[0])), _time_of_seconds),
    "second": Function(1, 1, "m", _SMALL, lambda t: abs(t) // 1_000_000 % 60),
    "str_to_date": Function(2, 2, "s", date_format.parsed_type, date_format.parse, env=True),
    "sysdate": _NOW,
    "time": Function(1, 1, "m", _fraction_of_first(types.time), lambda t: t, "{0}"),
    "time_format": Function(2, 2, "ms", always(types.text(255)), _time_format),
    "time_micros": Function(1, 1, "m", _BIG, lambda t: t, "{0}"),
    "time_to_sec": Function(1, 1, "m", _BIG, _seconds_of_time),
    "timediff": Function(
        2,
        2,
        "m",
        lambda a: types.time(max(types.fraction_digits(each.type) for each in a)),
        _time_difference,
    ),
    "to_days": Function(1, 1, "D", _BIG, _to_days),
    "to_seconds": Function(1, 1, "t", _BIG, _to_seconds),
    "utc_date": Function(0, 0, "", always(types.DATE), _utc_today, env=True),
    "utc_time": Function(0, 1, "i", _digits_given(0, types.time), _utc_time, env=True),
    "utc_timestamp": Function(0, 1, "i", _digits_given(0, types.datetime), _utc_now, env=True),
    "week": Function(1, 2, "Di", _SMALL, _week),
    "weekday": Function(1, 1, "D", _SMALL, _weekday),
    "weekofyear": Function(1, 1, "D", _SMALL, _iso_week),
    "year": Function(1, 1, "D", _SMALL, lambda d: d >> 9, "({0} >> 9)"),
    "year_of_number": Function(1, 1, "i", _YEAR, _year_of_number, env=True),
    "year_of_text": Function(1, 1, "s", _YEAR, _year_of_text, env=True),
    "yearweek": Function(1, 2, "Di", _BIG, _year_week),
}


def _scale(argument: Expr) -> int:
    kind = types.numeric_form(argument.type)
    if kind.Tp == types.DOUBLE.Tp:
        return 6
    return max(0, min(6, kind.Decimal))


# -- unix time -------------------------------------------------------------------------------------

_TOO_LATE = 32_536_771_200  # seconds; the year 3001, as in MySQL 8
EPOCH_DAY = moment.day_number(pack_date(1970, 1, 1))


def _unix_now(env: Env) -> int:
    return moment.microseconds(env.utc_now) // 1_000_000 - EPOCH_DAY * 86400


def _unix_timestamp(env: Env, packed: int) -> int:
    packed = temporal.shift_zone(packed, env.zone, None)
    return max(0, moment.microseconds(packed) // 1_000_000 - EPOCH_DAY * 86400)


def _unix_exactly(env: Env, packed: int) -> Decimal:
    return _unix_timestamp(env, packed) + Decimal(packed & 0xFFFFF).scaleb(-6)


def _from_unix(env: Env, seconds: Value) -> int | None:
    if not 0 <= seconds < _TOO_LATE:
        return None
    micros = round(seconds * 1_000_000)
    found = moment.of_microseconds(EPOCH_DAY * moment.DAY_US + micros)
    return None if found is None else temporal.shift_zone(found, None, env.zone)


def _from_unix_formatted(env: Env, seconds: Value, form: str | None = None) -> Any:
    found = _from_unix(env, seconds)
    if form is None or found is None:
        return found
    return date_format.format_moment(found, form)


def _unix_scale(argument: Expr) -> int:
    kind = types.numeric_form(argument.type)
    if kind.Tp == types.DOUBLE.Tp:
        return 6
    return max(0, min(6, kind.Decimal))


UNIX_TIME = {
    "from_unixtime": Function(
        1,
        2,
        "ns",
        lambda a: types.text(255) if len(a) > 1 else types.datetime(_unix_scale(a[0])),
        _from_unix_formatted,
        env=True,
    ),
    "unix_timestamp": Function(1, 1, "t", _BIG, _unix_timestamp, env=True),
    "unix_timestamp_exactly": Function(
        1, 1, "t", always(types.decimal(18, 6)), _unix_exactly, env=True
    ),
    "unix_timestamp_now": Function(0, 0, "", _BIG, _unix_now, env=True),
}


# -- zone functions --------------------------------------------------------------------------------

_OFFSET = re.compile(r"([-+])(?:(0?\d|1[0-3]):([0-5]?\d)|(14):(00?))")


@lru_cache(256)
def _zone(text: str) -> tzinfo | None:
    """The zone of that name, None for none."""
    if text.upper() in ("SYSTEM", "UTC"):
        return UTC
    found = _OFFSET.fullmatch(text)
    if found:
        hours, minutes = int(found[2] or found[4]), int(found[3] or found[5])
        ahead = timedelta(hours=hours, minutes=minutes)
        if found[1] == "-" and found[4]:
            return None
        return timezone(-ahead if found[1] == "-" else ahead)
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        return None


def _convert(packed: int, source: str, target: str) -> int | None:
    from_zone, to_zone = _zone(source), _zone(target)
    if from_zone is None or to_zone is None:
        return None
    return temporal.shift_zone(packed, from_zone, to_zone)


ZONES = {
    "convert_tz": Function(
        3,
        3,
        "tss",
        lambda a: types.datetime(types.fraction_digits(a[0].type)),
        _convert,
    ),
}
