"""Fills the hidden column of every row that lacks it, in key order. The same pass fills the hidden
indexes that contain the column.

    a fresh snapshot       must show the reorg's revision of the table (law 1)
      -> some rows         rows whose layout has the hidden column are done: their writer filled it
      -> its values        converted from the old column, as columns (catalog/convert)
      -> payloads          the row's bytes with the new value (row_batch.with_column)
      -> entries           that these rows should have
    then batches, each requiring the reorg's epoch (law 2) and every row unchanged since it was
    read: a changed row was written by a writer that fills the hidden column. Several batches share
    one disk sync (Store.bulk_chain)
      a conflict           that batch is read again, and the remaining rows are written
    after all rows of the span, their entries as sorted runs like a backfill's (fill.py); the last
    batch marks the span as finished, for the column and for the indexes
      a large table        the entries are spilled to a file (exchange.py), and the span is finished
                           for the column only. The backfill that follows merges the files

So it never overwrites (law 6): no update is lost, and a late or repeated task of a span finds
nothing to do. An entry is collected only when its row was read with the column, or was committed
with it by this task. In the model of the backfill, that commit is the backfill's read of the row.
Later writers of the row leave a tombstone where the entry would be put.

Two kernels only read. `check column` finds rows that do not fit the new type, `verify column` rows
whose hidden value is not their old value converted.

An added column has no old column: its values are AUTO_INCREMENT ids (`numbers`; existing ids are
kept) or results of its expression.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from exuvia.base.errors import MOST_LISTED, Broken, Conflict, Refused, counted
from exuvia.base.limits import REORG_BATCH_ROWS
from exuvia.base.mysql_errors import ErrDataInconsistent
from exuvia.base.types import INTEGER_BITS, Value
from exuvia.catalog.autoid import IdAllocator, IdRule
from exuvia.catalog.codec import row_batch
from exuvia.catalog.codec.key_encoder import PRESENT
from exuvia.catalog.codec.row_batch import encode
from exuvia.catalog.codec.row_codec import storage_of
from exuvia.catalog.columns import Array, Columns, Vector, array_of, vector_of
from exuvia.catalog.convert import type_change_batch
from exuvia.catalog.convert.type_change import ColumnChange, text_in_error
from exuvia.catalog.convert.values import bounds_of
from exuvia.catalog.model import IndexInfo, SchemaState
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.packet import Bulk, RawRun, Requirement, Snapshot, Span, Standing, is_live
from exuvia.kv.store import Store
from exuvia.pipeline import checkpoint
from exuvia.pipeline.checkpoint import TaskProgress
from exuvia.pipeline.kernels.entries import (
    CHUNK_ROWS,
    NEAR_ROWS,
    REREAD_ROWS,
    WORD,
    Entries,
    EntryParts,
    as_bytes,
    entries_per_row,
    fresh_snapshot,
    joined,
    of_columns,
    positions_of,
    runs_of,
)
from exuvia.pipeline.kernels.exchange import Spill
from exuvia.pipeline.kernels.fill import Fill, sorted_run
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.throttle import Batch, BatchSize, Steps, throttled
from exuvia.pipeline.verify.judge import row_names
from exuvia.pipeline.verify.scan import Sums, hash_entries, index_of


class Unwritten(NamedTuple):
    """Rows to write, in key order: new payloads, the stamps (uint64) that the old rows must still
    have, and the entries of each index.

    `as_of`: the commit at which all were read, or 0 if it differs. `offsets`: for each index, the
    positions in its entries where each row's begin, and the end; shape (rows + 1,), None if each
    row has one entry."""

    keys: list[bytes]
    stamps: Array
    payloads: list[bytes]
    entries: list[Entries]
    as_of: int = 0
    offsets: Sequence[Array | None] = ()

    def part(self, start: int, end: int) -> "Unwritten":
        """Returns the rows from `start` to `end`."""
        start, end = min(start, len(self.keys)), min(end, len(self.keys))
        offsets = [None if at is None else at[start : end + 1] for at in self.offsets]
        entries = [
            some_of(entries, start, end)
            if at is None
            else some_of(entries, int(at[0]), int(at[-1]))
            for entries, at in zip(self.entries, offsets, strict=True)
        ]
        return Unwritten(
            self.keys[start:end],
            self.stamps[start:end],
            self.payloads[start:end],
            entries,
            self.as_of,
            [None if at is None else at - at[0] for at in offsets],
        )


NOTHING = Unwritten([], np.zeros(0, np.uint64), [], [])


def concatenated(parts: Iterable[Unwritten]) -> Unwritten:
    """Returns several groups of rows as one."""
    filled_parts = [part for part in parts if part.keys]
    if len(filled_parts) < 2:
        return filled_parts[0] if filled_parts else NOTHING
    same = len({part.as_of for part in filled_parts}) == 1
    return Unwritten(
        list(chain.from_iterable(part.keys for part in filled_parts)),
        np.concatenate([part.stamps for part in filled_parts]),
        list(chain.from_iterable(part.payloads for part in filled_parts)),
        [
            all_of(entry_parts)
            for entry_parts in zip(*(part.entries for part in filled_parts), strict=True)
        ],
        filled_parts[0].as_of if same else 0,
        [
            _joined_offsets(offset_parts)
            for offset_parts in zip(*(part.offsets for part in filled_parts), strict=True)
        ],
    )


def _joined_offsets(offsets: Sequence[Array | None]) -> Array | None:
    """Returns the offsets of concatenated rows."""
    numbers = [np.diff(offset_array) for offset_array in offsets if offset_array is not None]
    return np.concatenate([[0], np.cumsum(np.concatenate(numbers))]) if numbers else None


def some_of(entries: Entries, start: int, end: int) -> Entries:
    """Returns the entries from `start` to `end`."""
    suffixes = None if entries.suffixes is None else entries.suffixes[start:end]
    return Entries(entries.keys[start:end], suffixes)


def all_of(parts: Sequence[Entries]) -> Entries:
    """Returns several groups of entries as one."""
    suffixes = [part.suffixes for part in parts if part.suffixes is not None]
    return Entries(joined([part.keys for part in parts]), joined(suffixes) if suffixes else None)


def change_of(table: Table, column_id: int) -> ColumnChange:
    """Returns the pending change of the column. Raises Broken if the column does not change."""
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
        indexes = [index_of(task.order, n) for n in task.order.index_ids]
        self._indexes = sorted(indexes, key=lambda index: not index.is_unique)  # as in Fill
        self._entries = [EntryParts() for _ in indexes]  # for rows that have the column
        self._dial = dial
        self._monotonic = monotonic
        self._pace = BatchSize(CHUNK_ROWS, near=store.near)
        self._rows = self._written = self._batches = 0

    def steps(self) -> Steps:
        """Reads and writes rows in turn, then writes the entries; returns the outcome. Raises
        Deposed, Refused."""
        start, end = self._task.span
        while True:
            began = self._monotonic()
            with closing(fresh_snapshot(self._store, self._table)) as snapshot:
                runs_read = list(_some_rows(runs_of(snapshot, Span(start, end))))
            if not runs_read:
                break
            rows = concatenated([self._prepared(snapshot, run) for run in runs_read])
            yield Batch(0, self._monotonic() - began)
            yield from self._write(rows)
            self._rows += sum(map(len, runs_read))
            start = k.after(runs_read[-1].take([-1]).keys()[0])
        entries, self._entries = self._entries, []
        outcome = yield from (self._spill(entries) if self._task.folder else self._put(entries))
        return replace(outcome, placed=outcome.placed + self._written)

    def _spill(self, entries: list[EntryParts]) -> Steps:
        spill = Spill(self._store, self._task, self._dial, self._monotonic)
        return spill.keep(entries, self._rows, self._task.order.among)

    def _put(self, entries: list[EntryParts]) -> Steps:
        began = self._monotonic()
        runs = list(map(sorted_run, self._indexes, entries))
        yield Batch(0, self._monotonic() - began)
        fill = Fill(self._store, self._task, self._dial, self._monotonic)
        return (yield from fill.put(runs, self._rows, self._task.order.among))

    def _prepared(self, snapshot: Snapshot, run: RawRun) -> Unwritten:
        """Returns the rows that lack the column; collects the entries of the others."""
        if not len(run):
            return NOTHING
        done = has_column(self._done, run, snapshot.skip)
        if not done.any():
            return self._unwritten(snapshot, run)
        if self._indexes:
            needed, theirs = positions_of(self._table, self._indexes), run.take(done)
            self.keep(
                self._entries_of(
                    row_batch.decode(self._table, theirs, theirs, snapshot.skip, needed)
                )
            )
        return NOTHING if done.all() else self._unwritten(snapshot, run.take(~done))

    def _unwritten(self, snapshot: Snapshot, run: RawRun) -> Unwritten:
        """Returns rows that all lack the column, ready to write. Raises Refused for a misfit."""
        numbered = numbers(self._store, self._table, self._change, len(run))
        columns = converted(self._table, self._change, run, snapshot.skip, numbered)
        payloads = rewritten(self._table, self._change, columns, run, snapshot.skip)
        keys = as_bytes(run.cut(run.key_at, run.key_lengths))
        stamps = snapshot.stamps(run)
        offsets = [self._offsets(index, columns) for index in self._indexes]
        entries = self._entries_of(columns)
        return Unwritten(keys, stamps, payloads, entries, snapshot.sequence, offsets)

    def _entries_of(self, columns: Columns) -> list[Entries]:
        return [of_columns(self._table, index, columns) for index in self._indexes]

    def _offsets(self, index: IndexInfo, columns: Columns) -> Array | None:
        """Returns Unwritten.offsets of an index."""
        numbers = entries_per_row(self._table, index, columns)
        return None if numbers is None else np.concatenate([[0], np.cumsum(numbers)])

    def keep(self, entries: list[Entries]) -> None:
        """Collects entries to write. Their rows have the column, and writers that change one from
        now on leave a tombstone."""
        for collected, some in zip(self._entries, entries, strict=False):
            collected.add(some)

    def _write(self, rows: Unwritten) -> Iterator[Batch]:
        """Writes the rows in batches. The rest of a refused batch is read again. Batches shrink as
        in a move (Move._put)."""
        done, start, is_fresh = self._rows, 0, False
        while start < len(rows.keys):
            size = min(self._dial.read().batch_rows, self._pace.rows)
            part = rows.part(start, start + self._pace.rows)
            try:
                written = self._chain(part, size, done)
            except Conflict:
                if is_fresh:
                    self._pace.refused()
                end = start + (size if is_fresh else max(size, REREAD_ROWS))
                keys, rest = rows.keys[start:end], rows.part(end, len(rows.keys))
                rows, start, is_fresh = concatenated([self._read_again(keys), rest]), 0, True
                yield Batch(0, 0.0, 0.0)
                continue
            is_fresh = False
            self.keep(part.part(0, written.rows).entries)
            done, start = done + written.rows, start + written.rows
            yield written

    def _read_again(self, keys: list[bytes]) -> Unwritten:
        """Returns those of the rows that still lack the column, from a new snapshot."""
        with closing(fresh_snapshot(self._store, self._table)) as snapshot:
            raws = snapshot.get_many(keys)
            keys = [key for key in keys if key in raws]
            return self._prepared(snapshot, RawRun.of(keys, [raws[key] for key in keys]))

    def _chain(self, rows: Unwritten, size: int, done: int) -> Batch:
        """Runs transactions of `size` rows, as many as may share one disk sync. `done`: number of
        earlier rows."""
        settings = self._dial.read()
        starts = range(0, max(1, len(rows.keys)), size)
        if settings.write_speed or settings.batch_rows < REORG_BATCH_ROWS[1]:
            starts = starts[:1]  # the operator asked for small writes
        bulks = (self._bulk(rows, at, size, n, done + at) for n, at in enumerate(starts, 1))
        began = self._monotonic()
        results = self._store.bulk_chain(bulks, settings.batch_s)
        seconds = self._monotonic() - began
        number = min(len(rows.keys), len(results) * size)
        self._written, self._batches = self._written + number, self._batches + len(results)
        self._pace.succeeded(number, results[-1].written_s, settings.batch_s)
        paced = Batch(number, seconds)
        if settings.write_speed:
            put = sum(map(len, rows.keys[:number])) + sum(map(len, rows.payloads[:number]))
            paced = throttled(paced, put, settings, self._task.order.at_once)
        return paced

    def _bulk(self, rows: Unwritten, at: int, size: int, number: int, done: int) -> Bulk:
        """Returns one transaction: rows that must be unchanged, and the task's progress."""
        keys, payloads = rows.keys[at : at + size], rows.payloads[at : at + size]
        progress = TaskProgress(done + len(keys), 0, self._batches + number, len(keys), False)
        puts = checkpoint.pairs_of(self._task, progress)
        stamps = rows.stamps[at : at + size].astype("<u8").tobytes()
        required: list[Requirement] = [*self._task.order.fences]
        among = self._task.order.among
        required.append(Standing(keys, stamps, "lost update", rows.as_of, among))
        return Bulk(keys, payloads, required, puts, overwrite=True)


