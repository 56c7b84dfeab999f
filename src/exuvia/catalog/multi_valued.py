"""The array part of a multi-valued index: the value of its hidden column, and the entries.

    INDEX ((CAST(j->'$.a' AS UNSIGNED ARRAY)))         hidden column      entries of the row
    {"a": [3, 1, 3]}                                   [3, 1]             3, 1
    {"a": 7}                                           [7]                7
    {"a": []}                                          []                 none
    {}                                                 NULL               NULL

The column is virtual (decision 009): sql/json_arrays.py computes its array from the row, with
unique elements of the type, and refuses others. So writers of one row and kernels for many rows
only see valid elements.

    type of elements           in the array     value
    SIGNED, UNSIGNED, DOUBLE   number           the number
    CHAR, BINARY               string           the text, its bytes
    DATE, DATETIME, TIME       string           packed (catalog/temporal.py)
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import json

from exuvia.base.decoding import json_decoder
from exuvia.base.types import Family, FieldType, Value
from exuvia.catalog.convert.values import from_text

KINDS: dict[Family, Any] = {Family.INT: int, Family.UINT: int, Family.FLOAT: float}
_ONE: dict[type, json.Decoder[Any]] = {
    kind_: json_decoder(list[kind_])  # type: ignore[valid-type]
    for kind_ in (int, float, str)
}


def value_of(kind: FieldType) -> Callable[[Any], Value] | None:
    """A converter from an element of the array to its key value, or None if none is needed."""
    if kind.family in KINDS or kind.family == Family.STRING:
        return None
    if kind.family == Family.BYTES:
        return lambda text: text.encode()
    return lambda text: from_text(text, kind)


def elements(array: Value, kind: FieldType) -> Sequence[Value]:
    """The key values of the entries for a row with this array."""
    if array is None:
        return (None,)
    decoded: list[Value] = _ONE[KINDS.get(kind.family, str)].decode(array)
    make = value_of(kind)
    return decoded if make is None else list(map(make, decoded))
