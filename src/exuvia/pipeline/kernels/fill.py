"""The fill: index entries for the rows of one span, as sorted runs, never over anything that
stands (law 6).

    a fresh snapshot      must show the reorg's revision of the table (law 1)
      -> chunks of rows   only the columns the indexes need, as numpy columns
      -> keys             of all the order's indexes in one pass
      -> a run per index  sorted; a key that a unique run has twice is kept aside
    then, per run, batches of put-if-absent in key order, each requiring the reorg's epoch (law 2);
                        several wait for the disk together (Store.bulk_chain)
      taken keys          plain: skipped. unique: not ours? judged (pipeline/verify/judge.py)
    with the last batch   the row that says "finished", unless duplicates were found
    where samples are asked for, `result` is a Summary of the rows too (pipeline/kernels/summary.py)

It is a generator: each `next` reads, or does one chain of transactions, and yields a Batch; between
two of them the one who steps it may wait, stop, or never come back. What it read may be old by the
time it writes; the tombstones make that harmless.
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
from exuvia.pipeline.throttle import Batch, BatchSize, Steps, held_back
from exuvia.pipeline.verify.judge import DuplicateJudge, DuplicateVerdict

Taken = list[tuple[bytes, bytes]]
CHAIN_ROWS = (1_024, 65_536)
"""Rows of the first chain, and the maximum. The time of the previous chains sets the size. The disk
reports the time after the write, so the first chain is short: clients wait for it, too."""
_LOOK_S = 0.05
"""How often a reading task lets its driver check the clients' latency. It rests in small steps."""
_TOLD_ROWS = 2048
"""A batch says how far its task is where about so many rows were not told."""
PIECE_ROWS = 4096
"""Keys that are converted to Python's bytes at once. Freeing more returns pages to the system, and
each page costs a fault to get back."""


@dataclass(frozen=True)
class Run:
    """One index's entries of one span in key order.

    `repeats`: (key, handle) that came a second time."""

    index: IndexInfo
    keys: Keys | Sorted | InPlace
    suffixes: Keys | None
    repeats: Taken


