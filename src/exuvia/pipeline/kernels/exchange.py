"""Exchange of a backfill's entries by key range: each leaf of the index is written once.

    spill   a span of the table -> entries of each index, sorted -> one file       map tasks
            all spans are spilled                                                  barrier
            samples of the runs -> key ranges of about equal size                  driver
    merge   one key range of one index, from all files -> sorted -> put if absent  put tasks

Without it, each task writes its run over the whole key range of the index, and each run rewrites
every leaf. A backfill that fits in one run does not spill.

    folder    exuvia-spill-{job}-{epoch}-*, in the store's folder or exuvia_spill_folder; its lock
              ends with the driver. The next exchange, or the next owner of schema changes, removes
              it
    file      {run of the driver}-{task}-{attempt}; only the file that a task's outcome names is
              merged. A span whose file is missing is read again
    range     a finished key range is a row of mysql.tidb_ddl_reorg with an element of its own
              (reorg.RANGE). A new driver reads the table again, and keeps only entries of
              unfinished ranges. When all ranges are finished, the driver marks the table's span

A move of rows to other partitions or handles spills copies, with the stamps of their source rows
(move.py). Its rows are put first, and a put requires that the source row is unchanged.

A rewrite spills the entries of rows that it has committed (rewrite.py). A backfill follows it, and
reads the rows of lost files again.

A spill writes nothing to the index, so it may be late, lost or repeated. A merge puts entries like
any backfill, under its epoch (laws 2 and 6, tests/laws/test_law_6_entries_exchanged.py). One merge
writes at a time: two would take the store's only writer from each other after every few pages.
"""

import os
import weakref
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from exuvia.base import private_files
from exuvia.base.limits import EXCHANGED_ROWS
from exuvia.catalog.columns import Keys
from exuvia.catalog.model import IndexInfo
from exuvia.kv.packet import LIVE, Bulk, Span
from exuvia.kv.store import Store
from exuvia.pipeline import checkpoint
from exuvia.pipeline.checkpoint import SpanSet, TaskProgress
from exuvia.pipeline.kernels.entries import EntryParts, InPlace, Sorted, in_order
from exuvia.pipeline.kernels.fill import Fill, Run, sorted_pairs, sorted_run
from exuvia.pipeline.kernels.spilled_runs import (
    RunReader,
    Slice,
    Spilled,
    SpilledRun,
    decode_runs,
    decode_spilled,
    paced,
    places_in,
    reporting,
    require_room,
    shared_prefix,
    slices_of,
    spilled_file,
    unwritable,
    write_column,
)
from exuvia.pipeline.reorg import RANGE, SPILL_FOLDERS, ReorgElement
from exuvia.pipeline.task import DONE, MOST_DUPLICATES, Outcome, Task, TaskCost, TaskOrder
from exuvia.pipeline.throttle import Batch, Slot, Steps

LEAST_ROWS = EXCHANGED_ROWS
_SAMPLES = 64
"""Samples of a range's size from each run. Ranges differ in size by about a tenth of a sample."""
_TURN_POLL_S = 0.005


# -- map tasks -------------------------------------------------------------------------------------


def _in_order(index: IndexInfo, parts: EntryParts) -> tuple[Keys | Sorted | InPlace, Keys | None]:
    """Returns sorted keys, each as often as it occurs, and the suffixes of a unique index."""
    return sorted_pairs(parts) if index.is_unique else (in_order(parts.keys()), None)


class Spill(Fill):
    """Reads a span and writes its entries to a file, sorted. Nothing is put into the index."""

    def steps(self) -> Steps:
        """Returns the outcome; its result is a `Spilled`. Raises Deposed when the epoch is lost."""
        parts = yield from reporting(self._read(), self._report, self._monotonic)
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
        finish = partial(self._report, finished=True)
        steps = spilled_file(task, partial(self._written_runs, parts), finish)
        spilled = yield from reporting(steps, self._report, self._monotonic)
        summary = self._summary.encode() if task.samples else None
        result = msgspec.msgpack.encode(msgspec.structs.replace(spilled, summary=summary))
        cost = TaskCost(spilled=spilled.size)
        return Outcome(ordinal=task.ordinal, kind=DONE, rows=self._rows, result=result, cost=cost)

    def _written_runs(
        self, parts: list[EntryParts], file: BinaryIO, name: str
    ) -> Generator[Batch, None, list[SpilledRun]]:
        """Writes the runs to a file."""
        runs = []
        pace = partial(paced, dial=self._dial, monotonic=self._monotonic)
        for index, part in zip(self._indexes, parts, strict=True):
            began = self._monotonic()
            keys, suffixes = _in_order(index, part)
            spans = places_in(keys, self._task.ranges, index.id)
            yield Batch(0, self._monotonic() - began)
            if not spans:
                continue
            require_room(self._store, self._dial, self._task.folder)
            prefix = shared_prefix(keys, spans)
            of_keys = yield from pace(write_column(file, keys, spans, prefix))
            of_suffixes = None
            if suffixes is not None:
                of_suffixes = yield from pace(write_column(file, suffixes, spans, b""))
            rows = sum(end - start for start, end in spans)
            runs.append(SpilledRun(index.id, name, rows, of_keys, of_suffixes))
        return runs

    def _report(self, finished: bool = False) -> None:
        """Stores the progress. A row counts half when it is read, half when it is written, but
        whole if another kernel counts it."""
        rows = self._rows if self._counted else self._rows // 2
        progress = TaskProgress(rows, self._rows, 1, 0, finished)
        puts = [checkpoint.progress_pair(self._task, progress)]
        self._store.bulk_chain([Bulk([], LIVE, self._required, puts)], self._dial.read().batch_s)


