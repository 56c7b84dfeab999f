"""Processor time of rows that the Spark data source writes, and of the same rows by IMPORT INTO.

    python -m bench.spark_write                    1 M rows of sysbench's table with KEY (k)
    python -m bench.spark_write --rows 200000

Spark is left out: a task's rows are staged and committed in this process, by columns and row by row
(the way of tables whose rows need checks). All ways alternate in one run, on a new table each time.
IMPORT INTO reads a Parquet file with the same rows. Printed is the processor time of all processes;
other work on the machine changes it little.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from bench.exchange import spent
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from pyspark_exuvia import staging, write

COLUMNS = "id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, KEY (k)"
PLANNED = StructType().add("id", "integer").add("k", "integer").add("c", "string")
PLANNED = PLANNED.add("pad", "string")
BATCH = 10_000


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows in a random order."""
    random = np.random.default_rng(7)
    ids = random.permutation(rows).astype(np.int32)
    for at in range(0, rows, BATCH):
        some = ids[at : at + BATCH]
        texts = [f"{number:0119d}-" for number in random.integers(0, 1 << 60, len(some)).tolist()]
        k = random.integers(0, rows, len(some)).astype(np.int32)
        pads = [text[:59] for text in texts]
        yield pa.RecordBatch.from_pydict({"id": some, "k": k, "c": texts, "pad": pads})


def by_spark(url: str, rows: list[pa.RecordBatch], name: str) -> None:
    """Stages and commits the rows."""
    options = {"url": url, "dbtable": f"bench.{name}"}
    writer = write.TableWriter(options, PLANNED, False)
    writer.commit([writer.write(iter(rows))])


def by_import(session: Session, file: Path, name: str) -> None:
    """Loads the rows from the file."""
    session.execute(f"IMPORT INTO bench.{name} FROM '{file}' FORMAT 'parquet'")


def measured(title: str, rows: int, work: Callable[[], None]) -> None:
    """Prints the processor time of the work."""
    before, began = spent(), time.perf_counter()
    work()
    seconds = spent().processor_s - before.processor_s
    wall_s = time.perf_counter() - began
    print(
        f"{title:12} {seconds:8.2f} s {seconds / rows * 1e6:8.2f} us a row {wall_s:8.1f} s wall",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_write", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=2)
    arguments = parser.parse_args()
    rows = arguments.rows
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-"))
    url, file = f"lmdb://{folder / 'store'}", folder / "rows.parquet"
    names = vars(staging)
    by_columns = names["insert_arrays"]
    try:
        frame = list(batches(rows))
        pq.write_table(pa.Table.from_batches(frame), file)
        with staging.session_of(url) as session:
            store = session.services.store
            vars(write)["store_of"] = lambda options: store  # LMDB is opened once in a process
            object.__setattr__(session.services, "secure_file_priv", str(folder))
            session.execute("CREATE DATABASE bench")
            session.execute(f"SET GLOBAL exuvia_txn_total_size_limit = {rows * 2000}")
            for turn in range(arguments.repeat):
                for way in ("columns", "rows", "import"):
                    name = f"{way}_{turn}"
                    session.execute(f"CREATE TABLE bench.{name} ({COLUMNS})")
                    if way == "import":
                        measured("IMPORT INTO", rows, lambda: by_import(session, file, name))  # noqa: B023
                        continue
                    if way == "rows":
                        names["insert_arrays"] = lambda *given: None
                    measured(f"by {way}", rows, lambda: by_spark(url, frame, name))  # noqa: B023
                    names["insert_arrays"] = by_columns
                    result = session.execute(f"SELECT COUNT(*) FROM bench.{name}")
                    assert isinstance(result, Result) and result.rows[0][0] == rows
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
