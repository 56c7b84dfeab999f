"""PARTITION BY becomes a PartitionInfo, as in TiDB.

    HASH, KEY without definitions   p0, p1, ..., the number of PARTITIONS (1 by default)
    LINEAR, SUBPARTITION            ignored, with a warning
    KEY ()                          by the primary key
    RANGE (e) INTERVAL (n) FIRST .. LAST ..    every bound written out: P_LT_10, P_LT_20, ...

Ids are assigned later, in the order of the definitions.

The function (manual, "Partitioning Limitations"):

    1564 function or operator is not allowed    1486 no column, or depends on the time zone
    1491 result is not a whole number           1659 a column of an unsupported type
    1503, 8264 a unique key lacks a column      1488, 1054 unknown column

Bounds and lists: computed whole numbers; for COLUMNS literals of the column's type.

    1697 not a number       1566 NULL as a bound    1654 wrong type        1653 number of values
    1481 MAXVALUE not last  1493 not increasing     1495 duplicate value   1517 duplicate name
    1563 below 0
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import tzinfo
from itertools import pairwise
from typing import Any, NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.limits import PARTITIONS
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrFieldNotFoundPart,
    ErrFieldTypeNotAllowedAsPartitionField,
    ErrGlobalIndexNotExplicitlySet,
    ErrMaxvalueInValuesIn,
    ErrMultipleDefConstInListPart,
    ErrNoParts,
    ErrNullInValuesLessThan,
    ErrPartitionColumnList,
    ErrPartitionConstDomain,
    ErrPartitionFuncNotAllowed,
    ErrPartitionFunctionIsNotAllowed,
    ErrPartitionMaxvalue,
    ErrPartitionRequiresValues,
    ErrPartitionsMustBeDefined,
    ErrPartitionWrongNoPart,
    ErrPartitionWrongValues,
    ErrRangeNotIncreasing,
    ErrRowSinglePartitionField,
    ErrSameNamePartition,
    ErrSameNamePartitionField,
    ErrSubpartition,
    ErrTooManyPartitionFuncFields,
    ErrTooManyPartitions,
    ErrTooManyValues,
    ErrUniqueKeyNeedAllFieldsInPf,
    ErrUnsupportedDDLOperation,
    ErrValuesIsNotIntType,
    ErrWrongExprInPartitionFunc,
    ErrWrongNameForIndex,
    ErrWrongPartitionName,
    ErrWrongTypeColumnValue,
)
from exuvia.base.types import INTEGER_BITS, TEXT_BLOBS, Family, FieldType, Flag, TypeCode, Value
from exuvia.catalog.convert import values
from exuvia.catalog.decimals import whole
from exuvia.catalog.model import (
    DEFAULT,
    MAXVALUE,
    ColumnInfo,
    IndexInfo,
    KeyAlgorithm,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.cluster import member
from exuvia.cluster.member import MemberInfo
from exuvia.kv.transaction import Transaction
from exuvia.sql import expressions, walks
from exuvia.sql.access.partitions import Cut, Route, cut_of, function_of
from exuvia.sql.cells import MOMENT
from exuvia.sql.env import PlainEnv
from exuvia.sql.nodes import IndexDefinition, IntervalWritten, Partitioning, PartitionWritten, Tree
from exuvia.sql.parse.literals import type_of
from exuvia.sql.parse.text import parse_expression
from exuvia.sql.schema.change import STRICT, Modes
from exuvia.sql.schema.column_definition import name_elsewhere
from exuvia.sql.schema.partial_index import check_not_partitioned

Warn = Callable[[int, str], None]
_MOST_COLUMNS = 16


def partition_info(
    table: TableInfo, written: Partitioning, warn: Warn, modes: Modes = STRICT
) -> PartitionInfo:
    """The partitioning of a table. Bounds are read in the zone of `modes`.

    Raises the errors listed in the module."""
    word = written.kind.upper()
    kind = PartitionType[word]
    if written.linear:
        warn(
            ErrUnsupportedDDLOperation.code,
            f"LINEAR {word} is not supported, using non-linear {word} instead",
        )
    if written.subpartitioned:
        if written.kind in ("hash", "key"):
            raise ErrSubpartition()
        warn(
            ErrUnsupportedDDLOperation.code,
            f"Unsupported subpartitioning, only using {word} partitioning",
        )
    names, expr = _function(table, written)
    shape = shape_of(table.cols, kind, expr, names)
    definitions = _definitions(written, shape, modes)
    info = PartitionInfo(
        type=kind,
        expr=expr,
        columns=tuple(name(text) for text in names),
        is_empty_columns=written.columns == (),
        definitions=definitions,
        num=len(definitions),
        exuvia_key_algorithm=key_algorithm(kind, modes),
    )
    check_definitions(Route(table.cols, cut_of(info)))
    if len(definitions) > PARTITIONS:
        raise ErrTooManyPartitions()
    check_not_partitioned(table)
    check_unique_keys(table, partition_columns(info))
    return info


def key_algorithm(kind: PartitionType, modes: Modes) -> KeyAlgorithm:
    """TiDB's algorithm, unless a node serves that supports only the former one."""
    if kind != PartitionType.KEY or modes.has_older():
        return KeyAlgorithm.SORT_KEYS
    return KeyAlgorithm.WEIGHTS


