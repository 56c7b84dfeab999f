"""Which partitions a WHERE leaves: those that may hold a row it keeps, and maybe more.

    cut by             terms used                                     left
    RANGE (c)          c = <> IN BETWEEN                              a run of partitions, or points
    RANGE (f(c))       f rises with c (YEAR, TO_DAYS, ...): likewise, by f's values; else c = only
    RANGE COLUMNS      leading columns                                partitions whose bounds meet
    LIST (c), COLUMNS  any comparison of its columns                  those with a value that fits
    HASH, KEY          = and IN of all columns                        points

Planned once from the shape, computed at each run from the constants; what is inexact prunes
nothing. `PARTITION (p, q)` leaves only the partitions it names.
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
from exuvia.sql.access.ranger import EQUALITIES, INEXACT, NOTHING, Term, Terms, bounder
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
    """Which partitions of a table a statement reads. `named`: None, or places in PARTITION ()."""

    def __init__(self, table: Table, terms: Terms, named: Sequence[str] = ()) -> None:
        self.table = table
        self.route: Route = route_of(table)
        self._every = _in_use(table)
        self._named = places_named(table, named) if named else self._every
        self._reads = _positions(self.route)
        self._terms = tuple(term for term in terms.usable if term.position in self._reads)

    def parts(self, context: Execution) -> tuple[Table, ...]:
        """The partitions, in order."""
        places = self._named & self.places(context) if self._terms else self._named
        if len(places) == self.route.number:
            return self.table.parts
        return tuple(part for n, part in enumerate(self.table.parts) if n in places)

    def names(self, context: Execution) -> str:
        """For EXPLAIN: p0,p1 or all or dual."""
        chosen = self.parts(context)
        if len(chosen) == len(self._every):
            return "all"
        ids = {part.physical_id for part in chosen}
        found = [each.name.O for each in self.route.cut.definitions if each.id in ids]
        return ",".join(found) or "dual"

    def places(self, context: Execution) -> Places:
        """Places of the partitions that the terms leave."""
        sides = self._sides(context)
        if sides is None:
            return frozenset()
        points = self._points(sides)
        for position, each in sides.items():  # a NULL says where a row is, and bounds nothing
            sides[position] = [side for side in each if side.operator != "null"]
        found = self._every if points is None else points
        kind = self.route.cut.type
        if kind == PartitionType.RANGE and self.route.compiled is None:
            return found & _by_columns(self.route, sides)
        if kind == PartitionType.RANGE:
            return found & self._by_function(sides)
        if kind == PartitionType.LIST:
            return found & self._by_values(sides)
        return found

    def _sides(self, context: Execution) -> dict[int, list[Side]] | None:
        """Comparisons by position; None where one is never true."""
        found: dict[int, list[Side]] = {}
        columns = self.table.info.cols
        for term in self._terms:
            given = _values(term, columns[term.position].type, context)
            if given is INEXACT:
                continue
            if term.operator == "<=>" and not given:
                found.setdefault(term.position, []).append(Side("null", frozenset((None,))))
                continue
            if not given:
                return None
            sides = found.setdefault(term.position, [])
            is_equal = term.operator in EQUALITIES
            value = frozenset(given) if is_equal else given[0]
            sides.append(Side("in" if is_equal else term.operator, value))
        return found

    # -- points ------------------------------------------------------------------------------------

    def _points(self, sides: dict[int, list[Side]]) -> Places | None:
        """Where the combinations of given values lie; None where a column is not given."""
        given = []
        for position in self._reads:
            chosen = [s.value for s in sides.get(position, ()) if s.operator in ("in", "null")]
            if not chosen:
                return None
            given.append(min(chosen, key=len))
        number = 1
        for values in given:
            number *= len(values)
        if number > MOST_POINTS:
            return None
        found = set()
        for values in product(*given):
            place = self._place(values)
            if place is None:
                return None
            found.add(place)
        return frozenset(found - {NOWHERE})

    def by_part(
        self, positions: Sequence[int], rows: Sequence[tuple[Value, ...]]
    ) -> dict[int, list[tuple[Value, ...]]] | None:
        """Values of columns at these positions, by the id of the partition that their row lies in;
        None where they do not tell."""
        if not self._reads or not set(self._reads) <= set(positions):
            return None
        reads = [positions.index(position) for position in self._reads]
        found: dict[int, list[tuple[Value, ...]]] = {}
        for values in checked(rows):
            place = self._place([values[n] for n in reads])
            if place is None:
                return None
            if place != NOWHERE:
                found.setdefault(self.table.parts[place].physical_id, []).append(values)
        return found

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
        """Partitions with a value that every comparison lets through, and the default one."""
        route = self.route
        is_column = route.compiled is not None and isinstance(route.compiled.bound, Column)
        if route.compiled is not None and not is_column:
            return self._every
        found = {route.default} - {NOWHERE}
        for key, place in route.listed.items():
            parts = (key,) if is_column else key
            checks = zip(self._reads, parts, strict=True)
            if all(
                self._lets(n, part, side)
                for n, (position, part) in enumerate(checks)
                for side in sides.get(position, ())
            ):
                found.add(place)
        return frozenset(found)

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
    """Partitions whose rows may lie in low..high; a partition ends before its bound."""
    found = set()
    begins: Key = (-1,)
    for n, bound in enumerate(bounds):
        if low < bound and begins <= high:
            found.add(n)
        begins = bound
    return frozenset(found)


def _by_columns(route: Route, sides: dict[int, list[Side]]) -> Places:
    """RANGE COLUMNS: leading equalities, then the range of the next column."""
    low: list[Key] = []
    high: list[Key] = []
    open_low = open_high = False
    for n, position in enumerate(route.positions):
        given = sides.get(position, ())
        points = [s.value for s in given if s.operator == "in"]
        keys = sorted(route.column_key(n, value) for value in min(points, key=len, default=()))
        if keys:
            low.append(keys[0])
            high.append(keys[-1])
            if len(keys) > 1:
                break
            continue
        lows = [(route.column_key(n, s.value), s.operator) for s in given if s.operator[0] == ">"]
        highs = [(route.column_key(n, s.value), s.operator) for s in given if s.operator[0] == "<"]
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
    """Partitions that may have rows whose first values are low..high."""
    found = set()
    before: Key = ()
    for n, bound in enumerate(bounds):
        ends = bound[: len(low)] < low or (bound == low)
        first = before[: len(high)]
        begins = bool(before and high) and (first > high or (open_high and first == high))
        if not ends and not begins:
            found.add(n)
        before = bound
    return frozenset(found)


def _values(term: Term, kind: Any, context: Execution) -> Value:
    """The term's constants as bounds, without those that are never equal; INEXACT."""
    bound = bounder(kind, term.operator in EQUALITIES)
    found = [bound(constant(context)) for constant in term.constants]
    if any(value is INEXACT for value in found):
        return INEXACT
    return [value for value in found if value is not NOTHING]


