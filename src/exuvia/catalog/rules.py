"""Rules of a table whose answer for a row may differ once columns of the table have changed.

    before, after --rules_touched--> CHECKs and foreign keys

A rule's result depends on the *meaning* of the columns that it reads: their type, collation, and
members in order. The meaning of a generated column also includes its expression, and the meanings
of the columns in it. A wider integer, a longer text and a new member at the end of an ENUM keep
the meaning. A foreign key also depends on NOT NULL, if one of its actions is SET NULL.

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
from exuvia.catalog.convert.type_change import EXPRESSION, LEFT, OLD_COLUMN, TOGETHER
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
    """The rules that both have and that may judge a row of the one otherwise than of the other."""
    if before is None or after is None or before.cols == after.cols:
        return frozenset()
    old, new = _public(before), _public(after)
    checks = {each.id: each for each in after.checks if each.binds}
    found = {
        TouchedRule(CHECK, each.id)
        for each in before.checks
        if each.binds and each.id in checks and _is_touched(each, old, new)
    }
    keys, theirs = _ends(before), _ends(after)
    for end in keys.keys() & theirs.keys():
        if any(map(_end_differs, keys[end], theirs[end])):
            found.add(TouchedRule(FOREIGN_KEY, end[1]))
    return frozenset(found)


def _public(table: TableInfo) -> dict[str, ColumnInfo]:
    return {each.name.L: each for each in table.cols if each.state == SchemaState.PUBLIC}


def _is_touched(
    check: ConstraintInfo, old: Mapping[str, ColumnInfo], new: Mapping[str, ColumnInfo]
) -> bool:
    return any(
        each.L in old and each.L in new and differs(each.L, old, new)
        for each in check.constraint_cols
    )


def differs(column: str, old: Mapping[str, ColumnInfo], new: Mapping[str, ColumnInfo]) -> bool:
    """Whether a value of that column may mean something else; columns by name, in lower case."""
    mine, theirs = old[column], new[column]
    keeps_values = mine.is_generated and not mine.is_virtual and not theirs.is_generated
    if mine.generated_expr_string != theirs.generated_expr_string and not keeps_values:
        return True
    if not is_same_meaning(mine.type, theirs.type):
        return True
    reads = mine.dependences or {} if mine.is_generated and not keeps_values else {}
    return any(
        each in old and each in new and each != column and differs(each, old, new)
        for each in map(str.lower, reads)
    )


def is_same_meaning(old: FieldType, new: FieldType) -> bool:
    """Whether every value that is one of both types is read, compared and printed as one."""
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
        kept = len(old.Elems or ())
        return (new.Elems or ())[:kept] == (old.Elems or ())
    return (old.Flen, old.Decimal, bool(filled)) == (new.Flen, new.Decimal, bool(filled))


# -- foreign keys ----------------------------------------------------------------------------------


class _Part(NamedTuple):
    """A column at one end of a foreign key; `may_be_null`: an action of the key writes NULL."""

    type: FieldType
    may_be_null: bool


def _ends(table: TableInfo) -> dict[tuple[str, int], list[_Part]]:
    """The columns of each foreign key that has this table at that end, by its link."""
    types = {each.id: each.type for each in table.cols}
    found = {
        (_CHILD, key.exuvia_link): [
            _Part(types[n], sets_null(key)) for n in key.exuvia_cols if n in types
        ]
        for key in table.foreign_keys
        if key.binds
    }
    for each in table.exuvia_referred:
        found[_PARENT, each.link] = [_Part(types[n], False) for n in each.columns if n in types]
    return found


def _end_differs(old: _Part, new: _Part) -> bool:
    refuses_null = new.may_be_null and new.type.not_null and not old.type.not_null
    return refuses_null or not is_same_meaning(old.type, new.type)


def is_comparable(one: FieldType, other: FieldType) -> bool:
    """Whether a foreign key can compare values of these types at all. Where it cannot, the key has
    no parent; with foreign_key_checks OFF such a parent is refused (3780), too."""
    numbers = (Family.INT, Family.UINT)
    return one.family == other.family or (one.family in numbers and other.family in numbers)


def sets_null(key: FkInfo) -> bool:
    """Whether one of the key's actions is SET NULL."""
    return ReferOption.SET_NULL in (key.on_delete, key.on_update)