def partition_columns(info: PartitionInfo) -> list[str]:
    """Lower-case names of the columns that decide where a row goes."""
    if info.columns or not info.expr:
        return [column.L for column in info.columns]
    return columns_of(parse_expression(info.expr))


def _function(table: TableInfo, written: Partitioning) -> tuple[Sequence[str], str]:
    """(column names, expression): one of them is empty."""
    if written.expression is not None:
        return (), check_function(written.expression, table.cols)
    names = written.columns or ()
    if written.columns == ():
        names = _key_columns(table)
    if len(names) > _MOST_COLUMNS:
        raise ErrTooManyPartitionFuncFields("list of partition fields")
    check_columns(written.kind, names, table.cols)
    by_name = {column.name.L: column.name.O for column in table.cols}
    return [by_name[text.lower()] for text in names], ""


def _key_columns(table: TableInfo) -> tuple[str, ...]:
    """The columns of KEY (): those of the primary key, else of a unique key without NULL."""
    if table.pk_is_handle:
        return tuple(c.name.O for c in table.cols if c.type.Flag & Flag.PRI_KEY)
    for flag in ("is_primary", "is_unique"):
        for index in table.indexes:
            parts = [table.column(part.name.L) for part in index.idx_cols]
            if (
                getattr(index, flag)
                and index.holds_every_row
                and all(part and part.not_null for part in parts)
            ):
                return tuple(part.name.O for part in index.idx_cols)
    raise ErrFieldNotFoundPart()


def _definitions(
    written: Partitioning, shape: Route, modes: Modes
) -> tuple[PartitionDefinition, ...]:
    kind = shape.cut.type
    if written.interval is not None:
        if kind != PartitionType.RANGE:
            raise ErrUnsupportedDDLOperation(
                "INTERVAL partitioning, only allowed on RANGE partitioning"
            )
        partitions = written_out(written.interval, shape, modes.zone)
        return tuple(definition(partition, shape) for partition in partitions)
    if kind in (PartitionType.RANGE, PartitionType.LIST):
        if not written.definitions:
            raise ErrPartitionsMustBeDefined(kind.name)
        if written.number is not None and written.number != len(written.definitions):
            raise ErrPartitionWrongNoPart()
        return tuple(definition(partition, shape, modes) for partition in written.definitions)
    if written.number == 0:
        raise ErrNoParts("partitions")
    if written.definitions:
        if written.number is not None and written.number != len(written.definitions):
            raise ErrPartitionWrongNoPart()
        return tuple(definition(partition, shape, modes) for partition in written.definitions)
    number = 1 if written.number is None else written.number
    if number > PARTITIONS:
        raise ErrTooManyPartitions()
    return numbered(0, number)


def numbered(first: int, end: int) -> tuple[PartitionDefinition, ...]:
    """Definitions named p{first} to p{end - 1}."""
    return tuple(PartitionDefinition(name=name(f"p{n}")) for n in range(first, end))


def added_definitions(
    table: TableInfo,
    info: PartitionInfo,
    written: Sequence[PartitionWritten],
    modes: Modes = STRICT,
) -> tuple[PartitionDefinition, ...]:
    """The definitions of new partitions, with the table's partitioning function."""
    shape = shape_like(table, info)
    return tuple(definition(partition, shape, modes) for partition in written)


