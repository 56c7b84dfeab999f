"""A connection, by libpq's own calls. Statements that belong together are sent together: they are
one round trip and, except for BEGIN, one transaction. Values are binary in both directions.

    run      send, and read the answers
    later    send; the next user of the connection reads and discards the answers

A statement is prepared by the connection that first needs it, in the same round trip.

    the server's error                                error raised
    class 08, 57P01-57P03, 25006; the link is cut     Lost: this connection is unusable
    EX001 ... (server.sql)                            ServerRefusal, to be interpreted by the caller
    40001, 40P01                                      ServerRefusal
    53100 disk full                                   OutOfSpace
    58030, class XX                                   StorageFailed
    else                                              Declined, with the server's text
"""

import logging
import math
import select
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from psycopg import NotSupportedError, OperationalError
from psycopg.pq import DiagnosticField, ExecStatus, PollingStatus
from psycopg.pq.abc import PGcancel, PGcancelConn, PGconn, PGresult

from exuvia.base.aside import require_waiting
from exuvia.base.errors import ExuviaError, OutOfSpace, StorageFailed, Unavailable
from exuvia.kv.lock_server import Looks

BOOL, BYTEA, INT8, INT4, TEXT = 16, 17, 20, 23, 25
BOOLS, BYTEAS, INT4S, INT8S, TEXTS = 1000, 1001, 1007, 1016, 1009
UUID = 2950
LEAST_WAIT_S = 0.001
CANCEL_S = 10.0
EVENTS_OF: dict[int, int] = {
    PollingStatus.READING: select.POLLIN,
    PollingStatus.WRITING: select.POLLOUT,
}
"""The event to wait for, by libpq's state of a connection that is being made."""

log = logging.getLogger(__name__)


class Lost(Unavailable):
    """The connection is gone; whether the running statements took effect is unknown."""


