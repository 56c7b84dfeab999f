"""Applies a decision in one transaction, which has also read the snapshot (law 4).

    read_snapshot   the snapshot of a job's elements
    apply           the effects of the decision, kind by kind, then the job's row
    changes_of      an event of a finished job as the change that subscribers get

This module neither decides nor commits.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import msgspec

from exuvia.base.decoding import json_decoder
from exuvia.base.errors import Broken
from exuvia.catalog import meta
from exuvia.catalog.model import PartitionDefinition, TableInfo, evolve
from exuvia.cluster import versions
from exuvia.ddl import delete_ranges, kept, queue
from exuvia.ddl.actions import action_of
from exuvia.ddl.decision import Decision
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import (
    EFFECTS,
    Archive,
    AwaitWriters,
    ChangeDatabase,
    ChangeNamed,
    ChangeTable,
    Effect,
    EndRetention,
    FenceWriters,
    JobEvent,
    MoveCounters,
    MoveRetention,
    Notify,
    OrderReorg,
    Publish,
    ReorgOrder,
    RestoreRanges,
    of_kind,
)
from exuvia.ddl.follow import left_behind
from exuvia.ddl.job import FINISHED, Job, wall_s
from exuvia.ddl.kept import Kept
from exuvia.ddl.runs import assent_to
from exuvia.ddl.snapshot import CatalogSnapshot, FactReader
from exuvia.ddl.state_machine import read_set, walking
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
    """The job's elements in this snapshot, and all declared reads. `now` is a job's timestamp."""
    table = meta.get_table(txn, job.table_id) if job.table_id else None
    reads = read_set(job)
    others = (meta.get_table(txn, table_id) for table_id in reads.tables)
    databases = (meta.get_database(txn, database_id) for database_id in reads.databases)
    records = {(kind, name): kind.find(txn, name) for kind, name in reads.records}
    source = FactReader(txn, lambda job_id: queue.get(txn, job_id) is not None)
    return CatalogSnapshot(
        database=meta.get_database(txn, job.schema_id),
        table=table,
        others=tuple(info for info in others if info is not None),
        databases=tuple(info for info in databases if info is not None),
        records={key: info for key, info in records.items() if info is not None},
        facts={fact: fact.read(source) for fact in reads.facts},
        table_is_empty=_is_empty(txn, walking(job), table),
        now=now,
    )


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


class _Step:
    """A decision while it is put into a transaction. `job`: as it will be after the commit."""

    def __init__(self, txn: Transaction, decision: Decision, owner: str, joins: bool) -> None:
        self.txn = txn
        self.decision = decision
        self.owner = owner
        self.joins = joins
        self.job = decision.job
        self.bumps = _bumps(decision)
        # before the catalog is written: a removed table has no revision any more
        self.announced = _revisions_after(txn, decision, self.bumps) if decision.moves else {}


def apply(txn: Transaction, decision: Decision, owner: str, joins: bool = False) -> Job:
    """Put the decision into the transaction. Returns the job as it will be after the commit.

    `joins`: the step shares the schema version of the previous step in this transaction.
    """
    decision = evolve(decision, job=decision.job.at(decision.before.now))
    step = _Step(txn, decision, owner, joins)
    for kind in EFFECTS:
        effects = of_kind(decision.effects, kind)
        if effects:
            WRITERS[kind](step, effects)
    if not decision.archives:
        queue.update(txn, step.job)
    return step.job


def suppose(txn: Transaction, decision: Decision) -> None:
    """Write the catalog as the step would leave it, for later checks in this transaction.

    The transaction must never commit: no change is announced.
    """
    if decision.moves:
        step = _Step(txn, decision, "", joins=False)
        for kind in EFFECTS[: EFFECTS.index(Publish)]:
            if kind is not OrderReorg:
                WRITERS[kind](step, of_kind(decision.effects, kind))
        meta.publish_silently(txn, step.bumps)


# -- one function for each kind of effect, in the order of the transaction -------------------------


def _order_reorg(step: _Step, effects: list[OrderReorg]) -> None:
    for effect in effects:
        _move_epoch(step.txn, step.job.id, effect.order)
        if effect.order == ReorgOrder.AGAIN:
            checkpoint.forget(step.txn, step.job.id)
        if effect.order == ReorgOrder.START:
            step.job = evolve(step.job, snapshot_ver=step.txn.sequence)


def _change_tables(step: _Step, effects: list[ChangeTable]) -> None:
    """Release names first, so that two tables of one step may swap theirs."""
    txn = step.txn
    for effect in effects:
        if effect.before is not None and effect.after is None:
            meta.drop_table(txn, effect.before)
        elif effect.before is not None and effect.after is not None:
            meta.release_name(txn, effect.before, effect.after)
    for effect in effects:
        if effect.after is not None:
            txn.require(keys.meta("db", effect.after.exuvia_db))
            meta.put_table(txn, effect.after)


def _change_database(step: _Step, effects: list[ChangeDatabase]) -> None:
    txn = step.txn
    for before, after in effects:
        if after is not None:
            meta.put_database(txn, after)
        elif before is not None:
            table_ids = tuple(table_id for _, table_id in meta.table_names(txn, before.id))
            for info in meta.referred_tables(txn, table_ids):
                meta.orphan(txn, info, before.db_name.L)
            meta.drop_database(txn, before)


def _change_records(step: _Step, effects: list[ChangeNamed]) -> None:
    for effect in effects:
        if effect.after is None:
            effect.kind.drop(step.txn, effect.before)
        else:
            effect.kind.put(step.txn, effect.after)


def _move_counters(step: _Step, effects: list[MoveCounters]) -> None:
    meta.carry_counters(step.txn, tuple((effect.source, effect.target) for effect in effects))


def _move_retention(step: _Step, effects: list[MoveRetention]) -> None:
    for source, target in effects:
        kept.follow(step.txn, source, target)


def _publish(step: _Step, effects: list[Publish]) -> None:
    """The version and revisions, and the request to acknowledge them.

    The revision of a database is part of the fence of all its tables. It moves only with the state:
    another charset does not concern writers of the tables.
    """
    txn, job, decision = step.txn, step.job, step.decision
    if decision.barrier:
        version = meta.publish_silently(txn, step.bumps)
    else:
        states = [
            None if info is None else info.state
            for info in (decision.before.database, decision.after.database)
        ]
        version = meta.publish(
            txn,
            type=int(job.type),
            schema_id=job.schema_id,
            table_id=job.table_id,
            affected=[table_id for table_id in step.bumps if table_id != job.table_id],
            bumps=step.bumps,
            database_bumps={job.schema_id: meta.STEP} if states[0] != states[1] else {},
            joins=step.joins,
        )
    job = evolve(job, last_schema_version=version)
    if job.state in FINISHED:
        job = evolve(job, binlog=left_behind(txn, job.binlog, decision, version))
    queue.announce(txn, job, step.announced, step.owner)
    assent = assent_to(job, step.announced)
    versions.announce(txn, job.id, version, step.announced, assent)
    step.job = job


def _leave_ranges(step: _Step, effects: list[DeleteRange]) -> None:
    first = delete_ranges.free_ordinal(step.txn, step.job.id)
    for ordinal, new_range in enumerate(effects, first):
        delete_ranges.add_range(step.txn, step.job.id, ordinal, new_range, step.decision.before.now)


def _restore_ranges(step: _Step, effects: list[RestoreRanges]) -> None:
    for effect in effects:
        delete_ranges.restore_ranges(step.txn, effect.job_id)


def _retain(step: _Step, effects: list[Kept]) -> None:
    for record in effects:
        kept.put(step.txn, record)


def _end_retention(step: _Step, effects: list[EndRetention]) -> None:
    tables = step.decision.before.table, step.decision.after.table
    for effect in effects:
        kept.end(step.txn, effect.job_id, *tables)


def _notify(step: _Step, effects: list[Notify]) -> None:
    """A single event has the job's number alone; several are numbered like sub-jobs."""
    txn, job_id = step.txn, step.job.id
    own = [effect.event for effect in effects if effect.sub_job is None]
    changes = [change for event in own for change in changes_of(txn, event)]
    for number, change in enumerate(changes):
        notifier.put(txn, job_id, number if len(changes) > 1 else notifier.WHOLE_JOB, change)
    for event, sub_job in effects:
        if sub_job is not None:
            notifier.put(txn, job_id, sub_job, change_of(txn, event))


