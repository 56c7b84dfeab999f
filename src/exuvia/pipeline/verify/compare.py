"""Compares an index with its rows under live writes, without a common snapshot (law 9).

    1  sum        rows  -> the entries they should have -> bucket sums     two scans, any snapshots,
                  index -> the entries present          -> bucket sums     in parallel, in any order
                  or both in one snapshot
    2  collect    the same two scans, but only entries of buckets that differ
    3  judge      entries of one side only: row and entry are read again, in one snapshot

A write between the two scans makes its bucket differ; step 3 clears it. A fault also makes its
bucket differ, and is still present in step 3. So there are no false alarms, and a fault is missed
only if 64-bit sums collide. At most `_BUCKETS_AT_ONCE` buckets are collected at a time, so that an
empty index needs bounded memory.

While clients are active, or if tasks run one after another anyway, step 1 is one task with one
snapshot. Then no write makes a bucket differ, and step 2, which reads everything again, is skipped.
A long snapshot of a busy store keeps old versions, so it is limited to TOGETHER_ROWS.

`verification` is a generator without I/O: it yields waves of tasks and is sent their outcomes. This
process or Spark runs them. `check_index` is a check in one call:

    fast      `verification`, with waves run in this process
    slow      by single keys: every row has its entry, every entry its row, in one snapshot
    sample    the slow way on a few short ranges of both sides
"""

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from exuvia.base.errors import Refused
from exuvia.base.limits import SPAN_ROWS
from exuvia.catalog import reader
from exuvia.catalog.columns import Array
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.checkpoint import cut
from exuvia.pipeline.executor import Executor
from exuvia.pipeline.reorg import Fault, TableRule
from exuvia.pipeline.settings import Fixed
from exuvia.pipeline.task import Outcome, Task, TaskOrder, all_parts, order_for
from exuvia.pipeline.verify.judge import MOST_FAULTS, FaultJudge
from exuvia.pipeline.verify.rules import refusal_of
from exuvia.pipeline.verify.scan import Entry, Sums, buckets_for, index_of

_BUCKETS_AT_ONCE = 1024
TOGETHER_ROWS = 2_000_000

Wave = list[Task]
Waves = Generator[Wave, list[Outcome], list[Fault]]


def verification(
    store: Store,
    order: TaskOrder,
    span_rows: int,
    total: int | None = None,
    at_once: int = 1,
    together: bool = False,
) -> Waves:
    """Compares the order's indexes with the table: yields waves, returns the faults (at most
    MOST_FAULTS). `together`: in one snapshot, unless there are too many rows."""
    scans = _Scans(store, order, span_rows, total, at_once, together)
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
    """Calls `take(should, stand)` with all entries of the order's one index in buckets that differ,
    a bounded number at a time. Yields waves, returns the number of rows."""
    scans = _Scans(store, order, span_rows, None, 1, together=True)
    outcomes = yield scans.sums()
    for index_id, numbers in scans.differing(outcomes).items():
        for at in range(0, len(numbers), _BUCKETS_AT_ONCE):
            chosen = numbers[at : at + _BUCKETS_AT_ONCE].astype(np.uint32).tobytes()
            take(*scans.collected((yield scans.collections(index_id, chosen))))
    return scans.rows_of(outcomes)


