"""The last station before a row is written: every INSERT, UPDATE and DELETE passes here.

    insert(row)              what must hold of a new row        -> catalog/writer.py
    update(handle, old, new) what must hold of its new values   -> catalog/writer.py
    delete(handle, row)      what must hold without it          -> catalog/writer.py
    finish()                 the statement's rows are written: foreign keys are settled

    stations    generated columns (sql/generated.py), checks (write/checks.py),
                the row's partition (write/partitioned.py), foreign keys (write/foreign_keys.py)

Rows are counted for statistics; the transaction is told once a statement, at `finish`.

One object a statement and table; it takes the metadata lock.

Generated columns come first, STORED and VIRTUAL alike: what follows (CHECK, partitions, foreign
keys, keys of indexes) sees them computed.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.interruption import check
from exuvia.base.mysql_errors import (
    ErrCheckConstraintViolated,
    ErrDupEntry,
    ErrNoPartitionForGivenValue,
    ErrNoReferencedRow2,
    ErrRowDoesNotMatchGivenPartitionSet,
    ErrRowIsReferenced2,
)
from exuvia.catalog import reader, writer
from exuvia.catalog.model import ReferOption
from exuvia.catalog.table import Table
from exuvia.sql.cells import NARROWED
from exuvia.sql.env import PlainEnv
from exuvia.sql.generated import GeneratedColumn, generated_columns
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context
from exuvia.sql.write.checks import RowChecks, row_checks
from exuvia.sql.write.foreign_keys import Downward, cascade, foreign_key_checker
from exuvia.sql.write.partitioned import fits_of, partitions_of

_KEPT = "stations"


class Computed:
    """One statement's writes to a table with generated columns."""

    def __init__(self, columns: tuple[GeneratedColumn, ...], context: Context) -> None:
        self._columns = columns
        self._context = context
        self._env = PlainEnv(strict=context.strict)
        self._env.warnings = context.warnings

    def fill(self, row: Row) -> None:
        """Compute into the row. Raises what a strict write refuses; else a warning."""
        for column in self._columns:
            row[column.position] = self._value(column, row)

    def _value(self, column: GeneratedColumn, row: Row) -> object:
        try:
            return column.value(row, self._env)
        except Refused as error:
            if self._context.strict or error.code not in NARROWED:
                raise
            self._context.note(error.code, error.message)
            return column.nearest(row, self._env)


class Stations(NamedTuple):
    """What rows of a table pass, as its definition has it; found once a revision. `auto`: where the
    AUTO_INCREMENT column stands, -1 for none."""

    generated: tuple[GeneratedColumn, ...]
    checks: RowChecks | None
    fits: Callable[[Row], None] | None
    auto: int

    @staticmethod
    def of(table: Table) -> "Stations":
        """Those of the table."""
        kept: Stations | None = table.kept.get(_KEPT)
        if kept is None:
            auto = next((n for n, c in enumerate(table.info.cols) if c.auto_increment), -1)
            generated = generated_columns(table.info)
            kept = Stations(generated, row_checks(table), fits_of(table), auto)
            table.kept[_KEPT] = kept
        return kept


# -- rows ------------------------------------------------------------------------------------------

# with IGNORE a warning, and the row is left as it is
SKIPPED = frozenset(
    {
        ErrDupEntry.code,
        ErrRowIsReferenced2.code,
        ErrNoReferencedRow2.code,
        ErrNoPartitionForGivenValue.code,
        ErrRowDoesNotMatchGivenPartitionSet.code,
        ErrCheckConstraintViolated.code,
    }
)

Values = tuple[Any, ...]


class RowWriter:
    """See the module. `named`: PARTITION (p, q); `depth`: how far it follows others' rows."""

    def __init__(
        self, table: Table, context: Context, named: Sequence[str] = (), depth: int = 0
    ) -> None:
        self._table = table
        self._parts = partitions_of(table, context, named)
        self._context = context
        generated, self._checks, self._fits, self._auto = Stations.of(table)
        self._computed = Computed(generated, context) if generated else None
        checker = foreign_key_checker(table, context, depth)
        is_early = checker is not None and checker.at_once
        self._early = checker if is_early else None
        self._late = None if is_early else checker
        self._rows = self._modified = 0
        context.writing(table)

    def insert(self, row: Row, handle: bytes | None = None) -> None:
        """Put a new row; `handle` where rows have hidden ids. Raises Duplicate, nothing written."""
        check()
        if self._computed is not None:
            self._computed.fill(row)
        if self._checks is not None:
            self._checks.judge(row)
        if self._fits is not None:
            self._fits(row)
        if self._parts is not None:
            self._parts.insert(row, handle)
            return
        if self._early is not None:
            self._early.inserted(row)
        writer.insert(self._context.txn, self._table, row, handle)
        self._rows += 1
        self._modified += 1
        if self._late is not None:
            self._late.inserted(row)

    def update(self, handle: bytes, old: Row, new: Row) -> None:
        """Replace a row as it was read. Raises Duplicate, nothing written."""
        check()
        if self._computed is not None:
            self._computed.fill(new)
        if self._checks is not None:
            self._checks.judge(new)
        if self._fits is not None:
            self._fits(new)
        if self._parts is not None:
            self._parts.update(handle, old, new)
            self._count_on(old, new)
            return
        if self._early is not None:
            self._early.updated(old, new)
        writer.update(self._context.txn, self._table, handle, old, new)
        self._count_on(old, new)
        self._modified += 1
        if self._late is not None:
            self._late.updated(old, new)

    def _count_on(self, old: Row, new: Row) -> None:
        """A greater number in the AUTO_INCREMENT column moves its counter, as in an INSERT."""
        at = self._auto
        if at >= 0 and new[at] is not None and new[at] != old[at] and new[at] > 0:
            self._context.session.services.ids.of(self._table.info).rebase(int(new[at]))

    def delete(self, handle: bytes, row: Row) -> None:
        """Remove a row as it was read."""
        check()
        if self._parts is not None:
            self._parts.delete(handle, row)
            return
        if self._early is not None:
            self._early.deleted(row)
        writer.delete(self._context.txn, self._table, handle, row)
        self._rows -= 1
        self._modified += 1
        if self._late is not None:
            self._late.deleted(row)

    def finish(self) -> None:
        """Raises 1451, 1452, 3008."""
        checker = self._early or self._late
        if checker is not None:
            checker.settle(self._spread)
        if self._parts is not None:
            self._parts.tell_counts()
        elif self._modified:
            self._context.counted(self._table.physical_id, self._rows, self._modified)
            self._rows = self._modified = 0

    def _spread(
        self,
        down: Downward,
        handles: list[bytes],
        now: Values | None,
        rule: ReferOption,
        depth: int,
    ) -> None:
        """Children go or change with their parent."""
        children = RowWriter(down.children.table, self._context, depth=depth)
        cascade(children, handles, down, now, rule)

    def keep(self, handle: bytes) -> None:
        """Lock a row that is met and left as it is, where rows are locked."""
        check()
        if self._context.locks is not None:
            self._context.txn.lock(self._table.row_key(handle))

    def read(self, handle: bytes) -> Row | None:
        """The row as the transaction sees it now."""
        if self._parts is not None:
            return self._parts.read(handle)
        return reader.get(self._context.txn, self._table, handle)
