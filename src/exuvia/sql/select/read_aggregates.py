"""COUNT, SUM, AVG, MIN, MAX over all rows found, without grouping, and with DISTINCT.

COUNT    int, 0 of no rows                 SUM, AVG    Decimal of exact numbers, else float; NULL
of none MIN MAX  by the argument's collation       anything else: not here (DuckDB has it)
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Context as DecimalContext
from decimal import Decimal

from exuvia.base.types import Family
from exuvia.catalog import decimals
from exuvia.sql.access.sorting import comparer, equal_key
from exuvia.sql.evaluate.compile import compile_expression
from exuvia.sql.expr import Aggregate
from exuvia.sql.result import Row, Value
from exuvia.sql.select.read_items import Item
from exuvia.sql.statement.context import Context

_SUPPORTED = frozenset(("count", "sum", "avg", "min", "max"))
_WIDE = DecimalContext(prec=100)
INTERRUPT_ROWS = 1024


def is_supported(found: Aggregate | None) -> bool:
    """Whether the aggregate is one of this module's (or none at all)."""
    if found is None:
        return True
    return found.function in _SUPPORTED and len(found.arguments) <= 1


class Accumulators:
    """One run over the rows."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._aggregates = [item.aggregate for item in items if item.aggregate is not None]
        self._calls = [_call(each) for each in self._aggregates]
        self._values: list[list[Value]] = [[] for _ in items]
        self._count = 0

    def rows(self, pairs: Iterator[tuple[bytes, Row]], context: Context) -> list[Row]:
        """The one row of the answer."""
        wanted = [
            (call, found.append) for call, found in zip(self._calls, self._values, strict=True)
        ]
        used = [(call, append) for call, append in wanted if call is not None]
        count = 0
        for count, (_, row) in enumerate(pairs, 1):
            for call, append in used:
                value = call(row, context)
                if value is not None:
                    append(value)
            if count % INTERRUPT_ROWS == 0:
                context.session.check_interrupt()
        self._count = count
        return [
            [
                self._result(each, found)
                for each, found in zip(self._aggregates, self._values, strict=True)
            ]
        ]

    def _result(self, aggregate: Aggregate, found: list[Value]) -> Value:
        if not aggregate.arguments:
            return self._count
        if aggregate.distinct:
            key = equal_key(aggregate.arguments[0].type)
            found = list({key(value): value for value in found}.values())
        if aggregate.function == "count":
            return len(found)
        return _FOLDS[aggregate.function](aggregate, found) if found else None


def _call(aggregate: Aggregate) -> Callable[[Row, Context], Value] | None:
    return compile_expression(aggregate.arguments[0]) if aggregate.arguments else None


def _sum(aggregate: Aggregate, found: list[Value]) -> Value:
    family = aggregate.type.family
    if family == Family.FLOAT:
        return float(sum(found))
    if isinstance(found[0], int):
        return Decimal(sum(found))
    total = Decimal(0)
    for value in found:
        total = _WIDE.add(total, value)
    return total


def _average(aggregate: Aggregate, found: list[Value]) -> Value:
    total = _sum(aggregate, found)
    if isinstance(total, float):
        return total / len(found)
    quotient = _WIDE.divide(total, Decimal(len(found)))
    return decimals.rounded(quotient, max(0, aggregate.type.Decimal))


def _least(aggregate: Aggregate, found: list[Value]) -> Value:
    return min(found, key=comparer(aggregate.arguments[0].type))


def _greatest(aggregate: Aggregate, found: list[Value]) -> Value:
    return max(found, key=comparer(aggregate.arguments[0].type))


_FOLDS: dict[str, Callable[[Aggregate, list[Value]], Value]] = {
    "sum": _sum,
    "avg": _average,
    "min": _least,
    "max": _greatest,
}
