"""The accounts of a store, in a node's memory.

    mysql.user  db  tables_priv  columns_priv  --load--> Book --find--> Account --rights--> Rights
    mysql.role_edges  default_roles  global_grants
         ^                                               |
         `-- CREATE USER, GRANT ... wake "privileges" ---'      every node loads within milliseconds

At every statement a session checks the `rights` of its account, which costs one comparison until
the book changes. Without the tables (a store that is being upgraded) everybody has all privileges.

Roles are accounts that are granted to accounts. The grants are a graph:

    role --edge--> account        mysql.role_edges
    account -> default roles      mysql.default_roles; active from the login on
    mandatory_roles               granted to everybody, by that variable

A role's own roles are active with it. Cycles are allowed.
"""

import hmac
import ipaddress
import re
import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from exuvia.catalog import account_attributes, login_failures, meta, reader
from exuvia.catalog.account_attributes import PLAIN, AccountAttributes
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.convert.values import to_text
from exuvia.catalog.system_tables import planned
from exuvia.catalog.sysvar import variables
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.sql.matching import name_matcher
from exuvia.sql.privileges import passwords
from exuvia.sql.privileges.rights import (
    ALL,
    DATABASE,
    GLOBAL,
    GRANT,
    OnColumn,
    OnDatabase,
    OnTable,
    Rights,
    column_of,
    word_of,
)

Name = tuple[str, str]
"""User and host."""

_ROLE = re.compile(
    r"""\s*(?:'([^']*)'|"([^"]*)"|`([^`]*)`|([^\s@,'"`]+))"""
    r"""(?:@(?:'([^']*)'|"([^"]*)"|`([^`]*)`|([^\s,'"`]+)))?\s*(?:,|$)"""
)


class Edge(NamedTuple):
    """A row of mysql.role_edges: the role was granted `to` an account."""

    role: Name
    to: Name
    admin: bool = False


class Roles(NamedTuple):
    """The graph of granted roles."""

    edges: tuple[Edge, ...] = ()
    defaults: tuple[tuple[Name, Name], ...] = ()  # account, role
    mandatory: tuple[Name, ...] = ()

    def granted(self, account: Name) -> tuple[Name, ...]:
        """The roles granted to the account itself and to everybody, by name."""
        own = {edge.role for edge in self.edges if edge.to == account}
        return tuple(sorted(own.union(self.mandatory) - {account}))

    def defaults_of(self, account: Name) -> tuple[Name, ...]:
        """The roles that are active from its login on, by name."""
        return tuple(sorted(role for one, role in self.defaults if one == account))

    def reachable(self, account: Name, active: Iterable[Name]) -> set[Name]:
        """Those of the active roles that were granted to it, and all roles granted to these."""
        granted = self._closure([account]) | set(self.mandatory)
        return self._closure([role for role in active if role in granted], with_ends=True)

    def may_pass_on(self, account: Name, role: Name) -> bool:
        """Whether it was granted the role WITH ADMIN OPTION."""
        return any(edge == (role, account, True) for edge in self.edges)

    def _closure(self, ends: list[Name], with_ends: bool = False) -> set[Name]:
        names: set[Name] = set(ends) if with_ends else set()
        waiting = list(ends)
        while waiting:
            name = waiting.pop()
            for edge in self.edges:
                if edge.to == name and edge.role not in names:
                    names.add(edge.role)
                    waiting.append(edge.role)
        return names


NOBODY = Roles()


def names_of(text: str) -> tuple[Name, ...]:
    """The accounts that a variable's text lists."""
    names = []
    for match in _ROLE.finditer(text):
        user = next((part for part in match.groups()[:4] if part), "")
        host = next((part for part in match.groups()[4:] if part), "%")
        if user:
            names.append((user, host.lower()))
    return tuple(names)


def role_text(name: Name) -> str:
    """`role`@`host`, in the format of CURRENT_ROLE()."""
    return f"`{name[0]}`@`{name[1]}`"


# -- accounts --------------------------------------------------------------------------------------

__all__ = ["ALL", "Account", "Accounts", "Book", "OnColumn", "OnDatabase", "OnTable", "Rights"]

CHANNEL = "privileges"
_YES = "Y"
_LOOK_S = 1.0
_LOOPBACK = ("127.", "::1")


class Account(NamedTuple):
    """A row of mysql.user. `host` is a name, an address, a pattern with % and _, or a network."""

    user: str
    host: str
    plugin: str
    stored: str
    privileges: frozenset[str]
    is_locked: bool = False
    dynamic: frozenset[str] = frozenset()  # from mysql.global_grants
    grantable: frozenset[str] = frozenset()  # dynamic privileges that it may grant
    attributes: AccountAttributes = PLAIN

    @property
    def title(self) -> str:
        """'user'@'host'."""
        return f"'{self.user}'@'{self.host}'"


