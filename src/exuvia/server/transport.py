"""The layers between a socket and the packets: TLS and compression, one transport on top of
another.

    socket bytes -> Encrypted.feed -> Compressed.put, frame, inflated -> packets (packets.py)
    socket bytes <- Encrypted.write <- Compressed.write, packed <- packets

Neither layer interprets packets. A client requests TLS in its first packet (MySQL protocol,
"SSLRequest"). Compression begins right after the answer to the login.

The compressed protocol (source: MySQL protocol, "Compression"):

    [u24 length][u8 sequence][u24 length before]  deflated bytes of the ordinary stream
                                                  0: not deflated, too small a gain

A frame has at most 16 MiB, the limit of its three-byte length. Compressing that takes a tenth of a
second. So large frames and results are inflated and deflated outside the protocol thread; zlib
releases the interpreter's lock.
"""

import asyncio
import ssl
import zlib
from contextlib import suppress
from struct import Struct
from typing import Any, NamedTuple

from exuvia.base.mysql_errors import ErrHandshake, ErrNetUncompress


class Layer(asyncio.Transport):
    """A transport on top of another, which does everything except writing."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()


# -- TLS -------------------------------------------------------------------------------------------

REQUEST_BYTES = 4 + 32
_SSL_FLAG = 1 << 11
_READ_BYTES = 1 << 16
MOST_HELLO_BYTES = 1 << 16  # limit of the handshake; the last read may exceed it


def context_of(certificate: str, key: str) -> ssl.SSLContext:
    """The TLS context of a server, from two PEM files; `key` may be "" if the first has both.

    Raises OSError."""

    def passphrase() -> str:
        raise OSError("the key has a passphrase: store it without one")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key or None, passphrase)
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or error
        files = f"{certificate} and {key}" if key else certificate
        raise OSError(f"no certificate with its key can be read from {files}: {reason}") from None
    return context


def why_refused(certificate: str, context: ssl.SSLContext) -> str:
    """The reason why clients that trust this certificate refuse it: expired, or not yet valid.

    "" if they accept it."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.load_verify_locations(certificate)
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = trusting.wrap_bio(to_client, to_server)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
    return ""


def requests_tls(head: bytes | bytearray) -> bool | None:
    """Whether a client's first bytes request TLS; None if there are too few bytes."""
    if len(head) < 4:
        return None
    if int.from_bytes(head[:3], "little") != REQUEST_BYTES - 4:
        return False
    if len(head) < REQUEST_BYTES:
        return None
    return bool(int.from_bytes(head[4:8], "little") & _SSL_FLAG)


class Encrypted(Layer):
    """The TLS layer of a connection."""

    def __init__(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        super().__init__(transport)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_agreed = False
        self._hello_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """The plain bytes of the complete TLS records that have arrived.

        Raises 1043 for bytes that are not TLS."""
        if not self._is_agreed:
            self._hello_bytes += len(data)
            if self._hello_bytes > MOST_HELLO_BYTES:
                raise ErrHandshake()
        self._incoming.write(data)
        plain = bytearray()
        try:
            if not self._is_agreed:
                self._tls.do_handshake()
                self._is_agreed = True
            while chunk := self._tls.read(_READ_BYTES):
                plain += chunk
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._transport.close()
        except ssl.SSLError:
            raise ErrHandshake() from None
        finally:
            self._flush()
        return bytes(plain)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    def write(self, data: Any) -> None:
        view = memoryview(data)
        with suppress(ssl.SSLError):  # no session yet, or no more: the peer could not read it
            while view:
                view = view[self._tls.write(view) :]
        self._flush()


# -- compression -----------------------------------------------------------------------------------

HEADER_BYTES = 7
LEAST_BYTES = 150  # below this size deflating costs more than it saves
MOST_BYTES = (1 << 24) - 1
LEVEL = 1
PIECE = 1 << 17  # bytes that are inflated in one call
_COMPRESSED_HEADER = Struct("<IBH")


def _header(length: int, sequence: int, before: int) -> bytes:
    return _COMPRESSED_HEADER.pack(length | sequence << 24, before & 255, before >> 8)


class CompressedFrame(NamedTuple):
    """A received frame. `before`: its size before it was deflated, 0 if it was not."""

    part: bytes
    before: int

    def inflated(self) -> list[bytes]:
        """The plain bytes, in pieces. Any thread. Raises 1157 if they are invalid."""
        return _inflated(self.part, self.before) if self.before else [self.part]


class Packed(bytes):
    """Frames that are ready to be sent."""


class Compressed(Layer):
    """The compression layer of a connection."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._buffer = bytearray()
        self._sequence = 0

    @property
    def waiting(self) -> int:
        """Number of received bytes that are not in a frame taken."""
        return len(self._buffer)

    def put(self, data: bytes) -> None:
        """Add received bytes."""
        self._buffer += data

    def frame(self) -> CompressedFrame | None:
        """The next complete frame, or None."""
        buffer = self._buffer
        if len(buffer) < HEADER_BYTES:
            return None
        head, low, high = _COMPRESSED_HEADER.unpack_from(buffer)
        end = HEADER_BYTES + (head & MOST_BYTES)
        if len(buffer) < end:
            return None
        part = bytes(memoryview(buffer)[HEADER_BYTES:end])
        del buffer[:end]
        self._sequence = (head >> 24) + 1 & 255
        return CompressedFrame(part, low | high << 8)

    def write(self, data: Any) -> None:
        """Send the data; compress it here if it is not Packed."""
        self._transport.write(data if isinstance(data, Packed) else self.packed(data))

    def packed(self, data: bytes | bytearray) -> Packed:
        """The data in frames, deflated if that is smaller. Any thread, one at a time."""
        frames = bytearray()
        for start in range(0, len(data), MOST_BYTES):
            part = bytes(memoryview(data)[start : start + MOST_BYTES])
            before = 0
            if len(part) >= LEAST_BYTES:
                deflated = zlib.compress(part, LEVEL)
                if len(deflated) < len(part):
                    part, before = deflated, len(part)
            frames += _header(len(part), self._sequence, before)
            frames += part
            self._sequence = self._sequence + 1 & 255
        return Packed(frames)


def _inflated(part: bytes, before: int) -> list[bytes]:
    inflate, view = zlib.decompressobj(), memoryview(part)
    pieces: list[bytes] = []
    size = 0
    try:
        for start in range(0, len(part), PIECE):
            source: bytes | memoryview = view[start : start + PIECE]
            while source and size <= before:
                pieces.append(inflate.decompress(source, PIECE))
                size += len(pieces[-1])
                source = inflate.unconsumed_tail
        pieces.append(inflate.flush())
    except zlib.error:
        raise ErrNetUncompress() from None
    if size + len(pieces[-1]) != before or not inflate.eof:
        raise ErrNetUncompress()
    return pieces
