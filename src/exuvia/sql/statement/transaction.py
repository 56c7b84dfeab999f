"""The transaction of a session: its snapshot, the tables it writes, what its end means.

    statement alone (autocommit)     Conflict, SchemaChanged, a late 1062  -> run it again
    BEGIN ... COMMIT                 Conflict        -> 1213, all is rolled back (with row locks,
                                                        see locks.py: of another front only)
                                     SchemaChanged   -> 8028, all is rolled back
                                     a late 1062     -> that 1062; all is rolled back

Before the first write to a table its metadata lock is taken, so that a schema change waits for
this transaction instead of refusing it (DESIGN section 6). A table that only gave evidence (the
other side of a foreign key, rows read FOR UPDATE) counts as written: its metadata lock is held and
the commit validates its revision (law 1, decision 037). The fence of the member is required by
every commit (law 2); a member without a lease commits nothing (law 8).
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

_MOST_ABOUT = 4096  # characters of a statement that are shown to sessions waiting for it


class Closing(Refused):
    """8028: a table that its writers are leaving. A transaction that nobody has read may wait until
    its revision is another one, and begin again."""

    def __init__(self, table: Table) -> None:
        error = ErrInfoSchemaChanged()
        super().__init__(error.code, error.state, error.message)
        self.table_id = table.info.id
        self.revision = table.revision


class Savepoint(NamedTuple):
    """A name, and the points in the transaction's writes and requirements it stands for."""

    name: str
    mark: int
    expecting: tuple[int, int]


