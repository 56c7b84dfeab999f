"""Plans of statements: key access where one table is enough, else DuckDB.

exp.Select    read.plan           one table, by key or streamed       cached by shape
              relational.py       joins, views, grouping, unions, ...  the tree is cached
              LockedQuery         ... FOR UPDATE                      planned each time
Insert        insert.plan         VALUES                              cached; SELECT is not
Update        UpdateRows          one table                           cached
              UpdateFound         several tables, subqueries          cached
Delete        DeleteRows          one table                           cached
              DeleteFound         several tables, subqueries          cached
"""

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrBadField,
    ErrKeyDoesNotExist,
    ErrNoSuchTable,
    ErrNotSupportedYet,
    ErrTableaccessDenied,
    ErrViewInvalid,
)
from exuvia.sql import walks
from exuvia.sql.access.ranger import expressions_of
from exuvia.sql.bind.binding import Binding
from exuvia.sql.nodes import Delete, Insert, IntoFile, Statement, Update
from exuvia.sql.parse.literals import deciding_a_type, found_in, number_placeholders, position_of
from exuvia.sql.parse.text import parse
from exuvia.sql.result import Result
from exuvia.sql.select import read, relational
from exuvia.sql.select.found_rows import is_counted, page_of, without_limit
from exuvia.sql.select.into import IntoFilePlan, IntoVariables
from exuvia.sql.select.relational import LockedQuery
from exuvia.sql.statement.bindings import bound
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import KeptPlan, Plan
from exuvia.sql.statement.plan_cache import REFUSED, AsWritten, Refusal, ShapedStatement
from exuvia.sql.statement.settings import UNLIMITED
from exuvia.sql.write import insert
from exuvia.sql.write.update_delete import (
    DeleteFound,
    DeleteRows,
    UpdateFound,
    UpdateRows,
    needs_query,
)

NOT_KEPT = Result()
_LACKING = {
    error.code
    for error in (ErrBadDB, ErrBadField, ErrNoSuchTable, ErrKeyDoesNotExist, ErrViewInvalid)
}


def plan(node: Statement | exp.Query, context: Context, stored: bool = False) -> Plan:
    """The plan of a statement that reads or writes rows, with the hints of its plan binding.

    `stored`: a query returns TIMESTAMPs as stored, not in the session's zone. Raises Refused, 1235
    for unsupported statements."""
    statement_plan = _bound(node, context, stored) or _plan(node, context, stored)
    into = node.meta.get("into") if isinstance(node, exp.Query) else None
    if isinstance(into, IntoFile):
        return IntoFilePlan(statement_plan, into)
    return IntoVariables(statement_plan, into) if into else statement_plan


def answer(node: Statement | exp.Query, context: Context) -> Result:
    """Runs a client's statement that reads or writes rows."""
    node = with_select_limit(node, context.binding)
    if not isinstance(node, exp.Query) or not is_counted(node, context):
        return plan(node, context).run(context)
    return page_of(plan(without_limit(node), context).run(context), node, context)


def with_select_limit(node: Statement | exp.Query, binding: Binding) -> Statement | exp.Query:
    """A client's query with the LIMIT of sql_select_limit, unless it has a LIMIT."""
    if not isinstance(node, exp.Query) or "into" in node.meta:
        return node
    most = int(binding.variable("sql_select_limit"))
    if most >= UNLIMITED:
        return node
    assert isinstance(node, exp.Expression)
    inner = node
    while isinstance(inner, exp.Subquery) and not (inner.args.get("limit") or inner.alias):
        inner = inner.this
    if inner.args.get("limit") or inner.args.get("offset"):
        return node
    limited = walks.copy(node)
    limited.set("limit", exp.Limit(expression=exp.Literal.number(most)))
    return limited


def _bound(node: Statement | exp.Query, context: Context, stored: bool) -> Plan | None:
    """The plan with the hints of its binding, recorded in the session; None without a binding."""
    tree = _with_hints(node, context, context.binding)
    if tree is None:
        return None
    bound_plan = _plan(tree, context, stored)
    bound_plan.is_bound = True
    context.session.settings.bindings.note()
    return bound_plan


def _with_hints(
    node: Statement | exp.Query, context: Context, binding: Binding
) -> Statement | None:
    """The statement with the hints of its binding; None without one."""
    if not binding.baselines:
        return None
    session = context.session
    plan_binding = session.settings.bindings.find(node, binding.database, len(session.statement))
    return None if plan_binding is None else bound(node, plan_binding)


def _plan(node: Statement | exp.Query, context: Context, stored: bool = False) -> Plan:
    cacheable = _cacheable(node, context.binding, stored)
    if cacheable is not None:
        cacheable.check(context)
        return cacheable
    if isinstance(node, exp.Select) and node.args.get("locks"):
        return LockedQuery(node, context)
    if isinstance(node, exp.Query):
        assert isinstance(node, exp.Expression)
        return relational.plan(node, context, stored=stored)
    if isinstance(node, Insert):
        node, more = insert.with_selected(insert.with_numbers(node, context.binding), context)
        assert node.query is not None
        return insert.InsertQuery(node, _plan(node.query, context, stored=True), context, more)
    if isinstance(node, Update | Delete):
        found_plan = _plan_by_query(node, context.binding)
        found_plan.check(context)
        return found_plan
    raise ErrNotSupportedYet(type(node).__name__)