def shape_like(table: TableInfo, info: PartitionInfo) -> Route:
    """The route of a partitioned table without its partitions, for reading definitions."""
    return shape_of(table.cols, info.type, info.expr, [column.L for column in info.columns])


# -- the function ----------------------------------------------------------------------------------

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
    return [column.name.lower() for column in walks.find_all(tree, exp.Column)]


def check_function_places(written: Partitioning, database: str, table: str) -> None:
    """Check that the function names only columns of its own table. Raises 1054."""
    tree = written.expression
    elsewhere = None if tree is None else name_elsewhere(tree, database, table)
    if elsewhere is not None:
        raise ErrBadField(elsewhere, "partition function")


def check_function(tree: Tree, columns: Sequence[ColumnInfo]) -> str:
    """The function's text. Raises 1564, 1054, 1486, 1491, 1659."""
    for node in walks.walk(tree):
        if isinstance(node, exp.Anonymous):
            if str(node.this).upper() not in _FUNCTIONS:
                raise ErrPartitionFunctionIsNotAllowed()
        elif not isinstance(node, (*_OPERATORS, *_LEAVES, exp.Extract)):
            raise ErrPartitionFunctionIsNotAllowed()
    by_name = {column.name.L: column for column in columns}
    for column in columns_of(tree):
        if column not in by_name:
            raise ErrBadField(column, "partition function")
    if not columns_of(tree):
        raise ErrWrongExprInPartitionFunc()
    for node in walks.walk(tree):
        if isinstance(node, exp.Anonymous | exp.Extract):
            _check_arguments(node, by_name)
        if isinstance(node, _OPERATORS) and any(map(_is_timestamp(by_name), node.args.values())):
            raise ErrWrongExprInPartitionFunc()
    text = function_text(tree)
    kind = function_of(text, columns).type
    whole = kind.family in (Family.INT, Family.UINT) and kind.Tp in INTEGER_BITS
    whole = whole or kind.Tp in (TypeCode.YEAR, TypeCode.BIT)
    if whole:
        return text
    inner = tree.unnest() if isinstance(tree, exp.Paren) else tree
    if isinstance(inner, exp.Column):
        raise ErrFieldTypeNotAllowedAsPartitionField(inner.name)
    raise ErrPartitionFuncNotAllowed("PARTITION")


def _is_timestamp(by_name: dict[str, ColumnInfo]) -> Callable[[object], bool]:
    def judged(operand: object) -> bool:
        return (
            isinstance(operand, exp.Column)
            and by_name[operand.name.lower()].type.Tp == TypeCode.TIMESTAMP
        )

    return judged


def _check_arguments(node: Any, by_name: dict[str, ColumnInfo]) -> None:
    """Raises 1486 for an argument of another type, and for a TIMESTAMP: it depends on the zone."""
    function = "EXTRACT" if isinstance(node, exp.Extract) else str(node.this).upper()
    allowed = _FUNCTIONS[function]
    if not allowed:
        if any(by_name[column].type.Tp == TypeCode.TIMESTAMP for column in columns_of(node)):
            raise ErrWrongExprInPartitionFunc()
        return
    if function == "UNIX_TIMESTAMP" and not node.expressions:
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
    """Check the columns of RANGE COLUMNS, LIST COLUMNS and KEY. Raises 1488, 1652, 1659."""
    by_name = {column.name.L: column for column in columns}
    used: set[str] = set()
    for text in names:
        column = by_name.get(text.lower())
        if column is None:
            raise ErrFieldNotFoundPart()
        if text.lower() in used:
            raise ErrSameNamePartitionField(text)
        used.add(text.lower())
        if not _may_cut(kind, column.type):
            raise ErrFieldTypeNotAllowedAsPartitionField(column.name.O)


def _may_cut(kind: str, field: FieldType) -> bool:
    if kind == "key":
        return field.Tp != TypeCode.JSON and field.Tp not in TEXT_BLOBS
    return field.Tp in _COLUMN_TYPES


def check_unique_keys(table: TableInfo, columns: Sequence[str]) -> None:
    """Raises 1503, 8264 unless every unique key contains all these columns without a prefix."""
    needed = set(columns)
    if table.pk_is_handle:
        handle = next(c for c in table.cols if c.type.Flag & Flag.PRI_KEY)
        if needed - {handle.name.L}:
            raise ErrUniqueKeyNeedAllFieldsInPf("CLUSTERED INDEX")
    for index in table.indexes:
        check_unique_key(index, needed)


