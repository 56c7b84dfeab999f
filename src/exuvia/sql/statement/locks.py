"""The row locks of one statement, and the named locks of one session.

A statement that writes, or reads FOR UPDATE:

    look          notes the lock table's counter; then the snapshot is taken
    work          afterwards the keys of its writes and locking reads are known
    take          all locks acquired and keys unchanged: done
                  STALE: locks acquired, but another commit came in between: run it again
                  held by another: undo the statement, wait for that key, run it again

The statement reads the latest snapshot (a current read, as in InnoDB). So a wait for a row ends
with its new value and not with a conflict.

Rows read FOR SHARE are locked shared. An exclusive request waits for all shared holders, and a
shared request waits for earlier exclusive requests. Keys that are only required (parents of foreign
keys) are waited for but not locked; if the parent is deleted meanwhile, the commit detects it.

NOWAIT raises 3572 instead of waiting, WAIT n raises 1205 after n seconds. SKIP LOCKED leaves out
the keys of `others`. These override the session's setting.

A separate statement does not lock a row with an id that it was just given: no other session knows
the id before the commit. If another session has locked that key (an explicit id), it is waited for.
A lock request between the check and the commit is met by the commit (decision 039).

GET_LOCK and similar functions use named locks, which sessions of all nodes share, and SLEEP.

A named lock is held until its session has released it once for each GET_LOCK, or ends. Named locks
use the implementation of row locks with other keys. So waiting is first come, first served, without
polling, it can be killed, and a deadlock is refused (3058).
"""

from collections.abc import Callable

from exuvia.base.errors import Duplicate, Refused
from exuvia.base.mysql_errors import (
    ErrLockAcquireFailAndNoWaitSet,
    ErrLockDeadlock,
    ErrLockTableFull,
    ErrLockWaitTimeout,
    ErrTooLongIdent,
    ErrUserLockDeadlock,
    ErrUserLockWrongName,
)
from exuvia.cluster.row_locks import STALE, Locker, RowLocks
from exuvia.kv.packet import Snapshot
from exuvia.kv.transaction import BEGINNING, Expected, Transaction

LONGEST_NAME, LONGEST_WAIT_S = 64, 3600.0


class StatementLocks:
    """The row locks of one statement. `wait_s`: the limit of each wait; 0 means no wait."""

    __slots__ = (
        "_before",
        "_counter",
        "_locker",
        "_locks",
        "_new_keys",
        "_newest",
        "_others",
        "_shares",
        "_unkept",
        "wait_s",
    )

    def __init__(
        self, locks: RowLocks, locker: Locker, wait_s: float, newest: Callable[[], Snapshot]
    ) -> None:
        self._locks = locks
        self._newest = newest
        self._locker = locker
        self._before = len(locker.keys)
        self._new_keys: list[bytes] = []
        self._counter = self._others = 0
        self._shares = False  # whether the last blocked request was shared
        self._unkept = b""  # a key to wait for without locking it
        self.wait_s = wait_s

    def look(self) -> None:
        """Call it immediately before the snapshot is taken."""
        self._counter = self._locks.now
        self._others = self._locks.commits_elsewhere(self._locker)
        self._new_keys.clear()

    def add_new_key(self, key: bytes) -> None:
        """Records a row that a separate statement has written under an id it was just given.

        No other session knows the row before the commit."""
        self._new_keys.append(key)

    def others(self, shared: bool) -> Callable[[bytes], bool]:
        """A test for keys whose locks of other sessions block a shared or exclusive request."""
        return self._locks.others(self._locker, shared)

    def take(
        self, txn: Transaction, mark: int = 0, expecting: Expected = BEGINNING
    ) -> bytes | None:
        """Locks the keys that the statement has touched since then; see RowLocks.take."""
        before = len(self._locker.keys)
        if txn.shares:
            self._shares = True
            if required := txn.shared_since(expecting):
                blocking = next(filter(self.others(shared=True), required), None)
                if blocking is not None:
                    self._unkept = blocking
                    return blocking
            sharing = txn.sharing_since(expecting)
            if sharing:
                blocked = self._locks.take(self._locker, sharing, self._counter, shared=True)
                if blocked is not None:
                    return blocked
        self._shares = False
        keys = txn.touched_since(mark, expecting)
        if self._new_keys:
            new_keys = frozenset(self._new_keys)
            holds, locker = self._locks.is_held_here, self._locker
            keys = [key for key in keys if key not in new_keys or holds(locker, key)]
        blocked = self._locks.take(self._locker, keys, self._counter)
        if blocked is None and self._others != self._locks.commits_elsewhere(self._locker):
            # another front has committed: check the newly locked keys
            newly = self._locker.keys[before:]
            if not newly:
                return None
            view = self._newest()
            try:
                return STALE if txn.has_changed(newly, view) else None
            finally:
                view.close()
        return blocked

    def judge(self, duplicate: Duplicate, txn: Transaction) -> bytes | None:
        """The key to wait for before a 1062 is final; None if it is final."""
        self._shares = False
        if txn.is_private(duplicate.key):
            return None
        return (
            self._locks.take(self._locker, [duplicate.key], self._counter)
            if duplicate.key
            else None
        )

    def wait(self, key: bytes, check: Callable[[], None]) -> None:
        """Waits for a key of another session. Raises 1205, 1213, 3572, WouldWait, and `check`'s."""
        if key is STALE:
            return
        if self.wait_s <= 0:
            raise ErrLockAcquireFailAndNoWaitSet()
        self._locks.wait(self._locker, key, self.wait_s, check, self._shares)
        if key == self._unkept and self._locker.keys[-1:] == [key]:
            self._locks.release(self._locker, len(self._locker.keys) - 1)

    def give_back(self) -> None:
        """Releases the locks of this statement after it has failed."""
        self._locks.release(self._locker, self._before)


