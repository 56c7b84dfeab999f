"""A connection, by libpq's own calls: statements that belong together are sent together and are one
round trip and, but for BEGIN, one transaction. Values go and come in binary.

    run      send, and read the answers
    later    send; the answers are read, and forgotten, by whoever uses the connection next

A statement is prepared by the connection that first needs it, in the same round trip.

    what the server says                              what is raised
    class 08, 57P01-57P03, 25006; the link is cut     Lost: this connection serves no more
    EX001 ... (server.sql)                            ServerRefusal, for whoever asked to interpret
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
"""What to wait for, by what libpq says of a connection that is being made."""

log = logging.getLogger(__name__)


class Lost(Unavailable):
    """The connection is gone; what was under way may have been done or not."""


class ServerRefusal(ExuviaError):
    """A refusal that the server was told to give, or that a later attempt may not meet."""

    def __init__(self, code: str, message: str, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail
        self.hint = hint


class Declined(Unavailable):
    """The server did not do it, for the reason of this code."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.code, str(self)))


class Query(NamedTuple):
    """One to be prepared; `types` are those of its parameters."""

    name: bytes
    text: bytes
    types: tuple[int, ...] = ()


Call = tuple[Query, Sequence[bytes | None]]
BINARY = 1


def error_of(result: PGresult) -> Exception:
    """What a result that is an error is raised as."""
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
    """Not thread-safe. `since_s`: when it was made, monotonic; `host`: who serves it."""

    def __init__(self, pq: PGconn) -> None:
        self._pq = pq
        self._poll = select.poll()
        self._poll.register(pq.socket, select.POLLIN)
        self._prepared: set[bytes] = set()
        self._owed = 0
        self.since_s = self.used_s = time.monotonic()
        self.is_lost = False
        pq.nonblocking = 1
        pq.enter_pipeline_mode()

    @property
    def host(self) -> str:
        """Of the server."""
        return f"{self._pq.host.decode()}:{self._pq.port.decode()}"

    @property
    def number(self) -> int:
        """The server's process that serves it."""
        return self._pq.backend_pid

    @property
    def socket(self) -> int:
        """To wait on; for who listens."""
        return self._pq.socket

    def run(self, calls: Sequence[Call], within_s: float) -> list[PGresult]:
        """The results, in order. Raises the first error; nothing after it was done."""
        self.send(calls)
        return self.answers(within_s)

    def send(self, calls: Sequence[Call]) -> None:
        """Put them on their way. Raises Lost."""
        self.used_s = time.monotonic()
        pq = self._pq
        try:
            known = len(self._prepared)
            for statement, _ in calls:  # all before the first that may fail
                if statement.name not in self._prepared:
                    pq.send_prepare(statement.name, statement.text, statement.types)
                    self._prepared.add(statement.name)
            if len(self._prepared) > known:  # not in the transaction that may be begun now
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
        """Send, and let whoever comes next read what comes of it. Raises nothing."""
        try:
            self.send(calls)
        except Lost:
            return  # whoever takes it next sees it

    def answers(self, within_s: float, looks: Looks | None = None) -> list[PGresult]:
        """Results of what was sent last; what came of earlier sends is forgotten."""
        found: list[PGresult] = []
        failed: PGresult | None = None
        before: PGresult | None = None
        deadline = time.monotonic() + within_s
        if looks is not None:
            self._poll.register(looks.woken, select.POLLIN)
        try:
            while self._owed:
                result = self._next(deadline, looks)
                if result is None:
                    continue  # between two statements
                status = result.status
                if status == ExecStatus.PIPELINE_SYNC:
                    self._owed -= 1
                    if self._owed:
                        found, before, failed = [], failed, None
                elif status == ExecStatus.TUPLES_OK:
                    found.append(result)
                elif status == ExecStatus.FATAL_ERROR and failed is None:
                    failed = result
        except OperationalError as error:
            raise self._lose(str(error)) from error
        finally:
            if looks is not None:
                self._poll.unregister(looks.woken)
        if failed is not None:
            self._raise(failed, before)
        self.used_s = time.monotonic()
        return found

    def _raise(self, failed: PGresult, before: PGresult | None) -> NoReturn:
        if failed.error_field(DiagnosticField.SQLSTATE) in (b"26000", b"42P05"):
            self.is_lost = True  # what is prepared here is not what was thought
            failed = before or failed
        found = error_of(failed)
        raise self._lose(str(found)) if isinstance(found, Lost) else found

    def _next(self, deadline: float, looks: Looks | None) -> PGresult | None:
        pq = self._pq
        while pq.is_busy():
            self._wait(deadline, looks)
            pq.consume_input()
        return pq.get_result()

    def _wait(self, deadline: float, looks: Looks | None) -> None:
        left_s = max(LEAST_WAIT_S, deadline - time.monotonic())
        wait_s = left_s if looks is None else min(left_s, looks.every_s)
        found = self._poll.poll(wait_s * 1000)
        if not found and wait_s == left_s:
            self.cancel()
            raise self._lose("it gave no answer in time")
        if looks is not None and all(descriptor != self._pq.socket for descriptor, _ in found):
            looks.look()

    def _flush(self) -> None:
        """All that is not sent yet; what comes meanwhile is taken in, or both sides wait."""
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
        """Payloads of the notifications that have come. Raises Lost."""
        try:
            self._pq.consume_input()
            found = []
            while (note := self._pq.notifies()) is not None:
                found.append(note.extra.decode())
        except OperationalError as error:
            raise self._lose(str(error)) from error
        return found

    def cancel(self) -> None:
        """Ask the server to stop what it does here; by another connection, and at most briefly."""
        try:
            work = partial(_cancel, self._pq.cancel_conn())
        except NotSupportedError:  # a libpq before 17, which psycopg calls without the lock
            work = partial(_cancel_at_once, self._pq.get_cancel())
        except OperationalError:
            return
        threading.Thread(target=work, name="exuvia-cancel", daemon=True).start()

    def close(self) -> None:
        """Twice is harmless."""
        self.is_lost = True
        self._pq.finish()


