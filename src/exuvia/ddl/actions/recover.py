"""RECOVER TABLE, FLASHBACK TABLE and FLASHBACK DATABASE restore dropped elements.

    absent -> public

The same transaction removes the dropped element's ranges from the deletion queue
(ddl/gc_worker.py). If one of them was partly emptied, it is too late: 8055. The table has its
former id, and a revision that no earlier writer can have planned with (catalog/meta.py).

If the table has foreign keys, its parents may have lost rows in the meantime. Unless
foreign_key_checks is OFF, it then walks:

    absent -> write only                a writer that removes a parent looks for its children
           -> write reorganization      (barrier) all such writers do
           =every row has its parents=> public

Clients do not see the table before the last step, so no rows are added. If rows have no parent, the
job is refused (1452) and lists them. It can be repeated: until the last step the dropped table
stays as it is.

A database is restored alone: the names and infos of its tables are still stored.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from exuvia.base.decoding import from_builtins
from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrDBCreateExists,
    ErrSnapshotTooOld,
    ErrTableExists,
    ErrUnknown,
)
from exuvia.catalog.model import DatabaseInfo, SchemaState, TableInfo, evolve, name
from exuvia.catalog.placement import without_policies
from exuvia.catalog.rules import FOREIGN_KEY
from exuvia.catalog.ttl import disabled
from exuvia.ddl.action import Action, Element, Step, ends_retention, load, restores_ranges
from exuvia.ddl.actions.foreign_key import move_in_parents
from exuvia.ddl.actions.shared import (
    database_is_missing,
    database_name_is_taken,
    own_table_name,
    reads_own_database_name,
    reads_own_table_name,
)
from exuvia.ddl.actions.table import own_name
from exuvia.ddl.decision import StepWait
from exuvia.ddl.delete_ranges import DeleteRange, UntouchedRanges
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import (
    DATABASE_IN_PLACE,
    TABLE_IN_PLACE,
    move_table,
    ranges_of_database,
    ranges_of_table,
    without_hidden,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, timestamp_text
from exuvia.ddl.kept import EndedByAnother
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet
from exuvia.pipeline import reorg

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC
WRITE_ONLY, WRITE_REORG = SchemaState.WRITE_ONLY, SchemaState.WRITE_REORG


class Drop(msgspec.Struct, frozen=True):
    """The job whose drop is undone."""

    drop_job: int


class RecoverTableArgs(NamedTuple):
    """Arguments of RECOVER and FLASHBACK TABLE: the former table, with its new name.

    `links`: those of its foreign keys whose rows are validated.
    """

    drop: Drop
    table: TableInfo
    links: tuple[int, ...] = ()


class FlashbackDatabaseArgs(NamedTuple):
    """Arguments of FLASHBACK DATABASE: the former database, with its new name."""

    drop: Drop
    database: DatabaseInfo


def recalled_job_of(job: Job) -> int:
    """The job whose drop RECOVER or FLASHBACK undoes."""
    return from_builtins(job.raw_args[0], Drop).drop_job


def recover_table(
    database: DatabaseInfo,
    table: TableInfo,
    new_name: str,
    drop_job: int,
    *,
    parents: Mapping[int, int] = MappingProxyType({}),
    query: str = "",
) -> Job:
    """RECOVER and FLASHBACK TABLE: the table as before that job, under the new name.

    `parents`: ids of the tables that its foreign keys refer to, or 0, by link.
    """
    renamed = evolve(table, name=name(new_name))
    args = RecoverTableArgs(Drop(drop_job), renamed, tuple(parents))
    job = job_for(ActionCode.RECOVER_TABLE, database, renamed, args, query)
    others = dict.fromkeys(n for n in parents.values() if n not in (0, table.id))
    return evolve(job, exuvia_tables=tuple(others), reorg_meta={}) if parents else job


def flashback_database(
    database: DatabaseInfo,
    new_name: str,
    drop_job: int,
    *,
    with_ttl: tuple[int, ...] = (),
    query: str = "",
) -> Job:
    """FLASHBACK DATABASE: the database as before that job, under the new name.

    `with_ttl`: ids of its tables with a TTL.
    """
    renamed = evolve(database, db_name=name(new_name))
    job = job_for(
        ActionCode.FLASHBACK_SCHEMA,
        renamed,
        None,
        FlashbackDatabaseArgs(Drop(drop_job), renamed),
        query,
    )
    return evolve(job, exuvia_tables=with_ttl)


def reads_left_ranges(job: Job) -> ReadSet:
    """Reads the drop's ranges, and the new name."""
    name = reads_own_table_name(job) if job.table_id else reads_own_database_name(job)
    recalled = recalled_job_of(job)
    facts = UntouchedRanges(recalled), EndedByAnother(recalled, job.id)
    return ReadSet.union([name, ReadSet(tables=job.exuvia_tables, facts=facts)])


def name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    holder = snapshot.fact(own_table_name(job))
    return ErrTableExists(job.table_name) if holder else None


