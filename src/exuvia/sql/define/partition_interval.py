"""INTERVAL partitions of a RANGE table: bounds at equal distances, written out when they are made.

    RANGE (id) INTERVAL (10) FIRST PARTITION LESS THAN (10) LAST PARTITION LESS THAN (30)
        -> P_LT_10, P_LT_20, P_LT_30;  NULL PARTITION: P_NULL before, MAXVALUE PARTITION: P_MAXVALUE

The table keeps the partitions alone; FIRST and LAST PARTITION of an ALTER TABLE find the distance
again in their bounds. What is not of the scheme is 8200.
"""

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple

from sqlglot import exp

from exuvia.base.limits import PARTITIONS
from exuvia.base.mysql_errors import ErrTooManyPartitions, ErrUnsupportedDDLOperation
from exuvia.base.types import INTEGER_BITS, FieldType, Flag, TypeCode
from exuvia.catalog.partition_info import MAXVALUE, PartitionDefinition, PartitionInfo
from exuvia.sql.access.partitions import Route
from exuvia.sql.define.partition_values import constant
from exuvia.sql.nodes import PartitionWritten
from exuvia.sql.nodes.partitions import IntervalWritten
from exuvia.sql.parse.text import parse_expression

UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_FIRST_DAY = "0000-01-01"
_MOMENTS = (TypeCode.DATE, TypeCode.DATETIME)


class Scheme(NamedTuple):
    """Bounds at equal distances. `unit` is "" for whole numbers; `first`, `last`: int or str."""

    amount: int
    unit: str
    first: Any
    last: Any = None


def written_out(
    asked: IntervalWritten, shape: Route, zone: tzinfo | None
) -> tuple[PartitionWritten, ...]:
    """The partitions that PARTITION BY RANGE .. INTERVAL .. asks for. Raises 8200, 1499."""
    kind = _kind(shape)
    scheme = _scheme(asked, kind, zone)
    found = [_partition(bound, bound) for bound in _bounds(scheme)]
    if asked.with_null:
        found.insert(0, _partition("NULL", _lowest(shape, kind), "P_"))
    if asked.with_max:
        found.append(PartitionWritten(name="P_MAXVALUE", less_than=(exp.Var(this=MAXVALUE),)))
    return tuple(found)


def dropped_before(info: PartitionInfo, shape: Route, first: Any) -> list[str]:
    """Lower-case names of the partitions before the one that ends at `first`. Raises 8200."""
    found = _found(info, shape)
    if found is None:
        raise ErrUnsupportedDDLOperation(
            "FIRST PARTITION, does not seem like an INTERVAL partitioned table"
        )
    scheme, inner = found
    number = len(list(_bounds(scheme._replace(last=first)))) - 1
    if number == 0:
        said = "FIRST PARTITION, given value does not generate a list of partition names "
        raise ErrUnsupportedDDLOperation(said + "to be dropped")
    return [each.name.L for each in inner[:number]]


def added_until(info: PartitionInfo, shape: Route, last: Any) -> tuple[PartitionWritten, ...]:
    """The partitions after the last one, up to one that ends at `last`. Raises 8200."""
    found = _found(info, shape)
    if found is None:
        raise ErrUnsupportedDDLOperation(
            "LAST PARTITION, does not seem like an INTERVAL partitioned table"
        )
    if info.definitions[-1].less_than == (MAXVALUE,):
        raise ErrUnsupportedDDLOperation("LAST PARTITION when MAXVALUE partition exists")
    scheme, inner = found
    start = _read(inner[-1], scheme.unit)
    bounds = _bounds(scheme._replace(first=start, last=last), skip=1)
    return tuple(_partition(bound, bound) for bound in bounds)


def _kind(shape: Route) -> FieldType | None:
    """The column's type; None where an expression cuts."""
    if shape.compiled is not None:
        return None
    if len(shape.kinds) > 1:
        said = "INTERVAL partitioning, does not allow RANGE COLUMNS with more than one column"
        raise ErrUnsupportedDDLOperation(said)
    (kind,) = shape.kinds
    if kind.Tp not in INTEGER_BITS and kind.Tp not in _MOMENTS:
        raise ErrUnsupportedDDLOperation(
            "INTERVAL partitioning, only supports Date, Datetime and INT types"
        )
    return kind


