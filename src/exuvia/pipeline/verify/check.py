"""Checks of one index in one call: ADMIN CHECK, and the sample that a job may be content with.
And of one rule: a foreign key's rows, by the kernel that judges them when the key is added.

fast      verification's conversation (pipeline/verify/compare.py), its waves run in this process
slow      row codec and single keys: every row has its entry, every entry its row, in one snapshot
sample    the slow way on a few short ranges of both sides
"""

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from exuvia.base.errors import Refused
from exuvia.base.limits import SPAN_ROWS
from exuvia.catalog import reader
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.executor import Executor
from exuvia.pipeline.plans import CheckRows
from exuvia.pipeline.settings import Fixed
from exuvia.pipeline.spans import cut
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.verify.compare import verification
from exuvia.pipeline.verify.judge import MOST_FAULTS, Fault, FaultJudge
from exuvia.pipeline.verify.rows import judge_named, refusal

Answer = TypeVar("Answer")
_SAMPLES = 16
_SAMPLE_ROWS = 256


@dataclass(frozen=True)
class Report:
    """What a check saw. No faults: index and table agree."""

    index: str
    faults: list[Fault]


def check_index(
    store: Store,
    table: Table,
    index: IndexInfo,
    mode: str = "fast",
    monotonic: Callable[[], float] = time.monotonic,
) -> Report:
    """Compare an index with its table; `mode` is fast, slow or sample. Raises Unavailable,
    Deposed."""
    faults: list[Fault] = []
    for part in table.parts:
        if mode == "fast":
            faults += _fast(store, part, index, monotonic)
        elif mode == "slow":
            faults += _slow(store, part, index)
        else:
            faults += sample(store, part, index)
    return Report(index.idx_name.O, faults)


def order_for(
    table: Table, index_ids: tuple[int, ...], job_id: int = 0, epoch: int = 0
) -> TaskOrder:
    """An order about a table as planned."""
    return TaskOrder(
        job_id=job_id,
        epoch=epoch,
        info=table.info,
        revision=table.revision,
        database=table.database,
        database_revision=table.database_revision,
        index_ids=index_ids,
        evaluator=table.evaluator,
        physical_id=table.physical_id,
    )


def _fast(
    store: Store, table: Table, index: IndexInfo, monotonic: Callable[[], float]
) -> list[Fault]:
    return done_here(
        store, verification(store, order_for(table, (index.id,)), SPAN_ROWS), monotonic
    )


def done_here(
    store: Store,
    waves: Generator[list[Task], list[Outcome], Answer],
    monotonic: Callable[[], float] = time.monotonic,
) -> Answer:
    """What a conversation of waves returns, all of them run in this process."""
    crew = Executor(store, None, Fixed(), monotonic)
    try:
        tasks = next(waves)
        while True:
            crew.start("check", tasks)
            while not crew.done():
                crew.step()
            tasks = waves.send(crew.outcomes())
    except StopIteration as end:
        answer: Answer = end.value
        return answer


def check_rule(
    store: Store,
    table: Table,
    plan: CheckRows,
    judge: str,
    monotonic: Callable[[], float] = time.monotonic,
) -> Refused | None:
    """Hold every row to a rule that all writers obey; the rule's error with the offenders counted.

    Each span is judged in one snapshot, the rows and what they are held to: so there is no false
    alarm beside writers. Raises Unavailable, Deposed."""
    order = replace(order_for(table, ()), check=plan, judge=judge)

    def rows() -> Generator[list[Task], list[Outcome], list[Outcome]]:
        parts = [part.row_span() for part in table.parts]
        spans = cut(store, parts, SPAN_ROWS, None, 1)
        kind = "check rows"
        outcomes = yield [
            Task(kind=kind, order=order, span=s, ordinal=n) for n, s in enumerate(spans)
        ]
        return outcomes

    outcomes = done_here(store, rows(), monotonic)
    number = sum(outcome.result[0] for outcome in outcomes)
    if not number:
        return None
    first = [each for outcome in outcomes for each in outcome.result[1]]
    txn = store.begin()
    try:
        return refusal(judge_named(judge)(txn, table, plan), number, first)
    finally:
        txn.rollback()


def _slow(store: Store, table: Table, index: IndexInfo) -> list[Fault]:
    txn = store.begin()
    try:
        return _entry_by_entry(txn, table, index, table.row_span(), table.index_span(index), None)
    finally:
        txn.rollback()


def sample(store: Store, table: Table, index: IndexInfo) -> list[Fault]:
    """The slow way on short ranges, spread over both sides."""
    faults: list[Fault] = []
    rows = store.split(table.row_span(), _SAMPLES)
    entries = store.split(table.index_span(index), _SAMPLES)
    txn = store.begin()
    try:
        for span in rows:
            faults += _entry_by_entry(txn, table, index, span, None, _SAMPLE_ROWS)
        for span in entries:
            faults += _entry_by_entry(txn, table, index, None, span, _SAMPLE_ROWS)
    finally:
        txn.rollback()
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
    seen = set()

    def findings() -> Iterator[Fault | None]:
        if rows is not None:
            for handle, _ in islice(reader.scan(txn, table, rows), limit):
                yield judge.of_row(txn, handle)
        if entries is not None:
            for key, _ in txn.scan(entries, limit):
                yield judge.of_entry(txn, key)

    for fault in findings():
        if fault is not None and fault not in seen:
            seen.add(fault)
            faults.append(fault)
        if len(faults) >= MOST_FAULTS:
            break
    return faults
