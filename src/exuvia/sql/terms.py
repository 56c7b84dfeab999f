"""The conditions of a WHERE that a key can serve: column, comparison, constant.

a = 1 AND b IN (2, 3) AND c > 4 AND d BETWEEN 5 AND 6 AND (e = 7 OR f = 8)
Term(a, =)  Term(b, in)   Term(c, >)  Term(d, >=) Term(d, <=)   no term: left to the evaluator
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from sqlglot import exp

from exuvia.sql.bounds import ConstantOf, constant_of
from exuvia.sql.nodes import Tree

Resolve = Callable[[exp.Column], int | None]

_COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_MIRRORED = {"=": "=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}


class Term(NamedTuple):
    """`conjunct` counts the parts of the WHERE, so that one knows which of them a path covers."""

    position: int
    operator: str
    constants: tuple[ConstantOf, ...]
    conjunct: int


class Terms(NamedTuple):
    """What a WHERE offers: usable terms, and how many conjuncts there are in all."""

    usable: tuple[Term, ...]
    conjuncts: int


def terms_of(where: Tree | None, resolve: Resolve) -> Terms:
    """The terms of a WHERE.

    `resolve` gives a column's position, None for what is not this table's."""
    conjuncts = [] if where is None else list(_conjuncts(where))
    found = [term for n, each in enumerate(conjuncts) for term in _terms(each, n, resolve)]
    return Terms(tuple(found), len(conjuncts))


def _conjuncts(tree: Tree) -> Iterator[Tree]:
    if isinstance(tree, exp.And):
        yield from _conjuncts(tree.this)
        yield from _conjuncts(tree.expression)
    elif isinstance(tree, exp.Paren):
        yield from _conjuncts(tree.this)
    else:
        yield tree


def _terms(tree: Tree, number: int, resolve: Resolve) -> Iterator[Term]:
    operator = _COMPARISONS.get(type(tree))
    if operator is not None:
        yield from _comparison(tree, operator, number, resolve)
    elif isinstance(tree, exp.Between):
        position = _position(tree.this, resolve)
        low, high = constant_of(tree.args["low"]), constant_of(tree.args["high"])
        if position is not None and low is not None and high is not None:
            yield Term(position, ">=", (low,), number)
            yield Term(position, "<=", (high,), number)
    elif isinstance(tree, exp.In) and tree.args.get("query") is None:
        position = _position(tree.this, resolve)
        constants = [constant_of(each) for each in tree.expressions]
        usable = tuple(each for each in constants if each is not None)
        if position is not None and usable and len(usable) == len(constants):
            yield Term(position, "in", usable, number)


def _comparison(tree: Tree, operator: str, number: int, resolve: Resolve) -> Iterator[Term]:
    for column, constant, sign in (
        (tree.this, tree.expression, operator),
        (tree.expression, tree.this, _MIRRORED[operator]),
    ):
        position = _position(column, resolve)
        value = constant_of(constant)
        if position is not None and value is not None:
            yield Term(position, sign, (value,), number)
            return


def _position(tree: Tree, resolve: Resolve) -> int | None:
    return resolve(tree) if isinstance(tree, exp.Column) else None