def _positions(route: Route) -> tuple[int, ...]:
    if route.compiled is None:
        return route.positions
    return tuple(
        dict.fromkeys(n.position for n in walk(route.compiled.bound) if isinstance(n, Column))
    )


def _rises(bound: Expr) -> bool:
    """Whether the function never falls when its column rises."""
    if isinstance(bound, Column):
        return True
    name = getattr(bound, "function", "")
    arguments: tuple[Expr, ...] = getattr(bound, "arguments", ())
    return name in _RISING and len(arguments) == 1 and _rises(_uncast(arguments[0]))


def _uncast(bound: Expr) -> Expr:
    """A moment as another kind of moment keeps its order."""
    if isinstance(bound, Cast) and {bound.type.family, bound.argument.type.family} <= _MOMENTS:
        return bound.argument
    return bound


def _in_use(table: Table) -> Places:
    """Places of the partitions that are read: not of those being dropped."""
    found = table.info.partition
    assert found is not None
    unused = found.unused
    return frozenset(n for n, each in enumerate(found.definitions) if each.id not in unused)


def places_named(table: Table, named: Sequence[str]) -> Places:
    """Places of the partitions of PARTITION (). Raises 1735."""
    found = table.info.partition
    assert found is not None
    names = [each.name.L for each in found.definitions]
    for text in named:
        if text.lower() not in names:
            raise ErrUnknownPartition(text, table.info.name.O)
    return frozenset(names.index(text.lower()) for text in named)
