"""Reports of tasks: the bytes they use, and the text of COMMENTS, the page and /metrics."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from exuvia.catalog.model import SchemaState
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, Span
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk, executor
from exuvia.pipeline.executor import InlineTasks, description_of
from exuvia.pipeline.kernels import exchange
from exuvia.pipeline.kernels.attempt import TaskAttempt
from exuvia.pipeline.measures import MB, WaveReport, cost_of, report_in
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Running, fill_indexes
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.task import (
    Outcome,
    Task,
    TaskCost,
    WaveShare,
    decode_outcome,
    encode,
    order_for,
)
from exuvia.pipeline.throttle import Batch
from exuvia.pipeline.worker_process import WorkerProcess
from support.tables import begin_reorg, publish, table_info, with_states

ROWS = 3000


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"lmdb://{tmp_path}/store?sync=0"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url)
    yield opened
    opened.close()


def filling(store: Store) -> Table:
    """A loaded table in the state in which index ik is filled."""
    info = table_info("id int not null", "k int", primary="id", plain={"ik": "k"})
    absent = with_states(info, ik=SchemaState.ABSENT)
    bulk.load(store, publish(store, absent, 1), [[[n, n % 90] for n in range(ROWS)]])
    begin_reorg(store, 1, info.id)
    return publish(store, with_states(info, ik=SchemaState.WRITE_REORG), 2)


def bytes_in(store: Store, span: Span) -> int:
    """Of keys and raw values."""
    snapshot = store.snapshot()
    found = sum(len(key) + len(raw) for key, raw in snapshot.scan(span))
    snapshot.close()
    return found


def run_one(store: Store, task: Task) -> Outcome:
    attempt = TaskAttempt(store, task, Fixed(), time.monotonic)
    while isinstance(reached := attempt.advance(), Batch):
        pass
    return reached


@pytest.mark.parametrize("engine", ["memory", "lmdb"])
def test_a_fill_reports_the_bytes_of_its_rows_and_entries(engine: str, url: str) -> None:
    store = MemoryStore() if engine == "memory" else open_store(url)
    table = filling(store)
    index = table.info.index("ik")
    assert index is not None
    span = table.row_span()
    order = order_for(table, (index.id,), table.info.id, 1)
    done = run_one(store, Task(kind="fill", order=order, span=span))
    stamps = ROWS * store.snapshot().skip
    entries = bytes_in(store, table.index_span(index)) - stamps
    assert entries >= ROWS * (len(keys.row_prefix(1)) + len(LIVE))
    assert done.rows == ROWS
    assert done.cost.read == bytes_in(store, span)
    assert done.cost.written == entries
    assert done.cost.seconds > 0
    assert decode_outcome(encode(done)) == done
    store.close()


def test_an_outcome_of_an_older_node_has_no_cost() -> None:
    raw = encode(Outcome(ordinal=3, rows=5))
    older = raw.replace(b"\xa4cost", b"\xa4tsoc")  # the older node has no such field
    assert older != raw
    assert decode_outcome(older) == Outcome(ordinal=3, rows=5)


class OlderShare(msgspec.Struct, array_like=True):
    """A share of a wave as nodes of 0.5 read and write it."""

    tag: str
    rows: int
    most: int
    most_cold: int
    tasks: list[bytes]


def test_shares_of_a_wave_are_read_by_nodes_of_0_5_and_theirs_here() -> None:
    share = WaveShare("tag", 1, 2, 3, [b"task"], size=4, is_light=False)
    older = msgspec.msgpack.decode(msgspec.msgpack.encode(share), type=OlderShare)
    assert msgspec.structs.astuple(older) == ("tag", 1, 2, 3, [b"task"])
    raw = msgspec.msgpack.encode(older)
    assert msgspec.msgpack.decode(raw, type=WaveShare) == WaveShare("tag", 1, 2, 3, [b"task"])


def test_an_exchange_reports_what_it_spills_and_reads_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "LEAST_ROWS", 1)
    table = filling(store)
    index = table.info.index("ik")
    assert index is not None
    ended: list[Outcome] = []
    results = executor.Executor.results

    def noted(self: executor.Executor) -> list[Outcome]:
        found = results(self)
        ended.extend(found)
        return found

    monkeypatch.setattr(executor.Executor, "results", noted)
    dial = Fixed(PipelineSettings(span_rows=500))
    reorg = PhaseRunner(store, table.info.id, 1, table, fill_indexes((index.id,)), dial=dial)
    while not isinstance(reorg.step(time.monotonic()), Done):
        pass
    spills = [outcome for outcome in ended if outcome.cost.spilled]
    assert sum(outcome.rows for outcome in spills) == ROWS
    spilled = cost_of(spills).spilled
    put = next(n for n, outcome in enumerate(ended) if outcome not in spills)
    merges = ended[put : put + -(-ROWS // 500)]
    read = cost_of(merges).read
    assert spilled <= read, "each spilled byte is read once, and bounds are searched for"
    assert sum(outcome.placed for outcome in merges) == ROWS


REPORTS = [
    WaveReport("local", 1, total=4, done=1, running=1),
    WaveReport("spark", 12, 64, 60, 4, 3, 3, 12.5, 5 * MB, 0, 2 * MB, (), "http://127.0.0.1:4040"),
    WaveReport("spark", 1, 2, 0, 1, 1, 1, lost=("executor 0 at h:1: killed, see http://x",)),
]


@pytest.mark.parametrize("report", REPORTS)
def test_the_text_of_a_report_is_read_back(report: WaveReport) -> None:
    note = f"fill, 545 rows/s, 68 s left, spans done: 3; {report.text()}"
    assert report_in(note) == report._replace(lost=())
    for lost in report.lost:
        assert lost in note


def test_no_report_is_read_from_other_notes() -> None:
    assert report_in("fill, 545 rows/s, spans done: 3") is None
    assert report_in("") is None


def test_both_parts_of_a_wave_add_up() -> None:
    one, other = REPORTS[0], REPORTS[1]
    both = one.beside(other)
    assert both.engine == "spark"
    assert (both.executors, both.total, both.done, both.running) == (13, 68, 61, 5)
    assert (both.waiting, both.slowest_s, both.read) == (2, 12.5, 5 * MB)


def test_a_running_job_shows_its_tasks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LEAST_ROWS", 1)
    table = filling(store)
    index = table.info.index("ik")
    assert index is not None
    dial = Fixed(PipelineSettings(span_rows=500))
    reorg = PhaseRunner(store, table.info.id, 1, table, fill_indexes((index.id,)), dial=dial)
    seen: list[WaveReport] = []
    while not isinstance(reached := reorg.step(time.monotonic()), Done):
        assert isinstance(reached, Running)
        if report := report_in(reached.note):
            seen.append(report)
    assert {report.engine for report in seen} == {"local"}
    assert all(report.executors == 1 and report.running <= 1 for report in seen)
    assert max(report.total for report in seen) >= 6
    fills = [report for report in seen if report.total >= 6]
    assert [report.done for report in fills[: len(fills) // 4]] != [0] * (len(fills) // 4)


def test_the_task_of_a_killed_worker_is_retried_in_the_report(
    url: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filling(store)
    index = table.info.index("ik")
    assert index is not None
    order = order_for(table, (index.id,), table.info.id, 1)
    spans = store.split(table.row_span(), 4)
    tasks = [Task(kind="fill", order=order, span=span, ordinal=n) for n, span in enumerate(spans)]
    worker = WorkerProcess(url)
    assert worker.take()
    wave = InlineTasks(store, tasks, Fixed(), time.monotonic, worker)
    wave.step()
    assert wave.report().executors == 2
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    wave.run()
    report = wave.report()
    assert (report.done, report.failed, report.retried, report.running) == (4, 1, 1, 0)
    assert cost_of(wave.outcomes).attempt == 1
    assert sum(outcome.rows for outcome in wave.outcomes) == ROWS


def test_costs_add_up_with_the_slowest_time() -> None:
    some = [Outcome(cost=TaskCost(1, 2, 3, 0.5, 1)), Outcome(cost=TaskCost(10, 20, 30, 0.25))]
    assert cost_of(some) == TaskCost(11, 22, 33, 0.5, 1)


def test_a_description_has_the_job_table_phase_and_stage(store: Store) -> None:
    table = filling(store)
    task = Task(kind="spill", order=order_for(table, (), 7, 1), span=table.row_span())
    home = table.database.db_name.O
    assert description_of([task], "fill") == f"DDL job 7: {home}.t, phase fill, stage spill"
