"""SELECT ... INTO @a, @b: the one row of a query goes into user variables.

no row        the variables stay as they are, warning 1329
two rows      1172
"""

from collections.abc import Sequence

from exuvia.base.mysql_errors import (
    ErrSpFetchNoData,
    ErrTooManyRows,
    ErrWrongNumberOfColumnsInSelect,
)
from exuvia.sql.result import Result
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import Plan


class IntoVariables(Plan):
    """A query whose row is kept in the session."""

    def __init__(self, query: Plan, names: Sequence[str]) -> None:
        if len(query.columns) != len(names):
            raise ErrWrongNumberOfColumnsInSelect()
        self._query = query
        self._names = names

    def run(self, context: Context) -> Result:
        """Set the variables."""
        found = self._query.run(context)
        if len(found.rows) > 1:
            raise ErrTooManyRows()
        if not found.rows:
            missing = ErrSpFetchNoData()
            context.note(missing.code, missing.message)
        for row in found.rows:
            for name, value, column in zip(self._names, row, found.columns, strict=True):
                context.session.set_user_variable(name, value, column.type)
        return Result(affected=len(found.rows))
