"""A driver of a reorg that exchanges its entries, stopped at a stage to be killed.

`python exchange_driver.py URL TABLE ENGINE STAGE` prints the pids of all processes below it, as one
line of JSON, once the stage is reached. Then it makes no further step.

    spill      a map task or a rewrite has finished, others have not
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog.convert.type_change import ChangeKind
from exuvia.catalog.model import IndexInfo, SchemaState, TableInfo, evolve
from exuvia.catalog.table import Table
from exuvia.ddl.actions import modify_column
from exuvia.ddl.actions.modify_column import Modification
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk, checkpoint
from exuvia.pipeline.executor import Executor
from exuvia.pipeline.kernels import exchange
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import (
    INDEX_RANGE,
    SPILL_FOLDERS,
    Progress,
    Reorg,
    Running,
    Waiting,
    change_column,
    fill_indexes,
)
from exuvia.pipeline.settings import Fixed, PipelineSettings, Variables
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Task
from support.spark import below
from support.tables import DATABASE, begin_reorg, publish, table_info, with_states

KINDS = ("fill", "rewrite")
STAGES = ("spill", "barrier", "merge", "end")
PATIENCE_S = 300.0
SPAN_ROWS = 400
ROWS = 4_000
LINES = ("id int not null", "k int", "u varchar(20)")


def rows_of(count: int = ROWS) -> list[list[object]]:
    """Rows with NULLs, repeated numbers and texts of several widths."""
    return [
        [n, n * 7919 % 1000 if n % 11 else None, f"u{n * 31 % count}" if n % 5 else None]
        for n in range(count)
    ]


TEXT = FieldType(Tp=TypeCode.VARCHAR, Flen=9, Decimal=0, Charset="utf8mb4", Collate="utf8mb4_bin")


def make(store: Store, table_id: int, rows: list[list[object]], kind: str = "fill") -> Table:
    """A loaded table whose plain and unique index are to be filled by the job of its id. Before a
    rewrite, the column k of both becomes a text."""
    if kind == "rewrite":
        return _with_changing_column(store, table_id, rows)
    info = table_info(
        *LINES, table_id=table_id, primary="id", plain={"ik": "k"}, unique={"iu": "u"}
    )
    names = ("ik", "iu")
    absent = with_states(info, **dict.fromkeys(names, SchemaState.ABSENT))
    bulk.load(store, publish(store, absent, 1), [rows])
    begin_reorg(store, 1, table_id)
    return publish(store, with_states(info, **dict.fromkeys(names, SchemaState.WRITE_REORG)), 2)


def _with_changing_column(store: Store, table_id: int, rows: list[list[object]]) -> Table:
    info = table_info(
        *LINES, table_id=table_id, primary="id", plain={"ik": "k"}, unique={"iu": "u,k"}
    )
    bulk.load(store, publish(store, info, 1), [rows])
    old = info.column("k")
    assert old is not None
    change = Modification(
        column=evolve(old, type=TEXT), old_column_name="k", old_type=old.type, kind=ChangeKind.ROWS
    )
    placed, change = modify_column.with_hidden_elements(info, change)
    begin_reorg(store, 1, table_id)
    hidden = modify_column.hidden_in_state(placed, change, SchemaState.WRITE_REORG)
    return publish(store, hidden, 2)


def filled_indexes(table: Table) -> list[IndexInfo]:
    """The indexes that the job fills."""
    return [i for i in table.info.indexes if i.state == SchemaState.WRITE_REORG]


def work_of(table: Table) -> Reorg:
    """The reorg of the table's job."""
    index_ids = tuple(index.id for index in filled_indexes(table))
    for change in table.changes:
        ids = [table.info.cols[at].id for at in (change.source, change.position)]
        return change_column(ids[0], ids[1], index_ids)
    return fill_indexes(index_ids)


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
    """Records the tasks that drivers of this process start, until it is closed."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self._start = start = Executor.start

        def record(executor: Executor, tag: str, tasks: Sequence[Task]) -> None:
            self.tasks += tasks
            start(executor, tag, tasks)

        Executor.start = record  # type: ignore[method-assign]

    def close(self) -> None:
        """Records no more."""
        Executor.start = self._start  # type: ignore[method-assign]

    def of(self, kind: str) -> list[Task]:
        """The tasks of a kernel."""
        return [task for task in self.tasks if task.kind == kind]


def stage_of(store: Store, waves: Waves, job_id: int) -> str:
    """The stage that the reorg has reached, or ""."""
    folder = store.folder
    assert folder is not None
    files = [path for found in Path(folder).glob(f"{SPILL_FOLDERS}*") for path in found.iterdir()]
    with store.read() as txn:
        stored = [row.ele_type for row in checkpoint.rows_of(txn, job_id)]
    finished = stored.count(INDEX_RANGE.encode())
    if b"_idx_" in stored:
        return ""
    if waves.of("merge"):
        if not finished:
            return "barrier"
        return "merge" if finished < len(waves.of("merge")) else "end"
    return "spill" if len(files) > 1 else ""


def drive(url: str, info: TableInfo, engine: str, stage: str) -> None:
    """Steps the reorg until the stage is reached, then waits to be killed."""
    exchange.LEAST_ROWS = 0
    store = open_store(url)
    spark = Spark(url) if engine == "spark" else None
    driver = driver_of(store, Table(info, 2, DATABASE, 1), 1, spark)
    waves = Waves()
    for _ in progress_of(driver):
        if stage_of(store, waves, info.id) == stage:
            break
    print(json.dumps(below(os.getpid())), flush=True)
    signal.pause()


if __name__ == "__main__":
    url, table, engine, stage = sys.argv[1:]
    drive(url, msgspec.json.decode(table, type=TableInfo), engine, stage)
