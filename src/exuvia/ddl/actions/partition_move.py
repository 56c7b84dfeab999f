"""REORGANIZE PARTITION, PARTITION BY and REMOVE PARTITIONING: rows move into other partitions.

    absent -> delete only -> write only -> write reorganization =move, verify=>
        delete reorganization -> public -> absent

The *other* set of partitions is written beside the one that is read, by the duty of the state:

    delete only               rows that change are removed from the new set
    write only, write reorg   every write is done in both sets
    delete reorganization     readers have switched; the old set is still written, so this can be
                              undone
    public                    the old set is written no more
    absent                    it is left to be emptied

Two neighbours of that row are always compatible, as for an index (F1). Undo walks back through
write only and delete only, and leaves the new set to be emptied. A table without partitions is for
that time one whose only partition is all of it (type none); REMOVE PARTITIONING ends with the one
partition's id as the place of the table's rows (`exuvia_physical`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrPartitionMgmtOnNonpartitioned,
    ErrUnsupportedDDLOperation,
    ErrWrongPartitionName,
)
from exuvia.catalog.model import (
    DatabaseInfo,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.placement import refs_in
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.partition import (
    PARTITION,
    partition_of,
    ranges_of,
    with_partition,
)
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, StepWait
from exuvia.ddl.elements import the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.pipeline import reorg

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC
WRITE_ONLY, DELETE_ONLY = SchemaState.WRITE_ONLY, SchemaState.DELETE_ONLY
WRITE_REORG, DELETE_REORG = SchemaState.WRITE_REORG, SchemaState.DELETE_REORG
WHOLE_TABLE = "pFullTable"


class MovePartitionsArgs(NamedTuple):
    """What is asked: the partitions to move, () for all; the new ones and how they are cut; who
    finds a row's partition (pipeline/kernels/move.py). The job asks for an id for each new one."""

    names: tuple[str, ...]
    target: PartitionInfo
    router: str


def move_rows(
    code: ActionCode,
    database: DatabaseInfo,
    table: TableInfo,
    names: Sequence[str],
    target: PartitionInfo,
    router: str,
    *,
    query: str = "",
) -> Job:
    """REORGANIZE PARTITION, PARTITION BY, REMOVE PARTITIONING."""
    asked = MovePartitionsArgs(tuple(names), target, router)
    job = job_for(code, database, table, asked, query)
    given = refs_in(target.definitions)
    return evolve(job, exuvia_ids=(0,) * len(target.definitions), exuvia_policies=given)


def target_of(job: Job) -> PartitionInfo:
    """The new set and how it is cut, under the ids the job was given."""
    return arguments(job, MovePartitionsArgs).target.with_ids(job.exuvia_ids)


def as_partitioned(snapshot: CatalogSnapshot) -> PartitionInfo:
    """The table's partitions; for a table without, the one that is all of it."""
    table = the_table(snapshot)
    if table.partition is not None:
        return table.partition
    whole = PartitionDefinition(id=table.physical_ids[0], name=name(WHOLE_TABLE))
    return PartitionInfo(type=PartitionType.NONE, definitions=(whole,), num=1)


