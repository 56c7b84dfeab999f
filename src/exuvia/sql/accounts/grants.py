"""GRANT and REVOKE, of privileges and of roles: rows of mysql.user (*.*), mysql.db (db.*),
mysql.tables_priv (db.t), mysql.columns_priv (of columns) and mysql.global_grants (dynamic ones).

Who grants must hold what is granted, and GRANT OPTION, in the same place: 1045 everywhere, 1044 in
a database, 1142 on a table.

Roles are accounts without a password that others are granted (privileges/accounts.py).

CREATE ROLE, DROP ROLE      rows of mysql.user, locked
GRANT, REVOKE               rows of mysql.role_edges; by ROLE_ADMIN, or who has it WITH ADMIN OPTION
SET DEFAULT ROLE            rows of mysql.default_roles
SET ROLE                    of this session alone
"""

from collections.abc import Iterable, Iterator

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrAccessDenied,
    ErrBadDB,
    ErrBadField,
    ErrBadUser,
    ErrCannotUser,
    ErrCantCreateUserWithGrant,
    ErrDBaccessDenied,
    ErrDynamicPrivilegeNotRegistered,
    ErrGrantRole,
    ErrIllegalGrantForTable,
    ErrIllegalPrivilegeLevel,
    ErrNoDB,
    ErrNonexistingGrant,
    ErrNonexistingTableGrant,
    ErrNoSuchTable,
    ErrParse,
    ErrRoleNotGranted,
    ErrTableaccessDenied,
    ErrUnknown,
    ErrUserAlreadyExists,
    ErrWrongUsage,
)
from exuvia.catalog.account_attributes import PLAIN, AccountAttributes
from exuvia.cluster.member import before_0_4
from exuvia.kv.transaction import Transaction
from exuvia.sql.accounts.users import (
    change,
    move,
    named,
    put_account,
    put_column,
    put_database,
    put_default,
    put_edge,
    put_table,
    remove,
    remove_edge,
)
from exuvia.sql.accounts.users import shown as quoted
from exuvia.sql.nodes import (
    CreateRole,
    DropRole,
    Grant,
    GrantLevel,
    GrantRoles,
    OnColumns,
    Revoke,
    RevokeRoles,
    SetDefaultRole,
    SetRole,
    Who,
)
from exuvia.sql.privileges import passwords
from exuvia.sql.privileges.accounts import (
    Account,
    Book,
    Edge,
    Name,
    OnColumn,
    OnDatabase,
    OnTable,
    Roles,
    shown,
)
from exuvia.sql.privileges.rights import COLUMN, DATABASE, DYNAMIC, GLOBAL, GRANT, TABLE, USAGE
from exuvia.sql.result import Note, Result
from exuvia.sql.statement.context import SessionApi

_LEVELS = {"global": GLOBAL, "database": DATABASE, "table": TABLE}


def grant(session: SessionApi, node: Grant, text: str) -> Result:
    """GRANT. Raises 1044, 1045, 1054, 1142, 1144, 1146, 1221, 1410, 3619, 3929."""
    place = _resolved(session, node.place)
    given = _wanted(node.privileges, place)
    if node.with_grant:
        given |= {GRANT}
    of_columns = _of_columns(node.on_columns, place)
    _check_grantor(session, place, given.union(*of_columns.values()))
    if _level(place) == "table" and "CREATE" not in given:
        _check_table(session, place, of_columns)

    def work(txn: Transaction, book: Book) -> None:
        for said in node.users:
            account = book.account(*named(session, said.who))
            if account is None:
                raise ErrCantCreateUserWithGrant()
            held = _held(book, account, place) or frozenset()
            if given or not of_columns:
                _put(session, txn, account, place, held | given)
            for row in _rows_of_columns(book, account, place, of_columns):
                put_column(txn, row._replace(privileges=row.privileges | of_columns[row.column]))

    change(session, work)
    return Result()


