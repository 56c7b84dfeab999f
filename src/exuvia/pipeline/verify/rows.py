"""Rows held to a rule before it becomes public: what offends is counted, the first are listed.

    a span's rows -> rule -> how many offend, the first of them as text      check_reorg.py adds up

The pipeline knows no SQL: whoever wires a process names a *judge*, "module:function", that makes
the rule of a plan for one snapshot (a rule may look elsewhere in it: a child for its parent). It is
a name and no object, so that it crosses to Spark's workers as it is. Nothing is written, so
nothing is to be fenced or kept: a check that is left begins anew.

    check rows      a rule of SQL's: CHECK, FOREIGN KEY, NOT NULL (`Breaches`)
    check column    a column's new type (`Offenders`; a session looks with it before it asks, too)
    verify column   what a rewrite has written
    check moved     rows of either set of partitions, each looked up in the other
    check fits      rows that are to become a partition: each belongs to it (1737)
"""

from collections.abc import Callable, Generator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from exuvia.base.counted import MOST_LISTED, counted
from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import ErrRowDoesNotMatchPartition
from exuvia.catalog.codec import row_batch
from exuvia.catalog.codec.row_codec import storage_of
from exuvia.catalog.columns import Array, Columns, Vector
from exuvia.catalog.convert import type_change_batch
from exuvia.catalog.convert.type_change import ColumnChange, shown
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.packet import SEQUENCE_BYTES, Snapshot
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.entries import CHUNK_ROWS, fresh_snapshot
from exuvia.pipeline.order import as_bytes
from exuvia.pipeline.plans import CheckRows
from exuvia.pipeline.rewrite import change_of, layout_of, layouts_with
from exuvia.pipeline.routing import Way, router_named, under
from exuvia.pipeline.task import Outcome, Task
from exuvia.pipeline.throttle import Batch
from exuvia.pipeline.verify.judge import row_name

Row = Sequence[Any]
Steps = Generator[Batch, None, Outcome]


class RowRule(Protocol):
    """What rows are held to, for one snapshot."""

    positions: list[int]  # of the columns that it reads and shows

    def offends(self, columns: Columns) -> list[int]:
        """Which of these rows (of `positions`) break it, in order."""

    def text(self, row: Row) -> str:
        """A row as a person would find it."""

    def refusal(self) -> Refused:
        """What the statement is told, without the rows."""


Judge = Callable[[Transaction, Table, CheckRows], RowRule]


@cache
def judge_named(name: str) -> Judge:
    """The function of that name. Raises Broken where none was wired."""
    module, _, function = name.partition(":")
    if not function:
        raise Broken("rows are to be checked where no judge is wired")
    found: Judge = getattr(import_module(module), function)
    return found


def refusal(rule: RowRule, number: int, first: Sequence[Sequence[str]]) -> Refused:
    """The rule's error with the rows counted; `first` are their names and texts."""
    first = first[:MOST_LISTED]
    more = ", ..." if number > len(first) else ""
    rows = "row does" if number == 1 else "rows do"
    listing = f"{number} {rows} not obey: {', '.join(text for _, text in first)}{more}"
    return counted(rule.refusal(), number, [name for name, _ in first], listing)


class Breaches:
    """Rows that break a rule: chunks in, their number and the first 20 out."""

    def __init__(self, rule: RowRule, table: Table) -> None:
        self._rule = rule
        self._table = table
        self.number = 0
        self.seen = 0
        self.first: list[tuple[str, str]] = []  # a row's name, the row as text

    def look(self, keys: list[bytes], raws: list[bytes]) -> None:
        """Some rows, as the store's chunks give them."""
        wanted = list(self._rule.positions)
        columns = row_batch.decode(self._table, keys, raws, wanted)
        bad = self._rule.offends(columns)
        listed = bad[: MOST_LISTED - len(self.first)]
        rows = columns.to_rows() if listed else []
        for n in listed:
            name = row_name(self._table, keys[n][HANDLE_AT:])
            self.first.append((name, self._rule.text(rows[n])))
        self.number += len(bad)
        self.seen += len(raws)


def check_rows(store: Store, task: Task) -> Steps:
    """The kernel: how many rows of the span offend, and the first of them."""
    table, plan = task.order.table, task.order.check
    if plan is None:
        raise Broken("a check without a rule")
    snapshot = fresh_snapshot(store, table)
    try:
        rule = judge_named(task.order.judge)(Transaction(store, snapshot), table, plan)
        found = Breaches(rule, table)
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            found.look(keys, raws)
            yield Batch(len(raws), 0.0)
    finally:
        snapshot.close()
    return Outcome(ordinal=task.ordinal, rows=found.seen, result=(found.number, found.first))


# -- columns --


