"""What can be wrong with an index, and the judgement of single entries, each in one snapshot.

    missing      a row has no entry
    orphan       an entry has no row, or one that its partial index does not hold, or without that
                 element
    wrong        an entry stands, but its row has other values, or the key belongs to another row
    duplicate    two rows have one key of a unique index

The text of a fault is that of TiDB's error 8223: handle, values in the index, values in the row.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from exuvia.base.errors import MOST_LISTED, Duplicate, Refused, counted
from exuvia.base.mysql_errors import ErrDupEntry, ErrInvalidUseOfNull
from exuvia.base.types import FieldType, Value
from exuvia.catalog import reader, writer
from exuvia.catalog.codec import key_codec, row_batch
from exuvia.catalog.codec.key_codec import index_entries
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.columns import Columns
from exuvia.catalog.convert import values
from exuvia.catalog.model import IndexInfo, SchemaState
from exuvia.catalog.table import PART_BYTES, Table
from exuvia.kv.keys import HANDLE_AT, VALUES_AT, read_i64
from exuvia.kv.packet import LIVE, RawRun, Snapshot, WriteKind, is_live
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.kernels.entries import CHUNK_ROWS, as_bytes, held_by, positions_of
from exuvia.pipeline.reorg import Fault
from exuvia.pipeline.task import MOST_DUPLICATES, FoundDuplicate, TaskOrder
from exuvia.pipeline.verify.scan import Entry

WORD_BYTES = 8
MOST_FAULTS = 100


class FaultJudge:
    """Judges entries of one index by the row codec, in the snapshot of the transaction given."""

    def __init__(self, table: Table, index: IndexInfo) -> None:
        self._table = table
        self._index = index
        self._form = table.form(index)

    def compare(self, store: Store, should: Iterable[Entry], stand: Iterable[Entry]) -> list[Fault]:
        """The faults among entries that only one of two scans saw, judged in one new snapshot."""
        handles = {(key, suffix): handle for key, suffix, handle in should}
        standing = {(key, suffix) for key, suffix, _ in stand}
        with store.read() as txn:
            faults = {
                key: next(self.of_row(txn, handles[key, s], key), None)
                for key, s in handles.keys() - standing
            }
            for key, _ in standing - handles.keys():
                if faults.get(key) is None:
                    faults[key] = self.of_entry(txn, key)
        confirmed = (faults[key] for key in sorted(faults))
        return [fault for fault in confirmed if fault is not None][:MOST_FAULTS]

    def of_row(self, txn: Transaction, handle: bytes, only: bytes | None = None) -> Iterator[Fault]:
        """Which of its entries the row of this handle, if it exists, has not: a handle of the
        table, or of the partition, that this is about. `only`: looks at the one of that key."""
        row = row_of(txn, self._table, self._index, handle)
        wanted = () if row is None else index_entries(self._table, self._index, row, handle)
        for key, unique in wanted:
            if row is None or (only is not None and key != only):
                continue
            entry = txn.get(key)
            if entry == (self._form.payload(handle) if unique else LIVE):
                continue
            if entry is None or not is_live(entry):
                yield self._fault("missing", handle, "", self._row_text(row, key))
            else:
                text = self._entry_text(key, entry)
                yield self._fault("wrong", handle, text, self._row_text(row, key))

    def of_entry(self, txn: Transaction, key: bytes) -> Fault | None:
        """Whether the entry at this key, if it is live, has its row."""
        entry = txn.get(key)
        if entry is None or not is_live(entry):
            return None
        _, handle = key_codec.split_entry(self._table, self._index, key, entry)
        row = row_of(txn, self._table, self._index, handle)
        if row is None:
            return self._fault("orphan", handle, self._entry_text(key, entry), "")
        wanted = dict(index_entries(self._table, self._index, row, handle))
        if key in wanted and entry == (self._form.payload(handle) if wanted[key] else LIVE):
            return None
        text, row_text = self._entry_text(key, entry), self._row_text(row)
        if self._index.is_multi_valued and key not in wanted:
            return self._fault("orphan", handle, text, row_text)
        if not wanted:
            return self._fault("orphan", handle, text, f"{row_text} outside of the predicate")
        return self._fault("wrong", handle, text, row_text)

    # -- words -----------------------------------------------------------------------------------

    def _entry_text(self, key: bytes, payload: bytes) -> str:
        decoded, _ = key_codec.split_entry(self._table, self._index, key, payload)
        return f"key {key[VALUES_AT:].hex()}" if decoded is None else self._text(decoded, True)

    def _row_text(self, row: list[object], key: bytes = b"") -> str:
        """Its values; in the place of an array the element of that key, or all of them."""
        parts = [row[at] for at in self._positions()]
        decoded = self._form.keys.decode(key, VALUES_AT)[0] if key else None
        if self._form.array is None or decoded is None:
            return self._text(parts, False)
        parts[self._form.array] = decoded[self._form.array]
        return self._text(parts, True)

    def _positions(self) -> list[int]:
        return [self._table.position(part.name.L) for part in self._index.idx_cols]

    def _text(self, parts: Sequence[object], is_element: bool) -> str:
        types = [self._table.info.cols[at].type for at in self._positions()]
        if self._form.array is not None and is_element:
            types[self._form.array] = self._form.types[self._form.array]
        texts = (
            "NULL" if value is None else text_of(value, field)
            for value, field in zip(parts, types, strict=True)
        )
        return f"[{' '.join(texts)}]"

    def _fault(self, kind: str, handle: bytes, entry: str, row: str) -> Fault:
        inner = handle[PART_BYTES:] if self._table.is_partitioned else handle
        return Fault(kind, self._index.idx_name.O, handle_text(self._table, inner), entry, row)


def row_name(table: Table, handle: bytes) -> str:
    """A row by its primary key, for people: id 3, a-b 1-x, _tidb_rowid 7."""
    if not table.handle_positions:
        return f"_tidb_rowid {handle_text(table, handle)}"
    columns = [table.info.cols[position] for position in table.handle_positions]
    name = "-".join(column.name.O for column in columns)
    parts = key_codec.handle_values(table, handle)
    if parts is None:
        return f"{name} {handle.hex()}"
    pairs = zip(parts, columns, strict=True)
    return f"{name} {'-'.join(text_of(value, column.type) for value, column in pairs)}"


def row_names(
    table: Table, keys: Sequence[bytes], raws: RawRun | list[bytes], skip: int
) -> list[str]:
    """The names of stored rows, also by a primary key that is NONCLUSTERED."""
    primary = table.info.index("PRIMARY")
    if table.handle_positions or primary is None or primary.state != SchemaState.PUBLIC:
        return [row_name(table, key[HANDLE_AT:]) for key in keys]
    positions = table.form(primary).positions
    columns = row_batch.decode(table, [], raws, skip, positions)
    fields = [table.info.cols[position] for position in positions]
    name = "-".join(field.name.O for field in fields)
    parts = [columns.column(position).to_list() for position in positions]
    return [
        f"{name} {'-'.join(text_of(v, f.type) for v, f in zip(row, fields, strict=True))}"
        for row in zip(*parts, strict=True)
    ]


def text_of(value: Value, kind: FieldType) -> str:
    """A value for people; bytes as far as they are text."""
    shown = values.to_text(value, kind)
    return shown if isinstance(shown, str) else shown.decode("utf-8", "replace")


def handle_text(table: Table, handle: bytes) -> str:
    """A handle for people: the number of an integer handle, hex of others."""
    is_number = not table.info.is_common_handle and len(handle) == WORD_BYTES
    return str(read_i64(handle)) if is_number else handle.hex()


# -- duplicates ------------------------------------------------------------------------------------
#
# Keys that a unique index would hold twice: the fill found them taken, they are judged one by one
# (law 6).
#
#     entry at the key        row of our handle          other handle's row    verdict
#     ours                    -                          -                     settled
#     anything                gone, or has another key   -                     settled by its writer
#     tombstone, or nothing   has the key                -                     ours is put
#     another handle's        has the key                has the key           a duplicate
#     another handle's        has the key                has not               left to verification
#
# Ours is put only if row and entry are still as the snapshot showed them; otherwise it is judged
# again. Duplicates are told to people:
#
#     Duplicate entry '7' for key 't.ua' (2 duplicates: '7' of id 3 and id 9, '8' of id 4 and id 5)
#
# A key that n rows have counts n - 1 times. `DuplicateScan` is made before there is a job, of small
# tables; what comes later, and large tables, are judged by the fill (`DuplicateJudge`).


_TRIES = 20


class DuplicateVerdict(Enum):
    """What became of a taken key."""

    SETTLED = 1
    PLACED = 2


@dataclass(frozen=True)
class DuplicateJudge:
    """Judges keys of one unique index for a reorg."""

    store: Store
    order: TaskOrder
    table: Table
    index: IndexInfo

    def taken(self, key: bytes, handle: bytes) -> DuplicateVerdict | FoundDuplicate:
        """Judge one key for the row of `handle`.

        Raises Conflict if writers never leave it alone, Deposed."""

        def judged(txn: Transaction) -> DuplicateVerdict | FoundDuplicate:
            held, mine = txn.get(key), LIVE + handle
            row = None if held == mine else row_with(txn, self.table, self.index, handle, key)
            if row is None:
                return DuplicateVerdict.SETTLED
            if held is not None and is_live(held):
                other = held[1:]
                if row_with(txn, self.table, self.index, other, key) is None:
                    return DuplicateVerdict.SETTLED
                text = entry_text(self.table, key, other, row)
                return FoundDuplicate(self.index.id, key, handle, other, text)
            for fence in self.order.fences:
                txn.require_equal(*fence)
            part, inner = self.table.holder(self.table.form(self.index), handle)
            txn.require(part.row_prefix + inner)
            txn.require(key)
            txn.write(WriteKind.CLAIM, key, mine)
            return DuplicateVerdict.PLACED

        return self.store.transact(judged, _TRIES)


def row_with(
    txn: Transaction, table: Table, index: IndexInfo, handle: bytes, key: bytes
) -> Row | None:
    """The row of this handle, if it exists in the snapshot and has this key."""
    part, inner = table.holder(table.form(index), handle)
    row = reader.get(txn, part, inner)
    found = () if row is None else index_entries(part, index, row, inner)
    return row if any(each == key for each, _ in found) else None


def row_of(txn: Transaction, table: Table, index: IndexInfo, handle: bytes) -> Row | None:
    """The row of a handle of the table or partition; of a partitioned table it begins with the
    partition's id."""
    if not table.is_partitioned:
        return reader.get(txn, table, handle)
    part, inner = table.holder(table.form(index), handle)
    if part.physical_id not in {each.physical_id for each in table.parts}:
        return None
    return reader.get(txn, part, inner)


