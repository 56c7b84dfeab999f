"""Aggregates that Python computes: DuckDB gathers the values of a group in lists, and a function of
the query's own makes one value of them.

    GROUP_CONCAT(x ...)       in its order, DISTINCT by the collation; cut at group_concat_max_len
                              bytes with 1260
    JSON_ARRAYAGG(x)          every value, NULL as null; NULL of no rows
    JSON_OBJECTAGG(k, x)      the last value of a key stays; a NULL key is 3158
    APPROX_PERCENTILE(x, p)   the value below which p percent lie
"""

from collections.abc import Callable, Sequence
from typing import Any

from exuvia.base.mysql_errors import ErrCutValueGroupConcat, ErrJSONDocumentNULLKey
from exuvia.base.types import Family
from exuvia.sql.duck import engine as duck
from exuvia.sql.duck.render import Renderer
from exuvia.sql.expr import Aggregate, Cast, Column, Constant, Windowed
from exuvia.sql.functions import json_values

Gather = Callable[..., Any]


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


def _array(node: Aggregate | Windowed) -> tuple[Gather, Sequence[Any]]:
    kind = node.arguments[0].type

    def run(values: list[Any] | None) -> str | None:
        if values is None:
            return None
        return json_values.dump([json_values.scalar(each, kind) for each in values])

    return run, node.arguments


def _object(node: Aggregate | Windowed) -> tuple[Gather, Sequence[Any]]:
    kind = node.arguments[1].type

    def run(keys: list[str | None] | None, values: list[Any] | None) -> str | None:
        if keys is None or values is None:
            return None
        found: dict[str, Any] = {}
        for name, value in zip(keys, values, strict=True):
            if name is None:
                raise ErrJSONDocumentNULLKey()
            found[name] = json_values.scalar(value, kind)
        return json_values.dump(found)

    return run, node.arguments


def _percentile(node: Aggregate | Windowed) -> tuple[Gather, Sequence[Any]]:
    value, share = node.arguments
    percent = share.value if isinstance(share, Constant) else 0

    def run(values: list[Any] | None) -> Any:
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


def _joined(node: Aggregate, env: Any) -> Gather:
    most = int(env.variable("group_concat_max_len"))
    separator: Any = node.separator
    if node.family is Family.BYTES:
        separator = separator.encode()

    def run(rows: list[dict[str, Any]] | None) -> Any:
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


def _named(node: Aggregate, env: Any) -> str:
    """The arguments as messages show them."""
    found = []
    for part in node.arguments:
        source = part.argument if isinstance(part, Cast) else part
        if isinstance(source, Column):
            database = getattr(env, "database", "")
            found.append(".".join(filter(None, (database, source.table, source.name))))
    return ", ".join(found)


_MAKERS: dict[str, Callable[[Any], tuple[Gather, Sequence[Any]]]] = {
    "json_arrayagg": _array,
    "json_objectagg": _object,
    "approx_percentile": _percentile,
}
