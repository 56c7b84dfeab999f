"""Rows held to a rule before it becomes public: what offends is counted, the first are listed.

    a span's rows -> rule -> how many offend, the first of them as text      check_reorg.py adds up

The pipeline knows no SQL: whoever wires a process names a *judge*, "module:function", that makes
the rule of a plan for one snapshot (a rule may look elsewhere in it: a child for its parent). It is
a name and no object, so that it crosses to Spark's workers as it is. Nothing is written, so
nothing is to be fenced or kept: a check that is left begins anew.
"""

from collections.abc import Callable, Generator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from exuvia.base.errors import Broken, Refused
from exuvia.catalog import vector
from exuvia.catalog.table import Table
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.entries import CHUNK_ROWS, fresh_snapshot
from exuvia.pipeline.pace import Batch
from exuvia.pipeline.plans import CheckRows
from exuvia.pipeline.task import Outcome, Task

MOST_LISTED = 20

Row = Sequence[Any]
Steps = Generator[Batch, None, Outcome]


class Rule(Protocol):
    """What rows are held to, for one snapshot."""

    positions: list[int]  # of the columns that it reads and shows

    def offends(self, rows: Sequence[Row]) -> list[int]:
        """Which of these rows (of `positions`) break it."""

    def text(self, row: Row) -> str:
        """A row as a person would find it."""

    def refusal(self) -> Refused:
        """What the statement is told, without the rows."""


Judge = Callable[[Transaction, Table, CheckRows], Rule]


@cache
def judge_named(name: str) -> Judge:
    """The function of that name. Raises Broken where none was wired."""
    module, _, function = name.partition(":")
    if not function:
        raise Broken("rows are to be checked where no judge is wired")
    found: Judge = getattr(import_module(module), function)
    return found


def refusal(rule: Rule, number: int, texts: Sequence[str]) -> Refused:
    """The error with the rows: the first line is MySQL's own."""
    error = rule.refusal()
    listed = ", ".join(texts[:MOST_LISTED])
    more = ", ..." if number > len(texts[:MOST_LISTED]) else ""
    rows = "row does" if number == 1 else "rows do"
    said = f"{error.message}\n{number} {rows} not obey: {listed}{more}"
    return Refused(error.code, error.state, said)


def check_rows(store: Store, task: Task) -> Steps:
    """The kernel: how many rows of the span offend, and the first of them."""
    table, plan = task.order.table, task.order.check
    if plan is None:
        raise Broken("a check without a rule")
    snapshot = fresh_snapshot(store, table)
    number, seen = 0, 0
    texts: list[str] = []
    try:
        rule = judge_named(task.order.judge)(Transaction(store, snapshot), table, plan)
        for found, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            rows = vector.decode(table, found, raws, list(rule.positions)).to_rows()
            bad = rule.offends(rows)
            texts += [rule.text(rows[n]) for n in bad[: MOST_LISTED - len(texts)]]
            number, seen = number + len(bad), seen + len(rows)
            yield Batch(len(rows), 0.0)
    finally:
        snapshot.close()
    return Outcome(ordinal=task.ordinal, rows=seen, result=(number, texts))
