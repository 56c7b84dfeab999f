"""A session: runs one client's statements, in its open transaction or each in a separate one.

    execute(text) --shape--> a cached plan ------------------> run in a transaction --> Result
                  `--parse--> a read or write -> its plan ------^
                         `--> other statements -> their handlers (session/statement_registry.py)

Plans depend only on the snapshot they run in. A session keeps between statements:

  - settings, user variables, temporary tables, named locks;
  - the account of the login; without one (embedded sessions, tests) all privileges are granted;
  - the open transaction (session/transaction_runner.py).
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import tzinfo
from functools import partial

from exuvia.base import memory
from exuvia.base.errors import ExuviaError, Refused
from exuvia.base.interruption import Interruption, out_of_turn, running, taking_turns
from exuvia.base.mysql_errors import (
    ErrAsOf,
    ErrCantExecuteInReadOnlyTransaction,
    ErrClientLocalFilesDisabled,
    ErrInfoSchemaExpired,
    ErrMaxExecTimeExceeded,
    ErrMustChangePassword,
    ErrQueryInterrupted,
    ErrSnapshotTooOld,
    ErrStackOverrunNeedMore,
)
from exuvia.base.types import FieldType, Value
from exuvia.catalog.placement import DEFAULT_GROUP
from exuvia.cluster.row_locks import SHORT
from exuvia.events.change_log import ReadTime
from exuvia.kv.transaction import Transaction
from exuvia.sql import planner
from exuvia.sql.accounts.users import ends_expiry
from exuvia.sql.bind.binding import Answers, FactNames, size_of, type_of_variable
from exuvia.sql.information_schema import registry
from exuvia.sql.matching import prefix_of
from exuvia.sql.nodes import Begin, Commit, Explain, Rollback, Statement
from exuvia.sql.parse.dismantle import dismantle
from exuvia.sql.parse.literals import (
    MANY_ROWS,
    RowsAlike,
    bound_values,
    letters_of,
    number_placeholders,
    rows_of,
    shape_of,
)
from exuvia.sql.parse.syntax_error import Misplaced, placed
from exuvia.sql.parse.text import parse
from exuvia.sql.planner import NOT_KEPT
from exuvia.sql.privileges.accounts import ALL, Account, Name, Rights, role_text
from exuvia.sql.result import NULL, Note, Result, Row, notes_of
from exuvia.sql.session import stale_read
from exuvia.sql.session.prepared import Prepared, describe, parsed
from exuvia.sql.session.schema_change import change_schema, stays_in_transaction
from exuvia.sql.session.set_variables import hinted, hints_of, is_query, variable_of
from exuvia.sql.session.statement_registry import StatementKind, check_privileges, kind_of
from exuvia.sql.session.transaction_runner import TransactionRunner, Work
from exuvia.sql.show import explain_plan
from exuvia.sql.statement.context import Context, Course, Ready, Seen, VirtualTable
from exuvia.sql.statement.job_waits import JobWaits
from exuvia.sql.statement.locks import NamedLocks
from exuvia.sql.statement.plan import KeptPlan
from exuvia.sql.statement.plan_cache import REFUSED, AsWritten, ShapedStatement, StatementShape
from exuvia.sql.statement.services import Services
from exuvia.sql.statement.settings import SessionSettings
from exuvia.sql.statement.temporary import TemporaryTables
from exuvia.sql.statement.transaction import OpenTransaction
from exuvia.sql.write.insert import InsertAlike

MOST_ASIDE = 256
"""The most writes whose commit takes the wire's thread no longer than a statement does."""
MOST_LOOKED_AT = 1 << 13
"""The longest query, in characters, whose shape the wire's thread computes (0.5 ms)."""
PLANNED_S = 1.0
"""The limit of planning for the slow log, for which the client of a slow statement waits."""
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
_UNLIMITED = nullcontext()
_OF_THE_SESSION = (
    *("error_count", "identity", "last_insert_id", "last_plan_from_binding"),
    *("timestamp", "warning_count"),
)
"""Variables whose values are not in `settings`; see `variable`."""
_BEGIN_AND_END = (Begin(), Commit(), Rollback())
_UNDOES = ("ROLLBACK", "ROLLBACK WORK")
_BRIEF = frozenset(("BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK"))
"""Statements without options that begin or end a transaction."""
_ENDS: dict[str, Sequence[Statement]] = {}
"""The texts of BEGIN, COMMIT and ROLLBACK that clients send, parsed: two in every transaction."""
LONGEST_END, MOST_ENDS = 40, 64
LONG_TEXT = 1 << 20  # longer texts are parsed one at a time
EQUAL_ROWS = "*"  # suffix of the letters in the plan's key, for rows of equal form


