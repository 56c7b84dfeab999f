"""TRUNCATE TABLE: another table, empty, takes the name; the old one is left to be emptied.

    absent -> write only   (barrier) whoever wrote the table with an older plan is waited for, as
                           any step waits for the metadata lock; transactions that would write it
                           first wait for the end (catalog/meta.py)
    write only -> public   the new id takes the name; the old id is taken away from its writers

Statements that are transactions of their own go on, and are run again where they come too late: the
store refuses them (law 1), since their rows would be lost. Rows of
the old id can be brought back under another name while they are kept (recover.py).
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrInfoSchemaChanged
from exuvia.catalog.meta import closing, opened
from exuvia.catalog.model import DatabaseInfo, SchemaState, TableInfo, evolve
from exuvia.catalog.table import with_layout
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.shared import (
    Children,
    children_are_asked_for,
    table_is_missing,
    truncated_table_is_referred_to,
)
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, ReadSet
from exuvia.ddl.elements import TABLE_IN_PLACE, ranges_of_table, the_table
from exuvia.ddl.job import ActionCode, Job, job_for

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
    old, (new_id, *partition_ids) = opened(the_table(snapshot)), job.exuvia_ids
    new = evolve(old, id=new_id, auto_inc_id=0, exuvia_layouts=(), exuvia_physical=0)
    if old.partition is not None:
        new = evolve(
            new, partition=old.partition.with_ids(partition_ids[: len(old.partition.definitions)])
        )
    return evolve(job, exuvia_dropped=old), evolve(snapshot, table=with_layout(new))


def old_range(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """Rows and entries of the table as it was."""
    return ranges_of_table(the_table(snapshot))


def old_table(job: Job, snapshot: CatalogSnapshot) -> tuple[int, ...]:
    """The id that loses its writers."""
    return (job.table_id,)


def table_truncated(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """Clients see an empty table, which is another one."""
    old: TableInfo = the_table(before)
    return JobEvent(type="truncate table", table=after.table, dropped=old, elements=(old.id,))


TRUNCATE_TABLE = load(
    Action(
        "truncate table",
        ActionCode.TRUNCATE_TABLE,
        TABLE_IN_PLACE,
        refuses=(table_is_missing, truncated_table_is_referred_to, partitions_have_come),
        path=(
            Step(ABSENT, WRITE_ONLY, edit=close_table, barrier=True),
            Step(
                WRITE_ONLY,
                PUBLIC,
                edit=place_empty_table,
                leaves=old_range,
                event=table_truncated,
                fences_tables=old_table,
            ),
        ),
        reads=lambda job: ReadSet(referrers=children_are_asked_for(job)),
        dropped_table=lambda job: job.exuvia_dropped,
        without_undo="FLASHBACK TABLE t TO another_name brings the rows of before back beside it",
    )
)

ACTIONS = (TRUNCATE_TABLE,)
