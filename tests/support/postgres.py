"""A PostgreSQL server of a test's own: made, started and ended by it, on a free port of loopback.

Where the tests run as root the server runs as `postgres`: it refuses root. Each store is a schema
of its own, so one server serves all tests of a run.
"""

import functools
import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from support.node_processes import until

START_S = 30.0
SETTINGS = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_preload_libraries=",
    "log_min_messages=warning",
    "autovacuum_naptime=10s",
)


def programs() -> Path | None:
    """Where the server's programs are; None where it is not installed."""
    found = sorted(
        glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=lambda path: int(path.split("/")[4])
    )
    here = found[-1] if found else shutil.which("postgres")
    return Path(here).parent if here else None


def _identity() -> dict[str, Any]:
    root = os.geteuid() == 0
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if root else {}


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class PostgresServer:
    """One data folder, and at most one process that serves it."""

    def __init__(self, settings: Sequence[str] = ()) -> None:
        found = programs()
        assert found is not None, "PostgreSQL is not installed"
        self._programs = found
        self._settings = (*SETTINGS, *settings)
        self.folder = Path(tempfile.mkdtemp(prefix="exuvia-pg-"))
        self.folder.chmod(0o755)
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = count(1)

    def _run(self, *command: str) -> None:
        with self.log.open("ab") as log:
            subprocess.run(
                command, check=True, cwd="/", stdout=log, stderr=log, timeout=120, **_identity()
            )

    def make(self) -> None:
        """An empty cluster."""
        self._own()
        self._run(
            str(self._programs / "initdb"), "-D", str(self.data), "-U", "postgres", "-A", "trust",
            "-E", "UTF8", "--locale=C.UTF-8", "--no-sync",
        )  # fmt: skip

    def copy_of(self, primary: "PostgresServer", name: str) -> None:
        """A standby of a server that runs; it streams as `name`."""
        self._own()
        self._run(
            str(self._programs / "pg_basebackup"), "-D", str(self.data), "-R", "-X", "stream",
            "-c", "fast", "--no-sync",
            "-d", f"host=127.0.0.1 port={primary.port} user=postgres application_name={name}",
        )  # fmt: skip

    def _own(self) -> None:
        self.log.touch()
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
            shutil.chown(self.log, "postgres", "postgres")

    def start(self) -> None:
        """Serve; returns when it answers."""
        command = [str(self._programs / "postgres"), "-D", str(self.data), "-p", str(self.port)]
        for each in self._settings:
            command += ["-c", each]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd="/", stdout=log, stderr=log, **_identity()
            )
        until(self._answers, START_S, lambda: self.log.read_text()[-2000:])

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()[-2000:]
        try:
            return self.ask("SELECT 1") == [(1,)]
        except psycopg.OperationalError:
            return False

    def ask(self, query: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Rows of a query by a connection of its own."""
        url = f"postgresql://postgres@127.0.0.1:{self.port}/{database}"
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def session(self, database: str = "postgres") -> "psycopg.Connection[tuple[Any, ...]]":
        """A connection with a transaction that is open until its commit."""
        return psycopg.connect(f"postgresql://postgres@127.0.0.1:{self.port}/{database}")

    def promote(self) -> None:
        """A standby becomes a primary; returns when it is one."""
        self.ask("SELECT pg_promote(true, 60)")

    def kill(self) -> None:
        """kill -9, of all its processes."""
        process = self._process
        assert process is not None
        listed = subprocess.run(
            ["pgrep", "-P", str(process.pid)], check=False, capture_output=True, text=True
        ).stdout.split()
        for pid in (process.pid, *map(int, listed)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(30)
        self._process = None

    def stop(self) -> None:
        """Its fast shutdown. Twice is harmless."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def pause(self, running: bool) -> None:
        """SIGSTOP or SIGCONT to its main process: it takes no connections meanwhile."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT if running else signal.SIGSTOP)

    def remove(self) -> None:
        """Stop, and leave nothing behind."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_url(self, settings: str = "") -> str:
        """Of an empty store."""
        return self.url(f"t{next(self._schemas)}_{os.getpid()}", settings)

    def url(self, schema: str, settings: str = "") -> str:
        """Of the store in that schema."""
        return (
            f"postgresql://postgres@127.0.0.1:{self.port}/postgres?schema={schema}"
            f"{'&' if settings else ''}{settings}"
        )


@functools.cache
def shared_server() -> PostgresServer:
    """The run's own; ended by `end_shared_server`."""
    server = PostgresServer(["fsync=off", "full_page_writes=off"])
    server.make()
    server.start()
    _shared.append(server)
    return server


_shared: list[PostgresServer] = []


def end_shared_server() -> None:
    """What a run's end calls."""
    while _shared:
        _shared.pop().remove()
    shared_server.cache_clear()


@contextmanager
def own_server(*settings: str) -> Iterator[PostgresServer]:
    """One for a test that stops or kills it."""
    server = PostgresServer(settings)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.remove()
