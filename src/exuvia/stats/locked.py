"""mysql.stats_table_locked: tables whose statistics stand still, and what was done to them then.

LOCK STATS t      a row                          analyses leave the table alone
writes            added to that row              mysql.stats_meta stays as it is
UNLOCK STATS t    given back to stats_meta       and the row goes
"""

from collections.abc import Iterable
from typing import NamedTuple

from exuvia.catalog import reader, writer
from exuvia.catalog.system_tables import planned
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

TABLE = "stats_table_locked"


class Locked(NamedTuple):
    """A locked (physical) table; `modified` and `rows` wait for UNLOCK STATS."""

    table_id: int
    modified: int = 0
    rows: int = 0
    version: int = 0


def get(txn: Transaction, table_id: int) -> Locked | None:
    """The lock of a (physical) table."""
    row = reader.get(txn, planned(txn, TABLE), keys.i64(table_id))
    return None if row is None else Locked._make(row)


def all_of(txn: Transaction) -> frozenset[int]:
    """Ids of everything that is locked."""
    return frozenset(row[0] for _, row in reader.scan(txn, planned(txn, TABLE)))


def lock(txn: Transaction, table_ids: Iterable[int]) -> None:
    """Lock what is not locked yet."""
    for table_id in table_ids:
        if get(txn, table_id) is None:
            writer.insert(txn, planned(txn, TABLE), list(Locked(table_id)))


def add(txn: Transaction, table_id: int, rows: int, modified: int, version: int) -> bool:
    """Keep what sessions did to a locked table; False where it is not locked."""
    known = get(txn, table_id)
    if known is None:
        return False
    later = Locked(table_id, known.modified + modified, known.rows + rows, version)
    writer.update(txn, planned(txn, TABLE), keys.i64(table_id), list(known), list(later))
    return True


def unlock(txn: Transaction, table_id: int) -> Locked | None:
    """Take the lock away; what waited in it, None where there was none."""
    known = get(txn, table_id)
    if known is not None:
        writer.delete(txn, planned(txn, TABLE), keys.i64(table_id), list(known))
    return known
