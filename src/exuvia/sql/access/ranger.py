"""Ranges of keys from the conditions of a WHERE that compare a column with a constant.

    a = 1 AND b IN (2, 3) AND c > 4 AND d BETWEEN 5 AND 6 AND (e = 7 OR e = 8)
    Term(a, =)  Term(b, in)   Term(c, >)  Term(d, >=) Term(d, <=)   Term(e, in)

    NOT c > 4       as c <= 4
    t LIKE 'ab%c'   Term(t, like): the keys that begin with ab; the rest is left to the evaluator

`a IS NULL` and `a <=> 1` are equalities with the operator "<=>". They are no points, since a unique
key may have many NULLs. They are not used below an outer join, which adds NULLs (`Terms.strict`).

Any other OR is an alternative: one list of terms for each of its sides. A key is used for it if
each side has a match that narrows the key further than the other conditions do (`Match.any_of`).

    key (a, b)      a = 1 AND b = 2 OR a = 3 AND b > 4      [1 2,1 2] (3 4,3 +inf]

`match` selects the terms for a key: equalities of its first parts, then a range of the next part.

    key (a, b, c)    a = 1 AND b IN (2, 3) AND c > 4     equal (a, b)   range (c >)     whole: no
                     a = 1 AND c > 4                     equal (a)      no range: b is missing

`spans` computes ranges of store keys from a match at each run. It returns None if a constant is no
exact bound for its column; the path then reads all rows. Constants as bounds of a key:

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

TIMESTAMPs are stored in UTC and compared as local times of the session's zone:

    local time             UTC                                   bound
    any other              one moment                            exact
    twice, in autumn       two, an hour apart                    =  INEXACT    < >  the outer one
    never, in spring       two guesses around the change         =  INEXACT    < >  the outer one
    with its own zone      left to the evaluator                 INEXACT

A bound never excludes a row that matches the condition. If the bound is wider than the condition,
the condition is evaluated again.

Indexed expressions: `a + 1 = 5` is a condition on the hidden column of an index on (a + 1), or on
an indexed generated column of the same type. Expressions are compared by the texts of
parse/restore.py. These texts include literals, so plans of tables with such indexes are not cached
by shape.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from decimal import Decimal
from sys import maxunicode
from typing import Final, NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.codec import key_codec
from exuvia.catalog.collation import collation
from exuvia.catalog.convert import values
from exuvia.catalog.decimals import WIDE, whole
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.catalog.temporal import from_moment, shift_zone, to_moment
from exuvia.kv.packet import Span
from exuvia.sql import walks
from exuvia.sql.bind.binding import Binding
from exuvia.sql.env import Execution
from exuvia.sql.expr import is_equivalent
from exuvia.sql.expressions import ConstantOf, comparand_of, literal_of
from exuvia.sql.functions.moment import names_zone
from exuvia.sql.generated import generated_columns, scope_of
from exuvia.sql.matching import prefix_of
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.literals import TypedValue, position_of
from exuvia.sql.parse.restore import matched_text, without_charset
from exuvia.sql.parse.text import parse_expression

# -- bounds ----------------------------------------------------------------------------------------


class _Mark:
    """A bound that is not a value."""


INEXACT: Final = _Mark()
NOTHING: Final = _Mark()


class Prefix(str):
    """The text with which the texts of a range begin."""

    __slots__ = ()


_WHOLE = re.compile(r"[+-]?\d{1,20}").fullmatch
_EXACT = re.compile(r"[+-]?\d{1,65}(\.\d{1,30})?").fullmatch
_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d{1,15})?").fullmatch
_MOMENT = FieldType(Tp=TypeCode.DATETIME, Flen=26, Decimal=6)
_TIME = FieldType(Tp=TypeCode.TIME, Flen=17, Decimal=6)
_DAY_BITS = 37
_NUMBERS = (int, float, Decimal)
_MOMENTS = (Family.DATE, Family.DATETIME, Family.TIME)


Bounder = Callable[[Value], Value]
Maker = Callable[[Value, FieldType], Value]


def bounder(kind: FieldType, equality: bool) -> Bounder:
    """Returns the converter of constants to bounds on a column of that type.

    The converter returns the bound, NOTHING or INEXACT."""
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
    """The whole number that equals the value exactly, else None."""
    if isinstance(value, str):
        return whole(value) if _WHOLE(value) else None
    if isinstance(value, Decimal | float):
        return int(value) if abs(float(value)) < 1 << 53 and value == int(value) else None
    return value if isinstance(value, int) else None


def _decimal(value: Value, kind: FieldType) -> Value:
    if isinstance(value, str):
        return Decimal(value) if _EXACT(value) else INEXACT
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


def _typed_moment(moment: TypedValue, kind: FieldType) -> Value:
    """The bound of a typed constant. A TIME is a bound only for TIMEs: else it depends on today."""
    family = moment.type.family
    is_time = family == Family.TIME
    if family not in _MOMENTS or is_time != (kind.family == Family.TIME):
        return INEXACT
    return _of_day(moment.value << _DAY_BITS if family == Family.DATE else moment.value, kind)


def _of_day(packed: int, kind: FieldType) -> Value:
    if kind.Tp != TypeCode.DATE:
        return packed
    return INEXACT if packed & ((1 << _DAY_BITS) - 1) else packed >> _DAY_BITS


def _named(value: Value, kind: FieldType) -> Value:
    """The number of an ENUM's element. SET and BIT have bounds only for numbers."""
    if isinstance(value, int) and kind.Tp != TypeCode.YEAR:
        return value if 0 <= value < 1 << 64 else INEXACT
    if kind.Tp != TypeCode.ENUM or not isinstance(value, str):
        return INEXACT
    numbers = [n for n, word in enumerate(kind.Elems or ()) if word == value]
    return numbers[0] + 1 if numbers else INEXACT


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
Expressions = Mapping[
    str, int
]  # text of an expression -> position of the indexed column with its value

_COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_MIRRORED = {"=": "=", "<=>": "<=>", "!=": "!=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
_NEGATED = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}
MOST_SIDES = 1000
"""The largest number of sides of an OR that are alternatives."""


class Term(NamedTuple):
    """A comparison of a column with constants.

    `conjunct` is the number of the WHERE's part, to know which parts a path covers. `computed`: the
    condition has the column's expression instead of its name. `zone`: the constants are local times
    of this zone, the column is stored in UTC."""

    position: int
    operator: str
    constants: tuple[ConstantOf, ...]
    conjunct: int
    computed: bool = False
    zone: tzinfo | None = None

    @property
    def asks_null(self) -> bool:
        """Whether this is IS NULL."""
        return self.operator == "<=>" and self.constants == (_null,)


Sides = tuple[tuple[Term, ...], ...]


class Terms(NamedTuple):
    """The usable terms of a WHERE, and the number of all its conjuncts.

    `others`: != , IS NULL and IS NOT NULL. They have no range, but may imply the predicate of a
    partial index. `alternatives`: for each OR that is no term, the terms of each side."""

    usable: tuple[Term, ...]
    conjuncts: int
    others: tuple[Term, ...] = ()
    alternatives: tuple[Sides, ...] = ()

    @property
    def strict(self) -> "Terms":
        """The terms that are never true of NULL."""
        others = tuple(term for term in self.others if term.operator != "is null")
        alternatives = (tuple(map(_strict, sides)) for sides in self.alternatives)
        usable_sides = tuple(sides for sides in alternatives if all(sides))
        return Terms(_strict(self.usable), self.conjuncts, others, usable_sides)

    @property
    def plain(self) -> "Terms":
        """The terms whose columns are compared as stored, without alternatives."""
        usable = tuple(term for term in self.usable if term.zone is None)
        return Terms(usable, self.conjuncts, self.others)


