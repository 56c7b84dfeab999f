"""Aggregates and windows in DuckDB.

SUM of integers       HUGEINT there, DECIMAL(38, 0) here; of decimals DECIMAL(38, s): more is 1690
AVG of exact numbers  SUM / COUNT by MySQL's own division (evaluated)
MIN, MAX of text      by the collation's key: arg_min(x, key), arg_max(x, key)
DISTINCT              of text: by key too
NULLs sort first ascending, last descending, as in MySQL
"""

from collections.abc import Sequence

from exuvia.base.mysql_errors import ErrNotSupportedYet
from exuvia.base.types import Family
from exuvia.sql import types
from exuvia.sql.duck import engine as duck
from exuvia.sql.duck.gathered import gathered, group_concat
from exuvia.sql.duck.render import Renderer
from exuvia.sql.expr import Aggregate, Call, Cast, Expr, Windowed

_PLAIN = {"any_value", "stddev_pop", "stddev_samp", "var_pop", "var_samp"}


def sort_keys(keys: Sequence[tuple[Expr, bool]], renderer: Renderer) -> str:
    """The list behind ORDER BY."""
    return ", ".join(
        f"{renderer.key(key)} {'DESC NULLS LAST' if descending else 'ASC NULLS FIRST'}"
        for key, descending in keys
    )


def aggregate(node: Aggregate | Windowed, rows: Renderer, whole: Renderer, over: str = "") -> str:
    """SQL of an aggregate.

    `rows` renders its arguments, `whole` what is computed from aggregates."""
    name, arguments = node.function, node.arguments
    if name == "avg" and node.family is Family.DECIMAL:
        return whole.value(_average(node))
    if name == "count":
        return _count(node, rows) + over
    if name == "grouping":
        return f"grouping({', '.join(rows.key(argument) for argument in arguments)})"
    found = gathered(node, rows, over)
    if found is not None:
        return found
    value = rows.value(arguments[0])
    distinct = "DISTINCT " if node.distinct else ""
    if name == "sum":
        found = f"sum({distinct}{value}){over}"
        return f"CAST({found} AS {duck.type_of(node.type)})"
    if name == "avg":
        return f"avg({distinct}{value}){over}"
    if name in ("min", "max"):
        return _extreme(name, arguments[0], value, rows) + over
    if name in _PLAIN:
        return f"{name}({value}){over}"
    if name == "group_concat" and isinstance(node, Aggregate):
        return group_concat(node, rows)
    if name.startswith("bit_"):
        empty = "18446744073709551615" if name == "bit_and" else "0"
        bits = f"CAST(CAST({value} AS HUGEINT) & 18446744073709551615 AS UBIGINT)"
        return f"coalesce({name}({bits}){over}, CAST({empty} AS UBIGINT))"
    raise ErrNotSupportedYet(name.upper())


def _average(node: Aggregate | Windowed) -> Expr:
    argument = node.arguments[0]
    number = types.as_decimal(argument.type)
    total = types.decimal(*_sum_size(number.Flen, number.Decimal))
    parts = {name: getattr(node, name) for name in node.__struct_fields__}
    summed = type(node)(**{**parts, "function": "sum", "type": total})
    counted = type(node)(**{**parts, "function": "count", "type": types.integer(21)})
    divisor = Cast(type=types.decimal(20, 0), argument=counted)
    return Call(type=node.type, function="/", arguments=(summed, divisor))


def _sum_size(precision: int, scale: int) -> tuple[int, int]:
    return precision + 22, max(0, scale)


def _count(node: Aggregate | Windowed, rows: Renderer) -> str:
    if not node.arguments:
        return "count(*)"
    if not node.distinct:
        return f"count({rows.value(node.arguments[0])})"
    keys = [rows.key(argument) for argument in node.arguments]
    if len(keys) == 1:
        return f"count(DISTINCT {keys[0]})"
    present = " AND ".join(f"{key} IS NOT NULL" for key in keys)
    return f"count(DISTINCT CASE WHEN {present} THEN row({', '.join(keys)}) END)"


def _extreme(name: str, argument: Expr, value: str, rows: Renderer) -> str:
    if argument.family in (Family.STRING, Family.JSON):
        return f"arg_{name}({value}, {rows.key(argument)})"
    return f"{name}({value})"


_RANKING = {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"}
_VALUES = {"lag", "lead", "first_value", "last_value", "nth_value"}


def windowed(node: Windowed, rows: Renderer) -> str:
    """SQL of a call OVER (...)."""
    over = _over(node, rows)
    if node.function in _RANKING:
        given = ", ".join(f"CAST({rows.value(each)} AS BIGINT)" for each in node.arguments)
        found = f"{node.function}({given}){over}"
        return f"CAST({found} AS {duck.type_of(node.type)})"
    if node.function in _VALUES:
        first, *rest = node.arguments
        parts = [rows.value(first)]
        parts += [f"CAST({rows.value(each)} AS INTEGER)" for each in rest[:1]]
        parts += [rows.value(each) for each in rest[1:]]
        return f"{node.function}({', '.join(parts)}){over}"
    if node.distinct:
        raise ErrNotSupportedYet("DISTINCT in a window")
    return aggregate(node, rows, rows, over)


def _over(node: Windowed, rows: Renderer) -> str:
    parts = []
    if node.partition:
        parts.append("PARTITION BY " + ", ".join(rows.key(each) for each in node.partition))
    if node.order:
        parts.append("ORDER BY " + sort_keys(node.order, rows))
    if node.frame:
        parts.append(node.frame)
    return f" OVER ({' '.join(parts)})"
