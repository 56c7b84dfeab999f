"""The proof: Exuvia and, where they are installed, MariaDB and PostgreSQL on the same data in the
same run; and the report of it.

    python -m bench.report                                everything at full size
    python -m bench.report --quick                        fewer repeats, shorter; about 25 minutes
    python -m bench.report --only fills --products exuvia,mariadb --rows 1000000 --quick
    python -m bench.report --aged --age-s 60 --products exuvia    a store that has lived
    python -m bench.report --render                       only write the report anew

A run may be cut into parts: each part adds its records to the results file (JSON lines, one record
a line: the machine, a product, a figure, points of a picture), and the report takes the newest
record of each figure and says of which run it is. `--fresh` forgets what was there. What fails is a
row with its error; nothing ends the run but its own end.
"""

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from bench import plot
from bench.products import PRODUCTS, ExuviaTwoFronts, Product
from bench.workloads import FULL, QUICK, WORKLOADS, Notes, Sizes, quantile

HERE = Path(__file__).parent
RESULTS = HERE / "results.jsonl"
SYNCS = 200
GOAL_ROWS = 1_000_000
OWNED = ("exuvia", "exuvia2")
PEERS = ("mariadb", "postgresql")

Record = dict[str, Any]
Write = Callable[[Record], None]


class Goal(NamedTuple):
    """A row of the table of figures. `before`, `tidb` and `mariadb` were measured earlier on this
    kind of machine, one after another, and are quoted from the issue that set the goals."""

    work: str
    title: str
    unit: str
    goal: float | None
    less_is_better: bool
    before: str = ""
    tidb: str = ""
    mariadb: str = ""
    rows: int | None = GOAL_ROWS


LESS, MORE = True, False
GOALS = (
    Goal("index_k", "ADD INDEX (k)", "s", 1.0, LESS, "4.0", "10.1", "0.75"),
    Goal("index_c", "ADD INDEX (c), 120 characters", "s", 1.5, LESS, "5.6", "12.6", "1.6"),
    Goal("two_indexes", "two indexes in one ALTER", "s", 2.0, LESS, "11.1", "20.9", "2.0"),
    Goal("index_k_big", "ADD INDEX (k), 5 M rows", "s", 3.8, LESS, "", "", "3.8", 5_000_000),
    Goal("cold", "ADD INDEX (k), 128,000 rows, just started", "s", 1.0, LESS, "8.3", rows=128_000),
    Goal("to_varchar", "MODIFY k VARCHAR(20), every row", "s", 3.0, LESS, "29.5", "53.3", "4.7"),
    Goal("to_int", "MODIFY back to INT", "s", 3.0, LESS, "20.9", "26.7", "4.3"),
    Goal("narrower", "MODIFY to a narrower INT", "s", 0.3, LESS, "2.0", "0.8", "4.7"),
    Goal("analyze", "ANALYZE, all columns", "s", 1.0, LESS, "4.6", "6.6", "15 at 5 M rows"),
    Goal(
        "beside_100", "ADD INDEX (k, c) beside 100 tx/s", "s", 4.0, LESS, "95", "28", "1.7"
    ),
    Goal(
        "beside_100_p99", "its clients' p99, times that alone", "x", 1.3, LESS,
        "1.4 (34 to 47 ms)", "to 332 ms", "6 (3.5 to 21 ms)",
    ),
    Goal("beside_100_stall", "their longest single stall", "ms", None, LESS),
    Goal("beside_40", "ADD INDEX (k, c) beside 40 tx/s", "s", 3.0, LESS, "25", "19"),
    Goal(
        "beside_40_p99", "its clients' p99, times that alone", "x", 1.3, LESS,
        "1.2 (17 to 20 ms)", "2.9 (16 to 47 ms)",
    ),
    Goal("beside_40_stall", "their longest single stall", "ms", None, LESS),
    Goal("point_select", "point select, 4 threads", "/s", 16e3, MORE, "12,700", "18,000", "59,500"),
    Goal("point_select_two_fronts", "the same, two fronts", "/s", 22000, MORE),
    Goal("read_only", "oltp_read_only, queries", "/s", 12000, MORE, "4,400", "10,800", "44,200"),
    Goal("read_only_two_fronts", "the same, two fronts", "/s", None, MORE),
    Goal("read_write", "oltp_read_write, queries", "/s", 11000, MORE, "4,200", "9,700", "26,900"),
    Goal("read_write_two_fronts", "the same, two fronts", "/s", None, MORE),
    Goal("insert", "oltp_insert", "/s", 5000, MORE, "1,900", "4,300", "10,200"),
    Goal("insert_two_fronts", "the same, two fronts", "/s", None, MORE),
    Goal(
        "prepare", "sysbench prepare, INSERTs of many rows", "rows/s", 120_000, MORE,
        "43,000", "89,000", "156,000",
    ),
    Goal("group_by", "GROUP BY over all", "s", 0.3, LESS, "1.0", "0.66", "0.34"),
    Goal("order_by", "ORDER BY c LIMIT 3", "s", 0.3, LESS, "1.0", "0.42", "0.51"),
    Goal("count", "COUNT(*)", "s", 0.15, LESS, "0.33", "0.18", "0.08"),
    Goal("create", "CREATE TABLE, 16 clients", "/s", 1000, MORE, "380", "88", "970", None),
    Goal("add_column", "ADD COLUMN, empty table", "ms", 5, LESS, "12", "92", "2", None),
    Goal("add_index", "ADD INDEX, empty table", "ms", 6, LESS, "13", "69", "2", None),
)  # fmt: skip


