"""Texts against patterns: LIKE and regular expressions. One of each, for every place that has them.

Both take time in proportion to the text, whatever the pattern. A pattern that somebody chose to be
slow must not be: a front is one process, and a matcher that backtracks holds its interpreter.

    LIKE     a pattern is segments between %; the first and the last are held to the ends, each of
             the others is found from where the one before it ended: the leftmost place is as good
             as any. `_` at the ends of a segment only moves it. A segment with `_` inside is for
             RE2, as is every regular expression
    RE2      the syntax of Google's RE2 and of Go's regexp, which is TiDB's: no back-references, no
             look-around; 1139 says what is wrong. It lets go of the interpreter's lock

A match is done where it stands if text x program is small. If it is larger another thread does it
(base/interruption.py), beyond MOST_COST it is refused (3699): RE2 takes text x program at worst.
Letters are compared as the collation folds them, character by character in LIKE, by (?i) in
regular expressions; bytes as bytes.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import re2

from exuvia.base import interruption
from exuvia.base.errors import Refused
from exuvia.base.long_text import joined
from exuvia.base.mysql_errors import ErrRegexp, ErrRegexpTimeOut
from exuvia.catalog.collation import collation

PATTERN_BYTES = 1 << 14
PROGRAM_BYTES = 4 << 20
DEEPEST = 1000
QUICK_COST = 20_000_000
MOST_COST = 20_000_000_000
_WINDOW = 1 << 22
_LOOK_EVERY = 1024
Matcher = Callable[[str], bool]


# -- LIKE ------------------------------------------------------------------------------------------


class _Segment(NamedTuple):
    """What stands between two %: `before` and `after` count the `_` around `text`.

    `inner` are the places of further `_` inside `text`."""

    text: str
    before: int
    after: int
    inner: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.before + len(self.text) + self.after

    def is_at(self, text: str, at: int) -> bool:
        """Whether it stands there."""
        if at < 0 or at + self.size > len(text):
            return False
        start = at + self.before
        if not self.inner:
            return text.startswith(self.text, start)
        places, begin = (*self.inner, len(self.text)), 0
        for place in places:
            if not text.startswith(self.text[begin:place], start + begin):
                return False
            begin = place + 1
        return True

    def find(self, text: str, at: int, end: int) -> int:
        """The first place at or after `at` where it stands and is over by `end`; -1: none."""
        low, high = at + self.before, end - self.after
        size = len(self.text)
        while low + size <= high:  # a piece at a time: a search in C holds the interpreter
            found = text.find(self.text, low, min(high, low + size + _WINDOW))
            if found >= 0:
                return found - self.before
            interruption.check()
            low += _WINDOW + 1
        return -1


def _tokens(pattern: str, escape: str) -> Iterator[tuple[str, bool]]:
    """(character, whether it is a wildcard)."""
    signs = iter(pattern)
    for sign in signs:
        if sign == escape:
            yield next(signs, escape), False
        else:
            yield sign, sign in "%_"


def _segments(pattern: str, escape: str, fold: Callable[[str], str]) -> list[_Segment]:
    segments: list[_Segment] = []
    signs: list[str] = []
    wild: list[int] = []

    def end() -> None:
        first = next((n for n in range(len(signs)) if n not in places), len(signs))
        last = next((n for n in range(len(signs), first, -1) if n - 1 not in places), first)
        inner = tuple(n - first for n in wild if first <= n < last)
        text = "".join(signs[first:last])
        segments.append(_Segment(text, first, len(signs) - last, inner))

    for sign, is_wild in _tokens(pattern, escape):
        if is_wild and sign == "%":
            places = set(wild)
            end()
            signs, wild = [], []
            continue
        if is_wild:
            wild.append(len(signs))
        signs.append("_" if is_wild else fold(sign))
    places = set(wild)
    end()
    return segments


@lru_cache(maxsize=1024)
def like_matcher(pattern: str, escape: str = "\\", collate: str = "utf8mb4_bin") -> Matcher:
    """Whether a text is LIKE the pattern. `escape` "" is none. Raises 1139: too many `_`."""
    rules = collation(collate)
    segments = _segments(pattern, escape, rules.fold_each)
    if any(each.inner for each in segments[1:-1]):
        inside = _like_expression(segments)
        return lambda text: inside.matches(rules.fold_each(text))
    if len(segments) == 1:
        only = segments[0]
        return lambda text: len(text) == only.size and only.is_at(rules.fold_each(text), 0)
    first, *middle, last = segments
    least = first.size + last.size

    def matches(text: str) -> bool:
        if len(text) < least:
            return False
        text = rules.fold_each(text)
        end = len(text) - last.size
        if not first.is_at(text, 0) or not last.is_at(text, end):
            return False
        at = first.size
        for each in middle:
            at = each.find(text, at, end)
            if at < 0:
                return False
            at += each.size
        return True

    return matches


_PLAIN = re2.compile(r"(?s)(?:[^\\%_]|\\.)*")
_ESCAPED = re2.compile(r"(?s)\\(.)")


def only_text(pattern: str) -> str | None:
    """The one text that is LIKE a pattern without wildcards; None of other patterns."""
    return _ESCAPED.sub(r"\1", pattern) if _PLAIN.fullmatch(pattern) else None


def name_matcher(pattern: str) -> Matcher:
    """LIKE over names, of databases, hosts, variables: case does not count, accents do."""
    matches = like_matcher(pattern.lower())
    return lambda text: matches(text.lower())


def _like_expression(segments: list[_Segment]) -> "Expression":
    """LIKE as a regular expression over the whole text."""
    parts = []
    for each in segments:
        begin, found = 0, "." * each.before
        for place in (*each.inner, len(each.text)):
            found += re2.escape(each.text[begin:place]) + "." * (place < len(each.text))
            begin = place + 1
        parts.append(found + "." * each.after)
    return _compiled(r"(?s)\A" + ".*".join(parts) + r"\z", False)


# -- regular expressions ---------------------------------------------------------------------------


def _wrong(what: str) -> Refused:
    return ErrRegexp(what)


class Expression:
    """A compiled expression. It sees UTF-8, or bytes where it `is_binary`; spans are in those."""

    __slots__ = ("_compiled", "_cost", "is_binary")

    def __init__(self, compiled: Any, is_binary: bool) -> None:
        self._compiled = compiled
        self._cost = compiled.programsize + compiled.reverseprogramsize
        self.is_binary = is_binary

    @property
    def groups(self) -> int:
        """How many groups it has."""
        return int(self._compiled.groups)

    def matches(self, text: str | bytes) -> bool:
        """Whether it is found in the text."""
        data = _data(text)
        return self.doing(lambda: self._compiled.search(data), len(data)) is not None

    def found(self, data: bytes) -> Iterator[Any]:
        """Its matches from left to right, none of which overlap."""
        at = count = 0
        while at <= len(data):
            match = self._compiled.search(data, at)
            if match is None:
                return
            yield match
            at = match.end()
            if match.start() == at:
                at += 1
                while not self.is_binary and at < len(data) and data[at] & 0xC0 == 0x80:
                    at += 1
            count += 1
            if not count % _LOOK_EVERY:
                interruption.check()

    def doing(self, run: Callable[[], Any], size: int) -> Any:
        """`run`, which looks at so many bytes; see the module. Raises 3699."""
        cost = size * self._cost
        if cost <= QUICK_COST:
            return run()
        if cost > MOST_COST:
            raise ErrRegexpTimeOut()
        return interruption.apart(run)


def _data(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    return joined(b"", interruption.in_pieces(text, _utf8))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=128)
def _compiled(pattern: str | bytes, is_binary: bool) -> Expression:
    """The expression. Raises 1139 for what is none, and what is too large."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PROGRAM_BYTES
    if is_binary:
        options.encoding = re2.Options.Encoding.LATIN1
    data = _data(pattern)
    if len(data) > PATTERN_BYTES:
        raise _wrong("pattern too large")
    if data.count(b"(") > DEEPEST and _depth(data) > DEEPEST:
        raise _wrong("error parsing regexp: expression nests too deeply")
    try:
        return Expression(re2.compile(data, options), is_binary)
    except re2.error as error:
        # RE2's complaint in Go's words: what is wrong, and the part of the pattern
        raw = error.args[0] if error.args else b""
        said = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
        what, sign, part = said.partition(": ")
        if what == "invalid perl operator":
            what = "invalid or unsupported Perl syntax"
        shown = f"{what}: `{part}`" if sign else what
        raise _wrong(f"error parsing regexp: {shown}") from error