class _InUse:
    """with _InUse(snapshot): it is not idle."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __enter__(self) -> None:
        self._snapshot.in_use(True)

    def __exit__(self, *_: object) -> None:
        self._snapshot.in_use(False)


class OpenTransaction:
    """One transaction of one session. `token` names it among the metadata locks.

    `answered`: a client has seen something of it. Until then it may begin again unnoticed.
    `names`: what the tables it wrote were called then (database, table; lower case) -> id. To this
    transaction they are called so until it ends, though others drop or rename them meanwhile."""

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
        """`reads`: its snapshot is taken at once. `end`: by which a schema change may end it.
        `temporary_bytes`: what it may write to one global temporary table.
        Raises 8027, and then what the store raises."""
        self._services = services
        self._end = end
        self._tables: dict[int, Table] = {}
        self._relied: dict[int, Table] = {}
        self._read: set[int] = set()
        self._private: set[int] = set()  # global temporary tables that it wrote
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
        self.wrote = False  # rows of tables that others see too
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
        """A fresh one of the store, of which clients have a share. Raises 1637."""
        return self._services.store.snapshot(SnapshotUse.CLIENT)

    @property
    def writes(self) -> bool:
        """Whether anything was written, or locked to be validated."""
        return self.txn.has_writes

    def read_newest(self) -> None:
        """Read what is committed now, until `read_first`: a current read.

        Its own snapshot is taken first: it is never younger than one that is written over. Where it
        has none yet, its own is the newest."""
        if self.txn.is_unread:
            self.txn.open()
            return
        newest = self._snapshot()
        newest.in_use(True)  # until it is closed: it is the statement's alone
        self.first = self.txn.read_from(newest)
        try:
            self.first.require_open()
        except Unavailable:
            self.read_first()
            raise

    def statement(self) -> "_InUse":
        """While a statement runs in it, the snapshot it began with is not idle."""
        return _InUse(self.txn.snapshot)

    def keep_newest(self) -> None:
        """What the current read has read is the transaction's own snapshot from now on: nobody has
        seen the one it began with. So who waited for a lock first sees, in plain reads too, what
        its former holder committed (InnoDB's read view is made by the first plain read)."""
        if self.first is None:
            return
        self.first.close()
        self.first = None
        self.txn.snapshot.in_use(False)
        self.txn.keep_view()

    def read_first(self) -> None:
        """Read the transaction's own snapshot again."""
        if self.first is not None:
            self.txn.read_from(self.first).close()
            self.first = None

    def undo(self, mark: int, expecting: Expected) -> None:
        """Forget a statement: what it wrote, and what it required."""
        self.forget(mark)
        self.txn.forget_expected(expecting)

    def forget(self, mark: int) -> None:
        """Undo what was written after the mark, and its counts."""
        self.txn.back_to(mark)
        self._ledger.back_to(mark)

    def adopt(self, services: Services, store: LocalStore) -> None:
        """The session has got temporary tables: see them too."""
        self._services = services
        self.txn.store = store
        if self.txn.is_unread:
            return  # `_snapshot` asks the services, which have them
        self.txn.read_from(store.over(self.txn.snapshot))

    def counted(self, table_id: int, rows: int, modified: int) -> None:
        """A statement wrote so many rows of a (physical) table: for statistics."""
        if table_id >= LOCAL_IDS or table_id in self._private:
            return
        self._ledger.add(self.txn.mark(), table_id, rows, modified)

    def writing(self, table: Table, shared: bool) -> None:
        """Take the metadata lock before the first write to a table, or before its rows are locked;
        the commit validates its revision. `shared`: they are read FOR SHARE.

        Raises 1792, 8028; SchemaChanged if the statement had better be planned anew."""
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
        """The ids of its own rows of a global temporary table."""
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
        """Whether tables that it reads should wait a little for what it does next."""
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
        """Evidence is taken from the table, which need not be written: the parent of a row, the
        absence of children. As `writing`, but the plan's own revision is held: nobody will read
        what is not written there through an older snapshot.

        Raises 8028; SchemaChanged if the statement had better be planned anew."""
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

    def _hold(self, table: Table, revision: int, held: dict[int, Table]) -> None:
        """Take the metadata lock. `held`: where the table is known, unless it is planned anew."""
        if not self._metadata_lock:
            return
        locks, session = self._services.locks, self.token[0]
        self._holding = True
        about = without_secrets(self.about, _MOST_ABOUT)
        locks.hold(self.token, table.info.id, revision, about, session, end=self._end)
        if self.explicit:
            self._look_ahead(table, held)

    def _look_back(self, table: Table, first: Snapshot) -> int:
        """The revision of the first snapshot, which its metadata lock is to hold.

        A current read plans with the newest schema: it must be the first snapshot's, or next to
        it. Before the lock is held, while nobody has read that snapshot, it must be the same: the
        next step may be on its way."""
        raw = first.get(keys.revision(table.info.id))
        revision = 0 if raw is None else keys.read_number(raw[8:])
        if table.revision > revision:
            held = self.answered or table.info.id in self._tables
            if table.revision > revision + (1 if held else 0):
                raise ErrInfoSchemaChanged()
        return revision

    def learn(self) -> bool:
        """Let the first snapshot's tables read what was written under the next revision.

        True if there is any."""
        found = False
        for table_id, later in self._tables.items():
            table = self._services.schemas.table_by_id(self.txn, table_id)
            if table is not None and table.revision < later.revision:
                table.learn(later.info)
                found = True
        return found

    def _look_ahead(self, table: Table, held: dict[int, Table]) -> None:
        """Whether the table moved before the lock was seen: the next step may be on its way then.

        What can still be planned anew is. A snapshot that a client has read stays: it can write
        one revision late if its commit is in time, and not later."""
        snapshot = self._services.store.snapshot()
        try:
            if snapshot.order == self.txn.seen_at.get(table):
                return  # nobody has committed since the table was seen to be this
            raw = snapshot.get(keys.revision(table.info.id))
        finally:
            snapshot.close()
        revision = keys.read_number(raw[8:]) if raw is not None else table.revision + 2
        if revision == table.revision:
            return
        if self.first is not None or not self.answered:
            del held[table.info.id]
            raise SchemaChanged(keys.revision(table.info.id))
        if revision > table.revision + 1:
            raise ErrInfoSchemaChanged()

    def commit(self) -> None:
        """Commit. Raises what the store raises; the transaction is over in any case."""
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
        """Commit an explicit transaction; refusals of the store become MySQL's errors."""
        try:
            self.commit()
        except Conflict as conflict:
            raise lost(conflict) from None
        except Duplicate as duplicate:
            raise self.explain(duplicate) from None

    def explain(self, error: Duplicate) -> Duplicate:
        """A Duplicate of the store with MySQL's text: its key names the table."""
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
        """The row of the transaction that has this key, of a row or of a unique index."""
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
        """Roll back what is not committed and let the metadata locks go. Twice is harmless."""
        self.read_first()
        self.txn.rollback()
        if self.explicit:
            self._services.locks.leave(self.token)
        if self._holding:
            self._services.locks.release(self.token)

    # -- savepoints --------------------------------------------------------------------------------

    def savepoint(self, name: str) -> None:
        """Set a savepoint; one of the same name is moved."""
        wanted = name.lower()
        self.savepoints = [point for point in self.savepoints if point.name != wanted]
        self.savepoints.append(Savepoint(wanted, self.txn.mark(), self.txn.expecting()))

    def back_to(self, name: str) -> None:
        """Undo what was written after the savepoint, which stays. Raises 1305.

        Without the metadata lock a table may change meanwhile: as in TiDB, one that was written
        only after the savepoint does not make COMMIT 8028."""
        position = self._position(name)
        _, mark, expecting = self.savepoints[position]
        self.txn.back_to(mark, keep_locks=True)
        if not self._metadata_lock:
            self.txn.forget_limits(expecting)
        self._ledger.back_to(mark)
        del self.savepoints[position + 1 :]

    def release(self, name: str) -> None:
        """Forget a savepoint and those set after it. Raises 1305."""
        del self.savepoints[self._position(name) :]

    def _position(self, name: str) -> int:
        wanted = name.lower()
        for position, point in enumerate(self.savepoints):
            if point.name == wanted:
                return position
        raise ErrSpDoesNotExist("SAVEPOINT", name)


def lost(conflict: Conflict) -> Exception:
    """What a client is told of a conflict it has to handle: 1213, or 8028 for a schema change."""
    return ErrInfoSchemaChanged() if isinstance(conflict, SchemaChanged) else ErrLockDeadlock()
