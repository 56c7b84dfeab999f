"""Rows of partitions that change are written to the other set of partitions too.

    state                   row removed          row new or changed
    delete only             its twin goes        the twin of what it was goes
    write only and on       its twin goes        the twin is put, or becomes what the row is

A twin has its row's handle. It may not be there yet: the move has not come to it. Then the commit
requires that it is still not, else the move's copy of a row that is gone would stay. See
ddl/actions/partition_move.py for why neighbours of these states may meet.
"""

from exuvia.catalog import writer
from exuvia.catalog.model import PartitionInfo
from exuvia.catalog.state import DUTIES, SchemaState
from exuvia.catalog.table import Table
from exuvia.kv.transaction import Transaction
from exuvia.sql.access.partition_mover import other_route
from exuvia.sql.access.partitions import NOWHERE
from exuvia.sql.result import Row


class Twins:
    """One statement's writes to the other set of one table."""

    def __init__(self, table: Table, found: PartitionInfo, txn: Transaction) -> None:
        self._table = table
        self._txn = txn
        self._route = other_route(table, found)
        self._ids = [each.id for each in found.others]
        self._moving = found.moving
        switched = found.ddl_state == SchemaState.DELETE_REORG
        self._adds = switched or DUTIES[found.ddl_state].adds

    def check(self, part: Table, row: Row) -> None:
        """A row that is written must have a place there too. Raises 1526."""
        if self._adds and part.physical_id in self._moving:
            self._twin_part(row)

    def put(self, part: Table, handle: bytes, row: Row) -> None:
        """A new row."""
        if self._adds and part.physical_id in self._moving:
            twin = self._twin_part(row)
            if self._txn.get(twin.row_prefix + handle) is None:
                writer.insert(self._txn, twin, row, handle)

    def remove(self, part: Table, handle: bytes, row: Row) -> None:
        """A row that goes."""
        if part.physical_id not in self._moving:
            return
        place = self._route.place(row)
        if place == NOWHERE:
            return
        twin = self._table.part(self._ids[place])
        if self._is_there(twin, handle):
            writer.delete(self._txn, twin, handle, row)

    def change(self, part: Table, handle: bytes, moved: bytes, old: Row, new: Row) -> None:
        """A row that stays in its partition; `moved` is its handle from now on."""
        if part.physical_id not in self._moving:
            return
        self._txn.require(part.row_prefix + handle)  # an equal row is not written, so not compared
        place = self._route.place(old)
        twin = None if place == NOWHERE else self._table.part(self._ids[place])
        there = twin is not None and self._is_there(twin, handle)
        if there and twin is not None and self._adds and self._twin_part(new) is twin:
            writer.update(self._txn, twin, handle, old, new)
            return
        if there and twin is not None:
            writer.delete(self._txn, twin, handle, old)
        self.put(part, moved, new)

    def _is_there(self, twin: Table, handle: bytes) -> bool:
        """Whether the twin is. Where it is not, the move must not put it before the commit."""
        key = twin.row_prefix + handle
        if self._txn.get(key) is not None:
            return True
        self._txn.require(key)
        return False

    def _twin_part(self, row: Row) -> Table:
        place = self._route.place(row)
        if place == NOWHERE:
            raise self._route.refusal(row)
        return self._table.part(self._ids[place])


def twins_of(table: Table, txn: Transaction) -> Twins | None:
    """None where no partitions change."""
    found = table.info.partition
    return Twins(table, found, txn) if found is not None and found.moving else None
