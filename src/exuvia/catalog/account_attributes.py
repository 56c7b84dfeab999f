"""Attributes of an account other than privileges and password: mysql.exuvia_user_attributes.

An account with attributes has a row of JSON; others have no row. The columns of mysql.user are
those of 0.1.0, because older nodes read and write its rows whole and would lose more. Clients still
see the attributes in mysql.user (`system_tables.SHOWN_USER`).
"""

from collections.abc import Iterator

import msgspec

from exuvia.base.decoding import json_decoder
from exuvia.catalog import meta, reader, writer
from exuvia.catalog.codec import key_codec
from exuvia.catalog.system_tables import planned
from exuvia.kv.transaction import Transaction

TABLE = "exuvia_user_attributes"


DAY_S = 86400
UNBOUNDED = -1
"""`lock_days` of an account that stays locked until an administrator unlocks it."""


class AccountAttributes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`resource_group`: stored and shown only; "" if not set. `require`: SSL or "".

    `changed_s`: the time of the last password change, in seconds since 1970; 0 if unknown, as from
    an older release. `lifetime_days` (0: for ever), `history`, `reuse_days`: None for the global
    variable's value. After `failed_attempts` consecutive failures the account is locked for
    `lock_days`, unless one of the two is 0."""

    resource_group: str = ""
    require: str = ""
    expired: bool = False
    changed_s: int = 0
    lifetime_days: int | None = None
    history: int | None = None
    reuse_days: int | None = None
    failed_attempts: int = 0
    lock_days: int = 0

    @property
    def counts_failures(self) -> bool:
        return self.failed_attempts > 0 and self.lock_days != 0

    def is_expired(self, usual_days: int, now_s: int) -> bool:
        """Whether the password must be changed now. `usual_days`: default_password_lifetime."""
        days = usual_days if self.lifetime_days is None else self.lifetime_days
        too_old = days > 0 and 0 < self.changed_s < now_s - days * DAY_S
        return self.expired or too_old


PLAIN = AccountAttributes()
_decoder = json_decoder(AccountAttributes)


def every(txn: Transaction) -> Iterator[tuple[str, str, AccountAttributes]]:
    """(user, host, attributes) of the accounts that have a row."""
    table = planned(txn, TABLE)
    if meta.revision(txn, table.info.id):
        for _, row in reader.scan(txn, table):
            yield _text(row[1]), _text(row[0]), _decoder.decode(_text(row[2]))


def get(txn: Transaction, user: str, host: str) -> AccountAttributes:
    table = planned(txn, TABLE)
    if not meta.revision(txn, table.info.id):
        return PLAIN
    row = reader.get(txn, table, key_codec.handle_from(table, (host, user)))
    return PLAIN if row is None else _decoder.decode(_text(row[2]))


def put(txn: Transaction, user: str, host: str, attributes: AccountAttributes) -> None:
    """Write the row of an account, or remove it if it has no attributes."""
    table = planned(txn, TABLE)
    if not meta.revision(txn, table.info.id):
        return  # an older program's store, before a new node creates the table
    handle = key_codec.handle_from(table, (host, user))
    old = reader.get(txn, table, handle)
    if attributes == PLAIN:
        if old is not None:
            writer.delete(txn, table, handle, old)
        return
    row = [host, user, msgspec.json.encode(attributes).decode()]
    if old is None:
        writer.insert(txn, table, row)
    elif old != row:
        writer.update(txn, table, handle, old, row)


def users_in(txn: Transaction, group: str) -> tuple[str, ...]:
    """Names of the accounts of a resource group."""
    group_name = group.lower()
    return tuple(
        user
        for user, _, attributes in every(txn)
        if attributes.resource_group.lower() == group_name
    )


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
