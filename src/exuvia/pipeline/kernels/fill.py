"""Backfill: index entries for the rows of one span, put as sorted runs, never over an existing key
(law 6).

    a fresh snapshot      must show the reorg's revision of the table (law 1)
      -> chunks of rows   only the columns the indexes need, as numpy columns
      -> keys             of all the order's indexes in one pass
      -> a run per index  sorted; repeated keys of a unique run are listed separately
    then, per run, batches of put-if-absent in key order, each requiring the reorg's epoch (law 2);
                        several batches share one disk sync (Store.bulk_chain)
      present keys        plain: skipped. unique: judged if another row's (pipeline/verify/judge.py)
    with the last batch   the row that marks the span as finished, unless duplicates were found
    with samples          `result` is also a Summary of the rows (pipeline/kernels/summary.py)

The kernel is a generator. Each `next` reads, or runs one chain of transactions, and yields a Batch.
Between two batches the caller may wait or stop. Rows may be outdated when their entries are
written; tombstones make that harmless.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from exuvia.base.errors import Conflict
from exuvia.base.limits import REORG_BATCH_ROWS
from exuvia.catalog.columns import Keys
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.packet import LIVE, Bulk, Requirement, Standing
from exuvia.kv.store import Store
from exuvia.pipeline import checkpoint
from exuvia.pipeline.checkpoint import TaskProgress
from exuvia.pipeline.kernels.entries import (
    EntryParts,
    InPlace,
    Sorted,
    as_bytes,
    fresh_snapshot,
    in_order,
    joined,
    of_rows,
    payloads,
    positions,
    repeats,
    take,
)
from exuvia.pipeline.kernels.summary import Summary, add_chunk, parts_of
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.task import DONE, DUPLICATES, MOST_DUPLICATES, FoundDuplicate, Outcome, Task
from exuvia.pipeline.throttle import Batch, BatchSize, Steps, throttled
from exuvia.pipeline.verify.judge import DuplicateJudge, DuplicateVerdict

RefusedKeys = list[tuple[bytes, bytes]]
CHAIN_ROWS = (1_024, 65_536)
"""Rows of the first chain, and the maximum. The time of the previous chains sets the size. The disk
reports the time after the write, so the first chain is short: clients wait for it, too."""
LOOK_S = 0.05
"""How often a reading task lets its driver check the clients' latency. It rests in small steps."""
_PROGRESS_ROWS = 2048
"""A batch records its task's progress after about this many rows."""
PIECE_ROWS = 4096
"""Keys that are converted to Python bytes at once. Freeing more returns pages to the system, and
each page costs a page fault to get back."""


@dataclass(frozen=True)
class Run:
    """One index's entries of one span in key order.

    `repeats`: (key, handle) of entries whose key occurred before."""

    index: IndexInfo
    keys: Keys | Sorted | InPlace
    suffixes: Keys | None
    repeats: RefusedKeys


def sorted_pairs(parts: EntryParts) -> tuple[Keys, Keys]:
    """Returns keys and suffixes of a unique index in key order. Empties `parts`."""
    keys = joined(parts.keys())
    order = positions(keys)
    return take(keys, order), take(joined(parts.suffixes()), order)


def sorted_run(index: IndexInfo, parts: EntryParts) -> Run:
    """Returns the entries of many chunks as one sorted run, each key once. Empties `parts`."""
    if not index.is_unique:
        return Run(index, in_order(parts.keys()), None, [])
    keys, suffixes = sorted_pairs(parts)
    again = repeats(keys)
    if not len(again):
        return Run(index, keys, suffixes, [])
    twice = list(zip(as_bytes(take(keys, again)), as_bytes(take(suffixes, again)), strict=True))
    once = np.delete(np.arange(len(keys)), again)
    return Run(index, take(keys, once), take(suffixes, once), twice)


