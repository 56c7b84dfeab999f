"""Loads many rows into a table without writers: unpublished, or empty and kept so by the caller.

    batch   Arrow record batch (or table), or a list of rows    any order; key order is fastest
      -> handles, payloads      vectorized; a list of rows by the row codec
      -> sorted runs            overwrite existing rows
    then, per span of rows, the backfill kernel (kernels/fill.py) fills all indexes without a
    reorg. Indexes of a job's table are filled and verified by the job's own reorg

Primary keys are checked if `judged`; otherwise the last of several rows with one key remains.
Unique indexes are always checked: raises Duplicate. With a job, every write requires the job's
epoch (law 2): raises Deposed once the job has continued or rolled back without this load.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from exuvia.base.errors import Duplicate, Refused, Unavailable
from exuvia.base.limits import SPAN_ROWS
from exuvia.catalog.codec import key_codec
from exuvia.catalog.codec.row_batch import encode
from exuvia.catalog.columns import Array, Keys
from exuvia.catalog.table import Table
from exuvia.catalog.writer import explain_duplicate
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.pipeline.checkpoint import cut
from exuvia.pipeline.executor import InlineTasks
from exuvia.pipeline.kernels.entries import as_bytes, positions, take
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.sorted_rows import handles_of_ids, handles_of_values, row_ids_from
from exuvia.pipeline.task import FAILED, UNAVAILABLE, Task, TaskOrder, order_for

_COMMIT_ROWS = 10_000

Batch = Any  # pyarrow.RecordBatch, pyarrow.Table, or a list of rows


def load(
    store: Store,
    table: Table,
    batches: Iterable[Batch],
    row_ids: Callable[[int], int] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    job_id: int = 0,
    epoch: int = 0,
    judged: bool = False,
) -> int:
    """Loads rows and, without a job, fills all indexes. Returns the number of rows. `row_ids`
    reserves the given number of hidden ids and returns the first; by default ids begin with 1."""
    rows = 0
    order = order_for(table, tuple(form.info.id for form in table.forms), job_id, epoch)
    has_row_ids = not table.handle_positions
    for batch in batches:
        size = len(batch) if isinstance(batch, list) else batch.num_rows
        first = row_ids(size) if row_ids is not None and has_row_ids and size else rows + 1
        handles, values = _encoded(table, batch, first)
        _write(store, order, handles, values, judged)
        rows += len(values)
    if not job_id:
        _index(store, order, order.table.row_span(), monotonic)
    return rows


def load_run(
    store: Store, table: Table, values: Sequence[bytes], row_ids: Array | None = None
) -> None:
    """Loads rows of a table without writers, overwriting existing rows. `values`: their payloads;
    `row_ids` (int64): the hidden ids of tables that have them. `index_run` fills the indexes."""
    handles = handles_of_values(table, list(values)) if row_ids is None else handles_of_ids(row_ids)
    _write(store, order_for(table, ()), handles, values, False)


def index_run(store: Store, table: Table, span: Span) -> None:
    """Fills all indexes for the rows in a span. Raises Duplicate, Unavailable, Refused."""
    order = order_for(table, tuple(form.info.id for form in table.forms))
    _index(store, order, span, time.monotonic)


def _encoded(table: Table, batch: Batch, first_row_id: int) -> tuple[Keys, list[bytes]]:
    """Returns handles and payloads of a batch."""
    has_row_ids = not table.handle_positions
    if isinstance(batch, list):
        values = [table.encoder.encode(row) for row in batch]
        if has_row_ids:
            return row_ids_from(first_row_id, len(batch)), values
        return [key_codec.handle_of(table, row) for row in batch], values
    columns = {name.lower(): batch.column(name) for name in batch.schema.names}
    values = encode(table, columns, batch.num_rows)
    if has_row_ids:
        return row_ids_from(first_row_id, batch.num_rows), values
    return handles_of_values(table, values), values


def _write(
    store: Store, order: TaskOrder, handles: Keys, values: Sequence[bytes], judged: bool
) -> None:
    """Writes one sorted run, in commits of `_COMMIT_ROWS`."""
    table = order.table
    sorting = positions(handles)
    sorted_handles = as_bytes(take(handles, sorting))
    sorted_values = [values[n] for n in sorting.tolist()]
    prefix = table.row_prefix
    for start in range(0, len(sorted_values), _COMMIT_ROWS):
        end = start + _COMMIT_ROWS
        keys = [prefix + handle for handle in sorted_handles[start:end]]
        answer = store.bulk(
            keys, sorted_values[start:end], order.fences, report=judged, overwrite=not judged
        )
        if answer.present:
            present_key = keys[answer.present[0][0]]
            error = Duplicate(present_key, present_key[len(prefix) :])
            raise explain_duplicate(table, error, table.decode(answer.present[0][1]))


def _index(store: Store, order: TaskOrder, whole: Span, monotonic: Callable[[], float]) -> None:
    """Fills all indexes that writers maintain, span by span."""
    if not order.index_ids:
        return
    spans = cut(store, [whole], SPAN_ROWS // len(order.index_ids))
    tasks = [Task(kind="fill", order=order, span=s, ordinal=n) for n, s in enumerate(spans)]
    dial = Fixed(PipelineSettings(batch_rows=_COMMIT_ROWS))
    for outcome in InlineTasks(store, tasks, dial, monotonic).run():
        if outcome.kind == UNAVAILABLE:
            raise Unavailable(outcome.text)
        if outcome.kind == FAILED:
            raise Refused(outcome.code, outcome.state, outcome.text)
        for duplicate in outcome.duplicates:
            error = Duplicate(duplicate.key, duplicate.other)
            error.message, error.args = duplicate.text, (duplicate.text,)
            raise error