def links_with(table: TableInfo, column_id: int) -> frozenset[TouchedRule]:
    """The foreign keys that have that column at either end."""
    own = (key.exuvia_link for key in table.foreign_keys if column_id in key.exuvia_cols)
    others = (each.link for each in table.exuvia_referred if column_id in each.columns)
    return frozenset(TouchedRule(FOREIGN_KEY, link) for link in (*own, *others))


def all_links(table: TableInfo) -> frozenset[TouchedRule]:
    """The foreign keys that have the table at either end."""
    own = (key.exuvia_link for key in table.foreign_keys)
    others = (each.link for each in table.exuvia_referred)
    return frozenset(TouchedRule(FOREIGN_KEY, link) for link in (*own, *others))


# -- while columns change --------------------------------------------------------------------------


def coming_columns(table: TableInfo, *, also_hidden: bool = False) -> tuple[ColumnInfo, ...]:
    """The columns, at their positions, as they will be once every change that writers carry out is
    public; `also_hidden`: and those that they do not carry out yet. `table.cols` itself if there is
    none."""
    replaced: dict[int, ColumnInfo] = {}
    for column in table.cols:
        said = column.change_state_info or {}
        if column.exuvia_changing_type is not None and LEFT not in said:
            replaced[column.id] = _announced(column)
        elif OLD_COLUMN in said and (also_hidden or DUTIES[column.state].adds):
            old = next(each for each in table.cols if each.id == said[OLD_COLUMN])
            replaced[column.id] = evolve(column, name=old.name, state=SchemaState.PUBLIC)
            gone = name(f"_Tombstone$_{old.name.O}_0")
            replaced[old.id] = evolve(old, name=gone, state=SchemaState.WRITE_ONLY)
    if not replaced:
        return table.cols
    return tuple(replaced.get(each.id, each) for each in table.cols)


def _announced(column: ColumnInfo) -> ColumnInfo:
    """A column with the type, and the expression, that it will have."""
    said = (column.change_state_info or {}).get(EXPRESSION)
    coming = evolve(column, type=column.exuvia_changing_type)
    if not isinstance(said, dict):
        return coming
    text, reads = said["text"], said["reads"]
    return evolve(coming, generated_expr_string=text, dependences={key: {} for key in reads})


def coming_checks(table: TableInfo) -> tuple[ConstraintInfo, ...]:
    """The CHECKs that writers obey under `coming_columns`, too. A CHECK waits until all columns
    that its statement changes together, and that it reads, have begun to change."""
    coming = coming_columns(table)
    if coming is table.cols:
        return ()
    old = {each.name.L: each for each in table.cols if each.state == SchemaState.PUBLIC}
    new = {each.name.L: each for each in coming if each.state == SchemaState.PUBLIC}
    waits = _not_begun(table)
    return tuple(
        each
        for each in table.checks
        if each.binds
        and _is_touched(each, old, new)
        and not waits & _read(tuple(n.L for n in each.constraint_cols), old)
    )


def coming_checks_on(table: TableInfo, column_id: int) -> tuple[ConstraintInfo, ...]:
    """Those of `coming_checks` that read that column, also through generated columns."""
    columns = {each.name.L: each for each in table.cols if each.state == SchemaState.PUBLIC}
    wanted = next((n for n, each in columns.items() if each.id == column_id), "")
    return tuple(
        each
        for each in coming_checks(table)
        if wanted in _read(tuple(n.L for n in each.constraint_cols), columns)
    )


def _not_begun(table: TableInfo) -> set[str]:
    """Names of columns that change together with those that have begun to, and have not begun."""
    columns = {each.id: each for each in table.cols}
    begun: set[int] = set()
    together: set[int] = set()
    for column in table.cols:
        said = column.change_state_info or {}
        is_hidden = OLD_COLUMN in said
        if LEFT in said or not (column.exuvia_changing_type is not None or is_hidden):
            continue
        listed, old = said.get(TOGETHER, ()), said.get(OLD_COLUMN, column.id)
        if isinstance(listed, list | tuple):
            together.update(listed)
        if isinstance(old, int) and (not is_hidden or DUTIES[column.state].adds):
            begun.add(old)
    return {columns[each].name.L for each in together - begun if each in columns}


def _read(names: tuple[str, ...], columns: Mapping[str, ColumnInfo]) -> set[str]:
    """These columns and all that they are computed from, by name in lower case."""
    found: set[str] = set()
    wanted = list(names)
    while wanted:
        each = wanted.pop()
        column = columns.get(each)
        if each not in found and column is not None:
            found.add(each)
            wanted += [n.lower() for n in column.dependences or ()]
    return found
