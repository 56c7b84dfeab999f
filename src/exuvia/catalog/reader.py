"""Rows and index entries as a transaction sees them, one at a time. Whoever reads many uses
catalog/codec/row_batch.py.

A transaction sees the rows of its snapshot, and in their place those it wrote itself. An index has
to tell of the same rows:

    row of the snapshot           its entries in the snapshot
    own row                       the keys that follow from it as it is now

For a snapshot that is as new as every own write these are the snapshot's entries with the own ones
over them, key by key. For an older one (a plain read beside current reads, `Transaction.is_mixed`)
they are not: between the two another transaction changed what the own write then left as it was.

    own row was written over      entries in the old snapshot    entries not written here
    what the snapshot has too     right, but for own writes      in the snapshot
    a later version               all of them stale              computed from the row
    nothing                       all of them stale              none: its insert wrote all

Two rows may then have one unique key: one of the snapshot, and an own one that took its place.
Whoever reads index entries for a client reads them here."""

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
    """`get` for each handle, in the order given."""
    prefix = table.row_prefix
    found = txn.get_many([prefix + handle for handle in handles])
    return [None if payload is None else table.decode(payload) for payload in found]


def scan(
    txn: Transaction,
    table: Table,
    span: Span | None = None,
    reverse: bool = False,
    used: Iterable[int] | None = None,
) -> Iterator[tuple[bytes, Row]]:
    """(handle, row) in the order of handles. `span` is one of row keys, all rows by default;
    `used`: which columns are wanted, see Table.decoding."""
    decode = table.decoding(used)
    return txn.decoded(span or table.row_span(), HANDLE_AT, decode, reverse)


def count(txn: Transaction, table: Table, most: int = -1) -> int:
    """How many rows `scan` gives, by their keys alone; where they are more than `most` (-1: any
    number), some number beyond it."""
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

    Values are None where the row's own cannot be read from the key (a prefix, a collation that
    folds, a cut key). The clustered primary key has no entries: its rows' keys are read instead."""
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
    """(key, payload) of an index's entries in key order, live or not: of the snapshot's rows and
    of the transaction's own, see the module. `table` is one partition; for a global index it is the
    logical table, and what handles begin with is for the caller to look at."""
    if not txn.is_mixed:
        return txn.scan(span, reverse=reverse)
    # Live entries of own rows: those written here, and those that follow from a row that was
    # written over a later version
    own = [
        (key, payload)
        for key, payload in txn.own_writes(span)
        if payload is not None
        and is_live(payload)
        and txn.is_own(table.row_key(handle_of_entry(form, key, payload)))
    ]
    left = _view(txn, table, form).entries
    for at in range(bisect_left(left, (span.start,)), len(left)):
        key, handle, unique = left[at]
        if key >= span.end:
            break
        if not txn.is_own(key):
            insort(own, (key, LIVE + handle if unique else LIVE))
    if reverse:
        own.reverse()
    return merge(
        _snapshot_entries(txn, table, form, span, reverse), own, key=_key_of, reverse=reverse
    )


def unique_handles(txn: Transaction, table: Table, form: IndexForm, key: bytes) -> list[bytes]:
    """Handles of the rows with a key of a unique index, no part of it NULL: mostly one at most."""
    if not txn.is_mixed:
        payload = txn.get(key)
        return [payload[1:]] if payload is not None and is_live(payload) else []
    found = entries(txn, table, form, Span(key, key + b"\0"))
    return [payload[1:] for _, payload in found if is_live(payload)]


def _key_of(pair: tuple[bytes, bytes]) -> bytes:
    return pair[0]


def handle_of_entry(form: IndexForm, key: bytes, payload: bytes) -> bytes:
    """The handle of the row that a live entry leads to."""
    return payload[1:] or key[form.keys.decode(key, VALUES_AT)[1] :]


def _snapshot_entries(
    txn: Transaction, table: Table, form: IndexForm, span: Span, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Live entries of the snapshot that are still true."""
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
    """The keys of one index that follow from `Transaction.own_later`, kept up as it writes."""

    def __init__(self) -> None:
        self.entries: _Entries = []  # sorted
        self.of: dict[bytes, _Entries] = {}
        self.mark = self.undone = -1

    def set(self, row_key: bytes, found: _Entries) -> None:
        """The entries of a row, none where it has gone."""
        former = self.of.pop(row_key, [])
        if found:
            self.of[row_key] = found
        if former == found:
            return
        for entry in former:
            del self.entries[bisect_left(self.entries, entry)]
        for entry in found:
            insort(self.entries, entry)


def _view(txn: Transaction, table: Table, form: IndexForm) -> _View:
    mark = txn.mark()
    prefixes = tuple(part.row_prefix for part in table.parts)
    before = PART_BYTES if table.is_partitioned else 0

    def entries_of(row_key: bytes, payload: bytes | None) -> _Entries:
        if payload is None:
            return []
        handle = row_key[1 : 1 + before] + row_key[HANDLE_AT:]
        found = form.entries(table.decode(payload), handle)
        return [(key, handle, unique) for key, unique in found]

    name = form.prefix, table.revision
    view = txn.views.get(name)
    if not isinstance(view, _View) or view.undone != txn.undone:
        view = _View()
        for row_key, payload in chain.from_iterable(map(txn.own_later, prefixes)):
            found = entries_of(row_key, payload)
            if found:
                view.of[row_key] = found
        view.entries = sorted(chain.from_iterable(view.of.values()))
    else:
        for row_key in set(txn.written_since(view.mark)):
            if row_key.startswith(prefixes) and txn.is_later(row_key):
                view.set(row_key, entries_of(row_key, txn.get(row_key)))
    view.mark, view.undone = mark, txn.undone
    txn.views[name] = view
    return view
