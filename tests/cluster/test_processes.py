"""Real processes on one store: ten start together; a killed one is replaced at once."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exuvia.base.clock import SystemClock
from exuvia.catalog import meta
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.kv.store import open_store
from support.cluster_nodes import live_ids

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "support" / "cluster_nodes.py"


@pytest.fixture
def url(tmp_path):
    """The URL of an LMDB store that does not exist yet."""
    return f"lmdb://{tmp_path}/store"


@pytest.fixture
def start(url):
    """Starts a process; all end with the test."""
    started = []

    def run(name):
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), url, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def go(process):
    process.stdin.write("\n")
    process.stdin.flush()


def line(process):
    return process.stdout.readline().strip()


def test_ten_processes_fill_a_store_once_and_one_of_them_owns(url, start):
    processes = [start(f"node{n}") for n in range(10)]
    for process in processes:
        go(process)
    assert sorted(line(process) for process in processes) == ["filled"] + ["found"] * 9
    assert sorted(line(process) for process in processes) == ["member"] * 9 + ["owner"]
    store = open_store(url)
    txn = store.begin()
    assert meta.version(txn) == 1
    txn.rollback()
    assert len(live_ids(store)) == 10
    store.close()


def test_an_owner_process_that_is_killed_is_replaced_at_once(url, start):
    owner = start("owner")
    go(owner)
    assert (line(owner), line(owner)) == ("filled", "owner")
    store, clock = open_store(url), SystemClock()
    campaign = Campaign(store, Member.join(store, clock, "back", "next", 45.0, lambda: "next"))
    campaign.step(clock.monotonic())
    assert not campaign.is_owner
    owner.kill()
    owner.wait()
    began = time.monotonic()
    campaign.step(clock.monotonic())
    assert campaign.is_owner
    assert time.monotonic() - began < 10  # the lease is 45 s
    assert live_ids(store) == ["next"]
    store.close()
