"""TRUNCATE TABLE: an empty table with new ids gets the name; the old one is emptied.

    absent -> write only   (barrier) writers with an older plan are waited for, as every step waits
                           for the metadata lock; transactions that have not written it yet wait for
                           the end before they do (catalog/meta.py)
    write only -> public   the new id gets the name; writers of the old id are fenced

    `with_rows`: the new id already has rows. It belongs to an `unnamed` table of the same
    definition, which only its creator has written

Autocommit statements continue, and run again if they are too late: the store refuses them (law 1),
because their rows would be lost. While rows of the old id are retained, they can be recovered under
another name (recover.py), or into the table (undo_truncate.py). In the second case row ids, also
AUTO_INCREMENT, continue after those of the old id.
"""

from collections.abc import Sequence

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrInfoSchemaChanged, ErrTableDefChanged
from exuvia.catalog.meta import closing, opened
from exuvia.catalog.model import DatabaseInfo, SchemaState, TableInfo, evolve
from exuvia.catalog.table import with_layout
from exuvia.ddl.action import (
    Action,
    Step,
    always,
    fences,
    leaves,
    load,
    moves_counters,
    moves_retention,
    retains,
)
from exuvia.ddl.actions.shared import (
    WAS_NOT_KEPT,
    Children,
    kept_until,
    reads_referrers,
    table_is_missing,
    truncated_table_is_referred_to,
    with_undo_note,
)
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import TABLE_IN_PLACE, at_home, ranges_of_table, the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, raw
from exuvia.ddl.kept import Kept
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet

ABSENT, WRITE_ONLY, PUBLIC = SchemaState.ABSENT, SchemaState.WRITE_ONLY, SchemaState.PUBLIC


def truncate_table(
    database: DatabaseInfo, table: TableInfo, *, checks: bool = False, query: str = ""
) -> Job:
    """TRUNCATE TABLE; the job needs ids for the table and its partitions.

    `checks`: refused if another table refers to it.
    """
    parts = len(table.partition.definitions) if table.partition is not None else 0
    args = (Children(),) if checks else ()
    job = job_for(ActionCode.TRUNCATE_TABLE, database, table, args, query)
    return evolve(job, exuvia_ids=(0,) * (1 + parts))


def unnamed(table: TableInfo, ids: Sequence[int]) -> TableInfo:
    """A table that can replace this one: the same definition under these ids, without a name.

    The first id is the table's, then one for each partition. It has no change log: the log begins
    when it has the name.
    """
    new = _successor(table, ids)
    return evolve(new, state=WRITE_ONLY, exuvia_change_log=SchemaState.ABSENT)


def ids_of(table: TableInfo) -> tuple[int, ...]:
    """Ids of the table and of its partitions."""
    parts = table.partition.definitions if table.partition is not None else ()
    return (table.id, *(definition.id for definition in parts))


def with_rows(job: Job, ids: tuple[int, ...]) -> Job:
    """TRUNCATE TABLE under the ids of an `unnamed` table.

    It cannot be undone: row ids and layouts are those of that table alone.
    """
    former_args = arguments(job, tuple[Children, ...])
    checks = bool(former_args) and former_args[0].fk_check
    new_args = raw((Children(fk_check=checks, filled=True),))
    return evolve(job, exuvia_ids=ids, raw_args=new_args, exuvia_undo=None)


def _is_filled(job: Job) -> bool:
    """Whether its ids are those of an existing table."""
    args = arguments(job, tuple[Children, ...])
    return bool(args) and args[0].filled is True


def _reads(job: Job) -> ReadSet:
    filled = _is_filled(job) and not job.begun
    other = ReadSet(tables=job.exuvia_ids[:1] if filled else ())
    return ReadSet.union([other, reads_referrers(job)])


