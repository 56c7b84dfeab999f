"""Aggregates and windows in DuckDB.

SUM of integers       HUGEINT there, DECIMAL(38, 0) here; of decimals DECIMAL(38, s): more is 1690
AVG of exact numbers  SUM / COUNT by MySQL's own division (evaluated)
MIN, MAX of text      by the collation's key: arg_min(x, key), arg_max(x, key)
DISTINCT              of text: by key too
NULLs sort first ascending, last descending, as in MySQL

Other aggregates Python computes: DuckDB gathers the values of a group in lists, and a function of
the query's own makes one value of them.

    GROUP_CONCAT(x ...)       in its order, DISTINCT by the collation; cut at group_concat_max_len
                              bytes with 1260
    JSON_ARRAYAGG(x)          every value, NULL as null; NULL of no rows
    JSON_OBJECTAGG(k, x)      the last value of a key stays; a NULL key is 3158
    APPROX_PERCENTILE(x, p)   the value below which p percent lie
"""

from collections.abc import Callable, Sequence
from typing import Any

from exuvia.base.mysql_errors import (
    ErrCutValueGroupConcat,
    ErrJSONDocumentNULLKey,
    ErrNotSupportedYet,
)
from exuvia.base.types import Family, Value
from exuvia.sql import types
from exuvia.sql.duck import engine as duck
from exuvia.sql.duck.render import Renderer
from exuvia.sql.env import Env
from exuvia.sql.expr import Aggregate, Call, Cast, Column, Constant, Expr, Windowed
from exuvia.sql.functions import json_functions

Gather = Callable[..., Value]
Gathered = tuple[Gather, Sequence[Any]]


def gathered(node: Aggregate | Windowed, rows: Renderer, over: str) -> str | None:
    """SQL of such an aggregate; None for any other."""
    maker = _MAKERS.get(node.function)
    if maker is None:
        return None
    run, given = maker(node)
    kinds = [each.type for each in given]
    lists = []
    for each, kind in zip(given, kinds, strict=True):
        value = f"CAST({rows.value(each)} AS {duck.type_of(kind)})"
        lists.append(f"list({'DISTINCT ' if node.distinct else ''}{value}){over}")
    name = rows.functions.over_lists(run, kinds, node.type)
    return f"{name}({', '.join(lists)})"


def _array(node: Aggregate | Windowed) -> Gathered:
    kind = node.arguments[0].type

    def run(values: list[Value] | None) -> str | None:
        if values is None:
            return None
        return json_functions.dump([json_functions.scalar(each, kind) for each in values])

    return run, node.arguments


def _object(node: Aggregate | Windowed) -> Gathered:
    kind = node.arguments[1].type

    def run(keys: list[str | None] | None, values: list[Value] | None) -> str | None:
        if keys is None or values is None:
            return None
        found: dict[str, Value] = {}
        for name, value in zip(keys, values, strict=True):
            if name is None:
                raise ErrJSONDocumentNULLKey()
            found[name] = json_functions.scalar(value, kind)
        return json_functions.dump(found)

    return run, node.arguments


def _percentile(node: Aggregate | Windowed) -> Gathered:
    value, share = node.arguments
    percent = share.value if isinstance(share, Constant) else 0

    def run(values: list[Value] | None) -> Value:
        present = sorted(each for each in values or () if each is not None)
        if not present:
            return None
        return present[-(-len(present) * percent // 100) - 1]

    return run, (value,)


def group_concat(node: Aggregate, rows: Renderer) -> str:
    """SQL of GROUP_CONCAT."""
    parts = " || ".join(rows.value(argument) for argument in node.arguments)
    fields = {"v": (parts, node.type)}
    if node.distinct:
        sources = [part.argument if isinstance(part, Cast) else part for part in node.arguments]
        for n, (part, source) in enumerate(zip(node.arguments, sources, strict=True)):
            key = rows.key(part)
            fields[f"k{n}"] = (key, part.type if source.family is not Family.JSON else source.type)
    keys = [
        f"{rows.key(key)} {'DESC NULLS LAST' if descending else 'ASC NULLS FIRST'}"
        for key, descending in node.order
    ]
    order = f" ORDER BY {', '.join(keys)}" if keys else ""
    row = ", ".join(
        f"'{name}': CAST({sql} AS {duck.type_of(kind)})" for name, (sql, kind) in fields.items()
    )
    shape = ", ".join(f"{name} {duck.type_of(kind)}" for name, (_, kind) in fields.items())
    run = _joined(node, rows.env)
    name = rows.functions.over_rows(run, f"STRUCT({shape})[]", node.type)
    return f"{name}(list({{{row}}}{order}))"


def _joined(node: Aggregate, env: Env) -> Gather:
    most = int(env.variable("group_concat_max_len"))
    separator: Any = node.separator
    if node.family is Family.BYTES:
        separator = separator.encode()

    def run(rows: list[dict[str, Value]] | None) -> Value:
        kept = [row for row in rows or () if row["v"] is not None]
        if node.distinct:
            kept = list({tuple(row.values())[1:]: row for row in reversed(kept)}.values())[::-1]
        if not kept:
            return None
        whole = separator.join(row["v"] for row in kept)
        raw = whole if isinstance(whole, bytes) else whole.encode()
        if len(raw) <= most:
            return whole
        env.warn(ErrCutValueGroupConcat, f"GROUPCONCAT({_named(node, env)})")
        return raw[:most] if isinstance(whole, bytes) else raw[:most].decode(errors="ignore")

    return run


def _named(node: Aggregate, env: Env) -> str:
    """The arguments as messages show them."""
    found = []
    for part in node.arguments:
        source = part.argument if isinstance(part, Cast) else part
        if isinstance(source, Column):
            database = getattr(env, "database", "")
            found.append(".".join(filter(None, (database, source.table, source.name))))
    return ", ".join(found)


_MAKERS: dict[str, Callable[[Any], Gathered]] = {
    "json_arrayagg": _array,
    "json_objectagg": _object,
    "approx_percentile": _percentile,
}


# -- groups ----------------------------------------------------------------------------------------

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
