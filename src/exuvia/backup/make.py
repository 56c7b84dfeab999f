"""Makes a backup of rows while nodes run.

moment            a snapshot shared by all tasks; on LMDB a copy of the file
catalog           at that moment, without running schema changes (definitions.py)
a task a file     spans of a table or partition, sized by the store's current row counts
backup.json       written last
"""

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime

from exuvia import __version__
from exuvia.backup import definitions, folder
from exuvia.backup.definitions import CarriedTable, Catalog
from exuvia.backup.folder import BackedTable, RowsFile, RowsRecord
from exuvia.backup.rows import FILE_ROWS, REPORT_EVERY_S, RowsCrew, RowsTask, Say
from exuvia.catalog import placement
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import SchemaState, TableInfo
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import ManagedTransaction
from exuvia.node.assemble import EVALUATOR
from exuvia.pipeline import checkpoint, moment
from exuvia.pipeline.task import order_for
from exuvia.sql.show.create import (
    create_database_text,
    create_table_text,
    sequence_statement,
    view_statement,
)
from exuvia.sql.write.foreign_keys import clause, names_of

MOST_S = 24 * 3600.0
_SYSTEM = ("mysql", "information_schema")


def make(url: str, place: str, master: str, say: Say) -> RowsRecord:
    """Backs up the store into an empty folder and returns its record. `say` receives lines of
    progress. Raises Unavailable, Refused, OSError, and empties the folder."""
    folder.begin(place)
    try:
        with (
            closing(RowsCrew(url, master, say)) as crew,
            moment_of(url, say) as (options, made_at),
            moment.opened(options) as store,
        ):
            return make_at(store, options, place, made_at, crew)
    except BaseException:  # also an interrupt
        folder.clear(place)
        raise


def make_at(
    store: Store, options: Mapping[str, str], place: str, made_at: str, crew: RowsCrew
) -> RowsRecord:
    """Backs up a moment, or a store without writers; `options` name which. `store`: as opened by
    this process."""
    catalog = _catalog(store, options)
    tasks, rows = _plan(store, catalog, place, options)
    tables = len({task.info.id for task in tasks})

    def progress_line(done: int, seconds: float) -> str:
        rate = f"{done / seconds:,.0f} rows/s"
        return f"{done:,} of about {rows:,} rows of {tables} tables, {rate}"

    record = _record(catalog, crew.do(tasks, rows, progress_line, store), made_at)
    folder.write(place, record, schema_text(catalog))
    return record


@contextmanager
def moment_of(url: str, say: Say) -> Iterator[tuple[Mapping[str, str], str]]:
    """Yields the options that name the moment, and its time: UTC, ISO 8601. Opening may take as
    long as a copy of the file."""
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    with ExitStack() as stack:
        with ThreadPoolExecutor(1) as opener:
            opening = opener.submit(stack.enter_context, moment.one_moment(url, MOST_S))
            seconds = 0.0
            while wait([opening], REPORT_EVERY_S).not_done:
                seconds += REPORT_EVERY_S
                say(f"taking one moment of the store, {seconds:.0f} s")
            options = opening.result()
        yield options, made_at


def _catalog(store: Store, options: Mapping[str, str]) -> Catalog:
    with ManagedTransaction(store, moment.view_of(store, options)) as txn:
        return definitions.read(txn, Schemas(store, evaluator=EVALUATOR))


def _plan(
    store: Store, catalog: Catalog, place: str, options: Mapping[str, str]
) -> tuple[list[RowsTask], int]:
    """Returns the tasks, those of the largest tables first, and the approximate number of rows."""
    tasks: list[tuple[int, RowsTask]] = []
    for table in catalog.tables:
        if table.info.is_in_store and table.is_carried:
            tasks += _tasks_of(store, table, place, options)
    tasks.sort(key=lambda pair: -pair[0])
    return [task for _, task in tasks], sum(rows for rows, _ in tasks)