class Book(NamedTuple):
    """All accounts, the most specific host first."""

    accounts: tuple[Account, ...]
    databases: tuple[OnDatabase, ...]
    tables: tuple[OnTable, ...]
    columns: tuple[OnColumn, ...] = ()
    roles: Roles = NOBODY
    lifetime_days: int = 0  # default_password_lifetime

    def find(self, user: str, host: str) -> Account | None:
        """The account for a client's login; `host` is its address."""
        for account in self.accounts:
            if account.user in (user, "") and _matches(account.host, host):
                return account
        return None

    def stand_in(self, user: str) -> Account:
        """The account for logins with an unknown name. No password matches it.

        Its plugin is one of those that existing accounts have. The name and a secret of the server
        choose the plugin, so it is stable and does not reveal that the account does not exist."""
        with_password = [account for account in self.accounts if account.stored]
        plugins = sorted({account.plugin for account in with_password}) or [passwords.NATIVE]
        secret = min((account[:4] for account in with_password), default=("",))[-1].encode()
        place = hmac.digest(secret, user.encode(), "sha256")[0] % len(plugins)
        plugin = plugins[place]
        return Account(user, "%", plugin, passwords.unmatched(plugin), frozenset())

    def account(self, user: str, host: str) -> Account | None:
        """The account with exactly this user and host, or None."""
        return next((a for a in self.accounts if (a.user, a.host) == (user, host.lower())), None)

    def is_expired(self, account: Account, now_s: int) -> bool:
        """Whether its password has to be changed before any other statement."""
        return account.attributes.is_expired(self.lifetime_days, now_s)

    def rights(self, account: Account, active: Iterable[Name] = ()) -> Rights:
        """Its own privileges and those of the given roles, if they were granted to it."""
        roles = self.roles.reachable(account[:2], active)
        names = {account[:2], *roles}
        everywhere = account.privileges | account.dynamic
        for grantee in self.accounts:
            if grantee[:2] in roles:
                everywhere |= grantee.privileges | grantee.dynamic
        return Rights(
            everywhere,
            [row for row in self.databases if row[:2] in names],
            [row for row in self.tables if row[:2] in names],
            [row for row in self.columns if row[:2] in names],
            account[:2],
        )


class Accounts:
    """A node's book. The loop loads it when the channel wakes it. Thread-safe: books are
    immutable."""

    channel = CHANNEL

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.version = 0
        self.book = Book((), (), ())
        self._hashes: dict[tuple[str, str], tuple[str, bytes]] = {}
        self._definers: dict[Name, tuple[Book, Rights | None]] = {}
        self._turns: defaultdict[Name, threading.Lock] = defaultdict(threading.Lock)
        self.load()

    def step(self, now: float) -> float:
        """Load the book. Returns the seconds until the next look."""
        self.load()
        return _LOOK_S

    def load(self) -> None:
        """Read the committed rows."""
        # one load at a time: else a load with an older snapshot may end last
        with self._lock, self._store.read() as txn:
            book = read(txn)
            if book != self.book:
                self.book = book
                self.version += 1

    def record_login(self, account: Account, is_proved: bool, now_s: int) -> None:
        """Count a login of an account that is locked after failures.

        Reads and writes the store. Waits for other logins of the account on this node, because they
        would conflict. Raises 3955, Conflict."""
        with self._turns[account[:2]]:
            login_failures.record(self._store, account.user, account.host, is_proved, now_s)

    def rights_of_definer(self, user: str, host: str, by_name: bool) -> Rights | None:
        """The rights of a view's definer with its default roles, or None without such an account.

        `by_name`: any account of that user matches. Views created before hosts were stored have the
        host `%` for every definer."""
        book, name = self.book, (user, host.lower())
        cached = self._definers.get(name)
        if cached is None or cached[0] is not book:
            account = book.account(*name)
            if account is None and by_name:
                account = next(
                    (candidate for candidate in book.accounts if candidate.user == user), None
                )
            rights = None
            if account is not None:
                rights = book.rights(account, book.roles.defaults_of(account[:2]))
            cached = self._definers[name] = book, rights
        return cached[1]

    def remembered(self, account: Account) -> bytes:
        """The double hash remembered for the present password, or b""."""
        stored, twice = self._hashes.get(account[:2], ("", b""))
        return twice if stored == account.stored else b""

    def remember(self, account: Account, twice: bytes) -> None:
        """Remember the double hash of a verified password; passwords.py explains its use."""
        self._hashes[account[:2]] = account.stored, twice


