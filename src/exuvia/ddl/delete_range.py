"""Ranges of keys that finished jobs left behind, as rows.

    mysql.gc_delete_range --ddl/gc_worker.py--> mysql.gc_delete_range_done

    element_id    > 0   everything in the range goes: its index, table or partition is gone
                  < 0   only tombstones go: the index of that number became public (law 6)
    start_key           where emptying has come to: a row whose range was begun has another one
    a range of names    the tables of a dropped database: each leaves its own rows instead

A range is taken back (`recall`) by the transaction that recovers its table. That transaction and
every batch of the emptying write the same row, so one of the two comes first and the other fails:
nobody recovers what was begun to be emptied, nobody empties what was recovered.

Source: seed 002, the optimised delete; table and columns of TiDB, whose element ids are positive.
"""

from collections.abc import Iterator

from exuvia.catalog import meta, reader, writer
from exuvia.catalog.model import evolve
from exuvia.ddl.decision import DeleteRange
from exuvia.ddl.elements import ranges_of_table
from exuvia.ddl.queue import Row, system_table
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction

_ORDINAL_BITS = 24
_STAMP_MS_BITS = 18
_JOB, _ELEMENT, _START, _END, _STAMP = 0, 1, 2, 3, 4
_NAMES = keys.meta("name")


class PendingRange:
    """A row of mysql.gc_delete_range. `since_ms`: wall time at which it was left."""

    def __init__(self, handle: bytes, row: Row) -> None:
        self.handle = handle
        self.row = row
        self.job_id = int(str(row[_JOB]))
        self.element_id = int(str(row[_ELEMENT]))
        self.span = Span(bytes.fromhex(str(row[_START])), bytes.fromhex(str(row[_END])))
        self.since_ms = int(str(row[_STAMP])) >> _STAMP_MS_BITS

    @property
    def tombstones_only(self) -> bool:
        """Whether live entries stay."""
        return self.element_id < 0

    @property
    def holds_names(self) -> bool:
        """Whether it stands for the tables of a dropped database."""
        return self.span.start.startswith(_NAMES)

    @property
    def may_return(self) -> bool:
        """Whether it is kept for the retention: whole tables and databases are recovered."""
        return self.holds_names or self.span.end == keys.table_span(abs(self.element_id)).end


def leave(txn: Transaction, job_id: int, ordinal: int, each: DeleteRange, stamp: int) -> None:
    """A range to be emptied once the job has ended. Hidden row id: job and ordinal."""
    start, end = each.span
    element = -each.element_id if each.tombstones_only else each.element_id
    row: Row = [job_id, element, start.hex(), end.hex(), stamp]
    writer.insert(txn, system_table(txn, "gc_delete_range"), row, _handle(job_id, ordinal))


def free_ordinal(txn: Transaction, job_id: int) -> int:
    """The first number no range of the job has: several steps of a job may leave some."""
    table = system_table(txn, "gc_delete_range")
    newest = next(reader.scan(txn, table, _span_of(txn, job_id), reverse=True), None)
    return 0 if newest is None else _last_ordinal(txn, job_id) + 1


def _handle(job_id: int, ordinal: int) -> bytes:
    return keys.i64(job_id << _ORDINAL_BITS | ordinal)


def waiting(txn: Transaction) -> list[PendingRange]:
    """The ranges not emptied yet, oldest first."""
    return list(scan(txn))


def scan(txn: Transaction, span: Span | None = None) -> Iterator[PendingRange]:
    """The same, read as far as they are looked at."""
    for handle, row in reader.scan(txn, system_table(txn, "gc_delete_range"), span):
        yield PendingRange(handle, row)


# -- while they are emptied ------------------------------------------------------------------------


def reached(txn: Transaction, left: PendingRange, start: bytes) -> None:
    """Everything of the range below that key is gone."""
    row = [*left.row]
    row[_START] = start.hex()
    writer.update(txn, system_table(txn, "gc_delete_range"), left.handle, left.row, row)


def done(txn: Transaction, left: PendingRange) -> None:
    """The range is empty; with a table's last row its counters of ids go."""
    writer.delete(txn, system_table(txn, "gc_delete_range"), left.handle, left.row)
    gone = left.may_return and not left.holds_names
    if gone and meta.get_table(txn, left.element_id) is None:
        meta.forget_counters(txn, left.element_id)
    writer.insert(txn, system_table(txn, "gc_delete_range_done"), left.row, left.handle)


def expand(txn: Transaction, left: PendingRange, most: int) -> bytes | None:
    """Some tables of a dropped database leave their own ranges; where to go on, None at the end."""
    ordinal = _last_ordinal(txn, left.job_id)
    found = list(txn.scan(left.span, limit=most))
    for key, payload in found:
        info = meta.get_table(txn, keys.read_number(payload))
        txn.delete(key)
        if info is not None:
            meta.drop_table(txn, evolve(info, exuvia_referred=()))  # its keys wait since the drop
            for each in ranges_of_table(info):
                ordinal += 1
                leave(txn, left.job_id, ordinal, each, left.since_ms << _STAMP_MS_BITS)
    return found[-1][0] + b"\0" if len(found) == most else None


def _last_ordinal(txn: Transaction, job_id: int) -> int:
    table = system_table(txn, "gc_delete_range")
    newest = next(reader.scan(txn, table, _span_of(txn, job_id), reverse=True))
    return keys.read_i64(newest[0]) & ((1 << _ORDINAL_BITS) - 1)


# -- taken back ------------------------------------------------------------------------------------


def untouched(txn: Transaction, job_id: int) -> tuple[DeleteRange, ...]:
    """What a job left, as it left it: nothing where emptying has ended a range of it.

    A range that was begun begins elsewhere, so it equals none that the job could have left."""
    ended = system_table(txn, "gc_delete_range_done")
    if next(reader.scan(txn, ended, _span_of(txn, job_id, "gc_delete_range_done")), None):
        return ()
    found = scan(txn, _span_of(txn, job_id))
    return tuple(DeleteRange(abs(f.element_id), f.span, f.tombstones_only) for f in found)


def recall(txn: Transaction, job_id: int) -> None:
    """The job's ranges are in use again. Conflicts with whoever empties one of them meanwhile."""
    for left in list(scan(txn, _span_of(txn, job_id))):
        writer.delete(txn, system_table(txn, "gc_delete_range"), left.handle, left.row)


def _span_of(txn: Transaction, job_id: int, name: str = "gc_delete_range") -> Span:
    prefix = keys.row_prefix(system_table(txn, name).info.id)
    return Span(prefix + _handle(job_id, 0), prefix + _handle(job_id + 1, 0))
