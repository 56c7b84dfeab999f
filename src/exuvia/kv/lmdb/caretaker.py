"""The engine's background loop: ages snapshots, limits those of clients, ends blocking processes.

It ends a process that is stopped, or hangs, while it holds the gate (see gate).

A process stopped inside a write transaction blocks all writers of the store. Only its end helps,
and its end is always safe: LMDB aborts its open transaction. The waiter counts its own time in
small bounded pieces. A waiter that was itself stopped, or a host that slept, therefore does not
attribute the gap to another process.

A long tenure is not ended while it makes progress. Signs of progress:

    the gate's numbers      another tenure, or this one has checked or written more keys
    pages, bytes            its thread has read or written some: cold pages, a large commit
    disk wait               its thread is waiting for the disk right now (state D): an fsync; a kill
                            would not end that wait

Processor time is not a sign, because a thread in an endless loop uses it, too. A stopped process
shows no sign, wherever it was stopped.

It also ends a stopped process whose snapshot lasts too long.

LMDB retains every page that a reader may still need, so an old snapshot makes the file grow without
bound (see pages). A running process ends its own old snapshots; one stopped by a signal or a
debugger cannot. Only a stopped process that has this store open is ended. A running one is never
ended, nor is a host program that embeds the store (byte HOSTS + pid). Then the file grows until the
program continues; `exuvia store stat` shows the process.

Limitation: a process can be stopped while it holds the lock of LMDB's reader table for a new slot,
for less than a microsecond. Every process that needs a new slot then waits inside LMDB,
and py-lmdb keeps the interpreter's lock, so no thread here can detect it. Kill or resume the
stopped process.
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
from exuvia.kv.lmdb.scatter import advice, scatter_of
from exuvia.kv.lmdb.snapshot import LmdbSnapshot
from exuvia.kv.packet import OF_CLIENTS, SnapshotUse

log = logging.getLogger(__name__)


class Watchdog:
    """Ends a process that blocks the gate. The caretaker calls `step` about every `tick_s`."""

    def __init__(self, gate: Gate, stall_s: float, tick_s: float) -> None:
        self._gate = gate
        self._stall_s = stall_s
        self._tick_s = tick_s
        self._last_s = 0.0
        self._waited_s = 0.0
        self._last_holders: Holders | None = None
        self._suspect: HostProcess | None = None
        self._motion: Motion | None = None
        self.ended: list[HostProcess] = []

    def step(self, now: float) -> None:
        """Check once. `now`: monotonic. Unit: s."""
        elapsed_s = min(now - self._last_s, 2 * self._tick_s)
        self._last_s = now
        holders = self._gate.holders() if self._gate.waiting else None
        if holders is None or not holders.blamed:
            self._last_holders = None
            return
        if holders != self._last_holders:
            self._last_holders, self._waited_s = holders, 0.0
            self._suspect = identify(holders.blamed)
            self._motion = _motion(holders)
            return
        before, self._motion = self._motion, _motion(holders)
        if self._motion is not None and (self._motion != before or self._motion.in_disk):
            self._waited_s = 0.0
            return
        self._waited_s += elapsed_s
        if self._waited_s >= self._stall_s and self._suspect is not None:
            self._end(holders, self._suspect)
            self._last_holders = None

    def _end(self, holders: Holders, suspect: HostProcess) -> None:
        fields = {"pid": suspect.pid, "waited_s": round(self._waited_s, 3)}
        try:
            if end(suspect, lambda: self._gate.holders() == holders):
                self.ended.append(suspect)
                log.warning("ended a process that kept the write lock without moving", extra=fields)
        except PermissionError:
            log.error("a process of another user keeps the write lock without moving", extra=fields)


def _motion(holders: Holders) -> Motion | None:
    """The disk activity of the writing thread; None without a writer."""
    return motion(holders.writer, holders.thread) if holders.writer and holders.thread else None


# -- overdue ---------------------------------------------------------------------------------------


class Overdue:
    """Ends stopped processes with old snapshots.

    The caretaker calls `step` every `every_s` with the time that passed, bounded."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._ages: dict[Reader, float] = {}
        self.ended: list[HostProcess] = []

    def step(self, elapsed_s: float, most_s: float, growth: Growth, most_bytes: int) -> None:
        """Check once. `most_s`, `most_bytes`: limits of a snapshot's age and retained bytes."""
        opened = self._environment.lmdb
        opened.reader_check()
        ages = self._ages
        self._ages = {
            reader: ages.get(reader, -elapsed_s) + elapsed_s
            for reader in readers_of(opened.readers())
        }
        members = set(self._environment.locks.members())
        for row in self.rows(growth):
            is_due = row.age_s > most_s or row.kept_bytes > most_bytes
            if is_due and row.pid in members and not self._is_host(row.pid):
                self._end(row.pid)

    def rows(self, growth: Growth) -> tuple[ReaderRow, ...]:
        """The readers at the last check, oldest first."""
        readers = (
            ReaderRow(pid, thread, int(number), age_s, growth.kept_bytes(int(number)))
            for (pid, thread, number), age_s in self._ages.items()
        )
        return tuple(sorted(readers, key=lambda row: row.transaction))

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
ADVISE_EVERY_S = 600.0
READERS = "readers.json"


