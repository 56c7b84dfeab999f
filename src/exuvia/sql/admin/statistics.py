"""ANALYZE TABLE, LOCK STATS, UNLOCK STATS, DROP STATS, REFRESH STATS.

The session sends ANALYZE to the stats owner and waits for its answer. The front's own row counts
are flushed first, so that the analysis starts from complete counts. The open transaction is
committed. If the session is interrupted or its client disconnects, the analysis stops.

A partitioned table is locked with its partitions. Changed row counts of a locked table are stored
in its lock (stats/meta.py); UNLOCK STATS adds them.

Plans read statistics from the store, so REFRESH STATS has nothing to load. It flushes this front's
row counts and plans all statements again. FULL, LITE and CLUSTER have no effect. Other fronts
follow a new version of the statistics by themselves.
"""

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrAnalyzeMissColumn,
    ErrAnalyzeMissIndex,
    ErrNoDB,
    ErrOptOnTemporaryTable,
    ErrUnknown,
    ErrUnknownPartition,
    ErrWrongObject,
)
from exuvia.catalog.table import Table
from exuvia.cluster.questions import Asking
from exuvia.kv.transaction import Answer, Transaction, Work
from exuvia.sql.admin.maintenance import existing_table
from exuvia.sql.nodes import AnalyzeTable, DropStats, LockStats, RefreshStats
from exuvia.sql.result import Note, Result
from exuvia.sql.statement.context import SessionApi
from exuvia.stats import meta, records
from exuvia.stats.analyze_jobs import ANALYZE, BUCKETS, TOP_N, AnalyzeOrder
from exuvia.stats.meta import Delta

_SAMPLED = 110_000
_LIMITS = {
    "buckets": (1, 100_000),
    "topn": (0, 100_000),
    "cmsketch": (0, 1 << 31),
    "samples": (1, 500_000),
    "samplerate": (0, 1),
}
_BY_INDEX = "The version 2 would collect all statistics not only the selected indexes"


def analyze(session: SessionApi, node: AnalyzeTable, text: str) -> Result:
    """ANALYZE TABLE. Raises 1105, 1146, 1317, 1735, 8109, 8137."""
    options: dict[str, int] = {}
    for word, number in node.options:
        least, most = _LIMITS[word]
        if not least <= number <= most:
            printed = int(number) if number == int(number) else number
            message = (
                f"Value of analyze option {word.upper()} should be positive and not larger than"
            )
            raise ErrUnknown(f"{message} {most}, but got {printed}")
        if word in ("buckets", "topn", "samples"):
            options[word] = int(number)
    if session.services.deltas is not None:
        session.services.deltas.flush()
    notes: list[Note] = []
    for name in node.tables:
        table = existing_table(session, name)
        # 1105: views and sequences cannot be analyzed. 8006: temporary tables have no statistics
        info = table.info
        if info.is_temporary:
            raise ErrOptOnTemporaryTable("ANALYZE TABLE")
        if not info.is_stored:
            noun = "sequence" if info.view is None else "view"
            raise ErrUnknown(f"analyze {noun} {info.name.O} is not supported now")
        order = _unlocked(session, table, _order(session, table, node, options), notes)
        if order is not None:
            if node.indexes is not None:
                notes.append(Note("Warning", ErrUnknown.code, _BY_INDEX))
            notes += _rates(session, table, order)
            services = session.services
            asking = Asking(services.store, services.member, services.clock)
            asking.ask_owner(ANALYZE, order, check=session.check_interrupt)
            session.services.plans.forget()
    result = Result()
    result.warnings = notes
    return result


def _order(
    session: SessionApi, table: Table, node: AnalyzeTable, options: dict[str, int]
) -> AnalyzeOrder:
    info = table.info
    columns = []
    for name in node.columns:
        column = next((c for c in info.public_columns if c.name.L == name.lower()), None)
        if column is None:
            raise ErrAnalyzeMissColumn(name, info.name.O)
        columns.append(column.id)
    for name in node.indexes or ():
        if info.index(name.lower()) is None and not (
            info.pk_is_handle and name.lower() == "primary"
        ):
            raise ErrAnalyzeMissIndex(name, info.name.O)
    return AnalyzeOrder(
        table_id=info.id,
        partitions=partition_ids(table, node.partitions),
        columns=tuple(columns),
        buckets=options.get("buckets", BUCKETS),
        top_n=options.get("topn", TOP_N),
        samples=options.get("samples", 0),
        instance=session.services.member.info.address,
        process_id=session.connection_id,
    )


