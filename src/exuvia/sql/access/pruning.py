"""Partition pruning: the partitions that may have rows of a WHERE. May return others, too.

    partitioned by     terms used                                     remaining
    RANGE (c)          c = <> IN BETWEEN                              a run of partitions, or points
    RANGE (f(c))       if f rises with c (YEAR, TO_DAYS, ...): the same by f's values; else c = only
    RANGE COLUMNS      leading columns                                partitions whose bounds fit
    LIST (c), COLUMNS  any comparison of its columns                  those with a matching value
    HASH, KEY          = and IN of all columns                        points

It is planned once from the shape, and computed from the constants of each run. Inexact constants
prune nothing. `PARTITION (p, q)` allows only the named partitions.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from exuvia.base.interruption import checked
from exuvia.base.mysql_errors import ErrUnknownPartition
from exuvia.base.types import Family, Value
from exuvia.catalog.model import PartitionType
from exuvia.catalog.table import Table
from exuvia.sql.access.partitions import BEYOND, NOWHERE, Key, Route, number_key, route_of
from exuvia.sql.access.ranger import EQUALITIES, INEXACT, LIKE, NOTHING, Term, Terms, bounder
from exuvia.sql.env import Execution
from exuvia.sql.expr import Cast, Column, Expr, walk

MOST_POINTS = 1000
_RISING = frozenset({"year", "to_days", "to_seconds", "unix_timestamp", "floor", "ceiling", "ceil"})
_MOMENTS = {Family.DATE, Family.DATETIME}
Places = frozenset[int]


class Side(NamedTuple):
    """A comparison of one column with a value of its type."""

    operator: str
    value: Value


class PartitionChoice:
    """The partitions that a statement reads. `named` are the partitions in PARTITION ()."""

    def __init__(self, table: Table, terms: Terms, named: Sequence[str] = ()) -> None:
        self.table = table
        self.route: Route = route_of(table)
        self._every = _in_use(table)
        self._named = places_named(table, named) if named else self._every
        self._reads = _positions(self.route)
        read = (term for term in terms.usable if term.position in self._reads)
        self._terms = tuple(term for term in read if term.operator != LIKE)

    def parts(self, context: Execution) -> tuple[Table, ...]:
        """The remaining partitions, in order."""
        places = self._named & self.places(context) if self._terms else self._named
        if len(places) == self.route.number:
            return self.table.parts
        return tuple(part for n, part in enumerate(self.table.parts) if n in places)

    def names(self, context: Execution) -> str:
        """The text for EXPLAIN: p0,p1 or all or dual."""
        chosen = self.parts(context)
        if len(chosen) == len(self._every):
            return "all"
        ids = {part.physical_id for part in chosen}
        part_names = [
            definition.name.O for definition in self.route.cut.definitions if definition.id in ids
        ]
        return ",".join(part_names) or "dual"

    def places(self, context: Execution) -> Places:
        """The places of the partitions that the terms leave."""
        sides = self._sides(context)
        if sides is None:
            return frozenset()
        points = self._points(sides)
        for position, comparisons in sides.items():  # NULL selects a point and bounds nothing
            sides[position] = [side for side in comparisons if side.operator != "null"]
        remaining = self._every if points is None else points
        kind = self.route.cut.type
        if kind == PartitionType.RANGE and self.route.compiled is None:
            return remaining & _by_columns(self.route, sides)
        if kind == PartitionType.RANGE:
            return remaining & self._by_function(sides)
        if kind == PartitionType.LIST:
            return remaining & self._by_values(sides)
        return remaining

    def _sides(self, context: Execution) -> dict[int, list[Side]] | None:
        """Comparisons by position; None if one is never true."""
        sides_by_position: dict[int, list[Side]] = {}
        columns = self.table.info.cols
        for term in self._terms:
            bounds = _values(term, columns[term.position].type, context)
            if bounds is INEXACT:
                continue
            if term.operator == "<=>" and not bounds:
                sides_by_position.setdefault(term.position, []).append(
                    Side("null", frozenset((None,)))
                )
                continue
            if not bounds:
                return None
            sides = sides_by_position.setdefault(term.position, [])
            is_equal = term.operator in EQUALITIES
            value = frozenset(bounds) if is_equal else bounds[0]
            sides.append(Side("in" if is_equal else term.operator, value))
        return sides_by_position

    # -- points ------------------------------------------------------------------------------------

    def _points(self, sides: dict[int, list[Side]]) -> Places | None:
        """The places of all combinations of values; None if a column has no equality."""
        columns = []
        for position in self._reads:
            chosen = [s.value for s in sides.get(position, ()) if s.operator in ("in", "null")]
            if not chosen:
                return None
            columns.append(min(chosen, key=len))
        number = 1
        for values in columns:
            number *= len(values)
        if number > MOST_POINTS:
            return None
        places = set()
        for values in product(*columns):
            place = self._place(values)
            if place is None:
                return None
            places.add(place)
        return frozenset(places - {NOWHERE})

    def by_part(
        self, positions: Sequence[int], rows: Sequence[tuple[Value, ...]]
    ) -> dict[int, list[tuple[Value, ...]]] | None:
        """The rows of values by the id of their partition; None if the place is unknown.

        `positions` are the positions of the values' columns."""
        if not self._reads or not set(self._reads) <= set(positions):
            return None
        reads = [positions.index(position) for position in self._reads]
        values_by_part: dict[int, list[tuple[Value, ...]]] = {}
        for values in checked(rows):
            place = self._place([values[n] for n in reads])
            if place is None:
                return None
            if place != NOWHERE:
                values_by_part.setdefault(self.table.parts[place].physical_id, []).append(values)
        return values_by_part

    def _place(self, values: Sequence[Value]) -> int | None:
        row: list[Value] = [None] * len(self.table.info.cols)
        for position, value in zip(self._reads, values, strict=True):
            row[position] = value
        try:
            return self.route.place(row)
        except (ArithmeticError, ValueError, TypeError):
            return None

    # -- functions ---------------------------------------------------------------------------------

    def _by_function(self, sides: dict[int, list[Side]]) -> Places:
        compiled = self.route.compiled
        if compiled is None or len(self._reads) != 1 or not _rises(compiled.bound):
            return self._every
        low: Key = (0,)
        high: Key = BEYOND
        exact = isinstance(compiled.bound, Column)
        for side in sides.get(self._reads[0], ()):
            if side.operator == "in":
                continue
            row: list[Value] = [None] * len(self.table.info.cols)
            row[self._reads[0]] = side.value
            key = number_key(self.route.value(row))
            if key == (0,):
                continue
            if side.operator[0] == ">":
                low = max(low, (1, key[1] + (exact and side.operator == ">")))
            else:
                high = min(high, (1, key[1] - (exact and side.operator == "<")))
        if low == (0,) and high == BEYOND:
            return self._every
        return _run(self.route.bounds, low, high)

    def _by_values(self, sides: dict[int, list[Side]]) -> Places:
        """The partitions with a value that passes all comparisons, and the default one."""
        route = self.route
        is_column = route.compiled is not None and isinstance(route.compiled.bound, Column)
        if route.compiled is not None and not is_column:
            return self._every
        places = {route.default} - {NOWHERE}
        for key, place in route.listed.items():
            parts = (key,) if is_column else key
            checks = zip(self._reads, parts, strict=True)
            if all(
                self._lets(n, part, side)
                for n, (position, part) in enumerate(checks)
                for side in sides.get(position, ())
            ):
                places.add(place)
        return frozenset(places)

    def _lets(self, n: int, part: Key, side: Side) -> bool:
        if part == (0,):
            return False
        make = number_key if self.route.compiled is not None else _keyed(self.route, n)
        if side.operator == "in":
            return part in {make(value) for value in side.value}
        other = make(side.value)
        if side.operator == "<":
            return bool(part < other)
        if side.operator == "<=":
            return bool(part <= other)
        return bool(part > other) if side.operator == ">" else bool(part >= other)


