"""CREATE USER, ALTER USER, DROP USER, RENAME USER, SET PASSWORD: rows of mysql.user.

Each statement is one transaction, all of its accounts or none; it ends what was open, as a schema
change does, and is no job. Every node has read the new rows within milliseconds.
"""

from collections.abc import Callable, Sequence

from exuvia.base.errors import Conflict
from exuvia.base.mysql import refuse
from exuvia.catalog import keycodec, reader, writer
from exuvia.catalog.layout import Row
from exuvia.catalog.system_rows import planned
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes.accounts import (
    AlterUser,
    CreateUser,
    DropUser,
    Identified,
    RenameUser,
    SetPassword,
    Who,
)
from exuvia.sql.privileges import passwords
from exuvia.sql.privileges.accounts import CHANNEL, Account, Book, OnDatabase, OnTable, read
from exuvia.sql.privileges.names import DATABASE, GLOBAL, GRANT, column_of, word_of
from exuvia.sql.result import Note, Result
from exuvia.sql.session.running import Running

ATTEMPTS = 16
_USER_CHARS, _HOST_CHARS = 32, 255
_NO, _YES = 1, 2
Name = tuple[str, str]


def change(session: Running, work: Callable[[Transaction, Book], None]) -> None:
    """Do it in one transaction; every node is told."""
    session.commit()
    services = session.services
    for attempt in range(ATTEMPTS):
        txn = services.store.begin()
        try:
            services.member.guard(txn)
            work(txn, read(txn))
            txn.notify(CHANNEL)
            txn.commit()
            break
        except Conflict:
            services.pause(attempt)
        finally:
            txn.rollback()
    else:
        raise refuse(1213)
    if services.accounts is not None:
        services.accounts.load()


def named(session: Running, who: Who) -> Name:
    """User and host. Raises 1470."""
    if who is None:
        return session.account_name
    for text, what, most in ((who[0], "user name", _USER_CHARS), (who[1], "host", _HOST_CHARS)):
        if len(text) > most:
            raise refuse(1470, text, what, most)
    return who[0], who[1].lower()


def shown(name: Name) -> str:
    """'user'@'host'."""
    return f"'{name[0]}'@'{name[1]}'"


# -- rows ------------------------------------------------------------------------------------------


def put(txn: Transaction, table_name: str, facts: dict[str, object]) -> None:
    """Write a row over what may stand under its key; what is not said is NULL."""
    table = planned(txn, table_name)
    row: Row = [facts.get(column.name.O) for column in table.info.cols]
    handle = keycodec.handle_of(table, row)
    old = reader.get(txn, table, handle)
    if old is None:
        writer.insert(txn, table, row)
    else:
        writer.update(txn, table, handle, old, row)


def remove(txn: Transaction, table_name: str, *key: str) -> None:
    """Remove the row of that key, if there is one."""
    table = planned(txn, table_name)
    handle = keycodec.handle_from(table, key)
    old = reader.get(txn, table, handle)
    if old is not None:
        writer.delete(txn, table, handle, old)


def put_account(txn: Transaction, account: Account) -> None:
    """Write a row of mysql.user."""
    facts: dict[str, object] = {
        "Host": account.host,
        "User": account.user,
        "authentication_string": account.stored,
        "plugin": account.plugin,
        "Account_locked": _YES if account.is_locked else _NO,
    }
    facts |= {
        column_of(each): _YES if each in account.privileges else _NO for each in (*GLOBAL, GRANT)
    }
    put(txn, "user", facts)


def put_database(txn: Transaction, row: OnDatabase) -> None:
    """Write a row of mysql.db, or remove it where nothing is left."""
    if not row.privileges:
        remove(txn, "db", row.host, row.database, row.user)
        return
    facts: dict[str, object] = {"Host": row.host, "DB": row.database, "User": row.user}
    facts |= {
        column_of(each): _YES if each in row.privileges else _NO for each in (*DATABASE, GRANT)
    }
    put(txn, "db", facts)


def put_table(txn: Transaction, row: OnTable, grantor: str) -> None:
    """Write a row of mysql.tables_priv, or remove it where nothing is left."""
    if not row.privileges:
        remove(txn, "tables_priv", row.host, row.database, row.user, row.table)
        return
    table = planned(txn, "tables_priv")
    words = {word_of(each) for each in row.privileges}
    column = table.info.column("Table_priv")
    elements = () if column is None else column.type.Elems or ()
    put(
        txn,
        "tables_priv",
        {
            "Host": row.host,
            "DB": row.database,
            "User": row.user,
            "Table_name": row.table,
            "Grantor": grantor,
            "Table_priv": sum(1 << n for n, word in enumerate(elements) if word in words),
            "Column_priv": 0,
        },
    )


# -- statements ------------------------------------------------------------------------------------