class Session:
    """Runs one statement at a time. `close` ends its transaction."""

    def __init__(
        self,
        services: Services,
        connection_id: int = 1,
        user: str = "root",
        host: str = "localhost",
        database: str = "",
        client_found_rows: bool = False,
    ) -> None:
        self.services = services
        self.connection_id = connection_id
        self.user = user
        self.host = host
        self.database = database
        self.client_found_rows = client_found_rows
        self.settings = SessionSettings(services)
        self.transactions = TransactionRunner(self)
        self.temporary: TemporaryTables | None = None
        self.named_locks = NamedLocks(services.named_locks, connection_id, self.check_interrupt)
        self.waits = JobWaits(services.store, services.clock, services.owner)
        self.user_variables: dict[str, tuple[Value, FieldType]] = {}
        self.snapshot_time: ReadTime | None = None  # set by tidb_snapshot
        self.sequence_values: dict[int, int] = {}  # LASTVAL by the sequence's id
        self.prepared: dict[str, Ready] = {}
        self.local_file: Callable[[str], Iterator[bytes]] | None = None
        # the previous statement's values that clients can read
        self.statement = ""
        self.last_insert_id = 0
        self.found_rows = 0
        self.row_count = -1
        self.warnings: Sequence[Note] = ()
        # the account of the login
        self.account: Account | None = None
        self.active_roles: tuple[Name, ...] = ()
        self.resource_group = DEFAULT_GROUP
        self.must_change_password = False  # all other statements are refused
        self._rights = ALL
        self._rights_of: tuple[int, tuple[Name, ...]] = (0, ())
        # the running statement
        self._bound: tuple[Sequence[Value], str] = ((), "")
        self._looked_up: tuple[str, int, ShapedStatement | None] = ("", 0, None)
        self._ended: Refused | None = None  # why its transaction was rolled back in between
        # the transaction to roll back, and why
        self._ending: tuple[tuple[int, int], Refused] | None = None
        self._turn = threading.Lock()
        self._interruption = Interruption()
        self.memory = self._interruption.memory
        self.memory.quota, self.memory.connection_id = self._quota, connection_id
        self._commanded = False
        self.client_is_gone = False
        self.is_secure = False  # whether the connection is encrypted
        self.is_internal = False  # not a client's: exempt from read-only modes
        self.is_released = False  # whether the connection ends after the last statement
        self.changed_schema = False  # by the running command: then it is excluded from p99
        self._active_s = services.clock.monotonic()

    # -- statements --------------------------------------------------------------------------------

    def execute(
        self, text: str, parameters: Sequence[Value] | None = None
    ) -> Result | list[Result]:
        """Runs a text. Returns a Result, or a list for several statements.

        Raises Refused, and errors of the store if it is unavailable."""
        grammar, written = self.settings.grammar, text
        if grammar is not None:
            text = grammar.canonical(text)
        with self._turn, running(self._interruption):
            try:
                if len(text) <= LONG_TEXT:
                    return self._execute(text, written, parameters)
                with self._long():
                    return self._execute(text, written, parameters)
            except Refused as error:
                raise self._note(error) from error.__cause__
            except RecursionError:
                raise self._note(ErrStackOverrunNeedMore()) from None

    def _execute(
        self, text: str, written: str, parameters: Sequence[Value] | None
    ) -> Result | list[Result]:
        """As `execute`. `written` is the text before sql_mode was applied."""
        self._begin_statement(text)
        self.statement = written
        if parameters is not None:
            return self._run_prepared(parsed(text, self.database), parameters)
        set_var_hints = hints_of(text)
        if not set_var_hints:
            limited = self.settings.max_execution_s
            return self._run_limited(text) if limited else self._run_text(text)
        answer = hinted(self.settings, set_var_hints, lambda: self._run_limited(text))
        return self._answer(answer) if isinstance(answer, Result) else answer

    def prepare(self, text: str) -> Prepared:
        """Parses a statement with `?` and plans it for its result columns."""
        long = self._long() if len(text) > LONG_TEXT else _UNLIMITED
        with self._turn, running(self._interruption), long:
            try:
                self._begin_statement(text)
                return describe(self, text)
            except Refused as error:
                raise self._note(error) from error.__cause__
            except RecursionError:
                raise self._note(ErrStackOverrunNeedMore()) from None

    def execute_prepared(self, prepared: Ready, parameters: Sequence[Value]) -> Result:
        with self._turn, running(self._interruption):
            try:
                self._begin_statement(prepared.text)
                return self._run_prepared(prepared, parameters)
            except Refused as error:
                raise self._note(error) from error.__cause__
            except RecursionError:
                raise self._note(ErrStackOverrunNeedMore()) from None

    @contextmanager
    def _long(self) -> Iterator[None]:
        """Parses long texts one at a time, and truncates the stored text afterwards."""
        try:
            with taking_turns():
                yield
        finally:
            self.statement = self.statement[:LONG_TEXT]

    def _run_prepared(self, prepared: Ready, parameters: Sequence[Value]) -> Result:
        answer = prepared.run(self, parameters)
        self.warnings = answer.warnings  # including those of its hints
        return answer

    def _begin_statement(self, text: str) -> None:
        self.statement = text
        if self.settings.bindings.used:
            self.settings.bindings.begin()
        if not self._commanded:
            self._interruption.clear()
        if self.memory.limit or self.memory.base:  # the previous statement used memory
            self._measure_variables()
            self.memory.start()
        if len(text) > LONG_TEXT:
            self.memory.keep(memory.size_of(text))
        now = self.services.clock.monotonic()
        self._active_s = now
        if not self.services.member.serving(now):
            self.rollback()  # as after 1213: the client has to begin its transaction again
            raise ErrInfoSchemaExpired()
        if self._ending is not None:
            self._end_current(*self._ending)
        if self._ended is not None:
            ended, self._ended = self._ended, None
            if text.rstrip("; ").upper() not in _UNDOES:  # already done
                raise ended
        if self.must_change_password and not all(ends_expiry(self, node) for node in parse(text)):
            raise ErrMustChangePassword()

    def limited(self, text: str) -> AbstractContextManager[None]:
        """A context in which max_execution_time ends a query (3024)."""
        limit_s = self.settings.max_execution_s
        if not limit_s or not is_query(text):
            return _UNLIMITED
        return self._interruption.after(limit_s, ErrMaxExecTimeExceeded(), self._wake)

    def _run_limited(self, text: str) -> Result | list[Result]:
        with self.limited(text):
            return self._run_text(text)

    def _run_text(self, text: str) -> Result | list[Result]:
        if len(text) >= MANY_ROWS:
            equal_rows = rows_of(text)
            with out_of_turn():
                answer = None if equal_rows is None else self._run_equal_rows(equal_rows)
            if answer is not None:
                return answer
        statements = _ENDS.get(text)
        if statements is None:
            shaped = self._look_up(text)
            self._looked_up = "", 0, None  # used only once
            if shaped is not None:
                shape_answer = self.run_shape(shaped)
                if shape_answer is not None:
                    return shape_answer
            statements = self._parse(text)
        try:
            with out_of_turn():
                results = [self.run_statement(node, text) for node in statements]
        finally:
            if self._interruption.is_long:
                dismantle(statements)
        return results[0] if len(results) == 1 else results

    def _parse(self, text: str) -> Sequence[Statement]:
        statements = parse(text)
        if "?" in text and any(map(number_placeholders, statements)):
            raise Misplaced("?")
        is_end = len(statements) == 1 and statements[0] in _BEGIN_AND_END
        if is_end and len(text) <= LONGEST_END and len(_ENDS) < MOST_ENDS:
            _ENDS[text] = statements
        return statements

    def _look_up(self, text: str) -> ShapedStatement | None:
        """The shape of the text and its cached plan; cached for the call after `course`."""
        settings = self.settings
        last, revision, shaped = self._looked_up
        if last is text and revision == settings.revision:
            return shaped
        split, find, shaped = shape_of(text), self.services.plans.find, None
        if split is not None:
            shape, values = StatementShape(split[0], split[2]), split[1]
            cached = find(shape, self, values)
            if isinstance(cached, AsWritten):
                split = shape_of(text, cached.numbers)
                assert split is not None
                shape, values = StatementShape(split[0], split[2]), split[1]
                cached = find(shape, self, values)
            shaped = ShapedStatement(shape, values, cached)
        self._looked_up = text, settings.revision, shaped
        return shaped

    def answers(self, fact_names: FactNames, values: Sequence[Value]) -> Answers:
        """The values of the facts that the plans of a shape depend on, for these literals."""
        fixed = self.settings.answers(fact_names.settings, self.database)
        if not (fact_names.variables or fact_names.decimals or fact_names.prefixes):
            return fixed
        kinds = [type_of_variable(self, *variable) for variable in fact_names.variables]
        sizes = [size_of(values[number]) for number in fact_names.decimals]
        prefixes = [bool(prefix_of(values[number])) for number in fact_names.prefixes]
        return (*fixed, *kinds, *sizes, *prefixes)

    def run_shape(self, shaped: ShapedStatement, node: Statement | None = None) -> Result | None:
        """Runs a cached plan; None if this text must be planned separately.

        `node` is the parsed shape, if the caller has it."""
        shape, values, cached = shaped
        if self.reads_at is not None:
            return None
        if cached is REFUSED or isinstance(cached, AsWritten) or self.rights.by_columns:
            return None
        bindings = self.settings.bindings
        if isinstance(cached, KeptPlan) and cached.is_bound:
            bindings.note()
        if isinstance(cached, KeptPlan) and cached.reads_few:
            answer = self.transactions.read_few(cached, values, shape.letters)
            if answer is not None:
                return self._answer(answer)
        own: Statement | None = None
        if isinstance(cached, KeptPlan):
            locking = cached.locks
        else:
            node = node or (own := planner.tree_of_shape(shape.text))
            locking = planner.locks_rows(node)

        def work(context: Context) -> Result:
            if isinstance(cached, KeptPlan) and cached.fresh(context):
                cached.check(context)
                context.warnings += cached.notes
                return cached.run(context)
            plan = planner.plan_shape(shaped, node, context)
            if plan is None:
                return NOT_KEPT
            if plan.is_bound:
                bindings.note()
            plan.check(context)
            context.warnings += plan.notes
            return plan.run(context)

        reads = isinstance(cached, KeptPlan)
        result = self.transactions.run(work, values, shape.letters, locking, reads)
        if result is not NOT_KEPT:
            return self._answer(result)
        if own is not None and self._interruption.is_long:
            dismantle([own])
        return None

    def _run_equal_rows(self, rows: RowsAlike) -> Result | None:
        """Runs an INSERT of rows of equal form; None if its text must be planned separately."""
        first = [column[0] for column in rows.columns]
        shape = StatementShape(rows.shape, rows.letters + EQUAL_ROWS)
        cached = self.services.plans.find(shape, self, first)
        if cached is REFUSED or self.rights.by_columns or self.reads_at is not None:
            return None

        shaped = ShapedStatement(shape, first, cached)

        def work(context: Context) -> Result:
            plan = cached if isinstance(cached, InsertAlike) and cached.fresh(context) else None
            plan = plan or planner.plan_alike(shaped, context)
            if plan is None:
                return NOT_KEPT
            plan.check(context)
            context.warnings += plan.notes
            return plan.run_alike(context, rows.columns)

        reads = isinstance(cached, InsertAlike)
        result = self.transactions.run(work, first, rows.letters, True, reads)
        return None if result is NOT_KEPT else self._answer(result)

    def run_statement(
        self, node: Statement, text: str, parameters: Sequence[Value] = (), letters: str = ""
    ) -> Result:
        check_privileges(self, node)
        kind = kind_of(node)
        letters = letters or letters_of(parameters)
        time = self._time_of(node, kind, parameters, letters)

        def planned(context: Context) -> Result:
            return planner.answer(node, context)

        if time is not None:
            run_in_txn = None if kind is None else kind.in_txn

            def read(context: Context) -> Result:
                if run_in_txn is not None:
                    return run_in_txn(context, node)
                return planned(context)

            return self._answer(self.transactions.run_at(time, read, parameters, letters))
        if kind is None or kind.planned:
            return self.run(planned, parameters, letters, planner.locks_rows(node))
        if kind.writes:
            self._begin_change(stays_in_transaction(self, node))
        if kind.in_txn is None:
            outer, self._bound = self._bound, (parameters, letters)
            try:
                if kind.change is not None:
                    return self._answer(change_schema(self, kind.change, node, text))
                assert kind.own_txn is not None
                return self._answer(kind.own_txn(self, node, text))
            finally:
                self._bound = outer
        in_txn = kind.in_txn
        return self.run(lambda context: in_txn(context, node), parameters, letters)

    def _begin_change(self, is_temporary: bool) -> None:
        """Prepares a statement that changes more than rows and is a separate transaction.

        Raises 1792 in a READ ONLY session, 1290 and 1836 in a read-only mode."""
        if self.settings.read_only:
            self.commit()
            raise ErrCantExecuteInReadOnlyTransaction()
        with self.services.store.read() as txn:
            self.transactions.admit(txn, not is_temporary)
        self.transactions.forget_next()

    @property
    def reads_at(self) -> ReadTime | None:
        """The time at which the session or its transaction reads; None: now."""
        return self.snapshot_time or self.transactions.time

    def _time_of(
        self, node: Statement, kind: StatementKind | None, values: Sequence[Value], letters: str
    ) -> ReadTime | None:
        """The time at which the statement reads; None if it reads now, or does not read.

        Raises 8135, 1105, 1292."""
        standing, query = self.reads_at, stale_read.query_in(node)
        if query is not None and stale_read.asks_for_time(query):
            if standing is not None:
                raise ErrAsOf("can't use select as of while already set transaction as of")
            if self.current is not None:
                raise ErrAsOf("as of timestamp can't be set in transaction.")
            return self.transactions.look(
                lambda context: stale_read.time_of_query(query, context), values, letters
            )
        if standing is None:
            return None
        changes_schema = kind is not None and kind.change is not None
        stale_read.refuse_write(node, changes_schema, self.snapshot_time is not None)
        return standing if query is not None else None

    def run(
        self,
        work: Work,
        parameters: Sequence[Value] = (),
        letters: str = "",
        locking: bool = False,
    ) -> Result:
        """Runs work in a transaction and records the values that clients can read later.

        Without parameters, uses those bound to the running statement."""
        if not parameters:
            parameters, letters = self._bound
        return self._answer(self.transactions.run(work, parameters, letters, locking))

    def look(self, work: Callable[[Context], Seen]) -> Seen:
        """Runs work in a separate snapshot; see TransactionRunner.look."""
        return self.transactions.look(work, *self._bound)

    def plan_of(self, text: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """The rows of EXPLAIN for a read or write. Empty if there is no plan, or if planning takes
        longer than PLANNED_S."""
        planning = Interruption()
        limit = planning.after(PLANNED_S, ErrMaxExecTimeExceeded(), lambda: None)
        try:
            with self._turn, running(planning), limit:
                (node,) = statements = parse(text)
                any(map(number_placeholders, statements))
                explain = Explain(statement=node)
                work = partial(explain_plan.explain, node=explain)
                parameters, letters = bound_values(parameters)
                return list(self.transactions.look(work, parameters, letters).rows)
        except (ExuviaError, ValueError):
            return []

    def _answer(self, result: Result) -> Result:
        if result.warnings and not self.settings.notes:
            result.warnings = [note for note in result.warnings if note.level != "Note"]
        self.warnings = result.warnings
        if result.columns:
            counted = result.found_rows
            self.found_rows = len(result.rows) if counted is None else counted
            self.row_count = -1
        else:
            self.row_count = result.affected
        if result.last_insert_id:
            self.last_insert_id = result.last_insert_id
            if self.settings.forced_id:
                self.settings.set_session("insert_id", 0)
        return result

    def _note(self, error: Refused) -> Refused:
        self.row_count = -1
        error = placed(error, self.statement)
        self.warnings = notes_of(error)
        return error

    # -- its transaction ---------------------------------------------------------------------------

    @property
    def current(self) -> OpenTransaction | None:
        return self.transactions.current

    def begin(
        self,
        read_only: bool | None = None,
        pessimistic: bool | None = None,
        time: ReadTime | None = None,
    ) -> OpenTransaction:
        """Open a transaction; see TransactionRunner.begin."""
        return self.transactions.begin(read_only, pessimistic, time)

    def commit(self) -> None:
        """Commit the open transaction, if any; see TransactionRunner.commit."""
        self.transactions.commit()

    def rollback(self) -> None:
        """Undo the open transaction, if any."""
        self.transactions.rollback()

    def set_next_transaction(
        self, *, isolation: str | None = None, read_only: bool | None = None
    ) -> None:
        """Sets the characteristics of only the next transaction (SET TRANSACTION)."""
        self.transactions.set_next(isolation, read_only)

    def forget_next_transaction(self) -> None:
        """Gives the next transaction the session's characteristics."""
        self.transactions.forget_next()

    def temporary_tables(self) -> TemporaryTables:
        """The temporary tables; created if needed, then all statements see them."""
        if self.temporary is None:
            size = "tidb_tmp_table_max_size"
            self.temporary = TemporaryTables(self.services, lambda: int(self.settings.get(size)))
            self.services = self.temporary.services
            if self.current is not None:
                self.current.adopt(self.services, self.temporary.store)
        return self.temporary

    def admit_change(self, txn: Transaction) -> None:
        """Admits a schema change or a change of accounts to commit; see TransactionRunner.admit."""
        self.transactions.admit(txn, True)

    def settle_temporary(self) -> None:
        """Drops the overlay for temporary tables once it is empty and no transaction reads it."""
        if self.temporary is not None and not len(self.temporary) and self.current is None:
            self.services, self.temporary = self.temporary.base, None

    # -- for the server ---------------------------------------------------------------------------

    def course(self, statement: str | Ready) -> Course:
        """Where the server runs a statement.

        Short reads never block, short writes block only on a commit. On a remote store, see
        `_far_course`."""
        if self.reads_at is not None:
            return Course.POOL
        text = statement if isinstance(statement, str) else statement.text
        head = text[:9].lstrip().upper()
        if not self.services.store.near:
            return self._far_course(statement, text, head)
        current = self.transactions.current
        reads = head.startswith("SELECT")
        if reads or head.startswith(_WRITES):
            if not self._is_short(statement, MOST_LOOKED_AT if reads else MANY_ROWS):
                return Course.POOL
            return Course.AT_ONCE if reads else Course.ASIDE
        if head.startswith("ROLLBACK"):
            is_short = len(self.transactions.locker.keys) <= SHORT
            return Course.AT_ONCE if is_short else Course.POOL
        if head.startswith(("COMMIT", "BEGIN", "START")):
            if current is None or not current.writes:
                return Course.AT_ONCE
            # an optimistic one waits for locks
            is_short = current.pessimistic and current.txn.write_count <= MOST_ASIDE
            return Course.ASIDE if is_short else Course.POOL
        return Course.POOL

    def _far_course(self, statement: str | Ready, text: str, head: str) -> Course:
        """As `course`, on a remote store.

        Single reads of a few rows step aside until the answer. BEGIN, COMMIT and ROLLBACK need no
        answer if the transaction has neither written nor locked. All others may block."""
        transactions = self.transactions
        current, locker = transactions.current, transactions.locker
        if head.startswith("SELECT"):
            is_alone = current is None and self.settings.autocommit and not transactions.is_next_set
            is_short = is_alone and self._is_short(statement, MOST_LOOKED_AT, few=True)
            return Course.ASIDE if is_short else Course.POOL
        if len(text) > LONGEST_END or text.rstrip("; ").upper() not in _BRIEF:
            return Course.POOL
        has_locks = bool(locker.keys) or locker.holder is not None
        wrote = current is not None and (current.wrote or current.writes)
        return Course.POOL if has_locks or wrote else Course.ASIDE

    def _is_short(self, statement: str | Ready, most: int, few: bool = False) -> bool:
        """Whether the statement has a cached plan that is short; `few`: that reads few rows.

        Texts of `most` characters count as long: to compute the shape would cost as much as to run
        them."""
        if not isinstance(statement, str):
            plan = statement.plan
        elif len(statement) >= most:
            return False
        else:
            if self.settings.grammar is not None:
                statement = self.settings.grammar.canonical(statement)
            shaped = self._look_up(statement)
            plan = None if shaped is None else shaped.cached
        return isinstance(plan, KeptPlan) and plan.short and (plan.reads_few or not few)

    def reap(self, now: float, idle_s: float) -> bool:
        """Ends the transaction of a client that was idle for more than `idle_s`. Any thread."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            if self.current is None or now - self._active_s <= idle_s:
                return False
            if self.current.txn.is_unread:
                return False  # it pins no snapshot
            self.rollback()
            idle = f"idle for more than {idle_s:g} s; the transaction was rolled back"
            self._ended = ErrSnapshotTooOld(idle)
            return True
        finally:
            self._turn.release()

    def end_transaction(self, token: tuple[int, int], error: Refused) -> None:
        """Rolls the transaction back, if it is still open. Any thread.

        The next statement raises the error. A running statement is interrupted, and the
        transaction ends after it."""
        if self._turn.acquire(blocking=False):
            try:
                self._end_current(token, error)
            finally:
                self._turn.release()
        elif self.services.locks.is_held(token):
            self._ending = token, error
            if self._interruption.reason is None:
                self.client_is_gone = False
            self._interruption.end(error)
            self._wake()

    def _end_current(self, token: tuple[int, int], error: Refused) -> None:
        self._ending = None
        if self.current is not None and self.current.token == token:
            self.rollback()
            self._ended = error

    @property
    def is_idle(self) -> bool:
        """Whether it has no transaction, no named lock, and no error to report."""
        holds_something = self.current is not None or self.named_locks.holder.keys
        return not holds_something and self._ended is None

    def begin_command(self) -> None:
        """Marks that the wire has read a command.

        An interruption from now on is for this command, also before its first statement and
        between its statements. Clears an interruption of the previous command."""
        self._commanded = True
        self.changed_schema = False
        self._interruption.clear()

    def interrupt(self, lost: bool = False) -> None:
        """Interrupts the running statement with 1317. Any thread.

        `lost`: the client has gone or the node stops, so that this is no KILL."""
        if self._interruption.reason is None:
            self.client_is_gone = lost
        self._interruption.end(ErrQueryInterrupted())
        self._wake()

    def end_statement(self, error: Refused) -> None:
        """Interrupts the running statement with that error. Any thread."""
        self._interruption.end(error)
        self._wake()

    def _wake(self) -> None:
        """Wakes waiting threads, which then check for the interruption."""
        self.transactions.locker.wake()
        self.named_locks.holder.wake()

    def close(self) -> None:
        """Rolls back after the client has gone."""
        self.user_variables.clear()  # the session itself is collected later, as part of a cycle
        self.rollback()
        self.named_locks.release_all()

    # -- account and rights -----------------------------------------------------------------------

    def enter_as(self, account: Account | None) -> None:
        """Sets the account of the login and its active roles.

        The caller sets `must_change_password`."""
        self.account, accounts = account, self.services.accounts
        if account is None or accounts is None:
            return
        roles = accounts.book.roles
        everyone = self.settings.at_start("activate_all_roles_on_login") == "ON"
        choose = roles.granted if everyone else roles.defaults_of
        self.active_roles = choose(account[:2])
        self.resource_group = account.attributes.resource_group or DEFAULT_GROUP

    @property
    def rights(self) -> Rights:
        """The privileges of the account; a dropped account has no privileges."""
        accounts = self.services.accounts
        if accounts is None or self.account is None:
            return ALL
        version_and_roles = accounts.version, self.active_roles
        if self._rights_of != version_and_roles:
            self._rights_of, book = version_and_roles, accounts.book
            account = book.account(self.account.user, self.account.host)
            nothing = Rights(frozenset(), account=self.account_name)
            self._rights = nothing if account is None else book.rights(account, self.active_roles)
        return self._rights

    @property
    def account_name(self) -> tuple[str, str]:
        """User and host of the account, as in CURRENT_USER()."""
        if self.account is None:
            return self.user, "%"
        return self.account.user, self.account.host

    @property
    def current_role(self) -> str:
        accounts = self.services.accounts
        if accounts is None or not self.active_roles:
            return "NONE"
        granted = accounts.book.roles.granted(self.account_name)
        return ",".join(role_text(role) for role in self.active_roles if role in granted) or "NONE"

    # -- for statements ---------------------------------------------------------------------------

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of TIMESTAMPs; None is UTC."""
        return self.settings.zone

    def check_interrupt(self) -> None:
        """Raises 1317 after `interrupt` was called in this statement, 3024 at its time limit."""
        self._interruption.check()

    def ask_for_file(self, path: str) -> Iterator[bytes]:
        """The content of a file of the client, in chunks. Raises 3948."""
        if self.local_file is None or self.settings.get("local_infile") != "ON":
            raise ErrClientLocalFilesDisabled()
        return self.local_file(path)

    def texts(self) -> dict[str, str]:
        """The session's values of all system variables."""
        values = self.settings.texts()
        return values | {name: self.variable(name) for name in _OF_THE_SESSION if name in values}

    def variable(self, name: str) -> str:
        """The value of a system variable. Raises 1193."""
        if name in ("warning_count", "error_count"):
            return str(sum(n.level == "Error" or name[0] == "w" for n in self.warnings))
        if name in ("identity", "last_insert_id"):
            return str(self.last_insert_id)
        if name == "last_plan_from_binding":
            return "ON" if self.settings.bindings.used & 1 else "OFF"
        text = self.settings.get(name)
        if text == "0" and name == "timestamp":
            return f"{self.services.clock.wall_ns() // 1_000 / 1e6:.6f}"
        return text

    def global_variable(self, name: str) -> str:
        """The latest global value of a system variable. Raises 1193."""
        return self.settings.read_global(name)

    def user_variable(self, name: str) -> tuple[Value, FieldType]:
        """The value and type of `@name`."""
        return self.user_variables.get(name.lower(), (None, NULL))

    def set_user_variable(self, name: str, value: Value, kind: FieldType) -> None:
        name = name.lower()
        before = self.user_variables.get(name)
        self.memory.base += memory.size_of(value)  # already claimed by this statement
        if before is not None:
            self.memory.base -= memory.size_of(before[0])
        self.user_variables[name] = variable_of(value, kind)

    def restore_variables(self, values: dict[str, tuple[Value, FieldType]]) -> None:
        """Gives all user variables earlier values."""
        self.user_variables = values
        self._measure_variables()

    def _measure_variables(self) -> None:
        """Computes the variables' size again: a failed statement has restored their values."""
        self.memory.base = sum(memory.size_of(value) for value, _ in self.user_variables.values())

    def _quota(self) -> int:
        """The bytes that a statement and the user variables may use together."""
        return memory.quota_of(self.variable)

    def virtual(self, context: Context, database: str, name: str) -> VirtualTable | None:
        """A table of information_schema or performance_schema, a computed one of mysql, or None."""
        if database.lower() == "mysql":
            return registry.system_view(context, name)
        if database.lower() == "performance_schema":
            return registry.performance_table(context, name)
        if database.lower() != "information_schema":
            return None
        return registry.table(context, name)
