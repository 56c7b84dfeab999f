"""A session: one client's statements, in its open transaction or each in its own.

    execute(text) --shape--> a kept plan --------------------> run in a transaction --> Result
                  `--parse--> a read or write -> its plan ------^
                         `--> anything else -> its handler (session/dispatch.py)

Plans see the snapshot they run in and nothing else; a session holds what outlives a statement.
"""

import re
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from exuvia.base.errors import Refused
from exuvia.base.interruption import Interruption, running
from exuvia.base.mysql_errors import (
    ErrInfoSchemaExpired,
    ErrMaxExecTimeExceeded,
    ErrQueryInterrupted,
    ErrSnapshotTooOld,
)
from exuvia.cluster.row_locks import SHORT
from exuvia.sql.context import Context, Virtual
from exuvia.sql.information_schema import registry
from exuvia.sql.nodes.session import Statement
from exuvia.sql.parse.literals import letters_of, shape_of
from exuvia.sql.parse.near import Misplaced, placed
from exuvia.sql.parse.placeholders import number_placeholders
from exuvia.sql.parse.text import parse
from exuvia.sql.privileges import guard
from exuvia.sql.result import Note, Result, Value, notes_of
from exuvia.sql.session import planner
from exuvia.sql.session.dispatch import BESIDE, INSIDE
from exuvia.sql.session.identity import Identity
from exuvia.sql.session.locking import StatementLocks
from exuvia.sql.session.named_locks import NamedLocks
from exuvia.sql.session.plan_cache import REFUSED
from exuvia.sql.session.planner import NOT_KEPT
from exuvia.sql.session.plans import KeptPlan
from exuvia.sql.session.prepared import Prepared, describe, parsed
from exuvia.sql.session.running import Ready
from exuvia.sql.session.services import Services
from exuvia.sql.session.set_var import hinted, wanted_by
from exuvia.sql.session.transacting import Transacting, Work
from exuvia.sql.session.transactions import OpenTransaction

Shaped = tuple[str, list[Value], str]
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
_QUERY = re.compile(r"[\s(]*(?:/\*.*?\*/[\s(]*)*(?:SELECT|WITH|TABLE|VALUES)\b", re.I | re.S)


