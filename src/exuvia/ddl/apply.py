"""Applies a decision in one transaction, which has also read the snapshot (law 4).

    read_snapshot   the snapshot of a job's elements
    apply           catalog, version and diff, revisions, announcement, reorg epoch, ranges, events,
                    job row or history
    changes_of      an event of a finished job as the change that subscribers get

This module neither decides nor commits.
"""

import math
from collections.abc import Iterator
from itertools import islice

import msgspec

from exuvia.base.errors import Broken
from exuvia.catalog import account_attributes, meta, placement, reader
from exuvia.catalog.model import ColumnInfo, PartitionDefinition, SchemaState, TableInfo, evolve
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.cluster import member as members
from exuvia.cluster import versions
from exuvia.ddl import gc_worker, kept, multi_schema_change, queue
from exuvia.ddl.actions import action_of
from exuvia.ddl.actions.load import forget_load, is_loaded
from exuvia.ddl.decision import CatalogSnapshot, Decision, JobEvent, ReadSet, Referrer, ReorgOrder
from exuvia.ddl.elements import renumber
from exuvia.ddl.follow import left_behind
from exuvia.ddl.job import FINISHED, Job, timestamp, wall_s
from exuvia.ddl.runs import assent_to
from exuvia.ddl.state_machine import walking
from exuvia.events import notifier, schema_change
from exuvia.events.schema_change import DroppedTable, Kind, Partition, SchemaChange
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import checkpoint

# -- reading ---------------------------------------------------------------------------------------


def announce_reads(txn: Transaction, job: Job) -> None:
    """Prefetch the keys that a step always reads, for a store with slow round trips."""
    needed_keys = [keys.meta("sync", job.id), keys.meta("db", job.schema_id), keys.VERSION]
    needed_keys.append(keys.BRIEF)
    needed_keys += (keys.revision(job.table_id), keys.meta("table", job.table_id))
    needed_keys += (keys.meta("rowid", job.table_id), keys.database_revision(job.schema_id))
    needed_keys.append(keys.meta("name", job.schema_id, job.table_name.lower()))
    txn.snapshot.ahead(needed_keys)


def read_snapshot(txn: Transaction, job: Job, now: int) -> CatalogSnapshot:
    """The job's elements in this snapshot. `now` is a job's timestamp."""
    table = meta.get_table(txn, job.table_id) if job.table_id else None
    read_set = multi_schema_change.read_set(job)
    others = (meta.get_table(txn, table_id) for table_id in read_set.tables)
    databases = (meta.get_database(txn, database_id) for database_id in read_set.databases)
    policies = [placement.find_policy(txn, policy) for policy in read_set.policies]
    found_policies = tuple(policy for policy in policies if policy is not None)
    return CatalogSnapshot(
        database=meta.get_database(txn, job.schema_id),
        table=table,
        gone_links=meta.gone_links(txn, () if table is None else (table,)),
        tables=_tables_of(txn, job.schema_id) if read_set.database_tables else (),
        others=tuple(info for info in others if info is not None),
        databases=tuple(info for info in databases if info is not None),
        referrers=tuple(_referrers(txn, job, read_set, table)) if read_set.referrers else (),
        names=tuple(_holders(txn, read_set)),
        is_kept=bool(read_set.undo_of) and kept.get(txn, read_set.undo_of) is not None,
        taken_by=_taken_by(txn, job, read_set),
        left=gc_worker.untouched_ranges(txn, read_set.left_by) if read_set.left_by else (),
        loader_lives=bool(read_set.loader) and members.find(txn, read_set.loader) is not None,
        is_loaded=bool(read_set.loader) and is_loaded(txn, job.id),
        name_is_taken=_name_is_taken(txn, job, read_set),
        last_id=_last_id(txn, job) if read_set.last_id else 0,
        greatest=_greatest(txn, table, read_set.greatest_of),
        policies=found_policies,
        is_used=read_set.policy_uses
        and bool(found_policies)
        and placement.is_used(txn, found_policies[0]),
        group=placement.find_group(txn, read_set.group) if read_set.group else None,
        group_users=account_attributes.users_in(txn, read_set.group) if read_set.group else (),
        table_is_empty=_is_empty(txn, walking(job), table),
        now=now,
        verified_for=_verified_for(txn) if job.exuvia_verified else 0,
    )


