"""Waiting on channels across hosts, and presences.

A commit to a channel is announced by NOTIFY, in a later transaction of its own. NOTIFY takes a lock
over the whole server, which no commit should hold. One connection of a process listens. After a
notification the process reads the named counters in one query and caches them. Reading a counter
and waiting for it therefore take no round trip. A cached counter may be too low, which costs a
waiter a needless check. It is never too high, otherwise a wait would not end. The process's own
commits are counted: each adds one to the value read before the commit began. A value read later may
or may not include the commit, so it is read again.

Correctness does not depend on notifications. All counters are read every HEARD_S, and without a
listener each waiter reads its own every `fallback_s`.

A presence is an advisory lock of a connection of its own; it ends with the process. If the
connection was lost, the lock is taken again on a new one. In between, others may take the process
for ended. That does no harm: an ended process is fenced (laws 2 and 3) before another takes its
place.
"""

import logging
import select
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b

from exuvia.base.clock import Clock
from exuvia.base.errors import ExuviaError, Unavailable
from exuvia.kv.postgres.connection import (
    INT8,
    TEXT,
    Call,
    PgConnection,
    PgPool,
    Query,
    int8,
    read_int8,
)
from exuvia.kv.postgres.server import Server

RETRY_S = 1.0
HEARD_S = 2.0  # interval of reads of all counters; a process may end before its NOTIFY
_CLOSED_S = 0.5  # interval of checks whether it is closed

_LISTEN = Query(b"listen", b"LISTEN exuvia")
_TELL = Query(b"tell", b"SELECT pg_notify('exuvia', $1)::text", (TEXT,))
_HOLD = Query(b"hold", b"SELECT pg_try_advisory_lock($1)::int", (INT8,))
_HELD = Query(
    b"held",
    b"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted "
    b"AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    b"AND classid = ($1 >> 32 & 4294967295)::text::oid AND objid = ($1 & 4294967295)::text::oid",
    (INT8,),
)
_LET_GO = Query(b"let_go", b"SELECT pg_advisory_unlock_all()::text")

log = logging.getLogger(__name__)


class _Waiter:
    """A thread that waits; its gate is a lock, released when the thread is to check."""

    __slots__ = ("after", "gate", "woken")

    def __init__(self, after: int) -> None:
        self.after = after
        self.woken = False
        self.gate = threading.Lock()
        self.gate.acquire()


