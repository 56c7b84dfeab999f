"""Index keys of many rows, for backfills. The bytes are those of `key_codec.index_entries` row by
row.

    all parts numbers   one structured array, a field a part; assignment turns bytes   V<n>
    parts of one width  a matrix of bytes, a block of columns a part                   V<n>
    of several widths   the same, with zeros after each key                            Padded
    very different      bytes per part, joined row by row by Arrow                     list of bytes

    part            method                                     value by value instead
    numbers         numpy
    DECIMAL         numpy, two groups of digits on each side   more than 18 digits
    plain texts     the bytes of the rows, folded by one look-up
    *_bin, binary   Arrow: trim, replace                       texts with control characters
    folded          one look-up per byte                       texts not ASCII, or with controls
    cut keys        -                                          those that are cut

Texts are plain if encoding does not change their length. They contain no NULL, no zero byte, no
trailing spaces under PAD SPACE, and are not longer than the index's prefix.

A unique index's keys end in the handle only if a part is NULL; then the keys are a list. A part of
varying width is a column of bytes, marker included. Values without a fast method are encoded one by
one (key_encoder.py).
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exuvia.base.types import Family, FieldType
from exuvia.catalog.codec.key_encoder import (
    HASH_BYTES,
    NULL,
    NULL_NUMBER,
    NUMBERS,
    PRESENT,
    cut,
    encoder_of,
)
from exuvia.catalog.collation import END_NO_PAD, END_PAD, Collation, collation
from exuvia.catalog.columns import Array, Columns, Keys, Vector, buffers_of
from exuvia.catalog.decimals import GROUP, GROUP_DIGITS, SMALL_DIGITS, scale_of
from exuvia.catalog.model import IndexInfo, PredicateTerm
from exuvia.catalog.predicate import COMPARED, Predicate, constants_of
from exuvia.catalog.table import IndexForm, Table
from exuvia.kv.packet import Padded, windows_of


class EntryKeys(NamedTuple):
    """Keys in the order of the rows. `nulls`: a mask of rows with a NULL part, or None without such
    rows."""

    keys: Keys
    nulls: Array | None


def index_keys(table: Table, index: IndexInfo, columns: Columns) -> EntryKeys:
    """The keys of the rows' entries in an index. `columns` must have the index's parts.

    Keys are an array of V<n> if all have one width, Padded if widths are similar, else a list of
    bytes."""
    if not columns.rows:
        return EntryKeys([], None)
    form = table.form(index)
    plain: dict[int, list[Piece]] = {}
    parts: dict[int, Vector] = {}
    for n, kind in enumerate(form.types):
        plain_pieces = None if form.wraps else _plain_text(form, n, columns)
        if plain_pieces is None:
            part = columns.column(form.positions[n])
            parts[n] = _wrapped(part, kind) if form.wraps else part
        else:
            plain[n] = plain_pieces
    nulls: Array | None = None
    for part in parts.values():
        if part.nulls is not None:
            nulls = part.nulls if nulls is None else nulls | part.nulls
    keys: Keys | None
    if not plain and all(part.field.family in NUMBERS for part in parts.values()):
        keys = _number_keys(form, list(parts.values()), columns.handles, not form.unique)
    else:
        keys = _array_keys(form, plain, parts, columns.handles)
    if keys is None:
        parts |= {n: columns.column(form.positions[n]) for n in plain}
        keys = _joined_keys(form, [parts[n] for n in range(len(parts))], columns)
    if nulls is None or not form.unique:
        return EntryKeys(keys, nulls)
    return EntryKeys(_with_handles(keys, columns, nulls), nulls)


def _wrapped(part: Vector, kind: FieldType) -> Vector:
    """Integers of the other sign, as in `change_values.wrapped`."""
    if part.field.family == kind.family:
        return part
    bits = part.values.view("<u8" if kind.family == Family.UINT else "<i8")
    return Vector(kind, bits, part.nulls)


def _with_handles(keys: Keys, columns: Columns, nulls: Array) -> list[bytes]:
    """Keys of a unique index: with the handle if a part is NULL."""
    plain = keys if isinstance(keys, list) else keys.tolist()
    handles = columns.handle_list()
    return [k + h if n else k for k, h, n in zip(plain, handles, nulls.tolist(), strict=True)]


# -- numbers ---------------------------------------------------------------------------------------


def _number_keys(form: IndexForm, parts: list[Vector], handles: Keys, with_handle: bool) -> Keys:
    shape: list[tuple[str, Any]] = [("prefix", f"V{len(form.prefix)}")]
    for n in range(len(parts)):
        shape += [(f"marker{n}", "u1"), (f"value{n}", ">u8")]
    fits = with_handle and isinstance(handles, np.ndarray)
    if fits:
        shape.append(("handle", f"V{handles.dtype.itemsize}"))  # type: ignore[union-attr]
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
        plain = handles if isinstance(handles, list) else handles.tolist()
        return [key + handle for key, handle in zip(packed.tolist(), plain, strict=True)]
    return packed


# -- parts side by side ----------------------------------------------------------------------------

Piece = bytes | Array | Padded
"""One part of all keys: the same bytes in each, a matrix (n, width) of bytes, or texts."""


def _array_keys(
    form: IndexForm, plain: Mapping[int, list[Piece]], parts: Mapping[int, Vector], handles: Keys
) -> Keys | None:
    """The keys as one array. None if a key is too long, or if most of the array would be padding.

    `plain`: the parts that are already laid out as bytes."""
    most = form.keys.limit - HASH_BYTES
    pieces: list[Piece] = []
    for n, cell in enumerate(form.info.idx_cols):
        part_pieces = plain[n] if n in plain else _pieces(parts[n], cell.length, most)
        if part_pieces is None:
            return None
        pieces += part_pieces
    if sum(map(_longest, pieces)) > most:
        return None
    if not form.unique:
        pieces.append(_handle_piece(handles))
    return _concatenated([form.prefix, *pieces], len(handles))


def _pieces(part: Vector, length: int, most: int) -> list[Piece] | None:
    """The encoded part of every row; None if one is longer than `most`."""
    if part.nulls is None and part.field.family in NUMBERS:
        return [_number_block(part)]
    offsets, data = buffers_of(part_bytes(part, length))
    lengths = np.diff(offsets).astype(np.int64)
    if int(lengths.max(initial=0)) > most:
        return None
    return [Padded.gathered(data, offsets[:-1], lengths)]


def _handle_piece(handles: Keys) -> Piece:
    if isinstance(handles, np.ndarray):
        return np.ascontiguousarray(handles).view(np.uint8).reshape(len(handles), -1)
    if isinstance(handles, Padded):
        return handles
    lengths = np.fromiter(map(len, handles), np.int64, len(handles))
    data = np.frombuffer(b"".join(handles), np.uint8)
    return Padded.gathered(data, np.cumsum(lengths) - lengths, lengths)


def _plain_text(form: IndexForm, n: int, columns: Columns) -> list[Piece] | None:
    """The encoded values of a part with plain texts; None for other values."""
    kind, length = form.types[n], form.info.idx_cols[n].length
    if kind.family not in (Family.STRING, Family.BYTES):
        return None
    cells = columns.padded(form.positions[n])
    if cells is None or 0 <= length < cells.matrix.shape[1]:
        return None
    text_collation = collation(kind.Collate) if kind.family == Family.STRING else None
    matrix = cells.matrix
    if np.count_nonzero(matrix) != int(cells.lengths.sum()):
        return None  # a zero byte that is not padding
    pads = text_collation is not None and text_collation.pads
    if text_collation is not None and (pads or text_collation.fold is not None):
        least = int((matrix - np.uint8(1)).min()) + 1  # the least byte except zeros
        if least < _SPACE or (pads and least == _SPACE):
            return None
        if text_collation.fold is not None:
            if matrix.max() >= _DELETE or not text_collation.folds_bytes:
                return None
            if not text_collation.is_exact:
                cells = Padded(_fold_table(text_collation)[matrix], cells.lengths)
    return [PRESENT, cells, END_PAD if pads else END_NO_PAD]


def _longest(piece: Piece) -> int:
    """Length of the longest one."""
    if isinstance(piece, bytes):
        return len(piece)
    return int((piece.matrix if isinstance(piece, Padded) else piece).shape[1])


def _concatenated(pieces: list[Piece], rows: int) -> Keys | None:
    """The pieces of each key, concatenated. None if most of the array would be padding."""
    lengths: Array = np.zeros(rows, np.int64)
    for piece in pieces:
        lengths += piece.lengths if isinstance(piece, Padded) else _longest(piece)
    if not Padded.is_wise(lengths):
        return None
    width = sum(map(_longest, pieces))
    matrix = np.zeros((rows, width), np.uint8)
    whole = matrix.reshape(-1)
    at: int | Array = 0  # in a key; in `whole`, once it differs between keys
    for piece in pieces:
        size = _longest(piece)
        cells = piece.matrix if isinstance(piece, Padded) else piece
        if isinstance(cells, bytes):
            cells = np.frombuffer(cells, np.uint8)[None, :]
        if isinstance(at, int):
            matrix[:, at : at + size] = cells
        elif size:  # overwrites the padding of shorter pieces
            windows_of(whole, size)[at] = np.ascontiguousarray(cells).view(f"V{size}").reshape(-1)
        if isinstance(piece, Padded) and not piece.width:
            at = piece.lengths + (np.arange(rows) * width + at if isinstance(at, int) else at)
        else:
            at = at + size
    if isinstance(at, int):
        packed: Array = matrix.view(f"V{width}").reshape(rows)
        return packed
    return Padded(matrix[:, : int(lengths.max())], lengths)


# -- everything else -------------------------------------------------------------------------------


def _joined_keys(form: IndexForm, parts: list[Vector], columns: Columns) -> list[bytes]:
    """Prefix, values (cut if too long) and, unless unique, the handle of each row."""
    lengths = [part.length for part in form.info.idx_cols]
    encoded = [part_bytes(part, length) for part, length in zip(parts, lengths, strict=True)]
    longest = sum(pc.max(pc.binary_length(part)).as_py() or 0 for part in encoded)
    keys = _cut_keys(form, encoded) if longest > form.keys.limit - HASH_BYTES else None
    if keys is None:
        keys = list(join_rows([pa.scalar(form.prefix), *encoded]).to_pylist())
    if form.unique:
        return keys
    return [key + handle for key, handle in zip(keys, columns.handle_list(), strict=True)]


def _cut_keys(form: IndexForm, encoded: list[pa.Array]) -> list[bytes] | None:
    """Prefix and values; None if no row's values are too long."""
    values = join_rows(encoded)
    if pc.max(pc.binary_length(values)).as_py() <= form.keys.limit - HASH_BYTES:
        return None
    return [form.prefix + cut(value, form.keys.limit) for value in values.to_pylist()]


