"""MODIFY COLUMN on a sysbench table with an index on the column: each phase of a real reorg.

    python -m bench.rewrite                          1 million rows, profiles 4/256, 2/10240
    python -m bench.rewrite --rows 200000 --inline   in this process, without Spark

The table is bench.add_index's. Three changes one after another, as one MODIFY does its rows (job
steps and waits for members are not in it):

    text      k INT -> VARCHAR(20), rows written, index on it filled
    number    the text -> INT, likewise
    narrow    k INT -> MEDIUMINT, rows only checked

CPU is that of this process and of all its children (Spark's JVM and Python workers).
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.add_index import publish, rows_of, table_of
from bench.products import Meter
from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.convert.type_change import ChangeKind
from exuvia.catalog.model import SchemaState, TableInfo, evolve
from exuvia.catalog.sysvar import variables
from exuvia.ddl.actions import modify_column
from exuvia.ddl.actions.modify_column import Modification
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk, checkpoint
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Reorg, Running, Waiting, change_column
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.worker_process import WorkerProcess

TEXT = FieldType(Tp=TypeCode.VARCHAR, Flen=20, Decimal=0, Charset="utf8mb4", Collate="utf8mb4_bin")


class Timing(NamedTuple):
    """One change. Unit: s; `least`: the lowest rate its row showed, rows/s."""

    wall_s: float
    cpu_s: float
    phases: dict[str, float]
    least: float


def changing(info: TableInfo, to: FieldType) -> tuple[TableInfo, TableInfo, Reorg]:
    """Column k becomes `to`: the table while rows are written, the one afterwards, the plan."""
    old = info.column("k")
    assert old is not None
    asked = Modification(
        column=evolve(old, type=to), old_column_name="k", old_type=old.type, kind=ChangeKind.ROWS
    )
    placed, asked = modify_column.with_hidden_elements(info, asked)
    hidden = tuple(index for _, index in asked.changing_idxs)
    writing = modify_column.hidden_in_state(placed, asked, SchemaState.WRITE_REORG)
    plan = change_column(old.id, asked.changing_column_id, hidden)
    after = modify_column.replaced_in_state(
        modify_column.swapped(writing, asked), asked, SchemaState.ABSENT
    )
    return writing, after, plan


def narrowing(info: TableInfo, to: FieldType) -> tuple[TableInfo, Reorg]:
    """Column k is held to a type that stands as it stands now."""
    old = info.column("k")
    assert old is not None
    asked = Modification(
        column=evolve(old, type=to), old_column_name="k", old_type=old.type, kind=ChangeKind.CHECKED
    )
    return modify_column.with_announced_type(info, asked), change_column(old.id, 0, ())


def timed(reorg: PhaseRunner) -> Timing:
    """Steps it to its end."""
    phases: dict[str, float] = {}
    least = 0.0
    with Meter(os.getpid()) as meter:
        at = time.perf_counter()
        while True:
            kernel = reorg.kernel
            reached = reorg.step(time.monotonic())
            if isinstance(reached, Running):
                least = min(least, reached.rows_per_s)
                if reached.wake_s:
                    time.sleep(min(reached.wake_s, 0.05))
            now = time.perf_counter()
            phases[kernel] = phases.get(kernel, 0.0) + now - at
            at = now
            if isinstance(reached, Done):
                break
            if not isinstance(reached, Running | Waiting):
                raise SystemExit(f"the reorg ended as {reached}")
    return Timing(meter.usage.wall_s, meter.usage.cpu_s, phases, least)


def measure(rows: int, profiles: list[str], folder: Path, inline: bool, two: bool) -> None:
    """Load the table once, then three changes per profile; the index on k first."""
    url = f"lmdb://{folder / 'store'}"
    store = open_store(url)
    bootstrap(store)
    spark = None if inline else Spark(url)
    worker = WorkerProcess(url) if two else None
    try:
        info = table_of(1)
        info = evolve(
            info, index_info=tuple(evolve(i, state=SchemaState.PUBLIC) for i in info.indexes)
        )
        table = publish(store, info, 1)
        began = time.perf_counter()
        bulk.load(store, table, rows_of(rows))
        print(f"bulk load   {rows:>10,} rows in {time.perf_counter() - began:.1f} s")
        if spark is not None:
            spark.warm().wait()
        revision = 1
        column = info.column("k")
        assert column is not None
        number = column.type
        for profile in profiles:
            _set(store, profile, inline)
            for what, to in (("text", TEXT), ("number", number)):
                revision += 2
                writing, info, plan = changing(info, to)
                shown(
                    f"{profile} {what}", rows, _run(store, spark, worker, writing, revision, plan)
                )
                publish(store, info, revision + 1)
            revision += 2
            narrow = evolve(number, Tp=TypeCode.INT24, Flen=9)
            announced, plan = narrowing(info, narrow)
            shown(f"{profile} narrow", rows, _run(store, spark, worker, announced, revision, plan))
            publish(store, info, revision + 1)
    finally:
        if worker is not None:
            worker.stop()
        if spark is not None:
            spark.stop()
        store.close()


def _set(store: Store, profile: str, inline: bool) -> None:
    workers, batch = profile.split("/")
    txn = store.begin()
    variables.set_global(txn, "tidb_ddl_reorg_worker_cnt", workers)
    variables.set_global(txn, "tidb_ddl_reorg_batch_size", batch)
    if not inline:
        variables.set_global(txn, "exuvia_pipeline_inline_rows", "0")
    txn.commit()


def _run(
    store: Store,
    spark: Spark | None,
    worker: WorkerProcess | None,
    info: TableInfo,
    revision: int,
    plan: Reorg,
) -> Timing:
    table = publish(store, info, revision)
    found = timed(PhaseRunner(store, revision, 1, table, plan, spark, worker=worker))
    store.transact(lambda txn: checkpoint.forget(txn, revision))  # or the next shares with it
    return found


def shown(what: str, rows: int, timing: Timing) -> None:
    """One line."""
    phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in timing.phases.items())
    print(
        f"{what:>16}   {timing.wall_s:6.2f} s   {rows / timing.wall_s:>9,.0f} rows/s"
        f"   CPU {timing.cpu_s:6.2f} s   {phases}"
        f"{'   a rate below 0: ' + format(timing.least, '.0f') if timing.least < 0 else ''}",
        flush=True,
    )


def main() -> None:
    """Print the figures and how they came about."""
    parser = argparse.ArgumentParser(description="MODIFY COLUMN on a sysbench table")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--profiles", default="4/256,2/10240")
    parser.add_argument("--inline", action="store_true", help="without Spark")
    parser.add_argument("--two", action="store_true", help="a worker process does tasks too")
    asked = parser.parse_args()
    print(f"command     {' '.join(['python -m bench.rewrite', *sys.argv[1:]])}")
    print(f"machine     {os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}")
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-"))
    try:
        measure(asked.rows, asked.profiles.split(","), folder, asked.inline, asked.two)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
