"""Sorting a million keys: the order that makes one run out of a span (writing it unsorted takes
ten times as long).

Keys of one width are an array of `V<width>`; others are a list of bytes. Only bytes that differ at
all are compared, packed into big-endian words: a sysbench k and its handle differ in six bytes,
which is one word.

    one word       np.argsort                                    35 ms a million
                   sorted itself, keys made from it (Sorted)     10 ms
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


class Sorted:
    """Sorted keys that differ in few bytes: those bytes as words, and what all keys share. Slices
    of it are arrays of keys."""

    def __init__(self, words: Array, shared: Array, columns: list[int]) -> None:
        self._words = words
        self._shared = shared
        self._columns = columns

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, part: slice) -> Array:
        words = self._words[part].astype(">u8").view(np.uint8).reshape(-1, WORD)
        made: Array = np.repeat(self._shared, len(words), axis=0)
        for n, column in enumerate(self._columns):
            made[:, column] = words[:, n]
        return made.view(f"V{made.shape[1]}").reshape(len(made))


def in_order(parts: list[Keys]) -> Keys | Sorted:
    """All keys of the parts, sorted. Where one word tells them apart it is all that is sorted, and
    the keys are made anew when they are wanted."""
    first = parts[0] if parts else []
    if isinstance(first, list) or any(isinstance(p, list) or p.dtype != first.dtype for p in parts):
        return sorted(key for part in parts for key in as_bytes(part))
    matrices = [_matrix(part) for part in parts if not isinstance(part, list) and len(part)]
    columns = _varying_columns(matrices)
    if not matrices or len(columns) > WORD:
        keys = joined(parts)
        return take(keys, positions(keys))
    words = np.concatenate([_word(matrix, columns) for matrix in matrices])
    words.sort()
    return Sorted(words, matrices[0][:1].copy(), columns)


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
    blocks = [matrix[at : at + _BLOCK_ROWS] for at in range(0, len(matrix), _BLOCK_ROWS)]
    columns = _varying_columns(blocks)
    return [_word(matrix, columns[at : at + WORD]) for at in range(0, len(columns), WORD)]


def _varying_columns(blocks: list[Array]) -> list[int]:
    """The bytes in which the rows of all blocks differ at all."""
    if not blocks:
        return []
    varies = np.zeros(blocks[0].shape[1], dtype=bool)
    for block in blocks:
        varies |= (block != blocks[0][0]).any(axis=0)
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
