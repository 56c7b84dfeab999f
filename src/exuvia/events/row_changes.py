"""The stream of a table's row changes, for readers outside: read from its change log.

    read(store, schemas, table_id, after)   changes behind a position, and the position they lead to
    pages(...), subscribe(...)              the same again and again

    {"position": "812", "op": "update", "before": {"id": 1, "a": 2}, "after": {"id": 1, "a": 3},
     "schema_version": 57}

A position is a view of the store as text: whoever comes back with it gets every change that it does
not see, however late those were committed, in the order in which they were made to each row. The
changes of one read belong together, so all but the last of them have the position at which the read
began: who keeps the position of the last line it handled misses nothing, and may get the changes of
one read again. A commit is never cut in two. Rows that get another key are deleted and inserted.

A snapshot first gives every row as it was at one moment ("op": "row"), then that moment's position
("op": "rows end"); the stream goes on from exactly there. It is read in many short transactions:
what has changed since the moment is taken back by the log, so nothing is kept in the store for it.
One that was cut off begins anew.

All rows are shown with the columns that the table has when they are read: one that was added later
has its default in earlier rows, one that was dropped is gone from them.

There is no notice for each commit of a client, on purpose: it would cost every commit. Who follows
looks five times a second.
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
    """`op`: insert, update, delete; row, rows end. The values by column: numbers, text (also of
    DECIMAL, JSON and times, which are UTC in a TIMESTAMP), base64 of bytes, None."""

    position: str
    op: str
    before: Values | None
    after: Values | None
    schema_version: int


class Page(NamedTuple):
    """`position`: behind those events. `whole`: there were no more."""

    events: list[RowEvent]
    position: str
    whole: bool


def find(store: Store, schemas: Schemas, database: str, name: str) -> int:
    """The table's id, by which it is followed when it gets another name. Raises 1049, 1146."""
    with store.read() as txn:
        return schemas.table(txn, database, name).info.id


def view_at(store: Store, txn: Transaction, position: str) -> View:
    """The view of a position. Raises 1105 for what is none of this store's."""
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
    """All that have rows: partitions, also those of a running change."""
    if not table.is_partitioned:
        return [table]
    return [table.part(each) for each in table.info.physical_ids]


# -- changes ---------------------------------------------------------------------------------------


def read(store: Store, schemas: Schemas, table_id: int, after: str, most: int = PAGE) -> Page:
    """Changes behind a position: about at most so many, where moments (events/change_log.py) cut
    the log so finely.

    Raises 1146, 1105 (no log; no position of this store), 8055 (records were removed)."""
    with store.read() as txn:
        table = _table(schemas, txn, table_id)
        known = view_at(store, txn, after)
        require_complete(txn, table.info, known)
        parts = _parts(table)
        until = _cut(store, txn, parts, known, most)
        found = _all_in_order(txn, parts, known, until)
        position = (txn.snapshot.view if until is None else until).position
        version = meta.version(txn)
        events = [_event(after, *each, version) for each in found]
    if events:
        events[-1] = events[-1]._replace(position=position)
    return Page(events, position, until is None)


def reach(store: Store, schemas: Schemas, table_id: int, after: str, most: int) -> str:
    """The position of the page that `read` would give."""
    with store.read() as txn:
        table = _table(schemas, txn, table_id)
        known = view_at(store, txn, after)
        until = _cut(store, txn, _parts(table), known, most)
        return (txn.snapshot.view if until is None else until).position


def in_order_of_all(
    txn: Transaction, table: Table, known: View, until: View | None
) -> list[tuple[bytes | None, bytes | None]]:
    """Payloads of each row before and after each change that the view did not see, of all
    partitions. `until`: a later view, only those that it sees."""
    found = _all_in_order(txn, _parts(table), known, until)
    return [(record.before, payload) for record, payload, _ in found]


def _all_in_order(
    txn: Transaction, parts: list[Table], known: View, until: View | None
) -> list[tuple[ChangeRecord, bytes | None, Table]]:
    found: list[tuple[ChangeRecord, bytes | None, Table]] = []
    for part in parts:
        places = part.log_prefix, part.row_prefix
        pairs = change_log.in_order(txn.snapshot, *places, known, until)
        found += ((record, payload, part) for record, payload in pairs)
    found.sort(key=_order)
    return found


def _order(found: tuple[ChangeRecord, bytes | None, Table]) -> tuple[int, int, int]:
    return change_log.order_of(found[0])


def _event(
    position: str, record: ChangeRecord, payload: bytes | None, part: Table, version: int
) -> RowEvent:
    op = "insert" if record.before is None else "delete" if payload is None else "update"
    return RowEvent(position, op, _values(part, record.before), _values(part, payload), version)


def _cut(store: Store, txn: Transaction, parts: list[Table], known: View, most: int) -> View | None:
    """A later moment between which and the view about so many changes lie; None: there are not
    more."""
    stamps = []
    for part in parts:
        for n, record in enumerate(change_log.since(txn.snapshot, part.log_prefix, known), 1):
            if n > most // len(parts) + 1:
                stamps.append(record.stamp)
                break
    if not stamps:
        return None
    bound = min(stamps)

    def horizon(position: str) -> int:
        view = store.view_at(position)
        return -1 if view is None else view.horizon

    beyond = first_moment(txn, lambda each: horizon(each.position) > bound)
    best = newest_moment(txn) if beyond is None else moment_at(txn, beyond.wall_us - 1)
    for each in (best, beyond):
        if each is not None and horizon(each.position) > known.horizon:
            return store.view_at(each.position)
    return None


# -- all rows of one moment ------------------------------------------------------------------------


class MomentReader:
    """The rows of a table as they were when this was made. Raises as `read` does."""

    def __init__(self, store: Store, schemas: Schemas, table_id: int, most: int = PAGE) -> None:
        self._store = store
        self._schemas = schemas
        self._table_id = table_id
        self._most = most
        self._former: dict[tuple[int, bytes], bytes | None] = {}  # rows changed since the moment
        self._by_part: dict[int, list[bytes]] = {}
        with store.read() as txn:
            txn.open()
            self._moment = self._seen = txn.snapshot.view
            table = _table(schemas, txn, table_id)
            require_complete(txn, table.info, self._moment)
            self._parts = [each.physical_id for each in _parts(table)]
        self.position = self._moment.position

    def pages(self) -> Iterator[Page]:
        """Every row, partition by partition in the order of its keys, then their end."""
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
            self._take_back(txn, table)
            part = table.part(physical_id) if table.is_partitioned else table
            found, raws = next(txn.snapshot.chunks(span, self._most), ([], []))
            end = found[-1] + b"\0" if len(found) == self._most else span.end
            skip = txn.snapshot.skip
            rows: dict[bytes, bytes | None] = {
                key: raw[skip:] for key, raw in zip(found, raws, strict=True)
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

    def _take_back(self, txn: Transaction, table: Table) -> None:
        """Note what rows were that have changed since the last look."""
        known = len(self._former)
        for part in _parts(table):
            pairs = change_log.rows_changed(
                txn.snapshot, part.log_prefix, part.row_prefix, self._seen
            )
            for handle, before, _ in pairs:
                self._former.setdefault((part.physical_id, handle), before)
        self._seen = txn.snapshot.view
        if len(self._former) == known:
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
    """The changes behind a position, read by read, and with `follow` those that come, until `stop`
    is set. `after` "": from now on. `snapshot`: all rows first; the position of their pages is ""
    but for the last. Raises as `read` does."""
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
    """The events of those pages."""
    for page in pages(store, schemas, table_id, after, snapshot, follow, stop):
        yield from page.events
