"""Hidden row ids that two partitions have: all rows of an id but one get new ones.

    handles of all sources, side by side, in order     the same one twice -> the first source keeps
      -> a transaction for some of these rows          it, other rows go and come under new ids,
                                                       entries too

Each partition has its own ids until EXCHANGE PARTITION brings rows of another table. Rows that move
keep their id, and what a row is in the other set is found by it (decision 015), so no two that move
may have the same. This is done before any writer puts rows into the other set: then there is no
twin that would have to follow, and the table's counter gives no id that any row has. So from here
on ids differ for good, whichever partition a row is in, and no writer has to know of it.

A row is read and written in one transaction as a client's update would be, so whoever writes it
meanwhile makes one of the two wait; it requires the revision that was planned with, so that it
never runs beside writers of a later state. Rows that this has done are not found again: whoever
takes over begins anew.

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

WINDOW_ROWS = 100_000  # of all sources together
BATCH_ROWS = 100  # of one transaction

Found = list[tuple[int, bytes]]
"""Rows: physical id, handle."""


def renumber(store: Store, task: Task) -> Steps:
    """The kernel for one range of ids, which is a span of the first source. Raises Conflict."""
    order, logical = task.order, task.order.logical
    ids = IdAllocator(store).of(logical.info)
    seen = 0
    with closing(fresh_snapshot(store, logical)) as snapshot:
        for rows, found in held_twice(snapshot, order.sources, _beside(task)):
            for at in range(0, len(found), BATCH_ROWS):
                some = found[at : at + BATCH_ROWS]
                first = ids.next("rowid", len(some))
                given = as_bytes(row_ids_from(first, len(some)))
                store.transact(partial(_change, order=order, found=some, given=given))
            seen += rows
            yield Batch(rows, 0.0)
    return Outcome(ordinal=task.ordinal, rows=seen)


def _beside(task: Task) -> list[Span]:
    """The same ids in each source."""
    first, *_ = prefixes = [k.row_prefix(each) for each in task.order.sources]
    start, end = task.span
    ends = end if end.startswith(first) else b""
    return [
        Span(p + start[len(first) :], p + ends[len(first) :] if ends else k.span_of(p).end)
        for p in prefixes
    ]


def held_twice(
    snapshot: Snapshot, sources: Sequence[int], spans: Sequence[Span]
) -> Iterator[tuple[int, Found]]:
    """Some rows further each time: how many, and those of them whose id a source before theirs has
    too."""
    chunks = [snapshot.chunks(span, max(100, WINDOW_ROWS // len(spans))) for span in spans]
    ahead: list[Array] = [np.empty(0, ">u8")] * len(spans)
    ended = [False] * len(spans)
    while True:
        for n, each in enumerate(chunks):
            if not len(ahead[n]) and not ended[n]:
                keys, _ = next(each, ([], []))
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
        found = [(sources[int(of[n])], int(window[n]).to_bytes(8, "big")) for n in again]
        yield len(window), found


def _change(txn: Transaction, order: TaskOrder, found: Found, given: list[bytes]) -> None:
    """Raises Conflict where the table has another revision by now."""
    for fence in order.fences:
        txn.require_this(fence)
    revision, planned = k.revision(order.info.id), k.number(order.revision)
    if txn.get(revision) != planned:
        raise Conflict("the table is at another revision")
    txn.require(revision)
    logical: Table = order.logical
    for (physical_id, handle), new in zip(found, given, strict=True):
        part = logical.part(physical_id)
        row = reader.get(txn, part, handle)
        if row is not None:
            writer.delete(txn, part, handle, row)
            writer.insert(txn, part, row, new)
