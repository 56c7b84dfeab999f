"""Index entries as columns: the ones that rows should have, and the ones that stand in an index.

    rows     t{table}r{handle}   -> row_batch.decode -> row_batch.index_keys -> Entries per index
    index    t{table}i{index}... -> tombstones dropped                       -> Entries

Both sides of a comparison come from here, and what a fill writes. `suffixes` are what an entry's
payload holds behind LIVE: the handle in a unique index (empty where one of the values is NULL,
whose key ends in the handle instead), None in a plain index, where it is always empty.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from exuvia.base.errors import Unavailable
from exuvia.base.mysql_errors import ErrInvalidUseOfNull
from exuvia.catalog.codec import row_batch
from exuvia.catalog.codec.key_encoder import NUMBERS
from exuvia.catalog.columns import Array, Keys
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.packet import LIVE, Snapshot, Span
from exuvia.kv.store import Store

# -- sorting a million keys ------------------------------------------------------------------------
#
# The order that makes one run out of a span; writing it unsorted takes ten times as long.
#
# Keys of one width are an array of `V<width>`; others are a list of bytes. Only bytes that differ
# at all are compared, packed into big-endian words: a sysbench k and its handle differ in six
# bytes, which is one word.
#
#     one word       np.argsort                                    35 ms a million
#                    sorted itself, keys made from it (Sorted)     10 ms
#     few words      np.lexsort; not by a last word that is in order already, as handles are  130 ms
#     otherwise      Python's sort of bytes                        550 ms

WORD = 8
_MOST_WORDS = 5
_BLOCK_ROWS = 4096


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
        return list(chain.from_iterable(map(as_bytes, parts)))
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
        return sorted(chain.from_iterable(map(as_bytes, parts)))
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
    columns: list[int] = np.flatnonzero(varies).tolist()
    return columns


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


# -- entries of an index ---------------------------------------------------------------------------

CHUNK_ROWS = 10_000
LEAST_SPAN_ROWS = 100_000
_NARROW = 4
"""How many times the rows a span may have where an entry is a few numbers, not a text: the fewer
runs there are, the fewer pages of the index each of them has to write anew."""
NEAR_ROWS = 2_000  # read, join and cut out within the processor's cache: a fifth less time
Look = Callable[[row_batch.Columns], None]


class Entries(NamedTuple):
    """Some entries of one index. `handles` are known where the entries were made from rows."""

    keys: Keys
    suffixes: Keys | None
    handles: Keys | None = None


def fresh_snapshot(store: Store, table: Table) -> Snapshot:
    """A view that shows the table at the planned revision or later (law 1).

    Raises Unavailable if it does not."""
    snapshot = store.snapshot()
    raw = snapshot.get(k.revision(table.info.id))
    seen = 0 if raw is None else k.read_number(raw[snapshot.skip :])
    if seen >= table.revision:
        return snapshot
    snapshot.close()
    raise Unavailable(
        f"the snapshot shows revision {seen} of table {table.info.name.O}, "
        f"the scan needs {table.revision}"
    )


def positions_of(table: Table, indexes: Sequence[IndexInfo]) -> list[int]:
    """Positions (in info.cols) of the columns that the indexes hold."""
    ids = {part.exuvia_column for index in indexes for part in index.idx_cols}
    return [n for n, column in enumerate(table.info.cols) if column.id in ids]


def is_narrow(table: Table, index_ids: Sequence[int]) -> bool:
    """Whether the indexes' entries are a few words each, all in the key."""
    forms = [form for form in table.forms if form.info.id in index_ids]
    families = {kind.family for form in forms for kind in form.types}
    plain = not any(form.unique for form in forms)
    return plain and not table.info.is_common_handle and families <= NUMBERS


def run_rows(table: Table, index_ids: Sequence[int], wanted: int) -> int:
    """Rows of one run where a span is to have `wanted`: more where entries are narrow, less where
    several indexes are filled in one pass, for memory's sake."""
    if wanted >= LEAST_SPAN_ROWS and is_narrow(table, index_ids):
        wanted *= _NARROW
    return max(min(wanted, LEAST_SPAN_ROWS), wanted // len(index_ids))


def of_rows(
    snapshot: Snapshot,
    table: Table,
    indexes: Sequence[IndexInfo],
    span: Span,
    look: Look | None = None,
) -> Iterator[list[Entries]]:
    """Entries that the rows of a span should have: chunk by chunk, one Entries per index.

    `look` is shown the indexes' columns."""
    wanted = positions_of(table, indexes)
    for keys, raws in snapshot.chunks(span, NEAR_ROWS):
        columns = row_batch.decode(table, keys, raws, snapshot.skip, wanted)
        if look is not None:
            look(columns)
        yield [of_columns(table, index, columns) for index in indexes]


def of_columns(table: Table, index: IndexInfo, columns: row_batch.Columns) -> Entries:
    """Entries that rows should have in an index, of which these are the columns."""
    keys, nulls = row_batch.index_keys(table, index, columns)
    if not index.is_unique:
        return Entries(keys, None, columns.handles)
    if nulls is None:
        return Entries(keys, columns.handles, columns.handles)
    if index.is_primary and nulls.any():
        raise ErrInvalidUseOfNull()
    suffixes = [
        b"" if null else handle
        for null, handle in zip(nulls.tolist(), as_bytes(columns.handles), strict=True)
    ]
    return Entries(keys, suffixes, columns.handles)


def of_index(snapshot: Snapshot, span: Span) -> Iterator[Entries]:
    """The live entries of a span of an index, chunk by chunk."""
    for keys, raws in snapshot.chunks(span, NEAR_ROWS):
        yield _live_plain(keys, raws, snapshot.skip) or _live(keys, raws, snapshot.skip)


def _live_plain(keys: list[bytes], raws: list[bytes], skip: int) -> Entries | None:
    """The fast way, for payloads that are no longer than LIVE; None where some are."""
    width = skip + len(LIVE)
    if set(map(len, raws)) != {width}:
        return None
    states = np.frombuffer(b"".join(raws), np.uint8)[skip::width]
    if states.any():
        keys = [keys[n] for n in np.flatnonzero(states == LIVE[0]).tolist()]
    return Entries(keys, None)


def _live(keys: list[bytes], raws: list[bytes], skip: int) -> Entries:
    end = skip + len(LIVE)
    live = [n for n, raw in enumerate(raws) if raw[skip:end] == LIVE]
    suffixes = [raws[n][end:] for n in live]
    return Entries([keys[n] for n in live], suffixes if any(suffixes) else None)


def payloads(suffixes: Keys | None) -> bytes | list[bytes]:
    """What entries hold: one payload for all, or a list."""
    if suffixes is None:
        return LIVE
    if isinstance(suffixes, list):
        return [LIVE + suffix for suffix in suffixes]
    width = suffixes.dtype.itemsize
    whole: Array = np.zeros((len(suffixes), len(LIVE) + width), dtype=np.uint8)
    whole[:, : len(LIVE)] = np.frombuffer(LIVE, np.uint8)
    whole[:, len(LIVE) :] = suffixes.view(np.uint8).reshape(len(suffixes), width)
    return as_bytes(whole.view(f"V{len(LIVE) + width}").reshape(len(suffixes)))
