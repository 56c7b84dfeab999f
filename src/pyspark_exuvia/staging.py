"""Staged rows of a write: Arrow chunks in the store until a transaction inserts them.

    m/load/{id}                      start time; 0 once closed: no more staging, chunks are void
    m/staged/{id}{attempt}{n}        Arrow IPC, about CHUNK_BYTES each
    m/unnamed/{id}                   id of the unnamed table that chunks are moved to; parts.py

Rows are inserted like those of INSERT ... SELECT: schema states, defaults, checks, foreign keys,
AUTO_INCREMENT and errors are the same.

Chunks of drivers that died are removed by the next writer once they are older than LOADS_KEPT_S.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from exuvia.base.clock import SystemClock
from exuvia.base.mysql_errors import ErrBadField, ErrOptOnTemporaryTable
from exuvia.catalog import meta
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import SchemaState
from exuvia.catalog.table import Table
from exuvia.ddl import delete_ranges, queue
from exuvia.ddl.elements import ranges_of_table
from exuvia.ddl.job import timestamp
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.node import embedded
from exuvia.node.assemble import EVALUATOR
from exuvia.sql import planner
from exuvia.sql.parse.text import parse
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from exuvia.sql.statement.context import Context
from exuvia.sql.write.insert import InsertQuery
from exuvia.sql.write.insert_arrays import insert_arrays
from pyspark_exuvia import upserts
from pyspark_exuvia.errors import wrong_option, wrong_state
from pyspark_exuvia.staged_rows import WRITABLE_TYPES, StagedRows
from pyspark_exuvia.table import close_store, named_table

CHUNK_BYTES = 1 << 20
LOADS_KEPT_S = 86_400
NAMES_KEPT_S = 30 * 86_400
MARKS_KEPT_S = 365 * 86_400
"""How long marks of streams are kept; a stopped stream may resume late (sink.py)."""
_REMOVED_AT_ONCE = 64


@dataclass
class Staged(WriterCommitMessage):
    """Chunks that one task attempt staged."""

    load: int
    attempt: int = field(default_factory=lambda: secrets.randbits(63))
    chunks: int = 0
    size: int = 0  # bytes

    def chunk_keys(self) -> list[bytes]:
        """Returns the store's keys of the chunks."""
        return [keys.meta("staged", self.load, self.attempt, n) for n in range(self.chunks)]


def now() -> int:
    """Unit: s."""
    return SystemClock().wall_ns() // 1_000_000_000


def require_fitting(store: Store, options: Mapping[str, str], planned: StructType) -> None:
    """Requires that the table has the columns and that Spark's types can be written. Raises Refused
    1049, 1054, 1146, 8006, ValueError."""
    with store.read() as txn:
        table = Schemas(store, evaluator=EVALUATOR).table(txn, *named_table(options))
    if table.info.is_temporary:
        raise ErrOptOnTemporaryTable("writing by Spark")
    public = {column.name.L for column in table.columns}
    for column in planned.fields:
        if column.name.lower() not in public:
            raise ErrBadField(column.name, "field list")
        if column.dataType.typeName() not in WRITABLE_TYPES:
            kind = column.dataType.simpleString()
            raise wrong_option(f"column '{column.name}': {kind} is no type of a table's column")
    upserts.require_key(table, options, planned.names)


def quoted(name: str) -> str:
    """Returns the name in backticks."""
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def session_of(url: str) -> Iterator[Session]:
    """Yields a session of this process, which is a cluster member during the block."""
    close_store(url)  # this process may have planned or staged; LMDB is opened once a process
    node = embedded.enter(url)
    try:
        entered = node.sessions.open(node.services, "", False)
        try:
            with node.statement(entered):
                entered.session.execute("SET time_zone = '+00:00', sql_safe_updates = 0")
                yield entered.session
        finally:
            entered.session.close()
            node.sessions.remove(entered)
    finally:
        embedded.depart(node)


def load_key(load: int) -> bytes:
    """Returns the key of a load's record."""
    return keys.meta("load", load)


def unnamed_key(load: int) -> bytes:
    """Returns the key of the id of the unnamed table that a load's chunks are moved to."""
    return keys.meta("unnamed", load)


def stage(
    store: Store,
    staged: Staged,
    batches: Iterator[pa.RecordBatch],
    guard: Callable[[Transaction], None],
) -> Staged:
    """Stages the rows of an attempt. `guard` runs in each chunk's transaction and refuses late
    chunks."""

    def put(chunk: bytes, txn: Transaction) -> None:
        guard(txn)
        txn.put(keys.meta("staged", staged.load, staged.attempt, staged.chunks), chunk)

    for chunk in _chunks(batches):
        store.transact(partial(put, chunk))
        staged.chunks += 1
        staged.size += len(chunk)
    return staged


