"""Where rows belong while partitions change: in the set that is read, and in the other one.

    HASH, RANGE by one column   numpy: a remainder, a search among the bounds
    anything else               each different value (or row of values) once, by the route itself

Of one column: the partitioning function is that column, or RANGE COLUMNS has one that is held as a
number. The answers are those of `Route.place`.

`mover` is found by its name (`MOVER` in access/partitions.py) by the pipeline, which moves rows and
knows no SQL (pipeline/kernels/move.py). The name stands in jobs at rest, those of older programs
too: neither module nor function may move.
"""

from collections.abc import Sequence

import numpy as np

from exuvia.base.errors import Refused
from exuvia.base.types import Family, Value
from exuvia.catalog.columns import Array, Columns, Vector
from exuvia.catalog.model import PartitionType
from exuvia.catalog.table import Table
from exuvia.pipeline.kernels.move import PartitionSets
from exuvia.sql.access.partitions import NOWHERE, Route, other_route, route_of
from exuvia.sql.expr import Column, columns_of
from exuvia.sql.result import Row

_NUMBERS = frozenset({Family.INT, Family.UINT, Family.DATE, Family.DATETIME, Family.TIME})


class RouteWay:
    """A route over columns: pipeline/kernels/move.py's Way. `ids` are those of the definitions."""

    def __init__(self, route: Route, ids: Sequence[int], width: int) -> None:
        self._route = route
        self._ids = np.array([*ids, 0], dtype=np.int64)  # NOWHERE is -1: the last
        self._width = width
        self.positions = _inputs(route)
        self._single = _single(route, self.positions)

    def places(self, columns: Columns) -> Array:
        """The physical id of each row's partition, 0: nowhere."""
        found: Array = self._ids[self._places(columns)]
        return found

    def refusal(self, columns: Columns, row: int) -> Refused:
        """1526, with the row's value."""
        values = [columns.column(each).to_list()[row] for each in self.positions]
        return self._route.refusal(self._row(values))

    def _places(self, columns: Columns) -> Array:
        kind = self._route.cut.type
        if kind == PartitionType.NONE:
            return np.zeros(columns.rows, dtype=np.int64)
        if self._single:
            vector = columns.column(self.positions[0])
            if kind == PartitionType.HASH:
                return _by_hash(vector, self._route.number)
            if kind == PartitionType.RANGE:
                return _by_range(vector, self._route)
        known: dict[tuple[Value, ...], int] = {}
        lists = [columns.column(each).to_list() for each in self.positions]
        found = np.empty(columns.rows, dtype=np.int64)
        for n, values in enumerate(zip(*lists, strict=True)):
            place = known.get(values)
            if place is None:
                place = known[values] = self._route.place(self._row(values))
            found[n] = place
        return found

    def _row(self, values: Sequence[Value]) -> Row:
        row: Row = [None] * self._width
        for position, value in zip(self.positions, values, strict=True):
            row[position] = value
        return row


def _inputs(route: Route) -> list[int]:
    """Positions of the columns that a route reads."""
    if route.compiled is not None:
        return sorted(columns_of(route.compiled.bound))
    return sorted(set(route.positions))


def _single(route: Route, inputs: list[int]) -> bool:
    """Whether one column, as it is held, decides."""
    if len(inputs) != 1:
        return False
    if route.compiled is not None:
        bound = route.compiled.bound
        return isinstance(bound, Column) and bound.type.family in (Family.INT, Family.UINT)
    return len(route.kinds) == 1 and route.kinds[0].family in _NUMBERS


def _by_hash(vector: Vector, number: int) -> Array:
    values = vector.values
    if values.dtype.kind == "i":  # the least number has no positive one of its kind
        values = np.where(values < 0, np.uint64(0) - values.astype("<u8"), values.astype("<u8"))
    found: Array = (values % np.uint64(number)).astype(np.int64)
    return _nulls_first(found, vector)


def _by_range(vector: Vector, route: Route) -> Array:
    values = vector.values
    limits = np.iinfo(values.dtype)
    bounds = [_number(each) for each in route.bounds]
    below = sum(each is not None and each < limits.min for each in bounds)
    known = [each for each in bounds if each is not None and limits.min <= each <= limits.max]
    found = np.searchsorted(np.array(known, dtype=values.dtype), values, side="right") + below
    return _nulls_first(np.where(found < route.number, found, NOWHERE), vector)


def _number(bound: Value) -> int | None:
    """A bound's number; None for MAXVALUE. See Route.bounds."""
    held = bound[0] if bound and isinstance(bound[0], tuple) else bound
    return int(held[1]) if len(held) > 1 else None


def _nulls_first(found: Array, vector: Vector) -> Array:
    return found if vector.nulls is None else np.where(vector.nulls, 0, found)


def mover(table: Table) -> PartitionSets:
    """The ways of a table's rows."""

    def way(route: Route) -> RouteWay:
        return RouteWay(route, [each.id for each in route.cut.definitions], len(table.info.cols))

    found = table.info.partition
    assert found is not None
    read = way(route_of(table))
    changes = found.moving or found.guarded
    return PartitionSets(way(other_route(table, found)) if changes else read, read)