def entry_text(table: Table, key: bytes, handle: bytes, row: Row | None) -> str:
    """The key's value as 1062 prints it: that of `row`, which has the key."""
    return writer.explain_duplicate(table, Duplicate(key, handle), row).message


def _row_at(table: Table, columns: Columns, at: int) -> Row:
    """One of the rows, with NULL for all other columns."""
    row: Row = [None] * len(table.info.cols)
    for position in columns.positions:
        row[position] = columns.column(position).take(np.array([at])).to_list()[0]
    return row


def duplicates_refusal(
    table: Table, duplicates: Sequence[FoundDuplicate], number: int, *, at_least: bool = False
) -> Refused:
    """1062 with MySQL's text for the first, how many there are, and the others as notes."""
    first = duplicates[0].text
    pairs = []  # '7' of id 3 and id 9
    for duplicate in duplicates[:MOST_LISTED]:
        value = duplicate.text.removeprefix("Duplicate entry ").rsplit(" for key ", 1)[0]
        index = table.info.index_by_id(duplicate.index_id)
        at = PART_BYTES if index is not None and index.is_global else 0
        rows = sorted((duplicate.other[at:], duplicate.handle[at:]))
        pairs.append(f"{value} of {' and '.join(row_name(table, handle) for handle in rows)}")
    listing = "\n".join(duplicate.text for duplicate in duplicates if duplicate.text != first)
    error = ErrDupEntry.with_text(first)
    noun = "duplicate" if number == 1 else "duplicates"
    return counted(error, number, pairs, listing, noun, least=1, at_least=at_least)


