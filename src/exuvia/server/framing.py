"""Packets on a byte stream (source: MySQL client/server protocol, "MySQL Packets").

    [u24 length, little-endian][u8 sequence][payload]
    a payload of 2**24 - 1 bytes or more goes on in the next packet; sequences count in a command

What a peer sends is never trusted: the sequence and the length are judged as soon as the four bytes
are there, so that garbage costs no memory and ends the connection at once.
"""

from collections.abc import Iterator
from struct import Struct

from exuvia.base.mysql_errors import ErrMalformedPacket, ErrNetPacketTooLarge

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
