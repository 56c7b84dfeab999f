"""ANALYZE of a sysbench table on a warm Spark, and how right it is, on it and on TPC-H's lineitem.

    python -m bench.analyze                    5 million rows; read, sketch, sample, build, write
    python -m bench.analyze --rows 1000000 --inline          in this process, without Spark
    python -m bench.analyze --tpch 0.5         lineitem at that scale too (needs tpchgen-cli)
    python -m bench.analyze --mariadb          ANALYZE TABLE ... PERSISTENT FOR ALL of the same rows

NDV error: against the exact number of different values. Quantile error: the largest difference, in
shares of the rows, between what bounds of buckets say and where they stand among all values.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow

from bench.add_index import publish, rows_of, table_of
from bench.add_index_mariadb import Peer
from exuvia.base.clock import SystemClock
from exuvia.base.types import Family, FieldType, Flag, TypeCode
from exuvia.catalog import variables
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.model import TableInfo, evolve
from exuvia.catalog.state import SchemaState
from exuvia.catalog.static_ddl import table as static_table
from exuvia.catalog.table import Table, with_layout
from exuvia.kv.open import open_store
from exuvia.kv.store import Store
from exuvia.pipeline import bulk
from exuvia.pipeline.spark import Spark
from exuvia.stats import bounds, meta, records
from exuvia.stats.analysis import statistics_of, subject_of
from exuvia.stats.reading import Reading
from exuvia.stats.records import Statistics

_DECIMAL = FieldType(Tp=TypeCode.NEWDECIMAL, Flag=Flag.NOT_NULL, Flen=15, Decimal=2)
_DATE = FieldType(Tp=TypeCode.DATE, Flag=Flag.NOT_NULL, Flen=10)
_KINDS = {
    **dict.fromkeys(("l_quantity", "l_extendedprice", "l_discount", "l_tax"), _DECIMAL),
    **dict.fromkeys(("l_shipdate", "l_commitdate", "l_receiptdate"), _DATE),
}
_NUMBERS = ("l_orderkey", "l_partkey", "l_suppkey", "l_linenumber", *_KINDS)
_TEXTS = ("l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode", "l_comment")
_PLAIN = static_table(
    101,
    "lineitem",
    *(f"{each} bigint not null" for each in _NUMBERS),
    *(f"{each} varchar(44) not null" for each in _TEXTS),
    plain={"l_part": "l_partkey", "l_both": "l_partkey, l_suppkey"},
)
LINEITEM = with_layout(
    evolve(
        _PLAIN,
        cols=tuple(evolve(c, type=_KINDS.get(c.name.L, c.type)) for c in _PLAIN.cols),
        exuvia_layouts=(),
    )
)


ORDER = (
    *("l_orderkey", "l_partkey", "l_suppkey", "l_linenumber", "l_quantity", "l_extendedprice"),
    *("l_discount", "l_tax", "l_returnflag", "l_linestatus", "l_shipdate", "l_commitdate"),
    *("l_receiptdate", "l_shipinstruct", "l_shipmode", "l_comment"),
)


def analyzed(store: Store, spark: Spark | None, table: Table) -> list[Statistics]:
    """Analyze a table and write what was found."""
    subject = subject_of(table)
    reading = Reading(store, spark, SystemClock())
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


def errors(info: TableInfo, statistics: list[Statistics], data: pyarrow.Table) -> None:
    """Print how wrong each column's statistics are."""
    connection = duckdb.connect()
    connection.register("t", data)
    worst_ndv = worst_quantile = 0.0
    for each in statistics:
        if each.is_index:
            continue
        (column,) = (c for c in info.cols if c.id == each.hist_id)
        name = column.name.O
        value = f"rtrim({name})" if column.type.family == Family.STRING else name  # PAD SPACE
        exact, rows = _one(connection, f"SELECT count(DISTINCT {value}), count({name}) FROM t")
        ndv = abs(each.distinct - exact) / max(1, exact)
        quantile = _quantile_error(connection, column, each, rows)
        print(f"  {name:<16} NDV {exact:>10,}  error {ndv:7.3%}   quantiles {quantile:7.3%}")
        worst_ndv, worst_quantile = max(worst_ndv, ndv), max(worst_quantile, quantile)
    print(
        f"  worst            NDV error {worst_ndv:.3%} (goal 3 %), quantiles {worst_quantile:.3%}",
        end="",
    )
    print(" (goal 1 %)")


