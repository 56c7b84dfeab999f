"""Spark of a test's own on loopback: a standalone cluster of one master and some workers, or a
Spark Connect server with two cores."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pyspark

from exuvia.pipeline.spark import options
from support.node_processes import until
from support.postgres import free_port

START_S = 180.0
CLASS = "org.apache.spark.deploy."


def _program(
    name: str, log: Path, *words: str, settings: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """One of Spark's own, in a group of processes of its own. `settings` of its environment."""
    program = Path(pyspark.__file__).parent / "bin" / name
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m" if name == "spark-class" else "1g",
        "SPARK_DAEMON_JAVA_OPTS": options(),  # as frugal as a node's: six start in one test
        "SPARK_NO_DAEMONIZE": "1",
        **(settings or {}),
    }
    with log.open("ab") as said:
        return subprocess.Popen(
            [str(program), *words],
            stdout=said, stderr=said, env=environment, start_new_session=True,
        )  # fmt: skip


def _answers(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


class Cluster:
    """Its processes. `workers` are in the order in which they were started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self.master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def _start(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        return _program("spark-class", self.folder / f"{name}.log", CLASS + words[0], *words[1:])

    def start_master(self) -> None:
        """Returns when it takes connections."""
        words = ("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        self.master = self._start("master", "master.Master", *words)
        log = self.folder / "master.log"
        until(lambda: _answers(self.port), START_S, lambda: log.read_text()[-2000:])

    def add_worker(self, memory: str = "1g") -> None:
        """With one core; returns when the master knows it."""
        name = f"worker{len(self.workers)}"
        words = ("--host", "127.0.0.1", "--cores", "1", "--memory", memory, "--webui-port", "0")
        place = ("--work-dir", str(self.folder / name))
        self.workers.append(self._start(name, "worker.Worker", *words, *place, self.url))
        log = self.folder / f"{name}.log"
        until(
            lambda: "Successfully registered with master" in log.read_text(),
            START_S,
            lambda: log.read_text()[-2000:],
        )

    def end(self, process: "subprocess.Popen[bytes]") -> None:
        """kill -9, with what it has started."""
        _kill(process)


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster that runs."""
    cluster = Cluster(folder)
    try:
        cluster.start_master()
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        for each in (*cluster.workers, cluster.master):
            if each is not None:
                cluster.end(each)


@contextmanager
def connect_server(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """A Spark Connect server that runs; its URL. What it does is in files of the folder events.
    Whoever has a session of it has to stop that first: asking a server that is gone takes long."""
    port = free_port()
    log = folder / "connect.log"
    (folder / "events").mkdir()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.eventLog.compress": "false",
    }
    settings = (word for name, value in conf.items() for word in ("--conf", f"{name}={value}"))
    words = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *settings)
    words = ("--master", "local[2]", "--driver-java-options", options(), *words)
    server = _program("spark-submit", log, *words, settings=environment)
    try:
        until(lambda: _answers(port), START_S, lambda: log.read_text()[-2000:])
        yield f"sc://127.0.0.1:{port}"
    finally:
        _kill(server)
