"""Waiting on channels, across processes.

A process that waits binds one datagram socket in the store's `wake/` folder. A commit that
touched a channel sends an empty message to each socket there; whoever gets one reads its
channel's counter again in the store. The message says nothing, so none can be lost that matters:
a full queue means that the receiver will look anyway, and it will look after the commit. A socket
nobody listens on is removed by the first sender who finds out. `fallback_s` covers what is left,
such as a process that could not bind."""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from exuvia.base.clock import Clock
from exuvia.base.errors import Unavailable


class Wake:
    """`read(channel)` gives the channel's counter as committed now."""

    def __init__(
        self, folder: str, read: Callable[[str], int], clock: Clock, fallback_s: float
    ) -> None:
        os.makedirs(folder, exist_ok=True)
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._read = read
        self._clock = clock
        self._fallback_s = fallback_s
        self._changed = threading.Condition()
        self._waiters = 0
        self._why = ""
        self._name = ""
        self._inbox: socket.socket | None = None
        self._listener: threading.Thread | None = None
        self._outbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._outbox.setblocking(False)

    def _address(self, name: str) -> str:
        """Short enough for a socket however long the store's path is."""
        return f"/proc/self/fd/{self._folder}/{name}"

    # -- waiting ---------------------------------------------------------------------------------

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        """Wait until the counter is > after or time is up; the counter."""
        value = self._read(channel)
        if value > after or timeout_s <= 0:
            return value
        deadline = self._clock.monotonic() + timeout_s
        with self._changed:
            self._listen()
            self._waiters += 1
            try:
                while (value := self._read(channel)) <= after:
                    left_s = deadline - self._clock.monotonic()
                    if left_s <= 0:
                        break
                    self._changed.wait(min(left_s, self._fallback_s))
                    if self._why:
                        raise Unavailable(self._why)
            finally:
                self._waiters -= 1
        return value

    def _listen(self) -> None:
        if self._inbox is not None or self._why:
            return
        self._name = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._inbox.bind(self._address(self._name))
        self._listener = threading.Thread(
            target=self._receive, args=(self._inbox,), name="exuvia-wake", daemon=True
        )
        self._listener.start()

    def _receive(self, inbox: socket.socket) -> None:
        while not self._why:
            inbox.recv(1)
            self._wake_here()

    def _wake_here(self) -> None:
        with self._changed:
            if self._waiters:
                self._changed.notify_all()

    # -- waking ----------------------------------------------------------------------------------

    def announce(self) -> None:
        """A commit touched a channel: wake this process's waiters and all others'."""
        self._wake_here()
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
            return  # its queue is full, so it will look; or it has just gone

    def sweep(self) -> None:
        """Remove sockets nobody listens on."""
        for name in os.listdir(self._folder):
            self._send(name)

    # -- the end ---------------------------------------------------------------------------------

    def orphan(self) -> None:
        """In a forked child: let the parent's socket go."""
        if self._inbox is not None:
            self._inbox.close()

    def close(self, why: str) -> None:
        """Wake everybody; waits raise Unavailable from now on."""
        with self._changed:
            self._why = why
            self._changed.notify_all()
        if self._inbox is not None and self._listener is not None:
            self._send(self._name)
            self._listener.join()
            self._inbox.close()
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._folder)
        self._outbox.close()
        os.close(self._folder)
