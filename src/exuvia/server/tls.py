"""TLS below the packets: the client asks for it in its first packet (MySQL protocol, "SSLRequest").

    socket bytes -> feed -> the ordinary stream -> (compression) -> packets

As compression, it is a transport on top of another and knows nothing of packets.
"""

import asyncio
import ssl
from typing import Any

from exuvia.base.mysql_errors import ErrHandshake

REQUEST_BYTES = 4 + 32
_ASKS = 1 << 11
_READ_BYTES = 1 << 16


def context_of(certificate: str, key: str) -> ssl.SSLContext:
    """What a server needs, from two PEM files. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key or None)
    return context


def asks(head: bytes | bytearray) -> bool | None:
    """Whether a client's first bytes ask for TLS; None: too few to say."""
    if len(head) < 4:
        return None
    if int.from_bytes(head[:3], "little") != REQUEST_BYTES - 4:
        return False
    if len(head) < REQUEST_BYTES:
        return None
    return bool(int.from_bytes(head[4:8], "little") & _ASKS)


class Encrypted(asyncio.Transport):
    """A transport on top of another. `feed` gives back what the client's bytes stand for."""

    def __init__(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        super().__init__()
        self._transport = transport
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_agreed = False

    def feed(self, data: bytes) -> bytes:
        """The ordinary stream. Raises 1043 for what is no TLS."""
        self._incoming.write(data)
        found = bytearray()
        try:
            if not self._is_agreed:
                self._tls.do_handshake()
                self._is_agreed = True
            while chunk := self._tls.read(_READ_BYTES):
                found += chunk
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._transport.close()
        except ssl.SSLError:
            raise ErrHandshake() from None
        finally:
            self._flush()
        return bytes(found)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    def write(self, data: Any) -> None:
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
        self._flush()

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
