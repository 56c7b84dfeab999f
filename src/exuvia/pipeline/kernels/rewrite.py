"""The rewrite: the hidden column of every row that has none yet, in the order of the rows' keys.

    a fresh snapshot       must show the reorg's revision of the table (law 1)
      -> some rows         those whose layout has the hidden column are done: their writer did it
      -> its values        the old column's, converted as columns (catalog/convert)
      -> payloads          whole rows in the newest layout
    then batches, each requiring the reorg's epoch (law 2) and of every row that it is still the one
    that was read: a row that changed since was written by somebody who knows the hidden column;
    several wait for the disk together (Store.bulk_chain)
      a conflict           that batch is read again; what is left of it is written
    the last batch says that the span is finished

So it never overwrites (law 6): no update is lost, and a late or second task of a span finds nothing
to do. `check column` and `verify column` read only: rows that do not fit the new type, and rows
whose hidden value is not their old one converted.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from exuvia.base.errors import MOST_LISTED, Broken, Conflict, Refused, counted
from exuvia.base.limits import REORG_BATCH_ROWS
from exuvia.base.mysql_errors import ErrDataInconsistent
from exuvia.catalog.codec import row_batch
from exuvia.catalog.codec.row_batch import encode, layout_id_of
from exuvia.catalog.codec.row_codec import storage_of
from exuvia.catalog.columns import Array, Vector, array_of
from exuvia.catalog.convert import type_change_batch
from exuvia.catalog.convert.type_change import ColumnChange, shown
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.packet import Bulk, Requirement, Snapshot, Span, Standing
from exuvia.kv.store import Store
from exuvia.pipeline import checkpoint
from exuvia.pipeline.checkpoint import TaskProgress
from exuvia.pipeline.kernels.entries import CHUNK_ROWS, fresh_snapshot
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.throttle import Batch, BatchSize, Steps, held_back
from exuvia.pipeline.verify.judge import row_name


class Unwritten(NamedTuple):
    """Rows to be written, in key order: their new payloads, if they are still the ones of these
    sequences (uint64)."""

    keys: list[bytes]
    sequences: Array
    payloads: list[bytes]

    def part(self, start: int, end: int) -> "Unwritten":
        """Some of them."""
        return Unwritten(self.keys[start:end], self.sequences[start:end], self.payloads[start:end])

    def before(self, rest: "Unwritten") -> "Unwritten":
        """These, then the rest."""
        sequences = np.concatenate([self.sequences, rest.sequences])
        return Unwritten(self.keys + rest.keys, sequences, self.payloads + rest.payloads)


NOTHING = Unwritten([], np.zeros(0, np.uint64), [])


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
        self._pace = BatchSize(CHUNK_ROWS)
        self._of = store.count(task.span)
        self._rows = self._written = self._batches = 0

    def steps(self) -> Steps:
        """Read some, write them, and so on; returns the outcome. Raises Deposed, Refused."""
        start, end = self._task.span
        while True:
            began = self._monotonic()
            with closing(fresh_snapshot(self._store, self._table)) as snapshot:
                keys, raws = next(iter(snapshot.chunks(Span(start, end), CHUNK_ROWS)), ([], []))
            if not keys:
                break
            rows = self._prepared(snapshot, keys, raws)
            yield Batch(0, self._monotonic() - began)
            yield from self._write(rows)
            self._rows += len(keys)
            start = k.after(keys[-1])
        yield self._chain(NOTHING, 1, self._rows, True)
        return Outcome(ordinal=self._task.ordinal, rows=self._rows, placed=self._written)

    def _prepared(self, snapshot: Snapshot, keys: list[bytes], raws: list[bytes]) -> Unwritten:
        """Those of the rows that are to be written."""
        skip = snapshot.skip
        lacking = without(self._done, raws, skip)
        if len(lacking) < len(raws):
            keys, raws = [keys[n] for n in lacking], [raws[n] for n in lacking]
        if not lacking:
            return NOTHING
        new = rewritten(self._table, self._change, keys, raws, skip)
        return Unwritten(keys, snapshot.sequences(raws), new)

    def _write(self, rows: Unwritten) -> Iterator[Batch]:
        """Batch by batch; what is left of a refused one is written as it stands now."""
        done, start = self._rows, 0
        while start < len(rows.keys):
            size = min(self._dial.read().batch_rows, self._pace.rows)
            part = rows.part(start, start + self._pace.rows)
            try:
                written = self._chain(part, size, done, False)
            except Conflict:
                self._pace.refused()
                keys, rest = part.keys[:size], rows.part(start + size, len(rows.keys))
                rows, start = self._as_it_stands(keys).before(rest), 0
                yield Batch(0, 0.0, 0.0)
                continue
            done, start = done + written.rows, start + written.rows
            yield written

    def _as_it_stands(self, keys: list[bytes]) -> Unwritten:
        """Those of the rows that are still to be written, from a new snapshot."""
        with closing(fresh_snapshot(self._store, self._table)) as snapshot:
            raws = snapshot.get_many(keys)
            keys = [key for key in keys if key in raws]
            return self._prepared(snapshot, keys, [raws[key] for key in keys])

    def _chain(self, rows: Unwritten, size: int, done: int, last: bool) -> Batch:
        """Transactions of `size` rows, as many of them as may wait for the disk together; the last
        of a task says that its span is finished. `done`: rows before these."""
        settings = self._dial.read()
        starts = range(0, max(1, len(rows.keys)), size)
        if settings.write_speed or settings.batch_rows < REORG_BATCH_ROWS[1]:
            starts = starts[:1]  # who set that wants it slow
        bulks = (
            self._bulk(rows.part(at, at + size), n, done + at, last)
            for n, at in enumerate(starts, 1)
        )
        began = self._monotonic()
        results = self._store.bulk_chain(bulks, settings.batch_s)
        seconds = self._monotonic() - began
        number = min(len(rows.keys), len(results) * size)
        self._written, self._batches = self._written + number, self._batches + len(results)
        paced = self._pace.succeeded(number, seconds, settings.batch_s)
        if not settings.write_speed:
            return paced
        put = sum(map(len, rows.keys[:number])) + sum(map(len, rows.payloads[:number]))
        return held_back(paced, put, settings, self._task.order.at_once)

    def _bulk(self, rows: Unwritten, number: int, done: int, last: bool) -> Bulk:
        """One transaction: the rows, if they still are what was read, and how far the task is."""
        count = len(rows.keys)
        progress = TaskProgress(done + count, self._of, self._batches + number, count, last)
        puts = checkpoint.pairs_of(self._task, progress)
        required: list[Requirement] = [*self._task.order.fences]
        if rows.keys:
            stamps = rows.sequences.astype("<u8").tobytes()
            required.append(Standing(rows.keys, stamps, "lost update"))
        return Bulk(rows.keys, rows.payloads, required, puts, overwrite=True)


def layouts_with(table: Table, column_id: int) -> frozenset[int]:
    """Layouts that hold the column."""
    return frozenset(
        layout.id
        for layout in table.info.exuvia_layouts
        if any(stored.column == column_id for stored in layout.columns)
    )


def without(layout_ids: frozenset[int], raws: list[bytes], skip: int) -> Sequence[int]:
    """Positions of the rows that name none of these layouts."""
    named = {raw[skip : skip + 2]: raw for raw in raws}  # few
    others = {head for head, raw in named.items() if layout_id_of(raw, skip) not in layout_ids}
    if len(others) in (0, len(named)):
        return range(len(raws)) if others else ()
    return [n for n, raw in enumerate(raws) if raw[skip : skip + 2] in others]


def rewritten(
    table: Table, change: ColumnChange, keys: list[bytes], raws: list[bytes], skip: int
) -> list[bytes]:
    """Payloads of the rows with the hidden column. Refused where a value does not fit it."""
    columns = row_batch.decode(table, keys, raws, skip)
    at = {column.id: n for n, column in enumerate(table.info.cols)}
    arrays = {}
    for stored in table.layout.columns:
        position = at[stored.column]
        if position == change.position:
            made = type_change_batch.converted_batch(change, columns.column(change.source))
        else:
            made = columns.column(position)
        arrays[table.info.cols[position].name.L] = array_of(made)
    return encode(table, arrays, len(raws))


# -- what reads only -------------------------------------------------------------------------------


class Offenders:
    """Rows that do not fit a column's new type: chunks in, their number and the first 20 out."""

    def __init__(self, table: Table, change: ColumnChange) -> None:
        self._table = table
        self._change = change
        self.number = 0
        self.seen = 0
        self.first: list[tuple[str, str]] = []  # a row's name, the value it has
        self.error: Refused | None = None

    def look(self, keys: list[bytes], raws: list[bytes], skip: int) -> None:
        """Some rows, as the store's chunks give them."""
        at = self._change.source
        values = row_batch.decode(self._table, keys, raws, skip, [at]).column(at)
        bad = type_change_batch.offenders(self._change, values)
        if bad and self.error is None:
            first = values.take(np.array(bad[:1])).to_list()[0]
            self.error = type_change_batch.error_of(self._change, first)
        self.add(keys, values, bad)

    def add(self, keys: list[bytes], values: Vector, bad: list[int]) -> None:
        """Rows already judged: `bad` are the positions of those that offend."""
        listed = bad[: MOST_LISTED - len(self.first)]
        taken = values.take(np.array(listed, dtype=np.int64)).to_list()
        for n, value in zip(listed, taken, strict=True):
            text = "NULL" if value is None else shown(value, values.field)
            self.first.append((row_name(self._table, keys[n][k.HANDLE_AT :]), text))
        self.number += len(bad)
        self.seen += len(keys)

    def outcome(self, task: Task) -> Outcome:
        error = [self.error.code, self.error.state, self.error.message] if self.error else []
        result = (self.number, self.first, error)
        return Outcome(ordinal=task.ordinal, rows=self.seen, result=result)


