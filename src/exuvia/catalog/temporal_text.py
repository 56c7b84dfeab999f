"""A written DATE, DATETIME or TIME taken apart, as TiDB takes it apart; whether its parts are a
moment is not asked here.

    2026-11-21 10:11:12.5   any punctuation between parts, T or spaces before the hour; a point
                            before the last of at most six parts separates as any other sign
    20261121101112          14, 12, 8 or 6 digits; also 11 to 9 and 7, 5: the last part is short
    20261121.1011           digits behind a date of digits alone are hh, hhmm or hhmmss
    ...+08:00  -05  Z       a zone, where all six parts stand before it
    -1 02:03:04  02:03  203 a TIME: days, parts from the hour on, or digits from the second on
"""

import re
from typing import NamedTuple

_PLAIN = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d*))?)?")
_ZONED = re.compile(r"(.*\d\.?)(Z|[+-]\d{2}(?::?\d{2})?)", re.S)
_SIGNS = r"!-/:-@\[-`{-~"
_SIGN = re.compile(f"[{_SIGNS}]")
_BEFORE_HOUR = re.compile(rf"[{_SIGNS}T\s]")
_LONGEST = 6
MOST_SIGNS = 1024  # of a text that is a moment: what takes one apart is made for short ones
# lengths of a text of digits alone: how many of them are the year; the rest goes by twos
_YEAR_DIGITS = {14: 4, 12: 2, 11: 2, 10: 2, 9: 2, 8: 4, 7: 2, 6: 2, 5: 2}
_SPLIT_DIGITS = re.compile(r"(\d{8}|\d{6})[T\s]+(\d{6})")


class Written(NamedTuple):
    """Year, month, day, hour, minute, second; the digits of the fraction; the zone; whether text
    was left over."""

    parts: list[int]
    fraction: str = ""
    offset: str = ""
    cut: bool = False


def split_moment(text: str, is_number: bool = False) -> Written | None:
    """The parts of a DATE or DATETIME; None for what is none.

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
    found = _ZONED.fullmatch(body)
    if found is None:
        return body, ""
    head, zone = found.groups()
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
    """The parts between separators; empty where something else stands between them."""
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


# -- TIME ------------------------------------------------------------------------------------------

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
    """The parts of a TIME; None for what is none of its forms (a DATETIME may be)."""
    body = text.strip()
    if len(body) > MOST_SIGNS:
        return None
    found = _CLOCK.match(body)
    if found is None or not found.group().strip("- "):
        return None
    sign, days, h1, m1, s1, h2, m2, s2, digits, fraction = found.groups()
    if digits is not None:
        number = int(digits)
        parts = number // 10000, number // 100 % 100, number % 100
    elif days is not None:
        parts = int(days) * 24 + int(h1), int(m1 or 0), int(s1 or 0)
    elif h2 is not None:
        parts = int(h2), int(m2), int(s2 or 0)
    else:
        parts = 0, 0, 0
    rest = body[found.end() :].strip()
    if parts[1] > 59 or parts[2] > 59 or (rest and len(body.lstrip("-")) >= 12):
        return None
    return WrittenTime(parts, fraction or "", bool(sign), bool(rest))


def may_be_moment(text: str) -> bool:
    """Whether a text that is no TIME may still be a DATETIME."""
    return len(text) <= MOST_SIGNS and _DATE_LIKE.match(text.strip()) is not None
