"""One Spark session for all tests of a process, and a store that its Python workers can open.

As a program it is a driver to be killed: `python spark.py URL TABLE` fills table 300 of the store
slowly and prints one line of JSON once tasks write: the pids of the JVM and of all below it.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exuvia.catalog.model import TableInfo
from exuvia.catalog.table import Table
from exuvia.kv.store import Store, open_store
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Progress, Running, Waiting, fill_indexes
from exuvia.pipeline.settings import Variables
from exuvia.pipeline.spark import Spark, shown_conf
from support.node_processes import until
from support.postgres import free_port


def step_until(reorg: Any, wanted: Callable[[Progress], bool]) -> list[Progress]:
    """Step it; what it answered, the last of it wanted."""
    seen: list[Progress] = []

    def is_reached() -> bool:
        seen.append(reorg.step(time.monotonic()))
        return wanted(seen[-1])

    until(is_reached)
    return seen


def has_ended(progress: Progress) -> bool:
    return not isinstance(progress, Running | Waiting)


def ended(reorg: Any) -> Progress:
    """How it ends."""
    return step_until(reorg, has_ended)[-1]


class SparkStore:
    """An LMDB store with the Spark that works on it."""

    def __init__(self, folder: Path, conf: dict[str, str] | None = None) -> None:
        self.url = f"lmdb://{folder / 'store'}"
        self.store: Store = open_store(self.url)
        self.spark = Spark(self.url, master="local[2,4]", conf=conf)


@pytest.fixture(scope="session")
def spark_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkStore]:
    """The store and the warm session, shared by all tests; each test uses tables of its own."""
    made = SparkStore(tmp_path_factory.mktemp("spark"), shown_conf(free_port()))
    with pytest.MonkeyPatch.context() as patch:
        # Who has clients steps back for them. Tests have none, and other tests run beside them:
        # of the processor these leave a tenth, and starting alone takes a minute of that.
        patch.setattr("exuvia.pipeline.spark.step_back_process", lambda pid: None)
        wave = made.spark.warm()
        assert wave.wait(180) and wave.error is None, wave.error
    yield made
    made.spark.stop()
    made.store.close()


# -- a driver to be killed -------------------------------------------------------------------------

# More than four tasks can have written without having finished one of their spans of 2000 rows.
ENOUGH = 9000


def below(pid: int) -> list[int]:
    """Processes that descend from pid, by /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, waiting = [], [pid]
    while waiting:
        waiting += (under := children.get(waiting.pop(), []))
        found += under
    return found


def drive(url: str, info: TableInfo) -> None:
    """Step the reorg for ever."""
    from support.tables import DATABASE

    store = open_store(url)
    table = Table(info, 2, DATABASE, 1)
    dial = Variables(store, time.monotonic, 2000)
    reorg = PhaseRunner(store, info.id, 1, table, fill_indexes((2,)), Spark(url), dial=dial)
    told = False
    while True:
        reached = reorg.step(time.monotonic())
        if not told and isinstance(reached, Running) and reached.rows_done > ENOUGH:
            print(json.dumps({"pids": below(os.getpid()), "rows": reached.rows_done}), flush=True)
            told = True
        time.sleep(0.02)


if __name__ == "__main__":
    import msgspec

    drive(sys.argv[1], msgspec.json.decode(sys.argv[2], type=TableInfo))
