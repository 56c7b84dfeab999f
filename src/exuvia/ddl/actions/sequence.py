"""CREATE SEQUENCE, ALTER SEQUENCE and DROP SEQUENCE.

    CREATE   absent -> public
    ALTER    one step: new options; its revision moves, so nodes discard their cached values
    DROP     public -> write only -> delete only -> absent, then its counter is removed

RESTART begins a new generation, whose counter starts at `exuvia_base` (catalog/autoid.py).
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrUnknownSequence, ErrWrongObject
from exuvia.catalog.model import DatabaseInfo, SchemaState, SequenceInfo, TableInfo, evolve
from exuvia.ddl.action import Action, GetsId, Step, leaves, load
from exuvia.ddl.actions.shared import database_is_missing, drop_path
from exuvia.ddl.actions.table import own_name, table_range
from exuvia.ddl.actions.view import name_and_former, name_is_taken, place_view
from exuvia.ddl.elements import TABLE, the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.ddl.snapshot import CatalogSnapshot

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC


def create_sequence(database: DatabaseInfo, sequence: TableInfo, *, query: str = "") -> Job:
    """CREATE SEQUENCE; `sequence.sequence` has the options."""
    return job_for(ActionCode.CREATE_SEQUENCE, database, sequence, (sequence,), query)


def alter_sequence(
    database: DatabaseInfo, sequence: TableInfo, options: SequenceInfo, *, query: str = ""
) -> Job:
    """ALTER SEQUENCE to these options."""
    return job_for(ActionCode.ALTER_SEQUENCE, database, sequence, (options,), query)


def drop_sequence(database: DatabaseInfo, sequence: TableInfo, *, query: str = "") -> Job:
    """DROP SEQUENCE of one sequence."""
    return job_for(ActionCode.DROP_SEQUENCE, database, sequence, query=query)


def sequence_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """4139; 1347 for another kind of table."""
    table = snapshot.table
    if table is None or table.state != SchemaState.PUBLIC:
        return ErrUnknownSequence(f"{job.schema_name}.{job.table_name}")
    if table.sequence is None:
        return ErrWrongObject(job.schema_name, job.table_name, "SEQUENCE")
    return None


def change_options(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The options of the statement; the comment of a sequence is its table's."""
    (options,) = arguments(job, tuple[SequenceInfo])
    table = evolve(the_table(snapshot), sequence=options, comment=options.sequence_comment)
    return job, evolve(snapshot, table=table)


CREATE_SEQUENCE = load(
    Action(
        ActionCode.CREATE_SEQUENCE,
        TABLE,
        refuses=(database_is_missing, name_is_taken),
        path=(Step(ABSENT, PUBLIC, edit=place_view),),
        reads=name_and_former,
        gets_id=GetsId.TABLE,
        names=own_name,
    )
)

ALTER_SEQUENCE = load(
    Action(
        ActionCode.ALTER_SEQUENCE,
        TABLE,
        refuses=(sequence_is_missing,),
        path=(Step(ABSENT, PUBLIC, edit=change_options),),
    )
)

DROP_SEQUENCE = load(
    Action(
        ActionCode.DROP_SEQUENCE,
        TABLE,
        refuses=(sequence_is_missing,),
        path=drop_path(leaves(table_range)),
        names=own_name,
    )
)

ACTIONS = (CREATE_SEQUENCE, ALTER_SEQUENCE, DROP_SEQUENCE)
