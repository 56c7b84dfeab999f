"""A client of one front: reads its snapshot, writes a few rows, commits some steps later.

    idle -> begin: snapshot and plan -> one or two changes -> commit or roll back -> idle

Its changes are added to the history only after its commit has succeeded.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict, Deposed, Refused, SchemaChanged
from exuvia.catalog import reader, writer
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.table import Table
from exuvia.cluster.member import Member
from exuvia.cluster.versions import MetadataLocks
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.sim.laws import History, RowChange

HANDLES = ((1,), (1, 2), (1, 2, 3, 4))
LONG, LONG_S = 0.5, 0.2
MAX_STEPS_LEFT = 12
DELETE_SHARES = (0.1, 0.5)
CHANGES_A_SHARE = 0.7
VALUES = ((0, 1, None), (0, 1), (1, None))
Rows = tuple[tuple[int, ...], tuple[int | None, ...]]  # handles, and the values of columns
RESTS_S = (0.02, 0.1)
PACES_S = ((0.005, 0.01, 0.1), (0.002, 0.005), (0.05, 0.3))


class FrontSeat(NamedTuple):
    """The parts of a front that a session uses."""

    store: Store
    schemas: Schemas
    member: Member
    locks: MetadataLocks
    clock: Clock


class Open(NamedTuple):
    """An open transaction: its plan, and its changes."""

    txn: Transaction
    table: Table
    changes: list[RowChange]


class SimulatedSession:
    """A client that writes at random. `seat`: store, schemas, member and locks of its node."""

    def __init__(
        self,
        seat: FrontSeat,
        name: str,
        random: Random,
        history: History,
        thinking_s: tuple[float, ...],
        rows: Rows,
        versions: Callable[[], int],
    ) -> None:
        self._versions = versions
        self._deletes = random.choice(DELETE_SHARES)
        self._is_slow = name.endswith("c0")  # the other clients continue while it sleeps
        self._wakes = (0, 0)  # (version of the job, remaining steps of its window)
        self._handles, values = rows
        self._values = values, tuple(value for value in values if value is not None)
        self._rests_s = random.choice(RESTS_S)
        self._thinking_s = thinking_s
        self._seat = seat
        self.name = name
        self._random = random
        self._history = history
        self._open: Open | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open."""
        return self._open is None

    def sleeps(self, version: int, steps_left: int) -> bool:
        """Whether its commit is planned for a later window, or later in this one."""
        wakes_at, own_steps_left = self._wakes
        return version < wakes_at or (version == wakes_at and steps_left > own_steps_left)

    def step(self, now: float) -> float:
        """Begins, writes or commits. Returns seconds until the next step."""
        if self._open is None:
            self._begin(now)
        elif not self._open.changes or (
            len(self._open.changes) < 2 and self._random.random() < 0.5
        ):
            self._try(self._open)
        else:
            self._commit(self._open)
        if self._open is None:
            return self._random.random() * self._rests_s
        if self._is_slow and self._open.changes and self._random.random() < LONG:
            self._wakes = self._versions() + 1, self._random.randrange(MAX_STEPS_LEFT)
            return self._random.random() * LONG_S  # most schema steps come before the commit
        return self._random.random() * self._random.choice(self._thinking_s)

    def _begin(self, now: float) -> None:
        if not self._seat.member.serving(now):
            return
        txn = self._seat.store.begin()
        try:
            table = self._seat.schemas.table(txn, "world", "t")
            self._seat.member.guard(txn)
        except (Refused, Deposed):
            txn.rollback()
            return
        self._open = Open(txn, table, [])
        if self._random.random() < 0.7:
            self._try(self._open)

    def _try(self, current: Open) -> None:
        try:
            self._write(current)
        except SchemaChanged:
            self._end(current)  # the row has a later revision than the plan

    def _write(self, current: Open) -> None:
        table, txn = current.table, current.txn
        number = self._random.choice(self._handles)
        handle = keys.i64(number)
        mark = txn.mark()
        old = reader.get(txn, table, handle)
        try:
            if old is None:
                row: list[object] = [None] * len(table.info.cols)
                for column in table.columns:
                    row[table.position(column.name.L)] = self._value(column)
                row[table.position("id")] = number
                writer.insert(txn, table, row)
                current.changes.append(RowChange(number, self._column_values(table, row)))
            elif self._random.random() < self._deletes:
                writer.delete(txn, table, handle, old)
                current.changes.append(RowChange(number, None))
            else:
                row = self._changed(table, old)
                if row == old:
                    return  # writes nothing, so it is not validated
                writer.update(txn, table, handle, old, row)
                current.changes.append(RowChange(number, self._column_values(table, row)))
        except Refused:
            txn.back_to(mark)
            return
        self._seat.locks.hold(self, table.info.id, table.revision, self.name)

    def _changed(self, table: Table, old: list[object]) -> list[object]:
        row = list(old)
        column = self._random.choice(
            [changeable for changeable in table.columns if changeable.name.L != "id"]
        )
        if self._random.random() < CHANGES_A_SHARE:
            column = table.info.cols[table.position("a")]
        at = table.position(column.name.L)
        row[at] = self._value(column, old[at])
        return row

    def _value(self, column: ColumnInfo, old: object = -1) -> object:
        """Returns an allowed value, not NULL for NOT NULL, and different from the old if
        possible."""
        allowed = self._values[column.not_null]
        return self._random.choice([value for value in allowed if value != old] or allowed)

    def _column_values(self, table: Table, row: list[object]) -> dict[str, object]:
        return {c.name.L: row[table.position(c.name.L)] for c in table.columns}

    def _commit(self, current: Open) -> None:
        try:
            if not current.txn.has_writes:
                return
            self._history.attempt(self.name, current.table.revision, current.changes)
            current.txn.commit()
        except (Refused, Conflict, Deposed):
            return
        finally:
            self._history.settled(self.name)
            self._end(current)

    def _end(self, current: Open) -> None:
        self._open = None
        self._wakes = (0, 0)
        current.txn.rollback()
        self._seat.locks.release(self)
