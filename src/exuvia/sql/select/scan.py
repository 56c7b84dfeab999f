"""Rows of one table reference as Arrow batches, for DuckDB: only the columns asked for, of the
statement's snapshot.

    a selective key in the WHERE    access path: rows by key, in batches (sql/access/choose.py)
    otherwise                       pieces of stored bytes, decoded by column (catalog/codec)
    own writes of the transaction   rows that were changed are left out, the changed ones follow

One reader serves one table reference once. It is pulled by DuckDB in the thread that runs the
query, while others read ahead. The step of a recursive CTE reads its tables again and again, so
they are read into memory: only the columns used, by the access path chosen."""

import os
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from exuvia.base import interruption
from exuvia.base.memory import size_of
from exuvia.base.types import Family, FieldType
from exuvia.catalog import decimals
from exuvia.catalog.collation import collation
from exuvia.catalog.table import Table
from exuvia.kv.keys import HANDLE_AT, after, i64
from exuvia.kv.packet import Piece, RawRun, Span
from exuvia.sql.access.ranger import Term
from exuvia.sql.access.single_table import ROW_ID
from exuvia.sql.bind.scope import Field
from exuvia.sql.evaluate.compile import may_be_long
from exuvia.sql.expr import Column
from exuvia.sql.result import BINARY, Row
from exuvia.sql.statement.context import Context
from exuvia.sql.types import BIGINT

BATCH_ROWS, BATCH_BYTES = 10_000, 8 << 20
Read = TypeVar("Read")
Watched = Callable[[Iterator[Any]], Iterator[Any]]
"""The batches, counted: of EXPLAIN ANALYZE."""
HANDLE_NAME = "_exuvia_handle"
_ROW_AT = HANDLE_AT - 1


class Scan(ABC):
    """What a query reads of one table reference. `used` are positions in the source's rows."""

    title = ""
    """What it is called in the query."""
    names: Sequence[str] = ()
    """Of its columns, where they are of no stored table."""
    label = ""
    """The title of its columns in DuckDB's profile, unique in the query; else they are numbered."""

    def __init__(self, name: str, kinds: Sequence[FieldType]) -> None:
        self.name = name
        self.kinds = kinds
        self.used: list[int] = []
        self.failure: BaseException | None = None
        self.is_repeated = False
        self.watched: Watched | None = None
        self.begin_reading: Callable[[], object] | None = None

    def use(self, position: int) -> str:
        """The SQL name of a column, which is now read."""
        if position not in self.used:
            self.used.append(position)
        if self.label:
            return f"{self.name}.{_quoted(self._column(position))}"
        return f"{self.name}.{self._column(position)}"

    def _column(self, position: int) -> str:
        if not self.label:
            return f"{self.name}c{position}"
        return f"{self.label}.{self.title_of(position)}"

    def title_of(self, position: int) -> str:
        """The name of a column in the query."""
        return self.names[position]

    @property
    def columns(self) -> list[str]:
        """Names of what DuckDB reads, in order. No other scan of the statement has one of them."""
        rows = f"{self.label}.*" if self.label else f"{self.name}one"
        return [self._column(position) for position in self.used] or [rows]

    @abstractmethod
    def batches(self, context: Context) -> Iterator[Any]: ...

    def reader(self, context: Context) -> Any:
        """A reader for DuckDB, or a table when it is read more than once."""
        import pyarrow

        from exuvia.catalog.columns import arrow_type_of

        batches = self._watched(context)
        if self.is_repeated:
            batches = _kept(batches)
        kinds = [arrow_type_of(self.kinds[position]) for position in self.used] or [pyarrow.int8()]
        schema = pyarrow.schema(list(zip(self.columns, kinds, strict=True)))
        found = pyarrow.RecordBatchReader.from_batches(schema, batches)
        return found.read_all() if self.is_repeated else found

    def _watched(self, context: Context) -> Iterator[Any]:
        """The batches; an error is kept, because DuckDB would hand on its text alone."""
        try:
            if self.begin_reading is not None:
                self.begin_reading()
            batches = self.batches(context)
            yield from batches if self.watched is None else self.watched(batches)
        except Exception as error:
            self.failure = error
            raise

    def _batch(self, rows: Sequence[Row]) -> Any:
        import pyarrow

        from exuvia.catalog.columns import array_of, arrow_type_of, vector_of

        if not self.used:
            return pyarrow.RecordBatch.from_arrays([_ones(len(rows))], names=self.columns)
        arrays = []
        for position in self.used:
            kind = self.kinds[position]
            array = array_of(vector_of([row[position] for row in rows], kind))
            arrays.append(array.cast(arrow_type_of(kind)))
        return pyarrow.RecordBatch.from_arrays(arrays, names=self.columns)

    def _gathered(self, rows: Iterable[Row]) -> Iterator[Any]:
        longs = [n for n in self.used if may_be_long(Column(type=self.kinds[n], position=n))]
        remaining = iter(rows)
        while chunk := _some(remaining, longs):
            yield self._batch(chunk)


