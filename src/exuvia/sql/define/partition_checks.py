"""What a partitioning function may be (manual, "Partitioning Limitations").

1564 function or operator is not allowed     1486 no column, or depends on the time zone
1491 result is not a whole number            1659 a column of a type that cannot be cut by
1503, 8264 a unique key lacks one of them    1488, 1054 no such column
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrFieldNotFoundPart,
    ErrFieldTypeNotAllowedAsPartitionField,
    ErrGlobalIndexNotExplicitlySet,
    ErrPartitionFuncNotAllowed,
    ErrPartitionFunctionIsNotAllowed,
    ErrSameNamePartitionField,
    ErrUniqueKeyNeedAllFieldsInPf,
    ErrUnsupportedDDLOperation,
    ErrWrongExprInPartitionFunc,
)
from exuvia.base.types import INTEGER_BITS, TEXT_BLOBS, Family, FieldType, Flag, TypeCode
from exuvia.catalog.model import ColumnInfo, IndexInfo, TableInfo
from exuvia.sql.access.partitions import function_of
from exuvia.sql.define.partition_text import function_text
from exuvia.sql.nodes import IndexDefinition, Tree

_DATES = (TypeCode.DATE, TypeCode.DATETIME)
_TIMES = (TypeCode.TIME, TypeCode.DATETIME)
_ANY_NUMBER: tuple[TypeCode, ...] = ()
_FUNCTIONS: dict[str, tuple[TypeCode, ...]] = {
    **dict.fromkeys(("ABS", "CEIL", "CEILING", "FLOOR", "MOD"), _ANY_NUMBER),
    **dict.fromkeys(("TO_DAYS", "TO_SECONDS", "DAYOFMONTH", "DAY", "MONTH", "DAYOFYEAR"), _DATES),
    **dict.fromkeys(("QUARTER", "YEARWEEK", "YEAR", "WEEKDAY", "DAYOFWEEK"), _DATES),
    **dict.fromkeys(("HOUR", "MINUTE", "SECOND", "TIME_TO_SEC", "MICROSECOND"), _TIMES),
    "DATEDIFF": _DATES,
    "EXTRACT": (*_DATES, TypeCode.TIME),
    "UNIX_TIMESTAMP": (TypeCode.TIMESTAMP,),
}
_OPERATORS = (exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod)
_LEAVES = (exp.Column, exp.Literal, exp.Identifier, exp.Paren, exp.Neg, exp.Null, exp.Var)


def columns_of(tree: Tree) -> list[str]:
    """Lower-case names of the columns that a function reads."""
    return [column.name.lower() for column in tree.find_all(exp.Column)]


def check_function(tree: Tree, columns: Sequence[ColumnInfo]) -> str:
    """The function's text. Raises 1564, 1054, 1486, 1491, 1659."""
    for node in _nodes(tree):
        _check_node(node)
    by_name = {column.name.L: column for column in columns}
    for name in columns_of(tree):
        if name not in by_name:
            raise ErrBadField(name, "partition function")
    if not columns_of(tree):
        raise ErrWrongExprInPartitionFunc()
    for node in _nodes(tree):
        if isinstance(node, exp.Anonymous | exp.Extract):
            _check_arguments(node, by_name)
    return _checked_type(tree, columns)


def _checked_type(tree: Tree, columns: Sequence[ColumnInfo]) -> str:
    text = function_text(tree)
    kind = function_of(text, columns).type
    whole = kind.family in (Family.INT, Family.UINT) and kind.Tp in INTEGER_BITS
    whole = whole or kind.Tp == TypeCode.YEAR
    if whole:
        return text
    inner = tree.unnest() if isinstance(tree, exp.Paren) else tree
    if isinstance(inner, exp.Column):
        raise ErrFieldTypeNotAllowedAsPartitionField(inner.name)
    raise ErrPartitionFuncNotAllowed("PARTITION")


def _nodes(tree: Any) -> Iterator[Any]:
    yield from tree.walk()


def _check_node(node: exp.Expression) -> None:
    if isinstance(node, exp.Anonymous):
        if str(node.this).upper() not in _FUNCTIONS:
            raise ErrPartitionFunctionIsNotAllowed()
    elif not isinstance(node, (*_OPERATORS, *_LEAVES, exp.Extract)):
        raise ErrPartitionFunctionIsNotAllowed()


def _check_arguments(node: exp.Expression, by_name: dict[str, ColumnInfo]) -> None:
    """A function of dates takes dates; TIMESTAMP depends on the time zone. Raises 1486."""
    name = "EXTRACT" if isinstance(node, exp.Extract) else str(node.this).upper()
    allowed = _FUNCTIONS[name]
    if not allowed:
        if any(by_name[each].type.Tp == TypeCode.TIMESTAMP for each in columns_of(node)):
            raise ErrWrongExprInPartitionFunc()
        return
    if name == "UNIX_TIMESTAMP" and not node.expressions:
        raise ErrWrongExprInPartitionFunc()
    for column in columns_of(node):
        if by_name[column].type.Tp not in allowed:
            raise ErrWrongExprInPartitionFunc()


_COLUMN_TYPES = (
    *INTEGER_BITS,
    *(TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIME),
    *(TypeCode.STRING, TypeCode.VARCHAR, TypeCode.VAR_STRING),
)


def check_columns(kind: str, names: Sequence[str], columns: Sequence[ColumnInfo]) -> None:
    """Columns of RANGE, LIST COLUMNS and KEY. Raises 1488, 1652, 1659."""
    by_name = {column.name.L: column for column in columns}
    seen: set[str] = set()
    for name in names:
        column = by_name.get(name.lower())
        if column is None:
            raise ErrFieldNotFoundPart()
        if name.lower() in seen:
            raise ErrSameNamePartitionField(name)
        seen.add(name.lower())
        if not _may_cut(kind, column.type):
            raise ErrFieldTypeNotAllowedAsPartitionField(column.name.O)


def _may_cut(kind: str, field: FieldType) -> bool:
    if kind == "key":
        return field.Tp != TypeCode.JSON and field.Tp not in TEXT_BLOBS
    return field.Tp in _COLUMN_TYPES


def check_unique_keys(table: TableInfo, wanted: Sequence[str]) -> None:
    """Every unique key has all the columns, whole. Raises 1503, 8264."""
    needed = set(wanted)
    if table.pk_is_handle:
        handle = next(c for c in table.cols if c.type.Flag & Flag.PRI_KEY)
        if needed - {handle.name.L}:
            raise ErrUniqueKeyNeedAllFieldsInPf("CLUSTERED INDEX")
    for index in table.indexes:
        check_unique_key(index, needed)


def check_local(definitions: Iterable[IndexDefinition], partitioned: bool) -> None:
    """No index is GLOBAL: one that spans partitions is not made. Raises 8200."""
    if any(each.is_global for each in definitions):
        said = "Global Index" if partitioned else "Global Index on non-partitioned table"
        raise ErrUnsupportedDDLOperation(said)


def check_unique_key(index: IndexInfo, needed: set[str]) -> None:
    """One key of a table that is cut by these columns. Raises 1503, 8264."""
    whole = {part.name.L for part in index.idx_cols if part.length < 0}
    if index.is_unique and needed - whole:
        if index.exuvia_clustered:
            raise ErrUniqueKeyNeedAllFieldsInPf("CLUSTERED INDEX")
        raise ErrGlobalIndexNotExplicitlySet(index.idx_name.O)
