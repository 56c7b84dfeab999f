"""ANALYZE of a sysbench table on a warm Spark, and how right it is, on it and on TPC-H's tables.

    python -m bench.analyze                    5 million rows; read, sketch, sample, build, write
    python -m bench.analyze --rows 1000000 --inline          in this process, without Spark
    python -m bench.analyze --tpch 0.5         all tables of TPC-H at that scale too

How wrong statistics are: bench/analyze_errors.py.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pyarrow

from bench.add_index import publish, rows_of, table_of
from bench.analyze_errors import Error, errors
from bench.analyze_tpch import tables
from exuvia.base.clock import SystemClock
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.model import SchemaState, TableInfo, evolve
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk
from exuvia.pipeline.spark import Spark
from exuvia.stats import meta, records
from exuvia.stats.analysis import statistics_of, subject_of
from exuvia.stats.analyze import AnalyzeSettings
from exuvia.stats.records import Statistics


def analyzed(store: Store, spark: Spark | None, table: Table) -> list[Statistics]:
    """Analyze a table and write what was found."""
    subject = subject_of(table)
    reading = AnalyzeSettings(store, spark, SystemClock())
    found = reading.read(table, subject, 0, lambda: False, lambda rows: None)
    statistics = statistics_of(found, table, subject, table.physical_id, 100, 256)
    txn = store.begin()
    records.write(txn, statistics, meta.draw_version(txn))
    txn.commit()
    return statistics


def public(info: TableInfo) -> TableInfo:
    """The table with its indexes as readers see them."""
    indexes = tuple(evolve(each, state=SchemaState.PUBLIC) for each in info.indexes)
    return evolve(info, index_info=indexes)


def tpch(store: Store, spark: Spark | None, folder: Path, scale: float) -> None:
    """All tables at a scale, and the worst of their columns."""
    found: list[Error] = []
    for info, data in tables(folder, scale):
        table = publish(store, info, 1)
        bulk.load(store, table, data.to_batches(max_chunksize=100_000))
        began = time.perf_counter()
        statistics = analyzed(store, spark, table)
        seconds = time.perf_counter() - began
        print(f"{info.name.O:<11} {data.num_rows:>10,} rows in {seconds:.2f} s")
        found += errors(info, statistics, data)
    print("all of TPC-H")
    say(found)


def say(found: list[Error]) -> None:
    """The worst columns."""
    ndv = max(found, key=lambda error: error.ndv)
    quantile = max(found, key=lambda error: error.quantile)
    print(f"  worst of {len(found)}      NDV {ndv.ndv:.3%} ({ndv.column}; goal 3 %)", end=", ")
    print(f"quantiles {quantile.quantile:.3%} ({quantile.column}; goal 1 %)")


def measure(rows: int, folder: Path, inline: bool, scale: float) -> float:
    """Unit: s."""
    url = f"lmdb://{folder / 'store'}"
    store = open_store(url)
    bootstrap(store)
    spark = None if inline else Spark(url)
    try:
        txn = store.begin()
        variables.set_global(txn, "exuvia_pipeline_inline_rows", "0")
        txn.commit()
        info = public(table_of(1))
        table = publish(store, info, 1)
        bulk.load(store, table, rows_of(rows))
        if spark is not None:
            spark.warm().wait()
        began = time.perf_counter()
        statistics = analyzed(store, spark, table)
        seconds = time.perf_counter() - began
        print(f"sysbench    {rows:>10,} rows in {seconds:.2f} s, {rows / seconds:,.0f} rows/s")
        say([*errors(info, statistics, pyarrow.Table.from_batches(rows_of(rows)))])
        if scale:
            tpch(store, spark, folder, scale)
        return seconds
    finally:
        if spark is not None:
            spark.stop()
        store.close()


def main() -> None:
    """Print the figures and how they came about."""
    parser = argparse.ArgumentParser(description="ANALYZE of a sysbench table")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--inline", action="store_true", help="without Spark")
    parser.add_argument("--tpch", type=float, default=0.0, help="scale of TPC-H")
    asked = parser.parse_args()
    print(f"command     {' '.join(['python -m bench.analyze', *sys.argv[1:]])}")
    load = os.getloadavg()[0]
    print(f"machine     {os.cpu_count()} processors, load average {load:.1f} before the start")
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-"))
    try:
        measure(asked.rows, folder, asked.inline, asked.tpch)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
