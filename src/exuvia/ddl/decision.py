"""The input and the output of a decision; both are plain data.

    job, snapshot --decide--> Decision --apply--> one transaction        (law 4)

The catalog's snapshots before and after a step define the change. A new info is created, a
different one is written, a missing one is removed.
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
    """Additional reads of an action in the step's snapshot, by the field that gets the result."""

    tables: tuple[int, ...] = ()  # other tables' ids -> CatalogSnapshot.others
    databases: tuple[int, ...] = ()  # other databases' ids -> CatalogSnapshot.databases
    names: tuple[tuple[int, str], ...] = ()  # (database id, table name) -> CatalogSnapshot.names
    left_by: int = 0  # id of an ended job -> CatalogSnapshot.left
    undo_of: int = 0  # id of an ended job -> CatalogSnapshot.is_kept, CatalogSnapshot.taken_by
    # whether another element has the job's own name -> CatalogSnapshot.name_is_taken
    own_name: Literal["", "database", "table"] = ""
    database_tables: bool = False  # -> CatalogSnapshot.tables
    referrers: bool = False  # children of dropped tables -> CatalogSnapshot.referrers
    last_id: bool = False  # the table's counter of ids -> CatalogSnapshot.last_id
    greatest_of: int = 0  # id of a numeric column -> CatalogSnapshot.greatest
    policies: tuple[str, ...] = ()  # names of placement policies -> CatalogSnapshot.policies
    policy_uses: bool = False  # -> CatalogSnapshot.is_used, for the first of the policies
    group: str = ""  # a resource group's name -> CatalogSnapshot.group, CatalogSnapshot.group_users
    loader: str = (
        ""  # the member that loads rows -> CatalogSnapshot.loader_lives, CatalogSnapshot.is_loaded
    )


class Referrer(NamedTuple):
    """An enforced foreign key with the names for errors: the parent, and the child's id."""

    parent: str
    child: int
    child_database: str
    child_table: str
    key: str


class CatalogSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The elements of a job as the transaction's snapshot shows them."""

    database: DatabaseInfo | None = None
    table: TableInfo | None = None
    gone_links: frozenset[int] = frozenset()  # foreign keys to the table whose child does not exist
    tables: tuple[int, ...] = ()  # all tables of the database, if it is dropped
    others: tuple[TableInfo, ...] = ()  # other tables the action looks at or changes
    databases: tuple[DatabaseInfo, ...] = ()  # other databases the action looks at
    referrers: tuple[Referrer, ...] = ()  # foreign keys of children, if a parent is dropped
    # (database id, lower name, table id) of existing names
    names: tuple[tuple[int, str, int], ...] = ()
    left: tuple["DeleteRange", ...] = ()  # ranges of an ended job, none of them emptied yet
    is_kept: bool = False  # an ended job has a record of data retained for UNDO
    taken_by: int = 0  # the unfinished job that will end that retention
    loader_lives: bool = False  # the member whose session loads rows has not been fenced
    is_loaded: bool = False  # and all its rows are loaded
    last_id: int = 0  # the last AUTO_INCREMENT or AUTO_RANDOM id allocated for the table
    greatest: int = 0  # the greatest value of a column, rounded up; 0 if no value is above 0
    policies: tuple[PolicyInfo, ...] = ()  # placement policies it looks at or changes
    is_used: bool = False  # the first of these policies is in use
    group: ResourceGroupInfo | None = None  # the resource group of the job
    group_users: tuple[str, ...] = ()  # accounts in it
    carries: tuple[tuple[int, int], ...] = ()  # (from, to): counters of ids that move
    renumbered: tuple[tuple[int, int], ...] = ()  # (from, to): records for UNDO that move
    name_is_taken: bool = False  # by another element than the job's
    table_is_empty: bool = False  # no row in this snapshot
    filled: bool = False  # the reorg has written and verified everything
    failure: Refused | None = None  # the error that ended the reorg
    rows: int = 0  # number of rows the reorg has processed
    note: str = ""  # status text of the reorg
    now: int = 0  # a job's timestamp
    place: int = 0  # the job's number in history, should it end now
    verified_for: int = 0  # how old a verification may be, as a difference of timestamps; 0: any

    def other(self, table_id: int) -> TableInfo | None:
        """Another table of the snapshot, by id, or None."""
        return next((table for table in self.others if table.id == table_id), None)

    def holder(self, database_id: int, table_name: str) -> int:
        """Id of the table that has a name the action needs, 0 if no table has it."""
        wanted_name = database_id, table_name.lower()
        return next((entry[2] for entry in self.names if entry[:2] == wanted_name), 0)


