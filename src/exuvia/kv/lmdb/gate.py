"""The record locks of a folder, and the gate made of two of them: one writer at a time, in turn,
and always known.

LMDB has a write mutex of its own, but it does not tell who holds it, cannot be waited for with a
bound, and lets a busy process starve the others. So every write transaction of Exuvia passes this
gate first:

    take TURN   wait for WRITER   (count the tenure)   give TURN back   write   give WRITER back

Whoever waits for WRITER holds TURN, so the process that just wrote cannot overtake it. The two
numbers in `notes` grow with every turn and tenure: a waiter that sees the same holders *and* the
same numbers for long knows that it is one and the same write transaction that lasts. A process
stopped between taking a lock and counting changes nothing: the kernel already names it as holder,
and the number stands still.

The third number is the tenure under way, 0 between tenures, and the sixth the process whose it is.
One that is under way while nobody has the lock, or another process, was left by one that ended in
it. LMDB may have its transaction on disk and show it to no reader until the next writer's has
begun: so the next writer leaves these two as they are until then, however long the machine lets it
wait with the lock in its hands, and who reads meanwhile must settle that first (see store).

One transaction is one tenure, so a large commit is a long one. The fourth number is its progress:
it grows with every thousand keys checked or written. The fifth is the thread that writes, whose
waits for the disk a waiter can see in /proc (see caretaker). So a tenure that is long because there
is much to do is told from one that stands still.

`longest_s` is the longest tenure of this process so far, `held_s` the sum of all.

A record lock of the kernel on the lock file ends with its process, and the kernel names the holder:

    byte                 held by
    DOOR                 a process that is opening the store
    TURN                 the process whose turn to write is next
    WRITER               the process that writes
    SWAPPER              the process that exchanges the data file (see compact)
    ROWS                 the process that is in the table of row locks (see shared_locks)
    SEATS + n            the process that has seat n of that table
    MEMBERS + pid        every process that has the store open
    BULKS + pid          a process while a chain of bulks of its own waits or is written
    HOSTS + pid          a process that is a program of others, which has the store embedded

POSIX locks (fcntl) rather than flock: a forked child does not inherit them, and F_GETLK tells the
holder's pid, so that there is no moment in which a lock is taken and nobody knows by whom. Their
two traps are kept out here: they do not exclude threads of one process (callers hold a mutex of
their own), and closing *any* descriptor of the file gives all of a process's locks up (the file
is opened once).
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
        """Take a lock, waiting without end for the process that has it."""
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, byte)

    def release(self, byte: int) -> None:
        """Give a lock back."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)

    def holder(self, byte: int, width: int = 1) -> tuple[int, int] | None:
        """(pid, byte) of another process's lock in the range, or None.

        The pid is 0 if it is not in our namespace."""
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, width, 0)
        kind, _, start, _, pid = _FLOCK.unpack(fcntl.fcntl(self._file, fcntl.F_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else (pid, start)

    def members(self) -> list[int]:
        """Pids of the other processes that have the store open."""
        pids = []
        byte = MEMBERS
        while (held := self.holder(byte, MEMBERS + MOST_PIDS - byte)) is not None:
            pids.append(held[0])
            byte = held[1] + 1
        return pids

    def close(self) -> None:
        """Give all locks back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


# -- the gate --------------------------------------------------------------------------------------

_TURNS, _TENURES, _OPEN, _PROGRESS, _THREAD, _PROCESS = range(6)
_NOTES_BYTES = 48


class Holders(NamedTuple):
    """Who keeps the gate now:

    pids of other processes (0: nobody), the numbers of turn and tenure, how far the writer has come
    and its thread (0: not told)."""

    turn: int
    writer: int
    turns: int
    tenures: int
    progress: int = 0
    thread: int = 0

    @property
    def blamed(self) -> int:
        """The pid that must move first; 0 if nobody is in the way."""
        return self.writer or self.turn


class Gate:
    """The callers of one process exclude each other; `waiting` may be read by any thread."""

    def __init__(self, locks: LockFile, notes_path: str, clock: Callable[[], float]) -> None:
        self.locks = locks
        self._clock = clock
        self._entered_s = 0.0
        self.longest_s = self.held_s = 0.0
        self.tenures = 0
        self.inside = self._begun = False
        self._pid = os.getpid()
        self.waiting = False
        file = private_files.opened(notes_path)
        try:
            os.posix_fallocate(file, 0, _NOTES_BYTES)
            # never closed: a thread may still look while another one closes the store
            self._notes = memoryview(mmap.mmap(file, _NOTES_BYTES)).cast("Q")
        finally:
            os.close(file)

    def enter(self) -> None:
        """Return when this process may write."""
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

    def begun(self) -> None:
        """LMDB's transaction has begun: what a killed writer left is in order now."""
        self._begun, notes = True, self._notes
        notes[_PROCESS] = self._pid
        notes[_OPEN] = notes[_TENURES]

    def leave(self) -> None:
        """Let the next one write."""
        if self._begun:
            self._notes[_OPEN] = 0
        self._notes[_THREAD] = 0
        self.inside = self._begun = False
        self.locks.release(WRITER)
        lasted_s = self._clock() - self._entered_s
        self.tenures += 1
        self.held_s += lasted_s
        if lasted_s > self.longest_s:
            self.longest_s = lasted_s

    @property
    def lasts_s(self) -> float:
        """How long this process has had the gate. Unit: s."""
        return self._clock() - self._entered_s

    @property
    def is_wanted(self) -> bool:
        """Whether another process waits for the one inside, and with more than bulks."""
        waiting = self.locks.holder(TURN)
        return waiting is not None and self.locks.holder(BULKS + waiting[0]) is None

    @contextmanager
    def with_bulks(self) -> Iterator[None]:
        """What this process writes meanwhile is no reason for other bulks to give way: a sync for
        every few milliseconds of several tasks would be most of what they do."""
        self.locks.try_take(BULKS + self._pid)
        try:
            yield
        finally:
            self.locks.release(BULKS + self._pid)

    def progress(self) -> None:
        """To be called by the writer about every thousand keys: it moves."""
        self._notes[_PROGRESS] += 1

    def holders(self) -> Holders:
        """Who keeps the gate now."""
        turn = self.locks.holder(TURN)
        writer = self.locks.holder(WRITER)
        turns, tenures, _, progress, thread, _ = self._notes
        return Holders(
            turn[0] if turn else 0, writer[0] if writer else 0, turns, tenures, progress, thread
        )

    @property
    def abandoned(self) -> bool:
        """Whether the last writer whose transaction began ended inside its tenure, and none has
        begun since."""
        tenure = self._notes[_OPEN]
        if tenure == 0 or self._begun:
            return False
        holder = self.locks.holder(WRITER)
        if holder is not None and holder[0] == self._notes[_PROCESS]:
            return False
        return self._notes[_OPEN] == tenure and not self._begun
