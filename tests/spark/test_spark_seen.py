"""What Spark shows of a job, and what a job shows of Spark: names, tasks, costs, its own page."""

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from exuvia.catalog.model import SchemaState
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk, executor
from exuvia.pipeline.kernels import exchange
from exuvia.pipeline.kernels.attempt import TaskAttempt
from exuvia.pipeline.measures import WaveReport, report_in
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Progress, Running, fill_indexes
from exuvia.pipeline.settings import Fixed, Variables
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Outcome, Task, encode, order_for
from exuvia.pipeline.throttle import Batch
from exuvia.pipeline.verify.compare import check_index
from support.postgres import free_port
from support.spark import SparkStore, has_ended, step_until
from support.tables import begin_reorg, publish, table_info, with_states

SLOW_START_S = 240.0


def make(store: Store, table_id: int, rows: int) -> Table:
    """A loaded table in the state in which index ik is filled."""
    info = table_info(
        "id int not null", "k int", table_id=table_id, plain={"ik": "k"}, primary="id"
    )
    absent = with_states(info, ik=SchemaState.ABSENT)
    bulk.load(store, publish(store, absent, 1), [[[n, n * 7919 % 1000] for n in range(rows)]])
    begin_reorg(store, 1, table_id)
    return publish(store, with_states(info, ik=SchemaState.WRITE_REORG), 2)


def index_of(table: Table) -> int:
    index = table.info.index("ik")
    assert index is not None
    return index.id


def settle(store: Store, **values: int) -> None:
    def work(txn: Any) -> None:
        for name, value in values.items():
            variables.set_global(txn, name, str(value))

    store.transact(work)


def descriptions(spark: Spark) -> list[str]:
    """Of all jobs, as Spark's own page has them."""
    applications = f"{spark.page}/api/v1/applications"
    name = asked(applications)[0]["id"]
    return [job.get("description", "") for job in asked(f"{applications}/{name}/jobs")]


