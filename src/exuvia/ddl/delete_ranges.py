"""Unused key ranges as rows of mysql.gc_delete_range. `ddl/gc_worker.py` empties them.

A job may leave several; the hidden row id of each is the job's id and an ordinal.
"""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from exuvia.catalog import reader, writer
from exuvia.catalog.system_tables import system_table
from exuvia.ddl.snapshot import Fact, FactReader
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction

Row = list[object]

STAMP_MS_BITS = 18
_ORDINAL_BITS = 24
_JOB, _ELEMENT, _START, _END, _STAMP = 0, 1, 2, 3, 4
_NAMES = keys.meta("name")


class DeleteRange(msgspec.Struct, frozen=True):
    """Unused keys, or unused tombstones among keys.

    A span of names (`m/name/...`) represents the tables of a dropped database.
    """

    element_id: int
    span: Span
    tombstones_only: bool = False


class PendingRange:
    """A row of mysql.gc_delete_range. `since_ms`: wall time at which the range was added."""

    def __init__(self, handle: bytes, row: Row) -> None:
        self.handle = handle
        self.row = row
        self.job_id = int(str(row[_JOB]))
        self.element_id = int(str(row[_ELEMENT]))
        self.span = Span(bytes.fromhex(str(row[_START])), bytes.fromhex(str(row[_END])))
        self.since_ms = int(str(row[_STAMP])) >> STAMP_MS_BITS

    @property
    def tombstones_only(self) -> bool:
        """Whether live entries stay."""
        return self.element_id < 0

    @property
    def holds_names(self) -> bool:
        """Whether it represents the tables of a dropped database."""
        return self.span.start.startswith(_NAMES)

    @property
    def may_return(self) -> bool:
        """Whether it is retained: whole tables and databases can be recovered."""
        return self.holds_names or self.span.end == keys.table_span(abs(self.element_id)).end


def add_range(
    txn: Transaction, job_id: int, ordinal: int, delete_range: DeleteRange, stamp: int
) -> None:
    """Add a range to be emptied once the job has ended. Hidden row id: job and ordinal."""
    start, end = delete_range.span
    element = -delete_range.element_id if delete_range.tombstones_only else delete_range.element_id
    row: Row = [job_id, element, start.hex(), end.hex(), stamp]
    writer.insert(txn, system_table(txn, "gc_delete_range"), row, _handle(job_id, ordinal))


def free_ordinal(txn: Transaction, job_id: int) -> int:
    """The first unused number of the job's ranges: several steps of a job may add some."""
    table = system_table(txn, "gc_delete_range")
    newest = next(reader.scan(txn, table, _span_of(txn, job_id), reverse=True), None)
    return 0 if newest is None else last_ordinal(txn, job_id) + 1


def _handle(job_id: int, ordinal: int) -> bytes:
    return keys.i64(job_id << _ORDINAL_BITS | ordinal)


def pending_ranges(txn: Transaction) -> list[PendingRange]:
    """The ranges not emptied yet, oldest first."""
    return list(scan_ranges(txn))


def scan_ranges(txn: Transaction, span: Span | None = None) -> Iterator[PendingRange]:
    """Like `pending_ranges`, but read lazily."""
    for handle, row in reader.scan(txn, system_table(txn, "gc_delete_range"), span):
        yield PendingRange(handle, row)


def last_ordinal(txn: Transaction, job_id: int) -> int:
    """The greatest number of the job's ranges, of which there is at least one."""
    table = system_table(txn, "gc_delete_range")
    newest = next(reader.scan(txn, table, _span_of(txn, job_id), reverse=True))
    return keys.read_i64(newest[0]) & ((1 << _ORDINAL_BITS) - 1)


def range_reached(txn: Transaction, pending: PendingRange, start: bytes) -> None:
    """Store that everything of the range below that key is removed."""
    row = [*pending.row]
    row[_START] = start.hex()
    writer.update(txn, system_table(txn, "gc_delete_range"), pending.handle, pending.row, row)


# -- recovery --------------------------------------------------------------------------------------


def untouched_ranges(txn: Transaction, job_id: int) -> tuple[DeleteRange, ...]:
    """The ranges that a job left, or nothing if one of them is already empty.

    A partly emptied range has another start, so it differs from every range that the job left.
    """
    ended = system_table(txn, "gc_delete_range_done")
    if next(reader.scan(txn, ended, _span_of(txn, job_id, "gc_delete_range_done")), None):
        return ()
    pending = scan_ranges(txn, _span_of(txn, job_id))
    return tuple(DeleteRange(abs(f.element_id), f.span, f.tombstones_only) for f in pending)


class UntouchedRanges(Fact[tuple[DeleteRange, ...]], frozen=True):
    """The ranges that an ended job left, or nothing if one of them is already emptied in part."""

    assumed: ClassVar[tuple[DeleteRange, ...]] = ()
    job_id: int

    def read(self, source: FactReader) -> tuple[DeleteRange, ...]:
        return untouched_ranges(source.txn, self.job_id)


def restore_ranges(txn: Transaction, job_id: int) -> None:
    """Remove the job's ranges because their keys are in use again.

    Conflicts with a transaction that empties one of them at the same time.
    """
    for pending in list(scan_ranges(txn, _span_of(txn, job_id))):
        writer.delete(txn, system_table(txn, "gc_delete_range"), pending.handle, pending.row)


def _span_of(txn: Transaction, job_id: int, name: str = "gc_delete_range") -> Span:
    prefix = keys.row_prefix(system_table(txn, name).info.id)
    return Span(prefix + _handle(job_id, 0), prefix + _handle(job_id + 1, 0))
