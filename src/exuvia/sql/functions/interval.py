"""INTERVAL, TIMESTAMPDIFF, EXTRACT: what depends on a unit (manual, "Temporal Intervals")."""

import re
from decimal import Decimal

from exuvia.base.types import Value, pack_date, unpack_date, unpack_datetime
from exuvia.catalog import temporal
from exuvia.catalog.decimals import parsed, whole
from exuvia.sql.functions import date_format, moment

_UNITS_US = {
    "MICROSECOND": 1,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": moment.DAY_US,
    "WEEK": 7 * moment.DAY_US,
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
    """Fractional digits a result needs for whole amounts of the unit."""
    return 6 if "MICROSECOND" in unit else 0


def amount(value: Value, unit: str) -> tuple[int, int] | None:
    """(months, microseconds) of an interval's value; NULL for what is no interval."""
    if unit in _PARTS:
        return _of_parts(str(value), unit)
    if unit == "SECOND" and not isinstance(value, int):
        found = _NUMBER.match(value) if isinstance(value, str) else None
        exact = parsed(found[1] if found else "0" if isinstance(value, str) else str(value))
        return (0, int(exact * 1_000_000)) if abs(exact) < _MOST else None
    number = _whole(value)
    if unit in _MONTHS:
        return number * _MONTHS[unit], 0
    return 0, number * _UNITS_US[unit]


_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_MOST = 1 << 62


def _whole(value: Value) -> int:
    if isinstance(value, str):
        found = re.match(r"\s*([+-]?\d+)", value)
        return whole(found[1]) if found else 0
    if isinstance(value, float):
        return round(max(-_MOST, min(value, _MOST)))
    return int(Decimal(value).to_integral_value("ROUND_HALF_UP"))


def _of_parts(text: str, unit: str) -> tuple[int, int] | None:
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


def add(packed: int, value: Value, unit: str, sign: int) -> int | None:
    """A packed DATETIME moved by an interval; NULL outside the calendar."""
    found = amount(value, unit)
    date = packed >> 37
    if found is None or date & 31 == 0 or date >> 5 & 15 == 0:
        return None
    months, micros = found[0] * sign, found[1] * sign
    if months:
        year, month, day = unpack_date(date)
        total = year * 12 + month - 1 + months
        year, month = divmod(total, 12)
        if not 0 <= year <= 9999:
            return None
        day = min(day, temporal.days_in(year, month + 1))
        packed = pack_date(year, month + 1, day) << 37 | packed & ((1 << 37) - 1)
    if micros:
        return moment.of_microseconds(moment.microseconds(packed) + micros)
    return packed


def add_to_time(micros: int, value: Value, unit: str, sign: int) -> int | None:
    """A TIME moved by an interval."""
    found = amount(value, unit)
    if found is None or found[0]:
        return None
    total = micros + sign * found[1]
    return total if abs(total) <= temporal.MOST_TIME else None


def difference(left: int, right: int, unit: str) -> int | None:
    """TIMESTAMPDIFF: whole units from the first moment to the second."""
    if not (_has_date(left) and _has_date(right)):
        return None
    micros = moment.microseconds(right) - moment.microseconds(left)
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
        return date_format.week_of(date, 0)[1] if _has_date(packed) else None
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
