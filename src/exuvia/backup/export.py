"""Exports one table's rows as files, at one moment, while nodes run.

    DIR/DATABASE.TABLE.00000.parquet   like a backup's files (columns.py), for any reader
    DIR/DATABASE.TABLE.00000.csv       lines in the form IMPORT INTO reads (text.py)

A file has 250,000 rows. Spark workers write large tables, this process small ones, as for backups
(rows.py). A file gets its final name once it is complete.
"""

import os
from contextlib import closing

from exuvia.backup import definitions
from exuvia.backup.folder import RowsFile
from exuvia.backup.make import moment_of, physical_parts
from exuvia.backup.rows import FILE_ROWS, RowsCrew, RowsTask, Say
from exuvia.base import private_files
from exuvia.base.errors import Unavailable
from exuvia.base.mysql_errors import ErrNoSuchTable, ErrOptOnTemporaryTable
from exuvia.catalog.infoschema import Schemas
from exuvia.kv import keys
from exuvia.kv.transaction import ManagedTransaction
from exuvia.node.assemble import EVALUATOR
from exuvia.pipeline import checkpoint, moment
from exuvia.pipeline.task import order_for


def export(
    url: str, database: str, table: str, form: str, place: str, master: str, say: Say
) -> int:
    """Returns the number of exported rows. Raises Unavailable, 1146, OSError."""
    private_files.make_folder(place)
    prefix = f"{database}.{table}."
    if any(name.startswith(prefix) for name in os.listdir(place)):
        raise Unavailable(f"{place} has files of {database}.{table} already")
    with (
        closing(RowsCrew(url, master, say)) as crew,
        moment_of(url, say) as (options, _),
        moment.opened(options) as store,
    ):
        with ManagedTransaction(store, moment.view_of(store, options)) as txn:
            source = Schemas(store, evaluator=EVALUATOR).table(txn, database, table)
        if not source.info.is_stored:
            raise ErrNoSuchTable(database, table)
        if source.info.is_temporary:
            raise ErrOptOnTemporaryTable("export")
        info = definitions.public(source.info)
        tasks: list[RowsTask] = []
        rows = 0
        for _, physical_id in physical_parts(info):
            span = keys.span_of(keys.row_prefix(physical_id))
            part_rows = store.count(span)
            rows += part_rows
            for part in checkpoint.cut(store, [span], FILE_ROWS, part_rows):
                name = f"{prefix}{len(tasks):05}.{form}"
                tasks.append(
                    RowsTask(
                        kind="write" if form == "parquet" else "text",
                        folder=place,
                        file=RowsFile(name=name, physical_id=physical_id, span=part),
                        order=order_for(source.part(physical_id), ()),
                        info=info,
                        store=options,
                    )
                )

        def progress_line(done: int, seconds: float) -> str:
            return f"{done:,} of about {rows:,} rows, {done / seconds:,.0f} rows/s"

        files = crew.do(tasks, rows, progress_line, store)
    return sum(file.rows for file in files.values())