def revoke(session: SessionApi, node: Revoke, text: str) -> Result:
    """REVOKE. Raises 1044, 1045, 1142, 1141, 1144, 1147, 1221, 1105 for an unknown account."""
    names = [named(session, who) for who in node.users]
    if node.place is None:
        return _revoke_everything(session, names)
    place = _resolved(session, node.place)
    taken = _wanted(node.privileges, place)
    of_columns = _of_columns(node.on_columns, place)
    _check_grantor(session, place, taken.union(*of_columns.values()))

    def work(txn: Transaction, book: Book) -> None:
        for name in names:
            account = _known(book, name)
            held = _held(book, account, place)
            rows = list(_rows_of_columns(book, account, place, of_columns))
            if held is None and (taken or not any(row.privileges for row in rows)):
                raise _no_such_grant(account, place)
            if held is not None and taken:
                _put(session, txn, account, place, held - taken)
            for row in rows:
                put_column(txn, row._replace(privileges=row.privileges - of_columns[row.column]))

    change(session, work)
    return Result()


def _revoke_everything(session: SessionApi, names: list[Name]) -> Result:
    _check_grantor(session, ("*", "*"), frozenset({"CREATE USER"}))

    def work(txn: Transaction, book: Book) -> None:
        for name in names:
            account = _known(book, name)
            nothing: frozenset[str] = frozenset()
            put_account(txn, account._replace(privileges=nothing, dynamic=nothing))
            for column in book.columns:
                if column[:2] == account[:2]:
                    put_column(txn, column._replace(privileges=nothing))
            for on in book.databases:
                if on[:2] == account[:2]:
                    put_database(txn, on._replace(privileges=frozenset()))
            for row in book.tables:
                if row[:2] == account[:2]:
                    put_table(txn, row._replace(privileges=frozenset()), "")

    change(session, work)
    return Result()


def _known(book: Book, name: Name) -> Account:
    found = book.account(*name)
    if found is None:
        raise ErrUnknown(f"Unknown user: {name[0]}@{name[1]}")
    return found


# -- places ----------------------------------------------------------------------------------------


def _resolved(session: SessionApi, place: GrantLevel) -> tuple[str, str]:
    """(database or *, table or *). Raises 1046."""
    database = session.database if place.database is None else place.database
    if not database:
        raise ErrNoDB()
    return database, place.table


def _level(place: tuple[str, str]) -> str:
    if place == ("*", "*"):
        return "global"
    return "database" if place[1] == "*" else "table"


def _wanted(privileges: tuple[str, ...], place: tuple[str, str]) -> frozenset[str]:
    """The privileges meant. Raises 1144, 1221, 1064 for words that are none."""
    level = _level(place)
    allowed = _LEVELS[level]
    found: set[str] = set()
    for each in privileges:
        if each == "ALL":
            found |= set(allowed)
        elif each in allowed or each == GRANT:
            found.add(each)
        elif each in DYNAMIC or "_" in each:
            if each not in DYNAMIC:
                raise ErrDynamicPrivilegeNotRegistered(each)
            if level != "global":
                raise ErrIllegalPrivilegeLevel(each)
            found.add(each)
        elif each in GLOBAL:
            if level == "database":
                raise ErrWrongUsage("DB GRANT", "GLOBAL PRIVILEGES")
            raise ErrIllegalGrantForTable()
        elif each != USAGE:
            raise ErrParse(f"near '{each}' at line 1")
    return frozenset(found)


def _of_columns(said: OnColumns, place: tuple[str, str]) -> dict[str, frozenset[str]]:
    """Privileges by column, in lower case. Raises 1144, 1221."""
    found: dict[str, frozenset[str]] = {}
    if said and _level(place) != "table":
        raise ErrIllegalGrantForTable()
    for privilege, columns in said:
        if privilege not in COLUMN:
            raise ErrWrongUsage("COLUMN GRANT", "NON-COLUMN PRIVILEGES")
        for each in columns:
            found[each.lower()] = found.get(each.lower(), frozenset()) | {privilege}
    return found


def _rows_of_columns(
    book: Book, account: Account, place: tuple[str, str], of_columns: Iterable[str]
) -> Iterator[OnColumn]:
    """A row for each of the columns, with what is held now."""
    database, table = place[0].lower(), place[1].lower()
    held = {each[:5]: each.privileges for each in book.columns}
    for column in of_columns:
        key = account.user, account.host, database, table, column
        yield OnColumn(*key, held.get(key, frozenset()))


def _check_table(session: SessionApi, place: tuple[str, str], columns: Iterable[str]) -> None:
    """Raises 1146, 1054 for a column that is not there."""
    try:
        with session.services.store.read() as txn:
            info = session.services.schemas.table(txn, *place).info
            for each in columns:
                if info.column(each) is None:
                    raise ErrBadField(each, place[1])
    except Refused as error:
        raise ErrNoSuchTable(*place) if error.code == ErrBadDB.code else error from None


