"""Paths and refusals that several actions share. Those of a single action are in its file.

A refusal takes (job, snapshot) and returns MySQL's error, or None. It is checked in the job's first
step, because the statement's own check is older than the jobs before it in the queue. Foreign keys
to the tables of a DROP or a TRUNCATE may have been added since. From the first step on none can be
added: adding a child involves its parent, and waits for this job.
"""

from collections.abc import Iterator

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrBadTable,
    ErrDBCreateExists,
    ErrDBDropExists,
    ErrForeignKeyCannotDropParent,
    ErrNoSuchTable,
    ErrTableExists,
    ErrTruncateIllegalForeignKey,
)
from exuvia.catalog.model import ColumnInfo, SchemaState, TableInfo, evolve
from exuvia.ddl.action import After, Cause, Edit, Publish, Step
from exuvia.ddl.decision import StepWait
from exuvia.ddl.elements import the_table
from exuvia.ddl.facts import DatabaseNamed, Referrer, Referrers, TableNamed, TablesOf
from exuvia.ddl.job import Job, arguments, timestamp, timestamp_text
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet
from exuvia.pipeline import reorg

ABSENT, DELETE_ONLY = SchemaState.ABSENT, SchemaState.DELETE_ONLY
WRITE_ONLY, PUBLIC = SchemaState.WRITE_ONLY, SchemaState.PUBLIC
WRITE_REORG = SchemaState.WRITE_REORG


def drop_path(*causes: Cause, event: Publish | None = None) -> tuple[Step, ...]:
    """Path of DROP for an element with a name.

    Clients do not find it from the first step on; statements that use it may finish until the last
    one, which has the causes.
    """
    return (
        Step(PUBLIC, WRITE_ONLY),
        Step(WRITE_ONLY, DELETE_ONLY),
        Step(DELETE_ONLY, ABSENT, causes=causes, event=event),
    )


def add_constraint_path(place: Edit, judge: After, end: Edit | None = None) -> tuple[Step, ...]:
    """Path of ADD for a rule: writers obey it before existing rows are validated."""
    return (
        Step(ABSENT, WRITE_ONLY, edit=place),
        Step(WRITE_ONLY, WRITE_REORG),
        Step(WRITE_REORG, PUBLIC, edit=end, after=judge),
    )


def rows_obey(
    job: Job, snapshot: CatalogSnapshot, kind: str, is_asked: bool
) -> Refused | StepWait | None:
    """A wait for the check of existing rows by the job's rule (pipeline/verify/rules.py)."""
    if snapshot.table_is_empty or snapshot.reorg.filled or not is_asked:
        return None
    (element,) = job.exuvia_elements
    return StepWait("", reorg.check_rows(kind, element))


# -- retention for UNDO ----------------------------------------------------------------------------

PRIVATE = "_exuvia_undo_"
WAS_NOT_KEPT = "nothing was retained (exuvia_undo_s was 0, or see the statement's warning)"


def private_name(job: Job, number: int) -> str:
    """The name of an element that the job leaves hidden: no client uses it."""
    return f"{PRIVATE}{job.id}_{number}"


def stood_before(table: TableInfo, column: ColumnInfo) -> tuple[ColumnInfo, ...]:
    """The columns before that one."""
    return tuple(other for other in table.cols if other.offset < column.offset)


def kept_until(job: Job, snapshot: CatalogSnapshot) -> int:
    seconds = job.exuvia_undo.seconds if job.exuvia_undo else 0
    return snapshot.now + timestamp(seconds * 1_000_000_000)


def with_undo_note(job: Job, snapshot: CatalogSnapshot) -> Job:
    """The job with the note until when UNDO is possible."""
    until = timestamp_text(kept_until(job, snapshot))
    return evolve(job, exuvia_note=f"kept until {until}: ADMIN UNDO DDL JOB {job.id}")


# -- refusals --------------------------------------------------------------------------------------


