"""The move of rows to the handles of another primary key, and its verification.

    fresh snapshots        must show the reorg's revision of the table (law 1)
      -> some rows         the new handle of each, by columns
      -> batches of rows   the bytes as they stand, under the other id and the new handle
      -> their entries     of the other set's indexes, kept until all rows of the span are there

All else as a move between partitions (move.py): each batch puts where nothing stands and requires
the old rows to be those that were read. The guard has been filled by then, and writers keep it, so
no two rows have one new handle: what stands there is the row itself, put by its writer or by an
earlier run.

`check rekeyed` looks up rows of either set in the other one. In a set with hidden ids the guard
says where a row is.
"""

from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np

from exuvia.base.errors import MOST_LISTED, Broken, Refused
from exuvia.base.mysql_errors import ErrDataInconsistent
from exuvia.catalog.codec import row_batch
from exuvia.catalog.columns import Array, Columns
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.packet import LIVE, Snapshot, is_live
from exuvia.kv.store import Store
from exuvia.pipeline.kernels.entries import (
    CHUNK_ROWS,
    as_bytes,
    fresh_snapshot,
    of_columns,
    positions_of,
)
from exuvia.pipeline.kernels.move import Copies, Move, indexes_of, unlike_twins
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.sorted_rows import handles_in
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.throttle import Batch, Steps


def rekeyed(table: Table) -> Table:
    """The other set of rows, whatever writers owe it. Raises Broken where there is none."""
    if table.info.exuvia_rekey is None:
        raise Broken(f"the primary key of table {table.info.name.O} does not change")
    facts = table.revision, table.database, table.database_revision, table.evaluator
    return Table(table.info.rekeyed, *facts)


class RekeyMove(Move):
    """The kernel for one task."""

    def __init__(
        self, store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        super().__init__(store, task, dial, monotonic)
        self._target = rekeyed(self._source)
        self._indexes = indexes_of(self._target)

    def _copied(
        self,
        snapshot: Snapshot,
        indexes: Sequence[IndexInfo],
        keys: list[bytes],
        raws: list[bytes],
    ) -> list[Copies]:
        source, target = self._source, self._target
        wanted = sorted({*target.handle_positions, *positions_of(source, indexes)})
        columns = row_batch.decode(source, keys, raws, snapshot.skip, wanted)
        made = handles_in(target, columns)
        stamps = snapshot.stamps(raws)
        at: Array = np.arange(len(keys))
        new = [target.row_prefix + handle for handle in as_bytes(made)]
        values = [raw[snapshot.skip :] for raw in raws]
        copies = [Copies(new, values, columns.handles, stamps, at)]
        moved = Columns(
            columns.fields,
            columns.names,
            columns.positions,
            made,
            lambda _, position: columns.column(position),
            columns.rows,
        )
        for index in indexes:
            found = of_columns(target, index, moved)
            of, rows = columns.handles, stamps
            if not index.holds_every_row:  # which row each entry is of
                assert found.handles is not None
                row_of = {handle: n for n, handle in enumerate(as_bytes(made))}
                numbers = [row_of[handle] for handle in as_bytes(found.handles)]
                old = as_bytes(columns.handles)
                of, rows = [old[n] for n in numbers], stamps[numbers]
            every: Array = np.arange(len(found.keys))
            copies.append(Copies(found.keys, found.suffixes, of, rows, every, index.id))
        return copies

    def _unlike(self, key: bytes) -> Refused:
        return unlike(self._target, key[HANDLE_AT:].hex())


def unlike(table: Table, handle: str) -> Refused:
    """8223 for a row that is not the same in both sets."""
    return ErrDataInconsistent(table.info.name.O, "primary key that changes", handle, "", "")


def check_rekeyed(store: Store, task: Task) -> Steps:
    """The kernel of verification: rows of one span, each looked up in the other set in the same
    snapshot."""
    table = task.order.table
    other, seen = rekeyed(table), 0
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
    if other.handle_positions:
        return sorted(set(other.handle_positions))
    assert other.guard is not None
    return sorted(set(other.guard.positions))


def _keys_there(snapshot: Snapshot, other: Table, columns: Columns) -> list[bytes]:
    """Keys of the same rows in the other set; empty where there is none."""
    if other.handle_positions:
        return [other.row_prefix + handle for handle in as_bytes(handles_in(other, columns))]
    guard = other.guard
    assert guard is not None
    values = zip(*(columns.column(p).to_list() for p in guard.positions), strict=True)
    entries = [guard.prefix + guard.keys.encode(each) for each in values]
    found = snapshot.get_many(entries)
    held = [found.get(key, b"")[snapshot.skip :] for key in entries]
    return [other.row_prefix + each[len(LIVE) :] if is_live(each) else b"" for each in held]


def fault_of(store: Store, order: TaskOrder, outcomes: Sequence[Outcome]) -> Refused | None:
    """8223, where tasks found rows that are not the same in both sets."""
    handles = [handle for outcome in outcomes for handle in outcome.result[1]]
    return unlike(order.table, handles[0]) if handles else None
