"""Memory of the auto-analyze queue and the cache below it: by tables, and by what changes.

For each number of tables a store is filled; then, each in a process of its own, the queue is built
and follows so many changed tables and so many schema changes every second for a minute of its own
clock; then five minutes are over and all are scored anew. What is measured is the most that the
process's own memory is above what it had before. The picture goes to docs/queue_memory.svg.
Goal: 500 MB for 1,000,000 tables.
Command: python -m bench.queue_memory --tables 10000 100000 1000000
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.cluster import figure, headline
from bench.priority_queue import FIRST, fill, memory_mb
from exuvia.catalog import meta as catalog
from exuvia.catalog.bootstrap import bootstrap
from exuvia.events import schema_change
from exuvia.kv.store import Store, open_store
from exuvia.stats import meta
from exuvia.stats.cache import StatsCache
from exuvia.stats.meta import Delta
from exuvia.stats.queue import Queue

RATES = (0, 100, 1000)
SECONDS = 60
AFTERWARDS = (400, 401, 402)  # rows, ages, retries
PICTURE = Path(__file__).parent.parent / "docs" / "queue_memory.svg"
HEIGHT, BAR, GAP, LEFT, TOP = 220, 34, 46, 60, 40
COLOURS = ("#9ecae1", "#4292c6", "#084594")


def rows_change(store: Store, chance: random.Random, tables: int, rate: int) -> None:
    """What sessions did in a second, flushed as one."""
    chosen = chance.sample(range(FIRST, FIRST + tables), min(rate, tables))
    txn = store.begin()
    meta.add(txn, {n: Delta(1, chance.randrange(1, 10**6)) for n in chosen})
    txn.commit()


def definitions_change(
    store: Store, queue: Queue, chance: random.Random, tables: int, rate: int
) -> None:
    """Schema changes of a second, as the notifier tells them."""
    txn = store.begin()
    for _ in range(rate):
        info = catalog.get_table(txn, chance.randrange(FIRST, FIRST + tables))
        if info is not None:
            queue.handle(txn, schema_change.add_index(info, info.indexes))
    txn.rollback()


def owner(url: str, tables: int, rate: int, seconds: int) -> None:
    """One process; prints what it holds as JSON."""
    store, chance = open_store(url), random.Random(rate)
    cache = StatsCache(store)
    queue = Queue(store, cache, time.time)
    before = memory_mb()
    cache.load()
    while not queue.step(0.0):
        pass
    most = memory_mb()
    for now in (*range(1, seconds + 1), *AFTERWARDS):
        if rate:
            rows_change(store, chance, tables, rate)
        definitions_change(store, queue, chance, tables, rate)
        cache.step(float(now))
        while not queue.step(float(now)):
            pass
        most = max(most, memory_mb())
    sys.stdout.write(json.dumps({"mb": most - before, "jobs": len(queue)}))
    store.close()


def measured(url: str, tables: int, rate: int, seconds: int) -> float:
    """MB of one process."""
    command = [sys.executable, "-m", "bench.queue_memory", "--owner", url]
    command += ["--tables", str(tables), "--rate", str(rate), "--seconds", str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    goal = "500 MB" if tables == 1_000_000 else ""
    about = f"{tables:,} tables, {rate:,} of each a second"
    figure(about, f"{found['mb']:.0f} MB, {found['jobs']:,} jobs", goal)
    return float(found["mb"])


def drawn(found: dict[tuple[int, int], float]) -> str:
    """The figures as bars: a group for each number of tables, a bar for each rate."""
    groups = sorted({tables for tables, _ in found})
    scale = HEIGHT / max(*found.values(), 1.0)
    width = LEFT + len(groups) * (len(RATES) * BAR + GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT + 2 * TOP}"'
        ' font-family="sans-serif" font-size="11">',
        f'<text x="{LEFT}" y="16">MB of queue and cache, by tables; bars: 0, 100, 1,000 changed'
        " rows and definitions a second</text>",
    ]
    for at, tables in enumerate(groups):
        left = LEFT + at * (len(RATES) * BAR + GAP)
        middle = left + len(RATES) * BAR / 2
        lines.append(
            f'<text x="{middle}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{tables:,}</text>'
        )
        for n, rate in enumerate(RATES):
            mb = found[tables, rate]
            high = mb * scale
            x, y = left + n * BAR, TOP + HEIGHT - high
            lines.append(
                f'<rect x="{x}" y="{y:.1f}" width="{BAR - 4}" height="{high:.1f}"'
                f' fill="{COLOURS[n]}"/><text x="{x + BAR / 2 - 2}" y="{y - 3:.1f}"'
                f' text-anchor="middle">{mb:.0f}</text>'
            )
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """Every combination, and the picture."""
    options = argparse.ArgumentParser()
    options.add_argument("--tables", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options.add_argument("--seconds", type=int, default=SECONDS)
    options.add_argument("--rate", type=int, default=0)
    options.add_argument("--owner", default="")
    options.add_argument("--picture", type=Path, default=PICTURE)
    chosen = options.parse_args()
    if chosen.owner:
        owner(chosen.owner, chosen.tables[0], chosen.rate, chosen.seconds)
        return
    headline("memory of the auto-analyze queue")
    found: dict[tuple[int, int], float] = {}
    for tables in chosen.tables:
        with tempfile.TemporaryDirectory(prefix="exuvia-bench-") as folder:
            url = f"lmdb://{folder}/store"
            store = open_store(url)
            bootstrap(store)
            fill(store, tables)
            store.close()
            for rate in RATES:
                found[tables, rate] = measured(url, tables, rate, chosen.seconds)
    chosen.picture.write_text(drawn(found))


if __name__ == "__main__":
    main()
