"""Whether an index holds what its rows say, under live writes and without a common snapshot (law
9).

    1  sum        rows  -> the entries they should have -> bucket sums     two scans, any snapshots,
                  index -> the entries that stand       -> bucket sums     in parallel, in any order
    2  collect    the same two scans again, but only entries of buckets that differ
    3  judge      entries that only one side has: row and entry once more, in one snapshot

A write between the two scans makes its bucket differ; step 3 clears it. A fault makes its bucket
differ too, and is still there in step 3. So there are no false alarms, and a fault passes only if
64-bit sums collide. Buckets are collected at most `_BUCKETS_AT_ONCE` at a time, so that an index
gone entirely costs bounded memory.

`verification` is a conversation without I/O of its own scans: it yields waves of tasks and is sent
their outcomes, so that this process and Spark serve alike. The slow way, row codec and entry by
entry, is in pipeline/verify/check.py.
"""

from collections.abc import Callable, Generator

import numpy as np
from msgspec.structs import replace

from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.pipeline.order import Array
from exuvia.pipeline.spans import cut
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.verify.judge import MOST_FAULTS, Fault, FaultJudge
from exuvia.pipeline.verify.scan import Entry, Sums, buckets_for, index_of

_BUCKETS_AT_ONCE = 1024

Wave = list[Task]
Waves = Generator[Wave, list[Outcome], list[Fault]]


def verification(
    store: Store, order: TaskOrder, span_rows: int, total: int | None = None, at_once: int = 1
) -> Waves:
    """Compare the order's indexes with the table: yields waves, returns the faults (at most
    MOST_FAULTS)."""
    scans = _Scans(store, order, span_rows, total, at_once)
    outcomes = yield scans.sums()
    faults: list[Fault] = []
    for index_id, numbers in scans.differing(outcomes).items():
        for at in range(0, len(numbers), _BUCKETS_AT_ONCE):
            chosen = numbers[at : at + _BUCKETS_AT_ONCE].astype(np.uint32).tobytes()
            outcomes = yield scans.collections(index_id, chosen)
            should, stand = scans.collected(outcomes)
            faults += FaultJudge(order.table, index_of(order, index_id)).compare(
                store, should, stand
            )
            if len(faults) >= MOST_FAULTS:
                return faults[:MOST_FAULTS]
    return faults


def differences(
    store: Store, order: TaskOrder, span_rows: int, take: Callable[[list[Entry], list[Entry]], None]
) -> Generator[Wave, list[Outcome], int]:
    """All entries of the order's one index in buckets that differ, for `take(should, stand)`, a
    bounded number at a time; yields waves, returns how many rows there were."""
    scans = _Scans(store, order, span_rows, None, 1)
    outcomes = yield scans.sums()
    for index_id, numbers in scans.differing(outcomes).items():
        for at in range(0, len(numbers), _BUCKETS_AT_ONCE):
            chosen = numbers[at : at + _BUCKETS_AT_ONCE].astype(np.uint32).tobytes()
            take(*scans.collected((yield scans.collections(index_id, chosen))))
    return scans.rows_of(outcomes)


class _Scans:
    """The tasks of one comparison and what their outcomes add up to."""

    def __init__(
        self, store: Store, order: TaskOrder, span_rows: int, total: int | None, at_once: int
    ) -> None:
        table = order.table
        total = store.count(table.row_span()) if total is None else total
        self._order = order
        self._buckets = buckets_for(total)
        self._rows = cut(store, [table.row_span()], span_rows, total, at_once)
        self._entries = {
            n: cut(store, [table.index_span(index_of(order, n))], span_rows, total, at_once)
            for n in order.index_ids
        }

    def _tasks(self, kind: str, spans: list[Span], index_id: int, chosen: bytes) -> list[Task]:
        template = Task(
            kind=kind,
            order=self._order,
            span=spans[0],
            index_id=index_id,
            buckets=self._buckets,
            chosen=chosen,
        )
        return [replace(template, span=span) for span in spans]

    def sums(self) -> Wave:
        """Both sides, all indexes."""
        wave = self._tasks("sum rows", self._rows, 0, b"")
        for index_id, spans in self._entries.items():
            wave += self._tasks("sum entries", spans, index_id, b"")
        return _numbered(wave)

    def differing(self, outcomes: list[Outcome]) -> dict[int, Array]:
        """Buckets that differ, per index."""
        should = {n: Sums(self._buckets) for n in self._order.index_ids}
        stand = {n: Sums(self._buckets) for n in self._order.index_ids}
        for outcome in outcomes[: len(self._rows)]:
            for n, (raw, rows) in zip(self._order.index_ids, outcome.result, strict=True):
                should[n].merge(_unpacked(raw, rows))
        at = len(self._rows)
        for n, spans in self._entries.items():
            for outcome in outcomes[at : at + len(spans)]:
                stand[n].merge(_unpacked(*outcome.result[0]))
            at += len(spans)
        return {n: should[n].differing(stand[n]) for n in self._order.index_ids}

    def rows_of(self, outcomes: list[Outcome]) -> int:
        """How many rows the first wave saw."""
        return sum(each.rows for each in outcomes[: len(self._rows)])

    def collections(self, index_id: int, chosen: bytes) -> Wave:
        """Both sides of one index, chosen buckets only."""
        wave = self._tasks("collect rows", self._rows, index_id, chosen)
        wave += self._tasks("collect entries", self._entries[index_id], index_id, chosen)
        return _numbered(wave)

    def collected(self, outcomes: list[Outcome]) -> tuple[list[Entry], list[Entry]]:
        """What should stand and what stands."""
        split = len(self._rows)
        return _entries(outcomes[:split]), _entries(outcomes[split:])


def _unpacked(raw: bytes, rows: int) -> Sums:
    sums = Sums(0)
    sums.sums, sums.rows = np.frombuffer(raw, np.uint64), rows
    return sums


def _entries(outcomes: list[Outcome]) -> list[Entry]:
    return [tuple(entry) for outcome in outcomes for entry in outcome.result]


def _numbered(wave: Wave) -> Wave:
    """The wave, each task with its place in it."""
    return [replace(task, ordinal=n) for n, task in enumerate(wave)]
