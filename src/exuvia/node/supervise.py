"""Process supervision: `exuvia serve` restarts its fronts, front 0 its back; no child outlives its
parent.

    exuvia serve (Keeper)      fronts (forks of it)      back (python -m exuvia.node.back)
    starts them, and again     front 0 starts it, and    prctl PDEATHSIG: SIGTERM
    when one ends by itself:   again when it ends        its standard input: end of file
    with a broken loop,        prctl PDEATHSIG:          when front 0 ends; then it stops
    killed, ...                SIGKILL                   in order, after GRACE_S by force
    passes SIGTERM on          stop in order on it

The pause before a restart is 0.1 s, then twice as long each time up to 5 s; it is 0.1 s again after
a quiet minute. If front 0 was never ready, the node ends: the front's own output shows why it
cannot start.

The keeper imports little. It holds the resources open that all fronts share (server/fronts.py),
such as the listening sockets. So clients that connect while a front is restarted wait for it; if it
cannot be restarted, they get an error. The keeper has one thread when it forks. Killing it by force
ends the node.

Spark's JVM ends when its standard input is closed. The back holds that open, so the JVM ends with
the back.
"""

import atexit
import ctypes
import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from exuvia.base.clock import Clock

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
QUIET_S = 60.0
GRACE_S = 3.0
CRASHED = 70
_PR_SET_PDEATHSIG = 1
_STDERR = 2  # sys.stderr has no descriptor in a notebook
_ASKED_TO_STOP = (signal.SIGTERM, signal.SIGINT)
_OF_DAMAGE = (signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV)

_log = logging.getLogger(__name__)

Ready = Callable[[str], None]


def _next_pause(pause_s: float, lived_s: float) -> float:
    """The pause before the next start. Unit: s."""
    return FIRST_PAUSE_S if lived_s >= QUIET_S else min(pause_s * 2, LONGEST_PAUSE_S)


def described_end(code: int, pause_s: float | None = None) -> dict[str, object]:
    """The log fields for a process that ended. Some signals point to a damaged store.

    LMDB aborts its process on an invalid page (SIGABRT); the kernel sends SIGBUS if the disk cannot
    read a page."""
    fields: dict[str, object] = {"exit_code": code}
    if pause_s is not None:
        fields["again_in_s"] = pause_s
    if -code in _OF_DAMAGE:
        fields["reason"] = (
            f"{signal.Signals(-code).name}: the store's file data.mdb may be damaged, or its disk "
            "unreadable, if this comes again: stop all nodes, keep the file, check the disk, and "
            "restore the last good copy"
        )
    return fields


