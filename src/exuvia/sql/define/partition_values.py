"""Bounds and lists of partitions: trees become the texts that the catalog keeps, checked.

    RANGE, LIST (e)    whole numbers, computed       1697 not a number   1566 NULL as a bound
    ... COLUMNS        literals of the column's type 1654 another type   1653 another number of them

1481 MAXVALUE not last   1493 not increasing   1495 twice   1517 name twice   1563 out of domain
"""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrMaxvalueInValuesIn,
    ErrMultipleDefConstInListPart,
    ErrNullInValuesLessThan,
    ErrPartitionColumnList,
    ErrPartitionConstDomain,
    ErrPartitionMaxvalue,
    ErrPartitionRequiresValues,
    ErrPartitionWrongValues,
    ErrRangeNotIncreasing,
    ErrRowSinglePartitionField,
    ErrSameNamePartition,
    ErrTooManyValues,
    ErrValuesIsNotIntType,
    ErrWrongPartitionName,
    ErrWrongTypeColumnValue,
)
from exuvia.base.types import INTEGER_BITS, Family, FieldType, TypeCode
from exuvia.catalog import values
from exuvia.catalog.model import name
from exuvia.catalog.partition_info import (
    DEFAULT,
    MAXVALUE,
    PartitionDefinition,
    PartitionType,
)
from exuvia.sql import expressions
from exuvia.sql.access.partitions import Cut, Route
from exuvia.sql.define.partition_text import quoted_text
from exuvia.sql.evaluate.env import PlainEnv
from exuvia.sql.nodes import PartitionWritten, Tree
from exuvia.sql.parse.literals import type_of

_TEXT_TYPES = (Family.STRING, Family.BYTES)
_MOMENTS = (TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIME)


def definition(
    written: PartitionWritten, shape: Route, zone: tzinfo | None = None
) -> PartitionDefinition:
    """One partition's definition; `zone` is where its moments are meant.

    Raises 1479, 1480, 1653, 1654, 1697, 1566."""
    _check_clause(written, shape.cut.type)
    less_than: tuple[str, ...] = ()
    in_values: tuple[tuple[str, ...], ...] = ()
    if written.less_than is not None:
        less_than = _bound(written, written.less_than, shape, zone)
    if written.in_values is not None:
        in_values = tuple(_listed(written, row, shape, zone) for row in written.in_values)
    return PartitionDefinition(
        name=name(written.name), less_than=less_than, in_values=in_values, comment=written.comment
    )


def _check_clause(written: PartitionWritten, kind: PartitionType) -> None:
    if written.less_than is not None and kind != PartitionType.RANGE:
        raise ErrPartitionWrongValues("RANGE", "LESS THAN")
    if written.in_values is not None and kind != PartitionType.LIST:
        raise ErrPartitionWrongValues("LIST", "IN")
    if kind == PartitionType.RANGE and written.less_than is None:
        raise ErrPartitionRequiresValues("RANGE", "LESS THAN")
    if kind == PartitionType.LIST and written.in_values is None:
        raise ErrPartitionRequiresValues("LIST", "IN")


def _is_word(tree: Tree, word: str) -> bool:
    return isinstance(tree, exp.Var) and tree.name == word


def _bound(
    written: PartitionWritten, trees: Sequence[Tree], shape: Route, zone: tzinfo | None
) -> tuple[str, ...]:
    if shape.compiled is not None:
        if len(trees) != 1:
            raise ErrTooManyValues("RANGE")
        return (_number_text(trees[0], written.name, shape, zone, is_bound=True),)
    if len(trees) != len(shape.kinds):
        raise ErrPartitionColumnList()
    return tuple(
        MAXVALUE if _is_word(tree, MAXVALUE) else _column_text(tree, kind, strict=True)
        for tree, kind in zip(trees, shape.kinds, strict=True)
    )


