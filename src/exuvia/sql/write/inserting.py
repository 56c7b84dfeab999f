"""Rows on their way into a table, one after another, and what happens where a key is taken.

    INSERT          1062, the statement is undone      REPLACE             the other row goes
    INSERT IGNORE   a warning, the row is left out     ON DUPLICATE KEY    the other row is changed

AUTO_INCREMENT: NULL and 0 take the next id; a value given raises the counter.
"""

from exuvia.base.errors import Broken, Duplicate, Refused
from exuvia.base.mysql_errors import ErrAutoincReadFailed, ErrDataOutOfRange, ErrInvalidAutoRandom
from exuvia.base.types import INTEGER_BITS, TypeCode
from exuvia.catalog.auto_random import counter_bits, scattered
from exuvia.catalog.ids import EVERY, Spacing
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.sql.result import Result, Row
from exuvia.sql.statement.context import Context
from exuvia.sql.write.assignments import Assignments
from exuvia.sql.write.insert_target import Target
from exuvia.sql.write.quiet import INTEGERS
from exuvia.sql.write.rows import SKIPPED, RowWriter

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
        self._ids = context.session.services.ids.of(self._table.info)
        self._spacing = _spacing(context) if target.auto >= 0 else EVERY
        self._first_id = 0
        self._written_id = 0
        self._reserved = 0
        self._rows = 0
        self._affected = 0
        self._duplicates = 0
        self._zero_is_a_value = "NO_AUTO_VALUE_ON_ZERO" in context.variable("sql_mode")
        self._writer = RowWriter(self._table, context, target.partitions)

    def reserve(self, rows: int) -> None:
        """Take consecutive ids for a statement of several rows that names none."""
        if rows > 1 and self._target.auto >= 0 and not self._target.auto_is_named:
            self._reserved = self._ids.next("auto", rows, self._spacing)

    def add(self, row: Row, number: int, read: Row | tuple[()] = ()) -> None:
        """Put one complete row; `read` is what ON DUPLICATE KEY UPDATE may read beside it.

        Raises Duplicate, 1467; with IGNORE a row that breaks a constraint is left out."""
        try:
            self._add(row, number, read)
        except Refused as refused:
            if not self._context.ignores or refused.code not in SKIPPED:
                raise
            self._context.note(refused.code, refused.message)

    def _add(self, row: Row, number: int, read: Row | tuple[()]) -> None:
        self._rows += 1
        given = self._number(row) if self._target.auto >= 0 else 0
        handle = None
        if self._target.is_hidden_id:
            handle = keys.i64(self._ids.next("rowid"))
        try:
            self._writer.insert(row, handle)
            self._affected += 1
            self._first_id = self._first_id or given
        except Duplicate as taken:
            if self._policy == "insert":
                raise
            self._settle(taken, row, handle, number, read)

    def _number(self, row: Row) -> int:
        """Fill in the AUTO_INCREMENT column; the id it was given, 0 where the row had its own."""
        position = self._target.auto
        value = row[position]
        if value is None or (value == 0 and not self._zero_is_a_value):
            row[position] = value = self._next_id()
            if self._target.random is not None:
                row[position] = value = self._scattered(value)
            row[position] = value = self._in_range(int(value), position)
            return int(value)
        self._written_id = int(value)
        if self._target.random is not None:
            value = self._explicit(int(value))
        if value > 0:
            self._ids.rebase(int(value))
        return 0

    def _scattered(self, number: int) -> int:
        """An id of AUTO_RANDOM. Raises 1467."""
        info, column = self._table.info, self._target.random
        assert column is not None
        bits = counter_bits(info, column)
        if number >> bits:
            raise ErrAutoincReadFailed()
        return scattered(number, info.auto_random_bits, bits)

    def _explicit(self, value: int) -> int:
        """The counter's part of an id that a statement names. Raises 8216."""
        column = self._target.random
        assert column is not None
        if self._context.variable("allow_auto_random_explicit_insert") != "ON":
            said = "Explicit insertion on auto_random column is disabled. "
            said += "Try to set @@allow_auto_random_explicit_insert = true."
            raise ErrInvalidAutoRandom(said)
        return value & (1 << counter_bits(self._table.info, column)) - 1 if value > 0 else value

    def _in_range(self, value: int, position: int) -> int:
        """A given id, held to its column with IGNORE. Raises 1690 beyond, 1467 where not strict."""
        kind = self._table.info.cols[position].type
        bits = INTEGER_BITS.get(TypeCode(kind.Tp))
        most = (1 << (bits if kind.unsigned else bits - 1)) - 1 if bits else value
        if value <= most:
            return value
        failed = ErrAutoincReadFailed()
        beyond = ErrDataOutOfRange.with_text(f"constant {value} overflows {INTEGERS[bits or 64]}")
        if not self._context.ignores:
            raise beyond if self._context.strict else failed
        self._context.note(beyond.code, beyond.message)
        self._context.note(failed.code, failed.message)
        return most

    def _next_id(self) -> int:
        if self._reserved:
            self._reserved += self._spacing.increment
            return self._reserved - self._spacing.increment
        return self._ids.next(spacing=self._spacing)

    def _settle(
        self,
        taken: Duplicate,
        row: Row,
        handle: bytes | None,
        number: int,
        read: Row | tuple[()],
    ) -> None:
        if self._policy == "ignore":
            self._duplicates += 1
            self._writer.keep(taken.handle)
            self._context.note(taken.code, taken.message)
        elif self._policy == "replace":
            self._replace(taken, row, handle)
        else:
            self._update(taken, row, number, read)

    def _replace(self, taken: Duplicate, row: Row, handle: bytes | None) -> None:
        """The row goes where the other was; one that is the same already stays."""
        for _ in range(MOST_REPLACED + 1):
            old = self._holder(taken)
            if old == row:
                self._writer.keep(taken.handle)
                self._affected += 1
                return
            self._writer.delete(taken.handle, old)
            self._affected += 1
            self._duplicates += 1
            try:
                self._writer.insert(row, handle)
                self._affected += 1
                return
            except Duplicate as another:
                taken = another
        raise Broken(f"a row of {self._table.info.name.O} is taken by more rows than it has keys")

    def _update(self, taken: Duplicate, row: Row, number: int, read: Row | tuple[()]) -> None:
        if self._changes is None:
            raise taken
        old = self._holder(taken)
        new = self._changes.apply(old, [*row, *read], self._context, number)
        if new != old:
            self._writer.update(taken.handle, old, new)
            self._affected += 2
            self._duplicates += 1
            if self._target.auto >= 0:
                self._written_id = int(new[self._target.auto])
            return
        self._writer.keep(taken.handle)
        if self._context.session.client_found_rows:
            self._affected += 1
            self._duplicates += 1

    def _holder(self, taken: Duplicate) -> Row:
        found = self._writer.read(taken.handle)
        if found is None:
            raise Broken(f"an entry of {self._table.info.name.O} has no row")
        return found

    def result(self, several: bool) -> Result:
        """Counts, and the first id given, once the rows' foreign keys are settled."""
        self._writer.finish()
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


def _spacing(context: Context) -> Spacing:
    increment, offset = (
        int(context.variable(f"auto_increment_{each}")) for each in ("increment", "offset")
    )
    return EVERY if increment == 1 else Spacing(increment, offset)
