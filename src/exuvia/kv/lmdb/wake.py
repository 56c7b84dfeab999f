"""Waiting on channels, across processes.

A process that waits binds one datagram socket in the store's `wake/` folder. A commit that changed
a channel sends an empty message to each socket there. The receiver reads all counters on which its
process waits in one read, and wakes the waiters whose counter has changed. With thirty loops that
sleep on ten channels, a commit wakes one thread instead of thirty. Messages have no content, so a
lost one does no harm: if a queue is full, the receiver will read anyway, after the commit. A socket
without a listener is removed by the first sender that notices. `fallback_s` covers other cases,
such as a process that could not bind.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from exuvia.base import private_files
from exuvia.base.clock import Clock
from exuvia.base.errors import Unavailable

READ_AT_ONCE = 16

_log = logging.getLogger(__name__)


class _Waiter:
    """A thread that waits; its gate is a lock, released when the thread is to check."""

    __slots__ = ("after", "gate", "woken")

    def __init__(self, after: int) -> None:
        self.after = after
        self.woken = False
        self.gate = threading.Lock()
        self.gate.acquire()


class Wake:
    """The waiters of this process. `read(channels)` returns the channels' committed counters."""

    def __init__(
        self,
        folder: str,
        read: Callable[[Sequence[str]], list[int]],
        clock: Clock,
        fallback_s: float,
    ) -> None:
        private_files.make_folder(folder)
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._read = read
        self._clock = clock
        self._fallback_s = fallback_s
        self._mutex = threading.Lock()
        self._waiters: dict[str, set[_Waiter]] = {}
        self._why = ""
        self._name = ""
        self._inbox: socket.socket | None = None
        self._listener: threading.Thread | None = None
        self._outbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._outbox.setblocking(False)

    def _address(self, name: str) -> str:
        """A path short enough for a socket, however long the store's path is."""
        return f"/proc/self/fd/{self._folder}/{name}"

    # -- waiting ---------------------------------------------------------------------------------

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        """Wait until the counter is > `after`, or for the timeout. Returns the counter."""
        (value,) = self._read([channel])
        if value > after or timeout_s <= 0:
            return value
        deadline = self._clock.monotonic() + timeout_s
        waiter = _Waiter(after)
        with self._mutex:
            self._listen()
            self._waiters.setdefault(channel, set()).add(waiter)
        try:
            while True:
                (value,) = self._read([channel])
                left_s = deadline - self._clock.monotonic()
                if value > after or left_s <= 0:
                    return value
                if waiter.gate.acquire(timeout=min(left_s, self._fallback_s)):
                    with self._mutex:
                        waiter.woken = False
                if self._why:
                    raise Unavailable(self._why)
        finally:
            with self._mutex:
                waiting = self._waiters[channel]
                waiting.discard(waiter)
                if not waiting:
                    del self._waiters[channel]

    def _listen(self) -> None:
        if self._inbox is not None or self._why:
            return
        self._name = f"{os.getpid()}-{os.urandom(4).hex()}"
        inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            private_files.bind(inbox, self._address(self._name))
        except OSError:
            inbox.close()
            raise  # the next waiter tries again
        self._inbox = inbox
        self._listener = threading.Thread(
            target=self._receive, args=(self._inbox,), name="exuvia-wake", daemon=True
        )
        self._listener.start()

    def _receive(self, inbox: socket.socket) -> None:
        while not self._why:
            inbox.recv(1)
            with suppress(BlockingIOError):
                for _ in range(READ_AT_ONCE):  # one read answers them all
                    inbox.recv(1, socket.MSG_DONTWAIT)
            try:
                self._look()
            except Exception as error:  # closed, or no room to read: waiters check a little later
                if not self._why:  # by themselves, and this thread must continue
                    _log.warning("a wake-up was not passed on", extra={"reason": str(error)})

    def _look(self) -> None:
        """Wake the waiters of channels whose counter has changed."""
        with self._mutex:
            channels = list(self._waiters)
        if not channels:
            return
        counters = dict(zip(channels, self._read(channels), strict=True))
        with self._mutex:
            for channel, value in counters.items():
                self._open(w for w in self._waiters.get(channel, ()) if w.after < value)

    def _open(self, waiters: Iterable[_Waiter]) -> None:
        """Bind the socket. To be called with the mutex held."""
        for waiter in waiters:
            if not waiter.woken:
                waiter.woken = True
                waiter.gate.release()

    # -- waking ----------------------------------------------------------------------------------

    def announce(self, channels: Iterable[str]) -> None:
        """To be called after a commit to these channels: wakes all waiters, in all processes."""
        with self._mutex:
            for channel in channels:
                self._open(self._waiters.get(channel, ()))
        for name in os.listdir(self._folder):
            if name != self._name:
                self._send(name)

    def _send(self, name: str) -> None:
        try:
            self._outbox.sendto(b"", self._address(name))
        except ConnectionRefusedError:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._folder)
        except (BlockingIOError, FileNotFoundError, OSError):
            return  # its queue is full, so it will check; or it has just ended

    def sweep(self) -> None:
        """Remove sockets without listeners."""
        for name in os.listdir(self._folder):
            self._send(name)

    # -- closing ---------------------------------------------------------------------------------

    def orphan(self) -> None:
        """Forget the parent's socket in a forked child."""
        if self._inbox is not None:
            self._inbox.close()

    def close(self, why: str) -> None:
        """Wake all waiters; later waits raise Unavailable."""
        with self._mutex:
            self._why = why
            for waiters in self._waiters.values():
                self._open(waiters)
        if self._inbox is not None and self._listener is not None:
            self._send(self._name)
            self._listener.join()
            self._inbox.close()
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._folder)
        self._outbox.close()
        os.close(self._folder)