def layouts_with(table: Table, column_id: int) -> frozenset[int]:
    """Returns ids of the layouts that contain the column."""
    return frozenset(
        layout.id
        for layout in table.info.exuvia_layouts
        if any(stored.column == column_id for stored in layout.columns)
    )


def has_column(layout_ids: frozenset[int], run: RawRun, skip: int) -> Array:
    """Returns which rows have one of these layouts. Shape (n,), bool."""
    named = row_batch.layouts_of(run, skip)
    if (named == named[0]).all():
        return np.full(len(run), int(named[0]) in layout_ids)
    return np.isin(named, list(layout_ids))


def _some_rows(runs: Iterator[RawRun]) -> Iterator[RawRun]:
    """Yields the first CHUNK_ROWS rows or slightly more, in runs of at most NEAR_ROWS: the
    processor's cache holds everything computed from a run."""
    rows = 0
    for run in runs:
        for at in range(0, len(run), NEAR_ROWS):
            yield run.take(slice(at, at + NEAR_ROWS))
        rows += len(run)
        if rows >= CHUNK_ROWS:
            return


def numbers(store: Store, table: Table, change: ColumnChange, count: int) -> Vector | None:
    """Returns the next AUTO_INCREMENT ids for `count` rows, or None if the column gets no ids. The
    ids are reserved in a separate transaction; those of a refused batch stay unused. Raises 1467,
    SchemaChanged."""
    if not change.is_numbered:
        return None
    field = table.info.cols[change.position].type
    rule = IdRule(table.info.exuvia_ids_epoch, block=1, last=bounds_of(field)[1])
    first = IdAllocator(store).next(table.info.id, "auto", count, rule)
    return vector_of(list(range(first, first + count)), field)


