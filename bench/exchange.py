"""What a backfill of several sorted runs writes, with and without the exchange by key range.

    python -m bench.exchange                        (c) at 1, 4, 8, 16 M rows, on Spark local[2]
    python -m bench.exchange --rows 4000000 --column k --engine inline

The table is that of bench.add_index. For each number of rows, first each task writes its run over
the whole key range of the index ("runs"), then the entries are exchanged ("exchange"). Printed are
bytes that the processes wrote (/proc/PID/io), also divided by the index's pages, and processor
seconds of all processes. Only the fill is measured, not the comparison. Both come from one run, so
other work on the machine changes their ratio little.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.add_index import DATABASE, publish, rows_of
from bench.products import tree
from exuvia.base.limits import SPAN_ROWS
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.model import SchemaState, TableInfo, evolve
from exuvia.catalog.system_tables import table as static_table
from exuvia.catalog.sysvar import variables
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk, checkpoint
from exuvia.pipeline.kernels import exchange
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Running, fill_indexes
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.worker_process import WorkerProcess

MB = 1 << 20
_LEAST = exchange.LEAST_ROWS


class Spent(NamedTuple):
    """Sums over this process and all below it. Units: s, bytes."""

    processor_s: float
    written: int


class Figures(NamedTuple):
    """One fill. Units: s, bytes."""

    wall_s: float
    processor_s: float
    written: int
    grown: int


def spent() -> Spent:
    """What the processes of this tree have used so far."""
    seconds, written = 0.0, 0
    for process in tree(os.getpid()):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            io = Path(f"/proc/{process}/io").read_text()
        except OSError:
            continue
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        written += int(io.partition("write_bytes: ")[2].split()[0])
    return Spent(seconds, written)


def table_of(column: str, indexes: int) -> TableInfo:
    """sysbench's table with absent indexes on one column."""
    info = static_table(
        100,
        "sbtest1",
        "id int not null",
        "k int not null default 0",
        "c char(120) not null default ''",
        "pad char(60) not null default ''",
        primary="id",
        plain={f"by_{n}": column for n in range(indexes)},
        database_id=DATABASE.id,
    )
    absent = tuple(
        index if index.is_primary else evolve(index, state=SchemaState.ABSENT)
        for index in info.indexes
    )
    return evolve(info, index_info=absent)


def used_bytes(store: Store) -> int:
    """Bytes of the pages in use."""
    return int(store.measures()["used_bytes"])


def filled(
    store: Store, info: TableInfo, position: int, spark: Spark | None, worker: WorkerProcess
) -> Figures:
    """Fills one index of the table."""
    index = [each for each in info.indexes if not each.is_primary][position]
    states = tuple(
        evolve(each, state=SchemaState.WRITE_REORG) if each.id == index.id else each
        for each in info.indexes
    )
    revision = position + 2
    table = publish(store, evolve(info, index_info=states), revision)
    work = fill_indexes((index.id,))
    reorg = PhaseRunner(store, revision, 1, table, work, spark, worker=worker)
    before, pages, began = spent(), used_bytes(store), time.perf_counter()
    while True:
        reached = reorg.step(time.monotonic())
        if isinstance(reached, Done):
            break
        if not isinstance(reached, Running):
            raise SystemExit(f"the reorg ended as {reached}")
        time.sleep(min(reached.wake_s, 0.05))
    after = spent()
    wall_s, grown = time.perf_counter() - began, used_bytes(store) - pages
    store.transact(lambda txn: checkpoint.forget(txn, revision))
    return Figures(
        wall_s, after.processor_s - before.processor_s, after.written - before.written, grown
    )


def measure(rows: int, column: str, engine: str, span_rows: int, parent: str | None) -> None:
    """Prints both ways at this number of rows."""
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-", dir=parent))
    url = f"lmdb://{folder / 'store'}"
    store, worker = open_store(url), WorkerProcess(url)
    spark = Spark(url) if engine == "spark" else None
    try:
        bootstrap(store)
        info = table_of(column, 2)
        bulk.load(store, publish(store, info, 1), rows_of(rows))
        txn = store.begin()
        variables.set_global(txn, "exuvia_ddl_verify", "off")
        variables.set_global(txn, "tidb_ddl_reorg_batch_size", "10240")
        variables.set_global(txn, "exuvia_ddl_reorg_span_rows", str(span_rows))
        txn.commit()
        if spark is not None:
            spark.warm().wait()
        for position, way in enumerate(("runs", "exchange")):
            exchange.LEAST_ROWS = 1 << 62 if way == "runs" else _LEAST
            fill = filled(store, info, position, spark, worker)
            print(
                f"({column}) {rows:>11,} {way:<9}{fill.wall_s:>8.1f} s {fill.processor_s:>8.1f} s"
                f" of processors {fill.written / MB:>9,.0f} MB written, index"
                f" {fill.grown / MB:>7,.0f} MB, {fill.written / max(1, fill.grown):>5.2f} times",
                flush=True,
            )
    finally:
        exchange.LEAST_ROWS = _LEAST
        worker.stop()
        if spark is not None:
            spark.stop()
        store.close()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.exchange")
    parser.add_argument("--rows", default="1000000,4000000,8000000,16000000")
    parser.add_argument("--column", choices=("k", "c"), default="c")
    parser.add_argument("--engine", choices=("inline", "spark"), default="spark")
    parser.add_argument("--span-rows", type=int, default=SPAN_ROWS)
    parser.add_argument("--folder")
    asked = parser.parse_args()
    print(f"command     {' '.join(['python -m bench.exchange', *sys.argv[1:]])}")
    load = os.getloadavg()[0]
    print(f"machine     {os.cpu_count()} processors, load average {load:.1f} before the start")
    for rows in map(int, asked.rows.split(",")):
        measure(rows, asked.column, asked.engine, asked.span_rows, asked.folder)


if __name__ == "__main__":
    main()
