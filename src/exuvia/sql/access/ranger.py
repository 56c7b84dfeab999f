"""The conditions of a WHERE that a key can serve: column, comparison, constant.

    a = 1 AND b IN (2, 3) AND c > 4 AND d BETWEEN 5 AND 6 AND (e = 7 OR f = 8)
    Term(a, =)  Term(b, in)   Term(c, >)  Term(d, >=) Term(d, <=)   no term: left to the evaluator

`a IS NULL` and `a <=> 1` are equalities too, "<=>", of which NULL is a value. A unique key may have
many of it, so they make no point of one. An outer join fills up with NULL: what looks below it
leaves them out (`Terms.strict`).

What the terms of a WHERE give for a key: equalities of first parts, then a range of the next.

    key (a, b, c)    a = 1 AND b IN (2, 3) AND c > 4     equal (a, b)   range (c >)     whole: no
                     a = 1 AND c > 4                     equal (a)      no range: b is missing

`spans` turns that into ranges of store keys at each run; None where a constant is no exact bound
for its column, and then the path has to read everything. Constants as bounds of a key:

    column      constant                      bound
    INT, UINT   whole number, '12'            the number
    DECIMAL     number, '1.5'                 the number
    FLOAT       number, '1.5'                 the number
    STRING      text                          the text (its collation is the column's)
    BYTES       text, bytes                   the bytes
    DATE ...    text of a date and time,      packed, to the microsecond
                a typed one (EXECUTE USING)
    any         NULL                          NOTHING: no comparison with NULL is true
    any         anything else                 INEXACT: the condition is left to the evaluator

Bounds on TIMESTAMP columns: kept in UTC, compared as local time of the session's zone.

    local time             UTC                                   bound
    any other              one moment                            exact
    twice, in autumn       two, an hour apart                    =  INEXACT    < >  the outer one
    never, in spring       two guesses around the change         likewise
    names its own zone     left to the evaluator                 INEXACT

A bound never leaves out a row the condition would keep; the condition itself is evaluated again
wherever the bound says less than it.

Expressions that an index holds: a WHERE that says `a + 1 = 5` is as good as one that names the
hidden column of an index on (a + 1), or an indexed generated column of the same type. The texts
compared are those of parse/restore.py. A literal is part of the text, so plans of tables with such
indexes are not kept by shape.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from decimal import Decimal
from typing import Final, NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.codec import key_codec
from exuvia.catalog.convert import values
from exuvia.catalog.decimals import whole
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.catalog.temporal import from_moment, shift_zone, to_moment
from exuvia.kv.packet import Span
from exuvia.sql import walks
from exuvia.sql.bind.binding import Binding
from exuvia.sql.env import Execution
from exuvia.sql.expr import means_alike
from exuvia.sql.expressions import ConstantOf, comparand_of
from exuvia.sql.functions.moment import names_zone
from exuvia.sql.generated import generated_columns, scope_of
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.literals import TypedValue
from exuvia.sql.parse.restore import matched_text, without_charset
from exuvia.sql.parse.text import parse_expression

# -- bounds ----------------------------------------------------------------------------------------


class _Mark:
    """A bound that is no value."""


INEXACT: Final = _Mark()
NOTHING: Final = _Mark()

_WHOLE = re.compile(r"[+-]?\d{1,15}").fullmatch
_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d{1,15})?").fullmatch
_MOMENT = FieldType(Tp=TypeCode.DATETIME, Flen=26, Decimal=6)
_TIME = FieldType(Tp=TypeCode.TIME, Flen=17, Decimal=6)
_DAY_BITS = 37
_NUMBERS = (int, float, Decimal)
_MOMENTS = (Family.DATE, Family.DATETIME, Family.TIME)


Bounder = Callable[[Value], Value]
Maker = Callable[[Value, FieldType], Value]


def bounder(kind: FieldType, equality: bool) -> Bounder:
    """How a value becomes a bound on a column of that type: the bound, or NOTHING, or INEXACT."""
    if kind.Tp in (TypeCode.ENUM, TypeCode.SET, TypeCode.YEAR, TypeCode.BIT):
        make: Maker = _named if equality else _inexact
    else:
        make = _BOUNDS.get(kind.family, _inexact)
    if make is _integer:
        least, most = (0, (1 << 64) - 1) if kind.unsigned else (-(1 << 63), (1 << 63) - 1)

        def bound(value: Value) -> Value:
            if type(value) is int and least <= value <= most:
                return value
            return NOTHING if value is None else _integer(value, kind)

        return bound
    return lambda value: NOTHING if value is None else make(value, kind)


def _inexact(value: Value, kind: FieldType) -> Value:
    return INEXACT


def _integer(value: Value, kind: FieldType) -> Value:
    number: int | None = _whole(value)
    least: int = 0 if kind.unsigned else -(1 << 63)
    beyond: int = 1 << 64 if kind.unsigned else 1 << 63
    return number if number is not None and least <= number < beyond else INEXACT


def _whole(value: object) -> int | None:
    """The whole number a value is, without doubt."""
    if isinstance(value, str):
        return whole(value) if _WHOLE(value) else None
    if isinstance(value, Decimal | float):
        return int(value) if abs(float(value)) < 1 << 53 and value == int(value) else None
    return value if isinstance(value, int) else None


def _decimal(value: Value, kind: FieldType) -> Value:
    if isinstance(value, str):
        return Decimal(value) if _NUMBER(value) else INEXACT
    return Decimal(value) if isinstance(value, int | Decimal) else INEXACT


def _float(value: Value, kind: FieldType) -> Value:
    if isinstance(value, str):
        return float(value) if _NUMBER(value) else INEXACT
    return float(value) if isinstance(value, int | float | Decimal) else INEXACT


def _string(value: Value, kind: FieldType) -> Value:
    return value if isinstance(value, str) else INEXACT


def _bytes(value: Value, kind: FieldType) -> Value:
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else INEXACT


def _moment(value: Value, kind: FieldType) -> Value:
    if isinstance(value, TypedValue):
        return _typed_moment(value, kind)
    if not isinstance(value, str):
        return INEXACT
    try:
        packed = values.from_text(value, _TIME if kind.Tp == TypeCode.TIME else _MOMENT)
    except Refused:
        return INEXACT
    return _of_day(packed, kind)


def _typed_moment(given: TypedValue, kind: FieldType) -> Value:
    """A TIME compares with a TIME alone: with a day it is a time of today."""
    family = given.type.family
    is_time = family == Family.TIME
    if family not in _MOMENTS or is_time != (kind.family == Family.TIME):
        return INEXACT
    return _of_day(given.value << _DAY_BITS if family == Family.DATE else given.value, kind)


def _of_day(packed: int, kind: FieldType) -> Value:
    if kind.Tp != TypeCode.DATE:
        return packed
    return INEXACT if packed & ((1 << _DAY_BITS) - 1) else packed >> _DAY_BITS


def _named(value: Value, kind: FieldType) -> Value:
    """ENUM by its word; the others only by number."""
    if isinstance(value, int) and kind.Tp != TypeCode.YEAR:
        return value if 0 <= value < 1 << 64 else INEXACT
    if kind.Tp != TypeCode.ENUM or not isinstance(value, str):
        return INEXACT
    found = [n for n, word in enumerate(kind.Elems or ()) if word == value]
    return found[0] + 1 if found else INEXACT


_BOUNDS: dict[Family, Callable[[Value, FieldType], Value]] = {
    Family.INT: _integer,
    Family.UINT: _integer,
    Family.DECIMAL: _decimal,
    Family.FLOAT: _float,
    Family.STRING: _string,
    Family.BYTES: _bytes,
    Family.DATE: _moment,
    Family.DATETIME: _moment,
    Family.TIME: _moment,
}


# -- terms -----------------------------------------------------------------------------------------

Resolve = Callable[[exp.Column], int | None]
Expressions = Mapping[str, int]  # text of an expression -> position of the column that holds it

_COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_MIRRORED = {"=": "=", "<=>": "<=>", "!=": "!=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}


class Term(NamedTuple):
    """`conjunct` counts the parts of the WHERE, so that one knows which of them a path covers.

    `computed`: not the column is named but the expression that it holds. `zone`: the constants are
    local times of it, the column is kept in UTC."""

    position: int
    operator: str
    constants: tuple[ConstantOf, ...]
    conjunct: int
    computed: bool = False
    zone: tzinfo | None = None

    @property
    def asks_null(self) -> bool:
        """IS NULL."""
        return self.operator == "<=>" and self.constants == (_null,)


class Terms(NamedTuple):
    """What a WHERE offers: usable terms, and how many conjuncts there are in all.

    `others`: != , IS NULL and IS NOT NULL, which no range serves, but a partial index may
    follow from."""

    usable: tuple[Term, ...]
    conjuncts: int
    others: tuple[Term, ...] = ()

    @property
    def strict(self) -> "Terms":
        """Without those that are true of NULL."""
        usable = tuple(term for term in self.usable if term.operator != "<=>")
        others = tuple(term for term in self.others if term.operator != "is null")
        return Terms(usable, self.conjuncts, others)

    @property
    def plain(self) -> "Terms":
        """Without those of columns that are not compared as they are kept."""
        usable = tuple(term for term in self.usable if term.zone is None)
        return Terms(usable, self.conjuncts, self.others)


def terms_of(
    where: Tree | None,
    resolve: Resolve,
    expressions: Expressions | None = None,
    zoned: Resolve = lambda column: None,
    zone: tzinfo | None = None,
) -> Terms:
    """The terms of a WHERE.

    `resolve` gives a column's position, None for what is not this table's; `zoned` likewise of
    columns that the session's `zone` shows as something else than they are."""
    conjuncts = [] if where is None else list(conjuncts_of(where))
    place = _Places(resolve, expressions or {})
    found = [term for n, each in enumerate(conjuncts) for term in _terms(each, n, place)]
    if zone is not None:
        local = _Places(zoned, {})
        met = (term for n, each in enumerate(conjuncts) for term in _terms(each, n, local))
        found += [term._replace(zone=zone) for term in met]
    others = tuple(term for n, each in enumerate(conjuncts) for term in _others(each, n, place))
    return Terms(tuple(found), len(conjuncts), others)


