"""Columns of rows as Parquet columns for any reader, and back without loss.

    MySQL                         Parquet                       Spark type
    integers                      INT64                         bigint
    BIGINT UNSIGNED, BIT          UINT_64                       decimal(20,0)
    DECIMAL up to 38 digits       DECIMAL(p, s)                 decimal(p, s)
    DECIMAL beyond                its text                      string
    FLOAT, DOUBLE                 DOUBLE                        double
    CHAR, TEXT, JSON, ENUM, SET   UTF-8                         string
    BINARY, BLOB                  binary                        binary
    DATE                          DATE                          date
    DATETIME                      TIMESTAMP of microseconds     timestamp_ntz
    TIMESTAMP                     TIMESTAMP adjusted to UTC     timestamp
    TIME                          its text, -838:59:59.000000   string
    YEAR                          INT64                         bigint

Some values have no form in the Parquet type: a zero date, an ENUM's error value, a SET with the
same text as another. They are NULL in their column and kept as JSON in one more text column of the
file, by column name: {"placed": 0}. The number is the one stored in rows (base/types.py). This
extra column is NULL in nearly all rows.

Tables whose rows have hidden ids store them in `_tidb_rowid`. VIRTUAL columns are computed on read
and therefore left out.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exuvia.base.errors import Refused
from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog.columns import Array, Columns, Vector, array_of, arrow_type_of
from exuvia.catalog.convert.values import from_text, to_text
from exuvia.catalog.model import ColumnInfo, SchemaState, TableInfo

ROW_ID = "_tidb_rowid"
EXACT = "_exuvia_exact"
_BY_NAME = (TypeCode.ENUM, TypeCode.SET)
_WORDS = (TypeCode.LONGLONG, TypeCode.BIT)


def stored_columns(info: TableInfo) -> list[ColumnInfo]:
    """Public columns that are stored in rows: all but VIRTUAL ones."""
    return [c for c in info.cols if c.state == SchemaState.PUBLIC and not c.is_virtual]


def exact_name(info: TableInfo) -> str:
    """Returns an unused name for the column of values that the Parquet types cannot hold."""
    used_names = {column.name.L for column in info.cols}
    name = EXACT
    while name in used_names:
        name += "_"
    return name


def has_row_ids(info: TableInfo) -> bool:
    """Whether the table's rows have hidden ids."""
    return not (info.pk_is_handle or info.is_common_handle)


def schema_of(info: TableInfo) -> pa.Schema:
    """Returns the Parquet schema of a table's files."""
    fields = [pa.field(ROW_ID, pa.int64(), False)] if has_row_ids(info) else []
    fields += [pa.field(c.name.O, _type(c.type)) for c in stored_columns(info)]
    return pa.schema([*fields, pa.field(exact_name(info), pa.string())])


def texts_of(info: TableInfo) -> list[str]:
    """Names of the columns that may be dictionary-encoded: texts. Numbers are left out because a
    dictionary would merge 0.0 and -0.0."""
    columns = stored_columns(info)
    return [c.name.O for c in columns if pa.types.is_string(_type(c.type))]


def _type(field: FieldType) -> pa.DataType:
    if field.Tp in _BY_NAME or field.family == Family.TIME:
        return pa.string()
    if field.family == Family.DATE:
        return pa.date32()
    if field.family == Family.DATETIME:
        return pa.timestamp("us", "UTC" if field.Tp == TypeCode.TIMESTAMP else None)
    if field.family == Family.UINT and field.Tp not in _WORDS:
        return pa.int64()
    return arrow_type_of(field)


# -- rows to Parquet -------------------------------------------------------------------------------


def to_batch(info: TableInfo, rows: Columns, schema: pa.Schema) -> pa.RecordBatch:
    """Returns rows as a batch of a file. `info`: the table as stored in the backup; `rows` has the
    same columns in the same order."""
    columns = stored_columns(info)
    vectors = [rows.column(position) for position in rows.positions]
    arrays = [_to_arrow(vector) for vector in vectors]
    exact = _exact([c.name.O for c in columns], vectors, arrays, rows.rows)
    row_id_arrays = [row_ids(rows)] if has_row_ids(info) else []
    return pa.RecordBatch.from_arrays([*row_id_arrays, *arrays, exact], schema=schema)


def row_ids(rows: Columns) -> pa.Array:
    """Returns the hidden ids of rows, int64."""
    raw = np.frombuffer(b"".join(rows.handle_list()), ">u8")
    return pa.array((raw.astype(np.uint64) - np.uint64(1 << 63)).view(np.int64))


def _to_arrow(vector: Vector) -> pa.Array:
    """Returns the column as an Arrow array, NULL where the type cannot hold the value."""
    field, kind = vector.field, _type(vector.field)
    if field.Tp in _BY_NAME or field.family == Family.TIME:
        distinct, at = np.unique(vector.values, return_inverse=True)
        texts = [_text(stored, field) for stored in distinct.tolist()]
        return _with_nulls(pa.array(texts, kind).take(pa.array(at)), vector.nulls)
    if field.family in (Family.DATE, Family.DATETIME):
        numbers, lost = _since_1970(vector.values.astype(np.int64), field.family)
        nulls = lost if vector.nulls is None else lost | vector.nulls
        width = np.int32 if field.family == Family.DATE else np.int64
        return pa.array(numbers.astype(width), mask=nulls).cast(kind)
    return array_of(vector).cast(kind)


def _text(stored: int, field: FieldType) -> str | None:
    """Returns the text of an ENUM, SET or TIME, or None if another value has the same text."""
    try:
        text = to_text(stored, field)
        return text if _number(text, field) == stored else None
    except (Refused, LookupError, ValueError):
        return None


