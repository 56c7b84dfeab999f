"""Keys to sort values by: NULL first, text by its collation's weights, the rest as it is."""

from collections.abc import Callable
from typing import Any

from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.collation import collation
from exuvia.sql.functions import json_functions

_NULL = (0,)


def comparer(kind: FieldType) -> Callable[[Value], Any]:
    """A function from values of that type (and NULL) to sort keys."""
    if kind.Tp == TypeCode.NULL:
        return lambda value: _NULL
    if kind.family == Family.STRING:
        weights = collation(kind.Collate).sort_key
        return lambda value: _NULL if value is None else (1, weights(value))
    if kind.family == Family.JSON:
        return lambda value: _NULL if value is None else (1, json_functions.key(value))
    return lambda value: _NULL if value is None else (1, value)


def equal_key(kind: FieldType) -> Callable[[Value], Any]:
    """A function that gives equal values of that type the same hashable key (for DISTINCT)."""
    return comparer(kind)
