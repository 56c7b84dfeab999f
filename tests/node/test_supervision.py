"""Process supervision: keeper, front, back, JVM, Python workers are restarted, and end with their
parents."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pymysql
import pytest

from exuvia.base.clock import SystemClock
from exuvia.node import supervise
from exuvia.node.supervise import Supervisor
from support.node_processes import ROOT, NodeProcess, is_alive, running_nodes, until

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_the_keeper_and_a_command_s_help_load_no_statements_and_no_arrays() -> None:
    """The fronts are forks of the keeper; `exuvia --help` answers at once."""
    heavy = "numpy", "sqlglot", "pyarrow", "pymysql", "exuvia.sql", "exuvia.catalog"
    program = f"import sys, exuvia.cli.main; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout == "[]\n", result


def test_a_child_that_ends_is_started_again_until_the_stop() -> None:
    supervisor = Supervisor(SLEEPER, SystemClock())
    supervisor.start()
    first = until(lambda: supervisor.pid)
    os.kill(first, signal.SIGKILL)
    second = until(lambda: supervisor.pid not in (None, first) and supervisor.pid)
    supervisor.begin_stop()
    supervisor.finish_stop(5)
    assert supervisor.starts == 2
    assert not is_alive(second)


def test_a_child_that_does_not_listen_is_ended_by_force() -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    supervisor = Supervisor([sys.executable, "-c", deaf], SystemClock())
    supervisor.start()
    pid = until(lambda: supervisor.pid)
    until(lambda: ignores(pid))
    supervisor.begin_stop()
    supervisor.finish_stop(0.2)
    assert not is_alive(pid)


IN_A_LIBRARY = """
import atexit, sys, threading
import duckdb

inside = threading.Event()

def work():
    query = duckdb.connect()
    while True:
        query.execute("SELECT sum(a) FROM range(2000000) t(a)").fetchall()
        inside.set()

def leave(code):
    atexit.register(lambda: print("asked at the end"))
    for _ in range(2):
        threading.Thread(target=work, daemon=True).start()
    inside.wait()
    sys.stdout.write("said\\n")
    raise SystemExit(code)
"""
ENTRIES = {
    "a command": "from exuvia.cli import main as it; it.app = lambda: leave(3); it.main()",
    "the back": "from exuvia.node.supervise import LastStop as It; It().run(lambda: leave(3))",
    "it fails": "from exuvia.node.supervise import LastStop as It; It().run(lambda: leave(''))",
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_thread_inside_a_library_does_not_abort_a_process_that_ends(entry: str) -> None:
    program = IN_A_LIBRARY + ENTRIES[entry]
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    assert ended.stderr.strip() == b""
    assert ended.stdout == b"said\nasked at the end\n"
    assert ended.returncode == (1 if entry == "it fails" else 3)


@pytest.mark.long
def test_a_node_that_is_started_and_stopped_ten_times_has_nothing_but_logs(
    tmp_path: Path,
) -> None:
    for number in range(10):
        node = NodeProcess(f"lmdb://{tmp_path / 'store'}", tmp_path / f"log{number}").wait_ready()
        with node.connect(autocommit=True) as client, client.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS d")
            cursor.execute(f"CREATE TABLE d.t{number} AS SELECT {number} AS a")
            cursor.execute(f"ALTER TABLE d.t{number} ADD INDEX (a)")
            cursor.execute(f"ANALYZE TABLE d.t{number}")
        node.stop()
        lines = node.log.read_text().splitlines()
        assert [line for line in lines if not line.startswith("{")] == []


def ignores(pid: int) -> bool:
    """Whether the process ignores SIGTERM."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigIgn:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-m", "exuvia.node.back", sys.argv[1], "--parent",
    str(__import__("os").getpid()), "--address", "here", "--lease", "45"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_back_ends_when_its_front_is_killed(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    url = f"lmdb://{tmp_path / 'store'}"
    log = tmp_path / "log"
    with log.open("w") as errors:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, url],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
        )
    assert parent.stdout is not None
    back = int(parent.stdout.readline())
    until(lambda: "the back runs" in log.read_text())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: not is_alive(back))
    assert "the back stopped" in log.read_text()


