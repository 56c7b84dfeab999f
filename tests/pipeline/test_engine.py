"""Which engine runs a piece of work, and how a wave goes over to Spark while that starts."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exuvia.base.errors import Unavailable
from exuvia.base.limits import COLD_INLINE, INLINE_ROWS, SPAN_ROWS
from exuvia.catalog.model import SchemaState
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk, engine, executor
from exuvia.pipeline.engine import AUTO, LOCAL, SPARK, Workload, chooses_spark, forces_spark
from exuvia.pipeline.executor import Executor, StartingTasks
from exuvia.pipeline.kernels import exchange
from exuvia.pipeline.measures import WaveReport
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import ARRAY_ROWS, Done, Progress, Waiting, fill_indexes
from exuvia.pipeline.settings import Fixed, PipelineSettings, Variables
from exuvia.pipeline.spark_status import SparkLook
from exuvia.pipeline.task import Outcome, Task, decode_task
from exuvia.pipeline.throttle import Batch
from exuvia.pipeline.verify.compare import check_index
from support.tables import begin_reorg, publish, table_info, with_states

LIMIT = ARRAY_ROWS * INLINE_ROWS
MILLION = 1_000_000


class State:
    """A Spark that is asked for nothing but its state."""

    def __init__(self, at_once: int, is_started: bool) -> None:
        self.expected_at_once = at_once
        self.is_started = is_started


def work(rows: int, limit: int = LIMIT, width: int = 200) -> Workload:
    return Workload(rows, rows * width, limit, COLD_INLINE * INLINE_ROWS)


def on_spark(
    rows: int,
    setting: str = AUTO,
    cores: int = 8,
    warm: bool = True,
    here: int = 2,
    writers: int = 256,
    available: bool = True,
    limit: int = LIMIT,
) -> bool:
    spark = State(cores, warm)
    return chooses_spark(setting, work(rows, limit), spark, lambda: available, here, writers)


def test_a_forced_engine_does_not_look_at_the_size() -> None:
    def unasked() -> bool:
        raise AssertionError("asked whether Spark is there")

    for rows in (0, 100, 100 * MILLION):
        for setting in (LOCAL, SPARK):
            chosen = chooses_spark(setting, work(rows), State(64, True), unasked, 2, 256)
            assert chosen is (setting == SPARK)
    assert forces_spark(SPARK, work(5)) and not forces_spark(LOCAL, work(5, limit=0))
    assert forces_spark(AUTO, work(5, limit=0)) and not forces_spark(AUTO, work(5))


def test_auto_leaves_small_work_here_without_asking_for_java() -> None:
    def unasked() -> bool:
        raise AssertionError("asked whether Spark is there")

    assert not chooses_spark(AUTO, work(LIMIT), State(64, True), unasked, 1, 256)


def test_auto_prefers_more_processors() -> None:
    assert on_spark(20 * MILLION, cores=8)
    assert not on_spark(20 * MILLION, cores=8, available=False)
    assert not on_spark(20 * MILLION, cores=1)
    assert not on_spark(20 * MILLION, cores=8, writers=1), "one task at once may write"


def test_the_start_of_the_jvm_must_be_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "processors", lambda: 2)
    assert on_spark(2 * MILLION, cores=2), "it runs already, and costs the same"
    assert not on_spark(2 * MILLION, cores=2, warm=False)
    assert on_spark(200 * MILLION, cores=2, warm=False)
    assert on_spark(20 * MILLION, cores=8, warm=False)


def test_wide_rows_are_more_work() -> None:
    assert work(MILLION, width=4000).processor_s > 3 * work(MILLION, width=100).processor_s
    heavy = Workload(MILLION, 0, INLINE_ROWS, 0, is_light=False)
    assert heavy.processor_s == pytest.approx(
        ARRAY_ROWS * Workload(MILLION, 0, LIMIT, 0).processor_s
    )


def test_a_large_backfill_has_a_task_for_each_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "processors", lambda: 64)
    assert engine.least_tasks(SPAN_ROWS, 2) == 1
    assert engine.least_tasks(SPAN_ROWS + 1, 2) == 64
    assert engine.least_tasks(SPAN_ROWS + 1, 100) == 100


# -- a wave that goes over to Spark ----------------------------------------------------------------

ROWS = 4000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"lmdb://{tmp_path}/store?sync=0")
    yield opened
    opened.close()


def filling(store: Store, rows: int = ROWS) -> Table:
    """A loaded table in the state in which index ik is filled."""
    info = table_info("id int not null", "k int", primary="id", plain={"ik": "k"})
    absent = with_states(info, ik=SchemaState.ABSENT)
    bulk.load(store, publish(store, absent, 1), [[[n, n % 90] for n in range(rows)]])
    begin_reorg(store, 1, info.id)
    return publish(store, with_states(info, ik=SchemaState.WRITE_REORG), 2)


class Wave:
    """Tasks that "Spark" runs: here, when it is stepped. `error`: it loses them instead."""

    def __init__(self, store: Store, tasks: list[Task], error: str | None, ready: bool) -> None:
        self._store = store
        self.tasks = tasks
        self.ready = ready
        self.error = error
        self.is_waiting = False
        self.outcomes: list[Outcome] = []
        self.last_look = SparkLook()

    def step(self) -> float:
        for task in [] if self.error else self.tasks[len(self.outcomes) :]:
            attempt = executor.TaskAttempt(self._store, task, Fixed(), time.monotonic)
            while isinstance(reached := attempt.advance(), Batch):
                pass
            self.outcomes.append(reached)
        return 0.0

    def done(self) -> bool:
        return self.ready and (bool(self.error) or len(self.outcomes) == len(self.tasks))

    def report(self) -> WaveReport:
        return WaveReport("spark", 2, len(self.tasks), len(self.outcomes))

    def cancel(self) -> None:
        pass


class Starting:
    """A Spark whose start ends when the test says so."""

    at_once = expected_at_once = 2
    is_started = False
    page = ""

    def __init__(self, store: Store, start_error: str | None = None, loses: bool = False) -> None:
        self._store = store
        self._start_error = start_error
        self._loses = loses
        self.start_wave: Wave | None = None
        self.waves: list[Wave] = []
        self.obstacle_text: str | None = None

    def obstacle(self) -> str | None:
        return self.obstacle_text

    def warm(self) -> Wave:
        self.start_wave = Wave(self._store, [], self._start_error, ready=False)
        return self.start_wave

    def ready(self) -> None:
        assert self.start_wave is not None
        self.start_wave.ready = True
        self.is_started = self._start_error is None

    def start(self, tag: str, tasks: list[bytes], about: str) -> Wave:
        error = "lost" if self._loses else None
        self.waves.append(Wave(self._store, list(map(decode_task, tasks)), error, ready=True))
        return self.waves[-1]


@pytest.fixture(autouse=True)
def waves_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SparkTasks", Wave)
    monkeypatch.setattr(exchange, "LEAST_ROWS", 1 << 40)


def runner(store: Store, table: Table, spark: Starting, **settings: Any) -> PhaseRunner:
    index = table.info.index("ik")
    assert index is not None
    dial = Fixed(PipelineSettings(span_rows=200, inline_rows=1, batch_rows=64, **settings))
    plan = fill_indexes((index.id,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "START_S", 0.0)
        patch.setattr(executor, "chooses_spark", cheap)
        bad: Any = spark
        reorg = PhaseRunner(store, table.info.id, 1, table, plan, bad, dial=dial)
        reorg.step(time.monotonic())
    return reorg


def cheap(setting: str, work: Workload, *rest: Any) -> bool:
    return setting != LOCAL and (setting == SPARK or rest[1]())


def finished(reorg: PhaseRunner) -> Progress:
    now, last = time.monotonic(), time.monotonic() + 60
    while time.monotonic() < last:
        reached = reorg.step(now)
        if isinstance(reached, Done):
            return reached
        now += max(0.01, reached.wake_s) if isinstance(reached, Waiting) else 0.01
    raise AssertionError("it did not end")


def assert_filled(store: Store, table: Table) -> None:
    index = table.info.index("ik")
    assert index is not None
    assert store.count(table.index_span(index)) == ROWS
    assert check_index(store, table, index, "slow").faults == []


def test_tasks_that_have_not_begun_go_to_spark_once_it_has_started(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[StartingTasks] = []

    class Noted(StartingTasks):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            begun.append(self)

    monkeypatch.setattr(executor, "StartingTasks", Noted)
    table, spark = filling(store), Starting(store)
    reorg = runner(store, table, spark)
    for _ in range(5):
        reorg.step(time.monotonic())
    own = len(begun[0].outcomes)
    assert own and not spark.waves, "this process has worked meanwhile"
    spark.ready()
    assert finished(reorg) == Done(ROWS, 20, 0)
    handed = spark.waves[0].tasks
    assert 0 < len(handed) <= 20 - own
    assert len({task.span for task in handed}) == len(handed)
    assert_filled(store, table)


def test_this_process_finishes_if_spark_does_not_start(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    table, spark = filling(store), Starting(store, start_error="no memory")
    reorg = runner(store, table, spark)
    spark.ready()
    finished(reorg)
    assert not spark.waves
    assert ["no memory"] == [record.__dict__["reason"] for record in caplog.records]
    assert_filled(store, table)


def test_this_process_takes_over_if_spark_loses_a_wave(store: Store) -> None:
    table, spark = filling(store), Starting(store, loses=True)
    reorg = runner(store, table, spark)
    spark.ready()
    reached = reorg.step(time.monotonic())
    while not isinstance(reached, Waiting):
        reached = reorg.step(time.monotonic())
    assert "lost" in reached.reason
    finished(reorg)
    assert len(spark.waves) == 1
    assert_filled(store, table)


def test_forced_spark_waits_with_the_reason_and_does_nothing_here(store: Store) -> None:
    table, spark = filling(store), Starting(store)
    spark.obstacle_text = "Java 17 is needed"
    reorg = runner(store, table, spark, engine="spark")
    reached = reorg.step(time.monotonic())
    assert isinstance(reached, Waiting) and "Java 17" in reached.reason
    index = table.info.index("ik")
    assert index is not None and store.count(table.index_span(index)) == 0
    spark.obstacle_text = None
    finished(reorg)
    assert spark.start_wave is None and spark.waves
    assert_filled(store, table)


class Untouchable:
    """A Spark that must not be asked for anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"local asked Spark for {name}")


