"""The transaction of a session: its snapshot, the tables it writes, and the meaning of its end.

    separate statement (autocommit)  Conflict, SchemaChanged, a late 1062  -> run it again
    BEGIN ... COMMIT                 Conflict        -> 1213, all is rolled back (with row locks,
                                                        see locks.py: only for another front)
                                     SchemaChanged   -> 8028, all is rolled back
                                     a late 1062     -> that 1062; all is rolled back

The metadata lock of a table is taken before the first write to it. So a schema change waits for
this transaction instead of failing it (DESIGN section 6). Evidence counts as a write: the other
side of a foreign key, and rows read FOR UPDATE. Their table's metadata lock is held, and the commit
validates its revision (law 1, decision 037).

Every commit requires the fence of the member (law 2). A member without a lease commits nothing
(law 8).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from exuvia.base.aside import stepping_aside
from exuvia.base.errors import Conflict, Deposed, Duplicate, Refused, SchemaChanged, Unavailable
from exuvia.base.mysql_errors import (
    ErrCantExecuteInReadOnlyTransaction,
    ErrInfoSchemaChanged,
    ErrInfoSchemaExpired,
    ErrLockDeadlock,
    ErrSpDoesNotExist,
)
from exuvia.catalog import writer
from exuvia.catalog.autoid import TableIds
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.meta import is_closing
from exuvia.catalog.model import TableInfo
from exuvia.catalog.table import Table
from exuvia.cluster.versions import End
from exuvia.kv import keys
from exuvia.kv.local import LOCAL_IDS, LocalStore
from exuvia.kv.packet import Snapshot, SnapshotUse, is_live
from exuvia.kv.transaction import KIND_AT, UNBOUNDED, Expected, Transaction
from exuvia.sql.parse.secrets import without_secrets
from exuvia.sql.statement.services import Services
from exuvia.sql.statement.temporary import TransactionIds
from exuvia.stats.meta import TransactionDeltas

_MOST_ABOUT = 4096  # the part of a statement that sessions waiting for it may read


class Closing(Refused):
    """8028: a table whose writers are being drained by a schema change.

    A transaction that has returned nothing may wait for the next revision and begin again."""

    def __init__(self, table: Table) -> None:
        error = ErrInfoSchemaChanged()
        super().__init__(error.code, error.state, error.message)
        self.table_id = table.info.id
        self.revision = table.revision


class Savepoint(NamedTuple):
    """A name, with the positions in the transaction's writes and requirements at that time."""

    name: str
    mark: int
    expecting: tuple[int, int]


