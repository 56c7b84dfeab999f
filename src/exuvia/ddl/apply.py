"""A decision becomes one transaction; the world is read from the same one (law 4).

    read_world   what the snapshot shows of a job's elements
    apply        catalog, version and diff, revisions, announcement, reorg epoch, ranges, event,
                 job row or history

Nothing here chooses and nothing here commits.
"""

import msgspec

from exuvia.catalog import meta
from exuvia.catalog.model import TableInfo, evolve
from exuvia.catalog.state import SchemaState
from exuvia.cluster import versions
from exuvia.ddl import queue, ranges
from exuvia.ddl.codes import FINISHED, ActionCode
from exuvia.ddl.job import Job
from exuvia.ddl.world import Decision, ReorgOrder, World
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import checkpoint

# -- reading ---------------------------------------------------------------------------------------


def read_world(txn: Transaction, job: Job, now: int) -> World:
    """The job's elements in this snapshot. `now` is a job's timestamp."""
    table = meta.get_table(txn, job.table_id) if job.table_id else None
    dropping = job.type == ActionCode.DROP_SCHEMA
    return World(
        database=meta.get_database(txn, job.schema_id),
        table=table,
        tables=_tables_of(txn, job.schema_id) if dropping else (),
        name_is_taken=_name_is_taken(txn, job),
        table_is_empty=_is_empty(txn, job, table),
        now=now,
    )


def _tables_of(txn: Transaction, database_id: int) -> tuple[int, ...]:
    return tuple(table_id for _, table_id in meta.table_names(txn, database_id))


def _name_is_taken(txn: Transaction, job: Job) -> bool:
    if job.type == ActionCode.CREATE_SCHEMA:
        return meta.find_database(txn, job.schema_name) not in (None, job.schema_id)
    if job.type == ActionCode.CREATE_TABLE:
        found = meta.find_table(txn, job.schema_id, job.table_name)
        return found not in (None, job.table_id)
    return False


def _is_empty(txn: Transaction, job: Job, table: TableInfo | None) -> bool:
    """Looked at only where a reorg would run: by then every writer maintains the new element."""
    if table is None or job.schema_state != SchemaState.WRITE_REORG:
        return False
    rows = txn.scan(keys.span_of(keys.row_prefix(table.id)), limit=1)
    return next(iter(rows), None) is None


# -- writing ---------------------------------------------------------------------------------------


def apply(txn: Transaction, decision: Decision, owner: str) -> Job:
    """Put the decision into the transaction; the job as it will stand once that commits."""
    job = decision.job
    _move_epoch(txn, job.id, decision.reorg)
    if decision.reorg == ReorgOrder.START:
        decision = evolve(decision, job=evolve(job, snapshot_ver=txn.sequence))
    if decision.moves:
        job = _publish(txn, decision, owner)
    for ordinal, each in enumerate(decision.ranges):
        ranges.leave(txn, job.id, ordinal, each)
    if decision.event is not None:
        queue.tell(txn, job, msgspec.json.encode(decision.event).decode())
    if decision.archive:
        _end(txn, job)
    else:
        queue.update(txn, job)
    return job


def _publish(txn: Transaction, decision: Decision, owner: str) -> Job:
    """Catalog, version, revisions, and the request to acknowledge them."""
    job = decision.job
    announced = _revisions_before(txn, decision)
    _edit_catalog(txn, decision)
    version = meta.publish(
        txn,
        type=int(job.type),
        schema_id=job.schema_id,
        table_id=job.table_id,
        affected=decision.before.tables,
        bumps={job.table_id: meta.STEP} if job.table_id else {},
        database_bumps={} if job.table_id else {job.schema_id: meta.STEP},
    )
    job = evolve(job, last_schema_version=version)
    if job.state in FINISHED:
        job = evolve(job, binlog=evolve(job.binlog, SchemaVersion=version))
    queue.announce(txn, job, announced, owner)
    versions.announce(txn, job.id, version, announced)
    return job


def _revisions_before(txn: Transaction, decision: Decision) -> dict[int, int]:
    """Table id -> the revision this step makes; in a database, one that no open writer has."""
    world = decision.before
    tables = world.tables or ((world.table.id,) if world.table else ())
    return {table_id: meta.revision(txn, table_id) + meta.STEP for table_id in tables}


def _edit_catalog(txn: Transaction, decision: Decision) -> None:
    before, after = decision.before, decision.after
    if after.table is not None and after.table != before.table:
        txn.require(keys.meta("db", after.table.exuvia_db))
        meta.put_table(txn, after.table)
    elif after.table is None and before.table is not None:
        meta.drop_table(txn, before.table)
    if after.database is not None and after.database != before.database:
        meta.put_database(txn, after.database)
    elif after.database is None and before.database is not None:
        _drop_database(txn, before)


def _drop_database(txn: Transaction, before: World) -> None:
    for table_id in before.tables:
        info = meta.get_table(txn, table_id)
        if info is not None:
            meta.drop_table(txn, info)
    if before.database is not None:
        meta.drop_database(txn, before.database)


def _move_epoch(txn: Transaction, job_id: int, order: ReorgOrder) -> None:
    """A reorg that is left has a new epoch, so its late tasks are refused by the store (law 2)."""
    if order in (ReorgOrder.START, ReorgOrder.LEAVE):
        take_epoch(txn, job_id)


def take_epoch(txn: Transaction, job_id: int) -> int:
    """A new epoch for whoever runs the job's reorg from now on.

    What a driver before it still has under way, here or on a node that died or sleeps, is refused
    from then on: no span is done by two, and whoever plans next sees all that was finished."""
    key = keys.meta("reorg", job_id)
    epoch = keys.read_number(txn.get(key)) + 1
    txn.put(key, keys.number(epoch))
    return epoch


def _end(txn: Transaction, job: Job) -> None:
    queue.remove(txn, job)
    queue.forget(txn, job)
    queue.archive(txn, job)
    versions.finish(txn, job.id)
    if txn.get(keys.meta("reorg", job.id)) is not None:
        checkpoint.forget(txn, job.id)
        txn.delete(keys.meta("reorg", job.id))
    txn.notify("history")