def converted(
    table: Table, change: ColumnChange, run: RawRun, skip: int, new_values: Vector | None = None
) -> Columns:
    """Returns the rows' columns with the hidden one: `new_values` if given, else converted. Raises
    Refused for a value that does not fit."""
    columns = row_batch.decode(table, run, run, skip)
    new_values = _new_values(table, change, columns) if new_values is None else new_values

    def make(_: Columns, position: int) -> Vector:
        return new_values if position == change.position else columns.column(position)

    shape = columns.fields, columns.names, columns.positions
    return Columns(*shape, columns.handles, make, columns.rows)


def _new_values(table: Table, change: ColumnChange, columns: Columns) -> Vector:
    if change.computed is not None:
        reads, width = change.computed.reads, len(table.info.cols)
        lists = [columns.column(source).to_list() for source in reads]
        new_values = []
        for values in zip(*lists, strict=True) if lists else repeat((), columns.rows):
            row: list[Value] = [None] * width
            for at, value in zip(reads, values, strict=True):
                row[at] = value
            new_values.append(change.computed.value(row))
        return vector_of(new_values, table.info.cols[change.position].type)
    return type_change_batch.converted_batch(
        change, columns.column(change.source), _former_values(change, columns)
    )


def _former_values(change: ColumnChange, columns: Columns) -> Vector | None:
    return columns.column(change.former_at) if change.former_at >= 0 else None


