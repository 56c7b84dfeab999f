"""Rules of a table whose answer for a row may differ once columns of the table have changed.

    before, after --rules_touched--> CHECKs and foreign keys

A rule's result depends on the *meaning* of the columns that it reads: their type, collation, and
members in order. The meaning of a generated column also includes its expression, and the meanings
of the columns in it. A wider integer, a longer text and a new member at the end of an ENUM keep the
meaning. A rewrite that may adjust values (not strict, or to CHAR) does not keep it, even if the
types have the same meaning. A foreign key also depends on NOT NULL, if one of its actions is SET
NULL.

The state machine compares the table before and after every step (ddl/state_machine.py). A job that
touches a rule must judge it: by the rows (CHECK), or by both definitions (foreign key).

While columns change, `coming_columns` are the future columns. First writers check new rows against
a touched CHECK with both the present and the future columns (sql/write/checks.py). Then the
existing rows are read (law 1).

If a statement changes several columns, a CHECK that reads two of them is judged when both have
begun to change.
"""

from collections.abc import Mapping
from typing import NamedTuple

from exuvia.base.types import INTEGER_BITS, STRINGS, Family, FieldType, Flag, TypeCode
from exuvia.catalog.convert.type_change import (
    EXPRESSION,
    LEFT,
    OLD_COLUMN,
    TOGETHER,
    ChangeKind,
    kind_of,
)
from exuvia.catalog.model import (
    DUTIES,
    ColumnInfo,
    ConstraintInfo,
    FkInfo,
    ReferOption,
    SchemaState,
    TableInfo,
    evolve,
    name,
)

CHECK, FOREIGN_KEY = "check", "foreign key"
_NAMED = (TypeCode.ENUM, TypeCode.SET)
_CHILD, _PARENT = "child", "parent"


class TouchedRule(NamedTuple):
    """A CHECK by its id, or a foreign key by its link."""

    kind: str
    element: int


def rules_touched(before: TableInfo | None, after: TableInfo | None) -> frozenset[TouchedRule]:
    """The rules of both definitions whose result for a row may differ between them."""
    if before is None or after is None or before.cols == after.cols:
        return frozenset()
    old, new = _public(before), _public(after)
    checks = {check.id: check for check in after.checks if check.binds}
    touched = {
        TouchedRule(CHECK, check.id)
        for check in before.checks
        if check.binds and check.id in checks and _is_touched(check, old, new)
    }
    keys, theirs = _ends(before), _ends(after)
    for end in keys.keys() & theirs.keys():
        if any(map(_end_differs, keys[end], theirs[end])):
            touched.add(TouchedRule(FOREIGN_KEY, end[1]))
    return frozenset(touched)


def _public(table: TableInfo) -> dict[str, ColumnInfo]:
    return {column.name.L: column for column in table.cols if column.state == SchemaState.PUBLIC}


def _is_touched(
    check: ConstraintInfo, old: Mapping[str, ColumnInfo], new: Mapping[str, ColumnInfo]
) -> bool:
    return any(
        column.L in old and column.L in new and differs(column.L, old, new)
        for column in check.constraint_cols
    )


def differs(column: str, old: Mapping[str, ColumnInfo], new: Mapping[str, ColumnInfo]) -> bool:
    """Whether a value of that column may change its meaning; columns by name, in lower case."""
    mine, theirs = old[column], new[column]
    keeps_values = mine.is_generated and not mine.is_virtual and not theirs.is_generated
    if mine.generated_expr_string != theirs.generated_expr_string and not keeps_values:
        return True
    if not is_same_meaning(mine.type, theirs.type) or _may_be_adjusted(mine, theirs):
        return True
    reads = mine.dependences or {} if mine.is_generated and not keeps_values else {}
    return any(
        read_column in old
        and read_column in new
        and read_column != column
        and differs(read_column, old, new)
        for read_column in map(str.lower, reads)
    )