def offending(error: Refused, number: int, first: Sequence[Sequence[str]]) -> Refused:
    """The error of the first row that does not fit; all are counted, the first 20 listed."""
    first = first[:MOST_LISTED]
    more = ", ..." if number > len(first) else ""
    rows = "row does" if number == 1 else "rows do"
    texts = ", ".join(f"{name} ({value})" for name, value in first)
    listing = f"{number} {rows} not fit: {texts}{more}"
    return counted(error, number, [name for name, _ in first], listing)


def refusal_of(store: Store, order: TaskOrder, outcomes: Sequence[Outcome]) -> Refused | None:
    """What all tasks of `check column` found, None where every row fits."""
    number = sum(outcome.result[0] for outcome in outcomes)
    if not number:
        return None
    code, state, text = next(o.result[2] for o in outcomes if o.result[2])
    first = [row for outcome in outcomes for row in outcome.result[1]]
    return offending(Refused(code, state, text), number, first)


def check_column(store: Store, task: Task) -> Steps:
    """How many rows of the span do not fit the new type, the first as text, and the error."""
    table = task.order.table
    offenders = Offenders(table, change_of(table, task.order.changing))
    with closing(fresh_snapshot(store, table)) as snapshot:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            offenders.look(keys, raws, snapshot.skip)
            yield Batch(len(raws), 0.0)
    return offenders.outcome(task)


