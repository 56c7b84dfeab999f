"""The MySQL protocol on a socket: one Connection per client, on the protocol thread (asyncio).

    greeting -> [TLS] -> login, authentication -> commands
                HANDSHAKE_S for all of that       as long as the client likes

    a short read        runs here at once: no thread hop, no queue; on a remote store it gives way
                        to others until the answer
    a short write       runs here, but gives way to others while it commits
    other statements    run in the pool; result chunks are sent by the loop, at the client's pace
    one that would wait is repeated in the pool: it waits for a row lock, for example
    a closed client     its session is closed (rolled back) once nothing of it runs

Commands of one connection are answered strictly one after the other. The limits of a client:

    before its login        HANDSHAKE_BYTES, and REFUSED_S between a wrong proof and its answer: so
                            the delay reveals nothing about the account
    its next command        is read when it is idle and has read its answers. Up to WAITING_BYTES
                            are buffered, then the socket is not read further
    a large frame           inflated in the pool, one at a time
    a large packet          INTAKE_BYTES for all connections together (`Intake`)
    the protocol thread     SLICE_S, then it is the other connections' turn

authentication.py authenticates the client, statements.py runs its commands, packets.py encodes.

The pool's threads are for statements that may block: a commit, a schema change, a long read. The
pool has one thread per allowed connection, started when first needed. So no statement waits for
another connection's statement. An idle thread is used again before a new one is started. All are
daemon threads: a hanging one does not keep the process alive once everything else is closed.

`concurrent.futures.ThreadPoolExecutor` does not fit: the interpreter joins its threads at exit, so
one hanging statement would keep a stopped server alive. Its Futures would not be used either.
"""

import asyncio
import errno
import logging
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from exuvia.base import memory
from exuvia.base.aside import Aside
from exuvia.base.clock import Clock
from exuvia.base.errors import Refused, WouldWait
from exuvia.base.limits import PACKET_BYTES
from exuvia.base.mysql_errors import (
    ErrClientInteractionTimeout,
    ErrConnectionKilled,
    ErrHandshake,
    ErrNetPacketTooLarge,
    ErrNewAbortingConnection,
    ErrServerShutdown,
    ErrUnknownCom,
)
from exuvia.pipeline.throttle import MOST_STATEMENTS
from exuvia.server import packets
from exuvia.server.authentication import PROVED, Conversation, Errand, conversation
from exuvia.server.fronts import LEAVE_S
from exuvia.server.metrics import Metrics
from exuvia.server.packets import Incoming, Login, Outgoing, Payload, explain
from exuvia.server.processes import Connections
from exuvia.server.slow_log import SlowLog
from exuvia.server.statements import (
    Chunks,
    CommandTask,
    LongText,
    Statements,
    Transfer,
    guarded,
    refusal,
)
from exuvia.server.traces import StatementTraces
from exuvia.server.transport import (
    REQUEST_BYTES,
    Compressed,
    CompressedFrame,
    Encrypted,
    Packed,
    requests_tls,
)
from exuvia.sql.privileges.accounts import Accounts
from exuvia.sql.statement.context import Course, SessionApi

HANDSHAKE_S = 10.0
HANDSHAKE_BYTES = 1 << 14
REFUSED_S = 0.1
WAITING_BYTES = 1 << 20
LARGE_BYTES = 1 << 16
SLOW_BYTES = 1 << 16
"""A large packet grows by this much within net_read_timeout, or its connection is closed."""
SLICE_S = 0.005
AHEAD = 4
STALLED_S = 60.0
INFLATING = 2
INTAKE_BYTES = 128 << 20
FEW_SENDERS = 2
RUNNING_S = 2.0
_log = logging.getLogger(__name__)
Work = Callable[[], None]


