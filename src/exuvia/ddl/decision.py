"""What a decision looks at and what it says, both plain data.

    job, snapshot --decide--> Decision --apply--> one transaction        (law 4)

The catalog's snapshot before and after a step says what happens to it: an info that appears is
created, one that is replaced is written, one that is gone is removed.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Literal, NamedTuple

import msgspec

from exuvia.base.errors import Refused
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexInfo,
    PartitionDefinition,
    TableInfo,
)
from exuvia.catalog.placement import PolicyInfo, ResourceGroupInfo
from exuvia.ddl.job import Job
from exuvia.kv.packet import Span
from exuvia.pipeline.reorg import Reorg


class ReadSet(NamedTuple):
    """What else an action must see: read in the step's own snapshot into `CatalogSnapshot`."""

    tables: tuple[int, ...] = ()  # other tables' ids -> CatalogSnapshot.others
    databases: tuple[int, ...] = ()  # other databases' ids -> CatalogSnapshot.databases
    names: tuple[tuple[int, str], ...] = ()  # (database id, table name) -> CatalogSnapshot.names
    left_by: int = 0  # id of an ended job -> CatalogSnapshot.left
    undo_of: int = 0  # likewise -> CatalogSnapshot.is_kept, CatalogSnapshot.taken_by
    own_name: Literal["", "database", "table"] = (
        ""  # whose the job's own is -> CatalogSnapshot.name_is_taken
    )
    database_tables: bool = False  # -> CatalogSnapshot.tables
    referrers: bool = False  # children of tables that go -> CatalogSnapshot.referrers
    last_id: bool = False  # the table's counter of ids -> CatalogSnapshot.last_id
    greatest_of: int = 0  # id of a column of numbers -> CatalogSnapshot.greatest
    policies: tuple[str, ...] = ()  # names of placement policies -> CatalogSnapshot.policies
    policy_uses: bool = False  # -> CatalogSnapshot.is_used, of the first of them
    group: str = ""  # a resource group's name -> CatalogSnapshot.group, CatalogSnapshot.group_users
    loader: str = (
        ""  # the member that loads rows -> CatalogSnapshot.loader_lives, CatalogSnapshot.is_loaded
    )


class Referrer(NamedTuple):
    """A foreign key that is obeyed, by what its refusals name: the parent, the child's id."""

    parent: str
    child: int
    child_database: str
    child_table: str
    key: str


class CatalogSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What the transaction's snapshot shows of the elements a job is about."""

    database: DatabaseInfo | None = None
    table: TableInfo | None = None
    gone_links: frozenset[int] = frozenset()  # keys onto the table whose child is not there
    tables: tuple[int, ...] = ()  # all of the database, where it is dropped
    others: tuple[TableInfo, ...] = ()  # other tables the action looks at or changes
    databases: tuple[DatabaseInfo, ...] = ()  # other databases it looks at
    referrers: tuple[Referrer, ...] = ()  # foreign keys of children, where a parent is to go
    names: tuple[tuple[int, str, int], ...] = ()  # names held: (database id, lower name, table id)
    left: tuple["DeleteRange", ...] = ()  # what an ended job left and nobody has begun to empty
    is_kept: bool = False  # an ended job has a record of what it left for UNDO
    taken_by: int = 0  # and another job, which has not ended, is about to end it
    loader_lives: bool = False  # the member whose session loads rows has not been fenced
    is_loaded: bool = False  # and it has said that they are all there
    last_id: int = 0  # the last of the table's AUTO_INCREMENT or AUTO_RANDOM given to anybody
    greatest: int = 0  # the greatest value of a column, rounded up; 0 if there is none above
    policies: tuple[PolicyInfo, ...] = ()  # placement policies it looks at or changes
    is_used: bool = False  # something has the first of them
    group: ResourceGroupInfo | None = None  # the resource group it is about
    group_users: tuple[str, ...] = ()  # accounts in it
    carries: tuple[tuple[int, int], ...] = ()  # (from, to): counters of ids that go along
    renumbered: tuple[tuple[int, int], ...] = ()  # (from, to): records for UNDO that go along
    name_is_taken: bool = False  # by another element than the job's
    table_is_empty: bool = False  # no row in this snapshot
    filled: bool = False  # the reorg has written and verified everything
    failure: Refused | None = None  # what ended the reorg
    rows: int = 0  # how many the reorg has done
    note: str = ""  # what it says of itself
    now: int = 0  # a job's timestamp
    place: int = 0  # the job's number in history, should it end now
    verified_for: int = 0  # how old a verification may be, as a difference of timestamps; 0: any

    def other(self, table_id: int) -> TableInfo | None:
        """Another table the action looks at, by id."""
        return next((each for each in self.others if each.id == table_id), None)

    def holder(self, database_id: int, table_name: str) -> int:
        """Id of the table that holds a name the action asked for, 0 if none does."""
        wanted = database_id, table_name.lower()
        return next((held[2] for held in self.names if held[:2] == wanted), 0)


