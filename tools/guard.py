"""Plants the faults of tests/guard/faults.toml, one at a time, and runs the tests that must fail.

    python tools/guard.py [--list] [NAME...]      all faults, or those whose names contain a NAME

Each fault is planted in a copy of the repository. A fault is found if a test that passes without it
fails with it. Prints one line per fault. Fails if a fault is not found.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LIST = "tests/guard/faults.toml"
MARKS = "not long and not torture and not alone"
COPIED = ("src", "tests", "tools", "docs", "pyproject.toml", "README.md")
PASSED, FAILED = 0, 1
"""Exit codes of pytest. Others are errors, such as a test that does not exist."""
LEAST_S, MOST_TIMES = 60.0, 10
"""A test hangs if it takes longer, and this multiple of its time without the fault."""


class Fault(NamedTuple):
    """An edit of a source file, the rule that it breaks, and the tests that find it."""

    name: str
    rule: str
    file: str
    before: str
    after: str
    tests: list[str]

    def planted(self, text: str) -> str:
        """The source with the fault. Raises ValueError if the text to replace is not unique."""
        if text.count(self.before) != 1:
            times = text.count(self.before)
            raise ValueError(f"{self.name}: its text occurs {times} times in {self.file}, not once")
        return text.replace(self.before, self.after)


def faults(root: Path = ROOT) -> list[Fault]:
    """All faults, in the order of the file."""
    return [Fault(**entry) for entry in tomllib.loads((root / LIST).read_text())["fault"]]


def elsewhere(root: Path = ROOT) -> list[str]:
    """Tests that plant faults of their own."""
    names: list[str] = tomllib.loads((root / LIST).read_text())["elsewhere"]
    return names


@contextmanager
def planted(fault: Fault, tree: Path) -> Iterator[None]:
    """The fault in the tree."""
    path = tree / fault.file
    honest = path.read_text()
    path.write_text(fault.planted(honest))
    try:
        yield
    finally:
        path.write_text(honest)


class Run(NamedTuple):
    """How pytest ended, at the first failure or at the end, and the test that failed."""

    code: int
    failed: str


def run(test: str, tree: Path, limit_s: float | None = None) -> Run:
    """Runs a file of tests, or one test. A fault can stop a wait from ending, hence the limit."""
    command = [sys.executable, "-m", "pytest", "-qq", "-x", "-p", "no:cacheprovider", "-m", MARKS]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(
            [*command, test],
            cwd=tree,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        return Run(FAILED, f"{test} does not end")
    lines = ended.stdout.splitlines()
    failed = [
        line.partition(" ")[2].partition(" - ")[0]
        for line in lines
        if line.startswith(("FAILED ", "ERROR "))
    ]
    return Run(ended.returncode, failed[0] if failed else "")


def verdict(fault: Fault, tree: Path) -> tuple[bool, str]:
    """Whether the fault is found, and by which tests, or why not."""
    limits_s: dict[str, float] = {}
    for test in fault.tests:
        started = time.monotonic()
        if run(test, tree).code != PASSED:
            return False, f"{test} fails without the fault"
        limits_s[test] = max(LEAST_S, MOST_TIMES * (time.monotonic() - started))
    with planted(fault, tree):
        runs = {test: run(test, tree, limit_s) for test, limit_s in limits_s.items()}
    found = [ended.failed for ended in runs.values() if ended.code == FAILED]
    errors = [
        f"{test} ended with code {ended.code}"
        for test, ended in runs.items()
        if ended.code not in (PASSED, FAILED)
    ]
    return bool(found), ", ".join(found or errors or ["no test fails"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of the names of faults")
    parser.add_argument("--list", action="store_true", help="print the faults; plant none")
    options = parser.parse_args()
    chosen = [
        fault
        for fault in faults()
        if not options.names or any(name in fault.name for name in options.names)
    ]
    if options.list:
        for fault in chosen:
            print(f"{fault.rule:26} {fault.name}")
        return 0
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in COPIED:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, tree / name)
        for fault in chosen:
            started = time.monotonic()
            found, text = verdict(fault, tree)
            missed += not found
            word = "found" if found else "MISSED"
            seconds = time.monotonic() - started
            print(f"{word:7} {seconds:5.0f} s  {fault.rule}: {fault.name} ({text})", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults are found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
