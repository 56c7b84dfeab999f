"""The accounts of a store, in a node's memory.

    mysql.user  mysql.db  mysql.tables_priv  --load--> Book --find--> Account --rights--> Rights
         ^                                               |
         `-- CREATE USER, GRANT ... wake "privileges" ---'      every node loads within milliseconds

A session asks `rights` of its account at every statement, which costs one comparison until the book
changes. Without the tables (a store that is being upgraded) everybody is as root was.
"""

import ipaddress
import threading
from collections.abc import Iterable
from fnmatch import translate
from functools import cache
from re import IGNORECASE, Pattern
from re import compile as pattern
from typing import NamedTuple

from exuvia.catalog import meta, reader
from exuvia.catalog.layout import Row
from exuvia.catalog.system_rows import planned
from exuvia.catalog.values import to_text
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.sql.privileges.names import DATABASE, EVERYTHING, GLOBAL, GRANT, column_of, word_of

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

    @property
    def shown(self) -> str:
        """'user'@'host'."""
        return f"'{self.user}'@'{self.host}'"


class OnDatabase(NamedTuple):
    """A row of mysql.db. `database` may have % and _."""

    user: str
    host: str
    database: str
    privileges: frozenset[str]


class OnTable(NamedTuple):
    """A row of mysql.tables_priv."""

    user: str
    host: str
    database: str
    table: str
    privileges: frozenset[str]


class Rights:
    """What one account may do. `everything`: no question needs an answer."""

    def __init__(
        self,
        everywhere: frozenset[str],
        databases: Iterable[OnDatabase] = (),
        tables: Iterable[OnTable] = (),
    ) -> None:
        self.everywhere = everywhere
        self.everything = everywhere >= EVERYTHING
        self._databases = [(_like(each.database), each.privileges) for each in databases]
        self._tables = {
            (each.database.lower(), each.table.lower()): each.privileges for each in tables
        }

    def on_database(self, database: str) -> frozenset[str]:
        """Privileges for all of a database."""
        found = self.everywhere
        for like, privileges in self._databases:
            if like.fullmatch(database):
                found |= privileges
        return found

    def on_table(self, database: str, table: str) -> frozenset[str]:
        """Privileges for a table."""
        mine = self._tables.get((database.lower(), table.lower()), frozenset())
        return self.on_database(database) | mine

    def sees_database(self, database: str) -> bool:
        """Whether it may know that the database is there."""
        if self.on_database(database) - {GRANT}:
            return True
        return any(place[0] == database.lower() for place in self._tables)

    def sees_table(self, database: str, table: str) -> bool:
        """Whether it may know that the table is there."""
        return bool(self.on_table(database, table) - {GRANT})


ALL = Rights(EVERYTHING)


class Book(NamedTuple):
    """All accounts, the most specific host first."""

    accounts: tuple[Account, ...]
    databases: tuple[OnDatabase, ...]
    tables: tuple[OnTable, ...]

    def find(self, user: str, host: str) -> Account | None:
        """The account a client is let in as; `host` is its address."""
        for each in self.accounts:
            if each.user in (user, "") and _matches(each.host, host):
                return each
        return None

    def account(self, user: str, host: str) -> Account | None:
        """The account of exactly that name."""
        return next((a for a in self.accounts if (a.user, a.host) == (user, host.lower())), None)

    def rights(self, account: Account) -> Rights:
        """What it may do."""
        place = account[:2]
        databases = [each for each in self.databases if each[:2] == place]
        tables = [each for each in self.tables if each[:2] == place]
        return Rights(account.privileges, databases, tables)


class Accounts:
    """A node's book; stepped when the channel wakes it. Thread-safe: a book is never changed."""

    channel = CHANNEL

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.version = 0
        self.book = Book((), (), ())
        self._hashes: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.load()

    def step(self, now: float) -> float:
        """Load; seconds until the next look."""
        self.load()
        return _LOOK_S

    def load(self) -> None:
        """Read what is committed."""
        txn = self._store.begin()
        try:
            found = read(txn)
        finally:
            txn.rollback()
        with self._lock:
            if found != self.book:
                self.book = found
                self.version += 1

    def remembered(self, account: Account) -> bytes:
        """The double hash that was noted for what is stored now, or b""."""
        stored, twice = self._hashes.get(account[:2], ("", b""))
        return twice if stored == account.stored else b""

    def remember(self, account: Account, twice: bytes) -> None:
        """Its password has been seen: see passwords.py."""
        self._hashes[account[:2]] = account.stored, twice


def read(txn: Transaction) -> Book:
    """The book as a snapshot has it."""
    accounts = [_account(row) for row in rows(txn, "user")]
    accounts.sort(key=specific)
    databases = [
        OnDatabase(row["User"], row["Host"].lower(), row["DB"], _yes(row, (*DATABASE, GRANT)))
        for row in rows(txn, "db")
    ]
    words = {word_of(each): each for each in (*GLOBAL, GRANT)}
    tables = [
        OnTable(
            *(row["User"], row["Host"].lower(), row["DB"], row["Table_name"]),
            frozenset(words[word] for word in row["Table_priv"].split(",") if word in words),
        )
        for row in rows(txn, "tables_priv")
    ]
    return Book(tuple(accounts), tuple(databases), tuple(tables))


def rows(txn: Transaction, name: str) -> Iterable[dict[str, str]]:
    """Rows of a system table as texts by column; none where the store has not got it yet."""
    table = planned(txn, name)
    if not meta.revision(txn, table.info.id):
        return
    for _, row in reader.scan(txn, table):
        yield texts(row, table.info.cols)


def texts(row: Row, columns: Iterable[object]) -> dict[str, str]:
    """A row as texts."""
    return {
        column.name.O: "" if value is None else to_text(value, column.type)  # type: ignore[attr-defined]
        for value, column in zip(row, columns, strict=True)
    }


def _account(row: dict[str, str]) -> Account:
    return Account(
        row["User"],
        row["Host"].lower(),
        row["plugin"],
        row["authentication_string"],
        _yes(row, (*GLOBAL, GRANT)),
        row["Account_locked"] == _YES,
    )


def _yes(row: dict[str, str], names: Iterable[str]) -> frozenset[str]:
    return frozenset(each for each in names if row.get(column_of(each)) == _YES)


def specific(account: Account) -> tuple[int, int, bool]:
    """What accounts are sorted by: names and addresses, networks, patterns, of these the long ones
    first; users before accounts for anybody."""
    host = account.host
    wild = [host.find(sign) for sign in "%_" if sign in host]
    kind = 2 if wild else 1 if "/" in host else 0
    return kind, -min(wild, default=len(host)), not account.user


@cache
def _like(text: str) -> Pattern[str]:
    """A pattern of LIKE."""
    found, escaped = [], False
    for sign in text:
        if sign == "\\" and not escaped:
            escaped = True
            continue
        found.append("*" if sign == "%" and not escaped else "?" if sign == "_" and not escaped
                     else f"[{sign}]" if sign in "*?[" else sign)  # fmt: skip
        escaped = False
    return pattern(translate("".join(found)), IGNORECASE)


def _matches(wanted: str, host: str) -> bool:
    """Whether a client's address is one of an account's host."""
    if wanted == "localhost" and is_loopback(host):
        return True
    if "/" in wanted:
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(wanted, strict=False)
        except ValueError:
            return False
    return _like(wanted).fullmatch(host) is not None


def is_loopback(host: str) -> bool:
    """Whether a client is on this machine."""
    return host in ("", "localhost") or host.startswith(_LOOPBACK)
