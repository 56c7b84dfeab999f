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
from typing import Any

from msgspec import json

from exuvia.base.types import Family, FieldType, Value
from exuvia.catalog.convert.values import from_text

KINDS: dict[Family, Any] = {Family.INT: int, Family.UINT: int, Family.FLOAT: float}
_ONE: dict[type, json.Decoder[Any]] = {
    each: json.Decoder(list[each])  # type: ignore[valid-type]
    for each in (int, float, str)
}


def value_of(kind: FieldType) -> Callable[[Any], Value] | None:
    """What makes the value of a key of an element in the array; None where it is that."""
    if kind.family in KINDS or kind.family == Family.STRING:
        return None
    if kind.family == Family.BYTES:
        return lambda text: text.encode()
    return lambda text: from_text(text, kind)


def elements(array: Value, kind: FieldType) -> Sequence[Value]:
    """The values of the entries of a row that has this array."""
    if array is None:
        return (None,)
    found: list[Value] = _ONE[KINDS.get(kind.family, str)].decode(array)
    make = value_of(kind)
    return found if make is None else list(map(make, found))
