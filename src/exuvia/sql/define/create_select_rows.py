"""The rows of CREATE TABLE ... SELECT: run, converted and loaded batch by batch, never held whole.

    query -> batches as its plan gives them -> as many as one sorted run takes -> bulk.load

The load is not a transaction: it cannot begin again on what it has left, so a query that lost its
snapshot ends it, and its job drops the table.
"""

from collections.abc import Iterator, Sequence

from sqlglot import exp

from exuvia.base.errors import Deposed, SchemaChanged, Unavailable
from exuvia.base.mysql_errors import ErrTableDefChanged
from exuvia.catalog.ids import TableIds
from exuvia.catalog.table import Table
from exuvia.catalog.values import STRICT
from exuvia.sql.context import Context
from exuvia.sql.result import OutputColumn, Result, Row
from exuvia.sql.session import planner
from exuvia.sql.write.cells import assign_to
from exuvia.sql.write.insert_target import Target

RUN_ROWS = 20_000


class Rows:
    """A query's rows, on their way. `columns`: what it answered when the table was defined."""

    def __init__(self, query: exp.Query, columns: Sequence[OutputColumn]) -> None:
        self._query = query
        self._columns = list(columns)
        self._begun = False

    def load(self, context: Context, table: Table, job_id: int, epoch: int) -> Result:
        """Put them into the table; how many. Raises 1048, 1062, 1264, 1406, ..., 1412 where the
        query's tables are not what they were, Deposed where the job went back."""
        from exuvia.pipeline.bulk import load  # brings numpy: only for who asks for it

        if self._begun:
            raise Unavailable("the query of CREATE TABLE lost its snapshot")
        self._begun = True
        plan = planner.plan(self._query, context)
        if list(plan.columns) != self._columns:
            raise ErrTableDefChanged()
        target = Target(table, tuple(column.name for column in self._columns))
        services = context.session.services
        ids = services.ids.of(table.info)
        try:
            loaded = load(
                services.store,
                table,
                self._runs(context, plan.batches(context), target, ids),
                lambda size: ids.next("rowid", size),
                services.clock.monotonic,
                job_id=job_id,
                epoch=epoch,
                judged=True,
            )
        except SchemaChanged as error:
            raise Deposed("the table and its ids are gone with the job") from error
        return Result(affected=loaded)

    def _runs(
        self, context: Context, batches: Iterator[Sequence[Row]], target: Target, ids: TableIds
    ) -> Iterator[list[Row]]:
        """Whole rows of the table, so many at a time."""
        seen = 0
        for batch in _regrouped(batches):
            context.session.check_interrupt()
            found = Result(self._columns, batch)
            rows = [row_of(context, target, each) for each in converted(target, found, seen)]
            if target.auto >= 0:
                _number(rows, target.auto, ids)
            seen += len(rows)
            yield rows


def _regrouped(batches: Iterator[Sequence[Row]]) -> Iterator[list[Row]]:
    waiting: list[Row] = []
    for batch in batches:
        for start in range(0, len(batch), RUN_ROWS):
            waiting += batch[start : start + RUN_ROWS]
            if len(waiting) >= RUN_ROWS:
                yield waiting
                waiting = []
    if waiting:
        yield waiting


def converted(target: Target, found: Result, before: int = 0) -> list[Row]:
    """The query's rows as the columns hold them, `before` of them seen. Raises 1048, 1264, 1406,
    ..."""
    assigns = [
        assign_to(column, each.type, STRICT)
        for (_, column), each in zip(target.named, found.columns, strict=True)
    ]
    is_auto = [position == target.auto for position, _ in target.named]
    return [
        [
            None if auto and value is None else assign(value, number)
            for assign, auto, value in zip(assigns, is_auto, row, strict=True)
        ]
        for number, row in enumerate(found.rows, before + 1)
    ]


def row_of(context: Context, target: Target, values: Row) -> Row:
    """A row with those values, and defaults for the rest."""
    row = target.row(context)
    for (position, _), value in zip(target.named, values, strict=True):
        row[position] = value
    return row


def _number(rows: list[Row], position: int, ids: TableIds) -> None:
    """AUTO_INCREMENT: NULL and 0 take the next ids, the greatest value given is not given again."""
    missing = [row for row in rows if not row[position]]
    given = max((row[position] for row in rows if row[position]), default=0)
    if given > 0:
        ids.rebase(given)
    if missing:
        first = ids.next("auto", len(missing))
        for at, row in enumerate(missing):
            row[position] = first + at
