"""Index entries as columns: those that rows should have, and those present in an index.

    rows     t{table}r{handle}   -> row_batch.decode -> held_by -> row_batch.index_keys
                                                                              -> Entries per index
    index    t{table}i{index}... -> tombstones dropped                       -> Entries

Both sides of a comparison use this module, and so does a backfill. `suffixes` are the payloads of
entries without LIVE. In a unique index that is the handle, or empty if one of the values is NULL
(then the key ends in the handle). In a plain index it is always empty: `suffixes=None`.
"""

import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from msgspec import json

from exuvia.base.decoding import json_decoder
from exuvia.base.errors import Unavailable
from exuvia.base.mysql_errors import ErrInvalidUseOfNull
from exuvia.base.types import FieldType
from exuvia.base.waits import SNAPSHOT_BEHIND
from exuvia.catalog.codec import row_batch
from exuvia.catalog.codec.key_batch import held_rows
from exuvia.catalog.codec.key_encoder import NUMBERS
from exuvia.catalog.codec.row_codec import storage_of
from exuvia.catalog.columns import DTYPES, Array, Keys, Vector, vector_of
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.multi_valued import KINDS, elements, value_of
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.packet import LIVE, Padded, RawRun, Snapshot, SnapshotUse, Span, windows_of
from exuvia.kv.store import Store

# -- sorting a million keys ------------------------------------------------------------------------
#
# A span is written as one sorted run; writing it unsorted takes ten times as long.
#
# Keys of one width are an array of `V<width>`. Keys of a few widths are padded with zeros (Padded);
# no key is a prefix of another, so the order is the same. Others are a list of bytes. Only bytes
# that differ are compared, packed into big-endian words: a sysbench k and its handle differ in six
# bytes, which fit one word. Positive and negative numbers differ in all bytes, but their range is
# small. So adjacent differing bytes are packed into the bits that the range of their values needs.
#
#     one word       the words are sorted, keys rebuilt from them (Sorted)     10 ms a million
#     several        np.argsort by the first word, then equal ones by the next
#                    (a text of 120 bytes: 190 ms, Python's sort of bytes 890 ms)
#     long common prefixes, or several widths    Python's sort of bytes

WORD = 8
_FEW_WORDS = 8
_BLOCK_ROWS = 4096
_LEAST_MAP = 1 << 16


def as_bytes(keys: Keys) -> list[bytes]:
    """Returns keys as Python bytes."""
    return keys if isinstance(keys, list) else keys.tolist()


def take(keys: Keys, positions: Array) -> Keys:
    """Returns the keys at the positions, in that order."""
    if isinstance(keys, list):
        return [keys[n] for n in positions.tolist()]
    if isinstance(keys, Padded):
        return keys[positions]
    width = keys.dtype.itemsize
    gathered: Array = np.take(_matrix(keys), positions, axis=0)
    return gathered.view(f"V{width}").reshape(len(positions))


def joined(parts: list[Keys]) -> Keys:
    """Returns several sequences of keys as one; an array if all have the same width."""
    parts = [part for part in parts if len(part)]
    if len(parts) == 1:
        return parts[0]
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts) and len({part.dtype for part in arrays}) == 1:
        whole: Array = np.concatenate(arrays)
        return whole
    if not parts or any(isinstance(part, list) for part in parts):
        return list(chain.from_iterable(map(as_bytes, parts)))
    width = max(_matrix(part).shape[1] for part in parts)
    matrix = np.zeros((sum(map(len, parts)), width), np.uint8)
    lengths = np.empty(len(matrix), np.int64)
    at = 0
    for part in parts:
        some, end = _matrix(part), at + len(part)
        matrix[at:end, : some.shape[1]] = some
        lengths[at:end] = part.lengths if isinstance(part, Padded) else some.shape[1]
        at = end
    return Padded(matrix, lengths)


# A new page of memory costs 2 to 3 us in a virtual machine. Collecting a million texts in chunks
# and joining them took 90,000 pages, a quarter of the time of a backfill. Large pages cost even
# more, 3 ms for 2 MB, because the host has to find them (decision 126).


