"""A snapshot is a REPEATABLE READ transaction of a connection that nobody else uses until it ends.

It is begun by its first read and in the same round trip, unless it is asked before what it sees.
The server keeps every row version that it may need, so one that is forgotten ends: when it was not
used for `idle_s`, or is older than `query_s`; its next use raises Unavailable. While a statement
runs on it (`in_use`) it is not idle.

Each question is a round trip, so what is sure to be asked comes with what is asked first: keys that
were announced (`ahead`), and what the same thread asked for after the same first question before
(habits.py): a loop looks at the same keys and spans again and again."""

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
    """The view of a snapshot: all transactions below `xmin` have ended, none from `xmax` on had
    begun to, and of those between the ones in `running` had not ended. Stamps are the numbers of
    transactions and `base`; one that is not above `base` is from another server."""

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
    """Inverse of `position`."""
    base, _, text = position.partition("/")
    return SnapshotView(int(base), text)


Pair = tuple[bytes, bytes]


def pairs_of(result: PGresult) -> list[Pair]:
    """Of an answer with two columns."""
    value = result.get_value
    return [(value(n, 0) or b"", value(n, 1) or b"") for n in range(result.ntuples)]


_MOMENT = re.compile(r"[0-9A-F]+-[0-9A-F]+-[0-9]+")


def moment_calls(name: str) -> list[Call]:
    """What makes a transaction that has just begun see what the exporter sees. The server takes no
    parameter there. Raises Unavailable for what is no name."""
    if not name:
        return []
    if not _MOMENT.fullmatch(name):
        raise Unavailable(f"no name of a moment: {name!r}")
    return [(Query(b"moment " + name.encode(), f"SET TRANSACTION SNAPSHOT '{name}'".encode()), ())]


