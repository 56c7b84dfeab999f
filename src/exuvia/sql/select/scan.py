"""Rows of one table reference as Arrow batches, for DuckDB: only the columns asked for, of the
statement's snapshot.

    a selective key in the WHERE    access path: rows by key, in batches (sql/access/choose.py)
    otherwise                       chunks of stored bytes, decoded by column (catalog/codec)
    own writes of the transaction   rows that were changed are left out, the changed ones follow

One reader serves one table reference once. It is pulled by DuckDB in the thread that runs the
query. The step of a recursive CTE reads its tables again and again, so they are read into memory:
only the columns used, by the access path chosen."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from exuvia.base.types import FieldType
from exuvia.catalog.table import Table
from exuvia.kv.keys import HANDLE_AT, after, i64
from exuvia.kv.packet import Span
from exuvia.sql.access.ranger import Term
from exuvia.sql.access.single_table import ROW_ID
from exuvia.sql.bind.scope import Field
from exuvia.sql.result import BINARY, Row
from exuvia.sql.statement.context import Context
from exuvia.sql.types import BIGINT

BATCH_ROWS = 10_000
HANDLE_NAME = "_exuvia_handle"
_ROW_AT = HANDLE_AT - 1


class Scan(ABC):
    """What a query reads of one table reference. `used` are positions in the source's rows."""

    def __init__(self, name: str, kinds: Sequence[FieldType]) -> None:
        self.name = name
        self.kinds = kinds
        self.used: list[int] = []
        self.failure: BaseException | None = None
        self.is_repeated = False

    def use(self, position: int) -> str:
        """The SQL name of a column, which is now read."""
        if position not in self.used:
            self.used.append(position)
        return f"{self.name}.c{position}"

    @abstractmethod
    def batches(self, context: Context) -> Iterator[Any]: ...

    @abstractmethod
    def describe(self) -> tuple[str, str]:
        """(operator, access object) for EXPLAIN."""

    def reader(self, context: Context) -> Any:
        """A reader for DuckDB, or a table when it is read more than once.

        Its columns are c0, c1, ... by position; `one` where none is used."""
        import pyarrow

        from exuvia.catalog.columns import arrow_type_of

        fields = [(f"c{position}", arrow_type_of(self.kinds[position])) for position in self.used]
        schema = pyarrow.schema(fields or [("one", pyarrow.int8())])
        found = pyarrow.RecordBatchReader.from_batches(schema, self._watched(context))
        return found.read_all() if self.is_repeated else found

    def _watched(self, context: Context) -> Iterator[Any]:
        """The batches; an error is kept, because DuckDB would hand on its text alone."""
        try:
            yield from self.batches(context)
        except Exception as error:
            self.failure = error
            raise

    def _batch(self, rows: Sequence[Row]) -> Any:
        import pyarrow

        from exuvia.catalog.columns import array_of, arrow_type_of, vector_of

        if not self.used:
            return pyarrow.RecordBatch.from_arrays([_ones(len(rows))], names=["one"])
        arrays = []
        for position in self.used:
            kind = self.kinds[position]
            array = array_of(vector_of([row[position] for row in rows], kind))
            arrays.append(array.cast(arrow_type_of(kind)))
        return pyarrow.RecordBatch.from_arrays(arrays, names=[f"c{p}" for p in self.used])

    def _gathered(self, rows: Iterable[Row]) -> Iterator[Any]:
        remaining = iter(rows)
        while chunk := list(islice(remaining, BATCH_ROWS)):
            yield self._batch(chunk)


def _ones(count: int) -> Any:
    import pyarrow

    return pyarrow.array([1] * count, pyarrow.int8())


_FROM, _UP_TO = ("=", ">", ">="), ("=", "<", "<=")


def row_ids(scan: "TableScan", alias: str) -> tuple[list[Field], list[Callable[[], str]]]:
    """The hidden id of each row as a column, `_tidb_rowid`, which no star shows."""
    place = scan.handle_position
    field = Field(place, ROW_ID, BIGINT, alias, scan.table.database.db_name.O)
    return [field], [lambda: f"exuvia_rowid({scan.use(place)})"]


class RowsScan(Scan):
    """A computed table: information_schema, or rows at hand."""

    def __init__(self, name: str, kinds: Sequence[FieldType], rows: Any, title: str) -> None:
        super().__init__(name, kinds)
        self._rows = rows
        self._title = title

    def batches(self, context: Context) -> Iterator[Any]:
        return self._gathered(self._rows())

    def describe(self) -> tuple[str, str]:
        return "MemTableScan", f"table:{self._title}"


class TableScan(Scan):
    """A stored table, read whole or by an access path. `path` None: whole.

    Behind its columns stands the handle of each row, for those who write what they find."""

    def __init__(self, name: str, table: Table, title: str, path: Any = None) -> None:
        super().__init__(name, [*(column.type for column in table.info.cols), BINARY])
        self.handle_position = len(table.info.cols)
        self.table = table
        self.path = path
        self.title = title
        self.choice: Any = None  # of sql/access/pruning.py, for a partitioned table
        self.terms: Any = None  # of sql/access/ranger.py: what the WHERE says of it
        self.row_terms: Sequence[Term] = ()  # what it says of the hidden id of a row

    def describe(self) -> tuple[str, str]:
        if self.path is None:
            return "TableFullScan", f"table:{self.title}"
        index = getattr(self.path, "index", None)
        suffix = f", index:{index.idx_name.O}" if index is not None else ""
        return self.path.name, f"table:{self.title}{suffix}"

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
            for keys, raws in context.txn.snapshot.chunks(narrow, BATCH_ROWS):
                if own:
                    kept = [
                        (key, raw) for key, raw in zip(keys, raws, strict=True) if key not in own
                    ]
                    keys, raws = [key for key, _ in kept], [raw for _, raw in kept]
                if keys:
                    yield self._decoded(keys, raws, context.txn.snapshot.skip)
            changed = [(key, payload) for key, payload in own.items() if payload]
            if changed:
                yield self._decoded([key for key, _ in changed], [row for _, row in changed], 0)

    def _decoded(self, keys: list[bytes], raws: list[bytes], skip: int) -> Any:
        import pyarrow

        from exuvia.catalog.codec import row_batch
        from exuvia.catalog.columns import array_of, arrow_type_of

        if not self.used:
            return pyarrow.RecordBatch.from_arrays([_ones(len(keys))], names=["one"])
        stored = [position for position in self.used if position != self.handle_position]
        columns = row_batch.decode(self.table, keys, raws, skip, stored)
        arrays = []
        for position in self.used:
            if position == self.handle_position:
                arrays.append(pyarrow.array(self._handles(keys), pyarrow.binary()))
                continue
            wanted = arrow_type_of(self.kinds[position])
            array = array_of(columns.column(position))
            arrays.append(array if array.type == wanted else array.cast(wanted))
        return pyarrow.RecordBatch.from_arrays(arrays, names=[f"c{p}" for p in self.used])

    def _handles(self, keys: list[bytes]) -> list[bytes]:
        if self.table.is_partitioned:
            return [key[1:_ROW_AT] + key[HANDLE_AT:] for key in keys]
        return [key[HANDLE_AT:] for key in keys]