class ServerRefusal(ExuviaError):
    """A refusal that Exuvia's functions raise, or one that a later attempt may avoid."""

    def __init__(self, code: str, message: str, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail
        self.hint = hint


class Declined(Unavailable):
    """The server refused for the reason of this code."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.code, str(self)))


class Query(NamedTuple):
    """A statement to be prepared; `types` are those of its parameters."""

    name: bytes
    text: bytes
    types: tuple[int, ...] = ()


Call = tuple[Query, Sequence[bytes | None]]
BINARY = 1


def error_of(result: PGresult) -> Exception:
    """The error to raise for a failed result."""
    code = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
    message = (result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
    if not code:
        return Lost(f"the store's server: {result.get_error_message().strip()}")
    if code[:2] == "EX" or code in ("40001", "40P01"):
        detail = (result.error_field(DiagnosticField.MESSAGE_DETAIL) or b"").decode()
        hint = (result.error_field(DiagnosticField.MESSAGE_HINT) or b"").decode()
        return ServerRefusal(code, message, detail, hint)
    text = f"the store's server: {message} ({code})"
    if code[:2] == "08" or code in ("57P01", "57P02", "57P03", "25006", "25P03", "57P05"):
        return Lost(text)
    if code == "53100":
        return OutOfSpace(text)
    if code == "58030" or code[:2] == "XX":
        return StorageFailed(text)
    return Declined(code, text)


class PgConnection:
    """A connection. Not thread-safe. `since_s`: when it was made, monotonic."""

    def __init__(self, pq: PGconn) -> None:
        self._pq = pq
        self._poll = select.poll()
        self._poll.register(pq.socket, select.POLLIN)
        self._prepared: set[bytes] = set()
        self._owed = 0
        self._results: list[PGresult] = []
        self._failed: PGresult | None = None
        self._before: PGresult | None = None
        self.since_s = self.used_s = time.monotonic()
        self.is_lost = False
        pq.nonblocking = 1
        pq.enter_pipeline_mode()

    @property
    def host(self) -> str:
        """The server's host and port."""
        return f"{self._pq.host.decode()}:{self._pq.port.decode()}"

    @property
    def number(self) -> int:
        """The pid of the server's process for this connection."""
        return self._pq.backend_pid

    @property
    def socket(self) -> int:
        """Its descriptor, to wait for input."""
        return self._pq.socket

    def run(self, calls: Sequence[Call], within_s: float) -> list[PGresult]:
        """The results, in order. Raises the first error; later statements were not executed."""
        self.send(calls)
        return self.answers(within_s)

    def send(self, calls: Sequence[Call]) -> None:
        """Send statements. Raises Lost."""
        self.used_s = time.monotonic()
        pq = self._pq
        try:
            before = len(self._prepared)
            for statement, _ in calls:  # all before the first that may fail
                if statement.name not in self._prepared:
                    pq.send_prepare(statement.name, statement.text, statement.types)
                    self._prepared.add(statement.name)
            if len(self._prepared) > before:  # outside the transaction that may begin now
                pq.pipeline_sync()
                self._owed += 1
            for statement, values in calls:
                formats = (BINARY,) * len(values)
                pq.send_query_prepared(statement.name, list(values), formats, BINARY)
                if pq.flush():
                    self._flush()
            pq.pipeline_sync()
            self._owed += 1
            if pq.flush():
                self._flush()
        except OperationalError as error:
            raise self._lose(str(error)) from error

    def later(self, calls: Sequence[Call]) -> None:
        """Send, and leave the answers to the next user. Raises nothing."""
        try:
            self.send(calls)
        except Lost:
            return  # the next user notices it

    def answers(self, within_s: float, looks: Looks | None = None) -> list[PGresult]:
        """Results of the last send; answers of earlier sends are discarded."""
        deadline = time.monotonic() + within_s
        if looks is not None:
            self._poll.register(looks.woken, select.POLLIN)
        try:
            while self._owed:
                while self._pq.is_busy():
                    self._wait(deadline, looks)
                    self._pq.consume_input()
                self._take()
        except OperationalError as error:
            raise self._lose(str(error)) from error
        finally:
            if looks is not None:
                self._poll.unregister(looks.woken)
        return self._collected()

    def arrived(self) -> list[PGresult] | None:
        """As `answers`, without waiting: None until all have arrived. For the user of `socket`."""
        try:
            self._pq.consume_input()
            while self._owed:
                if self._pq.is_busy():
                    return None
                self._take()
        except OperationalError as error:
            raise self._lose(str(error)) from error
        return self._collected()

    def _take(self) -> None:
        """Take the next result, which has arrived."""
        result = self._pq.get_result()
        if result is None:
            return  # between two statements
        status = result.status
        if status == ExecStatus.PIPELINE_SYNC:
            self._owed -= 1
            if self._owed:
                self._results, self._before, self._failed = [], self._failed, None
        elif status == ExecStatus.TUPLES_OK:
            self._results.append(result)
        elif status == ExecStatus.FATAL_ERROR and self._failed is None:
            self._failed = result

    def _collected(self) -> list[PGresult]:
        """The results that were taken. Raises the first error."""
        results, failed, before = self._results, self._failed, self._before
        self._results, self._failed, self._before = [], None, None
        if failed is not None:
            self._raise(failed, before)
        self.used_s = time.monotonic()
        return results

    def _raise(self, failed: PGresult, before: PGresult | None) -> NoReturn:
        if failed.error_field(DiagnosticField.SQLSTATE) in (b"26000", b"42P05"):
            self.is_lost = True  # its prepared statements are not those recorded here
            failed = before or failed
        error = error_of(failed)
        raise self._lose(str(error)) if isinstance(error, Lost) else error

    def _wait(self, deadline: float, looks: Looks | None) -> None:
        remaining_s = max(LEAST_WAIT_S, deadline - time.monotonic())
        wait_s = remaining_s if looks is None else min(remaining_s, looks.every_s)
        events = self._poll.poll(wait_s * 1000)
        if not events and wait_s == remaining_s:
            self.cancel()
            raise self._lose("it gave no answer in time")
        if looks is not None and all(descriptor != self._pq.socket for descriptor, _ in events):
            looks.look()

    def _flush(self) -> None:
        """Send the rest. Input is read meanwhile; otherwise both sides would wait."""
        both = select.poll()
        both.register(self._pq.socket, select.POLLIN | select.POLLOUT)
        while self._pq.flush():
            for _, event in both.poll():
                if event & select.POLLIN:
                    self._pq.consume_input()

    def _lose(self, why: str) -> Lost:
        self.is_lost = True
        return Lost(f"the connection to the store's server was lost: {why.strip()}")

    def notified(self) -> list[str]:
        """Payloads of notifications received since the last call. Raises Lost."""
        try:
            self._pq.consume_input()
            payloads = []
            while (note := self._pq.notifies()) is not None:
                payloads.append(note.extra.decode())
        except OperationalError as error:
            raise self._lose(str(error)) from error
        return payloads

    def cancel(self) -> None:
        """Request cancellation of the running statement; by another connection, and bounded."""
        try:
            work = partial(_cancel, self._pq.cancel_conn())
        except NotSupportedError:  # a libpq before 17, which psycopg calls without the lock
            work = partial(_cancel_at_once, self._pq.get_cancel())
        except OperationalError:
            return
        threading.Thread(target=work, name="exuvia-cancel", daemon=True).start()

    def close(self) -> None:
        """Close the connection. A second call is harmless."""
        self.is_lost = True
        self._pq.finish()


def _cancel(request: PGcancelConn) -> None:
    """Cancel a statement. All waiting is in Python: libpq's own call holds the interpreter's lock
    until the server's host answers. That takes a minute and more if it is cut off."""
    deadline = time.monotonic() + CANCEL_S
    with suppress(OperationalError):
        request.start()
        status: int = PollingStatus.WRITING
        while status in EVENTS_OF:
            poll = select.poll()
            poll.register(request.socket, EVENTS_OF[status])
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                break
            status = request.poll()
        request.finish()


def _cancel_at_once(request: PGcancel) -> None:
    with suppress(OperationalError):
        request.cancel()


# -- values ----------------------------------------------------------------------------------------

_LENGTH = struct.Struct(">i").pack
_HEAD = struct.Struct(">iiiii").pack
_NO_ITEMS = struct.Struct(">iii").pack


def array(kind: int, items: Sequence[bytes]) -> bytes:
    """An array of type `kind`, of binary elements, as a parameter."""
    if not items:
        return _NO_ITEMS(0, 0, kind)
    lengths = map(_LENGTH, map(len, items))
    head = _HEAD(1, 0, kind, len(items), 1)
    return b"".join([head, *chain.from_iterable(zip(lengths, items, strict=True))])


def byteas(items: Sequence[bytes] | NDArray[Any]) -> bytes:
    """A parameter of type bytea[]."""
    if not isinstance(items, np.ndarray):
        return array(BYTEA, items)
    if not len(items):
        return array(BYTEA, [])
    width = items.dtype.itemsize
    cells = np.empty(len(items), [("n", ">i4"), ("item", f"V{width}")])
    cells["n"], cells["item"] = width, items
    return _HEAD(1, 0, BYTEA, len(items), 1) + cells.tobytes()


def int8s(items: Sequence[int]) -> bytes:
    """A parameter of type int8[]."""
    return _numbers(INT8, ">i8", items)


def int4s(items: Sequence[int]) -> bytes:
    """A parameter of type int4[]."""
    return _numbers(INT4, ">i4", items)


def _numbers(kind: int, type_: str, items: Sequence[int]) -> bytes:
    if not items:
        return _NO_ITEMS(0, 0, kind)
    cells = np.empty(len(items), [("n", ">i4"), ("item", type_)])
    cells["n"], cells["item"] = cells.dtype["item"].itemsize, items
    return _HEAD(1, 0, kind, len(items), 1) + cells.tobytes()


def bools(items: Iterable[bool]) -> bytes:
    """A parameter of type bool[]."""
    return array(BOOL, [b"\x01" if item else b"\x00" for item in items])


def texts(items: Sequence[str]) -> bytes:
    """A parameter of type text[]."""
    return array(TEXT, [item.encode() for item in items])


int8 = struct.Struct(">q").pack
int4 = struct.Struct(">i").pack
TRUE, FALSE = b"\x01", b"\x00"


def read_int8(value: bytes | None) -> int:
    """The int8 or int4 of an answer; NULL is 0."""
    return int.from_bytes(value or b"\0", "big", signed=True)


# -- pools -----------------------------------------------------------------------------------------


class PgPool:
    """At most `most` connections for one kind of use, made on demand. Thread-safe.

    The connection given back last is taken next. `full` makes the error for a caller that has
    waited for `wait_s`, or when no connection was given back for `stall_s`. In the latter case
    their holders keep them, and a thousand waiters would only wait for each other.
    """

    IDLE_S = 60.0
    LIFE_S = 3600.0

    def __init__(
        self,
        connect: Callable[[], PgConnection],
        most: int,
        wait_s: float,
        full: Callable[[int], Exception],
        stall_s: float = math.inf,
    ) -> None:
        self._connect = connect
        self._most = most
        self._wait_s = wait_s
        self._full = full
        self._stall_s = stall_s
        self._moved_s = time.monotonic()
        self._mutex = threading.Lock()
        self._waiting: deque[_PoolWaiter] = deque()
        self._idle: list[PgConnection] = []
        self._count = 0
        self._why = ""
        self.lost_s = -math.inf
        """When a connection was last found lost, monotonic."""

    def take(self, wait_s: float | None = None) -> PgConnection:
        """A connection for this caller alone. Raises Unavailable, or the error of `full`.

        Raises WouldWait in work on the thread that serves."""
        require_waiting()
        with self._mutex:
            if self._why:
                raise Unavailable(self._why)
            connection = None if self._waiting else self._fit()
            waiter = None
            if connection is None and self._count >= self._most:
                if self._is_stalled():
                    raise self._full(self._most)
                waiter = _PoolWaiter()
                self._waiting.append(waiter)
            elif connection is None:
                self._count += 1
                self._moved_s = time.monotonic()
        if waiter is not None:
            connection = self._wait(waiter, self._wait_s if wait_s is None else wait_s)
        if connection is not None:
            return connection
        try:
            return self._connect()
        except BaseException:
            self._free()
            raise

    def instead_of(self, lost: PgConnection) -> PgConnection:
        """A new connection in place of a lost one, which is closed.

        If this raises Unavailable, the lost one must still be given back."""
        if self._why:
            raise Unavailable(self._why)
        connection = self._connect()
        lost.close()
        self.lost_s = time.monotonic()
        return connection

    def _fit(self) -> PgConnection | None:
        """An idle connection that is usable, or None. To be called with the mutex held."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_lost and time.monotonic() - connection.since_s < self.LIFE_S:
                return connection
            self._count -= 1
            connection.close()
        return None

    def _wait(self, waiter: "_PoolWaiter", wait_s: float) -> PgConnection | None:
        """A connection, or None as the permission to make one."""
        deadline = time.monotonic() + wait_s
        while not waiter.ready.acquire(timeout=max(0.0, min(wait_s, self._stall_s))):
            with self._mutex:
                if waiter not in self._waiting:
                    continue  # it has just been handed over
                if self._is_stalled() or time.monotonic() >= deadline:
                    self._waiting.remove(waiter)
                    raise self._full(self._most)
        if self._why:
            if waiter.connection is not None:
                waiter.connection.close()
            raise Unavailable(self._why)
        return waiter.connection

    def _is_stalled(self) -> bool:
        return time.monotonic() - self._moved_s > self._stall_s

    def give(self, connection: PgConnection) -> None:
        """Give a connection back, to the first waiter. A lost one is closed."""
        with self._mutex:
            self._moved_s = time.monotonic()
            fit = not connection.is_lost and not self._why
            if fit and self._waiting:
                self._waiting.popleft().hand(connection)
                return
            if fit:
                self._idle.append(connection)
                return
        if connection.is_lost:
            self.lost_s = time.monotonic()
        connection.close()
        self._free()

    def _free(self) -> None:
        """A connection is gone: the first waiter may make another one."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().hand(None)
            else:
                self._count -= 1

    def drop_idle(self) -> None:
        """Close connections that were idle for long, and lost ones."""
        now = time.monotonic()
        with self._mutex:
            old = [c for c in self._idle if c.is_lost or now - c.used_s > self.IDLE_S]
            self._idle = [connection for connection in self._idle if connection not in old]
            self._count -= len(old)
        for connection in old:
            connection.close()

    def suspect(self) -> None:
        """To be called when a connection was lost: idle ones are probably lost, too."""
        self.close_idle("")

    def close_idle(self, why: str) -> None:
        """Close the idle connections. `why`: also refuse all later requests, with this reason."""
        with self._mutex:
            old, self._idle = self._idle, []
            self._count -= len(old)
            self._why = why or self._why
            waiting = list(self._waiting) if why else []
            self._waiting = deque() if why else self._waiting
        for waiter in waiting:
            waiter.hand(None)
        for connection in old:
            connection.close()


class _PoolWaiter:
    """A caller that waits for a connection."""

    __slots__ = ("connection", "ready")

    def __init__(self) -> None:
        self.connection: PgConnection | None = None
        self.ready = threading.Lock()
        self.ready.acquire()

    def hand(self, connection: PgConnection | None) -> None:
        """Pass a connection on, or None as the permission to make one."""
        self.connection = connection
        self.ready.release()
