"""MySQL's dates and times: text and numbers to packed integers and back, in all the forms MySQL
reads.

    DATE, DATETIME  2026-11-21 10:11:12.345678   any punctuation, T or spaces before the time
                    20261121101112  20261121  261121101112  261121     without separators
                    two-digit years: 70..99 are 19xx, 00..69 are 20xx
                    a zone +hh:mm may follow a DATETIME
    TIME            [-][days ]hh:mm:ss.ffffff  hh:mm  hhmmss  mmss  ss      -838:59:59 .. 838:59:59

Fractions are rounded to the type's digits, halves up, and carry. A date with zero parts is one that
`zero_allowed` decides about. All functions answer None for what is none of these; who asked knows
the error. Source: MySQL manual, "Date and Time Literals", "Fractional Seconds"."""

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

from exuvia.base.types import pack_date, pack_datetime, unpack_date, unpack_datetime
from exuvia.catalog.temporal_text import may_be_moment, split_moment, split_time

SECOND = 1_000_000
DAY = 86_400 * SECOND
MOST_TIME = (838 * 3600 + 59 * 60 + 59) * SECOND


def days_in(year: int, month: int) -> int:
    """Days of a month."""
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return 29 if leap else 28
    return 30 if month in (4, 6, 9, 11) else 31


def full_year(year: int, digits: int) -> int:
    """A year of two digits in its century."""
    if digits > 2:
        return year
    return year + (1900 if year >= 70 else 2000)


def is_date(year: int, month: int, day: int, zero_allowed: bool, any_day: bool = False) -> bool:
    """Whether the parts are a date MySQL stores. Zero parts are allowed or not, all at once."""
    if month > 12 or year > 9999:
        return False
    if year == 0 and month == 0 and day == 0:
        return zero_allowed
    if month == 0 or day == 0:
        return zero_allowed and day <= 31
    return day <= (31 if any_day else days_in(year, month))


# -- DATE and DATETIME -----------------------------------------------------------------------------


def parse_datetime(
    text: str,
    digits: int,
    zero_allowed: bool = False,
    zone: tzinfo | None = None,
    any_day: bool = False,
    is_number: bool = False,
) -> int | None:
    """A packed DATETIME rounded to so many digits. A zone written in the text is converted to
    `zone` (UTC if None)."""
    found = split_moment(text, is_number)
    if found is None or found.cut:
        return None
    parts, fraction, offset, _ = found
    year, month, day, hour, minute, second = parts
    if (
        not is_date(year, month, day, zero_allowed, any_day)
        or hour > 23
        or minute > 59
        or second > 59
    ):
        return None
    micro = _micro(fraction, digits)
    packed = pack_datetime(pack_date(year, month, day), hour, minute, second)
    rounded = add_micro(packed, micro) if micro else packed
    if offset and rounded is not None:
        return _from_offset(rounded, offset, zone)
    return rounded


def _micro(fraction: str, digits: int) -> int:
    """Microseconds of a written fraction, rounded to so many digits; may be a whole second."""
    if not fraction:
        return 0
    kept = int(fraction[:digits].ljust(digits, "0") or 0)
    kept += fraction[digits : digits + 1] >= "5"
    return kept * int(10 ** (6 - digits))


def _from_offset(packed: int, offset: str, zone: tzinfo | None) -> int | None:
    digits = offset[1:].replace(":", "")
    hours, minutes = int(digits[:2] or 0), int(digits[2:] or 0)
    ahead = timedelta(hours=hours, minutes=minutes) * (-1 if offset[0] == "-" else 1)
    if abs(ahead) > timedelta(hours=14):
        return None
    try:
        moment = to_moment(packed).replace(tzinfo=timezone(ahead)).astimezone(zone or UTC)
    except (OverflowError, ValueError):
        return None
    return from_moment(moment)


def to_moment(packed: int) -> datetime:
    """A packed DATETIME as Python's (no zone). Raises ValueError for dates with zero parts."""
    day, hour, minute, second, micro = unpack_datetime(packed)
    year, month, number = unpack_date(day)
    return datetime(year, month, number, hour, minute, second, micro)


def from_moment(moment: datetime) -> int:
    """Inverse of `to_moment`; the zone is not looked at."""
    day = pack_date(moment.year, moment.month, moment.day)
    return pack_datetime(day, moment.hour, moment.minute, moment.second, moment.microsecond)


