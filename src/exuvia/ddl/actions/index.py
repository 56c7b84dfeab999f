"""ADD INDEX: readers see the index when every row is in it.  DROP INDEX: readers leave first.

    ADD    absent -> delete only -> write only -> write reorganization =fill, verify=> public
    DROP   public -> write only -> delete only -> delete reorganization -> absent, emptied later

Several indexes of one statement walk together and are filled by one scan. Undo of ADD INDEX is
DROP INDEX, entered at the state reached: whatever was written is in the range that is emptied.
An index on an expression takes its hidden virtual columns along. ADD PRIMARY KEY makes its columns
NOT NULL: writers obey from the first step, the fill refuses a NULL that is there (1138).
A partial index (catalog/predicate.py) walks the same path: that entries come and go as a row's
predicate turns is a duty of whoever writes the row, in every state.
Source: F1, section 4; seeds 001 to 003.

RENAME INDEX and ALTER INDEX VISIBLE | INVISIBLE: no entry is touched.

    absent -> public      one step, one version

The hidden columns of an index on expressions are named after it and follow its name. An index that
is invisible is maintained as ever; plans do not read it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.limits import INDEXES_PER_TABLE, KEY_PARTS
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrCantDropFieldOrKey,
    ErrDupFieldName,
    ErrDupKeyName,
    ErrKeyColumnDoesNotExits,
    ErrKeyDoesNotExist,
    ErrMultiplePriKey,
    ErrTooManyKeyParts,
    ErrTooManyKeys,
    ErrUnsupportedDDLOperation,
)
from exuvia.base.types import Flag
from exuvia.catalog.convert.type_change import has_other_keys
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexColumn,
    IndexInfo,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.ddl.action import Action, ElementUse, Judged, Step, load
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, StepWait
from exuvia.ddl.elements import (
    INDEX,
    TABLE_IN_PLACE,
    coming_name,
    going_name,
    hidden_columns_of,
    ranges_of_index,
    successor_of,
    the_table,
    with_predicate_columns,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
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


class RenameIndexArgs(NamedTuple):
    """What RENAME INDEX is asked."""

    name: str
    new_name: str


class AlterIndexArgs(NamedTuple):
    """What ALTER INDEX is asked."""

    name: str
    visible: bool


def indexes_of(job: Job) -> tuple[IndexInfo, ...]:
    """The indexes ADD INDEX or ADD PRIMARY KEY asks for."""
    return arguments(job, tuple[IndexInfo, ...])


def hidden_columns_wanted(job: Job) -> tuple[ColumnInfo, ...]:
    """The hidden columns of indexes on expressions, of ADD INDEX, in order."""
    asked = (each.get("hidden_cols", ()) for each in job.raw_args)
    return msgspec.convert([column for each in asked for column in each], tuple[ColumnInfo, ...])


def _dropped(job: Job) -> tuple[str, ...]:
    """The names of the indexes DROP INDEX or DROP PRIMARY KEY asks for."""
    return arguments(job, tuple[str, ...])


def uses_of_added(job: Job) -> Iterator[ElementUse]:
    """The indexes, and the columns that their parts, expressions and predicates name."""
    hidden = hidden_columns_wanted(job)
    for index in indexes_of(job):
        yield ElementUse("index", "add", index.idx_name.L)
        named = [part.name.L for part in index.idx_cols]
        named += [term.name.L for term in index.exuvia_predicate]
        for term in index.exuvia_predicate:
            yield ElementUse("type", "use", term.name.L)
        for column in dict.fromkeys(named):
            if all(each.name.L != column for each in hidden):
                yield ElementUse("column", "use", column)
    for each in hidden:
        for column in each.dependences or ():
            yield ElementUse("column", "use", column)


def uses_of_dropped(job: Job) -> Iterator[ElementUse]:
    for each in _dropped(job):
        yield ElementUse("index", "drop", each.lower())


def _uses_of_renamed(job: Job) -> Iterator[ElementUse]:
    asked = arguments(job, RenameIndexArgs)
    yield ElementUse("index", "modify", asked.name.lower())
    yield ElementUse("index", "add", asked.new_name.lower())


def _uses_of_shown(job: Job) -> Iterator[ElementUse]:
    yield ElementUse("index", "modify", arguments(job, AlterIndexArgs).name.lower())


def add_index(
    database: DatabaseInfo,
    table: TableInfo,
    indexes: IndexInfo | Sequence[IndexInfo],
    *,
    hidden: Sequence[ColumnInfo] = (),
    query: str = "",
) -> Job:
    """ADD INDEX or ADD UNIQUE, one or several that one scan fills. `hidden`: columns that hold
    expressions of a single index."""
    wanted = [indexes] if isinstance(indexes, IndexInfo) else list(indexes)
    more = {"hidden_cols": msgspec.to_builtins(list(hidden))} if hidden else {}
    asked = tuple({**msgspec.to_builtins(index), **more} for index in wanted)
    return _with_home(job_for(ActionCode.ADD_INDEX, database, table, asked, query), wanted)


def _with_home(job: Job, indexes: Sequence[IndexInfo]) -> Job:
    """It asks for the id that the table's global indexes are to lie under, if they have none."""
    return evolve(job, exuvia_ids=(0,)) if any(each.is_global for each in indexes) else job


