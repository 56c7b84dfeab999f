"""CHECK constraints: who writes obeys before the rows that stand are judged.

    ADD       absent -> write only -> write reorganization =every row obeys=> public
    DROP      public -> write only -> absent
    ENFORCE   public -> write reorganization -> write only =every row obeys=> public
    RELAX     public -> public

A row that disobeys may still be written by who planned before the duty; the rows are read from a
snapshot taken one revision after it, when nobody is left who may (law 1). Undo of ADD is DROP,
entered at the state reached; undo of ENFORCE relaxes.
"""

from typing import NamedTuple

from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import ErrBadField, ErrCheckConstraintDupName, ErrConstraintNotFound
from exuvia.catalog.constraint_info import ConstraintInfo
from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve
from exuvia.catalog.state import SchemaState
from exuvia.ddl.action import Action, Element, Step, load
from exuvia.ddl.actions.paths import obeyed, rows_obey
from exuvia.ddl.actions.refusals import table_is_missing
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import the_table
from exuvia.ddl.job import Job, arguments, job_for, raw
from exuvia.ddl.world import Wait, World

ABSENT, WRITE_ONLY = SchemaState.ABSENT, SchemaState.WRITE_ONLY
WRITE_REORG, PUBLIC = SchemaState.WRITE_REORG, SchemaState.PUBLIC


class NamedCheck(NamedTuple):
    """What DROP CHECK is asked."""

    name: str


class AlterCheck(NamedTuple):
    """What ALTER CHECK is asked."""

    name: str
    enforced: bool


def add_check(
    database: DatabaseInfo, table: TableInfo, check: ConstraintInfo, *, query: str = ""
) -> Job:
    """ADD CHECK."""
    return job_for(ActionCode.ADD_CHECK, database, table, (check,), query)


def drop_check(database: DatabaseInfo, table: TableInfo, check: str, *, query: str = "") -> Job:
    """DROP CHECK."""
    return job_for(ActionCode.DROP_CHECK, database, table, NamedCheck(check), query)


def alter_check(
    database: DatabaseInfo, table: TableInfo, check: str, enforced: bool, *, query: str = ""
) -> Job:
    """ALTER CHECK ENFORCED and NOT ENFORCED."""
    return job_for(ActionCode.ALTER_CHECK, database, table, AlterCheck(check, enforced), query)


def wanted_check(job: Job) -> ConstraintInfo:
    """The constraint ADD asks for."""
    return arguments(job, tuple[ConstraintInfo])[0]


def named_check(job: Job, world: World) -> ConstraintInfo | None:
    """The public constraint that DROP or ALTER names."""
    wanted = str(job.raw_args[0]).lower()
    found = (each for each in the_table(world).checks if each.constraint_name.L == wanted)
    return next((each for each in found if each.state == PUBLIC), None)


# -- refusals --------------------------------------------------------------------------------------


def check_name_is_taken(job: Job, world: World) -> Refused | None:
    """3822."""
    name = wanted_check(job).constraint_name.L
    taken = any(each.constraint_name.L == name for each in the_table(world).checks)
    return ErrCheckConstraintDupName(name) if taken else None


def check_column_is_unknown(job: Job, world: World) -> Refused | None:
    """1054."""
    wanted = wanted_check(job)
    for each in wanted.constraint_cols:
        column = the_table(world).column(each.L)
        if column is None or column.state != PUBLIC:
            place = f"check constraint {wanted.constraint_name.O} expression"
            return ErrBadField(each.O, place)
    return None


def check_is_unknown(job: Job, world: World) -> Refused | None:
    """3940."""
    return None if named_check(job, world) else ErrConstraintNotFound(job.raw_args[0])


# -- what moves ------------------------------------------------------------------------------------


def move_check(job: Job, world: World, state: SchemaState) -> World:
    """The job's constraint in that state; ABSENT removes it."""
    table = the_table(world)
    (element,) = job.exuvia_elements
    kept = tuple(
        evolve(each, state=state) if each.id == element else each
        for each in table.checks
        if each.id != element or state != ABSENT
    )
    return evolve(world, table=evolve(table, constraint_info=kept or None))


