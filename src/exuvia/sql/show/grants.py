"""SHOW GRANTS, SHOW CREATE USER, and the privileges in information_schema, in TiDB's words."""

from collections.abc import Iterable, Iterator

from exuvia.base.mysql import refuse
from exuvia.sql.context import Context
from exuvia.sql.nodes.accounts import ShowGrants
from exuvia.sql.privileges.accounts import Account, Book, read
from exuvia.sql.privileges.names import COLUMNS, DATABASE, GLOBAL, GRANT, TABLE, USAGE
from exuvia.sql.result import Result, Row
from exuvia.sql.show.listing import columns_of
from exuvia.sql.show.type_text import identifier, quoted

_WIDE = ":1024"


def show_grants(context: Context, node: ShowGrants) -> Result:
    """SHOW GRANTS [FOR account], SHOW CREATE USER account. Raises 1141, 1142."""
    session = context.session
    name = session.account_name if node.who is None else (node.who[0], node.who[1].lower())
    if name != session.account_name and "SELECT" not in session.rights.on_database("mysql"):
        raise refuse(1142, "SELECT", *session.account_name, "user")
    book = read(context.txn)
    account = book.account(*name)
    title = f"{name[0]}@{name[1]}"
    if account is None:
        raise refuse(1396, "SHOW CREATE USER", title) if node.create else refuse(1141, *name)
    if node.create:
        return _titled(f"CREATE USER for {title}", [[_create_text(account)]])
    return _titled(f"Grants for {title}", [[line] for line in _lines(book, account)])


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


def _lines(book: Book, account: Account) -> Iterator[str]:
    yield _line(account.privileges, GLOBAL, "*.*", account)
    for on in book.databases:
        if on[:2] == account[:2]:
            yield _line(on.privileges, DATABASE, f"{identifier(on.database)}.*", account)
    for row in book.tables:
        if row[:2] == account[:2]:
            place = f"{identifier(row.database)}.{identifier(row.table)}"
            yield _line(row.privileges, TABLE, place, account)


def _line(held: frozenset[str], all_of_them: Iterable[str], place: str, account: Account) -> str:
    order = [each for each in COLUMNS if each in held]
    words = ",".join(order) or USAGE
    if held >= set(all_of_them):
        words = "ALL PRIVILEGES"
    option = " WITH GRANT OPTION" if GRANT in held else ""
    return f"GRANT {words} ON {place} TO {account.shown}{option}"


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
TABLES = (
    ("USER_PRIVILEGES", f"{_GRANTEE} PRIVILEGE_TYPE IS_GRANTABLE", _global),
    ("SCHEMA_PRIVILEGES", f"{_GRANTEE} TABLE_SCHEMA PRIVILEGE_TYPE IS_GRANTABLE", _database),
    (
        "TABLE_PRIVILEGES",
        f"{_GRANTEE} TABLE_SCHEMA TABLE_NAME PRIVILEGE_TYPE IS_GRANTABLE",
        _table,
    ),
)
