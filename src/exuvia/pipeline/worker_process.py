"""A second process of the owner's node for tasks of a reorg that is too small for Spark: where no
client is beside it, a reorg uses both processors.

    owner's process                            worker process
    a task's next step, another, ...           reads one task, does it (kernels/attempt.perform)
    gives a task, asks whether it has ended    writes its outcome, waits for the next

It is started with the first task it is given, and ends when it has had none for a minute, or with
its parent. Where it dies, its task is done again by whoever is there: what it has committed stays.
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
    """It has ended, or never began, with a task that was not done."""


class WorkerProcess:
    """One process for one store, started when there is a task. Whoever has taken it uses it; the
    others go without."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._process: subprocess.Popen[bytes] | None = None
        self._taken = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Its number, None while there is none."""
        return None if self._process is None else self._process.pid

    def take(self) -> bool:
        """Whether it is the caller's from now on."""
        return self._taken.acquire(blocking=False)

    def release(self) -> None:
        """Let others take it."""
        self._taken.release()

    def give(self, task: Task) -> None:
        """Have a task done; it has none. Raises WorkerEnded."""
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = self._started()
        assert process.stdin is not None
        try:
            _write(process.stdin, encode(task))
        except OSError as error:
            self.stop()
            raise WorkerEnded(str(error)) from error

    def _started(self) -> subprocess.Popen[bytes]:
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
        """Of the task it was given, None if it is not done yet. Raises WorkerEnded."""
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
        """End it, whatever it does. Twice is harmless."""
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
    left = memoryview(_LENGTH.pack(len(raw)) + raw)
    while left:
        left = left[os.write(pipe.fileno(), left) :]


def _read(pipe: IO[bytes]) -> bytes | None:
    """None where the other side has ended."""
    head = _exactly(pipe, _LENGTH.size)
    return None if head is None else _exactly(pipe, *_LENGTH.unpack(head))


def _exactly(pipe: IO[bytes], size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        part = os.read(pipe.fileno(), size - len(found))
        if not part:
            return None
        found += part
    return bytes(found)


def main() -> None:
    """Tasks from standard input, outcomes to standard output, until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the parent's to obey
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    url = _read(asked)
    while url is not None and select.select([asked], [], [], IDLE_S)[0]:
        raw = _read(asked)
        if raw is None:
            break
        _write(answers, perform(url.decode(), raw))


if __name__ == "__main__":
    main()
