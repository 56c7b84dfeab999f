"""The pipeline's handling of accidents that tests/torture only meets by chance."""

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from exuvia.base.errors import Refused, Unavailable
from exuvia.catalog import reader, writer
from exuvia.catalog.model import SchemaState
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import Bulk, BulkResult, Packet, Snapshot, SnapshotUse
from exuvia.kv.store import ForwardingStore, Store, open_store
from exuvia.pipeline import spark
from exuvia.pipeline.engine import Workload
from exuvia.pipeline.executor import Executor
from exuvia.pipeline.kernels.attempt import TaskAttempt
from exuvia.pipeline.kernels.entries import is_narrow
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, change_column, fill_indexes
from exuvia.pipeline.settings import Fixed, Variables
from exuvia.pipeline.shared import do_share
from exuvia.pipeline.spark import SparkTasks
from exuvia.pipeline.task import DONE, Outcome, Task, TaskOrder, WaveShare, encode
from exuvia.pipeline.throttle import NICE, Batch, StarvationWatch, can_step_back
from support.tables import JOB, begin_reorg, publish, table_info, with_states

MS = 1_000_000  # ns
INFO = table_info("id int not null", "k int", primary="id", plain={"ik": "k"})


class FailingWave:
    """A wave that Spark lost."""

    error: str | None = "Python worker exited unexpectedly (crashed)"

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def step(self) -> float:
        return 0.0

    def done(self) -> bool:
        return True

    def cancel(self) -> None:
        pass


class BadSpark:
    """An executor whose waves all fail."""

    at_once = expected_at_once = 2
    is_started = True

    def obstacle(self) -> None:
        return None

    def start(self, tag: str, tasks: object, about: str) -> FailingWave:
        return FailingWave()


def lost_wave(crew: Executor) -> None:
    crew.start("tag", [])
    crew.outcomes()


def test_waves_that_fail_end_the_job_only_while_nothing_is_finished() -> None:
    crew = Executor(MemoryStore(), BadSpark(), Fixed(), lambda: 0.0)  # type: ignore[arg-type]
    crew.choose(Workload(1, 0, 0, 0))
    for _ in range(20):
        with pytest.raises(Unavailable, match="is tried again"):
            lost_wave(crew)
        crew.moved()
    for _ in range(4):
        with pytest.raises(Unavailable):
            lost_wave(crew)
    with pytest.raises(Refused, match="failed 5 times: Python worker exited"):
        lost_wave(crew)


def test_this_process_handles_more_rows_while_spark_is_not_started() -> None:
    spark = BadSpark()
    crew = Executor(MemoryStore(), spark, Fixed(), lambda: 0.0)  # type: ignore[arg-type]

    def is_inline(rows: int, inline_rows: int) -> bool:
        crew.choose(Workload(rows, 0, inline_rows, 8 * inline_rows, is_light=False))
        return crew.at_once == 1

    assert is_inline(100, 100) and not is_inline(101, 100)
    spark.is_started = False
    assert is_inline(800_000, 100_000) and not is_inline(800_001, 100_000)
    assert not is_inline(1, 0), "0: always Spark"


def test_this_process_handles_larger_tables_with_array_kernels() -> None:
    assert fill_indexes((1,)).inline_rows(50_000) == 1_250_000
    assert change_column(2, 0, ()).inline_rows(50_000) == 1_250_000
    assert change_column(2, 3, (1,)).inline_rows(50_000) == 1_250_000
    assert change_column(2, 3, (1,), by_value=True).inline_rows(50_000) == 50_000
    assert fill_indexes((1,)).inline_rows(0) == 0, "0: always Spark"


def test_the_end_of_a_wave_is_noticed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "POLL_S", 60.0)
    ends = threading.Event()

    class Ending(spark.Spark):
        def collect(self, _wave: SparkTasks) -> list[Outcome]:
            assert ends.wait(60)
            return []

    wave = SparkTasks(Ending("memory:"), "tag", [])
    threading.Timer(0.05, ends.set).start()
    assert wave.step() == 0
    assert wave.done() and wave.error is None


def a_fill(store: Store, rows: int) -> tuple[Table, Task]:
    """Puts `rows` rows; returns the task that fills `ik` for them."""
    before = publish(store, with_states(INFO, ik=SchemaState.ABSENT), 1)
    txn = store.begin()
    for n in range(rows):
        writer.insert(txn, before, [n, n])
    txn.commit()
    table = publish(store, with_states(INFO, ik=SchemaState.WRITE_REORG), 2)
    begin_reorg(store, 1)
    order = TaskOrder(
        job_id=JOB,
        epoch=1,
        info=table.info,
        revision=2,
        database=table.database,
        database_revision=1,
        index_ids=(table.info.indexes[-1].id,),
    )
    return table, Task(kind="fill", order=order, span=table.row_span())


