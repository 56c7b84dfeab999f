"""What a node knows of all tables' row counts: read once, then only what changed.

step        every 3 s: rows with a version above the high-water mark  ->  `recent`
load        more than 50,000 of them: mysql.stats_meta as columns, by table id; 48 bytes a table
get         recent, else the columns (binary search)

high_water  every row up to this version is here: who follows changes asks for no more
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exuvia.kv.store import Store
from exuvia.stats import meta
from exuvia.stats.meta import Meta

LEASE_S = 3.0
MOST_RECENT = 50_000
_NUMBERS = (
    "table_id",
    "version",
    "modify_count",
    "count",
    "exuvia_analyzed_count",
    "exuvia_analyzed_at",
)

Array = NDArray[np.int64]


class Columns:
    """The whole table as columns, ordered by table id; -1 where NULL. Shape (tables,) each."""

    def __init__(self, columns: dict[str, Array], indexes: dict[int, str]) -> None:
        order = np.argsort(columns["table_id"], kind="stable")
        self.by_name = {name: column[order] for name, column in columns.items()}
        self.ids = self.by_name["table_id"]
        self.indexes = indexes  # table id -> analyzed indexes, where there are any

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, table_ids: Sequence[int]) -> list[Meta | None]:
        """The rows of tables, None where there is none."""
        if not len(self.ids):
            return [None] * len(table_ids)
        wanted = np.asarray(table_ids, np.int64)
        at = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        held = [self.by_name[name][at].tolist() for name in _NUMBERS]
        texts = self.indexes
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
                texts.get(table_id, ""),
            )
            if table_id == asked
            else None
            for asked, table_id, version, modified, rows, count, when in zip(
                table_ids, *held, strict=True
            )
        ]


def _or_none(number: int) -> int | None:
    return None if number < 0 else number


class StatsCache:
    """See the module. Thread-safe."""

    channel = meta.CHANNEL

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._stepping = threading.Lock()  # the high-water mark never goes back
        self._columns = Columns({name: np.empty(0, np.int64) for name in _NUMBERS}, {})
        self._recent: dict[int, Meta] = {}
        self.high_water = 0

    def step(self, now: float) -> float:
        """Read what changed; seconds until the next look, 0 while there is more."""
        with self._stepping:
            return self._read_news()

    def _read_news(self) -> float:
        if len(self._recent) > MOST_RECENT:
            self.load()
            return LEASE_S
        txn = self._store.begin()
        try:
            news = list(meta.changed(txn, self.high_water, limit=MOST_RECENT + 1))
        finally:
            txn.rollback()
        with self._lock:
            for each in news:
                self._recent[each.table_id] = each
            if news:
                self.high_water = news[-1].version
        return 0.0 if len(news) > MOST_RECENT else LEASE_S

    def load(self) -> None:
        """Read everything, as columns."""
        columns, high_water = read_columns(self._store)
        with self._lock:
            self._columns, self._recent = columns, {}
            self.high_water = high_water

    def get(self, table_id: int) -> Meta | None:
        """What is known of a (physical) table."""
        return self.get_many([table_id])[0]

    def get_many(self, table_ids: Sequence[int]) -> list[Meta | None]:
        """Likewise for many, a microsecond each."""
        with self._lock:
            columns, recent = self._columns, self._recent
            found = columns.find(table_ids)
            if recent:
                newer = map(recent.get, table_ids)
                found = [new or old for new, old in zip(newer, found, strict=True)]
        return found


def read_columns(store: Store) -> tuple[Columns, int]:
    """mysql.stats_meta of one snapshot, and the greatest version in it."""
    from exuvia.catalog import vector

    txn = store.begin()
    table = meta.table_of(txn)
    txn.rollback()
    positions = [table.position(name) for name in _NUMBERS]
    texts = table.position("exuvia_analyzed_indexes")
    found: dict[str, list[Array]] = {name: [] for name in _NUMBERS}
    indexes: dict[int, str] = {}
    view = store.snapshot()
    try:
        for row_keys, raws in view.chunks(table.row_span()):
            rows = vector.decode(table, row_keys, raws, [*positions, texts])
            for name, position in zip(_NUMBERS, positions, strict=True):
                found[name].append(_numbers(rows, position))
            indexes |= _texts(found["table_id"][-1], rows, texts)
    finally:
        view.close()
    columns = {
        name: np.concatenate(parts) if parts else np.empty(0, np.int64)
        for name, parts in found.items()
    }
    return Columns(columns, indexes), int(columns["version"].max(initial=0))


def _numbers(rows: Any, position: int) -> Array:
    column = rows.column(position)
    values: Array = column.values.astype(np.int64)
    return values if column.nulls is None else np.where(column.nulls, -1, values)


def _texts(ids: Array, rows: Any, position: int) -> dict[int, str]:
    texts = rows.column(position).to_list()
    return {int(ids[n]): text for n, text in enumerate(texts) if text}
