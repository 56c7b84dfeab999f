"""The four scans of a comparison, as kernels over one span; pipeline/matching.py says what they
are for.

sum rows, sum entries            checksums per bucket: a few bytes for a million rows
collect rows, collect entries    (key, suffix, handle) of the entries in chosen buckets

Each yields after every chunk, so that it can be made to rest between any two of them.
"""

from collections.abc import Generator, Iterator

import numpy as np

from exuvia.catalog.model import IndexInfo
from exuvia.kv.store import Store
from exuvia.pipeline.checksum import Sums, bucket_of, hash_entries
from exuvia.pipeline.entries import Entries, fresh_snapshot, of_index, of_rows
from exuvia.pipeline.order import as_bytes
from exuvia.pipeline.pace import Batch
from exuvia.pipeline.task import Order, Outcome, Task

Steps = Generator[Batch, None, Outcome]
Entry = tuple[bytes, bytes, bytes]  # key, suffix, handle where it is known


def sum_rows(store: Store, task: Task) -> Steps:
    """Checksums of the entries that the span's rows should have, for every index of the order."""
    indexes = [index_of(task.order, n) for n in task.order.index_ids]
    sums = [Sums(task.buckets) for _ in indexes]
    table = task.order.table
    snapshot = fresh_snapshot(store, table)
    try:
        for chunk in of_rows(snapshot, table, indexes, task.span):
            for side, entries in zip(sums, chunk, strict=True):
                side.add(hash_entries(entries.keys, entries.suffixes))
            yield Batch(len(chunk[0].keys), 0.0)
    finally:
        snapshot.close()
    return _summed(task, sums)


def sum_entries(store: Store, task: Task) -> Steps:
    """Checksums of the live entries in a span of one index."""
    sums = Sums(task.buckets)
    for entries in _standing(store, task):
        sums.add(hash_entries(entries.keys, entries.suffixes))
        yield Batch(len(entries.keys), 0.0)
    return _summed(task, [sums])


def _summed(task: Task, sums: list[Sums]) -> Outcome:
    packed = [(side.sums.tobytes(), side.rows) for side in sums]
    return Outcome(ordinal=task.ordinal, rows=sums[0].rows, result=packed)


def collect_rows(store: Store, task: Task) -> Steps:
    """The entries of the chosen buckets that the span's rows should have."""
    table = task.order.table
    found: list[Entry] = []
    snapshot = fresh_snapshot(store, table)
    try:
        for chunk in of_rows(snapshot, table, [index_of(task.order, task.index_id)], task.span):
            found.extend(_chosen(task, chunk[0]))
            yield Batch(len(chunk[0].keys), 0.0)
    finally:
        snapshot.close()
    return Outcome(ordinal=task.ordinal, rows=len(found), result=found)


def collect_entries(store: Store, task: Task) -> Steps:
    """The live entries of the chosen buckets in a span of one index."""
    found: list[Entry] = []
    for entries in _standing(store, task):
        found.extend(_chosen(task, entries))
        yield Batch(len(entries.keys), 0.0)
    return Outcome(ordinal=task.ordinal, rows=len(found), result=found)


def _standing(store: Store, task: Task) -> Iterator[Entries]:
    snapshot = fresh_snapshot(store, task.order.table)
    try:
        yield from of_index(snapshot, task.span)
    finally:
        snapshot.close()


def _chosen(task: Task, entries: Entries) -> Iterator[Entry]:
    buckets = bucket_of(hash_entries(entries.keys, entries.suffixes), task.buckets)
    at = np.flatnonzero(np.isin(buckets, np.frombuffer(task.chosen, np.uint32))).tolist()
    keys = as_bytes(entries.keys)
    suffixes = [b""] * len(keys) if entries.suffixes is None else as_bytes(entries.suffixes)
    handles = [b""] * len(keys) if entries.handles is None else as_bytes(entries.handles)
    return ((keys[n], suffixes[n], handles[n]) for n in at)


def index_of(order: Order, index_id: int) -> IndexInfo:
    """The order's index of that id."""
    found = order.info.index_by_id(index_id)
    assert found is not None, index_id
    return found
