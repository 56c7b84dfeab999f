r"""Lines of a text file become fields, a chunk at a time.

    bytes --feed--> buffer --record--> [b"1", b"it's", None]       None is NULL
                                       incomplete: wait for more

A record is read only when its end is in the buffer, so a field may contain line ends inside quotes.
Escapes and NULL follow MySQL (manual, "LOAD DATA Statement"): NULL is \N, and the bare word NULL
where fields are enclosed. With `nulls`, only these texts are NULL. A record of more than MOST_BYTES
is 1153.

An incomplete record is tried again when the buffer has twice its size. So the time is linear in the
size of the file, however small the chunks and however long the lines are.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from exuvia.base.mysql_errors import ErrNetPacketTooLarge, ErrNotSupportedYet


class LineFormat(Protocol):
    """The ends of lines and fields, and the quotes around fields."""

    @property
    def terminated(self) -> str: ...
    @property
    def enclosed(self) -> str: ...
    @property
    def escaped(self) -> str: ...
    @property
    def starting(self) -> str: ...
    @property
    def lines(self) -> str: ...


MOST_BYTES = 64 << 20
MOST_FIELDS = 1 << 16
"""Further fields of a record are dropped: no table has that many columns."""
Fields = list[bytes | None]
_MEANINGS = {b"0": b"\0", b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a"}


class Lines:
    """One file. `read(chunks)` gives its records."""

    def __init__(
        self,
        form: LineFormat,
        codec: str,
        skipped: int,
        nulls: frozenset[bytes] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        if not form.terminated or not form.lines:
            raise ErrNotSupportedYet("LOAD DATA with fields of fixed size")
        self._field_end, self._line_end = form.terminated.encode(codec), form.lines.encode(codec)
        self._start, self._quote = form.starting.encode(codec), form.enclosed.encode(codec)
        self._escape = form.escaped.encode(codec)
        self._skipped = skipped
        self._nulls = nulls
        self._check = check  # called now and then, may raise
        self._dropped = self._began = self._enough = 0
        self._buffer = bytearray()
        self._at = 0
        ends = b"|".join(re.escape(end) for end in (self._field_end, self._line_end))
        escape = re.escape(self._escape)
        escaped = escape + b"." if escape else b"(?!)"
        last = b"(" + ends + rb"|\Z)"
        first = b"".join({re.escape(end[:1]) for end in (self._field_end, self._line_end)})
        quick = b"[^" + first + escape + b"]++|" if len(escape) <= 2 else b""
        other = b"[^" + escape + b"]" if escape else b"."
        plain = b"((?:" + quick + escaped + b"|(?!" + ends + b")" + other + b")*+)"
        self._plain = re.compile(plain + last, re.DOTALL)
        quote = re.escape(self._quote)
        body = b"((?:[^" + quote + escape + b"]++|" + escaped + b"|" + quote + quote + b")*+)"
        self._quoted = re.compile(quote + body + quote + last, re.DOTALL) if quote else None
        self._sub = re.compile(escape + b"(.)", re.DOTALL) if escape else None

    @property
    def taken(self) -> int:
        """Bytes of all records that were returned."""
        return self._dropped + self._at

    @property
    def last(self) -> int:
        """Bytes of the last record."""
        return self._at - self._began

    @property
    def rest(self) -> bytes:
        """The bytes after the last record."""
        return bytes(self._buffer[self._at :])

    def read(self, chunks: Iterable[bytes]) -> Iterator[Fields]:
        """Every record; what follows the last line end is one too, unless it is empty."""
        for chunk in chunks:
            self._dropped += self._at
            del self._buffer[: self._at]
            self._at = 0
            self._buffer += chunk
            if len(self._buffer) > MOST_BYTES + len(chunk):
                raise ErrNetPacketTooLarge()
            if len(self._buffer) < self._enough:
                continue
            yield from self._records(False)
            self._enough = 2 * (len(self._buffer) - self._at)
        yield from self._records(True)

    def _records(self, ended: bool) -> Iterator[Fields]:
        while self._at < len(self._buffer) and self._begin():
            self._began = self._at
            fields = self._record(ended)
            if fields is None:
                return
            yield fields

    def _begin(self) -> bool:
        """Pass over what is ignored; whether a record begins here."""
        while self._skipped:
            end = self._buffer.find(self._line_end, self._at)
            if end < 0:
                return False
            self._at = end + len(self._line_end)
            self._skipped -= 1
        while self._start:
            end = self._buffer.find(self._line_end, self._at)
            behind = len(self._buffer) if end < 0 else end + len(self._start) - 1
            if self._buffer.find(self._start, self._at, behind) >= 0:
                return True
            if end < 0:
                return False
            self._at = end + len(self._line_end)
        return self._at < len(self._buffer)

    def _record(self, ended: bool) -> Fields | None:
        buffer, at = self._buffer, self._at
        if self._start:
            at = buffer.find(self._start, at) + len(self._start)
        fields: Fields = []
        while True:
            if len(fields) >= MOST_FIELDS:
                fields.pop()
                self._check()
            is_quoted = self._quoted is not None and buffer.startswith(self._quote, at)
            match = self._quoted.match(buffer, at) if is_quoted and self._quoted else None
            if match is None:
                if is_quoted and not ended:
                    return None
                match, is_quoted = self._plain.match(buffer, at), False
            if match is None:  # a lone escape at the end of what is here
                if not ended:
                    return None
                fields.append(bytes(buffer[at:]))
                self._at = len(buffer)
                return fields
            end = match.group(2)
            if not end and not ended:
                return None
            fields.append(self._value(match.group(1), is_quoted))
            at = match.end()
            if end != self._field_end:
                self._at = at
                return fields

    def _value(self, raw: bytes, is_quoted: bool) -> bytes | None:
        raw = bytes(raw)
        if not is_quoted and self._nulls is not None:
            if raw in self._nulls:
                return None
        elif not is_quoted:
            if self._escape and raw == self._escape + b"N":
                return None
            if self._quote and raw == b"NULL":
                return None
        elif self._quote in raw:
            raw = raw.replace(self._quote * 2, self._quote)
        if self._sub is None or self._escape not in raw:
            return raw
        return self._sub.sub(lambda m: _MEANINGS.get(m.group(1), m.group(1)), raw)