def read_by(change: ColumnChange) -> list[int]:
    """Returns positions of the columns that the new values depend on."""
    if change.computed is not None:
        return list(change.computed.reads)
    return [change.source, change.former_at] if change.former_at >= 0 else [change.source]


def rewritten(
    table: Table, change: ColumnChange, columns: Columns, run: RawRun, skip: int
) -> list[bytes]:
    """Returns the rows' payloads with the hidden column."""
    column_id, new = table.info.cols[change.position].id, columns.column(change.position)
    moved = row_batch.with_column(table, run, skip, column_id, new)
    if moved is not None:
        return moved
    at = {column.id: n for n, column in enumerate(table.info.cols)}
    positions = [at[stored.column] for stored in table.layout.columns]
    arrays = {table.info.cols[n].name.L: array_of(columns.column(n)) for n in positions}
    return encode(table, arrays, len(run))


# -- kernels that only read ------------------------------------------------------------------------


class Offenders:
    """Finds rows that do not fit a column's new type: counts them, and lists the first 20."""

    def __init__(self, table: Table, change: ColumnChange) -> None:
        self._table = table
        self._change = change
        self.number = 0
        self.rows = 0
        self.first: list[tuple[str, str]] = []  # (row's name, value)
        self.error: Refused | None = None

    def look(self, run: RawRun, skip: int) -> None:
        """Tests a run of rows."""
        at = self._change.source
        columns = row_batch.decode(self._table, [], run, skip, read_by(self._change))
        values = columns.column(at)
        bad = type_change_batch.offenders(
            self._change, values, _former_values(self._change, columns)
        )
        if bad and self.error is None:
            first = values.take(np.array(bad[:1])).to_list()[0]
            self.error = type_change_batch.error_of(self._change, first)
        listed = np.array(bad[: MOST_LISTED - len(self.first)], dtype=np.int64)
        some = run.take(listed)
        names = row_names(self._table, some.keys(), some, skip) if bad else []
        for name, value in zip(names, values.take(listed).to_list(), strict=True):
            text = "NULL" if value is None else text_in_error(value, values.field)
            self.first.append((name, text))
        self.number += len(bad)
        self.rows += len(run)

    def outcome(self, task: Task) -> Outcome:
        error = [self.error.code, self.error.state, self.error.message] if self.error else []
        result = (self.number, self.first, error)
        return Outcome(ordinal=task.ordinal, rows=self.rows, result=result)


