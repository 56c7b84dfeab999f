"""LIKE and the REGEXP family, by collation (manual, "String Comparison Functions", "Regular
Expressions").

LIKE compares character by character: trailing spaces count, and a case-insensitive collation folds
each character by itself. Regular expressions are Python's with the POSIX classes and word marks of
MySQL's; `i` where the collation ignores case."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from exuvia.base import limits
from exuvia.base.errors import Refused
from exuvia.base.mysql import refuse
from exuvia.catalog.collation import collation
from exuvia.sql.evaluate.env import Compiled, Row
from exuvia.sql.expr import Call


@lru_cache(maxsize=4096)
def like_pattern(pattern: str, escape: str, collate: str) -> "re.Pattern[str]":
    """The regular expression of a LIKE pattern over folded text."""
    fold = collation(collate).fold
    parts = []
    signs = iter(pattern)
    for sign in signs:
        if sign == escape:
            sign = next(signs, escape)
            parts.append(re.escape(_fold_one(sign, fold)))
        elif sign == "%":
            parts.append(".*")
        elif sign == "_":
            parts.append(".")
        else:
            parts.append(re.escape(_fold_one(sign, fold)))
    return re.compile("".join(parts), re.S)


def _fold_one(sign: str, fold: Callable[[str], str] | None) -> str:
    return sign if fold is None else (fold(sign) or sign)[0]


def _folded(text: str, fold: Callable[[str], str]) -> str:
    if text.isascii():
        once = fold(text)
        if len(once) == len(text):
            return once
    return "".join([_fold_one(sign, fold) for sign in text])


def like(text: str, pattern: str, escape: str, collate: str) -> int:
    """1 where the text matches the pattern, else 0."""
    fold = collation(collate).fold
    if fold is not None:
        text = _folded(text, fold)
    return int(like_pattern(pattern, escape, collate).fullmatch(text) is not None)


def _like(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: text, pattern, escape."""
    collate = call.extra[0]

    def run(row: Row, env: Any) -> int | None:
        text, pattern, escape = [argument(row, env) for argument in arguments]
        if text is None or pattern is None:
            return None
        if isinstance(text, bytes):
            text, pattern = text.decode("latin-1"), _latin(pattern)
        if len(escape or "") > 1:
            raise Refused(1210, "HY000", "Incorrect arguments to ESCAPE")
        return like(text, pattern, escape or "", collate)

    return run


def _latin(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


# -- regular expressions ---------------------------------------------------------------------------

_CLASSES = {
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:alnum:]": "a-zA-Z0-9",
    "[:space:]": r"\s",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
    "[:punct:]": r"!-/:-@\[-`{-~",
    "[:xdigit:]": "0-9a-fA-F",
    "[:blank:]": r" \t",
    "[:cntrl:]": r"\x00-\x1f\x7f",
    "[:print:]": r"\x20-\x7e",
    "[:graph:]": r"\x21-\x7e",
}
_FLAGS = {"i": re.I, "m": re.M, "n": re.S}


@lru_cache(maxsize=1024)
def regular_expression(pattern: str, collate: str, options: str = "") -> "re.Pattern[str]":
    """The compiled pattern. Refused 1139 for what is none."""
    translated = pattern.replace("[[:<:]]", r"\b(?=\w)").replace("[[:>:]]", r"\b(?<=\w)")
    for name, signs in _CLASSES.items():
        translated = translated.replace(name, signs)
    flags = re.I if collation(collate).fold is not None else re.RegexFlag(0)
    for option in options:
        if option == "c":
            flags &= ~re.I
        else:
            flags |= _FLAGS.get(option, re.RegexFlag(0))
    if not pattern:
        raise Refused(3685, "HY000", "Illegal argument to a regular expression.")
    try:
        return re.compile(translated, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise Refused(1139, "42000", f"Got error '{error}' from regexp") from error


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value.decode("latin-1"))


def _regexp(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: text, pattern [, options]."""
    collate = call.extra[0]

    def run(row: Row, env: Any) -> int | None:
        values = [argument(row, env) for argument in arguments]
        if None in values:
            return None
        options = values[2] if len(values) > 2 else ""
        found = regular_expression(_text(values[1]), collate, options).search(_text(values[0]))
        return int(found is not None)

    return run


def _occurrence(pattern: "re.Pattern[str]", text: str, start: int, nth: int) -> Any:
    if start < 1 or start > len(text) + 1:
        raise Refused(3686, "HY000", "Index out of bounds in regular expression search.")
    for n, found in enumerate(pattern.finditer(text, start - 1), 1):
        if n == max(1, nth):
            return found
    return None


def _regexp_instr(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: text, pattern, start, occurrence, which end, options."""

    def run(values: list[Any]) -> int:
        text, pattern, start, nth, end, options = _padded(values, 1, 1, 0, "")
        compiled = regular_expression(pattern, call.extra[0], options)
        found = _occurrence(compiled, text, start, nth)
        return 0 if found is None else (found.end() if end else found.start()) + 1

    return _strict(run, arguments)


def _regexp_substr(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: text, pattern, start, occurrence, options."""

    def run(values: list[Any]) -> str | None:
        text, pattern, start, nth, options = _padded(values, 1, 1, "")
        compiled = regular_expression(pattern, call.extra[0], options)
        found = _occurrence(compiled, text, start, nth)
        return None if found is None else str(found.group())

    return _strict(run, arguments)


def _regexp_replace(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: text, pattern, replacement, start, occurrence, options."""

    def run(values: list[Any]) -> str:
        text, pattern, new, start, nth, options = _padded(values, 1, 0, "", given=3)
        compiled = regular_expression(pattern, call.extra[0], options)
        template = re.sub(r"\$(\d)", r"\\\1", new)
        head, tail = str(text[: start - 1]), str(text[start - 1 :])
        if nth == 0:
            _check_growth(compiled, tail, new)
            return head + compiled.sub(template, tail)
        found = _occurrence(compiled, text, start, nth)
        if found is None:
            return str(text)
        return str(text[: found.start()] + found.expand(template) + text[found.end() :])

    return _strict(run, arguments)


def _check_growth(compiled: re.Pattern[str], text: str, new: str) -> None:
    """Raises 1301 where all replacements together are more than the longest packet."""
    if (len(text) + 1) * len(new) > limits.PACKET_BYTES:
        length = len(text) + len(new) * sum(1 for _ in compiled.finditer(text))
        if length > 16 * limits.PACKET_BYTES:
            raise refuse(1301, "regexp_replace", limits.PACKET_BYTES)


def _padded(values: list[Any], *defaults: Any, given: int = 2) -> list[Any]:
    texts = [_text(value) for value in values[:given]]
    rest = [*values[given:], *defaults[len(values) - given :]]
    if len(values) > given + len(defaults):
        raise refuse(1582, "regexp")
    return [*texts, *rest]


def _strict(run: Callable[[list[Any]], Any], arguments: list[Compiled]) -> Compiled:
    def apply(row: Row, env: Any) -> Any:
        values = [argument(row, env) for argument in arguments]
        return None if None in values else run(values)

    return apply


OPERATORS = {
    "like": _like,
    "regexp": _regexp,
    "regexp_like": _regexp,
    "regexp_instr": _regexp_instr,
    "regexp_substr": _regexp_substr,
    "regexp_replace": _regexp_replace,
}
