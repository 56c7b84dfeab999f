"""AUTO_INCREMENT values and hidden row ids, handed out in blocks.

    store: last id given to anybody   m/auto/{table}, m/rowid/{table}
    here:  a block (next, last]       16 ids at first, twice as many each time, at most 4096

A block is taken in a transaction of its own, before the row's, so that sessions never wait for each
other's counters. Ids are unique, and ascending within a node; two nodes interleave blocks, and the
rest of a block is lost when its node ends, as in TiDB.
"""

import threading
from collections.abc import Callable
from typing import Literal

from exuvia.base.errors import Conflict, SchemaChanged
from exuvia.base.mysql import refuse
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

Kind = Literal["auto", "rowid"]
FIRST_BLOCK = 16
MOST_BLOCK = 4096
LAST_ID = (1 << 63) - 1
_ANY = (1 << 64) - 1


class _Block:
    """What this process may still hand out: `next` to `last`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.next = 1
        self.last = 0
        self.size = FIRST_BLOCK


class IdAllocator:
    """Thread-safe; one per process and store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._blocks: dict[tuple[int, str], _Block] = {}

    def next(self, table_id: int, kind: Kind = "auto", count: int = 1) -> int:
        """The first of `count` consecutive ids. SchemaChanged if the table is gone; 1467."""
        block = self._block(table_id, kind)
        with block.lock:
            if block.last - block.next + 1 < count:
                self._refill(table_id, kind, block, count)
            first = block.next
            block.next += count
            return first

    def rebase(self, table_id: int, value: int, kind: Kind = "auto") -> None:
        """A row took `value` by itself: this node gives out neither it nor a smaller one."""
        block = self._block(table_id, kind)
        with block.lock:
            if value < block.next:
                return
            if value > block.last:
                self._raise(table_id, kind, value)
                block.last = value
            block.next = value + 1

    def peek(self, txn: Transaction, table_id: int, kind: Kind = "auto") -> int:
        """The id a node without a block would be given next; for SHOW."""
        return keys.read_number(txn.get(keys.meta(kind, table_id))) + 1

    def forget(self, table_id: int) -> None:
        """Drop this node's blocks of a table: its counter was set by a schema change."""
        with self._lock:
            for known in [each for each in self._blocks if each[0] == table_id]:
                del self._blocks[known]

    def _block(self, table_id: int, kind: Kind) -> _Block:
        with self._lock:
            return self._blocks.setdefault((table_id, kind), _Block())

    def _refill(self, table_id: int, kind: Kind, block: _Block, count: int) -> None:
        size = max(block.size, count)
        last = self._change(table_id, kind, lambda held: held + size)
        if last - size != block.last:
            block.next = last - size + 1
        block.last = last
        block.size = min(2 * block.size, MOST_BLOCK)

    def _raise(self, table_id: int, kind: Kind, value: int) -> None:
        self._change(table_id, kind, lambda held: max(held, min(value, LAST_ID)))

    def _change(self, table_id: int, kind: Kind, to: Callable[[int], int]) -> int:
        while True:
            txn = self._store.begin()
            key = keys.meta(kind, table_id)
            held = keys.read_number(txn.get(key))
            wanted = to(held)
            if wanted > LAST_ID:
                txn.rollback()
                raise refuse(1467)
            try:
                if wanted != held:
                    txn.require_at_most(keys.revision(table_id), _ANY)
                    txn.put(key, keys.number(wanted))
                    txn.commit()
                return wanted
            except SchemaChanged:
                raise  # the table is gone
            except Conflict:
                continue  # another node took a block
            finally:
                txn.rollback()
