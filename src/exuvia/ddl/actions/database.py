"""CREATE DATABASE, ALTER DATABASE, and DROP DATABASE, which also drops all its tables.

    CREATE   absent -> public
    ALTER    absent -> public                            charset and collation of future tables
    DROP     public -> write only -> delete only -> absent

The revision of the database is part of the fence of each of its tables. So one bump per step is
enough for all of them. The last step writes the same few keys however many tables there are. Their
names and infos stay, unreachable, as one range that is emptied later (ddl/gc_worker.py).
"""

from exuvia.base.errors import Broken
from exuvia.catalog.model import DatabaseInfo, PolicyRef, SchemaState, evolve, name
from exuvia.ddl.action import Action, GetsId, Step, awaits, leaves, load
from exuvia.ddl.actions.shared import (
    Children,
    database_is_missing,
    database_name_is_taken,
    database_to_drop_is_missing,
    drop_path,
    reads_own_database_name,
    reads_referrers,
    table_is_referred_to,
)
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import DATABASE, DATABASE_IN_PLACE, ranges_of_database
from exuvia.ddl.facts import TablesOf
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, raw
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC


# -- arguments -------------------------------------------------------------------------------------


def create_database(
    database: str,
    charset: str = "utf8mb4",
    collate: str = "utf8mb4_bin",
    policy: PolicyRef | None = None,
    *,
    query: str = "",
) -> Job:
    """CREATE DATABASE."""
    database_info = DatabaseInfo(
        id=0, db_name=name(database), charset=charset, collate=collate, policy_ref_info=policy
    )
    return Job(
        type=ActionCode.CREATE_SCHEMA,
        schema_name=database,
        raw_args=raw((database_info,)),
        charset=charset,
        collate=collate,
        query=query,
        exuvia_policies=() if policy is None else (policy,),
    )


def drop_database(database: DatabaseInfo, *, checks: bool = False, query: str = "") -> Job:
    """DROP DATABASE with all its tables; `checks`: refused if a table elsewhere refers to one."""
    args = (Children(),) if checks else ()
    return job_for(ActionCode.DROP_SCHEMA, database, None, args, query)


def alter_database(database: DatabaseInfo, charset: str, collate: str, *, query: str = "") -> Job:
    """ALTER DATABASE: the default charset of future tables."""
    job = job_for(ActionCode.SCHEMA_CHARSET, database, None, ({"charset": charset},), query)
    return evolve(job, charset=charset, collate=collate)


# -- steps -----------------------------------------------------------------------------------------


def place_database(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The database of the job's arguments."""
    return job, evolve(
        snapshot, database=evolve(arguments(job, tuple[DatabaseInfo])[0], id=job.schema_id)
    )


def change_charset(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The database with the job's charset and collation."""
    if snapshot.database is None:
        raise Broken(f"the database of job {job.id} is gone")
    changed = evolve(snapshot.database, charset=job.charset, collate=job.collate)
    return job, evolve(snapshot, database=changed)


def ranges_of_its_tables(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """Rows and entries of every table, found through its names."""
    return ranges_of_database(job.schema_id)


def _its_tables(job: Job, snapshot: CatalogSnapshot) -> tuple[int, ...]:
    return snapshot.fact(TablesOf(job.schema_id))


def database_dropped(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once the database and its tables are gone."""
    return JobEvent(type="drop schema", database=before.database, elements=_its_tables(job, before))


CREATE_DATABASE = load(
    Action(
        ActionCode.CREATE_SCHEMA,
        DATABASE,
        refuses=(database_name_is_taken,),
        path=(Step(ABSENT, PUBLIC, edit=place_database),),
        reads=reads_own_database_name,
        gets_id=GetsId.DATABASE,
        whole_database=True,
    )
)

ALTER_DATABASE = load(
    Action(
        ActionCode.SCHEMA_CHARSET,
        DATABASE_IN_PLACE,
        refuses=(database_is_missing,),
        path=(Step(ABSENT, PUBLIC, edit=change_charset),),
    )
)


def _reads_tables(job: Job) -> ReadSet:
    return ReadSet.union([ReadSet(facts=(TablesOf(job.schema_id),)), reads_referrers(job)])


_DROP_PATH = tuple(
    step._replace(causes=(awaits(_its_tables), *step.causes))
    for step in drop_path(leaves(ranges_of_its_tables), event=database_dropped)
)
DROP_DATABASE = load(
    Action(
        ActionCode.DROP_SCHEMA,
        DATABASE,
        refuses=(database_to_drop_is_missing, table_is_referred_to),
        path=_DROP_PATH,
        reads=_reads_tables,
        whole_database=True,
        drops_database=True,
        spares_hidden=True,
    )
)

ACTIONS = (CREATE_DATABASE, ALTER_DATABASE, DROP_DATABASE)
