"""The move of rows to the handles of another primary key, or to hidden ids, and its verification.

    fresh snapshots        must show the reorg's revision of the table (law 1)
      -> some rows         the new handle of each, by columns
      -> batches of rows   the bytes as they stand, under the other id and the new handle
      -> their entries     of the other set's indexes, kept until all rows of the span are there

All else as a move between partitions (move.py): each batch puts where nothing stands and requires
the old rows to be those that were read. The guard has been filled by then, and writers keep it, so
no two rows have one new handle: what stands there is the row itself, put by its writer or by an
earlier run.

To hidden ids: the guard, on the key that goes, is in the other set and says which id a row's copy
has. Rows without a copy get ids in their order, and their entries in the guard are put with them,
by a transaction that requires that there are none: a row gets one copy, however often this is done.

`check rekeyed` looks up rows of either set in the other one. In a set with hidden ids the guard
says where a row is.
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
from exuvia.kv.packet import LIVE, AllAbsent, Bulk, Snapshot, is_live
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
    entries_of,
    indexes_of,
    numbers_of_rows,
    unlike_twins,
)
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.sorted_rows import handles_in, row_ids_from
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.throttle import Batch, Steps


class RekeyMove(Move):
    """The kernel for one task: to handles that follow from the rows."""

    def __init__(
        self, store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        super().__init__(store, task, dial, monotonic)
        self._target = self._source.rekeyed
        self._indexes = indexes_of(self._target)

    def _copied(
        self,
        snapshot: Snapshot,
        indexes: Sequence[IndexInfo],
        keys: list[bytes],
        raws: list[bytes],
    ) -> list[Copies]:
        columns = self._columns(snapshot, indexes, keys, raws)
        made = as_bytes(handles_in(self._target, columns))
        rows = self._rows_copied(snapshot, columns, raws, made)
        return [rows, *self._entries(indexes, columns, made, rows.stamps)]

    def _columns(
        self,
        snapshot: Snapshot,
        indexes: Sequence[IndexInfo],
        keys: list[bytes],
        raws: list[bytes],
    ) -> Columns:
        wanted = sorted({*_positions(self._target), *positions_of(self._source, indexes)})
        return row_batch.decode(self._source, keys, raws, snapshot.skip, wanted)

    def _rows_copied(
        self, snapshot: Snapshot, columns: Columns, raws: list[bytes], made: list[bytes]
    ) -> Copies:
        """Under the handles `made` for them."""
        at: Array = np.arange(len(raws))
        new = [self._target.row_prefix + handle for handle in made]
        values = [raw[snapshot.skip :] for raw in raws]
        return Copies(new, values, columns.handles, snapshot.stamps(raws), at)

    def _entries(
        self,
        indexes: Sequence[IndexInfo],
        columns: Columns,
        made: list[bytes],
        stamps: Array,
    ) -> list[Copies]:
        """Of these rows, which are named by the handles `made` for them."""
        moved = Columns(
            columns.fields,
            columns.names,
            columns.positions,
            made,
            lambda _, position: columns.column(position),
            columns.rows,
        )
        copies = []
        for index in indexes:
            found = of_columns(self._target, index, moved)
            part = self._target.form(index).part
            names = [part + handle for handle in made] if part else made
            numbers = numbers_of_rows(index, names, found)
            if numbers is None:
                numbers = np.arange(columns.rows)
            copies.append(entries_of(index, found, found.keys, columns.handles, stamps, numbers))
        return copies

    def _unlike(self, key: bytes) -> Refused:
        return unlike(self._target, key[HANDLE_AT:].hex())


class MoveToIds(RekeyMove):
    """The kernel for one task: to hidden ids."""

    def __init__(
        self, store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        super().__init__(store, task, dial, monotonic)
        self._guard = _guard_of(self._target)
        self._indexes = [each for each in self._indexes if each.id != self._guard.info.id]
        self._ids = IdAllocator(store).of(self._target.info)
        self._given: Mapping[bytes, bytes] = {}
        self._outrun = False

    def _copied(
        self,
        snapshot: Snapshot,
        indexes: Sequence[IndexInfo],
        keys: list[bytes],
        raws: list[bytes],
    ) -> list[Copies]:
        """The rows: only those without a copy."""
        columns = self._columns(snapshot, indexes, keys, raws)
        places = as_bytes(of_columns(self._target, self._guard.info, columns).keys)
        made = _named(snapshot, places)
        lacking = [n for n, handle in enumerate(made) if not handle]
        self._give(made, lacking, as_bytes(columns.handles))
        rows = self._rows_copied(snapshot, columns, raws, made)
        rows = rows._replace(at=np.array(lacking, np.int64), guards=places)
        return [rows, *self._entries(indexes, columns, made, rows.stamps)]

    def _give(self, made: list[bytes], lacking: list[int], handles: list[bytes]) -> None:
        """Ids to rows that have none: those that they were to have before, or new ones."""
        fresh = [n for n in lacking if handles[n] not in self._given]
        if fresh:
            first = self._ids.next("rowid", len(fresh))
            ids = as_bytes(row_ids_from(first, len(fresh)))
            for n, handle in zip(fresh, ids, strict=True):
                made[n] = handle
        for n in lacking:
            made[n] = made[n] or self._given[handles[n]]

    def _as_they_stand(self, batch: Copies) -> Copies:
        """Entries that are kept name the rows by the ids that these were to have."""
        if batch.index_id:
            return super()._as_they_stand(batch)
        handles = as_bytes(take(batch.handles, batch.at))
        ids = [key[HANDLE_AT:] for key in batch.key_list()]
        self._given = dict(zip(handles, ids, strict=True))
        made = super()._as_they_stand(batch)
        self._given = {}
        self._outrun = self._outrun or len(made.at) < len(batch.at)
        return made

    def _entries_since(self, keys: list[bytes], entries: list[Copies]) -> list[Copies]:
        """Whoever does this task too may have put rows that did not change under ids of its own."""
        if not self._outrun:
            return entries
        self._outrun = False
        with closing(fresh_snapshot(self._store, self._source)) as snapshot:
            raws = snapshot.get_many(keys)
            there = [key for key in keys if key in raws]
            found = [raws[key] for key in there]
            return self._copied(snapshot, self._indexes, there, found)[1:] if there else []

    def _bulk(self, copies: Copies, number: int, puts: int) -> Bulk:
        """Rows come with their entries in the guard, which has none yet."""
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


def _guard_of(other: Table) -> IndexForm:
    if other.guard is None:
        raise Broken(f"nothing says where rows of {other.info.name.O} have their copies")
    return other.guard


def _named(snapshot: Snapshot, places: list[bytes]) -> list[bytes]:
    """The handles that these entries of the guard name; empty where there is none."""
    found = snapshot.get_many(places)
    held = [found.get(key, b"")[snapshot.skip :] for key in places]
    return [each[len(LIVE) :] if is_live(each) else b"" for each in held]


def unlike(table: Table, handle: str) -> Refused:
    """8223 for a row that is not the same in both sets."""
    return ErrDataInconsistent(table.info.name.O, "primary key that changes", handle, "", "")


def check_rekeyed(store: Store, task: Task) -> Steps:
    """The kernel of verification: rows of one span, each looked up in the other set in the same
    snapshot."""
    table = task.order.table
    other, seen = table.rekeyed, 0
    faults: list[str] = []
    positions = _positions(other)
    with closing(fresh_snapshot(store, table)) as snapshot:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            columns = row_batch.decode(table, keys, raws, snapshot.skip, positions)
            there = _keys_there(snapshot, other, columns)
            faults += unlike_twins(table, snapshot, keys, raws, there)
            seen += len(keys)
            yield Batch(len(keys), 0.0)
    return Outcome(ordinal=task.ordinal, rows=seen, result=(len(faults), faults[:MOST_LISTED]))


def _positions(other: Table) -> list[int]:
    return sorted(set(other.handle_positions or _guard_of(other).positions))


def _keys_there(snapshot: Snapshot, other: Table, columns: Columns) -> list[bytes]:
    """Keys of the same rows in the other set; empty where there is none."""
    if other.handle_positions:
        return [other.row_prefix + handle for handle in as_bytes(handles_in(other, columns))]
    places = as_bytes(of_columns(other, _guard_of(other).info, columns).keys)
    return [handle and other.row_prefix + handle for handle in _named(snapshot, places)]


def fault_of(store: Store, order: TaskOrder, outcomes: Sequence[Outcome]) -> Refused | None:
    """8223, where tasks found rows that are not the same in both sets."""
    handles = [handle for outcome in outcomes for handle in outcome.result[1]]
    return unlike(order.table, handles[0]) if handles else None