def _cancel(asked: PGcancelConn) -> None:
    """All waiting is in Python: libpq's own call holds the interpreter's lock until the server's
    host answers, a minute and more where it is cut off."""
    deadline = time.monotonic() + CANCEL_S
    with suppress(OperationalError):
        asked.start()
        status: int = PollingStatus.WRITING
        while status in EVENTS_OF:
            poll = select.poll()
            poll.register(asked.socket, EVENTS_OF[status])
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                break
            status = asked.poll()
        asked.finish()


def _cancel_at_once(asked: PGcancel) -> None:
    with suppress(OperationalError):
        asked.cancel()


# -- values ----------------------------------------------------------------------------------------

_LENGTH = struct.Struct(">i").pack
_HEAD = struct.Struct(">iiiii").pack
_NO_ITEMS = struct.Struct(">iii").pack


def array(kind: int, items: Sequence[bytes]) -> bytes:
    """An array of `kind`, of items in binary, as a parameter."""
    if not items:
        return _NO_ITEMS(0, 0, kind)
    lengths = map(_LENGTH, map(len, items))
    head = _HEAD(1, 0, kind, len(items), 1)
    return b"".join([head, *chain.from_iterable(zip(lengths, items, strict=True))])


def byteas(items: Sequence[bytes] | NDArray[Any]) -> bytes:
    """bytea[]."""
    if not isinstance(items, np.ndarray):
        return array(BYTEA, items)
    if not len(items):
        return array(BYTEA, [])
    width = items.dtype.itemsize
    cells = np.empty(len(items), [("n", ">i4"), ("item", f"V{width}")])
    cells["n"], cells["item"] = width, items
    return _HEAD(1, 0, BYTEA, len(items), 1) + cells.tobytes()


def int8s(items: Sequence[int]) -> bytes:
    """int8[]."""
    return _numbers(INT8, ">i8", items)


def int4s(items: Sequence[int]) -> bytes:
    """int4[]."""
    return _numbers(INT4, ">i4", items)


def _numbers(kind: int, type_: str, items: Sequence[int]) -> bytes:
    if not items:
        return _NO_ITEMS(0, 0, kind)
    cells = np.empty(len(items), [("n", ">i4"), ("item", type_)])
    cells["n"], cells["item"] = cells.dtype["item"].itemsize, items
    return _HEAD(1, 0, kind, len(items), 1) + cells.tobytes()


def bools(items: Iterable[bool]) -> bytes:
    """bool[]."""
    return array(BOOL, [b"\x01" if item else b"\x00" for item in items])


def texts(items: Sequence[str]) -> bytes:
    """text[]."""
    return array(TEXT, [item.encode() for item in items])


int8 = struct.Struct(">q").pack
int4 = struct.Struct(">i").pack
TRUE, FALSE = b"\x01", b"\x00"