CHECK = Element("check constraint", follows_rows=False, move=move_check)


def place_check(job: Job, world: World) -> tuple[Job, World]:
    """The constraint gets an id and stands in the table, absent yet."""
    table = the_table(world)
    placed = evolve(wanted_check(job), id=table.max_cst_id + 1, tbl_name=table.name, state=ABSENT)
    table = evolve(table, constraint_info=(*table.checks, placed), max_cst_id=placed.id)
    job = evolve(
        job,
        raw_args=raw((placed,)),
        exuvia_elements=(placed.id,),
    )
    return job, evolve(world, table=table)


def find_check(job: Job, world: World) -> tuple[Job, World]:
    """The id of the constraint named."""
    found = named_check(job, world)
    if found is None:
        raise Broken(f"check {job.raw_args[0]} vanished between a refusal and its step")
    return evolve(job, exuvia_elements=(found.id,)), world


def _enforced(job: Job, world: World, enforced: bool) -> World:
    table = the_table(world)
    changed = tuple(
        evolve(each, enforced=enforced) if each.id in job.exuvia_elements else each
        for each in table.checks
    )
    return evolve(world, table=evolve(table, constraint_info=changed))


def enforce(job: Job, world: World) -> tuple[Job, World]:
    """Writers obey it from here."""
    job, world = find_check(job, world)
    return job, _enforced(job, world, enforced=True)


def relax(job: Job, world: World) -> tuple[Job, World]:
    """Nobody has to obey it."""
    if not job.exuvia_elements:
        job, world = find_check(job, world)
    return job, _enforced(job, world, enforced=False)


def every_row_obeys(job: Job, world: World) -> Refused | Wait | None:
    """3819 with the rows that do not."""
    (element,) = job.exuvia_elements
    found = next(each for each in the_table(world).checks if each.id == element)
    return rows_obey(job, world, "check", found.enforced)


# -- the paths -------------------------------------------------------------------------------------

DROP_CHECK = load(
    Action(
        "drop check constraint",
        ActionCode.DROP_CHECK,
        CHECK,
        refuses=(table_is_missing, check_is_unknown),
        path=(Step(PUBLIC, WRITE_ONLY, edit=find_check), Step(WRITE_ONLY, ABSENT)),
        mixes=True,
    )
)

ADD_CHECK = load(
    Action(
        "add check constraint",
        ActionCode.ADD_CHECK,
        CHECK,
        refuses=(table_is_missing, check_name_is_taken, check_column_is_unknown),
        path=obeyed(place_check, every_row_obeys),
        undo=DROP_CHECK,
        reorg=True,
        mixes=True,
    )
)

RELAX_CHECK = load(
    Action(
        "alter check constraint",
        ActionCode.ALTER_CHECK,
        CHECK,
        refuses=(table_is_missing, check_is_unknown),
        path=(Step(PUBLIC, PUBLIC, edit=relax),),
    )
)

_GIVE_UP = load(
    Action(
        "alter check constraint",
        ActionCode.ALTER_CHECK,
        CHECK,
        path=(Step(WRITE_REORG, PUBLIC, edit=relax),),
    )
)


def chosen_alter(job: Job) -> Action:
    """By its second argument."""
    return ALTER_CHECK if arguments(job, AlterCheck).enforced else RELAX_CHECK


ALTER_CHECK = load(
    Action(
        "alter check constraint",
        ActionCode.ALTER_CHECK,
        CHECK,
        refuses=(table_is_missing, check_is_unknown),
        path=(
            Step(PUBLIC, WRITE_REORG, edit=enforce),
            Step(WRITE_REORG, WRITE_ONLY),
            Step(WRITE_ONLY, PUBLIC, after=every_row_obeys),
        ),
        undo=_GIVE_UP,
        choose=chosen_alter,
        reorg=True,
        mixes=True,
    )
)
