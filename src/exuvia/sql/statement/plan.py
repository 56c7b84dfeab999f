"""A plan: a statement that reads or writes rows, ready for any snapshot with the same tables.

    run(context) -> Result      reads parameters from the context, never from the plan
    fresh(context) -> bool      its tables are those of the context's snapshot (law 1)

A KeptPlan is used for all statements of its shape: it does not depend on the literals. Plans that
are `short` touch few keys, a point or a bounded range, and may run in threads that must not block.
Plans with `locks` write rows, or read them FOR UPDATE.

For plans with `reads_few`, `few` is tried first. It has no side effects, so `run` may follow.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Self

from exuvia.catalog.table import Table
from exuvia.sql.result import Note, OutputColumn, Result, Row
from exuvia.sql.statement.context import Context


class Plan:
    """A planned statement. `columns` is () for a statement that writes.

    Not an ABC: isinstance of a plan is tested several times per statement, and is slow for an
    ABC."""

    columns: Sequence[OutputColumn] = ()
    is_bound = False  # planned with a binding's hints

    @abstractmethod
    def run(self, context: Context) -> Result: ...

    def batches(self, context: Context) -> Iterator[Sequence[Row]]:
        """The rows in batches as they come, to limit memory."""
        yield self.run(context).rows


class KeptPlan(Plan):
    """A plan that may be cached by shape."""

    short = False
    locks = False
    reads_few = False
    by_statistics = False  # whether other statistics might choose another plan
    asks: tuple[str, ...] = ("SELECT",)
    notes: Sequence[Note] = ()  # warnings of every run

    def few(self, context: Context) -> Result | None:
        """The result, if it is a few stored values unchanged; None if `run` is needed."""
        return None

    @abstractmethod
    def fresh(self, context: Context) -> bool:
        """Whether the names of its tables still mean these tables at these revisions."""

    def renewed(self, context: Context) -> Self | None:
        """The plan for the tables that its names mean now; None if it must be planned again."""
        return None

    @abstractmethod
    def check(self, context: Context) -> None:
        """Raises 1142 if the session may not run the plan, which sessions share."""

    @property
    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """The stored tables that it reads or writes."""

    @property
    def columns_weight(self) -> int:
        """The memory of its columns, in characters of a shape (plan_cache.py).

        A column of the result takes as much as a character, a column of a table half of it."""
        return len(self.columns) + sum(len(table.info.cols) for table in self.tables) // 2

    def repeats(self, notes: Sequence[Note]) -> None:
        """Repeats the warnings of planning in every run."""
        if notes:
            self.notes, self.reads_few = tuple(notes), False


class KeptTablePlan(KeptPlan):
    """A plan on one table."""

    def __init__(self, table: Table, database: str, name: str) -> None:
        self.table = table
        self._database = database
        self._name = name

    def fresh(self, context: Context) -> bool:
        """Whether the name still means this table at this revision."""
        return context.means(self._database, self._name, self.table)

    def renewed(self, context: Context) -> Self | None:
        """The plan for the table that its name means now; None if it must be planned again.

        Raises 1142, 1146 and similar errors."""
        return self.on(context.table(self._database, self._name))

    def on(self, table: Table) -> Self | None:
        """The same plan for another revision of its table, or None if it must be planned again.

        Most schema changes do not affect the plan, such as the states of an index that is added."""
        if table.info.partition is not None or not table.stores_as(self.table):
            return None
        if self.notes:
            return None  # the warnings may not apply
        if not self._has_same_flags(table):
            return None
        plan = copy(self)
        plan.table = table
        return plan

    def _has_same_flags(self, table: Table) -> bool:
        """Whether its columns have the same flags there; clients read key flags."""
        at = [table.position(column.origin) for column in self.columns if column.origin]
        was, now = self.table.info.cols, table.info.cols
        return all(was[n].type.Flag == now[n].type.Flag for n in at)

    def check(self, context: Context) -> None:
        """Raises 1142 if the session may not run the plan, which sessions share."""
        context.demand(self.table, *self.asks)

    @property
    def tables(self) -> Sequence[Table]:
        return (self.table,)
