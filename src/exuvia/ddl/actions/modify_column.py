"""MODIFY, CHANGE and RENAME COLUMN: one action code, four paths.

catalog/convert/type_change.py chooses:

    METADATA   absent -> public
    CHECKED    absent -> write only -> (barrier) write reorganization =rows read=> public
    INDEXES    absent -> delete only -> write only -> write reorganization =fill, verify=> public
    ROWS       likewise, =rows written, fill, verify=> public
    after the non-revertible point, of the last two: what was replaced goes
               write only -> delete only -> gone

    ALTER COLUMN SET DEFAULT and DROP DEFAULT   absent -> public

CHECKED: from the first step writers obey both types; the barrier step proves that nobody is left
who does not, so the rows read after it are all there is to judge (law 1). ROWS and INDEXES: hidden
elements walk as in ADD INDEX and are swapped with the old in one version. Undo removes them.

    place      _Col$_c_0 behind the others, _Idx$_i_0 for each index that holds c       ROWS
               `exuvia_changing_type` on c, hidden indexes whose keys are of it        INDEXES
    swap       the hidden ones take the names and places of the old; the old ones hide
    announce   writers obey the new type beside the old                                 CHECKED
    change     c is what was asked for, at its place

A CHECK may have another result after the change (catalog/rules.py). Then writers check it with
both meanings, from the step that announces the new type. Afterwards the existing rows are checked.
This applies to CHECKED, INDEXES and ROWS; a METADATA change that touches a CHECK becomes CHECKED.

A foreign key is judged by both definitions when the statement is built. The swap of a column in a
key fences the table, because marks at the parent contain its values.

After the swap the old column is written on (WRITE_ONLY), its indexes only lose entries
(DELETE_ONLY): who reads them has a snapshot from before the swap, in which nobody wrote after it.
A row that is new then has no old value, so an old unique index must not judge it.

Kept for UNDO (exuvia_undo_s), the old column of ROWS is not taken away: it stays hidden, write
only, under a name of its own and without NOT NULL, and `change_state_info` says whose former values
it has (type_change.KEPT_OF). An update carries it on; whoever changes the new column's value, or
inserts a row, leaves NULL in it. So no value is converted back while clients write, and none can be
refused for that. NULL there says nothing: the new column's value, which is NULL where the old one
was, stands for both. The other kinds write no row, and the old definition is all that is kept.

UNDO is a MODIFY back: the old definition, ROWS where a column is kept, and a row's value is the
kept one if there is one, else the present one converted by strict rules. With what was replaced the
kept column goes. When its time is over, it goes as a dropped one does (undo.py).

A STORED column is written anew as ROWS (in mysql mode) where its expression changes, or what that
reads does: then its own MODIFY is behind those, computes over the columns as they will be, and
crosses with them.

Adding AUTO_INCREMENT is a CHECKED change. From the first step on, writers advance the table's
counter to the values of their rows. The last step advances it beyond the greatest existing value.

SET DEFAULT touches no row: they have their values already; those from before the column was added
keep its origin default.
Source: seed 003; TiDB's "modify column".
"""

