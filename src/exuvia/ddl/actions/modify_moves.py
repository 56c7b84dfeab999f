"""What the steps of MODIFY COLUMN do to a table, each a function of values.

    place      _Col$_c_0 behind the others, _Idx$_i_0 for each index that holds c       ROWS
               `exuvia_changing_type` on c, hidden indexes whose keys are of it        INDEXES
    swap       the hidden ones take the names and places of the old; the old ones hide
    announce   writers obey the new type beside the old                                 CHECKED
    change     c is what was asked for, at its place

After the swap the old column is written on (WRITE_ONLY), its indexes only lose entries
(DELETE_ONLY): who reads them has a snapshot from before the swap, in which nobody wrote after it.
A row that is new then has no old value, so an old unique index must not judge it.
"""

from exuvia.base.errors import Refused
from exuvia.base.types import Family
from exuvia.catalog.change import Kind
from exuvia.catalog.change_values import LEFT, LENIENT, NULL_VALUE, OLD_COLUMN
from exuvia.catalog.model import ColumnInfo, IndexColumn, IndexInfo, TableInfo, evolve, name
from exuvia.catalog.state import SchemaState
from exuvia.catalog.table import with_layout
from exuvia.catalog.values import origin_default_of
from exuvia.ddl.actions.modify_arguments import Modification, indexes_with
from exuvia.ddl.elements import reflag, renumber

ABSENT, DELETE_ONLY, WRITE_ONLY, PUBLIC = (
    SchemaState.ABSENT,
    SchemaState.DELETE_ONLY,
    SchemaState.WRITE_ONLY,
    SchemaState.PUBLIC,
)


# -- in place --------------------------------------------------------------------------------------


def change(table: TableInfo, found: Modification) -> TableInfo:
    """The column as asked for, at its place; indexes and keys follow its name."""
    old = table.column_by_id(found.column.id)
    assert old is not None, found.column.id
    new = evolve(
        found.column,
        state=PUBLIC,
        origin_default=old.origin_default,
        origin_default_bit=old.origin_default_bit,
    )
    if not _reads_as_before(new):
        new = evolve(new, origin_default=None, origin_default_bit=None)  # no row has it
    return _settled(_moved(_replaced(table, old.id, new), new.id, found.after), old, new)


def _reads_as_before(column: ColumnInfo) -> bool:
    """Whether the origin default is a value of the type."""
    try:
        origin_default_of(column)
    except Refused:
        return False
    return True


def announce(table: TableInfo, found: Modification) -> TableInfo:
    """Writers obey the new type from now on."""
    return _with_changing_type(table, found.column.id, found)


def withdraw(table: TableInfo, found: Modification) -> TableInfo:
    """They obey the old type alone again."""
    return _with_changing_type(table, found.column.id, None)


def _with_changing_type(table: TableInfo, column_id: int, found: Modification | None) -> TableInfo:
    column = table.column_by_id(column_id)
    assert column is not None, column_id
    wanted = found.column.type if found is not None else None
    return _replaced(table, column_id, evolve(column, exuvia_changing_type=wanted))


def _replaced(table: TableInfo, column_id: int, new: ColumnInfo) -> TableInfo:
    return evolve(table, cols=tuple(new if c.id == column_id else c for c in table.cols))


def _moved(table: TableInfo, column_id: int, after: str | None) -> TableInfo:
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
        evolve(index, idx_cols=tuple(_part(part, new) for part in index.idx_cols))
        for index in table.indexes
    )
    keys = tuple(
        evolve(key, cols=tuple(new.name if c.L == old.name.L else c for c in key.cols))
        for key in table.fk_info or ()
    )
    table = evolve(table, index_info=indexes or None, fk_info=keys or None)
    return with_layout(reflag(renumber(table)))


def _part(part: IndexColumn, new: ColumnInfo) -> IndexColumn:
    if part.exuvia_column != new.id:
        return part
    return evolve(part, name=new.name, length=_prefix(part, new))


def _prefix(part: IndexColumn, new: ColumnInfo) -> int:
    """A prefix as long as the whole column, or longer, is none; nor is there one of a number."""
    if new.type.family not in (Family.STRING, Family.BYTES):
        return -1
    return -1 if 0 <= new.type.Flen <= part.length else part.length


# -- hidden ----------------------------------------------------------------------------------------


def place(table: TableInfo, found: Modification) -> tuple[TableInfo, Modification]:
    """The hidden column and indexes, absent yet, and the arguments with their ids."""
    old = table.column_by_id(found.column.id)
    assert old is not None, found.column.id
    new = old
    if found.kind == Kind.ROWS:
        new = _hidden_column(table, found, old)
        table = evolve(table, cols=(*table.cols, new), max_col_id=new.id)
    else:
        table = announce(table, found)
    first = table.max_idx_id + 1
    replaced = indexes_with(table, old.id)
    copies = tuple(_copy(index, first + n, old, new) for n, index in enumerate(replaced))
    table = evolve(
        table,
        index_info=(*table.indexes, *copies) or None,
        max_idx_id=table.max_idx_id + len(copies),
    )
    pairs = tuple((a.id, b.id) for a, b in zip(replaced, copies, strict=True))
    return table, evolve(found, changing_column_id=new.id, changing_idxs=pairs)


