"""UNDO of a TRUNCATE TABLE restores the former rows and keeps those written since.

    truncate, kept   as usual (truncate.py), but row ids continue after the former ones, and the
                     data of the old id is not emptied while its record exists (gc_worker.py)
    undo             absent -> write only -> write reorganization =check apart=> delete only
        post-commit  delete only -> write only -> write reorganization =move, verify=>
                     delete reorganization -> public -> absent
    end of undo      public -> absent   (barrier) the record is removed; the rows are emptied as
                     after any TRUNCATE

Readers see either only the rows written since, or all rows. The old rows are the *other set* of a
move of partitions (partition_move.py), which has rows of its own here. The rows written since are
copied into it, readers switch, and the ids of the copied rows are emptied.

Two rows must not collide: no row of one set has the handle or a unique key of a row of the other.

    from the first step     a writer refuses a row that would collide with an old one (1062)
    once all writers do     every row written since is looked up among the old ones: 1062, with the
                            key, and nothing has been changed
    then                    a row's counterpart in the other set is a copy of it or missing

Until then nothing writes the old rows, so the job can be cancelled and repeated. Copied rows are
not removed again, so after that point the job continues.

The table keeps its id: its rows are under the old one (`exuvia_physical`), as after an EXCHANGE. It
must still be able to store the old rows: the same columns, indexes, CHECKs and partitions, none
dropped and created again. TRUNCATE TABLE moves the records of its table to the new id. So several
can be undone, in any order. FLASHBACK TABLE t TO u restores the old rows as a table of its own,
while no UNDO of them runs. Then the record is removed.
"""

