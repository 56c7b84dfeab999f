"""The versioned cache of tables: lazy, bounded, and always checked against the snapshot (law 1).

    names:  (database, table) -> (database id, table id)      a hint, checked below
    tables: table id -> its last two Tables                   by revision

    table(txn, db, name):  hint -> read m/rev/{id} and m/dbrev/{id} in txn -> Table of that revision
                           names agree and both are public: that is the table of this snapshot
                           else: name keys -> infos, all in the same snapshot

Infos never change under a revision, so a cached Table with the snapshot's revisions is the
snapshot's table. A rename, truncate or drop changes or removes the revision, and the hint fails. A
hit is two gets (0.9 us each). Missing names are never cached. Unused tables cost nothing;
`capacity` bounds the cached ones, and those unused for longest are removed first.

`Loader` follows the diffs, so that the first statement after a change seldom has to decode a table.
The back, a process without statements, follows them by its period only (no `channel`).
"""

import threading
from collections.abc import Callable, Iterator

from cachetools import LRUCache

from exuvia.base.mysql_errors import ErrBadDB, ErrNoSuchTable
from exuvia.catalog import meta
from exuvia.catalog.model import DatabaseInfo, SchemaDiff, SchemaState, TableInfo
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

CAPACITY = 4096
LOAD_PERIOD_S = 1.0


Fingerprint = tuple[int, bytes | None]


class Schemas:
    """The cache. Thread-safe. `capacity` counts tables, and separately databases and names."""

    def __init__(self, store: Store, capacity: int = CAPACITY, evaluator: str = "") -> None:
        self.store = store
        self.evaluator = evaluator
        self._lock = threading.Lock()
        self._names: LRUCache[tuple[str, str], tuple[int, int]] = LRUCache(capacity)
        self._tables: LRUCache[int, tuple[Table, ...]] = LRUCache(capacity)
        self._databases: LRUCache[str, tuple[Fingerprint, DatabaseInfo]] = LRUCache(capacity)

    @property
    def cached(self) -> int:
        """The number of cached tables."""
        return len(self._tables)

    def database(self, txn: Transaction, name: str) -> DatabaseInfo:
        """The public database of that name in the transaction's snapshot. Raises 1049."""
        return self._database(txn, name)[1]

    def _database(self, txn: Transaction, name: str) -> tuple[Fingerprint, DatabaseInfo]:
        lower = name.lower()
        with self._lock:
            cached_pair = self._databases.get(lower)
        if cached_pair is not None and _fingerprint(txn, cached_pair[1].id) == cached_pair[0]:
            return cached_pair
        database_id = meta.find_database(txn, lower)
        info = None if database_id is None else meta.get_database(txn, database_id)
        if info is None or info.state != SchemaState.PUBLIC:
            raise ErrBadDB(name)
        pair = _fingerprint(txn, info.id), info
        with self._lock:
            self._databases[lower] = pair
        return pair

    def lasting(self, txn: Transaction, database: str, name: str) -> Table:
        """The table of all sessions, even if a session's temporary table hides it. Raises 1049,
        1146."""
        return self.table(txn, database, name)

    def table(self, txn: Transaction, database: str, name: str) -> Table:
        """The public table of that name in the transaction's snapshot. Raises 1049, 1146."""
        place = database.lower(), name.lower()
        with self._lock:
            hint = self._names.get(place)
        if hint is not None:
            cached_table = self._at_revision(txn, *hint)
            if cached_table is not None and cached_table.place == place:
                return cached_table
        database_id = self.database(txn, database).id
        table_id = meta.find_table(txn, database_id, name)
        loaded = None if table_id is None else self.table_by_id(txn, table_id)
        if loaded is None or loaded.info.state != SchemaState.PUBLIC:
            raise ErrNoSuchTable(database, name)
        with self._lock:
            self._names[place] = (database_id, loaded.info.id)
        return loaded

    def _at_revision(self, txn: Transaction, database_id: int, table_id: int) -> Table | None:
        with self._lock:
            cached_tables = self._tables.get(table_id)
        if cached_tables is None:
            return None
        revision = meta.revision(txn, table_id)
        for table in cached_tables:
            if table.revision == revision:
                same = table.database_revision == meta.database_revision(txn, database_id)
                return table if same else None
        return None

    def table_by_id(self, txn: Transaction, table_id: int) -> Table | None:
        """The table with that id in the transaction's snapshot, in any state, or None."""
        with self._lock:
            cached_tables = self._tables.get(table_id)
        if cached_tables is not None:
            table = self._at_revision(txn, cached_tables[0].database.id, table_id)
            if table is not None:
                return table
        return self._load(txn, table_id)

    def _load(self, txn: Transaction, table_id: int) -> Table | None:
        revision = meta.revision(txn, table_id)
        info = meta.get_table(txn, table_id) if revision else None
        database = None if info is None else meta.get_database(txn, info.exuvia_db)
        if info is None or database is None:
            return None
        loaded = Table(
            info, revision, database, meta.database_revision(txn, database.id), self.evaluator
        )
        with self._lock:
            others = [
                table_ for table_ in self._tables.get(table_id) or () if table_.revision != revision
            ]
            newest = sorted((loaded, *others), key=lambda table: table.revision, reverse=True)
            self._tables[table_id] = tuple(newest[:2])
        return loaded

    def databases(self, txn: Transaction) -> list[DatabaseInfo]:
        """Every public database, by name. For SHOW; reads all of them."""
        public = (info_ for info_ in meta.list_databases(txn) if info_.state == SchemaState.PUBLIC)
        return sorted(public, key=lambda info: info.db_name.L)

    def tables(
        self, txn: Transaction, database: str, name: str | None = None
    ) -> Iterator[TableInfo]:
        """Every public table of a database, by name; with `name` only that one, if it exists.

        For SHOW; reads all of them. Raises 1049."""
        if name is not None:
            table_id = meta.find_table(txn, self.database(txn, database).id, name)
            table = None if table_id is None else self.table_by_id(txn, table_id)
            if table is not None and table.info.state == SchemaState.PUBLIC:
                yield table.info
            return
        for info in meta.list_tables(txn, self.database(txn, database).id):
            if info.state == SchemaState.PUBLIC:
                yield info

    def refresh(self, txn: Transaction, table_id: int) -> None:
        """Load the table's current revision if a former one is cached."""
        with self._lock:
            is_used = self._tables.get(table_id) is not None
        if is_used:
            self.table_by_id(txn, table_id)

    def clear(self) -> None:
        with self._lock:
            for cache in (self._names, self._tables, self._databases):
                cache.clear()


