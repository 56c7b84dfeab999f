"""ADD COLUMN and DROP COLUMN: no row is rewritten, except for the two kinds below.

    ADD    absent -> delete only -> write only -> write reorganization -> public
    DROP   public -> write only -> delete only -> delete reorganization -> absent

Rows written before ADD COLUMN have its origin default, which is frozen into the column. A row
written while the column is hidden gets the same value. So there is nothing to backfill: write
reorganization only proves that every writer knows the column. Indexes on the dropped column alone
are dropped in the same steps. Undo of ADD COLUMN is DROP COLUMN.

AUTO_INCREMENT and GENERATED .. STORED (in mysql mode) have no common value for older rows. From
write only on, writers give each inserted or changed row its number, or compute its value. Write
reorganization =filled, verified=> public does so for all other rows (law 1). An allocated number
stays; the table's counter starts again with the first step.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from exuvia.base.errors import Broken, Refused
from exuvia.base.limits import COLUMNS
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrCantDropFieldOrKey,
    ErrCantRemoveAllFields,
    ErrDependentByFunctionalIndex,
    ErrDependentByGeneratedColumn,
    ErrDupFieldName,
    ErrModifyColumnReferencedByPartialCondition,
    ErrTooManyFields,
    ErrUnsupportedDDLOperation,
)
from exuvia.catalog.convert.type_change import COMPUTED, NUMBERED
from exuvia.catalog.model import ColumnInfo, DatabaseInfo, SchemaState, TableInfo, evolve
from exuvia.ddl.action import Action, Element, ElementUse, Step, leaves, load
from exuvia.ddl.actions.shared import computed_from, table_is_missing
from exuvia.ddl.actions.ttl import column_cannot_go
from exuvia.ddl.decision import StepWait
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import (
    coming_name,
    going_name,
    index_with_predicate_on,
    indexes_in,
    indexes_on_only,
    ranges_of_index,
    reflag,
    renumber,
    the_table,
    with_column_names,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, raw
from exuvia.ddl.snapshot import CatalogSnapshot
from exuvia.pipeline import reorg

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


# -- arguments -------------------------------------------------------------------------------------


class ColumnPosition(msgspec.Struct, frozen=True):
    """`after`: a column's name, "" for FIRST, None for the end."""

    after: str | None = None


class AddColumnArgs(NamedTuple):
    """Arguments of ADD COLUMN; the first step adds the column's id.

    The column's `origin_default`, set by the caller, is the value of rows written before it.
    `replaces`: the same statement drops a column of that name. `first`: the number of the first row
    of an AUTO_INCREMENT column.
    """

    column: ColumnInfo
    place: ColumnPosition
    replaces: bool = False
    first: int = 1


class DropColumnArgs(NamedTuple):
    """Arguments of DROP COLUMN, which also drops indexes on this column alone.

    `replaced`: the same statement gives the name to another column.
    """

    name: str
    replaced: bool = False


def _added(job: Job) -> AddColumnArgs:
    return arguments(job, AddColumnArgs)


def _dropped(job: Job) -> DropColumnArgs:
    return arguments(job, DropColumnArgs)


def uses_of_added(job: Job) -> Iterator[ElementUse]:
    """The column, its neighbour, and the columns of its expression."""
    column, place, *_ = _added(job)
    yield ElementUse("column", "add", column.name.L)
    if place.after:
        yield ElementUse("column", "place", place.after.lower())
    for name in column.dependences or ():
        yield ElementUse("column", "use", name)


def uses_of_dropped(job: Job) -> Iterator[ElementUse]:
    yield ElementUse("column", "drop", _dropped(job).name.lower())


def add_column(
    database: DatabaseInfo,
    table: TableInfo,
    column: ColumnInfo,
    after: str | None = None,
    *,
    replaces: bool = False,
    first: int = 1,
    query: str = "",
) -> Job:
    """ADD COLUMN. `after`: as in ColumnPosition; `replaces`, `first`: as in AddColumnArgs."""
    args = AddColumnArgs(column, ColumnPosition(after), replaces, first)
    # only the fields that older nodes read
    stored = args if first > 1 else args[:3] if replaces else args[:2]
    job = job_for(ActionCode.ADD_COLUMN, database, table, stored, query)
    return evolve(job, reorg_meta={}) if is_filled(column) else job


def is_filled(column: ColumnInfo) -> bool:
    """Whether each row gets a value of its own when the column is added."""
    return column.auto_increment or bool(column.is_generated and column.generated_stored)


def drop_column(
    database: DatabaseInfo,
    table: TableInfo,
    column: str,
    *,
    replaced: bool = False,
    query: str = "",
) -> Job:
    """DROP COLUMN; `replaced`: another column gets its name."""
    args = DropColumnArgs(column, replaced)
    stored = args if replaced else args[:1]  # an older node reads only these
    return job_for(ActionCode.DROP_COLUMN, database, table, stored, query)


# -- refusals --------------------------------------------------------------------------------------


