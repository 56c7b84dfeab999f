r"""CSV lines for IMPORT INTO with its default options: fields in quotes except numbers, quotes and
backslashes doubled, NULL as \N. TIMESTAMP values are in UTC, a BIT is written as its bytes.

An ENUM's error value cannot be read back from CSV; use Parquet for it.
"""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exuvia.backup.columns import exact_name, stored_columns
from exuvia.base.types import TypeCode
from exuvia.catalog.convert.values import to_text
from exuvia.catalog.model import ColumnInfo, TableInfo

_BINARY = pa.large_binary()
_QUOTE, _NULL = pa.scalar(b'"', _BINARY), pa.scalar(b"\\N", _BINARY)
_NOTHING = pa.scalar(b"", _BINARY)


def lines_of(info: TableInfo, batch: pa.RecordBatch) -> bytes:
    """Returns the lines of a batch made by backup/columns.py."""
    exact: dict[str, list[tuple[int, int]]] = {}
    exact_texts = batch.column(exact_name(info))
    for at in np.flatnonzero(np.asarray(exact_texts.is_valid())).tolist():
        for name, stored in json.loads(exact_texts[at].as_py()).items():
            exact.setdefault(name, []).append((at, stored))
    fields = [
        _field(batch.column(c.name.O), c, exact.get(c.name.O, [])) for c in stored_columns(info)
    ]
    lines = pc.binary_join_element_wise(*fields, pa.scalar(b",", _BINARY))
    whole = pc.binary_join_element_wise(lines, _NOTHING, pa.scalar(b"\n", _BINARY))
    offsets = np.frombuffer(whole.buffers()[1], np.int64)
    data: bytes = whole.buffers()[2][int(offsets[whole.offset]) :].to_pybytes()
    return data[: int(offsets[whole.offset + len(whole)] - offsets[whole.offset])]


def _field(array: pa.Array, column: ColumnInfo, exact: list[tuple[int, int]]) -> pa.Array:
    kind = array.type
    if column.type.Tp == TypeCode.BIT:
        size = (column.type.Flen + 7) // 8
        values: list[Any] = [
            None if v is None else v.to_bytes(size, "big") for v in array.to_pylist()
        ]
        return _quoted(pa.array(values, _BINARY))
    if column.type.Tp == TypeCode.YEAR:  # a single 0 would be read as 2000
        return pc.fill_null(
            pc.utf8_lpad(array.cast(pa.large_string()), 4, "0").cast(_BINARY), _NULL
        )
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pc.fill_null(array.cast(pa.large_string()).cast(_BINARY), _NULL)
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us"))
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        array = array.cast(pa.large_string())
        if exact:
            texts = array.to_pylist()
            for at, stored in exact:
                texts[at] = to_text(stored, column.type)
            array = pa.array(texts, pa.large_string())
    return _quoted(array.cast(_BINARY))


def _quoted(array: pa.Array) -> pa.Array:
    escaped = pc.replace_substring(pc.replace_substring(array, "\\", "\\\\"), '"', '""')
    return pc.fill_null(pc.binary_join_element_wise(_QUOTE, escaped, _QUOTE, _NOTHING), _NULL)