def name_columns(scans: Sequence[Scan]) -> None:
    """Name the columns as in the query, for DuckDB's profile. To be called before rendering."""
    labels = Counter(scan.title for scan in scans)
    for n, scan in enumerate(scans):
        scan.label = scan.title if labels[scan.title] == 1 else f"{scan.title}#{n}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _some(rows: Iterator[Row], longs: Sequence[int]) -> list[Row]:
    """The next BATCH_ROWS rows, or BATCH_BYTES; `longs`: positions of values that may be long."""
    if not longs:
        return list(islice(rows, BATCH_ROWS))
    chunk, size = [], 0
    for row in islice(rows, BATCH_ROWS):
        chunk.append(row)
        size += sum([size_of(row[n]) for n in longs])
        if size > BATCH_BYTES:
            break
    return chunk


def _kept(batches: Iterator[Any]) -> Iterator[Any]:
    """Batches of a table that is read into memory."""
    tracker = interruption.current().memory
    for batch in batches:
        tracker.keep(batch.nbytes)
        yield batch


def _ones(count: int) -> Any:
    import pyarrow

    return pyarrow.array(np.ones(count, np.int8))


# -- ORDER BY .. LIMIT -----------------------------------------------------------------------------


class TopRows:
    """ORDER BY a column LIMIT n, told to the scan: a row is passed over once n rows are known that
    come before it. What may be among the first n is left, for DuckDB to sort.

    A row has two words, a lower and an upper bound of its place in the order: of a number both are
    the number, of a text its first eight bytes with what a collation may still make of them.

        PAD SPACE       a text without its trailing spaces ends in one; behind the eighth byte
                        there may be more, so spaces and zeros at the end count as zeros in the
                        lower bound and as spaces in the upper one
        general fold    ASCII by its upper case; from the first other byte on nothing is known
        NULL            first, and last where the order descends

    Threads share it: a bound that another one has lowered meanwhile only leaves more rows."""

    def __init__(self, position: int, kind: FieldType, descending: bool, rows: int) -> None:
        self.position = position
        self._kind = kind
        self._descending = descending
        self.rows = rows
        self._best = np.zeros(0, np.uint64)
        self._most: np.uint64 | None = None
        self._turn = threading.Lock()

    @staticmethod
    def fits(kind: FieldType) -> bool:
        """Whether a column of that type has such words."""
        if kind.family in _NUMBERS or kind.family is Family.BYTES:
            return True
        if kind.family is Family.DECIMAL:
            return decimals.width_of(kind) == _WORD
        return kind.family is Family.STRING and _bounds(kind.Collate) is not None

    def left(self, table: Table, run: RawRun, skip: int) -> RawRun:
        """The rows that may be among the first."""
        words = self._words(table, run, skip)
        if words is None or not len(run):
            return run
        lower, upper = words
        if self._descending:
            lower, upper = ~upper, ~lower
        if self._most is not None:
            kept = np.flatnonzero(lower <= self._most)
            if len(kept) < len(run):
                run, upper = run.take(kept), upper[kept]
        with self._turn:
            best = np.concatenate([self._best, upper])
            if len(best) >= self.rows:
                best = np.partition(best, self.rows - 1)[: self.rows]
                self._most = best[self.rows - 1]
            self._best = best
        return run

    def _words(self, table: Table, run: RawRun, skip: int) -> tuple[Any, Any] | None:
        from exuvia.catalog.codec import key_batch, row_batch

        if self._kind.family not in (Family.STRING, Family.BYTES):
            columns = row_batch.decode(table, [], run, skip, [self.position])
            vector = columns.column(self.position)
            words = key_batch.sortable(vector)
            if vector.nulls is not None:
                words = np.where(vector.nulls, np.uint64(0), words)
            return words, words
        found = row_batch.beginnings(table, run, skip, self.position, _WORD)
        if found is None:
            return None
        lower, upper = found, found
        if self._kind.family is Family.STRING:
            bounds = _bounds(self._kind.Collate)
            assert bounds is not None
            lower, upper = bounds(found)
        return _word(lower), _word(upper)


