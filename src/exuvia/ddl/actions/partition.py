"""ADD, DROP and TRUNCATE PARTITION: no row is read or written, unless indexes are global.

    ADD        absent -> replica only -> public           not usable until it is public
    DROP       public -> write only -> delete only -> delete reorganization -> absent
    TRUNCATE   public -> write only -> delete only -> delete reorganization -> absent

    DROP        write only: neither read nor written, values of its range are refused (1526)
                delete only: gone; the range of the next partition, or DEFAULT, takes its values
    TRUNCATE    write only: new ids are in the table; delete only: they are used, the old ones not

Entries of global indexes for rows of such a partition (tests/laws has the model):

    first step        1062 for a writer of another row with the key: writers one state earlier
                      still read and write those rows
    dead              no statement uses them: the entry counts as absent. DROP from delete only on,
                      TRUNCATE from delete reorganization on (`PartitionInfo.dead`)
    delete reorg      they are removed, by the partition's rows (pipeline/kernels/clean.py), before
                      the rows are emptied

In every state, readers skip entries of partitions that they do not read.

A dropped id is out of use two revisions before its range is emptied. By then late writers are
refused (law 1), and with the metadata lock they have been waited for. So writers of the other
partitions are not refused. Undo of ADD removes the new partitions; so does undo of TRUNCATE, until
the new ids are used.
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
from exuvia.ddl.action import Action, After, Element, Publish, Step, always, leaves, load
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.decision import StepWait
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import range_of_physical, the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.ddl.snapshot import CatalogSnapshot
from exuvia.pipeline import reorg

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC
WRITE_ONLY, DELETE_ONLY = SchemaState.WRITE_ONLY, SchemaState.DELETE_ONLY
DELETE_REORG, REPLICA_ONLY = SchemaState.DELETE_REORG, SchemaState.REPLICA_ONLY
_AT_REST = (ABSENT, PUBLIC)


class AddPartitionArgs(NamedTuple):
    """Arguments of ADD PARTITION; the job needs an id for each."""

    definitions: tuple[PartitionDefinition, ...]


class NamedPartitionsArgs(NamedTuple):
    """Arguments of DROP and TRUNCATE PARTITION; TRUNCATE needs an id for each."""

    names: tuple[str, ...]


def add_partition(
    database: DatabaseInfo,
    table: TableInfo,
    definitions: Sequence[PartitionDefinition],
    *,
    query: str = "",
) -> Job:
    """ADD PARTITION (definitions) of RANGE and LIST."""
    args = AddPartitionArgs(tuple(definitions))
    job = job_for(ActionCode.ADD_PARTITION, database, table, args, query)
    policies = refs_in(definitions)
    return evolve(job, exuvia_ids=(0,) * len(definitions), exuvia_policies=policies)


def drop_partition(
    database: DatabaseInfo, table: TableInfo, names: Sequence[str], *, query: str = ""
) -> Job:
    """DROP PARTITION."""
    args = NamedPartitionsArgs(tuple(names))
    return _cleaning(job_for(ActionCode.DROP_PARTITION, database, table, args, query), table)


def _cleaning(job: Job, table: TableInfo) -> Job:
    """The job as a reorg job if global indexes have to be cleaned."""
    return evolve(job, reorg_meta={}) if table.global_indexes else job


def has_clean_path(job: Job) -> bool:
    """Whether the table had global indexes when the job was submitted."""
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
    """The table's partitions, which the refusals have checked. Raises Broken."""
    partition = the_table(snapshot).partition
    if partition is None:
        raise Broken("the partitions of a running job are gone")
    return partition


def with_partition(snapshot: CatalogSnapshot, partition: PartitionInfo | None) -> CatalogSnapshot:
    """The snapshot with these partitions of the table."""
    return evolve(snapshot, table=evolve(the_table(snapshot), partition=partition))


