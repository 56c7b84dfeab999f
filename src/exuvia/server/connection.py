"""The MySQL protocol on a socket: one Connection per client, on the wire's own thread (asyncio).

    greeting -> [TLS] -> login, authentication -> commands
                HANDSHAKE_S for all of that       as long as the client likes

    a short read        runs here at once: no thread hop, no queue
    a short write       runs here; while its commit is made it steps aside for others
    any other           runs in the pool; chunks come back by the loop, a slow reader holds them up
    one that would      is run again in the pool: it has to wait for a row lock, say
    a client that goes  its session is closed (rolled back) as soon as nothing of it runs

Commands of one connection are answered strictly one after the other. What a client may have here:

    before its login        HANDSHAKE_BYTES, and REFUSED_S between a wrong proof and its answer: how
                            long it took tells nothing of the account
    its next command        taken when it is free and has read its answers; until then WAITING_BYTES
                            wait, then the socket is not read further
    a large frame           inflated by the pool, one at a time
    a large packet          INTAKE_BYTES of all connections together (`Intake`)
    this thread             SLICE_S, then the other connections have theirs

Who a client proves to be is decided in
authentication.py; what its statements do, in statements.py; how it looks in bytes, in packets.py.

The pool's threads are for statements that may block: a commit, a schema change, a long read. There
are as many as connections are allowed, started when first needed, so that no statement ever waits
for another connection's. An idle thread is used again before a new one is started. They are
daemons: one that hangs does not keep the process alive once everything else has been closed. That
is why this is no `concurrent.futures.ThreadPoolExecutor`: the interpreter joins its threads at
exit, so one statement that hangs would keep a stopped server alive. Nor does `run` make a Future,
which nobody here would wait for.
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
    asks,
)
from exuvia.sql.privileges.accounts import Accounts
from exuvia.sql.statement.context import Course, SessionApi

HANDSHAKE_S = 10.0
HANDSHAKE_BYTES = 1 << 14
REFUSED_S = 0.1
WAITING_BYTES = 1 << 20
LARGE_BYTES = 1 << 16
SLOW_BYTES = 1 << 16
"""A large packet grows by so much within net_read_timeout, or its connection ends."""
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
    """At most `most` threads. `run` never waits for a thread while that many are not busy.

    A server has INFLATING more than connections: a statement that reads a client's file holds its
    thread while the file is inflated."""

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
        """Have a thread do it. `work` must handle its own errors."""
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
        """Let every thread end after its present work."""
        for _ in self._threads:
            self._waiting.put(None)


class Intake:
    """Bounds what all connections have sent of large commands that do not run yet. On the wire's
    thread.

    Each connection says how much it holds. While all hold more than INTAKE_BYTES, one alone is read
    further, the one that began first. A command that runs holds its bytes for RUNNING_S at most:
    then they count for its statement alone (base/memory.py). Where more than FEW_SENDERS send
    large commands, one of them is read in each turn of the loop."""

    def __init__(self) -> None:
        self._held: dict[Connection, int] = {}
        self._waiting: dict[Connection, None] = {}
        self._turns: deque[Connection] = deque()
        self._sum = 0

    def hold(self, client: "Connection", size: int) -> bool:
        """The client holds so many bytes; whether it may be read further."""
        self._sum += size - self._held.get(client, 0)
        if size:
            self._held[client] = size
        else:
            self._held.pop(client, None)
            self._waiting.pop(client, None)
        if self._waiting and (self._sum <= INTAKE_BYTES or next(iter(self._held)) in self._waiting):
            self._wake()
        if self._sum > INTAKE_BYTES and size and next(iter(self._held)) is not client:
            self._waiting[client] = None
            return False
        if len(self._held) <= FEW_SENDERS or not size:
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
    """What every connection of a server shares. `open_session(connection id, host, login)`."""

    open_session: Callable[[int, str, Login], SessionApi]
    connections: Connections
    pool: Pool
    metrics: Metrics
    clock: Clock
    version: str
    slow: SlowLog
    accounts: Callable[[], Accounts | None] = lambda: None  # None: anybody is let in
    tls: ssl.SSLContext | None = None
    intake: Intake = Intake()
    traces: StatementTraces | None = None


class Connection(asyncio.Protocol):
    """One client. Every method runs on the wire's thread unless it says otherwise."""

    def __init__(self, parts: ServerParts) -> None:
        self.parts = parts
        self.id = 0
        self.host = ""
        self.port = 0
        self.login: Login | None = None
        self.statements: Statements | None = None
        self._spent_s, self._statements = 0.0, 0  # of the transaction that is open
        self.task: CommandTask | None = None
        self._turn = threading.Lock()  # of commands: who interrupts one must not hit the next
        self.since = parts.clock.monotonic()
        self._loop = asyncio.get_running_loop()
        self._incoming = Incoming(HANDSHAKE_BYTES)
        self._compressed: Compressed | None = None
        self._is_preparing = False  # a thread of the pool makes something of what has come
        self._is_held_back = False  # others have sent too much
        self._is_weighed = False  # the intake counts it
        self._is_queued = False  # it goes on in a further turn of the loop
        self._is_paused = False  # the socket is not read
        self._slice_end = 0.0
        self._heard = 0.0  # when the last part of an unfinished packet came; 0: there is none
        self._heard_bytes = 0  # that had come then
        self._running_bytes = 0  # of the large command that is prepared or runs
        self._asked_at = 0.0  # when its login came
        self._busy = False
        self._gone = False
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
        """Greet, or refuse when there are too many."""
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
        self._deadline = self._loop.call_later(HANDSHAKE_S, self._too_slow)

    def _too_slow(self) -> None:
        if self.statements is None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes have come: work off what is whole."""
        if self._heard and self._waiting <= LARGE_BYTES:
            self._heard = 0.0
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
        """Whether it may be read further: see Intake. `more`: bytes it is going to have."""
        held = self._running_bytes + more
        if (waiting := self._waiting) > LARGE_BYTES:
            held += waiting
        if held or self._is_weighed:
            self._is_weighed = bool(held)
            self._is_held_back = not self.parts.intake.hold(self, held)
        return not self._is_held_back

    def weigh_again(self) -> None:
        """There may be room for what it has sent."""
        if not self._gone and self._weigh():
            self._work()

    def go_on(self) -> None:
        """It may be read further."""
        self._is_held_back = False
        if not self._gone:
            self._work()

    def _malformed(self, error: Refused) -> None:
        self.parts.metrics.malformed += 1
        self._refuse_and_close(error, 1)

    def _after_tls_request(self, head: bytearray, data: bytes) -> bytes:
        """Look whether the client's first bytes ask for TLS; what it sent apart from that."""
        head += data
        wants_tls = asks(head)
        if wants_tls is None:  # too few to tell
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
        """Bytes that have come and are not worked off."""
        waiting = self._incoming.waiting
        return waiting if self._compressed is None else waiting + self._compressed.waiting

    def _has_room(self) -> bool:
        """Whether the next payload can be taken."""
        if self._is_preparing or self._is_queued or self._transport.is_closing():
            return False
        if self._is_held_back:
            return False
        if self._transfer is not None:
            return not self._is_transfer_full
        return not self._busy and self._writable.is_set()

    def _regulate(self) -> None:
        """Read the socket, but for what would wait here."""
        if not self._waiting and not self._is_paused:
            return
        waiting, has_room = self._waiting, self._has_room()
        if not waiting or not has_room:
            self._heard = 0.0
        elif not self._heard or not LARGE_BYTES < waiting < self._heard_bytes + SLOW_BYTES:
            self._heard, self._heard_bytes = self.parts.clock.monotonic(), waiting
        is_much = (waiting > WAITING_BYTES or self._is_held_back) and not has_room
        if is_much != self._is_paused and not self._transport.is_closing():
            self._is_paused = is_much
            if is_much:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _take(self) -> tuple[int, bytes | Payload] | None:
        """The next payload that is whole. Raises 1153, 1157, 1835."""
        taken = self._incoming.take()
        while taken is None and self._compressed is not None and not self._is_preparing:
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
            taken = self._incoming.take()
            if taken is None and self._is_slice_over():
                break
        return taken

    def _inflate(self, frame: CompressedFrame) -> None:
        """In the pool."""
        self._is_preparing = True

        def work() -> None:
            try:
                found: list[bytes] | Refused = frame.inflated()
            except Refused as error:
                found = error
            self._loop.call_soon_threadsafe(self._take_inflated, found)

        self.parts.pool.run(work)

    def _take_inflated(self, found: list[bytes] | Refused) -> None:
        self._is_preparing = False
        if self._gone or self._transport.is_closing():
            return
        if isinstance(found, Refused):
            self._malformed(found)
            return
        try:
            for piece in found:
                self._incoming.put(piece)
        except Refused as error:
            self._malformed(error)
            return
        self._weigh()
        self._work()

    def _assemble(self, sequence: int, payload: Payload) -> None:
        """Make a large payload's text or bytes, in the pool."""
        self._is_preparing = True
        self._running_bytes = payload.size
        self._weigh()
        statements = self.statements
        assert statements is not None

        def work() -> None:
            try:
                body: bytes | LongText | Exception = statements.body_of(payload)
            except Exception as error:  # whatever it was, the client gets an answer
                body = error
            self._loop.call_soon_threadsafe(self._take_assembled, sequence, payload.command, body)

        self.parts.pool.run(work)

    def _take_assembled(
        self, sequence: int, command: int, body: bytes | LongText | Exception
    ) -> None:
        self._is_preparing = False
        if self._gone or self._transport.is_closing():
            return
        self._command(Outgoing(sequence + 1 & 255), command, body)
        if self._busy:
            self._loop.call_later(RUNNING_S, self._forget_bytes)
        else:
            self._forget_bytes()
        self._work()

    def _forget_bytes(self) -> None:
        """Its large command is over, or has run for long."""
        if self._running_bytes and not self._is_preparing:
            self._running_bytes = 0
            self._weigh()

    def _is_slice_over(self) -> bool:
        """Whether other connections have their turn now; then this one goes on after them."""
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
        """Of a file."""
        if not payload:
            self._transfer = None
            self._incoming.end()
        self._is_transfer_full = transfer.put(sequence, payload) and self._transfer is not None

    def pause_writing(self) -> None:
        """The client reads slowly: threads that answer it wait, its commands too. It is sent away
        where it reads nothing for STALLED_S."""
        self._writable.clear()
        self._look_whether_it_reads(None)

    def _look_whether_it_reads(self, before: int | None) -> None:
        left = self._transport.get_write_buffer_size()
        if before is not None and left >= before:
            self._transport.abort()
            return
        self._stalled = self._loop.call_later(STALLED_S, self._look_whether_it_reads, left)

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        self._writable.set()
        self._loop.call_soon(self._work)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
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
        """The login, or an answer within the authentication. Who cannot log in is told why and
        sent away."""
        try:
            if self._authentication is not None:
                self._authenticate(payload, outgoing)
            else:
                self._begin_authentication(packets.read_login(payload), outgoing)
        except Exception as error:  # whatever it was, the client gets an answer
            self._deny(explain(error), outgoing.sequence)

    def _deny(self, error: Refused, sequence: int) -> None:
        """Who cannot log in is told so at the next multiple of REFUSED_S since it asked."""
        self._busy = True
        left_s = -(self._loop.time() - self._asked_at) % REFUSED_S
        self._loop.call_later(left_s, self._end_denied, error, sequence)

    def _end_denied(self, error: Refused, sequence: int) -> None:
        self._busy = False
        if self._gone:
            self._close_session()
        elif not self._transport.is_closing():
            self._refuse_and_close(error, sequence)

    def _begin_authentication(self, login: Login, outgoing: Outgoing) -> None:
        self._asked_at = self._loop.time()
        login = login._replace(secure=self._tls is not None)
        accounts = self.parts.accounts()
        if accounts is None:
            self._welcome(login, outgoing)
            return
        clock = self.parts.clock
        self._authentication = conversation(accounts, login, self.host, self._nonce, clock)
        self._authenticate(None, outgoing)

    def _authenticate(self, payload: bytes | None, outgoing: Outgoing) -> None:
        """Hand the client's answer (None: there was no question yet) to the conversation."""
        assert self._authentication is not None
        try:
            question = self._authentication.send(payload)  # type: ignore[arg-type]
            while question == PROVED:  # the client says nothing to that
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
        """In the pool: it may wait for the store. What the client sends meanwhile waits."""
        self._busy = True

        def work() -> None:
            error: Exception | None = None
            try:
                errand.run()
            except Exception as caught:  # whatever it was, the client gets an answer
                error = caught
            self._loop.call_soon_threadsafe(self._go_on, error, outgoing)

        self.parts.pool.run(work)

    def _go_on(self, error: Exception | None, outgoing: Outgoing) -> None:
        """The conversation after an errand."""
        self._busy = False
        if self._gone:
            self._close_session()
            return
        if self._transport.is_closing():
            return
        try:
            if error is not None:
                raise error
            self._authenticate(b"", outgoing)
        except Exception as refused:  # whatever it was, the client gets an answer
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
        """Run init_connect in the pool, before the first command, unless the account is privileged
        or its password has expired. Where it fails the first command gets 1184."""
        text = session.settings.at_start("init_connect")
        if not text or session.must_change_password:
            return
        if {"SUPER", "CONNECTION_ADMIN"} & session.rights.everywhere:
            return
        self._busy = True

        def work() -> None:
            try:
                session.execute(text)
            except Exception as error:  # whatever it was, the client gets an answer
                _log.warning("init_connect failed", extra={"reason": explain(error).message})
                self._is_aborted = True
            self._loop.call_soon_threadsafe(self._finish, None)

        self.parts.pool.run(work)

    def _open_session(self, login: Login) -> None:
        """Begin a session for this login; the one before is closed. Raises 1049."""
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

    # -- what others do to it ----------------------------------------------------------------------

    def kill(self) -> None:
        """End this connection: tell the client, close. A statement that runs is interrupted."""
        if self.statements is not None and self._busy:
            self.statements.session.interrupt()
        self._refuse_and_close(ErrConnectionKilled(), 0)

    def shut_down(self) -> None:
        """The node stops now: end this connection. A schema change that it waits for goes on."""
        if self.statements is not None and self._busy:
            self.statements.session.interrupt(lost=True)
        self._refuse_and_close(ErrServerShutdown(), 0)

    def leave(self) -> None:
        """The node stops: the client is told so (1053) between two transactions."""
        statements = self.statements
        is_within = statements is not None and statements.session.current is not None
        if not self._busy and not is_within and not self._transport.is_closing():
            self._refuse_and_close(ErrServerShutdown(), 0)

    def expire(self) -> None:
        """The client has been silent too long."""
        if not self._busy:
            self._refuse_and_close(ErrClientInteractionTimeout(), 0)

    def unfinished_s(self, now: float) -> float:
        """How long nothing more has come of a packet that has begun; 0 where none has. Any
        thread."""
        heard = self._heard
        return now - heard if heard else 0.0

    def interrupt(self) -> None:
        """KILL QUERY: end the command under way, also one whose statement has not begun; nothing
        where there is none, as in MySQL. Any thread."""
        with self._turn:
            statements = self.statements
            if statements is not None and self.task is not None:
                statements.session.interrupt()

    # -- commands ----------------------------------------------------------------------------------

    def _work(self) -> None:
        """Do what has come, in turn, until something is waited for."""
        self._slice_end = 0.0
        waiting = 1
        while self._has_room():
            try:
                taken = self._take()
            except Refused as error:
                self._malformed(error)
                return
            if taken is None:
                break
            if self._transfer is not None:
                self._take_part(self._transfer, *taken)  # type: ignore[arg-type]  # bytes there
            else:
                self._do(*taken)
            waiting = self._waiting
            if not waiting or self._is_slice_over():
                break
        if waiting or self._is_paused:
            self._regulate()
        else:
            self._heard = 0.0

    def _do(self, sequence: int, payload: bytes | Payload) -> None:
        """One command, or a packet of the login."""
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
        """One command; an error is what its payload was refused with."""
        assert self.statements is not None
        try:
            command = _COMMANDS.get(number)
            if isinstance(body, Exception):
                raise body
            if command is None:
                raise ErrUnknownCom()
            task = command(self, self.statements, body)
        except Exception as error:  # the client gets an answer whatever it was
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
            answered = Aside(answer, over, self._loop.call_soon_threadsafe).begin()
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
        """Close after COMMIT RELEASE or ROLLBACK RELEASE."""
        if self.statements is not None and self.statements.session.is_released:
            self._transport.close()

    def _answer(self, task: CommandTask, outgoing: Outgoing) -> bool:
        """Run it and send the answer; False for who has to wait: nothing was answered yet."""
        try:
            for chunk in task.work(outgoing):
                self._send(chunk)
        except WouldWait:
            return False
        except Exception as error:  # whatever it was, the client gets an answer
            self._send(refusal(error, outgoing, self.parts.metrics.failed))
        return True

    def _send(self, chunk: bytearray | Packed) -> None:
        if not self._gone:
            self._transport.write(chunk)

    def _come_back(
        self, task: CommandTask, outgoing: Outgoing, started: float, answered: bool
    ) -> None:
        """A command that had stepped aside is over, or has to be run again in the pool."""
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
        """Any thread. Two chunks are kept back to save the loop a wake-up for a small answer."""
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
        """Any thread: deflate it, where the client reads compressed packets."""
        compressed = self._compressed
        return chunk if chunk is None or compressed is None else compressed.packed(chunk)

    def _hand_over(self, chunk: bytearray | Packed) -> bool:
        """Any thread: pass a chunk to the loop when the client has room; False when it is gone."""
        self._ahead.acquire()
        self._writable.wait()
        if self._gone:
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
        if self._gone:
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
        """Any thread: ask the client for a file."""
        assert self.statements is not None
        outgoing.add(b"\xfb" + name)
        chunk, sequence = outgoing.take(), outgoing.sequence
        check = self.statements.session.check_interrupt
        transfer = Transfer(sequence, self._resume_soon, check)
        self._loop.call_soon_threadsafe(self._begin_transfer, transfer, chunk)
        return transfer

    def _begin_transfer(self, transfer: Transfer, chunk: bytearray) -> None:
        if self._gone:
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
        if not self._gone:
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
        """COM_CHANGE_USER: who cannot prove to be that user is sent away."""
        assert self.login is not None
        login = packets.read_change_user(payload, self.login)

        def work(outgoing: Outgoing) -> Chunks:
            try:
                self._begin_authentication(login, outgoing)
            except Exception as error:  # whatever it was, the client gets an answer
                self._deny(explain(error), outgoing.sequence)
            yield outgoing.take()

        return CommandTask(Course.AT_ONCE, "change user", "", work)

    def reset(self, database: str) -> CommandTask:
        """COM_RESET_CONNECTION: the same user and database, a new session."""
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
"""Commands by their first byte (source: MySQL protocol, "Command Phase"): a Task to run, or None
where the protocol wants no answer."""


# -- accepting -------------------------------------------------------------------------------------

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_S = 1.0


class Acceptor:
    """Takes clients from sockets that the other fronts of the node accept from as well."""

    def __init__(self, parts: ServerParts, listeners: Sequence[socket.socket]) -> None:
        self._parts = parts
        self._listeners = listeners
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Serve whoever comes, and whoever waits already."""
        self._tasks = [asyncio.create_task(self._accept(each)) for each in self._listeners]

    def stop(self, for_good: bool = False) -> None:
        """Take nobody more. Clients that it has stay. `for_good`: nobody of this node will."""
        for task in self._tasks:
            task.cancel()
        for listener in self._listeners:
            if for_good:  # or who comes would wait for the last process that has it open
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
            with suppress(OSError):  # it has gone already
                await loop.connect_accepted_socket(lambda: Connection(self._parts), client)


async def _readable(loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
    """A client waits there, or did until another front took it."""
    found = asyncio.Event()
    loop.add_reader(listener, found.set)
    try:
        await found.wait()
    finally:
        loop.remove_reader(listener)
