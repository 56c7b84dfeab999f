"""Spark's classes kept at hand; see spark.py and docs/decisions/016.

`python -m exuvia.pipeline.class_archive` makes the archive: half a minute, once (`make setup`).
"""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from exuvia.base.errors import ExuviaError
from exuvia.pipeline.spark import FRUGAL, SILENT, Spark, archive

_EXIT_S = 300.0


def make_archive(target: Path, begin: Callable[[str], None]) -> None:
    """Run a wave of tasks in a JVM that keeps the classes it has loaded when it ends.

    `begin` is called with the name of each step. Raises ExuviaError if that JVM leaves no archive,
    or does not end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_suffix(f".{os.getpid()}")
    keep = " ".join((*FRUGAL, *SILENT, f"-XX:ArchiveClassesAtExit={made}"))
    spark = Spark("memory:", "local[1]", {"spark.driver.extraJavaOptions": keep})
    begin("starting Spark")
    session = spark.session()
    begin("running tasks")
    wave = spark.warm(1)
    wave.wait()
    begin("writing the archive")
    _end(session)
    if wave.error is not None or not made.exists():
        raise ExuviaError(f"no class archive was made: {wave.error or 'the JVM wrote none'}")
    made.rename(target)


def _end(session: Any) -> None:
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends with it, and writes the archive then
    wait_for(gateway.proc)


def wait_for(process: "subprocess.Popen[bytes]") -> None:
    """Until the JVM has ended. Raises ExuviaError, and kills it, if it does not in five minutes."""
    try:
        process.wait(_EXIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise ExuviaError(f"no class archive was made: the JVM wrote for {_EXIT_S:g} s") from None


if __name__ == "__main__":
    try:
        make_archive(archive(), partial(print, flush=True))
    except Exception as error:  # also what Spark and py4j raise, which have long texts
        reason = str(error).strip().partition("\n")[0]
        sys.stderr.write(f"{type(error).__name__}: {reason}\n")
        sys.exit(1)
