"""Row locks of one front: who may change a key next, and who waits for it.

    take(locker, keys, seen)    all of them, or the first key that another locker holds
    wait(locker, key, ...)      until the key is handed over: first come, first served
    release(locker)             each key goes to the first that waits for it, or is free

    seen = now ---> snapshot ---> statement ---> take: a key let go after `seen` may have changed
                                                 since the snapshot: STALE, all is held, run again

Who holds what stands in the store's table of locks (kv/lock_table.py), so lockers of other fronts
are met there too, and the wait that would close a circle is refused (1213) wherever its edges lie.
A lock may be lost: what it promises is validated by the store where its holder commits (decision
039). So when there is no room for another one it is simply not taken. Nobody polls: a waiter sleeps
until the key is its own, its time is up, or `wake`; now and then it looks whether the holder's
process has ended, or its member was fenced.

`now` counts releases by commit, and each key let go by one is remembered with its number. A key
that the locker held before it looked cannot have changed since, so only keys newly taken are
asked about: a statement that is run again holds what it took, and ends however much others commit.
The memory is bounded: when `remembered` keys are younger, the older ones are forgotten all at once,
and a statement that looked before the last forgotten one is told STALE for any key it newly takes.
Of other fronts only the number of releases by commit is known (`commits_elsewhere`): if it moved,
keys newly taken are compared with a fresh snapshot (sql/statement/locks.py).
"""

import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, Protocol

from exuvia.base.errors import WouldWait
from exuvia.base.mysql_errors import ErrLockDeadlock, ErrLockWaitTimeout
from exuvia.kv.lock_server import LockHolder
from exuvia.kv.lock_table import (
    AT_ONCE,
    TABLE_BYTES,
    Alone,
    Fence,
    LockTable,
    WaitOutcome,
    hash_of,
)
from exuvia.kv.transaction import Transaction

STALE: Final = b""
MOST_LOCKS = 1 << 18
SHORT = 1_000
"""Locks that are let go within a millisecond or two."""
REMEMBERED = 1 << 17
LOOK_S = 0.25


def _no_fence() -> Fence:
    return b"", b""


class Waking(Protocol):
    """What a locker sleeps on."""

    def set(self) -> None:
        """Wake it."""


class Locker:
    """One session as a holder of locks. `keys` in the order they were taken.

    `tag`: what others see of it. `alone`: for one statement, whose commit follows at once; `holder`
    are its locks at the store's server (cluster/server_locks.py)."""

    __slots__ = ("_hashes", "alone", "holder", "keys", "number", "tag", "wants", "woken")

    def __init__(self, tag: int = 0) -> None:
        self.keys: list[bytes] = []
        self._hashes: list[int] = []
        self.number = 0
        self.tag = tag
        self.wants = 0
        self.woken: Waking | None = None
        self.alone = False
        self.holder: LockHolder | None = None

    def wake(self) -> None:
        """Have it look around; any thread."""
        woken = self.woken
        if woken is not None:
            woken.set()

    def add(self, keys: Sequence[bytes], hashes: Sequence[int]) -> None:
        """It was given these keys."""
        self.keys += keys
        self._hashes += hashes

    def has(self, hashed: int) -> bool:
        """Whether the key is among those it was given."""
        return hashed in self._hashes

    def remove_last(self, number: int) -> list[int]:
        """Hashes of the keys it took last, which are its no more."""
        some = self._hashes[-number:]
        del self.keys[-number:], self._hashes[-number:]
        return some

    def move_to_end(self, key: bytes) -> None:
        """The key is the next to be let go."""
        position = self.keys.index(key)
        self.keys.append(self.keys.pop(position))
        self._hashes.append(self._hashes.pop(position))


