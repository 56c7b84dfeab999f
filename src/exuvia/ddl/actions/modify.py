"""MODIFY, CHANGE and RENAME COLUMN: one action code, four paths (catalog/change.py chooses).

    METADATA   absent -> public
    CHECKED    absent -> write only -> (proof) write reorganization =rows read=> public
    INDEXES    absent -> delete only -> write only -> write reorganization =fill, verify=> public
    ROWS       likewise, =rows written, fill, verify=> public
    tail       write only -> delete only -> gone        what was replaced, of the last two

CHECKED: from the first step writers obey both types; the silent one proves that nobody is left who
does not, so the rows read after it are all there is to judge (law 1). ROWS and INDEXES: hidden
elements walk as in ADD INDEX and are swapped with the old in one version. Undo removes them.
Source: seed 003; TiDB's "modify column".
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrDependentByFunctionalIndex,
    ErrDependentByGeneratedColumn,
    ErrDupFieldName,
    ErrTableDefChanged,
)
from exuvia.catalog.change import Kind
from exuvia.catalog.model import evolve
from exuvia.catalog.state import SchemaState
from exuvia.ddl import ranges
from exuvia.ddl.action import Action, Element, Step, load
from exuvia.ddl.actions import modify_moves as moves
from exuvia.ddl.actions.modify_arguments import (
    is_still_meant,
    modification_of,
    with_modification,
)
from exuvia.ddl.actions.refusals import computed_from, table_is_missing
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import the_table
from exuvia.ddl.job import Job
from exuvia.ddl.world import DeleteRange, Event, Wait, World
from exuvia.pipeline.plans import ChangeColumn

ABSENT, DELETE_ONLY, WRITE_ONLY = (
    SchemaState.ABSENT,
    SchemaState.DELETE_ONLY,
    SchemaState.WRITE_ONLY,
)
WRITE_REORG, DELETE_REORG, PUBLIC = (
    SchemaState.WRITE_REORG,
    SchemaState.DELETE_REORG,
    SchemaState.PUBLIC,
)
_NOUN = "column that changes"


# -- refusals --------------------------------------------------------------------------------------


def column_to_change_is_unknown(job: Job, world: World) -> Refused | None:
    """1054, also for the neighbour it is to stand behind."""
    found, table = modification_of(job), the_table(world)
    column = table.column_by_id(found.column.id)
    if column is None or column.state != PUBLIC:
        return ErrBadField(found.old_column_name, table.name.O)
    if found.after and table.column(found.after) is None:
        return ErrBadField(found.after, table.name.O)
    return None


def new_name_is_taken(job: Job, world: World) -> Refused | None:
    """1060."""
    found = modification_of(job)
    held = the_table(world).column(found.column.name.L)
    taken = held is not None and held.id != found.column.id
    return ErrDupFieldName(found.column.name.O) if taken else None


def something_is_computed_from_the_old_name(job: Job, world: World) -> Refused | None:
    """3108, 3837: an expression names a column that is to be renamed."""
    modification, table = modification_of(job), the_table(world)
    column = table.column_by_id(modification.column.id)
    if column is None or column.name.L == modification.column.name.L:
        return None
    found = computed_from(table, column.name.L)
    if not found:
        return None
    kind = ErrDependentByFunctionalIndex if found[0].hidden else ErrDependentByGeneratedColumn
    return kind(column.name.O)


def column_has_changed_since(job: Job, world: World) -> Refused | None:
    """1412: another job changed it, or its indexes, since the statement chose what to do."""
    found, table = modification_of(job), the_table(world)
    column = table.column_by_id(found.column.id)
    meant = column is not None and is_still_meant(found, table, column)
    return None if meant else ErrTableDefChanged()


# -- what the steps do -----------------------------------------------------------------------------


def _change(job: Job, world: World) -> tuple[Job, World]:
    table = moves.withdraw(the_table(world), modification_of(job))
    return job, evolve(world, table=moves.change(table, modification_of(job)))


def _announce(job: Job, world: World) -> tuple[Job, World]:
    return job, evolve(world, table=moves.announce(the_table(world), modification_of(job)))


def _withdraw(job: Job, world: World) -> tuple[Job, World]:
    return job, evolve(world, table=moves.withdraw(the_table(world), modification_of(job)))


def _place(job: Job, world: World) -> tuple[Job, World]:
    table, found = moves.place(the_table(world), modification_of(job))
    return with_modification(job, found), evolve(world, table=table)


def _stay(job: Job, world: World, state: SchemaState) -> World:
    return world


def _walk(job: Job, world: World, state: SchemaState) -> World:
    """Hidden elements up to the swap; behind it what was replaced, down."""
    found, table = modification_of(job), the_table(world)
    if job.exuvia_tail:
        target = ABSENT if state == PUBLIC else state
        return evolve(world, table=moves.drop_old(table, found, target))
    if state == PUBLIC:
        return evolve(world, table=moves.swap(table, found))
    return evolve(world, table=moves.set_hidden(table, found, state))


# -- conditions, remains, events -------------------------------------------------------------------


def rows_obey(job: Job, world: World) -> Refused | Wait | None:
    """Every row has been read, or written, and what was made of them compared (law 9)."""
    if world.failure is not None:
        return world.failure
    if world.table_is_empty or world.filled:
        return None
    found = modification_of(job)
    hidden = tuple(index for _, index in found.changing_idxs)
    changing = found.changing_column_id if found.kind == Kind.ROWS else 0
    return Wait("", ChangeColumn(found.column.id, changing, hidden))


def _ranges(job: Job, world: World, ids: list[int]) -> tuple[DeleteRange, ...]:
    table = the_table(world)
    return tuple(found for each in ids for found in ranges.of_index(table, each))


def hidden_ranges(job: Job, world: World) -> tuple[DeleteRange, ...]:
    """All entries of the hidden indexes."""
    return _ranges(job, world, [hidden for _, hidden in modification_of(job).changing_idxs])


def hidden_tombstones(job: Job, world: World) -> tuple[DeleteRange, ...]:
    """What removals left in them to stop the fill."""
    return tuple(evolve(each, tombstones_only=True) for each in hidden_ranges(job, world))


def old_ranges(job: Job, world: World) -> tuple[DeleteRange, ...]:
    """All entries of the indexes that were replaced."""
    replaced = moves.replaced_indexes(the_table(world), modification_of(job))
    return _ranges(job, world, sorted(replaced))


def column_modified(job: Job, before: World, after: World) -> Event:
    """The column is what was asked for."""
    found = modification_of(job)
    return Event(
        type="modify column",
        table=after.table,
        elements=(found.changing_column_id or found.column.id,),
    )


# -- paths -----------------------------------------------------------------------------------------

_IN_PLACE = Element(_NOUN, follows_rows=False, move=_stay)
_HIDDEN = Element(_NOUN, follows_rows=True, move=_walk)
_REFUSES = (
    table_is_missing,
    column_to_change_is_unknown,
    new_name_is_taken,
    something_is_computed_from_the_old_name,
    column_has_changed_since,
)
_LABEL = "modify column"


def _action(
    element: Element,
    path: tuple[Step, ...],
    undo: Action | None = None,
    tail: tuple[Step, ...] = (),
) -> Action:
    return load(Action(_LABEL, ActionCode.MODIFY_COLUMN, element, path, _REFUSES, undo, tail=tail))


def _undo(element: Element, path: tuple[Step, ...]) -> Action:
    return load(Action("undo of modify column", ActionCode.MODIFY_COLUMN, element, path))


METADATA = _action(_IN_PLACE, (Step(ABSENT, PUBLIC, edit=_change, event=column_modified),))

CHECKED = _action(
    _IN_PLACE,
    (
        Step(ABSENT, WRITE_ONLY, edit=_announce),
        Step(WRITE_ONLY, WRITE_REORG, silent=True),
        Step(WRITE_REORG, PUBLIC, edit=_change, after=rows_obey, event=column_modified),
    ),
    undo=_undo(_IN_PLACE, (Step(WRITE_REORG, ABSENT, edit=_withdraw),)),
)


def _removal(last: Step) -> Action:
    path = (Step(PUBLIC, WRITE_ONLY), Step(WRITE_ONLY, DELETE_ONLY))
    return _undo(_HIDDEN, (*path, Step(DELETE_ONLY, DELETE_REORG), last))


def _rebuilding(removal: Action) -> Action:
    return _action(
        _HIDDEN,
        (
            Step(ABSENT, DELETE_ONLY, edit=_place),
            Step(DELETE_ONLY, WRITE_ONLY),
            Step(WRITE_ONLY, WRITE_REORG),
            Step(WRITE_REORG, PUBLIC, after=rows_obey, leaves=hidden_tombstones),
        ),
        undo=removal,
        tail=(
            Step(WRITE_ONLY, DELETE_ONLY),
            Step(DELETE_ONLY, PUBLIC, leaves=old_ranges, event=column_modified),
        ),
    )


INDEXES = _rebuilding(_removal(Step(DELETE_REORG, ABSENT, edit=_withdraw, leaves=hidden_ranges)))
ROWS = _rebuilding(_removal(Step(DELETE_REORG, ABSENT, leaves=hidden_ranges)))

BY_KIND = {
    Kind.METADATA: METADATA,
    Kind.CHECKED: CHECKED,
    Kind.INDEXES: INDEXES,
    Kind.ROWS: ROWS,
}


def path_of(job: Job) -> Action:
    """The path that the job's kind calls for."""
    return BY_KIND[modification_of(job).kind]


MODIFY_COLUMN = ROWS._replace(choose=path_of)
