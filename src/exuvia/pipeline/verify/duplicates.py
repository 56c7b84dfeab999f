"""Keys that a unique index would hold twice: the fill found them taken, they are judged one by one,
each in one snapshot (law 6).

    entry at the key        row of our handle          other handle's row    verdict
    ours                    -                          -                     settled
    anything                gone, or has another key   -                     settled by its writer
    tombstone, or nothing   has the key                -                     ours is put
    another handle's        has the key                has the key           a duplicate
    another handle's        has the key                has not               left to verification

Ours is put only if row and entry are still as the snapshot showed them; otherwise it is judged
again. Duplicates are told to people:

    Duplicate entry '7' for key 't.ua' (2 duplicates: '7' of id 3 and id 9, '8' of id 4 and id 5)

A key that n rows have counts n - 1 times. `Look` is taken before there is a job, of small tables;
what comes later, and large tables, are judged by the fill (`Judge`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from exuvia.base.counted import MOST_LISTED, counted
from exuvia.base.errors import Conflict, Duplicate, Refused
from exuvia.base.mysql_errors import ErrDupEntry, ErrInvalidUseOfNull
from exuvia.catalog import reader, writer
from exuvia.catalog.codec import key_codec, row_batch
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.packet import LIVE, Snapshot, WriteKind, is_live
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.entries import CHUNK_ROWS, positions_of
from exuvia.pipeline.order import as_bytes
from exuvia.pipeline.task import MOST_DUPLICATES, FoundDuplicate, TaskOrder
from exuvia.pipeline.verify.judge import row_name

_TRIES = 20


class DuplicateVerdict(Enum):
    """What became of a taken key."""

    SETTLED = 1
    PLACED = 2


@dataclass(frozen=True)
class Judge:
    """Judges keys of one unique index for a reorg."""

    store: Store
    order: TaskOrder
    table: Table
    index: IndexInfo

    def taken(self, key: bytes, handle: bytes) -> DuplicateVerdict | FoundDuplicate:
        """Judge one key for the row of `handle`.

        Raises Conflict if writers never leave it alone, Deposed."""
        for _ in range(_TRIES - 1):
            try:
                return self._once(key, handle)
            except Conflict:
                continue
        return self._once(key, handle)

    def _once(self, key: bytes, handle: bytes) -> DuplicateVerdict | FoundDuplicate:
        txn = self.store.begin()
        try:
            held = txn.get(key)
            mine = LIVE + handle
            if held == mine or not has_key(txn, self.table, self.index, handle, key):
                return DuplicateVerdict.SETTLED
            if held is not None and is_live(held):
                return self._against(txn, key, handle, held[1:])
            for fence in self.order.fences:
                txn.require_equal(*fence)
            txn.require(self.table.row_prefix + handle)
            txn.require(key)
            txn.write(WriteKind.CLAIM, key, mine)
            txn.commit()
            return DuplicateVerdict.PLACED
        finally:
            txn.rollback()

    def _against(
        self, txn: Transaction, key: bytes, handle: bytes, other: bytes
    ) -> DuplicateVerdict | FoundDuplicate:
        if not has_key(txn, self.table, self.index, other, key):
            return DuplicateVerdict.SETTLED
        return FoundDuplicate(self.index.id, key, handle, other, entry_text(self.table, key, other))


def has_key(txn: Transaction, table: Table, index: IndexInfo, handle: bytes, key: bytes) -> bool:
    """Whether the row of this handle exists in the snapshot and has this key."""
    row = reader.get(txn, table, handle)
    return row is not None and key_codec.index_key(table, index, row, handle)[0] == key


def entry_text(table: Table, key: bytes, handle: bytes) -> str:
    """The key's value as 1062 prints it."""
    return writer.explain_duplicate(table, Duplicate(key, handle)).message


def refusal(
    table: Table, found: Sequence[FoundDuplicate], number: int, *, at_least: bool = False
) -> Refused:
    """1062 with MySQL's text for the first, how many there are, and the others as notes."""
    first = found[0].text
    pairs = [_pair(table, each) for each in found[:MOST_LISTED]]
    listing = "\n".join(each.text for each in found if each.text != first)
    error = ErrDupEntry.with_text(first)
    noun = "duplicate" if number == 1 else "duplicates"
    return counted(error, number, pairs, listing, noun, at_least=at_least)


def _pair(table: Table, found: FoundDuplicate) -> str:
    """'7' of id 3 and id 9."""
    value = found.text.removeprefix("Duplicate entry ").rsplit(" for key ", 1)[0]
    rows = sorted((found.other, found.handle))
    return f"{value} of {' and '.join(row_name(table, each) for each in rows)}"


class Look:
    """One unique index and the rows of a snapshot. Raises nothing until it is asked."""

    def __init__(self, table: Table, index: IndexInfo) -> None:
        self._table = table
        self._index = index
        self._holders: dict[bytes, bytes] = {}
        self.found: list[FoundDuplicate] = []
        self.number = 0
        self.nulls: list[str] = []
        self.null_number = 0

    def rows(self, snapshot: Snapshot, interrupt: Callable[[], None]) -> None:
        """All rows of the table or partition. `interrupt` is called now and then, and may raise."""
        wanted = positions_of(self._table, [self._index])
        for keys, raws in snapshot.chunks(self._table.row_span(), CHUNK_ROWS):
            interrupt()
            columns = row_batch.decode(self._table, keys, raws, wanted)
            made, nulls = row_batch.index_keys(self._table, self._index, columns)
            empty = [False] * len(keys) if nulls is None else nulls.tolist()
            for key, row_key, is_null in zip(as_bytes(made), keys, empty, strict=True):
                if is_null:
                    self._null(row_key[HANDLE_AT:])
                else:
                    self._key(key, row_key[HANDLE_AT:])

    def _null(self, handle: bytes) -> None:
        self.null_number += 1
        if len(self.nulls) < MOST_LISTED:
            self.nulls.append(row_name(self._table, handle))

    def _key(self, key: bytes, handle: bytes) -> None:
        other = self._holders.setdefault(key, handle)
        if other is handle:
            return
        self.number += 1
        if len(self.found) < MOST_DUPLICATES:
            text = writer.explain_duplicate(self._table, Duplicate(key, other)).message
            self.found.append(FoundDuplicate(self._index.id, key, handle, other, text))

    def refusal(self) -> Refused | None:
        """1138 for a primary key with a NULL, 1062 for keys that are there twice."""
        if self._index.is_primary and self.null_number:
            return counted(ErrInvalidUseOfNull(), self.null_number, self.nulls)
        if self.number:
            return refusal(self._table, self.found, self.number)
        return None
