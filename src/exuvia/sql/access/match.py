"""What the terms of a WHERE give for a key: equalities of first parts, then a range of the next.

    key (a, b, c)    a = 1 AND b IN (2, 3) AND c > 4     equal (a, b)   range (c >)     whole: no
                     a = 1 AND c > 4                     equal (a)      no range: b is missing

`spans` turns that into ranges of store keys at each run; None where a constant is no exact bound
for its column, and then the path has to read everything.
"""

from collections.abc import Sequence
from typing import NamedTuple

from exuvia.catalog.codec import key_codec
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.packet import Span
from exuvia.sql.access.bounds import INEXACT, NOTHING, Bounder
from exuvia.sql.access.terms import Term, Terms
from exuvia.sql.access.zoned import Doubtful, zoned_bounder
from exuvia.sql.result import Value
from exuvia.sql.statement.context import Context

MOST_SPANS = 10_000
Values = tuple[Value, ...]


class Match(NamedTuple):
    """See the module. `equals` and `ranges` say how constants become bounds, `prefixed` whether a
    part is cut to some characters; all go part by part."""

    key: IndexInfo
    positions: tuple[int, ...]
    equals: tuple[Bounder, ...]
    ranges: tuple[Bounder, ...]
    prefixed: tuple[bool, ...]
    equal: tuple[Term, ...]
    range: tuple[Term, ...]

    @property
    def whole(self) -> bool:
        """Whether every part is given."""
        return len(self.equal) == len(self.positions)

    @property
    def used(self) -> bool:
        """Whether it narrows anything."""
        return bool(self.equal or self.range)

    def covers(self, table: Table, terms: Terms) -> bool:
        """Whether the whole WHERE is said by this key, so that no row must be looked at again."""
        parts = len(self.equal) + bool(self.range)
        if any(self.prefixed[:parts]) or not key_codec.is_exact(table, self.key):
            return False
        taken = self.equal + self.range
        if any(term.computed or term.zone for term in taken):
            return False
        conjuncts = {term.conjunct for term in taken}
        asked = sum(term.conjunct in conjuncts for term in terms.usable)
        return len(conjuncts) == terms.conjuncts and asked == len(taken)


def match(table: Table, index: IndexInfo, positions: Sequence[int], terms: Terms) -> Match:
    """What the terms give for a key whose parts stand at these positions."""
    types = tuple(table.info.cols[position].type for position in positions)
    prefixed = tuple(part.length >= 0 for part in index.idx_cols)
    equal: list[Term] = []
    ranges: tuple[Term, ...] = ()
    for position in positions:
        term = _equality(position, terms)
        if term is None:
            ranges = _two_sides(position, terms)
            break
        equal.append(term)
    zones = {term.position: term.zone for term in terms.usable}
    kinds = [(kind, zones.get(position)) for kind, position in zip(types, positions, strict=True)]
    equals = tuple(zoned_bounder(kind, True, zone) for kind, zone in kinds)
    sides = tuple(zoned_bounder(kind, False, zone) for kind, zone in kinds)
    return Match(index, tuple(positions), equals, sides, prefixed, tuple(equal), ranges)


def _equality(position: int, terms: Terms) -> Term | None:
    found = [t for t in terms.usable if t.position == position and t.operator in ("=", "in")]
    return min(found, key=lambda term: len(term.constants), default=None)


def _two_sides(position: int, terms: Terms) -> tuple[Term, ...]:
    found = [term for term in terms.usable if term.position == position]
    low = next((term for term in found if term.operator in (">", ">=")), None)
    high = next((term for term in found if term.operator in ("<", "<=")), None)
    return tuple(term for term in (low, high) if term is not None)


def combinations(found: Match, context: Context) -> list[Values] | None:
    """Every combination of the values given for the equal parts; None where one is inexact."""
    rows: list[Values] = [()]
    for term, bound in zip(found.equal, found.equals, strict=False):
        values = []
        for constant in term.constants:
            value = bound(constant(context))
            if value is INEXACT:
                return None
            if value is not NOTHING:
                values.append(value)
        rows = [(*row, value) for row in rows for value in values]
        if len(rows) > MOST_SPANS:
            return None
    return rows


class _Side(NamedTuple):
    values: Values
    inclusive: bool


def spans(table: Table, found: Match, context: Context) -> list[Span] | None:
    """Ranges of keys, in order and apart from each other; None where a constant is inexact."""
    rows = combinations(found, context)
    if rows is None:
        return None
    low, high = _Side((), True), _Side((), True)
    for term in found.range:
        part = len(found.equal)
        value = found.ranges[part](term.constants[0](context))
        if value is INEXACT:
            return None
        if value is NOTHING:
            return []
        inclusive, from_below = term.operator.endswith("="), term.operator[0] == ">"
        if isinstance(value, Doubtful):
            inclusive, value = True, value.first if from_below else value.last
        side = _Side((value,), found.prefixed[part] or inclusive)
        low, high = (side, high) if from_below else (low, side)
    if found.range and not low.values:
        low = _Side((None,), False)
    bounds = {_span(table, found.key, row, low, high) for row in rows}
    return _apart(sorted(span for span in bounds if span.start < span.end))


def _span(table: Table, index: IndexInfo, row: Values, low: _Side, high: _Side) -> Span:
    if not table.info.pk_is_handle or not index.exuvia_clustered:
        return key_codec.index_range(
            table,
            index,
            (*row, *low.values),
            (*row, *high.values),
            low.inclusive,
            high.inclusive,
        )
    first = () if low.values == (None,) else (*row, *low.values)
    return key_codec.index_range(
        table, index, first, (*row, *high.values), low.inclusive, high.inclusive
    )


def _apart(found: list[Span]) -> list[Span]:
    """Neighbours that overlap (cut keys) become one."""
    merged: list[Span] = []
    for span in found:
        if merged and span.start < merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(span.end, merged[-1].end))
        else:
            merged.append(span)
    return merged