def _others(tree: Tree, number: int, places: "_Places") -> Iterator[Term]:
    negated = isinstance(tree, exp.Not)
    inner = tree.this if negated else tree
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        place = places.find(inner.this)
        if place is not None:
            yield Term(place[0], "is not null" if negated else "is null", (), number, place[1])
    elif isinstance(tree, exp.NEQ):
        yield from _comparison(tree, "!=", number, places)


def conjuncts_of(tree: Tree) -> Iterator[Tree]:
    """What must all be true, one by one."""
    if isinstance(tree, exp.And):
        yield from conjuncts_of(tree.this)
        yield from conjuncts_of(tree.expression)
    elif isinstance(tree, exp.Paren):
        yield from conjuncts_of(tree.this)
    else:
        yield tree


class _Places:
    """Where the column stands that a tree is: named, or meant by the expression it holds."""

    def __init__(self, resolve: Resolve, expressions: Expressions) -> None:
        self._resolve = resolve
        self._expressions = expressions

    def find(self, tree: Tree) -> tuple[int, bool] | None:
        """(position, whether it is computed), None for anything else."""
        if isinstance(tree, exp.Column):
            position = self._resolve(tree)
            return None if position is None else (position, False)
        if not self._expressions:
            return None
        found = self._expressions.get(matched_text(tree))
        if found is None or any(
            self._resolve(column) is None for column in walks.find_all(tree, exp.Column)
        ):
            return None
        return found, True


