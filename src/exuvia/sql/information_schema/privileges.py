"""information_schema: privileges and roles. Other accounts' are seen with SELECT on mysql."""

from collections.abc import Iterable

from exuvia.sql.privileges.accounts import Account, Book, read
from exuvia.sql.privileges.rights import COLUMN, COLUMNS, GRANT, USAGE
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context


def books(context: Context) -> tuple[Book, list[Account]]:
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
    for account in books(context)[1]:
        words, option = _shown(account.privileges)
        for word in words:
            yield [account.shown, "def", word, option]


def _database(context: Context) -> Iterable[Row]:
    book, accounts = books(context)
    known = {account[:2]: account for account in accounts}
    for on in book.databases:
        if on[:2] in known:
            words, option = _shown(on.privileges)
            for word in words:
                yield [known[on[:2]].shown, "def", on.database, word, option]


def _table(context: Context) -> Iterable[Row]:
    book, accounts = books(context)
    known = {account[:2]: account for account in accounts}
    for row in book.tables:
        if row[:2] in known:
            words, option = _shown(row.privileges)
            for word in words:
                yield [known[row[:2]].shown, "def", row.database, row.table, word, option]


_GRANTEE = "GRANTEE:292 TABLE_CATALOG:512"


def _column(context: Context) -> Iterable[Row]:
    book, accounts = books(context)
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