class _Front:
    """A front: its process, and the state for the next start."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.line = ""  # passed to `ready`
        self.pause_s = FIRST_PAUSE_S
        self.began = self.due = 0.0
        self.files: list[int] = []  # the read end of its pipe, its pidfd


class Keeper:
    """Runs `life(number, before, ready)` in a forked process for each front, again whenever it ends
    by itself.

    `life` calls `ready` with a line once it serves, and returns its exit code. `before` is the
    first line that front 0 passed to `ready`; "" in front 0's first life. The other fronts start
    after that. `ended` is called with the number of each front that ended. `unserved` is called
    when a front ended before it was ready and no other serves. Use it in the main thread of a
    process without other threads."""

    def __init__(
        self,
        life: Callable[[int, str, Ready], int],
        clock: Clock,
        fronts: int = 1,
        ended: Callable[[int], None] = lambda number: None,
        unserved: Callable[[], None] = lambda: None,
    ) -> None:
        self._life = life
        self._clock = clock
        self._ended = ended
        self._unserved = unserved
        self._fronts = [_Front(number) for number in range(fronts)]
        self._before = ""
        self._code: int | None = None  # the node's exit code, once it has to end
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ)

    def run(self) -> int:
        """Run until a signal comes, or front 0 ends before it was ready. Returns the exit code."""
        for number in _ASKED_TO_STOP:
            signal.signal(number, self._stop)
        while self._code is None or any(front.pid for front in self._fronts):
            events = [key for key, _ in self._selector.select(self._begin_due()) if key.data]
            for key in sorted(events, key=lambda key: not key.data[1]):
                front, is_pipe = key.data
                if is_pipe:
                    self._read_line(front, key.fd)
                else:  # last: it closes the pipe
                    self._reap(front)
        return self._code

    def _stop(self, *_: object) -> None:
        """Ask all fronts to end. Also the signal handler."""
        if self._code is None:
            self._code = 0
        for front in self._fronts:
            if front.pid:
                os.kill(front.pid, signal.SIGTERM)
        os.eventfd_write(self._wake, 1)

    def _begin_due(self) -> float | None:
        """Start the fronts that are due. Returns the seconds until the next one is."""
        if self._code is not None:
            return None
        now = self._clock.monotonic()
        waiting = [
            front for front in self._fronts if not front.pid and (self._before or not front.number)
        ]
        for front in waiting:
            if front.due <= now:
                self._begin(front)
        return min((front.due - now for front in waiting if not front.pid), default=None)

    def _begin(self, front: _Front) -> None:
        keeper = os.getpid()
        read_end, write_end = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, _ASKED_TO_STOP)  # no signal is lost around fork
        child = os.fork()
        if child == 0:
            self._selector.close()
            for fd in (read_end, self._wake, *(fd for other in self._fronts for fd in other.files)):
                os.close(fd)
            self._run_child(front, keeper, write_end)
        os.close(write_end)
        front.pid, front.began, front.line = child, self._clock.monotonic(), ""
        front.files = [read_end, os.pidfd_open(child)]
        for fd in front.files:
            self._selector.register(fd, selectors.EVENT_READ, (front, fd == read_end))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKED_TO_STOP)

    def _read_line(self, front: _Front, fd: int) -> None:
        """Read the line of a front that is ready, or close its pipe at the end of file."""
        line = os.read(fd, 1 << 16).decode().strip()
        front.line = front.line or line
        self._before = self._before or line
        if not line:
            self._selector.unregister(fd)
            os.close(fd)
            front.files.remove(fd)

    def _reap(self, front: _Front) -> None:
        """Collect the exit code of a front, and schedule its restart or end the node."""
        _, status = os.waitpid(front.pid, 0)
        for fd in list(front.files):
            if len(front.files) > 1 and fd == front.files[0]:
                self._read_line(front, fd)  # its last line
        for fd in front.files:
            self._selector.unregister(fd)
            os.close(fd)
        front.files, front.pid = [], 0
        self._ended(front.number)
        code = os.waitstatus_to_exitcode(status)
        if self._code is not None:
            self._code = self._code or (0 if -code in _ASKED_TO_STOP else abs(code))
        elif code == 0 or not self._before:
            if code < 0:  # a front that exits by itself has logged the reason
                _log.error("the front ended before it served", extra=described_end(code))
            self._code = abs(code)
            self._stop()
        else:
            now = self._clock.monotonic()
            front.pause_s = _next_pause(front.pause_s, now - front.began)
            front.due = now + front.pause_s
            fields = {"front": front.number} if front.number else {}
            _log.error("the front ended", extra=described_end(code, front.pause_s) | fields)
            if not front.line and not any(other.pid and other.line for other in self._fronts):
                self._unserved()

    def _run_child(self, front: _Front, keeper: int, write_end: int) -> None:
        """Run the forked process to its end."""
        code = CRASHED
        try:
            for number in _ASKED_TO_STOP:
                signal.signal(number, signal.SIG_DFL)
            end_with(keeper, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKED_TO_STOP)

            def ready(line: str) -> None:
                os.write(write_end, f"{line}\n".encode())

            code = self._life(front.number, self._before, ready)
        except BaseException as error:  # last handler of the process: no error is silent
            _log.critical("the front failed", exc_info=error)
        finally:
            try:
                logging.shutdown()
                sys.stdout.flush()
            finally:
                os._exit(code)


class Supervisor:
    """Restarts a child process whenever it ends, until it is stopped.

    `apart`: the child gets a session of its own, so that a terminal's interrupt or stop does not
    reach it. `environment`: the child's environment, if it differs from this process's."""

    def __init__(
        self,
        command: Sequence[str],
        clock: Clock,
        apart: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._apart = apart
        self._environment = environment
        self._command = list(command)
        self._clock = clock
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self.starts = 0

    @property
    def started(self) -> bool:
        """Whether `start` was called."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Start the child in the background."""
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """The child's process id, or None between two children."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            try:
                code = self._one_life()
            except OSError as error:  # no free process or memory: may be temporary
                _log.error("the back was not started", extra={"reason": str(error)})
                code = 1
            if self._stopping.is_set():
                return
            pause_s = _next_pause(pause_s, self._clock.monotonic() - began)
            _log.warning("the back ended", extra=described_end(code, pause_s))
            self._stopping.wait(pause_s)

    def _one_life(self) -> int:
        with self._lock:
            if self._stopping.is_set():
                return 0
            child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=_STDERR,
                start_new_session=self._apart,
                env=self._environment,
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
        """Wait for the child to end; kill it after `timeout_s`."""
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
    """Call `stop` when the parent ends in any way, and end by force GRACE_S later.

    Call it first in the child's main thread. Exits at once if the parent has ended."""
    end_with(parent_pid, signal.SIGTERM)
    threading.Thread(target=_watch_input, args=(stop,), name="parent-watch", daemon=True).start()


def end_with(parent_pid: int, number: int) -> None:
    """Have the kernel send this signal when the parent ends. Exits if it has ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent_pid:
        raise SystemExit("the parent ended before its child began")


def _watch_input(stop: Callable[[], None]) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    stop()


class LastStop:
    """Ends this process with `code` once all exit handlers have run, but without finalizing the
    interpreter.

    Finalizing kills daemon threads anywhere. If one is inside a C++ library (DuckDB, in an
    abandoned statement), the process aborts: SIGABRT, "exception not rethrown". Create it when the
    process begins: exit handlers registered later run before it."""

    def __init__(self) -> None:
        self.code = 1  # the code for an uncaught exception
        atexit.register(self._end)

    def run(self, main: Callable[[], int | None]) -> None:
        """Exit with the return value of `main`, or with its SystemExit."""
        try:
            self.code = main() or 0
        except SystemExit as end:
            if isinstance(end.code, int | None):
                self.code = end.code or 0
            raise
        raise SystemExit(self.code)

    def _end(self) -> None:
        try:
            logging.shutdown()
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):  # the pipe has no reader, or is closed
                    stream.flush()
        finally:
            os._exit(self.code)


def end_by_force(grace_s: float, code: int) -> threading.Event:
    """End this process after `grace_s` even if a thread hangs in a library; returns at once.

    Set the returned event to cancel this."""
    stopped = threading.Event()

    def end() -> None:
        if stopped.wait(grace_s):
            return
        _log.warning("stopping took too long: ended by force")
        logging.shutdown()
        os._exit(code)

    threading.Thread(target=end, name="last-resort", daemon=True).start()
    return stopped
