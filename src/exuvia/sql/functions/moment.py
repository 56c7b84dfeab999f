"""Calendar arithmetic with packed dates and times (base/types.py), and reading them from texts and
numbers.

Day numbers are MySQL's TO_DAYS: 0001-01-01 is 366, and year 0 exists. A moment in microseconds is
day number * 86,400,000,000 + microseconds of the day.

Texts are read as in MySQL: any punctuation separates parts, two-digit years are 1970 to 2069, only
digits are YYYYMMDD[hhmmss] or YYMMDD[hhmmss] (manual, "Date and Time Literals").

INTERVAL, TIMESTAMPDIFF and EXTRACT depend on a unit (manual, "Temporal Intervals").
"""

import re
from datetime import date as calendar_date
from datetime import tzinfo
from decimal import Decimal

from exuvia.base.types import Value, pack_date, pack_datetime, unpack_date, unpack_datetime
from exuvia.catalog import temporal
from exuvia.catalog.decimals import parsed, whole
from exuvia.catalog.temporal import may_be_moment, split_moment, split_time, time_of

DAY_US = 86_400_000_000
_FIRST_DAY, _LAST_DAY = 366, 3_652_424


def day_number(packed: int) -> int:
    """MySQL's TO_DAYS of a packed date."""
    year, month, day = unpack_date(packed)
    if year == 0 and month == 0:
        return 0
    days = 365 * year + 31 * (month - 1) + day
    if month <= 2:
        year -= 1
    else:
        days -= (month * 4 + 23) // 10
    return days + year // 4 - (year // 100 + 1) * 3 // 4


def date_from_days(number: int) -> int:
    """FROM_DAYS: a packed date; 0000-00-00 outside 0001-01-01 .. 9999-12-31, as in MySQL."""
    return date_of_day(number) or 0


def date_of_day(number: int) -> int | None:
    """The packed date of a day number; None outside 0001-01-01 .. 9999-12-31."""
    if not _FIRST_DAY <= number <= _LAST_DAY:
        return None
    calendar_day = calendar_date.fromordinal(number - 365)
    return pack_date(calendar_day.year, calendar_day.month, calendar_day.day)


def microseconds(packed: int) -> int:
    """A packed DATETIME as microseconds since day 0."""
    date, hour, minute, second, micro = unpack_datetime(packed)
    seconds = day_number(date) * 86400 + hour * 3600 + minute * 60 + second
    return seconds * 1_000_000 + micro


def of_microseconds(total: int) -> int | None:
    """The inverse of `microseconds`; None outside the calendar."""
    days, rest = divmod(total, DAY_US)
    date = date_of_day(days)
    return None if date is None else at_time(date, rest)


def at_time(date: int, micros: int) -> int:
    """The packed DATETIME of a packed date and microseconds of the day."""
    seconds, micro = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return pack_datetime(date, hour, minute, second, micro)


def is_valid(packed: int, zero_allowed: bool = True, any_day: bool = False) -> bool:
    """Whether a packed date is in the calendar.

    `zero_allowed`: zero parts are valid. `any_day`: every month has 31 days."""
    year, month, day = unpack_date(packed)
    if month == 0 or day == 0:
        return zero_allowed and month <= 12 and day <= 31
    if month > 12 or year > 9999:
        return False
    return any_day or day <= temporal.days_in(year, month)


def week_of(packed: int, mode: int) -> tuple[int, int]:
    """(year, week) of a date.

    Bits of mode: 1 Monday first, 2 weeks 1-53, 4 the first week is the first full one."""
    monday, year_wise, full = bool(mode & 1), bool(mode & 2), bool(mode & 4)
    if not monday:
        full = not full
    year, _, _ = unpack_date(packed)
    day = day_number(packed)
    first = day_number(pack_date(year, 1, 1))
    weekday = days_into_week(first, not monday)
    if packed & 511 <= 32 + 31 and (packed & 31) <= 7 - weekday and (packed >> 5 & 15) == 1:
        if not year_wise and ((full and weekday != 0) or (not full and weekday >= 4)):
            return year, 0
        year_wise = True
        if (full and weekday != 0) or (not full and weekday >= 4):
            year -= 1
            first = day_number(pack_date(year, 1, 1))
            weekday = days_into_week(first, not monday)
    late = (full and weekday != 0) or (not full and weekday >= 4)
    days = day - (first + (7 - weekday)) if late else day - (first - weekday)
    if year_wise and days >= 52 * 7:
        length = 366 if temporal.days_in(year, 2) == 29 else 365
        weekday = (weekday + length) % 7
        if (not full and weekday < 4) or (full and weekday == 0):
            return year + 1, 1
    return year, days // 7 + 1


