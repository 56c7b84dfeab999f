"""Two nodes on a fresh store for a benchmark, and the figures all benchmarks print alike."""

import contextlib
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pymysql

from exuvia.cli.demo import story


class Cluster(NamedTuple):
    """Running nodes and where their store is."""

    nodes: list[story.DemoNode]
    url: str

    def connect(self, node: int = 0, database: str | None = None) -> Any:
        """A connection to one of the nodes."""
        port = self.nodes[node].port
        return pymysql.connect(
            host="127.0.0.1", port=port, user="root", database=database, autocommit=True
        )


@contextlib.contextmanager
def cluster(count: int = 2) -> Iterator[Cluster]:
    """`count` nodes on a fresh LMDB store, stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="exuvia-bench-") as folder:
        url = f"lmdb://{folder}/store"
        started: list[story.DemoNode] = []
        try:
            for number in range(count):
                started.append(story.start(url, Path(folder) / f"node{number}.log"))
            yield Cluster(started, url)
        finally:
            for node in started:
                node.stop()


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def headline(title: str) -> None:
    """Name the benchmark, the machine and the command."""
    command = f"python -m bench.{sys.argv[0].rsplit('bench/', 1)[-1].removesuffix('.py')}"
    sys.stdout.write(f"\n== {title}\n   {platform.machine()}, {_cores()} cores; {command}\n")


def figure(name: str, value: str, goal: str = "") -> None:
    """One measured figure and the goal it is held against."""
    sys.stdout.write(f"   {name:<48} {value:>16}   {goal}\n")
    sys.stdout.flush()


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0))