def offending(error: Refused, number: int, first: Sequence[Sequence[str]]) -> Refused:
    """Returns the error of the first misfit with the number of misfits and a list of the first
    20."""
    first = first[:MOST_LISTED]
    more = ", ..." if number > len(first) else ""
    rows = "row does" if number == 1 else "rows do"
    texts = ", ".join(f"{name} ({value})" for name, value in first)
    listing = f"{number} {rows} not fit: {texts}{more}"
    return counted(error, number, [name for name, _ in first], listing)


def refusal_of(store: Store, order: TaskOrder, outcomes: Sequence[Outcome]) -> Refused | None:
    """Returns the combined error of all tasks of `check column`, or None if every row fits."""
    number = sum(outcome.result[0] for outcome in outcomes)
    if not number:
        return None
    code, state, text = next(o.result[2] for o in outcomes if o.result[2])
    first = [row for outcome in outcomes for row in outcome.result[1]]
    return offending(Refused(code, state, text), number, first)


_FIRST_ENTRIES = 1_000


def fits_by_index(store: Store, order: TaskOrder) -> bool:
    """Whether a public index proves that all of the column's integers fit a narrower type.

    The index begins with the column, and its least and greatest live entries fit. If False, the
    rows must be read.

    A conversion of integers is a range check, so all values between two that fit also fit. NULL
    sorts before all numbers. The snapshot shows everything that was written before writers applied
    the new type."""
    table = order.table
    change = change_of(table, order.changing)
    index = _index_by(table, change)
    if index is None:
        return False
    span = table.index_span(index)
    numbers = Span(span.start + PRESENT, span.end)
    with closing(fresh_snapshot(store, table)) as snapshot:
        if change.not_null and _edge(snapshot, Span(span.start, numbers.start), False) is not None:
            return False
        edges = [_edge(snapshot, numbers, reverse) for reverse in (False, True)]
    at = len(numbers.start)
    for key in edges:
        if key is None:
            continue
        if not key:
            return False
        word = int.from_bytes(key[at : at + WORD], "big")
        assert change.old is not None
        try:
            change.convert(word if change.old.unsigned else word - (1 << 63))
        except Refused:
            return False
    return True


