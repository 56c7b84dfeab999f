"""Temporary tables of a session, and global temporary tables with rows of a transaction.

CREATE TEMPORARY TABLE: in the memory of a session, not in the catalog, visible only to the session.

A session with temporary tables has a modified copy of the node's services (services.py):

    store     the session's keys over the shared ones (kv/local.py)
    schemas   a temporary table hides another table of its name; lists of tables omit it
    ids       its AUTO_INCREMENT is counted here
    plans     plans of its statements, separate from those of other sessions

So the code that reads and writes rows needs no special case. Temporary tables are transactional:
ROLLBACK undoes changes of their rows, but neither their creation nor their drop. They have no job,
no version, no metadata lock and no statistics. Ids come from one counter of the process.

CREATE GLOBAL TEMPORARY TABLE ... ON COMMIT DELETE ROWS: in the catalog and changed by jobs, as any
table. It has a version and a metadata lock, so that no transaction meets a definition two steps
from its own.

Its rows are the private part of a transaction (kv/transaction.py). They are invisible to others,
are in no packet, and are gone when the transaction ends, also after a separate statement. The store
never has such rows, so there is nothing to backfill, count, check or copy. AUTO_INCREMENT starts
again in each transaction (`TransactionIds`), as in TiDB. Decision 103.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from exuvia.catalog.autoid import IdAllocator, TableIds
from exuvia.catalog.autoid import Kind as IdKind
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import DatabaseInfo, TableInfo
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.local import LOCAL_IDS, LocalStore
from exuvia.kv.memory import MemoryStore
from exuvia.kv.transaction import Transaction
from exuvia.sql.statement.plan_cache import PlanCache
from exuvia.sql.statement.services import Services

_ids = count(LOCAL_IDS)
_PLANS = 256
Place = tuple[str, str]


class TemporaryTables:
    """The temporary tables of one session. `most_bytes`: a table's limit, read at each commit."""

    def __init__(self, services: Services, most_bytes: Callable[[], int]) -> None:
        self._tables: dict[Place, Table] = {}
        self._by_id: dict[int, Table] = {}
        self.store = LocalStore(services.store, most_bytes, self._name)
        self.base = services
        self.services = replace(
            services,
            store=self.store,
            schemas=_Schemas(services.schemas, self),
            ids=_Ids(services.ids, self),
            plans=PlanCache(_PLANS),
        )

    def _name(self, table_id: int) -> str | None:
        table = self._by_id.get(table_id)
        return None if table is None else table.info.name.O

    def __len__(self) -> int:
        return len(self._tables)

    def find(self, database: str, name: str) -> Table | None:
        """The temporary table of that name, or None."""
        return self._tables.get((database.lower(), name.lower()))

    def by_id(self, table_id: int) -> Table | None:
        """The temporary table with that id, or None."""
        return self._by_id.get(table_id)

    def add(self, info: TableInfo, database: DatabaseInfo) -> None:
        """Adds a new table; `info` has an id of `new_id`."""
        table = Table(info, 1, database, 1, self.base.schemas.evaluator)
        table.fences = ()

        def put(txn: Transaction) -> None:
            txn.put(keys.revision(info.id), keys.number(1))
            if info.auto_inc_id > 1:
                txn.put(keys.meta("auto", info.id), keys.number(info.auto_inc_id - 1))

        self.store.memory.transact(put)
        self._tables[database.db_name.L, info.name.L] = table
        self._by_id[info.id] = table

    def drop(self, table: Table) -> None:
        """Drops a table with its rows."""
        self._tables.pop((table.database.db_name.L, table.info.name.L), None)
        self._by_id.pop(table.info.id, None)
        self.store.drop(table.info.id)


def new_id() -> int:
    """An id that no other table of this process has."""
    return next(_ids)


class _Schemas(Schemas):
    """The node's schemas, preceded by the temporary tables."""

    def __init__(self, base: Schemas, temporary: TemporaryTables) -> None:
        self.store = base.store
        self.evaluator = base.evaluator
        self._base = base
        self._temporary = temporary

    def database(self, txn: Transaction, name: str) -> DatabaseInfo:
        return self._base.database(txn, name)

    def table(self, txn: Transaction, database: str, name: str) -> Table:
        table = self._temporary.find(database, name)
        return self._base.table(txn, database, name) if table is None else table

    def lasting(self, txn: Transaction, database: str, name: str) -> Table:
        return self._base.table(txn, database, name)

    def table_by_id(self, txn: Transaction, table_id: int) -> Table | None:
        if table_id >= LOCAL_IDS:
            return self._temporary.by_id(table_id)
        return self._base.table_by_id(txn, table_id)

    def databases(self, txn: Transaction) -> list[DatabaseInfo]:
        return self._base.databases(txn)

    def tables(
        self, txn: Transaction, database: str, name: str | None = None
    ) -> Iterator[TableInfo]:
        return self._base.tables(txn, database, name)

    def refresh(self, txn: Transaction, table_id: int) -> None:
        self._base.refresh(txn, table_id)

    def clear(self) -> None:
        self._base.clear()


class _Ids(IdAllocator):
    """The node's ids; ids for temporary tables are counted in the session's memory."""

    def __init__(self, base: IdAllocator, temporary: TemporaryTables) -> None:
        self._base = base
        self._local = IdAllocator(temporary.store.memory)
        self._memory = temporary.store.memory
        self.sequences = base.sequences

    def of(self, info: TableInfo) -> TableIds:
        return TableIds(self._local if info.is_local_temporary else self._base, info)

    def peek(self, txn: Transaction, table_id: int, kind: IdKind = "auto") -> int:
        if table_id < LOCAL_IDS:
            return self._base.peek(txn, table_id, kind)
        next_id = self._local.in_hand(table_id, kind)
        if next_id is not None:
            return next_id
        with self._memory.read() as local:
            return self._local.peek(local, table_id, kind)


class TransactionIds:
    """Ids for the rows of one transaction in global temporary tables, counted in memory."""

    def __init__(self) -> None:
        self._memory = MemoryStore()
        self._ids = IdAllocator(self._memory)
        self._started: set[int] = set()

    def of(self, info: TableInfo, first: Callable[[], int]) -> TableIds:
        """The ids for one table. `first`: the initial value of AUTO_INCREMENT, read once."""

        def put(txn: Transaction) -> None:
            txn.put(keys.revision(info.id), keys.number(1))
            txn.put(keys.meta("auto", info.id), keys.number(first() - 1))

        if info.id not in self._started:
            self._memory.transact(put)
            self._started.add(info.id)
        return self._ids.of(info)
