"""Reads of many statements as one question to the server.

    statement A    ahead(marks), get(row)      \
    statement B    ahead(marks), first(span)    >  one SELECT, so one snapshot; each takes its part
    statement C    ahead(marks), get(row)      /

Statements of the thread that serves (base/aside.py) step aside while the question is under way.
Reads that begin meanwhile form the next question. The loop awaits the socket, so no other thread
takes part. The SELECT is a transaction of its own: it needs no BEGIN, view and ROLLBACK.

Why this reads what a snapshot of the statement's own would have read:

  - A question is sent after all of its statements have begun. So its snapshot sees each commit that
    was acknowledged, by any node, before one of them began.
  - All that a statement reads is from one question: the rows, and the marks by which its plan is
    checked (law 1). A read after the answer raises WouldWait.

An error of a question is not an error of its statements. All of them raise WouldWait, and run again
in other threads, with snapshots of their own. Statements also raise it if the question before
theirs is late, for example because a page of another table is read from a disk. Tables with long
rows are not read here.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from cachetools import LRUCache
from psycopg.pq.abc import PGresult

from exuvia.base.aside import Aside, ServingLoop
from exuvia.base.errors import ExuviaError, WouldWait
from exuvia.kv.packet import Span, StampedValues
from exuvia.kv.postgres.connection import (
    BYTEAS,
    INT8S,
    PgConnection,
    PgPool,
    Query,
    byteas,
    int8s,
    read_int8,
)

LATE_S = 0.01
LATE = 4
"""A question is late after this time, and this multiple of the usual time of a question."""
RETRY_S = 1.0
MOST_BYTES = 8192
"""Limit of the keys of a question, so that sending it never waits for the server."""
LONG_VALUE = 64 << 10
MOST_TABLES = 1024
_TABLE = 9  # the first bytes of a key, which name its table

_KEYS = Query(b"grouped_keys", b"SELECT k, v FROM kv WHERE k = ANY ($1)", (BYTEAS,))
_SPANS = Query(
    b"grouped_spans",
    b"SELECT k, v, 0::bigint FROM kv WHERE k = ANY ($1) UNION ALL "
    b"SELECT found.k, found.v, span.n FROM unnest($2, $3, $4) WITH ORDINALITY "
    b"AS span(low, high, most, n), LATERAL "
    b"(SELECT k, v FROM kv WHERE k >= low AND k < high ORDER BY k LIMIT most) AS found",
    (BYTEAS, BYTEAS, BYTEAS, INT8S),
)

log = logging.getLogger(__name__)

Go = Callable[[], None]


class GroupedRequest:
    """The reads of one statement. `values` None: no answer, so that it reads for itself."""

    __slots__ = ("go", "keys", "most", "raws", "span", "values")

    def __init__(self, keys: Sequence[bytes], span: Span | None, most: int) -> None:
        self.keys = keys
        self.span = span
        self.most = most
        self.values: dict[bytes, bytes] | None = None
        self.raws: list[bytes] = []
        self.go: Go | None = None

    @property
    def size(self) -> int:
        size = sum(map(len, self.keys))
        return size if self.span is None else size + len(self.span.start) + len(self.span.end)


class GroupedReads:
    """The questions of one process. It is used by one loop, in the thread of that loop.

    `connect` makes its connection, in a thread. A question without an answer for `answer_s` ends
    the connection."""

    def __init__(self, connect: Callable[[], PgConnection], answer_s: float) -> None:
        self._connect = connect
        self._answer_s = answer_s
        self._loop: ServingLoop | None = None
        self._connection: PgConnection | None = None
        self._descriptor = -1
        self._is_opening = False
        self._retry_s = 0.0
        self._waiting: list[GroupedRequest] = []
        self._in_flight: list[GroupedRequest] = []
        self._sent_s = 0.0
        self._usual_s = LATE_S / LATE
        self._watches = self._is_late = False
        self._long: LRUCache[bytes, bool] = LRUCache(MOST_TABLES)
        self._why = ""
        self.questions = self.statements = 0

    # -- asking ----------------------------------------------------------------------------------

    def read(
        self, here: Aside, keys: Sequence[bytes], span: Span | None, most: int
    ) -> GroupedRequest:
        """The values of the keys, and of the first `most` keys of the span, in one snapshot.

        Raises WouldWait for a statement that has to take a snapshot of its own."""
        request = GroupedRequest(keys, span, most)
        if not self._takes(request, here.loop):
            raise WouldWait
        here.until(lambda go: self._queue(request, go), by_loop=True)
        if request.values is None:
            raise WouldWait
        return request

    def _takes(self, request: GroupedRequest, loop: ServingLoop) -> bool:
        if self._connection is None or self._loop is not loop:
            self._open(loop)
            return False
        if self._is_late:
            return False
        if self._long:
            starts = request.keys if request.span is None else (*request.keys, request.span.start)
            return not any(start[:_TABLE] in self._long for start in starts)
        return True

    @property
    def _late_s(self) -> float:
        return max(LATE_S, LATE * self._usual_s)

    def _queue(self, request: GroupedRequest, go: Go) -> None:
        assert self._loop is not None
        request.go = go
        self._waiting.append(request)
        if not self._in_flight:
            if len(self._waiting) == 1:
                self._loop.call_soon(self._ask)  # with others of the same turn of the loop
        else:
            self._watch_later()

    def _watch_later(self) -> None:
        if not self._watches:
            assert self._loop is not None
            self._watches = True
            left_s = self._sent_s + self._late_s - time.monotonic()
            self._loop.call_later(max(0.0, left_s), self._watch)

    def _ask(self) -> None:
        """Send what waits as one question."""
        connection = self._connection
        if self._in_flight or not self._waiting:
            return
        if connection is None or time.monotonic() - connection.since_s > PgPool.LIFE_S:
            self._lose("its connection is old")
            return
        batch = self._in_flight = self._batch()
        keys = byteas(list(dict.fromkeys(chain.from_iterable([request.keys for request in batch]))))
        spans = [(r.span, r.most) for r in batch if r.span is not None]
        self._sent_s = time.monotonic()
        if self._waiting:
            self._watch_later()
        self.questions += 1
        self.statements += len(batch)
        try:
            if spans:
                lows, highs = (byteas([span[n] for span, _ in spans]) for n in range(2))
                limits = int8s([most for _, most in spans])
                connection.send([(_SPANS, (keys, lows, highs, limits))])
            else:
                connection.send([(_KEYS, (keys,))])
        except ExuviaError as error:
            self._lose(str(error))

    def _batch(self) -> list[GroupedRequest]:
        """The next requests of a question's size."""
        room, number = MOST_BYTES, 0
        for request in self._waiting:
            room -= request.size
            if room < 0 and number:
                break
            number += 1
        batch, self._waiting = self._waiting[:number], self._waiting[number:]
        return batch

    # -- answers ---------------------------------------------------------------------------------

    def _read_input(self) -> None:
        """Take an answer, if it is complete, and have its statements continue."""
        connection = self._connection
        if connection is None:
            return
        try:
            results = connection.arrived()
        except ExuviaError as error:
            if connection.is_lost:
                self._lose(str(error))
            else:
                self._answer(None)
            return
        if results is not None and self._in_flight:
            took_s = min(time.monotonic() - self._sent_s, self._late_s)
            self._usual_s += (took_s - self._usual_s) / 16
            self._answer(results[-1])

    def _answer(self, result: PGresult | None) -> None:
        assert self._loop is not None
        batch, self._in_flight, self._is_late = self._in_flight, [], False
        if result is not None:
            self._hand_out(batch, result)
        self._let_go(batch)
        if self._waiting:
            self._loop.call_soon(self._ask)

    def _hand_out(self, batch: Sequence[GroupedRequest], result: PGresult) -> None:
        values: dict[bytes, bytes] = {}
        with_spans = [request for request in batch if request.span is not None]
        value = result.get_value
        for n in range(result.ntuples):
            key, raw = value(n, 0) or b"", value(n, 1) or b""
            if len(raw) > LONG_VALUE:
                self._long[key[:_TABLE]] = True
            number = read_int8(value(n, 2)) if with_spans else 0
            if number:
                with_spans[number - 1].raws.append(raw)
            else:
                values[key] = raw
        for request in batch:
            request.values = values

    def _watch(self) -> None:
        """Send statements away that wait for a late question.

        The loop has just looked for its answer, so a busy loop makes no question late."""
        self._watches = False
        if not self._in_flight or not self._waiting:
            return
        if time.monotonic() - self._sent_s < self._late_s:
            self._watch_later()
            return
        self._is_late = True
        waiting, self._waiting = self._waiting, []
        self._let_go(waiting)

    @staticmethod
    def _let_go(requests: Sequence[GroupedRequest]) -> None:
        for request in requests:
            assert request.go is not None
            request.go()

    # -- the connection --------------------------------------------------------------------------

    def _open(self, loop: ServingLoop) -> None:
        """Begin to connect, unless that is under way or has just failed."""
        if self._is_opening or self._why or time.monotonic() < self._retry_s:
            return
        if self._connection is not None:
            if self._loop is not None and not self._loop.is_closed():
                return  # another loop of this process uses it
            self._connection.close()
            self._connection = None
        self._loop, self._is_opening = loop, True
        threading.Thread(target=self._make, args=(loop,), name="exuvia-read", daemon=True).start()

    def _make(self, loop: ServingLoop) -> None:
        connection = None
        try:
            connection = self._connect()
        except ExuviaError as error:
            log.warning("no connection for grouped reads", extra={"reason": str(error)})
        try:
            loop.call_soon_threadsafe(lambda: self._opened(connection))
        except RuntimeError:  # the loop has ended
            self._is_opening, self._loop = False, None
            if connection is not None:
                connection.close()

    def _opened(self, connection: PgConnection | None) -> None:
        assert self._loop is not None
        self._is_opening = False
        if connection is None:
            self._retry_s = time.monotonic() + RETRY_S
        elif self._why:
            connection.close()
        else:
            self._connection = connection
            self._descriptor = connection.socket  # libpq forgets it with the connection
            self._loop.add_reader(self._descriptor, self._read_input)

    def _lose(self, why: str) -> None:
        """Close the connection. All its statements read for themselves."""
        connection, self._connection = self._connection, None
        requests, self._in_flight, self._waiting = self._in_flight + self._waiting, [], []
        self._is_late = False
        if connection is not None:
            assert self._loop is not None
            if not self._why:
                log.info("grouped reads connect again", extra={"reason": why})
            self._loop.remove_reader(self._descriptor)
            connection.close()
        self._let_go(requests)

    def keep(self) -> None:
        """End a question that has no answer in time. Called periodically, by any thread."""
        loop = self._loop
        if loop is None or not self._in_flight:
            return
        if time.monotonic() - self._sent_s > self._answer_s:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._end_overdue)

    def _end_overdue(self) -> None:
        if self._in_flight and time.monotonic() - self._sent_s > self._answer_s:
            if self._connection is not None:
                self._connection.cancel()
            self._lose("it gave no answer in time")

    def close(self, why: str) -> None:
        """Close the connection; later reads take snapshots. Any thread."""
        self._why = why
        loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(lambda: self._lose(why))
        except RuntimeError:  # the loop has ended
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def orphan(self) -> None:
        """In a forked child: nothing of the parent's may be used or released."""
        _parents.append(self._connection)
        self._connection, self._why = None, "forked"


