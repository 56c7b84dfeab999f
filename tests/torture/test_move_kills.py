"""kill -9 of the whole node whose Spark moves rows into partitions, under writers: the other node
goes on with the same job, and what was finished is not done again."""

from pathlib import Path

import pyarrow as pa
import pytest

from exuvia.pipeline import bulk
from support.node_processes import until
from support.torture import (
    PATIENCE_S,
    Checkpoint,
    Nodes,
    Writer,
    begin,
    expected,
    first_cells,
    job_of,
    nodes_to_hurt,
    own_store,
    plan,
    run,
    wait_for_job,
)

ROWS = 12_000
SPAN_ROWS = 1_500
PARTITION = "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 3"
KIND = "alter table partition by"


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with nodes_to_hurt(tmp_path, monkeypatch) as running:
        yield running


def batch_of() -> pa.RecordBatch:
    cells = [first_cells(n, ROWS) or (0, 0) for n in range(ROWS)]
    return pa.record_batch(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "k": pa.array([k for k, _ in cells], pa.int32()),
            "v": pa.array([v for _, v in cells], pa.int64()),
        }
    )


@pytest.mark.long
def test_a_move_goes_on_where_its_killed_node_left_it(nodes: Nodes) -> None:
    columns = "id BIGINT PRIMARY KEY, k INT NOT NULL, v BIGINT NOT NULL, KEY ik (k)"
    run(nodes.slots[0], f"CREATE TABLE t ({columns})")
    with own_store(nodes.url) as store:
        assert bulk.load(store, plan(store, "t"), [batch_of()]) == ROWS
        run(
            nodes.slots[0],
            "SET GLOBAL exuvia_pipeline_inline_rows = 0",
            f"SET GLOBAL exuvia_ddl_reorg_span_rows = {SPAN_ROWS}",
            "SET GLOBAL tidb_ddl_reorg_batch_size = 64",
        )
        writers = [Writer(nodes, "t", n, 2, ROWS // 2) for n in range(2)]
        begin(nodes.slots[0], PARTITION)
        job_id = int(job_of(nodes.slots[1], KIND)["JOB_ID"])
        checkpoint = Checkpoint(store, job_id)
        try:
            until(lambda: len(checkpoint.spans) > 1, PATIENCE_S, "no span was finished")
            nodes.kill_node(nodes.owner_slot())
            before = len(checkpoint.spans)
            run(nodes.living()[0], "SET GLOBAL tidb_ddl_reorg_batch_size = 10240")
            job = wait_for_job(nodes.living()[0], KIND)
        finally:
            checkpoint.stop()
            for writer in writers:
                writer.stop()
        assert int(job["JOB_ID"]) == job_id
        assert 1 < before < ROWS // SPAN_ROWS, "it was killed on its way"
        assert checkpoint.faults == []
        assert checkpoint.overlaps() == []
    node = nodes.living()[0]
    run(node, "ADMIN CHECK TABLE t")
    assert [row[0] for row in run(node, "SELECT COUNT(*) FROM t WHERE k >= 0")] == [
        row[0] for row in run(node, "SELECT COUNT(*) FROM t USE INDEX (ik) WHERE k >= 0")
    ]
    found = {row_id: (k, v) for row_id, k, v in run(node, "SELECT id, k, v FROM t")}
    assert found == expected(writers, ROWS)
