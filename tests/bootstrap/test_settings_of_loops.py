"""Settings of loops that run in the background, as these read them."""

from types import SimpleNamespace
from typing import Any

import pytest

from exuvia.catalog.sysvar import variables
from exuvia.ddl.apply import read_snapshot
from exuvia.ddl.job import ActionCode, Job, timestamp
from exuvia.ddl.state_machine import VerifiedFor
from exuvia.kv.memory import MemoryStore
from exuvia.kv.transaction import Transaction
from exuvia.node.ttl import TtlSettings
from exuvia.server.processes import Reaper


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("tidb_ttl_scan_batch_size", "scan_rows"),
        ("tidb_ttl_scan_worker_count", "at_once"),
        ("tidb_ttl_running_tasks", "at_once"),
    ],
)
def test_ttl(name: str, field: str) -> None:
    txn = MemoryStore().begin()
    assert getattr(TtlSettings.read(txn, 0.0), field) != 2
    variables.set_global(txn, name, 2)
    assert getattr(TtlSettings.read(txn, 0.0), field) == 2


def test_verify_max_age() -> None:
    def allowed(txn: Transaction) -> int:
        job = Job(id=1, type=ActionCode.ADD_INDEX, exuvia_verified=5)
        return read_snapshot(txn, job, 9).fact(VerifiedFor())

    txn = MemoryStore().begin()
    assert allowed(txn) == timestamp(86_400 * 10**9)
    variables.set_global(txn, "exuvia_ddl_verify_max_age_s", 60)
    assert allowed(txn) == timestamp(60 * 10**9)


def test_idle_transactions() -> None:
    reaped: list[tuple[float, float]] = []
    session = SimpleNamespace(
        reap=lambda now, idle_s: reaped.append((now, idle_s)),
        variable=lambda name: "0",
        current=None,
    )
    client = SimpleNamespace(
        statements=SimpleNamespace(session=session),
        task=None,
        since=0.0,
        unfinished_s=lambda now: 0.0,
    )
    connections: Any = SimpleNamespace(all=lambda: [client], allowed=0)
    slow: Any = SimpleNamespace(read_threshold=lambda txn: None)
    store = MemoryStore()
    store.transact(lambda txn: variables.set_global(txn, "exuvia_max_idle_snapshot_s", 7))
    Reaper(store, connections, slow).step(100.0)
    assert reaped == [(100.0, 7.0)]
