"""Packets on a byte stream (source: MySQL client/server protocol, "MySQL Packets").

    [u24 length, little-endian][u8 sequence][payload]
    a payload of 2**24 - 1 bytes or more goes on in the next packet; sequences count in a command

What a peer sends is never trusted: the sequence and the length are judged as soon as the four bytes
are there, so that garbage costs no memory and ends the connection at once.

The compressed protocol, for clients that ask for it (source: MySQL protocol, "Compression").

    [u24 length][u8 sequence][u24 length before]  deflated bytes of the ordinary stream
                                                  0: as they are, it was not worth it

It lies between the socket and the packets and knows nothing of them. A length is believed no
further than the three bytes say: 16 MiB. It begins right after the login was answered.
"""

import asyncio
import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Any

from exuvia.base.mysql_errors import ErrMalformedPacket, ErrNetPacketTooLarge, ErrNetUncompress

CONTINUED = 0xFFFFFF
_HEADER = Struct("<I")


class Incoming:
    """Splits what a peer sends into payloads. `most_bytes` bounds one payload."""

    __slots__ = ("_buffer", "_expected", "_parts", "_size", "follows", "most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._size = 0
        self._expected: int | None = None
        self.follows = False

    def expect(self, sequence: int) -> None:
        """The next packet must bear this sequence (an answer inside the handshake)."""
        self._expected = sequence

    def follow(self, sequence: int) -> None:
        """From this sequence on each packet bears the next one (a file), until `end`."""
        self._expected, self.follows = sequence, True

    def end(self) -> None:
        self._expected, self.follows = None, False

    def _next(self, sequence: int) -> int | None:
        return sequence + 1 & 255 if self.follows else None

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Whole payloads with the sequence of their last packet. Raises 1153, 1835."""
        if not self._buffer and not self._parts and len(data) >= 4:
            header = _HEADER.unpack_from(data)[0]
            if header & CONTINUED == len(data) - 4 and header & CONTINUED < CONTINUED:
                self._judge(header)
                self._expected = self._next(header >> 24)
                yield header >> 24, data[4:]
                return
        self._buffer += data
        yield from self._split()

    def _split(self) -> Iterator[tuple[int, bytes]]:
        buffer = self._buffer
        while len(buffer) >= 4:
            header = _HEADER.unpack_from(buffer)[0]
            length = header & CONTINUED
            self._judge(header)
            if len(buffer) < 4 + length:
                return
            self._parts.append(bytes(memoryview(buffer)[4 : 4 + length]))
            del buffer[: 4 + length]
            self._size += length
            if length == CONTINUED:
                self._expected = (header >> 24) + 1 & 255
                continue
            payload = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts, self._size = [], 0
            self._expected = self._next(header >> 24)
            yield header >> 24, payload

    def _judge(self, header: int) -> None:
        if header >> 24 != (self._expected or 0):
            raise ErrMalformedPacket()
        if self._size + (header & CONTINUED) > self.most_bytes:
            raise ErrNetPacketTooLarge()


class Outgoing:
    """Collects framed packets of one answer."""

    __slots__ = ("_buffer", "sequence")

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self._buffer = bytearray()

    def add(self, payload: bytes) -> None:
        size = len(payload)
        if size < CONTINUED:
            self._buffer += _HEADER.pack(size | self.sequence << 24)
            self._buffer += payload
            self.sequence = self.sequence + 1 & 255
            return
        for start in range(0, size + 1, CONTINUED):
            part = payload[start : start + CONTINUED]
            self._buffer += _HEADER.pack(len(part) | self.sequence << 24)
            self._buffer += part
            self.sequence = self.sequence + 1 & 255

    def __len__(self) -> int:
        return len(self._buffer)

    def take(self) -> bytearray:
        """What was framed since the last call."""
        taken, self._buffer = self._buffer, bytearray()
        return taken


# -- compression -----------------------------------------------------------------------------------

HEADER_BYTES = 7
LEAST_BYTES = 150  # below that deflating costs more than it saves
MOST_BYTES = (1 << 24) - 1
LEVEL = 1
_COMPRESSED_HEADER = Struct("<IBH")


def _header(length: int, sequence: int, before: int) -> bytes:
    return _COMPRESSED_HEADER.pack(length | sequence << 24, before & 255, before >> 8)


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
            head, low, high = _COMPRESSED_HEADER.unpack_from(buffer)
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
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
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
