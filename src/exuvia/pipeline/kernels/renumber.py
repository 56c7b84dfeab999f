"""Gives new hidden row ids to rows whose id occurs in several partitions.

    ids of all sources, merged in order            the same id twice -> the first source keeps it,
      -> a transaction for some of these rows      the other rows are deleted and inserted with
                                                   new ids, including entries

Each partition has its own ids until EXCHANGE PARTITION adds rows of another table. Moved rows keep
their ids, and a row is found by its id in the other set (decision 015). So no two moved rows may
have the same id. This runs before writers put rows into the other set. At that time there are no
copies that would have to follow, and the table's counter only gives unused ids. From then on ids
are unique in all partitions without any work by writers.

A row is read and written in one transaction, like a client's update, so a concurrent writer and
this one wait for each other. The transaction requires the planned revision, so it never runs
together with writers of a later state. Rows with new ids are not found again: a new owner simply
starts again.

A transaction that began before and then changes such a row sees two rows. One is the row of its
snapshot, the other its own under the new id. The same happens if another client deletes a row and
inserts it again.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial

import numpy as np

from exuvia.base.errors import Conflict
from exuvia.catalog import reader, writer
from exuvia.catalog.autoid import IdAllocator
from exuvia.catalog.columns import Array
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.packet import Snapshot, Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.kernels.entries import as_bytes, fresh_snapshot
from exuvia.pipeline.sorted_rows import row_ids_from
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.throttle import Batch, Steps

WINDOW_ROWS = 100_000  # for all sources together
BATCH_ROWS = 100  # for one transaction

RowKeys = list[tuple[int, bytes]]
"""Rows as (physical id, handle)."""


def renumber(store: Store, task: Task) -> Steps:
    """The kernel for a range of ids, given as a span of the first source. Raises Conflict."""
    order, logical = task.order, task.order.logical
    ids = IdAllocator(store).of(logical.info)
    rows_read = 0
    with closing(fresh_snapshot(store, logical)) as snapshot:
        for rows, repeated in repeated_ids(snapshot, order.sources, _spans_of_sources(task)):
            for at in range(0, len(repeated), BATCH_ROWS):
                some = repeated[at : at + BATCH_ROWS]
                first = ids.next("rowid", len(some))
                new_handles = as_bytes(row_ids_from(first, len(some)))
                store.transact(
                    partial(_change, order=order, repeated=some, new_handles=new_handles)
                )
            rows_read += rows
            yield Batch(rows, 0.0)
    return Outcome(ordinal=task.ordinal, rows=rows_read)


def _spans_of_sources(task: Task) -> list[Span]:
    """Returns the span of the same ids in each source."""
    first, *_ = prefixes = [k.row_prefix(source) for source in task.order.sources]
    start, end = task.span
    ends = end if end.startswith(first) else b""
    return [
        Span(p + start[len(first) :], p + ends[len(first) :] if ends else k.span_of(p).end)
        for p in prefixes
    ]


def repeated_ids(
    snapshot: Snapshot, sources: Sequence[int], spans: Sequence[Span]
) -> Iterator[tuple[int, RowKeys]]:
    """Yields (number of rows read, rows whose id also occurs in an earlier source), window by
    window."""
    chunks = [snapshot.chunks(span, max(100, WINDOW_ROWS // len(spans))) for span in spans]
    ahead: list[Array] = [np.empty(0, ">u8")] * len(spans)
    ended = [False] * len(spans)
    while True:
        for n, chunk in enumerate(chunks):
            if not len(ahead[n]) and not ended[n]:
                keys, _ = next(chunk, ([], []))
                ended[n] = not keys
                ahead[n] = np.frombuffer(b"".join(key[HANDLE_AT:] for key in keys), ">u8")
        last = [ids[-1] for ids in ahead if len(ids)]
        if not last:
            return
        counts = [int(np.searchsorted(ids, min(last), "right")) for ids in ahead]
        window = np.concatenate([ids[:n] for ids, n in zip(ahead, counts, strict=True)])
        ahead = [ids[n:] for ids, n in zip(ahead, counts, strict=True)]
        order = np.argsort(window, kind="stable")
        again = order[1:][window[order][1:] == window[order][:-1]]
        of = np.repeat(np.arange(len(spans)), counts)
        repeated = [(sources[int(of[n])], int(window[n]).to_bytes(8, "big")) for n in again]
        yield len(window), repeated


def _change(
    txn: Transaction, order: TaskOrder, repeated: RowKeys, new_handles: list[bytes]
) -> None:
    """Inserts rows under new ids. Raises Conflict if the table has another revision."""
    for fence in order.fences:
        txn.require_this(fence)
    revision, planned = k.revision(order.info.id), k.number(order.revision)
    if txn.get(revision) != planned:
        raise Conflict("the table is at another revision")
    txn.require(revision)
    logical: Table = order.logical
    for (physical_id, handle), new in zip(repeated, new_handles, strict=True):
        part = logical.part(physical_id)
        row = reader.get(txn, part, handle)
        if row is not None:
            writer.delete(txn, part, handle, row)
            writer.insert(txn, part, row, new)
