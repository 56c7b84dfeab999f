"""Another clustered primary key, or none: all rows move to the handles that follow from it, or to
hidden ids.

    ADD PRIMARY KEY (..) CLUSTERED                          of hidden row ids
    DROP PRIMARY KEY, ADD PRIMARY KEY (..) [CLUSTERED]      of either kind of key
    DROP PRIMARY KEY                                        of a clustered one
    DROP PRIMARY KEY, ADD PRIMARY KEY (..) NONCLUSTERED     of a clustered one

    absent -> delete only -> write only -> write reorganization =guard filled, moved, verified=>
        delete reorganization -> public -> absent

Readers switch where the change can be turned back no more, with what else the statement changes: a
column of the new key that the same statement adds is public in the version that reads by that key.

As partitions move (partition_move.py): the rows stand in two sets under two ids, one is read, the
other one is written beside it (catalog/writer.py), readers switch, the old set is left to be
emptied. Here a row's copy has another handle, a function of the row, so two rows may have one: that
is 1062. Who says so is the *guard*, a hidden unique index on the new key in the old set, which
walks along as an index that is being added and is filled before the first row moves:

    state                     guard        other set
    delete only               delete only  copies of rows that change are removed
    write only, write reorg   the same     every write is done in both
    delete reorganization     write only   readers have switched; the old set is still written, for
                                           who is one state behind and reads it
    public                    delete only  copies of rows that change are removed, for who is still
                                           one state behind
    absent                    -            it is left to be emptied

The guard is also the way back: where rows had hidden ids, it says which id a row has. Writers put
no NULL into the key from the first step on, the fill refuses one that is there (1138). Entries of
all other indexes are copied with the rows, under the same index ids. Two neighbours of a row above
are always compatible: tests/laws/test_law_5_rows_that_get_other_handles.py walks all of it.

Of a key that is dropped alone, the guard is on that key, in the new set: it says under which hidden
id a row's copy stands. No two rows have one key, so nothing fills it: each row is put with its own
entry, by who changes it or by the move. Up to the switch it is public in a set that nobody reads.
If the key stays, and is only clustered no longer, the guard is that key, and public all the way.

A nonclustered key on other columns that comes in the place of a clustered one needs both guards:
the new set has one on the key that goes, as above, and the new key as an index that is public from
the first step on; the old set has the *key guard*, on the new key, which is filled before the first
row moves and walks as the guard of a clustered one.

MODIFY of the same statement may fill a column of the new key (modify_column.py). Then the key is on
the hidden column, and every row has a value in it before the first row moves. The column gets its
name in the version in which readers switch.

It may also replace a column of the old key. Rows that are written later have no value in the old
column, and thus no copy in the old set. Only snapshots from before the switch read that set. If the
statement does not change the key itself, the rows move to the same key
(sql/schema/alter_index.py).

Of a partitioned table each partition has its other set: the key has all columns that say where a
row belongs, so a row stays in its partition, and no other partition has its key. A global index has
a second one for the other set, under an id of its own: its entries name rows by partition and
handle, which both are others there. A global primary key that comes or goes is of one set alone;
the guard of one that comes is full before a row of the first partition moves.

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
from exuvia.ddl.action import Action, Element, Step, load, of_whole_table
from exuvia.ddl.actions.index import held_to_not_null, part_of
from exuvia.ddl.actions.partition_move import WHOLE_TABLE
from exuvia.ddl.actions.shared import WAS_NOT_KEPT, kept_until, noted, table_is_missing
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, Kept, ReadSet, StepWait
from exuvia.ddl.elements import (
    indexes_in,
    range_of_physical,
    ranges_of_index,
    reflag,
    table_with_children,
    the_table,
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
_GUARD = "_Idx$_PRIMARY_0"
_GUARD_BEHIND = {DELETE_REORG: WRITE_ONLY, PUBLIC: DELETE_ONLY}
"""Its state once readers have switched."""
_CHANGING = "changing the clustered primary key of a table"


class RekeyArgs(NamedTuple):
    """What is asked: the new key, None for hidden ids, and whether the table loses one. `stays`:
    the key is clustered no longer, and nothing else, with that `comment`; `clustered`: what a new
    one is; `undo_of`: the job that is taken back."""

    key: IndexInfo | None
    drops: bool
    stays: bool = False
    clustered: bool = True
    comment: str = ""
    undo_of: int = 0

    @property
    def to_ids(self) -> bool:
        """Whether rows have hidden ids in the end."""
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
    NONCLUSTERED one with this comment. The job requests the new physical ids of the rows."""
    asked = RekeyArgs(
        index, drops, stays=stays, clustered=clustered, comment=comment, undo_of=undo_of
    )
    job = job_for(ActionCode.EXUVIA_CHANGE_PRIMARY_KEY, database, table, asked, query)
    return evolve(job, exuvia_ids=(0,) * _places(table))


