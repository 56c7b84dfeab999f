"""Faults of an index, and the judgement of single entries, each in one snapshot.

    missing      a row has no entry
    orphan       an entry without a row, or whose row its partial index excludes, or whose row's
                 array lacks the element
    wrong        an entry whose row has other values, or whose key belongs to another row
    duplicate    two rows with the same key of a unique index

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
    """Judges single entries of one index, in the snapshot of the given transaction."""

    def __init__(self, table: Table, index: IndexInfo) -> None:
        self._table = table
        self._index = index
        self._form = table.form(index)

    def compare(self, store: Store, should: Iterable[Entry], stand: Iterable[Entry]) -> list[Fault]:
        """Returns the faults among entries that only one of two scans found, judged in one new
        snapshot."""
        handles = {(key, suffix): handle for key, suffix, handle in should}
        present = {(key, suffix) for key, suffix, _ in stand}
        with store.read() as txn:
            faults = {
                key: next(self.of_row(txn, handles[key, s], key), None)
                for key, s in handles.keys() - present
            }
            for key, _ in present - handles.keys():
                if faults.get(key) is None:
                    faults[key] = self.of_entry(txn, key)
        confirmed = (faults[key] for key in sorted(faults))
        return [fault for fault in confirmed if fault is not None][:MOST_FAULTS]

    def of_row(self, txn: Transaction, handle: bytes, only: bytes | None = None) -> Iterator[Fault]:
        """Yields the faults of a row's entries; `handle` is one of this table or partition. `only`:
        judges just the entry with that key."""
        row = row_of(txn, self._table, self._index, handle)
        expected = () if row is None else index_entries(self._table, self._index, row, handle)
        for key, unique in expected:
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
        """Returns the fault of the entry at this key, or None."""
        entry = txn.get(key)
        if entry is None or not is_live(entry):
            return None
        _, handle = key_codec.split_entry(self._table, self._index, key, entry)
        row = row_of(txn, self._table, self._index, handle)
        if row is None:
            return self._fault("orphan", handle, self._entry_text(key, entry), "")
        expected = dict(index_entries(self._table, self._index, row, handle))
        if key in expected and entry == (self._form.payload(handle) if expected[key] else LIVE):
            return None
        text, row_text = self._entry_text(key, entry), self._row_text(row)
        if self._index.is_multi_valued and key not in expected:
            return self._fault("orphan", handle, text, row_text)
        if not expected:
            return self._fault("orphan", handle, text, f"{row_text} outside of the predicate")
        return self._fault("wrong", handle, text, row_text)

    # -- texts -----------------------------------------------------------------------------------

    def _entry_text(self, key: bytes, payload: bytes) -> str:
        decoded, _ = key_codec.split_entry(self._table, self._index, key, payload)
        return f"key {key[VALUES_AT:].hex()}" if decoded is None else self._text(decoded, True)

    def _row_text(self, row: list[object], key: bytes = b"") -> str:
        """Returns the row's values as text; an array is replaced by the element in `key`, if
        any."""
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
    """Returns a row's primary key as text: id 3, a-b 1-x, _tidb_rowid 7."""
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
    """Returns a value as text; bytes that are not UTF-8 are replaced."""
    text = values.to_text(value, kind)
    return text if isinstance(text, str) else text.decode("utf-8", "replace")


def handle_text(table: Table, handle: bytes) -> str:
    """Returns a handle as text: an integer as a number, others as hex."""
    is_number = not table.info.is_common_handle and len(handle) == WORD_BYTES
    return str(read_i64(handle)) if is_number else handle.hex()


# -- duplicates ------------------------------------------------------------------------------------
#
# Keys that a unique index would have twice. A backfill finds them present and judges each (law 6).
#
#     entry at the key        row of our handle          other handle's row    verdict
#     ours                    -                          -                     settled
#     anything                deleted, or another key    -                     settled by its writer
#     tombstone, or absent    has the key                -                     our entry is put
#     another handle's        has the key                has the key           a duplicate
#     another handle's        has the key                does not have it      left to verification
#
# Our entry is put only if row and entry are unchanged; otherwise it is judged again. The error
# message lists the duplicates:
#
#     Duplicate entry '7' for key 't.ua' (2 duplicates: '7' of id 3 and id 9, '8' of id 4 and id 5)
#
# A key of n rows counts n - 1 times. `DuplicateScan` checks small tables before there is a job;
# later rows and large tables are judged by the backfill (`DuplicateJudge`).


_TRIES = 20


