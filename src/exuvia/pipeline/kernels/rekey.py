"""Moves rows to the handles of another primary key, or to hidden ids, and verifies the move.

    fresh snapshots        must show the reorg's revision of the table (law 1)
      -> some rows         each one's new handle, computed by columns
      -> batches of rows   their bytes unchanged, under the other id and the new handle
      -> their entries     of the other set's indexes, collected until all rows are written

Rows of a large table are exchanged by their new keys, then their entries (exchange.py). Hidden ids
are in the order of the rows, which are therefore put as they are read.

Everything else is as for a move between partitions (move.py): each batch puts only absent keys and
requires unchanged old rows. The guard, a unique index on the new key, was filled before, and
writers maintain it. So no two rows have the same new handle. A present key is the row itself, put
by a writer or an earlier run.

To hidden ids: the guard is an index of the other set on the dropped key. It contains the hidden id
of a row's copy. Rows without a copy get ids in their order. One transaction puts them with their
entries in the guard and requires that these are absent. So a row gets one copy, even if a task is
repeated.

`check rekeyed` looks up rows of each set in the other one. In a set with hidden ids it finds a row
through the guard.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

import numpy as np

from exuvia.base.errors import MOST_LISTED, Broken, Refused
from exuvia.base.mysql_errors import ErrDataInconsistent
from exuvia.catalog.autoid import IdAllocator
from exuvia.catalog.codec import row_batch
from exuvia.catalog.columns import Array, Columns
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import IndexForm, Table
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.packet import LIVE, AllAbsent, Bulk, Snapshot, Span, is_live
from exuvia.kv.store import Store
from exuvia.pipeline.kernels.entries import (
    CHUNK_ROWS,
    as_bytes,
    fresh_snapshot,
    of_columns,
    positions_of,
    take,
)
from exuvia.pipeline.kernels.move import (
    Copies,
    Move,
    differing_rows,
    entries_of,
    indexes_of,
    keys_of,
    numbers_of_rows,
)
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.sorted_rows import handles_in, row_ids_from
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.throttle import Batch, Steps


class RekeyMove(Move):
    """The kernel for one task, for handles computed from the rows."""

    spills_rows = True

    def __init__(
        self, store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        super().__init__(store, task, dial, monotonic)
        self._target = self._source.rekeyed
        self._indexes = indexes_of(self._target)

    def _copy(
        self,
        snapshot: Snapshot,
        indexes: Sequence[IndexInfo],
        keys: list[bytes],
        raws: list[bytes],
    ) -> list[Copies]:
        columns = self._columns(snapshot, indexes, keys, raws)
        handles = as_bytes(handles_in(self._target, columns))
        rows = self._rows_copied(snapshot, columns, keys, raws, handles)
        return [rows, *self._entries(indexes, columns, handles, rows)]

    def _columns(
        self,
        snapshot: Snapshot,
        indexes: Sequence[IndexInfo],
        keys: list[bytes],
        raws: list[bytes],
    ) -> Columns:
        needed = sorted({*_positions(self._target), *positions_of(self._source, indexes)})
        return row_batch.decode(self._source, keys, raws, snapshot.skip, needed)

    def _rows_copied(
        self,
        snapshot: Snapshot,
        columns: Columns,
        keys: list[bytes],
        raws: list[bytes],
        handles: list[bytes],
    ) -> Copies:
        """Returns copies of rows under their new handles."""
        at: Array = np.arange(len(raws))
        new = [self._target.row_prefix + handle for handle in handles]
        values = [raw[snapshot.skip :] for raw in raws]
        return Copies(new, values, keys_of(keys, columns), snapshot.stamps(raws), at)

    def _entries(
        self,
        indexes: Sequence[IndexInfo],
        columns: Columns,
        handles: list[bytes],
        rows: Copies,
    ) -> list[Copies]:
        """Returns copies of the entries of rows with these new handles."""
        moved = Columns(
            columns.fields,
            columns.names,
            columns.positions,
            handles,
            lambda _, position: columns.column(position),
            columns.rows,
        )
        copies = []
        for index in indexes:
            entries = of_columns(self._target, index, moved)
            part = self._target.form(index).part
            names = [part + handle for handle in handles] if part else handles
            numbers = numbers_of_rows(index, names, entries)
            if numbers is None:
                numbers = np.arange(columns.rows)
            copies.append(
                entries_of(index, entries, entries.keys, rows.sources, rows.stamps, numbers)
            )
        return copies

    def _mismatch(self, key: bytes) -> Refused:
        return mismatch(self._target, key[HANDLE_AT:].hex())


class MoveToIds(RekeyMove):
    """The kernel for one task, for hidden ids."""

    spills_rows = False  # new ids are in the order of the rows

    def __init__(
        self, store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        super().__init__(store, task, dial, monotonic)
        self._guard = _guard_of(self._target)
        self._indexes = [index for index in self._indexes if index.id != self._guard.info.id]
        self._ids = IdAllocator(store).of(self._target.info)
        self._assigned: Mapping[bytes, bytes] = {}
        self._overtaken = False

    def _copy(
        self,
        snapshot: Snapshot,
        indexes: Sequence[IndexInfo],
        keys: list[bytes],
        raws: list[bytes],
    ) -> list[Copies]:
        """Returns copies of rows that lack one, and of all entries."""
        columns = self._columns(snapshot, indexes, keys, raws)
        places = as_bytes(of_columns(self._target, self._guard.info, columns).keys)
        new_handles = _handles_at(snapshot, places)
        uncopied = [n for n, handle in enumerate(new_handles) if not handle]
        self._assign(new_handles, uncopied, as_bytes(columns.handles))
        rows = self._rows_copied(snapshot, columns, keys, raws, new_handles)
        rows = rows._replace(at=np.array(uncopied, np.int64), guards=places)
        return [rows, *self._entries(indexes, columns, new_handles, rows)]

    def _assign(self, new_handles: list[bytes], uncopied: list[int], handles: list[bytes]) -> None:
        """Assigns ids to uncopied rows: those assigned before, or new ones."""
        fresh = [n for n in uncopied if handles[n] not in self._assigned]
        if fresh:
            first = self._ids.next("rowid", len(fresh))
            ids = as_bytes(row_ids_from(first, len(fresh)))
            for n, handle in zip(fresh, ids, strict=True):
                new_handles[n] = handle
        for n in uncopied:
            new_handles[n] = new_handles[n] or self._assigned[handles[n]]

    def _read_again(self, batch: Copies) -> Copies:
        """Returns the same copies from the current rows, with the ids assigned before, because
        collected entries contain them."""
        if batch.index_id:
            return super()._read_again(batch)
        handles = [key[HANDLE_AT:] for key in batch.source_keys()]
        ids = [key[HANDLE_AT:] for key in batch.key_list()]
        self._assigned = dict(zip(handles, ids, strict=True))
        copies = super()._read_again(batch)
        self._assigned = {}
        self._overtaken = self._overtaken or len(copies.at) < len(batch.at)
        return copies

    def _entries_after_put(self, keys: list[bytes], entries: list[Copies]) -> list[Copies]:
        """Returns the entries of the rows. If another process runs this task too, it may have put
        unchanged rows under other ids; then the entries are built again."""
        if not self._overtaken:
            return entries
        self._overtaken = False
        with closing(fresh_snapshot(self._store, self._source)) as snapshot:
            raws = snapshot.get_many(keys)
            present_keys = [key for key in keys if key in raws]
            present_raws = [raws[key] for key in present_keys]
            return (
                self._copy(snapshot, self._indexes, present_keys, present_raws)[1:]
                if present_keys
                else []
            )

    def _bulk(self, copies: Copies, number: int, puts: int) -> Bulk:
        """Returns one transaction. Rows are put with their entries in the guard, which must be
        absent."""
        bulk = super()._bulk(copies, number, puts)
        if copies.index_id:
            return bulk
        assert copies.guards is not None
        places = as_bytes(take(copies.guards, copies.at))
        names = [LIVE + key[HANDLE_AT:] for key in bulk.keys]
        return bulk._replace(
            requirements=[*bulk.requirements, AllAbsent(places, "lost update")],
            puts=[*bulk.puts, *zip(places, names, strict=True)],
        )


def exchanged_ranges(order: TaskOrder, to_ids: bool) -> list[tuple[int, Span]]:
    """Returns the index id and the whole key range of the copies that tasks spill; 0 for rows."""
    target = order.table.rekeyed
    guard = _guard_of(target).info.id if to_ids else None
    rows = [] if to_ids else [(0, target.row_span())]
    indexes = (index for index in indexes_of(target) if index.id != guard)
    return [*rows, *((index.id, target.index_span(index)) for index in indexes)]


def _guard_of(other: Table) -> IndexForm:
    if other.guard is None:
        raise Broken(f"no index maps rows of {other.info.name.O} to their copies")
    return other.guard


def _handles_at(snapshot: Snapshot, places: list[bytes]) -> list[bytes]:
    """Returns the handles in these entries of the guard; b"" for absent entries."""
    payloads = snapshot.get_many(places)
    entries = [payloads.get(key, b"")[snapshot.skip :] for key in places]
    return [entry[len(LIVE) :] if is_live(entry) else b"" for entry in entries]


def mismatch(table: Table, handle: str) -> Refused:
    """Returns 8223 for a row that differs between both sets."""
    return ErrDataInconsistent(table.info.name.O, "primary key that changes", handle, "", "")


def check_rekeyed(store: Store, task: Task) -> Steps:
    """Kernel of verification: looks up the rows of a span in the other set, in one snapshot."""
    table = task.order.table
    other, rows = table.rekeyed, 0
    faults: list[str] = []
    positions = _positions(other)
    with closing(fresh_snapshot(store, table)) as snapshot:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            columns = row_batch.decode(table, keys, raws, snapshot.skip, positions)
            there = _keys_in(snapshot, other, columns)
            faults += differing_rows(table, snapshot, keys, raws, there)
            rows += len(keys)
            yield Batch(len(keys), 0.0)
    return Outcome(ordinal=task.ordinal, rows=rows, result=(len(faults), faults[:MOST_LISTED]))


def _positions(other: Table) -> list[int]:
    return sorted(set(other.handle_positions or _guard_of(other).positions))


def _keys_in(snapshot: Snapshot, other: Table, columns: Columns) -> list[bytes]:
    """Returns the keys of the same rows in the other set; b"" for missing rows."""
    if other.handle_positions:
        return [other.row_prefix + handle for handle in as_bytes(handles_in(other, columns))]
    places = as_bytes(of_columns(other, _guard_of(other).info, columns).keys)
    return [handle and other.row_prefix + handle for handle in _handles_at(snapshot, places)]


def fault_of(store: Store, order: TaskOrder, outcomes: Sequence[Outcome]) -> Refused | None:
    """Returns 8223 if tasks found rows that differ between both sets."""
    handles = [handle for outcome in outcomes for handle in outcome.result[1]]
    return mismatch(order.table, handles[0]) if handles else None