def _keyed(route: Route, n: int) -> Value:
    return lambda value: route.column_key(n, value)


def _run(bounds: Sequence[Key], low: Key, high: Key) -> Places:
    """The partitions that may have rows in low..high. A partition ends before its bound."""
    places = set()
    begins: Key = (-1,)
    for n, bound in enumerate(bounds):
        if low < bound and begins <= high:
            places.add(n)
        begins = bound
    return frozenset(places)


def _by_columns(route: Route, sides: dict[int, list[Side]]) -> Places:
    """Prunes RANGE COLUMNS by leading equalities, then by the range of the next column."""
    low: list[Key] = []
    high: list[Key] = []
    open_low = open_high = False
    for n, position in enumerate(route.positions):
        column_sides = sides.get(position, ())
        points = [s.value for s in column_sides if s.operator == "in"]
        keys = sorted(route.column_key(n, value) for value in min(points, key=len, default=()))
        if keys:
            low.append(keys[0])
            high.append(keys[-1])
            if len(keys) > 1:
                break
            continue
        lows = [
            (route.column_key(n, s.value), s.operator) for s in column_sides if s.operator[0] == ">"
        ]
        highs = [
            (route.column_key(n, s.value), s.operator) for s in column_sides if s.operator[0] == "<"
        ]
        if lows:
            key, operator = max(lows)
            low.append(key)
            open_low = operator == ">"
        if highs:
            key, operator = min(highs)
            high.append(key)
            open_high = operator == "<"
        break
    return _between(route.bounds, tuple(low), tuple(high), open_low, open_high)