class _GrowingMatrix:
    """A byte matrix that grows in place, so that appending rows copies nothing."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._map = mmap.mmap(-1, _LEAST_MAP, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._used = 0

    def add(self, matrix: Array) -> None:
        """Appends rows of shape (n, at most `width`), uint8. Shorter rows are padded with zeros."""
        size = len(matrix) * self.width
        end = self._used + size
        if end > len(self._map):
            self._map.resize(max(2 * len(self._map), end))
        room = np.frombuffer(self._map, np.uint8, size, self._used)
        room.reshape(len(matrix), self.width)[:, : matrix.shape[1]] = matrix
        self._used = end

    @property
    def matrix(self) -> Array:
        """The added rows, without a copy. Valid until more are added."""
        whole: Array = np.frombuffer(self._map, np.uint8, self._used)
        return whole.reshape(-1, self.width)


class _FixedWidthKeys:
    """Keys of one width."""

    def __init__(self, keys: Array) -> None:
        self._dtype = keys.dtype
        self._rows = _GrowingMatrix(keys.dtype.itemsize)

    def accepts(self, keys: Keys) -> bool:
        """Whether the keys can be appended."""
        return isinstance(keys, np.ndarray) and keys.dtype == self._dtype

    def add(self, keys: Keys) -> None:
        self._rows.add(_matrix(keys))

    def keys(self) -> Keys:
        return self._rows.matrix.view(self._dtype).reshape(-1)


class _PaddedKeys:
    """Keys of several widths, none wider than the first keys rounded up to whole words."""

    def __init__(self, keys: Padded) -> None:
        self._rows = _GrowingMatrix(-(-keys.matrix.shape[1] // WORD) * WORD)
        self._lengths: list[Array] = []

    def accepts(self, keys: Keys) -> bool:
        """Whether the keys can be appended."""
        return not isinstance(keys, list) and _matrix(keys).shape[1] <= self._rows.width

    def add(self, keys: Keys) -> None:
        matrix = _matrix(keys)
        self._rows.add(matrix)
        same = np.full(len(matrix), matrix.shape[1], np.int64)
        self._lengths.append(keys.lengths if isinstance(keys, Padded) else same)

    def keys(self) -> Keys:
        return Padded(self._rows.matrix, np.concatenate(self._lengths))


class KeyParts:
    """A growing collection of keys. Arrays are joined while they are added, which frees the
    parts."""

    def __init__(self) -> None:
        self._parts: list[list[bytes] | _FixedWidthKeys | _PaddedKeys] = []

    def add(self, keys: Keys) -> None:
        """Appends keys."""
        if not len(keys):
            return
        if isinstance(keys, list):
            self._parts.append(keys)
            return
        last = self._parts[-1] if self._parts else []
        if isinstance(last, list) or not last.accepts(keys):
            last = _FixedWidthKeys(keys) if isinstance(keys, np.ndarray) else _PaddedKeys(keys)
            self._parts.append(last)
        last.add(keys)

    def drain(self) -> list[Keys]:
        """Returns all keys in order, and empties the collection."""
        parts, self._parts = self._parts, []
        return [part if isinstance(part, list) else part.keys() for part in parts]


class PackedNumber(NamedTuple):
    """Adjacent differing bytes of keys, as a number. A word contains its distance from `least` in
    `bits` bits, `shift` bits from the right."""

    columns: list[int]
    least: int
    bits: int
    shift: int


class Sorted:
    """Sorted keys that differ in at most one word. Stores the words and the common bytes; slices
    are arrays of keys."""

    def __init__(self, words: Array, shared: Array, fields: list[PackedNumber]) -> None:
        self._words = words
        self._shared = shared
        self._fields = fields

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, part: slice) -> Array:
        words = self._words[part]
        matrix: Array = np.repeat(self._shared, len(words), axis=0)
        for columns, least, bits, shift in self._fields:
            mask = np.uint64((1 << bits) - 1)
            numbers = ((words >> np.uint64(shift)) & mask) + np.uint64(least)
            raw = numbers.astype(">u8").view(np.uint8).reshape(-1, WORD)[:, -len(columns) :]
            matrix[:, columns[0] : columns[-1] + 1] = raw
        return matrix.view(f"V{matrix.shape[1]}").reshape(len(matrix))


class InPlace:
    """Unmoved keys with the order that sorts them; slices are sorted keys."""

    def __init__(self, keys: Keys, order: Array) -> None:
        self._keys = keys
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, part: slice) -> Keys:
        return take(self._keys, self._order[part])


def in_order(parts: list[Keys]) -> Keys | Sorted | InPlace:
    """Returns all keys of the parts, sorted. If one word distinguishes them, only words are sorted,
    and keys are rebuilt on access."""
    parts = [part for part in parts if len(part)]
    if any(isinstance(part, list) for part in parts):
        return sorted(chain.from_iterable(map(as_bytes, parts)))
    keys = joined(parts)
    if isinstance(keys, list):
        return keys
    in_words = _in_words(_matrix(keys)) if isinstance(keys, np.ndarray) else None
    return InPlace(keys, positions(keys)) if in_words is None else in_words


def _in_words(matrix: Array) -> Sorted | None:
    """Returns keys of one width, sorted, or None if they differ in more than one word."""
    runs = _runs_of(_varying_columns(matrix))
    few = matrix[:_BLOCK_ROWS]
    if sum(_extent(_numbers(few, columns))[1] for columns in runs) > 8 * WORD:
        return None  # the first block usually shows it
    words, fields, shift = np.zeros(len(matrix), np.uint64), list[PackedNumber](), 0
    for columns in reversed(runs):
        numbers = _numbers(matrix, columns)
        least, bits = _extent(numbers)
        if shift + bits > 8 * WORD:
            return None
        numbers -= np.uint64(least)
        numbers <<= np.uint64(shift)
        words |= numbers
        fields.append(PackedNumber(columns, least, bits, shift))
        shift += bits
    words.sort()
    return Sorted(words, matrix[:1].copy(), fields)


def _extent(numbers: Array) -> tuple[int, int]:
    """Returns the least number, and the bits needed for the distance of the others."""
    least = int(numbers.min())
    return least, (int(numbers.max()) - least).bit_length()


def _runs_of(columns: list[int]) -> list[list[int]]:
    """Groups adjacent columns, each group at most a word wide."""
    runs: list[list[int]] = []
    for column in columns:
        if runs and runs[-1][-1] == column - 1 and len(runs[-1]) < WORD:
            runs[-1].append(column)
        else:
            runs.append([column])
    return runs


def positions(keys: Keys) -> Array:
    """Returns positions that sort the keys; equal keys keep their order. Shape (n,), int64."""
    if isinstance(keys, list):
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
    matrix = np.ascontiguousarray(_matrix(keys))
    columns = _varying_columns(matrix)
    if not columns:
        return np.arange(len(keys), dtype=np.int64)
    words = _word(matrix, columns[:WORD])
    order = np.argsort(words)
    words = words[order]
    # keys that no earlier word distinguishes: their positions in `order`, and the group of equal
    # keys of each
    alike = np.concatenate([[False], words[1:] == words[:-1]])
    open_ = np.flatnonzero(alike | np.append(alike[1:], False))
    group = np.cumsum(~alike)[open_]
    order[open_] = order[open_][np.lexsort((order[open_], group))]
    remaining = columns[WORD:]
    while remaining and len(open_):
        if len(open_) > len(keys) // 8 and len(remaining) > _FEW_WORDS * WORD:
            return positions(keys.tolist())
        words, remaining = _next_word(matrix, remaining, order[open_])
        together = group[1:] == group[:-1]
        if bool((together & (words[1:] < words[:-1])).any()):
            turned = np.lexsort((words, group))
            order[open_], words = order[open_][turned], words[turned]
        alike = np.concatenate([[False], together & (words[1:] == words[:-1])])
        group = np.cumsum(~alike)
        still = alike | np.append(alike[1:], False)
        open_, group = open_[still], group[still]
    return order


def _next_word(matrix: Array, columns: list[int], rows: Array) -> tuple[Array, list[int]]:
    """Returns words of the rows' bytes, from the first column on, that sort like the bytes, and the
    remaining columns. Adjacent bytes are read together even if they do not differ."""
    begin = min(columns[0], matrix.shape[1] - WORD)
    words = windows_of(matrix.reshape(-1), WORD)[rows * matrix.shape[1] + begin]
    rest = [column for column in columns if column >= begin + WORD]
    return words.view(">u8").astype(np.uint64), rest


def _varying_columns(matrix: Array) -> list[int]:
    """Returns the byte positions in which the rows differ. Compares eight rows at once."""
    if not matrix.size:
        return []
    first, differ = matrix[0], np.zeros(matrix.shape[1], np.uint8)
    eight = np.tile(first, WORD).view(np.uint64)
    for at in range(0, len(matrix), _BLOCK_ROWS):  # blocks that fit into the processor's cache
        block = matrix[at : at + _BLOCK_ROWS]
        end = len(block) - len(block) % WORD
        words = block[:end].reshape(-1, len(eight) * WORD).view(np.uint64)
        differing = np.bitwise_or.reduce(words ^ eight, axis=0).view(np.uint8)
        differ |= np.bitwise_or.reduce(differing.reshape(WORD, -1), axis=0)
        differ |= np.bitwise_or.reduce(block[end:] ^ first, axis=0)
    columns: list[int] = np.flatnonzero(differ).tolist()
    return columns


def _word(matrix: Array, columns: list[int], rows: Array | None = None) -> Array:
    """Returns the bytes at `columns`, of all rows or of some, as words that sort like the bytes."""
    padded = np.zeros((len(matrix) if rows is None else len(rows), WORD), dtype=np.uint8)
    for n, column in enumerate(columns):
        padded[:, n] = matrix[:, column] if rows is None else matrix[rows, column]
    return padded.view(">u8").reshape(len(padded)).astype(np.uint64)


def _numbers(matrix: Array, columns: list[int]) -> Array:
    """Returns up to eight bytes as big-endian numbers."""
    words = _word(matrix, columns)
    words >>= np.uint64(8 * (WORD - len(columns)))
    return words


def _matrix(keys: Keys) -> Array:
    """Returns the bytes of keys as a matrix. Shape (n, width), uint8."""
    if isinstance(keys, Padded):
        return keys.matrix
    assert isinstance(keys, np.ndarray), "a list of keys is no matrix"
    return keys.view(np.uint8).reshape(len(keys), keys.dtype.itemsize)


def repeats(keys: Keys) -> Array:
    """Returns positions n of sorted keys where keys[n] == keys[n - 1]. Shape (m,), int64."""
    if isinstance(keys, list):
        same = (n for n in range(1, len(keys)) if keys[n] == keys[n - 1])
        return np.fromiter(same, dtype=np.int64)
    matrix = _matrix(keys)
    return np.flatnonzero((matrix[1:] == matrix[:-1]).all(axis=1)) + 1


# -- entries of an index ---------------------------------------------------------------------------

CHUNK_ROWS = 10_000
LEAST_SPAN_ROWS = 100_000
_NARROW = 4
"""Factor for the rows of a span if entries are a few numbers and no text. Fewer runs rewrite fewer
pages of the index."""
REREAD_ROWS = 2_000  # rows that are read again if one of them has changed
NEAR_ROWS = 2_000  # rows that are processed within the processor's cache
Look = Callable[[row_batch.Columns], None]


class EntryParts:
    """A growing collection of one index's entries."""

    def __init__(self) -> None:
        self._keys = KeyParts()
        self._suffixes = KeyParts()

    def add(self, entries: "Entries") -> None:
        """Appends entries."""
        self._keys.add(entries.keys)
        if entries.suffixes is not None:
            self._suffixes.add(entries.suffixes)

    def keys(self) -> list[Keys]:
        """Returns all keys in order, and empties the collection."""
        return self._keys.drain()

    def suffixes(self) -> list[Keys]:
        """Returns the suffixes of all entries, in order. Empty for an index that is not unique."""
        return self._suffixes.drain()


