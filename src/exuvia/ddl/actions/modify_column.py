"""MODIFY, CHANGE and RENAME COLUMN: one action code, four paths.

catalog/convert/type_change.py chooses the path:

    METADATA   absent -> public
    CHECKED    absent -> write only -> (barrier) write reorganization =rows read=> public
    INDEXES    absent -> delete only -> write only -> write reorganization =fill, verify=> public
    ROWS       the same states, =rows written, fill, verify=> public
    after the non-revertible point, for the last two: the replaced elements are removed
               write only -> delete only -> removed

    ALTER COLUMN SET DEFAULT and DROP DEFAULT   absent -> public

CHECKED: from the first step, writers obey both types. The barrier step proves that all writers do,
so the rows read after it are all rows to validate (law 1). ROWS and INDEXES: hidden elements walk
as in ADD INDEX and are swapped with the old ones in one version. Undo removes them.

    place      _Col$_c_0 behind the others, _Idx$_i_0 for each index on c               ROWS
               `exuvia_changing_type` on c, hidden indexes whose keys have it          INDEXES
    swap       the hidden ones get the names and places of the old; the old ones hide
    announce   writers obey the new type as well as the old one                         CHECKED
    change     c has the new definition, at its place

A CHECK may have another result after the change (catalog/rules.py). Then writers check it with both
meanings, from the step that announces the new type. Afterwards the existing rows are checked. This
applies to CHECKED, INDEXES and ROWS; a METADATA change that affects a CHECK becomes CHECKED.

A foreign key is validated by both definitions when the statement is built. The swap of a column in
a key fences the table, because marks at the parent contain its values.

After the swap the old column is still written (WRITE_ONLY), and its indexes only lose entries
(DELETE_ONLY). Their readers have a snapshot from before the swap, which has no later rows but those
that the same transaction writes. For these a new value is converted back (type_change.BACK), and
their index entries are computed from the row (catalog/reader.py). If no value of the old type is
converted to the new one, the old column is NULL. A row without an old clustered key is not in the
set by that key. If the primary key also changes, values are not converted back where two rows
could have the same old key (_is_converted_back). So a write is not refused because of the old type.

If the column is retained for UNDO (exuvia_undo_s), the old column of ROWS is not removed. It stays
hidden, write only, under another name and without NOT NULL. `change_state_info` names the column
whose former values it has (type_change.KEPT_OF). An update keeps its value. From the step after the
swap on, a change of the new column's value, or an insert, puts NULL in it. NULL in it means that
the new column's value is the row's value. The other kinds write no row, and only the old definition
is retained.

UNDO is a MODIFY back to the old definition, ROWS if a column is retained. A row's value is the
retained one, or else the present one converted by strict rules. The retained column is removed with
the replaced ones. When its retention ends, it is removed like a dropped column (undo.py).

A STORED column is rewritten as ROWS (in mysql mode) if its expression changes, or a column that it
reads. In the second case its own MODIFY comes after the MODIFY of those columns. It computes over
the changed columns, and crosses with them.

Adding AUTO_INCREMENT is a CHECKED change. From the first step on, writers advance the table's
counter to the values of their rows. The last step advances it beyond the greatest existing value.

SET DEFAULT touches no row: existing rows have their values; rows older than the column keep its
origin default. Source: seed 003; TiDB's "modify column".
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrDependentByFunctionalIndex,
    ErrDependentByGeneratedColumn,
    ErrDupFieldName,
    ErrModifyColumnReferencedByPartialCondition,
    ErrTableDefChanged,
    ErrUnknown,
    ErrUnsupportedColumnInTTLConfig,
)
from exuvia.base.types import Family, FieldType, Flag, TypeCode
from exuvia.catalog.autoid import why_no_bits, with_random_bits
from exuvia.catalog.convert.type_change import (
    BACK,
    COMPUTED,
    EXPRESSION,
    KEPT,
    KEPT_OF,
    LEFT,
    LENIENT,
    MOMENTS,
    NULL_VALUE,
    OLD_COLUMN,
    PLAIN_MOMENTS,
    TOGETHER,
    ChangeKind,
    Moments,
    former_of,
    is_by_arrays,
    kind_of,
)
from exuvia.catalog.convert.values import origin_default_of
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
from exuvia.catalog.rules import TouchedRule, coming_checks_on, links_with
from exuvia.catalog.table import with_layout
from exuvia.catalog.ttl import FITTING, column_of
from exuvia.ddl.action import (
    Action,
    Element,
    ElementUse,
    Step,
    ends_retention,
    fences,
    leaves,
    load,
    retains,
)
from exuvia.ddl.actions.shared import (
    WAS_NOT_KEPT,
    computed_from,
    kept_until,
    private_name,
    stood_before,
    table_is_missing,
    with_undo_note,
)
from exuvia.ddl.decision import StepWait
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import (
    index_with_predicate_on,
    ranges_of_index,
    reflag,
    renumber,
    stay,
    the_table,
)
from exuvia.ddl.facts import GreatestValue, LastId
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, raw
from exuvia.ddl.kept import IsRetained, Kept
from exuvia.ddl.snapshot import CatalogSnapshot, Fact, ReadSet
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
_KEY_FLAGS = int(Flag.PRI_KEY | Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY)


# -- arguments -------------------------------------------------------------------------------------


class Modification(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of MODIFY, CHANGE and RENAME COLUMN. Names of fields are TiDB's if it has them.

    column              the new definition, with the id of the column it changes
    after               the neighbour's name, "" for FIRST, None to stay
    indexed             an index has it, or one that the same statement adds or drops
    auto_random         shard bits and range bits of AUTO_RANDOM
    together            ids of the columns that the statement changes, if several
    changing_idxs       (index, its hidden copy)
    kept                the former column, recorded by the first step of a job that can be undone
    undo_of             the job that an UNDO reverts
    kept_column         the hidden column with the former values, for an UNDO
    computed            it is a STORED column, all of whose values are computed again
    replaces            the same statement drops, or renames, the column that has the new name
    """

    column: ColumnInfo
    old_column_name: str
    old_type: FieldType
    kind: ChangeKind = ChangeKind.METADATA
    indexed: bool = False
    strict: bool = True
    moments: Moments = PLAIN_MOMENTS
    after: str | None = None
    null_value: int | None = None
    auto_random: tuple[int, int] | None = None
    changing_column_id: int = 0
    changing_idxs: tuple[tuple[int, int], ...] = ()
    kept: Kept | None = None
    undo_of: int = 0
    kept_column: int = 0
    together: tuple[int, ...] = ()
    computed: bool = False
    replaces: bool = False


