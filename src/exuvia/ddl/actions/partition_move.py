"""REORGANIZE PARTITION, PARTITION BY and REMOVE PARTITIONING: rows move into other partitions.

    absent -> delete only =renumber=> write only -> write reorganization =move, verify=>
        delete reorganization -> public -> absent

Readers use one set of partitions. Writers also write the *other set*, by the duty of the state:

    delete only               rows that change are removed from the new set
    write only, write reorg   every write is done in both sets
    delete reorganization     readers have switched; the old set is still written, so this can be
                              undone
    public                    the old set is no longer written
    absent                    the old set is emptied

Neighbours in this sequence are always compatible, as for an index (F1). Undo walks back through
write only and delete only, and the new set is emptied. A table without partitions is treated as one
with a single partition for the whole table (type none). REMOVE PARTITIONING ends with that
partition's id as the id of the table's rows (`exuvia_physical`). PARTITION BY leaves that id as it
is, so it remains the id of the whole table's statistics.

Rows keep their hidden ids. After EXCHANGE PARTITION, two partitions that move may have rows with
the same hidden id. Such rows get new ids before the first copy is written
(pipeline/kernels/renumber.py).

An entry of a global index contains a partition, and a unique key has only one entry. So from the
first step on each global index has a hidden counterpart. It contains the rows of the new set and of
the remaining partitions. Both walk with the partitions (`index_states`):

    partitions              old index       new index
    delete only             public          delete only
    write only, w. reorg    public          the same      filled once all rows are there
    delete reorganization   write only      public        under the name of the old one
    public                  delete only     public

An index that becomes global or local also has a counterpart. A local one is maintained with the
rows of its set, whatever its state.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrForeignKeyOnPartitioned,
    ErrPartitionMgmtOnNonpartitioned,
    ErrUnsupportedDDLOperation,
    ErrWrongPartitionName,
)
from exuvia.catalog.model import (
    DatabaseInfo,
    IndexInfo,
    KeyAlgorithm,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.placement import refs_in
from exuvia.ddl.action import (
    Action,
    Element,
    Refuse,
    Step,
    Uses,
    always,
    leaves,
    load,
    of_whole_table,
)
from exuvia.ddl.actions.partition import (
    move_partition,
    partition_of,
    ranges_of,
    with_partition,
)
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.decision import StepWait
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import (
    indexes_in,
    ranges_of_index,
    reads_children,
    reflag,
    table_with_children,
    the_table,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.ddl.snapshot import CatalogSnapshot
from exuvia.pipeline import reorg

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC
WRITE_ONLY, DELETE_ONLY = SchemaState.WRITE_ONLY, SchemaState.DELETE_ONLY
WRITE_REORG, DELETE_REORG = SchemaState.WRITE_REORG, SchemaState.DELETE_REORG
WHOLE_TABLE = "pFullTable"


class MovePartitionsArgs(NamedTuple):
    """Arguments of a move. The job needs an id for each new partition, and one for global indexes.

    names       the partitions to move, () for all
    target      the new partitions and their partitioning
    router      the function that finds a row's partition (pipeline/kernels/move.py)
    kinds       indexes that become global (True) or local, by their names in lower case
    """

    names: tuple[str, ...]
    target: PartitionInfo
    router: str
    kinds: tuple[tuple[str, bool], ...] = ()


def move_rows(
    code: ActionCode,
    database: DatabaseInfo,
    table: TableInfo,
    names: Sequence[str],
    target: PartitionInfo,
    router: str,
    kinds: Mapping[str, bool] | None = None,
    *,
    query: str = "",
) -> Job:
    """REORGANIZE PARTITION, PARTITION BY, REMOVE PARTITIONING.

    `kinds`: indexes that become global (True) or local.
    """
    kinds = kinds or {}
    args = MovePartitionsArgs(tuple(names), target, router, tuple(kinds.items()))
    job = job_for(code, database, table, args if kinds else args[:-1], query)  # as 0.4.0 reads it
    ids = len(target.definitions) + any(kinds.values())
    return evolve(job, exuvia_ids=(0,) * ids, exuvia_policies=refs_in(target.definitions))


def target_of(job: Job) -> PartitionInfo:
    """The new partitions and their partitioning, with the job's ids."""
    target = arguments(job, MovePartitionsArgs).target
    return target.with_ids(job.exuvia_ids[: len(target.definitions)])


