"""A table as partitions of Arrow batches: spans of rows, decoded by column.

Types are those of Spark's own JDBC source for MySQL, but where it loses something (*):

TINYINT(1), BIT(1)       boolean                    DECIMAL to 38         decimal(p,s)
TINYINT; UNSIGNED        byte; short                FLOAT; DOUBLE         float; double
SMALLINT; UNSIGNED       short; int                 CHAR, TEXT, JSON      string
MEDIUMINT; UNSIGNED      int; int                   ENUM, SET             string
INT; UNSIGNED            int; bigint                BINARY, BLOB, BIT(n)  binary
BIGINT; UNSIGNED         bigint; decimal(20,0)      DATE                  date
* YEAR                   int                        DATETIME              timestamp_ntz
* TIME, wider DECIMAL    string                     TIMESTAMP             timestamp

A zero date is NULL, as zeroDateTimeBehavior=CONVERT_TO_NULL has it.

A process opens the store of a URL once, and never uses one that was opened before a fork. Of a
moment (exuvia/pipeline/moment.py) rows and definitions are what the exporter's snapshot, or the
copy, has.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from exuvia.base.types import Family, FieldType, TypeCode, unpack_date, unpack_datetime
from exuvia.catalog import decimals
from exuvia.catalog.codec import row_batch
from exuvia.catalog.columns import Vector, array_of
from exuvia.catalog.convert.values import to_text
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.table import Table
from exuvia.kv.packet import Span
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import ManagedTransaction
from exuvia.node.assemble import EVALUATOR
from exuvia.pipeline import moment
from exuvia.pipeline.moment import view_of

_stores: dict[tuple[str, int], Store] = {}


def store_of(options: Mapping[str, str]) -> Store:
    """The store that the options name. Raises ValueError without a `url`, Unavailable."""
    url = options.get("url")
    if not url:
        raise ValueError('.option("url", "lmdb:///folder") is missing')
    key = (url, os.getpid())
    if key not in _stores:
        if url.startswith("lmdb:"):
            moment.require_there(url, "there is no store at")
        _stores[key] = open_store(url)
    return _stores[key]


@contextmanager
def opened(options: Mapping[str, str]) -> Iterator[Store]:
    """The store that the options name: this process's own, or one of a copy that goes again."""
    if options.get("moment") != moment.COPY:
        yield store_of(options)
        return
    with moment.opened(options) as store:
        yield store


# -- columns ---------------------------------------------------------------------------------------

_AS_TEXT = (TypeCode.ENUM, TypeCode.SET)
_EPOCH_DAYS = date(1970, 1, 1).toordinal()
_MOST_DIGITS = 38


_ONE_TYPE: dict[int, spark.DataType] = {
    TypeCode.BIT: spark.BinaryType(),
    TypeCode.YEAR: spark.IntegerType(),
    TypeCode.FLOAT: spark.FloatType(),
    TypeCode.DOUBLE: spark.DoubleType(),
    TypeCode.DATE: spark.DateType(),
}
_SIGNED: dict[int, spark.DataType] = {
    TypeCode.TINY: spark.ByteType(),
    TypeCode.SHORT: spark.ShortType(),
    TypeCode.INT24: spark.IntegerType(),
    TypeCode.LONG: spark.IntegerType(),
    TypeCode.LONGLONG: spark.LongType(),
}
_UNSIGNED: dict[int, spark.DataType] = {
    TypeCode.TINY: spark.ShortType(),
    TypeCode.SHORT: spark.IntegerType(),
    TypeCode.INT24: spark.IntegerType(),
    TypeCode.LONG: spark.LongType(),
    TypeCode.LONGLONG: spark.DecimalType(20, 0),
}


def spark_type(field: FieldType) -> spark.DataType:
    """The Spark type of a column."""
    if field.Tp in _AS_TEXT or field.family in (Family.STRING, Family.JSON, Family.TIME):
        return spark.StringType()
    if field.family == Family.DECIMAL:
        digits = decimals.precision_of(field)
        if digits > _MOST_DIGITS:
            return spark.StringType()
        return spark.DecimalType(digits, decimals.scale_of(field))
    if field.family == Family.DATETIME:
        is_stamp = field.Tp == TypeCode.TIMESTAMP
        return spark.TimestampType() if is_stamp else spark.TimestampNTZType()
    if _is_boolean(field):
        return spark.BooleanType()
    if field.family == Family.BYTES:
        return spark.BinaryType()
    of_integers = _UNSIGNED if field.family == Family.UINT else _SIGNED
    return _ONE_TYPE.get(field.Tp) or of_integers[field.Tp]


