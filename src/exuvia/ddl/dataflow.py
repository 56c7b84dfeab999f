"""The stages of a reorg with engine, tasks and bytes, for EXPLAIN.

    fill: spill     spark   16 task(s), reads 4000000000 bytes, spills 2340000000 bytes
    fill: merge     spark   8 task(s), reads 2340000000 bytes, writes 2340000000 bytes
    verify: compare spark   8 task(s), reads 6340000000 bytes

Estimates, by the rules of pipeline/phase_runner.py. The engine is that of a node with this host's
processors, Java and EXUVIA_SPARK_MASTER, whose Spark is not started.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from exuvia.base.limits import COLD_INLINE, EXCHANGED_ROWS
from exuvia.catalog.model import DatabaseInfo, TableInfo
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import engine
from exuvia.pipeline.reorg import COMPARE, Phase, Reorg
from exuvia.pipeline.spark import Spark, is_remote, java

ENTRY_BYTES = 14 + 8 + 8  # prefix, handle, commit sequence; the columns of the key are added
KEY_COLUMN_BYTES = 9


class StageEstimate(NamedTuple):
    """One stage. `name`: the phase, and its part of the dataflow."""

    name: str
    rows: int
    tasks: int
    read: int
    spilled: int = 0
    written: int = 0

    def describe(self) -> str:
        """Tasks and bytes as text; zeros are omitted."""
        sizes = {"reads": self.read, "spills": self.spilled, "writes": self.written}
        parts = [f"{verb} {size} bytes" for verb, size in sizes.items() if size]
        return ", ".join([f"{self.tasks} task(s)", *parts])


class ReorgRows(NamedTuple):
    """The rows of a reorg: of each physical table, and the bytes of all. `spills`: the store has a
    folder for sorted runs."""

    table: TableInfo
    database: DatabaseInfo
    counts: tuple[int, ...]
    size: int
    spills: bool

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(self.counts)


def engine_of(txn: Transaction, subject: ReorgRows, reorg: Reorg) -> tuple[str, int]:
    """Returns the engine, LOCAL or SPARK, and its number of concurrent tasks."""
    inline_rows = variables.read_int(txn, "exuvia_pipeline_inline_rows")
    writers = variables.read_int(txn, "tidb_ddl_reorg_worker_cnt")
    setting = variables.get_global(txn, "exuvia_pipeline_engine").lower()
    limit = reorg.inline_rows(inline_rows)
    sizes = subject.rows, subject.size, limit, COLD_INLINE * inline_rows
    work = engine.Workload(*sizes, is_light=limit > inline_rows)
    here = 1 + (work.rows >= engine.SHARED_ROWS and writers > 1)
    spark = Spark("")

    def available() -> bool:
        return java() is not None or is_remote(spark.master)

    if engine.chooses_spark(setting, work, spark, available, here, writers):
        return engine.SPARK, spark.expected_at_once
    return engine.LOCAL, here


def stages_of(
    txn: Transaction, subject: ReorgRows, reorg: Reorg, at_once: int
) -> Iterator[StageEstimate]:
    """Yields the stages of all phases in order. `at_once`: concurrent tasks of the engine."""
    span_rows = variables.read_int(txn, "exuvia_ddl_reorg_span_rows")
    verify = variables.get_global(txn, "exuvia_ddl_verify").lower()
    for phase in (*reorg.phases, *reorg.whole):
        if phase.verifies and verify == "off":
            continue
        if phase.kernel == "fill":
            yield from _fill(subject, phase, span_rows, at_once)
            continue
        rows = phase.most_rows or span_rows
        if phase.index_ids and phase.kernel in ("rewrite", COMPARE):
            rows = _run(subject, phase.index_ids, rows)
        tasks = sum(_pieces(count, rows, at_once) for count in subject.counts)
        entries = entry_bytes(subject.table, phase.index_ids, subject.rows)
        read = subject.size + (entries if phase.kernel == COMPARE else 0)
        written = bytes_written(phase, subject.table, subject.rows, subject.size)
        name = phase.kernel if phase.label == phase.kernel else f"{phase.label}: {phase.kernel}"
        yield StageEstimate(name, subject.rows, tasks, read, 0, written)


def _fill(
    subject: ReorgRows, phase: Phase, span_rows: int, at_once: int
) -> Iterator[StageEstimate]:
    """The backfill of each table in one run, or through sorted runs on disk
    (pipeline/kernels/exchange.py). Both occur if partitions differ."""
    most = min(span_rows, _run(subject, phase.index_ids, span_rows))
    large = [n for n in subject.counts if subject.spills and n > max(most, EXCHANGED_ROWS)]
    small = [n for n in subject.counts if n not in large]
    each_row = subject.size / max(1, subject.rows)
    if small:
        tasks, rows = 0, sum(small)
        for count in small:
            least = engine.least_tasks(count, at_once)
            run = min(_run(subject, phase.index_ids, span_rows), -(-count // least) or 1)
            tasks += _pieces(count, run, at_once if least > 1 else 1)
        written = entry_bytes(subject.table, phase.index_ids, rows)
        yield StageEstimate("fill", rows, tasks, round(each_row * rows), 0, written)
    if large:
        rows = sum(large)
        spilled = entry_bytes(subject.table, phase.index_ids, rows)
        spills = merges = 0
        for count in large:
            least = max(at_once, engine.least_tasks(count, at_once))
            run = min(_run(subject, phase.index_ids, span_rows), count // least)
            spills += _pieces(count, run, at_once)
            for index_id in phase.index_ids:
                merges += _pieces(count, _run(subject, (index_id,), span_rows), at_once)
        yield StageEstimate("fill: spill", rows, spills, round(each_row * rows), spilled)
        yield StageEstimate("fill: merge", rows, merges, spilled, 0, spilled)


def _run(subject: ReorgRows, index_ids: Sequence[int], span_rows: int) -> int:
    from exuvia.pipeline.kernels.entries import run_rows  # imports pyarrow, so only on demand

    return run_rows(Table(subject.table, 0, subject.database, 0), index_ids, span_rows)


def _pieces(count: int, rows: int, at_once: int) -> int:
    """The number of tasks, as `checkpoint.cut` cuts an unfinished table."""
    parts = max(1, -(-count // max(1, rows)))
    return -(-parts // at_once) * at_once if parts > 1 else 1


def entry_bytes(table: TableInfo, index_ids: Sequence[int], rows: int) -> int:
    """Estimated bytes of the entries of some indexes."""
    widths = [len(index.idx_cols) for index in table.indexes if index.id in index_ids]
    return rows * sum(ENTRY_BYTES + KEY_COLUMN_BYTES * width for width in widths)


def bytes_written(phase: Phase, table: TableInfo, rows: int, size: int) -> int:
    """Estimated bytes that a phase writes. `size`: bytes of all rows."""
    if phase.element is None or phase.kernel == "clean":
        return 0
    if not phase.index_ids or phase.changing:  # the following backfill counts the entries
        return size
    return entry_bytes(table, phase.index_ids, rows)
