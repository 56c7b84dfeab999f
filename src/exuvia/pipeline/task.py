"""What a kernel is asked and what it answers: plain data that crosses to Spark's Python workers
and back.

    kind              a kernel over one span            answers in `result`
    fill              put index entries of rows         -, or a Summary
    rewrite           fill a hidden column of rows,     -
                      and indexes that hold it
    move              put rows, entries in partitions   -
    renumber          give new ids to rows whose hidden -
                      ones stand in two partitions
    rekey             put rows under other handles,     -
                      and their entries
    move to ids       put rows under hidden ids,        -
                      and their entries
    clean             remove entries of global indexes  -
    import            put rows of a file's part         -
    check moved       rows looked up in the other set   how many have no twin there, the first
    check rekeyed     likewise, where handles differ    likewise
    check apart       rows held to the other set        -
    check fits        rows held to a partition          -
    check column      rows held to a column's new type  how many do not fit, the first as text
    verify column     a filled column, compared;        one Sums per index
                      checksums, as sum rows
    sum rows          checksums, computed from rows     one Sums per index
    sum entries       checksums of one index            one Sums
    sum both          both of these, of one moment      the Sums of rows, then of entries
    collect rows      entries of the given buckets      keys and handles, per index
    collect entries   likewise, of one index            keys and handles
    check rows        rows held to a rule               how many break it, the first as text
    summarize         what statistics need of rows      pipeline/kernels/summary.py

An outcome is `done`, `deposed` (the epoch was lost: stop quietly), `duplicates`, `unavailable` (a
reason to wait), or `failed` (a Refused). What is none of these is a bug, and is raised where it
happens.
"""

from typing import Any

import msgspec

from exuvia.catalog.model import DatabaseInfo, TableInfo
from exuvia.catalog.table import Table
from exuvia.cluster.questions import Topic
from exuvia.kv import keys as k
from exuvia.kv.packet import Equal, Span
from exuvia.pipeline.reorg import ImportSource, ReorgElement, TableRule

DONE, DEPOSED, DUPLICATES, UNAVAILABLE, FAILED = (
    "done",
    "deposed",
    "duplicates",
    "unavailable",
    "failed",
)
MOST_DUPLICATES = 100
WARM = b""  # no task: a worker that gets it starts and opens the store


class TaskOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What all tasks of a reorg share. `run` tells this driver's progress from an older one's."""

    job_id: int
    epoch: int
    info: TableInfo
    revision: int
    database: DatabaseInfo
    database_revision: int
    index_ids: tuple[int, ...]
    run: int = 0
    at_once: int = 1  # tasks that may write side by side
    element: ReorgElement | None = None  # what finished spans are remembered as; None: the indexes
    changing: int = 0  # id of the column whose change is meant (catalog/convert/type_change.py)
    physical_id: int = 0  # of the partition that is worked on, 0 for a table without
    router: str = ""  # where rows belong: a name, see pipeline/kernels/move.py
    sources: tuple[int, ...] = ()  # ids of the partitions whose rows move
    evaluator: str = ""  # of virtual columns: a name, see catalog/table.py
    rule: TableRule | None = None  # what rows are held to
    source: ImportSource | None = None  # of an import
    judge: str = ""  # who makes a rule of it: a name, see pipeline/verify/rules.py

    @property
    def table(self) -> Table:
        """The table as planned with."""
        return Table(
            self.info,
            self.revision,
            self.database,
            self.database_revision,
            self.evaluator,
            self.physical_id,
        )

    @property
    def logical(self) -> Table:
        """The table as a whole, where one partition is worked on."""
        facts = self.info, self.revision, self.database, self.database_revision
        return Table(*facts, self.evaluator)

    @property
    def table_id(self) -> int:
        """The id that keys lie under."""
        return self.physical_id or self.info.id

    @property
    def remembered_as(self) -> ReorgElement:
        """What its finished spans are, as their rows name it."""
        return self.element or ReorgElement("_idx_", self.index_ids)

    @property
    def finishes(self) -> list[ReorgElement]:
        """All that a finished span of it is finished for: indexes that were filled on the way
        too."""
        found = [self.remembered_as]
        if self.index_ids and self.remembered_as.type not in ("_idx_", "_cln_"):
            found.append(ReorgElement("_idx_", self.index_ids))
        return found

    @property
    def fences(self) -> list[Equal]:
        """What every write of the reorg requires (law 2).

        Nothing without a job: a load of an unpublished table."""
        if not self.job_id:
            return []
        return [Equal(k.meta("reorg", self.job_id), k.number(self.epoch))]

    @property
    def among(self) -> bytes:
        """The name of all writes of a rewrite, which leave each other's rows alone; see
        Standing."""
        return k.meta("rewrite", self.job_id) if self.job_id else b""


def order_for(
    table: Table, index_ids: tuple[int, ...], job_id: int = 0, epoch: int = 0
) -> TaskOrder:
    """An order about a table as planned."""
    return TaskOrder(
        job_id=job_id,
        epoch=epoch,
        info=table.info,
        revision=table.revision,
        database=table.database,
        database_revision=table.database_revision,
        index_ids=index_ids,
        evaluator=table.evaluator,
        physical_id=table.physical_id,
    )


def all_parts(order: TaskOrder) -> TaskOrder:
    """The same about all partitions together: its table is the logical one."""
    return msgspec.structs.replace(order, physical_id=0)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One span for one kernel. `ordinal` is its place in the wave; `first`: how many rows there
    are, at most, in an import's files before this one."""

    kind: str
    order: TaskOrder
    span: Span
    ordinal: int = 0
    index_id: int = 0
    buckets: int = 0
    first: int = 0
    chosen: bytes = b""  # u32 numbers of the buckets to collect
    positions: tuple[int, ...] = ()  # of the columns to summarize
    samples: int = 0  # the most rows to sample
    limit: float = 1.0  # of the lots that sampled rows draw


class FoundDuplicate(msgspec.Struct, frozen=True):
    """A duplicate: two rows with one key of a unique index; `text` is the key's value as MySQL
    prints it."""

    index_id: int
    key: bytes
    handle: bytes
    other: bytes
    text: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel's answer."""

    ordinal: int = 0
    kind: str = DONE
    rows: int = 0
    placed: int = 0
    duplicates: tuple[FoundDuplicate, ...] = ()
    code: int = 0
    state: str = ""
    text: str = ""
    result: Any = None


class WaveShare(msgspec.Struct, frozen=True, array_like=True):
    """What one node is to do of a wave. `rows` and what follows: see Executor.choose."""

    tag: str
    rows: int
    most: int
    most_cold: int
    tasks: list[bytes]


TASKS: Topic[WaveShare, list[bytes]] = Topic("tasks", WaveShare, list[bytes])
"""What a driver asks the backs of other nodes: outcomes, encoded (shared.py)."""


def encode(value: Task | Outcome) -> bytes:
    """As bytes, for the way to a worker and back."""
    return msgspec.msgpack.encode(value)


def decode_task(raw: bytes) -> Task:
    """Inverse of `encode`."""
    return msgspec.msgpack.decode(raw, type=Task)


def decode_outcome(raw: bytes) -> Outcome:
    """Inverse of `encode`."""
    return msgspec.msgpack.decode(raw, type=Outcome)
