"""Whole nodes on a store on PostgreSQL whose reorganisations run on a standalone Spark cluster."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.node_processes import NodeProcess, end_all, until
from support.postgres import shared_server
from support.spark_cluster import START_S, Cluster, connect_server, standalone

ROWS = 6000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with standalone(tmp_path, 2) as started:
        yield started


@pytest.fixture
def node(tmp_path: Path, cluster: Cluster) -> Iterator[NodeProcess]:
    """Runs on the cluster."""
    with running_node(tmp_path, cluster.url) as started:
        yield started


@contextmanager
def running_node(folder: Path, master: str) -> Iterator[NodeProcess]:
    """A node with some rows in shop.t; all work on many rows goes to Spark."""
    url = shared_server().new_url()
    started = NodeProcess(url, folder / "node.log", options=("--spark-master", master))
    try:
        started.wait_ready()
        run(started, "CREATE DATABASE shop", database=None)
        run(started, "SET GLOBAL exuvia_pipeline_inline_rows = 0")
        run(started, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))")
        for at in range(0, ROWS, 1000):
            rows = ", ".join(f"({n}, {n % 977}, 'b{n}')" for n in range(at, at + 1000))
            run(started, f"INSERT INTO t VALUES {rows}")
        yield started
    finally:
        end_all([started])


def run(
    node: NodeProcess, *statements: str, database: str | None = "shop"
) -> list[tuple[Any, ...]]:
    """The last statement's rows."""
    with node.connect(database, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def comments(node: NodeProcess) -> str:
    """COMMENTS of the unfinished job, or of the last one."""
    return str(run(node, "ADMIN SHOW DDL JOBS 1")[0][12])


def executors(cluster: Cluster) -> list[Path]:
    """Returns the workers' logs: a folder for each executor, with the output of its tasks."""
    return sorted(cluster.folder.glob("worker*/app-*/*/stderr"))


def test_a_fill_on_a_standalone_cluster(tmp_path: Path) -> None:
    with standalone(tmp_path, 1) as cluster, running_node(tmp_path, cluster.url) as node:
        run(node, "CREATE INDEX ia ON t (a)")
        assert executors(cluster)
        assert run(node, "SELECT COUNT(*) FROM t USE INDEX (ia) WHERE a >= 0") == [(ROWS,)]


@pytest.mark.long
def test_a_fill_and_a_rewrite_on_a_standalone_cluster(node: NodeProcess, cluster: Cluster) -> None:
    run(node, "CREATE INDEX ia ON t (a)")
    assert executors(cluster)
    run(node, "ALTER TABLE t MODIFY b VARCHAR(5) NOT NULL")
    run(node, "ADMIN CHECK TABLE t")
    assert run(node, "SELECT COUNT(*) FROM t USE INDEX (ia) WHERE a >= 0") == [(ROWS,)]


@pytest.mark.long
def test_a_fill_and_a_rewrite_through_spark_connect(tmp_path: Path) -> None:
    with connect_server(tmp_path) as master, running_node(tmp_path, master) as node:
        run(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = '16KiB'")
        changing = threading.Thread(target=lambda: run(node, "CREATE INDEX ia ON t (a)"))
        changing.start()
        seen = re.compile(r"spark: 0 of \d+ task\(s\) done, [1-9]\d* running")
        until(lambda: seen.search(comments(node)), about=lambda: comments(node))
        run(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
        changing.join()
        run(node, "ALTER TABLE t MODIFY b VARCHAR(5) NOT NULL")
        run(node, "ADMIN CHECK TABLE t")
        assert run(node, "SELECT COUNT(*) FROM t USE INDEX (ia) WHERE a >= 0") == [(ROWS,)]
    said = "".join(file.read_text() for file in (tmp_path / "events").rglob("events*"))
    assert said.count("SparkListenerTaskEnd") >= 3


@pytest.mark.long
def test_tasks_of_a_killed_worker_are_repeated(node: NodeProcess, cluster: Cluster) -> None:
    run(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = '16KiB'")
    changing = threading.Thread(target=lambda: run(node, "CREATE INDEX ia ON t (a)"))
    changing.start()
    until(lambda: executors(cluster))
    until(lambda: "2 executor(s)" in comments(node), about=lambda: comments(node))
    cluster.end(cluster.workers[0])
    until(lambda: "Spark lost executor" in comments(node), about=lambda: comments(node))
    run(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
    changing.join()
    run(node, "ADMIN CHECK TABLE t")


@pytest.mark.long
def test_a_cluster_where_no_worker_fits_is_named_until_one_does(tmp_path: Path) -> None:
    with standalone(tmp_path, 0) as cluster, running_node(tmp_path, cluster.url) as node:
        run(node, "SET exuvia_ddl_async = ON", "CREATE INDEX ia ON t (a)")
        none = f"no worker has registered at Spark's master {cluster.url}"
        until(lambda: none in comments(node), about=lambda: comments(node))
        cluster.add_worker(memory="512m")
        small = "fits: an executor needs 1024 MiB and 1 core(s), the largest of 1 worker(s) has 512"
        until(lambda: small in comments(node), about=lambda: comments(node))
        cluster.add_worker()
        jobs = "ADMIN SHOW DDL JOBS 1"
        until(lambda: run(node, jobs)[0][11] == "synced", START_S, lambda: run(node, jobs))
        run(node, "ADMIN CHECK TABLE t")
        assert executors(cluster)


@pytest.mark.long
def test_a_job_whose_cluster_is_killed_reports_it_and_continues_on_the_next(
    node: NodeProcess, cluster: Cluster
) -> None:
    run(node, "CREATE INDEX ia ON t (a)")
    assert cluster.master is not None
    for each in (cluster.master, *cluster.workers):
        cluster.end(each)
    changing = threading.Thread(target=lambda: run(node, "CREATE INDEX ib ON t (b)"))
    changing.start()
    jobs = "ADMIN SHOW DDL JOBS 1"
    said = f"no worker of Spark at {cluster.url} does anything"
    until(lambda: said in str(run(node, jobs)), about=lambda: run(node, jobs))
    cluster.start_master()
    cluster.add_worker()
    changing.join()
    run(node, "ADMIN CHECK TABLE t")


UNREACHABLE = "postgresql://postgres@127.0.0.1:1/postgres"
PROGRAM = """
import sys
from exuvia.base.errors import Unavailable
from exuvia.pipeline.spark import Spark
try:
    Spark(sys.argv[1], sys.argv[2]).session()
except Unavailable as error:
    print(error)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("python", "why"), [(sys.executable, "no connection"), ("/usr/bin/python3", "")]
)
def test_missing_requirements_of_workers_are_reported_before_tasks(
    cluster: Cluster, python: str, why: str
) -> None:
    """The store cannot be reached from there, or their Python lacks the libraries."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, UNREACHABLE, cluster.url],
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ | {"PYSPARK_PYTHON": python},
    )
    assert f"Spark's workers at {cluster.url}: " in found.stdout, found.stderr[-2000:]
    assert why in found.stdout
