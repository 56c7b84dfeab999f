"""ADD INDEX: readers see the index when every row is in it. DROP INDEX: readers leave first.

    ADD    absent -> delete only -> write only -> write reorganization =fill, verify=> public
    DROP   public -> write only -> delete only -> delete reorganization -> absent, emptied later

Several indexes of one statement walk together and are filled by one scan. Undo of ADD INDEX is DROP
INDEX, entered at the state reached; all entries written are in the range that is emptied. An index
on an expression adds and drops its hidden virtual columns. ADD PRIMARY KEY makes its columns NOT
NULL: writers obey from the first step, and the backfill refuses an existing NULL (1138). A partial
index (catalog/predicate.py) walks the same path: in every state, writers of a row add or remove its
entry when the predicate's value changes. Source: F1, section 4; seeds 001 to 003.

RENAME INDEX and ALTER INDEX VISIBLE | INVISIBLE: no entry is touched.

    absent -> public      one step, one version

The hidden columns of an index on expressions are named after it and renamed with it. An invisible
index is maintained as usual, but plans do not read it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from exuvia.base.decoding import from_builtins
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
from exuvia.ddl.action import Action, ElementUse, Judged, Step, leaves, load
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.decision import StepWait
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import JobEvent
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


class RenameIndexArgs(NamedTuple):
    """Arguments of RENAME INDEX."""

    name: str
    new_name: str


class AlterIndexArgs(NamedTuple):
    """Arguments of ALTER INDEX."""

    name: str
    visible: bool


def indexes_of(job: Job) -> tuple[IndexInfo, ...]:
    """The indexes of ADD INDEX or ADD PRIMARY KEY."""
    return arguments(job, tuple[IndexInfo, ...])


def hidden_columns_wanted(job: Job) -> tuple[ColumnInfo, ...]:
    """The hidden columns of ADD INDEX on expressions, in order."""
    column_lists = (args.get("hidden_cols", ()) for args in job.raw_args)
    return from_builtins(
        [column for columns in column_lists for column in columns], tuple[ColumnInfo, ...]
    )


def _dropped(job: Job) -> tuple[str, ...]:
    """The names of the indexes of DROP INDEX or DROP PRIMARY KEY."""
    return arguments(job, tuple[str, ...])


def uses_of_added(job: Job) -> Iterator[ElementUse]:
    """The indexes, and the columns of their parts, expressions and predicates."""
    hidden_columns = hidden_columns_wanted(job)
    for index in indexes_of(job):
        yield ElementUse("index", "add", index.idx_name.L)
        named = [part.name.L for part in index.idx_cols]
        named += [term.name.L for term in index.exuvia_predicate]
        for term in index.exuvia_predicate:
            yield ElementUse("type", "use", term.name.L)
        for column in dict.fromkeys(named):
            if all(hidden_column.name.L != column for hidden_column in hidden_columns):
                yield ElementUse("column", "use", column)
    for hidden_column in hidden_columns:
        for column in hidden_column.dependences or ():
            yield ElementUse("column", "use", column)


def uses_of_dropped(job: Job) -> Iterator[ElementUse]:
    for index_name in _dropped(job):
        yield ElementUse("index", "drop", index_name.lower())


def _uses_of_renamed(job: Job) -> Iterator[ElementUse]:
    args = arguments(job, RenameIndexArgs)
    yield ElementUse("index", "modify", args.name.lower())
    yield ElementUse("index", "add", args.new_name.lower())


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
    """ADD INDEX or ADD UNIQUE, one or several that one scan fills.

    `hidden`: columns with the expressions of a single index.
    """
    index_list = [indexes] if isinstance(indexes, IndexInfo) else list(indexes)
    more = {"hidden_cols": msgspec.to_builtins(list(hidden))} if hidden else {}
    args = tuple({**msgspec.to_builtins(index), **more} for index in index_list)
    return _with_home(job_for(ActionCode.ADD_INDEX, database, table, args, query), index_list)


def _with_home(job: Job, indexes: Sequence[IndexInfo]) -> Job:
    """The job with one more id for the table's global indexes, if it adds one."""
    return evolve(job, exuvia_ids=(0,)) if any(index.is_global for index in indexes) else job


