"""SQL_CALC_FOUND_ROWS: a query with LIMIT counts the rows that it would have without.

    exuvia_compatibility = 'mysql'   FOUND_ROWS() is the full count: the query runs without LIMIT
    'tidb'                           1235 while tidb_enable_noop_functions is OFF, else no effect

Without the word FOUND_ROWS() is the number of rows of the answer.
"""

from typing import Any

from sqlglot import exp

from exuvia.base.mysql_errors import ErrNotSupportedYet
from exuvia.sql import walks
from exuvia.sql.parse.tokens import COUNTS_ROWS
from exuvia.sql.result import Result
from exuvia.sql.select.tree import limit_of
from exuvia.sql.statement.context import Context

_NO_EFFECT = (
    f"function {COUNTS_ROWS} has only noop implementation in tidb now, use"
    " tidb_enable_noop_functions to enable these functions"
)


def is_counted(query: exp.Query, context: Context) -> bool:
    """Whether the query's rows are counted beyond its LIMIT. Raises 1235."""
    options = _first(query).args.get("operation_modifiers") or ()
    if not any(option.name.upper() == COUNTS_ROWS for option in options):
        return False
    if context.variable("exuvia_compatibility") == "mysql":
        return True
    if context.variable("tidb_enable_noop_functions") == "OFF":
        raise ErrNotSupportedYet.with_text(_NO_EFFECT)
    return False


def _first(query: Any) -> Any:
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    return query


def without_limit(query: exp.Query) -> exp.Query:
    """The query without its LIMIT and without the word."""
    whole = walks.copy(query)
    _first(whole).set("operation_modifiers", None)
    whole.set("limit", None)
    whole.set("offset", None)
    return whole


def page_of(whole: Result, query: Any, context: Context) -> Result:
    """The rows of the query's LIMIT, with the count of them all."""
    whole.found_rows = len(whole.rows)
    most, skip = limit_of(query, context.binding).at(context)
    end = None if most is None else skip + most
    whole.rows = whole.rows[skip:end]
    return whole
