"""Who keeps whom alive: `exuvia serve` its front, that its back; nobody outlives its parent.

    exuvia serve (Keeper)      fronts (forks of it)      back (python -m exuvia.node.back)
    starts them, and again     front 0 starts it, and    prctl PDEATHSIG: SIGTERM
    when one ends by itself:   again when it ends        its standard input: end of file
    with a broken loop,        prctl PDEATHSIG:          when front 0 ends; then it stops
    killed, ...                SIGKILL                   in order, after GRACE_S by force
    passes SIGTERM on          stop in order on it

Again after 0.1 s, twice as long each time up to 5 s; from anew after a quiet minute. A node whose
front 0 was never ready ends: what it said is why it cannot start. The keeper loads nothing and
holds open what all fronts share (server/fronts.py): the sockets, so clients who come while a front
is started again wait for it; if it cannot be, they are told. It has one thread when it forks.
Killing it by force means the node.

Spark's JVM ends when its own standard input does, and that is held by the back: so it ends with it.
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
_STDERR = 2  # sys.stderr of a notebook is no file
_ASKED_TO_STOP = (signal.SIGTERM, signal.SIGINT)
_OF_DAMAGE = (signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV)

_log = logging.getLogger(__name__)

Ready = Callable[[str], None]


def _next_pause(pause_s: float, lived_s: float) -> float:
    """How long to wait before the next life."""
    return FIRST_PAUSE_S if lived_s >= QUIET_S else min(pause_s * 2, LONGEST_PAUSE_S)


def described_end(code: int, pause_s: float | None = None) -> dict[str, object]:
    """What is logged of a life that ended: LMDB ends its process where it meets a page that is none
    (an assertion), and the kernel where the disk cannot read one."""
    found: dict[str, object] = {"exit_code": code}
    if pause_s is not None:
        found["again_in_s"] = pause_s
    if -code in _OF_DAMAGE:
        found["reason"] = (
            f"{signal.Signals(-code).name}: the store's file data.mdb may be damaged, or its disk "
            "unreadable, if this comes again: stop all nodes, keep the file, check the disk, and "
            "restore the last good copy"
        )
    return found


class _Front:
    """One of the keeper's children, and what comes after it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.line = ""  # it was ready with
        self.pause_s = FIRST_PAUSE_S
        self.began = self.due = 0.0
        self.files: list[int] = []  # its pidfd, and what it tells by


