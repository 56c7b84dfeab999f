"""Reads a table as partitions of Arrow batches: spans of rows, decoded by column.

Types are those of Spark's JDBC source for MySQL, except where it loses information (*):

TINYINT(1), BIT(1)       boolean                    DECIMAL to 38         decimal(p,s)
TINYINT; UNSIGNED        byte; short                FLOAT; DOUBLE         float; double
SMALLINT; UNSIGNED       short; int                 CHAR, TEXT, JSON      string
MEDIUMINT; UNSIGNED      int; int                   ENUM, SET             string
INT; UNSIGNED            int; bigint                BINARY, BLOB, BIT(n)  binary
BIGINT; UNSIGNED         bigint; decimal(20,0)      DATE                  date
* YEAR                   int                        DATETIME              timestamp_ntz
* TIME, wider DECIMAL    string                     TIMESTAMP             timestamp

A zero date is NULL, as with zeroDateTimeBehavior=CONVERT_TO_NULL. So is a date that only
ALLOW_INVALID_DATES permits ('2023-02-31'). Spark therefore treats every column of dates as
nullable, even NOT NULL ones.

A process opens each URL's store once, and does not use a store opened before a fork. For a moment
(exuvia/pipeline/moment.py), rows and definitions are read from the exported snapshot or the copy.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from exuvia.base.mysql_errors import ErrBadField, ErrOptOnTemporaryTable, ErrTableDefChanged
from exuvia.base.types import Family, FieldType, TypeCode, unpack_date, unpack_datetime
from exuvia.catalog import decimals
from exuvia.catalog.codec import row_batch
from exuvia.catalog.columns import Array, Vector, array_of
from exuvia.catalog.convert.values import to_text
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.reader import handle_of_entry
from exuvia.catalog.table import Table
from exuvia.kv.packet import RawRun, Snapshot, Span, is_live
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import ManagedTransaction, Transaction
from exuvia.node.assemble import EVALUATOR
from exuvia.pipeline import moment
from exuvia.pipeline.kernels.entries import runs_of
from exuvia.pipeline.moment import view_of
from exuvia.sql.access.choose import shown_indexes
from pyspark_exuvia.errors import shows_errors, wrong_option
from pyspark_exuvia.filters import Condition, Narrowed, conditions_of, narrowed

_stores: dict[tuple[str, int], Store] = {}


def store_of(options: Mapping[str, str]) -> Store:
    """Returns the store of the options. Raises ValueError without a `url`, Unavailable."""
    url = options.get("url")
    if not url:
        raise wrong_option('.option("url", "lmdb:///folder") is missing')
    key = (url, os.getpid())
    if key not in _stores:
        if url.startswith("lmdb:"):
            moment.require_there(url, "there is no store at")
        _stores[key] = open_store(url)
    return _stores[key]


def close_store(url: str) -> None:
    """Closes this process's store of that URL: LMDB's environment can be open once in a process."""
    store = _stores.pop((url, os.getpid()), None)
    if store is not None:
        store.close()


@contextmanager
def opened(options: Mapping[str, str]) -> Iterator[Store]:
    """Yields the store of the options: this process's own, or that of a temporary copy."""
    if options.get("moment") != moment.COPY:
        yield store_of(options)
        return
    with moment.opened(options) as store:
        yield store


# -- columns ---------------------------------------------------------------------------------------

_AS_TEXT = (TypeCode.ENUM, TypeCode.SET)
_MONTHS = 12
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
    """Returns the Spark type of a column."""
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
    """Returns a decoded column as the Arrow array of its `spark_type`."""
    field = vector.field
    if field.Tp in _AS_TEXT or field.family == Family.TIME:
        return _texts(vector)
    if field.family == Family.DATE:
        days, is_invalid = _days(vector.values)
        return pa.array(days.astype(np.int32), mask=_either(is_invalid, vector.nulls)).cast(
            pa.date32()
        )
    if field.family == Family.DATETIME:
        zone = "UTC" if field.Tp == TypeCode.TIMESTAMP else None
        micros, is_invalid = _micros(vector.values)
        return pa.array(micros, mask=_either(is_invalid, vector.nulls)).cast(
            pa.timestamp("us", zone)
        )
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
    """Returns BIT values as `size` bytes each, big-endian."""
    words = vector.values.astype(">u8").view(np.uint8).reshape(-1, 8)
    data = pa.py_buffer(np.ascontiguousarray(words[:, 8 - size :]))
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(words), [None, data])
    values = fixed.cast(pa.binary())
    if vector.nulls is None:
        return values
    return pa.compute.if_else(pa.array(vector.nulls), pa.scalar(None, pa.binary()), values)