_BOTH = "create an index that is both a global index and a clustered index"


def check_global(definitions: Iterable[IndexDefinition], partitioned: bool) -> None:
    """Raises 8200 for a GLOBAL index that is clustered or on a table without partitions."""
    for index in definitions:
        if index.is_global and not partitioned:
            raise ErrUnsupportedDDLOperation("Global Index on non-partitioned table")
        if index.is_global and index.clustered:
            raise ErrUnsupportedDDLOperation(_BOTH)


def with_updated_indexes(table: TableInfo, written: Partitioning) -> TableInfo:
    """The table with UPDATE INDEXES applied. Raises 1280, 1503, 8200."""
    kinds: dict[str, bool] = {}
    for text, is_global in written.indexes:
        index = table.index(text)
        if index is None and text.upper() == "PRIMARY" and table.pk_is_handle:
            raise ErrUniqueKeyNeedAllFieldsInPf("CLUSTERED INDEX")
        if index is None or index.state != SchemaState.PUBLIC or index.idx_name.L in kinds:
            raise ErrWrongNameForIndex(text)
        if is_global and index.exuvia_clustered:
            raise ErrUnsupportedDDLOperation(_BOTH)
        kinds[index.idx_name.L] = is_global
    indexes = tuple(
        evolve(index, is_global=kinds.get(index.idx_name.L, index.is_global))
        for index in table.indexes
    )
    return evolve(table, index_info=indexes or None)


def check_global_nodes(txn: Transaction) -> None:
    """Raises 8200 while a node serves that would not maintain a global index."""
    _check_older(member.before_0_4(txn), "Global Index")


def check_pair_nodes(txn: Transaction) -> None:
    """Raises 8200 while a node serves that does not support pairs of indexes."""
    _check_older(member.before_0_5(txn), "moving rows of a Global Index")


def _check_older(older: list[MemberInfo], operation: str) -> None:
    if older:
        titles = ", ".join(node.title for node in older)
        raise ErrUnsupportedDDLOperation(f"{operation}: {titles} of an older release serves")


def check_unique_key(index: IndexInfo, needed: set[str]) -> None:
    """Check one index of a table that is partitioned by these columns. Raises 1503, 8264."""
    whole = {part.name.L for part in index.idx_cols if part.length < 0}
    if index.is_unique and needed - whole and not index.is_global:
        if index.exuvia_clustered:
            raise ErrUniqueKeyNeedAllFieldsInPf("CLUSTERED INDEX")
        raise ErrGlobalIndexNotExplicitlySet(index.idx_name.O)


# -- INTERVAL: bounds at equal distances -----------------------------------------------------------
#
#     RANGE (id) INTERVAL (10) FIRST PARTITION LESS THAN (10) LAST PARTITION LESS THAN (30)
#         -> P_LT_10, P_LT_20, P_LT_30;  NULL PARTITION: P_NULL before, MAXVALUE ..: P_MAXVALUE
#
# The table stores only the partitions; FIRST and LAST PARTITION of an ALTER TABLE derive the
# distance from their bounds. Bounds at other distances are 8200.

UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_FIRST_DAY = "0000-01-01"


class Scheme(NamedTuple):
    """Bounds at equal distances. `unit` is "" for whole numbers; `first`, `last`: int or str."""

    amount: int
    unit: str
    first: Value
    last: Value = None


def written_out(
    interval: IntervalWritten, shape: Route, zone: tzinfo | None
) -> tuple[PartitionWritten, ...]:
    """The partitions of PARTITION BY RANGE .. INTERVAL .. Raises 8200, 1499."""
    kind = _stepped_type(shape)
    amount = constant(interval.amount, zone)[0]
    if not isinstance(amount, int) or amount <= 0:
        raise ErrUnsupportedDDLOperation("INTERVAL, should be a positive number")
    if bool(interval.unit) != (kind is not None and kind.Tp in _DATES):
        raise ErrUnsupportedDDLOperation(
            "INTERVAL partitioning: Error when generating partition values"
        )
    first, last = end_of(interval.first, zone), end_of(interval.last, zone)
    scheme = Scheme(amount, interval.unit, first, last)
    partitions = [_partition(bound, bound) for bound in _bounds(scheme)]
    if interval.with_null:
        partitions.insert(0, _partition("NULL", _lowest(shape, kind), "P_"))
    if interval.with_max:
        partitions.append(PartitionWritten(name="P_MAXVALUE", less_than=(exp.Var(this=MAXVALUE),)))
    return tuple(partitions)


