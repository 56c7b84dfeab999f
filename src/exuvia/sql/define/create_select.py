"""CREATE TABLE t [definitions] AS SELECT ...: TiDB refuses it, MySQL users expect it.

    query       planned first: its columns follow those that are only defined
    job         takes the name, gives the rows a place nobody sees     (ddl/actions/load.py)
    load        the query run, its rows as they come                   (create_select_rows.py)
    finish      the job's reorg makes the indexes; all of it becomes public, or is dropped

Whatever fails on the way, the client included, leaves no table. What the bulk load does not keep,
foreign keys, CHECKs, generated columns, partitions, is refused here, 1235.
"""

from collections.abc import Sequence

from sqlglot import exp

from exuvia.base.errors import Deposed, ExuviaError
from exuvia.base.mysql_errors import ErrNotSupportedYet
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve
from exuvia.catalog.table import Table
from exuvia.ddl import admin, loading, queue, requests
from exuvia.ddl.job import Job
from exuvia.sql.context import Context
from exuvia.sql.define.create_select_rows import Rows
from exuvia.sql.define.jobs import ended
from exuvia.sql.define.modes import modes_of
from exuvia.sql.define.table import Warn, table_info
from exuvia.sql.nodes import ColumnDefinition, CreateTable
from exuvia.sql.parse.near import Misplaced
from exuvia.sql.parse.text import parse
from exuvia.sql.result import OutputColumn, Result
from exuvia.sql.session import planner
from exuvia.sql.session.running import Running
from exuvia.sql.show.type_text import identifier, is_text, type_text
from exuvia.stats.meta import Delta

POLL_S = 0.5
_LONGEST_VARCHAR = 16_383


def create_select(
    session: Running, node: CreateTable, database: DatabaseInfo, warn: Warn, text: str
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


def _columns_of(session: Running, query: exp.Query) -> list[OutputColumn]:
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


def _load(session: Running, job_id: int, found: Rows) -> int:
    """Put the rows in. Whatever stops it cancels the job; raises what did, once the job is over."""
    try:
        table, epoch = _place(session, job_id)
        if table is None:
            return 0
        rows = session.run(lambda context: found.load(context, table, job_id, epoch)).affected
        txn = session.services.store.begin()
        loading.finish(txn, session.services.member, job_id, epoch, rows)
        txn.commit()
        return rows
    except Deposed:
        admin.command_now(session.services.store, "cancel", [job_id])
        return 0  # the job was cancelled: it says why
    except ExuviaError:
        admin.command_now(session.services.store, "cancel", [job_id])
        session.services.submitter.wait(job_id)
        raise


def _place(session: Running, job_id: int) -> tuple[Table | None, int]:
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
            if loading.may_begin(job):
                table = session.services.schemas.table_by_id(txn, job.table_id)
                return table, loading.epoch_of(txn, job_id)
        finally:
            txn.rollback()
        store.wait("version", seen, POLL_S)
