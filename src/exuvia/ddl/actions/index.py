"""ADD INDEX: readers see the index when every row is in it.  DROP INDEX: readers leave first.

    ADD    absent -> delete only -> write only -> write reorganization =fill, verify=> public
    DROP   public -> write only -> delete only -> delete reorganization -> absent, emptied later

Several indexes of one statement walk together and are filled by one scan. Undo of ADD INDEX is
DROP INDEX, entered at the state reached: whatever was written is in the range that is emptied.
An index on an expression takes its hidden virtual columns along. ADD PRIMARY KEY makes its columns
NOT NULL: writers obey from the first step, the fill refuses a NULL that is there (1138).
Source: F1, section 4; seeds 001 to 003.
"""

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.types import Flag
from exuvia.catalog.model import ColumnInfo, IndexColumn, IndexInfo, TableInfo, evolve
from exuvia.catalog.state import SchemaState
from exuvia.ddl import ranges
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.arguments import hidden_columns_wanted, indexes_of
from exuvia.ddl.actions.refusals import (
    column_is_unknown,
    hidden_column_is_taken,
    index_name_is_taken,
    index_to_drop_is_unknown,
    indexes_are_too_many,
    primary_key_is_clustered,
    primary_key_is_missing,
    primary_key_is_named,
    table_has_a_primary_key,
    table_is_missing,
)
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import INDEX, the_table
from exuvia.ddl.job import Job
from exuvia.ddl.world import DeleteRange, Event, Wait, World
from exuvia.pipeline.plans import FillIndexes

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


def place_indexes(job: Job, world: World) -> tuple[Job, World]:
    """The indexes get ids and stand in the table, absent yet, as do their hidden columns."""
    table = _with_hidden(the_table(world), hidden_columns_wanted(job))
    placed = tuple(
        _placed(table, index, table.max_idx_id + 1 + n) for n, index in enumerate(indexes_of(job))
    )
    table = evolve(
        table,
        index_info=(*table.indexes, *placed),
        max_idx_id=table.max_idx_id + len(placed),
    )
    job = evolve(
        job,
        raw_args=tuple(
            {**asked, **msgspec.to_builtins(index)}
            for asked, index in zip(job.raw_args, placed, strict=True)
        ),
        exuvia_elements=tuple(index.id for index in placed),
    )
    return job, evolve(world, table=table)


def _with_hidden(table: TableInfo, hidden: tuple[ColumnInfo, ...]) -> TableInfo:
    placed = tuple(
        evolve(column, id=table.max_col_id + 1 + n, offset=len(table.cols) + n, state=ABSENT)
        for n, column in enumerate(hidden)
    )
    return evolve(table, cols=(*table.cols, *placed), max_col_id=table.max_col_id + len(placed))


def _placed(table: TableInfo, index: IndexInfo, index_id: int) -> IndexInfo:
    parts = tuple(_part(table, part) for part in index.idx_cols)
    return evolve(index, id=index_id, tbl_name=table.name, idx_cols=parts, state=ABSENT)


def _part(table: TableInfo, part: IndexColumn) -> IndexColumn:
    column = table.column(part.name.L)
    return evolve(part, offset=column.offset, exuvia_column=column.id) if column else part


def place_primary(job: Job, world: World) -> tuple[Job, World]:
    """As `place_indexes`; and from now on writers put no NULL into the key's columns."""
    job, world = place_indexes(job, world)
    return job, evolve(world, table=_not_null_from_now(the_table(world), job.exuvia_elements))


def _not_null_from_now(table: TableInfo, elements: tuple[int, ...]) -> TableInfo:
    parts = _parts_of(table, elements)
    columns = tuple(
        evolve(
            column,
            exuvia_changing_type=evolve(column.type, Flag=column.type.Flag | Flag.NOT_NULL),
        )
        if column.id in parts and not column.not_null
        else column
        for column in table.cols
    )
    return evolve(table, cols=columns)


def _parts_of(table: TableInfo, elements: tuple[int, ...]) -> set[int]:
    indexes = (index for index in table.indexes if index.id in elements)
    return {part.exuvia_column for index in indexes for part in index.idx_cols}