def dropped_before(info: PartitionInfo, shape: Route, first: Value) -> list[str]:
    """Lower-case names of the partitions before the one that ends at `first`. Raises 8200."""
    located = _scheme_found(info, shape)
    if located is None:
        raise ErrUnsupportedDDLOperation(
            "FIRST PARTITION, does not seem like an INTERVAL partitioned table"
        )
    scheme, inner = located
    number = len(list(_bounds(scheme._replace(last=first)))) - 1
    if number == 0:
        reason = "FIRST PARTITION, given value does not generate a list of partition names "
        raise ErrUnsupportedDDLOperation(reason + "to be dropped")
    return [partition.name.L for partition in inner[:number]]


def added_until(info: PartitionInfo, shape: Route, last: Value) -> tuple[PartitionWritten, ...]:
    """The partitions after the last one, up to one that ends at `last`. Raises 8200."""
    located = _scheme_found(info, shape)
    if located is None:
        raise ErrUnsupportedDDLOperation(
            "LAST PARTITION, does not seem like an INTERVAL partitioned table"
        )
    if info.definitions[-1].less_than == (MAXVALUE,):
        raise ErrUnsupportedDDLOperation("LAST PARTITION when MAXVALUE partition exists")
    scheme, inner = located
    start = _read_bound(inner[-1], scheme.unit)
    bounds = _bounds(scheme._replace(first=start, last=last), skip=1)
    return tuple(_partition(bound, bound) for bound in bounds)


def _stepped_type(shape: Route) -> FieldType | None:
    """The type of the partitioning column; None for an expression."""
    if shape.compiled is not None:
        return None
    if len(shape.kinds) > 1:
        reason = "INTERVAL partitioning, does not allow RANGE COLUMNS with more than one column"
        raise ErrUnsupportedDDLOperation(reason)
    (kind,) = shape.kinds
    if kind.Tp not in INTEGER_BITS and kind.Tp not in _DATES:
        raise ErrUnsupportedDDLOperation(
            "INTERVAL partitioning, only supports Date, Datetime and INT types"
        )
    return kind


def _bounds(scheme: Scheme, skip: int = 0) -> Iterator[Value]:
    """Every bound from the first to the last. Raises 8200 if the last is not one of them."""
    for n in range(skip, PARTITIONS + 1):
        bound = _stepped(scheme, n)
        if bound is None and scheme.last is not None:
            raise ErrUnsupportedDDLOperation(
                "INTERVAL partitioning: Error when generating partition values"
            )
        if scheme.last is None or _place(bound) > _place(scheme.last):
            last = "" if scheme.last is None else scheme.last
            unit = f" {scheme.unit}" if scheme.unit else ""
            raise ErrUnsupportedDDLOperation(
                f"INTERVAL: expr ({last}) not matching FIRST + n INTERVALs "
                f"({scheme.first} + n * {scheme.amount}{unit})",
            )
        yield bound
        if _place(bound) == _place(scheme.last):
            return
    raise ErrTooManyPartitions()


def end_of(tree: Tree, zone: tzinfo | None) -> Value:
    """The constant of FIRST or LAST PARTITION: a number, or the text of a moment."""
    value, kind = constant(tree, zone)
    is_moment = kind.Tp in _DATES and value is not None
    return values.to_text(value, kind) if is_moment else value


def _place(bound: Value) -> Value:
    """The bound as a comparable value: the text of a moment may omit the time of day."""
    if not isinstance(bound, str):
        return bound
    try:
        return values.from_text(bound, MOMENT, values.LENIENT)
    except Refused:
        raise ErrWrongTypeColumnValue() from None


def _stepped(scheme: Scheme, n: int) -> Value:
    """The first bound plus n times the distance. Raises 8200 if this is not a valid value."""
    if not scheme.unit:
        if scheme.first is None or not isinstance(scheme.first, int):
            return None
        return scheme.first + n * scheme.amount
    if n == 0:
        return scheme.first
    text = f"DATE_ADD('{scheme.first}', INTERVAL {n * scheme.amount} {scheme.unit})"
    return constant(parse_expression(text), None)[0]


