"""Removing lock marks: traces of locks that no transaction can need any more.

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

from exuvia.kv import keys
from exuvia.kv.packet import Snapshot, Span, sequence_of
from exuvia.kv.transaction import Transaction

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
