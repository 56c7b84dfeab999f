"""The checksum of a table as TiDB's users compare it: CRC-64 of every pair, XORed, in no order.

    crc(key, payload) = CRC-64/ECMA of the bytes of the key, then of the payload
    a table           = the XOR over all rows and all live index entries; how many; how many bytes

Commit sequences and tombstones are no part of it: two stores that hold the same have the same.
The CRC is computed for a chunk at once: a step per byte position, over the pairs that are as long.
Source: ECMA-182, reflected as in Go's crc64.ECMA.
"""

from collections.abc import Generator

import numpy as np

from exuvia.kv.packet import SEQUENCE_BYTES, TOMBSTONE
from exuvia.kv.store import Store
from exuvia.pipeline.entries import CHUNK_ROWS, fresh_snapshot
from exuvia.pipeline.order import Array
from exuvia.pipeline.task import Outcome, Task
from exuvia.pipeline.throttle import Batch

_POLYNOMIAL = 0xC96C5795D7870F42
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_BYTE, _EIGHT = np.uint64(0xFF), np.uint64(8)
_MOST_PADDED = 1 << 22
Steps = Generator[Batch, None, Outcome]


def _table() -> Array:
    found = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        odd = found & np.uint64(1)
        found = (found >> np.uint64(1)) ^ (odd * np.uint64(_POLYNOMIAL))
    return found


_TABLE = _table()


def crc64(texts: list[bytes]) -> Array:
    """CRC-64/ECMA of each. Shape (n,), uint64."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    order = np.argsort(lengths, kind="stable")
    found: Array = np.zeros(len(texts), np.uint64)
    at = 0
    while at < len(order):
        end = at + 1
        while end < len(order) and lengths[order[end]] * (end + 1 - at) <= _MOST_PADDED:
            end += 1
        group = order[at:end]
        found[group] = _sorted(b"".join(texts[n] for n in group), lengths[group])
        at = end
    return found


def _sorted(joined: bytes, lengths: Array) -> Array:
    """The CRCs of pieces that stand one behind the other, the short ones first."""
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
    """The kernel: (XOR, pairs, bytes) of a span."""
    snapshot = fresh_snapshot(store, task.order.table)
    total, pairs, size = np.uint64(0), 0, 0
    try:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            texts = [
                key + raw[SEQUENCE_BYTES:]
                for key, raw in zip(keys, raws, strict=True)
                if not task.index_id or raw[SEQUENCE_BYTES:] != TOMBSTONE
            ]
            total ^= np.bitwise_xor.reduce(crc64(texts), initial=np.uint64(0))
            pairs += len(texts)
            size += sum(map(len, texts))
            yield Batch(len(raws), 0.0)
    finally:
        snapshot.close()
    return Outcome(ordinal=task.ordinal, rows=pairs, result=(int(total), pairs, size))