def _terms(tree: Tree, number: int, places: _Places) -> Iterator[Term]:
    operator = _COMPARISONS.get(type(tree))
    if operator is not None:
        yield from _comparison(tree, operator, number, places)
    elif isinstance(tree, exp.Between):
        place = places.find(tree.this)
        low, high = comparand_of(tree.args["low"]), comparand_of(tree.args["high"])
        if place is not None and low is not None and high is not None:
            yield Term(place[0], ">=", (_beside(low, high),), number, place[1])
            yield Term(place[0], "<=", (_beside(high, low),), number, place[1])
    elif isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
        place = places.find(tree.this)
        if place is not None and not place[1]:
            yield Term(place[0], "<=>", (_null,), number)
    elif isinstance(tree, exp.NullSafeEQ):
        met = (term for term in _comparison(tree, "<=>", number, places) if not term.computed)
        yield from met
    elif isinstance(tree, exp.In) and tree.args.get("query") is None:
        place = places.find(tree.this)
        constants = [comparand_of(expression) for expression in tree.expressions]
        usable = tuple(each for each in constants if each is not None)
        if place is not None and usable and len(usable) == len(constants):
            yield Term(place[0], "in", usable, number, place[1])


def _beside(mine: ConstantOf, other: ConstantOf) -> ConstantOf:
    """One end of a BETWEEN. It compares all three together: `text BETWEEN 0 AND '5'` as numbers, so
    that neither end is a bound of texts."""

    def constant(context: Execution) -> Value:
        value, beside = mine(context), other(context)
        if type(value) is type(beside) or value is None or beside is None:
            return value
        are_numbers = isinstance(value, _NUMBERS) and isinstance(beside, _NUMBERS)
        return value if are_numbers else INEXACT

    return constant


