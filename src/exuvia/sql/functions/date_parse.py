"""STR_TO_DATE: a text read by a format (manual, "STR_TO_DATE")."""

import re
from collections.abc import Sequence
from typing import Any

from exuvia.base.mysql_errors import ErrTruncatedWrongValue
from exuvia.base.types import FieldType, pack_date, pack_datetime
from exuvia.catalog import temporal
from exuvia.sql import types
from exuvia.sql.expr import Constant, Expr
from exuvia.sql.functions import moment
from exuvia.sql.functions.date_format import DAYS, MONTHS

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


def parse(env: Any, text: str, form: str) -> int | None:
    """STR_TO_DATE; NULL and 1292 (as MySQL 1411) for what does not match."""
    for sign, longer in _EXPANDED.items():
        form = form.replace(f"%{sign}", longer)
    found: dict[str, int] = {}
    end = _match(text, form, found)
    variable = getattr(env, "variable", None)
    zero_allowed = variable is not None and "NO_ZERO_DATE" not in variable("sql_mode")
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
        digits = re.compile(r"(\d{1,2})(st|nd|rd|th)", re.I).match(text, at)
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
