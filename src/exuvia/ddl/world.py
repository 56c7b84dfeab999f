"""What a decision looks at and what it says, both plain data.

    job, world --decide--> Decision --apply--> one transaction        (law 4)

The world before and after a step says what happens to the catalog: an info that appears is created,
one that is replaced is written, one that is gone is removed.
"""

from enum import IntEnum
from typing import NamedTuple

import msgspec

from exuvia.base.errors import Refused
from exuvia.catalog.model import DatabaseInfo, TableInfo
from exuvia.ddl.job import Job
from exuvia.kv.packet import Span


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What the transaction's snapshot shows of the elements a job is about."""

    database: DatabaseInfo | None = None
    table: TableInfo | None = None
    tables: tuple[int, ...] = ()  # all of the database, where it is dropped
    name_is_taken: bool = False  # by another element than the job's
    table_is_empty: bool = False  # no row in this snapshot
    filled: bool = False  # the reorg has written and verified everything
    failure: Refused | None = None  # what ended the reorg
    rows: int = 0  # how many the reorg has done
    note: str = ""  # what it says of itself
    now: int = 0  # a job's timestamp
    place: int = 0  # the job's number in history, should it end now


class Wait(NamedTuple):
    """A step's condition does not hold yet. `reorg`: the job's reorg is to be run meanwhile."""

    reason: str
    reorg: bool = False


class ReorgOrder(IntEnum):
    """What a decision asks of the job's reorg. Its epoch moves at START and LEAVE (law 2)."""

    NONE = 0
    START = 1
    LEAVE = 2
    RUN = 3


class DeleteRange(msgspec.Struct, frozen=True):
    """Keys, or tombstones among keys, that nobody needs: a row of mysql.gc_delete_range."""

    element_id: int
    span: Span
    tombstones_only: bool = False


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A finished change, for the notifier: a row of mysql.ddl_notifier."""

    type: str
    table: TableInfo | None = None
    database: DatabaseInfo | None = None
    elements: tuple[int, ...] = ()  # ids of the columns or indexes, or of the tables dropped


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One step as data. Without `moves` and `archive` it is a wait; `job.exuvia_wait` says why."""

    job: Job
    before: World
    after: World
    moves: bool = False  # the catalog changes: one schema version, revisions bumped
    archive: bool = False  # the job goes to history
    parks: bool = False  # the job keeps its place and needs no worker
    ranges: tuple[DeleteRange, ...] = ()
    event: Event | None = None
    reorg: ReorgOrder = ReorgOrder.NONE
