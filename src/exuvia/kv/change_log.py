"""The change log of a table: what each commit changed, written by that commit.

    key       t{table}c {log u32} {stamp u64} {order u64} {n u32}     log: which of the table's
    payload   {length of the handle u16} {handle}               nothing stood at the row's key
              {length of the handle u16} {handle} 1 {payload}   the row before

One record for each row whose bytes differ after the commit, however often the transaction wrote it.
There is no new value: it is the old one of the row's next record, or what stands there.

`stamp` is the commit's. Where stamps are not in the order of commits (a server's), `order` is, of
any two commits that wrote the same row; else 0. Nobody ever writes a record twice, so a transaction
need not validate it: the engine makes its key when all else has been judged.

Who reads on from a position (a view as text) sees each record once: `since` gives what that view
did not see, and every commit whose stamp is above the view's horizon is looked at.
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
    """A record. `before`: the row's payload before the commit, None where there was no row."""

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
    """Key and payload of a packet's records, where the stamp of the commit is its sequence."""
    for n, (prefix, payload) in enumerate(log):
        yield prefix + _PLACE.pack(sequence, 0, n), payload


def up_to(prefix: bytes, stamp: int) -> Span:
    """The records of commits with stamps up to that one."""
    return Span(prefix, prefix + _PLACE.pack(stamp + 1, 0, 0))


def above(prefix: bytes, stamp: int) -> Span:
    """The records of commits with greater stamps."""
    return Span(prefix + _PLACE.pack(stamp + 1, 0, 0), after(prefix))


def stamp_in(key: bytes, prefix: bytes) -> int:
    """The stamp of the commit that wrote the record."""
    stamp: int = _PLACE.unpack_from(key, len(prefix))[0]
    return stamp


def read(key: bytes, payload: bytes, prefix: bytes) -> ChangeRecord:
    """Inverse of what a commit wrote."""
    stamp, order, n = _PLACE.unpack_from(key, len(prefix))
    (length,) = _LENGTH.unpack_from(payload)
    ends = _LENGTH.size + length
    before = payload[ends + 1 :] if len(payload) > ends else None
    return ChangeRecord(stamp, order, n, payload[_LENGTH.size : ends], before)


def since(snapshot: Snapshot, prefix: bytes, known: View | None) -> Iterator[ChangeRecord]:
    """What the snapshot sees and the view (None: before all) did not, in the order of the stamps.
    The changes of one row are in the order in which they were made once sorted by `order_of`."""
    for keys, raws in snapshot.chunks(above(prefix, -1 if known is None else known.horizon)):
        for key, raw in zip(keys, raws, strict=True):
            change = read(key, raw[STAMP_BYTES:], prefix)
            if known is None or not known.saw(change.stamp):
                yield change


def is_any_since(snapshot: Snapshot, prefix: bytes, known: View) -> bool:
    """Whether the snapshot sees a record that the view did not."""
    found = snapshot.scan(above(prefix, known.horizon))
    return any(not known.saw(stamp_in(key, prefix)) for key, _ in found)


def order_of(change: ChangeRecord) -> tuple[int, int, int]:
    """In which order changes were made."""
    return change.order or change.stamp, change.order, change.n


class ChangedRow(NamedTuple):
    """What became of a row: payloads, None where there is none."""

    handle: bytes
    before: bytes | None
    after: bytes | None


def rows_changed(
    snapshot: Snapshot, log: bytes, rows: bytes, known: View | None
) -> list[ChangedRow]:
    """What is different in the snapshot from what the view saw, one for each row, by handle.
    `log`, `rows`: the prefixes of the table's records and rows."""
    first: dict[bytes, ChangeRecord] = {}
    for change in since(snapshot, log, known):
        held = first.get(change.handle)
        if held is None or order_of(change) < order_of(held):
            first[change.handle] = change
    handles = sorted(first)
    found = snapshot.get_many([rows + handle for handle in handles])
    pairs = ((first[h], found.get(rows + h)) for h in handles)
    changed = (ChangedRow(c.handle, c.before, raw and raw[STAMP_BYTES:]) for c, raw in pairs)
    return [each for each in changed if each.before != each.after]


def in_order(
    snapshot: Snapshot, log: bytes, rows: bytes, known: View | None, until: View | None = None
) -> list[tuple[ChangeRecord, bytes | None]]:
    """Every change that the snapshot sees and the view did not, in the order in which they were
    made, with the row's payload after it. `until`: a later view, only those that it sees."""
    changes = [c for c in since(snapshot, log, known) if until is None or until.saw(c.stamp)]
    changes.sort(key=order_of)
    left = {change.handle: change for change in changes}
    later: dict[bytes, ChangeRecord] = {}
    for change in () if until is None else since(snapshot, log, until):
        held = later.get(change.handle)
        if change.handle in left and (held is None or order_of(change) < order_of(held)):
            later[change.handle] = change
    following: dict[bytes, bytes | None] = {each.handle: each.before for each in later.values()}
    standing = [handle for handle in left if handle not in following]
    found = snapshot.get_many([rows + handle for handle in standing])
    for handle in standing:
        raw = found.get(rows + handle)
        following[handle] = raw and raw[STAMP_BYTES:]
    afterwards: list[bytes | None] = []
    for change in reversed(changes):
        afterwards.append(following[change.handle])
        following[change.handle] = change.before
    return list(zip(changes, reversed(afterwards), strict=True))
