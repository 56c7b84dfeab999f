"""The partitions of rows during a partition change: in the set that is read, and in the other set.

    HASH, RANGE by one column   numpy: a remainder, a binary search in the bounds
    anything else               `Route.place`, once per distinct value (or row of values)

"By one column" means that the partitioning function is the column, or that RANGE COLUMNS has a
single column that is stored as a number. The results are those of `Route.place`.

The pipeline moves rows without using SQL (pipeline/kernels/move.py), and imports `mover` by its
name (`MOVER` in access/partitions.py). The name is stored in queued jobs, also in those of older
programs: never rename the module or the function.
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
    """A route over columns: a Way of pipeline/kernels/move.py. `ids` are the definitions' ids."""

    def __init__(self, route: Route, ids: Sequence[int], width: int) -> None:
        self._route = route
        self._ids = np.array([*ids, 0], dtype=np.int64)  # NOWHERE is -1, the last
        self._width = width
        self.positions = _inputs(route)
        self._single = _single(route, self.positions)

    def places(self, columns: Columns) -> Array:
        """The physical id of each row's partition; 0 if no partition fits."""
        ids: Array = self._ids[self._places(columns)]
        return ids

    def refusal(self, columns: Columns, row: int) -> Refused:
        """1526, with the row's value."""
        values = [columns.column(position).to_list()[row] for position in self.positions]
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
        places: dict[tuple[Value, ...], int] = {}
        lists = [columns.column(position).to_list() for position in self.positions]
        row_places = np.empty(columns.rows, dtype=np.int64)
        for n, values in enumerate(zip(*lists, strict=True)):
            place = places.get(values)
            if place is None:
                place = places[values] = self._route.place(self._row(values))
            row_places[n] = place
        return row_places

    def _row(self, values: Sequence[Value]) -> Row:
        row: Row = [None] * self._width
        for position, value in zip(self.positions, values, strict=True):
            row[position] = value
        return row


def _inputs(route: Route) -> list[int]:
    """The positions of the columns that a route reads."""
    if route.compiled is not None:
        return sorted(columns_of(route.compiled.bound))
    return sorted(set(route.positions))


def _single(route: Route, inputs: list[int]) -> bool:
    """Whether the stored value of one column decides."""
    if len(inputs) != 1:
        return False
    if route.compiled is not None:
        bound = route.compiled.bound
        return isinstance(bound, Column) and bound.type.family in (Family.INT, Family.UINT)
    return len(route.kinds) == 1 and route.kinds[0].family in _NUMBERS


def _by_hash(vector: Vector, number: int) -> Array:
    values = vector.values
    if values.dtype.kind == "i":  # the least integer has no positive counterpart in its type
        values = np.where(values < 0, np.uint64(0) - values.astype("<u8"), values.astype("<u8"))
    remainders: Array = (values % np.uint64(number)).astype(np.int64)
    return _nulls_first(remainders, vector)


def _by_range(vector: Vector, route: Route) -> Array:
    values = vector.values
    limits = np.iinfo(values.dtype)
    bounds = [_number(bound) for bound in route.bounds]
    below = sum(bound is not None and bound < limits.min for bound in bounds)
    limits_in_type = [
        bound for bound in bounds if bound is not None and limits.min <= bound <= limits.max
    ]
    row_places = (
        np.searchsorted(np.array(limits_in_type, dtype=values.dtype), values, side="right") + below
    )
    return _nulls_first(np.where(row_places < route.number, row_places, NOWHERE), vector)


def _number(bound: Value) -> int | None:
    """The bound's number; None for MAXVALUE. See Route.bounds."""
    key = bound[0] if bound and isinstance(bound[0], tuple) else bound
    return int(key[1]) if len(key) > 1 else None


def _nulls_first(places: Array, vector: Vector) -> Array:
    return places if vector.nulls is None else np.where(vector.nulls, 0, places)


def mover(table: Table) -> PartitionSets:
    """The routes of a table's rows: into the set that changes, and into the set that is read."""

    def way(route: Route) -> RouteWay:
        return RouteWay(
            route, [definition.id for definition in route.cut.definitions], len(table.info.cols)
        )

    partition = table.info.partition
    assert partition is not None
    read = way(route_of(table))
    changes = partition.moving or partition.guarded
    return PartitionSets(way(other_route(table, partition)) if changes else read, read)
