"""Calendar arithmetic on packed dates and times (base/types.py), and reading them from text and
numbers.

Day numbers are MySQL's TO_DAYS: 0001-01-01 is 366, year 0 exists. A moment as microseconds is
day number * 86,400,000,000 + microseconds of the day.

Text is read as MySQL reads it: any punctuation separates parts, two-digit years are 1970 to 2069,
digits alone are YYYYMMDD[hhmmss] or YYMMDD[hhmmss] (manual, "Date and Time Literals")."""

from datetime import date as calendar_date
from datetime import tzinfo

from exuvia.base.types import pack_date, pack_datetime, unpack_date, unpack_datetime
from exuvia.catalog import temporal
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


def read_moment(
    text: str, local: tzinfo | None = None, is_number: bool = False
) -> tuple[int, bool] | None:
    """(packed DATETIME with microseconds rounded, whether something follows it), or None."""
    found = split_moment(text, is_number)
    moment = None if found is None else _assemble(found.parts, found.fraction)
    if found is None or moment is None:
        return None
    if not found.offset:
        return moment, found.cut
    digits = found.offset[1:].replace(":", "")
    ahead = (int(digits[:2] or 0) * 60 + int(digits[2:] or 0)) * 60_000_000
    moved = of_microseconds(microseconds(moment) + (ahead if found.offset[0] == "-" else -ahead))
    return None if moved is None else (temporal.shift_zone(moved, None, local), found.cut)


def names_zone(text: str) -> bool:
    """Whether a text ends with a zone, so that it means another moment in every session."""
    found = split_moment(text)
    return found is not None and bool(found.offset)


def _parts_of_digits(digits: str) -> list[int]:
    wide = len(digits) in (8, 14)
    year, rest = (digits[:4], digits[4:]) if wide else (digits[:2], digits[2:])
    numbers = [int(rest[n : n + 2]) for n in range(0, len(rest), 2)]
    return [temporal.full_year(int(year), len(year)), *numbers, 0, 0, 0][:6]


def _assemble(parts: list[int], fraction: str | None) -> int | None:
    year, month, day, hour, minute, second = parts
    date = pack_date(year, month, day) if month < 16 and day < 32 else -1
    if date < 0 or not is_valid(date) or hour > 23 or minute > 59 or second > 59:
        return None
    micro = _microseconds(fraction or "")
    packed = pack_datetime(date, hour, minute, second, 0)
    if micro == 1_000_000:
        return of_microseconds(microseconds(packed) + micro)
    return packed + micro


def _microseconds(fraction: str) -> int:
    return int((fraction + "000000")[:6]) + (len(fraction) > 6 and fraction[6] >= "5")


def moment_of_number(number: int, micro: int = 0) -> int | None:
    """20240131, 240131, 20240131235959 and 240131235959 as a packed DATETIME;

    None if no such moment."""
    if number == 0:
        return micro
    if number < 0:
        return None
    width = len(str(number))
    digits = str(number).zfill(6 if width <= 8 else 12 if width <= 12 else 14)
    if number < 101 or len(digits) > 14 or len(digits) == 7:
        return None
    found = _assemble(_parts_of_digits(digits), None)
    return None if found is None else found + micro


def read_time(text: str) -> tuple[int, bool] | None:
    """(microseconds of a TIME, whether something follows it), or None. Held to +-838:59:59."""
    found = split_time(text)
    total = 0
    if found is not None:
        hour, minute, second = found.parts
        total = ((hour * 60 + minute) * 60 + second) * 1_000_000 + _microseconds(found.fraction)
    if (found is None or found.cut or total > temporal.MOST_TIME) and may_be_moment(text):
        moment = read_moment(text)
        return None if moment is None else (time_of(moment[0]), moment[1])
    if found is None:
        return None
    cut = total > temporal.MOST_TIME
    total = min(total, temporal.MOST_TIME)
    return (-total if found.negative else total), cut or found.cut


def time_of_number(number: int) -> tuple[int, bool] | None:
    """An integer hhmmss, or a DATETIME's, as a TIME: (microseconds, False), or None."""
    size = abs(number)
    if size > _MOST_TIME_NUMBER:
        moment = moment_of_number(number) if number >= _LEAST_MOMENT else None
        if moment is None or not is_valid(moment >> 37, zero_allowed=False):
            return None
        return time_of(moment), False
    hour, minute, second = size // 10000, size // 100 % 100, size % 100
    if minute > 59 or second > 59:
        return None
    total = ((hour * 60 + minute) * 60 + second) * 1_000_000
    return (-total if number < 0 else total), False


_MOST_TIME_NUMBER, _LEAST_MOMENT = 8_385_959, 10_000_000_000