# -- put tasks -------------------------------------------------------------------------------------


class Merge(Fill):
    """Puts the entries of one key range of one index from all spilled runs."""

    def steps(self) -> Steps:
        """Returns the outcome. Raises Deposed when the epoch is lost."""
        task, order = self._task, self._order
        index = next(index for index in self._table.info.indexes if index.id == task.index_id)
        self._turn = turn_of(self._store, order)
        with ExitStack() as stack:
            stack.callback(self._turn.release)
            runs = [run for run in decode_runs(task.spilled) if run.index_id == index.id]
            readers = [stack.enter_context(closing(RunReader(task.folder, run))) for run in runs]
            slices = slices_of(readers, task.span)
            self._rows, self._entries = task.rows, sum(part.end - part.start for part in slices)
            for few in _groups(index, slices, task.most_rows):
                run = yield from paced(merged_run(index, few), self._dial, self._monotonic)
                yield from self._write(run, finishing=not index.is_unique)
                if len(self._duplicates) >= MOST_DUPLICATES:
                    break
            outcome = yield from self._end()
            cost = TaskCost(read=sum(reader.bytes_read for reader in readers))
            return msgspec.structs.replace(outcome, cost=cost)

    def _write(self, run: Run, finishing: bool) -> Iterator[Batch]:
        """Puts a run like any backfill, but not at the same time as other merges."""
        return in_turn(self._turn, super()._write(run, finishing))


def turn_of(store: Store, order: TaskOrder) -> Slot:
    """Returns the turn that put tasks of one driver take."""
    return Slot(store, order, 0, f"put/{order.job_id}/{order.run}")


def in_turn(turn: Slot, steps: Iterator[Batch]) -> Iterator[Batch]:
    """Runs each step while it has the turn. Never rests with it, because others that have a worker
    slot may wait for it."""
    while True:
        while not turn.acquire(1):
            yield Batch(0, 0.0, _TURN_POLL_S)
        try:
            batch = next(steps)
        except StopIteration:
            return
        finally:
            turn.release()
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


def range_element(order: TaskOrder, index_id: int) -> ReorgElement:
    """Returns the element that finished key ranges of an index, or of rows (0), are stored
    under."""
    return ReorgElement(f"{order.remembered_as.type}{RANGE}", (index_id,))


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
    """The spilled runs of one physical table for one set of indexes, in a folder of this process.

    Raises Unavailable if the folder cannot be made."""

    def __init__(self, folder: str, order: TaskOrder) -> None:
        self._subject = order.table_id, order.index_ids
        private_files.remove_leftovers(SPILL_FOLDERS, folder)
        name = f"{SPILL_FOLDERS}{order.job_id}-{order.epoch}-"
        try:
            scratch = private_files.scratch_folder(name, os.path.abspath(folder))
        except OSError as error:
            raise unwritable(folder, error) from error
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
            ranges = tuple(
                (index.id, table.index_span(index))
                for index in indexes
                if index.id in task.order.index_ids
            )
            spilling.append(msgspec.structs.replace(task, folder=self.folder, ranges=ranges))
        return spilling

    def spills(
        self,
        order: TaskOrder,
        spans: Iterable[Span],
        ranges: Iterable[tuple[int, Span]],
        kernel: str = "spill",
        first: int = 0,
    ) -> list[Task]:
        """Returns the map tasks for spans of the table. `ranges`: unfinished key ranges with the
        ids of their indexes. `first`: the number of earlier tasks of the wave."""
        ranges = tuple(ranges)
        return [
            Task(kind=kernel, order=order, span=s, ordinal=n, folder=self.folder, ranges=ranges)
            for n, s in enumerate(spans, first)
        ]

    def take(self, tasks: Sequence[Task], outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Adds the files of finished map tasks, and removes all others. Returns the outcomes with
        the summaries of their rows as results."""
        plain = []
        for outcome in outcomes:
            if outcome.kind == DONE and isinstance(outcome.result, bytes):
                spilled = decode_spilled(outcome.result)
                self._spilled.append((tasks[outcome.ordinal].span, outcome.rows, spilled))
                outcome = msgspec.structs.replace(outcome, result=spilled.summary)
            plain.append(outcome)
        named = {spilled.file for _, _, spilled in self._spilled}
        with suppress(OSError):
            for name in set(os.listdir(self.folder)) - named:
                Path(self.folder, name).unlink(missing_ok=True)
        return plain

    def merges(
        self,
        order: TaskOrder,
        missing: Iterable[tuple[int, Span]],
        most: int,
        rows: int,
        kernel: str = "merge",
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
                    kind=kernel,
                    order=msgspec.structs.replace(
                        order, element=range_element(order, part.index_id), at_once=1
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
