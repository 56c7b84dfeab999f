"""Comparisons: the domain in which two expressions compare, rows, IN, BETWEEN, ANY and ALL.

comparison of            happens as
two strings              strings, in the winning collation
two whole numbers        integers
exact numbers            DECIMAL
a date or time with a string, or with a number that is constant     the date or time
everything else          DOUBLE
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import exp

from exuvia.base.mysql_errors import ErrNotSupportedYet, ErrOperandColumns
from exuvia.base.types import Family, TypeCode
from exuvia.sql import types
from exuvia.sql.bind.cast import (
    fold,
    merged_collation,
    to_bytes,
    to_date,
    to_datetime,
    to_double,
    to_json,
    to_number,
    to_text,
    to_time,
)
from exuvia.sql.bind.scope import Binder, Scope
from exuvia.sql.expr import (
    Call,
    Column,
    Constant,
    Expr,
    Outer,
    Parameter,
    Subquery,
    is_constant,
)
from exuvia.sql.parse.syntax_error import Misplaced

_SIGNS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}


def boolean(name: str, *arguments: Expr, extra: tuple[object, ...] = ()) -> Expr:
    """A call whose result is 1, 0 or NULL."""
    return fold(Call(type=types.BOOLEAN, function=name, arguments=arguments, extra=extra))


def joined(name: str, terms: Sequence[Expr]) -> Expr:
    """AND, OR or XOR of them all, in their order; as deep as its logarithm."""
    while len(terms) > 1:
        pairs = range(0, len(terms) - 1, 2)
        odd = terms[-1:] if len(terms) % 2 else []
        terms = [*(boolean(name, terms[n], terms[n + 1]) for n in pairs), *odd]
    return terms[0]


def comparable(arguments: Sequence[Expr], operation: str) -> tuple[tuple[Expr, ...], str]:
    """The arguments in the domain in which they compare, and the collation they compare in."""
    if any(is_year(each) for each in arguments):
        arguments = [each if is_year(each) else _whole_year(each) for each in arguments]
    if any(_is_bits(each) for each in arguments):
        arguments = [_as_bits(each) for each in arguments]
    present = [each for each in arguments if each.type.Tp != TypeCode.NULL]
    families = {each.family for each in present}
    if families & types.TEMPORAL:
        found = _temporal(arguments, present, families)
        if found is not None:
            return found, "binary"
    if Family.JSON in families:
        return tuple(_as_json(each) for each in arguments), "binary"
    if present and all(types.is_text_like(each.type) for each in present):
        return _texts(arguments, operation)
    if families <= types.WHOLE:
        return tuple(arguments), "binary"
    numbers = [to_number(each) for each in arguments]
    if any(each.family is Family.FLOAT for each in numbers):
        return tuple(to_double(each) for each in numbers), "binary"
    return tuple(numbers), "binary"


def is_year(expr: Expr) -> bool:
    """Whether it is a column of years."""
    return isinstance(expr, Column | Outer) and expr.type.Tp == TypeCode.YEAR


def _is_bits(expr: Expr) -> bool:
    return isinstance(expr, Column | Outer) and expr.type.Tp == TypeCode.BIT


def _as_bits(expr: Expr) -> Expr:
    """Constant bytes beside a BIT column are its bits, as a hexadecimal literal's are."""
    if not isinstance(expr, Constant | Parameter) or expr.family is not Family.BYTES:
        return expr
    if isinstance(expr, Constant) and expr.hexadecimal:
        return expr
    return fold(Call(type=types.integer(20, True), function="bits_of", arguments=(expr,)))


def _whole_year(expr: Expr) -> Expr:
    """A constant number beside a year: 1 to 99 are years of this century or the last."""
    if not isinstance(expr, Constant | Parameter) or expr.family not in types.WHOLE:
        return expr
    kind = types.integer(20, expr.type.unsigned)
    return fold(Call(type=kind, function="whole_year", arguments=(expr,)))


def _texts(arguments: Sequence[Expr], operation: str) -> tuple[tuple[Expr, ...], str]:
    collate, _ = merged_collation(arguments, operation, needed=True)
    if collate == "binary":
        return tuple(to_bytes(each) for each in arguments), "binary"
    return tuple(to_text(each, collate) for each in arguments), collate


def _temporal(
    arguments: Sequence[Expr], present: Sequence[Expr], families: set[Family | None]
) -> tuple[Expr, ...] | None:
    others = [each for each in present if each.family not in types.TEMPORAL]
    readable = all(types.is_text_like(each.type) or is_constant(each) for each in others)
    if not readable:
        return None
    temporal = families & types.TEMPORAL
    if temporal == {Family.DATE} and not others:
        return tuple(arguments)
    if temporal == {Family.DATE} and all(_is_day(each) for each in others):
        return tuple(to_date(each) for each in arguments)
    if temporal == {Family.TIME}:
        if any(not types.is_text_like(each.type) for each in others):
            return None
        return tuple(to_time(each) for each in arguments)
    return tuple(to_datetime(each) for each in arguments)


def _is_day(expr: Expr) -> bool:
    """Whether a constant text is a date without a time, so that DATE columns compare as they
    stand."""
    if not isinstance(expr, Constant):
        return False
    moment = to_datetime(expr)
    day_only = isinstance(moment, Constant) and isinstance(moment.value, int)
    return day_only and moment.value & ((1 << 37) - 1) == 0  # type: ignore[attr-defined]


def _as_json(expr: Expr) -> Expr:
    if types.is_text_like(expr.type):
        quoted = Call(type=types.text(65535), function="json_quote", arguments=(to_text(expr),))
        return to_json(fold(quoted))
    return to_json(expr)


