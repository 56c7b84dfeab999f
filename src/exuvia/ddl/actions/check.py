"""CHECK constraints: writers obey the CHECK before existing rows are validated.

    ADD       absent -> write only -> write reorganization =every row obeys=> public
    DROP      public -> write only -> absent
              public -> absent               before others, if its name or a column of it is reused
    ENFORCE   public -> write reorganization -> write only =every row obeys=> public
    RELAX     public -> public

A writer that planned before the duty may still write a row that violates the CHECK. So the rows are
read from a snapshot taken one revision later, when no such writer is left (law 1). Undo of ADD is
DROP, entered at the state reached; undo of ENFORCE relaxes.
"""

from collections.abc import Iterator
from typing import NamedTuple

from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import ErrBadField, ErrCheckConstraintDupName, ErrConstraintNotFound
from exuvia.catalog.model import ConstraintInfo, DatabaseInfo, SchemaState, TableInfo, evolve
from exuvia.catalog.rules import coming_checks
from exuvia.ddl.action import Action, Element, ElementUse, Judged, Step, load
from exuvia.ddl.actions.shared import add_constraint_path, rows_obey, table_is_missing
from exuvia.ddl.decision import StepWait
from exuvia.ddl.elements import coming_name, the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, raw
from exuvia.ddl.snapshot import CatalogSnapshot

ABSENT, WRITE_ONLY = SchemaState.ABSENT, SchemaState.WRITE_ONLY
WRITE_REORG, PUBLIC = SchemaState.WRITE_REORG, SchemaState.PUBLIC


class AddCheckArgs(NamedTuple):
    """Arguments of ADD CHECK; the first step adds the id.

    `replaces`: the same statement drops a CHECK of that name.
    """

    check: ConstraintInfo
    replaces: bool = False


class NamedCheckArgs(NamedTuple):
    """Arguments of DROP CHECK.

    `at_once`: the same statement gives its name to another one, or drops or renames a column that
    it reads.
    """

    name: str
    at_once: bool = False


class AlterCheckArgs(NamedTuple):
    """Arguments of ALTER CHECK."""

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
    args = AddCheckArgs(check, replaces)
    stored = args if replaces else args[:1]  # an older node reads only these
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
    args = NamedCheckArgs(check, at_once)
    stored = args if at_once else args[:1]  # an older node reads only these
    return job_for(ActionCode.DROP_CHECK, database, table, stored, query)


def alter_check(
    database: DatabaseInfo, table: TableInfo, check: str, enforced: bool, *, query: str = ""
) -> Job:
    """ALTER CHECK ENFORCED and NOT ENFORCED."""
    return job_for(ActionCode.ALTER_CHECK, database, table, AlterCheckArgs(check, enforced), query)


def wanted_check(job: Job) -> ConstraintInfo:
    """The constraint of ADD CHECK."""
    return arguments(job, AddCheckArgs).check


def _uses_of_added(job: Job) -> Iterator[ElementUse]:
    check = wanted_check(job)
    yield ElementUse("constraint", "add", check.constraint_name.L)
    for column in check.constraint_cols:
        yield ElementUse("column", "need", column.L)


def _uses_of_dropped(job: Job) -> Iterator[ElementUse]:
    yield ElementUse("constraint", "drop", arguments(job, NamedCheckArgs).name.lower())


def _uses_of_altered(job: Job) -> Iterator[ElementUse]:
    yield ElementUse("constraint", "modify", arguments(job, AlterCheckArgs).name.lower())


def check_to_obey(job: Job, table: TableInfo) -> ConstraintInfo | None:
    """The constraint that rows must obey after ADD or ALTER, or None."""
    if job.type == ActionCode.ADD_CHECK:
        check = wanted_check(job)
        return evolve(check, id=table.max_cst_id + 1) if check.enforced else None
    args = arguments(job, AlterCheckArgs)
    matches = (check for check in table.checks if check.constraint_name.L == args.name.lower())
    return next(matches, None) if args.enforced else None


def named_check(job: Job, snapshot: CatalogSnapshot) -> ConstraintInfo | None:
    """The public constraint that DROP or ALTER names, or None."""
    check_name = str(job.raw_args[0]).lower()
    matches = (
        check for check in the_table(snapshot).checks if check.constraint_name.L == check_name
    )
    return next((check for check in matches if check.state == PUBLIC), None)


# -- refusals --------------------------------------------------------------------------------------


def check_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    name = wanted_check(job).constraint_name.L
    if arguments(job, AddCheckArgs).replaces:
        return None
    is_taken = any(check.constraint_name.L == name for check in the_table(snapshot).checks)
    return ErrCheckConstraintDupName(name) if is_taken else None


