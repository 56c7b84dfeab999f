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

import threading
from collections.abc import Callable, Sequence

from exuvia.base.errors import (
    Conflict,
    Duplicate,
    Refused,
    SchemaChanged,
    Unavailable,
    WouldWait,
)
from exuvia.base.mysql_errors import (
    ErrInfoSchemaChanged,
    ErrLockDeadlock,
    ErrLockWaitTimeout,
    ErrTableDefChanged,
)
from exuvia.catalog import meta
from exuvia.sql.context import Context
from exuvia.sql.result import Note, Result, Value
from exuvia.sql.session.beginning import Beginning
from exuvia.sql.session.locking import StatementLocks
from exuvia.sql.session.transactions import Closing, OpenTransaction, lost

ATTEMPTS = 64
BEGINNINGS = 16
LOOK_S = 0.5
OUTDATED = (ErrTableDefChanged.code, ErrInfoSchemaChanged.code)
Work = Callable[[Context], Result]


class Transacting(Beginning):
    """How a session runs work in transactions."""

    warnings: Sequence[Note]
    found_rows: int
    row_count: int
    last_insert_id: int

    def _answer(self, result: Result) -> Result:
        self.warnings = result.warnings
        if result.columns:
            self.found_rows = len(result.rows)
            self.row_count = -1
        else:
            self.row_count = result.affected
        if result.last_insert_id:
            self.last_insert_id = result.last_insert_id
        return result

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
        return self._within(current, work, parameters, letters, locking)

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
        raise failure or ErrLockDeadlock()

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
            with open_.statement():
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
        self,
        current: OpenTransaction,
        work: Work,
        parameters: Sequence[Value],
        letters: str,
        locking: bool,
    ) -> Result:
        """Its first statement may meet a table that changed since BEGIN: nobody has read the
        snapshot yet, so the transaction begins again."""
        variables = dict(self._user_variables)
        run = self._within_locks if locking and current.pessimistic else self._within_snapshot
        for _ in range(BEGINNINGS):
            current.about = self.statement
            try:
                with current.statement():
                    result = run(current, work, parameters, letters)
            except Refused as error:
                if current.answered or error.code not in OUTDATED:
                    raise
                if isinstance(error, Closing):
                    self._wait_for_change(error)
                failure = error
            else:
                current.answered = True
                return result
            current = self._begin_again(current)
            self._user_variables = dict(variables)
        self.rollback()
        raise failure

    def _wait_for_change(self, closing: Closing) -> None:
        """Until the table's revision is another one. Raises 1205, 1317, WouldWait."""
        store, clock = self.services.store, self.services.clock
        if threading.get_ident() == self.services.row_locks.unwaiting:
            raise WouldWait
        deadline = clock.monotonic() + self.settings.lock_wait_s
        while True:
            seen = store.counter("version")
            txn = store.begin()
            try:
                if meta.revision(txn, closing.table_id) != closing.revision:
                    return
            finally:
                txn.rollback()
            self.check_interrupt()
            if clock.monotonic() >= deadline:
                raise ErrLockWaitTimeout()
            store.wait("version", seen, LOOK_S)

    def _begin_again(self, before: OpenTransaction) -> OpenTransaction:
        before.close()
        self._release(committed=False)
        again = self._open(
            explicit=True, read_only=before.read_only, pessimistic=before.pessimistic
        )
        again.read_committed, again.savepoints = before.read_committed, before.savepoints
        self.current = again
        return again

    def _within_snapshot(
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
            for attempt in range(ATTEMPTS):
                found = self._current_read(current, work, parameters, letters, locks)
                if isinstance(found, Result):
                    return found
                current.undo(mark, expecting)
                self._user_variables = dict(variables)
                if found:
                    locks.wait(found, self.check_interrupt)
                else:
                    self.services.pause(attempt)
        except (Conflict, Unavailable) as error:
            self.rollback()
            raise lost(error) if isinstance(error, Conflict) else error from None
        except Exception as error:
            if isinstance(error, Refused) and error.code == ErrLockDeadlock.code:
                self.rollback()
            else:
                current.undo(mark, expecting)
                locks.give_back()
            raise
        self.rollback()
        raise ErrLockDeadlock()

    def _current_read(
        self,
        current: OpenTransaction,
        work: Work,
        parameters: Sequence[Value],
        letters: str,
        locks: StatementLocks,
    ) -> Result | bytes:
        """Its result, or the key it has to wait for; b"": its table has changed, plan it anew.

        It is for the caller to undo it then."""
        mark, expecting = current.txn.mark(), current.txn.expecting()
        locks.look()
        current.read_newest()
        try:
            context = self.context_in(current, parameters, letters, locks)
            result = work(context)
            blocked = locks.take(current.txn, mark, expecting)
            if blocked is None and not current.answered:
                current.keep_newest()
        except Duplicate as taken:
            blocked = locks.judge(taken)
            if blocked is None:
                raise
            return blocked
        except SchemaChanged:
            return b""
        finally:
            current.read_first()
        if blocked is not None:
            return blocked
        if context.warnings:
            result.warnings = context.warnings
        return result


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
