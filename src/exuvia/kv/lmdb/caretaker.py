"""The engine's one background loop: ages snapshots, looks after other processes, and keeps the
clients' snapshots of this process to their share of LMDB's table of readers."""

import logging
import threading
import weakref
from collections.abc import Callable
from itertools import count

from exuvia.base.clock import Clock
from exuvia.base.errors import Broken
from exuvia.base.mysql import refuse
from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.overdue import Overdue
from exuvia.kv.lmdb.settings import client_share
from exuvia.kv.lmdb.snapshot import LmdbSnapshot
from exuvia.kv.lmdb.watchdog import Watchdog

CHECK_READERS_S = 5.0

log = logging.getLogger(__name__)


class Caretaker:
    """`watch` is called for each snapshot; `step` at least every `tick_s`."""

    def __init__(self, environment: Environment) -> None:
        settings = environment.settings
        self._environment = environment
        self._tick_s = settings.tick_s
        self.watchdog = Watchdog(environment.gate, settings.stall_s, settings.tick_s)
        self.overdue = Overdue(environment)
        self._checked_s = float("-inf")
        self._numbers = count()
        self._views: dict[int, weakref.ref[LmdbSnapshot]] = {}
        self._clients: set[int] = set()
        self._environment = environment
        self.most_for_clients = self._share()
        self.idle_s, self.query_s = settings.idle_s, settings.query_s

    def _share(self) -> int:
        processes = len(self._environment.locks.members()) + 1
        return client_share(self._environment.readers, processes)

    def require_room(self) -> None:
        """Raises 1637 where the clients of this process hold as many snapshots as they may."""
        if len(self._clients) >= self.most_for_clients:
            raise refuse(
                1637,
                f"the clients of this node hold the {self.most_for_clients} snapshots that they "
                "may; end some transactions, or open the store with more readers",
            )

    def watch(self, view: LmdbSnapshot, for_client: bool) -> None:
        """Look after a snapshot until it has ended.

        Nothing keeps one alive that its user has forgotten."""
        view.number = next(self._numbers)
        self._views[view.number] = weakref.ref(view)
        if for_client:
            self._clients.add(view.number)

    def forget(self, view: LmdbSnapshot) -> None:
        """A snapshot was closed."""
        self._forget(view.number)

    def _forget(self, number: int) -> None:
        self._views.pop(number, None)
        self._clients.discard(number)

    def views(self) -> list[LmdbSnapshot]:
        """The snapshots still open."""
        return [view for known in list(self._views.values()) if (view := known()) is not None]

    def step(self, now: float) -> float:
        """Do what is due; seconds until it wants to run again."""
        self.watchdog.step(now)
        self._environment.look()
        for number, known in list(self._views.items()):
            view = known()
            if view is None or view.age(now, self.idle_s, self.query_s):
                self._forget(number)
        self.most_for_clients = self._share()
        every_s = max(self._tick_s, min(CHECK_READERS_S, self.query_s / 4))
        if now - self._checked_s >= every_s:
            elapsed_s = min(now - self._checked_s, 2 * every_s)
            self._checked_s = now
            self._environment.keep_room()
            self.overdue.step(elapsed_s, self.idle_s + self.query_s)
        return self._tick_s


class Loop:
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
        """End the thread."""
        self._stop.set()
        self._thread.join()
