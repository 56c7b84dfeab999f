"""Locks that the store's server keeps, for lockers of all hosts.

A holder is one session of the server's: what it holds goes with it, and who waits for whom is the
server's to know, so a circle is found wherever its edges lie. As in the table of locks of one host
(kv/lock_table.py) nothing here is for safety: a lock that is lost, or found no room, is judged by
the commit (decision 039). A key is its 64-bit hash.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class HeldKey(NamedTuple):
    """A key that some session holds. `tag`: what the locker says of itself; `epoch`: its member's,
    0 where it has none."""

    key: int
    exclusive: bool
    tag: int
    session: int
    epoch: int


class Looks(NamedTuple):
    """What who waits does meanwhile: `look` is called when the descriptor `woken` can be read, and
    every so many seconds. What it raises ends the wait."""

    woken: int
    look: Callable[[], None]
    every_s: float


class LockHolder(Protocol):
    """What one locker holds. For one thread at a time. Its session is given back by `release_all`,
    and taken by the next locker."""

    session: int

    def has(self, key: int, shared: bool = False) -> bool:
        """Whether it holds the key, alone unless `shared`."""

    def take(self, keys: Sequence[int], shared: bool) -> int:
        """Position of the first key that is another's, -1 without; all others are taken. Where
        there is no room none is, and what was held may be lost."""

    def wait(self, key: int, shared: bool, timeout_s: float, looks: Looks) -> bool:
        """Wait in the key's queue; whether it was given. Raises 1213."""

    def release(self, keys: Sequence[int]) -> None:
        """Let go of some."""

    def release_all(self) -> None:
        """Let go of all, and give the session back."""


class LockServer(Protocol):
    """Thread-safe."""

    def holder(self, tag: int, epoch: int) -> LockHolder | None:
        """For a locker that is to take its first key; None: there is no room."""

    def held(self, keys: Sequence[int] | None) -> list[HeldKey]:
        """Who holds these, or any (None): an item for each key and who holds it."""

    def waits(self, session: int) -> bool:
        """Whether that session waits in a queue."""

    def end(self, session: int) -> None:
        """End a session of a member that was fenced: all it holds is free."""
