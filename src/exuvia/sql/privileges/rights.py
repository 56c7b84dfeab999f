"""The privileges of one account: its own and those of its active roles, combined.

everywhere   a set                          *.*
databases    patterns -> sets               db.*
tables       (database, table) -> set       db.t
columns      (database, table) -> column -> set

`demand_...` raises the error for a missing privilege: 1142 on a table, 1143 on a column, 1044 on a
database, 1227 on the server.

The privileges, and where each may be granted (manual, "Privileges Provided"):

ON *.*     all of them        mysql.user       a column for each
ON db.*    DATABASE           mysql.db         a column for each
ON db.t    TABLE              mysql.tables_priv   one SET of their words
of columns COLUMN             mysql.columns_priv  one SET a column
dynamic    DYNAMIC, ON *.*    mysql.global_grants a row each
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrColumnaccessDenied,
    ErrDBaccessDenied,
    ErrSpecificAccessDenied,
    ErrTableaccessDenied,
)
from exuvia.sql.matching import name_matcher

COLUMNS: Final = {
    "SELECT": "Select",
    "INSERT": "Insert",
    "UPDATE": "Update",
    "DELETE": "Delete",
    "CREATE": "Create",
    "DROP": "Drop",
    "PROCESS": "Process",
    "REFERENCES": "References",
    "ALTER": "Alter",
    "SHOW DATABASES": "Show_db",
    "SUPER": "Super",
    "EXECUTE": "Execute",
    "INDEX": "Index",
    "CREATE USER": "Create_user",
    "CREATE TEMPORARY TABLES": "Create_tmp_table",
    "LOCK TABLES": "Lock_tables",
    "CREATE VIEW": "Create_view",
    "SHOW VIEW": "Show_view",
    "CREATE ROUTINE": "Create_routine",
    "ALTER ROUTINE": "Alter_routine",
    "EVENT": "Event",
    "TRIGGER": "Trigger",
    "CREATE ROLE": "Create_role",
    "DROP ROLE": "Drop_role",
    "RELOAD": "Reload",
    "SHUTDOWN": "Shutdown",
    "FILE": "File",
    "REPLICATION SLAVE": "Repl_slave",
    "REPLICATION CLIENT": "Repl_client",
}
"""SQL's name of a privilege -> its column without `_priv`. GRANT OPTION is separate."""

