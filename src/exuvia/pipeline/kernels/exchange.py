"""Exchange of a backfill's entries by key range: each leaf of the index is written once.

    spill   a span of the table -> entries of each index, sorted -> one file       map tasks
            all spans are spilled                                                  barrier
            samples of the runs -> key ranges of about equal size                  driver
    merge   one key range of one index, from all files -> sorted -> put if absent  put tasks

Without it, each task writes its run over the whole key range of the index, and each run rewrites
every leaf. A backfill that fits in one run does not spill.

    folder    exuvia-spill-{job}-{epoch}-*, in the store's folder; its lock ends with the driver.
              The next exchange, and the next owner of schema changes, remove it
    file      {run of the driver}-{task}-{attempt}; only the file that a task's outcome names is
              merged. A span whose file is missing is read again
    range     a finished key range is a row of mysql.tidb_ddl_reorg with an element of its own
              (reorg.INDEX_RANGE). A new driver reads the table again, and keeps only entries of
              unfinished ranges. When all ranges are finished, the driver marks the table's span

A rewrite spills the entries of rows that it has committed (rewrite.py). A backfill follows it, and
reads the rows of lost files again.

A spill writes nothing to the index, so it may be late, lost or repeated. A merge puts entries like
any backfill, under its epoch (laws 2 and 6, tests/laws/test_law_6_entries_exchanged.py). One merge
writes at a time: two would take the store's only writer from each other after every few pages.
"""

import errno
import os
import uuid
import weakref
from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec
import numpy as np

from exuvia.base import private_files
from exuvia.base.decoding import msgpack_decoder
from exuvia.base.errors import OutOfSpace, Unavailable
from exuvia.base.limits import EXCHANGED_ROWS
from exuvia.base.waits import DISK_RESERVE, SPILL_FAILED, SPILL_LOST
from exuvia.catalog.columns import Array, Keys
from exuvia.catalog.model import IndexInfo
from exuvia.kv.packet import LIVE, Bulk, Padded, Span
from exuvia.pipeline import checkpoint
from exuvia.pipeline.checkpoint import SpanSet, TaskProgress
from exuvia.pipeline.kernels.entries import (
    WORD,
    Entries,
    EntryParts,
    InPlace,
    Sorted,
    as_bytes,
    in_order,
)
from exuvia.pipeline.kernels.fill import LOOK_S, Fill, Run, sorted_pairs, sorted_run
from exuvia.pipeline.reorg import INDEX_RANGE, SPILL_FOLDERS, ReorgElement
from exuvia.pipeline.task import DONE, MOST_DUPLICATES, Outcome, Task, TaskOrder
from exuvia.pipeline.throttle import Batch, Slot, Steps

Answer = TypeVar("Answer")
LEAST_ROWS = EXCHANGED_ROWS
_PIECE_ROWS = 8192
_SAMPLES = 64
"""Samples of a range's size from each run. Ranges differ in size by about a tenth of a sample."""
_REPORT_S = 1.0
_TURN_POLL_S = 0.005


# -- spilled runs ----------------------------------------------------------------------------------
#
# A column of a file has values of one width, or of several widths followed by their ends. The
# prefix that all keys share is stored once. Sorted keys share the prefix of the first and the last.


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
    """Sorted entries of one index from one span of the table."""

    index_id: int
    file: str
    rows: int
    keys: SpilledColumn
    suffixes: SpilledColumn | None


class Spilled(msgspec.Struct, frozen=True, array_like=True):
    """Result of a spill task. `size`: bytes of its file; `summary`: the encoded statistics of the
    rows, if requested."""

    file: str
    size: int
    runs: tuple[SpilledRun, ...]
    summary: bytes | None


_decode_spilled = msgpack_decoder(Spilled).decode
_decode_runs = msgpack_decoder(tuple[SpilledRun, ...]).decode


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


def _in_order(index: IndexInfo, parts: EntryParts) -> tuple[Keys | Sorted | InPlace, Keys | None]:
    """Returns sorted keys, each as often as it occurs, and the suffixes of a unique index."""
    return sorted_pairs(parts) if index.is_unique else (in_order(parts.keys()), None)


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


class RunReader:
    """Random access to a spilled run. Raises Unavailable if its file is missing or too short."""

    def __init__(self, folder: str, run: SpilledRun) -> None:
        self.run = run
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
        return np.frombuffer(raw, np.uint8)


# -- map tasks -------------------------------------------------------------------------------------


