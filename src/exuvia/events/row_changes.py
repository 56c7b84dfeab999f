"""The stream of a table's row changes for external readers, read from its change log.

    read(store, schemas, table_id, after)   changes after a position, and the next position
    pages(...), subscribe(...)              repeated reads

    {"position": "812", "op": "update", "before": {"id": 1, "a": 2}, "after": {"id": 1, "a": 3},
     "schema_version": 57}

A position is a view of the store as text. A reader that continues from it gets every change after
that view, also from transactions that were open at the time. Changes of one row come in order. All
changes of one read but the last carry the position at which the read began. A reader that stores
the position of its last line misses nothing, and may get the changes of one read again. A commit is
never split. A row whose key changes is deleted and inserted.

A snapshot first gives every row at one moment ("op": "row"), then that moment's position ("op":
"rows end"); the stream continues from that position. The snapshot is read in many short
transactions. The log restores the former values of rows that changed since the moment, so the store
keeps no versions for it. An interrupted snapshot starts from the beginning.

Rows have the columns of the table at the time of the read. Earlier rows have the default of a
column added later, and lack a dropped column.

There is no notification for each commit, because it would slow down every commit. Followers poll
five times a second.
"""

import base64
import threading
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, NamedTuple

from exuvia.base.mysql_errors import ErrNoSuchTable, ErrUnknown
from exuvia.base.types import Family, TypeCode, Value
from exuvia.catalog import meta
from exuvia.catalog.convert.values import to_text
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import ColumnInfo, SchemaState
from exuvia.catalog.table import Table
from exuvia.events.change_log import first_moment, moment_at, newest_moment, require_complete
from exuvia.kv import change_log, keys
from exuvia.kv.change_log import ChangeRecord
from exuvia.kv.packet import Span, View
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

LOOK_S = 0.2
PAGE = 10_000
_AS_NUMBER = (Family.INT, Family.UINT, Family.FLOAT)
_AS_TEXT = (TypeCode.ENUM, TypeCode.SET)
Values = dict[str, Any]


class RowEvent(NamedTuple):
    """`op`: insert, update, delete; row, rows end.

    Values by column: numbers, text (also for DECIMAL, JSON and times; a TIMESTAMP is in UTC),
    base64 of bytes, None."""

    position: str
    op: str
    before: Values | None
    after: Values | None
    schema_version: int


class Page(NamedTuple):
    """`position`: after those events. `whole`: there were no more."""

    events: list[RowEvent]
    position: str
    whole: bool


def find(store: Store, schemas: Schemas, database: str, name: str) -> int:
    """The table's id, which stays the same when the table is renamed. Raises 1049, 1146."""
    with store.read() as txn:
        return schemas.table(txn, database, name).info.id


def view_at(store: Store, txn: Transaction, position: str) -> View:
    """The view of a position. Raises 1105 for text that is not a position of this store."""
    try:
        view = store.view_at(position)
    except ValueError:
        view = None
    if view is None or view.horizon > txn.snapshot.view.horizon:
        raise ErrUnknown.with_text(f"'{position}' is not a position of this store")
    return view


def _table(schemas: Schemas, txn: Transaction, table_id: int) -> Table:
    table = schemas.table_by_id(txn, table_id)
    if table is None or table.info.state != SchemaState.PUBLIC:
        raise ErrNoSuchTable.with_text(f"the table of id {table_id} was dropped")
    return table


def _parts(table: Table) -> list[Table]:
    """Every physical table with rows: partitions, also those of a running change."""
    if not table.is_partitioned:
        return [table]
    return [table.part(physical_id) for physical_id in table.info.physical_ids]


# -- changes ---------------------------------------------------------------------------------------