def _last_id(txn: Transaction, job: Job) -> int:
    return keys.read_number(txn.get(keys.meta("auto", job.table_id)))


def _greatest(txn: Transaction, info: TableInfo | None, column_id: int) -> int:
    """The greatest value in a column, rounded up; 0 if no value is greater than 0.

    Reads the end of an index that begins with the column, otherwise all rows."""
    column = info.column_by_id(column_id) if info is not None and column_id else None
    database = meta.get_database(txn, info.exuvia_db) if info is not None else None
    if info is None or column is None or database is None:
        return 0
    table = Table(_without_virtual(info), meta.revision(txn, info.id), database, 0)
    return max(0, *(_greatest_in(txn, part, column) for part in table.parts))


def _without_virtual(info: TableInfo) -> TableInfo:
    """The table without virtual columns and their indexes: nothing evaluates expressions here."""
    virtual = {column.id for column in info.cols if column.is_virtual}
    indexes = tuple(
        index
        for index in info.indexes
        if not any(part.exuvia_column in virtual for part in index.idx_cols)
    )
    cols = tuple(column for column in info.cols if column.id not in virtual)
    return renumber(evolve(info, cols=cols, index_info=indexes or None))


def _greatest_in(txn: Transaction, table: Table, column: ColumnInfo) -> int:
    info = table.info
    at = next(n for n, candidate in enumerate(info.cols) if candidate.id == column.id)
    if info.pk_is_handle and table.handle_positions == (at,):
        rows = reader.scan(txn, table, reverse=True, used=(at,))
        return next((math.ceil(row[at]) for _, row in rows), 0)
    for index in info.indexes:
        leads = index.idx_cols[0].exuvia_column == column.id and not index.is_global
        if leads and index.state == SchemaState.PUBLIC and index.holds_every_row:
            entry = next(reader.scan_index(txn, table, index, reverse=True), None)
            if entry is None:
                return 0
            if entry[0] is not None:
                return math.ceil(entry[0][0] or 0)
    rows = reader.scan(txn, table, used=(at,))
    return max((math.ceil(row[at]) for _, row in rows if row[at] is not None), default=0)


def _taken_by(txn: Transaction, job: Job, read_set: ReadSet) -> int:
    retained = kept.get(txn, read_set.undo_of) if read_set.undo_of else None
    if retained is None or retained.ended_by == job.id or not queue.get(txn, retained.ended_by):
        return 0
    return retained.ended_by


def _verified_for(txn: Transaction) -> int:
    return timestamp(variables.read_int(txn, "exuvia_ddl_verify_max_age_s") * 1_000_000_000)


def _tables_of(txn: Transaction, database_id: int) -> tuple[int, ...]:
    return tuple(table_id for _, table_id in meta.table_names(txn, database_id))


def _referrers(
    txn: Transaction, job: Job, read_set: ReadSet, table: TableInfo | None
) -> Iterator[Referrer]:
    """Foreign keys that refer to the table, or to any table of the database, that the job drops."""
    for link, parent_id in meta.parents(txn):
        parent = table if parent_id == job.table_id else None
        if read_set.database_tables:
            parent = meta.get_table(txn, parent_id)
        child = meta.get_table(txn, meta.child_of(txn, link))
        if (
            parent is None
            or child is None
            or (not job.table_id and parent.exuvia_db != job.schema_id)
        ):
            continue
        home = meta.get_database(txn, child.exuvia_db)
        for key in child.foreign_keys:
            if key.exuvia_link == link and key.version and home is not None:
                names = home.db_name.O, child.name.O, key.fk_name.O
                yield Referrer(parent.name.O, child.id, *names)


def _holders(txn: Transaction, read_set: ReadSet) -> Iterator[tuple[int, str, int]]:
    for database_id, table_name in read_set.names:
        table_id = meta.find_table(txn, database_id, table_name.lower())
        if table_id is not None:
            yield database_id, table_name.lower(), table_id


def _name_is_taken(txn: Transaction, job: Job, read_set: ReadSet) -> bool:
    if read_set.own_name == "database":
        return meta.find_database(txn, job.schema_name) not in (None, job.schema_id)
    if read_set.own_name == "table":
        table_id = meta.find_table(txn, job.schema_id, job.table_name)
        return table_id not in (None, job.table_id)
    return False


