"""The time at which a statement reads, if not now. See sql/statement/moment.py for such reads."""

from sqlglot import exp

from exuvia.base.mysql_errors import ErrAsOf, ErrUnknown
from exuvia.events.change_log import ReadTime
from exuvia.sql import planner, types, walks
from exuvia.sql.evaluate.cast import caster
from exuvia.sql.nodes import Delete, Explain, Insert, LoadData, NonTransactionalDml, Update
from exuvia.sql.select import relational
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.moment import read_time, time_asked, too_old

_WRITES = (Insert, Update, Delete, LoadData, NonTransactionalDml)
_TO_MICROSECONDS = types.datetime(6)


def packed_time(tree: exp.Expression, context: Context) -> int | None:
    """The value of an expression as a packed DATETIME. Raises 1292 for another value."""
    value, kind = relational.scalar_value(tree, context)
    convert = caster(kind, _TO_MICROSECONDS)
    if value is None or convert is None:
        return None if value is None else int(str(value))
    strict, context.strict = context.strict, True
    try:
        packed = convert(value, context)
    finally:
        context.strict = strict
    return None if packed is None else int(packed)


def time_of(tree: exp.Expression, context: Context) -> ReadTime:
    """The read time of START TRANSACTION and tidb_snapshot, which must exist.

    Raises 8135, 1105, 1292, 8055."""
    packed = packed_time(tree, context)
    if packed is None:
        raise ErrAsOf("as of timestamp cannot be NULL")
    time = read_time(context, packed)
    if time.moment is None:
        raise too_old(context)
    return time


def query_in(node: object) -> exp.Query | None:
    """The query that a statement is or explains, else None."""
    inner = node.statement if isinstance(node, Explain) else node
    return inner if isinstance(inner, exp.Query) else None


def asks_for_time(query: exp.Query) -> bool:
    """Whether a table in the query has AS OF TIMESTAMP."""
    assert isinstance(query, exp.Expression)
    return walks.find(query, exp.Version) is not None


def time_of_query(query: exp.Query, context: Context) -> ReadTime:
    """The read time of a query with AS OF TIMESTAMP. Raises 8135, 1105, 1292."""
    assert isinstance(query, exp.Expression)
    return time_asked(query, context, packed_time)


def refuse_write(node: object, changes_schema: bool, of_session: bool) -> None:
    """Raises 1105 for a write while the session or its transaction reads at a time."""
    query = query_in(node)
    locks = query is not None and planner.locks_rows(query)
    runs = node.statement if isinstance(node, Explain) and node.analyze else node
    if not (changes_schema or locks or isinstance(runs, _WRITES)):
        return
    raise ErrUnknown.with_text(
        "can not execute write statement when 'tidb_snapshot' is set"
        if of_session
        else "only support read-only statement during read-only staleness transactions"
    )
