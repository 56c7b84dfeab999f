"""Files of sorted runs: written by map tasks of an exchange, read by key range by its put tasks.

    file     {run of the driver}-{task}-{attempt}, mode 0600; removed if its task fails
    run      sorted entries of one index, or rows of one table, from one span of the table
    column   values of one width, or of several widths followed by their ends. The prefix that all
             keys share is stored once

A run has random access, so a key range of it is found by bisection.
"""

import errno
import os
import uuid
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from itertools import pairwise
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec
import numpy as np

from exuvia.base import private_files
from exuvia.base.decoding import msgpack_decoder
from exuvia.base.errors import OutOfSpace, Unavailable
from exuvia.base.waits import DISK_RESERVE, SPILL_FAILED, SPILL_LOST, SPILL_RESERVE
from exuvia.catalog.columns import Array, Keys
from exuvia.kv.packet import Padded, Span
from exuvia.kv.store import Store
from exuvia.pipeline.kernels.entries import WORD, Entries, InPlace, Sorted, as_bytes
from exuvia.pipeline.kernels.fill import LOOK_S
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.task import Task
from exuvia.pipeline.throttle import Batch

Answer = TypeVar("Answer")
_PIECE_ROWS = 8192
_REPORT_S = 1.0


class SpilledColumn(msgspec.Struct, frozen=True, array_like=True):
    """Place of a run's keys or suffixes in its file.

    `width`: bytes of each value without the prefix, or 0 if they differ: then their ends are
    unsigned integers of `end_width` bytes at `ends_at`."""

    at: int
    width: int
    prefix: bytes = b""
    ends_at: int = 0
    end_width: int = 0


class SpilledRun(msgspec.Struct, frozen=True, array_like=True):
    """Sorted entries of one index, or rows (`index_id` 0), from one span of the table.

    `suffixes`: handles of a unique index, payloads of rows. `sources`, `stamps`: for copies, the
    keys of the source rows, and the stamps (uint64) that these must still have."""

    index_id: int
    file: str
    rows: int
    keys: SpilledColumn
    suffixes: SpilledColumn | None
    sources: SpilledColumn | None = None
    stamps: SpilledColumn | None = None


class Spilled(msgspec.Struct, frozen=True, array_like=True):
    """Result of a spill task. `size`: bytes of its file; `summary`: the encoded statistics of the
    rows, if requested."""

    file: str
    size: int
    runs: tuple[SpilledRun, ...]
    summary: bytes | None


decode_spilled = msgpack_decoder(Spilled).decode
decode_runs = msgpack_decoder(tuple[SpilledRun, ...]).decode


def _flat(keys: Keys, skip: int) -> tuple[bytes | memoryview, int, Array | None]:
    """Returns the bytes of keys without their first `skip` bytes, and their width, or 0 and their
    lengths if these may differ."""
    if isinstance(keys, Padded):
        lengths = keys.lengths - skip
        matrix = keys.matrix[:, skip:]
        return matrix[np.arange(matrix.shape[1]) < lengths[:, None]].data, 0, lengths
    if isinstance(keys, list):
        return b"".join(keys), 0, np.fromiter(map(len, keys), np.int64, len(keys)) - skip
    matrix = keys.view(np.uint8).reshape(len(keys), keys.dtype.itemsize)
    return np.ascontiguousarray(matrix[:, skip:]).data, matrix.shape[1] - skip, None