def _is_empty(txn: Transaction, job: Job | None, table: TableInfo | None) -> bool:
    """Whether the table has no rows. Checked only where a reorg would run: by then every writer
    maintains the new element."""
    if job is None or table is None:
        return False
    if not action_of(job).waits_in(job.schema_state, job.exuvia_tail):
        return False
    spans = (keys.span_of(keys.row_prefix(physical_id)) for physical_id in table.physical_ids)
    return all(next(iter(txn.scan(span, limit=1)), None) is None for span in spans)


# -- writing ---------------------------------------------------------------------------------------


def apply(txn: Transaction, decision: Decision, owner: str, joins: bool = False) -> Job:
    """Put the decision into the transaction. Returns the job as it will be after the commit.

    `joins`: the step shares the schema version of the previous step in this transaction.
    """
    job = decision.job.at(decision.before.now)
    decision = evolve(decision, job=job)
    _move_epoch(txn, job.id, decision.reorg)
    if decision.anew:
        checkpoint.forget(txn, job.id)
    if decision.reorg == ReorgOrder.START:
        decision = evolve(decision, job=evolve(job, snapshot_ver=txn.sequence))
    if decision.moves:
        job = _publish(txn, decision, owner, joins)
    first = gc_worker.free_ordinal(txn, job.id) if decision.ranges else 0
    for ordinal, delete_range in enumerate(decision.ranges, first):
        gc_worker.add_range(txn, job.id, ordinal, delete_range, decision.before.now)
    if decision.restores_ranges_of:
        gc_worker.restore_ranges(txn, decision.restores_ranges_of)
    for retained in decision.keeps_for_undo:
        kept.put(txn, retained)
    if decision.ends_undo_of:
        tables = decision.before.table, decision.after.table
        kept.end(txn, decision.ends_undo_of, *tables)
    # a single event has the job's number alone; several are numbered like sub-jobs
    changes = [change for event in decision.events for change in changes_of(txn, event)]
    for number, change in enumerate(changes):
        part = number if len(changes) > 1 else notifier.WHOLE_JOB
        notifier.put(txn, job.id, part, change)
    for sub_job, event in decision.sub_job_events:
        notifier.put(txn, job.id, sub_job, change_of(txn, event))
    if decision.archive:
        queue.remove(txn, job)
        queue.forget(txn, job)
        queue.archive(txn, job)
        versions.finish(txn, job.id)
        if job.reorg_meta:
            txn.delete(keys.meta("dial", job.id))
        if txn.get(keys.meta("reorg", job.id)) is not None:
            checkpoint.forget(txn, job.id)
            txn.delete(keys.meta("reorg", job.id))
            forget_load(txn, job.id)
        txn.notify("history")
    else:
        queue.update(txn, job)
    return job


def _publish(txn: Transaction, decision: Decision, owner: str, joins: bool) -> Job:
    """Write catalog, version and revisions, and request their acknowledgement."""
    job = decision.job
    bumps = _bumps(decision)
    announced = _revisions_after(txn, decision, bumps)
    _edit_catalog(txn, decision)
    # The revision of a database is part of the fence of all its tables. It moves only with the
    # state: another charset does not concern writers of the tables.
    before, after = decision.before, decision.after
    states = [None if info is None else info.state for info in (before.database, after.database)]
    if decision.barrier:
        version = meta.publish_silently(txn, bumps)
    else:
        version = meta.publish(
            txn,
            type=int(job.type),
            schema_id=job.schema_id,
            table_id=job.table_id,
            affected=[table_id for table_id in bumps if table_id != job.table_id],
            bumps=bumps,
            database_bumps={job.schema_id: meta.STEP} if states[0] != states[1] else {},
            joins=joins,
        )
    job = evolve(job, last_schema_version=version)
    if job.state in FINISHED:
        job = evolve(job, binlog=left_behind(txn, job.binlog, decision, version))
    queue.announce(txn, job, announced, owner)
    versions.announce(txn, job.id, version, announced, assent_to(job, announced))
    return job


def suppose(txn: Transaction, decision: Decision) -> None:
    """Write the catalog as the step would leave it, for later checks in this transaction.

    The transaction must never commit: no change is announced.
    """
    if decision.moves:
        _edit_catalog(txn, decision)
        meta.publish_silently(txn, _bumps(decision))


