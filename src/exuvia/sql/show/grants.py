"""SHOW GRANTS, SHOW CREATE USER, SHOW PRIVILEGES, with TiDB's texts."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from exuvia.base.mysql_errors import (
    ErrCannotUser,
    ErrNonexistingGrant,
    ErrRoleNotGranted,
    ErrTableaccessDenied,
)
from exuvia.catalog.account_attributes import UNBOUNDED
from exuvia.sql.nodes import ShowGrants
from exuvia.sql.privileges.accounts import Account, Book, Name, OnDatabase, OnTable, read, role_text
from exuvia.sql.privileges.rights import (
    COLUMN,
    COLUMNS,
    DATABASE,
    DYNAMIC,
    GLOBAL,
    GRANT,
    TABLE,
    USAGE,
)
from exuvia.sql.result import Result, Row
from exuvia.sql.show.listing import columns_of
from exuvia.sql.statement.context import Context
from exuvia.sql.type_text import identifier, quoted

_WIDE = ":1024"
Place = TypeVar("Place")


def show_grants(context: Context, node: ShowGrants) -> Result:
    """The result of SHOW GRANTS [FOR account [USING roles]] and SHOW CREATE USER account.

    An account's own privileges are shown with its active roles. Raises 1141, 1142, 3530."""
    session = context.session
    name = session.account_name if node.who is None else (node.who[0], node.who[1].lower())
    if name != session.account_name and "SELECT" not in session.rights.on_database("mysql"):
        raise ErrTableaccessDenied("SELECT", *session.account_name, "user")
    book = read(context.txn)
    account = book.account(*name)
    title = f"{name[0]}@{name[1]}"
    if account is None:
        raise (
            ErrCannotUser("SHOW CREATE USER", title) if node.create else ErrNonexistingGrant(*name)
        )
    if node.create:
        return _titled(f"CREATE USER for {title}", [[_create_text(account)]])
    roles = [(who[0], who[1].lower()) for who in node.roles if who is not None]
    granted = book.roles.granted(name)
    for role in roles:
        if role not in granted:
            raise ErrRoleNotGranted(role_text(role), f"{name[0]}@{name[1]}")
    if not roles and name == session.account_name:
        roles = list(session.active_roles)
    active = book.roles.reachable(name, roles)
    return _titled(f"Grants for {title}", [[line] for line in _lines(book, account, active)])


def _titled(title: str, rows: list[Row]) -> Result:
    column = columns_of("x" + _WIDE)[0]
    return Result([column._replace(name=title)], rows)


def _create_text(account: Account) -> str:
    more = account.attributes
    days = more.lifetime_days
    expire = "DEFAULT" if days is None else f"INTERVAL {days} DAY" if days else "NEVER"
    words = [
        f"CREATE USER {account.title} IDENTIFIED WITH {quoted(account.plugin)}",
        f"AS {quoted(account.stored)} REQUIRE {more.require or 'NONE'}",
        "PASSWORD EXPIRE" if more.expired else f"PASSWORD EXPIRE {expire}",
        f"ACCOUNT {'LOCK' if account.is_locked else 'UNLOCK'}",
        f"PASSWORD HISTORY {'DEFAULT' if more.history is None else more.history}",
        "PASSWORD REUSE INTERVAL",
        "DEFAULT" if more.reuse_days is None else f"{more.reuse_days} DAY",
    ]
    if more.failed_attempts:
        words.append(f"FAILED_LOGIN_ATTEMPTS {more.failed_attempts}")
    if more.lock_days:
        lock = "UNBOUNDED" if more.lock_days == UNBOUNDED else more.lock_days
        words.append(f"PASSWORD_LOCK_TIME {lock}")
    if more.resource_group:
        words.append(f"RESOURCE GROUP {identifier(more.resource_group)}")
    return " ".join(words)


def _lines(book: Book, account: Account, roles: set[Name]) -> Iterator[str]:
    """The lines in TiDB's order: server, databases, tables, columns, roles, dynamic privileges."""
    names, to = {account[:2], *roles}, account.title
    everywhere = [grantee for grantee in book.accounts if grantee[:2] in names]
    static = frozenset().union(*(grantee.privileges for grantee in everywhere))
    yield _line(static, GLOBAL, "*.*", to)
    for database, privileges in _added((e.database, e) for e in book.databases if e[:2] in names):
        yield _line(privileges, DATABASE, f"{identifier(database)}.*", to)
    tables = (((e.database, e.table), e) for e in book.tables if e[:2] in names)
    for place, privileges in _added(tables):
        yield _line(privileges, TABLE, ".".join(map(identifier, place)), to)
    by_table: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in book.columns:
        if row[:2] in names:
            words = by_table.setdefault((row.database, row.table), {})
            for privilege in row.privileges:
                words.setdefault(privilege, []).append(row.column)
    for place, words in sorted(by_table.items()):
        texts = [f"{word}({', '.join(sorted(words[word]))})" for word in COLUMN if word in words]
        yield f"GRANT {', '.join(texts)} ON {'.'.join(map(identifier, place))} TO {to}"
    granted = [f"'{user}'@'{host}'" for user, host in book.roles.granted(account[:2])]
    if granted:
        yield f"GRANT {', '.join(granted)} TO {to}"
    dynamic = frozenset().union(*(grantee.dynamic for grantee in everywhere))
    grantable = frozenset().union(*(grantee.grantable for grantee in everywhere))
    for rights, option in ((dynamic - grantable, ""), (grantable, " WITH GRANT OPTION")):
        if rights:
            yield f"GRANT {','.join(sorted(rights))} ON *.* TO {to}{option}"


PlacePrivileges = list[tuple[Place, frozenset[str]]]


def _added(rows: Iterable[tuple[Place, OnDatabase | OnTable]]) -> PlacePrivileges[Place]:
    """The privileges of each place, combined over all rows."""
    by_place: dict[Place, frozenset[str]] = {}
    for place, row in rows:
        by_place[place] = by_place.get(place, frozenset()) | row.privileges
    return list(by_place.items())


def _line(privileges: frozenset[str], all_of_them: Iterable[str], place: str, to: str) -> str:
    order = [privilege for privilege in COLUMNS if privilege in privileges]
    words = ",".join(order) or USAGE
    if privileges >= set(all_of_them):
        words = "ALL PRIVILEGES"
    option = " WITH GRANT OPTION" if GRANT in privileges else ""
    return f"GRANT {words} ON {place} TO {to}{option}"


# -- information_schema ----------------------------------------------------------------------------


_TABLES, _DATABASES, _SERVER = "Tables", "Databases", "Server Admin"
# -- privileges, their contexts and purposes (manual, "SHOW PRIVILEGES") ---------------------------


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
    yield from map(list, _LISTED)
    for privilege in sorted(DYNAMIC):
        yield [privilege, _SERVER, ""]