def _hidden_column(table: TableInfo, found: Modification, old: ColumnInfo) -> ColumnInfo:
    said = {"relative_col_offset": old.offset, OLD_COLUMN: old.id}
    if found.null_value is not None:
        said[NULL_VALUE] = found.null_value
    if not found.strict:
        said[LENIENT] = 1
    return evolve(
        found.column,
        id=table.max_col_id + 1,
        name=name(f"_Col$_{old.name.O}_0"),
        offset=len(table.cols),
        state=ABSENT,
        change_state_info=said,
    )


def _copy(index: IndexInfo, index_id: int, old: ColumnInfo, new: ColumnInfo) -> IndexInfo:
    parts = tuple(
        part
        if part.exuvia_column != old.id
        else evolve(
            part,
            name=new.name,
            offset=new.offset,
            exuvia_column=new.id,
            length=_prefix(part, new),
            exuvia_using_changing_type=new.id == old.id,
        )
        for part in index.idx_cols
    )
    hidden = name(f"_Idx$_{index.idx_name.O}_0")
    return evolve(index, id=index_id, idx_name=hidden, idx_cols=parts, state=ABSENT)


def set_hidden(table: TableInfo, found: Modification, state: SchemaState) -> TableInfo:
    """The hidden column and indexes in that state; ABSENT removes them."""
    ids = {hidden for _, hidden in found.changing_idxs}
    column = found.changing_column_id if found.kind == Kind.ROWS else 0
    return _in_state(table, column, ids, state, state)


def swap(table: TableInfo, found: Modification) -> TableInfo:
    """The new column and indexes public under the old names; the old ones hidden."""
    old = table.column_by_id(found.column.id)
    assert old is not None, found.column.id
    table = evolve(table, index_info=_swapped(table, found) or None)
    if found.kind == Kind.INDEXES:
        table = change(table, found)
        new = table.column_by_id(old.id)
        assert new is not None, old.id
        left = evolve(new, exuvia_changing_type=old.type, change_state_info={LEFT: True})
        return _replaced(table, old.id, left)
    new = evolve(found.column, id=found.changing_column_id, state=PUBLIC, offset=old.offset)
    gone = evolve(old, name=name(f"_Tombstone$_{old.name.O}_0"), state=WRITE_ONLY)
    others = [each for each in table.cols if each.id != new.id]
    shown = tuple(new if each.id == old.id else each for each in others)
    table = _moved(evolve(table, cols=(*shown, gone)), new.id, found.after)
    return _settled(table, old, new)


def _swapped(table: TableInfo, found: Modification) -> tuple[IndexInfo, ...]:
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
            original = _keyed_by(index, found.column.id, found.kind == Kind.INDEXES)
            gone.append(evolve(original, idx_name=hidden, state=DELETE_ONLY))
        elif index.id not in copies.values():
            shown.append(index)
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


def drop_old(table: TableInfo, found: Modification, state: SchemaState) -> TableInfo:
    """What was replaced, in that state; ABSENT removes it."""
    ids = replaced_indexes(table, found)
    column = found.column.id if found.kind == Kind.ROWS else 0
    index_state = ABSENT if state == ABSENT else DELETE_ONLY
    if found.kind == Kind.INDEXES and state == ABSENT:
        table = _cleared(table, found.column.id)
    return _in_state(table, column, ids, state, index_state)


def replaced_indexes(table: TableInfo, found: Modification) -> set[int]:
    """Indexes that go: all that hold a column that goes."""
    if found.kind == Kind.ROWS:
        return {index.id for index in indexes_with(table, found.column.id)}
    return {original for original, _ in found.changing_idxs}


def _cleared(table: TableInfo, column_id: int) -> TableInfo:
    column = table.column_by_id(column_id)
    assert column is not None, column_id
    return _replaced(
        table, column_id, evolve(column, exuvia_changing_type=None, change_state_info=None)
    )


def _in_state(
    table: TableInfo, column: int, indexes: set[int], state: SchemaState, index_state: SchemaState
) -> TableInfo:
    cols = tuple(
        evolve(each, state=state) if each.id == column else each
        for each in table.cols
        if each.id != column or state != ABSENT
    )
    kept = tuple(
        evolve(each, state=index_state) if each.id in indexes else each
        for each in table.indexes
        if each.id not in indexes or index_state != ABSENT
    )
    table = evolve(table, cols=cols, index_info=kept or None)
    return with_layout(reflag(renumber(table)))
