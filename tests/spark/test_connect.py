"""Tables from a session of Spark Connect: a program without Java uses a server's Spark.

As a program: `python test_connect.py PART SERVER URL FOLDER` prints one line of JSON. A process can
have one kind of session, and the other tests of this process do not use Connect.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import pytest

from exuvia.kv.store import open_store
from exuvia.sql.session.session import Session
from support.node_processes import ROOT
from support.spark_cluster import connect_server
from support.world import World, rows, run
from support.writers import left

ROWS = 1000


class Program:
    """The program's side. `said`: part of an error's text, "" without an error."""

    def __init__(self, master: str, url: str, folder: str) -> None:
        from pyspark.sql import SparkSession

        self.url = url
        self.folder = Path(folder)
        self.spark = SparkSession.builder.remote(master).getOrCreate()
        self.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")

    def table(self, name: str, **options: str) -> Any:
        reader = self.spark.read.format("exuvia").option("url", self.url)
        return reader.options(**{"dbtable": f"d.{name}", **options}).load()

    def save(self, frame: Any, name: str, mode: str = "append", **options: str) -> str:
        writer = frame.write.format("exuvia").options(url=self.url, dbtable=f"d.{name}", **options)
        try:
            writer.mode(mode).save()
        except Exception as error:
            return str(error)
        return ""

    def drain(self, stream: Any, name: str) -> None:
        """Returns everything that a stream into a table reads, from its checkpoint on."""
        writer = stream.writeStream.format("exuvia").option("url", self.url)
        writer = writer.options(dbtable=f"d.{name}", checkpointLocation=f"{self.folder}/{name}")
        assert writer.trigger(availableNow=True).start().awaitTermination(120)

    def reads(self) -> dict[str, Any]:
        """The number of rows that Spark read, and a moment that this process keeps open."""
        from pyspark_exuvia.moment import one_moment

        wanted = self.table("t").where("id > 990 AND a = 3")
        found = sorted(row.id for row in wanted.collect())
        plan = wanted.executionInfo.metrics.toText()
        sent = re.findall(r"BatchScan.*numOutputRows: (\d+)", plan) or plan
        with one_moment(self.url) as moment:
            then = self.table("t", **moment).count()
        return {"module": type(self.spark).__module__, "rows": found, "sent": sent, "then": then}

    def writes(self) -> dict[str, str]:
        some = self.spark.range(5).selectExpr("CAST(id AS INT) id", "'few' t")
        much = self.spark.range(100, 1100).selectExpr("CAST(id AS INT) id", "repeat('x', 2000) t")
        read = self.table("w").where("id IN (1, 2)")
        return {
            "append": self.save(some, "w", writeId="w"),
            "again": self.save(some, "w", writeId="w"),
            "twice": self.save(some, "w"),
            "unknown": self.save(self.spark.range(1).selectExpr("id other"), "w"),
            "much": self.save(much, "w"),
            "parts": self.save(much, "w", atomic="false", writeId="parts"),
            "parts again": self.save(much, "w", atomic="false", writeId="parts"),
            "overwrite": self.save(read, "w", "overwrite"),
            "large overwrite": self.save(much, "large", "overwrite"),
            "upsert": self.save(some.selectExpr("id", "'up' t"), "w", onDuplicate="update"),
            "no store": self.elsewhere(),
        }

    def elsewhere(self) -> str:
        """A missing store: Connect requests nothing before its columns are needed."""
        reader = self.spark.read.format("exuvia").options(url="lmdb:///nowhere", dbtable="d.t")
        try:
            return str(reader.load().schema)
        except Exception as error:
            return str(error)

    def streams(self) -> dict[str, Any]:
        """At the second time all is done already, but Spark does not know of the last batch."""
        position = (self.folder / "position").read_text()
        reader = self.spark.readStream.format("exuvia").option("url", self.url)
        changes = reader.options(feed="rows", dbtable="d.t", startingPosition=position).load()
        inserted = changes.where("_change_type = 'insert'").select("id", "a")
        self.drain(inserted, "copied")
        (commits := self.folder / "copied" / "commits").joinpath("0").unlink()
        commits.joinpath(".0.crc").unlink()
        self.drain(inserted, "copied")
        events = self.spark.readStream.format("exuvia").options(url=self.url, feed="ddl").load()
        self.drain(events.selectExpr("position", "kind"), "events")
        return {"repeated": (commits / "0").exists()}

    def lacks(self) -> dict[str, str]:
        """A server without this package, and the same once the session has sent it."""
        from pyspark_exuvia import DefaultSource

        said = self.elsewhere()
        sources = str(Path(sys.modules[DefaultSource.__module__].__file__ or "").parents[1])
        packed = shutil.make_archive(str(self.folder / "package"), "zip", sources)
        self.spark.addArtifact(packed, pyfile=True)
        self.spark.dataSource.register(DefaultSource)
        return {"said": said, "brought": self.elsewhere()}


class Served(NamedTuple):
    """A store, a session of it, and a Spark Connect server that opens it."""

    url: str
    folder: Path
    session: Session
    store: Any
    master: str

    def runs(self, part: str) -> dict[str, Any]:
        return program(part, self.master, self.url, self.folder)


def program(part: str, master: str, url: str, folder: Path) -> dict[str, Any]:
    """Returns the program's output."""
    ended = subprocess.run(
        [sys.executable, __file__, part, master, url, str(folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    said: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return said


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("connect")
    url = f"lmdb://{folder}/store"
    with (
        closing(open_store(url)) as store,
        World(store) as world,
        connect_server(folder, {"PYTHONPATH": str(ROOT / "src")}) as master,
    ):
        session = world.session("test")
        run(session, "CREATE DATABASE d")
        run(session, "USE d")
        run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY (a))")
        run(session, "ALTER TABLE t EXUVIA_CHANGE_LOG = ON")
        with store.read() as txn:
            txn.open()
            (folder / "position").write_text(txn.snapshot.view.position)
        values = ", ".join(f"({n}, {n % 7})" for n in range(ROWS))
        run(session, f"INSERT INTO t VALUES {values}")
        yield Served(url, folder, session, store, master)


def test_reads_push_their_filters(served: Served) -> None:
    said = served.runs("reads")
    assert said.pop("module").startswith("pyspark.sql.connect")
    wanted = [n for n in range(991, ROWS) if n % 7 == 3]
    assert said == {"rows": wanted, "sent": ["9"], "then": ROWS}


@pytest.mark.long
def test_writes_are_whole_or_in_parts_and_once(served: Served) -> None:
    session = served.session
    run(session, "CREATE TABLE w (id INT PRIMARY KEY, t VARCHAR(2000))")
    run(session, "CREATE TABLE large (id INT PRIMARY KEY, t VARCHAR(2000))")
    run(session, "INSERT INTO large VALUES (1, 'old')")
    run(session, f"SET GLOBAL exuvia_txn_total_size_limit = {3 << 19}")
    try:
        said = served.runs("writes")
    finally:
        run(session, "SET GLOBAL exuvia_txn_total_size_limit = DEFAULT")
    for part, words in (
        ("twice", "1062 (23000): Duplicate entry '0' for key 'w.PRIMARY'"),
        ("unknown", "1054 (42S22): Unknown column 'other' in 'field list'"),
        ("much", '.option("atomic", "false") writes it in parts'),
        ("no store", "there is no store at /nowhere"),
    ):
        text = said.pop(part)
        assert words in (text if part == "much" else text.splitlines()[0]), part
    assert set(said.values()) == {""}, said
    assert rows(session, "SELECT id, t FROM w ORDER BY id") == [[n, "up"] for n in range(5)]
    assert rows(session, "SELECT COUNT(*), MIN(id), MAX(id) FROM large") == [[1000, 100, 1099]]
    run(session, "ADMIN CHECK TABLE w, large")
    assert not left(served)


@pytest.mark.long
def test_streams_from_tables_into_tables_once(served: Served) -> None:
    session = served.session
    run(session, "CREATE TABLE copied (id INT, a INT)")
    run(session, "CREATE TABLE events (position BIGINT PRIMARY KEY, kind VARCHAR(40))")
    assert served.runs("streams") == {"repeated": True}
    all_of = "SELECT COUNT(*), SUM(a), COUNT(DISTINCT id) FROM "
    assert rows(session, f"{all_of} copied") == rows(session, f"{all_of} t")
    assert ["create table"] in rows(session, "SELECT kind FROM events ORDER BY position")
    assert not left(served)


@pytest.mark.long
def test_a_server_without_the_package_reports_it_until_a_session_sends_it(tmp_path: Path) -> None:
    """The libraries only: pyspark's folder, without the .pth files next to it."""
    libraries = Path(pyspark.__file__).parents[1]
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{libraries}:$PYTHONPATH" exec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    lacking = {"PYSPARK_PYTHON": str(python), "PYTHONPATH": ""}
    with connect_server(tmp_path, lacking) as master:
        answers = program("lacks", master, "lmdb:///nowhere", tmp_path)
    assert "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: exuvia" in answers["said"]
    assert "there is no store at /nowhere" in answers["brought"]


if __name__ == "__main__":
    asked = Program(*sys.argv[2:])
    try:
        print(json.dumps(getattr(asked, sys.argv[1])()), flush=True)
    finally:
        asked.spark.stop()