_parents: list[PgConnection | None] = []


class GroupedSnapshot(StampedValues):
    """A snapshot for one read and the keys announced before it. See SnapshotUse.ONCE."""

    __slots__ = ("_grouped", "_here", "_is_used", "_keys", "_values")
    order = 0  # its transaction has no other snapshot

    def __init__(self, grouped: GroupedReads, here: Aside) -> None:
        self._grouped = grouped
        self._here = here
        self._keys: list[bytes] = []
        self._values: Mapping[bytes, bytes] = {}
        self._is_used = False

    def ahead(self, keys: Sequence[bytes]) -> None:
        if not self._is_used:
            self._keys += keys

    def get(self, key: bytes) -> bytes | None:
        """The raw value, or None."""
        self._require((key,))
        return self._values.get(key)

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """The raw values of the keys that exist."""
        self._require(keys)
        return {key: raw for key in keys if (raw := self._values.get(key)) is not None}

    def first(self, span: Span, count: int) -> list[bytes]:
        """Raw values of the first `count` keys."""
        if self._is_used:
            raise WouldWait
        return self._read(span, count).raws

    def _require(self, keys: Sequence[bytes]) -> None:
        if not self._is_used:
            self._keys += keys
            self._read(None, 0)
        elif not self._values or any(key not in self._keys for key in keys):
            raise WouldWait

    def _read(self, span: Span | None, most: int) -> GroupedRequest:
        self._is_used = True
        request = self._grouped.read(self._here, self._keys, span, most)
        assert request.values is not None
        self._values = request.values
        return request

    def _needs_own(self, *_: object) -> Any:
        raise WouldWait

    sequence = view = property(_needs_own)
    saw: Any = _needs_own
    scan: Any = _needs_own
    chunks: Any = _needs_own
    pieces: Any = _needs_own
    count: Any = _needs_own

    def in_use(self, running: bool) -> None:
        """Does nothing: it ends with the answer."""

    def close(self) -> None:
        """Does nothing: it ends with the answer."""
