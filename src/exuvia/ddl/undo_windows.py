"""The loop that ends retention for UNDO (ddl/kept.py).

    retention ended             a job that removes the element is submitted once: the record has its
                                id. If that job was cancelled, another one is submitted
    nothing hidden              the record is removed: only a definition, or the table is gone
    its database was dropped    the record waits until its tables are recovered or removed

The owner of schema changes runs it with its clock. The clock decides when that job is submitted;
the order of jobs decides whether UNDO came before it (law 3).
"""

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict
from exuvia.catalog import meta
from exuvia.catalog.model import SchemaState, evolve
from exuvia.cluster.owner import Campaign
from exuvia.ddl import queue
from exuvia.ddl.actions.undo import end_undo, is_hidden
from exuvia.ddl.job import timestamp
from exuvia.ddl.kept import Kept, every, forget, get, put
from exuvia.ddl.queue import numbered
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction

LOOK_S = 1.0
MOST = 100


class UndoWindows:
    """The loop that ends retention. `step` does at most one transaction."""

    def __init__(self, store: Store, campaign: Campaign, clock: Clock) -> None:
        self._store = store
        self._campaign = campaign
        self._clock = clock
        self._next = float("-inf")

    def step(self, now: float) -> bool:
        """Submit jobs for records whose retention ended. Raises Deposed.

        Returns whether there were any.
        """
        if now < self._next:
            return False
        self._next = now + LOOK_S
        stamp = timestamp(self._clock.wall_ns())
        with self._store.read() as txn:
            due = [
                record for record in every(txn) if record.until <= stamp and _is_open(txn, record)
            ]
        if not due:
            return False
        try:
            self._store.transact(lambda txn: self._end(txn, due[:MOST], stamp), ONCE)
        except Conflict:
            return False  # a job has just restored or removed one: tried again later
        return True

    def _end(self, txn: Transaction, due: list[Kept], stamp: int) -> None:
        self._campaign.guard(txn)
        for due_record in due:
            record = get(txn, due_record.job_id)
            table = meta.get_table(txn, due_record.table_id)
            if record is None or not _is_open(txn, record):
                continue
            if table is None or not is_hidden(table, record):
                forget(txn, record.job_id)
                continue
            database = meta.get_database(txn, table.exuvia_db)
            assert database is not None
            (job,) = numbered(txn, [end_undo(database, table, record)], stamp)
            queue.insert(txn, job)
            put(txn, evolve(record, ended_by=job.id))
        txn.notify("job")
        txn.notify("history")  # for a removed record: its rows may be emptied


def _is_open(txn: Transaction, record: Kept) -> bool:
    """Whether no job is about to end the record, and one can."""
    if record.ended_by and queue.get(txn, record.ended_by) is not None:
        return False
    table = meta.get_table(txn, record.table_id)
    if table is None:
        return True
    database = meta.get_database(txn, table.exuvia_db)
    return database is not None and SchemaState.PUBLIC == database.state == table.state