def move_partition(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The table's partitions with the job's state and action while they change."""
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
    matches = (table.partition.definition(text) for text in names)
    return tuple(definition for definition in matches if definition is not None)


def _names(job: Job) -> tuple[str, ...]:
    return arguments(job, NamedPartitionsArgs).names


def definitions_of(job: Job) -> tuple[PartitionDefinition, ...]:
    """The partitions of ADD, with the job's ids."""
    pairs = zip(arguments(job, AddPartitionArgs).definitions, job.exuvia_ids, strict=True)
    return tuple(evolve(definition, id=number) for definition, number in pairs)


def ranges_of(removed: tuple[PartitionDefinition, ...]) -> tuple[DeleteRange, ...]:
    """Rows and entries of partitions. They cannot be recovered, so they are not retained."""
    return tuple(range_of_physical(definition.id) for definition in removed)


# -- refusals --------------------------------------------------------------------------------------


def table_is_not_partitioned(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    return None if the_table(snapshot).partition is not None else ErrPartitionMgmtOnNonpartitioned()


def partition_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    for definition in definitions_of(job):
        if partition_of(snapshot).definition(definition.name.L) is not None:
            return ErrSameNamePartition(definition.name.O)
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
    """8028: a global index was added after the job was submitted, and would not be cleaned."""
    came = the_table(snapshot).global_indexes and not has_clean_path(job)
    return ErrInfoSchemaChanged() if came else None


# -- ADD -------------------------------------------------------------------------------------------


def place_added(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The new partitions are in the table; no statement reads or writes them."""
    partition = evolve(partition_of(snapshot), adding_definitions=definitions_of(job))
    return job, with_partition(snapshot, partition)


def show_added(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The new partitions follow the others."""
    partition = partition_of(snapshot)
    definitions = (*partition.definitions, *partition.adding_definitions)
    public = evolve(partition, definitions=definitions, adding_definitions=(), num=len(definitions))
    return job, with_partition(snapshot, public)


def forget_changes(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table without the change, after a rollback."""
    partition = evolve(partition_of(snapshot), adding_definitions=(), dropping_definitions=())
    return job, with_partition(snapshot, partition)


def partitions_added(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    return JobEvent(type="add partition", table=after.table, added=definitions_of(job))


# -- DROP ------------------------------------------------------------------------------------------


def hide_dropped(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The partitions are neither read nor written; their values are refused."""
    partition = partition_of(snapshot)
    return job, with_partition(
        snapshot, evolve(partition, dropping_definitions=named(_names(job), the_table(snapshot)))
    )


def remove_dropped(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Other partitions take their values."""
    partition = partition_of(snapshot)
    dropped_ids = {definition.id for definition in partition.dropping_definitions}
    remaining = tuple(
        definition for definition in partition.definitions if definition.id not in dropped_ids
    )
    return job, with_partition(
        snapshot, evolve(partition, definitions=remaining, num=len(remaining))
    )


def forget_dropped(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table without the dropped partitions."""
    return job, with_partition(snapshot, evolve(partition_of(snapshot), dropping_definitions=()))


def dropped_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """Everything under the dropped ids."""
    return ranges_of(partition_of(snapshot).dropping_definitions)


def global_indexes_are_clean(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """A wait until no entry has a row of the dropped partitions."""
    indexes = tuple(index.id for index in the_table(snapshot).global_indexes)
    if snapshot.reorg.filled or not indexes:
        return None
    dropped_ids = tuple(definition.id for definition in partition_of(snapshot).dropping_definitions)
    return StepWait("", reorg.clean_indexes(indexes, dropped_ids))


def _emptied(event: Publish, after: After | None = None) -> tuple[Step, ...]:
    """The last steps: two revisions after their last use, the dropped ids are emptied."""
    return (
        Step(DELETE_ONLY, DELETE_REORG),
        Step(
            DELETE_REORG,
            ABSENT,
            edit=forget_dropped,
            after=after,
            causes=(leaves(dropped_ranges),),
            event=event,
        ),
    )


def partitions_dropped(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    dropped = partition_of(before).dropping_definitions
    return JobEvent(type="drop partition", table=after.table, removed=dropped)


# -- TRUNCATE --------------------------------------------------------------------------------------


def prepare_empty(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The same partitions under new ids are in the table, not used yet."""
    old = named(_names(job), the_table(snapshot))
    pairs = zip(old, job.exuvia_ids, strict=True)
    new = tuple(evolve(definition, id=number) for definition, number in pairs)
    partition = evolve(partition_of(snapshot), adding_definitions=new, dropping_definitions=old)
    return job, with_partition(snapshot, partition)


def use_empty(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The new ids replace the old ones."""
    partition = partition_of(snapshot)
    new = {definition.name.L: definition for definition in partition.adding_definitions}
    definitions = tuple(
        new.get(definition.name.L, definition) for definition in partition.definitions
    )
    return job, with_partition(
        snapshot, evolve(partition, definitions=definitions, adding_definitions=())
    )


def partitions_truncated(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once they are empty, under new ids."""
    dropped = partition_of(before).dropping_definitions
    new = named(_names(job), the_table(after))
    return JobEvent(type="truncate partition", table=after.table, added=new, removed=dropped)


FORGET_ADDED = Action(
    ActionCode.ADD_PARTITION,
    PARTITION,
    path=(Step(REPLICA_ONLY, ABSENT, edit=forget_changes),),
)
ADD_PARTITION = load(
    Action(
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
        unlogged=always,
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
    ActionCode.TRUNCATE_PARTITION,
    PARTITION,
    path=(Step(WRITE_ONLY, PUBLIC, edit=forget_changes),),
)
TRUNCATE_PARTITION = load(
    Action(
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
        unlogged=always,
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