def days_into_week(day: int, sunday_first: bool) -> int:
    """The days of a week before a day, given by its number."""
    return (day + 5 + sunday_first) % 7


# -- reading ---------------------------------------------------------------------------------------


def read_moment(
    text: str, local: tzinfo | None = None, any_day: bool = False
) -> tuple[int, bool] | None:
    """(packed DATETIME rounded to microseconds, whether more text follows), or None.

    `any_day`: every month has 31 days."""
    split = split_moment(text)
    moment = None if split is None else _assemble(split.parts, split.fraction, any_day)
    if split is None or moment is None:
        return None
    if not split.offset:
        return moment, split.cut
    digits = split.offset[1:].replace(":", "")
    ahead = (int(digits[:2] or 0) * 60 + int(digits[2:] or 0)) * 60_000_000
    moved = of_microseconds(microseconds(moment) + (ahead if split.offset[0] == "-" else -ahead))
    return None if moved is None else (temporal.shift_zone(moved, None, local), split.cut)


def names_zone(text: str) -> bool:
    """Whether a text ends with a time zone, so that its moment depends on the session."""
    split = split_moment(text)
    return split is not None and bool(split.offset)


def _assemble(parts: list[int], fraction: str | None, any_day: bool = False) -> int | None:
    year, month, day, hour, minute, second = parts
    date = pack_date(year, month, day) if month < 16 and day < 32 else -1
    if date < 0 or not is_valid(date, any_day=any_day) or hour > 23 or minute > 59 or second > 59:
        return None
    micro = _microseconds(fraction or "")
    packed = pack_datetime(date, hour, minute, second, 0)
    if micro == 1_000_000:
        return of_microseconds(microseconds(packed) + micro)
    return packed + micro


def _microseconds(fraction: str) -> int:
    return int((fraction + "000000")[:6]) + (len(fraction) > 6 and fraction[6] >= "5")


def moment_of_number(number: int, micro: int = 0, any_day: bool = False) -> int | None:
    """20240131, 240131, 20240131235959 and 240131235959 as a packed DATETIME.

    None if it is no valid moment. `any_day`: every month has 31 days."""
    if number == 0:
        return micro
    if number < 0:
        return None
    width = len(str(number))
    digits = str(number).zfill(6 if width <= 8 else 12 if width <= 12 else 14)
    if number < 101 or len(digits) > 14 or len(digits) == 7:
        return None
    wide = len(digits) in (8, 14)
    year, rest = (digits[:4], digits[4:]) if wide else (digits[:2], digits[2:])
    numbers = [int(rest[n : n + 2]) for n in range(0, len(rest), 2)]
    packed = _assemble(
        [temporal.full_year(int(year), len(year)), *numbers, 0, 0, 0][:6], None, any_day
    )
    return None if packed is None else packed + micro


_MOST_PARTS = (59, 59, 23, 31, 12)  # from the second to the month
_AFTER_FRACTIONS = 0xFFFFF  # microseconds after all those of a moment


def place_of_number(number: int, micro: int, of_days: bool) -> int:
    """The packed moment with this number YYYYMMDDhhmmss, or YYYYMMDD if `of_days`.

    For other numbers, a value between the packed moments with lower and with higher numbers."""
    if of_days:
        number, micro = number * 1_000_000 + micro, 0
    if number < 0 or micro < 0:
        return -1
    parts: list[int] = []
    for most in _MOST_PARTS:
        number, part = divmod(number, 100)
        if part > most:  # after all moments with the same higher parts
            parts, micro = [*_MOST_PARTS[: len(parts)], most], _AFTER_FRACTIONS
        else:
            parts.append(part)
    if number > 9999:
        number, parts, micro = 9999, list(_MOST_PARTS), _AFTER_FRACTIONS
    second, minute, hour, day, month = parts
    return pack_datetime(pack_date(number, month, day), hour, minute, second, micro)