def partition_ids(table: Table, names: tuple[str, ...]) -> tuple[int, ...]:
    """The physical ids of the partitions. Raises 1735."""
    if not names:
        return ()
    partition = table.info.partition
    ids_by_name = {} if partition is None else {d.name.L: d.id for d in partition.definitions}
    for name in names:
        if name.lower() not in ids_by_name:
            raise ErrUnknownPartition(name, table.info.name.O)
    return tuple(ids_by_name[name.lower()] for name in names)


def _unlocked(
    session: SessionApi, table: Table, order: AnalyzeOrder, notes: list[Note]
) -> AnalyzeOrder | None:
    """The order without locked partitions, or None if nothing remains."""
    with session.services.store.read() as txn:
        locked = meta.locked_ids(txn)
    skipped = f"skip analyze locked table: {table.database.db_name.O}.{table.info.name.O}"
    if meta.whole_id(table) in locked:
        notes.append(Note("Warning", ErrUnknown.code, skipped))
        return None
    partition = table.info.partition
    if partition is None:
        return order
    requested = order.partitions or partition.physical_ids
    for definition in partition.definitions:
        if definition.id in locked and definition.id in requested:
            notes.append(
                Note("Warning", ErrUnknown.code, f"{skipped} partition ({definition.name.O})")
            )
    remaining = tuple(partition_id for partition_id in requested if partition_id not in locked)
    if len(remaining) == len(requested):
        return order
    return msgspec.structs.replace(order, partitions=remaining) if remaining else None


def _rates(session: SessionApi, table: Table, order: AnalyzeOrder) -> list[Note]:
    """Notes with the sample rates of the partitions, in TiDB's words."""
    if order.samples:
        return []
    info, database = table.info, table.database.db_name.O
    names = {meta.whole_id(table): ""}
    if info.partition is not None:
        chosen = order.partitions or tuple(
            definition.id for definition in info.partition.definitions
        )
        names = {d.id: f"'s partition {d.name.O}" for d in info.partition.definitions}
        names = {physical_id: names[physical_id] for physical_id in chosen}
    with session.services.store.read() as txn:
        notes = []
        for physical_id, suffix in names.items():
            counts = meta.get(txn, physical_id)
            rows = 0 if counts is None else counts.rows
            rate = min(1.0, _SAMPLED / rows) if rows else 1.0
            reason = "TiDB assumes that the table is empty, use sample-rate=1"
            if rows:
                reason = f"use min(1, {_SAMPLED}/{rows}) as the sample-rate={rate:g}"
            message = f"Analyze use auto adjusted sample rate {rate:.6f} for table"
            title = f"{database}.{info.name.O}{suffix}"
            notes.append(
                Note(
                    "Note",
                    ErrUnknown.code,
                    f'{message} {title}, reason to use this rate is "{reason}"',
                )
            )
        return notes


def commit_separately(session: SessionApi, write: Work[Answer]) -> Answer:
    """Run a transaction independent of the session's, and repeat it after a conflict."""

    def guarded(txn: Transaction) -> Answer:
        session.services.member.guard(txn)
        return write(txn)

    return session.services.store.transact(guarded)


# -- LOCK, UNLOCK and DROP STATS -------------------------------------------------------------------


