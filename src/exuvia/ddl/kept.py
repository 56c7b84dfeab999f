"""What finished drops left that can be taken back: a record each, and the loop that ends it.

    m/undo/{job}      Kept: put by the step that hides the element, removed by the one that shows it
                      or takes it away (ddl/actions/undo.py). That of a TRUNCATE is put with it, and
                      while it is there what lay under the old id is not emptied
                      (ddl/actions/undo_truncate.py)

    its time is up    a job is asked for that takes the element away, once: the record names it
                      that job was cancelled: it is asked for again
    nothing hidden    the record goes: a definition alone, or a table that is no more
    its database was dropped    the record waits until its tables come back or go

The owner of schema changes runs it, with the clock it is given: the clock says when the end is
asked for, and the order of jobs whether UNDO came before it (law 3).
"""

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict
from exuvia.catalog import meta
from exuvia.catalog.model import SchemaState, TableInfo, evolve
from exuvia.cluster.owner import Campaign
from exuvia.ddl import queue
from exuvia.ddl.actions.undo import end_undo, is_hidden
from exuvia.ddl.decision import Kept
from exuvia.ddl.job import timestamp
from exuvia.ddl.queue import numbered
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction

LOOK_S = 1.0
MOST = 100
_DECODER = msgspec.json.Decoder(Kept)


def put(txn: Transaction, kept: Kept) -> None:
    txn.put(keys.meta("undo", kept.job_id), msgspec.json.encode(kept))


def get(txn: Transaction, job_id: int) -> Kept | None:
    """What that job dropped and can be taken back."""
    raw = txn.get(keys.meta("undo", job_id))
    return None if raw is None else _DECODER.decode(raw)


def forget(txn: Transaction, job_id: int) -> None:
    txn.delete(keys.meta("undo", job_id))


def end(txn: Transaction, job_id: int, before: TableInfo | None, after: TableInfo | None) -> None:
    """It has been taken back, or away. Where UNDO of a MODIFY put another column in the place of
    the one it changed, earlier changes of that one are of the new one."""
    ended = get(txn, job_id)
    forget(txn, job_id)
    if ended is None or ended.kind != "modify" or before is None or after is None:
        return
    shown = {each.id for each in before.public_columns}
    there = {each.id for each in after.public_columns}
    replaced = {*ended.elements, *(shown - there)}
    for new in there - shown:
        for each in every(txn):
            changed = each.changed
            if each.table_id == after.id and changed is not None and changed.id in replaced:
                put(txn, evolve(each, changed=evolve(changed, id=new)))


def follow(txn: Transaction, source: int, target: int) -> None:
    """What is kept of a table that another id takes the place of."""
    for each in every(txn):
        if each.table_id == source:
            put(txn, evolve(each, table_id=target))


def every(txn: Transaction) -> list[Kept]:
    """All of them, by the job."""
    found = txn.scan(keys.span_of(keys.meta("undo")))
    return [_DECODER.decode(raw) for _, raw in found]


class UndoWindows:
    """See the module. `step` does at most one transaction."""

    def __init__(self, store: Store, campaign: Campaign, clock: Clock) -> None:
        self._store = store
        self._campaign = campaign
        self._clock = clock
        self._next = float("-inf")

    def step(self, now: float) -> bool:
        """Ask for the end of those whose time is up; whether there were any. Raises Deposed."""
        if now < self._next:
            return False
        self._next = now + LOOK_S
        stamp = timestamp(self._clock.wall_ns())
        with self._store.read() as txn:
            due = [each for each in every(txn) if each.until <= stamp and _is_open(txn, each)]
        if not due:
            return False
        try:
            self._store.transact(lambda txn: self._end(txn, due[:MOST], stamp), ONCE)
        except Conflict:
            return False  # a job has just taken one back, or away: looked at again
        return True

    def _end(self, txn: Transaction, due: list[Kept], stamp: int) -> None:
        self._campaign.guard(txn)
        for each in due:
            kept = get(txn, each.job_id)
            table = meta.get_table(txn, each.table_id)
            if kept is None or not _is_open(txn, kept):
                continue
            if table is None or not is_hidden(table, kept):
                forget(txn, kept.job_id)
                continue
            database = meta.get_database(txn, table.exuvia_db)
            assert database is not None
            (job,) = numbered(txn, [end_undo(database, table, kept)], stamp)
            queue.insert(txn, job)
            put(txn, evolve(kept, ended_by=job.id))
        txn.notify("job")
        txn.notify("history")  # of a record that is gone: its rows may be emptied


def _is_open(txn: Transaction, kept: Kept) -> bool:
    """Whether nobody is about to end it, and somebody can."""
    if kept.ended_by and queue.get(txn, kept.ended_by) is not None:
        return False
    table = meta.get_table(txn, kept.table_id)
    if table is None:
        return True
    database = meta.get_database(txn, table.exuvia_db)
    return database is not None and SchemaState.PUBLIC == database.state == table.state
