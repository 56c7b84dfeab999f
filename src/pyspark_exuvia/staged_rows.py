"""Staged Arrow data as rows of an INSERT."""

from collections.abc import Callable

import pyarrow as pa

from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.sql.result import BIGINT, BINARY, DOUBLE, OutputColumn, Result, text_type
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import Plan

_TEXT = text_type(65535)


class StagedRows(Plan):
    """A chunk as the source of an INSERT ... SELECT; times are texts in UTC."""

    def __init__(self, chunk: bytes) -> None:
        self._table = pa.ipc.open_stream(chunk).read_all()
        self.names = tuple(self._table.column_names)
        fields = self._table.schema
        self.columns = [OutputColumn(field.name, _type_of(field.type)) for field in fields]

    def arrays(self) -> list[pa.Array]:
        """Returns the columns."""
        return [column.combine_chunks() for column in self._table.columns]

    def values(self, column: int) -> list[object]:
        """Returns the values of a column."""
        return _values(self._table.column(column))

    def run(self, context: Context) -> Result:
        columns = [_values(column) for column in self._table.columns]
        return Result(self.columns, [list(row) for row in zip(*columns, strict=True)])


WRITABLE_TYPES = (
    *("boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "binary"),
    *("string", "char", "varchar", "date", "timestamp", "timestamp_ntz", "void"),
)


def _type_of(kind: pa.DataType) -> FieldType:
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return BIGINT
    if pa.types.is_floating(kind):
        return DOUBLE
    if pa.types.is_decimal(kind):
        flag = int(Flag.BINARY)
        return FieldType(Tp=TypeCode.NEWDECIMAL, Flag=flag, Flen=kind.precision, Decimal=kind.scale)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return BINARY
    return _TEXT


def _values(column: pa.ChunkedArray) -> list[object]:
    kind = column.type
    convert: Callable[[pa.ChunkedArray], pa.ChunkedArray] = _CONVERTED.get(kind.id, lambda c: c)
    values: list[object] = convert(column).to_pylist()
    return values


def _timestamps(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64()).cast(pa.timestamp(column.type.unit)).cast(pa.string())


_CONVERTED: dict[int, Callable[[pa.ChunkedArray], pa.ChunkedArray]] = {
    pa.bool_().id: lambda column: column.cast(pa.int8()),
    pa.date32().id: lambda column: column.cast(pa.string()),
    pa.timestamp("us").id: _timestamps,
}