class StepWait(NamedTuple):
    """The condition of a step does not hold yet. `reorg`: the reorg to run in the meantime."""

    reason: str
    reorg: Reorg | None = None


class ReorgOrder(IntEnum):
    """The command of a decision to the job's reorg. Its epoch moves at START and LEAVE (law 2)."""

    NONE = 0
    START = 1
    LEAVE = 2
    RUN = 3


class DeleteRange(msgspec.Struct, frozen=True):
    """Unused keys, or unused tombstones among keys: a row of mysql.gc_delete_range.

    A span of names (`m/name/...`) represents the tables of a dropped database.
    """

    element_id: int
    span: Span
    tombstones_only: bool = False


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Data that UNDO can restore after a drop, a TRUNCATE or a MODIFY: ddl/kept.py.

    It is retained until `until` (a job's timestamp). Retained elements are hidden (write only)
    under other names. Otherwise an index or a key is built again from its definition, and a column
    whose rows were not written is changed back.
    """

    job_id: int
    kind: Literal["index", "column", "table", "modify", "key"]
    table_id: int
    until: int
    name: str  # the element's name for clients
    elements: tuple[int, ...] = ()
    index_names: tuple[tuple[int, str], ...] = ()  # ids and names of the hidden indexes
    before: tuple[int, ...] = ()  # ids of the columns that preceded it
    before_names: tuple[str, ...] = ()  # their names: a MODIFY in the meantime may change their ids
    definition: IndexInfo | None = None  # None: there was no key before
    hidden: tuple[ColumnInfo, ...] = ()  # columns with the expressions of the definition
    # columns those expressions read: (name in lower case, id)
    reads: tuple[tuple[str, int], ...] = ()
    key: IndexInfo | None = None  # the primary key that replaced it; None: hidden row ids did
    table: TableInfo | None = None  # the truncated table; `table_id` is its successor
    former: ColumnInfo | None = None  # the column before a MODIFY
    changed: ColumnInfo | None = None  # the column after a MODIFY
    moved: bool = False  # the MODIFY moved the column; `before` has its former place
    ended_by: int = 0  # the job that ends the retention

    def neighbour(self, columns: Sequence[ColumnInfo]) -> ColumnInfo | None:
        """The last of these columns that preceded the element."""
        preceding = (c for c in columns if c.id in self.before or c.name.L in self.before_names)
        return next(reversed(list(preceding)), None)

    @property
    def is_definition(self) -> bool:
        """Whether only a definition is retained, without a hidden element."""
        if self.kind == "modify":
            return not self.elements
        return self.definition is not None or self.kind == "key"


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


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One step as data.

    Without `moves` and `archive` it is a wait; `job.exuvia_wait` has the reason.
    """

    job: Job
    before: CatalogSnapshot
    after: CatalogSnapshot
    moves: bool = False  # the catalog changes: one schema version, revisions bumped
    archive: bool = False  # the job goes to history
    parks: bool = False  # the job stays in the queue and needs no worker
    rests_s: float = 0.0  # the job is looked at again after this time at the latest; 0: no limit
    ranges: tuple[DeleteRange, ...] = ()
    events: tuple[JobEvent, ...] = ()  # events of a single change that ended successfully
    # events of several changes, by the number of the sub-job
    sub_job_events: tuple[tuple[int, JobEvent], ...] = ()
    keeps: bool = False  # nothing moves, but the job's row must be written now
    anew: bool = False  # the progress of the job's reorg is discarded: all of it runs again
    restores_ranges_of: int = 0  # id of the job whose ranges must not be emptied any more
    keeps_for_undo: tuple[Kept, ...] = ()
    ends_undo_of: int = 0  # id of the job that can no longer be undone
    reorg: ReorgOrder = ReorgOrder.NONE
    to_run: Reorg | None = None
    # ids of tables whose writers are fenced: revision + 2 (law 1)
    fences_tables: tuple[int, ...] = ()
    barrier: bool = False  # a revision moves and is acknowledged, without a schema version
