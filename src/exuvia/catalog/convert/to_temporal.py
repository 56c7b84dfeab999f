"""Assignment to DATE, DATETIME, TIMESTAMP, TIME and YEAR.

TIMESTAMP is kept in UTC: assigning to it converts from the session's zone, assigning from it
converts back. Between them fractions are rounded to the target's digits; a DATE takes the day the
rounding ends in.
"""

from decimal import Decimal

from exuvia.base.types import Family, FieldType, TypeCode, Value, pack_date, pack_datetime
from exuvia.catalog import decimals, temporal
from exuvia.catalog.convert.mode import Mode, incorrect_time, out_of_range
from exuvia.catalog.convert.to_numeric import number_of
from exuvia.catalog.convert.to_string import to_text

_NUMERIC = (Family.INT, Family.UINT, Family.DECIMAL, Family.FLOAT)
_FIRST_TIMESTAMP = pack_datetime(pack_date(1970, 1, 1), 0, 0, 1)
_LAST_TIMESTAMP = pack_datetime(pack_date(2038, 1, 19), 3, 14, 7, 999_999)


def _digits(field: FieldType) -> int:
    return max(0, min(6, field.Decimal))


def _written(value: Value, source: FieldType) -> str:
    """A number or text as the text a parser reads."""
    if source.family == Family.FLOAT:
        return f"{Decimal(repr(value)):f}"
    if source.family == Family.BYTES:
        return str(value.decode("latin-1"))
    return to_text(value, source)


def _padded(text: str, source: FieldType) -> str:
    """A number as a date: MySQL reads it from the right, filled up with zeros."""
    if source.family not in _NUMERIC:
        return text
    whole, point, fraction = text.partition(".")
    if len(whole) <= 6:
        width = 6
    elif len(whole) <= 8:
        width = 8
    else:
        width = 12 if len(whole) <= 12 else 14
    return whole.rjust(width, "0") + point + fraction


def _datetime(value: Value, source: FieldType, kind: str, digits: int, mode: Mode) -> int:
    """A packed DATETIME in the session's zone. Refused 1292."""
    family = source.family
    if family == Family.DATE:
        return int(value) << 37
    if family == Family.DATETIME:
        if source.Tp == TypeCode.TIMESTAMP:
            value = temporal.shift_zone(value, None, mode.zone)
        rounded = temporal.round_datetime(value, digits)
        return incorrect_time(kind, to_text(value, source)) if rounded is None else rounded
    if family == Family.TIME:
        days = mode.today << 37
        moved = temporal.add_micro(days, temporal.round_time(value, digits)) if mode.today else None
        return incorrect_time(kind, to_text(value, source)) if moved is None else moved
    text = _written(value, source)
    if family in _NUMERIC and value <= 0:
        packed: int | None = 0 if mode.zero_dates and not value else None
    else:
        padded = _padded(text, source)
        number = family in _NUMERIC
        packed = temporal.parse_datetime(
            padded, digits, mode.zero_dates, mode.zone, mode.any_day, number
        )
    return incorrect_time(kind, text) if packed is None else packed


def _refuse_zero(day: int, value: Value, source: FieldType, kind: str, mode: Mode) -> None:
    if not mode.zero_dates and (not day & 31 or not day >> 5 & 15):
        incorrect_time(kind, to_text(value, source))


def to_date(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """DATE. Refused 1292."""
    if source.family == Family.DATE:
        day = int(value)
    else:
        day = _datetime(value, source, "date", 0, mode) >> 37
    _refuse_zero(day, value, source, "date", mode)
    return day


def to_datetime(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """DATETIME in its own time, TIMESTAMP in UTC. Refused 1292."""
    digits = _digits(target)
    kind = "timestamp" if target.Tp == TypeCode.TIMESTAMP else "datetime"
    if source.Tp == target.Tp and source.family == Family.DATETIME:
        packed = temporal.round_datetime(value, digits)
        packed = incorrect_time(kind, to_text(value, source)) if packed is None else packed
    else:
        packed = _datetime(value, source, kind, digits, mode)
        if target.Tp == TypeCode.TIMESTAMP:
            local, packed = packed, temporal.shift_zone(packed, mode.zone, None)
            if mode.zone is not None and temporal.shift_zone(packed, None, mode.zone) != local:
                incorrect_time(kind, to_text(value, source))  # the clocks skip it
    _refuse_zero(packed >> 37, value, source, kind, mode)
    in_range = _FIRST_TIMESTAMP <= packed <= _LAST_TIMESTAMP
    if target.Tp == TypeCode.TIMESTAMP and packed and not in_range:
        incorrect_time(kind, to_text(value, source))
    return packed


def to_time(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """TIME in microseconds. Refused 1292."""
    digits = _digits(target)
    if source.family == Family.TIME:
        return temporal.round_time(value, digits)
    if source.family == Family.DATE:
        return 0
    if source.family == Family.DATETIME:
        if source.Tp == TypeCode.TIMESTAMP:
            value = temporal.shift_zone(value, None, mode.zone)
        rounded = temporal.round_datetime(value, digits)
        return temporal.time_of(value if rounded is None else rounded)
    text = _written(value, source)
    micro = temporal.parse_time(text, digits)
    return incorrect_time("time", text) if micro is None else micro


def to_year(value: Value, source: FieldType, target: FieldType, mode: Mode) -> int:
    """YEAR: 1901 to 2155, 0, or one or two digits. Refused 1264, 1366."""
    if source.family in (Family.DATE, Family.DATETIME):
        year = value >> (9 if source.family == Family.DATE else 46)
        return _year(int(year))
    number = number_of(value, source, "year")
    if not -1e6 < number < 1e6:
        out_of_range()
    number = int(number if isinstance(number, float) else decimals.rounded(Decimal(number), 0))
    if source.family in (Family.STRING, Family.BYTES) and len(value.strip()) < 4 and number == 0:
        return 2000
    if 0 < number < 100:
        number = temporal.full_year(number, 2)
    return _year(number)


def _year(year: int) -> int:
    if year and not 1901 <= year <= 2155:
        out_of_range()
    return year