class Keeper:
    """Runs `life(number, before, ready)` in a forked process for each front, again whenever that
    ends by itself.

    `life` calls `ready` with a line once it serves, and gives its exit code. `before` is the line
    that front 0 was first ready with, "" in its own first life; the others begin after that.
    `ended`: told of each front's number when it has ended. `unserved`: called when one could not be
    started again, and no other serves. For the main thread of a process that has no other."""

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
        self._code: int | None = None  # the node's, as soon as it is to end
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ)

    def run(self) -> int:
        """Until a signal comes, or the first life ends before it was ready; the exit code."""
        for number in _ASKED_TO_STOP:
            signal.signal(number, self._stop)
        while self._code is None or any(each.pid for each in self._fronts):
            seen = [key for key, _ in self._selector.select(self._begin_due()) if key.data]
            for key in sorted(seen, key=lambda key: not key.data[1]):
                front, tells = key.data
                if tells:
                    self._hear(front, key.fd)
                else:  # last: burying a front closes what it told by
                    self._bury(front)
        return self._code

    def _stop(self, *_: object) -> None:
        """As a signal's handler, or because the node is to end: everybody."""
        if self._code is None:
            self._code = 0
        for each in self._fronts:
            if each.pid:
                os.kill(each.pid, signal.SIGTERM)
        os.eventfd_write(self._wake, 1)

    def _begin_due(self) -> float | None:
        """Start whoever is due; seconds until the next one is."""
        if self._code is not None:
            return None
        now = self._clock.monotonic()
        waiting = [
            each for each in self._fronts if not each.pid and (self._before or not each.number)
        ]
        for each in waiting:
            if each.due <= now:
                self._begin(each)
        return min((each.due - now for each in waiting if not each.pid), default=None)

    def _begin(self, front: _Front) -> None:
        keeper = os.getpid()
        told, tell = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, _ASKED_TO_STOP)  # none is lost between the two
        child = os.fork()
        if child == 0:
            self._selector.close()
            for fd in (told, self._wake, *(fd for each in self._fronts for fd in each.files)):
                os.close(fd)
            self._be(front, keeper, tell)
        os.close(tell)
        front.pid, front.began, front.line = child, self._clock.monotonic(), ""
        front.files = [told, os.pidfd_open(child)]
        for fd in front.files:
            self._selector.register(fd, selectors.EVENT_READ, (front, fd == told))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKED_TO_STOP)

    def _hear(self, front: _Front, told: int) -> None:
        """It serves, or says nothing more."""
        line = os.read(told, 1 << 16).decode().strip()
        front.line = front.line or line
        self._before = self._before or line
        if not line:
            self._selector.unregister(told)
            os.close(told)
            front.files.remove(told)

    def _bury(self, front: _Front) -> None:
        """It has ended: is it begun again?"""
        _, status = os.waitpid(front.pid, 0)
        for fd in list(front.files):
            if len(front.files) > 1 and fd == front.files[0]:
                self._hear(front, fd)  # what it said last
        for fd in front.files:
            self._selector.unregister(fd)
            os.close(fd)
        front.files, front.pid = [], 0
        self._ended(front.number)
        code = os.waitstatus_to_exitcode(status)
        if self._code is not None:
            self._code = self._code or (0 if -code in _ASKED_TO_STOP else abs(code))
        elif code == 0 or not self._before:
            if code < 0:  # a front that exits by itself has said why
                _log.error("the front ended before it served", extra=described_end(code))
            self._code = abs(code)
            self._stop()
        else:
            now = self._clock.monotonic()
            front.pause_s = _next_pause(front.pause_s, now - front.began)
            front.due = now + front.pause_s
            said = {"front": front.number} if front.number else {}
            _log.error("the front ended", extra=described_end(code, front.pause_s) | said)
            if not front.line and not any(each.pid and each.line for each in self._fronts):
                self._unserved()

    def _be(self, front: _Front, keeper: int, tell: int) -> None:
        """The whole of the forked process."""
        code = CRASHED
        try:
            for number in _ASKED_TO_STOP:
                signal.signal(number, signal.SIG_DFL)
            end_with(keeper, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKED_TO_STOP)

            def ready(line: str) -> None:
                os.write(tell, f"{line}\n".encode())

            code = self._life(front.number, self._before, ready)
        except BaseException as error:  # the last stop of a process: nothing may end it silently
            _log.critical("the front failed", exc_info=error)
        finally:
            try:
                logging.shutdown()
                sys.stdout.flush()
            finally:
                os._exit(code)


class Supervisor:
    """Starts a child process again whenever it ends, until told to stop. `apart`: what a terminal
    sends to all that run in it (an interrupt, a stop) is not for the child. `environment`: the
    child's, if it is not to be this process's."""

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
        """Whether it was told to begin."""
        return self._thread.ident is not None

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
            try:
                code = self._one_life()
            except OSError as error:  # no process, no memory: there may be some later
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
    end_with(parent_pid, signal.SIGTERM)
    threading.Thread(target=_watch_input, args=(stop,), name="parent-watch", daemon=True).start()


def end_with(parent_pid: int, number: int) -> None:
    """The kernel sends this process that signal when its parent ends. Exits if it has ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent_pid:
        raise SystemExit("the parent ended before its child began")


def _watch_input(stop: Callable[[], None]) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    stop()


class LastStop:
    """Ends this process with `code` when all that waits for its end has run, and without taking the
    interpreter down. That kills the daemon threads wherever they are, and one inside a C++ library
    (DuckDB, in a statement that was left behind) takes the process along: SIGABRT, "exception not
    rethrown". To be made when the process begins: what registers for its end later runs before."""

    def __init__(self) -> None:
        self.code = 1  # of an exception that nobody caught
        atexit.register(self._end)

    def run(self, main: Callable[[], int | None]) -> None:
        """Exits with what `main` gives, or with its SystemExit."""
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
                with suppress(OSError, ValueError):  # nobody reads it; it is closed
                    stream.flush()
        finally:
            os._exit(self.code)


def end_by_force(grace_s: float, code: int) -> threading.Event:
    """End this process after `grace_s` even if a thread hangs in a library, unless what it gives
    back is set; returns at once."""
    stopped = threading.Event()

    def end() -> None:
        if stopped.wait(grace_s):
            return
        _log.warning("stopping took too long: ended by force")
        logging.shutdown()
        os._exit(code)

    threading.Thread(target=end, name="last-resort", daemon=True).start()
    return stopped