def _null(context: Execution) -> Value:
    return None


def _comparison(tree: Tree, operator: str, number: int, places: _Places) -> Iterator[Term]:
    for column, constant, sign in (
        (tree.this, tree.expression, operator),
        (tree.expression, tree.this, _MIRRORED[operator]),
    ):
        value = comparand_of(constant)
        place = None if value is None else places.find(column)
        if place is not None and value is not None:
            yield Term(place[0], sign, (value,), number, place[1])
            return


# -- bounds on TIMESTAMP ---------------------------------------------------------------------------


class Doubtful(NamedTuple):
    """A local time that is not exactly one moment: the first and the last it may be, packed."""

    first: int
    last: int


def zoned_bounder(kind: FieldType, equality: bool, zone: tzinfo | None) -> Bounder:
    """As `bounder`, of local times of that zone; a range's bound may be Doubtful."""
    plain = bounder(kind, equality)
    if zone is None:
        return plain

    def bound(value: Value) -> Value:
        if isinstance(value, str) and names_zone(value):
            return INEXACT
        local = plain(value)
        if local is INEXACT or local is NOTHING:
            return local
        found = _moments(local, zone)
        if found is None or (equality and found.first != found.last):
            return INEXACT
        return found.first if found.first == found.last else found

    return bound


def _moments(local: int, zone: tzinfo) -> Doubtful | None:
    """None for what no calendar has."""
    try:
        moment = to_moment(local).replace(tzinfo=zone)
        both = [from_moment(moment.replace(fold=fold).astimezone(UTC)) for fold in (0, 1)]
    except (OverflowError, ValueError):
        return None
    return Doubtful(min(both), max(both))


# -- keys ------------------------------------------------------------------------------------------

MOST_SPANS = 10_000
EQUALITIES = ("=", "in", "<=>")
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
        """Whether every part is given, and none may be NULL."""
        is_strict = not any(term.operator == "<=>" for term in self.equal)
        return is_strict and len(self.equal) == len(self.positions)

    @property
    def used(self) -> bool:
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
        term = _equality(table, position, terms)
        if term is None:
            found = [term for term in terms.usable if term.position == position]
            low = next((term for term in found if term.operator in (">", ">=")), None)
            high = next((term for term in found if term.operator in ("<", "<=")), None)
            ranges = tuple(term for term in (low, high) if term is not None)
            break
        equal.append(term)
    zones = {term.position: term.zone for term in terms.usable}
    kinds = [(kind, zones.get(position)) for kind, position in zip(types, positions, strict=True)]
    equals = tuple(zoned_bounder(kind, True, zone) for kind, zone in kinds)
    sides = tuple(zoned_bounder(kind, False, zone) for kind, zone in kinds)
    return Match(index, tuple(positions), equals, sides, prefixed, tuple(equal), ranges)