def partitions_to_move_are_there(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    wanted, partition = arguments(job, MovePartitionsArgs).names, the_table(snapshot).partition
    if partition is None:
        return ErrPartitionMgmtOnNonpartitioned() if wanted else None
    known = all(partition.definition(text) is not None for text in wanted)
    return None if known else ErrWrongPartitionName()


def an_index_is_global(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200: both sets of partitions would have to be in it."""
    for index in the_table(snapshot).global_indexes:
        said = f"{job.action_text} of a table with the global index '{index.idx_name.O}'"
        return ErrUnsupportedDDLOperation(said)
    return None


def an_index_holds_not_every_row(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200: what moves rows moves one entry of each with them."""
    for index in the_table(snapshot).indexes:
        if index.is_partial:
            said = "partial index is not supported on partitioned table"
            return ErrUnsupportedDDLOperation(f"add partial index: {said}")
        if index.is_multi_valued:
            said = f"partitions of a table with the multi-valued index '{index.idx_name.O}'"
            return ErrUnsupportedDDLOperation(said)
    return None


def place_new(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The new set stands beside the old one."""
    partition, target = as_partitioned(snapshot), target_of(job)
    names = arguments(job, MovePartitionsArgs).names
    gone = tuple(each for each in partition.definitions if not names or each.name.L in names)
    placed = evolve(
        partition,
        adding_definitions=target.definitions,
        dropping_definitions=gone,
        ddl_type=target.type,
        ddl_expr=target.expr,
        ddl_columns=target.columns,
        exuvia_ddl_empty_columns=target.is_empty_columns,
    )
    return job, with_partition(snapshot, placed)


def switch(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Readers read the new set; the other one is the old."""
    partition = partition_of(snapshot)
    return job, with_partition(
        snapshot, _crossed(partition, partition.dropping_definitions, partition.adding_definitions)
    )


def switch_back(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Readers read the old set again."""
    partition = partition_of(snapshot)
    return job, with_partition(
        snapshot, _crossed(partition, partition.adding_definitions, partition.dropping_definitions)
    )


def _crossed(
    partition: PartitionInfo,
    old: tuple[PartitionDefinition, ...],
    new: tuple[PartitionDefinition, ...],
) -> PartitionInfo:
    """`new` stands where `old` stood, and the two ways to cut change places."""
    gone = {each.id for each in old}
    at = next(n for n, each in enumerate(partition.definitions) if each.id in gone)
    kept = [each for each in partition.definitions if each.id not in gone]
    before = [each for each in partition.definitions[:at] if each.id not in gone]
    definitions = (*before, *new, *kept[len(before) :])
    return evolve(
        partition,
        definitions=definitions,
        num=len(definitions),
        type=partition.ddl_type,
        expr=partition.ddl_expr,
        columns=partition.ddl_columns,
        is_empty_columns=partition.exuvia_ddl_empty_columns,
        ddl_type=partition.type,
        ddl_expr=partition.expr,
        ddl_columns=partition.columns,
        exuvia_ddl_empty_columns=partition.is_empty_columns,
    )


def forget_old(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Nothing of the old set is left; a table with one whole partition has none."""
    partition = _at_rest(partition_of(snapshot))
    if partition.type != PartitionType.NONE:
        return job, with_partition(snapshot, partition)
    (whole,) = partition.definitions
    table = evolve(the_table(snapshot), partition=None, exuvia_physical=whole.id)
    return job, evolve(snapshot, table=table)


def forget_new(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Nothing of the new set is left."""
    partition = _at_rest(partition_of(snapshot))
    kept = None if partition.type == PartitionType.NONE else partition
    return job, with_partition(snapshot, kept)


def _at_rest(partition: PartitionInfo) -> PartitionInfo:
    return evolve(
        partition,
        adding_definitions=(),
        dropping_definitions=(),
        ddl_type=PartitionType.NONE,
        ddl_expr="",
        ddl_columns=(),
        exuvia_ddl_empty_columns=False,
    )


def move_and_verify(
    job: Job, snapshot: CatalogSnapshot, router: str = "", *, joins: bool = False
) -> Refused | StepWait | None:
    """Every row is in both sets, and they have been compared (law 9). `router`: if it is not an
    argument of the job; `joins`: the new set has rows of its own, too."""
    if snapshot.failure is not None:
        return snapshot.failure
    if snapshot.filled:
        return None
    partition = partition_of(snapshot)
    sources = tuple(each.id for each in partition.dropping_definitions)
    targets = tuple(each.id for each in partition.adding_definitions)
    router = router or arguments(job, MovePartitionsArgs).router
    return StepWait("", reorg.move_rows(router, sources, targets, joins=joins))


def old_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All that lies under the ids of the old set."""
    return ranges_of(partition_of(snapshot).dropping_definitions)


def new_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All that lies under the ids of the new set."""
    return ranges_of(partition_of(snapshot).adding_definitions)


def partitions_moved(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """Readers have other partitions."""
    kinds = {
        ActionCode.REORGANIZE_PARTITION: "reorganize partition",
        ActionCode.PARTITION_BY: "alter table partitioning",
        ActionCode.REMOVE_PARTITIONING: "remove partitioning",
    }
    partition = partition_of(before)
    return JobEvent(
        type=kinds[job.type],
        table=after.table,
        elements=(job.table_id,),
        added=partition.adding_definitions,
        removed=partition.dropping_definitions,
    )


def _move(label: str, code: ActionCode) -> Action:
    return load(
        Action(
            label,
            code,
            PARTITION,
            refuses=(
                table_is_missing,
                partitions_to_move_are_there,
                an_index_is_global,
                an_index_holds_not_every_row,
            ),
            path=(
                Step(ABSENT, DELETE_ONLY, edit=place_new),
                Step(DELETE_ONLY, WRITE_ONLY),
                Step(WRITE_ONLY, WRITE_REORG),
                Step(WRITE_REORG, DELETE_REORG, edit=switch, after=move_and_verify),
                Step(DELETE_REORG, PUBLIC),
            ),
            post_commit=(
                Step(PUBLIC, ABSENT, edit=forget_old, leaves=old_ranges, event=partitions_moved),
            ),
            undo=Action(
                "keep partitions",
                code,
                PARTITION,
                path=(
                    Step(DELETE_REORG, WRITE_ONLY, edit=switch_back),
                    Step(WRITE_ONLY, DELETE_ONLY),
                    Step(DELETE_ONLY, ABSENT, edit=forget_new, leaves=new_ranges),
                ),
            ),
            reorg=True,
            alterable=True,
        )
    )


REORGANIZE_PARTITION = _move("alter table reorganize partition", ActionCode.REORGANIZE_PARTITION)
PARTITION_BY = _move("alter table partition by", ActionCode.PARTITION_BY)
REMOVE_PARTITIONING = _move("alter table remove partitioning", ActionCode.REMOVE_PARTITIONING)

ACTIONS = (REORGANIZE_PARTITION, PARTITION_BY, REMOVE_PARTITIONING)
