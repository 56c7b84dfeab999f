"""Ends a stopped process whose snapshot lasts too long.

LMDB keeps every page that a reader may still need, so an old snapshot makes the file grow without
bound (see pages). A running process ends its own (see caretaker); one that was stopped, by a signal
or a debugger, cannot. Only a process that is stopped and has this store open is ended, never a
running one.

Not covered: a process stopped in the instant (below a microsecond) in which LMDB's table of readers
is locked to give it a new slot. Whoever wants a new slot then waits inside LMDB, and py-lmdb waits
with the interpreter's lock held, so no thread of ours can see it. Killing or resuming the stopped
process is the cure.
"""

import logging

from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.pages import Growth, Reader, ReaderRow, readers_of
from exuvia.kv.lmdb.process import HostProcess, end, identify, is_stopped

log = logging.getLogger(__name__)


class Overdue:
    """`step` is called every `every_s` by the caretaker, with the time that passed, bounded."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._seen: dict[Reader, float] = {}
        self.ended: list[HostProcess] = []

    def step(self, elapsed_s: float, most_s: float, growth: Growth, most_bytes: int) -> None:
        """Look once. `most_s`, `most_bytes`: how long a snapshot may last, and what it may keep."""
        opened = self._environment.lmdb
        opened.reader_check()
        known = self._seen
        self._seen = {
            reader: known.get(reader, -elapsed_s) + elapsed_s
            for reader in readers_of(opened.readers())
        }
        members = set(self._environment.locks.members())
        for each in self.rows(growth):
            is_due = each.age_s > most_s or each.kept_bytes > most_bytes
            if is_due and each.pid in members:
                self._end(each.pid)

    def rows(self, growth: Growth) -> tuple[ReaderRow, ...]:
        """The readers of the last look, oldest first."""
        found = (
            ReaderRow(pid, thread, int(number), age_s, growth.kept_bytes(int(number)))
            for (pid, thread, number), age_s in self._seen.items()
        )
        return tuple(sorted(found, key=lambda row: row.transaction))

    def _end(self, pid: int) -> None:
        process = identify(pid)
        if process is None:
            return
        try:
            if end(process, lambda: is_stopped(pid)):
                self.ended.append(process)
                log.warning("ended a stopped process with an old snapshot", extra={"pid": pid})
        except PermissionError:
            log.error("a stopped process of another user has an old snapshot", extra={"pid": pid})
