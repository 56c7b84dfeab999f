"""What the sessions of a front did to tables, on its way to mysql.stats_meta.

    statement    notes rows it wrote                   in its transaction's ledger, undone with it
    COMMIT       deltas.merge(ledger)                  in memory of the front
    every 3 s    one transaction a thousand tables     added to mysql.stats_meta
    shutdown     the rest

A front that is killed loses what it had not flushed: at most three seconds of counts. Nothing but
the accuracy of statistics depends on them.
"""

import threading
from collections.abc import Mapping
from itertools import islice

from exuvia.cluster.member import Member
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.stats import meta
from exuvia.stats.meta import Delta

FLUSH_S = 3.0
BATCH = 1000


class TransactionDeltas:
    """What one transaction did so far; entries bear the transaction's mark they were made at, so
    that a savepoint, or the undoing of a statement, takes its entries with it."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int, int]] = []

    def add(self, mark: int, table_id: int, rows: int, modified: int) -> None:
        """A statement wrote to a (physical) table. `mark`: of the transaction, after it."""
        self._entries.append((mark, table_id, rows, modified))

    def back_to(self, mark: int) -> None:
        """Forget what was done after the mark."""
        entries = self._entries
        while entries and entries[-1][0] > mark:
            entries.pop()

    def sums(self) -> dict[int, Delta]:
        """By (physical) table id."""
        found: dict[int, Delta] = {}
        for _, table_id, rows, modified in self._entries:
            delta = Delta(rows, modified)
            known = found.get(table_id)
            found[table_id] = delta if known is None else _sum(known, delta)
        return found


class Deltas:
    """The front's own. Thread-safe."""

    channel = ""

    def __init__(self, store: Store, member: Member) -> None:
        self._store = store
        self._member = member
        self._lock = threading.Lock()
        self._pending: dict[int, Delta] = {}

    def merge(self, ledger: Mapping[int, Delta]) -> None:
        """A transaction committed: what it did, by (physical) table id."""
        if not ledger:
            return
        with self._lock:
            for table_id, delta in ledger.items():
                known = self._pending.get(table_id)
                self._pending[table_id] = delta if known is None else _sum(known, delta)

    def step(self, now: float) -> float:
        """Write a batch; seconds until the next."""
        batch = self._take()
        if not batch:
            return FLUSH_S

        def add(txn: Transaction) -> None:
            self._member.guard(txn)
            meta.add(txn, batch)

        try:
            self._store.transact(add)
        except BaseException:
            self.merge(batch)
            raise
        return 0.0 if len(batch) == BATCH else FLUSH_S

    def flush(self, batches: int = 100) -> None:
        """Write all there is: before the front ends."""
        for _ in range(batches):
            with self._lock:
                if not self._pending:
                    return
            self.step(0.0)

    def _take(self) -> dict[int, Delta]:
        with self._lock:
            batch = dict(islice(self._pending.items(), BATCH))
            for table_id in batch:
                del self._pending[table_id]
        return batch


def _sum(one: Delta, other: Delta) -> Delta:
    return Delta(one.rows + other.rows, one.modified + other.modified)
