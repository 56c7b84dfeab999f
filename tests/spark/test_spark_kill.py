"""kill -9 of the driver: neither its JVM nor Python workers remain, and another driver finishes
from the checkpoint."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exuvia.catalog.model import SchemaState, to_json
from exuvia.catalog.sysvar import variables
from exuvia.pipeline import bulk
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, fill_indexes
from exuvia.pipeline.settings import Variables
from exuvia.pipeline.throttle import can_step_back
from exuvia.pipeline.verify.compare import check_index
from support import spark
from support.node_processes import is_alive, until
from support.spark import SparkStore, ended
from support.tables import begin_reorg, publish, table_info, with_states

ROWS = 40_000


def set_batch(world: SparkStore, rows: int) -> None:
    txn = world.store.begin()
    variables.set_global(txn, "tidb_ddl_reorg_batch_size", str(rows))
    variables.set_global(txn, "exuvia_pipeline_inline_rows", "0")
    txn.commit()


@pytest.fixture
def driver(spark_store: SparkStore) -> "subprocess.Popen[str]":  # type: ignore[misc]
    info = table_info("id int not null", "k int", table_id=300, primary="id", plain={"ik": "k"})
    bulk.load(
        spark_store.store,
        publish(spark_store.store, with_states(info, ik=SchemaState.ABSENT), 1),
        [[[n, n * 31 % 997] for n in range(ROWS)]],
    )
    filling = with_states(info, ik=SchemaState.WRITE_REORG)
    publish(spark_store.store, filling, 2)
    begin_reorg(spark_store.store, 1, 300)
    set_batch(spark_store, 32)
    tests = Path(spark.__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, spark.__file__, spark_store.url, to_json(filling).decode()],
        env=os.environ | {"PYTHONPATH": f"{tests}:{tests.parent / 'src'}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.wait()


def test_no_process_of_a_killed_driver_stays_and_another_driver_finishes(
    driver: "subprocess.Popen[str]", spark_store: SparkStore
) -> None:
    assert driver.stdout
    told = json.loads(driver.stdout.readline())
    assert sum(map(is_alive, told["pids"])) >= 3, "a JVM, its Python daemon, a worker"
    jvm = next(pid for pid in told["pids"] if Path(f"/proc/{pid}/comm").read_text() == "java\n")
    if can_step_back():
        assert os.getpriority(os.PRIO_PROCESS, jvm) == 0, "a job waits for its first wave"
    driver.send_signal(signal.SIGKILL)
    until(lambda: not any(map(is_alive, told["pids"])))

    set_batch(spark_store, 10240)
    begin_reorg(spark_store.store, 2, 300)
    info = table_info("id int not null", "k int", table_id=300, primary="id", plain={"ik": "k"})
    table = publish(spark_store.store, with_states(info, ik=SchemaState.WRITE_REORG), 2)
    dial = Variables(spark_store.store, time.monotonic, 2000)
    reorg = PhaseRunner(
        spark_store.store, 300, 2, table, fill_indexes((2,)), spark_store.spark, dial=dial
    )
    reached = ended(reorg)
    assert isinstance(reached, Done)
    assert reached.rows == ROWS
    assert reached.spans_skipped >= 1
    pieces = ROWS // 2000
    assert pieces <= reached.spans_skipped + reached.spans_done <= pieces + 1
    index = table.info.index("ik")
    assert index and check_index(spark_store.store, table, index, "slow").faults == []
    set_batch(spark_store, 256)


def test_the_jvm_yields_to_others_once_its_first_wave_has_ended(
    spark_store: SparkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered: list[int] = []
    monkeypatch.setattr("exuvia.pipeline.spark.step_back_process", lowered.append)
    monkeypatch.setattr(spark_store.spark, "_stepped_back", 0)
    for _ in range(2):
        wave = spark_store.spark.warm()
        assert wave.wait(60) and wave.error is None, wave.error
    (pid,) = lowered
    assert Path(f"/proc/{pid}/comm").read_text() == "java\n"
