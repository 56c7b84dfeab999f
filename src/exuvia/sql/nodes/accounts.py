"""Statements about accounts and privileges, as written."""

from exuvia.sql.nodes.parts import Node

Who = tuple[str, str] | None
"""User and host; None is CURRENT_USER."""


class Identified(Node, frozen=True):
    """One account of CREATE or ALTER USER. `password` and `stored` (AS '...') None: not said."""

    who: Who
    plugin: str | None = None
    password: str | None = None
    stored: str | None = None


class CreateUser(Node, frozen=True):
    """CREATE USER. `locked` None: not said."""

    users: tuple[Identified, ...]
    if_not_exists: bool = False
    locked: bool | None = None


class AlterUser(Node, frozen=True):
    """ALTER USER."""

    users: tuple[Identified, ...]
    if_exists: bool = False
    locked: bool | None = None


class DropUser(Node, frozen=True):
    """DROP USER."""

    users: tuple[Who, ...]
    if_exists: bool = False


class RenameUser(Node, frozen=True):
    """RENAME USER."""

    pairs: tuple[tuple[Who, Who], ...]


class GrantLevel(Node, frozen=True):
    """What a grant is on: *.* is ("*", "*"), db.* is (db, "*"); database None: the current one."""

    database: str | None
    table: str


OnColumns = tuple[tuple[str, tuple[str, ...]], ...]
"""Privilege, columns; ..."""


class Grant(Node, frozen=True):
    """GRANT. `privileges` in upper case; ("ALL",) for all of them."""

    privileges: tuple[str, ...]
    place: GrantLevel
    users: tuple[Identified, ...]
    with_grant: bool = False
    on_columns: OnColumns = ()


class Revoke(Node, frozen=True):
    """REVOKE; `place` None is REVOKE ALL PRIVILEGES, GRANT OPTION FROM."""

    privileges: tuple[str, ...]
    place: GrantLevel | None
    users: tuple[Who, ...]
    on_columns: OnColumns = ()


class SetPassword(Node, frozen=True):
    """SET PASSWORD [FOR who] = 'text'."""

    who: Who
    password: str


class ShowGrants(Node, frozen=True):
    """SHOW GRANTS [FOR who [USING roles]], SHOW CREATE USER who."""

    who: Who = None
    create: bool = False
    roles: tuple[Who, ...] = ()


class CreateRole(Node, frozen=True):
    """CREATE ROLE."""

    roles: tuple[Who, ...]
    if_not_exists: bool = False


class DropRole(Node, frozen=True):
    """DROP ROLE."""

    roles: tuple[Who, ...]
    if_exists: bool = False


class GrantRoles(Node, frozen=True):
    """GRANT roles TO accounts."""

    roles: tuple[Who, ...]
    users: tuple[Who, ...]
    with_admin: bool = False


class RevokeRoles(Node, frozen=True):
    """REVOKE roles FROM accounts."""

    roles: tuple[Who, ...]
    users: tuple[Who, ...]


class SetRole(Node, frozen=True):
    """SET ROLE. kind: "none", "default", "all" (but `roles`), "these"."""

    kind: str
    roles: tuple[Who, ...] = ()


class SetDefaultRole(Node, frozen=True):
    """SET DEFAULT ROLE ... TO accounts. kind: "none", "all", "these"."""

    kind: str
    roles: tuple[Who, ...]
    users: tuple[Who, ...]