def _equality(table: Table, position: int, terms: Terms) -> Term | None:
    found = [t for t in terms.usable if t.position == position and t.operator in EQUALITIES]
    best = min(found, key=lambda term: len(term.constants), default=None)
    if best is not None and best.operator == "<=>" and table.info.cols[position].not_null:
        return best._replace(operator="=")
    return best


def combinations(found: Match, context: Execution) -> list[Values] | None:
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
            elif term.operator == "<=>":
                values.append(None)
        rows = [(*row, value) for row in rows for value in values]
        if len(rows) > MOST_SPANS:
            return None
    return rows


class _Side(NamedTuple):
    values: Values
    inclusive: bool


class Bounds(NamedTuple):
    """What the constants of a run make of a match: combinations of the equal parts, none where
    nothing can be found, and the sides of the range behind each."""

    rows: list[Values]
    low: _Side
    high: _Side


_NO_SIDE = _Side((), True)


def bounds(found: Match, context: Execution) -> Bounds | None:
    """See there; None where a constant is inexact."""
    rows = combinations(found, context)
    if rows is None:
        return None
    low = high = _NO_SIDE
    for term in found.range:
        part = len(found.equal)
        value = found.ranges[part](term.constants[0](context))
        if value is INEXACT:
            return None
        if value is NOTHING:
            return Bounds([], low, high)
        inclusive, from_below = term.operator.endswith("="), term.operator[0] == ">"
        if isinstance(value, Doubtful):
            inclusive, value = True, value.first if from_below else value.last
        side = _Side((value,), found.prefixed[part] or inclusive)
        low, high = (side, high) if from_below else (low, side)
    if found.range and not low.values:
        low = _Side((None,), False)
    return Bounds(rows, low, high)


def spans(table: Table, found: Match, context: Execution) -> list[Span] | None:
    """Ranges of keys, in order and apart from each other; None where a constant is inexact."""
    met = bounds(found, context)
    if met is None:
        return None
    rows, low, high = met
    if len(rows) == 1:
        span = _span(table, found.key, rows[0], low, high)
        return [span] if span.start < span.end else []
    each = {_span(table, found.key, row, low, high) for row in rows}
    return _apart(sorted(span for span in each if span.start < span.end))


def shown_ranges(table: Table, found: Match, context: Execution) -> list[str]:
    """The same ranges in TiDB's words, [1,1] or ("a" 5,"a" +inf], in the order they are read."""
    met = bounds(found, context)
    if met is None:
        return []
    kinds = [table.info.cols[position].type for position in found.positions]
    cuts = [part.length for part in found.key.idx_cols]
    zones = {term.position: term.zone for term in (*found.equal, *found.range)}

    def text(part: int, value: Value) -> str:
        if isinstance(value, str | bytes) and cuts[part] >= 0:
            value = value[: cuts[part]]
        zone = zones.get(found.positions[part])
        if zone is not None and isinstance(value, int):
            value = shift_zone(value, None, zone)
        return shown_value(value, kinds[part])

    below, above = "-inf", "+inf"
    if found.key.exuvia_clustered and table.info.pk_is_handle and kinds[0].unsigned:
        below = "0"
    shown = {}
    for row in met.rows:
        span = _span(table, found.key, row, met.low, met.high)
        if span.start >= span.end:
            continue
        first = [text(n, value) for n, value in enumerate(row)]
        low, high = list(first), list(first)
        opening, closing = "[", "]"
        if found.range:
            part = len(row)
            (least,) = met.low.values
            low.append(below if least is None else text(part, least))
            opening = "[" if least is None or met.low.inclusive else "("
            high.append(text(part, met.high.values[0]) if met.high.values else above)
            closing = "]" if not met.high.values or met.high.inclusive else ")"
        shown[span] = f"{opening}{' '.join(low)},{' '.join(high)}{closing}"
    return [shown[span] for span in sorted(shown)]


