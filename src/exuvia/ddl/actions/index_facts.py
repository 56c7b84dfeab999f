"""RENAME INDEX and ALTER INDEX VISIBLE | INVISIBLE: no entry is touched.

    absent -> public      one step, one version

The hidden columns of an index on expressions are named after it and follow its name. An index that
is invisible is maintained as ever; plans do not read it.
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrDupKeyName, ErrKeyDoesNotExist
from exuvia.catalog.model import ColumnInfo, IndexInfo, Name, TableInfo, evolve, name
from exuvia.catalog.state import SchemaState
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.refusals import table_is_missing
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import TABLE_IN_PLACE, hidden_columns_of, the_table
from exuvia.ddl.job import Job
from exuvia.ddl.world import World

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC


def index_is_unknown(job: Job, world: World) -> Refused | None:
    """1176."""
    index = the_table(world).index(job.raw_args[0])
    there = index is not None and index.state == PUBLIC
    return None if there else ErrKeyDoesNotExist(job.raw_args[0], the_table(world).name.O)


def new_name_is_taken(job: Job, world: World) -> Refused | None:
    """1061."""
    source, target = job.raw_args
    held = the_table(world).index(target)
    taken = held is not None and held.idx_name.L != source.lower()
    return ErrDupKeyName(target) if taken else None


def change_name(job: Job, world: World) -> tuple[Job, World]:
    """Another name, for its hidden columns too."""
    table = the_table(world)
    found = table.index(job.raw_args[0])
    if found is None:
        return job, world
    renamed = evolve(found, idx_name=name(job.raw_args[1]))
    hidden = set(hidden_columns_of(table, (found.id,)))
    names = {each.id: _new_name(each, found, renamed) for each in table.cols if each.id in hidden}
    columns = tuple(
        evolve(each, name=names[each.id]) if each.id in names else each for each in table.cols
    )
    parts = tuple(
        evolve(part, name=names.get(part.exuvia_column, part.name)) for part in found.idx_cols
    )
    table = evolve(_with(table, evolve(renamed, idx_cols=parts)), cols=columns)
    return job, evolve(world, table=table)


def _new_name(column: ColumnInfo, old: IndexInfo, new: IndexInfo) -> Name:
    return name(column.name.O.replace(f"_{old.idx_name.O}_", f"_{new.idx_name.O}_", 1))


def change_visibility(job: Job, world: World) -> tuple[Job, World]:
    """Seen by plans or not."""
    table = the_table(world)
    found = table.index(job.raw_args[0])
    if found is None:
        return job, world
    return job, evolve(world, table=_with(table, evolve(found, is_invisible=not job.raw_args[1])))


def _with(table: TableInfo, index: IndexInfo) -> TableInfo:
    kept = tuple(index if each.id == index.id else each for each in table.indexes)
    return evolve(table, index_info=kept)


RENAME_INDEX = load(
    Action(
        "rename index",
        ActionCode.RENAME_INDEX,
        TABLE_IN_PLACE,
        refuses=(table_is_missing, index_is_unknown, new_name_is_taken),
        path=(Step(ABSENT, PUBLIC, edit=change_name),),
    )
)

INDEX_VISIBILITY = load(
    Action(
        "alter index visibility",
        ActionCode.INDEX_VISIBILITY,
        TABLE_IN_PLACE,
        refuses=(table_is_missing, index_is_unknown),
        path=(Step(ABSENT, PUBLIC, edit=change_visibility),),
    )
)
