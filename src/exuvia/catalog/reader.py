"""Rows and index entries in a transaction's view, one at a time. For many rows use
catalog/codec/row_batch.py.

A transaction sees the rows of its snapshot, replaced by those it wrote itself. An index must agree:

    row of the snapshot           its entries in the snapshot
    own row                       the keys of its current version

If the snapshot is as new as every own write, these are the snapshot's entries overlaid by the own
ones, key by key. For an older snapshot (a plain read after current reads, `Transaction.is_mixed`)
they are not. Another transaction may have changed entries in between that the own write left alone.

    own row was written over      entries in the old snapshot    entries not written here
    what the snapshot has too     right, but for own writes      in the snapshot
    a later version               all of them stale              computed from the row
    nothing                       all of them stale              none: its insert wrote all

    under a later definition      all of them stale              computed from the row

Two rows may then have one unique key: one of the snapshot, and an own one that replaced it. All
reads of index entries for a client use this module.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain

from exuvia.base.types import Value
from exuvia.catalog.codec.key_codec import handle_values, split_entry
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import PART_BYTES, IndexForm, Table
from exuvia.kv.keys import HANDLE_AT, VALUES_AT
from exuvia.kv.packet import LIVE, Span, is_live
from exuvia.kv.transaction import Transaction


def get(txn: Transaction, table: Table, handle: bytes) -> Row | None:
    """The row of that handle, or None. Raises SchemaChanged for a row of a later revision's
    layout."""
    payload = txn.get(table.row_prefix + handle)
    return None if payload is None else table.decode(payload)


def get_many(txn: Transaction, table: Table, handles: list[bytes]) -> list[Row | None]:
    """`get` for each handle, in the given order."""
    prefix = table.row_prefix
    payloads = txn.get_many([prefix + handle for handle in handles])
    return [None if payload is None else table.decode(payload) for payload in payloads]


def scan(
    txn: Transaction,
    table: Table,
    span: Span | None = None,
    reverse: bool = False,
    used: Iterable[int] | None = None,
) -> Iterator[tuple[bytes, Row]]:
    """(handle, row) in the order of handles. `span` is one of row keys, all rows by default;
    `used`: the needed columns, see Table.decoding."""
    decode = table.decoding(used)
    return txn.decoded(span or table.row_span(), HANDLE_AT, decode, reverse)


def count(txn: Transaction, table: Table, most: int = -1) -> int:
    """The number of rows of `scan`, from their keys only. Above `most` (-1: no limit) it is some
    number greater than `most`."""
    span = table.row_span()
    own = list(txn.own_writes(span))
    here = txn.snapshot.get_many([key for key, _ in own]) if own else {}
    more = sum((payload is not None) - (key in here) for key, payload in own)
    return more + txn.snapshot.count(span, most if most < 0 else most - more if more < most else 0)


def scan_index(
    txn: Transaction,
    table: Table,
    index: IndexInfo,
    span: Span | None = None,
    reverse: bool = False,
) -> Iterator[tuple[tuple[Value, ...] | None, bytes]]:
    """(values, handle) of live entries in the index's order; `span` as of `keycodec.index_range`.

    Values that cannot be decoded from the key (a prefix, a collation that folds, a cut key) are
    returned as None. The clustered primary key has no entries: its rows' keys are read instead."""
    if index.exuvia_clustered:
        for key, _ in txn.scan(span or table.row_span(), reverse=reverse):
            handle = key[HANDLE_AT:]
            yield (handle_values(table, handle) if table.handle_is_faithful else None), handle
        return
    form = table.form(index)
    faithful = form.keys.faithful
    for key, payload in entries(txn, table, form, span or table.index_span(index), reverse):
        if is_live(payload):
            values, handle = split_entry(table, index, key, payload)
            yield (values if faithful else None), handle


# -- entries -----------------------------------------------------------------------------------


