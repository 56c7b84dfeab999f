"""INSERT of Arrow columns: converted and encoded like the rows of an IMPORT, by arrays.

    a table whose new rows need checks, a DEFAULT per row, lenient sql_mode    not possible
    a value that cannot be stored, NULL as an id, a key that exists            not certain

In both cases nothing is written, and the caller inserts row by row, with INSERT's errors, warnings
and ids.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from exuvia.base.errors import Refused
from exuvia.catalog.codec import row_batch
from exuvia.pipeline.kernels.entries import as_bytes, of_columns, positions_of
from exuvia.pipeline.kernels.load_files import Conversion
from exuvia.pipeline.sorted_rows import encoded_run
from exuvia.sql.result import Result
from exuvia.sql.statement.context import Context
from exuvia.sql.write.insert import MANY_IDS, InsertTarget
from exuvia.sql.write.rows import RowWriter
from exuvia.sql.write.strictness import strictness


def insert_arrays(
    context: Context, target: InsertTarget, arrays: Sequence[pa.Array]
) -> Result | None:
    """Inserts rows given by column, in the order of the target's named columns.

    Returns None, having written nothing, if a row might cause an error or a warning."""
    table = target.table
    rules = strictness(context.binding, False)
    rows = len(arrays[0]) if arrays else 0
    if not rows or rules.lenient or target.random is not None or target.has_sources:
        return None
    rules.begin(context)
    writer = RowWriter(table, context)
    if not writer.takes_new:
        return None
    if target.auto_is_named and not _are_own_ids(_ids_in(target, arrays)):
        return None
    first_id = _first_id(context, target, rows)
    if first_id is None:
        return None
    try:
        columns = Conversion(table, rules.mode, "", 0).of(
            arrays, [column for _, column in target.named], rows, first_id, 1
        )
        keys, payloads, _ = encoded_run(table, columns, rows, first_id)
    except (Refused, pa.ArrowException):
        return None
    if target.auto_is_named:
        context.ids_of(table.info).rebase(int(pc.max(_ids_in(target, arrays)).as_py()))
    indexes = [form.info for form in table.forms]
    stored = row_batch.decode(table, keys, payloads, 0, positions_of(table, indexes))
    places = [key for index in indexes for key in as_bytes(of_columns(table, index, stored).keys)]
    if not writer.insert_encoded(keys, payloads, places):
        return None
    writer.finish()
    return Result(affected=rows)


def _first_id(context: Context, target: InsertTarget, rows: int) -> int | None:
    """Returns the first of consecutive ids for the rows: AUTO_INCREMENT ids or hidden ones, 0 if
    they need none. None if each row must draw its id."""
    ids = context.ids_of(target.table.info)
    if target.auto >= 0 and not target.auto_is_named:
        settings = context.session.settings
        is_plain = settings.id_spacing.increment == 1 and not settings.forced_id
        if not is_plain or target.is_hidden_id or target.greatest_id < MANY_IDS:
            return None
        first = ids.next("auto", rows, settings.id_spacing)
        return first if first + rows - 1 <= target.greatest_id else None
    return ids.next("rowid", rows) if target.is_hidden_id else 0


def _ids_in(target: InsertTarget, arrays: Sequence[pa.Array]) -> pa.Array:
    """Returns the column of AUTO_INCREMENT ids."""
    return arrays[[position for position, _ in target.named].index(target.auto)]


def _are_own_ids(ids: pa.Array) -> bool:
    """Whether no id has to be generated: all are given as positive integers."""
    return bool(pa.types.is_integer(ids.type) and not ids.null_count and pc.min(ids).as_py() > 0)