def _with_prefix(matrix: Array, prefix: bytes) -> Array:
    if not prefix:
        return matrix
    whole: Array = np.empty((len(matrix), len(prefix) + matrix.shape[1]), np.uint8)
    whole[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
    whole[:, len(prefix) :] = matrix
    return whole


def shared_prefix(keys: Keys | Sorted | InPlace, spans: list[tuple[int, int]]) -> bytes:
    """Returns the prefix of all keys, shorter than any of them."""
    piece = keys[spans[0][0] : spans[0][0] + 1]
    if isinstance(piece, list):
        return b""
    first, last = as_bytes(piece)[0], as_bytes(keys[spans[-1][1] - 1 : spans[-1][1]])[0]
    most = min(len(first), len(last)) - 1
    return first[: next((n for n in range(most) if first[n] != last[n]), most)]


def _pieces(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for start, end in spans:
        for at in range(start, end, _PIECE_ROWS):
            yield at, min(at + _PIECE_ROWS, end)


def write_column(
    file: BinaryIO, values: Keys | Sorted | InPlace, spans: list[tuple[int, int]], prefix: bytes
) -> Generator[None, None, SpilledColumn]:
    """Appends these values to the file, in steps. Returns their place."""
    at, width, lengths = file.tell(), 0, list[Array]()
    for start, end in _pieces(spans):
        data, width, differing = _flat(values[start:end], len(prefix))
        file.write(data)
        if differing is not None:
            lengths.append(differing)
        yield
    if not lengths:
        return SpilledColumn(at, width, prefix)
    ends_at = file.tell()
    end_width = 4 if ends_at - at < 1 << 32 else 8
    file.write(np.cumsum(np.concatenate(lengths)).astype(f"u{end_width}").data)
    return SpilledColumn(at, 0, prefix, ends_at, end_width)


def places_in(
    keys: Keys | Sorted | InPlace, ranges: Iterable[tuple[int, Span]], index_id: int
) -> list[tuple[int, int]]:
    """Returns where the sorted keys of an index are in those of the ranges that are the index's."""

    def below(key: bytes) -> int:
        return bisect_left(range(len(keys)), key, key=lambda n: as_bytes(keys[n : n + 1])[0])

    spans = (span for of, span in ranges if of == index_id)
    places = ((below(span.start), below(span.end)) for span in spans)
    return [(start, end) for start, end in places if start < end]


class RunReader:
    """Random access to a spilled run. Raises Unavailable if its file is missing or too short."""

    def __init__(self, folder: str, run: SpilledRun) -> None:
        self.run = run
        self.bytes_read = 0
        self._path = os.path.join(folder, run.file)
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise Unavailable(SPILL_LOST(self._path)) from error

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)

    def key(self, row: int) -> bytes:
        """Returns the key of an entry by its number."""
        return as_bytes(self._values(self.run.keys, row, row + 1))[0]

    def below(self, key: bytes) -> int:
        """Returns the number of entries whose keys are less than `key`."""
        return bisect_left(range(self.run.rows), key, key=self.key)

    def entries(self, start: int, end: int) -> Iterator[Entries]:
        """Yields the entries of these numbers, some thousand at a time."""
        suffixes = self.run.suffixes
        for at, stop in _pieces([(start, end)]):
            keys = self._values(self.run.keys, at, stop)
            of_keys = None if suffixes is None else self._values(suffixes, at, stop)
            yield Entries(keys, of_keys)

    def copies(self, start: int, end: int) -> Iterator[tuple[Entries, Keys, Array]]:
        """Like `entries`, with the keys and stamps of the source rows."""
        sources, stamps = self.run.sources, self.run.stamps
        assert sources is not None and stamps is not None
        pieces = _pieces([(start, end)])
        for entries, (at, stop) in zip(self.entries(start, end), pieces, strict=True):
            words = self._values(stamps, at, stop)
            assert isinstance(words, np.ndarray)
            yield entries, self._values(sources, at, stop), words.view("<u8")

    def _values(self, column: SpilledColumn, start: int, end: int) -> Keys:
        if column.width:
            raw = self._read(column.at + start * column.width, (end - start) * column.width)
            matrix = _with_prefix(raw.reshape(-1, column.width), column.prefix)
            return matrix.view(f"V{matrix.shape[1]}").reshape(-1)
        first = max(start - 1, 0)  # a value begins at the end of the previous one
        ends_at = column.ends_at + first * column.end_width
        raw = self._read(ends_at, (end - first) * column.end_width)
        ends = raw.view(f"u{column.end_width}").astype(np.int64)
        if not start:
            ends = np.concatenate([[0], ends])
        data = self._read(column.at + int(ends[0]), int(ends[-1] - ends[0]))
        ends -= ends[0]
        lengths = np.diff(ends)
        padded = Padded.if_wise(data, ends[:-1], lengths)
        if not len(data):
            padded = Padded(np.zeros((len(lengths), WORD), np.uint8), lengths)
        if padded is not None:
            matrix = _with_prefix(padded.matrix, column.prefix)
            return Padded(matrix, lengths + len(column.prefix))
        whole = data.tobytes()
        return [column.prefix + whole[at:stop] for at, stop in pairwise(ends.tolist())]

    def _read(self, at: int, size: int) -> Array:
        raw = os.pread(self._file, size, at)
        if len(raw) != size:
            raise Unavailable(SPILL_LOST(self._path))
        self.bytes_read += size
        return np.frombuffer(raw, np.uint8)


class Slice(NamedTuple):
    """Some entries of a spilled run, by their numbers."""

    reader: RunReader
    start: int
    end: int


def slices_of(readers: Iterable[RunReader], span: Span) -> list[Slice]:
    """Returns each run's entries of a key range; runs without any are omitted."""
    slices = (Slice(reader, reader.below(span.start), reader.below(span.end)) for reader in readers)
    return [part for part in slices if part.start < part.end]


# -- writing a file --------------------------------------------------------------------------------


def spilled_file(
    task: Task,
    write: Callable[[BinaryIO, str], Generator[Batch, None, list[SpilledRun]]],
    finish: Callable[[], None],
) -> Generator[Batch, None, Spilled]:
    """Writes a file of a task's own by `write`, which gets its name, then calls `finish`. The file
    is removed after an error. Raises Unavailable."""
    name = f"{task.order.run}-{task.ordinal}-{uuid.uuid4().hex[:12]}"
    path = os.path.join(task.folder, name)
    try:
        with open(path, "xb", opener=private_files.opener) as file:
            runs = yield from write(file, name)
            size = file.tell()
        finish()
    except BaseException as error:
        with suppress(OSError):
            os.unlink(path)
        if isinstance(error, OSError):
            raise unwritable(task.folder, error) from error
        raise
    return Spilled(name, size, tuple(runs), None)


def unwritable(folder: str, error: OSError) -> Unavailable:
    """Returns the reason to wait after a failed write in the folder."""
    text = SPILL_FAILED(folder, error.strerror or error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return OutOfSpace(text) if full else Unavailable(text)


def require_room(store: Store, dial: Dial, folder: str = "") -> None:
    """Raises OutOfSpace if the disk of the store or of spilled runs has less free space than reorgs
    must leave. A full disk would stop all clients."""
    least, free = dial.read().disk_free_min, store.free_bytes()
    if free is not None and free < least:
        raise OutOfSpace(DISK_RESERVE(free >> 20, least >> 20))
    if folder:
        disk = os.statvfs(folder)
        free = disk.f_bavail * disk.f_frsize
        if free < least:
            raise OutOfSpace(SPILL_RESERVE(folder, free >> 20, least >> 20))


def paced(
    steps: Generator[None, None, Answer], dial: Dial, monotonic: Callable[[], float]
) -> Generator[Batch, None, Answer]:
    """Runs steps that read or write files, and yields a Batch from time to time, like a backfill
    that reads rows."""
    began = monotonic()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        spent_s = monotonic() - began
        if spent_s >= LOOK_S or dial.read().share < 1:
            yield Batch(0, spent_s)
            began = monotonic()


def reporting(
    steps: Generator[Batch, None, Answer],
    report: Callable[[], None],
    monotonic: Callable[[], float],
) -> Generator[Batch, None, Answer]:
    """Passes steps on. Reports progress every second, which also checks the epoch."""
    reported = monotonic()
    with closing(steps):
        while True:
            try:
                batch = next(steps)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            yield batch
            if monotonic() - reported >= _REPORT_S:
                report()
                reported = monotonic()
