"""Tasks and outcomes of kernels: plain values that are sent to Spark's Python workers and back.

    kind              a kernel over one span            `result` of its outcome
    fill              put index entries of rows         -, or a Summary
    spill             write index entries of rows to a  Spilled, see kernels/exchange.py
                      file
    merge             put spilled entries of a key      -
                      range
    rewrite           fill a hidden column of rows,     -, or Spilled
                      and indexes that contain it
    move              put rows, entries in partitions   -, or Spilled
    renumber          give new ids to rows whose hidden -
                      ids occur in two partitions
    rekey             put rows under other handles,     -, or Spilled
                      and their entries
    move to ids       put rows under hidden ids,        -, or Spilled
                      and their entries
    clean             remove entries of global indexes  -
    import            put rows of a file's part         -
    check moved       look up rows in the other set     number of missing rows, and the first
    check rekeyed     the same with other handles       number of missing rows, and the first
    check apart       require rows absent in the other  -
                      set
    check fits        require rows of a partition       -
    check column      test rows with a column's new     number of misfits, the first as text
                      type
    verify column     compare a filled column, and sum  one Sums per index
                      rows
    sum rows          checksums, computed from rows     one Sums per index
    sum entries       checksums of one index            one Sums
    sum both          both, at one moment               the Sums of rows, then of entries
    collect rows      entries of the given buckets      keys and handles, per index
    collect entries   the same of one index             keys and handles
    check rows        test rows with a rule             number of violations, the first as text
    summarize         statistics of rows                pipeline/kernels/summary.py

The kind of an outcome is `done`, `deposed` (the epoch was lost: stop quietly), `duplicates`,
`unavailable` (a reason to wait), or `failed` (a Refused). Any other exception is a bug and is
raised where it occurs.
"""

from typing import Any

import msgspec

from exuvia.base.decoding import from_msgpack
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
_OWN_ENTRIES = frozenset({"_idx_", "_cln_"})
WARM = b""  # no task: a worker that gets it starts and opens the store


class TaskOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a task that all tasks of a reorg share. `run` separates this driver's progress
    from that of earlier drivers."""

    job_id: int
    epoch: int
    info: TableInfo
    revision: int
    database: DatabaseInfo
    database_revision: int
    index_ids: tuple[int, ...]
    run: int = 0
    at_once: int = 1  # tasks that may write concurrently
    element: ReorgElement | None = None  # recorded for finished spans; None: the indexes
    changing: int = 0  # id of the column whose type changes (catalog/convert/type_change.py)
    physical_id: int = 0  # id of the partition, 0 for an unpartitioned table
    router: str = ""  # name of the router of rows, see pipeline/kernels/move.py
    sources: tuple[int, ...] = ()  # ids of the partitions whose rows move
    evaluator: str = ""  # name of the evaluator of virtual columns, see catalog/table.py
    rule: TableRule | None = None  # the rule that rows are tested with
    source: ImportSource | None = None  # set for an import
    judge: str = ""  # name of the function that compiles the rule, see pipeline/verify/rules.py

    @property
    def table(self) -> Table:
        """The table as planned."""
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
        """The whole table, if the order is for one partition."""
        facts = self.info, self.revision, self.database, self.database_revision
        return Table(*facts, self.evaluator)

    @property
    def table_id(self) -> int:
        """The physical table id of the keys."""
        return self.physical_id or self.info.id

    @property
    def remembered_as(self) -> ReorgElement:
        """The element that the rows of finished spans name."""
        return self.element or ReorgElement("_idx_", self.index_ids)

    @property
    def fences(self) -> list[Equal]:
        """Preconditions of every write of the reorg (law 2).

        Empty without a job: a load of an unpublished table."""
        if not self.job_id:
            return []
        return [Equal(k.meta("reorg", self.job_id), k.number(self.epoch))]

    @property
    def among(self) -> bytes:
        """The common name of a rewrite's writes, which do not overwrite each other's rows; see
        `Standing` in kv/packet.py."""
        return k.meta("rewrite", self.job_id) if self.job_id else b""


def order_for(
    table: Table, index_ids: tuple[int, ...], job_id: int = 0, epoch: int = 0
) -> TaskOrder:
    """Returns the order of a planned table."""
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
    """Returns the order for the logical table, all partitions together."""
    return msgspec.structs.replace(order, physical_id=0)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One span for one kernel. `ordinal`: its place in the wave; `first`: upper bound of the number
    of rows in an import's earlier files."""

    kind: str
    order: TaskOrder
    span: Span
    ordinal: int = 0
    index_id: int = 0
    buckets: int = 0
    first: int = 0
    chosen: bytes = b""  # u32 numbers of the buckets to collect
    positions: tuple[int, ...] = ()  # columns to summarize
    samples: int = 0  # maximum number of sampled rows
    limit: float = 1.0  # maximum lot of a sampled row
    folder: str = ""  # the folder of spilled runs
    ranges: tuple[tuple[int, Span], ...] = ()  # index ids and key ranges whose entries are spilled
    spilled: bytes = b""  # runs to merge, encoded
    most_rows: int = 0  # maximum entries that are merged at once
    rows: int = 0  # rows of the table that a merge counts as

    @property
    def finishes(self) -> list[ReorgElement]:
        """Elements that the finished task completes, including indexes that a rewrite has filled;
        spilled entries are still to be put."""
        order = self.order
        elements = [order.remembered_as]
        if order.index_ids and not self.folder and order.remembered_as.type not in _OWN_ENTRIES:
            elements.append(ReorgElement("_idx_", order.index_ids))
        return elements