def chunks_of(messages: Sequence[WriterCommitMessage | None]) -> list[bytes]:
    """Returns the keys of the chunks of the attempts that Spark names."""
    return [
        key for message in messages if isinstance(message, Staged) for key in message.chunk_keys()
    ]


def insert_chunks(
    context: Context, options: Mapping[str, str], staged: Sequence[bytes], overwrite: bool
) -> Result:
    """Inserts chunks, after DELETE of all rows if `overwrite`. Raises the errors of both
    statements."""
    database, table = named_table(options)
    if overwrite:
        [delete] = parse(f"DELETE FROM {quoted(database)}.{quoted(table)}")
        planner.plan(delete, context).run(context)
    require_distinct(context, options, staged)
    chunks = _chunks_at(context.txn, staged)
    return Result(affected=sum(insert_chunk(context, options, chunk) for chunk in chunks))


def require_distinct(context: Context, options: Mapping[str, str], staged: Sequence[bytes]) -> None:
    """Requires that an upsert has each key once. Raises 1062."""
    upserts.require_distinct(context, options, partial(_chunks_at, context.txn, staged))


def _chunks_at(txn: Transaction, staged: Sequence[bytes]) -> Iterator[bytes]:
    for key in staged:
        chunk = txn.get(key)
        if chunk is None:
            raise wrong_state("the write was given up: its rows are gone")
        yield chunk


def insert_chunk(
    context: Context, options: Mapping[str, str], chunk: bytes, into: Table | None = None
) -> int:
    """Inserts a chunk's rows and returns their number. `into`: the unnamed table, if any."""
    rows = StagedRows(chunk)
    node, rule = upserts.insert_of(context, options, rows.names)
    query = InsertQuery(node, rows, context, table=into, rule=rule)
    result = insert_arrays(context, query.target, rows.arrays()) if rule is None else None
    return (result or query.run(context)).affected


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        rows = max(1, batch.num_rows * CHUNK_BYTES // max(1, batch.nbytes))
        for at in range(0, batch.num_rows, rows):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch.slice(at, rows))
            yield sink.getvalue().to_pybytes()


def give_up(store: Store, load: int) -> None:
    """Closes a load and removes its chunks."""
    if store.transact(partial(close, load)):
        remove(store, load)


def close(load: int, txn: Transaction) -> bool:
    """Closes a load: staging and moving end, and its unnamed table is dropped. Returns False if a
    job is about to give that table a name."""
    unnamed = txn.get(unnamed_key(load))
    if unnamed is not None:
        table_id = keys.read_number(unnamed)
        if any(table_id in job.exuvia_ids for job in queue.unfinished(txn)):
            return False
        info = meta.get_table(txn, table_id)
        if info is not None and info.state == SchemaState.WRITE_ONLY:
            meta.drop_table(txn, info)
            job_id = meta.next_ids(txn)  # ranges need a job id; this one belongs to no job
            for n, span in enumerate(ranges_of_table(info)):
                delete_ranges.add_range(txn, job_id, n, span, timestamp(SystemClock().wall_ns()))
        txn.delete(unnamed_key(load))
    if txn.get(load_key(load)) is not None:
        txn.put(load_key(load), keys.number(0))
    return True


def remove(store: Store, load: int) -> None:
    """Removes the chunks of a closed load, then its record."""

    def some(txn: Transaction) -> bool:
        span = keys.span_of(keys.meta("staged", load))
        chunk_keys = [key for key, _ in txn.scan(span, _REMOVED_AT_ONCE)]
        for key in chunk_keys:
            txn.delete(key)
        if not chunk_keys and txn.get(load_key(load)) is not None:
            txn.delete(load_key(load))
        return bool(chunk_keys)

    while store.transact(some):
        pass


def remove_leftovers(store: Store, now_s: int) -> None:
    """Removes loads of drivers that died, and names and marks past their retention."""
    with store.read() as txn:
        loads = _older(txn, keys.meta("load"), now_s - LOADS_KEPT_S)
        names = _older(txn, keys.meta("written"), now_s - NAMES_KEPT_S)
        names += _older(txn, keys.meta("streamed"), now_s - MARKS_KEPT_S)
    for key in loads:
        load = int.from_bytes(key[-8:])
        give_up(store, load)

    def forget(key: bytes, txn: Transaction) -> None:
        if txn.get(key) is not None:
            txn.delete(key)

    for key in names:
        store.transact(partial(forget, key))


def _older(txn: Transaction, prefix: bytes, than_s: int) -> list[bytes]:
    return [
        key for key, since in txn.scan(keys.span_of(prefix)) if keys.read_number(since[:8]) < than_s
    ]
