"""The scans of a comparison (compare.py), as kernels over one span.

    sum rows, sum entries            checksums per bucket: a few bytes for a million rows
    sum both                         those of a whole table and its indexes, in one snapshot
    collect rows, collect entries    (key, suffix, handle) of the entries in chosen buckets
    checksum                         CRC-64 of the pairs of a span, for ADMIN CHECKSUM TABLE

Each yields after every chunk, so it can be made to rest. Checksums do not depend on order: two
sides with the same entries have the same sums.

    h = hash(key, suffix)          64 bits, the same in every process
    sums[h >> shift] += h          a bucket for 64 rows; differing buckets are compared key by key

The hash reads a key as little-endian words, multiplies each by a different odd number, mixes, adds
and mixes again. A word of zeros adds nothing, so padding does not matter; the length is mixed in.
The hash detects loss and mistakes, not an adversary who chooses keys.
"""

from collections.abc import Iterator
from contextlib import closing

import numpy as np

from exuvia.catalog.columns import Array, Keys
from exuvia.catalog.model import IndexInfo
from exuvia.kv.packet import TOMBSTONE, Padded
from exuvia.kv.store import Store
from exuvia.pipeline.kernels.entries import (
    CHUNK_ROWS,
    WORD,
    Entries,
    as_bytes,
    fresh_snapshot,
    of_index,
    of_rows,
)
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.throttle import Batch, Steps

ROWS_PER_BUCKET = 64
_LEAST_BUCKETS, _MOST_BUCKETS = 1 << 8, 1 << 20
_GOLDEN = 0x9E3779B97F4A7C15
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_MASK = (1 << 64) - 1


def buckets_for(rows: int) -> int:
    """Returns the number of buckets for `rows`: a power of two, at least rows / 64, within
    bounds."""
    buckets = _LEAST_BUCKETS
    while buckets * ROWS_PER_BUCKET < rows and buckets < _MOST_BUCKETS:
        buckets *= 2
    return buckets


