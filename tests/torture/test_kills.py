"""kill -9 at random moments of a Spark backfill, and right after a statement was sent.

    a driver's life   other node's front or back killed | Spark's workers killed, one after another
    its end           the owner's front, or its back, or its JVM is killed

The job is one and the same from its first step to history; what it finished it never does again.
"""

import contextlib
import random
import threading
import time
from pathlib import Path

import pytest

from support.node_processes import is_alive, until
from support.torture import (
    PATIENCE_S,
    Checkpoint,
    Nodes,
    Writer,
    begin,
    end_by_pid,
    expected,
    job_of,
    jobs,
    load,
    nodes_to_hurt,
    own_store,
    run,
    wait_for_job,
)

ROWS = 120_000
SPAN_ROWS = 2_500
SEED = 20261121
WORKER_KILLS_A_LIFE = 3


class Killer:
    """Who kills whom, by seed."""

    def __init__(self, nodes: Nodes, checkpoint: Checkpoint) -> None:
        self.kills: list[str] = []
        self._nodes, self._checkpoint = nodes, checkpoint
        self._chance = random.Random(SEED)
        self._never = threading.Event()

    def _killed(self, victim: str) -> None:
        self.kills.append(victim)
        at_s, spans = time.monotonic(), len(self._checkpoint.spans)
        print(f"{at_s:.1f} s: {victim} killed, {spans} spans done")

    def _pause(self, longest_s: float) -> None:
        self._never.wait(self._chance.uniform(0, longest_s))

    def one_life(self, end: str) -> None:
        """Accidents from the start of a driver to its end; `end` "" leaves it alive."""
        owner = self._nodes.owner_slot()
        for victim in self._chance.sample(["other front", "other back"], 2):
            self._pause(1.0)
            self._kill_other(1 - owner, victim)
        for _ in range(WORKER_KILLS_A_LIFE):
            self._kill_worker()
        known = len(self._checkpoint.spans)
        until(lambda: len(self._checkpoint.spans) > known + 1, PATIENCE_S, "no span was finished")
        self._pause(1.0)
        if end:
            self._end_life(owner, end)

    def _kill_other(self, slot: int, victim: str) -> None:
        """The node that does not own the job; it comes back at once."""
        if victim == "other front":
            self._nodes.kill_front(slot)
            self._nodes.begin_again(slot).wait_ready(PATIENCE_S)
        else:
            end_by_pid(self._nodes.slots[slot].back_pid())
        self._killed(victim)

    def _kill_worker(self) -> None:
        """One that does a task: it was seen, and lived on for a random time."""
        until(self._nodes.spark_workers, PATIENCE_S, "Spark does not start its workers")
        self._pause(0.5)
        workers = until(self._nodes.spark_workers, PATIENCE_S)
        if end_by_pid(self._chance.choice(workers)):
            self._killed("worker")

    def _end_life(self, owner: int, end: str) -> None:
        """Its driver ends with it: no JVM and no worker outlives it."""
        old = [each.pid for each in self._nodes.processes() if "pyspark" in each.command]
        assert len(self._nodes.machines()) == 1
        if end == "owner's front":
            self._nodes.kill_front(owner)
            self._nodes.begin_again(owner).wait_ready(PATIENCE_S)
        elif end == "owner's back":
            end_by_pid(self._nodes.slots[owner].back_pid())
        else:
            end_by_pid(self._nodes.machines()[0])
        self._killed(end)
        until(lambda: not any(map(is_alive, old)), 30, "a driver's processes outlived it")


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with nodes_to_hurt(tmp_path, monkeypatch) as running:
        yield running


@pytest.mark.long
def test_a_backfill_survives_twenty_kills_and_does_no_span_twice(nodes: Nodes) -> None:
    with own_store(nodes.url) as store, contextlib.ExitStack() as stack:
        load(nodes.slots[0], store, "t", ROWS)
        run(
            nodes.slots[0],
            "SET GLOBAL exuvia_pipeline_inline_rows = 0",
            f"SET GLOBAL exuvia_ddl_reorg_span_rows = {SPAN_ROWS}",
            "SET GLOBAL tidb_ddl_reorg_batch_size = 32",
        )
        writers = [Writer(nodes, "t", n, 2, ROWS // 2) for n in range(2)]
        begin(nodes.slots[0], "ALTER TABLE t ADD INDEX ik (k)")
        job_id = int(job_of(nodes.slots[1], "add index")["JOB_ID"])
        checkpoint = Checkpoint(store, job_id)
        stack.callback(checkpoint.stop)
        killer = Killer(nodes, checkpoint)
        for end in ("the JVM", "owner's back", "owner's front", ""):
            killer.one_life(end)
        before = len(checkpoint.spans)
        run(
            nodes.living()[0],
            "SET GLOBAL tidb_ddl_reorg_batch_size = 10240",
            "SET GLOBAL exuvia_ddl_reorg_span_rows = 25000",
        )
        job = wait_for_job(nodes.living()[0], "add index")
        checkpoint.stop()
        for writer in writers:
            writer.stop()
        assert len(killer.kills) >= 20, killer.kills
        assert int(job["JOB_ID"]) == job_id
        assert before >= 8, "the kills came while spans were being finished"
        assert checkpoint.faults == []
        assert checkpoint.overlaps() == []
    assert len(nodes.machines()) <= 1
    _holds_what_clients_wrote(nodes, writers)


def _holds_what_clients_wrote(nodes: Nodes, writers: list[Writer]) -> None:
    assert [writer.errors for writer in writers] == [[], []]
    assert all(writer.written > 100 for writer in writers)
    node = nodes.living()[0]
    run(node, "ADMIN CHECK TABLE t")
    found = {row_id: (k, v) for row_id, k, v in run(node, "SELECT id, k, v FROM t")}
    assert found == expected(writers, ROWS)


def test_the_submitting_node_is_killed_and_its_job_ends_in_history(nodes: Nodes) -> None:
    first, second = nodes.slots
    run(first, "CREATE TABLE t (a INT PRIMARY KEY, b INT)", "INSERT INTO t VALUES (1, 2), (2, 3)")
    begin(first, "ALTER TABLE t ADD INDEX ib (b)")
    job_id = job_of(second, "add index")["JOB_ID"]
    nodes.kill_node(0)
    assert wait_for_job(second, "add index")["JOB_ID"] == job_id
    assert [row[0] for row in run(second, "SELECT a FROM t WHERE b = 3")] == [2]
    run(second, "ADMIN CHECK TABLE t", "ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
    assert run(second, "SELECT * FROM t") == [(1, 2, 7), (2, 3, 7)]
    assert sum(job["JOB_ID"] == job_id for job in jobs(second)) == 1
