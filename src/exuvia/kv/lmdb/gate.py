"""The record locks of a folder, and the gate, which orders the writers of all processes.

LMDB has a write mutex of its own. It does not show its holder, allows no timeout, and lets a busy
process starve the others. Every write transaction of Exuvia therefore passes this gate first:

    take TURN   wait for WRITER   (count the tenure)   release TURN   write   release WRITER

The process that waits for WRITER holds TURN, so the process that just wrote cannot overtake it. The
first two numbers in `notes` grow with every turn and tenure. A waiter that sees the same holders
*and* the same numbers for long knows that a single write transaction is still running. A process
stopped between taking a lock and counting makes no difference: the kernel already names it as
holder, and the number does not change.

The third number is the running tenure, 0 between tenures; the sixth is the process of that tenure.
If the lock is free, or another process has it, that process ended inside its tenure. LMDB may then
have its transaction on disk, but shows it to no reader before the next writer has begun. The next
writer therefore leaves these two numbers unchanged until it has begun, even if it is delayed while
it has the lock. Readers must first have a writer begin (see store).

A transaction is one tenure, so a large commit is a long one. The fourth number is its progress: it
grows with every thousand keys checked or written. The fifth is the thread that writes; waiters can
see its disk waits in /proc (see caretaker). This distinguishes a long tenure from a hanging one.

`longest_s` is the longest tenure of this process, `held_s` the sum of all its tenures.

A record lock of the kernel on the lock file ends with its process, and the kernel names the holder:

    byte                 held by
    DOOR                 a process that is opening the store
    TURN                 the process that writes next
    WRITER               the process that writes
    SWAPPER              the process that exchanges the data file (see compact)
    ROWS                 the process that uses the table of row locks (see shared_locks)
    SEATS + n            the process that has seat n of that table
    MEMBERS + pid        every process that has the store open
    BULKS + pid          a process while a chain of its bulks waits or is written
    HOSTS + pid          a user's program that embeds the store

These are POSIX locks (fcntl) rather than flock. A forked child does not inherit them, and F_GETLK
returns the holder's pid, so the holder of a lock is known at every moment. They have two traps.
They do not exclude threads of one process: callers hold a mutex. Closing *any* descriptor of the
file releases all locks of the process: the file is opened once.
"""

import errno
import fcntl
import mmap
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from exuvia.base import private_files

DOOR, TURN, WRITER, SWAPPER, ROWS = 0, 1, 2, 3, 4
SEATS = 1 << 16
MEMBERS = 1 << 32
MOST_PIDS = 1 << 32
BULKS = MEMBERS + MOST_PIDS
HOSTS = BULKS + MOST_PIDS

_FLOCK = struct.Struct("hhqqi4x")
_TAKEN = (errno.EACCES, errno.EAGAIN)


class LockFile:
    """One opened lock file. The locks of this process end with `close`."""

    def __init__(self, path: str) -> None:
        self._file = private_files.opened(path)

    def try_take(self, byte: int, shared: bool = False) -> bool:
        """Take a lock if no other process has it."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.lockf(self._file, kind | fcntl.LOCK_NB, 1, byte)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            return False
        return True

    def take(self, byte: int) -> None:
        """Take a lock; waits without a limit for the process that has it."""
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, byte)

    def release(self, byte: int) -> None:
        """Release a lock."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)

    def holder(self, byte: int, width: int = 1) -> tuple[int, int] | None:
        """(pid, byte) of another process's lock in the range, or None.

        The pid is 0 if the process is in another pid namespace."""
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, width, 0)
        kind, _, start, _, pid = _FLOCK.unpack(fcntl.fcntl(self._file, fcntl.F_GETLK, request))
        return None if kind == fcntl.F_UNLCK else (pid, start)

    def members(self) -> list[int]:
        """Pids of the other processes that have the store open."""
        pids = []
        byte = MEMBERS
        while (holder := self.holder(byte, MEMBERS + MOST_PIDS - byte)) is not None:
            pids.append(holder[0])
            byte = holder[1] + 1
        return pids

    def close(self) -> None:
        """Release all locks."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


# -- the gate --------------------------------------------------------------------------------------

_TURNS, _TENURES, _OPEN, _PROGRESS, _THREAD, _PROCESS = range(6)
_NOTES_BYTES = 48


class Holders(NamedTuple):
    """The present holders of the gate.

    `turn`, `writer`: pids of other processes, or 0. `turns`, `tenures`: the numbers of each.
    `progress` and `thread` are the writer's; `thread` 0: unknown."""

    turn: int
    writer: int
    turns: int
    tenures: int
    progress: int = 0
    thread: int = 0

    @property
    def blamed(self) -> int:
        """The pid for which the others wait, or 0."""
        return self.writer or self.turn