def _number(text: str, field: FieldType) -> int:
    """Returns the stored number of a text: the inverse of `_text`."""
    elements = field.Elems or ()
    if field.Tp == TypeCode.ENUM:
        return elements.index(text) + 1
    if field.Tp == TypeCode.SET:
        return sum(1 << elements.index(element) for element in text.split(",")) if text else 0
    packed: int = from_text(text, field)
    return packed


def _with_nulls(array: pa.Array, nulls: Array | None) -> pa.Array:
    if nulls is None:
        return array
    return pc.if_else(pa.array(nulls), pa.scalar(None, array.type), array)


_DAY_US = 86_400_000_000


def _since_1970(packed: Array, family: Family) -> tuple[Array, Array]:
    """Returns (numbers, lost): packed dates as days and date-times as microseconds since 1970.
    `lost` marks values that are not calendar dates: a part is zero, or the month has no such day.
    Parquet readers support the years 1 to 9999."""
    day = packed if family == Family.DATE else packed >> 37
    year, month = day >> 9, day >> 5 & 15
    months = ((year - 1970) * 12 + np.maximum(month, 1) - 1).astype("M8[M]")
    days = months.astype("M8[D]").astype(np.int64) + (day & 31) - 1
    numbers = days
    if family == Family.DATETIME:
        seconds = ((packed >> 32 & 31) * 60 + (packed >> 26 & 63)) * 60 + (packed >> 20 & 63)
        numbers = days * _DAY_US + seconds * 1_000_000 + (packed & 0xFFFFF)
    lost = (_packed(numbers, family) != packed) | (year < 1) | (year > 9999)
    return numbers, lost


def _packed(numbers: Array, family: Family) -> Array:
    """Inverse of `_since_1970` for calendar dates."""
    days = numbers if family == Family.DATE else numbers // _DAY_US
    dates = days.astype("M8[D]")
    years, months = dates.astype("M8[Y]"), dates.astype("M8[M]")
    year, month = years.astype(np.int64) + 1970, (months - years).astype(np.int64) + 1
    packed: Array = year << 9 | month << 5 | (dates - months).astype(np.int64) + 1
    if family == Family.DATE:
        return packed
    rest = numbers % _DAY_US
    seconds, micro = rest // 1_000_000, rest % 1_000_000
    hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    whole: Array = packed << 37 | hour << 32 | minute << 26 | second << 20 | micro
    return whole


def _exact(
    names: Sequence[str], vectors: Sequence[Vector], arrays: Sequence[pa.Array], rows: int
) -> pa.Array:
    """Returns the JSON column of values that are NULL in the arrays but not in the rows."""
    lost_values: dict[int, dict[str, int]] = {}
    for name, vector, array in zip(names, vectors, arrays, strict=True):
        missing = array.null_count - (0 if vector.nulls is None else int(vector.nulls.sum()))
        if not missing:
            continue
        lost = np.asarray(array.is_null())
        if vector.nulls is not None:
            lost &= ~vector.nulls
        for at in np.flatnonzero(lost).tolist():
            lost_values.setdefault(at, {})[name] = int(vector.values[at])
    if not lost_values:
        return pa.nulls(rows, pa.string())
    return pa.array(
        [json.dumps(lost_values[n]) if n in lost_values else None for n in range(rows)], pa.string()
    )


# -- Parquet to rows -------------------------------------------------------------------------------


def from_batch(info: TableInfo, batch: pa.RecordBatch) -> Mapping[str, Any]:
    """Returns the columns of a file by lower-case name, as catalog/codec/row_batch.py encodes them.
    Raises KeyError, ValueError or ArrowInvalid if the file belongs to another table."""
    exact: dict[str, list[tuple[int, int]]] = {}
    exact_texts = batch.column(exact_name(info))
    if exact_texts.null_count < len(exact_texts):
        for at in np.flatnonzero(np.asarray(exact_texts.is_valid())).tolist():
            for name, stored in json.loads(exact_texts[at].as_py()).items():
                exact.setdefault(name, []).append((at, stored))
    return {
        c.name.L: _from_arrow(batch.column(c.name.O), c.type, exact.get(c.name.O, ()))
        for c in stored_columns(info)
    }


def _from_arrow(array: pa.Array, field: FieldType, exact: Sequence[tuple[int, int]]) -> pa.Array:
    """Inverse of `_to_arrow`; `exact` restores the values it replaced by NULL. Packed types return
    numbers."""
    if field.Tp in _BY_NAME or field.family == Family.TIME:
        coded = array.dictionary_encode()
        texts = coded.dictionary.to_pylist()
        kind = pa.int64() if field.family == Family.TIME else pa.uint64()
        numbers = pa.array([_number(text, field) for text in texts], kind)
        return _patched(numbers.take(coded.indices), exact)
    if field.family in (Family.DATE, Family.DATETIME):
        width = pa.int32() if field.family == Family.DATE else pa.int64()
        numbers = array.cast(_type(field)).cast(width)
        plain = np.asarray(numbers.fill_null(0)).astype(np.int64)
        nulls = np.asarray(numbers.is_null()) if numbers.null_count else None
        return _patched(pa.array(_packed(plain, field.family), mask=nulls), exact)
    return array


def _patched(array: pa.Array, exact: Sequence[tuple[int, int]]) -> pa.Array:
    if not exact:
        return array
    values = array.to_pylist()
    for at, stored in exact:
        values[at] = stored
    return pa.array(values, array.type)