def _one(connection: Any, query: str, values: Iterable[Any] = ()) -> Any:
    return connection.execute(query, list(values)).fetchone()


def _quantile_error(connection: Any, column: Any, found: Statistics, rows: int) -> float:
    if column.type.family in (Family.DATE, Family.DATETIME):
        kind = "DATE"
    else:
        kind = connection.execute(f"SELECT typeof({column.name.O}) FROM t LIMIT 1").fetchone()[0]
    top = dict(found.top)
    said = worst = 0.0
    commons = sorted(top)
    for bucket in found.buckets:
        said += bucket.rows
        upper = bounds.shown(bucket.upper, is_index=False)
        below = [value.decode() for value in commons]
        name = column.name.O
        query = f"SELECT count(*) FROM t WHERE {name} <= CAST(? AS {kind})"
        values = [upper]
        if below:
            marks = ", ".join(f"CAST(? AS {kind})" for _ in below)
            query += f" AND {name} NOT IN ({marks})"
            values += below
        (there,) = _one(connection, query, values)
        worst = max(worst, abs(there - said) / rows)
    for value, number in top.items():
        (there,) = _one(
            connection,
            f"SELECT count(*) FROM t WHERE {column.name.O} = CAST(? AS {kind})",
            [value.decode()],
        )
        worst = max(worst, abs(there - number) / rows)
    return worst


def _lineitem(path: Path) -> pyarrow.Table:
    names = [c.name.O for c in LINEITEM.cols]
    given = [c for c in ORDER if c in names]
    connection = duckdb.connect()
    kinds = {
        **dict.fromkeys((*_NUMBERS,), "BIGINT"),
        **dict.fromkeys(_TEXTS, "VARCHAR"),
        **{each: "DECIMAL(15,2)" for each, kind in _KINDS.items() if kind is _DECIMAL},
        **{each: "DATE" for each, kind in _KINDS.items() if kind is _DATE},
    }
    columns = ", ".join(f"'{each}': '{kinds[each]}'" for each in given)
    query = f"SELECT * FROM read_csv('{path}', delim='|', header=false, columns={{{columns}}})"
    return connection.sql(query).to_arrow_table()


def tpch(store: Store, spark: Spark | None, folder: Path, scale: float) -> None:
    """lineitem at a scale."""
    command = ["tpchgen-cli", "-s", str(scale), "--tables=lineitem"]
    program = Path(sys.executable).with_name(command[0])
    subprocess.run([str(program), *command[1:], f"--output-dir={folder}"], check=True)
    data = _lineitem(folder / "lineitem.tbl")
    table = publish(store, LINEITEM, 1)
    bulk.load(store, table, data.to_batches(max_chunksize=100_000))
    began = time.perf_counter()
    statistics = analyzed(store, spark, table)
    seconds = time.perf_counter() - began
    print(f"lineitem    {data.num_rows:>10,} rows in {seconds:.2f} s")
    errors(LINEITEM, statistics, data)


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
        errors(info, statistics, pyarrow.Table.from_batches(rows_of(rows)))
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
    parser.add_argument("--mariadb", action="store_true", help="compare with MariaDB")
    asked = parser.parse_args()
    print(f"command     {' '.join(['python -m bench.analyze', *sys.argv[1:]])}")
    load = os.getloadavg()[0]
    print(f"machine     {os.cpu_count()} processors, load average {load:.1f} before the start")
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-"))
    try:
        ours = measure(asked.rows, folder, asked.inline, asked.tpch)
        if asked.mariadb:
            seconds = Peer(folder / "mariadb").statement_s(
                rows_of(asked.rows),
                "ALTER TABLE sbtest1 ADD INDEX k_1 (k)",
                "ANALYZE TABLE sbtest1 PERSISTENT FOR ALL",
            )
            print(f"MariaDB     ANALYZE TABLE ... PERSISTENT FOR ALL {seconds:6.2f} s")
            print(f"ratio       {seconds / ours:.2f} times as fast")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
