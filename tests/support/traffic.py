"""Clients' writes while a schema change walks, beside a model of what must come of them.

Every round begins a transaction with one statement, commits some of those begun in earlier rounds
(so they plan with schemas one step old, or older) and one at once. What commits enters the model;
what is refused does not. The store alone decides.
"""

import random
from types import SimpleNamespace
from typing import Any

from exuvia.base.errors import Conflict, Duplicate, Refused
from exuvia.catalog import reader, writer
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.sql.access.partitions import NOWHERE, route_of
from exuvia.sql.write.partitioned import PartitionWrites
from support.small_tables import EVALUATOR

IDS = 7
VALUES = 6

Cells = dict[str, int | None]


class Pending:
    """A transaction with one statement, not committed yet."""

    def __init__(self, txn: Transaction, row_id: int, cells: Cells | None, table_id: int) -> None:
        self.txn = txn
        self.table_id = table_id
        self.row_id = row_id
        self.cells = cells
        self.physical_id = 0


class Traffic:
    """One client on one table. `rows`: id -> cells by column name, as the commits made them."""

    def __init__(self, store: Store, name: str, chance: random.Random) -> None:
        self._store = store
        self._schemas = Schemas(store, evaluator=EVALUATOR)
        self._name = name
        self._chance = chance
        self._pending: list[Pending] = []
        self.rows: dict[int, Cells] = {}
        self._table_id = 0
        self._physical = 0
        self.where: dict[int, int] = {}  # id -> the physical table it was written to
        self.taken = 0  # steps the job has taken, told by whoever steps this
        self.committed = 0
        self.refused = 0

    def fill(self, rows: int) -> None:
        """Rows before anything changes, with values that are all different."""
        for row_id in range(rows):
            txn = self._store.begin()
            table = self._schemas.table(txn, "test", self._name)
            cells: Cells = {"id": row_id, "a": row_id % 3, "b": 100 + row_id}
            self._write(txn, table, row_id, cells)
            self._finish(self._pend(txn, row_id, cells, table))

    def step(self) -> None:
        """Commit some of what was begun before, begin another, and commit a third at once."""
        waiting, self._pending = self._pending, []
        for pending in waiting:
            if self._chance.random() < 0.4:
                self._finish(pending)
            else:
                self._pending.append(pending)
        begun = self._begin()
        self._pending += [begun] if begun else []
        at_once = self._begin()
        if at_once:
            self._finish(at_once)

    def rows_of(self, table_id: int) -> dict[int, Cells]:
        """What the table of that id must hold: a truncation makes another one."""
        return self.rows if table_id == self._table_id else {}

    def stop(self) -> None:
        """Commit what is left."""
        for pending in self._pending:
            self._finish(pending)
        self._pending = []

    def _begin(self) -> Pending | None:
        txn = self._store.begin()
        row_id, removes = self._choose()
        try:
            table = self._schemas.table(txn, "test", self._name)
            cells = None if removes else self._cells(table, row_id)
            self._write(txn, table, row_id, cells)
        except (Refused, Conflict):
            self.refused += 1
            txn.rollback()
            return None
        return self._pend(txn, row_id, cells, table)

    def _choose(self) -> tuple[int, bool]:
        """Which row is written next, and whether it is removed."""
        return self._chance.randrange(IDS), self._chance.random() >= 0.75

    def _pend(self, txn: Transaction, row_id: int, cells: Cells | None, table: Table) -> Pending:
        found = Pending(txn, row_id, cells, table.info.id)
        found.physical_id = self._physical
        return found

    def _cells(self, table: Table, row_id: int) -> Cells:
        cells: Cells = {
            c.name.L: self._chance.randrange(VALUES) for c in table.columns if not c.is_generated
        }
        return cells | {"id": row_id}

    def _write(self, txn: Transaction, table: Table, row_id: int, cells: Cells | None) -> None:
        handle = keys.i64(row_id)
        parts = None
        if table.is_partitioned:
            place = route_of(table).place([row_id, None, None])
            parts = PartitionWrites(table, SimpleNamespace(txn=txn))
            table = table.parts[place] if place != NOWHERE else table
        self._physical = table.physical_id
        old = reader.get(txn, table, handle)
        new = [None if cells is None else cells.get(c.name.L) for c in table.info.cols]
        if table.virtual is not None and cells is not None:
            new = table.virtual.fill(new)
        hidden = handle if not table.info.pk_is_handle else None
        if parts is not None:
            self._write_part(parts, keys.u64(table.physical_id) + handle, old, new, cells)
        elif cells is None:
            if old is not None:
                writer.delete(txn, table, handle, old)
        elif old is None:
            writer.insert(txn, table, new, hidden)
        else:
            writer.update(txn, table, handle, old, new)

    def _write_part(self, parts: Any, handle: bytes, old: Any, new: Any, cells: Any) -> None:
        """By the station that routes rows; 1526 where none takes the row."""
        if cells is None:
            if old is not None:
                parts.delete(handle, old)
        elif old is None:
            parts.insert(new)
        else:
            parts.update(handle, old, new)

    def _finish(self, pending: Pending) -> None:
        try:
            wrote = pending.txn.has_writes
            pending.txn.commit()
        except (Conflict, Duplicate):
            self.refused += 1
            return
        if not wrote:
            return  # nothing to remove, or the values it had
        self.committed += 1
        if pending.table_id != self._table_id:
            assert pending.table_id > self._table_id, "a commit on a table that was taken away"
            self._table_id, self.rows = pending.table_id, {}
        if pending.cells is None:
            self.rows.pop(pending.row_id, None)
        else:
            self.rows[pending.row_id] = pending.cells
            self.where[pending.row_id] = pending.physical_id
