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
to no reader until the next writer comes: who reads must settle that first (see store).

One transaction is one tenure, so a large commit is a long one. The fourth number is its progress:
it grows with every thousand keys checked or written. The fifth is the thread that writes, whose
waits for the disk a waiter can see in /proc (see watchdog). So a tenure that is long because there
is much to do is told from one that stands still.

`longest_s` is the longest tenure of this process so far, `held_s` the sum of all."""

import mmap
import os
import threading
from collections.abc import Callable
from typing import NamedTuple

from exuvia.kv.lmdb.locks import TURN, WRITER, LockFile

_TURNS, _TENURES, _OPEN, _PROGRESS, _THREAD = range(5)
_NOTES_BYTES = 40


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
        self._locks = locks
        self._clock = clock
        self._entered_s = 0.0
        self.longest_s = self.held_s = 0.0
        self.tenures = 0
        self.inside = False
        self.waiting = False
        file = os.open(notes_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
            self._locks.take(TURN)
            notes[_TURNS] += 1
            self._locks.take(WRITER)
            notes[_THREAD] = threading.get_native_id()
            notes[_TENURES] += 1
            notes[_OPEN] = notes[_TENURES]
            self.inside = True
            self._entered_s = self._clock()
        except BaseException:
            self._locks.release(WRITER)
            raise
        finally:
            self._locks.release(TURN)
            self.waiting = False

    def leave(self) -> None:
        """Let the next one write."""
        self.inside = False
        self._notes[_OPEN] = self._notes[_THREAD] = 0
        self._locks.release(WRITER)
        lasted_s = self._clock() - self._entered_s
        self.tenures += 1
        self.held_s += lasted_s
        if lasted_s > self.longest_s:
            self.longest_s = lasted_s

    def progress(self) -> None:
        """To be called by the writer about every thousand keys: it moves."""
        self._notes[_PROGRESS] += 1

    def holders(self) -> Holders:
        """Who keeps the gate now."""
        turn = self._locks.holder(TURN)
        writer = self._locks.holder(WRITER)
        turns, tenures, _, progress, thread = self._notes
        return Holders(
            turn[0] if turn else 0, writer[0] if writer else 0, turns, tenures, progress, thread
        )

    @property
    def abandoned(self) -> bool:
        """Whether the last writer ended inside its tenure. Costs a look where nobody writes."""
        tenure = self._notes[_OPEN]
        if tenure == 0 or self.inside or self._locks.holder(WRITER) is not None:
            return False
        return self._notes[_OPEN] == tenure and not self.inside
