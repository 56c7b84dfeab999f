"""Row locks of one front: which session may change a key next, and the queue of waiters.

    take(locker, keys, as_of)   all of them, or the first key that another locker holds
    wait(locker, key, ...)      until the key is handed over: first come, first served
    release(locker)             each key goes to its first waiter, or is free

    as_of = now --> snapshot ---> statement ---> take: a key released after `as_of` may have changed
                                                 since the snapshot: STALE, all is held, run again

The owners of locks are recorded in the store's lock table (kv/lock_table.py), which fronts share. A
wait that would close a cycle is refused with 1213, even if the cycle spans several fronts. A lock
may be lost, because the store validates every commit (decision 039). If the table is full, the lock
is therefore not taken. Waiters do not poll: they sleep until the key is handed over, the timeout or
`wake`. Every LOOK_S they check whether the holder's process has ended or its member was fenced.

`now` counts releases by commit; each released key is remembered with its number. A key that the
locker held before its snapshot cannot have changed since, so only newly taken keys are checked. A
repeated statement keeps its locks and therefore ends, however often others commit. The memory is
bounded: after `remembered` newer keys the older ones are forgotten together. A statement whose
snapshot is older than the last forgotten number gets STALE for every newly taken key. For other
fronts only the number of releases by commit is available (`commits_elsewhere`). If it changed,
newly taken keys are compared with a fresh snapshot (sql/statement/locks.py).
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
"""Locks that are released within one or two milliseconds."""
REMEMBERED = 1 << 17
LOOK_S = 0.25


def _no_fence() -> Fence:
    return b"", b""


class Waking(Protocol):
    """The event on which a locker sleeps."""

    def set(self) -> None:
        """Wake it."""


class Locker:
    """One session as a holder of locks. `keys`: in the order in which they were taken.

    `tag`: its number in messages to others. `alone`: it locks for one statement, whose commit
    follows at once. `holder`: its locks at the store's lock server (cluster/server_locks.py)."""

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
        """Wake the waiter, so that it checks its state; any thread."""
        woken = self.woken
        if woken is not None:
            woken.set()

    def add(self, keys: Sequence[bytes], hashes: Sequence[int]) -> None:
        """Record keys that were granted to it."""
        self.keys += keys
        self._hashes += hashes

    def has(self, hashed: int) -> bool:
        """Whether the key with this hash was granted to it."""
        return hashed in self._hashes

    def remove_last(self, number: int) -> list[int]:
        """Remove the keys taken last. Returns their hashes."""
        some = self._hashes[-number:]
        del self.keys[-number:], self._hashes[-number:]
        return some

    def move_to_end(self, key: bytes) -> None:
        """Make this key the next one to be released."""
        position = self.keys.index(key)
        self.keys.append(self.keys.pop(position))
        self._hashes.append(self._hashes.pop(position))


