"""RECOVER TABLE, FLASHBACK TABLE and FLASHBACK DATABASE: what was dropped is there again.

    absent -> public

The dropped element's ranges are taken back from deletion in the same transaction
(ddl/gc_worker.py): if any of them was begun to be emptied it is too late, 8055. The table has
the id it had, and a revision that no writer of its former life can have planned with
(catalog/meta.py).

With foreign keys of its own, whose parents may have lost rows meanwhile, a table walks, unless
foreign_key_checks is OFF:

    absent -> write only                who removes a parent looks for its children
           -> write reorganization      (barrier) nobody is left who does not
           =every row has its parents=> public

Clients do not see the table before the last step, so no rows are added. If rows have no parent,
the job is refused (1452) and lists them. It can be repeated: until the last step the dropped table
stays as it is.

A database comes back by itself: its tables' names and infos have been where they were.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

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
from exuvia.ddl.action import Action, Element, Step, load
from exuvia.ddl.actions.foreign_key import move_in_parents
from exuvia.ddl.actions.shared import database_is_missing, database_name_is_taken
from exuvia.ddl.actions.table import own_name
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, ReadSet, StepWait
from exuvia.ddl.elements import (
    DATABASE_IN_PLACE,
    TABLE_IN_PLACE,
    move_table,
    ranges_of_database,
    ranges_of_table,
    without_hidden,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, timestamp_text
from exuvia.pipeline import reorg

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC
WRITE_ONLY, WRITE_REORG = SchemaState.WRITE_ONLY, SchemaState.WRITE_REORG


class Drop(msgspec.Struct, frozen=True):
    """The job that is taken back."""

    drop_job: int


class RecoverTableArgs(NamedTuple):
    """What RECOVER and FLASHBACK TABLE are asked: the table as it was, under the name it is to
    have. `links`: of its foreign keys whose rows are judged."""

    drop: Drop
    table: TableInfo
    links: tuple[int, ...] = ()


class FlashbackDatabaseArgs(NamedTuple):
    """Likewise."""

    drop: Drop
    database: DatabaseInfo


def recalled_job_of(job: Job) -> int:
    """The job whose drop RECOVER and FLASHBACK take back."""
    return msgspec.convert(job.raw_args[0], Drop).drop_job


def recover_table(
    database: DatabaseInfo,
    table: TableInfo,
    new_name: str,
    drop_job: int,
    *,
    parents: Mapping[int, int] = MappingProxyType({}),
    query: str = "",
) -> Job:
    """RECOVER and FLASHBACK TABLE: the table as it was before that job, under another name.
    `parents`: ids of the tables that its foreign keys refer to, 0 for none, by link."""
    renamed = evolve(table, name=name(new_name))
    asked = RecoverTableArgs(Drop(drop_job), renamed, tuple(parents))
    job = job_for(ActionCode.RECOVER_TABLE, database, renamed, asked, query)
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
    """FLASHBACK DATABASE: likewise. `with_ttl`: ids of its tables whose rows expire."""
    renamed = evolve(database, db_name=name(new_name))
    job = job_for(
        ActionCode.FLASHBACK_SCHEMA,
        renamed,
        None,
        FlashbackDatabaseArgs(Drop(drop_job), renamed),
        query,
    )
    return evolve(job, exuvia_tables=with_ttl)


def looks_at_what_was_left(job: Job) -> ReadSet:
    """The drop's ranges, and the name the table is to have."""
    names = ((job.schema_id, job.table_name),) if job.table_id else ()
    recalled = recalled_job_of(job)
    own_name: Literal["", "database"] = "" if job.table_id else "database"
    return ReadSet(
        names=names,
        left_by=recalled,
        undo_of=recalled,
        own_name=own_name,
        tables=job.exuvia_tables,
    )


def name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    held = snapshot.holder(job.schema_id, job.table_name)
    return ErrTableExists(job.table_name) if held else None


