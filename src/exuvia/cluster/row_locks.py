"""Row locks of one front: who may change a key next, and who waits for it.

    take(locker, keys, seen)    all of them, or the first key that another locker holds
    wait(locker, key, ...)      until the key is handed over: first come, first served
    release(locker)             each key goes to the first that waits for it, or is free

    seen = now ---> snapshot ---> statement ---> take: a key let go after `seen` may have changed
                                                 since the snapshot: STALE, all is held, run again

A lock may be lost: what it promises is validated by the store where its holder commits (decision
039). So when there is no room for another one it is simply not taken. Who
waits for whom is a graph with one edge out of each waiter; the edge that would close a cycle is
refused (1213). Nobody polls: a waiter sleeps until the key is its own, its time is up, or `wake`.

`now` counts releases by commit, and each key let go by one is remembered with its number. A key
that the locker held before it looked cannot have changed since, so only keys newly taken are
asked about: a statement that is run again holds what it took, and ends however much others commit.
The memory is bounded: when `remembered` keys are younger, the older ones are forgotten all at once,
and a statement that looked before the last forgotten one is told STALE for any key it newly takes.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from exuvia.base.errors import WouldWait
from exuvia.base.mysql import refuse

STALE: Final = b""
MOST_LOCKS = 4 << 20
AT_ONCE = 10_000
REMEMBERED = 1 << 17


class Locker:
    """One session as a holder of locks. `keys` in the order they were taken."""

    __slots__ = ("keys", "wants", "woken")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.wants: bytes | None = None
        self.woken: threading.Event | None = None

    def wake(self) -> None:
        """Have it look around; any thread."""
        woken = self.woken
        if woken is not None:
            woken.set()


class RowLocks:
    """Thread-safe. `unwaiting` is the thread (its ident) that must never wait here."""

    def __init__(self, most: int = MOST_LOCKS, remembered: int = REMEMBERED) -> None:
        self.unwaiting = 0
        self.now = 0
        self.waits = 0
        self._most = most
        self._lock = threading.Lock()
        self._held: dict[bytes, Locker] = {}
        self._queues: dict[bytes, deque[Locker]] = {}
        self._remembered = remembered
        self._changed: dict[int, int] = {}  # hash of a key (64 bits) -> number of its release
        self._changed_before: dict[int, int] = {}  # the same, older
        self._forgotten = 0  # the last number of which nothing is remembered
        self._young_since = 0  # the last number in `_changed_before`

    def __len__(self) -> int:
        return len(self._held)

    def take(self, locker: Locker, keys: Sequence[bytes], seen: int) -> bytes | None:
        """Take the keys. None: they are as a snapshot of `seen` showed them; STALE: taken, but
        they may have changed; else the first key that is another's.

        Many keys are taken some at a time; those before the other's key are kept then."""
        before = len(locker.keys)
        for start in range(0, len(keys), AT_ONCE):
            blocked = self._take(locker, keys[start : start + AT_ONCE])
            if blocked is not None:
                return blocked
        return STALE if self._any_changed(locker.keys[before:], seen) else None

    def _take(self, locker: Locker, keys: Sequence[bytes]) -> bytes | None:
        held = self._held
        with self._lock:
            for key in keys:
                if held.get(key, locker) is not locker:
                    return key
            for key in keys:
                if key not in held and len(held) < self._most:
                    held[key] = locker
                    locker.keys.append(key)
        return None

    def _any_changed(self, newly: Sequence[bytes], seen: int) -> bool:
        """Whether one of these was let go by a commit since then."""
        if not newly or seen == self.now:
            return False
        with self._lock:
            if seen < self._forgotten:
                return True
            young, old = self._changed, self._changed_before
            for key in map(hash, newly):
                if young.get(key, 0) > seen or old.get(key, 0) > seen:
                    return True
        return False

    def is_others(self, locker: Locker, key: bytes) -> bool:
        """Whether another locker holds the key now."""
        return self._held.get(key, locker) is not locker

    def holder(self, key: bytes) -> Locker | None:
        """Who holds the key now."""
        return self._held.get(key)

    def wait(self, locker: Locker, key: bytes, timeout_s: float, check: Callable[[], None]) -> None:
        """Wait until the key is the locker's, or free. `check` is called when it is woken.

        Raises 1205 when time is up, 1213 for the wait that would never end, WouldWait on the
        thread that must not wait."""
        if threading.get_ident() == self.unwaiting:
            raise WouldWait
        with self._lock:
            if not self.is_others(locker, key):
                return
            if self._closes_a_cycle(locker, key):
                raise refuse(1213)
            woken = locker.woken = threading.Event()
            locker.wants = key
            self._queues.setdefault(key, deque()).append(locker)
            self.waits += 1
        try:
            check()
            in_time = woken.wait(timeout_s)
            check()
        finally:
            was_given = self._stop_waiting(locker)
        if not (in_time or was_given):
            raise refuse(1205)

    def _closes_a_cycle(self, locker: Locker, key: bytes | None) -> bool:
        while key is not None:
            holder = self._held.get(key)
            if holder is None or holder is locker:
                return holder is locker
            key = holder.wants
        return False

    def _stop_waiting(self, locker: Locker) -> bool:
        """Leave the queue; True if the key was handed over meanwhile."""
        with self._lock:
            key, locker.wants, locker.woken = locker.wants, None, None
            if key is None:
                return True
            queue = self._queues[key]
            queue.remove(locker)
            if not queue:
                del self._queues[key]
            return False

    def release(self, locker: Locker, since: int = 0, committed: bool = False) -> None:
        """Let go of the keys taken after the first `since`. `committed`: they may have changed."""
        while len(locker.keys) > since:
            with self._lock:
                some = locker.keys[max(since, len(locker.keys) - AT_ONCE) :]
                del locker.keys[-len(some) :]
                if committed:
                    self._note(some)
                for key in some:
                    self._hand_over(key)

    def _note(self, keys: Sequence[bytes]) -> None:
        if len(self._changed) >= self._remembered:
            self._changed_before, self._changed = self._changed, {}
            self._forgotten, self._young_since = self._young_since, self.now
        self.now += 1
        self._changed.update(dict.fromkeys(map(hash, keys), self.now))

    def _hand_over(self, key: bytes) -> None:
        queue = self._queues.get(key)
        if queue is None:
            del self._held[key]
            return
        heir = queue.popleft()
        if not queue:
            del self._queues[key]
        self._held[key] = heir
        heir.keys.append(key)
        heir.wants = None
        heir.wake()
