"""ANALYZE TABLE, LOCK STATS, UNLOCK STATS, DROP STATS, REFRESH STATS.

ANALYZE is asked here and done by the stats owner; the session waits for its answer. The front's own
row counts are flushed first, so that an analysis begins where they end. What was open is committed.
A session that is interrupted, or whose client has gone, stops its analysis.

A partitioned table is locked with its partitions. What was written to a locked table waits in its
lock (stats/meta.py); UNLOCK STATS gives it back.

Plans read statistics from the store, so REFRESH STATS has nothing to load: it flushes this front's
row counts and plans all statements again. FULL, LITE and CLUSTER change nothing; other fronts
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
            shown = int(number) if number == int(number) else number
            said = f"Value of analyze option {word.upper()} should be positive and not larger than"
            raise ErrUnknown(f"{said} {most}, but got {shown}")
        if word in ("buckets", "topn", "samples"):
            options[word] = int(number)
    if session.services.deltas is not None:
        session.services.deltas.flush()
    notes: list[Note] = []
    for name in node.tables:
        table = existing_table(session, name)
        # 1105: a view or a sequence has nothing to be analyzed. 8006: what nobody else sees has
        # no statistics
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
    """Physical ids of partitions. Raises 1735."""
    if not names:
        return ()
    partition = table.info.partition
    known = {} if partition is None else {d.name.L: d.id for d in partition.definitions}
    for name in names:
        if name.lower() not in known:
            raise ErrUnknownPartition(name, table.info.name.O)
    return tuple(known[name.lower()] for name in names)


def _unlocked(
    session: SessionApi, table: Table, order: AnalyzeOrder, notes: list[Note]
) -> AnalyzeOrder | None:
    """The order without locked partitions; None where nothing is left of it."""
    with session.services.store.read() as txn:
        held = meta.locked_ids(txn)
    skipped = f"skip analyze locked table: {table.database.db_name.O}.{table.info.name.O}"
    if meta.whole_id(table) in held:
        notes.append(Note("Warning", ErrUnknown.code, skipped))
        return None
    partition = table.info.partition
    if partition is None:
        return order
    asked = order.partitions or partition.physical_ids
    for each in partition.definitions:
        if each.id in held and each.id in asked:
            notes.append(Note("Warning", ErrUnknown.code, f"{skipped} partition ({each.name.O})"))
    left = tuple(each for each in asked if each not in held)
    if len(left) == len(asked):
        return order
    return msgspec.structs.replace(order, partitions=left) if left else None


def _rates(session: SessionApi, table: Table, order: AnalyzeOrder) -> list[Note]:
    """What share of the rows is sampled, in TiDB's words."""
    if order.samples:
        return []
    info, database = table.info, table.database.db_name.O
    names = {meta.whole_id(table): ""}
    if info.partition is not None:
        chosen = order.partitions or tuple(each.id for each in info.partition.definitions)
        names = {d.id: f"'s partition {d.name.O}" for d in info.partition.definitions}
        names = {each: names[each] for each in chosen}
    with session.services.store.read() as txn:
        found = []
        for physical_id, suffix in names.items():
            known = meta.get(txn, physical_id)
            rows = 0 if known is None else known.rows
            rate = min(1.0, _SAMPLED / rows) if rows else 1.0
            reason = "TiDB assumes that the table is empty, use sample-rate=1"
            if rows:
                reason = f"use min(1, {_SAMPLED}/{rows}) as the sample-rate={rate:g}"
            said = f"Analyze use auto adjusted sample rate {rate:.6f} for table"
            shown = f"{database}.{info.name.O}{suffix}"
            found.append(
                Note(
                    "Note",
                    ErrUnknown.code,
                    f'{said} {shown}, reason to use this rate is "{reason}"',
                )
            )
        return found


def commit_beside(session: SessionApi, write: Work[Answer]) -> Answer:
    """One transaction beside the session's, again after a conflict."""

    def guarded(txn: Transaction) -> Answer:
        session.services.member.guard(txn)
        return write(txn)

    return session.services.store.transact(guarded)