def _fingerprint(txn: Transaction, database_id: int) -> Fingerprint:
    """The values for which a cached database is valid. Includes its info, because a change of the
    charset changes no revision."""
    return meta.database_revision(txn, database_id), txn.get(keys.meta("db", database_id))


class Loader:
    """Follows the schema version. Calls `loaded(version, now)` after each read (law 8)."""

    def __init__(
        self,
        schemas: Schemas,
        loaded: Callable[[int, float], None] = lambda version, now: None,
        period_s: float = LOAD_PERIOD_S,
        channel: str = "version",
    ) -> None:
        self.channel = channel
        self._schemas = schemas
        self._loaded = loaded
        self._period_s = period_s
        self.version = 0

    def step(self, now: float) -> float:
        """Read the diffs since the last step; returns the seconds until the next. `now` is from
        before the read."""
        with self._schemas.store.read() as txn:
            version = meta.version(txn)
            if self.version and version > self.version:
                self._follow(txn, meta.diffs(txn, self.version, version))
            self.version = version
        self._loaded(version, now)
        return self._period_s

    def _follow(self, txn: Transaction, diffs: list[SchemaDiff] | None) -> None:
        if diffs is None:
            self._schemas.clear()
            return
        for table_id in {t for diff in diffs for t in (diff.table_id, *diff.affected) if t}:
            self._schemas.refresh(txn, table_id)
