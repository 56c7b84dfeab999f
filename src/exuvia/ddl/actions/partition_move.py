"""REORGANIZE PARTITION, PARTITION BY and REMOVE PARTITIONING: rows move into other partitions.

    absent -> delete only =renumber=> write only -> write reorganization =move, verify=>
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
partition's id as the place of the table's rows (`exuvia_physical`). PARTITION BY leaves that id as
it is, so it remains the id of the whole table's statistics.

Rows keep their hidden ids. Where two partitions that move may have the same one, since rows came by
EXCHANGE PARTITION, such rows get new ids before the first twin is written
(pipeline/kernels/renumber.py).

A global index names partitions, and a unique key can name only one. So each of them has another
one beside it from the first step on, hidden, which holds the rows of the new set and of the
partitions that stay; both walk with the partitions (`index_states`):

    partitions              old index       new index
    delete only             public          delete only
    write only, w. reorg    public          the same      filled once all rows are there
    delete reorganization   write only      public        under the name of the old one
    public                  delete only     public

An index that becomes global, or local, likewise; a local one is kept as all that lies with the
rows of its set is, whatever its state.
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
from exuvia.ddl.action import Action, Element, Refuse, Step, Uses, load, of_whole_table
from exuvia.ddl.actions.partition import (
    move_partition,
    partition_of,
    ranges_of,
    with_partition,
)
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, StepWait
from exuvia.ddl.elements import (
    indexes_in,
    ranges_of_index,
    reflag,
    table_with_children,
    the_table,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.pipeline import reorg

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC
WRITE_ONLY, DELETE_ONLY = SchemaState.WRITE_ONLY, SchemaState.DELETE_ONLY
WRITE_REORG, DELETE_REORG = SchemaState.WRITE_REORG, SchemaState.DELETE_REORG
WHOLE_TABLE = "pFullTable"


class MovePartitionsArgs(NamedTuple):
    """What is asked: the partitions to move, () for all; the new ones and how they are cut; who
    finds a row's partition (pipeline/kernels/move.py); which indexes become global (True), or local
    ones, by their names in lower case. The job asks for an id for each new partition, and for one
    that global indexes may lie under."""

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
    """REORGANIZE PARTITION, PARTITION BY, REMOVE PARTITIONING. `kinds`: of indexes that become
    global (True), or local ones."""
    kinds = kinds or {}
    asked = MovePartitionsArgs(tuple(names), target, router, tuple(kinds.items()))
    job = job_for(code, database, table, asked if kinds else asked[:-1], query)  # as 0.4.0 reads it
    ids = len(target.definitions) + any(kinds.values())
    return evolve(job, exuvia_ids=(0,) * ids, exuvia_policies=refs_in(target.definitions))


def target_of(job: Job) -> PartitionInfo:
    """The new set and how it is cut, under the ids the job was given."""
    target = arguments(job, MovePartitionsArgs).target
    return target.with_ids(job.exuvia_ids[: len(target.definitions)])


def as_partitioned(snapshot: CatalogSnapshot) -> PartitionInfo:
    """The table's partitions; for a table without, the one that is all of it."""
    table = the_table(snapshot)
    if table.partition is not None:
        return table.partition
    whole = PartitionDefinition(id=table.physical_ids[0], name=name(WHOLE_TABLE))
    return PartitionInfo(type=PartitionType.NONE, definitions=(whole,), num=1)


def index_states(state: SchemaState) -> tuple[SchemaState, SchemaState]:
    """Of the old and the new index of a pair, while the partitions are in that state."""
    if state in (DELETE_REORG, PUBLIC):
        return WRITE_ONLY if state == DELETE_REORG else DELETE_ONLY, PUBLIC
    return PUBLIC, state