class _InUse:
    """A context in which the snapshot does not count as idle."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __enter__(self) -> None:
        self._snapshot.in_use(True)

    def __exit__(self, *_: object) -> None:
        self._snapshot.in_use(False)


class OpenTransaction:
    """One transaction of one session. `token` identifies it among the metadata locks.

    `answered`: a client has received a result. Until then it may begin again unnoticed.
    `names`: (database, table), in lower case -> id of the tables it has written. The transaction
    uses these names until it ends, even if others drop or rename the tables."""

    __slots__ = (
        "_end",
        "_holding",
        "_ledger",
        "_metadata_lock",
        "_private",
        "_read",
        "_relied",
        "_services",
        "_tables",
        "_temporary_bytes",
        "_temporary_ids",
        "about",
        "answered",
        "explicit",
        "first",
        "names",
        "pessimistic",
        "read_committed",
        "read_only",
        "savepoints",
        "token",
        "txn",
        "wrote",
    )

    def __init__(
        self,
        services: Services,
        token: tuple[int, int],
        explicit: bool,
        read_only: bool = False,
        metadata_lock: bool = True,
        pessimistic: bool = False,
        reads: bool = False,
        end: End | None = None,
        temporary_bytes: Callable[[], int] = lambda: UNBOUNDED,
    ) -> None:
        """`reads`: its snapshot is taken at once. `end`: called by a schema change to end it.
        `temporary_bytes`: the limit for its rows in one global temporary table.
        Raises 8027, and errors of the store."""
        self._services = services
        self._end = end
        self._tables: dict[int, Table] = {}
        self._relied: dict[int, Table] = {}
        self._read: set[int] = set()
        self._private: set[int] = set()  # global temporary tables that it has written
        self._temporary_bytes = temporary_bytes
        self._temporary_ids: TransactionIds | None = None
        self.names: dict[tuple[str, str], int] = {}
        self._holding = False
        self._ledger = TransactionDeltas()
        self._metadata_lock = metadata_lock
        self.about = ""
        self.answered = False
        self.explicit = explicit
        self.pessimistic = pessimistic
        self.read_committed = False
        self.first: Snapshot | None = None
        self.read_only = read_only
        self.wrote = False  # rows of shared tables
        self.savepoints: list[Savepoint] = []
        self.token = token
        try:
            guard = services.member.guarding()  # before the snapshot: see law 2
        except Deposed:
            raise ErrInfoSchemaExpired() from None
        self.txn = txn = (
            Transaction(services.store, self._snapshot())
            if reads
            else Transaction.unread(services.store, self._snapshot)
        )
        txn.locks = explicit
        txn.require_this(guard)
        if explicit:
            services.locks.enter(token)

    def _snapshot(self) -> Snapshot:
        """A new snapshot of the store, within the share of clients. Raises 1637."""
        return self._services.store.snapshot(SnapshotUse.CLIENT)

    @property
    def writes(self) -> bool:
        """Whether it has written anything, or locked rows for validation."""
        return self.txn.has_writes

    def read_newest(self) -> None:
        """Reads the latest commits until `read_first`: a current read.

        The transaction's snapshot is taken first, so it is never newer than a snapshot that is
        overwritten. A transaction without a snapshot takes the latest as its own."""
        if self.txn.is_unread:
            self.txn.open()
            return
        newest = self._snapshot()
        newest.in_use(True)  # until it is closed: only the statement uses it
        self.first = self.txn.read_from(newest)
        try:
            self.first.require_open()
        except Unavailable:
            self.read_first()
            raise

    def statement(self) -> "_InUse":
        """A context in which the snapshot of the running statement does not count as idle."""
        return _InUse(self.txn.snapshot)

    def keep_newest(self) -> None:
        """Makes the current read's snapshot that of the transaction, whose own is still unread.

        So after a wait for a lock, plain reads also see the commit of the former holder. InnoDB
        creates its read view with the first plain read."""
        if self.first is None:
            return
        self.first.close()
        self.first = None
        self.txn.snapshot.in_use(False)
        self.txn.keep_view()

    def read_first(self) -> None:
        """Returns to the transaction's own snapshot."""
        if self.first is not None:
            self.txn.read_from(self.first).close()
            self.first = None

    def undo(self, mark: int, expecting: Expected) -> None:
        """Undoes a statement: its writes and its requirements."""
        self.forget(mark)
        self.txn.forget_expected(expecting)

    def forget(self, mark: int) -> None:
        """Undoes the writes after the mark, and their counts."""
        self.txn.back_to(mark)
        self._ledger.back_to(mark)

    def adopt(self, services: Services, store: LocalStore) -> None:
        """Makes the session's new temporary tables visible."""
        self._services = services
        self.txn.store = store
        if self.txn.is_unread:
            return  # `_snapshot` will use the new services
        self.txn.read_from(store.over(self.txn.snapshot))

    def counted(self, table_id: int, rows: int, modified: int) -> None:
        """Records the number of rows written to a (physical) table, for statistics."""
        if table_id >= LOCAL_IDS or table_id in self._private:
            return
        self._ledger.add(self.txn.mark(), table_id, rows, modified)

    def writing(self, table: Table, shared: bool) -> None:
        """Takes the metadata lock before the first write to a table, or before its rows are locked.

        The commit validates the table's revision. `shared`: rows are read FOR SHARE. Raises 1792,
        8028; SchemaChanged if the statement should be planned again."""
        table_id = table.info.id
        if table_id >= LOCAL_IDS:
            self._tables[table_id] = table
            return
        if table.info.is_global_temporary:
            self._private.add(table_id)
            prefix = keys.row_prefix(table_id)[:KIND_AT]
            self.txn.private(prefix, table.info.name.O, self._temporary_bytes())
        if self._tables.get(table_id) is not table:
            self._lock_written(table, shared)
        writer.fence(self.txn, table)

    def ids_of(self, info: TableInfo) -> TableIds:
        """The ids for its rows in a global temporary table."""
        if self._temporary_ids is None:
            self._temporary_ids = TransactionIds()
        first = partial(self._services.ids.peek, self.txn, info.id)
        return self._temporary_ids.of(info, first)

    def _lock_written(self, table: Table, shared: bool) -> None:
        table_id = table.info.id
        if self.read_only and not shared and not table.info.is_global_temporary:
            raise ErrCantExecuteInReadOnlyTransaction()
        revision = table.revision if self.first is None else self._look_back(table, self.first)
        if table_id in self._tables:
            self._tables[table_id] = table
            return
        self._refuse_closing(table)
        self._tables[table_id] = table
        self._hold(table, revision, self._tables)
        self.names[table.database.db_name.L, table.info.name.L] = table_id

    @property
    def uses_tables(self) -> bool:
        """Whether the transaction has read, written or locked rows of a stored table."""
        return bool(self._read or self._tables or self._relied or self.writes)

    @property
    def may_yet_write(self) -> bool:
        """Whether schema changes should wait a little for a write that may follow its reads."""
        return self.explicit and self._metadata_lock and not self.read_only

    def reading(self, table: Table) -> None:
        """Record a read of a table.

        A young transaction that may write later takes the metadata lock, so that a schema change
        does not go two steps beyond its snapshot."""
        table_id = table.info.id
        if table_id in self._read:
            return
        self._read.add(table_id)
        if not self.may_yet_write or table_id >= LOCAL_IDS or table_id in self._tables:
            return
        locks, session = self._services.locks, self.token[0]
        if locks.is_young(self.token):
            self._holding = True
            about = without_secrets(self.about, _MOST_ABOUT)
            locks.hold(self.token, table_id, table.revision, about, session, reads=True)

    def relying(self, table: Table) -> None:
        """Takes the metadata lock of a table that is only evidence: a row's parent, no children.

        As `writing`, but it holds the plan's own revision: rows that are not written there are not
        read through an older snapshot. Raises 8028; SchemaChanged if the statement should be
        planned again."""
        table_id = table.info.id
        if self._tables.get(table_id) is not table and self._relied.get(table_id) is not table:
            if table_id not in self._tables and table_id not in self._relied:
                self._refuse_closing(table)
            self._relied[table_id] = table
            self._hold(table, table.revision, self._relied)
        writer.fence(self.txn, table)

    def _refuse_closing(self, table: Table) -> None:
        if self.explicit and self._metadata_lock and is_closing(table.info):
            raise Closing(table)

    def _hold(self, table: Table, revision: int, tables: dict[int, Table]) -> None:
        """Takes the metadata lock. `tables`: has the table, until it must be planned again."""
        if not self._metadata_lock:
            return
        locks, session = self._services.locks, self.token[0]
        self._holding = True
        about = without_secrets(self.about, _MOST_ABOUT)
        locks.hold(self.token, table.info.id, revision, about, session, end=self._end)
        if self.explicit:
            self._look_ahead(table, tables)

    def _look_back(self, table: Table, first: Snapshot) -> int:
        """The revision in the first snapshot, which the metadata lock has to hold.

        A current read plans with the latest schema, which may be one revision after the first
        snapshot's. Before the lock is held, while that snapshot is unread, it must be the same
        revision, because the next step may be in progress."""
        raw = first.get(keys.revision(table.info.id))
        revision = 0 if raw is None else keys.read_number(raw[8:])
        if table.revision > revision:
            is_pinned = self.answered or table.info.id in self._tables
            if table.revision > revision + (1 if is_pinned else 0):
                raise ErrInfoSchemaChanged()
            other = table.other
            self.txn.write_ahead(table.info.physical_ids)
            if other is not None:
                self.txn.write_ahead(other.info.physical_ids)
        return revision

    def learn(self) -> bool:
        """Lets tables of the first snapshot read rows written under the next revision.

        Returns whether there are any."""
        learned = False
        for table_id, later in self._tables.items():
            table = self._services.schemas.table_by_id(self.txn, table_id)
            if table is not None and table.revision < later.revision:
                table.learn(later.info)
                learned = True
        return learned

    def _look_ahead(self, table: Table, tables: dict[int, Table]) -> None:
        """Checks whether the table has changed before the lock was visible to others.

        The next step may then be in progress. A statement that can be planned again is. A snapshot
        that a client has read stays: it can write one revision late if its commit is in time."""
        snapshot = self._services.store.snapshot()
        try:
            if snapshot.order == self.txn.seen_at.get(table):
                return  # no commit since the table was verified
            raw = snapshot.get(keys.revision(table.info.id))
        finally:
            snapshot.close()
        revision = keys.read_number(raw[8:]) if raw is not None else table.revision + 2
        if revision == table.revision:
            return
        if self.first is not None or not self.answered:
            del tables[table.info.id]
            raise SchemaChanged(keys.revision(table.info.id))
        if revision > table.revision + 1:
            raise ErrInfoSchemaChanged()

    def commit(self) -> None:
        """Commits. Raises errors of the store; the transaction is over in any case."""
        try:
            if self.writes:
                services = self._services
                if not services.member.serving(services.clock.monotonic()):
                    raise ErrInfoSchemaExpired()
            with stepping_aside():
                self.txn.commit()
            if self._services.deltas is not None:
                self._services.deltas.merge(self._ledger.sums())
        finally:
            self.close()

    def commit_for_client(self) -> None:
        """Commits an explicit transaction; errors of the store become MySQL's errors."""
        try:
            self.commit()
        except Conflict as conflict:
            raise lost(conflict) from None
        except Duplicate as duplicate:
            raise self.explain(duplicate) from None

    def explain(self, error: Duplicate) -> Duplicate:
        """A Duplicate of the store with MySQL's text; its key identifies the table."""
        physical_id = int.from_bytes(error.key[1:9], "big")
        for table in self._tables.values():
            if physical_id == table.info.home and table.info.global_indexes:
                return writer.explain_duplicate(table, error, self._written(table, error.key))
            if physical_id in table.info.physical_ids:
                part = table.part(physical_id)
                return writer.explain_duplicate(part, error, self._written(part, error.key))
            other = table.other
            if other is not None and physical_id in other.info.physical_ids:
                part = other.part(physical_id) if other.is_partitioned else other
                return writer.explain_duplicate(part, error)
        return error

    def _written(self, table: Table, key: bytes) -> Row | None:
        """The transaction's row with this key, which is a key of a row or of a unique index."""
        if not self.txn.is_own(key):
            return None
        payload = self.txn.get(key)
        if not key.startswith(table.row_prefix):
            index = table.info.index_by_id(int.from_bytes(key[keys.HANDLE_AT : keys.VALUES_AT]))
            if index is None or payload is None or not is_live(payload):
                return None
            part, handle = table.holder(table.form(index), payload[1:])
            at = part.row_prefix + handle
            payload = self.txn.get(at) if self.txn.is_own(at) else None
        return None if payload is None else table.decode(payload)

    def close(self) -> None:
        """Rolls back uncommitted writes and releases the metadata locks. May be called twice."""
        self.read_first()
        self.txn.rollback()
        if self.explicit:
            self._services.locks.leave(self.token)
        if self._holding:
            self._services.locks.release(self.token)

    # -- savepoints --------------------------------------------------------------------------------

    def savepoint(self, name: str) -> None:
        """Sets a savepoint, replacing one of the same name."""
        lower = name.lower()
        self.savepoints = [point for point in self.savepoints if point.name != lower]
        self.savepoints.append(Savepoint(lower, self.txn.mark(), self.txn.expecting()))

    def back_to(self, name: str) -> None:
        """Undoes the writes after the savepoint, which stays. Raises 1305.

        Without the metadata lock a table may have changed meanwhile. As in TiDB, a table that was
        written only after the savepoint does not fail the COMMIT with 8028."""
        position = self._position(name)
        _, mark, expecting = self.savepoints[position]
        self.txn.back_to(mark, keep_locks=True)
        if not self._metadata_lock:
            self.txn.forget_limits(expecting)
        self._ledger.back_to(mark)
        del self.savepoints[position + 1 :]

    def release(self, name: str) -> None:
        """Removes a savepoint and those set after it. Raises 1305."""
        del self.savepoints[self._position(name) :]

    def _position(self, name: str) -> int:
        lower = name.lower()
        for position, point in enumerate(self.savepoints):
            if point.name == lower:
                return position
        raise ErrSpDoesNotExist("SAVEPOINT", name)


def lost(conflict: Conflict) -> Exception:
    """The client's error for a conflict: 1213, or 8028 for a schema change."""
    return ErrInfoSchemaChanged() if isinstance(conflict, SchemaChanged) else ErrLockDeadlock()
