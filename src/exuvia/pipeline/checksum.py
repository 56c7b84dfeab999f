"""Order-free checksums: two sides that hold the same entries have the same sums, in whatever order
they are read.

    h = hash(key, suffix)          64 bits, the same in every process
    sums[h >> shift] += h          a bucket for 64 rows; one that differs is looked at key by key

The hash reads a key as little-endian words, multiplies each by its own odd number, mixes, adds and
mixes again. A word of zeros adds nothing, so the width that a batch happened to be padded to does
not matter; the length is mixed in. It guards against loss and mistakes, not against an adversary
who chooses keys.
"""

import numpy as np

from exuvia.pipeline.order import WORD, Array, Keys

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
