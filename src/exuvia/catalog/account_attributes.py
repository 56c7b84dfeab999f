"""What an account has beside its privileges and its password: mysql.exuvia_user_attributes.

A row as JSON for an account of which something is said, none for all others. mysql.user has the
columns it has had since 0.1.0: older nodes read and write its rows whole, and would lose more.
"""

from collections.abc import Iterator

import msgspec

from exuvia.catalog import meta, reader, writer
from exuvia.catalog.codec import key_codec
from exuvia.catalog.system_tables import planned
from exuvia.kv.transaction import Transaction

TABLE = "exuvia_user_attributes"


class AccountAttributes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`resource_group`: kept and shown; "": none is said."""

    resource_group: str = ""


PLAIN = AccountAttributes()
_decoder = msgspec.json.Decoder(AccountAttributes)


def every(txn: Transaction) -> Iterator[tuple[str, str, AccountAttributes]]:
    """(user, host, attributes) of the accounts that have a row."""
    table = planned(txn, TABLE)
    if meta.revision(txn, table.info.id):
        for _, row in reader.scan(txn, table):
            yield _text(row[1]), _text(row[0]), _decoder.decode(_text(row[2]))


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
