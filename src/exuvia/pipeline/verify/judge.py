"""What can be wrong with an index, and the judgement of single entries in one snapshot.

    missing    a row has no entry
    orphan     an entry has no row
    wrong      an entry stands, but its row has other values, or the key belongs to another row

The text of a fault is that of TiDB's error 8223: handle, values in the index, values in the row.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrDataInconsistent
from exuvia.base.types import FieldType
from exuvia.catalog import reader
from exuvia.catalog.codec import key_codec
from exuvia.catalog.convert import values
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.keys import VALUES_AT, read_i64
from exuvia.kv.packet import LIVE, is_live
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.verify.scan import Entry

WORD_BYTES = 8
MOST_FAULTS = 100


@dataclass(frozen=True)
class Fault:
    """One finding, in words.

    `entry` and `row` are the values each side has, or "" where there is none."""

    kind: str
    index: str
    handle: str
    entry: str
    row: str

    def refusal(self, table: str) -> Refused:
        """The error 8223 that tells it to a client."""
        return ErrDataInconsistent(table, self.index, self.handle, self.entry, self.row)


class FaultJudge:
    """Judges entries of one index by the row codec, in the snapshot of the transaction given."""

    def __init__(self, table: Table, index: IndexInfo) -> None:
        self._table = table
        self._index = index

    def compare(self, store: Store, should: Iterable[Entry], stand: Iterable[Entry]) -> list[Fault]:
        """The faults among entries that only one of two scans saw, judged in one new snapshot."""
        handles = {(key, suffix): handle for key, suffix, handle in should}
        found = {(key, suffix) for key, suffix, _ in stand}
        txn = store.begin()
        try:
            faults = {key: self.of_row(txn, handles[key, s]) for key, s in handles.keys() - found}
            for key, _ in found - handles.keys():
                if faults.get(key) is None:
                    faults[key] = self.of_entry(txn, key)
        finally:
            txn.rollback()
        confirmed = (faults[key] for key in sorted(faults))
        return [fault for fault in confirmed if fault is not None][:MOST_FAULTS]

    def of_row(self, txn: Transaction, handle: bytes) -> Fault | None:
        """Whether the row of this handle, if it exists, has its entry."""
        row = reader.get(txn, self._table, handle)
        if row is None:
            return None
        key, unique = key_codec.index_key(self._table, self._index, row, handle)
        held = txn.get(key)
        if held == LIVE + (handle if unique else b""):
            return None
        if held is None or not is_live(held):
            return self._fault("missing", handle, "", self._row_text(row))
        return self._fault("wrong", handle, self._entry_text(key, held), self._row_text(row))

    def of_entry(self, txn: Transaction, key: bytes) -> Fault | None:
        """Whether the entry at this key, if it is live, has its row."""
        held = txn.get(key)
        if held is None or not is_live(held):
            return None
        _, handle = key_codec.split_entry(self._table, self._index, key, held)
        row = reader.get(txn, self._table, handle)
        if row is None:
            return self._fault("orphan", handle, self._entry_text(key, held), "")
        wanted, unique = key_codec.index_key(self._table, self._index, row, handle)
        if wanted == key and held == LIVE + (handle if unique else b""):
            return None
        return self._fault("wrong", handle, self._entry_text(key, held), self._row_text(row))

    # -- words -----------------------------------------------------------------------------------

    def _entry_text(self, key: bytes, payload: bytes) -> str:
        decoded, _ = key_codec.split_entry(self._table, self._index, key, payload)
        return f"key {key[VALUES_AT:].hex()}" if decoded is None else self._text(decoded)

    def _row_text(self, row: list[object]) -> str:
        return self._text(tuple(row[at] for at in self._positions()))

    def _positions(self) -> list[int]:
        return [self._table.position(part.name.L) for part in self._index.idx_cols]

    def _text(self, parts: tuple[object, ...]) -> str:
        types = [self._table.info.cols[at].type for at in self._positions()]
        texts = (
            "NULL" if value is None else values.to_text(value, field)
            for value, field in zip(parts, types, strict=True)
        )
        return f"[{' '.join(texts)}]"

    def _fault(self, kind: str, handle: bytes, entry: str, row: str) -> Fault:
        return Fault(kind, self._index.idx_name.O, handle_text(self._table, handle), entry, row)


def row_name(table: Table, handle: bytes) -> str:
    """A row by its primary key, for people: id 3, a-b 1-x, _tidb_rowid 7."""
    if not table.handle_positions:
        return f"_tidb_rowid {handle_text(table, handle)}"
    columns = [table.info.cols[position] for position in table.handle_positions]
    name = "-".join(column.name.O for column in columns)
    found = key_codec.handle_values(table, handle)
    if found is None:
        return f"{name} {handle.hex()}"
    pairs = zip(found, columns, strict=True)
    return f"{name} {'-'.join(text_of(value, column.type) for value, column in pairs)}"


def text_of(value: Any, kind: FieldType) -> str:
    """A value for people; bytes as far as they are text."""
    shown = values.to_text(value, kind)
    return shown if isinstance(shown, str) else shown.decode("utf-8", "replace")


def handle_text(table: Table, handle: bytes) -> str:
    """A handle for people: the number of an integer handle, hex of others."""
    is_number = not table.info.is_common_handle and len(handle) == WORD_BYTES
    return str(read_i64(handle)) if is_number else handle.hex()
