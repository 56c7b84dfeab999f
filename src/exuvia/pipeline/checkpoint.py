"""A reorg's checkpoint: a row of mysql.tidb_ddl_reorg per finished span, and a small key per
running task.

    row        (job, element, physical table, span) is finished; written by the transaction that
               puts the span's last entries. Its hidden row id is job << 32 | hash of the rest: a
               task that ends twice writes one row, and a job's rows are one range. If two spans
               had the same hash, one span would be done again
    whole      a row whose element type ends in "whole_": all of the element's rows of that
               physical table are finished and verified
    range      a row of the element type "_idx_range_": a key range of an index is finished, for
               all rows of that physical table that no row marks (kernels/exchange.py)
    progress   m/progress/{job}{run}{task}: rows done so far; for display only

The step that ends the job calls `forget` in its own transaction (law 4).

The finished part of a reorg is a set of key ranges, and so is the missing part:

    all     |---------------------------------------|
    done    |=======|       |=====|==|                   overlaps and neighbours merge
    missing         |-------|        |--------------|    cut into spans of about `rows` rows each

Finished spans are stored, cuts are not. A restart cuts only the missing ranges, so a finished span
is never cut again. A table that grew, or a release with another span size, needs no special case.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from exuvia.base.decoding import from_msgpack
from exuvia.base.errors import Broken
from exuvia.catalog import reader, writer
from exuvia.catalog.system_tables import DATABASES, MYSQL_ID, SYSTEM
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.packet import InOrder, Span, StampedValues, judge
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.reorg import Done
from exuvia.pipeline.task import Task, TaskOrder


class SpanSet:
    """A set of keys as disjoint spans in order. `add` is idempotent and accepts overlaps."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._spans: list[Span] = []
        for span in spans:
            self.add(span)

    def add(self, span: Span) -> None:
        """Adds a span, merged with those it overlaps or touches."""
        if span.start >= span.end:
            return
        first = bisect_right(self._spans, span.start, key=lambda present: present.start)
        if first and self._spans[first - 1].end >= span.start:
            first -= 1
        last = first
        start, end = span
        while last < len(self._spans) and self._spans[last].start <= end:
            start, end = min(start, self._spans[last].start), max(end, self._spans[last].end)
            last += 1
        self._spans[first:last] = [Span(start, end)]

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def __contains__(self, span: Span) -> bool:
        at = bisect_right(self._spans, span.start, key=lambda present: present.start)
        return bool(at) and self._spans[at - 1].end >= span.end

    def missing(self, whole: Span) -> list[Span]:
        """Returns the parts of `whole` that are not in the set, in order."""
        gaps, start = [], whole.start
        for present in self._spans:
            if present.end <= start:
                continue
            if present.start >= whole.end:
                break
            if present.start > start:
                gaps.append(Span(start, present.start))
            start = present.end
        if start < whole.end:
            gaps.append(Span(start, whole.end))
        return gaps


