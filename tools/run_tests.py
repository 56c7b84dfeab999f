"""Runs the tests in several pytest processes, which take one unit after another from a queue.

    python tools/run_tests.py MARKS [TESTS...]

A unit is a test file, or files that share something that is expensive to start. Most
tests wait for processes, disks and leases, so there are more processes than cores; WORKERS sets
their number. Afterwards the tests marked `alone` run one after another: what they compare needs
the whole machine. With TESTS, one process runs only these.

Prints one line per finished unit, then what each process reported. Fails if a test fails.
"""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pytest

FOLDERS = {
    "tests/applications": "",
    "tests/spark": "spark_store",
    "tests/torture": "",
    "tests/wire": "",
}
"""Their tests share a Spark session, running nodes or a MariaDB server: those files that have this
word. The other files are units of their own."""

LARGE = ("tests/spark/test_spark_exchange.py",)
"""Files of these folders that take so long that they are worth a Spark session of their own."""

LONGEST = (
    "tests/spark",
    *LARGE,
    "tests/wire",
    "tests/torture",
    "tests/applications",
    "tests/sql/test_transcripts.py",
    "tests/release/test_snippets.py",
    "tests/release/test_wheel.py",
)
"""Start first, so that none of them is left for the end."""

ALONE = "mark.alone"
INTERRUPTED = 130
"""The exit code after ^C."""


class Unit(NamedTuple):
    """What one process runs in one go. Its fixtures of the scope `session` live as long."""

    name: str
    files: list[str]


def units() -> list[Unit]:
    """All units in the order in which they start."""
    by_name: dict[str, list[str]] = {}
    for file in sorted(Path("tests").rglob("test_*.py")):
        name = str(file)
        for folder, word in FOLDERS.items():
            shares = name.startswith(f"{folder}/") and name not in LARGE
            if shares and word in file.read_text():
                name = folder
        by_name.setdefault(name, []).append(str(file))
    made = [Unit(name, files) for name, files in by_name.items()]
    first = [*LONGEST, *(unit.name for unit in made if unit.name.startswith(tuple(FOLDERS)))]
    return sorted(made, key=lambda unit: [*first, unit.name].index(unit.name))


class Queue:
    """A file with a unit per line, its name and its files; taking one is safe in several
    processes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, units: list[Unit]) -> None:
        """All units, once."""
        self._path.write_text("".join(f"{unit.name} {' '.join(unit.files)}\n" for unit in units))

    def take(self) -> Unit | None:
        """The next unit, or None at the end."""
        with self._path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            waiting = file.read().splitlines()
            file.seek(0)
            file.truncate()
            file.writelines(f"{unit}\n" for unit in waiting[1:])
        if not waiting:
            return None
        name, *files = waiting[0].split()
        return Unit(name, files)


class Units:
    """The pytest plugin of a worker: collects and runs unit after unit in one session."""

    def __init__(self, queue: Queue, progress: int) -> None:
        self._queue = queue
        self._progress = progress
        self._counts: Counter[str] = Counter()
        self._nodes: dict[Path, pytest.Collector] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        """Finds the files, and reads each conftest. A test file is imported with its unit."""
        session.perform_collect(genitems=False)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Collector | pytest.Item]) -> None:
        """Here pytest still gives fixtures of a conftest to the node of its folder."""
        for node in items:
            if isinstance(node, pytest.Collector):
                self._find(node)

    def _find(self, node: pytest.Collector) -> None:
        self._nodes[node.path] = node
        if isinstance(node, pytest.Directory):
            report = node.ihook.pytest_make_collect_report(collector=node)
            node.ihook.pytest_collectreport(report=report)
            for inner in report.result:
                self._find(inner)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs units until the queue is empty."""
        collected = 0
        while (unit := self._queue.take()) is not None:
            started, used = time.monotonic(), processor_s()
            self._counts.clear()
            failed = session.testsfailed
            nodes = [self._nodes[session.path / file] for file in unit.files]
            session.items = [item for node in nodes for item in session.genitems(node)]
            hooks = session.config.hook
            hooks.pytest_collection_modifyitems(
                session=session, config=session.config, items=session.items
            )
            hooks.pytest_collection_finish(session=session)
            collected += len(session.items)
            self._run(session)
            self._counts["failed"] = session.testsfailed - failed
            self._tell(unit.name, time.monotonic() - started, processor_s() - used)
        session.testscollected = collected
        return True

    @staticmethod
    def _run(session: pytest.Session) -> None:
        for item, successor in zip_longest(session.items, session.items[1:]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=successor)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)

    def _tell(self, unit: str, seconds: float, used_s: float) -> None:
        counts = ", ".join(f"{number} {name}" for name, number in self._counts.items() if number)
        if counts:
            line = f"{seconds:6.1f} s, {used_s:6.1f} s of processor  {unit}: {counts}\n"
            os.write(self._progress, line.encode())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts the tests of this unit."""
        if report.skipped or (report.passed and report.when == "call"):
            self._counts[report.outcome] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No dot for a test that passes: the line of its unit tells."""
        return ("passed", "", "") if report.passed and report.when == "call" else None


