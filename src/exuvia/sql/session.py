"""A session: one client's statements, in its open transaction or each in its own.

    execute(text) --shape--> a cached plan ------------------> run in a transaction --> Result
                  `--parse--> a read or write -> its plan ------^
                         `--> anything else -> its handler (dispatch.py)

A statement alone is run again when it lost a race, a bounded number of times. Inside BEGIN ...
COMMIT its failure undoes that statement only; a lost race is told to the client at COMMIT
(transactions.py).
"""

import threading
from collections.abc import Callable, Sequence
from itertools import count

from exuvia.base.errors import Conflict, Duplicate, Refused, Unavailable
from exuvia.base.mysql import refuse
from exuvia.base.types import FieldType
from exuvia.sql import information_schema, planner
from exuvia.sql.context import Context, Virtual
from exuvia.sql.dispatch import BESIDE, INSIDE
from exuvia.sql.literals import letters_of, shape_of
from exuvia.sql.nodes_session import Statement
from exuvia.sql.parse import parse
from exuvia.sql.placeholders import number_placeholders
from exuvia.sql.plan_cache import REFUSED
from exuvia.sql.planner import NOT_KEPT
from exuvia.sql.plans import KeptPlan
from exuvia.sql.prepared import Prepared, describe
from exuvia.sql.result import NULL, Note, Result, Value
from exuvia.sql.running import Ready
from exuvia.sql.services import Services
from exuvia.sql.settings import Settings
from exuvia.sql.transactions import OpenTransaction, lost

ATTEMPTS = 64
Work = Callable[[Context], Result]
_serial = count(1)


