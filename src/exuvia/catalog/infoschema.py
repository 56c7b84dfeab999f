"""The versioned cache of tables: lazy, bounded, and never believed without the snapshot (law 1).

    names:  (database, table) -> (database id, table id)      a hint, checked below
    tables: table id -> its last two Tables                   what that id is at a revision

    table(txn, db, name):  hint -> read m/rev/{id} and m/dbrev/{id} in txn -> Table of that revision
                           names agree and both are public: that is the table of this snapshot
                           else: name keys -> infos, all in the same snapshot

Infos never change under a revision, so a cached Table whose revisions stand in the snapshot is the
snapshot's; a rename, truncate or drop moves or removes the revision, and the hint fails. A hit is
two gets. A name that is not there is never remembered. A million tables cost nothing until they are
used; `capacity` bounds how many are kept, those unused for longest go first (two look-ups for each
point statement, 0.9 us each).

`Loader` follows the diffs, so that the first statement after a change seldom has to decode a table.
A process without statements, the back, follows them by its period alone (no `channel`).
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
    """Thread-safe. `capacity` counts tables (and, apart, databases and names)."""

    def __init__(self, store: Store, capacity: int = CAPACITY, evaluator: str = "") -> None:
        self.store = store
        self.evaluator = evaluator
        self._lock = threading.Lock()
        self._names: LRUCache[tuple[str, str], tuple[int, int]] = LRUCache(capacity)
        self._tables: LRUCache[int, tuple[Table, ...]] = LRUCache(capacity)
        self._databases: LRUCache[str, tuple[Fingerprint, DatabaseInfo]] = LRUCache(capacity)

    @property
    def cached(self) -> int:
        """Tables that it keeps."""
        return len(self._tables)

    def database(self, txn: Transaction, name: str) -> DatabaseInfo:
        """The public database of that name in the transaction's snapshot. Refused 1049."""
        return self._database(txn, name)[1]

    def _database(self, txn: Transaction, name: str) -> tuple[Fingerprint, DatabaseInfo]:
        lower = name.lower()
        with self._lock:
            known = self._databases.get(lower)
        if known is not None and _fingerprint(txn, known[1].id) == known[0]:
            return known
        database_id = meta.find_database(txn, lower)
        info = None if database_id is None else meta.get_database(txn, database_id)
        if info is None or info.state != SchemaState.PUBLIC:
            raise ErrBadDB(name)
        found = _fingerprint(txn, info.id), info
        with self._lock:
            self._databases[lower] = found
        return found

    def lasting(self, txn: Transaction, database: str, name: str) -> Table:
        """The table all sessions see, whatever a session's temporary one hides. 1049, 1146."""
        return self.table(txn, database, name)

    def table(self, txn: Transaction, database: str, name: str) -> Table:
        """The public table of that name in the transaction's snapshot. Refused 1049, 1146."""
        place = database.lower(), name.lower()
        with self._lock:
            hint = self._names.get(place)
        if hint is not None:
            known = self._at_revision(txn, *hint)
            if known is not None and known.place == place:
                return known
        database_id = self.database(txn, database).id
        table_id = meta.find_table(txn, database_id, name)
        found = None if table_id is None else self.table_by_id(txn, table_id)
        if found is None or found.info.state != SchemaState.PUBLIC:
            raise ErrNoSuchTable(database, name)
        with self._lock:
            self._names[place] = (database_id, found.info.id)
        return found

    def _at_revision(self, txn: Transaction, database_id: int, table_id: int) -> Table | None:
        with self._lock:
            known = self._tables.get(table_id)
        if known is None:
            return None
        revision = meta.revision(txn, table_id)
        for table in known:
            if table.revision == revision:
                same = table.database_revision == meta.database_revision(txn, database_id)
                return table if same else None
        return None

    def table_by_id(self, txn: Transaction, table_id: int) -> Table | None:
        """The table with that id in the transaction's snapshot, in any state, or None."""
        with self._lock:
            known = self._tables.get(table_id)
        if known is not None:
            found = self._at_revision(txn, known[0].database.id, table_id)
            if found is not None:
                return found
        return self._load(txn, table_id)

    def _load(self, txn: Transaction, table_id: int) -> Table | None:
        revision = meta.revision(txn, table_id)
        info = meta.get_table(txn, table_id) if revision else None
        database = None if info is None else meta.get_database(txn, info.exuvia_db)
        if info is None or database is None:
            return None
        found = Table(
            info, revision, database, meta.database_revision(txn, database.id), self.evaluator
        )
        with self._lock:
            others = [
                each for each in self._tables.get(table_id) or () if each.revision != revision
            ]
            newest = sorted((found, *others), key=lambda table: table.revision, reverse=True)
            self._tables[table_id] = tuple(newest[:2])
        return found

    def databases(self, txn: Transaction) -> list[DatabaseInfo]:
        """Every public database, by name. For SHOW; reads them all."""
        found = (each for each in meta.list_databases(txn) if each.state == SchemaState.PUBLIC)
        return sorted(found, key=lambda info: info.db_name.L)

    def tables(
        self, txn: Transaction, database: str, name: str | None = None
    ) -> Iterator[TableInfo]:
        """Every public table of a database, by name; or that of this name, if there is one. For
        SHOW; reads them all. Refused 1049."""
        if name is not None:
            found = meta.find_table(txn, self.database(txn, database).id, name)
            table = None if found is None else self.table_by_id(txn, found)
            if table is not None and table.info.state == SchemaState.PUBLIC:
                yield table.info
            return
        for info in meta.list_tables(txn, self.database(txn, database).id):
            if info.state == SchemaState.PUBLIC:
                yield info

    def refresh(self, txn: Transaction, table_id: int) -> None:
        """Load the table's present revision if a former one is cached."""
        with self._lock:
            is_used = self._tables.get(table_id) is not None
        if is_used:
            self.table_by_id(txn, table_id)

    def clear(self) -> None:
        with self._lock:
            for each in (self._names, self._tables, self._databases):
                each.clear()


def _fingerprint(txn: Transaction, database_id: int) -> Fingerprint:
    """What a cached database is valid for: a change of its charset moves no revision."""
    return meta.database_revision(txn, database_id), txn.get(keys.meta("db", database_id))


class Loader:
    """Follows the schema version. `loaded(version, now)` is told after each look (law 8)."""

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
        """Read the diffs since the last look; seconds until the next. `now` is from before it."""
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
