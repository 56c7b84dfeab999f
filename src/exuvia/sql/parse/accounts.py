"""Parsers of statements about accounts (MySQL manual, "Account Management Statements")."""

from exuvia.base.mysql_errors import ErrNotSupportedYet, ErrWrongValue
from exuvia.catalog.account_attributes import UNBOUNDED
from exuvia.sql.nodes import (
    AT_ONCE,
    BY_VARIABLE,
    AccountOptions,
    AlterUser,
    CreateRole,
    CreateUser,
    DropRole,
    DropUser,
    Grant,
    GrantLevel,
    GrantRoles,
    Identified,
    Node,
    OnColumns,
    RenameUser,
    Revoke,
    RevokeRoles,
    SetDefaultRole,
    SetPassword,
    SetRole,
    ShowGrants,
    Who,
)
from exuvia.sql.parse.columns import as_written, word_or_string
from exuvia.sql.parse.cursor import TokenCursor

_OBJECTS = ("TABLE", "FUNCTION", "PROCEDURE")
_MOST = 65535  # days, or passwords in the history
_MOST_FAILURES = 32767  # also days of a lock; a greater number is reduced to this, as in TiDB


def account(cursor: TokenCursor) -> Who:
    """Parses user[@host]; returns None for CURRENT_USER."""
    if cursor.accept_any("CURRENT_USER", "USER"):
        if cursor.accept("("):
            cursor.expect(")")
        return None
    user = as_written(cursor)
    if not cursor.done and cursor.peek() == "@":
        cursor.take()
        return user, word_or_string(cursor)
    token = cursor.token
    if token is not None and token.text.startswith("@"):
        cursor.take()
        return user, token.text[1:]
    return user, "%"


def _identified(cursor: TokenCursor) -> Identified:
    who = account(cursor)
    if not cursor.accept("IDENTIFIED"):
        return Identified(who)
    plugin = word_or_string(cursor) if cursor.accept("WITH") else None
    if cursor.accept("BY"):
        if cursor.accept("PASSWORD"):
            return Identified(who, plugin, None, cursor.string())
        if cursor.accept("RANDOM", "PASSWORD"):
            raise ErrNotSupportedYet("RANDOM PASSWORD")
        return Identified(who, plugin, cursor.string())
    if cursor.accept("AS"):
        return Identified(who, plugin, None, cursor.string())
    if plugin is None:
        raise cursor.error()
    return Identified(who, plugin)


def _options(cursor: TokenCursor) -> AccountOptions:
    """Parses the options after the accounts; the last of duplicate options counts.

    Raises 1525, and 1235 for unsupported options."""
    options: dict[str, bool | int | str] = {}
    while not cursor.done:
        if cursor.accept("ACCOUNT"):
            word = cursor.accept_any("LOCK", "UNLOCK")
            if not word:
                raise cursor.error()
            options["locked"] = word == "LOCK"
        elif cursor.accept("RESOURCE", "GROUP"):
            options["group"] = "default" if cursor.accept("DEFAULT") else cursor.name()
        elif cursor.accept("REQUIRE"):
            options["require"] = cursor.accept_any("NONE", "SSL")
            if not options["require"]:
                raise ErrNotSupportedYet(f"REQUIRE {cursor.peek()} of an account")
        elif cursor.accept("PASSWORD"):
            _password_option(cursor, options)
        elif cursor.accept("FAILED_LOGIN_ATTEMPTS"):
            options["failed_attempts"] = min(cursor.integer(), _MOST_FAILURES)
        elif cursor.accept("PASSWORD_LOCK_TIME"):
            unbounded = cursor.accept("UNBOUNDED")
            options["lock_days"] = UNBOUNDED if unbounded else min(cursor.integer(), _MOST_FAILURES)
        elif cursor.at_any(("WITH", "COMMENT", "ATTRIBUTE", "DEFAULT")):
            raise ErrNotSupportedYet(f"{cursor.peek()} of an account")
        else:
            raise cursor.error()
    return AccountOptions(**options)  # type: ignore[arg-type]


