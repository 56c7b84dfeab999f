"""What an account has beside its privileges and its password: mysql.exuvia_user_attributes.

A row as JSON for an account of which something is said, none for all others. mysql.user has the
columns it has had since 0.1.0: older nodes read and write its rows whole, and would lose more.
Clients read them there all the same (`system_tables.SHOWN_USER`).
"""

from collections.abc import Iterator

import msgspec

from exuvia.catalog import meta, reader, writer
from exuvia.catalog.codec import key_codec
from exuvia.catalog.system_tables import planned
from exuvia.kv.transaction import Transaction

TABLE = "exuvia_user_attributes"


DAY_S = 86400
UNBOUNDED = -1
"""`lock_days` of an account that stays locked until somebody unlocks it."""


class AccountAttributes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`resource_group`: kept and shown; "": none is said. `require`: SSL or "".

    `changed_s`: when the password was set, in seconds since 1970; 0: before anybody noted it, or
    while members of an older release served. `lifetime_days` (0: for ever), `history`,
    `reuse_days` None: what the global variable says. `failed_attempts` in a row lock the account
    for `lock_days`, unless one of the two is 0."""

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
        """Whether the password has to be changed now. `usual_days`: default_password_lifetime."""
        days = usual_days if self.lifetime_days is None else self.lifetime_days
        too_old = days > 0 and 0 < self.changed_s < now_s - days * DAY_S
        return self.expired or too_old


PLAIN = AccountAttributes()
_decoder = msgspec.json.Decoder(AccountAttributes)


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
    """Write the row of an account; remove it where nothing is said."""
    table = planned(txn, TABLE)
    if not meta.revision(txn, table.info.id):
        return  # an older program's store, before a new node has made the table
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
    wanted = group.lower()
    return tuple(user for user, _, each in every(txn) if each.resource_group.lower() == wanted)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