def read_time(text: str) -> tuple[int, bool] | None:
    """(microseconds of a TIME, whether more text follows), or None. Limited to +-838:59:59."""
    split = split_time(text)
    total = 0
    if split is not None:
        hour, minute, second = split.parts
        total = ((hour * 60 + minute) * 60 + second) * 1_000_000 + _microseconds(split.fraction)
    is_beyond = total > temporal.MOST_TIME
    # 20240101101112 is a DATETIME, but 839:00:00 is a TIME that is too long
    is_moment = split is None or split.cut or (is_beyond and text.strip()[:12].isdigit())
    if is_moment and may_be_moment(text):
        moment = read_moment(text)
        return None if moment is None else (time_of(moment[0]), moment[1])
    if split is None:
        return None
    total = min(total, temporal.MOST_TIME)
    return (-total if split.negative else total), is_beyond or split.cut


def time_of_number(number: int, micro: int = 0) -> tuple[int, bool] | None:
    """A number hhmmss, or that of a DATETIME, as a TIME: (microseconds, False), or None.

    `micro`: additional microseconds with the number's sign."""
    size = abs(number)
    if size > _MOST_TIME_NUMBER:
        moment = moment_of_number(number) if number >= _LEAST_MOMENT else None
        if moment is None or not is_valid(moment >> 37, zero_allowed=False):
            return None
        return time_of(moment) + micro, False
    hour, minute, second = size // 10000, size // 100 % 100, size % 100
    if minute > 59 or second > 59:
        return None
    total = ((hour * 60 + minute) * 60 + second) * 1_000_000
    total = (-total if number < 0 else total) + micro
    return max(-temporal.MOST_TIME, min(total, temporal.MOST_TIME)), False


_MOST_TIME_NUMBER, _LEAST_MOMENT = 8_385_959, 10_000_000_000


# -- intervals -------------------------------------------------------------------------------------

