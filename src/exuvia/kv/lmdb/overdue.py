"""Ends a stopped process whose snapshot lasts too long.

LMDB keeps every page that a reader may still need, so an old snapshot makes the file grow without
bound. A running process ends its own (see snapshot); one that was stopped, by a signal or a
debugger, cannot. Only a process that is stopped and has this store open is ended, never a running
one.

Not covered: a process stopped in the instant (below a microsecond) in which LMDB's table of readers
is locked to give it a new slot. Whoever wants a new slot then waits inside LMDB, and py-lmdb waits
with the interpreter's lock held, so no thread of ours can see it. Killing or resuming the stopped
process is the cure.
"""

import logging

from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.process import Process, end, identify, is_stopped

log = logging.getLogger(__name__)

Reader = tuple[int, str, str]


def readers_of(table: str) -> set[Reader]:
    """(pid, thread, transaction) of each reader in LMDB's own listing of them."""
    rows = (line.split() for line in table.splitlines()[1:])
    return {(int(row[0]), row[1], row[2]) for row in rows if len(row) == 3 and row[2] != "-"}


class Overdue:
    """`step` is called every `every_s` by the caretaker, with the time that passed, bounded."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._seen: dict[Reader, float] = {}
        self.ended: list[Process] = []

    def step(self, elapsed_s: float, most_s: float) -> None:
        """Look once. `most_s` is how long a snapshot may last."""
        opened = self._environment.lmdb
        opened.reader_check()
        known = self._seen
        self._seen = {
            reader: known.get(reader, -elapsed_s) + elapsed_s
            for reader in readers_of(opened.readers())
        }
        members = set(self._environment.locks.members())
        for (pid, _, _), age_s in self._seen.items():
            if age_s > most_s and pid in members:
                self._end(pid)

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