def drop_index(
    database: DatabaseInfo, table: TableInfo, index: str | Sequence[str], *, query: str = ""
) -> Job:
    """DROP INDEX, one or several."""
    wanted = (index,) if isinstance(index, str) else tuple(index)
    return job_for(ActionCode.DROP_INDEX, database, table, wanted, query)


def rename_index(
    database: DatabaseInfo, table: TableInfo, index: str, new_name: str, *, query: str = ""
) -> Job:
    """RENAME INDEX."""
    return job_for(
        ActionCode.RENAME_INDEX, database, table, RenameIndexArgs(index, new_name), query
    )


def set_visibility(
    database: DatabaseInfo, table: TableInfo, index: str, visible: bool, *, query: str = ""
) -> Job:
    """ALTER INDEX VISIBLE or INVISIBLE."""
    return job_for(
        ActionCode.INDEX_VISIBILITY, database, table, AlterIndexArgs(index, visible), query
    )


def add_primary_key(
    database: DatabaseInfo, table: TableInfo, index: IndexInfo, *, query: str = ""
) -> Job:
    """ADD PRIMARY KEY, which is never clustered: rows keep their handles."""
    return _with_home(
        job_for(ActionCode.ADD_PRIMARY_KEY, database, table, (index,), query), [index]
    )


def drop_primary_key(database: DatabaseInfo, table: TableInfo, *, query: str = "") -> Job:
    """DROP PRIMARY KEY; a clustered one is refused (8200)."""
    return job_for(ActionCode.DROP_PRIMARY_KEY, database, table, ("PRIMARY",), query)


# -- refusals --------------------------------------------------------------------------------------


def index_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1061, also between the indexes of one statement."""
    taken = {index.idx_name.L for index in the_table(snapshot).indexes}
    for index in indexes_of(job):
        if index.idx_name.L in taken:
            return ErrDupKeyName(index.idx_name.O)
        taken.add(index.idx_name.L)
    return None


def indexes_are_too_many(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1069 for the table, 1070 for the parts of one index."""
    wanted = indexes_of(job)
    if len(the_table(snapshot).indexes) + len(wanted) > INDEXES_PER_TABLE:
        return ErrTooManyKeys(INDEXES_PER_TABLE)
    longest = max(len(index.idx_cols) for index in wanted)
    return ErrTooManyKeyParts(KEY_PARTS) if longest > KEY_PARTS else None


def column_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    hidden = {column.name.L for column in hidden_columns_wanted(job)}
    for index in indexes_of(job):
        names = [part.name for part in index.idx_cols]
        for needed in (*names, *(term.name for term in index.exuvia_predicate)):
            if needed.L in hidden:
                continue
            column = the_table(snapshot).column(needed.L)
            if column is None or column.state != SchemaState.PUBLIC:
                return ErrKeyColumnDoesNotExits(needed.O)
    return None


