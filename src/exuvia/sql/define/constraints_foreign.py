"""Foreign keys as written become what is kept, with MySQL's refusals in TiDB's order.

    1826 name twice · 1239 as many columns on both sides · 1059 names too long · 1072 no such column
    1830 SET NULL on NOT NULL · 3104, 1215, 3733 generated columns · 1824 no such parent
    1506 partitions · 3734 no such column there · 3780 other types · 1822 no index there

A parent that is missing is no error where foreign_key_checks is OFF: the key waits for it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from exuvia.base.limits import IDENTIFIER_CHARS
from exuvia.base.mysql_errors import (
    ErrCannotAddForeign,
    ErrFkDupName,
    ErrFKIncompatibleColumns,
    ErrForeignKeyCannotOpenParent,
    ErrForeignKeyCannotUseVirtualColumn,
    ErrForeignKeyColumnNotNull,
    ErrForeignKeyNoColumnInParent,
    ErrForeignKeyNoIndexInParent,
    ErrForeignKeyOnPartitioned,
    ErrKeyColumnDoesNotExits,
    ErrTooLongIdent,
    ErrWrongFkDef,
    ErrWrongFKOptionForGeneratedColumn,
)
from exuvia.base.types import Flag
from exuvia.catalog.constraint_info import RULE_TEXT, RULES, FkInfo, Rule
from exuvia.catalog.model import ColumnInfo, DatabaseInfo, IndexInfo, Name, TableInfo, evolve, name
from exuvia.catalog.state import SchemaState
from exuvia.sql.nodes import ForeignKey

_CHANGES = (Rule.CASCADE, Rule.SET_NULL, Rule.SET_DEFAULT)
_EMPTIES = (Rule.SET_NULL, Rule.SET_DEFAULT)

# (database's name, table's name) -> both, or None where there is none
Find = Callable[[str, str], tuple[DatabaseInfo, TableInfo] | None]


class Made(NamedTuple):
    """A key, and the table it refers to (None: it waits for one, or it is the table itself)."""

    key: FkInfo
    parent: TableInfo | None = None


def checked_names(keys: Sequence[ForeignKey], taken: Iterable[str], last: int) -> tuple[str, ...]:
    """Names of the keys: fk_1, fk_2 ... where none was given. `last`: the last number given.

    Raises 1826, 1059."""
    known = {each.lower() for each in taken}
    found = []
    for number, each in enumerate(keys, last + 1):
        text = each.name or f"fk_{number}"
        if text.lower() in known:
            raise ErrFkDupName(text)
        known.add(text.lower())
        if len(text) > IDENTIFIER_CHARS:
            raise ErrTooLongIdent(text)
        found.append(text)
    return tuple(found)


def made_key(
    written: ForeignKey, text: str, table: TableInfo, home: DatabaseInfo, version: int
) -> FkInfo:
    """The key, judged by its own table alone."""
    reference = written.reference
    if len(written.columns) != len(reference.columns):
        raise ErrWrongFkDef(text, "Key reference and table reference don't match")
    for each in (reference.table.db or "", reference.table.name):
        if len(each) > IDENTIFIER_CHARS:
            raise ErrTooLongIdent(each)
    rules = _rule(reference.on_delete), _rule(reference.on_update)
    cols = tuple(_own_column(table, each, text, rules).name for each in written.columns)
    return FkInfo(
        fk_name=name(text),
        ref_schema=name(reference.table.db or home.db_name.O),
        ref_table=name(reference.table.name),
        ref_cols=tuple(name(each) for each in reference.columns),
        cols=cols,
        on_delete=rules[0],
        on_update=rules[1],
        version=version,
    )


def _rule(text: str | None) -> Rule:
    return RULES[text] if text is not None else Rule.NONE


def _own_column(table: TableInfo, wanted: str, text: str, rules: tuple[Rule, Rule]) -> ColumnInfo:
    column = _public(table, wanted)
    if column is None:
        raise ErrKeyColumnDoesNotExits(wanted)
    _check_generated(table, column, text, rules)
    if column.not_null and Rule.SET_NULL in rules:
        raise ErrForeignKeyColumnNotNull(column.name.O, text)
    return column


def _check_generated(
    table: TableInfo, column: ColumnInfo, text: str, rules: tuple[Rule, Rule]
) -> None:
    """A stored generated column may not be changed by its key, nor what one is computed from."""
    on_delete, on_update = rules
    if column.generated_expr_string:
        if not column.generated_stored:
            raise ErrForeignKeyCannotUseVirtualColumn(text, column.name.O)
        if on_update in _CHANGES:
            raise ErrWrongFKOptionForGeneratedColumn(f"ON UPDATE {RULE_TEXT[on_update]}")
        if on_delete in _EMPTIES:
            raise ErrWrongFKOptionForGeneratedColumn(f"ON DELETE {RULE_TEXT[on_delete]}")
        return
    stored = (each for each in table.cols if each.generated_stored)
    is_read = any(column.name.L in (each.dependences or {}) for each in stored)
    if is_read and (on_update in _CHANGES or on_delete in _CHANGES):
        raise ErrCannotAddForeign()


def _public(table: TableInfo, wanted: str) -> ColumnInfo | None:
    column = table.column(wanted)
    return column if column is not None and column.state == SchemaState.PUBLIC else None


def with_parent(
    key: FkInfo, table: TableInfo, home: DatabaseInfo, find: Find, checks: bool
) -> Made:
    """The key, judged by the table it refers to."""
    if (key.ref_schema.L, key.ref_table.L) == (home.db_name.L, table.name.L):
        check_pair(key, table, table)
        return Made(key)
    found = find(key.ref_schema.O, key.ref_table.O)
    if found is None:
        if checks:
            raise ErrForeignKeyCannotOpenParent(key.ref_table.O)
        return Made(evolve(key, exuvia_orphan=True))
    check_pair(key, table, found[1])
    return Made(key, found[1])


def check_pair(key: FkInfo, child: TableInfo, parent: TableInfo) -> None:
    """Raises 1506, 3734, 3733, 3780, 1822."""
    if child.partition is not None or parent.partition is not None:
        raise ErrForeignKeyOnPartitioned()
    if not parent.is_stored:
        raise ErrForeignKeyCannotOpenParent(key.ref_table.O)
    for own, theirs in zip(key.cols, key.ref_cols, strict=True):
        column = _public(parent, theirs.L)
        if column is None:
            raise ErrForeignKeyNoColumnInParent(theirs.O, key.fk_name.O, key.ref_table.O)
        if column.generated_expr_string and not column.generated_stored:
            raise ErrForeignKeyCannotUseVirtualColumn(key.fk_name.O, column.name.O)
        mine = child.column(own.L)
        if mine is None:
            raise ErrKeyColumnDoesNotExits(own.O)
        if not _alike(mine, column):
            raise ErrFKIncompatibleColumns(mine.name.O, column.name.O, key.fk_name.O)
    if not covered(parent, key.ref_cols):
        raise ErrForeignKeyNoIndexInParent(key.fk_name.O, key.ref_table.O)


def _alike(one: ColumnInfo, other: ColumnInfo) -> bool:
    mine, theirs = one.type, other.type
    same = (mine.Tp, mine.unsigned) == (theirs.Tp, theirs.unsigned)
    return same and (mine.Charset, mine.Collate) == (theirs.Charset, theirs.Collate)


def covered(table: TableInfo, columns: Sequence[Name], without: Iterable[int] = ()) -> bool:
    """Whether the primary key or an index begins with these columns; indexes `without` apart."""
    wanted = [each.L for each in columns]
    if table.pk_is_handle and len(wanted) == 1:
        column = table.column(wanted[0])
        if column is not None and column.type.Flag & Flag.PRI_KEY:
            return True
    apart = frozenset(without)
    return any(begins(index, wanted) for index in table.indexes if index.id not in apart)


def begins(index: IndexInfo, columns: Sequence[str]) -> bool:
    """Whether a public index begins with these columns, whole and in this order."""
    parts = index.idx_cols[: len(columns)]
    same = [part.name.L for part in parts] == list(columns)
    is_whole = all(part.length < 0 for part in parts)
    return same and is_whole and index.state in (SchemaState.PUBLIC, SchemaState.ABSENT)