def add_micro(packed: int, micro: int) -> int | None:
    """A packed DATETIME later by so many microseconds; None beyond year 9999, or for a carry over a
    zero part."""
    _, _, _, _, own = unpack_datetime(packed)
    if 0 <= own + micro < SECOND:
        return packed + micro
    try:
        return from_moment(to_moment(packed) + timedelta(microseconds=micro))
    except (OverflowError, ValueError):
        return None


def round_datetime(packed: int, digits: int) -> int | None:
    """A packed DATETIME rounded to so many digits of a second; None where that is beyond the year
    9999."""
    unit = int(10 ** (6 - digits))
    micro = packed & 0xFFFFF
    low = micro % unit
    if not low:
        return packed
    return add_micro(packed, unit - low if low * 2 >= unit else -low)


def format_date(packed: int) -> str:
    """YYYY-MM-DD."""
    year, month, day = unpack_date(packed)
    return f"{year:04d}-{month:02d}-{day:02d}"


def format_datetime(packed: int, digits: int = 0) -> str:
    """YYYY-MM-DD hh:mm:ss with so many digits of a second."""
    day, hour, minute, second, micro = unpack_datetime(packed)
    text = f"{format_date(day)} {hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{f'{micro:06d}'[:digits]}" if digits > 0 else text


def datetime_number(packed: int) -> int:
    """YYYYMMDDhhmmss, as MySQL reads a DATETIME as a number."""
    day, hour, minute, second, _ = unpack_datetime(packed)
    return date_number(day) * 1_000_000 + hour * 10_000 + minute * 100 + second


def date_number(packed: int) -> int:
    """YYYYMMDD."""
    year, month, day = unpack_date(packed)
    return year * 10_000 + month * 100 + day


def shift_zone(packed: int, source: tzinfo | None, target: tzinfo | None) -> int:
    """A packed DATETIME of one zone as another's (None: UTC). What no calendar has stays as it is:
    zero parts, the year 0, and the last hours of the year 9999."""
    if source == target or not packed:
        return packed
    try:
        moment = to_moment(packed).replace(tzinfo=source or UTC).astimezone(target or UTC)
    except (OverflowError, ValueError):
        return packed
    return from_moment(moment)


def ordinal(packed: int) -> int:
    """Days since 0001-01-01 of a packed date. Raises ValueError for zero parts."""
    return date(*unpack_date(packed)).toordinal()


# -- TIME ------------------------------------------------------------------------------------------


def parse_time(text: str, digits: int) -> int | None:
    """Microseconds, rounded to so many digits; None for what is no time, or beyond 838:59:59."""
    found = split_time(text)
    if found is not None and not found.cut:
        micro = _time(found.parts, found.fraction, digits, found.negative)
        if micro is not None or not text.strip()[:12].isdigit():
            return micro
    if not may_be_moment(text):
        return None
    moment = parse_datetime(text, digits, zero_allowed=True)
    return None if moment is None else time_of(moment)


def _time(parts: tuple[int, int, int], fraction: str, digits: int, negative: bool) -> int | None:
    hours, minutes, seconds = parts
    if minutes > 59 or seconds > 59:
        return None
    total = (hours * 3600 + minutes * 60 + seconds) * SECOND + _micro(fraction, digits)
    if total > MOST_TIME:
        return None
    return -total if negative else total


def round_time(micro: int, digits: int) -> int:
    """A TIME rounded to so many digits of a second, halves away from zero."""
    unit = int(10 ** (6 - digits))
    size = (abs(micro) + unit // 2) // unit * unit
    return -size if micro < 0 else size


def time_of(packed: int) -> int:
    """The time of day of a packed DATETIME, in microseconds."""
    _, hour, minute, second, micro = unpack_datetime(packed)
    return (hour * 3600 + minute * 60 + second) * SECOND + micro


def format_time(micro: int, digits: int = 0) -> str:
    """[-]hh:mm:ss with so many digits of a second; three digits of hours where needed."""
    seconds, rest = divmod(abs(micro), SECOND)
    minutes, second = divmod(seconds, 60)
    sign = "-" if micro < 0 else ""
    text = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    return f"{text}.{f'{rest:06d}'[:digits]}" if digits > 0 else text


def time_number(micro: int) -> int:
    """hhmmss, as MySQL reads a TIME as a number."""
    seconds = abs(micro) // SECOND
    number = seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60
    return -number if micro < 0 else number
