"""A node's cache of all tables' row counts: read once, then only the changes.

    step        every 3 s: rows with a version above the high-water mark  ->  `recent`
    put         more than 10,000 of them: into the columns, in place
    load        many rows at first, or many new ones: mysql.stats_meta as columns, by table id;
                52 bytes a table
    get         recent, else the columns (binary search)

    high_water  every row up to this version is here: readers of changes stop at it

Rows of dropped tables stay until the next load.

New statistics reach the plans of every front:

    analysis on any node       --> m/freshstats = version, channel "stats"
    every front                --> reads it when woken, or after 3 s; a new version discards
                                   cached plans

Plans are cached by the shape of their text, and are checked against definitions only; statistics
decide which index they read.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from exuvia.kv.store import Store
from exuvia.stats import meta, records
from exuvia.stats.meta import Meta

LEASE_S = 3.0
MOST_RECENT = 10_000
MOST_AT_FIRST = 1000  # rows read one by one before the number of rows is known
_NUMBERS = (
    "table_id",
    "version",
    "modify_count",
    "count",
    "exuvia_analyzed_count",
    "exuvia_analyzed_at",
)
_COUNTS = ("count", "modify_count", "exuvia_analyzed_count", "exuvia_analyzed_at", "text")

Array = NDArray[np.integer[Any]]


class RowCounts(NamedTuple):
    """The counts of many tables, one element each.

    Tables without a row have rows 0 and analyzed -1. `analyzed`: rows at the last analysis, or -1.
    `analyzed_at`: seconds since 1970. `indexes`: the analyzed ones, as text."""

    rows: Array
    modified: Array
    analyzed: Array
    analyzed_at: Array
    indexes: list[str]


class RowCountColumns:
    """The whole table as columns, ordered by table id; -1 for NULL. Shape (tables,) each.

    `texts` are the distinct values of analyzed indexes, by the numbers in `text`."""

    def __init__(self, columns: dict[str, Array], texts: Sequence[str] = ("",)) -> None:
        ids = columns["table_id"]
        if (ids[1:] <= ids[:-1]).any():
            order = np.argsort(ids, kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
        self.by_name = dict(columns)
        self.texts = list(texts)

    @property
    def ids(self) -> Array:
        """The table ids, in order."""
        return self.by_name["table_id"]

    def __len__(self) -> int:
        return len(self.ids)

    def put(self, rows: Iterable[Meta]) -> None:
        """Insert or replace rows, one a table. New rows copy one column at a time."""
        changed = sorted(rows, key=lambda row: row.table_id)
        at, exists = self._places([row.table_id for row in changed])
        insert_at = np.searchsorted(self.ids, [row.table_id for row in changed])[~exists]
        for name, values in self._as_columns(changed).items():
            column = self.by_name[name]
            column[at[exists]] = values[exists]
            if len(insert_at):
                self.by_name[name] = np.insert(column, insert_at, values[~exists])

    def _as_columns(self, rows: Sequence[Meta]) -> dict[str, Array]:
        numbers = {text: n for n, text in enumerate(self.texts)}
        text = _numbered([row.analyzed_indexes for row in rows], numbers)
        self.texts = list(numbers)
        fields = (
            [row.table_id for row in rows],
            [row.version for row in rows],
            [row.modified for row in rows],
            [row.rows for row in rows],
            [-1 if row.analyzed_count is None else row.analyzed_count for row in rows],
            [-1 if row.analyzed_at is None else row.analyzed_at for row in rows],
        )
        arrays: dict[str, Array] = {
            name: np.array(field, np.int64) for name, field in zip(_NUMBERS, fields, strict=True)
        }
        return {**arrays, "text": text}

    def counts(self, table_ids: Sequence[int]) -> RowCounts:
        at, exists = self._places(table_ids)
        rows, modified, analyzed, analyzed_at, text = (
            np.where(exists, self.by_name[name][at], absent)
            for name, absent in zip(_COUNTS, (0, 0, -1, -1, 0), strict=True)
        )
        indexes = list(map(self.texts.__getitem__, text.tolist()))
        return RowCounts(rows, modified, analyzed, analyzed_at, indexes)

    def find(self, table_ids: Sequence[int]) -> list[Meta | None]:
        """The rows of tables, None for a missing one."""
        at, exists = self._places(table_ids)
        lists = [self.by_name[name][at].tolist() for name in (*_NUMBERS, "text")]
        texts = self.texts
        return [
            Meta(
                version,
                table_id,
                modified,
                rows,
                0,
                None,
                _or_none(count),
                _or_none(when),
                texts[text],
            )
            if is_there
            else None
            for is_there, table_id, version, modified, rows, count, when, text in zip(
                exists.tolist(), *lists, strict=True
            )
        ]

    def _places(self, table_ids: Sequence[int]) -> tuple[Array, NDArray[np.bool_]]:
        """The positions of their rows, and whether they exist. Shape (table_ids,)."""
        ids = np.asarray(table_ids, np.int64)
        at = np.searchsorted(self.ids, ids)
        at[at == len(self.ids)] = 0
        return at, self.ids[at] == ids


def _no_table() -> RowCountColumns:
    """Columns of a single row, because columns are never empty."""
    numbers: dict[str, Array] = {name: np.full(1, -1, np.int64) for name in _NUMBERS}
    return RowCountColumns({**numbers, "text": np.zeros(1, np.int32)})


def _or_none(number: int) -> int | None:
    return None if number < 0 else number


class StatsCache:
    """Row counts of all tables, at most LEASE_S old. Thread-safe."""

    channel = meta.CHANNEL

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._stepping = threading.Lock()  # the high-water mark never goes back
        self._columns = _no_table()
        self._loaded = 0  # tables in the columns when they were read
        self._recent: dict[int, Meta] = {}
        self.high_water = 0

    def step(self, now: float) -> float:
        """Read changed rows; returns the seconds until the next step, 0 while there are more."""
        with self._stepping:
            most = MOST_RECENT if self.high_water else MOST_AT_FIRST
            with self._store.read() as txn:
                news = list(meta.changed(txn, self.high_water, limit=most))
            if len(news) >= most and not self.high_water:
                self.load()
                return LEASE_S
            with self._lock:
                for row in news:
                    self._recent[row.table_id] = row
                if news:
                    self.high_water = news[-1].version
                if len(self._recent) > MOST_RECENT:
                    self._columns.put(self._recent.values())
                    self._recent = {}
            if len(self._columns) > 2 * self._loaded + MOST_RECENT:
                self.load()
            return 0.0 if len(news) >= most else LEASE_S

    def load(self) -> None:
        """Read everything, as columns."""
        columns, high_water = read_columns(self._store)
        with self._lock:
            self._columns, self._recent = columns, {}
            self._loaded = len(columns)
            self.high_water = max(self.high_water, high_water)  # the newest row may be gone

    def get(self, table_id: int) -> Meta | None:
        """The row of a physical table."""
        return self.get_many([table_id])[0]

    def get_many(self, table_ids: Sequence[int]) -> list[Meta | None]:
        """The rows of many tables, a microsecond each."""
        with self._lock:
            newer = list(map(self._recent.get, table_ids))
            if None not in newer:
                return newer
            older = self._columns.find(table_ids)
        return [new or old for new, old in zip(newer, older, strict=True)]

    def counts(self, table_ids: Sequence[int]) -> RowCounts:
        """The counts of very many tables, a tenth of a microsecond each."""
        with self._lock:
            recent = self._recent
            newer = [recent.get(table_id) for table_id in table_ids] if recent else []
            row_counts = self._columns.counts(table_ids)
        for n, meta_ in enumerate(newer):
            if meta_ is not None:
                row_counts.rows[n], row_counts.modified[n] = meta_.rows, meta_.modified
                row_counts.analyzed[n] = (
                    -1 if meta_.analyzed_count is None else meta_.analyzed_count
                )
                row_counts.analyzed_at[n] = -1 if meta_.analyzed_at is None else meta_.analyzed_at
                row_counts.indexes[n] = meta_.analyzed_indexes
        return row_counts


def read_columns(store: Store) -> tuple[RowCountColumns, int]:
    """The columns of mysql.stats_meta in one snapshot, and the greatest version in it."""
    from exuvia.catalog.codec import row_batch

    with store.read() as txn:
        table = meta.table_of(txn)
    positions = [table.position(name) for name in _NUMBERS]
    texts = table.position("exuvia_analyzed_indexes")
    columns: dict[str, Array] = {name: np.empty(0, np.int64) for name in _NUMBERS}
    columns["text"] = np.empty(0, np.int32)
    numbers: dict[str, int] = {"": 0}
    end = 0
    view = store.snapshot()
    try:
        for row_keys, raws in view.chunks(table.row_span()):
            rows = row_batch.decode(table, row_keys, raws, view.skip, [*positions, texts])
            start, end = end, end + len(raws)
            if end > len(columns["text"]):
                _resize(columns, 2 * end)
            for name, position in zip(_NUMBERS, positions, strict=True):
                column = rows.column(position)
                values: Array = column.values.astype(np.int64)
                columns[name][start:end] = (
                    values if column.nulls is None else np.where(column.nulls, -1, values)
                )
            columns["text"][start:end] = _numbered(rows.column(texts).to_list(), numbers)
    finally:
        view.close()
    if not end:
        return _no_table(), 0
    _resize(columns, end)
    return RowCountColumns(columns, list(numbers)), int(columns["version"].max())


def _resize(columns: dict[str, Array], size: int) -> None:
    """Resize in place: a concatenation at the end would need twice the memory for a while."""
    for column in columns.values():
        column.resize(size, refcheck=False)


def _numbered(texts: list[str | None], numbers: dict[str, int]) -> NDArray[np.int32]:
    """The number of each text; new texts get the next number."""
    for text in set(texts):
        numbers.setdefault(text or "", len(numbers))
    return np.array([numbers[text or ""] for text in texts], np.int32)


# -- fresh -----------------------------------------------------------------------------------------


class FreshStatistics:
    """A front's loop that calls `forget` when statistics have changed."""

    channel = meta.CHANNEL

    def __init__(self, store: Store, forget: Callable[[], None]) -> None:
        self._store = store
        self._forget = forget
        self._last_version = self._version()

    def step(self, now: float) -> float:
        """Check the version; returns the seconds until the next check."""
        version = self._version()
        if version != self._last_version:
            self._last_version = version
            self._forget()
        return LEASE_S

    def _version(self) -> int:
        with self._store.read() as txn:
            return records.last_version(txn)