def sorted_run(index: IndexInfo, parts: EntryParts) -> Run:
    """The entries of many chunks as one sorted run, each key once. Empties `parts`."""
    if not index.is_unique:
        return Run(index, in_order(parts.keys()), None, [])
    keys = joined(parts.keys())
    order = positions(keys)
    keys = take(keys, order)
    suffixes = take(joined(parts.suffixes()), order)
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
        self._parts = list(dict.fromkeys(parts_of(self._table, (), self._order.index_ids)))
        self._summary = Summary(len(self._parts), task.samples, task.span, task.limit)

    def steps(self) -> Steps:
        """Read, then write; returns the outcome. Raises Deposed when the epoch is lost."""
        runs = yield from self._read()
        yield Batch(0, 0.0)
        return (yield from self.put(runs))

    def put(self, runs: list[Run], rows: int | None = None, among: bytes = b"") -> Steps:
        """Write runs, unique ones first, and finish the task; returns the outcome. `rows`: of which
        they were made by another kernel, which has counted them already and names its commits."""
        if rows is not None:
            self._rows, self._counted = rows, True
        if among:
            self._required = [*self._required, Standing((), b"", "", 0, among)]
        self._entries = sum(len(run.keys) for run in runs)
        for run in runs:
            finishing = run is runs[-1] and not run.index.is_unique
            yield from self._write(run, finishing)
            if len(self._duplicates) >= MOST_DUPLICATES:
                break
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

    def _read(self) -> Generator[Batch, None, list[Run]]:
        """The span's runs, unique indexes first, so that a plain one's last batch can say
        "finished"."""
        by_id = {index.id: index for index in self._table.info.indexes}
        indexes = sorted(
            (by_id[n] for n in self._order.index_ids), key=lambda index: not index.is_unique
        )
        parts = [EntryParts() for _ in indexes]
        began = self._monotonic()
        look = partial(add_chunk, self._summary, self._parts) if self._task.samples else None
        with closing(fresh_snapshot(self._store, self._table)) as snapshot:
            for rows, chunk in of_rows(snapshot, self._table, indexes, self._task.span, look):
                self._rows += rows
                for part, entries in zip(parts, chunk, strict=True):
                    part.add(entries)
                spent_s = self._monotonic() - began
                if spent_s >= _LOOK_S or self._dial.read().share < 1:
                    yield Batch(0, spent_s)
                    began = self._monotonic()
        return [sorted_run(index, part) for index, part in zip(indexes, parts, strict=True)]

    def _write(self, run: Run, finishing: bool) -> Iterator[Batch]:
        """Put a run; then judge the keys of a unique one that were taken."""
        start, taken = 0, list(run.repeats)
        while start < len(run.keys):
            try:
                found, batch = self._chain(run, start, finishing)
            except Conflict:
                self._pace.refused()
                yield Batch(0, 0.0, 0.0)
                continue
            taken += found
            start += batch.rows
            yield batch
        judge = DuplicateJudge(self._store, self._order, self._table, run.index)
        for key, handle in taken:
            if len(self._duplicates) >= MOST_DUPLICATES:
                return
            began = self._monotonic()
            verdict = judge.taken(key, handle)
            if isinstance(verdict, FoundDuplicate):
                self._duplicates.append(verdict)
            self._placed += verdict is DuplicateVerdict.PLACED
            yield Batch(1, self._monotonic() - began)

    def _chain(self, run: Run, start: int, finishing: bool) -> tuple[Taken, Batch]:
        """Write a chain of transactions with put-if-absent of a run's keys.

        The last transaction of a task records that its span is finished. Returns the keys of a
        unique index that other rows have, with the handles of the refused rows."""
        settings = self._dial.read()
        size = min(settings.batch_rows, self._pace.rows)
        end = min(start + self._pace.rows, len(run.keys))
        if settings.write_speed or settings.batch_rows < REORG_BATCH_ROWS[1]:
            end = min(end, start + size)  # the operator asked for small writes
        last = finishing and end == len(run.keys)
        bulks = self._bulks(run, start, end, size, last)
        first = next(bulks)  # nobody waits for the writer while that is made
        began = self._monotonic()
        results = self._store.bulk_chain(chain([first], bulks), settings.batch_s)
        seconds = self._monotonic() - began
        rows = min(end - start, len(results) * size)
        self._written, self._batches = self._written + rows, self._batches + len(results)
        self._finished = last and start + rows == end
        self._placed += sum(result.placed for result in results)
        batch = self._pace.succeeded(rows, seconds, settings.batch_s)
        if settings.write_speed:
            batch = held_back(batch, _bytes_of(first), settings, self._order.at_once)
        places = (
            (start + n * size + position, payload)
            for n, result in enumerate(results)
            for position, payload in result.present
        )
        return list(_keys_of_others(run, places)), batch

    def _bulks(self, run: Run, start: int, end: int, size: int, last: bool) -> Iterator[Bulk]:
        """Transactions of `size` keys each."""
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
        """The checkpoint that a transaction writes. `at`: rows that its chain wrote before it,
        `size`: its own rows."""
        batch = self._batches + at // size + 1
        if at and not last and batch % max(1, _TOLD_ROWS // size):
            return []
        done = self._written + at + number
        whole = last or self._counted or not self._entries
        rows = self._rows if whole else done * self._rows // self._entries
        return checkpoint.pairs_of(self._task, TaskProgress(rows, self._rows, batch, number, last))


def _keys_of_others(run: Run, places: Iterable[tuple[int, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """The keys of a unique run that other rows have, given the payloads that were found."""
    if run.suffixes is None:
        return
    for at, payload in places:
        ours = as_bytes(run.suffixes[at : at + 1])[0]
        if ours and LIVE + ours != payload:  # not ours, if it has a handle
            (key,) = as_bytes(run.keys[at : at + 1])
            yield key, ours


def _bytes_of(bulk: Bulk) -> int:
    if isinstance(bulk.payloads, bytes):
        return sum(map(len, bulk.keys)) + len(bulk.payloads) * len(bulk.keys)
    return sum(map(len, bulk.keys)) + sum(map(len, bulk.payloads))
