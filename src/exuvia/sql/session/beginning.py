"""The open transaction of a session: how it begins, waits before its commit, and ends."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import tzinfo
from itertools import count

from exuvia.base.mysql_errors import ErrMemoryExceedForQuery, ErrTxnTooLarge
from exuvia.base.types import FieldType
from exuvia.cluster.row_locks import Locker
from exuvia.sql.context import Context
from exuvia.sql.duck.quota import quota_of
from exuvia.sql.result import NULL, Value
from exuvia.sql.session.locking import StatementLocks
from exuvia.sql.session.services import Services
from exuvia.sql.session.settings import Settings
from exuvia.sql.session.temporary import TemporaryTables
from exuvia.sql.session.transactions import OpenTransaction

_serial = count(1)
SIZE_STEP = 256 << 10
"""Bytes a transaction grows by between two looks at its limits."""
WRITE_BYTES = 600
"""Memory that one buffered write takes besides its key and payload, with its part of the packet;
measured (400,000 rows with three indexes: 1.6 million writes)."""


class Beginning(ABC):
    """What a session is to its transactions. `statement` is the text that runs now."""

    def __init__(self, services: Services, connection_id: int) -> None:
        self.services = services
        self.connection_id = connection_id
        self.settings = Settings(services)
        self.current: OpenTransaction | None = None
        self.temporary: TemporaryTables | None = None
        self.statement = ""
        self.next_is_read_only = False
        self.next_isolation = ""
        self.locker = Locker()
        self._user_variables: dict[str, tuple[Value, FieldType]] = {}
        self._bound: tuple[Sequence[Value], str] = ((), "")

    @property
    def zone(self) -> tzinfo | None:
        """Of its TIMESTAMPs; None is UTC."""
        return self.settings.zone

    def temporary_tables(self) -> TemporaryTables:
        """Its temporary tables; from now on it works on top of them."""
        if self.temporary is None:
            size = "tidb_tmp_table_max_size"
            self.temporary = TemporaryTables(self.services, lambda: int(self.settings.get(size)))
            self.services = self.temporary.services
            if self.current is not None:
                self.current.adopt(self.services, self.temporary.store)
        return self.temporary

    def settle_temporary(self) -> None:
        """Without temporary tables and without a transaction that may see them, be as before."""
        if self.temporary is not None and not len(self.temporary) and self.current is None:
            self.services, self.temporary = self.temporary.base, None

    def texts(self) -> dict[str, str]:
        """Every system variable as this session sees it."""
        return self.settings.texts()

    def user_variable(self, name: str) -> tuple[Value, FieldType]:
        """Value and type of `@name`."""
        return self._user_variables.get(name.lower(), (None, NULL))

    def set_user_variable(self, name: str, value: Value, kind: FieldType) -> None:
        """Set `@name`."""
        self._user_variables[name.lower()] = (value, kind)

    @abstractmethod
    def context_in(
        self,
        open_: OpenTransaction,
        parameters: Sequence[Value],
        letters: str,
        locks: StatementLocks | None = None,
    ) -> Context:
        """What a statement sees of that transaction; a session knows."""

    @abstractmethod
    def check_interrupt(self) -> None:
        """Raises 1317 once the statement was interrupted."""

    def _locks(self) -> StatementLocks:
        services, wait_s = self.services, self.settings.lock_wait_s
        return StatementLocks(services.row_locks, self.locker, wait_s, services.store.snapshot)

    def _release(self, committed: bool = True) -> None:
        if self.locker.keys:
            self.services.row_locks.release(self.locker, committed=committed)

    def _open(
        self, explicit: bool, read_only: bool = False, pessimistic: bool = False
    ) -> OpenTransaction:
        token = (self.connection_id, next(_serial))
        lock = self.settings.metadata_lock
        open_ = OpenTransaction(self.services, token, explicit, read_only, lock, pessimistic)
        open_.about = self.statement
        open_.txn.limit(self.settings.entry_bytes, SIZE_STEP, self._grown)
        return open_

    def _grown(self, size: int, writes: int) -> int:
        """How far a transaction of that size may grow before it is judged again.

        Raises 8004: its commit would keep others waiting too long; 8175: what it holds, with what
        each write needs besides its bytes, is more than tidb_mem_quota_query."""
        most = int(self.settings.get("exuvia_txn_total_size_limit"))
        if size > most:
            raise ErrTxnTooLarge(size)
        quota = quota_of(self)
        if 0 < quota < size + writes * WRITE_BYTES:
            raise ErrMemoryExceedForQuery(self.connection_id)
        return min(most, size + SIZE_STEP)

    def begin(self, read_only: bool = False, pessimistic: bool | None = None) -> OpenTransaction:
        """Open a transaction; one that is open is committed first.

        `pessimistic` None: as tidb_txn_mode says."""
        self.commit()
        read_only, self.next_is_read_only = read_only or self.next_is_read_only, False
        locking = self.settings.pessimistic if pessimistic is None else pessimistic
        isolation, self.next_isolation = self.next_isolation or self.settings.isolation, ""
        self.current = self._open(explicit=True, read_only=read_only, pessimistic=locking)
        self.current.read_committed = locking and isolation == "READ-COMMITTED"
        return self.current

    def commit(self) -> None:
        """Commit the open transaction, if any.

        Raises 1213, 1412, 8028, 1062, 8027, 1205, 1317: all is undone then."""
        current, self.current = self.current, None
        if current is None:
            return
        try:
            if not current.pessimistic:
                self._wait_before_commit(current)
            current.commit_for_client()
        finally:
            current.close()
            self._release()

    def _wait_before_commit(self, current: OpenTransaction) -> None:
        """An optimistic transaction lets those finish who hold its rows; validation decides."""
        locks = self._locks()
        while current.writes and (blocked := locks.take(current.txn, 0, 0)):
            locks.wait(blocked, self.check_interrupt)

    def rollback(self) -> None:
        """Undo the open transaction, if any."""
        current, self.current = self.current, None
        if current is not None:
            current.close()
        self._release(committed=False)
