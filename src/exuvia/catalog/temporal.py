"""MySQL's dates and times: text and numbers to packed integers and back, in all forms of MySQL.

    DATE, DATETIME  2026-11-21 10:11:12.345678   any punctuation, T or spaces before the time
                    20261121101112  20261121  261121101112  261121     without separators
                    two-digit years: 70..99 are 19xx, 00..69 are 20xx
                    a zone +hh:mm may follow a DATETIME
    TIME            [-][days ]hh:mm:ss.ffffff  hh:mm  hhmmss  mmss  ss      -838:59:59 .. 838:59:59

Fractions are rounded to the type's digits, halves up, with a carry. `zero_allowed` decides about
dates with zero parts. All functions return None for invalid input; the caller chooses the error.
Source: MySQL manual, "Date and Time Literals", "Fractional Seconds".

Texts are split as in TiDB (`split_moment`, `split_time`), without checking that the parts are a
valid time:

    2026-11-21 10:11:12.5   any punctuation between parts, T or spaces before the hour; a point
                            before the last of at most six parts separates as any other sign
    20261121101112          14, 12, 8 or 6 digits; also 11 to 9 and 7, 5: the last part is short
    20261121.1011           digits after a date of digits only are hh, hhmm or hhmmss
    ...+08:00  -05  Z       a zone, after all six parts
    -1 02:03:04  02:03  203 a TIME: days, parts from the hour on, or digits from the second on
"""

import re
import zoneinfo
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

from exuvia.base.types import pack_date, pack_datetime, unpack_date, unpack_datetime

SECOND = 1_000_000
DAY = 86_400 * SECOND
MOST_TIME = (838 * 3600 + 59 * 60 + 59) * SECOND


def days_in(year: int, month: int) -> int:
    """The number of days of a month."""
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return 29 if leap else 28
    return 30 if month in (4, 6, 9, 11) else 31


def full_year(year: int, digits: int) -> int:
    """The full year of a two-digit one."""
    if digits > 2:
        return year
    return year + (1900 if year >= 70 else 2000)


def is_date(year: int, month: int, day: int, zero_allowed: bool, any_day: bool = False) -> bool:
    """Whether MySQL stores the parts as a date. `zero_allowed` applies to all zero parts."""
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
    """A packed DATETIME rounded to `digits` digits. A zone in the text is converted to `zone` (UTC
    if None)."""
    split = split_moment(text, is_number)
    if split is None or split.cut:
        return None
    parts, fraction, offset, _ = split
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
    """Microseconds of a written fraction, rounded to `digits` digits; may be a whole second."""
    if not fraction:
        return 0
    rounded = int(fraction[:digits].ljust(digits, "0") or 0)
    rounded += fraction[digits : digits + 1] >= "5"
    return rounded * int(10 ** (6 - digits))


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
    """The Python value of a packed DATETIME, without zone. Raises ValueError for dates with zero
    parts."""
    day, hour, minute, second, micro = unpack_datetime(packed)
    year, month, number = unpack_date(day)
    return datetime(year, month, number, hour, minute, second, micro)


def from_moment(moment: datetime) -> int:
    """Inverse of `to_moment`; ignores the zone."""
    day = pack_date(moment.year, moment.month, moment.day)
    return pack_datetime(day, moment.hour, moment.minute, moment.second, moment.microsecond)


def add_micro(packed: int, micro: int) -> int | None:
    """A packed DATETIME plus microseconds; None beyond year 9999, or for a carry over a zero
    part."""
    _, _, _, _, own = unpack_datetime(packed)
    if 0 <= own + micro < SECOND:
        return packed + micro
    try:
        return from_moment(to_moment(packed) + timedelta(microseconds=micro))
    except (OverflowError, ValueError):
        return None


def round_datetime(packed: int, digits: int) -> int | None:
    """A packed DATETIME rounded to `digits` digits of a second; None beyond the year 9999."""
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
    """YYYY-MM-DD hh:mm:ss with `digits` digits of a second."""
    day, hour, minute, second, micro = unpack_datetime(packed)
    text = f"{format_date(day)} {hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{f'{micro:06d}'[:digits]}" if digits > 0 else text


def datetime_number(packed: int) -> int:
    """YYYYMMDDhhmmss, the DATETIME as a number."""
    day, hour, minute, second, _ = unpack_datetime(packed)
    return date_number(day) * 1_000_000 + hour * 10_000 + minute * 100 + second


def date_number(packed: int) -> int:
    """YYYYMMDD."""
    year, month, day = unpack_date(packed)
    return year * 10_000 + month * 100 + day


def shift_zone(packed: int, source: tzinfo | None, target: tzinfo | None) -> int:
    """A packed DATETIME of one zone in another zone (None: UTC).

    Values outside the calendar do not change: zero parts, the year 0, and the last hours of the
    year 9999."""
    if source == target or not packed:
        return packed
    try:
        moment = to_moment(packed).replace(tzinfo=source or UTC).astimezone(target or UTC)
    except (OverflowError, ValueError):
        return packed
    return from_moment(moment)


