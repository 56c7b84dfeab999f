"""Spark's workers write the rows of a backup, load and compare them; Spark reads its files."""

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from exuvia.backup.rows import FILE_ROWS, HERE_ROWS
from exuvia.catalog.infoschema import Schemas
from exuvia.kv.store import open_store
from exuvia.node.assemble import EVALUATOR
from exuvia.pipeline import bulk
from support.node_processes import running_nodes
from support.spark import SparkStore

ROWS = HERE_ROWS[True] + 50_000


def command(*words: str) -> tuple[str, str]:
    """What it writes to standard output, and to standard error."""
    made = subprocess.run(
        [sys.executable, "-m", "exuvia.cli.main", *words, "--spark-master", "local[2]"],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout, made.stderr


@pytest.mark.long
def test_spark_makes_a_backup_and_a_store_of_it(tmp_path: Path, spark_store: SparkStore) -> None:
    made, new = str(tmp_path / "backup"), f"lmdb://{tmp_path}/new"
    with running_nodes(tmp_path) as (node,), node.connect(autocommit=True) as client:
        cursor = client.cursor()
        cursor.execute("CREATE TABLE test.t (a BIGINT, b VARCHAR(20), KEY (a))")  # hidden ids
        url = node.store
    with closing(open_store(url)) as store:
        with store.read() as txn:
            table = Schemas(store, evaluator=EVALUATOR).table(txn, "test", "t")
        numbers = range(ROWS)
        texts = [f"b{n % 1000}" for n in numbers]
        batch = pa.RecordBatch.from_pydict({"a": pa.array(numbers), "b": pa.array(texts)})
        bulk.load(store, table, [batch])
    said, told = command("backup", "--store", url, "--to", made)
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
    assert "is whole" in command("verify-backup", made)[0]
    assert "indexes and foreign keys compared" in command("restore", made, "--store", new)[1]
    with closing(open_store(new)) as store, store.read() as txn:
        again = Schemas(store, evaluator=EVALUATOR).table(txn, "test", "t")
        assert store.count(again.row_span()) == ROWS
        assert store.count(again.index_span(again.info.indexes[0])) == ROWS
