"""A DataFrame into a table: tasks stage it in the store, one transaction inserts it.

    plan       the driver puts m/load/{id}; a column that the table lacks is 1054 here
    a task     m/staged/{id}{attempt}{n}    Arrow IPC, about CHUNK_BYTES each
    commit     one transaction: INSERT of the chunks of the attempts that Spark names, after DELETE
               of all rows where it overwrites, and the load is closed; then its chunks are removed
    abort      the load is closed, its chunks are removed

Every write of a task requires that the load is open, so an attempt that nobody waits for any more
(one of two speculative ones, one of a driver that gave up) is refused. Closing the load is part of
the transaction that inserts: after a commit whose outcome was unknown it says what became of it,
and nothing is inserted twice.

Rows are put by what INSERT ... SELECT runs: schema states, defaults, checks, foreign keys,
AUTO_INCREMENT and errors are INSERT's. What is more than `exuvia_txn_total_size_limit` is 8004, and
nothing is written.

`writeId` names the write: another one of that name does nothing once the first is done. The name is
kept for NAMES_KEPT_S. What drivers left that died is removed by the next writer once it is older
than LOADS_KEPT_S.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from exuvia.base.clock import SystemClock
from exuvia.base.errors import OutcomeUnknown
from exuvia.base.mysql_errors import ErrBadField
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog.infoschema import Schemas
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.node import embedded
from exuvia.node.assemble import EVALUATOR
from exuvia.sql import planner
from exuvia.sql.nodes import Insert, TableName
from exuvia.sql.parse.text import parse
from exuvia.sql.result import BIGINT, BINARY, DOUBLE, OutputColumn, Result, text_type
from exuvia.sql.session.session import Session
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import Plan
from exuvia.sql.write.insert import InsertQuery
from pyspark_exuvia.table import let_go, named_table, store_of

CHUNK_BYTES = 1 << 20
LOADS_KEPT_S = 86_400
NAMES_KEPT_S = 30 * 86_400
LONGEST_NAME = 64
_REMOVED_AT_ONCE = 64
_TEXT = text_type(65535)


@dataclass
class Staged(WriterCommitMessage):
    """What a task's attempt has put."""

    attempt: int
    chunks: int


class TableWriter(DataSourceArrowWriter):
    """See the module. Made where the query is planned; copies of it travel to the tasks, and to the
    process that commits. Raises ValueError, Refused 1049, 1054, 1146."""

    def __init__(self, options: Mapping[str, str], planned: StructType, overwrite: bool) -> None:
        self._options = dict(options)
        self._overwrite = overwrite
        self._name = self._options.get("writeid", "")
        if len(self._name) > LONGEST_NAME:
            raise ValueError(f"a writeId has at most {LONGEST_NAME} characters")
        store = store_of(options)
        _require_columns(store, options, planned.names)
        for field in planned.fields:
            if field.dataType.typeName() not in _WRITTEN:
                kind = field.dataType.simpleString()
                raise ValueError(f"column '{field.name}': {kind} is no type of a table's column")
        now_s = SystemClock().wall_ns() // 1_000_000_000
        _remove_leftovers(store, now_s)
        self.load = secrets.randbits(63)
        store.transact(lambda txn: txn.insert(load_key(self.load), keys.number(now_s)))
        self._opened = now_s

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """An attempt of a task. Raises Deposed once the load is closed."""
        store, staged = store_of(self._options), Staged(secrets.randbits(63), 0)
        for chunk in _chunks(iterator):
            store.transact(partial(self._stage, staged, chunk))
            staged.chunks += 1
        return staged

    def _stage(self, staged: Staged, chunk: bytes, txn: Transaction) -> None:
        txn.require_equal(load_key(self.load), keys.number(self._opened))
        txn.put(keys.meta("staged", self.load, staged.attempt, staged.chunks), chunk)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Insert what the attempts have staged. Raises what INSERT does."""
        staged = [
            keys.meta("staged", self.load, each.attempt, n)
            for each in messages
            if isinstance(each, Staged)
            for n in range(each.chunks)
        ]
        with session_of(self._options["url"]) as session:
            store = session.services.store
            try:
                session.run(partial(self._insert, staged), locking=True)
            except OutcomeUnknown:
                with store.read() as txn:
                    if self._is_open(txn):
                        raise
            _remove(store, self.load)

    def _is_open(self, txn: Transaction) -> bool:
        return keys.read_number(txn.get(load_key(self.load))) == self._opened

    def _insert(self, staged: Sequence[bytes], context: Context) -> Result:
        txn = context.txn
        if not self._is_open(txn):
            raise ValueError("the write was given up: it is older than a day, or was aborted")
        txn.put(load_key(self.load), keys.number(0))
        if self._name:
            name = keys.meta("written", self._name)
            if txn.get(name) is not None:
                return Result()
            txn.put(name, keys.number(self._opened))
        database, table = named_table(self._options)
        if self._overwrite:
            [delete] = parse(f"DELETE FROM {_quoted(database)}.{_quoted(table)}")
            planner.plan(delete, context).run(context)
        affected = 0
        for key in staged:
            chunk = txn.get(key)
            assert chunk is not None, key  # only who closes the load removes it
            rows = _StagedRows(pa.ipc.open_stream(chunk).read_all())
            node = Insert(table=TableName(table, database), columns=rows.names)
            affected += InsertQuery(node, rows, context).run(context).affected
        return Result(affected=affected)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is left of it."""
        store = store_of(self._options)
        store.transact(partial(_close, self.load))
        _remove(store, self.load)


