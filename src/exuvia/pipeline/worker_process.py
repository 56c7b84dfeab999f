"""A second process of the owner's node for reorgs that are too small for Spark. While no client is
active, the reorg uses two processors.

    owner's process                            worker process
    a task's next step, another, ...           reads one task, runs it (kernels/attempt.perform)
    gives a task, polls for its end            writes its outcome, waits for the next

It starts with its first task, and ends after a minute without one, or with its parent. If it dies,
its task is repeated by another process; committed batches are kept.
"""

import os
import select
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO

from exuvia.pipeline.kernels.attempt import perform
from exuvia.pipeline.task import Outcome, Task, decode_outcome, encode

IDLE_S = 60.0
_LENGTH = struct.Struct(">I")


class WorkerEnded(Exception):
    """The worker process ended or could not start, and its task was not finished."""


class WorkerProcess:
    """One process for one store, started with its first task. One reorg at a time can use it;
    others run without."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._process: subprocess.Popen[bytes] | None = None
        self._in_use = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The process id, or None if no process runs."""
        return None if self._process is None else self._process.pid

    def take(self) -> bool:
        """Reserves the process for the caller. Returns False if it is in use."""
        return self._in_use.acquire(blocking=False)

    def release(self) -> None:
        """Ends the reservation."""
        self._in_use.release()

    def give(self, task: Task) -> None:
        """Starts a task; requires that none is running. Raises WorkerEnded."""
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = self._start()
        assert process.stdin is not None
        try:
            _write(process.stdin, encode(task))
        except OSError as error:
            self.stop()
            raise WorkerEnded(str(error)) from error

    def _start(self) -> subprocess.Popen[bytes]:
        self.stop()
        command = [sys.executable, "-m", __spec__.name]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            process = self._process = subprocess.Popen(
                command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
            assert process.stdin is not None
            _write(process.stdin, self._url.encode())  # it may hold a password: never an argument
        except OSError as error:
            raise WorkerEnded(str(error)) from error
        return process

    def outcome(self, wait_s: float) -> Outcome | None:
        """Returns the task's outcome, or None if it is still running. Raises WorkerEnded."""
        process = self._process
        if process is None or process.stdout is None:
            raise WorkerEnded("it was stopped")
        if not select.select([process.stdout], [], [], wait_s)[0]:
            return None
        raw = _read(process.stdout)
        if raw is None:
            self.stop()
            raise WorkerEnded(f"it ended with {process.returncode}")
        return decode_outcome(raw)

    def stop(self) -> None:
        """Kills the process. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


def _write(pipe: IO[bytes], raw: bytes) -> None:
    remaining = memoryview(_LENGTH.pack(len(raw)) + raw)
    while remaining:
        remaining = remaining[os.write(pipe.fileno(), remaining) :]


def _read(pipe: IO[bytes]) -> bytes | None:
    """Returns a message, or None if the other side has ended."""
    head = _exactly(pipe, _LENGTH.size)
    return None if head is None else _exactly(pipe, *_LENGTH.unpack(head))


def _exactly(pipe: IO[bytes], size: int) -> bytes | None:
    received = bytearray()
    while len(received) < size:
        part = os.read(pipe.fileno(), size - len(received))
        if not part:
            return None
        received += part
    return bytes(received)


def main() -> None:
    """Runs tasks from standard input and writes outcomes to standard output, until input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    url = _read(requests)
    while url is not None and select.select([requests], [], [], IDLE_S)[0]:
        raw = _read(requests)
        if raw is None:
            break
        _write(answers, perform(url.decode(), raw))


if __name__ == "__main__":
    main()
