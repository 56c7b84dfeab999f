"""Keeps other threads responsive while a long statement is parsed and planned.

Only the thread with the interpreter's lock (GIL) runs. Python hands the lock over between two
instructions, once another thread has waited for the switch interval. It does not do so inside a
call into C or during a garbage collection. So, while a long statement is parsed and planned:

    full garbage collections     are postponed: the tree may have a million nodes, and each
                                 collection would visit all of them
    young garbage collections    come after fewer objects: they take 0.1 ms instead of 0.5 to 2
    the switch interval          is shorter: a point SELECT waits for it once or twice
    searches in long texts       run in windows (`search`, `find`, `contains`)
    long lists                   are emptied in pieces (`drain`)
    long work of other threads   waits for its turn (`Turn`): a thread that serves clients competes
                                 for the lock with one of them, not with twenty

Cyclic garbage is freed by collections only, so large trees with cycles are taken apart explicitly
(sql/parse/dismantle.py).
"""

import gc
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, MutableSequence
from typing import Any

SWITCH_INTERVAL_S = 0.00002
WINDOW = 1 << 15
SEARCHED = 1 << 13
LONGEST_MATCH = 1 << 6
DRAINED = 1 << 11
YOUNG_PASSES = 2
LOOK_S = 0.02
_NEVER = 1 << 30


class _LongWork:
    """Counts the long statements of this process. The first one changes the interpreter's settings,
    the last one restores them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._usual: tuple[float, tuple[int, int, int]] = (0.0, (0, 0, 0))

    def begin(self) -> None:
        with self._lock:
            self._count += 1
            if self._count > 1:
                return
            self._usual = sys.getswitchinterval(), gc.get_threshold()
            sys.setswitchinterval(min(SWITCH_INTERVAL_S, self._usual[0]))
            gc.set_threshold(self._usual[1][0], YOUNG_PASSES, _NEVER)

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                sys.setswitchinterval(self._usual[0])
                gc.set_threshold(*self._usual[1])


_work = _LongWork()
begin, end = _work.begin, _work.end


class Turn:
    """One thread at a time does long work; the others wait in the order of their coming."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._queue: deque[threading.Event] = deque()

    @property
    def is_wanted(self) -> bool:
        """Whether another thread waits for it."""
        return bool(self._queue)

    def take(self, check: Callable[[], None]) -> None:
        """Wait for the turn. `check` is called meanwhile; what it raises ends the wait."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            called = threading.Event()
            self._queue.append(called)
        try:
            while not called.wait(LOOK_S):
                check()
        except BaseException:
            with self._lock:
                if not called.is_set():
                    self._queue.remove(called)
                    raise
            self.leave()
            raise

    def leave(self) -> None:
        """The next thread has its turn."""
        with self._lock:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._is_taken = False


turn = Turn()


def search(pattern: re.Pattern[str], text: str, at: int = 0) -> re.Match[str] | None:
    """`pattern.search(text, at)` in windows. Matches may have at most LONGEST_MATCH characters."""
    while len(text) - at > SEARCHED:
        match = pattern.search(text, at, at + SEARCHED + LONGEST_MATCH)
        if match is not None and match.start() < at + SEARCHED:
            return match
        at += SEARCHED
    return pattern.search(text, at)


def contains(text: str, part: str) -> bool:
    """`part in text`, in windows."""
    return find(text, part) >= 0


def find(text: str, part: str, at: int = 0) -> int:
    """`text.find(part, at)`, in windows."""
    while len(text) - at > WINDOW:
        position = text.find(part, at, at + WINDOW + len(part))
        if position >= 0:
            return position
        at += WINDOW
    return text.find(part, at)


def drain(items: MutableSequence[Any]) -> None:
    """Empty a list in pieces, so that freeing its items does not hold the lock for long."""
    while len(items) > DRAINED:
        del items[-DRAINED:]
    items.clear()
