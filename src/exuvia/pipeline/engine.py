"""The choice of the engine for a piece of work: this node's processes, or Spark.

    exuvia_pipeline_engine   local   never starts a JVM; all phases run in this process
                             spark   always Spark; without it the job waits, with the reason
                             auto    by the rule below

`auto` uses this process for small work (exuvia_pipeline_inline_rows), and if Spark is not available
here. Otherwise it compares two times, computed from measured costs:

    local    work / processes of the node
    Spark    start of the JVM, if it is not started, / processors + work / concurrent tasks

While the JVM starts, this node runs the first tasks (executor.StartingTasks). So its start costs
processor time and no wait. At about equal times Spark is chosen: its tasks do not share the owner's
process with the steps of other schema changes.
"""

import os
from collections.abc import Callable
from typing import NamedTuple, Protocol

from exuvia.base.limits import SPAN_ROWS
from exuvia.pipeline.reorg import ARRAY_ROWS

AUTO, LOCAL, SPARK = "auto", "local", "spark"

SHARED_ROWS = 200_000
"""From this number of rows on, a second process of the node is worth its start."""
ROW_S = 0.8e-6
BYTE_S = 1.0e-9
"""Processor time of a backfill for a row, and for a byte of the table. The same on both engines:
`python -m bench.exchange --rows 2000000 --column k` with `--engine inline` 2.0 s and `spark` 2.1 s,
200 bytes a row. With `--column c` 2.3 and 3.4 s, on two busy processors."""
START_S = 3.4
"""Processor time of a JVM's start with an archive of its classes: decision 016."""
ABOUT_EQUAL = 1.1
UNKNOWN_AT_ONCE = 16
"""Concurrent tasks of a cluster before the first session."""


class Workload(NamedTuple):
    """The size of a piece of work. `size`: bytes of its rows, 0 if not known.

    `limit`: rows up to which this process does it in any case; 0: `auto` is as `spark`.
    `cold_limit`: the same while Spark is not started. `is_light`: its kernels process arrays."""

    rows: int
    size: int
    limit: int
    cold_limit: int
    is_light: bool = True

    @property
    def processor_s(self) -> float:
        """Estimated processor time. Unit: s."""
        heavier = 1 if self.is_light else ARRAY_ROWS
        return self.rows * ROW_S * heavier + self.size * BYTE_S


class SparkState(Protocol):
    """The state of Spark for the choice; implemented by spark.Spark."""

    @property
    def is_started(self) -> bool:
        """Whether a session was built."""

    @property
    def expected_at_once(self) -> int:
        """Number of tasks that would run concurrently."""


def forces_spark(setting: str, work: Workload) -> bool:
    """Whether work has to wait if Spark is not available."""
    return setting == SPARK or (setting == AUTO and not work.limit)


def chooses_spark(
    setting: str,
    work: Workload,
    spark: SparkState,
    available: Callable[[], bool],
    here: int,
    writers: int,
) -> bool:
    """Whether this work runs on Spark.

    `available`: whether Spark can start; called only if that matters. `here`: processes of this
    node that would run tasks. `writers`: maximum number of concurrent tasks on Spark."""
    if setting == LOCAL:
        return False
    if forces_spark(setting, work):
        return True
    limit = work.limit if spark.is_started else max(work.limit, work.cold_limit)
    if work.rows <= limit or not available():
        return False
    at_once = max(1, min(spark.expected_at_once, writers))
    start_s = 0.0 if spark.is_started else START_S / processors()
    on_spark_s = start_s + work.processor_s / at_once
    return on_spark_s <= ABOUT_EQUAL * work.processor_s / max(1, here)


def processors() -> int:
    """Returns the number of processors of this host."""
    return os.cpu_count() or 1


def least_tasks(rows: int, at_once: int) -> int:
    """Returns the minimum number of tasks of a backfill: one for each processor of the engine, if
    the rows are many."""
    return max(at_once, processors()) if rows > SPAN_ROWS else 1
