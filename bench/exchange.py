"""What a reorg of several sorted runs writes, with and without the exchange by key range.

    python -m bench.exchange                        ADD INDEX (c) at 1, 4, 8, 16 M rows, on Spark
    python -m bench.exchange --rows 4000000 --column k --engine inline
    python -m bench.exchange --change rekey --rows 500000,1000000 --engine inline

The table is that of bench.add_index. For each number of rows, tasks first write their runs over the
whole key range ("runs"), then through the exchange ("exchange"), each on a new store. Changes:

    fill      an index on the column
    rewrite   the column, which has an index, gets another type: its rows and the index are written
    rekey     the primary key becomes (k, id), so rows are put in another order, with such an index

Printed are bytes that the processes wrote (/proc/PID/io), also divided by the growth of the store,
and processor seconds of all processes; at the end, the exponents of both from the first size to the
last. Verification is off. Both ways come from one run, so other work on the machine changes their
ratio little.
"""

import argparse
import math
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
from exuvia.base.types import TypeCode
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.convert.type_change import ChangeKind
from exuvia.catalog.model import SchemaState, TableInfo, evolve
from exuvia.catalog.system_tables import table as static_table
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.ddl.actions import modify_column
from exuvia.ddl.actions.modify_column import Modification
from exuvia.ddl.actions.rekey import with_keyed_rows
from exuvia.kv import keys
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk
from exuvia.pipeline.kernels import exchange
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Reorg, Running, change_column, fill_indexes, rekey_rows
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
    """What the processes of this tree have used so far, with the children that have ended."""
    seconds, written = 0.0, 0
    for process in tree(os.getpid()):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            io = Path(f"/proc/{process}/io").read_text()
        except OSError:
            continue
        seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        written += int(io.partition("write_bytes: ")[2].split()[0])
    return Spent(seconds, written)


CHANGES = ("fill", "rewrite", "rekey")
_LONGER = {"c": (TypeCode.STRING, 130), "k": (TypeCode.LONGLONG, 20)}


def table_of(column: str) -> TableInfo:
    """sysbench's table with an index on one column."""
    return static_table(
        100,
        "sbtest1",
        "id int not null",
        "k int not null default 0",
        "c char(120) not null default ''",
        "pad char(60) not null default ''",
        primary="id",
        plain={f"by_{column}": column},
        database_id=DATABASE.id,
    )


def prepared(change: str, column: str) -> tuple[TableInfo, TableInfo, Reorg]:
    """The table to load, the same at the start of the reorg, and the reorg."""
    info = table_of(column)
    if change == "fill":
        (index,) = (i for i in info.indexes if not i.is_primary)
        absent, filled = (
            evolve(
                info,
                index_info=tuple(evolve(i, state=s) if i is index else i for i in info.indexes),
            )
            for s in (SchemaState.ABSENT, SchemaState.WRITE_REORG)
        )
        return absent, filled, fill_indexes((index.id,))
    if change == "rewrite":
        old = info.column(column)
        assert old is not None
        code, length = _LONGER[column]
        wider = evolve(old.type, Tp=code, Flen=length)
        asked = Modification(
            column=evolve(old, type=wider),
            old_column_name=column,
            old_type=old.type,
            kind=ChangeKind.ROWS,
        )
        placed, asked = modify_column.with_hidden_elements(info, asked)
        table = modify_column.hidden_in_state(placed, asked, SchemaState.WRITE_REORG)
        hidden = tuple(index for _, index in asked.changing_idxs)
        return info, table, change_column(old.id, asked.changing_column_id, hidden)
    (key,) = static_table(
        100, "sbtest1", "id int not null", "k int not null", unique={"pk": "k,id"}
    ).indexes
    placed = with_keyed_rows(info, key, (101,))
    assert placed.exuvia_rekey is not None
    moving = evolve(placed.exuvia_rekey, state=SchemaState.WRITE_REORG)
    return info, evolve(placed, exuvia_rekey=moving), rekey_rows(moving.guard, ())


def used_bytes(store: Store) -> int:
    """Bytes of the pages in use."""
    return int(store.measures()["used_bytes"])


def run(
    store: Store, table: Table, work: Reorg, spark: Spark | None, worker: WorkerProcess
) -> Figures:
    """Runs a reorg."""
    reorg = PhaseRunner(store, 1, 1, table, work, spark, worker=worker)
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
    return Figures(
        wall_s, after.processor_s - before.processor_s, after.written - before.written, grown
    )


def measure(asked: argparse.Namespace, rows: int, way: str) -> Figures:
    """Prints and returns the figures of one way at this number of rows."""
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-", dir=asked.folder))
    url = f"lmdb://{folder / 'store'}"
    store, worker = open_store(url), WorkerProcess(url)
    spark = Spark(url) if asked.engine == "spark" else None
    try:
        bootstrap(store)
        before, info, work = prepared(asked.change, asked.column)
        bulk.load(store, publish(store, before, 1), rows_of(rows))
        txn = store.begin()
        variables.set_global(txn, "exuvia_ddl_verify", "off")
        variables.set_global(txn, "tidb_ddl_reorg_batch_size", "10240")
        variables.set_global(txn, "exuvia_ddl_reorg_span_rows", str(asked.span_rows))
        txn.put(keys.meta("reorg", 1), keys.number(1))
        txn.commit()
        if spark is not None:
            spark.warm().wait()
        exchange.LEAST_ROWS = 1 << 62 if way == "runs" else _LEAST
        figures = run(store, publish(store, info, 2), work, spark, worker)
        print(
            f"{asked.change} ({asked.column}) {rows:>11,} {way:<9}{figures.wall_s:>8.1f} s"
            f" {figures.processor_s:>8.1f} s of processors {figures.written / MB:>9,.0f} MB"
            f" written, store {figures.grown / MB:>+8,.0f} MB,"
            f" {figures.written / max(1, figures.grown):>5.2f} times",
            flush=True,
        )
        return figures
    finally:
        exchange.LEAST_ROWS = _LEAST
        worker.stop()
        if spark is not None:
            spark.stop()
        store.close()
        shutil.rmtree(folder, ignore_errors=True)


def exponent(sizes: list[int], values: list[float]) -> float:
    """The exponent of growth from the first size to the last."""
    return math.log(values[-1] / values[0]) / math.log(sizes[-1] / sizes[0])


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.exchange")
    parser.add_argument("--change", choices=CHANGES, default="fill")
    parser.add_argument("--rows", default="1000000,4000000,8000000,16000000")
    parser.add_argument("--column", choices=("k", "c"), default="c")
    parser.add_argument("--engine", choices=("inline", "spark"), default="spark")
    parser.add_argument("--span-rows", type=int, default=SPAN_ROWS)
    parser.add_argument("--folder")
    asked = parser.parse_args()
    print(f"command     {' '.join(['python -m bench.exchange', *sys.argv[1:]])}")
    load = os.getloadavg()[0]
    print(f"machine     {os.cpu_count()} processors, load average {load:.1f} before the start")
    sizes = list(map(int, asked.rows.split(",")))
    figures: dict[str, list[Figures]] = {"runs": [], "exchange": []}
    for rows in sizes:
        for way, so_far in figures.items():
            so_far.append(measure(asked, rows, way))
    for way, of_sizes in figures.items():
        if len(sizes) > 1:
            seconds = exponent(sizes, [one.processor_s for one in of_sizes])
            written = exponent(sizes, [float(max(1, one.written)) for one in of_sizes])
            print(f"{way:<9} processor time grows with exponent {seconds:.2f}, bytes {written:.2f}")


if __name__ == "__main__":
    main()
