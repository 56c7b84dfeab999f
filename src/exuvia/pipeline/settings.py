"""The pipeline's settings: global variables in the store, read again at every batch.

    tidb_ddl_reorg_worker_cnt      how many tasks of a reorg may write at once
    tidb_ddl_reorg_batch_size      maximum rows in one transaction
    exuvia_pipeline_engine         auto, local or spark (engine.py)
    exuvia_pipeline_inline_rows    with auto, maximum rows of tables done in this process in any
                                   case; eight times that while Spark is not started, 25 times that
                                   for backfills (Reorg.inline_rows; 0: always Spark)
    exuvia_ddl_reorg_span_rows     rows of one sorted run: the work repeated when a task dies
    tidb_ddl_reorg_max_write_speed maximum bytes a second of all tasks of a reorg; 0: unlimited
    exuvia_ddl_verify              full, sample or off
    tidb_stats_update_during_ddl   whether a backfill gathers its indexes' statistics
    tidb_enable_dist_task          whether other nodes run tasks too: up to tidb_max_dist_task_nodes
                                   nodes of the job's scope (-1: all; shared.py)

    exuvia_disk_free_min           a reorg waits while the store's disk has fewer bytes free
    exuvia_spill_folder            folder of sorted runs; "": the store's folder

The share of time that tasks may use (`m/share/{job}`) is chosen by the driver
(pipeline/throttle.py). Settings of one reorg, given by ADMIN ALTER DDL JOBS (`m/dial/{job}`),
override the variables.

A read costs a snapshot, so batches shorter than `_EVERY_S` share one.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from exuvia.base.decoding import from_json, from_msgpack
from exuvia.base.limits import INLINE_ROWS, REORG_BATCH_ROWS, REORG_WORKERS, SPAN_ROWS
from exuvia.catalog.sysvar import variables
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

_EVERY_S = 0.05
ALONE_S = 0.25  # duration of one transaction while no clients commit


class PipelineSettings(NamedTuple):
    """The settings at one moment."""

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
    spill_folder: str = ""
    engine: str = "auto"


class Own(msgspec.Struct, frozen=True):
    """A reorg's own settings, named as in `reorg_meta`. None: the variable applies."""

    concurrency: int | None = None
    batch_size: int | None = None
    max_write_speed: int | None = None
    scope: str | None = None


class TimeShare(msgspec.Struct, frozen=True, array_like=True):
    """The share of time that a driver grants its tasks, and the reason. `number` counts the
    driver's decisions.

    `batch_s`: how long one transaction may hold the store's writer. `reads`: tasks write
    nothing."""

    number: int
    share: float
    batch_s: float
    reason: str
    reads: bool = False


def shares_of(txn: Transaction) -> list[tuple[bytes, TimeShare]]:
    """Returns the shares of all drivers, with their keys."""
    span = keys.span_of(keys.meta("share"))
    return [(key, from_msgpack(raw, TimeShare)) for key, raw in txn.scan(span)]


class Dial(Protocol):
    """The source of a kernel's settings, read at each batch."""

    def read(self) -> PipelineSettings:
        """Returns the current settings, at most a few hundredths of a second old."""


class Fixed:
    """Settings that do not change, for tests and for work without a reorg."""

    def __init__(self, settings: PipelineSettings | None = None) -> None:
        self.settings = settings or PipelineSettings()

    def read(self) -> PipelineSettings:
        return self.settings


class Variables:
    """Settings of a job's reorg, else a store's global variables.

    `span_rows`: overrides the variable."""

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
        self._cached: PipelineSettings | None = None
        self._read_at = 0.0

    def read(self) -> PipelineSettings:
        now = self._monotonic()
        if self._cached is None or now - self._read_at >= _EVERY_S:
            with self._store.read() as txn:
                own, speed = read_own(txn, self._job_id), "tidb_ddl_reorg_max_write_speed"
                payload = txn.get(keys.meta("share", self._job_id)) if self._job_id else None
                share = None if payload is None else from_msgpack(payload, TimeShare)
                self._cached = PipelineSettings(
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
                    variables.get_global(txn, "exuvia_spill_folder"),
                    variables.get_global(txn, "exuvia_pipeline_engine").lower(),
                )
            self._read_at = now
        return self._cached


def read_own(txn: Transaction, job_id: int) -> Own:
    """Returns the settings that an operator gave this job's reorg."""
    payload = txn.get(keys.meta("dial", job_id)) if job_id else None
    return Own() if payload is None else from_json(payload, Own)


def write_own(txn: Transaction, job_id: int, own: Own) -> None:
    """Sets a job's own settings, in effect from its next batch."""
    txn.put(keys.meta("dial", job_id), msgspec.json.encode(own))
