"""The privileges there are, and where each may be granted (manual, "Privileges Provided").

ON *.*     all of them        mysql.user       a column for each
ON db.*    DATABASE           mysql.db         a column for each
ON db.t    TABLE              mysql.tables_priv   one SET of their words
of columns COLUMN             mysql.columns_priv  one SET a column
dynamic    DYNAMIC, ON *.*    mysql.global_grants a row each
"""

from typing import Final

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
"""What SQL calls a privilege -> its column without `_priv`; GRANT OPTION is apart."""

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
DYNAMIC: Final = frozenset(
    (
        *("BACKUP_ADMIN", "RESTORE_ADMIN", "SYSTEM_USER", "SYSTEM_VARIABLES_ADMIN", "ROLE_ADMIN"),
        *("CONNECTION_ADMIN", "PLACEMENT_ADMIN", "DASHBOARD_CLIENT", "RESTRICTED_TABLES_ADMIN"),
        *("RESTRICTED_STATUS_ADMIN", "RESTRICTED_VARIABLES_ADMIN", "RESTRICTED_USER_ADMIN"),
        *("RESTRICTED_CONNECTION_ADMIN", "RESTRICTED_REPLICA_WRITER_ADMIN"),
        *("RESOURCE_GROUP_ADMIN", "RESOURCE_GROUP_USER"),
    )
)
"""TiDB's. Those that are asked for: ROLE_ADMIN, CONNECTION_ADMIN, SYSTEM_VARIABLES_ADMIN; SUPER
stands for each of them."""

EVERYTHING: Final = frozenset((*GLOBAL, GRANT))


def column_of(privilege: str) -> str:
    """Its column in mysql.user and mysql.db."""
    return ("Grant" if privilege == GRANT else COLUMNS[privilege]) + "_priv"


def word_of(privilege: str) -> str:
    """Its word in mysql.tables_priv."""
    return "Grant" if privilege == GRANT else privilege.title()