class RowLocks:
    """Thread-safe. `unwaiting` is the thread (its ident) that must never wait here.

    `fence`: the key of the store, and its payload, that end these locks once they differ."""

    def __init__(
        self,
        table: LockTable | None = None,
        fence: Callable[[], Fence] = _no_fence,
        most: int = MOST_LOCKS,
        remembered: int = REMEMBERED,
    ) -> None:
        self.unwaiting = 0
        self.now = 0
        self.waits = 0
        seat = None if table is None else table.join(self._woken, fence)
        if seat is None:  # no room for another front: its own sessions wait for each other
            seat = LockTable(bytearray(TABLE_BYTES), Alone(), lambda key: None).join(
                self._woken, _no_fence
            )
        assert seat is not None
        self._seat = seat
        self._most = most
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._held = 0
        self._waiting: dict[int, Locker] = {}
        self._remembered = remembered
        self._changed: dict[int, int] = {}  # hash of a key -> number of its release
        self._changed_before: dict[int, int] = {}  # the same, older
        self._forgotten = 0  # the last number of which nothing is remembered
        self._young_since = 0  # the last number in `_changed_before`

    def __len__(self) -> int:
        return self._held

    def commits_elsewhere(self, locker: Locker) -> int:
        """Moves whenever another front lets go of locks by a commit."""
        return self._seat.others_commits

    def judged(self, locker: Locker, txn: Transaction) -> Sequence[bytes]:
        """Keys that its commit has to find free of others' locks."""
        return ()

    def close(self) -> None:
        """The front is going: its locks are free."""
        self._seat.leave()

    def take(
        self, locker: Locker, keys: Sequence[bytes], seen: int, shared: bool = False
    ) -> bytes | None:
        """Take the keys. None: they are as a snapshot of `seen` showed them, as far as this front
        knows; STALE: taken, but they may have changed; else the first key that is another's.

        Many keys are taken some at a time; those before the other's key are kept then. `shared`:
        others may take them likewise."""
        newly: list[int] = []
        for start in range(0, len(keys), AT_ONCE):
            blocked = self._take(locker, keys[start : start + AT_ONCE], newly, shared)
            if blocked is not None:
                return blocked
        return STALE if self._any_changed(newly, seen) else None

    def _take(
        self, locker: Locker, keys: Sequence[bytes], newly: list[int], shared: bool
    ) -> bytes | None:
        if not locker.number:
            locker.number = next(self._numbers)
        hashes = [hash_of(key) for key in keys]
        room = max(0, self._most - self._held)
        if room < len(keys):
            for key, hashed in zip(keys[room:], hashes[room:], strict=True):
                if self._seat.other(locker.number, hashed, shared) is not None:
                    return key
            keys, hashes = keys[:room], hashes[:room]
        blocked, taken = self._seat.take(locker.number, hashes, locker.tag, shared)
        if blocked >= 0:
            return keys[blocked]
        if taken:
            if len(taken) < len(keys):
                keys, hashes = [keys[n] for n in taken], [hashes[n] for n in taken]
            locker.add(keys, hashes)
            newly += hashes
            with self._lock:
                self._held += len(taken)
        return None

    def _any_changed(self, newly: Sequence[int], seen: int) -> bool:
        """Whether one of these was let go by a commit since then."""
        if not newly or seen == self.now:
            return False
        with self._lock:
            if seen < self._forgotten:
                return True
            young, old = self._changed, self._changed_before
            return any(young.get(key, 0) > seen or old.get(key, 0) > seen for key in newly)

    def is_others(self, locker: Locker, key: bytes, shared: bool = False) -> bool:
        """Whether another locker holds the key now, in the way of who wants it alone or shared."""
        return self._seat.other(locker.number, hash_of(key), shared) is not None

    def others(self, locker: Locker, shared: bool) -> Callable[[bytes], bool]:
        """`is_others` of many keys, for one statement."""
        return lambda key: self.is_others(locker, key, shared)

    def is_held_here(self, locker: Locker, key: bytes) -> bool:
        """Whether another locker of this host holds the key."""
        return self._seat.other(locker.number, hash_of(key)) is not None

    def tag_of(self, key: bytes) -> int | None:
        """The tag of who holds the key now."""
        held = self._seat.other(0, hash_of(key))
        return None if held is None else held[1]

    @property
    def waiting(self) -> int:
        """Lockers of this process that wait, or are about to."""
        return len(self._waiting)

    def is_queued(self, locker: Locker) -> bool:
        """Whether others see in the table that it waits."""
        return self._seat.is_queued(locker.number)

    # -- waiting ---------------------------------------------------------------------------------

    def wait(
        self,
        locker: Locker,
        key: bytes,
        timeout_s: float,
        check: Callable[[], None],
        shared: bool = False,
    ) -> None:
        """Wait until the key is the locker's, or free. `check` is called when it is woken.

        Raises 1205 when time is up, 1213 for the wait that would never end, WouldWait on the
        thread that must not wait."""
        self._may_wait()
        if not locker.number:
            locker.number = next(self._numbers)
        seat, number, hashed = self._seat, locker.number, hash_of(key)
        woken = locker.woken = threading.Event()
        with self._lock:
            self._waiting[number], locker.wants = locker, hashed
        found, given, ended = WaitOutcome.FREE, False, True
        try:
            found = seat.wait(number, hashed, locker.tag, shared)
            if found is WaitOutcome.CIRCLE:
                raise ErrLockDeadlock()
            if found is WaitOutcome.WAITS:
                self.waits += 1
                check()
                ended = self._sleep(
                    woken, timeout_s, check, lambda: seat.is_over(number, hashed, shared)
                )
        finally:
            with self._lock:
                del self._waiting[number]
                locker.wants, locker.woken = 0, None
            if found is WaitOutcome.WAITS and seat.stop_waiting(number, hashed, shared):
                given = True
                if not locker.has(hashed):  # else it was shared, and is its own alone now
                    locker.add([key], [hashed])
                    with self._lock:
                        self._held += 1
        if not (ended or given):
            raise ErrLockWaitTimeout()

    def sleep(self, locker: Locker, seconds: float, check: Callable[[], None]) -> None:
        """Wait so long, or until `check` raises when the locker is woken. Raises WouldWait."""
        self._may_wait()
        locker.woken = threading.Event()
        try:
            check()
            self._sleep(locker.woken, seconds, check, lambda: False)
        finally:
            locker.woken = None

    def is_unwaiting(self) -> bool:
        """Whether this is the thread that must never wait."""
        return threading.get_ident() == self.unwaiting

    def _may_wait(self) -> None:
        if self.is_unwaiting():
            raise WouldWait

    def _sleep(
        self,
        woken: threading.Event,
        timeout_s: float,
        check: Callable[[], None],
        is_over: Callable[[], bool],
    ) -> bool:
        """Whether it was over in time."""
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            if woken.wait(min(left_s, LOOK_S)):
                woken.clear()
                check()
            if is_over():
                return True
        check()
        return False

    def _woken(self, number: int, key: int) -> None:
        """The table has handed over a key to a locker of this front."""
        with self._lock:
            locker = self._waiting.get(number)
        if locker is not None and locker.wants == key:
            locker.wake()

    # -- letting go ------------------------------------------------------------------------------

    def release(self, locker: Locker, since: int = 0, committed: bool = False) -> None:
        """Let go of the keys taken after the first `since`. `committed`: they may have changed."""
        while (left := len(locker.keys) - since) > 0:
            some = locker.remove_last(min(left, AT_ONCE))
            with self._lock:
                self._held -= len(some)
                if committed:
                    if len(self._changed) >= self._remembered:
                        self._changed_before, self._changed = self._changed, {}
                        self._forgotten, self._young_since = self._young_since, self.now
                    self.now += 1
                    self._changed.update(dict.fromkeys(some, self.now))
            self._seat.release(locker.number, some, committed)
