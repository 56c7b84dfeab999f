"""Generated columns of a row that is about to be written, STORED and VIRTUAL alike.

First of the stations (write/rows.py): what follows (CHECK, partitions, foreign keys, keys of
indexes) sees them computed. Nothing here for a table without generated columns.
"""

from exuvia.base.errors import Refused
from exuvia.catalog.table import Table
from exuvia.sql.cells import NARROWED
from exuvia.sql.evaluate.env import PlainEnv
from exuvia.sql.generated import GeneratedColumn, generated_columns
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context

_KEPT = "generated"


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


def computed(table: Table, context: Context) -> Computed | None:
    """The station of a table; None where it has no generated columns."""
    kept: tuple[GeneratedColumn, ...] | None = table.kept.get(_KEPT)
    if kept is None:
        kept = table.kept[_KEPT] = generated_columns(table.info)
    return Computed(kept, context) if kept else None
