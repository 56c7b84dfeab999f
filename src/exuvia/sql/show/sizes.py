"""About how many bytes a table takes, as information_schema says it.

A column of numbers, times, ENUM or SET counts 8 bytes a row, a DECIMAL what its digits take; texts
and the like count what the last ANALYZE added up. An index counts the bytes of its columns.
"""

from collections.abc import Iterator

from exuvia.base.types import INTEGER_BITS, TypeCode
from exuvia.catalog.model import ColumnInfo, TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.sql.context import Context
from exuvia.stats import records

_EIGHT = {
    *INTEGER_BITS,
    *(TypeCode.DOUBLE, TypeCode.FLOAT, TypeCode.YEAR, TypeCode.TIME, TypeCode.DATE),
    *(TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.ENUM, TypeCode.SET, TypeCode.BIT),
}
_DIGITS_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


class Sizes:
    """Of one table that has so many rows."""

    def __init__(self, context: Context, table: TableInfo, rows: int) -> None:
        analyzed = _analyzed(context, table) if rows else {}
        columns = [each for each in table.cols if each.state == SchemaState.PUBLIC]
        self._rows = rows
        self._bytes = {each.id: _bytes(each, rows, analyzed) for each in columns}
        self.of_rows = sum(self._bytes.values())
        self.of_a_row = self.of_rows // rows if rows else 0
        self.of_indexes = sum(self._indexes(table))

    def _indexes(self, table: TableInfo) -> Iterator[int]:
        for index in table.indexes:
            if index.state != SchemaState.PUBLIC:
                continue
            for part in index.idx_cols:
                whole = self._bytes.get(part.exuvia_column, 0)
                yield self._rows * part.length if part.length > 0 else whole


def _analyzed(context: Context, table: TableInfo) -> dict[int, int]:
    """Bytes in all by column id."""
    found: dict[int, int] = {}
    for each in table.physical_ids:
        for head in records.heads(context.txn, each, 0):
            found[head.hist_id] = found.get(head.hist_id, 0) + head.size
    return found


def _bytes(column: ColumnInfo, rows: int, analyzed: dict[int, int]) -> int:
    kind = column.type
    if kind.Tp in _EIGHT:
        return 8 * rows
    if kind.Tp == TypeCode.NEWDECIMAL:
        return rows * sum(
            digits // 9 * 4 + _DIGITS_BYTES[digits % 9]
            for digits in (kind.Flen - kind.Decimal, kind.Decimal)
        )
    return analyzed.get(column.id, 0)
