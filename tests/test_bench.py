"""The benchmark's own machinery, at tiny sizes: each workload runs against Exuvia, and the report
renders from a results file with errors and missing products in it. Figures mean nothing here."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from bench import growth, latency_timeline, report, spark_read, tuning
from bench.products import PRODUCTS, Exuvia, Meter
from bench.workloads import WORKLOADS, Notes, Sizes

TINY = Sizes(
    rows=500,
    repeats=1,
    sysbench_s=1,
    warm_s=0.5,
    fills=1,
    rates=(20,),
    tables=16,
    rounds=1,
    age_s=1,
    rewrites=1,
)
AGES = ("fresh", "aged")
SHORT = ("queries", "small", "create")
WORKS = {
    "fills": {"index_k", "index_c", "two_indexes", "to_varchar", "to_int", "narrower", "analyze"},
    "cold": {"cold"},
    "queries": {"group_by", "order_by", "count"},
    "small": {"add_column", "add_index"},
    "create": {"create"},
    "statements": {"prepare", "point_select", "read_only", "read_write", "insert"},
    "beside": {"beside_20", "beside_20_p99", "beside_20_stall"},
    "big": {"index_k_big"},
    "aged": {"aging_rewrite", *(f"{row.work}_{age}" for row in report.AGED for age in AGES)},
}


def measured(product: Exuvia, workload: str) -> dict[str, dict[str, Any]]:
    """The figures of a workload by their names."""
    found: list[dict[str, Any]] = []
    WORKLOADS[workload](product, Notes(product, workload, found.append), TINY)
    errors = [each for each in found if "error" in each]
    assert not errors
    return {each["work"]: each for each in found if each["kind"] == "figure"}


def test_short_workloads_give_each_figure(tmp_path: Path) -> None:
    product = Exuvia(tmp_path)
    with product.running():
        for workload in SHORT:
            found = measured(product, workload)
            assert set(found) == WORKS[workload]
            assert all(each["value"] > 0 for each in found.values())


@pytest.mark.long
@pytest.mark.parametrize("workload", [name for name in WORKLOADS if name not in SHORT])
def test_each_workload_gives_each_figure(workload: str, tmp_path: Path) -> None:
    product = Exuvia(tmp_path)
    with product.running():
        found = measured(product, workload)
    assert set(found) == WORKS[workload]
    assert all(each["value"] > 0 for each in found.values())
    assert all(
        "command" in found[work]
        for work in found
        if "_p99" not in work and "_st" not in work and "unit" in found[work]
    )


def test_every_work_has_a_row_in_the_table() -> None:
    rows = {goal.work for goal in report.GOALS}
    for workload, works in WORKS.items():
        if workload == "aged":
            continue  # its rows are in a table of their own
        assert {work.replace("_20", "_100") for work in works} <= rows
    assert set(WORKS) == set(WORKLOADS)


def test_meter_counts_the_processor_time_of_children_that_ended() -> None:
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    code = (
        "import subprocess, sys\nsys.stdin.readline()\n"
        f"subprocess.run([sys.executable, '-c', '''{spin}'''])\n"
        "print('done', flush=True)\nsys.stdin.readline()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    with Meter(child.pid) as meter:
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n"
    child.communicate("\n")
    assert 0.25 <= meter.usage.cpu_s <= 2
    assert meter.usage.memory_mb > 1


def records() -> list[dict[str, Any]]:
    """As a run of two products writes them, one of them failing once."""
    machine = {
        "kind": "machine", "cpu": "a processor", "cores": 2, "memory_gb": 8, "kernel": "6",
        "python": "3", "disk_sync_ms": 1, "disk_sync_p99_ms": 2, "load_before": 0.1,
        "revision": "abc", "sysbench": "sysbench 1", "command": "python -m bench.report",
    }  # fmt: skip
    products = [
        {
            "kind": "product", "product": name, "title": PRODUCTS[name].title, "version": "1",
            "settings": ["fsync=on"], "tuned": False, "remark": "a remark",
        }
        for name in ("exuvia", "mariadb")
    ]  # fmt: skip
    taken = {"cpu_s": 1.5, "memory_mb": 200, "mapped_mb": 10, "written_mb": 30.0}

    def figure(product: str, work: str, value: float, **more: Any) -> dict[str, Any]:
        about = {"kind": "figure", "product": product, "workload": "fills", "work": work}
        return {**about, "value": value, "values": [value], **more}

    at = {"rows": 1_000_000, "unit": "s", "command": "ALTER ...", **taken}
    beside = {
        "unit": "x", "p99_ms": 12, "p99_alone_ms": 10, "p50_ms": 3, "p50_alone_ms": 2, "fills": 3,
        "transactions": 900, "transactions_alone": 800, "errors": {"1213 40001": 2},
        "rows": 1_000_000,
    }  # fmt: skip
    series = {"kind": "series", "product": "exuvia", "rate": 100, "fill": [0, 4]}
    return [
        machine,
        *products,
        figure("exuvia", "index_k", 0.5, **at),
        figure("mariadb", "index_k", 1.0, **at),
        figure("exuvia", "index_c", 9.0, **at),
        figure("exuvia", "narrower", 9.0, **{**at, "rows": 5000}),
        figure("exuvia", "beside_100", 3.0, **at, fills=3),
        figure("exuvia", "beside_100_p99", 1.2, **beside),
        figure("exuvia", "beside_100_stall", 88.0, unit="ms", alone_ms=20),
        figure("exuvia", "to_int_fresh", 4.0, **at, commits=130),
        figure("exuvia", "to_int_aged", 6.0, **at, commits=140.5),
        figure("exuvia", "file_per_data_fresh", 1.2),
        figure("exuvia", "file_per_data_aged", 1.5),
        figure("exuvia", "aging_rewrite", 9.0, **at, commits=900, p99_alone_ms=8.0, p99_ms=9.5),
        {"kind": "figure", "product": "mariadb", "work": "to_int", "error": "Refused: a | b"},
        {**series, "name": "p99", "points": [[-1, 5], [0, 6], [1, 8], [5, 6]]},
        {**series, "name": "fill rate", "points": [[1, 1000], [2, 250000], [4, 0]]},
        *(
            {
                "kind": "growth", "panel": "by rows", "line": "fill", "size": size,
                "value": size / 1e6, "unit": "s", "x": "rows",
            }
            for size in (1_000_000, 4_000_000)
        ),
    ]  # fmt: skip


def test_report_says_what_was_met_missed_and_failed(tmp_path: Path) -> None:
    results, text = tmp_path / "results.jsonl", tmp_path / "report.md"
    lines = [json.dumps({"run": "now", **each}) for each in records()]
    results.write_text("\n".join(lines))
    report.main(["--render", "--results", str(results)])
    table = text.read_text().split("## What it took")[0]
    assert "| ADD INDEX (k) | 0.5 s | 1 s | 2.00 | 1 s | met | 4.0 | 10.1 | 0.75 |" in table
    assert "| ADD INDEX (c), 120 characters | 9 s |  |  | 1.5 s | **missed** |" in table
    assert "| MODIFY to a narrower INT | 9 s (5,000 rows) |  |  | 0.3 s | not judged |" in table
    assert "| MODIFY back to INT |  | error |" in table
    assert "Not installed, or left out: PostgreSQL." in table
    assert "2 of 1213 40001" in table and "10 / 12" in table and "20 / 88" in table
    assert "MariaDB, to_int: Refused: a / b" in text.read_text()
    assert "1,000,000: 1; 4,000,000: 4 | 1.00 |" in table
    back = "| Exuvia: MODIFY back to INT | 4 s | 6 s | 1.50 | 130 / 140 | 1.25 | **missed** |"
    assert back in table
    assert "| 1.2  | 1.5  | 1.25 |  | 1.6 | met |" in table
    assert "9 s; p99 alone 8.0 ms, with it 9.5 ms" in table
    for picture in ("fill.svg", "growth.svg"):
        assert f"({picture})" in table
        assert len(ET.parse(tmp_path / picture).getroot()) > 5


def test_records_name_no_path_of_the_machine(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    command = f"sysbench {report.HERE}/open_loop.lua --log=/var/x/exuvia-bench-a_1/clients"
    report.writer(results, "now")({"kind": "series", "command": command})
    assert json.loads(results.read_text())["command"] == (
        "sysbench bench/open_loop.lua --log=FOLDER/clients"
    )


def test_a_product_that_fails_is_a_row_and_not_an_end(tmp_path: Path) -> None:
    class Broken(Exuvia):
        def start(self) -> None:
            raise RuntimeError("no such program")

    found: list[dict[str, Any]] = []
    report.measure([Broken], ["small", "create"], TINY, tmp_path, False, found.append)
    errors = [(each["work"], each["error"]) for each in found if "error" in each]
    assert errors == [(work, "RuntimeError: no such program") for work in ("small", "create")]


@pytest.mark.long
def test_growth_gives_a_point_at_each_size(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    words = "--rows 200 --times 1,2 --tables 40 --partitions 2,4 --partition-rows 50 --jobs 2,4"
    growth.main([*words.split(), "--results", str(results)])
    points = [each for each in report.read(results) if each["kind"] == "growth"]
    assert not [each for each in points if "error" in each]
    sizes = {(each["panel"], each["line"]): [] for each in points}
    for each in points:
        sizes[each["panel"], each["line"]].append(each["size"])
    assert sizes["by rows", "COUNT(*)"] == [200, 400]
    assert sizes["by tables", "CREATE TABLE, 16 clients, p99"] == list(range(4, 41, 4))
    assert sizes["by partitions", "ADD INDEX (k)"] == [2, 4]
    assert sizes["by waiting jobs", "ADD COLUMN, one table, a job"] == [2, 4]
    assert (tmp_path / "growth.svg").exists()


@pytest.mark.long
def test_tuning_writes_its_tables_between_the_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = tuning.Extent(
        rows=500, rate=20, minutes=30, warm_s=0.5, alone_s=1, beside_s=0.1, limit_s=60, rest_fills=1
    )
    monkeypatch.setattr(tuning, "QUICK", tiny)
    monkeypatch.setattr(tuning, "PAUSE_S", 0.05)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{tuning.BEGIN}old\n{tuning.END}behind\n")
    tuning.main(["--quick", "--page", str(page)])
    text = page.read_text()
    assert text.startswith(f"before\n{tuning.BEGIN}") and text.endswith(f"{tuning.END}behind\n")
    assert "old" not in text and "not measured" not in text and "more than" not in text
    for each in tuning.COMPARISONS:
        for value in each.values:
            assert re.search(rf"^\| {re.escape(value)} \| [\d.]+ s \|", text, re.MULTILINE), value
    assert tuning.PAGE.read_text().count(tuning.BEGIN) == 1


def test_a_point_of_the_timeline_is_the_p99_of_all_builds_around_that_time() -> None:
    starts = [100.0, 200.0]
    done = [(start + at / 100, 5.0) for start in starts for at in range(-300, 700)]
    done += [(start + 1.5 + at / 100, 90.0) for start in starts for at in range(3)]
    points = dict(map(tuple, latency_timeline.timeline(sorted(done), starts)))
    assert points[-2.0] == points[0.0] == points[4.0] == 5.0
    assert points[1.5] == 90.0, "three of a hundred"
    assert max(points) == latency_timeline.AFTER_S


def test_the_first_page_has_the_figures_of_the_recorded_run(tmp_path: Path) -> None:
    results = json.loads(latency_timeline.RESULTS.read_text())
    readme = (latency_timeline.HERE.parent / "README.md").read_text()
    assert latency_timeline.caption(results) in readme
    assert f"`{results['command']}`" in readme and results["run"][:10] in readme
    assert f"Load average before the run: {results['load_before']}" in " ".join(readme.split())
    latency_timeline.draw(results, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == latency_timeline.PICTURE.read_text()
    ET.parse(latency_timeline.PICTURE)


def test_spark_reads_are_compared_with_parquet(tmp_path):
    url = f"lmdb://{tmp_path / 'store'}"
    file = spark_read.filled(url, tmp_path, 500)
    for columns in spark_read.WAYS.values():
        assert spark_read.by_reader(url, columns) == 500
        assert spark_read.by_parquet(file, columns) == 500
    calls = []
    lines = list(spark_read.measured(500, 2, calls.append, lambda columns: None))
    assert calls == ["", "", "", "k", "k", "k"] and len(lines) == 2
    assert all("us a row, parquet" in line for line in lines)
    spark_read.table.close_store(url)