def _check_grantor(session: SessionApi, place: tuple[str, str], given: frozenset[str]) -> None:
    rights, level = session.rights, _level(place)
    if level == "global":
        needed = given - DYNAMIC if "SUPER" in rights.everywhere else given
        if not rights.everywhere >= needed | {GRANT}:
            raise ErrAccessDenied(*session.account_name, "YES")
    elif level == "database":
        if not rights.on_database(place[0]) >= given | {GRANT}:
            raise ErrDBaccessDenied(*session.account_name, place[0])
    elif not rights.on_table(*place) >= given | {GRANT}:
        raise ErrTableaccessDenied("GRANT", *session.account_name, place[1])


# -- what is held ----------------------------------------------------------------------------------


def _held(book: Book, account: Account, place: tuple[str, str]) -> frozenset[str] | None:
    """What the account was granted in exactly that place; None where there is no such grant."""
    level = _level(place)
    if level == "global":
        return account.privileges | account.dynamic
    if level == "database":
        rows = [e for e in book.databases if e[:2] == account[:2] and _same(e.database, place[0])]
        return rows[0].privileges if rows else None
    found = [
        each
        for each in book.tables
        if each[:2] == account[:2]
        and _same(each.database, place[0])
        and _same(each.table, place[1])
    ]
    return found[0].privileges if found else None


def _same(left: str, right: str) -> bool:
    return left.lower() == right.lower()


def _put(
    session: SessionApi,
    txn: Transaction,
    account: Account,
    place: tuple[str, str],
    privileges: frozenset[str],
) -> None:
    level, (database, table) = _level(place), (place[0].lower(), place[1].lower())
    if level == "global":
        # GRANT OPTION for the dynamic ones is apart
        dynamic = privileges & DYNAMIC
        grantable = account.grantable & dynamic
        if GRANT in privileges and GRANT not in account.privileges:
            grantable |= dynamic - account.dynamic
        account = account._replace(
            privileges=privileges - DYNAMIC, dynamic=dynamic, grantable=grantable
        )
        put_account(txn, account)
    elif level == "database":
        put_database(txn, OnDatabase(account.user, account.host, database, privileges))
    else:
        row = OnTable(account.user, account.host, database, table, privileges)
        put_table(txn, row, "@".join(session.account_name))


def _no_such_grant(account: Account, place: tuple[str, str]) -> Refused:
    if _level(place) == "table":
        return ErrNonexistingTableGrant(account.user, account.host, place[1])
    return ErrNonexistingGrant(account.user, account.host)


# -- roles -----------------------------------------------------------------------------------------


def create_role(session: SessionApi, node: CreateRole, text: str) -> Result:
    """CREATE ROLE [IF NOT EXISTS]. Raises 1396."""
    names = [named(session, who) for who in node.roles]
    notes: list[Note] = []

    def work(txn: Transaction, book: Book) -> None:
        notes.clear()
        for name in names:
            if book.account(*name) is None:
                # older members would leave the row of attributes behind when they drop the role
                attributes = PLAIN if before_0_4(txn) else AccountAttributes(expired=True)
                made = Account(*name, passwords.NATIVE, "", frozenset(), True)
                put_account(txn, made._replace(attributes=attributes))
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
        _require_may_pass_on(session, book.roles, roles)
        for role in roles:
            if book.account(*role) is None:
                raise ErrGrantRole(shown(role))
        _require_known(book, "GRANT ROLE", users)
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
        _require_may_pass_on(session, book.roles, roles)
        _require_known(book, "REVOKE ROLE", (*users, *roles))
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
        _require_known(book, "SET DEFAULT ROLE", (*users, *roles))
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


def _require_known(book: Book, what: str, names: Iterable[Name]) -> None:
    for name in names:
        if book.account(*name) is None:
            raise ErrCannotUser(what, f"{name[0]}@{name[1]}")


def _require_may_pass_on(session: SessionApi, known: Roles, roles: Iterable[Name]) -> None:
    """Raises 1227 unless it may grant all of these."""
    if not all(known.may_pass_on(session.account_name, role) for role in roles):
        session.rights.demand_everywhere("SUPER", "ROLE_ADMIN")
