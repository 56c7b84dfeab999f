"""CREATE DATABASE and DROP DATABASE, which takes every table in it along.

    CREATE   absent -> public
    DROP     public -> write only -> delete only -> absent

The revision of the database is part of the fence of each of its tables, so one bump a step holds
for all of them. Every table's range is left to be emptied. The last step is one transaction over
all tables: a database with very many tables makes a large one.
"""

from exuvia.catalog.model import evolve
from exuvia.catalog.state import SchemaState
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.arguments import database_of
from exuvia.ddl.actions.refusals import database_name_is_taken, database_to_drop_is_missing
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import DATABASE
from exuvia.ddl.job import Job
from exuvia.ddl.world import DeleteRange, Event, World
from exuvia.kv import keys

ABSENT, DELETE_ONLY = SchemaState.ABSENT, SchemaState.DELETE_ONLY
WRITE_ONLY, PUBLIC = SchemaState.WRITE_ONLY, SchemaState.PUBLIC


def place_database(job: Job, world: World) -> tuple[Job, World]:
    """The database as asked for."""
    return job, evolve(world, database=evolve(database_of(job), id=job.schema_id))


def ranges_of_its_tables(job: Job, world: World) -> tuple[DeleteRange, ...]:
    """Rows and entries of every table."""
    return tuple(DeleteRange(table, keys.table_span(table)) for table in world.tables)


def database_dropped(job: Job, before: World, after: World) -> Event:
    """The database and its tables are gone."""
    return Event(type="drop schema", database=before.database, elements=before.tables)


CREATE_DATABASE = load(
    Action(
        "create schema",
        ActionCode.CREATE_SCHEMA,
        DATABASE,
        refuses=(database_name_is_taken,),
        path=(Step(ABSENT, PUBLIC, edit=place_database),),
    )
)

DROP_DATABASE = load(
    Action(
        "drop schema",
        ActionCode.DROP_SCHEMA,
        DATABASE,
        refuses=(database_to_drop_is_missing,),
        path=(
            Step(PUBLIC, WRITE_ONLY),
            Step(WRITE_ONLY, DELETE_ONLY),
            Step(DELETE_ONLY, ABSENT, leaves=ranges_of_its_tables, event=database_dropped),
        ),
    )
)
