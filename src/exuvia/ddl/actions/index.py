"""ADD INDEX: readers see the index when every row is in it.  DROP INDEX: readers leave first.

    ADD    absent -> delete only -> write only -> write reorganization =fill, verify=> public
    DROP   public -> write only -> delete only -> delete reorganization -> absent, emptied later

Several indexes of one statement walk together and are filled by one scan. Undo of ADD INDEX is
DROP INDEX, entered at the state reached: whatever was written is in the range that is emptied.
Source: F1, section 4; seeds 001 to 003.
"""

import msgspec

from exuvia.base.errors import Refused
from exuvia.catalog.model import IndexColumn, IndexInfo, TableInfo, evolve
from exuvia.catalog.state import SchemaState
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.arguments import indexes_of
from exuvia.ddl.actions.refusals import (
    column_is_unknown,
    index_name_is_taken,
    index_to_drop_is_unknown,
    indexes_are_too_many,
    primary_key_is_clustered,
    primary_key_is_missing,
    primary_key_is_named,
    primary_part_is_nullable,
    table_has_a_primary_key,
    table_is_missing,
)
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import INDEX, the_table
from exuvia.ddl.job import Job
from exuvia.ddl.world import DeleteRange, Event, Wait, World
from exuvia.kv import keys

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
    """The indexes get ids and stand in the table, absent yet."""
    table = the_table(world)
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
        raw_args=tuple(msgspec.to_builtins(index) for index in placed),
        exuvia_elements=tuple(index.id for index in placed),
    )
    return job, evolve(world, table=table)


def _placed(table: TableInfo, index: IndexInfo, index_id: int) -> IndexInfo:
    parts = tuple(_part(table, part) for part in index.idx_cols)
    return evolve(index, id=index_id, tbl_name=table.name, idx_cols=parts, state=ABSENT)


def _part(table: TableInfo, part: IndexColumn) -> IndexColumn:
    column = table.column(part.name.L)
    return evolve(part, offset=column.offset, exuvia_column=column.id) if column else part


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
    return Wait("", reorg=True)


def index_ranges(job: Job, world: World) -> tuple[DeleteRange, ...]:
    """All entries of the job's indexes."""
    table = the_table(world)
    return tuple(
        DeleteRange(element, keys.span_of(keys.index_prefix(table.id, element)))
        for element in job.exuvia_elements
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
        refuses=(table_is_missing, index_name_is_taken, indexes_are_too_many, column_is_unknown),
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
        path=_DROP_PATH,
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
            primary_part_is_nullable,
        ),
        path=_ADD_PATH,
        undo=DROP_PRIMARY_KEY,
    )
)
