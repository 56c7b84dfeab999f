"""Date and time functions (manual, "Date and Time Functions"), on packed values (base/types.py).

DuckDB's forms compute with the packed integers. A DATE is year << 9 | month << 5 | day. In a
DATETIME the date is shifted by 37 bits. So parts are shifts and masks, and zero dates work, too.

UNIX_TIMESTAMP, FROM_UNIXTIME: seconds since 1970 in UTC; moments are in the session's zone.

CONVERT_TZ converts a moment from one zone to another.

A zone is a name in Python's zone database, which is always loaded, an offset from -13:59 to +14:00,
or SYSTEM. For another zone the result is NULL. Django checks this before it truncates dates in
queries.

DATE_FORMAT, TIME_FORMAT and their numbers of weeks (manual, "DATE_FORMAT").

STR_TO_DATE reads a text by a format (manual, "STR_TO_DATE").
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, timedelta, timezone, tzinfo
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
from exuvia.base.types import (
    FieldType,
    Value,
    pack_date,
    pack_datetime,
    packed_moment,
    unpack_date,
    unpack_datetime,
)
from exuvia.catalog import temporal
from exuvia.catalog.convert import values
from exuvia.sql import types
from exuvia.sql.env import Env
from exuvia.sql.expr import Constant, Expr
from exuvia.sql.functions import moment
from exuvia.sql.functions.table import Function, TypeRule, always

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def _suffix(day: int) -> str:
    if 10 <= day % 100 <= 19:
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


class _Parts:
    """The parts of a moment for the specifiers of a format."""

    def __init__(self, date: int, micros: int) -> None:
        self.date = date
        self.year, self.month, self.day = unpack_date(date)
        seconds, self.micro = divmod(micros, 1_000_000)
        minutes, self.second = divmod(seconds, 60)
        self.hour, self.minute = divmod(minutes, 60)

    @property
    def hour12(self) -> int:
        """1 to 12."""
        return (self.hour + 11) % 12 + 1

    @property
    def half(self) -> str:
        return "AM" if self.hour % 24 < 12 else "PM"

    def weekday(self) -> int | None:
        """0 is Monday; None for dates with zero parts."""
        if self.month == 0 or self.day == 0:
            return None
        return (moment.day_number(self.date) + 5) % 7

    def week(self, mode: int) -> tuple[int, int]:
        return moment.week_of(self.date, mode)


def _name(names: Sequence[str], place: int | None, size: int = 99) -> str | None:
    return None if place is None or place < 0 else names[place][:size]


_SHOW: dict[str, Callable[[_Parts], str | None]] = {
    "a": lambda p: _name(DAYS, p.weekday(), 3),
    "b": lambda p: _name(MONTHS, p.month - 1, 3),
    "c": lambda p: str(p.month),
    "D": lambda p: f"{p.day}{_suffix(p.day)}",
    "d": lambda p: f"{p.day:02d}",
    "e": lambda p: str(p.day),
    "f": lambda p: f"{p.micro:06d}",
    "H": lambda p: f"{p.hour:02d}",
    "h": lambda p: f"{p.hour12:02d}",
    "I": lambda p: f"{p.hour12:02d}",
    "i": lambda p: f"{p.minute:02d}",
    "j": lambda p: f"{_year_day(p):03d}",
    "k": lambda p: str(p.hour),
    "l": lambda p: str(p.hour12),
    "M": lambda p: _name(MONTHS, p.month - 1),
    "m": lambda p: f"{p.month:02d}",
    "p": lambda p: p.half,
    "r": lambda p: f"{p.hour12:02d}:{p.minute:02d}:{p.second:02d} {p.half}",
    "S": lambda p: f"{p.second:02d}",
    "s": lambda p: f"{p.second:02d}",
    "T": lambda p: f"{p.hour:02d}:{p.minute:02d}:{p.second:02d}",
    "U": lambda p: f"{p.week(0)[1]:02d}",
    "u": lambda p: f"{p.week(1)[1]:02d}",
    "V": lambda p: f"{p.week(2)[1]:02d}",
    "v": lambda p: f"{p.week(3)[1]:02d}",
    "W": lambda p: _name(DAYS, p.weekday()),
    "w": lambda p: None if p.weekday() is None else str(((p.weekday() or 0) + 1) % 7),
    "X": lambda p: f"{p.week(2)[0]:04d}",
    "x": lambda p: f"{p.week(3)[0]:04d}",
    "Y": lambda p: f"{p.year:04d}",
    "y": lambda p: f"{p.year % 100:02d}",
    "%": lambda p: "%",
}


def _year_day(parts: _Parts) -> int:
    return moment.day_number(parts.date) - moment.day_number(pack_date(parts.year, 1, 1)) + 1


def _show(parts: _Parts, form: str) -> str | None:
    printed = []
    signs = iter(form)
    for sign in signs:
        if sign != "%":
            printed.append(sign)
            continue
        specifier = next(signs, "")
        maker = _SHOW.get(specifier)
        part = specifier if maker is None else maker(parts)
        if part is None:
            return None
        printed.append(part)
    return "".join(printed)


def format_moment(packed: int, form: str) -> str | None:
    """DATE_FORMAT."""
    date, hour, minute, second, micro = unpack_datetime(packed)
    micros = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micro
    return _show(_Parts(date, micros), form)


def format_time(micros: int, form: str) -> str | None:
    """TIME_FORMAT; dates are zero."""
    printed = _show(_Parts(0, abs(micros)), form)
    return f"-{printed}" if micros < 0 and printed is not None else printed


# -- reading by a format ---------------------------------------------------------------------------

_TIME_SIGNS = "fHhIiklprSsT"


_DATE_SIGNS = "abcDdejMmUuVvWwXxYy"


_SKIPPED = {".": r"[!-/:-@\[-`{-~]*", "@": "[A-Za-z]*", "#": r"\d*"}


_NUMBERS = {
    "U": ("week", 2),
    "V": ("week", 2),
    "X": ("weekyear", 4),
    "c": ("month", 2),
    "d": ("day", 2),
    "e": ("day", 2),
    "H": ("hour", 2),
    "h": ("hour12", 2),
    "I": ("hour12", 2),
    "i": ("minute", 2),
    "j": ("yearday", 3),
    "k": ("hour", 2),
    "l": ("hour12", 2),
    "m": ("month", 2),
    "S": ("second", 2),
    "s": ("second", 2),
    "u": ("week", 2),
    "v": ("week", 2),
    "w": ("weekday", 1),
    "x": ("weekyear", 4),
}


_EXPANDED = {"T": "%H:%i:%s", "r": "%h:%i:%s %p"}


def parsed_type(arguments: Sequence[Expr]) -> FieldType:
    """DATE, TIME or DATETIME(0 or 6), by a constant format's specifiers."""
    form = arguments[1]
    if not isinstance(form, Constant) or not isinstance(form.value, str):
        return types.datetime(6)
    signs = re.findall("%(.)", form.value)
    clock = any(sign in _TIME_SIGNS for sign in signs)
    calendar = any(sign in _DATE_SIGNS for sign in signs)
    digits = 6 if "f" in signs else 0
    if clock and calendar:
        return types.datetime(digits)
    return types.time(digits) if clock else types.DATE


