"""Rows on their way into a table, one after another, and what happens where a key is taken.

    INSERT          1062, the statement is undone      REPLACE             the other row goes
    INSERT IGNORE   a warning, the row is left out     ON DUPLICATE KEY    the other row is changed

AUTO_INCREMENT: NULL and 0 take the next id; a value given raises the counter.
"""

from exuvia.base.errors import Broken, Duplicate, Refused
from exuvia.base.types import INTEGER_BITS, TypeCode
from exuvia.catalog import reader, writer
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.sql.assignments import Assignments
from exuvia.sql.context import Context
from exuvia.sql.insert_target import Target
from exuvia.sql.result import Result, Row

MOST_REPLACED = 64


class Inserting:
    """One run of an INSERT. `policy`: insert, ignore, replace or update."""

    def __init__(
        self, target: Target, policy: str, context: Context, changes: Assignments | None
    ) -> None:
        self._target = target
        self._table: Table = target.table
        self._policy = policy
        self._context = context
        self._changes = changes
        self._ids = context.session.services.ids
        self._first_id = 0
        self._written_id = 0
        self._reserved = 0
        self._rows = 0
        self._affected = 0
        self._duplicates = 0
        self._zero_is_a_value = "NO_AUTO_VALUE_ON_ZERO" in context.variable("sql_mode")
        context.writing(self._table)

    def reserve(self, rows: int) -> None:
        """Take consecutive ids for a statement of several rows that names none."""
        if rows > 1 and self._target.auto >= 0 and not self._target.auto_is_named:
            self._reserved = self._ids.next(self._table.info.id, "auto", rows)

    def add(self, row: Row, number: int) -> None:
        """Put one complete row. Raises Duplicate, 1467."""
        self._rows += 1
        given = self._number(row) if self._target.auto >= 0 else 0
        handle = None
        if self._target.is_hidden_id:
            handle = keys.i64(self._ids.next(self._table.info.id, "rowid"))
        try:
            writer.insert(self._context.txn, self._table, row, handle)
            self._affected += 1
            self._first_id = self._first_id or given
        except Duplicate as taken:
            self._settle(taken, row, handle, number)

    def _number(self, row: Row) -> int:
        """Fill in the AUTO_INCREMENT column; the id it was given, 0 where the row had its own."""
        position = self._target.auto
        value = row[position]
        if value is None or (value == 0 and not self._zero_is_a_value):
            row[position] = value = self._next_id()
            _check_range(value, self._table, position)
            return int(value)
        self._written_id = int(value)
        if value > 0:
            self._ids.rebase(self._table.info.id, int(value), "auto")
        return 0

    def _next_id(self) -> int:
        if self._reserved:
            self._reserved += 1
            return self._reserved - 1
        return self._ids.next(self._table.info.id, "auto")

    def _settle(self, taken: Duplicate, row: Row, handle: bytes | None, number: int) -> None:
        self._duplicates += 1
        if self._policy == "insert":
            raise taken
        if self._policy == "ignore":
            self._context.note(taken.code, taken.message)
        elif self._policy == "replace":
            self._replace(taken, row, handle)
        else:
            self._update(taken, row, number)

    def _replace(self, taken: Duplicate, row: Row, handle: bytes | None) -> None:
        txn, table = self._context.txn, self._table
        for _ in range(MOST_REPLACED + 1):
            writer.delete(txn, table, taken.handle, self._holder(taken))
            self._affected += 1
            try:
                writer.insert(txn, table, row, handle)
                self._affected += 1
                return
            except Duplicate as another:
                taken = another
        raise Broken(f"a row of {table.info.name.O} is taken by more rows than it has keys")

    def _update(self, taken: Duplicate, row: Row, number: int) -> None:
        if self._changes is None:
            raise taken
        old = self._holder(taken)
        new = self._changes.apply(old, row, self._context, number)
        if new != old:
            writer.update(self._context.txn, self._table, taken.handle, old, new)
            self._affected += 2
            if self._target.auto >= 0:
                self._written_id = int(new[self._target.auto])
        elif self._context.session.client_found_rows:
            self._affected += 1

    def _holder(self, taken: Duplicate) -> Row:
        found = reader.get(self._context.txn, self._table, taken.handle)
        if found is None:
            raise Broken(f"an entry of {self._table.info.name.O} has no row")
        return found

    def result(self, several: bool) -> Result:
        """Counts, and the first id given."""
        info = ""
        if several:
            warnings = len(self._context.warnings)
            info = f"Records: {self._rows}  Duplicates: {self._duplicates}  Warnings: {warnings}"
        return Result(
            affected=self._affected,
            last_insert_id=self._first_id,
            info=info,
            written_id=self._written_id if self._affected else 0,
        )


def _check_range(value: int, table: Table, position: int) -> None:
    kind = table.info.cols[position].type
    bits = INTEGER_BITS.get(TypeCode(kind.Tp))
    if bits is not None and value >= 1 << (bits if kind.unsigned else bits - 1):
        raise Refused(1467, "HY000", "Failed to read auto-increment value from storage engine")
