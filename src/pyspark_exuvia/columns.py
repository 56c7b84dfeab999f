"""One column in Spark's types; the table stands in table.py."""

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from exuvia.base.types import Family, FieldType, TypeCode, unpack_date, unpack_datetime
from exuvia.catalog import decimals
from exuvia.catalog.columns import Vector, array_of
from exuvia.catalog.convert.to_string import to_text

_AS_TEXT = (TypeCode.ENUM, TypeCode.SET)
_EPOCH_DAYS = date(1970, 1, 1).toordinal()
_MOST_DIGITS = 38


def spark_type(field: FieldType) -> spark.DataType:
    """The Spark type of a column."""
    if field.Tp in _AS_TEXT or field.family in (Family.STRING, Family.JSON, Family.TIME):
        return spark.StringType()
    if field.family == Family.DECIMAL:
        digits = decimals.precision_of(field)
        if digits > _MOST_DIGITS:
            return spark.StringType()
        return spark.DecimalType(digits, decimals.scale_of(field))
    if field.family == Family.UINT and field.Tp == TypeCode.LONGLONG:
        return spark.DecimalType(20, 0)
    if field.family == Family.DATETIME:
        is_stamp = field.Tp == TypeCode.TIMESTAMP
        return spark.TimestampType() if is_stamp else spark.TimestampNTZType()
    simple = {
        Family.BYTES: spark.BinaryType(),
        Family.FLOAT: spark.DoubleType(),
        Family.DATE: spark.DateType(),
    }
    return simple.get(field.family, spark.LongType())


def spark_array(vector: Vector) -> pa.Array:
    """A decoded column as the Arrow array that Spark expects for `spark_type`."""
    field = vector.field
    if field.Tp in _AS_TEXT or field.family == Family.TIME:
        texts = [None if v is None else to_text(v, field) for v in vector.to_list()]
        return pa.array(texts, pa.string())
    if field.family == Family.DATE:
        return _mapped(vector, _days, pa.date32())
    if field.family == Family.DATETIME:
        zone = "UTC" if field.Tp == TypeCode.TIMESTAMP else None
        return _mapped(vector, packed_micros, pa.timestamp("us", zone))
    if field.family == Family.UINT:
        if field.Tp == TypeCode.LONGLONG:
            return array_of(vector).cast(pa.decimal128(20, 0))
        return pa.array(vector.values.astype(np.int64), mask=vector.nulls)
    return array_of(vector)


def _mapped(vector: Vector, convert: Any, kind: pa.DataType) -> pa.Array:
    """Each distinct packed value is converted once: dates repeat."""
    distinct, at = np.unique(vector.values, return_inverse=True)
    made = pa.array([convert(int(each)) for each in distinct], kind)
    found = made.take(pa.array(at))
    if vector.nulls is None:
        return found
    return pa.compute.if_else(pa.array(vector.nulls), pa.scalar(None, kind), found)


def _days(packed: int) -> int | None:
    year, month, day = unpack_date(packed)
    return date(year, month, day).toordinal() - _EPOCH_DAYS if year and month and day else None


def packed_micros(packed: int) -> int | None:
    """A packed DATETIME as microseconds since 1970; None for a zero date."""
    day, hour, minute, second, micro = unpack_datetime(packed)
    days = _days(day)
    if days is None:
        return None
    return ((days * 24 + hour) * 60 + minute) * 60_000_000 + second * 1_000_000 + micro