def entries(
    txn: Transaction, table: Table, form: IndexForm, span: Span, reverse: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """(key, payload) of an index's entries in key order, live or not: of the snapshot's rows and of
    the transaction's own, see the module.

    `table` is one partition. For a global index it is the logical table, and the caller checks the
    partition ids of handles."""
    if not txn.is_mixed:
        return txn.scan(span, reverse=reverse)
    # Live entries of own rows: those written here, and those computed from a row that was written
    # over a later version
    own = [
        (key, payload)
        for key, payload in txn.own_writes(span)
        if payload is not None
        and is_live(payload)
        and txn.is_own(table.row_key(handle_of_entry(form, key, payload)))
    ]
    written, computed = set(own), _view(txn, table, form).entries
    for at in range(bisect_left(computed, (span.start,)), len(computed)):
        key, handle, unique = computed[at]
        if key >= span.end:
            break
        entry = key, LIVE + handle if unique else LIVE
        if entry not in written:
            insort(own, entry)
    if reverse:
        own.reverse()
    return merge(
        _snapshot_entries(txn, table, form, span, reverse), own, key=_key_of, reverse=reverse
    )


def unique_handles(txn: Transaction, table: Table, form: IndexForm, key: bytes) -> list[bytes]:
    """Handles of the rows with a key of a unique index, no part of it NULL: nearly always at most
    one."""
    if not txn.is_mixed:
        payload = txn.get(key)
        return [payload[1:]] if payload is not None and is_live(payload) else []
    pairs = entries(txn, table, form, Span(key, key + b"\0"))
    return [payload[1:] for _, payload in pairs if is_live(payload)]


def _key_of(pair: tuple[bytes, bytes]) -> bytes:
    return pair[0]


def handle_of_entry(form: IndexForm, key: bytes, payload: bytes) -> bytes:
    """The handle of the row of a live entry."""
    return payload[1:] or key[form.keys.decode(key, VALUES_AT)[1] :]


def _snapshot_entries(
    txn: Transaction, table: Table, form: IndexForm, span: Span, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Live entries of the snapshot that are still valid."""
    row_key_of, is_own, skip = table.row_key, txn.is_own, txn.snapshot.skip
    for key, raw in txn.snapshot.scan(span, reverse):
        payload = raw[skip:]
        if not is_live(payload):
            continue
        row_key = row_key_of(handle_of_entry(form, key, payload))
        if is_own(row_key):
            base = txn.base_of(row_key)
            if not base or txn.is_later(row_key) or is_own(key):
                continue
        yield key, payload


_Entries = list[tuple[bytes, bytes, bool]]
"""(key, handle, unique)"""


class _View:
    """The keys of one index computed from `Transaction.own_later`, updated as it writes."""

    def __init__(self) -> None:
        self.entries: _Entries = []  # sorted
        self.of: dict[bytes, _Entries] = {}
        self.mark = self.undone = -1

    def set(self, row_key: bytes, new_entries: _Entries) -> None:
        """Set the entries of a row; an empty list if it is deleted."""
        former = self.of.pop(row_key, [])
        if new_entries:
            self.of[row_key] = new_entries
        if former == new_entries:
            return
        for entry in former:
            del self.entries[bisect_left(self.entries, entry)]
        for entry in new_entries:
            insort(self.entries, entry)


def _view(txn: Transaction, table: Table, form: IndexForm) -> _View:
    mark = txn.mark()
    prefixes = tuple(part.row_prefix for part in table.parts)
    before = PART_BYTES if table.is_partitioned else 0

    def entries_of(row_key: bytes, payload: bytes | None) -> _Entries:
        if payload is None:
            return []
        handle = row_key[1 : 1 + before] + row_key[HANDLE_AT:]
        entries_now = form.entries(table.decode(payload), handle)
        return [(key, handle, unique) for key, unique in entries_now]

    name = form.prefix, table.revision
    view = txn.views.get(name)
    if not isinstance(view, _View) or view.undone != txn.undone:
        view = _View()
        for row_key, payload in chain.from_iterable(map(txn.own_later, prefixes)):
            entries_now = entries_of(row_key, payload)
            if entries_now:
                view.of[row_key] = entries_now
        view.entries = sorted(chain.from_iterable(view.of.values()))
    else:
        for row_key in set(txn.written_since(view.mark)):
            if row_key.startswith(prefixes) and txn.is_later(row_key):
                view.set(row_key, entries_of(row_key, txn.get(row_key)))
    view.mark, view.undone = mark, txn.undone
    txn.views[name] = view
    return view
