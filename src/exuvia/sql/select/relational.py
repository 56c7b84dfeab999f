"""SELECT through the relational engine (plan.py): joins, groups, windows, sorts of many rows.

The engine is imported when a statement first needs it: point reads must not wait for DuckDB.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from exuvia.sql.context import Context
from exuvia.sql.result import OutputColumn, Result, Row
from exuvia.sql.session.plans import Plan

if TYPE_CHECKING:
    from exuvia.sql.select.scan import Scan


class RelationalPlan(Plan):
    """Planned for one snapshot; run once."""

    def __init__(self, node: object, context: Context) -> None:
        from exuvia.sql.select import plan as select

        assert isinstance(node, exp.Expression)
        self._plan = select.plan(node, context)
        self.columns = [OutputColumn(*column) for column in self._plan.columns]

    @property
    def scans(self) -> "Sequence[Scan]":
        """What is read of tables; none for a query without."""
        return self._plan.scans

    def run(self, context: Context) -> Result:
        """Collect every batch. Raises 8175."""
        from exuvia.sql.select.plan import collected

        return Result(self.columns, collected(self._plan, context))

    def batches(self, context: Context) -> Iterator[Sequence[Row]]:
        """As DuckDB produces them."""
        return self._plan.run()


def found_rows(node: exp.Select, context: Context) -> tuple[list[OutputColumn], list[Row]]:
    """Columns and rows of a query that may also ask for the handles of its tables."""
    from exuvia.sql.select import plan as select

    plan = select.plan(node, context, handles=True)
    return plan.columns, select.collected(plan, context)


def relational(node: object, context: Context) -> Result:
    """Plan and run in one go."""
    return RelationalPlan(node, context).run(context)
