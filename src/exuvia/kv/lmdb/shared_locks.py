"""The lock table (kv/lock_table.py) of a folder: a mapped file, record locks, sockets.

    rowlocks         the table, with real blocks: a full disk must not cause a bus error. The file
                     is never cut, because other processes may have it mapped
    rowlocks.wake/   one datagram socket for each process, for waiters whose key was granted
    locks            byte ROWS: the process that uses the table; SEATS + n: the process of seat n

Entries of dead processes are freed by the next process that meets them.
"""

import mmap
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from exuvia.base import private_files
from exuvia.base.errors import Unavailable
from exuvia.kv.lmdb.gate import ROWS, SEATS, LockFile
from exuvia.kv.lock_table import TABLE_BYTES

PATIENCE_S, PAUSE_S = 0.2, 0.00005
MESSAGE_BYTES = 16
Deliver = Callable[[bytes], None]


class RecordGuard:
    """See Guard in kv/lock_table.py. A process stopped inside the table is waited for once."""

    def __init__(self, locks: LockFile, folder: str) -> None:
        self._locks = locks
        self._stuck: int | None = None
        self._pause = threading.Event()  # never set
        private_files.make_folder(folder)
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._outbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._outbox.setblocking(False)

    def enter(self) -> bool:
        """Wait for the process inside, unless it makes no progress."""
        if self._locks.try_take(ROWS):
            return True
        holder = self._locks.holder(ROWS)
        if holder is not None and holder[0] == self._stuck:
            return False
        deadline = time.monotonic() + PATIENCE_S
        while not self._locks.try_take(ROWS):
            if time.monotonic() > deadline:
                holder = self._locks.holder(ROWS)
                self._stuck = holder[0] if holder else None
                return False
            self._pause.wait(PAUSE_S)
        self._stuck = None
        return True

    def leave(self) -> None:
        """Admit the next process."""
        self._locks.release(ROWS)

    def sit(self, seat: int) -> bool:
        """The seat is ours until this process ends."""
        return self._locks.try_take(SEATS + seat)

    def stand_up(self, seat: int) -> None:
        self._locks.release(SEATS + seat)

    def is_taken(self, seat: int) -> bool:
        """Whether another living process has the seat."""
        return self._locks.holder(SEATS + seat) is not None

    def address(self, name: str) -> str:
        """A path short enough for a socket, however long the store's path is."""
        return f"/proc/self/fd/{self._folder}/{name}"

    def is_empty(self, seats: int) -> bool:
        """Whether no other living process has one of these seats."""
        return self._locks.holder(SEATS, seats) is None

    def send(self, address: bytes, message: bytes) -> None:
        """Lost if the queue is full or the process is gone: waiters also check by themselves."""
        with suppress(OSError):
            self._outbox.sendto(message, self.address(address.decode()))

    def sweep(self) -> None:
        """Remove the sockets of processes that have ended."""
        for name in os.listdir(self._folder):
            try:
                self._outbox.sendto(b"", self.address(name))
            except ConnectionRefusedError:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._folder)
            except OSError:
                continue

    def close(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)
        self._outbox.close()
        os.close(self._folder)


class Inbox:
    """This process's socket, and the thread that reads it."""

    def __init__(self, guard: RecordGuard) -> None:
        self.name = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._guard = guard
        self._closed = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        private_files.bind(self._socket, guard.address(self.name))
        self._thread: threading.Thread | None = None

    def listen(self, deliver: Deliver) -> None:
        """Pass every message to `deliver` from now on."""
        self._thread = threading.Thread(
            target=self._run, args=(deliver,), name="exuvia-locks", daemon=True
        )
        self._thread.start()

    def _run(self, deliver: Deliver) -> None:
        while True:
            data = self._socket.recv(MESSAGE_BYTES)
            if self._closed:
                return
            deliver(data)

    def close(self) -> None:
        self._closed = True
        self._guard.send(self.name.encode(), b"")
        if self._thread is not None:
            self._thread.join(1.0)
        self._socket.close()


def mapped(path: str) -> memoryview:
    """The mapped table. Raises Unavailable if there is no room."""
    file = private_files.opened(path)
    try:
        os.posix_fallocate(file, 0, TABLE_BYTES)
        return memoryview(mmap.mmap(file, TABLE_BYTES))
    except OSError as error:
        raise Unavailable(f"no room for the table of locks: {error}") from error
    finally:
        os.close(file)
