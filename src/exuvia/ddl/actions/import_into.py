"""IMPORT INTO: rows of files are written under a new id, which then replaces the empty one.

    absent -> write only     writers are refused from here on (8258); earlier ones are waited for
        =the table is empty: rows written, CHECKs validated, indexes filled and compared=>
    write only -> public     rows are under the new id now; the old one will be emptied

The table keeps its id; `exuvia_physical` is the id of its rows. Readers see it empty, and then all
of it. No other statement can reach the imported rows, so a rollback only leaves a range to empty. A
new owner continues reading the files after the finished spans.

Refused: a table with partitions, with foreign keys or referred to (a parent could be removed in the
meantime), with stored generated columns.
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrLoadDataPreCheckFailed
from exuvia.catalog.model import DatabaseInfo, SchemaState, TableInfo, evolve
from exuvia.ddl.action import Action, Step, always, fences, leaves, load
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.decision import StepWait
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import (
    TABLE_IN_PLACE,
    range_of_physical,
    reads_children,
    table_with_children,
    the_table,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.ddl.snapshot import CatalogSnapshot
from exuvia.pipeline import reorg
from exuvia.pipeline.reorg import ImportSource

ABSENT, WRITE_ONLY, PUBLIC = SchemaState.ABSENT, SchemaState.WRITE_ONLY, SchemaState.PUBLIC


def import_into(
    database: DatabaseInfo, table: TableInfo, source: ImportSource, *, query: str = ""
) -> Job:
    """IMPORT INTO; the job needs one id, for the imported rows."""
    job = job_for(ActionCode.EXUVIA_IMPORT_INTO, database, table, (source,), query)
    return evolve(job, exuvia_ids=(0,))


def source_of(job: Job) -> ImportSource:
    """The files that the job imports."""
    return arguments(job, tuple[ImportSource])[0]


def is_import(job: Job) -> bool:
    """Whether the job is an IMPORT INTO."""
    return job.type == ActionCode.EXUVIA_IMPORT_INTO


def why_no_import(table: TableInfo) -> str:
    """The reason why no import into the table is possible, or ""."""
    if not table.is_stored:
        return "the target is no base table"
    if table.is_temporary:
        return "the target is a temporary table"
    if table.partition is not None:
        return "the target is partitioned"
    if table.foreign_keys or table.exuvia_referred:
        return "the target has foreign keys, or others refer to it"
    if table.cache_table_status:
        return "the target is a cached table"
    if any(column.is_generated and not column.is_virtual for column in table.cols):
        return "the target has a stored generated column"
    return ""


def table_cannot_be_imported(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8173: the table may have changed since the statement was checked."""
    reason = why_no_import(table_with_children(snapshot))
    return ErrLoadDataPreCheckFailed(reason) if reason else None


def keep_writers_out(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Statements planned in this state write no row."""
    table = evolve(the_table(snapshot), exuvia_import_id=job.exuvia_ids[0])
    return job, evolve(snapshot, table=table)


def let_writers_in(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Writers are allowed again, as before the job."""
    return job, evolve(snapshot, table=evolve(the_table(snapshot), exuvia_import_id=0))


def rows_are_there(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """A wait until all rows of the files, and all their entries, are written.

    The reorg first checks that the table is empty. It begins once no writer is left, and nobody can
    write the table from then on.
    """
    if snapshot.reorg.filled:
        return None
    table = the_table(snapshot)
    indexes = tuple(index.id for index in table.indexes if not index.exuvia_clustered)
    checks = tuple(check.id for check in table.checks if check.binds)
    work = reorg.import_rows(source_of(job), job.exuvia_ids[0], indexes, checks)
    return StepWait("", work)


def take_rows(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table's rows are under the new id; id allocation continues after the imported ones."""
    table = the_table(snapshot)
    table = evolve(
        table,
        exuvia_import_id=0,
        exuvia_physical=job.exuvia_ids[0],
        exuvia_ids_epoch=table.exuvia_ids_epoch + 1,
        exuvia_ids_forced=False,
    )
    return job, evolve(snapshot, table=table)


def emptied_range(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """The range of the former rows, which are all deleted."""
    return tuple(map(range_of_physical, the_table(snapshot).physical_ids))


def imported_range(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """The range of the imported rows, after a rollback."""
    return (range_of_physical(job.exuvia_ids[0]),)


def rows_have_come(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event of a TRUNCATE: TiDB's events have no kind for other rows under another id."""
    old = the_table(before)
    return JobEvent(type="truncate table", table=after.table, dropped=old, elements=(old.id,))


STOP_IMPORT = Action(
    ActionCode.EXUVIA_IMPORT_INTO,
    TABLE_IN_PLACE,
    path=(Step(WRITE_ONLY, ABSENT, edit=let_writers_in, causes=(leaves(imported_range),)),),
)
IMPORT_INTO = load(
    Action(
        ActionCode.EXUVIA_IMPORT_INTO,
        TABLE_IN_PLACE,
        refuses=(table_is_missing, table_cannot_be_imported),
        path=(
            Step(ABSENT, WRITE_ONLY, edit=keep_writers_out),
            Step(
                WRITE_ONLY,
                PUBLIC,
                edit=take_rows,
                after=rows_are_there,
                causes=(
                    leaves(emptied_range),
                    fences(lambda job, snapshot: (job.table_id,)),
                ),
                event=rows_have_come,
            ),
        ),
        undo=STOP_IMPORT,
        reads=reads_children,
        reorg=True,
        alterable=True,
        verification_expires=False,
        without_undo="TRUNCATE TABLE takes the rows away",
        unlogged=always,
    )
)

ACTIONS = (IMPORT_INTO,)
