"""Consecutive failed logins, and the accounts they locked: mysql.exuvia_login_failures.

    no row            the last login succeeded, or no login has failed since
    failures n        n consecutive failures
    locked_at t       the limit was reached: locked for `lock_days` from then on

All nodes count in the same rows, and a login is judged in the transaction that counts it. So one of
two concurrent guesses sees the count of the other. Only accounts with a limit are counted, and the
first successful login after failures. A login to a locked account writes nothing, so a client
without a password cannot keep the store busy.

The counts are not in the accounts' rows, because each node reloads all accounts when one changes.
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
        """The state after the next login, if the account is not locked."""
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


def put(txn: Transaction, user: str, host: str, failures: LoginFailures) -> None:
    """Write the row of an account, or remove it after a successful login."""
    table = planned(txn, TABLE)
    if not meta.revision(txn, table.info.id):
        return  # an older program's store, before a new node creates the table
    handle = key_codec.handle_from(table, (host, user))
    old, row = reader.get(txn, table, handle), [host, user, *failures]
    if failures == NONE:
        if old is not None:
            writer.delete(txn, table, handle, old)
    elif old is None:
        writer.insert(txn, table, row)
    elif old != row:
        writer.update(txn, table, handle, old, row)


def record(store: Store, user: str, host: str, is_proved: bool, now_s: int) -> None:
    """Count a login with a right or a wrong password.

    Raises 3955 if earlier failures, or this one, lock the account. Raises Conflict if too many fail
    at once: the login is not counted then, and must be refused."""

    def work(txn: Transaction) -> tuple[AccountAttributes, LoginFailures]:
        attributes = account_attributes.get(txn, user, host)
        before = get(txn, user, host)
        if before.locks(attributes, now_s) or not attributes.counts_failures:
            return attributes, before
        after = before.after(attributes, is_proved, now_s)
        put(txn, user, host, after)
        return attributes, after

    attributes, failures = store.transact(work)
    if failures.locks(attributes, now_s):
        days, remaining_days = str(attributes.lock_days), _UNLIMITED
        if attributes.lock_days == UNBOUNDED:
            days = _UNLIMITED
        else:
            remaining_days = str(
                ceil(attributes.lock_days - (now_s - failures.locked_at_s) / DAY_S)
            )
        raise ErrUserAccessDeniedForUserAccountBlockedByPasswordLock(
            user, host, days, remaining_days, attributes.failed_attempts
        )
