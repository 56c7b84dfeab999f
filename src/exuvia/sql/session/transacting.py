"""Running work in transactions: the open one of a session, or one for each statement.

alone     again on a fresh snapshot while others win the race, a bounded number of times
within    a failure undoes this statement; a lost race or a lost snapshot undoes the transaction

What writes or reads FOR UPDATE waits for the rows that other sessions hold (locking.py), and runs
again then. In an open transaction it reads the newest snapshot; plain reads keep the transaction's
own, unless it is READ COMMITTED. Optimistic transactions lock nothing before their commit, and
read one snapshot.

Run again means that nothing is left of the run before: writes, requirements, warnings, user
variables. Ids that it took are gaps.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import tzinfo
from itertools import count

from exuvia.base.errors import Conflict, Duplicate, Refused, SchemaChanged, Unavailable
from exuvia.base.mysql import refuse
from exuvia.base.types import FieldType
from exuvia.cluster.row_locks import Locker
from exuvia.sql.context import Context
from exuvia.sql.result import Result, Value
from exuvia.sql.session.locking import StatementLocks
from exuvia.sql.session.services import Services
from exuvia.sql.session.settings import Settings
from exuvia.sql.session.transactions import OpenTransaction, lost

ATTEMPTS = 64
DEADLOCK = 1213
Work = Callable[[Context], Result]
_serial = count(1)


class Transacting(ABC):
    """What a session is to its transactions. `statement` is the text that runs now."""

    def __init__(self, services: Services, connection_id: int) -> None:
        self.services = services
        self.connection_id = connection_id
        self.settings = Settings(services)
        self.current: OpenTransaction | None = None
        self.statement = ""
        self.next_is_read_only = False
        self.next_isolation = ""
        self.locker = Locker()
        self._user_variables: dict[str, tuple[Value, FieldType]] = {}

    @property
    def zone(self) -> tzinfo | None:
        """Of its TIMESTAMPs; None is UTC."""
        return self.settings.zone

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

    def transact(
        self,
        work: Work,
        parameters: Sequence[Value] = (),
        letters: str = "",
        locking: bool = False,
    ) -> Result:
        """Run work in the open transaction, or in one of its own.

        `locking`: it writes, or reads FOR UPDATE. Raises 1205, 1213, 1317, 3572, WouldWait."""
        current = self.current
        if current is None and not self.settings.autocommit:
            current = self.begin()
        if current is None:
            return self._alone(work, parameters, letters, self._locks() if locking else None)
        current.about = self.statement
        if locking and current.pessimistic:
            return self._within_locks(current, work, parameters, letters)
        return self._within(current, work, parameters, letters)

    def _locks(self) -> StatementLocks:
        return StatementLocks(self.services.row_locks, self.locker, self.settings.lock_wait_s)

    def _alone(
        self,
        work: Work,
        parameters: Sequence[Value],
        letters: str,
        locks: StatementLocks | None,
    ) -> Result:
        failure: Exception | None = None
        variables = dict(self._user_variables)
        try:
            for attempt in range(ATTEMPTS):
                found = self._attempt(work, parameters, letters, locks)
                if isinstance(found, Result):
                    return found
                self._user_variables = dict(variables)
                if isinstance(found, Exception):
                    failure = found
                    self.services.pause(attempt)
                elif locks is not None:
                    locks.wait(found, self.check_interrupt)
        finally:
            self._release()
        raise failure or refuse(1213)

    def _attempt(
        self,
        work: Work,
        parameters: Sequence[Value],
        letters: str,
        locks: StatementLocks | None,
    ) -> Result | Exception | bytes:
        """Its result, why it lost, or the key it has to wait for."""
        if locks is not None:
            locks.look()
        open_ = self._open(explicit=False)
        try:
            context = self.context_in(open_, parameters, letters, locks)
            result = work(context)
            if context.warnings:
                result.warnings = context.warnings
            if locks is not None:
                blocked = locks.take(open_.txn, 0, 0)
                if blocked is not None:
                    return blocked
            return _commit_alone(open_) or result
        except Conflict as conflict:
            return lost(conflict)
        except Duplicate as taken:
            blocked = None if locks is None else locks.judge(taken)
            if blocked is None:
                raise
            return blocked
        finally:
            open_.close()

    def _within(
        self, current: OpenTransaction, work: Work, parameters: Sequence[Value], letters: str
    ) -> Result:
        mark = current.txn.mark()
        context = self.context_in(current, parameters, letters)
        try:
            if current.read_committed:
                current.read_newest()
            try:
                result = work(context)
            except SchemaChanged:  # a plain read of what was written under the next revision
                if current.txn.mark() > mark or not current.learn():
                    raise
                result = work(context)
            finally:
                current.read_first()
        except Conflict as conflict:
            self.rollback()
            raise lost(conflict) from None
        except Unavailable:
            self.rollback()
            raise
        except Exception:
            current.forget(mark)
            raise
        if context.warnings:
            result.warnings = context.warnings
        return result

    def _within_locks(
        self, current: OpenTransaction, work: Work, parameters: Sequence[Value], letters: str
    ) -> Result:
        mark, expecting = current.txn.mark(), current.txn.expecting()
        locks, variables = self._locks(), dict(self._user_variables)
        try:
            for _ in range(ATTEMPTS):
                found = self._current_read(current, work, parameters, letters, locks)
                if isinstance(found, Result):
                    return found
                current.undo(mark, expecting)
                self._user_variables = dict(variables)
                locks.wait(found, self.check_interrupt)
        except (Conflict, Unavailable) as error:
            self.rollback()
            raise lost(error) if isinstance(error, Conflict) else error from None
        except Exception as error:
            if isinstance(error, Refused) and error.code == DEADLOCK:
                self.rollback()
            else:
                current.undo(mark, expecting)
                locks.give_back()
            raise
        self.rollback()
        raise refuse(DEADLOCK)

    def _current_read(
        self,
        current: OpenTransaction,
        work: Work,
        parameters: Sequence[Value],
        letters: str,
        locks: StatementLocks,
    ) -> Result | bytes:
        """Its result, or the key it has to wait for. It is for the caller to undo it then."""
        mark, expecting = current.txn.mark(), current.txn.expecting()
        locks.look()
        current.read_newest()
        try:
            context = self.context_in(current, parameters, letters, locks)
            result = work(context)
        except Duplicate as taken:
            blocked = locks.judge(taken)
            if blocked is None:
                raise
            return blocked
        finally:
            current.read_first()
        blocked = locks.take(current.txn, mark, expecting)
        if blocked is not None:
            return blocked
        if context.warnings:
            result.warnings = context.warnings
        return result

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
        return open_

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


def _commit_alone(open_: OpenTransaction) -> Exception | None:
    """Commit; the error to raise if no attempt succeeds, or None."""
    if not open_.writes:
        return None
    try:
        open_.commit()
    except Conflict as conflict:
        return lost(conflict)
    except Duplicate as duplicate:
        return open_.explain(duplicate)
    return None
