"""What MODIFY COLUMN refuses, with TiDB's texts.

1060, 3108, 3855, 3959   the new name is taken; the old one is used in an expression
8200                     a key, REFERENCES or CHECK in the definition; a change of type, charset
                         or collation that is not done; a column of the primary key that would
                         be written anew; AUTO_INCREMENT put on or taken away
1832, 1833               the type of a column in a foreign key
1170, 1071, 3152         an index that holds the column could not hold the new one
"""

from collections.abc import Callable

from exuvia.base.errors import Refused
from exuvia.base.limits import KEY_BYTES
from exuvia.base.mysql_errors import (
    ErrDependentByCheckConstraint,
    ErrDependentByPartitionFunctional,
    ErrDupFieldName,
    ErrTooLongKey,
    ErrUnsupportedDDLOperation,
    ErrUnsupportedOnGeneratedColumn,
    ErrWrongColumnName,
)
from exuvia.base.types import INTEGER_BITS, Family, FieldType, Flag, TypeCode
from exuvia.catalog.change import is_string
from exuvia.catalog.model import ColumnInfo, TableInfo
from exuvia.catalog.partition_info import PartitionType
from exuvia.ddl.actions.modify_arguments import indexes_with
from exuvia.sql.define.generated import check_generated, check_independent
from exuvia.sql.define.indexes import part_bytes
from exuvia.sql.nodes import ColumnDefinition
from exuvia.sql.show.type_text import type_text

_MOMENTS = (TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP)
_NAMED = (TypeCode.ENUM, TypeCode.SET)
_FRACTIONS = (TypeCode.NEWDECIMAL, TypeCode.FLOAT, TypeCode.DOUBLE)
_COMPATIBLE = (
    {"ascii_bin", "latin1_bin", "utf8_bin", "utf8mb4_bin"},
    {"utf8_general_ci", "utf8mb4_general_ci"},
    {"utf8_unicode_ci", "utf8mb4_unicode_ci"},
)


def unsupported(reason: str) -> Refused:
    """8200."""
    return ErrUnsupportedDDLOperation(f"modify column: {reason}")


# -- names -----------------------------------------------------------------------------------------


def check_rename(table: TableInfo, old: ColumnInfo, new_name: str) -> None:
    """Raises 1060, 3108, 3837, 3855, 3959."""
    if old.name.L == new_name.lower():
        return
    if new_name.lower() == "_tidb_rowid":
        raise ErrWrongColumnName(new_name)
    if table.column(new_name) is not None:
        raise ErrDupFieldName(new_name)
    check_independent(table, old)
    if old.name.L in _partition_columns(table):
        raise ErrDependentByPartitionFunctional(old.name.O)
    for check in table.constraint_info or ():
        if old.name.L in (each.L for each in check.constraint_cols):
            raise ErrDependentByCheckConstraint(check.constraint_name.O, old.name.O)


def dependents(table: TableInfo, column: ColumnInfo) -> list[ColumnInfo]:
    """Generated columns that are computed from it."""
    return [each for each in table.cols if column.name.L in (each.dependences or {})]


def _partition_columns(table: TableInfo) -> set[str]:
    """Lower-case names of the columns that rows are partitioned by."""
    part = table.partition
    if part is None:
        return set()
    named = {each.L for each in part.columns or ()}
    words = "".join(c if c.isalnum() or c == "_" else " " for c in part.expr or "")
    return named | set(words.lower().split()) & {c.name.L for c in table.cols}


# -- the definition --------------------------------------------------------------------------------


def check_options(written: ColumnDefinition) -> None:
    """Raises 8200 for what is not part of a column."""
    if written.primary:
        raise ErrUnsupportedDDLOperation.with_text("can't change column constraint (PRIMARY KEY)")
    if written.unique:
        raise ErrUnsupportedDDLOperation.with_text("can't change column constraint (UNIQUE KEY)")
    if written.references is not None:
        raise unsupported("can't modify with references")
    if written.checks:
        raise unsupported("can't modify with check")


def check_auto_increment(old: ColumnInfo, new: ColumnInfo, variable: Callable[[str], str]) -> None:
    """Raises 8200."""
    if new.auto_increment and not old.auto_increment:
        raise unsupported("can't set auto_increment")
    if (
        old.auto_increment
        and not new.auto_increment
        and variable("tidb_allow_remove_auto_inc") != "ON"
    ):
        raise unsupported(
            "can't remove auto_increment without @@tidb_allow_remove_auto_inc enabled"
        )


# -- the type --------------------------------------------------------------------------------------


def check_change(
    table: TableInfo,
    old: ColumnInfo,
    new: ColumnInfo,
    indexed: bool,
    strict: bool,
    reads_auto: bool = False,
) -> None:
    """Raises 8200, 1832, 3106 for a change of type that is not done; `reads_auto`: an expression
    may name the AUTO_INCREMENT column."""
    if not _is_possible(old.type, new.type):
        change = f"change from original type {type_text(old.type)} to {type_text(new.type)}"
        reason = f"[ddl:8200]Unsupported modify column: {change} is currently unsupported yet"
        raise unsupported(reason)
    widened = is_widened(old.type, new.type)
    if not widened and old.type.Flag & Flag.PRI_KEY:
        raise unsupported("this column has primary key flag")
    _check_charset(old, new, indexed, rewritten=not widened)
    if old.name.L in _partition_columns(table) and not _routes_alike(table, old.type, new.type):
        raise unsupported(
            "can't change the partitioning column, since it would require reorganize all partitions"
        )
    if new.is_generated:
        columns = [new if each.id == old.id else each for each in table.cols]
        check_generated(columns, new, reads_auto)
    _check_generated(table, old, new, widened)


