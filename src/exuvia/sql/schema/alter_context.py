"""What the builder of one ALTER TABLE spec sees, and what it gives.

    Build = (AlterContext, Spec) -> Job | None        None: nothing to do, and a note says why

A builder looks and refuses early; it changes nothing. `altering.table` is the table as it will be
once the specs before this one are done, so that ADD COLUMN c, ADD INDEX (c) finds its column.
"""

from collections.abc import Callable
from datetime import tzinfo
from typing import Any

from exuvia.base.errors import Refused
from exuvia.catalog.model import ColumnInfo, DatabaseInfo, IndexInfo, TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.ddl.job import Job
from exuvia.sql.result import Note
from exuvia.sql.schema.change import SchemaReader
from exuvia.sql.schema.modes import Modes, modes_of


class AlterContext:
    """One ALTER TABLE while its jobs are built, in the snapshot of `reader`."""

    def __init__(
        self,
        reader: SchemaReader,
        database: DatabaseInfo,
        table: TableInfo,
        text: str,
    ) -> None:
        self.reader = reader
        self.txn = reader.txn
        self.database = database
        self.table = table
        self.text = text
        self.notes: list[Note] = []
        self.next_auto = 1  # what an AUTO_INCREMENT = n before this spec asked for

    @property
    def zone(self) -> tzinfo | None:
        """The session's zone: that of a written TIMESTAMP."""
        return self.reader.zone

    def skip(self, error: Refused) -> Job | None:
        """IF [NOT] EXISTS: the error is a note and there is nothing to do."""
        self.notes.append(Note("Note", error.code, error.message))
        return None

    def warn(self, code: int, said: str) -> None:
        """A warning of the statement."""
        self.notes.append(Note("Warning", code, said))

    @property
    def modes(self) -> Modes:
        """What of the sql_mode counts for columns."""
        return modes_of(self.reader.variable, self.warn)

    def column(self, name: str) -> ColumnInfo | None:
        """A column that clients see."""
        wanted = name.lower()
        return next((each for each in self.table.public_columns if each.name.L == wanted), None)

    def index(self, name: str) -> IndexInfo | None:
        """An index that clients see."""
        found = self.table.index(name)
        return found if found is not None and found.state == SchemaState.PUBLIC else None


Build = Callable[[AlterContext, Any], Job | None]