class FoundDuplicate(msgspec.Struct, frozen=True):
    """Two rows with the same key of a unique index. `text`: the key's value in MySQL's format."""

    index_id: int
    key: bytes
    handle: bytes
    other: bytes
    text: str


class TaskCost(msgspec.Struct, frozen=True, array_like=True):
    """The cost of an attempt at a task (measures.py). Units: bytes, s.

    `read`: keys and values from the store, and spilled runs. `attempt`: number of earlier attempts
    of the same task, as far as the engine repeats tasks by itself."""

    read: int = 0
    spilled: int = 0
    written: int = 0
    seconds: float = 0.0
    attempt: int = 0

    def plus(self, other: "TaskCost") -> "TaskCost":
        """Returns the sums, with the longer time."""
        return TaskCost(
            self.read + other.read,
            self.spilled + other.spilled,
            self.written + other.written,
            max(self.seconds, other.seconds),
            self.attempt + other.attempt,
        )


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a task."""

    ordinal: int = 0
    kind: str = DONE
    rows: int = 0
    placed: int = 0
    duplicates: tuple[FoundDuplicate, ...] = ()
    code: int = 0
    state: str = ""
    text: str = ""
    result: Any = None
    cost: TaskCost = TaskCost()


class WaveShare(msgspec.Struct, frozen=True, array_like=True):
    """One node's tasks of a wave. The numbers are those of engine.Workload; nodes of 0.5 do not
    send the last two."""

    tag: str
    rows: int
    limit: int
    cold_limit: int
    tasks: list[bytes]
    size: int = 0
    is_light: bool = True


TASKS: Topic[WaveShare, list[bytes]] = Topic("tasks", WaveShare, list[bytes])
"""The question of a driver to other nodes' back processes; the answer is encoded outcomes
(shared.py)."""


def encode(value: Task | Outcome) -> bytes:
    """Returns the encoding that is sent to workers."""
    return msgspec.msgpack.encode(value)


def decode_task(raw: bytes) -> Task:
    """Inverse of `encode`."""
    return from_msgpack(raw, Task)


def decode_outcome(raw: bytes) -> Outcome:
    """Inverse of `encode`."""
    return from_msgpack(raw, Outcome)
