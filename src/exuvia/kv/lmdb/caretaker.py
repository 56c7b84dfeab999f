"""The engine's one background loop: ages snapshots, looks after other processes, and keeps the
clients' snapshots of this process to their share of LMDB's table of readers.

It ends a process that stopped, or hangs, while it keeps the gate (see gate).

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
of the three, whatever it was doing.

It ends a stopped process whose snapshot lasts too long.

LMDB keeps every page that a reader may still need, so an old snapshot makes the file grow without
bound (see pages). A running process ends its own; one that was stopped, by a signal
or a debugger, cannot. Only a process that is stopped and has this store open is ended, never a
running one, and never a host program, which has the store embedded (byte HOSTS + pid): the file
grows until it goes on, and `exuvia store stat` says whom it grows for.

Not covered: a process stopped in the instant (below a microsecond) in which LMDB's table of readers
is locked to give it a new slot. Whoever wants a new slot then waits inside LMDB, and py-lmdb waits
with the interpreter's lock held, so no thread of ours can see it. Killing or resuming the stopped
process is the cure.
"""

import logging
import os
import threading
import weakref
from collections.abc import Callable
from itertools import count

from exuvia.base.clock import Clock
from exuvia.base.errors import Broken
from exuvia.base.mysql_errors import ErrTooManyConcurrentTrxs
from exuvia.kv.lmdb.environment import Environment, client_share
from exuvia.kv.lmdb.gate import HOSTS, Gate, Holders
from exuvia.kv.lmdb.pages import Growth, Reader, ReaderRow, Seen, note_seen, pages_of, readers_of
from exuvia.kv.lmdb.process import HostProcess, Motion, end, identify, is_stopped, motion
from exuvia.kv.lmdb.snapshot import LmdbSnapshot
from exuvia.kv.packet import SnapshotUse

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


# -- overdue ---------------------------------------------------------------------------------------


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
            if is_due and each.pid in members and not self._is_host(each.pid):
                self._end(each.pid)

    def rows(self, growth: Growth) -> tuple[ReaderRow, ...]:
        """The readers of the last look, oldest first."""
        found = (
            ReaderRow(pid, thread, int(number), age_s, growth.kept_bytes(int(number)))
            for (pid, thread, number), age_s in self._seen.items()
        )
        return tuple(sorted(found, key=lambda row: row.transaction))

    def _is_host(self, pid: int) -> bool:
        return self._environment.locks.holder(HOSTS + pid) is not None

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


# -- caretaker -------------------------------------------------------------------------------------

CHECK_READERS_S = 5.0
READERS = "readers.json"


class Caretaker:
    """`watch` is called for each snapshot; `step` at least every `tick_s`."""

    def __init__(self, environment: Environment) -> None:
        settings = environment.settings
        self._environment = environment
        self._tick_s = settings.tick_s
        self.watchdog = Watchdog(environment.gate, settings.stall_s, settings.tick_s)
        self.overdue = Overdue(environment)
        self._checked_s = float("-inf")
        self._since_s: float | None = None
        self.growth = Growth()
        self._numbers = count()
        self._views: dict[int, weakref.ref[LmdbSnapshot]] = {}
        self._clients: set[int] = set()
        self.most_for_clients = self._share()
        self.idle_s, self.query_s = settings.idle_s, settings.query_s

    def _share(self) -> int:
        processes = len(self._environment.locks.members()) + 1
        return client_share(self._environment.readers, processes)

    def require_room(self) -> None:
        """Raises 1637 where the clients of this process hold as many snapshots as they may."""
        if len(self._clients) >= self.most_for_clients:
            raise ErrTooManyConcurrentTrxs(
                f"the clients of this node hold the {self.most_for_clients} snapshots that they "
                "may; end some transactions, or open the store with more readers",
            )

    def watch(self, view: LmdbSnapshot, use: SnapshotUse) -> None:
        """Look after a snapshot until it has ended.

        Nothing keeps one alive that its user has forgotten."""
        view.number = number = next(self._numbers)
        self._views[number] = weakref.ref(view)
        if use == SnapshotUse.CLIENT:
            self._clients.add(number)

    def forget(self, number: int) -> None:
        """A snapshot was closed."""
        self._views.pop(number, None)
        self._clients.discard(number)

    @property
    def client_views(self) -> int:
        """Snapshots that clients hold."""
        return len(self._clients)

    def views(self) -> list[LmdbSnapshot]:
        """The snapshots still open."""
        return [view for known in list(self._views.values()) if (view := known()) is not None]

    def step(self, now: float) -> float:
        """Do what is due; seconds until it wants to run again."""
        self.watchdog.step(now)
        if self._environment.yield_to_swap():
            return self._tick_s
        self._environment.follow_swap()
        self._environment.look()
        opened = self._environment.lmdb
        readers = [int(transaction) for _, _, transaction in readers_of(opened.readers())]
        self.growth.look(pages_of(opened), min(readers, default=None))
        for number, known in list(self._views.items()):
            view = known()
            if view is None or view.age(now, self.idle_s, self.query_s) or self._keeps_much(view):
                self.forget(number)
        self.most_for_clients = self._share()
        every_s = max(self._tick_s, min(CHECK_READERS_S, self.query_s / 4))
        if now - self._checked_s >= every_s:
            elapsed_s = min(now - self._checked_s, 2 * every_s)
            self._checked_s = now
            self._environment.keep_room()
            most = self.idle_s + self.query_s, self.growth, self._environment.settings.kept_bytes
            self.overdue.step(elapsed_s, *most)
            if self._since_s is None:
                self._since_s = now
            seen = Seen(os.getpid(), self._since_s, now, self.overdue.rows(self.growth))
            note_seen(self._environment.file(READERS), seen, 3 * every_s)  # for `exuvia store stat`
        return self._tick_s

    def _keeps_much(self, view: LmdbSnapshot) -> bool:
        """End it if it keeps too much. True if it has ended."""
        transaction = view.transaction_number()
        if transaction is None:
            return True
        kept, most = self.growth.kept_bytes(transaction), self._environment.settings.kept_bytes
        if kept <= most:
            return False
        view.end(
            f"the snapshot kept {kept} bytes of replaced data in the file, more than it may "
            f"(kept_bytes={most}), and was ended: read in smaller parts, or raise it"
        )
        log.warning("ended a snapshot that kept much", extra={"kept_bytes": kept})
        return True

    def measures(self) -> dict[str, float]:
        pages = pages_of(self._environment.lmdb)
        rows = self.overdue.rows(self.growth)
        return {
            "file_bytes": pages.total * pages.size,
            "used_bytes": pages.used * pages.size,
            "kept_bytes": max((row.kept_bytes for row in rows), default=0),
            "readers": len(rows),
        }


class CaretakerThread:
    """A thread that runs `step(now) -> seconds` until it is closed."""

    def __init__(self, step: Callable[[float], float], clock: Clock) -> None:
        self._step = step
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="exuvia-caretaker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            try:
                wait_s = self._step(self._clock.monotonic())
            except Broken:
                return  # the store is lost: it has been said, and every use of it says so
            except Exception:  # without it snapshots are never ended, nor processes that hang
                log.exception("the store's caretaker failed once")
                wait_s = CHECK_READERS_S

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
