"""The change log of a table: the rows before each commit, written by that commit.

    key       t{table}c {log u32} {stamp u64} {order u64} {n u32}     log: number of the log
    payload   {length of the handle u16} {handle}               the row did not exist
              {length of the handle u16} {handle} 1 {payload}   the row before

A commit writes one record for each row whose bytes differ after it, even if the transaction wrote
the row several times. The new payload is not stored: it is the old one of the row's next record, or
the present row.

`stamp` is the commit's. On a server stamps are not in the order of commits. There `order` gives the
order of any two commits that wrote the same row; on other engines it is 0. Records are never
written twice, so transactions need not validate them: the engine makes the key after it has
validated the rest.

A reader that continues from a position (a view as text) sees each record once. `since` returns the
records that the view did not see, and checks all commits above the view's horizon.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from exuvia.kv.keys import HANDLE_AT, after
from exuvia.kv.packet import STAMP_BYTES, Snapshot, Span, View

_PLACE = Struct(">QQI")
_LENGTH = Struct(">H")
_ROW = b"\x01"


class ChangeRecord(NamedTuple):
    """A record. `before`: the row's payload before the commit, None if there was no row."""

    stamp: int
    order: int
    n: int
    handle: bytes
    before: bytes | None


def record(row_key: bytes, before: bytes | None) -> bytes:
    """The payload of a record."""
    handle = row_key[HANDLE_AT:]
    head = _LENGTH.pack(len(handle)) + handle
    return head if before is None else head + _ROW + before


def placed(log: Sequence[tuple[bytes, bytes]], sequence: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and payloads of a packet's records, if the commit's stamp is its sequence."""
    for n, (prefix, payload) in enumerate(log):
        yield prefix + _PLACE.pack(sequence, 0, n), payload


def up_to(prefix: bytes, stamp: int) -> Span:
    """The records of commits with stamps up to this one."""
    return Span(prefix, prefix + _PLACE.pack(stamp + 1, 0, 0))


def above(prefix: bytes, stamp: int) -> Span:
    """The records of commits with greater stamps."""
    return Span(prefix + _PLACE.pack(stamp + 1, 0, 0), after(prefix))


def stamp_in(key: bytes, prefix: bytes) -> int:
    """The stamp of the commit that wrote the record."""
    stamp: int = _PLACE.unpack_from(key, len(prefix))[0]
    return stamp


def read(key: bytes, payload: bytes, prefix: bytes) -> ChangeRecord:
    """Decodes a record from its key and payload."""
    stamp, order, n = _PLACE.unpack_from(key, len(prefix))
    (length,) = _LENGTH.unpack_from(payload)
    ends = _LENGTH.size + length
    before = payload[ends + 1 :] if len(payload) > ends else None
    return ChangeRecord(stamp, order, n, payload[_LENGTH.size : ends], before)


def since(snapshot: Snapshot, prefix: bytes, view: View | None) -> Iterator[ChangeRecord]:
    """Records that the snapshot sees and the view (None: before all) did not, by stamp.

    Sort by `order_of` to get the changes of one row in the order of their commits."""
    for keys, raws in snapshot.chunks(above(prefix, -1 if view is None else view.horizon)):
        for key, raw in zip(keys, raws, strict=True):
            change = read(key, raw[STAMP_BYTES:], prefix)
            if view is None or not view.saw(change.stamp):
                yield change


def is_any_since(snapshot: Snapshot, prefix: bytes, view: View) -> bool:
    """Whether the snapshot sees a record that the view did not."""
    records = snapshot.scan(above(prefix, view.horizon))
    return any(not view.saw(stamp_in(key, prefix)) for key, _ in records)


def order_of(change: ChangeRecord) -> tuple[int, int, int]:
    """The sort key by which changes of a row are in the order of their commits."""
    return change.order or change.stamp, change.order, change.n


class ChangedRow(NamedTuple):
    """A changed row: its payloads before and after, None if it did not exist."""

    handle: bytes
    before: bytes | None
    after: bytes | None


def rows_changed(
    snapshot: Snapshot, log: bytes, rows: bytes, view: View | None
) -> list[ChangedRow]:
    """Rows that differ between the view and the snapshot, one element per row, by handle.

    `log`, `rows`: the prefixes of the table's records and rows."""
    first: dict[bytes, ChangeRecord] = {}
    for change in since(snapshot, log, view):
        earliest = first.get(change.handle)
        if earliest is None or order_of(change) < order_of(earliest):
            first[change.handle] = change
    handles = sorted(first)
    raws = snapshot.get_many([rows + handle for handle in handles])
    pairs = ((first[h], raws.get(rows + h)) for h in handles)
    changed = (ChangedRow(c.handle, c.before, raw and raw[STAMP_BYTES:]) for c, raw in pairs)
    return [row for row in changed if row.before != row.after]


def in_order(
    snapshot: Snapshot, log: bytes, rows: bytes, view: View | None, until: View | None = None
) -> list[tuple[ChangeRecord, bytes | None]]:
    """Changes that the snapshot sees and the view did not, with the row's payload after each.

    In the order of their commits. `until`: a later view; only changes that it sees."""
    changes = [c for c in since(snapshot, log, view) if until is None or until.saw(c.stamp)]
    changes.sort(key=order_of)
    last_change = {change.handle: change for change in changes}
    later: dict[bytes, ChangeRecord] = {}
    for change in () if until is None else since(snapshot, log, until):
        first = later.get(change.handle)
        if change.handle in last_change and (first is None or order_of(change) < order_of(first)):
            later[change.handle] = change
    following: dict[bytes, bytes | None] = {c.handle: c.before for c in later.values()}
    present = [handle for handle in last_change if handle not in following]
    raws = snapshot.get_many([rows + handle for handle in present])
    for handle in present:
        raw = raws.get(rows + handle)
        following[handle] = raw and raw[STAMP_BYTES:]
    afterwards: list[bytes | None] = []
    for change in reversed(changes):
        afterwards.append(following[change.handle])
        following[change.handle] = change.before
    return list(zip(changes, reversed(afterwards), strict=True))
