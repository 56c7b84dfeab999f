"""SIGSTOP for longer than the lease: others go on, and whoever wakes up late harms nothing (laws
2, 3, 8)."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pymysql
import pytest

from exuvia.kv.lmdb.process import is_stopped
from exuvia.kv.store import Store
from support.node_processes import NodeProcess, until
from support.torture import (
    Nodes,
    begin,
    end_by_pid,
    job_of,
    jobs,
    load,
    nodes_to_hurt,
    own_store,
    run,
    stop_outside_the_gate,
    wait_for_job,
)

LEASE_S = 2.0
ROWS = 120_000


@pytest.fixture
def nodes_of_longer_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    with nodes_to_hurt(tmp_path, monkeypatch, lease_s=8.0) as running:
        yield running


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("pauses")
    with (
        pytest.MonkeyPatch.context() as patch,
        nodes_to_hurt(folder, patch, lease_s=LEASE_S) as running,
    ):
        yield running


@pytest.fixture
def nodes(pair: Nodes) -> Nodes:
    """Both serve, and there is no table t."""
    for node in pair.slots:
        until(lambda node=node: node.get("/readyz")[0] == 200)
    run(pair.slots[0], "DROP TABLE IF EXISTS t")
    return pair


def is_member(node: NodeProcess, pid: int) -> bool:
    return pid in [each["pid"] for each in node.status()["members"]]


def ended(node: NodeProcess) -> list[tuple[Any, ...]]:
    """What history says, in order."""
    return [tuple(job.values()) for job in jobs(node) if job["END_TIME"] is not None]


@pytest.mark.long
def test_law_2_an_owner_that_slept_through_its_lease_harms_nothing(nodes: Nodes) -> None:
    with own_store(nodes.url) as store:
        sleeper = nodes.owner_slot()
        other = nodes.slots[1 - sleeper]
        load(other, store, "t", ROWS)
        run(other, "SET GLOBAL exuvia_pipeline_inline_rows = 1000000")
        run(other, "SET GLOBAL tidb_ddl_reorg_batch_size = 32")
        begin(other, "ALTER TABLE t ADD INDEX ik (k)")
        until(lambda: int(job_of(other, "add index")["ROW_COUNT"]) > 0)
        pid = nodes.slots[sleeper].back_pid()
        stop_outside_the_gate(pid, store)
        assert job_of(other, "add index")["STATE"] == "running"
        run(other, "SET GLOBAL tidb_ddl_reorg_batch_size = 10240")
        assert wait_for_job(other, "add index")["ROW_COUNT"] == ROWS
        run(other, "ALTER TABLE t ADD INDEX iv (v)", "ADMIN CHECK TABLE t")
        assert not is_member(other, pid)
        before = ended(other)
        end_by_pid(pid, signal.SIGCONT)
        until(lambda: is_member(other, pid), about="it did not join again")
        run(other, "INSERT INTO t VALUES (-1, 1, 1)", "ADMIN CHECK TABLE t")
        assert ended(other) == before
        stop_outside_the_gate(other.back_pid(), store)
        run(nodes.slots[sleeper], "ALTER TABLE t ADD COLUMN c INT DEFAULT 5")
        assert nodes.owner_slot() == sleeper, "it owns again, after the other slept"
        assert run(other, "SELECT c FROM t WHERE id = -1") == [(5,)]
        end_by_pid(other.back_pid(), signal.SIGCONT)
        run(other, "ADMIN CHECK TABLE t")


def test_law_8_a_front_that_slept_through_its_lease_is_not_waited_for(nodes: Nodes) -> None:
    with own_store(nodes.url) as store:
        awake, sleeper = nodes.slots
        run(awake, "CREATE TABLE t (a INT PRIMARY KEY, b INT)", "INSERT INTO t VALUES (1, 1)")
        connection, cursor = opened(sleeper, "INSERT INTO t VALUES (2, 2)")
        reader, read = opened(sleeper, "SELECT * FROM t")
        begin(awake, "ALTER TABLE t ADD INDEX ib (b)")
        until(lambda: "INSERT INTO t" in job_of(awake, "add index")["COMMENTS"])
        stop_outside_the_gate(sleeper.pid, store)
        until(lambda: "silent" in job_of(awake, "add index")["COMMENTS"])
        wait_for_job(awake, "add index")
        run(awake, "UPDATE t SET b = 7 WHERE a = 1")
        sleeper.send(signal.SIGCONT)
        with pytest.raises(pymysql.err.MySQLError) as refused:
            connection.commit()
        assert refused.value.args[0] in (8027, 8028), refused.value
        until(lambda: answers(sleeper, "SELECT a, b FROM t WHERE b = 7") == [(1, 7)])
        cursor.execute("INSERT INTO t VALUES (3, 3)")
        connection.commit()
        assert run(awake, "SELECT a FROM t") == [(1,), (3,)]
        assert run(awake, "SELECT a FROM t WHERE b = 2") == []
        run(awake, "ADMIN CHECK TABLE t")
        read.close()
        reader.close()
        connection.close()


def opened(node: NodeProcess, statement: str) -> tuple[Any, Any]:
    """(connection, cursor) with an open transaction that has run the statement."""
    connection = node.connect("test")
    cursor = connection.cursor()
    cursor.execute("BEGIN")
    cursor.execute(statement)
    return connection, cursor


def answers(node: NodeProcess, statement: str) -> object:
    """Rows, or None while the node refuses to serve."""
    try:
        return run(node, statement)
    except pymysql.err.MySQLError as error:
        assert error.args[0] == 8027, error
        return None


def test_a_process_stopped_inside_a_write_transaction_is_ended_before_leases_run_out(
    nodes_of_longer_leases: Nodes,
) -> None:
    nodes = nodes_of_longer_leases
    with own_store(nodes.url) as store:
        sleeper = nodes.owner_slot()
        other = nodes.slots[1 - sleeper]
        run(other, "CREATE TABLE t (a INT PRIMARY KEY)")
        pid = nodes.slots[sleeper].back_pid()
        with stopped_in_a_write(pid, store, other):
            run(other, "INSERT INTO t VALUES (1)", "ALTER TABLE t ADD COLUMN c INT DEFAULT 5")
            assert run(other, "SELECT * FROM t") == [(1, 5)]
        until(lambda: nodes.slots[sleeper].back_pid() != pid, about="it was not replaced")


@contextlib.contextmanager
def stopped_in_a_write(pid: int, store: Store, node: NodeProcess) -> Iterator[None]:
    """SIGSTOP at a moment in which the process, the owner's, keeps the store's write lock: changes
    asked for at the node let it write often. The last one is done by its successor."""
    gate = store.environment.gate  # type: ignore[attr-defined]
    stopped = threading.Event()

    def change() -> None:
        while not stopped.is_set():
            run(node, "CREATE TABLE u (a INT)", "DROP TABLE u")

    def caught() -> bool:
        if gate.holders().writer != pid:
            return False
        end_by_pid(pid, signal.SIGSTOP)
        until(lambda: is_stopped(pid))
        if gate.holders().writer == pid:
            return True
        end_by_pid(pid, signal.SIGCONT)
        return False

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change)
        try:
            until(caught, every_s=0)
            stopped.set()
            yield
        finally:
            stopped.set()
        changing.result()