# -- LOCK, UNLOCK and DROP STATS -------------------------------------------------------------------


def lock_stats(session: SessionApi, node: LockStats, text: str) -> Result:
    """LOCK STATS | UNLOCK STATS; what is as it should be already is a warning."""
    if session.services.deltas is not None:
        session.services.deltas.flush()
    change = _unlock if node.unlocks else _lock
    found = [(existing_table(session, name), parts) for name, parts in node.tables]
    notes: list[Note] = []

    def write(txn: Transaction) -> None:
        notes.clear()
        whole = [table for table, parts in found if not parts]
        skipped = sorted(_name(table) for table in whole if not change(txn, _ids(table), table))
        if skipped:
            verb = "unlocking unlocked" if node.unlocks else "locking locked"
            noun = "table" if len(skipped) == 1 else "tables"
            notes.append(
                Note("Warning", ErrUnknown.code, f"skip {verb} {noun}: {', '.join(skipped)}")
            )
        for table, parts in found:
            if parts:
                notes.extend(_change_parts(txn, table, parts, node.unlocks))

    commit_beside(session, write)
    result = Result()
    result.warnings = notes
    return result


def refresh_stats(session: SessionApi, node: RefreshStats, text: str) -> Result:
    """REFRESH STATS; as in TiDB a target that does not exist is a warning (1049, 1146)."""
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
    parts = [each.physical_id for each in table.parts] if table.is_partitioned else []
    return [meta.whole_id(table), *parts]


def _lock(txn: Transaction, ids: list[int], table: Table) -> bool:
    if meta.get_lock(txn, ids[0]) is not None:
        return False
    meta.lock(txn, ids)
    return True


def _unlock(txn: Transaction, ids: list[int], table: Table) -> bool:
    if meta.get_lock(txn, ids[0]) is None:
        return False
    waiting = {each: meta.unlock(txn, each) for each in ids}
    deltas = {
        each: Delta(known.rows, known.modified)
        for each, known in waiting.items()
        if known is not None and known.modified
    }
    if deltas:
        meta.add(txn, deltas)
    return True


def _change_parts(
    txn: Transaction, table: Table, names: tuple[str, ...], unlocks: bool
) -> list[Note]:
    """Partitions alone. Raises 1735."""
    ids = partition_ids(table, names)
    verb = "unlocking" if unlocks else "locking"
    if meta.get_lock(txn, meta.whole_id(table)) is not None:
        said = f"skip {verb} partitions of locked table: {_name(table)}"
        return [Note("Warning", ErrUnknown.code, said)]
    change = _unlock if unlocks else _lock
    pairs = zip(names, ids, strict=True)
    skipped = sorted(name for name, each in pairs if not change(txn, [each], table))
    if not skipped:
        return []
    noun = "partition" if len(skipped) == 1 else "partitions"
    state = "unlocked" if unlocks else "locked"
    said = f"skip {verb} {state} {noun} of table {_name(table)}: {', '.join(skipped)}"
    return [Note("Warning", ErrUnknown.code, said)]


def drop_stats(session: SessionApi, node: DropStats, text: str) -> Result:
    """DROP STATS: what analyses found goes, row counts stay. Raises 1735."""
    found = [existing_table(session, name) for name in node.tables]
    for table in found:
        if not table.info.is_stored:
            raise ErrWrongObject(table.database.db_name.O, table.info.name.O, "BASE TABLE")

    def write(txn: Transaction) -> None:
        version = meta.draw_version(txn)
        for table in found:
            ids = partition_ids(table, node.partitions) or tuple(_ids(table))
            for each in (meta.whole_id(table),) if node.whole else ids:
                records.remove(txn, each)
                known = meta.get(txn, each)
                if known is not None:
                    meta.put(txn, meta.never_analyzed(known, version))
        txn.notify(meta.CHANNEL)

    commit_beside(session, write)
    return Result()
