"""Clients that keep writing through accidents, each with a model of its rows.

A statement whose connection was lost has an unknown outcome: the row is read again, and must be as
it was before or as the statement wanted it; everything else is an error. Only a connection to a
node that was killed may be lost.
"""

import random
import threading
from collections.abc import Collection, Mapping
from types import MappingProxyType

import pymysql

from support.node_processes import NodeProcess
from support.torture import Nodes

Cells = tuple[int, int]
_GONE = (2003, 2006, 2013)
_REST_S = 0.02
_AWAY_S = 0.1


class Writer:
    """One client on a thread of its own; its rows are those whose id % of == number."""

    def __init__(
        self,
        nodes: Nodes,
        table: str,
        number: int,
        of: int,
        rows: int,
        known: Mapping[int, Cells | None] = MappingProxyType({}),
        refusals: Collection[int] = (),
        may_lose: bool = False,
        rest_s: float = _REST_S,
    ) -> None:
        """`refusals` are codes that say a statement was not done, and that are no fault.
        `may_lose`: any connection may be lost, its node may be started again by its keeper."""
        self._may_lose = may_lose
        self._rest_s = rest_s
        self.changed: dict[int, Cells | None] = dict(known)  # what one before it has changed
        self.errors: list[str] = []
        self.refused = 0
        self._refusals = refusals
        self.written = 0
        self.lost = 0
        self._nodes, self._table = nodes, table
        self._number, self._of, self._rows = number, of, rows
        self._chance = random.Random(number)
        self._stopping = threading.Event()
        self._node: NodeProcess | None = None
        self._connection: pymysql.Connection | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the statement under way."""
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.wait(self._rest_s):
            try:
                self._change_one()
            except pymysql.err.MySQLError as error:
                if error.args[0] in self._refusals:
                    self.refused += 1
                    self._stopping.wait(_AWAY_S)
                    continue
                self.errors.append(f"{error!r} on {self._node and self._node.log.name}")
        self._hang_up()

    def _change_one(self) -> None:
        row_id = self._chance.randrange(self._rows * 11 // 10) * self._of + self._number
        before = self.changed.get(row_id, first_cells(row_id, self._rows * self._of))
        wish: Cells = (self._chance.randrange(5000), self._chance.randrange(1 << 30))
        after = None if before and self._chance.random() < 0.3 else wish
        if before is None:
            text = f"INSERT INTO {self._table} (id, k, v) VALUES ({row_id}, {wish[0]}, {wish[1]})"
        elif after is None:
            text = f"DELETE FROM {self._table} WHERE id = {row_id}"
        else:
            text = f"UPDATE {self._table} SET k = {wish[0]}, v = {wish[1]} WHERE id = {row_id}"
        if self._execute(text) is None:
            after = self._resolved(row_id, before, after)
        self.changed[row_id] = after
        self.written += 1

    def _execute(self, text: str) -> list[tuple[int, ...]] | None:
        """Rows, or None when the connection to a killed node was lost."""
        try:
            with self._connected().cursor() as cursor:
                cursor.execute(text)
                return list(cursor.fetchall())
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
            accident = self._may_lose or self._node in self._nodes.killed
            if not accident or error.args[0] not in (0, *_GONE):
                raise
            self.lost += 1
            self._hang_up()
            self._stopping.wait(_AWAY_S)
            return None

    def _resolved(self, row_id: int, before: Cells | None, after: Cells | None) -> Cells | None:
        found = None
        while found is None:
            found = self._execute(f"SELECT k, v FROM {self._table} WHERE id = {row_id}")
        seen = (int(found[0][0]), int(found[0][1])) if found else None
        if seen not in (before, after):
            self.errors.append(f"row {row_id}: {seen}, neither {before} nor {after}")
        return seen

    def _connected(self) -> pymysql.Connection:
        """To the node of its own slot, or to another one while that is down."""
        if self._connection is None:
            own = self._nodes.slots[self._number % len(self._nodes.slots)]
            living = self._nodes.living()
            self._node = own if own in living else living[0]
            self._connection = self._node.connect("test", autocommit=True)
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None


def first_cells(row_id: int, rows: int) -> Cells | None:
    """What was loaded: ids 0..rows-1."""
    return (row_id * 31 % 5000, row_id) if row_id < rows else None


def expected(writers: list[Writer], rows: int) -> dict[int, Cells]:
    """What the table must hold when its writers have stopped."""
    found: dict[int, Cells | None] = {n: first_cells(n, rows) for n in range(rows)}
    for writer in writers:
        found |= writer.changed
    return {row_id: cells for row_id, cells in found.items() if cells is not None}
