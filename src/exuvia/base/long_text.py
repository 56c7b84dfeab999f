"""Long texts and bytes are made in pieces.

A call into C that makes a text of 64 MB holds the interpreter's lock for 30 ms on warm memory. On
new memory, where each page costs a fault, it takes 100 to 300 ms. Meanwhile other threads wait, and
KILL has no effect. So a value of more than SHORT is made here:

    place      memory of the whole value (PyUnicode_New, PyBytes_FromStringAndSize), not yet touched
    pieces     are copied to it, PIECE characters at a time; before each the statement may be ended
               and other threads run
    turn       by one thread at a time from LONG on (base/interruption.py)

Each function returns what the Python expression in its docstring does. Raises what ends the
statement, and WouldWait on the thread that serves clients.
"""

import codecs
import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from ctypes import c_char, c_char_p, c_ssize_t, c_uint32, c_void_p, py_object
from itertools import repeat
from sys import getsizeof
from typing import Any, AnyStr

from exuvia.base.interruption import PIECE, check, in_pieces, taking_turns

SHORT = 1 << 18
LONG = 1 << 20
Span = tuple[Any, int, int]
"""A part of a source: source, start, end."""


def _api(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, arguments
    return function


# source: Python/C API Reference Manual, "Unicode Objects", "Bytes Objects". A new object is written
# to by its address: it must have one reference.
_new_text = _api("PyUnicode_New", c_void_p, c_ssize_t, c_uint32)
_new_bytes = _api("PyBytes_FromStringAndSize", c_void_p, c_char_p, c_ssize_t)
_address = _api("PyBytes_AsString", c_void_p, c_void_p)
_copy = _api(
    "PyUnicode_CopyCharacters", c_ssize_t, c_void_p, c_ssize_t, py_object, c_ssize_t, c_ssize_t
)
_release = _api("Py_DecRef", None, c_void_p)
_HEADER = getsizeof("\xe9") - 2
_ASCII = 0x7F
_MOST_SIGN = {1: 0xFF, 2: 0xFFFF, 4: 0x10FFFF}  # by bytes of a sign


# -- making a value --------------------------------------------------------------------------------


def _assembled(size: int, spans: Iterable[Span], kind: type[AnyStr], widest: int) -> AnyStr:
    """A value of `size` signs (`widest`: the largest code that the spans have) or bytes."""
    place = _new_text(size, widest) if kind is str else _new_bytes(None, size)
    try:
        target = None
        if kind is bytes:
            target = memoryview((c_char * size).from_address(_address(place))).cast("B")
        at = 0
        with taking_turns() if size > LONG else nullcontext():
            for source, start, end in spans:
                while start < end:
                    check()
                    count = min(PIECE, end - start)
                    if target is None:
                        _copy(place, at, source, start, count)
                    else:
                        target[at : at + count] = memoryview(source)[start : start + count]
                    at, start = at + count, start + count
        value: AnyStr = ctypes.cast(place, py_object).value
        return value
    finally:
        _release(place)


def _widest(source: str, start: int, end: int) -> int:
    """The largest code that a part of a text can have: that of the narrowest form it fits in."""
    if source.isascii():
        return _ASCII
    widest = _ASCII
    for at in range(start, end, PIECE):
        piece = source[at : min(at + PIECE, end)]
        if piece.isascii():
            continue
        if len(piece) == 1:  # the interpreter has one object of each, perhaps with a copy in UTF-8
            width = next(width for width, most in _MOST_SIGN.items() if ord(piece) <= most)
        else:  # a new piece is a header, its signs and a zero, without a copy in UTF-8
            piece = piece if len(piece) < len(source) else piece[:-1] + piece[-1:]
            width = (getsizeof(piece) - _HEADER) // (len(piece) + 1)
        widest = max(widest, _MOST_SIGN[width])
        if widest == _MOST_SIGN[4]:
            break
    return widest


def of_spans(spans: Sequence[Span], kind: type[AnyStr]) -> AnyStr:
    """The parts of several texts, or of bytes, one after the other."""
    size = sum([end - start for _, start, end in spans])
    widest = 0
    if kind is str:
        widest = max([_widest(*span) for span in spans], default=_ASCII)
    return _assembled(size, spans, kind, widest)


# -- what is made of values ------------------------------------------------------------------------


def joined(separator: AnyStr, parts: Sequence[Any]) -> AnyStr:
    """separator.join(parts)"""
    size = sum(map(len, parts)) + len(separator) * max(0, len(parts) - 1)
    if size <= SHORT:
        return separator.join(parts)
    if separator:
        between = [separator] * (2 * len(parts) - 1)
        between[::2] = parts
        parts = between
    if len(parts) == 1:
        only: AnyStr = parts[0]
        return only
    return of_spans([(part, 0, len(part)) for part in parts], type(separator))


def repeated(text: AnyStr, count: int) -> AnyStr:
    """text * count"""
    size = len(text) * count
    if size <= SHORT or count == 1:
        return text * count
    block = text * max(1, PIECE // len(text))
    whole, rest = divmod(size, len(block))
    spans = [(block, 0, len(block))] * min(whole, 1) + [(block, 0, rest)]
    widest = max(_widest(*span) for span in spans) if isinstance(text, str) else 0

    def pieces() -> Iterator[Span]:
        yield from repeat((block, 0, len(block)), whole)
        yield block, 0, rest

    return _assembled(size, pieces(), type(text), widest)


def part_of(text: AnyStr, start: int | None = None, end: int | None = None) -> AnyStr:
    """text[start:end]"""
    begin, stop, _ = slice(start, end).indices(len(text))
    if stop - begin <= SHORT or stop - begin == len(text):
        return text[begin:stop]
    return of_spans([(text, begin, stop)], type(text))


def mapped(text: AnyStr, change: Callable[[AnyStr], AnyStr]) -> AnyStr:
    """change(text), for a change that is that of its pieces joined"""
    return change(text) if len(text) <= SHORT else joined(text[:0], in_pieces(text, change))


def reversed_text(text: AnyStr) -> AnyStr:
    """text[::-1]"""
    if len(text) <= SHORT:
        return text[::-1]
    return joined(text[:0], in_pieces(text, lambda piece: piece[::-1])[::-1])


_BORDERED = 64  # longer marks are taken for bordered ones


def _between(text: AnyStr, mark: AnyStr) -> Iterator[AnyStr]:
    """The pieces of a text. No occurrence of the mark crosses the bounds of a piece."""
    size, at = len(mark), 0
    window = max(PIECE, size)
    # whether occurrences may overlap: the last one found from the right is another one then
    bordered = size > _BORDERED or any(mark.startswith(mark[n:]) for n in range(1, size))
    while len(text) - at > window + size:
        check()
        end = at + window
        if size > 1:  # a mark that begins in this window may end after it
            piece = text[at : end + size - 1]
            tail = len(piece.split(mark)[-1]) if bordered else 0
            last = len(piece) - tail if bordered else piece.rfind(mark) + size
            end = max(end, at + last)
        yield text[at:end]
        at = end
    yield text[at:]


def replaced(text: AnyStr, old: AnyStr, new: AnyStr) -> AnyStr:
    """text.replace(old, new), for an `old` that is not empty"""
    if len(text) <= SHORT:
        return text.replace(old, new)
    with taking_turns() if len(text) > LONG else nullcontext():
        return joined(text[:0], [piece.replace(old, new) for piece in _between(text, old)])


def count_of(text: AnyStr, part: AnyStr) -> int:
    """text.count(part), for a part that is not empty"""
    if len(text) <= SHORT:
        return text.count(part)
    with taking_turns() if len(text) > LONG else nullcontext():
        return sum([piece.count(part) for piece in _between(text, part)])


# -- encodings -------------------------------------------------------------------------------------


def encoded(text: str, codec: str = "utf-8", errors: str = "strict") -> bytes:
    """text.encode(codec, errors), for a codec without states"""
    if len(text) <= SHORT:
        return text.encode(codec, errors)
    return joined(b"", in_pieces(text, lambda piece: piece.encode(codec, errors)))


def encoded_size(text: str, codec: str = "utf-8", errors: str = "strict") -> int:
    """len(text.encode(codec, errors)), for a codec without states"""
    if text.isascii() and codec in ASCII_BASED:
        return len(text)
    return sum(in_pieces(text, lambda piece: len(piece.encode(codec, errors))))


ASCII_BASED = frozenset(("utf-8", "utf8", "ascii", "latin1", "gbk", "gb18030"))


def decoded(data: bytes, codec: str = "utf-8", errors: str = "strict") -> str:
    """data.decode(codec, errors)"""
    if len(data) <= SHORT:
        return data.decode(codec, errors)
    return joined("", list(decoded_pieces([data], codec, errors)))


def decoded_pieces(parts: Iterable[bytes], codec: str, errors: str) -> Iterator[str]:
    """The pieces of b"".join(parts).decode(codec, errors)"""
    decoder = codecs.lookup(codec).incrementaldecoder
    if decoder is None:  # one of a byte for each sign
        for part in parts:
            yield from in_pieces(part, lambda piece: piece.decode(codec, errors))
        return
    decode = decoder(errors).decode
    for part in parts:
        yield from in_pieces(part, decode)
    yield decode(b"", True)


def drained(parts: list[Any]) -> Iterator[Any]:
    """The items of a list, which is emptied meanwhile."""
    parts.reverse()
    while parts:
        yield parts.pop()
