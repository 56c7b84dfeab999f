"""Change of the clustered primary key: all rows move to handles of the new key, or to hidden ids.

    ADD PRIMARY KEY (..) CLUSTERED                          for hidden row ids
    DROP PRIMARY KEY, ADD PRIMARY KEY (..) [CLUSTERED]      for either kind of key
    DROP PRIMARY KEY                                        for a clustered one
    DROP PRIMARY KEY, ADD PRIMARY KEY (..) NONCLUSTERED     for a clustered one

    absent -> delete only -> write only -> write reorganization =guard filled, moved, verified=>
        delete reorganization -> public -> absent

Readers switch at the non-revertible point, together with the statement's other changes. A column of
the new key that the same statement adds becomes public in the version that reads by that key.

Rows move as partitions do (partition_move.py). They are stored in two sets under two ids: one is
read, the other one is also written (catalog/writer.py). Readers switch, and the old set is emptied.
Here a row's copy has another handle, computed from the row, so two rows may have the same one:
1062. The *guard* detects that. It is a hidden unique index on the new key in the old set. It walks
like an index that is being added and is filled before the first row moves:

    state                     guard        other set
    delete only               delete only  copies of rows that change are removed
    write only, write reorg   the same     every write is done in both
    delete reorganization     write only   readers have switched; the old set is still written, for
                                           readers that are one state behind
    public                    delete only  copies of rows that change are removed, for statements
                                           that are still one state behind
    absent                    -            it is emptied

If rows had hidden ids, the guard also maps a row back to its id. Writers put no NULL into the key
from the first step on, and the backfill refuses an existing one (1138). Entries of all other
indexes are copied with the rows, under the same index ids. Neighbours in this table are always
compatible: tests/laws/test_law_5_rows_that_get_other_handles.py walks all of it.

If a key is only dropped, the guard is on that key, in the new set: it has the hidden id of a row's
copy. No two rows have the same key, so there is no backfill. Each row is written with its own
entry, by writers or by the move. Until the switch it is public in a set that is not read. If the
key stays and only becomes nonclustered, the guard is that key, and public all the way.

A nonclustered key on other columns that replaces a clustered one needs both guards. The new set has
one on the dropped key, as above. It also has the new key as an index, public from the first step.
The old set has the *key guard*, on the new key. It is filled before the first row moves and walks
like the guard of a clustered key.

MODIFY of the same statement may backfill a column of the new key (modify_column.py). Then the key
is on the hidden column, and every row has a value in it before the first row moves. The column gets
its name in the version in which readers switch.

It may also replace a column of the old key. Rows that are written later have no value in the old
column, and thus no copy in the old set. Only snapshots from before the switch read that set. If the
statement does not change the key itself, the rows move to the same key (sql/schema/alter_index.py).

In a partitioned table each partition has its other set. The key has all partitioning columns, so a
row stays in its partition, and no other partition has its key. A global index has a second one for
the other set, with its own id, because its entries contain partition ids and handles. A new or
dropped global primary key is in one set only. The guard of a new one is complete before a row of
the first partition moves.

Refused (8200): AUTO_RANDOM and SHARD_ROW_ID_BITS.
"""

from typing import Any, NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.limits import INDEXES_PER_TABLE
from exuvia.base.mysql_errors import (
    ErrCantDropFieldOrKey,
    ErrDropIndexNeededInForeignKey,
    ErrInfoSchemaChanged,
    ErrKeyColumnDoesNotExits,
    ErrMultiplePriKey,
    ErrTooManyKeys,
    ErrUnknown,
    ErrUnsupportedDDLOperation,
)
from exuvia.base.types import INTEGER_BITS, Flag
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexColumn,
    IndexInfo,
    PartitionDefinition,
    Rekey,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.table import CUT_HANDLES
