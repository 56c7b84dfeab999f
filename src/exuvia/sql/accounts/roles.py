"""Roles: accounts without a password that others are granted (privileges/accounts.py).

CREATE ROLE, DROP ROLE      rows of mysql.user, locked
GRANT, REVOKE               rows of mysql.role_edges; by ROLE_ADMIN, or who has it WITH ADMIN OPTION
SET DEFAULT ROLE            rows of mysql.default_roles
SET ROLE                    of this session alone
"""

from collections.abc import Iterable

from exuvia.base.mysql_errors import (
    ErrBadUser,
    ErrCannotUser,
    ErrGrantRole,
    ErrRoleNotGranted,
    ErrUserAlreadyExists,
)
from exuvia.kv.transaction import Transaction
from exuvia.sql.accounts.rows import move, put_account, put_default, put_edge, remove, remove_edge
from exuvia.sql.accounts.users import Name, change, named
from exuvia.sql.accounts.users import shown as quoted
from exuvia.sql.nodes.accounts import (
    CreateRole,
    DropRole,
    GrantRoles,
    RevokeRoles,
    SetDefaultRole,
    SetRole,
    Who,
)
from exuvia.sql.privileges import passwords
from exuvia.sql.privileges.accounts import Account, Book, Edge, Roles, shown
from exuvia.sql.result import Note, Result
from exuvia.sql.statement.context import SessionApi


def create_role(session: SessionApi, node: CreateRole, text: str) -> Result:
    """CREATE ROLE [IF NOT EXISTS]. Raises 1396."""
    names = [named(session, who) for who in node.roles]
    notes: list[Note] = []

    def work(txn: Transaction, book: Book) -> None:
        notes.clear()
        for name in names:
            if book.account(*name) is None:
                put_account(txn, Account(*name, passwords.NATIVE, "", frozenset(), True))
            elif node.if_not_exists:
                notes.append(
                    Note("Note", ErrUserAlreadyExists.code, f"User {quoted(name)} already exists.")
                )
            else:
                raise ErrCannotUser("CREATE ROLE", quoted(name))

    change(session, work)
    return Result(warnings=notes)


def drop_role(session: SessionApi, node: DropRole, text: str) -> Result:
    """DROP ROLE [IF EXISTS]: from everybody who was granted it. Raises 1396."""
    names = [named(session, who) for who in node.roles]
    notes: list[Note] = []

    def work(txn: Transaction, book: Book) -> None:
        notes.clear()
        for name in names:
            if book.account(*name) is not None:
                remove(txn, "user", name[1], name[0])
                move(txn, book, name, None)
            elif node.if_exists:
                notes.append(Note("Note", ErrBadUser.code, f"User {quoted(name)} does not exist."))
            else:
                raise ErrCannotUser("DROP ROLE", quoted(name))

    change(session, work)
    return Result(warnings=notes)


def grant_roles(session: SessionApi, node: GrantRoles, text: str) -> Result:
    """GRANT roles TO accounts. Raises 1227, 1396, 3523."""
    roles, users = _names(session, node.roles), _names(session, node.users)

    def work(txn: Transaction, book: Book) -> None:
        _check_grantor(session, book.roles, roles)
        for role in roles:
            if book.account(*role) is None:
                raise ErrGrantRole(shown(role))
        _known(book, "GRANT ROLE", users)
        for user in users:
            for role in roles:
                admin = node.with_admin or book.roles.may_pass_on(user, role)
                put_edge(txn, Edge(role, user, admin))

    change(session, work)
    return Result()


def revoke_roles(session: SessionApi, node: RevokeRoles, text: str) -> Result:
    """REVOKE roles FROM accounts. Raises 1227, 1396."""
    roles, users = _names(session, node.roles), _names(session, node.users)

    def work(txn: Transaction, book: Book) -> None:
        _check_grantor(session, book.roles, roles)
        _known(book, "REVOKE ROLE", (*users, *roles))
        for user in users:
            for role in roles:
                remove_edge(txn, role, user)

    change(session, work)
    return Result()


def set_default_role(session: SessionApi, node: SetDefaultRole, text: str) -> Result:
    """SET DEFAULT ROLE ... TO accounts. Raises 1227, 1396, 3530."""
    roles, users = _names(session, node.roles), _names(session, node.users)
    if users != [session.account_name]:
        session.rights.demand_everywhere("CREATE USER")

    def work(txn: Transaction, book: Book) -> None:
        _known(book, "SET DEFAULT ROLE", (*users, *roles))
        for user in users:
            granted = book.roles.granted(user)
            wanted: Iterable[Name] = granted if node.kind == "all" else roles
            for role in wanted:
                if role not in granted:
                    raise ErrRoleNotGranted(shown(role), f"{user[0]}@{user[1]}")
            for role in book.roles.defaults_of(user):
                remove(txn, "default_roles", user[1], user[0], role[1], role[0])
            for role in wanted:
                put_default(txn, user, role)

    change(session, work)
    return Result()


def set_role(session: SessionApi, node: SetRole, text: str) -> Result:
    """SET ROLE. Raises 3530."""
    accounts = session.services.accounts
    known = Roles() if accounts is None else accounts.book.roles
    name = session.account_name
    granted, named_roles = known.granted(name), _names(session, node.roles)
    if node.kind == "all":
        session.active_roles = tuple(each for each in granted if each not in named_roles)
    elif node.kind == "default":
        session.active_roles = known.defaults_of(name)
    else:
        for role in named_roles:
            if role not in granted:
                raise ErrRoleNotGranted(shown(role), f"{name[0]}@{name[1]}")
        session.active_roles = tuple(sorted(set(named_roles)))
    return Result()


def _names(session: SessionApi, roles: Iterable[Who]) -> list[Name]:
    return [named(session, who) for who in roles]


def _known(book: Book, what: str, names: Iterable[Name]) -> None:
    for name in names:
        if book.account(*name) is None:
            raise ErrCannotUser(what, f"{name[0]}@{name[1]}")


def _check_grantor(session: SessionApi, known: Roles, roles: Iterable[Name]) -> None:
    """Raises 1227 unless it may grant all of these."""
    if not all(known.may_pass_on(session.account_name, role) for role in roles):
        session.rights.demand_everywhere("SUPER", "ROLE_ADMIN")
