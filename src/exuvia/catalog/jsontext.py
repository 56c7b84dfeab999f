"""JSON as MySQL keeps and prints it: keys by length, then bytes; `, ` and `: ` between; the last of
equal keys wins.

Numbers: integers as they are up to 64 bits, everything else a double that shows it is one (1.0,
1e100). Source: MySQL manual, "Normalization, Merging, and Autowrapping of JSON Values"."""

import json
import re
from typing import Any, NoReturn

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
    """The text as MySQL prints it. Raises ValueError (with `pos` where it stands) for what is not
    JSON."""
    return write(json.loads(text, parse_constant=_no_constant))


def _no_constant(word: str) -> NoReturn:
    raise json.JSONDecodeError("Invalid value.", word, 0)


def write(value: Any) -> str:
    """Python's value of some JSON as MySQL prints it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_quote(k)}: {write(value[k])}" for k in sorted(value, key=_key_order))
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(write, value))}]"
    if isinstance(value, str):
        return _quote(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:
        return str(value)
    return _double(float(value))


def _key_order(key: str) -> tuple[int, bytes]:
    encoded = key.encode("utf-8", "surrogatepass")
    return len(encoded), encoded


def _quote(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: "re.Match[str]") -> str:
    return _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04x}"


def _double(value: float) -> str:
    shown = double_text(value)
    return shown if "." in shown or "e" in shown else f"{shown}.0"


def double_text(value: float, digits: int = 17) -> str:
    """A double as MySQL prints it: the shortest text that reads back, exponents from 1e15 on and
    below 1e-15.

    `digits` fewer than 17: rounded to so many (6 for FLOAT)."""
    shown = repr(value) if digits >= 17 else f"{value:.{digits}g}"
    mantissa, _, exponent = shown.partition("e")
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
