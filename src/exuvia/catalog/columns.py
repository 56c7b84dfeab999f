"""Vectors: many values of one column as one array, and some columns of many rows. The vectorised
codec works on them.

    family                  `values`                             NULL
    INT DATETIME TIME       int64                                any number, and True in `nulls`
    UINT                    uint64                               the same
    FLOAT                   float64                              the same
    DATE                    int32 (packed)                       the same
    DECIMAL                 int64, V16, V32: scaled as in rows   the same
    STRING JSON             pyarrow string                       null in the array too
    BYTES                   pyarrow binary                       null in the array too

`nulls` is omitted (None) in a vector without NULLs. Vectors are immutable.

Columns as one Arrow record batch, in types that DuckDB reads without conversion:

    family                    Arrow type           meaning
    INT                       int64
    UINT (ENUM SET BIT YEAR)  uint64               an ENUM's index, a SET's bits
    FLOAT                     double
    DECIMAL up to 38 digits   decimal128(p, s)
    DECIMAL wider             string               its text: DuckDB's DECIMAL ends at 38 digits
    STRING JSON               string
    BYTES                     binary
    DATE DATETIME             int64                packed as in rows (base/types.py): zero dates
                                                   survive, order and equality are those of the
                                                   dates; displays must unpack them
    TIME                      int64                microseconds

Fields have the names of the columns. The batch keeps its source arrays alive, and copies only what
it must.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exuvia.base.types import Family, FieldType, Value
from exuvia.catalog import decimals
from exuvia.catalog.codec.row_codec import packer_of, storage_of, unpacker_of
from exuvia.catalog.convert.values import to_text
from exuvia.kv.packet import Padded

Array = np.ndarray[Any, np.dtype[Any]]
Keys = Array | Padded | list[bytes]

DTYPES = {"q": "<i8", "Q": "<u8", "d": "<f8", "i": "<i4", "16s": "V16", "32s": "V32"}


class Vector(NamedTuple):
    """Values of one type, as in the module's table."""

    field: FieldType
    values: Any
    nulls: Array | None

    def to_list(self) -> list[Value]:
        """The values in the form of rows."""
        if not storage_of(self.field).code:
            return list(self.values.to_pylist())
        cells = self.values.tolist()
        unpack = unpacker_of(self.field)
        if unpack is not None:
            cells = [unpack(value) for value in cells]
        if self.nulls is None:
            return list(cells)
        return [None if n else v for v, n in zip(cells, self.nulls.tolist(), strict=True)]

    def take(self, positions: Array) -> "Vector":
        """The values at the positions, in that order."""
        if storage_of(self.field).code:
            values = self.values[positions]
        else:
            values = self.values.take(pa.array(positions))
        return Vector(self.field, values, None if self.nulls is None else self.nulls[positions])


def arrow_type(field: FieldType) -> pa.DataType:
    """The pyarrow type of a family without fixed width."""
    return pa.binary() if field.family == Family.BYTES else pa.string()


def vector_of(values: Sequence[Value], field: FieldType) -> Vector:
    """A vector of values in the form of rows; slow, for few values and for casts."""
    nulls: Array | None = np.fromiter((v is None for v in values), dtype=bool, count=len(values))
    if nulls is not None and not nulls.any():
        nulls = None
    storage = storage_of(field)
    if not storage.code:
        return Vector(field, pa.array(values, type=arrow_type(field)), nulls)
    pack = packer_of(field)
    zero = bytes(decimals.width_of(field)) if storage.code.endswith("s") else 0
    packed: list[Any] = [zero if v is None else (v if pack is None else pack(v)) for v in values]
    if isinstance(zero, bytes):
        return Vector(field, np.frombuffer(b"".join(packed), dtype=DTYPES[storage.code]), nulls)
    return Vector(field, np.array(packed, dtype=DTYPES[storage.code]), nulls)


