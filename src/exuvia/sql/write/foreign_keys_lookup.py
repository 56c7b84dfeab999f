"""Rows of a table that have these values in these columns, found by a key that begins with them.

    the primary key is the handle     one row           an index on the columns first    a range
    none of both (checks were OFF     every row         long values that keys cut        the rows
    when it was made)                                                                    decide

`first` gives the key that proves that there is one, to be required unchanged.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from exuvia.catalog import reader
from exuvia.catalog.codec import key_codec
from exuvia.catalog.codec.key_encoder import VALUES_BYTES, KeyForm
from exuvia.catalog.model import IndexInfo, TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.catalog.table import Table
from exuvia.kv.entry import is_live
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.transaction import Transaction

Value = Any
Found = tuple[bytes, bytes]  # the key that proves it, the row's handle


def index_over(info: TableInfo, columns: Sequence[int]) -> IndexInfo | None:
    """A public index that begins with these columns, whole and in this order (column ids)."""
    wanted = tuple(columns)
    for index in info.indexes:
        parts = index.idx_cols[: len(wanted)]
        is_whole = all(part.length < 0 for part in parts)
        same = tuple(part.exuvia_column for part in parts) == wanted
        if index.state == SchemaState.PUBLIC and same and is_whole:
            return index
    return None


class Finder:
    """One table and some of its columns. `positions` are theirs in its rows."""

    def __init__(self, table: Table, columns: Sequence[int]) -> None:
        self.table = table
        places = {column.id: n for n, column in enumerate(table.info.cols)}
        self.positions = [places[each] for each in columns]
        fields = [(table.info.cols[n].type, -1) for n in self.positions]
        self.form = KeyForm(fields, VALUES_BYTES)
        self.is_handle = table.info.pk_is_handle and tuple(self.positions) == (
            table.handle_positions
        )
        self.index = None if self.is_handle else index_over(table.info, columns)

    def values(self, row: Sequence[Value]) -> tuple[Value, ...] | None:
        """The row's values, None where one of them is NULL: such a row refers to nothing."""
        found = tuple(row[n] for n in self.positions)
        return None if None in found else found

    def first(self, txn: Transaction, values: Sequence[Value]) -> bytes | None:
        """The key that proves that a row has these values; None if there is none."""
        found = next(self._found(txn, values), None)
        return None if found is None else found[0]

    def handles(self, txn: Transaction, values: Sequence[Value]) -> list[bytes]:
        """Handles of all rows with these values."""
        return [handle for _, handle in self._found(txn, values)]

    def _found(self, txn: Transaction, values: Sequence[Value]) -> Iterator[Found]:
        if self.is_handle:
            return self._by_handle(txn, values)
        if self.index is None:
            return self._by_rows(txn, values)
        return self._by_index(txn, self.index, values)

    def _by_handle(self, txn: Transaction, values: Sequence[Value]) -> Iterator[Found]:
        handle = key_codec.handle_from(self.table, values)
        key = self.table.row_prefix + handle
        if txn.get(key) is not None:
            yield key, handle

    def _by_rows(self, txn: Transaction, values: Sequence[Value]) -> Iterator[Found]:
        for handle, row in reader.scan(txn, self.table):
            if self._same(row, values):
                yield self.table.row_prefix + handle, handle

    def _by_index(
        self, txn: Transaction, index: IndexInfo, values: Sequence[Value]
    ) -> Iterator[Found]:
        exact = key_codec.is_exact(self.table, index)
        span = key_codec.index_range(self.table, index, values, values)
        for key, payload in txn.scan(span):
            if index.exuvia_clustered:
                handle = key[HANDLE_AT:]
            elif is_live(payload):
                handle = key_codec.split_entry(self.table, index, key, payload)[1]
            else:
                continue
            if exact or self._is_of(txn, handle, values):
                yield key, handle

    def _is_of(self, txn: Transaction, handle: bytes, values: Sequence[Value]) -> bool:
        row = reader.get(txn, self.table, handle)
        return row is not None and self._same(row, values)

    def _same(self, row: Sequence[Value], values: Sequence[Value]) -> bool:
        found = self.values(row)
        return found is not None and self.form.encode(found) == self.form.encode(values)