def partitions_to_move_are_there(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    wanted, partition = arguments(job, MovePartitionsArgs).names, the_table(snapshot).partition
    if partition is None:
        return ErrPartitionMgmtOnNonpartitioned() if wanted else None
    known = all(partition.definition(text) is not None for text in wanted)
    return None if known else ErrWrongPartitionName()


def an_index_is_partial(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200, as TiDB says."""
    if any(index.is_partial for index in the_table(snapshot).indexes):
        said = "partial index is not supported on partitioned table"
        return ErrUnsupportedDDLOperation(f"add partial index: {said}")
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
        exuvia_ddl_key_algorithm=target.exuvia_key_algorithm,
    )
    return job, _with_pairs(job, with_partition(snapshot, placed))


def _with_pairs(job: Job, snapshot: CatalogSnapshot) -> CatalogSnapshot:
    """Each index that is global, or is to be, has another one behind it."""
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
            hidden = name(f"_Idx$_{old.idx_name.O}_0")
            new = evolve(old, id=pairs[-1][1], idx_name=hidden, is_global=becomes, state=ABSENT)
            indexes.append(new)
    if not pairs:
        return snapshot
    home = partition.exuvia_home or (job.exuvia_ids[-1] if any(kinds.values()) else 0)
    cut = evolve(partition, exuvia_index_pairs=tuple(pairs), exuvia_home=home)
    most = table.max_idx_id + len(pairs)
    placed = evolve(table, partition=cut, index_info=tuple(indexes), max_idx_id=most)
    return evolve(snapshot, table=placed)


def switch(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Readers read the new set; the other one is the old."""
    partition = partition_of(snapshot)
    table = _renamed(the_table(snapshot), dict(partition.exuvia_index_pairs))
    return job, with_partition(evolve(snapshot, table=table), partition.switched)


def switch_back(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Readers read the old set again."""
    partition = partition_of(snapshot)
    table = _renamed(the_table(snapshot), {new: old for old, new in partition.exuvia_index_pairs})
    back = partition.crossed(partition.adding_definitions, partition.dropping_definitions)
    return job, with_partition(evolve(snapshot, table=table), back)


def _renamed(table: TableInfo, pairs: dict[int, int]) -> TableInfo:
    """Of these pairs, shown and hidden index, the other one is shown."""
    names = {each.id: each.idx_name for each in table.indexes}
    for shown, hidden in pairs.items():
        names[shown], names[hidden] = names[hidden], names[shown]
    indexes = tuple(evolve(each, idx_name=names[each.id]) for each in table.indexes)
    return evolve(table, index_info=indexes or None)


def forget_old(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Nothing of the old set is left; a table with one whole partition has none."""
    snapshot = _without_indexes(snapshot, {old for old, _ in _pairs(snapshot)})
    partition = _at_rest(partition_of(snapshot))
    if partition.type != PartitionType.NONE:
        return job, with_partition(snapshot, partition)
    (whole,) = partition.definitions
    table = evolve(the_table(snapshot), partition=None, exuvia_physical=whole.id)
    return job, evolve(snapshot, table=table)


def forget_new(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Nothing of the new set is left."""
    snapshot = _without_indexes(snapshot, {new for _, new in _pairs(snapshot)})
    partition = _at_rest(partition_of(snapshot))
    kept = None if partition.type == PartitionType.NONE else partition
    return job, with_partition(snapshot, kept)


def _pairs(snapshot: CatalogSnapshot) -> tuple[tuple[int, int], ...]:
    return partition_of(snapshot).exuvia_index_pairs


def _without_indexes(snapshot: CatalogSnapshot, ids: set[int]) -> CatalogSnapshot:
    table = the_table(snapshot)
    kept = tuple(each for each in table.indexes if each.id not in ids)
    return evolve(snapshot, table=evolve(table, index_info=kept or None))


def move_with_indexes(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The partitions in that state, and the indexes of pairs with them."""
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
    """No two rows that move have one hidden id."""
    if snapshot.failure is not None:
        return snapshot.failure
    sources = tuple(each.id for each in partition_of(snapshot).dropping_definitions)
    table = the_table(snapshot)
    has_handles = table.pk_is_handle or table.is_common_handle
    if snapshot.filled or len(sources) < 2 or has_handles:
        return None
    return StepWait("", reorg.renumber_rows(sources))


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
    new = {index_id for _, index_id in partition.exuvia_index_pairs}
    spread = tuple(each.id for each in the_table(snapshot).global_indexes if each.id in new)
    staying = tuple(each.id for each in partition.staying)
    plan = reorg.move_rows(router, sources, targets, joins=joins, spread=spread, staying=staying)
    return StepWait("", plan)


def old_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All that lies under the ids of the old set and in its global indexes; tombstones of the new
    ones."""
    gone = ranges_of(partition_of(snapshot).dropping_definitions)
    pairs = _pairs(snapshot)
    return (*gone, *_ranges_of_pairs(snapshot, [o for o, _ in pairs], [n for _, n in pairs]))


def new_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All that lies under the ids of the new set and in its global indexes; tombstones of the old
    ones, which were written while they were hidden."""
    gone = ranges_of(partition_of(snapshot).adding_definitions)
    pairs = _pairs(snapshot)
    return (*gone, *_ranges_of_pairs(snapshot, [n for _, n in pairs], [o for o, _ in pairs]))


def _ranges_of_pairs(
    snapshot: CatalogSnapshot, gone: list[int], kept: list[int]
) -> Iterator[DeleteRange]:
    table = the_table(snapshot)
    for index in table.global_indexes:
        for each in ranges_of_index(table, index.id):
            if index.id in gone:
                yield each
            elif index.id in kept:
                yield evolve(each, tombstones_only=True)


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
        elements=(the_table(before).statistics_id,),
        added=partition.adding_definitions,
        removed=partition.dropping_definitions,
    )


def foreign_keys_came(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1506: since the statement was built."""
    table = table_with_children(snapshot)
    is_joined = bool(table.foreign_keys or table.exuvia_referred)
    return ErrForeignKeyOnPartitioned() if is_joined else None


def _move(
    label: str, code: ActionCode, uses: Uses | None = None, refuses: tuple[Refuse, ...] = ()
) -> Action:
    return load(
        Action(
            label,
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
                Step(PUBLIC, ABSENT, edit=forget_old, leaves=old_ranges, event=partitions_moved),
            ),
            undo=Action(
                "keep partitions",
                code,
                MOVED,
                path=(
                    Step(DELETE_REORG, WRITE_ONLY, edit=switch_back),
                    Step(WRITE_ONLY, DELETE_ONLY),
                    Step(DELETE_ONLY, ABSENT, edit=forget_new, leaves=new_ranges),
                ),
            ),
            reorg=True,
            alterable=True,
            uses=uses,
        )
    )


REORGANIZE_PARTITION = _move("alter table reorganize partition", ActionCode.REORGANIZE_PARTITION)
PARTITION_BY = _move(
    "alter table partition by", ActionCode.PARTITION_BY, of_whole_table, (foreign_keys_came,)
)
REMOVE_PARTITIONING = _move(
    "alter table remove partitioning", ActionCode.REMOVE_PARTITIONING, of_whole_table
)

ACTIONS = (REORGANIZE_PARTITION, PARTITION_BY, REMOVE_PARTITIONING)