_WORD = 8
_NUMBERS = (Family.INT, Family.UINT, Family.FLOAT, Family.DATE, Family.DATETIME, Family.TIME)
_SPACE, _BEYOND_ASCII = 0x20, 0x80
Bounds = Callable[[Any], tuple[Any, Any]]


def _word(begins: Any) -> Any:
    return np.ascontiguousarray(begins).view(">u8").reshape(-1).astype(np.uint64)


def _padded(begins: Any) -> tuple[Any, Any]:
    """At the end a space may be one of the text, or be dropped, and one follows the text."""
    if not ((begins[:, -1] == _SPACE) | (begins[:, -1] == 0)).any():
        return begins, begins
    ends = np.logical_and.accumulate((begins == _SPACE)[:, ::-1] | (begins == 0)[:, ::-1], axis=1)
    at_end = ends[:, ::-1]
    return np.where(at_end, np.uint8(0), begins), np.where(at_end, np.uint8(_SPACE), begins)


def _folded(begins: Any) -> tuple[Any, Any]:
    """As the general fold begins: from the first character that is not ASCII on, anything."""
    upper = np.where((begins >= ord("a")) & (begins <= ord("z")), begins - _SPACE, begins)
    unknown = np.logical_or.accumulate(begins >= _BEYOND_ASCII, axis=1)
    lower, _ = _padded(np.where(unknown, np.uint8(0), upper))
    _, upper = _padded(upper)
    return lower, np.where(unknown, np.uint8(0xFF), upper)


def _bounds(collate: str) -> Bounds | None:
    """How the first bytes bound a collation's keys (sql/duck/engine.py, `order_key_of`)."""
    found = collation(collate)
    if found.fold is None:
        return _padded if found.pads else lambda begins: (begins, begins)
    if found.pads and collate.lower().endswith(("_general_ci", "_swedish_ci")):
        return _folded
    return None


# -- read ahead ------------------------------------------------------------------------------------

THREADS, AHEAD = 2, 3
"""Of all scans of a process; how many pieces of one scan are read, or wait to be used, at once."""
_turn = threading.Lock()
_threads: ThreadPoolExecutor | None = None


def _after_fork() -> None:
    """In a forked child: the threads are the parent's."""
    global _turn, _threads
    _turn, _threads = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork)


def ahead(read: Callable[[RawRun], Read], pieces: Iterable[Piece]) -> Iterator[Read]:
    """What is read of each run, in order. The first piece is read here; if there are more, threads
    read ahead of whoever uses them: nearly all of it is done without the interpreter's lock."""

    def begin(piece: Piece) -> tuple[list[Read], Iterator[RawRun]]:
        runs = piece()
        return [read(run) for run in islice(runs, 1)], runs

    def rest(begun: tuple[list[Read], Iterator[RawRun]]) -> Iterator[Read]:
        yield from begun[0]
        yield from map(read, begun[1])

    remaining = iter(pieces)
    for piece in islice(remaining, 1):
        yield from map(read, piece())
    waiting: deque[Future[tuple[list[Read], Iterator[RawRun]]]] = deque()
    try:
        for piece in remaining:
            waiting.append(_pool().submit(begin, piece))
            if len(waiting) >= AHEAD:
                yield from rest(waiting.popleft().result())
        while waiting:
            yield from rest(waiting.popleft().result())
    finally:
        for each in waiting:
            each.cancel()


def _pool() -> ThreadPoolExecutor:
    global _threads
    with _turn:
        if _threads is None:
            _threads = ThreadPoolExecutor(THREADS, "scan")
        return _threads


_FROM, _UP_TO = ("=", ">", ">="), ("=", "<", "<=")


def row_id_field(place: int, table: Table, alias: str) -> Field:
    """The hidden id of each row as a column, `_tidb_rowid`, which no star shows."""
    return Field(place, ROW_ID, BIGINT, alias, table.database.db_name.O)


