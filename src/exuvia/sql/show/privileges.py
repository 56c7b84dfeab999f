"""SHOW PRIVILEGES: what may be granted, where, and what for (manual, "SHOW PRIVILEGES")."""

from collections.abc import Iterator

from exuvia.sql.privileges.names import DYNAMIC
from exuvia.sql.result import Row

_TABLES, _DATABASES, _SERVER = "Tables", "Databases", "Server Admin"
_LISTED = (
    ("Alter", _TABLES, "To alter the table"),
    ("Alter routine", "Functions,Procedures", "To alter or drop stored functions/procedures"),
    ("Create", "Databases,Tables,Indexes", "To create new databases and tables"),
    ("Create routine", _DATABASES, "To use CREATE FUNCTION/PROCEDURE"),
    ("Create role", _SERVER, "To create new roles"),
    ("Create temporary tables", _DATABASES, "To use CREATE TEMPORARY TABLE"),
    ("Create view", _TABLES, "To create new views"),
    ("Create user", _SERVER, "To create new users"),
    ("Delete", _TABLES, "To delete existing rows"),
    ("Drop", "Databases,Tables", "To drop databases, tables, and views"),
    ("Drop role", _SERVER, "To drop roles"),
    ("Event", _SERVER, "To create, alter, drop and execute events"),
    ("Execute", "Functions,Procedures", "To execute stored routines"),
    ("File", "File access on server", "To read and write files on the server"),
    ("Grant option", "Databases,Tables", "To give to other users those privileges you possess"),
    ("Index", _TABLES, "To create or drop indexes"),
    ("Insert", _TABLES, "To insert data into tables"),
    ("Lock tables", _DATABASES, "To use LOCK TABLES (together with SELECT privilege)"),
    ("Process", _SERVER, "To view the plain text of currently executing queries"),
    ("References", "Databases,Tables", "To have references on tables"),
    ("Reload", _SERVER, "To reload or refresh tables, logs and privileges"),
    ("Replication client", _SERVER, "To ask where the slave or master servers are"),
    ("Replication slave", _SERVER, "To read binary log events from the master"),
    ("Select", _TABLES, "To retrieve rows from table"),
    ("Show databases", _SERVER, "To see all databases with SHOW DATABASES"),
    ("Show view", _TABLES, "To see views with SHOW CREATE VIEW"),
    ("Shutdown", _SERVER, "To shut down the server"),
    ("Super", _SERVER, "To use KILL thread, SET GLOBAL, CHANGE MASTER, etc."),
    ("Trigger", _TABLES, "To use triggers"),
    ("Update", _TABLES, "To update existing rows"),
    ("Usage", _SERVER, "No privileges - allow connect only"),
)


def privilege_rows() -> Iterator[Row]:
    """Privilege, context, comment."""
    yield from map(list, _LISTED)
    for each in sorted(DYNAMIC):
        yield [each, _SERVER, ""]