def after_gap(packed: int, zone: tzinfo) -> int | None:
    """The end in UTC of the gap in the zone's clocks that contains a packed DATETIME, which is the
    next valid time. None for a time outside gaps."""
    try:
        local = to_moment(packed).replace(tzinfo=zone)
        early, late = sorted(local.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    except (OverflowError, ValueError):
        return None
    plain = local.replace(tzinfo=None)
    if early == late or early.astimezone(zone).replace(tzinfo=None) == plain:
        return None
    before = early.astimezone(zone).utcoffset()
    early, late = early.replace(microsecond=0), late.replace(microsecond=0) + timedelta(seconds=1)
    while late - early > timedelta(seconds=1):
        middle = early + (late - early) // 2
        middle = middle.replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == before:
            early = middle
        else:
            late = middle
    return from_moment(late)


def ordinal(packed: int) -> int:
    """Days since 0001-01-01 of a packed date. Raises ValueError for zero parts."""
    return date(*unpack_date(packed)).toordinal()


# -- TIME ------------------------------------------------------------------------------------------


def parse_time(text: str, digits: int, is_number: bool = False) -> int | None:
    """Microseconds, rounded to `digits` digits; None for an invalid TIME, or beyond 838:59:59.

    A text may be a date and time whose month or day is zero; a number may not, as in MySQL."""
    split = split_time(text)
    if split is not None and not split.cut:
        micro = _time(split.parts, split.fraction, digits, split.negative)
        if micro is not None or not text.strip()[:12].isdigit():
            return micro
    if not may_be_moment(text):
        return None
    moment = parse_datetime(text, digits, zero_allowed=not is_number, is_number=is_number)
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
    """A TIME rounded to `digits` digits of a second, halves away from zero."""
    unit = int(10 ** (6 - digits))
    size = (abs(micro) + unit // 2) // unit * unit
    return -size if micro < 0 else size


def time_of(packed: int) -> int:
    """The time of day of a packed DATETIME, in microseconds."""
    _, hour, minute, second, micro = unpack_datetime(packed)
    return (hour * 3600 + minute * 60 + second) * SECOND + micro


def format_time(micro: int, digits: int = 0) -> str:
    """[-]hh:mm:ss with `digits` digits of a second; three digits of hours if needed."""
    seconds, rest = divmod(abs(micro), SECOND)
    minutes, second = divmod(seconds, 60)
    sign = "-" if micro < 0 else ""
    text = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    return f"{text}.{f'{rest:06d}'[:digits]}" if digits > 0 else text


def time_number(micro: int) -> int:
    """hhmmss, the TIME as a number."""
    seconds = abs(micro) // SECOND
    number = seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60
    return -number if micro < 0 else number


# -- texts taken apart ---------------------------------------------------------------------------

_PLAIN = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d*))?)?")
_ZONED = re.compile(r"(.*\d\.?)(Z|[+-]\d{2}(?::?\d{2})?)", re.DOTALL)
_SIGNS = r"!-/:-@\[-`{-~"
_SIGN = re.compile(f"[{_SIGNS}]")
_BEFORE_HOUR = re.compile(rf"[{_SIGNS}T\s]")
_LONGEST = 6
MOST_SIGNS = 1024  # in a text with a time: splitting is designed for short texts
# length of a text of digits only -> digits of the year; other parts have two digits
_YEAR_DIGITS = {14: 4, 12: 2, 11: 2, 10: 2, 9: 2, 8: 4, 7: 2, 6: 2, 5: 2}
_SPLIT_DIGITS = re.compile(r"(\d{8}|\d{6})[T\s]+(\d{6})")


class Written(NamedTuple):
    """Year to second, the digits of the fraction, the zone, and whether text was left over."""

    parts: list[int]
    fraction: str = ""
    offset: str = ""
    cut: bool = False


def split_moment(text: str, is_number: bool = False) -> Written | None:
    """The parts of a DATE or DATETIME; None for other text.

    `is_number`: the text is a number's, whose fraction is one of a second."""
    plain = _PLAIN.fullmatch(text)
    if plain:
        return Written([int(part or 0) for part in plain.groups()[:6]], plain[7] or "")
    if len(text) > MOST_SIGNS:
        return None
    body, offset = _without_zone(text.strip())
    body, fraction, cut = _without_fraction(body)
    parts = _numbers(body)
    if not parts:
        split = _SPLIT_DIGITS.fullmatch(body)
        if split is None:
            return None
        parts = [split[1] + split[2]]
    if len(parts) == 1:
        return _of_digits(parts[0], fraction, offset, cut, is_number)
    if fraction and len(parts) < _LONGEST:
        parts, fraction = [*parts, fraction], ""
    if len(parts) < 3 or not all(part.isdigit() for part in parts[:_LONGEST]):
        return None
    cut = cut or len(parts) > _LONGEST
    numbers = [int(part) for part in parts[:_LONGEST]]
    if len(parts[0]) <= 2 and any(numbers):
        numbers[0] = _in_century(numbers[0])
    return Written([*numbers, 0, 0, 0][:6], fraction, offset, cut)


