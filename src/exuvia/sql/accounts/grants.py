"""GRANT and REVOKE of privileges and of roles.

    ON *.*          mysql.user              dynamic privileges    mysql.global_grants
    ON db.*         mysql.db                of columns            mysql.columns_priv
    ON db.t         mysql.tables_priv       roles                 mysql.role_edges

The grantor needs the granted privileges and GRANT OPTION in the same place. The error is 1045
everywhere, 1044 in a database, 1142 on a table.

Roles are accounts without a password that are granted to others (privileges/accounts.py).

CREATE ROLE, DROP ROLE      rows of mysql.user, locked
GRANT, REVOKE               rows of mysql.role_edges; requires ROLE_ADMIN or WITH ADMIN OPTION
SET DEFAULT ROLE            rows of mysql.default_roles
SET ROLE                    for this session only
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
from exuvia.sql.accounts.users import account_text as quoted
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
    role_text,
)
from exuvia.sql.privileges.rights import COLUMN, DATABASE, DYNAMIC, GLOBAL, GRANT, TABLE, USAGE
from exuvia.sql.result import Note, Result
from exuvia.sql.statement.context import SessionApi

_LEVELS = {"global": GLOBAL, "database": DATABASE, "table": TABLE}


def grant(session: SessionApi, node: Grant, text: str) -> Result:
    """The GRANT statement. Raises 1044, 1045, 1054, 1142, 1144, 1146, 1221, 1410, 3619, 3929."""
    place = _resolved(session, node.place)
    granted = _expanded(node.privileges, place)
    if node.with_grant:
        granted |= {GRANT}
    of_columns = _of_columns(node.on_columns, place)
    _check_grantor(session, place, granted.union(*of_columns.values()))
    if _level(place) == "table" and "CREATE" not in granted:
        _check_table(session, place, of_columns)

    def work(txn: Transaction, book: Book) -> None:
        for identified in node.users:
            account = book.account(*named(session, identified.who))
            if account is None:
                raise ErrCantCreateUserWithGrant()
            before = _present(book, account, place) or frozenset()
            if granted or not of_columns:
                _put(session, txn, account, place, before | granted)
            for row in _rows_of_columns(book, account, place, of_columns):
                put_column(txn, row._replace(privileges=row.privileges | of_columns[row.column]))

    change(session, work)
    return Result()


def revoke(session: SessionApi, node: Revoke, text: str) -> Result:
    """The REVOKE statement. Raises 1044, 1045, 1142, 1141, 1144, 1147, 1221; 1105 for an unknown
    account."""
    names = [named(session, who) for who in node.users]
    if node.place is None:
        return _revoke_everything(session, names)
    place = _resolved(session, node.place)
    revoked = _expanded(node.privileges, place)
    of_columns = _of_columns(node.on_columns, place)
    _check_grantor(session, place, revoked.union(*of_columns.values()))

    def work(txn: Transaction, book: Book) -> None:
        for name in names:
            account = _require_account(book, name)
            before = _present(book, account, place)
            rows = list(_rows_of_columns(book, account, place, of_columns))
            if before is None and (revoked or not any(row.privileges for row in rows)):
                raise _no_such_grant(account, place)
            if before is not None and revoked:
                _put(session, txn, account, place, before - revoked)
            for row in rows:
                put_column(txn, row._replace(privileges=row.privileges - of_columns[row.column]))

    change(session, work)
    return Result()


def _revoke_everything(session: SessionApi, names: list[Name]) -> Result:
    _check_grantor(session, ("*", "*"), frozenset({"CREATE USER"}))

    def work(txn: Transaction, book: Book) -> None:
        for name in names:
            account = _require_account(book, name)
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


def _require_account(book: Book, name: Name) -> Account:
    account = book.account(*name)
    if account is None:
        raise ErrUnknown(f"Unknown user: {name[0]}@{name[1]}")
    return account


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


def _expanded(privileges: tuple[str, ...], place: tuple[str, str]) -> frozenset[str]:
    """The privileges of the statement, ALL expanded. Raises 1144, 1221; 1064 for unknown words."""
    level = _level(place)
    allowed = _LEVELS[level]
    expanded: set[str] = set()
    for word in privileges:
        if word == "ALL":
            expanded |= set(allowed)
        elif word in allowed or word == GRANT:
            expanded.add(word)
        elif word in DYNAMIC or "_" in word:
            if word not in DYNAMIC:
                raise ErrDynamicPrivilegeNotRegistered(word)
            if level != "global":
                raise ErrIllegalPrivilegeLevel(word)
            expanded.add(word)
        elif word in GLOBAL:
            if level == "database":
                raise ErrWrongUsage("DB GRANT", "GLOBAL PRIVILEGES")
            raise ErrIllegalGrantForTable()
        elif word != USAGE:
            raise ErrParse(f"near '{word}' at line 1")
    return frozenset(expanded)


def _of_columns(on_columns: OnColumns, place: tuple[str, str]) -> dict[str, frozenset[str]]:
    """Privileges by column, in lower case. Raises 1144, 1221."""
    by_column: dict[str, frozenset[str]] = {}
    if on_columns and _level(place) != "table":
        raise ErrIllegalGrantForTable()
    for privilege, columns in on_columns:
        if privilege not in COLUMN:
            raise ErrWrongUsage("COLUMN GRANT", "NON-COLUMN PRIVILEGES")
        for column in columns:
            by_column[column.lower()] = by_column.get(column.lower(), frozenset()) | {privilege}
    return by_column


def _rows_of_columns(
    book: Book, account: Account, place: tuple[str, str], of_columns: Iterable[str]
) -> Iterator[OnColumn]:
    """A row for each of the columns, with its present privileges."""
    database, table = place[0].lower(), place[1].lower()
    present = {row[:5]: row.privileges for row in book.columns}
    for column in of_columns:
        key = account.user, account.host, database, table, column
        yield OnColumn(*key, present.get(key, frozenset()))


def _check_table(session: SessionApi, place: tuple[str, str], columns: Iterable[str]) -> None:
    """Raises 1146; 1054 for an unknown column."""
    try:
        with session.services.store.read() as txn:
            info = session.services.schemas.table(txn, *place).info
            for column in columns:
                if info.column(column) is None:
                    raise ErrBadField(column, place[1])
    except Refused as error:
        raise ErrNoSuchTable(*place) if error.code == ErrBadDB.code else error from None


def _check_grantor(session: SessionApi, place: tuple[str, str], granted: frozenset[str]) -> None:
    rights, level = session.rights, _level(place)
    if level == "global":
        needed = granted - DYNAMIC if "SUPER" in rights.everywhere else granted
        if not rights.everywhere >= needed | {GRANT}:
            raise ErrAccessDenied(*session.account_name, "YES")
    elif level == "database":
        if not rights.on_database(place[0]) >= granted | {GRANT}:
            raise ErrDBaccessDenied(*session.account_name, place[0])
    elif not rights.on_table(*place) >= granted | {GRANT}:
        raise ErrTableaccessDenied("GRANT", *session.account_name, place[1])


# -- present privileges ----------------------------------------------------------------------------


def _present(book: Book, account: Account, place: tuple[str, str]) -> frozenset[str] | None:
    """The privileges granted in exactly this place, or None without such a grant."""
    level = _level(place)
    if level == "global":
        return account.privileges | account.dynamic
    if level == "database":
        rows = [e for e in book.databases if e[:2] == account[:2] and _same(e.database, place[0])]
        return rows[0].privileges if rows else None
    on_tables = [
        row
        for row in book.tables
        if row[:2] == account[:2] and _same(row.database, place[0]) and _same(row.table, place[1])
    ]
    return on_tables[0].privileges if on_tables else None


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def _put(
    session: SessionApi,
    txn: Transaction,
    account: Account,
    place: tuple[str, str],
    privileges: frozenset[str],
) -> None:
    level, (database, table) = _level(place), (place[0].lower(), place[1].lower())
    if level == "global":
        # GRANT OPTION for dynamic privileges is stored separately
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
                # older members would not delete the row of attributes with the role
                attributes = PLAIN if before_0_4(txn) else AccountAttributes(expired=True)
                role = Account(*name, passwords.NATIVE, "", frozenset(), True)
                put_account(txn, role._replace(attributes=attributes))
            elif node.if_not_exists:
                notes.append(
                    Note("Note", ErrUserAlreadyExists.code, f"User {quoted(name)} already exists.")
                )
            else:
                raise ErrCannotUser("CREATE ROLE", quoted(name))

    change(session, work)
    return Result(warnings=notes)


def drop_role(session: SessionApi, node: DropRole, text: str) -> Result:
    """DROP ROLE [IF EXISTS]: also revokes it from all accounts. Raises 1396."""
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
                raise ErrGrantRole(role_text(role))
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
            selected: Iterable[Name] = granted if node.kind == "all" else roles
            for role in selected:
                if role not in granted:
                    raise ErrRoleNotGranted(role_text(role), f"{user[0]}@{user[1]}")
            for role in book.roles.defaults_of(user):
                remove(txn, "default_roles", user[1], user[0], role[1], role[0])
            for role in selected:
                put_default(txn, user, role)

    change(session, work)
    return Result()


def set_role(session: SessionApi, node: SetRole, text: str) -> Result:
    """SET ROLE. Raises 3530."""
    accounts = session.services.accounts
    role_graph = Roles() if accounts is None else accounts.book.roles
    name = session.account_name
    granted, named_roles = role_graph.granted(name), _names(session, node.roles)
    if node.kind == "all":
        session.active_roles = tuple(role for role in granted if role not in named_roles)
    elif node.kind == "default":
        session.active_roles = role_graph.defaults_of(name)
    else:
        for role in named_roles:
            if role not in granted:
                raise ErrRoleNotGranted(role_text(role), f"{name[0]}@{name[1]}")
        session.active_roles = tuple(sorted(set(named_roles)))
    return Result()


def _names(session: SessionApi, roles: Iterable[Who]) -> list[Name]:
    return [named(session, who) for who in roles]


def _require_known(book: Book, what: str, names: Iterable[Name]) -> None:
    for name in names:
        if book.account(*name) is None:
            raise ErrCannotUser(what, f"{name[0]}@{name[1]}")


def _require_may_pass_on(session: SessionApi, role_graph: Roles, roles: Iterable[Name]) -> None:
    """Raises 1227 unless the account may grant all of these roles."""
    if not all(role_graph.may_pass_on(session.account_name, role) for role in roles):
        session.rights.demand_everywhere("SUPER", "ROLE_ADMIN")
