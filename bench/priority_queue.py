"""The auto-analyze queue over very many tables: rebuild, incremental passes, heap updates, memory;
and how a node starts on such a store.

Goals for 1,000,000 tables on one core: rebuild 20 s and 500 MB; a pass over 1,000 changed tables
50 ms; 100,000 heap updates/s; a node ready within 10 s, and below 1 GB in each process, also
while its back builds the queue and WATCHED_S after that.
Memory is a process's own. Pages of the store's file that it has read are the system's, which takes
them back when it likes; they are told apart.
Command: python -m bench.priority_queue --tables 1000000
"""

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench.cluster import figure, headline
from exuvia.catalog import meta as catalog
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.model import evolve, name, to_json
from exuvia.catalog.system_tables import TEST_ID, table
from exuvia.catalog.table import Table
from exuvia.cli.demo import story
from exuvia.kv import keys
from exuvia.kv.packet import LIVE
from exuvia.kv.store import Store, open_store
from exuvia.stats import meta
from exuvia.stats.cache import StatsCache
from exuvia.stats.meta import Delta
from exuvia.stats.priority import AnalysisJob, rescored
from exuvia.stats.queue import Heap, Queue

FIRST = 1000
BATCH = 10_000
CHANGED = 1000
WATCH_S = 0.05
WATCHED_S = 10.0
PATIENCE_S = 120.0
T = TypeVar("T")


def memory_mb(pid: int | str = "self", kind: str = "RssAnon") -> float:
    """Memory of a process that is its own; RssFile: mapped files, of which it has none but the
    store and its libraries."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) / 1000
    return 0.0


class Watch:
    """The most memory that a node's processes have, looked at every WATCH_S."""

    def __init__(self, front: int) -> None:
        self._front = front
        self.most: dict[str, float] = {}
        self.mapped = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(WATCH_S):
            for pid in (self._front, *children_of(self._front)):
                with contextlib.suppress(OSError):  # it ended meanwhile
                    name = "front" if pid == self._front else _name(pid)
                    self.most[name] = max(self.most.get(name, 0.0), memory_mb(pid))
                    self.mapped = max(self.mapped, memory_mb(pid, "RssFile"))

    def end(self) -> None:
        """Look no longer."""
        self._over.set()
        self._thread.join()


def children_of(pid: int) -> list[int]:
    """All processes below one."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *children_of(child)]
    return found


def _name(pid: int) -> str:
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return "back" if b"exuvia.node.back" in command else Path(command[0].decode()).name


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """(seconds, what it gave)."""
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def fill(store: Store, tables: int) -> None:
    """Definitions, names and row counts of many tables, by the bulk path."""
    chance = random.Random(7)
    columns = ("a bigint not null", "b varchar(64)", "c bigint")
    made = table(FIRST, "t", *columns, primary="a", plain={"ib": "b"}, database_id=TEST_ID)
    txn = store.begin()
    counts, version = meta.table_of(txn), meta.draw_version(txn)
    catalog.next_ids(txn, FIRST + tables)
    txn.commit()
    for first in range(FIRST, FIRST + tables, BATCH):
        ids = range(first, min(first + BATCH, FIRST + tables))
        infos = [to_json(evolve(made, id=n, name=name(f"t{n}"))) for n in ids]
        store.bulk([keys.meta("table", n) for n in ids], infos)
        store.bulk([keys.revision(n) for n in ids], keys.number(1))
        named = sorted((keys.meta("name", TEST_ID, f"t{n}"), keys.number(n)) for n in ids)
        store.bulk([key for key, _ in named], [held for _, held in named])
        fill_counts(store, counts, version, ids, chance)


def fill_counts(
    store: Store, counts: Table, version: int, ids: range, chance: random.Random
) -> None:
    """Rows of mysql.stats_meta and their index entries."""
    rows = []
    for n in ids:
        many, touched = chance.randrange(2_000, 10**7), chance.randrange(1, 10**6)
        analyzed = [max(1, touched // 2), 1_700_000_000, "2"]
        rows.append((keys.i64(n), [version, n, touched, many, 0, None, *analyzed]))
    store.bulk(
        [counts.row_prefix + handle for handle, _ in rows],
        [counts.encoder.encode(row) for _, row in rows],
    )
    for form in counts.forms:
        found = ((*key, h) for h, row in rows for key in form.entries(row, h))
        entries = sorted(found)
        payloads = [LIVE + handle if unique else LIVE for _, unique, handle in entries]
        store.bulk([key for key, _, _ in entries], payloads)


def touch(store: Store, tables: int) -> None:
    """What a flush of one node writes: a thousand tables that changed."""
    chosen = random.Random(1).sample(range(FIRST, FIRST + tables), min(CHANGED, tables))
    txn = store.begin()
    meta.add(txn, {n: Delta(10, 10_000_000) for n in chosen})
    txn.commit()


def who_changed(store: Store, cache: StatsCache, last: int) -> None:
    """Seed 004's open question: by the version index, or by a walk through the cache."""

    def walk() -> list[int]:
        recent = [n for n, known in cache._recent.items() if known.version > last]
        columns = cache._columns.by_name
        found: list[int] = columns["table_id"][columns["version"] > last].tolist()
        return recent + found

    txn = store.begin()
    upto = cache.high_water
    took, indexed = timed(lambda: meta.changed_ids(txn, last, upto, 10 * CHANGED))
    figure(f"which {len(indexed):,} changed, by the index", f"{1000 * took:.1f} ms")
    took, walked = timed(walk)
    figure(f"which {len(walked):,} changed, by a walk through the cache", f"{1000 * took:.1f} ms")
    txn.rollback()


