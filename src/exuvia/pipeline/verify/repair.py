"""Putting an index right that a check found wrong: ADMIN RECOVER INDEX, ADMIN CLEANUP INDEX.

    recover   entries that rows should have and have not     are put
    cleanup   entries that stand and no row has              are removed

What differs is found as verification finds it (pipeline/verify/compare.py), so that it runs beside
writers; each entry is judged once more in the transaction that puts it right, which commits only
if row and entry are as it saw them. An entry of a unique index that another row holds is left: if
that row has not the value, clean up first; if it has, people must decide.
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
    """One index of one physical table, or a global one of all of them.

    `done`: entries put or removed so far."""

    def __init__(self, store: Store, table: Table, index: IndexInfo, guard: Guard) -> None:
        self._store = store
        self._table = table
        self._index = index
        self._form = table.form(index)
        self._guard = guard
        self.done = 0

    def recover(self, order: TaskOrder) -> Waves:
        """Put what is missing: yields waves of tasks, returns how many rows were scanned."""
        return differences(self._store, order, SPAN_ROWS, self._put_missing)

    def cleanup(self, order: TaskOrder) -> Waves:
        """Remove what has no row."""
        return differences(self._store, order, SPAN_ROWS, self._remove_orphans)

    def _put_missing(self, should: list[Entry], stand: list[Entry]) -> None:
        standing = {(key, suffix) for key, suffix, _ in stand}
        missing = (handle for key, suffix, handle in should if (key, suffix) not in standing)
        self._repair(list(dict.fromkeys(missing)), self._put)

    def _remove_orphans(self, should: list[Entry], stand: list[Entry]) -> None:
        wanted = {(key, suffix) for key, suffix, _ in should}
        orphans = [key for key, suffix, _ in stand if (key, suffix) not in wanted]
        self._repair(orphans, self._remove)

    def _repair(self, wrong: list[bytes], repair_one: Callable[[Transaction, bytes], int]) -> None:
        """Some in a transaction. `repair_one`: how many entries it has written."""
        for at in range(0, len(wrong), _ATOMIC):
            together = wrong[at : at + _ATOMIC]

            def repaired(txn: Transaction, together: list[bytes] = together) -> int:
                self._guard(txn)
                writer.fence(txn, self._table)
                return sum(repair_one(txn, key) for key in together)

            self.done += self._store.transact(repaired, _TRIES)

    def _put(self, txn: Transaction, handle: bytes) -> int:
        """All that the row of this handle lacks."""
        row = row_of(txn, self._table, self._index, handle)
        if row is None:
            return 0
        put = 0
        for key, unique in key_codec.index_entries(self._table, self._index, row, handle):
            held, wanted = txn.get(key), self._form.payload(handle) if unique else LIVE
            if held == wanted or is_live(held):
                continue
            txn.require(self._table.row_key(handle))
            txn.require(key)
            txn.write(WriteKind.CLAIM if unique else WriteKind.PLACE, key, wanted)
            put += 1
        return put

    def _remove(self, txn: Transaction, key: bytes) -> int:
        held = txn.get(key)
        if held is None or not is_live(held):
            return 0
        _, handle = key_codec.split_entry(self._table, self._index, key, held)
        row = row_of(txn, self._table, self._index, handle)
        if row is not None:
            wanted = dict(key_codec.index_entries(self._table, self._index, row, handle))
            payload = self._form.payload(handle)
            if key in wanted and held == (payload if wanted[key] else LIVE):
                return 0
        txn.require(self._table.row_key(handle))
        txn.delete(key)
        return 1
