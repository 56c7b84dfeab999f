"""Whether Spark can start here: Java 17 or later, and a master that can reach the store.

How Spark's JVM is started: it only steers, so it should cost little, least of all at its start.

    one processor          it sizes its pools by what it believes to have
    one thread of garbage  the data is in the Python workers, not in its heap
    C2 ten times later     code that runs for seconds is not worth the optimising compiler
    classes at hand        an archive of them, mapped instead of loaded and verified one by one

The archive (class_archive.py) belongs to one Java and one pyspark. A JVM that finds none, or one
that does not fit, starts without.
Figures: docs/decisions/016.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

LEAST_JAVA = 17
_VERSION = re.compile(r'version "(\d+)')
_ANSWER_S = 20.0


def java() -> Path | None:
    """The Java that Spark's launcher will take: of JAVA_HOME, else of PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        found = Path(home) / "bin" / "java"
        return found if found.exists() else None
    path = shutil.which("java")
    return Path(path) if path else None


def java_version() -> int | None:
    """Its feature release (17, 21, ...), None when there is none that answers."""
    program = java()
    if program is None:
        return None
    try:
        answer = subprocess.run(
            [str(program), "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if found else None


def java_obstacle() -> str | None:
    """What is missing and how to get it, None when all is well."""
    version = java_version()
    if version is not None and version >= LEAST_JAVA:
        return None
    seen = "none was found" if version is None else f"Java {version} was found"
    return (
        f"Java {LEAST_JAVA} or later is needed by Spark ({seen}): install openjdk-17-jre-headless, "
        "then the job goes on by itself"
    )


def is_local(master: str) -> bool:
    """Whether a Spark master runs its tasks on this host."""
    return master == "local" or master.startswith("local[")


def master_obstacle(master: str, url: str) -> str | None:
    """Why tasks of this master could not open the store, None when they can."""
    if is_local(master) or not url.startswith(("lmdb:", "memory:")):
        return None
    return (
        f"Spark master {master} runs tasks on other hosts, but the store {url} can be opened on "
        "this host only: set EXUVIA_SPARK_MASTER to local[N], or use a store that has a server"
    )


# -- jvm -------------------------------------------------------------------------------------------

FRUGAL = (
    "-XX:ActiveProcessorCount=1",
    "-XX:+UseSerialGC",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
SILENT = ("-Xlog:disable", "-Xlog:all=error:stderr")  # an archive that does not fit is no news


def archive() -> Path:
    """Where the class archive of this environment is, or would be."""
    return Path(sys.prefix) / "share" / "exuvia" / "spark.jsa"


def options() -> str:
    """The JVM's options."""
    found = archive()
    known = (f"-XX:SharedArchiveFile={found}",) if found.exists() else ()
    return " ".join((*FRUGAL, *SILENT, *known))
