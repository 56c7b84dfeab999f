"""Empties the key ranges of dropped elements after their jobs: metadata first, data later.

    mysql.gc_delete_range --emptied--> mysql.gc_delete_range_done

    element_id    > 0   everything in the range is removed: its index, table or partition is gone
                  < 0   only tombstones are removed: the index of that number became public (law 6)
    start_key           the key from which emptying continues
    a range of names    the tables of a dropped database: each leaves its own rows instead

    oldest row
      its job is unfinished            not yet
      a whole table or database        not before exuvia_drop_retention_s have passed: RECOVER TABLE
      data of TRUNCATE for UNDO        not while its record exists (ddl/kept.py)
      the tables of a database         each leaves a row of its own, some at a time
      anything else                    one batch and the row's new start_key

The transaction that recovers a table takes its ranges back (`restore_ranges`). That transaction and
every batch write the same row, so one of them commits first and the other fails. A range that was
partly emptied is never recovered, and a recovered range is never emptied. The clock only decides
how long data is retained, not whether it may be recovered.

Late writers were refused before: the element is absent, the revision fences its range, and the
reorg's epoch fences late backfill tasks. So emptying only checks the term of the `gc` owner, which
every transaction here requires: a deposed owner empties nothing. The progress is stored in the row,
so the next owner continues there.

Tombstones are removed once their index is public and the job has ended: no backfill that they would
have to stop can follow (law 6). While clients commit, a batch is short and a longer rest follows
it. The rest is much longer while a reorg runs, or while any job runs under client load: a client
waits for those.

Source: seed 002, the background job and the optimised delete. Table and columns are TiDB's; TiDB's
element ids are positive.
"""

from collections.abc import Callable, Iterator
from functools import partial

from exuvia.base.clock import Clock, Then
from exuvia.base.errors import Conflict, Deposed
from exuvia.catalog import meta, writer
from exuvia.catalog.model import evolve
from exuvia.catalog.system_tables import system_table
from exuvia.catalog.sysvar import variables
from exuvia.cluster.owner import Campaign
from exuvia.ddl import queue
from exuvia.ddl.delete_ranges import (
    STAMP_MS_BITS,
    DeleteRange,
    PendingRange,
    add_range,
    last_ordinal,
    range_reached,
    scan_ranges,
)
from exuvia.ddl.elements import ranges_of_table
from exuvia.events.change_log import ChangeLogs
from exuvia.kv import keys
from exuvia.kv.packet import TOMBSTONE, Snapshot, Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction
from exuvia.pipeline.settings import ALONE_S
from exuvia.pipeline.throttle import BatchSize, RecentSenders, drivers_in

# -- while they are emptied ------------------------------------------------------------------------


def range_done(txn: Transaction, left: PendingRange) -> None:
    """Store that the range is empty.

    A table's id counters and foreign keys are removed with its rows.
    """
    if left.may_return and not left.holds_names:
        job = queue.finished(txn, left.job_id)
        if job is not None:  # the element's own number may be that of another table
            _forget_table(txn, left, job.table_id)
    writer.delete(txn, system_table(txn, "gc_delete_range"), left.handle, left.row)
    writer.insert(txn, system_table(txn, "gc_delete_range_done"), left.row, left.handle)


def _forget_table(txn: Transaction, left: PendingRange, table_id: int) -> None:
    """Remove the metadata of a dropped table that cannot be recovered, and the marks of its foreign
    keys at their parents."""
    if not table_id or meta.get_table(txn, table_id) is not None:
        return
    meta.forget_counters(txn, table_id)
    ordinal = last_ordinal(txn, left.job_id)
    for link, parent in meta.forget_keys(txn, table_id):
        ordinal += 1
        marks = DeleteRange(link, keys.span_of(keys.mark_prefix(parent, link)))
        add_range(txn, left.job_id, ordinal, marks, left.since_ms << STAMP_MS_BITS)


def expand_names(txn: Transaction, left: PendingRange, most: int) -> bytes | None:
    """Replace some tables of a dropped database by their own ranges.

    Returns where to continue, or None at the end.
    """
    ordinal = last_ordinal(txn, left.job_id)
    entries = list(txn.scan(left.span, limit=most))
    for key, payload in entries:
        info = meta.get_table(txn, keys.read_number(payload))
        txn.delete(key)
        if info is not None:
            # its foreign keys wait since the drop
            meta.drop_table(txn, evolve(info, exuvia_referred=()))
            for delete_range in ranges_of_table(info):
                ordinal += 1
                add_range(txn, left.job_id, ordinal, delete_range, left.since_ms << STAMP_MS_BITS)
            _forget_table(txn, left, info.id)
            ordinal = last_ordinal(txn, left.job_id)
    return entries[-1][0] + b"\0" if len(entries) == most else None


#     empty_range         removes every key, without validation: the table or the index is gone and
#                         its last writers were fenced
#     purge_tombstones    removes tombstones of a public index, live entries stay. An entry may be
#                         placed over a tombstone at any time, so each removal is validated: on
#                         Conflict the batch is read again
#
# Both write into the caller's transaction, which also stores the progress. So any owner can resume
# a range at the key of the last commit, and repeating a batch is harmless. Neither commits.

