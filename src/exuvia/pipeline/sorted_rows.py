"""Encodes many rows as one sorted run: columns to keys and payloads, without a Python object per
value."""

from typing import Any

import numpy as np

from exuvia.catalog.codec import key_batch, key_encoder, row_batch
from exuvia.catalog.columns import Array, Columns, Keys
from exuvia.catalog.table import Table
from exuvia.pipeline.kernels.entries import as_bytes, positions, take


def encoded_run(
    table: Table, columns: dict[str, Any], rows: int, first_row_id: int
) -> tuple[list[bytes], list[bytes], Array]:
    """Returns keys and payloads in key order, and each one's position in the batch. `columns`: in
    the form of row_batch.encode. Raises 1048."""
    values = row_batch.encode(table, columns, rows)
    has_row_ids = not table.handle_positions
    handles = row_ids_from(first_row_id, rows) if has_row_ids else handles_of_values(table, values)
    sorting = positions(handles)
    keys = [table.row_prefix + handle for handle in as_bytes(take(handles, sorting))]
    return keys, [values[n] for n in sorting.tolist()], sorting


def handles_of_values(table: Table, values: list[bytes]) -> Keys:
    """Returns the handles of rows with a primary key."""
    blank = [table.row_prefix + bytes(8)] * len(values)
    return handles_in(table, row_batch.decode(table, blank, values, 0, table.handle_positions))


def handles_in(table: Table, columns: Columns) -> Keys:
    """Returns the handles from `columns`, which contains the primary key's columns."""
    parts = [columns.column(position) for position in table.handle_positions]
    form = table.handle_form
    if form is None:
        words = key_batch.sortable(parts[0]).astype(">u8")
        return words.view("V8")
    pairs = zip(parts, table.handle_lengths, strict=True)
    joined = key_batch.join_rows([key_batch.part_bytes(*pair) for pair in pairs])
    return [key_encoder.cut(value, form.limit) for value in joined.to_pylist()]


def row_ids_from(first: int, rows: int) -> Array:
    """Returns the handles of `rows` consecutive hidden ids."""
    return handles_of_ids(np.arange(first, first + rows, dtype=np.int64))


def handles_of_ids(ids: Array) -> Array:
    """Returns the handles of hidden ids (int64)."""
    words: Array = ids.astype(np.uint64) + np.uint64(1 << 63)
    return words.astype(">u8").view("V8")