class Entries(NamedTuple):
    """Some entries of one index. `handles` are set if the entries were made from rows."""

    keys: Keys
    suffixes: Keys | None
    handles: Keys | None = None


def fresh_snapshot(store: Store, table: Table) -> Snapshot:
    """Returns a snapshot that shows the table at the planned revision or later (law 1).

    Raises Unavailable for an older revision."""
    snapshot = store.snapshot(SnapshotUse.SPAN)
    raw = snapshot.get(k.revision(table.info.id))
    revision = 0 if raw is None else k.read_number(raw[snapshot.skip :])
    if revision >= table.revision:
        return snapshot
    snapshot.close()
    raise Unavailable(SNAPSHOT_BEHIND(revision, table.info.name.O, table.revision))


def runs_of(snapshot: Snapshot, span: Span) -> Iterator[RawRun]:
    """Yields the rows of a span as raw runs, without a Python object per row."""
    return (run for piece in snapshot.pieces(span) for run in piece() if len(run))


def positions_of(table: Table, indexes: Sequence[IndexInfo]) -> list[int]:
    """Returns positions (in info.cols) of the columns that the indexes' entries depend on."""
    ids = {part.exuvia_column for index in indexes for part in index.idx_cols}
    ids |= {term.exuvia_column for index in indexes for term in index.exuvia_predicate}
    return [n for n, column in enumerate(table.info.cols) if column.id in ids]