def modification_of(job: Job) -> Modification:
    """The job's arguments."""
    return arguments(job, tuple[Modification])[0]


def _uses(job: Job) -> Iterator[ElementUse]:
    """The column under its old and new name, and its neighbour."""
    change = modification_of(job)
    old, new = change.old_column_name.lower(), change.column.name.L
    if old == new:
        yield ElementUse("column", "modify", old)
    else:
        yield ElementUse("column", "add", new)
        yield ElementUse("column", "drop", old)
    if change.after:
        yield ElementUse("column", "place", change.after.lower())


def _uses_of_default(job: Job) -> Iterator[ElementUse]:
    yield ElementUse("column", "modify", column_with_default(job).name.L)


def changes_values(job: Job) -> bool:
    """Whether it is a MODIFY, CHANGE or rename during which writers obey another type."""
    if job.type != ActionCode.MODIFY_COLUMN:
        return False
    return modification_of(job).kind != ChangeKind.METADATA


def with_modification(job: Job, change: Modification) -> Job:
    """The job with other arguments."""
    return evolve(job, raw_args=raw((change,)))


def modify_column(
    database: DatabaseInfo, table: TableInfo, change: Modification, *, query: str = ""
) -> Job:
    """MODIFY, CHANGE and RENAME COLUMN; the kind is chosen by catalog/convert/type_change.py."""
    job = job_for(ActionCode.MODIFY_COLUMN, database, table, (change,), query)
    return job if change.kind == ChangeKind.METADATA else evolve(job, reorg_meta={})


def set_default(
    database: DatabaseInfo, table: TableInfo, column: ColumnInfo, *, query: str = ""
) -> Job:
    """ALTER COLUMN SET DEFAULT and DROP DEFAULT: the column with its new default."""
    return job_for(ActionCode.SET_DEFAULT, database, table, (column,), query)


def indexes_with(table: TableInfo, column_id: int) -> tuple[IndexInfo, ...]:
    """The indexes on the column."""
    return tuple(
        index
        for index in table.indexes
        if any(part.exuvia_column == column_id for part in index.idx_cols)
    )


def without_keys(field: FieldType) -> FieldType:
    """A type without the flags that depend on the table's indexes."""
    return evolve(field, Flag=field.Flag & ~_KEY_FLAGS)


def becomes_numbered(change: Modification) -> bool:
    """Whether the column gets AUTO_INCREMENT."""
    return change.column.auto_increment and not change.old_type.auto_increment


def is_kind_valid(change: Modification, table: TableInfo, column: ColumnInfo) -> bool:
    """Whether the kind chosen by the statement is still the right one for the table."""
    if without_keys(column.type) != without_keys(change.old_type):
        return False
    if change.kept_column or change.computed:
        return change.kind == ChangeKind.ROWS
    indexed = change.indexed or bool(indexes_with(table, column.id))
    kind = kind_in(table, column, change.column.type, indexed=indexed, strict=change.strict)
    if kind == ChangeKind.PRECHECKED:
        return change.kind in (ChangeKind.CHECKED, ChangeKind.ROWS)
    if kind == ChangeKind.METADATA:
        return change.kind in (ChangeKind.METADATA, ChangeKind.CHECKED)
    if column.type.unsigned != change.column.type.unsigned and change.kind == ChangeKind.ROWS:
        return True  # the same statement may have taken it out of the primary key
    return kind == change.kind


def kind_in(
    table: TableInfo, column: ColumnInfo, new: FieldType, *, indexed: bool, strict: bool = True
) -> ChangeKind:
    """The kind of a change of the column's type. The sign of an integer is in the bytes of a
    primary key, and so in the handles: such a change rewrites the rows."""
    is_key = column.id in table.key_columns
    kind = kind_of(column.type, new, indexed or is_key, strict)
    return ChangeKind.ROWS if is_key and kind == ChangeKind.INDEXES else kind


# -- in place --------------------------------------------------------------------------------------