def filled_table_is_another(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1412: the table has changed since the other one was created."""
    if not _is_filled(job):
        return None
    there = snapshot.other(job.exuvia_ids[0])
    ids = job.exuvia_ids
    old = the_table(snapshot)
    fits = there is not None and len(ids_of(old)) == len(ids) and unnamed(old, ids) == there
    return None if fits else ErrTableDefChanged()


def partitions_have_come(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8028: other jobs have added partitions, which have no ids in this job."""
    partition = the_table(snapshot).partition
    there = len(partition.definitions) if partition is not None else 0
    return ErrInfoSchemaChanged() if there > len(job.exuvia_ids) - 1 else None


def close_table(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """No new transaction can write the table from here on."""
    return job, evolve(snapshot, table=closing(the_table(snapshot)))


def place_empty_table(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The same table under the job's ids: the table's first, then one for each partition.

    Ids for partitions dropped in the meantime are not used.
    """
    old = opened(the_table(snapshot))
    new = _successor(old, job.exuvia_ids, keeps_layouts=job.exuvia_undo is not None)
    if job.exuvia_undo is not None:
        job = with_undo_note(job, snapshot)
    return evolve(job, exuvia_dropped=old), evolve(snapshot, table=new)


def _successor(old: TableInfo, ids: Sequence[int], *, keeps_layouts: bool = False) -> TableInfo:
    new_id, *partition_ids = ids
    layouts = old.exuvia_layouts if keeps_layouts else ()
    new = evolve(old, id=new_id, auto_inc_id=0, exuvia_layouts=layouts, exuvia_physical=0)
    if old.partition is not None:
        parts = partition_ids[: len(old.partition.definitions)]
        new = evolve(new, partition=old.partition.with_ids(parts))
        new = evolve(new, partition=at_home(new, new_id))
    return with_layout(new)


def kept_rows(job: Job, before: CatalogSnapshot) -> tuple[Kept, ...]:
    """The record, if UNDO is requested."""
    if job.exuvia_undo is None:
        return ()
    record = Kept(
        job_id=job.id,
        kind="table",
        table_id=job.exuvia_ids[0],
        until=kept_until(job, before),
        name=the_table(before).name.O,
        table=opened(the_table(before)),
    )
    return (record,)


def _successors(job: Job, before: CatalogSnapshot) -> tuple[tuple[int, int], ...]:
    """The ids of the table, before and after."""
    return ((job.table_id, job.exuvia_ids[0]),)


def _successors_with_rows(job: Job, before: CatalogSnapshot) -> tuple[tuple[int, int], ...]:
    """The ids before and after, if rows of both may be in the same table later."""
    return _successors(job, before) if job.exuvia_undo is not None else ()


def old_range(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """Rows and entries of the old table."""
    return ranges_of_table(the_table(snapshot))


def old_table(job: Job, snapshot: CatalogSnapshot) -> tuple[int, ...]:
    """The id whose writers are fenced."""
    return (job.table_id,)


def table_truncated(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once clients see the empty table."""
    old: TableInfo = the_table(before)
    until = kept_until(job, before) if job.exuvia_undo is not None else 0
    return JobEvent(
        type="truncate table",
        table=after.table,
        dropped=old,
        elements=(old.id,),
        kept_until=until,
    )


TRUNCATE_TABLE = load(
    Action(
        ActionCode.TRUNCATE_TABLE,
        TABLE_IN_PLACE,
        refuses=(
            table_is_missing,
            truncated_table_is_referred_to,
            filled_table_is_another,
            partitions_have_come,
        ),
        path=(
            Step(ABSENT, WRITE_ONLY, edit=close_table, barrier=True),
            Step(
                WRITE_ONLY,
                PUBLIC,
                edit=place_empty_table,
                causes=(
                    leaves(old_range),
                    fences(old_table),
                    retains(kept_rows),
                    moves_retention(_successors),
                    moves_counters(_successors_with_rows),
                ),
                event=table_truncated,
            ),
        ),
        reads=_reads,
        dropped_table=lambda job: job.exuvia_dropped,
        without_undo=(
            f"{WAS_NOT_KEPT}; FLASHBACK TABLE t TO another_name restores the former rows "
            "in another table"
        ),
        unlogged=always,
    )
)

ACTIONS = (TRUNCATE_TABLE,)