from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.catalog.model import (
    PartitionDefinition,
    PartitionInfo,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.ddl.action import (
    Action,
    Element,
    Step,
    ends_retention,
    leaves,
    load,
    restores_ranges,
    retains,
)
from exuvia.ddl.actions.partition import move_partition, partition_of, with_partition
from exuvia.ddl.actions.partition_exchange import joint_layouts, tables_differ
from exuvia.ddl.actions.partition_move import (
    WHOLE_TABLE,
    as_partitioned,
    forget_new,
    forget_old,
    move_and_verify,
    old_ranges,
    switch,
)
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.actions.undo import (
    END_COLUMN,
    END_INDEX,
    UNDO_COLUMN,
    UNDO_INDEX,
    UndoArgs,
    drop_job,
    kept_of,
)
from exuvia.ddl.decision import StepWait
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import TABLE_IN_PLACE, reads_children, table_with_children, the_table
from exuvia.ddl.job import ActionCode, Job, arguments
from exuvia.ddl.kept import IsRetained, Kept
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet
from exuvia.pipeline import reorg

ABSENT, DELETE_ONLY, WRITE_ONLY = (
    SchemaState.ABSENT,
    SchemaState.DELETE_ONLY,
    SchemaState.WRITE_ONLY,
)
WRITE_REORG, DELETE_REORG, PUBLIC = (
    SchemaState.WRITE_REORG,
    SchemaState.DELETE_REORG,
    SchemaState.PUBLIC,
)


def _before(job: Job) -> TableInfo:
    """The truncated table."""
    table = kept_of(job).table
    if table is None:
        raise Broken("a table that is kept is not in its record")
    return table


# -- refusals --------------------------------------------------------------------------------------


def why_no_restore(table: TableInfo, record: Kept) -> str:
    """Why the table cannot store the former rows; "" if it can."""
    before = record.table
    assert before is not None
    if table.foreign_keys or table.exuvia_referred:
        return "its table has foreign keys now, or another table refers to it"
    if table.cache_table_status:
        return "its table is cached; ALTER TABLE NOCACHE first"
    if table.exuvia_change_log != ABSENT:
        return "the change log of its table would miss the rows; EXUVIA_CHANGE_LOG = OFF first"
    if tables_differ(before, table):
        return "the columns or indexes of its table have changed"
    if _cut(before.partition) != _cut(table.partition):
        return "the partitions of its table have changed"
    if before.checks != table.checks:
        return "the CHECKs of its table have changed"
    return ""


def _cut(partition: PartitionInfo | None) -> object:
    if partition is None:
        return None
    parts = [(definition.less_than, definition.in_values) for definition in partition.definitions]
    columns = [column.L for column in partition.columns]
    return partition.type, partition.expr, columns, partition.exuvia_key_algorithm, parts


def undo_data_is_gone(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1105: the retention has ended, or the rows were restored before."""
    if snapshot.fact(IsRetained(drop_job(job))):
        return None
    reason = f"ddl job {drop_job(job)} cannot be undone: its data is no longer retained"
    return ErrUnknown(reason)


def table_has_changed(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1105 with the reason, and an alternative."""
    why = why_no_restore(table_with_children(snapshot), kept_of(job))
    return changed_since(kept_of(job), why) if why else None


def changed_since(record: Kept, why: str) -> Refused:
    """1105 for rows that cannot be restored into their table."""
    hint = f"FLASHBACK TABLE {record.name} TO another_name restores the rows in another table"
    return ErrUnknown(f"ddl job {record.job_id} cannot be undone: {why}; {hint}")


# -- steps -----------------------------------------------------------------------------------------


def place_old_rows(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The old rows become the other set; the table can read the rows of both."""
    table, before, partition = the_table(snapshot), _before(job), as_partitioned(snapshot)
    came: tuple[PartitionDefinition, ...]
    if before.partition is None:
        came = (PartitionDefinition(id=before.physical_ids[0], name=name(WHOLE_TABLE)),)
    else:
        ids = [definition.id for definition in before.partition.definitions]
        came = partition.with_ids(ids).definitions
    placed = evolve(
        partition,
        adding_definitions=came,
        dropping_definitions=partition.definitions,
        ddl_type=partition.type,
        ddl_expr=partition.expr,
        ddl_columns=partition.columns,
        exuvia_ddl_empty_columns=partition.is_empty_columns,
        exuvia_ddl_key_algorithm=partition.exuvia_key_algorithm,
    )
    layouts = joint_layouts(table, before) or ()
    table = evolve(table, partition=placed, exuvia_layouts=layouts)
    return job, evolve(snapshot, table=table)


def record_of_this_job(job: Job, snapshot: CatalogSnapshot) -> tuple[Kept, ...]:
    """The record has this job's id, so that FLASHBACK TABLE is refused in the meantime."""
    return (evolve(kept_of(job), ended_by=job.id),)


def _move(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """Like a move of partitions, but before the non-revertible point writers only read the other
    set."""
    moved = move_partition(job, snapshot, state)
    if state in (ABSENT, DELETE_ONLY) or job.exuvia_tail:
        return moved
    return with_partition(moved, evolve(partition_of(moved), ddl_state=ABSENT))


def rows_are_apart(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """A wait for the check that no rows collide; 1062 if some do."""
    if snapshot.reorg.filled:
        return None
    sources = tuple(definition.id for definition in partition_of(snapshot).dropping_definitions)
    return StepWait("", reorg.check_apart(arguments(job, UndoArgs).router, sources))


def join_and_verify(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """A wait until every row is in the old set, too, and its indexes are compared (law 9)."""
    return move_and_verify(job, snapshot, arguments(job, UndoArgs).router, joins=True)


def rows_came_back(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once readers have all rows."""
    partition = partition_of(before)
    return JobEvent(
        type="undo truncate table",
        table=after.table,
        added=partition.adding_definitions,
        removed=partition.dropping_definitions,
    )


def _reads_record(job: Job) -> ReadSet:
    return ReadSet(facts=(IsRetained(drop_job(job)),))


def _reads(job: Job) -> ReadSet:
    return ReadSet.union([_reads_record(job), reads_children(job)])


_ROWS = Element("partition", follows_rows=False, move=_move)
_KEEP_APART = Action(
    ActionCode.EXUVIA_UNDO,
    _ROWS,
    path=(Step(WRITE_ONLY, ABSENT, edit=forget_new),),
)
UNDO_TRUNCATE = load(
    Action(
        ActionCode.EXUVIA_UNDO,
        _ROWS,
        refuses=(table_is_missing, undo_data_is_gone, table_has_changed),
        path=(
            Step(ABSENT, WRITE_ONLY, edit=place_old_rows, causes=(retains(record_of_this_job),)),
            Step(WRITE_ONLY, WRITE_REORG, barrier=True),
            Step(
                WRITE_REORG,
                DELETE_ONLY,
                after=rows_are_apart,
                causes=(
                    restores_ranges(drop_job),
                    ends_retention(drop_job),
                ),
            ),
        ),
        post_commit=(
            Step(DELETE_ONLY, WRITE_ONLY),
            Step(WRITE_ONLY, WRITE_REORG),
            Step(WRITE_REORG, DELETE_REORG, edit=switch, after=join_and_verify),
            Step(DELETE_REORG, PUBLIC),
            Step(
                PUBLIC, ABSENT, edit=forget_old, causes=(leaves(old_ranges),), event=rows_came_back
            ),
        ),
        undo=_KEEP_APART,
        reads=_reads,
        reorg=True,
        opens_later=True,
    )
)
END_TRUNCATE = load(
    Action(
        ActionCode.EXUVIA_END_UNDO,
        TABLE_IN_PLACE,
        refuses=(table_is_missing, undo_data_is_gone),
        path=(Step(PUBLIC, ABSENT, causes=(ends_retention(drop_job),), barrier=True),),
        reads=_reads_record,
    )
)

# -- UNDO of all kinds -----------------------------------------------------------------------------

_UNDO = {"index": UNDO_INDEX, "column": UNDO_COLUMN, "table": UNDO_TRUNCATE}
_END = {
    "index": END_INDEX,
    "column": END_COLUMN,
    "modify": END_COLUMN,
    "table": END_TRUNCATE,
}

ACTIONS = (
    UNDO_INDEX._replace(choose=lambda job: _UNDO[kept_of(job).kind]),
    END_INDEX._replace(choose=lambda job: _END[kept_of(job).kind]),
)
