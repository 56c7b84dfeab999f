"""The embedded store alone: commits, bulk, scans, reads, wake-ups across two processes.

Goals: a commit near LMDB's own 0.2 ms; 1 M sorted entries in 0.5 s; a wake-up below 1 ms.
What a commit waits for the disk is measured beside it, turn by turn: the same pages written and
waited for by hand, and by LMDB with nothing of ours around it.
Command: python -m bench.store
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import lmdb

from bench.cluster import figure, headline
from exuvia.kv import keys as k
from exuvia.kv.lmdb.environment import ENGINE
from exuvia.kv.packet import Span
from exuvia.kv.store import Store, open_store

ENTRIES = 1_000_000
BATCH = 10_000
WAKES = 200
PAGE, PAGES = 4096, 5  # pages that a small commit writes: a leaf, its branches, the free list

WAITER = """
import sys, time
from exuvia.kv.store import open_store
store = open_store(sys.argv[1])
seen = store.counter("job")
for _ in range(int(sys.argv[2]) + 1):
    print(time.monotonic_ns(), flush=True)
    seen = store.wait("job", seen, 30)
"""


def commits(store: Store, threads: int, each: int) -> tuple[float, float]:
    """(commits per second, median ms) of small transactions."""
    taken: list[float] = []

    def work(number: int) -> None:
        for count in range(each):
            txn = store.begin()
            txn.put(b"tc" + k.u64(number) + k.u64(count), b"x" * 100)
            started = time.perf_counter()
            txn.commit()
            taken.append(time.perf_counter() - started)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    rate = threads * each / (time.perf_counter() - started)
    return rate, sorted(taken)[len(taken) // 2] * 1e3


def commit_and_its_parts(store: Store, folder: str, each: int) -> dict[str, float]:
    """Median ms of one thread's commits, of bare LMDB's, and of the disk's two waits in each."""
    bare = lmdb.open(f"{folder}/bare", map_size=1 << 30, lib_version=ENGINE)
    disk = os.open(f"{folder}/disk", os.O_RDWR | os.O_CREAT)
    meta = os.open(f"{folder}/disk", os.O_RDWR | os.O_DSYNC)
    os.pwrite(disk, bytes(64 * PAGE), 0)
    os.fsync(disk)

    def ours(count: int) -> None:
        txn = store.begin()
        txn.put(b"tb" + k.u64(count), b"x" * 100)
        txn.commit()

    def alone(count: int) -> None:
        with bare.begin(write=True) as txn:
            txn.put(b"tb" + k.u64(count), b"x" * 108)
            txn.put(b"\0sequence", k.u64(count))

    def by_hand(count: int) -> None:
        os.pwrite(disk, k.u64(count) * (PAGES * PAGE // 8), (1 + count % 8) * PAGES * PAGE)
        os.fdatasync(disk)
        os.pwrite(meta, k.u64(count), 0)  # LMDB's second wait: the page that names the new root

    taken: dict[str, list[float]] = {"commit": [], "bare LMDB": [], "disk": []}
    for count in range(each):
        for name, work in zip(taken, (ours, alone, by_hand), strict=True):
            started = time.perf_counter()
            work(count)
            taken[name].append(time.perf_counter() - started)
    bare.close()
    os.close(disk)
    os.close(meta)
    return {name: sorted(times)[each // 2] * 1e3 for name, times in taken.items()}


def show_parts(parts: dict[str, float]) -> None:
    """Print them, and whose time a commit is."""
    ours, bare, disk = parts.values()
    figure("in turn: commit; bare LMDB; disk alone, ms", f"{ours:.3f}; {bare:.3f}; {disk:.3f}")
    figure("   of a commit: disk; LMDB; ours", f"{disk:.3f}; {bare - disk:.3f}; {ours - bare:.3f}")


@contextmanager
def timed(what: str, count: int, goal: str = "") -> Iterator[None]:
    """Print how long the block took for `count` things."""
    started = time.perf_counter()
    yield
    seconds = time.perf_counter() - started
    figure(f"{what}: s; a second", f"{seconds:.2f}; {count / seconds:,.0f}", goal)


def bulk_and_scan(store: Store) -> None:
    """A fill's writes, and the reads of a verification."""
    prefix = k.index_prefix(1, 1)
    entries = [prefix + k.i64(n) + k.i64(n)[:5] for n in range(ENTRIES)]
    span = k.span_of(prefix)
    with timed(f"{ENTRIES:,} sorted entries, {BATCH:,} a commit", ENTRIES, "goal <= 0.5 s"):
        for start in range(0, ENTRIES, BATCH):
            store.bulk(entries[start : start + BATCH], b"\0")
    view = store.snapshot()
    with timed("scan in chunks of keys and values", ENTRIES):
        assert sum(len(keys) for keys, _ in view.chunks(span)) == ENTRIES
    view.close()
    txn = store.begin()
    with timed("scan in a transaction", ENTRIES):
        assert sum(1 for _ in txn.scan(span)) == ENTRIES
    with timed("get in a transaction", ENTRIES // 10):
        for entry in entries[::10]:
            txn.get(entry)
    with timed("get_many by 100", ENTRIES // 10):
        for start in range(0, ENTRIES // 10, 100):
            txn.get_many(entries[start : start + 100])
    txn.rollback()
    with timed("begin, get, rollback", 20_000):
        for entry in entries[:20_000]:
            short = store.begin()
            short.get(entry)
            short.rollback()
    with timed("begin, scan 100, rollback", 2_000):
        for start in range(0, 200_000, 100):
            short = store.begin()
            assert sum(1 for _ in short.scan(Span(entries[start], entries[start + 100]))) == 100
            short.rollback()
    with timed(f"count (said {store.count(span):,})", 1):
        store.count(span)
    with timed("split in 50", 1):
        store.split(span, 50)


def wakes(store: Store, url: str) -> None:
    """From the acknowledged commit here to the return of `wait` in another process."""
    child = subprocess.Popen(
        [sys.executable, "-c", WAITER, url, str(WAKES)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    delays = []
    for _ in range(WAKES):
        time.sleep(0.002)
        txn = store.begin()
        txn.notify("job")
        txn.commit()
        committed = time.monotonic_ns()
        delays.append((int(child.stdout.readline()) - committed) / 1e6)
    child.kill()
    child.communicate()
    delays.sort()
    text = f"{delays[WAKES // 2]:.3f}; {delays[WAKES * 95 // 100]:.3f}"
    figure("wake-up of another process: ms p50; p95", text, "goal < 1 ms")


def main() -> None:
    """Print the figures."""
    headline("the LMDB store alone, default sync")
    with tempfile.TemporaryDirectory() as folder:
        url = f"lmdb://{folder}/store"
        store = open_store(url)
        for threads in (1, 8):
            rate, median_ms = commits(store, threads, 2_000)
            goal = "goal 0.2 ms" if threads == 1 else ""
            what = f"commits of {threads} thread(s): a second; median ms"
            figure(what, f"{rate:,.0f}; {median_ms:.3f}", goal)
        show_parts(commit_and_its_parts(store, folder, 1_000))
        bulk_and_scan(store)
        wakes(store, url)
        store.close()


if __name__ == "__main__":
    main()
