"""Five million rows through Spark's writer, with a running node; drivers and nodes are killed.

As a program it is a driver: `python test_write_large.py URL TABLE MODE ROWS LENGTH` writes ids and
texts of about LENGTH under the table's name.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from exuvia.kv import keys
from exuvia.kv.store import Store, open_store
from support.node_processes import NodeProcess, end_all, until
from support.spark import below

MANY = 5_000_000
MANY_S = 1800
"""Time limit on a machine with other work, longer than that of a test."""
MOST_MIB = 512
"""Memory limit of each of a driver's Python processes, in addition to its JVM of 1 GiB."""
SOME, LENGTH = 100_000, 200
ENOUGH_S = 300.0


def driver(url: str, table: str, mode: str, count: str, length: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = spark.config("spark.driver.memory", "1g").getOrCreate()
    text = f"rpad(concat('row ', id), {length}, '.')"
    frame = session.range(int(count)).selectExpr("id", "CAST(id % 1000003 AS INT) a", f"{text} t")
    writer = frame.write.format("exuvia").mode(mode).options(url=url, dbtable=f"d.{table}")
    writer.options(writeId=table, atomic="false" if mode == "append" else "true").save()


class Driver:
    """A running driver, and the peak memory of each of its processes. Unit: MiB."""

    def __init__(self, url: str, log: Path, *words: object) -> None:
        self.log = log
        self.peaks: dict[str, dict[int, int]] = {"java": {}, "python": {}}
        with log.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, __file__, url, *map(str, words)],
                env=os.environ
                | {"PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable},
                stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Private memory only: pages of the store's file belong to the system's cache."""
        while True:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
                return
            for pid in (self.process.pid, *below(self.process.pid)):
                try:
                    text = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                found = re.search(r"RssAnon:\s+(\d+) kB", text)
                kind = self.peaks["java" if "Name:\tjava" in text else "python"]
                if found:
                    kind[pid] = max(kind.get(pid, 0), int(found[1]) >> 10)

    def ends_well(self, within_s: float) -> None:
        assert self.process.wait(within_s) == 0, self.log.read_text()[-3000:]

    def kill_when(self, moment: Callable[[], object]) -> None:
        """Kills it and all processes that it has started (kill -9)."""
        until(
            lambda: moment() or self.process.poll() is not None,
            ENOUGH_S,
            lambda: self.log.read_text()[-3000:],
        )
        assert self.process.poll() is None, "it ended before it was to be killed"
        self.kill()

    def kill(self) -> None:
        for pid in (*below(self.process.pid), self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)


class Beside(NamedTuple):
    """The store, and the node that serves it."""

    url: str
    folder: Path
    store: Store
    nodes: list[NodeProcess]

    def ask(self, *statements: str) -> list[tuple[Any, ...]]:
        """Returns the rows of the last statement."""
        with self.nodes[-1].connect("d", autocommit=True) as client, client.cursor() as cursor:
            for each in statements:
                cursor.execute(each)
            return list(cursor.fetchall())

    def start(self) -> None:
        log = self.folder / f"node{len(self.nodes)}.log"
        self.nodes.append(NodeProcess(self.url, log).wait_ready())

    def count(self, kind: str) -> int:
        """Returns the number of keys of that kind that writers have in the store now."""
        with self.store.read() as txn:
            return sum(1 for _ in txn.scan(keys.span_of(keys.meta(kind))))

    def chunks(self) -> Counter[int]:
        """Returns the number of unmoved chunks of each load."""
        with self.store.read() as txn:
            found = txn.scan(keys.span_of(keys.meta("staged")))
            return Counter(keys.read_number(key[-24:-16]) for key, _ in found)

    @contextmanager
    def writing(self, table: str, mode: str, count: int, length: int) -> Iterator[Driver]:
        log = self.folder / f"driver_{table}.log"
        started = Driver(self.url, log, table, mode, count, length)
        try:
            yield started
        finally:
            if started.process.poll() is None:
                started.kill()


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    folder = tmp_path_factory.mktemp("large")
    url = f"lmdb://{folder}/store"
    with closing(open_store(url)) as store:
        made = Beside(url, folder, store, [])
        try:
            made.start()
            with made.nodes[0].connect() as client, client.cursor() as cursor:
                cursor.execute("CREATE DATABASE d")
            for each in ("many", "appended", "replaced"):
                columns = "id BIGINT PRIMARY KEY, a INT, t VARCHAR(255), KEY (a)"
                made.ask(f"CREATE TABLE {each} ({columns})")
            yield made
        finally:
            end_all([each for each in made.nodes if each.process.poll() is None])


@pytest.fixture(scope="module")
def many(beside: Beside) -> Driver:
    """MANY rows are in d.many. A fixture, since a test's own time is bounded."""
    began = time.monotonic()
    with beside.writing("many", "append", MANY, 20) as driver:
        driver.ends_well(MANY_S)
    took = time.monotonic() - began
    peaks = {kind: sorted(found.values())[-3:] for kind, found in driver.peaks.items()}
    print(f"{MANY:,} rows in {took:.0f} s, {MANY / took:,.0f}/s; MiB of its processes: {peaks}")
    return driver


ALL_OF = "SELECT COUNT(*), COUNT(DISTINCT id), MIN(id), MAX(id) FROM "


@pytest.mark.long
def test_five_million_rows(beside: Beside, many: Driver) -> None:
    [(count, sum_of_a)] = beside.ask("SELECT COUNT(*), SUM(a) FROM many")
    assert (count, int(sum_of_a)) == (MANY, sum(n % 1000003 for n in range(MANY)))
    assert max(many.peaks["python"].values()) < MOST_MIB
    assert not beside.count("load") and not beside.count("staged")
    beside.ask("ADMIN CHECK TABLE many", "DROP TABLE many")


def moves(beside: Beside) -> Callable[[], bool]:
    """Whether some chunks of a load are moved and others are not."""
    most: Counter[int] = Counter()

    def look() -> bool:
        nonlocal most
        now = beside.chunks()
        most |= now
        return any(now[load] < count for load, count in most.items() if now[load])

    return look


@pytest.mark.long
def test_an_append_whose_drivers_are_killed(beside: Beside) -> None:
    """While staging, no row is visible. While moving, whole parts are visible, each row once, and a
    driver with the write's name adds the rest."""
    beside.ask("SET GLOBAL exuvia_txn_total_size_limit = 8388608")
    with beside.writing("appended", "append", SOME, LENGTH) as first:
        first.kill_when(lambda: beside.count("staged") > 1)
    assert beside.ask("SELECT COUNT(*) FROM appended") == [(0,)]
    beside.ask("ADMIN CHECK TABLE appended")
    with beside.writing("appended", "append", SOME, LENGTH) as second:
        second.kill_when(lambda: beside.ask("SELECT COUNT(*) FROM appended")[0][0] > SOME // 5)
    [(seen, distinct, *_)] = beside.ask(f"{ALL_OF} appended")
    assert 0 < seen < SOME and seen == distinct
    beside.ask("ADMIN CHECK TABLE appended")
    with beside.writing("appended", "append", SOME, LENGTH) as third:
        third.ends_well(ENOUGH_S)
    assert beside.ask(f"{ALL_OF} appended") == [(SOME, SOME, 0, SOME - 1)]
    beside.ask("ADMIN CHECK TABLE appended")
    assert beside.count("load") == 1, "the first one's, which had no name yet: it goes after a day"


@pytest.mark.long
def test_an_overwrite_whose_driver_and_node_are_killed(beside: Beside) -> None:
    """The old rows are visible until all the new ones are. A driver with the write's name continues
    it, and does not need a node that is killed meanwhile."""
    beside.ask("SET GLOBAL exuvia_txn_total_size_limit = 8388608")
    beside.ask("INSERT INTO replaced VALUES (-1, 1, 'old'), (-2, 2, 'old')")
    old, before = [(2, 2, -2, -1)], beside.chunks()
    with beside.writing("replaced", "overwrite", SOME, LENGTH) as first:
        first.kill_when(moves(beside))
    left = beside.chunks()
    [load] = left.keys() - before.keys()
    assert beside.ask(f"{ALL_OF} replaced") == old
    beside.ask("ADMIN CHECK TABLE replaced")
    with beside.writing("replaced", "overwrite", SOME, LENGTH) as second:
        until(lambda: beside.chunks()[load] < left[load], ENOUGH_S)
        seen = beside.ask(f"{ALL_OF} replaced")
        assert seen == old or not beside.chunks()[load], "it is seen before all of it is there"
        beside.nodes[-1].kill()
        second.ends_well(ENOUGH_S)
    beside.start()
    assert beside.ask(f"{ALL_OF} replaced") == [(SOME, SOME, 0, SOME - 1)]
    beside.ask("ADMIN CHECK TABLE replaced")
    assert not beside.count("unnamed")


if __name__ == "__main__":
    driver(*sys.argv[1:])
