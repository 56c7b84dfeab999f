"""UNDO of a TRUNCATE TABLE: the rows of before are back, beside those that were written since.

    truncate, kept   as ever (truncate.py), but ids of rows go on behind those of before, and what
                     lies under the old id is not emptied while its record stands (gc_worker.py)
    undo             absent -> write only -> write reorganization =check apart=> delete only
        post-commit  delete only -> write only -> write reorganization =move, verify=>
                     delete reorganization -> public -> absent
    end of undo      public -> absent   (barrier) the record goes; the rows go as any truncated ones

Readers see either what was written since or all of it. The old rows are the *other set* of a move
of partitions (partition_move.py), one that has rows of its own: the rows written since are copied
beside them, readers switch, and the place of the copied ones is left to be emptied.

Two rows must not meet: no row of one set has the handle or a unique key of a row of the other.

    from the first step     a writer refuses a row that would meet an old one (1062)
    once all writers do     every row written since is looked up among the old ones: 1062, with the
                            key, and nothing has been changed
    then                    a row's twin in the other set is a copy of it or nothing

Until then nobody writes there, so it can be cancelled, and asked for again; what is copied is not
taken out again, so behind that point it goes on.

The table keeps its id: its rows lie under the old one (`exuvia_physical`), as after an EXCHANGE.
It must still be able to hold the old rows: the same columns, indexes, CHECKs and partitions, none
dropped and made anew. TRUNCATE TABLE takes the records of its table along, so several can be taken
back, in any order. FLASHBACK TABLE t TO u brings the old rows back as a table of their own, while
no UNDO of them runs; then the record is gone.
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
from exuvia.ddl.action import Action, Element, Step, load
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
from exuvia.ddl.decision import CatalogSnapshot, JobEvent, Kept, ReadSet, StepWait
from exuvia.ddl.elements import TABLE_IN_PLACE, table_with_children, the_table
from exuvia.ddl.job import ActionCode, Job, arguments
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
    """The table that was truncated."""
    found = kept_of(job).table
    if found is None:
        raise Broken("a table that is kept is not in its record")
    return found


# -- refusals --------------------------------------------------------------------------------------


def why_not_again(table: TableInfo, kept: Kept) -> str:
    """Why the table cannot hold the rows of before; "" if it can."""
    before = kept.table
    assert before is not None
    if table.foreign_keys or table.exuvia_referred:
        return "foreign keys join its table with others now"
    if table.cache_table_status:
        return "its table is cached; ALTER TABLE NOCACHE first"
    if table.exuvia_change_log != ABSENT:
        return "the change log of its table would miss the rows; EXUVIA_CHANGE_LOG = OFF first"
    if tables_differ(before, table):
        return "the columns or indexes of its table are others now"
    if _cut(before.partition) != _cut(table.partition):
        return "the partitions of its table are others now"
    if before.checks != table.checks:
        return "the CHECKs of its table are others now"
    return ""


def _cut(found: PartitionInfo | None) -> object:
    if found is None:
        return None
    parts = [(each.less_than, each.in_values) for each in found.definitions]
    columns = [column.L for column in found.columns]
    return found.type, found.expr, columns, found.exuvia_key_algorithm, parts


def nothing_is_kept(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1105: the window has ended, or they came back before."""
    if snapshot.is_kept:
        return None
    said = f"ddl job {drop_job(job)} cannot be undone: nothing of it is kept any more"
    return ErrUnknown(said)


def table_has_changed(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1105: with why, and what else can be done."""
    why = why_not_again(table_with_children(snapshot), kept_of(job))
    return changed_since(kept_of(job), why) if why else None


def changed_since(kept: Kept, why: str) -> Refused:
    """1105 for rows that cannot come back into their table."""
    hint = f"FLASHBACK TABLE {kept.name} TO another_name brings the rows back beside it"
    return ErrUnknown(f"ddl job {kept.job_id} cannot be undone: {why}; {hint}")


# -- steps -----------------------------------------------------------------------------------------


def place_beside(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The old rows are the other set; rows of either are read."""
    table, before, partition = the_table(snapshot), _before(job), as_partitioned(snapshot)
    came: tuple[PartitionDefinition, ...]
    if before.partition is None:
        came = (PartitionDefinition(id=before.physical_ids[0], name=name(WHOLE_TABLE)),)
    else:
        ids = [each.id for each in before.partition.definitions]
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


def taken_by_this_job(job: Job, snapshot: CatalogSnapshot) -> tuple[Kept, ...]:
    """The record says who brings them back, so that FLASHBACK TABLE does not meanwhile."""
    return (evolve(kept_of(job), ended_by=job.id),)


def _move(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """As partitions move; before the non-revertible point writers only look at the other set."""
    moved = move_partition(job, snapshot, state)
    if state in (ABSENT, DELETE_ONLY) or job.exuvia_tail:
        return moved
    return with_partition(moved, evolve(partition_of(moved), ddl_state=ABSENT))


def rows_are_apart(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """1062, else no two rows would meet."""
    if snapshot.failure is not None:
        return snapshot.failure
    if snapshot.filled:
        return None
    sources = tuple(each.id for each in partition_of(snapshot).dropping_definitions)
    return StepWait("", reorg.check_apart(arguments(job, UndoArgs).router, sources))


def join_and_verify(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """Every row is in the old set, too, and its indexes are compared with it (law 9)."""
    return move_and_verify(job, snapshot, arguments(job, UndoArgs).router, joins=True)


def rows_came_back(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """Readers have the rows of before and since."""
    partition = partition_of(before)
    return JobEvent(
        type="undo truncate table",
        table=after.table,
        added=partition.adding_definitions,
        removed=partition.dropping_definitions,
    )


_ROWS = Element("partition", follows_rows=False, move=_move)
_KEEP_APART = Action(
    "exuvia undo",
    ActionCode.EXUVIA_UNDO,
    _ROWS,
    path=(Step(WRITE_ONLY, ABSENT, edit=forget_new),),
)
UNDO_TRUNCATE = load(
    Action(
        "exuvia undo",
        ActionCode.EXUVIA_UNDO,
        _ROWS,
        refuses=(table_is_missing, nothing_is_kept, table_has_changed),
        path=(
            Step(ABSENT, WRITE_ONLY, edit=place_beside, keeps=taken_by_this_job),
            Step(WRITE_ONLY, WRITE_REORG, barrier=True),
            Step(
                WRITE_REORG,
                DELETE_ONLY,
                after=rows_are_apart,
                restores_ranges_of=drop_job,
                ends_undo_of=drop_job,
            ),
        ),
        post_commit=(
            Step(DELETE_ONLY, WRITE_ONLY),
            Step(WRITE_ONLY, WRITE_REORG),
            Step(WRITE_REORG, DELETE_REORG, edit=switch, after=join_and_verify),
            Step(DELETE_REORG, PUBLIC),
            Step(PUBLIC, ABSENT, edit=forget_old, leaves=old_ranges, event=rows_came_back),
        ),
        undo=_KEEP_APART,
        reads=lambda job: ReadSet(undo_of=drop_job(job)),
        reorg=True,
        opens_later=True,
    )
)
END_TRUNCATE = load(
    Action(
        "exuvia end undo",
        ActionCode.EXUVIA_END_UNDO,
        TABLE_IN_PLACE,
        refuses=(table_is_missing, nothing_is_kept),
        path=(Step(PUBLIC, ABSENT, ends_undo_of=drop_job, barrier=True),),
        reads=lambda job: ReadSet(undo_of=drop_job(job)),
    )
)

# -- of all kinds ----------------------------------------------------------------------------------

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
