"""Different values by our sketch and by Spark's own, of one table in one run.

    python -m bench.analyze_sketches --rows 2000000

Of each column of a sysbench table, warm, twice, the second counts:
ANALYZE                ours: different values, nulls, sizes, sample, TopN, histograms, written
Spark, our source      hll_sketch_agg, and approx_count_distinct, over spark.read.format("exuvia")
Spark, Parquet         the same over a file of the rows: what it costs where reading is free of us
Errors are the worst column's. The sketch's size is lgK = 14 for both, 0.8 % standard error, so that
the worst of some sixty columns stays under 3 %.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from bench.add_index import DATABASE, publish, rows_of, table_of
from bench.analyze import analyzed, public
from exuvia.catalog import meta as catalog
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.sysvar import variables
from exuvia.kv.store import open_store
from exuvia.pipeline import bulk
from exuvia.pipeline.spark import Spark

LG_K = 14
COLUMNS = ("id", "k", "c", "pad")
Found = dict[str, int]


def by_sketches(frame: Any) -> Found:
    """hll_sketch_agg of every column."""
    from pyspark.sql import functions

    of = functions.hll_sketch_estimate
    wanted = [of(functions.hll_sketch_agg(c, LG_K)).alias(c) for c in COLUMNS]
    return dict(frame.agg(*wanted).first().asDict())


def by_count(frame: Any) -> Found:
    """approx_count_distinct of every column, as exact as that."""
    from pyspark.sql import functions

    wanted = [functions.approx_count_distinct(c, 1.04 / 2 ** (LG_K / 2)).alias(c) for c in COLUMNS]
    return dict(frame.agg(*wanted).first().asDict())


def told(what: str, exact: Found, work: Callable[[], Found]) -> None:
    """Do it twice; the second time is told."""
    work()
    began = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - began
    worst = max(abs(found[c] - exact[c]) / exact[c] for c in COLUMNS)
    print(f"{what:<44} {seconds:6.2f} s   worst NDV error {worst:.3%}")


def exact_of(batches: Iterable[pyarrow.RecordBatch]) -> Found:
    """How many different values there are."""
    data = pyarrow.Table.from_batches(batches)
    return {c: len(data.column(c).unique()) for c in COLUMNS}


def run(rows: int, folder: Path) -> None:
    """All of it."""
    url = f"lmdb://{folder / 'store'}"
    store = open_store(url)
    bootstrap(store)
    info = public(table_of(1))
    txn = store.begin()
    variables.set_global(txn, "exuvia_pipeline_inline_rows", "0")
    catalog.put_database(txn, DATABASE)
    catalog.put_table(txn, info)
    txn.commit()
    table = publish(store, info, 1)
    bulk.load(store, table, rows_of(rows))
    data = pyarrow.Table.from_batches(rows_of(rows))
    pyarrow.parquet.write_table(data, folder / "rows.parquet")
    exact = exact_of(rows_of(rows))
    spark = Spark(url)
    names = {column.id: column.name.L for column in info.cols}

    def ours() -> Found:
        found = analyzed(store, spark, table)
        return {names[each.hist_id]: each.distinct for each in found if not each.is_index}

    try:
        spark.warm().wait()
        session = spark.session()
        reader = session.read.format("exuvia").option("url", url)
        source = reader.option("dbtable", f"{DATABASE.db_name.O}.{info.name.O}").load()
        file = session.read.parquet(str(folder / "rows.parquet"))
        told("ANALYZE, everything", exact, ours)
        for name, frame in (("our source", source), ("Parquet", file)):
            told(f"Spark, {name}, hll_sketch_agg", exact, partial(by_sketches, frame))
            told(f"Spark, {name}, approx_count_distinct", exact, partial(by_count, frame))
    finally:
        spark.stop()
        store.close()


def main() -> None:
    """A store of its own in a temporary directory."""
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=2_000_000)
    rows = options.parse_args().rows
    load = os.getloadavg()[0]
    print(f"{rows:,} rows, {os.cpu_count()} processors, load average {load:.1f} before the start")
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-"))
    try:
        run(rows, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
