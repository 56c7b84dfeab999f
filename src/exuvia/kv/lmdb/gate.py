"""One writer at a time, in turn, and always known.

LMDB has a write mutex of its own, but it does not tell who holds it, cannot be waited for with a
bound, and lets a busy process starve the others. So every write transaction of Exuvia passes this
gate first:

    take TURN   wait for WRITER   (count the tenure)   give TURN back   write   give WRITER back

Whoever waits for WRITER holds TURN, so the process that just wrote cannot overtake it. The two
numbers in `notes` grow with every turn and tenure: a waiter that sees the same holders *and* the
same numbers for long knows that it is one and the same write transaction that lasts. A process
stopped between taking a lock and counting changes nothing: the kernel already names it as holder,
and the number stands still.

The third number is the tenure under way, 0 between tenures. One that is under way while nobody has
the lock was left by a process that ended in it. LMDB may have its transaction on disk and show it
to no reader until the next writer comes: who reads must settle that first (see store)."""

import mmap
import os
import struct
from typing import NamedTuple

from exuvia.kv.lmdb.locks import TURN, WRITER, LockFile

_NOTES = struct.Struct("<QQQ")
_TURNS, _TENURES, _OPEN = slice(0, 8), slice(8, 16), slice(16, 24)
_NONE = bytes(8)


class Holders(NamedTuple):
    """Who keeps the gate now:

    pids of other processes (0: nobody), and the numbers of turn and tenure."""

    turn: int
    writer: int
    turns: int
    tenures: int

    @property
    def blamed(self) -> int:
        """The pid that must move first; 0 if nobody is in the way."""
        return self.writer or self.turn


class Gate:
    """The callers of one process exclude each other; `waiting` may be read by any thread."""

    def __init__(self, locks: LockFile, notes_path: str) -> None:
        self._locks = locks
        self._inside = False
        self.waiting = False
        file = os.open(notes_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(file, 0, _NOTES.size)
            self._notes = mmap.mmap(file, _NOTES.size)
        finally:
            os.close(file)

    def enter(self) -> None:
        """Return when this process may write."""
        self.waiting = True
        try:
            self._locks.take(TURN)
            self._count(_TURNS)
            self._locks.take(WRITER)
            self._notes[_OPEN] = self._count(_TENURES)
            self._inside = True
        except BaseException:
            self._locks.release(WRITER)
            raise
        finally:
            self._locks.release(TURN)
            self.waiting = False

    def leave(self) -> None:
        """Let the next one write."""
        self._inside = False
        self._notes[_OPEN] = _NONE
        self._locks.release(WRITER)

    def holders(self) -> Holders:
        """Who keeps the gate now."""
        turn = self._locks.holder(TURN)
        writer = self._locks.holder(WRITER)
        return Holders(
            turn[0] if turn else 0, writer[0] if writer else 0, *_NOTES.unpack(self._notes)[:2]
        )

    @property
    def abandoned(self) -> bool:
        """Whether the last writer ended inside its tenure. Costs a look where nobody writes."""
        tenure = self._notes[_OPEN]
        if tenure == _NONE or self._inside or self._locks.holder(WRITER) is not None:
            return False
        return self._notes[_OPEN] == tenure and not self._inside

    def _count(self, number: slice) -> bytes:
        value = int.from_bytes(self._notes[number], "little") + 1
        counted = self._notes[number] = (value & (1 << 64) - 1).to_bytes(8, "little")
        return counted

    def close(self) -> None:
        """Let the notes go."""
        self._notes.close()
