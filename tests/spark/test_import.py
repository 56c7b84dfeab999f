"""Imports on Spark by real nodes: kill -9 in the middle, another node goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.node_processes import NodeProcess, end_all, until

ROWS, GROUP = 240_000, 60_000
TABLE = (
    "CREATE TABLE test.t (id BIGINT PRIMARY KEY, v VARCHAR(30), n INT, UNIQUE KEY by_v (v),"
    " KEY by_n (n))"
)


def asked(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """Returns the result of the last statement."""
    with node.connect(autocommit=True) as client, client.cursor() as cursor:
        for text in statements:
            cursor.execute(text)
        return list(cursor.fetchall())


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[NodeProcess]]:
    """The nodes that a test has started; all are ended."""
    begun: list[NodeProcess] = []
    yield begun
    end_all(begun)


def begin(nodes: list[NodeProcess], folder: Path) -> NodeProcess:
    options = ("--secure-file-priv", str(folder))
    log = folder / f"log{len(nodes)}"
    nodes.append(NodeProcess(f"lmdb://{folder / 'store'}", log, lease_s=3.0, options=options))
    return nodes[-1].wait_ready()


def write_files(folder: Path) -> None:
    ids = np.arange(ROWS)
    table = pa.table({"id": ids, "v": pa.array(ids).cast(pa.string()), "n": ids % 1000})
    pq.write_table(table, folder / "a.parquet", row_group_size=GROUP)


def job_of(node: NodeProcess) -> dict[str, Any]:
    with node.connect(autocommit=True) as client, client.cursor() as cursor:
        cursor.execute("SHOW IMPORT JOBS")
        (row,) = cursor.fetchall()
        return dict(zip([each[0] for each in cursor.description], row, strict=True))


def finished_spans(node: NodeProcess) -> int:
    return int(asked(node, "SELECT COUNT(*) FROM mysql.tidb_ddl_reorg")[0][0])


@pytest.mark.long
def test_another_node_continues_after_the_finished_spans_of_a_killed_one(
    tmp_path: Path, nodes: list[NodeProcess]
) -> None:
    write_files(tmp_path)
    first = begin(nodes, tmp_path)
    asked(
        first,
        TABLE,
        "SET GLOBAL exuvia_pipeline_inline_rows = 0",  # always on Spark
        "SET GLOBAL tidb_ddl_reorg_max_write_speed = 500000",
        "IMPORT INTO test.t FROM 'a.parquet' WITH detached",
    )
    until(lambda: finished_spans(first) >= 3, 120)
    assert asked(first, "SELECT COUNT(*) FROM test.t") == [(0,)]
    first.kill()

    second = begin(nodes, tmp_path)
    before = finished_spans(second)
    assert 3 <= before < ROWS // 10_000
    asked(second, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")

    def goes_on() -> bool:
        rows = asked(second, "ADMIN SHOW DDL JOBS")
        return any("before a restart" in str(row) for row in rows) or ended()

    def ended() -> bool:
        return job_of(second)["Status"] not in ("pending", "running")

    until(goes_on, 120)
    until(ended, 120)
    job = job_of(second)
    assert (job["Status"], job["Imported_Rows"]) == ("finished", ROWS), job
    found = asked(second, "SELECT COUNT(*), SUM(id), COUNT(DISTINCT v) FROM test.t")
    assert [int(each) for each in found[0]] == [ROWS, ROWS * (ROWS - 1) // 2, ROWS]
    asked(second, "ADMIN CHECK TABLE test.t")
    assert finished_spans(second) == 0