def read(txn: Transaction) -> Book:
    """The book of a snapshot."""
    dynamic: dict[Name, dict[str, bool]] = {}
    for row in rows(txn, "global_grants"):
        mine = dynamic.setdefault((row["USER"], row["HOST"].lower()), {})
        mine[row["PRIV"]] = row["WITH_GRANT_OPTION"] == _YES
    more = {
        (user, host.lower()): attributes for user, host, attributes in account_attributes.every(txn)
    }
    accounts = [_account(row, dynamic) for row in rows(txn, "user")]
    accounts = [account._replace(attributes=more.get(account[:2], PLAIN)) for account in accounts]
    accounts.sort(key=specific)
    databases = [
        OnDatabase(row["User"], row["Host"].lower(), row["DB"], _yes(row, (*DATABASE, GRANT)))
        for row in rows(txn, "db")
    ]
    tables = [
        OnTable(
            *(row["User"], row["Host"].lower(), row["DB"], row["Table_name"]),
            _words(row["Table_priv"]),
        )
        for row in rows(txn, "tables_priv")
    ]
    columns = [
        OnColumn(
            *(row["User"], row["Host"].lower(), row["DB"], row["Table_name"], row["Column_name"]),
            _words(row["Column_priv"]),
        )
        for row in rows(txn, "columns_priv")
    ]
    days = variables.read_int(txn, "default_password_lifetime")
    return Book(tuple(accounts), tuple(databases), tuple(tables), tuple(columns), _roles(txn), days)


def _roles(txn: Transaction) -> Roles:
    edges = [
        Edge(
            (row["FROM_USER"], row["FROM_HOST"].lower()),
            (row["TO_USER"], row["TO_HOST"].lower()),
            row["WITH_ADMIN_OPTION"] == _YES,
        )
        for row in rows(txn, "role_edges")
    ]
    defaults = [
        (
            (row["USER"], row["HOST"].lower()),
            (row["DEFAULT_ROLE_USER"], row["DEFAULT_ROLE_HOST"].lower()),
        )
        for row in rows(txn, "default_roles")
    ]
    mandatory = names_of(variables.get_global(txn, "mandatory_roles"))
    return Roles(tuple(edges), tuple(defaults), mandatory)


def _words(text: str) -> frozenset[str]:
    """The privileges in the text of a SET."""
    return frozenset(_PRIVILEGE[word] for word in text.split(",") if word in _PRIVILEGE)


_PRIVILEGE = {word_of(privilege): privilege for privilege in (*GLOBAL, GRANT)}


def rows(txn: Transaction, name: str) -> Iterable[dict[str, str]]:
    """The rows of a system table as texts by column. No rows if the store has no such table yet."""
    table = planned(txn, name)
    if not meta.revision(txn, table.info.id):
        return
    for _, row in reader.scan(txn, table):
        yield texts(row, table.info.cols)


def texts(row: Row, columns: Iterable[object]) -> dict[str, str]:
    """The row as texts by column."""
    return {
        column.name.O: "" if value is None else to_text(value, column.type)  # type: ignore[attr-defined]
        for value, column in zip(row, columns, strict=True)
    }


def _account(row: dict[str, str], dynamic: dict[Name, dict[str, bool]]) -> Account:
    name = row["User"], row["Host"].lower()
    mine = dynamic.get(name, {})
    return Account(
        *name,
        row["plugin"],
        row["authentication_string"],
        _yes(row, (*GLOBAL, GRANT)),
        row["Account_locked"] == _YES,
        frozenset(mine),
        frozenset(privilege for privilege, grantable in mine.items() if grantable),
    )


def _yes(row: dict[str, str], names: Iterable[str]) -> frozenset[str]:
    return frozenset(privilege for privilege in names if row.get(column_of(privilege)) == _YES)


def specific(account: Account) -> tuple[int, int, bool]:
    """The sort key of accounts: names and addresses, networks, then patterns, longest prefix first.

    Named users precede accounts for anybody."""
    host = account.host
    wild = [host.find(sign) for sign in "%_" if sign in host]
    kind = 2 if wild else 1 if "/" in host else 0
    return kind, -min(wild, default=len(host)), not account.user


def _matches(account_host: str, host: str) -> bool:
    """Whether a client's address matches an account's host."""
    if account_host == "localhost" and is_loopback(host):
        return True
    if "/" in account_host:
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(account_host, strict=False)
        except ValueError:
            return False
    return name_matcher(account_host)(host)


def is_loopback(host: str) -> bool:
    """Whether the client is on this machine."""
    return host in ("", "localhost") or host.startswith(_LOOPBACK)
