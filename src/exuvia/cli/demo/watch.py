"""What the demo sees: reports of its clients, and the jobs as any client can see them.

A thread per client process reads its lines; `Clients.window()` gives the last seconds. A thread per
schema change runs the statement and waits; the main thread polls ADMIN SHOW DDL JOBS meanwhile.
"""

import json
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from typing import Any, NamedTuple

WINDOW_S = 5.0


class ClientsWindow(NamedTuple):
    """The clients' last seconds."""

    statements_per_s: float
    p99_ms: float


class Clients:
    """The client processes and all they reported. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []
        self.commits: list[float] = []
        self.latencies_ms: list[float] = []
        self._timed: list[tuple[float, float]] = []
        self.retries = 0
        self.errors: list[str] = []

    def start(self, port: int, seed: int, orders: int, pause_s: float) -> None:
        """Start one more client process on a node's port."""
        command = [sys.executable, "-m", "exuvia.cli.demo.clients"]
        command += [str(port), str(seed), str(orders), str(pause_s)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        reader.start()
        self._processes.append(process)
        self._readers.append(reader)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            report: dict[str, Any] = json.loads(line)
            with self._lock:
                self.commits.extend(report["commits"])
                self.latencies_ms.extend(report["latencies_ms"])
                self._timed.extend(zip(report["commits"], report["latencies_ms"], strict=True))
                self.retries += report["retries"]
                self.errors.extend(report["errors"])
        trouble = process.stderr.read()
        if trouble:
            with self._lock:
                self.errors.append(trouble[-500:])

    def stop(self) -> None:
        """Close their input and wait for their last reports."""
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()
        for process in self._processes:
            process.wait(30)
        for reader in self._readers:
            reader.join(5)

    def window(self) -> ClientsWindow:
        """Rate and p99 of the last seconds."""
        since = time.time() - WINDOW_S
        with self._lock:
            self._timed = [pair for pair in self._timed if pair[0] >= since]
            latencies = sorted(latency for _, latency in self._timed)
        p99 = latencies[int(len(latencies) * 0.99)] if latencies else 0.0
        return ClientsWindow(len(latencies) / WINDOW_S, p99)

    def committed_between(self, start: float, end: float) -> int:
        """Writes committed between two wall-clock times. Unit: s since 1970."""
        with self._lock:
            times = sorted(self.commits)
        return bisect_left(times, end) - bisect_left(times, start)


class WatchedChange(NamedTuple):
    """A schema change."""

    statement: str
    title: str


class WatchedProgress:
    """What ADMIN SHOW DDL JOBS said of one change, as it ran."""

    def __init__(self, change: WatchedChange) -> None:
        self.change = change
        self.after_job = 0
        self.states: dict[str, tuple[float, float]] = {}
        self.rows = 0
        self.note = ""
        self.seconds = 0.0
        self.error = ""
        self.done = False

    def saw(self, state: str, rows: int, note: str) -> None:
        """Note one observation."""
        now = time.time()
        first, _ = self.states.get(state, (now, now))
        self.states[state] = (first, now)
        self.rows = max(self.rows, rows)
        self.note = note

    def time_in(self, state: str) -> tuple[float, float]:
        """First and last time the state was seen; (0, 0) if never."""
        return self.states.get(state, (0.0, 0.0))