_UNITS_US = {
    "MICROSECOND": 1,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": DAY_US,
    "WEEK": 7 * DAY_US,
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_PARTS = {
    "SECOND_MICROSECOND": ("SECOND", "MICROSECOND"),
    "MINUTE_MICROSECOND": ("MINUTE", "SECOND", "MICROSECOND"),
    "MINUTE_SECOND": ("MINUTE", "SECOND"),
    "HOUR_MICROSECOND": ("HOUR", "MINUTE", "SECOND", "MICROSECOND"),
    "HOUR_SECOND": ("HOUR", "MINUTE", "SECOND"),
    "HOUR_MINUTE": ("HOUR", "MINUTE"),
    "DAY_MICROSECOND": ("DAY", "HOUR", "MINUTE", "SECOND", "MICROSECOND"),
    "DAY_SECOND": ("DAY", "HOUR", "MINUTE", "SECOND"),
    "DAY_MINUTE": ("DAY", "HOUR", "MINUTE"),
    "DAY_HOUR": ("DAY", "HOUR"),
    "YEAR_MONTH": ("YEAR", "MONTH"),
}
UNITS = frozenset(_UNITS_US) | frozenset(_MONTHS) | frozenset(_PARTS)
CLOCK_UNITS = frozenset(
    unit for unit in UNITS if any(word in unit for word in ("HOUR", "MINUTE", "SECOND"))
)


def digits_of(unit: str) -> int:
    """The number of fractional digits in results of whole amounts of the unit."""
    return 6 if "MICROSECOND" in unit else 0


def amount(value: Value, unit: str) -> tuple[int, int] | None:
    """(months, microseconds) of the value of an interval; None for an invalid one."""
    if unit in _PARTS:
        text = str(value)
        names = _PARTS[unit]
        negative = text.lstrip().startswith("-")
        numbers = re.findall(r"\d+", text)
        if len(numbers) > len(names):
            return None
        months = micros = 0
        for name, number in zip(names[len(names) - len(numbers) :], numbers, strict=True):
            if name in _MONTHS:
                months += whole(number) * _MONTHS[name]
            elif name == "MICROSECOND":
                micros += int(number.ljust(6, "0")[:6])
            else:
                micros += whole(number) * _UNITS_US[name]
        return (-months, -micros) if negative else (months, micros)
    if unit == "SECOND" and not isinstance(value, int):
        match = _NUMBER.match(value) if isinstance(value, str) else None
        exact = parsed(match[1] if match else "0" if isinstance(value, str) else str(value))
        return (0, int(exact * 1_000_000)) if abs(exact) < _MOST else None
    if isinstance(value, str):
        match = re.match(r"\s*([+-]?\d+)", value)
        number = whole(match[1]) if match else 0
    elif isinstance(value, float):
        number = round(max(-_MOST, min(value, _MOST)))
    else:
        number = int(Decimal(value).to_integral_value("ROUND_HALF_UP"))
    if unit in _MONTHS:
        return number * _MONTHS[unit], 0
    return 0, number * _UNITS_US[unit]


_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_MOST = 1 << 62


def add(packed: int, value: Value, unit: str, sign: int) -> int | None:
    """A packed DATETIME moved by an interval; None outside the calendar."""
    interval = amount(value, unit)
    date = packed >> 37
    if interval is None or date & 31 == 0 or date >> 5 & 15 == 0:
        return None
    months, micros = interval[0] * sign, interval[1] * sign
    if months:
        year, month, day = unpack_date(date)
        total = year * 12 + month - 1 + months
        year, month = divmod(total, 12)
        if not 0 <= year <= 9999:
            return None
        day = min(day, temporal.days_in(year, month + 1))
        packed = pack_date(year, month + 1, day) << 37 | packed & ((1 << 37) - 1)
    if micros:
        return of_microseconds(microseconds(packed) + micros)
    return packed


def add_to_time(micros: int, value: Value, unit: str, sign: int) -> int | None:
    """A TIME moved by an interval."""
    interval = amount(value, unit)
    if interval is None or interval[0]:
        return None
    total = micros + sign * interval[1]
    return total if abs(total) <= temporal.MOST_TIME else None


def difference(left: int, right: int, unit: str) -> int | None:
    """TIMESTAMPDIFF: the number of whole units from the first moment to the second."""
    if not (_has_date(left) and _has_date(right)):
        return None
    micros = microseconds(right) - microseconds(left)
    if unit in _UNITS_US:
        size = abs(micros) // _UNITS_US[unit]
        return -size if micros < 0 else size
    early, late = (left, right) if micros >= 0 else (right, left)
    y1, m1, d1 = unpack_date(early >> 37)
    y2, m2, d2 = unpack_date(late >> 37)
    months = (y2 - y1) * 12 + m2 - m1
    if (d2, late & ((1 << 37) - 1)) < (d1, early & ((1 << 37) - 1)):
        months -= 1
    months //= _MONTHS[unit]
    return -months if micros < 0 else months


def _has_date(packed: int) -> bool:
    date = packed >> 37
    return date & 31 != 0 and date >> 5 & 15 != 0


def extract(packed: int, unit: str) -> int | None:
    """EXTRACT of a packed DATETIME."""
    date, hour, minute, second, micro = unpack_datetime(packed)
    year, month, day = unpack_date(date)
    if unit == "QUARTER":
        return (month + 2) // 3
    if unit == "WEEK":
        return week_of(date, 0)[1] if _has_date(packed) else None
    parts = {
        "YEAR": year,
        "MONTH": month,
        "DAY": day,
        "HOUR": hour,
        "MINUTE": minute,
        "SECOND": second,
        "MICROSECOND": micro,
    }
    if unit in parts:
        return parts[unit]
    number = 0
    for n, name in enumerate(_PARTS[unit]):
        number = number * (1 if n == 0 else 1_000_000 if name == "MICROSECOND" else 100)
        number += parts[name]
    return number


def extract_clock(micros: int, unit: str) -> int:
    """EXTRACT of a TIME; hours may be more than 23."""
    size = abs(micros)
    parts = {
        "HOUR": size // 3_600_000_000,
        "MINUTE": size // 60_000_000 % 60,
        "SECOND": size // 1_000_000 % 60,
        "MICROSECOND": size % 1_000_000,
    }
    names = [name for name in _PARTS.get(unit, (unit,)) if name in parts]
    number = 0
    for n, name in enumerate(names):
        number = number * (1 if n == 0 else 1_000_000 if name == "MICROSECOND" else 100)
        number += parts[name]
    return -number if micros < 0 else number