def constant(value: Value, field: FieldType, rows: int) -> Vector:
    """A vector of the same value `rows` times."""
    one = vector_of([value], field)
    return one.take(np.zeros(rows, dtype=np.int64))


def mixed(parts: Sequence[tuple[Array, Vector]], rows: int) -> Vector:
    """One vector of parts at the given positions, which together cover `rows`."""
    order = np.empty(rows, dtype=np.int64)
    order[np.concatenate([at for at, _ in parts])] = np.arange(rows)
    return joined([part for _, part in parts]).take(order)


def joined(vectors: Sequence[Vector]) -> Vector:
    """The concatenation of vectors."""
    if len(vectors) == 1:
        return vectors[0]
    field = vectors[0].field
    if storage_of(field).code:
        values = np.concatenate([part.values for part in vectors])
    else:
        values = pa.concat_arrays([part.values for part in vectors])
    nulls = None
    if any(part.nulls is not None for part in vectors):
        nulls = np.concatenate([_nulls_of(part) for part in vectors])
    return Vector(field, values, nulls)


Packed = tuple[bytes, bytes, bytes]


def packed(vector: Vector) -> Packed:
    """The vector as plain bytes: values, ends (of texts), and NULLs."""
    nulls = b"" if vector.nulls is None else vector.nulls.tobytes()
    if storage_of(vector.field).code:
        return vector.values.tobytes(), b"", nulls
    binary = pc.fill_null(vector.values.cast(pa.binary()), b"")
    ends = np.cumsum(pc.binary_length(binary).to_numpy(), dtype=np.int32)
    data = b"".join(binary.to_pylist()) if len(binary) else b""
    return data, ends.tobytes(), nulls


def unpacked(raw: Packed, field: FieldType) -> Vector:
    """Inverse of `packed`."""
    values, ends, nulls = raw
    is_null = np.frombuffer(nulls, bool) if nulls else None
    code = storage_of(field).code
    if code:
        return Vector(field, np.frombuffer(values, DTYPES[code]), is_null)
    offsets = np.append(np.zeros(1, np.int32), np.frombuffer(ends, np.int32))
    validity = None
    if is_null is not None:
        validity = pa.py_buffer(np.packbits(~is_null, bitorder="little").tobytes())
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(values)]
    texts = pa.Array.from_buffers(arrow_type(field), len(offsets) - 1, buffers)
    return Vector(field, texts, is_null)


def _nulls_of(part: Vector) -> Array:
    return np.zeros(len(part.values), dtype=bool) if part.nulls is None else part.nulls


class Columns:
    """Some columns of some rows.

    `handles` are an array of V8 for integers, else a list of bytes; empty for rows without keys.
    `column(position)` is built on first use; `positions` are those of the table's columns."""

    def __init__(
        self,
        fields: Sequence[FieldType],
        names: Sequence[str],
        positions: Sequence[int],
        handles: Keys,
        make: "Callable[[Columns, int], Vector]",
        rows: int,
        pad: "Callable[[int], Padded | None] | None" = None,
    ) -> None:
        self.positions = list(positions)
        self.names = names
        self.fields = fields
        self.handles = handles
        self.rows = rows
        self._make = make
        self._pad = pad
        self._vectors: dict[int, Vector] = {}
        self._padded_cache: dict[int, Padded | None] = {}

    def column(self, position: int) -> Vector:
        """The values of the column at that position of the table."""
        vector = self._vectors.get(position)
        if vector is None:
            vector = self._vectors[position] = self._make(
                self, position
            )  # no reference cycle: rows are freed at once
        return vector

    def padded(self, position: int) -> Padded | None:
        """The bytes of a text column as a matrix; None for NULLs, too different lengths, or another
        type."""
        if position not in self._padded_cache:
            make = self._pad or (lambda position: _padded_of(self.column(position)))
            self._padded_cache[position] = make(position)
        return self._padded_cache[position]

    def nulls(self, position: int) -> Array | None:
        """A mask of NULLs, or None for a column without NULLs."""
        return None if self.padded(position) is not None else self.column(position).nulls

    def field(self, position: int) -> FieldType:
        """The type of the column at that position."""
        return self.fields[self.positions.index(position)]

    def take(self, position: int, rows: Array) -> Vector:
        """The column's values in these rows, in that order."""
        cells = self.padded(position)
        if cells is None:
            return self.column(position).take(rows)
        field, few = self.field(position), cells[rows]
        ends = np.concatenate([[0], np.cumsum(few.lengths)]).astype(np.int32)
        data = few.matrix[np.arange(few.matrix.shape[1]) < few.lengths[:, None]]
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
        return Vector(field, pa.Array.from_buffers(arrow_type(field), len(few), buffers), None)

    def to_rows(self) -> list[list[Value]]:
        """The rows, with the columns in the order of `positions`."""
        lists = [self.column(position).to_list() for position in self.positions]
        return [list(row) for row in zip(*lists, strict=True)] if lists else [[]] * self.rows

    def handle_list(self) -> list[bytes]:
        """The handles as bytes."""
        return self.handles if isinstance(self.handles, list) else list(self.handles.tolist())


