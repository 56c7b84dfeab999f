"""CHECK constraints: who writes obeys before the rows that stand are judged.

    ADD       absent -> write only -> write reorganization =every row obeys=> public
    DROP      public -> write only -> absent
              public -> absent               first of all, where its name or a column of it goes on
    ENFORCE   public -> write reorganization -> write only =every row obeys=> public
    RELAX     public -> public

A row that disobeys may still be written by who planned before the duty; the rows are read from a
snapshot taken one revision after it, when nobody is left who may (law 1). Undo of ADD is DROP,
entered at the state reached; undo of ENFORCE relaxes.
"""

from collections.abc import Iterator
from typing import NamedTuple

from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import ErrBadField, ErrCheckConstraintDupName, ErrConstraintNotFound
from exuvia.catalog.model import ConstraintInfo, DatabaseInfo, SchemaState, TableInfo, evolve
from exuvia.catalog.rules import coming_checks
from exuvia.ddl.action import Action, Element, ElementUse, Judged, Step, load
from exuvia.ddl.actions.shared import add_constraint_path, rows_obey, table_is_missing
from exuvia.ddl.decision import CatalogSnapshot, StepWait
from exuvia.ddl.elements import coming_name, the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, raw

ABSENT, WRITE_ONLY = SchemaState.ABSENT, SchemaState.WRITE_ONLY
WRITE_REORG, PUBLIC = SchemaState.WRITE_REORG, SchemaState.PUBLIC


class AddCheckArgs(NamedTuple):
    """What ADD CHECK is asked; the first step puts in the id. `replaces`: the same statement drops
    one of that name."""

    check: ConstraintInfo
    replaces: bool = False


class NamedCheckArgs(NamedTuple):
    """What DROP CHECK is asked. `at_once`: the same statement gives its name to another one, or
    drops or renames a column that it reads."""

    name: str
    at_once: bool = False


class AlterCheckArgs(NamedTuple):
    """What ALTER CHECK is asked."""

    name: str
    enforced: bool


def add_check(
    database: DatabaseInfo,
    table: TableInfo,
    check: ConstraintInfo,
    *,
    replaces: bool = False,
    query: str = "",
) -> Job:
    """ADD CHECK; `replaces`: as in AddCheckArgs."""
    asked = AddCheckArgs(check, replaces)
    stored = asked if replaces else asked[:1]  # an older node reads no more
    return job_for(ActionCode.ADD_CHECK, database, table, stored, query)


def drop_check(
    database: DatabaseInfo,
    table: TableInfo,
    check: str,
    *,
    at_once: bool = False,
    query: str = "",
) -> Job:
    """DROP CHECK; `at_once`: as in NamedCheckArgs."""
    asked = NamedCheckArgs(check, at_once)
    stored = asked if at_once else asked[:1]  # an older node reads no more
    return job_for(ActionCode.DROP_CHECK, database, table, stored, query)


def alter_check(
    database: DatabaseInfo, table: TableInfo, check: str, enforced: bool, *, query: str = ""
) -> Job:
    """ALTER CHECK ENFORCED and NOT ENFORCED."""
    return job_for(ActionCode.ALTER_CHECK, database, table, AlterCheckArgs(check, enforced), query)


def wanted_check(job: Job) -> ConstraintInfo:
    """The constraint ADD asks for."""
    return arguments(job, AddCheckArgs).check


def _uses_of_added(job: Job) -> Iterator[ElementUse]:
    wanted = wanted_check(job)
    yield ElementUse("constraint", "add", wanted.constraint_name.L)
    for each in wanted.constraint_cols:
        yield ElementUse("column", "need", each.L)


def _uses_of_dropped(job: Job) -> Iterator[ElementUse]:
    yield ElementUse("constraint", "drop", arguments(job, NamedCheckArgs).name.lower())


def _uses_of_altered(job: Job) -> Iterator[ElementUse]:
    yield ElementUse("constraint", "modify", arguments(job, AlterCheckArgs).name.lower())


def check_to_obey(job: Job, table: TableInfo) -> ConstraintInfo | None:
    """What rows of the table are to obey from ADD or ALTER on; None where nothing is asked."""
    if job.type == ActionCode.ADD_CHECK:
        wanted = wanted_check(job)
        return evolve(wanted, id=table.max_cst_id + 1) if wanted.enforced else None
    asked = arguments(job, AlterCheckArgs)
    found = (each for each in table.checks if each.constraint_name.L == asked.name.lower())
    return next(found, None) if asked.enforced else None


def named_check(job: Job, snapshot: CatalogSnapshot) -> ConstraintInfo | None:
    """The public constraint that DROP or ALTER names."""
    wanted = str(job.raw_args[0]).lower()
    found = (each for each in the_table(snapshot).checks if each.constraint_name.L == wanted)
    return next((each for each in found if each.state == PUBLIC), None)


# -- refusals --------------------------------------------------------------------------------------


def check_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    name = wanted_check(job).constraint_name.L
    if arguments(job, AddCheckArgs).replaces:
        return None
    taken = any(each.constraint_name.L == name for each in the_table(snapshot).checks)
    return ErrCheckConstraintDupName(name) if taken else None