class Aged(NamedTuple):
    """A row of the table of a fresh and an aged store. `goal`: aged / fresh, or the aged value if
    there is no unit."""

    work: str
    title: str
    unit: str
    goal: float | None
    less_is_better: bool


AGED = (
    Aged("index_k", "ADD INDEX (k)", "s", 1.25, LESS),
    Aged("to_varchar", "MODIFY k VARCHAR(20), every row", "s", 1.25, LESS),
    Aged("to_int", "MODIFY back to INT", "s", 1.25, LESS),
    Aged("read_write", "oltp_read_write, queries", "/s", 0.95, MORE),
    Aged("file_per_data", "size of the file / live data", "", 1.6, LESS),
    Aged("leaves_in_order", "share of leaf pages in order", "", None, MORE),
    Aged("free_run_pages", "pages in a run of free pages", "", None, MORE),
)


# -- measuring -------------------------------------------------------------------------------------


def machine(folder: Path) -> Record:
    """What this runs on, and how long the disk takes to keep 4 KiB."""
    times = []
    path = folder / "sync"
    with path.open("wb") as out:
        for _ in range(SYNCS):
            out.write(os.urandom(4096))
            out.flush()
            began = time.perf_counter()
            os.fdatasync(out.fileno())
            times.append((time.perf_counter() - began) * 1000)
    path.unlink()
    cpu = "".join(
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "kind": "machine",
        "cpu": cpu[: len(cpu) // (os.cpu_count() or 1)] or platform.machine(),
        "cores": cores,
        "memory_gb": round(memory / 1e9, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "disk_sync_ms": round(quantile(times, 0.5), 3),
        "disk_sync_p99_ms": round(quantile(times, 0.99), 3),
        "load_before": round(os.getloadavg()[0], 2),
        "revision": _revision(),
        "sysbench": _told(["sysbench", "--version"]),
    }


def _told(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
    except OSError:
        return ""
    return done.stdout.strip()


def _revision() -> str:
    return _told(["git", "describe", "--always", "--dirty"])


def measure(
    kinds: Iterable[type[Product]],
    workloads: Iterable[str],
    sizes: Sizes,
    folder: Path,
    tuned: bool,
    write: Write,
) -> None:
    """Each workload on each product, one after another, each on an empty data folder."""
    chosen = [kind(folder, tuned) for kind in kinds]
    told: set[str] = set()
    for workload in workloads:
        for product in chosen:
            if isinstance(product, ExuviaTwoFronts) and workload != "statements":
                continue
            began = time.monotonic()
            notes = Notes(product, workload, write)
            try:
                with product.running():
                    if product.name not in told:
                        told.add(product.name)
                        write(_about(product))
                    WORKLOADS[workload](product, notes, sizes)
            except Exception as error:
                notes.error(workload, error)
            took = time.monotonic() - began
            write({"kind": "took", "product": product.name, "workload": workload, "s": round(took)})


def _about(product: Product) -> Record:
    return {
        "kind": "product",
        "product": product.name,
        "title": product.title,
        "version": product.version(),
        "settings": list(product.settings),
        "tuned": product.tuned,
        "remark": product.remark,
    }


def anywhere(text: str) -> str:
    """Without the paths of this machine."""
    text = text.replace(str(HERE.parent) + "/", "")
    return re.sub(r"/[^\s\"]*exuvia-bench-\w+", "FOLDER", text)


def writer(path: Path, run: str) -> Write:
    """Adds records to the file, and says figures as they come."""

    def write(record: Record) -> None:
        with path.open("a") as out:
            out.write(anywhere(json.dumps({"run": run, **record})) + "\n")
        if record["kind"] == "figure":
            what = record.get("error") or f"{record['value']:,.4g} {record.get('unit', '')}"
            sys.stdout.write(f"{record['product']:<12} {record['work']:<24} {what}\n")
        elif record["kind"] == "took":
            about = f"{record['workload']}: {record['s']} s in all"
            sys.stdout.write(f"{record['product']:<12} {about}\n")
        sys.stdout.flush()

    return write


# -- rendering -------------------------------------------------------------------------------------


def read(path: Path) -> list[Record]:
    """The records of a results file, oldest first."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def newest(records: Iterable[Record], kind: str, *names: str) -> dict[tuple[Any, ...], Record]:
    """The last record of each."""
    return {
        tuple(each.get(name) for name in names): each for each in records if each["kind"] == kind
    }


def render(results: Path, report: Path) -> None:
    """Write the report and its pictures beside it."""
    records = read(results)
    figures = newest(records, "figure", "product", "work")
    products = newest(records, "product", "product")
    parts = [
        "# Figures\n",
        "Written by `python -m bench.report`; not edited by hand. What the figures mean stands in "
        "`docs/performance.md`.\n",
        _machine_text(records),
        _products_text(products, figures),
        _goals_text(figures, products),
        _clients_text(figures, products),
        _aged_text(figures),
        _picture(records, report),
        _growth_text(records, report),
        _resources_text(figures, products),
        _errors_text(figures),
        _commands_text(figures),
    ]
    report.write_text("\n".join(part for part in parts if part))


def _machine_text(records: list[Record]) -> str:
    runs = newest(records, "machine", "run")
    lines = ["## Machine\n"]
    for (run,), each in runs.items():
        lines.append(
            f"- run {run}, revision {each['revision']}: {each['cpu']}, {each['cores']} cores, "
            f"{each['memory_gb']} GB; fdatasync of 4 KiB {each['disk_sync_ms']} ms (p99 "
            f"{each['disk_sync_p99_ms']}); load average {each['load_before']} before the start; "
            f"Linux {each['kernel']}, Python {each['python']}, {each['sysbench']}; "
            f"`{each.get('command', '')}`"
        )
    return "\n".join([*lines, ""])


def _products_text(
    products: dict[tuple[Any, ...], Record], figures: dict[tuple[Any, ...], Record]
) -> str:
    lines = [
        "## Products\n",
        "Each on an empty data folder on the same disk, one after another, on the same rows. All "
        "are durable: an acknowledged commit is on the disk. Before timing, the table is read once "
        "and gets an index that is dropped again. What is set besides their defaults:\n",
        "| product | version | set | to know |",
        "|---|---|---|---|",
    ]
    for (name,), each in products.items():
        text = ", ".join(f"`{word}`" for word in each["settings"]) or "nothing"
        tuned = " (tuned)" if each["tuned"] else ""
        version = str(each["version"]).partition(" (Debian")[0]
        lines.append(f"| {each['title']} | {version} | {text}{tuned} | {each['remark']} |")
        assert name in PRODUCTS
    missing = [PRODUCTS[name].title for name in ("exuvia", *PEERS) if (name,) not in products]
    if missing:
        lines.append(f"\nNot installed, or left out: {', '.join(missing)}.")
    return "\n".join([*lines, ""])


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _goals_text(
    figures: dict[tuple[Any, ...], Record], products: dict[tuple[Any, ...], Record]
) -> str:
    peers = [name for name in PEERS if (name,) in products]
    titles = [PRODUCTS[name].title for name in peers]
    head = ["work", "Exuvia", *titles, *(f"to {title}" for title in titles), "goal", ""]
    head += ["earlier: Exuvia", "earlier: TiDB", "earlier: MariaDB"]
    lines = [
        "## Figures and goals\n",
        "Medians. *To a peer*: how many times as fast as it Exuvia was in this run. The last three "
        "columns were measured earlier on this machine, in other runs, and are quoted from the "
        "issue that set the goals (MariaDB then with a pool of 4 GB). A goal is judged at its own "
        "number of rows.\n",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for goal in GOALS:
        ours = _of_ours(figures, goal.work)
        cells = [_cell(ours, goal)]
        cells += [_cell(figures.get((name, _peers_work(goal.work))), goal) for name in peers]
        if not any(cells):
            continue
        cells += [_ratio(ours, figures.get((name, _peers_work(goal.work))), goal) for name in peers]
        cells += [_shown(goal.goal) + " " + goal.unit if goal.goal else "", _verdict(ours, goal)]
        cells += [goal.before, goal.tidb, goal.mariadb]
        lines.append(f"| {goal.title} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _of_ours(figures: dict[tuple[Any, ...], Record], work: str) -> Record | None:
    return figures.get(("exuvia2" if work.endswith("_two_fronts") else "exuvia", work))


def _peers_work(work: str) -> str:
    return work.removesuffix("_two_fronts")


def _cell(record: Record | None, goal: Goal) -> str:
    if record is None:
        return ""
    if "error" in record:
        return "error"
    rows = record.get("rows")
    about = f" ({rows:,} rows)" if goal.rows and rows and rows != goal.rows else ""
    return f"{_shown(record['value'])} {goal.unit}{about}"


def _ratio(ours: Record | None, theirs: Record | None, goal: Goal) -> str:
    if not ours or not theirs or not ours.get("value") or not theirs.get("value"):
        return ""
    ratio = float(ours["value"]) / float(theirs["value"])
    return f"{1 / ratio if goal.less_is_better else ratio:.2f}"


def _verdict(record: Record | None, goal: Goal) -> str:
    if record is None or goal.goal is None:
        return ""
    if "error" in record:
        return "**missed**"
    if goal.rows and record.get("rows") != goal.rows:
        return "not judged"
    reached = record["value"] <= goal.goal if goal.less_is_better else record["value"] >= goal.goal
    return "met" if reached else "**missed**"


def _clients_text(
    figures: dict[tuple[Any, ...], Record], products: dict[tuple[Any, ...], Record]
) -> str:
    lines = []
    for (name, work), each in figures.items():
        if not str(work).endswith("_p99") or "error" in each:
            continue
        stall = figures.get((name, str(work).replace("_p99", "_stall")), {})
        fill = figures.get((name, str(work).removesuffix("_p99")), {})
        wrong = ", ".join(f"{count} of {code}" for code, count in each["errors"].items()) or "none"
        seconds = " ".join(_shown(value) for value in fill.get("values", []))
        rate = str(work).split("_")[1]
        lines.append(
            f"| {PRODUCTS[name].title}, {rate} tx/s | {each['fills']}: {seconds} "
            f"| {each['p50_alone_ms']} / {each['p50_ms']} | {each['p99_alone_ms']} / "
            f"{each['p99_ms']} | {_shown(stall.get('alone_ms'))} / {_shown(stall.get('value'))} "
            f"| {each['transactions_alone']} / {each['transactions']} | {wrong} |"
        )
    if not lines:
        return ""
    head = (
        "| product, rate | fills, s each | p50 alone / beside, ms | p99 alone / beside, ms "
        "| longest alone / beside, ms | transactions alone / beside | errors (retried) |"
    )
    return "\n".join(
        [
            "## Clients beside a fill\n",
            "Four sysbench clients of `oltp_read_write` (`bench/open_loop.lua`): each transaction "
            "has an appointed time, and its latency counts from then. Pooled over all fills of the "
            "run, against the time without a fill before and after them; the index is dropped a "
            "second after each.\n",
            head,
            "|" + "---|" * 7,
            *lines,
            "",
        ]
    )


def _aged_text(figures: dict[tuple[Any, ...], Record]) -> str:
    lines = []
    for name in PRODUCTS:
        for row in AGED:
            fresh, old = (figures.get((name, f"{row.work}_{age}"), {}) for age in ("fresh", "aged"))
            if "value" not in fresh or "value" not in old:
                continue
            ratio = old["value"] / fresh["value"] if fresh["value"] else 0.0
            judged = ratio if row.unit else old["value"]
            is_met = row.goal is None or (judged <= row.goal) == row.less_is_better
            verdict = "" if row.goal is None else "met" if is_met else "**missed**"
            commits = f"{fresh['commits']:,.0f} / {old['commits']:,.0f}" if "commits" in old else ""
            lines.append(
                f"| {PRODUCTS[name].title}: {row.title} | {_shown(fresh['value'])} {row.unit} "
                f"| {_shown(old['value'])} {row.unit} | {ratio:.2f} | {commits} "
                f"| {'' if row.goal is None else row.goal} | {verdict} |"
            )
        beside = figures.get((name, "aging_rewrite"), {})
        if "value" in beside:
            lines.append(
                f"| {PRODUCTS[name].title}: a rewrite under 40 tx/s while the store ages | "
                f"| {_shown(beside['value'])} s; p99 alone {beside['p99_alone_ms']} ms, with it "
                f"{beside['p99_ms']} ms | | {beside['commits']:,.0f} | | |"
            )
    if not lines:
        return ""
    return "\n".join(
        [
            "## Fresh and aged store\n",
            "*Fresh*: rows loaded by INSERTs. *Aged*: the same store after minutes of "
            "`oltp_read_write` by four clients and rewrites of every row under 40 tx/s "
            "(`--age-s`, `--rewrites`). Schema changes run at rest. Commits are those of the whole "
            "store during a change.\n",
            "| product, work | fresh | aged | aged / fresh | commits, fresh / aged | goal | |",
            "|" + "---|" * 7,
            *lines,
            "",
        ]
    )


def _picture(records: list[Record], report: Path) -> str:
    found = newest(records, "series", "product", "name", "rate")
    if not found:
        return ""
    rate = max(key[2] for key in found)
    panels = []
    for name in ("exuvia", *PEERS):
        p99, fill = found.get((name, "p99", rate)), found.get((name, "fill rate", rate))
        if p99 is None:
            continue
        shade = [tuple(p99["fill"])]
        title = PRODUCTS[name].title
        about = f"{title}: clients' p99 of each second, {rate} tx/s; grey: the fill"
        lines = [plot.Line("p99", p99["points"])]
        panels.append(plot.Panel(about, "s from the ALTER", "ms", lines, shades=shade))
        if fill and len(fill["points"]) > 1:
            edge = [p99["points"][0][0], p99["points"][-1][0]]
            points = [(edge[0], 0.0), *fill["points"], (shade[0][1], 0.0), (edge[1], 0.0)]
            lines = [plot.Line("rows/s", points)]
            about = f"{title}: rate of the fill"
            panels.append(plot.Panel(about, "s from the ALTER", "rows/s", lines, shades=shade))
    if not panels:
        return ""
    plot.draw(report.with_name("fill.svg"), panels)
    return "![Fill rate and clients' p99 over time](fill.svg)\n"


GROWTH_UNITS = {"s": "s", "ms": "ms", "MB": "MB"}


def _growth_text(records: list[Record], report: Path) -> str:
    found = newest(records, "growth", "panel", "line", "size")
    if not found:
        return ""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    about: dict[str, Record] = {}
    for (panel, line, size), each in found.items():
        about[panel] = each
        if "value" in each:
            panels.setdefault(panel, {}).setdefault(line, []).append((size, each["value"]))
    lines = [
        "## Growth\n",
        "By `python -m bench.growth`. *Exponent*: the slope between the first and the last point "
        "on logarithmic axes: 1 is in proportion to the size, 0 is flat.\n",
        "| what | figure | at each size | exponent |",
        "|---|---|---|---|",
    ]
    drawn = []
    for panel, curves in panels.items():
        unit, across = about[panel]["unit"], about[panel]["x"]
        curve = [plot.Line(name, sorted(points)) for name, points in curves.items()]
        drawn.append(plot.Panel(panel, across, unit, curve, logarithmic=True))
        for name, points in curve:
            shown = "; ".join(f"{x:,.0f}: {_shown(y)}" for x, y in points)
            lines.append(f"| {panel} | {name}, {unit} | {shown} | {_exponent(points)} |")
    for (panel, line, size), each in found.items():
        if "error" in each:
            lines.append(f"| {panel} | {line} | {size:,}: {_plain(each['error'])} | |")
    plot.draw(report.with_name("growth.svg"), drawn)
    return "\n".join([*lines, "", "![Growth](growth.svg)", ""])


def _exponent(points: Any) -> str:
    import math

    (x0, y0), (x1, y1) = points[0], points[-1]
    if x1 <= x0 or y0 <= 0 or y1 <= 0 or x0 <= 0:
        return ""
    return f"{math.log(y1 / y0) / math.log(x1 / x0):.2f}"


def _resources_text(
    figures: dict[tuple[Any, ...], Record], products: dict[tuple[Any, ...], Record]
) -> str:
    names = [name for name in (*OWNED, *PEERS) if (name,) in products]
    head = " | ".join(PRODUCTS[name].title for name in names)
    lines = [
        "## What it took\n",
        "Over all processes of a product: processor seconds / most memory (private, and shared "
        "once) in MB / MB that the disk was given to write, and p95 where it was told. LMDB's map "
        "is the page cache's and is not counted; rates take this for their whole time.\n",
        f"| work | {head} |",
        "|---|" + "---|" * len(names),
    ]
    for goal in GOALS:
        cells = [_took(figures.get((name, goal.work))) for name in names]
        if any(cells):
            lines.append(f"| {goal.title} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _took(record: Record | None) -> str:
    if record is None or "cpu_s" not in record:
        return ""
    p95 = f" (p95 {record['p95_ms']} ms)" if "p95_ms" in record else ""
    written = _shown(record["written_mb"])
    return f"{record['cpu_s']} / {record['memory_mb']:,} / {written}{p95}"


def _errors_text(figures: dict[tuple[Any, ...], Record]) -> str:
    wrong = [
        f"- {PRODUCTS[name].title}, {work}: {_plain(each['error'])}"
        for (name, work), each in figures.items()
        if "error" in each
    ]
    return "\n".join(["## Errors\n", *wrong, ""]) if wrong else ""


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")


def _commands_text(figures: dict[tuple[Any, ...], Record]) -> str:
    lines = ["## Commands and single values\n"]
    for (name, work), each in figures.items():
        if "error" in each or "command" not in each:
            continue
        values = ", ".join(_shown(value) for value in each["values"][:10])
        more = ", ..." if len(each["values"]) > 10 else ""
        lines.append(
            f"- {PRODUCTS[name].title}, {work}, run {each['run']}: `{each['command']}`: "
            f"{values}{more} {each.get('unit', '')}"
        )
    return "\n".join([*lines, ""])


# -- the command -----------------------------------------------------------------------------------


def _list_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word} is none of {', '.join(known)}")
        return words

    return parse


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.report")
    parser.add_argument("--only", type=_list_of(tuple(WORKLOADS)), help=", ".join(WORKLOADS))
    parser.add_argument("--products", type=_list_of(tuple(PRODUCTS)), help=", ".join(PRODUCTS))
    parser.add_argument("--quick", action="store_true", help="fewer repeats, shorter, not `big`")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--fills", type=int, help="how many are pooled beside clients")
    parser.add_argument("--fills-s", type=float, help="begin none after so long")
    parser.add_argument("--warm-s", type=float, help="clients before they are timed")
    parser.add_argument("--rates", type=lambda text: tuple(int(word) for word in text.split(",")))
    parser.add_argument("--sysbench-s", type=int, help="how long a test of statements runs")
    parser.add_argument("--tables", type=int, help="of CREATE TABLE by 16 clients")
    parser.add_argument("--aged", action="store_true", help="only the workload `aged`")
    parser.add_argument("--age-s", type=float, help="oltp_read_write before a store is aged")
    parser.add_argument("--rewrites", type=int, help="of every row, before a store is aged")
    parser.add_argument("--rounds", type=int, help="of small schema changes")
    parser.add_argument("--ps-mode", choices=("auto", "disable"))
    parser.add_argument("--tuned", action="store_true", help="a pool of 4 GB for the peers")
    parser.add_argument("--folder", type=Path, help="where the data lies, for all products")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--report", type=Path, help="default: report.md beside the results")
    parser.add_argument("--render", action="store_true", help="measure nothing")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    return parser


def sizes_of(asked: argparse.Namespace) -> Sizes:
    """The sizes of the mode, with what was given besides."""
    base = QUICK if asked.quick else FULL
    given = {name: getattr(asked, name) for name in Sizes._fields if hasattr(asked, name)}
    return base._replace(**{name: value for name, value in given.items() if value is not None})


def end_politely() -> None:
    """Ended from outside, the products are ended, too, and their folders removed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def main(arguments: list[str] | None = None) -> None:
    """Measure what is asked for, then write the report."""
    words = sys.argv[1:] if arguments is None else arguments
    asked = options().parse_args(words)
    report = asked.report or asked.results.with_name("report.md")
    if not asked.render:
        if asked.fresh:
            asked.results.unlink(missing_ok=True)
        _measure(asked, words, report)
    render(asked.results, report)
    sys.stdout.write(f"{report}\n")


def _measure(asked: argparse.Namespace, words: list[str], report: Path) -> None:
    sizes = sizes_of(asked)
    only = ["aged"] if asked.aged else asked.only
    workloads = only or [name for name in WORKLOADS if name != "big" or not asked.quick]
    names = asked.products or [name for name in PRODUCTS if name != "exuvia2"]
    if asked.products is None and PRODUCTS["exuvia2"].installed():
        names.insert(1, "exuvia2")
    kinds = [PRODUCTS[name] for name in names if PRODUCTS[name].installed()]
    run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    write = writer(asked.results, run)
    if asked.folder:
        tempfile.tempdir = str(asked.folder)  # the disk whose bytes are counted
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-"))
    folder.chmod(0o755)  # a server that runs as another user reads the rows
    try:
        command = " ".join(["python -m bench.report", *words])
        write({**machine(folder), "command": command})
        for workload in workloads:
            measure(kinds, [workload], sizes, folder, asked.tuned, write)
            render(asked.results, report)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    end_politely()
    main()
