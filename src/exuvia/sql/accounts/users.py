"""CREATE USER, ALTER USER, DROP USER, RENAME USER, SET PASSWORD: rows of mysql.user.

Each statement is one transaction, all of its accounts or none; it ends what was open, as a schema
change does, and is no job. Every node has read the new rows within milliseconds.
"""

from collections.abc import Callable, Sequence

from exuvia.base.errors import Conflict
from exuvia.base.limits import HOST_CHARS, USER_CHARS
from exuvia.base.mysql_errors import (
    ErrBadUser,
    ErrCannotUser,
    ErrLockDeadlock,
    ErrPasswordFormat,
    ErrPasswordNoMatch,
    ErrPluginIsNotLoaded,
    ErrUserAlreadyExists,
    ErrWrongStringLength,
)
from exuvia.kv.transaction import Transaction
from exuvia.sql.accounts.rows import move, put_account, remove
from exuvia.sql.nodes import (
    AlterUser,
    CreateUser,
    DropUser,
    Identified,
    RenameUser,
    SetPassword,
    Who,
)
from exuvia.sql.privileges import passwords
from exuvia.sql.privileges.accounts import CHANNEL, Account, Book, read
from exuvia.sql.result import Note, Result
from exuvia.sql.statement.context import SessionApi

Name = tuple[str, str]


def change(session: SessionApi, work: Callable[[Transaction, Book], None]) -> None:
    """Do it in one transaction; every node is told."""
    session.commit()
    services = session.services

    def write(txn: Transaction) -> None:
        services.member.guard(txn)
        work(txn, read(txn))
        txn.notify(CHANNEL)

    try:
        services.store.transact(write)
    except Conflict:
        raise ErrLockDeadlock() from None
    if services.accounts is not None:
        services.accounts.load()


def named(session: SessionApi, who: Who) -> Name:
    """User and host. Raises 1470."""
    if who is None:
        return session.account_name
    check_lengths(*who)
    return who[0], who[1].lower()


def shown(name: Name) -> str:
    """'user'@'host'."""
    return f"'{name[0]}'@'{name[1]}'"


# -- statements ------------------------------------------------------------------------------------


def _secret(session: SessionApi, said: Identified, before: Account | None) -> tuple[str, str]:
    """(plugin, what is stored). Raises 1524, 1827."""
    usual = session.variable("default_authentication_plugin")
    plugin = said.plugin or (before.plugin if before is not None else usual)
    if plugin not in passwords.PLUGINS:
        raise ErrPluginIsNotLoaded(plugin)
    if said.stored is not None:
        if not passwords.is_stored(plugin, said.stored):
            raise ErrPasswordFormat()
        return plugin, said.stored
    if said.password is not None:
        return plugin, passwords.stored(plugin, said.password)
    if before is not None and said.plugin is None:
        return plugin, before.stored
    return plugin, ""


def create_user(session: SessionApi, node: CreateUser, text: str) -> Result:
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
            raise ErrCannotUser("CREATE USER", ",".join(map(shown, taken)))
        notes.extend(
            Note("Note", ErrUserAlreadyExists.code, f"User {shown(each)} already exists.")
            for each in taken
        )

    change(session, work)
    return Result(warnings=notes)


def alter_user(session: SessionApi, node: AlterUser, text: str) -> Result:
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


def drop_user(session: SessionApi, node: DropUser, text: str) -> Result:
    """DROP USER [IF EXISTS]: the account and all that it was granted. Raises 1396."""
    notes: list[Note] = []

    def work(txn: Transaction, book: Book) -> None:
        notes.clear()
        names = [named(session, who) for who in node.users]
        _missing(notes, "DROP USER", [n for n in names if book.account(*n) is None], node.if_exists)
        for user, host in names:
            remove(txn, "user", host, user)
            move(txn, book, (user, host), None)

    change(session, work)
    return Result(warnings=notes)


def rename_user(session: SessionApi, node: RenameUser, text: str) -> Result:
    """RENAME USER a TO b: with all that it was granted. Raises 1396."""

    def work(txn: Transaction, book: Book) -> None:
        for old, new in node.pairs:
            name, wanted = named(session, old), named(session, new)
            found = book.account(*name)
            if found is None or book.account(*wanted) is not None:
                raise ErrCannotUser("RENAME USER", f"{shown(name)} TO {shown(wanted)}")
            remove(txn, "user", name[1], name[0])
            put_account(txn, found._replace(user=wanted[0], host=wanted[1]))
            move(txn, book, name, wanted)

    change(session, work)
    return Result()


def _missing(notes: list[Note], what: str, names: Sequence[Name], forgiven: bool) -> None:
    if names and not forgiven:
        raise ErrCannotUser(what, ",".join(map(shown, names)))
    notes.extend(
        Note("Note", ErrBadUser.code, f"User {shown(each)} does not exist.") for each in names
    )


def set_password(session: SessionApi, node: SetPassword, text: str) -> Result:
    """SET PASSWORD [FOR account] = 'text'. Raises 1133."""
    name = named(session, node.who)

    def work(txn: Transaction, book: Book) -> None:
        found = book.account(*name)
        if found is None:
            raise ErrPasswordNoMatch()
        stored = passwords.stored(found.plugin, node.password)
        put_account(txn, found._replace(stored=stored))

    change(session, work)
    return Result()


_TOLD_CHARS = 70  # of a name that is too long


def check_lengths(user: str, host: str) -> None:
    """Raises 1470."""
    for text, what, most in ((user, "user name", USER_CHARS), (host, "host name", HOST_CHARS)):
        if len(text) > most:
            raise ErrWrongStringLength(text[:_TOLD_CHARS], what, most)