def parse(env: Env, text: str, form: str) -> int | None:
    """STR_TO_DATE; NULL and 1292 (1411 in MySQL) if the text does not match."""
    for sign, longer in _EXPANDED.items():
        form = form.replace(f"%{sign}", longer)
    parts: dict[str, int] = {}
    end = _match(text, form, parts)
    value = None if end is None else _assemble(form, parts, env.variable("sql_mode"))
    if value is None:
        env.incorrect("datetime", text)
    elif text[end:].strip():
        env.warn(ErrTruncatedWrongValue, "datetime", text)
    return value


def _match(text: str, form: str, parts: dict[str, int]) -> int | None:
    at, place = 0, 0
    while place < len(form):
        sign = form[place]
        if sign.isspace():
            while at < len(text) and text[at].isspace():
                at += 1
            place += 1
            continue
        if sign != "%":
            if text[at : at + 1] != sign:
                return None
            at += 1
            place += 1
            continue
        while at < len(text) and text[at].isspace():
            at += 1
        moved = _take(form[place + 1 : place + 2], text, at, parts)
        if moved is None:
            return at if at >= len(text) and place > 0 and parts else None
        at = moved
        place += 2
    return at


def _take(sign: str, text: str, at: int, parts: dict[str, int]) -> int | None:
    if sign in _NUMBERS:
        name, width = _NUMBERS[sign]
        digit = "[0-6]" if name == "weekday" else r"\d"
        digits = re.compile(f"{digit}{{1,{width}}}").match(text, at)
        if digits:
            parts[name] = int(digits.group())
        return digits.end() if digits else None
    if sign in ("Y", "y"):
        digits = re.compile(r"\d{1,4}" if sign == "Y" else r"\d{1,2}").match(text, at)
        if digits:
            short = len(digits.group()) <= 2
            parts["year"] = temporal.full_year(int(digits.group()), 2 if short else 4)
        return digits.end() if digits else None
    if sign == "f":
        digits = re.compile(r"\d{1,6}").match(text, at)
        if digits:
            parts["micro"] = int(digits.group().ljust(6, "0"))
        return digits.end() if digits else None
    if sign == "D":
        digits = re.compile(r"(\d{1,2})(st|nd|rd|th)", re.IGNORECASE).match(text, at)
        if digits:
            parts["day"] = int(digits.group(1))
        return digits.end() if digits else None
    if sign == "p":
        half = text[at : at + 2].upper()
        if half in ("AM", "PM"):
            parts["half"] = half == "PM"
            return at + 2
        return None
    names = {"M": MONTHS, "b": [m[:3] for m in MONTHS], "W": DAYS, "a": [d[:3] for d in DAYS]}
    for n, name in enumerate(names.get(sign, ())):
        if text[at : at + len(name)].lower() == name.lower():
            parts["month" if sign in "Mb" else "weekday"] = n + 1
            return at + len(name)
    if sign in _SKIPPED:
        return re.compile(_SKIPPED[sign]).match(text, at).end()  # type: ignore[union-attr]
    return at + 1 if sign == "%" and text[at : at + 1] == "%" else None


