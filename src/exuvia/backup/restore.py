"""Restores a backup of rows into a new store, and verifies backups.

    claim         from now on every program refuses the store as not whole (definitions.py)
    catalog       writes the tables under their former ids
    load          rows and index entries, one task per file
    compare       rows with the backup's checksums, indexes and foreign keys with their tables
    row counts    mysql.stats_meta gets the numbers of loaded rows
    change logs   begin with the loaded rows
    whole         one last transaction writes the names of databases and the store's format

An interrupted restore leaves a store that is marked as not whole. Remove it and restore again.
"""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import NamedTuple

from exuvia.backup import definitions, folder
from exuvia.backup.folder import BackedTable, RowsRecord
from exuvia.backup.rows import REPORT_EVERY_S, RowsCrew, RowsTask, Say, TaskKind
from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrNoReferencedRow2
from exuvia.catalog.model import SchemaState, TableInfo, evolve
from exuvia.catalog.table import Table
from exuvia.catalog.ttl import disabled
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import Transaction
from exuvia.node.assemble import EVALUATOR
from exuvia.pipeline.spark import is_local
from exuvia.pipeline.task import order_for
from exuvia.sql.admin.maintenance import check_whole_table
from exuvia.stats import meta as stats_meta

_COUNTS_A_TRANSACTION = 500


class Compared(NamedTuple):
    """Numbers of compared tables, and of their indexes and foreign keys."""

    tables: int
    checks: int


def verify(place: str, master: str, say: Say) -> RowsRecord:
    """Checks each file's digest and the checksum of its rows.

    Runs on this host: a cluster's workers are tested with a store, which verification does not
    have. Raises Unavailable with the first difference."""
    record = _read_whole(place)
    with closing(RowsCrew("", master if is_local(master) else "", say)) as crew:
        _run_tasks("verify", place, record, "", crew)
    return record


def restore(
    place: str, url: str, master: str, check: bool, say: Say
) -> tuple[RowsRecord, Compared]:
    """Restores a backup into a missing or empty store at the URL. Raises Unavailable, Refused,
    OSError; a partial store stays marked as not whole."""
    record = _read_whole(place)
    with closing(RowsCrew(url, master, say)) as crew, closing(open_store(url)) as store:
        return record, restore_here(store, url, place, record, check, crew)


def restore_here(
    store: Store, url: str, place: str, record: RowsRecord, check: bool, crew: RowsCrew
) -> Compared:
    """Restores into an empty store that this process has open. `url`: its address for workers."""
    version, databases = record.schema_version, record.databases
    # TTL stays disabled until the restored rows are reviewed
    infos = [disabled(table.info) for table in record.tables]
    compared = Compared(0, 0)
    definitions.begin(store, version, record.last_id, databases)
    definitions.place(store, [_without_change_log(info) for info in infos], record.entries)
    _run_tasks("load", place, record, url, crew, store)
    if check:
        _run_tasks("compare", place, record, url, crew, store)
        compared = _check(store, record, crew.say)
    _count_rows(store, record)
    definitions.place(store, [info for info in infos if _without_change_log(info) != info], ())
    definitions.finish(store, record.store_format, databases)
    return compared


def _read_whole(place: str) -> RowsRecord:
    """Returns the record of a backup whose files all have their recorded bytes. Raises
    Unavailable."""
    record = folder.read(place)
    files = (file for table in record.tables for file in table.files)
    with ThreadPoolExecutor(os.cpu_count()) as readers:  # read and hash release the GIL
        for _ in readers.map(partial(folder.require_whole, place), files):
            pass
    return record


def _without_change_log(info: TableInfo) -> TableInfo:
    """Returns the table as it is during the load: its change log starts after the load."""
    return evolve(info, exuvia_change_log=SchemaState.ABSENT)


def _tables(record: RowsRecord) -> Iterator[tuple[BackedTable, Table]]:
    """Tables that store rows, as defined in the new store."""
    homes = {database.id: database for database in record.databases}
    for backed in record.tables:
        if backed.info.is_in_store:
            home, version = homes[backed.info.exuvia_db], record.schema_version
            yield backed, definitions.table_of(backed.info, home, version, EVALUATOR)


_PAST_TENSE: dict[TaskKind, str] = {"verify": "verified", "load": "loaded", "compare": "compared"}


def _run_tasks(
    kind: TaskKind,
    place: str,
    record: RowsRecord,
    url: str,
    crew: RowsCrew,
    opened: Store | None = None,
) -> None:
    tasks: list[RowsTask] = []
    for backed, table in _tables(record):
        tasks += [
            RowsTask(
                kind=kind,
                folder=place,
                file=file,
                order=order_for(table.part(file.physical_id), ()),
                info=backed.info,
                store={"url": url},
            )
            for file in backed.files
        ]
    tasks.sort(key=lambda task: -task.file.rows)

    def progress_line(done: int, seconds: float) -> str:
        return f"{done:,} of {record.rows:,} rows {_PAST_TENSE[kind]}, {done / seconds:,.0f} rows/s"

    crew.do(tasks, record.rows, progress_line, opened)


def _count_rows(store: Store, record: RowsRecord) -> None:
    """Sets the row count of each table and partition in the statistics."""
    counts: dict[int, int] = {}
    for backed, table in _tables(record):
        for file in backed.files:
            counts[file.physical_id] = counts.get(file.physical_id, 0) + file.rows
        if table.is_partitioned:
            counts[stats_meta.whole_id(table)] = backed.rows
    ids = list(counts)
    for start in range(0, len(ids), _COUNTS_A_TRANSACTION):
        some = ids[start : start + _COUNTS_A_TRANSACTION]

        def work(txn: Transaction, some: Sequence[int] = some) -> None:
            version, locked = stats_meta.draw_version(txn), stats_meta.locked_ids(txn)
            for table_id in set(some) - locked:
                counts_row = stats_meta.get(txn, table_id)
                if counts_row is not None and counts_row.rows != counts[table_id]:
                    stats_meta.put(txn, counts_row._replace(version=version, rows=counts[table_id]))

        store.transact(work)


def _check(store: Store, record: RowsRecord, say: Say) -> Compared:
    checks = tables = 0
    reported_s = time.monotonic()
    for backed, table in _tables(record):
        name = f"{backed.database}.{backed.info.name.O}"
        try:
            checks += check_whole_table(store, table)
        except Refused as error:
            if error.code != ErrNoReferencedRow2.code:
                raise Refused(error.code, error.state, f"{name}: {error.message}") from error
            say(f"{name} had rows without a parent when the backup was made: {error.message}")
        tables += 1
        if time.monotonic() - reported_s >= REPORT_EVERY_S:
            say(f"{name} and its indexes compared, {tables:,}. table")
            reported_s = time.monotonic()
    return Compared(tables, checks)