_SPACE = 0x20
_DELETE = 0x7F  # the last ASCII character, and a control one
_SIGN = np.uint64(1 << 63)


def join_rows(parts: list[Any]) -> pa.Array:
    """The concatenated parts of each row. Parts are binary arrays or scalars."""
    return pc.binary_join_element_wise(*parts, pa.scalar(b""))


def part_bytes(part: Vector, length: int) -> pa.Array:
    """The encoded part of every row. `length` is an index prefix in characters or bytes, -1 for the
    whole value."""
    family = part.field.family
    if family in NUMBERS:
        return _by_value(part, length) if part.nulls is not None else _numbers(part)
    if family == Family.DECIMAL:
        return _decimals(part) if part.values.dtype.itemsize == 8 else _by_value(part, length)
    text_collation = collation(part.field.Collate) if family == Family.STRING else None
    values = _first(part.values, length, is_text=family == Family.STRING)
    body = _body(values, text_collation)
    if body is None:
        return _by_value(part, length)
    end = END_PAD if text_collation is not None and text_collation.pads else END_NO_PAD
    whole = join_rows([pa.scalar(PRESENT), body, pa.scalar(end)])
    return whole if part.nulls is None else pc.fill_null(whole, NULL)


def _by_value(part: Vector, length: int) -> pa.Array:
    encode = encoder_of(part.field, length)
    return pa.array([encode(value) for value in part.to_list()], type=pa.binary())


