"""A table's row changes as rows, once or as a stream. Offsets are positions of its change log.

    the table's columns | _change_type | _position

    _change_type    insert, delete; an update is two rows, update_preimage and update_postimage
    _position       to which the batch leads: text, of this store

Names are those of Delta's change data feed. Changes of a row are in their order. A stream's
checkpoint holds the position up to which it has read, so each change is in exactly one batch. It
begins at `startingPosition`, or now. `maxRowsPerBatch` bounds a batch, as finely as moments cut the
log (about a second's changes at least).

Rows have the columns that the query began with; one that is dropped ends it with an error.
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
from pyspark_exuvia.table import batch_of, chosen, store_of

TYPE, POSITION = "_change_type", "_position"
_OWN = 2
_BATCH = 10_000


def schema(options: Mapping[str, str]) -> StructType:
    """The table's columns and the two of a change."""
    found = tables.schema(options)
    for field in found.fields:
        field.nullable = True
    return found.add(TYPE, spark.StringType(), False).add(POSITION, spark.StringType(), False)


class _Changes:
    """What lies between two positions. Travels between processes."""

    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        self._options = {**options, "columns": ",".join(names)}

    def newest(self) -> str:
        """The position that leads to now."""
        with store_of(self._options).read() as txn:
            txn.open()
            return txn.snapshot.view.position

    def within(self, start: str, most: int, target: str) -> str:
        """One that leads to about so many changes, where moments cut the log so finely, and to
        none that the target does not see."""
        store = store_of(self._options)
        table_id = chosen(store, self._options).table.info.id
        found = reach(store, Schemas(store, evaluator=EVALUATOR), table_id, start, most)
        if not target:
            return found
        with store.read() as txn:
            reached, last = (view_at(store, txn, each) for each in (found, target))
        return found if reached.horizon < last.horizon else target

    @property
    def most(self) -> int:
        """Of a batch; 0: all there are."""
        return int(self._options.get("maxrowsperbatch", 0))

    def first(self) -> str:
        """Where a new query begins."""
        return self._options.get("startingposition") or self.newest()

    def between(self, start: str, end: str) -> Iterator[pa.RecordBatch]:
        """Raises what exuvia/events/row_changes.py raises: no log, records that are gone."""
        store = store_of(self._options)
        choice = chosen(store, self._options)
        with store.read() as txn:
            kinds, payloads = _rows(store, txn, choice.table, start, end)
        for at in range(0, len(kinds), _BATCH):
            some = kinds[at : at + _BATCH]
            decoded = row_batch.decode(
                choice.table, [], payloads[at : at + _BATCH], 0, choice.positions
            )
            found = batch_of(choice, decoded, nullable=True)
            own = [pa.array(some, pa.string()), pa.array([end] * len(some), pa.string())]
            fields = [pa.field(TYPE, pa.string(), False), pa.field(POSITION, pa.string(), False)]
            yield pa.RecordBatch.from_arrays(
                [*found.columns, *own], schema=pa.schema([*found.schema, *fields])
            )


def _rows(
    store: Store, txn: Transaction, table: Table, start: str, end: str
) -> tuple[list[str], list[bytes]]:
    kinds: list[str] = []
    payloads: list[bytes] = []
    known, until = (view_at(store, txn, position) for position in (start, end))
    require_complete(txn, table.info, known)
    for before, after in in_order_of_all(txn, table, known, until):
        if before is not None:
            kinds.append("delete" if after is None else "update_preimage")
            payloads.append(before)
        if after is not None:
            kinds.append("insert" if before is None else "update_postimage")
            payloads.append(after)
    return kinds, payloads


def _names(planned: StructType) -> list[str]:
    return planned.names[:-_OWN]


class ChangesReader(DataSourceReader):
    """All that has changed since `startingPosition`, once."""

    def __init__(self, options: Mapping[str, str], planned: StructType) -> None:
        self._changes = _Changes(options, _names(planned))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In one task: changes have an order."""
        return self._changes.between(self._changes.first(), self._changes.newest())


class ChangesStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Changes as they come."""

    _target = ""  # of a query that ends with what was there when it began

    def __init__(self, options: Mapping[str, str], planned: StructType) -> None:
        self._changes = _Changes(options, _names(planned))

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """Where a new query begins."""
        return {"position": self._changes.first()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """As `maxRowsPerBatch` says."""
        return ReadMaxRows(self._changes.most) if self._changes.most else ReadAllAvailable()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, str], limit: ReadLimit
    ) -> dict[str, str]:
        """Now, or as far as the limit lets it."""
        begin = start["position"]
        if begin == self._target:
            return start
        if not isinstance(limit, ReadMaxRows):
            return {"position": self._target or self._changes.newest()}
        return {"position": self._changes.within(begin, limit.max_rows, self._target)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """From here on nothing new comes."""
        self._target = self._changes.newest()

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """One: changes have an order."""
        return [InputPartition((start["position"], end["position"]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """A batch, also one that is done again after a failure."""
        return self._changes.between(*partition.value)