class RowLocks:
    """The row locks of a front. Thread-safe.

    `unwaiting`: the ident of the thread that must never wait here. `fence`: a key of the store and
    its value; the locks become invalid when the value changes."""

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
        if seat is None:  # the table is full: only sessions of this front wait for each other
            seat = LockTable(bytearray(TABLE_BYTES), Alone(), lambda key: None).join(
                self._woken, _no_fence
            )
        assert seat is not None
        self._seat = seat
        self._most = most
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._lock_count = 0
        self._waiting: dict[int, Locker] = {}
        self._remembered = remembered
        self._changed: dict[int, int] = {}  # hash of a key -> number of its release
        self._changed_before: dict[int, int] = {}  # the same, for older releases
        self._forgotten = 0  # up to this number, releases are forgotten
        self._young_since = 0  # the last number in `_changed_before`

    def __len__(self) -> int:
        return self._lock_count

    def commits_elsewhere(self, locker: Locker) -> int:
        """A number that changes whenever another front releases locks by a commit."""
        return self._seat.others_commits

    def judged(self, locker: Locker, txn: Transaction) -> Sequence[bytes]:
        """Keys for which the commit must check that no other session has locked them."""
        return ()

    def close(self) -> None:
        """Leave the table: all locks of this front become free."""
        self._seat.leave()

    def take(
        self, locker: Locker, keys: Sequence[bytes], as_of: int, shared: bool = False
    ) -> bytes | None:
        """Take the keys. `shared`: other sessions may take them shared, too.

        Returns None if they are unchanged since the snapshot of `as_of`, as far as known.
        Returns STALE if they were taken but may have changed. Otherwise returns the first key that
        another session holds; the keys before it stay locked if they are in an earlier batch of
        AT_ONCE keys."""
        newly: list[int] = []
        for start in range(0, len(keys), AT_ONCE):
            blocked = self._take(locker, keys[start : start + AT_ONCE], newly, shared)
            if blocked is not None:
                return blocked
        return STALE if self._any_changed(newly, as_of) else None

    def _take(
        self, locker: Locker, keys: Sequence[bytes], newly: list[int], shared: bool
    ) -> bytes | None:
        if not locker.number:
            locker.number = next(self._numbers)
        hashes = [hash_of(key) for key in keys]
        room = max(0, self._most - self._lock_count)
        if room < len(keys):
            for key, hashed in zip(keys[room:], hashes[room:], strict=True):
                if self._seat.other(locker.number, hashed, shared) is not None:
                    return key
            keys, hashes = keys[:room], hashes[:room]
        blocked, positions = self._seat.take(locker.number, hashes, locker.tag, shared)
        if blocked >= 0:
            return keys[blocked]
        if positions:
            if len(positions) < len(keys):
                keys, hashes = [keys[n] for n in positions], [hashes[n] for n in positions]
            locker.add(keys, hashes)
            newly += hashes
            with self._lock:
                self._lock_count += len(positions)
        return None

    def _any_changed(self, newly: Sequence[int], since: int) -> bool:
        """Whether a commit has released one of these keys after that number."""
        if not newly or since == self.now:
            return False
        with self._lock:
            if since < self._forgotten:
                return True
            young, old = self._changed, self._changed_before
            return any(young.get(key, 0) > since or old.get(key, 0) > since for key in newly)

    def is_others(self, locker: Locker, key: bytes, shared: bool = False) -> bool:
        """Whether another session's lock on the key prevents this one, exclusive or shared."""
        return self._seat.other(locker.number, hash_of(key), shared) is not None

    def others(self, locker: Locker, shared: bool) -> Callable[[bytes], bool]:
        """Returns a function like `is_others` for many keys of one statement."""
        return lambda key: self.is_others(locker, key, shared)

    def is_held_here(self, locker: Locker, key: bytes) -> bool:
        """Whether another session of this host holds the key."""
        return self._seat.other(locker.number, hash_of(key)) is not None

    def tag_of(self, key: bytes) -> int | None:
        """The tag of the session that holds the key, or None."""
        owner = self._seat.other(0, hash_of(key))
        return None if owner is None else owner[1]

    @property
    def waiting(self) -> int:
        """Number of sessions of this process that wait, or are about to."""
        return len(self._waiting)

    def is_queued(self, locker: Locker) -> bool:
        """Whether the shared table shows that it waits."""
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
        """Wait until the key is handed over, or free. `check` is called at each wake-up.

        Raises 1205 after the timeout, 1213 if the wait would close a cycle, WouldWait on the thread
        that must not wait."""
        self._may_wait()
        if not locker.number:
            locker.number = next(self._numbers)
        seat, number, hashed = self._seat, locker.number, hash_of(key)
        woken = locker.woken = threading.Event()
        with self._lock:
            self._waiting[number], locker.wants = locker, hashed
        outcome, granted, ended = WaitOutcome.FREE, False, True
        try:
            outcome = seat.wait(number, hashed, locker.tag, shared)
            if outcome is WaitOutcome.CIRCLE:
                raise ErrLockDeadlock()
            if outcome is WaitOutcome.WAITS:
                self.waits += 1
                check()
                ended = self._sleep(
                    woken, timeout_s, check, lambda: seat.is_over(number, hashed, shared)
                )
        finally:
            with self._lock:
                del self._waiting[number]
                locker.wants, locker.woken = 0, None
            if outcome is WaitOutcome.WAITS and seat.stop_waiting(number, hashed, shared):
                granted = True
                if not locker.has(hashed):  # else it had a shared lock, which is now exclusive
                    locker.add([key], [hashed])
                    with self._lock:
                        self._lock_count += 1
        if not (ended or granted):
            raise ErrLockWaitTimeout()

    def sleep(self, locker: Locker, seconds: float, check: Callable[[], None]) -> None:
        """Wait this long, or until `check` raises at a wake-up. Raises WouldWait."""
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
        """Whether `is_over` became true before the timeout."""
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
        """To be called by the table when it has handed a key to a session of this front."""
        with self._lock:
            locker = self._waiting.get(number)
        if locker is not None and locker.wants == key:
            locker.wake()

    # -- releasing -------------------------------------------------------------------------------

    def release(self, locker: Locker, since: int = 0, committed: bool = False) -> None:
        """Release the keys taken after the first `since`. `committed`: they may have changed."""
        while (remaining := len(locker.keys) - since) > 0:
            some = locker.remove_last(min(remaining, AT_ONCE))
            with self._lock:
                self._lock_count -= len(some)
                if committed:
                    if len(self._changed) >= self._remembered:
                        self._changed_before, self._changed = self._changed, {}
                        self._forgotten, self._young_since = self._young_since, self.now
                    self.now += 1
                    self._changed.update(dict.fromkeys(some, self.now))
            self._seat.release(locker.number, some, committed)
