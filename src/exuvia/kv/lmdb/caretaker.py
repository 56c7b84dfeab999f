"""The engine's one background loop:

ages snapshots, frees readers of dead processes, watches the write gate."""

import threading
import weakref
from collections.abc import Callable
from itertools import count

from exuvia.base.clock import Clock
from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.snapshot import LmdbSnapshot
from exuvia.kv.lmdb.watchdog import Watchdog

CHECK_READERS_S = 5.0


class Caretaker:
    """`watch` is called for each snapshot; `step` at least every `tick_s`."""

    def __init__(self, environment: Environment, watchdog: Watchdog) -> None:
        self._environment = environment
        self._watchdog = watchdog
        self._checked_s = float("-inf")
        self._numbers = count()
        self._views: dict[int, weakref.ref[LmdbSnapshot]] = {}
        self.idle_s = environment.settings.idle_s
        self.query_s = environment.settings.query_s

    def watch(self, view: LmdbSnapshot) -> None:
        """Look after a snapshot until it has ended.

        Nothing keeps one alive that its user has forgotten."""
        view.number = next(self._numbers)
        self._views[view.number] = weakref.ref(view)

    def forget(self, view: LmdbSnapshot) -> None:
        """A snapshot was closed."""
        self._views.pop(view.number, None)

    def views(self) -> list[LmdbSnapshot]:
        """The snapshots still open."""
        return [view for known in list(self._views.values()) if (view := known()) is not None]

    def step(self, now: float) -> float:
        """Do what is due; seconds until it wants to run again."""
        self._watchdog.step(now)
        for number, known in list(self._views.items()):
            view = known()
            if view is None or view.age(now, self.idle_s, self.query_s):
                self._views.pop(number, None)
        if now - self._checked_s >= CHECK_READERS_S:
            self._checked_s = now
            self._environment.lmdb.reader_check()
        return self._environment.settings.tick_s


class Loop:
    """A thread that runs `step(now) -> seconds` until it is closed."""

    def __init__(self, step: Callable[[float], float], clock: Clock) -> None:
        self._step = step
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="exuvia-caretaker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._step(self._clock.monotonic())):
            pass

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()