def _places(table: TableInfo) -> int:
    return 1 if table.partition is None else len(table.partition.definitions)


# -- refusals --------------------------------------------------------------------------------------


def why_not(
    table: TableInfo, index: IndexInfo | None, drops: bool, *, stays: bool = False
) -> Refused | None:
    """Why the table cannot have that key, or none: 1068, 1069, 1072, 1091, 1553, 8200."""
    has_key = table.pk_is_handle or any(each.is_primary for each in table.indexes)
    if drops and not has_key:
        return ErrCantDropFieldOrKey("PRIMARY")
    if has_key and not drops:
        return ErrMultiplePriKey()
    for said, is_so in (
        ("that is temporary", table.is_temporary),
        ("with AUTO_RANDOM", bool(table.auto_random_bits)),
        ("with SHARD_ROW_ID_BITS", bool(table.ShardRowIDBits)),
    ):
        if is_so:
            return ErrUnsupportedDDLOperation(f"{_CHANGING} {said}")
    if len(table.indexes) >= INDEXES_PER_TABLE:  # the guard is one more
        return ErrTooManyKeys(INDEXES_PER_TABLE)
    parts = () if index is None else index.idx_cols
    for part in parts:
        column = table.column(part.name.L)
        if column is None or column.state != PUBLIC:
            return ErrKeyColumnDoesNotExits(part.name.O)
    return None if stays else _foreign_key_without_index(table, parts)


def _foreign_key_without_index(table: TableInfo, parts: tuple[IndexColumn, ...]) -> Refused | None:
    """1553: the old primary key is the only index that serves it."""
    ids = {column.name.L: column.id for column in table.cols}
    kept = [
        [(part.exuvia_column, part.length) for part in each.idx_cols]
        for each in table.indexes
        if not each.is_primary and each.state == PUBLIC and each.holds_every_row
    ]
    kept.append([(ids[part.name.L], part.length) for part in parts])
    needed = [key.exuvia_cols for key in table.foreign_keys if key.version]
    needed += [each.columns for each in table.exuvia_referred]
    old = table.key_columns
    for columns in needed:
        whole = [(each, -1) for each in columns]
        serves = columns and old[: len(columns)] == tuple(columns)
        if serves and not any(each[: len(whole)] == whole for each in kept):
            return ErrDropIndexNeededInForeignKey("PRIMARY")
    return None


def undone(job: Job) -> int:
    """The job that an UNDO takes back, else 0."""
    return arguments(job, RekeyArgs).undo_of


def it_was_undone_before(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1105, of an UNDO: another one came first, or its time is over."""
    if not undone(job) or snapshot.is_kept:
        return None
    said = "its time is over, or it has been undone"
    return ErrUnknown(f"ddl job {undone(job)} cannot be undone: {said}")


def key_cannot_change(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """What a statement was told before may be otherwise by now."""
    asked, table = arguments(job, RekeyArgs), table_with_children(snapshot)
    if len(job.exuvia_ids) != _places(table):
        return ErrInfoSchemaChanged()
    return why_not(table, asked.key, asked.drops, stays=asked.stays)


def columns_of_key(job: Job) -> frozenset[str]:
    """The columns of the new key, in lower case."""
    key = arguments(job, RekeyArgs).key
    return frozenset() if key is None else frozenset(part.name.L for part in key.idx_cols)


# -- steps -----------------------------------------------------------------------------------------


def place_beside(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The guard and the new set are there, absent yet; from now on writers put no NULL into the
    key."""
    table, asked = the_table(snapshot), arguments(job, RekeyArgs)
    if asked.key is None:
        beside = with_ids_beside(table, job.exuvia_ids, stays=asked.stays, comment=asked.comment)
        return job, evolve(snapshot, table=beside)
    key = _key_of(table, asked.key)
    if asked.clustered:
        table = _with_handles_beside(table, key, job.exuvia_ids)
    else:
        table = with_ids_beside(table, job.exuvia_ids, key=key)
    return job, evolve(snapshot, table=_not_null_from_now(table, key))


def _key_of(table: TableInfo, asked: IndexInfo) -> IndexInfo:
    """As an index of the table. A column that the same statement fills under another type is in it
    as the hidden one."""
    parts = tuple(part_of(table, part) for part in asked.idx_cols)
    return evolve(asked, idx_cols=parts, tbl_name=table.name)


def _with_handles_beside(table: TableInfo, key: IndexInfo, physical: tuple[int, ...]) -> TableInfo:
    """With a set of rows by that key, whose guard is in the old set."""
    kept, last = _indexes_beside(table)
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
        index_info=(kept if is_integer else (new, *kept)) or None,
    )
    indexes = (*table.indexes, guard)
    return evolve(table, index_info=indexes, max_idx_id=last + 2, exuvia_rekey=other)


