"""A connection until its client is let in, and when it becomes another user (entrance.py decides).

Every method runs on the wire's thread.
"""

import asyncio
import ssl
from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from exuvia.base.clock import Clock
from exuvia.base.errors import Refused
from exuvia.server import packets
from exuvia.server.compression import Compressed
from exuvia.server.connections import Connections
from exuvia.server.entrance import PROVED, Conversation, conversation
from exuvia.server.errors import explain
from exuvia.server.framing import Incoming, Outgoing
from exuvia.server.metrics import Metrics
from exuvia.server.packets import Login
from exuvia.server.pool import Pool
from exuvia.server.statements import Statements, WireSession
from exuvia.server.tls import REQUEST_BYTES, Encrypted, asks
from exuvia.sql.privileges.accounts import Accounts


class Parts(NamedTuple):
    """What every connection of a server shares. `open_session(connection id, host, login)`."""

    open_session: Callable[[int, str, Login], WireSession]
    connections: Connections
    pool: Pool
    metrics: Metrics
    clock: Clock
    version: str
    accounts: Callable[[], Accounts | None] = lambda: None  # None: anybody is let in
    tls: ssl.SSLContext | None = None


class Entering(asyncio.Protocol):
    """See the module."""

    parts: Parts
    id: int
    host: str
    statements: Statements | None
    _transport: asyncio.Transport
    _incoming: Incoming
    _deadline: asyncio.TimerHandle

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._nonce = packets.new_nonce()
        self._talk: Conversation | None = None
        self._head: bytearray | None = None if parts.tls is None else bytearray()
        self._tls: Encrypted | None = None

    @abstractmethod
    def enter(self, login: Login) -> None:
        """Begin a session for this login."""

    @abstractmethod
    def _refuse_and_close(self, error: Refused, sequence: int) -> None:
        """Say why, and hang up."""

    def _greet(self) -> None:
        outgoing = Outgoing(0)
        has_tls = self.parts.tls is not None
        outgoing.add(packets.greeting(self.parts.version, self.id, self._nonce, has_tls))
        self._send(outgoing)

    def _opened(self, data: bytes) -> bytes:
        """What the client's bytes stand for."""
        if self._head is not None:
            return self._first_bytes(self._head, data)
        return data if self._tls is None else self._tls.feed(data)

    def _first_bytes(self, head: bytearray, data: bytes) -> bytes:
        """Look whether the client wants TLS; what it sent apart from that."""
        head += data
        wanted = asks(head)
        if wanted is None:
            return b""
        self._head = None
        if not wanted:
            return bytes(head)
        assert self.parts.tls is not None
        self._transport = self._tls = Encrypted(self._transport, self.parts.tls)
        self._incoming.expect(2)
        return self._tls.feed(bytes(head[REQUEST_BYTES:]))

    def _log_in(self, payload: bytes, outgoing: Outgoing) -> None:
        try:
            if self._talk is not None:
                self._go_on(payload, outgoing)
                return
            login = packets.read_login(payload)
            self.ask(login._replace(secure=self._tls is not None), outgoing)
        except Exception as error:  # a client that cannot log in is told why and sent away
            self._refuse_and_close(explain(error), outgoing.sequence)

    def ask(self, login: Login, outgoing: Outgoing) -> None:
        """Let a client in that proves who it is. Raises 1045."""
        accounts = self.parts.accounts()
        if accounts is None:
            self._welcome(login, outgoing)
            return
        self._talk = conversation(accounts, login, self.host, self._nonce)
        self._go_on(None, outgoing)

    def change(self, login: Login, outgoing: Outgoing) -> None:
        """Become another user; who cannot prove it is sent away."""
        try:
            self.ask(login._replace(secure=self._tls is not None), outgoing)
        except Exception as error:
            self._refuse_and_close(explain(error), outgoing.sequence)

    def _go_on(self, payload: bytes | None, outgoing: Outgoing) -> None:
        assert self._talk is not None
        try:
            said = self._talk.send(payload)  # type: ignore[arg-type]
            outgoing.add(said)
            while said == PROVED:  # the client says nothing to that
                said = self._talk.send(b"")
                outgoing.add(said)
        except StopIteration as done:
            self._talk = None
            self._welcome(done.value, outgoing)
            return
        self._incoming.expect(outgoing.sequence)
        self._send(outgoing)

    def _send(self, outgoing: Outgoing) -> None:
        self._transport.write(outgoing.take())

    def _welcome(self, login: Login, outgoing: Outgoing) -> None:
        is_first = self.statements is None
        self.enter(login)
        self._deadline.cancel()
        assert self.statements is not None
        for chunk in self.statements.done(outgoing):
            self._transport.write(chunk)
        if is_first and login.capabilities & packets.COMPRESSES:
            self._transport = Compressed(self._transport)
