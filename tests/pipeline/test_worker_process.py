"""A second process runs some of a reorg's tasks; the first one runs the others."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog import reader, writer
from exuvia.catalog.convert.type_change import ChangeKind
from exuvia.catalog.model import SchemaState, evolve
from exuvia.catalog.table import Table
from exuvia.ddl.actions import modify_column
from exuvia.ddl.actions.modify_column import Modification
from exuvia.kv.packet import Span
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk, executor
from exuvia.pipeline.kernels.attempt import TaskAttempt
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Failed, Reorg, change_column
from exuvia.pipeline.settings import ALONE_S, Fixed, PipelineSettings
from exuvia.pipeline.task import Task
from exuvia.pipeline.verify.compare import check_index
from exuvia.pipeline.worker_process import WorkerProcess
from support.node_processes import until
from support.tables import begin_reorg, publish, table_info

ROWS = 4000
SETTINGS = PipelineSettings(span_rows=500, inline_rows=ROWS * 2, batch_rows=64, workers=2)
TEXT = FieldType(Tp=TypeCode.VARCHAR, Flen=9, Decimal=0, Charset="utf8mb4", Collate="utf8mb4_bin")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"lmdb://{tmp_path}/store?sync=0"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.fixture
def worker(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerProcess]:
    monkeypatch.setattr(executor, "SHARED_ROWS", 1000)
    process = WorkerProcess(url)
    yield process
    process.stop()


def changing(store: Store) -> tuple[Table, Reorg]:
    """A table whose indexed column k becomes a text, in the state that writes rows."""
    info = table_info("id int not null", "k int", primary="id", plain={"ik": "k"})
    bulk.load(store, publish(store, info, 1), [[[n, n % 90] for n in range(ROWS)]])
    old = info.column("k")
    assert old is not None
    asked = Modification(
        column=evolve(old, type=TEXT), old_column_name="k", old_type=old.type, kind=ChangeKind.ROWS
    )
    placed, asked = modify_column.with_hidden_elements(info, asked)
    begin_reorg(store, 1, info.id)
    table = publish(store, modify_column.hidden_in_state(placed, asked, SchemaState.WRITE_REORG), 2)
    hidden = tuple(index for _, index in asked.changing_idxs)
    return table, change_column(old.id, asked.changing_column_id, hidden)


def runner(
    store: Store, worker: WorkerProcess, settings: PipelineSettings = SETTINGS
) -> tuple[Table, Reorg, PhaseRunner]:
    table, plan = changing(store)
    dial = Fixed(settings)
    found = PhaseRunner(store, table.info.id, 1, table, plan, dial=dial, worker=worker)
    return table, plan, found


def finish(reorg: PhaseRunner) -> None:
    last = time.monotonic() + 60
    while time.monotonic() < last:
        reached = reorg.step(time.monotonic())
        assert not isinstance(reached, Failed), reached
        if isinstance(reached, Done):
            return
    raise AssertionError("it did not end within a minute")


def assert_changed(store: Store, table: Table, plan: Reorg, meanwhile: int | None = None) -> None:
    with store.read() as txn:
        rows = [row for _, row in reader.scan(txn, table)]
    values = [(n, 77 if n == meanwhile else n % 90) for n in range(ROWS)]
    assert rows == [[n, k, str(k)] for n, k in values]
    hidden = next(index for index in table.info.indexes if index.id in plan.phases[-1].index_ids)
    assert check_index(store, table, hidden, "slow").faults == []


def has_begun(worker: WorkerProcess, reorg: PhaseRunner) -> int:
    """Steps until the worker has a task. Returns its process id."""
    while worker.pid is None:
        assert not isinstance(reorg.step(time.monotonic()), (Done, Failed))
    return worker.pid


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_process_runs_some_of_the_tasks(
    store: Store, worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    own: list[tuple[str, Span]] = []
    given: list[tuple[str, Span]] = []
    begin, give = executor.TaskAttempt, WorkerProcess.give

    def begun(store: Store, task: Task, **rest: Any) -> TaskAttempt:
        own.append((task.kind, task.span))
        return begin(store, task, **rest)

    def noted(self: WorkerProcess, task: Task) -> None:
        given.append((task.kind, task.span))
        give(self, task)

    table, plan, reorg = runner(store, worker)
    monkeypatch.setattr(executor, "TaskAttempt", begun)
    monkeypatch.setattr(WorkerProcess, "give", noted)
    finish(reorg)
    assert {kind for kind, _ in given} >= {"rewrite", "verify column"}
    assert not set(given) & set(own), "each task is one process's"
    assert_changed(store, table, plan)
    assert worker.take(), "it is free for the next reorg"


def test_a_row_written_concurrently_with_both_processes_is_kept(
    store: Store, worker: WorkerProcess
) -> None:
    table, plan, reorg = runner(store, worker)
    has_begun(worker, reorg)
    txn = store.begin()
    key = ROWS - 3
    handle, row = next((handle, row) for handle, row in reader.scan(txn, table) if row[0] == key)
    writer.update(txn, table, handle, row, [key, 77, *row[2:]])
    txn.commit()
    finish(reorg)
    assert_changed(store, table, plan, meanwhile=key)


def test_the_task_of_a_killed_worker_is_repeated(store: Store, worker: WorkerProcess) -> None:
    table, plan, reorg = runner(store, worker)
    pid = has_begun(worker, reorg)
    os.kill(pid, signal.SIGKILL)
    finish(reorg)
    assert_changed(store, table, plan)
    assert worker.take()


def test_a_cancelled_wave_stops_the_worker_process(store: Store, worker: WorkerProcess) -> None:
    table, plan, reorg = runner(store, worker)
    pid = has_begun(worker, reorg)
    reorg.stop()
    assert not is_there(pid)
    finish(reorg)
    assert_changed(store, table, plan)


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS._replace(workers=1),
        SETTINGS._replace(batch_s=ALONE_S / 2),
    ],
    ids=["one worker is allowed", "clients are there"],
)
def test_a_reorg_runs_without_a_worker_process(
    settings: PipelineSettings, store: Store, worker: WorkerProcess
) -> None:
    table, plan, reorg = runner(store, worker, settings)
    finish(reorg)
    assert worker.pid is None
    assert_changed(store, table, plan)


def test_two_reorgs_do_not_share_a_worker_process(store: Store, worker: WorkerProcess) -> None:
    assert worker.take()
    table, plan, reorg = runner(store, worker)
    finish(reorg)
    assert worker.pid is None
    assert_changed(store, table, plan)


PARENT = """
import sys, time
from exuvia.kv.packet import Span
from exuvia.kv.store import open_store
from exuvia.pipeline.worker_process import WorkerProcess
worker = WorkerProcess(sys.argv[1])
worker.give(None)
print(worker.pid, flush=True)
time.sleep(60)
"""


def test_a_worker_process_ends_with_its_parent(url: str, store: Store) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_there(pid)
    parent.kill()
    parent.wait()
    until(lambda: not is_there(pid))
