"""What one account may do: its own privileges and those of its active roles, added up.

everywhere   a set                          *.*
databases    patterns -> sets               db.*
tables       (database, table) -> set       db.t
columns      (database, table) -> column -> set
"""

from collections.abc import Iterable
from typing import NamedTuple

from exuvia.sql.matching import name_matcher
from exuvia.sql.privileges.names import EVERYTHING, GRANT


class OnDatabase(NamedTuple):
    """A row of mysql.db. `database` may have % and _."""

    user: str
    host: str
    database: str
    privileges: frozenset[str]


class OnTable(NamedTuple):
    """A row of mysql.tables_priv."""

    user: str
    host: str
    database: str
    table: str
    privileges: frozenset[str]


class OnColumn(NamedTuple):
    """A row of mysql.columns_priv."""

    user: str
    host: str
    database: str
    table: str
    column: str
    privileges: frozenset[str]


_NONE: dict[str, frozenset[str]] = {}


class Rights:
    """See the module. `everything`: no question needs an answer."""

    def __init__(
        self,
        everywhere: frozenset[str],
        databases: Iterable[OnDatabase] = (),
        tables: Iterable[OnTable] = (),
        columns: Iterable[OnColumn] = (),
    ) -> None:
        self.everywhere = everywhere
        self.everything = everywhere >= EVERYTHING
        self._databases = [(name_matcher(each.database), each.privileges) for each in databases]
        self._tables: dict[tuple[str, str], frozenset[str]] = {}
        for each in tables:
            place = each.database.lower(), each.table.lower()
            self._tables[place] = self._tables.get(place, frozenset()) | each.privileges
        self._columns: dict[tuple[str, str], dict[str, frozenset[str]]] = {}
        for one in columns:
            mine = self._columns.setdefault((one.database.lower(), one.table.lower()), {})
            name = one.column.lower()
            mine[name] = mine.get(name, frozenset()) | one.privileges

    @property
    def by_columns(self) -> bool:
        """Whether it holds privileges for single columns: its plans are its own."""
        return bool(self._columns)

    def on_database(self, database: str) -> frozenset[str]:
        """Privileges for all of a database."""
        found = self.everywhere
        for matches, privileges in self._databases:
            if matches(database):
                found |= privileges
        return found

    def on_table(self, database: str, table: str) -> frozenset[str]:
        """Privileges for a table."""
        mine = self._tables.get((database.lower(), table.lower()), frozenset())
        return self.on_database(database) | mine

    def on_columns(self, database: str, table: str, privilege: str) -> set[str]:
        """Columns (lower-case names) it holds the privilege for, beside what the table gives."""
        mine = self._columns.get((database.lower(), table.lower()), _NONE)
        return {name for name, held in mine.items() if privilege in held}

    def sees_database(self, database: str) -> bool:
        """Whether it may know that the database is there."""
        if self.on_database(database) - {GRANT}:
            return True
        wanted = database.lower()
        return any(place[0] == wanted for place in (*self._tables, *self._columns))

    def sees_table(self, database: str, table: str) -> bool:
        """Whether it may know that the table is there."""
        if (database.lower(), table.lower()) in self._columns:
            return True
        return bool(self.on_table(database, table) - {GRANT})


ALL = Rights(EVERYTHING)
