"""Loading the rows of CREATE TABLE ... AS SELECT.

    job         reserves the name and a hidden place for the rows      (ddl/actions/load.py)
    load        runs the query, converts its rows and stores them as they come:
                batches of its plan -> runs of RUN_ROWS -> bulk.load
    finish      the job's reorg builds the indexes; the table becomes public, or is dropped

Any failure, also of the client, leaves no table. The load is no transaction, so it cannot be
repeated on its partial rows. If the query loses its snapshot, the job drops the table.
Rows of a temporary table are inserted, in the open transaction if there is one.
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


# -- tables of the catalog ---------------------------------------------------------------------


def with_loader(session: SessionApi, job: Job) -> Job:
    """The job, which waits until this session has loaded the rows."""
    loader = {"loader": session.services.member.id}
    return evolve(job, raw_args=(job.raw_args[0], loader), reorg_meta={})


def load(session: SessionApi, job_id: int, rows: SelectedRows) -> Result:
    """Loads the rows. Returns their number and the warnings of their values.

    On an error, cancels the job, waits until it has ended, and raises the error."""
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
        return Result()  # the job was cancelled and has the error
    except ExuviaError:
        admin.command_now(session.services.store, "cancel", [job_id])
        session.services.submitter.wait(job_id)
        raise


def _place(session: SessionApi, job_id: int) -> tuple[Table | None, int]:
    """The table and the epoch once rows may be stored; (None, 0) if the job has ended."""
    store = session.services.store
    while True:
        session.check_interrupt()
        version = store.counter("version")
        with store.read() as txn:
            job: Job | None = queue.get(txn, job_id)
            if job is None:
                return None, 0
            if may_load(job):
                table = session.services.schemas.table_by_id(txn, job.table_id)
                return table, epoch_of(txn, job_id)
        store.wait("version", version, POLL_S)


class _Loading:
    """One load of a query's rows."""

    def __init__(self, rows: SelectedRows) -> None:
        self._query = rows.query
        self._columns = list(rows.columns)
        self._has_begun = False

    def load(self, context: Context, table: Table, job_id: int, epoch: int) -> Result:
        """Stores the rows; returns their number.

        Raises 1048, 1062, 1264, 1364, 1406, ..., 1412 if the query's tables have changed, Deposed
        if the job went back."""
        from exuvia.pipeline.bulk import load  # imports numpy, so only when needed

        if self._has_begun:
            raise Unavailable("the query of CREATE TABLE lost its snapshot")
        self._has_begun = True
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
        """Full rows of the table, in runs of about RUN_ROWS."""
        done = 0
        for batch in _regrouped(batches):
            context.session.check_interrupt()
            if batch and not done:
                _require_defaults(context, target)
            batch_rows = Result(self._columns, batch)
            rows = [
                _row_of(context, target, values)
                for values in _converted(context, target, batch_rows, done)
            ]
            for position in target.numbered:
                _number(rows, position, ids)
            done += len(rows)
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


# -- temporary tables --------------------------------------------------------------------------


def fill_temporary(
    session: SessionApi, table: Table, new: CreateTemporary, selected: Result
) -> Result:
    """Inserts the rows of the query into the table. Raises 1048, 1062, 1264, 1406, ..."""

    def fill(context: Context) -> Result:
        target = InsertTarget(table, tuple(column.name for column in selected.columns))
        if selected.rows:
            _require_defaults(context, target)
        inserting = RowInserter(target, new.policy, context, None)
        ignore = new.policy == "ignore"
        for number, values in enumerate(_converted(context, target, selected, ignore=ignore), 1):
            inserting.add(_row_of(context, target, values), number)
        return inserting.result(True)

    return session.run(fill)


# -- common --------------------------------------------------------------------------------------


def _converted(
    context: Context, target: InsertTarget, selected: Result, before: int = 0, ignore: bool = False
) -> list[Row]:
    """The query's rows converted to the columns' types, as by INSERT .. SELECT.

    `before` is the number of earlier rows. Raises 1048, 1264, 1406, ..."""
    rules = strictness(context.binding, ignore)
    storers = [
        storer(column, result_column.type, position in target.numbered, rules, selected=True)
        for (position, column), result_column in zip(target.named, selected.columns, strict=True)
    ]
    return [
        [store(value, context, number) for store, value in zip(storers, row, strict=True)]
        for number, row in enumerate(selected.rows, before + 1)
    ]


def _require_defaults(context: Context, target: InsertTarget) -> None:
    """Raises 1364 in a strict sql_mode for a column without default that the query does not set.

    Called once, because the query itself does not run in strict mode."""
    strictness(context.binding, ignore=False).begin(context)
    try:
        target.row(context)
    finally:
        context.strict = False


def _row_of(context: Context, target: InsertTarget, values: Row) -> Row:
    """A row with these values, and defaults for the other columns."""
    row = target.row(context)
    for (position, _), value in zip(target.named, values, strict=True):
        row[position] = value
    return row


def _number(rows: list[Row], position: int, ids: TableIds) -> None:
    """Sets AUTO_INCREMENT ids for NULL and 0, and keeps the counter above the greatest value."""
    missing = [row for row in rows if not row[position]]
    greatest = max((row[position] for row in rows if row[position]), default=0)
    if greatest > 0:
        ids.rebase(greatest)
    if missing:
        first = ids.next("auto", len(missing))
        for at, row in enumerate(missing):
            row[position] = first + at
