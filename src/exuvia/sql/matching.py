"""Matching of texts: LIKE and regular expressions, for all callers.

The time is proportional to the text for any pattern. This is a protection against slow patterns: a
front is one process, and a backtracking matcher would not release its interpreter's lock.

    LIKE     a pattern is a list of segments between %. The first and the last segment are matched
             at the ends of the text. Each other segment is searched for after the end of the
             previous one: the leftmost match is always good enough. `_` at the ends of a segment
             only shifts it. A pattern with `_` inside a segment is matched by RE2
    RE2      the syntax of Google's RE2 and of Go's regexp, which is TiDB's: no back-references, no
             look-around; 1139 has the reason. It releases the interpreter's lock

The cost of a match is the size of the text x the size of the program, RE2's worst case. A cheap
match runs in the calling thread, an expensive one in another thread (base/interruption.py). A cost
above MOST_COST is refused (3699).

Characters are folded by the collation, one by one in LIKE, by (?i) in regular expressions. Bytes
are compared as bytes.
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
    """The text between two %; `before` and `after` are the numbers of `_` around `text`.

    `inner` are the places of further `_` inside `text`."""

    text: str
    before: int
    after: int
    inner: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.before + len(self.text) + self.after

    def is_at(self, text: str, at: int) -> bool:
        """Whether the segment matches at this position."""
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
        """The first position from `at` on where the segment matches and ends by `end`, or -1."""
        low, high = at + self.before, end - self.after
        size = len(self.text)
        # in windows: a search in C does not release the interpreter's lock
        while low + size <= high:
            start = text.find(self.text, low, min(high, low + size + _WINDOW))
            if start >= 0:
                return start - self.before
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
    """Returns a matcher of LIKE. An empty `escape` means no escape. Raises 1139: too many `_`."""
    rules = collation(collate)
    segments = _segments(pattern, escape, rules.fold_each)
    if any(segment.inner for segment in segments[1:-1]):
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
        for segment in middle:
            at = segment.find(text, at, end)
            if at < 0:
                return False
            at += segment.size
        return True

    return matches


_PLAIN = re2.compile(r"(?s)(?:[^\\%_]|\\.)*")
_ESCAPED = re2.compile(r"(?s)\\(.)")


def only_text(pattern: str) -> str | None:
    """The only text that matches a pattern without wildcards; None for other patterns."""
    return _ESCAPED.sub(r"\1", pattern) if _PLAIN.fullmatch(pattern) else None


_PREFIX = re2.compile(r"(?s)[^\\%_]*")


def prefix_of(pattern: object) -> str:
    """A text with which every match of a LIKE pattern begins, by the collation. It has no trailing
    spaces, which keys may lack. Empty for a pattern that is no text."""
    if not isinstance(pattern, str):
        return ""
    prefix = _PREFIX.match(pattern)
    return prefix.group().rstrip(" ") if prefix is not None else ""


def name_matcher(pattern: str) -> Matcher:
    """LIKE for names of databases, hosts and variables: ignores case but not accents."""
    matches = like_matcher(pattern.lower())
    return lambda text: matches(text.lower())


def _like_expression(segments: list[_Segment]) -> "Expression":
    """A LIKE pattern as a regular expression for the whole text."""
    parts = []
    for segment in segments:
        begin, regexp = 0, "." * segment.before
        for place in (*segment.inner, len(segment.text)):
            regexp += re2.escape(segment.text[begin:place]) + "." * (place < len(segment.text))
            begin = place + 1
        parts.append(regexp + "." * segment.after)
    return _compiled(r"(?s)\A" + ".*".join(parts) + r"\z", False)


# -- regular expressions ---------------------------------------------------------------------------


def _wrong(what: str) -> Refused:
    return ErrRegexp(what)


class Expression:
    """A compiled expression over UTF-8, or bytes if `is_binary`. Spans are in bytes."""

    __slots__ = ("_compiled", "_cost", "is_binary")

    def __init__(self, compiled: Any, is_binary: bool) -> None:
        self._compiled = compiled
        self._cost = compiled.programsize + compiled.reverseprogramsize
        self.is_binary = is_binary

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self._compiled.groups)

    def matches(self, text: str | bytes) -> bool:
        """Whether the text contains a match."""
        data = _data(text)
        return self.run_bounded(lambda: self._compiled.search(data), len(data)) is not None

    def find_all(self, data: bytes) -> Iterator[Any]:
        """The matches from left to right, without overlaps."""
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

    def run_bounded(self, run: Callable[[], Any], size: int) -> Any:
        """Calls `run`, which reads `size` bytes, in this thread or another. Raises 3699."""
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
    """The compiled expression. Raises 1139 if it is invalid or too large."""
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
        # RE2's error in Go's words: the reason, and the part of the pattern
        raw = error.args[0] if error.args else b""
        message = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
        what, sign, part = message.partition(": ")
        if what == "invalid perl operator":
            what = "invalid or unsupported Perl syntax"
        reason = f"{what}: `{part}`" if sign else what
        raise _wrong(f"error parsing regexp: {reason}") from error


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
        elif option != "u":  # RE2 ends lines only at \n
            flags.add("s" if option == "n" else option)
    head = f"(?{''.join(sorted(flags))})" if flags else ""
    if isinstance(pattern, bytes):
        return _compiled(head.encode() + pattern, is_binary)
    return _compiled(head + pattern, is_binary)


def data_of(text: str | bytes) -> bytes:
    """The bytes that an Expression matches: the UTF-8 of a text, or the bytes themselves."""
    return _data(text)


def characters(data: bytes, is_binary: bool) -> int:
    """The number of characters."""
    if is_binary or data.isascii():
        return len(data)
    continued = bytes(range(0x80, 0xC0))
    return sum(interruption.in_pieces(data, lambda piece: len(piece.translate(None, continued))))