GRANT: Final = "GRANT OPTION"
USAGE: Final = "USAGE"
TABLE: Final = (
    *("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "REFERENCES", "ALTER", "INDEX"),
    *("CREATE VIEW", "SHOW VIEW", "TRIGGER"),
)
DATABASE: Final = (
    *TABLE,
    *("EXECUTE", "CREATE TEMPORARY TABLES", "LOCK TABLES", "CREATE ROUTINE", "ALTER ROUTINE"),
    "EVENT",
)
GLOBAL: Final = tuple(COLUMNS)
COLUMN: Final = ("SELECT", "INSERT", "UPDATE", "REFERENCES")
LOCKING: Final = frozenset(("UPDATE", "DELETE", "LOCK TABLES"))
DYNAMIC: Final = frozenset(
    (
        *("BACKUP_ADMIN", "RESTORE_ADMIN", "SYSTEM_USER", "SYSTEM_VARIABLES_ADMIN", "ROLE_ADMIN"),
        *("CONNECTION_ADMIN", "PLACEMENT_ADMIN", "DASHBOARD_CLIENT", "RESTRICTED_TABLES_ADMIN"),
        *("RESTRICTED_STATUS_ADMIN", "RESTRICTED_VARIABLES_ADMIN", "RESTRICTED_USER_ADMIN"),
        *("RESTRICTED_CONNECTION_ADMIN", "RESTRICTED_REPLICA_WRITER_ADMIN"),
        *("RESOURCE_GROUP_ADMIN", "RESOURCE_GROUP_USER", "SET_USER_ID"),
    )
)
"""TiDB's dynamic privileges, and MySQL's SET_USER_ID.

These are checked: ROLE_ADMIN, CONNECTION_ADMIN, SYSTEM_VARIABLES_ADMIN, SET_USER_ID. SUPER includes
each of them."""

EVERYTHING: Final = frozenset((*GLOBAL, GRANT))


def column_of(privilege: str) -> str:
    """The privilege's column in mysql.user and mysql.db."""
    return ("Grant" if privilege == GRANT else COLUMNS[privilege]) + "_priv"


def word_of(privilege: str) -> str:
    """The privilege's word in mysql.tables_priv."""
    return "Grant" if privilege == GRANT else privilege.title()


# -- rights ----------------------------------------------------------------------------------------


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


EVERYBODY_READS = frozenset({"information_schema", "performance_schema"})
_NONE: dict[str, frozenset[str]] = {}


class Rights:
    """The combined privileges. `everything`: all checks succeed. `account`: user and host."""

    def __init__(
        self,
        everywhere: frozenset[str],
        databases: Iterable[OnDatabase] = (),
        tables: Iterable[OnTable] = (),
        columns: Iterable[OnColumn] = (),
        account: tuple[str, str] = ("", "%"),
    ) -> None:
        self.account = account
        self.everywhere = everywhere
        self.everything = everywhere >= EVERYTHING
        self._databases = [(name_matcher(row.database), row.privileges) for row in databases]
        self._tables: dict[tuple[str, str], frozenset[str]] = {}
        for row in tables:
            place = row.database.lower(), row.table.lower()
            self._tables[place] = self._tables.get(place, frozenset()) | row.privileges
        self._columns: dict[tuple[str, str], dict[str, frozenset[str]]] = {}
        for one in columns:
            mine = self._columns.setdefault((one.database.lower(), one.table.lower()), {})
            name = one.column.lower()
            mine[name] = mine.get(name, frozenset()) | one.privileges

    @property
    def by_columns(self) -> bool:
        """Whether it has privileges for single columns, so that its plans cannot be shared."""
        return bool(self._columns)

    def on_database(self, database: str) -> frozenset[str]:
        """Privileges for all of a database."""
        combined = self.everywhere
        for matches, privileges in self._databases:
            if matches(database):
                combined |= privileges
        return combined

    def on_table(self, database: str, table: str) -> frozenset[str]:
        """Privileges for all of a table."""
        mine = self._tables.get((database.lower(), table.lower()), frozenset())
        return self.on_database(database) | mine

    def on_columns(self, database: str, table: str, privilege: str) -> set[str]:
        """Columns (lower-case names) with the privilege, in addition to the table's privileges."""
        mine = self._columns.get((database.lower(), table.lower()), _NONE)
        return {name for name, privileges in mine.items() if privilege in privileges}

    def sees_database(self, database: str) -> bool:
        """Whether the account may see that the database exists."""
        if self.on_database(database) - {GRANT}:
            return True
        lower = database.lower()
        return any(place[0] == lower for place in (*self._tables, *self._columns))

    def sees_table(self, database: str, table: str) -> bool:
        """Whether the account may see that the table exists."""
        if (database.lower(), table.lower()) in self._columns:
            return True
        return self.whole_table(database, table)

    def whole_table(self, database: str, table: str) -> bool:
        """Whether the account has a privilege for the whole table."""
        return self.everything or bool(self.on_table(database, table) - {GRANT})

    def lists_database(self, database: str) -> bool:
        """Whether lists of databases contain it."""
        if self.everything or database.lower() in EVERYBODY_READS:
            return True
        return "SHOW DATABASES" in self.everywhere or self.sees_database(database)

    def database_refusal(self, database: str) -> Refused | None:
        """The error 1044 if the account has no privilege in the database, or None."""
        if self.everything or database.lower() in EVERYBODY_READS or self.sees_database(database):
            return None
        return ErrDBaccessDenied(*self.account, database)

    def demand_table(self, privileges: Iterable[str], database: str, table: str) -> None:
        """Raises 1142 for the first missing privilege."""
        if self.everything:
            return
        on_table = self.on_table(database, table)
        for privilege in privileges:
            if privilege not in on_table:
                raise ErrTableaccessDenied(privilege, *self.account, table)

    def demand_columns(
        self, privilege: str, place: tuple[str, str], columns: Iterable[str]
    ) -> None:
        """Raises 1142 without the privilege for any column, 1143 for the first column without
        it."""
        if self.everything or privilege in self.on_table(*place):
            return
        allowed = self.on_columns(*place, privilege)
        if not allowed:
            raise ErrTableaccessDenied(privilege, *self.account, place[1])
        for column in columns:
            if column.lower() not in allowed:
                raise ErrColumnaccessDenied(privilege, *self.account, column, place[1])

    def demand_locking(self, database: str, table: str) -> None:
        """Raises 1142 if the account may not lock the table's rows (FOR UPDATE, FOR SHARE).

        As in MySQL 8, this requires UPDATE (of a column at least), DELETE or LOCK TABLES, in
        addition to SELECT."""
        if LOCKING.isdisjoint(self.on_table(database, table)) and not (
            self.on_columns(database, table, "UPDATE")
        ):
            raise ErrTableaccessDenied("SELECT with locking clause", *self.account, table)

    def reads(self, database: str, table: str, columns: Iterable[str]) -> bool:
        """Whether the account may SELECT all of these columns."""
        if self.everything or "SELECT" in self.on_table(database, table):
            return True
        return self.on_columns(database, table, "SELECT").issuperset(map(str.lower, columns))

    def of_column(self, database: str, table: str, column: str) -> list[str]:
        """The privileges for a column, in the order of COLUMN.

        Without any, the account may not see the column, as in MySQL 8."""
        mine = self._columns.get((database.lower(), table.lower()), _NONE)
        privileges = self.on_table(database, table) | mine.get(column.lower(), frozenset())
        return [privilege for privilege in COLUMN if privilege in privileges]

    def demand_database(self, privilege: str, database: str) -> None:
        """Raises 1044 without the privilege."""
        if privilege not in self.on_database(database):
            raise ErrDBaccessDenied(*self.account, database)

    def demand_everywhere(self, *privileges: str) -> None:
        """Raises 1227 if the account has none of the privileges everywhere."""
        if not self.everywhere & set(privileges):
            raise ErrSpecificAccessDenied(" or ".join(privileges))


ALL = Rights(EVERYTHING)
