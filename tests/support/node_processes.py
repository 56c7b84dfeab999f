"""Real node processes: started on free loopback ports, ended by process id, every wait bounded.

with running_nodes(folder, 2) as (first, second):
    with first.connect() as connection: ...
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql

READY_S = 120.0
STOP_S = 30.0
PATIENCE_S = 60.0
"""Bounds of what comes at once on a quiet machine. They end a test that hangs, and cost nothing."""
ANSWER_S = 300
"""Longer than any statement of a test lasts; then the traceback says which one it was."""
ROOT = Path(__file__).resolve().parents[2]


class RawConnection(pymysql.Connection):
    """A client whose packets and whose socket are the test's own to send, read and break."""

    def send_command(self, number: int, payload: str | bytes) -> None:
        """And do not wait for the answer."""
        self._execute_command(number, payload)

    def write_bytes(self, data: bytes) -> None:
        self._write_bytes(data)

    def read_packet(self) -> Any:
        return self._read_packet()

    def read_ok(self) -> Any:
        return self._read_ok_packet()

    def read_result(self) -> int:
        return int(self._read_query_result())

    @property
    def result(self) -> Any:
        """The last one that was read."""
        return self._result

    @property
    def socket(self) -> Any:
        return self._sock

    def expect(self, number: int) -> None:
        """The sequence number of the next packet."""
        self._next_seq_id = number

    def break_off(self) -> None:
        """Close the socket, and say nothing."""
        self._force_close()


class NodeProcess:
    """One `exuvia serve`: a keeper, its front, and the front's back. `stop` (or `kill`) must be
    called in the end. `program` is what Python runs instead of the command, with its arguments."""

    def __init__(
        self,
        store: str,
        log: Path,
        lease_s: float = 45.0,
        options: tuple[str, ...] = (),
        source: Path = ROOT / "src",
        program: tuple[str, ...] = ("-m", "exuvia.cli.main"),
    ):
        self.log = log
        self.store = store
        command = [sys.executable, *program, "serve", "--store", store]
        command += ["--host", "127.0.0.1", "--port", "0", "--status-port", "0"]
        command += ["--lease", str(lease_s), *options]
        if source == ROOT / "src" and "--drain-s" not in options:
            command += ["--drain-s", "0"]  # what a test leaves open nobody waits for
        environment = os.environ | {"PYTHONPATH": str(source)}
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, env=environment
            )
        self.line = ""
        self.begun: list[Any] = []  # connections whose answers nobody waits for
        self.port = self.status_port = 0

    def wait_ready(self, timeout_s: float = READY_S) -> "NodeProcess":
        """Read the ready line."""
        assert self.process.stdout is not None
        found, _, _ = select.select([self.process.stdout], [], [], timeout_s)
        self.line = self.process.stdout.readline().decode() if found else ""
        ports = re.findall(r"127\.0\.0\.1:(\d+)", self.line)
        if len(ports) < 2:
            self.kill()
            raise AssertionError(f"a node did not get ready: {self.log.read_text()[-3000:]}")
        self.port, self.status_port = int(ports[0]), int(ports[1])
        return self

    @property
    def pid(self) -> int:
        """The front's process id: of the keeper's child, or of one that keeps itself (older
        builds). 0 between two fronts."""
        children = children_of(self.process.pid)
        back_only = any("exuvia.node.back" in command_of(each) for each in children)
        return self.process.pid if back_only else next(iter(children), 0)

    def connect(self, database: str | None = None, **settings: Any) -> Any:
        """A PyMySQL connection."""
        settings.setdefault("read_timeout", ANSWER_S)
        return RawConnection(
            host="127.0.0.1", port=self.port, user="root", database=database, **settings
        )

    def get(self, page: str) -> tuple[int, str]:
        """(HTTP status, body) of a page of the status port."""
        url = f"http://127.0.0.1:{self.status_port}{page}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def status(self) -> dict[str, Any]:
        """/status as a dictionary."""
        found: dict[str, Any] = json.loads(self.get("/status")[1])
        return found

    def back_pid(self) -> int:
        """The back's process id, once it runs."""
        return int(until(lambda: self.status()["back_pid"]))

    def send(self, number: int) -> None:
        """Send a signal: the keeper one to end, the front any other."""
        if self.process.poll() is None:
            if number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
                self.process.send_signal(number)
            else:
                os.kill(self.pid, number)

    def stop(self) -> float:
        """SIGTERM; how long it took to end. Kills it (and fails) after STOP_S. Unit: s."""
        began = time.monotonic()
        self.send(signal.SIGTERM)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end in {STOP_S} s: {self.log.read_text()[-3000:]}") from None
        finally:
            self.close()
        return time.monotonic() - began

    def kill(self) -> None:
        """SIGKILL the keeper, and so the front; its back has to end by itself."""
        front = self.pid
        self.send(signal.SIGKILL)
        self.process.wait(STOP_S)
        until(lambda: not front or not is_alive(front), STOP_S)
        self.close()

    def close(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()


SELDOM_AFTER_S, SELDOM_S = 1.0, 0.05
"""Who asks a node fifty times a second for long takes the processor from it."""


def until(
    condition: Callable[[], Any],
    timeout_s: float = PATIENCE_S,
    about: str | Callable[[], object] = "",
    every_s: float = 0.02,
) -> Any:
    """The condition's first true value. AssertionError when time is up. A look that costs much is
    taken seldom: it would hold up what it waits for."""
    started = time.monotonic()
    deadline = started + timeout_s
    while True:
        began = time.monotonic()
        found = condition()
        if found:
            return found
        if time.monotonic() >= deadline:
            told = about() if callable(about) else about
            raise AssertionError(told or "it did not happen in time")
        if began > started + SELDOM_AFTER_S and every_s:
            every_s = max(every_s, SELDOM_S)
        time.sleep(max(every_s, 2 * (time.monotonic() - began)) if every_s else 0)


def is_alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:  # it ended, before or while it was read
        return False
    return state != "Z"


def children_of(pid: int) -> list[int]:
    """Its living child processes."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(parent) == pid and state != "Z":
                    found.append(int(folder.name))
    return found


def command_of(pid: int) -> str:
    """How a process was called."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


@contextlib.contextmanager
def running_nodes(
    folder: Path,
    count: int = 1,
    lease_s: float = 45.0,
    options: tuple[str, ...] = (),
    **others: Any,
) -> Iterator[list[NodeProcess]]:
    """`count` nodes on one fresh store below `folder`, stopped at the end whatever happened."""
    url = f"lmdb://{folder / 'store'}"
    nodes = [
        NodeProcess(url, folder / f"node{number}.log", lease_s, options, **others)
        for number in range(count)
    ]
    try:
        for node in nodes:
            node.wait_ready()
        yield nodes
    finally:
        end_all(nodes)


def end_all(nodes: list[NodeProcess]) -> None:
    """End every node that still runs, all at once."""
    for node in nodes:
        node.send(signal.SIGTERM)
    for node in nodes:
        try:
            node.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            node.kill()
        node.close()