class Caretaker:
    """The loop's work. `watch` registers a snapshot; call `step` at least every `tick_s`."""

    def __init__(self, environment: Environment) -> None:
        settings = environment.settings
        self._environment = environment
        self._tick_s = settings.tick_s
        self.watchdog = Watchdog(environment.gate, settings.stall_s, settings.tick_s)
        self.overdue = Overdue(environment)
        self._checked_s = float("-inf")
        self._advised_s = float("-inf")
        self._has_advised = False
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
        """Raises 1637 if the clients of this process hold all snapshots of their share."""
        if len(self._clients) >= self.most_for_clients:
            raise ErrTooManyConcurrentTrxs(
                f"the clients of this node hold the {self.most_for_clients} snapshots that they "
                "may; end some transactions, or open the store with more readers",
            )

    def watch(self, view: LmdbSnapshot, use: SnapshotUse) -> None:
        """Age a snapshot until it has ended.

        The reference is weak: a snapshot without a user is freed."""
        view.number = number = next(self._numbers)
        self._views[number] = weakref.ref(view)
        if use in OF_CLIENTS:
            self._clients.add(number)

    def forget(self, number: int) -> None:
        """To be called when a snapshot was closed."""
        self._views.pop(number, None)
        self._clients.discard(number)

    @property
    def client_views(self) -> int:
        """Number of snapshots that clients hold."""
        return len(self._clients)

    def views(self) -> list[LmdbSnapshot]:
        """The open snapshots."""
        return [view for ref in list(self._views.values()) if (view := ref()) is not None]

    def step(self, now: float) -> float:
        """Do the work that is due. Returns the seconds to the next call."""
        self.watchdog.step(now)
        if self._environment.yield_to_swap():
            return self._tick_s
        self._environment.follow_swap()
        self._environment.look()
        opened = self._environment.lmdb
        readers = [int(transaction) for _, _, transaction in readers_of(opened.readers())]
        self.growth.look(pages_of(opened), min(readers, default=None))
        for number, ref in list(self._views.items()):
            view = ref()
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
            report = Seen(os.getpid(), self._since_s, now, self.overdue.rows(self.growth))
            # for `exuvia store stat`
            is_first = note_seen(self._environment.file(READERS), report, 3 * every_s)
            if is_first and now - self._advised_s >= ADVISE_EVERY_S:
                self._advised_s = now
                self._advise()
        return self._tick_s

    def _advise(self) -> None:
        """Log once when the pages have become scattered. Only the process that has looked longest
        does it, not each process of the store."""
        text = advice(self.measures())
        if text and not self._has_advised:
            log.warning("the store's pages are scattered", extra={"reason": text})
        self._has_advised = bool(text)

    def _keeps_much(self, view: LmdbSnapshot) -> bool:
        """End the snapshot if it retains too much. Returns whether it has ended."""
        transaction = view.transaction_number()
        if transaction is None:
            return True
        kept_bytes = self.growth.kept_bytes(transaction)
        limit = self._environment.settings.kept_bytes
        if kept_bytes <= limit:
            return False
        view.end(
            f"the snapshot kept {kept_bytes} bytes of replaced data in the file, more than it may "
            f"(kept_bytes={limit}), and was ended: read in smaller parts, or raise it"
        )
        log.warning("ended a snapshot that kept much", extra={"kept_bytes": kept_bytes})
        return True

    def measures(self) -> dict[str, float]:
        pages = pages_of(self._environment.lmdb)
        rows = self.overdue.rows(self.growth)
        measures: dict[str, float] = {
            "file_bytes": pages.total * pages.size,
            "used_bytes": pages.used * pages.size,
            "kept_bytes": max((row.kept_bytes for row in rows), default=0),
            "readers": len(rows),
        }
        scatter = scatter_of(self._environment)
        if scatter is not None:
            measures["free_run_pages"] = scatter.free_run_pages
            measures["leaves_in_order_ratio"] = scatter.leaves_in_order
        return measures


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
                return  # the store is lost: this is logged already, and each use raises it
            except Exception:  # without the loop, snapshots and hanging processes would not end
                log.exception("the store's caretaker failed once")
                wait_s = CHECK_READERS_S

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