def _edit_catalog(txn: Transaction, decision: Decision) -> None:
    before, after = decision.before, decision.after
    _edit_tables(txn, _infos(before), _infos(after))
    if after.database is not None and after.database != before.database:
        meta.put_database(txn, after.database)
    elif after.database is None and before.database is not None:
        for info in meta.referred_tables(txn, before.tables):
            meta.orphan(txn, info, before.database.db_name.L)
        meta.drop_database(txn, before.database)
    _edit_policies(txn, before, after)
    meta.carry_counters(txn, decision.after.carries)
    for source, target in decision.after.renumbered:
        kept.follow(txn, source, target)


def _edit_policies(txn: Transaction, before: CatalogSnapshot, after: CatalogSnapshot) -> None:
    """Write new and changed placement policies and resource groups; remove dropped ones."""
    for policy in after.policies:
        if policy not in before.policies:
            placement.put_policy(txn, policy)
    for policy in before.policies:
        if policy.id not in {policy_after.id for policy_after in after.policies}:
            placement.drop_policy(txn, policy)
    if after.group is not None and after.group != before.group:
        placement.put_group(txn, after.group)
    elif before.group is not None and after.group is None:
        placement.drop_group(txn, before.group)


def _infos(snapshot: CatalogSnapshot) -> dict[int, TableInfo]:
    own = (snapshot.table,) if snapshot.table else ()
    return {info.id: info for info in (*own, *snapshot.others)}


def _bumps(decision: Decision) -> dict[int, int]:
    """Table id -> increment of its revision, for the job's own table and each changed one.

    The increment is doubled for a table whose writers are fenced.
    """
    before, after = _infos(decision.before), _infos(decision.after)
    changed = [
        table_id for table_id in {**before, **after} if before.get(table_id) != after.get(table_id)
    ]
    own = [decision.job.table_id] if decision.job.table_id else []
    bumps = dict.fromkeys([*own, *changed], meta.STEP)
    return {**bumps, **dict.fromkeys(decision.fences_tables, meta.TAKEN)}


def _revisions_after(txn: Transaction, decision: Decision, bumps: dict[int, int]) -> dict[int, int]:
    """Table id -> the revision after this step; in a database, one that no open writer has.

    Writers of a fenced table are not waited for: the store refuses them.
    """
    existing = _infos(decision.before)
    moved = {
        table_id: by
        for table_id, by in bumps.items()
        if table_id in existing and table_id not in decision.fences_tables
    }
    within = dict.fromkeys(decision.before.tables, meta.STEP)
    return {
        table_id: meta.revision(txn, table_id) + by for table_id, by in {**within, **moved}.items()
    }


def _edit_tables(
    txn: Transaction, before: dict[int, TableInfo], after: dict[int, TableInfo]
) -> None:
    """Release names first, so that two tables of one step may swap theirs."""
    for table_id, info in before.items():
        if table_id not in after:
            meta.drop_table(txn, info)
        elif after[table_id] != info:
            meta.release_name(txn, info, after[table_id])
    for table_id, info in after.items():
        if info != before.get(table_id):
            txn.require(keys.meta("db", info.exuvia_db))
            meta.put_table(txn, info)


def _move_epoch(txn: Transaction, job_id: int, order: ReorgOrder) -> None:
    """Start a new epoch when a reorg is left, so that the store refuses its late tasks (law 2)."""
    if order in (ReorgOrder.START, ReorgOrder.LEAVE):
        take_epoch(txn, job_id)


def take_epoch(txn: Transaction, job_id: int) -> int:
    """A new epoch for the next driver of the job's reorg.

    Pending work of an earlier driver, on this node or on another one that died or sleeps, is
    refused from then on. So no span is processed twice, and the next driver sees all finished
    spans.
    """
    key = keys.meta("reorg", job_id)
    epoch = keys.read_number(txn.get(key)) + 1
    txn.put(key, keys.number(epoch))
    return epoch


# -- events ----------------------------------------------------------------------------------------

