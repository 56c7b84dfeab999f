"""ADMIN SHOW DDL and NEXT_ROW_ID, and statements that check, count or repair tables and indexes.

    ADMIN CHECK TABLE | INDEX, CHECK TABLE      8223, 1452; EXTENDED: each value against its type
    ADMIN INSPECT TABLE                         in the background: ddl/inspection.py
    ADMIN CANCEL INSPECT JOBS ids
    ADMIN CHECKSUM TABLE                        TiDB 8.5's columns
    ADMIN RECOVER INDEX, ADMIN CLEANUP INDEX    add missing entries, remove wrong ones
    ADMIN CLEANUP TABLE LOCK, ALTER .. COMPACT  nothing to do: there are no locks, no replicas
    ADMIN REPAIR TABLE                          8215
    OPTIMIZE, REPAIR, SPLIT TABLE               nothing to do: a table is one run of keys
    DO                                          evaluates expressions without a result

Checks and repairs use the pipeline's kernels in this process, each in snapshots of its own. Writers
continue meanwhile. A KILL ends a check between two waves.

8223   an index differs from its table
1452   a row of a child has no parent: counted and listed as by ADD FOREIGN KEY. The row may have
       been written with foreign_key_checks=OFF, so this is not a fault of the store.
"""

from collections.abc import Callable, Generator, Sequence

from exuvia.base.errors import Refused, SchemaChanged, Unavailable
from exuvia.base.limits import SPAN_ROWS
from exuvia.base.mysql_errors import (
    ErrKeyDoesNotExist,
    ErrNoDB,
    ErrNotSupportedYet,
    ErrOptOnTemporaryTable,
    ErrRepairTable,
    ErrUnknown,
    ErrUnknownPartition,
    ErrWrongObject,
)
from exuvia.base.types import packed_moment
from exuvia.catalog import meta, reader
from exuvia.catalog.autoid import random_column
from exuvia.catalog.codec import key_codec
from exuvia.catalog.model import IndexInfo, SchemaState
from exuvia.catalog.table import Table
from exuvia.catalog.temporal import shift_zone
from exuvia.cluster import member, owner
from exuvia.ddl import inspection, queue
from exuvia.ddl.actions import is_reorg
from exuvia.ddl.inspection import Inspection
from exuvia.kv import keys
from exuvia.kv.packet import Span, is_live
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.reorg import TableRule
from exuvia.sql.nodes import (
    AdminCancelInspect,
    AdminCheckIndex,
    AdminChecksum,
    AdminCheckTable,
    AdminCleanupLocks,
    AdminInspect,
    AdminRepairIndex,
    AdminRepairTable,
    AdminShowDdl,
    AdminShowNextRowId,
    AdminShowSlow,
    CompactTable,
    Do,
    TableMaintenance,
    TableName,
)
from exuvia.sql.result import BIGINT, Note, OutputColumn, Result, Row
from exuvia.sql.select import relational
from exuvia.sql.show.listing import columns_of
from exuvia.sql.statement.context import Context, SessionApi