def _partition(label: Value, bound: Value, prefix: str = "P_LT_") -> PartitionWritten:
    number = isinstance(bound, int)
    tree = exp.Literal.number(bound) if number else exp.Literal.string(str(bound))
    return PartitionWritten(name=f"{prefix}{label}", less_than=(tree,))


def _lowest(shape: Route, kind: FieldType | None) -> Value:
    """The bound with only NULL below it."""
    if kind is None:
        assert shape.compiled is not None
        return 0 if shape.compiled.type.unsigned else -(1 << 63)
    if kind.Tp in _DATES:
        return _FIRST_DAY
    return 0 if kind.Flag & Flag.UNSIGNED else -(1 << (INTEGER_BITS[TypeCode(kind.Tp)] - 1))


def _read_bound(definition: PartitionDefinition, unit: str) -> Value:
    text = definition.less_than[0].strip("'")
    return text if unit else whole(text)


def _scheme_found(
    info: PartitionInfo, shape: Route
) -> tuple[Scheme, Sequence[PartitionDefinition]] | None:
    """The scheme of the bounds, and its partitions; None if the distances differ."""
    if info.type.name != "RANGE" or len(shape.kinds) > 1:
        return None
    kind = None if shape.compiled is not None else shape.kinds[0]
    moments = kind is not None and kind.Tp in _DATES
    if kind is not None and not moments and kind.Tp not in INTEGER_BITS:
        return None
    inner = list(info.definitions)
    if inner[0].less_than[0].strip("'") == str(_lowest(shape, kind)):
        inner = inner[1:]
    if inner and inner[-1].less_than == (MAXVALUE,):
        inner = inner[:-1]
    if len(inner) < 2:
        return None
    bounds = [_read_bound(partition, "DAY" if moments else "") for partition in inner]
    schemes = _moments(bounds) if moments else iter((Scheme(bounds[1] - bounds[0], "", bounds[0]),))
    for scheme in schemes:
        stepped = (_stepped(scheme, n) for n in range(len(bounds)))
        if all(_place(one) == _place(two) for one, two in zip(stepped, bounds, strict=True)):
            return scheme, inner
    return None