def _require_columns(store: Store, options: Mapping[str, str], names: Sequence[str]) -> None:
    with store.read() as txn:
        table = Schemas(store, evaluator=EVALUATOR).table(txn, *named_table(options))
    public = {column.name.L for column in table.columns}
    for each in names:
        if each.lower() not in public:
            raise ErrBadField(each, "field list")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def session_of(url: str) -> Iterator[Session]:
    """One in this process; it stays a member as long as the block lasts."""
    let_go(url)  # a worker of Spark that has planned, or staged, commits too
    found = embedded.enter(url)
    try:
        of = found.sessions.open(found.services, "", False)
        try:
            with found.statement(of):
                of.session.execute("SET time_zone = '+00:00'")
                yield of.session
        finally:
            of.session.close()
            found.sessions.remove(of)
    finally:
        embedded.depart(found)


# -- what is staged --------------------------------------------------------------------------------


def load_key(load: int) -> bytes:
    return keys.meta("load", load)


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        rows = max(1, batch.num_rows * CHUNK_BYTES // max(1, batch.nbytes))
        for at in range(0, batch.num_rows, rows):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch.slice(at, rows))
            yield sink.getvalue().to_pybytes()


def _close(load: int, txn: Transaction) -> None:
    if txn.get(load_key(load)) is not None:
        txn.put(load_key(load), keys.number(0))


def _remove(store: Store, load: int) -> None:
    """The chunks of a load that is closed, and at last the load itself."""

    def some(txn: Transaction) -> bool:
        span = keys.span_of(keys.meta("staged", load))
        found = [key for key, _ in txn.scan(span, _REMOVED_AT_ONCE)]
        for key in found:
            txn.delete(key)
        if not found and txn.get(load_key(load)) is not None:
            txn.delete(load_key(load))
        return bool(found)

    while store.transact(some):
        pass


def _remove_leftovers(store: Store, now_s: int) -> None:
    """Of drivers that died, and names that are not asked for any more."""
    with store.read() as txn:
        loads = _older(txn, keys.meta("load"), now_s - LOADS_KEPT_S)
        names = _older(txn, keys.meta("written"), now_s - NAMES_KEPT_S)
    for key in loads:
        load = int.from_bytes(key[-8:])
        store.transact(partial(_close, load))
        _remove(store, load)

    def forget(key: bytes, txn: Transaction) -> None:
        if txn.get(key) is not None:
            txn.delete(key)

    for key in names:
        store.transact(partial(forget, key))


def _older(txn: Transaction, prefix: bytes, than_s: int) -> list[bytes]:
    return [
        key for key, since in txn.scan(keys.span_of(prefix)) if keys.read_number(since) < than_s
    ]


# -- rows ------------------------------------------------------------------------------------------


class _StagedRows(Plan):
    """A chunk as INSERT ... SELECT reads a query's rows: times are texts, as of UTC."""

    def __init__(self, table: pa.Table) -> None:
        self.names = tuple(table.column_names)
        self._table = table
        self.columns = [OutputColumn(each.name, _type_of(each.type)) for each in table.schema]

    def run(self, context: Context) -> Result:
        columns = [_values(each) for each in self._table.columns]
        return Result(self.columns, [list(row) for row in zip(*columns, strict=True)])


_WRITTEN = (
    *("boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "binary"),
    *("string", "char", "varchar", "date", "timestamp", "timestamp_ntz", "void"),
)


def _type_of(kind: pa.DataType) -> FieldType:
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return BIGINT
    if pa.types.is_floating(kind):
        return DOUBLE
    if pa.types.is_decimal(kind):
        flag = int(Flag.BINARY)
        return FieldType(Tp=TypeCode.NEWDECIMAL, Flag=flag, Flen=kind.precision, Decimal=kind.scale)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return BINARY
    return _TEXT


def _values(column: pa.ChunkedArray) -> list[object]:
    kind = column.type
    convert: Callable[[pa.ChunkedArray], pa.ChunkedArray] = _CONVERTED.get(kind.id, lambda c: c)
    found: list[object] = convert(column).to_pylist()
    return found


def _timestamps(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64()).cast(pa.timestamp(column.type.unit)).cast(pa.string())


_CONVERTED: dict[int, Callable[[pa.ChunkedArray], pa.ChunkedArray]] = {
    pa.bool_().id: lambda column: column.cast(pa.int8()),
    pa.date32().id: lambda column: column.cast(pa.string()),
    pa.timestamp("us").id: _timestamps,
}