def column_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    args = _added(job)
    is_taken = not args.replaces and the_table(snapshot).column(args.column.name.L) is not None
    return ErrDupFieldName(args.column.name.O) if is_taken else None


def neighbour_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1054: the column of AFTER."""
    table, after = the_table(snapshot), _added(job).place.after
    exists = not after or table.column(after) is not None
    return None if exists else ErrBadField(after, table.name.O)


def columns_are_too_many(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    return ErrTooManyFields() if len(the_table(snapshot).cols) >= COLUMNS else None


def expression_column_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1054: a column of the expression was dropped while the job waited."""
    for name in _added(job).column.dependences or {}:
        column = the_table(snapshot).column(name)
        if column is None or column.state != SchemaState.PUBLIC:
            return ErrBadField(name, "generated column function")
    return None


def column_to_drop_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    column = the_table(snapshot).column(_dropped(job).name)
    there = column is not None and column.state == SchemaState.PUBLIC
    return None if there else ErrCantDropFieldOrKey(_dropped(job).name)


def column_is_the_last(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    return ErrCantRemoveAllFields() if len(the_table(snapshot).public_columns) == 1 else None


def something_is_computed_from_it(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """3108, or 3837 for an index on an expression: an expression reads the column."""
    computed = computed_from(the_table(snapshot), _dropped(job).name)
    if not computed:
        return None
    kind = ErrDependentByFunctionalIndex if computed[0].hidden else ErrDependentByGeneratedColumn
    return kind(_dropped(job).name)


def a_partial_index_reads_it(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8272: the predicate of an index reads the column."""
    table = the_table(snapshot)
    column = table.column(_dropped(job).name)
    index = None if column is None else index_with_predicate_on(table, column.id)
    if column is None or index is None:
        return None
    return ErrModifyColumnReferencedByPartialCondition(column.name.O, index.idx_name.O)


def rows_expire_by_it(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    return column_cannot_go(the_table(snapshot), _dropped(job).name)


def column_is_needed_by_an_index(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200: a part of the primary key or of an index of several columns."""
    table = the_table(snapshot)
    column = table.column(_dropped(job).name)
    if column is None:
        return None
    alone = indexes_on_only(table, column.id)
    needed = [
        index
        for index in table.indexes
        if any(part.exuvia_column == column.id for part in index.idx_cols)
        and (index.is_primary or index.id not in alone)
    ]
    if not needed:
        return None
    return ErrUnsupportedDDLOperation.with_text(
        f"can't drop column {column.name.O} with composite index covered "
        "or Primary Key covered now",
    )


# -- steps -----------------------------------------------------------------------------------------


Place = Callable[[Job, list[ColumnInfo], SchemaState], int]


def move_column(
    job: Job, snapshot: CatalogSnapshot, state: SchemaState, place: Place | None = None
) -> CatalogSnapshot:
    """The job's column, and the indexes on it alone, in that state; ABSENT removes them.

    `place` returns its position among the other columns.
    """
    table = the_table(snapshot)
    (column_id,) = job.exuvia_elements
    table = indexes_in(table, indexes_on_only(table, column_id), state)
    column = table.column_by_id(column_id)
    if column is None:
        raise Broken(f"column {column_id} of job {job.id} is gone")
    others = [other for other in table.cols if other.id != column_id]
    if state != SchemaState.ABSENT:
        moved = evolve(column, state=state)
        others.insert((place or _place_of)(job, others, state), moved)
    table = reflag(renumber(evolve(table, cols=tuple(others))))
    if column.state == SchemaState.PUBLIC != state:
        table = _without_checks_on_only(table, column)
    return evolve(snapshot, table=table)


def _without_checks_on_only(table: TableInfo, column: ColumnInfo) -> TableInfo:
    """The table without the CHECKs that name this column alone."""
    checks = tuple(
        check
        for check in table.checks
        if {name.L for name in check.constraint_cols} != {column.name.L}
    )
    return evolve(table, constraint_info=checks or None)


def _place_of(job: Job, others: list[ColumnInfo], state: SchemaState) -> int:
    """The column's position among the others: its own when public, the end while hidden."""
    if state != SchemaState.PUBLIC:
        return len(others)
    after = _added(job).place.after
    if after == "":
        return 0
    names = [column.name.L for column in others]
    if after is not None and after.lower() in names:
        return names.index(after.lower()) + 1
    return sum(column.state == SchemaState.PUBLIC for column in others)


COLUMN = Element("column", follows_rows=True, move=move_column)


def place_column(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The column has an id and follows the others, in state absent."""
    table, args = the_table(snapshot), _added(job)
    column = evolve(
        args.column,
        id=table.max_col_id + 1,
        offset=len(table.cols),
        state=SchemaState.ABSENT,
    )
    hidden_column = evolve(column, name=coming_name(column.name)) if args.replaces else column
    if column.auto_increment:
        hidden_column = evolve(hidden_column, change_state_info={NUMBERED: True})
        table = evolve(
            table,
            auto_inc_id=args.first,
            exuvia_ids_epoch=table.exuvia_ids_epoch + 1,
            exuvia_ids_forced=True,
        )
    elif is_filled(column):
        change_state = {COMPUTED: True, **(column.change_state_info or {})}
        hidden_column = evolve(hidden_column, change_state_info=change_state)
    table = evolve(table, cols=(*table.cols, hidden_column), max_col_id=column.id)
    job = evolve(
        job,
        raw_args=raw((column, *job.raw_args[1:])),
        exuvia_elements=(column.id,),
    )
    return job, evolve(snapshot, table=table)


def take_name(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The column has its name, which the one that it replaces no longer has."""
    column, _, replaces, _ = _added(job)
    if not replaces:
        return job, snapshot
    table = with_column_names(the_table(snapshot), {column.id: column.name})
    return job, evolve(snapshot, table=table)


def settle_filled(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Every row has its value; the column becomes an ordinary one, with its name."""
    (column_id,) = job.exuvia_elements
    table = the_table(snapshot)
    cols = tuple(
        evolve(column, change_state_info=None) if column.id == column_id else column
        for column in table.cols
    )
    return take_name(job, evolve(snapshot, table=evolve(table, cols=cols)))


def rows_are_filled(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """A wait until every row has its value (law 9)."""
    if snapshot.reorg.filled or snapshot.table_is_empty:
        return None
    return StepWait("", reorg.fill_column(*job.exuvia_elements))


def find_column(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Sets the job's element: the id of the named column. A replaced column gets another name."""
    table, args = the_table(snapshot), _dropped(job)
    column = table.column(args.name)
    if column is None:
        raise Broken(f"column {args.name} vanished between a refusal and its step")
    job = evolve(job, exuvia_elements=(column.id,))
    if not args.replaced:
        return job, snapshot
    table = _without_checks_on_only(table, column)
    table = with_column_names(table, {column.id: going_name(column.name)})
    return job, evolve(snapshot, table=table)


def ranges_of_its_indexes(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All entries of the indexes that are dropped with the column."""
    table = the_table(snapshot)
    (column,) = job.exuvia_elements
    return tuple(
        delete_range
        for index in indexes_on_only(table, column)
        for delete_range in ranges_of_index(table, index)
    )


def column_added(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once clients see the column."""
    return JobEvent(type="add column", table=after.table, elements=job.exuvia_elements)


def column_dropped(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once the column is gone."""
    return JobEvent(
        type="drop column",
        table=after.table,
        dropped=before.table,
        elements=job.exuvia_elements,
    )


DROP_COLUMN = load(
    Action(
        ActionCode.DROP_COLUMN,
        COLUMN,
        refuses=(
            table_is_missing,
            column_to_drop_is_unknown,
            column_is_the_last,
            something_is_computed_from_it,
            a_partial_index_reads_it,
            rows_expire_by_it,
            column_is_needed_by_an_index,
        ),
        path=(
            Step(PUBLIC, WRITE_ONLY, edit=find_column),
            Step(WRITE_ONLY, DELETE_ONLY),
            Step(DELETE_ONLY, DELETE_REORG),
            Step(
                DELETE_REORG, ABSENT, causes=(leaves(ranges_of_its_indexes),), event=column_dropped
            ),
        ),
        mixes=True,
        frees_name=True,
        uses=uses_of_dropped,
        spares_hidden=True,
    )
)

PLAIN_COLUMN = load(
    Action(
        ActionCode.ADD_COLUMN,
        COLUMN,
        refuses=(
            table_is_missing,
            column_name_is_taken,
            neighbour_is_unknown,
            columns_are_too_many,
            expression_column_is_unknown,
        ),
        path=(
            Step(ABSENT, DELETE_ONLY, edit=place_column),
            Step(DELETE_ONLY, WRITE_ONLY),
            Step(WRITE_ONLY, WRITE_REORG),
            Step(WRITE_REORG, PUBLIC, edit=take_name, event=column_added),
        ),
        undo=DROP_COLUMN,
        names_for_later=True,
        crosses_before_others=True,
        mixes=True,
        fills=True,
        uses=uses_of_added,
        spares_hidden=True,
    )
)
*_BEFORE, _LAST = PLAIN_COLUMN.path
FILLED_COLUMN = load(
    PLAIN_COLUMN._replace(
        path=(*_BEFORE, _LAST._replace(edit=settle_filled, after=rows_are_filled)),
    )
)


def path_of(job: Job) -> Action:
    """The path of ADD COLUMN for the job's column."""
    filled = bool(job.raw_args) and is_filled(_added(job).column)
    return FILLED_COLUMN if filled else PLAIN_COLUMN


ADD_COLUMN = PLAIN_COLUMN._replace(
    choose=path_of, alterable=True, manner=lambda job: is_filled(_added(job).column)
)

ACTIONS = (ADD_COLUMN,)  # DROP_COLUMN: actions/undo.py