def cut(
    store: Store,
    spans: Sequence[Span],
    rows: int,
    total: int | None = None,
    at_once: int = 1,
    staggered: bool = False,
) -> list[Span]:
    """Returns the same keys as adjoining spans of about `rows` rows; an empty range stays one span.

    `total`: the number of rows in all spans, if known. The number of pieces is a multiple of
    `at_once`, the number of concurrent tasks. With `staggered`, longer ranges are cut unevenly.
    """
    pieces: list[Span] = []
    for span in spans:
        counted = store.count(span) if total is None or len(spans) > 1 else total
        if staggered and at_once > 1 and counted > rows:
            pieces.extend(_staggered(store, span, -(-counted * (2 * at_once - 1) // rows), at_once))
            continue
        parts = -(-counted // max(1, rows))
        if parts > 1:
            parts = -(-parts // at_once) * at_once
        pieces.extend(store.split(span, parts) if parts > 1 else [span])
    return pieces


def _staggered(store: Store, span: Span, units: int, at_once: int) -> list[Span]:
    """Returns n spans of n, n + 1, ... 2n - 1 units for n tasks, then spans of the largest size.
    The number of units is at least `units`, so the largest span has about the requested number of
    rows.

    Tasks read and then write. With equal spans all would read, then all wait for the single writer.
    Reading takes twice as long as writing.
    """
    largest = 2 * at_once - 1
    rising = sum(range(at_once, largest + 1))
    full = max(0, -(-(units - rising) // largest))
    sizes = [*range(at_once, largest + 1), *[largest] * full]
    pieces = store.split(span, sum(sizes))
    spans, at = [], 0
    for size in sizes:
        unit_spans = pieces[at : at + size]
        if unit_spans:
            spans.append(Span(unit_spans[0].start, unit_spans[-1].end))
        at += size
    return spans


# -- stored rows -----------------------------------------------------------------------------------

_HASH_BITS = 32


class TaskProgress(msgspec.Struct, frozen=True, array_like=True):
    """The progress of one task.

    `of`: rows of its span; `batches` and `batch_rows`: number and size of its batches."""

    rows: int
    of: int
    batches: int
    batch_rows: int
    finished: bool


class Finished(NamedTuple):
    """The work that all runs have completed."""

    spans: SpanSet
    rows: int
    number: int


class SpanRow(msgspec.Struct, frozen=True):
    """A finished span as stored in its row; ddl/two_queues.py copies it to its own table."""

    ele_id: int
    ele_type: bytes
    start_key: bytes
    end_key: bytes
    physical_id: int
    reorg_meta: bytes


class _EmptySnapshot(StampedValues, InOrder):
    """A snapshot of an empty store, used to encode rows."""

    sequence = order = 0

    def get(self, key: bytes) -> None:
        return None

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        return {}

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return iter(())

    def chunks(self, span: Span, rows: int = 0) -> Iterator[tuple[list[bytes], list[bytes]]]:
        return iter(())

    def in_use(self, running: bool) -> None:
        pass

    def close(self) -> None:
        pass


class _NoCommits:
    """A store that refuses commits."""

    def commit(self, packet: object) -> int:
        raise Broken("rows encoded for a checkpoint are not committed here")


def reorg_table() -> Table:
    database = next(d for d in DATABASES if d.id == MYSQL_ID)
    return Table(SYSTEM["tidb_ddl_reorg"], 1, database, 1)


def handles_of(job_id: int) -> Span:
    prefix = k.row_prefix(SYSTEM["tidb_ddl_reorg"].id)
    return Span(prefix + k.i64(job_id << _HASH_BITS), prefix + k.i64((job_id + 1) << _HASH_BITS))


def _handle(order: TaskOrder, span: Span) -> bytes:
    element = order.remembered_as
    return _handle_of(order.job_id, order.table_id, element.ids[0], element.type.encode(), span)


def _handle_of(job_id: int, table_id: int, element_id: int, kind: bytes, span: Span) -> bytes:
    kinds = [] if kind == b"_idx_" else [kind]
    about = b"".join((k.number(table_id), k.number(element_id), *kinds, *span))
    digest = blake2b(about, digest_size=_HASH_BITS // 8).digest()
    return k.i64(job_id << _HASH_BITS | int.from_bytes(digest, "big"))


def pairs(order: TaskOrder, span: Span, rows: int, most_id: int = 0) -> list[tuple[bytes, bytes]]:
    """Returns the keys and payloads that mark a span of the order as finished. `most_id`: the
    greatest id among its rows."""
    table, element = reorg_table(), order.remembered_as
    values = {
        "job_id": order.job_id,
        "curr_ele_id": element.ids[0],
        "curr_ele_type": element.type.encode(),
        "ele_id": element.ids[0],
        "ele_type": element.type.encode(),
        "start_key": span.start,
        "end_key": span.end,
        "physical_id": order.table_id,
        "reorg_meta": json.dumps(
            {"rows": rows, "elements": element.ids} | ({"most_id": most_id} if most_id else {})
        ).encode(),
    }
    row = [values[column.name.L] for column in table.info.cols]
    txn = Transaction(_NoCommits(), _EmptySnapshot())
    writer.insert(txn, table, row, _handle(order, span))
    written = ((w.key, judge(w.kind, w.key, w.payload, None)) for w in txn.packet().writes)
    return [(key, payload) for key, payload in written if payload is not None]


def put_whole(txn: Transaction, order: TaskOrder, span: Span, rows: int) -> None:
    """Marks the order as finished. The commit raises Deposed if the epoch is lost."""
    for fence in order.fences:
        txn.require_equal(*fence)
    for key, payload in pairs(_as_whole(order), span, rows):
        txn.put(key, payload)


def whole(txn: Transaction, order: TaskOrder) -> Done | None:
    """Returns the completed work if `put_whole` has marked the order as finished."""
    finished_spans = [
        row for row in rows_of(txn, order.job_id) if row.physical_id == order.table_id
    ]
    done = finished_among(finished_spans, _as_whole(order), lambda span: 0)
    return Done(done.rows, 0, len(finished_spans) - done.number) if done.number else None


def _as_whole(order: TaskOrder) -> TaskOrder:
    return msgspec.structs.replace(order, element=order.remembered_as.whole)


def finished(txn: Transaction, order: TaskOrder, count: Callable[[Span], int]) -> Finished:
    """Returns the finished spans of the order's element and physical table, and their rows.

    `count` returns the number of rows in a span; called only where spans overlap."""
    return finished_among(rows_of(txn, order.job_id), order, count)


def finished_among(rows: list[SpanRow], order: TaskOrder, count: Callable[[Span], int]) -> Finished:
    """Like `finished`, from all of the job's finished spans."""
    spans: list[tuple[Span, int]] = []
    element = order.remembered_as
    subject = (element.ids[0], element.type.encode(), order.table_id)
    for row in rows:
        if (row.ele_id, row.ele_type, row.physical_id) == subject:
            span = Span(row.start_key, row.end_key)
            spans.append((span, json.loads(row.reorg_meta)["rows"]))
    return Finished(SpanSet(span for span, _ in spans), _rows_once(spans, count), len(spans))


def rows_of(txn: Transaction, job_id: int) -> list[SpanRow]:
    """Returns all finished spans of a job."""
    table = reorg_table()
    at = {c.name.L: n for n, c in enumerate(table.info.cols)}
    places = [at[field] for field in SpanRow.__struct_fields__]
    rows = reader.scan(txn, table, handles_of(job_id))
    return [SpanRow(*(row[place] for place in places)) for _, row in rows]


def restore(txn: Transaction, job_id: int, span: SpanRow) -> None:
    """Stores a finished span that was stored elsewhere."""
    table = reorg_table()
    values = msgspec.structs.asdict(span) | {
        "job_id": job_id,
        "curr_ele_id": span.ele_id,
        "curr_ele_type": span.ele_type,
    }
    row = [values[column.name.L] for column in table.info.cols]
    at = Span(span.start_key, span.end_key)
    handle = _handle_of(job_id, span.physical_id, span.ele_id, span.ele_type, at)
    txn.put(table.row_prefix + handle, table.encoder.encode(row))


def _rows_once(spans: list[tuple[Span, int]], count: Callable[[Span], int]) -> int:
    """Returns the rows of all spans, overlaps counted once. Late tasks of an earlier cut
    overlap."""
    done, end = 0, b""
    for span, rows in sorted(spans):
        if span.start >= end:
            done += rows
        elif span.end > end:
            done += count(Span(end, span.end))
        end = max(end, span.end)
    return done


def most_id(rows: Iterable[SpanRow]) -> int:
    """Returns the greatest id stored with these spans, or 0."""
    return max((json.loads(row.reorg_meta).get("most_id", 0) for row in rows), default=0)


def within(rows: Iterable[SpanRow], order: TaskOrder, span: Span) -> tuple[int, Span | None]:
    """Returns the number of finished rows of a span, and its missing part or None. The span must be
    one that a single task processes from its start."""
    element, done, start = order.remembered_as, 0, span.start
    subject = (element.ids[0], element.type.encode(), order.table_id)
    for row in rows:
        is_its = (row.ele_id, row.ele_type, row.physical_id) == subject
        if is_its and span.start <= row.start_key < span.end:
            done += json.loads(row.reorg_meta)["rows"]
            start = max(start, row.end_key)
    return done, Span(start, span.end) if start < span.end else None


def is_finished(txn: Transaction, task: Task) -> bool:
    """Whether exactly the task's span is finished; False without a job."""
    if not task.order.job_id:
        return False
    table, order, span = reorg_table(), task.order, task.span
    row = reader.get(txn, table, _handle(order, span))
    at = {c.name.L: n for n, c in enumerate(table.info.cols)}
    return row is not None and (row[at["start_key"]], row[at["end_key"]]) == span


def forget(txn: Transaction, job_id: int) -> None:
    """Removes the job's checkpoint, in the transaction that ends the job."""
    for span in (handles_of(job_id), k.span_of(k.meta("progress", job_id))):
        for key, _ in list(txn.scan(span)):
            txn.delete(key)
    for key in (k.meta("share", job_id), k.meta("rewrite", job_id)):
        if txn.get(key) is not None:
            txn.delete(key)


def pairs_of(task: Task, progress: TaskProgress) -> list[tuple[bytes, bytes]]:
    """Returns the pairs for a task's commit: its progress, and a row for each element that it has
    finished. Empty without a job."""
    order = task.order
    if not order.job_id:
        return []
    written = [progress_pair(task, progress)]
    for element in task.finishes if progress.finished else ():
        written += pairs(replace(order, element=element), task.span, progress.rows)
    return written


def progress_pair(task: Task, progress: TaskProgress) -> tuple[bytes, bytes]:
    """Returns the pair with a task's progress alone, which finishes no span."""
    key = k.meta("progress", task.order.job_id, task.order.run, task.ordinal)
    return key, msgspec.msgpack.encode(progress)


def read_progress(txn: Transaction, order: TaskOrder) -> list[TaskProgress]:
    """Returns the progress of this run's tasks."""
    span = k.span_of(k.meta("progress", order.job_id, order.run))
    return [from_msgpack(raw, TaskProgress) for _, raw in txn.scan(span)]
