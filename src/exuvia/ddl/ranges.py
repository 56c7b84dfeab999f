"""Ranges of keys that finished jobs left behind, as rows.

    mysql.gc_delete_range --ddl/emptying.py--> mysql.gc_delete_range_done

    element_id    > 0   everything in the range goes: its index or table is gone
                  < 0   only tombstones go: the index of that number became public (law 6)

Source: seed 002, the optimised delete; table and columns of TiDB, whose element ids are positive.
"""

from collections.abc import Iterator

from exuvia.catalog import meta, reader, writer
from exuvia.ddl.queue import Row, system_table
from exuvia.ddl.world import DeleteRange
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction

_ORDINAL_BITS = 24
_JOB, _ELEMENT, _START, _END, _DONE_AT = 0, 1, 2, 3, 4


class Left:
    """A row of mysql.gc_delete_range."""

    def __init__(self, handle: bytes, row: Row) -> None:
        self.handle = handle
        self.row = row
        self.job_id = int(str(row[_JOB]))
        self.element_id = int(str(row[_ELEMENT]))
        self.span = Span(bytes.fromhex(str(row[_START])), bytes.fromhex(str(row[_END])))

    @property
    def tombstones_only(self) -> bool:
        """Whether live entries stay."""
        return self.element_id < 0


def leave(txn: Transaction, job_id: int, ordinal: int, each: DeleteRange) -> None:
    """A range to be emptied once the job has ended. Hidden row id: job and ordinal."""
    start, end = each.span
    element = -each.element_id if each.tombstones_only else each.element_id
    row: Row = [job_id, element, start.hex(), end.hex(), txn.sequence]
    handle = keys.i64(job_id << _ORDINAL_BITS | ordinal)
    writer.insert(txn, system_table(txn, "gc_delete_range"), row, handle)


def waiting(txn: Transaction) -> list[Left]:
    """The ranges not emptied yet, oldest first."""
    return list(scan(txn))


def scan(txn: Transaction) -> Iterator[Left]:
    """The same, read as far as they are looked at."""
    for handle, row in reader.scan(txn, system_table(txn, "gc_delete_range")):
        yield Left(handle, row)


def done(txn: Transaction, left: Left) -> None:
    """The range is empty; with a table's last row its counters of ids go."""
    writer.delete(txn, system_table(txn, "gc_delete_range"), left.handle, left.row)
    if left.span == keys.table_span(abs(left.element_id)):
        meta.forget_counters(txn, left.element_id)
    row = [*left.row[:_DONE_AT], txn.sequence]
    writer.insert(txn, system_table(txn, "gc_delete_range_done"), row, left.handle)