class Pool:
    """At most `most` threads. `run` never waits for a thread while fewer than that are busy.

    A server has INFLATING threads more than connections, because a statement that reads a client's
    file occupies its thread while another inflates the file."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: list[threading.Thread] = []

    @property
    def size(self) -> int:
        return len(self._threads)

    def run(self, work: Work) -> None:
        """Run `work` in a thread. It must handle its own errors."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif len(self._threads) < self._most:
                name = f"statement-{len(self._threads)}"
                thread = threading.Thread(target=self._serve, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        self._waiting.put(work)

    def _serve(self) -> None:
        while True:
            work = self._waiting.get()
            if work is None:
                return
            work()
            with self._lock:
                self._idle += 1

    def close(self) -> None:
        """End every thread after its present work."""
        for _ in self._threads:
            self._waiting.put(None)


class Intake:
    """Limits the bytes of large commands that all connections have sent and that do not run yet.

    Used on the protocol thread. Each connection reports its bytes. While they exceed INTAKE_BYTES
    in total, only the connection that began first is read further. A running command counts for
    RUNNING_S at most; after that only its statement's memory counts (base/memory.py). If more than
    FEW_SENDERS send large commands, one of them is read in each turn of the loop."""

    def __init__(self) -> None:
        self._bytes_of: dict[Connection, int] = {}
        self._waiting: dict[Connection, None] = {}
        self._turns: deque[Connection] = deque()
        self._sum = 0

    def hold(self, client: "Connection", size: int) -> bool:
        """Set the client's bytes. Returns whether it may be read further now."""
        self._sum += size - self._bytes_of.get(client, 0)
        if size:
            self._bytes_of[client] = size
        else:
            self._bytes_of.pop(client, None)
            self._waiting.pop(client, None)
        if self._waiting and (
            self._sum <= INTAKE_BYTES or next(iter(self._bytes_of)) in self._waiting
        ):
            self._wake()
        if self._sum > INTAKE_BYTES and size and next(iter(self._bytes_of)) is not client:
            self._waiting[client] = None
            return False
        if len(self._bytes_of) <= FEW_SENDERS or not size:
            return True
        if not self._turns:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._turns.append(client)
        return False

    def _next_turn(self) -> None:
        self._turns.popleft().go_on()
        if self._turns:
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        loop = asyncio.get_running_loop()
        for client in waiting:
            loop.call_soon(client.weigh_again)


class ServerParts(NamedTuple):
    """The parts that all connections of a server share. `open_session(connection id, host,
    login)`."""

    open_session: Callable[[int, str, Login], SessionApi]
    connections: Connections
    pool: Pool
    metrics: Metrics
    clock: Clock
    version: str
    slow: SlowLog
    accounts: Callable[[], Accounts | None] = lambda: None  # None: no authentication
    tls: ssl.SSLContext | None = None
    intake: Intake = Intake()
    traces: StatementTraces | None = None


class Connection(asyncio.Protocol):
    """One client. Every method runs on the protocol thread unless its docstring excepts it."""

    def __init__(self, parts: ServerParts) -> None:
        self.parts = parts
        self.id = 0
        self.host = ""
        self.port = 0
        self.login: Login | None = None
        self.statements: Statements | None = None
        self._spent_s, self._statements = 0.0, 0  # in the open transaction
        self.task: CommandTask | None = None
        self._turn = threading.Lock()  # so that an interrupt does not hit the next command
        self.since = parts.clock.monotonic()
        self._loop = asyncio.get_running_loop()
        self._incoming = Incoming(HANDSHAKE_BYTES)
        self._compressed: Compressed | None = None
        self._is_preparing = False  # the pool decodes received bytes
        self._is_held_back = False  # by the intake
        self._is_weighed = False  # the intake counts its bytes
        self._is_queued = False  # it continues in a later turn of the loop
        self._is_paused = False  # the socket is not read
        self._slice_end = 0.0
        self._last_part_at = 0.0  # time of an unfinished packet's last part; 0: no such packet
        self._last_part_bytes = 0  # bytes received by then
        self._running_bytes = 0  # bytes of a large command that is decoded or runs
        self._login_at = 0.0  # time of its login packet
        self._busy = False
        self._is_lost = False
        self._transfer: Transfer | None = None
        self._is_transfer_full = False
        self._writable = threading.Event()
        self._stalled: asyncio.TimerHandle | None = None
        self._ahead = threading.BoundedSemaphore(AHEAD)
        self._nonce = packets.new_nonce()
        self._authentication: Conversation | None = None
        self._first_bytes: bytearray | None = None if parts.tls is None else bytearray()
        self._tls: Encrypted | None = None
        self._is_aborted = False  # its init_connect failed

    # -- the socket --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the greeting, or refuse the client if there are too many."""
        assert isinstance(transport, asyncio.Transport)
        self._transport: asyncio.Transport = transport
        self._writable.set()
        peer = transport.get_extra_info("peername")
        self.host, self.port = (str(peer[0]), int(peer[1])) if peer else ("localhost", 0)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family != getattr(socket, "AF_UNIX", None):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            self.id = self.parts.connections.add(self)
        except Refused as error:
            self._refuse_and_close(error, 0)
            return
        self._incoming.expect(1)
        outgoing = Outgoing(0)
        has_tls = self.parts.tls is not None
        outgoing.add(packets.greeting(self.parts.version, self.id, self._nonce, has_tls))
        self._transport.write(outgoing.take())
        self._deadline = self._loop.call_later(HANDSHAKE_S, self._abort_handshake)

    def _abort_handshake(self) -> None:
        if self.statements is None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Process all packets that are complete."""
        if self._last_part_at and self._waiting <= LARGE_BYTES:
            self._last_part_at = 0.0
        try:
            if self._first_bytes is not None:
                data = self._after_tls_request(self._first_bytes, data)
            elif self._tls is not None:
                data = self._tls.feed(data)
            if not data:
                return
            (self._compressed or self._incoming).put(data)
            if self.statements is None and self._busy and self._waiting > HANDSHAKE_BYTES:
                raise ErrHandshake()
        except Refused as error:
            self._malformed(error)
            return
        self._weigh()
        self._work()

    def _weigh(self, more: int = 0) -> bool:
        """Report the bytes to the intake. Returns whether the socket may be read further.

        `more`: additional bytes that will be needed."""
        size = self._running_bytes + more
        if (waiting := self._waiting) > LARGE_BYTES:
            size += waiting
        if size or self._is_weighed:
            self._is_weighed = bool(size)
            self._is_held_back = not self.parts.intake.hold(self, size)
        return not self._is_held_back

    def weigh_again(self) -> None:
        """Called by the intake when there may be room for its bytes."""
        if not self._is_lost and self._weigh():
            self._work()

    def go_on(self) -> None:
        """Called by the intake: it may be read further."""
        self._is_held_back = False
        if not self._is_lost:
            self._work()

    def _malformed(self, error: Refused) -> None:
        self.parts.metrics.malformed += 1
        self._refuse_and_close(error, 1)

    def _after_tls_request(self, head: bytearray, data: bytes) -> bytes:
        """Detect a request for TLS in the client's first bytes. Returns the bytes apart from it."""
        head += data
        wants_tls = requests_tls(head)
        if wants_tls is None:  # too few bytes yet
            return b""
        self._first_bytes = None
        if not wants_tls:
            return bytes(head)
        assert self.parts.tls is not None
        self._transport = self._tls = Encrypted(self._transport, self.parts.tls)
        self._incoming.expect(2)
        return self._tls.feed(bytes(head[REQUEST_BYTES:]))

    @property
    def _waiting(self) -> int:
        """Number of received bytes that are not processed."""
        waiting = self._incoming.waiting
        return waiting if self._compressed is None else waiting + self._compressed.waiting

    def _has_room(self) -> bool:
        """Whether the next payload can be processed."""
        if self._is_preparing or self._is_queued or self._transport.is_closing():
            return False
        if self._is_held_back:
            return False
        if self._transfer is not None:
            return not self._is_transfer_full
        return not self._busy and self._writable.is_set()

    def _regulate(self) -> None:
        """Pause reading of the socket if too many bytes wait, or resume it."""
        if not self._waiting and not self._is_paused:
            return
        waiting, has_room = self._waiting, self._has_room()
        if not waiting or not has_room:
            self._last_part_at = 0.0
        elif (
            not self._last_part_at or not LARGE_BYTES < waiting < self._last_part_bytes + SLOW_BYTES
        ):
            self._last_part_at, self._last_part_bytes = self.parts.clock.monotonic(), waiting
        is_much = (waiting > WAITING_BYTES or self._is_held_back) and not has_room
        if is_much != self._is_paused and not self._transport.is_closing():
            self._is_paused = is_much
            if is_much:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _take(self) -> tuple[int, bytes | Payload] | None:
        """The next complete payload, or None. Raises 1153, 1157, 1835."""
        payload = self._incoming.take()
        while payload is None and self._compressed is not None and not self._is_preparing:
            frame = self._compressed.frame()
            if frame is None:
                break
            if frame.before > self._incoming.most_bytes + HANDSHAKE_BYTES:
                raise ErrNetPacketTooLarge()
            if frame.before > LARGE_BYTES:
                self._inflate(frame)
                self._weigh(frame.before)
                break
            for piece in frame.inflated():
                self._incoming.put(piece)
            payload = self._incoming.take()
            if payload is None and self._is_slice_over():
                break
        return payload

    def _inflate(self, frame: CompressedFrame) -> None:
        """Inflate a frame in the pool."""
        self._is_preparing = True

        def work() -> None:
            try:
                pieces: list[bytes] | Refused = frame.inflated()
            except Refused as error:
                pieces = error
            self._loop.call_soon_threadsafe(self._take_inflated, pieces)

        self.parts.pool.run(work)

    def _take_inflated(self, pieces: list[bytes] | Refused) -> None:
        self._is_preparing = False
        if self._is_lost or self._transport.is_closing():
            return
        if isinstance(pieces, Refused):
            self._malformed(pieces)
            return
        try:
            for piece in pieces:
                self._incoming.put(piece)
        except Refused as error:
            self._malformed(error)
            return
        self._weigh()
        self._work()

    def _assemble(self, sequence: int, payload: Payload) -> None:
        """Decode a large payload in the pool."""
        self._is_preparing = True
        self._running_bytes = payload.size
        self._weigh()
        statements = self.statements
        assert statements is not None

        def work() -> None:
            try:
                body: bytes | LongText | Exception = statements.body_of(payload)
            except Exception as error:  # the client gets an answer in any case
                body = error
            self._loop.call_soon_threadsafe(self._take_assembled, sequence, payload.command, body)

        self.parts.pool.run(work)

    def _take_assembled(
        self, sequence: int, command: int, body: bytes | LongText | Exception
    ) -> None:
        self._is_preparing = False
        if self._is_lost or self._transport.is_closing():
            return
        self._command(Outgoing(sequence + 1 & 255), command, body)
        if self._busy:
            self._loop.call_later(RUNNING_S, self._forget_bytes)
        else:
            self._forget_bytes()
        self._work()

    def _forget_bytes(self) -> None:
        """Stop counting the bytes of a large command that has ended or runs for long."""
        if self._running_bytes and not self._is_preparing:
            self._running_bytes = 0
            self._weigh()

    def _is_slice_over(self) -> bool:
        """Whether it is other connections' turn. If so, this one continues in the loop's next
        turn."""
        now = self._loop.time()
        if not self._slice_end:
            self._slice_end = now + SLICE_S
        if now <= self._slice_end:
            return False
        self._is_queued = True
        self._loop.call_soon(self._work_on)
        return True

    def _work_on(self) -> None:
        self._is_queued = False
        self._work()

    def _take_part(self, transfer: Transfer, sequence: int, payload: bytes) -> None:
        """Process a part of a file that the client sends."""
        if not payload:
            self._transfer = None
            self._incoming.end()
        self._is_transfer_full = transfer.put(sequence, payload) and self._transfer is not None

    def pause_writing(self) -> None:
        """The client reads slowly: threads that answer it wait, and its commands wait.

        It is disconnected if it reads nothing for STALLED_S."""
        self._writable.clear()
        self._check_client_reads(None)

    def _check_client_reads(self, before: int | None) -> None:
        unsent = self._transport.get_write_buffer_size()
        if before is not None and unsent >= before:
            self._transport.abort()
            return
        self._stalled = self._loop.call_later(STALLED_S, self._check_client_reads, unsent)

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        self._writable.set()
        self._loop.call_soon(self._work)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if self._stalled is not None:
            self._stalled.cancel()
        self._writable.set()
        if self._transfer is not None:
            self._transfer.lose()
        if self._is_weighed:
            self.parts.intake.hold(self, 0)
        self.parts.connections.remove(self)
        if self._busy and self.statements is not None:
            self.statements.session.interrupt(lost=True)
        elif not self._busy:
            self._close_session()

    def _refuse_and_close(self, error: Refused, sequence: int) -> None:
        outgoing = Outgoing(sequence)
        outgoing.add(packets.error(error.code, error.state, error.message))
        self._transport.write(outgoing.take())
        self._transport.close()

    # -- who it is ---------------------------------------------------------------------------------

    def _log_in(self, payload: bytes, outgoing: Outgoing) -> None:
        """Process the login packet or an answer of the authentication.

        A refused client gets the error and is disconnected."""
        try:
            if self._authentication is not None:
                self._authenticate(payload, outgoing)
            else:
                self._begin_authentication(packets.read_login(payload), outgoing)
        except Exception as error:  # the client gets an answer in any case
            self._deny(explain(error), outgoing.sequence)

    def _deny(self, error: Refused, sequence: int) -> None:
        """Refuse the login at the next multiple of REFUSED_S since the login packet."""
        self._busy = True
        left_s = -(self._loop.time() - self._login_at) % REFUSED_S
        self._loop.call_later(left_s, self._end_denied, error, sequence)

    def _end_denied(self, error: Refused, sequence: int) -> None:
        self._busy = False
        if self._is_lost:
            self._close_session()
        elif not self._transport.is_closing():
            self._refuse_and_close(error, sequence)

    def _begin_authentication(self, login: Login, outgoing: Outgoing) -> None:
        self._login_at = self._loop.time()
        login = login._replace(secure=self._tls is not None)
        accounts = self.parts.accounts()
        if accounts is None:
            self._welcome(login, outgoing)
            return
        clock = self.parts.clock
        self._authentication = conversation(accounts, login, self.host, self._nonce, clock)
        self._authenticate(None, outgoing)

    def _authenticate(self, payload: bytes | None, outgoing: Outgoing) -> None:
        """Pass the client's answer to the authentication; None at its start."""
        assert self._authentication is not None
        try:
            question = self._authentication.send(payload)  # type: ignore[arg-type]
            while question == PROVED:  # which needs no answer
                outgoing.add(PROVED)
                question = self._authentication.send(b"")
            if isinstance(question, Errand):
                self._run_errand(question, outgoing)
                return
            outgoing.add(question)
        except StopIteration as done:
            self._authentication = None
            self._welcome(done.value, outgoing)
            return
        self._incoming.expect(outgoing.sequence)
        self._transport.write(outgoing.take())

    def _run_errand(self, errand: Errand, outgoing: Outgoing) -> None:
        """Run an errand in the pool, because it may wait for the store. Further packets wait."""
        self._busy = True

        def work() -> None:
            error: Exception | None = None
            try:
                errand.run()
            except Exception as caught:  # the client gets an answer in any case
                error = caught
            self._loop.call_soon_threadsafe(self._go_on, error, outgoing)

        self.parts.pool.run(work)

    def _go_on(self, error: Exception | None, outgoing: Outgoing) -> None:
        """Continue the authentication after an errand."""
        self._busy = False
        if self._is_lost:
            self._close_session()
            return
        if self._transport.is_closing():
            return
        try:
            if error is not None:
                raise error
            self._authenticate(b"", outgoing)
        except Exception as refused:  # the client gets an answer in any case
            self._deny(explain(refused), outgoing.sequence)
            return
        self._work()
        if self.parts.connections.draining:
            self.leave()

    def _welcome(self, login: Login, outgoing: Outgoing) -> None:
        is_first = self.statements is None
        self._open_session(login)
        self._deadline.cancel()
        assert self.statements is not None
        for chunk in self.statements.done(outgoing):
            self._transport.write(chunk)
        if is_first and login.capabilities & packets.COMPRESSES:
            self._transport = self._compressed = Compressed(self._transport)
        if is_first:
            self._initialise(self.statements.session)

    def _initialise(self, session: SessionApi) -> None:
        """Run init_connect in the pool before the first command.

        It is skipped for privileged accounts and for expired passwords. If it fails, the first
        command gets 1184."""
        text = session.settings.at_start("init_connect")
        if not text or session.must_change_password:
            return
        if {"SUPER", "CONNECTION_ADMIN"} & session.rights.everywhere:
            return
        self._busy = True

        def work() -> None:
            try:
                session.execute(text)
            except Exception as error:  # the client gets an answer in any case
                _log.warning("init_connect failed", extra={"reason": explain(error).message})
                self._is_aborted = True
            self._loop.call_soon_threadsafe(self._finish, None)

        self.parts.pool.run(work)

    def _open_session(self, login: Login) -> None:
        """Open a session for this login and close the former one. Raises 1049."""
        self._close_session()
        session = self.parts.open_session(self.id, self.host, login)
        self.login = login
        most_bytes = int(session.settings.at_start("max_allowed_packet") or PACKET_BYTES)
        self.statements = Statements(session, login, most_bytes)
        if login.capabilities & packets.SENDS_FILES:
            self.statements.ask_for_file = self._ask_for_file
        self._incoming.most_bytes = most_bytes

    def _close_session(self) -> None:
        statements, self.statements = self.statements, None
        if statements is not None:
            statements.session.close()

    # -- called by other parts ---------------------------------------------------------------------

    def kill(self) -> None:
        """End this connection with an error packet. A running statement is interrupted."""
        if self.statements is not None and self._busy:
            self.statements.session.interrupt()
        self._refuse_and_close(ErrConnectionKilled(), 0)

    def shut_down(self) -> None:
        """End this connection because the node stops now. A schema change that it waits for
        continues."""
        if self.statements is not None and self._busy:
            self.statements.session.interrupt(lost=True)
        self._refuse_and_close(ErrServerShutdown(), 0)

    def leave(self) -> None:
        """End this connection with 1053, if no transaction is open, because the node stops."""
        statements = self.statements
        is_within = statements is not None and statements.session.current is not None
        if not self._busy and not is_within and not self._transport.is_closing():
            self._refuse_and_close(ErrServerShutdown(), 0)

    def expire(self) -> None:
        """End this connection because the client has been idle too long."""
        if not self._busy:
            self._refuse_and_close(ErrClientInteractionTimeout(), 0)

    def unfinished_s(self, now: float) -> float:
        """Time since the last part of an unfinished packet; 0 without one. Unit: s. Any thread."""
        last_part_at = self._last_part_at
        return now - last_part_at if last_part_at else 0.0

    def interrupt(self) -> None:
        """KILL QUERY: interrupt the present command, even if its statement has not begun.

        Without a command it has no effect, as in MySQL. Any thread."""
        with self._turn:
            statements = self.statements
            if statements is not None and self.task is not None:
                statements.session.interrupt()

    # -- commands ----------------------------------------------------------------------------------

    def _work(self) -> None:
        """Process received packets in turn, until one has to wait."""
        self._slice_end = 0.0
        waiting = 1
        while self._has_room():
            try:
                packet = self._take()
            except Refused as error:
                self._malformed(error)
                return
            if packet is None:
                break
            if self._transfer is not None:
                self._take_part(self._transfer, *packet)  # type: ignore[arg-type]  # a file: bytes
            else:
                self._do(*packet)
            waiting = self._waiting
            if not waiting or self._is_slice_over():
                break
        if waiting or self._is_paused:
            self._regulate()
        else:
            self._last_part_at = 0.0

    def _do(self, sequence: int, payload: bytes | Payload) -> None:
        """Process a command, or a packet of the login."""
        if isinstance(payload, Payload):
            self._assemble(sequence, payload)
            return
        outgoing = Outgoing(sequence + 1 & 255)
        if self.statements is None or self._authentication is not None:
            self._log_in(payload, outgoing)
            return
        if self._is_aborted:
            self._refuse_and_close(self._aborting(), outgoing.sequence)
            return
        self._command(outgoing, payload[0] if payload else -1, payload[1:])

    def _command(self, outgoing: Outgoing, number: int, body: bytes | LongText | Exception) -> None:
        """Start a command. If `body` is an error, the command is refused with it."""
        assert self.statements is not None
        try:
            command = _COMMANDS.get(number)
            if isinstance(body, Exception):
                raise body
            if command is None:
                raise ErrUnknownCom()
            task = command(self, self.statements, body)
        except Exception as error:  # the client gets an answer in any case
            self._transport.write(refusal(error, outgoing, self.parts.metrics.failed))
            return
        if task is not None:
            self._start(task, outgoing)
        if self.parts.connections.draining:
            self.leave()

    def _aborting(self) -> Refused:
        assert self.statements is not None
        session = self.statements.session
        place = session.database or "unconnected", session.user, session.host
        return ErrNewAbortingConnection(self.id, *place, "init_connect command failed")

    def _start(self, task: CommandTask, outgoing: Outgoing) -> None:
        assert self.statements is not None
        with self._turn:
            self.statements.session.begin_command()
            self.task = task
        self.since = started = self.parts.clock.monotonic()
        answered: bool | None = False
        if task.course is Course.AT_ONCE:
            answered = self._answer(task, outgoing)
        elif task.course is Course.ASIDE:
            self._busy = True
            answer = partial(self._answer, task, outgoing)
            over = partial(self._come_back, task, outgoing, started)
            answered = Aside(answer, over, self._loop).begin()
            if answered is None:
                return
            self._busy = False
        if not answered:
            self._busy = True
            self.parts.pool.run(lambda: self._in_thread(task, outgoing, started))
            return
        with self._turn:
            self.task = None
        self._observe(task, started)
        self._release()

    def _release(self) -> None:
        """Close the connection after COMMIT RELEASE or ROLLBACK RELEASE."""
        if self.statements is not None and self.statements.session.is_released:
            self._transport.close()

    def _answer(self, task: CommandTask, outgoing: Outgoing) -> bool:
        """Run the command and send its answer. Returns False if it has to wait; nothing is sent
        then."""
        try:
            for chunk in task.work(outgoing):
                self._send(chunk)
        except WouldWait:
            return False
        except Exception as error:  # the client gets an answer in any case
            self._send(refusal(error, outgoing, self.parts.metrics.failed))
        return True

    def _send(self, chunk: bytearray | Packed) -> None:
        if not self._is_lost:
            self._transport.write(chunk)

    def _come_back(
        self, task: CommandTask, outgoing: Outgoing, started: float, answered: bool
    ) -> None:
        """End a command that gave way during its commit, or repeat it in the pool."""
        if not answered:
            self.parts.pool.run(lambda: self._in_thread(task, outgoing, started))
            return
        self._observe(task, started)
        self._finish(None)

    def _observe(self, task: CommandTask, started: float) -> None:
        assert self.statements is not None
        took_s = self.parts.clock.monotonic() - started
        tracker = self.statements.session.memory
        if tracker.peak and tracker.rest():
            self.parts.pool.run(memory.give_back)
        self.parts.metrics.observe(task.kind, took_s)
        self._observe_transaction(took_s)
        if took_s >= self.parts.slow.least_s:
            session = self.statements.session
            self.parts.slow.add(session, self.id, task.about, task.parameters, took_s)
        if self.parts.traces is not None:
            self.parts.traces.ended(self.statements.session, task.kind, task.about, took_s)

    def _observe_transaction(self, took_s: float) -> None:
        """Count the duration of a transaction that has ended. Schema changes are not counted."""
        assert self.statements is not None
        session = self.statements.session
        self._spent_s, self._statements = self._spent_s + took_s, self._statements + 1
        if session.current is not None and self._statements < MOST_STATEMENTS:
            return
        if not session.changed_schema:
            self.parts.metrics.durations.observe(self._spent_s)
        self._spent_s, self._statements = 0.0, 0

    def _in_thread(self, task: CommandTask, outgoing: Outgoing, started: float) -> None:
        """Run a command in a thread of the pool. Any thread.

        The last chunk is sent with the end of the command, which saves a wake-up of the loop for a
        small answer."""
        chunks = guarded(task.work, outgoing, self.parts.metrics.failed)
        last = self._packed(next(chunks, None))
        for chunk in chunks:
            if last is not None and not self._hand_over(last):
                last = None
                chunks.close()
                break
            last = self._packed(chunk)
        self._observe(task, started)
        self._loop.call_soon_threadsafe(self._finish, last)

    def _packed(self, chunk: bytearray | None) -> bytearray | Packed | None:
        """The chunk, deflated if the client reads compressed packets. Any thread."""
        compressed = self._compressed
        return chunk if chunk is None or compressed is None else compressed.packed(chunk)

    def _hand_over(self, chunk: bytearray | Packed) -> bool:
        """Pass a chunk to the loop once the client has room; False if it has disconnected. Any
        thread."""
        self._ahead.acquire()
        self._writable.wait()
        if self._is_lost:
            return False
        self._loop.call_soon_threadsafe(self._write, chunk)
        return True

    def _write(self, chunk: bytearray | Packed) -> None:
        self._ahead.release()
        self._send(chunk)

    def _finish(self, chunk: bytearray | Packed | None) -> None:
        self._busy = False
        if self._running_bytes:
            self._forget_bytes()
        with self._turn:
            self.task = None
        if self._is_lost:
            self._close_session()
            return
        if chunk is not None:
            self._transport.write(chunk)
        self._release()
        self.since = self.parts.clock.monotonic()
        self._work()
        if self.parts.connections.draining:
            self.leave()

    # -- a file of the client ----------------------------------------------------------------------

    def _ask_for_file(self, outgoing: Outgoing, name: bytes) -> Transfer:
        """Ask the client for a file. Any thread."""
        assert self.statements is not None
        outgoing.add(b"\xfb" + name)
        chunk, sequence = outgoing.take(), outgoing.sequence
        check = self.statements.session.check_interrupt
        transfer = Transfer(sequence, self._resume_soon, check)
        self._loop.call_soon_threadsafe(self._begin_transfer, transfer, chunk)
        return transfer

    def _begin_transfer(self, transfer: Transfer, chunk: bytearray) -> None:
        if self._is_lost:
            transfer.lose()
            return
        self._transfer = transfer
        self._incoming.follow(transfer.sequence)
        self._transport.write(chunk)
        self._work()

    def _resume_soon(self) -> None:
        self._loop.call_soon_threadsafe(self._resume)

    def _resume(self) -> None:
        self._is_transfer_full = False
        if not self._is_lost:
            self._work()

    # -- commands about the connection itself ------------------------------------------------------

    def hang_up(self) -> None:
        self._transport.close()

    def statistics(self) -> CommandTask:
        connections = self.parts.connections

        def work(outgoing: Outgoing) -> Chunks:
            line = f"Uptime: {connections.uptime_s}  Threads: {connections.place.total}"
            outgoing.add(line.encode())
            yield outgoing.take()

        return CommandTask(Course.AT_ONCE, "statistics", "", work)

    def change_user(self, payload: bytes) -> CommandTask:
        """COM_CHANGE_USER: a client that cannot authenticate as that user is disconnected."""
        assert self.login is not None
        login = packets.read_change_user(payload, self.login)

        def work(outgoing: Outgoing) -> Chunks:
            try:
                self._begin_authentication(login, outgoing)
            except Exception as error:  # the client gets an answer in any case
                self._deny(explain(error), outgoing.sequence)
            yield outgoing.take()

        return CommandTask(Course.AT_ONCE, "change user", "", work)

    def reset(self, database: str) -> CommandTask:
        """COM_RESET_CONNECTION: a new session for the same user and database."""
        assert self.login is not None
        login = self.login._replace(database=database)

        def work(outgoing: Outgoing) -> Chunks:
            self._open_session(login)
            outgoing.add(packets.ok(0, 0, packets.AUTOCOMMIT, 0))
            yield outgoing.take()

        return CommandTask(Course.AT_ONCE, "reset", "", work)


def _kill(client: Connection, statements: Statements, payload: bytes) -> CommandTask:
    number = int.from_bytes(payload[:4], "little")
    return statements.query(f"KILL CONNECTION {number}".encode())


_COMMANDS: dict[int, Callable[[Connection, Statements, Any], CommandTask | None]] = {
    0x01: lambda client, statements, payload: client.hang_up(),
    0x02: lambda client, statements, payload: statements.use(payload),
    0x03: lambda client, statements, payload: statements.query(payload),
    0x04: lambda client, statements, payload: statements.fields(payload),
    0x09: lambda client, statements, payload: client.statistics(),
    0x0A: lambda client, statements, payload: statements.query(b"SHOW PROCESSLIST"),
    0x0C: _kill,
    0x0D: lambda client, statements, payload: CommandTask(
        Course.AT_ONCE, "debug", "", statements.ended
    ),
    0x0E: lambda client, statements, payload: CommandTask(
        Course.AT_ONCE, "ping", "", statements.done
    ),
    0x11: lambda client, statements, payload: client.change_user(payload),
    0x16: lambda client, statements, payload: statements.prepare(payload),
    0x17: lambda client, statements, payload: statements.execute(payload),
    0x18: lambda client, statements, payload: statements.long_data(payload),
    0x19: lambda client, statements, payload: statements.forget(payload),
    0x1A: lambda client, statements, payload: statements.reset(payload),
    0x1B: lambda client, statements, payload: statements.set_option(payload),
    0x1C: lambda client, statements, payload: statements.fetch(payload),
    0x1F: lambda client, statements, payload: client.reset(statements.session.database),
}
"""Commands by their first byte (source: MySQL protocol, "Command Phase"). They return the task to
run, or None if the protocol has no answer."""


# -- accepting -------------------------------------------------------------------------------------

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_S = 1.0


class Acceptor:
    """Accepts clients from the sockets that all fronts of the node share."""

    def __init__(self, parts: ServerParts, listeners: Sequence[socket.socket]) -> None:
        self._parts = parts
        self._listeners = listeners
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to accept clients, including those that wait already."""
        self._tasks = [asyncio.create_task(self._accept(listener)) for listener in self._listeners]

    def stop(self, for_good: bool = False) -> None:
        """Stop accepting. Connected clients are kept. `for_good`: shut the sockets of the node
        down."""
        for task in self._tasks:
            task.cancel()
        for listener in self._listeners:
            if for_good:  # else new clients wait until the last process closes it
                with suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await _readable(loop, listener)
            if self._parts.connections.place.has_more:
                await asyncio.sleep(LEAVE_S)
            try:
                client, _ = listener.accept()
            except BlockingIOError:
                continue  # another front has it
            except OSError as error:
                _log.warning("a client was not accepted", extra={"reason": str(error)})
                await asyncio.sleep(_EXHAUSTED_S if error.errno in _EXHAUSTED else 0)
                continue
            client.setblocking(False)
            with suppress(OSError):  # it has disconnected already
                await loop.connect_accepted_socket(lambda: Connection(self._parts), client)


async def _readable(loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
    """Wait until a client connects. Another front may accept it first."""
    is_readable = asyncio.Event()
    loop.add_reader(listener, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(listener)