def _routes_alike(table: TableInfo, old: FieldType, new: FieldType) -> bool:
    """Whether every row stays where it is: KEY looks at a value's text, the others at the value."""
    flags = Flag.NOT_NULL | Flag.UNSIGNED
    same = (old.Flag & flags, old.Collate) == (new.Flag & flags, new.Collate)
    by_text = table.partition is not None and table.partition.type == PartitionType.KEY
    return same and is_widened(old, new) and (old.Decimal == new.Decimal or not by_text)


def is_widened(old: FieldType, new: FieldType) -> bool:
    """Whether TiDB's storage of every old value is one of the new type."""
    if old.unsigned != new.unsigned:
        return False
    if old.Tp in INTEGER_BITS and new.Tp in INTEGER_BITS:
        return INTEGER_BITS[TypeCode(new.Tp)] >= INTEGER_BITS[TypeCode(old.Tp)]
    if is_string(old) and is_string(new):
        fixed = old.Tp != new.Tp and TypeCode.STRING in (old.Tp, new.Tp)
        filled = old.Tp == TypeCode.STRING and old.family == Family.BYTES
        return not fixed and (new.Flen == old.Flen if filled else new.Flen >= old.Flen)
    if old.Tp != new.Tp:
        return False
    if new.Tp == TypeCode.NEWDECIMAL:
        return (old.Flen, old.Decimal) == (new.Flen, new.Decimal)
    if new.Tp in _NAMED:
        kept = len(old.Elems or ())
        return (new.Elems or ())[:kept] == (old.Elems or ())
    return new.Flen >= old.Flen and new.Decimal >= old.Decimal


def _is_possible(old: FieldType, new: FieldType) -> bool:
    """TiDB's list of pairs that are not converted."""
    timed = old.Tp in (*_MOMENTS, TypeCode.TIME, TypeCode.YEAR)
    if new.Tp == TypeCode.BIT:
        return not (timed or is_string(old) or old.Tp == TypeCode.JSON)
    if new.Tp in _NAMED:
        return not (timed or old.Tp in (*_FRACTIONS, TypeCode.JSON, TypeCode.BIT))
    if new.Tp in _MOMENTS:
        return old.Tp not in (*_NAMED, TypeCode.BIT, *_FRACTIONS)
    if new.Tp == TypeCode.TIME:
        return old.Tp not in (*_NAMED, TypeCode.BIT)
    return True


def _check_charset(old: ColumnInfo, new: ColumnInfo, indexed: bool, rewritten: bool) -> None:
    source, target = old.type, new.type
    pair = {source.Collate, target.Collate}
    like = len(pair) == 1 or any(pair <= each for each in _COMPATIBLE)
    texts = is_string(source) or source.Tp in _NAMED
    if indexed and texts and not like and "binary" not in pair:
        raise ErrUnsupportedDDLOperation(
            f"modifying collation of column '{old.name.L}' from '{source.Collate}' "
            f"to '{target.Collate}' when index is defined on it."
        )
    known = (source.Charset, target.Charset) in (("utf8", "utf8mb4"), ("latin1", "utf8mb4"))
    if source.Charset != target.Charset and not known and not rewritten:
        raise ErrUnsupportedDDLOperation(
            f"modify charset from {source.Charset} to {target.Charset}"
        )


def _check_generated(table: TableInfo, old: ColumnInfo, new: ColumnInfo, widened: bool) -> None:
    """An expression is computed from the column, or it is computed itself.

    Raises 3106, 8200."""
    was, is_now = old.generated_expr_string, new.generated_expr_string
    stored = bool(was) and old.generated_stored, bool(is_now) and new.generated_stored
    if old.is_virtual != new.is_virtual:
        raise ErrUnsupportedOnGeneratedColumn("Changing the STORED status")
    if is_now and stored[1] and was != is_now:
        raise ErrUnsupportedOnGeneratedColumn("modifying a stored column")
    changes = is_now and not stored[1] and (was != is_now or not _same_type(old, new))
    if changes and indexes_with(table, old.id):
        said = "Unsupported modification for generated columns covered by an index"
        raise ErrUnsupportedOnGeneratedColumn.with_text(said)
    if dependents(table, old) and not _same_type(old, new):
        raise unsupported(f"oldCol is a dependent column '{old.name.O}' for generated column")
    if not widened and (was or is_now) and not stored[0]:
        raise unsupported("column has related generated column")


def _same_type(old: ColumnInfo, new: ColumnInfo) -> bool:
    return type_text(old.type) == type_text(new.type)


# -- indexes ---------------------------------------------------------------------------------------


def check_indexes(table: TableInfo, old: ColumnInfo, new: ColumnInfo) -> None:
    """Raises 1170, 1071, 3152: what CREATE INDEX on the new column would."""
    columns = {each.id: each for each in table.cols} | {old.id: new}
    for index in indexes_with(table, old.id):
        total = 0
        for part in index.idx_cols:
            length = part.length
            if part.exuvia_column == old.id:
                length = _prefix_kept(length, new.type)
            total += part_bytes(columns[part.exuvia_column], length)
        if total > KEY_BYTES:
            raise ErrTooLongKey(total, KEY_BYTES)


def _prefix_kept(length: int, kind: FieldType) -> int:
    """A prefix of a type that has none, or is no longer than it, is none."""
    return length if is_string(kind) and kind.Flen > length else -1