def read(store: Store, schemas: Schemas, table_id: int, after: str, most: int = PAGE) -> Page:
    """The changes after a position: about `most` at most, if a moment (events/change_log.py) allows
    such a cut.

    Raises 1146, 1105 (no log; no position of this store), 8055 (records were removed)."""
    with store.read() as txn:
        table = _table(schemas, txn, table_id)
        view = view_at(store, txn, after)
        require_complete(txn, table.info, view)
        parts = _parts(table)
        until = _cut(store, txn, parts, view, most)
        changes = _all_in_order(txn, parts, view, until)
        position = (txn.snapshot.view if until is None else until).position
        version = meta.version(txn)
        events = [_event(after, *change, version) for change in changes]
    if events:
        events[-1] = events[-1]._replace(position=position)
    return Page(events, position, until is None)


def reach(store: Store, schemas: Schemas, table_id: int, after: str, most: int) -> str:
    """The position that the page of `read` would have."""
    with store.read() as txn:
        table = _table(schemas, txn, table_id)
        view = view_at(store, txn, after)
        until = _cut(store, txn, _parts(table), view, most)
        return (txn.snapshot.view if until is None else until).position


def in_order_of_all(
    txn: Transaction, table: Table, view: View, until: View | None
) -> list[tuple[bytes | None, bytes | None]]:
    """Payloads of each row before and after each change since the view, of all partitions. `until`:
    a later view, to which the changes are limited."""
    changes = _all_in_order(txn, _parts(table), view, until)
    return [(record.before, payload) for record, payload, _ in changes]


def _all_in_order(
    txn: Transaction, parts: list[Table], view: View, until: View | None
) -> list[tuple[ChangeRecord, bytes | None, Table]]:
    changes: list[tuple[ChangeRecord, bytes | None, Table]] = []
    for part in parts:
        places = part.log_prefix, part.row_prefix
        pairs = change_log.in_order(txn.snapshot, *places, view, until)
        changes += ((record, payload, part) for record, payload in pairs)
    changes.sort(key=_order)
    return changes


def _order(change: tuple[ChangeRecord, bytes | None, Table]) -> tuple[int, int, int]:
    return change_log.order_of(change[0])


def _event(
    position: str, record: ChangeRecord, payload: bytes | None, part: Table, version: int
) -> RowEvent:
    op = "insert" if record.before is None else "delete" if payload is None else "update"
    return RowEvent(position, op, _values(part, record.before), _values(part, payload), version)


def _cut(store: Store, txn: Transaction, parts: list[Table], after: View, most: int) -> View | None:
    """A later moment with about `most` changes since the view; None if there are no more than
    that."""
    stamps = []
    for part in parts:
        for n, record in enumerate(change_log.since(txn.snapshot, part.log_prefix, after), 1):
            if n > most // len(parts) + 1:
                stamps.append(record.stamp)
                break
    if not stamps:
        return None
    bound = min(stamps)

    def horizon(position: str) -> int:
        view = store.view_at(position)
        return -1 if view is None else view.horizon

    beyond = first_moment(txn, lambda moment: horizon(moment.position) > bound)
    best = newest_moment(txn) if beyond is None else moment_at(txn, beyond.wall_us - 1)
    for moment in (best, beyond):
        if moment is not None and horizon(moment.position) > after.horizon:
            return store.view_at(moment.position)
    return None


# -- all rows of one moment ------------------------------------------------------------------------