def table_is_there_already(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1050: it was recovered before."""
    if snapshot.table is None:
        return None
    details = f"'{job.table_name}' already been recover to '{snapshot.table.name.O}'"
    return ErrTableExists.with_text(f"Table {details}, can't be recover repeatedly")


def database_is_there_already(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1007: it was recovered before."""
    if snapshot.database is None:
        return None
    details = f"'{job.schema_name}' already been recover to '{snapshot.database.db_name.O}'"
    return ErrDBCreateExists.with_text(f"Schema {details}, can't be recover repeatedly")


def rows_are_gone(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    ranges = ranges_of_table(arguments(job, RecoverTableArgs).table)
    return _unless_all_are_left(job, ranges, snapshot)


def tables_are_gone(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    return _unless_all_are_left(job, ranges_of_database(job.schema_id), snapshot)


def _unless_all_are_left(
    job: Job, ranges: tuple[DeleteRange, ...], snapshot: CatalogSnapshot
) -> Refused | None:
    untouched = snapshot.fact(UntouchedRanges(recalled_job_of(job)))
    if set(ranges) <= set(untouched):
        return None
    until = timestamp_text(snapshot.now)
    return ErrSnapshotTooOld.with_text(f"snapshot is older than GC safe point {until}")


def an_undo_takes_it_back(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1105: an UNDO of the TRUNCATE is about to use its rows."""
    recalled = recalled_job_of(job)
    another = snapshot.fact(EndedByAnother(recalled, job.id))
    if not another:
        return None
    return ErrUnknown(f"ddl job {another} undoes ddl job {recalled}, or ends its retention")


def place_table_again(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The former table under its new name; its TTL is disabled."""
    table = evolve(
        disabled(without_policies(without_hidden(arguments(job, RecoverTableArgs).table))),
        id=job.table_id,
        exuvia_db=job.schema_id,
        state=PUBLIC,
    )
    return job, evolve(snapshot, table=table)


def move_again(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The table, and its foreign keys at the parents, in that state; ABSENT removes it."""
    links = arguments(job, RecoverTableArgs).links
    parent_state = PUBLIC if state == ABSENT else state
    return move_in_parents(move_table(job, snapshot, state), links, parent_state)


def rows_have_parents(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """1452 with the orphans; 8055 if some of its rows are already removed."""
    if not (snapshot.reorg.filled or snapshot.table_is_empty):
        phases = (
            phase
            for link in arguments(job, RecoverTableArgs).links
            for phase in reorg.check_rows(FOREIGN_KEY, link).phases
        )
        return StepWait("", reorg.Reorg(tuple(phases)))
    return rows_are_gone(job, snapshot)


def place_database_again(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The former database under its new name; TTLs of its tables are disabled."""
    database = evolve(
        arguments(job, FlashbackDatabaseArgs).database,
        id=job.schema_id,
        state=PUBLIC,
        policy_ref_info=None,
    )
    others = tuple(map(disabled, snapshot.others))
    return job, evolve(snapshot, database=database, others=others)


def table_recovered(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once clients see the table: a new one for subscribers that saw the drop."""
    return JobEvent(type="create table", table=after.table)


def database_recovered(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once clients see its tables: new ones for subscribers that saw the drop."""
    return JobEvent(type="flashback schema", database=after.database)


_RECOVER = load(
    Action(
        ActionCode.RECOVER_TABLE,
        TABLE_IN_PLACE,
        reads=reads_left_ranges,
        refuses=(
            database_is_missing,
            table_is_there_already,
            name_is_taken,
            an_undo_takes_it_back,
            rows_are_gone,
        ),
        path=(
            Step(
                ABSENT,
                PUBLIC,
                edit=place_table_again,
                event=table_recovered,
                causes=(
                    restores_ranges(recalled_job_of),
                    ends_retention(recalled_job_of),
                ),
            ),
        ),
        names=own_name,
        spares_hidden=True,
    )
)

_AGAIN = Element("table", follows_rows=False, move=move_again)
_LEFT = Action(ActionCode.RECOVER_TABLE, _AGAIN, path=(Step(WRITE_REORG, ABSENT),))
RECOVER_CHILD = load(
    _RECOVER._replace(
        element=_AGAIN,
        path=(
            Step(ABSENT, WRITE_ONLY, edit=place_table_again),
            Step(WRITE_ONLY, WRITE_REORG, barrier=True),
            _RECOVER.path[0]._replace(source=WRITE_REORG, edit=None, after=rows_have_parents),
        ),
        undo=load(_LEFT),
    )
)


def _path_of(job: Job) -> Action:
    return RECOVER_CHILD if arguments(job, RecoverTableArgs).links else _RECOVER


RECOVER_TABLE = _RECOVER._replace(choose=_path_of)

FLASHBACK_DATABASE = load(
    Action(
        ActionCode.FLASHBACK_SCHEMA,
        DATABASE_IN_PLACE,
        reads=reads_left_ranges,
        refuses=(database_is_there_already, database_name_is_taken, tables_are_gone),
        path=(
            Step(
                ABSENT,
                PUBLIC,
                edit=place_database_again,
                event=database_recovered,
                causes=(restores_ranges(recalled_job_of),),
            ),
        ),
        spares_hidden=True,
    )
)

ACTIONS = (RECOVER_TABLE, FLASHBACK_DATABASE)
