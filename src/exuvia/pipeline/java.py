"""Whether Spark can start here: Java 17 or later, and a master that can reach the store."""

import os
import re
import shutil
import subprocess
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