def _padded_of(vector: Vector) -> Padded | None:
    if vector.nulls is not None or storage_of(vector.field).code:
        return None
    offsets, data = buffers_of(vector.values)
    return Padded.if_wise(data, offsets[:-1], np.diff(offsets).astype(np.int64))


def buffers_of(values: pa.Array) -> tuple[Array, Array]:
    """Offsets (n + 1, from 0, int32), and the bytes they point into."""
    if values.offset:
        values = pa.concat_arrays([values])
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[
        values.offset : values.offset + len(values) + 1
    ]
    if data_buffer is None:
        return offsets - offsets[0], np.zeros(0, dtype=np.uint8)
    data = np.frombuffer(data_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], data


# -- arrow -----------------------------------------------------------------------------------------

_NUMBERS = {Family.UINT: pa.uint64(), Family.FLOAT: pa.float64()}


def arrow_type_of(field: FieldType) -> pa.DataType:
    """The Arrow type of a column, as in the module's table."""
    family = field.family
    if family == Family.DECIMAL:
        precision = decimals.precision_of(field)
        if precision > decimals.MIDDLE_DIGITS:
            return pa.string()
        return pa.decimal128(precision, decimals.scale_of(field))
    if family in (Family.STRING, Family.JSON):
        return pa.string()
    if family == Family.BYTES:
        return pa.binary()
    return _NUMBERS.get(family, pa.int64())


def to_arrow(columns: Columns) -> pa.RecordBatch:
    """The columns, in the order of `columns.positions`."""
    arrays = [array_of(columns.column(position)) for position in columns.positions]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns.names))


def array_of(vector: Vector) -> pa.Array:
    """One column as Arrow."""
    field = vector.field
    if not storage_of(field).code:
        return vector.values
    kind = arrow_type_of(field)
    if field.family != Family.DECIMAL:
        return pa.array(vector.values.astype(kind.to_pandas_dtype(), copy=False), mask=vector.nulls)
    if pa.types.is_string(kind):
        texts = [None if v is None else to_text(v, field) for v in vector.to_list()]
        return pa.array(texts, type=kind)
    validity = None
    if vector.nulls is not None:
        validity = pa.py_buffer(np.packbits(~vector.nulls, bitorder="little").tobytes())
    data = np.ascontiguousarray(_sixteen_bytes(vector.values))
    return pa.Array.from_buffers(kind, len(vector.values), [validity, pa.py_buffer(data)])


def _sixteen_bytes(scaled: Array) -> Array:
    """Scaled integers as 16 little-endian bytes each, for decimal128. Shape (n, 2) or (n,)."""
    if scaled.dtype.itemsize == 16:
        return scaled
    wide = np.empty((len(scaled), 2), dtype="<i8")
    wide[:, 0] = scaled
    wide[:, 1] = scaled >> 63
    return wide
