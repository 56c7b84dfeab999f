"""A plan: a statement that reads or writes rows, ready for any snapshot with the same tables.

    run(context) -> Result      reads parameters from the context, never from the plan
    fresh(context) -> bool      its tables are those of the context's snapshot (law 1)

A KeptPlan serves every statement of its shape: it does not depend on the literals. `short` plans
touch few keys, a point or a bounded range, and may run where nothing may block. Plans that lock
write rows, or read them FOR UPDATE. Where a plan may read few (`reads_few`), `few` is asked first:
it evaluates nothing and changes nothing, so that `run` may follow it whatever became of it.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Self

from exuvia.catalog.table import Table
from exuvia.sql.result import Note, OutputColumn, Result, Row
from exuvia.sql.statement.context import Context


class Plan:
    """See the module. `columns` is empty for a statement that writes.

    No ABC: whether something is a plan is asked several times a statement, and an ABC is asked in
    Python."""

    columns: Sequence[OutputColumn] = ()
    is_bound = False  # planned with a binding's hints

    @abstractmethod
    def run(self, context: Context) -> Result: ...

    def batches(self, context: Context) -> Iterator[Sequence[Row]]:
        """The rows as they come, for who must not hold them all."""
        yield self.run(context).rows


class KeptPlan(Plan):
    """A plan of one table that may be kept by shape."""

    short = False
    locks = False
    reads_few = False
    by_statistics = False  # whether other ones might choose another plan
    asks: tuple[str, ...] = ("SELECT",)
    notes: Sequence[Note] = ()  # warnings of every run

    def __init__(self, table: Table, database: str, name: str) -> None:
        self.table = table
        self._database = database
        self._name = name

    def few(self, context: Context) -> Result | None:
        """The answer where it is a few stored values as they are; None where only `run` tells."""
        return None

    def fresh(self, context: Context) -> bool:
        """True while the name means this table at this revision."""
        return context.means(self._database, self._name, self.table)

    def renewed(self, context: Context) -> Self | None:
        """The plan for what its name means now, without planning; None where that must be done.
        Raises 1142, 1146 and the like."""
        return self.on(context.table(self._database, self._name))

    def on(self, table: Table) -> Self | None:
        """The same plan for another revision of its table, or None if it must be planned again.

        Most schema changes do not affect the plan, such as the states of an index that is added."""
        if table.info.partition is not None or not table.stores_as(self.table):
            return None
        if self.notes:
            return None  # they may not be true of it
        if not self._answers_alike(table):
            return None
        made = copy(self)
        made.table = table
        return made

    def _answers_alike(self, table: Table) -> bool:
        """Whether its columns have the same flags there: they tell clients of keys."""
        at = [table.position(column.origin) for column in self.columns if column.origin]
        was, now = self.table.info.cols, table.info.cols
        return all(was[n].type.Flag == now[n].type.Flag for n in at)

    def repeats(self, notes: Sequence[Note]) -> None:
        """Every run repeats the warnings of planning."""
        if notes:
            self.notes, self.reads_few = tuple(notes), False

    def check(self, context: Context) -> None:
        """Raises 1142 where the session may not run it: plans are shared, rights are not."""
        context.demand(self.table, *self.asks)
