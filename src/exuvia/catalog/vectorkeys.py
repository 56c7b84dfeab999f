"""Index keys of many rows: the kernel of a fill. The same bytes as `keycodec.index_key` gives row
by row.

    all parts numbers   one structured array, a field a part; assignment turns bytes   V<n>
    otherwise           bytes per part, joined row by row by Arrow                     list of bytes

    part            how                                        value by value instead
    numbers         numpy
    DECIMAL         numpy, two groups of digits on each side   more than 18 digits
    *_bin, binary   Arrow: trim, replace                       texts with control characters
    folded          one look-up per byte                       texts not ASCII, or with controls
    cut keys        -                                          those that are cut

A unique index's keys end in the handle only where a part is NULL; then the keys are a list.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exuvia.base.types import Family, FieldType
from exuvia.catalog.columns import Array, Columns, Keys, Vector
from exuvia.catalog.keyform import HASH_BYTES, NUMBERS, cut
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import IndexForm, Table
from exuvia.catalog.vectorparts import join_rows, part_bytes, sortable


class EntryKeys(NamedTuple):
    """Keys in the order of the rows. `nulls`: which rows have a NULL among their parts; None where
    none has."""

    keys: Keys
    nulls: Array | None


def index_keys(table: Table, index: IndexInfo, columns: Columns) -> EntryKeys:
    """The keys of the rows' entries in an index. `columns` must hold the index's parts.

    Keys are an array of V<n> where all are of one width by their types, else a list of bytes."""
    form = table.form(index)
    parts = [columns.column(position) for position in form.positions]
    if form.wraps:
        parts = [_wrapped(part, kind) for part, kind in zip(parts, form.types, strict=True)]
    nulls = _any_null(parts)
    ends_in_handle = not form.unique
    if all(part.field.family in NUMBERS for part in parts):
        keys = _number_keys(form, parts, columns.handles, ends_in_handle)
        if ends_in_handle or nulls is None:
            return EntryKeys(keys, nulls)
        return EntryKeys(_with_handles(keys, columns, nulls), nulls)
    found = _joined_keys(form, parts, columns)
    if ends_in_handle:
        handles = columns.handle_list()
        return EntryKeys([k + h for k, h in zip(found, handles, strict=True)], nulls)
    return EntryKeys(found if nulls is None else _with_handles(found, columns, nulls), nulls)


def _wrapped(part: Vector, kind: FieldType) -> Vector:
    """Integers of the other sign, as `change_values.wrapped` has them."""
    if part.field.family == kind.family:
        return part
    bits = part.values.view("<u8" if kind.family == Family.UINT else "<i8")
    return Vector(kind, bits, part.nulls)


def _any_null(parts: list[Vector]) -> Array | None:
    found: Array | None = None
    for part in parts:
        if part.nulls is not None:
            found = part.nulls if found is None else found | part.nulls
    return found


def _with_handles(keys: Keys, columns: Columns, nulls: Array) -> list[bytes]:
    """Keys of a unique index: with the handle where a part is NULL."""
    plain = keys if isinstance(keys, list) else keys.tolist()
    handles = columns.handle_list()
    return [k + h if n else k for k, h, n in zip(plain, handles, nulls.tolist(), strict=True)]


# -- numbers ---------------------------------------------------------------------------------------


def _number_keys(form: IndexForm, parts: list[Vector], handles: Keys, with_handle: bool) -> Keys:
    shape: list[tuple[str, Any]] = [("prefix", f"V{len(form.prefix)}")]
    for n in range(len(parts)):
        shape += [(f"marker{n}", "u1"), (f"value{n}", ">u8")]
    fits = with_handle and not isinstance(handles, list)
    if fits:
        shape.append(("handle", "V8"))
    keys = np.empty(len(handles), dtype=shape)
    keys["prefix"] = np.void(form.prefix)
    for n, part in enumerate(parts):
        words = sortable(part)
        keys[f"marker{n}"] = 1
        if part.nulls is not None:
            words = np.where(part.nulls, np.uint64(0), words)
            keys[f"marker{n}"] = ~part.nulls
        keys[f"value{n}"] = words
    if fits:
        keys["handle"] = handles
    packed: Array = keys.view(f"V{keys.dtype.itemsize}")
    if with_handle and not fits:
        pairs = zip(packed.tolist(), handles, strict=True)
        return [key + handle for key, handle in pairs]
    return packed


# -- everything else -------------------------------------------------------------------------------


def _joined_keys(form: IndexForm, parts: list[Vector], columns: Columns) -> list[bytes]:
    """Prefix and values of each row, cut where too long."""
    lengths = [part.length for part in form.info.idx_cols]
    encoded = [part_bytes(part, length) for part, length in zip(parts, lengths, strict=True)]
    kept = form.keys.limit - HASH_BYTES
    values = join_rows(encoded)
    longest = pc.max(pc.binary_length(values)).as_py()
    if longest is not None and longest > kept:
        return [form.prefix + cut(value, form.keys.limit) for value in values.to_pylist()]
    return list(join_rows([pa.scalar(form.prefix), values]).to_pylist())
