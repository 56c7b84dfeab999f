"""Where rows belong: a way answers for many rows at once.

    a table whose partitions change -> Ways: to the other set of partitions, in the set that is read

The pipeline knows no SQL: a *router*, "module:function", is a name that crosses to Spark's workers.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol

import numpy as np

from exuvia.base.errors import Broken, Refused
from exuvia.catalog.columns import Array, Columns, Keys
from exuvia.catalog.table import Table

_ID = slice(1, 9)  # where a key has the physical id


class Way(Protocol):
    """One set of partitions. `positions`: of the columns that decide."""

    positions: list[int]

    def places(self, columns: Columns) -> Array:
        """The physical id each row belongs to, 0: nowhere. Shape (rows,), int64."""

    def refusal(self, columns: Columns, row: int) -> Refused:
        """1526, for a row that belongs nowhere."""


class Ways(NamedTuple):
    """To the set that is not read, and in the one that is."""

    other: Way
    read: Way


Router = Callable[[Table], Ways]


@cache
def router_named(text: str) -> Router:
    """The function of that name. Raises Broken where none is wired."""
    module, _, function = text.partition(":")
    if not function:
        raise Broken("rows are to be moved where no router is wired")
    found: Router = getattr(import_module(module), function)
    return found


def under(places: Array, keys: Keys) -> Keys:
    """The same keys (of rows or entries) under other physical ids."""
    ids = places.astype(">u8")
    if isinstance(keys, list):
        pairs = zip(ids.view("V8").tolist(), keys, strict=True)
        return [b"t" + each + key[9:] for each, key in pairs]
    width = keys.dtype.itemsize
    matrix = keys.view(np.uint8).reshape(len(keys), width).copy()
    matrix[:, _ID] = ids.view(np.uint8).reshape(len(keys), 8)
    return matrix.view(f"V{width}").reshape(len(keys))
