"""ADD, DROP and TRUNCATE PARTITION: no row is read or written, unless indexes are global.

    ADD        absent -> replica only -> public           nobody knows it until it is public
    DROP       public -> write only -> delete only -> delete reorganization -> absent
    TRUNCATE   public -> write only -> delete only -> delete reorganization -> absent

    DROP        write only: neither read nor written, values of its range are refused (1526)
                delete only: gone; the range of the next partition, or DEFAULT, takes its values
    TRUNCATE    write only: new ids stand ready; delete only: they are used, the old ones are not

Entries of global indexes that name rows of such a partition (tests/laws has the model):

    first step        1062 for who would put another row under the key: writers one state behind
                      still read and write those rows
    dead              nobody does: the entry counts as absent. DROP from delete only on, TRUNCATE
                      from delete reorganization on (`PartitionInfo.dead`)
    delete reorg      they are removed, by the partition's rows (pipeline/kernels/clean.py), before
                      the rows are left to be emptied

Readers leave out what names a partition that they do not read, in every state.

A dropped id is out of use two revisions before its range is left to be emptied: whoever could still
write there is refused by then (law 1), and with the metadata lock has been waited for. So no writer
of the other partitions is refused. Undo of ADD forgets the new partitions; that of TRUNCATE, until
the new ids are used, likewise.
"""

from collections.abc import Sequence
from typing import NamedTuple

from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import (
    ErrDropLastPartition,
    ErrDropPartitionNonExistent,
    ErrInfoSchemaChanged,
    ErrPartitionMgmtOnNonpartitioned,
    ErrSameNamePartition,
    ErrUnknownPartition,
)
from exuvia.catalog.model import (
    DatabaseInfo,
    PartitionDefinition,
    PartitionInfo,
    SchemaState,
    TableInfo,
    evolve,
)
from exuvia.catalog.placement import refs_in
from exuvia.ddl.action import Action, After, Element, Publish, Step, load
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, StepWait
from exuvia.ddl.elements import range_of_physical, the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.pipeline import reorg

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC
WRITE_ONLY, DELETE_ONLY = SchemaState.WRITE_ONLY, SchemaState.DELETE_ONLY
DELETE_REORG, REPLICA_ONLY = SchemaState.DELETE_REORG, SchemaState.REPLICA_ONLY
_AT_REST = (ABSENT, PUBLIC)


class AddPartitionArgs(NamedTuple):
    """What ADD PARTITION is asked; the job asks for an id for each."""

    definitions: tuple[PartitionDefinition, ...]


class NamedPartitionsArgs(NamedTuple):
    """What DROP and TRUNCATE PARTITION are asked; TRUNCATE asks for an id for each."""

    names: tuple[str, ...]


def add_partition(
    database: DatabaseInfo,
    table: TableInfo,
    definitions: Sequence[PartitionDefinition],
    *,
    query: str = "",
) -> Job:
    """ADD PARTITION (definitions) of RANGE and LIST."""
    asked = AddPartitionArgs(tuple(definitions))
    job = job_for(ActionCode.ADD_PARTITION, database, table, asked, query)
    given = refs_in(definitions)
    return evolve(job, exuvia_ids=(0,) * len(definitions), exuvia_policies=given)


def drop_partition(
    database: DatabaseInfo, table: TableInfo, names: Sequence[str], *, query: str = ""
) -> Job:
    """DROP PARTITION."""
    asked = NamedPartitionsArgs(tuple(names))
    return _cleaning(job_for(ActionCode.DROP_PARTITION, database, table, asked, query), table)


def _cleaning(job: Job, table: TableInfo) -> Job:
    """It takes a reorg worker where global indexes are to be cleaned."""
    return evolve(job, reorg_meta={}) if table.global_indexes else job


def has_clean_path(job: Job) -> bool:
    """Whether it was asked for while the table had global indexes."""
    return job.reorg_meta is not None


def truncate_partition(
    database: DatabaseInfo, table: TableInfo, names: Sequence[str], *, query: str = ""
) -> Job:
    """TRUNCATE PARTITION."""
    job = job_for(
        ActionCode.TRUNCATE_PARTITION, database, table, NamedPartitionsArgs(tuple(names)), query
    )
    return evolve(_cleaning(job, table), exuvia_ids=(0,) * len(names))


def partition_of(snapshot: CatalogSnapshot) -> PartitionInfo:
    """The table's partitions, which the refusals have made sure of. Raises Broken."""
    found = the_table(snapshot).partition
    if found is None:
        raise Broken("the partitions of a running job are gone")
    return found


