"""Rows folded in Python: the aggregates of a group of rows, and DISTINCT.

    COUNT                   int, 0 of no rows
    SUM, AVG                Decimal of exact numbers, else float; NULL of no rows
    MIN, MAX                by the argument's collation
    ANY_VALUE               the first value that is not NULL
    BIT_AND, BIT_OR, _XOR   64 bits
    GROUP_CONCAT            in its order, DISTINCT by the collation; cut with a warning (1260)
    JSON_ARRAYAGG, JSON_OBJECTAGG

DuckDB has the others (duck/render.py).
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Context as DecimalContext
from decimal import Decimal
from typing import Any

from exuvia.base.types import Family, Value
from exuvia.catalog import decimals
from exuvia.sql import types
from exuvia.sql.duck.render import GATHERED, joined_texts
from exuvia.sql.env import Env
from exuvia.sql.evaluate.cast import shown
from exuvia.sql.evaluate.compile import compile_expression
from exuvia.sql.evaluate.operators import divide
from exuvia.sql.expr import Aggregate, Expr, divides
from exuvia.sql.expressions import comparable, comparer, equal_key
from exuvia.sql.result import OutputColumn, Row

_WIDE = DecimalContext(prec=100)
_ALL_BITS = (1 << 64) - 1
Fold = Callable[[Sequence[Row], Env], Value]
"""(rows of a group, environment) -> the value of an aggregate"""


def fold_of(aggregate: Aggregate) -> Fold | None:
    """The function that computes the aggregate; None for one of DuckDB's."""
    function = aggregate.function
    if function == "count":
        return _count(aggregate)
    if function == "group_concat":
        return _group_concat(aggregate)
    if function in ("json_arrayagg", "json_objectagg"):
        return _gathered(aggregate)
    return _single(aggregate) if function in FOLDS and len(aggregate.arguments) == 1 else None


def _count(aggregate: Aggregate) -> Fold:
    calls = [compile_expression(argument) for argument in aggregate.arguments]
    if not calls:
        return lambda rows, env: len(rows)
    keys = [equal_key(argument.type) for argument in aggregate.arguments]

    def run(rows: Sequence[Row], env: Env) -> Value:
        present = [
            values for row in rows if None not in (values := [call(row, env) for call in calls])
        ]
        if not aggregate.distinct:
            return len(present)
        return len(
            {tuple([key(v) for key, v in zip(keys, values, strict=True)]) for values in present}
        )

    return run


def _single(aggregate: Aggregate) -> Fold:
    call = compile_expression(aggregate.arguments[0])
    fold, key = FOLDS[aggregate.function], equal_key(aggregate.arguments[0].type)
    empty = {"bit_and": _ALL_BITS, "bit_or": 0, "bit_xor": 0}.get(aggregate.function)

    def run(rows: Sequence[Row], env: Env) -> Value:
        values = [value for row in rows if (value := call(row, env)) is not None]
        if aggregate.distinct:
            values = list({key(value): value for value in values}.values())
        return fold(aggregate, values) if values else empty

    return run


def _gathered(aggregate: Aggregate) -> Fold:
    gather, arguments = GATHERED[aggregate.function](aggregate)
    calls = [compile_expression(argument) for argument in arguments]

    def run(rows: Sequence[Row], env: Env) -> Value:
        lists = [[call(row, env) for row in rows] for call in calls]
        return gather(*(lists if rows else [None] * len(lists)))

    return run


def _group_concat(aggregate: Aggregate) -> Fold:
    calls = [compile_expression(argument) for argument in aggregate.arguments]
    empty: str | bytes = b"" if aggregate.family is Family.BYTES else ""
    keys = [equal_key(part.type) for part in aggregate.arguments]

    def run(rows: Sequence[Row], env: Env) -> Value:
        texts = []
        for row in in_order(rows, aggregate.order, env):
            values = [call(row, env) for call in calls]
            whole = None if None in values else empty.join(values)
            parts = [key(value) for key, value in zip(keys, values, strict=True)]
            texts.append({"v": whole, **{f"k{n}": part for n, part in enumerate(parts)}})
        return joined_texts(aggregate, env)(texts)

    return run


def in_digits(value: Value, expr: Expr) -> Value:
    """The value of a column of a result: a quotient with the digits of its type, zero unsigned."""
    if value is None or expr.family is not Family.DECIMAL or not divides(expr):
        return value
    scale = max(0, expr.type.Decimal)
    return decimals.rounded(value, scale) or Decimal(0).scaleb(-scale)


def in_order(rows: Sequence[Row], order: Sequence[tuple[Expr, bool]], env: Env) -> Sequence[Row]:
    """The rows sorted by (expression, descending) pairs; equal rows keep their order."""
    for key, descending in reversed(order):
        call = compile_expression(key)
        values = comparable(key.type, [call(row, env) for row in rows])
        places = sorted(range(len(rows)), key=values.__getitem__, reverse=descending)
        rows = [rows[place] for place in places]
    return rows


def distinct(rows: Iterable[Row], columns: Sequence[OutputColumn]) -> list[Row]:
    """The first of each set of equal rows, under the columns' collations."""
    every = list(rows)
    keys = row_keys(every, columns)
    if len(set(keys)) == len(every):
        return every
    first = dict(zip(reversed(keys), reversed(every), strict=True))
    return [first[key] for key in dict.fromkeys(keys)]


def row_keys(rows: Sequence[Row], columns: Sequence[OutputColumn]) -> list[Any]:
    """A key for each row; equal rows have equal keys."""
    keys = [comparable(column.type, [row[n] for row in rows]) for n, column in enumerate(columns)]
    return list(keys[0]) if len(keys) == 1 else list(zip(*keys, strict=True))


# -- values of one argument, without NULL ----------------------------------------------------------


def _sum(aggregate: Aggregate, values: list[Value]) -> Value:
    if aggregate.type.family == Family.FLOAT:
        text = f"{aggregate.function}({shown(aggregate.arguments[0])})"
        return types.finite(float(sum(values)), text)
    if isinstance(values[0], int):
        return Decimal(sum(values))
    total = Decimal(0)
    for value in values:
        total = _WIDE.add(total, value)
    return total


def _average(aggregate: Aggregate, values: list[Value]) -> Value:
    """A quotient with all its digits, as in an expression: the answer shows those of its type."""
    total = _sum(aggregate, values)
    if isinstance(total, float):
        return total / len(values)
    scale = max(0, aggregate.type.Decimal)
    more = scale - max(0, types.as_decimal(aggregate.arguments[0].type).Decimal)
    return divide(total, Decimal(len(values)), more)


def _least(aggregate: Aggregate, values: list[Value]) -> Value:
    return min(values, key=comparer(aggregate.arguments[0].type))


def _greatest(aggregate: Aggregate, values: list[Value]) -> Value:
    return max(values, key=comparer(aggregate.arguments[0].type))


def _first(aggregate: Aggregate, values: list[Value]) -> Value:
    return values[0]


def _bits(combine: Callable[[int, int], int]) -> Callable[[Aggregate, list[Value]], Value]:
    def run(aggregate: Aggregate, values: list[Value]) -> Value:
        result = int(values[0]) & _ALL_BITS
        for value in values[1:]:
            result = combine(result, int(value) & _ALL_BITS)
        return result

    return run


FOLDS: dict[str, Callable[[Aggregate, list[Value]], Value]] = {
    "sum": _sum,
    "avg": _average,
    "min": _least,
    "max": _greatest,
    "any_value": _first,
    "bit_and": _bits(int.__and__),
    "bit_or": _bits(int.__or__),
    "bit_xor": _bits(int.__xor__),
}