def _is_boolean(field: FieldType) -> bool:
    signed = field.Tp == TypeCode.TINY and field.family == Family.INT
    return field.Flen == 1 and (signed or field.Tp == TypeCode.BIT)


_ARROW: dict[spark.DataType, pa.DataType] = {
    spark.ByteType(): pa.int8(),
    spark.ShortType(): pa.int16(),
    spark.IntegerType(): pa.int32(),
    spark.LongType(): pa.int64(),
    spark.FloatType(): pa.float32(),
    spark.DoubleType(): pa.float64(),
}


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
    if _is_boolean(field):
        return pa.array(vector.values != 0, mask=vector.nulls)
    if field.Tp == TypeCode.BIT:
        return _bits(vector, -(-field.Flen // 8))
    kind = _ARROW.get(spark_type(field))
    if kind is not None:
        return pa.array(vector.values.astype(kind.to_pandas_dtype()), mask=vector.nulls)
    if field.family == Family.UINT:
        return array_of(vector).cast(pa.decimal128(20, 0))
    return array_of(vector)


def _bits(vector: Vector, size: int) -> pa.Array:
    """So many bytes of each, the highest first."""
    words = vector.values.astype(">u8").view(np.uint8).reshape(-1, 8)
    data = pa.py_buffer(np.ascontiguousarray(words[:, 8 - size :]))
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(words), [None, data])
    found = fixed.cast(pa.binary())
    if vector.nulls is None:
        return found
    return pa.compute.if_else(pa.array(vector.nulls), pa.scalar(None, pa.binary()), found)


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


# -- table -----------------------------------------------------------------------------------------

FETCH_ROWS = 10_000
PARTITION_ROWS = 1_000_000


class Choice(NamedTuple):
    """What is read of a table."""

    table: Table
    positions: list[int]

    @property
    def columns(self) -> list[ColumnInfo]:
        """The columns, in the order asked for."""
        return [self.table.info.cols[position] for position in self.positions]


def schema(options: Mapping[str, str]) -> StructType:
    """The table's columns as Spark types. Raises what `chosen` raises."""
    found = StructType()
    with opened(options) as store:
        columns = chosen(store, options).columns
    for column in columns:
        found.add(column.name.O, spark_type(column.type), not column.not_null)
    return found


def chosen(store: Store, options: Mapping[str, str]) -> Choice:
    """Table and columns that the options name.

    Raises ValueError (no `dbtable`, an unknown column), Refused 1049 and 1146."""
    database, _, name = options.get("dbtable", "").partition(".")
    if not name:
        raise ValueError('.option("dbtable", "database.table") is missing')
    with ManagedTransaction(store, view_of(store, options)) as txn:
        table = Schemas(store, evaluator=EVALUATOR).table(txn, database, name)
    wanted = [part.strip() for part in options.get("columns", "").split(",") if part.strip()]
    names = wanted or [column.name.O for column in table.columns]
    public = {column.name.L for column in table.columns}
    for each in names:
        if each.lower() not in public:
            raise ValueError(f"table {database}.{name} has no column '{each}'")
    return Choice(table, [table.position(each) for each in names])


class TableReader(DataSourceReader):
    """Batches of a table."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def partitions(self) -> list[InputPartition]:
        """Spans of about equal size; those of every partition of a partitioned table."""
        with opened(self._options) as store:
            return self._cut(store)

    def _cut(self, store: Store) -> list[InputPartition]:
        table = chosen(store, self._options).table
        partition = table.info.partition
        cut = [] if partition is None else [table.part(each.id) for each in partition.definitions]
        spans = [each.row_span() for each in cut or [table]]
        given = int(self._options.get("numpartitions", 0))
        found: list[InputPartition] = []
        for span in spans:
            parts = given // len(spans) or store.count(span) // PARTITION_ROWS + 1
            found += [InputPartition(tuple(each)) for each in store.split(span, parts)]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one span, in a snapshot of its own, or of the moment."""
        rows = int(self._options.get("fetchsize", FETCH_ROWS))
        with opened(self._options) as store:
            choice = chosen(store, self._options)
            view = view_of(store, self._options)
            try:
                for keys, raws in view.chunks(Span(*partition.value), rows):
                    yield batch_of(
                        choice,
                        row_batch.decode(choice.table, keys, raws, view.skip, choice.positions),
                    )
            finally:
                view.close()


def batch_of(choice: Choice, decoded: row_batch.Columns, nullable: bool = False) -> pa.RecordBatch:
    """Decoded rows as Spark takes them."""
    arrays = [spark_array(decoded.column(each)) for each in choice.positions]
    fields = [
        pa.field(column.name.O, array.type, nullable or not column.not_null)
        for column, array in zip(choice.columns, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
