"""What a pipeline obeys, and how often it looks: the global variables, in the store, read again at
every batch.

    tidb_ddl_reorg_worker_cnt      how many tasks of a reorg may write at once
    tidb_ddl_reorg_batch_size      the most rows in one transaction
    exuvia_pipeline_inline_rows    tables up to this size are done in this process, up to eight
                                   times that while Spark is not started, fills up to 25 times
                                   (Reorg.inline_rows; 0: always Spark)
    exuvia_ddl_reorg_span_rows     rows of one sorted run: what a task that dies has to do again
    tidb_ddl_reorg_max_write_speed the most bytes a second, of all tasks of a reorg; 0: any
    exuvia_ddl_verify              full, sample or off
    tidb_stats_update_during_ddl   whether a fill gathers its indexes' statistics
    tidb_enable_dist_task          whether other nodes do tasks too, tidb_max_dist_task_nodes of
                                   those of the job's scope at most (-1: all; shared.py)

    exuvia_disk_free_min           a reorg waits while the store's disk has fewer bytes free

What share of the time tasks take (`m/share/{job}`) is their driver's choice: pipeline/throttle.py.
What ADMIN ALTER DDL JOBS gave one reorg (`m/dial/{job}`) stands before the variables.

A read costs a snapshot, so batches that take less than `_EVERY_S` share one.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from exuvia.base.limits import INLINE_ROWS, REORG_BATCH_ROWS, REORG_WORKERS, SPAN_ROWS
from exuvia.catalog.sysvar import variables
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

_EVERY_S = 0.05
ALONE_S = 0.25  # of one transaction while no clients commit


class PipelineSettings(NamedTuple):
    """A reading of the variables."""

    workers: int = REORG_WORKERS[1]
    batch_rows: int = REORG_BATCH_ROWS[1]
    inline_rows: int = INLINE_ROWS
    span_rows: int = SPAN_ROWS
    verify: str = "full"
    write_speed: int = 0
    statistics: bool = False
    share: float = 1.0
    batch_s: float = ALONE_S
    distributes: bool = False
    most_nodes: int = -1
    scope: str = ""
    disk_free_min: int = 0


class Own(msgspec.Struct, frozen=True):
    """A reorg's own settings, in the names of `reorg_meta`. None: the variable's."""

    concurrency: int | None = None
    batch_size: int | None = None
    max_write_speed: int | None = None
    scope: str | None = None


class TimeShare(msgspec.Struct, frozen=True, array_like=True):
    """What a driver lets its tasks take, and why. `number` counts what the driver said.

    `batch_s`: how long one transaction may hold the store's writer. `reads`: they write nothing."""

    number: int
    share: float
    batch_s: float
    reason: str
    reads: bool = False


def shares_of(txn: Transaction) -> list[tuple[bytes, TimeShare]]:
    """What drivers said."""
    span = keys.span_of(keys.meta("share"))
    return [(key, msgspec.msgpack.decode(raw, type=TimeShare)) for key, raw in txn.scan(span)]


class Dial(Protocol):
    """Where a kernel reads its settings at each batch."""

    def read(self) -> PipelineSettings:
        """The settings now, at most a few hundredths of a second old."""


class Fixed:
    """Settings that do not change; for tests and for work without a reorg."""

    def __init__(self, settings: PipelineSettings | None = None) -> None:
        self.settings = settings or PipelineSettings()

    def read(self) -> PipelineSettings:
        return self.settings


class Variables:
    """Settings of a job's reorg, else the global variables of a store.

    `span_rows`: instead of the variable's."""

    def __init__(
        self,
        store: Store,
        monotonic: Callable[[], float],
        span_rows: int | None = None,
        job_id: int = 0,
    ) -> None:
        self._job_id = job_id
        self._store = store
        self._monotonic = monotonic
        self._span_rows = span_rows
        self._known: PipelineSettings | None = None
        self._read_at = 0.0

    def read(self) -> PipelineSettings:
        now = self._monotonic()
        if self._known is None or now - self._read_at >= _EVERY_S:
            with self._store.read() as txn:
                own, speed = read_own(txn, self._job_id), "tidb_ddl_reorg_max_write_speed"
                said = txn.get(keys.meta("share", self._job_id)) if self._job_id else None
                share = None if said is None else msgspec.msgpack.decode(said, type=TimeShare)
                self._known = PipelineSettings(
                    own.concurrency or variables.read_int(txn, "tidb_ddl_reorg_worker_cnt"),
                    own.batch_size or variables.read_int(txn, "tidb_ddl_reorg_batch_size"),
                    variables.read_int(txn, "exuvia_pipeline_inline_rows"),
                    self._span_rows or variables.read_int(txn, "exuvia_ddl_reorg_span_rows"),
                    variables.get_global(txn, "exuvia_ddl_verify").lower(),
                    int(variables.get_global(txn, speed))
                    if own.max_write_speed is None
                    else own.max_write_speed,
                    variables.read_flag(txn, "tidb_stats_update_during_ddl"),
                    1.0 if share is None else share.share,
                    ALONE_S if share is None else share.batch_s,
                    variables.read_flag(txn, "tidb_enable_dist_task"),
                    variables.read_int(txn, "tidb_max_dist_task_nodes"),
                    own.scope or "",
                    int(variables.get_global(txn, "exuvia_disk_free_min")),
                )
            self._read_at = now
        return self._known


def read_own(txn: Transaction, job_id: int) -> Own:
    """What an operator gave that job's reorg."""
    payload = txn.get(keys.meta("dial", job_id)) if job_id else None
    return Own() if payload is None else msgspec.json.decode(payload, type=Own)


def write_own(txn: Transaction, job_id: int, own: Own) -> None:
    """Give a job's reorg settings of its own, from its next batch on."""
    txn.put(keys.meta("dial", job_id), msgspec.json.encode(own))