class Session:
    """Not thread-safe; one statement at a time. `close` ends its transaction."""

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
        self.last_insert_id = 0
        self.found_rows = 0
        self.row_count = -1
        self.warnings: Sequence[Note] = ()
        self.statement = ""
        self.settings = Settings(services)
        self.prepared: dict[str, Ready] = {}
        self.current: OpenTransaction | None = None
        self._user_variables: dict[str, tuple[Value, FieldType]] = {}
        self._ended = ""
        self._turn = threading.Lock()
        self._interrupted = False
        self._active_s = services.clock.monotonic()

    # -- statements ----------------------------------------------------------------------------------

    def execute(
        self, text: str, parameters: Sequence[Value] | None = None
    ) -> Result | list[Result]:
        """Run a text: a Result, or a list of them when it holds several statements.

        Raises Refused, and what the store raises when it is unavailable."""
        with self._turn:
            self._begin_statement(text)
            try:
                return self._execute(text, parameters)
            except Refused as error:
                self.row_count = -1
                self.warnings = (Note("Error", error.code, error.message),)
                raise

    def _begin_statement(self, text: str) -> None:
        self.statement = text
        self._interrupted = False
        now = self.services.clock.monotonic()
        self._active_s = now
        if not self.services.member.serving(now):
            raise refuse(8027)
        if self._ended:
            reason, self._ended = self._ended, ""
            raise refuse(8055, reason)

    def _execute(self, text: str, parameters: Sequence[Value] | None) -> Result | list[Result]:
        shaped = shape_of(text) if parameters is None else None
        if shaped is not None:
            found = self.run_shape(*shaped)
            if found is not None:
                return found
        statements = parse(text)
        if not statements:
            raise refuse(1065)
        if "?" in text and sum(map(number_placeholders, statements)) != len(parameters or ()):
            raise Refused(1210, "HY000", "Incorrect arguments to EXECUTE")
        results = [self.run_statement(node, text, parameters or ()) for node in statements]
        return results[0] if len(results) == 1 else results

    def run_shape(
        self, shape: str, values: Sequence[Value], letters: str, node: Statement | None = None
    ) -> Result | None:
        """The answer through a kept plan; None when this text must be planned by itself.

        `node` is the parsed shape, where the caller has it."""
        key = (self.settings.flavour(self.database), shape, letters)
        kept = self.services.plans.find(key)
        if kept is REFUSED:
            return None

        def work(context: Context) -> Result:
            if isinstance(kept, KeptPlan) and kept.fresh(context):
                return kept.run(context)
            plan = planner.plan_shape(key, node, context)
            return NOT_KEPT if plan is None else plan.run(context)

        result = self.run(work, values, letters)
        return None if result is NOT_KEPT else result

    def run_statement(self, node: Statement, text: str, parameters: Sequence[Value] = ()) -> Result:
        """Run one parsed statement."""
        beside = BESIDE.get(type(node))
        if beside is not None:
            return self._answer(beside(self, node, text))
        inside = INSIDE.get(type(node))
        letters = letters_of(parameters)
        if inside is not None:
            return self.run(lambda context: inside(context, node), parameters, letters)
        return self.run(
            lambda context: planner.plan(node, context).run(context), parameters, letters
        )

    # -- transactions --------------------------------------------------------------------------------

    def run(self, work: Work, parameters: Sequence[Value] = (), letters: str = "") -> Result:
        """Run work in the open transaction, or in one of its own.

        Notes what clients can ask for later."""
        current = self.current
        if current is None and not self.settings.autocommit:
            current = self.begin()
        if current is None:
            result = self._alone(work, parameters, letters)
        else:
            result = self._within(current, work, parameters, letters)
        return result if result is NOT_KEPT else self._answer(result)

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

    def _context(
        self, open_: OpenTransaction, parameters: Sequence[Value], letters: str
    ) -> Context:
        return Context(
            self, self.services.schemas, open_.txn, None, parameters, letters, open_.writing
        )

    def _alone(self, work: Work, parameters: Sequence[Value], letters: str) -> Result:
        """Autocommit: again on a fresh snapshot while others win the race."""
        failure: Exception | None = None
        for attempt in range(ATTEMPTS):
            open_ = self._open(explicit=False)
            try:
                context = self._context(open_, parameters, letters)
                result = work(context)
                if context.warnings:
                    result.warnings = context.warnings
                failure = _commit_alone(open_)
            except Conflict as conflict:
                failure = lost(conflict)
            finally:
                open_.close()
            if failure is None:
                return result
            self.services.pause(attempt)
        raise failure or refuse(1213)

    def _within(
        self, current: OpenTransaction, work: Work, parameters: Sequence[Value], letters: str
    ) -> Result:
        """Inside a transaction: a failure undoes this statement.

        A lost race or snapshot undoes all."""
        current.about = self.statement
        mark = current.txn.mark()
        context = self._context(current, parameters, letters)
        try:
            result = work(context)
        except Conflict as conflict:
            self.rollback()
            raise lost(conflict) from None
        except Unavailable:
            self.rollback()
            raise
        except Refused:
            current.txn.back_to(mark)
            raise
        if context.warnings:
            result.warnings = context.warnings
        return result

    def _open(self, explicit: bool, read_only: bool = False) -> OpenTransaction:
        token = (self.connection_id, next(_serial))
        open_ = OpenTransaction(
            self.services, token, explicit, read_only, self.settings.metadata_lock
        )
        open_.about = self.statement
        return open_

    def begin(self, read_only: bool = False) -> OpenTransaction:
        """Open a transaction; one that is open is committed first."""
        self.commit()
        self.current = self._open(explicit=True, read_only=read_only)
        return self.current

    def commit(self) -> None:
        """Commit the open transaction, if any.

        Raises 1213, 1412, 8028, 1062, 8027: all is undone then."""
        current, self.current = self.current, None
        if current is not None:
            current.commit_for_client()

    def rollback(self) -> None:
        """Undo the open transaction, if any."""
        current, self.current = self.current, None
        if current is not None:
            current.close()

    def reap(self, now: float, idle_s: float) -> bool:
        """End a transaction whose client has been silent for so long.

        Called by the node, any thread."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            if self.current is None or now - self._active_s <= idle_s:
                return False
            self.rollback()
            self._ended = f"idle for more than {idle_s:g} s; the transaction was rolled back"
            return True
        finally:
            self._turn.release()

    def interrupt(self) -> None:
        """End what runs now with 1317; any thread."""
        self._interrupted = True

    def check_interrupt(self) -> None:
        """Raises 1317 once `interrupt` was called during this statement."""
        if self._interrupted:
            raise refuse(1317)

    def close(self) -> None:
        """The client is gone: its transaction is undone."""
        self.rollback()

    # -- what the node asks --------------------------------------------------------------------------

    def quick(self, statement: str | Prepared) -> bool:
        """Whether executing it blocks on nothing: no commit, no schema change, no long scan."""
        text = statement if isinstance(statement, str) else statement.text
        head = text[:9].lstrip().upper()
        if head.startswith("SELECT") or (self.current is not None and head.startswith(_WRITES)):
            return self._short(statement)
        if head.startswith("ROLLBACK"):
            return True
        if head.startswith(("COMMIT", "BEGIN", "START")):
            return self.current is None or not self.current.writes
        return False

    def _short(self, statement: str | Prepared) -> bool:
        if isinstance(statement, Prepared):
            return statement.short
        shaped = shape_of(statement)
        if shaped is None:
            return False
        key = (self.settings.flavour(self.database), shaped[0], shaped[2])
        plan = self.services.plans.find(key)
        return isinstance(plan, KeptPlan) and plan.short

    def prepare(self, text: str) -> Prepared:
        """Parse a statement with `?`; tells how many, and the columns it will answer with."""
        with self._turn:
            self._begin_statement(text)
            return describe(self, text)

    def execute_prepared(self, prepared: Prepared, parameters: Sequence[Value]) -> Result:
        """Run a prepared statement."""
        with self._turn:
            self._begin_statement(prepared.text)
            return prepared.run(self, parameters)

    # -- what statements ask -------------------------------------------------------------------------

    def variable(self, name: str) -> str:
        """Text of a system variable. Raises 1193."""
        return self.settings.get(name)

    def texts(self) -> dict[str, str]:
        """Every system variable as this session sees it."""
        return self.settings.texts()

    def user_variable(self, name: str) -> tuple[Value, FieldType]:
        """Value and type of `@name`."""
        return self._user_variables.get(name.lower(), (None, NULL))

    def set_user_variable(self, name: str, value: Value, kind: FieldType) -> None:
        """Set `@name`."""
        self._user_variables[name.lower()] = (value, kind)

    def virtual(self, context: Context, database: str, name: str) -> Virtual | None:
        """A table of information_schema, or None."""
        if database.lower() != "information_schema":
            return None
        return information_schema.table(context, name)


_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")


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
