"""Removes entries of global indexes that point to rows of a dropped partition.

    a fresh snapshot    must show the reorg's revision of the table (law 1): the partition is unused
      -> its rows       they do not change any more, so their entries can be derived from them
    then per index      batches of entries, each one transaction that requires the reorg's epoch
                        (law 2): a plain entry is removed, a unique one released
    the last batch      marks the span as finished

Writers also meet such entries and take over their keys (catalog/writer.py). A release leaves the
entry of another row alone. So the order of both does not matter, and a batch may run twice.
"""

from collections.abc import Callable, Iterator
from contextlib import closing

from exuvia.base.errors import Conflict
from exuvia.base.limits import REORG_BATCH_ROWS
from exuvia.catalog.table import Table
from exuvia.kv.packet import LIVE, WriteKind
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import checkpoint
from exuvia.pipeline.checkpoint import TaskProgress
from exuvia.pipeline.kernels.entries import Entries, as_bytes, fresh_snapshot, of_rows
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.task import Outcome, Task
from exuvia.pipeline.throttle import Batch, BatchSize, Steps

_TRIES = 20


class Clean:
    """The kernel for one task; `steps()` is the generator."""

    def __init__(
        self, store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        self._store = store
        self._task = task
        self._table: Table = task.order.table
        self._dial = dial
        self._monotonic = monotonic
        rows = dial.read().batch_rows
        self._pace = BatchSize(rows, near=store.near, least=REORG_BATCH_ROWS[1])
        self._rows = self._batches = 0

    def steps(self) -> Steps:
        """Reads, then removes; returns the outcome. Raises Deposed when the epoch is lost."""
        index_ids = self._task.order.index_ids
        indexes = [index for index in self._table.info.indexes if index.id in index_ids]
        entries: list[Entries] = []
        with closing(fresh_snapshot(self._store, self._table)) as snapshot:
            for rows, chunk in of_rows(snapshot, self._table, indexes, self._task.span):
                self._rows += rows
                entries += chunk
                yield Batch(rows, 0.0)
        for part in entries:
            yield from self._remove(part)
        self._commit([], [], is_last=True)
        return Outcome(ordinal=self._task.ordinal, rows=self._rows)

    def _remove(self, entries: Entries) -> Iterator[Batch]:
        keys, suffixes = as_bytes(entries.keys), entries.suffixes
        payloads = [b""] * len(keys) if suffixes is None else as_bytes(suffixes)
        at = 0
        while at < len(keys):
            self._pace.bounded(self._dial.read().batch_rows)
            end = min(at + self._pace.rows, len(keys))
            began = self._monotonic()
            try:
                self._commit(keys[at:end], payloads[at:end])
            except Conflict:
                self._pace.refused()
                yield Batch(0, 0.0, 0.0)
                continue
            seconds = self._monotonic() - began
            self._pace.succeeded(end - at, seconds, self._dial.read().batch_s)
            yield Batch(end - at, seconds)
            at = end

    def _commit(self, keys: list[bytes], suffixes: list[bytes], is_last: bool = False) -> None:
        """Runs one transaction. Raises Conflict, Deposed."""
        self._batches += 1
        progress = TaskProgress(self._rows, self._rows, self._batches, len(keys), is_last)
        own_pairs = checkpoint.pairs_of(self._task, progress)

        def work(txn: Transaction) -> None:
            for fence in self._task.order.fences:
                txn.require_equal(*fence)
            for key, suffix in zip(keys, suffixes, strict=True):
                if suffix:
                    txn.write(WriteKind.RELEASE, key, LIVE + suffix)
                else:
                    txn.write(WriteKind.REMOVE, key, b"")
            for key, payload in own_pairs:
                txn.put(key, payload)

        self._store.transact(work, _TRIES)