def test_a_front_that_breaks_or_is_killed_is_started_again_on_its_ports_and_ends_with_its_keeper(
    tmp_path: Path,
) -> None:
    fault, log = tmp_path / "fault", tmp_path / "log"
    program = (str(ROOT / "tests/support/faulty_nodes.py"), "breaking", str(fault))
    node = NodeProcess(f"lmdb://{tmp_path}/store", log, program=program).wait_ready()
    try:
        first = node.pid
        fault.touch()
        second = until(lambda: node.pid not in (0, first) and node.pid)
        text = log.read_text()
        assert "a loop is broken and stops" in text and "ZeroDivisionError: planted" in text
        assert '"message": "the front ended", "exit_code": 70' in text
        until(lambda: serves(node))
        os.kill(second, signal.SIGKILL)
        until(lambda: node.pid not in (0, second) and serves(node))
        assert '"exit_code": -9' in log.read_text()
        front, back = node.pid, node.back_pid()
        os.kill(node.process.pid, signal.SIGKILL)
        until(lambda: not is_alive(front) and not is_alive(back))
    finally:
        node.kill()


def test_a_front_that_is_killed_before_it_served_ends_the_node_with_an_error(
    tmp_path: Path,
) -> None:
    node = NodeProcess(f"lmdb://{tmp_path}/store", tmp_path / "log")
    try:
        os.kill(until(lambda: node.pid), signal.SIGKILL)
        assert node.process.wait(20) == signal.SIGKILL
        text = (tmp_path / "log").read_text()
        assert '"message": "the front ended before it served", "exit_code": -9' in text
    finally:
        node.kill()


KILLED_TWICE = """
import os, selectors, signal, time
from exuvia.base.clock import SystemClock
from exuvia.node import supervise

class BothAtOnce(selectors.DefaultSelector):
    def select(self, timeout=None):
        time.sleep(0.1)
        found = super().select(timeout)
        return sorted(found, key=lambda each: each[0].data is not None and each[0].data[1])

def life(number, before, ready):
    ready("serves")
    if len(os.listdir(".")) == 2:
        return 0
    open(str(os.getpid()), "x").close()
    os.kill(os.getpid(), signal.SIGKILL)

supervise.selectors.DefaultSelector = BothAtOnce
raise SystemExit(supervise.Keeper(life, SystemClock()).run())
"""


def test_a_front_whose_end_is_seen_before_its_last_words_is_started_again(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED_TWICE], cwd=tmp_path, timeout=30)
    assert ended.returncode == 0
    assert len(list(tmp_path.iterdir())) == 2


def serves(node: NodeProcess) -> bool:
    """Whether clients are served on the known port."""
    with contextlib.suppress(pymysql.MySQLError, OSError), node.connect() as connection:
        connection.cursor().execute("SELECT 1")
        return node.get("/readyz")[0] == 200
    return False


def test_an_end_by_a_damaged_file_is_logged_with_the_next_step() -> None:
    for number in (signal.SIGABRT, signal.SIGBUS):
        reason = str(supervise.described_end(-number, 0.1)["reason"])
        assert number.name in reason
        assert "data.mdb may be damaged" in reason
    assert "reason" not in supervise.described_end(70, 0.1)
    assert "reason" not in supervise.described_end(-signal.SIGKILL, 0.1)


# -- Spark's processes -----------------------------------------------------------------------------


def descendants(pid: int) -> list[int]:
    """All descendants of a process."""
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout
    children = [int(text) for text in listed.split()]
    return children + [descendant for child in children for descendant in descendants(child)]


@pytest.mark.long  # tests/spark kills a driver, too
def test_no_jvm_outlives_a_front_that_is_killed(tmp_path: Path) -> None:
    with running_nodes(tmp_path) as [node]:
        with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE d")
            cursor.execute("CREATE TABLE d.t (a INT PRIMARY KEY, b INT)")
            cursor.execute("INSERT INTO d.t VALUES (1, 2), (2, 3)")
            # Spark starts also in a back that has filled an index on texts, with statistics
            cursor.execute("CREATE TABLE d.s (a INT PRIMARY KEY, c CHAR(9))")
            rows = ",".join(f"({n}, '{n}')" for n in range(2000))
            cursor.execute(f"INSERT INTO d.s VALUES {rows}")
            cursor.execute("ALTER TABLE d.s ADD INDEX ic (c)")
            cursor.execute("SET GLOBAL exuvia_pipeline_inline_rows = 0")
            cursor.execute("ALTER TABLE d.t ADD INDEX ib (b)")
            cursor.execute("ADMIN CHECK TABLE d.t")
        processes = [node.back_pid(), *descendants(node.back_pid())]
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in processes]
        assert "java" in names
        node.kill()
        until(lambda: not any(map(is_alive, processes)))
