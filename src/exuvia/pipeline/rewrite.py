"""The rewrite: the hidden column of every row that has none yet, in the order of the rows' keys.

    a fresh snapshot       must show the reorg's revision of the table (law 1)
      -> some rows         those whose layout has the hidden column are done: their writer did it
      -> its values        the old column's, converted as columns (type_change_batch.py)
      -> payloads          whole rows in the newest layout
    then batches, each requiring the reorg's epoch (law 2) and of every row that it is still the one
    that was read: a row that changed since was written by somebody who knows the hidden column
      a conflict           that batch is read again; what is left of it is written
    the last batch says that the span is finished

So it never overwrites (law 6): no update is lost, and a late or second task of a span finds nothing
to do. `check column` and `verify column` read only: rows that do not fit the new type, and rows
whose hidden value is not their old one converted.
"""

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from exuvia.base.errors import Broken, Conflict
from exuvia.catalog.codec import row_batch
from exuvia.catalog.columns import array_of
from exuvia.catalog.convert import type_change_batch
from exuvia.catalog.convert.type_change import ColumnChange
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.packet import (
    SEQUENCE_BYTES,
    Packet,
    Requirement,
    Span,
    Unchanged,
    Write,
    WriteKind,
    sequence_of,
)
from exuvia.kv.store import Store
from exuvia.pipeline import checkpoint
from exuvia.pipeline.checkpoint import TaskProgress
from exuvia.pipeline.columnar import payloads
from exuvia.pipeline.entries import CHUNK_ROWS, fresh_snapshot
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.task import Outcome, Task
from exuvia.pipeline.throttle import Batch, BatchSize, Traffic, held_back

Steps = Generator[Batch, None, Outcome]


class Unwritten(NamedTuple):
    """A row to be written: its new payload, if it is still the one of that sequence."""

    key: bytes
    sequence: int
    payload: bytes


def change_of(table: Table, column_id: int) -> ColumnChange:
    """What is owed to the column of that id. Raises Broken where nothing is."""
    for change in table.changes:
        if table.info.cols[change.position].id == column_id:
            return change
    raise Broken(f"column {column_id} of {table.info.name.O} is not changing")


class Rewrite:
    """The kernel for one task; `steps()` is the generator."""

    def __init__(
        self, store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        self._store = store
        self._task = task
        self._table = task.order.table
        self._change = change_of(self._table, task.order.changing)
        self._done = layouts_with(self._table, task.order.changing)
        self._dial = dial
        self._monotonic = monotonic
        self._pace = BatchSize(dial.read().batch_rows)
        self._traffic = Traffic(store, task.order, monotonic)
        self._of = store.count(task.span)
        self._rows = self._written = self._batches = 0

    def steps(self) -> Steps:
        """Read some, write them, and so on; returns the outcome. Raises Deposed, Refused."""
        if self._was_finished():
            return Outcome(ordinal=self._task.ordinal)
        start, end = self._task.span
        while True:
            began = self._monotonic()
            found, rows = self._read(Span(start, end))
            if not found:
                break
            busy, seconds = self._traffic.busy(), self._monotonic() - began
            yield self._pace.read(seconds) if busy else Batch(0, seconds)
            yield from self._write(rows)
            self._rows += len(found)
            start = k.after(found[-1])
        yield self._commit([], True)
        return Outcome(ordinal=self._task.ordinal, rows=self._rows, placed=self._written)

    def _was_finished(self) -> bool:
        txn = self._store.begin()
        try:
            return checkpoint.is_finished(txn, self._task)
        finally:
            txn.rollback()

    def _read(self, span: Span) -> tuple[list[bytes], list[Unwritten]]:
        """The first keys of the span, and those of their rows that are to be written."""
        snapshot = fresh_snapshot(self._store, self._table)
        try:
            found, raws = next(iter(snapshot.chunks(span, CHUNK_ROWS)), ([], []))
        finally:
            snapshot.close()
        return found, self._prepared(found, raws)

    def _again(self, batch: list[Unwritten]) -> list[Unwritten]:
        """A refused batch as it stands now."""
        snapshot = fresh_snapshot(self._store, self._table)
        try:
            raws = snapshot.get_many([each.key for each in batch])
        finally:
            snapshot.close()
        found = [each.key for each in batch if each.key in raws]
        return self._prepared(found, [raws[key] for key in found])

    def _prepared(self, found: list[bytes], raws: list[bytes]) -> list[Unwritten]:
        lacking = [n for n, raw in enumerate(raws) if layout_of(raw) not in self._done]
        if not lacking:
            return []
        found, raws = [found[n] for n in lacking], [raws[n] for n in lacking]
        new = rewritten(self._table, self._change, found, raws)
        return [
            Unwritten(key, sequence_of(raw), payload)
            for key, raw, payload in zip(found, raws, new, strict=True)
        ]

    def _write(self, rows: list[Unwritten]) -> Iterator[Batch]:
        start = 0
        while start < len(rows):
            self._pace.bounded(self._dial.read().batch_rows)
            batch = rows[start : start + self._pace.rows]
            try:
                done = self._commit(batch, False)
            except Conflict:
                self._pace.refused()
                rows[start : start + len(batch)] = self._again(batch)
                yield Batch(0, 0.0, 0.0)
                continue
            start += len(batch)
            yield done

    def _commit(self, batch: list[Unwritten], last: bool) -> Batch:
        """One transaction; the last of a task says that its span is finished."""
        self._batches += 1
        rows = self._rows + len(batch)
        progress = TaskProgress(rows, self._of, self._batches, len(batch), last)
        puts = checkpoint.pairs_of(self._task, progress)
        writes = [Write(WriteKind.PUT, each.key, each.payload) for each in batch]
        writes += [Write(WriteKind.PUT, key, payload) for key, payload in puts]
        required: list[Requirement] = [
            Unchanged(each.key, each.sequence, "lost update") for each in batch
        ]
        began = self._monotonic()
        self._store.commit(Packet(writes, [*self._task.order.fences, *required], ()))
        self._written += len(batch)
        paced = self._pace.succeeded(len(batch), self._monotonic() - began, self._traffic.busy())
        size = sum(len(each.key) + len(each.payload) for each in batch)
        return held_back(paced, size, self._dial.read(), self._task.order.at_once)


def layout_of(raw: bytes) -> int:
    """The layout a stored row names."""
    return raw[SEQUENCE_BYTES] | raw[SEQUENCE_BYTES + 1] << 8


def layouts_with(table: Table, column_id: int) -> frozenset[int]:
    """Layouts that hold the column."""
    return frozenset(
        layout.id
        for layout in table.info.exuvia_layouts
        if any(each.column == column_id for each in layout.columns)
    )


def rewritten(
    table: Table, change: ColumnChange, found: list[bytes], raws: list[bytes]
) -> list[bytes]:
    """Payloads of the rows with the hidden column. Refused where a value does not fit it."""
    columns = row_batch.decode(table, found, raws)
    at = {column.id: n for n, column in enumerate(table.info.cols)}
    arrays = {}
    for each in table.layout.columns:
        position = at[each.column]
        if position == change.position:
            made = type_change_batch.changed(change, columns.column(change.source))
        else:
            made = columns.column(position)
        arrays[table.info.cols[position].name.L] = array_of(made)
    return payloads(table, arrays, len(raws))