def _tasks_of(
    store: Store, table: CarriedTable, place: str, options: Mapping[str, str]
) -> Iterator[tuple[int, RowsTask]]:
    where = folder.folder_of(table.source.database.db_name.O, table.info)
    for name, physical_id in physical_parts(table.info):
        span = keys.span_of(keys.row_prefix(physical_id))
        rows = store.count(span)
        spans = checkpoint.cut(store, [span], FILE_ROWS, rows)
        for number, part in enumerate(spans):
            file = RowsFile(
                name=f"{where}/{name}{number:05}.parquet", physical_id=physical_id, span=part
            )
            yield (
                rows // len(spans),
                RowsTask(
                    kind="write",
                    folder=place,
                    file=file,
                    order=order_for(table.source.part(physical_id), ()),
                    info=table.info,
                    store=options,
                ),
            )


def physical_parts(info: TableInfo) -> list[tuple[str, int]]:
    """Returns pairs of file name prefix and physical id, one per partition."""
    if info.partition is None:
        return [("", info.physical_ids[0])]
    return [
        (f"{re.sub('[^0-9A-Za-z]', '-', partition.name.O)}-{partition.id}-", partition.id)
        for partition in info.partition.definitions
    ]


def _record(catalog: Catalog, files: Mapping[str, RowsFile], made_at: str) -> RowsRecord:
    by_table: dict[int, list[RowsFile]] = {}
    owner = {n: table.info.id for table in catalog.tables for n in table.info.physical_ids}
    for _, file in sorted(files.items()):
        by_table.setdefault(owner[file.physical_id], []).append(file)
    tables = []
    for table in catalog.tables:
        table_files = tuple(by_table.get(table.info.id, ()))
        rows = sum(file.rows for file in table_files)
        name = table.source.database.db_name.O
        tables.append(BackedTable(database=name, info=table.info, rows=rows, files=table_files))
    return RowsRecord(
        format=folder.FORMAT,
        program=f"exuvia {__version__}",
        made_at=made_at,
        schema_version=catalog.version,
        store_format=catalog.format,
        last_id=catalog.last_id,
        rows=sum(table.rows for table in tables),
        databases=tuple(catalog.databases),
        tables=tuple(tables),
        entries=tuple(catalog.entries),
    )


# -- schema.sql ------------------------------------------------------------------------------------


def schema_text(catalog: Catalog) -> str:
    """Returns the definitions as statements. Views follow tables; a child table may precede its
    parent."""
    counters = dict(catalog.entries)
    settled = [
        Table(table.info, 0, table.source.database, 0, EVALUATOR) for table in catalog.tables
    ]
    parents = {link.link: table for table in settled for link in table.info.exuvia_referred}
    lines = ["SET foreign_key_checks = OFF;", *_policies(counters)]
    for database in catalog.databases:
        name = database.db_name
        if name.L in _SYSTEM:
            continue
        lines += ["", f"{create_database_text(database, if_not_exists=True)};"]
        lines.append(f"USE `{name.O.replace('`', '``')}`;")
        own = [table for table in settled if table.info.exuvia_db == database.id]
        for table in sorted(own, key=lambda table: table.info.view is not None):
            lines.append(f"{_statement(table, parents, counters)};")
    return "\n".join(lines) + "\n"


def _policies(entries: Mapping[bytes, bytes]) -> Iterator[str]:
    """CREATE PLACEMENT POLICY statements, which must precede the tables that name a policy."""
    prefix = keys.meta("policy")
    for key, payload in sorted(entries.items()):
        if key.startswith(prefix):
            info = placement.read_policy(payload)
            name = info.name.O.replace("`", "``")
            yield f"CREATE PLACEMENT POLICY IF NOT EXISTS `{name}` {info.settings.text()};"


def _statement(table: Table, parents: Mapping[int, Table], counters: Mapping[bytes, bytes]) -> str:
    info = table.info
    if info.view is not None:
        return view_statement(info, info.view)
    if info.sequence is not None:
        return sequence_statement(info, info.sequence)
    home = table.database.db_name.O
    keys_with_names = [
        names_of(key, table, parents.get(key.exuvia_link)) for key in info.foreign_keys
    ]
    constraints = [f"  {clause(key, home, ',')}" for key in keys_with_names]
    for check in info.checks:
        if check.state == SchemaState.PUBLIC:
            name = check.constraint_name.O.replace("`", "``")
            relaxed = "" if check.enforced else " /*!80016 NOT ENFORCED */"
            constraints.append(f"  CONSTRAINT `{name}` CHECK ({check.expr_string}){relaxed}")
    following = keys.read_number(counters.get(keys.meta("auto", info.id))) + 1
    return create_table_text(info, following, constraints)