def _moments(bounds: Sequence[str]) -> Iterator[Scheme]:
    """Schemes with possible distances, the greatest unit first."""
    for unit in UNITS:
        text = f"TIMESTAMPDIFF({unit}, '{bounds[0]}', '{bounds[-1]}')"
        whole = constant(parse_expression(text), None)[0]
        if whole and whole % (len(bounds) - 1) == 0:
            yield Scheme(whole // (len(bounds) - 1), unit, bounds[0])


# -- bounds and lists ------------------------------------------------------------------------------

_TEXT_TYPES = (Family.STRING, Family.BYTES)
_MOMENTS = (TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIME)


def definition(
    written: PartitionWritten, shape: Route, modes: Modes = STRICT
) -> PartitionDefinition:
    """The definition of one partition. Moments are read in the zone of `modes`.

    Raises 1479, 1480, 1653, 1654, 1697, 1566."""
    if written.less_than is not None and shape.cut.type != PartitionType.RANGE:
        raise ErrPartitionWrongValues("RANGE", "LESS THAN")
    if written.in_values is not None and shape.cut.type != PartitionType.LIST:
        raise ErrPartitionWrongValues("LIST", "IN")
    if shape.cut.type == PartitionType.RANGE and written.less_than is None:
        raise ErrPartitionRequiresValues("RANGE", "LESS THAN")
    if shape.cut.type == PartitionType.LIST and written.in_values is None:
        raise ErrPartitionRequiresValues("LIST", "IN")
    less_than: tuple[str, ...] = ()
    in_values: tuple[tuple[str, ...], ...] = ()
    if written.less_than is not None:
        less_than = _bound(written, written.less_than, shape, modes)
    if written.in_values is not None:
        in_values = tuple(_listed(written, row, shape, modes) for row in written.in_values)
    return PartitionDefinition(
        name=name(written.name), less_than=less_than, in_values=in_values, comment=written.comment
    )


def _is_word(tree: Tree, word: str) -> bool:
    return isinstance(tree, exp.Var) and tree.name == word


def _bound(
    written: PartitionWritten, trees: Sequence[Tree], shape: Route, modes: Modes
) -> tuple[str, ...]:
    if shape.compiled is not None:
        if len(trees) != 1:
            raise ErrTooManyValues("RANGE")
        return (_number_text(trees[0], written.name, shape, modes.zone, is_bound=True),)
    if len(trees) != len(shape.kinds):
        raise ErrPartitionColumnList()
    return tuple(
        MAXVALUE if _is_word(tree, MAXVALUE) else _column_text(tree, kind, modes, strict=True)
        for tree, kind in zip(trees, shape.kinds, strict=True)
    )


def _listed(
    written: PartitionWritten, row: Sequence[Tree], shape: Route, modes: Modes
) -> tuple[str, ...]:
    if len(row) == 1 and _is_word(row[0], DEFAULT):
        return (DEFAULT,)
    if any(_is_word(tree, MAXVALUE) for tree in row):
        raise ErrMaxvalueInValuesIn()
    if shape.compiled is not None:
        if len(row) != 1:
            raise ErrRowSinglePartitionField()
        return (_number_text(row[0], written.name, shape, modes.zone, is_bound=False),)
    if len(row) != len(shape.kinds):
        raise ErrPartitionColumnList()
    return tuple(
        _column_text(tree, kind, modes, strict=False)
        for tree, kind in zip(row, shape.kinds, strict=True)
    )


def constant(tree: Tree, zone: tzinfo | None = None) -> tuple[Value, FieldType]:
    """A constant's value and type. `zone`: for UNIX_TIMESTAMP. Raises 1054 for a column."""
    env: Any = PlainEnv()
    env.zone = zone
    expression = expressions.compiled(tree, (), None, "partition function")
    value = expression.call([], env)
    return value, type_of(value, "n") if value is None else expression.type


def _number_text(
    tree: Tree, partition: str, shape: Route, zone: tzinfo | None, is_bound: bool
) -> str:
    if _is_word(tree, MAXVALUE):
        return MAXVALUE
    if isinstance(tree, exp.Null):
        if is_bound:
            raise ErrNullInValuesLessThan()
        return "NULL"
    value, kind = constant(tree, zone)
    if value is None and is_bound:
        raise ErrNullInValuesLessThan()
    if kind.family not in (Family.INT, Family.UINT) or not isinstance(value, int):
        raise ErrValuesIsNotIntType(partition)
    assert shape.compiled is not None
    if value < 0 and shape.compiled.type.unsigned:
        raise ErrPartitionConstDomain()
    return str(value)


def _column_text(tree: Tree, kind: FieldType, modes: Modes, strict: bool) -> str:
    """A value's text. `strict`: it must have the column's own type, as in RANGE COLUMNS."""
    if isinstance(tree, exp.Null):
        if strict:
            raise ErrNullInValuesLessThan()
        return "NULL"
    value, source = constant(tree)
    if strict and not _is_of(source, kind):
        raise ErrWrongTypeColumnValue()
    stored = _stored(value, source, kind, modes)
    if kind.Tp in INTEGER_BITS:
        return str(stored)
    if kind.family == Family.BYTES:
        return f"0x{bytes(stored).hex()}" if strict else _bytes_text(stored)
    if strict and isinstance(value, str) and kind.Tp != TypeCode.TIME:
        return quoted_text(value)
    text = values.to_text(stored, kind)
    text = text if isinstance(text, str) else text.decode()
    is_printable = all(character.isprintable() or character in _ESCAPED for character in text)
    return quoted_text(text) if is_printable else f"0x{text.encode().hex()}"


def _stored(value: Value, source: FieldType, kind: FieldType, modes: Modes) -> Value:
    """The value as the column stores it. Raises 1654, also if a serving node could not read it."""
    try:
        return values.convert(value, source, kind)
    except Refused:
        if modes.has_older():
            raise ErrWrongTypeColumnValue() from None
    try:
        mode = values.Mode(modes.zero_dates, modes.any_day, zero_parts=modes.zero_parts)
        return values.convert(value, source, kind, mode)
    except Refused:
        raise ErrWrongTypeColumnValue() from None


_ESCAPED = frozenset("\0\b\t\n\r\x1a")  # written as a backslash and a letter


def _bytes_text(raw: bytes) -> str:
    try:
        return quoted_text(raw.decode())
    except UnicodeDecodeError:
        return f"0x{raw.hex()}"


def _is_of(source: FieldType, kind: FieldType) -> bool:
    """Whether a literal of type `source` may be a bound for a column of type `kind`."""
    if kind.Tp in INTEGER_BITS:
        return source.family in (Family.INT, Family.UINT)
    if kind.Tp in _MOMENTS:
        return source.family in (*_TEXT_TYPES, Family.DATE, Family.DATETIME, Family.TIME)
    return source.family in _TEXT_TYPES


def check_definitions(route: Route) -> None:
    """Check names, order and values of all definitions. Raises 1517, 1481, 1493, 1495."""
    check_names([partition.name.O for partition in route.cut.definitions])
    if route.cut.type == PartitionType.RANGE:
        check_increasing(route)
    elif route.cut.type == PartitionType.LIST:
        check_listed_once(route)


def check_names(names: Sequence[str]) -> None:
    """Raises 1517, 1567."""
    used: set[str] = set()
    for text in names:
        if not text or text.endswith(" "):
            raise ErrWrongPartitionName()
        if text.lower() in used:
            raise ErrSameNamePartition(text)
        used.add(text.lower())


def check_increasing(route: Route) -> None:
    """Raises 1481, 1493."""
    for partition in route.cut.definitions[:-1]:
        if route.compiled is not None and partition.less_than == (MAXVALUE,):
            raise ErrPartitionMaxvalue()
    for low, high in zip(route.bounds, route.bounds[1:], strict=False):
        if not low < high:
            raise ErrRangeNotIncreasing()
    for before, after in pairwise(route.cut.definitions):
        # a row that is equal up to a MAXVALUE is below it, whatever its later columns are
        for bound, following in zip(before.less_than, after.less_than, strict=False):
            if bound == MAXVALUE:
                raise ErrRangeNotIncreasing()
            if bound != following:
                break


def check_listed_once(route: Route) -> None:
    """Raises 1495."""
    texts = [row for partition in route.cut.definitions for row in partition.in_values]
    defaults = sum(row == (DEFAULT,) for row in texts)
    if defaults > 1 or len(route.listed) + defaults != len(texts):
        raise ErrMultipleDefConstInListPart()


def shape_of(
    columns: Sequence[ColumnInfo], kind: PartitionType, expr: str, names: Sequence[str]
) -> Route:
    """A route without partitions, for reading definitions."""
    return Route(columns, Cut(kind, expr, tuple(text.lower() for text in names), ()))


# -- the text of a function and its bounds, as in TiDB ---------------------------------------------
#
#     year(d) + 1     YEAR(`d`)+1             mod(a, 4)      `a`%4
#     t.a div 2       `a` DIV 2               'x'            'x'
#
# Names in backquotes without their table, functions and keywords in capitals, no spaces around
# operators.

_SIGNS: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: " DIV ",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}


