"""Streaming sink: each micro-batch is one transaction, written exactly once.

    plan       checks columns and types, for each batch
    a task     stages its rows like a batch write (staging.py)
    commit     one transaction: INSERT of the chunks of the attempts that Spark names, and the mark
               m/streamed/{query}{table}, which records that the query's batch N is in the table

If a driver dies between this commit and the checkpoint's, Spark repeats the batch. The mark shows
that it is in the table, and the sink does nothing. The query's id is that of its checkpoint and is
part of each task. The same mark refuses late tasks of a written batch. Chunks of an abandoned batch
are removed by a later writer (staging.py).

Complete mode deletes all rows in the same transaction. A batch above `exuvia_txn_total_size_limit`
ends the query with 8004; the table keeps the earlier batches.

A mark that did not change for a year is removed.
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
from pyspark_exuvia import merge, staging, upserts
from pyspark_exuvia.errors import shows_errors, wrong_option, wrong_state
from pyspark_exuvia.staging import Staged
from pyspark_exuvia.table import named_table, store_of

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class StagedBatch(Staged):
    """Chunks that one task attempt staged for a batch of a query."""

    query: str = ""


@shows_errors
class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches. Spark creates one writer to plan a batch and one to commit it. Raises
    ValueError, Refused 1049, 1054, 1146."""

    def __init__(self, options: Mapping[str, str], planned: StructType, overwrite: bool) -> None:
        self._options = dict(options)
        self._overwrite = overwrite
        upserts.require_append(self._options, overwrite)
        if merge.is_merging(options):
            raise wrong_option(
                "mergeSchema is for DataFrame.write: change the table by ALTER TABLE"
            )
        self._table = ".".join(named_table(options))
        staging.require_fitting(store_of(options), options, planned)
        self._load = secrets.randbits(63)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedBatch:
        """Stages the rows of a task attempt. Raises ValueError if its batch is in the table."""
        query, batch = _query_and_batch()
        staged = StagedBatch(self._load, query=query)
        store = store_of(self._options)
        with store.read() as txn:
            if self._is_written(txn, query, batch):
                return staged
        staging.stage(store, staged, iterator, partial(self._require_not_written, query, batch))
        return staged

    def _require_not_written(self, query: str, batch: int, txn: Transaction) -> None:
        if self._is_written(txn, query, batch):
            raise wrong_state(f"batch {batch} of query {query} is in the table: a late attempt")
        txn.require(self._mark(query))
        if txn.get(staging.load_key(self._load)) is None:
            txn.insert(staging.load_key(self._load), keys.number(staging.now()))

    def _mark(self, query: str) -> bytes:
        return keys.meta("streamed", query, self._table)

    def _is_written(self, txn: Transaction, query: str, batch: int) -> bool:
        payload = txn.get(self._mark(query))
        return payload is not None and batch <= keys.read_number(payload[8:])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Inserts the staged chunks. Raises the errors of INSERT."""
        staged = [message for message in messages if isinstance(message, StagedBatch)]
        if not staged or not (self._overwrite or any(batch.chunks for batch in staged)):
            return  # an empty commit would be a change in streams that read this store
        query = staged[0].query
        with staging.session_of(self._options["url"]) as session:
            store = session.services.store
            try:
                session.run(partial(self._insert, staged, query, batchId), locking=True)
            except OutcomeUnknown:
                with store.read() as txn:
                    if not self._is_written(txn, query, batchId):
                        raise
            staging.give_up(store, staged[0].load)
            staging.remove_leftovers(store, staging.now())

    def _insert(
        self, staged: list[StagedBatch], query: str, batch: int, context: Context
    ) -> Result:
        txn = context.txn
        if self._is_written(txn, query, batch):
            return Result()
        txn.put(self._mark(query), keys.number(staging.now()) + keys.number(batch))
        return staging.insert_chunks(
            context, self._options, staging.chunks_of(staged), self._overwrite
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Removes everything that the attempts staged."""
        for message in messages:
            if isinstance(message, StagedBatch):
                staging.give_up(store_of(self._options), message.load)


def _query_and_batch() -> tuple[str, int]:
    """Returns the query id and batch number of Spark's current task."""
    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY) if context is not None else None
    batch = context.getLocalProperty(_BATCH) if context is not None else None
    if not query or batch is None:
        raise wrong_state(f"Spark does not say of which streaming query a task is ({_QUERY})")
    return query, int(batch)