DATABASE_RECOVERED = "flashback schema"
MOST_EVENTS = 10_000
_OF_COLUMNS = (Kind.ADD_COLUMN, Kind.MODIFY_COLUMN, Kind.DROP_COLUMN, Kind.UNDO_DROP_COLUMN)
_OF_PARTITIONS = (
    Kind.ADD_PARTITION,
    Kind.DROP_PARTITION,
    Kind.TRUNCATE_PARTITION,
    Kind.REORGANIZE_PARTITION,
    Kind.UNDO_TRUNCATE_TABLE,
)


class _Name(msgspec.Struct):
    O: str  # noqa: E741 - the seed's field name


class _Part(msgspec.Struct):
    id: int
    name: _Name


class _Cut(msgspec.Struct):
    definitions: tuple[_Part, ...] = ()


class _Mini(msgspec.Struct):
    """The fields of a table's JSON that an event needs: a database may have very many tables."""

    id: int
    name: _Name
    partition: _Cut | None = None
    exuvia_physical: int = 0


_decoder = msgspec.json.Decoder(_Mini)


def changes_of(txn: Transaction, event: JobEvent) -> list[SchemaChange]:
    """The changes that the event describes, as `change_of`.

    A recovered database becomes its tables, at most MOST_EVENTS, because TiDB has no such event.
    """
    if event.type != DATABASE_RECOVERED:
        return [change_of(txn, event)]
    if event.database is None:
        raise Broken("the event of a recovered database has no database")
    tables = islice(meta.list_tables(txn, event.database.id), MOST_EVENTS)
    return [schema_change.create_table(table) for table in tables if table.is_stored]


def change_of(txn: Transaction, event: JobEvent) -> SchemaChange:
    """The change that the event describes. Raises Broken if a part of it is missing.

    `txn` is the step's own transaction: for a dropped database it still has the infos of its
    tables.
    """
    kind = Kind(event.type)
    if kind == Kind.DROP_SCHEMA:
        if event.database is None:
            raise Broken("the event of a dropped database has no database")
        return schema_change.drop_schema(event.database, _dropped_tables(txn, event.elements))
    if kind == Kind.DROP_TABLE:
        return schema_change.drop_table(_required(event, event.table))
    table = _required(event, event.table)
    if kind in _OF_COLUMNS:
        holder = _required(event, event.dropped) if kind == Kind.DROP_COLUMN else table
        changed = [column for column in holder.cols if column.id in event.elements]
        return schema_change.columns(kind, table, changed)
    if kind == Kind.ADD_INDEX:
        added = [index for index in table.indexes if index.id in event.elements]
        marks = [keys.index_statistics(table.id, index.id) for index in added]
        return schema_change.add_index(
            table, added, all(raw is not None for raw in txn.get_many(marks))
        )
    if kind in _OF_PARTITIONS:
        return schema_change.partitions(
            kind, table, _partitions(event.added), _partitions(event.removed)
        )
    if kind == Kind.CREATE_TABLE:
        return schema_change.create_table(table)
    if kind == Kind.TRUNCATE_TABLE:
        until_s = int(wall_s(event.kept_until)) if event.kept_until else 0
        return schema_change.truncate_table(table, _required(event, event.dropped), until_s)
    if kind == Kind.EXCHANGE_PARTITION:
        (partition,) = _partitions(event.added)
        return schema_change.exchange_partition(table, partition, _required(event, event.dropped))
    (old_id,) = event.elements
    return schema_change.repartition(
        kind, table, old_id, _partitions(event.added), _partitions(event.removed)
    )


def _dropped_tables(txn: Transaction, ids: tuple[int, ...]) -> Iterator[DroppedTable]:
    for raw in txn.get_many([keys.meta("table", table_id) for table_id in ids]):
        if raw is not None:
            table = _decoder.decode(raw)
            cut = table.partition.definitions if table.partition is not None else ()
            parts = tuple(Partition(part.id, part.name.O) for part in cut)
            if table.exuvia_physical:
                parts = (*parts, Partition(table.exuvia_physical, ""))
            yield DroppedTable(table.id, table.name.O, parts)


def _required(event: JobEvent, table: TableInfo | None) -> TableInfo:
    if table is None:
        raise Broken(f"an event of kind '{event.type}' lacks a table")
    return table


def _partitions(definitions: tuple[PartitionDefinition, ...]) -> list[Partition]:
    return [Partition(definition.id, definition.name.O) for definition in definitions]