def _may_be_adjusted(mine: ColumnInfo, theirs: ColumnInfo) -> bool:
    """Whether the column is rewritten and the new type does not have all values of the old one.

    Without a strict sql_mode 1000 becomes 127, 'abc' becomes 'ab' and NULL becomes 0. CHAR loses
    spaces at the end in every mode."""
    return mine.id != theirs.id and kind_of(mine.type, theirs.type) != ChangeKind.METADATA


def is_same_meaning(old: FieldType, new: FieldType) -> bool:
    """Whether every value that both types have is read, compared and printed the same way."""
    if (old.Charset, old.Collate, old.unsigned) != (new.Charset, new.Collate, new.unsigned):
        return False
    filled = (old.Flag | new.Flag) & Flag.ZEROFILL
    if old.Tp in INTEGER_BITS and new.Tp in INTEGER_BITS:
        return not filled or (old.Flag & Flag.ZEROFILL, old.Flen) == (
            new.Flag & Flag.ZEROFILL,
            new.Flen,
        )
    if old.Tp in STRINGS and new.Tp in STRINGS and old.family == new.family:
        is_padded = old.family == Family.BYTES and TypeCode.STRING in (old.Tp, new.Tp)
        return not is_padded or (old.Tp, old.Flen) == (new.Tp, new.Flen)
    if old.Tp != new.Tp:
        return False
    if old.Tp in _NAMED:
        old_count = len(old.Elems or ())
        return (new.Elems or ())[:old_count] == (old.Elems or ())
    return (old.Flen, old.Decimal, bool(filled)) == (new.Flen, new.Decimal, bool(filled))


# -- foreign keys ----------------------------------------------------------------------------------


class _Part(NamedTuple):
    """A column at one end of a foreign key; `may_be_null`: an action of the key writes NULL."""

    type: FieldType
    may_be_null: bool


def _ends(table: TableInfo) -> dict[tuple[str, int], list[_Part]]:
    """The columns of each foreign key that has this table at that end, by its link."""
    types = {element.id: element.type for element in table.cols}
    ends = {
        (_CHILD, key.exuvia_link): [
            _Part(types[n], sets_null(key)) for n in key.exuvia_cols if n in types
        ]
        for key in table.foreign_keys
        if key.binds
    }
    for element in table.exuvia_referred:
        ends[_PARENT, element.link] = [
            _Part(types[n], False) for n in element.columns if n in types
        ]
    return ends


def _end_differs(old: _Part, new: _Part) -> bool:
    refuses_null = new.may_be_null and new.type.not_null and not old.type.not_null
    return refuses_null or not is_same_meaning(old.type, new.type)


def is_comparable(one: FieldType, other: FieldType) -> bool:
    """Whether a foreign key can compare values of these types.

    If not, the key has no parent; such a parent is refused (3780) even with foreign_key_checks
    OFF."""
    numbers = (Family.INT, Family.UINT)
    return one.family == other.family or (one.family in numbers and other.family in numbers)


def sets_null(key: FkInfo) -> bool:
    """Whether one of the key's actions is SET NULL."""
    return ReferOption.SET_NULL in (key.on_delete, key.on_update)


def links_with(table: TableInfo, column_id: int) -> frozenset[TouchedRule]:
    """The foreign keys that have that column at either end."""
    own = (key.exuvia_link for key in table.foreign_keys if column_id in key.exuvia_cols)
    others = (
        reference.link for reference in table.exuvia_referred if column_id in reference.columns
    )
    return frozenset(TouchedRule(FOREIGN_KEY, link) for link in (*own, *others))


def all_links(table: TableInfo) -> frozenset[TouchedRule]:
    """The foreign keys that have the table at either end."""
    own = (key.exuvia_link for key in table.foreign_keys)
    others = (reference.link for reference in table.exuvia_referred)
    return frozenset(TouchedRule(FOREIGN_KEY, link) for link in (*own, *others))


# -- while columns change --------------------------------------------------------------------------


