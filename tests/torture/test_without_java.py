"""No Java on the machine: the node serves, small tables get their indexes, and a job that needs
Spark waits and says what to install."""

from pathlib import Path

import pytest

from support.node_processes import until
from support.torture import MARK, begin, job_of, nodes_to_hurt, run, wait_for_job


@pytest.mark.parametrize(
    "java_comes", [False, pytest.param(True, marks=pytest.mark.long)], ids=["waits", "goes on"]
)
def test_a_job_that_needs_spark_waits_for_java_and_the_node_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java_comes: bool
) -> None:
    with monkeypatch.context() as bare:
        bare.setenv("PATH", str(tmp_path))
        bare.delenv("JAVA_HOME", raising=False)
        with nodes_to_hurt(tmp_path, bare, count=1) as nodes:
            node = nodes.slots[0]
            run(node, "CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT)")
            run(node, "INSERT INTO t VALUES (1, 10, 7), (2, 20, 8)")
            run(node, "ALTER TABLE t ADD INDEX ib (b)", "ADMIN CHECK TABLE t")
            assert run(node, "SELECT a FROM t WHERE b = 20") == [(2,)]
            run(node, "SET GLOBAL exuvia_pipeline_inline_rows = 0")
            begin(node, "ALTER TABLE t ADD INDEX ic (c)")
            until(lambda: "Java" in job_of(node, "add index")["COMMENTS"])
            job = job_of(node, "add index")
            assert "openjdk-17-jre-headless" in job["COMMENTS"]
            assert (job["SCHEMA_STATE"], job["STATE"]) == ("write reorganization", "running")
            run(node, "INSERT INTO t VALUES (3, 30, 9)", "CREATE TABLE u (a INT)")
            assert run(node, "SELECT a FROM t WHERE c = 9") == [(3,)]
            assert node.get("/readyz")[0] == 200
            assert nodes.machines() == []
            if not java_comes:
                return
            nodes.kill_node(0)
            bare.undo()
            monkeypatch.setenv(MARK, nodes.mark)
            again = nodes.begin_again(0).wait_ready()
            assert wait_for_job(again, "add index")["JOB_ID"] == job["JOB_ID"]
            assert len(nodes.machines()) == 1, "Spark did it"
            run(again, "ADMIN CHECK TABLE t")
            assert run(again, "SELECT a FROM t WHERE c = 9") == [(3,)]
