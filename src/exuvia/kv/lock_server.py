"""Interface of locks that the store's server keeps, for sessions on all hosts.

A holder is one session of the server: its locks end with it. The server knows which session waits
for which, so it detects every cycle. As with the lock table of one host (kv/lock_table.py), safety
does not depend on these locks. If one is lost, or refused for lack of room, the commit detects
conflicts (decision 039). A key is its 64-bit hash.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class HeldKey(NamedTuple):
    """A locked key. `tag`: the number that describes the locker to others.

    `epoch`: of the locker's member, or 0."""

    key: int
    exclusive: bool
    tag: int
    session: int
    epoch: int


class Looks(NamedTuple):
    """Checks of a waiter: `look` is called when the descriptor `woken` is readable, and at each
    interval `every_s`. Its errors end the wait."""

    woken: int
    look: Callable[[], None]
    every_s: float


class LockHolder(Protocol):
    """The locks of one locker. For one thread at a time.

    `release_all` gives its session back for the next locker."""

    session: int

    def has(self, key: int, shared: bool = False) -> bool:
        """Whether it holds the key, exclusively unless `shared`."""

    def take(self, keys: Sequence[int], shared: bool) -> int:
        """Lock all keys. Returns -1, or the position of the first key that another session holds.

        Without room for all, it takes no locks, and earlier ones may be lost."""

    def wait(self, key: int, shared: bool, timeout_s: float, looks: Looks) -> bool:
        """Wait in the key's queue. Returns whether the key was granted. Raises 1213."""

    def release(self, keys: Sequence[int]) -> None:
        """Release some keys."""

    def release_all(self) -> None:
        """Release all keys, and give the session back."""


class LockServer(Protocol):
    """A server that keeps locks. Thread-safe."""

    def holder(self, tag: int, epoch: int) -> LockHolder | None:
        """A holder for a locker that takes its first key, or None if there is no room."""

    def held(self, keys: Sequence[int] | None) -> list[HeldKey]:
        """The locks of these keys, or (None) all locks: one element per key and holder."""

    def waits(self, session: int) -> bool:
        """Whether that session waits in a queue."""

    def end(self, session: int) -> None:
        """End the session of a fenced member: its locks become free."""