from exuvia.ddl.action import (
    Action,
    Element,
    Step,
    always,
    ends_retention,
    leaves,
    load,
    of_whole_table,
    retains,
)
from exuvia.ddl.actions.index import part_of, with_not_null_announced
from exuvia.ddl.actions.partition_move import WHOLE_TABLE
from exuvia.ddl.actions.shared import WAS_NOT_KEPT, kept_until, table_is_missing, with_undo_note
from exuvia.ddl.decision import StepWait
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import (
    indexes_in,
    range_of_physical,
    ranges_of_index,
    reads_children,
    reflag,
    table_with_children,
    the_table,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.ddl.kept import IsRetained, Kept
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet
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
_GUARD = "_Idx$_PRIMARY_0"
_GUARD_BEHIND = {DELETE_REORG: WRITE_ONLY, PUBLIC: DELETE_ONLY}
"""The guard's state once readers have switched."""
_CHANGING = "changing the clustered primary key of a table"


class RekeyArgs(NamedTuple):
    """Arguments of a change of the primary key.

    key         the new key, None for hidden ids
    drops       the table loses its present key
    stays       the key only becomes nonclustered, with that `comment`
    clustered   the new key is clustered
    undo_of     the job that an UNDO reverts
    """

    key: IndexInfo | None
    drops: bool
    stays: bool = False
    clustered: bool = True
    comment: str = ""
    undo_of: int = 0

    @property
    def to_ids(self) -> bool:
        """Whether rows finally have hidden ids."""
        return self.key is None or not self.clustered


def change_primary_key(
    database: DatabaseInfo,
    table: TableInfo,
    index: IndexInfo | None,
    drops: bool,
    *,
    stays: bool = False,
    clustered: bool = True,
    comment: str = "",
    undo_of: int = 0,
    query: str = "",
) -> Job:
    """The job of ADD PRIMARY KEY; without an index, of DROP PRIMARY KEY.

    `drops`: replaces the present key. `clustered`: the new key is. `stays`: the key remains as a
    NONCLUSTERED one with this comment. The job needs the new physical ids of the rows.
    """
    args = RekeyArgs(
        index, drops, stays=stays, clustered=clustered, comment=comment, undo_of=undo_of
    )
    job = job_for(ActionCode.EXUVIA_CHANGE_PRIMARY_KEY, database, table, args, query)
    return evolve(job, exuvia_ids=(0,) * _places(table))


def _places(table: TableInfo) -> int:
    return 1 if table.partition is None else len(table.partition.definitions)


# -- refusals --------------------------------------------------------------------------------------


def why_not(
    table: TableInfo, index: IndexInfo | None, drops: bool, *, stays: bool = False
) -> Refused | None:
    """Why the table cannot have that key, or None: 1068, 1069, 1072, 1091, 1553, 8200."""
    has_key = table.pk_is_handle or any(index.is_primary for index in table.indexes)
    if drops and not has_key:
        return ErrCantDropFieldOrKey("PRIMARY")
    if has_key and not drops:
        return ErrMultiplePriKey()
    for limit, is_so in (
        ("that is temporary", table.is_temporary),
        ("with AUTO_RANDOM", bool(table.auto_random_bits)),
        ("with SHARD_ROW_ID_BITS", bool(table.ShardRowIDBits)),
    ):
        if is_so:
            return ErrUnsupportedDDLOperation(f"{_CHANGING} {limit}")
    if len(table.indexes) >= INDEXES_PER_TABLE:  # the guard is one more
        return ErrTooManyKeys(INDEXES_PER_TABLE)
    parts = () if index is None else index.idx_cols
    for part in parts:
        column = table.column(part.name.L)
        if column is None or column.state != PUBLIC:
            return ErrKeyColumnDoesNotExits(part.name.O)
    return None if stays else _foreign_key_without_index(table, parts)


def _foreign_key_without_index(table: TableInfo, parts: tuple[IndexColumn, ...]) -> Refused | None:
    """1553: a foreign key needs the old primary key as its only index."""
    ids = {column.name.L: column.id for column in table.cols}
    remaining = [
        [(part.exuvia_column, part.length) for part in index.idx_cols]
        for index in table.indexes
        if not index.is_primary and index.state == PUBLIC and index.holds_every_row
    ]
    remaining.append([(ids[part.name.L], part.length) for part in parts])
    needed = [key.exuvia_cols for key in table.foreign_keys if key.version]
    needed += [reference.columns for reference in table.exuvia_referred]
    old = table.key_columns
    for columns in needed:
        whole = [(column_id, -1) for column_id in columns]
        serves = columns and old[: len(columns)] == tuple(columns)
        if serves and not any(index_parts[: len(whole)] == whole for index_parts in remaining):
            return ErrDropIndexNeededInForeignKey("PRIMARY")
    return None


def undone(job: Job) -> int:
    """The job that an UNDO reverts, or 0."""
    return arguments(job, RekeyArgs).undo_of


def it_was_undone_before(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1105 for an UNDO: another one came first, or the retention has ended."""
    if not undone(job) or snapshot.fact(IsRetained(undone(job))):
        return None
    reason = "its time is over, or it has been undone"
    return ErrUnknown(f"ddl job {undone(job)} cannot be undone: {reason}")


def key_cannot_change(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """The error of a table that has changed since the statement checked it, or None."""
    args, table = arguments(job, RekeyArgs), table_with_children(snapshot)
    if len(job.exuvia_ids) != _places(table):
        return ErrInfoSchemaChanged()
    return why_not(table, args.key, args.drops, stays=args.stays)


def columns_of_key(job: Job) -> frozenset[str]:
    """The columns of the new key, in lower case."""
    key = arguments(job, RekeyArgs).key
    return frozenset() if key is None else frozenset(part.name.L for part in key.idx_cols)


# -- steps -----------------------------------------------------------------------------------------


def place_new_set(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The guard and the new set are in the table, in state absent; writers put no NULL into the
    key."""
    table, args = the_table(snapshot), arguments(job, RekeyArgs)
    if args.key is None:
        with_ids = with_hidden_id_rows(
            table, job.exuvia_ids, stays=args.stays, comment=args.comment
        )
        return job, evolve(snapshot, table=with_ids)
    key = _key_of(table, args.key)
    if args.clustered:
        table = with_keyed_rows(table, key, job.exuvia_ids)
    else:
        table = with_hidden_id_rows(table, job.exuvia_ids, key=key)
    return job, evolve(snapshot, table=_not_null_from_now(table, key))


def _key_of(table: TableInfo, key: IndexInfo) -> IndexInfo:
    """The key as an index of the table.

    It is on the hidden column if the same statement backfills a column under another type.
    """
    parts = tuple(part_of(table, part) for part in key.idx_cols)
    return evolve(key, idx_cols=parts, tbl_name=table.name)


def with_keyed_rows(table: TableInfo, key: IndexInfo, physical: tuple[int, ...]) -> TableInfo:
    """The table with a second set of rows by that key, whose guard is in the old set."""
    indexes_left, last = _indexes_of_other_set(table)
    guard = _guard_on(key, last + 1)
    columns = tuple(part.exuvia_column for part in key.idx_cols)
    kinds = [column.type.Tp for column in table.cols if column.id == columns[0]]
    is_integer = len(columns) == 1 and kinds[0] in INTEGER_BITS
    new = evolve(key, id=last + 2, idx_name=name("PRIMARY"), state=PUBLIC, exuvia_clustered=True)
    cut = any(part.length >= 0 for part in key.idx_cols)
    other = Rekey(
        **_rows_under(table, physical),
        guard=guard.id,
        pk_is_handle=is_integer,
        is_common_handle=not is_integer,
        common_handle_version=0 if is_integer else CUT_HANDLES if cut else 1,
        key_columns=columns,
        index_info=(indexes_left if is_integer else (new, *indexes_left)) or None,
    )
    indexes = (*table.indexes, guard)
    return evolve(table, index_info=indexes, max_idx_id=last + 2, exuvia_rekey=other)


def _guard_on(key: IndexInfo, index_id: int) -> IndexInfo:
    """A hidden unique index on a new key."""
    hidden_key = evolve(key, id=index_id, idx_name=name(_GUARD), state=ABSENT)
    return evolve(hidden_key, exuvia_clustered=False)


def _indexes_of_other_set(table: TableInfo) -> tuple[tuple[IndexInfo, ...], int]:
    """The indexes of the other set without its primary key, and the last allocated id.

    Entries of global indexes are under the table's own id, in both sets.
    """
    last, indexes = table.max_idx_id, list[IndexInfo]()
    for index in table.indexes:
        if index.is_global and not index.is_primary:
            last += 1
            indexes.append(evolve(index, id=last))
        elif not index.is_primary:
            indexes.append(index)
    return tuple(indexes), last


def _rows_under(table: TableInfo, ids: tuple[int, ...]) -> dict[str, Any]:
    """The ids of the rows of the other set."""
    return {"physical": 0, "partitions": ids} if table.partition else {"physical": ids[0]}


def with_hidden_id_rows(
    table: TableInfo,
    physical: tuple[int, ...],
    *,
    stays: bool = False,
    comment: str = "",
    key: IndexInfo | None = None,
) -> TableInfo:
    """The table with a second set of rows, whose handles are hidden ids.

    A unique index, the guard, enforces the present key in the new set. `stays`: the guard becomes
    the NONCLUSTERED primary key, with that `comment`. `key`: the primary key that replaces the
    present one, with a guard in the old set.
    """
    primary = primary_key(table)
    assert primary is not None
    indexes_left, last = _indexes_of_other_set(table)
    guard = IndexInfo(
        id=last + 1,
        idx_name=name("PRIMARY" if stays else _GUARD),
        tbl_name=table.name,
        idx_cols=primary.idx_cols,
        is_unique=True,
        is_primary=stays,
        comment=comment,
    )
    other = Rekey(**_rows_under(table, physical), guard=guard.id, index_info=(guard, *indexes_left))
    if key is None:
        return evolve(table, max_idx_id=guard.id, exuvia_rekey=other)
    new = evolve(key, id=last + 2, idx_name=name("PRIMARY"), state=PUBLIC, exuvia_clustered=False)
    other = evolve(other, key_guard=last + 3, index_info=(new, guard, *indexes_left))
    indexes = (*table.indexes, _guard_on(key, last + 3))
    return evolve(table, index_info=indexes, max_idx_id=last + 3, exuvia_rekey=other)


def primary_key(table: TableInfo) -> IndexInfo | None:
    """The table's primary key as an index, also if it is an integer handle; or None."""
    if not table.pk_is_handle:
        return table.index("PRIMARY")
    [key] = (column for column in table.cols if column.id in table.key_columns)
    return IndexInfo(
        id=0,
        idx_name=name("PRIMARY"),
        tbl_name=table.name,
        idx_cols=(IndexColumn(name=key.name, offset=key.offset, exuvia_column=key.id),),
        is_unique=True,
        is_primary=True,
        exuvia_clustered=True,
    )


def is_same_key(one: IndexInfo | None, other: IndexInfo | None) -> bool:
    """Whether both are on the same columns, and both clustered or not."""
    if one is None or other is None:
        return one is other
    first, second = (
        [(part.exuvia_column, part.length) for part in index.idx_cols] for index in (one, other)
    )
    return first == second and one.exuvia_clustered == other.exuvia_clustered


def _not_null_from_now(table: TableInfo, key: IndexInfo) -> TableInfo:
    """The table whose writers put no NULL into the key; existing rows may still have one."""
    keyed = {part.exuvia_column for part in key.idx_cols}
    columns = tuple(
        with_not_null_announced(column) if column.id in keyed and not column.not_null else column
        for column in table.cols
    )
    return evolve(table, cols=columns)


def _settled(table: TableInfo) -> TableInfo:
    columns = tuple(
        evolve(column, type=column.exuvia_changing_type, exuvia_changing_type=None)
        if _only_gets_not_null(column)
        else column
        for column in table.cols
    )
    return evolve(table, cols=columns)


def _with_null(table: TableInfo) -> TableInfo:
    columns = tuple(
        evolve(column, exuvia_changing_type=None) if _only_gets_not_null(column) else column
        for column in table.cols
    )
    return evolve(table, cols=columns)


def _only_gets_not_null(column: ColumnInfo) -> bool:
    """Whether its writers put no NULL into it, and the statement gives it no other type."""
    coming = column.exuvia_changing_type
    if coming is None:
        return False
    return int(coming.Flag) == column.type.Flag | Flag.NOT_NULL and coming == evolve(
        column.type, Flag=coming.Flag
    )


def switch(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Readers use the new set; the old one becomes the other set. No row has a NULL in the key."""
    return job, evolve(snapshot, table=reflag(_settled(the_table(snapshot)).rekeyed))


def forget_old(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table without the old set, and without the guard, unless the guard is the key."""
    if job.exuvia_undo is not None:
        job = with_undo_note(job, snapshot)
    if arguments(job, RekeyArgs).stays:
        return job, evolve(snapshot, table=evolve(the_table(snapshot), exuvia_rekey=None))
    return job, evolve(snapshot, table=_of_one_set(the_table(snapshot)))


def forget_new(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table without the new set and the guard."""
    table = reflag(_with_null(_of_one_set(the_table(snapshot))))
    return job, evolve(snapshot, table=table)


def _of_one_set(table: TableInfo) -> TableInfo:
    return evolve(indexes_in(table, _guards(_other(table)), ABSENT), exuvia_rekey=None)


def _guards(other: Rekey) -> tuple[int, ...]:
    return (other.guard, other.key_guard) if other.key_guard else (other.guard,)


def _other(table: TableInfo) -> Rekey:
    assert table.exuvia_rekey is not None
    return table.exuvia_rekey


def _move(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The other set in that state, and the guards in theirs, in whichever set they are."""
    table = the_table(snapshot)
    if table.exuvia_rekey is None:
        return snapshot
    other = evolve(table.exuvia_rekey, state=DELETE_ONLY if state == PUBLIC else state)
    args, walks = arguments(job, RekeyArgs), _GUARD_BEHIND.get(state, state)
    guards = dict.fromkeys(_guards(other), walks)
    if args.stays or (state not in _GUARD_BEHIND and args.to_ids):
        guards[other.guard] = PUBLIC

    def with_guards(indexes: tuple[IndexInfo, ...]) -> tuple[IndexInfo, ...] | None:
        return tuple(evolve(i, state=guards.get(i.id, i.state)) for i in indexes) or None

    other = evolve(other, index_info=with_guards(other.index_info or ()))
    table = evolve(table, index_info=with_guards(table.indexes), exuvia_rekey=other)
    return evolve(snapshot, table=table)


def move_and_verify(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """A wait until every row is in both sets and all is compared (law 9). 1062 for equal keys."""
    if snapshot.reorg.filled or snapshot.table_is_empty:
        return None
    other = _other(the_table(snapshot))
    copied = [index for index in other.index_info or () if not index.exuvia_clustered]
    local = tuple(index.id for index in copied if not index.is_global)
    spread = tuple(index.id for index in copied if index.is_global)
    args = arguments(job, RekeyArgs)
    fills = 0 if args.key is None else other.key_guard or other.guard
    is_global = args.key is not None and args.key.is_global
    work = reorg.rekey_rows(
        other.guard, local, spread, fills=fills, is_global=is_global, to_ids=args.to_ids
    )
    return StepWait("", work)


def ranges_left(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """Everything of the removed set, its global indexes, and the guards in the other set."""
    table = the_table(snapshot)
    other = _other(table)
    removed_guards = () if arguments(job, RekeyArgs).stays else _guards(other)
    left = (i.id for i in table.indexes if i.id in removed_guards)
    guards = (
        delete_range for index_id in left for delete_range in ranges_of_index(table, index_id)
    )
    ranges = map(range_of_physical, other.partitions or (other.physical,))
    removed_set = table.rekeyed
    spread = (
        delete_range
        for index in removed_set.global_indexes
        for delete_range in ranges_of_index(removed_set, index.id)
    )
    return (*ranges, *spread, *guards)


def key_changed(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once rows are stored under another key."""
    table = the_table(after)
    was = the_table(before).rekeyed
    old, new = _pieces(was), _pieces(table)
    return JobEvent(
        type="change primary key",
        table=table,
        elements=(was.statistics_id,),
        added=new,
        removed=old,
    )


def former_key(job: Job, before: CatalogSnapshot) -> tuple[Kept, ...]:
    """The record of a change that can be undone."""
    if job.exuvia_undo is None:
        return ()
    table = the_table(before)
    record = Kept(
        job_id=job.id,
        kind="key",
        table_id=table.id,
        until=kept_until(job, before),
        name="PRIMARY",
        definition=primary_key(table.rekeyed),
        key=primary_key(table),
    )
    return (record,)


def _pieces(table: TableInfo) -> tuple[PartitionDefinition, ...]:
    if table.partition is not None:
        return table.partition.definitions
    return (PartitionDefinition(id=table.physical_ids[0], name=name(WHOLE_TABLE)),)


_ROWS = Element("rows", follows_rows=False, move=_move)


def _reads(job: Job) -> ReadSet:
    undo_of = undone(job)
    own = ReadSet(facts=(IsRetained(undo_of),) if undo_of else ())
    return ReadSet.union([reads_children(job), own])


CHANGE_PRIMARY_KEY = load(
    Action(
        ActionCode.EXUVIA_CHANGE_PRIMARY_KEY,
        _ROWS,
        refuses=(table_is_missing, it_was_undone_before, key_cannot_change),
        reads=_reads,
        path=(
            Step(ABSENT, DELETE_ONLY, edit=place_new_set),
            Step(DELETE_ONLY, WRITE_ONLY),
            Step(WRITE_ONLY, WRITE_REORG),
            Step(WRITE_REORG, DELETE_REORG, edit=switch, after=move_and_verify),
        ),
        post_commit=(
            Step(DELETE_REORG, PUBLIC),
            Step(
                PUBLIC,
                ABSENT,
                edit=forget_old,
                causes=(
                    leaves(ranges_left),
                    retains(former_key),
                    ends_retention(undone),
                ),
                event=key_changed,
            ),
        ),
        undo=Action(
            ActionCode.EXUVIA_CHANGE_PRIMARY_KEY,
            _ROWS,
            path=(
                Step(WRITE_REORG, DELETE_ONLY),
                Step(DELETE_ONLY, ABSENT, edit=forget_new, causes=(leaves(ranges_left),)),
            ),
        ),
        reorg=True,
        alterable=True,
        moves_rows=True,
        names_for_later=True,
        uses=of_whole_table,
        without_undo=WAS_NOT_KEPT,
        unlogged=always,
    )
)

ACTIONS = (CHANGE_PRIMARY_KEY,)