BATCH_KEYS = 5_000
SCAN_BATCHES = 20  # most batches of live entries that one purge reads


def empty_range(
    txn: Transaction, span: Span, most: int = BATCH_KEYS, spared: bytes = b""
) -> bytes | None:
    """Remove a bounded number of keys, except those with the prefix `spared`. Returns the key to
    continue from, or None at the end."""
    for keys_found, _ in txn.snapshot.chunks(span, most):
        removed = (
            [key for key in keys_found if not key.startswith(spared)] if spared else keys_found
        )
        txn.remove_all(removed)
        return None if len(keys_found) < most else keys_found[-1] + b"\0"
    return None


def _spared(txn: Transaction, physical_id: int) -> bytes:
    """The prefix of keys under the id that must not be removed, or b"".

    After EXCHANGE another table may have the same id; then these are the marks of its children.
    """
    return keys.marks_prefix(physical_id) if meta.get_table(txn, physical_id) is not None else b""


def purge_tombstones(txn: Transaction, span: Span, most: int = BATCH_KEYS) -> bytes | None:
    """Remove about `most` tombstones. Returns where to continue, or None at the end of the span."""
    removed = examined = 0
    for keys_found, raws in txn.snapshot.chunks(span, most):
        for key, raw in zip(keys_found, raws, strict=True):
            if raw[txn.snapshot.skip :] == TOMBSTONE:
                txn.delete(key)
                removed += 1
        examined += len(keys_found)
        if removed + len(keys_found) > most or examined >= SCAN_BATCHES * most:
            return keys_found[-1] + b"\0"
    return None


# Traces of locks; those that no transaction can need any more are removed:
#
#     look                    a stamp is stored: all later snapshots are at or above it
#     KEPT_S later            marks up to it are removed, table by table, a batch a transaction; the
#                             first of them stores the stamp in m/lockfloor
#     commit                  refused if it held a key since before the floor, in a table with
#                             younger marks: there may have been a mark (kv/validate.py)
#
# So the clock decides how long marks are retained, never whether a commit is right. A mark that was
# written again in the meantime stays: it is deleted as it was read, or the batch is refused and
# read again. The header of a table's marks is removed with the table.

KEPT_S = 300.0
BATCH = 1_000
_TABLES = Span(b"t", b"u")
_TABLE_END = 9


class LockMarks:
    """Removes old lock marks. The `gc` owner calls `step`; each call is at most one transaction."""

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._due = 0.0
        self._floor = -1
        self._at = _TABLES.start

    def is_due(self, now: float) -> bool:
        """Whether a step would do something."""
        return now >= self._due

    def step(self, txn: Transaction, now: float) -> Then:
        """Remove a batch in a transaction that its caller has guarded."""
        newest = txn.snapshot.view.horizon
        if self._floor < 0:
            self._floor, self._due = newest, now + self._kept_s
            return lambda: 0.0
        marks = list(_marks(txn.snapshot, self._at, self._floor))
        for key in marks:
            txn.delete(key)
        if marks and keys.read_number(txn.get(keys.LOCK_FLOOR)) < self._floor:
            txn.put(keys.LOCK_FLOOR, keys.number(self._floor))
        return partial(self._removed, marks, newest, now)

    def _removed(self, marks: list[bytes], newest: int, now: float) -> float:
        if len(marks) < BATCH:
            self._floor, self._due, self._at = newest, now + self._kept_s, _TABLES.start
        else:
            self._at = marks[-1]
        return 0.0


def _marks(snapshot: Snapshot, start: bytes, floor: int) -> Iterator[bytes]:
    """At most BATCH marks up to the floor, of all tables from `start` on."""
    left = BATCH
    while (first := next(snapshot.scan(Span(start, _TABLES.end)), None)) is not None:
        header = keys.lock_header(first[0])
        begin = max(start, header + b"\0")
        for key, raw in snapshot.scan(Span(begin, keys.after(header))):
            if snapshot.stamps([raw])[0] <= floor:
                yield key
                left -= 1
                if not left:
                    return
        start = keys.after(header[:_TABLE_END])


# -- the loop --------------------------------------------------------------------------------------

ROLE = "gc"
RETENTION = "exuvia_drop_retention_s"
BATCH_TABLES = 100
FIRST_KEYS = 250
IDLE_S = 1.0


_LOOK_S = 0.1
_MANY_PER_S = 20.0  # heartbeats, statistics and the owner's own steps stay below it
_UNDER_LOAD_S = 0.004
_REST_FACTOR = 9.0  # a tenth of the time: no client waits for it
_REORG_REST_FACTOR = 50.0


