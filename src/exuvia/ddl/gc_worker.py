"""Metadata first, data later: the loop that empties what finished jobs left (seed 002's background
job).

    oldest row of mysql.gc_delete_range
      its job is unfinished            not yet
      a whole table or database        not before exuvia_drop_retention_s have passed: RECOVER TABLE
      the tables of a database         each leaves a row of its own, some at a time
      anything else                    one batch (pipeline/delete.py) and the row's new start_key

Who could still write there was refused before: the element is absent, its range is fenced by the
revision, late fill tasks by the reorg's epoch. So emptying needs no check beyond the term of the
`gc` owner, an ownership of its own, which is required by every transaction here: an owner that was
deposed empties nothing. Where it has come to stands in the row, so the next one goes on there.
Tombstones go once their index is public and the job has ended: no fill can come any more that they
would have to stop (law 6).

The same owner removes lock marks.

While clients commit, a batch is short and a longer rest follows it (pipeline/throttle.py).

The clock says only how long data is kept, never whether it may be taken: see ddl/delete_range.py.

Lock marks are traces of locks; those that no transaction can need any more are removed:

    look                    the newest sequence is noted
    KEPT_S later            marks up to it go, table by table, a batch a transaction; with the first
                            of them m/lockfloor says so
    a commit that held a key since before the floor, in a table with younger marks, is refused: it
                            cannot know whether there was one (kv/validate.py)

So the clock says how long marks are kept, never whether a commit is right. A mark that was left
anew meanwhile stays: it is deleted as it was read, or the batch is refused and read again. What
says that a table has marks goes with the table.
"""

from collections.abc import Iterator

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict, Deposed
from exuvia.catalog.sysvar import variables
from exuvia.cluster.owner import Campaign
from exuvia.ddl import delete_range, queue
from exuvia.ddl.delete_range import PendingRange
from exuvia.kv import keys
from exuvia.kv.packet import Snapshot, Span, sequence_of
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import delete
from exuvia.pipeline.throttle import BatchSize, Besides

KEPT_S = 300.0
BATCH = 1_000
_TABLES = Span(b"t", b"u")
_TABLE_END = 9


class LockMarks:
    """See the module. `step` is called by the `gc` owner; at most one transaction."""

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._due = 0.0
        self._floor = -1
        self._at = _TABLES.start

    def is_due(self, now: float) -> bool:
        """Whether a step would do something."""
        return now >= self._due

    def step(self, txn: Transaction, now: float) -> None:
        """Remove a batch in a transaction that its caller has guarded. Raises Conflict, Deposed."""
        newest = txn.sequence
        if self._floor < 0:
            self._floor, self._due = newest, now + self._kept_s
            return
        found = list(_marks(txn.snapshot, self._at, self._floor))
        for key in found:
            txn.delete(key)
        if found and keys.read_number(txn.get(keys.LOCK_FLOOR)) < self._floor:
            txn.put(keys.LOCK_FLOOR, keys.number(self._floor))
        txn.commit()
        if len(found) < BATCH:
            self._floor, self._due, self._at = newest, now + self._kept_s, _TABLES.start
        else:
            self._at = found[-1]


def _marks(snapshot: Snapshot, start: bytes, floor: int) -> Iterator[bytes]:
    """At most BATCH marks left up to the floor, of all tables from `start` on."""
    left = BATCH
    while (first := next(snapshot.scan(Span(start, _TABLES.end)), None)) is not None:
        header = keys.lock_header(first[0])
        begin = max(start, header + b"\0")
        for key, raw in snapshot.scan(Span(begin, keys.after(header))):
            if sequence_of(raw) <= floor:
                yield key
                left -= 1
                if not left:
                    return
        start = keys.after(header[:_TABLE_END])


# -- gc worker -------------------------------------------------------------------------------------

ROLE = "gc"
RETENTION = "exuvia_drop_retention_s"
BATCH_TABLES = 100
FIRST_KEYS = 250
IDLE_S = 1.0


class GcWorker:
    """See the module. One transaction a step."""

    channel = "history"

    def __init__(
        self, store: Store, campaign: Campaign, clock: Clock, batch_keys: int = delete.BATCH_KEYS
    ) -> None:
        self._store = store
        self._campaign = campaign
        self._clock = clock
        self.pace = BatchSize(batch_keys, FIRST_KEYS)
        self.marks = LockMarks()
        self._others = Besides(store, clock.monotonic)
        self._quiet: tuple[int, int] = (-1, -1)  # notices and retention when nothing was due
        self._due_ms = 0.0  # when the first of those that are kept will be

    def step(self, now: float) -> float:
        """Remove one batch of keys, or note a range as done; seconds until the next."""
        if not self._campaign.is_owner:
            return IDLE_S
        notices = self._store.counter(self.channel)
        txn = self._store.begin()
        try:
            if self.marks.is_due(now):
                self._campaign.guard(txn)
                self.marks.step(txn, now)
                return 0.0
            left = self._next(txn, notices)
            if left is None:
                return IDLE_S
            self._campaign.guard(txn)
            began, rows = self._clock.monotonic(), self.pace.rows
            self._take(txn, left, rows)
            self._others.ours += 1
            spent_s = self._clock.monotonic() - began
            return self.pace.succeeded(rows, spent_s, self._others.busy()).rest_s
        except Conflict:
            return 0.0  # placed over a tombstone, recovered, or another row of the tables changed
        except Deposed:
            self._campaign.deposed()
            return IDLE_S
        finally:
            txn.rollback()

    def _next(self, txn: Transaction, notices: int) -> PendingRange | None:
        """The oldest range that may be emptied now. Many that are kept are not looked at again
        before the first is due."""
        now_ms = self._clock.wall_ns() // 1_000_000
        kept_ms = 1000 * variables.read_int(txn, RETENTION)
        seen = notices, kept_ms
        if seen == self._quiet and now_ms < self._due_ms:
            return None
        due_ms = float("inf")
        for left in delete_range.scan(txn):
            kept_until_ms = left.since_ms + kept_ms if left.may_return else 0
            if kept_until_ms > now_ms:
                due_ms = min(due_ms, kept_until_ms)
            elif queue.get(txn, left.job_id) is None:
                return left
        self._quiet, self._due_ms = seen, due_ms
        return None

    def _take(self, txn: Transaction, left: PendingRange, most: int) -> None:
        if left.holds_names:
            start = delete_range.expand(txn, left, BATCH_TABLES)
        elif left.tombstones_only:
            start = delete.purge(txn, left.span, most)
        else:
            start = delete.empty(txn, left.span, most)
        if start is None:
            delete_range.done(txn, left)
        else:
            delete_range.reached(txn, left, start)
        txn.commit()
