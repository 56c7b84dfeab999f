"""Nodes that meet with accidents, and what of them still runs.

    slot 0   node process, started again after it was killed   keeper -> front -> back -> JVM
    slot 1   likewise                                          -> daemon -> workers

Every process below a test carries the test's mark in its environment, so whatever is left behind
is found even after its parents are gone.
"""

import contextlib
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
import pytest

from exuvia.kv.open import open_store
from exuvia.kv.store import Store
from support.node_processes import NodeProcess, end_all, is_alive, until

MARK = "EXUVIA_TEST_MARK"
PATIENCE_S = 90.0


class Process(NamedTuple):
    """A process of a node, from /proc."""

    pid: int
    parent: int
    command: str


class Nodes:
    """Nodes on one store, each in a slot; a killed one is started again in its slot."""

    def __init__(
        self, folder: Path, mark: str, count: int, lease_s: float, program: tuple[str, ...] = ()
    ) -> None:
        self.url = f"lmdb://{folder / 'store'}"
        self.every: list[NodeProcess] = []
        self.killed: set[NodeProcess] = set()
        self.mark = mark
        self._folder, self._lease_s = folder, lease_s
        self._program = {"program": program} if program else {}
        self.slots = [self._started() for _ in range(count)]
        for node in self.slots:
            node.wait_ready(PATIENCE_S)

    def _started(self) -> NodeProcess:
        log = self._folder / f"node{len(self.every)}.log"
        self.every.append(NodeProcess(self.url, log, self._lease_s, **self._program))
        return self.every[-1]

    def kill_node(self, slot: int) -> None:
        """kill -9 of a slot's front and back at once."""
        node, back = self.slots[slot], self.slots[slot].status()["back_pid"]
        self.killed.add(node)
        front = node.pid
        node.send(signal.SIGKILL)
        for each in filter(None, (front, back)):
            end_by_pid(each)
        node.process.wait(PATIENCE_S)

    def kill_front(self, slot: int) -> None:
        """kill -9 of a slot's front; its back has to end by itself."""
        node = self.slots[slot]
        front = node.pid
        self.killed.add(node)
        node.send(signal.SIGKILL)
        node.process.wait(PATIENCE_S)
        until(lambda: not front or not is_alive(front))

    def begin_again(self, slot: int) -> NodeProcess:
        """Start the slot's node anew; returns before it is ready."""
        self.slots[slot] = self._started()
        return self.slots[slot]

    def living(self) -> list[NodeProcess]:
        """The nodes that are ready and were not killed."""
        return [node for node in self.slots if node.port and node not in self.killed]

    def owner_slot(self) -> int:
        """Whose back owns the jobs now; waited for."""
        return int(until(lambda: [n for n in range(len(self.slots)) if self._owns(n)], 60)[0])

    def _owns(self, slot: int) -> bool:
        node = self.slots[slot]
        if node not in self.living():
            return False
        status = node.status()
        pids = {each["id"]: each["pid"] for each in status["members"]}
        owner = status["owner"] and status["owner"]["member"]
        return status["back_pid"] is not None and pids.get(owner) == status["back_pid"]

    def processes(self) -> list[Process]:
        """Everything that runs and carries the mark."""
        wanted = f"{MARK}={self.mark}".encode()
        found = (_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
        return [each for each in found if each and wanted in _environment(each.pid)]

    def spark_workers(self) -> list[int]:
        """Python processes that run Spark's tasks (not the daemon that forks them)."""
        known = {each.pid: each for each in self.processes() if "pyspark.daemon" in each.command}
        return [each.pid for each in known.values() if each.parent in known]

    def machines(self) -> list[int]:
        """Pids of the JVMs."""
        return [each.pid for each in self.processes() if "java" in each.command.split("\0")[0]]

    def logs(self) -> str:
        """The last lines of every node, for a failed test."""
        return "\n".join(node.log.read_text()[-6000:] for node in self.every)


def _process(pid: int) -> Process | None:
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return None
    return None if state == "Z" else Process(pid, int(parent), command)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def end_by_pid(pid: int, number: int = signal.SIGKILL) -> bool:
    """Send a signal; False if the process had ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


@contextlib.contextmanager
def nodes_to_hurt(
    folder: Path,
    patch: pytest.MonkeyPatch,
    count: int = 2,
    lease_s: float = 45.0,
    program: tuple[str, ...] = (),
) -> Iterator[Nodes]:
    """Nodes on a fresh store (`program`: see NodeProcess); at the end all are stopped, and nothing
    of them may still run."""
    mark = uuid.uuid4().hex
    patch.setenv(MARK, mark)
    patch.setenv("PYTHONFAULTHANDLER", "1")
    nodes = Nodes(folder, mark, count, lease_s, program)
    try:
        yield nodes
    finally:
        for each in nodes.processes():
            end_by_pid(each.pid, signal.SIGCONT)
        end_all([node for node in nodes.every if node.process.poll() is None])
        left = _left_after(nodes, 20)
        for each in left:
            end_by_pid(each.pid)
        print(nodes.logs())  # shown when the test failed
    assert not left, f"left behind: {left}"


def _left_after(nodes: Nodes, timeout_s: float) -> list[Process]:
    """What does not end; each says in its log where it hangs."""
    with contextlib.suppress(AssertionError):
        until(lambda: not nodes.processes(), timeout_s)
    left = nodes.processes()
    for each in left:
        print(each, _waits(each.pid))
        end_by_pid(each.pid, signal.SIGABRT)
    with contextlib.suppress(AssertionError):
        until(lambda: not nodes.processes(), 5 if left else 0)
    return left


def _waits(pid: int) -> str:
    found = []
    with contextlib.suppress(OSError):
        for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
            call = (task / "syscall").read_text().split()[0]
            found.append(f"{(task / 'comm').read_text().strip()}: system call {call}")
    return "; ".join(found)


@contextlib.contextmanager
def own_store(url: str) -> Iterator[Store]:
    """The nodes' store, opened in this process too."""
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def run(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """Rows of the last statement."""
    with node.connect("test", autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def begin(node: NodeProcess, statement: str) -> Any:
    """Send a statement and do not wait for its answer; the connection.

    The node keeps it: a client that goes at once may end its statement before it has begun."""
    connection = node.connect("test", autocommit=True)
    node.begun.append(connection)
    connection._execute_command(pymysql.constants.COMMAND.COM_QUERY, statement)
    return connection


def jobs(node: NodeProcess, ended: int = 10) -> list[dict[str, Any]]:
    """ADMIN SHOW DDL JOBS by column name: those under way, and the last `ended` others."""
    made = node.connect(cursorclass=pymysql.cursors.DictCursor)
    with made as connection, connection.cursor() as cursor:
        cursor.execute(f"ADMIN SHOW DDL JOBS {ended}")
        return list(cursor.fetchall())


def job_of(node: NodeProcess, kind: str) -> dict[str, Any]:
    """The newest job of a kind ("add index"), waited for."""

    def newest() -> dict[str, Any] | None:
        found = [job for job in jobs(node) if job["JOB_TYPE"].startswith(kind)]
        return max(found, key=lambda job: int(job["JOB_ID"]), default=None)

    found: dict[str, Any] = until(newest, PATIENCE_S)
    return found


def wait_for_job(node: NodeProcess, kind: str, state: str = "synced") -> dict[str, Any]:
    """The newest job of a kind once it has that state; on the way no other end is accepted."""

    def reached() -> dict[str, Any] | None:
        job = job_of(node, kind)
        assert job["STATE"] in ("none", "queueing", "running", "rollingback", "done", state), job
        return job if job["STATE"] == state else None

    found: dict[str, Any] = until(reached, PATIENCE_S, f"no {kind} became {state}")
    return found