def _numbers(part: Vector) -> pa.Array:
    return _fixed_bytes(_number_block(part))


def _number_block(part: Vector) -> Array:
    """Numbers without NULLs. Shape (n, 9), uint8."""
    rows = len(part.values)
    words = np.empty(rows, dtype=[("marker", "u1"), ("value", ">u8")])
    words["marker"] = 1
    words["value"] = sortable(part)
    return words.view(np.uint8).reshape(rows, len(NULL_NUMBER))


def sortable(part: Vector) -> Array:
    """Numbers as unsigned words with the same order. Shape (n,), uint64."""
    if part.field.family == Family.UINT:
        return np.asarray(part.values, dtype=np.uint64)
    if part.field.family == Family.FLOAT:
        bits = (part.values + 0.0).view(np.uint64)
        turned: Array = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
        return turned
    words: Array = part.values.astype(np.int64, copy=False).view(np.uint64) ^ _SIGN
    return words


def _fixed_bytes(matrix: Array) -> pa.Array:
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix))]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


# -- texts -----------------------------------------------------------------------------------------


def _first(values: pa.Array, length: int, is_text: bool) -> pa.Array:
    if length < 0:
        return values
    if is_text:
        return pc.utf8_slice_codeunits(values, 0, length)
    return pc.binary_slice(values.cast(pa.binary()), 0, length)


def _body(values: pa.Array, text_collation: Collation | None) -> pa.Array | None:
    """The sort keys without their ends; None if some text needs the slow method."""
    if text_collation is None or (text_collation.fold is None and not text_collation.pads):
        return pc.replace_substring(values.cast(pa.binary()), b"\0", b"\0\xff")
    if text_collation.pads:
        values = pc.utf8_rtrim(values, " ")
    offsets, raw = buffers_of(values)
    data = _folded(raw, text_collation)
    if data is None:
        return None
    offsets_buffer = pa.py_buffer(offsets)
    body = pa.Array.from_buffers(
        pa.binary(), len(values), [values.buffers()[0], offsets_buffer, pa.py_buffer(data)]
    )
    return pc.replace_substring(body, b" ", b" \x02") if text_collation.pads else body


