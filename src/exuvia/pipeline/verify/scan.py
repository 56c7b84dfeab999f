"""The four scans of a comparison, as kernels over one span; compare.py says what they are for.

    sum rows, sum entries            checksums per bucket: a few bytes for a million rows
    collect rows, collect entries    (key, suffix, handle) of the entries in chosen buckets

Each yields after every chunk, so that it can be made to rest between any two of them. Checksums are
free of order: two sides that hold the same entries have the same sums, however they are read.

    h = hash(key, suffix)          64 bits, the same in every process
    sums[h >> shift] += h          a bucket for 64 rows; one that differs is looked at key by key

The hash reads a key as little-endian words, multiplies each by its own odd number, mixes, adds and
mixes again. A word of zeros adds nothing, so the width that a batch happened to be padded to does
not matter; the length is mixed in. It guards against loss and mistakes, not against an adversary
who chooses keys.
"""

from collections.abc import Generator, Iterator

import numpy as np

from exuvia.catalog.model import IndexInfo
from exuvia.kv.store import Store
from exuvia.pipeline.entries import Entries, fresh_snapshot, of_index, of_rows
from exuvia.pipeline.order import WORD, Array, Keys, as_bytes
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.throttle import Batch

ROWS_PER_BUCKET = 64
_LEAST_BUCKETS, _MOST_BUCKETS = 1 << 8, 1 << 20
_GOLDEN = 0x9E3779B97F4A7C15
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_MASK = (1 << 64) - 1


def buckets_for(rows: int) -> int:
    """How many buckets (a power of two) for so many rows: at least rows / 64, within bounds."""
    wanted = _LEAST_BUCKETS
    while wanted * ROWS_PER_BUCKET < rows and wanted < _MOST_BUCKETS:
        wanted *= 2
    return wanted


def hash_keys(keys: Keys) -> Array:
    """A 64-bit hash per key. Shape (n,), uint64."""
    rows = len(keys)
    if not rows:
        return np.zeros(0, dtype=np.uint64)
    if isinstance(keys, list):
        lengths: Array = np.fromiter(map(len, keys), dtype=np.uint64, count=rows)
        longest = int(lengths.max())
        padded = np.array(keys, dtype=f"S{max(1, -(-longest // WORD)) * WORD}")
        words = padded.view("<u8").reshape(rows, -1)
    else:
        width = keys.dtype.itemsize
        lengths = np.full(rows, width, dtype=np.uint64)
        words = np.zeros((rows, max(1, -(-width // WORD))), dtype="<u8")
        words.view(np.uint8)[:, :width] = keys.view(np.uint8).reshape(rows, width)
    total: Array = np.zeros(rows, dtype=np.uint64)
    for column in range(words.shape[1]):
        total += _mixed(words[:, column] * np.uint64(_odd(column)))
    return _mixed(total + lengths * np.uint64(_odd(1 << 20)))


def _odd(column: int) -> int:
    return (_GOLDEN * (2 * column + 1) ^ column << 17) & _MASK | 1


def _mixed(word: Array) -> Array:
    word = (word ^ word >> _HALF) * _MIX
    mixed: Array = word ^ word >> _HALF
    return mixed


def hash_entries(keys: Keys, suffixes: Keys | None) -> Array:
    """The hash of whole entries: key, and what the payload holds behind LIVE. None: nothing, in
    all of them."""
    hashes = hash_keys(keys)
    if suffixes is None:
        return hashes
    both = _mixed(hashes * np.uint64(_odd(1 << 21)) + hash_keys(suffixes))
    if not isinstance(suffixes, list):
        return both
    return np.where(np.fromiter(map(len, suffixes), np.int64, len(suffixes)) > 0, both, hashes)


def bucket_of(hashes: Array, buckets: int) -> Array:
    """The bucket of each hash. Shape (n,), int64."""
    return (hashes >> np.uint64(64 - (buckets.bit_length() - 1))).astype(np.int64)


class Sums:
    """One side's checksums: a sum and a count per bucket."""

    def __init__(self, buckets: int) -> None:
        self.sums: Array = np.zeros(buckets, dtype=np.uint64)
        self.rows = 0

    def add(self, hashes: Array) -> None:
        """Take entries in, by their hashes."""
        np.add.at(self.sums, bucket_of(hashes, len(self.sums)), hashes)
        self.rows += len(hashes)

    def merge(self, other: "Sums") -> None:
        """Take another part of the same side in."""
        self.sums += other.sums
        self.rows += other.rows

    def differing(self, other: "Sums") -> Array:
        """Numbers of the buckets that differ."""
        return np.flatnonzero(self.sums != other.sums)


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


def index_of(order: TaskOrder, index_id: int) -> IndexInfo:
    """The order's index of that id."""
    found = order.info.index_by_id(index_id)
    assert found is not None, index_id
    return found
