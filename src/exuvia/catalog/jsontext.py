"""JSON text in MySQL's form: keys by length, then bytes; `, ` and `: ` as separators. The last of
equal keys wins.

Numbers: integers up to 64 bits unchanged, all others a double in a form that shows it (1.0, 1e100).
Source: MySQL manual, "Normalization, Merging, and Autowrapping of JSON Values".
"""

import json
import math
import re
from typing import Any, NoReturn

from exuvia.base.interruption import check, in_pieces
from exuvia.base.mysql_errors import ErrJSONValueTooBig

Document = Any
"""A parsed JSON value: None, bool, int, float, Decimal, str, a list or a dict of them."""

DEEPEST = 100
LONG = 1 << 17
MOST_VALUES = 4_000_000
_LOOK_EVERY = 1024
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}
_ESCAPED = re.compile(r'["\\\x00-\x1f]')


def normalise(text: str) -> str:
    """The text in MySQL's form. Raises ValueError (with the position in `pos`) for invalid JSON."""
    return write(read(text))


class TooDeep(ValueError):
    """A document has more than DEEPEST nested arrays and objects."""


def read(text: str) -> Document:
    """The Python value of a JSON text.

    Raises ValueError (with the position in `pos`), TooDeep, and 3150 above MOST_VALUES.

    json.loads blocks the interpreter until its end, so a long text is read value by value."""
    if len(text) > LONG:
        document = _read_long(text)
    else:
        try:
            reader = _DECODER if _HUGE(text) is None else BOUNDED
            document = reader.decode(text)
        except RecursionError:
            raise TooDeep from None
        if text.count("[") + text.count("{") > DEEPEST:
            _check_depth(document, DEEPEST)
    return document


def _check_depth(value: Document, levels: int) -> None:
    inside = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return
    if levels == 0:
        raise TooDeep
    for child in inside:
        if isinstance(child, dict | list):
            _check_depth(child, levels - 1)


_SPACE = re.compile(r"[ \t\n\r]*")


def _space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _in_range(number: str) -> float:
    """A number that may be beyond every double, which is invalid JSON as in TiDB."""
    double = float(number)
    if math.isinf(double):
        raise json.JSONDecodeError("Number out of range.", number, 0)
    return double


_HUGE = re.compile(r"[eE]\+?\d{3}|\d{300}").search
_DECODER = json.JSONDecoder(parse_constant=lambda word: _no_constant(word))
BOUNDED = json.JSONDecoder(
    parse_constant=lambda word: _no_constant(word),
    parse_float=_in_range,
    parse_int=lambda digits: int(digits) if len(digits) < 300 else _in_range(digits),
)


_RUN = re.compile(
    r"""(?:(?:-?\d{1,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,2})?|true|false|null|"[^"\\\x00-\x1f]{0,64}")"""
    r"[ \t\n\r]{0,8},[ \t\n\r]{0,8}){4,512}"
)
"""Plain values of an array with their commas, which more must follow."""


def plain_values(run: str) -> list[Document]:
    """The values of a match of _RUN; [] for values that are not valid, such as 01."""
    try:
        values: list[Document] = _DECODER.decode("[" + run.rstrip(" \t\n\r,") + "]")
    except ValueError:
        return []
    return values


def _read_long(text: str) -> Document:
    """Read a long document, container by container; json's own reader decodes its short parts, and
    runs of plain values in an array."""
    root: list[Document] = []
    open_: list[Document] = [root]
    keys: list[str] = [""]
    at, count, expect_value = _space(text, 0), 0, True
    look_at = _LOOK_EVERY
    while True:
        count += 1
        if count >= look_at:
            check()
            if count > MOST_VALUES:
                raise ErrJSONValueTooBig()
            look_at = count + _LOOK_EVERY
        sign = text[at : at + 1]
        place = open_[-1]
        if expect_value:
            if type(place) is list and place and (run := _RUN.match(text, at)) is not None:
                plain = plain_values(run[0])
                place += plain
                count += len(plain)
                at = run.end() if plain else at
                sign = text[at : at + 1]
            if sign in ("[", "{"):
                if len(open_) > DEEPEST:
                    raise TooDeep
                value: Document = [] if sign == "[" else {}
                at = _space(text, at + 1)
                closes = "]" if sign == "[" else "}"
                is_empty = text[at : at + 1] == closes
                at += is_empty
            else:
                value, at = BOUNDED.raw_decode(text, at)
                is_empty = True
            if isinstance(place, dict):
                place[keys[-1]] = value
            else:
                place.append(value)
            if not is_empty:
                open_.append(value)
                keys.append("")
                if sign == "{":
                    at = _key(text, at, keys)
                continue
            expect_value = False
        at = _space(text, at)
        place = open_[-1]
        if place is root:
            if at != len(text):
                raise json.JSONDecodeError("Extra data", text, at)
            return root[0]
        sign = text[at : at + 1]
        if sign == ",":
            at = _space(text, at + 1)
            if isinstance(place, dict):
                at = _key(text, at, keys)
            expect_value = True
        elif sign == ("}" if isinstance(place, dict) else "]"):
            open_.pop()
            keys.pop()
            at += 1
        else:
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)


def _key(text: str, at: int, keys: list[str]) -> int:
    """Read `"key":` into keys[-1]; returns the position of its value."""
    if text[at : at + 1] != '"':
        raise json.JSONDecodeError("Expecting property name", text, at)
    keys[-1], at = json.decoder.scanstring(text, at + 1, True)  # type: ignore[attr-defined]
    at = _space(text, at)
    if text[at : at + 1] != ":":
        raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
    return _space(text, at + 1)


def _no_constant(word: str) -> NoReturn:
    raise json.JSONDecodeError("Invalid value.", word, 0)


def write(value: Document) -> str:
    """The text of a Python value in MySQL's form."""
    if isinstance(value, dict):
        check()
        inner = ", ".join(f"{_quote(k)}: {write(value[k])}" for k in sorted(value, key=_key_order))
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(in_pieces(value, _items, _LOOK_EVERY))}]"
    if isinstance(value, str):
        return _quote(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:
        return str(value)
    return _double(float(value))


def _items(values: list[Document]) -> str:
    check()
    return ", ".join(map(write, values))


def _key_order(key: str) -> tuple[int, bytes]:
    encoded = key.encode("utf-8", "surrogatepass")
    return len(encoded), encoded


def _quote(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: "re.Match[str]") -> str:
    return _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}"


def _double(value: float) -> str:
    text = double_text(value)
    return text if "." in text or "e" in text else f"{text}.0"


def double_text(value: float, digits: int = 17) -> str:
    """A double in MySQL's form: the shortest text that reads back, with an exponent from 1e15 on
    and below 1e-15.

    `digits` below 17: rounded to that number of digits (6 for FLOAT)."""
    text = repr(value) if digits >= 17 else f"{value:.{digits}g}"
    mantissa, _, exponent = text.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    point = len(whole) + int(exponent or 0)
    figures = (whole + fraction).rstrip("0") if fraction else whole + fraction
    leading = len(figures) - len(figures.lstrip("0"))
    figures, point = figures[leading:].rstrip("0"), point - leading
    if not figures:
        return f"{sign}0" if sign else "0"
    if not -15 < point <= 15:
        rest = f".{figures[1:]}" if len(figures) > 1 else ""
        return f"{sign}{figures[0]}{rest}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{figures}"
    if len(figures) <= point:
        return f"{sign}{figures.ljust(point, '0')}"
    return f"{sign}{figures[:point]}.{figures[point:]}"