def _scheme(asked: IntervalWritten, kind: FieldType | None, zone: tzinfo | None) -> Scheme:
    amount = constant(asked.amount, zone)[0]
    if not isinstance(amount, int) or amount <= 0:
        raise ErrUnsupportedDDLOperation("INTERVAL, should be a positive number")
    if bool(asked.unit) != (kind is not None and kind.Tp in _MOMENTS):
        raise ErrUnsupportedDDLOperation(
            "INTERVAL partitioning: Error when generating partition values"
        )
    first, last = constant(asked.first, zone)[0], constant(asked.last, zone)[0]
    return Scheme(amount, asked.unit, first, last)


def _bounds(scheme: Scheme, skip: int = 0) -> Iterator[Any]:
    """Every bound from the first to the last. Raises 8200 where the last is not one of them."""
    for n in range(skip, PARTITIONS + 1):
        bound = _moved(scheme, n)
        if bound is None and scheme.last is not None:
            raise ErrUnsupportedDDLOperation(
                "INTERVAL partitioning: Error when generating partition values"
            )
        if scheme.last is None or bound > scheme.last:
            last = "" if scheme.last is None else scheme.last
            unit = f" {scheme.unit}" if scheme.unit else ""
            raise ErrUnsupportedDDLOperation(
                f"INTERVAL: expr ({last}) not matching FIRST + n INTERVALs "
                f"({scheme.first} + n * {scheme.amount}{unit})",
            )
        yield bound
        if bound == scheme.last:
            return
    raise ErrTooManyPartitions()


def _moved(scheme: Scheme, n: int) -> Any:
    """The first bound and n times the distance. Raises 8200 where that is no such value."""
    if not scheme.unit:
        if scheme.first is None or not isinstance(scheme.first, int):
            return None
        return scheme.first + n * scheme.amount
    if n == 0:
        return scheme.first
    text = f"DATE_ADD('{scheme.first}', INTERVAL {n * scheme.amount} {scheme.unit})"
    return constant(parse_expression(text), None)[0]


def _partition(label: Any, bound: Any, prefix: str = "P_LT_") -> PartitionWritten:
    number = isinstance(bound, int)
    tree = exp.Literal.number(bound) if number else exp.Literal.string(str(bound))
    return PartitionWritten(name=f"{prefix}{label}", less_than=(tree,))


def _lowest(shape: Route, kind: FieldType | None) -> Any:
    """The bound below which only NULL lies."""
    if kind is None:
        assert shape.compiled is not None
        return 0 if shape.compiled.type.unsigned else -(1 << 63)
    if kind.Tp in _MOMENTS:
        return _FIRST_DAY
    return 0 if kind.Flag & Flag.UNSIGNED else -(1 << (INTEGER_BITS[TypeCode(kind.Tp)] - 1))


def _read(definition: PartitionDefinition, unit: str) -> Any:
    text = definition.less_than[0].strip("'")
    return text if unit else int(text)


def _found(
    info: PartitionInfo, shape: Route
) -> tuple[Scheme, Sequence[PartitionDefinition]] | None:
    """The scheme that the bounds follow, and the partitions of it; None where there is none."""
    if info.type.name != "RANGE" or len(shape.kinds) > 1:
        return None
    kind = None if shape.compiled is not None else shape.kinds[0]
    moments = kind is not None and kind.Tp in _MOMENTS
    if kind is not None and not moments and kind.Tp not in INTEGER_BITS:
        return None
    inner = list(info.definitions)
    if inner[0].less_than[0].strip("'") == str(_lowest(shape, kind)):
        inner = inner[1:]
    if inner and inner[-1].less_than == (MAXVALUE,):
        inner = inner[:-1]
    if len(inner) < 2:
        return None
    bounds = [_read(each, "DAY" if moments else "") for each in inner]
    schemes = _moments(bounds) if moments else iter((Scheme(bounds[1] - bounds[0], "", bounds[0]),))
    for scheme in schemes:
        if all(_moved(scheme, n) == bound for n, bound in enumerate(bounds)):
            return scheme, inner
    return None


def _moments(bounds: Sequence[str]) -> Iterator[Scheme]:
    """What may be the distance, the greatest unit first."""
    for unit in UNITS:
        text = f"TIMESTAMPDIFF({unit}, '{bounds[0]}', '{bounds[-1]}')"
        whole = constant(parse_expression(text), None)[0]
        if whole and whole % (len(bounds) - 1) == 0:
            yield Scheme(whole // (len(bounds) - 1), unit, bounds[0])
