"""Metadata first, data later: ranges that finished jobs left, and the loop that empties them.

    mysql.gc_delete_range --batch by batch, oldest first--> empty --> mysql.gc_delete_range_done

Whoever could still write there was refused before the row was written: the element is absent, its
range is fenced by the revision, late fill tasks by the reorg's epoch. So emptying needs no check
beyond the owner's term.
Source: seed 002, the optimised delete; table and columns of TiDB.
"""

from itertools import islice

from exuvia.base.errors import Conflict, Deposed
from exuvia.catalog import meta, reader, writer
from exuvia.cluster.owner import Campaign
from exuvia.ddl.queue import Row, system_table
from exuvia.ddl.world import DeleteRange
from exuvia.kv import keys
from exuvia.kv.entry import Kind
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

BATCH_KEYS = 5_000
IDLE_S = 1.0
_ORDINAL_BITS = 24
_ELEMENT, _START, _END, _DONE_AT = 1, 2, 3, 4


def leave(txn: Transaction, job_id: int, ordinal: int, each: DeleteRange) -> None:
    """A range to be emptied once the job's step has committed. Hidden row id: job and ordinal."""
    start, end = each.span
    row: Row = [job_id, each.element_id, start.hex(), end.hex(), txn.sequence]
    handle = keys.i64(job_id << _ORDINAL_BITS | ordinal)
    writer.insert(txn, system_table(txn, "gc_delete_range"), row, handle)


def waiting(txn: Transaction, limit: int | None = None) -> list[tuple[bytes, Row]]:
    """(handle, row) of the ranges not emptied yet, oldest first."""
    return list(islice(reader.scan(txn, system_table(txn, "gc_delete_range")), limit))


class Gc:
    """The loop that empties ranges, one batch a step."""

    channel = "history"

    def __init__(self, store: Store, campaign: Campaign, batch_keys: int = BATCH_KEYS) -> None:
        self._store = store
        self._campaign = campaign
        self._batch_keys = batch_keys

    def step(self, now: float) -> float:
        """Remove one batch of keys, or note a range as done; seconds until the next."""
        if not self._campaign.is_owner:
            return IDLE_S
        txn = self._store.begin()
        try:
            found = waiting(txn, limit=1)
            if not found:
                return IDLE_S
            self._campaign.guard(txn)
            if not self._empty(txn, found[0][1]):
                _move_to_done(txn, *found[0])
            txn.commit()
            return 0.0
        except Conflict:
            return 0.0
        except Deposed:
            return IDLE_S
        finally:
            txn.rollback()

    def _empty(self, txn: Transaction, row: Row) -> bool:
        """Remove a batch; whether there was anything."""
        batch = [key for key, _ in txn.scan(_span(row), limit=self._batch_keys)]
        for key in batch:
            txn.write(Kind.REMOVE, key, b"")
        return bool(batch)


def _span(row: Row) -> Span:
    return Span(bytes.fromhex(str(row[_START])), bytes.fromhex(str(row[_END])))


def _move_to_done(txn: Transaction, handle: bytes, row: Row) -> None:
    writer.delete(txn, system_table(txn, "gc_delete_range"), handle, row)
    element = int(str(row[_ELEMENT]))
    if _span(row) == keys.table_span(element):
        meta.forget_counters(txn, element)
    done = [*row[:_DONE_AT], txn.sequence]
    writer.insert(txn, system_table(txn, "gc_delete_range_done"), done, handle)