def _strict(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(term for term in terms if term.operator != "<=>")


def terms_of(
    where: Tree | None,
    resolve: Resolve,
    expressions: Expressions | None = None,
    zoned: Resolve = lambda column: None,
    zone: tzinfo | None = None,
    binding: Binding | None = None,
) -> Terms:
    """The terms of a WHERE.

    `resolve` returns a column's position, or None for a column of another table. `zoned` does the
    same for columns whose values depend on the session's `zone`. Without a `binding` LIKE gives no
    terms."""
    conjuncts = [] if where is None else list(conjuncts_of(where))
    places = _Places(resolve, expressions or {}, binding)
    reader = _Reader(places, None if zone is None else _Places(zoned, {}, None), zone)
    usable: list[Term] = []
    alternatives = []
    for n, conjunct in enumerate(conjuncts):
        terms = reader.terms(conjunct, n)
        usable += terms
        sides = () if terms else reader.sides(conjunct, n)
        if sides and all(sides):
            alternatives.append(sides)
    others = tuple(
        term for n, conjunct in enumerate(conjuncts) for term in _others(conjunct, n, places)
    )
    return Terms(tuple(usable), len(conjuncts), others, tuple(alternatives))


class _Reader(NamedTuple):
    """Reads the terms of conditions. `local`: of columns compared as local times of `zone`."""

    places: "_Places"
    local: "_Places | None"
    zone: tzinfo | None

    def terms(self, tree: Tree, number: int) -> tuple[Term, ...]:
        """The terms that a condition is equal to, together; () for a condition without a term."""
        terms = tuple(_terms(tree, number, self.places))
        if self.local is None:
            return terms
        zoned = (term._replace(zone=self.zone) for term in _terms(tree, number, self.local))
        return (*terms, *zoned)

    def sides(self, tree: Tree, number: int) -> Sides:
        """The terms of each side of an OR, and of each row of `(a, b) IN ((1, 2), (3, 4))`."""
        if isinstance(tree, exp.In) and isinstance(tree.this, exp.Tuple):
            rows = tree.expressions[: MOST_SIDES + 1]
            sides = [tuple(_row_terms(tree.this, row, number, self.places)) for row in rows]
        elif isinstance(tree, exp.Or):
            trees = sides_of(tree)[: MOST_SIDES + 1]
            sides = [
                tuple(term for part in conjuncts_of(side) for term in self.terms(part, number))
                for side in trees
            ]
        else:
            return ()
        return tuple(sides) if len(sides) <= MOST_SIDES else ()


def _others(tree: Tree, number: int, places: "_Places") -> Iterator[Term]:
    negated = isinstance(tree, exp.Not)
    inner = tree.this if negated else tree
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        place = places.find(inner.this)
        if place is not None:
            yield Term(place[0], "is not null" if negated else "is null", (), number, place[1])
    elif isinstance(tree, exp.NEQ):
        yield from _comparison(tree.this, tree.expression, "!=", number, places)


def conjuncts_of(tree: Tree) -> Iterator[Tree]:
    """The conjuncts of a condition."""
    if isinstance(tree, exp.And):
        yield from conjuncts_of(tree.this)
        yield from conjuncts_of(tree.expression)
    elif isinstance(tree, exp.Paren):
        yield from conjuncts_of(tree.this)
    else:
        yield tree


def sides_of(tree: Tree) -> list[Tree]:
    """The sides of an OR, in their order; another condition is its only side."""
    sides, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Or):
            waiting += [node.expression, node.this]
        elif isinstance(node, exp.Paren):
            waiting.append(node.this)
        else:
            sides.append(node)
    return sides


