"""The auto-analyze queue over very many tables: rebuild, incremental passes, heap updates, memory;
and how a node starts on such a store.

Goals for 1,000,000 tables on one core: rebuild 20 s and 500 MB; a pass over 1,000 changed tables
50 ms; 100,000 heap updates/s; a node ready within 10 s and below 1 GB.
Command: python -m bench.priority_queue --tables 1000000
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench.cluster import figure, headline
from exuvia.catalog import meta as catalog
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.model import evolve, name, to_json
from exuvia.catalog.static_ddl import table
from exuvia.catalog.system_tables import TEST_ID
from exuvia.catalog.table import Table
from exuvia.cli.demo import nodes
from exuvia.kv import keys
from exuvia.kv.entry import LIVE
from exuvia.kv.open import open_store
from exuvia.kv.store import Store
from exuvia.stats import meta
from exuvia.stats.cache import StatsCache
from exuvia.stats.heap import Heap
from exuvia.stats.jobs import Job, rescored
from exuvia.stats.meta import Delta
from exuvia.stats.queue import Queue

FIRST = 1000
BATCH = 10_000
CHANGED = 1000
T = TypeVar("T")


def memory_mb(pid: int | str = "self") -> float:
    """Memory of a process that is its own: pages of the store's file are the system's."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1000
    return 0.0


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
        entries = sorted((*form.key(row, handle), handle) for handle, row in rows)
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
    jobs = queue.shown().waiting[:200_000]
    heap: Heap[int, Job] = Heap(lambda job: job.key, lambda job: job.weight)
    heap.bulk_add(jobs)
    anew = [rescored(job, time.time()) for job in jobs]
    took, _ = timed(lambda: [heap.update(job) for job in anew])
    figure("heap updates", f"{len(anew) / took:,.0f}/s", "100,000/s")
    store.close()


def start(url: str, folder: Path) -> None:
    """A node on that store: until it serves, and what it has by then."""
    took, node = timed(lambda: nodes.start(url, folder / "log"))
    try:
        figure("a node is ready after", f"{took:.1f} s", "10 s")
        figure("its front's memory", f"{memory_mb(node.process.pid):.0f} MB", "1 GB")
    finally:
        node.stop()


def main() -> None:
    """All of it on a fresh store."""
    options = argparse.ArgumentParser()
    options.add_argument("--tables", type=int, default=1_000_000)
    options.add_argument("--owner", default="")
    chosen = options.parse_args()
    if chosen.owner:
        owner(chosen.owner, chosen.tables)
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
