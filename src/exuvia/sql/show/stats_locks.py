"""LOCK STATS, UNLOCK STATS, DROP STATS.

A partitioned table is locked with its partitions. What was written to a locked table waits in its
lock (stats/locked.py); UNLOCK STATS gives it back.
"""

from exuvia.base.mysql_errors import ErrUnknown, ErrWrongObject
from exuvia.catalog.table import Table
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes.statistics import DropStats, LockStats
from exuvia.sql.result import Note, Result
from exuvia.sql.session.running import Running
from exuvia.sql.show.admin import existing_table
from exuvia.sql.show.analyze import commit_beside, partition_ids
from exuvia.stats import locked, meta, records
from exuvia.stats.meta import Delta


def lock_stats(session: Running, node: LockStats, text: str) -> Result:
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


def _name(table: Table) -> str:
    return f"{table.database.db_name.O}.{table.info.name.O}"


def _ids(table: Table) -> list[int]:
    parts = [each.physical_id for each in table.parts] if table.is_partitioned else []
    return [meta.whole_id(table), *parts]


def _lock(txn: Transaction, ids: list[int], table: Table) -> bool:
    if locked.get(txn, ids[0]) is not None:
        return False
    locked.lock(txn, ids)
    return True


def _unlock(txn: Transaction, ids: list[int], table: Table) -> bool:
    if locked.get(txn, ids[0]) is None:
        return False
    waiting = {each: locked.unlock(txn, each) for each in ids}
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
    if locked.get(txn, meta.whole_id(table)) is not None:
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


def drop_stats(session: Running, node: DropStats, text: str) -> Result:
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
