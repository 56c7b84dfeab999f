"""Arrow columns to rows' payloads, a million at a time, for bulk loads;
the inverse of catalog/codec/row_batch.py.

    family                      taken from Arrow                          stands in the row as
    INT UINT ENUM SET BIT YEAR  integers                                  8 bytes
    FLOAT                       numbers                                   8 bytes
    DECIMAL                     decimals, integers, numbers               scaled, 8, 16 or 32 bytes
    DATE                        date32, or integers packed already        4 bytes
    DATETIME                    timestamps, or integers packed already    8 bytes
    TIME                        durations, time64, or microseconds        8 bytes
    STRING JSON BYTES           strings, binaries                         variable

The head of a row (catalog/codec/row_codec.py) is a numpy matrix of bytes; Arrow joins it with the
variable columns. Values are taken as they are: a load is for data that is known to fit its
columns. NULL in a NOT NULL column is refused.
"""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from exuvia.base.mysql_errors import ErrBadNull
from exuvia.base.types import Family, FieldType
from exuvia.catalog import decimals
from exuvia.catalog.codec.row_codec import SIZES, Shape, storage_of
from exuvia.catalog.convert.values import default_of
from exuvia.catalog.table import Table
from exuvia.pipeline.order import Array

_BINARY = pyarrow.large_binary()
_PACK = {"q": "<i8", "Q": "<u8", "d": "<f8", "i": "<i4"}

ArrowColumn = Any


def payloads(table: Table, columns: dict[str, ArrowColumn], rows: int) -> list[bytes]:
    """Payloads of `rows` rows.

    `columns` by lower-case name; one that is missing has its default."""
    shape = Shape(table.layout)
    by_id = {column.id: column for column in table.info.cols}
    head: Array = np.zeros((rows, shape.head_bytes), dtype=np.uint8)
    head[:, :2] = np.frombuffer(shape.layout.id.to_bytes(2, "little"), np.uint8)
    taken = {}
    for number, each in enumerate(shape.layout.columns):
        info = by_id[each.column]
        column = columns.get(info.name.L)
        column = _defaults(info, rows) if column is None else _one_array(column)
        if column.null_count:
            if info.not_null:
                raise ErrBadNull(info.name.O)
            nulls = np.asarray(column.is_null())
            head[:, 2 + number // 8] |= (nulls << number % 8).astype(np.uint8)
        taken[number] = column
    for place, (number, each) in enumerate(shape.fixed):
        start, width = shape.offset_of(place), SIZES[shape.codes[place]]
        head[:, start : start + width] = _fixed(taken[number], each.type, width)
    texts = [_variable(taken[number]) for number, _ in shape.variable]
    ends: Array = np.zeros(rows, dtype=np.uint32)
    for place, text in enumerate(texts):
        ends = ends + _lengths(text)
        at = shape.ends_at + 4 * place
        head[:, at : at + 4] = ends.astype("<u4").view(np.uint8).reshape(rows, 4)
    return _joined(head, texts)


def _one_array(column: ArrowColumn) -> pyarrow.Array:
    if isinstance(column, pyarrow.ChunkedArray):
        return column.combine_chunks()
    return column if isinstance(column, pyarrow.Array) else pyarrow.array(column)


def _defaults(info: Any, rows: int) -> pyarrow.Array:
    value = default_of(info)
    return pyarrow.nulls(rows) if value is None else pyarrow.array([value] * rows)


def _joined(head: Array, texts: list[pyarrow.Array]) -> list[bytes]:
    rows, width = head.shape
    if not rows:
        return []
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int64)
    heads = pyarrow.Array.from_buffers(
        _BINARY, rows, [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(head.tobytes())]
    )
    if not texts:
        joined = heads
    else:
        nothing = pyarrow.scalar(b"", _BINARY)
        joined = pyarrow.compute.binary_join_element_wise(heads, *texts, nothing)
    found: list[bytes] = joined.to_pylist()
    return found


def _variable(column: pyarrow.Array) -> pyarrow.Array:
    if pyarrow.types.is_null(column.type):
        column = column.cast(pyarrow.large_string())
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pyarrow.types.is_string(column.type) or pyarrow.types.is_string_view(column.type):
        column = column.cast(pyarrow.large_string())
    return column.cast(_BINARY).fill_null(b"")