def _in_century(year: int) -> int:
    return year + (1900 if year >= 70 else 2000)


def _without_zone(body: str) -> tuple[str, str]:
    match = _ZONED.fullmatch(body)
    if match is None:
        return body, ""
    head, zone = match.groups()
    groups = re.findall(r"\d+", head)
    if len(groups) >= _LONGEST or (len(groups[0]) in (12, 14) and (zone == "Z" or ":" in zone)):
        return head, zone
    return body, ""


def _without_fraction(body: str) -> tuple[str, str, bool]:
    signs = list(_SIGN.finditer(body))
    if not signs or signs[-1].group() != ".":
        return body, "", False
    written = body[signs[-1].end() :]
    digits = re.match(r"\d*", written)
    fraction = digits.group() if digits else ""
    return body[: signs[-1].start()], fraction, len(fraction) < len(written)


def _numbers(body: str) -> list[str]:
    """The parts between separators; empty if there is other text between them."""
    if not body[:1].isdigit():
        return []
    parts: list[str] = []
    start, place = 0, 1
    while place < len(body) - 1:
        if _separates(body[place], len(parts)):
            before = len(parts)
            parts.append(body[start:place])
            while place < len(body) and _separates(body[place], before):
                place += 1
            start = place
        elif not body[place].isdigit():
            return []
        place += 1
    return [*parts, body[start:]]


def _separates(sign: str, before: int) -> bool:
    if before == 2 and _BEFORE_HOUR.match(sign):
        return True
    return bool(_SIGN.match(sign)) or (before > 4 and not sign.isdigit())


def _of_digits(
    digits: str, fraction: str, offset: str, cut: bool, is_number: bool
) -> Written | None:
    if not digits.isdigit() or len(digits) not in _YEAR_DIGITS:
        return None
    wide = _YEAR_DIGITS[len(digits)]
    rest = digits[wide:]
    numbers = [int(rest[at : at + 2]) for at in range(0, len(rest), 2)]
    year = int(digits[:wide])
    numbers.insert(0, year if wide == 4 else _in_century(year))
    if len(digits) in (5, 6, 8):
        if not is_number:
            numbers += [int(fraction[at : at + 2]) for at in range(0, min(6, len(fraction)), 2)]
        fraction = ""
    elif len(digits) in (9, 10) and fraction:
        numbers.append(int(fraction[:2]))
        cut, fraction = cut or len(fraction) > 2, ""
    return Written([*numbers, 0, 0, 0, 0, 0][:6], fraction, offset, cut)


# -- a TIME taken apart ---------------------------------------------------------------------------

_CLOCK = re.compile(
    r"(-)?\s*(?:(\d+)\s+(\d+)(?::(\d+)(?::(\d+))?)?|(\d+):(\d+)(?::(\d+))?|(\d+))?\s*(?:\.(\d*))?"
)
_DATE_LIKE = re.compile(rf"\d{{12}}|\d+[{_SIGNS}]+\d+[{_SIGNS}]")


class WrittenTime(NamedTuple):
    """Hours, minutes and seconds of a TIME, the digits of its fraction, its sign, and whether text
    was left over."""

    parts: tuple[int, int, int]
    fraction: str
    negative: bool
    cut: bool


def split_time(text: str) -> WrittenTime | None:
    """The parts of a TIME; None for other text, which may be a DATETIME."""
    body = text.strip()
    if len(body) > MOST_SIGNS:
        return None
    match = _CLOCK.match(body)
    if match is None or not match.group().strip("- "):
        return None
    sign, days, h1, m1, s1, h2, m2, s2, digits, fraction = match.groups()
    if digits is not None:
        number = int(digits)
        parts = number // 10000, number // 100 % 100, number % 100
    elif days is not None:
        parts = int(days) * 24 + int(h1), int(m1 or 0), int(s1 or 0)
    elif h2 is not None:
        parts = int(h2), int(m2), int(s2 or 0)
    else:
        parts = 0, 0, 0
    rest = body[match.end() :].strip()
    if parts[1] > 59 or parts[2] > 59 or (rest and len(body.lstrip("-")) >= 12):
        return None
    return WrittenTime(parts, fraction or "", bool(sign), bool(rest))


def may_be_moment(text: str) -> bool:
    """Whether a text that is not a TIME may be a DATETIME."""
    return len(text) <= MOST_SIGNS and _DATE_LIKE.match(text.strip()) is not None


_UTC_NAMES = ("", "SYSTEM", "UTC", "+00:00", "-00:00", "GMT", "ETC/UTC")


def zone_of(text: str) -> tzinfo | None:
    """The zone of a checked value of time_zone; None for UTC."""
    if text.upper() in _UTC_NAMES:
        return None
    if text[0] in "+-":
        hours, minutes = text[1:].split(":")
        ahead = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-ahead if text[0] == "-" else ahead)
    return zoneinfo.ZoneInfo(text)
