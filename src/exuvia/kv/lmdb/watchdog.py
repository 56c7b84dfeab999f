"""Ends a process that stopped, or hangs, while it keeps the gate (see gate).

A process stopped inside a write transaction stops all writers of the store; nothing but its end
helps, and its end is always safe: LMDB drops the transaction it had open. The waiter's own time
is counted in small bounded pieces, so a waiter that was itself stopped, or a host that slept,
blames nobody for the gap."""

import logging

from exuvia.kv.lmdb.gate import Gate, Holders
from exuvia.kv.lmdb.process import Process, end, identify

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
        self._suspect: Process | None = None
        self.ended: list[Process] = []

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
            return
        self._waited_s += elapsed_s
        if self._waited_s >= self._stall_s and self._suspect is not None:
            self._end(seen, self._suspect)
            self._seen = None

    def _end(self, seen: Holders, suspect: Process) -> None:
        fields = {"pid": suspect.pid, "waited_s": round(self._waited_s, 3)}
        try:
            if end(suspect, lambda: self._gate.holders() == seen):
                self.ended.append(suspect)
                log.warning("ended a process that kept the write lock without moving", extra=fields)
        except PermissionError:
            log.error("a process of another user keeps the write lock without moving", extra=fields)
