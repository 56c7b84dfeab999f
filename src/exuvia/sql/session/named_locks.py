"""GET_LOCK and its kin: locks that have names, taken by sessions of any node, and SLEEP.

A lock is held until its session lets go of it as often as it took it, or ends. They are the row
locks' machine with other keys, so who waits is served first come, first served, never polls, can be
killed, and the wait that would never end is refused (3058).
"""

from collections.abc import Callable

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrLockDeadlock,
    ErrLockWaitTimeout,
    ErrTooLongIdent,
    ErrUserLockDeadlock,
    ErrUserLockWrongName,
)
from exuvia.cluster.row_locks import Locker, RowLocks

LONGEST_NAME, LONGEST_WAIT_S = 64, 3600.0


class NamedLocks:
    """Those of one session. `check` raises what ends a wait."""

    def __init__(self, locks: RowLocks, connection_id: int, check: Callable[[], None]) -> None:
        self._locks = locks
        self._check = check
        self._counts: dict[bytes, int] = {}
        self.holder = Locker(tag=connection_id)

    def get(self, name: str | None, timeout_s: float) -> bool:
        """Whether it was taken in time. Raises 3057, 1059, 3058, 1317."""
        key = _key(name)
        wait_s = LONGEST_WAIT_S if timeout_s < 0 else min(timeout_s, LONGEST_WAIT_S)
        if not self._take(key, wait_s):
            return False
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
        return True

    def release(self, name: str | None) -> bool:
        """Let go once; False where it is not this session's."""
        key = _key(name)
        count = self._counts.get(key, 0)
        if count == 0:
            return False
        self._counts[key] = count - 1
        if count == 1:
            self._drop(key)
        return True

    def release_all(self) -> int:
        """Let go of all; how many times they were taken."""
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
        """The connection that holds it."""
        return self._locks.tag_of(_key(name))

    def sleep(self, seconds: float) -> None:
        """Wait so long, or until the statement is killed (1317)."""
        self._locks.sleep(self.holder, seconds, self._check)


def _key(name: str | None) -> bytes:
    if not name:
        raise ErrUserLockWrongName("NULL" if name is None else "")
    if len(name) > LONGEST_NAME:
        raise ErrTooLongIdent(name)
    return b"name " + name.lower().encode()
