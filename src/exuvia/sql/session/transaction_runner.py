"""Runs a session's work in transactions: the open one, or a separate one for each statement.

separate    repeated on a new snapshot if others win a conflict, up to a limit
open        a failure undoes the statement; a conflict or a lost snapshot undoes the transaction

In mysql mode a transaction has no snapshot before it uses a stored table. After GET_LOCK, SHOW or a
read of information_schema the next statement reads a newer one. InnoDB, too, creates its read view
with the first read of rows.

Writes and reads FOR UPDATE wait for rows that other sessions have locked (statement/locks.py), and
then run again. In an open transaction they read the latest snapshot. Plain reads use the
transaction's snapshot, unless it is READ COMMITTED. Optimistic transactions lock nothing before
their commit, and read one snapshot.

Before a repetition all effects of the failed run are undone: writes, requirements, warnings, user
variables. Its ids remain as gaps.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from exuvia.base.aside import require_waiting, stepping_aside
from exuvia.base.errors import (
    Conflict,
    Duplicate,
    ExuviaError,
    Refused,
    RowLocked,
    SchemaChanged,
    Unavailable,
    WouldWait,
)
from exuvia.base.memory import quota_of
from exuvia.base.mysql_errors import (
    ErrCantExecuteInReadOnlyTransaction,
    ErrInfoSchemaChanged,
    ErrLockDeadlock,
    ErrLockWaitTimeout,
    ErrMemoryExceedForQuery,
    ErrOptionPreventsStatement,
    ErrSQLInReadOnlyMode,
    ErrTxnTooLarge,
)
from exuvia.base.types import Value
from exuvia.catalog import meta
from exuvia.catalog.sysvar.variables import (
    NOT_READ_ONLY,
    READ_ONLY,
    TIDB_READ_ONLY,
    read_flag,
)
from exuvia.catalog.table import Table
from exuvia.cluster.row_locks import Locker
from exuvia.events.change_log import ReadTime
from exuvia.kv import keys
from exuvia.kv.packet import SnapshotUse
from exuvia.kv.transaction import ATTEMPTS, Expected, ManagedTransaction, Transaction
from exuvia.sql.privileges.rights import Rights
from exuvia.sql.result import Result
from exuvia.sql.statement.context import Context, Seen, SessionApi
from exuvia.sql.statement.locks import StatementLocks
from exuvia.sql.statement.moment import MomentContext
from exuvia.sql.statement.plan import KeptPlan
from exuvia.sql.statement.transaction import Closing, OpenTransaction, lost

BEGINNINGS = 16
LOOK_S = 0.5
SIZE_STEP = 256 << 10
"""A transaction's limits are checked after each growth by this many bytes."""
WRITE_BYTES = 600
"""Memory of one buffered write in addition to its key and payload, including its part of the
packet. Measured with 400,000 rows and three indexes: 1.6 million writes."""
Work = Callable[[Context], Result]
_serial = count(1)


def read_only_refusal(txn: Transaction, rights: Rights) -> Refused | None:
    """The error for a client that may not write in the current read-only mode: 1836, 1290, or None.

    As in TiDB, RESTRICTED_REPLICA_WRITER_ADMIN must be granted by name."""
    modes = "tidb_super_read_only", "tidb_restricted_read_only"
    may_replicate = "RESTRICTED_REPLICA_WRITER_ADMIN" in rights.everywhere
    if not may_replicate and any(read_flag(txn, mode) for mode in modes):
        return ErrSQLInReadOnlyMode()
    if read_flag(txn, "super_read_only"):
        return ErrOptionPreventsStatement("--super-read-only")
    may_all = {"SUPER", "CONNECTION_ADMIN"} & rights.everywhere
    if read_flag(txn, "read_only") and not may_all:
        return ErrOptionPreventsStatement("--read-only")
    return None


def writes_under(rights: Rights) -> int:
    """The strictest read-only mode in which an account with these rights may write."""
    if "RESTRICTED_REPLICA_WRITER_ADMIN" in rights.everywhere:
        return TIDB_READ_ONLY
    return READ_ONLY if {"SUPER", "CONNECTION_ADMIN"} & rights.everywhere else NOT_READ_ONLY


MOST_ABOUT = 1 << 16  # the longest text of a statement that a transaction stores