class _Paced(Fill):
    """A backfill whose steps read or write files."""

    def _paced(self, steps: Generator[None, None, Answer]) -> Generator[Batch, None, Answer]:
        """Runs steps, and yields a Batch from time to time, like a backfill that reads rows."""
        began = self._monotonic()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            spent_s = self._monotonic() - began
            if spent_s >= LOOK_S or self._dial.read().share < 1:
                yield Batch(0, spent_s)
                began = self._monotonic()


class Spill(_Paced):
    """Reads a span and writes its entries to a file, sorted. Nothing is put into the index."""

    def steps(self) -> Steps:
        """Returns the outcome; its result is a `Spilled`. Raises Deposed when the epoch is lost."""
        parts = yield from self._reporting(self._read())
        yield Batch(0, 0.0)
        return (yield from self._keep(parts))

    def keep(self, parts: list[EntryParts], rows: int, among: bytes) -> Steps:
        """Like `steps` for entries of committed rows, by index; then marks the span as finished.
        `rows`, `among`: as in `Fill.put`."""
        self._counts(rows, among)
        outcome = yield from self._keep(parts)
        yield from self._end()
        return outcome

    def _keep(self, parts: list[EntryParts]) -> Steps:
        task = self._task
        name = f"{task.order.run}-{task.ordinal}-{uuid.uuid4().hex[:12]}"
        path = os.path.join(task.folder, name)
        try:
            runs, size = yield from self._reporting(self._spill(path, name, parts))
            self._report(finished=True)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(path)
            if isinstance(error, OSError):
                raise _unavailable(path, error) from error
            raise
        summary = self._summary.encode() if task.samples else None
        result = msgspec.msgpack.encode(Spilled(name, size, tuple(runs), summary))
        return Outcome(ordinal=task.ordinal, kind=DONE, rows=self._rows, result=result)

    def _spill(
        self, path: str, name: str, parts: list[EntryParts]
    ) -> Generator[Batch, None, tuple[list[SpilledRun], int]]:
        """Writes the file. Returns its runs and its size."""
        runs = []
        with open(path, "xb", opener=private_files.opener) as file:
            for index, part in zip(self._indexes, parts, strict=True):
                began = self._monotonic()
                keys, suffixes = _in_order(index, part)
                spans = self._unfinished(keys)
                yield Batch(0, self._monotonic() - began)
                if not spans:
                    continue
                self._require_room()
                prefix = shared_prefix(keys, spans)
                steps = write_column(file, keys, spans, prefix)
                of_keys = yield from self._paced(steps)
                of_suffixes = None
                if suffixes is not None:
                    steps = write_column(file, suffixes, spans, b"")
                    of_suffixes = yield from self._paced(steps)
                rows = sum(end - start for start, end in spans)
                runs.append(SpilledRun(index.id, name, rows, of_keys, of_suffixes))
            return runs, file.tell()

    def _unfinished(self, keys: Keys | Sorted | InPlace) -> list[tuple[int, int]]:
        """Returns where the entries of unfinished key ranges are in a sorted run."""

        def below(key: bytes) -> int:
            return bisect_left(range(len(keys)), key, key=lambda n: as_bytes(keys[n : n + 1])[0])

        places = ((below(span.start), below(span.end)) for span in self._task.ranges)
        return [(start, end) for start, end in places if start < end]

    def _require_room(self) -> None:
        """Raises OutOfSpace if reorgs must leave the rest of the disk free."""
        least, free = self._dial.read().disk_free_min, self._store.free_bytes()
        if free is not None and free < least:
            raise OutOfSpace(DISK_RESERVE(free >> 20, least >> 20))

    def _reporting(self, steps: Generator[Batch, None, Answer]) -> Generator[Batch, None, Answer]:
        """Passes steps on. Reports progress every second, which also checks the epoch."""
        reported = self._monotonic()
        with closing(steps):
            while True:
                try:
                    batch = next(steps)
                except StopIteration as end:
                    answer: Answer = end.value
                    return answer
                yield batch
                if self._monotonic() - reported >= _REPORT_S:
                    self._report()
                    reported = self._monotonic()

    def _report(self, finished: bool = False) -> None:
        """Stores the progress. A row counts half when it is read, half when it is written, but
        whole if another kernel counts it."""
        rows = self._rows if self._counted else self._rows // 2
        progress = TaskProgress(rows, self._rows, 1, 0, finished)
        puts = [checkpoint.progress_pair(self._task, progress)]
        self._store.bulk_chain([Bulk([], LIVE, self._required, puts)], self._dial.read().batch_s)


