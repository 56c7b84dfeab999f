"""PARTITION BY becomes a PartitionInfo, as TiDB makes it.

    HASH, KEY without definitions   p0, p1, ... as many as PARTITIONS says (1 by default)
    LINEAR, SUBPARTITION            a warning; cut without it
    KEY ()                          by the primary key

Ids are given later: an info's definitions stand in the order in which ids are asked for.
"""

from collections.abc import Callable, Sequence
from datetime import tzinfo

from exuvia.base.limits import PARTITIONS
from exuvia.base.mysql_errors import (
    ErrFieldNotFoundPart,
    ErrNoParts,
    ErrPartitionsMustBeDefined,
    ErrPartitionWrongNoPart,
    ErrSubpartition,
    ErrTooManyPartitionFuncFields,
    ErrTooManyPartitions,
    ErrUnsupportedDDLOperation,
)
from exuvia.base.types import Flag
from exuvia.catalog.model import TableInfo, name
from exuvia.catalog.partition_info import PartitionDefinition, PartitionInfo, PartitionType
from exuvia.sql.access.partitions import Route, cut_of
from exuvia.sql.define.partition_checks import (
    check_columns,
    check_function,
    check_unique_keys,
    columns_of,
)
from exuvia.sql.define.partition_interval import written_out
from exuvia.sql.define.partition_values import check_definitions, definition, shape_of
from exuvia.sql.nodes import Partitioning, PartitionWritten
from exuvia.sql.parse.text import parse_expression

Warn = Callable[[int, str], None]
_MOST_COLUMNS = 16


def partition_info(
    table: TableInfo, written: Partitioning, warn: Warn, zone: tzinfo | None = None
) -> PartitionInfo:
    """How the table is to be cut; `zone` is where its bounds are meant.

    Raises Refused, see the modules it uses."""
    kind = PartitionType[written.kind.upper()]
    _warn(written, warn)
    names, expr = _function(table, written)
    shape = shape_of(table.cols, kind, expr, names)
    definitions = _definitions(written, shape, zone)
    info = PartitionInfo(
        type=kind,
        expr=expr,
        columns=tuple(name(text) for text in names),
        is_empty_columns=written.columns == (),
        definitions=definitions,
        num=len(definitions),
    )
    check_definitions(Route(table.cols, cut_of(info)))
    if len(definitions) > PARTITIONS:
        raise ErrTooManyPartitions()
    check_unique_keys(table, partition_columns(info))
    return info


def partition_columns(info: PartitionInfo) -> list[str]:
    """Lower-case names of the columns that decide where a row goes."""
    if info.columns or not info.expr:
        return [each.L for each in info.columns]
    return columns_of(parse_expression(info.expr))


def _warn(written: Partitioning, warn: Warn) -> None:
    kind = written.kind.upper()
    if written.linear:
        warn(
            ErrUnsupportedDDLOperation.code,
            f"LINEAR {kind} is not supported, using non-linear {kind} instead",
        )
    if written.subpartitioned and written.kind in ("hash", "key"):
        raise ErrSubpartition()
    if written.subpartitioned:
        warn(
            ErrUnsupportedDDLOperation.code,
            f"Unsupported subpartitioning, only using {kind} partitioning",
        )


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
    """The columns of KEY (): the primary key's, else those of a unique key without NULL."""
    if table.pk_is_handle:
        return tuple(c.name.O for c in table.cols if c.type.Flag & Flag.PRI_KEY)
    for wanted in ("is_primary", "is_unique"):
        for index in table.indexes:
            parts = [table.column(part.name.L) for part in index.idx_cols]
            if getattr(index, wanted) and all(part and part.not_null for part in parts):
                return tuple(part.name.O for part in index.idx_cols)
    raise ErrFieldNotFoundPart()


def _definitions(
    written: Partitioning, shape: Route, zone: tzinfo | None
) -> tuple[PartitionDefinition, ...]:
    kind = shape.cut.type
    if written.interval is not None:
        if kind != PartitionType.RANGE:
            raise ErrUnsupportedDDLOperation(
                "INTERVAL partitioning, only allowed on RANGE partitioning"
            )
        made = written_out(written.interval, shape, zone)
        return tuple(definition(each, shape) for each in made)
    if kind in (PartitionType.RANGE, PartitionType.LIST):
        if not written.definitions:
            raise ErrPartitionsMustBeDefined(kind.name)
        if written.number is not None and written.number != len(written.definitions):
            raise ErrPartitionWrongNoPart()
        return tuple(definition(each, shape, zone) for each in written.definitions)
    if written.number == 0:
        raise ErrNoParts("partitions")
    if written.definitions:
        if written.number is not None and written.number != len(written.definitions):
            raise ErrPartitionWrongNoPart()
        return tuple(definition(each, shape, zone) for each in written.definitions)
    number = 1 if written.number is None else written.number
    if number > PARTITIONS:
        raise ErrTooManyPartitions()
    return numbered(0, number)


def numbered(first: int, end: int) -> tuple[PartitionDefinition, ...]:
    """p{first}, ..."""
    return tuple(PartitionDefinition(name=name(f"p{n}")) for n in range(first, end))


def added_definitions(
    table: TableInfo,
    info: PartitionInfo,
    written: Sequence[PartitionWritten],
    zone: tzinfo | None = None,
) -> tuple[PartitionDefinition, ...]:
    """Definitions as the table's function reads them."""
    shape = shape_like(table, info)
    return tuple(definition(each, shape, zone) for each in written)


def shape_like(table: TableInfo, info: PartitionInfo) -> Route:
    """What definitions of a partitioned table are read against."""
    return shape_of(table.cols, info.type, info.expr, [each.L for each in info.columns])