class TransactionRunner:
    """The transactions of one session.

    `current` is the open transaction, `time` the time at which it reads, `locker` has its row
    locks. `next_is_read_only` and `next_isolation` are the values of SET TRANSACTION."""

    def __init__(self, session: SessionApi) -> None:
        self._session = session
        self.current: OpenTransaction | None = None
        self.time: ReadTime | None = None
        self.locker = Locker()
        self.next_is_read_only: bool | None = None
        self.next_isolation = ""
        self.is_next_set = False

    # -- the open transaction ----------------------------------------------------------------------

    def begin(
        self,
        read_only: bool | None = None,
        pessimistic: bool | None = None,
        time: ReadTime | None = None,
    ) -> OpenTransaction:
        """Opens a transaction; commits an open one first.

        `read_only` None: set by SET TRANSACTION, or else by transaction_read_only. `pessimistic`
        None: set by tidb_txn_mode. `time`: the time at which its queries read."""
        self.commit()
        self.time = time
        settings = self._session.settings
        if read_only is None:
            read_only = self.is_next_read_only
        locking = settings.pessimistic if pessimistic is None else pessimistic
        isolation = self.next_isolation or settings.isolation
        self.forget_next()
        self.current = self._open(explicit=True, read_only=read_only, pessimistic=locking)
        self.current.read_committed = locking and isolation == "READ-COMMITTED"
        return self.current

    @property
    def is_next_read_only(self) -> bool:
        """Whether the next transaction is READ ONLY."""
        following = self.next_is_read_only
        return self._session.settings.read_only if following is None else following

    def set_next(self, isolation: str | None, read_only: bool | None) -> None:
        """Sets the characteristics of the next transaction; None leaves one unchanged."""
        if isolation is not None:
            self.next_isolation = isolation
        if read_only is not None:
            self.next_is_read_only = read_only
        self.is_next_set = self.next_is_read_only is not None or self.next_isolation != ""

    def forget_next(self) -> None:
        """Drops the values of SET TRANSACTION, which apply to one transaction."""
        self.next_is_read_only, self.next_isolation, self.is_next_set = None, "", False

    def commit(self) -> None:
        """Commits the open transaction, if any.

        An optimistic one first waits for sessions that have locked its rows; then it is validated.
        Raises 1213, 8028, 1062, 8027, 1205, 1317, 1290, 1836: all its writes are undone then."""
        current, self.current = self.current, None
        self.time = None
        if current is None:
            return
        try:
            if current.wrote:
                self.check_commit()
            if not current.pessimistic:
                locks = self._locks()
                while current.writes and (blocked := locks.take(current.txn)):
                    locks.wait(blocked, self._session.check_interrupt)
            current.txn.free = self._judged(current)
            try:
                current.commit_for_client()
            except Refused as error:
                if error.code == ErrInfoSchemaChanged.code and current.wrote:
                    self.check_commit()  # raises if a read-only mode was the reason
                raise
        finally:
            current.close()
            self._release()

    def rollback(self) -> None:
        """Undoes the open transaction, if any."""
        current, self.current = self.current, None
        self.time = None
        if current is not None:
            current.close()
        self._release(committed=False)

    def _open(
        self,
        explicit: bool,
        read_only: bool = False,
        pessimistic: bool = False,
        reads: bool = False,
    ) -> OpenTransaction:
        session = self._session
        settings = session.settings
        token = (session.connection_id, next(_serial))
        lock = settings.metadata_lock
        end = partial(session.end_transaction, token)
        open_ = OpenTransaction(
            session.services,
            token,
            explicit,
            read_only,
            lock,
            pessimistic,
            reads,
            end,
            lambda: int(settings.get("tidb_tmp_table_max_size")),
        )
        open_.about = session.statement[:MOST_ABOUT]
        open_.txn.limit(settings.entry_bytes, SIZE_STEP, self._grown)
        return open_

    def _grown(self, size: int, writes: int) -> int:
        """The size up to which a transaction of this size may grow without another check.

        Raises 8004 if its commit would block others for too long. Raises 8175 if its memory, with
        an overhead for each write, exceeds tidb_mem_quota_query."""
        session = self._session
        most = int(session.settings.get("exuvia_txn_total_size_limit"))
        if size > most:
            raise ErrTxnTooLarge(size)
        quota = quota_of(session.variable)
        if 0 < quota < size + writes * WRITE_BYTES:
            raise ErrMemoryExceedForQuery(session.connection_id)
        return min(most, size + SIZE_STEP)

    def admit(self, txn: Transaction, writes: bool) -> None:
        """Admits a client's transaction to write, or only to lock.

        Its commit fails if a read-only mode is switched on. Raises 1836 (TiDB's modes), or 1290
        (MySQL's modes, which allow locks)."""
        raw = txn.get(keys.READ_ONLY)
        if raw is None or self._session.is_internal:
            return
        rights = self._session.rights
        refusal = read_only_refusal(txn, rights) if keys.read_number(raw) else None
        if refusal is not None and (writes or refusal.code == ErrSQLInReadOnlyMode.code):
            raise refusal
        if writes:
            txn.require_at_most(keys.READ_ONLY, writes_under(rights))

    def _ask_ahead(self, txn: Transaction) -> None:
        """On a remote store, prefetches the key of `admit` with the first read."""
        if not self._session.services.store.near:
            txn.snapshot.ahead((keys.READ_ONLY,))

    def _admit(self, open_: OpenTransaction, writes: bool) -> None:
        if writes and open_.read_only:
            raise ErrCantExecuteInReadOnlyTransaction()
        self.admit(open_.txn, writes)
        open_.wrote |= writes

    def check_commit(self) -> None:
        """Raises an error for a transaction that wrote before a read-only mode was switched on."""
        services = self._session.services
        with services.store.read() as txn:
            raw = txn.get(keys.READ_ONLY)
            if not keys.read_number(raw) or self._session.is_internal:
                return
            refusal = read_only_refusal(txn, self._session.rights)
        if refusal is not None:
            raise refusal

    def _locks(self) -> StatementLocks:
        services, wait_s = self._session.services, self._session.settings.lock_wait_s
        return StatementLocks(services.row_locks, self.locker, wait_s, services.store.snapshot)

    def _judged(self, open_: OpenTransaction) -> Sequence[bytes]:
        """The keys on which the commit must not find locks of others."""
        return self._session.services.row_locks.judged(self.locker, open_.txn)

    def _release(self, committed: bool = True) -> None:
        if self.locker.keys or self.locker.holder is not None:
            self._session.services.row_locks.release(self.locker, committed=committed)

    def _context(
        self,
        open_: OpenTransaction,
        parameters: Sequence[Value],
        letters: str,
        locks: StatementLocks | None = None,
    ) -> Context:
        """The context of a statement in that transaction."""
        context = Context(
            self._session,
            self._session.services.schemas,
            open_.txn,
            None,
            parameters,
            letters,
            open_.writing,
            locks,
            open_.relying,
        )
        context.admit = partial(self._admit, open_)
        if open_.explicit:
            context.reading = open_.reading
        context.counted = open_.counted
        context.written_tables = open_.names
        context.own_ids = open_.ids_of
        return context

    # -- work --------------------------------------------------------------------------------------

    def run(
        self,
        work: Work,
        parameters: Sequence[Value] = (),
        letters: str = "",
        locking: bool = False,
        reads: bool = False,
    ) -> Result:
        """Runs work in the open transaction, or in a separate one.

        `locking`: it writes, or reads FOR UPDATE. `reads`: its first step is a read, so that a
        separate transaction may take its snapshot at once. Raises 1205, 1213, 1317, 3572,
        WouldWait."""
        if not self._session.services.store.near:
            require_waiting()
        current = self.current
        if current is None and not self._session.settings.autocommit:
            current = self.begin()
        if current is None:
            locks = self._locks() if locking else None
            session = self._session
            failure: Exception | None = None
            variables = dict(session.user_variables)
            self.locker.alone = True
            try:
                for attempt in range(ATTEMPTS):
                    outcome = self._attempt(work, parameters, letters, locks, reads)
                    if isinstance(outcome, Result):
                        return outcome
                    session.user_variables = dict(variables)
                    if isinstance(outcome, Exception):
                        failure = outcome
                        self._lock_everywhere()
                        self._back_off(attempt)
                    elif locks is not None:
                        locks.wait(outcome, session.check_interrupt)
            except WouldWait:
                session.user_variables = variables
                raise
            finally:
                self._release()
                self.locker.alone = False
            raise failure or ErrLockDeadlock()
        return self._within(current, work, parameters, letters, locking)

    def read_few(self, plan: KeptPlan, parameters: Sequence[Value], letters: str) -> Result | None:
        """Runs a plan with `few`: in one snapshot, without locks and repetitions.

        Returns None if `run` is needed: the plan is outdated, does not read few rows, or failed.
        `run` then meets the same error and handles it."""
        session = self._session
        services = session.services
        current = self.current
        if current is not None and not services.store.near:
            require_waiting()
        if current is not None and not current.read_committed:
            context = self._context(current, parameters, letters)
            current.about = session.statement[:MOST_ABOUT]
            try:
                with current.statement():
                    result = _few(plan, context, services.store.near)
            except ExuviaError:
                return None
            current.answered |= result is not None
            return result
        if current is not None or not session.settings.autocommit or self.is_next_set:
            return None
        try:
            services.member.guarding()
            with stepping_aside():
                return self._few_alone(plan, parameters, letters)
        except ExuviaError:
            return None

    def _few_alone(
        self, plan: KeptPlan, parameters: Sequence[Value], letters: str
    ) -> Result | None:
        services = self._session.services
        snapshot = services.store.snapshot(SnapshotUse.ONCE)
        try:
            snapshot.in_use(True)  # until it is closed
            txn = Transaction(services.store, snapshot)
            context = Context(self._session, services.schemas, txn, None, parameters, letters)
            return _few(plan, context, services.store.near)
        finally:
            snapshot.close()

    def _lock_everywhere(self) -> None:
        """Makes a separate statement lock like a transaction."""
        if self.locker.alone:
            self._release(committed=False)
            self.locker.alone = False

    def _back_off(self, attempt: int) -> None:
        """Waits before the next attempt. Raises WouldWait."""
        services = self._session.services
        if services.row_locks.is_unwaiting():
            raise WouldWait
        services.store.back_off(attempt)

    def look(
        self, work: Callable[[Context], Seen], parameters: Sequence[Value] = (), letters: str = ""
    ) -> Seen:
        """Runs work in a separate snapshot, independent of the open transaction.

        Takes no locks; its writes are lost."""
        session = self._session
        with session.services.store.read() as txn:
            schemas = session.services.schemas
            return work(Context(session, schemas, txn, None, parameters, letters))

    def run_at(
        self, time: ReadTime, work: Work, parameters: Sequence[Value], letters: str
    ) -> Result:
        """Runs work that reads at a time, in a separate snapshot."""
        session = self._session
        services = session.services
        services.member.guarding()
        snapshot = services.store.snapshot(SnapshotUse.CLIENT)
        try:
            snapshot.in_use(True)  # until it is closed
            txn = ManagedTransaction(services.store, snapshot)
            context = MomentContext(session, txn, time, parameters, letters)
            result = work(context)
        finally:
            snapshot.close()
        if context.warnings:
            result.warnings = context.warnings
        return result

    def _attempt(
        self,
        work: Work,
        parameters: Sequence[Value],
        letters: str,
        locks: StatementLocks | None,
        reads: bool,
    ) -> Result | Exception | bytes:
        """The result, the error of a lost conflict, or the key to wait for."""
        if locks is not None:
            locks.look()
        open_ = self._open(explicit=False, read_only=self.is_next_read_only, reads=reads)
        try:
            context = self._context(open_, parameters, letters, locks)
            open_.txn.snapshot.in_use(True)  # until it is closed
            if locks is not None:
                self._ask_ahead(open_.txn)
            tables: list[Table] = []
            if self.is_next_set:
                context.reading = tables.append
            result = work(context)
            if context.warnings:
                result.warnings = context.warnings
            if tables:
                self.forget_next()  # it has used a table, so it was the transaction
            if locks is not None:
                if not open_.writes:
                    self._lock_everywhere()  # no commit would detect conflicts
                blocked = locks.take(open_.txn)
                if blocked is not None:
                    return blocked
                open_.txn.free = self._judged(open_)
            return _commit_alone(open_) or result
        except RowLocked as locked:
            self._lock_everywhere()
            return locked.key
        except Conflict as conflict:
            return lost(conflict)
        except Duplicate as duplicate:
            blocked = None if locks is None else locks.judge(duplicate, open_.txn)
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
        """Runs work in the open transaction.

        If a table has changed since BEGIN and nothing was read from the snapshot, the transaction
        begins again."""
        session = self._session
        variables = dict(session.user_variables)
        run = self._within_locks if locking and current.pessimistic else self._within_snapshot
        for _ in range(BEGINNINGS):
            current.about = session.statement[:MOST_ABOUT]
            try:
                with current.statement():
                    result = run(current, work, parameters, letters)
            except Refused as error:
                if current.answered or error.code != ErrInfoSchemaChanged.code:
                    if self.current is current:
                        self._forget_unused(current)
                    raise
                if isinstance(error, Closing):
                    self._wait_for_change(error)
                failure = error
            except WouldWait:
                session.user_variables = variables
                raise
            else:
                current.answered = current.answered or not self._forget_unused(current)
                return result
            current = self._begin_again(current)
            session.user_variables = dict(variables)
        self.rollback()
        raise failure

    def _forget_unused(self, current: OpenTransaction) -> bool:
        """In mysql mode, forgets the snapshot of a transaction that has used no stored table.
        Returns whether the next statement may read a newer snapshot."""
        if current.answered or current.uses_tables:
            return False
        if self._session.variable("exuvia_compatibility") != "mysql":
            return False
        if not current.txn.is_unread:
            self._begin_again(current)
        return True

    def _begin_again(self, current: OpenTransaction) -> OpenTransaction:
        """Opens the transaction again, without its snapshot, writes and locks."""
        current.close()
        self._release(committed=False)
        again = self._open(
            explicit=True, read_only=current.read_only, pessimistic=current.pessimistic
        )
        again.read_committed, again.savepoints = current.read_committed, current.savepoints
        self.current = again
        return again

    def _wait_for_change(self, closing: Closing) -> None:
        """Waits until the table has another revision. Raises 1205, 1317, WouldWait."""
        services = self._session.services
        store, clock = services.store, services.clock
        if services.row_locks.is_unwaiting():
            raise WouldWait
        deadline = clock.monotonic() + self._session.settings.lock_wait_s
        while True:
            version = store.counter("version")
            with store.read() as txn:
                if meta.revision(txn, closing.table_id) != closing.revision:
                    return
            self._session.check_interrupt()
            if clock.monotonic() >= deadline:
                raise ErrLockWaitTimeout()
            store.wait("version", version, LOOK_S)

    def _within_snapshot(
        self, current: OpenTransaction, work: Work, parameters: Sequence[Value], letters: str
    ) -> Result:
        mark = current.txn.mark()
        context = self._context(current, parameters, letters)
        try:
            if current.read_committed:
                current.read_newest()
            try:
                result = work(context)
            except SchemaChanged:  # a plain read of rows written under the next revision
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
        session = self._session
        mark, expecting = current.txn.mark(), current.txn.expecting()
        locks, variables = self._locks(), dict(session.user_variables)
        try:
            for attempt in range(ATTEMPTS):
                outcome = self._current_read(
                    current, work, parameters, letters, locks, mark, expecting
                )
                if isinstance(outcome, Result):
                    return outcome
                current.undo(mark, expecting)
                session.user_variables = dict(variables)
                if outcome:
                    locks.wait(outcome, session.check_interrupt)
                else:
                    self._back_off(attempt)
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
        mark: int,
        expecting: Expected,
    ) -> Result | bytes:
        """The result, the key to wait for, or b"" if a table has changed and must be planned again.

        Unless it returns a result, the caller undoes the writes."""
        locks.look()
        current.read_newest()
        try:
            self._ask_ahead(current.txn)
            context = self._context(current, parameters, letters, locks)
            result = work(context)
            blocked = locks.take(current.txn, mark, expecting)
            if blocked is None and not current.answered:
                current.keep_newest()
        except Duplicate as duplicate:
            blocked = locks.judge(duplicate, current.txn)
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


def _few(plan: KeptPlan, context: Context, near: bool) -> Result | None:
    if near:
        if not plan.fresh(context):
            return None
        plan.check(context)
        result = plan.few(context)
    else:
        result = _few_at_once(plan, context)
    if result is not None and context.warnings:
        result.warnings = context.warnings
    return result


def _few_at_once(plan: KeptPlan, context: Context) -> Result | None:
    """Runs `few` and checks afterwards that the plan was valid: one round trip."""
    context.txn.snapshot.ahead([key for table in plan.tables for key, _ in table.marks])
    try:
        result = plan.few(context)
    except Exception:
        if plan.fresh(context):
            raise
        return None  # the rows do not match the outdated plan
    if not plan.fresh(context):
        return None
    plan.check(context)
    return result


def _commit_alone(open_: OpenTransaction) -> Exception | None:
    """Commits; returns the error to raise if no attempt succeeds, or None."""
    if not open_.writes:
        return None
    try:
        open_.commit()
    except RowLocked:
        raise
    except Conflict as conflict:
        return lost(conflict)
    except Duplicate as duplicate:
        return open_.explain(duplicate)
    return None
