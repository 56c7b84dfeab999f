"""Row locks of a front whose store has a server that keeps locks for all hosts (kv/lock_server.py).

    a transaction            its locks are the server's: each statement that takes some is one round
                             trip more; it waits there, and circles are found there
    a statement alone        takes them in this process (RowLocks), for no longer than its commit,
                             and its commit finds out whether the server has given one to somebody
                             else: then, and where it lost a race, it takes the server's too

A statement that only locks, or asks who holds what, asks the server. What a locker was given there
goes with its connection; then, and where the server has no room, the commit decides (decision 039).
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
"""Between looks of who waits whether who holds the key has been fenced."""


def row_locks_of(store: Store, fence: Callable[[], Fence]) -> RowLocks:
    """Those of a front on this store; `fence` as in RowLocks."""
    server = store.lock_server()
    if server is None:
        return RowLocks(store.lock_table(), fence)
    return ServerRowLocks(server, store, fence)


class DescriptorEvent:
    """As threading.Event, to be polled beside a socket."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._mutex = threading.Lock()

    def set(self) -> None:
        """Any thread, also after the end."""
        with self._mutex:
            if self.descriptor >= 0:
                os.eventfd_write(self.descriptor, 1)

    def clear(self) -> None:
        """What woke was seen, if anything did."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)

    def close(self) -> None:
        """No more is heard."""
        with self._mutex:
            os.close(self.descriptor)
            self.descriptor = -1


class ServerRowLocks(RowLocks):
    """See the module."""

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
        """Of other hosts nothing is known: what a transaction has taken is compared."""
        return 0 if locker.alone else next(self._ever)

    def judged(self, locker: Locker, txn: Transaction) -> Sequence[bytes]:
        touched = txn.touched_since(0, BEGINNING)
        holder = locker.holder
        return touched if holder is None else [e for e in touched if not holder.has(hash_of(e))]

    # -- taking ----------------------------------------------------------------------------------

    def take(
        self, locker: Locker, keys: Sequence[bytes], seen: int, shared: bool = False
    ) -> bytes | None:
        if locker.alone:
            return super().take(locker, keys, seen, shared)
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
        found = self._server.held([hash_of(key)])
        return any(each.session != mine and (each.exclusive or not shared) for each in found)

    def others(self, locker: Locker, shared: bool) -> Callable[[bytes], bool]:
        mine = 0 if locker.holder is None else locker.holder.session
        held = {
            each.key
            for each in self._server.held(None)
            if each.session != mine and (each.exclusive or not shared)
        }
        here = super().is_others if locker.alone else None

        def is_others(key: bytes) -> bool:
            return hash_of(key) in held or (here is not None and here(locker, key, shared))

        return is_others

    def tag_of(self, key: bytes) -> int | None:
        found = self._server.held([hash_of(key)])
        return found[0].tag if found else None

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
            if time.monotonic() - asked[0] >= LOOK_S:
                asked[0] = time.monotonic()
                self._end_fenced(hashed)

        asked = [time.monotonic()]
        hashed, given = hash_of(key), False
        had = holder.has(hashed, shared=True)
        self.waits += 1
        try:
            check()
            given = holder.wait(hashed, shared, timeout_s, Looks(woken.descriptor, look, LOOK_S))
        except Unavailable:
            self._let_go(locker)
            raise
        finally:
            locker.woken = None
            woken.close()
            if holder.has(hashed, shared=True) and not had:
                self._add(locker, [key])
        if not given:
            check()
            raise ErrLockWaitTimeout()

    def _end_fenced(self, hashed: int) -> None:
        """What members hold that were fenced is nobody's."""
        held = self._server.held([hashed])
        with self._store.read() as txn:
            fences = txn.scan(k.span_of(k.meta("fence")))
            standing = {k.read_number(payload) for _, payload in fences}
        for each in held:
            if each.epoch and each.epoch not in standing:
                self._server.end(each.session)

    # -- letting go ------------------------------------------------------------------------------

    def release(self, locker: Locker, since: int = 0, committed: bool = False) -> None:
        holder = locker.holder
        if holder is None:
            super().release(locker, since, committed)
            return
        left = len(locker.keys) - since
        if left <= 0 and since:
            return
        with self._counting:
            self._here -= left
        hashes = locker.remove_last(left) if left > 0 else []
        if since:
            holder.release(hashes)
        else:
            locker.holder = None
            holder.release_all()

    def _let_go(self, locker: Locker) -> None:
        """Its session is lost, and all it held."""
        self.release(locker)