def table_is_there_already(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1050: it was recovered before."""
    if snapshot.table is None:
        return None
    said = f"'{job.table_name}' already been recover to '{snapshot.table.name.O}'"
    return ErrTableExists.with_text(f"Table {said}, can't be recover repeatedly")


def database_is_there_already(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1007: it was recovered before."""
    if snapshot.database is None:
        return None
    said = f"'{job.schema_name}' already been recover to '{snapshot.database.db_name.O}'"
    return ErrDBCreateExists.with_text(f"Schema {said}, can't be recover repeatedly")


def rows_are_gone(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    return _unless_all_are_left(ranges_of_table(arguments(job, RecoverTableArgs).table), snapshot)


def tables_are_gone(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    return _unless_all_are_left(ranges_of_database(job.schema_id), snapshot)


def _unless_all_are_left(
    wanted: tuple[DeleteRange, ...], snapshot: CatalogSnapshot
) -> Refused | None:
    if set(wanted) <= set(snapshot.left):
        return None
    until = timestamp_text(snapshot.now)
    return ErrSnapshotTooOld.with_text(f"snapshot is older than GC safe point {until}")


def an_undo_takes_it_back(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1105: its rows are about to be in the table that was truncated."""
    if not snapshot.taken_by:
        return None
    return ErrUnknown(
        f"ddl job {snapshot.taken_by} takes ddl job {recalled_job_of(job)} back, or ends its UNDO"
    )


def place_table_again(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table as it was, under the name asked for; its rows do not expire by themselves."""
    table = evolve(
        disabled(without_policies(without_hidden(arguments(job, RecoverTableArgs).table))),
        id=job.table_id,
        exuvia_db=job.schema_id,
        state=PUBLIC,
    )
    return job, evolve(snapshot, table=table)


def move_again(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """Put the table in that state, and its foreign keys at its parents. ABSENT removes it."""
    links = arguments(job, RecoverTableArgs).links
    known = PUBLIC if state == ABSENT else state
    return move_in_parents(move_table(job, snapshot, state), links, known)


def rows_have_parents(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """1452 with the orphans; 8055 if its rows have begun to go."""
    if snapshot.failure is not None:
        return snapshot.failure
    if not (snapshot.filled or snapshot.table_is_empty):
        phases = (
            phase
            for link in arguments(job, RecoverTableArgs).links
            for phase in reorg.check_rows(FOREIGN_KEY, link).phases
        )
        return StepWait("", reorg.Reorg(tuple(phases)))
    return rows_are_gone(job, snapshot)


def place_database_again(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The database as it was, under the name asked for; rows of its tables do not expire by
    themselves."""
    database = evolve(
        arguments(job, FlashbackDatabaseArgs).database,
        id=job.schema_id,
        state=PUBLIC,
        policy_ref_info=None,
    )
    others = tuple(map(disabled, snapshot.others))
    return job, evolve(snapshot, database=database, others=others)


def table_recovered(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """Clients see the table: a new one to those who heard of the drop."""
    return JobEvent(type="create table", table=after.table)


def database_recovered(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """Clients see its tables again: new ones to those who heard of the drop."""
    return JobEvent(type="flashback schema", database=after.database)


_RECOVER = load(
    Action(
        "recover table",
        ActionCode.RECOVER_TABLE,
        TABLE_IN_PLACE,
        reads=looks_at_what_was_left,
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
                restores_ranges_of=recalled_job_of,
                ends_undo_of=recalled_job_of,
            ),
        ),
        names=own_name,
    )
)

_AGAIN = Element("table", follows_rows=False, move=move_again)
_LEFT = Action("recover table", ActionCode.RECOVER_TABLE, _AGAIN, path=(Step(WRITE_REORG, ABSENT),))
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
        "flashback schema",
        ActionCode.FLASHBACK_SCHEMA,
        DATABASE_IN_PLACE,
        reads=looks_at_what_was_left,
        refuses=(database_is_there_already, database_name_is_taken, tables_are_gone),
        path=(
            Step(
                ABSENT,
                PUBLIC,
                edit=place_database_again,
                event=database_recovered,
                restores_ranges_of=recalled_job_of,
            ),
        ),
    )
)

ACTIONS = (RECOVER_TABLE, FLASHBACK_DATABASE)
