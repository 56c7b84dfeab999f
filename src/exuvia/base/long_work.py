"""A long statement lets the other threads of its process run.

One thread of a process runs at a time: it holds the interpreter's lock. Python passes the lock on
between two instructions once another thread has waited for a switch interval. It cannot do so
within one call into C, and a full collection of garbage is one too. So, while a long statement is
parsed and planned:

    a full collection of garbage     waits until it is over: its tree may have a million nodes, and
                                     Python would visit them all each time they grow by a quarter
    the switch interval              is shorter: a client's point SELECT waits for it once or twice
    a search in a long text          is made in windows (`search`, `contains`)
    a list of a million objects      is emptied in pieces (`drain`)

Garbage with cycles is freed by a collection only, so whoever makes large cycles takes them apart
(sql/parse/dismantle.py).
"""

import gc
import re
import sys
import threading
from collections.abc import MutableSequence
from typing import Any

SWITCH_INTERVAL_S = 0.0001
WINDOW = 1 << 15
LONGEST_MATCH = 1 << 6
DRAINED = 1 << 11
_NEVER = 1 << 30


class _LongWork:
    """Counts the long statements of this process; the first and the last change its settings."""

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
            gc.set_threshold(*self._usual[1][:2], _NEVER)

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                sys.setswitchinterval(self._usual[0])
                gc.set_threshold(*self._usual[1])


_work = _LongWork()
begin, end = _work.begin, _work.end


def search(pattern: re.Pattern[str], text: str, at: int = 0) -> re.Match[str] | None:
    """As `pattern.search(text, at)`. A match has at most LONGEST_MATCH characters."""
    while len(text) - at > WINDOW:
        match = pattern.search(text, at, at + WINDOW + LONGEST_MATCH)
        if match is not None and match.start() < at + WINDOW:
            return match
        at += WINDOW
    return pattern.search(text, at)


def contains(text: str, part: str) -> bool:
    """Whether a short text is part of a long one."""
    if len(text) <= WINDOW:
        return part in text
    ends = range(WINDOW, len(text) + WINDOW, WINDOW)
    return any(text.find(part, end - WINDOW, end + len(part)) >= 0 for end in ends)


def drain(items: MutableSequence[Any]) -> None:
    """Empty a list whose items are freed with it."""
    while len(items) > DRAINED:
        del items[-DRAINED:]
    items.clear()
