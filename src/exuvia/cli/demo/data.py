"""TPC-H's eight tables: definitions, data (by tpchgen-cli), and the bulk load into fresh tables."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

SCHEMA = {
    "region": "r_regionkey INT PRIMARY KEY, r_name CHAR(25) NOT NULL, r_comment VARCHAR(152)",
    "nation": "n_nationkey INT PRIMARY KEY, n_name CHAR(25) NOT NULL, n_regionkey INT NOT NULL, "
    "n_comment VARCHAR(152)",
    "supplier": "s_suppkey INT PRIMARY KEY, s_name CHAR(25) NOT NULL, s_address VARCHAR(40) "
    "NOT NULL, s_nationkey INT NOT NULL, s_phone CHAR(15) NOT NULL, "
    "s_acctbal DECIMAL(15,2) NOT NULL, s_comment VARCHAR(101) NOT NULL",
    "part": "p_partkey INT PRIMARY KEY, p_name VARCHAR(55) NOT NULL, p_mfgr CHAR(25) NOT NULL, "
    "p_brand CHAR(10) NOT NULL, p_type VARCHAR(25) NOT NULL, p_size INT NOT NULL, "
    "p_container CHAR(10) NOT NULL, p_retailprice DECIMAL(15,2) NOT NULL, "
    "p_comment VARCHAR(23) NOT NULL",
    "partsupp": "ps_partkey INT NOT NULL, ps_suppkey INT NOT NULL, ps_availqty INT NOT NULL, "
    "ps_supplycost DECIMAL(15,2) NOT NULL, ps_comment VARCHAR(199) NOT NULL, "
    "PRIMARY KEY (ps_partkey, ps_suppkey)",
    "customer": "c_custkey INT PRIMARY KEY, c_name VARCHAR(25) NOT NULL, "
    "c_address VARCHAR(40) NOT NULL, c_nationkey INT NOT NULL, c_phone CHAR(15) NOT NULL, "
    "c_acctbal DECIMAL(15,2) NOT NULL, c_mktsegment CHAR(10) NOT NULL, "
    "c_comment VARCHAR(117) NOT NULL",
    "orders": "o_orderkey BIGINT PRIMARY KEY, o_custkey INT NOT NULL, o_orderstatus CHAR(1) "
    "NOT NULL, o_totalprice DECIMAL(15,2) NOT NULL, o_orderdate DATE NOT NULL, "
    "o_orderpriority CHAR(15) NOT NULL, o_clerk CHAR(15) NOT NULL, o_shippriority INT NOT NULL, "
    "o_comment VARCHAR(79) NOT NULL",
    "lineitem": "l_orderkey BIGINT NOT NULL, l_partkey INT NOT NULL, l_suppkey INT NOT NULL, "
    "l_linenumber INT NOT NULL, l_quantity DECIMAL(15,2) NOT NULL, "
    "l_extendedprice DECIMAL(15,2) NOT NULL, l_discount DECIMAL(15,2) NOT NULL, "
    "l_tax DECIMAL(15,2) NOT NULL, l_returnflag CHAR(1) NOT NULL, l_linestatus CHAR(1) NOT NULL, "
    "l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, l_receiptdate DATE NOT NULL, "
    "l_shipinstruct CHAR(25) NOT NULL, l_shipmode CHAR(10) NOT NULL, l_comment VARCHAR(44) "
    "NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber)",
}


def create_statements() -> list[str]:
    """The statements that make the empty tables."""
    tables = [f"CREATE TABLE {name} ({columns})" for name, columns in SCHEMA.items()]
    return ["CREATE DATABASE tpch", "USE tpch", *tables]


def generate(folder: Path, scale: float) -> None:
    """Write one Parquet file per table. Raises RuntimeError with the generator's words."""
    program = Path(sys.executable).parent / "tpchgen-cli"
    command = [str(program), "parquet", "-s", str(scale), f"--output-dir={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"tpchgen-cli failed: {done.stderr[-1000:]}")


def batches(folder: Path, table: str) -> "Iterator[pyarrow.RecordBatch]":
    """The rows of one table, columns in the order of its definition."""
    from pyarrow import parquet

    file = parquet.ParquetFile(folder / f"{table}.parquet")
    yield from file.iter_batches(batch_size=100_000)


def load(store_url: str, folder: Path) -> dict[str, int]:
    """Bulk-load every table of the database `tpch`; rows per table."""
    from exuvia.catalog.infoschema import Schemas
    from exuvia.kv.open import open_store
    from exuvia.pipeline import bulk

    store = open_store(store_url)
    try:
        loaded = {}
        for name in SCHEMA:
            transaction = store.begin()
            table = Schemas(store).table(transaction, "tpch", name)
            transaction.rollback()
            loaded[name] = bulk.load(store, table, batches(folder, name))
        return loaded
    finally:
        store.close()
