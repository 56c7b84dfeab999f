"""Makes the archive of Spark's classes that speeds up the JVM's start; see spark.py and
docs/decisions/016.

`python -m exuvia.pipeline.class_archive` takes half a minute, once (`make setup`).
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
    """Runs a wave of tasks in a JVM that archives its loaded classes when it ends.

    `begin` is called with the name of each step. Raises ExuviaError if that JVM writes no archive,
    or does not end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(f".{os.getpid()}")
    keep = " ".join((*FRUGAL, *SILENT, f"-XX:ArchiveClassesAtExit={draft}"))
    spark = Spark("memory:", "local[1]", {"spark.driver.extraJavaOptions": keep})
    begin("starting Spark")
    session = spark.session()
    begin("running tasks")
    wave = spark.warm(1)
    wave.wait()
    begin("writing the archive")
    _end(session)
    if wave.error is not None or not draft.exists():
        raise ExuviaError(f"no class archive was made: {wave.error or 'the JVM wrote none'}")
    draft.rename(target)


def _end(session: Any) -> None:
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # ends the JVM, which writes the archive at its end
    wait_for(gateway.proc)


def wait_for(process: "subprocess.Popen[bytes]") -> None:
    """Waits for the JVM's end. Raises ExuviaError, and kills it, if it takes five minutes."""
    try:
        process.wait(_EXIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise ExuviaError(f"no class archive was made: the JVM wrote for {_EXIT_S:g} s") from None


if __name__ == "__main__":
    try:
        make_archive(archive(), partial(print, flush=True))
    except Exception as error:  # includes errors of Spark and py4j, which have long texts
        reason = str(error).strip().partition("\n")[0]
        sys.stderr.write(f"{type(error).__name__}: {reason}\n")
        sys.exit(1)
