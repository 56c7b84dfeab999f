"""Rows that a column's new type does not fit, or that a rewrite left wrong: counted, first listed.

    Offenders     chunks of rows in, a number and some texts out: used by `check column`, and by the
                  look a session takes before it asks for the change (sql/define/preflight.py)

Reading only: nothing is fenced, nothing is kept; a check that is left begins anew.
"""

from collections.abc import Generator, Sequence

import numpy as np

from exuvia.base.counted import MOST_LISTED, counted
from exuvia.base.errors import Refused
from exuvia.catalog.codec import row_batch
from exuvia.catalog.codec.row_codec import storage_of
from exuvia.catalog.columns import Array, Vector
from exuvia.catalog.convert import type_change_batch
from exuvia.catalog.convert.type_change import Change, shown
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.store import Store
from exuvia.pipeline.entries import CHUNK_ROWS, fresh_snapshot
from exuvia.pipeline.faults import row_name
from exuvia.pipeline.pace import Batch
from exuvia.pipeline.rewrite import change_of, layout_of, layouts_with
from exuvia.pipeline.task import Outcome, Task

Steps = Generator[Batch, None, Outcome]


class Offenders:
    """See the module."""

    def __init__(self, table: Table, change: Change) -> None:
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
        """As a kernel answers."""
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