def verify_column(store: Store, task: Task) -> Steps:
    """How many rows of the span hold something else than their old value converted."""
    table = task.order.table
    change = change_of(table, task.order.changing)
    done = layouts_with(table, task.order.changing)
    faults = Offenders(table, change)
    with closing(fresh_snapshot(store, table)) as snapshot:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            skip, both = snapshot.skip, [change.source, change.position]
            columns = row_batch.decode(table, keys, raws, skip, both)
            values = columns.column(change.source)
            converted = type_change_batch.converted_batch(change, values)
            stands = columns.column(change.position)
            bad = sorted({*without(done, raws, skip), *differing(converted, stands)})
            faults.add(keys, values, bad)
            yield Batch(len(raws), 0.0)
    return faults.outcome(task)


def fault_of(store: Store, order: TaskOrder, outcomes: Sequence[Outcome]) -> Refused | None:
    """8223, where tasks of `verify column` found rows that hold something else."""
    first = [row for outcome in outcomes for row in outcome.result[1]]
    if not first:
        return None
    table = order.info.name.O
    return ErrDataInconsistent(table, "the column that changes", first[0][0], "", "")


def differing(one: Vector, other: Vector) -> list[int]:
    """Positions where two vectors of one type differ."""
    if _bytes_of(one) == _bytes_of(other):
        return []
    pairs = zip(one.to_list(), other.to_list(), strict=True)
    return [n for n, (a, b) in enumerate(pairs) if a != b]


def _bytes_of(vector: Vector) -> object:
    if not storage_of(vector.field).code:
        return vector.values.to_pylist()
    nulls: Array = np.zeros(len(vector.values), bool) if vector.nulls is None else vector.nulls
    return nulls.tobytes(), vector.values[~nulls].tobytes()
