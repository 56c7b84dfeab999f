"""A new store of a backup of rows, and whether a backup is what was made.

    the store     is taken: from now on every program refuses it as not whole (definitions.py)
    the catalog   its tables, under their former ids
    a task a file rows and index entries, in one piece after another
    compared      rows with the checksums of the backup, indexes and foreign keys with their tables
    row counts    mysql.stats_meta has those that were loaded
    change logs   begin with what was loaded
    whole         databases get their names, the store its format: one transaction, the last

Interrupted, it leaves a store that says so; it is removed and restored again.
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
from exuvia.backup.rows import TOLD_EVERY_S, RowsCrew, RowsTask, Say, TaskKind
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

_COUNTED = 500


class Compared(NamedTuple):
    """How many tables, and how many of their indexes and foreign keys."""

    tables: int
    checks: int


def verify(place: str, master: str, say: Say) -> RowsRecord:
    """Every file is as it was written, and its rows are those that were read. On this host: a
    cluster's workers are tried with a store, and there is none. Raises Unavailable with what is
    not."""
    record = _whole(place)
    with closing(RowsCrew("", master if is_local(master) else "", say)) as crew:
        _do("verify", place, record, "", crew)
    return record


def restore(
    place: str, url: str, master: str, check: bool, say: Say
) -> tuple[RowsRecord, Compared]:
    """A store at the URL, where none is yet, or an empty one. Raises Unavailable, Refused, OSError;
    a store that was begun says that it is not whole."""
    record = _whole(place)
    with closing(RowsCrew(url, master, say)) as crew, closing(open_store(url)) as store:
        return record, restore_here(store, url, place, record, check, crew)


def restore_here(
    store: Store, url: str, place: str, record: RowsRecord, check: bool, crew: RowsCrew
) -> Compared:
    """Into an empty store that this process has open. `url`: where others find it."""
    version, databases = record.schema_version, record.databases
    infos = [disabled(each.info) for each in record.tables]  # who restores looks at rows first
    compared = Compared(0, 0)
    definitions.begin(store, version, record.last_id, databases)
    definitions.place(store, [_without_log(info) for info in infos], record.entries)
    _do("load", place, record, url, crew, store)
    if check:
        _do("compare", place, record, url, crew, store)
        compared = _check(store, record, crew.say)
    _count_rows(store, record)
    definitions.place(store, [info for info in infos if _without_log(info) != info], ())
    definitions.finish(store, record.store_format, databases)
    return compared


def _whole(place: str) -> RowsRecord:
    """What the folder holds; its files have the bytes that were written. Raises Unavailable."""
    record = folder.read(place)
    files = (file for each in record.tables for file in each.files)
    with ThreadPoolExecutor(os.cpu_count()) as readers:  # what reads and hashes lets others run
        for _ in readers.map(partial(folder.require_whole, place), files):
            pass
    return record


def _without_log(info: TableInfo) -> TableInfo:
    """The table while it is loaded: its change log begins behind that."""
    return evolve(info, exuvia_change_log=SchemaState.ABSENT)


def _tables(record: RowsRecord) -> Iterator[tuple[BackedTable, Table]]:
    """Those that have rows, as the new store has them."""
    homes = {each.id: each for each in record.databases}
    for each in record.tables:
        if each.info.is_in_store:
            home, version = homes[each.info.exuvia_db], record.schema_version
            yield each, definitions.table_of(each.info, home, version, EVALUATOR)


_DOING: dict[TaskKind, str] = {"verify": "verified", "load": "loaded", "compare": "compared"}


def _do(
    kind: TaskKind,
    place: str,
    record: RowsRecord,
    url: str,
    crew: RowsCrew,
    opened: Store | None = None,
) -> None:
    tasks: list[RowsTask] = []
    for each, table in _tables(record):
        tasks += [
            RowsTask(
                kind=kind,
                folder=place,
                file=file,
                order=order_for(table.part(file.physical_id), ()),
                info=each.info,
                store={"url": url},
            )
            for file in each.files
        ]
    tasks.sort(key=lambda task: -task.file.rows)

    def told(done: int, seconds: float) -> str:
        return f"{done:,} of {record.rows:,} rows {_DOING[kind]}, {done / seconds:,.0f} rows/s"

    crew.do(tasks, record.rows, told, opened)


def _count_rows(store: Store, record: RowsRecord) -> None:
    """What statistics believe of each table and partition: what is there."""
    counts: dict[int, int] = {}
    for each, table in _tables(record):
        for file in each.files:
            counts[file.physical_id] = counts.get(file.physical_id, 0) + file.rows
        if table.is_partitioned:
            counts[stats_meta.whole_id(table)] = each.rows
    ids = list(counts)
    for start in range(0, len(ids), _COUNTED):
        some = ids[start : start + _COUNTED]

        def work(txn: Transaction, some: Sequence[int] = some) -> None:
            version, locked = stats_meta.draw_version(txn), stats_meta.locked_ids(txn)
            for table_id in set(some) - locked:
                known = stats_meta.get(txn, table_id)
                if known is not None and known.rows != counts[table_id]:
                    stats_meta.put(txn, known._replace(version=version, rows=counts[table_id]))

        store.transact(work)


def _check(store: Store, record: RowsRecord, say: Say) -> Compared:
    checks = tables = 0
    told_s = time.monotonic()
    for each, table in _tables(record):
        name = f"{each.database}.{each.info.name.O}"
        try:
            checks += check_whole_table(store, table)
        except Refused as error:
            if error.code != ErrNoReferencedRow2.code:
                raise Refused(error.code, error.state, f"{name}: {error.message}") from error
            say(f"{name} had rows without a parent when the backup was made: {error.message}")
        tables += 1
        if time.monotonic() - told_s >= TOLD_EVERY_S:
            say(f"{name} and its indexes compared, {tables:,}. table")
            told_s = time.monotonic()
    return Compared(tables, checks)
