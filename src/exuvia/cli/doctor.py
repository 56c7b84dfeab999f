"""`exuvia doctor`: what a node needs, whether it is here, and how to get what is not.

    needed     Python >= 3.11; with --store: a local directory with room that can be opened
    for Spark  Java >= 17 with the module jdk.incubator.vector; --spark: a session that counts

A node starts and serves without Java; only changes of large tables wait for it. So a missing Java
is a warning and the exit code stays 0.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from exuvia.base.errors import ExuviaError

if TYPE_CHECKING:
    from exuvia.kv.store import Store

LEAST_PYTHON = (3, 11)
LEAST_FREE_BYTES = 1 << 30
VECTOR_MODULE = "jdk.incubator.vector"
_ANSWER_S = 20.0


class Finding(NamedTuple):
    """One thing looked at. `level` is ok, warning or error."""

    level: str
    name: str
    about: str


def run(store: str, spark: bool) -> int:
    """Print the findings; 1 if a node could not start."""
    worst = 0
    for finding in examine(store, spark):
        sys.stdout.write(f"{finding.level:<8}{finding.name:<18}{finding.about}\n")
        sys.stdout.flush()
        worst = max(worst, int(finding.level == "error"))
    return worst


def examine(store: str, spark: bool) -> Iterator[Finding]:
    """Every finding, as it is made."""
    yield _python()
    yield from _java()
    if store:
        yield from _store(store)
    if spark:
        yield _spark(store or "memory:")


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= LEAST_PYTHON:
        return Finding("ok", "python", version)
    return Finding("error", "python", f"{version}: Python 3.11 or later is needed")


def _java() -> Iterator[Finding]:
    from exuvia.pipeline import spark

    obstacle = spark.java_obstacle()
    program = spark.java()
    if obstacle is not None or program is None:
        yield Finding("warning", "java", f"{obstacle}; until then small tables only")
        return
    yield Finding("ok", "java", f"{spark.java_version()} ({program})")
    listed = subprocess.run(
        [str(program), "--list-modules"],
        check=False,
        capture_output=True,
        text=True,
        timeout=_ANSWER_S,
    ).stdout
    if VECTOR_MODULE in listed:
        yield Finding("ok", "java module", VECTOR_MODULE)
    else:
        about = f"{VECTOR_MODULE} is missing: install openjdk-17-jre-headless"
        yield Finding("warning", "java module", about)
    if not spark.archive().exists():
        command = "python -m exuvia.pipeline.class_archive"
        about = f"none: Spark starts in thrice the time; `{command}` makes it"
        yield Finding("warning", "class archive", about)


def _store(url: str) -> Iterator[Finding]:
    from exuvia.kv.store import open_store

    if url.startswith("lmdb://"):
        yield _room(Path(unquote(urlsplit(url).path)))
    try:
        opened = open_store(url)
    except ExuviaError as error:
        yield Finding("error", "store", str(error))
        return
    try:
        snapshot = opened.snapshot()
        snapshot.close()
        yield Finding("ok", "store", f"{url} opens; process namespace {_namespace()}")
        yield from _promises(opened)
        if url.startswith("lmdb://"):
            yield _pages(opened)
    finally:
        opened.close()


def _promises(store: "Store") -> Iterator[Finding]:
    """The guarantees of a server for acknowledged commits, and the upkeep of its table."""
    promised = getattr(store, "promises", None)
    if promised is None:
        return
    from exuvia.kv.postgres.server import neglect, weaknesses

    settings = promised()
    listed = ", ".join(f"{name} {value or 'empty'}" for name, value in settings.items())
    yield Finding("ok", "server", listed)
    for weakness in weaknesses(settings):
        yield Finding("warning", "server", weakness)
    upkeep = store.upkeep()  # type: ignore[attr-defined]  # of the same engine
    sizes = f"{upkeep.table_bytes >> 20} MiB and {upkeep.index_bytes >> 20} MiB of index"
    rows = f"{upkeep.live:,} rows, {upkeep.dead:,} dead"
    vacuumed = "never" if upkeep.vacuumed_s is None else f"{upkeep.vacuumed_s} s ago"
    yield Finding("ok", "table kv", f"{sizes}; {rows}; last autovacuum {vacuumed}")
    for trouble in neglect(upkeep):
        yield Finding("warning", "table kv", trouble)


def _pages(store: "Store") -> Finding:
    """The order of the pages of a store on LMDB."""
    from exuvia.kv.lmdb.scatter import advice

    measures = store.measures()
    in_order = measures.get("leaves_in_order_ratio")
    about = "unknown order" if in_order is None else f"{in_order:.0%} of the leaves are in order"
    trouble = advice(measures)
    return Finding("warning" if trouble else "ok", "pages", trouble or about)


def _room(folder: Path) -> Finding:
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(existing).free
    about = f"{free / (1 << 30):.1f} GiB free at {existing}"
    if not os.access(existing, os.W_OK):
        return Finding("error", "disk", f"{existing} is not writable")
    return Finding("ok" if free >= LEAST_FREE_BYTES else "warning", "disk", about)


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "unknown"


def _spark(url: str) -> Finding:
    from exuvia.pipeline.spark import Spark

    spark = Spark(url)
    obstacle = spark.obstacle()
    if obstacle is not None:
        return Finding("warning", "spark", obstacle)
    try:
        session = spark.session()
        counted = session.range(1000).count()
        return Finding("ok", "spark", f"{session.version} at {spark.master} counted {counted}")
    except Exception as error:  # any error of Spark is a finding
        return Finding("error", "spark", f"{type(error).__name__}: {str(error)[:200]}")
    finally:
        spark.stop()