def _password_option(cursor: TokenCursor, options: dict[str, bool | int | str]) -> None:
    if cursor.accept("EXPIRE"):
        if cursor.accept("DEFAULT"):
            options["expire"] = BY_VARIABLE
        elif cursor.accept("NEVER"):
            options["expire"] = 0
        else:
            options["expire"] = _days(cursor, 1) if cursor.accept("INTERVAL") else AT_ONCE
    elif cursor.accept("HISTORY"):
        is_usual = cursor.accept("DEFAULT")
        options["history"] = BY_VARIABLE if is_usual else _counted(cursor, "PASSWORD HISTORY", 0)
    elif cursor.accept("REUSE", "INTERVAL"):
        options["reuse_days"] = BY_VARIABLE if cursor.accept("DEFAULT") else _days(cursor, 0)
    elif cursor.accept("REQUIRE", "CURRENT"):
        if not cursor.accept("DEFAULT"):
            raise ErrNotSupportedYet("PASSWORD REQUIRE CURRENT of an account")
    else:
        raise cursor.error()


def _days(cursor: TokenCursor, least: int) -> int:
    days = _counted(cursor, "DAY", least)
    cursor.expect("DAY")
    return days


def _counted(cursor: TokenCursor, option: str, least: int) -> int:
    number = cursor.integer()
    if not least <= number <= _MOST:
        raise ErrWrongValue(option, number)
    return number


def create_user(cursor: TokenCursor) -> Node:
    """CREATE USER, after these words."""
    absent = cursor.accept("IF", "NOT", "EXISTS")
    users = cursor.listed(lambda: _identified(cursor))
    return CreateUser(users, absent, _options(cursor))


def alter_user(cursor: TokenCursor) -> Node:
    """ALTER USER, after these words."""
    present = cursor.accept("IF", "EXISTS")
    users = cursor.listed(lambda: _identified(cursor))
    return AlterUser(users, present, _options(cursor))


def drop_user(cursor: TokenCursor) -> Node:
    """DROP USER, after these words."""
    present = cursor.accept("IF", "EXISTS")
    return DropUser(cursor.listed(lambda: account(cursor)), present)


def rename_user(cursor: TokenCursor) -> Node:
    """RENAME USER, after these words."""

    def pair() -> tuple[Who, Who]:
        old = account(cursor)
        cursor.expect("TO")
        return old, account(cursor)

    return RenameUser(cursor.listed(pair))


def grant(cursor: TokenCursor) -> Node:
    """GRANT privileges ON place TO accounts [WITH GRANT OPTION]; GRANT roles TO accounts."""
    cursor.take()
    start = cursor.position
    privileges, on_columns = _privileges(cursor, "TO")
    if not cursor.accept("ON"):
        cursor.position = start
        return grant_roles(cursor)
    place = _place(cursor)
    cursor.expect("TO")
    users = cursor.listed(lambda: _identified(cursor))
    with_grant = cursor.accept("WITH", "GRANT", "OPTION")
    return Grant(privileges, place, users, with_grant, on_columns)


def revoke(cursor: TokenCursor) -> Node:
    """REVOKE privileges ON place FROM accounts | REVOKE ALL PRIVILEGES, GRANT OPTION FROM ... |
    REVOKE roles FROM accounts."""
    cursor.take()
    start = cursor.position
    privileges, on_columns = _privileges(cursor, "FROM")
    place = _place(cursor) if cursor.accept("ON") else None
    if place is None and set(privileges) != {"ALL", "GRANT OPTION"}:
        cursor.position = start
        return revoke_roles(cursor)
    cursor.expect("FROM")
    users = cursor.listed(lambda: account(cursor))
    return Revoke(privileges, place, users, on_columns)


def _privileges(cursor: TokenCursor, end: str) -> tuple[tuple[str, ...], OnColumns]:
    privileges = cursor.listed(lambda: _privilege(cursor, end))
    whole = tuple(name for name, columns in privileges if not columns)
    return whole, tuple((name, columns) for name, columns in privileges if columns)


