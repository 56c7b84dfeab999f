"""The compressed protocol, for clients that ask for it (source: MySQL protocol, "Compression").

    [u24 length][u8 sequence][u24 length before]  deflated bytes of the ordinary stream
                                                  0: as they are, it was not worth it

It lies between the socket and the packets and knows nothing of them. A length is believed no
further than the three bytes say: 16 MiB. It begins right after the login was answered.
"""

import asyncio
import zlib
from struct import Struct
from typing import Any

from exuvia.base.mysql_errors import ErrNetUncompress

HEADER_BYTES = 7
LEAST_BYTES = 150  # below that deflating costs more than it saves
MOST_BYTES = (1 << 24) - 1
LEVEL = 1
_HEADER = Struct("<IBH")


def _header(length: int, sequence: int, before: int) -> bytes:
    return _HEADER.pack(length | sequence << 24, before & 255, before >> 8)


class Compressed(asyncio.Transport):
    """A transport on top of another. `feed` gives back what the client's bytes stand for."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._buffer = bytearray()
        self._sequence = 0

    def feed(self, data: bytes) -> bytes:
        """The ordinary stream. Raises 1157 for what cannot be inflated."""
        buffer = self._buffer
        buffer += data
        found = bytearray()
        while len(buffer) >= HEADER_BYTES:
            head, low, high = _HEADER.unpack_from(buffer)
            length, before = head & MOST_BYTES, low | high << 8
            if len(buffer) < HEADER_BYTES + length:
                break
            part = bytes(memoryview(buffer)[HEADER_BYTES : HEADER_BYTES + length])
            del buffer[: HEADER_BYTES + length]
            self._sequence = (head >> 24) + 1 & 255
            found += _inflated(part, before) if before else part
        return bytes(found)

    def write(self, data: Any) -> None:
        """Send, deflated where that is worth it."""
        for start in range(0, len(data), MOST_BYTES):
            part = bytes(memoryview(data)[start : start + MOST_BYTES])
            before = 0
            if len(part) >= LEAST_BYTES:
                deflated = zlib.compress(part, LEVEL)
                if len(deflated) < len(part):
                    part, before = deflated, len(part)
            self._transport.write(_header(len(part), self._sequence, before) + part)
            self._sequence = self._sequence + 1 & 255

    def close(self) -> None:
        """As below it."""
        self._transport.close()

    def abort(self) -> None:
        """As below it."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """As below it."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """As below it."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """As below it."""
        self._transport.resume_reading()


def _inflated(part: bytes, before: int) -> bytes:
    inflate = zlib.decompressobj()
    try:
        found = inflate.decompress(part, before + 1)
    except zlib.error:
        raise ErrNetUncompress() from None
    if len(found) != before or not inflate.eof:
        raise ErrNetUncompress()
    return found