def shown_value(value: Value, kind: FieldType) -> str:
    """A value of that type as EXPLAIN has it: texts in quotes, NULL."""
    if value is None:
        return "NULL"
    text = values.to_text(value, kind)
    if kind.Tp in (TypeCode.ENUM, TypeCode.SET) or kind.family in (Family.STRING, Family.BYTES):
        return f'"{text}"'
    return text


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


# -- expressions that an index holds ---------------------------------------------------------------

_KEPT, _SERVED = "expressions", "expressions served"


class Served(NamedTuple):
    """The expression indexes that sessions may use, by their settings.

    Has the names of the settings that matter. Maps their values to the expressions that have the
    indexed columns' values under these settings."""

    asked: tuple[str, ...]
    alike: dict[tuple[str, ...], Mapping[str, int]]


def expressions_of(table: Table, binding: Binding | None = None) -> Mapping[str, int]:
    """Text of an expression -> position of the indexed column that holds its value.

    For a session, only expressions with the same result in it. Excludes WEEK(d) under another
    default_week_format, quotients under another div_precision_increment, and comparisons of
    literals under another collation."""
    positions: Mapping[str, int] | None = table.caches.get(_KEPT)
    if positions is None:
        positions = table.caches[_KEPT] = _indexed_expressions(table)
    if not positions or binding is None:
        return positions
    served: Served | None = table.caches.get(_SERVED)
    if served is None:
        served = table.caches[_SERVED] = Served((), {})
    answers = tuple([binding.variable(name) for name in served.asked])
    alike = served.alike.get(answers)
    if alike is None:
        alike, settings = _equivalent(table, positions, binding)
        if not settings <= set(served.asked):
            names = tuple(sorted({*served.asked, *settings}))
            served = table.caches[_SERVED] = Served(names, {})
            answers = tuple([binding.variable(name) for name in names])
        served.alike[answers] = alike
    return alike


def _equivalent(
    table: Table, positions: Mapping[str, int], binding: Binding
) -> tuple[Mapping[str, int], set[str]]:
    """The expressions with the same result in the session, and the settings that were read."""
    plain = {column.position: column.bound for column in generated_columns(table.info)}
    scope = scope_of(table.info.cols)
    scope.fields = [field._replace(column=None) for field in scope.fields]  # no rights, no zone
    scope.binding = nested = binding.nested()
    alike = {
        text: position
        for text, position in positions.items()
        if means_alike(scope.bind(_as_queried(table, position)), plain[position])
    }
    return alike, set(nested.fact_names.settings)


def _as_queried(table: Table, position: int) -> exp.Expression:
    """A column's expression, its strings as most clients write them."""
    tree = parse_expression(table.info.cols[position].generated_expr_string)
    return tree.transform(without_charset)


def _indexed_expressions(table: Table) -> dict[str, int]:
    info = table.info
    if not any(column.is_generated for column in info.cols):
        return {}
    indexed = {part.exuvia_column for index in info.indexes for part in index.idx_cols}
    return {
        matched_text(parse_expression(each.column.generated_expr_string)): each.position
        for each in generated_columns(info)
        if each.column.id in indexed
        and not each.is_array
        and each.bound.type.Tp != TypeCode.NULL  # NULL in a query is not meant as that column
        and (each.column.hidden or _same(each.column.type, each.bound.type))
    }


def _same(column: FieldType, value: FieldType) -> bool:
    """Whether every value of the expression is the same in the column, and compares alike."""
    alike = column.family == value.family and column.unsigned == value.unsigned
    if not alike or column.Collate != value.Collate:
        return False
    if column.family == Family.DECIMAL:
        return column.Decimal == value.Decimal and column.Flen >= value.Flen
    if column.family in (Family.STRING, Family.BYTES):
        return column.Tp != TypeCode.STRING and column.Flen >= value.Flen >= 0
    return column.Tp == value.Tp and column.Decimal == value.Decimal