def check_column_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    check = wanted_check(job)
    for named_column in check.constraint_cols:
        column = the_table(snapshot).column(named_column.L)
        if column is None or column.state != PUBLIC:
            place = f"check constraint {check.constraint_name.O} expression"
            return ErrBadField(named_column.O, place)
    return None


def check_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    return None if named_check(job, snapshot) else ErrConstraintNotFound(job.raw_args[0])


# -- steps -----------------------------------------------------------------------------------------


def move_check(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The job's constraint in that state; ABSENT removes it."""
    table = the_table(snapshot)
    (element,) = job.exuvia_elements
    checks = tuple(
        evolve(check, state=state) if check.id == element else check
        for check in table.checks
        if check.id != element or state != ABSENT
    )
    return evolve(snapshot, table=evolve(table, constraint_info=checks or None))


CHECK = Element("check constraint", follows_rows=False, move=move_check)


def place_check(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The constraint has an id and is in the table, in state absent."""
    table = the_table(snapshot)
    args = arguments(job, AddCheckArgs)
    placed = evolve(args.check, id=table.max_cst_id + 1, tbl_name=table.name, state=ABSENT)
    table_name = coming_name(placed.constraint_name) if args.replaces else placed.constraint_name
    unpublished = evolve(placed, constraint_name=table_name)
    table = evolve(table, constraint_info=(*table.checks, unpublished), max_cst_id=placed.id)
    job = evolve(
        job,
        raw_args=raw((placed, *job.raw_args[1:])),
        exuvia_elements=(placed.id,),
    )
    return job, evolve(snapshot, table=table)


def take_check_name(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The constraint has its name, which the one that it replaces no longer has."""
    table, new_check = the_table(snapshot), wanted_check(job)
    checks = tuple(
        evolve(check, constraint_name=new_check.constraint_name)
        if check.id in job.exuvia_elements
        else check
        for check in table.checks
    )
    return job, evolve(snapshot, table=evolve(table, constraint_info=checks))


def find_check(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Sets the job's element: the id of the named constraint."""
    match = named_check(job, snapshot)
    if match is None:
        raise Broken(f"check {job.raw_args[0]} vanished between a refusal and its step")
    return evolve(job, exuvia_elements=(match.id,)), snapshot


def find_check_to_drop(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Sets the job's element: the CHECK's id, or 0 if DROP COLUMN of the same statement has removed
    it."""
    match = named_check(job, snapshot)
    return evolve(job, exuvia_elements=(0 if match is None else match.id,)), snapshot


def _enforced(job: Job, snapshot: CatalogSnapshot, enforced: bool) -> CatalogSnapshot:
    table = the_table(snapshot)
    changed = tuple(
        evolve(check, enforced=enforced) if check.id in job.exuvia_elements else check
        for check in table.checks
    )
    return evolve(snapshot, table=evolve(table, constraint_info=changed))


def enforce(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Writers obey the constraint from this step on."""
    job, snapshot = find_check(job, snapshot)
    return job, _enforced(job, snapshot, enforced=True)


def relax(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The constraint is not enforced from this step on."""
    if not job.exuvia_elements:
        job, snapshot = find_check(job, snapshot)
    return job, _enforced(job, snapshot, enforced=False)


def every_row_obeys(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """3819 with the violating rows. Columns that the same statement changes have their new
    types."""
    (element,) = job.exuvia_elements
    table = the_table(snapshot)
    check = next(candidate for candidate in table.checks if candidate.id == element)
    kind = "coming check" if check in coming_checks(table) else "check"
    return rows_obey(job, snapshot, kind, check.enforced)


# -- the paths -------------------------------------------------------------------------------------

DROP_CHECK = load(
    Action(
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
        ActionCode.ALTER_CHECK,
        CHECK,
        refuses=(table_is_missing, check_is_unknown),
        path=(Step(PUBLIC, PUBLIC, edit=relax),),
    )
)

_GIVE_UP = load(
    Action(
        ActionCode.ALTER_CHECK,
        CHECK,
        path=(Step(WRITE_REORG, PUBLIC, edit=relax),),
    )
)


def chosen_drop(job: Job) -> Action:
    """The action by `at_once`."""
    return DROP_AT_ONCE if arguments(job, NamedCheckArgs).at_once else DROP_CHECK


def chosen_alter(job: Job) -> Action:
    """The action by `enforced`."""
    return ALTER_CHECK if arguments(job, AlterCheckArgs).enforced else RELAX_CHECK


ALTER_CHECK = load(
    Action(
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
