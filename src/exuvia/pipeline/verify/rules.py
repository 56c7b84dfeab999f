"""Rows held to a rule of SQL's (CHECK, FOREIGN KEY, NOT NULL) before it becomes public: what
offends is counted, the first are listed.

    a span's rows -> rule -> how many offend, the first of them as text

The pipeline knows no SQL: whoever wires a process names a *judge*, "module:function", that makes
the rule for one snapshot (a rule may look elsewhere in it: a child for its parent). It is a name
and no object, so that it crosses to Spark's workers as it is. Nothing is written, so nothing is to
be fenced or kept: a check that is left begins anew.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from importlib import import_module
from typing import Protocol

from exuvia.base.errors import MOST_LISTED, Broken, Refused, counted
from exuvia.base.types import Value
from exuvia.catalog.codec import row_batch
from exuvia.catalog.columns import Columns
from exuvia.catalog.table import Table
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.kernels.entries import CHUNK_ROWS, fresh_snapshot
from exuvia.pipeline.reorg import TableRule
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.throttle import Batch, Steps
from exuvia.pipeline.verify.judge import row_names

Row = Sequence[Value]


class RowRule(Protocol):
    """What rows are held to, for one snapshot."""

    positions: list[int]  # of the columns that it reads and shows

    def offends(self, columns: Columns) -> list[int]:
        """Which of these rows (of `positions`) break it, in order."""

    def text(self, row: Row) -> str:
        """A row as a person would find it."""

    def refusal(self) -> Refused:
        """What the statement is told, without the rows."""


Judge = Callable[[Transaction, Table, TableRule], RowRule]


@cache
def judge_named(name: str) -> Judge:
    """The function of that name. Raises Broken where none was wired."""
    module, _, function = name.partition(":")
    if not function:
        raise Broken("rows are to be checked where no judge is wired")
    judge: Judge = getattr(import_module(module), function)
    return judge


def refusal(rule: RowRule, number: int, first: Sequence[Sequence[str]]) -> Refused:
    """The rule's error with the rows counted; `first` are their names and texts."""
    first = first[:MOST_LISTED]
    more = ", ..." if number > len(first) else ""
    rows = "row does" if number == 1 else "rows do"
    listing = f"{number} {rows} not obey: {', '.join(text for _, text in first)}{more}"
    return counted(rule.refusal(), number, [name for name, _ in first], listing)


def refusal_of(store: Store, order: TaskOrder, outcomes: Sequence[Outcome]) -> Refused | None:
    """What all tasks of a check found, None where every row obeys."""
    number = sum(outcome.result[0] for outcome in outcomes)
    if not number:
        return None
    if order.rule is None:
        raise Broken("a check without a rule")
    first = [row for outcome in outcomes for row in outcome.result[1]]
    with store.read() as txn:
        return refusal(judge_named(order.judge)(txn, order.logical, order.rule), number, first)


class Breaches:
    """Rows that break a rule: chunks in, their number and the first 20 out."""

    def __init__(self, rule: RowRule, table: Table) -> None:
        self._rule = rule
        self._table = table
        self.number = 0
        self.seen = 0
        self.first: list[tuple[str, str]] = []  # a row's name, the row as text

    def look(self, keys: list[bytes], raws: list[bytes], skip: int) -> None:
        """Some rows, as the store's chunks give them."""
        wanted = list(self._rule.positions)
        columns = row_batch.decode(self._table, keys, raws, skip, wanted)
        bad = self._rule.offends(columns)
        listed = bad[: MOST_LISTED - len(self.first)]
        rows = columns.to_rows() if listed else []
        if listed:
            some = [keys[n] for n in listed], [raws[n] for n in listed]
            names = row_names(self._table, *some, skip)
            texts = (self._rule.text(rows[n]) for n in listed)
            self.first += zip(names, texts, strict=True)
        self.number += len(bad)
        self.seen += len(raws)


def check_rows(store: Store, task: Task) -> Steps:
    """The kernel: how many rows of the span offend, and the first of them."""
    table, plan = task.order.table, task.order.rule
    if plan is None:
        raise Broken("a check without a rule")
    with closing(fresh_snapshot(store, table)) as snapshot:
        rule = judge_named(task.order.judge)(Transaction(store, snapshot), table, plan)
        breaches = Breaches(rule, table)
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            breaches.look(keys, raws, snapshot.skip)
            yield Batch(len(raws), 0.0)
    return Outcome(
        ordinal=task.ordinal, rows=breaches.seen, result=(breaches.number, breaches.first)
    )