def changed(table: TableInfo, change: Modification) -> TableInfo:
    """The column with its new definition, at its place; indexes and keys have its name."""
    old = table.column_by_id(change.column.id)
    assert old is not None, change.column.id
    new = evolve(
        _with_key_of(change.column, old),
        state=PUBLIC,
        origin_default=old.origin_default,
        origin_default_bit=old.origin_default_bit,
    )
    if not _reads_as_before(new):
        new = evolve(new, origin_default=None, origin_default_bit=None)  # no row has it
    table = _at_its_place(_with_column(table, old.id, new), new.id, change.after)
    return with_random_bits(_settled(table, old, new), change.auto_random)


def _with_key_of(column: ColumnInfo, current: ColumnInfo) -> ColumnInfo:
    """The column with its present key flags: the same statement may have changed its keys."""
    flags = int(column.type.Flag & ~_KEY_FLAGS | current.type.Flag & _KEY_FLAGS)
    return evolve(column, type=evolve(column.type, Flag=flags))


def _reads_as_before(column: ColumnInfo) -> bool:
    """Whether the origin default is a value of the new type."""
    try:
        origin_default_of(column)
    except Refused:
        return False
    return True


def with_announced_type(table: TableInfo, change: Modification) -> TableInfo:
    """Writers obey the new type, too, from now on."""
    return _with_changing_type(table, change.column.id, change)


def without_announced_type(table: TableInfo, change: Modification) -> TableInfo:
    """Writers obey only the old type again."""
    return _with_changing_type(table, change.column.id, None)


def _with_changing_type(table: TableInfo, column_id: int, change: Modification | None) -> TableInfo:
    column = table.column_by_id(column_id)
    assert column is not None, column_id
    if change is None:
        bare = evolve(column, exuvia_changing_type=None, change_state_info=None)
        return _with_column(table, column_id, bare)
    state_info = _together_info(change)
    new = change.column
    if new.is_generated and new.generated_expr_string != column.generated_expr_string:
        state_info[EXPRESSION] = {
            "text": new.generated_expr_string,
            "reads": list(new.dependences or ()),
        }
    announced = evolve(column, exuvia_changing_type=new.type, change_state_info=state_info or None)
    return _with_column(table, column_id, announced)


def _together_info(change: Modification) -> dict[str, object]:
    return {TOGETHER: list(change.together)} if len(change.together) > 1 else {}


def _with_column(table: TableInfo, column_id: int, new: ColumnInfo) -> TableInfo:
    return evolve(table, cols=tuple(new if c.id == column_id else c for c in table.cols))


def _at_its_place(table: TableInfo, column_id: int, after: str | None) -> TableInfo:
    """The column at its place among the public ones; None: its present place."""
    if after is None:
        return table
    moving = next(c for c in table.cols if c.id == column_id)
    others = [c for c in table.cols if c.id != column_id]
    at = 0
    if after:
        at = next((n + 1 for n, c in enumerate(others) if c.name.L == after.lower()), len(others))
    return evolve(table, cols=(*others[:at], moving, *others[at:]))


def _settled(table: TableInfo, old: ColumnInfo, new: ColumnInfo) -> TableInfo:
    """The table with everything that has the column's name or depends on its type."""
    indexes = tuple(
        evolve(
            index,
            idx_cols=tuple(_part(part, new) for part in index.idx_cols),
            exuvia_predicate=tuple(
                evolve(term, name=new.name) if term.exuvia_column == new.id else term
                for term in index.exuvia_predicate
            ),
        )
        for index in table.indexes
    )
    keys = tuple(
        evolve(
            key,
            cols=tuple(
                new.name if n in (old.id, new.id) else c
                for c, n in zip(key.cols, key.exuvia_cols, strict=True)
            ),
            exuvia_cols=tuple(new.id if n == old.id else n for n in key.exuvia_cols),
        )
        for key in table.fk_info or ()
    )
    referred = tuple(
        evolve(reference, columns=tuple(new.id if n == old.id else n for n in reference.columns))
        for reference in table.exuvia_referred
    )
    table = evolve(
        table, index_info=indexes or None, fk_info=keys or None, exuvia_referred=referred
    )
    ttl = table.exuvia_ttl
    if ttl is not None and ttl.column.L == old.name.L:
        table = evolve(table, exuvia_ttl=evolve(ttl, column=new.name))
    return with_layout(reflag(renumber(table)))


def _part(part: IndexColumn, new: ColumnInfo) -> IndexColumn:
    if part.exuvia_column != new.id:
        return part
    return evolve(part, name=new.name, length=prefix_of(part, new))


def prefix_of(part: IndexColumn, new: ColumnInfo) -> int:
    """The length of a prefix; -1 for a number or if it covers the whole column."""
    if new.type.family not in (Family.STRING, Family.BYTES):
        return -1
    return -1 if 0 <= new.type.Flen <= part.length else part.length


# -- hidden ----------------------------------------------------------------------------------------