def _cacheable(
    node: Statement | exp.Query, binding: Binding, stored: bool = False
) -> KeptPlan | None:
    if isinstance(node, exp.Select):
        return read.plan(node, binding, stored)
    if isinstance(node, Insert):
        return insert.plan(node, binding)
    if isinstance(node, Update):
        return None if needs_query(node) else UpdateRows(node, binding)
    if isinstance(node, Delete):
        return None if needs_query(node) else DeleteRows(node, binding)
    return None


def _plan_by_query(node: Update | Delete, binding: Binding) -> UpdateFound | DeleteFound:
    return UpdateFound(node, binding) if isinstance(node, Update) else DeleteFound(node, binding)


def plan_shape(
    shaped: ShapedStatement, node: Statement | None, context: Context
) -> KeptPlan | None:
    """Plans a shape and caches the plan. None, and REFUSED in the cache, if literals are needed.

    Also None for an error: the statement is then planned by its text and raises it. An error is not
    cached, because a missing object may exist later."""
    shape, values, former = shaped
    session, numbers = context.session, frozenset[int]()
    plans = session.services.plans
    binding = context.binding_of_shape()
    cached: KeptPlan | AsWritten | Refusal = REFUSED
    try:
        kept_plan = former.renewed(context) if isinstance(former, KeptPlan) else None
        if kept_plan is not None:
            plans.replace(shape, session, values, kept_plan)
            return kept_plan
        statement = parse_shape(shape.text) if node is None else node
        numbers = frozenset() if statement is None else deciding(statement, shape.letters)
        is_bound = False
        if statement is not None and not (
            isinstance(statement, exp.Query) and _is_alone(statement)
        ):
            tree = _with_hints(statement, context, binding)
            is_bound = tree is not None
            limited = with_select_limit(tree or statement, binding)
            kept_plan = _cacheable(limited, binding)
            if kept_plan is None and isinstance(limited, exp.Query):
                kept_plan = relational.plan_of_shape(limited, context, binding)
            elif kept_plan is None and isinstance(limited, Update | Delete):
                found_plan = _plan_by_query(limited, binding)
                kept_plan = found_plan if found_plan.keep(context, binding) else None
        if (
            kept_plan is not None
            and not isinstance(statement, Insert)
            and any(map(expressions_of, kept_plan.tables))
        ):
            kept_plan = None  # a literal may be part of an indexed expression
        if kept_plan is not None:
            kept_plan.is_bound = is_bound
            kept_plan.repeats(binding.notes)
            cached = AsWritten(numbers) if numbers else kept_plan
    except Refused as error:
        if error.code == ErrTableaccessDenied.code:
            raise  # the error depends on the session's privileges
        if error.code in _LACKING:
            return None
        if numbers:  # `NOW(?)` is an error itself
            cached = AsWritten(numbers)
    kept_plan = cached if isinstance(cached, KeptPlan) else None
    lasting = kept_plan is not None and not kept_plan.by_statistics
    plans.put(shape, session, values, binding, cached, lasting)
    return kept_plan


def _is_alone(statement: exp.Query) -> bool:
    """Whether the query is planned each time: INTO, AS OF, or SQL_CALC_FOUND_ROWS."""
    queries = walks.find_all(statement, exp.Query)
    return (
        any("into" in query.meta or query.args.get("operation_modifiers") for query in queries)
        or walks.find(statement, exp.Version) is not None
    )


def plan_alike(shaped: ShapedStatement, context: Context) -> insert.InsertAlike | None:
    """As `plan_shape`, for rows that are inserted in the same way as the row of the shape."""
    shape, values, former = shaped
    session = context.session
    plans, binding = session.services.plans, context.binding_of_shape()
    insert_plan = None
    try:
        if isinstance(former, insert.InsertAlike):
            insert_plan = former.renewed(context)
            if insert_plan is not None:
                plans.replace(shape, session, values, insert_plan)
                return insert_plan
        if isinstance(node := parse_shape(shape.text), Insert):
            insert_plan = insert.plan_alike(node, binding)
    except Refused as error:
        if error.code == ErrTableaccessDenied.code:
            raise
        return (
            None  # planning its own text raises the right error; a missing object may exist later
        )
    if insert_plan is not None:
        insert_plan.repeats(binding.notes)
    plans.put(shape, session, values, binding, insert_plan or REFUSED, insert_plan is not None)
    return insert_plan


def tree_of_shape(shape: str) -> Statement | None:
    """As `parse_shape`; also None if the shape is not a valid statement."""
    try:
        return parse_shape(shape)
    except Refused:
        return None


def locks_rows(node: Statement | exp.Query | None) -> bool:
    """Whether a statement writes rows, or reads them FOR UPDATE."""
    if isinstance(node, exp.Query):
        return walks.find(node, exp.Lock) is not None
    return isinstance(node, Insert | Update | Delete)


def parse_shape(shape: str) -> Statement | None:
    """The statement of a shape, or None unless the shape has exactly one."""
    statements = parse(shape)
    if len(statements) != 1:
        return None
    number_placeholders(statements[0])
    return statements[0]


def deciding(node: Statement, letters: str) -> frozenset[int]:
    """The indexes of literals that decide more than a value: a column's name, a position, a
    display, a type."""
    positions = deciding_a_type(node, letters)
    if isinstance(node, Insert):
        return positions
    for query in found_in(node, exp.Query):
        parts = (*query.expressions, query.args.get("group"), query.args.get("order"))
        signs = (sign for p in parts if p for sign in walks.find_all(p, exp.Placeholder))
        positions |= {position_of(sign) for sign in signs}
    return positions