def own_table_name(job: Job) -> TableNamed:
    """The question who has the name of the job's table."""
    return TableNamed(job.schema_id, job.table_name.lower())


def reads_own_table_name(job: Job) -> ReadSet:
    """The reads of `table_name_is_taken`."""
    return ReadSet(facts=(own_table_name(job),))


def reads_own_database_name(job: Job) -> ReadSet:
    """The reads of `database_name_is_taken`."""
    return ReadSet(facts=(DatabaseNamed(job.schema_name.lower()),))


def involved_tables(job: Job, snapshot: CatalogSnapshot) -> list[TableInfo]:
    """The tables of the snapshot that the job involves."""
    involved = {job.table_id, *job.exuvia_tables}
    return [table for table in snapshot.tables if table.id in involved]


def database_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    holder = snapshot.fact(DatabaseNamed(job.schema_name.lower()))
    return None if holder in (0, job.schema_id) else ErrDBCreateExists(job.schema_name)


def database_to_drop_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    there = snapshot.database is not None and snapshot.database.state == SchemaState.PUBLIC
    return None if there else ErrDBDropExists(job.schema_name)


def database_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    there = snapshot.database is not None and snapshot.database.state == SchemaState.PUBLIC
    return None if there else ErrBadDB(job.schema_name)


def table_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    holder = snapshot.fact(own_table_name(job))
    if holder in (0, job.table_id):
        return None
    return ErrTableExists(f"{job.schema_name}.{job.table_name}")


def table_to_drop_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    there = snapshot.table is not None and snapshot.table.state == SchemaState.PUBLIC
    return None if there else ErrBadTable(f"{job.schema_name}.{job.table_name}")


def table_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    there = snapshot.table is not None and snapshot.table.state == SchemaState.PUBLIC
    return None if there else ErrNoSuchTable(job.schema_name, job.table_name)


def computed_from(table: TableInfo, name: str) -> list[ColumnInfo]:
    """The columns whose expressions read that column."""
    column_name = name.lower()
    return [
        column
        for column in table.cols
        if column.name.L != column_name and column_name in (column.dependences or {})
    ]


class Children(msgspec.Struct, frozen=True):
    """Argument of a DROP or a TRUNCATE with foreign_key_checks = ON.

    `going`: ids of tables that the same statement drops. `filled`: a TRUNCATE's ids are those of a
    table that has rows (truncate.py).
    """

    fk_check: bool = True
    going: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    filled: bool | msgspec.UnsetType = msgspec.UNSET


def reads_referrers(job: Job) -> ReadSet:
    """The reads of a DROP or a TRUNCATE: its first step reads the foreign keys to its tables."""
    return ReadSet(facts=(_referrers(job),) if _asks_for_children(job) else ())


def _asks_for_children(job: Job) -> bool:
    return not job.begun and bool(job.raw_args)


def _referrers(job: Job) -> Referrers:
    return Referrers(job.schema_id, job.table_id)


def _children(
    job: Job, snapshot: CatalogSnapshot, dropped: tuple[int, ...] = ()
) -> Iterator[Referrer]:
    """Foreign keys of tables that are not dropped."""
    if not _asks_for_children(job):
        return
    (args,) = arguments(job, tuple[Children])
    going = {job.table_id, *dropped, *(args.going or ())}
    for referrer in snapshot.fact(_referrers(job)):
        if referrer.child not in going:
            yield referrer


def table_is_referred_to(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """3730, for DROP TABLE and DROP DATABASE."""
    dropped = () if job.table_id else snapshot.fact(TablesOf(job.schema_id))
    for referrer in _children(job, snapshot, dropped):
        return ErrForeignKeyCannotDropParent(referrer.parent, referrer.key, referrer.child_table)
    return None


def truncated_table_is_referred_to(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    the_table(snapshot)
    for referrer in _children(job, snapshot):
        text = f"`{referrer.child_database}`.`{referrer.child_table}` CONSTRAINT `{referrer.key}`"
        return ErrTruncateIllegalForeignKey(text)
    return None