def with_hidden_elements(table: TableInfo, change: Modification) -> tuple[TableInfo, Modification]:
    """The hidden column and indexes, in state absent, and the arguments with their ids."""
    old = table.column_by_id(change.column.id)
    assert old is not None, change.column.id
    new = old
    if change.kind == ChangeKind.ROWS:
        state_info: dict[str, object] = {"relative_col_offset": old.offset, OLD_COLUMN: old.id}
        state_info |= _together_info(change)
        if change.null_value is not None:
            state_info[NULL_VALUE] = change.null_value
        if not change.strict:
            state_info[LENIENT] = 1
        if change.moments != PLAIN_MOMENTS:
            state_info[MOMENTS] = msgspec.to_builtins(change.moments)
        if change.kept_column:
            state_info[KEPT] = change.kept_column
        if change.computed:
            state_info[COMPUTED] = True
        new = evolve(
            change.column,
            id=table.max_col_id + 1,
            name=name(f"_Col$_{old.name.O}_0"),
            offset=len(table.cols),
            state=ABSENT,
            change_state_info=state_info,
        )
        table = evolve(table, cols=(*table.cols, new), max_col_id=new.id)
    else:
        table = with_announced_type(table, change)
    first = table.max_idx_id + 1
    # a clustered key has no entries: its rows move to other handles (rekey.py)
    replaced = [index for index in indexes_with(table, old.id) if not index.exuvia_clustered]
    copies = tuple(_copy(index, first + n, old, new) for n, index in enumerate(replaced))
    table = evolve(
        table,
        index_info=(*table.indexes, *copies) or None,
        max_idx_id=table.max_idx_id + len(copies),
    )
    pairs = tuple((a.id, b.id) for a, b in zip(replaced, copies, strict=True))
    return table, evolve(change, changing_column_id=new.id, changing_idxs=pairs)


def _copy(index: IndexInfo, index_id: int, old: ColumnInfo, new: ColumnInfo) -> IndexInfo:
    parts = tuple(
        part
        if part.exuvia_column != old.id
        else evolve(
            part,
            name=new.name,
            offset=new.offset,
            exuvia_column=new.id,
            length=prefix_of(part, new),
            exuvia_using_changing_type=new.id == old.id,
        )
        for part in index.idx_cols
    )
    hidden_name = name(f"_Idx$_{index.idx_name.O}_0")
    return evolve(index, id=index_id, idx_name=hidden_name, idx_cols=parts, state=ABSENT)


def hidden_in_state(table: TableInfo, change: Modification, state: SchemaState) -> TableInfo:
    """The hidden column and indexes in that state; ABSENT removes them."""
    ids = {copy_id for _, copy_id in change.changing_idxs}
    columns = {change.changing_column_id} if change.kind == ChangeKind.ROWS else set()
    return _in_state(table, columns, ids, state, state)


def swapped(table: TableInfo, change: Modification, kept_as: str = "") -> TableInfo:
    """The new column and indexes public under the old names; the old ones hidden.

    `kept_as`: the name of the old column while it is retained for UNDO.
    """
    old = table.column_by_id(change.column.id)
    assert old is not None, change.column.id
    table = evolve(table, index_info=_swapped_indexes(table, change) or None)
    if change.kind == ChangeKind.INDEXES:
        table = changed(table, change)
        new = table.column_by_id(old.id)
        assert new is not None, old.id
        left = evolve(new, exuvia_changing_type=old.type, change_state_info={LEFT: True})
        return _with_column(table, old.id, left)
    new = evolve(change.column, id=change.changing_column_id, state=PUBLIC, offset=old.offset)
    filled = table.column_by_id(new.id)
    assert filled is not None, new.id
    new = _with_key_of(new, filled)
    old_column = evolve(old, name=name(f"_Tombstone$_{old.name.O}_0"), state=WRITE_ONLY)
    # only values stay: it was computed from another column
    if old.is_generated and not old.is_virtual:
        old_column = evolve(
            old_column, generated_expr_string="", generated_stored=False, dependences=None
        )
    moments = change.moments if _is_converted_back(table, old, new, change) else None
    former = _with_former_values(old_column, new.id, moments)
    old_column = evolve(former, name=name(kept_as)) if kept_as else former
    others = [column for column in table.cols if column.id != new.id]
    columns = tuple(new if column.id == old.id else column for column in others)
    table = _at_its_place(evolve(table, cols=(*columns, old_column)), new.id, change.after)
    return _settled(table, old, new)


def _is_converted_back(
    table: TableInfo, old: ColumnInfo, new: ColumnInfo, change: Modification
) -> bool:
    """Whether new values of the replaced column are converted back.

    Not if its expression changes. If the statement also changes the primary key, rows have copies
    in the set by the old one. There, two rows must not have the same key. So not if rows with
    different new keys may have the same old one."""
    if change.computed and old.generated_expr_string != new.generated_expr_string:
        return False
    if table.exuvia_rekey is None:
        return True
    is_named = new.type.Tp in (TypeCode.ENUM, TypeCode.SET)
    is_text = is_named or new.type.family in (Family.STRING, Family.BYTES, Family.JSON)
    if old.type.family == Family.STRING and is_text and old.type.Collate != new.type.Collate:
        return False
    indexes = (*table.indexes, *(table.exuvia_rekey.index_info or ()))
    parts = (part for index in indexes for part in index.idx_cols)
    return not any(part.exuvia_column == old.id and part.length >= 0 for part in parts)


