"""A driver of a reorg that exchanges its entries, stopped at a stage to be killed.

`python exchange_driver.py URL TABLE ENGINE STAGE` prints the pids of all processes below it, as one
line of JSON, once the stage is reached. Then it makes no further step.

    spill      a map task has finished, others have not; rewrites and moves put rows in it
    barrier    all rows are spilled, nothing is put
    merge      a key range is finished, others are not
    end        all key ranges are finished, the table's span is not
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from exuvia.catalog.model import TableInfo
from exuvia.catalog.table import Table
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import checkpoint
from exuvia.pipeline.executor import Executor
from exuvia.pipeline.kernels import exchange
from exuvia.pipeline.phase_runner import WAVE_TASKS, PhaseRunner
from exuvia.pipeline.reorg import RANGE, SPILL_FOLDERS, Progress, Running, Waiting
from exuvia.pipeline.settings import Fixed, PipelineSettings, Variables
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Task
from support.exchange_tables import work_of
from support.spark import below
from support.tables import DATABASE

STAGES = ("spill", "barrier", "merge", "end")
PATIENCE_S = 300.0
SPAN_ROWS = 400


def driver_of(store: Store, table: Table, epoch: int, spark: Spark | None) -> PhaseRunner:
    """A driver of the table's job."""
    dial: Any = Fixed(PipelineSettings(span_rows=SPAN_ROWS, batch_rows=50))
    if spark is not None:
        dial = Variables(store, time.monotonic, SPAN_ROWS)
    return PhaseRunner(store, table.info.id, epoch, table, work_of(table), spark, dial=dial)


def progress_of(driver: PhaseRunner) -> Iterator[Progress]:
    """Steps a driver until it ends; yields what each step returns."""
    pause, deadline = threading.Event(), time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        progress = driver.step(time.monotonic())
        yield progress
        if not isinstance(progress, Running | Waiting):
            return
        pause.wait(min(progress.wake_s, 0.05))
    raise AssertionError("the driver did not end in time")


class Waves:
    """Records the tasks that drivers of this process start, until it is closed.

    With `stops_at_barrier`, Spark's Python processes are stopped before the first wave that puts
    what is spilled, until `release`: otherwise they often finish a range before anyone looks."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.stops_at_barrier = False
        self._stopped: list[int] = []
        self._wave: Sequence[Task] = ()
        self._start = start = Executor.start

        def record(executor: Executor, tag: str, tasks: Sequence[Task], *more: Any) -> None:
            if self.stops_at_barrier and not self.merges and tasks[0].spilled:
                self._stopped = python_of_spark()
                send_to(self._stopped, signal.SIGSTOP)
            self.tasks += tasks
            self._wave = tasks
            start(executor, tag, tasks, *more)

        Executor.start = record  # type: ignore[method-assign]

    def release(self) -> None:
        """Stopped processes go on, and no others are stopped."""
        self.stops_at_barrier = False
        send_to(self._stopped, signal.SIGCONT)
        self._stopped = []

    def close(self) -> None:
        """Records no more."""
        self.release()
        Executor.start = self._start  # type: ignore[method-assign]

    def of(self, kind: str) -> list[Task]:
        """The tasks of a kernel."""
        return [task for task in self.tasks if task.kind == kind]

    @property
    def maps(self) -> list[Task]:
        """The tasks that spill."""
        return [task for task in self.tasks if task.folder and not task.spilled]

    @property
    def merges(self) -> list[Task]:
        """The tasks that put spilled entries or rows."""
        return [task for task in self.tasks if task.spilled]

    @property
    def is_last_of_merges(self) -> bool:
        """Whether no wave of merges follows: this one is not full, and puts entries, not rows."""
        return len(self._wave) < WAVE_TASKS and bool(self._wave[-1].index_id)


def python_of_spark() -> list[int]:
    """The daemon of Spark's Python workers and the workers, by pid."""
    commands = ((pid, Path(f"/proc/{pid}/cmdline")) for pid in below(os.getpid()))
    return [pid for pid, command in commands if b"pyspark.daemon" in command.read_bytes()]


def send_to(pids: Iterable[int], number: signal.Signals) -> None:
    """A signal to those that are there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def stage_of(store: Store, waves: Waves, job_id: int) -> str:
    """The stage that the reorg has reached, or ""."""
    folder = store.folder
    assert folder is not None
    files = [path for found in Path(folder).glob(f"{SPILL_FOLDERS}*") for path in found.iterdir()]
    with store.read() as txn:
        stored = [row.ele_type for row in checkpoint.rows_of(txn, job_id)]
    finished = sum(kind.endswith(RANGE.encode()) for kind in stored)
    if {b"_idx_", b"_par_", b"_key_"} & set(stored):
        return ""
    if waves.merges:
        if not finished:
            return "barrier"
        return "merge" if finished < len(waves.merges) or not waves.is_last_of_merges else "end"
    return "spill" if len(files) > 1 else ""


def drive(url: str, info: TableInfo, engine: str, stage: str) -> None:
    """Steps the reorg until the stage is reached, then waits to be killed."""
    exchange.LEAST_ROWS = 0
    store = open_store(url)
    spark = Spark(url) if engine == "spark" else None
    driver = driver_of(store, Table(info, 2, DATABASE, 1), 1, spark)
    waves = Waves()
    waves.stops_at_barrier = stage == "barrier"
    for _ in progress_of(driver):
        if stage_of(store, waves, info.id) == stage:
            break
    print(json.dumps(below(os.getpid())), flush=True)
    signal.pause()


if __name__ == "__main__":
    url, table, engine, stage = sys.argv[1:]
    drive(url, msgspec.json.decode(table, type=TableInfo), engine, stage)