def is_narrow(table: Table, index_ids: Sequence[int]) -> bool:
    """Whether the indexes' entries are a few words each, entirely in the key."""
    forms = [form for form in table.forms if form.info.id in index_ids]
    families = {kind.family for form in forms for kind in form.types}
    plain = not any(form.unique or form.array is not None for form in forms)
    return plain and not table.info.is_common_handle and families <= NUMBERS


def run_rows(table: Table, index_ids: Sequence[int], rows: int) -> int:
    """Returns the rows of one run, given the setting for a span. Narrow entries allow more rows.
    Several indexes in one pass get fewer, which limits memory."""
    if rows >= LEAST_SPAN_ROWS and is_narrow(table, index_ids):
        rows *= _NARROW
    return max(min(rows, LEAST_SPAN_ROWS), rows // len(index_ids))


def of_rows(
    snapshot: Snapshot,
    table: Table,
    indexes: Sequence[IndexInfo],
    span: Span,
    look: Look | None = None,
) -> Iterator[tuple[int, list[Entries]]]:
    """Yields (number of rows, one Entries per index) with the entries that the rows of a span
    should have, piece by piece.

    `look` is called with the indexes' columns."""
    needed = positions_of(table, indexes)
    for piece in snapshot.pieces(span):
        for run in filter(len, piece()):
            columns = row_batch.decode(table, run, run, snapshot.skip, needed)
            if look is not None:
                look(columns)
            yield len(run), [of_columns(table, index, columns) for index in indexes]


def of_columns(table: Table, index: IndexInfo, columns: row_batch.Columns) -> Entries:
    """Returns the entries that rows, given as columns, should have in an index."""
    columns = held_by(table, index, columns)
    if not columns.rows:
        return Entries([], [] if index.is_unique else None, [])
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


def held_by(table: Table, index: IndexInfo, columns: row_batch.Columns) -> row_batch.Columns:
    """Returns the rows once for each entry in an index, with the handles that its entries contain.

    A partial index leaves rows out. A multi-valued index repeats a row for each element, which
    replaces the array. Same rules as `IndexForm.entries` for single rows."""
    form = table.form(index)
    if form.predicate is not None and columns.rows:
        is_indexed = held_rows(form.predicate, columns)
        if not is_indexed.all():
            columns = _select_rows(columns, np.flatnonzero(is_indexed))
    if form.array is not None and columns.rows:
        at, kind = form.positions[form.array], form.types[form.array]
        values, numbers = spread_elements(columns.column(at).to_list(), kind)
        rows = np.repeat(np.arange(columns.rows, dtype=np.int64), numbers)
        columns = _select_rows(columns, rows, {at: values})
    return _named_by(table, index, columns) if columns.rows else columns


_ROWS = 1_000
_MANY: dict[type, json.Decoder[Any]] = {
    element_type: json_decoder(list[list[element_type]])  # type: ignore[valid-type]
    for element_type in (int, float, str)
}


def spread_elements(arrays: Sequence[Any], kind: FieldType) -> tuple[Vector, Array]:
    """Like `multi_valued.elements` for many rows: returns all values concatenated, and the number
    of values of each row, shape (rows,), int64."""
    if None in arrays:
        element_lists = [elements(array, kind) for array in arrays]
        return vector_of(list(chain.from_iterable(element_lists)), kind), _lengths(element_lists)
    if KINDS.get(kind.family) is int:
        return _integers(arrays, kind)
    lists = []
    for at in range(0, len(arrays), _ROWS):  # few objects at once: a full collection visits all
        some = ",".join(arrays[at : at + _ROWS])
        lists += _MANY[KINDS.get(kind.family, str)].decode(f"[{some}]")
    flat = list(chain.from_iterable(lists))
    make = value_of(kind)
    return vector_of(flat if make is None else list(map(make, flat)), kind), _lengths(lists)


def _lengths(lists: Sequence[Sequence[Any]]) -> Array:
    return np.fromiter(map(len, lists), np.int64, len(lists))


def _integers(arrays: Sequence[str], kind: FieldType) -> tuple[Vector, Array]:
    """Like `spread_elements` for integers, without a Python object per element."""
    text = np.frombuffer(",".join(arrays).encode(), np.uint8)
    ends = np.flatnonzero(text == ord("]"))
    commas = np.cumsum(text == ord(","))[ends]
    numbers = np.diff(commas, prepend=-1)  # a comma precedes every array but the first
    is_empty = text[ends - 1] == ord("[")
    numbers[is_empty] = 0
    filled = [array for array in arrays if array != "[]"] if is_empty.any() else arrays
    digits = ",".join(filled).replace("[", "").replace("]", "")
    values = np.fromstring(digits, DTYPES[storage_of(kind).code], sep=",")
    return Vector(kind, values, None), numbers


def entries_per_row(table: Table, index: IndexInfo, columns: row_batch.Columns) -> Array | None:
    """Returns the number of entries of each row in an index, shape (rows,), int64; None if every
    row has one."""
    form = table.form(index)
    numbers: Array | None = None
    if form.array is not None:
        at, kind = form.positions[form.array], form.types[form.array]
        numbers = spread_elements(columns.column(at).to_list(), kind)[1]
    if form.predicate is not None:
        is_indexed = held_rows(form.predicate, columns).astype(np.int64)
        numbers = is_indexed if numbers is None else numbers * is_indexed
    return numbers


def _select_rows(
    columns: row_batch.Columns, at: Array, replaced: Mapping[int, Vector] | None = None
) -> row_batch.Columns:
    """Returns the rows at `at`, with some columns replaced, by position."""
    replacements = replaced or {}

    def column(_: row_batch.Columns, position: int) -> Vector:
        replacement = replacements.get(position)
        return columns.column(position).take(at) if replacement is None else replacement

    return row_batch.Columns(
        columns.fields,
        columns.names,
        columns.positions,
        take(columns.handles, at) if len(columns.handles) else columns.handles,
        column,
        len(at),
    )


def _named_by(table: Table, index: IndexInfo, columns: row_batch.Columns) -> row_batch.Columns:
    """Returns the rows with the handles that the index's entries contain; in a global index they
    begin with the partition's id."""
    part = table.form(index).part
    if not part:
        return columns
    inner = columns.handles
    if isinstance(inner, np.ndarray):
        width = inner.dtype.itemsize
        whole: Array = np.empty((len(inner), len(part) + width), np.uint8)
        whole[:, : len(part)] = np.frombuffer(part, np.uint8)
        whole[:, len(part) :] = inner.view(np.uint8).reshape(len(inner), width)
        handles: Keys = whole.view(f"V{len(part) + width}").reshape(len(inner))
    else:
        handles = [part + handle for handle in as_bytes(inner)]
    return row_batch.Columns(
        columns.fields,
        columns.names,
        columns.positions,
        handles,
        lambda _, position: columns.column(position),
        columns.rows,
        columns.padded,
    )


def of_index(snapshot: Snapshot, span: Span) -> Iterator[Entries]:
    """Yields the live entries of a span of an index, piece by piece."""
    for piece in snapshot.pieces(span):
        for run in filter(len, piece()):
            yield _live(run, snapshot.skip)


def _live(run: RawRun, skip: int) -> Entries:
    """Returns entries whose payload begins with LIVE; the rest of the payload is the suffix."""
    live = run.data[run.at + skip] == LIVE[0]
    if not live.all():
        run = run.take(live)
    if not len(run):
        return Entries([], None)
    start = skip + len(LIVE)
    widths = run.lengths - start
    keys = run.padded(run.key_at, run.key_lengths)
    return Entries(keys, run.cut(run.at + start, widths) if widths.any() else None)


def payloads(suffixes: Keys | None) -> bytes | list[bytes]:
    """Returns the payloads of entries: one for all, or a list."""
    if suffixes is None:
        return LIVE
    if not isinstance(suffixes, np.ndarray):
        return [LIVE + suffix for suffix in as_bytes(suffixes)]
    width = suffixes.dtype.itemsize
    whole: Array = np.zeros((len(suffixes), len(LIVE) + width), dtype=np.uint8)
    whole[:, : len(LIVE)] = np.frombuffer(LIVE, np.uint8)
    whole[:, len(LIVE) :] = suffixes.view(np.uint8).reshape(len(suffixes), width)
    return as_bytes(whole.view(f"V{len(LIVE) + width}").reshape(len(suffixes)))