class _Places:
    """Finds the column of a tree: a name, or the expression of an indexed column."""

    def __init__(self, resolve: Resolve, expressions: Expressions, binding: Binding | None) -> None:
        self._resolve = resolve
        self._expressions = expressions
        self._binding = binding

    def has_prefix(self, pattern: Tree) -> bool:
        """Whether a constant pattern of LIKE begins with a text. For a parameter it is a fact."""
        if self._binding is None:
            return False
        if isinstance(pattern, exp.Placeholder):
            return self._binding.has_prefix(position_of(pattern))
        return any(bool(prefix_of(value)) for value in literal_of(pattern))

    def find(self, tree: Tree) -> tuple[int, bool] | None:
        """(position, whether it is computed); None for any other tree."""
        if isinstance(tree, exp.Column):
            position = self._resolve(tree)
            return None if position is None else (position, False)
        if not self._expressions:
            return None
        position_of_expression = self._expressions.get(matched_text(tree))
        if position_of_expression is None or any(
            self._resolve(column) is None for column in walks.find_all(tree, exp.Column)
        ):
            return None
        return position_of_expression, True


def _terms(tree: Tree, number: int, places: _Places) -> Iterator[Term]:
    operator = _COMPARISONS.get(type(tree))
    if isinstance(tree, exp.EQ) and isinstance(tree.this, exp.Tuple):
        yield from _row_terms(tree.this, tree.expression, number, places)
    elif operator is not None:
        yield from _comparison(tree.this, tree.expression, operator, number, places)
    elif isinstance(tree, exp.Between):
        place = places.find(tree.this)
        low, high = _comparand(tree.args["low"]), _comparand(tree.args["high"])
        if place is not None and low is not None and high is not None:
            yield Term(place[0], ">=", (_end_of_between(low, high),), number, place[1])
            yield Term(place[0], "<=", (_end_of_between(high, low),), number, place[1])
    elif isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
        place = places.find(tree.this)
        if place is not None and not place[1]:
            yield Term(place[0], "<=>", (_null,), number)
    elif isinstance(tree, exp.NullSafeEQ):
        comparisons = (
            term
            for term in _comparison(tree.this, tree.expression, "<=>", number, places)
            if not term.computed
        )
        yield from comparisons
    elif isinstance(tree, exp.In) and tree.args.get("query") is None:
        place = places.find(tree.this)
        constants = [_comparand(expression) for expression in tree.expressions]
        usable = tuple(constant for constant in constants if constant is not None)
        if place is not None and usable and len(usable) == len(constants):
            yield Term(place[0], "in", usable, number, place[1])
    elif isinstance(tree, exp.Not):
        inner = tree.this
        while isinstance(inner, exp.Paren):
            inner = inner.this
        negated = _NEGATED.get(_COMPARISONS.get(type(inner), ""))
        if negated is not None:
            yield from _comparison(inner.this, inner.expression, negated, number, places)
    elif isinstance(tree, exp.Or):
        yield from _one_of(tree, number, places)
    elif isinstance(tree, exp.Like) and not tree.args.get("negate"):
        place, pattern = places.find(tree.this), comparand_of(tree.expression)
        if place is not None and pattern is not None and places.has_prefix(tree.expression):
            yield Term(place[0], LIKE, (_prefix_bound(pattern),), number, place[1])


def _row_terms(row: Tree, other: Tree, number: int, places: _Places) -> Sequence[Term]:
    """The terms of `(a, b) = (1, 2)`; none unless each pair is one."""
    if not isinstance(other, exp.Tuple) or len(row.expressions) != len(other.expressions):
        return ()
    pairs = zip(row.expressions, other.expressions, strict=True)
    terms = [term for pair in pairs for term in _comparison(*pair, "=", number, places)]
    return terms if len(terms) == len(row.expressions) else ()


def _one_of(tree: Tree, number: int, places: _Places) -> Iterator[Term]:
    """`a = 1 OR a = 2 OR a IN (3, 4)` as one IN."""
    constants: list[ConstantOf] = []
    place: tuple[int, bool] | None = None
    for side in sides_of(tree):
        terms = list(_terms(side, number, places)) if isinstance(side, exp.EQ | exp.In) else []
        if len(terms) != 1 or place not in (None, (terms[0].position, terms[0].computed)):
            return
        place = terms[0].position, terms[0].computed
        constants += terms[0].constants
    if place is not None:
        yield Term(place[0], "in", tuple(constants), number, place[1])