def test_local_never_asks_spark(store: Store) -> None:
    table = filling(store)
    reorg = runner(store, table, Untouchable(), engine="local")  # type: ignore[arg-type]
    finished(reorg)
    assert_filled(store, table)


def test_the_setting_is_read_from_the_store(store: Store) -> None:
    dial = Variables(store, iter(range(100)).__next__)  # type: ignore[arg-type]
    assert dial.read().engine == "auto"
    store.transact(lambda txn: variables.set_global(txn, "exuvia_pipeline_engine", "LOCAL"))
    assert dial.read().engine == "local"


def test_an_executor_without_spark_works_here_whatever_the_setting(store: Store) -> None:
    for setting in (AUTO, LOCAL, SPARK):
        crew = Executor(store, None, Fixed(PipelineSettings(engine=setting)), time.monotonic)
        crew.choose(work(100 * MILLION))
        assert crew.at_once == 1


def test_forced_spark_is_unavailable_without_java(store: Store) -> None:
    spark: Any = Starting(store)
    spark.obstacle_text = "Java 17 is needed"
    crew = Executor(store, spark, Fixed(PipelineSettings(engine="spark")), time.monotonic)
    crew.choose(work(5))
    with pytest.raises(Unavailable, match="Java 17"):
        crew.start("tag", [])
