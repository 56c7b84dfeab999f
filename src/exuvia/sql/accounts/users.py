"""CREATE, ALTER, DROP and RENAME USER, SET PASSWORD, and the rows of accounts and privileges.

Each statement is one transaction, for all of its accounts or none. It commits the open transaction,
as a schema change does, but it is not a job. Every node reads the new rows within milliseconds.
"""

from collections.abc import Callable, Sequence
from functools import partial

from exuvia.base.errors import Conflict
from exuvia.base.limits import HOST_CHARS, USER_CHARS
from exuvia.base.mysql_errors import (
    ErrBadUser,
    ErrCannotUser,
    ErrExistsInHistoryPassword,
    ErrLockDeadlock,
    ErrPasswordExpireAnonymousUser,
    ErrPasswordFormat,
    ErrPasswordNoMatch,
    ErrPluginIsNotLoaded,
    ErrResourceGroupNotExists,
    ErrUnsupportedDDLOperation,
    ErrUserAlreadyExists,
    ErrWrongStringLength,
)
from exuvia.catalog import (
    account_attributes,
    login_failures,
    password_history,
    placement,
    reader,
    writer,
)
from exuvia.catalog.codec import key_codec
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.model import evolve
from exuvia.catalog.system_tables import planned
from exuvia.catalog.sysvar import variables
from exuvia.cluster.member import before_0_4
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes import (
    AT_ONCE,
    BY_VARIABLE,
    AccountOptions,
    AlterUser,
    CreateUser,
    DropUser,
    Identified,
    RenameUser,
    SetPassword,
    SetStatement,
    Statement,
    Who,
)
from exuvia.sql.privileges import password_policy, passwords
from exuvia.sql.privileges.accounts import (
    CHANNEL,
    Account,
    Book,
    Edge,
    Name,
    OnColumn,
    OnDatabase,
    OnTable,
    read,
)
from exuvia.sql.privileges.rights import DATABASE, DYNAMIC, GLOBAL, GRANT, column_of, word_of
from exuvia.sql.result import Note, Result
from exuvia.sql.statement.context import SessionApi

_NO, _YES = 1, 2


# -- rows of accounts ------------------------------------------------------------------------------


def put(txn: Transaction, table_name: str, facts: dict[str, object]) -> None:
    """Insert a row or replace the row with the same key. Columns that are not in `facts` are
    NULL."""
    table = planned(txn, table_name)
    row: Row = [facts.get(column.name.O) for column in table.info.cols]
    handle = key_codec.handle_of(table, row)
    old = reader.get(txn, table, handle)
    if old is None:
        writer.insert(txn, table, row)
    else:
        writer.update(txn, table, handle, old, row)


def remove(txn: Transaction, table_name: str, *key: str) -> None:
    """Remove the row with this key, if it exists."""
    table = planned(txn, table_name)
    handle = key_codec.handle_from(table, key)
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
        column_of(privilege): _YES if privilege in account.privileges else _NO
        for privilege in (*GLOBAL, GRANT)
    }
    put(txn, "user", facts)
    account_attributes.put(txn, account.user, account.host, account.attributes)
    for privilege in DYNAMIC - account.dynamic:
        remove(txn, "global_grants", account.user, account.host, privilege)
    for privilege in account.dynamic:
        option = _YES if privilege in account.grantable else _NO
        granted: dict[str, object] = {"USER": account.user, "HOST": account.host, "PRIV": privilege}
        put(txn, "global_grants", granted | {"WITH_GRANT_OPTION": option})


def put_database(txn: Transaction, row: OnDatabase) -> None:
    """Write a row of mysql.db, or remove it if no privilege remains."""
    if not row.privileges:
        remove(txn, "db", row.host, row.database, row.user)
        return
    facts: dict[str, object] = {"Host": row.host, "DB": row.database, "User": row.user}
    facts |= {
        column_of(privilege): _YES if privilege in row.privileges else _NO
        for privilege in (*DATABASE, GRANT)
    }
    put(txn, "db", facts)


def put_table(txn: Transaction, row: OnTable, grantor: str) -> None:
    """Write a row of mysql.tables_priv, or remove it if no privilege remains."""
    if not row.privileges:
        remove(txn, "tables_priv", row.host, row.database, row.user, row.table)
        return
    put(
        txn,
        "tables_priv",
        {
            "Host": row.host,
            "DB": row.database,
            "User": row.user,
            "Table_name": row.table,
            "Grantor": grantor,
            "Table_priv": _set_of(txn, "tables_priv", "Table_priv", row.privileges),
            "Column_priv": 0,
        },
    )


