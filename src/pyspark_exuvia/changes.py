"""A table's row changes as rows, as a batch or a stream. Offsets are positions of its change log.

    the table's columns | _change_type | _position

    _change_type    insert, delete; an update is two rows, update_preimage and update_postimage
    _position       end position of the batch: text, valid in this store only

The names are those of Delta's change data feed. Changes of one row are in order. A stream's
checkpoint holds the last position read. Each change is in exactly one batch. The stream begins
at `startingPosition`, or now. `maxRowsPerBatch` bounds a batch; a batch contains at least the
changes of one moment of the log, about a second.

Rows have the columns that existed when the query began. If one is dropped, the query ends with an
error.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from exuvia.catalog.codec import row_batch
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.table import Table
from exuvia.events.change_log import require_complete
from exuvia.events.row_changes import in_order_of_all, reach, view_at
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.node.assemble import EVALUATOR
from pyspark_exuvia import table as tables
from pyspark_exuvia.errors import shows_errors
from pyspark_exuvia.table import batch_of, chosen, store_of

TYPE, POSITION = "_change_type", "_position"
_CHANGE_COLUMNS = 2
_BATCH = 10_000


def schema(options: Mapping[str, str]) -> StructType:
    """Returns the table's columns and the two columns of a change."""
    planned = tables.schema(options)
    for field in planned.fields:
        field.nullable = True
    return planned.add(TYPE, spark.StringType(), False).add(POSITION, spark.StringType(), False)


class _Changes:
    """Reads the changes between two positions; pickled between processes."""

    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        self._options = {**options, "columns": ",".join(names)}

    def newest(self) -> str:
        """Returns the current position."""
        with store_of(self._options).read() as txn:
            txn.open()
            return txn.snapshot.view.position

    def within(self, start: str, most: int, target: str) -> str:
        """Returns a position after about `most` changes, but at most `target`. The log's moments
        limit how exact it is."""
        store = store_of(self._options)
        table_id = chosen(store, self._options).table.info.id
        limited = reach(store, Schemas(store, evaluator=EVALUATOR), table_id, start, most)
        if not target:
            return limited
        with store.read() as txn:
            reached, last = (view_at(store, txn, position) for position in (limited, target))
        return limited if reached.horizon < last.horizon else target

    @property
    def most(self) -> int:
        """Maximum rows of a batch; 0 means no limit."""
        return int(self._options.get("maxrowsperbatch", 0))

    def first(self) -> str:
        """Returns the position where a new query begins."""
        return self._options.get("startingposition") or self.newest()

    def between(self, start: str, end: str) -> Iterator[pa.RecordBatch]:
        """Yields the changes between two positions. Raises the errors of
        exuvia/events/row_changes.py: no change log, or records already removed."""
        store = store_of(self._options)
        choice = chosen(store, self._options)
        with store.read() as txn:
            kinds, payloads = _rows(store, txn, choice.table, start, end)
        for at in range(0, len(kinds), _BATCH):
            some = kinds[at : at + _BATCH]
            decoded = row_batch.decode(
                choice.table, [], payloads[at : at + _BATCH], 0, choice.positions
            )
            batch = batch_of(choice, decoded, nullable=True)
            own = [pa.array(some, pa.string()), pa.array([end] * len(some), pa.string())]
            fields = [pa.field(TYPE, pa.string(), False), pa.field(POSITION, pa.string(), False)]
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *own], schema=pa.schema([*batch.schema, *fields])
            )


def _rows(
    store: Store, txn: Transaction, table: Table, start: str, end: str
) -> tuple[list[str], list[bytes]]:
    kinds: list[str] = []
    payloads: list[bytes] = []
    start_view, end_view = (view_at(store, txn, position) for position in (start, end))
    require_complete(txn, table.info, start_view)
    for before, after in in_order_of_all(txn, table, start_view, end_view):
        if before is not None:
            kinds.append("delete" if after is None else "update_preimage")
            payloads.append(before)
        if after is not None:
            kinds.append("insert" if before is None else "update_postimage")
            payloads.append(after)
    return kinds, payloads


def _names(planned: StructType) -> list[str]:
    return planned.names[:-_CHANGE_COLUMNS]


@shows_errors
class ChangesReader(DataSourceReader):
    """Reads all changes since `startingPosition` as one batch."""

    def __init__(self, options: Mapping[str, str], planned: StructType) -> None:
        self._changes = _Changes(options, _names(planned))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields all changes, in one task because they are ordered."""
        return self._changes.between(self._changes.first(), self._changes.newest())


@shows_errors
class ChangesStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streams changes as they are committed."""

    _target = ""  # end position of a query with trigger availableNow

    def __init__(self, options: Mapping[str, str], planned: StructType) -> None:
        self._changes = _Changes(options, _names(planned))

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """Returns the position where a new query begins."""
        return {"position": self._changes.first()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Returns the limit set by `maxRowsPerBatch`."""
        return ReadMaxRows(self._changes.most) if self._changes.most else ReadAllAvailable()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, str], limit: ReadLimit
    ) -> dict[str, str]:
        """Returns the current position, or an earlier one if the limit applies."""
        begin = start["position"]
        if begin == self._target:
            return start
        if not isinstance(limit, ReadMaxRows):
            return {"position": self._target or self._changes.newest()}
        return {"position": self._changes.within(begin, limit.max_rows, self._target)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fixes the end position: later changes are left out."""
        self._target = self._changes.newest()

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """Returns one partition because changes are ordered."""
        return [InputPartition((start["position"], end["position"]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields a batch; also called to repeat one after a failure."""
        return self._changes.between(*partition.value)
