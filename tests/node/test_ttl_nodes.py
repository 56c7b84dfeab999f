"""TTL jobs of real nodes: the owner is killed, and another one takes over. Only expired rows are
deleted, and each is counted once."""

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from support.node_processes import NodeProcess, end_all, until

LEASE_S = 3.0
OLD, FRESH = 600, 50
RESCUED = range(OLD - 20, OLD)


def run(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def remaining(node: NodeProcess) -> int:
    return int(run(node, "SELECT COUNT(*) FROM d.t")[0][0])


@pytest.mark.parametrize(
    "whole_node",
    [pytest.param(False, id="its back", marks=pytest.mark.long), pytest.param(True, id="its node")],
)
def test_a_killed_owners_job_is_ended_by_another(tmp_path: Path, whole_node: bool) -> None:
    url = f"lmdb://{tmp_path}/store"
    nodes: list[NodeProcess] = []
    try:
        for n in range(2):
            nodes.append(NodeProcess(url, tmp_path / f"log{n}", LEASE_S).wait_ready())
            until(lambda: run(nodes[0], "ADMIN SHOW DDL")[0][2])
        one, two = nodes
        old = ", ".join(f"({n}, NOW() - INTERVAL 2 DAY, {n})" for n in range(OLD))
        fresh = ", ".join(f"({OLD + n}, NOW(), {OLD + n})" for n in range(FRESH))
        run(
            two,
            "SET GLOBAL tidb_ttl_delete_batch_size = 5",
            "SET GLOBAL tidb_ttl_delete_rate_limit = 10",
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, c TIMESTAMP, u INT, UNIQUE (u), KEY (c))",
            f"INSERT INTO d.t VALUES {old}, {fresh}",
            "ALTER TABLE d.t TTL = c + INTERVAL 1 DAY",
        )
        until(lambda: remaining(two) < OLD + FRESH - 20)
        status = "SELECT current_job_id, current_job_owner_id FROM mysql.tidb_ttl_table_status"
        ((job, owner),) = run(two, status)
        run(two, f"UPDATE d.t SET c = NOW() WHERE id BETWEEN {RESCUED[0]} AND {RESCUED[-1]}")
        victim, survivor = (one, two) if runs(one, owner) else (two, one)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.back_pid(), signal.SIGKILL)
        if whole_node:
            victim.kill()
        until(lambda: run(survivor, status)[0][1] not in (owner, None), 30)
        assert remaining(survivor) > FRESH + len(RESCUED)  # it was not at its end yet
        assert run(survivor, status)[0][0] == job
        run(survivor, "SET GLOBAL tidb_ttl_delete_rate_limit = 0")
        history = "SELECT deleted_rows, summary_text, status FROM mysql.tidb_ttl_job_history"
        until(lambda: [row[2] for row in run(survivor, history)] == ["finished"], 30)
        ((deleted, summary, _),) = run(survivor, history)
        ids = [row[0] for row in run(survivor, "SELECT id FROM d.t ORDER BY id")]
        assert ids == [*RESCUED, *range(OLD, OLD + FRESH)]
        assert deleted == OLD - len(RESCUED)
        assert json.loads(summary)["success_rows"] == deleted
        run(survivor, "ADMIN CHECK TABLE d.t")
    finally:
        end_all(nodes)


def runs(node: NodeProcess, member: str) -> bool:
    """Whether that back belongs to this node."""
    text = f'"member": "{member}"'
    return any(
        text in line and "the back runs" in line for line in node.log.read_text().splitlines()
    )