def _with_former_values(old: ColumnInfo, of: int, moments: Moments | None) -> ColumnInfo:
    """The replaced column, with the former values of column `of`, or values converted back.

    `moments`: the settings of these conversions, None for no values."""
    flags = old.type.Flag & ~int(Flag.NOT_NULL | Flag.ON_UPDATE_NOW) & ~_KEY_FLAGS
    state_info: dict[str, object] = {KEPT_OF: of}
    if moments is not None:
        state_info[BACK] = True
        if moments != PLAIN_MOMENTS:
            state_info[MOMENTS] = msgspec.to_builtins(moments)
    return evolve(
        old,
        type=evolve(old.type, Flag=flags),
        default=None,
        default_bit=None,
        default_is_expr=False,
        origin_default=None,
        origin_default_bit=None,
        change_state_info=state_info,
    )


def _left_for_undo(column: ColumnInfo) -> ColumnInfo:
    """The replaced column once no reader reads it."""
    of = former_of(column)
    return evolve(column, change_state_info={KEPT_OF: of}) if of else column


def _swapped_indexes(table: TableInfo, change: Modification) -> tuple[IndexInfo, ...]:
    """Copies are at the places of their originals; the originals are at the end.

    If one statement changes two columns of an index, the second change finds the copy of the first
    one there. Its own copy of the original is removed with the original.
    """
    by_id = {index.id: index for index in table.indexes}
    copies = dict(change.changing_idxs)
    public_indexes, hidden_indexes = [], []
    for index in table.indexes:
        if index.id in copies and index.state != PUBLIC:
            hidden_indexes += [index, evolve(by_id[copies[index.id]], state=DELETE_ONLY)]
        elif index.id in copies:
            copy = _keyed_by(by_id[copies[index.id]], change.column.id, False)
            public_indexes.append(evolve(copy, idx_name=index.idx_name, state=PUBLIC))
            hidden_name = name(f"_Tombstone$_{index.idx_name.O}_0")
            original = _keyed_by(index, change.column.id, change.kind == ChangeKind.INDEXES)
            hidden_indexes.append(evolve(original, idx_name=hidden_name, state=DELETE_ONLY))
        elif index.id not in copies.values():
            # it was created by the change
            public_indexes.append(_keyed_by(index, change.column.id, False))
    return (*public_indexes, *hidden_indexes)


def _keyed_by(index: IndexInfo, column_id: int, changing: bool) -> IndexInfo:
    """The index with keys of the column's `exuvia_changing_type`, or of its type."""
    parts = tuple(
        evolve(part, exuvia_using_changing_type=changing)
        if part.exuvia_column == column_id
        else part
        for part in index.idx_cols
    )
    return evolve(index, idx_cols=parts)


def replaced_in_state(
    table: TableInfo, change: Modification, state: SchemaState, is_kept: bool = False
) -> TableInfo:
    """The replaced elements in that state; ABSENT removes them. `is_kept`: without the column."""
    ids = replaced_indexes(table, change)
    columns: set[int] = set()
    if change.kind == ChangeKind.ROWS and not is_kept:
        columns = {change.column.id, change.kept_column}
    elif change.kind == ChangeKind.ROWS:
        replaced = table.column_by_id(change.column.id)
        assert replaced is not None, change.column.id
        table = _with_column(table, replaced.id, _left_for_undo(replaced))
    elif state == ABSENT:
        changed = table.column_by_id(change.column.id)
        assert changed is not None, change.column.id
        cleared = evolve(changed, exuvia_changing_type=None, change_state_info=None)
        table = _with_column(table, changed.id, cleared)
    return _in_state(table, columns, ids, state, ABSENT if state == ABSENT else DELETE_ONLY)


def replaced_indexes(table: TableInfo, change: Modification) -> set[int]:
    """Ids of the indexes to remove: those with a removed column, otherwise those that were copied.

    Includes a copy that another change of the same statement has replaced. Excludes indexes that
    the other change has removed already."""
    if change.kind == ChangeKind.ROWS:
        return {index.id for index in indexes_with(table, change.column.id)}
    ids = {index_id for pair in change.changing_idxs for index_id in pair}
    return {index.id for index in table.indexes if index.id in ids and index.state != PUBLIC}


def _in_state(
    table: TableInfo,
    columns: set[int],
    indexes: set[int],
    state: SchemaState,
    index_state: SchemaState,
) -> TableInfo:
    cols = tuple(
        evolve(column, state=state) if column.id in columns else column
        for column in table.cols
        if column.id not in columns or state != ABSENT
    )
    indexes_left = tuple(
        evolve(index, state=index_state) if index.id in indexes else index
        for index in table.indexes
        if index.id not in indexes or index_state != ABSENT
    )
    table = evolve(table, cols=cols, index_info=indexes_left or None)
    return with_layout(reflag(renumber(table)))


_NOUN = "column that changes"


# -- refusals --------------------------------------------------------------------------------------


def column_to_change_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1054, also for the column of AFTER."""
    change, table = modification_of(job), the_table(snapshot)
    column = table.column_by_id(change.column.id)
    if column is None or column.state != PUBLIC:
        return ErrBadField(change.old_column_name, table.name.O)
    if change.after and table.column(change.after) is None:
        return ErrBadField(change.after, table.name.O)
    return None


def a_partial_index_reads_it(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8272 for a change of a column in a predicate; a new name is allowed."""
    change, table = modification_of(job), the_table(snapshot)
    column, index = (
        table.column_by_id(change.column.id),
        index_with_predicate_on(table, change.column.id),
    )
    if column is None or index is None:
        return None
    if without_keys(column.type) == without_keys(change.column.type):
        return None
    return ErrModifyColumnReferencedByPartialCondition(column.name.O, index.idx_name.O)