def hash_keys(keys: Keys) -> Array:
    """Returns a 64-bit hash per key. Shape (n,), uint64."""
    rows = len(keys)
    if not rows:
        return np.zeros(0, dtype=np.uint64)
    if isinstance(keys, list):
        lengths: Array = np.fromiter(map(len, keys), dtype=np.uint64, count=rows)
        longest = int(lengths.max())
        padded = np.array(keys, dtype=f"S{max(1, -(-longest // WORD)) * WORD}")
        words = padded.view("<u8").reshape(rows, -1)
    elif isinstance(keys, Padded):
        width, lengths = keys.matrix.shape[1], keys.lengths.astype(np.uint64)
        words = np.zeros((rows, -(-width // WORD)), dtype="<u8")
        words.view(np.uint8)[:, :width] = keys.matrix
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
    """Returns the hash of whole entries: key, and payload without LIVE. `suffixes` None: all are
    empty."""
    hashes = hash_keys(keys)
    if suffixes is None:
        return hashes
    both = _mixed(hashes * np.uint64(_odd(1 << 21)) + hash_keys(suffixes))
    if not isinstance(suffixes, list):
        return both
    return np.where(np.fromiter(map(len, suffixes), np.int64, len(suffixes)) > 0, both, hashes)


def bucket_of(hashes: Array, buckets: int) -> Array:
    """Returns the bucket of each hash. Shape (n,), int64."""
    return (hashes >> np.uint64(64 - (buckets.bit_length() - 1))).astype(np.int64)


class Sums:
    """One side's checksums: a sum and a count per bucket."""

    def __init__(self, buckets: int) -> None:
        self.sums: Array = np.zeros(buckets, dtype=np.uint64)
        self.rows = 0

    def add(self, hashes: Array) -> None:
        """Adds entries by their hashes."""
        np.add.at(self.sums, bucket_of(hashes, len(self.sums)), hashes)
        self.rows += len(hashes)

    def packed(self) -> tuple[bytes, int]:
        """Returns the form that is sent to the driver."""
        return self.sums.tobytes(), self.rows

    def merge(self, other: "Sums") -> None:
        """Adds another part of the same side."""
        self.sums += other.sums
        self.rows += other.rows

    def differing(self, other: "Sums") -> Array:
        """Returns the numbers of the buckets that differ."""
        return np.flatnonzero(self.sums != other.sums)


Entry = tuple[bytes, bytes, bytes]  # key, suffix, handle if known


def sum_rows(store: Store, task: Task) -> Steps:
    """Kernel: sums of the entries that the span's rows should have, for every index of the
    order."""
    indexes = [index_of(task.order, n) for n in task.order.index_ids]
    sums = [Sums(task.buckets) for _ in indexes]
    table = task.order.table
    with closing(fresh_snapshot(store, table)) as snapshot:
        for rows, chunk in of_rows(snapshot, table, indexes, task.span):
            for side, entries in zip(sums, chunk, strict=True):
                side.add(hash_entries(entries.keys, entries.suffixes))
            yield Batch(rows, 0.0)
    return _summed(task, sums)


def sum_entries(store: Store, task: Task) -> Steps:
    """Kernel: sums of the live entries in a span of one index."""
    sums = Sums(task.buckets)
    for entries in _present(store, task):
        sums.add(hash_entries(entries.keys, entries.suffixes))
        yield Batch(len(entries.keys), 0.0)
    return _summed(task, [sums])


def sum_both(store: Store, task: Task) -> Steps:
    """Kernel: sums of the entries that rows should have, then of the entries present, for every
    index of the order. One snapshot, so that no write makes them differ."""
    table = task.order.table
    indexes = [index_of(task.order, n) for n in task.order.index_ids]
    should, stand = ([Sums(task.buckets) for _ in indexes] for _ in range(2))
    with closing(fresh_snapshot(store, table)) as snapshot:
        for rows, chunk in of_rows(snapshot, table, indexes, task.span):
            for side, entries in zip(should, chunk, strict=True):
                side.add(hash_entries(entries.keys, entries.suffixes))
            yield Batch(rows, 0.0)
        for side, index in zip(stand, indexes, strict=True):
            for entries in of_index(snapshot, table.index_span(index)):
                side.add(hash_entries(entries.keys, entries.suffixes))
                yield Batch(len(entries.keys), 0.0)
    return _summed(task, [*should, *stand])


def _summed(task: Task, sums: list[Sums]) -> Outcome:
    packed = [side.packed() for side in sums]
    return Outcome(ordinal=task.ordinal, rows=sums[0].rows, result=packed)


def collect_rows(store: Store, task: Task) -> Steps:
    """Kernel: entries in the chosen buckets that the span's rows should have."""
    table = task.order.table
    entries: list[Entry] = []
    with closing(fresh_snapshot(store, table)) as snapshot:
        indexes = [index_of(task.order, task.index_id)]
        for rows, chunk in of_rows(snapshot, table, indexes, task.span):
            entries.extend(_chosen(task, chunk[0]))
            yield Batch(rows, 0.0)
    return Outcome(ordinal=task.ordinal, rows=len(entries), result=entries)


def collect_entries(store: Store, task: Task) -> Steps:
    """Kernel: live entries in the chosen buckets of a span of one index."""
    collected: list[Entry] = []
    for entries in _present(store, task):
        collected.extend(_chosen(task, entries))
        yield Batch(len(entries.keys), 0.0)
    return Outcome(ordinal=task.ordinal, rows=len(collected), result=collected)


def _present(store: Store, task: Task) -> Iterator[Entries]:
    with closing(fresh_snapshot(store, task.order.table)) as snapshot:
        yield from of_index(snapshot, task.span)


def _chosen(task: Task, entries: Entries) -> Iterator[Entry]:
    buckets = bucket_of(hash_entries(entries.keys, entries.suffixes), task.buckets)
    at = np.flatnonzero(np.isin(buckets, np.frombuffer(task.chosen, np.uint32))).tolist()
    keys = as_bytes(entries.keys)
    suffixes = [b""] * len(keys) if entries.suffixes is None else as_bytes(entries.suffixes)
    handles = [b""] * len(keys) if entries.handles is None else as_bytes(entries.handles)
    return ((keys[n], suffixes[n], handles[n]) for n in at)


def index_of(order: TaskOrder, index_id: int) -> IndexInfo:
    """Returns the order's index of that id."""
    index = order.info.index_by_id(index_id)
    assert index is not None, index_id
    return index


# -- the checksum of a table -----------------------------------------------------------------------
#
# The same as TiDB's: CRC-64 of every pair, XORed, independent of order.
#
#     crc(key, payload) = CRC-64/ECMA of the bytes of the key, then of the payload
#     a table           = XOR over all rows and live index entries; their number; their bytes
#
# Commit sequences and tombstones are excluded: stores with the same rows have the same checksum.
# The CRC of a chunk is computed in one step per byte position, over all pairs that are long enough.
# Source: ECMA-182, reflected as in Go's crc64.ECMA.

_POLYNOMIAL = 0xC96C5795D7870F42
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_BYTE, _EIGHT = np.uint64(0xFF), np.uint64(8)
_MOST_PADDED = 1 << 22


def _table() -> Array:
    table = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        odd = table & np.uint64(1)
        table = (table >> np.uint64(1)) ^ (odd * np.uint64(_POLYNOMIAL))
    return table


_TABLE = _table()


def crc64(texts: list[bytes]) -> Array:
    """Returns the CRC-64/ECMA of each text. Shape (n,), uint64."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    order = np.argsort(lengths, kind="stable")
    crcs: Array = np.zeros(len(texts), np.uint64)
    at = 0
    while at < len(order):
        end = at + 1
        while end < len(order) and lengths[order[end]] * (end + 1 - at) <= _MOST_PADDED:
            end += 1
        group = order[at:end]
        crcs[group] = _sorted(b"".join(texts[n] for n in group), lengths[group])
        at = end
    return crcs


def _sorted(joined: bytes, lengths: Array) -> Array:
    """Returns the CRCs of concatenated pieces, in order of length."""
    crc: Array = np.full(len(lengths), _ALL)
    if joined:
        data = np.frombuffer(joined, np.uint8)
        starts = np.cumsum(lengths) - lengths
        first = np.searchsorted(lengths, np.arange(int(lengths[-1])), side="right")
        for position, begin in enumerate(first.tolist()):
            old = crc[begin:]
            byte = data[starts[begin:] + position]
            crc[begin:] = _TABLE[(old ^ byte) & _BYTE] ^ (old >> _EIGHT)
    return crc ^ _ALL


def checksum(store: Store, task: Task) -> Steps:
    """Kernel: (XOR, number of pairs, bytes) of a span."""
    total, pairs, size = np.uint64(0), 0, 0
    with closing(fresh_snapshot(store, task.order.table)) as snapshot:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            skip = snapshot.skip
            texts = [
                key + raw[skip:]
                for key, raw in zip(keys, raws, strict=True)
                if not task.index_id or raw[skip:] != TOMBSTONE
            ]
            total ^= np.bitwise_xor.reduce(crc64(texts), initial=np.uint64(0))
            pairs += len(texts)
            size += sum(map(len, texts))
            yield Batch(len(raws), 0.0)
    return Outcome(ordinal=task.ordinal, rows=pairs, result=(int(total), pairs, size))