def _depth(data: bytes) -> int:
    deepest = depth = 0
    for sign in data:
        depth += (sign == 0x28) - (sign == 0x29)
        deepest = max(deepest, depth)
    return deepest


@lru_cache(maxsize=1024)
def expression(
    pattern: str | bytes, collate: str, options: str = "", is_binary: bool = False
) -> Expression:
    """The expression of a pattern under match types (c i m n s u; the rightmost of c and i counts).

    Raises 1139."""
    if not pattern:
        raise _wrong("Empty pattern is invalid")
    flags = set() if collation(collate).is_exact else {"i"}
    for option in options:
        if option not in "cimnsu":
            raise _wrong("Invalid match type")
        if option == "c":
            flags.discard("i")
        elif option != "u":  # RE2 ends lines at \n and nowhere else in any case
            flags.add("s" if option == "n" else option)
    head = f"(?{''.join(sorted(flags))})" if flags else ""
    if isinstance(pattern, bytes):
        return _compiled(head.encode() + pattern, is_binary)
    return _compiled(head + pattern, is_binary)


def data_of(text: str | bytes) -> bytes:
    """What an Expression looks at: a text's UTF-8, or the bytes themselves."""
    return _data(text)


def characters(data: bytes, is_binary: bool) -> int:
    """How many characters they are."""
    if is_binary or data.isascii():
        return len(data)
    continued = bytes(range(0x80, 0xC0))
    return sum(interruption.in_pieces(data, lambda piece: len(piece.translate(None, continued))))
