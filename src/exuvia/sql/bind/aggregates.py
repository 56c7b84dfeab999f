"""Aggregates and subqueries: conversion of their arguments, and their result types.

aggregate       result                                             without rows
COUNT           BIGINT                                             0
SUM             exact numbers: DECIMAL, 22 digits more; else DOUBLE  NULL
AVG             exact numbers: DECIMAL, scale + 4; else DOUBLE     NULL
MIN MAX         the argument's type                                NULL
GROUP_CONCAT    text                                               NULL
STD VAR ...     DOUBLE                                             NULL
BIT_*           BIGINT UNSIGNED                                    all ones for BIT_AND, else 0
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrDataOutOfRange,
    ErrInvalidGroupFuncUse,
    ErrNotSupportedYet,
    ErrOperandColumns,
    ErrWrongArguments,
)
from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.sql import types
from exuvia.sql.bind import cast as casts
from exuvia.sql.bind.scope import Binder, Scope, local, place_of, stored
from exuvia.sql.expr import Aggregate, Constant, Expr, Subquery, Windowed, walk
from exuvia.sql.parse.syntax_error import Misplaced

AGGREGATES = frozenset(
    [
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "group_concat",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "variance",
        "var_pop",
        "var_samp",
        "bit_and",
        "bit_or",
        "bit_xor",
        "any_value",
        "json_arrayagg",
        "json_objectagg",
        "approx_count_distinct",
        "approx_percentile",
        "grouping",
    ]
)
_OF_STORED = frozenset(("min", "max", "any_value", "count", "approx_count_distinct", "grouping"))
_DEVIATION = {
    "std": "stddev_pop",
    "stddev": "stddev_pop",
    "stddev_pop": "stddev_pop",
    "stddev_samp": "stddev_samp",
    "variance": "var_pop",
    "var_pop": "var_pop",
    "var_samp": "var_samp",
}


def aggregate(name: str, trees: Sequence[exp.Expression], scope: Scope) -> Expr:
    """Binds an aggregate call. Raises 1111 if the query does not group rows."""
    if scope.grouped is None:
        raise ErrInvalidGroupFuncUse()
    call = bound_aggregate(name, trees, scope)
    scope.grouped.append(call)
    return local(call, scope.zone) if call.type.Tp == TypeCode.TIMESTAMP else call


def _inside(scope: Scope) -> Scope:
    """The scope of an aggregate's arguments: no aggregates, no windows, no aliases."""
    inner = scope.within(scope.clause)
    inner.grouped, inner.windows, inner.aliases_first = None, None, False
    if scope.clause == "having clause":
        inner.aliases = {
            k: v
            for k, v in scope.aliases.items()
            if not any(isinstance(node, Aggregate | Windowed) for node in walk(v))
        }
    else:
        inner.aliases = {}
    return inner


def bound_aggregate(
    name: str, trees: Sequence[exp.Expression], scope: Scope, within_window: bool = False
) -> Aggregate:
    """The call with its arguments converted. Raises 1064, 1210, 1690, and errors of expressions."""
    inner = _inside(scope)
    if within_window:
        inner.grouped = scope.grouped  # in SUM(SUM(x)) OVER () the inner SUM is over groups
    distinct = len(trees) == 1 and isinstance(trees[0], exp.Distinct)
    argument_trees = trees[0].expressions if distinct else trees
    if name == "count" and len(argument_trees) == 1 and isinstance(argument_trees[0], exp.Star):
        return Aggregate(type=types.integer(21), function="count", arguments=())
    arguments = [inner.bind(argument_tree) for argument_tree in argument_trees]
    if name in _OF_STORED:
        arguments = [stored(argument) for argument in arguments]
    if name == "approx_count_distinct":
        name, distinct = "count", True
    if name == "grouping" and arguments:
        kind = types.integer(21)
        return Aggregate(type=kind, function=name, arguments=tuple(arguments))
    if not arguments or len(arguments) not in _COUNTS.get(name, (1,)):
        raise Misplaced(")")
    if name == "count":
        if len(arguments) > 1 and not distinct:
            raise Misplaced(",")
        kind = types.integer(21)
        return Aggregate(type=kind, function=name, arguments=tuple(arguments), distinct=distinct)
    converted, kind = _converted(name, arguments, scope.division_digits)
    return Aggregate(
        type=kind,
        function=_DEVIATION.get(name, name),
        arguments=converted,
        distinct=distinct and name not in ("min", "max"),
        coercibility=converted[0].coercibility,
    )


_COUNTS: dict[str, Sequence[int]] = {
    "count": range(1, 1024),
    "json_objectagg": (2,),
    "approx_percentile": (2,),
}


