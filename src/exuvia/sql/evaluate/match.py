"""LIKE and the REGEXP functions, by collation (manual, "String Comparison Functions", "Regular
Expressions"; TiDB where they differ). The algorithms are in sql/matching.py.

LIKE compares character by character, so trailing spaces count. Positions of the REGEXP functions
are in characters of a text, or in bytes. A search from a position ignores the text before it."""

from collections.abc import Callable
from itertools import islice

from exuvia.base.long_text import encoded
from exuvia.base.mysql_errors import ErrRegexp, ErrWrongArguments, ErrWrongParamcountToNativeFct
from exuvia.base.types import Value
from exuvia.sql.env import Compiled, Env, Row
from exuvia.sql.expr import Call
from exuvia.sql.functions.table import exceeds
from exuvia.sql.matching import Expression, characters, data_of, expression, like_matcher

_RETURN_OPTION = "Incorrect arguments to regexp_instr: return_option must be 1 or 0"


def _like(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: text, pattern, escape."""
    collate = call.extra[0]

    def run(row: Row, env: Env) -> int | None:
        text, pattern, escape = [argument(row, env) for argument in arguments]
        if text is None or pattern is None:
            return None
        if isinstance(text, bytes):
            text, pattern = text.decode("latin-1"), _latin(pattern)
        if len(escape or "") > 1:
            raise ErrWrongArguments("ESCAPE")
        return int(like_matcher(pattern, escape or "", collate)(text))

    return run


def _latin(value: Value) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


# -- regular expressions ---------------------------------------------------------------------------


class _Search:
    """An expression, and the part of the text from the 1-based `start` on."""

    def __init__(self, call: Call, text: Value, pattern: Value, start: int, options: str) -> None:
        self.is_binary = isinstance(text, bytes) or isinstance(pattern, bytes)
        if self.is_binary:
            text, pattern = _bytes(text), _bytes(pattern)
        self.expression: Expression = expression(
            pattern, call.extra[0], options, is_binary=self.is_binary
        )
        if start < 1 or (start > len(text) and (text or start > 1)):
            raise ErrRegexp("Index out of bounds in regular expression search")
        self.head = text[: start - 1]
        self.data = data_of(text[start - 1 :] if start > 1 else text)

    def run_bounded(self, run: Callable[[], Value]) -> Value:
        """Calls `run`, which reads the text at most once."""
        return self.expression.run_bounded(run, len(self.data))

    def nth(self, nth: int) -> Value:
        """The nth match, or None."""
        matches = self.expression.find_all(self.data)
        return self.run_bounded(lambda: next(islice(matches, max(1, nth) - 1, None), None))

    def text(self, data: bytes) -> str:
        """Bytes of the data as text."""
        if self.is_binary:
            return data.decode("latin-1")
        return data.decode("utf-8", "surrogatepass")

    def position(self, at: int) -> int:
        """The 1-based position in the text of an offset in the data."""
        return len(self.head) + characters(self.data[:at], self.is_binary) + 1


def _bytes(value: Value) -> bytes:
    return value if isinstance(value, bytes) else encoded(str(value), errors="surrogatepass")


def _regexp(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: text, pattern [, options]."""

    def run(values: list[Value], env: Env) -> int:
        text, pattern, options = _padded(values, "")
        search = _Search(call, text, pattern, 1, options)
        return int(search.expression.matches(search.data))

    return _strict(run, arguments)


def _regexp_instr(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: text, pattern, start, occurrence, which end, options."""

    def run(values: list[Value], env: Env) -> int:
        text, pattern, start, nth, end, options = _padded(values, 1, 1, 0, "")
        if end not in (0, 1):
            raise ErrRegexp(_RETURN_OPTION)
        search = _Search(call, text, pattern, start, options)
        match = search.nth(nth)
        return 0 if match is None else search.position(match.end() if end else match.start())

    return _strict(run, arguments)


def _regexp_substr(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: text, pattern, start, occurrence, options."""

    def run(values: list[Value], env: Env) -> str | None:
        text, pattern, start, nth, options = _padded(values, 1, 1, "")
        search = _Search(call, text, pattern, start, options)
        match = search.nth(nth)
        return None if match is None else search.text(match.group())

    return _strict(run, arguments)


def _regexp_replace(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: text, pattern, replacement, start, occurrence, options."""

    def run(values: list[Value], env: Env) -> str | None:
        text, pattern, new, start, nth, options = _padded(values, 1, 0, "", fixed=3)
        search = _Search(call, text, pattern, start, options)
        new_text = search.run_bounded(lambda: _replaced(search, _template(new, search), nth, env))
        if new_text is None:
            return None
        return (
            search.text(new_text)
            if not search.head
            else search.text(_bytes(search.head) + new_text)
        )

    return _strict(run, arguments)


def _replaced(search: _Search, template: list[bytes | int], nth: int, env: Env) -> bytes | None:
    """The data with one or all (0) occurrences replaced; None and 1301 if it becomes too long."""
    data, new_data, at = search.data, bytearray(), 0
    matches = search.expression.find_all(data)
    for match in matches if nth < 1 else islice(matches, nth - 1, nth):
        new_data += data[at : match.start()]
        for part in template:
            new_data += part if isinstance(part, bytes) else match.group(part) or b""
        at = match.end()
        if len(new_data) > len(data) and exceeds("regexp_replace", len(new_data), env):
            return None
    return bytes(new_data + data[at:])


def _template(new: Value, search: _Search) -> list[bytes | int]:
    r"""A replacement as literals and numbers of groups: \1 (TiDB) or $1 (MySQL). Raises 1139."""
    parts: list[bytes | int] = []
    data, literal, at = _bytes(new), bytearray(), 0
    while at < len(data):
        sign, following = data[at : at + 1], data[at + 1 : at + 2]
        at += 1
        if sign in (b"\\", b"$") and following.isdigit():
            if int(following) > search.expression.groups:
                raise ErrRegexp("Substitution number is out of range")
            parts += [bytes(literal), int(following)]
            literal = bytearray()
            at += 1
        elif sign == b"\\" and following:
            literal += following
            at += 1
        else:
            literal += sign
    return [*parts, bytes(literal)]


def _padded(values: list[Value], *defaults: Value, fixed: int = 2) -> list[Value]:
    rest = [*values[fixed:], *defaults[len(values) - fixed :]]
    if len(values) > fixed + len(defaults):
        raise ErrWrongParamcountToNativeFct("regexp")
    return [*values[:fixed], *rest]


def _strict(run: Callable[[list[Value], Value], Value], arguments: list[Compiled]) -> Compiled:
    def apply(row: Row, env: Env) -> Value:
        values = [argument(row, env) for argument in arguments]
        return None if None in values else run(values, env)

    return apply


OPERATORS = {
    "like": _like,
    "regexp": _regexp,
    "regexp_like": _regexp,
    "regexp_instr": _regexp_instr,
    "regexp_substr": _regexp_substr,
    "regexp_replace": _regexp_replace,
}
