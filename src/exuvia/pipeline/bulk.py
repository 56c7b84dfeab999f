"""Loading many rows into a table that nobody writes yet: unpublished, or empty and kept so by the
caller.

    batch   Arrow record batch (or table), or a list of rows    any order; in key order is fastest
      -> handles, payloads      vectorised; a list of rows by the row codec
      -> sorted runs            written over whatever stands
    then, per span of rows, all indexes by the fill's own kernel (kernels/fill.py), without a
    reorg; those of a job's table are filled and verified by the job's own reorg

The primary key is judged where `judged` asks for it, else the last of two rows with one key stands.
A unique index always is: Duplicate is raised. With a job and its epoch every write requires that
the epoch stands (law 2): Deposed once the job went on or back without this load.
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
    """Load rows and, but for a job, make all index entries; how many rows. `row_ids` gives the
    first of so many, for tables whose rows have hidden ids; without it they begin with 1."""
    rows = 0
    order = order_for(table, tuple(form.info.id for form in table.forms), job_id, epoch)
    hidden = not table.handle_positions
    for batch in batches:
        size = len(batch) if isinstance(batch, list) else batch.num_rows
        first = row_ids(size) if row_ids is not None and hidden and size else rows + 1
        handles, values = _encoded(table, batch, first)
        _write(store, order, handles, values, judged)
        rows += len(values)
    if not job_id:
        _index(store, order, order.table.row_span(), monotonic)
    return rows


def load_run(
    store: Store, table: Table, values: Sequence[bytes], row_ids: Array | None = None
) -> None:
    """Rows of a table that nobody writes, over whatever stands. `values`: their payloads, `row_ids`
    (int64) the hidden ids of tables that have them. `index_run` makes their index entries."""
    handles = handles_of_values(table, list(values)) if row_ids is None else handles_of_ids(row_ids)
    _write(store, order_for(table, ()), handles, values, False)


def index_run(store: Store, table: Table, span: Span) -> None:
    """All index entries of the rows in a span. Raises Duplicate, Unavailable, Refused."""
    order = order_for(table, tuple(form.info.id for form in table.forms))
    _index(store, order, span, time.monotonic)


def _encoded(table: Table, batch: Batch, first_row_id: int) -> tuple[Keys, list[bytes]]:
    """Handles and payloads of a batch."""
    hidden = not table.handle_positions
    if isinstance(batch, list):
        values = [table.encoder.encode(row) for row in batch]
        if hidden:
            return row_ids_from(first_row_id, len(batch)), values
        return [key_codec.handle_of(table, row) for row in batch], values
    columns = {name.lower(): batch.column(name) for name in batch.schema.names}
    values = encode(table, columns, batch.num_rows)
    if hidden:
        return row_ids_from(first_row_id, batch.num_rows), values
    return handles_of_values(table, values), values


def _write(
    store: Store, order: TaskOrder, handles: Keys, values: Sequence[bytes], judged: bool
) -> None:
    """One sorted run, in commits of `_COMMIT_ROWS`."""
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
            taken = keys[answer.present[0][0]]
            error = Duplicate(taken, taken[len(prefix) :])
            raise explain_duplicate(table, error, table.decode(answer.present[0][1]))


def _index(store: Store, order: TaskOrder, whole: Span, monotonic: Callable[[], float]) -> None:
    """Entries of all indexes that writers would keep, span by span."""
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
        for twice in outcome.duplicates:
            error = Duplicate(twice.key, twice.other)
            error.message, error.args = twice.text, (twice.text,)
            raise error