def show_ddl(context: Context, node: AdminShowDdl) -> Result:
    """ADMIN SHOW DDL."""
    txn = context.txn
    jobs = queue.unfinished(txn)
    ddl_owner = owner.owner_of(txn, "ddl")
    info = None if ddl_owner is None else member.find(txn, ddl_owner.member)
    running = [job for job in jobs if job.begun]
    oldest = [
        next((job for job in running if is_reorg(job) == kind), None) for kind in (False, True)
    ]
    texts = "\n".join(job.describe() for job in oldest if job is not None)
    row: Row = [
        meta.version(txn),
        "" if ddl_owner is None else ddl_owner.member,
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


_WHOLE_SECONDS = ~((1 << 20) - 1)  # a packed moment without its microseconds
_SLOW = (
    "SQL:4096 START@ DURATION DETAILS:256 SUCC# CONN_ID# TRANSACTION_TS# USER DB TABLE_IDS"
    " INDEX_IDS INTERNAL# DIGEST SESSION_ALIAS"
)


def show_slow(context: Context, node: AdminShowSlow) -> Result:
    """ADMIN SHOW SLOW for this node, the latest or the slowest. INTERNAL is always empty."""
    listed, silent = context.session.services.slow.here()
    for reason in silent:
        context.note(ErrUnknown.code, reason)
    slow_statements = [slow for _, slow in listed] if node.kind != "internal" else []
    by_time = node.kind == "recent"
    slow_statements.sort(key=lambda slow: slow.ended_ns if by_time else slow.took_s, reverse=True)
    rows: list[Row] = []
    for slow in slow_statements[: node.count]:
        began = packed_moment(slow.ended_ns - int(slow.took_s * 1e9))
        line: Row = [
            slow.query,
            shift_zone(began, None, context.zone) & _WHOLE_SECONDS,
            f"{slow.took_s:.6f}",
        ]
        line += ["", int(slow.succeeded), slow.connection, 0, slow.user, slow.database]
        rows.append([*line, "", "", 0, "", ""])
    return Result(columns_of(_SLOW), rows)


# -- checks ----------------------------------------------------------------------------------------


def check_table(session: SessionApi, node: AdminCheckTable, text: str) -> Result:
    """ADMIN CHECK TABLE: compares the public indexes and foreign keys of each table with its rows.

    EXTENDED reads all columns and checks that each value fits its column's type. Raises 8223, 1452,
    1146."""
    store, fast = session.services.store, _is_fast(session)
    for name in node.tables:
        table = existing_table(session, name, "admin check table")
        table = _checked(session, name, table, lambda table: check_whole_table(store, table, fast))
        if node.extended:
            _checked(session, name, table, lambda table: _check_rule(store, table, "types", 0))
    return Result()


def _checked(
    session: SessionApi, name: TableName, table: Table, check: Callable[[Table], object]
) -> Table:
    """The table that the check has passed. Raises its errors, 1146.

    If it fails and the table was changed in the meantime, the new definition is checked. A schema
    change may have removed what the check read."""
    while True:
        try:
            check(table)
            return table
        except (Refused, SchemaChanged, Unavailable):
            now = existing_table(session, name)
            if now.revision == table.revision:
                raise
            session.check_interrupt()
            table = now


def check_whole_table(store: Store, table: Table, fast: bool = True) -> int:
    """Compare indexes and foreign keys with the rows. Returns their number. Raises 8223, 1452."""
    checked = 0
    for index in table.info.indexes:
        if index.state == SchemaState.PUBLIC and not index.exuvia_clustered:
            _check(store, table, index, fast)
            checked += 1
    for key in table.info.foreign_keys:
        if key.state == SchemaState.PUBLIC and key.version:
            _check_rule(store, table, "foreign key", key.exuvia_link)
            checked += 1
    return checked


def check_index_statement(session: SessionApi, node: AdminCheckIndex, text: str) -> Result:
    """ADMIN CHECK INDEX t i. Raises 8223, 1176, 1146."""
    table = existing_table(session, node.table, "admin check index")
    index = table.info.index(node.index)
    if index is None or index.state != SchemaState.PUBLIC:
        raise ErrKeyDoesNotExist(node.index, table.info.name.O)
    if node.ranges:
        return _entries_in(session, table, index, node.ranges)
    store, fast = session.services.store, _is_fast(session)

    def check(table: Table) -> None:
        current = table.info.index_by_id(index.id)
        if current is not None and current.state == SchemaState.PUBLIC:
            _check(store, table, current, fast)

    if not index.exuvia_clustered:
        _checked(session, node.table, table, check)
    return Result()


def _entries_in(
    session: SessionApi, table: Table, index: IndexInfo, ranges: Sequence[tuple[int, int]]
) -> Result:
    """The index entries whose rows have a handle in one of the half-open ranges.

    In the order of the index: the values of its columns, and the handle. Raises 1235 for handles
    that are not integers."""
    if table.info.is_common_handle or index.exuvia_clustered:
        raise ErrNotSupportedYet("ADMIN CHECK INDEX with ranges for a non-integer handle")
    positions = table.form(index).positions
    columns = [
        OutputColumn(table.info.cols[at].name.O, table.info.cols[at].type) for at in positions
    ]
    rows: list[Row] = []
    with session.services.store.read() as txn:
        for part in (table,) if index.is_global else table.parts:
            for key, payload in txn.scan(part.index_span(index)):
                session.check_interrupt()
                if not is_live(payload):
                    continue
                values, encoded = key_codec.split_entry(part, index, key, payload)
                of_row, inner = part.holder(part.form(index), encoded)
                handle = keys.read_i64(inner)
                if any(least <= handle < most for least, most in ranges):
                    row = reader.get(txn, of_row, inner)
                    entry_values = values or [None] * len(positions)
                    current = entry_values if row is None else [row[at] for at in positions]
                    rows.append([*current, handle])
    return Result([*columns, OutputColumn("extra_handle", BIGINT)], rows)


def existing_table(session: SessionApi, name: TableName, statement_name: str = "") -> Table:
    """The table in a new snapshot. Commits the open transaction.

    `statement_name`: a statement that refuses temporary tables. Raises 1046, 1049, 1146, 8006."""
    session.commit()
    database = name.db or session.database
    if not database:
        raise ErrNoDB()
    with session.services.store.read() as txn:
        table = session.services.schemas.table(txn, database, name.name)
    if statement_name and table.info.is_temporary:
        raise ErrOptOnTemporaryTable(statement_name)
    return table


def _check_rule(store: Store, table: Table, kind: str, number: int) -> None:
    """Raises the error of the rule with the rows that violate it."""
    from exuvia.pipeline.verify.compare import (
        check_rule,  # imports pyarrow, so only on demand
    )
    from exuvia.sql.write.checks_judge import judge

    rule = TableRule(kind, number)
    error = check_rule(store, table, rule, f"{judge.__module__}:{judge.__name__}")
    if error is not None:
        raise error


def _is_fast(session: SessionApi) -> bool:
    return session.variable("tidb_enable_fast_table_check") == "ON"


def _check(store: Store, table: Table, index: IndexInfo, fast: bool) -> None:
    from exuvia.pipeline.verify.compare import (
        check_index,  # imports pyarrow, so only on demand
    )

    report = check_index(store, table, index, "fast" if fast else "slow")
    if report.faults:
        raise report.faults[0].refusal(table.info.name.O)


def inspect(session: SessionApi, node: AdminInspect, text: str) -> Result:
    """ADMIN INSPECT TABLE: start inspections in the background. Raises 1146, 1347."""
    tables = [existing_table(session, name, "admin inspect table") for name in node.tables]
    for table in tables:
        if not table.info.is_stored:
            database, name = table.database.db_name.O, table.info.name.O
            raise ErrWrongObject(database, name, "BASE TABLE")
    services = session.services

    def ask(txn: Transaction) -> list[Inspection]:
        services.member.guard(txn)
        wall_ns = services.clock.wall_ns()
        user = f"{session.user}@{session.host}"
        return [inspection.ask(txn, table, wall_ns, user) for table in tables]

    started = services.store.transact(ask)
    rows: list[Row] = [
        [started_job.id, started_job.database, started_job.table, started_job.state]
        for started_job in started
    ]
    return Result(columns_of("JOB_ID# TABLE_SCHEMA TABLE_NAME STATE"), rows)


def cancel_inspect(session: SessionApi, node: AdminCancelInspect, text: str) -> Result:
    """ADMIN CANCEL INSPECT JOBS."""
    session.commit()
    services = session.services
    rows: list[Row] = []
    for number in node.ids:

        def cancel(txn: Transaction, number: int = number) -> None:
            services.member.guard(txn)
            inspection.cancel(txn, number)

        try:
            services.store.transact(cancel)
            rows.append([str(number), "successful"])
        except Refused as error:
            rows.append([str(number), f"error: [ddl:{error.code}]{error.message}"])
    return Result(columns_of("JOB_ID RESULT:128"), rows)


# -- ADMIN CHECKSUM, RECOVER, CLEANUP --------------------------------------------------------------


_CHECKSUM = "Db_name Table_name Checksum_crc64_xor:22 Total_kvs# Total_bytes#"


def cleanup_locks(session: SessionApi, node: AdminCleanupLocks, text: str) -> Result:
    """ADMIN CLEANUP TABLE LOCK: does nothing, because there are no table locks. Raises 1046, 1146,
    1347."""
    for name in node.tables:
        _base_table(session, name)
    return Result()


def _base_table(session: SessionApi, name: TableName) -> Table:
    table = existing_table(session, name)
    if not table.info.is_stored:
        raise ErrWrongObject(table.database.db_name.O, table.info.name.O, "BASE TABLE")
    return table


def repair_table(session: SessionApi, node: AdminRepairTable, text: str) -> Result:
    """ADMIN REPAIR TABLE: raises 8215, because only schema changes write definitions."""
    raise ErrRepairTable("TiDB is not in REPAIR MODE")


def compact(session: SessionApi, node: CompactTable, text: str) -> Result:
    """ALTER TABLE ... COMPACT: returns a warning, because there are no TiFlash replicas.

    Raises 1146, 1347, 1735; 1105 for partitions of a table that is not partitioned."""
    info = _base_table(session, node.table).info
    if node.partitions and info.partition is None:
        message = f"table:{info.name.O} is not a partition table, but user specify"
        raise ErrUnknown(f"{message} partition name list:[{' '.join(node.partitions)}]")
    definitions = () if info.partition is None else info.partition.definitions
    for name in node.partitions:
        if all(definition.name.L != name.lower() for definition in definitions):
            raise ErrUnknownPartition(name, info.name.O)
    message = "compact skipped: no tiflash replica in the table"
    return Result(warnings=[Note("Warning", ErrUnknown.code, message)])


def checksum(session: SessionApi, node: AdminChecksum, text: str) -> Result:
    """ADMIN CHECKSUM TABLE over rows and public indexes. Raises 1046, 1146."""
    rows: list[Row] = []
    for name in node.tables:
        table = existing_table(session, name, "admin checksum table")
        total, pairs, size = 0, 0, 0
        for n, part in enumerate(table.parts):
            for checksums in _checksums(session, part, with_global=n == 0):
                total, pairs, size = total ^ checksums[0], pairs + checksums[1], size + checksums[2]
        rows.append([table.database.db_name.O, table.info.name.O, str(total), pairs, size])
    return Result(columns_of(_CHECKSUM), rows)


def _checksums(session: SessionApi, part: Table, with_global: bool) -> list[tuple[int, int, int]]:
    from exuvia.pipeline.checkpoint import cut  # imports pyarrow, so only on demand
    from exuvia.pipeline.task import Outcome, Task, order_for
    from exuvia.pipeline.verify.compare import run_here

    store = session.services.store
    sides: list[tuple[int, Span]] = [(0, part.row_span())]
    for index in part.info.indexes:
        counts = with_global or not index.is_global
        if counts and index.state == SchemaState.PUBLIC and not index.exuvia_clustered:
            sides.append((index.id, part.index_span(index)))
    order = order_for(part, ())
    tasks: list[Task] = []
    for index_id, whole in sides:
        for span in cut(store, [whole], SPAN_ROWS, store.count(whole), 1):
            span_task = Task(
                kind="checksum", order=order, span=span, ordinal=len(tasks), index_id=index_id
            )
            tasks.append(span_task)

    def waves() -> Generator[list[Task], list[Outcome], list[tuple[int, int, int]]]:
        checksums = []
        for task in tasks:
            session.check_interrupt()
            outcomes = yield [task]
            checksums.append(outcomes[0].result)
        return checksums

    return run_here(store, waves())


def repair(session: SessionApi, node: AdminRepairIndex, text: str) -> Result:
    """ADMIN RECOVER | CLEANUP INDEX t i. Raises 1046, 1146, 1176."""
    from exuvia.pipeline.task import all_parts, order_for
    from exuvia.pipeline.verify.compare import run_here
    from exuvia.pipeline.verify.repair import Repair  # imports pyarrow, so only on demand

    table = existing_table(session, node.table, f"admin {node.kind} index")
    index = table.info.index(node.index)
    if index is None or index.state != SchemaState.PUBLIC:
        raise ErrKeyDoesNotExist(node.index, table.info.name.O)
    services = session.services
    done = scanned = 0
    parts = (table,) if index.is_global else table.parts
    for part in () if index.exuvia_clustered else parts:
        session.check_interrupt()
        repairing = Repair(services.store, part, index, services.member.guard)
        method = repairing.recover if node.kind == "recover" else repairing.cleanup
        order = order_for(part, (index.id,))
        order = all_parts(order) if index.is_global else order
        scanned += run_here(services.store, method(order))
        done += repairing.done
    if node.kind == "recover":
        return Result(columns_of("ADDED_COUNT# SCAN_COUNT#"), [[done, scanned]])
    return Result(columns_of("REMOVED_COUNT#"), [[done]])


# -- CHECK, OPTIMIZE, REPAIR, SPLIT TABLE ----------------------------------------------------------


_COLUMNS = "Table Op Msg_type Msg_text:1024"


def maintain(session: SessionApi, node: TableMaintenance, text: str) -> Result:
    """CHECK TABLE compares indexes with rows; EXTENDED also checks values against types.

    OPTIMIZE, REPAIR and SPLIT have nothing to do, because a table is one range of keys."""
    if node.kind == "split":
        existing_table(session, node.tables[0], "split table")
        return Result(columns_of("TOTAL_SPLIT_REGION# SCATTER_FINISH_RATIO#"), [[0, 1]])
    rows = [row for table in node.tables for row in _maintain(session, node, table)]
    return Result(columns_of(_COLUMNS), rows)


def _maintain(session: SessionApi, node: TableMaintenance, table: TableName) -> list[Row]:
    kind = node.kind
    title = f"{table.db or session.database}.{table.name}"
    try:
        if kind == "check":
            check_table(session, AdminCheckTable((table,), node.extended), "")
        else:
            existing_table(session, table)
    except Refused as error:
        return [[title, kind, "Error", error.message], [title, kind, "status", "Operation failed"]]
    if kind in ("optimize", "repair"):
        return [[title, kind, "note", "Nothing to do: rows and indexes need no upkeep"]]
    return [[title, kind, "status", "OK"]]


# -- DO --------------------------------------------------------------------------------------------


def do(context: Context, node: Do) -> Result:
    """DO: evaluate expressions without a result."""
    for tree in node.expressions:
        relational.scalar_value(tree, context)
    return Result()
