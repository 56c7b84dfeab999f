"""ADD COLUMN and DROP COLUMN: no row is rewritten.

    ADD    absent -> delete only -> write only -> write reorganization -> public
    DROP   public -> write only -> delete only -> delete reorganization -> absent

A row written before the column was has its origin default, which is frozen into the column; a row
written while the column is hidden gets the same value. So there is nothing to fill: write
reorganization only proves that every writer knows the column. Indexes on the dropped column alone
walk with it. Undo of ADD COLUMN is DROP COLUMN.
"""

import msgspec

from exuvia.base.errors import Broken
from exuvia.catalog.model import evolve
from exuvia.catalog.state import SchemaState
from exuvia.ddl import ranges
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.arguments import column_of
from exuvia.ddl.actions.refusals import (
    column_is_needed_by_an_index,
    column_is_the_last,
    column_name_is_taken,
    column_to_drop_is_unknown,
    columns_are_too_many,
    its_expression_names_nothing,
    neighbour_is_unknown,
    something_is_computed_from_it,
    table_is_missing,
)
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import COLUMN, indexes_on_only, the_table
from exuvia.ddl.job import Job
from exuvia.ddl.world import DeleteRange, Event, World

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


def place_column(job: Job, world: World) -> tuple[Job, World]:
    """The column gets its id and stands behind the others, absent yet."""
    table = the_table(world)
    column = evolve(
        column_of(job), id=table.max_col_id + 1, offset=len(table.cols), state=SchemaState.ABSENT
    )
    table = evolve(table, cols=(*table.cols, column), max_col_id=column.id)
    job = evolve(
        job,
        raw_args=(msgspec.to_builtins(column), *job.raw_args[1:]),
        exuvia_elements=(column.id,),
    )
    return job, evolve(world, table=table)


def find_column(job: Job, world: World) -> tuple[Job, World]:
    """The id of the column named."""
    column = the_table(world).column(job.raw_args[0])
    if column is None:
        raise Broken(f"column {job.raw_args[0]} vanished between a refusal and its step")
    return evolve(job, exuvia_elements=(column.id,)), world


def ranges_of_its_indexes(job: Job, world: World) -> tuple[DeleteRange, ...]:
    """All entries of the indexes that go along with the column."""
    table = the_table(world)
    (column,) = job.exuvia_elements
    return tuple(
        found for index in indexes_on_only(table, column) for found in ranges.of_index(table, index)
    )


def column_added(job: Job, before: World, after: World) -> Event:
    """Clients see the column."""
    return Event(type="add column", table=after.table, elements=job.exuvia_elements)


def column_dropped(job: Job, before: World, after: World) -> Event:
    """The column is gone."""
    return Event(
        type="drop column",
        table=after.table,
        dropped=before.table,
        elements=job.exuvia_elements,
    )


DROP_COLUMN = load(
    Action(
        "drop column",
        ActionCode.DROP_COLUMN,
        COLUMN,
        refuses=(
            table_is_missing,
            column_to_drop_is_unknown,
            column_is_the_last,
            something_is_computed_from_it,
            column_is_needed_by_an_index,
        ),
        path=(
            Step(PUBLIC, WRITE_ONLY, edit=find_column),
            Step(WRITE_ONLY, DELETE_ONLY),
            Step(DELETE_ONLY, DELETE_REORG),
            Step(DELETE_REORG, ABSENT, leaves=ranges_of_its_indexes, event=column_dropped),
        ),
    )
)

ADD_COLUMN = load(
    Action(
        "add column",
        ActionCode.ADD_COLUMN,
        COLUMN,
        refuses=(
            table_is_missing,
            column_name_is_taken,
            neighbour_is_unknown,
            columns_are_too_many,
            its_expression_names_nothing,
        ),
        path=(
            Step(ABSENT, DELETE_ONLY, edit=place_column),
            Step(DELETE_ONLY, WRITE_ONLY),
            Step(WRITE_ONLY, WRITE_REORG),
            Step(WRITE_REORG, PUBLIC, event=column_added),
        ),
        undo=DROP_COLUMN,
        names_for_later=True,
    )
)