def _secret(session: Running, said: Identified, before: Account | None) -> tuple[str, str]:
    """(plugin, what is stored). Raises 1524, 1827."""
    usual = session.variable("default_authentication_plugin")
    plugin = said.plugin or (before.plugin if before is not None else usual)
    if plugin not in passwords.PLUGINS:
        raise refuse(1524, plugin)
    if said.stored is not None:
        if not passwords.is_stored(plugin, said.stored):
            raise refuse(1827)
        return plugin, said.stored
    if said.password is not None:
        return plugin, passwords.stored(plugin, said.password)
    if before is not None and said.plugin is None:
        return plugin, before.stored
    return plugin, ""


def create_user(session: Running, node: CreateUser, text: str) -> Result:
    """CREATE USER [IF NOT EXISTS]. Raises 1396 naming all that exist, 1470, 1524, 1827."""
    notes: list[Note] = []

    def work(txn: Transaction, book: Book) -> None:
        notes.clear()
        taken = []
        for said in node.users:
            user, host = named(session, said.who)
            if book.account(user, host) is not None:
                taken.append((user, host))
                continue
            plugin, stored = _secret(session, said, None)
            locked = bool(node.locked)
            put_account(txn, Account(user, host, plugin, stored, frozenset(), locked))
        if taken and not node.if_not_exists:
            raise refuse(1396, "CREATE USER", ",".join(map(shown, taken)))
        notes.extend(Note("Note", 3163, f"User {shown(each)} already exists.") for each in taken)

    change(session, work)
    return Result(warnings=notes)


def alter_user(session: Running, node: AlterUser, text: str) -> Result:
    """ALTER USER [IF EXISTS]. Raises 1396 naming all that are missing, 1524, 1827."""
    notes: list[Note] = []

    def work(txn: Transaction, book: Book) -> None:
        notes.clear()
        missing = []
        for said in node.users:
            name = named(session, said.who)
            found = book.account(*name)
            if found is None:
                missing.append(name)
                continue
            plugin, stored = _secret(session, said, found)
            locked = found.is_locked if node.locked is None else node.locked
            put_account(txn, found._replace(plugin=plugin, stored=stored, is_locked=locked))
        _missing(notes, "ALTER USER", missing, node.if_exists)

    change(session, work)
    return Result(warnings=notes)


def drop_user(session: Running, node: DropUser, text: str) -> Result:
    """DROP USER [IF EXISTS]: the account and all that it was granted. Raises 1396."""
    notes: list[Note] = []

    def work(txn: Transaction, book: Book) -> None:
        notes.clear()
        names = [named(session, who) for who in node.users]
        _missing(notes, "DROP USER", [n for n in names if book.account(*n) is None], node.if_exists)
        for user, host in names:
            remove(txn, "user", host, user)
            _move(txn, book, (user, host), None)

    change(session, work)
    return Result(warnings=notes)


def rename_user(session: Running, node: RenameUser, text: str) -> Result:
    """RENAME USER a TO b: with all that it was granted. Raises 1396."""

    def work(txn: Transaction, book: Book) -> None:
        for old, new in node.pairs:
            name, wanted = named(session, old), named(session, new)
            found = book.account(*name)
            if found is None or book.account(*wanted) is not None:
                raise refuse(1396, "RENAME USER", f"{shown(name)} TO {shown(wanted)}")
            remove(txn, "user", name[1], name[0])
            put_account(txn, found._replace(user=wanted[0], host=wanted[1]))
            _move(txn, book, name, wanted)

    change(session, work)
    return Result()


def _move(txn: Transaction, book: Book, name: Name, wanted: Name | None) -> None:
    """What was granted to one account goes to another, or to nobody."""
    for on in book.databases:
        if on[:2] == name:
            put_database(txn, on._replace(privileges=frozenset()))
            if wanted is not None:
                put_database(txn, on._replace(user=wanted[0], host=wanted[1]))
    for row in book.tables:
        if row[:2] == name:
            put_table(txn, row._replace(privileges=frozenset()), "")
            if wanted is not None:
                put_table(txn, row._replace(user=wanted[0], host=wanted[1]), "")


def _missing(notes: list[Note], what: str, names: Sequence[Name], forgiven: bool) -> None:
    if names and not forgiven:
        raise refuse(1396, what, ",".join(map(shown, names)))
    notes.extend(Note("Note", 3162, f"User {shown(each)} does not exist.") for each in names)


def set_password(session: Running, node: SetPassword, text: str) -> Result:
    """SET PASSWORD [FOR account] = 'text'. Raises 1133."""
    name = named(session, node.who)

    def work(txn: Transaction, book: Book) -> None:
        found = book.account(*name)
        if found is None:
            raise refuse(1133)
        stored = passwords.stored(found.plugin, node.password)
        put_account(txn, found._replace(stored=stored))

    change(session, work)
    return Result()