class PostgresSnapshot(StampedValues):
    """See kv/packet.py's Snapshot. `next_order` gives the number of one that sees more than all
    before; `habits` None: it is read as no other; `moment`: what another has exported."""

    MOST_KNOWN = 256

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_ahead_pages",
        "_answer_s",
        "_asked",
        "_base",
        "_born_s",
        "_connection",
        "_forget",
        "_habits",
        "_in_use",
        "_known",
        "_lock",
        "_next_order",
        "_order",
        "_pages_known",
        "_pool",
        "_seen",
        "_start",
        "_used_s",
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
        self._asked: dict[Question, int] = {}
        self._base = base
        self._next_order = next_order
        self._forget = forget
        self._answer_s = answer_s
        self._lock = threading.Lock()
        self._connection: PgConnection | None = None
        self._seen: SnapshotView | None = None
        self._order = 0
        self._why = ""
        self._ahead: list[bytes] = []
        self._ahead_pages: dict[tuple[bytes, bytes], int] = {}
        self._known: dict[bytes, bytes | None] = {}
        self._pages_known: dict[tuple[bytes, bytes], tuple[list[Pair], int]] = {}
        self._in_use = False
        self._born_s = self._used_s = time.monotonic()

    # -- what it sees ----------------------------------------------------------------------------

    @property
    def view(self) -> SnapshotView:
        if self._seen is None:
            self.begin()
        assert self._seen is not None
        return self._seen

    @property
    def sequence(self) -> int:
        view = self.view
        return view.base + view.xmax - 1

    @property
    def order(self) -> int:
        if self._seen is None:
            self.begin()
        return self._order

    def saw(self, stamp: int) -> bool:
        return self.view.saw(stamp)

    def begin(self) -> None:
        """Begin it now, if it has not."""
        with self._lock:
            self._ask(())

    def export(self) -> str:
        """The name under which others see the same (`moment`), as long as this one is open; it is
        in use until then."""
        self.in_use(True)
        return (self._run(EXPORT).get_value(0, 0) or b"").decode()

    # -- asking ----------------------------------------------------------------------------------

    def ahead(self, keys: Sequence[bytes]) -> None:
        self._ahead += [key for key in keys if key not in self._known]

    def _run(self, statement: Query, *values: bytes) -> PGresult:
        """Its answer; what was asked for ahead comes with it."""
        with self._lock:
            if not self._ahead and not self._ahead_pages:
                return self._ask(((statement, values),))[-1]
            keys, self._ahead = self._ahead, []
            pages, self._ahead_pages = self._ahead_pages, {}
            more: list[Call] = [(PAGE, (*span, int8(size))) for span, size in pages.items()]
            if keys:
                more.append((GET_MANY, (byteas(keys),)))
            found = self._ask(((statement, values), *more))[-1 - len(more) :]
            if keys:
                self._known.update(dict.fromkeys(keys))
                self._known.update(pairs_of(found[-1]))
            for (span, size), result in zip(pages.items(), found[1:], strict=False):
                self._pages_known[span] = pairs_of(result), size
            return found[0]

    def _expect(self, question: Question) -> None:
        """What this thread is used to ask after it comes along."""
        if self._habits is None or len(self._asked) >= Habits.LONGEST:
            return
        if not self._asked:
            for other, (rows, _) in self._habits.after(question).items():
                if len(other) == 2:
                    self._ahead_pages[other] = max(FIRST_ROWS, 2 * rows)
                elif other[0] not in self._known:
                    self._ahead.append(other[0])
        self._asked.setdefault(question, 0)

    def _ask(self, calls: "tuple[Call, ...]") -> list[PGresult]:
        """To be called with the lock held."""
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
                found = connection.run((*self._start, (SEEN, ()), *calls), self._answer_s)
                break
            except BaseException as error:
                attempt += 1
                if not isinstance(error, Lost) and not connection.is_lost:
                    connection.later(((ROLLBACK, ()),))
                self._pool.give(connection)
                if not isinstance(error, Lost) or attempt > 1:
                    raise
                self._pool.suspect()  # nothing was read yet: it may have lain idle for long
        self._connection = connection
        self._seen = SnapshotView(self._base, (found[0].get_value(0, 0) or b"").decode())
        self._order = self._next_order()
        return found

    def get(self, key: bytes) -> bytes | None:
        """Raw value or None."""
        self._expect((key,))
        if key in self._known:
            return self._known[key]
        if key in self._ahead:
            self._ahead.remove(key)
        result = self._run(GET, key)
        found = result.get_value(0, 0) if result.ntuples else None
        if len(self._known) < self.MOST_KNOWN:
            self._known[key] = found
        return found

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """Raw values of those keys that are there."""
        if self._habits is None or len(keys) > FEW_KEYS:
            return dict(pairs_of(self._run(GET_MANY, byteas(keys)))) if keys else {}
        for key in keys:
            self._expect((key,))
        missing = [key for key in keys if key not in self._known]
        if missing:
            found = dict(pairs_of(self._run(GET_MANY, byteas(missing))))
            self._known.update((key, found.get(key)) for key in missing)
        return {key: raw for key in keys if (raw := self._known[key]) is not None}

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Raw pairs in key order."""
        return chain.from_iterable(self._pages(span, reverse))

    def _pages(self, span: Span, reverse: bool) -> Iterator[list[tuple[bytes, bytes]]]:
        """The same in pages that double in size, so that little is read in vain."""
        statement = PAGE_BACK if reverse else PAGE
        (low, high), size, question = span, FIRST_ROWS, (span.start, span.end)
        if not reverse:
            self._expect(question)
        while low < high:
            known = None if reverse else self._pages_known.get((low, high))
            if known is not None:
                pairs, size = known
            else:
                self._ahead_pages.pop((low, high), None)
                pairs = pairs_of(self._run(statement, low, high, int8(size)))
            if question in self._asked:
                self._asked[question] += len(pairs)
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
        found = self._run(FIRST, span.start, span.end, int8(count))
        return [found.get_value(n, 0) or b"" for n in range(found.ntuples)]

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Raw keys and values, at most `rows` at a time and some megabytes."""
        (low, high), size = span, min(rows, PAGE_ROWS)
        while low < high:
            found = self._run(PAGE, low, high, int8(size))
            value, places = found.get_value, range(found.ntuples)
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
        """How many keys the span holds; some number beyond `most` where they are more."""
        limit = int8(most + 1 if most >= 0 else (1 << 62))
        return read_int8(self._run(COUNT, span.start, span.end, limit).get_value(0, 0))

    # -- the end ---------------------------------------------------------------------------------

    def require_open(self) -> None:
        with self._lock:
            self._ask(())

    def in_use(self, running: bool) -> None:
        self._in_use = running
        self._used_s = time.monotonic()

    def close(self) -> None:
        """Give the connection back."""
        self.end(CLOSED)
        self._forget(self)

    def end(self, why: str) -> None:
        """Give the connection back for a reason that later uses are told."""
        with self._lock:
            self._end(why)

    def _end(self, why: str) -> None:
        if self._why:
            return
        self._why = why
        if self._habits is not None and len(self._asked) > 1:
            self._habits.keep(self._asked)
        connection, self._connection = self._connection, None
        if connection is not None:
            if not connection.is_lost:
                connection.later(((ROLLBACK, ()),))
            self._pool.give(connection)

    def age(self, now: float, idle_s: float, query_s: float) -> None:
        """Called now and then: end it if it is due."""
        if self._connection is None or not self._lock.acquire(blocking=False):
            return  # it has none, or it is read this moment
        try:
            if now - self._born_s > query_s:
                self._end(f"the snapshot was open longer than {query_s:g} s")
            elif not self._in_use and now - self._used_s > idle_s:
                self._end(f"the snapshot was not used for {idle_s:g} s")
        finally:
            self._lock.release()

    def orphan(self) -> None:
        """In a forked child: nothing of the parent's may be used, or given back."""
        self._lock = threading.Lock()
        _parents.append(self._connection)
        self._connection = None
        self._why = FORKED


FORKED = "a store is opened once per process and never across fork: open it again here"
_parents: list[PgConnection | None] = []
