"""Metadata first, data later: the loop that empties what finished jobs left, batch by batch.

Who could still write there was refused before the row was written: the element is absent, its range
is fenced by the revision, late fill tasks by the reorg's epoch. So emptying needs no check beyond
the owner's term. Tombstones go once their index is public and the job has ended: no fill can come
any more that they would have to stop (law 6). An entry may be placed over one at any time, so these
removals are validated, key by key; a writer who is one revision late may leave another tombstone,
which nobody sees.
"""

from exuvia.base.errors import Conflict, Deposed
from exuvia.cluster.owner import Campaign
from exuvia.ddl import queue, ranges
from exuvia.ddl.ranges import Left
from exuvia.kv.entry import TOMBSTONE, Kind
from exuvia.kv.packet import SEQUENCE_BYTES, Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

BATCH_KEYS = 5_000
SCAN_KEYS = 100_000
IDLE_S = 1.0


class Gc:
    """See the module. One transaction a step."""

    channel = "history"

    def __init__(self, store: Store, campaign: Campaign, batch_keys: int = BATCH_KEYS) -> None:
        self._store = store
        self._campaign = campaign
        self._batch_keys = batch_keys
        self._reached: dict[bytes, bytes] = {}  # a row's handle -> where the purge goes on

    def step(self, now: float) -> float:
        """Remove one batch of keys, or note a range as done; seconds until the next."""
        if not self._campaign.is_owner:
            return IDLE_S
        txn = self._store.begin()
        try:
            left = _next(txn)
            if left is None:
                return IDLE_S
            self._campaign.guard(txn)
            self._take(txn, left)
            return 0.0
        except Conflict:
            return 0.0  # an entry was placed over a tombstone, or a row of the tables changed
        except Deposed:
            return IDLE_S
        finally:
            txn.rollback()

    def _take(self, txn: Transaction, left: Left) -> None:
        reached = self._purge(txn, left) if left.tombstones_only else self._empty(txn, left)
        if reached is None:
            ranges.done(txn, left)
        txn.commit()
        self._reached.pop(left.handle, None)
        if reached is not None:
            self._reached[left.handle] = reached

    def _empty(self, txn: Transaction, left: Left) -> bytes | None:
        """Remove a batch; None when there was nothing."""
        batch = [key for key, _ in txn.scan(left.span, limit=self._batch_keys)]
        for key in batch:
            txn.write(Kind.REMOVE, key, b"")
        return left.span.start if batch else None

    def _purge(self, txn: Transaction, left: Left) -> bytes | None:
        """Remove the tombstones of the next keys; where to go on, None at the end."""
        start, seen = self._reached.get(left.handle, left.span.start), 0
        for keys, raws in txn.snapshot.chunks(Span(start, left.span.end), self._batch_keys):
            for key, raw in zip(keys, raws, strict=True):
                if raw[SEQUENCE_BYTES:] == TOMBSTONE:
                    txn.delete(key)
            seen += len(keys)
            if seen >= SCAN_KEYS:
                return keys[-1] + b"\0"
        return None


def _next(txn: Transaction) -> Left | None:
    """The oldest range whose job is in history."""
    for left in ranges.scan(txn):
        if queue.get(txn, left.job_id) is None:
            return left
    return None