def _set_of(txn: Transaction, table_name: str, column_name: str, privileges: frozenset[str]) -> int:
    """The stored value of a SET of privileges."""
    words = {word_of(privilege) for privilege in privileges}
    column = planned(txn, table_name).info.column(column_name)
    elements = () if column is None else column.type.Elems or ()
    return sum(1 << n for n, word in enumerate(elements) if word in words)


def put_column(txn: Transaction, row: OnColumn) -> None:
    """Write a row of mysql.columns_priv, or remove it if no privilege remains."""
    if not row.privileges:
        remove(txn, "columns_priv", row.host, row.database, row.user, row.table, row.column)
        return
    facts: dict[str, object] = {
        "Host": row.host,
        "DB": row.database,
        "User": row.user,
        "Table_name": row.table,
        "Column_name": row.column,
        "Column_priv": _set_of(txn, "columns_priv", "Column_priv", row.privileges),
    }
    put(txn, "columns_priv", facts)


def put_edge(txn: Transaction, edge: Edge) -> None:
    """Write a row of mysql.role_edges."""
    facts: dict[str, object] = {
        "FROM_HOST": edge.role[1],
        "FROM_USER": edge.role[0],
        "TO_HOST": edge.to[1],
        "TO_USER": edge.to[0],
        "WITH_ADMIN_OPTION": _YES if edge.admin else _NO,
    }
    put(txn, "role_edges", facts)


def remove_edge(txn: Transaction, role: Name, account: Name) -> None:
    """Revoke a role from an account, also as a default role."""
    remove(txn, "role_edges", role[1], role[0], account[1], account[0])
    remove(txn, "default_roles", account[1], account[0], role[1], role[0])


def put_default(txn: Transaction, account: Name, role: Name) -> None:
    """Write a row of mysql.default_roles."""
    facts: dict[str, object] = {
        "HOST": account[1],
        "USER": account[0],
        "DEFAULT_ROLE_HOST": role[1],
        "DEFAULT_ROLE_USER": role[0],
    }
    put(txn, "default_roles", facts)


def move(txn: Transaction, book: Book, name: Name, new_name: Name | None) -> None:
    """Move all grants of an account to another name, or delete them without a new name.

    This includes grants of the account as a role."""
    nothing: frozenset[str] = frozenset()
    account_attributes.put(txn, *name, account_attributes.PLAIN)
    password_history.move(txn, *name, new_name)
    if new_name is not None:
        login_failures.put(txn, *new_name, login_failures.get(txn, *name))
    login_failures.put(txn, *name, login_failures.NONE)
    for on in book.databases:
        if on[:2] == name:
            put_database(txn, on._replace(privileges=nothing))
            if new_name is not None:
                put_database(txn, on._replace(user=new_name[0], host=new_name[1]))
    for row in book.tables:
        if row[:2] == name:
            put_table(txn, row._replace(privileges=nothing), "")
            if new_name is not None:
                put_table(txn, row._replace(user=new_name[0], host=new_name[1]), "")
    for column in book.columns:
        if column[:2] == name:
            put_column(txn, column._replace(privileges=nothing))
            if new_name is not None:
                put_column(txn, column._replace(user=new_name[0], host=new_name[1]))
    _move_roles(txn, book, name, new_name)


def _move_roles(txn: Transaction, book: Book, name: Name, new_name: Name | None) -> None:
    def after(old_name: Name) -> Name | None:
        return new_name if old_name == name else old_name

    defaults = [pair for pair in book.roles.defaults if name in pair]
    for edge in book.roles.edges:
        if name in (edge.role, edge.to):
            remove_edge(txn, edge.role, edge.to)
            role, to = after(edge.role), after(edge.to)
            if role is not None and to is not None:
                put_edge(txn, Edge(role, to, edge.admin))
    for account, role in defaults:
        remove(txn, "default_roles", account[1], account[0], role[1], role[0])
        new_account, new_role = after(account), after(role)
        if new_account is not None and new_role is not None:
            put_default(txn, new_account, new_role)
    for moved in book.accounts:
        if moved[:2] == name:
            for privilege in moved.dynamic:
                remove(txn, "global_grants", name[0], name[1], privilege)


# -- names and transactions ------------------------------------------------------------------------


def change(
    session: SessionApi, work: Callable[[Transaction, Book], None], writes: bool = True
) -> None:
    """Change accounts in one transaction and notify all nodes. `writes`: refused in read-only
    mode."""
    session.commit()
    services = session.services

    def write(txn: Transaction) -> None:
        services.member.guard(txn)
        if writes:
            session.admit_change(txn)
        work(txn, read(txn))
        txn.notify(CHANNEL)

    try:
        services.store.transact(write)
    except Conflict:
        raise ErrLockDeadlock() from None
    if services.accounts is not None:
        services.accounts.load()


