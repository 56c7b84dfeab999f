"""Calendar arithmetic on packed dates and times (base/types.py), and reading them from text and
numbers.

Day numbers are MySQL's TO_DAYS: 0001-01-01 is 366, year 0 exists. A moment as microseconds is
day number * 86,400,000,000 + microseconds of the day.

Text is read as MySQL reads it: any punctuation separates parts, two-digit years are 1970 to 2069,
digits alone are YYYYMMDD[hhmmss] or YYMMDD[hhmmss] (manual, "Date and Time Literals")."""

import re
from datetime import date as calendar_date
from datetime import tzinfo

from exuvia.base.types import pack_date, pack_datetime, unpack_date, unpack_datetime
from exuvia.catalog import temporal
from exuvia.catalog.temporal import time_of

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


def date_of_day(number: int) -> int | None:
    """Packed date of a day number; None outside 0001-01-01 .. 9999-12-31."""
    if not _FIRST_DAY <= number <= _LAST_DAY:
        return None
    found = calendar_date.fromordinal(number - 365)
    return pack_date(found.year, found.month, found.day)


def microseconds(packed: int) -> int:
    """A packed DATETIME as microseconds since day 0."""
    date, hour, minute, second, micro = unpack_datetime(packed)
    seconds = day_number(date) * 86400 + hour * 3600 + minute * 60 + second
    return seconds * 1_000_000 + micro


def of_microseconds(total: int) -> int | None:
    """Inverse of `microseconds`; None outside the calendar."""
    days, rest = divmod(total, DAY_US)
    date = date_of_day(days)
    return None if date is None else at_time(date, rest)


def at_time(date: int, micros: int) -> int:
    """Packed DATETIME of a packed date and microseconds of the day."""
    seconds, micro = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return pack_datetime(date, hour, minute, second, micro)


def is_valid(packed: int, zero_allowed: bool = True) -> bool:
    """Whether a packed date is in the calendar; zero parts as told."""
    year, month, day = unpack_date(packed)
    if month == 0 or day == 0:
        return zero_allowed and month <= 12 and day <= 31
    return month <= 12 and day <= temporal.days_in(year, month) and year <= 9999


# -- reading ---------------------------------------------------------------------------------------

_SEPARATED = re.compile(
    r"\s*(\d{1,4})[^\w\s](\d{1,2})[^\w\s](\d{1,2})"
    r"(?:(?:T|\s+|[^\w\s])(\d{1,2})(?:[^\w\s](\d{1,2})(?:[^\w\s](\d{1,2})(?:\.(\d*))?)?)?)?"
)
_DIGITS = re.compile(r"\s*(\d{14}|\d{12}|\d{8}|\d{6})(?!\d)(?:\.(\d*))?")
_SPLIT_DIGITS = re.compile(r"\s*(\d{8}|\d{6})T(\d{6})(?!\d)(?:\.(\d*))?")
_ZONE = re.compile(r"Z|([+-])(\d{2})(?::?(\d{2}))?")


def full_year(digits: str) -> int:
    """A year; two digits are 1970 to 2069."""
    year = int(digits)
    if len(digits) > 2:
        return year
    return year + (2000 if year < 70 else 1900)


def read_moment(text: str, local: tzinfo | None = None) -> tuple[int, bool] | None:
    """(packed DATETIME with microseconds rounded, whether something follows it), or None."""
    found = _SEPARATED.match(text)
    if found:
        year, month, day, hour, minute, second, fraction = found.groups()
        parts = [full_year(year), int(month), int(day)]
        parts += [int(part or 0) for part in (hour, minute, second)]
    else:
        found = _SPLIT_DIGITS.match(text)
        if found:
            digits, fraction = found.group(1) + found.group(2), found.group(3)
        else:
            found = _DIGITS.match(text)
            if not found:
                return None
            digits, fraction = found.groups()
        parts = _parts_of_digits(digits)
    moment = _assemble(parts, fraction)
    rest = text[found.end() :].strip()
    if moment is None:
        return None
    zone = _ZONE.fullmatch(rest)
    if zone:
        offset = (
            (int(zone[2] or 0) * 60 + int(zone[3] or 0))
            * 60_000_000
            * (-1 if zone[1] == "-" else 1)
        )
        moved = of_microseconds(microseconds(moment) - offset)
        return None if moved is None else (temporal.shift_zone(moved, None, local), False)
    return moment, bool(rest)