class StepWait(NamedTuple):
    """A step's condition does not hold yet. `reorg`: what is to be run meanwhile."""

    reason: str
    reorg: Reorg | None = None


class ReorgOrder(IntEnum):
    """What a decision asks of the job's reorg. Its epoch moves at START and LEAVE (law 2)."""

    NONE = 0
    START = 1
    LEAVE = 2
    RUN = 3


class DeleteRange(msgspec.Struct, frozen=True):
    """Keys, or tombstones among keys, that nobody needs: a row of mysql.gc_delete_range.

    A span of names (`m/name/...`) stands for the tables of a dropped database."""

    element_id: int
    span: Span
    tombstones_only: bool = False


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a drop, a TRUNCATE or a MODIFY left that can be taken back until `until` (a job's
    timestamp): ddl/kept.py.

    Elements are hidden (write only) under names of their own. Without any, an index or a key is
    made anew from its definition, and a column that no row was written for is changed back."""

    job_id: int
    kind: Literal["index", "column", "table", "modify", "key"]
    table_id: int
    until: int
    name: str  # the element's, as clients knew it
    elements: tuple[int, ...] = ()
    index_names: tuple[tuple[int, str], ...] = ()  # ids and names of the indexes that are hidden
    before: tuple[int, ...] = ()  # ids of the columns that stood before it
    before_names: tuple[str, ...] = ()  # a MODIFY meanwhile may give one another id
    definition: IndexInfo | None = None  # of a key that there was none of: None
    hidden: tuple[ColumnInfo, ...] = ()  # that the definition's expressions stood in
    reads: tuple[tuple[str, int], ...] = ()  # what those name, in lower case, with ids
    key: IndexInfo | None = None  # the primary key that took its place; None: hidden ids did
    table: TableInfo | None = None  # the one that was truncated; `table_id`: its successor's
    former: ColumnInfo | None = None  # what a column was that was changed
    changed: ColumnInfo | None = None  # and what it became
    moved: bool = False  # to another place; `before` says where it was
    ended_by: int = 0  # the job that ends it

    def neighbour(self, columns: Sequence[ColumnInfo]) -> ColumnInfo | None:
        """The last of these that stood before it."""
        stood = (c for c in columns if c.id in self.before or c.name.L in self.before_names)
        return next(reversed(list(stood)), None)

    @property
    def is_definition(self) -> bool:
        """Whether nothing is hidden for it."""
        if self.kind == "modify":
            return not self.elements
        return self.definition is not None or self.kind == "key"


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A finished change, for the notifier: a row of mysql.ddl_notifier."""

    type: str
    table: TableInfo | None = None
    database: DatabaseInfo | None = None
    elements: tuple[int, ...] = ()  # ids of the columns or indexes, or of the tables dropped
    dropped: TableInfo | None = None  # the table whose place another one took; before a drop
    added: tuple[PartitionDefinition, ...] = ()  # partitions that came
    removed: tuple[PartitionDefinition, ...] = ()  # partitions that went
    kept_until: int = 0  # what lies under the ids that went may come back until then


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One step as data. Without `moves` and `archive` it is a wait; `job.exuvia_wait` says why."""

    job: Job
    before: CatalogSnapshot
    after: CatalogSnapshot
    moves: bool = False  # the catalog changes: one schema version, revisions bumped
    archive: bool = False  # the job goes to history
    parks: bool = False  # the job keeps its place and needs no worker
    rests_s: float = 0.0  # until when it is to be looked at again at the latest; 0: no such time
    ranges: tuple[DeleteRange, ...] = ()
    events: tuple[JobEvent, ...] = ()  # of a plain job that has ended well
    sub_job_events: tuple[
        tuple[int, JobEvent], ...
    ] = ()  # of several, by the number of the sub-job
    keeps: bool = False  # nothing moves, and yet the job's row is to be written now
    anew: bool = False  # what the job's reorg has finished is forgotten: all of it runs again
    restores_ranges_of: int = 0  # id of the job whose ranges are taken back from deletion
    keeps_for_undo: tuple[Kept, ...] = ()
    ends_undo_of: int = 0  # id of the job that can be taken back no more
    reorg: ReorgOrder = ReorgOrder.NONE
    to_run: Reorg | None = None
    fences_tables: tuple[
        int, ...
    ] = ()  # ids of tables taken away from their writers: revision + 2 (law 1)
    barrier: bool = False  # a revision moves and is acknowledged, but no schema version is spent