class _Scans:
    """The tasks of one comparison, and the combination of their outcomes."""

    def __init__(
        self,
        store: Store,
        order: TaskOrder,
        span_rows: int,
        total: int | None,
        at_once: int,
        together: bool,
    ) -> None:
        table = order.table
        if total is None:
            total = sum(store.count(part.row_span()) for part in table.parts)
        self._order = order
        few = total * len(order.index_ids) <= TOGETHER_ROWS
        is_one = len(table.parts) == 1
        self._together = together and few and is_one and not order.changing
        self._buckets = buckets_for(total)
        self._cut = partial(cut, store, rows=span_rows, total=total, at_once=at_once)

    @cached_property
    def _rows(self) -> list[tuple[TaskOrder, Span]]:
        """The spans of rows, of all partitions for a global index."""
        rows: list[tuple[TaskOrder, Span]] = []
        for part in self._order.table.parts:
            order = replace(self._order, physical_id=part.physical_id)
            rows += [(order, span) for span in self._cut([part.row_span()])]
        return rows

    @cached_property
    def _entries(self) -> dict[int, list[Span]]:
        table = self._order.table
        return {
            n: self._cut([table.index_span(index_of(self._order, n))])
            for n in self._order.index_ids
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

    def _of_rows(self, kind: str, index_id: int, chosen: bytes) -> list[Task]:
        tasks = self._tasks(kind, [span for _, span in self._rows], index_id, chosen)
        pairs = zip(tasks, self._rows, strict=True)
        return [replace(task, order=order) for task, (order, _) in pairs]

    def sums(self) -> Wave:
        """Returns the wave that sums both sides of all indexes, and checks a changing column."""
        if self._together:
            (part,) = self._order.table.parts
            (task,) = self._tasks("sum both", [part.row_span()], 0, b"")
            order = replace(self._order, physical_id=part.physical_id)
            return [replace(task, order=order)]
        kind = "verify column" if self._order.changing else "sum rows"
        wave = self._of_rows(kind, 0, b"")
        for index_id, spans in self._entries.items():
            wave += self._tasks("sum entries", spans, index_id, b"")
        return _numbered(wave)

    def differing(self, outcomes: list[Outcome]) -> dict[int, Array]:
        """Returns the buckets that differ, per index."""
        should = {n: Sums(self._buckets) for n in self._order.index_ids}
        stand = {n: Sums(self._buckets) for n in self._order.index_ids}
        if self._together:
            packed = outcomes[0].result
            half = len(packed) // 2
            for side, half_of_sums in ((should, packed[:half]), (stand, packed[half:])):
                for n, (raw, rows) in zip(self._order.index_ids, half_of_sums, strict=True):
                    side[n].merge(_unpacked(raw, rows))
            return {n: should[n].differing(stand[n]) for n in self._order.index_ids}
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
        """Returns the number of rows that the first wave read."""
        return sum(outcome.rows for outcome in outcomes[: 1 if self._together else len(self._rows)])

    def collections(self, index_id: int, chosen: bytes) -> Wave:
        """Returns the wave that collects both sides of one index, in the chosen buckets."""
        wave = self._of_rows("collect rows", index_id, chosen)
        wave += self._tasks("collect entries", self._entries[index_id], index_id, chosen)
        return _numbered(wave)

    def collected(self, outcomes: list[Outcome]) -> tuple[list[Entry], list[Entry]]:
        """Returns the entries that should be present, and those that are."""
        split = len(self._rows)
        return _entries(outcomes[:split]), _entries(outcomes[split:])


def _unpacked(raw: bytes, rows: int) -> Sums:
    sums = Sums(0)
    sums.sums, sums.rows = np.frombuffer(raw, np.uint64), rows
    return sums


def _entries(outcomes: list[Outcome]) -> list[Entry]:
    return [tuple(entry) for outcome in outcomes for entry in outcome.result]


def _numbered(wave: Wave) -> Wave:
    """Returns the wave with each task's place in it."""
    return [replace(task, ordinal=n) for n, task in enumerate(wave)]


# -- in one call -----------------------------------------------------------------------------------

Answer = TypeVar("Answer")
_SAMPLES = 16
_SAMPLE_ROWS = 256


@dataclass(frozen=True)
class Report:
    """The result of a check. Without faults, index and table agree."""

    index: str
    faults: list[Fault]


def check_index(
    store: Store,
    table: Table,
    index: IndexInfo,
    mode: str = "fast",
    monotonic: Callable[[], float] = time.monotonic,
) -> Report:
    """Compares an index with its table; `mode` is fast, slow or sample. Raises Unavailable,
    Deposed."""
    faults: list[Fault] = []
    for part in (table,) if index.is_global else table.parts:
        if mode == "fast":
            order = order_for(part, (index.id,))
            order = all_parts(order) if index.is_global else order
            waves = verification(store, order, SPAN_ROWS, together=True)
            faults += run_here(store, waves, monotonic)
        elif mode == "slow":
            with store.read() as txn:
                for partition in part.parts:
                    faults += _entry_by_entry(
                        txn, partition, index, partition.row_span(), None, None
                    )
                faults += _entry_by_entry(txn, part, index, None, part.index_span(index), None)
        else:
            faults += sample(store, part, index)
    return Report(index.idx_name.O, faults)


def run_here(
    store: Store,
    waves: Generator[list[Task], list[Outcome], Answer],
    monotonic: Callable[[], float] = time.monotonic,
) -> Answer:
    """Runs all waves in this process and returns the generator's return value."""
    executor = Executor(store, None, Fixed(), monotonic)
    try:
        tasks = next(waves)
        while True:
            executor.start("check", tasks)
            while not executor.done():
                executor.step()
            tasks = waves.send(executor.outcomes())
    except StopIteration as end:
        answer: Answer = end.value
        return answer


def check_rule(
    store: Store,
    table: Table,
    rule: TableRule,
    judge: str,
    monotonic: Callable[[], float] = time.monotonic,
) -> Refused | None:
    """Tests every row with a rule that all writers follow. Returns the rule's error with the
    number of violations, or None.

    Each span's rows and everything the rule looks up are read in one snapshot, so writers cause no
    false alarm. Raises Unavailable, Deposed."""
    order = replace(order_for(table, ()), rule=rule, judge=judge)
    spans = cut(store, [part.row_span() for part in table.parts], SPAN_ROWS)

    def wave() -> Generator[list[Task], list[Outcome], list[Outcome]]:
        tasks = (Task(kind="check rows", order=order, span=span) for span in spans)
        return (yield _numbered(list(tasks)))

    return refusal_of(store, order, run_here(store, wave(), monotonic))


def sample(store: Store, table: Table, index: IndexInfo) -> list[Fault]:
    """Checks short ranges, spread over both sides, the slow way."""
    faults: list[Fault] = []
    rows = [(part, span) for part in table.parts for span in store.split(part.row_span(), _SAMPLES)]
    entries = store.split(table.index_span(index), _SAMPLES)
    with store.read() as txn:
        for part, span in rows:
            faults += _entry_by_entry(txn, part, index, span, None, _SAMPLE_ROWS)
        for span in entries:
            faults += _entry_by_entry(txn, table, index, None, span, _SAMPLE_ROWS)
    return faults[:MOST_FAULTS]


def _entry_by_entry(
    txn: Transaction,
    table: Table,
    index: IndexInfo,
    rows: Span | None,
    entries: Span | None,
    limit: int | None,
) -> list[Fault]:
    judge = FaultJudge(table, index)
    faults: list[Fault] = []
    reported = set()

    def findings() -> Iterator[Fault | None]:
        if rows is not None:
            for handle, _ in islice(reader.scan(txn, table, rows), limit):
                yield from judge.of_row(txn, handle)
        if entries is not None:
            for key, _ in txn.scan(entries, limit):
                yield judge.of_entry(txn, key)

    for fault in findings():
        if fault is not None and fault not in reported:
            reported.add(fault)
            faults.append(fault)
        if len(faults) >= MOST_FAULTS:
            break
    return faults