class NamedLocks:
    """The named locks of one session. `check` raises to end a wait."""

    def __init__(self, locks: RowLocks, connection_id: int, check: Callable[[], None]) -> None:
        self._locks = locks
        self._check = check
        self._counts: dict[bytes, int] = {}
        self.holder = Locker(tag=connection_id)

    def get(self, name: str | None, timeout_s: float) -> bool:
        """Acquires a lock; returns whether it was in time. Raises 3057, 1059, 3058, 1206, 1317."""
        key = _key(name)
        wait_s = LONGEST_WAIT_S if timeout_s < 0 else min(timeout_s, LONGEST_WAIT_S)
        try:
            if not self._take(key, wait_s):
                return False
        finally:
            if not self.holder.keys:  # frees the holder's slot for others
                self._locks.release(self.holder)
        self._counts[key] = self._counts.get(key, 0) + 1
        return True

    def _take(self, key: bytes, wait_s: float) -> bool:
        while self._locks.take(self.holder, [key], self._locks.now) is not None:
            try:
                self._locks.wait(self.holder, key, wait_s, self._check)
            except Refused as error:
                if error.code == ErrLockWaitTimeout.code:
                    return False
                raise (
                    ErrUserLockDeadlock() if error.code == ErrLockDeadlock.code else error
                ) from None
        if key not in self.holder.keys:  # the lock table is full
            raise ErrLockTableFull()
        return True

    def release(self, name: str | None) -> bool:
        """Releases a lock once; False if the session does not hold it."""
        key = _key(name)
        count = self._counts.get(key, 0)
        if count == 0:
            return False
        self._counts[key] = count - 1
        if count == 1:
            self._drop(key)
        return True

    def release_all(self) -> int:
        """Releases all locks; returns how many times they were acquired."""
        total = sum(self._counts.values())
        for key in list(self._counts):
            self._drop(key)
        return total

    def _drop(self, key: bytes) -> None:
        del self._counts[key]
        keys = self.holder.keys
        if key in keys:
            self.holder.move_to_end(key)
            self._locks.release(self.holder, len(keys) - 1)

    def user_of(self, name: str | None) -> int | None:
        """The connection that holds the lock."""
        return self._locks.tag_of(_key(name))

    def sleep(self, seconds: float) -> None:
        """Waits for this time, or until the statement is killed (1317)."""
        self._locks.sleep(self.holder, seconds, self._check)


def _key(name: str | None) -> bytes:
    if not name:
        raise ErrUserLockWrongName("NULL" if name is None else "")
    if len(name) > LONGEST_NAME:
        raise ErrTooLongIdent(name)
    return b"name " + name.lower().encode()
