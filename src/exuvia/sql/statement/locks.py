"""The row locks of one statement, and the named locks of one session.

A statement that writes, or reads FOR UPDATE:

    look          `seen` is noted, then comes the snapshot
    work          what it wrote and read to keep is known afterwards, as keys
    take          all are ours and unchanged: done
                  STALE: they are ours, but something committed since: run it again
                  another's: undo the statement, wait for that key, run it again

A statement finds its rows on the newest snapshot (a current read, as in InnoDB), so that waiting
for a row ends in its new value and not in a conflict. What is read FOR SHARE is taken shared: many
hold it, who wants it alone waits for all of them, and who wants to share it waits behind who waits
to have it alone. Keys that are only required (the parents of foreign keys) are waited for likewise
and not taken; a parent that goes meanwhile is found by the commit. What it says of waiting
overrides the session's: NOWAIT is 3572 where it would wait, WAIT n is 1205 after n seconds, and
SKIP LOCKED leaves out what `others` says.

A row whose id was just given to a statement alone is not locked: who is to wait for it cannot know
of it yet. Where another holds that key already (an id of its own choice) it is waited for as ever.
Who comes to the key in the moment between is met by the commit (decision 039).

GET_LOCK and its kin: locks that have names, taken by sessions of any node, and SLEEP.

A lock is held until its session lets go of it as often as it took it, or ends. They are the row
locks' machine with other keys, so who waits is served first come, first served, never polls, can be
killed, and the wait that would never end is refused (3058).
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
    """See the module. `wait_s` is how long to wait for each lock; 0 is not at all."""

    __slots__ = (
        "_before",
        "_given",
        "_locker",
        "_locks",
        "_newest",
        "_others",
        "_seen",
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
        self._given: list[bytes] = []
        self._seen = self._others = 0
        self._shares = False  # what it last met in its way, it wanted to share
        self._unkept = b""  # it is waited for and not taken
        self.wait_s = wait_s

    def look(self) -> None:
        """To be called right before the snapshot is taken."""
        self._seen = self._locks.now
        self._others = self._locks.commits_elsewhere(self._locker)
        self._given.clear()

    def given(self, key: bytes) -> None:
        """A row that this statement, which is a transaction alone, has put under an id that was
        just given to it: nobody knows of the row before the commit."""
        self._given.append(key)

    def others(self, shared: bool) -> Callable[[bytes], bool]:
        """Which keys another session holds now, in the way of who wants them alone or shared."""
        return self._locks.others(self._locker, shared)

    def take(
        self, txn: Transaction, mark: int = 0, expecting: Expected = BEGINNING
    ) -> bytes | None:
        """Take what the statement touched since then; see RowLocks.take."""
        before = len(self._locker.keys)
        if txn.shares:
            self._shares = True
            if required := txn.shared_since(expecting):
                held = next(filter(self.others(shared=True), required), None)
                if held is not None:
                    self._unkept = held
                    return held
            sharing = txn.sharing_since(expecting)
            if sharing:
                blocked = self._locks.take(self._locker, sharing, self._seen, shared=True)
                if blocked is not None:
                    return blocked
        self._shares = False
        keys = txn.touched_since(mark, expecting)
        if self._given:
            given = frozenset(self._given)
            holds, locker = self._locks.is_held_here, self._locker
            keys = [key for key in keys if key not in given or holds(locker, key)]
        blocked = self._locks.take(self._locker, keys, self._seen)
        if blocked is None and self._others != self._locks.commits_elsewhere(self._locker):
            # another front has committed: whether it has changed what was newly taken
            newly = self._locker.keys[before:]
            if not newly:
                return None
            view = self._newest()
            try:
                return STALE if txn.has_changed(newly, view) else None
            finally:
                view.close()
        return blocked

    def judge(self, taken: Duplicate, txn: Transaction) -> bytes | None:
        """Whether a 1062 stands: None, or what to wait for before it can be said."""
        self._shares = False
        if txn.is_private(taken.key):
            return None
        return self._locks.take(self._locker, [taken.key], self._seen) if taken.key else None

    def wait(self, key: bytes, check: Callable[[], None]) -> None:
        """Wait for another's key. Raises 1205, 1213, 3572, WouldWait, what `check` raises."""
        if key is STALE:
            return
        if self.wait_s <= 0:
            raise ErrLockAcquireFailAndNoWaitSet()
        self._locks.wait(self._locker, key, self.wait_s, check, self._shares)
        if key == self._unkept and self._locker.keys[-1:] == [key]:
            self._locks.release(self._locker, len(self._locker.keys) - 1)

    def give_back(self) -> None:
        """Let go of what this statement took: it failed."""
        self._locks.release(self._locker, self._before)


class NamedLocks:
    """Those of one session. `check` raises what ends a wait."""

    def __init__(self, locks: RowLocks, connection_id: int, check: Callable[[], None]) -> None:
        self._locks = locks
        self._check = check
        self._counts: dict[bytes, int] = {}
        self.holder = Locker(tag=connection_id)

    def get(self, name: str | None, timeout_s: float) -> bool:
        """Whether it was taken in time. Raises 3057, 1059, 3058, 1206, 1317."""
        key = _key(name)
        wait_s = LONGEST_WAIT_S if timeout_s < 0 else min(timeout_s, LONGEST_WAIT_S)
        try:
            if not self._take(key, wait_s):
                return False
        finally:
            if not self.holder.keys:  # what it was to be held by is needed by others
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
        if key not in self.holder.keys:  # there was no room for it
            raise ErrLockTableFull()
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
