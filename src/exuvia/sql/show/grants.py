"""SHOW GRANTS, SHOW CREATE USER, and the privileges in information_schema, in TiDB's words."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from exuvia.base.mysql_errors import (
    ErrCannotUser,
    ErrNonexistingGrant,
    ErrRoleNotGranted,
    ErrTableaccessDenied,
)
from exuvia.sql.nodes.accounts import ShowGrants
from exuvia.sql.privileges.accounts import Account, Book, OnDatabase, OnTable, read
from exuvia.sql.privileges.names import COLUMN, COLUMNS, DATABASE, GLOBAL, GRANT, TABLE, USAGE
from exuvia.sql.privileges.roles import Name, shown
from exuvia.sql.result import Result, Row
from exuvia.sql.show.listing import columns_of
from exuvia.sql.show.type_text import identifier, quoted
from exuvia.sql.statement.context import Context

_WIDE = ":1024"
Place = TypeVar("Place")


def show_grants(context: Context, node: ShowGrants) -> Result:
    """SHOW GRANTS [FOR account [USING roles]], SHOW CREATE USER account.

    One's own are shown with one's active roles. Raises 1141, 1142, 3530."""
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
            raise ErrRoleNotGranted(shown(role), f"{name[0]}@{name[1]}")
    if not roles and name == session.account_name:
        roles = list(session.active_roles)
    held = book.roles.reachable(name, roles)
    return _titled(f"Grants for {title}", [[line] for line in _lines(book, account, held)])


def _titled(title: str, rows: list[Row]) -> Result:
    column = columns_of("x" + _WIDE)[0]
    return Result([column._replace(name=title)], rows)


def _create_text(account: Account) -> str:
    lock = "LOCK" if account.is_locked else "UNLOCK"
    return (
        f"CREATE USER {account.shown} IDENTIFIED WITH {quoted(account.plugin)} "
        f"AS {quoted(account.stored)} REQUIRE NONE PASSWORD EXPIRE DEFAULT ACCOUNT {lock} "
        "PASSWORD HISTORY DEFAULT PASSWORD REUSE INTERVAL DEFAULT"
    )


def _lines(book: Book, account: Account, roles: set[Name]) -> Iterator[str]:
    """In TiDB's order: server, databases, tables, columns, roles, dynamic ones."""
    names, to = {account[:2], *roles}, account.shown
    everywhere = [each for each in book.accounts if each[:2] in names]
    static = frozenset().union(*(each.privileges for each in everywhere))
    yield _line(static, GLOBAL, "*.*", to)
    for database, held in _added((e.database, e) for e in book.databases if e[:2] in names):
        yield _line(held, DATABASE, f"{identifier(database)}.*", to)
    tables = (((e.database, e.table), e) for e in book.tables if e[:2] in names)
    for place, held in _added(tables):
        yield _line(held, TABLE, ".".join(map(identifier, place)), to)
    yield from _lines_of_columns(book, names, to)
    granted = [f"'{user}'@'{host}'" for user, host in book.roles.granted(account[:2])]
    if granted:
        yield f"GRANT {', '.join(granted)} TO {to}"
    dynamic = frozenset().union(*(each.dynamic for each in everywhere))
    grantable = frozenset().union(*(each.grantable for each in everywhere))
    for each, option in ((dynamic - grantable, ""), (grantable, " WITH GRANT OPTION")):
        if each:
            yield f"GRANT {','.join(sorted(each))} ON *.* TO {to}{option}"


def _lines_of_columns(book: Book, names: set[Name], to: str) -> Iterator[str]:
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for each in book.columns:
        if each[:2] in names:
            words = found.setdefault((each.database, each.table), {})
            for privilege in each.privileges:
                words.setdefault(privilege, []).append(each.column)
    for place, words in sorted(found.items()):
        texts = [f"{word}({', '.join(sorted(words[word]))})" for word in COLUMN if word in words]
        yield f"GRANT {', '.join(texts)} ON {'.'.join(map(identifier, place))} TO {to}"


Held = list[tuple[Place, frozenset[str]]]


def _added(rows: Iterable[tuple[Place, OnDatabase | OnTable]]) -> Held[Place]:
    """The privileges of each place, over all who hold some there."""
    found: dict[Place, frozenset[str]] = {}
    for place, row in rows:
        found[place] = found.get(place, frozenset()) | row.privileges
    return list(found.items())


