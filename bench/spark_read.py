"""Processor time of rows that the Spark data source reads, and of the same rows from Parquet.

    python -m bench.spark_read                     1 M rows of sysbench's table with KEY (k)
    python -m bench.spark_read --rows 200000
    python -m bench.spark_read --spark             through Spark, into the format `noop`

Without `--spark` a task's batches are read in this process: the share of the data source. With it
the time is that of all processes: the JVM, its workers in Python, and this one. Ways alternate in
one run; each has one run before, which is not counted. Other work on the machine changes processor
time little.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.exchange import spent
from bench.spark_write import COLUMNS, batches
from exuvia.sql.result import Result
from pyspark_exuvia import staging, table

WAYS = {"all columns": "", "one column": "k"}
FILTER = "k = 7 AND id > 100"


def by_reader(url: str, columns: str) -> int:
    """Reads the table as the tasks of a query do, and returns the number of rows."""
    options = {"url": url, "dbtable": "bench.t"} | ({"columns": columns} if columns else {})
    reader = table.TableReader(options, table.schema(options))
    return sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))


def by_parquet(file: Path, columns: str) -> int:
    """Reads the file, and returns the number of rows."""
    names = columns.split(",") if columns else None
    return sum(batch.num_rows for batch in pq.ParquetFile(file).iter_batches(columns=names))


def in_spark(url: str, file: Path) -> tuple[Callable[[str], Any], Callable[[str], Any], Any]:
    """Returns a session's reads of the table and of the file into `noop`, and the session."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()
    reader = spark.read.format("exuvia").options(url=url, dbtable="bench.t")

    def ours(columns: str) -> None:
        one = reader.option("columns", columns) if columns else reader
        one.load().write.format("noop").mode("overwrite").save()

    def parquet(columns: str) -> None:
        frame = spark.read.parquet(str(file))
        frame = frame.select(*columns.split(",")) if columns else frame
        frame.write.format("noop").mode("overwrite").save()

    return ours, parquet, spark


def seconds_of(work: Callable[[], object]) -> float:
    """Returns the processor time of the work."""
    before = spent()
    work()
    return spent().processor_s - before.processor_s


def explained(spark: Any, url: str) -> None:
    """Prints the time of a filtered `explain`, warm."""
    frame = spark.read.format("exuvia").options(url=url, dbtable="bench.t").load()

    def work() -> None:
        frame.where(FILTER)._jdf.queryExecution().explainString(  # explain() prints
            spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("simple")
        )

    work()
    began = time.perf_counter()
    seconds = seconds_of(work)
    print(
        f"filtered explain {seconds:6.2f} s, {time.perf_counter() - began:.2f} s wall", flush=True
    )


def filled(url: str, folder: Path, rows: int) -> Path:
    """Writes the rows into a Parquet file and the table, and returns the file."""
    file = folder / "rows.parquet"
    pq.write_table(pa.Table.from_batches(list(batches(rows))), file)
    with staging.session_of(url) as session:
        object.__setattr__(session.services, "secure_file_priv", str(folder))
        session.execute("CREATE DATABASE bench")
        session.execute(f"CREATE TABLE bench.t ({COLUMNS})")
        session.execute(f"IMPORT INTO bench.t FROM '{file}' FORMAT 'parquet'")
        result = session.execute("SELECT COUNT(*) FROM bench.t")
        assert isinstance(result, Result) and result.rows[0][0] == rows
    return file


def measured(
    rows: int, repeat: int, ours: Callable[[str], Any], parquet: Callable[[str], Any]
) -> Iterator[str]:
    """Yields a line for each way: the least processor time of both, and their ratio."""
    for title, columns in WAYS.items():
        least = [float("inf")] * 2
        for turn in range(repeat + 1):
            for at, read in enumerate((ours, parquet)):
                seconds = seconds_of(lambda: read(columns))  # noqa: B023
                if turn:
                    least[at] = min(least[at], seconds)
        own, other = least
        ratio = f"{own / other:.1f}" if other else "-"  # the clock counts hundredths of a second
        yield (
            f"{title:12} {own:8.2f} s {own / rows * 1e6:7.2f} us a row,"
            f" parquet {other:7.2f} s, ratio {ratio}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_read", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--spark", action="store_true")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-"))
    url = f"lmdb://{folder / 'store'}"
    try:
        file = filled(url, folder, arguments.rows)
        table.close_store(url)
        if arguments.spark:
            ours, parquet, spark = in_spark(url, file)
        else:
            ours, parquet, spark = (
                lambda columns: by_reader(url, columns),
                lambda columns: by_parquet(file, columns),
                None,
            )
        for line in measured(arguments.rows, arguments.repeat, ours, parquet):
            print(line, flush=True)
        if spark is not None:
            explained(spark, url)
            spark.stop()
    finally:
        table.close_store(url)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