def names_zone(text: str) -> bool:
    """Whether a text ends with a zone, so that it means another moment in every session."""
    found = _SEPARATED.match(text) or _SPLIT_DIGITS.match(text) or _DIGITS.match(text)
    return found is not None and _ZONE.fullmatch(text[found.end() :].strip()) is not None


def _parts_of_digits(digits: str) -> list[int]:
    wide = len(digits) in (8, 14)
    year, rest = (digits[:4], digits[4:]) if wide else (digits[:2], digits[2:])
    numbers = [int(rest[n : n + 2]) for n in range(0, len(rest), 2)]
    return [full_year(year), *numbers, 0, 0, 0][:6]


def _assemble(parts: list[int], fraction: str | None) -> int | None:
    year, month, day, hour, minute, second = parts
    date = pack_date(year, month, day) if month < 16 and day < 32 else -1
    if date < 0 or not is_valid(date) or hour > 23 or minute > 59 or second > 59:
        return None
    micro = 0
    if fraction:
        micro = int((fraction + "000000")[:6]) + (len(fraction) > 6 and fraction[6] >= "5")
    packed = pack_datetime(date, hour, minute, second, 0)
    if micro == 1_000_000:
        return of_microseconds(microseconds(packed) + micro)
    return packed + micro


def moment_of_number(number: int, micro: int = 0) -> int | None:
    """20240131, 240131, 20240131235959 and 240131235959 as a packed DATETIME;

    None if no such moment."""
    if number == 0:
        return micro
    if number < 0:
        return None
    digits = str(number)
    if len(digits) > 8:
        digits = digits.zfill(14 if len(digits) > 12 else 12)
    elif len(digits) <= 6:
        digits = digits.zfill(6)
    else:
        digits = digits.zfill(8)
    if number < 101 or len(digits) > 14:
        return None
    found = _assemble(_parts_of_digits(digits), None)
    return None if found is None else found + micro


_TIME = re.compile(
    r"\s*(-)?(?:(\d{1,2})\s+(\d{1,2})(?::(\d{1,2})(?::(\d{1,2}))?)?"
    r"|(\d{1,3}):(\d{1,2})(?::(\d{1,2}))?|(\d{1,7}))(?:\.(\d*))?"
)


def read_time(text: str) -> tuple[int, bool] | None:
    """(microseconds of a TIME, whether something follows it), or None. Held to +-838:59:59."""
    if re.match(r"\s*\d{2,4}[^\w\s:.]\d", text) or re.match(r"\s*\d{12}", text):
        moment = read_moment(text)
        return None if moment is None else (time_of(moment[0]), moment[1])
    found = _TIME.match(text)
    if not found:
        return None
    sign, days, h1, m1, s1, h2, m2, s2, digits, fraction = found.groups()
    if digits is not None:
        number = int(digits)
        hour, minute, second = number // 10000, number // 100 % 100, number % 100
    elif days is not None:
        hour, minute, second = int(days) * 24 + int(h1), int(m1 or 0), int(s1 or 0)
    else:
        hour, minute, second = int(h2), int(m2), int(s2 or 0)
    if minute > 59 or second > 59:
        return None
    micro = int(((fraction or "") + "000000")[:6])
    if fraction and len(fraction) > 6 and fraction[6] >= "5":
        micro += 1
    total = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micro
    cut = total > temporal.MOST_TIME
    total = min(total, temporal.MOST_TIME)
    return (-total if sign else total), cut or bool(text[found.end() :].strip())