def drop_index(
    database: DatabaseInfo, table: TableInfo, index: str | Sequence[str], *, query: str = ""
) -> Job:
    """DROP INDEX, one or several."""
    names = (index,) if isinstance(index, str) else tuple(index)
    return job_for(ActionCode.DROP_INDEX, database, table, names, query)


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
    used_names = {index.idx_name.L for index in the_table(snapshot).indexes}
    for index in indexes_of(job):
        if index.idx_name.L in used_names:
            return ErrDupKeyName(index.idx_name.O)
        used_names.add(index.idx_name.L)
    return None


def indexes_are_too_many(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1069 for the table, 1070 for the parts of one index."""
    indexes = indexes_of(job)
    if len(the_table(snapshot).indexes) + len(indexes) > INDEXES_PER_TABLE:
        return ErrTooManyKeys(INDEXES_PER_TABLE)
    longest = max(len(index.idx_cols) for index in indexes)
    return ErrTooManyKeyParts(KEY_PARTS) if longest > KEY_PARTS else None


def column_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    hidden_names = {column.name.L for column in hidden_columns_wanted(job)}
    for index in indexes_of(job):
        names = [part.name for part in index.idx_cols]
        for needed in (*names, *(term.name for term in index.exuvia_predicate)):
            if needed.L in hidden_names:
                continue
            column = the_table(snapshot).column(needed.L)
            if column is None or column.state != SchemaState.PUBLIC:
                return ErrKeyColumnDoesNotExits(needed.O)
    return None


def index_does_not_fit_partitions(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200: another job has removed or added the partitions that a global index spans."""
    if the_table(snapshot).partition is not None:
        return _not_for_partitions(indexes_of(job))
    if any(index.is_global for index in indexes_of(job)):
        return ErrUnsupportedDDLOperation("Global Index on non-partitioned table")
    return None


def _not_for_partitions(indexes: tuple[IndexInfo, ...]) -> Refused | None:
    for index in indexes:
        if index.is_partial:
            reason = "partial index on partitioned table is not supported"
            return ErrUnsupportedDDLOperation(f"add partial index: {reason}")
    return None


def table_has_a_primary_key(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    table = the_table(snapshot)
    primary = table.pk_is_handle or any(index.is_primary for index in table.indexes)
    return ErrMultiplePriKey() if primary else None


def hidden_column_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1060 for its own name, 1054 for a column of its expression."""
    table = the_table(snapshot)
    for column in hidden_columns_wanted(job):
        if table.column(column.name.L) is not None:
            return ErrDupFieldName(column.name.O)
        for needed in column.dependences or {}:
            column_read = table.column(needed)
            if column_read is None or column_read.state != PUBLIC:
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
    """8200: rows are stored by it."""
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
    """The indexes and their hidden columns have ids and are in the table, in state absent."""
    table = the_table(snapshot)
    hidden_columns = tuple(
        evolve(column, id=table.max_col_id + 1 + n, offset=len(table.cols) + n, state=ABSENT)
        for n, column in enumerate(hidden_columns_wanted(job))
    )
    table = evolve(
        table,
        cols=(*table.cols, *hidden_columns),
        max_col_id=table.max_col_id + len(hidden_columns),
    )
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
            {**args, **msgspec.to_builtins(index)}
            for args, index in zip(job.raw_args, placed, strict=True)
        ),
        exuvia_elements=tuple(index.id for index in placed),
    )
    return job, evolve(snapshot, table=table)


def _placed(table: TableInfo, index: IndexInfo, index_id: int) -> IndexInfo:
    parts = tuple(part_of(table, part) for part in index.idx_cols)
    index = with_predicate_columns(index, table.cols)
    return evolve(index, id=index_id, tbl_name=table.name, idx_cols=parts, state=ABSENT)


def part_of(table: TableInfo, part: IndexColumn) -> IndexColumn:
    """The index part on the column of that name.

    If the same statement gives the name to a column that is still hidden, it is on that column.
    """
    column = table.column(part.name.L)
    if column is None:
        return part
    coming = successor_of(table, column)
    if coming is not None:
        facts = {"name": coming.name, "offset": coming.offset, "exuvia_column": coming.id}
        return evolve(part, **facts)
    uses_new_type = has_other_keys(column)
    facts = {"offset": column.offset, "exuvia_column": column.id}
    return evolve(part, exuvia_using_changing_type=uses_new_type, **facts)


def take_names(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Each index has its name; an index that it replaces has another one."""
    table = the_table(snapshot)
    names = {index.id: index.idx_name for index in indexes_of(job)}
    new_names = {index_name.L for index_name in names.values()}
    indexes = []
    for index in table.indexes:
        if index.id in names:
            renamed = evolve(index, idx_name=names[index.id])
        elif index.idx_name.L in new_names:
            renamed = evolve(index, idx_name=going_name(index.idx_name))
        else:
            renamed = index
        indexes.append(renamed)
    return job, evolve(snapshot, table=evolve(table, index_info=tuple(indexes)))


def place_primary(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Like `place_indexes`; and writers put no NULL into the key's columns from now on."""
    job, snapshot = place_indexes(job, snapshot)
    return job, evolve(snapshot, table=_not_null_from_now(the_table(snapshot), job.exuvia_elements))


def _not_null_from_now(table: TableInfo, elements: tuple[int, ...]) -> TableInfo:
    parts = _parts_of(table, elements)
    columns = tuple(
        with_not_null_announced(column) if column.id in parts and not column.not_null else column
        for column in table.cols
    )
    return evolve(table, cols=columns)


def with_not_null_announced(column: ColumnInfo) -> ColumnInfo:
    """The column with NOT NULL announced to writers, in addition to any announced type."""
    coming = column.exuvia_changing_type or column.type
    return evolve(column, exuvia_changing_type=evolve(coming, Flag=coming.Flag | Flag.NOT_NULL))


def _parts_of(table: TableInfo, elements: tuple[int, ...]) -> set[int]:
    indexes = (index for index in table.indexes if index.id in elements)
    return {part.exuvia_column for index in indexes for part in index.idx_cols}


def settle_not_null(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """No row has a NULL in the key: its columns become NOT NULL."""
    table = the_table(snapshot)
    parts = _parts_of(table, job.exuvia_elements)
    columns = tuple(
        evolve(column, type=column.exuvia_changing_type, exuvia_changing_type=None)
        if column.id in parts and column.exuvia_changing_type is not None
        else column
        for column in table.cols
    )
    return job, evolve(snapshot, table=evolve(table, cols=columns))


def allow_null_again(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """After an undo: the key's columns are as before."""
    table = the_table(snapshot)
    parts = _parts_of(table, job.exuvia_elements)
    columns = tuple(
        evolve(column, exuvia_changing_type=None) if column.id in parts else column
        for column in table.cols
    )
    return job, evolve(snapshot, table=evolve(table, cols=columns))


def find_indexes(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Sets the job's elements: the ids of the named indexes."""
    named = [the_table(snapshot).index(text) for text in _dropped(job)]
    return evolve(job, exuvia_elements=tuple(index.id for index in named if index)), snapshot


def fill_and_verify(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """A wait until every row is in the index, and the pipeline has compared them (law 9)."""
    if snapshot.table_is_empty or snapshot.reorg.filled:
        return None
    spread = {index.id for index in the_table(snapshot).global_indexes}
    return StepWait("", reorg.fill_indexes(job.exuvia_elements, spread))


def index_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All entries of the job's indexes.

    Indexes that a dropped column of the same statement has removed are excluded.
    """
    table = the_table(snapshot)
    there = [
        index_id for index_id in job.exuvia_elements if table.index_by_id(index_id) is not None
    ]
    return tuple(
        delete_range for element in there for delete_range in ranges_of_index(table, element)
    )


def index_tombstones(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """Tombstones by which removals stopped the backfill; unused once it is over."""
    return tuple(
        evolve(delete_range, tombstones_only=True) for delete_range in index_ranges(job, snapshot)
    )


def index_added(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once the indexes are public and complete."""
    return JobEvent(type="add index", table=after.table, elements=job.exuvia_elements)


_DROP_PATH = (
    Step(PUBLIC, WRITE_ONLY, edit=find_indexes),
    Step(WRITE_ONLY, DELETE_ONLY),
    Step(DELETE_ONLY, DELETE_REORG),
    Step(DELETE_REORG, ABSENT, causes=(leaves(index_ranges),)),
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
        causes=(leaves(index_tombstones),),
        event=index_added,
    ),
)

_DROP_PRIMARY_PATH = (*_DROP_PATH[:-1], _DROP_PATH[-1]._replace(edit=allow_null_again))
_ADD_PRIMARY_PATH = (
    _ADD_PATH[0]._replace(edit=place_primary),
    *_ADD_PATH[1:-1],
    _ADD_PATH[-1]._replace(edit=settle_not_null),
)

DROP_INDEX = load(
    Action(
        ActionCode.DROP_INDEX,
        INDEX,
        refuses=(table_is_missing, index_to_drop_is_unknown, primary_key_is_named),
        path=_DROP_PATH,
        names_for_later=True,
        mixes=True,
        uses=uses_of_dropped,
        spares_hidden=True,
    )
)

ADD_INDEX = load(
    Action(
        ActionCode.ADD_INDEX,
        INDEX,
        refuses=(
            table_is_missing,
            index_name_is_taken,
            index_does_not_fit_partitions,
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
        spares_hidden=True,
    )
)

DROP_PRIMARY_KEY = load(
    Action(
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
        ActionCode.ADD_PRIMARY_KEY,
        INDEX,
        refuses=(
            table_is_missing,
            table_has_a_primary_key,
            index_does_not_fit_partitions,
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
    index_name = str(job.raw_args[0])
    index = the_table(snapshot).index(index_name)
    there = index is not None and index.state == PUBLIC
    return None if there else ErrKeyDoesNotExist(index_name, the_table(snapshot).name.O)


def new_index_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    source, target = arguments(job, RenameIndexArgs)
    existing = the_table(snapshot).index(target)
    is_taken = existing is not None and existing.idx_name.L != source.lower()
    return ErrDupKeyName(target) if is_taken else None


def change_name(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The index and its hidden columns have another name."""
    table = the_table(snapshot)
    args = arguments(job, RenameIndexArgs)
    index = table.index(args.name)
    if index is None:
        return job, snapshot
    renamed = evolve(index, idx_name=name(args.new_name), exuvia_generated=False)
    hidden_ids = set(hidden_columns_of(table, (index.id,)))
    names = {
        column.id: name(
            column.name.O.replace(f"_{index.idx_name.O}_", f"_{renamed.idx_name.O}_", 1)
        )
        for column in table.cols
        if column.id in hidden_ids
    }
    columns = tuple(
        evolve(column, name=names[column.id]) if column.id in names else column
        for column in table.cols
    )
    parts = tuple(
        evolve(part, name=names.get(part.exuvia_column, part.name)) for part in index.idx_cols
    )
    table = evolve(_with_index(table, evolve(renamed, idx_cols=parts)), cols=columns)
    return job, evolve(snapshot, table=table)


def change_visibility(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The index is visible to plans, or not."""
    table = the_table(snapshot)
    args = arguments(job, AlterIndexArgs)
    index = table.index(args.name)
    if index is None:
        return job, snapshot
    changed = evolve(index, is_invisible=not args.visible)
    return job, evolve(snapshot, table=_with_index(table, changed))


def _with_index(table: TableInfo, index: IndexInfo) -> TableInfo:
    indexes = tuple(index if other.id == index.id else other for other in table.indexes)
    return evolve(table, index_info=indexes)


RENAME_INDEX = load(
    Action(
        ActionCode.RENAME_INDEX,
        TABLE_IN_PLACE,
        refuses=(table_is_missing, index_is_unknown, new_index_name_is_taken),
        path=(Step(ABSENT, PUBLIC, edit=change_name),),
        mixes=True,
        uses=_uses_of_renamed,
        spares_hidden=True,
    )
)

INDEX_VISIBILITY = load(
    Action(
        ActionCode.INDEX_VISIBILITY,
        TABLE_IN_PLACE,
        refuses=(table_is_missing, index_is_unknown),
        path=(Step(ABSENT, PUBLIC, edit=change_visibility),),
        mixes=True,
        uses=_uses_of_shown,
        spares_hidden=True,
    )
)

ACTIONS = (ADD_INDEX, ADD_PRIMARY_KEY, DROP_PRIMARY_KEY, RENAME_INDEX, INDEX_VISIBILITY)
# DROP_INDEX: actions/undo.py