def asked(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def reports_of(reorg: PhaseRunner) -> tuple[Progress, list[WaveReport]]:
    """Its end, and what its notes reported until then."""
    progress = step_until(reorg, has_ended)
    notes = [reached.note for reached in progress if isinstance(reached, Running)]
    return progress[-1], [report for report in map(report_in, notes) if report]


def test_jobs_of_spark_are_named_and_a_job_shows_its_tasks(
    spark_store: SparkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "LEAST_ROWS", 1)
    store = spark_store.store
    table = make(store, 231, 40_000)
    settle(store, exuvia_pipeline_inline_rows=0, tidb_ddl_reorg_max_write_speed=1_000_000)
    dial = Variables(store, time.monotonic, 10_000)
    plan = fill_indexes((index_of(table),))
    try:
        end, reports = reports_of(
            PhaseRunner(store, 231, 1, table, plan, spark_store.spark, dial=dial)
        )
    finally:
        settle(store, tidb_ddl_reorg_max_write_speed=0)
    assert isinstance(end, Done)
    place = f"DDL job 231: {table.database.db_name.O}.{table.info.name.O}"
    named = set(descriptions(spark_store.spark))
    assert named >= {f"{place}, phase fill, stage {stage}" for stage in ("spill", "merge")}
    assert any(text.startswith(f"{place}, phase verify, stage ") for text in named)
    assert {report.engine for report in reports} == {"spark"}
    assert max(report.executors for report in reports) == 1
    assert max(report.running for report in reports) >= 1
    assert max(report.total for report in reports) >= 4
    assert max(report.slowest_s for report in reports) > 0
    assert max(report.spilled for report in reports) > 0


def test_costs_are_those_of_this_process(spark_store: SparkStore) -> None:
    store = spark_store.store
    outcomes = []
    for table_id, on in ((232, "spark"), (233, "local")):
        table = make(store, table_id, 3000)
        order = order_for(table, (index_of(table),), table_id, 1)
        task = Task(kind="fill", order=order, span=table.row_span())
        outcomes.append(run(spark_store, task) if on == "spark" else run_here(spark_store, task))
    there, here = outcomes
    assert (there.rows, there.placed) == (here.rows, here.placed) == (3000, 3000)
    assert (there.cost.read, there.cost.written) == (here.cost.read, here.cost.written)
    assert there.cost.seconds > 0 and there.cost.attempt == 0


def run(world: SparkStore, task: Task) -> Outcome:
    wave = world.spark.start("costs", [encode(task)], "costs")
    assert wave.wait(120) and wave.error is None, wave.error
    return wave.outcomes[0]


def run_here(world: SparkStore, task: Task) -> Outcome:
    attempt = TaskAttempt(world.store, task, Fixed(), time.monotonic)
    while isinstance(reached := attempt.advance(), Batch):
        pass
    return reached


@pytest.mark.long
def test_a_wave_that_begins_here_ends_on_spark(
    spark_store: SparkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "LEAST_ROWS", 1 << 40)  # one phase, of tasks that write
    monkeypatch.setattr(executor, "chooses_spark", lambda *_: True)
    store = spark_store.store
    table = make(store, 234, 40_000)
    settle(store, exuvia_pipeline_inline_rows=100, tidb_ddl_reorg_max_write_speed=400_000)
    cold = Spark(spark_store.url)  # its first session is the one that runs already
    dial = Variables(store, time.monotonic, 2000)
    try:
        end, reports = reports_of(
            PhaseRunner(store, 234, 1, table, fill_indexes((index_of(table),)), cold, dial=dial)
        )
    finally:
        settle(store, tidb_ddl_reorg_max_write_speed=0)
    assert isinstance(end, Done)
    assert (end.rows, end.spans_skipped) == (40_000, 0)
    assert reports[0].engine == "local" and reports[-1].engine == "spark"
    fills = [report for report in reports if report.total == 20]
    assert fills[-1].engine == "spark" and fills[-1].done > fills[0].done
    place = f"DDL job 234: {table.database.db_name.O}.{table.info.name.O}"
    assert f"{place}, phase fill, stage fill" in descriptions(spark_store.spark)
    index = table.info.index("ik")
    assert index and check_index(store, table, index, "slow").faults == []


@pytest.mark.long
def test_spark_has_a_page_on_loopback_and_a_log_of_events(tmp_path: Path) -> None:
    port, events = free_port(), tmp_path / "events"
    url = f"lmdb://{tmp_path}/store"
    open_store(url).close()
    program = f"""
import json, sys, urllib.request
from exuvia.pipeline.spark import Spark, shown_conf
spark = Spark({url!r}, conf=shown_conf({port}, {str(events)!r}))
wave = spark.start("tag", [b""], "DDL job 9: a.t, phase fill, stage spill")
assert wave.wait({SLOW_START_S}) and wave.error is None, wave.error
api = f"{{spark.page}}/api/v1/applications"
app = json.load(urllib.request.urlopen(api))[0]["id"]
print(json.dumps([spark.page, json.load(urllib.request.urlopen(f"{{api}}/{{app}}/jobs"))]))
print(open("/proc/net/tcp").read() + open("/proc/net/tcp6").read())
spark.stop()
"""
    page, jobs, sockets = in_a_process(program)
    assert page == f"http://127.0.0.1:{port}"
    assert [job["description"] for job in jobs] == ["DDL job 9: a.t, phase fill, stage spill"]
    listens = [line.split()[1] for line in sockets if f":{port:04X} 00000000" in line]
    assert listens, sockets
    for address in listens:
        assert address.rpartition(":")[0].endswith("0100007F"), "127.0.0.1, also as an IPv6 one"
    assert (events.stat().st_mode & 0o777) == 0o700
    assert list(events.rglob("events_*"))


def in_a_process(program: str) -> tuple[str, Any, list[str]]:
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SLOW_START_S
    )
    assert found.returncode == 0, found.stderr[-2000:]
    first, *sockets = found.stdout.splitlines()
    page, jobs = json.loads(first)
    return page, jobs, [" ".join(line.split()) for line in sockets]