def _line(held: frozenset[str], all_of_them: Iterable[str], place: str, to: str) -> str:
    order = [each for each in COLUMNS if each in held]
    words = ",".join(order) or USAGE
    if held >= set(all_of_them):
        words = "ALL PRIVILEGES"
    option = " WITH GRANT OPTION" if GRANT in held else ""
    return f"GRANT {words} ON {place} TO {to}{option}"


# -- information_schema ----------------------------------------------------------------------------


def _books(context: Context) -> tuple[Book, list[Account]]:
    """Accounts whose privileges may be seen: all with SELECT on mysql, else one's own."""
    book, session = read(context.txn), context.session
    if "SELECT" in session.rights.on_database("mysql"):
        return book, list(book.accounts)
    own = book.account(*session.account_name)
    return book, [own] if own is not None else []


def _shown(held: frozenset[str]) -> tuple[list[str], str]:
    words = [each for each in COLUMNS if each in held] or [USAGE]
    return words, "YES" if GRANT in held else "NO"


def _global(context: Context) -> Iterable[Row]:
    for account in _books(context)[1]:
        words, option = _shown(account.privileges)
        for word in words:
            yield [account.shown, "def", word, option]


def _database(context: Context) -> Iterable[Row]:
    book, accounts = _books(context)
    known = {account[:2]: account for account in accounts}
    for on in book.databases:
        if on[:2] in known:
            words, option = _shown(on.privileges)
            for word in words:
                yield [known[on[:2]].shown, "def", on.database, word, option]


def _table(context: Context) -> Iterable[Row]:
    book, accounts = _books(context)
    known = {account[:2]: account for account in accounts}
    for row in book.tables:
        if row[:2] in known:
            words, option = _shown(row.privileges)
            for word in words:
                yield [known[row[:2]].shown, "def", row.database, row.table, word, option]


_GRANTEE = "GRANTEE:292 TABLE_CATALOG:512"


def _column(context: Context) -> Iterable[Row]:
    book, accounts = _books(context)
    known = {account[:2]: account for account in accounts}
    for row in book.columns:
        if row[:2] in known:
            for word in (each for each in COLUMN if each in row.privileges):
                place = ["def", row.database, row.table, row.column]
                yield [known[row[:2]].shown, *place, word, "NO"]


def _enabled_roles(context: Context) -> Iterable[Row]:
    session = context.session
    defaults = read(context.txn).roles.defaults_of(session.account_name)
    for role in session.active_roles:
        yield [*role, "YES" if role in defaults else "NO", "NO"]


def _applicable_roles(context: Context) -> Iterable[Row]:
    session, roles = context.session, read(context.txn).roles
    name = session.account_name
    for role in roles.granted(name):
        passes = "YES" if roles.may_pass_on(name, role) else "NO"
        default = "YES" if role in roles.defaults_of(name) else "NO"
        must = "YES" if role in roles.mandatory else "NO"
        yield [*name, *name, *role, passes, default, must]


TABLES = (
    (
        "COLUMN_PRIVILEGES",
        f"{_GRANTEE} TABLE_SCHEMA TABLE_NAME COLUMN_NAME PRIVILEGE_TYPE IS_GRANTABLE",
        _column,
    ),
    ("ENABLED_ROLES", "ROLE_NAME:255 ROLE_HOST:255 IS_DEFAULT IS_MANDATORY", _enabled_roles),
    (
        "APPLICABLE_ROLES",
        "USER:97 HOST:256 GRANTEE:97 GRANTEE_HOST:256 ROLE_NAME:255 ROLE_HOST:255"
        " IS_GRANTABLE IS_DEFAULT IS_MANDATORY",
        _applicable_roles,
    ),
    ("USER_PRIVILEGES", f"{_GRANTEE} PRIVILEGE_TYPE IS_GRANTABLE", _global),
    ("SCHEMA_PRIVILEGES", f"{_GRANTEE} TABLE_SCHEMA PRIVILEGE_TYPE IS_GRANTABLE", _database),
    (
        "TABLE_PRIVILEGES",
        f"{_GRANTEE} TABLE_SCHEMA TABLE_NAME PRIVILEGE_TYPE IS_GRANTABLE",
        _table,
    ),
)