def _converted(
    name: str, arguments: list[Expr], division_digits: int
) -> tuple[tuple[Expr, ...], FieldType]:
    argument = arguments[0]
    kind = evolve(argument.type, Flag=argument.type.Flag & ~(1 | 2 | 4 | 8 | 512))
    if name in ("sum", "avg"):
        number = casts.to_number(argument)
        if types.family_of(number.type) is Family.FLOAT:
            return (number,), types.DOUBLE
        precision, scale = types.precision_of(number.type)
        more = (22, 0) if name == "sum" else (division_digits, division_digits)
        return (number,), types.decimal(precision + more[0], scale + more[1])
    if name in _DEVIATION:
        return (casts.to_double(argument),), types.DOUBLE
    if name.startswith("bit_"):
        return (casts.to_integer(argument),), types.UNSIGNED
    if name == "json_objectagg":
        return (casts.to_text(argument), arguments[1]), types.JSON
    if name.startswith("json_"):
        return tuple(arguments), types.JSON
    if name == "approx_percentile":
        share = arguments[1]
        if not isinstance(share, Constant) or not isinstance(share.value, int):
            raise ErrWrongArguments("APPROX_PERCENTILE")
        if not 1 <= share.value <= 100:
            text = f"Percentage value {share.value} is out of range [1, 100]"
            raise ErrDataOutOfRange.with_text(text)
        return tuple(arguments), kind
    if name in ("min", "max") and kind.Tp in (TypeCode.ENUM, TypeCode.SET):
        printed = casts.to_text(argument)
        return (printed,), printed.type
    return (argument,), kind


def _group_concat(tree: exp.GroupConcat, scope: Scope) -> Expr:
    if scope.grouped is None:
        raise ErrInvalidGroupFuncUse()
    inner = _inside(scope)
    body = tree.this
    keys: list[exp.Expression] = []
    if isinstance(body, exp.Order):
        keys, body = body.expressions, body.this
    distinct = isinstance(body, exp.Distinct)
    parts = body.expressions if distinct else [body]
    if len(parts) == 1 and isinstance(parts[0], exp.Concat):
        parts = parts[0].expressions
    if parts and isinstance(parts[-1], exp.Order):
        last = parts[-1]
        keys, parts = last.expressions, [*parts[:-1], last.this]
    bound = [inner.bind(part) for part in parts]
    places = [place_of(key.this, len(bound), "order clause") for key in keys]
    order = tuple(
        (inner.bind(key.this) if place is None else bound[place], bool(key.args.get("desc")))
        for key, place in zip(keys, places, strict=True)
    )
    has_bytes = any(types.is_bytes(part.type) for part in bound)
    texts = [casts.to_bytes(part) if has_bytes else casts.to_text(part) for part in bound]
    separator = tree.args.get("separator")
    collate, level = casts.merged_collation(texts, "group_concat", needed=False)
    kind = types.text(1024, casts.charset_of(collate), collate)
    kind = types.blob(1024) if has_bytes else kind
    call = Aggregate(
        type=kind,
        coercibility=level,
        function="group_concat",
        arguments=tuple(texts),
        distinct=distinct,
        order=order,
        separator="," if separator is None else separator.name,
    )
    scope.grouped.append(call)
    return call


_AGGREGATE_TREES: dict[type, Binder] = {exp.GroupConcat: _group_concat}


# -- subqueries ------------------------------------------------------------------------------------


def _scalar(tree: exp.Expression, scope: Scope) -> Expr:
    inner = tree.this if isinstance(tree, exp.Subquery) else tree
    only = None if scope.query is None else _only_value(inner)
    if only is not None:
        return scope.bind(only)
    planned = _planned(inner, scope)
    if len(planned.columns) != 1:
        raise ErrOperandColumns(1)
    kind = planned.columns[0].type
    subquery = Subquery(
        type=evolve(kind, Flag=kind.Flag & ~(1 | 2 | 4 | 8 | 512)),
        coercibility=planned.levels[0],
        kind="scalar",
        query=planned,
    )
    return local(subquery, scope.zone) if kind.Tp == TypeCode.TIMESTAMP else subquery


def _only_value(query: exp.Expression) -> exp.Expression | None:
    """The expression of a query without FROM and other clauses, which MySQL replaces by it: the
    quotient in `(SELECT 1 / 3) * 3` keeps its digits. None for other queries and for aggregates."""
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        return None
    if any(value for name, value in query.args.items() if name != "expressions"):
        return None
    only = query.expressions[0]
    value: exp.Expression = only.this if isinstance(only, exp.Alias) else only
    if isinstance(value, exp.Column | exp.Star):
        return None
    return None if has_aggregate(value) else value


def has_aggregate(tree: exp.Expression) -> bool:
    """Whether an aggregate or a window function is in the expression, outside its subqueries."""
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        named = isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES
        if named or isinstance(node, exp.AggFunc | exp.Window):
            return True
        if not isinstance(node, exp.Query):
            waiting += node.iter_expressions()
    return False


def _exists(tree: exp.Exists, scope: Scope) -> Expr:
    inner = tree.this
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    return Subquery(type=types.BOOLEAN, kind="exists", query=_planned(inner, scope))


def _planned(inner: exp.Expression, scope: Scope) -> Any:
    if scope.query is None:
        raise ErrNotSupportedYet("subquery here")
    return scope.query(inner, scope)


BINDERS: dict[type, Binder] = {
    **_AGGREGATE_TREES,
    exp.Subquery: _scalar,
    exp.Select: _scalar,
    exp.Union: _scalar,
    exp.Exists: _exists,
}
__all__ = ["AGGREGATES", "BINDERS", "aggregate"]