def as_partitioned(snapshot: CatalogSnapshot) -> PartitionInfo:
    """The table's partitions; for a table without partitions, a single one for all of it."""
    table = the_table(snapshot)
    if table.partition is not None:
        return table.partition
    whole = PartitionDefinition(id=table.physical_ids[0], name=name(WHOLE_TABLE))
    return PartitionInfo(type=PartitionType.NONE, definitions=(whole,), num=1)


def index_states(state: SchemaState) -> tuple[SchemaState, SchemaState]:
    """States of the old and the new index of a pair, while the partitions are in that state."""
    if state in (DELETE_REORG, PUBLIC):
        return WRITE_ONLY if state == DELETE_REORG else DELETE_ONLY, PUBLIC
    return PUBLIC, state


def partitions_to_move_are_there(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    names, partition = arguments(job, MovePartitionsArgs).names, the_table(snapshot).partition
    if partition is None:
        return ErrPartitionMgmtOnNonpartitioned() if names else None
    all_exist = all(partition.definition(text) is not None for text in names)
    return None if all_exist else ErrWrongPartitionName()


def an_index_is_partial(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200, as in TiDB."""
    if any(index.is_partial for index in the_table(snapshot).indexes):
        reason = "partial index is not supported on partitioned table"
        return ErrUnsupportedDDLOperation(f"add partial index: {reason}")
    return None


def place_new(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The new set is in the table, next to the old one."""
    partition, target = as_partitioned(snapshot), target_of(job)
    names = arguments(job, MovePartitionsArgs).names
    moving = tuple(
        definition
        for definition in partition.definitions
        if not names or definition.name.L in names
    )
    placed = evolve(
        partition,
        adding_definitions=target.definitions,
        dropping_definitions=moving,
        ddl_type=target.type,
        ddl_expr=target.expr,
        ddl_columns=target.columns,
        exuvia_ddl_empty_columns=target.is_empty_columns,
        exuvia_ddl_key_algorithm=target.exuvia_key_algorithm,
    )
    return job, _with_pairs(job, with_partition(snapshot, placed))


def _with_pairs(job: Job, snapshot: CatalogSnapshot) -> CatalogSnapshot:
    """Each index that is global, or becomes global, has a hidden counterpart after it."""
    table, partition = the_table(snapshot), partition_of(snapshot)
    kinds = dict(arguments(job, MovePartitionsArgs).kinds)
    stays_cut = partition.ddl_type != PartitionType.NONE
    indexes: list[IndexInfo] = []
    pairs: list[tuple[int, int]] = []
    for old in table.indexes:
        indexes.append(old)
        becomes = stays_cut and kinds.get(old.idx_name.L, old.is_global)
        if old.state == PUBLIC and (old.is_global or becomes):
            pairs.append((old.id, table.max_idx_id + 1 + len(pairs)))
            hidden_name = name(f"_Idx$_{old.idx_name.O}_0")
            new = evolve(
                old, id=pairs[-1][1], idx_name=hidden_name, is_global=becomes, state=ABSENT
            )
            indexes.append(new)
    if not pairs:
        return snapshot
    home = partition.exuvia_home or (job.exuvia_ids[-1] if any(kinds.values()) else 0)
    cut = evolve(partition, exuvia_index_pairs=tuple(pairs), exuvia_home=home)
    most = table.max_idx_id + len(pairs)
    placed = evolve(table, partition=cut, index_info=tuple(indexes), max_idx_id=most)
    return evolve(snapshot, table=placed)


def switch(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Readers use the new set; the old one becomes the other set."""
    partition = partition_of(snapshot)
    table = _renamed(the_table(snapshot), dict(partition.exuvia_index_pairs))
    return job, with_partition(evolve(snapshot, table=table), partition.switched)


def switch_back(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Readers use the old set again."""
    partition = partition_of(snapshot)
    table = _renamed(the_table(snapshot), {new: old for old, new in partition.exuvia_index_pairs})
    back = partition.crossed(partition.adding_definitions, partition.dropping_definitions)
    return job, with_partition(evolve(snapshot, table=table), back)


def _renamed(table: TableInfo, pairs: dict[int, int]) -> TableInfo:
    """The table with the names of the indexes of each pair swapped."""
    names = {index.id: index.idx_name for index in table.indexes}
    for one, other in pairs.items():
        names[one], names[other] = names[other], names[one]
    indexes = tuple(evolve(index, idx_name=names[index.id]) for index in table.indexes)
    return evolve(table, index_info=indexes or None)


def forget_old(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table without the old set, and without partitions if only one is left for all of it."""
    snapshot = _without_indexes(snapshot, {old for old, _ in _pairs(snapshot)})
    partition = _at_rest(partition_of(snapshot))
    if partition.type != PartitionType.NONE:
        return job, with_partition(snapshot, partition)
    (whole,) = partition.definitions
    table = evolve(the_table(snapshot), partition=None, exuvia_physical=whole.id)
    return job, evolve(snapshot, table=table)


def forget_new(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table without the new set."""
    snapshot = _without_indexes(snapshot, {new for _, new in _pairs(snapshot)})
    partition = _at_rest(partition_of(snapshot))
    remaining = None if partition.type == PartitionType.NONE else partition
    return job, with_partition(snapshot, remaining)


def _pairs(snapshot: CatalogSnapshot) -> tuple[tuple[int, int], ...]:
    return partition_of(snapshot).exuvia_index_pairs


def _without_indexes(snapshot: CatalogSnapshot, ids: set[int]) -> CatalogSnapshot:
    table = the_table(snapshot)
    remaining = tuple(index for index in table.indexes if index.id not in ids)
    return evolve(snapshot, table=evolve(table, index_info=remaining or None))


def move_with_indexes(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The partitions in that state, and the paired indexes in theirs."""
    snapshot = move_partition(job, snapshot, state)
    cut = the_table(snapshot).partition
    if cut is None or not cut.exuvia_index_pairs:
        return snapshot
    old_ids, new_ids = zip(*cut.exuvia_index_pairs, strict=True)
    old, new = index_states(state)
    table = indexes_in(indexes_in(the_table(snapshot), old_ids, old), new_ids, new)
    return evolve(snapshot, table=reflag(table))


MOVED = Element("partition", follows_rows=False, move=move_with_indexes)


def _at_rest(partition: PartitionInfo) -> PartitionInfo:
    return evolve(
        partition,
        adding_definitions=(),
        dropping_definitions=(),
        ddl_type=PartitionType.NONE,
        ddl_expr="",
        ddl_columns=(),
        exuvia_ddl_empty_columns=False,
        exuvia_ddl_key_algorithm=KeyAlgorithm.SORT_KEYS,
        exuvia_index_pairs=(),
    )


def ids_differ(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """A wait until rows that move have different hidden ids."""
    sources = tuple(definition.id for definition in partition_of(snapshot).dropping_definitions)
    table = the_table(snapshot)
    has_handles = table.pk_is_handle or table.is_common_handle
    if snapshot.reorg.filled or len(sources) < 2 or has_handles:
        return None
    return StepWait("", reorg.renumber_rows(sources))


def move_and_verify(
    job: Job, snapshot: CatalogSnapshot, router: str = "", *, joins: bool = False
) -> Refused | StepWait | None:
    """A wait until every row is in both sets, and both are compared (law 9).

    `router`: if it is not an argument of the job. `joins`: the new set also has rows of its own.
    """
    if snapshot.reorg.filled:
        return None
    partition = partition_of(snapshot)
    sources = tuple(definition.id for definition in partition.dropping_definitions)
    targets = tuple(definition.id for definition in partition.adding_definitions)
    router = router or arguments(job, MovePartitionsArgs).router
    new = {index_id for _, index_id in partition.exuvia_index_pairs}
    spread = tuple(index.id for index in the_table(snapshot).global_indexes if index.id in new)
    staying = tuple(definition.id for definition in partition.staying)
    plan = reorg.move_rows(router, sources, targets, joins=joins, spread=spread, staying=staying)
    return StepWait("", plan)


def old_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """Everything of the old set and its global indexes; tombstones of the new ones."""
    rows_and_entries = ranges_of(partition_of(snapshot).dropping_definitions)
    pairs = _pairs(snapshot)
    return (
        *rows_and_entries,
        *_ranges_of_pairs(snapshot, [o for o, _ in pairs], [n for _, n in pairs]),
    )


def new_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """Everything of the new set and its global indexes; tombstones of the old ones.

    The old ones have tombstones from the time in which they were hidden.
    """
    rows_and_entries = ranges_of(partition_of(snapshot).adding_definitions)
    pairs = _pairs(snapshot)
    return (
        *rows_and_entries,
        *_ranges_of_pairs(snapshot, [n for _, n in pairs], [o for o, _ in pairs]),
    )


def _ranges_of_pairs(
    snapshot: CatalogSnapshot, removed: list[int], remaining: list[int]
) -> Iterator[DeleteRange]:
    table = the_table(snapshot)
    for index in table.global_indexes:
        for delete_range in ranges_of_index(table, index.id):
            if index.id in removed:
                yield delete_range
            elif index.id in remaining:
                yield evolve(delete_range, tombstones_only=True)


def partitions_moved(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once readers use the new partitions."""
    kinds = {
        ActionCode.REORGANIZE_PARTITION: "reorganize partition",
        ActionCode.PARTITION_BY: "alter table partitioning",
        ActionCode.REMOVE_PARTITIONING: "remove partitioning",
    }
    partition = partition_of(before)
    return JobEvent(
        type=kinds[job.type],
        table=after.table,
        elements=(the_table(before).statistics_id,),
        added=partition.adding_definitions,
        removed=partition.dropping_definitions,
    )


def foreign_keys_came(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1506: foreign keys were added since the statement was built."""
    table = table_with_children(snapshot)
    is_joined = bool(table.foreign_keys or table.exuvia_referred)
    return ErrForeignKeyOnPartitioned() if is_joined else None


def _move(code: ActionCode, uses: Uses | None = None, refuses: tuple[Refuse, ...] = ()) -> Action:
    return load(
        Action(
            code,
            MOVED,
            refuses=(
                table_is_missing,
                partitions_to_move_are_there,
                an_index_is_partial,
                *refuses,
            ),
            path=(
                Step(ABSENT, DELETE_ONLY, edit=place_new),
                Step(DELETE_ONLY, WRITE_ONLY, after=ids_differ),
                Step(WRITE_ONLY, WRITE_REORG),
                Step(WRITE_REORG, DELETE_REORG, edit=switch, after=move_and_verify),
                Step(DELETE_REORG, PUBLIC),
            ),
            post_commit=(
                Step(
                    PUBLIC,
                    ABSENT,
                    edit=forget_old,
                    causes=(leaves(old_ranges),),
                    event=partitions_moved,
                ),
            ),
            undo=Action(
                code,
                MOVED,
                path=(
                    Step(DELETE_REORG, WRITE_ONLY, edit=switch_back),
                    Step(WRITE_ONLY, DELETE_ONLY),
                    Step(DELETE_ONLY, ABSENT, edit=forget_new, causes=(leaves(new_ranges),)),
                ),
            ),
            reorg=True,
            alterable=True,
            uses=uses,
            reads=reads_children,
            unlogged=always,
        )
    )


REORGANIZE_PARTITION = _move(ActionCode.REORGANIZE_PARTITION)
PARTITION_BY = _move(ActionCode.PARTITION_BY, of_whole_table, (foreign_keys_came,))
REMOVE_PARTITIONING = _move(ActionCode.REMOVE_PARTITIONING, of_whole_table)

ACTIONS = (REORGANIZE_PARTITION, PARTITION_BY, REMOVE_PARTITIONING)