def _between(bounds: Sequence[Key], low: Key, high: Key, open_low: bool, open_high: bool) -> Places:
    """The partitions that may have rows whose first values are in low..high."""
    places = set()
    before: Key = ()
    for n, bound in enumerate(bounds):
        ends = bound[: len(low)] < low or (bound == low)
        first = before[: len(high)]
        begins = bool(before and high) and (first > high or (open_high and first == high))
        if not ends and not begins:
            places.add(n)
        before = bound
    return frozenset(places)


def _values(term: Term, kind: Any, context: Execution) -> Value:
    """The term's constants as bounds, without those that are never equal, or INEXACT."""
    bound = bounder(kind, term.operator in EQUALITIES)
    bounds = [bound(constant(context)) for constant in term.constants]
    if any(value is INEXACT for value in bounds):
        return INEXACT
    return [value for value in bounds if value is not NOTHING]


def _positions(route: Route) -> tuple[int, ...]:
    if route.compiled is None:
        return route.positions
    return tuple(
        dict.fromkeys(n.position for n in walk(route.compiled.bound) if isinstance(n, Column))
    )


def _rises(bound: Expr) -> bool:
    """Whether the function never decreases when its column increases."""
    if isinstance(bound, Column):
        return True
    name = getattr(bound, "function", "")
    arguments: tuple[Expr, ...] = getattr(bound, "arguments", ())
    return name in _RISING and len(arguments) == 1 and _rises(_uncast(arguments[0]))


def _uncast(bound: Expr) -> Expr:
    """The argument of a cast between DATE and DATETIME, which does not change the order."""
    if isinstance(bound, Cast) and {bound.type.family, bound.argument.type.family} <= _MOMENTS:
        return bound.argument
    return bound


def _in_use(table: Table) -> Places:
    """The places of the partitions that are read; excludes those being dropped."""
    partition = table.info.partition
    assert partition is not None
    unused = partition.unused
    return frozenset(
        n for n, definition in enumerate(partition.definitions) if definition.id not in unused
    )


def places_named(table: Table, named: Sequence[str]) -> Places:
    """The places of the partitions in PARTITION (). Raises 1735."""
    partition = table.info.partition
    assert partition is not None
    names = [definition.name.L for definition in partition.definitions]
    for text in named:
        if text.lower() not in names:
            raise ErrUnknownPartition(text, table.info.name.O)
    return frozenset(names.index(text.lower()) for text in named)