def _texts(vector: Vector) -> pa.Array:
    """Returns the texts of ENUM, SET and TIME. Each distinct value is converted once."""
    field = vector.field
    distinct, at = np.unique(vector.values, return_inverse=True)
    values = Vector(field, distinct, None).to_list()
    texts = pa.array([to_text(value, field) for value in values], pa.string()).take(pa.array(at))
    if vector.nulls is None:
        return texts
    return pa.compute.if_else(pa.array(vector.nulls), pa.scalar(None, pa.string()), texts)


def _either(is_invalid: Array, nulls: Array | None) -> Array:
    return is_invalid if nulls is None else is_invalid | nulls


def _days(packed: Array) -> tuple[Array, Array]:
    """Returns packed dates as days since 1970 (int64), and a mask of those that are no date of the
    calendar. Their days mean nothing."""
    wide: Any = packed.astype(np.int64)
    year, month, day = map(np.asarray, unpack_date(wide))
    first = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    dates = first.astype("M8[D]") + (day - 1)
    is_date = (year > 0) & (month > 0) & (month <= _MONTHS) & (day > 0)
    return dates.astype(np.int64), ~(is_date & (dates.astype("M8[M]") == first))


def _micros(packed: Any) -> tuple[Array, Array]:
    """Returns packed DATETIMEs as microseconds since 1970, and the mask of `_days`."""
    date, hour, minute, second, micro = map(np.asarray, unpack_datetime(packed))
    days, is_invalid = _days(date)
    minutes = (days * 24 + hour) * 60 + minute
    return (minutes * 60 + second) * 1_000_000 + micro, is_invalid


def packed_micros(packed: int) -> int | None:
    """Returns a packed DATETIME as microseconds since 1970, or None if it has no calendar date."""
    micros, is_invalid = _micros(np.array([packed]))
    return None if is_invalid[0] else int(micros[0])


def _may_be_null(column: ColumnInfo) -> bool:
    """Whether Spark must expect NULLs, which includes NOT NULL columns of dates."""
    return not column.not_null or column.type.family in (Family.DATE, Family.DATETIME)


# -- table -----------------------------------------------------------------------------------------

FETCH_ROWS = 10_000
PARTITION_ROWS = 1_000_000


class Choice(NamedTuple):
    """A table and the positions of the columns to read."""

    table: Table
    positions: list[int]

    @property
    def columns(self) -> list[ColumnInfo]:
        """The columns in the requested order."""
        return [self.table.info.cols[position] for position in self.positions]


def schema(options: Mapping[str, str]) -> StructType:
    """Returns the table's columns as Spark types. Raises the errors of `chosen`."""
    fields = StructType()
    with opened(options) as store:
        columns = chosen(store, options).columns
    for column in columns:
        fields.add(column.name.O, spark_type(column.type), _may_be_null(column))
    return fields


def chosen(store: Store, options: Mapping[str, str]) -> Choice:
    """Returns the table and columns of the options.

    Raises ValueError (no `dbtable`, an unknown column), Refused 1049 and 1146."""
    with ManagedTransaction(store, view_of(store, options)) as txn:
        return choose(store, txn, options, names_of(options))


def names_of(options: Mapping[str, str]) -> list[str]:
    """Returns the names in the option `columns`."""
    return [part.strip() for part in options.get("columns", "").split(",") if part.strip()]


def named_table(options: Mapping[str, str]) -> tuple[str, str]:
    """Returns database and table. Raises ValueError."""
    database, _, name = options.get("dbtable", "").partition(".")
    if not name:
        raise wrong_option('.option("dbtable", "database.table") is missing')
    return database, name


def choose(
    store: Store, txn: Transaction, options: Mapping[str, str], names: Sequence[str]
) -> Choice:
    """Like `chosen`, in a transaction. Without `names`: all columns."""
    database, name = named_table(options)
    table = Schemas(store, evaluator=EVALUATOR).table(txn, database, name)
    if table.info.is_temporary:
        raise ErrOptOnTemporaryTable("reading by Spark")
    names = names or [column.name.O for column in table.columns]
    public = {column.name.L for column in table.columns}
    for column_name in names:
        if column_name.lower() not in public:
            raise ErrBadField(column_name, "option columns")
    return Choice(table, [table.position(column_name) for column_name in names])


class Ranges(NamedTuple):
    """A task's ranges: of rows of the table, or of entries of one of its indexes."""

    table_id: int
    index_id: int
    ranges: tuple[tuple[int, Span], ...]  # each with the (physical) table's id


