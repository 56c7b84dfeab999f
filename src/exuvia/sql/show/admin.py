"""ADMIN SHOW ..., and ADMIN statements that act on tables and indexes (TiDB 8.5's columns).

inside a snapshot    ADMIN SHOW DDL, NEXT_ROW_ID           (of jobs: show/admin_jobs.py)
beside it            ADMIN CHECK TABLE | INDEX: the pipeline reads its own snapshots

8223   an index is not its table
1452   a row of a child has no parent: counted and listed as ADD FOREIGN KEY does it. It may have
       come with foreign_key_checks=OFF, so this is no fault of the store.
"""

from exuvia.base.mysql_errors import ErrKeyDoesNotExist, ErrNoDB, ErrNotSupportedYet
from exuvia.catalog import meta
from exuvia.catalog.auto_random import random_column
from exuvia.catalog.constraint_info import FkInfo
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.state import SchemaState
from exuvia.catalog.table import Table
from exuvia.cluster import member, owner
from exuvia.ddl import queue
from exuvia.pipeline.plans import CheckRows
from exuvia.sql.context import Context
from exuvia.sql.nodes import TableName
from exuvia.sql.nodes.session import (
    AdminCheckIndex,
    AdminCheckTable,
    AdminShowDdl,
    AdminShowNextRowId,
)
from exuvia.sql.result import Result, Row
from exuvia.sql.session.running import Running
from exuvia.sql.show.listing import columns_of
from exuvia.sql.write.foreign_keys_sides import key_linked


def show_ddl(context: Context, node: AdminShowDdl) -> Result:
    """ADMIN SHOW DDL."""
    txn = context.txn
    jobs = queue.unfinished(txn)
    held = owner.owner_of(txn, "ddl")
    info = None if held is None else member.find(txn, held.member)
    running = [job for job in jobs if job.begun]
    oldest = [
        next((job for job in running if queue.is_reorg(job) == kind), None)
        for kind in (False, True)
    ]
    texts = "\n".join(job.describe() for job in oldest if job is not None)
    row: Row = [
        meta.version(txn),
        "" if held is None else held.member,
        "" if info is None else info.address,
        texts,
        context.session.services.member.id,
        running[0].query if running else "",
    ]
    columns = columns_of("SCHEMA_VER# OWNER_ID OWNER_ADDRESS RUNNING_JOBS:1024 SELF_ID QUERY:1024")
    return Result(columns, [row])


def show_next_row_id(context: Context, node: AdminShowNextRowId) -> Result:
    """ADMIN SHOW t NEXT_ROW_ID."""
    table = context.table(node.table.db or "", node.table.name)
    ids = context.session.services.ids
    place = [table.database.db_name.O, table.info.name.O]
    rows: list[Row] = []
    if not table.handle_positions:
        rowid = ids.peek(context.txn, table.info.id, "rowid")
        rows.append([*place, "_tidb_rowid", rowid, "_TIDB_ROWID"])
    auto = next((column for column in table.columns if column.auto_increment), None)
    if auto is not None:
        is_handle = table.info.pk_is_handle and table.info.auto_id_cache != 1
        kind = "_TIDB_ROWID" if is_handle else "AUTO_INCREMENT"
        rows.append([*place, auto.name.O, ids.peek(context.txn, table.info.id), kind])
    scattered = random_column(table.info)
    if scattered is not None:
        rows.append([*place, scattered.name.O, ids.peek(context.txn, table.info.id), "AUTO_RANDOM"])
    columns = columns_of("DB_NAME TABLE_NAME COLUMN_NAME NEXT_GLOBAL_ROW_ID# ID_TYPE")
    return Result(columns, rows)


# -- checks ----------------------------------------------------------------------------------------


def check_table(session: Running, node: AdminCheckTable, text: str) -> Result:
    """ADMIN CHECK TABLE: every public index of each, then every foreign key it has. Raises 8223,
    1452, 1146."""
    for name in node.tables:
        table = existing_table(session, name)
        for index in table.info.indexes:
            if index.state == SchemaState.PUBLIC and not index.exuvia_clustered:
                _check(session, table, index)
        for key in table.info.foreign_keys:
            if key.state == SchemaState.PUBLIC and key.version:
                _check_key(session, table, key)
    return Result()


def check_index_statement(session: Running, node: AdminCheckIndex, text: str) -> Result:
    """ADMIN CHECK INDEX t i. Raises 8223, 1176, 1146."""
    if node.ranges:
        raise ErrNotSupportedYet("ADMIN CHECK INDEX with ranges of handles")
    table = existing_table(session, node.table)
    index = table.info.index(node.index)
    if index is None or index.state != SchemaState.PUBLIC:
        raise ErrKeyDoesNotExist(node.index, table.info.name.O)
    if not index.exuvia_clustered:
        _check(session, table, index)
    return Result()


def existing_table(session: Running, name: TableName) -> Table:
    """A table in a snapshot of now; what was open is committed. Raises 1046, 1049, 1146."""
    session.commit()
    database = name.db or session.database
    if not database:
        raise ErrNoDB()
    txn = session.services.store.begin()
    try:
        return session.services.schemas.table(txn, database, name.name)
    finally:
        txn.rollback()


def _check_key(session: Running, table: Table, key: FkInfo) -> None:
    """Raises 1452. A key that is gone by now promises nothing."""
    from exuvia.pipeline.verify import check_rule  # brings pyarrow: only for who asks for it
    from exuvia.sql.write.checks_judge import judge

    plan = CheckRows("foreign key", key.exuvia_link)
    named = f"{judge.__module__}:{judge.__name__}"
    error = check_rule(session.services.store, table, plan, named)
    if error is not None and _still_holds(session, table, key):
        raise error


def _still_holds(session: Running, table: Table, key: FkInfo) -> bool:
    txn = session.services.store.begin()
    try:
        info = meta.get_table(txn, table.info.id)
        return info is not None and key_linked(info, key.exuvia_link) is not None
    finally:
        txn.rollback()


def _check(session: Running, table: Table, index: IndexInfo) -> None:
    from exuvia.pipeline.verify import check_index  # brings pyarrow: only for who asks for it

    fast = session.variable("tidb_enable_fast_table_check") == "ON"
    report = check_index(session.services.store, table, index, "fast" if fast else "slow")
    if report.faults:
        raise report.faults[0].refusal(table.info.name.O)
