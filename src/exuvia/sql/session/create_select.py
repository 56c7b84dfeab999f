"""The rows of CREATE TABLE ... AS SELECT, which the session puts into the table.

    job         takes the name, gives the rows a place nobody sees     (ddl/actions/load.py)
    load        the query run; its rows converted and put as they come, never held whole:
                batches as its plan gives them -> as many as one sorted run takes -> bulk.load
    finish      the job's reorg makes the indexes; all of it becomes public, or is dropped

Whatever fails on the way, the client included, leaves no table. The load is not a transaction: it
cannot begin again on what it has left, so a query that lost its snapshot ends it, and its job drops
the table. Rows of a temporary table are inserted, in the open transaction if there is one.
"""

from collections.abc import Iterator, Sequence

from exuvia.base.errors import Deposed, ExuviaError, SchemaChanged, Unavailable
from exuvia.base.mysql_errors import ErrTableDefChanged
from exuvia.catalog.autoid import TableIds
from exuvia.catalog.model import evolve
from exuvia.catalog.table import Table
from exuvia.ddl import admin, queue
from exuvia.ddl.actions.load import epoch_of, finish_load, may_load
from exuvia.ddl.job import Job
from exuvia.sql import planner
from exuvia.sql.result import Result, Row
from exuvia.sql.schema.change import CreateTemporary, SelectedRows
from exuvia.sql.statement.context import Context, SessionApi
from exuvia.sql.write.insert import InsertTarget, RowInserter
from exuvia.sql.write.strictness import storer, strictness

POLL_S = 0.5
RUN_ROWS = 20_000


# -- of a table of the catalog ---------------------------------------------------------------------


def with_loader(session: SessionApi, job: Job) -> Job:
    """The job, which waits for the rows of this session."""
    loader = {"loader": session.services.member.id}
    return evolve(job, raw_args=(job.raw_args[0], loader), reorg_meta={})


def load(session: SessionApi, job_id: int, rows: SelectedRows) -> Result:
    """Put the rows in; how many, and the warnings of their values. Whatever stops it cancels the
    job; raises what did, once the job is over."""
    loading = _Loading(rows)
    try:
        table, epoch = _place(session, job_id)
        if table is None:
            return Result()
        loaded = session.run(lambda context: loading.load(context, table, job_id, epoch))
        store, member, count = session.services.store, session.services.member, loaded.affected
        store.transact(lambda txn: finish_load(txn, member, job_id, epoch, count))
        return loaded
    except Deposed:
        admin.command_now(session.services.store, "cancel", [job_id])
        return Result()  # the job was cancelled: it says why
    except ExuviaError:
        admin.command_now(session.services.store, "cancel", [job_id])
        session.services.submitter.wait(job_id)
        raise


def _place(session: SessionApi, job_id: int) -> tuple[Table | None, int]:
    """The table once rows may be put, and the epoch under which; None when the job has ended."""
    store = session.services.store
    while True:
        session.check_interrupt()
        seen = store.counter("version")
        with store.read() as txn:
            job: Job | None = queue.get(txn, job_id)
            if job is None:
                return None, 0
            if may_load(job):
                table = session.services.schemas.table_by_id(txn, job.table_id)
                return table, epoch_of(txn, job_id)
        store.wait("version", seen, POLL_S)


class _Loading:
    """A query's rows, on their way."""

    def __init__(self, rows: SelectedRows) -> None:
        self._query = rows.query
        self._columns = list(rows.columns)
        self._begun = False

    def load(self, context: Context, table: Table, job_id: int, epoch: int) -> Result:
        """Put them into the table; how many. Raises 1048, 1062, 1264, 1364, 1406, ..., 1412 where
        the query's tables are not what they were, Deposed where the job went back."""
        from exuvia.pipeline.bulk import load  # brings numpy: only for who asks for it

        if self._begun:
            raise Unavailable("the query of CREATE TABLE lost its snapshot")
        self._begun = True
        plan = planner.plan(self._query, context, stored=True)
        if list(plan.columns) != self._columns:
            raise ErrTableDefChanged()
        target = InsertTarget(table, tuple(column.name for column in self._columns))
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
        self,
        context: Context,
        batches: Iterator[Sequence[Row]],
        target: InsertTarget,
        ids: TableIds,
    ) -> Iterator[list[Row]]:
        """Whole rows of the table, so many at a time."""
        seen = 0
        for batch in _regrouped(batches):
            context.session.check_interrupt()
            if batch and not seen:
                _require_defaults(context, target)
            found = Result(self._columns, batch)
            rows = [
                _row_of(context, target, each) for each in _converted(context, target, found, seen)
            ]
            for position in target.numbered:
                _number(rows, position, ids)
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


# -- of a temporary table --------------------------------------------------------------------------


def fill_temporary(
    session: SessionApi, table: Table, new: CreateTemporary, found: Result
) -> Result:
    """Put what the query answered into the table. Raises 1048, 1062, 1264, 1406, ..."""

    def fill(context: Context) -> Result:
        target = InsertTarget(table, tuple(column.name for column in found.columns))
        if found.rows:
            _require_defaults(context, target)
        inserting = RowInserter(target, new.policy, context, None)
        ignore = new.policy == "ignore"
        for number, values in enumerate(_converted(context, target, found, ignore=ignore), 1):
            inserting.add(_row_of(context, target, values), number)
        return inserting.result(True)

    return session.run(fill)


# -- both ------------------------------------------------------------------------------------------


def _converted(
    context: Context, target: InsertTarget, found: Result, before: int = 0, ignore: bool = False
) -> list[Row]:
    """The query's rows as the columns hold them, `before` of them seen: as INSERT .. SELECT stores
    them. Raises 1048, 1264, 1406, ..."""
    rules = strictness(context.binding, ignore)
    storers = [
        storer(column, each.type, position in target.numbered, rules, selected=True)
        for (position, column), each in zip(target.named, found.columns, strict=True)
    ]
    return [
        [store(value, context, number) for store, value in zip(storers, row, strict=True)]
        for number, row in enumerate(found.rows, before + 1)
    ]


def _require_defaults(context: Context, target: InsertTarget) -> None:
    """1364 for a column that the query does not give and that has no default, where the sql_mode is
    strict. Once, for the query itself is not judged as one that writes."""
    strictness(context.binding, ignore=False).begin(context)
    try:
        target.row(context)
    finally:
        context.strict = False


def _row_of(context: Context, target: InsertTarget, values: Row) -> Row:
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