def test_a_reading_task_lets_its_driver_check_client_latency() -> None:
    store = MemoryStore()
    _, task = a_fill(store, 10)
    slow = itertools.count(0.0, 0.06)
    assert [each.rows for each in life(store, task, lambda: next(slow))[:-1]] == [0, 0, 10]


def nice() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


class PriorityOfEach(ForwardingStore):
    """Records the priorities at which the store was read and written."""

    def __init__(self, shared: MemoryStore) -> None:
        super().__init__(shared)
        self.reads: list[int] = []
        self.writes: list[int] = []

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> Snapshot:
        if use is not SnapshotUse.SYSTEM:
            self.reads.append(nice())
        return super().snapshot(use)

    def commit(self, packet: Packet) -> int:
        self.writes.append(nice())
        return super().commit(packet)

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        self.writes.append(nice())
        return super().bulk_chain(batches, most_s)


def driven(store: Store, table: Table, task: Task) -> Iterator[None]:
    """The job's own driver, stepped."""
    reorg = PhaseRunner(store, JOB, 1, table, fill_indexes(task.order.index_ids))
    while not isinstance(reorg.step(0.0), Done):
        yield


def asked(store: Store, table: Table, task: Task) -> Iterator[None]:
    """The driver of another node."""
    do_share(store, None, WaveShare("tag", 10, 10, 10, [encode(task)]), lambda: False)
    yield


@pytest.mark.parametrize("doing", [driven, asked])
def test_the_backs_thread_lowers_its_priority_while_it_reads(
    doing: Callable[[Store, Table, Task], Iterator[None]],
) -> None:
    ordinary = nice()
    store, between = PriorityOfEach(MemoryStore()), list[int]()
    table, task = a_fill(store.shared, 10)

    def work() -> None:
        between.extend(nice() for _ in doing(store, table, task))

    thread = threading.Thread(target=work)  # has a priority of its own
    thread.start()
    thread.join()
    assert max(NICE, ordinary) in store.reads or not can_step_back()
    assert set(store.writes) == {ordinary} == set(between)
    index = table.info.index("ik")
    assert index and len(list(reader.scan_index(store.begin(), table, index))) == 10


def test_a_thread_with_less_than_a_quarter_of_its_ready_time_starves() -> None:
    times = iter([(0, 0), (10 * MS, 300 * MS), (15 * MS, 310 * MS), (200 * MS, 320 * MS)])
    watch = StarvationWatch(lambda: next(times))
    assert [watch.starves() for _ in range(4)] == [False, True, True, False]


def test_the_first_chain_is_short_while_the_disk_time_is_unknown(
    tmp_path: Path,
) -> None:
    """A first chain of 10,240 texts delayed clients' commits by 10 to 25 ms, several times."""
    with closing(open_store(f"lmdb://{tmp_path}/store")) as store:
        _, task = a_fill(store, 4000)
        assert [each.rows for each in life(store, task)[:-1]] == [0, 1024, 1536, 1440]


def test_a_repeated_task_does_not_repeat_a_finished_span() -> None:
    store = MemoryStore()
    table, task = a_fill(store, 10)
    order = task.order
    assert [type(each) for each in life(store, task)[:-1]] == [Batch, Batch]
    written = store.begin().sequence
    assert [each.kind for each in life(store, task)] == [DONE]  # type: ignore[union-attr]
    assert store.begin().sequence == written, "nothing was committed"
    half = Task(kind="fill", order=order, span=k.span_of(table.row_prefix + b"\x80"))
    assert len(life(store, half)) == 3, "another span is another matter"
    index = table.info.index("ik")
    assert index and len(list(reader.scan_index(store.begin(), table, index))) == 10


def life(
    store: Store, task: Task, clock: Callable[[], float] = lambda: 0.0
) -> list[Batch | Outcome]:
    """Returns all outcomes of an attempt at the task."""
    attempt, found = TaskAttempt(store, task, Fixed(), clock), []
    while not found or isinstance(found[-1], Batch):
        found.append(attempt.advance())
    return found


def test_the_size_of_a_span_is_a_variable() -> None:
    store, now = MemoryStore(), iter(range(100))
    dial = Variables(store, lambda: float(next(now)))
    assert dial.read().span_rows == 1_250_000
    txn = store.begin()
    variables.set_global(txn, "exuvia_ddl_reorg_span_rows", "5000")
    txn.commit()
    assert dial.read().span_rows == 5000


def test_entries_of_numbers_are_narrow_those_of_texts_and_unique_indexes_are_not() -> None:
    info = table_info(
        "id int not null",
        "k int",
        "c varchar(9)",
        primary="id",
        plain={"ik": "k", "ic": "k,c"},
        unique={"iu": "k"},
    )
    table = publish(MemoryStore(), info, 1)
    ids = {index.idx_name.O: index.id for index in info.indexes}
    assert is_narrow(table, (ids["ik"],))
    assert not any(is_narrow(table, (ids["ik"], ids[name])) for name in ("ic", "iu"))