def _prefix_bound(pattern: ConstantOf) -> ConstantOf:
    def constant(context: Execution) -> Value:
        value = pattern(context)
        prefix = prefix_of(value)
        return value if value is None else Prefix(prefix) if prefix else INEXACT

    return constant


def _comparand(tree: Tree) -> ConstantOf | None:
    """As `comparand_of`, also for -?, which is how a plan is cached for a negative literal."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.Neg) or walks.find(tree, exp.Placeholder) is None:
        return comparand_of(tree)
    positive = _comparand(tree.this)
    return None if positive is None else lambda context: _negative(positive(context))


def _negative(value: Value) -> Value:
    if isinstance(value, Decimal):
        return WIDE.minus(value)  # Python's own minus rounds to 28 digits
    if isinstance(value, int | float):
        return -value
    return None if value is None else INEXACT


def _end_of_between(mine: ConstantOf, other: ConstantOf) -> ConstantOf:
    """One end of a BETWEEN, INEXACT if both ends together are not a bound.

    BETWEEN compares all three values as one type: `text BETWEEN 0 AND '5'` compares numbers, so
    neither end is a bound of texts."""

    def constant(context: Execution) -> Value:
        value, other_value = mine(context), other(context)
        if type(value) is type(other_value) or value is None or other_value is None:
            return value
        are_numbers = isinstance(value, _NUMBERS) and isinstance(other_value, _NUMBERS)
        return value if are_numbers else INEXACT

    return constant


def _null(context: Execution) -> Value:
    return None


def _comparison(
    one: Tree, other: Tree, operator: str, number: int, places: _Places
) -> Iterator[Term]:
    for column, constant, sign in ((one, other, operator), (other, one, _MIRRORED[operator])):
        value = _comparand(constant)
        place = None if value is None else places.find(column)
        if place is not None and value is not None:
            yield Term(place[0], sign, (value,), number, place[1])
            return


# -- bounds on TIMESTAMP ---------------------------------------------------------------------------


class Doubtful(NamedTuple):
    """A local time that is not exactly one moment: the first and the last possible one, packed."""

    first: int
    last: int


def zoned_bounder(kind: FieldType, equality: bool, zone: tzinfo | None) -> Bounder:
    """As `bounder`, for local times of that zone. A range's bound may be Doubtful."""
    plain = bounder(kind, equality)
    if zone is None:
        return plain

    def bound(value: Value) -> Value:
        if isinstance(value, str) and names_zone(value):
            return INEXACT
        local = plain(value)
        if local is INEXACT or local is NOTHING:
            return local
        moments = _moments(local, zone)
        if moments is None or (equality and moments.first != moments.last):
            return INEXACT
        return moments.first if moments.first == moments.last else moments

    return bound


def _moments(local: int, zone: tzinfo) -> Doubtful | None:
    """The moments of a local time in UTC; None outside the calendar's range."""
    try:
        moment = to_moment(local).replace(tzinfo=zone)
        both = [from_moment(moment.replace(fold=fold).astimezone(UTC)) for fold in (0, 1)]
    except (OverflowError, ValueError):
        return None
    return Doubtful(min(both), max(both))


# -- keys ------------------------------------------------------------------------------------------

MOST_SPANS = 10_000
EQUALITIES = ("=", "in", "<=>")
LIKE = "like"
Values = tuple[Value, ...]