from collections.abc import Iterator

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
from exuvia.base.types import Family, FieldType, Flag
from exuvia.catalog.autoid import why_no_bits, with_random_bits
from exuvia.catalog.convert.type_change import (
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
from exuvia.ddl.action import Action, Element, ElementUse, Step, load
from exuvia.ddl.actions.shared import (
    WAS_NOT_KEPT,
    computed_from,
    kept_until,
    noted,
    private_name,
    stood_before,
    table_is_missing,
)
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, Kept, ReadSet, StepWait
from exuvia.ddl.elements import (
    index_with_predicate_on,
    ranges_of_index,
    reflag,
    renumber,
    stay,
    the_table,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, raw
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
    """MODIFY or CHANGE COLUMN, or a rename. Names of fields as TiDB's where it has them.

    `column` is as asked for, with the id of the column it changes; `after` is the neighbour's
    name, "" for FIRST, None to stay. `indexed`: an index holds it, or one that the same statement
    adds or drops.
    `auto_random`: shard bits and range bits of AUTO_RANDOM. `together`: ids of the columns that the
    statement changes, if several. `changing_idxs`: (index, its hidden copy). `kept`: the former
    column, recorded by the first step of a job that can be undone. UNDO sets the job that it
    reverts, and the hidden column with the former values. `computed`: of a STORED column, all of
    whose values are computed again. `replaces`: the same statement drops, or renames, the column
    that has the new name."""

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
    """The column under its names, and its neighbour."""
    found = modification_of(job)
    old, new = found.old_column_name.lower(), found.column.name.L
    if old == new:
        yield ElementUse("column", "modify", old)
    else:
        yield ElementUse("column", "add", new)
        yield ElementUse("column", "drop", old)
    if found.after:
        yield ElementUse("column", "place", found.after.lower())


def _uses_of_default(job: Job) -> Iterator[ElementUse]:
    yield ElementUse("column", "modify", column_with_default(job).name.L)


def changes_values(job: Job) -> bool:
    """Whether it is a MODIFY, CHANGE or rename under which writers obey another type."""
    if job.type != ActionCode.MODIFY_COLUMN:
        return False
    return modification_of(job).kind != ChangeKind.METADATA


def with_modification(job: Job, found: Modification) -> Job:
    """The job with other arguments."""
    return evolve(job, raw_args=raw((found,)))


def modify_column(
    database: DatabaseInfo, table: TableInfo, found: Modification, *, query: str = ""
) -> Job:
    """MODIFY, CHANGE and RENAME COLUMN; `found.kind` says how (catalog/convert/type_change.py)."""
    job = job_for(ActionCode.MODIFY_COLUMN, database, table, (found,), query)
    return job if found.kind == ChangeKind.METADATA else evolve(job, reorg_meta={})


def set_default(
    database: DatabaseInfo, table: TableInfo, column: ColumnInfo, *, query: str = ""
) -> Job:
    """ALTER COLUMN SET DEFAULT and DROP DEFAULT: the column with the default it is to have."""
    return job_for(ActionCode.SET_DEFAULT, database, table, (column,), query)


def indexes_with(table: TableInfo, column_id: int) -> tuple[IndexInfo, ...]:
    """The indexes that hold the column."""
    return tuple(
        index
        for index in table.indexes
        if any(part.exuvia_column == column_id for part in index.idx_cols)
    )


def without_keys(field: FieldType) -> FieldType:
    """A type without the flags that follow from the table's indexes."""
    return evolve(field, Flag=field.Flag & ~_KEY_FLAGS)


def becomes_numbered(found: Modification) -> bool:
    """Whether the column gets AUTO_INCREMENT."""
    return found.column.auto_increment and not found.old_type.auto_increment


def is_still_meant(found: Modification, table: TableInfo, column: ColumnInfo) -> bool:
    """Whether the kind chosen when the statement was read is the one the table calls for now."""
    if without_keys(column.type) != without_keys(found.old_type):
        return False
    if found.kept_column or found.computed:
        return found.kind == ChangeKind.ROWS
    indexed = found.indexed or bool(indexes_with(table, column.id))
    kind = kind_of(column.type, found.column.type, indexed, found.strict)
    if kind == ChangeKind.PRECHECKED:
        return found.kind in (ChangeKind.CHECKED, ChangeKind.ROWS)
    if kind == ChangeKind.METADATA:
        return found.kind in (ChangeKind.METADATA, ChangeKind.CHECKED)
    return kind == found.kind


# -- in place --------------------------------------------------------------------------------------


def changed(table: TableInfo, found: Modification) -> TableInfo:
    """The column as asked for, at its place; indexes and keys follow its name."""
    old = table.column_by_id(found.column.id)
    assert old is not None, found.column.id
    new = evolve(
        _with_key_of(found.column, old),
        state=PUBLIC,
        origin_default=old.origin_default,
        origin_default_bit=old.origin_default_bit,
    )
    if not _reads_as_before(new):
        new = evolve(new, origin_default=None, origin_default_bit=None)  # no row has it
    table = _at_its_place(_with_column(table, old.id, new), new.id, found.after)
    return with_random_bits(_settled(table, old, new), found.auto_random)


def _with_key_of(column: ColumnInfo, current: ColumnInfo) -> ColumnInfo:
    """The column, in the keys that it is in now: the same statement may have changed them."""
    flags = int(column.type.Flag & ~_KEY_FLAGS | current.type.Flag & _KEY_FLAGS)
    return evolve(column, type=evolve(column.type, Flag=flags))


def _reads_as_before(column: ColumnInfo) -> bool:
    """Whether the origin default is a value of the type."""
    try:
        origin_default_of(column)
    except Refused:
        return False
    return True


def with_announced_type(table: TableInfo, found: Modification) -> TableInfo:
    """Writers obey the new type from now on."""
    return _with_changing_type(table, found.column.id, found)


def without_announced_type(table: TableInfo, found: Modification) -> TableInfo:
    """They obey the old type alone again."""
    return _with_changing_type(table, found.column.id, None)


def _with_changing_type(table: TableInfo, column_id: int, found: Modification | None) -> TableInfo:
    column = table.column_by_id(column_id)
    assert column is not None, column_id
    if found is None:
        bare = evolve(column, exuvia_changing_type=None, change_state_info=None)
        return _with_column(table, column_id, bare)
    said = _said_of_several(found)
    new = found.column
    if new.is_generated and new.generated_expr_string != column.generated_expr_string:
        said[EXPRESSION] = {"text": new.generated_expr_string, "reads": list(new.dependences or ())}
    announced = evolve(column, exuvia_changing_type=new.type, change_state_info=said or None)
    return _with_column(table, column_id, announced)


def _said_of_several(found: Modification) -> dict[str, object]:
    return {TOGETHER: list(found.together)} if len(found.together) > 1 else {}


def _with_column(table: TableInfo, column_id: int, new: ColumnInfo) -> TableInfo:
    return evolve(table, cols=tuple(new if c.id == column_id else c for c in table.cols))


def _at_its_place(table: TableInfo, column_id: int, after: str | None) -> TableInfo:
    """The column at its place among the public ones; None: where it is."""
    if after is None:
        return table
    moving = next(c for c in table.cols if c.id == column_id)
    others = [c for c in table.cols if c.id != column_id]
    at = 0
    if after:
        at = next((n + 1 for n, c in enumerate(others) if c.name.L == after.lower()), len(others))
    return evolve(table, cols=(*others[:at], moving, *others[at:]))


def _settled(table: TableInfo, old: ColumnInfo, new: ColumnInfo) -> TableInfo:
    """What else bears the column's name or follows from its type."""
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
        evolve(each, columns=tuple(new.id if n == old.id else n for n in each.columns))
        for each in table.exuvia_referred
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
    """A prefix as long as the whole column, or longer, is none; nor is there one of a number."""
    if new.type.family not in (Family.STRING, Family.BYTES):
        return -1
    return -1 if 0 <= new.type.Flen <= part.length else part.length


# -- hidden ----------------------------------------------------------------------------------------


def with_hidden_elements(table: TableInfo, found: Modification) -> tuple[TableInfo, Modification]:
    """The hidden column and indexes, absent yet, and the arguments with their ids."""
    old = table.column_by_id(found.column.id)
    assert old is not None, found.column.id
    new = old
    if found.kind == ChangeKind.ROWS:
        said: dict[str, object] = {"relative_col_offset": old.offset, OLD_COLUMN: old.id}
        said |= _said_of_several(found)
        if found.null_value is not None:
            said[NULL_VALUE] = found.null_value
        if not found.strict:
            said[LENIENT] = 1
        if found.moments != PLAIN_MOMENTS:
            said[MOMENTS] = msgspec.to_builtins(found.moments)
        if found.kept_column:
            said[KEPT] = found.kept_column
        if found.computed:
            said[COMPUTED] = True
        new = evolve(
            found.column,
            id=table.max_col_id + 1,
            name=name(f"_Col$_{old.name.O}_0"),
            offset=len(table.cols),
            state=ABSENT,
            change_state_info=said,
        )
        table = evolve(table, cols=(*table.cols, new), max_col_id=new.id)
    else:
        table = with_announced_type(table, found)
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
    return table, evolve(found, changing_column_id=new.id, changing_idxs=pairs)


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
    hidden = name(f"_Idx$_{index.idx_name.O}_0")
    return evolve(index, id=index_id, idx_name=hidden, idx_cols=parts, state=ABSENT)


def hidden_in_state(table: TableInfo, found: Modification, state: SchemaState) -> TableInfo:
    """The hidden column and indexes in that state; ABSENT removes them."""
    ids = {hidden for _, hidden in found.changing_idxs}
    columns = {found.changing_column_id} if found.kind == ChangeKind.ROWS else set()
    return _in_state(table, columns, ids, state, state)


def swapped(table: TableInfo, found: Modification, kept_as: str = "") -> TableInfo:
    """The new column and indexes public under the old names; the old ones hidden. `kept_as`: the
    name that the old column has while it is kept for UNDO."""
    old = table.column_by_id(found.column.id)
    assert old is not None, found.column.id
    table = evolve(table, index_info=_swapped_indexes(table, found) or None)
    if found.kind == ChangeKind.INDEXES:
        table = changed(table, found)
        new = table.column_by_id(old.id)
        assert new is not None, old.id
        left = evolve(new, exuvia_changing_type=old.type, change_state_info={LEFT: True})
        return _with_column(table, old.id, left)
    new = evolve(found.column, id=found.changing_column_id, state=PUBLIC, offset=old.offset)
    filled = table.column_by_id(new.id)
    assert filled is not None, new.id
    new = _with_key_of(new, filled)
    gone = evolve(old, name=name(f"_Tombstone$_{old.name.O}_0"), state=WRITE_ONLY)
    if old.is_generated and not old.is_virtual:  # kept as it is: what it read is another column
        gone = evolve(gone, generated_expr_string="", generated_stored=False, dependences=None)
    if kept_as:
        gone = _with_former_values(gone, new.id, kept_as)
    others = [each for each in table.cols if each.id != new.id]
    shown = tuple(new if each.id == old.id else each for each in others)
    table = _at_its_place(evolve(table, cols=(*shown, gone)), new.id, found.after)
    return _settled(table, old, new)


def _with_former_values(old: ColumnInfo, of: int, kept_as: str) -> ColumnInfo:
    """A column whose values that one had: NULL in rows that are new or in which it was changed."""
    flags = old.type.Flag & ~int(Flag.NOT_NULL | Flag.ON_UPDATE_NOW) & ~_KEY_FLAGS
    return evolve(
        old,
        name=name(kept_as),
        type=evolve(old.type, Flag=flags),
        default=None,
        default_bit=None,
        default_is_expr=False,
        origin_default=None,
        origin_default_bit=None,
        change_state_info={KEPT_OF: of},
    )


def _swapped_indexes(table: TableInfo, found: Modification) -> tuple[IndexInfo, ...]:
    """Copies stand where their originals stood; those are behind the others.

    Where one statement changes two columns of an index, the second finds the first's copy in its
    place; what it copied of the original goes with it."""
    by_id = {index.id: index for index in table.indexes}
    copies = dict(found.changing_idxs)
    shown, gone = [], []
    for index in table.indexes:
        if index.id in copies and index.state != PUBLIC:
            gone += [index, evolve(by_id[copies[index.id]], state=DELETE_ONLY)]
        elif index.id in copies:
            copy = _keyed_by(by_id[copies[index.id]], found.column.id, False)
            shown.append(evolve(copy, idx_name=index.idx_name, state=PUBLIC))
            hidden = name(f"_Tombstone$_{index.idx_name.O}_0")
            original = _keyed_by(index, found.column.id, found.kind == ChangeKind.INDEXES)
            gone.append(evolve(original, idx_name=hidden, state=DELETE_ONLY))
        elif index.id not in copies.values():
            shown.append(_keyed_by(index, found.column.id, False))  # it came with the change
    return (*shown, *gone)


def _keyed_by(index: IndexInfo, column_id: int, changing: bool) -> IndexInfo:
    """The index with its keys of the column's `exuvia_changing_type`, or of its type."""
    parts = tuple(
        evolve(part, exuvia_using_changing_type=changing)
        if part.exuvia_column == column_id
        else part
        for part in index.idx_cols
    )
    return evolve(index, idx_cols=parts)


def replaced_in_state(
    table: TableInfo, found: Modification, state: SchemaState, is_kept: bool = False
) -> TableInfo:
    """What was replaced, in that state; ABSENT removes it. `is_kept`: but for the column."""
    ids = replaced_indexes(table, found)
    is_rewritten = found.kind == ChangeKind.ROWS and not is_kept
    columns = {found.column.id, found.kept_column} if is_rewritten else set()
    index_state = ABSENT if state == ABSENT else DELETE_ONLY
    if found.kind == ChangeKind.INDEXES and state == ABSENT:
        changed = table.column_by_id(found.column.id)
        assert changed is not None, found.column.id
        cleared = evolve(changed, exuvia_changing_type=None, change_state_info=None)
        table = _with_column(table, changed.id, cleared)
    return _in_state(table, columns, ids, state, index_state)


def replaced_indexes(table: TableInfo, found: Modification) -> set[int]:
    """Ids of the indexes to remove: those with a removed column, otherwise those that were copied.

    Includes a copy that another change of the same statement has replaced. Excludes indexes that
    the other change has removed already."""
    if found.kind == ChangeKind.ROWS:
        return {index.id for index in indexes_with(table, found.column.id)}
    ids = {each for pair in found.changing_idxs for each in pair}
    return {index.id for index in table.indexes if index.id in ids and index.state != PUBLIC}


def _in_state(
    table: TableInfo,
    columns: set[int],
    indexes: set[int],
    state: SchemaState,
    index_state: SchemaState,
) -> TableInfo:
    cols = tuple(
        evolve(each, state=state) if each.id in columns else each
        for each in table.cols
        if each.id not in columns or state != ABSENT
    )
    kept = tuple(
        evolve(each, state=index_state) if each.id in indexes else each
        for each in table.indexes
        if each.id not in indexes or index_state != ABSENT
    )
    table = evolve(table, cols=cols, index_info=kept or None)
    return with_layout(reflag(renumber(table)))


_NOUN = "column that changes"


# -- refusals --------------------------------------------------------------------------------------


def column_to_change_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1054, also for the neighbour it is to stand behind."""
    found, table = modification_of(job), the_table(snapshot)
    column = table.column_by_id(found.column.id)
    if column is None or column.state != PUBLIC:
        return ErrBadField(found.old_column_name, table.name.O)
    if found.after and table.column(found.after) is None:
        return ErrBadField(found.after, table.name.O)
    return None


def a_partial_index_looks_at_it(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8272, but for a new name: the predicate follows it."""
    found, table = modification_of(job), the_table(snapshot)
    column, index = (
        table.column_by_id(found.column.id),
        index_with_predicate_on(table, found.column.id),
    )
    if column is None or index is None:
        return None
    if without_keys(column.type) == without_keys(found.column.type):
        return None
    return ErrModifyColumnReferencedByPartialCondition(column.name.O, index.idx_name.O)


def rows_could_not_expire(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8148: its new type is none that says when."""
    found, table = modification_of(job), the_table(snapshot)
    column = column_of(table)
    if column is None or column.id != found.column.id or found.column.type.Tp in FITTING:
        return None
    return ErrUnsupportedColumnInTTLConfig(column.name.O)


def ids_have_no_room(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8216: numbers that were given do not fit into the bits that AUTO_RANDOM leaves them."""
    found, table = modification_of(job), the_table(snapshot)
    if found.auto_random is None:
        return None
    return why_no_bits(table, found.column, found.auto_random, snapshot.last_id)


def new_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    found = modification_of(job)
    held = None if found.replaces else the_table(snapshot).column(found.column.name.L)
    taken = held is not None and held.id != found.column.id
    return ErrDupFieldName(found.column.name.O) if taken else None


def something_is_computed_from_the_old_name(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """3108, 3837: an expression names a column that is to be renamed."""
    modification, table = modification_of(job), the_table(snapshot)
    column = table.column_by_id(modification.column.id)
    if column is None or column.name.L == modification.column.name.L:
        return None
    found = computed_from(table, column.name.L)
    if not found:
        return None
    kind = ErrDependentByFunctionalIndex if found[0].hidden else ErrDependentByGeneratedColumn
    return kind(column.name.O)


def column_has_changed_since(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1412: another job changed it, or its indexes, since the statement chose what to do."""
    found, table = modification_of(job), the_table(snapshot)
    column = table.column_by_id(found.column.id)
    meant = column is not None and is_still_meant(found, table, column)
    return None if meant else ErrTableDefChanged()


def nothing_is_kept_of_it(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1105, of an UNDO: the window has ended, or it was taken back before."""
    found, table = modification_of(job), the_table(snapshot)
    if not found.undo_of:
        return None
    hidden = table.column_by_id(found.kept_column) if found.kept_column else None
    there = not found.kept_column or (hidden is not None and hidden.state == WRITE_ONLY)
    if snapshot.is_kept and there:
        return None
    said = f"ddl job {found.undo_of} cannot be undone: nothing of it is kept any more"
    return ErrUnknown(said)


# -- what the steps do -----------------------------------------------------------------------------


def _change_in_place(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    job = _remembering(job, snapshot)
    found = modification_of(job)
    table = changed(without_announced_type(the_table(snapshot), found), found)
    if becomes_numbered(found):  # the counter continues after all rows and never decreases
        following, epoch = snapshot.greatest + 1, table.exuvia_ids_epoch + 1
        table = evolve(
            table, auto_inc_id=following, exuvia_ids_epoch=epoch, exuvia_ids_forced=False
        )
    return _noted(job, snapshot), evolve(snapshot, table=table)


def _announce(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    return _remembering(job, snapshot), evolve(
        snapshot, table=with_announced_type(the_table(snapshot), modification_of(job))
    )


def _withdraw(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    return job, evolve(
        snapshot, table=without_announced_type(the_table(snapshot), modification_of(job))
    )


def _place_hidden(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    job = _remembering(job, snapshot)
    table, found = with_hidden_elements(the_table(snapshot), modification_of(job))
    return with_modification(job, found), evolve(snapshot, table=table)


def _walk(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """Hidden elements up to the swap; behind it what was replaced, down."""
    found, table = modification_of(job), the_table(snapshot)
    if job.exuvia_tail:
        target = ABSENT if state == PUBLIC else state
        is_kept = job.exuvia_undo is not None
        return evolve(snapshot, table=replaced_in_state(table, found, target, is_kept))
    if state == PUBLIC:
        kept_as = private_name(job, found.column.id) if job.exuvia_undo is not None else ""
        return evolve(snapshot, table=swapped(table, found, kept_as))
    return evolve(snapshot, table=hidden_in_state(table, found, state))


# -- kept for UNDO ---------------------------------------------------------------------------------


def _remembering(job: Job, snapshot: CatalogSnapshot) -> Job:
    """A job that is kept, with what the column is before it."""
    found, table = modification_of(job), the_table(snapshot)
    old = table.column_by_id(found.column.id)
    if job.exuvia_undo is None or found.kept is not None or old is None:
        return job
    kept = Kept(
        job_id=job.id,
        kind="modify",
        table_id=table.id,
        until=0,
        name=old.name.O,
        elements=(old.id,) if found.kind == ChangeKind.ROWS else (),
        before=tuple(each.id for each in stood_before(table, old)),
        before_names=tuple(each.name.L for each in stood_before(table, old)),
        former=old,
        moved=found.after is not None,
    )
    return with_modification(job, evolve(found, kept=kept))


def _noted(job: Job, snapshot: CatalogSnapshot) -> Job:
    return job if job.exuvia_undo is None else noted(job, snapshot)


def _note(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    return _noted(job, snapshot), snapshot


def former_column(job: Job, before: CatalogSnapshot) -> tuple[Kept, ...]:
    """The record of a MODIFY that is kept."""
    found = modification_of(job)
    if job.exuvia_undo is None or found.kept is None:
        return ()
    new = evolve(found.column, id=found.changing_column_id or found.column.id)
    return (evolve(found.kept, until=kept_until(job, before), changed=new),)


def back_to(
    table: TableInfo,
    kept: Kept,
    current: ColumnInfo,
    new_name: str,
    moments: Moments = PLAIN_MOMENTS,
) -> Modification:
    """What UNDO asks: the column as it was, under that name."""
    former = kept.former
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
    if kept.moved:
        others = [each for each in table.public_columns if each.id != current.id]
        neighbour = kept.neighbour(others)
        place = "" if neighbour is None else neighbour.name.O
    return Modification(
        column=column,
        old_column_name=current.name.O,
        old_type=current.type,
        kind=ChangeKind.ROWS if kept.elements else kind_of(current.type, column.type, indexed),
        moments=moments.of(current.type, column.type),
        after=place,
        undo_of=kept.job_id,
        kept_column=kept.elements[0] if kept.elements else 0,
    )


def undone(job: Job) -> int:
    """The job that an UNDO takes back, else 0."""
    return modification_of(job).undo_of


# -- conditions, remains, events -------------------------------------------------------------------


def rows_are_rewritten_or_checked(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """Every row has been read, or written, and what was made of them compared (law 9)."""
    if snapshot.failure is not None:
        return snapshot.failure
    if snapshot.table_is_empty or snapshot.filled:
        return None
    found = modification_of(job)
    if (
        becomes_numbered(found)
        and kind_of(found.old_type, found.column.type) == ChangeKind.METADATA
    ):
        return None  # only its writers had to know
    hidden = tuple(index for _, index in found.changing_idxs)
    changing = found.changing_column_id if found.kind == ChangeKind.ROWS else 0
    by_value = not is_by_arrays(found.old_type, found.column.type)
    table = the_table(snapshot)
    plan = reorg.change_column(
        found.column.id,
        changing,
        hidden,
        {index.id for index in table.global_indexes},
        by_value=by_value,
        checks=tuple(each.id for each in coming_checks_on(table, found.column.id)),
        computed=found.computed,
    )
    return StepWait("", plan)


def keys_of_the_column(job: Job, table: TableInfo) -> frozenset[TouchedRule]:
    """The foreign keys on the column, which the statement judged by both definitions."""
    return links_with(table, modification_of(job).column.id)


def table_with_its_keys(job: Job, snapshot: CatalogSnapshot) -> tuple[int, ...]:
    """The table, if a foreign key has the column at either end: marks are made of its values."""
    table = the_table(snapshot)
    return (table.id,) if keys_of_the_column(job, table) else ()


def _ranges(job: Job, snapshot: CatalogSnapshot, ids: list[int]) -> tuple[DeleteRange, ...]:
    table = the_table(snapshot)
    return tuple(found for each in ids for found in ranges_of_index(table, each))


def hidden_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All entries of the hidden indexes."""
    return _ranges(job, snapshot, [hidden for _, hidden in modification_of(job).changing_idxs])


def hidden_tombstones(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """What removals left in them to stop the fill."""
    return tuple(evolve(each, tombstones_only=True) for each in hidden_ranges(job, snapshot))


def old_ranges(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """All entries of the indexes that were replaced."""
    replaced = replaced_indexes(the_table(snapshot), modification_of(job))
    return _ranges(job, snapshot, sorted(replaced))


def column_modified(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The column is what was asked for."""
    found = modification_of(job)
    return JobEvent(
        type="modify column",
        table=after.table,
        elements=(found.changing_column_id or found.column.id,),
    )


# -- the four paths --------------------------------------------------------------------------------

_IN_PLACE = Element(_NOUN, follows_rows=False, move=stay)
_HIDDEN = Element(_NOUN, follows_rows=True, move=_walk)
_REFUSES = (
    table_is_missing,
    column_to_change_is_unknown,
    a_partial_index_looks_at_it,
    rows_could_not_expire,
    ids_have_no_room,
    new_name_is_taken,
    something_is_computed_from_the_old_name,
    nothing_is_kept_of_it,
    column_has_changed_since,
)
_LABEL = "modify column"


def _reads(job: Job) -> ReadSet:
    found = modification_of(job)
    counts = becomes_numbered(found) and job.schema_state == WRITE_REORG
    return ReadSet(
        undo_of=undone(job),
        last_id=found.auto_random is not None,
        greatest_of=found.column.id if counts else 0,
    )


def _action(
    element: Element,
    path: tuple[Step, ...],
    undo: Action | None = None,
    post_commit: tuple[Step, ...] = (),
) -> Action:
    return load(
        Action(
            _LABEL,
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
    return load(Action("undo of modify column", ActionCode.MODIFY_COLUMN, element, path))


_AT_ONCE = Step(
    ABSENT,
    PUBLIC,
    edit=_change_in_place,
    event=column_modified,
    keeps=former_column,
    ends_undo_of=undone,
)
METADATA = _action(_IN_PLACE, (_AT_ONCE,))._replace(crosses_first=True)

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
            keeps=former_column,
            ends_undo_of=undone,
        ),
    ),
    undo=_undo(_IN_PLACE, (Step(WRITE_REORG, ABSENT, edit=_withdraw),)),
)._replace(crosses_first=True)


def _removal(last: Step) -> Action:
    path = (Step(PUBLIC, WRITE_ONLY), Step(WRITE_ONLY, DELETE_ONLY))
    return _undo(_HIDDEN, (*path, Step(DELETE_ONLY, DELETE_REORG), last))


_LEAVE = Step(
    DELETE_ONLY,
    PUBLIC,
    edit=_note,
    leaves=old_ranges,
    event=column_modified,
    keeps=former_column,
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
                leaves=hidden_tombstones,
                fences_tables=table_with_its_keys,
                ends_undo_of=undone,
            ),
        ),
        undo=removal,
        post_commit=tail,
    )._replace(crosses_first=True)


_GOES = (Step(WRITE_ONLY, DELETE_ONLY), _LEAVE)
_BACK = _removal(Step(DELETE_REORG, ABSENT, leaves=hidden_ranges))
INDEXES = _rebuilding(
    _removal(Step(DELETE_REORG, ABSENT, edit=_withdraw, leaves=hidden_ranges)), _GOES
)
ROWS = _rebuilding(_BACK, _GOES)
KEPT_ROWS = _rebuilding(_BACK, (_LEAVE._replace(source=WRITE_ONLY),))  # only indexes go

BY_KIND = {
    ChangeKind.METADATA: METADATA,
    ChangeKind.CHECKED: CHECKED,
    ChangeKind.INDEXES: INDEXES,
    ChangeKind.ROWS: ROWS,
}


def path_of(job: Job) -> Action:
    """The path that the job's kind calls for."""
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
    without_undo=WAS_NOT_KEPT,
)


# -- SET DEFAULT -----------------------------------------------------------------------------------


def column_with_default(job: Job) -> ColumnInfo:
    """The column with the default asked for."""
    return arguments(job, tuple[ColumnInfo])[0]


def column_is_gone(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    wanted, table = column_with_default(job), the_table(snapshot)
    column = table.column_by_id(wanted.id)
    there = column is not None and column.state == PUBLIC
    return None if there else ErrBadField(wanted.name.O, table.name.O)


def put_default(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The column's default, and the flag that says it has none."""
    wanted, table = column_with_default(job), the_table(snapshot)
    cols = tuple(
        evolve(
            each,
            default=wanted.default,
            default_bit=wanted.default_bit,
            default_is_expr=wanted.default_is_expr,
            type=evolve(each.type, Flag=_with_key_of(wanted, each).type.Flag),
        )
        if each.id == wanted.id
        else each
        for each in table.cols
    )
    return job, evolve(snapshot, table=evolve(table, cols=cols))


SET_DEFAULT = load(
    Action(
        "set default value",
        ActionCode.SET_DEFAULT,
        Element("default", follows_rows=False, move=stay),
        refuses=(table_is_missing, column_is_gone),
        path=(Step(ABSENT, PUBLIC, edit=put_default),),
        mixes=True,
        uses=_uses_of_default,
    )
)

ACTIONS = (MODIFY_COLUMN, SET_DEFAULT)
