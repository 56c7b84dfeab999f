"""CREATE TABLE t [definitions] AS SELECT ...: TiDB refuses it, MySQL users expect it.

    query       planned first: its columns follow those that are only defined
    job         takes the name, gives the rows a place nobody sees     (ddl/actions/load.py)
    load        the query run; its rows converted and put as they come, never held whole:
                batches as its plan gives them -> as many as one sorted run takes -> bulk.load
    finish      the job's reorg makes the indexes; all of it becomes public, or is dropped

Whatever fails on the way, the client included, leaves no table. What the bulk load does not keep,
foreign keys, CHECKs, generated columns, partitions, is refused here, 1235. The load is not a
transaction: it cannot begin again on what it has left, so a query that lost its snapshot ends it,
and its job drops the table.
"""

from collections.abc import Iterator, Sequence

from sqlglot import exp

from exuvia.base.errors import Deposed, ExuviaError, SchemaChanged, Unavailable
from exuvia.base.mysql_errors import ErrNotSupportedYet, ErrTableDefChanged
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog.convert.values import STRICT
from exuvia.catalog.ids import TableIds
from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve
from exuvia.catalog.table import Table
from exuvia.ddl import admin, ctas_handshake, queue, requests
from exuvia.ddl.job import Job
from exuvia.sql import planner
from exuvia.sql.nodes import ColumnDefinition, CreateTable
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.parse.text import parse
from exuvia.sql.result import OutputColumn, Result, Row
from exuvia.sql.schema.jobs import ended
from exuvia.sql.schema.modes import modes_of
from exuvia.sql.schema.table_definition import Warn, table_info
from exuvia.sql.statement.context import Context, SessionApi
from exuvia.sql.type_text import identifier, is_text, type_text
from exuvia.sql.write.cells import assign_to
from exuvia.sql.write.insert import InsertTarget
from exuvia.stats.meta import Delta

POLL_S = 0.5
RUN_ROWS = 20_000
_LONGEST_VARCHAR = 16_383


def create_select(
    session: SessionApi, node: CreateTable, database: DatabaseInfo, warn: Warn, text: str
) -> Result:
    """The table with its rows. Raises what the query raises, 1050, 1062, 1060, 1235, ..."""
    query = node.query
    if query is None:
        raise Misplaced("SELECT")
    columns = _columns_of(session, query)
    defined = evolve(node, columns=columns_with(node, columns), query=None)
    info = table_info(defined, database, warn, modes_of(session.variable, warn))
    _refuse_what_is_not_loaded(node, info)
    job = requests.create_table(database, info, query=text)
    loader = {"loader": session.services.member.id}
    job = evolve(job, raw_args=(job.raw_args[0], loader), reorg_meta={})
    job_id = session.services.submitter.submit_nowait(job)
    rows = _load(session, job_id, Rows(query, columns))
    made = ended(session, job_id)
    if session.services.deltas is not None:
        session.services.deltas.merge({made.table_id: Delta(rows, rows)})
    return Result(affected=rows, info=f"Records: {rows}  Duplicates: 0  Warnings: 0")


def _columns_of(session: SessionApi, query: exp.Query) -> list[OutputColumn]:
    """What the query answers, without running it."""
    found: list[OutputColumn] = []

    def look(context: Context) -> Result:
        found[:] = planner.plan(query, context).columns
        return Result()

    session.run(look)
    return found


def _refuse_what_is_not_loaded(node: CreateTable, info: TableInfo) -> None:
    generated = any(column.is_generated for column in info.cols)
    checked = node.checks or any(column.checks for column in node.columns)
    for what, there in (
        ("a foreign key", bool(node.foreign_keys)),
        ("CHECK", bool(checked)),
        ("a generated column", generated),
        ("partitions", info.partition is not None),
        ("IGNORE or REPLACE", node.ignore or node.replace),
    ):
        if there:
            raise ErrNotSupportedYet(f"CREATE TABLE ... SELECT with {what}")


# -- columns ---------------------------------------------------------------------------------------


def columns_with(node: CreateTable, found: Sequence[OutputColumn]) -> tuple[ColumnDefinition, ...]:
    """Columns that are only defined, then the query's; one that is both is as defined."""
    asked = {column.name.lower(): column for column in found}
    defined = {column.name.lower(): column for column in node.columns}
    only_defined = [each for name, each in defined.items() if name not in asked]
    selected = [defined.get(column.name.lower()) or _definition(column) for column in found]
    return (*only_defined, *selected)


def _definition(column: OutputColumn) -> ColumnDefinition:
    """A column of the type the query gives, read as if it had been written."""
    kind = _storable(column.type)
    words = [identifier(column.name), type_text(kind)]
    if is_text(kind) and kind.Charset:
        words.append(f"CHARACTER SET {kind.Charset} COLLATE {kind.Collate}")
    if kind.Flag & Flag.NOT_NULL and column.origin:
        words.append("NOT NULL")
    (made,) = parse(f"CREATE TABLE t ({' '.join(words)})")
    assert isinstance(made, CreateTable)
    return made.columns[0]


def _storable(kind: FieldType) -> FieldType:
    """The type of a column that holds such values."""
    if kind.Tp == TypeCode.NULL:
        return evolve(kind, Tp=TypeCode.STRING, Flen=0, Charset="binary", Collate="binary")
    if kind.Tp in (TypeCode.VAR_STRING, TypeCode.VARCHAR):
        if not 0 <= kind.Flen <= _LONGEST_VARCHAR:
            return evolve(kind, Tp=TypeCode.LONG_BLOB, Flen=-1)
        return evolve(kind, Tp=TypeCode.VARCHAR)
    if kind.Tp == TypeCode.NEWDECIMAL and (kind.Flen < 0 or kind.Decimal < 0):
        return evolve(kind, Flen=65, Decimal=30)
    return kind


# -- rows ------------------------------------------------------------------------------------------


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


def _load(session: SessionApi, job_id: int, found: Rows) -> int:
    """Put the rows in. Whatever stops it cancels the job; raises what did, once the job is over."""
    try:
        table, epoch = _place(session, job_id)
        if table is None:
            return 0
        rows = session.run(lambda context: found.load(context, table, job_id, epoch)).affected
        txn = session.services.store.begin()
        ctas_handshake.finish(txn, session.services.member, job_id, epoch, rows)
        txn.commit()
        return rows
    except Deposed:
        admin.command_now(session.services.store, "cancel", [job_id])
        return 0  # the job was cancelled: it says why
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
        txn = store.begin()
        try:
            job: Job | None = queue.get(txn, job_id)
            if job is None:
                return None, 0
            if ctas_handshake.may_begin(job):
                table = session.services.schemas.table_by_id(txn, job.table_id)
                return table, ctas_handshake.epoch_of(txn, job_id)
        finally:
            txn.rollback()
        store.wait("version", seen, POLL_S)


def converted(target: InsertTarget, found: Result, before: int = 0) -> list[Row]:
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


def row_of(context: Context, target: InsertTarget, values: Row) -> Row:
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
