"""A snapshot is a REPEATABLE READ transaction on a connection of its own.

The transaction begins with its first read, in the same round trip, unless its view is needed
earlier. The server keeps every row version that the snapshot may need, so a forgotten one must end.
It ends when it was not used for `idle_s`, or is older than `query_s`; its next use raises
Unavailable. While a statement uses it (`in_use`) it is not idle.

Each read is a round trip, so keys that will probably be read are fetched with the first one. These
are announced keys (`ahead`), and those that the same thread read earlier after the same first key
(habits.py). Loops read the same keys and spans again and again.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

from psycopg.pq.abc import PGresult

from exuvia.base.errors import Unavailable
from exuvia.kv.packet import Span, StampedValues
from exuvia.kv.postgres.connection import (
    BYTEA,
    BYTEAS,
    INT8,
    Call,
    Lost,
    PgConnection,
    PgPool,
    Query,
    byteas,
    int8,
    read_int8,
)
from exuvia.kv.postgres.habits import Habits, Question
from exuvia.kv.postgres.server import ROLLBACK

FIRST_ROWS, MOST_ROWS = 8, 2048
FEW_KEYS = 32
PAGE_ROWS, MOST_PAGE_ROWS, PAGE_BYTES = 1024, 10_000, 4 << 20
CLOSED = "the snapshot is closed"

BEGIN = Query(b"begin_read", b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
EXPORT = Query(b"export", b"SELECT pg_export_snapshot()")
SEEN = Query(b"seen", b"SELECT pg_current_snapshot()::text::bytea")
GET = Query(b"get", b"SELECT v FROM kv WHERE k = $1", (BYTEA,))
GET_MANY = Query(b"get_many", b"SELECT k, v FROM kv WHERE k = ANY ($1)", (BYTEAS,))
_RANGE = (BYTEA, BYTEA, INT8)
PAGE = Query(b"page", b"SELECT k, v FROM kv WHERE k >= $1 AND k < $2 ORDER BY k LIMIT $3", _RANGE)
PAGE_BACK = Query(
    b"page_back", b"SELECT k, v FROM kv WHERE k >= $1 AND k < $2 ORDER BY k DESC LIMIT $3", _RANGE
)
FIRST = Query(b"first", b"SELECT v FROM kv WHERE k >= $1 AND k < $2 ORDER BY k LIMIT $3", _RANGE)
COUNT = Query(
    b"count",
    b"SELECT count(*) FROM (SELECT 1 FROM kv WHERE k >= $1 AND k < $2 LIMIT $3) found",
    _RANGE,
)


class SnapshotView:
    """The view of a snapshot, by transaction numbers.

    All transactions below `xmin` have ended, those from `xmax` on had not begun. Between these,
    those in `running` had not ended. A stamp is the number of a transaction plus `base`; stamps
    that are not above `base` are from another server."""

    __slots__ = ("base", "running", "text", "xmax", "xmin")

    def __init__(self, base: int, text: str) -> None:
        self.base: Final = base
        self.text: Final = text
        low, high, running = text.split(":")
        self.xmin: Final = int(low)
        self.xmax: Final = int(high)
        self.running: Final = frozenset(map(int, running.split(","))) if running else frozenset()

    @property
    def horizon(self) -> int:
        return self.base + self.xmin - 1

    @property
    def position(self) -> str:
        return f"{self.base}/{self.text}"

    def saw(self, stamp: int) -> bool:
        number = stamp - self.base
        return number < self.xmin or (number < self.xmax and number not in self.running)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SnapshotView) and self.position == other.position

    def __hash__(self) -> int:
        return hash((self.base, self.text))


def seen_at(position: str) -> SnapshotView:
    """The view with this `position`."""
    base, _, text = position.partition("/")
    return SnapshotView(int(base), text)


Pair = tuple[bytes, bytes]


def pairs_of(result: PGresult) -> list[Pair]:
    """The pairs of an answer with two columns."""
    value = result.get_value
    return [(value(n, 0) or b"", value(n, 1) or b"") for n in range(result.ntuples)]


_MOMENT = re.compile(r"[0-9A-F]+-[0-9A-F]+-[0-9]+")


def moment_calls(name: str) -> list[Call]:
    """Statements by which a new transaction uses the snapshot that another one has exported.

    The server allows no parameter there. Raises Unavailable for an invalid name."""
    if not name:
        return []
    if not _MOMENT.fullmatch(name):
        raise Unavailable(f"no name of a moment: {name!r}")
    return [(Query(b"moment " + name.encode(), f"SET TRANSACTION SNAPSHOT '{name}'".encode()), ())]


class PostgresSnapshot(StampedValues):
    """The engine's Snapshot, see kv/packet.py.

    `next_order`: returns an order above all earlier ones. `habits` None: nothing is fetched in
    advance. `moment`: the name of an exported snapshot."""

    MOST_KNOWN = 256

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_ahead_pages",
        "_answer_s",
        "_base",
        "_born_s",
        "_cache",
        "_cached_pages",
        "_connection",
        "_forget",
        "_habits",
        "_in_use",
        "_lock",
        "_next_order",
        "_order",
        "_pool",
        "_questions",
        "_start",
        "_used_s",
        "_view",
        "_why",
    )

    def __init__(
        self,
        pool: PgPool,
        base: int,
        next_order: Callable[[], int],
        forget: Callable[["PostgresSnapshot"], None],
        answer_s: float,
        habits: Habits | None = None,
        moment: str = "",
    ) -> None:
        self._pool = pool
        self._start: tuple[Call, ...] = ((BEGIN, ()), *moment_calls(moment))
        self._habits = habits
        self._questions: dict[Question, int] = {}
        self._base = base
        self._next_order = next_order
        self._forget = forget
        self._answer_s = answer_s
        self._lock = threading.Lock()
        self._connection: PgConnection | None = None
        self._view: SnapshotView | None = None
        self._order = 0
        self._why = ""
        self._ahead: list[bytes] = []
        self._ahead_pages: dict[tuple[bytes, bytes], int] = {}
        self._cache: dict[bytes, bytes | None] = {}
        self._cached_pages: dict[tuple[bytes, bytes], tuple[list[Pair], int]] = {}
        self._in_use = False
        self._born_s = self._used_s = time.monotonic()

    # -- the view --------------------------------------------------------------------------------

    @property
    def view(self) -> SnapshotView:
        if self._view is None:
            self.begin()
        assert self._view is not None
        return self._view

    @property
    def sequence(self) -> int:
        view = self.view
        return view.base + view.xmax - 1

    @property
    def order(self) -> int:
        if self._view is None:
            self.begin()
        return self._order

    def saw(self, stamp: int) -> bool:
        return self.view.saw(stamp)

    def begin(self) -> None:
        """Begin the transaction if it has not begun."""
        with self._lock:
            self._ask(())

    def export(self) -> str:
        """Export the snapshot. Returns the name for `moment`, valid while this one is open.

        The snapshot is in use from now on."""
        self.in_use(True)
        return (self._run(EXPORT).get_value(0, 0) or b"").decode()

    # -- reading ---------------------------------------------------------------------------------

    def ahead(self, keys: Sequence[bytes]) -> None:
        self._ahead += [key for key in keys if key not in self._cache]

    def _run(self, statement: Query, *values: bytes) -> PGresult:
        """The answer of a statement; announced keys are fetched with it."""
        with self._lock:
            if not self._ahead and not self._ahead_pages:
                return self._ask(((statement, values),))[-1]
            keys, self._ahead = self._ahead, []
            pages, self._ahead_pages = self._ahead_pages, {}
            more: list[Call] = [(PAGE, (*span, int8(size))) for span, size in pages.items()]
            if keys:
                more.append((GET_MANY, (byteas(keys),)))
            results = self._ask(((statement, values), *more))[-1 - len(more) :]
            if keys:
                self._cache.update(dict.fromkeys(keys))
                self._cache.update(pairs_of(results[-1]))
            for (span, size), result in zip(pages.items(), results[1:], strict=False):
                self._cached_pages[span] = pairs_of(result), size
            return results[0]

    def _expect(self, question: Question) -> None:
        """Announce the keys that this thread usually reads after this one."""
        if self._habits is None or len(self._questions) >= Habits.LONGEST:
            return
        if not self._questions:
            for other, (rows, _) in self._habits.after(question).items():
                if len(other) == 2:
                    self._ahead_pages[other] = max(FIRST_ROWS, 2 * rows)
                elif other[0] not in self._cache:
                    self._ahead.append(other[0])
        self._questions.setdefault(question, 0)

    def _ask(self, calls: "tuple[Call, ...]") -> list[PGresult]:
        """Run the calls. To be called with the lock held."""
        if self._why:
            raise Unavailable(self._why)
        self._used_s = time.monotonic()
        if self._connection is not None:
            if not calls:
                return []
            try:
                return self._connection.run(calls, self._answer_s)
            except BaseException as error:
                self._end(f"the snapshot has ended: {error}")
                raise
        attempt = 0
        while True:
            connection = self._pool.take()
            try:
                results = connection.run((*self._start, (SEEN, ()), *calls), self._answer_s)
                break
            except BaseException as error:
                attempt += 1
                if not isinstance(error, Lost) and not connection.is_lost:
                    connection.later(((ROLLBACK, ()),))
                self._pool.give(connection)
                if not isinstance(error, Lost) or attempt > 1:
                    raise
                self._pool.suspect()  # the first read: the connection may have been idle for long
        self._connection = connection
        self._view = SnapshotView(self._base, (results[0].get_value(0, 0) or b"").decode())
        self._order = self._next_order()
        return results

    def get(self, key: bytes) -> bytes | None:
        """The raw value, or None."""
        self._expect((key,))
        if key in self._cache:
            return self._cache[key]
        if key in self._ahead:
            self._ahead.remove(key)
        result = self._run(GET, key)
        raw = result.get_value(0, 0) if result.ntuples else None
        if len(self._cache) < self.MOST_KNOWN:
            self._cache[key] = raw
        return raw

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """The raw values of the keys that exist."""
        if self._habits is None or len(keys) > FEW_KEYS:
            return dict(pairs_of(self._run(GET_MANY, byteas(keys)))) if keys else {}
        for key in keys:
            self._expect((key,))
        missing = [key for key in keys if key not in self._cache]
        if missing:
            raws = dict(pairs_of(self._run(GET_MANY, byteas(missing))))
            self._cache.update((key, raws.get(key)) for key in missing)
        return {key: raw for key in keys if (raw := self._cache[key]) is not None}

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Raw pairs in key order."""
        return chain.from_iterable(self._pages(span, reverse))

    def _pages(self, span: Span, reverse: bool) -> Iterator[list[tuple[bytes, bytes]]]:
        """As `scan`, in pages that double in size, so that few pairs are read needlessly."""
        statement = PAGE_BACK if reverse else PAGE
        (low, high), size, question = span, FIRST_ROWS, (span.start, span.end)
        if not reverse:
            self._expect(question)
        while low < high:
            cached = None if reverse else self._cached_pages.get((low, high))
            if cached is not None:
                pairs, size = cached
            else:
                self._ahead_pages.pop((low, high), None)
                pairs = pairs_of(self._run(statement, low, high, int8(size)))
            if question in self._questions:
                self._questions[question] += len(pairs)
            yield pairs
            if len(pairs) < size:
                return
            if reverse:
                high = pairs[-1][0]
            else:
                low = pairs[-1][0] + b"\0"
            size = min(2 * size, MOST_ROWS)

    def first(self, span: Span, count: int) -> list[bytes]:
        """Raw values of the first `count` keys."""
        result = self._run(FIRST, span.start, span.end, int8(count))
        return [result.get_value(n, 0) or b"" for n in range(result.ntuples)]

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Raw keys and values, at most `rows` and some megabytes at a time."""
        (low, high), size = span, min(rows, PAGE_ROWS)
        while low < high:
            result = self._run(PAGE, low, high, int8(size))
            value, places = result.get_value, range(result.ntuples)
            keys = [value(n, 0) or b"" for n in places]
            values = [value(n, 1) or b"" for n in places]
            if keys:
                yield keys, values
            if len(keys) < size:
                return
            low = keys[-1] + b"\0"
            mean = 1 + sum(map(len, values)) // len(values)
            size = max(1, min(rows, MOST_PAGE_ROWS, 4 * size, PAGE_BYTES // mean))

    def count(self, span: Span, most: int = -1) -> int:
        """The number of keys in the span; if there are more than `most`, some number above it."""
        limit = int8(most + 1 if most >= 0 else (1 << 62))
        return read_int8(self._run(COUNT, span.start, span.end, limit).get_value(0, 0))

    # -- closing ---------------------------------------------------------------------------------

    def require_open(self) -> None:
        with self._lock:
            self._ask(())

    def in_use(self, running: bool) -> None:
        self._in_use = running
        self._used_s = time.monotonic()

    def close(self) -> None:
        """Release the connection."""
        self.end(CLOSED)
        self._forget(self)

    def end(self, why: str) -> None:
        """Release the connection; later uses raise this reason."""
        with self._lock:
            self._end(why)

    def _end(self, why: str) -> None:
        if self._why:
            return
        self._why = why
        if self._habits is not None and len(self._questions) > 1:
            self._habits.keep(self._questions)
        connection, self._connection = self._connection, None
        if connection is not None:
            if not connection.is_lost:
                connection.later(((ROLLBACK, ()),))
            self._pool.give(connection)

    def age(self, now: float, idle_s: float, query_s: float) -> None:
        """End it if it is too old. Called periodically."""
        if self._connection is None or not self._lock.acquire(blocking=False):
            return  # it has no connection, or is being read
        try:
            if now - self._born_s > query_s:
                self._end(f"the snapshot was open longer than {query_s:g} s")
            elif not self._in_use and now - self._used_s > idle_s:
                self._end(f"the snapshot was not used for {idle_s:g} s")
        finally:
            self._lock.release()

    def orphan(self) -> None:
        """In a forked child: nothing of the parent's may be used or released."""
        self._lock = threading.Lock()
        _parents.append(self._connection)
        self._connection = None
        self._why = FORKED


FORKED = "a store is opened once per process and never across fork: open it again here"
_parents: list[PgConnection | None] = []