def rows_could_not_expire(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8148: its new type cannot be a TTL column's."""
    change, table = modification_of(job), the_table(snapshot)
    column = column_of(table)
    if column is None or column.id != change.column.id or change.column.type.Tp in FITTING:
        return None
    return ErrUnsupportedColumnInTTLConfig(column.name.O)


def ids_have_no_room(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8216: allocated ids do not fit into the bits that AUTO_RANDOM leaves."""
    change, table = modification_of(job), the_table(snapshot)
    if change.auto_random is None:
        return None
    return why_no_bits(table, change.column, change.auto_random, snapshot.fact(LastId(table.id)))


def new_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    change = modification_of(job)
    holder = None if change.replaces else the_table(snapshot).column(change.column.name.L)
    is_taken = holder is not None and holder.id != change.column.id
    return ErrDupFieldName(change.column.name.O) if is_taken else None


def something_is_computed_from_the_old_name(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """3108, 3837: an expression names a column that is to be renamed."""
    modification, table = modification_of(job), the_table(snapshot)
    column = table.column_by_id(modification.column.id)
    if column is None or column.name.L == modification.column.name.L:
        return None
    computed = computed_from(table, column.name.L)
    if not computed:
        return None
    kind = ErrDependentByFunctionalIndex if computed[0].hidden else ErrDependentByGeneratedColumn
    return kind(column.name.O)


def column_has_changed_since(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1412: another job changed it, or its indexes, since the statement chose the kind."""
    change, table = modification_of(job), the_table(snapshot)
    column = table.column_by_id(change.column.id)
    is_valid = column is not None and is_kind_valid(change, table, column)
    return None if is_valid else ErrTableDefChanged()


def undo_data_is_gone(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1105 for an UNDO: the retention has ended, or it was undone before."""
    change, table = modification_of(job), the_table(snapshot)
    if not change.undo_of:
        return None
    hidden_column = table.column_by_id(change.kept_column) if change.kept_column else None
    there = not change.kept_column or (
        hidden_column is not None and hidden_column.state == WRITE_ONLY
    )
    if there and snapshot.fact(IsRetained(change.undo_of)):
        return None
    reason = f"ddl job {change.undo_of} cannot be undone: its data is no longer retained"
    return ErrUnknown(reason)


# -- steps -----------------------------------------------------------------------------------------


def _change_in_place(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    job = _with_former_column(job, snapshot)
    change = modification_of(job)
    table = changed(without_announced_type(the_table(snapshot), change), change)
    if becomes_numbered(change):  # the counter continues after all rows and never decreases
        following, epoch = (
            snapshot.fact(GreatestValue(table.id, change.column.id)) + 1,
            table.exuvia_ids_epoch + 1,
        )
        table = evolve(
            table, auto_inc_id=following, exuvia_ids_epoch=epoch, exuvia_ids_forced=False
        )
    return _with_undo_note(job, snapshot), evolve(snapshot, table=table)


def _announce(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    return _with_former_column(job, snapshot), evolve(
        snapshot, table=with_announced_type(the_table(snapshot), modification_of(job))
    )


def _withdraw(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    return job, evolve(
        snapshot, table=without_announced_type(the_table(snapshot), modification_of(job))
    )


def _place_hidden(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    job = _with_former_column(job, snapshot)
    table, change = with_hidden_elements(the_table(snapshot), modification_of(job))
    return with_modification(job, change), evolve(snapshot, table=table)


def _walk(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """Hidden elements up to the swap; after it the replaced elements, backwards."""
    change, table = modification_of(job), the_table(snapshot)
    if job.exuvia_tail:
        target = ABSENT if state == PUBLIC else state
        is_kept = job.exuvia_undo is not None
        return evolve(snapshot, table=replaced_in_state(table, change, target, is_kept))
    if state == PUBLIC:
        kept_as = private_name(job, change.column.id) if job.exuvia_undo is not None else ""
        return evolve(snapshot, table=swapped(table, change, kept_as))
    return evolve(snapshot, table=hidden_in_state(table, change, state))


# -- retention for UNDO ----------------------------------------------------------------------------


def _with_former_column(job: Job, snapshot: CatalogSnapshot) -> Job:
    """The job with the definition of its column before it, if it can be undone."""
    change, table = modification_of(job), the_table(snapshot)
    old = table.column_by_id(change.column.id)
    if job.exuvia_undo is None or change.kept is not None or old is None:
        return job
    record = Kept(
        job_id=job.id,
        kind="modify",
        table_id=table.id,
        until=0,
        name=old.name.O,
        elements=(old.id,) if change.kind == ChangeKind.ROWS else (),
        before=tuple(column.id for column in stood_before(table, old)),
        before_names=tuple(column.name.L for column in stood_before(table, old)),
        former=old,
        moved=change.after is not None,
    )
    return with_modification(job, evolve(change, kept=record))


def _with_undo_note(job: Job, snapshot: CatalogSnapshot) -> Job:
    return job if job.exuvia_undo is None else with_undo_note(job, snapshot)


def _add_undo_note(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    return _with_undo_note(job, snapshot), snapshot


def former_column(job: Job, before: CatalogSnapshot) -> tuple[Kept, ...]:
    """The record of a MODIFY that can be undone."""
    change = modification_of(job)
    if job.exuvia_undo is None or change.kept is None:
        return ()
    new = evolve(change.column, id=change.changing_column_id or change.column.id)
    return (evolve(change.kept, until=kept_until(job, before), changed=new),)


def back_to(
    table: TableInfo,
    record: Kept,
    current: ColumnInfo,
    new_name: str,
    moments: Moments = PLAIN_MOMENTS,
) -> Modification:
    """The arguments of an UNDO: the column's former definition, under that name."""
    former = record.former
    assert former is not None
    flags = without_keys(former.type).Flag | current.type.Flag & _KEY_FLAGS
    column = evolve(
        former,
        id=current.id,
        name=name(new_name),
        offset=current.offset,
        type=evolve(former.type, Flag=flags),
        origin_default=None,
        origin_default_bit=None,
    )
    indexed = bool(indexes_with(table, current.id))
    place = None
    if record.moved:
        others = [column for column in table.public_columns if column.id != current.id]
        neighbour = record.neighbour(others)
        place = "" if neighbour is None else neighbour.name.O
    return Modification(
        column=column,
        old_column_name=current.name.O,
        old_type=current.type,
        kind=ChangeKind.ROWS if record.elements else kind_of(current.type, column.type, indexed),
        moments=moments.of(current.type, column.type),
        after=place,
        undo_of=record.job_id,
        kept_column=record.elements[0] if record.elements else 0,
    )


def undone(job: Job) -> int:
    """The job that an UNDO reverts, or 0."""
    return modification_of(job).undo_of


# -- conditions, ranges, events --------------------------------------------------------------------


def rows_are_rewritten_or_checked(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """A wait until every row is read or written, and the results are compared (law 9)."""
    if snapshot.table_is_empty or snapshot.reorg.filled:
        return None
    change = modification_of(job)
    if (
        becomes_numbered(change)
        and kind_of(change.old_type, change.column.type) == ChangeKind.METADATA
    ):
        return None  # only its writers had to know
    copies = tuple(copy_id for _, copy_id in change.changing_idxs)
    changing = change.changing_column_id if change.kind == ChangeKind.ROWS else 0
    by_value = not is_by_arrays(change.old_type, change.column.type)
    table = the_table(snapshot)
    plan = reorg.change_column(
        change.column.id,
        changing,
        copies,
        {index.id for index in table.global_indexes},
        by_value=by_value,
        checks=tuple(check.id for check in coming_checks_on(table, change.column.id)),
        computed=change.computed,
    )
    return StepWait("", plan)


def keys_of_the_column(job: Job, table: TableInfo) -> frozenset[TouchedRule]:
    """The foreign keys on the column, which the statement validated by both definitions."""
    return links_with(table, modification_of(job).column.id)


def table_with_its_keys(job: Job, snapshot: CatalogSnapshot) -> tuple[int, ...]:
    """The table, if a foreign key has the column on either side: marks contain its values."""
    table = the_table(snapshot)
    return (table.id,) if keys_of_the_column(job, table) else ()


def _ranges(job: Job, snapshot: CatalogSnapshot, ids: list[int]) -> tuple[DeleteRange, ...]:
    table = the_table(snapshot)
    return tuple(
        delete_range for index_id in ids for delete_range in ranges_of_index(table, index_id)
    )


def hidden_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All entries of the hidden indexes."""
    return _ranges(job, snapshot, [copy_id for _, copy_id in modification_of(job).changing_idxs])


def hidden_tombstones(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """Tombstones by which removals stopped the backfill of these indexes."""
    return tuple(
        evolve(delete_range, tombstones_only=True) for delete_range in hidden_ranges(job, snapshot)
    )


def old_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All entries of the replaced indexes."""
    replaced = replaced_indexes(the_table(snapshot), modification_of(job))
    return _ranges(job, snapshot, sorted(replaced))


def column_modified(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once the column has its new definition."""
    change = modification_of(job)
    return JobEvent(
        type="modify column",
        table=after.table,
        elements=(change.changing_column_id or change.column.id,),
    )


# -- the four paths --------------------------------------------------------------------------------

_IN_PLACE = Element(_NOUN, follows_rows=False, move=stay)
_HIDDEN = Element(_NOUN, follows_rows=True, move=_walk)
_REFUSES = (
    table_is_missing,
    column_to_change_is_unknown,
    a_partial_index_reads_it,
    rows_could_not_expire,
    ids_have_no_room,
    new_name_is_taken,
    something_is_computed_from_the_old_name,
    undo_data_is_gone,
    column_has_changed_since,
)


def _reads(job: Job) -> ReadSet:
    change = modification_of(job)
    counts = becomes_numbered(change) and job.schema_state == WRITE_REORG
    facts: list[Fact[Any]] = []
    if change.undo_of:
        facts.append(IsRetained(change.undo_of))
    if change.auto_random is not None:
        facts.append(LastId(job.table_id))
    if counts:
        facts.append(GreatestValue(job.table_id, change.column.id))
    return ReadSet(facts=tuple(facts))


def _action(
    element: Element,
    path: tuple[Step, ...],
    undo: Action | None = None,
    post_commit: tuple[Step, ...] = (),
) -> Action:
    return load(
        Action(
            ActionCode.MODIFY_COLUMN,
            element,
            path,
            _REFUSES,
            undo,
            reads=_reads,
            post_commit=post_commit,
        )
    )


def _undo(element: Element, path: tuple[Step, ...]) -> Action:
    return load(Action(ActionCode.MODIFY_COLUMN, element, path))


_AT_ONCE = Step(
    ABSENT,
    PUBLIC,
    edit=_change_in_place,
    event=column_modified,
    causes=(
        retains(former_column),
        ends_retention(undone),
    ),
)
METADATA = _action(_IN_PLACE, (_AT_ONCE,))._replace(crosses_before_others=True)

CHECKED = _action(
    _IN_PLACE,
    (
        Step(ABSENT, WRITE_ONLY, edit=_announce),
        Step(WRITE_ONLY, WRITE_REORG, barrier=True),
        Step(
            WRITE_REORG,
            PUBLIC,
            edit=_change_in_place,
            after=rows_are_rewritten_or_checked,
            event=column_modified,
            causes=(
                retains(former_column),
                ends_retention(undone),
            ),
        ),
    ),
    undo=_undo(_IN_PLACE, (Step(WRITE_REORG, ABSENT, edit=_withdraw),)),
)._replace(crosses_before_others=True)


def _removal(last: Step) -> Action:
    path = (Step(PUBLIC, WRITE_ONLY), Step(WRITE_ONLY, DELETE_ONLY))
    return _undo(_HIDDEN, (*path, Step(DELETE_ONLY, DELETE_REORG), last))


_LEAVE = Step(
    DELETE_ONLY,
    PUBLIC,
    edit=_add_undo_note,
    causes=(
        leaves(old_ranges),
        retains(former_column),
    ),
    event=column_modified,
)


def _rebuilding(removal: Action, tail: tuple[Step, ...]) -> Action:
    return _action(
        _HIDDEN,
        (
            Step(ABSENT, DELETE_ONLY, edit=_place_hidden),
            Step(DELETE_ONLY, WRITE_ONLY),
            Step(WRITE_ONLY, WRITE_REORG),
            Step(
                WRITE_REORG,
                PUBLIC,
                after=rows_are_rewritten_or_checked,
                causes=(
                    leaves(hidden_tombstones),
                    fences(table_with_its_keys),
                    ends_retention(undone),
                ),
            ),
        ),
        undo=removal,
        post_commit=tail,
    )._replace(crosses_before_others=True)


_GOES = (Step(WRITE_ONLY, DELETE_ONLY), _LEAVE)
_BACK = _removal(Step(DELETE_REORG, ABSENT, causes=(leaves(hidden_ranges),)))
INDEXES = _rebuilding(
    _removal(Step(DELETE_REORG, ABSENT, edit=_withdraw, causes=(leaves(hidden_ranges),))), _GOES
)
ROWS = _rebuilding(_BACK, _GOES)
KEPT_ROWS = _rebuilding(_BACK, (_LEAVE._replace(source=WRITE_ONLY),))  # only indexes are removed
BY_KIND = {
    ChangeKind.METADATA: METADATA,
    ChangeKind.CHECKED: CHECKED,
    ChangeKind.INDEXES: INDEXES,
    ChangeKind.ROWS: ROWS,
}


def path_of(job: Job) -> Action:
    """The path for the job's kind."""
    kind = modification_of(job).kind
    is_kept = job.exuvia_undo is not None and kind == ChangeKind.ROWS
    return KEPT_ROWS if is_kept else BY_KIND[kind]


MODIFY_COLUMN = ROWS._replace(
    choose=path_of,
    alterable=True,
    mixes=True,
    fills=True,
    former_name=lambda job: modification_of(job).old_column_name.lower(),
    uses=_uses,
    judges=keys_of_the_column,
    changes_columns=True,
    manner=lambda job: modification_of(job).kind,
    unlogged=lambda job: modification_of(job).kind == ChangeKind.ROWS,
    without_undo=WAS_NOT_KEPT,
)


# -- SET DEFAULT -----------------------------------------------------------------------------------


def column_with_default(job: Job) -> ColumnInfo:
    """The column with its new default."""
    return arguments(job, tuple[ColumnInfo])[0]


def column_is_gone(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    new_column, table = column_with_default(job), the_table(snapshot)
    column = table.column_by_id(new_column.id)
    there = column is not None and column.state == PUBLIC
    return None if there else ErrBadField(new_column.name.O, table.name.O)


def put_default(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Sets the column's default, and the flag for a missing default."""
    new_column, table = column_with_default(job), the_table(snapshot)
    cols = tuple(
        evolve(
            column,
            default=new_column.default,
            default_bit=new_column.default_bit,
            default_is_expr=new_column.default_is_expr,
            type=evolve(column.type, Flag=_with_key_of(new_column, column).type.Flag),
        )
        if column.id == new_column.id
        else column
        for column in table.cols
    )
    return job, evolve(snapshot, table=evolve(table, cols=cols))


SET_DEFAULT = load(
    Action(
        ActionCode.SET_DEFAULT,
        Element("default", follows_rows=False, move=stay),
        refuses=(table_is_missing, column_is_gone),
        path=(Step(ABSENT, PUBLIC, edit=put_default),),
        mixes=True,
        for_new_rows=True,
        uses=_uses_of_default,
        spares_hidden=True,
    )
)

ACTIONS = (MODIFY_COLUMN, SET_DEFAULT)