class Match(NamedTuple):
    """The terms for the parts of a key.

    For each part: `equals` and `ranges` convert constants to bounds, `prefixed` is true if the part
    is a prefix. With `any_of` the ranges are those of all these matches, and there are no terms."""

    key: IndexInfo
    positions: tuple[int, ...]
    equals: tuple[Bounder, ...]
    ranges: tuple[Bounder, ...]
    prefixed: tuple[bool, ...]
    equal: tuple[Term, ...]
    range: tuple[Term, ...]
    any_of: tuple["Match", ...] = ()

    @property
    def whole(self) -> bool:
        """Whether every part has an equality that excludes NULL."""
        is_strict = not any(term.operator == "<=>" for term in self.equal)
        return is_strict and len(self.equal) == len(self.positions)

    @property
    def used(self) -> bool:
        return bool(self.equal or self.range or self.any_of)

    @property
    def has_equality(self) -> bool:
        """Whether an equality narrows each of its ranges."""
        return bool(self.equal) or bool(self.any_of and all(side.equal for side in self.any_of))

    def covers(self, table: Table, terms: Terms) -> bool:
        """Whether the key's ranges match the whole WHERE exactly: rows need no further check."""
        parts = len(self.equal) + bool(self.range)
        if any(self.prefixed[:parts]) or not key_codec.is_exact(table, self.key):
            return False
        if any(term.operator == LIKE for term in self.range):
            return False
        used_terms = self.equal + self.range
        if any(term.computed or term.zone for term in used_terms):
            return False
        conjuncts = {term.conjunct for term in used_terms}
        number = sum(term.conjunct in conjuncts for term in terms.usable)
        return len(conjuncts) == terms.conjuncts and number == len(used_terms)


def match(table: Table, index: IndexInfo, positions: Sequence[int], terms: Terms) -> Match:
    """The terms for a key whose parts are at these positions."""
    plain = _match(table, index, positions, terms)
    for sides in terms.alternatives if not plain.whole else ():
        parts = []
        for side in sides:
            part = _match(table, index, positions, Terms((*terms.usable, *side), 0))
            if _depth(part) <= _depth(plain) or not (index.exuvia_clustered or _is_short(part)):
                break
            parts.append(part)
        else:
            return plain._replace(equal=(), range=(), any_of=tuple(parts))
    return plain


def _has_prefixes(kind: FieldType) -> bool:
    """Whether texts with one beginning have keys with one beginning."""
    is_text = kind.family == Family.STRING and kind.Tp not in (TypeCode.ENUM, TypeCode.SET)
    return is_text and collation(kind.Collate).keeps_prefixes


def _is_short(matched: Match) -> bool:
    """Whether an equality, LIKE, or both ends of a range limit the entries."""
    sides = matched.range
    return bool(matched.equal) or len(sides) > 1 or any(term.operator == LIKE for term in sides)


def _depth(matched: Match) -> tuple[int, int]:
    return len(matched.equal), len(matched.range)


def _match(table: Table, index: IndexInfo, positions: Sequence[int], terms: Terms) -> Match:
    types = tuple(table.info.cols[position].type for position in positions)
    prefixed = tuple(part.length >= 0 for part in index.idx_cols)
    equal: list[Term] = []
    ranges: tuple[Term, ...] = ()
    for position in positions:
        term = _equality(table, position, terms)
        if term is None:
            column_terms = [term for term in terms.usable if term.position == position]
            low = next((term for term in column_terms if term.operator in (">", ">=")), None)
            high = next((term for term in column_terms if term.operator in ("<", "<=")), None)
            ranges = tuple(term for term in (low, high) if term is not None)
            likes = [term for term in column_terms if term.operator == LIKE]
            if not ranges and _has_prefixes(table.info.cols[position].type):
                ranges = tuple(likes[:1])
            break
        equal.append(term)
    zones = {term.position: term.zone for term in terms.usable}
    kinds = [(kind, zones.get(position)) for kind, position in zip(types, positions, strict=True)]
    equals = tuple(zoned_bounder(kind, True, zone) for kind, zone in kinds)
    sides = tuple(zoned_bounder(kind, False, zone) for kind, zone in kinds)
    return Match(index, tuple(positions), equals, sides, prefixed, tuple(equal), ranges)


def _equality(table: Table, position: int, terms: Terms) -> Term | None:
    equalities = [t for t in terms.usable if t.position == position and t.operator in EQUALITIES]
    best = min(equalities, key=lambda term: len(term.constants), default=None)
    if best is not None and best.operator == "<=>" and table.info.cols[position].not_null:
        return best._replace(operator="=")
    return best