def lock_stats(session: SessionApi, node: LockStats, text: str) -> Result:
    """LOCK STATS | UNLOCK STATS. A target that is already in that state causes a warning."""
    if session.services.deltas is not None:
        session.services.deltas.flush()
    change = _unlock if node.unlocks else _lock
    targets = [(existing_table(session, name), parts) for name, parts in node.tables]
    notes: list[Note] = []

    def write(txn: Transaction) -> None:
        notes.clear()
        whole = [table for table, parts in targets if not parts]
        skipped = sorted(_name(table) for table in whole if not change(txn, _ids(table), table))
        if skipped:
            verb = "unlocking unlocked" if node.unlocks else "locking locked"
            noun = "table" if len(skipped) == 1 else "tables"
            notes.append(
                Note("Warning", ErrUnknown.code, f"skip {verb} {noun}: {', '.join(skipped)}")
            )
        for table, parts in targets:
            if parts:
                notes.extend(_change_parts(txn, table, parts, node.unlocks))

    commit_separately(session, write)
    result = Result()
    result.warnings = notes
    return result


def refresh_stats(session: SessionApi, node: RefreshStats, text: str) -> Result:
    """REFRESH STATS. As in TiDB a target that does not exist causes a warning (1049, 1146)."""
    services, notes = session.services, list[Note]()
    with services.store.read() as txn:
        for target in node.targets:
            schema = target.db or session.database
            if not schema:
                raise ErrNoDB()
            try:
                if target.name != "*":
                    services.schemas.table(txn, schema, target.name)
                elif schema != "*":
                    services.schemas.database(txn, schema)
            except Refused as error:
                notes.append(Note("Warning", error.code, error.message))
    if services.deltas is not None:
        services.deltas.flush()
    services.plans.forget()
    result = Result()
    result.warnings = notes
    return result


def _name(table: Table) -> str:
    return f"{table.database.db_name.O}.{table.info.name.O}"


def _ids(table: Table) -> list[int]:
    parts = [part.physical_id for part in table.parts] if table.is_partitioned else []
    return [meta.whole_id(table), *parts]


def _lock(txn: Transaction, ids: list[int], table: Table) -> bool:
    if meta.get_lock(txn, ids[0]) is not None:
        return False
    meta.lock(txn, ids)
    return True


def _unlock(txn: Transaction, ids: list[int], table: Table) -> bool:
    if meta.get_lock(txn, ids[0]) is None:
        return False
    waiting = {physical_id: meta.unlock(txn, physical_id) for physical_id in ids}
    deltas = {
        physical_id: Delta(delta.rows, delta.modified)
        for physical_id, delta in waiting.items()
        if delta is not None and delta.modified
    }
    if deltas:
        meta.add(txn, deltas)
    return True


def _change_parts(
    txn: Transaction, table: Table, names: tuple[str, ...], unlocks: bool
) -> list[Note]:
    """Lock or unlock only partitions. Raises 1735."""
    ids = partition_ids(table, names)
    verb = "unlocking" if unlocks else "locking"
    if meta.get_lock(txn, meta.whole_id(table)) is not None:
        message = f"skip {verb} partitions of locked table: {_name(table)}"
        return [Note("Warning", ErrUnknown.code, message)]
    change = _unlock if unlocks else _lock
    pairs = zip(names, ids, strict=True)
    skipped = sorted(name for name, physical_id in pairs if not change(txn, [physical_id], table))
    if not skipped:
        return []
    noun = "partition" if len(skipped) == 1 else "partitions"
    state = "unlocked" if unlocks else "locked"
    message = f"skip {verb} {state} {noun} of table {_name(table)}: {', '.join(skipped)}"
    return [Note("Warning", ErrUnknown.code, message)]


def drop_stats(session: SessionApi, node: DropStats, text: str) -> Result:
    """DROP STATS: removes results of analyses and keeps row counts. Raises 1735."""
    tables = [existing_table(session, name) for name in node.tables]
    for table in tables:
        if not table.info.is_stored:
            raise ErrWrongObject(table.database.db_name.O, table.info.name.O, "BASE TABLE")

    def write(txn: Transaction) -> None:
        version = meta.draw_version(txn)
        for table in tables:
            ids = partition_ids(table, node.partitions) or tuple(_ids(table))
            for physical_id in (meta.whole_id(table),) if node.whole else ids:
                records.remove(txn, physical_id)
                counts = meta.get(txn, physical_id)
                if counts is not None:
                    meta.put(txn, meta.never_analyzed(counts, version))
        txn.notify(meta.CHANNEL)

    commit_separately(session, write)
    return Result()
