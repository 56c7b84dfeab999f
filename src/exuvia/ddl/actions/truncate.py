"""TRUNCATE TABLE: another table, empty, takes the name; the old one is left to be emptied.

    absent -> write only   (barrier) whoever wrote the table with an older plan is waited for, as
                           any step waits for the metadata lock; transactions that would write it
                           first wait for the end (catalog/meta.py)
    write only -> public   the new id takes the name; the old id is taken away from its writers

    `with_rows`: the new id has rows already. It is that of a table of the same definition without a
    name (`unnamed`), which its maker alone has written

Statements that are transactions of their own go on, and are run again where they come too late: the
store refuses them (law 1), since their rows would be lost. Rows of
the old id can be brought back under another name while they are kept (recover.py), or into the
table (undo_truncate.py): then ids of rows, AUTO_INCREMENT too, go on behind those of the old id.
"""

from collections.abc import Sequence

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrInfoSchemaChanged, ErrTableDefChanged
from exuvia.catalog.meta import closing, opened
from exuvia.catalog.model import DatabaseInfo, SchemaState, TableInfo, evolve
from exuvia.catalog.table import with_layout
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.shared import (
    WAS_NOT_KEPT,
    Children,
    children_are_asked_for,
    kept_until,
    noted,
    table_is_missing,
    truncated_table_is_referred_to,
)
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, Kept, ReadSet
from exuvia.ddl.elements import TABLE_IN_PLACE, at_home, ranges_of_table, the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, raw

ABSENT, WRITE_ONLY, PUBLIC = SchemaState.ABSENT, SchemaState.WRITE_ONLY, SchemaState.PUBLIC


def truncate_table(
    database: DatabaseInfo, table: TableInfo, *, checks: bool = False, query: str = ""
) -> Job:
    """TRUNCATE TABLE; asks for the ids of the table and of its partitions. `checks`: not if another
    table refers to it."""
    parts = len(table.partition.definitions) if table.partition is not None else 0
    asked = (Children(),) if checks else ()
    job = job_for(ActionCode.TRUNCATE_TABLE, database, table, asked, query)
    return evolve(job, exuvia_ids=(0,) * (1 + parts))


def unnamed(table: TableInfo, ids: Sequence[int]) -> TableInfo:
    """What may take the table's place: the same under these ids, one for the table and one for each
    partition, and nobody's. No change log: the table's own begins when it has the name."""
    new = _successor(table, ids)
    return evolve(new, state=WRITE_ONLY, exuvia_change_log=SchemaState.ABSENT)


def ids_of(table: TableInfo) -> tuple[int, ...]:
    """Of the table and of its partitions."""
    parts = table.partition.definitions if table.partition is not None else ()
    return (table.id, *(each.id for each in parts))


def with_rows(job: Job, ids: tuple[int, ...]) -> Job:
    """TRUNCATE TABLE under the ids of an `unnamed` one. It is not kept for UNDO: ids of rows, and
    layouts, are those of that table alone."""
    asked = arguments(job, tuple[Children, ...])
    checks = bool(asked) and asked[0].fk_check
    args = raw((Children(fk_check=checks, filled=True),))
    return evolve(job, exuvia_ids=ids, raw_args=args, exuvia_undo=None)


def _is_filled(job: Job) -> bool:
    """Whether its ids are those of a table that is there."""
    asked = arguments(job, tuple[Children, ...])
    return bool(asked) and asked[0].filled is True


def _reads(job: Job) -> ReadSet:
    filled = _is_filled(job) and not job.begun
    return ReadSet(
        referrers=children_are_asked_for(job), tables=job.exuvia_ids[:1] if filled else ()
    )


def filled_table_is_another(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1412: the table has changed since it was made."""
    if not _is_filled(job):
        return None
    there = snapshot.other(job.exuvia_ids[0])
    ids = job.exuvia_ids
    old = the_table(snapshot)
    fits = there is not None and len(ids_of(old)) == len(ids) and unnamed(old, ids) == there
    return None if fits else ErrTableDefChanged()


def partitions_have_come(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """Partitions that other jobs added since this one was asked for have no ids here."""
    partition = the_table(snapshot).partition
    there = len(partition.definitions) if partition is not None else 0
    return ErrInfoSchemaChanged() if there > len(job.exuvia_ids) - 1 else None


def close_table(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """No transaction begins to write it from here."""
    return job, evolve(snapshot, table=closing(the_table(snapshot)))


def place_empty_table(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The same table under the ids asked for: its own first, then one for each partition. Those of
    partitions that went meanwhile are left over."""
    old = opened(the_table(snapshot))
    new = _successor(old, job.exuvia_ids, keeps_layouts=job.exuvia_undo is not None)
    snapshot = evolve(snapshot, renumbered=((old.id, new.id),))
    if job.exuvia_undo is not None:  # rows of both may come to stand side by side
        job = noted(job, snapshot)
        snapshot = evolve(snapshot, carries=((old.id, new.id),))
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
    """The record, where UNDO is to be possible."""
    if job.exuvia_undo is None:
        return ()
    kept = Kept(
        job_id=job.id,
        kind="table",
        table_id=job.exuvia_ids[0],
        until=kept_until(job, before),
        name=the_table(before).name.O,
        table=opened(the_table(before)),
    )
    return (kept,)


def old_range(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """Rows and entries of the table as it was."""
    return ranges_of_table(the_table(snapshot))


def old_table(job: Job, snapshot: CatalogSnapshot) -> tuple[int, ...]:
    """The id that loses its writers."""
    return (job.table_id,)


def table_truncated(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """Clients see an empty table, which is another one."""
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
        "truncate table",
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
                leaves=old_range,
                event=table_truncated,
                fences_tables=old_table,
                keeps=kept_rows,
            ),
        ),
        reads=_reads,
        dropped_table=lambda job: job.exuvia_dropped,
        without_undo=(
            f"{WAS_NOT_KEPT}; FLASHBACK TABLE t TO another_name brings the rows of before back "
            "beside it"
        ),
    )
)

ACTIONS = (TRUNCATE_TABLE,)