class OtherCommits:
    """Whether others commit often.

    The store's sequence grows with each commit, and this owner's commits are counted. This works
    with any engine, and no client has to announce itself.
    """

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self.ours = 0
        self._sample = (monotonic(), *self._count())
        self._many = False

    def _count(self) -> tuple[int, int]:
        with self._store.read() as txn:
            return txn.sequence, self.ours

    def are_many(self) -> bool:
        """Measured ten times a second."""
        now = self._monotonic()
        elapsed_s = now - self._sample[0]
        if elapsed_s >= _LOOK_S:
            sequence, ours = self._count()
            others = (sequence - self._sample[1]) - (ours - self._sample[2])
            self._many = others / elapsed_s > _MANY_PER_S
            self._sample = (now, sequence, ours)
        return self._many


def _is_kept(txn: Transaction, left: PendingRange) -> bool:
    """Whether UNDO may bring it back. A record that is gone never comes again."""
    return left.may_return and txn.get(keys.meta("undo", left.job_id)) is not None


class GcWorker:
    """The loop that empties ranges and removes lock marks and change logs: one transaction a
    step."""

    channel = "history"

    def __init__(
        self, store: Store, campaign: Campaign, clock: Clock, batch_keys: int = BATCH_KEYS
    ) -> None:
        self._store = store
        self._campaign = campaign
        self._clock = clock
        self.pace = BatchSize(batch_keys, FIRST_KEYS, near=store.near, least=FIRST_KEYS)
        self.marks = LockMarks()
        self.logs = ChangeLogs(store, clock)
        self._logs_turn = True
        self._others = OtherCommits(store, clock.monotonic)
        self._drivers = RecentSenders()
        self._quiet: tuple[int, int] = (-1, -1)  # notices and retention when nothing was due
        self._due_ms = 0.0  # when the first retained range will be due

    def step(self, now: float) -> float:
        """Remove one batch of keys, or store that a range is empty.

        Returns seconds until the next step.
        """
        if not self._campaign.is_owner:
            return IDLE_S
        notices = self._store.counter(self.channel)
        try:
            then = self._store.transact(lambda txn: self._batch(txn, notices, now), ONCE)
        except Conflict:
            return 0.0  # placed over a tombstone, recovered, or another row of the tables changed
        except Deposed:
            self._campaign.deposed()
            return IDLE_S
        return then()

    def _batch(self, txn: Transaction, notices: int, now: float) -> Then:
        if self.marks.is_due(now):
            self._campaign.guard(txn)
            return self.marks.step(txn, now)
        if self.logs.note(txn, now):
            self._campaign.guard(txn)
            return lambda: 0.0
        began, rows = self._clock.monotonic(), self.pace.rows
        left = self._next(txn, notices)
        if (left is None or self._logs_turn) and self.logs.remove(txn, now, rows):
            self._campaign.guard(txn)
            return self._paced(txn, rows, began, now, logs_turn=False)
        if left is None:
            return lambda: IDLE_S
        self._campaign.guard(txn)
        if left.holds_names:
            start = expand_names(txn, left, BATCH_TABLES)
        elif left.tombstones_only:
            start = purge_tombstones(txn, left.span, rows)
        else:
            start = empty_range(txn, left.span, rows, _spared(txn, left.element_id))
        if start is None:
            range_done(txn, left)
        else:
            range_reached(txn, left, start)
        return self._paced(txn, rows, began, now, logs_turn=True)

    def _paced(
        self, txn: Transaction, rows: int, began: float, now: float, logs_turn: bool
    ) -> Then:
        """The rest after a batch. Ranges and change logs take turns."""
        reorg_goes_on = bool(self._drivers.recent(drivers_in(txn), now))
        job_goes_on = reorg_goes_on or not queue.is_empty(txn)
        return partial(self._pause_after, rows, began, reorg_goes_on, job_goes_on, logs_turn)

    def _pause_after(
        self, rows: int, began: float, reorg_goes_on: bool, job_goes_on: bool, logs_turn: bool
    ) -> float:
        self._others.ours += 1
        self._logs_turn = logs_turn
        spent_s = self._clock.monotonic() - began
        busy = self._others.are_many()
        self.pace.succeeded(rows, spent_s, _UNDER_LOAD_S if busy else ALONE_S)
        if reorg_goes_on or (busy and job_goes_on):
            return spent_s * _REORG_REST_FACTOR
        return spent_s * _REST_FACTOR if busy else 0.0

    def _next(self, txn: Transaction, notices: int) -> PendingRange | None:
        """The oldest range that may be emptied now.

        If all are retained, they are not read again before the first is due.
        """
        now_ms = self._clock.wall_ns() // 1_000_000
        kept_ms = 1000 * variables.read_int(txn, RETENTION)
        inputs = notices, kept_ms
        if inputs == self._quiet and now_ms < self._due_ms:
            return None
        due_ms = float("inf")
        for left in scan_ranges(txn):
            kept_until_ms = left.since_ms + kept_ms if left.may_return else 0
            if kept_until_ms > now_ms:
                due_ms = min(due_ms, kept_until_ms)
            elif queue.get(txn, left.job_id) is None and not _is_kept(txn, left):
                return left
        self._quiet, self._due_ms = inputs, due_ms
        return None