def _listed(
    written: PartitionWritten, row: Sequence[Tree], shape: Route, zone: tzinfo | None
) -> tuple[str, ...]:
    if len(row) == 1 and _is_word(row[0], DEFAULT):
        return (DEFAULT,)
    if any(_is_word(tree, MAXVALUE) for tree in row):
        raise ErrMaxvalueInValuesIn()
    if shape.compiled is not None:
        if len(row) != 1:
            raise ErrRowSinglePartitionField()
        return (_number_text(row[0], written.name, shape, zone, is_bound=False),)
    if len(row) != len(shape.kinds):
        raise ErrPartitionColumnList()
    return tuple(
        _column_text(tree, kind, strict=False) for tree, kind in zip(row, shape.kinds, strict=True)
    )


def constant(tree: Tree, zone: tzinfo | None = None) -> tuple[Any, FieldType]:
    """A constant's value and type; `zone` is that of UNIX_TIMESTAMP. Raises 1054 for a column."""
    env: Any = PlainEnv()
    env.zone = zone
    found = expressions.compiled(tree, (), env, "partition function")
    value = found.call([], env)
    return value, type_of(value, "n") if value is None else found.type


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


def _column_text(tree: Tree, kind: FieldType, strict: bool) -> str:
    """A value's text. `strict`: it must be of the column's own type, as RANGE COLUMNS asks."""
    if isinstance(tree, exp.Null):
        if strict:
            raise ErrNullInValuesLessThan()
        return "NULL"
    value, source = constant(tree)
    if strict and not _is_of(source, kind):
        raise ErrWrongTypeColumnValue()
    try:
        stored = values.convert(value, source, kind)
    except Refused:
        raise ErrWrongTypeColumnValue() from None
    if kind.Tp in INTEGER_BITS:
        return str(stored)
    if kind.family == Family.BYTES:
        return f"0x{bytes(stored).hex()}" if strict else _bytes_text(stored)
    if strict and isinstance(value, str):
        return quoted_text(value)
    text = values.to_text(stored, kind)
    return quoted_text(text if isinstance(text, str) else text.decode())


def _bytes_text(raw: bytes) -> str:
    try:
        return quoted_text(raw.decode())
    except UnicodeDecodeError:
        return f"0x{raw.hex()}"


def _is_of(source: FieldType, kind: FieldType) -> bool:
    """Whether a literal of one type may bound a column of another."""
    if kind.Tp in INTEGER_BITS:
        return source.family in (Family.INT, Family.UINT)
    if kind.Tp in _MOMENTS:
        return source.family in (*_TEXT_TYPES, Family.DATE, Family.DATETIME, Family.TIME)
    return source.family in _TEXT_TYPES


def check_definitions(route: Route) -> None:
    """Names, order and values of all definitions. Raises 1517, 1481, 1493, 1495."""
    check_names([each.name.O for each in route.cut.definitions])
    if route.cut.type == PartitionType.RANGE:
        check_increasing(route)
    elif route.cut.type == PartitionType.LIST:
        check_listed_once(route)


def check_names(names: Sequence[str]) -> None:
    """Raises 1517, 1567."""
    seen: set[str] = set()
    for text in names:
        if not text or text.endswith(" "):
            raise ErrWrongPartitionName()
        if text.lower() in seen:
            raise ErrSameNamePartition(text)
        seen.add(text.lower())


def check_increasing(route: Route) -> None:
    """Raises 1481, 1493."""
    for each in route.cut.definitions[:-1]:
        if route.compiled is not None and each.less_than == (MAXVALUE,):
            raise ErrPartitionMaxvalue()
    for low, high in zip(route.bounds, route.bounds[1:], strict=False):
        if not low < high:
            raise ErrRangeNotIncreasing()


def check_listed_once(route: Route) -> None:
    """Raises 1495."""
    texts = [row for each in route.cut.definitions for row in each.in_values]
    defaults = sum(row == (DEFAULT,) for row in texts)
    if defaults > 1 or len(route.listed) + defaults != len(texts):
        raise ErrMultipleDefConstInListPart()


def shape_of(columns: Sequence[Any], kind: PartitionType, expr: str, names: Sequence[str]) -> Route:
    """A route without partitions: what definitions are read against."""
    return Route(columns, Cut(kind, expr, tuple(each.lower() for each in names), ()))
