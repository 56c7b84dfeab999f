"""Everything that a step may do, as a closed set: a decision carries effects, in this order.

    decide --Decision.effects--> applied(snapshot, effects)     the state after the step, in memory
    decide --Decision.effects--> apply.apply(txn, decision)     the same effects, one transaction

    OrderReorg                           the reorg's epoch moves: it starts, is left, or runs again
    ChangeTable, ChangeDatabase          an element before and after; None: it does not exist
    ChangeNamed                         the same for every other noun of the catalog
    MoveCounters, MoveRetention          what belongs to a table's id belongs to another id
    FenceWriters, AwaitWriters           tables whose writers are refused, or waited for
    Publish                              one schema version, or a barrier without one
    DeleteRange, RestoreRanges           unused keys; a job's ranges that are in use again
    Kept, EndRetention                   data retained for UNDO; its end
    Notify                               an event for subscribers
    Archive                              the job goes to history

Edits of actions return a new snapshot, so that sub-jobs see the changes of earlier ones;
`difference` turns the result into effects. Whatever is not in this list cannot be done by a step.
Facts of a snapshot do not change with it.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from exuvia.catalog.model import DatabaseInfo, PartitionDefinition, TableInfo, evolve
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.kept import Kept
from exuvia.ddl.snapshot import CatalogSnapshot, RecordKind


class ReorgOrder(IntEnum):
    """The command of a step to the job's reorg. Its epoch moves at START and LEAVE (law 2)."""

    NONE = 0
    START = 1
    LEAVE = 2
    AGAIN = 3  # its progress is discarded: all of it runs again


class OrderReorg(NamedTuple):
    """The job's reorg starts, is left, or runs again."""

    order: ReorgOrder


class ChangeTable(NamedTuple):
    """A table is created, written or removed. `own`: it is the job's own."""

    before: TableInfo | None
    after: TableInfo | None
    own: bool

    @property
    def id(self) -> int:
        """The table's id."""
        info = self.before or self.after
        assert info is not None
        return info.id


class ChangeDatabase(NamedTuple):
    """A database is created, written or removed."""

    before: DatabaseInfo | None
    after: DatabaseInfo | None


class ChangeNamed(NamedTuple):
    """A record of another noun is created, written or removed."""

    kind: RecordKind[Any]
    name: str
    before: Any
    after: Any


class MoveCounters(NamedTuple):
    """The counters of ids of a table continue after those of another one, too."""

    source: int
    target: int


class MoveRetention(NamedTuple):
    """Records for UNDO of a table belong to the table that replaces it."""

    source: int
    target: int


class FenceWriters(NamedTuple):
    """The writers of a table are refused, whatever they planned with: revision + 2 (law 1)."""

    table_id: int


class AwaitWriters(NamedTuple):
    """The step waits for writers of tables that it does not change."""

    table_ids: tuple[int, ...]


class Publish(NamedTuple):
    """Revisions move and are acknowledged. `barrier`: without a schema version."""

    barrier: bool


class RestoreRanges(NamedTuple):
    """The ranges of an ended job must not be emptied any more."""

    job_id: int


class EndRetention(NamedTuple):
    """A job can no longer be undone."""

    job_id: int


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A finished change, for the notifier: a row of mysql.ddl_notifier."""

    type: str
    table: TableInfo | None = None
    database: DatabaseInfo | None = None
    elements: tuple[int, ...] = ()  # ids of the columns or indexes, or of the tables dropped
    dropped: TableInfo | None = None  # the table that was replaced, or the table before a drop
    added: tuple[PartitionDefinition, ...] = ()  # new partitions
    removed: tuple[PartitionDefinition, ...] = ()  # removed partitions
    kept_until: int = 0  # the removed data may be restored until then


class Notify(NamedTuple):
    """An event of the job, or of one of its sub-jobs by its number."""

    event: JobEvent
    sub_job: int | None = None


class Archive(NamedTuple):
    """The job goes to history."""


Effect = (
    OrderReorg
    | ChangeTable
    | ChangeDatabase
    | ChangeNamed
    | MoveCounters
    | MoveRetention
    | FenceWriters
    | AwaitWriters
    | Publish
    | DeleteRange
    | RestoreRanges
    | Kept
    | EndRetention
    | Notify
    | Archive
)
EFFECTS: tuple[type[Effect], ...] = get_args(Effect)

_Kind = TypeVar("_Kind")


def of_kind(effects: Iterable[Effect], kind: type[_Kind]) -> list[_Kind]:
    """The effects of that kind, in their order."""
    return [effect for effect in effects if isinstance(effect, kind)]


def difference(before: CatalogSnapshot, after: CatalogSnapshot) -> tuple[Effect, ...]:
    """The effects that turn the elements of one snapshot into those of the other."""
    own = {info.id for info in (before.table, after.table) if info is not None}
    was, becomes = ({info.id: info for info in side.tables} for side in (before, after))
    effects: list[Effect] = [
        ChangeTable(was.get(table_id), becomes.get(table_id), table_id in own)
        for table_id in {**was, **becomes}
        if was.get(table_id) != becomes.get(table_id)
    ]
    if before.database != after.database:
        effects.append(ChangeDatabase(before.database, after.database))
    for key in {**before.records, **after.records}:
        record, changed = before.records.get(key), after.records.get(key)
        if record != changed:
            effects.append(ChangeNamed(*key, record, changed))
    return tuple(effects)


def applied(snapshot: CatalogSnapshot, effects: Iterable[Effect]) -> CatalogSnapshot:
    """The snapshot after these effects."""
    for effect in effects:
        match effect:
            case ChangeTable(own=True):
                snapshot = evolve(snapshot, table=effect.after)
            case ChangeTable():
                snapshot = evolve(snapshot, others=_replaced(snapshot.others, effect))
            case ChangeDatabase():
                snapshot = evolve(snapshot, database=effect.after)
            case ChangeNamed():
                snapshot = snapshot.with_record(effect.kind, effect.name, effect.after)
    return snapshot


def _replaced(tables: tuple[TableInfo, ...], change: ChangeTable) -> tuple[TableInfo, ...]:
    if change.before is None:
        return (*tables, change.after) if change.after is not None else tables
    after = () if change.after is None else (change.after,)
    pieces = (after if table.id == change.id else (table,) for table in tables)
    return tuple(table for piece in pieces for table in piece)