def compare(name: str, left: Expr, right: Expr) -> Expr:
    """A comparison of two expressions."""
    operands, collate = comparable((left, right), name)
    return boolean(name, *operands, extra=(collate,))


def _comparison(tree: exp.Binary, scope: Scope) -> Expr:
    name = _SIGNS[type(tree)]
    left, right = tree.this, tree.expression
    if isinstance(right, exp.Any | exp.All):
        return _quantified(name, tree, scope)
    if is_row(left) or is_row(right):
        return _rows(name, left, right, scope)
    return compare(name, scope.bind(left), scope.bind(right))


def is_row(tree: exp.Expression) -> bool:
    """(a, b) or ROW(a, b), in parentheses or not."""
    inner: Any = tree.unnest()
    named = isinstance(inner, exp.Anonymous) and inner.name.upper() == "ROW"
    return isinstance(inner, exp.Tuple) or named


def _rows(name: str, left: exp.Expression, right: exp.Expression, scope: Scope) -> Expr:
    """(a, b) = (c, d) is a = c AND b = d; < and > compare part by part."""
    lefts, rights = _members(left, scope), _members(right, scope)
    same = not (is_row(left) and is_row(right)) or _shape(left) == _shape(right)
    if len(lefts) != len(rights) or not same:
        raise ErrOperandColumns(len(parts_of(left)))
    return _by_parts(name, list(zip(lefts, rights, strict=True)))


def _members(tree: exp.Expression, scope: Scope) -> list[Expr]:
    """The members of a row; those of a query's only row are queries of one column."""
    inner = tree
    while isinstance(inner, exp.Paren | exp.Subquery):
        inner = inner.this
    if not isinstance(inner, exp.Query) or scope.query is None:
        return [scope.bind(part) for part in _leaves(tree)]
    planned = scope.query(inner, scope)
    return [planned.member(n) for n in range(len(planned.columns))]


def _by_parts(name: str, bound: list[tuple[Expr, Expr]]) -> Expr:
    if name in ("=", "<=>"):
        found = compare(name, *bound[0])
        for pair in bound[1:]:
            found = boolean("and", found, compare(name, *pair))
        return found
    if name == "!=":
        return boolean("not", _by_parts("=", bound))
    strict = name[0]
    found = compare(name, *bound[-1])
    for a, b in reversed(bound[:-1]):
        same = boolean("and", compare("=", a, b), found)
        found = boolean("or", compare(strict, a, b), same)
    return found


def parts_of(tree: exp.Expression) -> list[exp.Expression]:
    """The members of a row, or the expression alone."""
    return list(tree.unnest().expressions) if is_row(tree) else [tree]


def _leaves(tree: exp.Expression) -> Iterator[exp.Expression]:
    """The members of a row that are no rows: (1, (2, 3)) compares as (1, 2, 3)."""
    for part in parts_of(tree):
        if is_row(part):
            yield from _leaves(part)
        else:
            yield part


def _shape(tree: exp.Expression) -> tuple[Any, ...]:
    """How rows are nested, which both sides of a comparison must be alike."""
    return tuple(_shape(part) if is_row(part) else () for part in parts_of(tree))


def _quantified(name: str, tree: exp.Binary, scope: Scope) -> Expr:
    right = tree.expression
    kind = "any" if isinstance(right, exp.Any) else "all"
    return _membership(kind, name, [scope.bind(tree.this)], right.this, scope)


def _membership(
    kind: str, sign: str, operands: list[Expr], inner: exp.Expression, scope: Scope
) -> Expr:
    while isinstance(inner, exp.Paren | exp.Subquery) and not inner.args.get("alias"):
        inner = inner.this
    if scope.query is None or not isinstance(inner, exp.Query):
        raise ErrNotSupportedYet("subquery here")
    planned = scope.query(inner, scope)
    if len(planned.columns) != len(operands):
        raise ErrOperandColumns(len(operands))
    return Subquery(
        type=types.BOOLEAN, kind=kind, query=planned, operands=tuple(operands), operator=sign
    )


def _in(tree: exp.In, scope: Scope) -> Expr:
    inner = tree.args.get("query")
    if inner is not None:
        operands = [scope.bind(each) for each in parts_of(tree.this)]
        return _membership("in", "=", operands, inner, scope)
    items = tree.expressions
    if not items:
        raise Misplaced(")")
    if is_row(tree.this):
        return joined("or", [_rows("=", tree.this, item, scope) for item in items])
    return membership(scope.bind(tree.this), [scope.bind(item) for item in items])


def membership(needle: Expr, items: Sequence[Expr]) -> Expr:
    """needle IN (items): one domain where all agree, else a chain of comparisons."""
    kinds = {types.is_text_like(each.type) for each in items if each.type.Tp != TypeCode.NULL}
    if len(kinds) > 1:
        return joined("or", [compare("=", needle, item) for item in items])
    operands, collate = comparable((needle, *items), "in")
    fixed = all(is_constant(item) for item in operands[1:])
    return boolean("in", *operands, extra=(collate, fixed))


def _between(tree: exp.Between, scope: Scope) -> Expr:
    value, low, high = (
        scope.bind(each) for each in (tree.this, tree.args["low"], tree.args["high"])
    )
    (value, low, high), collate = comparable((value, low, high), "between")
    least = boolean(">=", value, low, extra=(collate,))
    most = boolean("<=", value, high, extra=(collate,))
    return boolean("and", least, most)


BINDERS: dict[type, Binder] = {
    **dict.fromkeys(_SIGNS, _comparison),
    exp.In: _in,
    exp.Between: _between,
}