def processor_s() -> float:
    """Processor time of this process, and of its children that have ended. Unit: s."""
    return sum(os.times()[:4])


def worker(queue: Queue, marks: str, progress: int) -> int:
    """Runs units until the queue is empty."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments = ["-p", "no:cacheprovider", "-rs", "-m", f"({marks}) and not alone", "tests"]
    return ended(pytest.main(arguments, plugins=[Units(queue, progress)]))


def ended(code: int) -> int:
    """A run in which all tests are deselected is no failure."""
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else int(code)


def in_workers(marks: str, number: int, folder: Path) -> int:
    """Runs all units; returns the worst exit code."""
    queue = folder / "queue"
    Queue(queue).put(units())
    progress = os.dup(1)
    reports = [(folder / f"report {number}").open("w+b") for number in range(number)]

    def start(report: BinaryIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, __file__, "--worker", str(queue), str(progress), marks],
            stdout=report,
            stderr=report,
            pass_fds=[progress],
            process_group=0,  # ^C at a terminal must not reach it twice, or it stops cleaning up
        )

    processes = [start(report) for report in reports]
    codes = []
    try:
        codes = [process.wait() for process in processes]
    except KeyboardInterrupt:
        for process in processes:
            process.send_signal(signal.SIGINT)
        codes = [INTERRUPTED, *(process.wait() for process in processes)]
    for report in reports:
        report.seek(0)
        sys.stdout.buffer.write(report.read())
        sys.stdout.flush()
    for code in codes:
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            print(f"a test process ended with code {code}; its report may be incomplete")
    return max(codes, key=abs)


def alone(marks: str) -> int:
    """Runs the tests that need the machine for themselves."""
    files = [unit for unit in Path("tests").rglob("*.py") if ALONE in unit.read_text()]
    arguments = ["-rs", "-m", f"({marks}) and alone", *map(str, files)]
    return ended(
        subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode
    )


def main(marks: str, tests: Sequence[str]) -> int:
    """The exit code."""
    # A shell starts its background jobs without SIGINT; here it ends all processes.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if tests:
        return int(pytest.main(["-rs", "-m", marks, *tests]))
    number = int(os.environ.get("WORKERS") or (os.cpu_count() or 1) + 2)
    with tempfile.TemporaryDirectory() as folder:
        code = in_workers(marks, number, Path(folder))
    return code if code == INTERRUPTED else alone(marks) or code


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())  # as with `python -m pytest`: tests import `bench`
    if sys.argv[1] == "--worker":
        sys.exit(worker(Queue(Path(sys.argv[2])), sys.argv[4], int(sys.argv[3])))
    sys.exit(main(sys.argv[1], sys.argv[2:]))
