"""Row locks of a front whose store has a lock server for all hosts (kv/lock_server.py).

    a transaction            takes its locks at the server, in one more round trip for each
                             statement that locks. It waits there, and cycles are detected there
    a statement alone        takes its locks in this process (RowLocks) until its commit. The commit
                             checks whether the server has granted one of the keys to another
                             session. If so, or if it lost a race, it locks at the server, too

Statements that only lock, and queries for the holders of locks, use the server. The locks of a
session at the server end with its connection. Without them, or if the server is full, only the
commit detects conflicts (decision 039).
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

from exuvia.base.errors import Unavailable
from exuvia.base.mysql_errors import ErrLockWaitTimeout
from exuvia.cluster.row_locks import Locker, RowLocks
from exuvia.kv import keys as k
from exuvia.kv.lock_server import LockHolder, LockServer, Looks
from exuvia.kv.lock_table import Fence, hash_of
from exuvia.kv.store import Store
from exuvia.kv.transaction import BEGINNING, Transaction

LOOK_S = 5.0
"""Seconds between checks of a waiter whether the key's holder has been fenced."""


def row_locks_of(store: Store, fence: Callable[[], Fence]) -> RowLocks:
    """The row locks of a front on this store; `fence` as in RowLocks."""
    server = store.lock_server()
    if server is None:
        return RowLocks(store.lock_table(), fence)
    return ServerRowLocks(server, store, fence)


class DescriptorEvent:
    """Like threading.Event, but it has a descriptor, so that it can be polled with a socket."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._mutex = threading.Lock()

    def set(self) -> None:
        """Any thread, also after `close`."""
        with self._mutex:
            if self.descriptor >= 0:
                os.eventfd_write(self.descriptor, 1)

    def clear(self) -> None:
        """Reset the event; allowed if it is not set."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)

    def close(self) -> None:
        """Close the descriptor; later calls of `set` do nothing."""
        with self._mutex:
            os.close(self.descriptor)
            self.descriptor = -1


class ServerRowLocks(RowLocks):
    """RowLocks that use the store's lock server, except for statements that lock alone."""

    def __init__(self, server: LockServer, store: Store, fence: Callable[[], Fence]) -> None:
        super().__init__(store.lock_table(), fence)
        self._server = server
        self._store = store
        self._fence = fence
        self._ever = count(1)
        self._here = 0  # keys held at the server
        self._counting = threading.Lock()

    def __len__(self) -> int:
        return super().__len__() + self._here

    def commits_elsewhere(self, locker: Locker) -> int:
        """Always changes for a transaction, so that its newly taken keys are compared.

        Releases on other hosts are not counted."""
        return 0 if locker.alone else next(self._ever)

    def judged(self, locker: Locker, txn: Transaction) -> Sequence[bytes]:
        touched = txn.touched_since(0, BEGINNING)
        holder = locker.holder
        return touched if holder is None else [e for e in touched if not holder.has(hash_of(e))]

    # -- taking ----------------------------------------------------------------------------------

    def take(
        self, locker: Locker, keys: Sequence[bytes], as_of: int, shared: bool = False
    ) -> bytes | None:
        if locker.alone:
            return super().take(locker, keys, as_of, shared)
        if not keys:
            return None
        holder = self._holder(locker)
        if holder is None:
            return None
        before = {key for key in keys if holder.has(hash_of(key), shared=True)}
        try:
            blocked = holder.take([hash_of(key) for key in keys], shared)
        except Unavailable:
            self._let_go(locker)
            raise
        newly = [key for key in keys if key not in before and holder.has(hash_of(key), shared=True)]
        self._add(locker, newly)
        return None if blocked < 0 else keys[blocked]

    def _holder(self, locker: Locker) -> LockHolder | None:
        if locker.holder is None:
            epoch = k.read_number(self._fence()[1])
            locker.holder = self._server.holder(locker.tag, epoch)
        return locker.holder

    def _add(self, locker: Locker, keys: Sequence[bytes]) -> None:
        locker.add(keys, [hash_of(key) for key in keys])
        with self._counting:
            self._here += len(keys)

    def is_others(self, locker: Locker, key: bytes, shared: bool = False) -> bool:
        if locker.alone and super().is_others(locker, key, shared):
            return True
        mine = 0 if locker.holder is None else locker.holder.session
        holders = self._server.held([hash_of(key)])
        return any(lock.session != mine and (lock.exclusive or not shared) for lock in holders)

    def others(self, locker: Locker, shared: bool) -> Callable[[bytes], bool]:
        mine = 0 if locker.holder is None else locker.holder.session
        taken_by = {
            lock.key
            for lock in self._server.held(None)
            if lock.session != mine and (lock.exclusive or not shared)
        }
        here = super().is_others if locker.alone else None

        def is_others(key: bytes) -> bool:
            return hash_of(key) in taken_by or (here is not None and here(locker, key, shared))

        return is_others

    def tag_of(self, key: bytes) -> int | None:
        locks = self._server.held([hash_of(key)])
        return locks[0].tag if locks else None

    def is_queued(self, locker: Locker) -> bool:
        holder = locker.holder
        if locker.alone or holder is None:
            return super().is_queued(locker)
        return self._server.waits(holder.session)

    # -- waiting ---------------------------------------------------------------------------------

    def wait(
        self,
        locker: Locker,
        key: bytes,
        timeout_s: float,
        check: Callable[[], None],
        shared: bool = False,
    ) -> None:
        if locker.alone and super().is_others(locker, key, shared):
            super().wait(locker, key, timeout_s, check, shared)
            return
        self._may_wait()
        if locker.alone:
            self.release(locker)
            locker.alone = False
        holder = self._holder(locker)
        if holder is None:
            return
        woken = locker.woken = DescriptorEvent()

        def look() -> None:
            woken.clear()
            check()
            if time.monotonic() - looked_at[0] >= LOOK_S:
                looked_at[0] = time.monotonic()
                self._end_fenced(hashed)

        looked_at = [time.monotonic()]
        hashed, granted = hash_of(key), False
        had = holder.has(hashed, shared=True)
        self.waits += 1
        try:
            check()
            granted = holder.wait(hashed, shared, timeout_s, Looks(woken.descriptor, look, LOOK_S))
        except Unavailable:
            self._let_go(locker)
            raise
        finally:
            locker.woken = None
            woken.close()
            if holder.has(hashed, shared=True) and not had:
                self._add(locker, [key])
        if not granted:
            check()
            raise ErrLockWaitTimeout()

    def _end_fenced(self, hashed: int) -> None:
        """Release the locks of fenced members on this key."""
        locks = self._server.held([hashed])
        with self._store.read() as txn:
            fences = txn.scan(k.span_of(k.meta("fence")))
            valid = {k.read_number(payload) for _, payload in fences}
        for lock in locks:
            if lock.epoch and lock.epoch not in valid:
                self._server.end(lock.session)

    # -- releasing -------------------------------------------------------------------------------

    def release(self, locker: Locker, since: int = 0, committed: bool = False) -> None:
        holder = locker.holder
        if holder is None:
            super().release(locker, since, committed)
            return
        remaining = len(locker.keys) - since
        if remaining <= 0 and since:
            return
        with self._counting:
            self._here -= remaining
        hashes = locker.remove_last(remaining) if remaining > 0 else []
        if since:
            holder.release(hashes)
        else:
            locker.holder = None
            holder.release_all()

    def _let_go(self, locker: Locker) -> None:
        """Record that its connection, and with it all its locks, is lost."""
        self.release(locker)