def table_is_not_cut(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200: another job has taken the partitions that a global index was to span."""
    if the_table(snapshot).partition is not None:
        return _not_for_partitions(indexes_of(job))
    if any(index.is_global for index in indexes_of(job)):
        return ErrUnsupportedDDLOperation("Global Index on non-partitioned table")
    return None


def _not_for_partitions(wanted: tuple[IndexInfo, ...]) -> Refused | None:
    for index in wanted:
        if index.is_partial:
            said = "partial index on partitioned table is not supported"
            return ErrUnsupportedDDLOperation(f"add partial index: {said}")
    return None


def table_has_a_primary_key(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    table = the_table(snapshot)
    primary = table.pk_is_handle or any(index.is_primary for index in table.indexes)
    return ErrMultiplePriKey() if primary else None


def hidden_column_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1060 for its own name, 1054 for what its expression names."""
    table = the_table(snapshot)
    for column in hidden_columns_wanted(job):
        if table.column(column.name.L) is not None:
            return ErrDupFieldName(column.name.O)
        for needed in column.dependences or {}:
            found = table.column(needed)
            if found is None or found.state != PUBLIC:
                return ErrBadField(needed, "expression")
    return None


def index_to_drop_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    for text in _dropped(job):
        index = the_table(snapshot).index(text)
        if index is None or index.state != SchemaState.PUBLIC:
            return ErrCantDropFieldOrKey(text)
    return None


def primary_key_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    table = the_table(snapshot)
    there = table.pk_is_handle or any(index.is_primary for index in table.indexes)
    return None if there else ErrCantDropFieldOrKey("PRIMARY")


def primary_key_is_clustered(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200: rows are kept under it."""
    table = the_table(snapshot)
    if table.pk_is_handle or table.is_common_handle:
        return ErrUnsupportedDDLOperation(
            "drop primary key when the table is using clustered index"
        )
    return None


def primary_key_is_named(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """DROP INDEX `PRIMARY` of a clustered key is refused like DROP PRIMARY KEY (8200)."""
    named: list[IndexInfo] = [
        index
        for text in _dropped(job)
        if (index := the_table(snapshot).index(text)) is not None and index.exuvia_clustered
    ]
    return primary_key_is_clustered(job, snapshot) if named else None


# -- steps -----------------------------------------------------------------------------------------


def place_indexes(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The indexes get ids and stand in the table, absent yet, as do their hidden columns."""
    table = the_table(snapshot)
    hidden = tuple(
        evolve(column, id=table.max_col_id + 1 + n, offset=len(table.cols) + n, state=ABSENT)
        for n, column in enumerate(hidden_columns_wanted(job))
    )
    table = evolve(table, cols=(*table.cols, *hidden), max_col_id=table.max_col_id + len(hidden))
    if table.partition is not None and not table.partition.exuvia_home and job.exuvia_ids:
        table = evolve(table, partition=evolve(table.partition, exuvia_home=job.exuvia_ids[0]))
    placed = tuple(
        _placed(table, index, table.max_idx_id + 1 + n) for n, index in enumerate(indexes_of(job))
    )
    hidden_names = tuple(
        evolve(index, idx_name=coming_name(index.idx_name))
        if table.index(index.idx_name.L) is not None
        else index
        for index in placed
    )
    table = evolve(
        table,
        index_info=(*table.indexes, *hidden_names),
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
    return job, evolve(snapshot, table=table)


def _placed(table: TableInfo, index: IndexInfo, index_id: int) -> IndexInfo:
    parts = tuple(part_of(table, part) for part in index.idx_cols)
    index = with_predicate_columns(index, table.cols)
    return evolve(index, id=index_id, tbl_name=table.name, idx_cols=parts, state=ABSENT)


def part_of(table: TableInfo, part: IndexColumn) -> IndexColumn:
    """On the column of that name or, where the same statement gives the name to a column that is
    still hidden, on that one."""
    column = table.column(part.name.L)
    if column is None:
        return part
    coming = successor_of(table, column)
    if coming is not None:
        facts = {"name": coming.name, "offset": coming.offset, "exuvia_column": coming.id}
        return evolve(part, **facts)
    keyed_anew = has_other_keys(column)
    facts = {"offset": column.offset, "exuvia_column": column.id}
    return evolve(part, exuvia_using_changing_type=keyed_anew, **facts)


def take_names(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Each index has its name, and one that it replaces has another."""
    table = the_table(snapshot)
    names = {index.id: index.idx_name for index in indexes_of(job)}
    wanted = {each.L for each in names.values()}
    indexes = []
    for index in table.indexes:
        if index.id in names:
            renamed = evolve(index, idx_name=names[index.id])
        elif index.idx_name.L in wanted:
            renamed = evolve(index, idx_name=going_name(index.idx_name))
        else:
            renamed = index
        indexes.append(renamed)
    return job, evolve(snapshot, table=evolve(table, index_info=tuple(indexes)))


def place_primary(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """As `place_indexes`; and from now on writers put no NULL into the key's columns."""
    job, snapshot = place_indexes(job, snapshot)
    return job, evolve(snapshot, table=_not_null_from_now(the_table(snapshot), job.exuvia_elements))


def _not_null_from_now(table: TableInfo, elements: tuple[int, ...]) -> TableInfo:
    parts = _parts_of(table, elements)
    columns = tuple(
        held_to_not_null(column) if column.id in parts and not column.not_null else column
        for column in table.cols
    )
    return evolve(table, cols=columns)


def held_to_not_null(column: ColumnInfo) -> ColumnInfo:
    """The column with NOT NULL announced to writers, in addition to any announced type."""
    coming = column.exuvia_changing_type or column.type
    return evolve(column, exuvia_changing_type=evolve(coming, Flag=coming.Flag | Flag.NOT_NULL))


def _parts_of(table: TableInfo, elements: tuple[int, ...]) -> set[int]:
    indexes = (index for index in table.indexes if index.id in elements)
    return {part.exuvia_column for index in indexes for part in index.idx_cols}


def settle_not_null(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """No row has a NULL in the key: its columns say so."""
    table = the_table(snapshot)
    parts = _parts_of(table, job.exuvia_elements)
    columns = tuple(
        evolve(column, type=column.exuvia_changing_type, exuvia_changing_type=None)
        if column.id in parts and column.exuvia_changing_type is not None
        else column
        for column in table.cols
    )
    return job, evolve(snapshot, table=evolve(table, cols=columns))


def let_null_in(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Undone: the key's columns are as they were."""
    table = the_table(snapshot)
    parts = _parts_of(table, job.exuvia_elements)
    columns = tuple(
        evolve(column, exuvia_changing_type=None) if column.id in parts else column
        for column in table.cols
    )
    return job, evolve(snapshot, table=evolve(table, cols=columns))


def find_indexes(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The ids of the indexes named."""
    named = [the_table(snapshot).index(text) for text in _dropped(job)]
    return evolve(job, exuvia_elements=tuple(index.id for index in named if index)), snapshot


def fill_and_verify(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """Every row is in the index, and the pipeline has compared them (law 9)."""
    if snapshot.failure is not None:
        return snapshot.failure
    if snapshot.table_is_empty or snapshot.filled:
        return None
    spread = {index.id for index in the_table(snapshot).global_indexes}
    return StepWait("", reorg.fill_indexes(job.exuvia_elements, spread))


def index_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All entries of the job's indexes, but of those that have gone along with a column that the
    same statement drops."""
    table = the_table(snapshot)
    there = [each for each in job.exuvia_elements if table.index_by_id(each) is not None]
    return tuple(found for element in there for found in ranges_of_index(table, element))


def index_tombstones(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """What removals left to stop the fill, needed no more once it is over."""
    return tuple(evolve(each, tombstones_only=True) for each in index_ranges(job, snapshot))


def index_added(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The indexes are there and full."""
    return JobEvent(type="add index", table=after.table, elements=job.exuvia_elements)


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
    Step(
        WRITE_REORG,
        PUBLIC,
        edit=take_names,
        after=fill_and_verify,
        leaves=index_tombstones,
        event=index_added,
    ),
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
        names_for_later=True,
        mixes=True,
        uses=uses_of_dropped,
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
            table_is_not_cut,
            indexes_are_too_many,
            hidden_column_is_taken,
            column_is_unknown,
        ),
        path=_ADD_PATH,
        undo=DROP_INDEX,
        reorg=True,
        alterable=True,
        mixes=True,
        fills=True,
        uses=uses_of_added,
        merges=True,
        judged=Judged.INDEXES,
    )
)

DROP_PRIMARY_KEY = load(
    Action(
        "drop primary key",
        ActionCode.DROP_PRIMARY_KEY,
        INDEX,
        refuses=(table_is_missing, primary_key_is_missing, primary_key_is_clustered),
        path=_DROP_PRIMARY_PATH,
        names_for_later=True,
        mixes=True,
        uses=uses_of_dropped,
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
            table_is_not_cut,
            indexes_are_too_many,
            column_is_unknown,
        ),
        path=_ADD_PRIMARY_PATH,
        undo=DROP_PRIMARY_KEY,
        reorg=True,
        alterable=True,
        mixes=True,
        uses=uses_of_added,
        judged=Judged.INDEXES,
    )
)


def index_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    wanted = str(job.raw_args[0])
    index = the_table(snapshot).index(wanted)
    there = index is not None and index.state == PUBLIC
    return None if there else ErrKeyDoesNotExist(wanted, the_table(snapshot).name.O)


def new_index_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    source, target = arguments(job, RenameIndexArgs)
    held = the_table(snapshot).index(target)
    taken = held is not None and held.idx_name.L != source.lower()
    return ErrDupKeyName(target) if taken else None


def change_name(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Another name, for its hidden columns too."""
    table = the_table(snapshot)
    asked = arguments(job, RenameIndexArgs)
    found = table.index(asked.name)
    if found is None:
        return job, snapshot
    renamed = evolve(found, idx_name=name(asked.new_name), exuvia_generated=False)
    hidden = set(hidden_columns_of(table, (found.id,)))
    names = {
        each.id: name(each.name.O.replace(f"_{found.idx_name.O}_", f"_{renamed.idx_name.O}_", 1))
        for each in table.cols
        if each.id in hidden
    }
    columns = tuple(
        evolve(each, name=names[each.id]) if each.id in names else each for each in table.cols
    )
    parts = tuple(
        evolve(part, name=names.get(part.exuvia_column, part.name)) for part in found.idx_cols
    )
    table = evolve(_with_index(table, evolve(renamed, idx_cols=parts)), cols=columns)
    return job, evolve(snapshot, table=table)


def change_visibility(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Seen by plans or not."""
    table = the_table(snapshot)
    asked = arguments(job, AlterIndexArgs)
    found = table.index(asked.name)
    if found is None:
        return job, snapshot
    changed = evolve(found, is_invisible=not asked.visible)
    return job, evolve(snapshot, table=_with_index(table, changed))


def _with_index(table: TableInfo, index: IndexInfo) -> TableInfo:
    kept = tuple(index if each.id == index.id else each for each in table.indexes)
    return evolve(table, index_info=kept)


RENAME_INDEX = load(
    Action(
        "rename index",
        ActionCode.RENAME_INDEX,
        TABLE_IN_PLACE,
        refuses=(table_is_missing, index_is_unknown, new_index_name_is_taken),
        path=(Step(ABSENT, PUBLIC, edit=change_name),),
        mixes=True,
        uses=_uses_of_renamed,
    )
)

INDEX_VISIBILITY = load(
    Action(
        "alter index visibility",
        ActionCode.INDEX_VISIBILITY,
        TABLE_IN_PLACE,
        refuses=(table_is_missing, index_is_unknown),
        path=(Step(ABSENT, PUBLIC, edit=change_visibility),),
        mixes=True,
        uses=_uses_of_shown,
    )
)

ACTIONS = (ADD_INDEX, ADD_PRIMARY_KEY, DROP_PRIMARY_KEY, RENAME_INDEX, INDEX_VISIBILITY)
# DROP_INDEX: actions/undo.py
