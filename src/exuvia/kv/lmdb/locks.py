"""Record locks of the kernel on one file:

they end with their process, and the kernel names the holder.

    byte                 held by
    DOOR                 a process that is opening the store
    TURN                 the process whose turn to write is next (see gate)
    WRITER               the process that writes
    SWAPPER              the process that exchanges the data file (see compact)
    ROWS                 the process that is in the table of row locks (see shared_locks)
    SEATS + n            the process that has seat n of that table
    MEMBERS + pid        every process that has the store open

POSIX locks (fcntl) rather than flock: a forked child does not inherit them, and F_GETLK tells the
holder's pid, so that there is no moment in which a lock is taken and nobody knows by whom. Their
two traps are kept out here: they do not exclude threads of one process (callers hold a mutex of
their own), and closing *any* descriptor of the file gives all of a process's locks up (the file
is opened once)."""

import errno
import fcntl
import os
import struct

DOOR, TURN, WRITER, SWAPPER, ROWS = 0, 1, 2, 3, 4
SEATS = 1 << 16
MEMBERS = 1 << 32
MOST_PIDS = 1 << 32

_FLOCK = struct.Struct("hhqqi4x")
_TAKEN = (errno.EACCES, errno.EAGAIN)


class LockFile:
    """One opened lock file. The locks of this process end with `close`."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

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
        found = []
        byte = MEMBERS
        while (held := self.holder(byte, MEMBERS + MOST_PIDS - byte)) is not None:
            found.append(held[0])
            byte = held[1] + 1
        return found

    def close(self) -> None:
        """Give all locks back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