def read_int8(value: bytes | None) -> int:
    """An int8 or int4 of an answer; NULL is 0."""
    return int.from_bytes(value or b"\0", "big", signed=True)


# -- pools -----------------------------------------------------------------------------------------


class PgPool:
    """Connections of one kind of use, made when they are needed, `most` of them; the last one given
    back is taken next. Thread-safe.

    `full` says what is raised for who has waited `wait_s`, or found that none has come back for
    `stall_s`: whoever has them keeps them, and a thousand who wait would only wait for each other.
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
        self._waiting: deque[_Wanted] = deque()
        self._idle: list[PgConnection] = []
        self._made = 0
        self._why = ""
        self.lost_s = -math.inf
        """When a connection was last found lost, monotonic."""

    @property
    def taken(self) -> int:
        """How many are in use."""
        return self._made - len(self._idle)

    def take(self, wait_s: float | None = None) -> PgConnection:
        """One that nobody else uses. Raises Unavailable, or what `full` says."""
        with self._mutex:
            if self._why:
                raise Unavailable(self._why)
            found = None if self._waiting else self._fit()
            wanted = None
            if found is None and self._made >= self._most:
                if self._is_stalled():
                    raise self._full(self._most)
                wanted = _Wanted()
                self._waiting.append(wanted)
            elif found is None:
                self._made += 1
                self._moved_s = time.monotonic()
        if wanted is not None:
            found = self._wait(wanted, self._wait_s if wait_s is None else wait_s)
        if found is not None:
            return found
        try:
            return self._connect()
        except BaseException:
            self._free()
            raise

    def instead_of(self, lost: PgConnection) -> PgConnection:
        """A new one in place of one that was lost. Where that raises Unavailable the lost one is
        still to be given back."""
        if self._why:
            raise Unavailable(self._why)
        found = self._connect()
        lost.close()
        self.lost_s = time.monotonic()
        return found

    def _fit(self) -> PgConnection | None:
        """One that lies idle and is fit for use. To be called with the mutex held."""
        while self._idle:
            found = self._idle.pop()
            if not found.is_lost and time.monotonic() - found.since_s < self.LIFE_S:
                return found
            self._made -= 1
            found.close()
        return None

    def _wait(self, wanted: "_Wanted", wait_s: float) -> PgConnection | None:
        """A connection, or None and the right to make one."""
        deadline = time.monotonic() + wait_s
        while not wanted.ready.acquire(timeout=max(0.0, min(wait_s, self._stall_s))):
            with self._mutex:
                if wanted not in self._waiting:
                    continue  # it was handed over this moment
                if self._is_stalled() or time.monotonic() >= deadline:
                    self._waiting.remove(wanted)
                    raise self._full(self._most)
        if self._why:
            if wanted.found is not None:
                wanted.found.close()
            raise Unavailable(self._why)
        return wanted.found

    def _is_stalled(self) -> bool:
        return time.monotonic() - self._moved_s > self._stall_s

    def give(self, connection: PgConnection) -> None:
        """Back, to who has waited longest; a lost one is forgotten."""
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
        """One is gone: who has waited longest may make another."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().hand(None)
            else:
                self._made -= 1

    def drop_idle(self) -> None:
        """Close those that nobody needed for long, and what is lost."""
        now = time.monotonic()
        with self._mutex:
            old = [each for each in self._idle if each.is_lost or now - each.used_s > self.IDLE_S]
            self._idle = [each for each in self._idle if each not in old]
            self._made -= len(old)
        for each in old:
            each.close()

    def suspect(self) -> None:
        """A connection was lost: those that lie idle are as good as lost."""
        self.close_idle("")

    def close_idle(self, why: str) -> None:
        """Close those that lie idle; `why`: nobody gets another."""
        with self._mutex:
            old, self._idle = self._idle, []
            self._made -= len(old)
            self._why = why or self._why
            waiting = list(self._waiting) if why else []
            self._waiting = deque() if why else self._waiting
        for wanted in waiting:
            wanted.hand(None)
        for each in old:
            each.close()


class _Wanted:
    """Who waits for a connection."""

    __slots__ = ("found", "ready")

    def __init__(self) -> None:
        self.found: PgConnection | None = None
        self.ready = threading.Lock()
        self.ready.acquire()

    def hand(self, connection: PgConnection | None) -> None:
        """A connection, or the right to make one."""
        self.found = connection
        self.ready.release()
