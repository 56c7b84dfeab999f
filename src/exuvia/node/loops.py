"""A thread for each loop: step, then sleep until the loop's time or a wake-up on its channel.

counter -> step(now) -> seconds      a notice that comes during the step is not lost: the counter
   ^                       |         was read before it
   `---- store.wait(channel, counter, seconds) <--'

Conflict      again, a little later each time        Unavailable,       logged once; again in
                                                     Refused, OSError   RETRY_S
Deposed       again when the member has joined anew  Broken, and any    logged with its traceback;
                                                     other              this loop ends, and `broken`
                                                                        is told: its process ends
All three touches of the store are judged alike, the counter and the wait as the step: a store that
has no room for one more look, or fails once, must not end a loop for good.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from exuvia.base.clock import Clock, Loop
from exuvia.base.errors import Conflict, Deposed, ExuviaError, Refused, Unavailable
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

RETRY_S = 0.5
DEPOSED_S = 0.1
LONGEST_S = 1.0
LEAST_CONFLICT_S = 0.002

_log = logging.getLogger(__name__)


def in_thread(call: Callable[[], None]) -> None:
    """Run it in a thread of its own, which ends with the process if not before."""
    threading.Thread(target=call, name="analysis", daemon=True).start()


class LoopThread:
    """One loop and its thread."""

    def __init__(
        self, loop: Loop, store: Store, clock: Clock, broken: Callable[[str], None]
    ) -> None:
        self.name = type(loop).__name__
        self.channel = loop.channel
        self.is_broken = False
        self._loop = loop
        self._store = store
        self._clock = clock
        self._broken = broken
        self._stopping = threading.Event()
        self._conflicts = 0
        self._missing = ""
        self.thread = threading.Thread(target=self._run, name=f"loop-{self.name}", daemon=True)

    def stop(self) -> None:
        """It ends after its present step; see `thread`."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._turn()
            except Exception as error:  # the last stop of a thread: nothing may end it silently
                self._stop_loudly(error)
                return

    def _turn(self) -> None:
        """One step and the wait after it. Raises what no repetition mends."""
        try:
            self._step_and_wait()
        except Conflict:
            self._conflicts += 1
            self._stopping.wait(min(LEAST_CONFLICT_S * 2**self._conflicts, RETRY_S))
        except Deposed:
            self._stopping.wait(DEPOSED_S)
        except (Unavailable, Refused, OSError) as error:
            if str(error) != self._missing and not self._stopping.is_set():
                self._missing = str(error)
                _log.warning("a loop waits", extra={"loop": self.name, "reason": self._missing})
            self._stopping.wait(RETRY_S)

    def _step_and_wait(self) -> None:
        seen = self._store.counter(self.channel)
        pause_s = self._loop.step(self._clock.monotonic())
        self._conflicts, self._missing = 0, ""
        if pause_s <= 0:
            return
        if self.channel:
            self._store.wait(self.channel, seen, min(pause_s, LONGEST_S))
        else:
            self._stopping.wait(min(pause_s, LONGEST_S))

    def _stop_loudly(self, error: Exception) -> None:
        if self._stopping.is_set():
            return  # the store is being closed
        self.is_broken = True
        _log.critical("a loop is broken and stops", extra={"loop": self.name}, exc_info=error)
        self._broken(self.name)


class Loops:
    """All loops of a process."""

    def __init__(self, store: Store, clock: Clock, broken: Callable[[str], None]) -> None:
        self._store = store
        self._clock = clock
        self._broken = broken
        self._threads: list[LoopThread] = []

    def start(self, *loops: Loop) -> None:
        """Give each a thread."""
        for loop in loops:
            started = LoopThread(loop, self._store, self._clock, self._broken)
            self._threads.append(started)
            started.thread.start()

    def broken(self) -> list[str]:
        """Names of the loops that stopped by themselves."""
        return [each.name for each in self._threads if each.is_broken]

    def stop(self, timeout_s: float) -> bool:
        """End them all; False if one did not end in time."""
        for each in self._threads:
            each.stop()
        self._wake()
        deadline = self._clock.monotonic() + timeout_s
        for each in self._threads:
            each.thread.join(max(0.0, deadline - self._clock.monotonic()))
        return not any(each.thread.is_alive() for each in self._threads)

    def _wake(self) -> None:
        """A notice on every channel: who sleeps sees at once that it is to end."""
        with suppress(ExuviaError):  # without it they sleep on, LONGEST_S at most
            channels = {each.channel for each in self._threads if each.channel}
            self._store.transact(partial(notify_all, channels=channels))


def notify_all(txn: Transaction, channels: Iterable[str]) -> None:
    """Wake those who wait on any of them."""
    for channel in channels:
        txn.notify(channel)