def _privilege(cursor: TokenCursor, end: str) -> tuple[str, tuple[str, ...]]:
    words: list[str] = []
    columns: tuple[str, ...] = ()
    while not cursor.done and not cursor.at_any((",", "ON", end)):
        if words and cursor.accept("("):
            columns = cursor.listed(cursor.name)
            cursor.expect(")")
            break
        words.append(cursor.take().text.upper())
    if not words:
        raise cursor.error()
    name = " ".join(words)
    return "ALL" if name == "ALL PRIVILEGES" else name, columns


# -- roles -----------------------------------------------------------------------------------------


def _accounts(cursor: TokenCursor) -> tuple[Who, ...]:
    return cursor.listed(lambda: account(cursor))


def create_role(cursor: TokenCursor) -> Node:
    """CREATE ROLE, after these words."""
    absent = cursor.accept("IF", "NOT", "EXISTS")
    return CreateRole(_accounts(cursor), absent)


def drop_role(cursor: TokenCursor) -> Node:
    """DROP ROLE, after these words."""
    present = cursor.accept("IF", "EXISTS")
    return DropRole(_accounts(cursor), present)


def grant_roles(cursor: TokenCursor) -> Node:
    """GRANT roles TO accounts [WITH ADMIN OPTION], after GRANT."""
    roles = _accounts(cursor)
    cursor.expect("TO")
    users = _accounts(cursor)
    return GrantRoles(roles, users, cursor.accept("WITH", "ADMIN", "OPTION"))


def revoke_roles(cursor: TokenCursor) -> Node:
    """REVOKE roles FROM accounts, after REVOKE."""
    roles = _accounts(cursor)
    cursor.expect("FROM")
    return RevokeRoles(roles, _accounts(cursor))


def set_role(cursor: TokenCursor) -> Node:
    """SET ROLE, after these words."""
    word = cursor.accept_any("NONE", "DEFAULT", "ALL").lower()
    if word == "all" and cursor.accept("EXCEPT"):
        return SetRole("all", _accounts(cursor))
    return SetRole(word) if word else SetRole("these", _accounts(cursor))


def set_default_role(cursor: TokenCursor) -> Node:
    """SET DEFAULT ROLE, after these words."""
    kind = cursor.accept_any("NONE", "ALL").lower()
    roles = () if kind else _accounts(cursor)
    cursor.expect("TO")
    return SetDefaultRole(kind or "these", roles, _accounts(cursor))


def _place(cursor: TokenCursor) -> GrantLevel:
    is_named = cursor.at_any(_OBJECTS) and cursor.peek(1) != "."
    if is_named and cursor.take().text.upper() != "TABLE":
        raise ErrNotSupportedYet("privileges of routines")
    if cursor.accept("*"):
        if cursor.accept("."):
            cursor.expect("*")
            return GrantLevel("*", "*")
        return GrantLevel(None, "*")
    first = cursor.name()
    if not cursor.accept("."):
        return GrantLevel(None, first)
    return GrantLevel(first, "*" if cursor.accept("*") else cursor.name())


def set_password(cursor: TokenCursor) -> Node:
    """[FOR account] = 'text' | PASSWORD('text'), after SET PASSWORD."""
    who = account(cursor) if cursor.accept("FOR") else None
    cursor.expect("=")
    if cursor.accept("PASSWORD", "("):
        password = cursor.string()
        cursor.expect(")")
    else:
        password = cursor.string()
    return SetPassword(who, password)


def show_grants(cursor: TokenCursor) -> Node:
    """SHOW GRANTS, after these words."""
    who = account(cursor) if cursor.accept("FOR") else None
    return ShowGrants(who, roles=_accounts(cursor) if cursor.accept("USING") else ())


def show_create_user(cursor: TokenCursor) -> Node:
    """SHOW CREATE USER, after these words."""
    return ShowGrants(account(cursor), create=True)