def combinations(matched: Match, context: Execution) -> list[Values] | None:
    """All combinations of the values of the equal parts; None if a constant is inexact."""
    rows: list[Values] = [()]
    for term, bound in zip(matched.equal, matched.equals, strict=False):
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
    """The bounds of a match, for the constants of a run.

    `rows` are the combinations of the equal parts, [] if no row can match. `low` and `high` are the
    sides of the range after each combination; both are the same Prefix for LIKE."""

    rows: list[Values]
    low: _Side
    high: _Side

    @property
    def has_prefix(self) -> bool:
        return bool(self.low.values) and isinstance(self.low.values[0], Prefix)


_NO_SIDE = _Side((), True)


def bounds(matched: Match, context: Execution) -> Bounds | None:
    """The bounds of a match in a run; None if a constant is inexact."""
    rows = combinations(matched, context)
    if rows is None:
        return None
    low = high = _NO_SIDE
    for term in matched.range:
        part = len(matched.equal)
        value = matched.ranges[part](term.constants[0](context))
        if value is INEXACT:
            return None
        if value is NOTHING:
            return Bounds([], low, high)
        if isinstance(value, Prefix):
            side = _Side((value,), True)
            return Bounds(rows, side, side)
        inclusive, from_below = term.operator.endswith("="), term.operator[0] == ">"
        if isinstance(value, Doubtful):
            inclusive, value = True, value.first if from_below else value.last
        side = _Side((value,), matched.prefixed[part] or inclusive)
        low, high = (side, high) if from_below else (low, side)
    if matched.range and not low.values:
        low = _Side((None,), False)
    return Bounds(rows, low, high)


def spans(table: Table, matched: Match, context: Execution) -> list[Span] | None:
    """Sorted ranges of keys that do not overlap; None if a constant is inexact."""
    if matched.any_of:
        united: set[Span] = set()
        for side in matched.any_of:
            ranges = spans(table, side, context)
            if ranges is None or len(united) + len(ranges) > MOST_SPANS:
                return None
            united.update(ranges)
        return _apart(sorted(united))
    key_bounds = bounds(matched, context)
    if key_bounds is None:
        return None
    rows, low, high = key_bounds
    if len(rows) == 1:
        span = _span(table, matched.key, rows[0], low, high)
        return [span] if span.start < span.end else []
    span_set = {_span(table, matched.key, row, low, high) for row in rows}
    return _apart(sorted(span for span in span_set if span.start < span.end))


def shown_ranges(table: Table, matched: Match, context: Execution) -> list[str]:
    """The ranges in TiDB's form, [1,1] or ("a" 5,"a" +inf], in the order in which they are read."""
    texts: dict[Span, str] = {}
    for side in matched.any_of or (matched,):
        texts |= _range_texts(table, side, context)
    return [texts[span] for span in sorted(texts)]


def _range_texts(table: Table, matched: Match, context: Execution) -> dict[Span, str]:
    key_bounds = bounds(matched, context)
    if key_bounds is None:
        return {}
    kinds = [table.info.cols[position].type for position in matched.positions]
    cuts = [part.length for part in matched.key.idx_cols]
    zones = {term.position: term.zone for term in (*matched.equal, *matched.range)}

    def text(part: int, value: Value) -> str:
        if isinstance(value, str | bytes) and cuts[part] >= 0:
            value = value[: cuts[part]]
        zone = zones.get(matched.positions[part])
        if zone is not None and isinstance(value, int):
            value = shift_zone(value, None, zone)
        return shown_value(value, kinds[part])

    below, above = "-inf", "+inf"
    if matched.key.exuvia_clustered and table.info.pk_is_handle and kinds[0].unsigned:
        below = "0"
    texts = {}
    for row in key_bounds.rows:
        span = _span(table, matched.key, row, key_bounds.low, key_bounds.high)
        if span.start >= span.end:
            continue
        first = [text(n, value) for n, value in enumerate(row)]
        low, high = list(first), list(first)
        opening, closing = "[", "]"
        if matched.range:
            part = len(row)
            (least,) = key_bounds.low.values
            if key_bounds.has_prefix:
                after = least[:-1] + chr(min(ord(least[-1]) + 1, maxunicode))
                ends = " ".join([*low, text(part, least)]), " ".join([*high, text(part, after)])
                texts[span] = f"[{','.join(ends)})"
                continue
            low.append(below if least is None else text(part, least))
            opening = "[" if least is None or key_bounds.low.inclusive else "("
            high.append(text(part, key_bounds.high.values[0]) if key_bounds.high.values else above)
            closing = "]" if not key_bounds.high.values or key_bounds.high.inclusive else ")"
        texts[span] = f"{opening}{' '.join(low)},{' '.join(high)}{closing}"
    return texts