class Session(Transacting, Identity):
    """One statement at a time. `close` ends its transaction."""

    def __init__(
        self,
        services: Services,
        connection_id: int = 1,
        user: str = "root",
        host: str = "localhost",
        database: str = "",
        client_found_rows: bool = False,
    ) -> None:
        super().__init__(services, connection_id)
        self.user = user
        self.host = host
        self.database = database
        self.client_found_rows = client_found_rows
        self.last_insert_id = 0
        self.named_locks = NamedLocks(services.named_locks, connection_id, self.check_interrupt)
        self.sequence_values: dict[int, int] = {}  # LASTVAL by the sequence's id
        self.found_rows = 0
        self.row_count = -1
        self.warnings: Sequence[Note] = ()
        self.prepared: dict[str, Ready] = {}
        self._shaped: tuple[str, Shaped | None] = ("", None)
        self._ended = ""
        self._turn = threading.Lock()
        self._interruption = Interruption()
        self.client_is_gone = False
        self._active_s = services.clock.monotonic()

    # -- statements --------------------------------------------------------------------------------

    def execute(
        self, text: str, parameters: Sequence[Value] | None = None
    ) -> Result | list[Result]:
        """Run a text: a Result, or a list of them when it holds several statements.

        Raises Refused, and what the store raises when it is unavailable."""
        with self._turn, running(self._interruption):
            try:
                self._begin_statement(text)
                if parameters is not None:
                    with self._limited(text):
                        return parsed(text).run(self, parameters)
                return self._execute(text)
            except Refused as error:
                raise self._note(error) from error.__cause__

    def _limited(self, text: str) -> AbstractContextManager[None]:
        """Ends a query after max_execution_time (3024)."""
        limit_ms = self.settings.get("max_execution_time")
        if limit_ms == "0" or not _QUERY.match(text):
            return nullcontext()
        return self._interruption.after(int(limit_ms) / 1000, ErrMaxExecTimeExceeded(), self._wake)

    def _begin_statement(self, text: str) -> None:
        self.statement = text
        self._interruption.clear()
        now = self.services.clock.monotonic()
        self._active_s = now
        if not self.services.member.serving(now):
            self.rollback()  # as after 1213: the client begins its transaction anew
            raise ErrInfoSchemaExpired()
        if self._ended:
            reason, self._ended = self._ended, ""
            raise ErrSnapshotTooOld(reason)

    def _note(self, error: Refused) -> Refused:
        self.row_count = -1
        error = placed(error, self.statement)
        self.warnings = notes_of(error)
        return error

    def _execute(self, text: str) -> Result | list[Result]:
        found = hinted(self.settings, wanted_by(text), lambda: self._run_limited(text))
        return self._answer(found) if isinstance(found, Result) else found

    def _run_limited(self, text: str) -> Result | list[Result]:
        with self._limited(text):
            return self._run_text(text)

    def _run_text(self, text: str) -> Result | list[Result]:
        shaped = self._shape(text)
        if shaped is not None:
            found = self.run_shape(*shaped)
            if found is not None:
                return found
        statements = parse(text)
        if "?" in text and any(map(number_placeholders, statements)):
            raise Misplaced("?")
        results = [self.run_statement(node, text) for node in statements]
        return results[0] if len(results) == 1 else results

    def _shape(self, text: str) -> Shaped | None:
        """The text's shape; `quick` has just asked for the same."""
        last, shaped = self._shaped
        if last is not text:
            shaped = shape_of(text)
            self._shaped = (text, shaped)
        return shaped

    def run_shape(
        self, shape: str, values: Sequence[Value], letters: str, node: Statement | None = None
    ) -> Result | None:
        """The answer through a kept plan; None when this text must be planned by itself.

        `node` is the parsed shape, where the caller has it."""
        key = (self.settings.flavour(self.database), shape, letters)
        kept = self.services.plans.find(key)
        if kept is REFUSED or self.rights.by_columns:
            return None
        if isinstance(kept, KeptPlan):
            locking, node = kept.locks, node or kept.tree
        else:
            node = node or planner.tree_of_shape(shape)
            locking = planner.locks_rows(node)

        def work(context: Context) -> Result:
            if isinstance(kept, KeptPlan) and kept.fresh(context):
                kept.check(context)
                return kept.run(context)
            plan = planner.plan_shape(key, node, context)
            if plan is None:
                return NOT_KEPT
            plan.check(context)
            return plan.run(context)

        result = self.transact(work, values, letters, locking)
        return None if result is NOT_KEPT else self._answer(result)

    def run_statement(self, node: Statement, text: str, parameters: Sequence[Value] = ()) -> Result:
        """Run one parsed statement."""
        guard.check(self, node)
        letters = letters_of(parameters)
        beside = BESIDE.get(type(node))
        if beside is not None:
            outer, self._bound = self._bound, (parameters, letters)
            try:
                return self._answer(beside(self, node, text))
            finally:
                self._bound = outer
        inside = INSIDE.get(type(node))
        if inside is not None:
            return self.run(lambda context: inside(context, node), parameters, letters)
        return self.run(
            lambda context: planner.plan(node, context).run(context),
            parameters,
            letters,
            planner.locks_rows(node),
        )

    def run(
        self,
        work: Work,
        parameters: Sequence[Value] = (),
        letters: str = "",
        locking: bool = False,
    ) -> Result:
        """Run work in a transaction; notes what clients can ask for later. Work of a statement that
        is about the session itself has the values that were bound to that."""
        if not parameters:
            parameters, letters = self._bound
        return self._answer(self.transact(work, parameters, letters, locking))

    # -- what the node asks ------------------------------------------------------------------------

    def quick(self, statement: str | Prepared) -> bool:
        """Whether executing it blocks on nothing: no commit, no schema change, no long scan."""
        text = statement if isinstance(statement, str) else statement.text
        head = text[:9].lstrip().upper()
        if head.startswith("SELECT") or (self.current is not None and head.startswith(_WRITES)):
            return self._short(statement)
        if head.startswith("ROLLBACK"):
            return len(self.locker.keys) <= SHORT
        if head.startswith(("COMMIT", "BEGIN", "START")):
            return self.current is None or not self.current.writes
        return False

    def _short(self, statement: str | Prepared) -> bool:
        if isinstance(statement, Prepared):
            return statement.short
        shaped = self._shape(statement)
        if shaped is None:
            return False
        key = (self.settings.flavour(self.database), shaped[0], shaped[2])
        plan = self.services.plans.find(key)
        return isinstance(plan, KeptPlan) and plan.short

    def prepare(self, text: str) -> Prepared:
        """Parse a statement with `?`; tells how many, and the columns it will answer with."""
        with self._turn, running(self._interruption):
            try:
                self._begin_statement(text)
                return describe(self, text)
            except Refused as error:
                raise self._note(error) from error.__cause__

    def execute_prepared(self, prepared: Prepared, parameters: Sequence[Value]) -> Result:
        """Run a prepared statement."""
        with self._turn, running(self._interruption):
            try:
                self._begin_statement(prepared.text)
                with self._limited(prepared.text):
                    return prepared.run(self, parameters)
            except Refused as error:
                raise self._note(error) from error.__cause__

    def reap(self, now: float, idle_s: float) -> bool:
        """End a transaction whose client has been silent for so long. Any thread."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            if self.current is None or now - self._active_s <= idle_s:
                return False
            if self.current.txn.is_unread:
                return False  # it keeps nothing
            self.rollback()
            self._ended = f"idle for more than {idle_s:g} s; the transaction was rolled back"
            return True
        finally:
            self._turn.release()

    def interrupt(self, lost: bool = False) -> None:
        """End what runs now with 1317. Any thread. `lost`: its client has gone, nobody kills it."""
        if self._interruption.reason is None:
            self.client_is_gone = lost
        self._interruption.end(ErrQueryInterrupted())
        self._wake()

    def _wake(self) -> None:
        """What waits looks again whether it is to end."""
        self.locker.wake()
        self.named_locks.holder.wake()

    def close(self) -> None:
        """The client is gone: its transaction is undone."""
        self.rollback()
        self.named_locks.release_all()

    # -- what statements ask -----------------------------------------------------------------------

    def context_in(
        self,
        open_: OpenTransaction,
        parameters: Sequence[Value],
        letters: str,
        locks: StatementLocks | None = None,
    ) -> Context:
        """What a statement sees of that transaction."""
        schemas = self.services.schemas
        context = Context(
            self,
            schemas,
            open_.txn,
            None,
            parameters,
            letters,
            open_.writing,
            locks,
            open_.relying,
        )
        context.counted = open_.counted
        context.held = open_.names
        return context

    def check_interrupt(self) -> None:
        """Raises 1317 once `interrupt` was called in this statement, 3024 when its time is up."""
        self._interruption.check()

    def variable(self, name: str) -> str:
        """Text of a system variable. Raises 1193."""
        if name in ("warning_count", "error_count"):
            return str(sum(n.level == "Error" or name[0] == "w" for n in self.warnings))
        if name in ("identity", "last_insert_id"):
            return str(self.last_insert_id)
        return self.settings.get(name)

    def virtual(self, context: Context, database: str, name: str) -> Virtual | None:
        """A table of information_schema, or a computed one of mysql, or None."""
        if database.lower() == "mysql":
            return registry.system_view(context, name)
        if database.lower() == "performance_schema":
            return registry.performance_table(context, name)
        if database.lower() != "information_schema":
            return None
        return registry.table(context, name)