def check_column_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    wanted = wanted_check(job)
    for each in wanted.constraint_cols:
        column = the_table(snapshot).column(each.L)
        if column is None or column.state != PUBLIC:
            place = f"check constraint {wanted.constraint_name.O} expression"
            return ErrBadField(each.O, place)
    return None


def check_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    return None if named_check(job, snapshot) else ErrConstraintNotFound(job.raw_args[0])


# -- what moves ------------------------------------------------------------------------------------


def move_check(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The job's constraint in that state; ABSENT removes it."""
    table = the_table(snapshot)
    (element,) = job.exuvia_elements
    kept = tuple(
        evolve(each, state=state) if each.id == element else each
        for each in table.checks
        if each.id != element or state != ABSENT
    )
    return evolve(snapshot, table=evolve(table, constraint_info=kept or None))


CHECK = Element("check constraint", follows_rows=False, move=move_check)


def place_check(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The constraint gets an id and stands in the table, absent yet."""
    table = the_table(snapshot)
    asked = arguments(job, AddCheckArgs)
    placed = evolve(asked.check, id=table.max_cst_id + 1, tbl_name=table.name, state=ABSENT)
    known_as = coming_name(placed.constraint_name) if asked.replaces else placed.constraint_name
    stands = evolve(placed, constraint_name=known_as)
    table = evolve(table, constraint_info=(*table.checks, stands), max_cst_id=placed.id)
    job = evolve(
        job,
        raw_args=raw((placed, *job.raw_args[1:])),
        exuvia_elements=(placed.id,),
    )
    return job, evolve(snapshot, table=table)


def take_check_name(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """It has its name, which the one that it replaces has left with it."""
    table, wanted = the_table(snapshot), wanted_check(job)
    checks = tuple(
        evolve(each, constraint_name=wanted.constraint_name)
        if each.id in job.exuvia_elements
        else each
        for each in table.checks
    )
    return job, evolve(snapshot, table=evolve(table, constraint_info=checks))


def find_check(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The id of the constraint named."""
    found = named_check(job, snapshot)
    if found is None:
        raise Broken(f"check {job.raw_args[0]} vanished between a refusal and its step")
    return evolve(job, exuvia_elements=(found.id,)), snapshot


def find_check_to_drop(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Sets the job's element: the CHECK's id, or 0 if DROP COLUMN of the same statement has
    removed it already."""
    found = named_check(job, snapshot)
    return evolve(job, exuvia_elements=(0 if found is None else found.id,)), snapshot


def _enforced(job: Job, snapshot: CatalogSnapshot, enforced: bool) -> CatalogSnapshot:
    table = the_table(snapshot)
    changed = tuple(
        evolve(each, enforced=enforced) if each.id in job.exuvia_elements else each
        for each in table.checks
    )
    return evolve(snapshot, table=evolve(table, constraint_info=changed))


def enforce(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Writers obey it from here."""
    job, snapshot = find_check(job, snapshot)
    return job, _enforced(job, snapshot, enforced=True)


def relax(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Nobody has to obey it."""
    if not job.exuvia_elements:
        job, snapshot = find_check(job, snapshot)
    return job, _enforced(job, snapshot, enforced=False)


def every_row_obeys(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """3819 with the rows that do not. Columns that the same statement changes are as they will
    be."""
    (element,) = job.exuvia_elements
    table = the_table(snapshot)
    found = next(each for each in table.checks if each.id == element)
    kind = "coming check" if found in coming_checks(table) else "check"
    return rows_obey(job, snapshot, kind, found.enforced)


# -- the paths -------------------------------------------------------------------------------------

DROP_CHECK = load(
    Action(
        "drop check constraint",
        ActionCode.DROP_CHECK,
        CHECK,
        refuses=(table_is_missing, check_is_unknown),
        path=(Step(PUBLIC, WRITE_ONLY, edit=find_check_to_drop), Step(WRITE_ONLY, ABSENT)),
        mixes=True,
        uses=_uses_of_dropped,
    )
)
DROP_AT_ONCE = load(
    DROP_CHECK._replace(path=(Step(PUBLIC, ABSENT, edit=find_check_to_drop),), frees_name=True)
)

ADD_CHECK = load(
    Action(
        "add check constraint",
        ActionCode.ADD_CHECK,
        CHECK,
        refuses=(table_is_missing, check_name_is_taken, check_column_is_unknown),
        path=add_constraint_path(place_check, every_row_obeys, take_check_name),
        undo=DROP_CHECK,
        reorg=True,
        mixes=True,
        fills=True,
        uses=_uses_of_added,
        judged=Judged.CHECK,
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


def chosen_drop(job: Job) -> Action:
    """By its second argument."""
    return DROP_AT_ONCE if arguments(job, NamedCheckArgs).at_once else DROP_CHECK


def chosen_alter(job: Job) -> Action:
    """By its second argument."""
    return ALTER_CHECK if arguments(job, AlterCheckArgs).enforced else RELAX_CHECK


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
        uses=_uses_of_altered,
        judged=Judged.CHECK,
    )
)

ACTIONS = (ADD_CHECK, DROP_CHECK._replace(choose=chosen_drop), ALTER_CHECK)
