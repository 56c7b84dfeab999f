"""Repairs an index with faults: ADMIN RECOVER INDEX, ADMIN CLEANUP INDEX.

    recover   puts entries that rows should have
    cleanup   removes entries without a row

Differences are found as in verification (pipeline/verify/compare.py), so writers may be active.
Each entry is judged again in the transaction that repairs it, which commits only if row and entry
are unchanged. A key of a unique index that belongs to another row is left alone. If that row does
not have the value, run cleanup first; if it has, the user must choose one of the rows.
"""

from collections.abc import Callable, Generator

from exuvia.base.limits import SPAN_ROWS
from exuvia.catalog import writer
from exuvia.catalog.codec import key_codec
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.packet import LIVE, WriteKind, is_live
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.verify.compare import differences
from exuvia.pipeline.verify.judge import row_of
from exuvia.pipeline.verify.scan import Entry

_ATOMIC = 256
_TRIES = 20
Guard = Callable[[Transaction], None]
Waves = Generator[list[Task], list[Outcome], int]


class Repair:
    """Repairs one index of a physical table, or a global index of all partitions.

    `done`: number of entries put or removed."""

    def __init__(self, store: Store, table: Table, index: IndexInfo, guard: Guard) -> None:
        self._store = store
        self._table = table
        self._index = index
        self._form = table.form(index)
        self._guard = guard
        self.done = 0

    def recover(self, order: TaskOrder) -> Waves:
        """Puts missing entries: yields waves of tasks, returns the number of rows read."""
        return differences(self._store, order, SPAN_ROWS, self._put_missing)

    def cleanup(self, order: TaskOrder) -> Waves:
        """Removes entries without a row; yields and returns as `recover`."""
        return differences(self._store, order, SPAN_ROWS, self._remove_orphans)

    def _put_missing(self, should: list[Entry], stand: list[Entry]) -> None:
        present = {(key, suffix) for key, suffix, _ in stand}
        missing = (handle for key, suffix, handle in should if (key, suffix) not in present)
        self._repair(list(dict.fromkeys(missing)), self._put)

    def _remove_orphans(self, should: list[Entry], stand: list[Entry]) -> None:
        expected = {(key, suffix) for key, suffix, _ in should}
        orphans = [key for key, suffix, _ in stand if (key, suffix) not in expected]
        self._repair(orphans, self._remove)

    def _repair(self, wrong: list[bytes], repair_one: Callable[[Transaction, bytes], int]) -> None:
        """Repairs `_ATOMIC` keys in a transaction. `repair_one` returns the number of entries it
        wrote."""
        for at in range(0, len(wrong), _ATOMIC):
            together = wrong[at : at + _ATOMIC]

            def repaired(txn: Transaction, together: list[bytes] = together) -> int:
                self._guard(txn)
                writer.fence(txn, self._table)
                return sum(repair_one(txn, key) for key in together)

            self.done += self._store.transact(repaired, _TRIES)

    def _put(self, txn: Transaction, handle: bytes) -> int:
        """Puts all missing entries of the row with this handle."""
        row = row_of(txn, self._table, self._index, handle)
        if row is None:
            return 0
        put = 0
        for key, unique in key_codec.index_entries(self._table, self._index, row, handle):
            current, payload = txn.get(key), self._form.payload(handle) if unique else LIVE
            if current == payload or is_live(current):
                continue
            txn.require(self._table.row_key(handle))
            txn.require(key)
            txn.write(WriteKind.CLAIM if unique else WriteKind.PLACE, key, payload)
            put += 1
        return put

    def _remove(self, txn: Transaction, key: bytes) -> int:
        current = txn.get(key)
        if current is None or not is_live(current):
            return 0
        _, handle = key_codec.split_entry(self._table, self._index, key, current)
        row = row_of(txn, self._table, self._index, handle)
        if row is not None:
            expected = dict(key_codec.index_entries(self._table, self._index, row, handle))
            payload = self._form.payload(handle)
            if key in expected and current == (payload if expected[key] else LIVE):
                return 0
        txn.require(self._table.row_key(handle))
        txn.delete(key)
        return 1
