"""The front keeps its back alive; the back does not outlive its front.

    front                                      back (python -m exuvia.node.back)
    start, wait for its end, start it again    prctl PDEATHSIG: SIGTERM when the front's thread ends
    0.1 s later, twice as long each time       its standard input: end of file when the front ends
    up to 5 s; from anew after a quiet minute  then it stops in order, and after GRACE_S by force

Spark's JVM ends when its own standard input does, and that is held by the back: so it ends with it.
"""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

from exuvia.base.clock import Clock

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
QUIET_S = 60.0
GRACE_S = 3.0
_PR_SET_PDEATHSIG = 1

_log = logging.getLogger(__name__)


class Supervisor:
    """Starts a child process again whenever it ends, until told to stop."""

    def __init__(self, command: Sequence[str], clock: Clock) -> None:
        self._command = list(command)
        self._clock = clock
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self.starts = 0

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """The child's process id, None between two of them."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            code = self._one_life()
            if self._stopping.is_set():
                return
            quiet = self._clock.monotonic() - began >= QUIET_S
            pause_s = FIRST_PAUSE_S if quiet else min(pause_s * 2, LONGEST_PAUSE_S)
            _log.warning("the back ended", extra={"exit_code": code, "again_in_s": pause_s})
            self._stopping.wait(pause_s)

    def _one_life(self) -> int:
        with self._lock:
            if self._stopping.is_set():
                return 0
            child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=sys.stderr.fileno()
            )
            self._child = child
            self.starts += 1
        _log.info("the back was started", extra={"back_pid": child.pid})
        return child.wait()

    def begin_stop(self) -> None:
        """Ask the child to end; returns at once."""
        self._stopping.set()
        with self._lock:
            if self._child is not None and self._child.poll() is None:
                self._child.terminate()

    def finish_stop(self, timeout_s: float) -> None:
        """Wait for its end, by force after that time."""
        with self._lock:
            child = self._child
        if child is None:
            return
        try:
            child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            _log.warning("the back did not end in time", extra={"back_pid": child.pid})
            child.kill()
            child.wait()
        if child.stdin is not None:
            child.stdin.close()


def end_with_parent(parent_pid: int, stop: Callable[[], None]) -> None:
    """Call `stop` when the parent ends, however it ends, and end by force GRACE_S later.

    For the child's main thread, before anything else. Exits at once if the parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        raise SystemExit("the front ended before its back began")
    threading.Thread(target=_watch_input, args=(stop,), name="parent-watch", daemon=True).start()


def _watch_input(stop: Callable[[], None]) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    stop()


def end_by_force(grace_s: float, code: int) -> None:
    """End this process after `grace_s` even if a thread hangs in a library; returns at once."""

    def end() -> None:
        threading.Event().wait(grace_s)
        _log.warning("stopping took too long: ended by force")
        logging.shutdown()
        os._exit(code)

    threading.Thread(target=end, name="last-resort", daemon=True).start()
