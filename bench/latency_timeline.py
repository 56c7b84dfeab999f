"""Clients' p99 over time while an index is built: Exuvia, MariaDB and PostgreSQL in one run, in
milliseconds on one axis.

    python -m bench.latency_timeline               measure, about six minutes; then draw
    python -m bench.latency_timeline --render      draw again from latency_timeline.json

Each product in turn loads the same rows, gets an index on k, and serves four sysbench clients in an
open loop (open_loop.lua): each transaction of oltp_read_write has a due time, and its latency
counts from then. They run alone for ALONE_S: the baseline. Then an index on (k, c) is built FILLS
times, each long enough after the last DROP INDEX that its second of DROP is not seen.

A point of a line is the p99 of all transactions, of all builds, that were due within half a second
of that time after the statement was sent. One build alone has too few transactions for a p99 a
second. Both peers get a buffer pool larger than the table (products.py, `tuned`).
"""

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import plot
from bench.products import PRODUCTS, Product
from bench.report import anywhere, end_politely, machine
from bench.workloads import Clients, Sizes, quantile, warmed

HERE = Path(__file__).parent
RESULTS = HERE / "latency_timeline.json"
PICTURE = HERE.parent / "docs" / "latency_timeline.svg"
NAMES = ("exuvia", "mariadb", "postgresql")
WARM_S = 10.0
ALONE_S = 20.0
BEFORE_S, AFTER_S = 2.0, 6.0
REST_S = 3.0
STEP_S, WINDOW_S = 0.25, 1.0
LEAST_SAMPLES = 50

Record = dict[str, Any]


def measured(product: Product, sizes: Sizes, rate: int, alone_s: float = ALONE_S) -> Record:
    """What clients of a running product waited for. Unit: s, ms."""
    warmed(product, sizes.rows)
    product.execute(product.add_index("k_1", "k"))
    statement = product.add_index("filled", "k, c")
    clients = Clients(product, sizes, rate)
    session = product.session()
    builds: list[tuple[float, float]] = []
    try:
        time.sleep(sizes.warm_s)
        alone = time.monotonic(), time.monotonic() + alone_s
        time.sleep(alone_s)
        for _ in range(sizes.fills):
            clients.check()
            began = time.monotonic()
            session.execute(statement)
            builds.append((began, time.monotonic()))
            time.sleep(max(1.0, began + AFTER_S + WINDOW_S - time.monotonic()))
            session.execute(product.drop_index("filled"))
            time.sleep(REST_S)
    finally:
        clients.stop()
        session.close()
    done, errors = clients.read()
    quiet = [ms for due, ms in done if alone[0] <= due < alone[1]]
    busy = [ms for due, ms in done if any(since <= due < until for since, until in builds)]
    return {
        "name": product.name,
        "title": product.title,
        "version": product.version(),
        "settings": list(product.settings),
        "statement": statement,
        "clients": " ".join(clients.command),
        "build_s": [round(until - since, 2) for since, until in builds],
        "p99_alone_ms": round(quantile(quiet, 0.99), 2),
        "p99_ms": round(quantile(busy, 0.99), 2),
        "longest_ms": round(max(busy, default=0.0), 1),
        "transactions": len(busy),
        "retried": errors,
        "points": timeline(done, [since for since, _ in builds]),
    }


def timeline(done: Sequence[tuple[float, float]], starts: Sequence[float]) -> list[list[float]]:
    """[s after the start, p99 in ms], of what was due around that time after any of `starts`."""
    after = sorted(
        (due - start, ms)
        for start in starts
        for due, ms in done
        if -BEFORE_S - WINDOW_S < due - start < AFTER_S + WINDOW_S
    )
    points = []
    for step in range(int((BEFORE_S + AFTER_S) / STEP_S) + 1):
        at = step * STEP_S - BEFORE_S
        near = [ms for due, ms in after if abs(due - at) <= WINDOW_S / 2]
        if len(near) >= LEAST_SAMPLES:
            points.append([at, round(quantile(near, 0.99), 2)])
    return points


def draw(results: Record, path: Path) -> None:
    """Write the picture of a run."""
    products = results["products"]
    lines = [
        plot.Line(
            f"{each['title']}: {each['p99_alone_ms']:.0f} to {each['p99_ms']:.0f} ms",
            [(x, y) for x, y in each["points"]],
        )
        for each in products
    ]
    marks = [(statistics.median(each["build_s"]), n) for n, each in enumerate(products)]
    title = (
        f"Clients' p99 while an index is built on {results['rows']:,} rows, "
        f"{results['rate']} transactions/s"
    )
    below = "s since the statement was sent; the dotted line is the end of the build"
    plot.draw(path, [plot.Panel(title, below, "p99 in ms", lines, marks=marks)])


def caption(results: Record) -> str:
    """The figures of a run, as the table that README.md has below the picture."""
    lines = ["| | baseline | p99 during the build | longest | build |", "|---|---|---|---|---|"]
    for each in results["products"]:
        version = re.search(r"\d+(?:\.\d+)+", each["version"])
        assert version is not None, each["version"]
        lines.append(
            f"| {each['title']} {version[0]} | {each['p99_alone_ms']:.1f} ms | "
            f"**{each['p99_ms']:.1f} ms** | {each['longest_ms']:.0f} ms | "
            f"{statistics.median(each['build_s']):.1f} s |"
        )
    return "\n".join(lines)


def measure(asked: argparse.Namespace, command: str) -> Record:
    """One run over all products. Ends loudly if one is missing: the picture compares them."""
    kinds = [PRODUCTS[name] for name in asked.products.split(",")]
    missing = [kind.title for kind in kinds if not kind.installed()]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)}; choose others by --products")
    sizes = Sizes(rows=asked.rows, fills=asked.fills, warm_s=asked.warm)
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-"))
    folder.chmod(0o755)  # a server that runs as another user reads the rows
    results: Record = {
        **machine(folder),
        "run": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": command,
        "rows": asked.rows,
        "rate": asked.rate,
        "products": [],
    }
    try:
        for kind in kinds:
            product = kind(folder, tuned=True)
            with product.running():
                found = measured(product, sizes, asked.rate, asked.alone)
            found["load_after"] = round(os.getloadavg()[0], 2)
            results["products"].append(found)
            told = {key: value for key, value in found.items() if key not in ("points", "clients")}
            sys.stdout.write(f"{json.dumps(told)}\n")
            sys.stdout.flush()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return results


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the results, draw."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=100, help="transactions a second, all clients")
    parser.add_argument("--fills", type=int, default=5, help="builds of the index")
    parser.add_argument("--warm", type=float, default=WARM_S, help="seconds before the baseline")
    parser.add_argument("--alone", type=float, default=ALONE_S, help="seconds of the baseline")
    parser.add_argument("--products", default=",".join(NAMES))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    parser.add_argument("--render", action="store_true", help="only draw again")
    asked = parser.parse_args(words)
    if not asked.render:
        results = measure(asked, " ".join(["python -m bench.latency_timeline", *words]))
        asked.results.write_text(anywhere(json.dumps(results)) + "\n")
    results = json.loads(asked.results.read_text())
    draw(results, asked.picture)
    sys.stdout.write(f"{asked.picture}\n{caption(results)}\n")


if __name__ == "__main__":
    end_politely()
    main()
