"""What a node knows of all tables' row counts: read once, then only what changed.

step        every 3 s: rows with a version above the high-water mark  ->  `recent`
put         more than 10,000 of them: into the columns, where they are
load        many at first, or many that came since: mysql.stats_meta as columns, by table id;
            52 bytes a table
get         recent, else the columns (binary search)

high_water  every row up to this version is here: who follows changes asks for no more

Rows of tables that are gone stay until the next load.

New statistics reach the plans of every front.

    analysis, on whatever node --> m/freshstats = version, channel "stats"
    every front                --> reads it when woken, or after 3 s: another one than before?
                                   plans are made anew

Plans are kept by the shape of their text and prove themselves fresh against definitions only; which
index they read was chosen by statistics.
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
MOST_AT_FIRST = 1000  # rows read one by one before it knows whether there are many
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
    """What is known of many tables, an entry each; rows 0 and analyzed -1 where nothing is.

    `analyzed`: rows at the last analysis, -1 for none; `analyzed_at`: seconds since 1970;
    `indexes`: the analyzed ones, as text."""

    rows: Array
    modified: Array
    analyzed: Array
    analyzed_at: Array
    indexes: list[str]


class RowCountColumns:
    """The whole table as columns, ordered by table id; -1 where NULL. Shape (tables,) each.

    `texts` are the few different ones there are of analyzed indexes, by the numbers in `text`."""

    def __init__(self, columns: dict[str, Array], texts: Sequence[str] = ("",)) -> None:
        ids = columns["table_id"]
        if (ids[1:] <= ids[:-1]).any():
            order = np.argsort(ids, kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
        self.by_name = dict(columns)
        self.texts = list(texts)

    @property
    def ids(self) -> Array:
        """Of the tables, in order."""
        return self.by_name["table_id"]

    def __len__(self) -> int:
        return len(self.ids)

    def put(self, rows: Iterable[Meta]) -> None:
        """Rows that changed or came, one a table. A column at a time is copied where some came."""
        news = sorted(rows, key=lambda row: row.table_id)
        at, found = self._places([row.table_id for row in news])
        came = np.searchsorted(self.ids, [row.table_id for row in news])[~found]
        for name, values in self._as_columns(news).items():
            column = self.by_name[name]
            column[at[found]] = values[found]
            if len(came):
                self.by_name[name] = np.insert(column, came, values[~found])

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
        found: dict[str, Array] = {
            name: np.array(field, np.int64) for name, field in zip(_NUMBERS, fields, strict=True)
        }
        return {**found, "text": text}

    def counts(self, table_ids: Sequence[int]) -> RowCounts:
        at, found = self._places(table_ids)
        rows, modified, analyzed, analyzed_at, text = (
            np.where(found, self.by_name[name][at], absent)
            for name, absent in zip(_COUNTS, (0, 0, -1, -1, 0), strict=True)
        )
        indexes = list(map(self.texts.__getitem__, text.tolist()))
        return RowCounts(rows, modified, analyzed, analyzed_at, indexes)

    def find(self, table_ids: Sequence[int]) -> list[Meta | None]:
        """The rows of tables, None where there is none."""
        at, found = self._places(table_ids)
        held = [self.by_name[name][at].tolist() for name in (*_NUMBERS, "text")]
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
                found.tolist(), *held, strict=True
            )
        ]

    def _places(self, table_ids: Sequence[int]) -> tuple[Array, NDArray[np.bool_]]:
        """Where their rows are, and whether they are there at all. Shape (table_ids,)."""
        wanted = np.asarray(table_ids, np.int64)
        at = np.searchsorted(self.ids, wanted)
        at[at == len(self.ids)] = 0
        return at, self.ids[at] == wanted


def _no_table() -> RowCountColumns:
    """Columns are never empty."""
    numbers: dict[str, Array] = {name: np.full(1, -1, np.int64) for name in _NUMBERS}
    return RowCountColumns({**numbers, "text": np.zeros(1, np.int32)})


def _or_none(number: int) -> int | None:
    return None if number < 0 else number


class StatsCache:
    """See the module. Thread-safe."""

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
        """Read what changed; seconds until the next look, 0 while there is more."""
        with self._stepping:
            most = MOST_RECENT if self.high_water else MOST_AT_FIRST
            with self._store.read() as txn:
                news = list(meta.changed(txn, self.high_water, limit=most))
            if len(news) >= most and not self.high_water:
                self.load()
                return LEASE_S
            with self._lock:
                for each in news:
                    self._recent[each.table_id] = each
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
        """What is known of a (physical) table."""
        return self.get_many([table_id])[0]

    def get_many(self, table_ids: Sequence[int]) -> list[Meta | None]:
        """Likewise for many, a microsecond each."""
        with self._lock:
            newer = list(map(self._recent.get, table_ids))
            if None not in newer:
                return newer
            found = self._columns.find(table_ids)
        return [new or old for new, old in zip(newer, found, strict=True)]

    def counts(self, table_ids: Sequence[int]) -> RowCounts:
        """Likewise for very many, a tenth of that."""
        with self._lock:
            recent = self._recent
            newer = [recent.get(each) for each in table_ids] if recent else []
            found = self._columns.counts(table_ids)
        for n, meta_ in enumerate(newer):
            if meta_ is not None:
                found.rows[n], found.modified[n] = meta_.rows, meta_.modified
                found.analyzed[n] = -1 if meta_.analyzed_count is None else meta_.analyzed_count
                found.analyzed_at[n] = -1 if meta_.analyzed_at is None else meta_.analyzed_at
                found.indexes[n] = meta_.analyzed_indexes
        return found


def read_columns(store: Store) -> tuple[RowCountColumns, int]:
    """mysql.stats_meta of one snapshot, and the greatest version in it."""
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
    """In place: parts put together at the end would be there twice for a while."""
    for column in columns.values():
        column.resize(size, refcheck=False)


def _numbered(texts: list[str | None], numbers: dict[str, int]) -> NDArray[np.int32]:
    """Each text by its number; new ones get the next."""
    for text in set(texts):
        numbers.setdefault(text or "", len(numbers))
    return np.array([numbers[text or ""] for text in texts], np.int32)


# -- fresh -----------------------------------------------------------------------------------------


class FreshStatistics:
    """A front's loop. `forget`: plan anew."""

    channel = meta.CHANNEL

    def __init__(self, store: Store, forget: Callable[[], None]) -> None:
        self._store = store
        self._forget = forget
        self._known = self._version()

    def step(self, now: float) -> float:
        """Look; seconds until the next look."""
        version = self._version()
        if version != self._known:
            self._known = version
            self._forget()
        return LEASE_S

    def _version(self) -> int:
        with self._store.read() as txn:
            return records.last_version(txn)
