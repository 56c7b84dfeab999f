"""Tests rows with a rule of SQL (CHECK, FOREIGN KEY, NOT NULL) before it becomes public. Violations
are counted, the first ones listed.

    a span's rows -> rule -> number of violations, the first as text

The pipeline does not depend on SQL. The process is configured with a *judge*: the name
"module:function" of a function that returns the rule for one snapshot. A rule may read other
tables, such as a child's parent. A name can be sent to Spark's workers. Nothing is written, so
nothing is fenced or stored: an interrupted check starts again.
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
    """A rule for rows, for one snapshot."""

    positions: list[int]  # columns that it reads and shows

    def offends(self, columns: Columns) -> list[int]:
        """Returns which of these rows (columns `positions`) violate the rule, in order."""

    def text(self, row: Row) -> str:
        """Returns a row as text for users."""

    def refusal(self) -> Refused:
        """Returns the statement's error, without the rows."""


Judge = Callable[[Transaction, Table, TableRule], RowRule]


@cache
def judge_by_name(name: str) -> Judge:
    """Returns the function of that name. Raises Broken if the name is empty."""
    module, _, function = name.partition(":")
    if not function:
        raise Broken("rows are to be checked where no judge is wired")
    judge: Judge = getattr(import_module(module), function)
    return judge


def refusal(rule: RowRule, number: int, first: Sequence[Sequence[str]]) -> Refused:
    """Returns the rule's error with the number of violations; `first`: their names and texts."""
    first = first[:MOST_LISTED]
    more = ", ..." if number > len(first) else ""
    rows = "row does" if number == 1 else "rows do"
    listing = f"{number} {rows} not obey: {', '.join(text for _, text in first)}{more}"
    return counted(rule.refusal(), number, [name for name, _ in first], listing)


def refusal_of(store: Store, order: TaskOrder, outcomes: Sequence[Outcome]) -> Refused | None:
    """Returns the combined error of all tasks of a check, or None if no row violates the rule."""
    number = sum(outcome.result[0] for outcome in outcomes)
    if not number:
        return None
    if order.rule is None:
        raise Broken("a check without a rule")
    first = [row for outcome in outcomes for row in outcome.result[1]]
    with store.read() as txn:
        return refusal(judge_by_name(order.judge)(txn, order.logical, order.rule), number, first)


class Breaches:
    """Finds rows that violate a rule: counts them, and lists the first 20."""

    def __init__(self, rule: RowRule, table: Table) -> None:
        self._rule = rule
        self._table = table
        self.number = 0
        self.rows = 0
        self.first: list[tuple[str, str]] = []  # (row's name, row as text)

    def look(self, keys: list[bytes], raws: list[bytes], skip: int) -> None:
        """Tests a chunk of rows."""
        needed = list(self._rule.positions)
        columns = row_batch.decode(self._table, keys, raws, skip, needed)
        bad = self._rule.offends(columns)
        listed = bad[: MOST_LISTED - len(self.first)]
        rows = columns.to_rows() if listed else []
        if listed:
            some = [keys[n] for n in listed], [raws[n] for n in listed]
            names = row_names(self._table, *some, skip)
            texts = (self._rule.text(rows[n]) for n in listed)
            self.first += zip(names, texts, strict=True)
        self.number += len(bad)
        self.rows += len(raws)


def check_rows(store: Store, task: Task) -> Steps:
    """The kernel: number of violations in the span, and the first of them."""
    table, plan = task.order.table, task.order.rule
    if plan is None:
        raise Broken("a check without a rule")
    with closing(fresh_snapshot(store, table)) as snapshot:
        rule = judge_by_name(task.order.judge)(Transaction(store, snapshot), table, plan)
        breaches = Breaches(rule, table)
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            breaches.look(keys, raws, snapshot.skip)
            yield Batch(len(raws), 0.0)
    return Outcome(
        ordinal=task.ordinal, rows=breaches.rows, result=(breaches.number, breaches.first)
    )
