"""The parts of an exchange: files of sorted runs, key ranges, merges, and what is left on disk.

Whole backfills: tests/spark/test_spark_exchange.py, on both engines.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exuvia.base.errors import Deposed
from exuvia.catalog import writer
from exuvia.catalog.model import IndexInfo, SchemaState
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import Padded, Span
from exuvia.kv.store import Store, open_store
from exuvia.node.back import Candidate
from exuvia.pipeline import checkpoint
from exuvia.pipeline.kernels import exchange, spilled_runs
from exuvia.pipeline.kernels.attempt import TaskAttempt
from exuvia.pipeline.kernels.entries import EntryParts, as_bytes, in_order, joined
from exuvia.pipeline.kernels.exchange import Exchange, Spill, range_element, ranges_of
from exuvia.pipeline.kernels.spilled_runs import RunReader, Slice, SpilledRun
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import SPILL_FOLDERS, Done, Waiting
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.task import DONE, DUPLICATES, UNAVAILABLE, Outcome, Task, TaskOrder, order_for
from exuvia.pipeline.throttle import Batch
from support.exchange_tables import make, rows_of, work_of
from support.tables import JOB, begin_reorg, publish, table_info, with_states

INFO = table_info(
    "id int not null", "a varchar(20)", "u int", primary="id", plain={"ia": "a"}, unique={"iu": "u"}
)
IA, IU = (next(i.id for i in INFO.indexes if i.idx_name.L == name) for name in ("ia", "iu"))
WHOLE = Span(b"", b"\xff" * 40)


def world(rows: list[list[object]]) -> tuple[MemoryStore, Table, TaskOrder]:
    """A table with an epoch of a reorg that fills both indexes."""
    store = MemoryStore()
    states = {"ia": SchemaState.ABSENT, "iu": SchemaState.ABSENT}
    before = publish(store, with_states(INFO, **states), 1)
    txn = store.begin()
    for row in rows:
        writer.insert(txn, before, row)
    txn.commit()
    states = dict.fromkeys(states, SchemaState.WRITE_REORG)
    table = publish(store, with_states(INFO, **states), 2)
    begin_reorg(store, 1)
    return store, table, order_for(table, (IA, IU), JOB, 1)


def life(store: Store, task: Task, **more: int) -> Outcome:
    """Runs a task to its end."""
    attempt = TaskAttempt(store, task, Fixed(PipelineSettings(batch_rows=10, **more)), lambda: 0.0)
    while True:
        reached = attempt.advance()
        if not isinstance(reached, Batch):
            return reached


def spans_of(table: Table) -> list[tuple[int, Span]]:
    """The whole key range of each index."""
    indexes = (index for index in table.info.indexes if index.id in (IA, IU))
    return [(index.id, table.index_span(index)) for index in indexes]


def spilled(store: Store, table: Table, order: TaskOrder, folder: Path, parts: int = 3) -> Exchange:
    """An exchange whose map tasks have ended."""
    runs = Exchange(str(folder), order)
    tasks = runs.spills(order, store.split(table.row_span(), parts), spans_of(table))
    runs.take(tasks, [life(store, task) for task in tasks])
    return runs


def merges(table: Table, runs: Exchange, order: TaskOrder, rows: int) -> list[Task]:
    missing = [(n, table.index_span(table.info.index_by_id(n))) for n in (IA, IU)]
    return runs.merges(order, missing, 1_000, rows)


def entries(store: Store, table: Table) -> list[tuple[bytes, bytes]]:
    with store.read() as txn:
        return [pair for _, span in spans_of(table) for pair in txn.scan(span)]


ROWS: list[list[object]] = [
    [n, None if n % 7 == 0 else "x" * (n % 9) + str(n), None if n % 5 == 0 else n]
    for n in range(300)
]


def test_spilled_and_merged_entries_are_those_of_a_plain_fill(tmp_path: Path) -> None:
    store, table, order = world(ROWS)
    other, same, _ = world(ROWS)
    runs = spilled(store, table, order, tmp_path)
    assert entries(store, table) == [], "a spill puts nothing"
    outcomes = [life(store, task) for task in merges(table, runs, order, 300)]
    assert {outcome.kind for outcome in outcomes} == {DONE}
    task = Task(kind="fill", order=order, span=same.row_span())
    assert life(other, task).kind == DONE
    assert entries(store, table) == entries(other, same)
    assert len(entries(store, table)) == 600


def test_files_and_folders_are_private_and_name_their_job(tmp_path: Path) -> None:
    store, table, order = world(ROWS)
    before = os.umask(0)
    try:
        runs = spilled(store, table, order, tmp_path)
    finally:
        os.umask(before)
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith(f"{SPILL_FOLDERS}{JOB}-1-")
    files = list(folder.iterdir())
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, *files)] == [0o700] + [0o600] * 3
    assert sorted(path.name.split("-")[1] for path in files) == ["0", "1", "2"]
    runs.close()
    assert list(tmp_path.iterdir()) == []


def test_only_the_named_file_of_a_repeated_task_is_merged(tmp_path: Path) -> None:
    store, table, order = world(ROWS)
    runs = Exchange(str(tmp_path), order)
    tasks = runs.spills(order, [table.row_span()], spans_of(table))
    lost, named = life(store, tasks[0]), life(store, tasks[0])
    assert lost.result != named.result
    assert len(os.listdir(runs.folder)) == 2
    runs.take(tasks, [named])
    assert len(os.listdir(runs.folder)) == 1
    outcomes = [life(store, task) for task in merges(table, runs, order, 300)]
    assert sum(outcome.placed for outcome in outcomes) == 600
    assert [outcome.kind for outcome in outcomes] == [DONE, DONE]


@pytest.mark.parametrize("accident", ["removed", "cut"])
def test_a_span_counts_only_while_its_file_is_complete(tmp_path: Path, accident: str) -> None:
    store, table, order = world(ROWS)
    runs = spilled(store, table, order, tmp_path)
    whole = [table.row_span()]
    assert runs.unread(whole) == []
    tasks = merges(table, runs, order, 300)
    path = Path(runs.folder, runs.runs[0].file)
    if accident == "removed":
        path.unlink()
    else:
        os.truncate(path, path.stat().st_size - 1)
    failed = life(store, tasks[0])
    assert (failed.kind, entries(store, table)) == (UNAVAILABLE, [])
    assert path.name in failed.text and "read again" in failed.text
    (gap,) = runs.unread(whole)
    assert store.count(gap) == 100, "one task of three"
    again = runs.spills(order, [gap], spans_of(table))
    runs.take(again, [life(store, task) for task in again])
    assert {life(store, task).kind for task in merges(table, runs, order, 300)} == {DONE}
    assert len(entries(store, table)) == 600


def test_only_entries_of_unfinished_ranges_are_spilled(tmp_path: Path) -> None:
    store, table, order = world(ROWS)
    runs = Exchange(str(tmp_path), order)
    whole = table.index_span(table.info.index("iu"))  # type: ignore[arg-type]
    with store.read() as txn:
        assert next(txn.scan(whole), None) is None
    prefix = whole.start
    half = Span(prefix, k.span_of(prefix).start + b"\x03" + k.i64(150))
    tasks = runs.spills(order, [table.row_span()], [(IU, half)])
    runs.take(tasks, [life(store, task) for task in tasks])
    assert [run.index_id for run in runs.runs] == [IU]
    with closing(RunReader(runs.folder, runs.runs[0])) as reader:
        found = [reader.key(n) for n in range(reader.run.rows)]
    assert found and all(half.start <= key < half.end for key in found)


def test_a_finished_range_is_stored_apart_from_finished_spans(tmp_path: Path) -> None:
    """Nodes of 0.5 and earlier take rows of the element "_idx_" for spans of the table."""
    store, table, order = world(ROWS)
    runs = spilled(store, table, order, tmp_path)
    task = merges(table, runs, order, 150)[0]
    assert life(store, task).kind == DONE
    with store.read() as txn:
        stored = checkpoint.rows_of(txn, JOB)
        assert [row.ele_type for row in stored] == [b"_idx_range_"]
        old = [r for r in stored if (r.ele_id, r.ele_type) == (order.index_ids[0], b"_idx_")]
        assert old == [], "the rule of 0.5"
        assert checkpoint.finished(txn, order, store.count).number == 0
        apart = checkpoint.finished_among(stored, task.order, store.count)
        assert list(apart.spans) == [task.span]
        assert checkpoint.is_finished(txn, task)


def test_duplicates_of_several_files_are_all_listed(tmp_path: Path) -> None:
    rows: list[list[object]] = [[n, "a", n % 100] for n in range(250)]
    store, table, order = world(rows)
    runs = spilled(store, table, order, tmp_path)
    unique = [task for task in merges(table, runs, order, 250) if task.index_id == IU]
    found = [life(store, task) for task in unique]
    assert {outcome.kind for outcome in found} == {DUPLICATES}
    assert sum(len(outcome.duplicates) for outcome in found) >= 100


def test_equal_keys_that_exceed_the_memory_of_a_task_are_merged_in_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged, sizes = exchange.merged_run, list[int]()

    def recorded(index: IndexInfo, slices: list[Slice]) -> Any:
        sizes.append(sum(part.end - part.start for part in slices))
        return merged(index, slices)

    monkeypatch.setattr(exchange, "merged_run", recorded)
    rows: list[list[object]] = [[n, "a", 5 if n < 90 else n] for n in range(200)]
    store, table, order = world(rows)
    runs = spilled(store, table, order, tmp_path, parts=8)
    missing = [(IU, table.index_span(table.info.index("iu")))]  # type: ignore[arg-type]
    found = [life(store, task) for task in runs.merges(order, missing, 20, 200)]
    assert sum(sizes) == 200 and max(sizes) <= 40
    duplicates = [duplicate for outcome in found for duplicate in outcome.duplicates]
    assert len(duplicates) == 89
    assert {duplicate.text for duplicate in duplicates} == {"Duplicate entry '5' for key 't.iu'"}


def test_a_task_of_an_ended_reorg_writes_nothing_and_leaves_no_file(tmp_path: Path) -> None:
    store, table, order = world(ROWS)
    runs = spilled(store, table, order, tmp_path)
    tasks = merges(table, runs, order, 300)
    begin_reorg(store, 2)
    assert {life(store, task).kind for task in tasks} == {"deposed"}
    assert entries(store, table) == []
    late = runs.spills(order, [table.row_span()], spans_of(table))[0]
    before = sorted(os.listdir(runs.folder))
    assert life(store, late).kind == "deposed"
    assert sorted(os.listdir(runs.folder)) == before


def test_a_map_task_notices_the_end_of_its_reorg_while_it_reads(tmp_path: Path) -> None:
    store, table, order = world(ROWS)
    runs = Exchange(str(tmp_path), order)
    (task,) = runs.spills(order, [table.row_span()], spans_of(table))
    times = iter(range(1_000_000))
    spill = Spill(store, task, Fixed(), lambda: float(next(times)))
    steps = spill.steps()
    next(steps)
    begin_reorg(store, 2)
    with pytest.raises(Deposed):
        next(steps)
    assert os.listdir(runs.folder) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_a_failed_write_names_the_folder_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    store, table, order = world(ROWS)
    runs = Exchange(str(tmp_path), order)

    def refusing(*arguments: Any, **more: Any) -> Any:
        file = open(*arguments, **more)  # noqa: SIM115 - closed by __exit__

        class Refusing:
            def __enter__(self) -> "Refusing":
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            tell = staticmethod(file.tell)

            def write(self, _: object) -> int:
                raise OSError(code, os.strerror(code))

        return Refusing()

    monkeypatch.setattr(spilled_runs, "open", refusing, raising=False)
    (task,) = runs.spills(order, [table.row_span()], spans_of(table))
    outcome = life(store, task)
    assert outcome.kind == UNAVAILABLE
    assert runs.folder in outcome.text and os.strerror(code) in outcome.text
    assert os.listdir(runs.folder) == []


def test_a_map_task_waits_while_the_disk_has_less_room_than_reorgs_must_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, table, order = world(ROWS)
    runs = Exchange(str(tmp_path), order)
    (task,) = runs.spills(order, [table.row_span()], spans_of(table))
    monkeypatch.setattr(store, "free_bytes", lambda: 99 << 20, raising=False)
    outcome = life(store, task, disk_free_min=100 << 20)
    assert outcome.kind == UNAVAILABLE and "exuvia_disk_free_min" in outcome.text
    assert life(store, task, disk_free_min=98 << 20).kind == DONE


def test_folders_of_ended_processes_are_removed_by_the_next_exchange(tmp_path: Path) -> None:
    _, _, order = world([])
    (tmp_path / f"{SPILL_FOLDERS}5-1-old").mkdir()
    living = Exchange(str(tmp_path), order)
    second = Exchange(str(tmp_path), order)
    assert {str(path) for path in tmp_path.iterdir()} == {living.folder, second.folder}


class Won:
    """A campaign that is won by its first step."""

    is_owner = False

    def step(self, _now: float) -> float:
        self.is_owner = True
        return 1.0


def test_a_new_owner_removes_the_folders_of_ended_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _, order = world([])
    monkeypatch.setattr(MemoryStore, "folder", str(tmp_path))
    elsewhere = tmp_path / "elsewhere"
    txn = store.begin()
    variables.set_global(txn, "exuvia_spill_folder", str(elsewhere))
    txn.commit()
    living = Exchange(str(tmp_path), order)
    (tmp_path / f"{SPILL_FOLDERS}5-1-old").mkdir()
    (elsewhere / f"{SPILL_FOLDERS}5-1-old").mkdir(parents=True)
    (tmp_path / "data.mdb").touch()
    campaign: Any = Won()
    Candidate(campaign, store).step(0.0)
    expected = {"data.mdb", "elsewhere", Path(living.folder).name}
    assert {path.name for path in tmp_path.iterdir()} == expected
    assert list(elsewhere.iterdir()) == []


def test_sorted_runs_are_in_the_folder_of_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "LEAST_ROWS", 0)
    elsewhere = tmp_path / "elsewhere"
    store = open_store(f"lmdb://{tmp_path}/store?sync=0")
    txn = store.begin()
    variables.set_global(txn, "exuvia_spill_folder", str(elsewhere))
    variables.set_global(txn, "exuvia_ddl_reorg_span_rows", "50")
    txn.commit()
    table = make(store, 600, rows_of(200))
    work = work_of(table)
    driver = PhaseRunner(store, 600, 1, table, work, monotonic=lambda: 0.0)
    waiting = next(p for p in map(driver.step, range(99)) if isinstance(p, Waiting))
    assert str(elsewhere) in waiting.reason and "No such file" in waiting.reason
    elsewhere.mkdir()
    places = set[tuple[int, int]]()
    for now in range(100, 1_000):
        progress = driver.step(now)
        in_store = list((tmp_path / "store").glob(f"{SPILL_FOLDERS}*"))
        places.add((len(in_store), len(list(elsewhere.glob(f"{SPILL_FOLDERS}*")))))
        if isinstance(progress, Done):
            break
    assert isinstance(progress, Done)
    assert places == {(0, 0), (0, 1)}
    store.close()


def test_a_map_task_waits_while_the_disk_of_its_folder_has_too_little_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, table, order = world(ROWS)
    runs = Exchange(str(tmp_path), order)
    (task,) = runs.spills(order, [table.row_span()], spans_of(table))
    asked = list[str]()

    def nearly_full(folder: str) -> Any:
        asked.append(folder)
        return SimpleNamespace(f_bavail=99 << 10, f_frsize=1 << 10)

    monkeypatch.setattr(spilled_runs.os, "statvfs", nearly_full)
    outcome = life(store, task, disk_free_min=100 << 20)
    assert outcome.kind == UNAVAILABLE and "exuvia_disk_free_min" in outcome.text
    assert asked == [runs.folder] and runs.folder in outcome.text
    assert life(store, task, disk_free_min=98 << 20).kind == DONE


# -- runs in files ---------------------------------------------------------------------------------

PREFIX = b"t\x00\x01i\x07"
WIDTHS = {
    "one width": st.binary(min_size=6, max_size=6),
    "few widths": st.integers(0, 9).map(lambda n: b"ab" * n + b"\x01"),
    "any width": st.binary(max_size=300).map(lambda tail: tail + b"\xff\x01"),
}


def run_of(keys: list[bytes], folder: Path, name: str, form: str) -> SpilledRun:
    """Spills keys that are given in one of the forms of a sorted run."""
    values: Any = sorted(keys)
    if form == "array":
        values = np.array(values, f"V{len(values[0])}")
    elif form == "words":
        values = in_order([np.array(values, f"V{len(values[0])}")])
    elif form == "padded":
        lengths = np.array([len(key) for key in values])
        matrix = np.zeros((len(values), lengths.max()), np.uint8)
        for row, key in zip(matrix, values, strict=True):
            row[: len(key)] = np.frombuffer(key, np.uint8)
        values = Padded(matrix, lengths)
    spans = [(0, len(values))]
    prefix = spilled_runs.shared_prefix(values, spans)
    with (folder / name).open("wb") as file:
        steps = spilled_runs.write_column(file, values, spans, prefix)
        with pytest.raises(StopIteration) as end:
            while True:
                next(steps)
        return SpilledRun(1, name, len(values), end.value.value, None)


@pytest.mark.parametrize(
    ("widths", "form"),
    [
        ("one width", "array"),
        ("one width", "words"),
        ("few widths", "padded"),
        ("any width", "list"),
    ],
)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_spilled_run_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, widths: str, form: str, data: st.DataObject
) -> None:
    tails = data.draw(st.lists(WIDTHS[widths], min_size=1, max_size=60))
    keys = sorted(PREFIX + tail for tail in tails)
    folder = tmp_path_factory.mktemp("runs")
    run = run_of(keys, folder, "run", form)
    start = data.draw(st.integers(0, len(keys) - 1))
    end = data.draw(st.integers(start + 1, len(keys)))
    with closing(RunReader(str(folder), run)) as reader:
        parts = EntryParts()
        for few in reader.entries(start, end):
            parts.add(few)
        assert as_bytes(joined(parts.keys())) == keys[start:end]
        assert reader.key(start) == keys[start]
        bound = data.draw(st.sampled_from(keys) | st.binary(max_size=4).map(PREFIX.__add__))
        assert reader.below(bound) == sum(key < bound for key in keys)


@pytest.fixture
def readers(tmp_path: Path) -> Iterator[Any]:
    opened: list[RunReader] = []

    def open_all(*runs: list[int]) -> list[RunReader]:
        for n, numbers in enumerate(runs):
            run = run_of([k.u64(number) for number in numbers], tmp_path, str(n), "array")
            opened.append(RunReader(str(tmp_path), run))
        return opened

    yield open_all
    for reader in opened:
        reader.close()


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_ranges_adjoin_and_are_of_about_equal_size(
    readers: Any, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(exchange, "LEAST_ROWS", 100)
    chance = np.random.default_rng(1)
    skewed = [
        sorted((chance.random(3_000) ** power * (1 << 40)).astype(int).tolist())
        for power in (1, 4, 9)
    ]
    runs = readers(*skewed)
    ranges = ranges_of(runs, 1, WHOLE, 1_000, at_once)
    assert len(ranges) == -(-9 // at_once) * at_once
    assert (ranges[0].span.start, ranges[-1].span.end) == WHOLE
    assert all(a.span.end == b.span.start for a, b in pairwise(ranges))
    numbers = [k.u64(number) for run in skewed for number in run]
    for part in ranges:
        inside = sum(part.span.start <= key < part.span.end for key in numbers)
        assert abs(inside - 9_000 / len(ranges)) < 150
        assert abs(inside - part.rows) < 100
    assert sum(part.rows for part in ranges) == 9_000


def test_equal_keys_are_in_one_range_and_no_entry_means_one_range(readers: Any) -> None:
    assert ranges_of([], 1, WHOLE, 10, 2) == [(1, WHOLE, 0)]
    ranges = ranges_of(readers([7] * 500, [7] * 500), 1, WHOLE, 10, 2)
    assert len(ranges) <= 2
    assert max(part.rows for part in ranges) >= 990


def test_a_range_of_rows_is_what_is_left_of_the_table(tmp_path: Path) -> None:
    store, table, order = world(ROWS)
    runs = spilled(store, table, order, tmp_path)
    assert sum(task.rows for task in merges(table, runs, order, 151)) == 151
    assert [task.order.element for task in merges(table, runs, order, 9)] == [
        range_element(order, IA),
        range_element(order, IU),
    ]