def _archive(step: _Step, effects: list[Archive]) -> None:
    txn, job = step.txn, step.job
    queue.remove(txn, job)
    queue.forget(txn, job)
    queue.archive(txn, job)
    versions.finish(txn, job.id)
    if job.reorg_meta:
        txn.delete(keys.meta("dial", job.id))
    if txn.get(keys.meta("reorg", job.id)) is not None:
        checkpoint.forget(txn, job.id)
        txn.delete(keys.meta("reorg", job.id))
        if txn.get(keys.meta("loaded", job.id)) is not None:
            txn.delete(keys.meta("loaded", job.id))
    txn.notify("history")


def _nothing(step: _Step, effects: list[Any]) -> None:
    """It is part of the revisions that `_publish` announces."""


WRITERS: dict[type[Effect], Callable[[_Step, list[Any]], None]] = {
    OrderReorg: _order_reorg,
    ChangeTable: _change_tables,
    ChangeDatabase: _change_database,
    ChangeNamed: _change_records,
    MoveCounters: _move_counters,
    MoveRetention: _move_retention,
    FenceWriters: _nothing,
    AwaitWriters: _nothing,
    Publish: _publish,
    DeleteRange: _leave_ranges,
    RestoreRanges: _restore_ranges,
    Kept: _retain,
    EndRetention: _end_retention,
    Notify: _notify,
    Archive: _archive,
}


def _bumps(decision: Decision) -> dict[int, int]:
    """Table id -> increment of its revision, for the job's own table and each changed one.

    The increment is doubled for a table whose writers are fenced.
    """
    own = [decision.job.table_id] if decision.job.table_id else []
    changed = [change.id for change in of_kind(decision.effects, ChangeTable)]
    fenced = [fence.table_id for fence in of_kind(decision.effects, FenceWriters)]
    return {**dict.fromkeys([*own, *changed], meta.STEP), **dict.fromkeys(fenced, meta.TAKEN)}


def _revisions_after(txn: Transaction, decision: Decision, bumps: dict[int, int]) -> dict[int, int]:
    """Table id -> the revision after this step; in a database, one that no open writer has.

    Writers of a fenced table are not waited for: the store refuses them.
    """
    existing = {info.id for info in decision.before.tables}
    fenced = {fence.table_id for fence in of_kind(decision.effects, FenceWriters)}
    moved = {table_id: by for table_id, by in bumps.items() if table_id in existing - fenced}
    within = {
        table_id: meta.STEP
        for effect in of_kind(decision.effects, AwaitWriters)
        for table_id in effect.table_ids
    }
    return {
        table_id: meta.revision(txn, table_id) + by for table_id, by in {**within, **moved}.items()
    }


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


_decoder = json_decoder(_Mini)


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
