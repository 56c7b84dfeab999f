"""Former passwords of accounts: mysql.password_history, as in TiDB.

There is a row for each password that a reuse rule of the account, or the global one, forbids,
including the current password. Setting a password removes the rows that no rule needs.
"""

from collections.abc import Iterator
from typing import NamedTuple

from exuvia.base.types import packed_moment
from exuvia.catalog import meta, reader, writer
from exuvia.catalog.account_attributes import DAY_S, AccountAttributes
from exuvia.catalog.codec import key_codec
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.system_tables import planned
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.catalog.temporal import add_micro
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

TABLE = "password_history"


class ReuseRule(NamedTuple):
    """Forbids the last `history` passwords, and those set within `days`."""

    history: int
    days: int


def rule_of(txn: Transaction, attributes: AccountAttributes) -> ReuseRule:
    """The rule of an account, or of the global variables."""
    history, days = attributes.history, attributes.reuse_days
    return ReuseRule(
        variables.read_int(txn, "password_history") if history is None else history,
        variables.read_int(txn, "password_reuse_interval") if days is None else days,
    )


def forbidden_passwords(
    txn: Transaction, user: str, host: str, rule: ReuseRule, wall_ns: int
) -> list[str]:
    """The stored forms of the passwords that must not be set again."""
    oldest = packed_moment(max(0, wall_ns - rule.days * DAY_S * 10**9))
    return [
        str(row[3])
        for n, (_, row) in enumerate(_newest(txn, user, host))
        if n < rule.history or (rule.days and row[2] >= oldest)
    ]


def add(txn: Transaction, user: str, host: str, stored: str, rule: ReuseRule, wall_ns: int) -> None:
    """Record the new password; remove those that the rule does not need."""
    table = _table(txn)
    if table is None:
        return
    retained = forbidden_passwords(
        txn, user, host, ReuseRule(max(0, rule.history - 1), rule.days), wall_ns
    )
    rows = list(_newest(txn, user, host))
    for handle, row in rows[len(retained) :]:
        writer.delete(txn, table, handle, row)
    if rule.history or rule.days:
        latest = max((int(row[2]) for _, row in rows), default=0)
        moment = packed_moment(wall_ns)
        if moment <= latest:  # the time is part of the key, and clocks of nodes differ
            moment = add_micro(latest, 1) or moment
        writer.insert(txn, table, [host, user, moment, stored])


def move(txn: Transaction, user: str, host: str, renamed: tuple[str, str] | None) -> None:
    """Rename the rows of an account, or remove those of a dropped one (without `renamed`)."""
    table = _table(txn)
    for handle, row in [] if table is None else list(_newest(txn, user, host)):
        assert table is not None
        writer.delete(txn, table, handle, row)
        if renamed is not None:
            writer.insert(txn, table, [renamed[1], renamed[0], *row[2:]])


def _table(txn: Transaction) -> Table | None:
    table = planned(txn, TABLE)
    return table if meta.revision(txn, table.info.id) else None


def _newest(txn: Transaction, user: str, host: str) -> Iterator[tuple[bytes, Row]]:
    table = _table(txn)
    if table is None:
        return
    (primary,) = table.info.index_info or ()
    head = key_codec.encode_values(table, primary, (host, user))
    yield from reader.scan(txn, table, keys.span_of(table.row_prefix + head), reverse=True)
