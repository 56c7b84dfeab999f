"""`exuvia` with something wrong: programs that tests start instead of it.

    python faulty_nodes.py breaking FAULT serve ...   a loop of the front breaks whenever the file
                                                      FAULT appears; hangs, where it holds "hang"
    python faulty_nodes.py hurried serve ...          front and back are back at once
    python faulty_nodes.py slotless serve ...         hurried, and its reads find no slot in LMDB's
                                                      table when told: store_faults.py, SLOT

A hurried node is for tests that end it by the hundred: loading takes a front 2 s of processor time
and a back 1.5 s, so they are forked from processes that have everything loaded, and nobody waits
long before the next life. The rest is as it is: who dies with whom, the back's standard input, its
exit code.

    keeper -> front -> nursery -> back      keeper and nursery have one thread and all modules
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a fork keeps one thread: the others must not be there

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import lmdb

from exuvia.cli import main as commands
from exuvia.cluster.versions import Acknowledger
from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.native import translate
from exuvia.node import supervise


def breaking() -> None:
    """The acknowledger meets the fault."""
    fault = Path(sys.argv.pop(1))
    honest = Acknowledger.step

    def step(self: Acknowledger, now: float) -> float:
        if fault.exists():
            if fault.read_text() == "hang":
                threading.Event().wait()
            fault.unlink()
            raise ZeroDivisionError("planted")
        return honest(self, now)

    Acknowledger.step = step  # type: ignore[method-assign]


def slotless() -> None:
    """Reads of LMDB fail when told."""
    sys.path.append(str(Path(__file__).parents[1]))
    from support.store_faults import SLOT, inherited

    faults, honest = inherited(), Environment.read

    def read(self: Environment) -> Any:
        if faults.meets(SLOT):
            raise translate(lmdb.ReadersFullError("planted"), self.data_path)
        return honest(self)

    Environment.read = read  # type: ignore[method-assign]
    hurried()


def hurried() -> None:
    """Forked, and not pausing between two lives."""
    import exuvia.node.back
    import exuvia.node.front
    import exuvia.pipeline.phase_runner

    assert exuvia.node.back and exuvia.node.front and exuvia.pipeline.phase_runner
    supervise.FIRST_PAUSE_S = 0.05
    supervise.LONGEST_PAUSE_S = 0.3
    honest = commands.serve_front

    def front(*arguments: Any) -> int:
        supervise.subprocess.Popen = Nursery().begin  # type: ignore[misc,assignment]
        return honest(*arguments)

    commands.serve_front = front


class Nursery:
    """Forks backs for a front, one after the other; begun while the front has one thread."""

    def __init__(self) -> None:
        front = os.getpid()
        self._asks, answers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            try:
                supervise.end_with(front, signal.SIGKILL)
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
        from exuvia.node import back

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


if __name__ == "__main__":
    {"breaking": breaking, "hurried": hurried, "slotless": slotless}[sys.argv.pop(1)]()
    commands.main()
