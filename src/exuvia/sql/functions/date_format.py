"""DATE_FORMAT, TIME_FORMAT and the weeks they count (manual, "DATE_FORMAT").

STR_TO_DATE: a text read by a format (manual, "STR_TO_DATE").
"""

import re
from collections.abc import Callable, Sequence

from exuvia.base.mysql_errors import ErrTruncatedWrongValue
from exuvia.base.types import FieldType, pack_date, pack_datetime, unpack_date, unpack_datetime
from exuvia.catalog import temporal
from exuvia.sql import types
from exuvia.sql.env import Env
from exuvia.sql.expr import Constant, Expr
from exuvia.sql.functions import moment

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


def week_of(packed: int, mode: int) -> tuple[int, int]:
    """(year, week) of a date.

    mode bits: 1 Monday first, 2 weeks 1-53, 4 the first week is the first full one."""
    monday, year_wise, full = bool(mode & 1), bool(mode & 2), bool(mode & 4)
    if not monday:
        full = not full
    year, _, _ = unpack_date(packed)
    day = moment.day_number(packed)
    first = moment.day_number(pack_date(year, 1, 1))
    weekday = _weekday(first, not monday)
    if packed & 511 <= 32 + 31 and (packed & 31) <= 7 - weekday and (packed >> 5 & 15) == 1:
        if not year_wise and ((full and weekday != 0) or (not full and weekday >= 4)):
            return year, 0
        year_wise = True
        if (full and weekday != 0) or (not full and weekday >= 4):
            year -= 1
            first = moment.day_number(pack_date(year, 1, 1))
            weekday = _weekday(first, not monday)
    late = (full and weekday != 0) or (not full and weekday >= 4)
    days = day - (first + (7 - weekday)) if late else day - (first - weekday)
    if year_wise and days >= 52 * 7:
        length = 366 if temporal.days_in(year, 2) == 29 else 365
        weekday = (weekday + length) % 7
        if (not full and weekday < 4) or (full and weekday == 0):
            return year + 1, 1
    return year, days // 7 + 1


def _weekday(day: int, sunday_first: bool) -> int:
    return (day + 5 + sunday_first) % 7


def _suffix(day: int) -> str:
    if 10 <= day % 100 <= 19:
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


class _Parts:
    """The parts of a moment, as the specifiers ask for them."""

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
        return week_of(self.date, mode)


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
    shown = []
    signs = iter(form)
    for sign in signs:
        if sign != "%":
            shown.append(sign)
            continue
        specifier = next(signs, "")
        maker = _SHOW.get(specifier)
        part = specifier if maker is None else maker(parts)
        if part is None:
            return None
        shown.append(part)
    return "".join(shown)


def format_moment(packed: int, form: str) -> str | None:
    """DATE_FORMAT."""
    date, hour, minute, second, micro = unpack_datetime(packed)
    micros = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micro
    return _show(_Parts(date, micros), form)


def format_time(micros: int, form: str) -> str | None:
    """TIME_FORMAT; dates are zero."""
    shown = _show(_Parts(0, abs(micros)), form)
    return f"-{shown}" if micros < 0 and shown is not None else shown


# -- date parse ------------------------------------------------------------------------------------

_TIME_SIGNS = "fHhIiklprSsT"


_DATE_SIGNS = "abcDdejMmUuVvWwXxYy"


_NUMBERS = {
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
    """STR_TO_DATE; NULL and 1292 (as MySQL 1411) for what does not match."""
    for sign, longer in _EXPANDED.items():
        form = form.replace(f"%{sign}", longer)
    found: dict[str, int] = {}
    end = _match(text, form, found)
    zero_allowed = "NO_ZERO_DATE" not in env.variable("sql_mode")
    value = None if end is None else _assemble(form, found, zero_allowed)
    if value is None:
        env.incorrect("datetime", text)
    elif text[end:].strip():
        env.warn(ErrTruncatedWrongValue, "datetime", text)
    return value


def _match(text: str, form: str, found: dict[str, int]) -> int | None:
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
        moved = _take(form[place + 1 : place + 2], text, at, found)
        if moved is None:
            return at if at >= len(text) and place > 0 and found else None
        at = moved
        place += 2
    return at


def _take(sign: str, text: str, at: int, found: dict[str, int]) -> int | None:
    if sign in _NUMBERS:
        name, width = _NUMBERS[sign]
        digits = re.compile(rf"\d{{1,{width}}}").match(text, at)
        if digits:
            found[name] = int(digits.group())
        return digits.end() if digits else None
    if sign in ("Y", "y"):
        digits = re.compile(r"\d{1,4}" if sign == "Y" else r"\d{1,2}").match(text, at)
        if digits:
            short = len(digits.group()) <= 2
            found["year"] = temporal.full_year(int(digits.group()), 2 if short else 4)
        return digits.end() if digits else None
    if sign == "f":
        digits = re.compile(r"\d{1,6}").match(text, at)
        if digits:
            found["micro"] = int(digits.group().ljust(6, "0"))
        return digits.end() if digits else None
    if sign == "D":
        digits = re.compile(r"(\d{1,2})(st|nd|rd|th)", re.IGNORECASE).match(text, at)
        if digits:
            found["day"] = int(digits.group(1))
        return digits.end() if digits else None
    return _take_word(sign, text, at, found)


def _take_word(sign: str, text: str, at: int, found: dict[str, int]) -> int | None:
    if sign == "p":
        half = text[at : at + 2].upper()
        if half in ("AM", "PM"):
            found["half"] = half == "PM"
            return at + 2
        return None
    names = {"M": MONTHS, "b": [m[:3] for m in MONTHS], "W": DAYS, "a": [d[:3] for d in DAYS]}
    for n, name in enumerate(names.get(sign, ())):
        if text[at : at + len(name)].lower() == name.lower():
            if sign in "Mb":
                found["month"] = n + 1
            return at + len(name)
    return at + 1 if sign == "%" and text[at : at + 1] == "%" else None


def _assemble(form: str, found: dict[str, int], zero_allowed: bool) -> int | None:
    hour = found.get("hour", 0)
    if "hour12" in found:
        if not 1 <= found["hour12"] <= 12:
            return None
        hour = found["hour12"] % 12 + (12 if found.get("half") else 0)
    minute, second, micro = (found.get(name, 0) for name in ("minute", "second", "micro"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    signs = re.findall("%(.)", form)
    clock = any(sign in _TIME_SIGNS for sign in signs)
    if not any(sign in _DATE_SIGNS for sign in signs) and clock:
        return ((hour * 60 + minute) * 60 + second) * 1_000_000 + micro
    year, month, day = (found.get(name, 0) for name in ("year", "month", "day"))
    date = pack_date(year, month, day) if month < 13 and day < 32 else -1
    if found.get("yearday"):
        first = moment.day_number(pack_date(year, 1, 1))
        date = moment.date_of_day(first + found["yearday"] - 1) or -1
        month = day = 1
    if date < 0 or (not zero_allowed and (month == 0 or day == 0)):
        return None
    return pack_datetime(date, hour, minute, second, micro) if clock else date
