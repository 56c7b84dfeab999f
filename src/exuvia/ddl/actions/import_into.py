"""IMPORT INTO: rows of files under an id that nobody reads, which takes the place of the empty one.

    absent -> write only     from here on writers are refused (8258); those before are waited for
        =the table is empty: rows put, held to CHECKs, indexes filled and compared=>
    write only -> public     rows lie under the new id now; the old one is left to be emptied

The table keeps its id; `exuvia_physical` is where its rows are. Readers see it empty, and then all
of it. What was put is reached by nobody else, so turning back leaves no more than a range to be
emptied, and the files are read again from what is finished whoever runs the reorg.

Refused: a table with partitions, with foreign keys or referred to (a parent could go meanwhile),
with stored generated columns.
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrLoadDataPreCheckFailed
from exuvia.catalog.model import DatabaseInfo, SchemaState, TableInfo, evolve
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, StepWait
from exuvia.ddl.elements import (
    TABLE_IN_PLACE,
    range_of_physical,
    table_with_children,
    the_table,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.pipeline import reorg
from exuvia.pipeline.reorg import ImportSource

ABSENT, WRITE_ONLY, PUBLIC = SchemaState.ABSENT, SchemaState.WRITE_ONLY, SchemaState.PUBLIC


def import_into(
    database: DatabaseInfo, table: TableInfo, source: ImportSource, *, query: str = ""
) -> Job:
    """IMPORT INTO; asks for the id that the rows will lie under."""
    job = job_for(ActionCode.EXUVIA_IMPORT_INTO, database, table, (source,), query)
    return evolve(job, exuvia_ids=(0,))


def source_of(job: Job) -> ImportSource:
    """What the job imports."""
    return arguments(job, tuple[ImportSource])[0]


def is_import(job: Job) -> bool:
    """Whether it is one."""
    return job.type == ActionCode.EXUVIA_IMPORT_INTO


def why_no_import(table: TableInfo) -> str:
    """What of the table stands in the way of any import."""
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
    """What a statement was told before may have changed by now: 8173."""
    reason = why_no_import(table_with_children(snapshot))
    return ErrLoadDataPreCheckFailed(reason) if reason else None


def keep_writers_out(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Who plans with it writes no row."""
    table = evolve(the_table(snapshot), exuvia_import_id=job.exuvia_ids[0])
    return job, evolve(snapshot, table=table)


def let_writers_in(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """As if nothing had begun."""
    return job, evolve(snapshot, table=evolve(the_table(snapshot), exuvia_import_id=0))


def rows_are_there(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """All rows of the files, and all their entries. The reorg looks first whether the table
    is empty: it begins once no writer is left, and nobody can write it from then on."""
    if snapshot.failure is not None:
        return snapshot.failure
    if snapshot.filled:
        return None
    table = the_table(snapshot)
    indexes = tuple(each.id for each in table.indexes if not each.exuvia_clustered)
    checks = tuple(each.id for each in table.checks if each.binds)
    work = reorg.import_rows(source_of(job), job.exuvia_ids[0], indexes, checks)
    return StepWait("", work)


def take_rows(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table's rows lie under the new id; ids go on behind those that came."""
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
    """Where rows were before, of which none is left."""
    return tuple(map(range_of_physical, the_table(snapshot).physical_ids))


def imported_range(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """What was put, in vain."""
    return (range_of_physical(job.exuvia_ids[0]),)


def rows_have_come(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """TiDB's events have no kind for it: other rows under another id, as of a TRUNCATE."""
    old = the_table(before)
    return JobEvent(type="truncate table", table=after.table, dropped=old, elements=(old.id,))


STOP_IMPORT = Action(
    "stop import",
    ActionCode.EXUVIA_IMPORT_INTO,
    TABLE_IN_PLACE,
    path=(Step(WRITE_ONLY, ABSENT, edit=let_writers_in, leaves=imported_range),),
)
IMPORT_INTO = load(
    Action(
        "exuvia import into",
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
                leaves=emptied_range,
                event=rows_have_come,
                fences_tables=lambda job, snapshot: (job.table_id,),
            ),
        ),
        undo=STOP_IMPORT,
        reorg=True,
        alterable=True,
        ages=False,
        without_undo="TRUNCATE TABLE takes the rows away",
    )
)

ACTIONS = (IMPORT_INTO,)
