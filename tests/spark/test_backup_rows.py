"""Spark's workers write the rows of a backup, load and compare them; Spark reads its files."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pyarrow as pa
import pytest

from exuvia.backup.rows import FILE_ROWS, HERE_ROWS
from exuvia.catalog.infoschema import Schemas
from exuvia.kv.store import open_store
from exuvia.node.assemble import EVALUATOR
from exuvia.pipeline import bulk
from support.node_processes import NodeProcess, end_all
from support.postgres import shared_server
from support.spark import SparkStore
from support.spark_cluster import standalone

ROWS = HERE_ROWS[True] + 50_000


def command(master: str, *words: str) -> tuple[str, str]:
    """Returns its standard output and standard error."""
    made = subprocess.run(
        [sys.executable, "-m", "exuvia.cli.main", *words, "--spark-master", master],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout, made.stderr


@contextmanager
def places(where: str, folder: Path) -> Iterator[tuple[str, str, str]]:
    """A master, a store, and the place for the restore."""
    if where == "local":
        yield "local[2]", f"lmdb://{folder}/store", f"lmdb://{folder}/new"
        return
    server = shared_server()
    with standalone(folder, 2) as cluster:
        yield cluster.url, server.new_url(), server.new_url()
        assert list(cluster.folder.glob("worker*/app-*/*/stderr")), "its workers did nothing"


@pytest.mark.long
@pytest.mark.parametrize("where", ["local", "cluster"])
def test_spark_makes_and_restores_a_backup(
    where: str, tmp_path: Path, spark_store: SparkStore
) -> None:
    made = str(tmp_path / "backup")
    with places(where, tmp_path) as (master, url, new):
        node = NodeProcess(url, tmp_path / "log").wait_ready()
        try:
            with node.connect(autocommit=True) as client:  # a table with hidden ids
                client.cursor().execute("CREATE TABLE test.t (a BIGINT, b VARCHAR(20), KEY (a))")
        finally:
            end_all([node])
        back_up_and_restore(spark_store, master, url, made, new)


def counted_by_its_server(url: str) -> None:
    """Whether Spark is worthwhile depends on the table's size, which autovacuum updates late."""
    parts = urlsplit(url)
    schema = parse_qs(parts.query)["schema"][0]
    with psycopg.connect(parts._replace(query="").geturl(), autocommit=True) as server:
        server.execute(f"ANALYZE {schema}.kv".encode())


def back_up_and_restore(
    spark_store: SparkStore, master: str, url: str, made: str, new: str
) -> None:
    with closing(open_store(url)) as store:
        with store.read() as txn:
            table = Schemas(store, evaluator=EVALUATOR).table(txn, "test", "t")
        numbers = range(ROWS)
        texts = [f"b{n % 1000}" for n in numbers]
        batch = pa.RecordBatch.from_pydict({"a": pa.array(numbers), "b": pa.array(texts)})
        bulk.load(store, table, [batch])
    if url.startswith("postgresql:"):
        counted_by_its_server(url)
    said, told = command(master, "backup", "--store", url, "--to", made)
    assert re.search(rf"{ROWS // 1000},\d\d\d rows of \d+ tables", said)
    lines = re.findall(
        r"^[\d,]+ of about [\d,]+ rows of \d+ tables, [\d,]+ rows/s$", told, re.MULTILINE
    )
    assert len(lines) >= 3
    files = list((Path(made) / "rows" / "test.t").iterdir())
    assert len(files) == -(-ROWS // FILE_ROWS)
    frame = spark_store.spark.session().read.parquet(f"{made}/rows/test.t")
    [row] = frame.selectExpr("count(*)", "sum(a)", "count(distinct _tidb_rowid)").collect()
    assert tuple(row) == (ROWS, ROWS * (ROWS - 1) // 2, ROWS)
    assert "is whole" in command(master, "backup", "verify", made)[0]
    assert (
        "indexes and foreign keys compared" in command(master, "restore", made, "--store", new)[1]
    )
    with closing(open_store(new)) as store, closing(store.snapshot()) as view:
        with store.read() as txn:
            again = Schemas(store, evaluator=EVALUATOR).table(txn, "test", "t")
        assert view.count(again.row_span()) == ROWS
        assert view.count(again.index_span(again.info.indexes[0])) == ROWS