def with_partition(snapshot: CatalogSnapshot, partition: PartitionInfo | None) -> CatalogSnapshot:
    """The snapshot with the table cut so."""
    return evolve(snapshot, table=evolve(the_table(snapshot), partition=partition))


def move_partition(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The state and the action stand in the partitions while they change."""
    partition = the_table(snapshot).partition
    if partition is None:
        return snapshot
    at_rest = state in _AT_REST
    code = 0 if at_rest else int(job.type)
    moved = evolve(partition, ddl_state=ABSENT if at_rest else state, ddl_action=code)
    return with_partition(snapshot, moved)


PARTITION = Element("partition", follows_rows=False, move=move_partition)


def named(names: tuple[str, ...], table: TableInfo) -> tuple[PartitionDefinition, ...]:
    """The partitions of these names."""
    if table.partition is None:
        return ()
    found = (table.partition.definition(text) for text in names)
    return tuple(each for each in found if each is not None)


def _names(job: Job) -> tuple[str, ...]:
    return arguments(job, NamedPartitionsArgs).names


def definitions_of(job: Job) -> tuple[PartitionDefinition, ...]:
    """The partitions that ADD asks for, under the ids the job was given."""
    pairs = zip(arguments(job, AddPartitionArgs).definitions, job.exuvia_ids, strict=True)
    return tuple(evolve(each, id=number) for each, number in pairs)


def ranges_of(gone: tuple[PartitionDefinition, ...]) -> tuple[DeleteRange, ...]:
    """Rows and entries of partitions. Nobody brings them back: they are not kept."""
    return tuple(range_of_physical(each.id) for each in gone)


# -- refusals --------------------------------------------------------------------------------------


def table_is_not_partitioned(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    return None if the_table(snapshot).partition is not None else ErrPartitionMgmtOnNonpartitioned()


def partition_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    for each in definitions_of(job):
        if partition_of(snapshot).definition(each.name.L) is not None:
            return ErrSameNamePartition(each.name.O)
    return None


def partition_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    table = the_table(snapshot)
    words: dict[ActionCode, str] = {ActionCode.DROP_PARTITION: "DROP"}
    names = _names(job)
    if len(named(names, table)) == len(names):
        return None
    if job.type in words:
        return ErrDropPartitionNonExistent(words[job.type])
    unknown = next(t for t in names if partition_of(snapshot).definition(t) is None)
    return ErrUnknownPartition(unknown, table.name.O)


def partitions_are_all(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    all_of_them = len(partition_of(snapshot).definitions) == len(_names(job))
    return ErrDropLastPartition() if all_of_them else None


def global_index_has_come(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """Another job made one since this was asked for: nothing here would clean it."""
    came = the_table(snapshot).global_indexes and not has_clean_path(job)
    return ErrInfoSchemaChanged() if came else None


# -- ADD -------------------------------------------------------------------------------------------


def place_added(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The new ones stand beside the others; nobody reads or writes them."""
    partition = evolve(partition_of(snapshot), adding_definitions=definitions_of(job))
    return job, with_partition(snapshot, partition)


def show_added(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The new ones are behind the others."""
    partition = partition_of(snapshot)
    definitions = (*partition.definitions, *partition.adding_definitions)
    shown = evolve(partition, definitions=definitions, adding_definitions=(), num=len(definitions))
    return job, with_partition(snapshot, shown)


def forget_changes(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """As if nothing had begun."""
    partition = evolve(partition_of(snapshot), adding_definitions=(), dropping_definitions=())
    return job, with_partition(snapshot, partition)


def partitions_added(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    return JobEvent(type="add partition", table=after.table, added=definitions_of(job))


# -- DROP ------------------------------------------------------------------------------------------


def hide_dropped(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """They are neither read nor written; values of theirs go nowhere."""
    partition = partition_of(snapshot)
    return job, with_partition(
        snapshot, evolve(partition, dropping_definitions=named(_names(job), the_table(snapshot)))
    )


def remove_dropped(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Others take their values."""
    partition = partition_of(snapshot)
    gone = {each.id for each in partition.dropping_definitions}
    kept = tuple(each for each in partition.definitions if each.id not in gone)
    return job, with_partition(snapshot, evolve(partition, definitions=kept, num=len(kept)))


def forget_dropped(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Nothing of them is left in the table."""
    return job, with_partition(snapshot, evolve(partition_of(snapshot), dropping_definitions=()))


def dropped_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All that lies under the dropped ids."""
    return ranges_of(partition_of(snapshot).dropping_definitions)


def global_indexes_are_clean(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """No entry names a row of the dropped partitions."""
    if snapshot.failure is not None:
        return snapshot.failure
    indexes = tuple(index.id for index in the_table(snapshot).global_indexes)
    if snapshot.filled or not indexes:
        return None
    gone = tuple(each.id for each in partition_of(snapshot).dropping_definitions)
    return StepWait("", reorg.clean_indexes(indexes, gone))


def _emptied(event: Publish, after: After | None = None) -> tuple[Step, ...]:
    """Two revisions after they were used last the dropped ids are left to be emptied."""
    return (
        Step(DELETE_ONLY, DELETE_REORG),
        Step(
            DELETE_REORG,
            ABSENT,
            edit=forget_dropped,
            after=after,
            leaves=dropped_ranges,
            event=event,
        ),
    )


def partitions_dropped(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    gone = partition_of(before).dropping_definitions
    return JobEvent(type="drop partition", table=after.table, removed=gone)


# -- TRUNCATE --------------------------------------------------------------------------------------


def prepare_empty(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The same partitions under new ids stand ready."""
    old = named(_names(job), the_table(snapshot))
    pairs = zip(old, job.exuvia_ids, strict=True)
    new = tuple(evolve(each, id=number) for each, number in pairs)
    partition = evolve(partition_of(snapshot), adding_definitions=new, dropping_definitions=old)
    return job, with_partition(snapshot, partition)


def use_empty(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The new ids take the places of the old ones."""
    partition = partition_of(snapshot)
    new = {each.name.L: each for each in partition.adding_definitions}
    definitions = tuple(new.get(each.name.L, each) for each in partition.definitions)
    return job, with_partition(
        snapshot, evolve(partition, definitions=definitions, adding_definitions=())
    )


def partitions_truncated(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """They are empty, under new ids."""
    gone = partition_of(before).dropping_definitions
    new = named(_names(job), the_table(after))
    return JobEvent(type="truncate partition", table=after.table, added=new, removed=gone)


FORGET_ADDED = Action(
    "forget partition",
    ActionCode.ADD_PARTITION,
    PARTITION,
    path=(Step(REPLICA_ONLY, ABSENT, edit=forget_changes),),
)
ADD_PARTITION = load(
    Action(
        "add partition",
        ActionCode.ADD_PARTITION,
        PARTITION,
        refuses=(table_is_missing, table_is_not_partitioned, partition_name_is_taken),
        path=(
            Step(ABSENT, REPLICA_ONLY, edit=place_added),
            Step(REPLICA_ONLY, PUBLIC, edit=show_added, event=partitions_added),
        ),
        undo=FORGET_ADDED,
    )
)
DROP_PARTITION = load(
    Action(
        "drop partition",
        ActionCode.DROP_PARTITION,
        PARTITION,
        refuses=(
            table_is_missing,
            table_is_not_partitioned,
            partition_is_unknown,
            partitions_are_all,
            global_index_has_come,
        ),
        path=(
            Step(PUBLIC, WRITE_ONLY, edit=hide_dropped),
            Step(WRITE_ONLY, DELETE_ONLY, edit=remove_dropped),
            *_emptied(partitions_dropped),
        ),
    )
)
_DROP_CLEANING = load(
    DROP_PARTITION._replace(
        path=(
            *DROP_PARTITION.path[:2],
            *_emptied(partitions_dropped, global_indexes_are_clean),
        )
    )
)
KEEP_ROWS = Action(
    "keep partition",
    ActionCode.TRUNCATE_PARTITION,
    PARTITION,
    path=(Step(WRITE_ONLY, PUBLIC, edit=forget_changes),),
)
TRUNCATE_PARTITION = load(
    Action(
        "truncate partition",
        ActionCode.TRUNCATE_PARTITION,
        PARTITION,
        refuses=(
            table_is_missing,
            table_is_not_partitioned,
            partition_is_unknown,
            global_index_has_come,
        ),
        path=(
            Step(PUBLIC, WRITE_ONLY, edit=prepare_empty),
            Step(WRITE_ONLY, DELETE_ONLY, edit=use_empty),
        ),
        post_commit=_emptied(partitions_truncated),
        undo=KEEP_ROWS,
    )
)
_TRUNCATE_CLEANING = load(
    TRUNCATE_PARTITION._replace(
        post_commit=_emptied(partitions_truncated, global_indexes_are_clean)
    )
)

ACTIONS = (
    ADD_PARTITION,
    DROP_PARTITION._replace(
        choose=lambda job: _DROP_CLEANING if has_clean_path(job) else DROP_PARTITION
    ),
    TRUNCATE_PARTITION._replace(
        choose=lambda job: _TRUNCATE_CLEANING if has_clean_path(job) else TRUNCATE_PARTITION
    ),
)