def _assemble(form: str, parts: dict[str, int], sql_mode: str) -> int | None:
    hour = parts.get("hour", 0)
    if "hour12" in parts:
        if not 1 <= parts["hour12"] <= 12:
            return None
        hour = parts["hour12"] % 12 + (12 if parts.get("half") else 0)
    minute, second, micro = (parts.get(name, 0) for name in ("minute", "second", "micro"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    signs = re.findall("%(.)", form)
    clock = any(sign in _TIME_SIGNS for sign in signs)
    if not any(sign in _DATE_SIGNS for sign in signs) and clock:
        return ((hour * 60 + minute) * 60 + second) * 1_000_000 + micro
    year, month, day = (parts.get(name, 0) for name in ("year", "month", "day"))
    date = pack_date(year, month, day) if month < 13 and day < 32 else -1
    if parts.get("yearday"):
        first = moment.day_number(pack_date(year, 1, 1))
        date = moment.date_of_day(first + parts["yearday"] - 1) or -1
        month = day = 1
    elif "week" in parts and "weekday" in parts:
        date = _day_of_week_of_year("".join(signs), parts)
        month = day = 1
    refusing = "NO_ZERO_IN_DATE" if date else "NO_ZERO_DATE"
    if date < 0 or ((month == 0 or day == 0) and refusing in sql_mode):
        return None
    return pack_datetime(date, hour, minute, second, micro) if clock else date


def _day_of_week_of_year(signs: str, parts: dict[str, int]) -> int:
    """The packed date of a day of a week; -1 if it does not exist.

    %V is valid with %X only, %v with %x, %U and %u with a year. Weeks of %U and %V begin on Sunday.
    Their first week contains a Sunday. Weeks of %u and %v begin on Monday. Their first week has
    four days or more."""
    week, weekday = parts["week"], parts["weekday"]
    last = [sign for sign in signs if sign in "UuVv"][-1]
    years = [sign for sign in signs if sign in "Xx"]
    is_own, of_sunday = last in "Vv", last in "UV"
    if week > 53 or weekday > 7 or (is_own and not week):
        return -1
    if is_own != bool(years) or (is_own and (years[-1] == "X") != of_sunday):
        return -1
    first = moment.day_number(pack_date(parts.get("weekyear" if is_own else "year", 0), 1, 1))
    begins = moment.days_into_week(first, of_sunday)
    weeks = (week - 1) * 7 + (0 if begins <= (0 if of_sunday else 3) else 7)
    number = first - begins + weeks + (weekday % 7 if of_sunday else (weekday or 7) - 1)
    return moment.date_of_day(number) or -1


_SMALL = always(types.integer(4))
_BIG = always(types.integer(20))


def _digits_given(position: int, rule: Callable[[int], FieldType]) -> TypeRule:
    """The type with the number of fractional digits in a constant argument."""

    def rule_for_arguments(arguments: Sequence[Expr]) -> FieldType:
        if len(arguments) <= position:
            return rule(0)
        size = arguments[position]
        if isinstance(size, Constant) and isinstance(size.value, int) and size.value > 6:
            raise ErrTooBigPrecision(size.value, "now", 6)
        digits = size.value if isinstance(size, Constant) and isinstance(size.value, int) else 0
        return rule(max(0, min(digits, 6)))

    return rule_for_arguments


def _fraction_of_first(rule: Callable[[int], FieldType]) -> TypeRule:
    return lambda arguments: rule(types.fraction_digits(arguments[0].type))


# -- now -------------------------------------------------------------------------------------------


def _now(env: Env, digits: int = 0) -> int:
    return _cut(env.now, _unit(digits))


def _sysdate(env: Env, digits: int = 0) -> int:
    """The time of the call, which SET timestamp does not change."""
    session = getattr(env, "session", None)  # not set in a PlainEnv
    if session is None or env.variable("tidb_sysdate_is_now") == "ON":
        return _now(env, digits)
    now = packed_moment(session.services.clock.wall_ns())
    return _cut(temporal.shift_zone(now, None, env.zone), _unit(digits))


def _unit(digits: int) -> int:
    """The microseconds of the last digit. Raises 1426; 1210 for a negative number of digits."""
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
    return None if day is None else DAYS[day]


def _month_name(packed: int) -> str | None:
    month = packed >> 5 & 15
    return None if month == 0 else MONTHS[month - 1]


def _week(packed: int, mode: int = 0) -> int | None:
    return None if _weekday(packed) is None else moment.week_of(packed, mode)[1]


def _year_week(packed: int, mode: int = 0) -> int | None:
    if _weekday(packed) is None:
        return None
    year, week = moment.week_of(packed, mode | 2)
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


def limited_time(env: Env, micros: int) -> int:
    """A TIME of at most 838:59:59 in either direction, with 1292 if it was more."""
    if abs(micros) <= temporal.MOST_TIME:
        return micros
    digits = 6 if micros % temporal.SECOND else 0
    env.warn(ErrTruncatedWrongValue, "time", temporal.format_time(micros, digits))
    return temporal.MOST_TIME if micros > 0 else -temporal.MOST_TIME


def _make_time(env: Env, hour: int, minute: int, second: Any) -> int | None:
    if not 0 <= minute < 60 or not 0 <= second < 60:
        return None
    total: int = (abs(hour) * 3600 + minute * 60) * 1_000_000 + round(second * 1_000_000)
    return limited_time(env, -total if hour < 0 else total)


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
    """Months since year 0, also for period 0. Raises 1210 unless it is YYMM or YYYYMM."""
    year, month = divmod(period, 100)
    if period < 0 or not 1 <= month <= 12:
        raise ErrWrongArguments(name)
    return _full_year(year) * 12 + month - 1


def _full_year(year: int) -> int:
    return year + (2000 if year < 70 else 1900) if year < 100 else year


def _period_add(period: int, months: int) -> int:
    """Computed in 64 bits, as in TiDB and MySQL: the result wraps around."""
    total = _period_months(period, "period_add") + months & _UINT
    period_sum = (_full_year(total // 12) * 100 + total % 12 + 1 if total else 0) & _UINT
    return period_sum - (period_sum >> 63 << 64)


def _period_diff(left: int, right: int) -> int:
    return _period_months(left, "period_diff") - _period_months(right, "period_diff")


_LEADING_DIGITS = re.compile(r"[ \t]*(\+?\d+)")


def _nonzero_moment(env: Env, packed: int) -> int | None:
    """The date or time of CAST, or None with a warning for a zero date under NO_ZERO_DATE."""
    if packed:
        return packed
    env.incorrect("datetime", "0000-00-00 00:00:00")
    return None


def _year_of_text(env: Env, text: str) -> int | None:
    """CAST(text AS YEAR): '0' is 2000; NULL unless it begins with a number of 64 bits."""
    number_match = _LEADING_DIGITS.match(text)
    digits = "" if number_match is None else number_match[1].lstrip("+0") or "0"
    if number_match is None or len(digits) > 20 or int(digits) > _UINT:
        env.warn(ErrWrongValue, "YEAR", text)
        return None
    if number_match.end() < len(text):
        env.warn(ErrTruncatedWrongValue, "YEAR", text)
    return _year_of_number(env, int(digits) or 2000)


def _year_of_number(env: Env, number: int) -> int | None:
    """CAST(number AS YEAR): one or two digits are 1970 to 2069; NULL outside 1901 to 2155."""
    year = _full_year(number) if 0 < number < 100 else number
    if year and not 1901 <= year <= 2155:
        env.warn(ErrTruncatedWrongValue, "YEAR", year)
        return None
    return year


def _seconds_of_time(micros: int) -> int:
    seconds = abs(micros) // 1_000_000
    return -seconds if micros < 0 else seconds


def _time_of_seconds(env: Env, seconds: Value) -> int:
    most = temporal.MOST_TIME
    if abs(seconds) * 1_000_000 > most:
        text = values.to_text(seconds, types.DOUBLE) if isinstance(seconds, float) else seconds
        env.warn(ErrTruncatedWrongValue, "time", text)
        return most if seconds > 0 else -most
    micros: int = round(seconds * 1_000_000)
    return micros


def _format(packed: int, form: str) -> str | None:
    return format_moment(packed, form)


def _time_format(micros: int, form: str) -> str | None:
    return format_time(micros, form)


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
    "from_days": Function(1, 1, "i", always(types.DATE), moment.date_from_days),
    "hour": Function(1, 1, "m", _SMALL, lambda t: abs(t) // 3_600_000_000),
    "last_day": Function(1, 1, "D", always(types.DATE), _last_day),
    "localtime": _NOW,
    "localtimestamp": _NOW,
    "makedate": Function(2, 2, "i", always(types.DATE), _make_date),
    "maketime": Function(3, 3, "iin", lambda a: types.time(_scale(a[2])), _make_time, env=True),
    "microsecond": Function(1, 1, "m", _SMALL, lambda t: abs(t) % 1_000_000),
    "minute": Function(1, 1, "m", _SMALL, lambda t: abs(t) // 60_000_000 % 60),
    "month": Function(1, 1, "D", _SMALL, lambda d: d >> 5 & 15, "(({0} >> 5) & 15)"),
    "monthname": Function(1, 1, "D", always(types.text(9)), _month_name),
    "now": _NOW,
    "period_add": Function(2, 2, "i", _BIG, _period_add),
    "period_diff": Function(2, 2, "i", _BIG, _period_diff),
    "quarter": Function(1, 1, "D", _SMALL, lambda d: ((d >> 5 & 15) + 2) // 3),
    "sec_to_time": Function(
        1, 1, "n", lambda a: types.time(_scale(a[0])), _time_of_seconds, env=True
    ),
    "second": Function(1, 1, "m", _SMALL, lambda t: abs(t) // 1_000_000 % 60),
    "str_to_date": Function(2, 2, "s", parsed_type, parse, env=True),
    "sysdate": Function(
        0, 1, "i", _digits_given(0, types.datetime), _sysdate, env=True, volatile=True
    ),
    "time": Function(1, 1, "m", _fraction_of_first(types.time), lambda t: t, "{0}"),
    "time_format": Function(2, 2, "ms", always(types.text(255)), _time_format),
    "time_micros": Function(1, 1, "m", _BIG, lambda t: t, "{0}"),
    "time_to_sec": Function(1, 1, "m", _BIG, _seconds_of_time),
    "to_days": Function(1, 1, "D", _BIG, _to_days),
    "to_seconds": Function(1, 1, "t", _BIG, _to_seconds),
    "utc_date": Function(0, 0, "", always(types.DATE), _utc_today, env=True),
    "utc_time": Function(0, 1, "i", _digits_given(0, types.time), _utc_time, env=True),
    "utc_timestamp": Function(0, 1, "i", _digits_given(0, types.datetime), _utc_now, env=True),
    "week": Function(1, 2, "Di", _SMALL, _week),
    "weekday": Function(1, 1, "D", _SMALL, _weekday),
    "weekofyear": Function(1, 1, "D", _SMALL, _iso_week),
    "year": Function(1, 1, "D", _SMALL, lambda d: d >> 9, "({0} >> 9)"),
    "nonzero_moment": Function(
        1, 1, "x", lambda arguments: arguments[0].type, _nonzero_moment, env=True
    ),
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


def _in_utc(env: Env, packed: int) -> int:
    """The moment in UTC. A local time that the clocks skip becomes the next valid one."""
    later = None if env.zone is None else temporal.after_gap(packed, env.zone)
    return temporal.shift_zone(packed, env.zone, None) if later is None else later


def _unix_timestamp(env: Env, packed: int) -> int:
    return _unix_stored(_in_utc(env, packed))


def _unix_exactly(env: Env, packed: int) -> Decimal:
    return _unix_stored_exactly(_in_utc(env, packed))


def _unix_stored(packed: int) -> int:
    """As `_unix_timestamp`, for a stored TIMESTAMP. 0 outside 1970 .. 3001-01-18, as in MySQL."""
    seconds = moment.microseconds(packed) // 1_000_000 - EPOCH_DAY * 86400
    return seconds if 0 <= seconds < _TOO_LATE else 0


def _unix_stored_exactly(packed: int) -> Decimal:
    seconds = _unix_stored(packed)
    return seconds + Decimal(packed & 0xFFFFF if seconds else 0).scaleb(-6)


def _from_unix_formatted(env: Env, seconds: Value, form: str | None = None) -> Any:
    moment_packed = None
    if 0 <= seconds < _TOO_LATE:
        micros = round(seconds * 1_000_000)
        moment_packed = moment.of_microseconds(EPOCH_DAY * moment.DAY_US + micros)
    if moment_packed is not None:
        moment_packed = temporal.shift_zone(moment_packed, None, env.zone)
    if form is None or moment_packed is None:
        return moment_packed
    return format_moment(moment_packed, form)


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
    "unix_timestamp_stored": Function(1, 1, "t", _BIG, _unix_stored),
    "unix_timestamp_stored_exactly": Function(
        1, 1, "t", always(types.decimal(18, 6)), _unix_stored_exactly
    ),
    "unix_timestamp_now": Function(0, 0, "", _BIG, _unix_now, env=True),
}


# -- zone functions --------------------------------------------------------------------------------

_OFFSET = re.compile(r"([-+])(?:(0?\d|1[0-3]):([0-5]?\d)|(14):(00?))")


@lru_cache(256)
def _zone(text: str) -> tzinfo | None:
    """The zone with that name, or None."""
    if text.upper() in ("SYSTEM", "UTC"):
        return UTC
    offset = _OFFSET.fullmatch(text)
    if offset:
        hours, minutes = int(offset[2] or offset[4]), int(offset[3] or offset[5])
        ahead = timedelta(hours=hours, minutes=minutes)
        if offset[1] == "-" and offset[4]:
            return None
        return timezone(-ahead if offset[1] == "-" else ahead)
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        return None


def _convert(packed: int, source: str, target: str) -> int | None:
    from_zone, to_zone = _zone(source), _zone(target)
    if from_zone is None or to_zone is None:
        return None
    later = temporal.after_gap(packed, from_zone)
    if later is not None:  # skipped by the clocks: the next valid moment, with its fraction
        return temporal.shift_zone(later + (packed & 0xFFFFF), UTC, to_zone)
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
