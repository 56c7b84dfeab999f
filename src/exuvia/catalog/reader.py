"""Rows and index entries as a transaction sees them, one at a time. Whoever reads many uses
catalog/vector.py."""

from collections.abc import Iterator
from typing import Any

from exuvia.catalog.keycodec import handle_values, split_entry
from exuvia.catalog.layout import Row
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.entry import is_live
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction

Value = Any


def get(txn: Transaction, table: Table, handle: bytes) -> Row | None:
    """The row of that handle, or None. Raises SchemaChanged for a row of a later revision's
    layout."""
    payload = txn.get(table.row_prefix + handle)
    return None if payload is None else table.decode(payload)


def get_many(txn: Transaction, table: Table, handles: list[bytes]) -> list[Row | None]:
    """`get` for each handle, in the order given."""
    prefix = table.row_prefix
    found = txn.get_many([prefix + handle for handle in handles])
    return [None if payload is None else table.decode(payload) for payload in found]


def scan(
    txn: Transaction, table: Table, span: Span | None = None, reverse: bool = False
) -> Iterator[tuple[bytes, Row]]:
    """(handle, row) in the order of handles. `span` is one of row keys, all rows by default."""
    decode = table.decode
    for key, payload in txn.scan(span or table.row_span(), reverse=reverse):
        yield key[HANDLE_AT:], decode(payload)


def scan_index(
    txn: Transaction,
    table: Table,
    index: IndexInfo,
    span: Span | None = None,
    reverse: bool = False,
) -> Iterator[tuple[tuple[Value, ...] | None, bytes]]:
    """(values, handle) of live entries in the index's order; `span` as of `keycodec.index_range`.

    Values are None where the row's own cannot be read from the key (a prefix, a collation that
    folds, a cut key). The clustered primary key has no entries: its rows' keys are read instead."""
    if index.exuvia_clustered:
        for key, _ in txn.scan(span or table.row_span(), reverse=reverse):
            handle = key[HANDLE_AT:]
            yield (handle_values(table, handle) if table.handle_is_faithful else None), handle
        return
    faithful = table.form(index).keys.faithful
    for key, payload in txn.scan(span or table.index_span(index), reverse=reverse):
        if is_live(payload):
            values, handle = split_entry(table, index, key, payload)
            yield (values if faithful else None), handle