def _lengths(column: pyarrow.Array) -> Array:
    return np.asarray(pyarrow.compute.binary_length(column)).astype(np.uint32)


def _fixed(column: pyarrow.Array, field: FieldType, width: int) -> Array:
    """The bytes of a fixed-width column. Shape (rows, width), uint8; zeros where NULL."""
    storage = storage_of(field)
    if storage.family == Family.DECIMAL:
        return _decimals(column, decimals.scale_of(field), width)
    numbers = _numbers(column, storage.family).astype(_PACK[storage.code])
    return numbers.view(np.uint8).reshape(len(numbers), width)


def _numbers(column: pyarrow.Array, family: Family) -> Array:
    kind = column.type
    if pyarrow.types.is_boolean(kind) or pyarrow.types.is_null(kind):
        column = column.cast(pyarrow.int64())
    if family == Family.DATE and pyarrow.types.is_date(kind):
        return _packed_dates(_plain(column.cast(pyarrow.date32()).cast(pyarrow.int32())))
    if family == Family.DATETIME and (
        pyarrow.types.is_timestamp(kind) or pyarrow.types.is_date(kind)
    ):
        return _packed_times(_plain(column.cast(pyarrow.timestamp("us")).cast(pyarrow.int64())))
    if family == Family.TIME and not pyarrow.types.is_integer(kind):
        unit = pyarrow.duration("us") if pyarrow.types.is_duration(kind) else pyarrow.time64("us")
        column = column.cast(unit).cast(pyarrow.int64())
    return _plain(column)


def _plain(column: pyarrow.Array) -> Array:
    """Numbers as numpy has them, 0 where NULL."""
    filled = column.fill_null(0) if column.null_count else column
    return np.asarray(filled)


def _packed_dates(days: Array) -> Array:
    """Days since 1970 as base/types.py packs dates."""
    dates = days.astype("M8[D]")
    years, months = dates.astype("M8[Y]"), dates.astype("M8[M]")
    year = years.astype(np.int64) + 1970
    month = (months - years).astype(np.int64) + 1
    day = (dates - months).astype(np.int64) + 1
    packed: Array = year << 9 | month << 5 | day
    return packed


def _packed_times(micros: Array) -> Array:
    """Microseconds since 1970 as base/types.py packs date-times."""
    micros = micros.astype(np.int64)
    day_us = 86_400_000_000
    days, rest = micros // day_us, micros % day_us
    seconds, micro = rest // 1_000_000, rest % 1_000_000
    hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    packed: Array = _packed_dates(days) << 37 | hour << 32 | minute << 26 | second << 20 | micro
    return packed


def _decimals(column: pyarrow.Array, scale: int, width: int) -> Array:
    """Scaled little-endian integers. Shape (rows, width), uint8."""
    rows = len(column)
    if pyarrow.types.is_null(column.type):
        return np.zeros((rows, width), dtype=np.uint8)
    if width > 16 or not _fits_decimal128(column):
        return _decimals_one_by_one(column, scale, width)
    if pyarrow.types.is_floating(column.type):
        column = column.cast(pyarrow.decimal128(38, scale), safe=False)
    whole = column.cast(pyarrow.decimal128(38, scale)).fill_null(Decimal(0))
    raw = np.frombuffer(whole.buffers()[1], np.uint8)[
        whole.offset * 16 : (whole.offset + rows) * 16
    ]
    return raw.reshape(rows, 16)[:, :width]


def _fits_decimal128(column: pyarrow.Array) -> bool:
    kind = column.type
    return bool(
        pyarrow.types.is_integer(kind)
        or pyarrow.types.is_floating(kind)
        or pyarrow.types.is_decimal128(kind)
    )


def _decimals_one_by_one(column: pyarrow.Array, scale: int, width: int) -> Array:
    scaled = (
        0 if value is None else decimals.scaled(Decimal(value), scale)
        for value in column.to_pylist()
    )
    raw = b"".join(number.to_bytes(width, "little", signed=True) for number in scaled)
    return np.frombuffer(raw, np.uint8).reshape(len(column), width)
