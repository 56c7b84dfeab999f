"""Logins that failed in a row, and the accounts that they locked: mysql.exuvia_login_failures.

    no row            the last login was right, or nobody failed since
    failures n        so many failed in a row
    locked_at t       as many as the account allows: locked for `lock_days` from then on

Every node counts in the same rows, and a login is judged in the transaction that counts it: of two
guesses at once one sees what the other left. Written are only failures of accounts that count them,
and the first right login behind one. What finds the account locked writes nothing, so that nobody
keeps a store busy who knows no password.

Not in the accounts' own rows: each node reads all accounts anew when one of those changes.
"""

from math import ceil
from typing import NamedTuple

from exuvia.base.mysql_errors import ErrUserAccessDeniedForUserAccountBlockedByPasswordLock
from exuvia.catalog import account_attributes, meta, reader, writer
from exuvia.catalog.account_attributes import DAY_S, UNBOUNDED, AccountAttributes
from exuvia.catalog.codec import key_codec
from exuvia.catalog.system_tables import planned
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

TABLE = "exuvia_login_failures"
_UNLIMITED = "unlimited"


class LoginFailures(NamedTuple):
    """`locked_at_s`: seconds since 1970; 0: not locked."""

    failures: int = 0
    locked_at_s: int = 0

    def locks(self, attributes: AccountAttributes, now_s: int) -> bool:
        if not self.locked_at_s or not attributes.counts_failures:
            return False
        days = attributes.lock_days
        return days == UNBOUNDED or now_s - self.locked_at_s <= days * DAY_S

    def after(self, attributes: AccountAttributes, is_proved: bool, now_s: int) -> "LoginFailures":
        """What the next login leaves, where the account is not locked."""
        if is_proved:
            return NONE
        failures = 1 if self.locked_at_s else self.failures + 1
        return LoginFailures(failures, now_s if failures >= attributes.failed_attempts else 0)


NONE = LoginFailures()


def get(txn: Transaction, user: str, host: str) -> LoginFailures:
    table = planned(txn, TABLE)
    if not meta.revision(txn, table.info.id):
        return NONE
    row = reader.get(txn, table, key_codec.handle_from(table, (host, user)))
    return NONE if row is None else LoginFailures(*row[2:])


def put(txn: Transaction, user: str, host: str, found: LoginFailures) -> None:
    """Write the row of an account; remove it where nothing has failed."""
    table = planned(txn, TABLE)
    if not meta.revision(txn, table.info.id):
        return  # an older program's store, before a new node has made the table
    handle = key_codec.handle_from(table, (host, user))
    old, row = reader.get(txn, table, handle), [host, user, *found]
    if found == NONE:
        if old is not None:
            writer.delete(txn, table, handle, old)
    elif old is None:
        writer.insert(txn, table, row)
    elif old != row:
        writer.update(txn, table, handle, old, row)


def record(store: Store, user: str, host: str, is_proved: bool, now_s: int) -> None:
    """A login of an account, by a right password or a wrong one. Raises 3955 where it is locked by
    failures before, or by this one; Conflict where too many fail at once: it is not counted then,
    and must be refused."""

    def work(txn: Transaction) -> tuple[AccountAttributes, LoginFailures]:
        attributes = account_attributes.get(txn, user, host)
        before = get(txn, user, host)
        if before.locks(attributes, now_s) or not attributes.counts_failures:
            return attributes, before
        after = before.after(attributes, is_proved, now_s)
        put(txn, user, host, after)
        return attributes, after

    attributes, found = store.transact(work)
    if found.locks(attributes, now_s):
        days, left = str(attributes.lock_days), _UNLIMITED
        if attributes.lock_days == UNBOUNDED:
            days = _UNLIMITED
        else:
            left = str(ceil(attributes.lock_days - (now_s - found.locked_at_s) / DAY_S))
        raise ErrUserAccessDeniedForUserAccountBlockedByPasswordLock(
            user, host, days, left, attributes.failed_attempts
        )
