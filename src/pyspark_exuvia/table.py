"""A table as partitions of Arrow batches: spans of rows, decoded by column.

integers             bigint; unsigned bigint: decimal(20,0)     ENUM, SET        string
FLOAT, DOUBLE        double                                     BIT, YEAR        bigint
DECIMAL to 38        decimal(p,s); wider: string                CHAR, TEXT, JSON string
BINARY, BLOB         binary                                     TIME             string
DATE                 date, NULL for a zero date                 DATETIME         timestamp_ntz,
TIMESTAMP            timestamp                                                   likewise NULL
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from exuvia.catalog.codec import row_batch
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.table import Table
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.node.assemble import EVALUATOR
from pyspark_exuvia.columns import spark_array, spark_type
from pyspark_exuvia.stores import store_of

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
    for column in chosen(store_of(options), options).columns:
        found.add(column.name.O, spark_type(column.type), not column.not_null)
    return found


def chosen(store: Store, options: Mapping[str, str]) -> Choice:
    """Table and columns that the options name.

    Raises ValueError (no `dbtable`, an unknown column), Refused 1049 and 1146."""
    database, _, name = options.get("dbtable", "").partition(".")
    if not name:
        raise ValueError('.option("dbtable", "database.table") is missing')
    with store.read() as txn:
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
        store = store_of(self._options)
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
        """The rows of one span, in a snapshot of its own."""
        store = store_of(self._options)
        choice = chosen(store, self._options)
        rows = int(self._options.get("fetchsize", FETCH_ROWS))
        view = store.snapshot()
        try:
            for keys, raws in view.chunks(Span(*partition.value), rows):
                decoded = row_batch.decode(choice.table, keys, raws, choice.positions)
                arrays = [spark_array(decoded.column(each)) for each in choice.positions]
                fields = [
                    pa.field(column.name.O, array.type, not column.not_null)
                    for column, array in zip(choice.columns, arrays, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        finally:
            view.close()
