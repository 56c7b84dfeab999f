"""ADD INDEX (k) on a sysbench table: the backfill and verification of a real reorg on a warm Spark.

    python -m bench.add_index                  5 million rows, profiles 4/256, 20/2048, 2/10240
    python -m bench.add_index --rows 1000000 --profiles 2/10240
    python -m bench.add_index --statistics     each profile without and with what
                                               tidb_stats_update_during_ddl costs

The table is sysbench's: id int primary key, k int, c char(120), pad char(60), k random. Store:
LMDB on a fresh folder, default sync. Each profile (worker count / batch size) fills an index of
its own on k. Nothing else runs. Beside peers: bench.report.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow

from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import DatabaseInfo, SchemaState, TableInfo, evolve, name
from exuvia.catalog.system_tables import table as static_table
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk, checkpoint
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Running, Waiting, fill_indexes
from exuvia.pipeline.spark import Spark
from exuvia.stats.ddl_handler import NewIndexes

DATABASE = DatabaseInfo(id=90, db_name=name("sbtest"))
BATCH_ROWS = 100_000


class Timing(NamedTuple):
    """One reorg. Unit: s, rows."""

    rows: int
    fill_s: float
    verify_s: float


def rows_of(rows: int, seed: int = 1) -> Iterator[pyarrow.RecordBatch]:
    """sysbench's rows, batch by batch."""
    chance = np.random.default_rng(seed)
    for start in range(0, rows, BATCH_ROWS):
        size = min(BATCH_ROWS, rows - start)
        digits = chance.integers(48, 58, (size, 180), dtype=np.uint8)
        digits[:, 11:119:12] = ord("-")
        digits[:, 131:179:12] = ord("-")
        columns: dict[str, Any] = {
            "id": np.arange(start + 1, start + 1 + size, dtype=np.int32),
            "k": chance.integers(1, rows, size, dtype=np.int32),
            "c": _texts(digits[:, :120]),
            "pad": _texts(digits[:, 120:]),
        }
        yield pyarrow.RecordBatch.from_pydict(columns)


def _texts(digits: Any) -> pyarrow.Array:
    rows, width = digits.shape
    ends = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    buffers = [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(digits.tobytes())]
    return pyarrow.Array.from_buffers(pyarrow.string(), rows, buffers)


def table_of(indexes: int) -> TableInfo:
    """The table with so many indexes on k, none of them there yet."""
    info = static_table(
        100,
        "sbtest1",
        "id int not null",
        "k int not null default 0",
        "c char(120) not null default ''",
        "pad char(60) not null default ''",
        primary="id",
        plain={f"k_{n}": "k" for n in range(indexes)},
        database_id=DATABASE.id,
    )
    absent = tuple(
        index if index.is_primary else evolve(index, state=SchemaState.ABSENT)
        for index in info.indexes
    )
    return evolve(info, index_info=absent)


def publish(store: Store, info: TableInfo, revision: int) -> Table:
    """The table at a revision."""
    txn = store.begin()
    txn.put(k.revision(info.id), k.number(revision))
    txn.put(k.database_revision(DATABASE.id), k.number(1))
    txn.put(k.meta("reorg", revision), k.number(1))
    txn.commit()
    return Table(info, revision, DATABASE, 1)


def load_table(url: str, database: str, table_name: str, rows: int) -> int:
    """Load sysbench's rows into a table that exists and is empty."""
    store = open_store(url)
    try:
        txn = store.begin()
        table = Schemas(store).table(txn, database, table_name)
        txn.rollback()
        return bulk.load(store, table, rows_of(rows))
    finally:
        store.close()


def run(
    store: Store, spark: Spark, info: TableInfo, revision: int, profile: str, statistics: bool
) -> Timing:
    """Fill and verify the profile's index; `revision` is also the job's id."""
    workers, batch = profile.split("/")
    txn = store.begin()
    variables.set_global(txn, "tidb_ddl_reorg_worker_cnt", workers)
    variables.set_global(txn, "tidb_ddl_reorg_batch_size", batch)
    variables.set_global(txn, "exuvia_pipeline_inline_rows", "0")
    variables.set_global(txn, "tidb_stats_update_during_ddl", "ON" if statistics else "OFF")
    txn.commit()
    position = revision - 1
    filling = tuple(
        evolve(index, state=SchemaState.WRITE_REORG) if n == position else index
        for n, index in enumerate(info.indexes)
    )
    table = publish(store, evolve(info, index_info=filling), revision)
    work = fill_indexes((info.indexes[position].id,))
    timing = _timed(PhaseRunner(store, revision, 1, table, work, spark, keep=NewIndexes(store)))
    store.transact(lambda txn: checkpoint.forget(txn, revision))  # or the next one shares with it
    return timing


def _timed(reorg: PhaseRunner) -> Timing:
    began = verified = time.perf_counter()
    phase = "fill"
    while True:
        reached = reorg.step(time.monotonic())
        now = time.perf_counter()
        if isinstance(reached, Done):
            return Timing(reached.rows, verified - began, now - verified)
        if not isinstance(reached, Running | Waiting):
            raise SystemExit(f"the reorg ended as {reached}")
        if isinstance(reached, Running) and reached.phase != phase:
            phase, verified = reached.phase, now
        time.sleep(min(reached.wake_s, 0.05))


def measure(
    rows: int, profiles: list[str], folder: Path, statistics: bool = False
) -> dict[str, Timing]:
    """Load the table once, then a reorg per profile; with statistics every second one."""
    url = f"lmdb://{folder / 'store'}"
    store = open_store(url)
    bootstrap(store)
    spark = Spark(url)
    try:
        info = table_of(len(profiles))
        began = time.perf_counter()
        bulk.load(store, publish(store, info, 1), rows_of(rows))
        seconds = time.perf_counter() - began
        print(f"bulk load   {rows:>10,} rows in {seconds:.1f} s, {rows / seconds:,.0f} rows/s")
        spark.warm().wait()
        found = {}
        for n, profile in enumerate(profiles):
            asked = statistics and n % 2 == 1
            found[profile] = each = run(store, spark, info, n + 2, profile, asked)
            print(
                f"{profile:>9}   fill {each.fill_s:6.2f} s, {each.rows / each.fill_s:>9,.0f} rows/s"
                f"   verify {each.verify_s:6.2f} s, {each.rows / each.verify_s:>9,.0f} rows/s"
                f"{'   with statistics' if asked else ''}"
            )
        return found
    finally:
        spark.stop()
        store.close()


def main() -> None:
    """Print the figures and how they came about."""
    parser = argparse.ArgumentParser(description="ADD INDEX on a sysbench table")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--profiles", default="4/256,20/2048,2/10240")
    parser.add_argument("--statistics", action="store_true", help="each profile twice")
    asked = parser.parse_args()
    print(f"command     {' '.join(['python -m bench.add_index', *sys.argv[1:]])}")
    load = os.getloadavg()[0]
    print(f"machine     {os.cpu_count()} processors, load average {load:.1f} before the start")
    print("settings    LMDB, default sync, all checks on; Spark warm, local[2]")
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-"))
    try:
        profiles = asked.profiles.split(",")
        if asked.statistics:
            profiles = [each for each in profiles for _ in range(2)]
        measure(asked.rows, profiles, folder, asked.statistics)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