def _folded(data: Array, text_collation: Collation | None) -> Array | None:
    """The folded bytes of texts under the collation; None if some text needs the slow method."""
    if (
        text_collation is None
        or (text_collation.fold is None and not text_collation.pads)
        or not len(data)
    ):
        return data
    if data.min() < _SPACE:
        return None
    fold = text_collation.fold
    if fold is None:
        return data
    if data.max() >= _DELETE or not text_collation.folds_bytes:
        return None
    if text_collation.is_exact:
        return data
    folded: Array = _fold_table(text_collation)[data]
    return folded


@lru_cache(64)
def _fold_table(text_collation: Collation) -> Array:
    """ASCII byte -> its sort key under a folding collation, for all but control characters."""
    assert text_collation.fold is not None, "it folds"
    table = np.arange(256, dtype=np.uint8)
    for code in range(_SPACE, _DELETE):
        table[code] = ord(text_collation.fold(chr(code)))
    return table


def keys_of(column: pa.Array) -> Keys:
    """A column of bytes, without NULL, as keys."""
    offsets, data = buffers_of(column)
    lengths = np.diff(offsets)
    if not lengths.any():
        return list(column.to_pylist())
    if (lengths == lengths[0]).all():
        equal_width: Array = data.view(f"V{lengths[0]}")
        return equal_width
    cells = Padded.if_wise(data, offsets[:-1], lengths)
    return list(column.to_pylist()) if cells is None else cells


# -- DECIMAL up to 18 digits -----------------------------------------------------------------------


def _decimals(part: Vector) -> pa.Array:
    """See catalog/decimals.py: at most two groups of nine digits on either side of the point."""
    scale = scale_of(part.field)
    values = part.values.astype(np.int64, copy=False)
    size = np.abs(values)
    whole, rest = np.divmod(size, 10**scale)
    rest = rest * 10 ** (SMALL_DIGITS - scale)
    groups = np.stack([*np.divmod(whole, GROUP), *np.divmod(rest, GROUP)], axis=1)
    stands = np.stack(
        [groups[:, 0] > 0, np.ones(len(values), dtype=bool), rest > 0, groups[:, 3] > 0], axis=1
    )
    follows = np.zeros_like(stands)
    follows[:, :3] = stands[:, 1:]
    words = (groups << 1 | follows).astype(">u4")
    rows = len(values)
    matrix = np.empty((rows, 18), dtype=np.uint8)
    matrix[:, 0] = 1
    matrix[:, 1] = 0x81 + stands[:, 0]
    matrix[:, 2:] = words.view(np.uint8).reshape(rows, 16)
    matrix[values < 0, 1:] ^= 0xFF
    mask = np.ones((rows, 18), dtype=bool)
    mask[:, 2:] = np.repeat(stands, 4, axis=1)
    if part.nulls is not None:
        matrix[part.nulls, 0] = 0
        mask[part.nulls, 1:] = False
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(mask.sum(axis=1), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(matrix[mask])]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


assert GROUP_DIGITS * 2 == SMALL_DIGITS


# -- the rows of a partial index -------------------------------------------------------------------

_ARROW = {
    "=": "equal",
    "in": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def held_rows(predicate: Predicate, columns: Columns) -> Array:
    """A mask of the rows in a partial index, equal to `Predicate.holds` row by row. Shape (n,),
    bool."""
    mask: Array | None = None
    for term, position, kind in zip(
        predicate.terms, predicate.positions, predicate.kinds, strict=True
    ):
        some = _term_mask(term, kind, columns.column(position))
        mask = some if mask is None else mask & some
    assert mask is not None, "a predicate has terms"
    return mask


def _term_mask(term: PredicateTerm, kind: FieldType, part: Vector) -> Array:
    nulls: Array = np.zeros(len(part.values), bool) if part.nulls is None else part.nulls
    if term.operator.startswith("is"):
        return nulls if term.operator == "is null" else ~nulls
    mask: Array = np.zeros(len(nulls), bool)
    if kind.family in NUMBERS:
        compare = COMPARED.get(term.operator, COMPARED["="])
        for constant in constants_of(term, kind):
            mask |= compare(part.values, constant)
    else:
        encoded = part_bytes(part, -1)
        for constant in constants_of(term, kind):
            mask |= pc.call_function(_ARROW[term.operator], [encoded, constant]).to_numpy(False)
    return mask & ~nulls
