"""DATE_FORMAT, TIME_FORMAT and the weeks they count (manual, "DATE_FORMAT")."""

from collections.abc import Callable, Sequence

from exuvia.base.types import pack_date, unpack_date, unpack_datetime
from exuvia.catalog import temporal
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
        """AM or PM."""
        return "AM" if self.hour % 24 < 12 else "PM"

    def weekday(self) -> int | None:
        """0 is Monday; None for dates with zero parts."""
        if self.month == 0 or self.day == 0:
            return None
        return (moment.day_number(self.date) + 5) % 7

    def week(self, mode: int) -> tuple[int, int]:
        """See `week_of`."""
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