def _unavailable(path: str, error: OSError) -> Unavailable:
    text = SPILL_FAILED(os.path.dirname(path), error.strerror or error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return OutOfSpace(text) if full else Unavailable(text)


# -- put tasks -------------------------------------------------------------------------------------


class Slice(NamedTuple):
    """Some entries of a spilled run, by their numbers."""

    reader: RunReader
    start: int
    end: int


def slices_of(readers: Iterable[RunReader], span: Span) -> list[Slice]:
    """Returns each run's entries of a key range; runs without any are omitted."""
    slices = (Slice(reader, reader.below(span.start), reader.below(span.end)) for reader in readers)
    return [part for part in slices if part.start < part.end]


class Merge(_Paced):
    """Puts the entries of one key range of one index from all spilled runs."""

    def steps(self) -> Steps:
        """Returns the outcome. Raises Deposed when the epoch is lost."""
        task, order = self._task, self._order
        index = next(index for index in self._table.info.indexes if index.id == task.index_id)
        self._turn = Slot(self._store, order, 0, f"put/{order.job_id}/{order.run}")
        with ExitStack() as stack:
            stack.callback(self._turn.release)
            runs = [run for run in _decode_runs(task.spilled) if run.index_id == index.id]
            readers = [stack.enter_context(closing(RunReader(task.folder, run))) for run in runs]
            slices = slices_of(readers, task.span)
            self._rows, self._entries = task.rows, sum(part.end - part.start for part in slices)
            for few in _groups(index, slices, task.most_rows):
                run = yield from self._paced(merged_run(index, few))
                yield from self._write(run, finishing=not index.is_unique)
                if len(self._duplicates) >= MOST_DUPLICATES:
                    break
            return (yield from self._end())

    def _write(self, run: Run, finishing: bool) -> Iterator[Batch]:
        """Puts a run like any backfill, but not at the same time as other merges. It never rests
        with the turn, because others with a worker slot may wait for it."""
        steps = super()._write(run, finishing)
        while True:
            while not self._turn.acquire(1):
                yield Batch(0, 0.0, _TURN_POLL_S)
            try:
                batch = next(steps)
            except StopIteration:
                return
            finally:
                self._turn.release()
            yield batch


def merged_run(index: IndexInfo, slices: list[Slice]) -> Generator[None, None, Run]:
    """Reads entries of several runs, in steps. Returns them as one run."""
    parts = EntryParts()
    for reader, start, end in slices:
        for entries in reader.entries(start, end):
            parts.add(entries)
            yield
    run = sorted_run(index, parts)
    yield
    return run


def _groups(index: IndexInfo, slices: list[Slice], most: int) -> Iterator[list[Slice]]:
    """Yields the slices in groups that fit in memory. A range of a plain index is one group,
    because its keys differ. No bound separates equal keys of a unique index. A key that an earlier
    group has put is judged when it is put again."""
    group, size = list[Slice](), 0
    for part in slices:
        if group and index.is_unique and size + part.end - part.start > 2 * most:
            yield group
            group, size = [], 0
        group.append(part)
        size += part.end - part.start
    if group:
        yield group


# -- the driver ------------------------------------------------------------------------------------


def range_element(index_id: int) -> ReorgElement:
    """Returns the element that finished key ranges of an index are stored under."""
    return ReorgElement(INDEX_RANGE, (index_id,))


class EntryRange(NamedTuple):
    """A key range of one index. `rows`: approximate number of its spilled entries."""

    index_id: int
    span: Span
    rows: int


def ranges_of(
    readers: Sequence[RunReader], index_id: int, span: Span, most: int, at_once: int
) -> list[EntryRange]:
    """Cuts a key range of an index into adjacent ranges of at most about `most` spilled entries
    each. The number of ranges is a multiple of `at_once` unless they would be small."""
    step = max(1, most // _SAMPLES)
    samples: list[tuple[bytes, int]] = []
    for reader, start, end in slices_of(readers, span):
        last = [end - 1] if (end - start) % step else []
        numbers = [*range(start + step - 1, end, step), *last]
        samples += [(reader.key(n), n - before) for before, n in pairwise([start - 1, *numbers])]
    samples.sort()
    total = sum(weight for _, weight in samples)
    parts = -(-total // most)
    if total >= LEAST_ROWS:
        parts = -(-max(parts, at_once) // at_once) * at_once
    bounds, below, cuts = [span.start], 0, list[int]()
    for key, weight in samples:
        below += weight
        if len(bounds) < parts and key > bounds[-1] and below * parts >= total * len(bounds):
            bounds.append(key)
            cuts.append(below)
    counts = (end - start for start, end in pairwise([0, *cuts, total]))
    spans = (Span(start, end) for start, end in pairwise([*bounds, span.end]))
    return [EntryRange(index_id, *pair) for pair in zip(spans, counts, strict=True)]


class Exchange:
    """The spilled runs of one physical table for one set of indexes, in a folder of this
    process."""

    def __init__(self, folder: str, order: TaskOrder) -> None:
        self._subject = order.table_id, order.index_ids
        private_files.remove_leftovers(SPILL_FOLDERS, folder)
        name = f"{SPILL_FOLDERS}{order.job_id}-{order.epoch}-"
        scratch = private_files.scratch_folder(name, os.path.abspath(folder))
        self.folder = scratch.path
        self._spilled: list[tuple[Span, int, Spilled]] = []  # with the number of rows
        self.close = weakref.finalize(self, scratch.close)

    def serves(self, order: TaskOrder) -> bool:
        """Whether its runs are of the order's table and indexes, and its folder still exists."""
        return self._subject == (order.table_id, order.index_ids) and os.path.isdir(self.folder)

    @property
    def rows(self) -> int:
        """Rows of the spilled spans."""
        return sum(rows for _, rows, _ in self._spilled)

    @property
    def runs(self) -> tuple[SpilledRun, ...]:
        """All spilled runs."""
        return tuple(run for _, _, spilled in self._spilled for run in spilled.runs)

    def unread(self, spans: Iterable[Span]) -> list[Span]:
        """Returns the parts of spans of the table that are not spilled. Drops lost files."""
        self._spilled = [one for one in self._spilled if self._is_complete(one[2])]
        present = SpanSet(span for span, _, _ in self._spilled)
        return [gap for span in spans for gap in present.missing(span)]

    def _is_complete(self, spilled: Spilled) -> bool:
        try:
            return os.stat(os.path.join(self.folder, spilled.file)).st_size == spilled.size
        except OSError:
            return False

    def keeping(self, tasks: Iterable[Task]) -> list[Task]:
        """Returns tasks of a rewrite that spill the entries of their rows."""
        spilling = []
        for task in tasks:
            table, indexes = task.order.table, task.order.info.indexes
            ranges = tuple(table.index_span(i) for i in indexes if i.id in task.order.index_ids)
            spilling.append(msgspec.structs.replace(task, folder=self.folder, ranges=ranges))
        return spilling

    def spills(self, order: TaskOrder, spans: Iterable[Span], ranges: Iterable[Span]) -> list[Task]:
        """Returns the map tasks for spans of the table. `ranges`: unfinished key ranges."""
        ranges = tuple(ranges)
        return [
            Task(kind="spill", order=order, span=s, ordinal=n, folder=self.folder, ranges=ranges)
            for n, s in enumerate(spans)
        ]

    def take(self, tasks: Sequence[Task], outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Adds the files of finished map tasks, and removes all others. Returns the outcomes with
        the summaries of their rows as results."""
        plain = []
        for outcome in outcomes:
            if outcome.kind == DONE and isinstance(outcome.result, bytes):
                spilled = _decode_spilled(outcome.result)
                self._spilled.append((tasks[outcome.ordinal].span, outcome.rows, spilled))
                outcome = msgspec.structs.replace(outcome, result=spilled.summary)
            plain.append(outcome)
        named = {spilled.file for _, _, spilled in self._spilled}
        with suppress(OSError):
            for name in set(os.listdir(self.folder)) - named:
                Path(self.folder, name).unlink(missing_ok=True)
        return plain

    def merges(
        self, order: TaskOrder, missing: Iterable[tuple[int, Span]], most: int, rows: int
    ) -> list[Task]:
        """Returns the put tasks for missing key ranges (index id, span). `most`: entries of a
        task; `rows`: rows of the table that all tasks together count as. Raises Unavailable if a
        file is lost."""
        runs = self.runs
        ranges: list[EntryRange] = []
        for index_id, span in missing:
            with ExitStack() as stack:
                readers = [
                    stack.enter_context(closing(RunReader(self.folder, run)))
                    for run in runs
                    if run.index_id == index_id
                ]
                ranges += ranges_of(readers, index_id, span, most, order.at_once)
        spilled = msgspec.msgpack.encode(runs)
        total = max(1, sum(part.rows for part in ranges))
        tasks, before = list[Task](), 0
        for ordinal, part in enumerate(ranges):
            done = rows * (before + part.rows) // total
            tasks.append(
                Task(
                    kind="merge",
                    order=msgspec.structs.replace(
                        order, element=range_element(part.index_id), at_once=1
                    ),
                    span=part.span,
                    ordinal=ordinal,
                    index_id=part.index_id,
                    folder=self.folder,
                    spilled=spilled,
                    rows=done - rows * before // total,
                    most_rows=most,
                )
            )
            before += part.rows
        return tasks