def settle_not_null(job: Job, world: World) -> tuple[Job, World]:
    """No row has a NULL in the key: its columns say so."""
    table = the_table(world)
    parts = _parts_of(table, job.exuvia_elements)
    columns = tuple(
        evolve(column, type=column.exuvia_changing_type, exuvia_changing_type=None)
        if column.id in parts and column.exuvia_changing_type is not None
        else column
        for column in table.cols
    )
    return job, evolve(world, table=evolve(table, cols=columns))


def let_null_in(job: Job, world: World) -> tuple[Job, World]:
    """Undone: the key's columns are as they were."""
    table = the_table(world)
    parts = _parts_of(table, job.exuvia_elements)
    columns = tuple(
        evolve(column, exuvia_changing_type=None) if column.id in parts else column
        for column in table.cols
    )
    return job, evolve(world, table=evolve(table, cols=columns))


def find_indexes(job: Job, world: World) -> tuple[Job, World]:
    """The ids of the indexes named."""
    named = [the_table(world).index(text) for text in job.raw_args]
    return evolve(job, exuvia_elements=tuple(index.id for index in named if index)), world


def fill_and_verify(job: Job, world: World) -> Refused | Wait | None:
    """Every row is in the index, and the pipeline has compared them (law 9)."""
    if world.failure is not None:
        return world.failure
    if world.table_is_empty or world.filled:
        return None
    return Wait("", FillIndexes(job.exuvia_elements))


def index_ranges(job: Job, world: World) -> tuple[DeleteRange, ...]:
    """All entries of the job's indexes."""
    table = the_table(world)
    return tuple(
        found for element in job.exuvia_elements for found in ranges.of_index(table, element)
    )


def index_tombstones(job: Job, world: World) -> tuple[DeleteRange, ...]:
    """What removals left to stop the fill, needed no more once it is over."""
    return tuple(evolve(each, tombstones_only=True) for each in index_ranges(job, world))


def index_added(job: Job, before: World, after: World) -> Event:
    """The indexes are there and full."""
    return Event(type="add index", table=after.table, elements=job.exuvia_elements)


_DROP_PATH = (
    Step(PUBLIC, WRITE_ONLY, edit=find_indexes),
    Step(WRITE_ONLY, DELETE_ONLY),
    Step(DELETE_ONLY, DELETE_REORG),
    Step(DELETE_REORG, ABSENT, leaves=index_ranges),
)
_ADD_PATH = (
    Step(ABSENT, DELETE_ONLY, edit=place_indexes),
    Step(DELETE_ONLY, WRITE_ONLY),
    Step(WRITE_ONLY, WRITE_REORG),
    Step(WRITE_REORG, PUBLIC, after=fill_and_verify, leaves=index_tombstones, event=index_added),
)

_DROP_PRIMARY_PATH = (*_DROP_PATH[:-1], _DROP_PATH[-1]._replace(edit=let_null_in))
_ADD_PRIMARY_PATH = (
    _ADD_PATH[0]._replace(edit=place_primary),
    *_ADD_PATH[1:-1],
    _ADD_PATH[-1]._replace(edit=settle_not_null),
)

DROP_INDEX = load(
    Action(
        "drop index",
        ActionCode.DROP_INDEX,
        INDEX,
        refuses=(table_is_missing, index_to_drop_is_unknown, primary_key_is_named),
        path=_DROP_PATH,
    )
)

ADD_INDEX = load(
    Action(
        "add index",
        ActionCode.ADD_INDEX,
        INDEX,
        refuses=(
            table_is_missing,
            index_name_is_taken,
            indexes_are_too_many,
            hidden_column_is_taken,
            column_is_unknown,
        ),
        path=_ADD_PATH,
        undo=DROP_INDEX,
    )
)

DROP_PRIMARY_KEY = load(
    Action(
        "drop primary key",
        ActionCode.DROP_PRIMARY_KEY,
        INDEX,
        refuses=(table_is_missing, primary_key_is_missing, primary_key_is_clustered),
        path=_DROP_PRIMARY_PATH,
    )
)

ADD_PRIMARY_KEY = load(
    Action(
        "add primary key",
        ActionCode.ADD_PRIMARY_KEY,
        INDEX,
        refuses=(
            table_is_missing,
            table_has_a_primary_key,
            indexes_are_too_many,
            column_is_unknown,
        ),
        path=_ADD_PRIMARY_PATH,
        undo=DROP_PRIMARY_KEY,
    )
)
