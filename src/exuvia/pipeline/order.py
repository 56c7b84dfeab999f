"""Sorting a million keys: the order that makes one run out of a span (writing it unsorted takes
ten times as long).

Keys of one width are an array of `V<width>`; others are a list of bytes. Only bytes that differ at
all are compared, packed into big-endian words: a sysbench k and its handle differ in six bytes,
which is one word.

    one word       np.argsort                                    35 ms a million
                   np.sort, where only the order is wanted       10 ms, and nothing is gathered
    few words      np.lexsort; not by a last word that is in order already, as handles are  130 ms
    otherwise      Python's sort of bytes                        550 ms
"""

from typing import Any

import numpy as np

WORD = 8
_MOST_WORDS = 5
_BLOCK_ROWS = 4096

Array = np.ndarray[Any, np.dtype[Any]]
Keys = Array | list[bytes]


def as_bytes(keys: Keys) -> list[bytes]:
    """Keys as Python bytes."""
    return keys if isinstance(keys, list) else keys.tolist()


def take(keys: Keys, positions: Array) -> Keys:
    """The keys at the positions, in that order."""
    if isinstance(keys, list):
        return [keys[n] for n in positions.tolist()]
    width = keys.dtype.itemsize
    taken: Array = np.take(_matrix(keys), positions, axis=0)
    return taken.view(f"V{width}").reshape(len(positions))


def joined(parts: list[Keys]) -> Keys:
    """One sequence of keys out of several; an array if all have the same width."""
    if not parts:
        return []
    first = parts[0]
    if isinstance(first, list) or any(isinstance(p, list) or p.dtype != first.dtype for p in parts):
        return [key for part in parts for key in as_bytes(part)]
    arrays: Array = np.concatenate(parts)
    return arrays


def in_order(keys: Keys) -> Keys:
    """The keys sorted. Cheaper than `take(keys, positions(keys))` where one word tells them apart:
    that word is sorted, and the keys are made anew around it."""
    if isinstance(keys, list):
        return sorted(keys)
    matrix = _matrix(keys)
    columns = _varying_columns(matrix)
    if len(columns) > WORD:
        return take(keys, positions(keys))
    words = np.sort(_word(matrix, columns)).astype(">u8").view(np.uint8).reshape(-1, WORD)
    made: Array = np.empty_like(matrix)
    made[:] = matrix[:1]
    for n, column in enumerate(columns):
        made[:, column] = words[:, n]
    return made.view(keys.dtype).reshape(len(keys))


def positions(keys: Keys) -> Array:
    """Positions that sort the keys; the order among equal keys is free. Shape (n,), int64."""
    if isinstance(keys, list):
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
    words = varying_words(keys)
    if not words:
        return np.arange(len(keys), dtype=np.int64)
    if len(words) > _MOST_WORDS:
        return positions(keys.tolist())
    if len(words) > 1 and bool(np.all(words[-1][1:] >= words[-1][:-1])):
        words.pop()
        return np.lexsort(words[::-1])
    return np.argsort(words[0]) if len(words) == 1 else np.lexsort(words[::-1])


def varying_words(keys: Array) -> list[Array]:
    """The bytes in which the keys differ at all, as u64 words that sort like the keys; the first
    weighs most."""
    matrix = _matrix(keys)
    columns = _varying_columns(matrix)
    return [_word(matrix, columns[at : at + WORD]) for at in range(0, len(columns), WORD)]


def _varying_columns(matrix: Array) -> list[int]:
    """The bytes in which the rows differ at all."""
    varies = np.zeros(matrix.shape[1], dtype=bool)
    for start in range(0, len(matrix), _BLOCK_ROWS):
        varies |= (matrix[start : start + _BLOCK_ROWS] != matrix[0]).any(axis=0)
    found: list[int] = np.flatnonzero(varies).tolist()
    return found


def _word(matrix: Array, columns: list[int]) -> Array:
    padded = np.zeros((len(matrix), WORD), dtype=np.uint8)
    for n, column in enumerate(columns):
        padded[:, n] = matrix[:, column]
    return padded.view(">u8").reshape(len(matrix)).astype(np.uint64)


def _matrix(keys: Array) -> Array:
    """The bytes of keys of one width. Shape (n, width), uint8."""
    return keys.view(np.uint8).reshape(len(keys), keys.dtype.itemsize)


def repeats(keys: Keys) -> Array:
    """Positions n of sorted keys where keys[n] == keys[n - 1]. Shape (m,), int64."""
    if isinstance(keys, list):
        same = (n for n in range(1, len(keys)) if keys[n] == keys[n - 1])
        return np.fromiter(same, dtype=np.int64)
    matrix = _matrix(keys)
    return np.flatnonzero((matrix[1:] == matrix[:-1]).all(axis=1)) + 1
