"""Rows looked at where they belong, many at a time; nothing is written.

check moved   rows of either set of partitions, each looked up in the other
check fits    rows that are to become a partition: each belongs to it (1737)
"""

from collections.abc import Generator

import numpy as np

from exuvia.base.mysql_errors import ErrRowDoesNotMatchPartition
from exuvia.catalog.codec import row_batch
from exuvia.catalog.columns import Array
from exuvia.catalog.table import Table
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.packet import SEQUENCE_BYTES, Snapshot
from exuvia.kv.store import Store
from exuvia.pipeline.entries import CHUNK_ROWS, fresh_snapshot
from exuvia.pipeline.order import as_bytes
from exuvia.pipeline.pace import Batch
from exuvia.pipeline.routing import Way, router_named, under
from exuvia.pipeline.task import Outcome, Task

MOST_LISTED = 5
Steps = Generator[Batch, None, Outcome]


def check_moved(store: Store, task: Task) -> Steps:
    """The kernel of verification: rows of one span, each looked up in the other set in the same
    snapshot."""
    order = task.order
    ways = router_named(order.router)(order.logical)
    way = ways.other if order.physical_id in order.sources else ways.read
    seen, faults = 0, []
    snapshot = fresh_snapshot(store, order.table)
    try:
        for found, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            bad = _without_twin(snapshot, order.table, way, found, raws)
            faults += [found[n][HANDLE_AT:].hex() for n in bad]
            seen += len(found)
            yield Batch(len(found), 0.0)
    finally:
        snapshot.close()
    return Outcome(ordinal=task.ordinal, rows=seen, result=(len(faults), faults[:MOST_LISTED]))


def _without_twin(
    snapshot: Snapshot, table: Table, way: Way, found: list[bytes], raws: list[bytes]
) -> list[int]:
    """Which rows are not there, or are another row. The same bytes are the same row."""
    columns = row_batch.decode(table, found, raws, way.positions)
    keys = as_bytes(under(way.places(columns), found))
    twins = snapshot.get_many(keys)
    bad = []
    for n, (key, raw) in enumerate(zip(keys, raws, strict=True)):
        twin = twins.get(key)
        if twin is not None and twin[SEQUENCE_BYTES:] == raw[SEQUENCE_BYTES:]:
            continue
        if twin is None or _row(table, twin) != _row(table, raw):
            bad.append(n)
    return bad


def _row(table: Table, raw: bytes) -> object:
    return table.decode(raw[SEQUENCE_BYTES:])


def check_fits(store: Store, task: Task) -> Steps:
    """The kernel of an exchange: every row of the span belongs to the partition. Raises 1737."""
    order = task.order
    way = router_named(order.router)(order.logical).read
    (partition,) = order.sources
    seen = 0
    snapshot = fresh_snapshot(store, order.table)
    try:
        for found, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            places: Array = way.places(row_batch.decode(order.table, found, raws, way.positions))
            if not bool(np.all(places == partition)):
                raise ErrRowDoesNotMatchPartition()
            seen += len(found)
            yield Batch(len(found), 0.0)
    finally:
        snapshot.close()
    return Outcome(ordinal=task.ordinal, rows=seen)
