"""Rows of system tables whose only key is their clustered primary key: accounts, facts, settings.

The bootstrap writes its rows unfenced, since the revisions they would be fenced by appear in the
very same transaction. Everybody else writes through catalog/writer.py, or with `fence` first.
"""

from functools import lru_cache

from exuvia import __version__
from exuvia.catalog import meta
from exuvia.catalog.codec import key_codec
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.system_tables import DATABASES, MYSQL_ID, SYSTEM
from exuvia.catalog.table import Table
from exuvia.kv.transaction import Transaction

_NO, _YES = 1, 2  # positions in enum('N','Y')
ROOT = ("%", "root", "", "mysql_native_password")


def planned(txn: Transaction, name: str) -> Table:
    """A system table at the revision of the transaction's snapshot (0 before the bootstrap)."""
    info = SYSTEM[name]
    return _planned(name, meta.revision(txn, info.id), meta.database_revision(txn, MYSQL_ID))


@lru_cache(maxsize=64)
def _planned(name: str, revision: int, database_revision: int) -> Table:
    return Table(SYSTEM[name], revision, DATABASES[-1], database_revision)


def place(txn: Transaction, table: Table, row: Row) -> None:
    """Write a row, over what may stand under its key. The table has no index but its handle."""
    key = table.row_prefix + key_codec.handle_of(table, row)
    txn.put(key, table.encoder.encode(row))


def fill(txn: Transaction, format_version: int) -> None:
    """The rows a store begins with: root without a password, and facts of the bootstrap."""
    users, facts = planned(txn, "user"), planned(txn, "tidb")
    privileges = [_YES] * (len(users.info.cols) - len(ROOT) - 1)
    place(txn, users, [*ROOT, *privileges, _NO])
    for row in (
        ["bootstrapped", "True", "Bootstrap flag. Do not delete."],
        ["tidb_server_version", str(format_version), "Bootstrap version. Do not delete."],
        ["exuvia_version", __version__, "The version that filled this store."],
    ):
        place(txn, facts, row)