class Fill:
    """The kernel for one task; `steps()` is the generator."""

    def __init__(
        self, store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        self._store = store
        self._task = task
        self._order = task.order
        self._required: list[Requirement] = [*task.order.fences]
        self._table: Table = task.order.table
        self._dial = dial
        self._monotonic = monotonic
        self._pace = BatchSize(CHAIN_ROWS[1], CHAIN_ROWS[0], near=store.near)
        self._rows = 0
        self._entries = 0
        self._written = 0
        self._placed = 0
        self._batches = 0
        self._finished = self._counted = False
        self._duplicates: list[FoundDuplicate] = []
        by_id = {index.id: index for index in self._table.info.indexes}
        # unique indexes first, so that a plain index's last batch can mark the span as finished
        self._indexes = sorted(
            (by_id[n] for n in self._order.index_ids), key=lambda index: not index.is_unique
        )
        self._parts = list(dict.fromkeys(parts_of(self._table, (), self._order.index_ids)))
        self._summary = Summary(len(self._parts), task.samples, task.span, task.limit)

    def steps(self) -> Steps:
        """Reads, then writes; returns the outcome. Raises Deposed when the epoch is lost."""
        parts = yield from self._read()
        runs = [sorted_run(index, part) for index, part in zip(self._indexes, parts, strict=True)]
        yield Batch(0, 0.0)
        return (yield from self.put(runs))

    def put(self, runs: list[Run], rows: int | None = None, among: bytes = b"") -> Steps:
        """Writes runs, unique ones first, and finishes the task; returns the outcome. `rows`:
        number of source rows if another kernel made the runs; that kernel counts them, and `among`
        names its commits."""
        if rows is not None:
            self._counts(rows, among)
        self._entries = sum(len(run.keys) for run in runs)
        for run in runs:
            finishing = run is runs[-1] and not run.index.is_unique
            yield from self._write(run, finishing)
            if len(self._duplicates) >= MOST_DUPLICATES:
                break
        return (yield from self._end())

    def _counts(self, rows: int, among: bytes) -> None:
        self._rows, self._counted = rows, True
        if among:
            self._required = [*self._required, Standing((), b"", "", 0, among)]

    def _end(self) -> Steps:
        """Marks the span as finished if no batch has done it; returns the outcome."""
        if not self._finished and not self._duplicates:
            began = self._monotonic()
            bulk = Bulk([], LIVE, self._required, self._checkpoint(0, 0, 1, True))
            self._store.bulk_chain([bulk], self._dial.read().batch_s)
            yield Batch(0, self._monotonic() - began)
        return Outcome(
            ordinal=self._task.ordinal,
            kind=DUPLICATES if self._duplicates else DONE,
            rows=self._rows,
            placed=self._placed,
            duplicates=tuple(self._duplicates),
            result=self._summary.encode() if self._task.samples else None,
        )

    def _read(self) -> Generator[Batch, None, list[EntryParts]]:
        """Returns the entries of the span's rows, by index."""
        indexes = self._indexes
        parts = [EntryParts() for _ in indexes]
        began = self._monotonic()
        look = partial(add_chunk, self._summary, self._parts) if self._task.samples else None
        with closing(fresh_snapshot(self._store, self._table)) as snapshot:
            for rows, chunk in of_rows(snapshot, self._table, indexes, self._task.span, look):
                self._rows += rows
                for part, entries in zip(parts, chunk, strict=True):
                    part.add(entries)
                spent_s = self._monotonic() - began
                if spent_s >= LOOK_S or self._dial.read().share < 1:
                    yield Batch(0, spent_s)
                    began = self._monotonic()
        return parts

    def _write(self, run: Run, finishing: bool) -> Iterator[Batch]:
        """Puts a run, then judges the present keys of a unique one."""
        start, present_keys = 0, list(run.repeats)
        while start < len(run.keys):
            try:
                refused, batch = self._chain(run, start, finishing)
            except Conflict:
                self._pace.refused()
                yield Batch(0, 0.0, 0.0)
                continue
            present_keys += refused
            start += batch.rows
            yield batch
        judge = DuplicateJudge(self._store, self._order, self._table, run.index)
        for key, handle in present_keys:
            if len(self._duplicates) >= MOST_DUPLICATES:
                return
            began = self._monotonic()
            verdict = judge.resolve(key, handle)
            if isinstance(verdict, FoundDuplicate):
                self._duplicates.append(verdict)
            self._placed += verdict is DuplicateVerdict.PLACED
            yield Batch(1, self._monotonic() - began)

    def _chain(self, run: Run, start: int, finishing: bool) -> tuple[RefusedKeys, Batch]:
        """Runs a chain of transactions with put-if-absent of a run's keys.

        The last transaction of a task records that its span is finished. Returns the keys of a
        unique index that other rows have, with the handles of the refused rows."""
        settings = self._dial.read()
        size = min(settings.batch_rows, self._pace.rows)
        end = min(start + self._pace.rows, len(run.keys))
        if settings.write_speed or settings.batch_rows < REORG_BATCH_ROWS[1]:
            end = min(end, start + size)  # the operator asked for small writes
        last = finishing and end == len(run.keys)
        bulks = self._bulks(run, start, end, size, last)
        first = next(bulks)  # prepared before the store's writer is acquired
        began = self._monotonic()
        results = self._store.bulk_chain(chain([first], bulks), settings.batch_s)
        seconds = self._monotonic() - began
        rows = min(end - start, len(results) * size)
        self._written, self._batches = self._written + rows, self._batches + len(results)
        self._finished = last and start + rows == end
        self._placed += sum(result.placed for result in results)
        self._pace.succeeded(rows, results[-1].written_s, settings.batch_s)
        batch = Batch(rows, seconds)
        if settings.write_speed:
            batch = throttled(batch, _bytes_of(first), settings, self._order.at_once)
        places = (
            (start + n * size + position, payload)
            for n, result in enumerate(results)
            for position, payload in result.present
        )
        return list(_keys_of_others(run, places)), batch

    def _bulks(self, run: Run, start: int, end: int, size: int, last: bool) -> Iterator[Bulk]:
        """Yields transactions of `size` keys each."""
        step = max(size, PIECE_ROWS - PIECE_ROWS % size)
        for piece in range(start, end, step):
            stop = min(piece + step, end)
            keys = as_bytes(run.keys[piece:stop])
            values = payloads(None if run.suffixes is None else run.suffixes[piece:stop])
            for at in range(0, len(keys), size):
                part = keys[at : at + size]
                payload = values if isinstance(values, bytes) else values[at : at + size]
                first, behind = piece + at, piece + at + len(part)
                puts = self._checkpoint(first - start, len(part), size, last and behind == end)
                yield Bulk(part, payload, self._required, puts, run.index.is_unique)

    def _checkpoint(self, at: int, number: int, size: int, last: bool) -> list[tuple[bytes, bytes]]:
        """Returns the checkpoint that a transaction writes. `at`: rows that its chain wrote before
        it, `size`: its own rows."""
        batch = self._batches + at // size + 1
        if at and not last and batch % max(1, _PROGRESS_ROWS // size):
            return []
        done = self._written + at + number
        whole = last or self._counted or not self._entries
        rows = self._rows if whole else done * self._rows // self._entries
        return checkpoint.pairs_of(self._task, TaskProgress(rows, self._rows, batch, number, last))


def _keys_of_others(run: Run, places: Iterable[tuple[int, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys of a unique run that other rows have, given the present payloads."""
    if run.suffixes is None:
        return
    for at, payload in places:
        ours = as_bytes(run.suffixes[at : at + 1])[0]
        if ours and LIVE + ours != payload:  # a handle, and not ours
            (key,) = as_bytes(run.keys[at : at + 1])
            yield key, ours


def _bytes_of(bulk: Bulk) -> int:
    if isinstance(bulk.payloads, bytes):
        return sum(map(len, bulk.keys)) + len(bulk.payloads) * len(bulk.keys)
    return sum(map(len, bulk.keys)) + sum(map(len, bulk.payloads))