def shown_value(value: Value, kind: FieldType) -> str:
    """A value of that type as in EXPLAIN: texts in quotes, NULL."""
    if value is None:
        return "NULL"
    text = values.to_text(value, kind)
    if kind.Tp in (TypeCode.ENUM, TypeCode.SET) or kind.family in (Family.STRING, Family.BYTES):
        return f'"{text}"'
    return text


def _span(table: Table, index: IndexInfo, row: Values, low: _Side, high: _Side) -> Span:
    if low.values and isinstance(low.values[0], Prefix):
        return key_codec.prefix_range(table, index, (*row, *low.values))
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


def _apart(sorted_spans: list[Span]) -> list[Span]:
    """The ranges with overlapping neighbours merged (prefix keys overlap)."""
    merged: list[Span] = []
    for span in sorted_spans:
        if merged and span.start < merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(span.end, merged[-1].end))
        else:
            merged.append(span)
    return merged


# -- indexed expressions ---------------------------------------------------------------------------

_KEPT, _SERVED = "expressions", "expressions served"


class Served(NamedTuple):
    """The expression indexes that sessions may use, by their settings.

    Has the names of the settings that matter. Maps their values to the expressions that have the
    indexed columns' values under these settings."""

    settings: tuple[str, ...]
    alike: dict[tuple[str, ...], Mapping[str, int]]


def expressions_of(table: Table, binding: Binding | None = None) -> Mapping[str, int]:
    """Text of an expression -> position of the indexed column with its value.

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
    answers = tuple([binding.variable(name) for name in served.settings])
    alike = served.alike.get(answers)
    if alike is None:
        alike, settings = _equivalent(table, positions, binding)
        if not settings <= set(served.settings):
            names = tuple(sorted({*served.settings, *settings}))
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
        if is_equivalent(scope.bind(_as_queried(table, position)), plain[position])
    }
    return alike, set(nested.fact_names.settings)


def _as_queried(table: Table, position: int) -> exp.Expression:
    """A column's expression, with strings as most clients write them."""
    tree = parse_expression(table.info.cols[position].generated_expr_string)
    return tree.transform(without_charset)


def _indexed_expressions(table: Table) -> dict[str, int]:
    info = table.info
    if not any(column.is_generated for column in info.cols):
        return {}
    indexed = {part.exuvia_column for index in info.indexes for part in index.idx_cols}
    return {
        matched_text(parse_expression(column.column.generated_expr_string)): column.position
        for column in generated_columns(info)
        if column.column.id in indexed
        and not column.is_array
        and column.bound.type.Tp != TypeCode.NULL  # a NULL in a query does not refer to that column
        and (column.column.hidden or _same(column.column.type, column.bound.type))
    }


def _same(column: FieldType, value: FieldType) -> bool:
    """Whether the column stores every value of the expression unchanged, with the same order."""
    alike = column.family == value.family and column.unsigned == value.unsigned
    if not alike or column.Collate != value.Collate:
        return False
    if column.family == Family.DECIMAL:
        return column.Decimal == value.Decimal and column.Flen >= value.Flen
    if column.family in (Family.STRING, Family.BYTES):
        return column.Tp != TypeCode.STRING and column.Flen >= value.Flen >= 0
    return column.Tp == value.Tp and column.Decimal == value.Decimal