class RowsScan(Scan):
    """A computed table: information_schema, or rows at hand."""

    def __init__(self, name: str, kinds: Sequence[FieldType], rows: Any, title: str) -> None:
        super().__init__(name, kinds)
        self.compute = rows
        self.title = title

    @cached_property
    def rows(self) -> Sequence[Row]:
        """Its rows, computed once: an engine may give the query up after it has read them."""
        return list(self.compute())

    def batches(self, context: Context) -> Iterator[Any]:
        return self._gathered(self.rows)


class TableScan(Scan):
    """A stored table, read whole or by an access path. `path` None: whole.

    Behind its columns stands the handle of each row, for those who write what they find."""

    def __init__(self, name: str, table: Table, title: str, path: Any = None) -> None:
        super().__init__(name, [*(column.type for column in table.info.cols), BINARY])
        self.handle_position = len(table.info.cols)
        self.table = table
        self.path = path
        self.candidate: Any = path  # the path of few rows: also one that is slower than all rows
        self.hints: Sequence[Any] = ()
        self.title = title
        self.choice: Any = None  # of sql/access/pruning.py, for a partitioned table
        self.terms: Any = None  # of sql/access/ranger.py: what the WHERE says of it
        self.top: TopRows | None = None
        self.row_terms: Sequence[Term] = ()  # what it says of the hidden id of a row

    def title_of(self, position: int) -> str:
        """The name of a column in the query."""
        is_handle = position == self.handle_position
        return HANDLE_NAME if is_handle else self.table.info.cols[position].name.O

    def batches(self, context: Context) -> Iterator[Any]:
        """The rows of the transaction's snapshot, own writes merged in."""
        if self.path is not None:
            found = self.path.open(context)
            yield from self._gathered([*row, handle] for handle, row in found.rows)
            return
        parts = (self.table,) if self.choice is None else self.choice.parts(context)
        # the least and the greatest hidden id that the WHERE may keep
        least, most = -(1 << 63), (1 << 63) - 1
        for term in self.row_terms:
            if term.operator not in _FROM and term.operator not in _UP_TO:
                continue
            value = term.constants[0](context)
            if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
                continue
            if term.operator in _FROM:
                least = max(least, value)
            if term.operator in _UP_TO:
                most = min(most, value)
        for part in parts:
            start, end = part.row_prefix + i64(least), after(part.row_prefix + i64(most))
            whole = part.row_span()
            narrow = Span(start, end) if self.row_terms and least <= most else whole
            own = dict(context.txn.own_writes(narrow))
            snapshot = context.txn.snapshot
            read = partial(self._read, own=own, skip=snapshot.skip)
            for batch in ahead(read, snapshot.pieces(narrow)):
                if batch.num_rows:
                    yield batch
            changed = [(key, payload) for key, payload in own.items() if payload]
            if changed:
                yield self._decoded(RawRun.of(*zip(*changed, strict=True)), 0)

    def _read(self, run: RawRun, own: Mapping[bytes, bytes | None], skip: int) -> Any:
        """Rows without those that the transaction has changed."""
        if own:
            kept = [n for n, key in enumerate(run.keys()) if key not in own]
            run = run.take(np.array(kept, np.int64))
        if self.top is not None:
            run = self.top.left(self.table, run, skip)
        return self._decoded(run, skip)

    def _decoded(self, run: RawRun, skip: int) -> Any:
        import pyarrow

        from exuvia.catalog.codec import row_batch
        from exuvia.catalog.columns import array_of, arrow_type_of

        if not self.used:
            return pyarrow.RecordBatch.from_arrays([_ones(len(run))], names=self.columns)
        stored = [position for position in self.used if position != self.handle_position]
        keys = run.keys() if self.handle_position in self.used else []
        columns = row_batch.decode(self.table, [], run, skip, stored)
        arrays = []
        for position in self.used:
            if position == self.handle_position:
                arrays.append(pyarrow.array(self._handles(keys), pyarrow.binary()))
                continue
            wanted = arrow_type_of(self.kinds[position])
            array = array_of(columns.column(position))
            arrays.append(array if array.type == wanted else array.cast(wanted))
        return pyarrow.RecordBatch.from_arrays(arrays, names=self.columns)

    def _handles(self, keys: list[bytes]) -> list[bytes]:
        if self.table.is_partitioned:
            return [key[1:_ROW_AT] + key[HANDLE_AT:] for key in keys]
        return [key[HANDLE_AT:] for key in keys]