class Offenders:
    """See the module."""

    def __init__(self, table: Table, change: ColumnChange) -> None:
        self._table = table
        self._change = change
        self.number = 0
        self.seen = 0
        self.first: list[tuple[str, str]] = []  # a row's name, the value it has
        self.error: Refused | None = None

    def look(self, keys: list[bytes], raws: list[bytes]) -> None:
        """Some rows, as the store's chunks give them."""
        at = self._change.source
        values = row_batch.decode(self._table, keys, raws, [at]).column(at)
        bad = type_change_batch.offenders(self._change, values)
        if bad and self.error is None:
            first = values.take(np.array(bad[:1])).to_list()[0]
            self.error = type_change_batch.error_of(self._change, first)
        self.add(keys, values, bad)

    def add(self, keys: list[bytes], values: Vector, bad: list[int]) -> None:
        """Rows already judged: `bad` are the positions of those that offend."""
        listed = bad[: MOST_LISTED - len(self.first)]
        taken = values.take(np.array(listed, dtype=np.int64)).to_list()
        for n, value in zip(listed, taken, strict=True):
            text = "NULL" if value is None else shown(value, values.field)
            self.first.append((row_name(self._table, keys[n][k.HANDLE_AT :]), text))
        self.number += len(bad)
        self.seen += len(keys)

    def outcome(self, task: Task) -> Outcome:
        error = [self.error.code, self.error.state, self.error.message] if self.error else []
        result = (self.number, self.first, error)
        return Outcome(ordinal=task.ordinal, rows=self.seen, result=result)


def offending(error: Refused, number: int, first: Sequence[Sequence[str]]) -> Refused:
    """The error of the first row that does not fit; all are counted, the first 20 listed."""
    first = first[:MOST_LISTED]
    more = ", ..." if number > len(first) else ""
    rows = "row does" if number == 1 else "rows do"
    texts = ", ".join(f"{name} ({value})" for name, value in first)
    listing = f"{number} {rows} not fit: {texts}{more}"
    return counted(error, number, [name for name, _ in first], listing)


def check_column(store: Store, task: Task) -> Steps:
    """How many rows of the span do not fit the new type, the first as text, and the error."""
    table = task.order.table
    found = Offenders(table, change_of(table, task.order.changing))
    snapshot = fresh_snapshot(store, table)
    try:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            found.look(keys, raws)
            yield Batch(len(raws), 0.0)
    finally:
        snapshot.close()
    return found.outcome(task)


def verify_column(store: Store, task: Task) -> Steps:
    """How many rows of the span hold something else than their old value converted."""
    table = task.order.table
    change = change_of(table, task.order.changing)
    done = layouts_with(table, task.order.changing)
    faults = Offenders(table, change)
    snapshot = fresh_snapshot(store, table)
    try:
        for found, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            columns = row_batch.decode(table, found, raws, [change.source, change.position])
            values = columns.column(change.source)
            wanted = type_change_batch.changed(change, values)
            stands = columns.column(change.position)
            lacking = {n for n, raw in enumerate(raws) if layout_of(raw) not in done}
            bad = sorted(lacking | set(differing(wanted, stands)))
            faults.add(found, values, bad)
            yield Batch(len(raws), 0.0)
    finally:
        snapshot.close()
    return faults.outcome(task)


def differing(one: Vector, other: Vector) -> list[int]:
    """Positions where two vectors of one type differ."""
    if _bytes_of(one) == _bytes_of(other):
        return []
    pairs = zip(one.to_list(), other.to_list(), strict=True)
    return [n for n, (a, b) in enumerate(pairs) if a != b]


def _bytes_of(vector: Vector) -> object:
    if not storage_of(vector.field).code:
        return vector.values.to_pylist()
    nulls: Array = np.zeros(len(vector.values), bool) if vector.nulls is None else vector.nulls
    return nulls.tobytes(), vector.values[~nulls].tobytes()


# -- rows where they belong --


def check_moved(store: Store, task: Task) -> Steps:
    """The kernel of verification: rows of one span, each looked up in the other set in the same
    snapshot."""
    order = task.order
    ways = router_named(order.router)(order.logical)
    way = ways.other if order.physical_id in order.sources else ways.read
    seen, faults = 0, []
    snapshot = fresh_snapshot(store, order.table)
    try:
        for found, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            bad = _without_twin(snapshot, order.table, way, found, raws)
            faults += [found[n][HANDLE_AT:].hex() for n in bad]
            seen += len(found)
            yield Batch(len(found), 0.0)
    finally:
        snapshot.close()
    return Outcome(ordinal=task.ordinal, rows=seen, result=(len(faults), faults[:MOST_LISTED]))


def _without_twin(
    snapshot: Snapshot, table: Table, way: Way, found: list[bytes], raws: list[bytes]
) -> list[int]:
    """Which rows are not there, or are another row. The same bytes are the same row."""
    columns = row_batch.decode(table, found, raws, way.positions)
    keys = as_bytes(under(way.places(columns), found))
    twins = snapshot.get_many(keys)
    bad = []
    for n, (key, raw) in enumerate(zip(keys, raws, strict=True)):
        twin = twins.get(key)
        if twin is not None and twin[SEQUENCE_BYTES:] == raw[SEQUENCE_BYTES:]:
            continue
        if twin is None or _row(table, twin) != _row(table, raw):
            bad.append(n)
    return bad


def _row(table: Table, raw: bytes) -> object:
    return table.decode(raw[SEQUENCE_BYTES:])


def check_fits(store: Store, task: Task) -> Steps:
    """The kernel of an exchange: every row of the span belongs to the partition. Raises 1737."""
    order = task.order
    way = router_named(order.router)(order.logical).read
    (partition,) = order.sources
    seen = 0
    snapshot = fresh_snapshot(store, order.table)
    try:
        for found, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            places: Array = way.places(row_batch.decode(order.table, found, raws, way.positions))
            if not bool(np.all(places == partition)):
                raise ErrRowDoesNotMatchPartition()
            seen += len(found)
            yield Batch(len(found), 0.0)
    finally:
        snapshot.close()
    return Outcome(ordinal=task.ordinal, rows=seen)
