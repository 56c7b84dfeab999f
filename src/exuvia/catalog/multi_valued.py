"""The array part of a multi-valued index: what its hidden column holds, and which entries follow.

    INDEX ((CAST(j->'$.a' AS UNSIGNED ARRAY)))         hidden column      entries of the row
    {"a": [3, 1, 3]}                                   [3, 1]             3, 1
    {"a": 7}                                           [7]                7
    {"a": []}                                          []                 none
    {}                                                 NULL               NULL

The column is virtual (decision 009): sql/json_arrays.py makes its array of what the row has, each
element once, of the type, and refuses what is not. So whoever reads it here, a writer one row or a
kernel many, meets elements that fit, and all of them agree.

    type of elements           in the array     value
    SIGNED, UNSIGNED, DOUBLE   number           the number
    CHAR, BINARY               string           the text, its bytes
    DATE, DATETIME, TIME       string           packed (catalog/temporal.py)
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from msgspec import json

from exuvia.base.types import Family, FieldType, Value
from exuvia.catalog.convert.values import from_text

_KINDS: dict[Family, Any] = {Family.INT: int, Family.UINT: int, Family.FLOAT: float}
_ONE: dict[type, json.Decoder[Any]] = {each: json.Decoder(list[each]) for each in (int, float, str)}  # type: ignore[valid-type]
_MANY: dict[type, json.Decoder[Any]] = {
    each: json.Decoder(list[list[each]])  # type: ignore[valid-type]
    for each in (int, float, str)
}


def _value_of(kind: FieldType) -> Callable[[Any], Value] | None:
    """What makes the value of a key of an element in the array; None where it is that."""
    if kind.family in _KINDS or kind.family == Family.STRING:
        return None
    if kind.family == Family.BYTES:
        return lambda text: text.encode()
    return lambda text: from_text(text, kind)


def elements(array: Value, kind: FieldType) -> Sequence[Value]:
    """The values of the entries of a row that has this array."""
    if array is None:
        return (None,)
    found: list[Value] = _ONE[_KINDS.get(kind.family, str)].decode(array)
    make = _value_of(kind)
    return found if make is None else list(map(make, found))


def spread(arrays: Sequence[Any], kind: FieldType) -> tuple[list[Value], list[int]]:
    """As `elements`, of many rows: all values, one behind the other, and how many each row has."""
    if None in arrays:
        found = [elements(array, kind) for array in arrays]
        return list(chain.from_iterable(found)), list(map(len, found))
    lists = _MANY[_KINDS.get(kind.family, str)].decode(f"[{','.join(arrays)}]")
    flat = list(chain.from_iterable(lists))
    make = _value_of(kind)
    return flat if make is None else list(map(make, flat)), list(map(len, lists))
