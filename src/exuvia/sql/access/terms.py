"""The conditions of a WHERE that a key can serve: column, comparison, constant.

a = 1 AND b IN (2, 3) AND c > 4 AND d BETWEEN 5 AND 6 AND (e = 7 OR f = 8)
Term(a, =)  Term(b, in)   Term(c, >)  Term(d, >=) Term(d, <=)   no term: left to the evaluator
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import tzinfo
from typing import NamedTuple

from sqlglot import exp

from exuvia.sql.expressions import ConstantOf, constant_of
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.restore import restored

Resolve = Callable[[exp.Column], int | None]
Expressions = Mapping[str, int]  # text of an expression -> position of the column that holds it

_COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_MIRRORED = {"=": "=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}


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


class Terms(NamedTuple):
    """What a WHERE offers: usable terms, and how many conjuncts there are in all."""

    usable: tuple[Term, ...]
    conjuncts: int

    @property
    def plain(self) -> "Terms":
        """Without those of columns that are not compared as they are kept."""
        return Terms(tuple(term for term in self.usable if term.zone is None), self.conjuncts)


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
    conjuncts = [] if where is None else list(_conjuncts(where))
    place = _Places(resolve, expressions or {})
    found = [term for n, each in enumerate(conjuncts) for term in _terms(each, n, place)]
    if zone is not None:
        local = _Places(zoned, {})
        met = (term for n, each in enumerate(conjuncts) for term in _terms(each, n, local))
        found += [term._replace(zone=zone) for term in met]
    return Terms(tuple(found), len(conjuncts))


def _conjuncts(tree: Tree) -> Iterator[Tree]:
    if isinstance(tree, exp.And):
        yield from _conjuncts(tree.this)
        yield from _conjuncts(tree.expression)
    elif isinstance(tree, exp.Paren):
        yield from _conjuncts(tree.this)
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
        while isinstance(tree, exp.Paren):
            tree = tree.this
        found = self._expressions.get(restored(tree))
        if found is None or any(self._resolve(each) is None for each in tree.find_all(exp.Column)):
            return None
        return found, True


def _terms(tree: Tree, number: int, places: _Places) -> Iterator[Term]:
    operator = _COMPARISONS.get(type(tree))
    if operator is not None:
        yield from _comparison(tree, operator, number, places)
    elif isinstance(tree, exp.Between):
        place = places.find(tree.this)
        low, high = constant_of(tree.args["low"]), constant_of(tree.args["high"])
        if place is not None and low is not None and high is not None:
            yield Term(place[0], ">=", (low,), number, place[1])
            yield Term(place[0], "<=", (high,), number, place[1])
    elif isinstance(tree, exp.In) and tree.args.get("query") is None:
        place = places.find(tree.this)
        constants = [constant_of(each) for each in tree.expressions]
        usable = tuple(each for each in constants if each is not None)
        if place is not None and usable and len(usable) == len(constants):
            yield Term(place[0], "in", usable, number, place[1])


def _comparison(tree: Tree, operator: str, number: int, places: _Places) -> Iterator[Term]:
    for column, constant, sign in (
        (tree.this, tree.expression, operator),
        (tree.expression, tree.this, _MIRRORED[operator]),
    ):
        value = constant_of(constant)
        place = None if value is None else places.find(column)
        if place is not None and value is not None:
            yield Term(place[0], sign, (value,), number, place[1])
            return
