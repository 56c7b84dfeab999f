"""Columns as one Arrow record batch, in types that DuckDB reads as they are.

    family                    Arrow type           what a reader sees
    INT                       int64
    UINT (ENUM SET BIT YEAR)  uint64               an ENUM's index, a SET's bits
    FLOAT                     double
    DECIMAL up to 38 digits   decimal128(p, s)
    DECIMAL wider             string               its text: DuckDB's DECIMAL ends at 38 digits
    STRING JSON               string
    BYTES                     binary
    DATE DATETIME             int64                packed as in rows (base/types.py): zero dates
                                                   survive, order and equality are those of the
                                                   dates; whoever shows them unpacks them
    TIME                      int64                microseconds

Fields bear the names of the columns. The batch keeps what it was made of alive; nothing is copied
that need not be."""

import numpy as np
import pyarrow as pa

from exuvia.base.types import Family, FieldType
from exuvia.catalog import decimals
from exuvia.catalog.codec.row_codec import storage_of
from exuvia.catalog.columns import Array, Columns, Vector
from exuvia.catalog.convert.to_string import to_text

_NUMBERS = {Family.UINT: pa.uint64(), Family.FLOAT: pa.float64()}


def arrow_type_of(field: FieldType) -> pa.DataType:
    """The Arrow type of a column, see the table."""
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
    """Scaled integers as 16 bytes each, little-endian, as decimal128 has them. Shape (n, 2) or
    (n,)."""
    if scaled.dtype.itemsize == 16:
        return scaled
    wide = np.empty((len(scaled), 2), dtype="<i8")
    wide[:, 0] = scaled
    wide[:, 1] = scaled >> 63
    return wide