def _guard_on(key: IndexInfo, index_id: int) -> IndexInfo:
    """A hidden unique index on a key that comes."""
    hidden = evolve(key, id=index_id, idx_name=name(_GUARD), state=ABSENT)
    return evolve(hidden, exuvia_clustered=False)


def _indexes_beside(table: TableInfo) -> tuple[tuple[IndexInfo, ...], int]:
    """The indexes of the other set but its primary key, and the last id that is given. Entries of
    global ones lie under the table's own id, whichever set they are of."""
    last, found = table.max_idx_id, list[IndexInfo]()
    for each in table.indexes:
        if each.is_global and not each.is_primary:
            last += 1
            found.append(evolve(each, id=last))
        elif not each.is_primary:
            found.append(each)
    return tuple(found), last


def _rows_under(table: TableInfo, ids: tuple[int, ...]) -> dict[str, Any]:
    """Where rows of the other set lie."""
    return {"physical": 0, "partitions": ids} if table.partition else {"physical": ids[0]}


def with_ids_beside(
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
    present one, with a guard in the old set."""
    primary = primary_key(table)
    assert primary is not None
    kept, last = _indexes_beside(table)
    guard = IndexInfo(
        id=last + 1,
        idx_name=name("PRIMARY" if stays else _GUARD),
        tbl_name=table.name,
        idx_cols=primary.idx_cols,
        is_unique=True,
        is_primary=stays,
        comment=comment,
    )
    other = Rekey(**_rows_under(table, physical), guard=guard.id, index_info=(guard, *kept))
    if key is None:
        return evolve(table, max_idx_id=guard.id, exuvia_rekey=other)
    new = evolve(key, id=last + 2, idx_name=name("PRIMARY"), state=PUBLIC, exuvia_clustered=False)
    other = evolve(other, key_guard=last + 3, index_info=(new, guard, *kept))
    indexes = (*table.indexes, _guard_on(key, last + 3))
    return evolve(table, index_info=indexes, max_idx_id=last + 3, exuvia_rekey=other)


def primary_key(table: TableInfo) -> IndexInfo | None:
    """The table's primary key; of an integer that is the handle, as an index would be."""
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
    """Whether both are on the same columns, and clustered or not."""
    if one is None or other is None:
        return one is other
    first, second = (
        [(part.exuvia_column, part.length) for part in each.idx_cols] for each in (one, other)
    )
    return first == second and one.exuvia_clustered == other.exuvia_clustered


def _not_null_from_now(table: TableInfo, key: IndexInfo) -> TableInfo:
    """The table whose writers put no NULL into the key; what rows hold is not known yet."""
    keyed = {part.exuvia_column for part in key.idx_cols}
    columns = tuple(
        held_to_not_null(each) if each.id in keyed and not each.not_null else each
        for each in table.cols
    )
    return evolve(table, cols=columns)


def _settled(table: TableInfo) -> TableInfo:
    columns = tuple(
        evolve(each, type=each.exuvia_changing_type, exuvia_changing_type=None)
        if _is_only_held(each)
        else each
        for each in table.cols
    )
    return evolve(table, cols=columns)


def _with_null(table: TableInfo) -> TableInfo:
    columns = tuple(
        evolve(column, exuvia_changing_type=None) if _is_only_held(column) else column
        for column in table.cols
    )
    return evolve(table, cols=columns)


def _is_only_held(column: ColumnInfo) -> bool:
    """Whether its writers put no NULL into it, and it gets no other type by the same statement."""
    coming = column.exuvia_changing_type
    if coming is None:
        return False
    return int(coming.Flag) == column.type.Flag | Flag.NOT_NULL and coming == evolve(
        column.type, Flag=coming.Flag
    )


def switch(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Readers read the new set; the other one is the old. No row has a NULL in the key."""
    return job, evolve(snapshot, table=reflag(_settled(the_table(snapshot)).rekeyed))


def forget_old(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Nothing of the old set is left, nor the guard, unless it is the key."""
    if job.exuvia_undo is not None:
        job = noted(job, snapshot)
    if arguments(job, RekeyArgs).stays:
        return job, evolve(snapshot, table=evolve(the_table(snapshot), exuvia_rekey=None))
    return job, evolve(snapshot, table=_of_one_set(the_table(snapshot)))


def forget_new(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Nothing of the new set is left, nor the guard."""
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
    """The other set in that state, and guards with it, in whichever set they are."""
    table = the_table(snapshot)
    if table.exuvia_rekey is None:
        return snapshot
    other = evolve(table.exuvia_rekey, state=DELETE_ONLY if state == PUBLIC else state)
    asked, walks = arguments(job, RekeyArgs), _GUARD_BEHIND.get(state, state)
    guards = dict.fromkeys(_guards(other), walks)
    if asked.stays or (state not in _GUARD_BEHIND and asked.to_ids):
        guards[other.guard] = PUBLIC

    def with_guards(indexes: tuple[IndexInfo, ...]) -> tuple[IndexInfo, ...] | None:
        return tuple(evolve(i, state=guards.get(i.id, i.state)) for i in indexes) or None

    other = evolve(other, index_info=with_guards(other.index_info or ()))
    table = evolve(table, index_info=with_guards(table.indexes), exuvia_rekey=other)
    return evolve(snapshot, table=table)


def move_and_verify(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """No two rows have one key, every row is in both sets, and all has been compared (law 9)."""
    if snapshot.failure is not None:
        return snapshot.failure
    if snapshot.filled or snapshot.table_is_empty:
        return None
    other = _other(the_table(snapshot))
    kept = [each for each in other.index_info or () if not each.exuvia_clustered]
    local = tuple(each.id for each in kept if not each.is_global)
    spread = tuple(each.id for each in kept if each.is_global)
    asked = arguments(job, RekeyArgs)
    fills = 0 if asked.key is None else other.key_guard or other.guard
    is_global = asked.key is not None and asked.key.is_global
    work = reorg.rekey_rows(
        other.guard, local, spread, fills=fills, is_global=is_global, to_ids=asked.to_ids
    )
    return StepWait("", work)


def ranges_left(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All that lies under the ids of the set that is given up, its global indexes, and what is a
    guard in the other one."""
    table = the_table(snapshot)
    other = _other(table)
    standing = () if arguments(job, RekeyArgs).stays else _guards(other)
    left = (i.id for i in table.indexes if i.id in standing)
    guards = (each for index_id in left for each in ranges_of_index(table, index_id))
    ranges = map(range_of_physical, other.partitions or (other.physical,))
    gone = table.rekeyed
    spread = (each for index in gone.global_indexes for each in ranges_of_index(gone, index.id))
    return (*ranges, *spread, *guards)


def key_changed(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """Rows lie elsewhere, under another key."""
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
    """The record of a change that is kept."""
    if job.exuvia_undo is None:
        return ()
    table = the_table(before)
    kept = Kept(
        job_id=job.id,
        kind="key",
        table_id=table.id,
        until=kept_until(job, before),
        name="PRIMARY",
        definition=primary_key(table.rekeyed),
        key=primary_key(table),
    )
    return (kept,)


def _pieces(table: TableInfo) -> tuple[PartitionDefinition, ...]:
    if table.partition is not None:
        return table.partition.definitions
    return (PartitionDefinition(id=table.physical_ids[0], name=name(WHOLE_TABLE)),)


_ROWS = Element("rows", follows_rows=False, move=_move)

CHANGE_PRIMARY_KEY = load(
    Action(
        "exuvia change primary key",
        ActionCode.EXUVIA_CHANGE_PRIMARY_KEY,
        _ROWS,
        refuses=(table_is_missing, it_was_undone_before, key_cannot_change),
        reads=lambda job: ReadSet(undo_of=undone(job)),
        path=(
            Step(ABSENT, DELETE_ONLY, edit=place_beside),
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
                leaves=ranges_left,
                event=key_changed,
                keeps=former_key,
                ends_undo_of=undone,
            ),
        ),
        undo=Action(
            "keep primary key",
            ActionCode.EXUVIA_CHANGE_PRIMARY_KEY,
            _ROWS,
            path=(
                Step(WRITE_REORG, DELETE_ONLY),
                Step(DELETE_ONLY, ABSENT, edit=forget_new, leaves=ranges_left),
            ),
        ),
        reorg=True,
        alterable=True,
        moves_rows=True,
        names_for_later=True,
        uses=of_whole_table,
        without_undo=WAS_NOT_KEPT,
    )
)

ACTIONS = (CHANGE_PRIMARY_KEY,)
