"""Reorgs whose entries go through sorted runs on disk, on both engines: this process, and Spark's
workers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from exuvia.base.errors import Deposed
from exuvia.catalog import writer
from exuvia.catalog.model import to_json
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.packet import Span
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import checkpoint
from exuvia.pipeline.executor import InlineTasks
from exuvia.pipeline.kernels import exchange
from exuvia.pipeline.kernels.entries import of_index
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import (
    RANGE,
    SPILL_FOLDERS,
    Done,
    Duplicates,
    Progress,
    Running,
    Waiting,
)
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Task
from exuvia.pipeline.verify.compare import check_index
from support import exchange_driver
from support.exchange_driver import STAGES, Waves, driver_of, progress_of, stage_of
from support.exchange_tables import KINDS, ROWS, make, rows_of, targets_of
from support.few import none_of, one_in
from support.node_processes import is_alive, until
from support.tables import begin_reorg


class Engine:
    """A store, and Spark or None."""

    def __init__(self, name: str, store: Store, url: str, spark: Spark | None, first: int) -> None:
        self.name, self.store, self.url, self.spark = name, store, url, spark
        self._tables = iter(range(first, first + 100))

    def table(self, rows: list[list[object]] | None = None, kind: str = "fill") -> Table:
        """A table of its own."""
        return make(self.store, next(self._tables), rows_of() if rows is None else rows, kind)

    def driver(self, table: Table, epoch: int = 1) -> PhaseRunner:
        return driver_of(self.store, table, epoch, self.spark)

    @property
    def folders(self) -> list[Path]:
        """Folders of spilled runs."""
        assert self.store.folder is not None
        return list(Path(self.store.folder).glob(f"{SPILL_FOLDERS}*"))


@pytest.fixture(params=["inline", pytest.param("spark", marks=pytest.mark.long)])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    monkeypatch.setattr(exchange, "LEAST_ROWS", 0)
    if request.param == "inline":
        url = f"lmdb://{tmp_path}/store?sync=0"
        store = open_store(url)
        yield Engine("inline", store, url, None, 600)
        store.close()
        return
    world = request.getfixturevalue("spark_store")
    txn = world.store.begin()
    variables.set_global(txn, "exuvia_pipeline_inline_rows", "0")
    variables.set_global(txn, "tidb_ddl_reorg_batch_size", "50")
    txn.commit()
    # tables of several tests share this store
    yield Engine("spark", world.store, world.url, world.spark, 600 + 100 * next(_used))
    txn = world.store.begin()
    variables.set_global(txn, "tidb_ddl_reorg_batch_size", "256")
    txn.commit()


_used = iter(range(100))
# `make test` has all stages of a fill, and one of each other kind
INLINE = [
    *(("inline", "fill", stage) for stage in STAGES),
    *(("inline", kind, "merge") for kind in KINDS[1:]),
    *none_of(("inline", kind, stage) for kind in KINDS[1:] for stage in STAGES if stage != "merge"),
]
# Spark's driver goes from its last wave to the end in one step.
SPARK = none_of(("spark", kind, stage) for kind in KINDS for stage in STAGES[:-1])
at_each_stage = pytest.mark.parametrize(
    ("engine", "kind", "stage"), INLINE + SPARK, indirect=["engine"]
)


@pytest.fixture
def waves() -> Iterator[Waves]:
    with closing(Waves()) as recorded:
        yield recorded


def require_filled(engine: Engine, table: Table) -> None:
    counts = dict[int, int]()
    for part, indexes in targets_of(table):
        for index in indexes:
            assert check_index(engine.store, part, index, "slow").faults == []
            with closing(engine.store.snapshot()) as snapshot:
                entries = sum(len(some.keys) for some in of_index(snapshot, part.index_span(index)))
            counts[index.id] = counts.get(index.id, 0) + entries
    assert len(counts) >= 2 and set(counts.values()) == {ROWS}
    if table.info.partition is not None or table.info.exuvia_rekey is not None:
        assert sum(engine.store.count(part.row_span()) for part, _ in targets_of(table)) == ROWS
    assert engine.folders == []


TRIES = 8


def driver_at(
    engine: Engine, waves: Waves, stage: str, kind: str = "fill"
) -> tuple[PhaseRunner, Table]:
    """A driver that has reached a stage, and its table.

    Workers of Spark go on between two looks, so a driver may be seen before and after a stage only.
    Then another table is tried."""
    waves.stops_at_barrier = stage == "barrier"
    for _ in range(TRIES):
        table = engine.table(kind=kind)
        driver = engine.driver(table)
        for _ in progress_of(driver):
            if stage_of(engine.store, waves, table.info.id) == stage and engine.folders:
                waves.release()
                return driver, table
        waves.tasks.clear()
    raise AssertionError(f"no driver was seen at {stage}")


def ended(driver: PhaseRunner) -> Progress:
    """How it ends."""
    *_, reached = progress_of(driver)
    return reached


def finished_ranges(engine: Engine, table: Table) -> list[Any]:
    with engine.store.read() as txn:
        stored = checkpoint.rows_of(txn, table.info.id)
    return [
        (row.ele_id, Span(row.start_key, row.end_key))
        for row in stored
        if row.ele_type.endswith(RANGE.encode())
    ]


def test_a_large_fill_is_read_once_and_written_by_key_ranges(engine: Engine, waves: Waves) -> None:
    table = engine.table()
    driver = engine.driver(table)
    *running, reached = progress_of(driver)
    seen = [progress.rows_done for progress in running if isinstance(progress, Running)]
    assert isinstance(reached, Done)
    spills, merges = waves.of("spill"), waves.of("merge")
    assert reached == Done(ROWS, len(spills) + len(merges), 0)
    assert len(spills) == 10, "two waves in this process"
    assert waves.of("fill") == []
    for index_id in (2, 3):
        ranges = sorted(task.span for task in merges if task.index_id == index_id)
        assert len(ranges) >= 8
        assert all(a.end <= b.start for a, b in pairwise(ranges))
    assert seen == sorted(seen) and seen[-1] <= ROWS
    assert len(set(seen)) > 3
    require_filled(engine, table)


def test_a_large_rewrite_spills_its_entries_and_reads_no_row_twice(
    engine: Engine, waves: Waves
) -> None:
    table = engine.table(kind="rewrite")
    reached = ended(engine.driver(table))
    rewrites, merges = waves.of("rewrite"), waves.of("merge")
    assert reached == Done(ROWS, len(rewrites) + len(merges), 0)
    assert len(rewrites) >= 10 and all(task.folder for task in rewrites)
    assert waves.of("spill") == waves.of("fill") == []
    require_filled(engine, table)
    with engine.store.read() as txn:
        stored = {row.ele_type for row in checkpoint.rows_of(txn, table.info.id)}
    assert stored == {b"_col_", b"_idx_range_", b"_idx_"}


@pytest.mark.parametrize("kind", ["move", "rekey", "to ids"])
def test_copies_of_a_large_move_are_put_by_key_ranges(
    engine: Engine, waves: Waves, kind: str
) -> None:
    table = engine.table(kind=kind)
    driver = engine.driver(table)
    *running, reached = progress_of(driver)
    seen = [progress.rows_done for progress in running if isinstance(progress, Running)]
    assert isinstance(reached, Done)
    assert reached.rows == ROWS and seen == sorted(seen)
    assert waves.maps and waves.merges
    kernel = "move to ids" if kind == "to ids" else kind
    assert {task.kind for task in waves.maps + waves.merges} == {kernel}
    by_index = dict[int, list[Span]]()
    for task in waves.merges:
        by_index.setdefault(task.index_id, []).append(task.span)
    assert (0 in by_index) is (kind == "rekey"), "only its rows come into another order"
    for spans in by_index.values():
        assert len(spans) >= 4
        assert all(a.end <= b.start for a, b in pairwise(sorted(spans)))
    if kind == "rekey":
        assert [task.index_id > 0 for task in waves.merges] == sorted(
            task.index_id > 0 for task in waves.merges
        ), "rows before entries"
    require_filled(engine, table)


@pytest.mark.parametrize("kind", ["fill", "rekey", "to ids"])
@pytest.mark.parametrize("stage", one_in(3, ["barrier", "spill", "merge"]))
def test_rows_may_change_between_their_spill_and_their_put(
    engine: Engine, waves: Waves, kind: str, stage: str
) -> None:
    rows = rows_of()
    driver, table = driver_at(engine, waves, stage, kind)

    def change(txn: Transaction, n: int) -> None:
        _, number, text, key = rows[n]
        writer.update(txn, table, k.i64(n), rows[n], [n, number, f"new {n}", key])
        writer.delete(txn, table, k.i64(n + 1), rows[n + 1])
        writer.insert(txn, table, [ROWS + n, number, text, ROWS + n])
        _, number, text, _ = rows[n + 2]
        writer.update(txn, table, k.i64(n + 2), rows[n + 2], [n + 2, 7, text, 2 * ROWS + n])

    for n in range(0, ROWS, 100):
        engine.store.transact(partial(change, n=n))  # Spark's workers may write the same copies
    *_, reached = progress_of(driver)
    assert isinstance(reached, Done), reached
    require_filled(engine, table)


def test_rows_of_a_lost_file_of_a_rewrite_are_read_again(engine: Engine, waves: Waves) -> None:
    driver, table = driver_at(engine, waves, "spill", "rewrite")
    (folder,) = engine.folders
    min(folder.iterdir(), key=lambda path: path.name.split("-")[:2]).unlink()
    assert isinstance(ended(driver), Done)
    if engine.name == "inline":
        assert len(waves.of("spill")) == 1
    require_filled(engine, table)


def test_duplicates_of_all_ranges_are_listed(engine: Engine, waves: Waves) -> None:
    rows = [[n, n, f"u{n % 3_990}", n] for n in range(ROWS)]
    reached = ended(engine.driver(engine.table(rows)))
    assert isinstance(reached, Duplicates)
    expected = [f"Duplicate entry 'u{n}' for key 't.iu'" for n in range(10)]
    assert sorted(reached.texts) == sorted(expected)
    assert engine.folders == []


@pytest.mark.parametrize("stage", ["spill", "barrier", "merge"])
def test_a_lost_file_makes_its_map_task_run_again(engine: Engine, waves: Waves, stage: str) -> None:
    driver, table = driver_at(engine, waves, stage)
    (folder,) = engine.folders
    # on Spark, the running wave may have opened it already
    files = sorted(folder.iterdir(), key=lambda path: path.name.split("-")[:2])
    files[0].unlink()
    spilled = len(waves.of("spill"))
    *running, reached = progress_of(driver)
    assert isinstance(reached, Done)
    reasons = {progress.reason for progress in running if isinstance(progress, Waiting)}
    again = waves.of("spill")[spilled:]
    if engine.name == "inline":
        assert len(again) == 1 or stage == "spill"
        assert bool(reasons) is (stage != "spill")
    assert all("read again" in reason for reason in reasons)
    require_filled(engine, table)


@at_each_stage
def test_a_pause_removes_the_files_and_a_later_driver_does_the_rest(
    engine: Engine, waves: Waves, kind: str, stage: str
) -> None:
    first, table = driver_at(engine, waves, stage, kind)
    begin_reorg(engine.store, 2, table.info.id)
    with pytest.raises(Deposed):
        for _ in range(1_000):
            first.step(time.monotonic())
    assert engine.folders == []
    before = finished_ranges(engine, table)
    waves.tasks.clear()
    second = engine.driver(table, epoch=2)
    assert isinstance(ended(second), Done)
    later = [(t.index_id, t.span) for t in waves.merges]
    later += [of_index for t in waves.maps for of_index in t.ranges]
    for index_id, (start, end) in before:
        spans = [span for of, span in later if of == index_id]
        assert all(span.end <= start or end <= span.start for span in spans)
    require_filled(engine, table)


@at_each_stage
def test_after_kill_9_the_next_driver_removes_the_files_and_does_the_rest(
    engine: Engine, waves: Waves, kind: str, stage: str
) -> None:
    table = engine.table(kind=kind)
    tests = Path(exchange_driver.__file__).parents[1]
    arguments = [engine.url, to_json(table.info).decode(), engine.name, stage]
    process = subprocess.Popen(
        [sys.executable, exchange_driver.__file__, *arguments],
        env=os.environ | {"PYTHONPATH": f"{tests}:{tests.parent / 'src'}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        pids = json.loads(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    until(lambda: not any(map(is_alive, pids)))
    assert engine.folders, "files of the killed driver"
    before = finished_ranges(engine, table)
    assert bool(before) is (stage in ("merge", "end"))
    begin_reorg(engine.store, 2, table.info.id)
    driver = engine.driver(table, epoch=2)
    reached = ended(driver)
    assert isinstance(reached, Done)
    rewritten = 10 if kind == "rewrite" and stage != "spill" else 0
    assert reached.spans_skipped >= len(before) + rewritten
    assert reached.rows in (ROWS, ROWS - 1) if stage == "end" else reached.rows == ROWS
    assert not set(before) & {(task.index_id, task.span) for task in waves.merges}
    assert bool(waves.maps) is (stage != "end")
    if kind == "rewrite":
        assert bool(waves.of("rewrite")) is (stage == "spill")
    require_filled(engine, table)


def test_a_removed_folder_is_made_again(engine: Engine, waves: Waves) -> None:
    driver, table = driver_at(engine, waves, "barrier")
    (folder,) = engine.folders
    shutil.rmtree(folder)
    assert isinstance(ended(driver), Done)
    assert engine.name == "spark" or len(waves.of("spill")) == 20
    require_filled(engine, table)


def test_a_small_fill_does_not_spill(
    engine: Engine, waves: Waves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "LEAST_ROWS", ROWS)
    table = engine.table()
    driver = engine.driver(table)
    assert isinstance(ended(driver), Done)
    assert waves.of("spill") == [] and waves.of("fill")
    require_filled(engine, table)


def test_a_span_finished_by_an_older_node_is_not_read_again(engine: Engine, waves: Waves) -> None:
    table = engine.table()
    driver = engine.driver(table)
    row = table.row_prefix
    old = k.i64(3_000)
    order = driver.order
    span = Span(row + old, table.row_span().end)
    done = InlineTasks(
        engine.store,
        [Task(kind="fill", order=order, span=span)],
        Fixed(PipelineSettings()),
        time.monotonic,
    ).run()
    assert [outcome.rows for outcome in done] == [1_000]
    reached = ended(driver)
    assert isinstance(reached, Done)
    assert reached.rows == ROWS
    assert max(task.span.end for task in waves.of("spill")) == row + old
    require_filled(engine, table)