class Gate:
    """The gate of this process. Its callers exclude each other; any thread may read `waiting`."""

    def __init__(self, locks: LockFile, notes_path: str, clock: Callable[[], float]) -> None:
        self.locks = locks
        self._clock = clock
        self._entered_s = 0.0
        self.longest_s = self.held_s = 0.0
        self.tenures = 0
        self.inside = self._has_begun = False
        self._pid = os.getpid()
        self.waiting = False
        file = private_files.opened(notes_path)
        try:
            os.posix_fallocate(file, 0, _NOTES_BYTES)
            # never closed: a thread may still read it while another one closes the store
            self._notes = memoryview(mmap.mmap(file, _NOTES_BYTES)).cast("Q")
        finally:
            os.close(file)

    def enter(self) -> None:
        """Wait until this process may write."""
        notes, self.waiting = self._notes, True
        try:
            self.locks.take(TURN)
            notes[_TURNS] += 1
            self.locks.take(WRITER)
            notes[_THREAD] = threading.get_native_id()
            notes[_TENURES] += 1
            self.inside = True
            self._entered_s = self._clock()
        except BaseException:
            self.locks.release(WRITER)
            raise
        finally:
            self.locks.release(TURN)
            self.waiting = False

    def has_begun(self) -> None:
        """To be called when LMDB's transaction has begun, which repairs a killed writer's state."""
        self._has_begun, notes = True, self._notes
        notes[_PROCESS] = self._pid
        notes[_OPEN] = notes[_TENURES]

    def leave(self) -> None:
        """End the tenure."""
        if self._has_begun:
            self._notes[_OPEN] = 0
        self._notes[_THREAD] = 0
        self.inside = self._has_begun = False
        self.locks.release(WRITER)
        lasted_s = self._clock() - self._entered_s
        self.tenures += 1
        self.held_s += lasted_s
        if lasted_s > self.longest_s:
            self.longest_s = lasted_s

    @property
    def lasts_s(self) -> float:
        """Duration of the present tenure. Unit: s."""
        return self._clock() - self._entered_s

    @property
    def has_waiter(self) -> bool:
        """Whether another process waits with more than bulks."""
        waiting = self.locks.holder(TURN)
        return waiting is not None and self.locks.holder(BULKS + waiting[0]) is None

    @contextmanager
    def with_bulks(self) -> Iterator[None]:
        """Other processes' bulks need not stop early for writes of this context.

        Otherwise bulks of several tasks would sync every few milliseconds, which takes more time
        than the writing."""
        self.locks.try_take(BULKS + self._pid)
        try:
            yield
        finally:
            self.locks.release(BULKS + self._pid)

    def progress(self) -> None:
        """To be called by the writer about every thousand keys, as a sign of progress."""
        self._notes[_PROGRESS] += 1

    def holders(self) -> Holders:
        """The present holders."""
        turn = self.locks.holder(TURN)
        writer = self.locks.holder(WRITER)
        turns, tenures, _, progress, thread, _ = self._notes
        return Holders(
            turn[0] if turn else 0, writer[0] if writer else 0, turns, tenures, progress, thread
        )

    @property
    def abandoned(self) -> bool:
        """Whether the last writer ended inside its tenure, and no other one has begun since."""
        tenure = self._notes[_OPEN]
        if tenure == 0 or self._has_begun:
            return False
        holder = self.locks.holder(WRITER)
        if holder is not None and holder[0] == self._notes[_PROCESS]:
            return False
        return self._notes[_OPEN] == tenure and not self._has_begun