def quoted_name(text: str) -> str:
    """A name in backquotes."""
    return "`" + text.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def function_text(tree: Tree) -> str:
    """The text of a partitioning function."""
    behind: list[str] = []  # no recursion along a chain of thousands of terms
    while (sign := _SIGNS.get(type(tree))) is not None:
        behind.append(f"{sign}{function_text(tree.expression)}")
        tree = tree.this
    if behind:
        return function_text(tree) + "".join(reversed(behind))
    if isinstance(tree, exp.Column):
        return quoted_name(tree.name)
    if isinstance(tree, exp.Paren):
        return f"({function_text(tree.this)})"
    if isinstance(tree, exp.Neg):
        return f"-{function_text(tree.this)}"
    if isinstance(tree, exp.Literal):
        return quoted_text(tree.name) if tree.is_string else str(tree.name)
    if isinstance(tree, exp.Extract):
        return f"EXTRACT({tree.this.name.upper()} FROM {function_text(tree.expression)})"
    if isinstance(tree, exp.Anonymous):
        return _call(tree)
    return tree.sql(dialect="mysql")


def _call(tree: exp.Anonymous) -> str:
    name = str(tree.this).upper()
    arguments = [function_text(argument) for argument in tree.expressions]
    if name == "MOD" and len(arguments) == 2:
        return "%".join(arguments)
    return f"{name}({', '.join(arguments)})"
