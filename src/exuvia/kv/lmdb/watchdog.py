"""Ends a process that stopped, or hangs, while it keeps the gate (see gate).

A process stopped inside a write transaction stops all writers of the store; nothing but its end
helps, and its end is always safe: LMDB drops the transaction it had open. The waiter's own time
is counted in small bounded pieces, so a waiter that was itself stopped, or a host that slept,
blames nobody for the gap.

A tenure is not ended because it is long. It moves as long as one of these does:

    the gate's numbers      another tenure, or this one has checked or written more keys
    pages, bytes            its thread has read or written some: cold pages, a large commit
    in the disk             its thread waits for the disk this very moment (state D): an fsync, and
                            a kill would not end that wait either

Processor time is no sign: a thread that runs in a circle uses it too. A stopped process shows none
of the three, whatever it was doing."""

import logging

from exuvia.kv.lmdb.gate import Gate, Holders
from exuvia.kv.lmdb.process import HostProcess, Motion, end, identify, motion

log = logging.getLogger(__name__)


class Watchdog:
    """`step` is called about every `tick_s` by the caretaker."""

    def __init__(self, gate: Gate, stall_s: float, tick_s: float) -> None:
        self._gate = gate
        self._stall_s = stall_s
        self._tick_s = tick_s
        self._last_s = 0.0
        self._waited_s = 0.0
        self._seen: Holders | None = None
        self._suspect: HostProcess | None = None
        self._motion: Motion | None = None
        self.ended: list[HostProcess] = []

    def step(self, now: float) -> None:
        """Look once. `now` is monotonic, in seconds."""
        elapsed_s = min(now - self._last_s, 2 * self._tick_s)
        self._last_s = now
        seen = self._gate.holders() if self._gate.waiting else None
        if seen is None or not seen.blamed:
            self._seen = None
            return
        if seen != self._seen:
            self._seen, self._waited_s, self._suspect = seen, 0.0, identify(seen.blamed)
            self._motion = _motion(seen)
            return
        found, self._motion = self._motion, _motion(seen)
        if self._motion is not None and (self._motion != found or self._motion.in_disk):
            self._waited_s = 0.0
            return
        self._waited_s += elapsed_s
        if self._waited_s >= self._stall_s and self._suspect is not None:
            self._end(seen, self._suspect)
            self._seen = None

    def _end(self, seen: Holders, suspect: HostProcess) -> None:
        fields = {"pid": suspect.pid, "waited_s": round(self._waited_s, 3)}
        try:
            if end(suspect, lambda: self._gate.holders() == seen):
                self.ended.append(suspect)
                log.warning("ended a process that kept the write lock without moving", extra=fields)
        except PermissionError:
            log.error("a process of another user keeps the write lock without moving", extra=fields)


def _motion(seen: Holders) -> Motion | None:
    """What the writing thread does in the disk; None where nobody writes."""
    return motion(seen.writer, seen.thread) if seen.writer and seen.thread else None
