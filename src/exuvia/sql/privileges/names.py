"""The privileges there are, and where each may be granted (manual, "Privileges Provided").

ON *.*     all of them        mysql.user       a column for each
ON db.*    DATABASE           mysql.db         a column for each
ON db.t    TABLE              mysql.tables_priv   one SET of their words
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
EVERYTHING: Final = frozenset((*GLOBAL, GRANT))


def column_of(privilege: str) -> str:
    """Its column in mysql.user and mysql.db."""
    return ("Grant" if privilege == GRANT else COLUMNS[privilege]) + "_priv"


def word_of(privilege: str) -> str:
    """Its word in mysql.tables_priv."""
    return "Grant" if privilege == GRANT else privilege.title()