class DuplicateVerdict(Enum):
    """The outcome for a present key without a duplicate."""

    SETTLED = 1
    PLACED = 2


@dataclass(frozen=True)
class DuplicateJudge:
    """Judges keys of one unique index for a reorg."""

    store: Store
    order: TaskOrder
    table: Table
    index: IndexInfo

    def resolve(self, key: bytes, handle: bytes) -> DuplicateVerdict | FoundDuplicate:
        """Judges one key for the row of `handle`.

        Raises Conflict if writers keep changing it, Deposed."""

        def judged(txn: Transaction) -> DuplicateVerdict | FoundDuplicate:
            current, mine = txn.get(key), LIVE + handle
            row = None if current == mine else row_with(txn, self.table, self.index, handle, key)
            if row is None:
                return DuplicateVerdict.SETTLED
            if current is not None and is_live(current):
                other = current[1:]
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
    """Returns the row of this handle if it has this key in the snapshot, else None."""
    part, inner = table.holder(table.form(index), handle)
    row = reader.get(txn, part, inner)
    entries = () if row is None else index_entries(part, index, row, inner)
    return row if any(entry_key == key for entry_key, _ in entries) else None


def row_of(txn: Transaction, table: Table, index: IndexInfo, handle: bytes) -> Row | None:
    """Returns the row of a handle of the table or partition; in a partitioned table the handle
    begins with the partition's id."""
    if not table.is_partitioned:
        return reader.get(txn, table, handle)
    part, inner = table.holder(table.form(index), handle)
    if part.physical_id not in {partition.physical_id for partition in table.parts}:
        return None
    return reader.get(txn, part, inner)


def entry_text(table: Table, key: bytes, handle: bytes, row: Row | None) -> str:
    """Returns error 1062's text for the key; `row` has the key."""
    return writer.explain_duplicate(table, Duplicate(key, handle), row).message


def _row_at(table: Table, columns: Columns, at: int) -> Row:
    """Returns row `at` of the columns, with NULL for all other columns."""
    row: Row = [None] * len(table.info.cols)
    for position in columns.positions:
        row[position] = columns.column(position).take(np.array([at])).to_list()[0]
    return row


def duplicates_refusal(
    table: Table, duplicates: Sequence[FoundDuplicate], number: int, *, at_least: bool = False
) -> Refused:
    """Returns 1062 with MySQL's text for the first duplicate, their number, and the others as
    notes."""
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
    """Finds duplicates of one unique index in a snapshot of the table or its partitions. Keys of a
    local index begin with the partition. Raises nothing; `refusal` returns the error."""

    def __init__(self, index: IndexInfo) -> None:
        self._index = index
        self._handles: dict[bytes, bytes] = {}
        self.duplicates: list[FoundDuplicate] = []
        self.number = 0
        self.nulls: list[str] = []
        self.null_number = 0

    def rows(self, table: Table, snapshot: Snapshot, interrupt: Callable[[], None]) -> None:
        """Adds all rows of the table or partition. `interrupt` is called regularly and may
        raise."""
        needed = positions_of(table, [self._index])
        for keys, raws in snapshot.chunks(table.row_span(), CHUNK_ROWS):
            interrupt()
            columns = row_batch.decode(table, keys, raws, snapshot.skip, needed)
            columns = held_by(table, self._index, columns)
            if not columns.rows:
                continue
            entry_keys, nulls = row_batch.index_keys(table, self._index, columns)
            empty = [False] * columns.rows if nulls is None else nulls.tolist()
            handles = columns.handle_list()
            at = PART_BYTES if self._index.is_global else 0
            numbered = enumerate(zip(as_bytes(entry_keys), handles, empty, strict=True))
            for n, (key, handle, is_null) in numbered:
                if is_null:
                    self.null_number += 1
                    if len(self.nulls) < MOST_LISTED:
                        self.nulls.append(row_name(table, handle[at:]))
                    continue
                other = self._handles.setdefault(key, handle)
                if other is handle:
                    continue
                self.number += 1
                if len(self.duplicates) < MOST_DUPLICATES:
                    text = entry_text(table, key, other, _row_at(table, columns, n))
                    duplicate = FoundDuplicate(self._index.id, key, handle, other, text)
                    self.duplicates.append(duplicate)

    def refusal(self, table: Table) -> Refused | None:
        """Returns 1138 for a primary key with a NULL, or 1062 for duplicate keys."""
        if self._index.is_primary and self.null_number:
            return counted(ErrInvalidUseOfNull(), self.null_number, self.nulls)
        if self.number:
            return duplicates_refusal(table, self.duplicates, self.number)
        return None