def _index_by(table: Table, change: ColumnChange) -> IndexInfo | None:
    """Returns a public index whose keys begin with the column's unchanged integers, or None."""
    old, new = change.old, change.new
    if old is None or new is None or not {old.Tp, new.Tp} <= set(INTEGER_BITS):
        return None
    column_id = table.info.cols[change.source].id
    for form in table.forms:
        first = form.info.idx_cols[0]
        if (
            form.info.state == SchemaState.PUBLIC
            and first.exuvia_column == column_id
            and form.types[0].family == old.family
            and not form.wraps
            and form.predicate is None
        ):
            return form.info
    return None


def _edge(snapshot: Snapshot, span: Span, reverse: bool) -> bytes | None:
    """Returns the first or last live entry, or None; b"" after too many tombstones."""
    for skipped, (key, raw) in enumerate(snapshot.scan(span, reverse)):
        if is_live(raw[snapshot.skip :]):
            return key
        if skipped >= _FIRST_ENTRIES:
            return b""
    return None


def check_column(store: Store, task: Task) -> Steps:
    """Kernel: the number of rows that do not fit the new type, the first as text, and the error."""
    table = task.order.table
    offenders = Offenders(table, change_of(table, task.order.changing))
    with closing(fresh_snapshot(store, table)) as snapshot:
        for run in runs_of(snapshot, task.span):
            offenders.look(run, snapshot.skip)
            yield Batch(len(run), 0.0)
    return offenders.outcome(task)


def verify_column(store: Store, task: Task) -> Steps:
    """Kernel: every row's hidden value must be its old value converted; 8223 for the first that is
    not. The same pass sums the entries that the order's indexes should have, for their
    comparison."""
    table = task.order.table
    change = change_of(table, task.order.changing)
    done = layouts_with(table, task.order.changing)
    indexes = [index_of(task.order, n) for n in task.order.index_ids]
    sums = [Sums(task.buckets) for _ in indexes]
    needed = sorted({*read_by(change), change.position, *positions_of(table, indexes)})
    rows = 0
    with closing(fresh_snapshot(store, table)) as snapshot:
        for run in runs_of(snapshot, task.span):
            columns = row_batch.decode(table, [], run, snapshot.skip, needed)
            columns.handles = row_batch.handles_of_run(table, run)
            lacking = np.flatnonzero(~has_column(done, run, snapshot.skip)).tolist()
            current = columns.column(change.position)
            if change.is_numbered:
                bad = [*lacking, *np.flatnonzero(_nulls_or_zeros(current)).tolist()]
            else:
                bad = [*lacking, *differing(_new_values(table, change, columns), current)]
            if bad:
                one = run.take([min(bad)])
                [name] = row_names(table, one.keys(), one, snapshot.skip)
                raise ErrDataInconsistent(
                    task.order.info.name.O, "the column that changes", name, "", ""
                )
            for side, index in zip(sums, indexes, strict=True):
                entries = of_columns(table, index, columns)
                side.add(hash_entries(entries.keys, entries.suffixes))
            rows += len(run)
            yield Batch(len(run), 0.0)
    return Outcome(ordinal=task.ordinal, rows=rows, result=[side.packed() for side in sums])


def _nulls_or_zeros(vector: Vector) -> Array:
    """Returns which values are no AUTO_INCREMENT id. Shape (n,), bool."""
    is_missing: Array = vector.values == 0
    return is_missing if vector.nulls is None else is_missing | vector.nulls


def differing(one: Vector, other: Vector) -> list[int]:
    """Returns positions where two vectors of one type differ."""
    if not storage_of(one.field).code and one.values.equals(other.values):
        return []
    if _bytes_of(one) == _bytes_of(other):
        return []
    pairs = zip(one.to_list(), other.to_list(), strict=True)
    return [n for n, (a, b) in enumerate(pairs) if a != b]


def _bytes_of(vector: Vector) -> object:
    if not storage_of(vector.field).code:
        return vector.values.to_pylist()
    nulls: Array = np.zeros(len(vector.values), bool) if vector.nulls is None else vector.nulls
    return nulls.tobytes(), vector.values[~nulls].tobytes()
