"""A prepared statement: parsed once, planned for the types of its parameters."""

from collections.abc import Sequence
from functools import partial

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrBadField,
    ErrMaxPreparedStmtCountReached,
    ErrNoDB,
    ErrNoSuchTable,
    ErrParse,
    ErrUnsupportedPs,
    ErrWrongArguments,
)
from exuvia.base.types import Value
from exuvia.sql import planner
from exuvia.sql.nodes import (
    DeallocateStatement,
    ExecuteStatement,
    LoadData,
    NonTransactionalDml,
    PrepareStatement,
    Statement,
    Use,
)
from exuvia.sql.parse.literals import bound_values, number_placeholders
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.parse.text import parse
from exuvia.sql.result import OutputColumn, Result
from exuvia.sql.session.set_variables import hinted, hints_of
from exuvia.sql.statement.context import Context, SessionApi
from exuvia.sql.statement.plan_cache import ShapedStatement, StatementShape


class Prepared:
    """A parsed statement. `columns` are its result columns, () for a statement without rows."""

    def __init__(self, text: str, node: Statement, parameters: int, database: str) -> None:
        self.text = text
        self.node = node
        self.parameters = parameters
        self.columns: Sequence[OutputColumn] = ()
        self._plan: object = None
        self._set_var_hints = hints_of(text)
        self._database = database
        self._shape = StatementShape(text, "")

    @property
    def plan(self) -> object:
        """The plan of its last run: a KeptPlan, or another value before the first run."""
        return self._plan

    def run(self, session: SessionApi, values: Sequence[Value], letters: str = "") -> Result:
        """Executes with values for the `?`, in the database that was current at PREPARE.

        Without `letters` the values are those bound by a driver. Raises 1210."""
        if len(values) != self.parameters:
            raise ErrWrongArguments("EXECUTE")
        if not letters:
            values, letters = bound_values(values)
        if self._database == session.database or isinstance(self.node, Use):
            return self._run_hinted(session, values, letters)
        current, session.database = session.database, self._database
        try:
            return self._run_hinted(session, values, letters)
        finally:
            session.database = current

    def _run_hinted(self, session: SessionApi, values: Sequence[Value], letters: str) -> Result:
        if not self._set_var_hints:
            return self._run_limited(session, values, letters)
        work = partial(self._run_limited, session, values, letters)
        return hinted(session.settings, self._set_var_hints, work)

    def _run_limited(self, session: SessionApi, values: Sequence[Value], letters: str) -> Result:
        if not session.settings.max_execution_s:
            return self._run(session, values, letters)
        with session.limited(self.text):
            return self._run(session, values, letters)

    def _run(self, session: SessionApi, values: Sequence[Value], letters: str) -> Result:
        shape, find = self._shape, session.services.plans.find
        if shape.letters != letters:
            shape = self._shape = StatementShape(self.text, letters)
        shaped = ShapedStatement(shape, values, find(shape, session, values))
        result = session.run_shape(shaped, self.node)
        if result is None:
            return session.run_statement(self.node, self.text, values, letters)
        self._plan = shaped.cached or find(shape, session, values)
        return result


_NEVER_PREPARED = (
    NonTransactionalDml,
    DeallocateStatement,
    ExecuteStatement,
    LoadData,
    PrepareStatement,
)


def parsed(text: str, database: str) -> Prepared:
    """Parses a statement for execution with parameters in that database.

    Raises 1064 for several statements, 1295."""
    statements = parse(text)
    if len(statements) != 1:
        raise Misplaced(";")
    (node,) = statements
    if isinstance(node, _NEVER_PREPARED):
        raise ErrUnsupportedPs()
    return Prepared(text.strip(" \n\t\r;"), node, number_placeholders(node), database)


def describe(session: SessionApi, text: str) -> Prepared:
    """Parses a statement; plans a query, with NULL for each `?`, for its columns. Raises 1461."""
    grammar = session.settings.grammar
    text = text if grammar is None else grammar.canonical(text)
    prepared = parsed(text, session.database)
    open_statements = session.services.prepared
    most = int(session.settings.get("max_prepared_stmt_count"))
    if 0 <= most <= len(open_statements):
        raise ErrMaxPreparedStmtCountReached(most)
    if isinstance(prepared.node, exp.Query):
        prepared.columns = _columns(session, prepared.node, prepared.parameters)
    open_statements.add(prepared)
    return prepared


def _columns(session: SessionApi, node: exp.Query, count: int) -> Sequence[OutputColumn]:
    plan_columns: list[Sequence[OutputColumn]] = []

    def work(context: Context) -> Result:
        plan_columns.append(planner.plan(node, context).columns)
        return Result()

    try:
        session.run(work, [None] * count, "n" * count)
    except Refused as error:
        if error.code in (
            ErrNoDB.code,
            ErrBadDB.code,
            ErrBadField.code,
            ErrParse.code,
            ErrNoSuchTable.code,
        ):
            raise
        return ()
    return plan_columns[0]