class MomentReader:
    """The rows of a table at the time of construction. Raises the errors of `read`."""

    def __init__(self, store: Store, schemas: Schemas, table_id: int, most: int = PAGE) -> None:
        self._store = store
        self._schemas = schemas
        self._table_id = table_id
        self._most = most
        self._former: dict[tuple[int, bytes], bytes | None] = {}  # rows changed since the moment
        self._by_part: dict[int, list[bytes]] = {}
        with store.read() as txn:
            txn.open()
            self._moment = self._last_view = txn.snapshot.view
            table = _table(schemas, txn, table_id)
            require_complete(txn, table.info, self._moment)
            self._parts = [part.physical_id for part in _parts(table)]
        self.position = self._moment.position

    def pages(self) -> Iterator[Page]:
        """Every row, by partition and key, then an end marker."""
        for physical_id in self._parts:
            span: Span | None = keys.span_of(keys.row_prefix(physical_id))
            while span is not None:
                events, span = self._chunk(physical_id, span)
                yield Page(events, "", False)
        yield Page([RowEvent(self.position, "rows end", None, None, 0)], self.position, False)

    def _chunk(self, physical_id: int, span: Span) -> tuple[list[RowEvent], Span | None]:
        with self._store.read() as txn:
            txn.open()
            table = _table(self._schemas, txn, self._table_id)
            require_complete(txn, table.info, self._moment)
            self._remember_former(txn, table)
            part = table.part(physical_id) if table.is_partitioned else table
            keys_read, raws = next(txn.snapshot.chunks(span, self._most), ([], []))
            end = keys_read[-1] + b"\0" if len(keys_read) == self._most else span.end
            skip = txn.snapshot.skip
            rows: dict[bytes, bytes | None] = {
                key: raw[skip:] for key, raw in zip(keys_read, raws, strict=True)
            }
            changed = self._by_part.get(physical_id, [])
            prefix = part.row_prefix
            first = bisect_left(changed, span.start[len(prefix) :])
            for handle in changed[first:]:
                if prefix + handle >= end:
                    break
                rows[prefix + handle] = self._former[physical_id, handle]
            version = meta.version(txn)
        events = [
            RowEvent("", "row", None, _values(part, rows[key]), version)
            for key in sorted(rows)
            if rows[key] is not None
        ]
        return events, None if end == span.end else Span(end, span.end)

    def _remember_former(self, txn: Transaction, table: Table) -> None:
        """Remember the former values of rows that changed since the last call."""
        former_count = len(self._former)
        for part in _parts(table):
            pairs = change_log.rows_changed(
                txn.snapshot, part.log_prefix, part.row_prefix, self._last_view
            )
            for handle, before, _ in pairs:
                self._former.setdefault((part.physical_id, handle), before)
        self._last_view = txn.snapshot.view
        if len(self._former) == former_count:
            return
        self._by_part = {}
        for physical_id, handle in sorted(self._former):
            self._by_part.setdefault(physical_id, []).append(handle)


# -- values ----------------------------------------------------------------------------------------


def _values(table: Table, payload: bytes | None) -> Values | None:
    if payload is None:
        return None
    row = table.decode(payload)
    return {column.name.O: _plain(row[column.offset], column) for column in table.columns}


def _plain(value: Value, column: ColumnInfo) -> Any:
    if value is None:
        return None
    kind = column.type
    if kind.family == Family.BYTES:
        return base64.b64encode(value).decode()
    if kind.family in _AS_NUMBER and kind.Tp not in _AS_TEXT:
        return value
    return to_text(value, kind)


# -- following -------------------------------------------------------------------------------------


def pages(
    store: Store,
    schemas: Schemas,
    table_id: int,
    after: str = "",
    snapshot: bool = False,
    follow: bool = True,
    stop: threading.Event | None = None,
) -> Iterator[Page]:
    """The changes after a position, one page a read; `follow` continues until `stop` is set.

    `after` "": from now on. `snapshot`: all rows first; only the last of their pages has a
    position. Raises the errors of `read`."""
    stop = stop or threading.Event()
    if snapshot:
        reader = MomentReader(store, schemas, table_id)
        yield from reader.pages()
        after = reader.position
    elif not after:
        with store.read() as txn:
            txn.open()
            require_complete(txn, _table(schemas, txn, table_id).info, txn.snapshot.view)
            after = txn.snapshot.view.position
    while not stop.is_set():
        page = read(store, schemas, table_id, after)
        yield page
        after = page.position
        if page.whole:
            if not follow:
                return
            stop.wait(LOOK_S)


def subscribe(
    store: Store,
    schemas: Schemas,
    table_id: int,
    after: str = "",
    snapshot: bool = False,
    follow: bool = True,
    stop: threading.Event | None = None,
) -> Iterator[RowEvent]:
    """The events of the same pages, one by one."""
    for page in pages(store, schemas, table_id, after, snapshot, follow, stop):
        yield from page.events