def named(session: SessionApi, who: Who) -> Name:
    """User and host of a name in a statement. Raises 1470."""
    if who is None:
        return session.account_name
    check_lengths(*who)
    return who[0], who[1].lower()


def account_text(name: Name) -> str:
    """'user'@'host'."""
    return f"'{name[0]}'@'{name[1]}'"


# -- statements ------------------------------------------------------------------------------------


def _secret(session: SessionApi, identified: Identified, before: Account | None) -> tuple[str, str]:
    """(plugin, stored form of the password). Raises 1524, 1827."""
    usual = session.variable("default_authentication_plugin")
    plugin = identified.plugin or (before.plugin if before is not None else usual)
    if plugin not in passwords.PLUGINS:
        raise ErrPluginIsNotLoaded(plugin)
    if identified.stored is not None:
        if not passwords.is_stored(plugin, identified.stored):
            raise ErrPasswordFormat()
        return plugin, identified.stored
    if identified.password is not None:
        return plugin, passwords.stored(plugin, identified.password)
    if before is not None and identified.plugin is None:
        return plugin, before.stored
    return plugin, ""


def _put_with_password(
    session: SessionApi,
    txn: Transaction,
    account: Account,
    password: str | None,
    expired: bool = False,
) -> None:
    """Write an account that gets a new password. `password` None: only its stored form is known.

    Raises 1819, 3638."""
    if password is not None:
        names = (session.user, session.account_name[0])
        password_policy.demand(partial(variables.get_global, txn), names, password)
    if before_0_4(txn):  # such a member would not record the passwords that it sets
        put_account(txn, account)
        return
    name, wall_ns = account[:2], session.services.clock.wall_ns()
    rule = password_history.rule_of(txn, account.attributes)
    if account.stored:
        for stored in password_history.forbidden_passwords(txn, *name, rule, wall_ns):
            if stored == account.stored or (
                password is not None and passwords.is_of(stored, password)
            ):
                raise ErrExistsInHistoryPassword(*name)
        password_history.add(txn, *name, account.stored, rule, wall_ns)
    attributes = evolve(account.attributes, expired=expired, changed_s=wall_ns // 10**9)
    put_account(txn, account._replace(attributes=attributes))


def _with_options(txn: Transaction, account: Account, options: AccountOptions) -> Account:
    """The account with these options. Raises 8249, 3016, 8200."""
    before = account.attributes
    changes: dict[str, str | int | bool | None] = {
        "lifetime_days": _chosen(options.expire, before.lifetime_days),
        "history": _chosen(options.history, before.history),
        "reuse_days": _chosen(options.reuse_days, before.reuse_days),
    }
    if options.expire is not None and not account.user:
        raise ErrPasswordExpireAnonymousUser()
    if options.expire == AT_ONCE:
        changes |= {"expired": True, "lifetime_days": before.lifetime_days}
    for field in ("failed_attempts", "lock_days"):
        requested = getattr(options, field)
        changes[field] = getattr(before, field) if requested is None else requested
    if options.require is not None:
        changes["require"] = "" if options.require == "NONE" else options.require
    group = None
    if options.group is not None:
        group = placement.find_group(txn, options.group)
        if group is None:
            raise ErrResourceGroupNotExists(options.group)
        is_default = group.name.L == placement.DEFAULT_GROUP
        changes["resource_group"] = "" if is_default else group.name.O
    after = evolve(before, **changes)
    older = [member.title for member in before_0_4(txn)] if after != before or group else []
    if older:
        what = "RESOURCE GROUP" if group else "this option"
        serve = f"{what} of an account while {', '.join(older)} of an older release serves"
        raise ErrUnsupportedDDLOperation(serve)
    if group is not None and after.resource_group:
        placement.put_group(txn, group)  # a concurrent DROP of the group conflicts with this write
    locked = account.is_locked if options.locked is None else options.locked
    unlocks = options.locked is False
    if unlocks or options.failed_attempts is not None or options.lock_days is not None:
        login_failures.put(txn, account.user, account.host, login_failures.NONE)
    return account._replace(attributes=after, is_locked=locked)


def _chosen(requested: int | None, before: int | None) -> int | None:
    if requested is None:
        return before
    return None if requested == BY_VARIABLE else requested


def create_user(session: SessionApi, node: CreateUser, text: str) -> Result:
    """CREATE USER [IF NOT EXISTS]. Raises 1396 naming all that exist, 1470, 1524, 1827, 1819."""
    notes: list[Note] = []

    def work(txn: Transaction, book: Book) -> None:
        notes.clear()
        existing = []
        for identified in node.users:
            user, host = named(session, identified.who)
            if book.account(user, host) is not None:
                existing.append((user, host))
                continue
            plugin, stored = _secret(session, identified, None)
            account = Account(user, host, plugin, stored, frozenset())
            account = _with_options(txn, account, node.options)
            password = identified.password or "" if identified.stored is None else None
            _put_with_password(session, txn, account, password, node.options.expire == AT_ONCE)
        if existing and not node.if_not_exists:
            raise ErrCannotUser("CREATE USER", ",".join(map(account_text, existing)))
        notes.extend(
            Note("Note", ErrUserAlreadyExists.code, f"User {account_text(name)} already exists.")
            for name in existing
        )

    change(session, work)
    return Result(warnings=notes)


def alter_user(session: SessionApi, node: AlterUser, text: str) -> Result:
    """ALTER USER [IF EXISTS]. Raises 1396 naming all that are missing, 1524, 1827, 1819, 3638."""
    notes: list[Note] = []

    def work(txn: Transaction, book: Book) -> None:
        notes.clear()
        missing = []
        for identified in node.users:
            name = named(session, identified.who)
            account = book.account(*name)
            if account is None:
                missing.append(name)
                continue
            plugin, stored = _secret(session, identified, account)
            account = _with_options(txn, account, node.options)
            account = account._replace(plugin=plugin, stored=stored)
            if _has_password(identified):
                expired = node.options.expire == AT_ONCE
                _put_with_password(session, txn, account, identified.password, expired)
            else:
                put_account(txn, account)
        _missing(notes, "ALTER USER", missing, node.if_exists)

    change(session, work)
    for changed_user in node.users:
        is_own = named(session, changed_user.who) == session.account_name
        if is_own and _has_password(changed_user) and node.options.expire != AT_ONCE:
            session.must_change_password = False
    return Result(warnings=notes)


def _has_password(identified: Identified) -> bool:
    return identified.password is not None or identified.stored is not None


def ends_expiry(session: SessionApi, node: Statement) -> bool:
    """Whether a session whose password has expired may run the statement.

    Statements that change its password are allowed, and SET of session variables, which clients
    send when they connect."""
    if isinstance(node, AlterUser):
        own = [named(session, identified.who) == session.account_name for identified in node.users]
        return own == [True] and _has_password(node.users[0])
    if isinstance(node, SetPassword):
        return named(session, node.who) == session.account_name
    if not isinstance(node, SetStatement):
        return False
    return all(assignment.scope != "global" for assignment in node.assignments)


def drop_user(session: SessionApi, node: DropUser, text: str) -> Result:
    """DROP USER [IF EXISTS]: removes the account and its grants. Raises 1396."""
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
    """RENAME USER a TO b, with all grants. Raises 1396."""

    def work(txn: Transaction, book: Book) -> None:
        for old, new in node.pairs:
            name, new_name = named(session, old), named(session, new)
            account = book.account(*name)
            if account is None or book.account(*new_name) is not None:
                raise ErrCannotUser(
                    "RENAME USER", f"{account_text(name)} TO {account_text(new_name)}"
                )
            remove(txn, "user", name[1], name[0])
            put_account(txn, account._replace(user=new_name[0], host=new_name[1]))
            move(txn, book, name, new_name)

    change(session, work)
    return Result()


def _missing(notes: list[Note], what: str, names: Sequence[Name], forgiven: bool) -> None:
    if names and not forgiven:
        raise ErrCannotUser(what, ",".join(map(account_text, names)))
    notes.extend(
        Note("Note", ErrBadUser.code, f"User {account_text(name)} does not exist.")
        for name in names
    )


def set_password(session: SessionApi, node: SetPassword, text: str) -> Result:
    """SET PASSWORD [FOR account] = 'text'. Raises 1133, 1819, 3638."""
    name = named(session, node.who)

    def work(txn: Transaction, book: Book) -> None:
        account = book.account(*name)
        if account is None:
            raise ErrPasswordNoMatch()
        stored = passwords.stored(account.plugin, node.password)
        _put_with_password(session, txn, account._replace(stored=stored), node.password)

    change(session, work)
    if name == session.account_name:
        session.must_change_password = False
    return Result()


_SHOWN_CHARS = 70  # printed characters of a name that is too long


def check_lengths(user: str, host: str) -> None:
    """Raises 1470 for a name that is too long."""
    for text, what, most in ((user, "user name", USER_CHARS), (host, "host name", HOST_CHARS)):
        if len(text) > most:
            raise ErrWrongStringLength(text[:_SHOWN_CHARS], what, most)
