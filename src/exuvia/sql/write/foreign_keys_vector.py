"""Which of many rows have no parent: the values of a chunk as the keys their parents would have,
each once and sorted, met with the store in one call.

    the primary key, a unique index, of just these columns    one key a value: by columns
    any other index, keys that may be cut, other types        each value once, by the finder

A NULL among the values needs no parent.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from exuvia.base.types import Family, FieldType
from exuvia.catalog.codec import key_batch, key_codec
from exuvia.catalog.columns import Array, Vector
from exuvia.catalog.model import IndexInfo
from exuvia.kv.entry import is_live
from exuvia.kv.transaction import Transaction
from exuvia.sql.write.foreign_keys import Finder


class Parents:
    """The rows a foreign key refers to, in one snapshot."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        table = finder.table
        self._fields = [table.info.cols[n].type for n in finder.positions]
        self._index = _whole_key(finder)
        self._is_number = self._index is None and finder.is_handle
        self._prefix = table.row_prefix
        if self._index is not None and not self._index.exuvia_clustered:
            self._prefix = table.form(self._index).prefix

    def missing(self, txn: Transaction, own: Sequence[Vector]) -> list[int]:
        """The rows without a parent, in order."""
        nulls = _any_null(own)
        if not self._is_by_key(own):
            return self._one_by_one(txn, own)
        found = self._keys(own).dictionary_encode()
        keys = [self._prefix + value for value in found.dictionary.to_pylist()]
        held = self._held(txn, keys)
        lacks = np.array([key not in held for key in keys], dtype=bool)
        bad = lacks[np.asarray(found.indices)]
        return [int(n) for n in np.flatnonzero(bad if nulls is None else bad & ~nulls)]

    def _held(self, txn: Transaction, keys: list[bytes]) -> set[bytes]:
        wanted = sorted(keys)
        pairs = zip(wanted, txn.get_many(wanted), strict=True)
        if self._prefix == self._finder.table.row_prefix:
            return {key for key, payload in pairs if payload is not None}
        return {key for key, payload in pairs if payload is not None and is_live(payload)}

    def _is_by_key(self, own: Sequence[Vector]) -> bool:
        """Whether a parent's key follows from the values as they are held."""
        if self._index is None and not self._is_number:
            return False
        return all(
            mine.field.family == theirs.family
            and mine.field.Collate == theirs.Collate
            and (theirs.family != Family.DECIMAL or _scale(mine.field) == _scale(theirs))
            for mine, theirs in zip(own, self._fields, strict=True)
        )

    def _keys(self, own: Sequence[Vector]) -> pa.Array:
        """What the parents' keys have behind their prefix."""
        if self._is_number:
            words = np.ascontiguousarray(key_batch.sortable(own[0]).astype(">u8"))
            size = pa.binary(words.dtype.itemsize)
            plain = pa.Array.from_buffers(size, len(words), [None, pa.py_buffer(words)])
            return plain.cast(pa.binary())
        parts = [
            key_batch.part_bytes(Vector(field, each.values, each.nulls), -1)
            for field, each in zip(self._fields, own, strict=True)
        ]
        return key_batch.join_rows(parts)

    def _one_by_one(self, txn: Transaction, own: Sequence[Vector]) -> list[int]:
        known: dict[tuple[object, ...], bool] = {}
        found = []
        for n, values in enumerate(zip(*(each.to_list() for each in own), strict=True)):
            if None in values:
                continue
            if values not in known:
                known[values] = self._finder.first(txn, values) is not None
            if not known[values]:
                found.append(n)
        return found


def _whole_key(finder: Finder) -> IndexInfo | None:
    """The index whose keys are just these values, never cut; None where there is none."""
    index = finder.index
    if index is None or len(index.idx_cols) != len(finder.positions):
        return None
    one_each = index.exuvia_clustered or index.is_unique
    return index if one_each and key_codec.is_exact(finder.table, index) else None


def _scale(field: FieldType) -> tuple[int, int]:
    return field.Flen, field.Decimal


def _any_null(own: Sequence[Vector]) -> Array | None:
    found: Array | None = None
    for each in own:
        if each.nulls is not None:
            found = each.nulls if found is None else found | each.nulls
    return found
