"""CREATE [OR REPLACE] VIEW and DROP VIEW.

    CREATE   absent -> public                            OR REPLACE removes the former view in the
                                                         same step, so one of them always exists
    DROP     public -> write only -> delete only -> absent

A view has columns and a query but no rows, so nothing has to be emptied.
"""

from typing import NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrTableExists, ErrWrongObject
from exuvia.catalog.model import DatabaseInfo, SchemaState, TableInfo, evolve
from exuvia.ddl.action import Action, GetsId, Step, load
from exuvia.ddl.actions.shared import (
    database_is_missing,
    drop_path,
    own_table_name,
    table_to_drop_is_missing,
)
from exuvia.ddl.actions.table import own_name, table_of
from exuvia.ddl.elements import TABLE, the_table
from exuvia.ddl.job import ActionCode, Job, job_for
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC


class CreateViewArgs(NamedTuple):
    """Arguments of CREATE VIEW; `former`: id of the view it replaces, or 0."""

    view: TableInfo
    replaces: bool = False
    former: int = 0


def create_view(
    database: DatabaseInfo, view: TableInfo, former: int = 0, *, query: str = ""
) -> Job:
    """CREATE VIEW; `former`: id of the view it replaces (OR REPLACE), or 0."""
    args = CreateViewArgs(view, bool(former), former)
    job = job_for(ActionCode.CREATE_VIEW, database, view, args, query)
    return evolve(job, exuvia_tables=(former,) if former else ())


def drop_view(database: DatabaseInfo, view: TableInfo, *, query: str = "") -> Job:
    """DROP VIEW of one view."""
    return job_for(ActionCode.DROP_VIEW, database, view, query=query)


def name_and_former(job: Job) -> ReadSet:
    """Reads the table with the name, and the view that is replaced."""
    return ReadSet(tables=job.exuvia_tables, facts=(own_table_name(job),))


def name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1050; with OR REPLACE, 1347 if the former table is not a view."""
    holder = snapshot.fact(own_table_name(job))
    if holder in (0, job.table_id):
        return None
    if holder not in job.exuvia_tables:
        return ErrTableExists(f"{job.schema_name}.{job.table_name}")
    former = snapshot.other(holder)
    if former is not None and former.view is None:
        return ErrWrongObject(job.schema_name, job.table_name, "VIEW")
    return None


def place_view(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The view of the statement replaces the former one."""
    view = evolve(table_of(job), id=job.table_id, exuvia_db=job.schema_id)
    others = tuple(other for other in snapshot.others if other.id not in job.exuvia_tables)
    return job, evolve(snapshot, table=view, others=others)


def object_is_no_view(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    if the_table(snapshot).view is not None:
        return None
    return ErrWrongObject(job.schema_name, job.table_name, "VIEW")


CREATE_VIEW = load(
    Action(
        ActionCode.CREATE_VIEW,
        TABLE,
        refuses=(database_is_missing, name_is_taken),
        path=(Step(ABSENT, PUBLIC, edit=place_view),),
        reads=name_and_former,
        gets_id=GetsId.TABLE,
        names=own_name,
    )
)

DROP_VIEW = load(
    Action(
        ActionCode.DROP_VIEW,
        TABLE,
        refuses=(table_to_drop_is_missing, object_is_no_view),
        path=drop_path(),
        names=own_name,
    )
)

ACTIONS = (CREATE_VIEW, DROP_VIEW)