@shows_errors
class TableReader(DataSourceReader):
    """Reads a table as batches. `planned`: the columns that Spark planned with."""

    def __init__(self, options: Mapping[str, str], planned: StructType) -> None:
        self._options = dict(options)
        self._planned = planned
        self._conditions: list[Condition] = []

    def partitions(self) -> list[InputPartition]:
        """Returns partitions of about equal size, each a list of key ranges."""
        with opened(self._options) as store:
            table = chosen(store, self._options).table
            plan = narrowed(store, table, self._conditions)
            return [
                InputPartition(Ranges(table.info.id, plan.index_id, ranges))
                for ranges in self._cut(store, plan)
            ]

    def _cut(self, store: Store, plan: Narrowed) -> list[tuple[tuple[int, Span], ...]]:
        """Cuts long ranges; several short ranges share a task."""
        total = max(1, plan.keys)
        tasks = int(self._options.get("numpartitions", 0)) or total // PARTITION_ROWS + 1
        pieces: list[tuple[int, Span]] = []
        for located in plan.ranges:
            parts = max(1, round(located.keys * tasks / total))
            pieces += [(located.physical_id, span) for span in store.split(located.span, parts)]
        if len(pieces) <= tasks:
            return [(piece,) for piece in pieces] or [()]
        edges = [n * len(pieces) // tasks for n in range(tasks + 1)]
        return [tuple(pieces[begin:end]) for begin, end in pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the ranges, from a new snapshot or from the moment. Raises Refused
        1412 if the table has changed since planning."""
        task: Ranges = partition.value
        rows = int(self._options.get("fetchsize", FETCH_ROWS))
        with opened(self._options) as store:
            view = view_of(store, self._options)
            try:
                choice = self._as_planned(store, view, task.table_id)
                for physical_id, span in task.ranges:
                    part = _part(choice.table, physical_id)
                    runs: Iterator[list[bytes] | RawRun] = runs_of(view, span)
                    if task.index_id:
                        runs = _rows_by_index(view, part, task.index_id, span, rows)
                    for run in runs:
                        decoded = row_batch.decode(part, [], run, view.skip, choice.positions)
                        batch = batch_of(choice, decoded)
                        yield from (batch.slice(at, rows) for at in range(0, len(run), rows))
            finally:
                view.close()

    def _as_planned(self, store: Store, view: Snapshot, table_id: int) -> Choice:
        """Returns the table at the view. Raises Refused 1412 if Spark planned other columns."""
        txn = ManagedTransaction(store, view)
        choice = choose(store, txn, self._options, self._planned.names)
        kinds = [spark_type(column.type) for column in choice.columns]
        if choice.table.info.id != table_id or kinds != [f.dataType for f in self._planned.fields]:
            raise ErrTableDefChanged()
        return choice


@shows_errors
class FilteredReader(TableReader):
    """A TableReader that accepts Spark's filters. Spark refuses such a reader unless
    `spark.sql.python.filterPushdown.enabled` is set."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Uses the filters to choose ranges, and returns all of them for Spark to apply again."""
        self._conditions = conditions_of(filters)
        return filters


def reader_of(options: Mapping[str, str], planned: StructType) -> TableReader:
    """Returns the reader class for the calling process. A process that Spark started to push
    filters is recognized by a loaded module."""
    pushes = "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules
    return (FilteredReader if pushes else TableReader)(options, planned)


def _part(table: Table, physical_id: int) -> Table:
    for part in table.parts:
        if part.physical_id == physical_id:
            return part
    raise ErrTableDefChanged()


def _rows_by_index(
    view: Snapshot, table: Table, index_id: int, span: Span, rows: int
) -> Iterator[list[bytes]]:
    """Yields the rows that index entries point to, all from the view."""
    index = next(
        (candidate for candidate in shown_indexes(table.info) if candidate.id == index_id), None
    )
    if index is None:
        raise ErrTableDefChanged()
    form, prefix, skip = table.form(index), table.row_prefix, view.skip
    for keys, raws in view.chunks(span, rows):
        row_keys = []
        for key, raw in zip(keys, raws, strict=True):
            payload = raw[skip:]
            if is_live(payload):
                row_keys.append(prefix + handle_of_entry(form, key, payload))
        yield list(view.get_many(row_keys).values())


def batch_of(choice: Choice, decoded: row_batch.Columns, nullable: bool = False) -> pa.RecordBatch:
    """Returns decoded rows as a batch for Spark."""
    arrays = [spark_array(decoded.column(position)) for position in choice.positions]
    fields = [
        pa.field(column.name.O, array.type, nullable or _may_be_null(column))
        for column, array in zip(choice.columns, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
