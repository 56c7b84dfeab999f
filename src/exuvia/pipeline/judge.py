"""Keys of a unique index that the fill found taken, one by one, each in one snapshot (law 6).

    entry at the key        row of our handle          other handle's row    verdict
    ours                    -                          -                     settled
    anything                gone, or has another key   -                     settled by its writer
    tombstone, or nothing   has the key                -                     ours is put
    another handle's        has the key                has the key           a duplicate
    another handle's        has the key                has not               left to verification

Ours is put only if row and entry are still as the snapshot showed them; otherwise it is judged
again.
"""

from dataclasses import dataclass
from enum import Enum

from exuvia.base.errors import Conflict, Duplicate
from exuvia.catalog import reader, writer
from exuvia.catalog.codec import key_codec
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.entry import LIVE, Kind, is_live
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.task import Found, Order

_TRIES = 20


class Verdict(Enum):
    """What became of a taken key."""

    SETTLED = 1
    PLACED = 2


@dataclass(frozen=True)
class Judge:
    """Judges keys of one unique index for a reorg."""

    store: Store
    order: Order
    table: Table
    index: IndexInfo

    def taken(self, key: bytes, handle: bytes) -> Verdict | Found:
        """Judge one key for the row of `handle`.

        Raises Conflict if writers never leave it alone, Deposed."""
        for _ in range(_TRIES - 1):
            try:
                return self._once(key, handle)
            except Conflict:
                continue
        return self._once(key, handle)

    def _once(self, key: bytes, handle: bytes) -> Verdict | Found:
        txn = self.store.begin()
        try:
            held = txn.get(key)
            mine = LIVE + handle
            if held == mine or not has_key(txn, self.table, self.index, handle, key):
                return Verdict.SETTLED
            if held is not None and is_live(held):
                return self._against(txn, key, handle, held[1:])
            for fence in self.order.fences:
                txn.require_equal(*fence)
            txn.require(self.table.row_prefix + handle)
            txn.require(key)
            txn.write(Kind.CLAIM, key, mine)
            txn.commit()
            return Verdict.PLACED
        finally:
            txn.rollback()

    def _against(
        self, txn: Transaction, key: bytes, handle: bytes, other: bytes
    ) -> Verdict | Found:
        if not has_key(txn, self.table, self.index, other, key):
            return Verdict.SETTLED
        return Found(self.index.id, key, handle, other, entry_text(self.table, key, other))


def has_key(txn: Transaction, table: Table, index: IndexInfo, handle: bytes, key: bytes) -> bool:
    """Whether the row of this handle exists in the snapshot and has this key."""
    row = reader.get(txn, table, handle)
    return row is not None and key_codec.index_key(table, index, row, handle)[0] == key


def entry_text(table: Table, key: bytes, handle: bytes) -> str:
    """The key's value as 1062 prints it."""
    return writer.explain_duplicate(table, Duplicate(key, handle)).message
