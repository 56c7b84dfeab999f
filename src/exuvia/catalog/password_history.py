"""Passwords that accounts had: mysql.password_history, as TiDB has it.

A row for each password that was set while a rule of the account (or the global one) keeps it from
being set again; the password of now is among them. Rows that no rule asks for are removed when the
next password is set.
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
    """Not one of the last `history` passwords, and none that was set within `days`."""

    history: int
    days: int


def rule_of(txn: Transaction, attributes: AccountAttributes) -> ReuseRule:
    """What holds for an account: its own, or the global variables'."""
    history, days = attributes.history, attributes.reuse_days
    return ReuseRule(
        variables.read_int(txn, "password_history") if history is None else history,
        variables.read_int(txn, "password_reuse_interval") if days is None else days,
    )


def barred(txn: Transaction, user: str, host: str, rule: ReuseRule, wall_ns: int) -> list[str]:
    """What is stored of the passwords that must not be set again."""
    oldest = packed_moment(max(0, wall_ns - rule.days * DAY_S * 10**9))
    return [
        str(row[3])
        for n, (_, row) in enumerate(_newest(txn, user, host))
        if n < rule.history or (rule.days and row[2] >= oldest)
    ]


def add(txn: Transaction, user: str, host: str, stored: str, rule: ReuseRule, wall_ns: int) -> None:
    """Note the password that is set now; forget those that the rule does not ask for."""
    table = _table(txn)
    if table is None:
        return
    kept = barred(txn, user, host, ReuseRule(max(0, rule.history - 1), rule.days), wall_ns)
    rows = list(_newest(txn, user, host))
    for handle, row in rows[len(kept) :]:
        writer.delete(txn, table, handle, row)
    if rule.history or rule.days:
        latest = max((int(row[2]) for _, row in rows), default=0)
        moment = packed_moment(wall_ns)
        if moment <= latest:  # it is of the key, and clocks of nodes differ
            moment = add_micro(latest, 1) or moment
        writer.insert(txn, table, [host, user, moment, stored])


def move(txn: Transaction, user: str, host: str, wanted: tuple[str, str] | None) -> None:
    """The account has another name, or is dropped."""
    table = _table(txn)
    for handle, row in [] if table is None else list(_newest(txn, user, host)):
        assert table is not None
        writer.delete(txn, table, handle, row)
        if wanted is not None:
            writer.insert(txn, table, [wanted[1], wanted[0], *row[2:]])


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