def coming_columns(table: TableInfo, *, also_hidden: bool = False) -> tuple[ColumnInfo, ...]:
    """The columns, at their positions, after every change that writers already carry out.

    `also_hidden`: also after changes that they do not carry out yet. Returns `table.cols` itself if
    no column changes."""
    replaced: dict[int, ColumnInfo] = {}
    for column in table.cols:
        change = column.change_state_info or {}
        if column.exuvia_changing_type is not None and LEFT not in change:
            replaced[column.id] = _announced(column)
        elif OLD_COLUMN in change and (also_hidden or DUTIES[column.state].adds):
            old = next(
                column_info for column_info in table.cols if column_info.id == change[OLD_COLUMN]
            )
            replaced[column.id] = evolve(column, name=old.name, state=SchemaState.PUBLIC)
            tombstone = name(f"_Tombstone$_{old.name.O}_0")
            replaced[old.id] = evolve(old, name=tombstone, state=SchemaState.WRITE_ONLY)
    if not replaced:
        return table.cols
    return tuple(replaced.get(column_info.id, column_info) for column_info in table.cols)


def _announced(column: ColumnInfo) -> ColumnInfo:
    """The column with its future type and expression."""
    expression = (column.change_state_info or {}).get(EXPRESSION)
    coming = evolve(column, type=column.exuvia_changing_type)
    if not isinstance(expression, dict):
        return coming
    text, reads = expression["text"], expression["reads"]
    return evolve(coming, generated_expr_string=text, dependences={key: {} for key in reads})


def coming_checks(table: TableInfo) -> tuple[ConstraintInfo, ...]:
    """The CHECKs that writers enforce on `coming_columns`, too.

    A CHECK waits until all columns that its statement changes together, and that it reads, have
    begun to change."""
    coming = coming_columns(table)
    if coming is table.cols:
        return ()
    old = {element.name.L: element for element in table.cols if element.state == SchemaState.PUBLIC}
    new = {element.name.L: element for element in coming if element.state == SchemaState.PUBLIC}
    waits = _not_begun(table)
    return tuple(
        element
        for element in table.checks
        if element.binds
        and _is_touched(element, old, new)
        and not waits & _read(tuple(n.L for n in element.constraint_cols), old)
    )


def coming_checks_on(table: TableInfo, column_id: int) -> tuple[ConstraintInfo, ...]:
    """The CHECKs of `coming_checks` that read that column, also through generated columns."""
    columns = {
        element.name.L: element for element in table.cols if element.state == SchemaState.PUBLIC
    }
    column_name = next((n for n, element in columns.items() if element.id == column_id), "")
    return tuple(
        element
        for element in coming_checks(table)
        if column_name in _read(tuple(n.L for n in element.constraint_cols), columns)
    )


def _not_begun(table: TableInfo) -> set[str]:
    """Names of columns that must change together with changing ones, and have not begun to."""
    columns = {column_id.id: column_id for column_id in table.cols}
    changing: set[int] = set()
    together: set[int] = set()
    for column in table.cols:
        change = column.change_state_info or {}
        is_hidden = OLD_COLUMN in change
        if LEFT in change or not (column.exuvia_changing_type is not None or is_hidden):
            continue
        listed, old = change.get(TOGETHER, ()), change.get(OLD_COLUMN, column.id)
        if isinstance(listed, list | tuple):
            together.update(listed)
        if isinstance(old, int) and (not is_hidden or DUTIES[column.state].adds):
            changing.add(old)
    return {columns[column_id].name.L for column_id in together - changing if column_id in columns}


def _read(names: tuple[str, ...], columns: Mapping[str, ColumnInfo]) -> set[str]:
    """These columns and all that they are computed from, by name in lower case."""
    closure: set[str] = set()
    pending = list(names)
    while pending:
        column_name = pending.pop()
        column = columns.get(column_name)
        if column_name not in closure and column is not None:
            closure.add(column_name)
            pending += [n.lower() for n in column.dependences or ()]
    return closure
