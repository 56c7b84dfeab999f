"""A stream into a table: each micro-batch is one transaction, once.

    plan       columns and types are looked at, for each batch
    a task     stages its rows as a batch write's does (staging.py)
    commit     one transaction: INSERT of the chunks of the attempts that Spark names, and
               m/streamed/{query}{table} says that the query's batch N is in the table

A batch that is asked for again, since a driver died between this commit and its checkpoint's, finds
that mark and does nothing. The query's id is that of its checkpoint: it comes with each task. Tasks
of a batch that is in the table are refused by the same mark, so what comes late leaves nothing;
what an attempt left of a batch that was given up is removed by a later writer, as staging.py says.

Complete mode deletes all rows in the same transaction. What is more than
`exuvia_txn_total_size_limit` is 8004, and the query ends where it stands.

A mark that was not moved for a year is forgotten.
"""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from exuvia.base.errors import OutcomeUnknown
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction
from exuvia.sql.result import Result
from exuvia.sql.statement.context import Context
from pyspark_exuvia import staging
from pyspark_exuvia.staging import Staged
from pyspark_exuvia.table import named_table, store_of

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class StagedBatch(Staged):
    """What a task's attempt has put of a query's batch."""

    query: str = ""


class StreamWriter(DataSourceStreamArrowWriter):
    """See the module. Spark makes one for each batch that is planned, and one that commits it.
    Raises ValueError, Refused 1049, 1054, 1146."""

    def __init__(self, options: Mapping[str, str], planned: StructType, overwrite: bool) -> None:
        self._options = dict(options)
        self._overwrite = overwrite
        self._table = ".".join(named_table(options))
        staging.require_fitting(store_of(options), options, planned)
        self._load = secrets.randbits(63)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedBatch:
        """An attempt of a task. Raises ValueError once its batch is in the table."""
        query, batch = _of_this_task()
        staged = StagedBatch(self._load, query=query)
        store = store_of(self._options)
        with store.read() as txn:
            if self._is_there(txn, query, batch):
                return staged
        staging.stage(store, staged, iterator, partial(self._require_missing, query, batch))
        return staged

    def _require_missing(self, query: str, batch: int, txn: Transaction) -> None:
        if self._is_there(txn, query, batch):
            raise ValueError(f"batch {batch} of query {query} is in the table: a late attempt")
        txn.require(self._mark(query))
        if txn.get(staging.load_key(self._load)) is None:
            txn.insert(staging.load_key(self._load), keys.number(staging.now()))

    def _mark(self, query: str) -> bytes:
        return keys.meta("streamed", query, self._table)

    def _is_there(self, txn: Transaction, query: str, batch: int) -> bool:
        payload = txn.get(self._mark(query))
        return payload is not None and batch <= keys.read_number(payload[8:])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Insert what the attempts have staged. Raises what INSERT does."""
        staged = [each for each in messages if isinstance(each, StagedBatch)]
        if not staged or not (self._overwrite or any(each.chunks for each in staged)):
            return  # without a commit: it would be news to a stream of this store's changes
        query = staged[0].query
        with staging.session_of(self._options["url"]) as session:
            store = session.services.store
            try:
                session.run(partial(self._insert, staged, query, batchId), locking=True)
            except OutcomeUnknown:
                with store.read() as txn:
                    if not self._is_there(txn, query, batchId):
                        raise
            staging.give_up(store, staged[0].load)
            staging.remove_leftovers(store, staging.now())

    def _insert(
        self, staged: list[StagedBatch], query: str, batch: int, context: Context
    ) -> Result:
        txn = context.txn
        if self._is_there(txn, query, batch):
            return Result()
        txn.put(self._mark(query), keys.number(staging.now()) + keys.number(batch))
        return staging.insert_chunks(
            context, self._options, staging.chunks_of(staged), self._overwrite
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing is left of what the attempts have told of."""
        for each in messages:
            if isinstance(each, StagedBatch):
                staging.give_up(store_of(self._options), each.load)


def _of_this_task() -> tuple[str, int]:
    """The query, and its batch, that Spark's task is for."""
    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY) if context is not None else None
    batch = context.getLocalProperty(_BATCH) if context is not None else None
    if not query or batch is None:
        raise ValueError(f"Spark does not say of which streaming query a task is ({_QUERY})")
    return query, int(batch)
