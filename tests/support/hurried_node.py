"""`exuvia`, whose front and back are back at once: for tests that end them by the hundred.

    keeper -> front -> nursery -> back      keeper and nursery have one thread and all modules

Loading takes a front 2 s of processor time and a back 1.5 s, so they are forked from processes that
have everything loaded, and nobody waits long before the next life. The rest is as it is: who dies
with whom, the back's standard input, its exit code.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a fork keeps one thread: the others must not be there

import signal
import socket
import subprocess
import threading
from typing import Any

import exuvia.node.front
import exuvia.pipeline.reorgs
from exuvia.cli import serve
from exuvia.cli.main import main
from exuvia.node import back, supervise

assert exuvia.node.front and exuvia.pipeline.reorgs
supervise.FIRST_PAUSE_S = 0.05
supervise.LONGEST_PAUSE_S = 0.3
honest = serve._front


class Nursery:
    """Forks backs for a front, one after the other; begun while the front has one thread."""

    def __init__(self) -> None:
        front = os.getpid()
        self._asks, answers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            try:
                supervise._end_with(front, signal.SIGKILL)
                self._asks.close()
                while True:
                    _bear(answers)
            finally:
                os._exit(1)  # the front has ended
        answers.close()

    def begin(self, command: list[str], **_: Any) -> "Back":
        """As subprocess.Popen of a back."""
        theirs, ours = os.pipe()
        socket.send_fds(self._asks, ["\0".join(command[3:]).encode()], [theirs])
        os.close(theirs)
        return Back(self._asks, ours)


def _bear(answers: socket.socket) -> None:
    asked, files, *_ = socket.recv_fds(answers, 1 << 16, 1)
    if not asked:
        os._exit(0)
    nursery, child = os.getpid(), os.fork()
    if child == 0:
        answers.close()
        os.dup2(files[0], 0)
        os.dup2(2, 1)
        arguments = asked.decode().split("\0")
        arguments[arguments.index("--parent") + 1] = str(nursery)
        code = 1
        try:
            code = back.main(arguments)
        finally:
            os._exit(code)
    os.close(files[0])
    answers.send(str(child).encode())
    _, status = os.waitpid(child, 0)
    answers.send(str(os.waitstatus_to_exitcode(status)).encode())


class Back:
    """As subprocess.Popen gives it."""

    def __init__(self, asks: socket.socket, stdin: int) -> None:
        self.pid = int(asks.recv(64))
        self.stdin = os.fdopen(stdin, "wb")
        self._asks = asks
        self._code: int | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        self._code = int(self._asks.recv(64) or -signal.SIGKILL)
        self._ended.set()

    def poll(self) -> int | None:
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("back", timeout or 0.0)
        assert self._code is not None
        return self._code

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def front(*arguments: Any) -> int:
    supervise.subprocess.Popen = Nursery().begin  # type: ignore[misc,assignment]
    return honest(*arguments)


serve._front = front
main()