def owner(url: str, tables: int) -> None:
    """The stats owner's process."""
    store = open_store(url)
    cache = StatsCache(store)
    queue = Queue(store, cache, time.time)
    before = memory_mb()
    took, _ = timed(cache.load)
    figure("stats cache, read whole", f"{took:.2f} s, {memory_mb() - before:.0f} MB")
    took, _ = timed(lambda: queue.step(0.0))
    rate = f"{took:.1f} s, {tables / took:,.0f} tables/s"
    figure(f"rebuild, {len(queue):,} jobs", rate, "20 s for 1,000,000")
    figure("memory of cache and queue", f"{memory_mb() - before:.0f} MB", "500 MB for 1,000,000")
    last = cache.high_water
    touch(store, tables)
    took, _ = timed(lambda: cache.step(0.0))
    figure(f"cache, {CHANGED} tables changed", f"{1000 * took:.0f} ms")
    took, _ = timed(lambda: queue.step(4.0))
    figure(f"queue, {CHANGED} tables changed", f"{1000 * took:.0f} ms", "50 ms for 1,000,000")
    who_changed(store, cache, last)
    jobs = queue.snapshot().waiting[:200_000]
    queue.step(400.0)  # five minutes are over: rows first, then ages
    took, _ = timed(lambda: queue.step(401.0))
    figure(
        "all scored anew", f"{took:.1f} s, {memory_mb() - before:.0f} MB", "500 MB for 1,000,000"
    )
    heap: Heap[int, AnalysisJob] = Heap(lambda job: job.key)
    heap.bulk_add(jobs)
    anew = [rescored(job, time.time()) for job in jobs]
    took, _ = timed(lambda: [heap.update(job) for job in anew])
    figure("heap updates", f"{len(anew) / took:,.0f}/s", "100,000/s")
    store.close()


def start(url: str, folder: Path) -> None:
    """A node on that store: until it serves, until its back has the queue, and a while longer."""
    took, node = timed(lambda: story.start(url, folder / "log"))
    watch = Watch(node.process.pid)
    try:
        figure("a node is ready after", f"{took:.1f} s", "10 s")
        built, total = timed(lambda: jobs_of(node))
        figure(f"its back has the queue of {total:,} jobs after", f"{took + built:.1f} s")
        time.sleep(WATCHED_S)
    finally:
        watch.end()
        node.stop()
    for process, most in sorted(watch.most.items()):
        figure(f"most memory of its {process}", f"{most:.0f} MB", "1,000 MB")
    figure("most of the store and libraries mapped in one of them", f"{watch.mapped:.0f} MB")


def jobs_of(node: story.DemoNode) -> int:
    """How many analyses wait, once the node says so. Raises TimeoutError."""
    url = f"http://127.0.0.1:{node.status_port}/stats/priority-queue"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(url) as page:
            return int(json.load(page)["exuvia_total"])
        time.sleep(WATCH_S)
    raise TimeoutError("no queue")


def main() -> None:
    """All of it on a fresh store."""
    options = argparse.ArgumentParser()
    options.add_argument("--tables", type=int, default=1_000_000)
    options.add_argument("--owner", default="")
    options.add_argument("--node", default="", help="start a node on a store that is there, alone")
    chosen = options.parse_args()
    if chosen.owner:
        owner(chosen.owner, chosen.tables)
        return
    if chosen.node:
        start(chosen.node, Path(tempfile.mkdtemp(prefix="exuvia-bench-")))
        return
    headline(f"auto-analyze queue, {chosen.tables:,} tables")
    with tempfile.TemporaryDirectory(prefix="exuvia-bench-") as folder:
        url = f"lmdb://{folder}/store"
        store = open_store(url)
        bootstrap(store)
        fill(store, chosen.tables)
        store.close()
        command = [sys.executable, "-m", "bench.priority_queue", "--owner", url]
        subprocess.run([*command, "--tables", str(chosen.tables)], check=True)
        start(url, Path(folder))


if __name__ == "__main__":
    main()