class Listener:
    """The waiters of this process. `read(channels)` returns the channels' committed counters."""

    def __init__(
        self,
        server: Server,
        pool: PgPool,
        read: Callable[[Sequence[str]], list[int]],
        clock: Clock,
    ) -> None:
        self._server = server
        self._pool = pool
        self._read = read
        self._clock = clock
        self._mutex = threading.Lock()
        self._waiters: dict[str, set[_Waiter]] = {}
        self._counters: dict[str, int] = {}  # by channel, for used channels
        self._reads: Counter[str] = Counter()  # number of reads of each counter
        self._why = ""
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self.is_listening = False

    # -- waiting ---------------------------------------------------------------------------------

    def counter(self, channel: str) -> int:
        """The channel's counter; at most its present value, at least that of the last read."""
        with self._mutex:
            if self.is_listening and channel in self._counters:
                return self._counters[channel]
            self._counters.setdefault(channel, 0)  # from now on notifications for it are used
            if self._thread is None and not self._why:
                self._thread = threading.Thread(
                    target=self._listen, name="exuvia-listen", daemon=True
                )
                self._thread.start()
        counters = self._read([channel])
        with self._mutex:
            self._keep([channel], counters)
            return self._counters[channel]

    def _keep(self, channels: Sequence[str], counters: Sequence[int]) -> None:
        """Cache counters. To be called with the mutex held."""
        self._reads.update(channels)
        for channel, value in zip(channels, counters, strict=True):
            self._counters[channel] = max(self._counters[channel], value)

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        """Wait until the counter is > `after`, or for the timeout. Returns the counter."""
        value = self.counter(channel)
        if value > after or timeout_s <= 0:
            return value
        deadline = self._clock.monotonic() + timeout_s
        waiter = _Waiter(after)
        with self._mutex:
            self._waiters.setdefault(channel, set()).add(waiter)
        try:
            while True:
                value = self.counter(channel)
                left_s = deadline - self._clock.monotonic()
                if value > after or left_s <= 0:
                    return value
                look_s = HEARD_S if self.is_listening else self._server.settings.fallback_s
                if waiter.gate.acquire(timeout=min(left_s, look_s)):
                    with self._mutex:
                        waiter.woken = False
                if self._why:
                    raise Unavailable(self._why)
        finally:
            with self._mutex:
                waiting = self._waiters[channel]
                waiting.discard(waiter)
                if not waiting:
                    del self._waiters[channel]

    def _listen(self) -> None:
        while not self._why:
            try:
                self._hear(self._server.connect("listening"))
            except ExuviaError as error:
                if not self._why:
                    log.warning("nobody listens for wake-ups", extra={"reason": str(error)})
            self.is_listening = False
            self._closed.wait(RETRY_S)

    def _hear(self, connection: PgConnection) -> None:
        try:
            connection.run([(_LISTEN, ())], self._server.settings.answer_s)
            with self._mutex:  # after a failover counters may be lower
                self._counters = dict.fromkeys(self._counters, 0)
            self._look(None)  # notifications before this were missed
            self.is_listening = True
            poll = select.poll()
            poll.register(connection.socket, select.POLLIN)
            looked_s = self._clock.monotonic()
            while not self._why:
                payloads = connection.notified() if poll.poll(_CLOSED_S * 1000) else []
                now = self._clock.monotonic()
                if now - looked_s >= HEARD_S:
                    looked_s = now
                    self._look(None)
                elif payloads:
                    self._look({name for payload in payloads for name in payload.split(",")})
        finally:
            connection.close()

    def _look(self, names: Container[str] | None) -> None:
        """Read the counters of these channels (None: all), and wake waiters for lower values."""
        with self._mutex:
            channels = [channel for channel in self._counters if names is None or channel in names]
        if not channels:
            return
        counters = self._read(channels)
        with self._mutex:
            self._keep(channels, counters)
            for channel in channels:
                value = self._counters[channel]
                self._open(w for w in self._waiters.get(channel, ()) if w.after < value)

    def _open(self, waiters: Iterable[_Waiter]) -> None:
        """Wake waiters. To be called with the mutex held."""
        for waiter in waiters:
            if not waiter.woken:
                waiter.woken = True
                waiter.gate.release()

    # -- waking ----------------------------------------------------------------------------------

    def reads(self, channels: Iterable[str]) -> dict[str, int]:
        """The number of reads of each counter. Call it before a commit that changes them."""
        with self._mutex:
            return {channel: self._reads[channel] for channel in channels}

    def announce(self, channels: Sequence[str], before: Mapping[str, int]) -> None:
        """To be called after commits to these channels, each named once per commit.

        Wakes all waiters, in all processes. `before`: the result of `reads`."""
        unsure = set()
        with self._mutex:
            for channel in channels:
                if self._reads[channel] != before[channel]:
                    unsure.add(channel)
                elif channel in self._counters:
                    self._counters[channel] += 1  # other processes may have raised it further
                self._open(self._waiters.get(channel, ()))
        if unsure:
            with suppress(ExuviaError):  # other processes also check by themselves
                self._look(unsure)
        try:
            connection = self._pool.take()
        except Unavailable:
            return  # other processes also check by themselves
        tell: Call = (_TELL, [",".join(dict.fromkeys(channels))[:4000].encode()])
        connection.later([tell])
        self._pool.give(connection)

    def close(self, why: str) -> None:
        """Wake all waiters; later waits raise Unavailable."""
        with self._mutex:
            self._why = why
            self._closed.set()
            for waiters in self._waiters.values():
                self._open(waiters)


# -- presence --------------------------------------------------------------------------------------


def _number(schema: str, name: str) -> bytes:
    digest = blake2b(f"{schema}\0{name}".encode(), digest_size=8).digest()
    return int8(int.from_bytes(digest, "big") >> 1)


class HeldPresence:
    """A held presence; see Store.hold. Call `keep` periodically."""

    def __init__(self, server: Server, name: str, forget: Callable[["HeldPresence"], None]) -> None:
        self.name = name
        self._server = server
        self._forget = forget
        self._mutex = threading.Lock()
        self._connection: PgConnection | None = self._take()

    def _take(self) -> PgConnection:
        connection = self._server.connect("presence")
        number = _number(self._server.settings.schema, self.name)
        try:
            (result,) = connection.run([(_HOLD, [number])], self._server.settings.answer_s)
            if not read_int8(result.get_value(0, 0)):
                raise Unavailable(f"{self.name} is held by a living process")
        except BaseException:
            connection.close()
            raise
        return connection

    def keep(self) -> None:
        """Take the lock again if the connection was lost."""
        with self._mutex:
            connection = self._connection
            if connection is None:
                return
            try:
                connection.notified()  # a closed socket; keep-alives close it if the host is silent
            except ExuviaError as error:
                log.warning("a presence was lost", extra={"of": self.name, "reason": str(error)})
                connection.close()
                try:
                    self._connection = self._take()
                except ExuviaError:
                    return  # repeated at the next call

    def release(self) -> None:
        """End the presence. A second call is harmless."""
        with self._mutex:
            connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(ExuviaError):  # otherwise the server notices a little later
                connection.run([(_LET_GO, ())], self._server.settings.silent_s)
            connection.close()
        self._forget(self)


def is_held(pool: PgPool, server: Server, name: str) -> bool:
    """Whether a living process holds the presence."""
    connection = pool.take()
    try:
        number = _number(server.settings.schema, name)
        (result,) = connection.run([(_HELD, [number])], server.settings.answer_s)
        return bool(read_int8(result.get_value(0, 0)))
    finally:
        pool.give(connection)