class DuplicateScan:
    """One unique index and the rows of a table or its partitions in a snapshot. Keys of a local
    index begin with the partition. Raises nothing until it is asked."""

    def __init__(self, index: IndexInfo) -> None:
        self._index = index
        self._holders: dict[bytes, bytes] = {}
        self.duplicates: list[FoundDuplicate] = []
        self.number = 0
        self.nulls: list[str] = []
        self.null_number = 0

    def rows(self, table: Table, snapshot: Snapshot, interrupt: Callable[[], None]) -> None:
        """All rows of the table or partition. `interrupt` is called now and then, and may raise."""
        wanted = positions_of(table, [self._index])
        for keys, raws in snapshot.chunks(table.row_span(), CHUNK_ROWS):
            interrupt()
            columns = row_batch.decode(table, keys, raws, snapshot.skip, wanted)
            columns = held_by(table, self._index, columns)
            if not columns.rows:
                continue
            made, nulls = row_batch.index_keys(table, self._index, columns)
            empty = [False] * columns.rows if nulls is None else nulls.tolist()
            handles = columns.handle_list()
            at = PART_BYTES if self._index.is_global else 0
            found = enumerate(zip(as_bytes(made), handles, empty, strict=True))
            for n, (key, handle, is_null) in found:
                if is_null:
                    self.null_number += 1
                    if len(self.nulls) < MOST_LISTED:
                        self.nulls.append(row_name(table, handle[at:]))
                    continue
                other = self._holders.setdefault(key, handle)
                if other is handle:
                    continue
                self.number += 1
                if len(self.duplicates) < MOST_DUPLICATES:
                    text = entry_text(table, key, other, _row_at(table, columns, n))
                    twice = FoundDuplicate(self._index.id, key, handle, other, text)
                    self.duplicates.append(twice)

    def refusal(self, table: Table) -> Refused | None:
        """1138 for a primary key with a NULL, 1062 for keys that are there twice."""
        if self._index.is_primary and self.null_number:
            return counted(ErrInvalidUseOfNull(), self.null_number, self.nulls)
        if self.number:
            return duplicates_refusal(table, self.duplicates, self.number)
        return None
